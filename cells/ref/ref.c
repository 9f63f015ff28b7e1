/* The scalar reference: the loops that define what every invariant kernel computes, bit by bit.
 *
 * Weights are read as the definition holds them, or from a copy in its order that has been rounded
 * as asked; a panel is one hidden unit or one column. Pure functions over the caller's memory, any
 * thread. Written to be read, not to be fast. */
#include "cells/kernels.h"

#include "base/assert.h"
#include "base/mem.h"
#include "cells/bf16.h"
#include "cells/quant.h"
#include "cells/ref/math.h"
#include "cells/ref/pointwise.h"

#include <math.h>
#include <string.h>

/* A build for every x86-64 calls the library for each fused multiply-add. So the loops of many
 * terms exist once more, for processors that have it as an instruction: the same bits, since both
 * round once, in less than half the time. glibc's loader chooses; not under sanitizers, which are
 * not ready when it does. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(CELLBATCH_DEBUG)
#    define REF_MULTIPLIES __attribute__((target_clones("fma", "default")))
#else
#    define REF_MULTIPLIES
#endif

/* sum + x . w, one fused multiply-add a term; w's elements lie `stride` apart. */
REF_MULTIPLIES
static float dot(float sum, uint32_t n, const float *x, const float *w, size_t stride)
{
    for (uint32_t k = 0; k < n; k++) {
        sum = fmaf(x[k], w[k * stride], sum);
    }
    return sum;
}

/* ---- Gated cells ---- */

/* Place of gate `gate` of a unit in what has a value for each; bias[] and ahead rows are in this
 * order, a panel being a unit. */
static size_t place_of(const struct cell_gated *gated, uint32_t gate, uint32_t unit)
{
    return (size_t)unit * gated->columns + gate;
}

static size_t row_of(const struct cell_gated *gated, uint32_t gate, uint32_t unit)
{
    return (size_t)gate * gated->hidden + unit;
}

/* A row of x (part 0), of h (part 1) or of h_right (part 2). */
struct vector {
    uint32_t part, terms;
    const float *floats;
    const int8_t *bytes; /* of INT8, and */
    float scale;
};

/* sum + the terms of one gate of a unit over one part. */
static float add_terms(const struct cell_gated *gated, uint32_t gate, uint32_t unit, float sum,
                       const struct vector *in)
{
    size_t row = row_of(gated, gate, unit);
    const void *packed = gated->packed[in->part];
    if (gated->precision != CELL_INT8) {
        const float *weights =
            gated->precision == CELL_BF16 ? packed : cell_gated_given(gated, in->part);
        return dot(sum, in->terms, in->floats, weights + row * in->terms, 1);
    }
    base_assert(in->bytes != NULL);
    const int8_t *weights = (const int8_t *)packed + row * in->terms;
    int32_t whole = 0;
    for (uint32_t k = 0; k < in->terms; k++) {
        whole += in->bytes[k] * weights[k];
    }
    return fmaf(in->scale * gated->scales[in->part][row], (float)whole, sum);
}

/* In fewer bits the row is rounded into scratch, part behind part. */
static struct vector read_row(const struct cell_gated *gated, uint32_t part, const float *row,
                              float *scratch)
{
    struct vector in = {.part = part, .terms = cell_gated_terms(gated, part), .floats = row};
    size_t before = 0;
    for (uint32_t p = 0; p < part; p++) {
        before += cell_gated_terms(gated, p);
    }
    if (gated->precision == CELL_BF16) {
        for (uint32_t k = 0; k < in.terms; k++) {
            scratch[before + k] = cell_bf16_widen(cell_bf16_factor(row[k]));
        }
        in.floats = scratch + before;
    } else if (gated->precision == CELL_INT8) {
        int8_t *bytes = (int8_t *)(void *)scratch + before;
        in.scale = cell_int8_scale(in.terms, row);
        for (uint32_t k = 0; k < in.terms; k++) {
            bytes[k] = cell_int8_of(row[k], in.scale);
        }
        in.bytes = bytes;
    }
    return in;
}

static float mix(float z, float h, float n)
{
    return cell_nan_f32__scalar(fmaf(z, h - n, n));
}

static void update_lstm(const struct cell_gated_step *step, uint32_t row, uint32_t unit,
                        const float *sums)
{
    float old = step->old[row][unit];
    const float *p = step->gated->peepholes;
    uint32_t hidden = step->gated->hidden;
    float i = sums[0];
    float o = sums[1];
    float f = sums[2];
    if (p != NULL) {
        i = fmaf(p[unit], old, i);
        f = fmaf(p[2 * hidden + unit], old, f);
    }
    float g = cell_tanh_f32__scalar(sums[3]);
    float c = cell_nan_f32__scalar(
        fmaf(cell_sigmoid_f32__scalar(f), old, cell_sigmoid_f32__scalar(i) * g));
    if (p != NULL) {
        o = fmaf(p[hidden + unit], c, o);
    }
    step->second[row][unit] = c;
    step->out[row][unit] =
        cell_nan_f32__scalar(cell_sigmoid_f32__scalar(o) * cell_tanh_f32__scalar(c));
}

/* i, o, u, and a TREE_BINARY's f_l, f_r. */
static void update_tree(const struct cell_gated_step *step, uint32_t row, uint32_t unit,
                        const float *sums)
{
    const bool is_binary = step->gated->kind == CELL_GATED_TREE_BINARY;
    float c = cell_sigmoid_f32__scalar(sums[0]) * cell_tanh_f32__scalar(sums[2]);
    for (uint32_t k = 0; k < step->n_children; k++) {
        float f = is_binary ? cell_sigmoid_f32__scalar(sums[3 + k])
                            : step->forget[row][k * CELL_ROW_FLOATS(step->gated->hidden) + unit];
        c = fmaf(f, step->children[k][row][unit], c);
    }
    c = cell_nan_f32__scalar(c);
    step->second[row][unit] = c;
    step->out[row][unit] =
        cell_nan_f32__scalar(cell_sigmoid_f32__scalar(sums[1]) * cell_tanh_f32__scalar(c));
}

/* sums: over all parts, but of a GRU's n over x alone, followed by that over h. */
static void update(const struct cell_gated_step *step, uint32_t row, uint32_t unit,
                   const float *sums)
{
    float *out = &step->out[row][unit];
    float z;
    float n;
    switch (step->gated->kind) {
    case CELL_GATED_LSTM:
        update_lstm(step, row, unit, sums);
        break;
    case CELL_GATED_GRU:
        z = cell_sigmoid_f32__scalar(sums[0]);
        n = cell_tanh_f32__scalar(fmaf(cell_sigmoid_f32__scalar(sums[1]), sums[3], sums[2]));
        *out = mix(z, step->old[row][unit], n);
        break;
    case CELL_GATED_GRU_RESET:
        *out = cell_sigmoid_f32__scalar(sums[0]);
        step->second[row][unit] =
            cell_nan_f32__scalar(cell_sigmoid_f32__scalar(sums[1]) * step->old[row][unit]);
        break;
    case CELL_GATED_GRU_NEW:
        n = cell_tanh_f32__scalar(sums[0]);
        *out = mix(step->z[row][unit], step->old[row][unit], n);
        break;
    case CELL_GATED_TANH:
        *out = cell_tanh_f32__scalar(sums[0]);
        break;
    case CELL_GATED_RELU:
        *out = cell_relu_f32__scalar(sums[0]);
        break;
    case CELL_GATED_TREE:
    case CELL_GATED_TREE_BINARY:
        update_tree(step, row, unit, sums);
        break;
    case CELL_GATED_FORGET:
        *out = cell_sigmoid_f32__scalar(sums[0]);
        break;
    case CELL_GATED_SUM:
        *out = cell_nan_f32__scalar(sums[0]);
        break;
    }
}

/* The row's parts that have terms, but x where its sums were computed ahead. */
static uint32_t read_parts(const struct cell_gated_step *step, uint32_t row,
                           struct vector in[CELL_GATED_PARTS])
{
    const float *const *const rows[] = {step->x, step->h, step->h_right};
    uint32_t n = 0;
    for (uint32_t part = step->ahead == NULL ? 0 : 1; part < CELL_GATED_PARTS; part++) {
        if (cell_gated_terms(step->gated, part) > 0) {
            in[n++] = read_row(step->gated, part, rows[part][row], step->scratch);
        }
    }
    return n;
}

static void step_row(const struct cell_gated_step *step, uint32_t row)
{
    const struct cell_gated *gated = step->gated;
    const bool is_gru = gated->kind == CELL_GATED_GRU;
    struct vector in[CELL_GATED_PARTS];
    const uint32_t n_in = read_parts(step, row, in);
    for (uint32_t unit = step->panel_first; unit < step->panel_end; unit++) {
        float sums[5] = {0};
        for (uint32_t gate = 0; gate < gated->columns; gate++) {
            size_t at = place_of(gated, gate, unit);
            float sum = step->ahead != NULL ? step->ahead[row][at] : gated->bias[at];
            for (uint32_t i = 0; i < n_in; i++) {
                bool is_late = is_gru && gate == 2 && in[i].part == 1;
                sum = is_late ? sum : add_terms(gated, gate, unit, sum, &in[i]);
            }
            sums[gate] = sum;
        }
        if (is_gru) {
            sums[3] = add_terms(gated, 2, unit, gated->late_bias[unit], &in[n_in - 1]);
        }
        update(step, row, unit, sums);
    }
}

static void gated_step(const struct cell_gated_step *step)
{
    for (uint32_t row = 0; row < step->n_rows; row++) {
        step_row(step, row);
    }
}

static void gated_ahead(const struct cell_gated_ahead *ahead)
{
    const struct cell_gated *gated = ahead->gated;
    for (uint32_t row = 0; row < ahead->n_rows; row++) {
        const struct vector x = read_row(gated, 0, ahead->x[row], ahead->scratch);
        for (uint32_t unit = ahead->panel_first; unit < ahead->panel_end; unit++) {
            for (uint32_t gate = 0; gate < gated->columns; gate++) {
                size_t at = place_of(gated, gate, unit);
                ahead->out[row][at] = add_terms(gated, gate, unit, gated->bias[at], &x);
            }
        }
    }
}

/* The weights of a part, rounded: floats again, or bytes with a scale for each row. */
static enum base_status round_weights(struct cell_gated *gated, uint32_t part)
{
    const bool is_int8 = gated->precision == CELL_INT8;
    const uint32_t terms = cell_gated_terms(gated, part);
    const float *weights = cell_gated_given(gated, part);
    const size_t rows = (size_t)gated->columns * gated->hidden;
    float *floats = base_alloc_array(rows * terms, is_int8 ? sizeof(int8_t) : sizeof(float));
    int8_t *bytes = (int8_t *)floats;
    gated->packed[part] = floats;
    gated->scales[part] = base_alloc_array(rows, sizeof(float));
    if (floats == NULL || gated->scales[part] == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (size_t i = 0; i < rows * terms && !is_int8; i++) {
        floats[i] = cell_bf16_widen(cell_bf16_factor(weights[i]));
    }
    for (size_t row = 0; row < rows && is_int8; row++) {
        float scale = cell_int8_scale(terms, weights + row * terms);
        gated->scales[part][row] = scale;
        for (size_t i = row * terms; i < (row + 1) * terms; i++) {
            bytes[i] = cell_int8_of(weights[i], scale);
        }
    }
    return BASE_OK;
}

/* Panels of one unit. */
static enum base_status gated_load(struct cell_gated *gated)
{
    BASE_TRY(cell_gated_pack_biases(gated, 1));
    for (uint32_t part = 0; part < CELL_GATED_PARTS && gated->precision != CELL_FP32; part++) {
        if (cell_gated_terms(gated, part) > 0 && round_weights(gated, part) != BASE_OK) {
            cell_gated_release(gated);
            return BASE_RESOURCE_EXHAUSTED;
        }
    }
    return BASE_OK;
}

/* ---- LINEAR ---- */

static void linear_rows(const struct cell_linear_rows *rows)
{
    const struct cell_linear *linear = rows->linear;
    if (linear->precision != CELL_FP32) {
        const struct cell_gated_step step = cell_linear_sums_step(rows);
        gated_step(&step);
        return;
    }
    for (uint32_t row = 0; row < rows->n_rows; row++) {
        for (uint32_t col = rows->panel_first; col < rows->panel_end; col++) {
            float sum = dot(linear->bias[col], linear->inputs, rows->x[row], linear->w + col,
                            linear->outputs);
            rows->out[row][col] = cell_nan_f32__scalar(sum);
        }
    }
}

static enum base_status linear_load(struct cell_linear *linear)
{
    if (linear->precision != CELL_FP32) {
        return cell_linear_load_sums(linear, gated_load);
    }
    linear->panels = linear->outputs;
    linear->packed = NULL;
    linear->bias = base_alloc_array(linear->outputs, sizeof(float));
    if (linear->bias == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    if (linear->b != NULL) {
        memcpy(linear->bias, linear->b, linear->outputs * sizeof(float));
    }
    return BASE_OK;
}

/* One row of each part, rounded: as floats, or as bytes. */
static size_t gated_scratch(const struct cell_gated *gated, uint32_t rows_max)
{
    (void)rows_max;
    size_t terms = (size_t)gated->inputs + gated->feedback + gated->right;
    return gated->precision == CELL_BF16   ? terms
           : gated->precision == CELL_INT8 ? (terms + sizeof(float) - 1) / sizeof(float)
                                           : 0;
}

static size_t linear_scratch(const struct cell_linear *linear, uint32_t rows_max)
{
    return linear->precision == CELL_FP32 ? 0 : gated_scratch(&linear->sums, rows_max);
}

static void sigmoid_all(uint32_t n, const float *in, float *out)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = cell_sigmoid_f32__scalar(in[i]);
    }
}

static void tanh_all(uint32_t n, const float *in, float *out)
{
    for (uint32_t i = 0; i < n; i++) {
        out[i] = cell_tanh_f32__scalar(in[i]);
    }
}

static void sums(uint32_t groups, uint32_t n, const float *in, float *out)
{
    for (uint32_t g = 0; g < groups; g++) {
        out[g] = cell_sum_f32__scalar(n, in + (size_t)g * n);
    }
}

static void dots(const struct cell_dots *dots)
{
    for (uint32_t q = 0; q < dots->n_queries; q++) {
        for (uint32_t t = 0; t < dots->b.n; t++) {
            dots->out[q][t] =
                cell_dot_f32__scalar(dots->width, dots->a[q], cell_some_row(&dots->b, t));
        }
    }
}

static void exp_all(uint32_t n, const float *in, float less, float *out)
{
    for (uint32_t k = 0; k < n; k++) {
        out[k] = cell_exp_f32__scalar(in[k] - less);
    }
}

static bool rises(uint32_t n, const float *in, float high)
{
    bool all = true;
    for (uint32_t k = 0; k < n; k++) {
        all = all && in[k] <= high;
    }
    return !all;
}

static void weigh(const struct cell_weighing *w)
{
    for (uint32_t q = 0; q < w->n_queries; q++) {
        for (uint32_t t = 0; t < w->rows.n; t++) {
            for (uint32_t k = 0; k < w->width && (w->scaled[q] >> t & 1) != 0; k++) {
                w->out[q][k] *= w->scales[q][t];
            }
            cell_add_scaled_f32__scalar(w->width, w->weights[q][t], cell_some_row(&w->rows, t),
                                        w->out[q]);
        }
    }
}

const struct cell_kernels cell_kernels__scalar = {
    .name = "scalar",
    .invariant = true,
    .has_reduced = true,
    .gated_load = gated_load,
    .gated_ahead = gated_ahead,
    .gated_step = gated_step,
    .linear_load = linear_load,
    .linear_rows = linear_rows,
    .gated_scratch = gated_scratch,
    .linear_scratch = linear_scratch,
    .sigmoid = sigmoid_all,
    .tanh = tanh_all,
    .softmax = cell_softmax_f32__scalar,
    .log_softmax = cell_log_softmax_f32__scalar,
    .argmax = cell_argmax_f32__scalar,
    .sums = sums,
    .dots = dots,
    .exp = exp_all,
    .rises = rises,
    .weigh = weigh,
    .divide = cell_divide_f32__scalar,
    .filter = cell_filter__scalar,
    .pointwise = cell_pointwise__scalar,
};
