/* See interpolate.h. Within a row which two elements, and how much of each, are constants. Of steps
 * only a whole number is made of each: these lie between it and the one before it or behind it, and
 * beyond the ends there is the first or the last one again. Whether there is a step is what a 1
 * beside each says, which reads as 0 beyond the ends, as all that a window reads there. */
#include "cells/import/interpolate.h"

#include "cells/import/rows.h"

#include <math.h>

enum base_status cell__check_interpolated(struct cell__import *im,
                                          const struct cell__resized *resized)
{
    return resized->where != CELL__TF_HALF_PIXEL && resized->where < CELL__WHERES
               ? BASE_OK
               : cell__refuse(im,
                              "elements between others by another coordinate_transformation_mode"
                              " than half_pixel, pytorch_half_pixel, half_pixel_symmetric, "
                              "asymmetric and align_corners");
}

/* ---- Within a row --------------------------------------------------------------------------- */

/* Where element r of the result lies among n. */
static double place_within(const struct cell__resized *resized, uint32_t axis, double r, double n)
{
    const double size = (double)resized->axes[axis].size;
    const double scale = (double)resized->axes[axis].scale;
    const double middle = (r + 0.5) / scale - 0.5;
    const double beside = n / 2.0 * (1.0 - size / (scale * n)); // of half_pixel_symmetric
    const double place = resized->where == CELL__ASYMMETRIC             ? r / scale
                         : resized->where == CELL__HALF_PIXEL_SYMMETRIC ? beside + middle
                         : resized->where == CELL__HALF_PIXEL           ? middle
                         : size <= 1.0                                  ? 0.0
                         : resized->where == CELL__ALIGN_CORNERS ? r * (n - 1.0) / (size - 1.0)
                                                                 : middle;
    return place < 0.0 ? 0.0 : place > n - 1.0 ? n - 1.0 : place;
}

/* The row times what of each of its elements is wanted: share[] of an axis that lies at `place`. */
static enum base_status take_share(struct cell__import *im, const struct cell__place *place,
                                   const float *share, uint32_t *row)
{
    const size_t width = (size_t)place->outer * place->size * place->inner;
    float *all = base_arena_array(im->arena, width, sizeof(*all));
    uint32_t shares = CELL__NONE;
    if (all == NULL) {
        return cell__no_memory(im);
    }
    for (size_t i = 0; i < width; i++) {
        all[i] = share[i / place->inner % place->size];
    }
    const struct cell_value value = {CELL_F32, (uint32_t)width};
    BASE_TRY(cell__row_const(im, value, all, &shares));
    return cell__row_pair(im, CELL_OP_MUL, *row, shares, row);
}

/* Numbers of two elements and the share of each, [size] of each. */
struct between {
    int64_t *at[2];
    float *share[2];
};

static enum base_status find_between(struct cell__import *im, const struct cell__resized *resized,
                                     uint32_t axis, uint32_t n, struct between *out)
{
    const size_t size = (size_t)resized->axes[axis].size;
    for (uint32_t i = 0; i < 2; i++) {
        out->at[i] = base_arena_array(im->arena, size, sizeof(*out->at[i]));
        out->share[i] = base_arena_array(im->arena, size, sizeof(*out->share[i]));
        if (out->at[i] == NULL || out->share[i] == NULL) {
            return cell__no_memory(im);
        }
    }
    for (size_t r = 0; r < size; r++) {
        const double place = place_within(resized, axis, (double)r, (double)n);
        const double first = floor(place);
        out->at[0][r] = (int64_t)first;
        out->at[1][r] = first + 1.0 < (double)n ? (int64_t)first + 1 : (int64_t)first;
        out->share[1][r] = (float)(place - first);
        out->share[0][r] = 1.0f - out->share[1][r];
    }
    return BASE_OK;
}

enum base_status cell__interpolate_within(struct cell__import *im, const struct cell__shape *shape,
                                          uint32_t axis, const struct cell__resized *resized,
                                          uint32_t *row)
{
    struct cell__place place;
    struct between between;
    uint32_t taken[2];
    BASE_TRY(cell__axis_in_row(im, shape, axis, "interpolates", &place));
    const uint32_t size = (uint32_t)resized->axes[axis].size;
    BASE_TRY(find_between(im, resized, axis, place.size, &between));
    for (uint32_t i = 0; i < 2; i++) {
        const struct cell__place made = {place.outer, size, place.inner};
        BASE_TRY(cell__row_elements(im, *row, &place, between.at[i], size, &taken[i]));
        BASE_TRY(take_share(im, &made, between.share[i], &taken[i]));
    }
    return cell__row_pair(im, CELL_OP_ADD, taken[0], taken[1], row);
}

/* ---- Along the steps ------------------------------------------------------------------------ */

/* The steps before, at, and behind each; rows of as many elements. */
enum { BEFORE, AT, BEHIND, NEIGHBOURS };

static enum base_status find_neighbours(struct cell__import *im, uint32_t row, uint32_t *out)
{
    const uint32_t width = im->rows[row].value.width;
    struct cell__steps steps = {.sequence = cell__only_sequence(im->rows[row].times),
                                .count = NEIGHBOURS,
                                .stride = 1,
                                .behind = 1,
                                .offset = -1};
    uint32_t beside[2] = {row, CELL__NONE};
    uint32_t window = CELL__NONE;
    BASE_TRY(cell__row_number(im, 1.0f, &beside[1]));
    BASE_TRY(cell__row_concat(im, beside, 2, &window));
    BASE_TRY(cell__row_window(im, window, &steps, &window));
    for (uint32_t i = 0; i < NEIGHBOURS; i++) {
        BASE_TRY(cell__row_slice(im, window, i * (width + 1), width, &out[i]));
    }
    for (uint32_t i = 0; i < NEIGHBOURS; i += BEHIND) {
        struct cell_op choose = {.kind = CELL_OP_SELECT, .n_operands = 3};
        const uint32_t is_there = i * (width + 1) + width;
        BASE_TRY(cell__row_slice(im, window, is_there, 1, &choose.operands[0]));
        choose.operands[1] = out[i];
        choose.operands[2] = out[AT];
        BASE_TRY(cell__row_op(im, &choose, (struct cell_value){CELL_F32, width}, &out[i]));
    }
    return BASE_OK;
}

static enum base_status times(struct cell__import *im, uint32_t row, double share, uint32_t *out)
{
    uint32_t number = CELL__NONE;
    BASE_TRY(cell__row_number(im, (float)share, &number));
    return cell__row_pair(im, CELL_OP_MUL, row, number, out);
}

enum base_status cell__interpolate_steps(struct cell__import *im,
                                         const struct cell__resized *resized, uint32_t time,
                                         uint32_t *row)
{
    const uint32_t by = (uint32_t)resized->axes[time].by;
    uint32_t neighbours[NEIGHBOURS];
    uint32_t made[CELL_WINDOW_MAX];
    if (by == 0 || resized->where == CELL__ALIGN_CORNERS) {
        return cell__refuse(im, "along the steps by anything but whole numbers of them, each made "
                                "of its neighbours alone (coordinate_transformation_mode)");
    }
    if (cell__is_pair(im->rows[*row].times) || im->rows[*row].kind == CELL__ROW_CONST) {
        return cell__refuse(im, "steps of anything but one sequence");
    }
    BASE_TRY(find_neighbours(im, *row, neighbours));
    for (uint32_t r = 0; r < by; r++) {
        const double middle = (r + 0.5) / by - 0.5;
        const double place = resized->where == CELL__ASYMMETRIC ? (double)r / by : middle;
        const uint32_t first = place < 0.0 ? BEFORE : AT;
        const double share = place < 0.0 ? place + 1.0 : place;
        uint32_t parts[2];
        BASE_TRY(times(im, neighbours[first], 1.0 - share, &parts[0]));
        BASE_TRY(times(im, neighbours[first + 1], share, &parts[1]));
        BASE_TRY(cell__row_pair(im, CELL_OP_ADD, parts[0], parts[1], &made[r]));
    }
    return cell__row_concat(im, made, by, row);
}
