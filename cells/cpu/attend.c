/* One pass over the memory: the sums so far are scaled down when a larger score comes, so no score
 * is kept and a memory may be as long as it likes (Milakov, Gimelshein 2018). Element i of a score
 * is added to partial sum i mod 16 by a fused multiply-add, on every instruction set; what is added
 * by how far apart steps are is a sum of its own. Rows are read some at a time, by up to four
 * queries that attend to the same ones; in whichever company, a query's operations and their order
 * are the same. Cost: two passes over T * D floats for these, no copy, nothing padded. */
#include "cells/cpu/attend.h"

#include "base/assert.h"
#include "cells/cpu/memory.h"
#include "cells/math_constants.h"
#include "cells/ref/math.h"

#include <math.h>
#include <string.h>

/* The op. */
struct attention {
    const struct cell_kernels *kernels;
    uint32_t variant, width, value_width;
    bool nan_is_zero;
    const float *v;
    const struct cell_weight *table;
};

/* Of one row. */
struct query {
    const float *q;
    float *asked;          /* [width]: v_k q_k, or room for what a tanh is of */
    const float *relative; /* [cols of table]; NULL: none */
    float begin;           /* of the table */
    const struct cell_ref *keys, *values;
    uint32_t first, end; /* of their rows */
    float *out;
    float high, weights; /* the largest score so far, and the sum of weights */
};

/* ---- Scores -------------------------------------------------------------------------------- */

static struct cell_some_rows some_rows(const struct cell_ref *memory, uint32_t first, uint32_t n)
{
    return (struct cell_some_rows){
        .first = cell_memory_row(memory, first), .stride_bytes = memory->stride_bytes, .n = n};
}

/* v . tanh(K_t + q), of each row by itself. */
static void score_tanh(const struct attention *of, const struct query *query, uint32_t first,
                       uint32_t n, float *scores)
{
    for (uint32_t t = 0; t < n; t++) {
        const float *key = cell_memory_row(query->keys, first + t);
        float out[1][CELL_ATTEND_ROWS];
        const struct cell_dots dots = {.width = of->width,
                                       .n_queries = 1,
                                       .a = {query->asked},
                                       .b = {of->v, 0, 1},
                                       .out = out};
        for (uint32_t k = 0; k < of->width; k++) {
            query->asked[k] = key[k] + query->q[k];
        }
        of->kernels->tanh(of->width, query->asked, query->asked);
        of->kernels->dots(&dots);
        scores[t] = out[0][0];
    }
}

/* What is added to the scores of rows first.. . The table's rows rise by one or stay at an end. */
static void add_relative(const struct attention *of, const struct query *query, uint32_t first,
                         uint32_t n, float *scores)
{
    const struct cell_weight *table = of->table;
    float added[1][CELL_ATTEND_ROWS];
    const uint32_t last = CELL_PICK_ROW(query->begin + (float)(first + n - 1), table->rows);
    for (uint32_t t = 0; t < n;) {
        const uint32_t row = CELL_PICK_ROW(query->begin + (float)(first + t), table->rows);
        const uint32_t together = last - row == n - 1 - t ? n - t : 1;
        const struct cell_dots dots = {
            .width = table->cols,
            .n_queries = 1,
            .a = {query->relative},
            .b = {.first = (const float *)table->data + (size_t)row * table->cols,
                  .stride_bytes = (int64_t)(table->cols * sizeof(float)),
                  .n = together},
            .out = added};
        of->kernels->dots(&dots);
        for (uint32_t k = 0; k < together; k++) {
            scores[t + k] += added[0][k];
        }
        t += together;
    }
}

/* Of queries that attend to the same rows, rows first.. . */
static void score(const struct attention *of, const struct query *queries, uint32_t n_queries,
                  uint32_t first, uint32_t n, float (*scores)[CELL_ATTEND_ROWS])
{
    struct cell_dots dots = {.width = of->width,
                             .n_queries = n_queries,
                             .b = some_rows(queries[0].keys, first, n),
                             .out = scores};
    for (uint32_t q = 0; q < n_queries; q++) {
        dots.a[q] = queries[q].asked;
        if (of->variant == CELL_ATTEND_TANH) {
            score_tanh(of, &queries[q], first, n, scores[q]);
        }
    }
    if (of->variant != CELL_ATTEND_TANH) {
        of->kernels->dots(&dots);
    }
    for (uint32_t q = 0; q < n_queries; q++) {
        if (queries[q].relative != NULL) {
            add_relative(of, &queries[q], first, n, scores[q]);
        }
    }
}

/* ---- Sums ---------------------------------------------------------------------------------- */

/* What queries make of some rows. */
struct tile {
    float scores[CELL_ATTEND_QUERIES][CELL_ATTEND_ROWS]; /* then weights */
    float scales[CELL_ATTEND_QUERIES][CELL_ATTEND_ROWS];
    uint32_t scaled[CELL_ATTEND_QUERIES];
};

/* Where one score is larger than all before, the sums so far are scaled down before it is added:
 * its bit is set. */
static uint32_t rising_weights(const struct attention *of, struct query *query, uint32_t n,
                               float *scores, float *scales)
{
    uint32_t scaled = 0;
    uint32_t masked = 0;
    for (uint32_t t = 0; t < n; t++) {
        const float own = scores[t];
        const bool is_higher = own > query->high;
        scales[t] = is_higher ? query->high - own : 0.0f;
        query->high = is_higher ? own : query->high;
        scaled |= is_higher ? 1u << t : 0;
        // Of a masked step: also while nothing else has come, where the difference is no number.
        masked |= own == -INFINITY ? 1u << t : 0;
        scores[t] = own - query->high;
    }
    of->kernels->exp(n, scores, 0.0f, scores);
    of->kernels->exp(n, scales, 0.0f, scales);
    for (uint32_t t = 0; t < n; t++) {
        scores[t] = (masked >> t & 1) != 0 ? 0.0f : scores[t];
    }
    return scaled;
}

/* Scores become weights. In most tiles none is larger than all before. */
static uint32_t weights_of(const struct attention *of, struct query *query, uint32_t n,
                           float *scores, float *scales)
{
    if (query->high == -INFINITY || of->kernels->rises(n, scores, query->high)) {
        return rising_weights(of, query, n, scores, scales);
    }
    of->kernels->exp(n, scores, query->high, scores);
    return 0;
}

static void scale_and_add(struct query *query, uint32_t scaled, uint32_t n, const float *weights,
                          const float *scales)
{
    float sum = query->weights;
    for (uint32_t t = 0; t < n; t++) {
        sum = ((scaled >> t & 1) != 0 ? sum * scales[t] : sum) + weights[t];
    }
    query->weights = sum;
}

/* The sums of weights: of as many queries as there may be side by side, where none waits for
 * another. */
static void add_weights(struct query *queries, uint32_t n_queries, uint32_t n, struct tile *tile)
{
    uint32_t scaled = 0;
    for (uint32_t q = 0; q < n_queries; q++) {
        scaled |= tile->scaled[q];
    }
    if (n_queries < CELL_ATTEND_QUERIES || scaled != 0) {
        for (uint32_t q = 0; q < n_queries; q++) {
            scale_and_add(&queries[q], tile->scaled[q], n, tile->scores[q], tile->scales[q]);
        }
        return;
    }
    _Static_assert(CELL_ATTEND_QUERIES == 4, "as many sums as there are below");
    float a = queries[0].weights;
    float b = queries[1].weights;
    float c = queries[2].weights;
    float d = queries[3].weights;
    for (uint32_t t = 0; t < n; t++) {
        a += tile->scores[0][t];
        b += tile->scores[1][t];
        c += tile->scores[2][t];
        d += tile->scores[3][t];
    }
    queries[0].weights = a;
    queries[1].weights = b;
    queries[2].weights = c;
    queries[3].weights = d;
}

/* Rows first.. end - 1, by queries that attend to them. */
static void attend_rows(const struct attention *of, struct query *queries, uint32_t n_queries,
                        uint32_t first, uint32_t end)
{
    struct tile tile;
    struct cell_weighing weighing = {.width = of->value_width,
                                     .n_queries = n_queries,
                                     .weights = (const float(*)[CELL_ATTEND_ROWS])tile.scores,
                                     .scales = (const float(*)[CELL_ATTEND_ROWS])tile.scales,
                                     .scaled = tile.scaled};
    for (uint32_t q = 0; q < n_queries; q++) {
        weighing.out[q] = queries[q].out;
    }
    for (uint32_t t = first; t < end; t += CELL_ATTEND_ROWS) {
        const uint32_t n = end - t < CELL_ATTEND_ROWS ? end - t : CELL_ATTEND_ROWS;
        score(of, queries, n_queries, t, n, tile.scores);
        for (uint32_t q = 0; q < n_queries; q++) {
            tile.scaled[q] = weights_of(of, &queries[q], n, tile.scores[q], tile.scales[q]);
        }
        add_weights(queries, n_queries, n, &tile);
        weighing.rows = some_rows(queries[0].values, t, n);
        of->kernels->weigh(&weighing);
    }
}

/* Queries of one memory: the rows to which all attend together, those before and behind each by
 * itself. */
static void attend(const struct attention *of, struct query *queries, uint32_t n_queries)
{
    uint32_t first = 0;
    uint32_t end = UINT32_MAX;
    for (uint32_t q = 0; q < n_queries; q++) {
        first = queries[q].first > first ? queries[q].first : first;
        end = queries[q].end < end ? queries[q].end : end;
        memset(queries[q].out, 0, of->value_width * sizeof(float));
    }
    end = end < first ? first : end;
    for (uint32_t q = 0; q < n_queries; q++) {
        const uint32_t own = queries[q].end < first ? queries[q].end : first;
        attend_rows(of, &queries[q], 1, queries[q].first, own);
    }
    attend_rows(of, queries, n_queries, first, end);
    for (uint32_t q = 0; q < n_queries; q++) {
        struct query *query = &queries[q];
        attend_rows(of, query, 1, query->first > end ? query->first : end, query->end);
        // The weight of the largest score is 1, so that of numbers they are more than 0 together.
        if (of->nan_is_zero && !(query->weights > 0.0f)) {
            memset(query->out, 0, of->value_width * sizeof(float));
        } else if (query->first < query->end) {
            of->kernels->divide(of->value_width, query->weights, query->out);
        }
    }
}

/* The largest score; 0 without rows. */
static void find_largest(const struct attention *of, const struct query *query)
{
    float high = query->end == 0 ? 0.0f : -INFINITY;
    for (uint32_t t = 0; t < query->end && !isnan(high); t += CELL_ATTEND_ROWS) {
        const uint32_t n = query->end - t < CELL_ATTEND_ROWS ? query->end - t : CELL_ATTEND_ROWS;
        float scores[1][CELL_ATTEND_ROWS];
        score(of, query, 1, t, n, scores);
        for (uint32_t k = 0; k < n && !isnan(high); k++) {
            high = scores[0][k] <= high ? high : scores[0][k]; // a NaN, too, from then on
        }
    }
    *query->out = cell_nan_f32__scalar(high);
}

/* ---- The op -------------------------------------------------------------------------------- */

static float *row_of(const struct cell_view *view, uint32_t value, uint32_t r)
{
    return (float *)(void *)view->space->rows[value][r];
}

/* Of row r; asked: [width]. */
static struct query query_of(const struct cell_view *view, const struct cell_program_op *op,
                             const struct attention *of, uint32_t r, float *asked)
{
    const struct cell_wiring *wiring = cell_view_row(view, r)->wiring;
    struct query query = {.q = row_of(view, op->in[0], r),
                          .asked = asked,
                          .keys = &wiring->inputs[op->op->operands[1]],
                          .values = &wiring->inputs[op->op->operands[2]],
                          .out = row_of(view, op->out, r),
                          .high = -INFINITY};
    query.end = cell_memory_rows(query.keys);
    base_assert(query.end == cell_memory_rows(query.values));
    if (op->n_in > 3) {
        const float *bounds = row_of(view, op->in[3], r);
        query.first = CELL_ATTEND_BOUND(bounds[0], query.end);
        query.end = CELL_ATTEND_BOUND(bounds[1], query.end);
        query.end = query.end < query.first ? query.first : query.end;
        query.begin = op->n_in > 4 ? bounds[2] : 0.0f;
    }
    query.relative = op->n_in > 4 ? row_of(view, op->in[4], r) : NULL;
    for (uint32_t k = 0; of->variant != CELL_ATTEND_TANH && k < of->width; k++) {
        asked[k] = of->v[k] * query.q[k];
    }
    return query;
}

static bool is_same_memory(const struct cell_ref *a, const struct cell_ref *b)
{
    return a->kind == CELL_REF_HOST && b->kind == CELL_REF_HOST && a->host == b->host &&
           a->rows == b->rows && a->stride_bytes == b->stride_bytes;
}

void cell_attend(const struct cell_view *view, const struct cell_program_op *op)
{
    uint32_t first;
    uint32_t end;
    struct query queries[CELL_ATTEND_QUERIES];
    const struct attention of = {.kernels = view->program->kernels,
                                 .variant = op->op->variant,
                                 .width = op->op->weights[0].cols,
                                 .value_width = view->program->values[op->out].shape.width,
                                 .nan_is_zero = op->op->nan_is_zero,
                                 .v = op->op->weights[0].data,
                                 .table = &op->op->weights[1]};
    cell_view_share(view, view->n_rows, &first, &end);
    for (uint32_t r = first; r < end;) {
        uint32_t n = 0;
        while (n < CELL_ATTEND_QUERIES && r < end) {
            float *asked = view->space->scratch + (size_t)n * of.width;
            queries[n] = query_of(view, op, &of, r, asked);
            if (n > 0 && (!is_same_memory(queries[n].keys, queries[0].keys) ||
                          !is_same_memory(queries[n].values, queries[0].values))) {
                break;
            }
            n++;
            r++;
        }
        if (of.variant == CELL_ATTEND_LARGEST) {
            for (uint32_t q = 0; q < n; q++) {
                find_largest(&of, &queries[q]);
            }
        } else {
            attend(&of, queries, n);
        }
    }
}
