/* Lanes of the reference device: a thread that stands in for a resident kernel, and the host's side
 * of it, by the pool thread.
 *
 * A launch hands `launch` to the thread by the event `start`, as a kernel gets its arguments; from
 * then on both speak only the words of cells/lane/contract.h, and what the task's address leads to
 * is only read. Nothing is allocated after opening. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "tests/lane/rig.h"
#include "tests/reference_state.h"

#include <stdio.h>
#include <unistd.h>

/* An idle lane parks soon: it must not take the time of a machine with few cores. */
#define IDLE_POLLS 200u

/* A wait that looks at the script again. */
#define NAP_US 100u

static struct reference__queue *queue_of(struct lane_loop *loop)
{
    return loop->context;
}

/* ---- The lane's side ---- */

static uint32_t end_with_fault(struct reference__queue *queue, enum cell_lane_wait_site site,
                               uint64_t epoch)
{
    queue->lane.control->fault =
        (struct cell_lane_fault){.lane = queue->index, .site = site, .epoch = epoch};
    return CELL_LANE_END_FAULT;
}

/* Pauses for a random time, most of them short. */
static void pause_before_completion(struct reference__queue *queue)
{
    uint64_t max_ns = queue->device->options.pause_ns_max;
    if (max_ns == 0) {
        return;
    }
    double unit = base_random_unit(&queue->random);
    uint64_t until_ns = base_now_ns() + (uint64_t)((double)max_ns * unit * unit);
    while (base_now_ns() < until_ns && !reference__is_ending(queue->device)) {
        lane_loop_beat(&queue->loop);
        base_cpu_relax();
    }
}

/* Waits while the device is dead; why the launch ends, or 0: it lives, and the task too. */
static uint32_t wait_while_dead(struct reference__queue *queue, uint64_t seq)
{
    const struct cell_device *device = queue->device;
    while (atomic_load_explicit(&device->dead, memory_order_acquire)) {
        if (reference__is_ending(device) || lane_loop_is_aborted(&queue->loop)) {
            return CELL_LANE_END_ABORTED;
        }
        (void)usleep(NAP_US);
    }
    return seq <= atomic_load_explicit(&queue->lost_until, memory_order_acquire)
               ? end_with_fault(queue, CELL_LANE_WAIT_TASK, seq)
               : 0;
}

/* As the script says; why the launch ends, or 0: this step does not hang. */
static uint32_t hang(struct reference__queue *queue, uint64_t seq)
{
    struct cell_device *device = queue->device;
    if (atomic_load_explicit(&device->hang, memory_order_relaxed) == REFERENCE_HANG_NONE) {
        return 0;
    }
    const uint32_t kind = atomic_exchange(&device->hang, REFERENCE_HANG_NONE);
    if (kind == REFERENCE_HANG_NONE) {
        return 0; // another lane took it
    }
    if (kind == REFERENCE_HANG_FAULT) {
        return end_with_fault(queue, CELL_LANE_WAIT_EXCHANGE, seq);
    }
    if (kind == REFERENCE_HANG_DEAF) {
        atomic_store_explicit(&queue->is_deaf, true, memory_order_release);
    }
    while (!reference__is_ending(device) &&
           (kind == REFERENCE_HANG_DEAF || !lane_loop_is_aborted(&queue->loop))) {
        (void)usleep(NAP_US);
    }
    return CELL_LANE_END_ABORTED;
}

static void check_rows(const struct cell_lane *lane, const struct cell_lane_task *task)
{
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the task carries an address
    const struct cell_batch_row *rows = (const struct cell_batch_row *)(uintptr_t)task->x_ref;
    const bool is_outside = (task->flags & CELL_LANE_ROWS_BY_OFFSET) != 0;
    const uint32_t *ids = is_outside ? lane->row_ids + task->rows_off : task->rows;
    for (uint32_t r = 0; r < task->n_rows; r++) {
        base_assert(ids[r] == rows[r].wiring->state);
    }
}

/* The steps of a task; why the launch ends, or 0. */
static uint32_t run_steps(struct reference__queue *queue, uint64_t seq,
                          const struct cell_lane_task *task, uint32_t *steps_done)
{
    uint32_t *outcomes =
        queue->lane.outcomes + (size_t)cell_lane_index(&queue->lane, seq) * queue->lane.rows_max;
    for (uint32_t r = 0; r < task->n_rows; r++) {
        outcomes[r] = 0;
    }
    for (uint32_t step = 0; step < task->k_steps; step++) {
        const uint32_t end = hang(queue, seq);
        if (end != 0) {
            return end;
        }
        reference__run_step(queue, task, step, outcomes);
        lane_loop_beat(&queue->loop);
        *steps_done = step + 1;
        if (*steps_done == task->k_steps) {
            break;
        }
        if ((task->flags & CELL_LANE_INTERRUPTIBLE) != 0 && cell_lane_has_attention(&queue->lane)) {
            break;
        }
        if (lane_loop_is_aborted(&queue->loop)) {
            return CELL_LANE_END_ABORTED;
        }
    }
    return 0;
}

static uint32_t run_batch(struct reference__queue *queue, uint64_t seq,
                          const struct cell_lane_task *task, struct cell_lane_result *result)
{
    struct cell_device *device = queue->device;
    uint32_t end = wait_while_dead(queue, seq);
    if (end != 0) {
        return end;
    }
    check_rows(&queue->lane, task);
    atomic_fetch_add_explicit(&device->batches, 1, memory_order_relaxed);
    if (reference__is_failing(device)) {
        result->status = atomic_load(&device->fail_status);
        return 0;
    }
    end = run_steps(queue, seq, task, &result->steps_done);
    if (end != 0) {
        return end;
    }
    pause_before_completion(queue);
    return wait_while_dead(queue, seq);
}

static uint32_t run_task(struct lane_loop *loop, uint64_t seq, const struct cell_lane_task *task)
{
    struct reference__queue *queue = queue_of(loop);
    struct cell_lane_result result = {.status = BASE_OK};
    uint32_t end = 0;
    queue->idle_polls = 0;
    if (task->op == CELL_LANE_RUN) {
        end = run_batch(queue, seq, task, &result);
    } else if (task->op != CELL_LANE_FENCE && task->op != CELL_LANE_PARK &&
               task->op != CELL_LANE_EXIT) {
        result.status = BASE_UNIMPLEMENTED;
    }
    queue->lane.results[cell_lane_index(&queue->lane, seq)] = result;
    return end;
}

static bool is_idle_over(struct lane_loop *loop)
{
    struct reference__queue *queue = queue_of(loop);
    base_cpu_relax();
    return ++queue->idle_polls >= IDLE_POLLS || reference__is_ending(queue->device);
}

static void has_moved(struct lane_loop *loop)
{
    const struct cell_device *device = queue_of(loop)->device;
    if (device->wake != NULL && !device->options.polled) {
        device->wake(device->wake_context);
    }
}

static void *lane_main(void *argument)
{
    struct reference__queue *queue = argument;
    uint64_t last = 0;
    for (;;) {
        (void)base_event_wait(&queue->start, 0, BASE_WAIT_FOREVER);
        if (reference__is_ending(queue->device)) {
            return NULL;
        }
        // The event's signal publishes it; a signal may also be a left-over.
        const struct cell_lane_launch launch = queue->launch;
        if (launch.number != last) {
            last = launch.number;
            queue->idle_polls = 0;
            lane_loop_run(&queue->loop, &launch);
        }
    }
}

/* ---- The host's side ---- */

static void launch_lane(struct reference__queue *queue)
{
    if (!cell_lane_host_wants_launch(&queue->host)) {
        return;
    }
    queue->launch = cell_lane_host_launch(&queue->host, 0);
    atomic_fetch_add_explicit(&queue->device->launches, 1, memory_order_relaxed);
    base_event_signal(&queue->start);
}

void reference__lane_submit(struct reference__queue *queue, struct cell_batch *batch)
{
    uint32_t ids[CELL_BATCH_ROWS_MAX];
    // A run that may be interrupted may also end where a task does.
    const uint32_t k_steps =
        batch->steps <= CELL_LANE_STEPS_MAX ? batch->steps : CELL_LANE_STEPS_MAX;
    base_assert(k_steps == batch->steps || batch->interruptible);
    base_assert(batch->n_rows <= CELL_BATCH_ROWS_MAX);
    base_assert(cell_lane_host_has_room(&queue->host));
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        ids[r] = batch->rows[r].wiring->state;
    }
    struct cell_lane_task task = {.op = CELL_LANE_RUN,
                                  .cell = (uint16_t)batch->type->id,
                                  .k_steps = (uint16_t)k_steps,
                                  .flags = batch->interruptible ? CELL_LANE_INTERRUPTIBLE : 0,
                                  .x_ref = (uint64_t)(uintptr_t)batch->rows,
                                  .user_tag = queue->host.submitted + 1};
    cell_lane_host_rows(&queue->host, &task, ids, batch->n_rows);
    uint64_t seq = cell_lane_host_submit(&queue->host, &task);
    queue->batches[cell_lane_index(&queue->lane, seq)] = batch;
    launch_lane(queue);
}

/* Results become the batch's. */
static void settle(struct reference__queue *queue, uint64_t seq)
{
    const uint32_t index = cell_lane_index(&queue->lane, seq);
    const struct cell_lane_result *result = &queue->lane.results[index];
    const uint32_t *outcomes = queue->lane.outcomes + (size_t)index * queue->lane.rows_max;
    struct cell_batch *batch = queue->batches[index];
    uint64_t cells = 0;
    batch->status = (enum base_status)result->status;
    batch->steps_done = result->steps_done;
    for (uint32_t r = 0; batch->status == BASE_OK && r < batch->n_rows; r++) {
        batch->rows[r].steps_done = outcomes[r] & ~CELL_LANE_ROW_ENDED;
        batch->rows[r].has_ended = (outcomes[r] & CELL_LANE_ROW_ENDED) != 0;
        cells += batch->rows[r].steps_done;
    }
    if (batch->status == BASE_OK) {
        reference__count(queue->device, batch->steps_done, cells, batch->steps_done < batch->steps);
    }
}

static void fail(struct reference__queue *queue, uint64_t seq)
{
    struct cell_batch *batch = queue->batches[cell_lane_index(&queue->lane, seq)];
    batch->status = BASE_UNAVAILABLE;
    batch->steps_done = 0;
}

/* A kernel writes memory of its device's own; this lane writes the requests' own memory, which is
 * given back with the answer. So one that is lost has to be one that hangs; a thread that merely
 * did not get a processor for so long is waited for. */
static void wait_until_harmless(struct reference__queue *queue)
{
    while (!atomic_load_explicit(&queue->is_deaf, memory_order_acquire) &&
           cell_lane_ended(&queue->lane, queue->host.launch) == 0) {
        (void)usleep(NAP_US);
    }
}

static void tell_of_end(const struct reference__queue *queue)
{
    const struct cell_lane_host *host = &queue->host;
    if (host->end == CELL_LANE_END_FAULT) {
        const struct cell_lane_fault fault = cell_lane_host_fault(host);
        log_warn("device", "lane %u waited too long: site=%s epoch=%llu", fault.lane,
                 cell_lane_wait_name(fault.site), (unsigned long long)fault.epoch);
    } else {
        log_warn("device", "lane %u showed no progress and was aborted", queue->index);
    }
}

void reference__lane_poll(struct reference__queue *queue, uint64_t now_ns)
{
    struct cell_lane_host *host = &queue->host;
    const uint32_t faults = host->faults;
    if (!cell_lane_host_is_busy(host)) {
        return;
    }
    cell_lane_host_look(host, now_ns);
    if (host->faults != faults) {
        tell_of_end(queue);
    }
    if (host->is_lost && !queue->device->is_lost) {
        wait_until_harmless(queue);
        log_error("device", "lane %u cannot be stopped: the device is lost", queue->index);
        queue->device->is_lost = true;
    }
    uint64_t settled = 0;
    for (uint64_t seq = cell_lane_host_next(host); seq != 0; seq = cell_lane_host_next(host)) {
        settle(queue, seq);
        settled++;
    }
    for (uint64_t seq = cell_lane_host_next_failed(host); seq != 0;
         seq = cell_lane_host_next_failed(host)) {
        fail(queue, seq);
        settled++;
    }
    if (settled > 0) {
        // Release, as the seam promises, though the pool thread is on both of its sides.
        atomic_fetch_add_explicit(&queue->completed, settled, memory_order_release);
    }
    launch_lane(queue);
}

/* ---- Life ---- */

enum base_status reference__lane_open(struct reference__queue *queue, uint64_t watchdog_ns)
{
    queue->inner_rows = base_alloc_array(CELL_BATCH_ROWS_MAX, sizeof(*queue->inner_rows));
    queue->inner_index = base_alloc_array(CELL_BATCH_ROWS_MAX, sizeof(*queue->inner_index));
    if (!lane_rig_init(&queue->lane, REFERENCE__SLOTS, CELL_BATCH_ROWS_MAX,
                       queue->device->options.form) ||
        queue->inner_rows == NULL || queue->inner_index == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    cell_lane_host_init(&queue->host, &queue->lane, watchdog_ns);
    base_event_init(&queue->start);
    queue->loop = (struct lane_loop){.lane = &queue->lane,
                                     .context = queue,
                                     .run = run_task,
                                     .is_idle_over = is_idle_over,
                                     .has_moved = has_moved};
    if (pthread_create(&queue->thread, NULL, lane_main, queue) != 0) {
        return BASE_UNAVAILABLE;
    }
    queue->has_thread = true;
    return BASE_OK;
}

void reference__lane_close(struct reference__queue *queue)
{
    base_assert(reference__is_ending(queue->device));
    if (queue->has_thread) {
        base_event_signal(&queue->start);
        pthread_join(queue->thread, NULL);
    }
    lane_rig_release(&queue->lane);
    base_free(queue->inner_rows);
    base_free(queue->inner_index);
}
