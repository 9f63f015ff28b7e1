/* The math warps of a one-SM lane, and the block's entry. Included for a kernel by a file that has
 * defined
 *
 *   CELL_SM_NAME(x)  x with the kernel's suffix, such as x##__bf16_128
 *   CELL_SM_UNITS    hidden units the kernel has room for: 16, 64 or 128
 *   CELL_SM_IS_BF16  1: h, x and weights bf16, products by mma; 0: floats and multiply-adds
 *
 * and compiled by nvcc (cells/cuda/lane__*.cu) and by the tests' C compiler. Weights over h stay in
 * registers, those over x in shared memory, h and x of the rows in two tiles by parity of the step.
 * Every sum has one order of its terms, whatever rows are beside it. */
#include "cells/cuda/lane_dispatch.h"

#ifdef CELL_SM_UNITS

#    include "cells/cuda/lane_update.h"

#    define CELL_SM_GROUPS (CELL_SM_UNITS / CELL_MMA_UNITS)
#    if CELL_SM_IS_BF16
#        define CELL_SM_WARPS       (CELL_SM_GROUPS < 8 ? CELL_SM_GROUPS : 8)
#        define CELL_SM_WARP_GROUPS (CELL_SM_GROUPS / CELL_SM_WARPS)
#        define CELL_SM_LATE_TILES  (CELL_SM_UNITS / CELL_MMA_K)
#        define CELL_SM_KEPT_MAX                                                                   \
            (CELL_SM_LATE_TILES < CELL_SM_KEPT_LSTM ? CELL_SM_LATE_TILES : CELL_SM_KEPT_LSTM)
#        define CELL_SM_LATE_WORDS (CELL_SM_WARP_GROUPS * 2 * CELL_SM_KEPT_MAX * 4)
typedef uint16_t CELL_SM_NAME(tile);
#    else
#        define CELL_SM_WARPS      (CELL_SM_UNITS * CELL_COLUMNS / CELL_WARP)
#        define CELL_SM_LATE_WORDS CELL_SM_UNITS
typedef float CELL_SM_NAME(tile);
#    endif

#    define CELL_SM_MATH_THREADS (CELL_SM_WARPS * CELL_WARP)
#    define CELL_SM_THREADS      (CELL_SM_MATH_THREADS + 2 * CELL_WARP)
#    define CELL_SM_H_PITCH      CELL_SM_PITCH(CELL_SM_UNITS)
#    define CELL_SM_X_PITCH      CELL_SM_PITCH(CELL_SM_INPUTS_MAX)

/* The rest of the weights over h, and those over x, stand behind it. */
struct CELL_SM_NAME(shared) {
    struct cell_sm_block block;
    alignas(16) float biases[CELL_COLUMNS * CELL_SM_UNITS];
    alignas(16) CELL_SM_NAME(tile) h[2][CELL_SM_ROWS_MAX * CELL_SM_H_PITCH];
    alignas(16) CELL_SM_NAME(tile) x[2][CELL_SM_ROWS_MAX * CELL_SM_X_PITCH];
};

CELL_LANE_STATIC_ASSERT(sizeof(struct CELL_SM_NAME(shared)) ==
                            CELL_SM_FIXED_BYTES(CELL_SM_UNITS, sizeof(CELL_SM_NAME(tile))),
                        "as the host reckons it");
CELL_LANE_STATIC_ASSERT(sizeof(struct CELL_SM_NAME(shared)) % 16 == 0, "weights are aligned");

/* A math thread's view of a run. */
struct CELL_SM_NAME(math) {
    const struct cell_sm_args *args;
    struct CELL_SM_NAME(shared) * shared;
    const struct cell_sm_order *order;
    uint32_t thread;
    uint32_t n_rows;
    uint32_t k_inputs;
    bool is_lstm;
};

CELL_BLOCK_FN void CELL_SM_NAME(put)(CELL_SM_NAME(tile) * to, float value)
{
#    if CELL_SM_IS_BF16
    cell_block_store_u16(to, cell_bf16_round(value));
#    else
    cell_block_store_f32(to, value);
#    endif
}

CELL_BLOCK_FN float CELL_SM_NAME(get)(const CELL_SM_NAME(tile) * from)
{
#    if CELL_SM_IS_BF16
    return cell_bf16_widen(cell_block_load_u16(from));
#    else
    return cell_block_load_f32(from);
#    endif
}

CELL_BLOCK_FN const struct cell_u32x4 *CELL_SM_NAME(weights_of)(const struct CELL_SM_NAME(shared) *
                                                                shared)
{
    return (const struct cell_u32x4 *)(const void *)(shared + 1);
}

CELL_BLOCK_FN float CELL_SM_NAME(bias)(const struct CELL_SM_NAME(math) * m, uint32_t column,
                                       uint32_t unit)
{
    return cell_block_load_f32(&m->shared->biases[column * CELL_SM_UNITS + unit]);
}

/* ---- Rows into the tiles: a warp a row, a thread every 32nd element ---- */

/* h before step 0 of the run; filled up with zeros. */
CELL_BLOCK_FN float CELL_SM_NAME(old_h)(const struct CELL_SM_NAME(math) * m, uint32_t row,
                                        uint32_t unit)
{
    const struct cell_sm_row *from = &m->order->rows[row];
    const uint32_t first_step = cell_block_load_u32(&from->first_step);
    if (unit >= m->args->units) {
        return 0.0f;
    }
    if (first_step == 0) {
        const uint64_t init = cell_block_load_u64(&from->init);
        return init == 0 ? 0.0f : cell_block_load_f32(cell_sm_at(init, 0, unit));
    }
    const uint32_t id = cell_block_load_u32(&m->order->ids[row]);
    const float *h = (const float *)cell_sm_part(m->args, id, CELL_SM_PART_H, first_step);
    return cell_block_load_f32(&h[unit]);
}

CELL_BLOCK_FN void CELL_SM_NAME(load_h)(const struct CELL_SM_NAME(math) * m)
{
    CELL_BLOCK_ROLLED
    for (uint32_t row = m->thread / CELL_WARP; row < m->n_rows; row += CELL_SM_WARPS) {
        CELL_SM_NAME(tile) *to = &m->shared->h[0][row * CELL_SM_H_PITCH];
        CELL_BLOCK_ROLLED
        for (uint32_t unit = cell_warp_lane(); unit < CELL_SM_UNITS; unit += CELL_WARP) {
            CELL_SM_NAME(put)(&to[unit], CELL_SM_NAME(old_h)(m, row, unit));
        }
    }
}

/* x of a step, and asks for the next one's. Nothing to do where x are sums. */
CELL_BLOCK_FN void CELL_SM_NAME(load_x)(const struct CELL_SM_NAME(math) * m, uint32_t step)
{
    const uint32_t inputs = m->args->inputs;
    if (inputs == 0) {
        return;
    }
    CELL_BLOCK_ROLLED
    for (uint32_t row = m->thread / CELL_WARP; row < m->n_rows; row += CELL_SM_WARPS) {
        const struct cell_sm_row *from = &m->order->rows[row];
        if (step >= cell_block_load_u32(&from->steps)) {
            continue;
        }
        CELL_SM_NAME(tile) *to = &m->shared->x[step % 2][row * CELL_SM_X_PITCH];
        const uint64_t x = cell_block_load_u64(&from->x);
        const int64_t stride = (int64_t)cell_block_load_u64((const uint64_t *)&from->x_stride);
        CELL_BLOCK_ROLLED
        for (uint32_t k = cell_warp_lane(); k < m->k_inputs; k += CELL_WARP) {
            const float *at = cell_sm_at(x, step * stride, k);
            CELL_SM_NAME(put)(&to[k], k < inputs ? cell_block_load_f32(at) : 0.0f);
        }
        if (step + 1 < cell_block_load_u32(&from->steps) && cell_warp_lane() * 32 < inputs) {
            cell_block_prefetch(cell_sm_at(x, (step + 1) * stride, cell_warp_lane() * 32));
        }
    }
}

/* The sum over x of a row that came computed: gate `gate` of a unit. */
CELL_BLOCK_FN float CELL_SM_NAME(given_sum)(const struct CELL_SM_NAME(math) * m, uint32_t row,
                                            uint32_t step, uint32_t gate, uint32_t unit)
{
    const struct cell_sm_row *from = &m->order->rows[row];
    const uint32_t steps = row < m->n_rows ? cell_block_load_u32(&from->steps) : 0;
    if (step >= steps || unit >= m->args->units) {
        return 0.0f;
    }
    const uint64_t x = cell_block_load_u64(&from->x);
    const int64_t stride = (int64_t)cell_block_load_u64((const uint64_t *)&from->x_stride);
    const float *at = cell_sm_at(x, step * stride, gate * m->args->units + unit);
    if (step + 1 < steps) {
        cell_block_prefetch(cell_sm_at(x, (step + 1) * stride, gate * m->args->units + unit));
    }
    return cell_block_load_f32(at);
}

/* ---- A unit of a row ---- */

CELL_BLOCK_FN bool CELL_SM_NAME(is_active)(const struct CELL_SM_NAME(math) * m, uint32_t row,
                                           uint32_t step)
{
    return row < m->n_rows && step < cell_block_load_u32(&m->order->rows[row].steps);
}

/* The old value that the gates need: c of an LSTM, h of a GRU. */
CELL_BLOCK_FN float CELL_SM_NAME(old)(const struct CELL_SM_NAME(math) * m, uint32_t row,
                                      uint32_t unit, uint32_t step)
{
    if (unit >= m->args->units || !CELL_SM_NAME(is_active)(m, row, step)) {
        return 0.0f;
    }
    if (m->is_lstm) {
        return cell_sm_old_c(m->args, m->order, row, unit, step);
    }
    return CELL_SM_NAME(get)(&m->shared->h[step % 2][row * CELL_SM_H_PITCH + unit]);
}

CELL_BLOCK_FN void CELL_SM_NAME(update)(const struct CELL_SM_NAME(math) * m, uint32_t row,
                                        uint32_t unit, uint32_t step,
                                        const float sums[CELL_COLUMNS], float old)
{
    if (!CELL_SM_NAME(is_active)(m, row, step)) {
        return;
    }
    struct cell_sm_state value = m->is_lstm ? cell_sm_lstm(sums, old) : cell_sm_gru(sums, old);
#    if CELL_SM_IS_BF16
    value.h = cell_bf16_widen(cell_bf16_round(value.h));
#    endif
    if (unit < m->args->units) {
        const struct cell_sm_place place = {m->args, m->order, row, unit, step, m->is_lstm};
        cell_sm_store(&place, value);
    } else {
        value.h = 0.0f; // what the sums of the next step go over is filled up with zeros
    }
    CELL_SM_NAME(put)(&m->shared->h[(step + 1) % 2][row * CELL_SM_H_PITCH + unit], value.h);
}

#    if CELL_SM_IS_BF16
#        include "cells/cuda/lane_bf16_body.h"
#    else
#        include "cells/cuda/lane_f32_body.h"
#    endif

/* ---- Orders ---- */

/* What thread 0 sees of the dispatcher's words, for all. */
CELL_BLOCK_FN uint32_t CELL_SM_NAME(ask)(const struct cell_sm_words *words, uint64_t n)
{
    if (cell_block_word_load(CELL_SM_SITE_ABORT_LOAD, &words->abort, CELL_LANE_RELAXED) != 0) {
        return CELL_SM_GO_ABORT;
    }
    return cell_block_word_load(CELL_SM_SITE_STOP_LOAD, &words->stop, CELL_LANE_RELAXED) == n
               ? CELL_SM_GO_STOP
               : CELL_SM_GO_ON;
}

/* Runs order n; how many steps, and whether it was aborted. */
CELL_BLOCK_FN uint32_t CELL_SM_NAME(run)(struct CELL_SM_NAME(math) * m,
                                         const struct CELL_SM_NAME(own) * own, uint64_t n,
                                         bool *is_aborted)
{
    struct cell_sm_block *block = &m->shared->block;
    const uint32_t k_steps = cell_block_load_u32(&m->order->k_steps);
    CELL_SM_NAME(load_h)(m);
    CELL_SM_NAME(load_x)(m, 0);
    cell_block_sync(CELL_SM_SITE_ROWS_LOADED, CELL_SM_BARRIER_STEP, CELL_SM_MATH_THREADS);
    uint32_t step = 0;
    uint32_t go = CELL_SM_GO_ON;
    CELL_BLOCK_ROLLED
    while (go == CELL_SM_GO_ON && step < k_steps) {
        if (m->thread == 0) {
            cell_block_store_u32(&block->go[step % 2], CELL_SM_NAME(ask)(&block->words, n));
            cell_sm_count_step(&block->words);
        }
        if (step + 1 < k_steps) {
            CELL_SM_NAME(load_x)(m, step + 1);
        }
        CELL_SM_NAME(step)(m, own, step);
        cell_block_sync(CELL_SM_SITE_STEP, CELL_SM_BARRIER_STEP, CELL_SM_MATH_THREADS);
        go = cell_block_load_u32(&block->go[step % 2]);
        step++;
    }
    *is_aborted = go == CELL_SM_GO_ABORT && step < k_steps;
    return step;
}

/* All copies of the rows' states, with what fills a row up. */
CELL_BLOCK_FN void CELL_SM_NAME(zero)(const struct CELL_SM_NAME(math) * m)
{
    const struct cell_lane_rows *rows = &m->args->rows;
    CELL_BLOCK_ROLLED
    for (uint32_t row = m->thread / CELL_WARP; row < m->n_rows; row += CELL_SM_WARPS) {
        const uint32_t id = cell_block_load_u32(&m->order->ids[row]);
        CELL_BLOCK_ROLLED
        for (uint32_t i = 0; i < 2 * rows->n_parts; i++) {
            const uint32_t words = rows->parts[i / 2].pitch_bytes / 4;
            uint32_t *to = (uint32_t *)cell_sm_part(m->args, id, i / 2, i % 2);
            for (uint32_t w = cell_warp_lane(); w < words; w += CELL_WARP) {
                cell_block_store_u32(&to[w], 0);
            }
        }
    }
}

/* The math warps' life: order after order. One that was aborted is not done, nor any behind it. */
CELL_BLOCK_FN void CELL_SM_NAME(compute)(struct CELL_SM_NAME(math) * m,
                                         const struct CELL_SM_NAME(own) * own)
{
    struct cell_sm_block *block = &m->shared->block;
    struct cell_sm_words *words = &block->words;
    bool is_aborted = false;
    CELL_BLOCK_ROLLED
    for (uint64_t n = 1;; n++) {
        cell_block_sync(CELL_SM_SITE_ORDER_SYNC, CELL_SM_BARRIER_ORDER,
                        CELL_SM_MATH_THREADS + CELL_WARP);
        if (m->thread == 0) {
            cell_block_word_store(CELL_SM_SITE_TAKEN_STORE, &words->taken, n, CELL_LANE_RELEASE);
        }
        struct cell_sm_order *order = &block->orders[n % 2];
        const uint32_t kind = cell_block_load_u32(&order->kind);
        uint32_t steps_done = 0;
        m->order = order;
        m->n_rows = kind == CELL_SM_ORDER_NONE ? 0 : cell_block_load_u32(&order->n_rows);
        if (kind == CELL_SM_ORDER_QUIT) {
            break;
        }
        if (kind == CELL_SM_ORDER_RUN && !is_aborted) {
            steps_done = CELL_SM_NAME(run)(m, own, n, &is_aborted);
        } else {
            if (kind == CELL_SM_ORDER_ZERO && !is_aborted) {
                CELL_SM_NAME(zero)(m);
            }
            cell_block_sync(CELL_SM_SITE_ZEROED, CELL_SM_BARRIER_STEP, CELL_SM_MATH_THREADS);
        }
        if (m->thread == 0 && !is_aborted) {
            cell_block_store_u32(&order->steps_done, steps_done);
            cell_block_word_store(CELL_SM_SITE_DONE_STORE, &words->done, n, CELL_LANE_RELEASE);
        }
    }
    // ORDER was the last place where all met; behind it nobody touches what is not the block's.
    if (m->thread == 0) {
        cell_block_word_store(CELL_SM_SITE_OUT_STORE, &words->out, 1, CELL_LANE_RELEASE);
    }
}

/* ---- The block ---- */

CELL_BLOCK_FN void CELL_SM_NAME(begin)(const struct CELL_SM_NAME(math) * m,
                                       const struct cell_sm_layout *layout)
{
    void *first_word = &m->shared->block.words;
    uint64_t *words = (uint64_t *)first_word;
    struct cell_u32x4 *to = (struct cell_u32x4 *)(void *)(m->shared + 1);
    const struct cell_u32x4 *from =
        (const struct cell_u32x4 *)(const void *)(m->args->weights + layout->rest);
    const float *biases = (const float *)(const void *)(m->args->weights + layout->biases);
    if (m->thread < sizeof(m->shared->block.words) / sizeof(*words)) {
        cell_block_store_u64(&words[m->thread], 0);
    }
    for (uint32_t i = m->thread; i < CELL_COLUMNS * CELL_SM_UNITS; i += CELL_SM_MATH_THREADS) {
        cell_block_store_f32(&m->shared->biases[i], cell_block_load_f32(&biases[i]));
    }
    for (uint32_t i = m->thread; i < layout->shared_bytes / sizeof(*to);
         i += CELL_SM_MATH_THREADS) {
        cell_block_store_u32x4(&to[i], cell_block_load_u32x4(&from[i]));
    }
}

/* All CELL_SM_THREADS threads of a block; shared: CELL_SM_NAME(shared) and layout.shared_bytes. */
CELL_BLOCK_FN void CELL_SM_NAME(lane)(const struct cell_sm_args *args,
                                      struct CELL_SM_NAME(shared) * shared, enum cell_sm_kind kind)
{
    const struct cell_sm_shape shape = {kind, CELL_SM_UNITS, CELL_SM_IS_BF16, args->inputs};
    const struct cell_sm_layout layout = cell_sm_layout(&shape);
    struct CELL_SM_NAME(math) m;
    m.args = args;
    m.shared = shared;
    m.order = &shared->block.orders[0];
    m.thread = cell_block_thread();
    m.n_rows = 0;
    m.k_inputs = layout.k_inputs;
    m.is_lstm = kind == CELL_SM_LSTM;
    if (m.thread < CELL_SM_MATH_THREADS) {
        struct CELL_SM_NAME(own) own;
        CELL_SM_NAME(begin)(&m, &layout);
        CELL_SM_NAME(load_own)(&m, &own);
        cell_block_sync(CELL_SM_SITE_START, CELL_SM_BARRIER_START, CELL_SM_THREADS);
        CELL_SM_NAME(compute)(&m, &own);
        return;
    }
    cell_block_sync(CELL_SM_SITE_START, CELL_SM_BARRIER_START, CELL_SM_THREADS);
    if (m.thread < CELL_SM_MATH_THREADS + CELL_WARP) {
        cell_sm_dispatch(args, &shared->block, CELL_SM_MATH_THREADS);
    } else {
        cell_sm_report(args, &shared->block);
    }
}

#endif
