/* See hearer.h. */
#include "tests/server/hearer.h"

#include "tests/server/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EMBEDDED 4

struct onnx_builder hearer_builder;
struct base_random hearer_numbers;

/* ---- Models ------------------------------------------------------------------------------- */

void hearer_constant(const char *name, int64_t rows, int64_t cols, float scale)
{
    const int64_t dims[] = {rows, cols};
    onnx_constant(&hearer_builder, name,
                  onnx_random(&hearer_builder, 2, dims, &hearer_numbers, scale));
}

static uint32_t joined_of(const struct hearer_form *form)
{
    return form->is_direct ? HEARER_FRAMES : HEARER_JOINED;
}

/* encoder_out [batch, time, HEARER_FRAMES] of x. */
static void write_encoder(const struct hearer_form *form, const char *version, const char *name)
{
    const int64_t dims[] = {-1, -1, FRAMES_FEATURES};
    const uint32_t directions = form->is_bidirectional ? 2 : 1;
    const int64_t shape[] = {0, 0, HEARER_FRAMES};
    base_random_init(&hearer_numbers, 11);
    onnx_init(&hearer_builder, 17);
    onnx_input(&hearer_builder, "x", PARTS_FLOAT, 3, dims);
    if (form->has_lengths) {
        onnx_input(&hearer_builder, "used", PARTS_INT32, 1, dims);
    }
    const int64_t w[] = {directions, 3 * HEARER_FRAMES / directions, FRAMES_FEATURES};
    const int64_t r[] = {directions, 3 * HEARER_FRAMES / directions, HEARER_FRAMES / directions};
    onnx_constant(&hearer_builder, "w", onnx_random(&hearer_builder, 3, w, &hearer_numbers, 1.0f));
    onnx_constant(&hearer_builder, "r", onnx_random(&hearer_builder, 3, r, &hearer_numbers, 1.0f));
    onnx_set_ints(&hearer_builder, onnx_node(&hearer_builder, "Transpose", "x", "frames"), "perm",
                  3, (const int64_t[]){1, 0, 2});
    if (form->has_state) {
        onnx_input(&hearer_builder, "h0", PARTS_FLOAT, 3, (const int64_t[]){1, -1, HEARER_FRAMES});
    }
    Onnx__NodeProto *gru = onnx_node(&hearer_builder, "GRU",
                                     form->has_lengths ? "frames w r - used"
                                     : form->has_state ? "frames w r - - h0"
                                                       : "frames w r",
                                     form->has_state  ? "directions hn"
                                     : form->has_ends ? "directions last"
                                                      : "directions");
    onnx_set_int(&hearer_builder, gru, "hidden_size", HEARER_FRAMES / directions);
    if (form->is_bidirectional) {
        onnx_set_string(&hearer_builder, gru, "direction", "bidirectional");
    }
    onnx_set_ints(&hearer_builder, onnx_node(&hearer_builder, "Transpose", "directions", "rows"),
                  "perm", 4, (const int64_t[]){2, 0, 1, 3});
    onnx_constant(&hearer_builder, "shape", onnx_ints(&hearer_builder, 1, 3, shape));
    onnx_node(&hearer_builder, "Reshape", "rows shape", "encoder_out");
    parts_output(&hearer_builder, "encoder_out");
    if (form->has_state) {
        parts_output(&hearer_builder, "hn");
    }
    if (form->has_ends) {
        onnx_set_ints(&hearer_builder, onnx_node(&hearer_builder, "Transpose", "last", "ends"),
                      "perm", 3, (const int64_t[]){0, 2, 1});
        parts_output(&hearer_builder, "ends");
    }
    parts_write(&hearer_builder, version, name);
}

/* The labels' rows of the table; zeros for those that are none. */
static void write_rows(bool knows_none)
{
    if (!knows_none) {
        onnx_node(&hearer_builder, "Gather", "table y", "rows");
        return;
    }
    onnx_constant(&hearer_builder, "zero", onnx_ints(&hearer_builder, 0, 1, (const int64_t[]){0}));
    onnx_constant(&hearer_builder, "last", onnx_ints(&hearer_builder, 1, 1, (const int64_t[]){2}));
    onnx_node(&hearer_builder, "Clip", "y zero", "cut");
    onnx_node(&hearer_builder, "Gather", "table cut", "looked_up");
    onnx_node(&hearer_builder, "GreaterOrEqual", "y zero", "is_label");
    onnx_node(&hearer_builder, "Unsqueeze", "is_label last", "each");
    onnx_set_int(&hearer_builder, onnx_node(&hearer_builder, "Cast", "each", "factors"), "to",
                 PARTS_FLOAT);
    onnx_node(&hearer_builder, "Mul", "looked_up factors", "rows");
}

/* decoder_out [batch, HEARER_JOINED] of the last label and a state, or of the last two labels. */
static void write_predictor(const struct hearer_form *form, const char *version, const char *name)
{
    const int64_t labels[] = {-1, HEARER_CONTEXT};
    base_random_init(&hearer_numbers, 12);
    onnx_init(&hearer_builder, 17);
    hearer_constant("table", HEARER_LABELS, EMBEDDED, 2.0f);
    if (form->is_stateless) {
        onnx_input(&hearer_builder, "y", PARTS_INT64, 2, labels);
        hearer_constant("m", HEARER_CONTEXT * EMBEDDED, joined_of(form), 1.0f);
        write_rows(form->knows_none);
        onnx_set_int(&hearer_builder, onnx_node(&hearer_builder, "Flatten", "rows", "x"), "axis",
                     1);
        onnx_node(&hearer_builder, "MatMul", "x m", "decoder_out");
    } else {
        onnx_input(&hearer_builder, "token", PARTS_INT64, 1, labels);
        parts_input(&hearer_builder, "h", PARTS_FLOAT, HEARER_HIDDEN);
        hearer_constant("v", EMBEDDED, HEARER_HIDDEN, 1.0f);
        hearer_constant("u", HEARER_HIDDEN, HEARER_HIDDEN, 1.0f);
        hearer_constant("m", HEARER_HIDDEN, joined_of(form), 2.0f);
        onnx_node(&hearer_builder, "Gather", "table token", "row");
        onnx_node(&hearer_builder, "MatMul", "row v", "x");
        onnx_node(&hearer_builder, "MatMul", "h u", "of_h");
        onnx_node(&hearer_builder, "Add", "x of_h", "sum");
        onnx_node(&hearer_builder, "Tanh", "sum", "h_next");
        onnx_node(&hearer_builder, "MatMul", "h_next m", "decoder_out");
        parts_output(&hearer_builder, "h_next");
    }
    parts_output(&hearer_builder, "decoder_out");
    parts_write(&hearer_builder, version, name);
}

/* logits [batch, HEARER_LABELS]. */
static void write_joiner(const struct hearer_form *form, const char *version, const char *name)
{
    const int64_t dims[] = {HEARER_LABELS};
    float bias[HEARER_LABELS] = {0};
    base_random_init(&hearer_numbers, 13);
    onnx_init(&hearer_builder, 17);
    parts_input(&hearer_builder, "encoder_out", PARTS_FLOAT, HEARER_FRAMES);
    parts_input(&hearer_builder, "decoder_out", PARTS_FLOAT, joined_of(form));
    if (!form->is_direct) {
        hearer_constant("e", HEARER_FRAMES, HEARER_JOINED, 2.0f);
        hearer_constant("p", HEARER_JOINED, HEARER_JOINED, 1.0f);
        onnx_node(&hearer_builder, "MatMul", "encoder_out e", "of_frame");
        onnx_node(&hearer_builder, "MatMul", "decoder_out p", "of_labels");
    }
    onnx_node(&hearer_builder, "Add",
              form->is_direct ? "encoder_out decoder_out" : "of_frame of_labels", "sum");
    onnx_node(&hearer_builder, "Tanh", "sum", "both");
    hearer_constant("o", joined_of(form), HEARER_LABELS, 2.0f);
    bias[form->blank] = form->favour;
    onnx_constant(&hearer_builder, "bias",
                  onnx_tensor(&hearer_builder, PARTS_FLOAT, 1, dims, bias, sizeof(bias)));
    onnx_node(&hearer_builder, "MatMul", "both o", "product");
    onnx_node(&hearer_builder, "Add", "product bias", "logits");
    parts_output(&hearer_builder, "logits");
    parts_write(&hearer_builder, version, name);
}

void (*const hearer_writers[HEARER_PARTS])(const struct hearer_form *form, const char *version,
                                           const char *name) = {write_encoder, write_predictor,
                                                                write_joiner};
const char *const hearer_part_names[HEARER_PARTS] = {"encoder", "decoder", "joiner"};

/* The model, and each of its parts as a model. */
void hearer_write(const struct hearer_model *model)
{
    const char *name = model->name;
    const struct hearer_form *form = &model->form;
    char version[UTIL_PATH_BYTES];
    char text[256];
    snprintf(text, sizeof(text), "unfold: transducer\n%s", model->config);
    parts_folder(texts_folder, name, text, version);
    for (uint32_t p = 0; p < 3; p++) {
        hearer_writers[p](form, version, hearer_part_names[p]);
    }
    texts_write_file(name, "marks.txt", "_\na\n\xc3\xa4\nb\nc\n");
    for (uint32_t p = 0; p < 3; p++) {
        char part[64];
        snprintf(part, sizeof(part), "%s_%s", name, hearer_part_names[p]);
        parts_folder(texts_folder, part, "", version);
        hearer_writers[p](form, version, "model");
    }
}

/* ---- Parts, asked one by one --------------------------------------------------------------- */

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

void hearer_start(const struct hearer_form *form, int64_t labels[HEARER_CONTEXT])
{
    const int64_t start = form->is_direct ? form->start : form->blank;
    for (uint32_t i = 0; i < HEARER_CONTEXT; i++) {
        labels[i] = form->knows_none && i + 1 < HEARER_CONTEXT ? -1 : start;
    }
}

/* What the predictor makes of these labels; its state goes on. */
void hearer_predict(const struct hearer_model *model, const int64_t *labels, float *h, float *out)
{
    const struct hearer_form *form = &model->form;
    char part[64];
    struct visit visit;
    snprintf(part, sizeof(part), "%s_decoder", model->name);
    texts_begin(&visit, part);
    if (form->is_stateless) {
        texts_add_ids(&visit, "y", HEARER_CONTEXT, labels);
    } else {
        texts_add(&visit, "token", "INT64", &labels[HEARER_CONTEXT - 1], sizeof(labels[0]));
        texts_shape(&visit, 1, 1, 0);
        add_floats(&visit, "h", h, HEARER_HIDDEN);
    }
    texts_run(&visit);
    if (!form->is_stateless) {
        take_floats(&visit, "h_next", h, HEARER_HIDDEN);
    }
    take_floats(&visit, "decoder_out", out, joined_of(form));
    ask_release(&visit.ask);
}

void hearer_look(const struct hearer_model *model, const float *frame, const float *predicted,
                 float *logits)
{
    char part[64];
    struct visit visit;
    snprintf(part, sizeof(part), "%s_joiner", model->name);
    texts_begin(&visit, part);
    add_floats(&visit, "encoder_out", frame, HEARER_FRAMES);
    add_floats(&visit, "decoder_out", predicted, joined_of(&model->form));
    texts_run(&visit);
    take_floats(&visit, "logits", logits, HEARER_LABELS);
    ask_release(&visit.ask);
}

/* ---- Requests ----------------------------------------------------------------------------- */

static void add_state(struct visit *visit, const struct frames *frames)
{
    static const float zeros[FRAMES_ROWS * HEARER_FRAMES];
    texts_add(visit, "h0", "FP32", zeros, frames->n_rows * HEARER_FRAMES * sizeof(float));
    texts_shape(visit, 3, 1, frames->n_rows)->shape[2] = HEARER_FRAMES;
}

uint32_t hearer_used_of(const struct hearer_form *form, const struct frames *frames, uint32_t row)
{
    return form->has_lengths ? (uint32_t)frames->used[row] : frames->n;
}

void hearer_search_rows(const struct hearer_model *model, const struct frames *frames,
                        hearer_search *search, struct hearer_path *paths)
{
    char part[64];
    struct visit visit;
    snprintf(part, sizeof(part), "%s_encoder", model->name);
    frames_begin(&visit, part, frames);
    if (model->form.has_state) {
        add_state(&visit, frames);
    }
    texts_run(&visit);
    const struct srv_tensor *made = texts_output(&visit, "encoder_out");
    for (uint32_t row = 0; row < frames->n_rows; row++) {
        const float *rows = (const float *)(const void *)made->data;
        memset(&paths[row], 0, sizeof(paths[row]));
        search(model, rows + (size_t)row * frames->n * HEARER_FRAMES,
               hearer_used_of(&model->form, frames, row), &paths[row]);
    }
    ask_release(&visit.ask);
}

const uint8_t *hearer_label_at(const struct visit *visit, const char *name, uint32_t row,
                               uint32_t i, size_t bytes)
{
    const struct srv_tensor *tensor = texts_output(visit, name);
    ck_assert_int_lt(i, tensor->shape[1]);
    return tensor->data + (row * (size_t)tensor->shape[1] + i) * bytes;
}

void hearer_expect_row(const struct visit *visit, uint32_t row, const struct hearer_path *path,
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
        memcpy(&got, hearer_label_at(visit, "scores", row, i, sizeof(float)), sizeof(got));
        // The step's cells are recognised, those of the part alone have no state: other sums.
        ck_assert_msg(fabsf(got - score) <= 1e-5f * (1.0f + fabsf(score)), "score %u", i);
        ck_assert_int_eq(
            cell_integer_at(CELL_I64, hearer_label_at(visit, "steps", row, i, sizeof(int64_t))),
            is_own ? path->frame[i] : 0);
        if (!is_text) {
            ck_assert_int_eq(
                cell_integer_at(CELL_I64, hearer_label_at(visit, "token", row, i, sizeof(int64_t))),
                is_own ? path->token[i] : blank);
        }
    }
    if (is_text) {
        char wanted[8 * HEARER_LONGEST];
        texts_spell("_\na\n\xc3\xa4\nb\nc\n", (const uint8_t *)path->token, path->n, wanted,
                    sizeof(wanted));
        texts_assert(tokens, row, wanted);
    }
}

/* The bits of an answer in company are those of one alone. */
static void check_alone(const char *model, const struct frames *frames, const struct visit *visit)
{
    struct visit alone;
    frames_begin(&alone, model, frames);
    texts_run(&alone);
    for (uint32_t o = 0; o < 4; o++) {
        const struct srv_tensor *got = &visit->ask.request.outputs[o];
        const struct srv_tensor *wanted = &alone.ask.request.outputs[o];
        ck_assert_uint_eq(got->bytes, wanted->bytes);
        ck_assert_mem_eq(got->data, wanted->data, wanted->bytes);
    }
    ask_release(&alone.ask);
}

void hearer_check_company(const char *model)
{
    enum { VISITS = 24 };
    static struct frames frames[VISITS];
    static struct visit visits[VISITS];
    for (uint32_t i = 0; i < VISITS; i++) {
        frames_draw(&frames[i], &hearer_numbers, 1 + i % FRAMES_ROWS,
                    1 + base_random_below(&hearer_numbers, HEARER_STEPS));
        frames_begin(&visits[i], model, &frames[i]);
        visit_start(&texts_site, &visits[i]);
    }
    for (uint32_t i = 0; i < VISITS; i++) {
        visit_wait(&visits[i]);
        ck_assert_int_eq(visits[i].ask.request.error.status, BASE_OK);
    }
    for (uint32_t i = 0; i < VISITS; i++) {
        check_alone(model, &frames[i], &visits[i]);
        ask_release(&visits[i].ask);
    }
}
