/* Text in place of ids, from files to answers: what a model with vocabularies answers to texts is
 * what its twin without them answers to their ids, row by row and bit by bit. Texts that cannot be
 * read, and vocabularies that do not fit, are refused by name. */
#include "base/mem.h"
#include "server/check_model.h"
#include "server/signature.h"
#include "server/text.h"
#include "server/vocabulary.h"
#include "tests/server/parts.h"
#include "tests/server/site.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

enum { WORDS = 9, SOUNDS = 7, TAGS = 4, HIDDEN = 12, CHILDREN = 3, STEPS_MAX = 6 };

static const char words[] = "the\ncat\nsat\non\na\nmat\nMAX\n1\n\xc3\xa4h\n";
static const char letters[] = "a\nb\nc\nd\n\xc3\xa4\n \n\xe2\x82\xac\nx\ny\n";
static const char sounds[] = "AA\nBE\nC\n-\nE\nF\nG\n";
static const char tags[] = "noun\nverb\nel se\n.\n";
static const char pieces[] = "the\nca@@\nt\nsa@@\na\nm@@\nat\n1\n<unk>\n";
static const char tag_pieces[] = "no@@\nun\nver@@\nb\n";
static const char codes[] = "#version: 0.2\nt h\nth e</w>\nc a\ns a\na t</w>\n";

static char folder[UTIL_PATH_BYTES];
static struct site site;
static struct onnx_builder builder;
static struct base_random random_numbers;

/* ---- Models ------------------------------------------------------------------------------- */

static void constant(const char *name, int64_t rows, int64_t cols)
{
    parts_constant(&builder, &random_numbers, name, rows, cols);
}

static void write_file(const char *model, const char *name, const char *contents)
{
    char path[2 * UTIL_PATH_BYTES];
    snprintf(path, sizeof(path), "%s/%s/%s", folder, model, name);
    util_write_file(path, contents);
}

/* tokens [batch, time] through a table and a GRU: y [time, 1, batch, hidden], y_h. */
static void write_gru(void)
{
    const int64_t dims[] = {-1, -1};
    onnx_init(&builder, 17);
    onnx_input(&builder, "tokens", PARTS_INT64, 2, dims);
    constant("table", WORDS, HIDDEN);
    onnx_add_weights(&builder, "GRU", HIDDEN, HIDDEN, 3);
    onnx_node(&builder, "Gather", "table tokens", "embedded");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "embedded", "x"), "perm", 3,
                  (const int64_t[]){1, 0, 2});
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "x w r b", "y y_h"), "hidden_size", HIDDEN);
    onnx_constant(&builder, "zero", onnx_ints(&builder, 1, 1, (const int64_t[]){0}));
    onnx_constant(&builder, "one", onnx_ints(&builder, 1, 1, (const int64_t[]){1}));
}

static void write_largest(const char *from, const char *to, int64_t axis)
{
    Onnx__NodeProto *largest = onnx_node(&builder, "ArgMax", from, to);
    onnx_set_int(&builder, largest, "axis", axis);
    onnx_set_int(&builder, largest, "keepdims", 0);
}

/* tags [batch, time], a tag a word; topic [batch], of the last word; hidden [batch, hidden]. */
static void write_tagger(const char *version)
{
    write_gru();
    constant("to_tags", HIDDEN, TAGS);
    constant("words_to_tags", HIDDEN, TAGS);
    onnx_node(&builder, "Squeeze", "y one", "steps");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "steps", "rows"), "perm", 3,
                  (const int64_t[]){1, 0, 2});
    onnx_node(&builder, "MatMul", "rows to_tags", "of_rows");
    onnx_node(&builder, "MatMul", "embedded words_to_tags", "of_words"); // that tags differ
    onnx_node(&builder, "Add", "of_rows of_words", "scores");
    write_largest("scores", "tags", 2);
    onnx_node(&builder, "Squeeze", "y_h zero", "hidden");
    onnx_node(&builder, "MatMul", "hidden to_tags", "last");
    write_largest("last", "topic", 1);
    parts_output(&builder, "tags");
    parts_output(&builder, "topic");
    parts_output(&builder, "hidden");
    parts_write(&builder, version, "model");
}

/* h' = tanh(table[token] + h U), logits = h' O. */
static void write_speller(const char *version)
{
    write_gru();
    onnx_node(&builder, "Squeeze", "y_h zero", "h");
    parts_output(&builder, "h");
    parts_write(&builder, version, "encoder");
    onnx_init(&builder, 17);
    parts_input(&builder, "token", PARTS_INT64, 0);
    parts_input(&builder, "h", PARTS_FLOAT, HIDDEN);
    constant("table", SOUNDS, HIDDEN);
    constant("u", HIDDEN, HIDDEN);
    constant("o", HIDDEN, SOUNDS);
    onnx_node(&builder, "Gather", "table token", "x");
    onnx_node(&builder, "MatMul", "h u", "of_h");
    onnx_node(&builder, "Add", "x of_h", "sum");
    onnx_node(&builder, "Tanh", "sum", "h_next");
    onnx_node(&builder, "MatMul", "h_next o", "logits");
    write_largest("logits", "token_next", 1);
    parts_output(&builder, "token_next");
    parts_output(&builder, "h_next");
    parts_output(&builder, "logits");
    parts_write(&builder, version, "decoder");
}

/* A node is tanh of its children's sum after a matrix of each place. has_label: beside them, what
 * the client sends for a node. */
static void write_tree(const char *version, bool has_label)
{
    onnx_init(&builder, 17);
    parts_input(&builder, "word", PARTS_INT64, 0);
    constant("table", WORDS, HIDDEN);
    onnx_node(&builder, "Gather", "table word", "h");
    parts_output(&builder, "h");
    parts_write(&builder, version, "leaf");
    onnx_init(&builder, 17);
    for (int k = 0; k < CHILDREN; k++) {
        char name[2][16];
        char product[40];
        snprintf(name[0], sizeof(name[0]), "h_%d", k);
        snprintf(name[1], sizeof(name[1]), "w%d", k);
        parts_input(&builder, name[0], PARTS_FLOAT, HIDDEN);
        constant(name[1], HIDDEN, HIDDEN);
        snprintf(product, sizeof(product), "%s %s", name[0], name[1]);
        snprintf(name[1], sizeof(name[1]), "p%d", k);
        onnx_node(&builder, "MatMul", product, name[1]);
    }
    onnx_node(&builder, "Add", "p0 p1", "p01");
    onnx_node(&builder, "Add", "p01 p2", "sum");
    if (has_label) {
        parts_input(&builder, "label", PARTS_FLOAT, HIDDEN);
        onnx_node(&builder, "Add", "sum label", "labelled");
    }
    onnx_node(&builder, "Tanh", has_label ? "labelled" : "sum", "h");
    parts_output(&builder, "h");
    parts_write(&builder, version, "node");
}

/* A model and, without the last lines of its configuration, its twin. */
static void write_twins(const char *name, const char *config, const char *texts,
                        void (*write)(const char *version))
{
    char version[UTIL_PATH_BYTES];
    char text[512];
    char twin[32];
    snprintf(text, sizeof(text), "%s%s", config, texts);
    snprintf(twin, sizeof(twin), "%s_ids", name);
    base_random_init(&random_numbers, 9);
    parts_folder(folder, name, text, version);
    write(version);
    base_random_init(&random_numbers, 9);
    parts_folder(folder, twin, config, version);
    write(version);
    write_file(name, "words.txt", words);
    write_file(name, "letters.txt", letters);
    write_file(name, "sounds.txt", sounds);
    write_file(name, "tags.txt", tags);
    write_file(name, "pieces.txt", pieces);
    write_file(name, "tag_pieces.txt", tag_pieces);
    write_file(name, "codes", codes);
}

static void write_plain_tree(const char *version)
{
    write_tree(version, false);
}

static void write_labelled_tree(const char *version)
{
    write_tree(version, true);
}

#define DECODER "unfold: seq2seq\nstart: 1\nend: 3\nmax-steps: 6\n"
#define SPELLER "vocabularies: [tokens=characters:letters.txt, token=words:sounds.txt]\n"
#define TAGGER                                                                                     \
    "vocabularies: [tokens=words:words.txt, tags=words:tags.txt, topic=characters:tags.txt]\n"     \
    "unknown: 8\n"
#define CUTTER                                                                                     \
    "vocabularies: [tokens=bpe:pieces.txt:codes, tags=bpe:tag_pieces.txt:codes]\nunknown: 8\n"

static void write_models(void)
{
    write_twins("tagger", "", TAGGER, write_tagger);
    write_twins("cutter", "", CUTTER, write_tagger);
    write_twins("speller", DECODER, SPELLER, write_speller);
    write_twins("framed", "", TAGGER "text-start: 5\ntext-end: 7\n", write_tagger);
    write_twins("ended", "", CUTTER "text-end: 7\n", write_tagger);
    write_twins("beam", DECODER "beam: 3\n", SPELLER, write_speller);
    write_twins("bytes", "", "vocabularies: tokens=bytes\n", write_tagger);
    write_twins("tree", "unfold: tree\n", "vocabularies: word=words:words.txt\n", write_plain_tree);
}

static void open_site(void)
{
    struct site_options options;
    site_options_init(&options);
    options.core.sequence_length_max = 20000;
    options.repositories[0] = folder;
    options.engine.backend = cell_backend_find("cpu");
    options.engine.rows = 4096;
    site_open(&site, &options);
}

static void setup(void)
{
    util_temp_dir(folder);
    write_models();
    open_site();
}

static void teardown(void)
{
    site_close(&site);
    util_remove_tree(folder);
}

/* ---- Requests ----------------------------------------------------------------------------- */

static void begin(struct visit *visit, const char *model)
{
    struct base_random random = util_random(1);
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, site_find(&site, model), 1, 1, &random, ASK_PLAIN);
    visit->ask.request.model_name = model;
    visit->ask.request.n_inputs = 0;
}

static void add(struct visit *visit, const char *name, const char *datatype, const void *data,
                size_t bytes)
{
    struct srv_request *request = &visit->ask.request;
    uint8_t *copy = base_arena_alloc(&request->arena, bytes + 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, data, bytes);
    request->inputs[request->n_inputs++] =
        (struct srv_tensor){.name = name, .datatype = datatype, .data = copy, .bytes = bytes};
}

static struct srv_tensor *shape(struct visit *visit, uint32_t rank, int64_t first, int64_t second)
{
    struct srv_tensor *tensor = &visit->ask.request.inputs[visit->ask.request.n_inputs - 1];
    tensor->rank = rank;
    tensor->shape[0] = first;
    tensor->shape[1] = second;
    return tensor;
}

/* texts: NUL behind each, an empty one behind the last. */
static uint32_t add_texts(struct visit *visit, const char *name, const char *texts)
{
    uint8_t bytes[4096];
    size_t at = 0;
    uint32_t n = 0;
    for (const char *text = texts; *text != '\0'; text += strlen(text) + 1) {
        at += ask_put_text(bytes + at, text, strlen(text));
        n++;
    }
    add(visit, name, "BYTES", bytes, at);
    shape(visit, 1, n, 0);
    return n;
}

static void add_ids(struct visit *visit, const char *name, uint32_t n, const int64_t *ids)
{
    add(visit, name, "INT64", ids, n * sizeof(*ids));
    shape(visit, 2, 1, n);
}

static void run(struct visit *visit)
{
    visit_start(&site, visit);
    visit_wait(visit);
    ck_assert_msg(visit->ask.request.error.status == BASE_OK, "%s",
                  visit->ask.request.error.message);
}

static void expect_refused(struct visit *visit, const char *message)
{
    visit_start(&site, visit);
    visit_wait(visit);
    ck_assert_int_eq(visit->ask.request.error.status, BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(visit->ask.request.error.message, message);
    ask_release(&visit->ask);
}

static const struct srv_tensor *output(const struct visit *visit, const char *name)
{
    const struct srv_tensor *tensor = ask_output(&visit->ask, name);
    ck_assert_ptr_nonnull(tensor);
    return tensor;
}

/* Text `index` of an answer. */
static struct srv_word text_at(const struct srv_tensor *tensor, uint32_t index)
{
    size_t at = 0;
    uint32_t length = 0;
    ck_assert_str_eq(tensor->datatype, "BYTES");
    for (uint32_t i = 0;; i++) {
        ck_assert_uint_le(at + sizeof(length), tensor->bytes);
        memcpy(&length, tensor->data + at, sizeof(length));
        at += sizeof(length);
        ck_assert_uint_le(at + length, tensor->bytes);
        if (i == index) {
            return (struct srv_word){.text = (const char *)tensor->data + at, .length = length};
        }
        at += length;
    }
}

/* The words of a file's contents that these ids name, with blanks between. */
static void spell(const char *contents, const uint8_t *ids, int64_t n, char *out, size_t room)
{
    out[0] = '\0';
    for (int64_t i = 0; i < n; i++) {
        const char *line = contents;
        for (int64_t id = cell_integer_at(CELL_I64, ids + i * 8); id > 0; id--) {
            line = strchr(line, '\n') + 1;
        }
        const size_t at = strlen(out);
        snprintf(out + at, room - at, "%s%.*s", i > 0 ? " " : "", (int)strcspn(line, "\n"), line);
    }
}

static void assert_text(const struct srv_tensor *got, uint32_t index, const char *wanted)
{
    const struct srv_word text = text_at(got, index);
    ck_assert_msg(text.length == strlen(wanted) && memcmp(text.text, wanted, text.length) == 0,
                  "\"%.*s\", wanted \"%s\"", (int)text.length, text.text, wanted);
}

/* ---- Rows of texts ------------------------------------------------------------------------ */

/* Texts of different lengths in one request, the third with a word that is unknown. Their tags are
 * not all the same, or nothing would be shown. */
START_TEST(test_a_tagger_answers_each_text_as_its_ids_alone)
{
    static const int64_t ids[3][5] = {{0, 1, 2}, {5}, {4, 8, 8, 3, 0}};
    static const uint32_t lengths[] = {3, 1, 5};
    struct visit texts;
    char wanted[256];
    begin(&texts, "tagger");
    ck_assert_uint_eq(
        add_texts(&texts, "tokens", "the cat  sat\0 mat\t\0a dog \xc3\xa4h on\nthe\0"), 3);
    run(&texts);
    ck_assert_uint_eq(output(&texts, "tags")->rank, 1);
    ck_assert_int_eq(output(&texts, "tags")->shape[0], 3);
    ck_assert_uint_eq(output(&texts, "topic")->rank, 1);
    for (uint32_t row = 0; row < 3; row++) {
        struct visit alone;
        begin(&alone, "tagger_ids");
        add_ids(&alone, "tokens", lengths[row], ids[row]);
        run(&alone);
        spell(tags, output(&alone, "tags")->data, lengths[row], wanted, sizeof(wanted));
        assert_text(output(&texts, "tags"), row, wanted);
        spell(tags, output(&alone, "topic")->data, 1, wanted, sizeof(wanted));
        assert_text(output(&texts, "topic"), row, wanted);
        const struct srv_tensor *hidden = output(&alone, "hidden");
        ck_assert_mem_eq(output(&texts, "hidden")->data + row * hidden->bytes, hidden->data,
                         hidden->bytes);
        ask_release(&alone.ask);
    }
    assert_text(output(&texts, "tags"), 0, ". verb el se");
    ask_release(&texts.ask);
}
END_TEST

/* Words are cut into pieces, each of which is a step; pieces that are answered are words again. */
START_TEST(test_a_cutter_answers_each_text_as_its_pieces_alone)
{
    static const int64_t ids[2][5] = {{0, 1, 2, 5, 6}, {3, 2, 8, 8, 8}};
    static const char *const marks[] = {"no", "un", "ver", "b"};
    struct visit texts;
    begin(&texts, "cutter");
    ck_assert_uint_eq(add_texts(&texts, "tokens", "the cat mat\0sat you\0"), 2);
    run(&texts);
    for (uint32_t row = 0; row < 2; row++) {
        char wanted[64] = "";
        struct visit alone;
        begin(&alone, "cutter_ids");
        add_ids(&alone, "tokens", 5, ids[row]);
        run(&alone);
        int64_t before = 0;
        for (uint32_t t = 0; t < 5; t++) {
            const int64_t tag = cell_integer_at(CELL_I64, output(&alone, "tags")->data + t * 8);
            const size_t at = strlen(wanted);
            snprintf(wanted + at, sizeof(wanted) - at, "%s%s", before == 1 ? " " : "", marks[tag]);
            before = tag % 2; // those with an odd number are the end of a word
        }
        assert_text(output(&texts, "tags"), row, wanted);
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
        begin(&texts, cases[i].model);
        ck_assert_uint_eq(add_texts(&texts, "tokens", cases[i].texts), 2);
        run(&texts);
        for (uint32_t row = 0; row < 2; row++) {
            struct visit alone;
            begin(&alone, twin);
            add_ids(&alone, "tokens", cases[i].lengths[row], cases[i].ids[row]);
            run(&alone);
            const struct srv_tensor *hidden = output(&alone, "hidden");
            ck_assert_mem_eq(output(&texts, "hidden")->data + row * hidden->bytes, hidden->data,
                             hidden->bytes);
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
    begin(&visit, "bytes");
    add(&visit, "tokens", "BYTES", "\3\0\0\0\7\0\3", 7);
    shape(&visit, 1, 1, 0);
    run(&visit);
    begin(&twin, "bytes");
    add_ids(&twin, "tokens", 3, ids);
    run(&twin);
    const struct srv_tensor *hidden = output(&twin, "hidden");
    ck_assert_mem_eq(output(&visit, "hidden")->data, hidden->data, hidden->bytes);
    ck_assert_str_eq(output(&visit, "tags")->datatype, "INT64");
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
    begin(&texts, _i == 0 ? "speller" : "beam");
    add_texts(&texts, "tokens", "ab \xc3\xa4\0\xe2\x82\xac\0xyxya\0");
    run(&texts);
    const struct srv_tensor *got = output(&texts, "token");
    ck_assert_uint_eq(got->rank, _i == 0 ? 1 : 2);
    ck_assert_int_eq(got->shape[0], 3);
    ck_assert_int_eq(got->shape[1] * (_i > 0), _i == 0 ? 0 : width);
    for (uint32_t row = 0; row < 3; row++) {
        struct visit alone;
        begin(&alone, _i == 0 ? "speller_ids" : "beam_ids");
        add_ids(&alone, "tokens", lengths[row], ids[row]);
        run(&alone);
        const struct srv_tensor *token = output(&alone, "token");
        const uint8_t *counts = output(&alone, "lengths")->data;
        const int64_t longest = token->shape[token->rank - 1];
        for (uint32_t i = 0; i < width; i++) {
            spell(sounds, token->data + i * longest * 8, cell_integer_at(CELL_I64, counts + i * 8),
                  wanted, sizeof(wanted));
            assert_text(got, row * width + i, wanted);
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
        begin(&visit, mistakes[i].model);
        add_texts(&visit, "tokens", mistakes[i].texts);
        expect_refused(&visit, mistakes[i].message);
    }
}
END_TEST

START_TEST(test_tensors_that_are_no_texts_are_refused)
{
    static const char want[] = "input 'tokens': texts come as BYTES of shape [batch]";
    struct visit visit;
    begin(&visit, "tagger");
    add_texts(&visit, "tokens", "the\0cat\0");
    shape(&visit, 2, 1, 2);
    expect_refused(&visit, want);
    begin(&visit, "tagger");
    add_texts(&visit, "tokens", "the\0");
    shape(&visit, 1, 0, 0);
    expect_refused(&visit, want);
    begin(&visit, "tagger");
    add_texts(&visit, "tokens", "the\0cat\0");
    shape(&visit, 1, 3, 0);
    expect_refused(&visit, "input 'tokens': 2 texts, shape [3]");
    begin(&visit, "tagger");
    add_texts(&visit, "tokens", "the\0cat\0");
    shape(&visit, 1, 1, 0);
    expect_refused(&visit, "input 'tokens': more than 1 texts, shape [1]");
    for (size_t bytes = 1; bytes < 7; bytes++) {
        begin(&visit, "tagger");
        add(&visit, "tokens", "BYTES", "\3\0\0\0the", bytes);
        shape(&visit, 1, 1, 0);
        expect_refused(&visit, "input 'tokens': the bytes of text 0 are cut off");
    }
    begin(&visit, "tagger");
    add(&visit, "tokens", "BYTES", "\xff\xff\xff\xff", 4);
    shape(&visit, 1, 1, 0);
    expect_refused(&visit, "input 'tokens': the bytes of text 0 are cut off");
}
END_TEST

/* ---- Trees -------------------------------------------------------------------------------- */

/* Four trees, one of them a lone word, are roots in the order of their texts. */
START_TEST(test_bracketed_trees_are_those_of_their_numbers)
{
    static const int64_t leaves[] = {6, 0, 1, 2, 3, 4, 5, 7};
    static const int64_t children[] = {
        0,  1,  9,  // 8: (MAX the (cat sat))
        2,  3,  -1, // 9
        5,  -1, -1, // 10: (a)
        12, 7,  -1, // 11: ((mat) 1)
        6,  -1, -1, // 12
    };
    static const uint32_t root_rows[] = {1, 0, 2, 3}; // of numbers 8, 4, 10 and 11: 4 is the first
    struct visit texts;
    struct visit numbers;
    begin(&texts, "tree");
    add_texts(&texts, "word", "(MAX the(cat sat))\0 on \0( a )\0((mat)1)\0");
    run(&texts);
    begin(&numbers, "tree_ids");
    add(&numbers, "word", "INT64", leaves, sizeof(leaves));
    shape(&numbers, 1, 8, 0);
    add(&numbers, "children", "INT64", children, sizeof(children));
    shape(&numbers, 2, 5, CHILDREN);
    run(&numbers);
    const struct srv_tensor *got = output(&texts, "h");
    const struct srv_tensor *wanted = output(&numbers, "h");
    const size_t row_bytes = HIDDEN * sizeof(float);
    ck_assert_uint_eq(got->bytes, 4 * row_bytes);
    ck_assert_uint_eq(wanted->bytes, 4 * row_bytes);
    for (uint32_t tree = 0; tree < 4; tree++) {
        ck_assert_mem_eq(got->data + tree * row_bytes, wanted->data + root_rows[tree] * row_bytes,
                         row_bytes);
    }
    ask_release(&texts.ask);
    ask_release(&numbers.ask);
}
END_TEST

START_TEST(test_trees_that_are_none_are_refused)
{
    static const struct {
        const char *texts, *message;
    } mistakes[] = {
        {"(the\0", "input 'word': text 0: 1 brackets are not closed"},
        {"(the (cat (sat)\0", "input 'word': text 0: 2 brackets are not closed"},
        {"the)\0", "input 'word': text 0, byte 3: a bracket closes that none has opened"},
        {")\0", "input 'word': text 0, byte 0: a bracket closes that none has opened"},
        {"the\0()\0", "input 'word': text 1, byte 1: nothing stands between these brackets"},
        {"(the ())\0", "input 'word': text 0, byte 6: nothing stands between these brackets"},
        {"the cat\0", "input 'word': text 0, byte 4: a second tree begins; each text is one"},
        {"(the) (cat)\0", "input 'word': text 0, byte 6: a second tree begins; each text is one"},
        {"the\0  \0", "input 'word': text 1, byte 0: no tree"},
        {"(a a a a)\0", "input 'word': text 0, byte 7: more than the 3 children that a node of "
                        "this model has"},
        {"(the dog)\0", "input 'word': \"dog\" in text 0 is not in the vocabulary"},
        {"(the antidisestablishmentarianism)\0",
         "input 'word': \"antidisestablishmentaria...\" in text 0 is not in the vocabulary"},
    };
    struct visit visit;
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        begin(&visit, "tree");
        add_texts(&visit, "word", mistakes[i].texts);
        expect_refused(&visit, mistakes[i].message);
    }
    begin(&visit, "tree");
    add_texts(&visit, "word", "the\0");
    shape(&visit, 1, 2, 0);
    expect_refused(&visit, "input 'word': trees come as BYTES of shape [trees], here with 1 texts");
    begin(&visit, "tree");
    add_texts(&visit, "word", "the\0");
    add_ids(&visit, "children", 3, (const int64_t[]){0, -1, -1});
    expect_refused(&visit, "input 'word': trees as text say all; send no other input beside them");
    begin(&visit, "tree");
    add(&visit, "word", "BYTES", "\4\0\0\0the", 7);
    shape(&visit, 1, 1, 0);
    expect_refused(&visit, "input 'word': the bytes of text 0 are cut off");
}
END_TEST

/* Nothing recurses: brackets as deep as a request may have them, open or closed. */
START_TEST(test_deep_brackets)
{
    enum { DEPTH = 100000, SERVED = 9999 };
    struct visit visit;
    char *text = base_alloc(2 * DEPTH + 16);
    ck_assert_ptr_nonnull(text);
    for (int round = 0; round < 3; round++) {
        const uint32_t depth = round == 2 ? SERVED : DEPTH;
        uint32_t length = 4 + depth;
        memset(text + 4, '(', depth);
        if (round > 0) {
            text[4 + length - 4] = '1';
            memset(text + 4 + depth + 1, ')', depth);
            length = 4 + 2 * depth + 1;
        }
        const uint32_t prefix = length - 4;
        memcpy(text, &prefix, sizeof(prefix));
        begin(&visit, "tree");
        add(&visit, "word", "BYTES", text, length);
        shape(&visit, 1, 1, 0);
        if (round == 0) {
            expect_refused(&visit, "input 'word': text 0: 100000 brackets are not closed");
        } else if (round == 1) {
            expect_refused(&visit, "1 leaves and 100000 inner nodes, expected 20000 together at "
                                   "most");
        } else {
            run(&visit);
            ask_release(&visit.ask);
        }
    }
    base_free(text);
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
    site_call(&site, find_signature, &found);
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
    snprintf(path, sizeof(path), "%s/%s", folder, model);
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
    write_twins("labelled", "unfold: tree\n", "", write_labelled_tree);
    write_file("tagger", "long.txt", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
    ck_assert(check("tagger", &out));
    ck_assert_msg(strstr(out.data, "ids 0..8, as text of 9 words") != NULL, "%s", out.data);
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        write_file(mistakes[i].model, "config.yaml", mistakes[i].config);
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
    site_close(&site);
    write_file("speller", "sounds.txt", "AA\n");
    open_site();
    begin(&visit, "speller");
    add_texts(&visit, "tokens", "ab \xc3\xa4\0\xe2\x82\xac\0xyxya\0");
    visit_start(&site, &visit);
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
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_a_tagger_answers_each_text_as_its_ids_alone);
    tcase_add_test(tcase, test_a_cutter_answers_each_text_as_its_pieces_alone);
    tcase_add_test(tcase, test_texts_have_a_start_and_an_end);
    tcase_add_test(tcase, test_ids_and_bytes);
    tcase_add_loop_test(tcase, test_a_speller_answers_each_text_as_its_ids_alone, 0, 2);
    tcase_add_test(tcase, test_texts_that_cannot_be_read_are_refused);
    tcase_add_test(tcase, test_tensors_that_are_no_texts_are_refused);
    tcase_add_test(tcase, test_bracketed_trees_are_those_of_their_numbers);
    tcase_add_test(tcase, test_trees_that_are_none_are_refused);
    tcase_add_test(tcase, test_deep_brackets);
    tcase_add_test(tcase, test_signatures_say_which_tensors_are_text);
    tcase_add_test(tcase, test_vocabularies_that_do_not_fit_are_refused);
    tcase_add_test(tcase, test_parts_end_with_a_character);
    tcase_add_test(tcase, test_an_id_without_a_text);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
