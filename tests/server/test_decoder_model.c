/* Models of an encoder and a decoder: two parts on disk, served; random requests in one run, each
 * answer compared with the cells evaluated step by step in double precision, and with itself asked
 * alone. A row that has ended lets go of what it held, whoever still runs. Parts that do not fit
 * each other are refused by name. */
#include "base/mem.h"
#include "server/check_model.h"
#include "server/explain.h"
#include "tests/server/gate.h"
#include "tests/server/parts.h"
#include "tests/server/site.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Of logits near 10 after 20 steps that feed back what they round. */
#define TOLERANCE 1e-4

enum { WORDS = 13, IDS = 17, HIDDEN = 24, STYLE = 2, STEPS_MAX = 20, START = 2, END = 5 };

static char folder[UTIL_PATH_BYTES];
static struct site site;
static struct onnx_builder builder;
static struct base_random random_numbers;

/* ---- Parts -------------------------------------------------------------------------------- */

/* What a case changes in the parts and their binding. */
struct parts {
    const char *config;
    const char *encoder_output; /* the decoder's first state */
    const char *token, *token_next, *h_next, *logits;
    int64_t decoder_hidden;
    bool has_encoder, is_timed, is_narrow; /* encoder hands over each step's; ids of 32 bits */
    bool is_token_unread;
    bool attends; /* the decoder to every step of the encoder, both of its directions */
};

static const struct parts whole = {
    .config = "unfold: seq2seq\nstart: 2\nend: 5\nmax-steps: 20\n",
    .encoder_output = "h",
    .token = "token",
    .token_next = "token_next",
    .h_next = "h_next",
    .logits = "logits",
    .decoder_hidden = HIDDEN,
    .has_encoder = true,
};

static void constant(const char *name, int64_t rows, int64_t cols)
{
    parts_constant(&builder, &random_numbers, name, rows, cols);
}

/* Both directions of another GRU, side by side: memory [batch, time, 2 * HIDDEN]. */
static void write_memory(void)
{
    const int64_t w[] = {2, 3 * HIDDEN, HIDDEN};
    const int64_t b[] = {2, 6 * HIDDEN};
    const int64_t shape[] = {0, 0, 2 * HIDDEN};
    onnx_constant(&builder, "w2", onnx_random(&builder, 3, w, &random_numbers, 0.5f));
    onnx_constant(&builder, "r2", onnx_random(&builder, 3, w, &random_numbers, 0.5f));
    onnx_constant(&builder, "b2", onnx_random(&builder, 2, b, &random_numbers, 0.5f));
    Onnx__NodeProto *gru = onnx_node(&builder, "GRU", "x w2 r2 b2", "y2");
    onnx_set_int(&builder, gru, "hidden_size", HIDDEN);
    onnx_set_string(&builder, gru, "direction", "bidirectional");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "y2", "y2_turned"), "perm", 4,
                  (const int64_t[]){2, 0, 1, 3});
    onnx_constant(&builder, "shape", onnx_ints(&builder, 1, 3, shape));
    onnx_node(&builder, "Reshape", "y2_turned shape", "memory");
}

/* A GRU over words; what it has at its end, and a product of that. */
static void write_encoder(const char *version, const struct parts *parts)
{
    const int64_t dims[] = {-1, -1};
    const int64_t last[] = {1};
    char name[64];
    onnx_init(&builder, 17);
    onnx_input(&builder, "source", PARTS_INT64, 2, dims);
    constant("table", WORDS, HIDDEN);
    onnx_add_weights(&builder, "GRU", HIDDEN, HIDDEN, 3);
    constant("bridge", HIDDEN, HIDDEN);
    onnx_node(&builder, "Gather", "table source", "embedded");
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "embedded", "x"), "perm", 3,
                  (const int64_t[]){1, 0, 2});
    onnx_set_int(&builder, onnx_node(&builder, "GRU", "x w r b", "y y_h"), "hidden_size", HIDDEN);
    onnx_constant(&builder, "zero", onnx_ints(&builder, 1, 1, (const int64_t[]){0}));
    onnx_constant(&builder, "one", onnx_ints(&builder, 1, 1, last));
    if (parts->attends) {
        write_memory();
    }
    if (parts->is_timed) {
        onnx_node(&builder, "Squeeze", "y one", "steps");
        onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "steps", parts->encoder_output),
                      "perm", 3, (const int64_t[]){1, 0, 2});
    } else {
        onnx_node(&builder, "Squeeze", "y_h zero", parts->encoder_output);
    }
    snprintf(name, sizeof(name), "%s bridge", parts->encoder_output);
    onnx_node(&builder, "MatMul", name, "context");
    parts_output(&builder, parts->encoder_output);
    parts_output(&builder, "context");
    if (parts->attends) {
        parts_output(&builder, "memory");
    }
    parts_write(&builder, version, "encoder");
}

/* sum4 = sum3 + A attended, of memory by a query of h; not of token, so that it changes little. */
static void write_attention(void)
{
    const int64_t dims[] = {-1, -1, 2 * HIDDEN};
    const float seven = 7.0f;
    onnx_constant(&builder, "seven", onnx_tensor(&builder, PARTS_FLOAT, 0, NULL, &seven, 4));
    onnx_input(&builder, "memory", PARTS_FLOAT, 3, dims);
    onnx_constant(&builder, "one", onnx_ints(&builder, 1, 1, (const int64_t[]){1}));
    onnx_constant(&builder, "two", onnx_ints(&builder, 1, 1, (const int64_t[]){2}));
    constant("to_query", HIDDEN, 2 * HIDDEN);
    constant("from_attended", 2 * HIDDEN, HIDDEN);
    onnx_node(&builder, "MatMul", "h to_query", "query");
    onnx_node(&builder, "Unsqueeze", "query two", "column");
    onnx_node(&builder, "MatMul", "memory column", "products");
    onnx_node(&builder, "Squeeze", "products two", "unscaled");
    onnx_node(&builder, "Div", "unscaled seven", "scores"); // about the root of the width
    onnx_set_int(&builder, onnx_node(&builder, "Softmax", "scores", "weights"), "axis", 1);
    onnx_node(&builder, "Unsqueeze", "weights one", "line");
    onnx_node(&builder, "MatMul", "line memory", "attended3");
    onnx_node(&builder, "Squeeze", "attended3 one", "attended");
    onnx_node(&builder, "MatMul", "attended from_attended", "of_memory");
    onnx_node(&builder, "Add", "sum3 of_memory", "sum4");
}

/* h' = tanh(table[token] + h U + context V + style S), s' = tanh(s + h'), logits = (h' + s') O. */
static void write_decoder(const char *version, const struct parts *parts)
{
    const int64_t hidden = parts->decoder_hidden;
    const int32_t ids = parts->is_narrow ? PARTS_INT32 : PARTS_INT64;
    char name[64];
    onnx_init(&builder, 17);
    parts_input(&builder, parts->token, ids, 0);
    parts_input(&builder, "h", PARTS_FLOAT, hidden);
    parts_input(&builder, "s", PARTS_FLOAT, hidden);
    parts_input(&builder, "context", PARTS_FLOAT, HIDDEN);
    parts_input(&builder, "style", PARTS_FLOAT, STYLE);
    constant("table", IDS, hidden);
    constant("u", hidden, hidden);
    constant("v", HIDDEN, hidden);
    constant("t", STYLE, hidden);
    constant("o", hidden, IDS);
    snprintf(name, sizeof(name), "table %s", parts->token);
    if (parts->is_token_unread) {
        constant("fixed", 1, hidden);
        onnx_node(&builder, "Identity", "fixed", "x");
    } else {
        onnx_node(&builder, "Gather", name, "x");
    }
    onnx_node(&builder, "MatMul", "h u", "of_h");
    onnx_node(&builder, "MatMul", "context v", "of_context");
    onnx_node(&builder, "MatMul", "style t", "of_style");
    onnx_node(&builder, "Add", "x of_h", "sum");
    onnx_node(&builder, "Add", "sum of_context", "sum2");
    onnx_node(&builder, "Add", "sum2 of_style", "sum3");
    if (parts->attends) {
        write_attention();
    }
    onnx_node(&builder, "Tanh", parts->attends ? "sum4" : "sum3", parts->h_next);
    snprintf(name, sizeof(name), "s %s", parts->h_next);
    onnx_node(&builder, "Add", name, "s_sum");
    onnx_node(&builder, "Tanh", "s_sum", "s_next");
    snprintf(name, sizeof(name), "s_next %s", parts->h_next);
    onnx_node(&builder, "Add", name, "both");
    onnx_node(&builder, "MatMul", "both o", parts->logits);
    Onnx__NodeProto *largest =
        onnx_node(&builder, "ArgMax", parts->logits, parts->is_narrow ? "id" : parts->token_next);
    onnx_set_int(&builder, largest, "axis", 1);
    onnx_set_int(&builder, largest, "keepdims", 0);
    if (parts->is_narrow) {
        onnx_set_int(&builder, onnx_node(&builder, "Cast", "id", parts->token_next), "to",
                     PARTS_INT32);
    }
    parts_output(&builder, parts->token_next);
    parts_output(&builder, parts->h_next);
    parts_output(&builder, "s_next");
    parts_output(&builder, parts->logits);
    parts_write(&builder, version, "decoder");
}

static void write_model(const char *name, const struct parts *parts, char version[UTIL_PATH_BYTES])
{
    base_random_init(&random_numbers,
                     1); // the same model whatever the seed: it has to end and not to
    parts_folder(folder, name, parts->config, version);
    if (parts->has_encoder) {
        write_encoder(version, parts);
    }
    write_decoder(version, parts);
}

static void open_site(const struct cell_backend *backend)
{
    struct site_options options;
    site_options_init(&options);
    options.repositories[0] = folder;
    options.engine.rows = 512;
    if (backend != NULL) {
        options.engine.backend = backend;
        options.gated = true;
        options.engine.run_steps_max = 4;
    }
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

/* ---- Answers ------------------------------------------------------------------------------ */

static void begin(struct visit *visit, const char *model, uint32_t n_rows, uint32_t steps,
                  struct base_random *random)
{
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, site_find(&site, model), n_rows, steps, random,
             base_random_below(random, 2) == 0 ? ASK_PLAIN : ASK_OPTIONAL);
    visit->ask.request.model_name = model;
}

static void expect_ok(struct visit *visit)
{
    visit_wait(visit);
    ck_assert_msg(visit->ask.request.error.status == BASE_OK, "%s",
                  visit->ask.request.error.message);
}

static int64_t length_of(const struct visit *visit, uint32_t row)
{
    const struct srv_tensor *lengths = ask_output(&visit->ask, "lengths");
    ck_assert_ptr_nonnull(lengths);
    return cell_integer_at(CELL_I64, lengths->data + row * sizeof(int64_t));
}

/* A repeated request: the same inputs. */
static void ask_again(struct visit *again, const struct visit *first)
{
    memset(again, 0, sizeof(*again));
    again->ask = first->ask;
    base_arena_init(&again->ask.request.arena, 4096, (size_t)64 << 20);
    again->ask.request.n_outputs = 0;
    visit_start(&site, again);
    expect_ok(again);
}

static void expect_same(const struct srv_request *a, const struct srv_request *b)
{
    ck_assert_uint_eq(a->n_outputs, b->n_outputs);
    for (uint32_t o = 0; o < a->n_outputs; o++) {
        ck_assert_uint_eq(a->outputs[o].bytes, b->outputs[o].bytes);
        ck_assert_mem_eq(a->outputs[o].data, b->outputs[o].data, b->outputs[o].bytes);
    }
}

enum { TOGETHER = 60 };

/* Requests of all sizes in one run; then each of them again, alone: the same bits. */
static void check_company(const struct parts *parts)
{
    static struct visit visits[TOGETHER];
    static struct visit again;
    struct base_random random = util_random(2);
    char version[UTIL_PATH_BYTES];
    bool is_short[2] = {false};
    write_model("talk", parts, version);
    open_site(NULL);
    for (uint32_t i = 0; i < TOGETHER; i++) {
        begin(&visits[i], "talk", 1 + base_random_below(&random, 4),
              1 + base_random_below(&random, 20), &random);
        visit_start(&site, &visits[i]);
    }
    for (uint32_t i = 0; i < TOGETHER; i++) {
        expect_ok(&visits[i]);
        ck_assert_double_lt(ask_error(&visits[i].ask), TOLERANCE);
        for (uint32_t row = 0; row < visits[i].ask.n_rows; row++) {
            is_short[length_of(&visits[i], row) < STEPS_MAX] = true;
        }
        ask_again(&again, &visits[i]);
        expect_same(&again.ask.request, &visits[i].ask.request);
        ask_release(&again.ask);
    }
    ck_assert(is_short[true] && is_short[false]); // both ends came up
    for (uint32_t i = 0; i < TOGETHER; i++) {
        ask_release(&visits[i].ask);
    }
    ck_assert_uint_eq(site_rows(&site), 0);
    ck_assert_uint_eq(site_reserved(&site), 0);
    site_close(&site);
}

START_TEST(test_decoders_in_company_and_alone)
{
    struct parts parts = whole;
    parts.is_narrow = _i == 1;
    parts.attends = _i == 2;
    check_company(&parts);
}
END_TEST

/* A request of zeros, as the warm-up's. */
static void zero(struct visit *visit)
{
    for (uint32_t i = 0; i < visit->ask.request.n_inputs; i++) {
        struct srv_tensor *input = &visit->ask.request.inputs[i];
        uint8_t *zeros = base_arena_alloc(&visit->ask.request.arena, input->bytes);
        ck_assert_ptr_nonnull(zeros);
        input->data = zeros;
    }
}

/* A model whose longest answer would fill the memory of a warm-up many times over becomes ready. */
START_TEST(test_a_long_answer_does_not_stop_the_warm_up)
{
    static struct visit visit;
    struct base_random random = util_random(7);
    struct parts parts = whole;
    char version[UTIL_PATH_BYTES];
    char config[128];
    parts.config = "unfold: seq2seq\nstart: 2\nmax-steps: 1\n";
    write_model("short", &parts, version);
    open_site(NULL);
    begin(&visit, "short", 1, 2, &random);
    zero(&visit);
    visit_start(&site, &visit);
    expect_ok(&visit);
    const int64_t first = cell_integer_at(CELL_I64, ask_output(&visit.ask, "token")->data);
    ask_release(&visit.ask);
    site_close(&site);
    snprintf(config, sizeof(config), "unfold: seq2seq\nstart: 2\nend: %lld\nmax-steps: 1048576\n",
             (long long)first);
    parts.config = config;
    write_model("long", &parts, version);
    open_site(NULL);
    ck_assert_ptr_nonnull(site_find(&site, "long"));
    site_close(&site);
}
END_TEST

/* A memory that the client sends. */
START_TEST(test_a_memory_of_the_client)
{
    static struct visit visit;
    struct base_random random = util_random(6);
    struct parts parts = whole;
    char version[UTIL_PATH_BYTES];
    parts.attends = true;
    parts.has_encoder = false;
    write_model("talk", &parts, version);
    open_site(NULL);
    for (uint32_t i = 0; i < 20; i++) {
        begin(&visit, "talk", 3, 1 + i, &random);
        visit_start(&site, &visit);
        expect_ok(&visit);
        ck_assert_double_lt(ask_error(&visit.ask), TOLERANCE);
        ask_release(&visit.ask);
    }
    site_close(&site);
}
END_TEST

/* No encoder, and no start in config.yaml: the client sends the first token and the first state. */
START_TEST(test_a_decoder_of_its_own)
{
    static struct visit visit;
    struct base_random random = util_random(3);
    struct parts parts = whole;
    char version[UTIL_PATH_BYTES];
    parts.has_encoder = false;
    parts.config = "unfold: seq2seq\nend: 5\nmax-steps: 20\n";
    write_model("talk", &parts, version);
    open_site(NULL);
    for (uint32_t i = 0; i < 20; i++) {
        begin(&visit, "talk", 3, 1, &random);
        visit_start(&site, &visit);
        expect_ok(&visit);
        ck_assert_double_lt(ask_error(&visit.ask), TOLERANCE);
        ask_release(&visit.ask);
    }
    begin(&visit, "talk", 1, 1, &random);
    ask_input(&visit.ask, "token")->name = "s";
    visit_start(&site, &visit);
    visit_wait(&visit);
    ck_assert_int_eq(visit.ask.request.error.status, BASE_INVALID_ARGUMENT);
    ask_release(&visit.ask);
    site_close(&site);
}
END_TEST

/* Without an end each row takes all steps; with one alone, outputs that are asked for come alone.
 */
START_TEST(test_no_end_and_outputs_by_name)
{
    static struct visit visit;
    static const char *const wanted[] = {"lengths", "logits"};
    struct base_random random = util_random(4);
    struct parts parts = whole;
    char version[UTIL_PATH_BYTES];
    parts.config = "unfold: seq2seq\nstart: 2\nmax-steps: 7\n";
    write_model("talk", &parts, version);
    open_site(NULL);
    begin(&visit, "talk", 3, 4, &random);
    visit.ask.request.n_wanted = 2;
    visit.ask.request.wanted = wanted;
    visit_start(&site, &visit);
    expect_ok(&visit);
    ck_assert_uint_eq(visit.ask.request.n_outputs, 2);
    ck_assert_int_eq(length_of(&visit, 2), 7);
    ck_assert_int_eq(ask_output(&visit.ask, "logits")->shape[1], 7);
    ck_assert_double_lt(ask_error(&visit.ask), TOLERANCE);
    ask_release(&visit.ask);
    site_close(&site);
}
END_TEST

/* A request may ask for fewer steps than the model's; they are the same as the first of all. */
START_TEST(test_a_bound_of_steps_by_request)
{
    static const uint32_t asked[] = {0, 3, 7, 100};
    static const int64_t wanted[] = {7, 3, 7, 7};
    static struct visit visits[4];
    struct parts parts = whole;
    char version[UTIL_PATH_BYTES];
    parts.config = "unfold: seq2seq\nstart: 2\nmax-steps: 7\n";
    write_model("talk", &parts, version);
    open_site(NULL);
    for (uint32_t i = 0; i < 4; i++) {
        struct base_random random = util_random(4);
        begin(&visits[i], "talk", 1, 4, &random);
        visits[i].ask.request.steps_max = asked[i];
        visit_start(&site, &visits[i]);
    }
    for (uint32_t i = 0; i < 4; i++) {
        expect_ok(&visits[i]);
        const struct srv_tensor *all = ask_output(&visits[0].ask, "token");
        const struct srv_tensor *some = ask_output(&visits[i].ask, "token");
        ck_assert_int_eq(length_of(&visits[i], 0), wanted[i]);
        ck_assert_int_eq(some->shape[1], wanted[i]);
        ck_assert_mem_eq(some->data, all->data, some->bytes);
    }
    for (uint32_t i = 0; i < 4; i++) {
        ask_release(&visits[i].ask);
    }
    site_close(&site);
}
END_TEST

/* ---- Rows that have ended ----------------------------------------------------------------- */

/* A request that ends after a few steps, and one that takes all. */
static void find_short_and_long(struct visit *visits, struct base_random *random)
{
    int64_t length[2] = {STEPS_MAX, 0};
    for (uint32_t i = 0; length[0] > 6 || length[1] < STEPS_MAX; i++) {
        static struct visit tried;
        ck_assert_uint_lt(i, 2000);
        begin(&tried, "talk", 1, 3, random); // both come to decoding at the same time
        visit_start(&site, &tried);
        expect_ok(&tried);
        const int64_t taken = length_of(&tried, 0);
        const uint32_t which = taken > 6 ? 1 : 0;
        if ((which == 0 && length[0] > 6) || (taken == STEPS_MAX && length[1] < STEPS_MAX)) {
            length[which] = taken;
            visits[which] = tried;
        } else {
            ask_release(&tried.ask);
        }
    }
}

/* The long one comes first and runs on, now alone, when the short one is answered; the device
 * computes no batch but those that the test lets through. */
START_TEST(test_a_row_that_ends_leaves_at_once)
{
    static struct visit first[2];
    static struct visit again[2];
    struct base_random random = util_random(5);
    char version[UTIL_PATH_BYTES];
    write_model("talk", &whole, version);
    open_site(&gate_backend);
    find_short_and_long(first, &random);
    gate_close();
    for (uint32_t i = 0; i < 2; i++) {
        again[i].ask = first[1 - i].ask; // the long one first
        base_arena_init(&again[i].ask.request.arena, 4096, (size_t)64 << 20);
        again[i].ask.request.n_outputs = 0;
        visit_start(&site, &again[i]);
    }
    while (!visit_is_done(&again[1])) {
        const uint64_t passed = gate_passed();
        gate_let(1);
        while (gate_passed() == passed) {
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); // for the answer to come back
    }
    ck_assert(!visit_is_done(&again[0]));
    ck_assert_uint_gt(site_rows(&site), 0);
    const uint32_t held = site_reserved(&site);
    gate_open();
    for (uint32_t i = 0; i < 2; i++) {
        expect_ok(&again[i]);
        expect_same(&again[i].ask.request, &first[1 - i].ask.request);
        ask_release(&again[i].ask);
    }
    ask_release(&first[0].ask);
    ask_release(&first[1].ask);
    ck_assert_uint_gt(held, 0);
    ck_assert_uint_eq(site_rows(&site), 0);
    site_close(&site);
}
END_TEST

/* ---- Refusals ----------------------------------------------------------------------------- */

static const struct cell_model_options usual = {
    .decoding = {
        .has_start = true, .start = START, .has_end = true, .end = END, .steps_max = STEPS_MAX}};

static void expect_no_model(const struct parts *parts, const struct cell_model_options *options,
                            enum base_status wanted, const char *why)
{
    static uint32_t n;
    char name[32];
    char version[UTIL_PATH_BYTES];
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    struct base_error error = {.message = ""};
    snprintf(name, sizeof(name), "model%u", n++);
    write_model(name, parts, version);
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    enum base_status status =
        cell_model_load_decoder(registry, version, "test", options, &model, &error);
    ck_assert_msg(status == wanted && strstr(error.message, why) != NULL, "%s: %s",
                  base_status_name(status), error.message);
    ck_assert_ptr_null(model);
    cell_registry_free(registry); // fails the case when a type is still held
}

START_TEST(test_parts_that_do_not_fit_are_refused)
{
    struct parts parts = whole;
    parts.h_next = "state_next";
    expect_no_model(&parts, &usual, BASE_INVALID_ARGUMENT,
                    "decoder.onnx: output \"state_next\" is to be fed back, but there is no input "
                    "\"state\"");
    parts = whole;
    parts.token_next = "ids";
    expect_no_model(&parts, &usual, BASE_INVALID_ARGUMENT,
                    "decoder.onnx: start and end are ids, but no output 'token_next' of one "
                    "integer is fed back");
    parts = whole;
    parts.logits = "lengths";
    expect_no_model(&parts, &usual, BASE_INVALID_ARGUMENT,
                    "decoder.onnx: output 'lengths' would be there twice");
    parts.logits = "h_next_next";
    expect_no_model(&parts, &usual, BASE_INVALID_ARGUMENT, "there is no input \"h_next\"");
    parts = whole;
    parts.decoder_hidden = HIDDEN - 1;
    expect_no_model(&parts, &usual, BASE_INVALID_ARGUMENT,
                    "encoder.onnx: output 'h' has width 24, in decoder.onnx it has 23");
    parts = whole;
    parts.is_timed = true;
    expect_no_model(&parts, &usual, BASE_UNIMPLEMENTED,
                    "encoder.onnx: output 'context' has a row for each step, decoder.onnx reads "
                    "one, or the other way round");
    parts = whole;
    parts.is_token_unread = true;
    expect_no_model(&parts, &usual, BASE_UNIMPLEMENTED,
                    "decoder.onnx: input \"token\" is fed back, but nothing reads it");
}
END_TEST

START_TEST(test_ids_and_bounds_are_checked)
{
    struct cell_model_options options = usual;
    options.decoding.start = IDS;
    expect_no_model(&whole, &options, BASE_INVALID_ARGUMENT,
                    "start: 17 is no id of the embedding that 'token' chooses from (17 rows)");
    options = usual;
    options.decoding.end = -4;
    expect_no_model(&whole, &options, BASE_INVALID_ARGUMENT, "end: -4 is no id");
    options = usual;
    options.decoding.steps_max = 0;
    expect_no_model(&whole, &options, BASE_INVALID_ARGUMENT,
                    "a decoder needs a bound of its steps: max-steps");
    options = usual;
    options.decoding.beam_width = CELL_BEAM_MAX + 1;
    expect_no_model(&whole, &options, BASE_INVALID_ARGUMENT, "a beam of 9; at most 8");
    options.decoding.beam_width = 2;
    options.decoding.length_penalty = -1.0f;
    expect_no_model(&whole, &options, BASE_INVALID_ARGUMENT, "a length penalty below 0");
    options.decoding.length_penalty = 1.0f;
    struct parts parts = whole;
    parts.logits = "numbers";
    expect_no_model(&parts, &options, BASE_INVALID_ARGUMENT,
                    "decoder.onnx: a beam chooses by an output 'logits' of floats, which is not "
                    "there");
    parts = whole;
    parts.token_next = "ids";
    options.decoding.has_start = options.decoding.has_end = false;
    expect_no_model(&parts, &options, BASE_INVALID_ARGUMENT,
                    "decoder.onnx: a beam chooses 'token', but no output 'token_next'");
}
END_TEST

START_TEST(test_parts_are_told_of_and_broken_ones_refused)
{
    char version[UTIL_PATH_BYTES];
    char path[2 * UTIL_PATH_BYTES];
    struct base_buf out;
    struct base_error error = {.message = ""};
    write_model("talk", &whole, version);
    base_buf_init(&out, 1 << 16);
    ck_assert_msg(srv_check_model(folder, &out, &error) == BASE_OK, "%s", error.message);
    const char *const lines[] = {"input   source INT64 [batch, time], ids 0..12\n",
                                 "input   s FP32 [batch, 24], optional\n",
                                 "input   style FP32 [batch, 2]\n",
                                 "output  token INT64 [batch, steps]\n",
                                 "output  logits FP32 [batch, steps, 17]\n",
                                 "output  lengths INT64 [batch]\n",
                                 "model/decoder (decoder): "};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        ck_assert_msg(memmem(out.data, out.length, lines[i], strlen(lines[i])) != NULL,
                      "%s in %.*s", lines[i], (int)out.length, (const char *)out.data);
    }
    base_buf_clear(&out);
    snprintf(path, sizeof(path), "--explain-model=%s", version);
    const char *const flags[] = {"cellbatchd", path, "--calibrate=off"};
    const struct cfg_input input = {.argc = 3, .argv = flags};
    struct cfg_config *config = NULL;
    ck_assert_msg(cfg_load(&input, &config, &error) == BASE_OK, "%s", error.message);
    ck_assert_msg(srv_explain_model(config, &out, &error) == BASE_OK, "%s", error.message);
    ck_assert_ptr_nonnull(memmem(out.data, out.length, "model/decoder (decoder)", 23));
    cfg_free(config);
    base_buf_release(&out);
    snprintf(path, sizeof(path), "%s/encoder.onnx", version);
    util_write_file(path, "no model");
    base_buf_init(&out, 1 << 16);
    ck_assert_int_eq(srv_check_model(folder, &out, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "talk/1: encoder.onnx: "));
    base_buf_release(&out);
}
END_TEST

/* An allocation that fails anywhere leaves nothing behind. */
START_TEST(test_loading_survives_every_failed_allocation)
{
    char version[UTIL_PATH_BYTES];
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    uint32_t refused = 0;
    write_model("talk", &whole, version);
    for (uint32_t n = 1; status != BASE_OK; n++) {
        struct cell_registry *registry = NULL;
        struct cell_model *model = NULL;
        struct base_error error;
        ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
        base_alloc_fail_at(n);
        status = cell_model_load_decoder(registry, version, "test", &usual, &model, &error);
        base_alloc_fail_at(0);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
        refused += status == BASE_OK ? 0 : 1;
        cell_model_free(registry, model);
        cell_registry_free(registry);
    }
    ck_assert_uint_gt(refused, 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decoder_model");
    TCase *served = tcase_create("served");
    TCase *refused = tcase_create("refused");
    tcase_add_checked_fixture(served, setup, teardown);
    tcase_add_checked_fixture(refused, setup, teardown);
    tcase_set_timeout(served, 120);
    tcase_add_loop_test(served, test_decoders_in_company_and_alone, 0, 3);
    tcase_add_test(served, test_a_memory_of_the_client);
    tcase_add_test(served, test_a_long_answer_does_not_stop_the_warm_up);
    tcase_add_test(served, test_a_decoder_of_its_own);
    tcase_add_test(served, test_no_end_and_outputs_by_name);
    tcase_add_test(served, test_a_bound_of_steps_by_request);
    tcase_add_test(served, test_a_row_that_ends_leaves_at_once);
    suite_add_tcase(suite, served);
    tcase_add_test(refused, test_parts_that_do_not_fit_are_refused);
    tcase_add_test(refused, test_ids_and_bounds_are_checked);
    tcase_add_test(refused, test_parts_are_told_of_and_broken_ones_refused);
    tcase_add_test(refused, test_loading_survives_every_failed_allocation);
    suite_add_tcase(suite, refused);
    return util_run(suite);
}
