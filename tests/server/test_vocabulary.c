/* Vocabularies: files of lines, both ways, and how a text falls into words. */
#include "base/mem.h"
#include "server/vocabulary.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

static char folder[UTIL_PATH_BYTES];
static struct base_error error;

static struct srv_word word_of(const char *text)
{
    return (struct srv_word){.text = text, .length = strlen(text)};
}

static enum base_status load_at(enum cfg_vocabulary_kind kind, const char *path,
                                struct srv_vocabulary **out)
{
    const struct srv_vocabulary_source source = {.kind = kind, .path = path, .name = "v.txt"};
    return srv_vocabulary_load(&source, out, &error);
}

static enum base_status load(enum cfg_vocabulary_kind kind, const char *contents,
                             struct srv_vocabulary **out)
{
    char path[2 * UTIL_PATH_BYTES];
    snprintf(path, sizeof(path), "%s/v.txt", folder);
    util_write_file(path, contents);
    *out = NULL;
    return load_at(kind, path, out);
}

static struct srv_vocabulary *open_good(enum cfg_vocabulary_kind kind, const char *contents)
{
    struct srv_vocabulary *vocabulary = NULL;
    ck_assert_msg(load(kind, contents, &vocabulary) == BASE_OK, "%s", error.message);
    return vocabulary;
}

static void setup(void)
{
    util_temp_dir(folder);
}

static void teardown(void)
{
    util_remove_tree(folder);
}

static void assert_word(const struct srv_vocabulary *vocabulary, uint32_t id, const char *text)
{
    const struct srv_word word = srv_vocabulary_word(vocabulary, id);
    ck_assert_uint_eq(word.length, strlen(text));
    ck_assert_mem_eq(word.text, text, word.length);
    ck_assert_int_eq(srv_vocabulary_find(vocabulary, word_of(text)), id);
}

START_TEST(test_lines_are_words)
{
    static const char *const files[] = {"the\nNew York\r\n \nstra\xc3\x9f"
                                        "e\n",
                                        "the\nNew York\r\n \nstra\xc3\x9f"
                                        "e"};
    for (size_t i = 0; i < 2; i++) {
        struct srv_vocabulary *vocabulary = open_good(CFG_VOCABULARY_WORDS, files[i]);
        ck_assert_uint_eq(srv_vocabulary_count(vocabulary), 4);
        assert_word(vocabulary, 0, "the");
        assert_word(vocabulary, 1, "New York");
        assert_word(vocabulary, 2, " ");
        assert_word(vocabulary, 3,
                    "stra\xc3\x9f"
                    "e");
        ck_assert_int_eq(srv_vocabulary_find(vocabulary, word_of("The")), SRV_VOCABULARY_NONE);
        ck_assert_int_eq(srv_vocabulary_find(vocabulary, word_of("th")), SRV_VOCABULARY_NONE);
        srv_vocabulary_free(vocabulary);
    }
}
END_TEST

START_TEST(test_many_words)
{
    struct base_buf contents;
    base_buf_init(&contents, 1 << 20);
    for (uint32_t i = 0; i < 5000; i++) {
        base_buf_printf(&contents, "w%u\n", i * 7);
    }
    struct srv_vocabulary *vocabulary = open_good(CFG_VOCABULARY_WORDS, contents.data);
    for (uint32_t i = 0; i < 5000; i++) {
        char text[16];
        snprintf(text, sizeof(text), "w%u", i * 7);
        assert_word(vocabulary, i, text);
        snprintf(text, sizeof(text), "w%u", i * 7 + 1);
        ck_assert_int_eq(srv_vocabulary_find(vocabulary, word_of(text)), SRV_VOCABULARY_NONE);
    }
    srv_vocabulary_free(vocabulary);
    base_buf_release(&contents);
}
END_TEST

static void assert_pieces(enum cfg_vocabulary_kind kind, const char *text, const char *pieces)
{
    struct srv_vocabulary *vocabulary = NULL;
    struct srv_words words;
    struct srv_word piece;
    char got[128] = "";
    ck_assert_int_eq(load(kind, "x\n", &vocabulary), BASE_OK);
    srv_words_begin(&words, vocabulary, word_of(text));
    while (srv_words_next(&words, &piece)) {
        const size_t at = strlen(got);
        snprintf(got + at, sizeof(got) - at, "%.*s|", (int)piece.length, piece.text);
    }
    ck_assert_str_eq(got, pieces);
    ck_assert_uint_eq(words.rest.length, 0);
    srv_vocabulary_free(vocabulary);
}

START_TEST(test_texts_fall_into_words)
{
    assert_pieces(CFG_VOCABULARY_WORDS, " the\tcat\r\nsat  ", "the|cat|sat|");
    assert_pieces(CFG_VOCABULARY_WORDS, "", "");
    assert_pieces(CFG_VOCABULARY_WORDS, " \n", "");
    assert_pieces(CFG_VOCABULARY_WORDS, "one", "one|");
    assert_pieces(CFG_VOCABULARY_CHARACTERS, "a \xc3\x9f\xe2\x82\xac!",
                  "a| |\xc3\x9f|\xe2\x82\xac|!|");
    assert_pieces(CFG_VOCABULARY_CHARACTERS,
                  "\xc3"
                  "a\xff",
                  "\xc3|a|\xff|"); // no UTF-8
    assert_pieces(CFG_VOCABULARY_CHARACTERS, "\xf0\x9f\x98\x80\xe2\x82",
                  "\xf0\x9f\x98\x80|\xe2|\x82|");
    assert_pieces(CFG_VOCABULARY_BYTES, "a \xc3\x9f", "a| |\xc3|\x9f|");
}
END_TEST

START_TEST(test_bytes)
{
    struct srv_vocabulary *vocabulary = NULL;
    ck_assert_int_eq(load_at(CFG_VOCABULARY_BYTES, NULL, &vocabulary), BASE_OK);
    ck_assert_uint_eq(srv_vocabulary_count(vocabulary), 256);
    for (uint32_t i = 0; i < 256; i++) {
        const struct srv_word word = srv_vocabulary_word(vocabulary, i);
        ck_assert_uint_eq(word.length, 1);
        ck_assert_uint_eq((uint8_t)word.text[0], i);
        ck_assert_int_eq(srv_vocabulary_find(vocabulary, word), i);
    }
    ck_assert_int_eq(srv_vocabulary_find(vocabulary, word_of("ab")), SRV_VOCABULARY_NONE);
    srv_vocabulary_free(vocabulary);
}
END_TEST

START_TEST(test_files_that_are_none_are_refused)
{
    static const char *const mistakes[][2] = {
        {"", "v.txt: 0 lines, expected 1 to 16777216"},
        {"a\n\nb\n", "v.txt:2: an empty line"},
        {"a\nb\n\n", "v.txt:3: an empty line"},
        {"a\r\n\r\n", "v.txt:2: an empty line"},
        {"a\nb\na\n", "v.txt:3: the same as line 1"},
        {"a\nb\r\nb", "v.txt:3: the same as line 2"},
    };
    struct srv_vocabulary *vocabulary = NULL;
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        ck_assert_int_eq(load(CFG_VOCABULARY_WORDS, mistakes[i][0], &vocabulary),
                         BASE_INVALID_ARGUMENT);
        ck_assert_str_eq(error.message, mistakes[i][1]);
        ck_assert_ptr_null(vocabulary);
    }
    ck_assert_int_eq(load_at(CFG_VOCABULARY_WORDS, "/nonexistent/v.txt", &vocabulary),
                     BASE_NOT_FOUND);
    ck_assert_str_eq(error.message, "v.txt: No such file or directory");
    ck_assert_int_eq(load_at(CFG_VOCABULARY_WORDS, "/", &vocabulary), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "v.txt: Is a directory");
}
END_TEST

START_TEST(test_loading_survives_every_failed_allocation)
{
    struct srv_vocabulary *vocabulary = NULL;
    for (int kind = CFG_VOCABULARY_BYTES; kind <= CFG_VOCABULARY_CHARACTERS; kind++) {
        enum base_status status = BASE_RESOURCE_EXHAUSTED;
        for (uint64_t n = 1; status == BASE_RESOURCE_EXHAUSTED; n++) {
            ck_assert_uint_lt(n, 20);
            char path[2 * UTIL_PATH_BYTES];
            snprintf(path, sizeof(path), "%s/v.txt", folder);
            util_write_file(path, "a\nb\n");
            base_alloc_fail_at(n);
            status = load_at((enum cfg_vocabulary_kind)kind, path, &vocabulary);
            base_alloc_fail_at(0);
        }
        ck_assert_int_eq(status, BASE_OK);
        srv_vocabulary_free(vocabulary);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("vocabulary");
    TCase *tcase = tcase_create("vocabulary");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_lines_are_words);
    tcase_add_test(tcase, test_many_words);
    tcase_add_test(tcase, test_texts_fall_into_words);
    tcase_add_test(tcase, test_bytes);
    tcase_add_test(tcase, test_files_that_are_none_are_refused);
    tcase_add_test(tcase, test_loading_survives_every_failed_allocation);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
