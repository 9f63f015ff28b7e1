/* Elements of requests and answers in each form: widened to floats, and floats narrowed where they
 * stand. */
#include "server/forms.h"

#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { MOST = 8 };

static void expect_widened(enum cell_form form, const void *data, size_t n, const float *wanted)
{
    uint8_t shifted[MOST * sizeof(double) + 1]; // of any alignment
    float floats[MOST];
    const size_t bytes = form == CELL_FORM_F64                             ? 8
                         : form == CELL_FORM_F16 || form == CELL_FORM_BF16 ? 2
                                                                           : 1;
    memcpy(shifted + 1, data, n * bytes);
    ck_assert_uint_eq(srv_forms_widen(form, shifted + 1, n, floats), n);
    ck_assert_mem_eq(floats, wanted, n * sizeof(float));
}

START_TEST(test_widened)
{
    static const uint8_t bytes[] = {0, 1, 127, 128, 255};
    static const uint16_t halves[] = {0, 0x3C00, 0xC000, 0x7BFF, 0x0001, 0xFC00};
    static const uint16_t brains[] = {0, 0x3F80, 0xC000, 0x7F7F, 0x0001, 0xFF80};
    expect_widened(CELL_FORM_BOOL, bytes, 5, (const float[]){0, 1, 1, 1, 1});
    expect_widened(CELL_FORM_U8, bytes, 5, (const float[]){0, 1, 127, 128, 255});
    expect_widened(CELL_FORM_I8, bytes, 5, (const float[]){0, 1, 127, -128, -1});
    expect_widened(CELL_FORM_F16, halves, 6, (const float[]){0, 1, -2, 65504, 0x1p-24f, -INFINITY});
    expect_widened(CELL_FORM_BF16, brains, 6,
                   (const float[]){0, 1, -2, 0x1.fep127f, 0x1p-133f, -INFINITY});
    static const double doubles[] = {0, -0.1, 16777217.0, 1e-60, INFINITY, 0x1.fffffeffffp127};
    expect_widened(CELL_FORM_F64, doubles, 6,
                   (const float[]){0, -0.1f, 16777216.0f, 0, INFINITY, 0x1.fffffep127f});
}
END_TEST

/* Doubles that are numbers and no floats, the first of them. */
START_TEST(test_beyond_floats)
{
    const double doubles[] = {(double)NAN, -(double)INFINITY, 1, 0x1.ffffffp127, -1e300};
    float floats[5];
    ck_assert_uint_eq(srv_forms_widen(CELL_FORM_F64, (const uint8_t *)doubles, 5, floats), 3);
    ck_assert(isnan(floats[0]) && isinf(floats[1]));
    ck_assert_uint_eq(srv_forms_widen(CELL_FORM_F64, (const uint8_t *)doubles, 3, floats), 3);
}
END_TEST

static void expect_narrowed(enum cell_form form, const float *floats, size_t n, const void *wanted,
                            size_t bytes)
{
    uint8_t data[MOST * sizeof(double)];
    memcpy(data, floats, n * sizeof(float));
    srv_forms_narrow(form, data, n);
    ck_assert_mem_eq(data, wanted, bytes);
}

START_TEST(test_narrowed)
{
    static const float floats[] = {0, 1, -1, 127.5f, 300, -300, NAN, INFINITY};
    expect_narrowed(CELL_FORM_BOOL, floats, MOST, (const uint8_t[]){0, 1, 1, 1, 1, 1, 1, 1}, MOST);
    expect_narrowed(CELL_FORM_U8, floats, MOST, (const uint8_t[]){0, 1, 0, 128, 255, 0, 0, 255},
                    MOST);
    expect_narrowed(CELL_FORM_I8, floats, MOST,
                    (const uint8_t[]){0, 1, 0xFF, 127, 127, 0x80, 0, 127}, MOST);
    static const float near[] = {1, -2, 0x1.002p0f, 0x1.006p0f, 65519, 65520, 0x1p-25f};
    static const uint16_t halves[] = {0x3C00, 0xC000, 0x3C00, 0x3C02, 0x7BFF, 0x7C00, 0};
    expect_narrowed(CELL_FORM_F16, near, 7, halves, sizeof(halves));
    static const float wide[] = {1, -2, 0x1.01p0f, 0x1.03p0f, 0x1.ffp127f};
    static const uint16_t brains[] = {0x3F80, 0xC000, 0x3F80, 0x3F82, 0x7F80};
    expect_narrowed(CELL_FORM_BF16, wide, 5, brains, sizeof(brains));
    static const float own[] = {0.1f, -2, 0x1.fffffep127f, -INFINITY, 0x1p-149f};
    static const double doubles[] = {(double)0.1f, -2, 0x1.fffffep127, (double)-INFINITY, 0x1p-149};
    expect_narrowed(CELL_FORM_F64, own, 5, doubles, sizeof(doubles));
    ck_assert_uint_eq(srv_forms_room(CELL_FORM_F64), sizeof(double));
    ck_assert_uint_eq(srv_forms_room(CELL_FORM_F16), sizeof(float));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("forms");
    TCase *tests = tcase_create("forms");
    tcase_add_test(tests, test_widened);
    tcase_add_test(tests, test_beyond_floats);
    tcase_add_test(tests, test_narrowed);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
