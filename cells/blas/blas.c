/* The `blas` backend: the CPU device over OpenBLAS products. It is portable and a peer to measure
 * against; it promises no invariant bits, since a library chooses its own order of sums.
 *
 * Rows are gathered into a matrix (the one copy that our own kernels do without), multiplied, then
 * activated. OpenBLAS runs on the calling thread alone: our team shares out the columns. Weights
 * stand once as [column][k], those of x and of h, columns in panels of 16 units x gates, so that
 * any share of the panels is one product. Any thread, over the caller's scratch. */
#include "base/checked.h"
#include "base/mem.h"
#include "cells/cpu/device.h"
#include "cells/kernels.h"
#include "cells/ref/math.h"

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

static enum base_status alloc_floats(size_t rows, uint64_t columns, float **out)
{
    size_t floats = 0;
    *out = base_size_mul(rows, (size_t)columns, &floats) ? base_alloc_array(floats, sizeof(float))
                                                         : NULL;
    return *out == NULL ? BASE_RESOURCE_EXHAUSTED : BASE_OK;
}

/* [column][k] of [panel][k][column], as our own kernels pack it. */
static enum base_status turn_panels(const struct cell_gated *gated, uint32_t k, void **packed)
{
    float *turned = NULL;
    const float *from = *packed;
    size_t columns = gated->columns;
    BASE_TRY(alloc_floats(gated->panels * columns, k, &turned));
    for (size_t panel = 0; panel < gated->panels; panel++) {
        for (size_t column = 0; column < columns; column++) {
            for (size_t i = 0; i < k; i++) {
                turned[(panel * columns + column) * k + i] =
                    from[(panel * k + i) * columns + column];
            }
        }
    }
    base_free(*packed);
    *packed = turned;
    return BASE_OK;
}

static enum base_status gated_load(struct cell_gated *gated)
{
    BASE_TRY(cell_gated_pack(gated, &(struct cell_packing){.units = UNITS}));
    enum base_status status = BASE_OK;
    for (uint32_t part = 0; part < CELL_GATED_PARTS && status == BASE_OK; part++) {
        uint32_t terms = cell_gated_terms(gated, part);
        status = terms == 0 ? BASE_OK : turn_panels(gated, terms, &gated->packed[part]);
    }
    if (status != BASE_OK) {
        cell_gated_release(gated);
    }
    return status;
}

/* One product: out [rows, columns] += in [rows, k] * weights [columns, k]'. */
struct product {
    uint32_t rows, columns, k;
    const float *in, *weights;
    float *out;
};

static void multiply(const struct product *p)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)p->rows, (blasint)p->columns,
                (blasint)p->k, 1.0f, p->in, (blasint)p->k, p->weights, (blasint)p->k, 1.0f, p->out,
                (blasint)p->columns);
}

static void repeat(const float *row, uint32_t rows, uint32_t columns, float *out)
{
    for (uint32_t r = 0; r < rows; r++) {
        memcpy(out + (size_t)r * columns, row, columns * sizeof(float));
    }
}

/* Gathered rows of x (number 0), of h (1) or of h_right (2), and the panels whose sums they are
 * added to. */
struct part {
    uint32_t number, n_rows;
    uint32_t panel_first, panels;
    const float *const *rows;
    float *in;   /* room for the gathered rows */
    float *sums; /* [n_rows][columns of the panels] */
};

static void add_part(const struct cell_gated *gated, const struct part *part)
{
    uint32_t k = cell_gated_terms(gated, part->number);
    size_t first = (size_t)part->panel_first * gated->columns;
    for (uint32_t r = 0; r < part->n_rows; r++) {
        memcpy(part->in + (size_t)r * k, part->rows[r], k * sizeof(float));
    }
    multiply(&(struct product){.rows = part->n_rows,
                               .columns = part->panels * gated->columns,
                               .k = k,
                               .in = part->in,
                               .weights = (const float *)gated->packed[part->number] + first * k,
                               .out = part->sums});
}

/* What one row of one panel is updated from and to: gates [gate][UNITS]. */
struct panel_row {
    const struct cell_gated_step *step;
    uint32_t row;
    size_t unit;
    uint32_t units; /* the last panel may have fewer than UNITS */
    float *gates;
    const float *over_x; /* GRU */
};

static void update_lstm(const struct cell_kernels *best, const struct panel_row *p)
{
    const struct cell_gated *gated = p->step->gated;
    const float *c = p->step->old[p->row] + p->unit;
    float *c_out = p->step->second[p->row] + p->unit;
    float *h_out = p->step->out[p->row] + p->unit;
    float squashed[UNITS];
    float *i = p->gates;
    float *o = p->gates + UNITS;
    float *f = p->gates + (size_t)2 * UNITS;
    float *g = p->gates + (size_t)3 * UNITS;
    size_t room = (size_t)gated->panels * UNITS;
    const float *peepholes = gated->peepholes;
    for (uint32_t u = 0; u < p->units && peepholes != NULL; u++) {
        i[u] = fmaf(peepholes[p->unit + u], c[u], i[u]);
        f[u] = fmaf(peepholes[2 * room + p->unit + u], c[u], f[u]);
    }
    best->sigmoid(UNITS, i, i);
    best->sigmoid(UNITS, f, f);
    best->tanh(UNITS, g, g);
    for (uint32_t u = 0; u < p->units; u++) {
        c_out[u] = fmaf(f[u], c[u], i[u] * g[u]);
        o[u] = peepholes == NULL ? o[u] : fmaf(peepholes[room + p->unit + u], c_out[u], o[u]);
    }
    best->sigmoid(UNITS, o, o);
    best->tanh(p->units, c_out, squashed);
    for (uint32_t u = 0; u < p->units; u++) {
        h_out[u] = o[u] * squashed[u];
    }
}

/* n is tanh(n) here: (1 - z) * n + z * h. */
static void mix(const struct panel_row *p, const float *z, const float *n)
{
    const float *h = p->step->old[p->row] + p->unit;
    float *out = p->step->out[p->row] + p->unit;
    for (uint32_t u = 0; u < p->units; u++) {
        out[u] = fmaf(z[u], h[u] - n[u], n[u]);
    }
}

static void update_gru(const struct cell_kernels *best, const struct panel_row *p)
{
    float n[UNITS];
    const float *r = p->gates + UNITS;
    best->sigmoid(2 * UNITS, p->gates, p->gates);
    for (uint32_t u = 0; u < UNITS; u++) {
        n[u] = fmaf(r[u], p->gates[2 * UNITS + u], p->over_x[2 * UNITS + u]);
    }
    best->tanh(UNITS, n, n);
    mix(p, p->gates, n);
}

static void update_gru_reset(const struct cell_kernels *best, const struct panel_row *p)
{
    const float *h = p->step->old[p->row] + p->unit;
    best->sigmoid(2 * UNITS, p->gates, p->gates);
    for (uint32_t u = 0; u < p->units; u++) {
        p->step->out[p->row][p->unit + u] = p->gates[u];
        p->step->second[p->row][p->unit + u] = p->gates[UNITS + u] * h[u];
    }
}

/* Gates i, o, u; of a TREE_BINARY f_l and f_r too. */
static void update_tree(const struct cell_kernels *best, const struct panel_row *p)
{
    const struct cell_gated_step *step = p->step;
    const bool is_binary = step->gated->kind == CELL_GATED_TREE_BINARY;
    const size_t room = CELL_ROW_FLOATS((size_t)step->gated->hidden);
    float *c_out = step->second[p->row] + p->unit;
    float *h_out = step->out[p->row] + p->unit;
    float *o = p->gates + UNITS;
    float *u = p->gates + (size_t)2 * UNITS;
    float *forget = p->gates + (size_t)3 * UNITS;
    best->sigmoid(2 * UNITS, p->gates, p->gates);
    best->tanh(UNITS, u, u);
    if (is_binary) {
        best->sigmoid(2 * UNITS, forget, forget);
    }
    for (uint32_t at = 0; at < p->units; at++) {
        c_out[at] = p->gates[at] * u[at];
    }
    for (uint32_t k = 0; k < step->n_children; k++) {
        const float *c = step->children[k][p->row] + p->unit;
        const float *f =
            is_binary ? forget + (size_t)k * UNITS : step->forget[p->row] + k * room + p->unit;
        for (uint32_t at = 0; at < p->units; at++) {
            c_out[at] = fmaf(f[at], c[at], c_out[at]);
        }
    }
    best->tanh(p->units, c_out, u);
    for (uint32_t at = 0; at < p->units; at++) {
        h_out[at] = o[at] * u[at];
    }
}

static void update(const struct cell_kernels *best, const struct panel_row *p)
{
    float *out = p->step->out[p->row] + p->unit;
    switch (p->step->gated->kind) {
    case CELL_GATED_LSTM:
        update_lstm(best, p);
        break;
    case CELL_GATED_GRU:
        update_gru(best, p);
        break;
    case CELL_GATED_GRU_RESET:
        update_gru_reset(best, p);
        break;
    case CELL_GATED_GRU_NEW:
        best->tanh(UNITS, p->gates, p->gates);
        mix(p, p->step->z[p->row] + p->unit, p->gates);
        break;
    case CELL_GATED_TANH:
        best->tanh(p->units, p->gates, out);
        break;
    case CELL_GATED_RELU:
        for (uint32_t u = 0; u < p->units; u++) {
            out[u] = cell_relu_f32__scalar(p->gates[u]);
        }
        break;
    case CELL_GATED_TREE:
    case CELL_GATED_TREE_BINARY:
        update_tree(best, p);
        break;
    case CELL_GATED_FORGET:
        best->sigmoid(p->units, p->gates, out);
        break;
    case CELL_GATED_SUM:
        memcpy(out, p->gates, p->units * sizeof(*out));
        break;
    }
}

/* What a GRU's sums over h begin with: z and r over x, n's own bias. */
static void begin_gru(const struct cell_gated *gated, uint32_t panel_first, uint32_t panels,
                      const float *over_x, float *sums)
{
    for (uint32_t p = 0; p < panels; p++) {
        size_t at = (size_t)p * gated->columns;
        size_t unit = (size_t)(panel_first + p) * UNITS;
        memcpy(sums + at, over_x + at, (size_t)2 * UNITS * sizeof(float));
        memcpy(sums + at + (size_t)2 * UNITS, gated->late_bias + unit, UNITS * sizeof(float));
    }
}

/* over_x [n_rows][columns of the part's panels]; without x what the other sums begin with. */
static void sum_over_x(const struct cell_gated_step *step, struct part *part, float *over_x)
{
    const struct cell_gated *gated = step->gated;
    size_t first = (size_t)part->panel_first * gated->columns;
    uint32_t columns = part->panels * gated->columns;
    if (step->ahead == NULL) {
        repeat(gated->bias + first, part->n_rows, columns, over_x);
        part->sums = over_x;
        part->rows = step->x;
        if (gated->inputs > 0) {
            add_part(gated, part);
        }
        return;
    }
    for (uint32_t r = 0; r < part->n_rows; r++) {
        memcpy(over_x + (size_t)r * columns, step->ahead[r] + first, columns * sizeof(float));
    }
}

static uint32_t widest_part(const struct cell_gated *gated)
{
    uint32_t widest = gated->inputs > gated->feedback ? gated->inputs : gated->feedback;
    return widest > gated->right ? widest : gated->right;
}

/* Scratch: gathered rows, then two matrices of sums. */
static void gated_step(const struct cell_gated_step *step)
{
    const float *const *const rows[] = {step->x, step->h, step->h_right};
    const struct cell_gated *gated = step->gated;
    const struct cell_kernels *best = activations();
    struct part part = {.n_rows = step->n_rows,
                        .panel_first = step->panel_first,
                        .panels = step->panel_end - step->panel_first,
                        .in = step->scratch};
    size_t columns = (size_t)part.panels * gated->columns;
    float *sums = part.in + (size_t)step->n_rows * widest_part(gated);
    bool is_gru = gated->kind == CELL_GATED_GRU;
    float *over_x = is_gru ? sums + step->n_rows * columns : sums;
    if (columns == 0) {
        return;
    }
    sum_over_x(step, &part, over_x);
    for (uint32_t r = 0; r < step->n_rows && is_gru; r++) {
        begin_gru(gated, part.panel_first, part.panels, over_x + r * columns, sums + r * columns);
    }
    part.sums = sums;
    for (part.number = 1; part.number < CELL_GATED_PARTS; part.number++) {
        part.rows = rows[part.number];
        if (cell_gated_terms(gated, part.number) > 0) {
            add_part(gated, &part);
        }
    }
    for (uint32_t r = 0; r < step->n_rows; r++) {
        for (uint32_t p = 0; p < part.panels; p++) {
            uint32_t unit = (part.panel_first + p) * UNITS;
            uint32_t left = gated->hidden - unit;
            size_t at = r * columns + (size_t)p * gated->columns;
            update(best, &(struct panel_row){.step = step,
                                             .row = r,
                                             .unit = unit,
                                             .units = left < UNITS ? left : UNITS,
                                             .gates = sums + at,
                                             .over_x = over_x + at});
        }
    }
}

static void gated_ahead(const struct cell_gated_ahead *ahead)
{
    const struct cell_gated *gated = ahead->gated;
    struct part part = {.n_rows = ahead->n_rows,
                        .panel_first = ahead->panel_first,
                        .panels = ahead->panel_end - ahead->panel_first,
                        .in = ahead->scratch};
    size_t columns = (size_t)part.panels * gated->columns;
    size_t first = (size_t)part.panel_first * gated->columns;
    float *sums = ahead->scratch + (size_t)ahead->n_rows * gated->inputs;
    if (columns == 0) {
        return;
    }
    struct cell_gated_step step = {.gated = gated, .x = ahead->x};
    sum_over_x(&step, &part, sums);
    for (uint32_t r = 0; r < ahead->n_rows; r++) {
        memcpy(ahead->out[r] + first, sums + r * columns, columns * sizeof(float));
    }
}

static enum base_status linear_load(struct cell_linear *linear)
{
    linear->panels = (linear->outputs + COLUMNS - 1) / COLUMNS;
    size_t columns = (size_t)linear->panels * COLUMNS;
    BASE_TRY(alloc_floats(columns, 1, &linear->bias));
    if (alloc_floats(columns, linear->inputs, &linear->packed) != BASE_OK) {
        cell_linear_release(linear);
        return BASE_RESOURCE_EXHAUSTED;
    }
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
    repeat(linear->bias + first, rows->n_rows, end - first, out);
    multiply(&(struct product){.rows = rows->n_rows,
                               .columns = end - first,
                               .k = k,
                               .in = in,
                               .weights = linear->packed + (size_t)first * k,
                               .out = out});
    for (uint32_t r = 0; r < rows->n_rows; r++) {
        memcpy(rows->out[r] + first, out + (size_t)r * (end - first),
               (end - first) * sizeof(float));
    }
}

/* Gathered rows, and sums twice (a GRU's over x and h). */
static size_t gated_scratch(const struct cell_gated *gated, uint32_t rows_max)
{
    size_t columns = (size_t)gated->panels * gated->columns;
    return rows_max * (widest_part(gated) + 2 * columns);
}

static size_t linear_scratch(const struct cell_linear *linear, uint32_t rows_max)
{
    return rows_max * ((size_t)linear->inputs + linear->outputs);
}

static void sigmoid_all(uint32_t n, const float *in, float *out)
{
    activations()->sigmoid(n, in, out);
}

static void tanh_all(uint32_t n, const float *in, float *out)
{
    activations()->tanh(n, in, out);
}

static void pointwise(const struct cell_pointwise *chain, float *const values[], float *scratch)
{
    activations()->pointwise(chain, values, scratch);
}

static void softmax_group(uint32_t n, const float *in, float *out)
{
    activations()->softmax(n, in, out);
}

static void log_softmax_group(uint32_t n, const float *in, float *out)
{
    activations()->log_softmax(n, in, out);
}

static uint32_t argmax_of(uint32_t n, const float *in)
{
    return activations()->argmax(n, in);
}

static void sums(uint32_t groups, uint32_t n, const float *in, float *out)
{
    activations()->sums(groups, n, in, out);
}

static void dots(const struct cell_dots *dots)
{
    activations()->dots(dots);
}

static void exp_all(uint32_t n, const float *in, float less, float *out)
{
    activations()->exp(n, in, less, out);
}

static bool rises(uint32_t n, const float *in, float high)
{
    return activations()->rises(n, in, high);
}

static void weigh(const struct cell_weighing *weighing)
{
    activations()->weigh(weighing);
}

static void divide_all(uint32_t n, float by, float *out)
{
    activations()->divide(n, by, out);
}

static void filter(const struct cell_filter_run *run)
{
    activations()->filter(run);
}

static const struct cell_kernels kernels = {
    .name = "openblas",
    .invariant = false,
    .gated_load = gated_load,
    .gated_ahead = gated_ahead,
    .gated_step = gated_step,
    .linear_load = linear_load,
    .linear_rows = linear_rows,
    .gated_scratch = gated_scratch,
    .linear_scratch = linear_scratch,
    .sigmoid = sigmoid_all,
    .tanh = tanh_all,
    .softmax = softmax_group,
    .log_softmax = log_softmax_group,
    .argmax = argmax_of,
    .sums = sums,
    .dots = dots,
    .exp = exp_all,
    .rises = rises,
    .weigh = weigh,
    .divide = divide_all,
    .filter = filter,
    .pointwise = pointwise,
};

static enum base_status open_blas(const struct cell_device_options *options,
                                  struct cell_device **out, struct base_error *error)
{
    // Process-wide, and no lock: a device is opened before any batch runs.
    openblas_set_num_threads(1);
    return cell_cpu_open(options, &kernels, "blas", out, error);
}

const struct cell_backend cell_backend_blas = CELL_CPU_BACKEND("blas", open_blas);
