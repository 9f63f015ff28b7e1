/* The generator: published first numbers, ranges, and moments of the distributions. */
#include "base/random.h"

#include "tests/util.h"

#include <math.h>

/* Cases count what is wrong and assert once: an assertion a draw costs microseconds. */
enum { DRAWS = 100000 };

/* Seed 0 through splitmix64, as the authors' C files give it. */
START_TEST(test_first_numbers_are_the_published_ones)
{
    struct base_random random;
    base_random_init(&random, 0);
    ck_assert_uint_eq(random.s[0], 0xe220a8397b1dcdafu);
    ck_assert_uint_eq(random.s[1], 0x6e789e6aa1b965f4u);
    ck_assert_uint_eq(base_random_u64(&random), 0x99ec5f36cb75f2b4u);
    ck_assert_uint_eq(base_random_u64(&random), 0xbf6e1f784956452au);
}
END_TEST

START_TEST(test_same_seed_same_numbers)
{
    struct base_random a;
    struct base_random b;
    struct base_random c;
    base_random_init(&a, 42);
    base_random_init(&b, 42);
    base_random_init(&c, 43);
    uint32_t same = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t value = base_random_u64(&a);
        ck_assert_uint_eq(value, base_random_u64(&b));
        same += value == base_random_u64(&c);
    }
    ck_assert_uint_eq(same, 0);
}
END_TEST

START_TEST(test_below_is_uniform)
{
    const uint32_t bounds[] = {1, 2, 3, 7, 10};
    struct base_random random = util_random(7);
    for (size_t b = 0; b < sizeof(bounds) / sizeof(bounds[0]); b++) {
        uint32_t counts[10] = {0};
        uint32_t outside = 0;
        for (int i = 0; i < DRAWS; i++) {
            uint32_t value = base_random_below(&random, bounds[b]);
            outside += value >= bounds[b];
            counts[value % 10]++;
        }
        ck_assert_uint_eq(outside, 0);
        double expected = (double)DRAWS / bounds[b];
        double sigma = sqrt(expected);
        for (uint32_t v = 0; v < bounds[b]; v++) {
            util_assert_close(counts[v], expected, 6.0 * sigma, 0.0);
        }
    }
}
END_TEST

/* A bound just above a half of 2^32 rejects nearly every second draw. */
START_TEST(test_below_a_large_bound_has_no_bias)
{
    struct base_random random = util_random(8);
    uint32_t bound = 0x80000001u;
    uint32_t lower = 0;
    uint32_t outside = 0;
    for (int i = 0; i < DRAWS; i++) {
        uint32_t value = base_random_below(&random, bound);
        outside += value >= bound;
        lower += value < bound / 2;
    }
    ck_assert_uint_eq(outside, 0);
    util_assert_close(lower, 0.5 * DRAWS, 6.0 * sqrt(DRAWS) / 2.0, 0.0);
    ck_assert_uint_le(base_random_below(&random, UINT32_MAX), UINT32_MAX - 1);
}
END_TEST

START_TEST(test_unit_and_f32_keep_their_range)
{
    struct base_random random = util_random(9);
    double sum = 0.0;
    uint32_t outside = 0;
    for (int i = 0; i < DRAWS; i++) {
        double unit = base_random_unit(&random);
        outside += !(unit >= 0.0 && unit < 1.0);
        sum += unit;
        float value = base_random_f32(&random, -2.0f, 3.0f);
        outside += !(value >= -2.0f && value <= 3.0f);
    }
    ck_assert_uint_eq(outside, 0);
    util_assert_close(sum / DRAWS, 0.5, 0.01, 0.0);
}
END_TEST

START_TEST(test_exponential_has_its_mean_and_spread)
{
    struct base_random random = util_random(10);
    double sum = 0.0;
    double squares = 0.0;
    uint32_t outside = 0;
    for (int i = 0; i < DRAWS; i++) {
        double value = base_random_exponential(&random, 3.0);
        outside += !(value >= 0.0 && isfinite(value));
        sum += value;
        squares += value * value;
    }
    ck_assert_uint_eq(outside, 0);
    util_assert_close(sum / DRAWS, 3.0, 0.0, 0.03);
    util_assert_close(squares / DRAWS, 18.0, 0.0, 0.08); // E[x^2] = 2 mean^2
}
END_TEST

static void draw_below_zero(void *argument)
{
    (void)base_random_below(argument, 0);
}

START_TEST(test_empty_range_is_a_bug)
{
    struct base_random random = util_random(11);
    ck_assert(util_aborts(draw_below_zero, &random));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("random");
    TCase *tcase = tcase_create("random");
    tcase_add_test(tcase, test_first_numbers_are_the_published_ones);
    tcase_add_test(tcase, test_same_seed_same_numbers);
    tcase_add_test(tcase, test_below_is_uniform);
    tcase_add_test(tcase, test_below_a_large_bound_has_no_bias);
    tcase_add_test(tcase, test_unit_and_f32_keep_their_range);
    tcase_add_test(tcase, test_exponential_has_its_mean_and_spread);
    tcase_add_test(tcase, test_empty_range_is_a_bug);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
