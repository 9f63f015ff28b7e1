/* Free lists of row ids. */
#include "base/mem.h"
#include "scheduler/rows.h"
#include "tests/util.h"

#define CAPACITY 37u
#define LAYOUT   5u

static struct sched_rows *rows;

static void setup(void)
{
    ck_assert_int_eq(sched_rows_create(&rows), BASE_OK);
    ck_assert_int_eq(sched_rows_open(rows, LAYOUT, CAPACITY), BASE_OK);
}

static void teardown(void)
{
    sched_rows_free(rows);
}

START_TEST(test_fresh_rows_are_taken_from_the_lowest_id_up)
{
    ck_assert_uint_eq(sched_rows_capacity(rows, LAYOUT), CAPACITY);
    for (uint32_t i = 0; i < CAPACITY; i++) {
        ck_assert_uint_eq(sched_rows_in_use(rows, LAYOUT), i);
        ck_assert_uint_eq(sched_rows_take(rows, LAYOUT), i);
    }
    ck_assert_uint_eq(sched_rows_in_use(rows, LAYOUT), CAPACITY);
}
END_TEST

START_TEST(test_row_given_last_is_taken_first)
{
    for (uint32_t i = 0; i < 4; i++) {
        (void)sched_rows_take(rows, LAYOUT);
    }
    sched_rows_give(rows, LAYOUT, 2);
    sched_rows_give(rows, LAYOUT, 0);
    ck_assert_uint_eq(sched_rows_take(rows, LAYOUT), 0);
    ck_assert_uint_eq(sched_rows_take(rows, LAYOUT), 2);
    ck_assert_uint_eq(sched_rows_take(rows, LAYOUT), 4);
}
END_TEST

START_TEST(test_layouts_do_not_know_each_other)
{
    ck_assert_int_eq(sched_rows_open(rows, LAYOUT + 1, 1), BASE_OK);
    ck_assert_uint_eq(sched_rows_take(rows, LAYOUT), 0);
    ck_assert_uint_eq(sched_rows_take(rows, LAYOUT + 1), 0);
    ck_assert_uint_eq(sched_rows_capacity(rows, LAYOUT + 2), 0);
    ck_assert_uint_eq(sched_rows_in_use(rows, LAYOUT + 2), 0);
}
END_TEST

START_TEST(test_generation_is_odd_while_taken_and_never_comes_back)
{
    for (uint32_t round = 0; round < 3; round++) {
        ck_assert_uint_eq(sched_rows_generation(rows, LAYOUT, 0), 2 * round);
        ck_assert_uint_eq(sched_rows_take(rows, LAYOUT), 0);
        ck_assert_uint_eq(sched_rows_generation(rows, LAYOUT, 0), 2 * round + 1);
        sched_rows_give(rows, LAYOUT, 0);
    }
}
END_TEST

START_TEST(test_random_takes_and_gives_never_hand_a_row_out_twice)
{
    struct base_random random = util_random(1);
    bool taken[CAPACITY] = {false};
    uint32_t in_use = 0;
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t row = base_random_below(&random, CAPACITY);
        if (taken[row]) {
            sched_rows_give(rows, LAYOUT, row);
            in_use--;
        } else if (in_use < CAPACITY) {
            row = sched_rows_take(rows, LAYOUT);
            wrong += row < CAPACITY && !taken[row] ? 0 : 1;
            in_use++;
        }
        taken[row] = !taken[row];
        wrong += sched_rows_in_use(rows, LAYOUT) == in_use ? 0 : 1;
    }
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

static void take_one_too_many(void *unused)
{
    (void)unused;
    for (uint32_t i = 0; i <= CAPACITY; i++) {
        (void)sched_rows_take(rows, LAYOUT);
    }
}

static void give_a_free_row(void *unused)
{
    (void)unused;
    sched_rows_give(rows, LAYOUT, 3);
}

static void give_a_row_beyond(void *unused)
{
    (void)unused;
    sched_rows_give(rows, LAYOUT, CAPACITY);
}

static void open_twice(void *unused)
{
    (void)unused;
    (void)!sched_rows_open(rows, LAYOUT, 1);
}

START_TEST(test_misuse_is_asserted)
{
    ck_assert(util_aborts(take_one_too_many, NULL));
    ck_assert(util_aborts(give_a_free_row, NULL));
    ck_assert(util_aborts(give_a_row_beyond, NULL));
    ck_assert(util_aborts(open_twice, NULL));
}
END_TEST

START_TEST(test_out_of_memory_is_a_status)
{
    struct sched_rows *other = NULL;
    base_alloc_fail_at(1);
    ck_assert_int_eq(sched_rows_create(&other), BASE_RESOURCE_EXHAUSTED);
    for (uint64_t n = 1; n <= 2; n++) {
        base_alloc_fail_at(n);
        ck_assert_int_eq(sched_rows_open(rows, LAYOUT + 1, 8), BASE_RESOURCE_EXHAUSTED);
        ck_assert_uint_eq(sched_rows_capacity(rows, LAYOUT + 1), 0);
    }
    base_alloc_fail_at(0);
    ck_assert_int_eq(sched_rows_open(rows, LAYOUT + 1, 8), BASE_OK);
    sched_rows_free(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rows");
    TCase *tcase = tcase_create("rows");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_fresh_rows_are_taken_from_the_lowest_id_up);
    tcase_add_test(tcase, test_row_given_last_is_taken_first);
    tcase_add_test(tcase, test_layouts_do_not_know_each_other);
    tcase_add_test(tcase, test_generation_is_odd_while_taken_and_never_comes_back);
    tcase_add_test(tcase, test_random_takes_and_gives_never_hand_a_row_out_twice);
    tcase_add_test(tcase, test_misuse_is_asserted);
    tcase_add_test(tcase, test_out_of_memory_is_a_status);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
