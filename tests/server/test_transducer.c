/* Transducers: what a model of encoder.onnx, decoder.onnx and joiner.onnx answers is what the
 * greedy search finds that asks those three as models of their own, frame by frame and label by
 * label: rows of any lengths, in any company, as ids and as text. */
#include "server/check_model.h"
#include "server/signature.h"
#include "tests/server/frames.h"
#include "tests/server/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FRAMES   8 /* features of what the encoder makes */
#define HIDDEN   6 /* of the predictor's state */
#define EMBEDDED 4
#define JOINED   7
#define LABELS   5
#define CONTEXT  2
#define STEPS    14
#define LONGEST  (10 * STEPS)

static struct onnx_builder builder;
static struct base_random numbers;

/* ---- Models ------------------------------------------------------------------------------- */

struct form {
    bool is_stateless; /* the predictor reads the last labels alone */
    bool is_direct;    /* the joiner adds what both make, and no part of it is a frame's alone */
    bool is_bidirectional;
    bool has_lengths;
    bool has_state; /* what the encoder's layer begins with, and ends with, are tensors */
    uint32_t symbols_max;
    int64_t blank;
    float favour; /* how much the blank's logit has more */
};

static const struct {
    const char *name, *config;
    struct form form;
} models[] = {
    {"plain", "max-symbols: 10\n", {.symbols_max = 10, .favour = 1.5f}},
    {"stateless",
     "blank: 4\nmax-symbols: 1\n",
     {.is_stateless = true, .symbols_max = 1, .blank = 4, .favour = 1.0f}},
    {"pieces",
     "max-symbols: 3\nstart: 2\n",
     {.is_direct = true, .is_bidirectional = true, .symbols_max = 3, .favour = 1.0f}},
    {"joined_pieces",
     "max-symbols: 2\n",
     {.is_bidirectional = true, .symbols_max = 2, .favour = 1.5f}},
    {"session",
     "states: recurrent\nblank: 3\nmax-symbols: 4\n",
     {.has_lengths = true, .symbols_max = 4, .blank = 3, .favour = -2.5f}},
    {"stateful",
     "states: h0=hn\nmax-symbols: 4\n",
     {.has_state = true, .symbols_max = 4, .favour = 1.5f}},
    {"lengths",
     "vocabularies: token=words:marks.txt\n",
     {.has_lengths = true, .symbols_max = 10, .favour = 1.5f}},
};

#define MODELS (sizeof(models) / sizeof(models[0]))

static void constant(const char *name, int64_t rows, int64_t cols, float scale)
{
    const int64_t dims[] = {rows, cols};
    onnx_constant(&builder, name, onnx_random(&builder, 2, dims, &numbers, scale));
}

static uint32_t joined_of(const struct form *form)
{
    return form->is_direct ? FRAMES : JOINED;
}

/* encoder_out [batch, time, FRAMES] of x. */
static void write_encoder(const struct form *form, const char *version, const char *name)
{
    const int64_t dims[] = {-1, -1, FRAMES_FEATURES};
    const uint32_t directions = form->is_bidirectional ? 2 : 1;
    const int64_t shape[] = {0, 0, FRAMES};
    base_random_init(&numbers, 11);
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", PARTS_FLOAT, 3, dims);
    if (form->has_lengths) {
        onnx_input(&builder, "used", PARTS_INT32, 1, dims);
    }
    const int64_t w[] = {directions, 3 * FRAMES / directions, FRAMES_FEATURES};
    const int64_t r[] = {directions, 3 * FRAMES / directions, FRAMES / directions};
    onnx_constant(&builder, "w", onnx_random(&builder, 3, w, &numbers, 1.0f));
    onnx_constant(&builder, "r", onnx_random(&builder, 3, r, &numbers, 1.0f));
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "x", "frames"), "perm", 3,
                  (const int64_t[]){1, 0, 2});
    if (form->has_state) {
        onnx_input(&builder, "h0", PARTS_FLOAT, 3, (const int64_t[]){1, -1, FRAMES});
    }
    Onnx__NodeProto *gru = onnx_node(&builder, "GRU",
                                     form->has_lengths ? "frames w r - used"
                                     : form->has_state ? "frames w r - - h0"
                                                       : "frames w r",
                                     form->has_state ? "directions hn" : "directions");
    onnx_set_int(&builder, gru, "hidden_size", FRAMES / directions);
    if (form->is_bidirectional) {
        onnx_set_string(&builder, gru, "direction", "bidirectional");
    }
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "directions", "rows"), "perm", 4,
                  (const int64_t[]){2, 0, 1, 3});
    onnx_constant(&builder, "shape", onnx_ints(&builder, 1, 3, shape));
    onnx_node(&builder, "Reshape", "rows shape", "encoder_out");
    parts_output(&builder, "encoder_out");
    if (form->has_state) {
        parts_output(&builder, "hn");
    }
    parts_write(&builder, version, name);
}

/* decoder_out [batch, JOINED] of the last label and a state, or of the last two labels. */
static void write_predictor(const struct form *form, const char *version, const char *name)
{
    const int64_t labels[] = {-1, CONTEXT};
    base_random_init(&numbers, 12);
    onnx_init(&builder, 17);
    constant("table", LABELS, EMBEDDED, 2.0f);
    if (form->is_stateless) {
        onnx_input(&builder, "y", PARTS_INT64, 2, labels);
        constant("m", CONTEXT * EMBEDDED, joined_of(form), 1.0f);
        onnx_node(&builder, "Gather", "table y", "rows");
        onnx_set_int(&builder, onnx_node(&builder, "Flatten", "rows", "x"), "axis", 1);
        onnx_node(&builder, "MatMul", "x m", "decoder_out");
    } else {
        onnx_input(&builder, "token", PARTS_INT64, 1, labels);
        parts_input(&builder, "h", PARTS_FLOAT, HIDDEN);
        constant("v", EMBEDDED, HIDDEN, 1.0f);
        constant("u", HIDDEN, HIDDEN, 1.0f);
        constant("m", HIDDEN, joined_of(form), 2.0f);
        onnx_node(&builder, "Gather", "table token", "row");
        onnx_node(&builder, "MatMul", "row v", "x");
        onnx_node(&builder, "MatMul", "h u", "of_h");
        onnx_node(&builder, "Add", "x of_h", "sum");
        onnx_node(&builder, "Tanh", "sum", "h_next");
        onnx_node(&builder, "MatMul", "h_next m", "decoder_out");
        parts_output(&builder, "h_next");
    }
    parts_output(&builder, "decoder_out");
    parts_write(&builder, version, name);
}

/* logits [batch, LABELS]. */
static void write_joiner(const struct form *form, const char *version, const char *name)
{
    const int64_t dims[] = {LABELS};
    float bias[LABELS] = {0};
    base_random_init(&numbers, 13);
    onnx_init(&builder, 17);
    parts_input(&builder, "encoder_out", PARTS_FLOAT, FRAMES);
    parts_input(&builder, "decoder_out", PARTS_FLOAT, joined_of(form));
    if (!form->is_direct) {
        constant("e", FRAMES, JOINED, 2.0f);
        constant("p", JOINED, JOINED, 1.0f);
        onnx_node(&builder, "MatMul", "encoder_out e", "of_frame");
        onnx_node(&builder, "MatMul", "decoder_out p", "of_labels");
    }
    onnx_node(&builder, "Add", form->is_direct ? "encoder_out decoder_out" : "of_frame of_labels",
              "sum");
    onnx_node(&builder, "Tanh", "sum", "both");
    constant("o", joined_of(form), LABELS, 2.0f);
    bias[form->blank] = form->favour;
    onnx_constant(&builder, "bias",
                  onnx_tensor(&builder, PARTS_FLOAT, 1, dims, bias, sizeof(bias)));
    onnx_node(&builder, "MatMul", "both o", "product");
    onnx_node(&builder, "Add", "product bias", "logits");
    parts_output(&builder, "logits");
    parts_write(&builder, version, name);
}

static void (*const writers[])(const struct form *form, const char *version,
                               const char *name) = {write_encoder, write_predictor, write_joiner};
static const char *const part_names[] = {"encoder", "decoder", "joiner"};

/* The model, and each of its parts as a model. */
static void write_models(const char *name, const char *config, const struct form *form)
{
    char version[UTIL_PATH_BYTES];
    char text[256];
    snprintf(text, sizeof(text), "unfold: transducer\n%s", config);
    parts_folder(texts_folder, name, text, version);
    for (uint32_t p = 0; p < 3; p++) {
        writers[p](form, version, part_names[p]);
    }
    texts_write_file(name, "marks.txt", "_\na\n\xc3\xa4\nb\nc\n");
    for (uint32_t p = 0; p < 3; p++) {
        char part[64];
        snprintf(part, sizeof(part), "%s_%s", name, part_names[p]);
        parts_folder(texts_folder, part, "", version);
        writers[p](form, version, "model");
    }
}

static void setup(void)
{
    util_temp_dir(texts_folder);
    for (size_t i = 0; i < MODELS; i++) {
        write_models(models[i].name, models[i].config, &models[i].form);
    }
    texts_open_site();
}

/* ---- Greedy search ------------------------------------------------------------------------ */

struct path {
    uint32_t n, steps;
    int64_t token[LONGEST], frame[LONGEST];
    float score[LONGEST];
};

static void add_floats(struct visit *visit, const char *name, const float *data, int64_t width)
{
    texts_add(visit, name, "FP32", data, (size_t)width * sizeof(float));
    texts_shape(visit, 2, 1, width);
}

static void take_floats(const struct visit *visit, const char *name, float *out, size_t n)
{
    const struct srv_tensor *tensor = texts_output(visit, name);
    ck_assert_uint_eq(tensor->bytes, n * sizeof(float));
    memcpy(out, tensor->data, tensor->bytes);
}

/* What the predictor makes of these labels; its state goes on. */
static void predict(const char *model, const struct form *form, const int64_t *labels, float *h,
                    float *out)
{
    char part[64];
    struct visit visit;
    snprintf(part, sizeof(part), "%s_decoder", model);
    texts_begin(&visit, part);
    if (form->is_stateless) {
        texts_add_ids(&visit, "y", CONTEXT, labels);
    } else {
        texts_add(&visit, "token", "INT64", &labels[CONTEXT - 1], sizeof(labels[0]));
        texts_shape(&visit, 1, 1, 0);
        add_floats(&visit, "h", h, HIDDEN);
    }
    texts_run(&visit);
    if (!form->is_stateless) {
        take_floats(&visit, "h_next", h, HIDDEN);
    }
    take_floats(&visit, "decoder_out", out, joined_of(form));
    ask_release(&visit.ask);
}

static int64_t look(const char *model, const struct form *form, const float *frame,
                    const float *predicted, float *score)
{
    char part[64];
    float logits[LABELS];
    int64_t best = 0;
    struct visit visit;
    snprintf(part, sizeof(part), "%s_joiner", model);
    texts_begin(&visit, part);
    add_floats(&visit, "encoder_out", frame, FRAMES);
    add_floats(&visit, "decoder_out", predicted, joined_of(form));
    texts_run(&visit);
    take_floats(&visit, "logits", logits, LABELS);
    for (int64_t label = 1; label < LABELS; label++) {
        best = logits[label] > logits[best] ? label : best;
    }
    *score = logits[best];
    ask_release(&visit.ask);
    return best;
}

static void search(const char *model, const struct form *form, const float *frames, uint32_t n,
                   int64_t start, struct path *path)
{
    int64_t labels[CONTEXT] = {start, start};
    float h[HIDDEN] = {0};
    float predicted[FRAMES + JOINED];
    memset(path, 0, sizeof(*path));
    predict(model, form, labels, h, predicted);
    for (uint32_t t = 0; t < n; t++) {
        for (uint32_t s = 0; s < form->symbols_max; s++) {
            float score = 0.0f;
            const int64_t label = look(model, form, frames + (size_t)t * FRAMES, predicted, &score);
            path->steps++;
            if (label == form->blank) {
                break;
            }
            path->token[path->n] = label;
            path->frame[path->n] = t;
            path->score[path->n++] = score;
            labels[0] = labels[1];
            labels[1] = label;
            predict(model, form, labels, h, predicted);
        }
    }
}

/* ---- Requests ----------------------------------------------------------------------------- */

/* Zeros, as a client that has no session sends them. */
static void add_state(struct visit *visit, const struct frames *frames)
{
    static const float zeros[FRAMES_ROWS * FRAMES];
    texts_add(visit, "h0", "FP32", zeros, frames->n_rows * FRAMES * sizeof(float));
    texts_shape(visit, 3, 1, frames->n_rows)->shape[2] = FRAMES;
}

static uint32_t used_of(const struct form *form, const struct frames *frames, uint32_t row)
{
    return form->has_lengths ? (uint32_t)frames->used[row] : frames->n;
}

/* What the encoder makes, as a model of its own, and what the search finds in it. */
static void search_rows(const char *model, const struct form *form, const struct frames *frames,
                        struct path *paths)
{
    char part[64];
    struct visit visit;
    snprintf(part, sizeof(part), "%s_encoder", model);
    frames_begin(&visit, part, frames);
    if (form->has_state) {
        add_state(&visit, frames);
    }
    texts_run(&visit);
    const struct srv_tensor *made = texts_output(&visit, "encoder_out");
    for (uint32_t row = 0; row < frames->n_rows; row++) {
        const float *rows = (const float *)(const void *)made->data;
        search(model, form, rows + (size_t)row * frames->n * FRAMES, used_of(form, frames, row),
               strcmp(model, "pieces") == 0 ? 2 : form->blank, &paths[row]);
    }
    ask_release(&visit.ask);
}

static const uint8_t *label_at(const struct visit *visit, const char *name, uint32_t row,
                               uint32_t i, size_t bytes)
{
    const struct srv_tensor *tensor = texts_output(visit, name);
    ck_assert_int_lt(i, tensor->shape[1]);
    return tensor->data + (row * (size_t)tensor->shape[1] + i) * bytes;
}

/* One row of an answer against its path. */
static void expect_row(const struct visit *visit, uint32_t row, const struct path *path,
                       int64_t blank)
{
    const uint32_t longest = (uint32_t)texts_output(visit, "scores")->shape[1];
    const struct srv_tensor *tokens = texts_output(visit, "token");
    const bool is_text = strcmp(tokens->datatype, "BYTES") == 0;
    ck_assert_int_eq(
        cell_integer_at(CELL_I64, texts_output(visit, "lengths")->data + row * sizeof(int64_t)),
        path->n);
    for (uint32_t i = 0; i < longest; i++) {
        const bool is_own = i < path->n;
        const float score = is_own ? path->score[i] : 0.0f;
        float got = 0.0f;
        memcpy(&got, label_at(visit, "scores", row, i, sizeof(float)), sizeof(got));
        // The step's cells are recognised, those of the part alone have no state: other sums.
        ck_assert_msg(fabsf(got - score) <= 1e-5f * (1.0f + fabsf(score)), "score %u", i);
        ck_assert_int_eq(
            cell_integer_at(CELL_I64, label_at(visit, "steps", row, i, sizeof(int64_t))),
            is_own ? path->frame[i] : 0);
        if (!is_text) {
            ck_assert_int_eq(
                cell_integer_at(CELL_I64, label_at(visit, "token", row, i, sizeof(int64_t))),
                is_own ? path->token[i] : blank);
        }
    }
    if (is_text) {
        char wanted[8 * LONGEST];
        texts_spell("_\na\n\xc3\xa4\nb\nc\n", (const uint8_t *)path->token, path->n, wanted,
                    sizeof(wanted));
        texts_assert(tokens, row, wanted);
    }
}

/* _i: the model. Over all requests there are frames without a label, with one, and where that may
 * be, with several. */
START_TEST(test_labels_are_those_that_the_search_finds)
{
    const struct form *form = &models[_i].form;
    uint32_t labels = 0;
    uint32_t blanks = 0;
    uint32_t again = 0;
    uint32_t empty = 0;
    for (uint32_t i = 0; i < 12; i++) {
        struct frames frames;
        struct path paths[FRAMES_ROWS];
        struct visit visit;
        base_random_init(&numbers, 100 + i);
        frames_draw(&frames, &numbers, 1 + i % FRAMES_ROWS, 1 + i % STEPS);
        search_rows(models[_i].name, form, &frames, paths);
        frames_begin(&visit, models[_i].name, &frames);
        texts_run(&visit);
        ck_assert_uint_eq(visit.ask.request.n_outputs, 4); // a state is no output any more
        for (uint32_t row = 0; row < frames.n_rows; row++) {
            expect_row(&visit, row, &paths[row], form->blank);
            labels += paths[row].n;
            blanks += paths[row].steps - paths[row].n;
            empty += used_of(form, &frames, row) == 0;
            for (uint32_t n = 1; n < paths[row].n; n++) {
                again += paths[row].frame[n] == paths[row].frame[n - 1];
            }
        }
        ask_release(&visit.ask);
    }
    ck_assert_uint_gt(labels, 20);
    ck_assert_uint_gt(blanks, 20);
    ck_assert(form->symbols_max == 1 || again > 5);
    ck_assert(!form->has_lengths || empty > 0);
}
END_TEST

/* Many at once, so that rows join and leave each other's batches, and each as alone. */
START_TEST(test_company_changes_nothing)
{
    enum { VISITS = 24 };
    static struct frames frames[VISITS];
    static struct visit visits[VISITS];
    for (uint32_t i = 0; i < VISITS; i++) {
        frames_draw(&frames[i], &numbers, 1 + i % FRAMES_ROWS,
                    1 + base_random_below(&numbers, STEPS));
        frames_begin(&visits[i], models[0].name, &frames[i]);
        visit_start(&texts_site, &visits[i]);
    }
    for (uint32_t i = 0; i < VISITS; i++) {
        visit_wait(&visits[i]);
        ck_assert_int_eq(visits[i].ask.request.error.status, BASE_OK);
    }
    for (uint32_t i = 0; i < VISITS; i++) {
        struct visit alone;
        frames_begin(&alone, models[0].name, &frames[i]);
        texts_run(&alone);
        for (uint32_t o = 0; o < 4; o++) {
            const struct srv_tensor *got = &visits[i].ask.request.outputs[o];
            const struct srv_tensor *wanted = &alone.ask.request.outputs[o];
            ck_assert_uint_eq(got->bytes, wanted->bytes);
            ck_assert_mem_eq(got->data, wanted->data, wanted->bytes);
        }
        ask_release(&alone.ask);
        ask_release(&visits[i].ask);
    }
}
END_TEST

/* The labels of a part go on where those of the one before have ended. */
static void expect_part(const struct visit *visit, const struct path *path, uint32_t row,
                        uint32_t from, uint32_t *done)
{
    const int64_t n =
        cell_integer_at(CELL_I64, texts_output(visit, "lengths")->data + row * sizeof(int64_t));
    for (uint32_t i = 0; i < n; i++, (*done)++) {
        ck_assert_uint_lt(*done, path->n);
        ck_assert_int_eq(
            cell_integer_at(CELL_I64, label_at(visit, "token", row, i, sizeof(int64_t))),
            path->token[*done]);
        ck_assert_int_eq(
            from + cell_integer_at(CELL_I64, label_at(visit, "steps", row, i, sizeof(int64_t))),
            path->frame[*done]);
    }
}

/* Cut anywhere, also where a row has no frame in a part, or none in the first. _i: the states of
 * layers, or a tensor of the encoder's. */
START_TEST(test_a_session_in_parts_hears_what_the_whole_does)
{
    size_t model = 0;
    uint32_t said = 0;
    while (strcmp(models[model].name, _i == 0 ? "session" : "stateful") != 0) {
        model++;
    }
    const struct form *form = &models[model].form;
    for (uint32_t i = 0; i < 16; i++) {
        struct frames frames;
        struct path paths[FRAMES_ROWS];
        uint32_t done[FRAMES_ROWS] = {0};
        frames_draw(&frames, &numbers, 1 + i % FRAMES_ROWS, STEPS);
        search_rows(models[model].name, form, &frames, paths);
        for (uint32_t from = 0, to = 0; from < STEPS; from = to) {
            struct visit visit;
            to = from + 1 + base_random_below(&numbers, i % 2 == 0 ? 2 : STEPS - from);
            to = to < STEPS ? to : STEPS;
            frames_run_part(&visit, models[model].name, &frames, from, to);
            ck_assert_uint_eq(visit.ask.request.n_outputs, 4); // and no state
            for (uint32_t row = 0; row < frames.n_rows; row++) {
                expect_part(&visit, &paths[row], row, from, &done[row]);
            }
            ask_release(&visit.ask);
        }
        for (uint32_t row = 0; row < frames.n_rows; row++) {
            ck_assert_uint_eq(done[row], paths[row].n);
            said += done[row];
        }
    }
    ck_assert_uint_gt(said, 60);
}
END_TEST

/* A row that has nothing to hear in the first part begins with the start, not with zeros; and
 * states that a client brings are checked as ids are. */
START_TEST(test_sessions_begin_with_the_start)
{
    struct frames frames;
    struct path path;
    struct visit visit;
    struct form form = {.has_lengths = true, .symbols_max = 4, .blank = 3, .favour = -2.5f};
    uint32_t done = 0;
    frames_draw(&frames, &numbers, 1, STEPS);
    frames.used[0] = STEPS;
    search_rows("session", &form, &frames, &path);
    frames.used[0] = 0;
    frames_begin(&visit, "session", &frames);
    visit.ask.request.sequence = (struct srv_sequence){.id = "s", .is_start = true};
    texts_run(&visit);
    ask_release(&visit.ask);
    frames.used[0] = STEPS;
    frames_begin(&visit, "session", &frames);
    visit.ask.request.sequence = (struct srv_sequence){.id = "s", .is_end = true};
    texts_run(&visit);
    expect_part(&visit, &path, 0, 0, &done);
    ck_assert_uint_eq(done, path.n);
    ask_release(&visit.ask);

    const struct cell_model *cells = site_find(&texts_site, "session");
    const struct cell_tensor *labels = NULL;
    for (uint32_t i = 0; i < cells->n_inputs; i++) {
        labels = cells->inputs[i].dtype == CELL_I64 ? &cells->inputs[i] : labels;
    }
    ck_assert_ptr_nonnull(labels);
    frames_begin(&visit, "session", &frames);
    texts_add(&visit, labels->name, "INT64", &(int64_t){LABELS}, sizeof(int64_t));
    texts_shape(&visit, 2, 1, 1);
    visit.ask.request.sequence = (struct srv_sequence){.id = "s", .is_start = true, .is_end = true};
    visit_start(&texts_site, &visit);
    visit_wait(&visit);
    ck_assert_int_eq(visit.ask.request.error.status, BASE_INVALID_ARGUMENT);
    ck_assert_msg(strstr(visit.ask.request.error.message, "id 5 at position 0, expected 0..4") !=
                      NULL,
                  "%s", visit.ask.request.error.message);
    ask_release(&visit.ask);
}
END_TEST

/* ---- What is said of them, and refused ---------------------------------------------------- */

START_TEST(test_clients_are_told_of_labels)
{
    struct srv_signature signature;
    srv_signature_make(site_find(&texts_site, "plain"), NULL, &signature);
    static const char *const names[] = {"token", "scores", "steps", "lengths"};
    ck_assert_uint_eq(signature.n_outputs, 4);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_str_eq(signature.outputs[i].name, names[i]);
        ck_assert_str_eq(signature.outputs[i].datatype, i == 1 ? "FP32" : "INT64");
        ck_assert_uint_eq(signature.outputs[i].rank, i == 3 ? 1 : 2);
    }
}
END_TEST

START_TEST(test_requests_that_ask_for_something_else_are_refused)
{
    struct frames frames;
    struct visit visit;
    frames_draw(&frames, &numbers, 1, 3);
    frames_begin(&visit, "plain", &frames);
    visit.ask.request.steps_max = 5;
    texts_expect_refused(&visit, "parameter 'max_steps': a transducer has as many steps as its "
                                 "frames ask for");
    frames_begin(&visit, "plain", &frames);
    visit.ask.request.beam = 2;
    texts_expect_refused(&visit, "parameter 'beam' is 2; the model has at most 0");
}
END_TEST

/* What --check-model says of a model whose part `part` is that of another form. */
static void expect_no_model(const char *config, uint32_t part, const struct form *form,
                            const char *message)
{
    char path[2 * UTIL_PATH_BYTES];
    char version[UTIL_PATH_BYTES];
    struct base_buf out;
    struct base_error error = {.status = BASE_OK};
    base_buf_init(&out, 1 << 16);
    texts_write_file("plain", "config.yaml", config);
    snprintf(version, sizeof(version), "%.3000s/plain/1", texts_folder);
    for (uint32_t p = 0; p < 3; p++) {
        writers[p](p == part ? form : &models[0].form, version, part_names[p]);
    }
    snprintf(path, sizeof(path), "%s/plain", texts_folder);
    ck_assert_msg(srv_check_model(path, &out, &error) != BASE_OK, "%s", message);
    ck_assert_msg(strstr(error.message, message) != NULL, "%s", error.message);
    base_buf_release(&out);
}

START_TEST(test_what_is_no_transducer_is_refused)
{
    const struct form *plain = &models[0].form;
    const struct form direct = {.is_direct = true};
    expect_no_model("unfold: transducer\nblank: 5\n", 0, plain,
                    "the blank is 5, and joiner.onnx has 5 labels");
    expect_no_model("unfold: transducer\nstart: 5\n", 0, plain,
                    "decoder.onnx: its embedding has 5 rows, but labels up to 4 may come, and 5 "
                    "before the first");
    expect_no_model("unfold: transducer\nmax-symbols: 0\n", 0, plain, "max-symbols");
    expect_no_model("unfold: transducer\n", 1, &direct,
                    "decoder.onnx: output 'decoder_out' has width 8, in joiner.onnx it has 7");
    expect_no_model("unfold: transducer\nctc: logits\n", 0, plain,
                    "has ctc, which is of unfold: chain");
    expect_no_model("unfold: transducer\nstates: a=b\n", 0, plain,
                    "states: the model has no input \"a\"");
}
END_TEST

/* Parts that are written for this; the others are the plain model's. */
static void expect_no_part(uint32_t part, const char *message)
{
    char path[2 * UTIL_PATH_BYTES];
    char version[UTIL_PATH_BYTES];
    struct base_buf out;
    struct base_error error = {.status = BASE_OK};
    base_buf_init(&out, 1 << 16);
    snprintf(version, sizeof(version), "%.3000s/plain/1", texts_folder);
    parts_write(&builder, version, part_names[part]);
    snprintf(path, sizeof(path), "%s/plain", texts_folder);
    ck_assert_msg(srv_check_model(path, &out, &error) != BASE_OK, "%s", message);
    ck_assert_msg(strstr(error.message, message) != NULL, "%s", error.message);
    writers[part](&models[0].form, version, part_names[part]);
    base_buf_release(&out);
}

START_TEST(test_parts_that_do_not_fit_are_refused)
{
    // A joiner of a tensor that nobody makes.
    onnx_init(&builder, 17);
    parts_input(&builder, "encoder_out", PARTS_FLOAT, FRAMES);
    parts_input(&builder, "something", PARTS_FLOAT, FRAMES);
    onnx_node(&builder, "Add", "encoder_out something", "logits");
    parts_output(&builder, "logits");
    expect_no_part(2, "joiner.onnx: input 'something' is not an output of either encoder.onnx or "
                      "decoder.onnx");
    // One that does not listen.
    onnx_init(&builder, 17);
    parts_input(&builder, "decoder_out", PARTS_FLOAT, JOINED);
    onnx_node(&builder, "Tanh", "decoder_out", "logits");
    parts_output(&builder, "logits");
    expect_no_part(2, "joiner.onnx: its logits are not made of both sides");
    // One of two answers.
    onnx_init(&builder, 17);
    parts_input(&builder, "encoder_out", PARTS_FLOAT, FRAMES);
    onnx_node(&builder, "Tanh", "encoder_out", "logits");
    onnx_node(&builder, "Exp", "encoder_out", "more");
    parts_output(&builder, "logits");
    parts_output(&builder, "more");
    expect_no_part(2, "joiner.onnx: its one output is no float for each label");
    // A predictor without labels, and one that asks for more.
    base_random_init(&numbers, 1);
    onnx_init(&builder, 17);
    parts_input(&builder, "h", PARTS_FLOAT, JOINED);
    onnx_node(&builder, "Tanh", "h", "decoder_out");
    onnx_node(&builder, "Exp", "h", "h_next");
    parts_output(&builder, "decoder_out");
    parts_output(&builder, "h_next");
    expect_no_part(1, "decoder.onnx: reads 0 inputs that are not fed back");
    onnx_init(&builder, 17);
    parts_input(&builder, "token", PARTS_INT64, 0);
    parts_input(&builder, "voice", PARTS_FLOAT, JOINED);
    constant("table", LABELS, JOINED, 1.0f);
    onnx_node(&builder, "Gather", "table token", "row");
    onnx_node(&builder, "Add", "row voice", "decoder_out");
    parts_output(&builder, "decoder_out");
    expect_no_part(1, "decoder.onnx: input 'voice' is no labels, and not fed back: no output is "
                      "called 'voice_next'");
    // An embedding of too few labels.
    onnx_init(&builder, 17);
    parts_input(&builder, "token", PARTS_INT64, 0);
    constant("table", LABELS - 1, JOINED, 1.0f);
    onnx_node(&builder, "Gather", "table token", "decoder_out");
    parts_output(&builder, "decoder_out");
    expect_no_part(1, "decoder.onnx: its embedding has 4 rows, but labels up to 4 may come");
    // An encoder without frames.
    onnx_init(&builder, 17);
    parts_input(&builder, "x", PARTS_FLOAT, FRAMES);
    onnx_node(&builder, "Tanh", "x", "encoder_out");
    parts_output(&builder, "encoder_out");
    expect_no_part(0, "encoder.onnx: output 'encoder_out' is no row of width 8 for each frame");
}
END_TEST

static enum base_status load(struct cell_registry *registry, const void *version,
                             struct cell_model **out)
{
    static const struct cell_model_options options = {.decoding = {.symbols_max = 2}};
    struct base_error error;
    return cell_model_load_transducer(registry, version, "test", &options, out, &error);
}

/* An allocation that fails anywhere leaves nothing behind. */
START_TEST(test_loading_survives_every_failed_allocation)
{
    char version[UTIL_PATH_BYTES];
    snprintf(version, sizeof(version), "%.3000s/joined_pieces/1", texts_folder);
    parts_fail_allocations(load, version);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transducer");
    TCase *tcase = tcase_create("transducer");
    tcase_add_checked_fixture(tcase, setup, texts_teardown);
    tcase_add_loop_test(tcase, test_labels_are_those_that_the_search_finds, 0, (int)MODELS);
    tcase_add_test(tcase, test_company_changes_nothing);
    tcase_add_loop_test(tcase, test_a_session_in_parts_hears_what_the_whole_does, 0, 2);
    tcase_add_test(tcase, test_sessions_begin_with_the_start);
    tcase_add_test(tcase, test_clients_are_told_of_labels);
    tcase_add_test(tcase, test_requests_that_ask_for_something_else_are_refused);
    tcase_add_test(tcase, test_what_is_no_transducer_is_refused);
    tcase_add_test(tcase, test_parts_that_do_not_fit_are_refused);
    tcase_add_test(tcase, test_loading_survives_every_failed_allocation);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
