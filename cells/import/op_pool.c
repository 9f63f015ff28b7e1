/* MaxPool and AveragePool along the steps of a sequence: the largest, or the mean, of a window of
 * rows, element by element. What lies beyond the ends reads as zeros, which are no rows: where
 * that matters each row has a 1 behind it, and a 0 there says that a tap is outside. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

struct pool {
    struct cell__window window;
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
    BASE_TRY(cell__read_window(im, node, 0, &pool->window));
    if (!pool->is_max) {
        BASE_TRY(cell__attr_int(im, node, "count_include_pad", 0, &counts));
    }
    pool->counts_pads = counts != 0;
    if (pool->counts_pads && pool->window.rounds_up) {
        return cell__refuse(im, "ceil_mode beside count_include_pad");
    }
    return pool->counts_pads || is_never_empty(&pool->window)
               ? BASE_OK
               : cell__refuse(im,
                              "a window that may lie beyond the ends: %lld steps, %lld apart, "
                              "with %lld and %lld of padding",
                              (long long)pool->window.taps, (long long)pool->window.dilation,
                              (long long)pool->window.before, (long long)pool->window.behind);
}

enum base_status cell__infer_pool(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, 0);
    struct pool pool;
    if (x->kind != CELL__ROWS || x->dtype != CELL__F32 || x->shape.rank != 3) {
        return cell__refuse(im, "of anything but floats [batch, channels, steps]");
    }
    BASE_TRY(read_pool(im, node, &pool));
    return cell__infer_window(im, node, &pool.window, 0);
}

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

enum base_status cell__lower_pool(struct cell__import *im, struct cell__node *node)
{
    struct pool pool;
    struct taps taps;
    uint32_t row = CELL__NONE;
    BASE_TRY(read_pool(im, node, &pool));
    BASE_TRY(cell__check_window(im, node, &pool.window));
    BASE_TRY(taps_init(im, &pool, cell__input(im, node, 0)->row, &taps));
    BASE_TRY(pool.is_max ? lower_max(&taps, &row) : lower_mean(&taps, &row));
    if (pool.is_max && pool.window.taps == 1) { // what a step hands on is a result of its own
        struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1, .operands = {row}};
        BASE_TRY(cell__row_op(im, &copy, im->rows[row].value, &row));
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
