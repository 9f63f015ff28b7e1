/* The byte buffer: growth, its limit, the sticky failure, and JSON strings. */
#include "base/buf.h"

#include "base/mem.h"
#include "tests/util.h"

#include <string.h>

static struct base_buf buf;

static void setup(void)
{
    base_buf_init(&buf, 1000);
}

static void teardown(void)
{
    base_buf_release(&buf);
}

START_TEST(test_appends_join_and_end_with_nul)
{
    ck_assert_ptr_null(buf.data);
    base_buf_text(&buf, "ab");
    base_buf_add(&buf, "c\0d", 3);
    base_buf_printf(&buf, "%s=%d", "e", 42);
    ck_assert_uint_eq(buf.length, 9);
    ck_assert_mem_eq(buf.data, "abc\0de=42", 10);
    ck_assert(!buf.failed);
}
END_TEST

START_TEST(test_empty_appends_are_fine)
{
    base_buf_add(&buf, NULL, 0);
    base_buf_text(&buf, "");
    base_buf_printf(&buf, "%s", "");
    ck_assert_ptr_nonnull(base_buf_grow(&buf, 0));
    ck_assert_uint_eq(buf.length, 0);
    ck_assert_str_eq(buf.data, "");
}
END_TEST

START_TEST(test_grow_returns_the_new_bytes)
{
    base_buf_text(&buf, "x");
    char *bytes = base_buf_grow(&buf, 3);
    ck_assert_ptr_eq(bytes, buf.data + 1);
    memset(bytes, 'y', 3);
    ck_assert_str_eq(buf.data, "xyyy");
}
END_TEST

START_TEST(test_byte_by_byte_growth_allocates_rarely)
{
    uint64_t before = base_alloc_count();
    for (int i = 0; i < 1000; i++) {
        base_buf_add(&buf, &"0123456789"[i % 10], 1);
    }
    ck_assert(!buf.failed);
    ck_assert_uint_eq(buf.length, 1000);
    ck_assert_uint_le(base_alloc_count() - before, 5); // 64, 128, 256, 512, 1000
    for (size_t i = 0; i < 1000; i++) {
        ck_assert_int_eq(buf.data[i], (int)('0' + i % 10));
    }
}
END_TEST

START_TEST(test_limit_is_exact_and_failure_sticks)
{
    ck_assert_ptr_nonnull(base_buf_grow(&buf, 1000));
    ck_assert(!buf.failed);
    base_buf_text(&buf, "x");
    ck_assert(buf.failed);
    ck_assert_uint_eq(buf.length, 1000);

    base_buf_clear(&buf);
    ck_assert(!buf.failed);
    ck_assert_uint_eq(buf.length, 0);
    base_buf_text(&buf, "kept");
    ck_assert_ptr_null(base_buf_grow(&buf, 997));
    base_buf_text(&buf, "y"); // would fit, but a piece before it is missing
    base_buf_printf(&buf, "%d", 1);
    ck_assert(buf.failed);
    ck_assert_str_eq(buf.data, "kept");
}
END_TEST

START_TEST(test_sizes_that_overflow_fail)
{
    base_buf_text(&buf, "kept");
    ck_assert_ptr_null(base_buf_grow(&buf, SIZE_MAX));
    ck_assert(buf.failed);
    ck_assert_str_eq(buf.data, "kept");
}
END_TEST

START_TEST(test_unbounded_buffer_grows_past_the_doubling)
{
    struct base_buf large;
    base_buf_init(&large, SIZE_MAX - 1);
    ck_assert_ptr_nonnull(base_buf_grow(&large, 100000));
    ck_assert_ptr_null(base_buf_grow(&large, SIZE_MAX / 2)); // no machine has this
    ck_assert(large.failed);
    base_buf_release(&large);
}
END_TEST

START_TEST(test_clear_keeps_memory_release_does_not)
{
    ck_assert_ptr_nonnull(base_buf_grow(&buf, 500));
    uint64_t before = base_alloc_count();
    base_buf_clear(&buf);
    ck_assert_ptr_nonnull(base_buf_grow(&buf, 500));
    ck_assert_uint_eq(base_alloc_count(), before);
    base_buf_release(&buf);
    ck_assert_ptr_null(buf.data);
    base_buf_text(&buf, "again");
    ck_assert_str_eq(buf.data, "again");
}
END_TEST

static void write_document(struct base_buf *out)
{
    for (int i = 0; i < 10; i++) {
        base_buf_printf(out, "%d:", i);
        base_buf_json_string(out, "a \"quoted\" text\n", 16);
        base_buf_text(out, ", ");
    }
}

START_TEST(test_every_allocation_failure_is_noticed)
{
    write_document(&buf);
    ck_assert(!buf.failed);
    for (uint64_t n = 1;; n++) {
        struct base_buf other;
        base_buf_init(&other, 1000);
        base_alloc_fail_at(n);
        write_document(&other);
        base_alloc_fail_at(0);
        bool is_complete = !other.failed;
        if (is_complete) {
            ck_assert_str_eq(other.data, buf.data);
            ck_assert_uint_gt(n, 1);
        } else if (other.data != NULL) {
            ck_assert_int_eq(strncmp(other.data, buf.data, other.length), 0);
        }
        base_buf_release(&other);
        if (is_complete) {
            break;
        }
    }
}
END_TEST

struct json_case {
    const char *text;
    size_t length;
    const char *want;
};

#define BAD "\xEF\xBF\xBD"

static const struct json_case json_cases[] = {
    {"", 0, "\"\""},
    {"plain", 5, "\"plain\""},
    {"a\"b\\c/", 6, "\"a\\\"b\\\\c/\""},
    {"\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\""},
    {"\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\x7f\""},
    {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x99\x82", 9, "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x99\x82\""},
    {"\x80", 1, "\"" BAD "\""},
    {"\xFFx", 2, "\"" BAD "x\""},
    {"\xC3", 1, "\"" BAD "\""},                         // cut
    {"\xC3x", 2, "\"" BAD "x\""},                       // no continuation
    {"\xC0\x80", 2, "\"" BAD BAD "\""},                 // overlong NUL
    {"\xE0\x9F\xBF", 3, "\"" BAD BAD BAD "\""},         // overlong
    {"\xE0\xA0\x80", 3, "\"\xE0\xA0\x80\""},            // U+0800
    {"\xED\x9F\xBF", 3, "\"\xED\x9F\xBF\""},            // U+D7FF
    {"\xED\xA0\x80", 3, "\"" BAD BAD BAD "\""},         // surrogate
    {"\xF0\x8F\xBF\xBF", 4, "\"" BAD BAD BAD BAD "\""}, // overlong
    {"\xF4\x8F\xBF\xBF", 4, "\"\xF4\x8F\xBF\xBF\""},    // U+10FFFF
    {"\xF4\x90\x80\x80", 4, "\"" BAD BAD BAD BAD "\""}, // above
    {"\xE2\x82x", 3, "\"" BAD BAD "x\""},
};

START_TEST(test_json_string_escapes_and_repairs)
{
    for (size_t i = 0; i < sizeof(json_cases) / sizeof(json_cases[0]); i++) {
        base_buf_clear(&buf);
        base_buf_json_string(&buf, json_cases[i].text, json_cases[i].length);
        ck_assert_str_eq(buf.data, json_cases[i].want);
    }
}
END_TEST

/* Whatever the bytes, an independent parser accepts the string. */
START_TEST(test_json_string_of_random_bytes_is_valid_json)
{
    struct base_random random = util_random(2);
    for (int round = 0; round < 2000; round++) {
        char bytes[24];
        for (size_t i = 0; i < sizeof(bytes); i++) {
            bytes[i] = (char)base_random_below(&random, 256);
        }
        base_buf_clear(&buf);
        base_buf_json_string(&buf, bytes, sizeof(bytes));
        json_t *value = json_loadb(buf.data, buf.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        ck_assert_msg(json_is_string(value), "%s", buf.data);
        json_decref(value);
    }
}
END_TEST

START_TEST(test_json_string_over_the_limit_leaves_nothing)
{
    struct base_buf small;
    base_buf_init(&small, 10);
    base_buf_text(&small, "key:");
    base_buf_json_string(&small, "12345", 5);
    ck_assert(small.failed);
    ck_assert_str_eq(small.data, "key:");
    base_buf_clear(&small);
    base_buf_json_string(&small, "12345678", 8);
    ck_assert_str_eq(small.data, "\"12345678\"");
    base_buf_release(&small);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("buf");
    TCase *tcase = tcase_create("buf");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_appends_join_and_end_with_nul);
    tcase_add_test(tcase, test_empty_appends_are_fine);
    tcase_add_test(tcase, test_grow_returns_the_new_bytes);
    tcase_add_test(tcase, test_byte_by_byte_growth_allocates_rarely);
    tcase_add_test(tcase, test_limit_is_exact_and_failure_sticks);
    tcase_add_test(tcase, test_sizes_that_overflow_fail);
    tcase_add_test(tcase, test_unbounded_buffer_grows_past_the_doubling);
    tcase_add_test(tcase, test_clear_keeps_memory_release_does_not);
    tcase_add_test(tcase, test_every_allocation_failure_is_noticed);
    tcase_add_test(tcase, test_json_string_escapes_and_repairs);
    tcase_add_test(tcase, test_json_string_of_random_bytes_is_valid_json);
    tcase_add_test(tcase, test_json_string_over_the_limit_leaves_nothing);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
