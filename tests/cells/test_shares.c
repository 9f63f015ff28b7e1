/* How rows are shared out to members that are not done at the same time: a batch at a time, with
 * members whose lateness and speed the test states. */
#include "cells/cpu/shares.h"

#include "base/random.h"
#include "tests/util.h"

enum { MEMBERS_MAX = 5, BATCHES = 200 };

struct team {
    struct base_arena arena;
    struct cell_shares shares;
    uint64_t late_ns[MEMBERS_MAX];
    uint64_t row_ns[MEMBERS_MAX];
};

static void team_init(struct team *team, uint32_t members)
{
    *team = (struct team){0};
    base_arena_init(&team->arena, 4096, 4096);
    ck_assert_int_eq(cell_shares_init(&team->shares, &team->arena, members), BASE_OK);
    for (uint32_t m = 0; m < members; m++) {
        team->row_ns[m] = 1000;
    }
}

static uint32_t rows_of(const struct team *team, uint32_t n_rows, uint32_t member)
{
    return cell_shares_border(&team->shares, n_rows, member + 1) -
           cell_shares_border(&team->shares, n_rows, member);
}

static uint64_t done_ns(const struct team *team, uint32_t n_rows, uint32_t member)
{
    return team->late_ns[member] + rows_of(team, n_rows, member) * team->row_ns[member];
}

static void run(struct team *team, uint32_t n_rows)
{
    uint64_t ns[MEMBERS_MAX];
    for (uint32_t m = 0; m < team->shares.members; m++) {
        ns[m] = done_ns(team, n_rows, m);
    }
    cell_shares_learn(&team->shares, n_rows, ns);
}

/* No member has less than a row, the last border is behind all rows. */
static void check_borders(const struct team *team, uint32_t n_rows)
{
    const uint32_t members = team->shares.members;
    ck_assert_uint_eq(cell_shares_border(&team->shares, n_rows, 0), 0);
    ck_assert_uint_eq(cell_shares_border(&team->shares, n_rows, members), n_rows);
    for (uint32_t m = 0; m < members; m++) {
        ck_assert_uint_ge(cell_shares_border(&team->shares, n_rows, m + 1),
                          cell_shares_border(&team->shares, n_rows, m) +
                              (n_rows >= members ? 1 : 0));
    }
}

/* All are done within the time of so many rows. */
static void check_together(const struct team *team, uint32_t n_rows, uint64_t most_rows)
{
    uint64_t first = UINT64_MAX;
    uint64_t last = 0;
    for (uint32_t m = 0; m < team->shares.members; m++) {
        const uint64_t ns = done_ns(team, n_rows, m);
        first = ns < first ? ns : first;
        last = ns > last ? ns : last;
    }
    ck_assert_uint_le(last - first, most_rows * 1000);
}

START_TEST(test_shares_are_even_at_first)
{
    struct team team;
    team_init(&team, (uint32_t)_i);
    for (uint32_t n_rows = 1; n_rows < 70; n_rows++) {
        check_borders(&team, n_rows);
        for (uint32_t m = 0; m < (uint32_t)_i; m++) {
            ck_assert_uint_eq(cell_shares_border(&team.shares, n_rows, m),
                              cell_shares_even((uint32_t)_i, n_rows, m));
            ck_assert_uint_le(rows_of(&team, n_rows, m), n_rows / (uint32_t)_i + 1);
        }
    }
    base_arena_release(&team.arena);
}
END_TEST

/* Whoever it is, and also where it has fewer than a row of work too many. When it is in time again,
 * shares are even again. */
START_TEST(test_a_late_member_takes_fewer)
{
    const uint32_t members = 2 + (uint32_t)_i / 2;
    struct team team;
    team_init(&team, members);
    const uint32_t late = _i % 2 == 0 ? 0 : members - 1;
    team.late_ns[late] = 9000;
    for (uint32_t b = 0; b < BATCHES; b++) {
        run(&team, 60);
        check_borders(&team, 60);
    }
    ck_assert_uint_lt(rows_of(&team, 60, late), 60 / members - 2);
    check_together(&team, 60, 3);
    team.late_ns[late] = 0;
    for (uint32_t b = 0; b < BATCHES; b++) {
        run(&team, 60);
    }
    check_together(&team, 60, 2);
    base_arena_release(&team.arena);
}
END_TEST

START_TEST(test_a_slow_member_takes_fewer)
{
    struct team team;
    team_init(&team, 3);
    team.row_ns[1] = 2000;
    for (uint32_t b = 0; b < BATCHES; b++) {
        run(&team, 64);
    }
    ck_assert_uint_ge(rows_of(&team, 64, 1), 12);
    ck_assert_uint_le(rows_of(&team, 64, 1), 14);
    check_together(&team, 64, 4);
    base_arena_release(&team.arena);
}
END_TEST

/* One that is later than all others need together still has a row, from which it is seen when it
 * comes in time again. */
START_TEST(test_every_member_keeps_a_row)
{
    struct team team;
    team_init(&team, 2);
    team.late_ns[1] = 1000000;
    for (uint32_t b = 0; b < BATCHES; b++) {
        run(&team, 10);
    }
    ck_assert_uint_eq(rows_of(&team, 10, 1), 1);
    for (uint32_t n_rows = 1; n_rows < 70; n_rows++) {
        check_borders(&team, n_rows); // also of fewer rows than it is behind by
    }
    team.late_ns[1] = 0;
    for (uint32_t b = 0; b < BATCHES; b++) {
        run(&team, 10);
    }
    ck_assert_uint_eq(rows_of(&team, 10, 1), 5);
    base_arena_release(&team.arena);
}
END_TEST

/* A member that was off its CPU for once. */
START_TEST(test_one_batch_changes_little)
{
    struct team team;
    team_init(&team, 2);
    team.late_ns[0] = 4000000;
    run(&team, 64);
    ck_assert_uint_ge(rows_of(&team, 64, 0), 31);
    base_arena_release(&team.arena);
}
END_TEST

/* Rows that changed their member would take their state along: what goes up and down by less than a
 * row moves no border. */
START_TEST(test_borders_stay)
{
    struct base_random random = util_random(3);
    struct team team;
    team_init(&team, 2);
    for (uint32_t b = 0; b < BATCHES; b++) {
        team.late_ns[0] = 5500 + base_random_below(&random, 2000);
        run(&team, 40);
    }
    uint32_t moves = 0;
    for (uint32_t b = 0; b < BATCHES; b++) {
        const uint32_t before = rows_of(&team, 40, 0);
        team.late_ns[0] = 5500 + base_random_below(&random, 2000);
        run(&team, 40);
        moves += rows_of(&team, 40, 0) == before ? 0 : 1;
    }
    ck_assert_uint_le(moves, 2);
    base_arena_release(&team.arena);
}
END_TEST

START_TEST(test_few_rows_teach_nothing)
{
    struct team team;
    team_init(&team, 3);
    const uint64_t ns[3] = {1, 1000000, 1};
    for (uint32_t b = 0; b < BATCHES; b++) {
        cell_shares_learn(&team.shares, 2, ns);
    }
    for (uint32_t m = 0; m < 3; m++) {
        ck_assert_uint_eq(rows_of(&team, 30, m), 10);
    }
    base_arena_release(&team.arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shares");
    TCase *tcase = tcase_create("shares");
    tcase_add_loop_test(tcase, test_shares_are_even_at_first, 1, MEMBERS_MAX + 1);
    tcase_add_loop_test(tcase, test_a_late_member_takes_fewer, 0, 2 * (MEMBERS_MAX - 1));
    tcase_add_test(tcase, test_a_slow_member_takes_fewer);
    tcase_add_test(tcase, test_every_member_keeps_a_row);
    tcase_add_test(tcase, test_one_batch_changes_little);
    tcase_add_test(tcase, test_borders_stay);
    tcase_add_test(tcase, test_few_rows_teach_nothing);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
