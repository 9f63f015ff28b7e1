/* See products.h. */
#include "cells/import/products.h"

#include "cells/import/ops.h"

#include <stdbool.h>
#include <string.h>

static const char as_it_is[] = "as it is"; /* other products are no matter of this file */

/* ---- A constant on the left ---------------------------------------------------------------------
 */

/* A constant matrix times features that stand before the steps, as filter banks are written, or
 * before the batch, as scores of all items (W h^T): of rows of features times the matrix turned
 * about. */
static enum base_status write_left(struct cell__writer *w)
{
    static const int64_t turn[] = {1, 0};
    const struct cell__value *matrix = NULL;
    const struct cell__value *of = NULL;
    int64_t perm[CELL_RANK_MAX] = {0};
    const char *x = NULL;
    const char *turned = NULL;
    BASE_TRY(cell__writer_value(w, w->proto->input[0], &matrix));
    BASE_TRY(cell__writer_value(w, w->proto->input[1], &of));
    if (matrix->kind != CELL__CONST || matrix->tensor.rank != 2 || of->kind != CELL__ROWS ||
        of->shape.rank < 2) {
        return cell__unwritten(w, as_it_is);
    }
    const uint32_t rank = of->shape.rank;
    for (uint32_t k = 0; k < rank; k++) {
        perm[k] = k;
    }
    perm[rank - 2] = rank - 1;
    perm[rank - 1] = rank - 2;
    BASE_TRY(cell__write_transpose(w, w->proto->input[1], perm, rank, &x));
    BASE_TRY(cell__write_transpose(w, w->proto->input[0], turn, 2, &turned));
    BASE_TRY(cell__write(w, "MatMul", (const char *[]){x, turned, NULL}, &x));
    return cell__write_transpose(w, x, perm, rank, &w->out);
}

/* A constant matrix times features that stand before the batch, with nothing added: as MatMul's. */
enum base_status cell__write_gemm(struct cell__writer *w)
{
    static const int64_t turn[] = {1, 0};
    const struct cell__value *values[2];
    int64_t turns[2] = {0, 0};
    float beta = 1.0f;
    float alpha = 1.0f;
    Onnx__NodeProto *product = NULL;
    const char *x = NULL;
    const char *turned = NULL;
    for (uint32_t i = 0; i < 2; i++) {
        BASE_TRY(cell__writer_value(w, w->proto->input[i], &values[i]));
    }
    BASE_TRY(cell__writer_int(w, "transA", &turns[0]));
    BASE_TRY(cell__writer_int(w, "transB", &turns[1]));
    BASE_TRY(cell__writer_float(w, "alpha", &alpha));
    BASE_TRY(cell__writer_float(w, "beta", &beta));
    if (values[0]->kind != CELL__CONST || values[0]->tensor.rank != 2 ||
        values[1]->kind != CELL__ROWS || values[1]->shape.rank != 2 || turns[0] != 0 ||
        turns[1] != 0 || (cell__writer_has(w, 2) && beta != 0.0f)) {
        return cell__unwritten(w, as_it_is);
    }
    BASE_TRY(cell__write_transpose(w, w->proto->input[1], turn, 2, &x));
    BASE_TRY(cell__write_transpose(w, w->proto->input[0], turn, 2, &turned));
    BASE_TRY(cell__build_node(w->builder, "Gemm", (const char *[]){x, turned, NULL}, 1, &product));
    BASE_TRY(cell__build_set_float(w->builder, product, "alpha", alpha));
    return cell__write_transpose(w, product->output[0], turn, 2, &w->out);
}

/* ---- A constant for each row of the batch ------------------------------------------------------
 */

#define LOOK_MAX 16u /* Identities that a value is looked through at most */

/* The node that made a value, Identity aside, or NULL. */
static const struct cell__node *maker_of(const struct cell__import *im, uint32_t v)
{
    for (uint32_t n = 0; n < LOOK_MAX && v != CELL__NONE; n++) {
        const uint32_t node = im->values[v].node;
        const struct cell__node *made = node == CELL__NONE ? NULL : &im->nodes[node];
        if (made == NULL || made->op == NULL || strcmp(made->op->name, "Identity") != 0) {
            return made != NULL && made->op != NULL ? made : NULL;
        }
        v = made->n_inputs > 0 ? made->inputs[0] : CELL__NONE;
    }
    return NULL;
}

/* Whether a constant is one matrix, of axes of one element before. */
static bool is_matrix(const struct cell__value *value)
{
    bool is = value->kind == CELL__CONST && value->tensor.rank >= 2;
    for (uint32_t k = 0; is && k + 2 < value->tensor.rank; k++) {
        is = value->tensor.dims[k] == 1;
    }
    return is;
}

/* Whether the last two axes are those of the matrix, and those before are x's. */
static bool is_each_row(struct cell__import *im, const struct cell__shape *x,
                        const struct cell__shape *of, const struct cell__tensor *matrix)
{
    const uint32_t more = x->rank - of->rank;
    bool is = true;
    for (uint32_t k = 0; is && k < of->rank; k++) {
        const struct cell__axis *axis = &of->axes[k];
        is = k + 2 < of->rank
                 ? cell__axis_is_same(im, &x->axes[more + k], axis)
                 : cell__axis_size(im, axis) == matrix->dims[matrix->rank + k - of->rank];
    }
    return is;
}

/* The constant matrix that an operand is for each row of x: of more axes than two, or
 * `weights.expand(batch, n, m)` of `weights[1, n, m]`. NONE: it is none. */
static uint32_t find_matrix(struct cell__import *im, const struct cell__value *x,
                            const struct cell__value *of, uint32_t v)
{
    if (x->kind != CELL__ROWS) {
        return CELL__NONE;
    }
    if (of->kind == CELL__CONST) {
        const bool is_one = of->tensor.rank > 2 && of->tensor.rank <= x->shape.rank;
        return is_one && is_matrix(of) ? v : CELL__NONE;
    }
    const struct cell__node *made = maker_of(im, v);
    if (of->shape.rank < 2 || x->shape.rank < of->shape.rank || made == NULL ||
        made->n_inputs == 0 || made->inputs[0] == CELL__NONE ||
        (strcmp(made->op->name, "Expand") != 0 && strcmp(made->op->name, "Tile") != 0)) {
        return CELL__NONE;
    }
    const struct cell__value *matrix = &im->values[made->inputs[0]];
    return is_matrix(matrix) && matrix->tensor.rank <= of->shape.rank &&
                   is_each_row(im, &x->shape, &of->shape, &matrix->tensor)
               ? made->inputs[0]
               : CELL__NONE;
}

static enum base_status write_matrix(struct cell__writer *w, uint32_t matrix)
{
    static const int64_t ones[CELL_RANK_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    const struct cell__value value = w->im->values[matrix];
    const char *by = NULL;
    BASE_TRY(cell__write_axes(w, "Squeeze", value.name, ones, value.tensor.rank - 2, &by));
    return cell__write(w, "MatMul", (const char *[]){w->proto->input[0], by, NULL}, &w->out);
}

enum base_status cell__write_product(struct cell__writer *w)
{
    const struct cell__value *x = NULL;
    const struct cell__value *of = NULL;
    uint32_t v = 0;
    BASE_TRY(cell__writer_value(w, w->proto->input[0], &x));
    BASE_TRY(cell__writer_value(w, w->proto->input[1], &of));
    if (cell__value_named(w->im, w->proto->input[1], &v) != BASE_OK) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    const uint32_t matrix = find_matrix(w->im, x, of, v);
    return matrix == CELL__NONE ? write_left(w) : write_matrix(w, matrix);
}
