/* The two warps of a one-SM lane that do not compute: see lane_shared.h for their place.
 *
 * The dispatcher reads abort, attention and the next slot in one turn, so that one round trip of
 * the bus has all three, and writes what it took into shared memory. It takes a task before the one
 * before it is complete; slots allow that, since a slot is written anew only when its task is
 * settled. It also watches: an order that shows no progress for bound_ns is a fault.
 *
 * The reporter waits for the math warps, in shared memory alone, and releases the counter; so no
 * warp that computes ever waits for a store to cross the bus.
 *
 * All 32 threads of a warp run this together; what one has read all get by shfl. */
#ifndef CELLS_CUDA_LANE_DISPATCH_H
#define CELLS_CUDA_LANE_DISPATCH_H

#include "base/status.h"
#include "cells/cuda/lane_shared.h"

/* Of a nap between two polls. */
#define CELL_SM_REPORTER_NAP_NS   20u
#define CELL_SM_DISPATCHER_NAP_NS 500u

struct cell_sm_dispatcher {
    const struct cell_sm_args *args;
    struct cell_sm_block *block;
    uint32_t math_threads;
    uint64_t next;    /* task */
    uint64_t written; /* orders */
    uint64_t handed;  /* those that the math warps can take */
    uint64_t taken, reported;
    uint32_t end;       /* enum cell_lane_end: nothing more is taken, 0: not yet */
    uint32_t stoppable; /* bit n % 2: order n ends by attention */
    uint64_t beats;     /* of all launches */
    uint64_t progress;  /* of the block, when last looked at */
    uint64_t moved_ns;  /* when it last changed */
    uint64_t idle_from; /* when the last task was reported or the launch began */
};

CELL_BLOCK_FN bool cell_sm_is_first(void)
{
    return cell_warp_lane() == 0;
}

/* A word, read by the first thread, for the warp. */
CELL_BLOCK_FN uint64_t cell_sm_word(uint32_t site, const uint64_t *word, enum cell_lane_order order)
{
    uint64_t value = 0;
    if (cell_sm_is_first()) {
        value = cell_block_word_load(site, word, order);
    }
    return cell_warp_first_u64(value);
}

CELL_BLOCK_FN void cell_sm_tell(uint32_t site, uint64_t *word, uint64_t value,
                                enum cell_lane_order order)
{
    if (cell_sm_is_first()) {
        cell_block_word_store(site, word, value, order);
    }
}

/* ---- The reporter ---- */

/* The order that is done; false: the launch ends instead. */
CELL_BLOCK_FN bool cell_sm_wait_done(struct cell_sm_words *words, uint64_t n)
{
    for (;;) {
        const uint64_t quit = cell_sm_word(CELL_SM_SITE_QUIT_LOAD, &words->quit, CELL_LANE_RELAXED);
        if (cell_sm_word(CELL_SM_SITE_DONE_LOAD, &words->done, CELL_LANE_ACQUIRE) >= n) {
            cell_warp_sync(CELL_SM_SITE_DONE_WARP);
            return true;
        }
        if (quit != 0) {
            return false;
        }
        cell_block_sleep(CELL_SM_REPORTER_NAP_NS);
    }
}

/* A thread a row. */
CELL_BLOCK_FN void cell_sm_write_result(const struct cell_lane *lane,
                                        const struct cell_sm_order *order)
{
    const uint32_t slot = cell_lane_index(lane, cell_block_load_u64(&order->seq));
    const uint32_t row = cell_warp_lane();
    const uint32_t kind = cell_block_load_u32(&order->kind);
    const uint32_t steps_done =
        kind == CELL_SM_ORDER_RUN ? cell_block_load_u32(&order->steps_done) : 0;
    if (kind == CELL_SM_ORDER_RUN && row < cell_block_load_u32(&order->n_rows)) {
        const uint32_t steps = cell_block_load_u32(&order->rows[row].steps);
        CELL_LANE_NOTE(LANE_WRITES_RESULT);
        cell_block_store_u32(&lane->outcomes[slot * lane->rows_max + row],
                             steps < steps_done ? steps : steps_done);
    }
    if (row == 0) {
        CELL_LANE_NOTE(LANE_WRITES_RESULT);
        cell_block_store_u32(&lane->results[slot].status, cell_block_load_u32(&order->status));
        cell_block_store_u32(&lane->results[slot].steps_done, steps_done);
    }
}

CELL_BLOCK_FN void cell_sm_report(const struct cell_sm_args *args, struct cell_sm_block *block)
{
    for (uint64_t n = 1; cell_sm_wait_done(&block->words, n); n++) {
        const struct cell_sm_order *order = &block->orders[n % 2];
        cell_sm_write_result(&args->lane, order);
        cell_warp_sync(CELL_SM_SITE_WRITTEN_WARP);
        if (cell_sm_is_first()) {
            cell_lane_complete(&args->lane, cell_block_load_u64(&order->seq));
        }
        cell_sm_tell(CELL_SM_SITE_REPORTED_STORE, &block->words.reported, n, CELL_LANE_RELEASE);
    }
    cell_sm_tell(CELL_SM_SITE_REPORTER_STORE, &block->words.reporter, 1, CELL_LANE_RELEASE);
}

/* ---- The dispatcher: taking a task ---- */

/* A task's words, each with the thread of its number. */
struct cell_sm_slot {
    uint32_t word;
    uint32_t op, n_rows, k_steps, flags, rows_off;
    uint64_t x_ref;
};

CELL_BLOCK_FN struct cell_sm_slot cell_sm_read_slot(uint32_t word)
{
    struct cell_sm_slot slot;
    const uint32_t op_and_cell = cell_warp_shfl(word, 0);
    const uint32_t rows_and_steps = cell_warp_shfl(word, 1);
    slot.word = word;
    slot.op = op_and_cell & 0xFFFFu;
    slot.n_rows = rows_and_steps & 0xFFFFu;
    slot.k_steps = rows_and_steps >> 16;
    slot.flags = cell_warp_shfl(word, 2);
    slot.rows_off = cell_warp_shfl(word, 3);
    slot.x_ref = cell_warp_shfl(word, 4);
    slot.x_ref |= (uint64_t)cell_warp_shfl(word, 5) << 32;
    return slot;
}

/* Row id of this thread's row, UINT32_MAX: it has none. */
CELL_BLOCK_FN uint32_t cell_sm_row_id(const struct cell_sm_args *args,
                                      const struct cell_sm_slot *slot)
{
    const uint32_t row = cell_warp_lane();
    const uint32_t is_inline =
        cell_warp_shfl(slot->word, CELL_LANE_HEADER_WORDS + row % CELL_LANE_TAGGED_INLINE);
    if (row >= slot->n_rows) {
        return UINT32_MAX;
    }
    if ((slot->flags & CELL_LANE_ROWS_BY_OFFSET) == 0) {
        return is_inline;
    }
    CELL_LANE_NOTE(LANE_READS_OUTSIDE);
    return cell_block_load_u32(&args->lane.row_ids[slot->rows_off + row]);
}

/* Whether the task's rows can be what they are said to be: nothing outside the lane's memory is
 * read, and no row that there is not. */
CELL_BLOCK_FN bool cell_sm_has_rows(const struct cell_sm_args *args,
                                    const struct cell_sm_slot *slot)
{
    const struct cell_lane *lane = &args->lane;
    if ((slot->flags & CELL_LANE_ROWS_BY_OFFSET) == 0) {
        return slot->n_rows <= CELL_LANE_TAGGED_INLINE;
    }
    return slot->n_rows <= CELL_SM_ROWS_MAX && slot->n_rows <= lane->rows_max &&
           slot->rows_off <= lane->n_slots * lane->rows_max - slot->n_rows;
}

/* A row is copied by 16 bytes at a time. */
#define CELL_SM_ROW_QUARTERS (sizeof(struct cell_sm_row) / sizeof(struct cell_u32x4))

/* A thread a row: into the order. */
CELL_BLOCK_FN void cell_sm_copy_row(struct cell_sm_order *order, uint64_t x_ref)
{
    const uint32_t row = cell_warp_lane();
    const void *all = cell_block_pointer(x_ref);
    void *place = &order->rows[row];
    const struct cell_u32x4 *from = (const struct cell_u32x4 *)all + row * CELL_SM_ROW_QUARTERS;
    struct cell_u32x4 *to = (struct cell_u32x4 *)place;
    CELL_LANE_NOTE(LANE_READS_OUTSIDE);
    CELL_BLOCK_UNROLL
    for (uint32_t i = 0; i < CELL_SM_ROW_QUARTERS; i++) {
        cell_block_store_u32x4(&to[i], cell_block_load_u32x4(&from[i]));
    }
}

/* What an op is to the math warps; status: what its result says. */
CELL_BLOCK_FN uint32_t cell_sm_order_of(uint32_t op, uint32_t *status)
{
    *status = BASE_OK;
    if (op == CELL_LANE_RUN) {
        return CELL_SM_ORDER_RUN;
    }
    if (op == CELL_LANE_JOIN) {
        return CELL_SM_ORDER_ZERO;
    }
    if (op != CELL_LANE_FENCE && op != CELL_LANE_PARK && op != CELL_LANE_EXIT) {
        *status = BASE_UNIMPLEMENTED;
    }
    return CELL_SM_ORDER_NONE;
}

/* Writes the next order from a slot's words. */
CELL_BLOCK_FN void cell_sm_take(struct cell_sm_dispatcher *d, uint32_t word)
{
    const struct cell_sm_slot slot = cell_sm_read_slot(word);
    struct cell_sm_order *order = &d->block->orders[(d->written + 1) % 2];
    const uint32_t row = cell_warp_lane();
    uint32_t status;
    uint32_t kind = cell_sm_order_of(slot.op, &status);
    // The slot, acquired by 16 threads, and `reported`, by one: now all may read what the task
    // names, and write the order's entry anew.
    cell_warp_sync(CELL_SM_SITE_TAKE_WARP);
    if (kind != CELL_SM_ORDER_NONE) {
        uint32_t id = UINT32_MAX;
        bool is_right = cell_sm_has_rows(d->args, &slot);
        if (is_right) {
            id = cell_sm_row_id(d->args, &slot);
            is_right = cell_warp_all(row >= slot.n_rows || id < d->args->rows.count);
        }
        if (!is_right || (kind == CELL_SM_ORDER_RUN && slot.k_steps == 0)) {
            kind = CELL_SM_ORDER_NONE;
            status = BASE_INVALID_ARGUMENT;
        } else if (row < slot.n_rows) {
            cell_block_store_u32(&order->ids[row], id);
            if (kind == CELL_SM_ORDER_RUN) {
                cell_sm_copy_row(order, slot.x_ref);
            }
        }
    }
    if (row == 0) {
        cell_block_store_u64(&order->seq, d->next);
        cell_block_store_u32(&order->kind, kind);
        cell_block_store_u32(&order->status, status);
        cell_block_store_u32(&order->n_rows, slot.n_rows);
        cell_block_store_u32(&order->k_steps, slot.k_steps);
    }
    if (slot.op == CELL_LANE_PARK || slot.op == CELL_LANE_EXIT) {
        d->end = slot.op == CELL_LANE_PARK ? CELL_LANE_END_PARKED : CELL_LANE_END_EXITED;
    }
    d->written++;
    const uint32_t bit = 1u << d->written % 2;
    const bool is_stoppable =
        kind == CELL_SM_ORDER_RUN && (slot.flags & CELL_LANE_INTERRUPTIBLE) != 0;
    d->stoppable = is_stoppable ? d->stoppable | bit : d->stoppable & ~bit;
    d->next++;
    const uint64_t tasks_max = d->args->launch.tasks_max;
    if (d->end == 0 && tasks_max != 0 && d->next - d->args->launch.first == tasks_max) {
        d->end = CELL_LANE_END_LIMIT;
    }
}

/* ---- The dispatcher: a turn ---- */

/* Lets the math warps have the order that is written, when they have begun the one before. */
CELL_BLOCK_FN void cell_sm_hand(struct cell_sm_dispatcher *d)
{
    struct cell_sm_words *words = &d->block->words;
    d->taken = cell_sm_word(CELL_SM_SITE_TAKEN_LOAD, &words->taken, CELL_LANE_ACQUIRE);
    if (d->handed < d->written && d->taken == d->handed) {
        cell_block_arrive(CELL_SM_SITE_ORDER_ARRIVE, CELL_SM_BARRIER_ORDER,
                          d->math_threads + CELL_WARP);
        d->handed++;
    }
}

/* Looks for the next task; abort and attention are read in the same round trip. Why the launch
 * ends, or 0. */
CELL_BLOCK_FN uint32_t cell_sm_look(struct cell_sm_dispatcher *d)
{
    const struct cell_lane *lane = &d->args->lane;
    const uint32_t thread = cell_warp_lane();
    // The entry that the next order gets was the last one's but one.
    const bool has_room = d->end == 0 && d->written == d->handed && d->written <= d->reported + 1;
    bool is_aborted = false;
    bool has_attention = false;
    uint32_t word = 0;
    bool is_there = true;
    if (thread == 0) {
        cell_lane_beat(lane, ++d->beats);
        is_aborted = cell_lane_is_aborted(lane, d->args->launch.number);
        has_attention = cell_lane_has_attention(lane);
    }
    if (has_room && thread < CELL_LANE_TAGGED_WORDS) {
        is_there = cell_lane_take_word(lane, d->next, thread, &word);
    }
    if (cell_warp_shfl(is_aborted, 0) != 0) {
        return CELL_LANE_END_ABORTED;
    }
    if (cell_warp_shfl(has_attention, 0) != 0 && (d->stoppable >> d->taken % 2 & 1) != 0) {
        cell_sm_tell(CELL_SM_SITE_STOP_STORE, &d->block->words.stop, d->taken, CELL_LANE_RELAXED);
    }
    if (has_room && cell_warp_all(is_there)) {
        cell_sm_take(d, word);
    }
    return 0;
}

/* Whether nothing has moved for too long though there is something to do. */
CELL_BLOCK_FN bool cell_sm_is_stuck(struct cell_sm_dispatcher *d, uint64_t now_ns)
{
    struct cell_sm_words *words = &d->block->words;
    const uint64_t progress =
        cell_sm_word(CELL_SM_SITE_STEPS_LOAD, &words->steps, CELL_LANE_RELAXED) + d->taken +
        d->reported;
    if (progress != d->progress || d->reported == d->written) {
        d->progress = progress;
        d->moved_ns = now_ns;
    }
    return now_ns - d->moved_ns > d->args->bound_ns;
}

CELL_BLOCK_FN void cell_sm_write_fault(const struct cell_sm_dispatcher *d, uint32_t site)
{
    if (cell_sm_is_first()) {
        struct cell_lane_fault *fault = &d->args->lane.control->fault;
        CELL_LANE_NOTE(LANE_WRITES_FAULT);
        cell_block_store_u32(&fault->lane, d->args->index);
        cell_block_store_u32(&fault->block, 0);
        cell_block_store_u32(&fault->site, site);
        cell_block_store_u64(&fault->epoch,
                             d->args->launch.first + d->reported); // the first that is not told
    }
}

/* One turn; why the launch ends, or 0. */
CELL_BLOCK_FN uint32_t cell_sm_turn(struct cell_sm_dispatcher *d)
{
    struct cell_sm_words *words = &d->block->words;
    d->reported = cell_sm_word(CELL_SM_SITE_REPORTED_LOAD, &words->reported, CELL_LANE_ACQUIRE);
    cell_sm_hand(d);
    const uint32_t end = cell_sm_look(d);
    if (end != 0) {
        return end;
    }
    cell_sm_hand(d);
    const uint64_t now_ns = cell_warp_first_u64(cell_block_clock_ns());
    if (cell_sm_is_stuck(d, now_ns)) {
        return CELL_LANE_END_FAULT;
    }
    if (d->reported != d->written) {
        d->idle_from = now_ns;
        return 0;
    }
    if (d->end != 0) {
        return d->end;
    }
    if (now_ns - d->idle_from > d->args->park_ns) {
        return CELL_LANE_END_PARKED;
    }
    if (now_ns - d->idle_from > d->args->busy_idle_ns) {
        cell_block_sleep(CELL_SM_DISPATCHER_NAP_NS);
    }
    return 0;
}

/* ---- The dispatcher: leaving ---- */

/* Waits for a word to reach a value, its writer still moving; false: it took too long. */
CELL_BLOCK_FN bool cell_sm_wait_word(const struct cell_sm_dispatcher *d, uint32_t site,
                                     const uint64_t *word, uint64_t value)
{
    const uint64_t from_ns = cell_warp_first_u64(cell_block_clock_ns());
    while (cell_sm_word(site, word, CELL_LANE_ACQUIRE) != value) {
        if (cell_warp_first_u64(cell_block_clock_ns()) - from_ns > d->args->bound_ns) {
            return false;
        }
    }
    return true;
}

/* Sends the math warps away; false: they did not go. */
CELL_BLOCK_FN bool cell_sm_dismiss(struct cell_sm_dispatcher *d)
{
    struct cell_sm_block *block = d->block;
    // An order that was written and not handed is not run any more.
    if (!cell_sm_wait_word(d, CELL_SM_SITE_TAKEN_LOAD, &block->words.taken, d->handed)) {
        return false;
    }
    if (cell_sm_is_first()) {
        cell_block_store_u32(&block->orders[(d->handed + 1) % 2].kind, CELL_SM_ORDER_QUIT);
    }
    cell_block_arrive(CELL_SM_SITE_ORDER_ARRIVE, CELL_SM_BARRIER_ORDER,
                      d->math_threads + CELL_WARP);
    return cell_sm_wait_word(d, CELL_SM_SITE_OUT_LOAD, &block->words.out, 1);
}

/* Ends the launch: first the reporter, then the math warps, then the word that says so. If the math
 * warps do not go they may still write: the host takes the device for lost if its next launch does
 * not come to life. They are waited for a little longer, so that the kernel ends if they do. */
CELL_BLOCK_FN void cell_sm_leave(struct cell_sm_dispatcher *d, uint32_t end)
{
    struct cell_sm_words *words = &d->block->words;
    const bool was_stuck = end == CELL_LANE_END_FAULT;
    if (was_stuck || end == CELL_LANE_END_ABORTED) {
        cell_sm_tell(CELL_SM_SITE_ABORT_STORE, &words->abort, 1, CELL_LANE_RELAXED);
    }
    cell_sm_tell(CELL_SM_SITE_QUIT_STORE, &words->quit, 1, CELL_LANE_RELAXED);
    const bool has_reported = cell_sm_wait_word(d, CELL_SM_SITE_REPORTER_LOAD, &words->reporter, 1);
    if (!has_reported || (!was_stuck && !cell_sm_dismiss(d))) {
        end = CELL_LANE_END_FAULT;
    }
    if (end == CELL_LANE_END_FAULT) {
        cell_sm_write_fault(d, CELL_LANE_WAIT_EXCHANGE);
    }
    cell_warp_sync(CELL_SM_SITE_ENDS_WARP);
    if (cell_sm_is_first()) {
        cell_lane_end(&d->args->lane, d->args->launch.number, (enum cell_lane_end)end);
    }
    if (was_stuck) {
        (void)cell_sm_dismiss(d);
    }
}

CELL_BLOCK_FN void cell_sm_dispatch(const struct cell_sm_args *args, struct cell_sm_block *block,
                                    uint32_t math_threads)
{
    struct cell_sm_dispatcher d;
    const uint64_t now_ns = cell_warp_first_u64(cell_block_clock_ns());
    d.args = args;
    d.block = block;
    d.math_threads = math_threads;
    d.next = args->launch.first;
    d.written = d.handed = d.taken = d.reported = 0;
    d.end = 0;
    d.stoppable = 0;
    d.beats = 0;
    if (cell_sm_is_first()) {
        d.beats = cell_lane_heartbeat(&args->lane); // the lane's own word
    }
    d.progress = 0;
    d.moved_ns = d.idle_from = now_ns;
    uint32_t end = 0;
    while (end == 0) {
        end = cell_sm_turn(&d);
    }
    cell_sm_leave(&d, end);
}

#endif
