/* Activations: the scalar ones against double precision over the whole range of floats, and each
 * kernel table's against the scalar ones, bit by bit.
 *
 * CELLBATCH_LONG=1 takes every float, half an hour of it, else every 257th: make check-long sets it
 * for its release builds. */
#include "cells/ref/math.h"

#include "cells/kernels.h"
#include "tests/cells/isa.h"
#include "tests/cells/same_bits.h"
#include "tests/util.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t stride(void)
{
    return getenv("CELLBATCH_LONG") != NULL ? 1 : util_is_quick() ? 10007 : 257;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* 2e-7 relative or 1e-7 absolute; an infinity or NaN where the true value, as a float, is one. */
static bool is_accurate(float x, float got, double want)
{
    if (isnan(x) || isnan(want)) {
        return bits_of(got) == CELL_NAN_BITS;
    }
    if (want > 3.4028234e38) {
        return got > 3.4028e38f;
    }
    if (isinf(want)) {
        return (double)got == want;
    }
    double error = fabs((double)got - want);
    return error <= 1e-7 || error <= 2e-7 * fabs(want);
}

static void assert_accurate(const char *name, float (*function)(float), double (*truth)(double))
{
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += stride()) {
        float x = float_of((uint32_t)bits);
        float got = function(x);
        // An assertion of `check` costs a microsecond, even when it holds.
        if (!is_accurate(x, got, truth((double)x))) {
            ck_abort_msg("%s(%a) = %a, not %a", name, (double)x, (double)got, truth((double)x));
        }
    }
}

START_TEST(test_math_exp_is_accurate)
{
    assert_accurate("exp", cell_exp_f32__scalar, exp);
}
END_TEST

/* Near 1, where it is near 0, no less than elsewhere. */
START_TEST(test_math_log_is_accurate)
{
    assert_accurate("log", cell_log_f32__scalar, log);
    for (uint32_t bits = 0x3F700000u; bits < 0x3F900000u; bits += 3) {
        const float x = float_of(bits);
        util_assert_close(cell_log_f32__scalar(x), log((double)x), 0, 2e-7);
    }
}
END_TEST

START_TEST(test_math_sigmoid_is_accurate)
{
    assert_accurate("sigmoid", cell_sigmoid_f32__scalar, sigmoid);
}
END_TEST

START_TEST(test_math_tanh_is_accurate)
{
    assert_accurate("tanh", cell_tanh_f32__scalar, tanh);
}
END_TEST

START_TEST(test_math_sine_is_accurate)
{
    assert_accurate("sin", cell_sin_f32__scalar, sin);
}
END_TEST

START_TEST(test_math_cosine_is_accurate)
{
    assert_accurate("cos", cell_cos_f32__scalar, cos);
}
END_TEST

START_TEST(test_math_arc_tangent_is_accurate)
{
    assert_accurate("atan", cell_atan_f32__scalar, atan);
}
END_TEST

/* Where they are near 0 sine and arc tangent are no further off than elsewhere: of small floats,
 * and of those next to a multiple of pi, small ones and such as are reduced bit by bit. */
START_TEST(test_math_sine_near_zero)
{
    for (uint32_t bits = 0x00800000u; bits < 0x3F800000u; bits += 30011) {
        const float x = float_of(bits);
        util_assert_close(cell_sin_f32__scalar(x), sin((double)x), 0, 2e-7);
        util_assert_close(cell_atan_f32__scalar(-x), atan(-(double)x), 0, 2e-7);
    }
    double turns = 1.0;
    for (uint32_t i = 0; i < 7000; i++) { // up to 1e30
        turns = ceil(turns * 1.01);
        const float x = (float)(turns * 3.14159265358979323846);
        const float below = nextafterf(x, 0.0f);
        util_assert_close(cell_sin_f32__scalar(x), sin((double)x), 0, 2e-7);
        util_assert_close(cell_sin_f32__scalar(-below), sin(-(double)below), 0, 2e-7);
        util_assert_close(cell_cos_f32__scalar(x / 2), cos((double)(x / 2)), 0, 2e-7);
        util_assert_close(cell_cos_f32__scalar(-below), cos(-(double)below), 0, 2e-7);
    }
}
END_TEST

/* As math.h says. */
static void assert_power(float a, float b)
{
    const float got = cell_pow_f32__scalar(a, b);
    const double want = pow((double)a, (double)b);
    const double error = 2e-7 + 1e-8 * fabs(log(fabs(want)));
    if (isnan(want)) {
        ck_assert_uint_eq(bits_of(got), CELL_NAN_BITS);
    } else if (fabs(want) < 0x1p-125) {
        ck_assert_msg(fabsf(got) <= 0x1p-125f, "%a^%a = %a", (double)a, (double)b, (double)got);
    } else if (fabs(want) > 3.4028e38) {
        ck_assert_msg(fabsf(got) > 3.4027e38f && (signbit(got) != 0) == (signbit(want) != 0),
                      "%a^%a = %a", (double)a, (double)b, (double)got);
    } else if (!(fabs((double)got - want) <= error * fabs(want))) {
        ck_abort_msg("%a^%a = %a, not %a", (double)a, (double)b, (double)got, want);
    }
}

START_TEST(test_math_power_is_accurate)
{
    struct base_random random = util_random(9);
    const uint32_t n = util_is_quick() ? 20000 : 2000000;
    for (uint32_t i = 0; i < n; i++) {
        const float a = float_of((uint32_t)base_random_u64(&random));
        const float b = float_of((uint32_t)base_random_u64(&random));
        const float near_1 = base_random_f32(&random, 0.5f, 2.0f);
        assert_power(a, b);
        assert_power(fabsf(a), base_random_f32(&random, -1.0f, 1.0f));
        assert_power(near_1, base_random_f32(&random, -127.0f, 127.0f));
        assert_power(a, (float)base_random_below(&random, 7) - 3.0f);
    }
}
END_TEST

/* Each of these to the power of each: C's own. */
START_TEST(test_math_power_of_special_values)
{
    static const float special[] = {NAN,   INFINITY, -INFINITY, 0.0f,  -0.0f,  1.0f,
                                    -1.0f, 0.5f,     -0.5f,     2.0f,  -2.0f,  3.0f,
                                    -3.0f, 1e9f,     -1e9f,     1e-3f, -1e-3f, 0x1.000002p+0f};
    const uint32_t n = sizeof(special) / sizeof(special[0]);
    for (uint32_t i = 0; i < n * n; i++) {
        const float a = special[i / n];
        const float b = special[i % n];
        const float got = cell_pow_f32__scalar(a, b);
        const float want = powf(a, b);
        assert_power(a, b);
        if (want == 0.0f || isinf(want)) {
            ck_assert_msg(bits_of(got) == bits_of(want), "%a^%a = %a", (double)a, (double)b,
                          (double)got);
        }
    }
}
END_TEST

START_TEST(test_math_special_values)
{
    ck_assert_uint_eq(bits_of(cell_tanh_f32__scalar(-0.0f)), 0x80000000u);
    ck_assert_uint_eq(bits_of(cell_tanh_f32__scalar(0.0f)), 0);
    ck_assert(cell_tanh_f32__scalar(INFINITY) == 1.0f);
    ck_assert(cell_tanh_f32__scalar(-INFINITY) == -1.0f);
    ck_assert(cell_sigmoid_f32__scalar(0.0f) == 0.5f);
    ck_assert(cell_sigmoid_f32__scalar(INFINITY) == 1.0f);
    ck_assert(cell_sigmoid_f32__scalar(-INFINITY) < 2e-38f);
    ck_assert(cell_exp_f32__scalar(0.0f) == 1.0f);
    ck_assert(cell_exp_f32__scalar(-INFINITY) == 0.0f);
    ck_assert(isinf(cell_exp_f32__scalar(INFINITY)));
    ck_assert_uint_eq(bits_of(cell_log_f32__scalar(1.0f)), 0);
    ck_assert(cell_log_f32__scalar(-0.0f) == -INFINITY);
    ck_assert(cell_log_f32__scalar(INFINITY) == INFINITY);
    ck_assert_uint_eq(bits_of(cell_log_f32__scalar(-1.0f)), CELL_NAN_BITS);
    ck_assert_uint_eq(bits_of(cell_log_f32__scalar(-INFINITY)), CELL_NAN_BITS);
    ck_assert(cell_sin_f32__scalar(0.0f) == 0.0f);
    ck_assert(cell_cos_f32__scalar(0.0f) == 1.0f);
    ck_assert_uint_eq(bits_of(cell_sin_f32__scalar(INFINITY)), CELL_NAN_BITS);
    ck_assert_uint_eq(bits_of(cell_cos_f32__scalar(-INFINITY)), CELL_NAN_BITS);
    ck_assert_uint_eq(bits_of(cell_atan_f32__scalar(-0.0f)), 0x80000000u);
    ck_assert_uint_eq(bits_of(cell_atan_f32__scalar(INFINITY)), bits_of(0x1.921fb6p+0f));
    ck_assert_uint_eq(bits_of(cell_nan_f32__scalar(float_of(0xFFC01234u))), CELL_NAN_BITS);
    ck_assert_uint_eq(bits_of(cell_nan_f32__scalar(-0.0f)), 0x80000000u);
}
END_TEST

START_TEST(test_math_kernels_have_the_scalar_bits)
{
    const struct cell_kernels *kernels = isa_at(_i);
    struct same_bits_difference difference;
    if (kernels != NULL && !same_bits_activations(kernels, stride(), &difference)) {
        ck_abort_msg("%s", difference.text);
    }
}
END_TEST

START_TEST(test_math_softmax)
{
    const struct cell_kernels *kernels = isa_at(_i);
    struct base_random random = util_random(5);
    float in[100];
    float got[100];
    float want[100];
    for (uint32_t n = 1; n <= 100 && kernels != NULL; n++) {
        double sum = 0.0;
        for (uint32_t i = 0; i < n; i++) {
            in[i] = base_random_f32(&random, -20.0f, 20.0f);
            sum += exp((double)in[i]);
        }
        cell_softmax_f32__scalar(n, in, want);
        kernels->softmax(n, in, got);
        ck_assert_mem_eq(got, want, n * sizeof(float));
        for (uint32_t i = 0; i < n; i++) {
            util_assert_close(got[i], exp((double)in[i]) / sum, 1e-7, 1e-6);
        }
        in[n / 2] = n % 2 == 0 ? NAN : INFINITY;
        cell_softmax_f32__scalar(n, in, want);
        kernels->softmax(n, in, in); // in place
        ck_assert_mem_eq(in, want, n * sizeof(float));
        ck_assert_uint_eq(bits_of(want[n - 1]), CELL_NAN_BITS);
    }
}
END_TEST

START_TEST(test_math_log_softmax)
{
    const struct cell_kernels *kernels = isa_at(_i);
    struct base_random random = util_random(7);
    float in[100];
    float got[100];
    float want[100];
    for (uint32_t n = 1; n <= 100 && kernels != NULL; n++) {
        const float scale = n % 3 == 0 ? 300.0f : 20.0f; // of some no exponential is left
        double sum = 0.0;
        for (uint32_t i = 0; i < n; i++) {
            in[i] = i % 7 == 6 ? -0.0f : base_random_f32(&random, -scale, scale);
            sum += exp((double)in[i]);
        }
        cell_log_softmax_f32__scalar(n, in, want);
        kernels->log_softmax(n, in, got);
        ck_assert_mem_eq(got, want, n * sizeof(float));
        for (uint32_t i = 0; i < n; i++) {
            util_assert_close(got[i], (double)in[i] - log(sum), 1e-5, 1e-6);
        }
        in[n / 2] = n % 2 == 0 ? NAN : -INFINITY;
        cell_log_softmax_f32__scalar(n, in, want);
        kernels->log_softmax(n, in, got);
        ck_assert_mem_eq(got, want, n * sizeof(float));
    }
}
END_TEST

/* Zeros of both signs, NaN and infinities often, seldom or never; or all alike. */
static void draw_elements(struct base_random *random, uint32_t n, float *in)
{
    static const float special[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 2.0f};
    static const uint32_t one_in[] = {1, 40, 1000, 2};
    const uint32_t kind = base_random_below(random, 4);
    for (uint32_t i = 0; i < n; i++) {
        const bool is_special = base_random_below(random, one_in[kind]) == 0;
        in[i] = is_special ? special[base_random_below(random, 6)]
                           : base_random_f32(random, -1.0f, 1.0f);
        in[i] = kind == 3 ? -INFINITY : in[i];
    }
}

/* The first of several, or the first NaN. */
static uint32_t number_of_largest(uint32_t n, const float *in)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n && !isnan(in[best]); i++) {
        best = isnan(in[i]) || in[i] > in[best] ? i : best;
    }
    return best;
}

START_TEST(test_math_argmax)
{
    const struct cell_kernels *kernels = isa_at(_i);
    struct base_random random = util_random(8);
    float in[400];
    for (uint32_t tries = 0; tries < 6000 && kernels != NULL; tries++) {
        const uint32_t n = 1 + base_random_below(&random, tries % 2 == 0 ? 100 : 400);
        draw_elements(&random, n, in);
        ck_assert_uint_eq(kernels->argmax(n, in), number_of_largest(n, in));
        ck_assert_uint_eq(cell_argmax_f32__scalar(n, in), number_of_largest(n, in));
    }
}
END_TEST

START_TEST(test_math_sums)
{
    const struct cell_kernels *kernels = isa_at(_i);
    struct base_random random = util_random(6);
    enum { GROUPS = 3, MOST = 100 };
    float in[GROUPS * MOST];
    float got[GROUPS + 1];
    for (uint32_t n = 1; n <= MOST && kernels != NULL; n++) {
        double sums[GROUPS] = {0.0};
        for (uint32_t i = 0; i < GROUPS * n; i++) {
            in[i] = base_random_f32(&random, -20.0f, 20.0f);
            sums[i / n] += (double)in[i];
        }
        got[GROUPS] = 7.0f;
        kernels->sums(GROUPS, n, in, got);
        for (uint32_t g = 0; g < GROUPS; g++) {
            ck_assert_uint_eq(bits_of(got[g]), bits_of(cell_sum_f32__scalar(n, in + g * n)));
            util_assert_close(got[g], sums[g], 1e-4, 1e-6);
        }
        ck_assert_uint_eq(bits_of(got[GROUPS]), bits_of(7.0f)); // nothing behind them
        in[n + n / 2] = -NAN;
        kernels->sums(GROUPS, n, in, got);
        ck_assert_uint_eq(bits_of(got[1]), CELL_NAN_BITS);
        ck_assert_uint_eq(bits_of(cell_sum_f32__scalar(n, in + n)), CELL_NAN_BITS);
        ck_assert(!isnan(got[0]) && !isnan(got[2]));
        for (uint32_t i = 0; i < n; i++) {
            in[i] = -0.0f; // of which the sum is 0, whatever vectors hold beside them
        }
        kernels->sums(1, n, in, got);
        ck_assert_uint_eq(bits_of(got[0]), bits_of(cell_sum_f32__scalar(n, in)));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("math");
    TCase *tcase = tcase_create("activations");
    tcase_set_timeout(tcase, 3600); // every float, on a busy machine
    tcase_add_test(tcase, test_math_exp_is_accurate);
    tcase_add_test(tcase, test_math_log_is_accurate);
    tcase_add_test(tcase, test_math_sigmoid_is_accurate);
    tcase_add_test(tcase, test_math_tanh_is_accurate);
    tcase_add_test(tcase, test_math_sine_is_accurate);
    tcase_add_test(tcase, test_math_cosine_is_accurate);
    tcase_add_test(tcase, test_math_arc_tangent_is_accurate);
    tcase_add_test(tcase, test_math_sine_near_zero);
    tcase_add_test(tcase, test_math_power_is_accurate);
    tcase_add_test(tcase, test_math_power_of_special_values);
    tcase_add_test(tcase, test_math_special_values);
    tcase_add_loop_test(tcase, test_math_kernels_have_the_scalar_bits, 0, ISA_COUNT);
    tcase_add_loop_test(tcase, test_math_softmax, 0, ISA_COUNT);
    tcase_add_loop_test(tcase, test_math_log_softmax, 0, ISA_COUNT);
    tcase_add_loop_test(tcase, test_math_argmax, 0, ISA_COUNT);
    tcase_add_loop_test(tcase, test_math_sums, 0, ISA_COUNT);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
