/* Attention: of the steps of a sequence, by each row or by each step of another one; in a decoder's
 * step, of the source's. What exporters write of it, products with each step, a softmax over them
 * and a weighted sum, is seen as row expressions that have the sequence's times, perhaps beside
 * those of another one, and becomes one ATTEND where the sum, or the largest, is taken. So nothing
 * is ever computed for pairs of steps.
 *
 * Of what scores are made scores.h finds. Several products become one of vectors side by side, the
 * steps' own terms with a 1 in the query. */
#include "cells/import/attend_relative.h"
#include "cells/import/ops.h"
#include "cells/import/scores.h"

#include "base/assert.h"

#include <string.h>

/* q, K and v of the op. */
struct product {
    uint32_t query, keys;
    float *v;
};

static bool are_ones(const float *weights, uint32_t width)
{
    bool are = true;
    for (uint32_t k = 0; k < width; k++) {
        are = are && weights[k] >= 1.0f && weights[k] <= 1.0f;
    }
    return are;
}

/* The row times constant weights, element by element. */
static enum base_status weighted(struct cell__import *im, uint32_t row, const float *weights,
                                 uint32_t *out)
{
    const struct cell_value value = im->rows[row].value;
    uint32_t constant = CELL__NONE;
    *out = row;
    if (are_ones(weights, value.width)) {
        return BASE_OK;
    }
    BASE_TRY(cell__row_const(im, value, weights, &constant));
    return cell__row_pair(im, CELL_OP_MUL, row, constant, out);
}

/* The sum over k of weights_k row_k. What has a weight of 0 takes no part: it may be infinite, as
 * masks of other heads are. */
static enum base_status sum_of(struct cell__import *im, const struct cell__term *term,
                               uint32_t *out)
{
    const uint32_t width = im->rows[term->row].value.width;
    uint32_t first = 0;
    uint32_t end = width;
    while (first + 1 < end && cell__are_zeros(&term->weights[first], 1)) {
        first++;
    }
    while (end > first + 1 && cell__are_zeros(&term->weights[end - 1], 1)) {
        end--;
    }
    if (end == first + 1) {
        BASE_TRY(cell__row_slice(im, term->row, first, 1, out));
        return weighted(im, *out, &term->weights[first], out);
    }
    struct cell_op op = {.kind = CELL_OP_LINEAR,
                         .n_operands = 1,
                         .operands = {term->row},
                         .n_weights = 1,
                         .weights = {{CELL_F32, width, 1, term->weights}}};
    return cell__row_op(im, &op, (struct cell_value){CELL_F32, 1}, out);
}

/* The sum of all terms; NONE of none. */
static enum base_status sum_of_all(struct cell__import *im, const struct cell__term *terms,
                                   uint32_t n, uint32_t *out)
{
    *out = CELL__NONE;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row = CELL__NONE;
        BASE_TRY(sum_of(im, &terms[i], &row));
        if (*out == CELL__NONE) {
            *out = row;
        } else {
            BASE_TRY(cell__row_pair(im, CELL_OP_ADD, *out, row, out));
        }
    }
    return BASE_OK;
}

/* Where a term of the steps alone is of the very keys of the only product, its weights join the
 * query. Returns the constant to add to the query, or NULL. */
static enum base_status absorb(struct cell__scores *s, float **added)
{
    const struct cell__term *product = &s->products[0];
    const uint32_t width = s->im->rows[product->row].value.width;
    uint32_t left = 0;
    *added = NULL;
    for (uint32_t i = 0; s->n_products == 1 && i < s->n_own; i++) {
        if (s->own[i].row != product->row) {
            s->own[left++] = s->own[i];
            continue;
        }
        if (*added == NULL) {
            *added = cell__scores_weights(s, width);
            if (*added == NULL) {
                return cell__no_memory(s->im);
            }
            memset(*added, 0, width * sizeof(**added));
        }
        for (uint32_t k = 0; k < width; k++) {
            (*added)[k] += s->own[i].weights[k];
        }
    }
    s->n_own = s->n_products == 1 ? left : s->n_own;
    return BASE_OK;
}

/* The query and keys of one product: all that stand beside each other. */
static enum base_status join(struct cell__scores *s, const float *added, struct product *out)
{
    struct cell__import *im = s->im;
    uint32_t queries[CELL__TERMS_MAX + 1];
    uint32_t keys[CELL__TERMS_MAX + 1];
    uint32_t n = 0;
    for (; n < s->n_products; n++) {
        BASE_TRY(weighted(im, s->products[n].query, s->products[n].weights, &queries[n]));
        keys[n] = s->products[n].row;
    }
    if (added != NULL) {
        base_assert(n > 0);
        uint32_t constant = CELL__NONE;
        BASE_TRY(cell__row_const(im, im->rows[queries[0]].value, added, &constant));
        BASE_TRY(cell__row_pair(im, CELL_OP_ADD, queries[0], constant, &queries[0]));
    }
    if (s->n_own > 0) {
        BASE_TRY(cell__row_number(im, 1.0f, &queries[n]));
        BASE_TRY(sum_of_all(im, s->own, s->n_own, &keys[n++]));
    }
    if (n == 0) {
        return cell__refuse_scores(im); // no step has a score of its own
    }
    BASE_TRY(cell__row_concat(im, queries, n, &out->query));
    BASE_TRY(cell__row_concat(im, keys, n, &out->keys));
    const uint32_t width = im->rows[out->keys].value.width;
    out->v = cell__scores_weights(s, width);
    if (out->v == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t k = 0; k < width; k++) {
        out->v[k] = 1.0f;
    }
    return BASE_OK;
}

static enum base_status find_product(struct cell__scores *s, struct product *out)
{
    const struct cell__term *only = &s->products[0];
    float *added = NULL;
    for (uint32_t i = 0; i < s->n_own; i++) { // keys w is a term of what the keys are made of
        const struct cell__row *at = &s->im->rows[s->own[i].row];
        if (s->n_products == 1 && at->kind == CELL__ROW_OP && at->op.kind == CELL_OP_LINEAR &&
            at->op.operands[0] == only->row) {
            const struct cell__term sum = s->own[i];
            BASE_TRY(cell__scores_linear(s, &sum));
            s->own[i] = s->sums[--s->n_sums];
        }
    }
    BASE_TRY(absorb(s, &added));
    if (s->n_products == 1 && s->n_own == 0 && added == NULL) {
        *out = (struct product){.query = only->query, .keys = only->row, .v = only->weights};
        return BASE_OK;
    }
    return join(s, added, out);
}

/* A step has no stage before it that could make the keys, or values. */
static enum base_status check_of_step(struct cell__import *im, uint32_t keys, uint32_t values)
{
    if (im->feeds_back &&
        (im->rows[keys].kind != CELL__ROW_INPUT || im->rows[values].kind != CELL__ROW_INPUT)) {
        return cell__refuse(im, "attention over what the step itself makes of the source's steps; "
                                "let the encoder make it");
    }
    return BASE_OK;
}

/* What follows from how far apart steps are; queries with their weights. */
static enum base_status add_relatives(struct cell__scores *s, const struct cell__span *span,
                                      struct cell_op *op)
{
    struct cell__relative_term terms[CELL__TERMS_MAX];
    for (uint32_t i = 0; i < s->n_relatives; i++) {
        const struct cell__term *term = &s->relatives[i];
        terms[i] = (struct cell__relative_term){term->row, term->query, term->weights};
    }
    return cell__attend_relative(s->im, op, span, terms, s->n_relatives);
}

/* Which steps masks leave: of chunks those that any step of one may reach, too. */
static struct cell__span span_of(const struct cell__scores *s)
{
    struct cell__span span = {
        .times = s->times, .first = s->first, .last = s->last, .chunks = s->chunks};
    const int64_t steps = s->chunks.steps;
    const int64_t first = s->chunks.first * steps - (steps - 1);
    const int64_t last = s->chunks.last * steps + (steps - 1);
    if (steps > 0 && s->chunks.first > -CELL__BAND_FAR && first > span.first) {
        span.first = (int32_t)first;
    }
    if (steps > 0 && s->chunks.last < CELL__BAND_FAR && last < span.last) {
        span.last = (int32_t)last;
    }
    return span;
}

/* ATTEND of these scores; values: of LARGEST the keys. */
static enum base_status attend(struct cell__scores *s, uint32_t variant, uint32_t values,
                               uint32_t *out)
{
    struct cell__import *im = s->im;
    struct product product = {.query = CELL__NONE};
    const bool is_largest = variant == CELL_ATTEND_LARGEST;
    BASE_TRY(find_product(s, &product));
    values = is_largest ? product.keys : values;
    BASE_TRY(check_of_step(im, product.keys, values));
    const struct cell_value value =
        is_largest ? (struct cell_value){CELL_F32, 1} : im->rows[values].value;
    struct cell_op op = {.kind = CELL_OP_ATTEND,
                         .n_operands = 3,
                         .operands = {product.query, product.keys, values},
                         .n_weights = 1,
                         .weights = {{CELL_F32, 1, im->rows[product.keys].value.width, product.v}},
                         .variant = variant,
                         .nan_is_zero = s->nan_is_zero};
    if (s->first > -CELL__BAND_FAR || s->last < CELL__BAND_FAR || s->chunks.steps > 0 ||
        s->n_relatives > 0) {
        if (is_largest) {
            return cell__refuse(im,
                                "the largest of scores of which some are masked, or of relative "
                                "positions");
        }
        const struct cell__span span = span_of(s);
        if (s->n_relatives > 0) {
            BASE_TRY(add_relatives(s, &span, &op));
        } else {
            BASE_TRY(cell__attend_bounds(im, &op, &span, &op.operands[3]));
            op.n_operands = 4;
        }
    }
    return cell__row_op(im, &op, value, out);
}

enum base_status cell__row_attend(struct cell__import *im, uint32_t weights, uint32_t values,
                                  uint32_t *out)
{
    const uint32_t of = im->rows[weights].softmax_of;
    const uint32_t over = im->rows[weights].over;
    struct cell__scores scores;
    if (of == CELL__NONE || im->rows[values].times != 1u << over ||
        im->rows[values].value.dtype != CELL_F32) {
        return cell__refuse_scores(im);
    }
    BASE_TRY(cell__scores_take(im, of, over, &scores));
    // Masks by the steps' numbers leave each step its own; those of keys may leave it none.
    scores.nan_is_zero =
        im->rows[weights].nan_is_zero || (im->rows[weights].none_is_zero && scores.n_own > 0);
    const uint32_t variant = scores.is_tanh ? CELL_ATTEND_TANH : CELL_ATTEND_PRODUCT;
    return attend(&scores, variant, values, out);
}

enum base_status cell__row_attend_sum(struct cell__import *im, uint32_t row, uint32_t *out)
{
    const struct cell__row *product = &im->rows[row];
    if (product->kind != CELL__ROW_OP || product->op.kind != CELL_OP_MUL) {
        return cell__refuse_scores(im);
    }
    const uint32_t *operands = product->op.operands;
    const bool is_first = im->rows[operands[0]].softmax_of != CELL__NONE;
    return cell__row_attend(im, operands[is_first ? 0 : 1], operands[is_first ? 1 : 0], out);
}

bool cell__row_is_attend_sum(const struct cell__import *im, uint32_t row, uint32_t over)
{
    const struct cell__row *at = &im->rows[row];
    bool is_one = false;
    for (uint32_t i = 0; at->kind == CELL__ROW_OP && at->op.kind == CELL_OP_MUL && i < 2; i++) {
        const struct cell__row *weights = &im->rows[at->op.operands[i]];
        const struct cell__row *values = &im->rows[at->op.operands[1 - i]];
        is_one = is_one || (weights->softmax_of != CELL__NONE && weights->over == over &&
                            values->times == 1u << over);
    }
    return is_one;
}

enum base_status cell__row_attend_largest(struct cell__import *im, uint32_t row, uint32_t over,
                                          uint32_t *out)
{
    struct cell__scores scores;
    uint32_t rest = CELL__NONE;
    BASE_TRY(cell__scores_take(im, row, over, &scores));
    if (scores.is_tanh) {
        return cell__refuse_scores(im);
    }
    BASE_TRY(attend(&scores, CELL_ATTEND_LARGEST, CELL__NONE, out));
    BASE_TRY(sum_of_all(im, scores.rest, scores.n_rest, &rest));
    if (rest != CELL__NONE) {
        BASE_TRY(cell__row_pair(im, CELL_OP_ADD, *out, rest, out));
    }
    if (scores.constant < 0.0f || scores.constant > 0.0f) {
        uint32_t constant = CELL__NONE;
        BASE_TRY(cell__row_number(im, scores.constant, &constant));
        BASE_TRY(cell__row_pair(im, CELL_OP_ADD, *out, constant, out));
    }
    return BASE_OK;
}
