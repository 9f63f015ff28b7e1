/* Elements between the steps of a sequence as PyTorch's newer exporter writes them, which has no
 * Resize for floats: of T steps n T are made (half_pixel, as torch.nn.functional.interpolate has
 * it with mode linear and without align_corners),
 *
 *     p = max((Range(0, n T) + 0.5) / n - 0.5, 0)
 *     first = trunc(p), second = min(first + 1, T - 1), share = clip(p - first, 0, 1)
 *     x[first] + (x[second] - x[first]) * share
 *
 * where x[..] is a GatherND of x with the steps' axis in front, which a Transpose brings back,
 * before the difference is taken or, as ONNX Runtime moves it, behind it. Every node and number is
 * looked at, since none of them is computed: an integer that depends on the number of steps of
 * another sequence is nothing that a row holds. */
#include "cells/import/interpolate.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <string.h>

/* ---- Nodes --------------------------------------------------------------------------------- */

/* The standard's node of this name that makes input i; it has n inputs of its own, or fewer. */
static const struct cell__node *made(const struct cell__import *im, const struct cell__node *node,
                                     uint32_t i, const char *name, uint32_t n)
{
    const struct cell__node *maker = cell__made_by(im, node, i, name);
    const char *domain = maker == NULL ? NULL : maker->proto->domain;
    const bool is_standard = domain == NULL || domain[0] == '\0';
    return maker != NULL && is_standard && maker->n_inputs <= n && cell__has_input(maker, 0) ? maker
                                                                                             : NULL;
}

static bool is_float(const struct cell__import *im, const struct cell__node *node, uint32_t i,
                     float wanted)
{
    const struct cell__value *value =
        cell__has_input(node, i) ? &im->values[node->inputs[i]] : NULL;
    float number = 0.0f;
    if (value == NULL || value->kind != CELL__CONST || value->dtype != CELL__F32 ||
        value->tensor.count != 1) {
        return false;
    }
    memcpy(&number, value->tensor.data, sizeof(number));
    return number <= wanted && number >= wanted;
}

static bool is_integer(const struct cell__import *im, const struct cell__node *node, uint32_t i,
                       int64_t wanted)
{
    struct cell__sym sym;
    return cell__value_size(cell__input_of(im, node, i), &sym) && cell__sym_is(&sym, wanted);
}

/* Whether an input is a number of steps, whatever the request. */
static bool is_steps(const struct cell__import *im, const struct cell__node *node, uint32_t i,
                     const struct cell__sym *wanted)
{
    struct cell__sym sym;
    return cell__value_size(cell__input_of(im, node, i), &sym) &&
           cell__sym_equal(im, &sym, wanted) == 1;
}

/* Whether an attribute, which is `otherwise` where it is absent, is this integer. */
static bool has_int(const struct cell__node *node, const char *name, int64_t otherwise,
                    int64_t wanted)
{
    const Onnx__AttributeProto *attribute = cell__attr(node, name);
    return (attribute == NULL ? otherwise : attribute->i) == wanted;
}

static const struct cell__node *cast_to(const struct cell__import *im,
                                        const struct cell__node *node, uint32_t i, int64_t type)
{
    const struct cell__node *cast = made(im, node, i, "Cast", 1);
    return cast != NULL && has_int(cast, "to", 0, type) && has_int(cast, "saturate", 1, 1) ? cast
                                                                                           : NULL;
}

/* Whether two inputs are one value. */
static bool is_same(const struct cell__node *a, uint32_t i, const struct cell__node *b, uint32_t k)
{
    return cell__has_input(a, i) && cell__has_input(b, k) && a->inputs[i] == b->inputs[k];
}

/* ---- The chain ----------------------------------------------------------------------------- */

/* What is interpolated: axis `axis` of value x, `by` times as many. */
struct upsampled {
    uint32_t x, axis;
    bool is_front; /* x has it in front, and the result behind all others, which keep their order */
    int64_t by;
    struct cell__sym steps, all; /* T, and n T */
};

/* Whether a Transpose puts the first axis behind the others. */
static bool moves_first(const Onnx__AttributeProto *perm, size_t rank)
{
    bool is = perm != NULL && perm->n_ints == rank && rank > 1;
    for (size_t k = 0; is && k < rank; k++) {
        is = perm->ints[k] == (int64_t)((k + 1) % rank);
    }
    return is;
}

/* Whether one Transpose undoes the other, of a tensor of this rank. */
static bool undoes(const Onnx__AttributeProto *from, const Onnx__AttributeProto *to, size_t rank)
{
    bool is = from != NULL && to != NULL && to->n_ints == rank && from->n_ints == rank && rank > 0;
    for (size_t k = 0; is && k < rank; k++) {
        is = from->ints[k] >= 0 && from->ints[k] < (int64_t)rank &&
             to->ints[from->ints[k]] == (int64_t)k;
    }
    return is;
}

/* What a GatherND takes whole rows of the first axis of: of a Transpose, which `back` behind it
 * undoes; or of what has its steps there. */
static bool read_source(const struct cell__import *im, const struct cell__node *gather,
                        const struct cell__node *back, struct upsampled *out)
{
    if (gather == NULL || back == NULL || !has_int(gather, "batch_dims", 0, 0)) {
        return false;
    }
    const struct cell__node *there = made(im, gather, 0, "Transpose", 1);
    const Onnx__AttributeProto *from = cell__attr(back, "perm");
    const Onnx__AttributeProto *to = there == NULL ? NULL : cell__attr(there, "perm");
    const uint32_t behind = there == NULL ? CELL__NONE : there->inputs[0];
    if (behind != CELL__NONE && im->values[behind].kind == CELL__ROWS &&
        undoes(from, to, im->values[behind].shape.rank)) {
        out->x = behind;
        out->axis = (uint32_t)to->ints[0]; // a permutation: it has been found among them
        out->is_front = false;
        return true;
    }
    out->x = gather->inputs[0];
    out->axis = 0;
    out->is_front = true;
    return im->values[out->x].kind == CELL__ROWS &&
           moves_first(from, im->values[out->x].shape.rank);
}

static bool is_same_source(const struct upsampled *a, const struct upsampled *b)
{
    return a->x == b->x && a->axis == b->axis && a->is_front == b->is_front;
}

/* The two GatherNDs, of each step and of the next, of which the second operand of the sum is made:
 * the factor of its product, turned back before or behind the difference. */
static bool read_taken(const struct cell__import *im, const struct cell__node *node,
                       const struct cell__node *factor, const struct cell__node *at[2],
                       struct upsampled *out)
{
    const struct cell__node *back = made(im, node, 0, "Transpose", 1);
    const struct cell__node *late = made(im, factor, 0, "Transpose", 1);
    const struct cell__node *sub = made(im, late == NULL ? factor : late, 0, "Sub", 2);
    const struct cell__node *other = late != NULL  ? late
                                     : sub == NULL ? NULL
                                                   : made(im, sub, 0, "Transpose", 1);
    struct upsampled beside = {.x = CELL__NONE};
    if (back == NULL || sub == NULL || other == NULL) {
        return false;
    }
    at[0] = made(im, back, 0, "GatherND", 2);
    at[1] = made(im, late != NULL ? sub : other, 0, "GatherND", 2);
    return is_same(sub, 1, late != NULL ? back : node, 0) && read_source(im, at[0], back, out) &&
           read_source(im, at[1], other, &beside) && is_same_source(out, &beside);
}

/* The step's number that a GatherND takes a row by: Unsqueeze of a list of them. */
static const struct cell__node *read_number(const struct cell__import *im,
                                            const struct cell__node *gather, const char *name)
{
    const struct cell__node *list = made(im, gather, 1, "Unsqueeze", 2);
    const bool is_last =
        list != NULL && (is_integer(im, list, 1, -1) || is_integer(im, list, 1, 1));
    return is_last ? made(im, list, 0, name, 3) : NULL;
}

/* What is p, by its number of value: through a Reshape to the list that it is. */
static const struct cell__node *read_place(const struct cell__import *im,
                                           const struct cell__node *node)
{
    const struct cell__node *list = made(im, node, 0, "Reshape", 2);
    const bool is_list =
        list != NULL && is_integer(im, list, 1, -1) && im->values[list->inputs[1]].tensor.rank == 1;
    return made(im, is_list ? list : node, 0, "Clip", 3);
}

/* Whether an input is 1 / n, or T / (n T). */
static bool is_scale(const struct cell__import *im, const struct cell__node *node, uint32_t i,
                     const struct upsampled *of)
{
    const struct cell__node *ratio = made(im, node, i, "Div", 2);
    const struct cell__node *some = cast_to(im, ratio, 0, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    const struct cell__node *all = cast_to(im, ratio, 1, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    return is_float(im, node, i, (float)(1.0 / (double)of->by)) ||
           (some != NULL && all != NULL && is_steps(im, some, 0, &of->steps) &&
            is_steps(im, all, 0, &of->all));
}

/* Whether that Clip is p; what it says of n T stands in *of then. */
static bool is_place(const struct cell__import *im, const struct cell__node *clip,
                     struct upsampled *of)
{
    const struct cell__node *sub = made(im, clip, 0, "Sub", 2);
    const struct cell__node *mul = made(im, sub, 0, "Mul", 2);
    const struct cell__node *add = made(im, mul, 0, "Add", 2);
    const struct cell__node *cast = cast_to(im, add, 0, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    const struct cell__node *range = made(im, cast, 0, "Range", 3);
    if (range == NULL || cell__has_input(clip, 2) || !is_float(im, clip, 1, 0.0f) ||
        !is_float(im, sub, 1, 0.5f) || !is_float(im, add, 1, 0.5f) ||
        !is_integer(im, range, 0, 0) || !is_integer(im, range, 2, 1) ||
        !cell__value_size(cell__input_of(im, range, 1), &of->all) || of->all.factor < 2 ||
        of->steps.factor < 1 || of->all.factor % of->steps.factor != 0) {
        return false;
    }
    const struct cell__sym times = cell__sym_number(of->all.factor / of->steps.factor);
    struct cell__sym product;
    of->by = times.add;
    return of->by > 1 && of->by <= CELL_WINDOW_MAX &&
           cell__sym_compute(im, '*', &of->steps, &times, &product) &&
           cell__sym_equal(im, &of->all, &product) == 1 && is_scale(im, mul, 1, of);
}

/* Whether the second number is the first one's, a Cast, next, and none behind the last. */
static bool is_next(const struct cell__import *im, const struct cell__node *second,
                    const struct cell__node *list, const struct upsampled *of)
{
    const struct cell__node *add = made(im, second, 0, "Add", 2);
    const struct cell__sym one = cell__sym_number(1);
    struct cell__sym last;
    return add != NULL && is_same(add, 0, list, 0) && is_integer(im, add, 1, 1) &&
           !cell__has_input(second, 1) && cell__sym_compute(im, '-', &of->steps, &one, &last) &&
           is_steps(im, second, 2, &last);
}

/* Whether an input is what of p the first number lacks. */
static bool is_share(const struct cell__import *im, const struct cell__node *node, uint32_t i,
                     const struct cell__node *first, const struct cell__node *list)
{
    const struct cell__node *clip = made(im, node, i, "Clip", 3);
    const struct cell__node *sub = made(im, clip, 0, "Sub", 2);
    const struct cell__node *cast = cast_to(im, sub, 1, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    return cast != NULL && is_float(im, clip, 1, 0.0f) && is_float(im, clip, 2, 1.0f) &&
           is_same(sub, 0, first, 0) && is_same(cast, 0, list, 0);
}

/* Whether an Add is the end of all that. */
static bool read_upsampled(const struct cell__import *im, const struct cell__node *node,
                           struct upsampled *out)
{
    const struct cell__node *mul = made(im, node, 1, "Mul", 2);
    const struct cell__node *at[2] = {NULL, NULL};
    if (mul == NULL || node->n_inputs != 2 || !read_taken(im, node, mul, at, out)) {
        return false;
    }
    const struct cell__node *first = read_number(im, at[0], "Cast");
    const struct cell__node *second = read_number(im, at[1], "Clip");
    const struct cell__node *list = made(im, at[0], 1, "Unsqueeze", 2);
    const struct cell__shape *shape = &im->values[out->x].shape;
    if (first == NULL || second == NULL || im->values[out->x].dtype != CELL__F32 ||
        !has_int(first, "to", 0, ONNX__TENSOR_PROTO__DATA_TYPE__INT64) ||
        !has_int(first, "saturate", 1, 1)) {
        return false;
    }
    // A share that is one for each step lies along the last axis.
    out->steps = cell__sym_of_axis(im, &shape->axes[out->axis]);
    const struct cell__node *clip = read_place(im, first);
    return (out->is_front || out->axis + 1 == shape->rank) && clip != NULL &&
           is_place(im, clip, out) && is_next(im, second, list, out) &&
           is_share(im, mul, 1, first, list);
}

/* ---- What stands for it --------------------------------------------------------------------- */

enum { IN_X, IN_BY };

/* Less than 0 of steps in front. */
static int64_t read_by(struct cell__import *im, const struct cell__node *node)
{
    return cell__tensor_sym(&cell__input(im, node, IN_BY)->tensor, 0).add;
}

static enum base_status infer_upsample(struct cell__import *im, struct cell__node *node)
{
    const int64_t by = read_by(im, node);
    struct cell__shape out = cell__input(im, node, IN_X)->shape;
    const struct cell__axis steps = out.axes[by < 0 ? 0 : out.rank - 1];
    if (by < 0) {
        memmove(&out.axes[0], &out.axes[1], (out.rank - 1) * sizeof(out.axes[0]));
    }
    BASE_TRY(cell__axis_parted(im, &steps, by < 0 ? -by : by, 0, &out.axes[out.rank - 1]));
    cell__set_rows(im, node, 0, CELL__F32, &out);
    return BASE_OK;
}

static enum base_status lower_upsample(struct cell__import *im, struct cell__node *node)
{
    const struct cell__shape *x = &cell__input(im, node, IN_X)->shape;
    const int64_t by = read_by(im, node);
    const int64_t times = by < 0 ? -by : by;
    const uint32_t time = by < 0 ? 0 : x->rank - 1;
    struct cell__resized resized = {.rank = x->rank, .where = CELL__HALF_PIXEL, .is_linear = true};
    struct cell__shape left = *x; // others are what they were
    for (uint32_t k = 0; k < x->rank; k++) {
        resized.axes[k] = (struct cell__resized_axis){.scale = 1.0f, .by = 1};
    }
    resized.axes[time] = (struct cell__resized_axis){(float)times, times, -1};
    left.axes[time] = cell__output(im, node, 0)->shape.axes[x->rank - 1];
    if (cell__axis_times(im, &x->axes[time]) == 0) {
        return cell__refuse(im, "elements between others along what is no time of a recurrent "
                                "node");
    }
    return cell__lower_resized(im, node, &resized, &left);
}

static const struct cell__operator upsample = {"Add",          1, 2, 1, " ", infer_upsample,
                                               lower_upsample, ""};

enum base_status cell__replace_upsample(struct cell__import *im, struct cell__node *node)
{
    struct upsampled of;
    if (node->op == NULL || strcmp(node->op->name, "Add") != 0 || !read_upsampled(im, node, &of)) {
        return BASE_OK;
    }
    struct cell__tensor tensor = {.dtype = CELL__I64};
    void *data = NULL;
    struct cell__sym *none = NULL;
    BASE_TRY(cell__tensor_shape(im, &tensor, 0, NULL));
    BASE_TRY(cell__tensor_alloc(im, &tensor, false, &data, &none));
    const int64_t by = of.is_front ? -of.by : of.by;
    memcpy(data, &by, sizeof(by));
    node->op = &upsample;
    node->inputs[IN_X] = of.x;
    return cell__value_constant(im, "", &tensor, &node->inputs[IN_BY]);
}
