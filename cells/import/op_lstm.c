/* LSTM: the node that tells batch from time. Shapes are ONNX's: X [time, batch, input], initial_h
 * and initial_c [1, batch, hidden], Y [time, 1, batch, hidden], Y_h and Y_c [1, batch, hidden];
 * with layout 1 the batch stands first everywhere. What a cell cannot do is refused by name. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <string.h>

enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P };
enum { OUT_Y, OUT_H, OUT_C };

/* ---- Attributes --------------------------------------------------------------------------- */

/* Whatever the case; wanted is lower-case. */
static bool is_text(ProtobufCBinaryData text, const char *wanted)
{
    bool is_same = text.len == strlen(wanted);
    for (size_t i = 0; is_same && i < text.len; i++) {
        int c = text.data[i];
        is_same = (c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) == wanted[i];
    }
    return is_same;
}

static enum base_status check_direction(struct cell__import *im, const struct cell__node *node)
{
    const Onnx__AttributeProto *a = cell__attr(node, "direction");
    char text[CELL__TEXT_BYTES] = "";
    if (a == NULL || is_text(a->s, "forward")) {
        return BASE_OK;
    }
    if (a->s.len > 0) {
        size_t n = a->s.len < sizeof(text) - 1 ? a->s.len : sizeof(text) - 1;
        memcpy(text, a->s.data, n);
    }
    char quoted[CELL__TEXT_BYTES];
    return cell__refuse(im, "direction \"%s\"; only \"forward\" is supported",
                        cell__quote(quoted, text));
}

/* Sigmoid, Tanh, Tanh, or the first of them; any case. */
static enum base_status check_activations(struct cell__import *im, const struct cell__node *node)
{
    static const char *const usual[] = {"sigmoid", "tanh", "tanh"};
    const Onnx__AttributeProto *a = cell__attr(node, "activations");
    for (size_t i = 0; a != NULL && i < a->n_strings; i++) {
        if (i >= 3 || !is_text(a->strings[i], usual[i])) {
            return cell__refuse(im, "activations other than Sigmoid, Tanh, Tanh");
        }
    }
    // Neither Sigmoid nor Tanh has parameters: these may be there, but mean nothing.
    return BASE_OK;
}

static enum base_status check_attributes(struct cell__import *im, const struct cell__node *node)
{
    int64_t input_forget = 0;
    BASE_TRY(check_direction(im, node));
    BASE_TRY(check_activations(im, node));
    BASE_TRY(cell__attr_int(im, node, "input_forget", 0, &input_forget));
    if (input_forget != 0) {
        return cell__refuse(im, "input_forget");
    }
    if (cell__attr(node, "clip") != NULL) {
        return cell__refuse(im, "clip");
    }
    if (cell__has_input(node, IN_P)) {
        return cell__refuse(im, "peephole weights (input P)");
    }
    return BASE_OK;
}

/* ---- Weights ------------------------------------------------------------------------------ */

/* An input that must be a constant float [1, rows, cols], or [1, cols] when rows is 0. */
struct weight_input {
    uint32_t i;
    const char *name;
    int64_t rows, cols;
};

static enum base_status read_weight(struct cell__import *im, const struct cell__node *node,
                                    struct weight_input wanted, struct cell_weight *out)
{
    uint32_t rank = wanted.rows == 0 ? 2 : 3;
    if (!cell__has_input(node, wanted.i)) {
        return cell__invalid(im, "input %s is missing", wanted.name);
    }
    const struct cell__value *value = cell__input(im, node, wanted.i);
    if (value->kind != CELL__CONST) {
        return cell__refuse(im, "the weights %s depend on the request; they must be constants",
                            wanted.name);
    }
    const struct cell__tensor *tensor = &value->tensor;
    if (tensor->dtype != CELL__F32 || tensor->rank != rank || tensor->dims[0] != 1 ||
        tensor->dims[rank - 1] != wanted.cols || (rank == 3 && tensor->dims[1] != wanted.rows)) {
        return cell__invalid(im,
                             "%s is not a float tensor of the shape that input and hidden size "
                             "ask for",
                             wanted.name);
    }
    uint32_t rows = rank == 3 ? (uint32_t)wanted.rows : 1;
    *out = (struct cell_weight){CELL_F32, rows, (uint32_t)wanted.cols, tensor->data};
    return BASE_OK;
}

static enum base_status read_weights(struct cell__import *im, const struct cell__node *node,
                                     struct cell__lstm *lstm)
{
    const struct cell__value *x = cell__input(im, node, IN_X);
    const struct cell__value *r = cell__has_input(node, IN_R) ? cell__input(im, node, IN_R) : NULL;
    int64_t hidden =
        r != NULL && r->kind == CELL__CONST && r->tensor.rank == 3 ? r->tensor.dims[2] : 0;
    int64_t width = cell__axis_size(im, &x->shape.axes[2]);
    BASE_TRY(cell__attr_int(im, node, "hidden_size", hidden, &hidden));
    if (r != NULL && r->kind != CELL__CONST) {
        return cell__refuse(im, "the weights R depend on the request; they must be constants");
    }
    if (width < 1 || width > CELL_WIDTH_MAX || hidden < 1 || hidden > CELL_WIDTH_MAX / 8) {
        return cell__refuse(im, "input size %lld, hidden size %lld", (long long)width,
                            (long long)hidden);
    }
    lstm->width = (uint32_t)width;
    lstm->hidden = (uint32_t)hidden;
    struct weight_input w = {IN_W, "W", 4 * hidden, width};
    struct weight_input r_input = {IN_R, "R", 4 * hidden, hidden};
    struct weight_input b = {IN_B, "B", 0, 8 * hidden};
    BASE_TRY(read_weight(im, node, w, &lstm->w));
    BASE_TRY(read_weight(im, node, r_input, &lstm->r));
    if (cell__has_input(node, IN_B)) {
        BASE_TRY(read_weight(im, node, b, &lstm->b));
    }
    return BASE_OK;
}

/* ---- Shapes ------------------------------------------------------------------------------- */

/* Where time, batch and direction stand in X (rank 3), states (rank 3) and Y (rank 4). */
struct places {
    uint32_t x_time, x_batch, state_batch, state_direction, y_time, y_batch, y_direction;
};

static enum base_status read_places(struct cell__import *im, const struct cell__node *node,
                                    struct places *out)
{
    static const struct places time_first = {0, 1, 1, 0, 0, 2, 1};
    static const struct places batch_first = {1, 0, 0, 1, 1, 0, 2};
    int64_t layout = 0;
    BASE_TRY(cell__attr_int(im, node, "layout", 0, &layout));
    if (layout != 0 && layout != 1) {
        return cell__invalid(im, "layout %lld", (long long)layout);
    }
    *out = layout == 0 ? time_first : batch_first;
    return BASE_OK;
}

/* initial_h or initial_c: its batch axis is X's. */
static enum base_status check_state(struct cell__import *im, const struct cell__node *node,
                                    uint32_t i, const struct places *places,
                                    const struct cell__lstm *lstm, const struct cell__axis *batch)
{
    struct cell__value *value = cell__input(im, node, i);
    const char *name = i == IN_H ? "initial_h" : "initial_c";
    struct cell__shape shape;
    BASE_TRY(cell__shape_of(im, value, &shape));
    if (value->dtype != CELL__F32 || shape.rank != 3 ||
        cell__axis_size(im, &shape.axes[places->state_direction]) != 1 ||
        cell__axis_size(im, &shape.axes[2]) != lstm->hidden) {
        return cell__invalid(im,
                             "%s is no float tensor of one direction, batch and %u hidden "
                             "units",
                             name, lstm->hidden);
    }
    const struct cell__axis *own = &shape.axes[places->state_batch];
    if (value->kind == CELL__CONST) {
        // One constant row serves every row of the batch; see lower_state() for more.
        return BASE_OK;
    }
    return cell__axis_unite(im, own, batch, name);
}

static enum base_status set_outputs(struct cell__import *im, const struct cell__node *node,
                                    const struct places *places, const struct cell__lstm *lstm,
                                    const struct cell__shape *x)
{
    struct cell__axis hidden;
    BASE_TRY(cell__axis_new(im, lstm->hidden, &hidden));
    struct cell__shape y = {.rank = 4};
    struct cell__shape state = {.rank = 3};
    y.axes[places->y_time] = x->axes[places->x_time];
    y.axes[places->y_batch] = x->axes[places->x_batch];
    y.axes[3] = hidden;
    state.axes[places->state_batch] = x->axes[places->x_batch];
    state.axes[2] = hidden;
    cell__set_rows(im, node, OUT_Y, CELL__F32, &y);
    cell__set_rows(im, node, OUT_H, CELL__F32, &state);
    cell__set_rows(im, node, OUT_C, CELL__F32, &state);
    return BASE_OK;
}

static enum base_status check_lengths(struct cell__import *im, const struct cell__node *node,
                                      const struct cell__axis *batch)
{
    const struct cell__value *value = cell__input(im, node, IN_LENGTHS);
    if (value->kind == CELL__CONST) {
        return cell__refuse(im, "sequence_lens is a constant; leave it out, or make it an input");
    }
    if (value->shape.rank != 1 || (value->dtype != CELL__I32 && value->dtype != CELL__I64)) {
        return cell__invalid(im, "sequence_lens is no list of integers");
    }
    return cell__axis_unite(im, &value->shape.axes[0], batch, "sequence_lens");
}

enum base_status cell__infer_lstm(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, IN_X);
    struct cell__lstm lstm = {
        .node = im->current, .lengths_value = CELL__NONE, .init_values = {CELL__NONE, CELL__NONE}};
    struct places places;
    BASE_TRY(check_attributes(im, node));
    BASE_TRY(read_places(im, node, &places));
    if (x->kind != CELL__ROWS) {
        return cell__refuse(im, "X does not depend on the request");
    }
    if (x->dtype != CELL__F32 || x->shape.rank != 3) {
        return cell__invalid(im, "X is of type %s and rank %u; needed: float of rank 3",
                             cell__dtype_name(x->dtype), x->shape.rank);
    }
    BASE_TRY(read_weights(im, node, &lstm));
    const struct cell__axis *batch = &x->shape.axes[places.x_batch];
    for (uint32_t s = 0; s < 2; s++) {
        if (cell__has_input(node, IN_H + s)) {
            BASE_TRY(check_state(im, node, IN_H + s, &places, &lstm, batch));
            lstm.init_values[s] = node->inputs[IN_H + s];
        }
    }
    if (cell__has_input(node, IN_LENGTHS)) {
        BASE_TRY(check_lengths(im, node, batch));
        lstm.lengths_value = node->inputs[IN_LENGTHS];
    }
    lstm.x_value = node->inputs[IN_X];
    lstm.time = x->shape.axes[places.x_time];
    lstm.batch = *batch;
    BASE_TRY(set_outputs(im, node, &places, &lstm, &x->shape));
    void *array = im->lstms;
    BASE_TRY(cell__grow(im, &array, &im->lstms_room, im->n_lstms, sizeof(*im->lstms),
                        (struct cell__limit){CELL_STAGES_MAX, "LSTM nodes"}));
    im->lstms = array;
    node->lstm = im->n_lstms;
    im->lstms[im->n_lstms++] = lstm;
    return BASE_OK;
}

/* ---- Lowering ----------------------------------------------------------------------------- */

/* A constant state given for several rows of a batch must be the same for all. */
static bool is_one_row(const struct cell__tensor *tensor, size_t width)
{
    const char *rows = tensor->data;
    size_t bytes = width * sizeof(float);
    bool is_one = true;
    for (size_t i = 1; i < tensor->count / width; i++) {
        is_one = is_one && memcmp(rows, rows + i * bytes, bytes) == 0;
    }
    return is_one;
}

/* The row of an initial state; NONE for zeros. */
static enum base_status lower_state(struct cell__import *im, struct cell__lstm *lstm, uint32_t s)
{
    lstm->init_rows[s] = CELL__NONE;
    if (lstm->init_values[s] == CELL__NONE) {
        return BASE_OK;
    }
    const struct cell__value *value = &im->values[lstm->init_values[s]];
    uint32_t row = value->row;
    if (value->kind == CELL__CONST) {
        struct cell_value state = {CELL_F32, lstm->hidden};
        if (!is_one_row(&value->tensor, lstm->hidden)) {
            return cell__refuse(im, "a constant initial state that differs along the batch");
        }
        BASE_TRY(cell__row_const(im, state, value->tensor.data, &row));
    }
    if (cell__row_is_zero(im, row)) {
        return BASE_OK;
    }
    if (im->rows[row].is_timed || im->rows[row].value.width != lstm->hidden) {
        return cell__refuse(im, "an initial state that differs along the time axis");
    }
    return cell__row_as_source(im, row, &lstm->init_rows[s]);
}

/* sequence_lens: an input of the model, perhaps cast. */
static enum base_status lower_lengths(struct cell__import *im, const struct cell__lstm *lstm)
{
    int32_t input = -1;
    if (lstm->lengths_value != CELL__NONE) {
        uint32_t row = im->values[lstm->lengths_value].row;
        while (im->rows[row].kind == CELL__ROW_OP && im->rows[row].op.kind == CELL_OP_CAST) {
            row = im->rows[row].op.operands[0];
        }
        if (im->rows[row].kind != CELL__ROW_INPUT || im->rows[row].value.dtype == CELL_F32 ||
            im->rows[row].is_timed || im->rows[row].value.width != 1) {
            return cell__refuse(im, "sequence_lens is not an input of the model");
        }
        input = (int32_t)im->rows[row].index;
    }
    if (im->has_lengths && im->lengths_input != input) {
        return cell__refuse(im, "another sequence_lens than the LSTM before it");
    }
    im->has_lengths = true;
    im->lengths_input = input;
    return BASE_OK;
}

enum base_status cell__lower_lstm(struct cell__import *im, struct cell__node *node)
{
    struct cell__lstm *lstm = &im->lstms[node->lstm];
    uint32_t row = CELL__NONE;
    BASE_TRY(lower_lengths(im, lstm));
    lstm->x_row = im->values[lstm->x_value].row;
    BASE_TRY(lower_state(im, lstm, 0));
    BASE_TRY(lower_state(im, lstm, 1));
    bool is_timed = im->rows[lstm->x_row].is_timed;
    if (!is_timed && cell__axis_has(im, &lstm->time, CELL__ROLE_TIME)) {
        return cell__refuse(im, "X is the same at every step, so a request cannot tell how many");
    }
    if (cell__has_output(node, OUT_Y)) {
        enum cell__row_kind kind = is_timed ? CELL__ROW_STEP : CELL__ROW_STATE;
        BASE_TRY(cell__row_lstm(im, kind, node->lstm, 0, &row));
        cell__set_row(im, node, OUT_Y, row);
    }
    for (uint32_t s = 0; s < 2; s++) {
        if (cell__has_output(node, OUT_H + s)) {
            BASE_TRY(cell__row_lstm(im, CELL__ROW_STATE, node->lstm, s, &row));
            cell__set_row(im, node, OUT_H + s, row);
        }
    }
    return BASE_OK;
}
