/* Halves of IEEE 754 beside the definition: every one of them widened, and whatever lies between
 * two neighbours rounded. */
#include "cells/f16.h"

#include "tests/util.h"

#include <float.h>
#include <math.h>

enum { INFINITE = 0x7C00, SIGN = 0x8000 };

/* The value by its fields. */
static double value_of(uint16_t f16)
{
    const int exponent = f16 >> 10 & 0x1F;
    const int fraction = f16 & 0x3FF;
    const double magnitude =
        exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return (f16 & SIGN) != 0 ? -magnitude : magnitude;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

START_TEST(test_each_is_a_float_and_back)
{
    for (uint32_t i = 0; i <= UINT16_MAX; i++) {
        const float x = cell_f16_widen((uint16_t)i);
        if ((i & 0x7FFF) < INFINITE) {
            const float want = (float)value_of((uint16_t)i);
            ck_assert_msg(bits_of(x) == bits_of(want), "0x%04x is %a", i, (double)x);
            ck_assert_uint_eq(cell_f16_round(x), i);
        } else if ((i & 0x7FFF) == INFINITE) {
            ck_assert(isinf(x) && (signbit(x) != 0) == ((i & SIGN) != 0));
            ck_assert_uint_eq(cell_f16_round(x), i);
        } else {
            ck_assert(isnan(x));
            ck_assert_uint_eq(cell_f16_round(x), i | 0x0200u); // its payload, quiet
        }
    }
}
END_TEST

/* Half way to the next goes to the even one, and all on either side of it to the nearer. */
START_TEST(test_what_lies_between_is_rounded)
{
    for (uint32_t i = 0; i < INFINITE; i++) {
        const double low = value_of((uint16_t)i);
        const double high = i + 1 == INFINITE ? 65536.0 : value_of((uint16_t)(i + 1));
        const float middle = (float)((low + high) / 2); // exact
        const uint32_t even = i + (i & 1u);
        ck_assert_uint_eq(cell_f16_round(middle), even);
        ck_assert_uint_eq(cell_f16_round(nextafterf(middle, 0.0f)), i);
        ck_assert_uint_eq(cell_f16_round(nextafterf(middle, INFINITY)), i + 1);
        ck_assert_uint_eq(cell_f16_round(-middle), even | SIGN);
    }
    ck_assert_uint_eq(cell_f16_round(FLT_MAX), INFINITE);
    ck_assert_uint_eq(cell_f16_round(-FLT_TRUE_MIN), SIGN);
    ck_assert_uint_eq(cell_f16_round(-0.0f), SIGN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("f16");
    TCase *tests = tcase_create("f16");
    tcase_add_test(tests, test_each_is_a_float_and_back);
    tcase_add_test(tests, test_what_lies_between_is_rounded);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
