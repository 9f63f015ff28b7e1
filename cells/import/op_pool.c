/* MaxPool and AveragePool along the steps of a sequence: the largest, or the mean, of a window of
 * rows, element by element. What lies beyond the ends reads as zeros, which are no rows: where
 * that matters each row has a 1 behind it, and a 0 there says that a tap is outside. Of a picture
 * (rank 4) each row is pooled along its height first, and then the steps are: the largest of the
 * largest, or the mean of means. So is a picture within a row (op_picture.c), its width then. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

struct pool {
    struct cell__windows windows;
    struct cell__window window; /* along the steps */
    bool is_max;
    bool counts_pads; /* AveragePool: a mean over all taps, wherever they are */
};

/* Whether a tap of each window is inside: of steps beside each other the last of the first window
 * and the first of the last one, or one that always is. */
static bool is_never_empty(const struct cell__window *window)
{
    bool has_inside = false;
    for (uint32_t k = 0; k < window->taps; k++) {
        has_inside = has_inside || cell__window_is_inside(window, k);
    }
    return has_inside ||
           (window->dilation == 1 && window->before < window->taps && window->add < window->before);
}

/* Whether a window may have padding in it. What the last one of ceil_mode has beyond that is none:
 * ONNX and PyTorch divide by what is left (ONNX Runtime's older releases by all taps). */
static bool has_pads(const struct cell__windows *windows)
{
    bool has = false;
    for (uint32_t i = 0; i < windows->n; i++) {
        has = has || windows->at[i].before > 0 || windows->at[i].behind > 0;
    }
    return has;
}

static enum base_status read_pool(struct cell__import *im, const struct cell__node *node,
                                  struct pool *pool)
{
    int64_t counts = 0;
    *pool = (struct pool){.is_max = strcmp(node->op->name, "MaxPool") == 0};
    if (cell__has_output(node, 1)) {
        return cell__refuse(im, "output Indices");
    }
    if (cell__attr(node, "kernel_shape") == NULL) {
        return cell__invalid(im, "without kernel_shape");
    }
    BASE_TRY(cell__read_windows(im, node, NULL, &pool->windows));
    if (!pool->is_max) {
        BASE_TRY(cell__attr_int(im, node, "count_include_pad", 0, &counts));
    }
    pool->counts_pads = counts != 0 && has_pads(&pool->windows);
    for (uint32_t i = 0; i < pool->windows.n; i++) {
        const struct cell__window *window = &pool->windows.at[i];
        if (pool->counts_pads && window->rounds_up) {
            return cell__refuse(im, "ceil_mode beside count_include_pad");
        }
        if (!pool->counts_pads && !is_never_empty(window)) {
            return cell__refuse(im,
                                "a window that may lie beyond the ends: %lld steps, %lld apart, "
                                "with %lld and %lld of padding",
                                (long long)window->taps, (long long)window->dilation,
                                (long long)window->before, (long long)window->behind);
        }
    }
    return BASE_OK;
}

enum base_status cell__infer_pool(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, 0);
    struct pool pool;
    if (x->kind != CELL__ROWS || x->dtype != CELL__F32 || x->shape.rank < 3 || x->shape.rank > 5) {
        return cell__refuse(im, "of anything but floats [batch, channels, steps], or with up to 2 "
                                "more axes");
    }
    BASE_TRY(read_pool(im, node, &pool));
    return cell__infer_windows(im, node, &pool.windows, 0);
}

/* ---- Along the steps ------------------------------------------------------------------------ */

/* Where a pool reads. */
struct taps {
    struct cell__import *im;
    const struct pool *pool;
    uint32_t row, width; /* of a step, with a 1 behind it where has_ones */
    bool has_ones;
};

/* The row and, behind it, an element that is 1 whatever the row holds: both are then of one stage,
 * which the pool's reads. */
static enum base_status add_one(struct cell__import *im, uint32_t row, uint32_t *out)
{
    struct cell_op op = {.kind = CELL_OP_SELECT, .n_operands = 3};
    uint32_t both[2] = {row};
    BASE_TRY(cell__row_slice(im, row, 0, 1, &op.operands[0]));
    BASE_TRY(cell__row_number(im, 1.0f, &op.operands[1]));
    op.operands[2] = op.operands[1];
    BASE_TRY(cell__row_op(im, &op, (struct cell_value){CELL_F32, 1}, &both[1]));
    return cell__row_concat(im, both, 2, out);
}

static enum base_status taps_init(struct cell__import *im, const struct pool *pool, uint32_t row,
                                  struct taps *taps)
{
    *taps = (struct taps){.im = im, .pool = pool, .row = row, .width = im->rows[row].value.width};
    for (uint32_t k = 0; k < pool->window.taps; k++) {
        taps->has_ones =
            taps->has_ones || (!cell__window_is_inside(&pool->window, k) && !pool->counts_pads);
    }
    return taps->has_ones ? add_one(im, row, &taps->row) : BASE_OK;
}

static enum base_status read_tap(const struct taps *taps, uint32_t k, uint32_t *out)
{
    BASE_TRY(cell__window_tap(taps->im, &taps->pool->window, taps->row, k, out));
    return cell__row_slice(taps->im, *out, 0, taps->width, out);
}

/* 1 or 0; NONE: it always is. */
static enum base_status read_inside(const struct taps *taps, uint32_t k, uint32_t *out)
{
    *out = CELL__NONE;
    if (cell__window_is_inside(&taps->pool->window, k)) {
        return BASE_OK;
    }
    BASE_TRY(cell__window_tap(taps->im, &taps->pool->window, taps->row, k, out));
    return cell__row_slice(taps->im, *out, taps->width, 1, out);
}

static enum base_status select_row(struct cell__import *im, uint32_t condition, uint32_t a,
                                   uint32_t b, uint32_t *out)
{
    struct cell_op op = {.kind = CELL_OP_SELECT, .n_operands = 3, .operands = {condition, a, b}};
    return condition == CELL__NONE ? BASE_OK : cell__row_op(im, &op, im->rows[a].value, out);
}

/* The taps that are inside stand side by side: the first of them begins the maximum, those behind
 * the last leave it as it is. */
static enum base_status lower_max(const struct taps *taps, uint32_t *out)
{
    struct cell__import *im = taps->im;
    uint32_t was_inside = CELL__NONE; /* the tap before */
    BASE_TRY(read_tap(taps, 0, out));
    BASE_TRY(read_inside(taps, 0, &was_inside));
    for (uint32_t k = 1; k < taps->pool->window.taps; k++) {
        uint32_t tap = CELL__NONE;
        uint32_t larger = CELL__NONE;
        uint32_t inside = CELL__NONE;
        BASE_TRY(read_tap(taps, k, &tap));
        BASE_TRY(read_inside(taps, k, &inside));
        BASE_TRY(cell__row_pair(im, CELL_OP_MAX, *out, tap, &larger));
        BASE_TRY(select_row(im, was_inside, larger, tap, &larger));
        BASE_TRY(select_row(im, inside, larger, *out, &larger));
        *out = larger;
        was_inside = inside;
    }
    return BASE_OK;
}

/* How many taps the mean is of. */
static enum base_status count_taps(const struct taps *taps, uint32_t *out)
{
    const struct pool *pool = taps->pool;
    uint32_t always = 0;
    for (uint32_t k = 0; k < pool->window.taps; k++) {
        always += cell__window_is_inside(&pool->window, k) || pool->counts_pads ? 1 : 0;
    }
    BASE_TRY(cell__row_number(taps->im, (float)always, out));
    for (uint32_t k = 0; k < pool->window.taps && !pool->counts_pads; k++) {
        uint32_t inside = CELL__NONE;
        BASE_TRY(read_inside(taps, k, &inside));
        if (inside != CELL__NONE) {
            BASE_TRY(cell__row_pair(taps->im, CELL_OP_ADD, inside, *out, out));
        }
    }
    return BASE_OK;
}

static enum base_status lower_mean(const struct taps *taps, uint32_t *out)
{
    uint32_t number = CELL__NONE;
    uint32_t tap = CELL__NONE;
    BASE_TRY(read_tap(taps, 0, out));
    for (uint32_t k = 1; k < taps->pool->window.taps; k++) {
        BASE_TRY(read_tap(taps, k, &tap));
        BASE_TRY(cell__row_pair(taps->im, CELL_OP_ADD, *out, tap, out));
    }
    BASE_TRY(count_taps(taps, &number));
    return cell__row_pair(taps->im, CELL_OP_DIV, *out, number, out);
}

static enum base_status lower_steps(struct cell__import *im, const struct pool *pool, uint32_t *row)
{
    struct taps taps;
    BASE_TRY(taps_init(im, pool, *row, &taps));
    BASE_TRY(pool->is_max ? lower_max(&taps, row) : lower_mean(&taps, row));
    if (pool->is_max && pool->window.taps == 1) { // what a step hands on is a result of its own
        struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1, .operands = {*row}};
        BASE_TRY(cell__row_op(im, &copy, im->rows[*row].value, row));
    }
    return BASE_OK;
}

/* ---- Along the height ----------------------------------------------------------------------- */

/* Rows of the plane, where it is not padded yet, that the window from place p on has. */
static uint32_t rows_inside(const struct cell__window *window, uint32_t height, uint32_t p)
{
    uint32_t n = 0;
    for (int64_t k = 0; k < window->taps; k++) {
        const int64_t at = (int64_t)p * window->stride + k * window->dilation - window->before;
        n += at >= 0 && at < (int64_t)height ? 1 : 0;
    }
    return n;
}

/* An axis within the row: of a plane whose rows are its places, as many as are left. */
struct side {
    const struct cell__window *window;
    uint32_t left;
};

/* A mean's numbers: of all taps, or of those that are inside. */
static enum base_status numbers_of_taps(struct cell__import *im, const struct pool *pool,
                                        const struct side *side, const struct cell__plane *plane,
                                        uint32_t *out)
{
    const struct cell_value value = {CELL_F32, plane->width * side->left};
    float *numbers = base_arena_array(im->arena, value.width, sizeof(*numbers));
    if (numbers == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t p = 0; p < side->left; p++) {
        const uint32_t inside = rows_inside(side->window, plane->height, p);
        if (inside == 0 && !pool->counts_pads) {
            return cell__refuse(im, "a window with none of the %u rows of its height",
                                plane->height);
        }
        for (size_t c = 0; c < plane->width; c++) {
            numbers[(size_t)p * plane->width + c] =
                pool->counts_pads ? (float)side->window->taps : (float)inside;
        }
    }
    return cell__row_const(im, value, numbers, out);
}

/* A window that has rows at all has those at the end where it is padded, unless it steps over them:
 * a maximum may take them again. */
static enum base_status pad_side(struct cell__import *im, const struct pool *pool,
                                 const struct side *side, struct cell__plane *plane)
{
    const struct cell__window *window = side->window;
    const int64_t last = (int64_t)(side->left - 1) * window->stride;
    const int64_t needed = last + window->extent - window->before - plane->height;
    const int64_t behind = needed > 0 ? needed : 0;
    if (pool->is_max && window->dilation != 1 && (window->before > 0 || behind > 0)) {
        return cell__refuse(im, "padding beside dilations, along the height");
    }
    return cell__plane_pad(im, window->before, behind,
                           pool->is_max ? CELL__EDGES_REPEATED : CELL__EDGES_ZERO, plane);
}

static enum base_status lower_side(struct cell__import *im, const struct pool *pool,
                                   const struct side *side, struct cell__plane *plane)
{
    struct cell__split split;
    uint32_t other = CELL__NONE;
    uint32_t numbers = CELL__NONE;
    if (cell__window_is_step(side->window)) {
        return BASE_OK;
    }
    BASE_TRY(numbers_of_taps(im, pool, side, plane, &numbers));
    BASE_TRY(pad_side(im, pool, side, plane));
    BASE_TRY(cell__plane_split(im, plane, side->window, side->left, &split));
    BASE_TRY(cell__split_tap(im, &split, split.row, 0, &plane->row));
    for (uint32_t k = 1; k < side->window->taps; k++) {
        BASE_TRY(cell__split_tap(im, &split, split.row, k, &other));
        BASE_TRY(cell__row_pair(im, pool->is_max ? CELL_OP_MAX : CELL_OP_ADD, plane->row, other,
                                &plane->row));
    }
    plane->height = side->left;
    return pool->is_max ? BASE_OK
                        : cell__row_pair(im, CELL_OP_DIV, plane->row, numbers, &plane->row);
}

/* Axes within a row [channels][..], outermost first. */
struct sides {
    uint32_t n;
    struct side at[3];
    uint32_t sizes[3];
};

/* One axis after the other, each in turn the outermost of all. */
static enum base_status lower_sides(struct cell__import *im, const struct pool *pool,
                                    const struct sides *sides, uint32_t *row)
{
    const uint32_t width = im->rows[*row].value.width;
    const uint32_t inside[3] = {1, pool->windows.channels, width / pool->windows.channels};
    uint32_t done = 1; /* elements of the axes before this one, which stand behind it */
    struct cell__plane plane;
    BASE_TRY(cell__row_transpose(im, *row, inside, &plane.row));
    for (uint32_t i = 0; i < sides->n; i++) {
        const uint32_t turned[3] = {1, done, sides->sizes[i]};
        BASE_TRY(cell__row_transpose(im, plane.row, turned, &plane.row));
        plane.height = sides->sizes[i];
        plane.width = im->rows[plane.row].value.width / plane.height;
        BASE_TRY(lower_side(im, pool, &sides->at[i], &plane));
        done *= sides->at[i].left;
    }
    *row = plane.row; // [last axis] .. [first axis][channels]
    for (uint32_t i = sides->n; i-- > 1;) {
        uint32_t before = 1;
        for (uint32_t k = 0; k < i; k++) {
            before *= sides->at[k].left;
        }
        const uint32_t back[3] = {1, sides->at[i].left, before};
        BASE_TRY(cell__row_transpose(im, *row, back, row));
    }
    const uint32_t outside[3] = {1, done, pool->windows.channels};
    return cell__row_transpose(im, *row, outside, row);
}

static enum base_status lower_picture(struct cell__import *im, const struct pool *pool,
                                      uint32_t *row)
{
    const struct cell__windows *all = &pool->windows;
    uint32_t largest = *row;
    if (pool->is_max) {
        BASE_TRY(cell__row_picture_largest(im, all, &largest));
    }
    if (!pool->is_max || largest == CELL__NONE) {
        uint32_t left[2];
        struct sides sides = {.n = 2};
        cell__window_sides(all, sides.sizes, left);
        sides.at[0] = (struct side){&all->at[0], left[0]};
        sides.at[1] = (struct side){&all->at[1], left[1]};
        return lower_sides(im, pool, &sides, row);
    }
    *row = largest;
    return BASE_OK;
}

/* The height of each step, then the steps. */
static enum base_status lower_timed(struct cell__import *im, const struct pool *pool, uint32_t *row)
{
    const struct cell__windows *all = &pool->windows;
    struct cell__plane plane;
    BASE_TRY(cell__plane_of(im, *row, all->channels, &plane));
    if (all->n == 2) {
        const struct side height = {&all->at[1 - all->time], all->height_left};
        BASE_TRY(lower_side(im, pool, &height, &plane));
    }
    if (all->n == 1 || !cell__window_is_step(&pool->window)) {
        BASE_TRY(lower_steps(im, pool, &plane.row));
    }
    return cell__plane_row(im, &plane, row);
}

/* Of three axes: all within the row, or the picture of each step and then the steps. */
static enum base_status lower_clip(struct cell__import *im, const struct cell__node *node,
                                   struct pool *pool, uint32_t *row)
{
    const struct cell__windows *all = &pool->windows;
    struct pool pictures = *pool;
    struct cell__windows *of = &pictures.windows;
    BASE_TRY(cell__check_clip(im, node, &pool->windows, of));
    if (all->within > 0) {
        const struct sides sides = {.n = 3,
                                    .at = {{&all->at[0], all->within_left},
                                           {&all->at[1], of->within_left},
                                           {&all->at[2], of->height_left}},
                                    .sizes = {all->within, of->within, of->height}};
        return lower_sides(im, pool, &sides, row);
    }
    pool->window = all->at[0];
    BASE_TRY(lower_picture(im, &pictures, row));
    return cell__window_is_step(&pool->window) ? BASE_OK : lower_steps(im, pool, row);
}

static enum base_status lower_windows(struct cell__import *im, const struct cell__node *node,
                                      struct pool *pool, uint32_t *row)
{
    BASE_TRY(cell__check_windows(im, node, &pool->windows, row));
    pool->window = pool->windows.at[pool->windows.time];
    return pool->windows.within > 0 ? lower_picture(im, pool, row) : lower_timed(im, pool, row);
}

enum base_status cell__lower_pool(struct cell__import *im, struct cell__node *node)
{
    struct pool pool;
    uint32_t row = cell__input(im, node, 0)->row;
    BASE_TRY(read_pool(im, node, &pool));
    pool.windows.takes_within = pool.windows.is_each = true;
    BASE_TRY(pool.windows.n == 3 ? lower_clip(im, node, &pool, &row)
                                 : lower_windows(im, node, &pool, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
