/* Slice: the first and last step, all but some at the ends, some near one end, every nth; and parts
 * of a row. */
#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"
#include "cells/import/select.h"

#include "base/assert.h"
#include "base/checked.h"

#include <string.h>

/* What happens to one axis: elements start, start + step and so on, of which there are `size`. */
struct cut {
    bool is_whole;        /* nothing happens */
    bool is_first;        /* the first element alone */
    bool is_last;         /* the last one alone; start is not set when the size is unknown */
    bool is_steps;        /* of an unknown size all but `start` before and `behind` behind */
    bool is_turned;       /* all of them, the last one first */
    bool is_whole_frames; /* of an unknown size all that `size` divides: frames of so many each */
    uint32_t frames;      /* the atom of their number */
    bool is_led;          /* of an unknown size the first, as many as `led` says */
    struct cell__sym led;
    bool is_settled; /* start was the negative of a number that may be 0: something must be left */
    bool is_kept; /* of an unknown size `size` from `start` on, which counts from the end below 0 */
    int64_t start, size, step, behind;
};

struct cuts {
    uint32_t rank;
    struct cut axes[CELL_RANK_MAX];
};

/* The inputs or attributes of a Slice; up to opset 9 they are attributes. */
struct bounds {
    uint32_t n;
    struct cell__sym starts[CELL_RANK_MAX], ends[CELL_RANK_MAX];
    struct cell__list axes, steps;
};

static enum base_status read_syms(struct cell__import *im, const struct cell__node *node,
                                  uint32_t i, const char *name, struct cell__sym *out, uint32_t *n)
{
    struct cell__list list;
    if (im->opset < 10) {
        BASE_TRY(cell__attr_ints(im, node, name, &list));
        for (*n = 0; *n < list.n && *n < CELL_RANK_MAX; ++*n) {
            out[*n] = cell__sym_number(list.at[*n]);
        }
        return list.is_given ? BASE_OK : cell__invalid(im, "%s is missing", name);
    }
    if (!cell__has_input(node, i)) {
        return cell__invalid(im, "%s is missing", name);
    }
    const struct cell__value *value = cell__input(im, node, i);
    if (value->kind != CELL__CONST) {
        return cell__refuse(im, "%s is not a constant", name);
    }
    if (value->dtype == CELL__F32 || value->tensor.rank > 1 ||
        value->tensor.count > CELL_RANK_MAX) {
        return cell__invalid(im, "%s is no list of integers", name);
    }
    *n = (uint32_t)value->tensor.count;
    for (uint32_t k = 0; k < *n; k++) {
        out[k] = cell__tensor_sym(&value->tensor, k);
    }
    return BASE_OK;
}

static enum base_status read_bounds(struct cell__import *im, const struct cell__node *node,
                                    struct bounds *bounds)
{
    uint32_t n_ends = 0;
    BASE_TRY(read_syms(im, node, 1, "starts", bounds->starts, &bounds->n));
    BASE_TRY(read_syms(im, node, 2, "ends", bounds->ends, &n_ends));
    BASE_TRY(cell__ints_or_attr(im, node, 3, 10, "axes", &bounds->axes));
    BASE_TRY(cell__ints_or_attr(im, node, 4, 10, "steps", &bounds->steps));
    for (uint32_t k = 0; k < bounds->n; k++) {
        bounds->axes.at[k] = bounds->axes.is_given ? bounds->axes.at[k] : k;
        bounds->steps.at[k] = bounds->steps.is_given ? bounds->steps.at[k] : 1;
    }
    if (n_ends != bounds->n || (bounds->axes.is_given && bounds->axes.n != bounds->n) ||
        (bounds->steps.is_given && bounds->steps.n != bounds->n)) {
        return cell__invalid(im, "starts, ends, axes and steps differ in length");
    }
    return BASE_OK;
}

static int64_t clamp_to(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* One axis of a constant, in steps of any size but 0. */
static struct cut cut_stepped(int64_t start, int64_t end, int64_t step, int64_t size)
{
    const int64_t low = step > 0 ? 0 : -1;
    const int64_t high = step > 0 ? size : size - 1;
    start = clamp_to(start + (start < 0 ? size : 0), low, high);
    end = clamp_to(end + (end < 0 ? size : 0), low, high);
    const int64_t gap = step > 0 ? end - start : start - end;
    const int64_t width = step > 0 ? step : step == INT64_MIN ? INT64_MAX : -step;
    struct cut cut = {.start = start, .step = step};
    cut.size = gap <= 0 ? 0 : (gap - 1) / width + 1;
    return cut;
}

static int64_t clamp(int64_t value, int64_t size)
{
    value += value < 0 ? size : 0;
    return value < 0 ? 0 : value > size ? size : value;
}

/* One axis of known size. */
static struct cut cut_known(int64_t start, int64_t end, int64_t size)
{
    start = clamp(start, size);
    end = clamp(end, size);
    struct cut cut = {.start = start, .size = end > start ? end - start : 0, .step = 1};
    cut.is_whole = cut.size == size;
    cut.is_first = cut.size == 1 && start == 0;
    cut.is_last = cut.size == 1 && end == size;
    return cut;
}

/* Elements behind `end` of an axis of that size; negative: unknown, or none of a fixed number. */
static int64_t count_behind(struct cell__import *im, const struct cell__sym *end,
                            const struct cell__sym *size)
{
    struct cell__sym behind;
    if (cell__sym_is_number(end)) {
        const bool is_near = end->add < 0 && end->add >= -(int64_t)CELL_WINDOW_MAX;
        return end->add >= INT32_MAX ? 0 : is_near ? -end->add : -1;
    }
    const bool is_fixed =
        (cell__sym_compute(im, '-', size, end, &behind) && cell__sym_is_number(&behind)) ||
        cell__steps_more(im, size, end, &behind.add);
    return cell__sym_equal(im, end, size) == 1 ? 0 : is_fixed ? behind.add : -1;
}

/* Some elements, or one, near one end of an axis of unknown size. */
static bool cut_kept(struct cell__import *im, const struct bounds *bounds, uint32_t i,
                     const struct cell__sym *size, struct cut *cut)
{
    struct cell__border first;
    struct cell__border end;
    if (!cell__find_border(im, &bounds->starts[i], size, &first) ||
        !cell__find_border(im, &bounds->ends[i], size, &end) || bounds->steps.at[i] != 1 ||
        first.is_from_end != end.is_from_end || end.at <= first.at || !cell__is_numbered(&first)) {
        return false;
    }
    *cut = (struct cut){.start = first.at, .size = end.at - first.at, .step = 1};
    cut->is_kept = cut->size > 1;
    return true;
}

/* All elements but those that are left over when there are frames of some each (T // 3 * 3). */
static bool cut_frames(const struct cell__import *im, const struct bounds *bounds, uint32_t i,
                       const struct cell__sym *size, struct cut *cut)
{
    const struct cell__sym *start = &bounds->starts[i];
    const struct cell__sym *end = &bounds->ends[i];
    if (!cell__sym_is_number(start) || start->add != 0 || bounds->steps.at[i] != 1 ||
        end->factor < 2 || end->factor > (int64_t)CELL_WINDOW_MAX || end->add != 0 ||
        end->axis.n != 1 || size->axis.n != 1) {
        return false;
    }
    const struct cell__atom *frames = &im->atoms[cell__atom_root(im, end->axis.atoms[0])];
    if (frames->source == CELL__NONE || frames->stride != end->factor ||
        frames->add != -end->factor ||
        cell__atom_root(im, frames->source) != cell__atom_root(im, size->axis.atoms[0])) {
        return false;
    }
    *cut = (struct cut){
        .is_whole_frames = true, .frames = end->axis.atoms[0], .size = end->factor, .step = 1};
    return true;
}

/* As many of the first steps as another sequence has, which is never longer: of steps or of parts
 * of each, as what is repeated to the steps of segments has them. */
static bool cut_led(struct cell__import *im, const struct bounds *bounds, uint32_t i,
                    const struct cell__sym *size, struct cut *cut)
{
    const struct cell__sym *start = &bounds->starts[i];
    const struct cell__sym *end = &bounds->ends[i];
    struct cell__axis whole = size->axis;
    if (!cell__sym_is_number(start) || start->add != 0 || bounds->steps.at[i] != 1 ||
        end->factor < 1 || end->factor > (int64_t)CELL_WINDOW_MAX || end->axis.n != 1 ||
        end->add < -CELL__STEPS_ADD_MAX || end->add > CELL__STEPS_ADD_MAX ||
        cell__axis_join(im, &whole) != BASE_OK || !cell__axis_is_within(im, end, &whole)) {
        return false;
    }
    *cut = (struct cut){.is_led = true, .led = *end, .size = 1, .step = 1};
    return true;
}

/* A start that counts from the end as -n does, where another sequence has n steps: from the
 * beginning, where as many elements are before it in each request. false: it is none. */
static bool settle_start(const struct cell__import *im, const struct cell__sym *size,
                         struct cell__sym *start)
{
    struct cell__sym behind = {.axis = start->axis};
    struct cell__sym before;
    if (start->factor >= 0 || !base_i64_mul(start->add, -1, &behind.add) ||
        !base_i64_mul(start->factor, -1, &behind.factor)) {
        return false;
    }
    const bool is_fixed =
        (cell__sym_compute(im, '-', size, &behind, &before) && cell__sym_is_number(&before)) ||
        cell__steps_more(im, size, &behind, &before.add);
    *start = is_fixed ? cell__sym_number(before.add < 0 ? 0 : before.add) : *start;
    return is_fixed;
}

/* Elements that the axis must have for a part that is kept. */
static int64_t needed_of(const struct cut *cut)
{
    return cut->start < 0 ? -cut->start : cut->start + cut->size;
}

/* One axis whose size the request chooses: its first or last element, or all but some at its ends.
 */
static enum base_status cut_symbolic(struct cell__import *im, const struct bounds *bounds,
                                     uint32_t i, const struct cell__sym *size, struct cut *cut)
{
    const struct cell__sym *start = &bounds->starts[i];
    const struct cell__sym *end = &bounds->ends[i];
    const int64_t step = bounds->steps.at[i];
    const int64_t behind = count_behind(im, end, size);
    struct cell__sym one = cell__sym_number(1);
    struct cell__sym last;
    bool has_last = cell__sym_compute(im, '-', size, &one, &last);
    bool from_last = (cell__sym_is_number(start) && start->add == -1) ||
                     (has_last && cell__sym_equal(im, start, &last) == 1);
    bool from_first = cell__sym_is_number(start) && start->add == 0;
    bool is_one = from_first && cell__sym_is_number(end) && end->add == 1;
    bool is_within = cell__sym_is_number(start) && start->add >= 0 &&
                     start->add <= (int64_t)CELL_WINDOW_MAX && behind >= 0 &&
                     behind <= (int64_t)CELL_WINDOW_MAX;
    if (step == -1 && from_last && cell__sym_is_number(end) && end->add <= -INT32_MAX) {
        *cut = (struct cut){.is_turned = true, .size = 1, .step = -1};
        return BASE_OK;
    }
    if (!is_within && (cut_frames(im, bounds, i, size, cut) || cut_led(im, bounds, i, size, cut))) {
        return BASE_OK;
    }
    if (!is_within && !is_one && !(from_last && behind == 0) &&
        cut_kept(im, bounds, i, size, cut)) {
        return BASE_OK;
    }
    if (step < 1 || step > (int64_t)CELL_WINDOW_MAX) {
        return cell__refuse(im, "steps of %lld along an axis of unknown size; 1 to %u",
                            (long long)step, CELL_WINDOW_MAX);
    }
    if (!is_one && !(from_last && behind == 0) && !is_within) {
        return cell__refuse(im, "takes a part of an axis of unknown size that is neither its first "
                                "nor its last element, nor some or all but some at its ends");
    }
    if (is_within && !is_one && (start->add > 0 || behind > 0 || step > 1)) {
        *cut = (struct cut){
            .is_steps = true, .start = start->add, .step = step, .behind = behind, .size = 1};
        return BASE_OK;
    }
    *cut = (struct cut){.is_whole = from_first && !is_one,
                        .is_first = is_one,
                        .is_last = from_last,
                        .size = 1,
                        .step = 1};
    return BASE_OK;
}

static enum base_status read_cuts(struct cell__import *im, const struct cell__node *node,
                                  const struct cell__shape *shape, struct cuts *cuts)
{
    const bool is_const = cell__input(im, node, 0)->kind == CELL__CONST;
    struct bounds bounds;
    uint32_t seen = 0;
    BASE_TRY(read_bounds(im, node, &bounds));
    *cuts = (struct cuts){.rank = shape->rank};
    for (uint32_t k = 0; k < shape->rank; k++) {
        cuts->axes[k].is_whole = true;
    }
    for (uint32_t i = 0; i < bounds.n; i++) {
        uint32_t k = 0;
        BASE_TRY(cell__axis_index(im, bounds.axes.at[i], shape->rank, &k));
        if ((seen >> k & 1) != 0) {
            return cell__invalid(im, "axis %u given twice", k);
        }
        seen |= 1u << k;
        struct cell__sym size = cell__sym_of_axis(im, &shape->axes[k]);
        const bool is_settled =
            bounds.steps.at[i] > 0 && settle_start(im, &size, &bounds.starts[i]);
        const struct cell__sym *start = &bounds.starts[i];
        const struct cell__sym *end = &bounds.ends[i];
        const bool is_known =
            cell__sym_is_number(&size) && cell__sym_is_number(start) && cell__sym_is_number(end);
        if (!cell__sym_is_number(&size)) {
            BASE_TRY(cut_symbolic(im, &bounds, i, &size, &cuts->axes[k]));
            cuts->axes[k].is_settled = is_settled;
        } else if (!is_const && is_known && bounds.steps.at[i] == -1 && end->add < -size.add &&
                   (start->add == -1 || start->add >= size.add - 1)) {
            const bool is_one = size.add == 1; // which is the same turned round
            im->has_turns |= !is_one;
            cuts->axes[k] = is_one ? cut_known(0, 1, 1)
                            : im->turns_rows
                                ? cut_stepped(start->add, end->add, -1, size.add)
                                : (struct cut){.is_turned = true, .size = size.add, .step = -1};
        } else if (bounds.steps.at[i] != 1) {
            if (!is_known || bounds.steps.at[i] == 0) {
                return cell__refuse(im, "steps of %lld between bounds that depend on the request",
                                    (long long)bounds.steps.at[i]);
            }
            cuts->axes[k] = cut_stepped(start->add, end->add, bounds.steps.at[i], size.add);
        } else if (is_known) {
            cuts->axes[k] = cut_known(start->add, end->add, size.add);
        } else {
            return cell__refuse(im, "a range that depends on the request");
        }
    }
    return BASE_OK;
}

/* The axis of some steps of one whose size the request chooses. */
static enum base_status steps_axis(struct cell__import *im, const struct cut *cut,
                                   struct cell__axis *axis)
{
    const struct cell__axis steps = *axis;
    if (cut->is_led) {
        return cut->led.factor == 1
                   ? cell__axis_strided(im, &cut->led.axis, cut->led.add - 1, 1, axis)
                   : cell__axis_parted(im, &cut->led.axis, cut->led.factor, cut->led.add, axis);
    }
    if (cut->is_kept) {
        return cell__axis_kept(im, &steps, cut->size, needed_of(cut), axis);
    }
    if (cut->is_steps) {
        return cell__axis_strided(im, &steps, -cut->start - cut->behind - 1, cut->step, axis);
    }
    BASE_TRY(cell__axis_new(im, cut->size, axis));
    axis->atoms[1] = axis->atoms[0];
    axis->atoms[0] = cut->frames;
    axis->n = 2;
    return BASE_OK;
}

/* The same. Of -0 ONNX counts from the beginning, so that all would be left: a request where
 * nothing is must be refused, even if nobody reads the steps one by one. */
static enum base_status cut_steps(struct cell__import *im, const struct cut *cut,
                                  struct cell__axis *axis)
{
    BASE_TRY(steps_axis(im, cut, axis));
    struct cell__atom *atom = axis->n == 1 ? &im->atoms[cell__atom_root(im, axis->atoms[0])] : NULL;
    if (cut->is_settled && atom != NULL && atom->least < 1) {
        atom->least = 1;
    }
    return BASE_OK;
}

enum base_status cell__infer_slice(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    bool is_const = in->kind == CELL__CONST;
    struct cell__shape shape;
    struct cuts cuts;
    if (cell__is_distances(im, node)) {
        return cell__infer_distances(im, node);
    }
    if (cell__is_positions(im, node)) {
        return cell__infer_positions(im, node);
    }
    BASE_TRY(cell__shape_of(im, in, &shape));
    BASE_TRY(read_cuts(im, node, &shape, &cuts));
    struct cell__view view = {.rank = 0};
    struct cell__axis turned = {.n = 0};
    bool is_turned = false;
    view = is_const ? cell__view_of(&in->tensor) : view;
    node->hands_on = !is_const;
    for (uint32_t k = 0; k < shape.rank; k++) {
        const struct cut *cut = &cuts.axes[k];
        node->hands_on = node->hands_on && cut->is_whole;
        if (cut->is_whole) {
            continue;
        }
        if (cut->is_turned) {
            is_turned = true;
            turned = shape.axes[k];
            continue;
        }
        if ((cut->is_steps || cut->is_kept || cut->is_whole_frames || cut->is_led) &&
            cell__is_turned_along(im, in, &shape.axes[k])) {
            node->takes_straight = true;
        }
        if (cut->is_steps || cut->is_kept || cut->is_whole_frames || cut->is_led) {
            BASE_TRY(cut_steps(im, cut, &shape.axes[k]));
            continue;
        }
        view.dims[k] = cut->size;
        view.start += cut->size > 0 ? cut->start * view.strides[k] : 0;
        view.strides[k] *= cut->size > 1 ? cut->step : 1;
        const struct cell__axis whole = shape.axes[k];
        BASE_TRY(cut->step == 1 ? cell__axis_part(im, &whole, cut->size, &shape.axes[k])
                                : cell__axis_new(im, cut->size, &shape.axes[k]));
    }
    if (is_const) {
        struct cell__tensor out;
        BASE_TRY(cell__fold_view(im, &in->tensor, &view, &out));
        cell__set_const(im, node, 0, &out);
    } else {
        cell__set_rows(im, node, 0, in->dtype, &shape);
    }
    if (is_turned) {
        cell__output(im, node, 0)->is_by_slice = true;
        BASE_TRY(cell__turn(im, node, in, &turned));
    }
    return BASE_OK;
}

/* Whether no features stand before the axis, so that steps lie behind each other. */
static bool before_is_none(struct cell__import *im, const struct cell__shape *shape, uint32_t k)
{
    struct cell__shape before = {.rank = k};
    uint32_t width = 0;
    memcpy(before.axes, shape->axes, k * sizeof(before.axes[0]));
    return cell__shape_width(im, &before, &width) == BASE_OK && width == 1;
}

/* Elements start, start + step and so on of an axis within a row. */
static enum base_status every_nth(struct cell__import *im, const struct cell__place *place,
                                  const struct cut *cut, uint32_t *row)
{
    int64_t *at = base_arena_array(im->arena, (size_t)cut->size, sizeof(*at));
    if (at == NULL) {
        return cell__no_memory(im);
    }
    for (int64_t i = 0; i < cut->size; i++) {
        at[i] = cut->start + i * cut->step;
    }
    return cell__row_elements(im, *row, place, at, (uint32_t)cut->size, row);
}

enum base_status cell__lower_slice(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *in = cell__input(im, node, 0);
    struct cell__shape shape = in->shape;
    struct cuts cuts;
    uint32_t row = in->row;
    if (cell__is_distances(im, node)) {
        return cell__lower_distances(im, node);
    }
    if (cell__is_positions(im, node)) {
        return cell__lower_positions(im, node);
    }
    BASE_TRY(read_cuts(im, node, &shape, &cuts));
    for (uint32_t k = 0; k < shape.rank; k++) {
        const struct cut *cut = &cuts.axes[k];
        struct cell__place place;
        if (cut->is_whole) {
            continue;
        }
        if (cut->is_turned) {
            BASE_TRY(cell__check_turned(im, &shape.axes[k]));
        } else if (cut->is_whole_frames && before_is_none(im, &shape, k)) {
            BASE_TRY(cell__row_stacked(im, &shape.axes[k], cut->frames, cut->size, &row));
        } else if (cut->is_whole_frames) {
            return cell__refuse(im, "takes as many steps as a number divides, behind features");
        } else if (cut->is_steps || cut->is_kept || cut->is_led) {
            struct cell__steps steps = {.count = 1,
                                        .stride = (uint32_t)cut->step,
                                        .offset = (int32_t)cut->start,
                                        .is_cut = true,
                                        .is_from_end = cut->start < 0};
            BASE_TRY(cell__row_copy_steps(im, &shape.axes[k],
                                          &cell__output(im, node, 0)->shape.axes[k], &steps, &row));
        } else if (cut->step != 1 && cell__axis_has(im, &shape.axes[k], CELL__ROLE_TIME)) {
            return cell__refuse(im,
                                "steps of %lld along the time of a recurrent node whose size "
                                "the file states",
                                (long long)cut->step);
        } else if (cell__axis_has(im, &shape.axes[k], CELL__ROLE_TIME)) {
            const struct cell__taken taken = {cut->start, cut->size, cut->is_first, cut->is_last};
            BASE_TRY(cell__take_steps(im, in, k, &taken, &cell__output(im, node, 0)->shape.axes[k],
                                      &row));
        } else {
            BASE_TRY(cell__axis_in_row(im, &shape, k, "takes elements", &place));
            if (cut->size == 0) {
                return cell__refuse(im, "an empty slice");
            }
            BASE_TRY(cut->step == 1 ? cell__row_part(im, row, &place, (uint32_t)cut->start,
                                                     (uint32_t)cut->size, &row)
                                    : every_nth(im, &place, cut, &row));
        }
        shape.axes[k] = cell__output(im, node, 0)->shape.axes[k];
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
