/* Inputs and outputs: names, types and shapes as the file states them, with the batch and time axes
 * that tracing found. Of the axes that make a row, one may stand before batch or time: then a row
 * lies in pieces. */
#include "cells/import/tensors.h"

#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

/* ---- Declaring ---------------------------------------------------------------------------- */

/* A dimension of 0, negative or missing is taken as chosen by the request: exporters write all. */
static int64_t stated_size(const Onnx__TensorShapeProto__Dimension *dim)
{
    bool is_number = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    return is_number && dim->dim_value > 0 ? dim->dim_value : -1;
}

static const Onnx__TypeProto__Tensor *stated_type(const Onnx__ValueInfoProto *info)
{
    return info->type != NULL && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
               ? info->type->tensor_type
               : NULL;
}

/* What the user has said of an input, as a constant or not; NULL: nothing. */
static const struct cell_known_input *known_of(const struct cell__import *im, const char *name,
                                               bool is_constant)
{
    const struct cell_known_inputs *known = im->known;
    for (uint32_t i = 0; known != NULL && i < known->n; i++) {
        if (known->items[i].is_constant == is_constant && strcmp(known->items[i].name, name) == 0) {
            return &known->items[i];
        }
    }
    return NULL;
}

/* The size of axis k that the file states, or else the user. */
static enum base_status known_size(struct cell__import *im, const Onnx__TypeProto__Tensor *type,
                                   const char *name, uint32_t k, int64_t *out)
{
    const struct cell_known_input *known = known_of(im, name, false);
    char text[CELL__TEXT_BYTES];
    *out = stated_size(type->shape->dim[k]);
    if (known == NULL || known->dims[k] == CELL_DIM_ANY) {
        return BASE_OK;
    }
    if (*out >= 0 && *out != known->dims[k]) {
        return cell__invalid(im,
                             "input \"%s\" has %lld elements on axis %u, and its shape is to be "
                             "one of %lld",
                             cell__quote(text, name), (long long)*out, k,
                             (long long)known->dims[k]);
    }
    *out = known->dims[k];
    return BASE_OK;
}

/* A double holds all integers below. */
#define INTEGER_MAX 9007199254740992.0

/* Makes an input the constant that the user says it is. */
static enum base_status declare_constant(struct cell__import *im, const struct cell_known_input *as,
                                         const Onnx__TypeProto__Tensor *type, uint32_t v)
{
    struct cell__value *value = &im->values[v];
    const double number = as->number;
    const float real = (float)number;
    struct cell__tensor one = {.dtype = CELL__F32, .count = 1, .data = &real};
    struct cell__tensor cast;
    int64_t dims[CELL_RANK_MAX];
    char text[CELL__TEXT_BYTES];
    BASE_TRY(cell__dtype_of(im, type->elem_type, as->name, &value->dtype));
    for (uint32_t k = 0; k < type->shape->n_dim; k++) {
        BASE_TRY(known_size(im, type, as->name, k, &dims[k]));
        if (dims[k] < 0) {
            return cell__refuse(im,
                                "input \"%s\" is to be a constant, and how many elements it has "
                                "on axis %u is not known",
                                cell__quote(text, as->name), k);
        }
    }
    const bool is_exact = number > -INTEGER_MAX && number < INTEGER_MAX && floor(number) == number;
    const int64_t integer = is_exact ? (int64_t)number : 0;
    if (value->dtype != CELL__F32 && !is_exact) {
        return cell__invalid(im, "input \"%s\" is of integers, and %g is none",
                             cell__quote(text, as->name), number);
    }
    if (value->dtype != CELL__F32) { // floats are not exact enough
        one = (struct cell__tensor){.dtype = CELL__I64, .count = 1, .data = &integer};
    }
    BASE_TRY(cell__fold_cast(im, &one, value->dtype, &cast));
    struct cell__view view = cell__view_of(&cast);
    view = cell__view_broadcast(&view, (uint32_t)type->shape->n_dim, dims);
    BASE_TRY(cell__fold_view(im, &cast, &view, &value->tensor));
    value->kind = CELL__CONST;
    return BASE_OK;
}

/* Of an input, which may be of bytes too. */
static enum base_status input_dtype(struct cell__import *im, const struct cell__value *value,
                                    int64_t onnx, enum cell__dtype *out)
{
    switch (onnx) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT8:
        *out = CELL__U8;
        return BASE_OK;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT8:
        *out = CELL__I8;
        return BASE_OK;
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
        *out = CELL__F64_GIVEN;
        return BASE_OK;
    default:
        return cell__dtype_of(im, onnx, value->name, out);
    }
}

static enum base_status declare(struct cell__import *im, const Onnx__ValueInfoProto *info,
                                uint32_t v)
{
    char text[CELL__TEXT_BYTES];
    const char *name = cell__quote(text, info->name);
    const Onnx__TypeProto__Tensor *type = stated_type(info);
    if (im->n_inputs == CELL_TENSORS_MAX || strlen(info->name) >= CELL_NAME_BYTES) {
        return cell__refuse(im,
                            "input \"%s\": more than %u inputs, or a name of more than %u "
                            "bytes",
                            name, CELL_TENSORS_MAX, CELL_NAME_BYTES - 1);
    }
    if (type == NULL || type->shape == NULL) {
        return cell__refuse(im, "input \"%s\" is no tensor, or its rank is not stated", name);
    }
    if (type->shape->n_dim > CELL_RANK_MAX) {
        return cell__refuse(im, "input \"%s\" has rank %zu; at most %u", name, type->shape->n_dim,
                            CELL_RANK_MAX);
    }
    const struct cell_known_input *constant = known_of(im, info->name, true);
    if (constant != NULL) {
        return declare_constant(im, constant, type, v);
    }
    struct cell__value *value = &im->values[v];
    BASE_TRY(input_dtype(im, value, type->elem_type, &value->dtype));
    value->kind = CELL__ROWS;
    value->shape = (struct cell__shape){.rank = (uint32_t)type->shape->n_dim};
    for (uint32_t k = 0; k < value->shape.rank; k++) {
        // An atom even for size 1: it may turn out to be the time axis.
        struct cell__axis *axis = &value->shape.axes[k];
        axis->n = 1;
        // Of a part the first axis is that of its rows, whatever number the export was made with.
        int64_t size = -1;
        if (!im->is_part || k > 0) {
            BASE_TRY(known_size(im, type, info->name, k, &size));
        }
        BASE_TRY(cell__atom_new(im, size, &axis->atoms[0]));
    }
    im->inputs[im->n_inputs++] = v;
    return BASE_OK;
}

/* That what the user has said is of inputs of the model, and of their ranks. */
static enum base_status check_known(struct cell__import *im)
{
    const Onnx__GraphProto *graph = im->model->graph;
    char text[CELL__TEXT_BYTES];
    for (uint32_t i = 0; im->known != NULL && i < im->known->n; i++) {
        const struct cell_known_input *item = &im->known->items[i];
        const Onnx__TypeProto__Tensor *type = NULL;
        bool is_found = false;
        for (size_t g = 0; g < graph->n_input && !is_found; g++) {
            is_found =
                graph->input[g]->name != NULL && strcmp(graph->input[g]->name, item->name) == 0;
            type = is_found ? stated_type(graph->input[g]) : NULL;
        }
        if (!is_found) {
            return cell__invalid(im, "the model has no input \"%s\" of which to know anything",
                                 cell__quote(text, item->name));
        }
        if (!item->is_constant && type != NULL && type->shape != NULL &&
            type->shape->n_dim != item->rank) {
            return cell__invalid(im, "input \"%s\" has rank %zu, and its shape is to have %u",
                                 cell__quote(text, item->name), type->shape->n_dim, item->rank);
        }
    }
    return BASE_OK;
}

enum base_status cell__tensors_declare(struct cell__import *im)
{
    const Onnx__GraphProto *graph = im->model->graph;
    char text[CELL__TEXT_BYTES];
    BASE_TRY(check_known(im));
    for (size_t i = 0; i < graph->n_input; i++) {
        const char *name = graph->input[i]->name;
        uint32_t v = 0;
        if (name == NULL || name[0] == '\0') {
            return cell__invalid(im, "an input without a name");
        }
        BASE_TRY(cell__value_named(im, name, &v));
        if (im->values[v].kind == CELL__ROWS) {
            return cell__invalid(im, "input \"%s\" is given twice", cell__quote(text, name));
        }
        if (im->values[v].kind == CELL__UNSET) { // else a constant, whose default we keep
            BASE_TRY(declare(im, graph->input[i], v));
        }
    }
    return BASE_OK;
}

/* ---- Describing --------------------------------------------------------------------------- */

/* The first axis with this role, or -1; *is_alone: it holds nothing else and is the only one. */
static int32_t role_axis(const struct cell__import *im, const struct cell__shape *shape,
                         enum cell__role role, bool *is_alone)
{
    int32_t found = -1;
    *is_alone = true;
    for (uint32_t k = 0; k < shape->rank; k++) {
        if (cell__axis_has(im, &shape->axes[k], role)) {
            *is_alone = *is_alone && found < 0 && shape->axes[k].n == 1;
            found = found < 0 ? (int32_t)k : found;
        }
    }
    return found;
}

/* Pieces before the time that are read one by one, where they stand, are at least a cache line
 * long.
 */
#define PIECE_BYTES_MIN 64u

/* Its rows are one piece, and the tensor is another order of them (server/turn.h). */
static void turn(struct cell_tensor *out)
{
    out->pieces = 1;
    out->piece_axis = -1;
    out->is_turned = true;
}

/* Features that stand before batch or time: the pieces of a row, or reason to turn the tensor. */
static void find_pieces(struct cell_tensor *out)
{
    const int32_t last = out->batch_axis > out->time_axis ? out->batch_axis : out->time_axis;
    uint32_t n = 0;
    out->piece_axis = -1;
    out->pieces = 1;
    for (int32_t k = 0; k < last; k++) {
        if (k != out->batch_axis && k != out->time_axis && out->dims[k] != 1) {
            out->piece_axis = k;
            n++;
        }
    }
    if (n == 0) {
        return;
    }
    const int64_t pieces = out->dims[out->piece_axis];
    const size_t bytes = out->width / (uint64_t)pieces * cell_dtype_bytes(out->dtype);
    const bool is_short = out->piece_axis < out->time_axis && bytes < PIECE_BYTES_MIN;
    if (n == 1 && pieces <= CELL_PIECES_MAX && !is_short) {
        out->pieces = (uint32_t)pieces;
        return;
    }
    turn(out);
}

/* Bytes and halves become floats on their way to a cell, and floats these on their way out. info:
 * what the file says of an input or output. */
static enum base_status describe_elements(struct cell__import *im, const Onnx__ValueInfoProto *info,
                                          enum cell__dtype dtype, struct cell_tensor *out)
{
    static const enum cell_form bytes[] = {[CELL__BOOL] = CELL_FORM_BOOL,
                                           [CELL__U8] = CELL_FORM_U8,
                                           [CELL__I8] = CELL_FORM_I8,
                                           [CELL__F64_GIVEN] = CELL_FORM_F64,
                                           [CELL__F64_MADE] = CELL_FORM_F64};
    const Onnx__TypeProto__Tensor *type = stated_type(info);
    const int32_t stated = type == NULL ? 0 : type->elem_type;
    const bool is_own = im->is_part && !cell__is_double(dtype); // bytes are refused below
    const enum cell_form other = is_own ? CELL_FORM_OWN : bytes[dtype];
    out->dtype = CELL_F32;
    out->form = stated == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16    ? CELL_FORM_F16
                : stated == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16 ? CELL_FORM_BF16
                                                                    : other;
    return out->form != CELL_FORM_OWN ? BASE_OK : cell__row_dtype(im, dtype, &out->dtype);
}

static enum base_status describe(struct cell__import *im, const char *what,
                                 const struct cell__value *value, struct cell_tensor *out)
{
    char text[CELL__TEXT_BYTES];
    const char *name = cell__quote(text, value->name);
    const struct cell__shape *shape = &value->shape;
    bool is_batch_alone = true;
    bool is_time_alone = true;
    memcpy(out->name, value->name, strlen(value->name) + 1);
    for (uint32_t k = 0; k < shape->rank; k++) {
        if (cell__axis_size(im, &shape->axes[k]) < 0 &&
            !cell__axis_has(im, &shape->axes[k], CELL__ROLE_BATCH) &&
            !cell__axis_has(im, &shape->axes[k], CELL__ROLE_TIME)) {
            return cell__refuse(im,
                                "%s \"%s\": axis %u is of unknown size, and neither the batch "
                                "nor the time of a recurrent node",
                                what, name, k);
        }
    }
    if (cell__is_pair(cell__shape_times(im, shape))) {
        return cell__refuse(im, "%s \"%s\" has a value for each pair of steps of two sequences",
                            what, name);
    }
    BASE_TRY(cell__shape_width(im, shape, &out->width));
    out->rank = shape->rank;
    out->batch_axis = role_axis(im, shape, CELL__ROLE_BATCH, &is_batch_alone);
    out->time_axis = role_axis(im, shape, CELL__ROLE_TIME, &is_time_alone);
    if (!is_batch_alone || !is_time_alone) {
        return cell__refuse(im, "%s \"%s\" merges its batch or time axis with others", what, name);
    }
    out->sequence = out->time_axis < 0
                        ? 0
                        : cell__only_sequence(cell__axis_times(im, &shape->axes[out->time_axis]));
    for (uint32_t k = 0; k < shape->rank; k++) {
        int64_t size = cell__axis_size(im, &shape->axes[k]);
        out->dims[k] = size < 0 ? CELL_DIM_ANY : size;
    }
    find_pieces(out);
    return BASE_OK;
}

/* The row expression of an input: its pieces, joined. */
static enum base_status input_row(struct cell__import *im, uint32_t input,
                                  const struct cell_tensor *tensor, uint32_t *out)
{
    const struct cell__row_traits traits = {
        .value = {tensor->dtype, tensor->width / tensor->pieces},
        .times = tensor->time_axis < 0 ? 0 : 1u << tensor->sequence,
        .is_batched = tensor->batch_axis >= 0};
    uint32_t rows[CELL_PIECES_MAX];
    for (uint32_t p = 0; p < tensor->pieces; p++) {
        BASE_TRY(cell__row_input(im, input, p, &traits, &rows[p]));
    }
    return cell__row_concat(im, rows, tensor->pieces, out);
}

/* What the file says of an input, which it must have. */
static const Onnx__ValueInfoProto *info_of(const struct cell__import *im,
                                           const struct cell__value *value)
{
    const Onnx__GraphProto *graph = im->model->graph;
    size_t i = 0;
    while (strcmp(graph->input[i]->name, value->name) != 0) {
        i++;
    }
    return graph->input[i];
}

enum base_status cell__tensors_inputs(struct cell__import *im, struct cell_model *model)
{
    model->n_inputs = im->n_inputs;
    for (uint32_t i = 0; i < im->n_inputs; i++) {
        struct cell__value *value = &im->values[im->inputs[i]];
        struct cell_tensor *tensor = &model->inputs[i];
        BASE_TRY(describe_elements(im, info_of(im, value), value->dtype, tensor));
        BASE_TRY(describe(im, "input", value, tensor));
        BASE_TRY(input_row(im, i, tensor, &value->row));
    }
    return BASE_OK;
}

/* ---- Outputs ------------------------------------------------------------------------------ */

/* The file's statement must not contradict what the graph computes. But a shape of another rank
 * says nothing: exporters state those behind a Loop, and users who hand them names for axes that
 * they do not count. ONNX Runtime warns of it and goes by the graph as well. */
static enum base_status check_stated(struct cell__import *im, const Onnx__ValueInfoProto *info,
                                     const struct cell__value *value)
{
    char text[CELL__TEXT_BYTES];
    const Onnx__TypeProto__Tensor *type = stated_type(info);
    enum cell__dtype dtype;
    if (value->dtype == CELL__F64_GIVEN) {
        return cell__refuse(im,
                            "output \"%s\" is of doubles of the request, of which floats are left",
                            cell__quote(text, value->name));
    }
    if (type == NULL) {
        return BASE_OK;
    }
    if (type->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE &&
        value->dtype == CELL__F64_MADE) {
        dtype = CELL__F64_MADE;
    } else {
        BASE_TRY(cell__dtype_of(im, type->elem_type, value->name, &dtype));
    }
    bool fits = dtype == value->dtype;
    if (fits && type->shape != NULL) {
        const bool is_stated = type->shape->n_dim == value->shape.rank;
        for (uint32_t k = 0; is_stated && fits && k < value->shape.rank; k++) {
            int64_t stated = stated_size(type->shape->dim[k]);
            int64_t size = cell__axis_size(im, &value->shape.axes[k]);
            fits = stated < 0 || size < 0 || stated == size;
        }
    }
    return fits ? BASE_OK
                : cell__invalid(im,
                                "output \"%s\" is not of the type and shape that the file "
                                "states",
                                cell__quote(text, value->name));
}

/* Whether n pieces of the row can be handed on one by one: each is of a chain's, or those of other
 * stages are few. */
static bool may_be_pieces(const struct cell__import *im, uint32_t row, uint32_t n)
{
    const struct cell__row *at = &im->rows[row];
    const bool is_joined =
        at->kind == CELL__ROW_OP && at->op.kind == CELL_OP_CONCAT && at->op.n_operands == n;
    uint32_t of_stages = is_joined ? 0 : n;
    for (uint32_t i = 0; i < n && is_joined; i++) {
        of_stages += im->rows[at->op.operands[i]].kind == CELL__ROW_OP ? 1 : 0;
    }
    return of_stages <= CELL_OUTPUTS_MAX;
}

/* A row of one piece that is made of others as wide as each other is emitted by each of them, next
 * to the others, and not joined first. */
static void split_joined(const struct cell__import *im, uint32_t row, struct cell_tensor *tensor)
{
    const struct cell__row *at = &im->rows[row];
    bool is_even = at->kind == CELL__ROW_OP && at->op.kind == CELL_OP_CONCAT &&
                   at->op.n_operands <= CELL_PIECES_MAX &&
                   may_be_pieces(im, row, at->op.n_operands);
    for (uint32_t i = 0; is_even && i < at->op.n_operands; i++) {
        const struct cell__row *operand = &im->rows[at->op.operands[i]];
        is_even = operand->value.width * at->op.n_operands == at->value.width &&
                  operand->times == at->times && operand->is_batched == at->is_batched &&
                  operand->kind != CELL__ROW_CONST;
    }
    if (is_even && tensor->pieces == 1 && !im->is_part) {
        tensor->pieces = at->op.n_operands;
    }
}

/* The row expressions of an output's pieces. */
static enum base_status output_rows(struct cell__import *im, const struct cell__value *value,
                                    struct cell_tensor *tensor, uint32_t out[CELL_PIECES_MAX])
{
    char text[CELL__TEXT_BYTES];
    uint32_t row = value->row;
    if (cell__row_is_rounded(im, row)) {
        return cell__refuse(im, "output \"%s\" is computed of integers that the request holds",
                            cell__quote(text, value->name));
    }
    BASE_TRY(cell__row_as_source(im, row, &row));
    if (im->rows[row].times != 0 && tensor->time_axis < 0) {
        BASE_TRY(cell__row_at(im, CELL__ROW_LAST, row, &row)); // a time axis of size 1 was dropped
    }
    if (im->rows[row].times == 0 && tensor->time_axis >= 0) {
        return cell__refuse(im, "output \"%s\" repeats one row at every step",
                            cell__quote(text, value->name));
    }
    if (im->has_batch && im->rows[row].is_batched != (tensor->batch_axis >= 0)) {
        return cell__refuse(im,
                            tensor->batch_axis < 0 ? "output \"%s\" has no batch axis"
                                                   : "output \"%s\" repeats one row for all of the "
                                                     "batch",
                            cell__quote(text, value->name));
    }
    if (tensor->pieces > 1 && !may_be_pieces(im, row, tensor->pieces)) {
        turn(tensor);
    }
    split_joined(im, row, tensor);
    for (uint32_t p = 0; p < tensor->pieces; p++) {
        const uint32_t width = tensor->width / tensor->pieces;
        BASE_TRY(cell__row_slice(im, row, p * width, width, &out[p]));
        BASE_TRY(cell__row_as_source(im, out[p], &out[p]));
        if (im->rows[out[p]].kind == CELL__ROW_INPUT) {
            struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1, .operands = {out[p]}};
            BASE_TRY(cell__row_op(im, &copy, im->rows[out[p]].value, &out[p]));
        }
    }
    return BASE_OK;
}

/* The smallest of those that there are; 0: none yet. */
static void bound_by(int64_t n, int64_t *bound)
{
    *bound = *bound == 0 || n < *bound ? n : *bound;
}

/* The sequence of whose steps this is a number, at each of them, the last or another; or NONE. */
static uint32_t numbered_sequence(const struct cell__import *im, uint32_t r)
{
    const struct cell__row *row = &im->rows[r];
    while (row->kind != CELL__ROW_NUMBER) {
        const bool is_op = row->kind == CELL__ROW_OP &&
                           (row->op.kind == CELL_OP_COPY || row->op.kind == CELL_OP_CAST);
        if (!is_op && row->kind != CELL__ROW_FIRST && row->kind != CELL__ROW_LAST &&
            row->kind != CELL__ROW_WINDOW) {
            return CELL__NONE;
        }
        row = &im->rows[is_op ? row->op.operands[0] : row->index];
    }
    return row->index;
}

/* Of some elements of each row, which stand one behind the other. */
static enum base_status bound_elements(struct cell__import *im, struct cell_tensor *tensor,
                                       uint32_t first, uint32_t count, int64_t n)
{
    char text[CELL__TEXT_BYTES];
    int64_t behind = 1;
    for (int32_t k = (int32_t)tensor->rank - 1; k > tensor->batch_axis && k > tensor->time_axis;
         k--) {
        behind *= tensor->dims[k];
    }
    if (tensor->pieces != 1 || tensor->is_turned || behind != (int64_t)tensor->width) {
        return cell__refuse(im,
                            "ids of several tables in input \"%s\", whose last axes they are not",
                            cell__quote(text, tensor->name));
    }
    tensor->n_id_bounds = tensor->width;
    for (uint32_t k = first; k < first + count; k++) {
        bound_by(n, &tensor->id_bounds[k]);
    }
    return BASE_OK;
}

/* Where elements have bounds of their own, those of all are theirs too. */
static void join_bounds(struct cell_tensor *tensor)
{
    for (uint32_t k = 0; tensor->id_bound > 0 && k < tensor->n_id_bounds; k++) {
        bound_by(tensor->id_bound, &tensor->id_bounds[k]);
    }
    tensor->id_bound = tensor->n_id_bounds > 0 ? 0 : tensor->id_bound;
}

/* Of ids that are cut to a table's: one beyond is refused, and one below is not. */
static void bound_clipped(const struct cell__import *im, const struct cell__clipped_ids *clipped,
                          int64_t n, struct cell_model *model)
{
    struct cell_tensor *tensor = &model->inputs[im->rows[clipped->ids].index];
    if (clipped->is_bounded) {
        bound_by(n, &tensor->id_bound);
        tensor->ids_below_zero = true;
    }
}

/* Ids of a lookup, as its input's rows have them; is_plain: by inputs, of which some are looked up
 * as they are. */
static enum base_status bound_ids(struct cell__import *im, const struct cell__row *row,
                                  struct cell_model *model, bool *is_plain)
{
    const uint32_t operand = row->op.operands[0];
    const int64_t n = row->op.weights[0].rows;
    struct cell__clipped_ids clipped;
    uint32_t first = CELL__NONE;
    uint32_t chosen = 0;
    const uint32_t ids = cell__row_element_ids(im, operand, &first);
    if (ids != CELL__NONE) {
        const uint32_t input = im->rows[ids].index;
        const uint32_t width = im->rows[operand].value.width;
        is_plain[input] = true;
        if (first != CELL__NONE) {
            return bound_elements(im, &model->inputs[input], first, width, n);
        }
        bound_by(n, &model->inputs[input].id_bound);
        return BASE_OK;
    }
    if (cell__row_clipped_ids(im, operand, &clipped)) {
        bound_clipped(im, &clipped, n, model);
        return BASE_OK;
    }
    if (cell__row_is_chosen(im, operand, &chosen)) {
        return BASE_OK;
    }
    struct cell__whole whole = {.n = 1};
    const bool is_whole = cell__row_is_whole(im, operand, &whole);
    const uint32_t sequence = is_whole ? whole.sequence : numbered_sequence(im, operand);
    if (sequence == CELL__NONE) { // of pairs of steps, as relative.h or scores.h have it
        return row->is_numbers || row->pairs > 0
                   ? BASE_OK
                   : base_fail(im->error, BASE_UNIMPLEMENTED,
                               "the model looks up relative positions elsewhere than in an "
                               "attention that shifts them");
    }
    int64_t steps = model->sequences[sequence].steps_max;
    bound_by(n > UINT32_MAX / whole.n ? UINT32_MAX : n * whole.n, &steps);
    model->sequences[sequence].steps_max = (uint32_t)steps;
    return BASE_OK;
}

/* Of ids that may count from the end no request may have one below 0. */
static enum base_status check_from_end(struct cell__import *im, const struct cell_tensor *tensor)
{
    char text[CELL__TEXT_BYTES];
    bool is_bounded = tensor->id_bound > 0 || tensor->n_id_bounds > 0;
    for (uint32_t k = 0; k < tensor->n_id_bounds; k++) {
        is_bounded = is_bounded && tensor->id_bounds[k] > 0;
    }
    return is_bounded && !tensor->ids_below_zero
               ? BASE_OK
               : base_fail(im->error, BASE_UNIMPLEMENTED,
                           "input \"%s\" has integers that may count from an end, and no table "
                           "says from which",
                           cell__quote(text, tensor->name));
}

/* Embeddings bound the ids that an input may hold, or how many steps a sequence has. */
static enum base_status set_id_bounds(struct cell__import *im, struct cell_model *model)
{
    bool is_plain[CELL_TENSORS_MAX] = {false};
    for (uint32_t r = 0; r < im->n_rows; r++) {
        const struct cell__row *row = &im->rows[r];
        if (row->kind == CELL__ROW_OP && row->op.kind == CELL_OP_GATHER) {
            BASE_TRY(bound_ids(im, row, model, is_plain));
        }
    }
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        model->inputs[i].ids_below_zero = model->inputs[i].ids_below_zero && !is_plain[i];
        join_bounds(&model->inputs[i]);
        BASE_TRY((im->ids_from_end >> i & 1u) != 0 ? check_from_end(im, &model->inputs[i])
                                                   : BASE_OK);
    }
    return BASE_OK;
}

/* Windows whose step an input says; it says it of one sequence, in one way. */
static enum base_status set_steps(struct cell__import *im, struct cell_model *model)
{
    char text[CELL__TEXT_BYTES];
    for (uint32_t r = 0; r < im->n_rows; r++) {
        const struct cell__row *row = &im->rows[r];
        if (row->kind != CELL__ROW_WINDOW || row->by == 0) {
            continue;
        }
        struct cell_tensor *input = &model->inputs[row->by - 1];
        const uint32_t sequence = cell__only_sequence(im->rows[row->index].times);
        if (input->is_lengths && input->sequence == sequence) {
            continue; // within each row's length: op_index.c
        }
        const struct cell_told told = {
            .add = row->offset, .over = row->told.over, .least = row->told.least};
        if (input->is_lengths || (input->is_step && (input->sequence != sequence ||
                                                     !cell__told_is_same(input->told, told) ||
                                                     input->step_is_clipped != row->is_clipped ||
                                                     input->step_is_ended != row->is_ended))) {
            return cell__refuse(im, "input \"%s\" tells steps in more than one way",
                                cell__quote(text, input->name));
        }
        input->is_step = true;
        input->sequence = sequence;
        input->told = told;
        input->step_is_clipped = row->is_clipped;
        input->step_is_ended = row->is_ended;
    }
    return BASE_OK;
}

/* Numbers that are answered as they are computed of an input's, as floats: exact of those below. */
static void bound_told(const struct cell__import *im, struct cell_model *model, uint32_t row)
{
    struct cell_told told;
    uint32_t input = 0;
    if (im->rows[row].value.dtype != CELL_F32 && im->rows[row].kind == CELL__ROW_OP &&
        cell__row_told(im, row, &told, &input) && !model->inputs[input].is_lengths &&
        !model->inputs[input].is_step) {
        bound_by(1 << 24, &model->inputs[input].id_bound);
    }
}

enum base_status cell__tensors_outputs(struct cell__import *im, struct cell_model *model,
                                       uint32_t (*rows)[CELL_PIECES_MAX])
{
    const Onnx__GraphProto *graph = im->model->graph;
    char text[CELL__TEXT_BYTES];
    if (graph->n_output == 0 || graph->n_output > CELL_TENSORS_MAX) {
        return cell__refuse(im, "%zu outputs; supported: 1 to %u", graph->n_output,
                            CELL_TENSORS_MAX);
    }
    model->n_outputs = (uint32_t)graph->n_output;
    for (uint32_t i = 0; i < model->n_outputs; i++) {
        uint32_t v = 0;
        BASE_TRY(cell__value_named(im, graph->output[i]->name, &v));
        const struct cell__value *value = &im->values[v];
        const char *name = cell__quote(text, value->name);
        if (value->kind != CELL__ROWS || strlen(value->name) >= CELL_NAME_BYTES) {
            return cell__refuse(im,
                                "output \"%s\" is the same for every request, or its name too "
                                "long",
                                name);
        }
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(model->outputs[k].name, value->name) == 0) {
                return cell__invalid(im, "output \"%s\" is given twice", name);
            }
        }
        BASE_TRY(check_stated(im, graph->output[i], value));
        BASE_TRY(describe_elements(im, graph->output[i], value->dtype, &model->outputs[i]));
        BASE_TRY(describe(im, "output", value, &model->outputs[i]));
        struct cell__value straight = *value;
        if (value->is_turned && value->dtype != CELL__F32) {
            return cell__refuse(im, "output \"%s\" has its steps turned round, the last one first",
                                name);
        }
        BASE_TRY(value->is_turned ? cell__row_straight(im, value, &straight.row) : BASE_OK);
        BASE_TRY(output_rows(im, &straight, &model->outputs[i], rows[i]));
    }
    BASE_TRY(set_id_bounds(im, model));
    BASE_TRY(set_steps(im, model));
    for (uint32_t i = 0; i < model->n_outputs; i++) {
        bound_told(im, model, rows[i][0]);
    }
    return BASE_OK;
}
