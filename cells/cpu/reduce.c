/* REDUCE; see reduce.h. A line of each row's elements at a time, step after step, so that their
 * sums stay in registers. Portable C, the same bits on every instruction set: sums are in double
 * precision and in a stated order, and nothing is fused. Cost: a pass over T * D floats, of a
 * variance two; it waits for the memory, or, of single floats, for one addition a step. */
#include "cells/cpu/reduce.h"

#include "cells/cpu/memory.h"
#include "cells/cpu/simd.h"
#include "cells/ref/math.h"

#include <math.h>
#include <string.h>

#define TILE 16u /* elements of a line */

/* Elements first .. first + n - 1 of all rows, n <= TILE. */
struct tile {
    const struct cell_ref *memory;
    uint32_t steps, first, n;
};

/* Adds the sums of steps first .. end - 1: of the elements, or, where there is a mean, of the
 * squares of what they differ from it by. n, and whether there is one: known to the compiler. */
CELL_INLINE void add_part(const struct tile *tile, const uint32_t n, const double *mean,
                          uint32_t first, double *sums)
{
    const uint32_t part = CELL_REDUCE_PART(tile->steps);
    const uint32_t end = tile->steps - first < part ? tile->steps : first + part;
    double own[TILE] = {0.0};
    for (uint32_t t = first; t < end; t++) {
        const float *row = cell_memory_row(tile->memory, t) + tile->first;
        for (uint32_t k = 0; k < n; k++) {
            const double x = mean == NULL ? (double)row[k] : (double)row[k] - mean[k];
            own[k] += mean == NULL ? x : x * x;
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        sums[k] += own[k];
    }
}

CELL_INLINE void add_parts(const struct tile *tile, const uint32_t n, const double *mean,
                           double *sums)
{
    memset(sums, 0, n * sizeof(*sums));
    for (uint32_t t = 0; t < tile->steps; t += CELL_REDUCE_PART(tile->steps)) {
        add_part(tile, n, mean, t, sums);
    }
}

/* Most tiles are whole lines, and what has one element a row is long. */
static void add_elements(const struct tile *tile, double *sums)
{
    if (tile->n == TILE) {
        add_parts(tile, TILE, NULL, sums);
    } else if (tile->n == 1) {
        add_parts(tile, 1, NULL, sums);
    } else {
        add_parts(tile, tile->n, NULL, sums);
    }
}

static void add_squares(const struct tile *tile, const double *mean, double *sums)
{
    if (tile->n == TILE) {
        add_parts(tile, TILE, mean, sums);
    } else if (tile->n == 1) {
        add_parts(tile, 1, mean, sums);
    } else {
        add_parts(tile, tile->n, mean, sums);
    }
}

static void sum_tile(const struct tile *tile, uint32_t variant, float *out)
{
    double sums[TILE];
    double squares[TILE];
    add_elements(tile, sums);
    for (uint32_t k = 0; k < tile->n && variant != CELL_REDUCE_SUM; k++) {
        sums[k] /= tile->steps;
    }
    if (variant == CELL_REDUCE_VARIANCE) {
        add_squares(tile, sums, squares);
    }
    for (uint32_t k = 0; k < tile->n; k++) {
        const double result = variant == CELL_REDUCE_VARIANCE ? squares[k] / tile->steps : sums[k];
        out[k] = cell_nan_f32__scalar((float)result);
    }
}

/* Of equal ones the first, and a NaN for good. */
CELL_INLINE void pick_rows(const struct tile *tile, const uint32_t n, const bool is_largest,
                           float *out)
{
    float best[TILE] = {0.0f};
    if (tile->steps > 0) {
        memcpy(best, cell_memory_row(tile->memory, 0) + tile->first, n * sizeof(*best));
    }
    for (uint32_t t = 1; t < tile->steps; t++) {
        const float *row = cell_memory_row(tile->memory, t) + tile->first;
        for (uint32_t k = 0; k < n; k++) {
            const bool is_better = is_largest ? row[k] > best[k] : row[k] < best[k];
            best[k] = is_better || isnan(row[k]) ? row[k] : best[k];
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        out[k] = cell_nan_f32__scalar(best[k]);
    }
}

static void pick_tile(const struct tile *tile, bool is_largest, float *out)
{
    if (tile->n == TILE && is_largest) {
        pick_rows(tile, TILE, true, out);
    } else if (tile->n == TILE) {
        pick_rows(tile, TILE, false, out);
    } else {
        pick_rows(tile, tile->n, is_largest, out);
    }
}

static void reduce(const struct cell_ref *memory, uint32_t variant, uint32_t width, float *out)
{
    struct tile tile = {.memory = memory, .steps = cell_memory_rows(memory)};
    if (variant == CELL_REDUCE_COUNT) {
        *out = (float)tile.steps;
        return;
    }
    for (; tile.first < width; tile.first += TILE) {
        tile.n = width - tile.first < TILE ? width - tile.first : TILE;
        if (variant == CELL_REDUCE_MAX || variant == CELL_REDUCE_MIN) {
            pick_tile(&tile, variant == CELL_REDUCE_MAX, out + tile.first);
        } else {
            sum_tile(&tile, variant, out + tile.first);
        }
    }
}

void cell_reduce(const struct cell_view *view, const struct cell_program_op *op)
{
    const uint32_t width = view->program->values[op->out].shape.width;
    uint32_t first;
    uint32_t end;
    cell_view_share(view, view->n_rows, &first, &end);
    for (uint32_t r = first; r < end; r++) {
        const struct cell_ref *memory =
            &cell_view_row(view, r)->wiring->inputs[op->op->operands[0]];
        reduce(memory, op->op->variant, width, (float *)(void *)view->space->rows[op->out][r]);
    }
}
