/* Log lines as they arrive at file descriptor 2, which each case leads into a file. */
#include "base/log.h"

#include "base/mem.h"
#include "tests/util.h"

#include <pthread.h>
#include <regex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static FILE *capture;
static int real_stderr;

static void setup(void)
{
    capture = tmpfile();
    ck_assert_ptr_nonnull(capture);
    real_stderr = dup(STDERR_FILENO);
    ck_assert_int_ge(real_stderr, 0);
    ck_assert_int_eq(dup2(fileno(capture), STDERR_FILENO), STDERR_FILENO);
    base_log_configure(BASE_LOG_INFO, BASE_LOG_TEXT);
}

static void teardown(void)
{
    (void)dup2(real_stderr, STDERR_FILENO);
    (void)close(real_stderr);
    (void)fclose(capture);
}

/* Everything logged so far; valid until the next call. */
static const char *logged(void)
{
    static char text[200000];
    ssize_t length = pread(fileno(capture), text, sizeof(text) - 1, 0);
    ck_assert_int_ge(length, 0);
    text[length] = '\0';
    return text;
}

static uint32_t lines(void)
{
    uint32_t count = 0;
    for (const char *c = logged(); *c != '\0'; c++) {
        count += *c == '\n';
    }
    return count;
}

START_TEST(test_text_line_has_its_parts)
{
    log_warn("sched", "batch %u short rows=%u", 7u, 3u);
    regex_t pattern;
    ck_assert_int_eq(regcomp(&pattern,
                             "^20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]"
                             "[.][0-9]{6}Z WARN  sched: batch 7 short rows=3\n$",
                             REG_EXTENDED | REG_NOSUB),
                     0);
    ck_assert_int_eq(regexec(&pattern, logged(), 0, NULL, 0), 0);
    regfree(&pattern);
    ck_assert_uint_eq(lines(), 1);
}
END_TEST

START_TEST(test_levels_are_filtered)
{
    log_error("t", "one");
    log_info("t", "two");
    log_debug("t", "three");
    ck_assert_uint_eq(lines(), 2);
    base_log_configure(BASE_LOG_DEBUG, BASE_LOG_TEXT);
    log_debug("t", "four");
    ck_assert_uint_eq(lines(), 3);
    base_log_configure(BASE_LOG_ERROR, BASE_LOG_TEXT);
    log_warn("t", "five");
    ck_assert_uint_eq(lines(), 3);
    ck_assert(base_log_is_on(BASE_LOG_ERROR));
    ck_assert(!base_log_is_on(BASE_LOG_WARN));
}
END_TEST

static int evaluations;

static int evaluate(void)
{
    return ++evaluations;
}

START_TEST(test_arguments_of_a_level_that_is_off_are_not_evaluated)
{
    evaluations = 0;
    log_debug("t", "%d", evaluate());
    ck_assert_int_eq(evaluations, 0);
    log_info("t", "%d", evaluate());
    ck_assert_int_eq(evaluations, 1);
}
END_TEST

START_TEST(test_json_line_parses_whatever_the_message)
{
    base_log_configure(BASE_LOG_INFO, BASE_LOG_JSON);
    log_error("srv", "name=\"%s\"", "a\"b\\c\n\x01\xC3\xA9\xFF");
    json_t *line = json_loads(logged(), 0, NULL);
    ck_assert_ptr_nonnull(line);
    ck_assert_str_eq(json_string_value(json_object_get(line, "level")), "error");
    ck_assert_str_eq(json_string_value(json_object_get(line, "subsystem")), "srv");
    ck_assert_str_eq(json_string_value(json_object_get(line, "message")),
                     "name=\"a\"b\\c\n\x01\xC3\xA9\xEF\xBF\xBD\"");
    const char *time = json_string_value(json_object_get(line, "time"));
    ck_assert_ptr_nonnull(time);
    ck_assert_uint_eq(strlen(time), 27);
    ck_assert_int_eq(time[26], 'Z');
    ck_assert_ptr_null(json_object_get(line, "left_out"));
    json_decref(line);
    ck_assert_uint_eq(lines(), 1);
}
END_TEST

START_TEST(test_control_characters_cannot_forge_a_text_line)
{
    log_info("srv", "model=%s", "x\n2024-01-01T00:00:00.000000Z ERROR srv: fake\t\x7f\x1b[0m");
    ck_assert_uint_eq(lines(), 1);
    ck_assert_ptr_nonnull(strstr(logged(), "model=x\\x0a2024"));
    ck_assert_ptr_nonnull(strstr(logged(), "fake\\x09\\x7f\\x1b[0m"));
}
END_TEST

START_TEST(test_repeated_errors_are_limited_and_counted)
{
    struct base_log_site site = {0};
    for (int i = 0; i < 25; i++) {
        base_log_write(&site, BASE_LOG_ERROR, "t", "again %d", i);
    }
    ck_assert_uint_eq(lines(), 5);
    ck_assert_ptr_null(strstr(logged(), "left_out"));
    atomic_store(&site.window_start_ns, 1); // as if long ago
    base_log_write(&site, BASE_LOG_ERROR, "t", "later");
    ck_assert_uint_eq(lines(), 6);
    ck_assert_ptr_nonnull(strstr(logged(), "later left_out=20\n"));
    base_log_write(&site, BASE_LOG_ERROR, "t", "last");
    ck_assert_ptr_nonnull(strstr(logged(), "last\n"));
}
END_TEST

START_TEST(test_left_out_lines_are_counted_in_json)
{
    base_log_configure(BASE_LOG_INFO, BASE_LOG_JSON);
    struct base_log_site site = {.left_out = 3};
    base_log_write(&site, BASE_LOG_WARN, "t", "x");
    json_t *line = json_loads(logged(), 0, NULL);
    ck_assert_ptr_nonnull(line);
    ck_assert_int_eq(json_integer_value(json_object_get(line, "left_out")), 3);
    json_decref(line);
}
END_TEST

START_TEST(test_sites_are_limited_apart_and_info_not_at_all)
{
    for (int i = 0; i < 8; i++) {
        log_warn("t", "here");
        log_warn("t", "there");
        log_info("t", "everywhere");
    }
    ck_assert_uint_eq(lines(), 5 + 5 + 8);
}
END_TEST

START_TEST(test_long_message_is_cut_and_still_one_line)
{
    char text[3000];
    memset(text, '"', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_info("t", "%s", text);
    ck_assert_uint_eq(lines(), 1);
    ck_assert_uint_lt(strlen(logged()), 1200);

    memset(text, 1, sizeof(text) - 1); // the longest escape
    log_info("t", "%s", text);
    base_log_configure(BASE_LOG_INFO, BASE_LOG_JSON);
    log_info("t", "%s", text);
    ck_assert_uint_eq(lines(), 3);
    json_t *line = json_loads(strrchr(logged(), '{'), 0, NULL);
    ck_assert_ptr_nonnull(line);
    ck_assert_uint_eq(json_string_length(json_object_get(line, "message")), 1023);
    json_decref(line);
}
END_TEST

START_TEST(test_logging_allocates_nothing)
{
    uint64_t before = base_alloc_count();
    log_info("t", "text \"%d\"", 1);
    base_log_configure(BASE_LOG_INFO, BASE_LOG_JSON);
    log_info("t", "json \"%d\"\n", 2);
    ck_assert_uint_eq(base_alloc_count(), before);
    ck_assert_uint_eq(lines(), 2);
}
END_TEST

static void *log_many(void *argument)
{
    const char *name = argument;
    for (int i = 0; i < 200; i++) {
        log_info("t", "%s says %d and some more text to make the line longer %s", name, i, name);
    }
    return NULL;
}

START_TEST(test_lines_of_threads_do_not_mix)
{
    // Both write through one open file, whose position the kernel moves with each write.
    pthread_t threads[3];
    char names[3][2] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, log_many, names[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_eq(lines(), 600);
    for (const char *line = logged(); *line != '\0'; line = strchr(line, '\n') + 1) {
        const char *says = strstr(line, " says ");
        ck_assert_ptr_nonnull(says);
        const char *end = strchr(line, '\n');
        ck_assert_ptr_nonnull(end);
        ck_assert_int_eq(end[-1], says[-1]);
        ck_assert_int_eq(line[28], 'I');
    }
}
END_TEST

START_TEST(test_closed_stderr_is_survived)
{
    ck_assert_int_eq(close(STDERR_FILENO), 0);
    log_info("t", "nobody hears this");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tcase = tcase_create("log");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_text_line_has_its_parts);
    tcase_add_test(tcase, test_levels_are_filtered);
    tcase_add_test(tcase, test_arguments_of_a_level_that_is_off_are_not_evaluated);
    tcase_add_test(tcase, test_json_line_parses_whatever_the_message);
    tcase_add_test(tcase, test_control_characters_cannot_forge_a_text_line);
    tcase_add_test(tcase, test_repeated_errors_are_limited_and_counted);
    tcase_add_test(tcase, test_left_out_lines_are_counted_in_json);
    tcase_add_test(tcase, test_sites_are_limited_apart_and_info_not_at_all);
    tcase_add_test(tcase, test_long_message_is_cut_and_still_one_line);
    tcase_add_test(tcase, test_logging_allocates_nothing);
    tcase_add_test(tcase, test_lines_of_threads_do_not_mix);
    tcase_add_test(tcase, test_closed_stderr_is_survived);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
