#include "tests/server/text_site.h"

#include "tests/server/parts.h"

#include <stdio.h>
#include <string.h>

#define WORDS  9
#define SOUNDS 7
#define TAGS   4

static const char words[] = "the\ncat\nsat\non\na\nmat\nMAX\n1\n\xc3\xa4h\n";
static const char letters[] = "a\nb\nc\nd\n\xc3\xa4\n \n\xe2\x82\xac\nx\ny\n";
const char texts_sounds[] = "AA\nBE\nC\n-\nE\nF\nG\n";
const char texts_tags[] = "noun\nverb\nel se\n.\n";
static const char pieces[] = "the\nca@@\nt\nsa@@\na\nm@@\nat\n1\n<unk>\n";
static const char tag_pieces[] = "no@@\nun\nver@@\nb\n";
static const char codes[] = "#version: 0.2\nt h\nth e</w>\nc a\ns a\na t</w>\n";

char texts_folder[UTIL_PATH_BYTES];
struct site texts_site;
static struct onnx_builder builder;
static struct base_random random_numbers;

/* ---- Models ------------------------------------------------------------------------------- */

static void constant(const char *name, int64_t rows, int64_t cols)
{
    parts_constant(&builder, &random_numbers, name, rows, cols);
}

void texts_write_file(const char *model, const char *name, const char *contents)
{
    char path[2 * UTIL_PATH_BYTES];
    snprintf(path, sizeof(path), "%s/%s/%s", texts_folder, model, name);
    util_write_file(path, contents);
}

/* tokens [batch, time] through a table and a GRU: y [time, 1, batch, hidden], y_h. */
static void write_gru(void)
{
    const int64_t dims[] = {-1, -1};
    onnx_init(&builder, 17);
    onnx_input(&builder, "tokens", PARTS_INT64, 2, dims);
    constant("table", WORDS, TEXTS_HIDDEN);
    onnx_add_weights(&builder, "GRU", TEXTS_HIDDEN, TEXTS_HIDDEN, 3);
    onnx_node(&builder, "Gather", "table tokens", "embedded");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "embedded", "x"), "perm", 3,
                  (const int64_t[]){1, 0, 2});
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "x w r b", "y y_h"), "hidden_size",
                 TEXTS_HIDDEN);
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
    constant("to_tags", TEXTS_HIDDEN, TAGS);
    constant("words_to_tags", TEXTS_HIDDEN, TAGS);
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
    parts_input(&builder, "h", PARTS_FLOAT, TEXTS_HIDDEN);
    constant("table", SOUNDS, TEXTS_HIDDEN);
    constant("u", TEXTS_HIDDEN, TEXTS_HIDDEN);
    constant("o", TEXTS_HIDDEN, SOUNDS);
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
    constant("table", WORDS, TEXTS_HIDDEN);
    onnx_node(&builder, "Gather", "table word", "h");
    parts_output(&builder, "h");
    parts_write(&builder, version, "leaf");
    onnx_init(&builder, 17);
    for (int k = 0; k < TEXTS_CHILDREN; k++) {
        char name[2][16];
        char product[40];
        snprintf(name[0], sizeof(name[0]), "h_%d", k);
        snprintf(name[1], sizeof(name[1]), "w%d", k);
        parts_input(&builder, name[0], PARTS_FLOAT, TEXTS_HIDDEN);
        constant(name[1], TEXTS_HIDDEN, TEXTS_HIDDEN);
        snprintf(product, sizeof(product), "%s %s", name[0], name[1]);
        snprintf(name[1], sizeof(name[1]), "p%d", k);
        onnx_node(&builder, "MatMul", product, name[1]);
    }
    onnx_node(&builder, "Add", "p0 p1", "p01");
    onnx_node(&builder, "Add", "p01 p2", "sum");
    if (has_label) {
        parts_input(&builder, "label", PARTS_FLOAT, TEXTS_HIDDEN);
        onnx_node(&builder, "Add", "sum label", "labelled");
    }
    onnx_node(&builder, "Tanh", has_label ? "labelled" : "sum", "h");
    parts_output(&builder, "h");
    parts_write(&builder, version, "node");
}

/* A model and, without the last lines of its configuration, its twin. */
void texts_write_twins(const char *name, const char *config, const char *texts,
                       void (*write)(const char *version))
{
    char version[UTIL_PATH_BYTES];
    char text[512];
    char twin[32];
    snprintf(text, sizeof(text), "%s%s", config, texts);
    snprintf(twin, sizeof(twin), "%s_ids", name);
    base_random_init(&random_numbers, 9);
    parts_folder(texts_folder, name, text, version);
    write(version);
    base_random_init(&random_numbers, 9);
    parts_folder(texts_folder, twin, config, version);
    write(version);
    texts_write_file(name, "words.txt", words);
    texts_write_file(name, "letters.txt", letters);
    texts_write_file(name, "sounds.txt", texts_sounds);
    texts_write_file(name, "tags.txt", texts_tags);
    texts_write_file(name, "pieces.txt", pieces);
    texts_write_file(name, "tag_pieces.txt", tag_pieces);
    texts_write_file(name, "codes", codes);
}

static void write_plain_tree(const char *version)
{
    write_tree(version, false);
}

void texts_write_labelled_tree(const char *version)
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
    texts_write_twins("tagger", "", TAGGER, write_tagger);
    texts_write_twins("cutter", "", CUTTER, write_tagger);
    texts_write_twins("speller", DECODER, SPELLER, write_speller);
    texts_write_twins("framed", "", TAGGER "text-start: 5\ntext-end: 7\n", write_tagger);
    texts_write_twins("ended", "", CUTTER "text-end: 7\n", write_tagger);
    texts_write_twins("beam", DECODER "beam: 3\n", SPELLER, write_speller);
    texts_write_twins("bytes", "", "vocabularies: tokens=bytes\n", write_tagger);
    texts_write_twins("tree", "unfold: tree\n", "vocabularies: word=words:words.txt\n",
                      write_plain_tree);
}

void texts_open_site(void)
{
    struct site_options options;
    site_options_init(&options);
    options.core.sequence_length_max = 20000;
    options.repositories[0] = texts_folder;
    options.engine.backend = cell_backend_find("cpu");
    options.engine.rows = 4096;
    site_open(&texts_site, &options);
}

void texts_setup(void)
{
    util_temp_dir(texts_folder);
    write_models();
    texts_open_site();
}

void texts_teardown(void)
{
    site_close(&texts_site);
    util_remove_tree(texts_folder);
}

/* ---- Requests ----------------------------------------------------------------------------- */

void texts_begin(struct visit *visit, const char *model)
{
    struct base_random random = util_random(1);
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, site_find(&texts_site, model), 1, 1, &random, ASK_PLAIN);
    visit->ask.request.model_name = model;
    visit->ask.request.n_inputs = 0;
}

void texts_add(struct visit *visit, const char *name, const char *datatype, const void *data,
               size_t bytes)
{
    struct srv_request *request = &visit->ask.request;
    uint8_t *copy = base_arena_alloc(&request->arena, bytes + 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, data, bytes);
    request->inputs[request->n_inputs++] =
        (struct srv_tensor){.name = name, .datatype = datatype, .data = copy, .bytes = bytes};
}

struct srv_tensor *texts_shape(struct visit *visit, uint32_t rank, int64_t first, int64_t second)
{
    struct srv_tensor *tensor = &visit->ask.request.inputs[visit->ask.request.n_inputs - 1];
    tensor->rank = rank;
    tensor->shape[0] = first;
    tensor->shape[1] = second;
    return tensor;
}

/* texts: NUL behind each, an empty one behind the last. */
uint32_t texts_add_texts(struct visit *visit, const char *name, const char *texts)
{
    uint8_t bytes[4096];
    size_t at = 0;
    uint32_t n = 0;
    for (const char *text = texts; *text != '\0'; text += strlen(text) + 1) {
        at += ask_put_text(bytes + at, text, strlen(text));
        n++;
    }
    texts_add(visit, name, "BYTES", bytes, at);
    texts_shape(visit, 1, n, 0);
    return n;
}

void texts_add_ids(struct visit *visit, const char *name, uint32_t n, const int64_t *ids)
{
    texts_add(visit, name, "INT64", ids, n * sizeof(*ids));
    texts_shape(visit, 2, 1, n);
}

void texts_run(struct visit *visit)
{
    visit_start(&texts_site, visit);
    visit_wait(visit);
    ck_assert_msg(visit->ask.request.error.status == BASE_OK, "%s",
                  visit->ask.request.error.message);
}

void texts_expect_refused(struct visit *visit, const char *message)
{
    visit_start(&texts_site, visit);
    visit_wait(visit);
    ck_assert_int_eq(visit->ask.request.error.status, BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(visit->ask.request.error.message, message);
    ask_release(&visit->ask);
}

const struct srv_tensor *texts_output(const struct visit *visit, const char *name)
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
void texts_spell(const char *contents, const uint8_t *ids, int64_t n, char *out, size_t room)
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

void texts_assert(const struct srv_tensor *got, uint32_t index, const char *wanted)
{
    const struct srv_word text = text_at(got, index);
    ck_assert_msg(text.length == strlen(wanted) && memcmp(text.text, wanted, text.length) == 0,
                  "\"%.*s\", wanted \"%s\"", (int)text.length, text.text, wanted);
}
