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

enum base_status cell__row_zeros(struct cell__import *im, uint32_t width, uint32_t *out)
{
    float *zeros = base_arena_array(im->arena, width, sizeof(*zeros));
    if (zeros == NULL) {
        return cell__no_memory(im);
    }
    memset(zeros, 0, width * sizeof(*zeros));
    return cell__row_const(im, (struct cell_value){CELL_F32, width}, zeros, out);
}

/* The row of the plane that stands `at` rows behind its first one. */
static int64_t find_inside(const struct cell__plane *plane, int64_t at, enum cell__edges edges)
{
    const int64_t last = (int64_t)plane->height - 1;
    const int64_t end = at < 0 ? 0 : last; // beyond which it stands
    const bool is_inside = at >= 0 && at <= last;
    const int64_t round = at < 0 ? at + plane->height : at - plane->height;
    const int64_t inside = is_inside                        ? at
                           : edges == CELL__EDGES_REFLECTED ? 2 * end - at
                           : edges == CELL__EDGES_WRAPPED   ? round
                                                            : end;
    base_assert(inside >= 0 && inside <= last);
    return inside;
}

/* More rows beyond the ends than this are taken element by element, by one op in place of one
 * each. */
#define SLICES_MAX 8

/* Rows beyond the ends of the plane, and its own. */
static enum base_status take_rows(struct cell__import *im, int64_t before, int64_t behind,
                                  enum cell__edges edges, struct cell__plane *plane)
{
    const struct cell__place place = {.outer = 1, .size = plane->height, .inner = plane->width};
    const int64_t height = before + plane->height + behind;
    int64_t *at = base_arena_array(im->arena, (size_t)height, sizeof(*at));
    if (at == NULL) {
        return cell__no_memory(im);
    }
    for (int64_t i = 0; i < height; i++) {
        at[i] = find_inside(plane, i - before, edges);
    }
    plane->height = (uint32_t)height;
    return cell__row_elements(im, plane->row, &place, at, plane->height, &plane->row);
}

/* Rows of what a plane is padded to, behind each other. */
struct rows {
    uint32_t n;
    uint32_t parts[2 * CELL_WINDOW_MAX + 1];
};

/* `count` rows from number `first` on, counted from the first one of the plane. */
static enum base_status add_rows(struct cell__import *im, const struct cell__plane *plane,
                                 int64_t first, int64_t count, enum cell__edges edges,
                                 struct rows *rows)
{
    if (count > 0 && edges == CELL__EDGES_ZERO) {
        return cell__row_zeros(im, (uint32_t)count * plane->width, &rows->parts[rows->n++]);
    }
    for (int64_t i = 0; i < count; i++) {
        const uint32_t inside = (uint32_t)find_inside(plane, first + i, edges);
        BASE_TRY(cell__row_slice(im, plane->row, inside * plane->width, plane->width,
                                 &rows->parts[rows->n++]));
    }
    return BASE_OK;
}

enum base_status cell__plane_pad(struct cell__import *im, int64_t before, int64_t behind,
                                 enum cell__edges edges, struct cell__plane *plane)
{
    struct rows rows = {.n = 0};
    base_assert(before >= 0 && before <= CELL_WINDOW_MAX && behind <= CELL_WINDOW_MAX);
    if (behind < 0) {
        base_assert(before == 0 && -behind < (int64_t)plane->height);
        plane->height -= (uint32_t)-behind;
        return cell__row_slice(im, plane->row, 0, plane->height * plane->width, &plane->row);
    }
    if (edges == CELL__EDGES_REFLECTED && (before >= plane->height || behind >= plane->height)) {
        return cell__invalid(im, "reflects more rows than there are");
    }
    if (edges == CELL__EDGES_WRAPPED && (before > plane->height || behind > plane->height)) {
        return cell__invalid(im, "goes round more rows than there are");
    }
    if (edges != CELL__EDGES_ZERO && before + behind > SLICES_MAX) {
        return take_rows(im, before, behind, edges, plane);
    }
    BASE_TRY(add_rows(im, plane, -before, before, edges, &rows));
    rows.parts[rows.n++] = plane->row;
    BASE_TRY(add_rows(im, plane, plane->height, behind, edges, &rows));
    plane->height += (uint32_t)(before + behind);
    return cell__row_concat(im, rows.parts, rows.n, &plane->row);
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
