/* Panels of an op shared out among members: each is computed once, by whomever. The members are
 * played one after another by this thread, in every order that matters. */
#include "cells/cpu/panels.h"

#include "base/random.h"
#include "tests/util.h"

#include <stdatomic.h>
#include <string.h>

enum { MEMBERS = 3, PANELS = 24, FEW = 5, MANY = 64 }; // FEW rows are not cut

#define MUCH (UINT64_C(1) << 40) /* operations, enough that panels may be taken */

/* Of MANY rows, whose weights, 4 MiB, each member may read. */
#define NEAR_WEIGHTS ((UINT64_C(4) << 20) / 2 * MANY)

struct table {
    _Alignas(64) _Atomic uint64_t shares[MEMBERS];
    struct cell_space spaces[MEMBERS];
    struct cell_run run;
    struct cell_view views[MEMBERS];
    struct cell_panels panels[MEMBERS];
    uint32_t rows;
    uint32_t computed[PANELS][MANY]; /* times, of each row */
    uint32_t by[PANELS];             /* the last member */
};

static void table_init(struct table *table, uint32_t members, bool is_backwards)
{
    memset(table, 0, sizeof(*table));
    table->rows = FEW;
    table->run = (struct cell_run){
        .spaces = table->spaces, .members = members, .turn = is_backwards ? 1 : 0};
    for (uint32_t m = 0; m < MEMBERS; m++) {
        table->spaces[m].share = &table->shares[m];
        table->views[m] =
            (struct cell_view){.run = &table->run, .space = &table->spaces[m], .member = m};
    }
}

static void begin(struct table *table, uint32_t m, uint32_t n, uint64_t flops, uint32_t unit)
{
    cell_panels_begin(&table->panels[m], &table->views[m], NULL, n, table->rows, flops);
    table->panels[m].unit = unit;
}

/* One piece; false when the member is done. */
static bool step(struct table *table, uint32_t m)
{
    struct cell_panels *panels = &table->panels[m];
    if (!cell_panels_next(panels)) {
        ck_assert(!cell_panels_next(panels)); // and stays so
        return false;
    }
    ck_assert_uint_lt(panels->first, panels->end);
    ck_assert_uint_le(panels->end, PANELS);
    ck_assert_uint_lt(panels->row_first, panels->row_end);
    ck_assert_uint_le(panels->row_end, table->rows);
    for (uint32_t p = panels->first; p < panels->end; p++) {
        for (uint32_t r = panels->row_first; r < panels->row_end; r++) {
            table->computed[p][r]++;
        }
        table->by[p] = m;
    }
    return true;
}

static void finish(struct table *table, uint32_t m)
{
    while (step(table, m)) {
    }
}

static void assert_each_once(const struct table *table, uint32_t n)
{
    for (uint32_t p = 0; p < PANELS; p++) {
        for (uint32_t r = 0; r < table->rows; r++) {
            ck_assert_uint_eq(table->computed[p][r], p < n ? 1 : 0);
        }
    }
}

START_TEST(test_panels_members_in_turns_compute_their_own)
{
    struct table table;
    table_init(&table, MEMBERS, _i == 1);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        begin(&table, m, PANELS, MUCH, 1);
    }
    for (bool is_any = true; is_any;) {
        is_any = false;
        for (uint32_t m = 0; m < MEMBERS; m++) {
            is_any |= step(&table, m);
        }
    }
    assert_each_once(&table, PANELS);
    for (uint32_t p = 0; p < PANELS; p++) {
        ck_assert_uint_eq(table.by[p], p / (PANELS / MEMBERS));
    }
}
END_TEST

/* A member that is done takes the rest of the others', from the end where they are not. */
START_TEST(test_panels_of_a_slow_member_are_taken)
{
    const bool is_backwards = _i == 1;
    struct table table;
    table_init(&table, 2, is_backwards);
    begin(&table, 0, PANELS, MUCH, 1);
    begin(&table, 1, PANELS, MUCH, 1);
    ck_assert(step(&table, 1)); // the near half of its 12, 6, and then it is slow
    finish(&table, 0);
    ck_assert(!step(&table, 1));
    assert_each_once(&table, PANELS);
    for (uint32_t p = 12; p < PANELS; p++) {
        bool is_near = is_backwards ? p >= 18 : p < 18;
        ck_assert_uint_eq(table.by[p], is_near ? 1 : 0);
    }
    for (uint32_t p = 0; p < 12; p++) {
        ck_assert_uint_eq(table.by[p], 0);
    }
}
END_TEST

/* A member that has not come yet finds nothing left, whether it comes from outside or from the op
 * before, which the others have finished for it too. */
START_TEST(test_panels_of_a_member_that_comes_late_are_taken)
{
    struct table table;
    table_init(&table, 2, false);
    begin(&table, 0, PANELS, MUCH, 1);
    finish(&table, 0);
    assert_each_once(&table, PANELS);
    begin(&table, 1, PANELS, MUCH, 1);
    memset(table.computed, 0, sizeof(table.computed));
    begin(&table, 0, 20, MUCH, 1);
    finish(&table, 0);
    assert_each_once(&table, 20);
    ck_assert(!step(&table, 1));
    begin(&table, 1, 20, MUCH, 1);
    ck_assert(!step(&table, 1));
    assert_each_once(&table, 20);
}
END_TEST

/* Of many rows the last panel of a share is two pieces: whoever is done takes the second half. */
START_TEST(test_panels_at_the_end_are_shared_by_halves)
{
    struct table table;
    table_init(&table, 2, _i == 1);
    table.rows = MANY;
    begin(&table, 0, 2, MUCH, 1);
    begin(&table, 1, 2, MUCH, 1);
    ck_assert(step(&table, 1));
    ck_assert_uint_eq(table.computed[1][0] + table.computed[1][MANY - 1], 1);
    finish(&table, 0);
    ck_assert(!step(&table, 1));
    assert_each_once(&table, 2);
}
END_TEST

/* By rows each of two members has all panels of half of the rows; of what is left at the end of
 * another's share a piece is a quarter of them. */
START_TEST(test_panels_by_rows_are_of_one_half_each)
{
    struct table table;
    table_init(&table, 2, _i == 1);
    table.rows = MANY;
    table.run.by_rows = true;
    begin(&table, 0, PANELS, NEAR_WEIGHTS, 1);
    begin(&table, 1, PANELS, NEAR_WEIGHTS, 1);
    for (bool is_any = true; is_any;) {
        is_any = false;
        for (uint32_t m = 0; m < 2; m++) {
            struct cell_panels *panels = &table.panels[m];
            if (step(&table, m)) {
                is_any = true;
                ck_assert_uint_ge(panels->row_first, m * MANY / 2);
                ck_assert_uint_le(panels->row_end, (m + 1) * MANY / 2);
            }
        }
    }
    assert_each_once(&table, PANELS);
    memset(table.computed, 0, sizeof(table.computed));
    begin(&table, 0, 1, NEAR_WEIGHTS, 1);
    begin(&table, 1, 1, NEAR_WEIGHTS, 1);
    uint32_t n = 0;
    while (step(&table, 0)) { // its own half, and then the other's
        ck_assert_uint_eq(table.panels[0].row_end - table.panels[0].row_first, MANY / 4);
        n++;
    }
    ck_assert_uint_eq(n, 4);
    ck_assert(!step(&table, 1));
    assert_each_once(&table, 1);
    memset(table.computed, 0, sizeof(table.computed)); // weights that both would read: by panels
    begin(&table, 0, PANELS, NEAR_WEIGHTS + MANY, 1);
    ck_assert(step(&table, 0));
    ck_assert_uint_eq(table.panels[0].row_end, MANY);
    finish(&table, 0);
    assert_each_once(&table, PANELS);
    table.rows = FEW; // too few: panels of all rows
    memset(table.computed, 0, sizeof(table.computed));
    begin(&table, 0, PANELS, NEAR_WEIGHTS, 1);
    ck_assert(step(&table, 0));
    ck_assert_uint_eq(table.panels[0].row_end, FEW);
    finish(&table, 0);
    assert_each_once(&table, PANELS);
}
END_TEST

START_TEST(test_panels_are_fixed_where_taking_does_not_pay)
{
    struct table table;
    table_init(&table, MEMBERS, false);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        begin(&table, m, PANELS, _i == 0 ? 0 : 1000, 1);
    }
    finish(&table, 1);
    for (uint32_t p = 0; p < PANELS; p++) {
        ck_assert_uint_eq(table.computed[p][0], p / 8 == 1 ? 1 : 0);
    }
    finish(&table, 0);
    finish(&table, 2);
    assert_each_once(&table, PANELS);
    table_init(&table, MEMBERS, false); // fewer panels than members
    for (uint32_t m = 0; m < MEMBERS; m++) {
        begin(&table, m, 1, 0, 1);
        finish(&table, m);
    }
    assert_each_once(&table, 1);
    table_init(&table, 1, false);
    begin(&table, 0, PANELS, MUCH, 1);
    ck_assert(step(&table, 0));
    ck_assert(!step(&table, 0)); // one member takes all at once
    assert_each_once(&table, PANELS);
}
END_TEST

/* Any order of any members, units and numbers, over many ops, also where the round begins anew. */
START_TEST(test_panels_in_any_order_are_computed_once)
{
    struct table table;
    struct base_random random = util_random(7);
    table_init(&table, MEMBERS, false);
    for (uint32_t m = 0; m < MEMBERS; m++) {
        table.spaces[m].round = UINT32_MAX - 100;
        atomic_store(&table.shares[m], (uint64_t)(UINT32_MAX - 100) << 32);
    }
    for (uint32_t op = 0; op < 3000; op++) {
        const uint32_t n = 1 + base_random_below(&random, PANELS);
        const uint32_t unit = 1 + base_random_below(&random, 3);
        const uint64_t flops = base_random_below(&random, 5) == 0 ? 1000 : MUCH;
        table.rows =
            base_random_below(&random, 2) == 0 ? FEW : 1 + base_random_below(&random, MANY);
        table.run.by_rows = base_random_below(&random, 2) == 0;
        uint32_t n_done = 0;
        bool has_begun[MEMBERS] = {false};
        bool is_done[MEMBERS] = {false};
        memset(table.computed, 0, sizeof(table.computed));
        for (uint32_t m = 0; m < MEMBERS; m++) {
            table.views[m].step = op;
        }
        while (n_done < MEMBERS) {
            uint32_t m = base_random_below(&random, MEMBERS);
            if (!has_begun[m]) {
                begin(&table, m, n, flops, unit);
                has_begun[m] = true;
            } else if (!is_done[m] && !step(&table, m)) {
                is_done[m] = true;
                n_done++;
            }
        }
        assert_each_once(&table, n);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("panels");
    TCase *tcase = tcase_create("panels");
    tcase_add_loop_test(tcase, test_panels_members_in_turns_compute_their_own, 0, 2);
    tcase_add_loop_test(tcase, test_panels_of_a_slow_member_are_taken, 0, 2);
    tcase_add_test(tcase, test_panels_of_a_member_that_comes_late_are_taken);
    tcase_add_loop_test(tcase, test_panels_at_the_end_are_shared_by_halves, 0, 2);
    tcase_add_loop_test(tcase, test_panels_by_rows_are_of_one_half_each, 0, 2);
    tcase_add_loop_test(tcase, test_panels_are_fixed_where_taking_does_not_pay, 0, 2);
    tcase_add_test(tcase, test_panels_in_any_order_are_computed_once);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
