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

/* Rows that are scored, and their values added, together. */
enum { AT_ONCE = 32 };

static float dot(const struct query *query, const float *a, const float *b)
{
    const struct cell_some_rows row = {.first = b, .n = 1};
    float out = 0.0f;
    query->kernels->dots(query->width, a, &row, &out);
    return out;
}

static float tanh_score(const struct query *query, const float *key)
{
    for (uint32_t k = 0; k < query->width; k++) {
        query->room[k] = key[k] + query->q[k];
    }
    query->kernels->tanh(query->width, query->room, query->room);
    return dot(query, query->room, query->v);
}

static struct cell_some_rows some_rows(const struct cell_ref *memory, uint32_t first, uint32_t n)
{
    return (struct cell_some_rows){
        .first = cell_memory_row(memory, first), .stride_bytes = memory->stride_bytes, .n = n};
}

/* What is added to the scores of rows first.. . The table's rows rise by one or stay at an end. */
static void add_relative(const struct query *query, uint32_t first, uint32_t n, float *scores)
{
    const struct cell_weight *table = query->table;
    const float *data = table->data;
    const float begin = query->bounds[2];
    float added[AT_ONCE];
    for (uint32_t t = 0; t < n;) {
        const uint32_t row = CELL_PICK_ROW(begin + (float)(first + t), table->rows);
        const uint32_t last = CELL_PICK_ROW(begin + (float)(first + n - 1), table->rows);
        const uint32_t together = last - row == n - 1 - t ? n - t : 1;
        const struct cell_some_rows rows = {.first = data + (size_t)row * table->cols,
                                            .stride_bytes = (int64_t)table->cols * 4,
                                            .n = together};
        query->kernels->dots(table->cols, query->relative, &rows, added + t);
        t += together;
    }
    for (uint32_t t = 0; t < n; t++) {
        scores[t] += added[t];
    }
}

static void score(const struct query *query, const struct cell_ref *keys, uint32_t first,
                  uint32_t n, float *scores)
{
    if (query->variant == CELL_ATTEND_TANH) {
        for (uint32_t t = 0; t < n; t++) {
            scores[t] = tanh_score(query, cell_memory_row(keys, first + t));
        }
        return;
    }
    const struct cell_some_rows rows = some_rows(keys, first, n); // room: v_k q_k
    query->kernels->dots(query->width, query->room, &rows, scores);
    if (query->relative != NULL) {
        add_relative(query, first, n, scores);
    }
}

/* The sums so far: of weights, and the largest score. */
struct sums {
    float high, weights;
};

/* Scores become weights. Where one is larger than all before, the sums so far are scaled down
 * before it is added: its bit is set. */
static uint32_t weights_of(const struct query *query, uint32_t n, float *scores, float *scales,
                           struct sums *sums)
{
    uint32_t scaled = 0;
    uint32_t masked = 0;
    for (uint32_t t = 0; t < n; t++) {
        const float own = scores[t];
        const bool is_higher = own > sums->high;
        scales[t] = is_higher ? sums->high - own : 0.0f;
        sums->high = is_higher ? own : sums->high;
        scaled |= is_higher ? 1u << t : 0;
        // Of a masked step: also while nothing else has come, where the difference is no number.
        masked |= own == -INFINITY ? 1u << t : 0;
        scores[t] = own - sums->high;
    }
    query->kernels->exp(n, scores, scores);
    if (scaled != 0) {
        query->kernels->exp(n, scales, scales);
    }
    for (uint32_t t = 0; t < n; t++) {
        scores[t] = (masked >> t & 1) != 0 ? 0.0f : scores[t];
        sums->weights = (scaled >> t & 1) != 0 ? sums->weights * scales[t] : sums->weights;
        sums->weights += scores[t];
    }
    return scaled;
}

static void attend(const struct query *query, const struct cell_ref *keys,
                   const struct cell_ref *values, uint32_t width, float *out)
{
    struct sums sums = {.high = -INFINITY};
    const uint32_t n = cell_memory_rows(keys);
    const uint32_t first = query->bounds == NULL ? 0 : CELL_ATTEND_BOUND(query->bounds[0], n);
    const uint32_t end = query->bounds == NULL ? n : CELL_ATTEND_BOUND(query->bounds[1], n);
    memset(out, 0, width * sizeof(*out));
    base_assert(n == cell_memory_rows(values));
    for (uint32_t t = first; t < end; t += AT_ONCE) {
        const uint32_t count = end - t < AT_ONCE ? end - t : AT_ONCE;
        float scores[AT_ONCE];
        float scales[AT_ONCE];
        score(query, keys, t, count, scores);
        const uint32_t scaled = weights_of(query, count, scores, scales, &sums);
        const struct cell_weighing weighing = {.width = width,
                                               .rows = some_rows(values, t, count),
                                               .weights = scores,
                                               .scales = scales,
                                               .scaled = scaled,
                                               .out = out};
        query->kernels->weigh(&weighing);
    }
    if (first < end) {
        query->kernels->divide(width, sums.weights, out);
    }
}

/* The largest score; 0 without rows. */
static float largest(const struct query *query, const struct cell_ref *keys)
{
    const uint32_t n = cell_memory_rows(keys);
    float high = n == 0 ? 0.0f : -INFINITY;
    for (uint32_t t = 0; t < n && !isnan(high); t += AT_ONCE) {
        const uint32_t count = n - t < AT_ONCE ? n - t : AT_ONCE;
        float scores[AT_ONCE];
        score(query, keys, t, count, scores);
        for (uint32_t k = 0; k < count && !isnan(high); k++) {
            high = scores[k] <= high ? high : scores[k]; // a NaN, too, from then on
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
