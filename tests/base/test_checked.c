/* Checked arithmetic at its edges, and divisions. */
#include "base/checked.h"

#include "base/divide.h"

#include "tests/util.h"

START_TEST(test_size_add_at_the_edge)
{
    size_t out = 0;
    ck_assert(base_size_add(SIZE_MAX - 1, 1, &out));
    ck_assert_uint_eq(out, SIZE_MAX);
    ck_assert(base_size_add(0, 0, &out));
    ck_assert_uint_eq(out, 0);
    ck_assert(!base_size_add(SIZE_MAX, 1, &out));
    ck_assert(!base_size_add(SIZE_MAX, SIZE_MAX, &out));
}
END_TEST

START_TEST(test_size_mul_at_the_edge)
{
    size_t out = 0;
    ck_assert(base_size_mul(SIZE_MAX, 1, &out));
    ck_assert_uint_eq(out, SIZE_MAX);
    ck_assert(base_size_mul(SIZE_MAX, 0, &out));
    ck_assert_uint_eq(out, 0);
    ck_assert(base_size_mul((size_t)1 << 32, ((size_t)1 << 32) - 1, &out));
    ck_assert_uint_eq(out, SIZE_MAX - (((size_t)1 << 32) - 1));
    ck_assert(!base_size_mul((size_t)1 << 32, (size_t)1 << 32, &out));
    ck_assert(!base_size_mul(SIZE_MAX / 2 + 1, 2, &out));
    ck_assert(!base_size_mul(3, SIZE_MAX / 2, &out));
}
END_TEST

START_TEST(test_i64_add_at_the_edge)
{
    int64_t out = 0;
    ck_assert(base_i64_add(INT64_MAX, INT64_MIN, &out));
    ck_assert_int_eq(out, -1);
    ck_assert(base_i64_add(INT64_MIN, 0, &out));
    ck_assert(out == INT64_MIN);
    ck_assert(!base_i64_add(INT64_MAX, 1, &out));
    ck_assert(!base_i64_add(INT64_MIN, -1, &out));
}
END_TEST

START_TEST(test_i64_mul_at_the_edge)
{
    int64_t out = 0;
    ck_assert(base_i64_mul(INT64_MIN, 1, &out));
    ck_assert(out == INT64_MIN);
    ck_assert(base_i64_mul(-3, 4, &out));
    ck_assert_int_eq(out, -12);
    ck_assert(!base_i64_mul(INT64_MIN, -1, &out));
    ck_assert(!base_i64_mul(INT64_MAX, 2, &out));
    ck_assert(!base_i64_mul((int64_t)1 << 32, (int64_t)1 << 31, &out));
}
END_TEST

START_TEST(test_u32_from_u64_at_the_edge)
{
    uint32_t out = 0;
    ck_assert(base_u32_from_u64(UINT32_MAX, &out));
    ck_assert_uint_eq(out, UINT32_MAX);
    ck_assert(base_u32_from_u64(0, &out));
    ck_assert_uint_eq(out, 0);
    ck_assert(!base_u32_from_u64((uint64_t)UINT32_MAX + 1, &out));
    ck_assert(!base_u32_from_u64(UINT64_MAX, &out));
}
END_TEST

START_TEST(test_divisions_round_down)
{
    const int64_t cases[][3] = {
        {7, 2, 3},   {-7, 2, -4}, {6, 3, 2},   {-6, 3, -2},
        {-1, 4, -1}, {0, 5, 0},   {-5, 1, -5}, {INT64_MIN, 2, INT64_MIN / 2}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(base_floor_divide(cases[i][0], cases[i][1]), cases[i][2]);
    }
}
END_TEST

START_TEST(test_greatest_divisors)
{
    const uint64_t cases[][3] = {{12, 18, 6}, {18, 12, 6}, {7, 13, 1},
                                 {0, 5, 5},   {5, 0, 5},   {UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_uint_eq(base_greatest_divisor(cases[i][0], cases[i][1]), cases[i][2]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checked");
    TCase *tcase = tcase_create("checked");
    tcase_add_test(tcase, test_size_add_at_the_edge);
    tcase_add_test(tcase, test_size_mul_at_the_edge);
    tcase_add_test(tcase, test_i64_add_at_the_edge);
    tcase_add_test(tcase, test_i64_mul_at_the_edge);
    tcase_add_test(tcase, test_u32_from_u64_at_the_edge);
    tcase_add_test(tcase, test_divisions_round_down);
    tcase_add_test(tcase, test_greatest_divisors);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
