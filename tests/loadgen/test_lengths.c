/* Length distributions and the trace files. */
#include "loadgen/lengths.h"

#include "base/mem.h"
#include "tests/util.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct lg_lengths lengths;
static struct base_error error;
static char folder[UTIL_PATH_BYTES];
static char path[UTIL_PATH_BYTES + 16];
static char spec[UTIL_PATH_BYTES + 64];

static void begin(void)
{
    util_temp_dir(folder);
    (void)snprintf(path, sizeof(path), "%s/t.tsv", folder);
    lengths = (struct lg_lengths){0};
}

static void end(void)
{
    lg_lengths_release(&lengths);
    util_remove_tree(folder);
}

/* Writes the trace and reads it back with the column's suffix (may be ""). */
static enum base_status read_trace(const char *text, const char *column)
{
    lg_lengths_release(&lengths);
    util_write_file(path, text);
    (void)snprintf(spec, sizeof(spec), "trace:%s%s", path, column);
    return lg_lengths_create(spec, 1, &lengths, &error);
}

static void assert_refused(const char *text, const char *column, const char *part)
{
    ck_assert_int_eq(read_trace(text, column), BASE_INVALID_ARGUMENT);
    ck_assert_msg(strstr(error.message, path) != NULL, "%s names no file", error.message);
    ck_assert_msg(strstr(error.message, part) != NULL, "%s does not say %s", error.message, part);
}

START_TEST(test_lengths_fixed_is_one_value)
{
    ck_assert_int_eq(lg_lengths_create("fixed:7", 1, &lengths, &error), BASE_OK);
    ck_assert_uint_eq(lengths.count, 1);
    ck_assert_uint_eq(lengths.values[0], 7);
    ck_assert_uint_eq(lengths.max, 7);
}
END_TEST

START_TEST(test_lengths_uniform_covers_its_ends_evenly)
{
    ck_assert_int_eq(lg_lengths_create("uniform:3:6", util_seed(), &lengths, &error), BASE_OK);
    uint32_t seen[7] = {0};
    for (uint32_t i = 0; i < lengths.count; i++) {
        ck_assert_uint_ge(lengths.values[i], 3);
        ck_assert_uint_le(lengths.values[i], 6);
        seen[lengths.values[i]]++;
    }
    for (uint32_t v = 3; v <= 6; v++) {
        util_assert_close(seen[v], lengths.count / 4.0, 0, 0.05);
    }
    ck_assert_uint_eq(lengths.max, 6);
}
END_TEST

START_TEST(test_lengths_same_seed_same_draws)
{
    struct lg_lengths other;
    ck_assert_int_eq(lg_lengths_create("uniform:1:1000", 5, &lengths, &error), BASE_OK);
    ck_assert_int_eq(lg_lengths_create("uniform:1:1000", 5, &other, &error), BASE_OK);
    ck_assert_mem_eq(lengths.values, other.values, lengths.count * sizeof(lengths.values[0]));
    lg_lengths_release(&other);
    ck_assert_int_eq(lg_lengths_create("uniform:1:1000", 6, &other, &error), BASE_OK);
    ck_assert_mem_ne(lengths.values, other.values, lengths.count * sizeof(lengths.values[0]));
    lg_lengths_release(&other);
}
END_TEST

START_TEST(test_lengths_trace_keeps_the_files_order)
{
    ck_assert_int_eq(read_trace("# source\ttarget\n3\t4\r\n\n29\t38\n5\t1", ""), BASE_OK);
    ck_assert_uint_eq(lengths.count, 3);
    ck_assert_uint_eq(lengths.values[0], 3);
    ck_assert_uint_eq(lengths.values[1], 29);
    ck_assert_uint_eq(lengths.values[2], 5);
    ck_assert_uint_eq(lengths.max, 29);
    ck_assert_int_eq(read_trace("3\t4\n29\t38\n", ":target"), BASE_OK);
    ck_assert_uint_eq(lengths.values[1], 38);
    ck_assert_int_eq(read_trace("3\t4\t8\n29\t38\t9\n", ":3"), BASE_OK);
    ck_assert_uint_eq(lengths.values[0], 8);
}
END_TEST

START_TEST(test_lengths_trace_error_names_file_and_line)
{
    assert_refused("3\t4\nfive\t6\n", ":source", ".tsv:2:");
    assert_refused("# c\n\n3\t4\n3\n", ":target", ".tsv:4:");
    assert_refused("3\t4\n0\t1\n", "", ".tsv:2:");
    assert_refused("3\t4\n-1\t1\n", "", "'-1'");
    assert_refused("3\t4\n1000001\t1\n", "", ".tsv:2:");
    assert_refused("3 4\n", "", ".tsv:1:");
    assert_refused("# only this\n", "", "no lengths");
    assert_refused("", "", "no lengths");
}
END_TEST

START_TEST(test_lengths_trace_that_is_missing_is_named)
{
    ck_assert_int_eq(lg_lengths_create("trace:/does/not/exist.tsv", 1, &lengths, &error),
                     BASE_NOT_FOUND);
    ck_assert(strstr(error.message, "/does/not/exist.tsv") != NULL);
}
END_TEST

START_TEST(test_lengths_wrong_specs_are_refused)
{
    static const char *const wrong[] = {"",        "fixed",     "fixed:",        "fixed:0",
                                        "fixed:x", "uniform:1", "uniform:5:4",   "uniform:0:4",
                                        "trace:",  "poisson:3", "fixed:1000001", "uniform:1:2:3",
                                        "trace::1"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        ck_assert_msg(lg_lengths_create(wrong[i], 1, &lengths, &error) == BASE_INVALID_ARGUMENT,
                      "%s was not refused", wrong[i]);
        ck_assert_ptr_null(lengths.values);
    }
}
END_TEST

START_TEST(test_lengths_when_memory_fails_returns_exhausted)
{
    util_write_file(path, "3\t4\n5\t6\n");
    (void)snprintf(spec, sizeof(spec), "trace:%s", path);
    uint64_t failures = 0;
    for (uint64_t n = 1; n < 20; n++) {
        base_alloc_fail_at(n);
        enum base_status status = lg_lengths_create(spec, 1, &lengths, &error);
        base_alloc_fail_at(0);
        if (status == BASE_OK) {
            break;
        }
        ck_assert_int_eq(status, BASE_RESOURCE_EXHAUSTED);
        ck_assert_ptr_null(lengths.values);
        failures++;
    }
    ck_assert_uint_ge(failures, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lengths");
    TCase *tcase = tcase_create("specs");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_lengths_fixed_is_one_value);
    tcase_add_test(tcase, test_lengths_uniform_covers_its_ends_evenly);
    tcase_add_test(tcase, test_lengths_same_seed_same_draws);
    tcase_add_test(tcase, test_lengths_trace_keeps_the_files_order);
    tcase_add_test(tcase, test_lengths_trace_error_names_file_and_line);
    tcase_add_test(tcase, test_lengths_trace_that_is_missing_is_named);
    tcase_add_test(tcase, test_lengths_wrong_specs_are_refused);
    tcase_add_test(tcase, test_lengths_when_memory_fails_returns_exhausted);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
