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
        const bool is_same = out.n == 0 || in[i].n == 0 || out.chunk == in[i].chunk;
        out.chunk = in[i].n > 0 ? in[i].chunk : out.chunk;
        for (uint32_t k = 0; k < in[i].n; k++) {
            if (!is_same || !add_border(&out, in[i].from[k])) {
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
    out.chunk = out.n > 0 ? out.chunk : 0;
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

/* Of two that may speak of chunks, which must be as long: 0, neither does; UINT32_MAX: they differ.
 */
static uint32_t common_chunk(const struct cell__band *a, const struct cell__band *b)
{
    if (a->chunk == 0 || b->chunk == 0 || a->chunk == b->chunk) {
        return a->chunk > b->chunk ? a->chunk : b->chunk;
    }
    return UINT32_MAX;
}

#define FACTOR_MAX 16

/* Whether sums with these factors are: numbers of chunks are the smaller, the more steps these
 * have. */
static bool is_exact(const struct cell__band *linear)
{
    const int32_t chunk = (int32_t)linear->chunk;
    const int32_t most = chunk > FACTOR_MAX ? chunk : FACTOR_MAX;
    return abs(linear->of_key) < FACTOR_MAX && abs(linear->of_query) < FACTOR_MAX &&
           abs(linear->of_key_chunk) <= most && abs(linear->of_query_chunk) <= most &&
           fabsf(linear->add) < NUMBER_MAX;
}

static struct cell__band sum(const struct cell__band *a, const struct cell__band *b, int32_t sign)
{
    const uint32_t chunk = common_chunk(a, b);
    const struct cell__band both = {.kind = CELL__BAND_LINEAR,
                                    .of_key = a->of_key + sign * b->of_key,
                                    .of_query = a->of_query + sign * b->of_query,
                                    .chunk = chunk,
                                    .of_key_chunk = a->of_key_chunk + sign * b->of_key_chunk,
                                    .of_query_chunk = a->of_query_chunk + sign * b->of_query_chunk,
                                    .add = a->add + (float)sign * b->add};
    return chunk < CELL__BAND_FAR && !a->has_least && !b->has_least && is_exact(&both) ? both
                                                                                       : none;
}

#define TIMES_MAX 65536.0f

/* Times a whole number. */
static struct cell__band times(const struct cell__band *of, float by)
{
    struct cell__band out = *of;
    const bool is_whole = fabsf(by) <= TIMES_MAX && floorf(by) == by;
    const int32_t factor = is_whole ? (int32_t)by : 0;
    if (!is_whole || of->has_least || abs(of->of_key_chunk) > FACTOR_MAX ||
        abs(of->of_query_chunk) > FACTOR_MAX) {
        return none;
    }
    out.of_key *= factor;
    out.of_query *= factor;
    out.of_key_chunk *= factor;
    out.of_query_chunk *= factor;
    out.add *= by;
    return is_exact(&out) ? out : none;
}

/* No less than a number. */
static struct cell__band at_least(const struct cell__band *a, const struct cell__band *b)
{
    struct cell__band out = is_constant(a) ? *b : *a;
    const struct cell__band *number = is_constant(a) ? a : b;
    if (out.kind != CELL__BAND_LINEAR || !is_constant(number) || out.has_least) {
        return none;
    }
    out.has_least = true;
    out.least = number->value[0];
    return out;
}

/* Which chunk a number is in: over how many steps these have, and then rounded down. */
static struct cell__band over(const struct cell__band *a, const struct cell__band *by)
{
    struct cell__band out = *a;
    const float n = is_constant(by) ? by->value[0] : 0.0f;
    const bool is_number = a->kind == CELL__BAND_LINEAR && a->chunk == 0 && !a->has_least &&
                           a->of_key >= 0 && a->of_query >= 0 && a->of_key + a->of_query == 1;
    if (!is_number || n < 1.0f || n >= NUMBER_MAX || floorf(n) != n || fmodf(a->add, n) != 0.0f) {
        return none;
    }
    out.kind = CELL__BAND_QUOTIENT;
    out.chunk = (uint32_t)n;
    return out;
}

static struct cell__band rounded_down(const struct cell__band *quotient)
{
    return (struct cell__band){.kind = CELL__BAND_LINEAR,
                               .chunk = quotient->chunk,
                               .of_key_chunk = quotient->of_key,
                               .of_query_chunk = quotient->of_query,
                               .add = quotient->add / (float)quotient->chunk};
}

/* Sums, differences and whole multiples; other products round. */
static struct cell__band linear_of(enum cell_op_kind kind, const struct cell__band *a,
                                   const struct cell__band *b)
{
    const struct cell__band x = as_linear(a);
    const struct cell__band y = as_linear(b);
    if (x.kind != CELL__BAND_LINEAR || y.kind != CELL__BAND_LINEAR) {
        return none;
    }
    switch ((unsigned)kind) {
    case CELL_OP_ADD:
        return sum(&x, &y, 1);
    case CELL_OP_SUB:
        return sum(&x, &y, -1);
    case CELL_OP_MAX:
        return at_least(a, b);
    case CELL_OP_DIV:
        return over(a, b);
    case CELL_OP_MUL:
        return is_constant(a) ? times(&y, x.add) : is_constant(b) ? times(&x, y.add) : none;
    default:
        return none;
    }
}

/* Where of * d + add is above 0, or at least that. */
static struct cell__band where_positive(double of, double add, bool or_zero)
{
    const double bound = -add / of;
    const double skipped = ceil(bound) == bound && !or_zero ? 1.0 : 0.0;
    return of > 0.0 ? within(ceil(bound) + skipped, HUGE_VAL, 1.0f, 0.0f)
                    : within(-HUGE_VAL, floor(bound) - skipped, 1.0f, 0.0f);
}

/* How often d, of steps or of chunks, stands in a number of nothing else; 0: it is none. */
static int32_t of_distance(const struct cell__band *linear)
{
    const bool is_of_steps = linear->of_key_chunk == 0 && linear->of_query_chunk == 0;
    const bool is_of_chunks = linear->of_key == 0 && linear->of_query == 0;
    const bool is = linear->kind == CELL__BAND_LINEAR && !linear->has_least &&
                    linear->of_key == -linear->of_query &&
                    linear->of_key_chunk == -linear->of_query_chunk;
    return !is ? 0 : is_of_steps ? linear->of_key : is_of_chunks ? linear->of_key_chunk : 0;
}

/* Of chunks, where it is one of them. */
static struct cell__band of_chunks(struct cell__band parts, const struct cell__band *linear)
{
    parts.chunk = linear->of_key == 0 && linear->of_query == 0 && parts.n > 0 ? linear->chunk : 0;
    return parts;
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
    struct cell__band near = than < 0.0 ? constant(0.0f) : within(first, last, 1.0f, 0.0f);
    near.chunk = near.n > 0 ? size->chunk : 0;
    return near;
}

/* Where a step of one side stands before or behind the border of a chunk of the other: u - n W +
 * add, or less that, is above 0 or at least that. u is of chunk U, so that it is a bound of U - W
 * where the border is one of a chunk. */
static struct cell__band where_border(const struct cell__band *less, bool or_zero)
{
    const bool is_key = less->of_key != 0;
    const int32_t of = is_key ? less->of_key : less->of_query;
    const double n = less->chunk;
    const double add = (double)less->add;
    // The first number that u - n W may be, or the last.
    const double first = or_zero ? ceil(-add) : floor(-add) + 1.0;
    const double last = or_zero ? floor(add) : ceil(add) - 1.0;
    const double border = of > 0 ? first : last + 1.0;
    if (fmod(border, n) != 0.0) {
        return none;
    }
    const double u = of > 0 ? border / n : border / n - 1.0;
    const bool is_up = (of > 0) == is_key; // d is U - W, or less that
    struct cell__band parts = is_up ? within(is_key ? u : -u, HUGE_VAL, 1.0f, 0.0f)
                                    : within(-HUGE_VAL, is_key ? u : -u, 1.0f, 0.0f);
    parts.chunk = parts.n > 0 ? less->chunk : 0;
    return parts;
}

static bool is_border(const struct cell__band *less)
{
    const int32_t n = (int32_t)less->chunk;
    const bool is_of_key = less->of_query == 0 && less->of_key_chunk == 0 &&
                           abs(less->of_key) == 1 && less->of_query_chunk == -n * less->of_key;
    const bool is_of_query = less->of_key == 0 && less->of_query_chunk == 0 &&
                             abs(less->of_query) == 1 && less->of_key_chunk == -n * less->of_query;
    return n > 0 && (is_of_key || is_of_query);
}

/* Where it is above 0, or at least that. */
static struct cell__band where_above(const struct cell__band *less, bool or_zero)
{
    const int32_t of = of_distance(less);
    const bool is_up = less->of_key >= 0 && less->of_query >= 0 && less->of_key_chunk >= 0 &&
                       less->of_query_chunk >= 0;
    const bool is_down = less->of_key <= 0 && less->of_query <= 0 && less->of_key_chunk <= 0 &&
                         less->of_query_chunk <= 0;
    if (less->kind != CELL__BAND_LINEAR) {
        return none;
    }
    if (of != 0) {
        return of_chunks(where_positive(of, (double)less->add, or_zero), less);
    }
    if (is_border(less)) {
        return where_border(less, or_zero);
    }
    // Numbers of steps are not below 0.
    const bool is_always = is_up && (less->add > 0.0f || (or_zero && less->add >= 0.0f));
    const bool is_never = is_down && (less->add < 0.0f || (!or_zero && less->add <= 0.0f));
    return is_always ? constant(1.0f) : is_never ? constant(0.0f) : none;
}

/* A number that is no less than another one, compared with one that is never below that, or by
 * which it would not be noticed. true: that bound is gone. is_left: it is x of x < y, or x <= y. */
static bool drop_least(struct cell__band *x, const struct cell__band *other, bool is_left,
                       bool or_equal)
{
    const bool is_up = other->of_key >= 0 && other->of_query >= 0 && other->of_key_chunk >= 0 &&
                       other->of_query_chunk >= 0 && !other->has_least;
    const bool is_above =
        is_up && (is_left == or_equal ? other->add >= x->least : other->add > x->least);
    if (x->has_least && is_above) {
        x->has_least = false;
    }
    return !x->has_least;
}

/* a < b, or a <= b. */
static struct cell__band compare(const struct cell__band *a, const struct cell__band *b,
                                 bool or_equal)
{
    const struct cell__band one = constant(1.0f);
    struct cell__band x = as_linear(a);
    struct cell__band y = as_linear(b);
    if (x.kind == CELL__BAND_LINEAR && y.kind == CELL__BAND_LINEAR) {
        if (!drop_least(&x, &y, true, or_equal) || !drop_least(&y, &x, false, or_equal)) {
            return none;
        }
        const struct cell__band less = sum(&y, &x, -1);
        return where_above(&less, or_equal);
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
    if (kind == CELL_OP_FLOOR && in[0].kind == CELL__BAND_QUOTIENT) {
        return rounded_down(&in[0]);
    }
    if (kind == CELL_OP_ABS && of_distance(&in[0]) != 0) {
        struct cell__band size = in[0];
        size.kind = CELL__BAND_SIZE;
        size.of_key = of_distance(&in[0]);
        size.chunk = in[0].of_key == 0 ? in[0].chunk : 0;
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
        const int32_t of_key_chunk = copy.of_key_chunk;
        copy.of_key = copy.of_query;
        copy.of_query = of_key;
        copy.of_key_chunk = copy.of_query_chunk;
        copy.of_query_chunk = of_key_chunk;
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
