/* Lanes with one step wrong; see fiber_mutants.h. Each replaces a function around the product's
 * code. */
#define CELL_LANE_TRACE
#define CELL_WORD_TRACE
#define CELL_SM_UNITS   16u
#define CELL_SM_IS_BF16 false
#include "tests/cuda/fiber_mutants.h"

#include "cells/cuda/lane_dispatch.h"
#include "cells/cuda/lane_update.h"

/* ---- The counter before the result ---- */

static void count_first(const struct cell_sm_args *args, struct cell_sm_block *block)
{
    for (uint64_t n = 1; cell_sm_wait_done(&block->words, n); n++) {
        const struct cell_sm_order *order = &block->orders[n % 2];
        if (cell_sm_is_first()) {
            cell_lane_complete(&args->lane, cell_block_load_u64(&order->seq));
        }
        cell_sm_write_result(&args->lane, order);
        cell_warp_sync(CELL_SM_SITE_WRITTEN_WARP);
        cell_sm_tell(CELL_SM_SITE_REPORTED_STORE, &block->words.reported, n, CELL_LANE_RELEASE);
    }
    cell_sm_tell(CELL_SM_SITE_REPORTER_STORE, &block->words.reporter, 1, CELL_LANE_RELEASE);
}

#define CELL_SM_NAME(x) x##__counts_first
#define cell_sm_report  count_first
#include "tests/cuda/fiber_lane_body.h"
#undef CELL_SM_NAME
#undef cell_sm_report

/* ---- `ended` before the others have left ---- */

static void end_first(struct cell_sm_dispatcher *d, uint32_t end)
{
    struct cell_sm_words *words = &d->block->words;
    if (end == CELL_LANE_END_FAULT) {
        cell_sm_leave(d, end);
        return;
    }
    if (cell_sm_is_first()) {
        cell_lane_end(&d->args->lane, d->args->launch.number, (enum cell_lane_end)end);
    }
    cell_sm_tell(CELL_SM_SITE_ABORT_STORE, &words->abort, 1, CELL_LANE_RELAXED);
    cell_sm_tell(CELL_SM_SITE_QUIT_STORE, &words->quit, 1, CELL_LANE_RELAXED);
    (void)cell_sm_wait_word(d, CELL_SM_SITE_REPORTER_LOAD, &words->reporter, 1);
    (void)cell_sm_dismiss(d);
}

/* The reporter may be in the middle of a result. */
static void leave_reporter(struct cell_sm_dispatcher *d, uint32_t end)
{
    struct cell_sm_words *words = &d->block->words;
    if (end == CELL_LANE_END_FAULT) {
        cell_sm_leave(d, end);
        return;
    }
    cell_sm_tell(CELL_SM_SITE_ABORT_STORE, &words->abort, 1, CELL_LANE_RELAXED);
    cell_sm_tell(CELL_SM_SITE_QUIT_STORE, &words->quit, 1, CELL_LANE_RELAXED);
    (void)cell_sm_dismiss(d);
    cell_warp_sync(CELL_SM_SITE_ENDS_WARP);
    if (cell_sm_is_first()) {
        cell_lane_end(&d->args->lane, d->args->launch.number, (enum cell_lane_end)end);
    }
}

/* The dispatcher's loop, once more, since it calls what is replaced. */
static void dispatch_until(const struct cell_sm_args *args, struct cell_sm_block *block,
                           uint32_t math_threads,
                           void (*leave)(struct cell_sm_dispatcher *d, uint32_t end))
{
    const uint64_t now_ns = cell_warp_first_u64(cell_block_clock_ns());
    struct cell_sm_dispatcher d = {.args = args,
                                   .block = block,
                                   .math_threads = math_threads,
                                   .next = args->launch.first,
                                   .moved_ns = now_ns,
                                   .idle_from = now_ns};
    uint32_t end = 0;
    while (end == 0) {
        end = cell_sm_turn(&d);
    }
    leave(&d, end);
}

#define CELL_SM_NAME(x) x##__ends_first
#define cell_sm_dispatch(args, block, math_threads)                                                \
    dispatch_until(args, block, math_threads, end_first)
#include "tests/cuda/fiber_lane_body.h"
#undef CELL_SM_NAME
#undef cell_sm_dispatch

#define CELL_SM_NAME(x) x##__reporter_stays
#define cell_sm_dispatch(args, block, math_threads)                                                \
    dispatch_until(args, block, math_threads, leave_reporter)
#include "tests/cuda/fiber_lane_body.h"
#undef CELL_SM_NAME
#undef cell_sm_dispatch

/* ---- State ---- */

static void store_old_copy(const struct cell_sm_place *at, struct cell_sm_state value)
{
    struct cell_sm_place before = *at;
    if (at->step > 0) {
        before.step--;
    }
    cell_sm_store(&before, value);
}

#define CELL_SM_NAME(x) x##__old_copy
#define cell_sm_store   store_old_copy
#include "tests/cuda/fiber_lane_body.h"
#undef CELL_SM_NAME
#undef cell_sm_store

static float trust_row(const struct cell_sm_args *args, const struct cell_sm_order *order,
                       uint32_t row, uint32_t unit, uint32_t step)
{
    (void)step;
    return cell_sm_old_c(args, order, row, unit, 1);
}

#define CELL_SM_NAME(x) x##__trusts_rows
#define cell_sm_old_c   trust_row
#include "tests/cuda/fiber_lane_body.h"
#undef CELL_SM_NAME
#undef cell_sm_old_c

static void drop_last(const struct cell_sm_place *at, struct cell_sm_state value)
{
    if (at->step + 1 < cell_block_load_u32(&at->order->rows[at->row].steps)) {
        cell_sm_store(at, value);
    }
}

#define CELL_SM_NAME(x) x##__drops_last
#define cell_sm_store   drop_last
#include "tests/cuda/fiber_lane_body.h"
