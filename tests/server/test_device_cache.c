/* What a device keeps from start to start: found again under its name and key, and under no other;
 * a file that is damaged or another's is as good as none. */
#include "server/device_cache.h"

#include "base/log.h"
#include "base/mem.h"
#include "cells/cache_file.h"
#include "tests/util.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define NAME "a shape"
#define KEY  "card one\ndriver 1\n"
#define TEXT "kn 1 2 3\n"

static char folder[UTIL_PATH_BYTES];
static struct srv_device_cache cache;
static char got[64];

static void setup(void)
{
    util_temp_dir(folder);
    srv_device_cache_init(&cache, folder);
    base_log_configure(BASE_LOG_ERROR, BASE_LOG_TEXT);
}

static void teardown(void)
{
    util_remove_tree(folder);
}

static bool load(const char *name, const char *key)
{
    const struct cell_device_cache *table = srv_device_cache_of(&cache);
    got[0] = '\0';
    return table->load(table->context, name, key, got, sizeof(got));
}

static void store(const char *name, const char *key, const char *text)
{
    const struct cell_device_cache *table = srv_device_cache_of(&cache);
    table->store(table->context, name, key, text);
}

/* The only file in the folder. */
static void find_file(char path[2 * UTIL_PATH_BYTES])
{
    DIR *dir = opendir(folder);
    uint32_t n = 0;
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] != '.') {
            snprintf(path, (size_t)2 * UTIL_PATH_BYTES, "%s/%s", folder, entry->d_name);
            n++;
        }
    }
    closedir(dir);
    ck_assert_uint_eq(n, 1);
}

START_TEST(test_what_is_kept_is_found)
{
    ck_assert(!load(NAME, KEY));
    store(NAME, KEY, TEXT);
    ck_assert(load(NAME, KEY));
    ck_assert_str_eq(got, TEXT);
    ck_assert(!load("another", KEY));
    store(NAME, KEY, "none\n");
    ck_assert(load(NAME, KEY));
    ck_assert_str_eq(got, "none\n");
    char path[2 * UTIL_PATH_BYTES];
    find_file(path); // one, and nothing beside it
    struct srv_device_cache again;
    srv_device_cache_init(&again, folder);
    ck_assert(again.table.load(&again, NAME, KEY, got, sizeof(got)));
    ck_assert(!again.table.load(&again, NAME, KEY, got, strlen("none\n")));
}
END_TEST

START_TEST(test_another_key_or_program_is_not_believed)
{
    store(NAME, KEY, TEXT);
    ck_assert(!load(NAME, "card one\ndriver 2\n"));
    ck_assert(!load(NAME, "card one\n"
                          "driver 1\nruntime 3\n"));
    cache.build[0] = cache.build[0] == 'x' ? 'y' : 'x';
    ck_assert(!load(NAME, KEY));
    store(NAME, KEY, "none\n"); // measured again: now it is this program's
    ck_assert(load(NAME, KEY));
    ck_assert_str_eq(got, "none\n");
}
END_TEST

/* Whole, of this program, and of the format before: another first line, and its own hash. */
START_TEST(test_a_file_of_an_older_format_is_not_believed)
{
    char path[2 * UTIL_PATH_BYTES];
    struct base_error error;
    store(NAME, KEY, TEXT);
    find_file(path);
    size_t length = 0;
    char *text = util_read_file(path, &length);
    char *number = strchr(text, '\n') - 1;
    ck_assert_int_eq(*number, '2');
    for (int i = 0; i < 2; i++) {
        struct base_buf older;
        *number = "12"[i];
        base_buf_init(&older, CELL_CACHE_FILE_BYTES);
        base_buf_add(&older, text, (size_t)(strstr(text, "\nhash ") + 1 - text));
        ck_assert_int_eq(cell_cache_file_write(folder, path, &older, &error), BASE_OK);
        base_buf_release(&older);
        ck_assert(load(NAME, KEY) == (i == 1));
    }
    base_free(text);
}
END_TEST

START_TEST(test_a_damaged_file_is_not_believed)
{
    char path[2 * UTIL_PATH_BYTES];
    store(NAME, KEY, TEXT);
    find_file(path);
    size_t length = 0;
    char *text = util_read_file(path, &length);
    for (size_t i = 0; i < length; i++) {
        text[i] ^= 1;
        util_write_file(path, text);
        ck_assert_msg(!load(NAME, KEY), "byte %zu", i);
        text[i] ^= 1;
    }
    for (size_t n = length; n-- > 0;) {
        text[n] = '\0';
        util_write_file(path, text);
        ck_assert_msg(!load(NAME, KEY), "%zu bytes", n);
    }
    base_free(text);
    store(NAME, KEY, TEXT);
    ck_assert(load(NAME, KEY));
}
END_TEST

START_TEST(test_without_a_folder_nothing_is_kept)
{
    srv_device_cache_init(&cache, "");
    ck_assert_ptr_null(srv_device_cache_of(&cache));
}
END_TEST

START_TEST(test_a_folder_that_cannot_be_written_is_said_once)
{
    char nowhere[UTIL_PATH_BYTES + 16];
    snprintf(nowhere, sizeof(nowhere), "%s/not/there", folder);
    srv_device_cache_init(&cache, nowhere);
    store(NAME, KEY, TEXT);
    ck_assert(cache.cannot_write);
    store(NAME, KEY, TEXT);
    ck_assert(!load(NAME, KEY));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_cache");
    TCase *tcase = tcase_create("device_cache");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_what_is_kept_is_found);
    tcase_add_test(tcase, test_another_key_or_program_is_not_believed);
    tcase_add_test(tcase, test_a_file_of_an_older_format_is_not_believed);
    tcase_add_test(tcase, test_a_damaged_file_is_not_believed);
    tcase_add_test(tcase, test_without_a_folder_nothing_is_kept);
    tcase_add_test(tcase, test_a_folder_that_cannot_be_written_is_said_once);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
