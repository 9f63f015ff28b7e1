/* See scores.h. Scores are sums of products  w . (q * K_t), of terms  w . K_t  of the steps alone,
 * or w . tanh(K_t + q); what does not depend on t stands beside them. A list of sums is gone
 * through, each of which is a term or the sums of its op's operands. */
#include "cells/import/scores.h"

#include "cells/import/behind.h"
#include "cells/import/conditions.h"
#include "cells/import/ops.h"

#include <math.h>
#include <string.h>

enum base_status cell__refuse_scores(struct cell__import *im)
{
    return cell__refuse(im, "a sum over the source's steps that is no attention: q K_t or "
                            "v tanh(K_t + q), softmax, times V_t");
}

static const float *floats_of(const struct cell__row *row)
{
    return row->kind == CELL__ROW_CONST && row->value.dtype == CELL_F32 ? row->op.weights[0].data
                                                                        : NULL;
}

float *cell__scores_weights(const struct cell__scores *s, uint32_t width)
{
    return base_arena_array(s->im->arena, width, sizeof(float));
}

static enum base_status add_term(const struct cell__scores *s, struct cell__term *terms,
                                 uint32_t *n, struct cell__term term)
{
    if (*n == CELL__TERMS_MAX) {
        return cell__refuse(s->im, "an attention whose score has more than %u terms",
                            CELL__TERMS_MAX);
    }
    terms[(*n)++] = term;
    return BASE_OK;
}

bool cell__are_zeros(const float *weights, uint32_t width)
{
    bool are = true;
    for (uint32_t k = 0; k < width; k++) {
        are = are && weights[k] <= 0.0f && weights[k] >= 0.0f;
    }
    return are;
}

/* ---- Taking scores apart ------------------------------------------------------------------ */

/* A further sum: of an operand, with weights of its own width; where it is repeated over the
 * elements of a wider row, with the sum of theirs. */
static enum base_status push(struct cell__scores *s, uint32_t row, const float *weights,
                             uint32_t width)
{
    const uint32_t own = s->im->rows[row].value.width;
    float *copy = cell__scores_weights(s, own);
    if (copy == NULL) {
        return cell__no_memory(s->im);
    }
    if (s->n_sums == CELL__SUMS_MAX || (own != width && own != 1)) {
        return cell__refuse_scores(s->im);
    }
    memset(copy, 0, own * sizeof(*copy));
    for (uint32_t k = 0; k < width; k++) {
        copy[own == 1 ? 0 : k] += weights[k];
    }
    s->sums[s->n_sums++] = (struct cell__term){
        .row = row, .query = CELL__NONE, .weights = copy, .is_large = s->is_large};
    return BASE_OK;
}

static enum base_status take_sum(struct cell__scores *s, const struct cell__term *sum,
                                 const struct cell__row *at)
{
    const uint32_t width = at->value.width;
    BASE_TRY(push(s, at->op.operands[0], sum->weights, width));
    BASE_TRY(push(s, at->op.operands[1], sum->weights, width));
    const struct cell__term *second = &s->sums[s->n_sums - 1];
    const uint32_t n = s->im->rows[second->row].value.width;
    for (uint32_t k = 0; at->op.kind == CELL_OP_SUB && k < n; k++) {
        second->weights[k] = -second->weights[k];
    }
    return BASE_OK;
}

/* Times a constant goes into the weights. */
static enum base_status take_factor(struct cell__scores *s, const struct cell__term *sum,
                                    const struct cell__row *at, uint32_t other)
{
    const struct cell__row *constant = &s->im->rows[at->op.operands[1 - other]];
    const float *factors = floats_of(constant);
    const uint32_t width = at->value.width;
    float *weights = cell__scores_weights(s, width);
    if (weights == NULL) {
        return cell__no_memory(s->im);
    }
    for (uint32_t k = 0; k < width; k++) {
        const float factor = factors[constant->value.width == 1 ? 0 : k];
        const bool is_divisor = at->op.kind == CELL_OP_DIV;
        weights[k] = is_divisor ? sum->weights[k] / factor : sum->weights[k] * factor;
        s->is_large = s->is_large || (!is_divisor && fabsf(factor) >= -CELL__MASKED);
    }
    return push(s, at->op.operands[other], weights, width);
}

/* The stretches of a row's values, or NULL. */
static const struct cell__band *band_of(const struct cell__scores *s, uint32_t row)
{
    const bool is_band = s->bands != NULL && s->bands[row].kind == CELL__BAND_PARTS;
    return is_band ? &s->bands[row] : NULL;
}

/* Whether a row follows from the numbers of a query and of a step alone. */
static bool is_relative(const struct cell__scores *s, uint32_t row)
{
    const struct cell__row *at = &s->im->rows[row];
    return at->is_numbers && (at->times & (s->times | s->distances)) != 0 && at->times != s->times;
}

/* Whether such a row is one number of relative.h's, computed once for all heads: what is joined of
 * parts and what masks go into is taken apart. */
static bool is_relative_whole(const struct cell__scores *s, uint32_t row)
{
    const struct cell_op *op = &s->im->rows[row].op;
    bool is = is_relative(s, row) && op->kind != CELL_OP_SLICE && op->kind != CELL_OP_CONCAT;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        const struct cell__band *band = band_of(s, op->operands[i]);
        is = is && (band == NULL || band->n == 0 || op->kind == CELL_OP_MUL);
    }
    return is;
}

/* Whether one of two factors is, and the other of the query alone. */
static bool take_relative_product(struct cell__scores *s, const struct cell__term *sum,
                                  const uint32_t *pair, struct cell__term *out)
{
    const struct cell__row *rows = s->im->rows;
    const uint32_t k = is_relative(s, pair[0]) ? 0 : 1;
    *out = (struct cell__term){.row = pair[k], .query = pair[1 - k], .weights = sum->weights};
    return is_relative(s, pair[k]) && (rows[out->query].times & (s->times | s->distances)) == 0 &&
           rows[out->row].value.width == rows[sum->row].value.width &&
           rows[out->query].value.width == rows[sum->row].value.width;
}

/* What has the sequence's steps is the key. */
static enum base_status take_product(struct cell__scores *s, const struct cell__term *sum,
                                     const uint32_t *pair, bool is_tanh)
{
    const struct cell__row *rows = s->im->rows;
    const bool is_first = s->is_own[pair[0]];
    struct cell__term relative;
    if (!is_tanh && take_relative_product(s, sum, pair, &relative)) {
        return add_term(s, s->relatives, &s->n_relatives, relative);
    }
    const struct cell__term term = {
        .row = pair[is_first ? 0 : 1], .query = pair[is_first ? 1 : 0], .weights = sum->weights};
    if (!s->is_own[term.row] || (rows[term.query].times & s->times) != 0 ||
        rows[term.row].value.width != rows[sum->row].value.width ||
        rows[term.query].value.width != rows[sum->row].value.width) {
        return cell__refuse_scores(s->im);
    }
    s->is_tanh = s->is_tanh || is_tanh;
    return add_term(s, s->products, &s->n_products, term);
}

static enum base_status take_linear(struct cell__scores *s, const struct cell__term *sum,
                                    const struct cell__row *at)
{
    const struct cell_weight *matrix = &at->op.weights[0];
    const float *w = matrix->data;
    const float *bias = at->op.n_weights > 1 ? at->op.weights[1].data : NULL;
    float *weights = cell__scores_weights(s, matrix->rows);
    if (weights == NULL) {
        return cell__no_memory(s->im);
    }
    for (uint32_t k = 0; k < matrix->rows; k++) {
        weights[k] = 0.0f;
        for (uint32_t j = 0; j < matrix->cols; j++) {
            weights[k] += w[(size_t)k * matrix->cols + j] * sum->weights[j];
        }
    }
    for (uint32_t j = 0; bias != NULL && j < matrix->cols; j++) {
        s->constant += bias[j] * sum->weights[j];
    }
    return push(s, at->op.operands[0], weights, matrix->rows);
}

static enum base_status take_groups(struct cell__scores *s, const struct cell__term *sum,
                                    const struct cell__row *at)
{
    const uint32_t width = s->im->rows[at->op.operands[0]].value.width;
    const uint32_t group = width / at->value.width;
    const float divisor = at->op.kind == CELL_OP_MEAN ? (float)group : 1.0f;
    const uint32_t operand = at->op.operands[0];
    float *weights = cell__scores_weights(s, width);
    if (weights == NULL) {
        return cell__no_memory(s->im);
    }
    for (uint32_t k = 0; k < width; k++) {
        weights[k] = sum->weights[k / group] / divisor;
    }
    return push(s, operand, weights, width);
}

static enum base_status take_parts(struct cell__scores *s, const struct cell__term *sum,
                                   const struct cell__row *at)
{
    uint32_t start = 0;
    for (uint32_t i = 0; i < at->op.n_operands; i++) {
        const uint32_t width = s->im->rows[at->op.operands[i]].value.width;
        if (!cell__are_zeros(sum->weights + start, width)) { // such as of another head
            BASE_TRY(push(s, at->op.operands[i], sum->weights + start, width));
        }
        start += width;
    }
    return BASE_OK;
}

/* Elements start.. of a row: weights of 0 for the others. */
static enum base_status take_slice(struct cell__scores *s, const struct cell__term *sum,
                                   const struct cell__row *at)
{
    const uint32_t width = s->im->rows[at->op.operands[0]].value.width;
    float *weights = cell__scores_weights(s, width);
    if (weights == NULL) {
        return cell__no_memory(s->im);
    }
    memset(weights, 0, width * sizeof(*weights));
    memcpy(weights + at->op.start, sum->weights, at->value.width * sizeof(*weights));
    return push(s, at->op.operands[0], weights, width);
}

/* Elements in another order: their weights, in that of before. */
static enum base_status take_transposed(struct cell__scores *s, const struct cell__term *sum,
                                        const struct cell__row *at)
{
    const uint32_t *dims = at->op.dims;
    const uint32_t rest = at->value.width / dims[0] / dims[1] / dims[2];
    const float *from = sum->weights;
    float *weights = cell__scores_weights(s, at->value.width);
    if (weights == NULL) {
        return cell__no_memory(s->im);
    }
    for (uint32_t i = 0; i < dims[0]; i++) {
        for (uint32_t k = 0; k < dims[2]; k++) {
            for (uint32_t j = 0; j < dims[1]; j++) {
                const size_t to = ((size_t)i * dims[1] + j) * dims[2] + k;
                memcpy(weights + to * rest, from, rest * sizeof(*weights));
                from += rest;
            }
        }
    }
    return push(s, at->op.operands[0], weights, at->value.width);
}

/* Elements that are there several times: the sum of their weights. */
static enum base_status take_spread(struct cell__scores *s, const struct cell__term *sum,
                                    const struct cell__row *at)
{
    const uint32_t *dims = at->op.dims;
    const uint32_t width = s->im->rows[at->op.operands[0]].value.width;
    float *weights = cell__scores_weights(s, width);
    if (weights == NULL) {
        return cell__no_memory(s->im);
    }
    memset(weights, 0, width * sizeof(*weights));
    for (uint32_t k = 0; k < at->value.width; k++) {
        weights[k / dims[2] / dims[1] * dims[2] + k % dims[2]] += sum->weights[k];
    }
    return push(s, at->op.operands[0], weights, width);
}

/* ---- Masks ---------------------------------------------------------------------------------- */

static float sum_of_weights(const struct cell__scores *s, const struct cell__term *sum)
{
    float all = 0.0f;
    for (uint32_t k = 0; k < s->im->rows[sum->row].value.width; k++) {
        all += sum->weights[k];
    }
    return all;
}

/* Of masks that are scaled with their scores: -10000, the least that converters to halves leave,
 * over the root of 400 units. */
#define MASKED_SCALED (-500.0f)

static bool is_masked(const struct cell__scores *s, float number, float by)
{
    const bool is_large = s->is_large || number <= CELL__MASKED;
    return number * by <= CELL__MASKED || (is_large && number * by <= MASKED_SCALED);
}

/* A number for each stretch of d: the same wherever it is no mask's, which is in one piece. */
static enum base_status take_band(struct cell__scores *s, const struct cell__band *band, float by)
{
    uint32_t first = 0;
    uint32_t end = band->n + 1;
    while (first < end && (isnan(band->value[first]) || is_masked(s, band->value[first], by))) {
        first++;
    }
    while (end > first && (isnan(band->value[end - 1]) || is_masked(s, band->value[end - 1], by))) {
        end--;
    }
    if (end != first + 1 || isinf(band->value[first] * by)) {
        return cell__refuse(s->im, "a number for each pair of steps that is no mask, or one with "
                                   "steps before and behind it");
    }
    if (band->chunk > 0 && s->chunks.steps > 0 && s->chunks.steps != band->chunk) {
        return cell__refuse(s->im, "masks by chunks of %u and of %u steps", s->chunks.steps,
                            band->chunk);
    }
    s->chunks.steps = band->chunk > 0 ? band->chunk : s->chunks.steps;
    int32_t *from = band->chunk > 0 ? &s->chunks.first : &s->first;
    int32_t *to = band->chunk > 0 ? &s->chunks.last : &s->last;
    if (first > 0 && band->from[first - 1] > *from) {
        *from = band->from[first - 1];
    }
    if (end <= band->n && band->from[end - 1] - 1 < *to) {
        *to = band->from[end - 1] - 1;
    }
    s->constant += band->value[first] * by;
    return BASE_OK;
}

/* A mask's number where a condition on the steps' numbers holds, if is_where, or else does not. */
static enum base_status take_band_where(struct cell__scores *s, const struct cell__band *condition,
                                        bool is_where, float number, float by)
{
    struct cell__band masked = *condition;
    for (uint32_t k = 0; k <= masked.n; k++) {
        masked.value[k] = (masked.value[k] > 0.0f) == is_where ? number : 0.0f;
    }
    return take_band(s, &masked, by);
}

/* The same of a condition that each key has for itself: a term of the keys. mask: the number's row.
 */
static enum base_status take_own_where(struct cell__scores *s, struct cell__condition where,
                                       uint32_t mask, const struct cell__term *sum)
{
    struct cell__import *im = s->im;
    struct cell_op op = {
        .kind = CELL_OP_SELECT, .n_operands = 3, .operands = {where.row, mask, mask}};
    struct cell__term term = {.query = CELL__NONE, .weights = sum->weights};
    BASE_TRY(cell__row_number(im, 0.0f, &op.operands[where.is_where ? 2 : 1]));
    BASE_TRY(cell__row_op(im, &op, im->rows[op.operands[0]].value, &term.row));
    if (im->rows[term.row].value.width != im->rows[sum->row].value.width) {
        term.weights = cell__scores_weights(s, 1); // of all heads
        if (term.weights == NULL) {
            return cell__no_memory(im);
        }
        term.weights[0] = sum_of_weights(s, sum);
    }
    return add_term(s, s->own, &s->n_own, term);
}

/* A mask that a condition, or each of several, tells from the steps' numbers or for each key. mask:
 * the number's row. */
static enum base_status take_conditions(struct cell__scores *s, struct cell__condition where,
                                        uint32_t mask, const struct cell__term *sum)
{
    const float number = cell__row_same(s->im, mask);
    const float by = sum_of_weights(s, sum);
    const uint32_t width = s->im->rows[sum->row].value.width;
    struct cell__condition left[CELL__TERMS_MAX] = {where};
    for (uint32_t n = 1; n > 0;) {
        const struct cell__condition one = left[--n];
        const struct cell__band *condition = band_of(s, one.row);
        const struct cell__row *own = &s->im->rows[one.row];
        if (condition != NULL) {
            BASE_TRY(take_band_where(s, condition, one.is_where, number, by));
        } else if (own->times == s->times && (own->value.width == 1 || own->value.width == width)) {
            BASE_TRY(take_own_where(s, one, mask, sum));
        } else {
            const uint32_t more = n + 2 <= CELL__TERMS_MAX
                                      ? cell__condition_parts(s->im, s->bands, one, &left[n])
                                      : 0;
            if (more == 0) {
                return cell__refuse_scores(s->im);
            }
            n += more;
        }
    }
    return BASE_OK;
}

/* A mask's number where the condition holds, or where it does not, and scores elsewhere. */
static enum base_status take_masked(struct cell__scores *s, const struct cell__term *sum,
                                    const struct cell__row *at)
{
    const struct cell_op select = at->op;
    const uint32_t width = at->value.width;
    const float by = sum_of_weights(s, sum);
    for (uint32_t i = 1; i < 3 && at->times != s->times; i++) {
        const float number = cell__row_same(s->im, select.operands[i]);
        if (is_masked(s, number, by)) {
            const struct cell__condition where = {.row = select.operands[0], .is_where = i == 1};
            BASE_TRY(take_conditions(s, where, select.operands[i], sum));
            return push(s, select.operands[3 - i], sum->weights, width);
        }
    }
    return cell__refuse_scores(s->im);
}

/* Conditions as a number, 0 or 1, times a mask's: that where they hold; or, where that is as far
 * above 0, so much less where they do not. */
static enum base_status take_truth(struct cell__scores *s, const struct cell__term *sum)
{
    const float by = sum_of_weights(s, sum);
    const struct cell__condition where = {.row = sum->row, .is_where = by < 0.0f};
    uint32_t number = CELL__NONE;
    BASE_TRY(cell__row_number(s->im, by < 0.0f ? 1.0f : -1.0f, &number));
    s->constant += by < 0.0f ? 0.0f : by;
    return take_conditions(s, where, number, sum);
}

/* ---- Tables of pairs ------------------------------------------------------------------------ */

/* The weighted sum of a table's columns for each query and key, [steps][steps]. is_turned: the
 * table's first step is the key's. */
static enum base_status sum_pairs(const struct cell__scores *s, const struct cell__term *sum,
                                  bool is_turned, float **out)
{
    const struct cell__row *at = &s->im->rows[sum->row];
    const float *table = at->op.weights[0].data;
    const size_t steps = at->pairs;
    const uint32_t width = at->value.width;
    *out = base_arena_array(s->im->arena, steps * steps, sizeof(**out));
    if (*out == NULL) {
        return cell__no_memory(s->im);
    }
    for (size_t p = 0; p < steps * steps; p++) {
        const size_t from = is_turned ? p % steps * steps + p / steps : p;
        float all = 0.0f;
        for (uint32_t k = 0; k < width; k++) {
            all += sum->weights[k] >= 0.0f && sum->weights[k] <= 0.0f
                       ? 0.0f
                       : sum->weights[k] * table[from * width + k];
        }
        if (!isfinite(all)) {
            return cell__refuse(s->im, "a number for each pair of steps that is infinite, or none, "
                                       "and follows from more than how far apart these are");
        }
        (*out)[p] = all;
    }
    return BASE_OK;
}

/* Of each step its number as a row of zeros with a 1. */
static enum base_status one_hot(const struct cell__scores *s, uint32_t steps, uint32_t *out)
{
    struct cell__import *im = s->im;
    struct cell_op op = {.kind = CELL_OP_CAST, .n_operands = 1};
    float *numbers = cell__scores_weights(s, steps);
    uint32_t row = CELL__NONE;
    uint32_t one = CELL__NONE;
    if (numbers == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t k = 0; k < steps; k++) {
        numbers[k] = (float)k;
    }
    BASE_TRY(cell__row_number_of_step(im, cell__only_sequence(s->times), &op.operands[0]));
    BASE_TRY(cell__row_op(im, &op, (struct cell_value){CELL_F32, 1}, &one));
    BASE_TRY(cell__row_const(im, (struct cell_value){CELL_F32, steps}, numbers, &row));
    BASE_TRY(cell__row_pair(im, CELL_OP_SUB, row, one, &op.operands[0])); // 1 - |k - number|, or 0
    op.kind = CELL_OP_ABS;
    BASE_TRY(cell__row_op(im, &op, (struct cell_value){CELL_F32, steps}, &row));
    BASE_TRY(cell__row_number(im, -1.0f, &one));
    BASE_TRY(cell__row_pair(im, CELL_OP_MUL, row, one, &row));
    BASE_TRY(cell__row_number(im, 1.0f, &one));
    BASE_TRY(cell__row_pair(im, CELL_OP_ADD, row, one, &op.operands[0]));
    op.kind = CELL_OP_RELU;
    return cell__row_op(im, &op, (struct cell_value){CELL_F32, steps}, out);
}

/* A product of two: the query's row of the table, and a key of zeros with a 1 where it stands. */
static enum base_status take_pairs(struct cell__scores *s, const struct cell__term *sum)
{
    struct cell__import *im = s->im;
    const uint32_t steps = im->rows[sum->row].pairs;
    const uint32_t over = cell__only_sequence(s->times);
    const uint32_t others = im->rows[sum->row].times & ~s->times;
    struct cell__table table = {.dtype = CELL__F32, .rows = steps, .width = steps};
    struct cell__term term = {.weights = cell__scores_weights(s, steps)};
    float *floats = NULL;
    uint32_t number = CELL__NONE;
    if (term.weights == NULL) {
        return cell__no_memory(im);
    }
    if (cell__is_pair(others) || others == 0) {
        return cell__refuse_scores(im);
    }
    BASE_TRY(sum_pairs(s, sum, cell__sequence_of_mirror(im, over) == over, &floats));
    table.data = floats;
    for (uint32_t k = 0; k < steps; k++) {
        term.weights[k] = 1.0f;
    }
    BASE_TRY(cell__row_number_of_step(im, cell__only_sequence(others), &number));
    BASE_TRY(cell__row_lookup(im, &table, number, &term.query));
    BASE_TRY(one_hot(s, steps, &term.row));
    return add_term(s, s->products, &s->n_products, term);
}

static enum base_status take_op(struct cell__scores *s, const struct cell__term *sum)
{
    const struct cell__row *at = &s->im->rows[sum->row];
    const uint32_t *operands = at->op.operands;
    if (at->kind != CELL__ROW_OP) {
        return cell__refuse_scores(s->im);
    }
    if (at->pairs > 0) {
        return take_pairs(s, sum);
    }
    const float by = -fabsf(sum_of_weights(s, sum));
    if (is_masked(s, 1.0f, by) && cell__row_is_truth(s->im, s->bands, sum->row)) {
        return take_truth(s, sum);
    }
    switch ((unsigned)at->op.kind) {
    case CELL_OP_ADD:
    case CELL_OP_SUB:
        return take_sum(s, sum, at);
    case CELL_OP_MUL:
        if (floats_of(&s->im->rows[operands[0]]) != NULL) {
            return take_factor(s, sum, at, 1);
        }
        return floats_of(&s->im->rows[operands[1]]) != NULL ? take_factor(s, sum, at, 0)
                                                            : take_product(s, sum, operands, false);
    case CELL_OP_DIV:
        return floats_of(&s->im->rows[operands[1]]) != NULL ? take_factor(s, sum, at, 0)
                                                            : cell__refuse_scores(s->im);
    case CELL_OP_SUM:
    case CELL_OP_MEAN:
        return take_groups(s, sum, at);
    case CELL_OP_LINEAR:
        return take_linear(s, sum, at);
    case CELL_OP_CONCAT:
        return take_parts(s, sum, at);
    case CELL_OP_COPY: // of a value for each distance (op_distance.c)
        return s->im->rows[operands[0]].kind == CELL__ROW_OP
                   ? push(s, operands[0], sum->weights, at->value.width)
                   : cell__refuse_scores(s->im);
    case CELL_OP_SLICE:
        return take_slice(s, sum, at);
    case CELL_OP_TRANSPOSE:
        return take_transposed(s, sum, at);
    case CELL_OP_SPREAD:
        return take_spread(s, sum, at);
    case CELL_OP_SELECT:
        return take_masked(s, sum, at);
    case CELL_OP_TANH: {
        const struct cell__row *energy = &s->im->rows[operands[0]];
        const bool is_sum = energy->kind == CELL__ROW_OP && energy->op.kind == CELL_OP_ADD;
        return is_sum ? take_product(s, sum, energy->op.operands, true)
                      : cell__refuse_scores(s->im);
    }
    default:
        return cell__refuse_scores(s->im);
    }
}

/* One sum: as it is, where it is all of one side, or of relative positions, else its op. Where
 * there is one sequence alone, each of its steps can compute whatever is no attention's. */
static enum base_status take(struct cell__scores *s, const struct cell__term *sum)
{
    const struct cell__row *at = &s->im->rows[sum->row];
    if (s->is_own[sum->row] && at->times != 0) {
        return add_term(s, s->own, &s->n_own, *sum);
    }
    if ((at->times & (s->times | s->distances)) == 0) {
        return add_term(s, s->rest, &s->n_rest, *sum);
    }
    const struct cell__scores before = *s;
    const struct base_error error = *s->im->error;
    const struct cell__band *band = band_of(s, sum->row);
    const enum base_status status = band != NULL ? take_band(s, band, sum_of_weights(s, sum))
                                    : is_relative_whole(s, sum->row)
                                        ? add_term(s, s->relatives, &s->n_relatives, *sum)
                                        : take_op(s, sum);
    const bool is_others = is_relative(s, sum->row) && band != NULL; // no mask's
    const bool is_of_steps = !s->im->feeds_back && at->times == s->times;
    if (status != BASE_UNIMPLEMENTED || (!is_others && !is_of_steps)) {
        return status;
    }
    *s = before;
    *s->im->error = error;
    return is_others ? add_term(s, s->relatives, &s->n_relatives, *sum)
                     : add_term(s, s->own, &s->n_own, *sum);
}

/* Which rows are made of nothing but the sequence's steps. */
static enum base_status find_own(struct cell__scores *s, uint32_t row)
{
    bool *is_own = base_arena_array(s->im->arena, (size_t)row + 1, sizeof(*is_own));
    if (is_own == NULL) {
        return cell__no_memory(s->im);
    }
    for (uint32_t r = 0; r <= row; r++) {
        const struct cell__row *at = &s->im->rows[r];
        is_own[r] =
            at->kind == CELL__ROW_OP || at->kind == CELL__ROW_CONST || at->times == s->times;
        for (uint32_t i = 0; at->kind == CELL__ROW_OP && i < at->op.n_operands; i++) {
            const bool is_memory = at->op.kind == CELL_OP_ATTEND && i > 0;
            is_own[r] = is_own[r] && !is_memory && is_own[at->op.operands[i]];
        }
        // What attends to another sequence is a step's own as well.
        is_own[r] = is_own[r] || (at->kind == CELL__ROW_OP && at->op.kind == CELL_OP_ATTEND &&
                                  at->times == s->times);
    }
    s->is_own = is_own;
    return BASE_OK;
}

/* Beside sequence_lens: whether the steps behind a shorter row are masked, or all steps behind the
 * query's own. */
static enum base_status check_lengths(struct cell__scores *s, uint32_t row, uint32_t over)
{
    enum cell__behind behind = CELL__BEHIND_COUNTS;
    if (!cell__sequence_has_lengths(s->im, over)) {
        return BASE_OK;
    }
    const uint32_t query = s->im->rows[row].times & ~s->times;
    const bool is_own = query != 0 && !cell__is_pair(query) &&
                        cell__sequence_of_mirror(s->im, cell__only_sequence(query)) ==
                            cell__sequence_of_mirror(s->im, over);
    if (is_own && s->last <= 0) {
        return BASE_OK;
    }
    BASE_TRY(cell__row_behind(s->im, row, over, &behind));
    return behind == CELL__BEHIND_LOWEST
               ? BASE_OK
               : cell__refuse(s->im, "attends to a sequence beside sequence_lens, where ONNX would "
                                     "take the steps behind a shorter one too; a mask by the same "
                                     "lengths would leave them out");
}

/* The sequences of distances between the steps of one. */
static void find_distances(struct cell__scores *s, uint32_t sequence)
{
    const struct cell__import *im = s->im;
    const uint32_t of = cell__sequence_of_mirror(im, sequence);
    const struct cell__axis steps = {.n = 1, .atoms = {im->sequences[of].atom}};
    for (uint32_t k = 0; k < im->n_sequences && im->sequences[of].atom != CELL__NONE; k++) {
        const struct cell__axis axis = {.n = 1, .atoms = {im->sequences[k].atom}};
        if (im->sequences[k].atom == CELL__NONE) {
            continue;
        }
        s->behind |= cell__axis_is_behind(im, &axis, &steps) ? 1u << k : 0;
        s->distances |= cell__axis_is_distances(im, &axis, &steps) ? 1u << k : 0;
    }
    s->distances |= s->behind;
}

/* Of relative positions that are those of steps behind the query alone: that a mask leaves no
 * others. */
static enum base_status check_behind(const struct cell__scores *s, uint32_t row)
{
    uint8_t *is_behind = base_arena_array(s->im->arena, (size_t)row + 1, sizeof(*is_behind));
    if (is_behind == NULL) {
        return cell__no_memory(s->im);
    }
    for (uint32_t r = 0; r <= row; r++) {
        const struct cell__row *at = &s->im->rows[r];
        is_behind[r] = at->kind == CELL__ROW_DISTANCE && (s->behind >> at->index & 1) != 0;
        for (uint32_t i = 0; at->kind == CELL__ROW_OP && i < at->op.n_operands; i++) {
            is_behind[r] |= is_behind[at->op.operands[i]];
        }
    }
    for (uint32_t i = 0; i < s->n_relatives; i++) {
        if (is_behind[s->relatives[i].row] != 0 && s->last > 0) {
            return cell__refuse(s->im, "positions from the last step down that are shifted, of "
                                       "steps before the query, which no mask takes away");
        }
    }
    return BASE_OK;
}

enum base_status cell__scores_take(struct cell__import *im, uint32_t row, uint32_t over,
                                   struct cell__scores *s)
{
    *s = (struct cell__scores){.im = im,
                               .times = 1u << over,
                               .first = -CELL__BAND_FAR,
                               .last = CELL__BAND_FAR,
                               .chunks = {.first = -CELL__BAND_FAR, .last = CELL__BAND_FAR}};
    const float one = 1.0f;
    if (im->rows[row].value.width != 1 || im->rows[row].value.dtype != CELL_F32) {
        return cell__refuse_scores(im);
    }
    find_distances(s, over);
    BASE_TRY(find_own(s, row));
    BASE_TRY(cell__bands(im, row, over, &s->bands));
    BASE_TRY(push(s, row, &one, 1));
    while (s->n_sums > 0) {
        const struct cell__term sum = s->sums[--s->n_sums];
        s->is_large = sum.is_large;
        BASE_TRY(take(s, &sum));
    }
    BASE_TRY(check_lengths(s, row, over));
    BASE_TRY(s->behind != 0 ? check_behind(s, row) : BASE_OK);
    return s->is_tanh && (s->n_products != 1 || s->n_own != 0 || s->n_relatives != 0)
               ? cell__refuse_scores(im)
               : BASE_OK;
}

enum base_status cell__scores_linear(struct cell__scores *s, const struct cell__term *term)
{
    return take_linear(s, term, &s->im->rows[term->row]);
}
