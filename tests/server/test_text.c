/* Text in place of ids, from files to answers: what a model with vocabularies answers to texts is
 * what its twin without them answers to their ids, row by row and bit by bit. Texts that cannot be
 * read, and vocabularies that do not fit, are refused by name. Trees: test_text_tree.c. */
#include "base/mem.h"
#include "server/check_model.h"
#include "server/signature.h"
#include "server/text.h"
#include "server/vocabulary.h"
#include "tests/server/text_site.h"

#include <stdio.h>
#include <string.h>

/* ---- Rows of texts ------------------------------------------------------------------------ */

/* Texts of different lengths in one request, the third with a word that is unknown. Their tags are
 * not all the same, or nothing would be shown. */
START_TEST(test_a_tagger_answers_each_text_as_its_ids_alone)
{
    static const int64_t ids[3][5] = {{0, 1, 2}, {5}, {4, 8, 8, 3, 0}};
    static const uint32_t lengths[] = {3, 1, 5};
    struct visit texts;
    char wanted[256];
    texts_begin(&texts, "tagger");
    ck_assert_uint_eq(
        texts_add_texts(&texts, "tokens", "the cat  sat\0 mat\t\0a dog \xc3\xa4h on\nthe\0"), 3);
    texts_run(&texts);
    ck_assert_uint_eq(texts_output(&texts, "tags")->rank, 1);
    ck_assert_int_eq(texts_output(&texts, "tags")->shape[0], 3);
    ck_assert_uint_eq(texts_output(&texts, "topic")->rank, 1);
    for (uint32_t row = 0; row < 3; row++) {
        struct visit alone;
        texts_begin(&alone, "tagger_ids");
        texts_add_ids(&alone, "tokens", lengths[row], ids[row]);
        texts_run(&alone);
        texts_spell(texts_tags, texts_output(&alone, "tags")->data, lengths[row], wanted,
                    sizeof(wanted));
        texts_assert(texts_output(&texts, "tags"), row, wanted);
        texts_spell(texts_tags, texts_output(&alone, "topic")->data, 1, wanted, sizeof(wanted));
        texts_assert(texts_output(&texts, "topic"), row, wanted);
        const struct srv_tensor *hidden = texts_output(&alone, "hidden");
        ck_assert_mem_eq(texts_output(&texts, "hidden")->data + row * hidden->bytes, hidden->data,
                         hidden->bytes);
        ask_release(&alone.ask);
    }
    texts_assert(texts_output(&texts, "tags"), 0, ". verb el se");
    ask_release(&texts.ask);
}
END_TEST

/* Words are cut into pieces, each of which is a step; pieces that are answered are words again. */
START_TEST(test_a_cutter_answers_each_text_as_its_pieces_alone)
{
    static const int64_t ids[2][5] = {{0, 1, 2, 5, 6}, {3, 2, 8, 8, 8}};
    static const char *const marks[] = {"no", "un", "ver", "b"};
    struct visit texts;
    texts_begin(&texts, "cutter");
    ck_assert_uint_eq(texts_add_texts(&texts, "tokens", "the cat mat\0sat you\0"), 2);
    texts_run(&texts);
    for (uint32_t row = 0; row < 2; row++) {
        char wanted[64] = "";
        struct visit alone;
        texts_begin(&alone, "cutter_ids");
        texts_add_ids(&alone, "tokens", 5, ids[row]);
        texts_run(&alone);
        int64_t before = 0;
        for (uint32_t t = 0; t < 5; t++) {
            const int64_t tag =
                cell_integer_at(CELL_I64, texts_output(&alone, "tags")->data + t * 8);
            const size_t at = strlen(wanted);
            snprintf(wanted + at, sizeof(wanted) - at, "%s%s", before == 1 ? " " : "", marks[tag]);
            before = tag % 2; // those with an odd number are the end of a word
        }
        texts_assert(texts_output(&texts, "tags"), row, wanted);
        ask_release(&alone.ask);
    }
    ask_release(&texts.ask);
}
END_TEST

/* What the model's file of settings puts before and behind each text is a step as any other. */
START_TEST(test_texts_have_a_start_and_an_end)
{
    static const struct {
        const char *model, *texts;
        uint32_t lengths[2];
        int64_t ids[2][6];
    } cases[] = {
        {"framed", "the cat sat\0mat\0", {5, 3}, {{5, 0, 1, 2, 7}, {5, 5, 7}}},
        {"ended", "mat\0the cat mat\0", {3, 6}, {{5, 6, 7}, {0, 1, 2, 5, 6, 7}}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct visit texts;
        char twin[32];
        snprintf(twin, sizeof(twin), "%s_ids", cases[i].model);
        texts_begin(&texts, cases[i].model);
        ck_assert_uint_eq(texts_add_texts(&texts, "tokens", cases[i].texts), 2);
        texts_run(&texts);
        for (uint32_t row = 0; row < 2; row++) {
            struct visit alone;
            texts_begin(&alone, twin);
            texts_add_ids(&alone, "tokens", cases[i].lengths[row], cases[i].ids[row]);
            texts_run(&alone);
            const struct srv_tensor *hidden = texts_output(&alone, "hidden");
            ck_assert_mem_eq(texts_output(&texts, "hidden")->data + row * hidden->bytes,
                             hidden->data, hidden->bytes);
            ask_release(&alone.ask);
        }
        ask_release(&texts.ask);
    }
}
END_TEST

/* Ids are taken where text is, too; bytes of any value are ids. */
START_TEST(test_ids_and_bytes)
{
    static const int64_t ids[] = {7, 0, 3};
    struct visit visit;
    struct visit twin;
    texts_begin(&visit, "bytes");
    texts_add(&visit, "tokens", "BYTES", "\3\0\0\0\7\0\3", 7);
    texts_shape(&visit, 1, 1, 0);
    texts_run(&visit);
    texts_begin(&twin, "bytes");
    texts_add_ids(&twin, "tokens", 3, ids);
    texts_run(&twin);
    const struct srv_tensor *hidden = texts_output(&twin, "hidden");
    ck_assert_mem_eq(texts_output(&visit, "hidden")->data, hidden->data, hidden->bytes);
    ck_assert_str_eq(texts_output(&visit, "tags")->datatype, "INT64");
    ask_release(&visit.ask);
    ask_release(&twin.ask);
}
END_TEST

/* _i: greedy, or three hypotheses. */
START_TEST(test_a_speller_answers_each_text_as_its_ids_alone)
{
    static const int64_t ids[3][5] = {{0, 1, 5, 4}, {6}, {7, 8, 7, 8, 0}};
    static const uint32_t lengths[] = {4, 1, 5};
    const uint32_t width = _i == 0 ? 1 : 3;
    struct visit texts;
    char wanted[256];
    texts_begin(&texts, _i == 0 ? "speller" : "beam");
    texts_add_texts(&texts, "tokens", "ab \xc3\xa4\0\xe2\x82\xac\0xyxya\0");
    texts_run(&texts);
    const struct srv_tensor *got = texts_output(&texts, "token");
    ck_assert_uint_eq(got->rank, _i == 0 ? 1 : 2);
    ck_assert_int_eq(got->shape[0], 3);
    ck_assert_int_eq(got->shape[1] * (_i > 0), _i == 0 ? 0 : width);
    for (uint32_t row = 0; row < 3; row++) {
        struct visit alone;
        texts_begin(&alone, _i == 0 ? "speller_ids" : "beam_ids");
        texts_add_ids(&alone, "tokens", lengths[row], ids[row]);
        texts_run(&alone);
        const struct srv_tensor *token = texts_output(&alone, "token");
        const uint8_t *counts = texts_output(&alone, "lengths")->data;
        const int64_t longest = token->shape[token->rank - 1];
        for (uint32_t i = 0; i < width; i++) {
            texts_spell(texts_sounds, token->data + i * longest * 8,
                        cell_integer_at(CELL_I64, counts + i * 8), wanted, sizeof(wanted));
            texts_assert(got, row * width + i, wanted);
        }
        ask_release(&alone.ask);
    }
    ask_release(&texts.ask);
}
END_TEST

START_TEST(test_texts_that_cannot_be_read_are_refused)
{
    static const struct {
        const char *model, *texts, *message;
    } mistakes[] = {
        {"speller", "ab\0abz\0", "input 'tokens': \"z\" in text 1 is not in the vocabulary"},
        {"speller", "a\xff\0", "input 'tokens': \"?\" in text 0 is not in the vocabulary"},
        {"tagger", "the\0 \0", "input 'tokens': text 1 is empty"},
        {"bytes", "\xc3\xa4\0", "input 'tokens': id 195 at position 0, expected 0..8"},
        {"tagger_ids", "the\0", "input 'tokens': datatype 'BYTES', expected INT64"},
    };
    struct visit visit;
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        texts_begin(&visit, mistakes[i].model);
        texts_add_texts(&visit, "tokens", mistakes[i].texts);
        texts_expect_refused(&visit, mistakes[i].message);
    }
}
END_TEST

START_TEST(test_tensors_that_are_no_texts_are_refused)
{
    static const char want[] = "input 'tokens': texts come as BYTES of shape [batch]";
    struct visit visit;
    texts_begin(&visit, "tagger");
    texts_add_texts(&visit, "tokens", "the\0cat\0");
    texts_shape(&visit, 2, 1, 2);
    texts_expect_refused(&visit, want);
    texts_begin(&visit, "tagger");
    texts_add_texts(&visit, "tokens", "the\0");
    texts_shape(&visit, 1, 0, 0);
    texts_expect_refused(&visit, want);
    texts_begin(&visit, "tagger");
    texts_add_texts(&visit, "tokens", "the\0cat\0");
    texts_shape(&visit, 1, 3, 0);
    texts_expect_refused(&visit, "input 'tokens': 2 texts, shape [3]");
    texts_begin(&visit, "tagger");
    texts_add_texts(&visit, "tokens", "the\0cat\0");
    texts_shape(&visit, 1, 1, 0);
    texts_expect_refused(&visit, "input 'tokens': more than 1 texts, shape [1]");
    for (size_t bytes = 1; bytes < 7; bytes++) {
        texts_begin(&visit, "tagger");
        texts_add(&visit, "tokens", "BYTES", "\3\0\0\0the", bytes);
        texts_shape(&visit, 1, 1, 0);
        texts_expect_refused(&visit, "input 'tokens': the bytes of text 0 are cut off");
    }
    texts_begin(&visit, "tagger");
    texts_add(&visit, "tokens", "BYTES", "\xff\xff\xff\xff", 4);
    texts_shape(&visit, 1, 1, 0);
    texts_expect_refused(&visit, "input 'tokens': the bytes of text 0 are cut off");
}
END_TEST

/* ---- What clients are told, and what does not fit ----------------------------------------- */

static void find_signature(struct site *at, void *argument)
{
    struct base_error error;
    const struct srv_model **out = argument;
    ck_assert_int_eq(srv_core_find_model(at->core, (*out)->name, "", out, &error), BASE_OK);
}

static const struct srv_signature *signature_of(const char *name)
{
    static struct srv_model wanted;
    const struct srv_model *found = &wanted;
    snprintf(wanted.name, sizeof(wanted.name), "%s", name);
    site_call(&texts_site, find_signature, &found);
    return found->signature;
}

static void assert_tensor(const struct srv_signature_tensor *tensor, const char *name,
                          const char *datatype, uint32_t rank)
{
    ck_assert_str_eq(tensor->name, name);
    ck_assert_str_eq(tensor->datatype, datatype);
    ck_assert_uint_eq(tensor->rank, rank);
    ck_assert_int_eq(tensor->dims[0], -1);
}

START_TEST(test_signatures_say_which_tensors_are_text)
{
    const struct srv_signature *tagger = signature_of("tagger");
    ck_assert_uint_eq(tagger->n_inputs, 1);
    ck_assert_uint_eq(tagger->max_batch_size, 0);
    assert_tensor(&tagger->inputs[0], "tokens", "BYTES", 1);
    assert_tensor(&tagger->outputs[0], "tags", "BYTES", 1);
    assert_tensor(&tagger->outputs[1], "topic", "BYTES", 1);
    assert_tensor(&tagger->outputs[2], "hidden", "FP32", 2);
    const struct srv_signature *twin = signature_of("tagger_ids");
    ck_assert_uint_gt(twin->max_batch_size, 0);
    assert_tensor(&twin->inputs[0], "tokens", "INT64", 2);
    assert_tensor(&twin->outputs[0], "tags", "INT64", 2);
    const struct srv_signature *beam = signature_of("beam");
    assert_tensor(&beam->outputs[0], "token", "BYTES", 2);
    ck_assert_int_eq(beam->outputs[0].dims[1], 3);
    const struct srv_signature *tree = signature_of("tree");
    ck_assert_uint_eq(tree->n_inputs, 1);
    assert_tensor(&tree->inputs[0], "word", "BYTES", 1);
    ck_assert_uint_eq(signature_of("tree_ids")->n_inputs, 2);
}
END_TEST

/* What --check-model says of the folder; true when it takes it. */
static bool check(const char *model, struct base_buf *out)
{
    char path[2 * UTIL_PATH_BYTES];
    struct base_error error;
    snprintf(path, sizeof(path), "%s/%s", texts_folder, model);
    base_buf_clear(out);
    const enum base_status status = srv_check_model(path, out, &error);
    if (status != BASE_OK) {
        base_buf_text(out, error.message);
    }
    return status == BASE_OK;
}

START_TEST(test_vocabularies_that_do_not_fit_are_refused)
{
    static const struct {
        const char *model, *config, *message;
    } mistakes[] = {
        {"tagger", "vocabularies: token=bytes\n", "'token' is neither an input nor an output"},
        {"tagger", "vocabularies: hidden=bytes\n", "output 'hidden' does not hold ids"},
        {"tagger", "vocabularies: tokens=words:none.txt\n", "none.txt: No such file or directory"},
        {"tagger", "vocabularies: tokens=words:long.txt\n",
         "10 texts for input 'tokens', which has ids 0..8"},
        {"tagger", "vocabularies: tokens=words:words.txt\nunknown: 9\n",
         "unknown: 9, but input 'tokens' has ids 0..8"},
        {"tagger", "vocabularies: tokens=words:words.txt\ntext-start: 9\n",
         "text-start: 9, but input 'tokens' has ids 0..8"},
        {"tagger", "vocabularies: tokens=words:words.txt\ntext-end: 9\n",
         "text-end: 9, but input 'tokens' has ids 0..8"},
        {"tree", "unfold: tree\nvocabularies: word=words:words.txt\ntext-end: 1\n",
         "'word' is of trees, which have no text-start or text-end"},
        {"tree", "unfold: tree\nvocabularies: word=bytes\n",
         "'word' is of trees, whose texts are made of words"},
        {"tree", "unfold: tree\nvocabularies: children=words:words.txt\n",
         "input 'children' does not hold ids"},
        {"labelled", "unfold: tree\nvocabularies: word=words:words.txt\n",
         "this model has 1 inputs of leaves and 1 of inner nodes"},
    };
    struct base_buf out;
    base_buf_init(&out, 1 << 16);
    texts_write_twins("labelled", "unfold: tree\n", "", texts_write_labelled_tree);
    texts_write_file("tagger", "long.txt", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    ck_assert(check("tagger", &out));
    ck_assert_msg(strstr(out.data, "ids 0..8, as text of 9 words") != NULL, "%s", out.data);
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        texts_write_file(mistakes[i].model, "config.yaml", mistakes[i].config);
        ck_assert(!check(mistakes[i].model, &out));
        ck_assert_msg(strstr(out.data, mistakes[i].message) != NULL, "%s", out.data);
    }
    base_buf_release(&out);
}
END_TEST

/* A part of an answer in bytes ends with a character; of rows that go on each counts. */
START_TEST(test_parts_end_with_a_character)
{
    // "a", "\u00e4", "\u20ac", "\U0001F600", and what is none
    static const int64_t one[] = {'a', 0xc3, 0xa4, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80, 'b'};
    static const uint32_t whole_one[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    static const int64_t none[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0xff, 0xc3, 'a', 0x80, 'b', 'c'};
    struct srv_texts texts = {.unknown = -1};
    struct srv_vocabulary *bytes = NULL;
    struct base_error error;
    static struct cell_model model = {.n_outputs = 1, .outputs = {{.dtype = CELL_I64}}};
    const struct srv_vocabulary_source source = {.kind = CFG_VOCABULARY_BYTES};
    ck_assert_int_eq(srv_vocabulary_load(&source, &bytes, &error), BASE_OK);
    texts.outputs[0] = bytes;
    int64_t rows[2][11];
    memcpy(rows[0], one, sizeof one);
    memcpy(rows[1], none, sizeof none);
    const struct sched_tensor output = {
        .data = (uint8_t *)rows, .batch_bytes = sizeof rows[0], .step_bytes = sizeof rows[0][0]};
    uint32_t lengths[] = {11, 11};
    bool is_over[] = {false, false};
    struct srv_texts_part part = {
        .outputs = &output, .n_rows = 1, .lengths = lengths, .is_over = is_over};
    for (part.to = 0; part.to <= 11; part.to++) {
        ck_assert_uint_eq(srv_texts_whole(&texts, &model, &part), whole_one[part.to]);
        ck_assert_uint_eq(srv_texts_whole(NULL, &model, &part), part.to);
    }
    // Two rows: of the other one 6 bytes are whole, and 7 are not.
    part.n_rows = 2;
    part.to = 7;
    ck_assert_uint_eq(srv_texts_whole(&texts, &model, &part), 6);
    part.to = 10;
    ck_assert_uint_eq(srv_texts_whole(&texts, &model, &part), 10);
    // What has ended before gets no more bytes to wait for.
    lengths[0] = 7;
    is_over[0] = true;
    part.to = 8;
    ck_assert_uint_eq(srv_texts_whole(&texts, &model, &part), 8);
    // An output that nobody asked for.
    const struct sched_tensor left_out = {.data = NULL};
    part.outputs = &left_out;
    part.to = 7;
    ck_assert_uint_eq(srv_texts_whole(&texts, &model, &part), 7);
    srv_vocabulary_free(bytes);
}
END_TEST

/* An id that the vocabulary of an output has no text for is an error, not a guess. */
START_TEST(test_an_id_without_a_text)
{
    struct visit visit;
    site_close(&texts_site);
    texts_write_file("speller", "sounds.txt", "AA\n");
    texts_open_site();
    texts_begin(&visit, "speller");
    texts_add_texts(&visit, "tokens", "ab \xc3\xa4\0\xe2\x82\xac\0xyxya\0");
    visit_start(&texts_site, &visit);
    visit_wait(&visit);
    ck_assert_int_eq(visit.ask.request.error.status, BASE_INTERNAL);
    ck_assert_msg(strstr(visit.ask.request.error.message, "but its vocabulary has 1 texts") != NULL,
                  "%s", visit.ask.request.error.message);
    ask_release(&visit.ask);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text");
    TCase *tcase = tcase_create("text");
    tcase_add_checked_fixture(tcase, texts_setup, texts_teardown);
    tcase_add_test(tcase, test_a_tagger_answers_each_text_as_its_ids_alone);
    tcase_add_test(tcase, test_a_cutter_answers_each_text_as_its_pieces_alone);
    tcase_add_test(tcase, test_texts_have_a_start_and_an_end);
    tcase_add_test(tcase, test_ids_and_bytes);
    tcase_add_loop_test(tcase, test_a_speller_answers_each_text_as_its_ids_alone, 0, 2);
    tcase_add_test(tcase, test_texts_that_cannot_be_read_are_refused);
    tcase_add_test(tcase, test_tensors_that_are_no_texts_are_refused);
    tcase_add_test(tcase, test_signatures_say_which_tensors_are_text);
    tcase_add_test(tcase, test_vocabularies_that_do_not_fit_are_refused);
    tcase_add_test(tcase, test_parts_end_with_a_character);
    tcase_add_test(tcase, test_an_id_without_a_text);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
