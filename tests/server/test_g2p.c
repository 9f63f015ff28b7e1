/* A model that somebody trained: letters to sounds, a GRU of 256 units on either side
 * (Kyubyong/g2p, in the data folder with 300 words and their ids). Its weights become an encoder
 * and a decoder; all words at once, in any order, must give the ids, and each word the same bits as
 * alone. */
#include "base/mem.h"
#include "tests/server/parts.h"
#include "tests/server/site.h"
#include "tests/util.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HIDDEN = 256, GATES = 3, WORDS_MAX = 300, SOUNDS = 74, IDS_MAX = 64, HEAD = 8 };

static char folder[UTIL_PATH_BYTES];
static struct site site;
static struct onnx_builder builder;

/* ---- Weights ------------------------------------------------------------------------------ */

/* A safetensors file: a JSON header that says where each tensor lies behind it. */
struct safetensors {
    char *bytes;
    json_t *header;
    const char *data;
};

static char *read_data(const char *name, size_t *length)
{
    char path[UTIL_PATH_BYTES];
    snprintf(path, sizeof(path), "%s/models/g2p_en_gru/%s", util_data_path(), name);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    *length = (size_t)ftell(file);
    rewind(file);
    char *bytes = base_alloc(*length + 1);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(fread(bytes, 1, *length, file), *length);
    ck_assert_int_eq(fclose(file), 0);
    bytes[*length] = '\0';
    return bytes;
}

static struct safetensors open_weights(void)
{
    size_t length = 0;
    uint64_t header = 0;
    struct safetensors weights = {.bytes = read_data("g2p_en_gru.safetensors", &length)};
    memcpy(&header, weights.bytes, sizeof(header));
    ck_assert_uint_lt(header, length);
    weights.header = json_loadb(weights.bytes + sizeof(header), (size_t)header, 0, NULL);
    ck_assert_ptr_nonnull(weights.header);
    weights.data = weights.bytes + sizeof(header) + header;
    return weights;
}

/* The tensor's floats, in memory of the builder's. */
static float *floats_of(const struct safetensors *weights, const char *name, size_t count)
{
    const json_t *entry = json_object_get(weights->header, name);
    const json_t *offsets = json_object_get(entry, "data_offsets");
    ck_assert_msg(offsets != NULL, "%s", name);
    const size_t from = (size_t)json_integer_value(json_array_get(offsets, 0));
    const size_t to = (size_t)json_integer_value(json_array_get(offsets, 1));
    ck_assert_uint_eq(to - from, count * sizeof(float));
    float *floats = base_arena_array(&builder.arena, count, sizeof(float));
    ck_assert_ptr_nonnull(floats);
    memcpy(floats, weights->data + from, to - from);
    return floats;
}

static void add_floats(const char *name, uint32_t rank, const int64_t *dims, const float *floats)
{
    size_t bytes = sizeof(float);
    for (uint32_t i = 0; i < rank; i++) {
        bytes *= (size_t)dims[i];
    }
    onnx_constant(&builder, name, onnx_tensor(&builder, PARTS_FLOAT, rank, dims, floats, bytes));
}

static void add_matrix(const struct safetensors *weights, const char *name, int64_t rows,
                       int64_t cols)
{
    const int64_t dims[] = {rows, cols};
    add_floats(name, 2, dims, floats_of(weights, name, (size_t)(rows * cols)));
}

/* PyTorch has the gates r, z, n; ONNX z, r, n. */
static float *turn_gates(float *floats, size_t gate)
{
    for (size_t i = 0; i < gate; i++) {
        const float r = floats[i];
        floats[i] = floats[gate + i];
        floats[gate + i] = r;
    }
    return floats;
}

/* w, r and b of a GRU. */
static void add_gru(const struct safetensors *weights, const char *side)
{
    const size_t gate = (size_t)HIDDEN * HIDDEN;
    const int64_t matrix[] = {1, GATES * HIDDEN, HIDDEN};
    const int64_t vector[] = {1, 2 * GATES * HIDDEN};
    static float biases[2 * GATES * HIDDEN];
    char name[32];
    for (uint32_t part = 0; part < 2; part++) {
        const char *of = part == 0 ? "ih" : "hh";
        snprintf(name, sizeof(name), "%s_w_%s", side, of);
        add_floats(part == 0 ? "w" : "r", 3, matrix,
                   turn_gates(floats_of(weights, name, GATES * gate), gate));
        snprintf(name, sizeof(name), "%s_b_%s", side, of);
        memcpy(biases + (size_t)part * GATES * HIDDEN,
               turn_gates(floats_of(weights, name, (size_t)GATES * HIDDEN), HIDDEN),
               (size_t)GATES * HIDDEN * sizeof(float));
    }
    add_floats("b", 2, vector, biases);
}

static void node_gru(const char *inputs)
{
    Onnx__NodeProto *gru = onnx_node(&builder, "GRU", inputs, "y y_h");
    onnx_set_int(&builder, gru, "hidden_size", HIDDEN);
    onnx_set_int(&builder, gru, "linear_before_reset", 1);
}

static void write_encoder(const struct safetensors *weights, const char *version)
{
    const int64_t dims[] = {-1, -1};
    onnx_init(&builder, 17);
    onnx_input(&builder, "letters", PARTS_INT64, 2, dims);
    add_matrix(weights, "enc_emb", 29, HIDDEN);
    add_gru(weights, "enc");
    onnx_constant(&builder, "zero", onnx_ints(&builder, 1, 1, (const int64_t[]){0}));
    onnx_node(&builder, "Gather", "enc_emb letters", "embedded");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "embedded", "x"), "perm", 3,
                  (const int64_t[]){1, 0, 2});
    node_gru("x w r b");
    onnx_node(&builder, "Squeeze", "y_h zero", "h");
    parts_output(&builder, "h");
    parts_write(&builder, version, "encoder");
}

/* A GRU of one step, as PyTorch's exporter writes a nn.GRU that is given one. */
static void write_decoder(const struct safetensors *weights, const char *version)
{
    const int64_t biases[] = {SOUNDS};
    onnx_init(&builder, 17);
    parts_input(&builder, "token", PARTS_INT64, 0);
    parts_input(&builder, "h", PARTS_FLOAT, HIDDEN);
    add_matrix(weights, "dec_emb", SOUNDS, HIDDEN);
    add_gru(weights, "dec");
    add_matrix(weights, "fc_w", SOUNDS, HIDDEN);
    add_floats("fc_b", 1, biases, floats_of(weights, "fc_b", SOUNDS));
    onnx_constant(&builder, "zero", onnx_ints(&builder, 1, 1, (const int64_t[]){0}));
    onnx_node(&builder, "Gather", "dec_emb token", "embedded");
    onnx_node(&builder, "Unsqueeze", "embedded zero", "x");
    onnx_node(&builder, "Unsqueeze", "h zero", "h_before");
    node_gru("x w r b - h_before");
    onnx_node(&builder, "Squeeze", "y_h zero", "h_next");
    onnx_set_int(&builder, onnx_node(&builder, "Gemm", "h_next fc_w fc_b", "logits"), "transB", 1);
    Onnx__NodeProto *largest = onnx_node(&builder, "ArgMax", "logits", "token_next");
    onnx_set_int(&builder, largest, "axis", 1);
    onnx_set_int(&builder, largest, "keepdims", 0);
    parts_output(&builder, "token_next");
    parts_output(&builder, "h_next");
    parts_output(&builder, "logits");
    parts_write(&builder, version, "decoder");
}

static void write_model(void)
{
    char version[UTIL_PATH_BYTES];
    struct safetensors weights = open_weights();
    parts_folder(folder, "g2p", "unfold: seq2seq\nstart: 2\nend: 3\nmax-steps: 20\n", version);
    write_encoder(&weights, version);
    write_decoder(&weights, version);
    json_decref(weights.header);
    base_free(weights.bytes);
}

/* ---- Words -------------------------------------------------------------------------------- */

struct word {
    char text[64];
    int64_t letters[IDS_MAX], sounds[IDS_MAX];
    uint32_t n_letters, n_sounds;
    double first_logits[HEAD];
};

static struct word words[WORDS_MAX];

static uint32_t read_ids(const json_t *line, const char *key, int64_t *out)
{
    const json_t *ids = json_object_get(line, key);
    const size_t n = json_array_size(ids);
    ck_assert_uint_le(n, IDS_MAX);
    for (size_t i = 0; i < n; i++) {
        out[i] = json_integer_value(json_array_get(ids, i));
    }
    return (uint32_t)n;
}

static void read_words(void)
{
    size_t length = 0;
    char *text = read_data("g2p_golden.jsonl", &length);
    char *rest = text;
    uint32_t n = 0;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && line[0] != '\0'; n++) {
        json_t *golden = json_loads(line, 0, NULL);
        ck_assert(golden != NULL && n < WORDS_MAX);
        struct word *word = &words[n];
        snprintf(word->text, sizeof(word->text), "%s",
                 json_string_value(json_object_get(golden, "word")));
        word->n_letters = read_ids(golden, "grapheme_ids", word->letters);
        word->n_sounds = read_ids(golden, "phoneme_ids", word->sounds);
        for (uint32_t i = 0; i < HEAD; i++) {
            word->first_logits[i] = json_number_value(
                json_array_get(json_object_get(golden, "first_step_logits_head8"), i));
        }
        json_decref(golden);
    }
    ck_assert_uint_eq(n, WORDS_MAX);
    base_free(text);
}

/* ---- Asking ------------------------------------------------------------------------------- */

static void ask(struct visit *visit, const struct word *word)
{
    struct base_random random = util_random(1);
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, site_find(&site, "g2p"), 1, word->n_letters, &random, ASK_PLAIN);
    visit->ask.request.model_name = "g2p";
    ask_input(&visit->ask, "letters")->data = (const uint8_t *)(const void *)word->letters;
    visit_start(&site, visit);
}

static void expect(struct visit *visit, const struct word *word)
{
    visit_wait(visit);
    ck_assert_msg(visit->ask.request.error.status == BASE_OK, "%s: %s", word->text,
                  visit->ask.request.error.message);
    const struct srv_tensor *token = ask_output(&visit->ask, "token");
    const struct srv_tensor *logits = ask_output(&visit->ask, "logits");
    ck_assert_msg(token->shape[1] == word->n_sounds, "%s: %lld sounds, wanted %u", word->text,
                  (long long)token->shape[1], word->n_sounds);
    for (uint32_t i = 0; i < word->n_sounds; i++) {
        const int64_t id = cell_integer_at(CELL_I64, token->data + i * sizeof(int64_t));
        ck_assert_msg(id == word->sounds[i], "%s: sound %u", word->text, i);
    }
    for (uint32_t i = 0; i < HEAD && word->n_sounds > 0; i++) {
        float logit = 0;
        memcpy(&logit, logits->data + i * sizeof(logit), sizeof(logit));
        ck_assert_msg(fabs((double)logit - word->first_logits[i]) < 1e-4, "%s: logit %u",
                      word->text, i);
    }
}

static void open_site(uint32_t threads)
{
    struct site_options options;
    site_options_init(&options);
    options.repositories[0] = folder;
    options.engine.backend = cell_backend_find("cpu");
    options.engine.rows = 512;
    options.engine.team_threads = threads;
    options.core.queue_max = WORDS_MAX;
    site_open(&site, &options);
}

static void setup(void)
{
    util_temp_dir(folder);
}

static void teardown(void)
{
    util_remove_tree(folder);
}

/* The steps run on the device: a request is in few batches for its tokens, however many others come
 * and go meanwhile. */
static void check_turns(void)
{
    const struct cell_model *model = site_find(&site, "g2p");
    uint64_t batches = 0; // of each, the requests in it
    uint64_t cells = 0;
    for (uint32_t d = 0; d < srv_engine_devices(site.engine); d++) {
        const struct sched_type_stats *stats = sched_type_stats(
            srv_engine_scheduler(site.engine, d), model->stages[model->decoder.stage].type->id);
        batches += stats->rows_sum;
        cells += stats->cells;
    }
    ck_assert_uint_gt(cells, 4 * WORDS_MAX);
    ck_assert_msg(100 * batches <= 20 * cells, "%llu batches for %llu tokens",
                  (unsigned long long)batches, (unsigned long long)cells);
}

START_TEST(test_words_in_company_and_alone)
{
    static struct visit visits[WORDS_MAX];
    static struct visit again;
    struct base_random random = util_random(2 + (uint64_t)_i);
    uint32_t order[WORDS_MAX];
    if (util_data_path() == NULL) {
        util_skip("the data folder is not given (CELLBATCH_DATA)");
        return;
    }
    write_model();
    read_words();
    open_site(1 + (uint32_t)_i);
    for (uint32_t i = 0; i < WORDS_MAX; i++) {
        const uint32_t k = base_random_below(&random, i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    for (uint32_t i = 0; i < WORDS_MAX; i++) {
        ask(&visits[order[i]], &words[order[i]]);
    }
    for (uint32_t i = 0; i < WORDS_MAX; i++) {
        visit_wait(&visits[i]);
    }
    check_turns();
    for (uint32_t i = 0; i < WORDS_MAX; i++) {
        expect(&visits[i], &words[i]);
        ask(&again, &words[i]);
        expect(&again, &words[i]);
        const struct srv_tensor *together = ask_output(&visits[i].ask, "logits");
        const struct srv_tensor *alone = ask_output(&again.ask, "logits");
        ck_assert_uint_eq(together->bytes, alone->bytes);
        ck_assert_mem_eq(together->data, alone->data, alone->bytes);
        ask_release(&again.ask);
    }
    for (uint32_t i = 0; i < WORDS_MAX; i++) {
        ask_release(&visits[i].ask);
    }
    site_close(&site);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("g2p");
    TCase *tcase = tcase_create("g2p");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_words_in_company_and_alone, 0, 2);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
