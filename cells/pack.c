/* Packing: weights copied once, at load, into the order in which a kernel reads them (drawn in
 * docs/kernels.md), and the kernels' choice. Any thread, over the caller's memory. Cost: one pass
 * over the weights, read in their own order. */
#include "cells/kernels.h"

#include "base/checked.h"
#include "base/mem.h"

#include <string.h>

void cell_lstm_release(struct cell_lstm *lstm)
{
    base_free(lstm->bias);
    base_free(lstm->packed);
    lstm->bias = NULL;
    lstm->packed = NULL;
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
    *packed = base_alloc_aligned(bytes, BASE_CACHE_LINE);
    if (*bias == NULL || *packed == NULL) {
        base_free(*bias);
        base_free(*packed);
        *bias = NULL;
        *packed = NULL;
        return BASE_RESOURCE_EXHAUSTED;
    }
    return BASE_OK;
}

/* Row `gate * hidden + unit` of W and R becomes one column of the unit's panel. */
static void pack_unit(struct cell_lstm *lstm, uint32_t gate, uint32_t unit, uint32_t units)
{
    uint32_t inputs = lstm->inputs;
    uint32_t hidden = lstm->hidden;
    size_t row = (size_t)gate * hidden + unit;
    size_t columns = 4 * (size_t)units;
    size_t column = (size_t)gate * units + unit % units;
    size_t panel = unit / units;
    float *to = lstm->packed + panel * ((size_t)inputs + hidden) * columns + column;
    for (uint32_t k = 0; k < inputs; k++) {
        to[k * columns] = lstm->w[row * inputs + k];
    }
    to += inputs * columns;
    for (uint32_t k = 0; k < hidden; k++) {
        to[k * columns] = lstm->r[row * hidden + k];
    }
    if (lstm->b != NULL) {
        lstm->bias[panel * columns + column] = lstm->b[row] + lstm->b[4 * (size_t)hidden + row];
    }
}

enum base_status cell_lstm_pack(struct cell_lstm *lstm, uint32_t units)
{
    lstm->panels = (lstm->hidden + units - 1) / units;
    BASE_TRY(alloc_panels(lstm->panels, (uint64_t)lstm->inputs + lstm->hidden, 4 * units,
                          &lstm->bias, &lstm->packed));
    for (uint32_t gate = 0; gate < 4; gate++) {
        for (uint32_t unit = 0; unit < lstm->hidden; unit++) {
            pack_unit(lstm, gate, unit, units);
        }
    }
    return BASE_OK;
}

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
