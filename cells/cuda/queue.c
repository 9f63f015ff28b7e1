/* A queue of the CUDA device: a stream, and the batches on it.
 *
 *   submit -> [parts] -> issue: a piece is written, copied in, run by replayed graphs, copied
 * out, and its number stored to `words.pieces` -> poll: taken over, batch completed
 *
 * A batch is sent in pieces, so that staging has a bound and an interruption does not come behind a
 * hundred recorded steps; the card itself stops a batch that is over, and pieces of it that are
 * still on their way find nothing to do. The next batch's pieces follow at once: it waits for the
 * host only where it reads what an earlier one gives away to a request's memory. Rows that do not
 * fit into a piece together are run in passes, one after the other, each to its end.
 *
 * Any error is a lost card: what is outstanding fails, now and from then on. Pool thread. */
#include "cells/cuda/device_state.h"

#include "base/assert.h"
#include "base/clock.h"

#include <stdatomic.h>

/* Looks of the watchdog in its time: one counts for a quarter of it at most, so that a process that
 * was stopped does not find its card dead when it goes on. */
#define LOOK_SHARE 4u

#define NS_PER_MS UINT64_C(1000000)
#define ASK_NS    NS_PER_MS

#define TRY_NS (3 * BASE_NS_PER_S) /* for the first word of a stream */

static struct cell_cuda_pinned word_of(const struct cell_cuda__queue *queue, size_t offset)
{
    return (struct cell_cuda_pinned){.host = (uint8_t *)queue->words.host + offset,
                                     .at = queue->words.at + offset};
}

static struct cell_cuda__words *words_of(const struct cell_cuda__queue *queue)
{
    return queue->words.host;
}

/* ---- Life ----------------------------------------------------------------------------------- */

enum base_status cell_cuda__queue_open(struct cell_device *device, struct cell_cuda__queue *queue)
{
    queue->device = device;
    queue->issuing = 1;
    queue->rows =
        base_alloc_array((size_t)device->batches_max * CELL_STEP_ROWS_MAX, sizeof(*queue->rows));
    if (queue->rows == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    BASE_TRY(device->driver->stream_open(device->cuda, &queue->stream));
    return device->driver->pin(device->cuda, sizeof(struct cell_cuda__words), &queue->words);
}

enum base_status cell_cuda__queue_try(struct cell_cuda__queue *queue, struct base_error *error)
{
    struct cell_device *device = queue->device;
    const struct cell_cuda_pinned word = word_of(queue, offsetof(struct cell_cuda__words, pieces));
    _Atomic uint64_t *pieces = &words_of(queue)->pieces;
    const uint64_t from_ns = base_now_ns();
    if (device->driver->write64(queue->stream, &word, 1) != BASE_OK) {
        return base_fail(error, BASE_UNAVAILABLE,
                         "%s device: the card does not allow 64-bit words to be written in the "
                         "order of a stream (cuStreamWriteValue64)",
                         device->driver->name);
    }
    while (atomic_load_explicit(pieces, memory_order_acquire) != 1) {
        if (base_now_ns() - from_ns > TRY_NS) {
            device->is_lost = true; // it may still write
            return base_fail(error, BASE_UNAVAILABLE,
                             "%s device: a word that its stream writes (cuStreamWriteValue64) does "
                             "not arrive",
                             device->driver->name);
        }
    }
    atomic_store_explicit(pieces, 0, memory_order_relaxed);
    return BASE_OK;
}

void cell_cuda__queue_close(struct cell_cuda__queue *queue)
{
    const struct cell_device *device = queue->device;
    base_free(queue->rows);
    if (device->is_lost) {
        return; // what the card may still write stays
    }
    if (queue->staging.host != NULL) {
        device->driver->unpin(device->cuda, &queue->staging);
    }
    if (queue->words.host != NULL) {
        device->driver->unpin(device->cuda, &queue->words);
    }
    if (queue->stream != NULL) {
        device->driver->stream_close(queue->stream);
    }
}

enum base_status cell_cuda__queue_stage(struct cell_cuda__queue *queue)
{
    const struct cell_device *device = queue->device;
    const size_t line = sizeof(uint64_t) * 16;
    const size_t in = (device->in_bytes + line - 1) / line * line;
    const size_t slot = in + (device->out_bytes + line - 1) / line * line;
    struct cell_cuda_pinned staging = {0};
    BASE_TRY(device->driver->pin(device->cuda, slot * CELL_CUDA__SLOTS, &staging));
    if (queue->staging.host != NULL) {
        device->driver->unpin(device->cuda, &queue->staging);
    }
    queue->staging = staging;
    for (uint32_t s = 0; s < CELL_CUDA__SLOTS; s++) {
        struct cell_cuda__piece *piece = &queue->pieces[s];
        piece->in.host = (uint8_t *)staging.host + s * slot;
        piece->in.at = staging.at + s * slot;
        piece->out.host = (uint8_t *)piece->in.host + in;
        piece->out.at = piece->in.at + in;
    }
    return BASE_OK;
}

void cell_cuda__queue_drain(struct cell_cuda__queue *queue)
{
    struct cell_device *device = queue->device;
    base_assert(queue->submitted == queue->settled);
    if (!device->is_lost && queue->pieces_back != queue->pieces_sent) {
        device->is_lost = device->driver->wait(queue->stream) != BASE_OK;
        queue->pieces_back = queue->pieces_sent;
    }
}

/* ---- Issuing -------------------------------------------------------------------------------- */

enum base_status cell_cuda__op_run(struct cell_device *device, struct cell_cuda_stream *stream,
                                   const struct cell_cuda__op *op, uint32_t n_rows)
{
    if (op->step.kernel != CELL_STEP_PRODUCT) {
        return device->driver->launch(stream, &op->step,
                                      op->items_row == 0 ? op->items : op->items_row * n_rows);
    }
    struct cell_step step = op->step;
    step.product.n_rows = n_rows;
    if (op->is_of_library) {
        return device->driver->product(stream, &step.product);
    }
    const uint32_t blocks = (n_rows + CELL_STEP_PRODUCT_ROWS - 1) / CELL_STEP_PRODUCT_ROWS;
    return device->driver->launch(stream, &step, blocks * step.product.outputs);
}

static uint32_t bucket_of(uint32_t n_rows)
{
    uint32_t bucket = 0;
    while (cell_cuda__buckets[bucket] < n_rows) {
        bucket++;
    }
    base_assert(bucket < CELL_CUDA__BUCKETS);
    return bucket;
}

static enum base_status replay(struct cell_cuda__queue *queue,
                               struct cell_cuda_graph *const graphs[][CELL_CUDA__LENGTHS],
                               uint32_t n_rows, uint32_t steps)
{
    const uint32_t bucket = bucket_of(n_rows);
    for (uint32_t l = CELL_CUDA__LENGTHS; l-- > 0;) {
        for (; steps >= cell_cuda__lengths[l]; steps -= cell_cuda__lengths[l]) {
            BASE_TRY(queue->device->driver->replay(queue->stream, graphs[bucket][l]));
        }
    }
    return BASE_OK;
}

static enum base_status send(struct cell_cuda__queue *queue,
                             const struct cell_cuda__program *program,
                             const struct cell_cuda__piece *piece, size_t in_bytes,
                             size_t out_bytes)
{
    struct cell_device *device = queue->device;
    const struct cell_cuda_driver *driver = device->driver;
    const struct cell_step_task *task = piece->in.host;
    const struct cell_cuda_pinned word = word_of(queue, offsetof(struct cell_cuda__words, pieces));
    BASE_TRY(driver->copy_in(queue->stream, program->inbox, &piece->in, in_bytes));
    if (piece->first == 0) {
        BASE_TRY(cell_cuda__op_run(device, queue->stream, &program->begin, task->n_rows));
    }
    BASE_TRY(replay(queue, task->n_searches > 0 ? program->searching : program->graphs,
                    task->n_rows, piece->steps));
    BASE_TRY(driver->copy_out(queue->stream, &piece->out, program->outbox, out_bytes));
    return driver->write64(queue->stream, &word, queue->pieces_sent + 1);
}

static uint64_t completed(const struct cell_cuda__queue *queue)
{
    return atomic_load_explicit(&queue->completed, memory_order_relaxed); // our own
}

/* Calls note() for each block of memory that a reference covers over n steps, until it says true;
 * of more than can be told apart, for all. */
static bool each_block(uint64_t *blocks, const struct cell_ref *ref, uint32_t bytes, uint32_t n,
                       bool (*note)(uint64_t *blocks, uint64_t block))
{
    const int64_t last = (int64_t)(n - 1) * ref->stride_bytes;
    const uint64_t host = (uint64_t)(uintptr_t)ref->host;
    const uint64_t from = last < 0 ? host + (uint64_t)last : host;
    const uint64_t end = (last < 0 ? host : host + (uint64_t)last) + bytes;
    const uint64_t first = from / CELL_CUDA__BLOCK_BYTES;
    uint64_t n_blocks = (end - 1) / CELL_CUDA__BLOCK_BYTES - first + 1;
    n_blocks = n_blocks < CELL_CUDA__BLOCKS ? n_blocks : CELL_CUDA__BLOCKS;
    for (uint64_t b = 0; b < n_blocks; b++) {
        if (note(blocks, (first + b) % CELL_CUDA__BLOCKS)) {
            return true;
        }
    }
    return false;
}

static bool set_block(uint64_t *blocks, uint64_t block)
{
    blocks[block / 64] |= UINT64_C(1) << block % 64;
    return false;
}

// NOLINTNEXTLINE(readability-non-const-parameter): as set_block()
static bool has_block(uint64_t *blocks, uint64_t block)
{
    return (blocks[block / 64] >> block % 64 & 1) != 0;
}

/* Notes the requests' memory that the batch writes. */
static void note_writes(struct cell_cuda__batch *entry)
{
    const struct cell_batch *batch = entry->batch;
    const struct cell_def *def = &batch->type->def;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        const struct cell_wiring *wiring = batch->rows[r].wiring;
        for (uint32_t e = 0; e < wiring->n_emits; e++) {
            const struct cell_emit *emit = &wiring->emits[e];
            const uint32_t value = emit->what == CELL_EMIT_STATE ? def->n_inputs + emit->index
                                                                 : def->outputs[emit->index];
            if (emit->to.kind == CELL_REF_HOST) {
                (void)each_block(entry->writes, &emit->to, cell_cuda__bytes(&def->values[value]),
                                 wiring->steps, set_block);
            }
        }
    }
}

/* Whether a row that begins reads what that batch may write. */
static bool reads_of(const struct cell_batch *batch, struct cell_cuda__batch *earlier)
{
    const struct cell_def *def = &batch->type->def;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        const struct cell_wiring *wiring = batch->rows[r].wiring;
        const bool is_new = batch->rows[r].first_step == 0 || def->n_states == 0;
        for (uint32_t v = 0; v < def->n_inputs + def->n_states && is_new; v++) {
            const bool is_input = v < def->n_inputs;
            const struct cell_ref *ref =
                is_input ? &wiring->inputs[v] : &wiring->init[v - def->n_inputs];
            if (ref->kind == CELL_REF_HOST &&
                each_block(earlier->writes, ref, cell_cuda__bytes(&def->values[v]),
                           is_input ? wiring->steps : 1, has_block)) {
                return true;
            }
        }
    }
    return false;
}

/* Whether a batch reads memory of a request that an earlier one still writes: a chain that begins
 * with it follows one of the same type, of the same subgraph, that ends in a batch before
 * (scheduler, Algorithm 1, line 18). All others wait with the scheduler. */
static bool must_wait(struct cell_cuda__queue *queue, uint64_t number)
{
    const struct cell_cuda__batch *entry = cell_cuda__batch_at(queue, number);
    const struct cell_batch *batch = entry->batch;
    for (uint64_t n = queue->settled + 1; n < number; n++) {
        struct cell_cuda__batch *earlier = cell_cuda__batch_at(queue, n);
        if (earlier->whole != entry->whole && earlier->batch->type == batch->type &&
            reads_of(batch, earlier)) {
            return true;
        }
    }
    return false;
}

/* The rows of this pass, as a batch. All of a batch take the same steps: only the first pass may be
 * interrupted, and sets how many. */
static struct cell_batch pass_of(const struct cell_cuda__batch *entry)
{
    struct cell_batch pass = *entry->batch;
    pass.rows += entry->from;
    pass.n_rows = entry->n_rows;
    pass.steps = entry->steps_most;
    pass.interruptible &= entry->from == 0;
    return pass;
}

static bool is_last_pass(const struct cell_cuda__batch *entry)
{
    return entry->from + entry->n_rows == entry->batch->n_rows;
}

static bool is_issued(const struct cell_cuda__batch *entry)
{
    return entry->issued == entry->steps;
}

void cell_cuda__pass_begin(struct cell_cuda__batch *entry, uint32_t from, uint32_t n_rows)
{
    entry->from = from;
    entry->n_rows = n_rows;
    entry->issued = 0;
    entry->steps = 0;
    for (uint32_t r = from; r < from + n_rows; r++) {
        const uint32_t steps = entry->batch->rows[r].steps;
        entry->steps = steps > entry->steps ? steps : entry->steps;
    }
    entry->steps = entry->steps < entry->steps_most ? entry->steps : entry->steps_most;
}

/* Writes the next piece, of fewer rows where not all fit: 0, if not even one does. */
static size_t write_piece(const struct cell_device *device,
                          const struct cell_cuda__program *program, struct cell_cuda__batch *entry,
                          struct cell_cuda__piece *piece, size_t *out_bytes)
{
    struct cell_batch pass = pass_of(entry);
    const uint32_t most = pass.interruptible ? CELL_CUDA__STEPS_LOOSE : CELL_CUDA__STEPS;
    for (uint32_t tries = 0; tries < 2; tries++) {
        const uint32_t left = entry->steps - entry->issued;
        piece->from = entry->from;
        piece->first = entry->issued;
        piece->steps = left < most ? left : most;
        const size_t in_bytes = cell_cuda__piece_write(device, program, &pass, piece, out_bytes);
        const uint32_t fit = in_bytes > 0 ? 0 : cell_cuda__piece_rows(program, &pass);
        if (fit == 0) {
            return in_bytes;
        }
        cell_cuda__pass_begin(entry, entry->from, fit);
        pass = pass_of(entry);
    }
    return 0;
}

/* Writes and sends the next piece of the batch that is issued. */
static enum base_status issue(struct cell_cuda__queue *queue, uint64_t number)
{
    struct cell_device *device = queue->device;
    struct cell_cuda__batch *entry = cell_cuda__batch_at(queue, number);
    const struct cell_cuda__program *program =
        &device->types[entry->batch->type->id]->programs[queue - device->queues];
    struct cell_cuda__piece *piece = &queue->pieces[queue->pieces_sent % CELL_CUDA__SLOTS];
    size_t out_bytes = 0;
    piece->batch = number;
    const size_t in_bytes = write_piece(device, program, entry, piece, &out_bytes);
    if (in_bytes == 0) {
        entry->status = BASE_RESOURCE_EXHAUSTED; // a row that wiring_check() refuses
        entry->n_rows = entry->batch->n_rows - entry->from;
        entry->issued = entry->steps;
        return BASE_OK;
    }
    struct cell_step_task *task = piece->in.host;
    task->attention = queue->words.at + offsetof(struct cell_cuda__words, attention);
    BASE_TRY(send(queue, program, piece, in_bytes, out_bytes));
    entry->issued += piece->steps;
    entry->pieces++;
    queue->pieces_sent++;
    return BASE_OK;
}

/* Whether a batch before runs elsewhere, and is not settled: lanes and the stream know nothing of
 * each other, and this batch may read what that one writes. Parts of one batch do not. */
static bool changes_executor(struct cell_cuda__queue *queue, uint64_t number)
{
    const struct cell_cuda__batch *entry = cell_cuda__batch_at(queue, number);
    for (uint64_t n = queue->settled + 1; n < number; n++) {
        const struct cell_cuda__batch *earlier = cell_cuda__batch_at(queue, n);
        if (earlier->lane != entry->lane && earlier->whole != entry->whole) {
            return true;
        }
    }
    return false;
}

/* Whether a piece of this batch may be sent now. */
static bool may_issue(struct cell_cuda__queue *queue, uint64_t number)
{
    const struct cell_cuda__batch *entry = cell_cuda__batch_at(queue, number);
    const bool is_begun = entry->issued > 0 || entry->group > 0;
    if (!is_begun && (changes_executor(queue, number) || must_wait(queue, number))) {
        return false;
    }
    if (entry->lane != NULL) {
        return cell_cuda__lane_may_issue(entry);
    }
    return queue->pieces_sent - queue->pieces_back < CELL_CUDA__SLOTS &&
           !(entry->batch->interruptible && entry->pieces == CELL_CUDA__PIECES_LOOSE);
}

/* After a call has failed: the driver knows why. */
static void lose(struct cell_cuda__queue *queue)
{
    struct cell_device *device = queue->device;
    device->is_lost = true;
    if (device->driver->error(device->cuda, queue->stream, &device->why_lost) == BASE_OK) {
        (void)base_fail(&device->why_lost, BASE_UNAVAILABLE, "a call of the driver failed");
    }
}

/* Sends what may be sent of a part; whether all of it is. Of one that was told to end nothing more
 * is issued (take_back()). */
static bool feed_part(struct cell_cuda__queue *queue, uint64_t number)
{
    struct cell_cuda__batch *entry = cell_cuda__batch_at(queue, number);
    while (!queue->device->is_lost && !(is_issued(entry) && is_last_pass(entry))) {
        if (is_issued(entry) || !may_issue(queue, number)) {
            return false; // the next pass begins when this one is over
        }
        if (entry->lane != NULL) {
            cell_cuda__lane_issue(entry, number);
        } else if (issue(queue, number) != BASE_OK) {
            lose(queue);
        }
    }
    return !queue->device->is_lost;
}

/* In order; but the other part of a batch does not wait for the first. */
static void feed(struct cell_cuda__queue *queue)
{
    while (queue->issuing <= queue->submitted && feed_part(queue, queue->issuing)) {
        queue->issuing++;
    }
    if (queue->issuing < queue->submitted && !cell_cuda__batch_at(queue, queue->issuing)->is_last) {
        (void)feed_part(queue, queue->issuing + 1);
    }
}

void cell_cuda_submit(struct cell_device *device, uint32_t queue_index, struct cell_batch *batch)
{
    base_assert(queue_index < device->n_queues && device->types[batch->type->id] != NULL);
    base_assert(batch->n_rows > 0 && batch->n_rows <= CELL_STEP_ROWS_MAX && batch->steps > 0);
    struct cell_cuda__queue *queue = &device->queues[queue_index];
    base_assert(queue->accepted - completed(queue) < device->batches_max);
    queue->accepted++;
    const uint64_t before = queue->submitted;
    cell_cuda__parts_add(queue, batch);
    for (uint64_t n = before + 1; n <= queue->submitted; n++) {
        note_writes(cell_cuda__batch_at(queue, n));
    }
    feed(queue);
}

/* ---- Taking back ---------------------------------------------------------------------------- */

/* Of a pass that is over. */
static void settle_rows(struct cell_cuda__batch *entry, const struct cell_batch *pass,
                        const struct cell_step_result *result)
{
    struct cell_batch *batch = entry->batch;
    bool is_interrupted = false;
    for (uint32_t r = 0; r < pass->n_rows; r++) {
        struct cell_batch_row *row = &pass->rows[r];
        const uint32_t steps = result->outcomes[r] & ~CELL_STEP_ENDED;
        row->steps_done = steps < result->steps_done ? steps : result->steps_done;
        row->has_ended = (result->outcomes[r] & CELL_STEP_ENDED) != 0;
        is_interrupted |= steps > result->steps_done;
    }
    const uint32_t before = entry->from == 0 ? 0 : batch->steps_done;
    batch->steps_done = result->steps_done > before ? result->steps_done : before;
    entry->steps_most = is_interrupted ? result->steps_done : entry->steps_most;
}

/* Takes over a piece that has come back; or one of a part that was over before it came to it. */
static void take_back(struct cell_cuda__queue *queue, const struct cell_cuda__piece *piece)
{
    struct cell_cuda__batch *entry = cell_cuda__batch_at(queue, piece->batch);
    if (piece->batch <= queue->settled || entry->is_over) {
        return;
    }
    const struct cell_step_result *result = piece->out.host;
    base_assert(entry->pieces > 0);
    entry->pieces--;
    if (piece->from != entry->from) {
        return; // of a pass that was over before
    }
    const struct cell_batch pass = pass_of(entry);
    cell_cuda__piece_read(&pass, piece);
    if (result->is_over == 0) {
        return;
    }
    settle_rows(entry, &pass, result);
    if (is_last_pass(entry)) {
        entry->issued = entry->steps;
        entry->is_over = true;
    } else {
        const uint32_t next = entry->from + entry->n_rows;
        cell_cuda__pass_begin(entry, next, entry->batch->n_rows - next);
    }
}

/* A lane's batch ends whole; no chain of it by itself. */
static void settle_lane(const struct cell_cuda__batch *entry)
{
    struct cell_batch *batch = entry->batch;
    batch->steps_done = entry->steps;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        const uint32_t steps = batch->rows[r].steps;
        batch->rows[r].steps_done = steps < entry->steps ? steps : entry->steps;
        batch->rows[r].has_ended = false;
    }
}

/* Whether nothing of the part is on its way that anybody looks at, nor will be. */
static bool is_done(const struct cell_cuda__batch *entry)
{
    const bool has_all_back = entry->pieces == 0 && entry->issued == entry->steps;
    return entry->is_over || (has_all_back && (entry->lane != NULL || entry->status != BASE_OK));
}

static void settle(struct cell_cuda__queue *queue)
{
    if (cell_cuda__part_settle(queue)) {
        // Release: who sees the count also sees the batch's results, status and steps.
        atomic_fetch_add_explicit(&queue->completed, 1, memory_order_release);
    }
}

static void settle_done(struct cell_cuda__queue *queue)
{
    while (queue->settled < queue->submitted) {
        const struct cell_cuda__batch *entry = cell_cuda__batch_at(queue, queue->settled + 1);
        if (!is_done(entry)) {
            return;
        }
        if (entry->lane != NULL && entry->status == BASE_OK) {
            settle_lane(entry);
        }
        settle(queue);
    }
}

static void fail_all(struct cell_cuda__queue *queue)
{
    while (queue->settled < queue->submitted) {
        cell_cuda__batch_at(queue, queue->settled + 1)->status = BASE_UNAVAILABLE;
        settle(queue);
    }
}

/* Whether nothing came back for so long, though something is to. */
static bool is_stalled(struct cell_cuda__queue *queue, bool has_moved, uint64_t now_ns)
{
    const uint64_t limit_ns = queue->device->watchdog_ns;
    if (queue->pieces_sent == queue->pieces_back) {
        queue->looked_ns = 0;
        return false;
    }
    const uint64_t since_ns = queue->looked_ns == 0 ? 0 : now_ns - queue->looked_ns;
    const uint64_t share_ns = limit_ns / LOOK_SHARE;
    queue->stalled_ns = has_moved || queue->looked_ns == 0 ? 0 : queue->stalled_ns;
    queue->stalled_ns += since_ns < share_ns ? since_ns : share_ns;
    queue->looked_ns = now_ns;
    return limit_ns > 0 && queue->stalled_ns >= limit_ns;
}

/* Asked now and then while nothing comes back: a call of the driver takes a lock. */
static bool has_failed(struct cell_cuda__queue *queue, bool has_moved, uint64_t now_ns)
{
    const struct cell_device *device = queue->device;
    if (has_moved || now_ns - queue->asked_ns < ASK_NS) {
        return false;
    }
    queue->asked_ns = now_ns;
    return device->driver->error(device->cuda, queue->stream, NULL) != BASE_OK;
}

void cell_cuda_poll(struct cell_device *device, uint32_t queue_index, uint64_t now_ns)
{
    base_assert(queue_index < device->n_queues);
    struct cell_cuda__queue *queue = &device->queues[queue_index];
    // Acquire: what was copied out before is there.
    const uint64_t done =
        device->is_lost ? queue->pieces_back
                        : atomic_load_explicit(&words_of(queue)->pieces, memory_order_acquire);
    const bool has_moved = done != queue->pieces_back;
    base_assert(done >= queue->pieces_back && done <= queue->pieces_sent);
    while (queue->pieces_back < done) {
        const struct cell_cuda__piece *piece =
            &queue->pieces[queue->pieces_back % CELL_CUDA__SLOTS];
        take_back(queue, piece);
        queue->pieces_back++;
    }
    if (!device->is_lost && cell_cuda__lanes_poll(queue, now_ns) != BASE_OK) {
        lose(queue);
    }
    settle_done(queue);
    feed(queue);
    if (!device->is_lost && is_stalled(queue, has_moved, now_ns)) {
        device->is_lost = true;
        (void)base_fail(&device->why_lost, BASE_UNAVAILABLE, "no progress for %llu ms",
                        (unsigned long long)(device->watchdog_ns / NS_PER_MS));
    } else if (!device->is_lost && has_failed(queue, has_moved, now_ns)) {
        lose(queue);
    }
    if (device->is_lost) {
        fail_all(queue);
    }
}

const _Atomic uint64_t *cell_cuda_completed(struct cell_device *device, uint32_t queue)
{
    base_assert(queue < device->n_queues);
    return &device->queues[queue].completed;
}

const _Atomic uint32_t *cell_cuda__attention_of(const struct cell_cuda__queue *queue)
{
    return &words_of(queue)->attention;
}

_Atomic uint32_t *cell_cuda_attention(struct cell_device *device, uint32_t queue)
{
    base_assert(queue < device->n_queues);
    return &words_of(&device->queues[queue])->attention;
}
