/* Quantised tensors: whole numbers q of 8 bits (a bias: of 32) that stand for (q - zero point) *
 * scale, as tools that make files smaller write them.
 *
 * Constants become the floats they stand for when the file is read; how many bits they have on the
 * device is the model's own configuration. What depends on the request is rounded where the file
 * states a scale (QuantizeLinear), in rows of floats. DynamicQuantizeLinear leaves it as it is: its
 * scale is that of a whole tensor, all rows of a batch and all steps, so that an answer would
 * depend on who else is there and on steps that have not come yet. What is not rounded is no less
 * exact: answers differ from ONNX Runtime's by what rounding costs there.
 *
 * So products of quantised operands are those of their floats: MatMulInteger is MatMul, ConvInteger
 * Conv, and ONNX Runtime's DynamicQuantizeLSTM an LSTM. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

enum { IN_Q, IN_SCALE, IN_ZERO };

/* ---- Constants ------------------------------------------------------------------------------ */

/* How the numbers of a constant are to be read: scale and zero point are NULL, of one element, or
 * of one for each index of the axis. */
struct quantised {
    const struct cell__tensor *q, *scale, *zero;
    uint32_t axis;
};

static bool is_whole(const struct cell__tensor *tensor)
{
    return tensor->dtype != CELL__F32 && tensor->dtype != CELL__BOOL && tensor->syms == NULL;
}

/* Whether a scale or zero point fits. */
static bool fits(const struct quantised *in, const struct cell__tensor *of)
{
    return of == NULL || of->count == 1 ||
           (of->rank == 1 && in->axis < in->q->rank && of->dims[0] == in->q->dims[in->axis]);
}

/* The number of q's element i along the axis. */
static size_t along(const struct quantised *in, size_t i)
{
    size_t behind = 1;
    for (uint32_t k = in->axis + 1; k < in->q->rank; k++) {
        behind *= (size_t)in->q->dims[k];
    }
    return in->axis < in->q->rank ? i / behind % (size_t)in->q->dims[in->axis] : 0;
}

/* An int32 less a zero point is exact, and rounded once, as a sum of products is where it is. */
static float stands_for(const struct quantised *in, size_t i)
{
    const size_t k = along(in, i);
    double number = in->q->dtype == CELL__F32 ? (double)((const float *)in->q->data)[i]
                                              : (double)cell__tensor_sym(in->q, i).add;
    if (in->zero != NULL) {
        number -= (double)cell__tensor_sym(in->zero, in->zero->count == 1 ? 0 : k).add;
    }
    const float scale =
        in->scale == NULL ? 1.0f : ((const float *)in->scale->data)[in->scale->count == 1 ? 0 : k];
    return (float)number * scale;
}

static enum base_status check_quantised(struct cell__import *im, const struct quantised *in)
{
    const bool is_read = in->scale == NULL || in->scale->dtype == CELL__F32;
    if (!is_read || (in->zero != NULL && !is_whole(in->zero))) {
        return cell__invalid(im, "a scale that is not of floats, or a zero point that is not of "
                                 "integers");
    }
    if (!fits(in, in->scale) || !fits(in, in->zero)) {
        char q[CELL__TEXT_BYTES];
        char of[CELL__TEXT_BYTES];
        return cell__refuse(im, "a scale or zero point of %s for %s along axis %u",
                            cell__tensor_text(of, fits(in, in->scale) ? in->zero : in->scale),
                            cell__tensor_text(q, in->q), in->axis);
    }
    return BASE_OK;
}

static enum base_status dequantise(struct cell__import *im, const struct quantised *in,
                                   struct cell__tensor *out)
{
    void *data = NULL;
    struct cell__sym *none = NULL;
    *out = (struct cell__tensor){.dtype = CELL__F32};
    BASE_TRY(check_quantised(im, in));
    BASE_TRY(cell__tensor_shape(im, out, in->q->rank, in->q->dims));
    BASE_TRY(cell__tensor_alloc(im, out, false, &data, &none));
    for (size_t i = 0; i < out->count; i++) {
        ((float *)data)[i] = stands_for(in, i);
    }
    return BASE_OK;
}

/* Input i, which must be a constant; NULL where there is none. */
static enum base_status constant_of(struct cell__import *im, const struct cell__node *node,
                                    uint32_t i, const char *what, const struct cell__tensor **out)
{
    *out = NULL;
    if (!cell__has_input(node, i)) {
        return BASE_OK;
    }
    const struct cell__value *value = cell__input(im, node, i);
    if (value->kind != CELL__CONST) {
        return cell__refuse(im, "%s that depends on the request", what);
    }
    *out = &value->tensor;
    return BASE_OK;
}

/* Scale and zero point of QuantizeLinear and DequantizeLinear. */
static enum base_status read_scale(struct cell__import *im, const struct cell__node *node,
                                   struct quantised *out)
{
    const struct cell__value *q = cell__input(im, node, IN_Q);
    const uint32_t rank = q->kind == CELL__CONST ? q->tensor.rank : q->shape.rank;
    int64_t axis = 1;
    int64_t block = 0;
    *out = (struct quantised){.q = &q->tensor};
    BASE_TRY(cell__attr_int(im, node, "axis", 1, &axis));
    BASE_TRY(cell__attr_int(im, node, "block_size", 0, &block));
    BASE_TRY(constant_of(im, node, IN_SCALE, "a scale", &out->scale));
    BASE_TRY(constant_of(im, node, IN_ZERO, "a zero point", &out->zero));
    base_assert(out->scale != NULL); // operators.c asks for it
    if (block != 0) {
        return cell__refuse(im, "scales of blocks");
    }
    axis += axis < 0 ? (int64_t)rank : 0;
    out->axis = axis < 0 || axis >= (int64_t)rank ? rank : (uint32_t)axis;
    return BASE_OK;
}

/* ---- What was quantised by its own scale ----------------------------------------------------- */

/* Nodes between a DynamicQuantizeLinear and who takes its result, at most. */
#define BETWEEN_MAX 8u

/* Those that leave the numbers as they are. */
static bool is_layout(const struct cell__node *node)
{
    static cell__op_fn *const table[] = {
        cell__infer_identity,  cell__infer_transpose, cell__infer_reshape, cell__infer_squeeze,
        cell__infer_unsqueeze, cell__infer_flatten,   cell__infer_slice,   cell__infer_gather};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (node->op != NULL && node->op->infer == table[i]) {
            return true;
        }
    }
    return false;
}

/* The DynamicQuantizeLinear that a value comes from, or NULL. */
static const struct cell__node *quantised_by(const struct cell__import *im, uint32_t v)
{
    for (uint32_t i = 0; i <= BETWEEN_MAX && v != CELL__NONE; i++) {
        const uint32_t number = im->values[v].node;
        const struct cell__node *node = number == CELL__NONE ? NULL : &im->nodes[number];
        if (node != NULL && node->op != NULL && node->op->infer == cell__infer_dynamic) {
            return node;
        }
        v = node != NULL && is_layout(node) ? node->inputs[0] : CELL__NONE;
    }
    return NULL;
}

/* What it gives is not what ONNX says, unless it is taken together: the integers without their zero
 * point, or at another scale, would be other numbers. scale: CELL__NONE where none is asked for. */
static enum base_status check_together(struct cell__import *im, const struct cell__node *node,
                                       uint32_t scale, uint32_t zero)
{
    enum { OUT_SCALE = 1, OUT_ZERO = 2 };
    const struct cell__node *by = quantised_by(im, node->inputs[0]);
    if (by == NULL) {
        return BASE_OK;
    }
    const bool has_zero = cell__has_input(node, zero) && cell__has_output(by, OUT_ZERO) &&
                          node->inputs[zero] == by->outputs[OUT_ZERO];
    const bool has_scale =
        scale == CELL__NONE || (cell__has_output(by, OUT_SCALE) && cell__has_input(node, scale) &&
                                node->inputs[scale] == by->outputs[OUT_SCALE]);
    return has_zero && has_scale
               ? BASE_OK
               : cell__refuse(im,
                              "without the scale or zero point that DynamicQuantizeLinear gives");
}

/* ---- DequantizeLinear ----------------------------------------------------------------------- */

/* Of rows: one scale, and one zero point or none. */
static enum base_status check_rows(struct cell__import *im, const struct cell__value *value,
                                   const struct quantised *in)
{
    const bool is_input = value->dtype == CELL__U8 || value->dtype == CELL__I8; // of bytes
    if (value->kind != CELL__ROWS || (value->dtype != CELL__F32 && !is_input)) {
        return cell__refuse(im, "of %s values that depend on the request",
                            cell__dtype_name(value->dtype));
    }
    if (is_input && in->zero != NULL && in->zero->dtype != value->dtype) {
        return cell__invalid(im, "a zero point of type %s of %s values",
                             cell__dtype_name(in->zero->dtype), cell__dtype_name(value->dtype));
    }
    const struct quantised one = {.q = in->q, .scale = in->scale, .zero = in->zero, .axis = 0};
    if (in->scale->count != 1 || (in->zero != NULL && in->zero->count != 1)) {
        return cell__refuse(im,
                            "a scale for each index of an axis, of what depends on the request");
    }
    return check_quantised(im, &one);
}

enum base_status cell__infer_dequantise(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *q = cell__input(im, node, IN_Q);
    struct quantised in;
    BASE_TRY(read_scale(im, node, &in));
    if (q->kind != CELL__CONST) {
        BASE_TRY(check_rows(im, q, &in));
        BASE_TRY(check_together(im, node, IN_SCALE, IN_ZERO));
        cell__set_rows(im, node, 0, CELL__F32, &q->shape);
        return BASE_OK;
    }
    struct cell__tensor out;
    if (!is_whole(in.q)) {
        return cell__invalid(im, "of a constant of type %s", cell__dtype_name(in.q->dtype));
    }
    BASE_TRY(dequantise(im, &in, &out));
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

/* Of rows of a table, which the table may hold as floats itself: a row then needs no op, and what
 * is multiplied with it may be looked up (docs/kernels.md, "Gate tables"). */
static enum base_status dequantise_table(struct cell__import *im, const struct quantised *in,
                                         uint32_t *row)
{
    struct cell_op gather = im->rows[*row].op;
    const struct cell_value value = im->rows[*row].value;
    struct cell_weight *table = &gather.weights[0];
    const struct cell__tensor q = {.dtype = CELL__F32,
                                   .rank = 2,
                                   .dims = {table->rows, table->cols},
                                   .count = (size_t)table->rows * table->cols,
                                   .data = table->data};
    const struct quantised whole = {.q = &q, .scale = in->scale, .zero = in->zero, .axis = 2};
    struct cell__tensor floats;
    BASE_TRY(dequantise(im, &whole, &floats));
    table->data = floats.data;
    return cell__row_op(im, &gather, value, row);
}

enum base_status cell__lower_dequantise(struct cell__import *im, struct cell__node *node)
{
    uint32_t row = cell__input(im, node, IN_Q)->row;
    struct quantised in;
    BASE_TRY(read_scale(im, node, &in));
    if (im->rows[row].kind == CELL__ROW_OP && im->rows[row].op.kind == CELL_OP_GATHER) {
        BASE_TRY(dequantise_table(im, &in, &row));
        cell__set_row(im, node, 0, row);
        return BASE_OK;
    }
    const int64_t zero = in.zero == NULL ? 0 : cell__tensor_sym(in.zero, 0).add;
    uint32_t number = CELL__NONE;
    if (zero != 0) {
        BASE_TRY(cell__row_number(im, (float)zero, &number));
        BASE_TRY(cell__row_pair(im, CELL_OP_SUB, row, number, &row));
    }
    BASE_TRY(cell__row_number(im, ((const float *)in.scale->data)[0], &number));
    BASE_TRY(cell__row_pair(im, CELL_OP_MUL, row, number, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- QuantizeLinear ------------------------------------------------------------------------- */

/* What of 8 bits its result is: as the zero point, or as it says. */
static enum base_status read_range(struct cell__import *im, const struct cell__node *node,
                                   const struct quantised *in, enum cell__dtype *out)
{
    enum { UINT8 = 2, INT8 = 3 }; // TensorProto.DataType
    int64_t said = 0;
    BASE_TRY(cell__attr_int(im, node, "output_dtype", 0, &said));
    *out = in->zero != NULL ? in->zero->dtype : said == INT8 ? CELL__I8 : CELL__U8;
    if ((*out != CELL__U8 && *out != CELL__I8) || (said != 0 && said != UINT8 && said != INT8)) {
        return cell__refuse(im, "to anything but uint8 and int8");
    }
    return BASE_OK;
}

/* What is divided by. */
static enum base_status check_scale(struct cell__import *im, const struct quantised *in)
{
    const float *scale = in->scale->data;
    for (size_t i = 0; i < in->scale->count && in->scale->dtype == CELL__F32; i++) {
        if (!isfinite(scale[i]) || fpclassify(scale[i]) == FP_ZERO) {
            return cell__invalid(im, "a scale of %g", (double)scale[i]);
        }
    }
    return BASE_OK;
}

static int64_t lowest(enum cell__dtype dtype)
{
    return dtype == CELL__I8 ? -128 : 0;
}

/* As the row does it: the same bits. */
static float quantise(float x, float scale, float zero, float low)
{
    float q = x / scale;
    q = fmaxf(q, low - zero);
    q = fminf(q, low + 255.0f - zero);
    return rintf(q) + zero;
}

static enum base_status fold_quantise(struct cell__import *im, const struct cell__node *node,
                                      const struct quantised *in, enum cell__dtype dtype)
{
    struct cell__tensor out = {.dtype = dtype};
    void *data = NULL;
    struct cell__sym *none = NULL;
    BASE_TRY(check_quantised(im, in));
    BASE_TRY(cell__tensor_shape(im, &out, in->q->rank, in->q->dims));
    BASE_TRY(cell__tensor_alloc(im, &out, false, &data, &none));
    for (size_t i = 0; i < out.count; i++) {
        const size_t k = along(in, i);
        const float scale = ((const float *)in->scale->data)[in->scale->count == 1 ? 0 : k];
        const int64_t zero =
            in->zero == NULL ? 0 : cell__tensor_sym(in->zero, in->zero->count == 1 ? 0 : k).add;
        const float x = ((const float *)in->q->data)[i];
        if (isnan(x)) {
            return cell__invalid(im, "of a constant that is not a number");
        }
        const float q = quantise(x, scale, (float)zero, (float)lowest(dtype));
        ((uint8_t *)data)[i] = (uint8_t)(int)q;
    }
    cell__set_const(im, node, 0, &out);
    return BASE_OK;
}

enum base_status cell__infer_quantise(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, IN_Q);
    enum cell__dtype dtype = CELL__U8;
    struct quantised in;
    BASE_TRY(read_scale(im, node, &in));
    BASE_TRY(read_range(im, node, &in, &dtype));
    BASE_TRY(check_scale(im, &in));
    if (x->dtype != CELL__F32) {
        return cell__refuse(im, "of type %s", cell__dtype_name(x->dtype));
    }
    if (x->kind == CELL__CONST) {
        return fold_quantise(im, node, &in, dtype);
    }
    BASE_TRY(check_rows(im, x, &in));
    cell__set_rows(im, node, 0, CELL__F32, &x->shape); // whole numbers, in floats
    return BASE_OK;
}

enum base_status cell__lower_quantise(struct cell__import *im, struct cell__node *node)
{
    uint32_t row = cell__input(im, node, IN_Q)->row;
    enum cell__dtype dtype = CELL__U8;
    struct quantised in;
    BASE_TRY(read_scale(im, node, &in));
    BASE_TRY(read_range(im, node, &in, &dtype));
    const float zero = in.zero == NULL ? 0.0f : (float)cell__tensor_sym(in.zero, 0).add;
    const float low = (float)lowest(dtype);
    const struct {
        enum cell_op_kind kind;
        float number;
    } steps[] = {{CELL_OP_DIV, ((const float *)in.scale->data)[0]},
                 {CELL_OP_MAX, low - zero},
                 {CELL_OP_MIN, low + 255.0f - zero},
                 {CELL_OP_ADD, zero}};
    for (size_t i = 0; i < 4; i++) {
        if (steps[i].kind == CELL_OP_ADD) {
            const struct cell_op round = {
                .kind = CELL_OP_ROUND, .n_operands = 1, .operands = {row}};
            BASE_TRY(cell__row_op(im, &round, im->rows[row].value, &row));
        }
        uint32_t number = CELL__NONE;
        BASE_TRY(cell__row_number(im, steps[i].number, &number));
        BASE_TRY(cell__row_pair(im, steps[i].kind, row, number, &row));
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- DynamicQuantizeLinear ------------------------------------------------------------------ */

enum base_status cell__infer_dynamic(struct cell__import *im, struct cell__node *node)
{
    static const float one = 1.0f;
    static const uint8_t zero = 0;
    const struct cell__tensor scale = {.dtype = CELL__F32, .count = 1, .data = &one};
    const struct cell__tensor point = {.dtype = CELL__U8, .count = 1, .data = &zero};
    const struct cell__value *x = cell__input(im, node, 0);
    if (x->kind != CELL__ROWS || x->dtype != CELL__F32) {
        return cell__refuse(im, "of a constant, or of type %s", cell__dtype_name(x->dtype));
    }
    cell__set_rows(im, node, 0, CELL__F32, &x->shape);
    cell__set_const(im, node, 1, &scale);
    cell__set_const(im, node, 2, &point);
    return BASE_OK;
}

/* ---- Products ------------------------------------------------------------------------------- */

/* Takes floats in place of constant input i; their name is that of the weights. */
static enum base_status take_floats(struct cell__import *im, struct cell__node *node, uint32_t i,
                                    const struct cell__tensor *floats)
{
    uint32_t v = CELL__NONE;
    BASE_TRY(cell__value_constant(im, cell__input(im, node, i)->name, floats, &v));
    node->inputs[i] = v;
    return BASE_OK;
}

enum base_status cell__take_whole(struct cell__import *im, struct cell__node *node, uint32_t i)
{
    const struct quantised in = {.q = &cell__input(im, node, i)->tensor};
    struct cell__tensor floats;
    BASE_TRY(dequantise(im, &in, &floats));
    return take_floats(im, node, i, &floats);
}

enum { IN_A, IN_B, IN_A_ZERO, IN_B_ZERO };

/* a less its zero point, of a product that has become one of floats; a itself and the zero point
 * are kept where they were, behind its inputs. */
static enum base_status lower_less(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *zero = &im->values[node->inputs[IN_B_ZERO]];
    uint32_t row = im->values[node->inputs[IN_A_ZERO]].row;
    uint32_t number = CELL__NONE;
    BASE_TRY(cell__row_number(im, (float)cell__tensor_sym(&zero->tensor, 0).add, &number));
    BASE_TRY(cell__row_pair(im, CELL_OP_SUB, row, number, &row));
    cell__input(im, node, IN_A)->row = row;
    return strcmp(node->op->name, "Conv") == 0 ? cell__lower_conv(im, node)
                                               : cell__lower_matmul(im, node);
}

static const struct cell__operator conv_less = {"Conv",           2,          2, 1, "",
                                                cell__infer_conv, lower_less, ""};
static const struct cell__operator matmul_less = {"MatMul",           2,          2, 1, "",
                                                  cell__infer_matmul, lower_less, ""};

/* Makes the product one of floats, a less its zero point unless that is 0. */
static enum base_status become(struct cell__import *im, struct cell__node *node, bool is_conv,
                               const struct cell__tensor *a_zero)
{
    const uint32_t a = node->inputs[IN_A];
    node->n_inputs = 2;
    node->op = cell__operator_find(is_conv ? "Conv" : "MatMul");
    if (a_zero != NULL && cell__tensor_sym(a_zero, 0).add != 0) {
        uint32_t less = CELL__NONE;
        BASE_TRY(cell__value_constant(im, im->values[a].name, a_zero, &less));
        node->inputs[IN_B_ZERO] = less;
        BASE_TRY(cell__value_constant(im, im->values[a].name, a_zero, &less));
        im->values[less] = im->values[a]; // whoever needs it needs the node that makes a
        im->values[less].is_hidden = true;
        node->inputs[IN_A] = less;
        node->inputs[IN_A_ZERO] = a;
        node->op = is_conv ? &conv_less : &matmul_less;
    }
    return node->op->infer(im, node);
}

enum base_status cell__infer_integer_product(struct cell__import *im, struct cell__node *node)
{
    const bool is_conv = strcmp(node->op->name, "ConvInteger") == 0;
    const struct cell__value *a = cell__input(im, node, IN_A);
    const struct cell__value *b = cell__input(im, node, IN_B);
    const struct cell__tensor *a_zero = NULL;
    struct quantised in = {.q = &b->tensor};
    BASE_TRY(constant_of(im, node, IN_A_ZERO, "a zero point", &a_zero));
    BASE_TRY(constant_of(im, node, IN_B_ZERO, "a zero point", &in.zero));
    const struct cell__tensor given = a->tensor;
    const bool is_const = a->kind == CELL__CONST && is_whole(&given) && !is_conv;
    if ((!is_const && (a->kind != CELL__ROWS || a->dtype != CELL__F32)) || b->kind != CELL__CONST ||
        !is_whole(in.q)) {
        return cell__refuse(im, "of anything but what was quantised, and constants of integers");
    }
    if (a_zero != NULL && (!is_whole(a_zero) || a_zero->count != 1)) {
        return cell__refuse(im, "a zero point of each row, or that is no integer");
    }
    BASE_TRY(check_together(im, node, CELL__NONE, IN_A_ZERO));
    in.axis = is_conv || in.q->rank == 0 ? 0 : in.q->rank - 1;
    struct cell__tensor floats;
    BASE_TRY(dequantise(im, &in, &floats));
    BASE_TRY(take_floats(im, node, IN_B, &floats));
    if (is_const) { // a table times a matrix, of which ids choose rows
        const struct quantised table = {.q = &given, .zero = a_zero};
        BASE_TRY(dequantise(im, &table, &floats));
        BASE_TRY(take_floats(im, node, IN_A, &floats));
        a_zero = NULL;
    }
    return become(im, node, is_conv, a_zero);
}

/* ---- DynamicQuantizeLSTM -------------------------------------------------------------------- */

/* W or R, [directions, x or h, gates * hidden], scale and zero point [directions] or [directions,
 * gates * hidden], as an LSTM's: [directions, gates * hidden, x or h]. */
static enum base_status lstm_weights(struct cell__import *im, struct cell__node *node, uint32_t i,
                                     uint32_t scale_at)
{
    const struct cell__value *value = cell__input(im, node, i);
    const struct cell__tensor *q = NULL;
    const struct cell__tensor *scale = NULL;
    const struct cell__tensor *zero = NULL;
    BASE_TRY(constant_of(im, node, i, "weights", &q));
    BASE_TRY(constant_of(im, node, scale_at, "a scale", &scale));
    BASE_TRY(constant_of(im, node, scale_at + 1, "a zero point", &zero));
    base_assert(q != NULL && scale != NULL && zero != NULL); // they were asked for
    char name[CELL__TEXT_BYTES];
    char text[CELL__TEXT_BYTES];
    if (!is_whole(q) || q->rank != 3 || scale->dtype != CELL__F32 || !is_whole(zero)) {
        return cell__invalid(im,
                             "weights \"%s\", %s, that are no three-dimensional integers, or "
                             "have no scale of floats and zero point of integers",
                             cell__quote(name, value->name), cell__tensor_text(text, q));
    }
    const size_t directions = (size_t)q->dims[0];
    const size_t rows = (size_t)q->dims[1];
    const size_t columns = (size_t)q->dims[2];
    const struct cell__tensor *const both[] = {scale, zero};
    for (size_t k = 0; k < 2; k++) {
        if (both[k]->count != directions && both[k]->count != directions * columns) {
            return cell__invalid(im, "weights \"%s\" have a scale or zero point of %s",
                                 cell__quote(name, value->name), cell__tensor_text(text, both[k]));
        }
    }
    const int64_t dims[] = {q->dims[0], q->dims[2], q->dims[1]};
    struct cell__tensor out = {.dtype = CELL__F32};
    void *data = NULL;
    struct cell__sym *none = NULL;
    BASE_TRY(cell__tensor_shape(im, &out, 3, dims));
    BASE_TRY(cell__tensor_alloc(im, &out, false, &data, &none));
    for (size_t c = 0; c < directions * columns; c++) {
        const size_t d = c / columns;
        const size_t s = scale->count == directions ? d : c;
        const size_t z = zero->count == directions ? d : c;
        const int64_t less = cell__tensor_sym(zero, z).add;
        for (size_t r = 0; r < rows; r++) {
            const size_t at = (d * rows + r) * columns + c % columns;
            ((float *)data)[c * rows + r] =
                (float)(cell__tensor_sym(q, at).add - less) * ((const float *)scale->data)[s];
        }
    }
    return take_floats(im, node, i, &out);
}

enum base_status cell__infer_dynamic_lstm(struct cell__import *im, struct cell__node *node)
{
    enum { IN_W = 1, IN_R = 2, IN_P = 7, IN_W_SCALE = 8, IN_R_SCALE = 10 };
    for (uint32_t i = IN_W_SCALE; i < IN_W_SCALE + 4; i++) {
        if (!cell__has_input(node, i)) {
            return cell__invalid(im, "input %u is missing", i);
        }
    }
    BASE_TRY(lstm_weights(im, node, IN_W, IN_W_SCALE));
    BASE_TRY(lstm_weights(im, node, IN_R, IN_R_SCALE));
    node->n_inputs = IN_P + 1;
    node->op = cell__operator_find("LSTM");
    return node->op->infer(im, node);
}
