/* Packing for one-SM lanes; see lane_pack.h. Cost: one pass over the weights. */
#include "cells/cuda/lane_pack.h"

#include "base/assert.h"
#include "cells/bf16.h"
#include "cells/cuda/lane_shared.h"

/* The menu, smallest first. */
static const struct cell_sm_kernel kernels[] = {
    {"cell_sm_lstm__f32_64", "cell_sm_gru__f32_64", 64, false},
    {"cell_sm_lstm__bf16_64", "cell_sm_gru__bf16_64", 64, true},
    {"cell_sm_lstm__bf16_128", "cell_sm_gru__bf16_128", 128, true},
};

enum base_status cell_sm_choose(const struct cell_gated *gated, bool is_given,
                                const struct cell_sm_kernel **out, struct base_error *error)
{
    const bool is_gru = gated->kind == CELL_GATED_GRU;
    if (!is_gru && gated->kind != CELL_GATED_LSTM) {
        return base_fail(error, BASE_UNIMPLEMENTED, "a one-SM lane runs LSTM and GRU only");
    }
    if (gated->precision == CELL_INT8) {
        return base_fail(error, BASE_UNIMPLEMENTED, "a one-SM lane has no int8 weights");
    }
    if (gated->p != NULL || gated->feedback != gated->hidden) {
        return base_fail(error, BASE_UNIMPLEMENTED,
                         "a one-SM lane runs no LSTM with peepholes or a projection");
    }
    if (!is_given && (gated->inputs == 0 || gated->inputs > CELL_SM_INPUTS_MAX)) {
        return base_fail(error, BASE_UNIMPLEMENTED, "a one-SM lane takes 1 to %u inputs, not %u",
                         CELL_SM_INPUTS_MAX, gated->inputs);
    }
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        if (kernels[i].is_bf16 == (gated->precision == CELL_BF16) &&
            gated->hidden <= kernels[i].units) {
            *out = &kernels[i];
            return BASE_OK;
        }
    }
    return base_fail(error, BASE_UNIMPLEMENTED, "%u units in %s do not fit one SM", gated->hidden,
                     cell_precision_name(gated->precision));
}

struct cell_sm_layout cell_sm_layout_of(const struct cell_gated *gated,
                                        const struct cell_sm_kernel *kernel, bool is_given)
{
    const struct cell_sm_shape shape = {.kind = gated->kind == CELL_GATED_GRU ? CELL_SM_GRU
                                                                              : CELL_SM_LSTM,
                                        .max_units = kernel->units,
                                        .is_bf16 = kernel->is_bf16,
                                        .inputs = is_given ? 0 : gated->inputs};
    return cell_sm_layout(&shape);
}

uint32_t cell_sm_threads(const struct cell_sm_layout *layout)
{
    return (layout->warps + 2) * CELL_WARP; // and the dispatcher's and the reporter's
}

uint32_t cell_sm_shared_bytes(const struct cell_sm_kernel *kernel,
                              const struct cell_sm_layout *layout)
{
    const size_t value_bytes = kernel->is_bf16 ? 2 : 4;
    return (uint32_t)CELL_SM_FIXED_BYTES(kernel->units, value_bytes) + layout->shared_bytes;
}

/* ---- Weights by column ---- */

struct packing {
    const struct cell_gated *gated;
    struct cell_sm_layout layout;
    uint32_t max_units;
    bool is_late; /* R, else W */
};

/* Whether a column of a unit has a weight for a term, and which. */
static bool find_weight(const struct packing *how, uint32_t column, uint32_t unit, uint32_t k,
                        float *out)
{
    const struct cell_gated *gated = how->gated;
    const uint32_t part = how->is_late ? 1 : 0;
    const uint32_t terms = cell_gated_terms(gated, part);
    const uint32_t gate = cell_column_gate(cell_gated_gates(gated->kind), column, how->is_late);
    if (gate == CELL_COLUMNS || unit >= gated->hidden || k >= terms) {
        return false;
    }
    *out = cell_gated_given(gated, part)[((size_t)gate * gated->hidden + unit) * terms + k];
    return true;
}

/* What fills up adds -0 x 0 = -0 to a sum, which leaves its bits alone. */
static float weight_f32(const struct packing *how, uint32_t column, uint32_t unit, uint32_t k)
{
    float weight = -0.0f;
    (void)find_weight(how, column, unit, k, &weight);
    return weight;
}

static uint16_t weight_bf16(const struct packing *how, uint32_t column, uint32_t unit, uint32_t k)
{
    float weight = 0.0f;
    (void)find_weight(how, column, unit, k, &weight);
    return cell_bf16_round(weight);
}

/* ---- fp32 ---- */

static void pack_f32(struct packing *how, uint8_t *to)
{
    const uint32_t threads = how->layout.warps * CELL_WARP;
    float *late = (float *)(void *)to;
    float *early = (float *)(void *)(to + how->layout.early);
    for (uint32_t thread = 0; thread < threads; thread++) {
        const uint32_t column = cell_fma_column(thread);
        const uint32_t unit = cell_fma_unit(thread);
        how->is_late = true;
        for (uint32_t k = 0; k < how->max_units; k++) {
            late[(size_t)k * threads + thread] = weight_f32(how, column, unit, k);
        }
        how->is_late = false;
        for (uint32_t k = 0; k < how->layout.k_inputs; k++) {
            early[((size_t)(k / 4) * threads + thread) * 4 + k % 4] =
                weight_f32(how, column, unit, k);
        }
    }
}

/* ---- bf16 ---- */

/* Register i of A of a thread of a warp, for tile `tile` of the group that begins with unit
 * `first`, terms from 16 tile_k on. */
static uint32_t register_a(const struct packing *how, uint32_t first, uint32_t tile,
                           uint32_t tile_k, uint32_t thread_and_i)
{
    const uint32_t thread = thread_and_i / 4;
    const uint32_t i = thread_and_i % 4;
    const uint32_t row = cell_mma_a_row(thread, i);
    const uint32_t column = cell_mma_gate(tile, row);
    const uint32_t unit = first + row % CELL_MMA_UNITS;
    const uint32_t k = tile_k * CELL_MMA_K + cell_mma_a_k(thread, i);
    return cell_bf16_pair(weight_bf16(how, column, unit, k), weight_bf16(how, column, unit, k + 1));
}

/* [group][tile][k tile][thread] of 4 registers, of k tiles from `from` on. */
static void pack_tiles(const struct packing *how, uint32_t from, uint32_t tiles_k, uint32_t *to)
{
    for (uint32_t i = 0; i < how->max_units / CELL_MMA_UNITS * 2; i++) {
        for (uint32_t tile_k = 0; tile_k < tiles_k; tile_k++) {
            for (uint32_t r = 0; r < CELL_WARP * 4; r++) {
                to[((size_t)i * tiles_k + tile_k) * CELL_WARP * 4 + r] =
                    register_a(how, i / 2 * CELL_MMA_UNITS, i % 2, from + tile_k, r);
            }
        }
    }
}

/* [word][thread that computes]. */
static void pack_registers(const struct packing *how, uint32_t *to)
{
    const uint32_t kept = how->layout.kept;
    const uint32_t threads = how->layout.warps * CELL_WARP;
    const uint32_t words = how->layout.groups * 2 * kept * 4;
    for (uint32_t thread = 0; thread < threads; thread++) {
        const uint32_t warp = thread / CELL_WARP;
        for (uint32_t word = 0; word < words; word++) {
            const uint32_t i = word / 4 / kept; // tile of the warp's groups
            const uint32_t group = warp * how->layout.groups + i / 2;
            to[(size_t)word * threads + thread] =
                register_a(how, group * CELL_MMA_UNITS, i % 2, word / 4 % kept,
                           thread % CELL_WARP * 4 + word % 4);
        }
    }
}

static void pack_bf16(struct packing *how, uint8_t *to)
{
    const struct cell_sm_layout *layout = &how->layout;
    how->is_late = true;
    pack_registers(how, (uint32_t *)(void *)to);
    pack_tiles(how, layout->kept, how->max_units / CELL_MMA_K - layout->kept,
               (uint32_t *)(void *)(to + layout->rest));
    how->is_late = false;
    pack_tiles(how, 0, layout->k_inputs / CELL_MMA_K, (uint32_t *)(void *)(to + layout->early));
}

/* ---- Biases ---- */

/* What a sum starts from: as cell_gated.bias, and late_bias in the last column of a GRU. */
static float bias_of(const struct cell_gated *gated, uint32_t column, uint32_t unit)
{
    const bool is_gru = gated->kind == CELL_GATED_GRU;
    const size_t gate = is_gru && column == CELL_COLUMN_LATE ? 2 : column;
    const size_t at = gate * gated->hidden + unit;
    const float early = gated->b_w == NULL ? 0.0f : gated->b_w[at];
    const float late = gated->b_r == NULL ? 0.0f : gated->b_r[at];
    if (is_gru && gate == 2) {
        return column == CELL_COLUMN_LATE ? late : early;
    }
    return gated->b_r == NULL ? early : early + late;
}

void cell_sm_pack(const struct cell_gated *gated, const struct cell_sm_kernel *kernel,
                  bool is_given, uint8_t *to)
{
    struct packing how = {.gated = gated,
                          .layout = cell_sm_layout_of(gated, kernel, is_given),
                          .max_units = kernel->units};
    base_assert(gated->hidden <= kernel->units);
    float *biases = (float *)(void *)(to + how.layout.biases);
    for (uint32_t column = 0; column < CELL_COLUMNS; column++) {
        for (uint32_t unit = 0; unit < kernel->units; unit++) {
            biases[column * kernel->units + unit] =
                unit < gated->hidden ? bias_of(gated, column, unit) : 0.0f;
        }
    }
    if (kernel->is_bf16) {
        pack_bf16(&how, to);
    } else {
        pack_f32(&how, to);
    }
}
