/* See relative.h. What a row is made of is found once, and then computed for some pairs of each
 * distance: those that begin at the first step, and some further on, which must say the same. */
#include "cells/import/relative.h"

#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/mem.h"
#include "cells/ref/pointwise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How much further on, and of which distances. */
static const int32_t shifts[] = {0, 1, 6, 67};

enum { SHIFTS = sizeof(shifts) / sizeof(shifts[0]), COMPARED_ALL = 96, COMPARED_EACH = 61 };

/* Of a table: floats, and operations that make it; of all tables of a model: bytes, and these. */
#define TABLE_MAX     (4u << 20)
#define TERMS_MAX     (1ull << 30)
#define ALL_BYTES_MAX (512u << 20)
#define ALL_TERMS_MAX (1ull << 35)

/* A step to which no table reaches, still exact as a float. */
#define FAR_STEP (1 << 20)

/* Who has been asked for before. */
struct cell__relative_kept {
    uint32_t row, over;
    struct cell__relative relative;
    const struct cell__relative_kept *next;
};

/* One of the rows that it takes. What a mirror copies is asked for at the key's steps as if these
 * were the query's: turned. */
struct item {
    uint32_t row;
    bool is_turned;
    uint32_t operands[CELL_OPERANDS_MAX]; /* items */
    float *value;                         /* [width] */
    double *sums;                         /* LINEAR: [width] */
};

struct walk {
    struct cell__import *im;
    uint32_t over;
    uint32_t n;
    struct item *items; /* operands before what is made of them */
};

/* ---- What it takes ------------------------------------------------------------------------- */

bool cell__is_computed_of_numbers(const struct cell_op *op)
{
    const bool is_one = op->kind == CELL_OP_CAST || op->kind == CELL_OP_COPY ||
                        op->kind == CELL_OP_GATHER || op->kind == CELL_OP_CONCAT ||
                        op->kind == CELL_OP_SLICE || op->kind == CELL_OP_SPREAD ||
                        op->kind == CELL_OP_LINEAR || op->kind == CELL_OP_TRANSPOSE;
    return (is_one || cell_op_is_pointwise(op->kind)) && op->patches == 0;
}

/* Which rows a row is made of, and whether those are turned. */
static void asks_of(const struct walk *walk, uint32_t row, bool *is_turned, uint32_t *n,
                    uint32_t operands[CELL_OPERANDS_MAX])
{
    const struct cell__row *at = &walk->im->rows[row];
    *n = at->kind == CELL__ROW_OP ? at->op.n_operands : 0;
    memcpy(operands, at->op.operands, *n * sizeof(*operands));
    if (cell__row_is_mirror(walk->im, row)) {
        operands[0] = walk->im->rows[at->op.operands[0]].index;
        *is_turned = !*is_turned;
    }
}

/* Which rows are asked for: what is turned stands in bit 1 of a row's, else in bit 0. Numbers of
 * rows rise, so that those from `row` on down are gone through once. */
static uint8_t *ask(struct walk *walk, uint32_t row)
{
    uint8_t *asked = base_arena_array(walk->im->arena, (size_t)row + 1, sizeof(*asked));
    if (asked == NULL) {
        return NULL;
    }
    memset(asked, 0, (size_t)row + 1);
    asked[row] = 1;
    for (uint32_t r = row + 1; r-- > 0;) {
        for (uint32_t turned = 0; turned < 2; turned++) {
            uint32_t operands[CELL_OPERANDS_MAX];
            uint32_t n = 0;
            bool is_turned = turned != 0;
            if ((asked[r] >> turned & 1) != 0) {
                asks_of(walk, r, &is_turned, &n, operands);
                walk->n++;
            }
            for (uint32_t i = 0; i < n; i++) {
                asked[operands[i]] |= (uint8_t)(is_turned ? 2 : 1);
            }
        }
    }
    return asked;
}

/* An item of a row; numbers: of those before it, [rows][2]. */
static enum base_status item_of(struct walk *walk, uint32_t row, bool is_turned,
                                const uint32_t *numbers, struct item *out)
{
    struct base_arena *arena = walk->im->arena;
    const struct cell__row *at = &walk->im->rows[row];
    const bool has_sums = at->kind == CELL__ROW_OP && at->op.kind == CELL_OP_LINEAR;
    uint32_t n = 0;
    *out = (struct item){.row = row, .is_turned = is_turned};
    out->value = base_arena_array(arena, at->value.width, sizeof(*out->value));
    out->sums = has_sums ? base_arena_array(arena, at->value.width, sizeof(*out->sums)) : NULL;
    if (out->value == NULL || (has_sums && out->sums == NULL)) {
        return cell__no_memory(walk->im);
    }
    asks_of(walk, row, &is_turned, &n, out->operands);
    for (uint32_t i = 0; i < n; i++) {
        out->operands[i] = numbers[2 * (size_t)out->operands[i] + (is_turned ? 1 : 0)];
    }
    return BASE_OK;
}

static enum base_status refuse_more(struct cell__import *im)
{
    return cell__refuse(im, "a number for each pair of steps that follows from more than how far "
                            "apart these are");
}

/* What rounds the number of one step changes at few of them, between which no pair might be
 * computed here. */
static bool is_stepwise(const struct cell__import *im, uint32_t row)
{
    const struct cell__row *at = &im->rows[row];
    const bool rounds = at->kind == CELL__ROW_OP &&
                        (at->op.kind == CELL_OP_FLOOR || at->op.kind == CELL_OP_ROUND ||
                         (at->op.kind == CELL_OP_CAST && at->value.dtype != CELL_F32 &&
                          im->rows[at->op.operands[0]].value.dtype == CELL_F32 && !at->is_counted));
    const uint32_t times = rounds ? im->rows[at->op.operands[0]].times : 0;
    return times != 0 && !cell__is_pair(times) &&
           !cell__row_is_of_distances(im, at->op.operands[0]);
}

static enum base_status find_items(struct walk *walk, uint32_t row)
{
    const uint8_t *asked = ask(walk, row);
    uint32_t *numbers = base_arena_array(walk->im->arena, 2 * ((size_t)row + 1), sizeof(*numbers));
    walk->items = base_arena_array(walk->im->arena, walk->n, sizeof(*walk->items));
    if (asked == NULL || numbers == NULL || walk->items == NULL) {
        return cell__no_memory(walk->im);
    }
    walk->n = 0;
    for (size_t k = 0; k < 2 * ((size_t)row + 1); k++) { // of each row, then of it turned
        const uint32_t r = (uint32_t)(k / 2);
        if ((asked[r] >> k % 2 & 1) != 0) {
            if (is_stepwise(walk->im, r)) {
                return refuse_more(walk->im);
            }
            BASE_TRY(item_of(walk, r, k % 2 != 0, numbers, &walk->items[walk->n]));
            numbers[k] = walk->n++;
        }
    }
    return BASE_OK;
}

/* ---- Of one pair --------------------------------------------------------------------------- */

static const float *operand(const struct walk *walk, const struct item *item, uint32_t i)
{
    return walk->items[item->operands[i]].value;
}

static uint32_t width_of(const struct walk *walk, const struct item *item, uint32_t i)
{
    return walk->im->rows[walk->items[item->operands[i]].row].value.width;
}

static void pointwise(const struct walk *walk, const struct item *item, const struct cell_op *op,
                      uint32_t width)
{
    for (uint32_t k = 0; k < width; k++) {
        float in[3] = {0.0f};
        for (uint32_t i = 0; i < op->n_operands; i++) {
            in[i] = operand(walk, item, i)[width_of(walk, item, i) == 1 ? 0 : k];
        }
        item->value[k] = cell_pointwise_f32__scalar(op->kind, in[0], in[1], in[2]);
    }
}

static void concat(const struct walk *walk, const struct item *item, const struct cell_op *op)
{
    float *to = item->value;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        const uint32_t width = width_of(walk, item, i);
        memcpy(to, operand(walk, item, i), width * sizeof(*to));
        to += width;
    }
}

/* Sums in double precision: they are of constants, and rounded once. */
static void linear(const struct walk *walk, const struct item *item, const struct cell_op *op)
{
    const struct cell_weight *matrix = &op->weights[0];
    const float *x = operand(walk, item, 0);
    const float *w = matrix->data;
    const float *bias = op->n_weights > 1 ? op->weights[1].data : NULL;
    for (uint32_t j = 0; j < matrix->cols; j++) {
        item->sums[j] = bias != NULL ? (double)bias[j] : 0.0;
    }
    for (uint32_t k = 0; k < matrix->rows; k++) {
        for (uint32_t j = 0; j < matrix->cols; j++) {
            item->sums[j] += (double)x[k] * (double)w[(size_t)k * matrix->cols + j];
        }
    }
    for (uint32_t j = 0; j < matrix->cols; j++) {
        item->value[j] = (float)item->sums[j];
    }
}

/* Below 0 from the end on, as ONNX has it. false: of no row of the table. */
static bool gather(const struct walk *walk, const struct item *item, const struct cell_op *op)
{
    const struct cell_weight *table = &op->weights[0];
    const float rows = (float)table->rows;
    const float given = operand(walk, item, 0)[0];
    const float at = given < 0.0f ? given + rows : given;
    if (!(at >= 0.0f && at < rows)) {
        return false;
    }
    const size_t first = (size_t)at * table->cols;
    for (uint32_t k = 0; k < table->cols; k++) {
        item->value[k] = table->dtype == CELL_F32 ? ((const float *)table->data)[first + k]
                         : table->dtype == CELL_I64
                             ? (float)((const int64_t *)table->data)[first + k]
                             : (float)((const int32_t *)table->data)[first + k];
    }
    return true;
}

static void spread(const float *x, const uint32_t dims[3], float *to)
{
    for (uint32_t i = 0; i < dims[0]; i++) {
        for (uint32_t k = 0; k < dims[1]; k++) {
            memcpy(to, x + (size_t)i * dims[2], dims[2] * sizeof(*to));
            to += dims[2];
        }
    }
}

/* [dims[0], dims[1], dims[2], rest] as [dims[0], dims[2], dims[1], rest]. */
static void transpose(const float *x, const uint32_t dims[3], uint32_t width, float *to)
{
    const size_t rest = width / dims[0] / dims[1] / dims[2];
    for (uint32_t i = 0; i < dims[0]; i++) {
        for (uint32_t k = 0; k < dims[2]; k++) {
            for (uint32_t j = 0; j < dims[1]; j++) {
                const size_t from = ((size_t)i * dims[1] + j) * dims[2] + k;
                memcpy(to, x + from * rest, rest * sizeof(*to));
                to += rest;
            }
        }
    }
}

static bool compute_op(const struct walk *walk, const struct item *item)
{
    const struct cell__row *row = &walk->im->rows[item->row];
    const struct cell_op *op = &row->op;
    const float *x = operand(walk, item, 0);
    const uint32_t width = row->value.width;
    switch ((unsigned)op->kind) {
    case CELL_OP_CAST:
        for (uint32_t k = 0; k < width; k++) {
            item->value[k] = row->value.dtype == CELL_F32 ? x[k] : truncf(x[k]);
        }
        return true;
    case CELL_OP_COPY:
        memcpy(item->value, x, width * sizeof(*x));
        return true;
    case CELL_OP_SLICE:
        memcpy(item->value, x + op->start, width * sizeof(*x));
        return true;
    case CELL_OP_GATHER:
        return gather(walk, item, op);
    case CELL_OP_CONCAT:
        concat(walk, item, op);
        return true;
    case CELL_OP_LINEAR:
        linear(walk, item, op);
        return true;
    case CELL_OP_SPREAD:
        spread(x, op->dims, item->value);
        return true;
    case CELL_OP_TRANSPOSE:
        transpose(x, op->dims, width, item->value);
        return true;
    default:
        pointwise(walk, item, op, width);
        return true;
    }
}

/* Of what no step changes, once. */
static void compute_constant(const struct walk *walk, const struct item *item)
{
    const struct cell__row *row = &walk->im->rows[item->row];
    const void *data = row->op.weights[0].data;
    for (uint32_t k = 0; k < row->value.width; k++) {
        item->value[k] = row->value.dtype == CELL_F32   ? ((const float *)data)[k]
                         : row->value.dtype == CELL_I64 ? (float)((const int64_t *)data)[k]
                                                        : (float)((const int32_t *)data)[k];
    }
}

/* The row of a query's and a key's number; false: a table has no row of what is looked up. */
static bool compute(const struct walk *walk, int32_t query, int32_t key)
{
    for (uint32_t i = 0; i < walk->n; i++) {
        const struct item *item = &walk->items[i];
        const struct cell__row *row = &walk->im->rows[item->row];
        if (row->kind == CELL__ROW_NUMBER) {
            const bool is_key = (row->times == 1u << walk->over) != item->is_turned;
            item->value[0] = (float)(is_key ? key : query);
        } else if (row->kind == CELL__ROW_DISTANCE) {
            item->value[0] = (float)(item->is_turned ? query - key : key - query);
        } else if (row->kind == CELL__ROW_OP && !compute_op(walk, item)) {
            return false;
        }
    }
    return true;
}

/* ---- Of all distances ---------------------------------------------------------------------- */

static bool are_equal(const float *a, const float *b, uint32_t width)
{
    bool are = true;
    for (uint32_t k = 0; k < width; k++) {
        are = are && a[k] <= b[k] && a[k] >= b[k];
    }
    return are;
}

/* Whether pairs further on are computed, too: all that are near, and some others. */
static bool is_compared(int32_t d)
{
    return abs(d) < COMPARED_ALL || d % COMPARED_EACH == 0;
}

/* A distance's row. *steps: those of the first sequence that has a step of which there is none. */
static enum base_status take_distance(const struct walk *walk, int32_t d, int32_t *steps, float *to)
{
    const struct item *result = &walk->items[walk->n - 1];
    const uint32_t width = walk->im->rows[result->row].value.width;
    for (uint32_t s = 0; s < (is_compared(d) ? SHIFTS : 1); s++) {
        const int32_t query = (d < 0 ? -d : 0) + shifts[s];
        const int32_t last = d > 0 ? query + d : query;
        if (last >= *steps) {
            break;
        }
        if (!compute(walk, query, query + d)) {
            *steps = last;
            break;
        }
        if (s > 0 && !are_equal(result->value, to, width)) {
            return refuse_more(walk->im);
        }
        memcpy(to, result->value, width * sizeof(*to));
    }
    return BASE_OK;
}

/* Operations of one pair. */
static uint64_t terms_of(const struct walk *walk)
{
    uint64_t terms = 1;
    for (uint32_t i = 0; i < walk->n; i++) {
        const struct cell__row *row = &walk->im->rows[walk->items[i].row];
        const bool is_linear = row->kind == CELL__ROW_OP && row->op.kind == CELL_OP_LINEAR;
        terms += (uint64_t)row->value.width * (is_linear ? row->op.weights[0].rows : 1);
    }
    return terms;
}

/* How many steps are computed: so that neither the table nor what is summed up for it is large. */
static int32_t steps_of(const struct walk *walk)
{
    const uint64_t terms = terms_of(walk);
    const uint32_t width = walk->im->rows[walk->items[walk->n - 1].row].value.width;
    const uint64_t by_terms = TERMS_MAX / terms / 2;
    const uint64_t by_width = TABLE_MAX / width / 2;
    const uint64_t steps = by_terms < by_width ? by_terms : by_width;
    return (int32_t)(steps < CELL__RELATIVE_STEPS ? steps : CELL__RELATIVE_STEPS);
}

/* Nearer ends where rows are the same from there on, for more than half of all distances. */
static void shorten(struct cell__relative *relative)
{
    const int32_t reach = relative->last;
    for (int32_t sign = -1; sign <= 1; sign += 2) {
        const float *end = cell__relative_at(relative, sign * reach);
        int32_t d = reach;
        while (d > 0 &&
               are_equal(cell__relative_at(relative, sign * (d - 1)), end, relative->width)) {
            d--;
        }
        relative->is_same[sign < 0 ? 0 : 1] = d <= reach / 2;
        if (sign < 0 && d <= reach / 2) {
            relative->rows += (size_t)(reach - d) * relative->width;
            relative->first = -d;
        } else if (d <= reach / 2) {
            relative->last = d;
        }
    }
}

/* Where no table ends: whether steps that are far say the same. */
static enum base_status check_far(const struct walk *walk, const struct cell__relative *relative)
{
    const int32_t at[] = {relative->first, 0, relative->last};
    const float *value = walk->items[walk->n - 1].value;
    for (uint32_t i = 0; i < 3; i++) {
        if (!compute(walk, FAR_STEP, FAR_STEP + at[i]) ||
            !are_equal(value, cell__relative_at(relative, at[i]), relative->width)) {
            return cell__refuse(walk->im,
                                "a number for each pair of steps that is another one %d "
                                "steps further on",
                                FAR_STEP);
        }
    }
    return BASE_OK;
}

/* The table that is kept: a copy, for which and for what is made of it there is room. */
static enum base_status keep(struct cell__import *im, struct cell__relative *relative)
{
    const size_t count = (size_t)(relative->last - relative->first + 1) * relative->width;
    const size_t bytes = count * sizeof(float);
    if (bytes > ALL_BYTES_MAX - im->relative_bytes) {
        return cell__refuse(im, "tables of relative positions of more than %u MiB",
                            ALL_BYTES_MAX >> 20);
    }
    im->relative_bytes += bytes;
    size_t wanted = 0;
    const bool fits = base_size_add(im->arena->budget_bytes, 3 * bytes, &wanted);
    im->arena->budget_bytes = fits ? wanted : SIZE_MAX;
    float *rows = base_arena_array(im->arena, count, sizeof(*rows));
    if (rows == NULL) {
        return cell__no_memory(im);
    }
    memcpy(rows, relative->rows, bytes);
    relative->rows = rows;
    return BASE_OK;
}

/* All distances, in `room` for those of so many steps. */
static enum base_status fill(const struct walk *walk, int32_t most, float *room,
                             struct cell__relative *out)
{
    const uint32_t width = walk->im->rows[walk->items[walk->n - 1].row].value.width;
    float *middle = room + (size_t)(most - 1) * width;
    int32_t steps = most;
    for (int32_t d = 0; d < steps; d++) {
        BASE_TRY(take_distance(walk, d, &steps, middle + (size_t)d * width));
        BASE_TRY(d < steps ? take_distance(walk, -d, &steps, middle - (size_t)d * width) : BASE_OK);
    }
    if (steps < 2) {
        return cell__refuse(walk->im, "looks up relative positions of which the table has none");
    }
    *out = (struct cell__relative){.first = 1 - steps, .last = steps - 1, .width = width};
    out->rows = middle - (size_t)(steps - 1) * width;
    if (steps == most) {
        shorten(out);
        BASE_TRY(check_far(walk, out));
    }
    return keep(walk->im, out);
}

static enum base_status compute_all(struct cell__import *im, uint32_t row, uint32_t over,
                                    struct cell__relative *out)
{
    struct walk walk = {.im = im, .over = over};
    BASE_TRY(find_items(&walk, row));
    const int32_t most = steps_of(&walk);
    if (most < 2) {
        return cell__refuse(im, "relative positions of more than %u elements", TABLE_MAX / 4);
    }
    const uint64_t terms = terms_of(&walk) * 2 * (uint64_t)most;
    if (terms > ALL_TERMS_MAX - im->relative_terms) {
        return cell__refuse(im, "relative positions that take more than %llu operations to compute",
                            ALL_TERMS_MAX);
    }
    im->relative_terms += terms;
    for (uint32_t i = 0; i < walk.n; i++) {
        if (im->rows[walk.items[i].row].kind == CELL__ROW_CONST) {
            compute_constant(&walk, &walk.items[i]);
        }
    }
    float *room = base_alloc_array(2 * (size_t)most * im->rows[row].value.width, sizeof(*room));
    if (room == NULL) {
        return cell__no_memory(im);
    }
    const enum base_status status = fill(&walk, most, room, out);
    base_free(room);
    return status;
}

const float *cell__relative_at(const struct cell__relative *relative, int32_t d)
{
    const int32_t at = d < relative->first  ? relative->first
                       : d > relative->last ? relative->last
                                            : d;
    return relative->rows + (size_t)(at - relative->first) * relative->width;
}

enum base_status cell__relative(struct cell__import *im, uint32_t row, uint32_t over,
                                const struct cell__relative **out)
{
    const struct cell__relative_kept *kept = im->relatives;
    while (kept != NULL && (kept->row != row || kept->over != over)) {
        kept = kept->next;
    }
    if (kept == NULL) {
        struct cell__relative_kept *made = base_arena_alloc(im->arena, sizeof(*made));
        if (made == NULL) {
            return cell__no_memory(im);
        }
        *made = (struct cell__relative_kept){.row = row, .over = over, .next = im->relatives};
        BASE_TRY(compute_all(im, row, over, &made->relative));
        im->relatives = made;
        kept = made;
    }
    *out = &kept->relative;
    return BASE_OK;
}
