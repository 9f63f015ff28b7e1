/* Resize and Upsample, along the steps of a sequence and within a row: each element as many of
 * itself, by the nearest one, or elements between two (interpolate.c). What is made of a step are
 * parts of a row, and the steps of the sequence that is left (struct cell_source). */
#include "cells/import/interpolate.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <math.h>

enum { IN_X, IN_SCALES_10 = 1, IN_SCALES = 2, IN_SIZES = 3 };

/* ---- Which element is the nearest ---------------------------------------------------------- */

enum which { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL, WHICHS };
static const char *const whichs[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};

/* The number of an attribute's word among n; n: another word. */
static uint32_t word_of(const struct cell__node *node, const char *name, const char *const *words,
                        uint32_t n, uint32_t otherwise)
{
    const Onnx__AttributeProto *attribute = cell__attr(node, name);
    uint32_t i = 0;
    while (attribute != NULL && i < n && !cell__is_text(attribute->s, words[i])) {
        i++;
    }
    return attribute == NULL ? otherwise : i;
}

/* Which element is the nearest to output `r` of the n that element 0 becomes. */
static double nearest_to(enum cell__where where, enum which which, double r, double n)
{
    const double middle = (r + 0.5) / n;
    const double place = where == CELL__ASYMMETRIC      ? r / n
                         : where == CELL__TF_HALF_PIXEL ? middle
                                                        : middle - 0.5;
    return which == FLOOR         ? floor(place)
           : which == CEIL        ? ceil(place)
           : which == PREFER_CEIL ? floor(place + 0.5)
                                  : ceil(place - 0.5);
}

/* That the nearest to all of what an element becomes is this element. */
static enum base_status check_nearest(struct cell__import *im, const struct cell__node *node,
                                      const struct cell__resized *resized, int64_t by)
{
    const uint32_t which =
        word_of(node, "nearest_mode", whichs, WHICHS, im->opset < 11 ? FLOOR : PREFER_FLOOR);
    bool is_repeated = resized->where <= CELL__TF_HALF_PIXEL && which < WHICHS;
    for (int64_t r = 0; is_repeated && r < by; r++) {
        is_repeated = nearest_to(resized->where, (enum which)which, (double)r, (double)by) == 0.0;
    }
    return is_repeated
               ? BASE_OK
               : cell__refuse(im, "another nearest element than that of which a whole number is "
                                  "made (coordinate_transformation_mode, nearest_mode)");
}

/* ---- The node ------------------------------------------------------------------------------- */

/* Scales of axes, or of those that the attribute axes names; n of them. */
struct scales {
    uint32_t n;
    const float *at; /* NULL: the constant says sizes */
    const struct cell__tensor *sizes;
};

static const struct cell__tensor *constant_of(struct cell__import *im,
                                              const struct cell__node *node, uint32_t i)
{
    const struct cell__value *value = cell__has_input(node, i) ? cell__input(im, node, i) : NULL;
    return value != NULL && value->kind == CELL__CONST && value->tensor.count > 0 ? &value->tensor
                                                                                  : NULL;
}

static enum base_status read_scales(struct cell__import *im, const struct cell__node *node,
                                    struct scales *out)
{
    const bool is_first = im->opset < 11;
    const Onnx__AttributeProto *attribute = cell__attr(node, "scales");
    const struct cell__tensor *scales = constant_of(im, node, is_first ? IN_SCALES_10 : IN_SCALES);
    *out = (struct scales){.n = 0};
    if (attribute != NULL) {
        out->n = (uint32_t)attribute->n_floats;
        out->at = attribute->floats;
    } else if (scales != NULL && scales->dtype == CELL__F32) {
        out->n = (uint32_t)scales->count;
        out->at = scales->data;
    } else if (!is_first) {
        out->sizes = constant_of(im, node, IN_SIZES);
        out->n = out->sizes == NULL ? 0 : (uint32_t)out->sizes->count;
    }
    if (out->n > CELL_RANK_MAX) {
        return cell__invalid(im, "scales or sizes of %u axes", out->n);
    }
    return out->n > 0 ? BASE_OK : cell__refuse(im, "scales and sizes that are no constant");
}

/* Times that the axis becomes what sizes say; 0: no whole number of times. */
static int64_t times_of(const struct cell__import *im, const struct cell__axis *axis,
                        const struct cell__sym *wanted)
{
    const int64_t size = cell__axis_size(im, axis);
    if (size < 0) {
        const bool is_same = wanted->add == 0 && cell__axis_is_same(im, &wanted->axis, axis);
        return is_same ? wanted->factor : 0;
    }
    const bool is_whole = size > 0 && cell__sym_is_number(wanted) && wanted->add % size == 0;
    return is_whole ? wanted->add / size : 0;
}

static enum base_status read_axes(struct cell__import *im, const struct cell__node *node,
                                  const struct cell__shape *shape, const struct scales *scales,
                                  uint32_t *axes)
{
    struct cell__list given;
    BASE_TRY(cell__attr_ints(im, node, "axes", &given));
    if (scales->n != (given.is_given ? given.n : shape->rank)) {
        return cell__invalid(im, "scales or sizes of %u axes", scales->n);
    }
    for (uint32_t i = 0; i < scales->n; i++) {
        const int64_t axis = given.is_given ? given.at[i] : i;
        const int64_t from_front = axis < 0 ? axis + shape->rank : axis;
        if (from_front < 0 || from_front >= shape->rank) {
            return cell__invalid(im, "axis %lld of rank %u", (long long)axis, shape->rank);
        }
        axes[i] = (uint32_t)from_front;
    }
    return BASE_OK;
}

/* The scale of an axis, and how long it is then. */
static enum base_status read_side(struct cell__import *im, const struct cell__axis *axis,
                                  const struct scales *scales, uint32_t i,
                                  struct cell__resized_axis *out)
{
    const int64_t size = cell__axis_size(im, axis);
    *out = (struct cell__resized_axis){.size = -1};
    if (scales->at != NULL) {
        out->scale = scales->at[i];
    } else {
        const struct cell__sym wanted = cell__tensor_sym(scales->sizes, i);
        const bool is_number = size > 0 && cell__sym_is_number(&wanted);
        out->scale =
            is_number ? (float)wanted.add / (float)size : (float)times_of(im, axis, &wanted);
        out->size = is_number ? wanted.add : -1;
    }
    if (!(out->scale > 0.0f && out->scale <= (float)CELL_WINDOW_MAX)) {
        return cell__refuse(im, "by anything but whole numbers of 1 to %u", CELL_WINDOW_MAX);
    }
    out->by = out->scale == floorf(out->scale) ? (int64_t)out->scale : 0;
    if (size >= 0 && out->size < 0) {
        out->size = (int64_t)floorf((float)size * out->scale);
    }
    return out->size != 0 && out->size <= (int64_t)CELL_WIDTH_MAX
               ? BASE_OK
               : cell__refuse(im, "to nothing, or to more than %u elements", CELL_WIDTH_MAX);
}

static enum base_status read_ways(struct cell__import *im, const struct cell__node *node,
                                  struct cell__resized *out)
{
    static const char *const wheres[] = {[CELL__HALF_PIXEL] = "half_pixel",
                                         [CELL__PYTORCH_HALF_PIXEL] = "pytorch_half_pixel",
                                         [CELL__HALF_PIXEL_SYMMETRIC] = "half_pixel_symmetric",
                                         [CELL__ASYMMETRIC] = "asymmetric",
                                         [CELL__TF_HALF_PIXEL] = "tf_half_pixel_for_nn",
                                         [CELL__ALIGN_CORNERS] = "align_corners"};
    const Onnx__AttributeProto *mode = cell__attr(node, "mode");
    const Onnx__AttributeProto *policy = cell__attr(node, "keep_aspect_ratio_policy");
    int64_t flags[2] = {0, 0};
    out->is_linear = mode != NULL && cell__is_text(mode->s, "linear");
    out->where =
        (enum cell__where)word_of(node, "coordinate_transformation_mode", wheres, CELL__WHERES,
                                  im->opset < 11 ? CELL__ASYMMETRIC : CELL__HALF_PIXEL);
    BASE_TRY(cell__attr_int(im, node, "antialias", 0, &flags[0]));
    BASE_TRY(cell__attr_int(im, node, "exclude_outside", 0, &flags[1]));
    if (mode != NULL && !out->is_linear && !cell__is_text(mode->s, "nearest")) {
        return cell__refuse(im, "a mode other than nearest and linear");
    }
    if ((policy != NULL && !cell__is_text(policy->s, "stretch")) ||
        (out->is_linear && (flags[0] != 0 || flags[1] != 0))) {
        return cell__refuse(im, "antialias, exclude_outside or another keep_aspect_ratio_policy "
                                "than stretch");
    }
    return BASE_OK;
}

static enum base_status read_resized(struct cell__import *im, const struct cell__node *node,
                                     struct cell__resized *out)
{
    const struct cell__shape *shape = &cell__input(im, node, IN_X)->shape;
    struct scales scales;
    uint32_t axes[CELL_RANK_MAX];
    *out = (struct cell__resized){.rank = shape->rank};
    for (uint32_t k = 0; k < shape->rank; k++) {
        out->axes[k] = (struct cell__resized_axis){.scale = 1.0f, .by = 1};
    }
    BASE_TRY(read_ways(im, node, out));
    BASE_TRY(read_scales(im, node, &scales));
    BASE_TRY(read_axes(im, node, shape, &scales, axes));
    for (uint32_t i = 0; i < scales.n; i++) {
        struct cell__resized_axis *axis = &out->axes[axes[i]];
        BASE_TRY(read_side(im, &shape->axes[axes[i]], &scales, i, axis));
        if (axis->by == 0 && (!out->is_linear || axis->size < 0)) {
            return cell__refuse(im, "by anything but whole numbers of 1 to %u", CELL_WINDOW_MAX);
        }
        if (!out->is_linear) {
            BASE_TRY(check_nearest(im, node, out, axis->by));
        } else if (axis->by != 1) {
            BASE_TRY(cell__check_interpolated(im, out));
        }
    }
    return BASE_OK;
}

enum base_status cell__infer_resize(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, IN_X);
    struct cell__resized resized;
    struct cell__shape out = x->shape;
    if (x->kind != CELL__ROWS || x->dtype != CELL__F32) {
        return cell__refuse(im, "of anything but floats that a request has");
    }
    BASE_TRY(read_resized(im, node, &resized));
    if (resized.is_linear && cell__made_by(im, node, IN_X, "QuantizeLinear") != NULL) {
        return cell__refuse(im, "between integers, which would be integers again");
    }
    for (uint32_t k = 0; k < out.rank; k++) {
        const struct cell__resized_axis *axis = &resized.axes[k];
        if (axis->by > 1) {
            BASE_TRY(cell__axis_parted(im, &x->shape.axes[k], axis->by, 0, &out.axes[k]));
        } else if (axis->by == 0) {
            BASE_TRY(cell__axis_new(im, axis->size, &out.axes[k]));
        }
    }
    cell__set_rows(im, node, 0, CELL__F32, &out);
    return BASE_OK;
}

/* ---- Its rows ------------------------------------------------------------------------------- */

static enum base_status repeat_within(struct cell__import *im, const struct cell__shape *shape,
                                      uint32_t axis, int64_t by, uint32_t *row)
{
    struct cell__place place;
    BASE_TRY(cell__axis_in_row(im, shape, axis, "repeats", &place));
    if (place.size > CELL_WIDTH_MAX / by || im->rows[*row].value.width > CELL_WIDTH_MAX / by) {
        return cell__refuse(im, "a row of more than %u elements", CELL_WIDTH_MAX);
    }
    const uint32_t n = place.size * (uint32_t)by;
    int64_t *at = base_arena_array(im->arena, n, sizeof(*at));
    if (at == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t i = 0; i < n; i++) {
        at[i] = i / (uint32_t)by;
    }
    return cell__row_elements(im, *row, &place, at, n, row);
}

/* Each step as many of itself, or, where these are in the row already, those. */
static enum base_status part_steps(struct cell__import *im, const struct cell__axis *axis,
                                   const struct cell__axis *left,
                                   const struct cell__resized *resized, uint32_t time,
                                   uint32_t *row)
{
    uint32_t copies[CELL_WINDOW_MAX];
    const uint32_t by = (uint32_t)resized->axes[time].by;
    struct cell__steps steps = {.count = 1, .stride = 1, .parts = by, .is_cut = true};
    base_assert(by <= CELL_WINDOW_MAX);
    for (uint32_t i = 0; i < by; i++) {
        copies[i] = *row;
    }
    if (!resized->is_linear) {
        BASE_TRY(cell__row_concat(im, copies, by, row));
    }
    return cell__row_copy_steps(im, axis, left, &steps, row);
}

enum base_status cell__lower_resized(struct cell__import *im, struct cell__node *node,
                                     const struct cell__resized *resized,
                                     const struct cell__shape *left)
{
    const struct cell__value *x = cell__input(im, node, IN_X);
    struct cell__shape shape = x->shape;
    uint32_t row = x->row;
    uint32_t time = CELL__NONE;
    for (uint32_t k = 0; k < shape.rank; k++) {
        if (resized->axes[k].by == 1) {
            continue;
        }
        if (cell__axis_times(im, &shape.axes[k]) != 0) {
            time = k;
            continue;
        }
        BASE_TRY(resized->is_linear ? cell__interpolate_within(im, &shape, k, resized, &row)
                                    : repeat_within(im, &shape, k, resized->axes[k].by, &row));
        shape.axes[k] = left->axes[k];
    }
    if (time != CELL__NONE && resized->is_linear) {
        BASE_TRY(cell__interpolate_steps(im, resized, time, &row));
    }
    if (time != CELL__NONE) {
        BASE_TRY(part_steps(im, &shape.axes[time], &left->axes[time], resized, time, &row));
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

enum base_status cell__lower_resize(struct cell__import *im, struct cell__node *node)
{
    struct cell__resized resized;
    BASE_TRY(read_resized(im, node, &resized));
    return cell__lower_resized(im, node, &resized, &cell__output(im, node, 0)->shape);
}
