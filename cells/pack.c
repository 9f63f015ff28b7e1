/* Packing: weights copied once, at load, into the order in which a kernel reads them (drawn in
 * docs/kernels.md), and the kernels' choice. Any thread, over the caller's memory. Cost: one pass
 * over the weights, read in their own order. */
#include "cells/kernels.h"

#include "base/checked.h"
#include "base/mem.h"
#include "cells/bf16.h"
#include "cells/quant.h"

#include <string.h>

uint32_t cell_gated_gates(enum cell_gated_kind kind)
{
    static const uint8_t gates[] = {
        [CELL_GATED_LSTM] = 4,    [CELL_GATED_GRU] = 3,         [CELL_GATED_GRU_RESET] = 2,
        [CELL_GATED_GRU_NEW] = 1, [CELL_GATED_TANH] = 1,        [CELL_GATED_RELU] = 1,
        [CELL_GATED_TREE] = 3,    [CELL_GATED_TREE_BINARY] = 5, [CELL_GATED_FORGET] = 1,
        [CELL_GATED_SUM] = 1};
    return gates[kind];
}

void cell_gated_release(struct cell_gated *gated)
{
    base_free(gated->bias);
    base_free(gated->late_bias);
    base_free(gated->peepholes);
    gated->bias = gated->late_bias = gated->peepholes = NULL;
    for (uint32_t part = 0; part < CELL_GATED_PARTS; part++) {
        base_free(gated->packed[part]);
        base_free(gated->scales[part]);
        base_free(gated->offsets[part]);
        gated->packed[part] = NULL;
        gated->scales[part] = NULL;
        gated->offsets[part] = NULL;
    }
}

void cell_linear_release(struct cell_linear *linear)
{
    base_free(linear->bias);
    base_free(linear->packed);
    linear->bias = NULL;
    linear->packed = NULL;
    cell_gated_release(&linear->sums);
}

static uint32_t round_up(uint32_t columns, uint32_t lanes)
{
    return (columns + lanes - 1) / lanes * lanes;
}

/* ---- Gated cells: biases -------------------------------------------------------------------- */

static uint32_t panel_units(const struct cell_gated *gated)
{
    return gated->columns / cell_gated_gates(gated->kind);
}

/* The place of a gate of a unit in what has one value for each column. */
static size_t column_of(const struct cell_gated *gated, uint32_t gate, uint32_t unit)
{
    uint32_t units = panel_units(gated);
    return (size_t)(unit / units) * gated->columns + (size_t)gate * units + unit % units;
}

/* What a sum begins with. */
static float start_of(const struct cell_gated *gated, float bias)
{
    return gated->precision == CELL_BF16 ? cell_bf16_start(bias) : bias;
}

static void pack_biases(struct cell_gated *gated)
{
    bool is_gru = gated->kind == CELL_GATED_GRU;
    for (uint32_t gate = 0; gate < cell_gated_gates(gated->kind); gate++) {
        for (uint32_t unit = 0; unit < gated->hidden; unit++) {
            size_t from = (size_t)gate * gated->hidden + unit;
            size_t at = column_of(gated, gate, unit);
            if (is_gru && gate == 2) {
                gated->bias[at] = start_of(gated, gated->b_w[from]);
                gated->late_bias[unit] = start_of(gated, gated->b_r[from]);
            } else {
                float bias =
                    gated->b_r == NULL ? gated->b_w[from] : gated->b_w[from] + gated->b_r[from];
                gated->bias[at] = start_of(gated, bias);
            }
        }
    }
}

/* Zeros for each column of all panels. 4 bytes, as a float or an int32_t has. */
static void *alloc_columns(const struct cell_gated *gated)
{
    return base_alloc_aligned((size_t)gated->panels * gated->columns * 4, BASE_CACHE_LINE);
}

static enum base_status pack_rows(struct cell_gated *gated, uint32_t units)
{
    size_t room = (size_t)gated->panels * units;
    gated->bias = alloc_columns(gated);
    if (gated->bias == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    if (gated->kind == CELL_GATED_GRU) {
        gated->late_bias = base_alloc_aligned(room * sizeof(float), BASE_CACHE_LINE);
        if (gated->late_bias == NULL) {
            return BASE_RESOURCE_EXHAUSTED;
        }
    }
    if (gated->p != NULL) {
        gated->peepholes = base_alloc_aligned(3 * room * sizeof(float), BASE_CACHE_LINE);
        if (gated->peepholes == NULL) {
            return BASE_RESOURCE_EXHAUSTED;
        }
        for (uint32_t gate = 0; gate < 3; gate++) {
            memcpy(gated->peepholes + gate * room, gated->p + (size_t)gate * gated->hidden,
                   gated->hidden * sizeof(float));
        }
    }
    if (gated->b_w != NULL) {
        pack_biases(gated);
    }
    return BASE_OK;
}

enum base_status cell_gated_pack_biases(struct cell_gated *gated, uint32_t units)
{
    gated->panels = (gated->hidden + units - 1) / units;
    gated->columns = cell_gated_gates(gated->kind) * units;
    enum base_status status = pack_rows(gated, units);
    if (status != BASE_OK) {
        cell_gated_release(gated);
    }
    return status;
}

/* ---- Gated cells: weights ------------------------------------------------------------------- */

/* One part's matrix on its way. */
struct matrix {
    struct cell_gated *gated;
    const struct cell_packing *how;
    const float *weights;
    uint32_t part, terms;
    uint32_t words; /* terms / word_terms, rounded up */
};

/* One column of the weights: of these `columns` that its panel has, number `at`. */
struct column {
    size_t panel, columns, at;
};

static struct column weight_column(const struct cell_gated *gated, uint32_t gate, uint32_t unit)
{
    const uint32_t units = panel_units(gated);
    const uint32_t panel = unit / units;
    const bool is_narrow = cell_gated_is_narrow(gated, panel);
    const size_t stride = is_narrow ? gated->hidden - panel * units : units;
    return (struct column){.panel = panel,
                           .columns = is_narrow ? gated->narrow : gated->columns,
                           .at = gate * stride + unit % units};
}

/* Where the panel's weights begin, of which each column has so many elements. */
static size_t panel_at(const struct matrix *m, const struct column *column, size_t elements)
{
    return column->panel * elements * m->gated->columns;
}

/* Where the elements of a panel's column are: the first, and how far from one to the next. */
struct elements {
    size_t first, stride;
};

/* Of column number `at` of these `columns`. */
static struct elements elements_of(const struct cell_packing *how, uint32_t terms, size_t columns,
                                   size_t at)
{
    const size_t wide = (size_t)CELL_STRIP_VECTORS * how->lanes;
    const size_t strips = how->has_strips ? columns / wide : 1;
    if (strips < 2) {
        return (struct elements){.first = at, .stride = columns};
    }
    const size_t last = (strips - 1) * wide;
    const size_t strip = at < last ? at / wide * wide : last;
    return (struct elements){.first = strip * terms + at - strip,
                             .stride = strip < last ? wide : columns - last};
}

static void pack_fp32(const struct matrix *m, const float *row, const struct column *column)
{
    const struct elements at = elements_of(m->how, m->terms, column->columns, column->at);
    float *to = (float *)m->gated->packed[m->part] + panel_at(m, column, m->terms) + at.first;
    for (uint32_t k = 0; k < m->terms; k++) {
        to[k * at.stride] = row[k];
    }
}

/* Of two neighbouring vectors the lanes lie side by side, the first vector's in the lower half of a
 * word; a last vector without a neighbour lies as it is. */
static void pack_bf16(const struct matrix *m, const float *row, const struct column *column)
{
    size_t lanes = m->how->lanes;
    size_t vector = column->at / lanes;
    size_t place = (vector | 1) < column->columns / lanes
                       ? vector / 2 * 2 * lanes + 2 * (column->at % lanes) + vector % 2
                       : column->at;
    const struct elements at = elements_of(m->how, m->terms, column->columns, place);
    uint16_t *to = (uint16_t *)m->gated->packed[m->part] + panel_at(m, column, m->terms) + at.first;
    for (uint32_t k = 0; k < m->terms; k++) {
        to[k * at.stride] = cell_bf16_factor(row[k]);
    }
}

/* Two terms of a column in a word, the first in its upper half, as what it is multiplied with has
 * them. A last term alone stands beside -0: times the row's 0 it adds -0, which changes no sum. */
static void pack_bf16_words(const struct matrix *m, const float *row, const struct column *column)
{
    uint32_t *to =
        (uint32_t *)m->gated->packed[m->part] + panel_at(m, column, m->words) + column->at;
    for (uint32_t k = 0; k < m->terms; k += 2) {
        uint32_t second = k + 1 < m->terms ? cell_bf16_factor(row[k + 1]) : 0x8000u;
        to[k / 2 * column->columns] = cell_bf16_pair((uint16_t)second, cell_bf16_factor(row[k]));
    }
}

/* The terms of a word lie side by side. An offset takes out what 128 more in each x adds; like the
 * sums it may pass the ends of int32 on the way. */
static void pack_int8(const struct matrix *m, const float *row, const struct column *column)
{
    size_t per = m->how->word_terms;
    float scale = cell_int8_scale(m->terms, row);
    int8_t *to =
        (int8_t *)m->gated->packed[m->part] + (panel_at(m, column, m->words) + column->at) * per;
    uint32_t offset = 0;
    for (uint32_t k = 0; k < m->terms; k++) {
        int8_t weight = cell_int8_of(row[k], scale);
        to[k / per * column->columns * per + k % per] = weight;
        offset -= 128u * (uint32_t)(int32_t)weight;
    }
    const size_t at = panel_at(m, column, 1) + column->at;
    m->gated->scales[m->part][at] = scale;
    m->gated->offsets[m->part][at] = m->how->has_offset ? offset : 0;
}

/* Row `gate * hidden + unit` of the matrix becomes one column of the unit's panel. */
static void pack_matrix(const struct matrix *m)
{
    const struct cell_gated *gated = m->gated;
    for (uint32_t gate = 0; gate < cell_gated_gates(gated->kind); gate++) {
        for (uint32_t unit = 0; unit < gated->hidden; unit++) {
            const float *row = m->weights + ((size_t)gate * gated->hidden + unit) * m->terms;
            const struct column column = weight_column(gated, gate, unit);
            if (gated->precision == CELL_FP32) {
                pack_fp32(m, row, &column);
            } else if (gated->precision == CELL_BF16 && m->how->word_terms == 0) {
                pack_bf16(m, row, &column);
            } else if (gated->precision == CELL_BF16) {
                pack_bf16_words(m, row, &column);
            } else {
                pack_int8(m, row, &column);
            }
        }
    }
}

static enum base_status alloc_matrix(const struct matrix *m)
{
    struct cell_gated *gated = m->gated;
    bool is_int8 = gated->precision == CELL_INT8;
    size_t terms = m->words > 0 ? (size_t)m->words * m->how->word_terms : m->terms;
    const size_t last = gated->narrow > 0 ? gated->narrow : gated->columns;
    const size_t columns = (size_t)(gated->panels - 1) * gated->columns + last;
    const size_t behind = (size_t)m->how->words_behind * m->how->word_terms * gated->columns;
    size_t weights = 0;
    size_t bytes = 0;
    if (!base_size_mul(columns, terms, &weights) || !base_size_add(weights, behind, &weights) ||
        !base_size_mul(weights, cell_precision_bytes(gated->precision), &bytes)) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    gated->packed[m->part] = base_alloc_large(bytes);
    if (is_int8) {
        gated->scales[m->part] = alloc_columns(gated);
        gated->offsets[m->part] = alloc_columns(gated);
    }
    bool has_all =
        gated->packed[m->part] != NULL &&
        (!is_int8 || (gated->scales[m->part] != NULL && gated->offsets[m->part] != NULL));
    return has_all ? BASE_OK : BASE_RESOURCE_EXHAUSTED;
}

/* Columns of the narrow last panel; 0: it is as wide as the others. */
static uint32_t narrow_columns(const struct cell_gated *gated, const struct cell_packing *how)
{
    if (!how->may_narrow) {
        return 0;
    }
    const uint32_t units = gated->hidden - (gated->panels - 1) * how->units;
    const uint32_t columns = round_up(units * cell_gated_gates(gated->kind), how->lanes);
    return columns < gated->columns ? columns : 0;
}

enum base_status cell_gated_pack(struct cell_gated *gated, const struct cell_packing *how)
{
    BASE_TRY(cell_gated_pack_biases(gated, how->units));
    gated->narrow = narrow_columns(gated, how);
    for (uint32_t part = 0; part < CELL_GATED_PARTS; part++) {
        struct matrix m = {.gated = gated,
                           .how = how,
                           .weights = cell_gated_given(gated, part),
                           .part = part,
                           .terms = cell_gated_terms(gated, part)};
        m.words = how->word_terms == 0 ? 0 : (m.terms + how->word_terms - 1) / how->word_terms;
        if (m.terms == 0) {
            continue;
        }
        if (alloc_matrix(&m) != BASE_OK) {
            cell_gated_release(gated);
            return BASE_RESOURCE_EXHAUSTED;
        }
        pack_matrix(&m);
    }
    return BASE_OK;
}

/* ---- LINEAR ---- */

/* Zeroed bias and weights, each on a cache line. */
static enum base_status alloc_panels(struct cell_linear *linear, size_t columns)
{
    size_t floats = 0;
    size_t bytes = 0;
    if (!base_size_mul(columns, linear->inputs, &floats) ||
        !base_size_mul(floats, sizeof(float), &bytes)) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    linear->bias = base_alloc_aligned(columns * sizeof(float), BASE_CACHE_LINE);
    linear->packed = base_alloc_large(bytes);
    if (linear->bias == NULL || linear->packed == NULL) {
        cell_linear_release(linear);
        return BASE_RESOURCE_EXHAUSTED;
    }
    return BASE_OK;
}

/* The panel of the columns from `first` on, `wide` with what fills it up. */
static void pack_panel(const struct cell_linear *linear, const struct cell_packing *how,
                       uint32_t first, uint32_t wide)
{
    const uint32_t left = linear->outputs - first;
    const uint32_t filled = left < wide ? left : wide;
    float *panel = linear->packed + (size_t)first * linear->inputs;
    for (uint32_t at = 0; at < filled; at += how->lanes) {
        const struct elements to = elements_of(how, linear->inputs, wide, at);
        const size_t bytes = (filled - at < how->lanes ? filled - at : how->lanes) * sizeof(float);
        for (size_t k = 0; k < linear->inputs; k++) {
            memcpy(panel + to.first + k * to.stride, linear->w + k * linear->outputs + first + at,
                   bytes);
        }
    }
}

enum base_status cell_linear_pack(struct cell_linear *linear, const struct cell_packing *how)
{
    const uint32_t columns = how->units;
    const uint32_t last = (linear->outputs - 1) / columns * columns;
    linear->panels = last / columns + 1;
    linear->last_columns = round_up(linear->outputs - last, how->lanes);
    BASE_TRY(alloc_panels(linear, (size_t)last + linear->last_columns));
    for (uint32_t first = 0; first <= last; first += columns) {
        pack_panel(linear, how, first, first < last ? columns : linear->last_columns);
    }
    if (linear->b != NULL) {
        memcpy(linear->bias, linear->b, linear->outputs * sizeof(float));
    }
    return BASE_OK;
}

/* ---- LINEAR in fewer bits ---- */

/* [inputs, outputs] to [outputs, inputs], some columns at a time: a line read is used while it is
 * near. */
static void turn(const struct cell_linear *linear, float *out)
{
    const size_t block = BASE_CACHE_LINE / sizeof(float);
    for (size_t first = 0; first < linear->outputs; first += block) {
        const size_t end = first + block < linear->outputs ? first + block : linear->outputs;
        for (size_t k = 0; k < linear->inputs; k++) {
            for (size_t column = first; column < end; column++) {
                out[column * linear->inputs + k] = linear->w[k * linear->outputs + column];
            }
        }
    }
}

enum base_status cell_linear_load_sums(struct cell_linear *linear,
                                       enum base_status (*load)(struct cell_gated *gated))
{
    size_t elements = 0;
    if (!base_size_mul(linear->inputs, linear->outputs, &elements)) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    float *turned = base_alloc_array(elements, sizeof(*turned));
    if (turned == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    turn(linear, turned);
    linear->sums = (struct cell_gated){.kind = CELL_GATED_SUM,
                                       .precision = linear->precision,
                                       .inputs = linear->inputs,
                                       .hidden = linear->outputs,
                                       .w = turned,
                                       .b_w = linear->b};
    enum base_status status = load(&linear->sums);
    linear->sums.w = NULL; // in fewer bits it is a copy that is read
    linear->panels = linear->sums.panels;
    base_free(turned);
    return status;
}

struct cell_gated_step cell_linear_sums_step(const struct cell_linear_rows *rows)
{
    return (struct cell_gated_step){.gated = &rows->linear->sums,
                                    .n_rows = rows->n_rows,
                                    .panel_first = rows->panel_first,
                                    .panel_end = rows->panel_end,
                                    .x = rows->x,
                                    .out = rows->out,
                                    .scratch = rows->scratch};
}
