/* Packing: weights copied once, at load, into the order in which a kernel reads them (drawn in
 * docs/kernels.md), and the kernels' choice. Any thread, over the caller's memory. Cost: one pass
 * over the weights, read in their own order. */
#include "cells/kernels.h"

#include "base/checked.h"
#include "base/mem.h"

#include <string.h>

uint32_t cell_gated_gates(enum cell_gated_kind kind)
{
    static const uint8_t gates[] = {
        [CELL_GATED_LSTM] = 4,    [CELL_GATED_GRU] = 3,  [CELL_GATED_GRU_RESET] = 2,
        [CELL_GATED_GRU_NEW] = 1, [CELL_GATED_TANH] = 1, [CELL_GATED_RELU] = 1};
    return gates[kind];
}

void cell_gated_release(struct cell_gated *gated)
{
    base_free(gated->bias);
    base_free(gated->late_bias);
    base_free(gated->peepholes);
    base_free(gated->packed[0]);
    base_free(gated->packed[1]);
    gated->bias = gated->late_bias = gated->peepholes = NULL;
    gated->packed[0] = gated->packed[1] = NULL;
}

void cell_linear_release(struct cell_linear *linear)
{
    base_free(linear->bias);
    base_free(linear->packed);
    linear->bias = NULL;
    linear->packed = NULL;
}

/* Zeroed bias [panels * columns] and weights [panels * k * columns], each on a cache line. */
static enum base_status alloc_panels(uint32_t panels, uint64_t k, uint32_t columns, float **bias,
                                     float **packed)
{
    size_t floats = 0;
    size_t bytes = 0;
    *bias = NULL;
    *packed = NULL;
    if (!base_size_mul((size_t)panels * columns, (size_t)k, &floats) ||
        !base_size_mul(floats, sizeof(float), &bytes)) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    *bias = base_alloc_aligned((size_t)panels * columns * sizeof(float), BASE_CACHE_LINE);
    *packed = base_alloc_large(bytes);
    if (*bias == NULL || *packed == NULL) {
        base_free(*bias);
        base_free(*packed);
        *bias = NULL;
        *packed = NULL;
        return BASE_RESOURCE_EXHAUSTED;
    }
    return BASE_OK;
}

/* ---- Gated cells ---- */

/* What a panel of `units` units is made of. */
struct shape {
    uint32_t gates, units;
    size_t columns;
};

/* Row `gate * hidden + unit` of W or R becomes one column of the unit's panel. */
static void pack_matrix(const struct cell_gated *gated, const struct shape *shape,
                        const float *weights, uint32_t terms, float *packed)
{
    for (uint32_t gate = 0; gate < shape->gates; gate++) {
        for (uint32_t unit = 0; unit < gated->hidden; unit++) {
            const float *row = weights + ((size_t)gate * gated->hidden + unit) * terms;
            float *to = packed + (size_t)(unit / shape->units) * terms * shape->columns +
                        (size_t)gate * shape->units + unit % shape->units;
            for (uint32_t k = 0; k < terms; k++) {
                to[k * shape->columns] = row[k];
            }
        }
    }
}

static void pack_biases(struct cell_gated *gated, const struct shape *shape)
{
    bool is_gru = gated->kind == CELL_GATED_GRU;
    for (uint32_t gate = 0; gate < shape->gates; gate++) {
        for (uint32_t unit = 0; unit < gated->hidden; unit++) {
            size_t from = (size_t)gate * gated->hidden + unit;
            size_t at = unit / shape->units * shape->columns + (size_t)gate * shape->units +
                        unit % shape->units;
            if (is_gru && gate == 2) {
                gated->bias[at] = gated->b_w[from];
                gated->late_bias[unit] = gated->b_r[from];
            } else {
                gated->bias[at] = gated->b_w[from] + gated->b_r[from];
            }
        }
    }
}

static enum base_status pack_rows(struct cell_gated *gated, const struct shape *shape)
{
    size_t room = (size_t)gated->panels * shape->units;
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
        pack_biases(gated, shape);
    }
    return BASE_OK;
}

enum base_status cell_gated_pack(struct cell_gated *gated, uint32_t units)
{
    struct shape shape = {.gates = cell_gated_gates(gated->kind), .units = units};
    shape.columns = (size_t)shape.gates * units;
    gated->panels = (gated->hidden + units - 1) / units;
    gated->columns = (uint32_t)shape.columns;
    float *none = NULL;
    enum base_status status =
        alloc_panels(gated->panels, gated->inputs, gated->columns, &gated->bias, &gated->packed[0]);
    if (status == BASE_OK) {
        status =
            alloc_panels(gated->panels, gated->feedback, gated->columns, &none, &gated->packed[1]);
        base_free(none);
    }
    if (status == BASE_OK) {
        status = pack_rows(gated, &shape);
    }
    if (status != BASE_OK) {
        cell_gated_release(gated);
        return status;
    }
    pack_matrix(gated, &shape, gated->w, gated->inputs, gated->packed[0]);
    pack_matrix(gated, &shape, gated->r, gated->feedback, gated->packed[1]);
    return BASE_OK;
}

/* ---- LINEAR ---- */

enum base_status cell_linear_pack(struct cell_linear *linear, uint32_t columns)
{
    linear->panels = (linear->outputs + columns - 1) / columns;
    BASE_TRY(alloc_panels(linear->panels, linear->inputs, columns, &linear->bias, &linear->packed));
    for (uint32_t panel = 0; panel < linear->panels; panel++) {
        uint32_t first = panel * columns;
        uint32_t left = linear->outputs - first;
        size_t bytes = (left < columns ? left : columns) * sizeof(float);
        float *to = linear->packed + (size_t)first * linear->inputs;
        for (uint32_t k = 0; k < linear->inputs; k++) {
            memcpy(to + (size_t)k * columns, linear->w + (size_t)k * linear->outputs + first,
                   bytes);
        }
        if (linear->b != NULL) {
            memcpy(linear->bias + first, linear->b + first, bytes);
        }
    }
    return BASE_OK;
}
