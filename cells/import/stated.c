/* Sequences whose number of steps the file states, so that it is the same in every request: one of
 * their steps, some of them, and all of them as the features of one row. And one step of a sequence
 * of any number, from either end. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

/* Steps first.. of the row's sequence behind each other, as one row that has no steps; below 0 they
 * count from its end. */
static enum base_status window_of(struct cell__import *im, const struct cell__axis *axis,
                                  int64_t first, uint32_t count, uint32_t *row)
{
    const uint32_t times = cell__axis_times(im, axis);
    const struct cell__steps steps = {.is_once = true,
                                      .count = count,
                                      .stride = 1,
                                      .offset = (int32_t)first,
                                      .is_from_end = first < 0};
    if (times == 0 || cell__is_pair(times) || im->rows[*row].times != times ||
        im->scan != CELL__NONE || im->feeds_back) {
        return cell__refuse(im, "takes steps of what is no sequence of a stated number of steps");
    }
    if (im->sequences[cell__only_sequence(times)].uses_lengths) {
        return cell__refuse(im, "takes steps by their number beside sequence_lens, where shorter "
                                "sequences may not have them");
    }
    return cell__row_window(im, *row, &steps, row);
}

/* Others of these steps may be wanted too, and are then of the same input of the stage. */
static enum base_status one_step(struct cell__import *im, const struct cell__axis *axis,
                                 uint32_t steps, uint32_t k, uint32_t *row)
{
    const uint32_t width = im->rows[*row].value.width;
    struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1};
    if (im->rows[*row].value.dtype == CELL_F32 && steps <= CELL_WIDTH_MAX / width) {
        BASE_TRY(window_of(im, axis, 0, steps, row));
        return cell__row_slice(im, *row, k * width, width, row);
    }
    BASE_TRY(window_of(im, axis, k, 1, row));
    copy.operands[0] = *row;
    return cell__row_op(im, &copy, im->rows[*row].value, row);
}

enum base_status cell__row_step(struct cell__import *im, const struct cell__axis *axis, int64_t k,
                                uint32_t *row)
{
    const int64_t size = cell__axis_size(im, axis);
    base_assert(k >= 0 && k < size);
    if ((im->rows[*row].times & cell__axis_times(im, axis)) == 0) {
        return BASE_OK; // it is the same at every step of this axis
    }
    if (k == 0 || k == size - 1) {
        return cell__row_at(im, k == 0 ? CELL__ROW_FIRST : CELL__ROW_LAST, *row, row);
    }
    return one_step(im, axis, (uint32_t)size, (uint32_t)k, row);
}

enum base_status cell__row_numbered(struct cell__import *im, const struct cell__axis *axis,
                                    int64_t k, uint32_t *row)
{
    return cell__row_some_steps(im, axis, k, 1, row);
}

enum base_status cell__row_some_steps(struct cell__import *im, const struct cell__axis *axis,
                                      int64_t k, uint32_t n, uint32_t *row)
{
    struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1};
    base_assert(k >= -CELL__NUMBERED_MAX && k < CELL__NUMBERED_MAX);
    BASE_TRY(window_of(im, axis, k, n, row));
    struct cell__sequence *sequence =
        &im->sequences[cell__only_sequence(cell__axis_times(im, axis))];
    const uint32_t needed = (uint32_t)(k < 0 ? -k : k + n);
    sequence->steps_min = sequence->steps_min > needed ? sequence->steps_min : needed;
    copy.operands[0] = *row;
    return cell__row_op(im, &copy, im->rows[*row].value, row);
}

/* Features of the shape that stand before its axis of time, of which there must be one, inside
 * `axis`; its steps. */
struct split_place {
    uint32_t before;
    int64_t steps;
    struct cell__axis time;
};

static enum base_status find_time(struct cell__import *im, const struct cell__shape *shape,
                                  uint32_t axis, struct split_place *out)
{
    const struct cell__axis *at = &shape->axes[axis];
    struct cell__shape before = {.rank = axis + 1};
    uint32_t i = 0;
    while (im->atoms[cell__atom_root(im, at->atoms[i])].role != CELL__ROLE_TIME) {
        i++;
    }
    for (uint32_t k = 0; k < axis; k++) {
        before.axes[k] = shape->axes[k];
    }
    before.axes[axis] = *at;
    before.axes[axis].n = i;
    out->time = (struct cell__axis){.n = 1, .atoms = {at->atoms[i]}};
    out->steps = cell__axis_size(im, &out->time);
    return cell__shape_width(im, &before, &out->before);
}

enum base_status cell__row_of_steps(struct cell__import *im, const struct cell__shape *shape,
                                    uint32_t axis, const char *verb, uint32_t *row,
                                    struct cell__place *place)
{
    const struct cell__axis *at = &shape->axes[axis];
    struct split_place steps;
    struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1};
    if (!cell__axis_has(im, at, CELL__ROLE_TIME) || cell__axis_has(im, at, CELL__ROLE_BATCH)) {
        return cell__axis_in_row(im, shape, axis, verb, place);
    }
    BASE_TRY(find_time(im, shape, axis, &steps));
    if (steps.steps < 1 || cell__is_pair(cell__shape_times(im, shape))) {
        return cell__refuse(im, "%s along the time axis", verb);
    }
    if (steps.steps > CELL_WIDTH_MAX / im->rows[*row].value.width) {
        return cell__refuse(im, "a row of more than %u elements", CELL_WIDTH_MAX);
    }
    BASE_TRY(window_of(im, &steps.time, 0, (uint32_t)steps.steps, row));
    copy.operands[0] = *row;
    BASE_TRY(cell__row_op(im, &copy, im->rows[*row].value, row));
    const uint32_t dims[3] = {1, (uint32_t)steps.steps, steps.before};
    BASE_TRY(cell__row_transpose(im, *row, dims, row));
    // The axis is one of features now, as wide as all its atoms.
    struct cell__shape flat = *shape;
    BASE_TRY(cell__axis_new(im, cell__axis_size(im, at), &flat.axes[axis]));
    return cell__axis_in_row(im, &flat, axis, verb, place);
}
