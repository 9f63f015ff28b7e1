/* One pass over the memory: the sums so far are scaled down when a larger score comes, so no score
 * is kept and a memory may be as long as it likes (Milakov, Gimelshein 2018). No operation is
 * fused, and element i of a score adds to partial sum i mod 16, on every instruction set; what is
 * added by how far apart steps are is a sum of its own. Cost: two passes over T * D floats a row
 * and step, no copy, nothing padded. */
#include "cells/cpu/attend.h"

#include "base/assert.h"
#include "cells/cpu/memory.h"
#include "cells/math_constants.h"
#include "cells/ref/math.h"

#include <math.h>
#include <string.h>

/* Of one row. */
struct query {
    const struct cell_kernels *kernels;
    uint32_t width, variant;
    const float *q, *v;
    float *room;           /* [width] */
    const float *bounds;   /* [2], or [3]; NULL: all rows */
    const float *relative; /* [cols of table]; NULL: none */
    const struct cell_weight *table;
};

static float score_of(const struct query *query, const float *key)
{
    if (query->variant != CELL_ATTEND_TANH) {
        return query->kernels->dot(query->width, query->room, key); // room: v_k q_k
    }
    for (uint32_t k = 0; k < query->width; k++) {
        query->room[k] = key[k] + query->q[k];
    }
    query->kernels->tanh(query->width, query->room, query->room);
    return query->kernels->dot(query->width, query->room, query->v);
}

/* What is added to the score of row t. */
static float relative_of(const struct query *query, uint32_t t)
{
    const uint32_t width = query->table->cols;
    const uint32_t row = CELL_PICK_ROW(query->bounds[2] + (float)t, query->table->rows);
    return query->kernels->dot(width, query->relative,
                               (const float *)query->table->data + (size_t)row * width);
}

static void attend(const struct query *query, const struct cell_ref *keys,
                   const struct cell_ref *values, uint32_t width, float *out)
{
    float high = -INFINITY;
    float sum = 0.0f;
    const uint32_t n = cell_memory_rows(keys);
    const uint32_t first = query->bounds == NULL ? 0 : CELL_ATTEND_BOUND(query->bounds[0], n);
    const uint32_t end = query->bounds == NULL ? n : CELL_ATTEND_BOUND(query->bounds[1], n);
    memset(out, 0, width * sizeof(*out));
    base_assert(n == cell_memory_rows(values));
    for (uint32_t t = first; t < end; t++) {
        float score = score_of(query, cell_memory_row(keys, t));
        score += query->relative != NULL ? relative_of(query, t) : 0.0f;
        const float *value = cell_memory_row(values, t);
        if (score > high) {
            const float less = cell_exp_f32__scalar(high - score);
            high = score;
            sum *= less;
            for (uint32_t k = 0; k < width; k++) {
                out[k] *= less;
            }
        }
        // Of a masked step: also while nothing else has come, where the difference is no number.
        const float weight = score == -INFINITY ? 0.0f : cell_exp_f32__scalar(score - high);
        sum += weight;
        query->kernels->add_scaled(width, weight, value, out);
    }
    if (first < end) {
        query->kernels->divide(width, sum, out);
    }
}

/* The largest score; 0 without rows. */
static float largest(const struct query *query, const struct cell_ref *keys)
{
    const uint32_t n = cell_memory_rows(keys);
    float high = n == 0 ? 0.0f : -INFINITY;
    for (uint32_t t = 0; t < n; t++) {
        const float score = score_of(query, cell_memory_row(keys, t));
        high = score <= high ? high : score; // a NaN, too, from then on
        if (isnan(score)) {
            break;
        }
    }
    return cell_nan_f32__scalar(high);
}

void cell_attend(const struct cell_view *view, const struct cell_program_op *op)
{
    uint32_t first;
    uint32_t end;
    struct query query = {.kernels = view->program->kernels,
                          .width = op->op->weights[0].cols,
                          .variant = op->op->variant,
                          .v = op->op->weights[0].data,
                          .room = view->space->scratch,
                          .table = &op->op->weights[1]};
    cell_view_share(view, view->n_rows, &first, &end);
    for (uint32_t r = first; r < end; r++) {
        const struct cell_wiring *wiring = cell_view_row(view, r)->wiring;
        query.q = (const float *)(const void *)view->space->rows[op->in[0]][r];
        query.bounds =
            op->n_in > 3 ? (const float *)(const void *)view->space->rows[op->in[3]][r] : NULL;
        query.relative =
            op->n_in > 4 ? (const float *)(const void *)view->space->rows[op->in[4]][r] : NULL;
        float *out = (float *)(void *)view->space->rows[op->out][r];
        for (uint32_t k = 0; query.variant != CELL_ATTEND_TANH && k < query.width; k++) {
            query.room[k] = query.v[k] * query.q[k];
        }
        if (query.variant == CELL_ATTEND_LARGEST) {
            *out = largest(&query, &wiring->inputs[op->op->operands[1]]);
        } else {
            attend(&query, &wiring->inputs[op->op->operands[1]],
                   &wiring->inputs[op->op->operands[2]], view->program->values[op->out].shape.width,
                   out);
        }
    }
}
