/* Status texts, and errors with their messages cut where they must be. */
#include "base/status.h"

#include "tests/util.h"

#include <string.h>

START_TEST(test_every_status_has_text_and_name)
{
    for (int i = 0; i < BASE_STATUS_COUNT; i++) {
        ck_assert_uint_gt(strlen(base_status_text((enum base_status)i)), 0);
        ck_assert_uint_gt(strlen(base_status_name((enum base_status)i)), 0);
    }
    ck_assert_str_eq(base_status_text(BASE_NOT_FOUND), "not found");
    ck_assert_str_eq(base_status_name(BASE_NOT_FOUND), "NOT_FOUND");
    ck_assert_str_eq(base_status_name(BASE_OK), "OK");
    ck_assert_ptr_nonnull(base_status_text(BASE_STATUS_COUNT));
    ck_assert_ptr_nonnull(base_status_name(BASE_STATUS_COUNT));
}
END_TEST

START_TEST(test_fail_fills_the_error)
{
    struct base_error error = {0};
    enum base_status status = base_fail(&error, BASE_NOT_FOUND, "model %s has no %d", "m", 3);
    ck_assert_int_eq(status, BASE_NOT_FOUND);
    ck_assert_int_eq(error.status, BASE_NOT_FOUND);
    ck_assert_str_eq(error.message, "model m has no 3");
}
END_TEST

START_TEST(test_fail_without_an_error_returns_the_status)
{
    ck_assert_int_eq(base_fail(NULL, BASE_UNAVAILABLE, "%s", "x"), BASE_UNAVAILABLE);
}
END_TEST

START_TEST(test_long_message_is_cut)
{
    char text[600];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct base_error error;
    (void)base_fail(&error, BASE_INTERNAL, "%s", text);
    ck_assert_uint_eq(strlen(error.message), BASE_ERROR_BYTES - 1);
    text[BASE_ERROR_BYTES - 1] = '\0';
    ck_assert_str_eq(error.message, text);
    (void)base_fail(&error, BASE_INTERNAL, "%s", text); // exactly fits
    ck_assert_str_eq(error.message, text);
}
END_TEST

/* The cut falls at every place of sequences of 2, 3 and 4 bytes; no half of one stays. */
START_TEST(test_cut_never_splits_a_character)
{
    const char *const characters[] = {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x99\x82"};
    for (size_t c = 0; c < 3; c++) {
        size_t length = strlen(characters[c]);
        for (size_t shift = 0; shift < length; shift++) {
            char text[600] = "";
            memset(text, 'a', shift);
            for (size_t at = shift; at + length < sizeof(text); at += length) {
                memcpy(text + at, characters[c], length);
            }
            struct base_error error;
            (void)base_fail(&error, BASE_INTERNAL, "%s", text);
            size_t kept = strlen(error.message);
            ck_assert_uint_eq((kept - shift) % length, 0);
            ck_assert_uint_gt(kept + length, BASE_ERROR_BYTES - 1);
            ck_assert_int_eq(strncmp(error.message, text, kept), 0);
        }
    }
}
END_TEST

START_TEST(test_cut_of_bytes_that_are_no_text_is_kept)
{
    char text[600];
    memset(text, 0x80, sizeof(text) - 1); // continuation bytes without a lead
    text[sizeof(text) - 1] = '\0';
    struct base_error error;
    (void)base_fail(&error, BASE_INTERNAL, "%s", text);
    ck_assert_uint_le(strlen(error.message), BASE_ERROR_BYTES - 1);
}
END_TEST

static enum base_status forward(enum base_status status, int *reached)
{
    BASE_TRY(status);
    *reached = 1;
    return BASE_OK;
}

START_TEST(test_try_returns_only_on_failure)
{
    int reached = 0;
    ck_assert_int_eq(forward(BASE_CANCELLED, &reached), BASE_CANCELLED);
    ck_assert_int_eq(reached, 0);
    ck_assert_int_eq(forward(BASE_OK, &reached), BASE_OK);
    ck_assert_int_eq(reached, 1);
}
END_TEST

static void fail_with_ok(void *argument)
{
    (void)base_fail(argument, BASE_OK, "%s", "x");
}

START_TEST(test_fail_with_ok_is_a_bug)
{
    ck_assert(util_aborts(fail_with_ok, NULL));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("status");
    TCase *tcase = tcase_create("status");
    tcase_add_test(tcase, test_every_status_has_text_and_name);
    tcase_add_test(tcase, test_fail_fills_the_error);
    tcase_add_test(tcase, test_fail_without_an_error_returns_the_status);
    tcase_add_test(tcase, test_long_message_is_cut);
    tcase_add_test(tcase, test_cut_never_splits_a_character);
    tcase_add_test(tcase, test_cut_of_bytes_that_are_no_text_is_kept);
    tcase_add_test(tcase, test_try_returns_only_on_failure);
    tcase_add_test(tcase, test_fail_with_ok_is_a_bug);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
