/* Words cut into pieces: as subword-nmt cuts them, files that are refused, and pieces as a
 * vocabulary has them. tests/data/bpe is its own output. */
#include "base/buf.h"
#include "base/mem.h"
#include "loadgen/file.h"
#include "server/about.h"
#include "server/text.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

static char folder[UTIL_PATH_BYTES];
static struct base_error error;
static struct srv_bpe *bpe;

static void setup(void)
{
    util_temp_dir(folder);
}

static void teardown(void)
{
    util_remove_tree(folder);
}

static const char *path_of(const char *name)
{
    static char path[2 * UTIL_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static enum base_status load(const char *codes)
{
    util_write_file(path_of("codes"), codes);
    bpe = NULL;
    return srv_bpe_load(path_of("codes"), "codes", &bpe, &error);
}

/* The pieces of a word with blanks between them. */
static void assert_cut(struct srv_word word, struct srv_word want)
{
    uint16_t ends[SRV_BPE_CHARACTERS_MAX];
    char got[4096] = "";
    size_t length = 0;
    const uint32_t n = srv_bpe_split(bpe, word, ends);
    for (uint32_t i = 0; i < n; i++) {
        const size_t start = i == 0 ? 0 : ends[i - 1];
        length +=
            (size_t)snprintf(got + length, sizeof got - length, "%.*s%s", (int)(ends[i] - start),
                             word.text + start, i + 1 < n ? SRV_BPE_GOES_ON " " : "");
    }
    ck_assert_msg(length == want.length && memcmp(got, want.text, length) == 0, "%.*s: %s",
                  (int)word.length, word.text, got);
}

static struct srv_word word_of(const char *text)
{
    return (struct srv_word){.text = text, .length = strlen(text)};
}

START_TEST(test_words_are_cut_as_subword_nmt_cuts_them)
{
    struct base_buf file;
    struct lg_line line = {0};
    uint32_t n = 0;
    base_buf_init(&file, LG_FILE_MAX);
    ck_assert_int_eq(lg_file_read("tests/data/bpe/words.tsv", &file, &error), BASE_OK);
    ck_assert_int_eq(srv_bpe_load("tests/data/bpe/codes", "codes", &bpe, &error), BASE_OK);
    for (; lg_line_next(&file, &line); n++) {
        const char *tab = memchr(line.text, '\t', line.length);
        ck_assert_ptr_nonnull(tab);
        const size_t length = (size_t)(tab - line.text);
        assert_cut((struct srv_word){.text = line.text, .length = length},
                   (struct srv_word){.text = tab + 1, .length = line.length - length - 1});
    }
    ck_assert_uint_eq(n, 410);
    srv_bpe_free(bpe);
    base_buf_release(&file);
}
END_TEST

/* Words and what subword-nmt 0.3.8 makes of them: pairs that overlap, merges in an odd order, the
 * end of a word as a symbol of its own, a pair that is there twice. */
START_TEST(test_merges_in_any_order)
{
    static const struct {
        const char *codes, *words[8][2];
    } cases[] = {
        {"#version: 0.2\na a\naa aa\nb c</w>\naa b\n",
         {{"aaaaaaa", "aaaa@@ aa@@ a"},
          {"aab", "aa@@ b"},
          {"bc", "bc"},
          {"abc", "a@@ bc"},
          {"bcb", "b@@ c@@ b"},
          {"aaabc", "aa@@ a@@ bc"}}},
        {"#version: 0.2\r\naa a\r\na a\r\n",
         {{"aaa", "aa@@ a"}, {"aaaa", "aaa@@ a"}, {"aaaaa", "aa@@ aa@@ a"}}},
        {"#version: 0.1\na b\nab </w>\nc </w>\nd c\nd c</w>\n",
         {{"ab", "ab"},
          {"abab", "ab@@ ab"},
          {"dc", "dc"},
          {"c", "c"},
          {"cab", "c@@ ab"},
          {"d", "d"},
          {"dcdc", "dc@@ dc"}}},
        {"a b\nb </w>\n", {{"ab", "ab"}, {"b", "b"}, {"bb", "b@@ b"}, {"aab", "a@@ ab"}}},
        {"#version: 0.2\na b\na b\nb </w>", {{"ab", "a@@ b"}, {"b", "b"}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_msg(load(cases[i].codes) == BASE_OK, "%s", error.message);
        for (size_t w = 0; w < 8 && cases[i].words[w][0] != NULL; w++) {
            assert_cut(word_of(cases[i].words[w][0]), word_of(cases[i].words[w][1]));
        }
        srv_bpe_free(bpe);
    }
}
END_TEST

START_TEST(test_words_that_are_no_text_or_too_long)
{
    uint16_t ends[SRV_BPE_CHARACTERS_MAX];
    char text[4 * SRV_BPE_CHARACTERS_MAX + 8];
    ck_assert_int_eq(load("#version: 0.2\n\xc3 \xff</w>\n"), BASE_OK);
    assert_cut(word_of("\xc3\xff"), word_of("\xc3\xff"));
    assert_cut(word_of("a\xc3\xff"), word_of("a@@ \xc3\xff"));
    srv_bpe_free(bpe);
    static const char *const versions[] = {"#version: 0.2\na a\n", "a </w>\n"};
    for (size_t v = 0; v < 2; v++) {
        ck_assert_int_eq(load(versions[v]), BASE_OK);
        for (uint32_t i = 0; i <= SRV_BPE_CHARACTERS_MAX; i++) {
            static const char face[] = {'\xf0', '\x9f', '\x98', '\x80'};
            memcpy(text + sizeof face * i, face, sizeof face);
        }
        struct srv_word word = {.text = text, .length = (size_t)4 * SRV_BPE_CHARACTERS_MAX};
        ck_assert_uint_eq(srv_bpe_split(bpe, word, ends), SRV_BPE_CHARACTERS_MAX);
        ck_assert_uint_eq(ends[SRV_BPE_CHARACTERS_MAX - 1], word.length);
        word.length += 4;
        ck_assert_uint_eq(srv_bpe_split(bpe, word, ends), 0);
        memset(text, 'a', sizeof text);
        word.length = SRV_BPE_CHARACTERS_MAX;
        ck_assert_uint_eq(srv_bpe_split(bpe, word, ends),
                          SRV_BPE_CHARACTERS_MAX / (v == 0 ? 2 : 1) + (v == 0 ? 1 : 0));
        srv_bpe_free(bpe);
    }
}
END_TEST

START_TEST(test_codes_that_are_none_are_refused)
{
    static const char *const mistakes[][2] = {
        {"", "codes: 0 lines, expected 1 to 16777216"},
        {"#version: 0.3\na b\n", "codes:1: a version that is not 0.1 or 0.2"},
        {"#version:\n", "codes:1: a version that is not 0.1 or 0.2"},
        {"#version: 0.2\na b\nab\n", "codes:3: not two pieces with a blank between them"},
        {"a b\n\n", "codes:2: not two pieces with a blank between them"},
        {"a b c\n", "codes:1: not two pieces with a blank between them"},
        {" a\n", "codes:1: not two pieces with a blank between them"},
        {"a \n", "codes:1: not two pieces with a blank between them"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        ck_assert_int_eq(load(mistakes[i][0]), BASE_INVALID_ARGUMENT);
        ck_assert_str_eq(error.message, mistakes[i][1]);
        ck_assert_ptr_null(bpe);
    }
    ck_assert_int_eq(srv_bpe_load(path_of("none"), "none", &bpe, &error), BASE_NOT_FOUND);
    ck_assert_int_eq(load("#version: 0.2"), BASE_OK); // nothing is ever merged
    assert_cut(word_of("ab"), word_of("a@@ b"));
    srv_bpe_free(bpe);
}
END_TEST

/* ---- As a vocabulary ---- */

static struct srv_vocabulary *open_vocabulary(const char *lines, const char *codes)
{
    char codes_path[2 * UTIL_PATH_BYTES];
    struct srv_vocabulary *vocabulary = NULL;
    util_write_file(path_of("codes"), codes);
    snprintf(codes_path, sizeof codes_path, "%s", path_of("codes"));
    util_write_file(path_of("v.txt"), lines);
    const struct srv_vocabulary_source source = {CFG_VOCABULARY_BPE, path_of("v.txt"), "v.txt",
                                                 codes_path, "codes"};
    if (srv_vocabulary_load(&source, &vocabulary, &error) != BASE_OK) {
        ck_assert_ptr_null(vocabulary);
    }
    return vocabulary;
}

START_TEST(test_texts_fall_into_pieces)
{
    static const int64_t ids[] = {0, 3, 2, SRV_VOCABULARY_NONE, 1};
    struct srv_vocabulary *vocabulary =
        open_vocabulary("lo@@\nw\nw@@\nlow\n@@\n", "#version: 0.2\nl o\nlo w</w>\n");
    struct srv_words words;
    struct srv_word word;
    uint32_t n = 0;
    ck_assert_ptr_nonnull(vocabulary);
    srv_words_begin(&words, vocabulary, word_of("  los low\twx\nw "));
    static const char *const texts[] = {"lo", "s", "low", "w", "x", "w"};
    static const bool go_on[] = {true, false, false, true, false, false};
    for (; srv_words_next(&words, &word); n++) {
        ck_assert_uint_lt(n, 6);
        ck_assert_uint_eq(word.length, strlen(texts[n]));
        ck_assert_mem_eq(word.text, texts[n], word.length);
        ck_assert(word.goes_on == go_on[n]);
        const int64_t id = srv_vocabulary_find(vocabulary, word);
        ck_assert_int_eq(id, n == 0   ? ids[0]
                             : n == 2 ? ids[1]
                             : n == 3 ? ids[2]
                             : n == 5 ? ids[4]
                                      : ids[3]);
    }
    ck_assert_uint_eq(n, 6);
    ck_assert(srv_vocabulary_word(vocabulary, 0).goes_on);
    ck_assert_uint_eq(srv_vocabulary_word(vocabulary, 0).length, 2);
    ck_assert(!srv_vocabulary_word(vocabulary, 3).goes_on);
    ck_assert(!srv_vocabulary_word(vocabulary, 4).goes_on); // a piece that is nothing else
    ck_assert_uint_eq(srv_vocabulary_word(vocabulary, 4).length, 2);
    srv_vocabulary_free(vocabulary);
}
END_TEST

/* A word that is not cut is looked up as it is. */
START_TEST(test_a_long_word_is_one_piece)
{
    char lines[2 * SRV_BPE_CHARACTERS_MAX];
    memset(lines, 'a', sizeof lines);
    lines[SRV_BPE_CHARACTERS_MAX + 1] = '\n';
    lines[SRV_BPE_CHARACTERS_MAX + 2] = '\0';
    struct srv_vocabulary *vocabulary = open_vocabulary(lines, "#version: 0.2\n");
    struct srv_words words;
    struct srv_word word;
    ck_assert_ptr_nonnull(vocabulary);
    lines[SRV_BPE_CHARACTERS_MAX + 1] = '\0';
    srv_words_begin(&words, vocabulary, word_of(lines));
    ck_assert(srv_words_next(&words, &word));
    ck_assert_int_eq(srv_vocabulary_find(vocabulary, word), 0);
    ck_assert(!srv_words_next(&words, &word));
    srv_vocabulary_free(vocabulary);
}
END_TEST

/* ---- Texts of a request, and of an answer ---- */

enum { LO, W_ON, W, LOW, S, OTHER };
#define LINES "lo@@\nw@@\nw\nlow\ns\n<unk>\n"
#define CODES "#version: 0.2\nl o\nlo w</w>\n"

static struct srv_vocabulary *pieces;
static struct srv_texts texts;
static struct cell_model model = {
    .n_inputs = 1,
    .n_outputs = 1,
    .n_sequences = 1,
    .inputs = {{.name = "source", .dtype = CELL_I64, .rank = 2, .time_axis = 1, .width = 1}},
    .outputs = {{.name = "token", .dtype = CELL_I64, .rank = 2, .time_axis = 1, .width = 1}},
};

static void open_texts(void)
{
    pieces = open_vocabulary(LINES, CODES);
    ck_assert_ptr_nonnull(pieces);
    texts = (struct srv_texts){.inputs = {pieces}, .outputs = {pieces}, .unknown = OTHER};
}

START_TEST(test_texts_become_ids_of_pieces)
{
    static const char strings[] = "\7\0\0\0low wow\4\0\0\0 los";
    static const int64_t wanted[2][4] = {{LOW, W_ON, OTHER, W}, {LO, S}};
    struct srv_tensor input = {.name = "source",
                               .datatype = SRV_BYTES,
                               .rank = 1,
                               .shape = {2},
                               .data = (const uint8_t *)strings,
                               .bytes = sizeof strings - 1};
    struct srv_request request = {.id = "", .inputs = &input, .n_inputs = 1};
    struct srv_text_rows rows;
    open_texts();
    base_arena_init(&request.arena, 4096, 1u << 20);
    ck_assert_msg(srv_texts_read(&texts, &model, &request, &rows, &error) == BASE_OK, "%s",
                  error.message);
    ck_assert_int_eq(input.shape[0], 2);
    ck_assert_int_eq(input.shape[1], 4);
    ck_assert_uint_eq(rows.steps[0][0], 4);
    ck_assert_uint_eq(rows.steps[0][1], 2);
    ck_assert_mem_eq(input.data, wanted, sizeof wanted);
    base_arena_release(&request.arena);
    srv_vocabulary_free(pieces);
}
END_TEST

/* Text `index` of what `steps` ids of each of two rows are written as. */
static void assert_written(const int64_t ids[2][5], const uint32_t steps[2], bool continues,
                           const char *first, const char *second)
{
    const uint32_t *by_sequence[CELL_SEQUENCES_MAX] = {steps};
    const char *const wanted[] = {first, second};
    struct srv_tensor output = {.name = "token",
                                .datatype = "INT64",
                                .rank = 2,
                                .shape = {2, 5},
                                .data = (const uint8_t *)ids,
                                .bytes = 10 * sizeof(int64_t)};
    struct srv_request request = {.id = "", .outputs = &output, .n_outputs = 1};
    size_t at = 0;
    base_arena_init(&request.arena, 4096, 1u << 20);
    ck_assert_int_eq(srv_texts_write(&texts, &model, &request, by_sequence, continues, &error),
                     BASE_OK);
    for (size_t i = 0; i < 2; i++) {
        uint32_t length = 0;
        memcpy(&length, output.data + at, sizeof length);
        at += sizeof length;
        ck_assert_msg(length == strlen(wanted[i]) &&
                          memcmp(output.data + at, wanted[i], length) == 0,
                      "%.*s, wanted %s", (int)length, (const char *)output.data + at, wanted[i]);
        at += length;
    }
    base_arena_release(&request.arena);
}

START_TEST(test_ids_of_pieces_become_words)
{
    static const int64_t ids[2][5] = {{LO, S, LOW, W_ON, W}, {LOW, LO, W_ON, LO, S}};
    open_texts();
    assert_written(ids, (const uint32_t[]){5, 5}, false, "los low ww", "low lowlos");
    assert_written(ids, (const uint32_t[]){2, 1}, true, " los", " low");
    assert_written(ids, (const uint32_t[]){1, 3}, false, "lo",
                   "low low"); // cut short within a word
    assert_written(ids, (const uint32_t[]){0, 1}, false, "", "low");
    srv_vocabulary_free(pieces);
}
END_TEST

/* Parts of an answer end where a word does, so that the next begins with a blank. */
START_TEST(test_parts_end_with_a_word)
{
    static int64_t ids[2][6] = {{LO, S, LO, W_ON, W, LOW}, {LOW, LOW, LOW, LO, W, 99}};
    static const uint32_t whole_one[] = {0, 0, 2, 2, 2, 5, 6};
    static const uint32_t whole_both[] = {0, 0, 2, 2, 2, 5, 6};
    const struct sched_tensor output = {
        .data = (uint8_t *)ids, .batch_bytes = sizeof ids[0], .step_bytes = sizeof ids[0][0]};
    uint32_t lengths[] = {6, 6};
    bool is_over[] = {false, false};
    struct srv_texts_part part = {
        .outputs = &output, .n_rows = 1, .lengths = lengths, .is_over = is_over};
    open_texts();
    for (part.to = 0; part.to <= 6; part.to++) {
        part.n_rows = 1;
        ck_assert_uint_eq(srv_texts_whole(&texts, &model, &part), whole_one[part.to]);
        part.n_rows = 2;
        ck_assert_uint_eq(srv_texts_whole(&texts, &model, &part), whole_both[part.to]);
    }
    part.n_rows = 1;
    part.from = 2;
    part.to = 4;
    ck_assert_uint_eq(srv_texts_whole(&texts, &model, &part), 2); // nothing more yet
    is_over[0] = true;
    lengths[0] = 4;
    ck_assert_uint_eq(srv_texts_whole(&texts, &model, &part), 4); // nor ever
    srv_vocabulary_free(pieces);
}
END_TEST

START_TEST(test_loading_survives_every_failed_allocation)
{
    struct srv_vocabulary *vocabulary = NULL;
    for (uint64_t n = 1; vocabulary == NULL; n++) {
        ck_assert_uint_lt(n, 20);
        base_alloc_fail_at(n);
        vocabulary = open_vocabulary("a\nb\n", "#version: 0.2\na b\n");
        base_alloc_fail_at(0);
        ck_assert(vocabulary != NULL || error.status == BASE_RESOURCE_EXHAUSTED);
    }
    srv_vocabulary_free(vocabulary);
    ck_assert_ptr_null(open_vocabulary("a\n", "a\n"));
    ck_assert_str_eq(error.message, "codes:1: not two pieces with a blank between them");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bpe");
    TCase *tcase = tcase_create("bpe");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_words_are_cut_as_subword_nmt_cuts_them);
    tcase_add_test(tcase, test_merges_in_any_order);
    tcase_add_test(tcase, test_words_that_are_no_text_or_too_long);
    tcase_add_test(tcase, test_codes_that_are_none_are_refused);
    tcase_add_test(tcase, test_texts_fall_into_pieces);
    tcase_add_test(tcase, test_a_long_word_is_one_piece);
    tcase_add_test(tcase, test_texts_become_ids_of_pieces);
    tcase_add_test(tcase, test_ids_of_pieces_become_words);
    tcase_add_test(tcase, test_parts_end_with_a_word);
    tcase_add_test(tcase, test_loading_survives_every_failed_allocation);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
