/* The `blas` backend: the CPU device over OpenBLAS products. It is portable and a peer to measure
 * against; it promises no invariant bits, since a library chooses its own order of sums.
 *
 * Rows are gathered into a matrix (the one copy that our own kernels do without), multiplied, then
 * activated. OpenBLAS runs on the calling thread alone: our team shares out the columns. Weights
 * stand once as [column][k] with x and h behind each other, columns in panels of 16 units x 4
 * gates, so that any share of the panels is one product. Any thread, over the caller's scratch. */
#include "base/checked.h"
#include "base/mem.h"
#include "cells/cpu/device.h"
#include "cells/kernels.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#define UNITS   16u
#define COLUMNS 64u

/* The activations of the best kernels here; only their products are replaced. */
static const struct cell_kernels *activations(void)
{
    const struct cell_kernels *best = &cell_kernels__scalar;
    return cell_kernels_choose(NULL, &best, NULL) == BASE_OK ? best : &cell_kernels__scalar;
}

static enum base_status alloc_weights(uint32_t panels, uint64_t k, float **bias, float **packed)
{
    size_t columns = (size_t)panels * COLUMNS;
    size_t floats = 0;
    *bias = base_alloc_array(columns, sizeof(float));
    *packed =
        base_size_mul(columns, (size_t)k, &floats) ? base_alloc_array(floats, sizeof(float)) : NULL;
    if (*bias == NULL || *packed == NULL) {
        base_free(*bias);
        base_free(*packed);
        *bias = NULL;
        *packed = NULL;
        return BASE_RESOURCE_EXHAUSTED;
    }
    return BASE_OK;
}

static enum base_status lstm_load(struct cell_lstm *lstm)
{
    uint32_t inputs = lstm->inputs;
    uint32_t hidden = lstm->hidden;
    size_t k = (size_t)inputs + hidden;
    lstm->panels = (hidden + UNITS - 1) / UNITS;
    BASE_TRY(alloc_weights(lstm->panels, k, &lstm->bias, &lstm->packed));
    for (uint32_t row = 0; row < 4 * hidden; row++) {
        uint32_t unit = row % hidden;
        size_t column =
            (size_t)unit / UNITS * COLUMNS + (size_t)(row / hidden) * UNITS + unit % UNITS;
        float *to = lstm->packed + column * k;
        memcpy(to, lstm->w + (size_t)row * inputs, inputs * sizeof(float));
        memcpy(to + inputs, lstm->r + (size_t)row * hidden, hidden * sizeof(float));
        lstm->bias[column] =
            lstm->b == NULL ? 0.0f : lstm->b[row] + lstm->b[4 * (size_t)hidden + row];
    }
    return BASE_OK;
}

/* One product: out [rows, columns] = bias + in [rows, k] * weights [columns, k]'. */
struct product {
    uint32_t rows, columns, k;
    const float *in, *weights, *bias;
    float *out;
};

static void multiply(const struct product *p)
{
    for (uint32_t r = 0; r < p->rows; r++) {
        memcpy(p->out + (size_t)r * p->columns, p->bias, p->columns * sizeof(float));
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)p->rows, (blasint)p->columns,
                (blasint)p->k, 1.0f, p->in, (blasint)p->k, p->weights, (blasint)p->k, 1.0f, p->out,
                (blasint)p->columns);
}

/* gates [gate][unit] of one panel and row; the last panel may have fewer than UNITS. */
static void update(const struct cell_kernels *best, uint32_t units, float *gates, const float *c,
                   float *h_out, float *c_out)
{
    float squashed[UNITS];
    best->sigmoid(3 * UNITS, gates, gates);
    best->tanh(UNITS, gates + 3 * (size_t)UNITS, gates + 3 * (size_t)UNITS);
    for (uint32_t u = 0; u < units; u++) {
        c_out[u] = fmaf(gates[2 * UNITS + u], c[u], gates[u] * gates[3 * UNITS + u]);
    }
    best->tanh(units, c_out, squashed);
    for (uint32_t u = 0; u < units; u++) {
        h_out[u] = gates[UNITS + u] * squashed[u];
    }
}

static void lstm_step(const struct cell_lstm_step *step)
{
    const struct cell_lstm *lstm = step->lstm;
    const struct cell_kernels *best = activations();
    uint32_t k = lstm->inputs + lstm->hidden;
    uint32_t columns = (step->panel_end - step->panel_first) * COLUMNS;
    if (columns == 0) {
        return;
    }
    float *in = step->scratch;
    float *gates = in + (size_t)step->n_rows * k;
    for (uint32_t r = 0; r < step->n_rows; r++) {
        memcpy(in + (size_t)r * k, step->x[r], lstm->inputs * sizeof(float));
        memcpy(in + (size_t)r * k + lstm->inputs, step->h[r], lstm->hidden * sizeof(float));
    }
    multiply(&(struct product){.rows = step->n_rows,
                               .columns = columns,
                               .k = k,
                               .in = in,
                               .weights = lstm->packed + (size_t)step->panel_first * COLUMNS * k,
                               .bias = lstm->bias + (size_t)step->panel_first * COLUMNS,
                               .out = gates});
    for (uint32_t r = 0; r < step->n_rows; r++) {
        for (uint32_t p = step->panel_first; p < step->panel_end; p++) {
            uint32_t unit = p * UNITS;
            uint32_t left = lstm->hidden - unit;
            update(best, left < UNITS ? left : UNITS,
                   gates + (size_t)r * columns + (size_t)(p - step->panel_first) * COLUMNS,
                   step->c[r] + unit, step->h_out[r] + unit, step->c_out[r] + unit);
        }
    }
}

static enum base_status linear_load(struct cell_linear *linear)
{
    linear->panels = (linear->outputs + COLUMNS - 1) / COLUMNS;
    BASE_TRY(alloc_weights(linear->panels, linear->inputs, &linear->bias, &linear->packed));
    for (uint32_t column = 0; column < linear->outputs; column++) {
        for (uint32_t k = 0; k < linear->inputs; k++) {
            linear->packed[(size_t)column * linear->inputs + k] =
                linear->w[(size_t)k * linear->outputs + column];
        }
        linear->bias[column] = linear->b == NULL ? 0.0f : linear->b[column];
    }
    return BASE_OK;
}

static void linear_rows(const struct cell_linear_rows *rows)
{
    const struct cell_linear *linear = rows->linear;
    uint32_t k = linear->inputs;
    uint32_t first = rows->panel_first * COLUMNS;
    uint32_t end = rows->panel_end * COLUMNS;
    end = end > linear->outputs ? linear->outputs : end;
    if (first >= end) {
        return;
    }
    float *in = rows->scratch;
    float *out = in + (size_t)rows->n_rows * k;
    for (uint32_t r = 0; r < rows->n_rows; r++) {
        memcpy(in + (size_t)r * k, rows->x[r], k * sizeof(float));
    }
    multiply(&(struct product){.rows = rows->n_rows,
                               .columns = end - first,
                               .k = k,
                               .in = in,
                               .weights = linear->packed + (size_t)first * k,
                               .bias = linear->bias + first,
                               .out = out});
    for (uint32_t r = 0; r < rows->n_rows; r++) {
        memcpy(rows->out[r] + first, out + (size_t)r * (end - first),
               (end - first) * sizeof(float));
    }
}

/* Gathered rows and a product as wide as all panels. */
static size_t scratch_floats(uint32_t inputs, uint32_t outputs, uint32_t rows_max)
{
    // Of an LSTM's 4 * hidden gates each is rounded up to whole panels: 4 * 15 columns at most.
    return (size_t)rows_max * ((size_t)inputs + outputs + COLUMNS);
}

static void sigmoid_all(uint32_t n, const float *in, float *out)
{
    activations()->sigmoid(n, in, out);
}

static void tanh_all(uint32_t n, const float *in, float *out)
{
    activations()->tanh(n, in, out);
}

static void softmax_group(uint32_t n, const float *in, float *out)
{
    activations()->softmax(n, in, out);
}

static const struct cell_kernels kernels = {
    .name = "openblas",
    .invariant = false,
    .lstm_load = lstm_load,
    .lstm_step = lstm_step,
    .linear_load = linear_load,
    .linear_rows = linear_rows,
    .scratch_floats = scratch_floats,
    .sigmoid = sigmoid_all,
    .tanh = tanh_all,
    .softmax = softmax_group,
};

static enum base_status open_blas(const struct cell_device_options *options,
                                  struct cell_device **out, struct base_error *error)
{
    // Process-wide, and no lock: a device is opened before any batch runs.
    openblas_set_num_threads(1);
    return cell_cpu_open(options, &kernels, "blas", out, error);
}

const struct cell_backend cell_backend_blas = CELL_CPU_BACKEND("blas", open_blas);
