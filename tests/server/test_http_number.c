/* Numbers: text to elements and back. strtof() and printf() are the oracles. */
#include "server/http/number.h"

#include "tests/util.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads text followed by `]`; the bits of the float, or 0xFFFFFFFF when it is refused or read only
 * in part. */
static uint32_t read_bits(const char *text)
{
    char with_end[128];
    (void)snprintf(with_end, sizeof with_end, "%s]", text);
    const char *at = with_end;
    const char *end = with_end + strlen(with_end);
    float value = 0;
    if (srv_http_read_f32(&at, end, &value) != NULL || at != end - 1) {
        return UINT32_MAX;
    }
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint32_t want_bits(const char *text)
{
    float value = strtof(text, NULL);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

START_TEST(test_number_f32_reads_as_strtof)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "0.0",
        "1",
        "-1.5",
        "0.1",
        "1e10",
        "1E+2",
        "25e-1",
        "3.4028234663852886e38",  // the largest float
        "3.40282356e38",          // rounds down to it
        "1.1754943508222875e-38", // the smallest normal one
        "1e-45",
        "1e-46",
        "0.0000000000000000000000000000000000000000000014012984643",
        "16777217",            // the middle of two floats: ties to even
        "16777219",            // the same, up
        "16777217.0000000001", // just above a middle
        "16777216.9999999999", // just below
        "1.00000005960464477539062500000000001",
        "1.000000059604644775390625",
        "0.5000001192092896",
        "123456789012345678901234567890",
        "0.000000000000000000000000000000000000012345678901234567890123",
        "1e-400",
        "123e-500000000000",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        ck_assert_msg(read_bits(texts[i]) == want_bits(texts[i]), "%s", texts[i]);
    }
}
END_TEST

START_TEST(test_number_f32_reads_random_text_as_strtof)
{
    struct base_random random = util_random(1);
    for (int i = 0; i < 50000; i++) {
        char text[64];
        float value = float_of((uint32_t)base_random_u64(&random));
        if (!isfinite(value)) {
            continue;
        }
        int digits = (int)base_random_below(&random, 20);
        // Middles between floats are where the rounding is decided.
        double above = ((double)value + (double)nextafterf(value, INFINITY)) / 2;
        (void)snprintf(text, sizeof text, "%.*e", digits,
                       base_random_below(&random, 2) == 0 && isfinite(above) ? above
                                                                             : (double)value);
        if (isfinite(strtof(text, NULL))) {
            ck_assert_msg(read_bits(text) == want_bits(text), "%s", text);
        }
    }
}
END_TEST

START_TEST(test_number_f32_refuses)
{
    static const char *const texts[] = {
        "",    "-",    "+1",     ".5",   "1.",  "01",   "1e",    "1e+",          "0x10", "1f",
        "inf", "nan",  "--1",    "1e39", "1,2", "true", "\"1\"", "Infinit",      "null", "1 2",
        "-01", "1.e5", "-1e400", "1_0",  "e5",  "NaN1", "-NaN",  "3.4028236e38",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        ck_assert_msg(read_bits(texts[i]) == UINT32_MAX, "%s accepted", texts[i]);
    }
}
END_TEST

START_TEST(test_number_f32_reads_what_json_lacks)
{
    ck_assert_uint_eq(read_bits("Infinity"), 0x7F800000);
    ck_assert_uint_eq(read_bits("-Infinity"), 0xFF800000);
    ck_assert_uint_eq(read_bits("NaN") & 0x7F800000, 0x7F800000);
    ck_assert(isnan(float_of(read_bits("NaN"))));
}
END_TEST

static const char *print_float(float value)
{
    static char text[SRV_HTTP_NUMBER_BYTES + 1];
    size_t length = srv_http_print_f32(text, value);
    ck_assert_uint_le(length, SRV_HTTP_NUMBER_BYTES);
    text[length] = '\0';
    return text;
}

START_TEST(test_number_f32_prints_short)
{
    ck_assert_str_eq(print_float(0), "0.0");
    ck_assert_str_eq(print_float(-0.0f), "-0.0");
    ck_assert_str_eq(print_float(1), "1.0");
    ck_assert_str_eq(print_float(-0.1f), "-0.1");
    ck_assert_str_eq(print_float(100), "100.0");
    ck_assert_str_eq(print_float(0.3f), "0.3");
    ck_assert_str_eq(print_float(16777216), "16777216.0");
    ck_assert_str_eq(print_float(1e9f), "1000000000.0");
    ck_assert_str_eq(print_float(1e10f), "1e10");
    ck_assert_str_eq(print_float(0.00001f), "0.00001");
    ck_assert_str_eq(print_float(0.000001f), "1e-6");
    ck_assert_str_eq(print_float(3.4028234663852886e38f), "3.4028235e38");
    ck_assert_str_eq(print_float(0.333333343f), "0.33333334");
    ck_assert_str_eq(print_float(NAN), "NaN");
    ck_assert_str_eq(print_float(INFINITY), "Infinity");
    ck_assert_str_eq(print_float(-INFINITY), "-Infinity");
}
END_TEST

/* Digits between the first and the last that is not 0. */
static size_t significant_digits(const char *text)
{
    size_t n = 0;
    size_t last = 0;
    for (const char *at = text; *at != '\0' && *at != 'e'; at++) {
        if (*at >= '0' && *at <= '9' && (n > 0 || *at != '0')) {
            n++;
            last = *at == '0' ? last : n;
        }
    }
    return last;
}

static void assert_round_trip(uint32_t bits)
{
    float value = float_of(bits);
    if (!isfinite(value)) {
        return;
    }
    const char *text = print_float(value);
    ck_assert_msg(want_bits(text) == bits && read_bits(text) == bits, "%08x printed as %s", bits,
                  text);
    char shortest[32];
    for (int digits = 6; digits <= 9; digits++) {
        (void)snprintf(shortest, sizeof shortest, "%.*e", digits - 1, (double)value);
        if (want_bits(shortest) == bits) {
            break;
        }
    }
    // We do not use that a decimal in the very middle of two floats is read as the even one.
    double decimal = strtod(shortest, NULL);
    float neighbour = nextafterf(value, decimal > (double)value ? INFINITY : -INFINITY);
    if (decimal == ((double)value + (double)neighbour) / 2) {
        return;
    }
    ck_assert_msg(significant_digits(text) <= significant_digits(shortest), "%s, shortest %s", text,
                  shortest);
}

START_TEST(test_number_f32_round_trips)
{
    struct base_random random = util_random(2);
    for (uint32_t exponent = 0; exponent < 255; exponent++) {
        for (uint32_t i = 0; i < 4; i++) {
            assert_round_trip((exponent << 23) + i);
            assert_round_trip(((exponent + 1) << 23) - 1 - i);
        }
    }
    for (int i = 0; i < 50000; i++) {
        assert_round_trip((uint32_t)base_random_u64(&random));
    }
    for (int power = -45; power <= 38; power++) {
        char text[16];
        (void)snprintf(text, sizeof text, "1e%d", power);
        assert_round_trip(want_bits(text));
    }
}
END_TEST

static const char *read_int(const char *text, int64_t *out)
{
    char with_end[64];
    (void)snprintf(with_end, sizeof with_end, "%s]", text);
    const char *at = with_end;
    const char *wrong = srv_http_read_i64(&at, with_end + strlen(with_end), out);
    return wrong == NULL && *at != ']' ? "read in part" : wrong;
}

START_TEST(test_number_i64_is_exact)
{
    static const int64_t values[] = {0,         1,         -1,        9007199254740993,
                                     INT64_MAX, INT64_MIN, INT32_MAX, -9007199254740993};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char text[SRV_HTTP_NUMBER_BYTES + 1];
        text[srv_http_print_i64(text, values[i])] = '\0';
        ck_assert_int_eq(strtoll(text, NULL, 10), values[i]);
        int64_t back = 1;
        ck_assert_ptr_null(read_int(text, &back));
        ck_assert_int_eq(back, values[i]);
    }
    int64_t minus_zero = 1;
    ck_assert_ptr_null(read_int("-0", &minus_zero));
    ck_assert_int_eq(minus_zero, 0);
}
END_TEST

START_TEST(test_number_i64_refuses)
{
    static const char *const texts[] = {
        "",
        "-",
        "1.0",
        "1e3",
        "9223372036854775808",
        "-9223372036854775809",
        "01",
        "0x1",
        "+1",
        "nan",
        "1E2",
        ".5",
        "99999999999999999999",
        "true",
        "- 1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int64_t value;
        ck_assert_msg(read_int(texts[i], &value) != NULL, "%s accepted", texts[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http_number");
    TCase *tc = tcase_create("http_number");
    tcase_add_test(tc, test_number_f32_reads_as_strtof);
    tcase_add_test(tc, test_number_f32_reads_random_text_as_strtof);
    tcase_add_test(tc, test_number_f32_refuses);
    tcase_add_test(tc, test_number_f32_reads_what_json_lacks);
    tcase_add_test(tc, test_number_f32_prints_short);
    tcase_add_test(tc, test_number_f32_round_trips);
    tcase_add_test(tc, test_number_i64_is_exact);
    tcase_add_test(tc, test_number_i64_refuses);
    suite_add_tcase(suite, tc);
    return util_run(suite);
}
