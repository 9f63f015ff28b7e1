/* See band.h. Rows are gone through once, operands before what is made of them. */
#include "cells/import/band.h"

#include "cells/import/ops.h"
#include "cells/import/rows.h"
#include "cells/ref/pointwise.h"

#include <math.h>
#include <stdlib.h>

/* What is being gone through. */
struct bands {
    const struct cell__import *im;
    uint32_t over; /* the sequence of the keys */
    struct cell__band *at;
};

/* Of sums of numbers of steps: they are exact as floats below. */
#define NUMBER_MAX 16777216.0f

static const struct cell__band none = {.kind = CELL__BAND_NONE};

/* ---- Stretches ------------------------------------------------------------------------------ */

static struct cell__band constant(float number)
{
    return (struct cell__band){.kind = CELL__BAND_PARTS, .value = {number}};
}

static bool is_constant(const struct cell__band *band)
{
    return band->kind == CELL__BAND_PARTS && band->n == 0;
}

static float value_at(const struct cell__band *parts, int32_t d)
{
    uint32_t k = 0;
    while (k < parts->n && d >= parts->from[k]) {
        k++;
    }
    return parts->value[k];
}

/* A border among the others; false: there are too many. */
static bool add_border(struct cell__band *parts, int32_t border)
{
    uint32_t k = 0;
    while (k < parts->n && parts->from[k] < border) {
        k++;
    }
    if (k < parts->n && parts->from[k] == border) {
        return true;
    }
    if (parts->n == CELL__BAND_BORDERS_MAX) {
        return false;
    }
    for (uint32_t i = parts->n++; i > k; i--) {
        parts->from[i] = parts->from[i - 1];
    }
    parts->from[k] = border;
    return true;
}

/* Borders between equal numbers are none. */
static void join_equal(struct cell__band *parts)
{
    uint32_t kept = 0;
    for (uint32_t k = 0; k < parts->n; k++) {
        const float before = parts->value[kept];
        const float next = parts->value[k + 1];
        if (!(before <= next && before >= next)) {
            parts->from[kept++] = parts->from[k];
            parts->value[kept] = next;
        }
    }
    parts->n = kept;
}

/* Of numbers that are one in each stretch. */
static struct cell__band each_of(enum cell_op_kind kind, uint32_t n, const struct cell__band in[3])
{
    struct cell__band out = constant(0.0f);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < in[i].n; k++) {
            if (!add_border(&out, in[i].from[k])) {
                return none;
            }
        }
    }
    for (uint32_t k = 0; k <= out.n; k++) {
        const int32_t d = k == 0 ? -CELL__BAND_FAR : out.from[k - 1];
        float at[3] = {0.0f};
        for (uint32_t i = 0; i < n; i++) {
            at[i] = value_at(&in[i], d);
        }
        out.value[k] = cell_pointwise_f32__scalar(kind, at[0], at[1], at[2]);
    }
    join_equal(&out);
    return out;
}

/* `in` from first up to last, else `out`. */
static struct cell__band within(double first, double last, float in, float out)
{
    struct cell__band parts = constant(out);
    const double far = CELL__BAND_FAR;
    if (first > last || first >= far || last < -far) {
        return parts;
    }
    if (first > -far) {
        parts.from[parts.n++] = (int32_t)first;
    }
    parts.value[parts.n] = in;
    if (last < far) {
        parts.from[parts.n++] = (int32_t)last + 1;
        parts.value[parts.n] = out;
    }
    return parts;
}

/* ---- Numbers of steps ----------------------------------------------------------------------- */

/* A constant as a sum without steps; others as they are. */
static struct cell__band as_linear(const struct cell__band *band)
{
    return is_constant(band) && fabsf(band->value[0]) < NUMBER_MAX
               ? (struct cell__band){.kind = CELL__BAND_LINEAR, .add = band->value[0]}
               : *band;
}

static struct cell__band sum(const struct cell__band *a, const struct cell__band *b, int32_t sign)
{
    const struct cell__band both = {.kind = CELL__BAND_LINEAR,
                                    .of_key = a->of_key + sign * b->of_key,
                                    .of_query = a->of_query + sign * b->of_query,
                                    .add = a->add + (float)sign * b->add};
    const bool is_small = abs(both.of_key) < 16 && abs(both.of_query) < 16;
    return is_small && fabsf(both.add) < NUMBER_MAX ? both : none;
}

/* Sums and differences, and what is turned about; other products round. */
static struct cell__band linear_of(enum cell_op_kind kind, const struct cell__band *a,
                                   const struct cell__band *b)
{
    const struct cell__band zero = {.kind = CELL__BAND_LINEAR};
    const struct cell__band x = as_linear(a);
    const struct cell__band y = as_linear(b);
    if (x.kind != CELL__BAND_LINEAR || y.kind != CELL__BAND_LINEAR) {
        return none;
    }
    if (kind == CELL_OP_ADD || kind == CELL_OP_SUB) {
        return sum(&x, &y, kind == CELL_OP_ADD ? 1 : -1);
    }
    if (kind != CELL_OP_MUL || (!is_constant(a) && !is_constant(b))) {
        return none;
    }
    const struct cell__band *of = is_constant(a) ? &y : &x;
    const float by = is_constant(a) ? x.add : y.add;
    return fabsf(by) == 1.0f ? sum(&zero, of, by > 0.0f ? 1 : -1) : none;
}

/* Where of * d + add is above 0, or at least that. */
static struct cell__band where_positive(double of, double add, bool or_zero)
{
    const double bound = -add / of;
    const double skipped = ceil(bound) == bound && !or_zero ? 1.0 : 0.0;
    return of > 0.0 ? within(ceil(bound) + skipped, HUGE_VAL, 1.0f, 0.0f)
                    : within(-HUGE_VAL, floor(bound) - skipped, 1.0f, 0.0f);
}

static bool is_of_distance(const struct cell__band *linear)
{
    return linear->kind == CELL__BAND_LINEAR && linear->of_key != 0 &&
           linear->of_key == -linear->of_query;
}

/* Where |of d + add| is below a number, or at most that. */
static struct cell__band where_near(const struct cell__band *size, double than, bool or_equal)
{
    const double a = (-than - (double)size->add) / size->of_key;
    const double b = (than - (double)size->add) / size->of_key;
    double first = ceil(fmin(a, b));
    double last = floor(fmax(a, b));
    first += !or_equal && first == fmin(a, b) ? 1.0 : 0.0;
    last -= !or_equal && last == fmax(a, b) ? 1.0 : 0.0;
    return than < 0.0 ? constant(0.0f) : within(first, last, 1.0f, 0.0f);
}

/* a < b, or a <= b. */
static struct cell__band compare(const struct cell__band *a, const struct cell__band *b,
                                 bool or_equal)
{
    const struct cell__band one = constant(1.0f);
    const struct cell__band x = as_linear(a);
    const struct cell__band y = as_linear(b);
    if (x.kind == CELL__BAND_LINEAR && y.kind == CELL__BAND_LINEAR) {
        const struct cell__band less = sum(&y, &x, -1);
        return is_of_distance(&less) ? where_positive(less.of_key, (double)less.add, or_equal)
                                     : none;
    }
    if (x.kind == CELL__BAND_SIZE && y.kind == CELL__BAND_LINEAR && is_constant(b)) {
        return where_near(&x, (double)y.add, or_equal);
    }
    if (y.kind == CELL__BAND_SIZE && x.kind == CELL__BAND_LINEAR && is_constant(a)) {
        const struct cell__band pair[3] = {one, where_near(&y, (double)x.add, !or_equal)};
        return each_of(CELL_OP_SUB, 2, pair); // where it is not near
    }
    return none;
}

static struct cell__band pointwise(enum cell_op_kind kind, uint32_t n,
                                   const struct cell__band in[3])
{
    bool is_parts = true;
    for (uint32_t i = 0; i < n; i++) {
        is_parts = is_parts && in[i].kind == CELL__BAND_PARTS;
    }
    if (is_parts) {
        return each_of(kind, n, in);
    }
    if (kind == CELL_OP_LESS || kind == CELL_OP_LESS_EQUAL) {
        return compare(&in[0], &in[1], kind == CELL_OP_LESS_EQUAL);
    }
    if (kind == CELL_OP_ABS && is_of_distance(&in[0])) {
        struct cell__band size = in[0];
        size.kind = CELL__BAND_SIZE;
        return size;
    }
    return n == 2 ? linear_of(kind, &in[0], &in[1]) : none;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

/* A constant whose elements are all the same. */
static struct cell__band of_const(const struct cell__row *row)
{
    const float *data = row->value.dtype == CELL_F32 ? row->op.weights[0].data : NULL;
    for (uint32_t k = 1; data != NULL && k < row->value.width; k++) {
        data = data[k] <= data[0] && data[k] >= data[0] ? data : NULL;
    }
    return data == NULL ? none : constant(data[0]);
}

/* The number of a step: of the keys, or of what asks. */
static struct cell__band of_number(const struct bands *bands, uint32_t times)
{
    const bool is_key = times == 1u << bands->over;
    return (struct cell__band){
        .kind = CELL__BAND_LINEAR, .of_key = is_key ? 1 : 0, .of_query = is_key ? 0 : 1};
}

/* The same row for each part, such as for each head. */
static struct cell__band of_concat(const struct bands *bands, const struct cell_op *op)
{
    for (uint32_t i = 1; i < op->n_operands; i++) {
        if (op->operands[i] != op->operands[0]) {
            return none;
        }
    }
    return bands->at[op->operands[0]];
}

static struct cell__band of_op(const struct bands *bands, uint32_t row)
{
    const struct cell_op *op = &bands->im->rows[row].op;
    struct cell__band in[3];
    if (op->kind == CELL_OP_CONCAT) {
        return of_concat(bands, op);
    }
    if (cell__row_is_mirror(bands->im, row)) { // of the steps of the other sequence
        struct cell__band copy = bands->at[bands->im->rows[op->operands[0]].index];
        const int32_t of_key = copy.of_key;
        copy.of_key = copy.of_query;
        copy.of_query = of_key;
        return copy.kind == CELL__BAND_LINEAR ? copy : none;
    }
    if (op->kind == CELL_OP_CAST || op->kind == CELL_OP_COPY || op->kind == CELL_OP_SPREAD) {
        return bands->at[op->operands[0]];
    }
    if (!cell_op_is_pointwise(op->kind)) {
        return none;
    }
    for (uint32_t i = 0; i < op->n_operands; i++) {
        in[i] = bands->at[op->operands[i]];
        if (in[i].kind == CELL__BAND_NONE) {
            return none;
        }
    }
    return pointwise(op->kind, op->n_operands, in);
}

enum base_status cell__bands(struct cell__import *im, uint32_t row, uint32_t over,
                             const struct cell__band **out)
{
    struct bands bands = {.im = im, .over = over};
    bool has_numbers = false;
    *out = NULL;
    for (uint32_t r = 0; r <= row; r++) {
        has_numbers = has_numbers || im->rows[r].kind == CELL__ROW_NUMBER;
    }
    if (!has_numbers) {
        return BASE_OK;
    }
    bands.at = cell__scratch(im, CELL__SCRATCH_BANDS, (size_t)row + 1, sizeof(*bands.at));
    if (bands.at == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t r = 0; r <= row; r++) {
        const struct cell__row *at = &im->rows[r];
        bands.at[r] = at->kind == CELL__ROW_CONST    ? of_const(at)
                      : at->kind == CELL__ROW_NUMBER ? of_number(&bands, at->times)
                      : at->kind == CELL__ROW_OP     ? of_op(&bands, r)
                                                     : none;
    }
    *out = bands.at;
    return BASE_OK;
}
