/* Windows along an axis within a row, such as the height of a picture whose columns are the steps.
 * The row is turned so that what stands at one place of the axis lies together; a tap is then one
 * part of the row, or with a stride one of each `stride` parts. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <string.h>

enum base_status cell__plane_of(struct cell__import *im, uint32_t row, uint32_t channels,
                                struct cell__plane *out)
{
    const uint32_t height = im->rows[row].value.width / channels;
    const uint32_t dims[3] = {1, channels, height};
    *out = (struct cell__plane){.height = height, .width = channels};
    return cell__row_transpose(im, row, dims, &out->row);
}

enum base_status cell__plane_row(struct cell__import *im, const struct cell__plane *plane,
                                 uint32_t *out)
{
    const uint32_t dims[3] = {1, plane->height, plane->width};
    return cell__row_transpose(im, plane->row, dims, out);
}

static enum base_status row_of_zeros(struct cell__import *im, uint32_t width, uint32_t *out)
{
    float *zeros = base_arena_array(im->arena, width, sizeof(*zeros));
    if (zeros == NULL) {
        return cell__no_memory(im);
    }
    memset(zeros, 0, width * sizeof(*zeros));
    return cell__row_const(im, (struct cell_value){CELL_F32, width}, zeros, out);
}

/* `count` rows that stand beyond the end which has row `edge`. Adds them to parts. */
static enum base_status add_beyond(struct cell__import *im, const struct cell__plane *plane,
                                   int64_t count, uint32_t edge, uint32_t *parts, uint32_t *n)
{
    uint32_t row = CELL__NONE;
    BASE_TRY(cell__row_slice(im, plane->row, edge * plane->width, plane->width, &row));
    for (int64_t i = 0; i < count; i++) {
        parts[(*n)++] = row;
    }
    return BASE_OK;
}

enum base_status cell__plane_pad(struct cell__import *im, int64_t before, int64_t behind,
                                 enum cell__edges edges, struct cell__plane *plane)
{
    uint32_t parts[2 * CELL_WINDOW_MAX + 1];
    uint32_t n = 0;
    base_assert(before >= 0 && before <= CELL_WINDOW_MAX && behind <= CELL_WINDOW_MAX);
    if (behind < 0) {
        base_assert(before == 0 && -behind < (int64_t)plane->height);
        plane->height -= (uint32_t)-behind;
        return cell__row_slice(im, plane->row, 0, plane->height * plane->width, &plane->row);
    }
    if (before > 0 && edges == CELL__EDGES_ZERO) {
        BASE_TRY(row_of_zeros(im, (uint32_t)before * plane->width, &parts[n++]));
    } else if (before > 0) {
        BASE_TRY(add_beyond(im, plane, before, 0, parts, &n));
    }
    parts[n++] = plane->row;
    if (behind > 0 && edges == CELL__EDGES_ZERO) {
        BASE_TRY(row_of_zeros(im, (uint32_t)behind * plane->width, &parts[n++]));
    } else if (behind > 0) {
        BASE_TRY(add_beyond(im, plane, behind, plane->height - 1, parts, &n));
    }
    plane->height += (uint32_t)(before + behind);
    return cell__row_concat(im, parts, n, &plane->row);
}

enum base_status cell__plane_split(struct cell__import *im, const struct cell__plane *plane,
                                   const struct cell__window *window, uint32_t left,
                                   struct cell__split *out)
{
    const uint32_t stride = (uint32_t)window->stride;
    struct cell__plane whole = *plane;
    *out = (struct cell__split){.row = plane->row,
                                .rows = plane->height,
                                .width = plane->width,
                                .stride = window->stride,
                                .dilation = window->dilation,
                                .left = left};
    if (stride == 1) {
        return BASE_OK;
    }
    out->rows = (uint32_t)(window->extent - 1) / stride + left;
    const int64_t behind = (int64_t)out->rows * stride - plane->height;
    const uint32_t dims[3] = {1, out->rows, stride};
    BASE_TRY(cell__plane_pad(im, 0, behind, CELL__EDGES_ZERO, &whole)); // that nothing reads
    return cell__row_transpose(im, whole.row, dims, &out->row);
}

enum base_status cell__split_tap(struct cell__import *im, const struct cell__split *split,
                                 uint32_t row, uint32_t k, uint32_t *out)
{
    const uint32_t at = k * (uint32_t)split->dilation;
    const uint32_t stride = (uint32_t)split->stride;
    const uint32_t first = at % stride * split->rows + at / stride;
    return cell__row_slice(im, row, first * split->width, split->left * split->width, out);
}
