/* Folding of arithmetic. Floats are computed as ONNX says, in float; integers as symbols where one
 * may depend on the request, else as 64-bit numbers with overflow refused. */
#include "cells/import/fold.h"
#include "cells/ref/pointwise.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

/* Two constants broadcast to one shape. */
struct pair {
    struct cell__tensor a, b;
};

/* Both operands materialised at the result's shape: simple, and bounded by the budget. */
static enum base_status pair_init(struct cell__import *im, const struct cell__tensor *a,
                                  const struct cell__tensor *b, struct pair *pair)
{
    struct cell__view a_view = cell__view_of(a);
    struct cell__view b_view = cell__view_of(b);
    uint32_t rank = 0;
    int64_t dims[CELL_RANK_MAX];
    BASE_TRY(cell__broadcast(im, &a_view, &b_view, &rank, dims));
    a_view = cell__view_broadcast(&a_view, rank, dims);
    b_view = cell__view_broadcast(&b_view, rank, dims);
    BASE_TRY(cell__fold_view(im, a, &a_view, &pair->a));
    return cell__fold_view(im, b, &b_view, &pair->b);
}

static float compute_f32(char op, float a, float b)
{
    if (op == '>' || op == '<') {
        const enum cell_op_kind kind = op == '>' ? CELL_OP_MAX : CELL_OP_MIN;
        return cell_pointwise_f32__scalar(kind, a, b, 0.0f);
    }
    if (op == '^') {
        return cell_pointwise_f32__scalar(CELL_OP_POW, a, b, 0.0f);
    }
    return op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : a / b;
}

static enum base_status equal(struct cell__import *im, const struct pair *pair, uint8_t *data)
{
    for (size_t i = 0; i < pair->a.count; i++) {
        if (pair->a.dtype == CELL__F32) {
            float a = ((const float *)pair->a.data)[i];
            float b = ((const float *)pair->b.data)[i];
            data[i] = (uint8_t)(a <= b && a >= b);
            continue;
        }
        struct cell__sym a = cell__tensor_sym(&pair->a, i);
        struct cell__sym b = cell__tensor_sym(&pair->b, i);
        int is_equal = cell__sym_equal(im, &a, &b);
        if (is_equal < 0) {
            return cell__refuse(im, "the answer depends on the batch or time axis");
        }
        data[i] = (uint8_t)is_equal;
    }
    return BASE_OK;
}

/* What one number of steps has more than another that follows from the same, where that is fixed.
 */
static bool subtract_steps(const struct cell__import *im, const struct cell__sym *a,
                           const struct cell__sym *b, struct cell__sym *out)
{
    int64_t more = 0;
    const bool is_fixed = cell__steps_more(im, a, b, &more);
    *out = cell__sym_number(more);
    return is_fixed;
}

/* Where the request's shape decides: as it will be, by an axis. */
static bool compute_of_axis(struct cell__import *im, char op, const struct cell__sym *a,
                            const struct cell__sym *b, struct cell__sym *out)
{
    return (op == '-' && subtract_steps(im, a, b, out)) ||
           (op == '/' && cell__sym_is_number(b) && cell__axis_divide(im, a, b->add, out)) ||
           (op == '%' && cell__axis_wrapped(im, a, b, out)) ||
           (op == '>' && cell__axis_larger(im, a, b, out)) ||
           (op == '<' && (cell__axis_smaller(im, a, b, out) || cell__axis_bounded(im, a, b, out)));
}

static enum base_status compute_integers(struct cell__import *im, char op, const struct pair *pair,
                                         struct cell__tensor *out)
{
    void *data = NULL;
    struct cell__sym *syms = NULL;
    bool with_syms = pair->a.syms != NULL || pair->b.syms != NULL;
    BASE_TRY(cell__tensor_alloc(im, out, with_syms, &data, &syms));
    for (size_t i = 0; i < out->count; i++) {
        struct cell__sym a = cell__tensor_sym(&pair->a, i);
        struct cell__sym b = cell__tensor_sym(&pair->b, i);
        struct cell__sym result;
        if (!cell__sym_compute(im, op, &a, &b, &result) &&
            !compute_of_axis(im, op, &a, &b, &result)) {
            return cell__refuse(im, "cannot compute a shape this way, or it overflows");
        }
        cell__axis_settle(im, &result);
        if (with_syms) {
            syms[i] = result;
        } else if (out->dtype == CELL__I64) {
            ((int64_t *)data)[i] = result.add;
        } else if (result.add >= INT32_MIN && result.add <= INT32_MAX) {
            ((int32_t *)data)[i] = (int32_t)result.add;
        } else {
            return cell__refuse(im, "an int32 overflows");
        }
    }
    return cell__tensor_settle(im, out);
}

enum base_status cell__fold_binary(struct cell__import *im, char op, const struct cell__tensor *a,
                                   const struct cell__tensor *b, struct cell__tensor *out)
{
    struct pair pair;
    if (a->dtype != b->dtype || (cell__dtype_bytes(a->dtype) == 1 && op != '=')) {
        return cell__invalid(im, "operands of type %s and %s", cell__dtype_name(a->dtype),
                             cell__dtype_name(b->dtype));
    }
    BASE_TRY(pair_init(im, a, b, &pair));
    *out = (struct cell__tensor){.dtype = op == '=' ? CELL__BOOL : a->dtype};
    BASE_TRY(cell__tensor_shape(im, out, pair.a.rank, pair.a.dims));
    if (op != '=' && a->dtype != CELL__F32) {
        return compute_integers(im, op, &pair, out);
    }
    void *data = NULL;
    struct cell__sym *none = NULL;
    BASE_TRY(cell__tensor_alloc(im, out, false, &data, &none));
    if (op == '=') {
        return equal(im, &pair, data);
    }
    for (size_t i = 0; i < out->count; i++) {
        ((float *)data)[i] =
            compute_f32(op, ((const float *)pair.a.data)[i], ((const float *)pair.b.data)[i]);
    }
    return BASE_OK;
}

enum base_status cell__fold_where(struct cell__import *im, const struct cell__tensor *condition,
                                  const struct cell__tensor *a, const struct cell__tensor *b,
                                  struct cell__tensor *out)
{
    struct pair values;
    struct pair first;  // condition and a, at the shape of all three
    struct pair second; // b at that shape
    if (condition->dtype != CELL__BOOL || a->dtype != b->dtype) {
        return cell__invalid(im, "condition of type %s, values of type %s and %s",
                             cell__dtype_name(condition->dtype), cell__dtype_name(a->dtype),
                             cell__dtype_name(b->dtype));
    }
    BASE_TRY(pair_init(im, a, b, &values));
    BASE_TRY(pair_init(im, condition, &values.a, &first));
    BASE_TRY(pair_init(im, &values.b, &first.b, &second));
    *out = (struct cell__tensor){.dtype = a->dtype};
    BASE_TRY(cell__tensor_shape(im, out, first.a.rank, first.a.dims));
    void *data = NULL;
    struct cell__sym *syms = NULL;
    BASE_TRY(cell__tensor_alloc(im, out, a->syms != NULL || b->syms != NULL, &data, &syms));
    size_t bytes = cell__dtype_bytes(out->dtype);
    for (size_t i = 0; i < out->count; i++) {
        bool is_first = ((const uint8_t *)first.a.data)[i] != 0;
        const struct cell__tensor *from = is_first ? &first.b : &second.a;
        if (syms != NULL) {
            syms[i] = cell__tensor_sym(from, i);
        } else {
            memcpy((char *)data + i * bytes, (const char *)from->data + i * bytes, bytes);
        }
    }
    return cell__tensor_settle(im, out);
}

/* ---- Cast --------------------------------------------------------------------------------- */

static bool cast_element(const struct cell__tensor *in, size_t i, enum cell__dtype dtype,
                         void *data)
{
    bool is_float = in->dtype == CELL__F32;
    double number =
        is_float ? (double)((const float *)in->data)[i] : (double)cell__tensor_sym(in, i).add;
    int64_t integer = 0;
    if (!is_float) {
        integer = cell__tensor_sym(in, i).add;
    } else if (dtype != CELL__F32 && dtype != CELL__BOOL) {
        if (!(fabs(number) < 9.2e18)) {
            return false;
        }
        integer = (int64_t)number;
    }
    switch (dtype) {
    case CELL__F32:
        ((float *)data)[i] = (float)number;
        return true;
    case CELL__I64:
        ((int64_t *)data)[i] = integer;
        return true;
    case CELL__I32:
        ((int32_t *)data)[i] = (int32_t)integer;
        return integer >= INT32_MIN && integer <= INT32_MAX;
    case CELL__BOOL:
        ((uint8_t *)data)[i] = (uint8_t)(number < 0 || number > 0);
        return true;
    case CELL__U8:
    case CELL__I8: // nobody casts to these
    case CELL__F64_GIVEN:
    case CELL__F64_MADE:
        break;
    }
    return false;
}

enum base_status cell__fold_cast(struct cell__import *im, const struct cell__tensor *in,
                                 enum cell__dtype dtype, struct cell__tensor *out)
{
    *out = *in;
    if (in->dtype == dtype) {
        return BASE_OK;
    }
    if (in->syms != NULL) {
        // Integers keep their symbols; a float of one cannot be followed.
        out->dtype = dtype;
        return dtype == CELL__I32 || dtype == CELL__I64
                   ? BASE_OK
                   : cell__refuse(im, "computes with the size of batch or time");
    }
    void *data = NULL;
    struct cell__sym *none = NULL;
    out->dtype = dtype;
    BASE_TRY(cell__tensor_alloc(im, out, false, &data, &none));
    for (size_t i = 0; i < in->count; i++) {
        if (!cast_element(in, i, dtype, data)) {
            return cell__invalid(im, "a constant does not fit %s", cell__dtype_name(dtype));
        }
    }
    return BASE_OK;
}
