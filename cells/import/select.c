/* See select.h. */
#include "cells/import/select.h"

#include "cells/import/ops.h"
#include "cells/import/rows.h"

bool cell__find_border(struct cell__import *im, const struct cell__sym *bound,
                       const struct cell__sym *size, struct cell__border *out)
{
    struct cell__sym before;
    if (cell__sym_is_number(bound)) {
        const bool is_end = bound->add >= INT32_MAX;
        *out = (struct cell__border){is_end || bound->add < 0, is_end ? 0 : bound->add};
        return bound->add > -INT32_MAX;
    }
    if (!cell__sym_compute(im, '-', bound, size, &before) || !cell__sym_is_number(&before)) {
        return false;
    }
    *out = (struct cell__border){true, before.add};
    return before.add <= 0;
}

bool cell__is_numbered(const struct cell__border *border)
{
    return border->at < CELL__NUMBERED_MAX && border->at >= -CELL__NUMBERED_MAX &&
           border->is_from_end == (border->at < 0);
}

enum base_status cell__take_steps(struct cell__import *im, const struct cell__value *data,
                                  uint32_t k, const struct cell__taken *taken,
                                  const struct cell__axis *left, uint32_t *row)
{
    const struct cell__axis *axis = &data->shape.axes[k];
    const int64_t size = cell__axis_size(im, axis);
    const bool is_turned = cell__is_turned_along(im, data, axis);
    const bool is_end = taken->is_first || taken->is_last;
    if (axis->n != 1 || taken->count < 1 || (size < 0 && !is_end && taken->count > 1)) {
        return cell__refuse(im, "takes steps that are neither the first nor the last");
    }
    if (taken->count == 1 && size > 0) {
        return cell__row_step(im, axis, is_turned ? size - 1 - taken->first : taken->first, row);
    }
    if ((im->rows[*row].times & cell__axis_times(im, axis)) == 0) {
        return BASE_OK; // it is the same at every step of this axis
    }
    if (taken->count == 1 && !is_end) {
        return cell__row_numbered(im, axis, is_turned ? -1 - taken->first : taken->first, row);
    }
    if (taken->count == 1) {
        const bool is_last = taken->is_last != is_turned;
        return cell__row_at(im, is_last ? CELL__ROW_LAST : CELL__ROW_FIRST, *row, row);
    }
    if (is_turned) {
        BASE_TRY(cell__row_straight(im, data, row));
    }
    struct cell__steps steps = {
        .count = 1, .stride = 1, .offset = (int32_t)taken->first, .is_cut = true};
    return cell__row_copy_steps(im, axis, left, &steps, row);
}
