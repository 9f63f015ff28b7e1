/* MatMul and Gemm with constant weights. */
#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <string.h>

/* y @ q, of a MatMul: a number for each row. */
static bool is_by_vector(struct cell__import *im, const struct cell__node *node)
{
    const struct cell__value *w = cell__input(im, node, 1);
    return w->kind == CELL__CONST && w->tensor.rank == 1 && strcmp(node->op->name, "MatMul") == 0;
}

/* The weights of a product: operand 1, a constant matrix. */
static enum base_status check_product(struct cell__import *im, const struct cell__node *node,
                                      uint32_t in_axis)
{
    const struct cell__value *x = cell__input(im, node, 0);
    const struct cell__value *w = cell__input(im, node, 1);
    if (x->kind != CELL__ROWS || w->kind != CELL__CONST) {
        return cell__refuse(im, "only x times constant weights is supported");
    }
    if (x->dtype != CELL__F32 || w->dtype != CELL__F32) {
        return cell__refuse(im, "operands of type %s and %s", cell__dtype_name(x->dtype),
                            cell__dtype_name(w->dtype));
    }
    if (x->shape.rank == 0 || (w->tensor.rank != 2 && !is_by_vector(im, node))) {
        return cell__refuse(im, "operands of rank %u and %u", x->shape.rank, w->tensor.rank);
    }
    int64_t in = cell__axis_size(im, &x->shape.axes[x->shape.rank - 1]);
    if (in != w->tensor.dims[in_axis]) {
        char name[CELL__TEXT_BYTES];
        char text[CELL__TEXT_BYTES];
        return cell__invalid(im, "x has %lld elements on its last axis; the weights \"%s\" are %s",
                             (long long)in, cell__quote(name, w->name),
                             cell__tensor_text(text, &w->tensor));
    }
    return BASE_OK;
}

static enum base_status set_product(struct cell__import *im, struct cell__node *node, int64_t width)
{
    struct cell__shape out = cell__input(im, node, 0)->shape;
    BASE_TRY(cell__axis_new(im, width, &out.axes[out.rank - 1]));
    cell__set_rows(im, node, 0, CELL__F32, &out);
    return BASE_OK;
}

/* W is [in, out]; bias may be NULL. *out: the row. */
static enum base_status lower_product(struct cell__import *im, const struct cell__node *node,
                                      const struct cell__tensor *w, const float *bias,
                                      uint32_t *out)
{
    const struct cell__value *x = cell__input(im, node, 0);
    struct cell__place place;
    uint32_t row = x->row;
    BASE_TRY(cell__row_of_steps(im, &x->shape, x->shape.rank - 1, "multiplies", &row, &place));
    base_assert(im->rows[row].value.width == place.outer * place.size);
    base_assert(w->dims[0] == place.size);
    if (w->dims[1] < 1 || w->dims[1] > CELL_WIDTH_MAX / place.outer) {
        return cell__refuse(im, "a result of %lld elements", (long long)w->dims[1]);
    }
    const uint32_t width = (uint32_t)w->dims[1];
    struct cell_op op = {
        .kind = CELL_OP_LINEAR, .n_operands = 1, .operands = {row}, .n_weights = 1};
    op.patches = place.outer > 1 ? place.outer : 0; // the same for each of the axes before it
    op.step = place.outer > 1 ? place.size : 0;
    op.weights[0] = (struct cell_weight){CELL_F32, place.size, width, w->data};
    if (bias != NULL) {
        op.weights[op.n_weights++] = (struct cell_weight){CELL_F32, 1, width, bias};
    }
    const struct cell_value value = {CELL_F32, place.outer * width};
    return cell__row_op(im, &op, value, out);
}

static bool is_of_rows(struct cell__import *im, const struct cell__node *node)
{
    return cell__input(im, node, 0)->kind == CELL__ROWS &&
           cell__input(im, node, 1)->kind == CELL__ROWS;
}

enum base_status cell__infer_matmul(struct cell__import *im, struct cell__node *node)
{
    if (is_of_rows(im, node)) {
        return cell__infer_rows_product(im, node);
    }
    if (cell__input(im, node, 0)->kind == CELL__CONST &&
        cell__input(im, node, 1)->kind == CELL__CONST) {
        struct cell__tensor out;
        BASE_TRY(cell__fold_product(im, &cell__input(im, node, 0)->tensor,
                                    &cell__input(im, node, 1)->tensor, &out));
        cell__set_const(im, node, 0, &out);
        return BASE_OK;
    }
    BASE_TRY(check_product(im, node, 0));
    if (is_by_vector(im, node)) {
        struct cell__shape out = cell__input(im, node, 0)->shape;
        out.rank--;
        cell__set_rows(im, node, 0, CELL__F32, &out);
        return BASE_OK;
    }
    return set_product(im, node, cell__input(im, node, 1)->tensor.dims[1]);
}

enum base_status cell__lower_matmul(struct cell__import *im, struct cell__node *node)
{
    uint32_t row = CELL__NONE;
    if (is_of_rows(im, node)) {
        return cell__lower_rows_product(im, node);
    }
    struct cell__tensor w = cell__input(im, node, 1)->tensor;
    if (w.rank == 1) {
        w.rank = 2;
        w.dims[1] = 1;
    }
    BASE_TRY(lower_product(im, node, &w, NULL, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

/* ---- Gemm --------------------------------------------------------------------------------- */

/* C, of floats; where it depends on the request, a row for each of x, or one for all: such as h R
 * of a gate's sum, which optimisers put there. */
static enum base_status check_c(struct cell__import *im, const struct cell__node *node,
                                int64_t width)
{
    const struct cell__value *c = cell__input(im, node, 2);
    const struct cell__axis *rows = &c->shape.axes[0];
    if (c->dtype != CELL__F32) {
        return cell__refuse(im, "C of type %s", cell__dtype_name(c->dtype));
    }
    if (c->kind == CELL__CONST) {
        return BASE_OK; // see constant_bias()
    }
    if (c->kind != CELL__ROWS || c->shape.rank < 1 || c->shape.rank > 2 ||
        cell__axis_size(im, &c->shape.axes[c->shape.rank - 1]) != width) {
        return cell__refuse(im, "C that depends on the request, and is no rows of %lld elements",
                            (long long)width);
    }
    return c->shape.rank == 1 || cell__axis_size(im, rows) == 1
               ? BASE_OK
               : cell__axis_unite(im, rows, &cell__input(im, node, 0)->shape.axes[0], "C");
}

enum base_status cell__infer_gemm(struct cell__import *im, struct cell__node *node)
{
    int64_t trans_a = 0;
    int64_t trans_b = 0;
    BASE_TRY(cell__attr_int(im, node, "transA", 0, &trans_a));
    BASE_TRY(cell__attr_int(im, node, "transB", 0, &trans_b));
    BASE_TRY(check_product(im, node, trans_b != 0 ? 1 : 0));
    if (trans_a != 0 || cell__input(im, node, 0)->shape.rank != 2) {
        return cell__refuse(im, "transA, or an input of rank %u",
                            cell__input(im, node, 0)->shape.rank);
    }
    const int64_t width = cell__input(im, node, 1)->tensor.dims[trans_b != 0 ? 0 : 1];
    BASE_TRY(cell__has_input(node, 2) ? check_c(im, node, width) : BASE_OK);
    return set_product(im, node, width);
}

/* factor * the tensor, broadcast to rank and dims. */
static enum base_status scaled(struct cell__import *im, const struct cell__tensor *in,
                               const struct cell__view *view, float factor,
                               struct cell__tensor *out)
{
    struct cell__tensor scale = {.dtype = CELL__F32, .count = 1, .data = &factor};
    struct cell__tensor copy;
    BASE_TRY(cell__fold_view(im, in, view, &copy));
    if (factor >= 1.0f && factor <= 1.0f) {
        *out = copy;
        return BASE_OK;
    }
    return cell__fold_binary(im, '*', &copy, &scale, out);
}

/* beta * C as the bias of a product of this width. */
static enum base_status constant_bias(struct cell__import *im, const struct cell__tensor *c,
                                      float beta, int64_t width, struct cell__tensor *out)
{
    struct cell__view from = cell__view_of(c);
    struct cell__view row = {.rank = 1, .dims = {width}};
    uint32_t rank = 0;
    int64_t dims[CELL_RANK_MAX];
    BASE_TRY(cell__broadcast(im, &from, &row, &rank, dims));
    if (rank > 2 || (rank == 2 && dims[0] != 1) || dims[rank - 1] != width) {
        return cell__refuse(im, "C differs along the batch or time axis");
    }
    from = cell__view_broadcast(&from, rank, dims);
    return scaled(im, c, &from, beta, out);
}

/* Adds beta * C to the row. */
static enum base_status add_c(struct cell__import *im, const struct cell__value *c, float beta,
                              uint32_t *row)
{
    uint32_t by = CELL__NONE;
    uint32_t added = c->row;
    if (beta != 1.0f) {
        BASE_TRY(cell__row_number(im, beta, &by));
        BASE_TRY(cell__row_pair(im, CELL_OP_MUL, added, by, &added));
    }
    return cell__row_pair(im, CELL_OP_ADD, *row, added, row);
}

/* As many matrices are kept turned; of more each product turns its own. */
#define TURNED_MAX 64u

static const struct cell__tensor *find_turned(const struct cell__import *im,
                                              const struct cell__tensor *b)
{
    for (uint32_t i = 0; i < im->n_turned; i++) {
        const struct cell__tensor *from = &im->turned[i].from;
        if (from->data == b->data && from->dims[0] == b->dims[0] && from->dims[1] == b->dims[1]) {
            return &im->turned[i].to;
        }
    }
    return NULL;
}

/* alpha * B, turned round where its rows are those of the result. */
static enum base_status weights_of(struct cell__import *im, const struct cell__tensor *b,
                                   bool is_turned, float alpha, struct cell__tensor *out)
{
    const bool is_as_given = alpha >= 1.0f && alpha <= 1.0f;
    const struct cell__tensor *known = is_turned && is_as_given ? find_turned(im, b) : NULL;
    struct cell__view view = cell__view_of(b);
    if (known != NULL || (is_as_given && !is_turned)) {
        *out = known != NULL ? *known : *b;
        return BASE_OK;
    }
    if (is_turned) {
        view.dims[0] = b->dims[1];
        view.dims[1] = b->dims[0];
        view.strides[0] = 1;
        view.strides[1] = b->dims[1];
    }
    BASE_TRY(scaled(im, b, &view, alpha, out));
    if (im->turned == NULL) {
        im->turned = base_arena_array(im->arena, TURNED_MAX, sizeof(im->turned[0]));
    }
    if (im->turned != NULL && is_as_given && im->n_turned < TURNED_MAX) {
        im->turned[im->n_turned++] = (struct cell__turned){.from = *b, .to = *out};
    }
    return BASE_OK;
}

enum base_status cell__lower_gemm(struct cell__import *im, struct cell__node *node)
{
    const struct cell__tensor *b = &cell__input(im, node, 1)->tensor;
    const struct cell__value *c = cell__has_input(node, 2) ? cell__input(im, node, 2) : NULL;
    struct cell__tensor w;
    struct cell__tensor bias = {.data = NULL};
    int64_t trans_b = 0;
    float alpha = 1.0f;
    float beta = 1.0f;
    uint32_t row = CELL__NONE;
    BASE_TRY(cell__attr_int(im, node, "transB", 0, &trans_b));
    BASE_TRY(cell__attr_float(im, node, "alpha", 1.0f, &alpha));
    BASE_TRY(cell__attr_float(im, node, "beta", 1.0f, &beta));
    BASE_TRY(weights_of(im, b, trans_b != 0, alpha, &w));
    if (c != NULL && c->kind == CELL__CONST) {
        BASE_TRY(constant_bias(im, &c->tensor, beta, w.dims[1], &bias));
    }
    BASE_TRY(lower_product(im, node, &w, bias.data, &row));
    if (c != NULL && c->kind == CELL__ROWS) {
        BASE_TRY(add_c(im, c, beta, &row));
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
