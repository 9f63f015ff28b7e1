/* CPU teams: every member works once a run, barriers hold, nobody is forgotten asleep. */
#include "base/clock.h"
#include "base/mem.h"
#include "tests/util.h"
#include "worker/team.h"

#include <pthread.h>
#include <unistd.h>

#define MEMBERS_MAX 4u

#ifdef CELLBATCH_DEBUG
#    define ROUNDS 500u /* sanitizers are slow */
#else
#    define ROUNDS 3000u
#endif

/* Members beyond the machine's CPUs wait for a time slice at each barrier. */
static uint32_t rounds_of(uint32_t members)
{
    return members <= 2 ? ROUNDS : ROUNDS / 10;
}

static struct cell_team *create(uint32_t members, uint64_t spin_ns)
{
    struct wrk_team_options options = {.members = members, .spin_ns = spin_ns, .name = "cb-test"};
    struct cell_team *team = NULL;
    ck_assert_int_eq(wrk_team_create(&options, &team), BASE_OK);
    ck_assert_uint_eq(team->members, members);
    return team;
}

/* What members share: plain memory, so that a missing barrier is a data race too. */
struct board {
    uint32_t seats[MEMBERS_MAX]; /* what each member wrote last */
    uint32_t runs[MEMBERS_MAX];
    uint32_t wrong;      /* counted by member 0 */
    uint32_t barriers;   /* in a run */
    uint32_t late;       /* this member comes late, UINT32_MAX = nobody */
    _Atomic uint32_t in; /* members inside the run */
};

static void be_late(const struct board *board, uint32_t member)
{
    if (board->late == member) {
        (void)usleep(2000);
    }
}

/* Each member writes its seat, all meet, member 0 looks at every seat, all meet again. */
static void work(void *argument, struct cell_team *team, uint32_t member)
{
    struct board *board = argument;
    (void)atomic_fetch_add(&board->in, 1);
    board->runs[member]++;
    for (uint32_t round = 1; round <= board->barriers; round++) {
        board->seats[member] = round * 10 + member;
        be_late(board, member);
        team->barrier(team, member);
        for (uint32_t other = 0; member == 0 && other < team->members; other++) {
            board->wrong += board->seats[other] == round * 10 + other ? 0 : 1;
        }
        team->barrier(team, member);
    }
    (void)atomic_fetch_sub(&board->in, 1);
}

static void check_runs(const struct board *board, uint32_t members, uint32_t runs)
{
    ck_assert_uint_eq(board->wrong, 0);
    ck_assert_uint_eq(board->in, 0);
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        ck_assert_uint_eq(board->runs[i], i < members ? runs : 0);
    }
}

START_TEST(test_every_member_works_once_a_run_and_barriers_hold)
{
    uint32_t members = (uint32_t)_i;
    struct cell_team *team = create(members, 20000);
    struct board board = {.barriers = 3, .late = UINT32_MAX};
    for (uint32_t run = 0; run < rounds_of(members); run++) {
        cell_team_run(team, work, &board);
    }
    check_runs(&board, members, rounds_of(members));
    wrk_team_free(team);
}
END_TEST

START_TEST(test_runs_without_barriers_and_without_spinning)
{
    uint32_t members = (uint32_t)_i;
    struct cell_team *team = create(members, 0);
    struct board board = {.late = UINT32_MAX};
    for (uint32_t run = 0; run < rounds_of(members); run++) {
        cell_team_run(team, work, &board);
    }
    check_runs(&board, members, rounds_of(members));
    wrk_team_free(team);
}
END_TEST

START_TEST(test_many_barriers_in_one_run)
{
    uint32_t members = (uint32_t)_i;
    struct cell_team *team = create(members, 20000);
    struct board board = {.barriers = 2 * rounds_of(members), .late = UINT32_MAX};
    cell_team_run(team, work, &board);
    check_runs(&board, members, 1);
    wrk_team_free(team);
}
END_TEST

START_TEST(test_late_member_is_waited_for)
{
    struct cell_team *team = create(3, 20000);
    for (uint32_t late = 0; late < 3; late++) {
        struct board board = {.barriers = 5, .late = late};
        cell_team_run(team, work, &board);
        check_runs(&board, 3, 1);
    }
    wrk_team_free(team);
}
END_TEST

struct boards {
    struct board whole, halves[2];
};

/* All meet, then each half by itself, a different number of times, then all again. */
static void work_in_halves(void *argument, struct cell_team *team, uint32_t member)
{
    struct boards *boards = argument;
    const uint32_t border = cell_team_first_half(team->members);
    const uint32_t half = member < border ? 0 : 1;
    work(&boards->whole, team, member);
    work(&boards->halves[half], team->halves[half], half == 0 ? member : member - border);
    work(&boards->whole, team, member);
}

START_TEST(test_halves_meet_without_each_other)
{
    const uint32_t members = (uint32_t)_i;
    const uint32_t border = cell_team_first_half(members);
    struct cell_team *team = create(members, 20000);
    ck_assert_uint_eq(team->halves[0]->members, border);
    ck_assert_uint_eq(team->halves[1]->members, members - border);
    struct boards boards = {
        .whole = {.barriers = 2, .late = UINT32_MAX},
        .halves = {{.barriers = 7, .late = UINT32_MAX}, {.barriers = 3, .late = UINT32_MAX}}};
    const uint32_t rounds = rounds_of(members) / 4;
    for (uint32_t run = 0; run < rounds; run++) {
        if (run == rounds / 2) {
            boards.halves[0].barriers = 1;
            boards.halves[1].barriers = 5;
        }
        cell_team_run(team, work_in_halves, &boards);
    }
    check_runs(&boards.whole, members, 2 * rounds);
    check_runs(&boards.halves[0], border, rounds);
    check_runs(&boards.halves[1], members - border, rounds);
    wrk_team_free(team);
}
END_TEST

START_TEST(test_team_of_one_has_no_halves)
{
    struct cell_team *team = create(1, 20000);
    ck_assert_ptr_null(team->halves[0]);
    ck_assert_ptr_null(team->halves[1]);
    wrk_team_free(team);
}
END_TEST

START_TEST(test_idle_team_burns_no_time_and_wakes_again)
{
    struct cell_team *team = create(3, 20000);
    struct board board = {.barriers = 1, .late = UINT32_MAX};
    cell_team_run(team, work, &board);
    (void)usleep(20000);
    uint64_t before_ns = base_process_cpu_ns();
    (void)usleep(100000);
    ck_assert_uint_lt(base_process_cpu_ns() - before_ns, 50 * BASE_NS_PER_MS);
    cell_team_run(team, work, &board);
    check_runs(&board, 3, 2);
    wrk_team_free(team);
}
END_TEST

static void *drive(void *argument)
{
    struct board *board = argument;
    struct wrk_team_options options = {.members = 2, .spin_ns = 20000, .name = "cb-test"};
    struct cell_team *team = NULL;
    if (wrk_team_create(&options, &team) != BASE_OK) {
        board->wrong++;
        return NULL;
    }
    for (uint32_t run = 0; run < ROUNDS / 4; run++) {
        cell_team_run(team, work, board);
    }
    wrk_team_free(team);
    return NULL;
}

START_TEST(test_teams_of_two_threads_do_not_know_each_other)
{
    struct board boards[2] = {{.barriers = 2, .late = UINT32_MAX},
                              {.barriers = 3, .late = UINT32_MAX}};
    pthread_t other;
    ck_assert_int_eq(pthread_create(&other, NULL, drive, &boards[1]), 0);
    (void)drive(&boards[0]);
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    check_runs(&boards[0], 2, ROUNDS / 4);
    check_runs(&boards[1], 2, ROUNDS / 4);
}
END_TEST

START_TEST(test_team_that_never_ran_is_freed)
{
    for (uint32_t i = 0; i < 50; i++) {
        wrk_team_free(create(MEMBERS_MAX, 0));
    }
    wrk_team_free(NULL);
}
END_TEST

START_TEST(test_run_allocates_nothing)
{
    struct cell_team *team = create(2, 20000);
    struct board board = {.barriers = 1, .late = UINT32_MAX};
    uint64_t before = base_alloc_count();
    for (uint32_t run = 0; run < 100; run++) {
        cell_team_run(team, work, &board);
    }
    ck_assert_uint_eq(base_alloc_count(), before);
    wrk_team_free(team);
}
END_TEST

START_TEST(test_out_of_memory_is_a_status)
{
    struct wrk_team_options options = {.members = 3, .name = "cb-test"};
    struct cell_team *team = NULL;
    for (uint64_t n = 1; n <= 2; n++) {
        base_alloc_fail_at(n);
        ck_assert_int_eq(wrk_team_create(&options, &team), BASE_RESOURCE_EXHAUSTED);
        ck_assert_ptr_null(team);
    }
    base_alloc_fail_at(0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("team");
    TCase *tcase = tcase_create("team");
    tcase_add_loop_test(tcase, test_every_member_works_once_a_run_and_barriers_hold, 1,
                        MEMBERS_MAX + 1);
    tcase_add_loop_test(tcase, test_runs_without_barriers_and_without_spinning, 1, MEMBERS_MAX + 1);
    tcase_add_loop_test(tcase, test_many_barriers_in_one_run, 1, MEMBERS_MAX + 1);
    tcase_add_test(tcase, test_late_member_is_waited_for);
    tcase_add_loop_test(tcase, test_halves_meet_without_each_other, 2, MEMBERS_MAX + 1);
    tcase_add_test(tcase, test_team_of_one_has_no_halves);
    tcase_add_test(tcase, test_idle_team_burns_no_time_and_wakes_again);
    tcase_add_test(tcase, test_teams_of_two_threads_do_not_know_each_other);
    tcase_add_test(tcase, test_team_that_never_ran_is_freed);
    tcase_add_test(tcase, test_run_allocates_nothing);
    tcase_add_test(tcase, test_out_of_memory_is_a_status);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
