/* Sums of a one-SM lane in bf16: a part of lane_body.h, which has its macros.
 *
 * Weights are the A of mma.m16n8k16, 8 rows of the batch its B, sums in fp32 (fragment.h). A warp
 * has CELL_SM_WARP_GROUPS times 8 units, a thread all columns of one unit of each, for two rows. A
 * sum takes x before h, 16 terms at a time; in which order those 16 are added is the unit's own,
 * the same for every row. */
#include "cells/cuda/lane_shared.h"

#ifdef CELL_SM_UNITS

/* What a thread keeps of the weights. */
struct CELL_SM_NAME(own) {
    uint32_t late[CELL_SM_LATE_WORDS];
};

/* Sums of a group of units: of two tiles. `early` is a GRU's n over x, for two rows. */
struct CELL_SM_NAME(sums) {
    float tiles[2][4];
    float early[2];
};

CELL_BLOCK_FN uint32_t CELL_SM_NAME(unit)(uint32_t thread, uint32_t group)
{
    return cell_mma_unit(thread / CELL_WARP, CELL_SM_WARP_GROUPS, group, thread % CELL_WARP);
}

/* A constant, once it is inlined. */
CELL_BLOCK_FN uint32_t CELL_SM_NAME(kept)(const struct CELL_SM_NAME(math) * m)
{
    return cell_sm_kept(CELL_SM_UNITS, m->is_lstm);
}

CELL_BLOCK_FN void CELL_SM_NAME(load_own)(const struct CELL_SM_NAME(math) * m,
                                          struct CELL_SM_NAME(own) * own)
{
    const uint32_t *late = (const uint32_t *)(const void *)m->args->weights;
    CELL_BLOCK_UNROLL
    for (uint32_t i = 0; i < 2 * CELL_SM_WARP_GROUPS * CELL_SM_NAME(kept)(m) * 4; i++) {
        own->late[i] = cell_block_load_u32(&late[i * CELL_SM_MATH_THREADS + m->thread]);
    }
}

/* Registers of B: 16 terms of 8 rows of a tile. */
CELL_BLOCK_FN void CELL_SM_NAME(load_b)(const uint16_t *rows, uint32_t pitch, uint32_t k,
                                        uint32_t b[2])
{
    const uint32_t thread = cell_warp_lane();
    const uint16_t *row = &rows[cell_mma_b_column(thread) * pitch + k];
    CELL_BLOCK_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        b[i] = cell_block_load_u32((const uint32_t *)(const void *)&row[cell_mma_b_k(thread, i)]);
    }
}

/* What the sums of a group start from: biases, or the sums over x that came computed. */
CELL_BLOCK_FN void CELL_SM_NAME(start)(const struct CELL_SM_NAME(math) * m, uint32_t unit,
                                       uint32_t first, uint32_t step,
                                       struct CELL_SM_NAME(sums) * sums)
{
    const uint32_t thread = cell_warp_lane();
    CELL_BLOCK_UNROLL
    for (uint32_t tile = 0; tile < 2; tile++) {
        CELL_BLOCK_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t column = cell_mma_gate(tile, cell_mma_c_row(0, i));
            const bool is_given =
                m->args->inputs == 0 && (m->is_lstm || column != CELL_COLUMN_LATE);
            sums->tiles[tile][i] =
                is_given ? CELL_SM_NAME(given_sum)(m, first + cell_mma_c_column(thread, i), step,
                                                   column, unit)
                         : CELL_SM_NAME(bias)(m, column, unit);
        }
    }
}

/* Between x and h. A GRU's n over x is complete, and n over h begins: what x brought into its sums,
 * and what h will bring into those of n over x, is 0 times something that need not be finite. */
CELL_BLOCK_FN void CELL_SM_NAME(turn)(const struct CELL_SM_NAME(math) * m, uint32_t unit,
                                      struct CELL_SM_NAME(sums) * sums)
{
    CELL_BLOCK_UNROLL
    for (uint32_t row = 0; row < 2; row++) {
        sums->early[row] = sums->tiles[1][row];
        if (!m->is_lstm) {
            sums->tiles[1][row + 2] = CELL_SM_NAME(bias)(m, CELL_COLUMN_LATE, unit);
        }
    }
}

/* Registers of A from shared memory, where tiles of a unit's group have tiles_k tiles each along k.
 */
CELL_BLOCK_FN struct cell_u32x4 CELL_SM_NAME(load_a)(const struct CELL_SM_NAME(math) * m,
                                                     const struct cell_u32x4 *weights, uint32_t i,
                                                     uint32_t tiles_k, uint32_t tile_k)
{
    const uint32_t tile = m->thread / CELL_WARP * CELL_SM_WARP_GROUPS * 2 + i;
    return cell_block_load_u32x4(
        &weights[(tile * tiles_k + tile_k) * CELL_WARP + cell_warp_lane()]);
}

/* Terms over x of all groups. */
CELL_BLOCK_FN void CELL_SM_NAME(add_x)(const struct CELL_SM_NAME(math) * m, uint32_t first,
                                       uint32_t step,
                                       struct CELL_SM_NAME(sums) sums[CELL_SM_WARP_GROUPS])
{
    const struct cell_u32x4 *early =
        CELL_SM_NAME(weights_of)(m->shared) +
        CELL_SM_GROUPS * 2 * (CELL_SM_LATE_TILES - CELL_SM_NAME(kept)(m)) * CELL_WARP;
    const uint32_t tiles_k = m->k_inputs / CELL_MMA_K;
    CELL_BLOCK_ROLLED
    for (uint32_t tile_k = 0; tile_k < tiles_k; tile_k++) {
        uint32_t b[2];
        CELL_SM_NAME(load_b)
        (&m->shared->x[step % 2][first * CELL_SM_X_PITCH], CELL_SM_X_PITCH, tile_k * CELL_MMA_K, b);
        CELL_BLOCK_UNROLL
        for (uint32_t i = 0; i < 2 * CELL_SM_WARP_GROUPS; i++) {
            const struct cell_u32x4 a = CELL_SM_NAME(load_a)(m, early, i, tiles_k, tile_k);
            cell_warp_mma(sums[i / 2].tiles[i % 2], a.v, b);
        }
    }
}

/* And those over h: first those whose weights are in registers. */
CELL_BLOCK_FN void CELL_SM_NAME(add_h)(const struct CELL_SM_NAME(math) * m, const uint32_t *late,
                                       uint32_t first, uint32_t step,
                                       struct CELL_SM_NAME(sums) sums[CELL_SM_WARP_GROUPS])
{
    const uint16_t *h = &m->shared->h[step % 2][first * CELL_SM_H_PITCH];
    const uint32_t kept = CELL_SM_NAME(kept)(m);
    uint32_t b[2];
    CELL_BLOCK_UNROLL
    for (uint32_t tile_k = 0; tile_k < kept; tile_k++) {
        CELL_SM_NAME(load_b)(h, CELL_SM_H_PITCH, tile_k * CELL_MMA_K, b);
        CELL_BLOCK_UNROLL
        for (uint32_t i = 0; i < 2 * CELL_SM_WARP_GROUPS; i++) {
            cell_warp_mma(sums[i / 2].tiles[i % 2], &late[(i * kept + tile_k) * 4], b);
        }
    }
    CELL_BLOCK_UNROLL
    for (uint32_t tile_k = 0; tile_k < CELL_SM_LATE_TILES - kept; tile_k++) {
        CELL_SM_NAME(load_b)(h, CELL_SM_H_PITCH, (kept + tile_k) * CELL_MMA_K, b);
        CELL_BLOCK_UNROLL
        for (uint32_t i = 0; i < 2 * CELL_SM_WARP_GROUPS; i++) {
            const struct cell_u32x4 a = CELL_SM_NAME(load_a)(m, CELL_SM_NAME(weights_of)(m->shared),
                                                             i, CELL_SM_LATE_TILES - kept, tile_k);
            cell_warp_mma(sums[i / 2].tiles[i % 2], a.v, b);
        }
    }
}

/* Row `row` of the thread's two. */
CELL_BLOCK_FN void CELL_SM_NAME(columns)(const struct CELL_SM_NAME(math) * m,
                                         const struct CELL_SM_NAME(sums) * sums, uint32_t row,
                                         float columns[CELL_COLUMNS])
{
    columns[0] = sums->tiles[0][row];
    columns[1] = sums->tiles[0][row + 2];
    columns[2] = m->is_lstm ? sums->tiles[1][row] : sums->early[row];
    columns[3] = sums->tiles[1][row + 2];
}

/* 8 rows from `first` on. */
CELL_BLOCK_FN void CELL_SM_NAME(chunk)(const struct CELL_SM_NAME(math) * m,
                                       const struct CELL_SM_NAME(own) * own, uint32_t first,
                                       uint32_t step)
{
    struct CELL_SM_NAME(sums) sums[CELL_SM_WARP_GROUPS];
    float old[CELL_SM_WARP_GROUPS][2];
    const uint32_t row = first + cell_mma_c_column(cell_warp_lane(), 0);
    CELL_BLOCK_UNROLL
    for (uint32_t group = 0; group < CELL_SM_WARP_GROUPS; group++) {
        const uint32_t unit = CELL_SM_NAME(unit)(m->thread, group);
        CELL_SM_NAME(start)(m, unit, first, step, &sums[group]);
        CELL_BLOCK_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            old[group][i] = m->is_lstm ? CELL_SM_NAME(old)(m, row + i, unit, step) : 0.0f;
        }
    }
    CELL_SM_NAME(add_x)(m, first, step, sums);
    CELL_BLOCK_UNROLL
    for (uint32_t group = 0; group < CELL_SM_WARP_GROUPS; group++) {
        CELL_SM_NAME(turn)(m, CELL_SM_NAME(unit)(m->thread, group), &sums[group]);
    }
    CELL_SM_NAME(add_h)(m, own->late, first, step, sums);
    CELL_BLOCK_UNROLL
    for (uint32_t group = 0; group < CELL_SM_WARP_GROUPS; group++) {
        CELL_BLOCK_UNROLL
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t unit = CELL_SM_NAME(unit)(m->thread, group);
            float columns[CELL_COLUMNS];
            CELL_SM_NAME(columns)(m, &sums[group], i, columns);
            // c comes from far, and was asked for before the sums; h is near.
            const float before =
                m->is_lstm ? old[group][i] : CELL_SM_NAME(old)(m, row + i, unit, step);
            CELL_SM_NAME(update)(m, row + i, unit, step, columns, before);
        }
    }
}

CELL_BLOCK_FN void CELL_SM_NAME(step)(const struct CELL_SM_NAME(math) * m,
                                      const struct CELL_SM_NAME(own) * own, uint32_t step)
{
    CELL_BLOCK_ROLLED
    for (uint32_t first = 0; first < m->n_rows; first += CELL_MMA_N) {
        bool is_wanted = false;
        for (uint32_t row = first; row < first + CELL_MMA_N; row++) {
            is_wanted = is_wanted || CELL_SM_NAME(is_active)(m, row, step);
        }
        if (is_wanted) {
            CELL_SM_NAME(chunk)(m, own, first, step);
        }
    }
}

#endif
