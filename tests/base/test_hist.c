/* The histogram against exact quantiles of the same values. */
#include "base/hist.h"

#include "base/mem.h"
#include "tests/util.h"

#include <math.h>
#include <stdlib.h>

enum { COUNT = 20000 };

static struct base_hist hist; /* 58 KB: not for the stack */
static struct base_hist other;

static void setup(void)
{
    base_hist_init(&hist);
    base_hist_init(&other);
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

START_TEST(test_empty_histogram_answers_zero)
{
    ck_assert_uint_eq(base_hist_quantile(&hist, 0.5), 0);
    ck_assert_uint_eq(base_hist_count_le(&hist, UINT64_MAX), 0);
    ck_assert_double_eq(base_hist_mean(&hist), 0.0);
    ck_assert(hist.min == UINT64_MAX);
    ck_assert_uint_eq(hist.max, 0);
}
END_TEST

START_TEST(test_small_values_are_exact)
{
    for (uint64_t value = 0; value < 100; value++) {
        base_hist_add(&hist, value + 1);
    }
    ck_assert_uint_eq(base_hist_quantile(&hist, 0.0), 1);
    ck_assert_uint_eq(base_hist_quantile(&hist, 0.25), 25);
    ck_assert_uint_eq(base_hist_quantile(&hist, 0.5), 50);
    ck_assert_uint_eq(base_hist_quantile(&hist, 0.99), 99);
    ck_assert_uint_eq(base_hist_quantile(&hist, 1.0), 100);
    ck_assert_uint_eq(base_hist_count_le(&hist, 0), 0);
    ck_assert_uint_eq(base_hist_count_le(&hist, 42), 42);
    ck_assert_double_eq(base_hist_mean(&hist), 50.5);
    ck_assert_uint_eq(hist.min, 1);
    ck_assert_uint_eq(hist.max, 100);
}
END_TEST

START_TEST(test_every_power_of_two_and_its_neighbours_are_held)
{
    for (unsigned bit = 1; bit < 64; bit++) {
        uint64_t values[] = {(1ull << bit) - 1, 1ull << bit, (1ull << bit) + 1};
        for (size_t i = 0; i < 3; i++) {
            base_hist_init(&hist);
            base_hist_add(&hist, values[i]);
            base_hist_add(&hist, UINT64_MAX); // so that max does not hide the edge
            uint64_t edge = base_hist_quantile(&hist, 0.5);
            ck_assert_uint_ge(edge, values[i]);
            ck_assert_uint_le(edge - values[i], values[i] / 128);
            ck_assert_uint_eq(base_hist_quantile(&hist, 1.0), UINT64_MAX);
        }
    }
}
END_TEST

static uint64_t draw(struct base_random *random, int shape)
{
    switch (shape) {
    case 0:
        return base_random_below(random, 300);
    case 1:
        return base_random_u64(random) >> base_random_below(random, 60);
    case 2:
        return (uint64_t)base_random_exponential(random, 1e6);
    default:
        return 5000000 + base_random_below(random, 3);
    }
}

START_TEST(test_quantiles_stay_within_the_stated_error)
{
    struct base_random random = util_random(4);
    uint64_t *values = base_alloc_array(COUNT, sizeof(*values));
    ck_assert_ptr_nonnull(values);
    for (int i = 0; i < COUNT; i++) {
        values[i] = draw(&random, _i);
        base_hist_add(&hist, values[i]);
    }
    qsort(values, COUNT, sizeof(*values), compare);
    for (int q = 0; q <= 1000; q++) {
        double quantile = (double)q / 1000.0;
        double rank = ceil(quantile * COUNT);
        uint64_t exact = values[rank < 1.0 ? 0 : (size_t)rank - 1];
        uint64_t got = base_hist_quantile(&hist, quantile);
        ck_assert_uint_ge(got, exact);
        ck_assert_uint_le(got - exact, exact / 128);
        ck_assert_uint_le(got, hist.max);
    }
    base_free(values);
}
END_TEST

START_TEST(test_count_le_is_right_to_within_a_bucket)
{
    struct base_random random = util_random(5);
    uint64_t *values = base_alloc_array(COUNT, sizeof(*values));
    ck_assert_ptr_nonnull(values);
    for (int i = 0; i < COUNT; i++) {
        values[i] = draw(&random, 1);
        base_hist_add(&hist, values[i]);
    }
    qsort(values, COUNT, sizeof(*values), compare);
    for (int k = 0; k < COUNT; k += 97) {
        uint64_t limit = values[k];
        uint64_t got = base_hist_count_le(&hist, limit);
        ck_assert_uint_ge(got, (uint64_t)k + 1);
        if (got < COUNT) {
            ck_assert_uint_gt(values[got], limit); // counted all equal ones
        }
        ck_assert(got == 0 || values[got - 1] - limit <= limit / 128 || values[got - 1] <= limit);
    }
    ck_assert_uint_eq(base_hist_count_le(&hist, UINT64_MAX), COUNT);
    ck_assert_uint_eq(base_hist_count_le(&hist, hist.max), COUNT);
    base_free(values);
}
END_TEST

START_TEST(test_merge_equals_one_histogram_of_both)
{
    static struct base_hist both;
    base_hist_init(&both);
    struct base_random random = util_random(6);
    for (int i = 0; i < 1000; i++) {
        uint64_t value = draw(&random, 2);
        base_hist_add(i % 3 == 0 ? &hist : &other, value);
        base_hist_add(&both, value);
    }
    base_hist_merge(&hist, &other);
    ck_assert_mem_eq(&hist, &both, sizeof(both));

    base_hist_init(&other);
    base_hist_merge(&hist, &other); // an empty one changes nothing
    ck_assert_mem_eq(&hist, &both, sizeof(both));
    base_hist_merge(&other, &both);
    ck_assert_mem_eq(&other, &both, sizeof(both));
}
END_TEST

START_TEST(test_extreme_values_have_their_place)
{
    base_hist_add(&hist, 0);
    base_hist_add(&hist, UINT64_MAX);
    ck_assert_uint_eq(base_hist_quantile(&hist, 0.5), 0);
    ck_assert_uint_eq(base_hist_quantile(&hist, 0.51), UINT64_MAX);
    ck_assert_uint_eq(base_hist_count_le(&hist, UINT64_MAX - 1), 2); // same bucket
    ck_assert_uint_eq(base_hist_count_le(&hist, 1ull << 62), 1);
}
END_TEST

static void ask(void *argument)
{
    const double *quantile = argument;
    (void)base_hist_quantile(&hist, *quantile);
}

START_TEST(test_quantile_outside_its_range_is_a_bug)
{
    ck_assert(util_aborts(ask, &(double){1.01}));
    ck_assert(util_aborts(ask, &(double){-0.01}));
    ck_assert(util_aborts(ask, &(double){(double)NAN}));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hist");
    TCase *tcase = tcase_create("hist");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, test_empty_histogram_answers_zero);
    tcase_add_test(tcase, test_small_values_are_exact);
    tcase_add_test(tcase, test_every_power_of_two_and_its_neighbours_are_held);
    tcase_add_loop_test(tcase, test_quantiles_stay_within_the_stated_error, 0, 4);
    tcase_add_test(tcase, test_count_le_is_right_to_within_a_bucket);
    tcase_add_test(tcase, test_merge_equals_one_histogram_of_both);
    tcase_add_test(tcase, test_extreme_values_have_their_place);
    tcase_add_test(tcase, test_quantile_outside_its_range_is_a_bug);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
