/* Row-wise ops; see rowwise.h. Portable C, the same bits on every machine: single IEEE operations
 * in a fixed order, softmax and sums from the kernel table, NaN made one (kernels.h). Any thread.
 * These are a few operations an element beside the products' hundreds. */
#include "cells/cpu/rowwise.h"

#include "base/assert.h"
#include "cells/cpu/filter.h"
#include "cells/ref/math.h"

#include <math.h>
#include <string.h>

static const float *f32(const uint8_t *row)
{
    return (const float *)(const void *)row;
}

/* Toward zero; outside the range its end; NaN is 0. */
static int64_t integer_of(float x, int64_t low, int64_t high)
{
    if (isnan(x)) {
        return 0;
    }
    // 2^63 and 2^31 are floats, the ends below them are not: compare before the conversion.
    double wide = (double)x;
    if (wide >= -(double)low) {
        return high;
    }
    return wide <= (double)low ? low : (int64_t)x;
}

static int64_t load_integer(enum cell_dtype dtype, const uint8_t *row, uint32_t i)
{
    if (dtype == CELL_I64) {
        int64_t value;
        memcpy(&value, row + i * sizeof(value), sizeof(value));
        return value;
    }
    int32_t value;
    memcpy(&value, row + i * sizeof(value), sizeof(value));
    return value;
}

static void cast_one(struct cell_value from, const uint8_t *in, struct cell_value to, uint8_t *out,
                     uint32_t i)
{
    if (to.dtype == CELL_F32) {
        float value = from.dtype == CELL_F32 ? cell_nan_f32__scalar(f32(in)[i])
                                             : (float)load_integer(from.dtype, in, i);
        memcpy(out + i * sizeof(value), &value, sizeof(value));
        return;
    }
    bool is_long = to.dtype == CELL_I64;
    int64_t value = from.dtype == CELL_F32 ? integer_of(f32(in)[i], is_long ? INT64_MIN : INT32_MIN,
                                                        is_long ? INT64_MAX : INT32_MAX)
                                           : load_integer(from.dtype, in, i);
    if (is_long) {
        memcpy(out + i * sizeof(value), &value, sizeof(value));
    } else {
        uint32_t low = (uint32_t)value; // I64 to I32 keeps the low bits, as ONNX runtimes do
        memcpy(out + i * sizeof(low), &low, sizeof(low));
    }
}

static void store_integer(enum cell_dtype dtype, uint32_t number, uint8_t *out)
{
    int64_t value = number;
    memcpy(out, &value, cell_dtype_bytes(dtype)); // little-endian: the low half is the I32
}

/* ---- The largest or smallest elements ------------------------------------------------------- */

/* Elements of a row, and numbers of the best of them so far: a heap, the worst on top, in the
 * result's own row. */
struct top {
    const float *in;
    bool is_largest;
    uint8_t *numbers;
};

static int64_t number_at(const uint8_t *numbers, uint32_t i)
{
    return load_integer(CELL_I64, numbers, i);
}

static void set_number(const struct top *top, uint32_t i, int64_t number)
{
    memcpy(top->numbers + i * sizeof(number), &number, sizeof(number));
}

/* Whether element number a comes before number b. */
static bool is_before(const struct top *top, int64_t a, int64_t b)
{
    const float x = top->in[a];
    const float y = top->in[b];
    const bool is_larger = isnan(x) ? !isnan(y) : x > y;
    const bool is_smaller = isnan(y) ? !isnan(x) : y > x;
    return is_larger == is_smaller ? a < b : is_larger == top->is_largest;
}

/* Lets `number` sink from place i of a heap of n numbers to its place. */
static void sink(const struct top *top, uint32_t i, uint32_t n, int64_t number)
{
    for (uint32_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        const bool is_right = child + 1 < n && is_before(top, number_at(top->numbers, child),
                                                         number_at(top->numbers, child + 1));
        child += is_right ? 1 : 0;
        if (!is_before(top, number, number_at(top->numbers, child))) {
            break;
        }
        set_number(top, i, number_at(top->numbers, child));
        i = child;
    }
    set_number(top, i, number);
}

/* The numbers of the best k of n elements, the best first. Time: n times the logarithm of k. */
static void find_top(const struct top *top, uint32_t n, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++) {
        set_number(top, i, i);
    }
    for (uint32_t i = k / 2; i-- > 0;) {
        sink(top, i, k, number_at(top->numbers, i));
    }
    for (uint32_t i = k; i < n; i++) {
        if (is_before(top, i, number_at(top->numbers, 0))) {
            sink(top, 0, k, i);
        }
    }
    for (uint32_t left = k; left-- > 1;) { // the worst of what is left goes behind it
        const int64_t last = number_at(top->numbers, left);
        set_number(top, left, number_at(top->numbers, 0));
        sink(top, 0, left, last);
    }
}

static void take(const float *in, const uint8_t *numbers, uint32_t n, float *out)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = in[number_at(numbers, i)];
    }
}

static void concat(const struct cell_program *program, const struct cell_program_op *op,
                   const uint8_t *const *in, uint8_t *out)
{
    for (uint32_t i = 0; i < op->op->n_operands; i++) {
        struct cell_value part = program->values[op->in[i]].shape;
        size_t bytes = (size_t)part.width * cell_dtype_bytes(part.dtype);
        memcpy(out, in[i], bytes);
        out += bytes;
    }
}

/* [n][rows][cols] of blocks to [n][cols][rows]. */
static void transpose(const uint32_t dims[3], size_t block, const uint8_t *in, uint8_t *out)
{
    const size_t rows = dims[1];
    const size_t cols = dims[2];
    for (uint32_t i = 0; i < dims[0]; i++, in += rows * cols * block) {
        for (size_t c = 0; c < cols; c++) {
            for (size_t r = 0; r < rows; r++, out += block) {
                memcpy(out, in + (r * cols + c) * block, block);
            }
        }
    }
}

typedef float four __attribute__((vector_size(16)));

static four load_four(const float *from)
{
    four v;
    memcpy(&v, from, sizeof(v));
    return v;
}

static void store_four(float *to, four v)
{
    memcpy(to, &v, sizeof(v));
}

/* Four rows of four; out's are `rows` apart. */
static void transpose_four(const float *const in[4], size_t rows, float *out)
{
    const four a = load_four(in[0]);
    const four b = load_four(in[1]);
    const four c = load_four(in[2]);
    const four d = load_four(in[3]);
    const four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store_four(out, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
    store_four(out + rows, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
    store_four(out + 2 * rows, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
    store_four(out + 3 * rows, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

/* Columns of four rows that go together: what is read and what is written is whole or half lines,
 * of as few streams as there can be, which lie some KiB apart. */
#define COLS_OF_LONG_ROWS  ((size_t)32)
#define COLS_OF_SHORT_ROWS ((size_t)8)

/* Four rows from number at[0] on, columns at[1]..at[2]-1. */
static void transpose_some(const uint32_t dims[3], const float *in, const size_t at[3], float *out)
{
    const size_t rows = dims[1];
    const size_t cols = dims[2];
    for (size_t c = at[1]; c < at[2]; c += 4) {
        const float *first = in + at[0] * cols + c;
        const float *const from[4] = {first, first + cols, first + 2 * cols, first + 3 * cols};
        transpose_four(from, rows, out + c * rows + at[0]);
    }
}

/* Two or three rows, as of a picture's colours: what is stored behind a column is where the next
 * one will be. How many columns are done. */
static size_t transpose_few(size_t rows, size_t cols, const float *in, float *out)
{
    const float *const last = in + (rows - 1) * cols;
    size_t c = 0;
    for (; c + 4 < cols; c += 4) {
        const float *const from[4] = {in + c, rows == 2 ? last + c : in + cols + c, last + c,
                                      last + c};
        transpose_four(from, rows, out + c * rows);
    }
    return c;
}

/* Of single floats, most often. */
static void transpose_floats(const uint32_t dims[3], const float *in, float *out)
{
    const size_t rows = dims[1];
    const size_t cols = dims[2];
    const size_t rows_by_four = rows / 4 * 4;
    const size_t cols_by_four = cols / 4 * 4;
    const size_t at_once = cols > rows ? COLS_OF_LONG_ROWS : COLS_OF_SHORT_ROWS;
    for (uint32_t i = 0; i < dims[0]; i++, in += rows * cols, out += rows * cols) {
        for (size_t c = 0; c < cols_by_four; c += at_once) {
            for (size_t r = 0; r < rows_by_four; r += 4) {
                const size_t end = c + at_once < cols_by_four ? c + at_once : cols_by_four;
                transpose_some(dims, in, (const size_t[]){r, c, end}, out);
            }
        }
        const bool is_few = rows == 2 || rows == 3;
        const size_t done = is_few ? transpose_few(rows, cols, in, out) : 0;
        for (size_t c = done; c < cols; c++) { // what is left of both
            for (size_t r = c < cols_by_four ? rows_by_four : 0; r < rows; r++) {
                out[c * rows + r] = in[r * cols + c];
            }
        }
    }
}

static void transpose_row(const struct cell_op *op, struct cell_value value, const uint8_t *in,
                          uint8_t *out)
{
    const size_t elements = (size_t)op->dims[0] * op->dims[1] * op->dims[2];
    const size_t block = value.width / elements * cell_dtype_bytes(value.dtype);
    if (block == sizeof(float)) {
        transpose_floats(op->dims, f32(in), (float *)(void *)out);
    } else {
        transpose(op->dims, block, in, out);
    }
}

struct sums {
    uint32_t groups, n;
    const float *in;
    float *out;
    bool are_means;
};

/* Sums of groups of n elements, or their means. */
static void sums(const struct cell_kernels *kernels, const struct sums *told)
{
    kernels->sums(told->groups, told->n, told->in, told->out);
    for (uint32_t i = 0; i < told->groups && told->are_means; i++) {
        told->out[i] /= (float)told->n; // what is no number stays the one NaN
    }
}

/* Parts of one element are set, longer ones copied. */
static void spread_row(const uint32_t dims[3], size_t element, const uint8_t *in, uint8_t *out)
{
    const size_t bytes = dims[2] * element;
    for (uint32_t part = 0; part < dims[0]; part++, in += bytes) {
        if (bytes == sizeof(float)) {
            float *to = (float *)(void *)out;
            for (uint32_t k = 0; k < dims[1]; k++) {
                to[k] = f32(in)[0];
            }
            out += dims[1] * bytes;
            continue;
        }
        for (uint32_t k = 0; k < dims[1]; k++, out += bytes) {
            memcpy(out, in, bytes);
        }
    }
}

void cell_rowwise(const struct cell_program *program, const struct cell_program_op *op,
                  const uint8_t *const *in, uint8_t *out)
{
    struct cell_value to = program->values[op->out].shape;
    struct cell_value from = program->values[op->in[0]].shape;
    size_t element = cell_dtype_bytes(to.dtype);
    float *out_f32 = (float *)(void *)out;
    switch ((unsigned)op->kind) {
    case CELL_OP_SUM:
    case CELL_OP_MEAN:
        sums(program->kernels, &(struct sums){.groups = to.width,
                                              .n = from.width / to.width,
                                              .in = f32(in[0]),
                                              .out = out_f32,
                                              .are_means = op->kind == CELL_OP_MEAN});
        break;
    case CELL_OP_SOFTMAX:
        for (uint32_t at = 0; at < to.width; at += op->op->group) {
            program->kernels->softmax(op->op->group, f32(in[0]) + at, out_f32 + at);
        }
        break;
    case CELL_OP_LOG_SOFTMAX:
        for (uint32_t at = 0; at < to.width; at += op->op->group) {
            program->kernels->log_softmax(op->op->group, f32(in[0]) + at, out_f32 + at);
        }
        break;
    case CELL_OP_ARGMAX:
        store_integer(to.dtype, program->kernels->argmax(from.width, f32(in[0])), out);
        break;
    case CELL_OP_TOP: {
        if (to.width == 1 && op->op->variant == CELL_TOP_LARGEST) { // the same, in vectors
            store_integer(to.dtype, program->kernels->argmax(from.width, f32(in[0])), out);
            break;
        }
        const struct top top = {f32(in[0]), op->op->variant == CELL_TOP_LARGEST, out};
        find_top(&top, from.width, to.width);
        break;
    }
    case CELL_OP_TAKE:
        take(f32(in[0]), in[1], to.width, out_f32);
        break;
    case CELL_OP_FILTER:
        cell_filter(program, op, f32(in[0]), out_f32);
        break;
    case CELL_OP_CONCAT:
        concat(program, op, in, out);
        break;
    case CELL_OP_SLICE:
        memcpy(out, in[0] + op->op->start * element, to.width * element);
        break;
    case CELL_OP_COPY:
        memcpy(out, in[0], to.width * element);
        break;
    case CELL_OP_TRANSPOSE:
        transpose_row(op->op, to, in[0], out);
        break;
    case CELL_OP_SPREAD:
        spread_row(op->op->dims, element, in[0], out);
        break;
    case CELL_OP_CAST:
        for (uint32_t i = 0; i < to.width; i++) {
            cast_one(from, in[0], to, out, i);
        }
        break;
    default:
        base_assert(false); // a product, or a chain of element-wise ops
    }
}
