/* The reference device; see reference_device.h.
 *
 * Data: rows by layout, written by whichever queue runs the batch that owns them; a queue's ring,
 * its random numbers and an evaluator of each type for each member of its team are its thread's.
 * Threads: one a queue; submit on the pool thread meets it in the ring; script and counts are
 * atomics. Nothing is allocated after type_load and rows_open. */
#include "tests/reference_device.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/event.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/ring.h"
#include "tests/reference_cells.h"
#include "tests/scheduler/graphs.h"

#include <pthread.h>
#include <string.h>

#define QUEUES_MAX  8u
#define MEMBERS_MAX 4u

/* Rows of one layout. */
struct store {
    const struct cell_layout *layout;
    size_t row_bytes;
    uint32_t count;
    uint8_t *rows;
};

struct queue {
    _Alignas(BASE_CACHE_LINE) _Atomic uint64_t completed;
    _Atomic uint64_t submitted;
    _Atomic uint64_t lost_until; /* batches before this one were submitted before a reset */
    _Alignas(BASE_CACHE_LINE) struct base_event wake; /* work, reset or the end */
    struct cell_device *device;
    uint32_t index;
    struct cell_team *team; /* NULL: the queue's thread alone */
    struct base_spsc *ring;
    struct base_random random;
    pthread_t thread;
    bool has_thread;
    bool stop_run; /* member 0 writes, all read, a barrier between */
    uint32_t steps_done;
};

struct cell_device {
    struct reference_options options;
    void (*wake)(void *context);
    void *wake_context;
    uint32_t n_queues;
    struct queue queues[QUEUES_MAX];
    struct store stores[CELL_LAYOUTS_MAX];
    struct reference_cells *cells_of[CELL_TYPES_MAX]; /* [queue * MEMBERS_MAX + member] */
    _Atomic bool end, dead;
    _Atomic uint64_t fail_in; /* batches until one fails; 0 = none will */
    _Atomic uint32_t fail_status;
    _Atomic uint64_t batches, steps, cells, interrupted;
};

static struct reference_options options_next;
static struct cell_device *last_opened;

void reference_configure(const struct reference_options *options)
{
    options_next = *options;
}

static uint32_t members_of(const struct queue *queue)
{
    return queue->team == NULL ? 1 : queue->team->members;
}

/* Reads as zeros: as wide as any row of a test. */
static const uint8_t zeros[4096];

/* ---- Rows ---- */

/* NaN in every float, and no valid id in every integer. */
static void poison(const struct store *store, uint8_t *row)
{
    memset(row, 0xFF, store->row_bytes);
}

static uint8_t *row_at(const struct cell_device *device, uint32_t layout, uint32_t row)
{
    const struct store *store = &device->stores[layout];
    base_assert(row < store->count);
    return store->rows + row * store->row_bytes;
}

static uint8_t *part_at(const struct cell_device *device, uint32_t layout, uint32_t row,
                        uint32_t part)
{
    uint8_t *at = row_at(device, layout, row);
    for (uint32_t p = 0; p < part; p++) {
        at += graphs_row_bytes(&device->stores[layout].layout->parts[p]);
    }
    return at;
}

static uint8_t *place_of(const struct cell_device *device, const struct cell_ref *ref,
                         uint32_t layout, uint32_t step)
{
    return ref->kind == CELL_REF_HOST ? ref->host + (int64_t)step * ref->stride_bytes
                                      : row_at(device, layout, ref->row);
}

static const uint8_t *source_of(const struct cell_device *device, const struct cell_ref *ref,
                                uint32_t layout, uint32_t step)
{
    return ref->kind == CELL_REF_ZERO ? zeros : place_of(device, ref, layout, step);
}

/* ---- Batches ---- */

static void emit(const struct cell_device *device, const struct cell_type *type,
                 const struct cell_emit *emit, uint32_t step, const void *row)
{
    bool is_state = emit->what == CELL_EMIT_STATE;
    uint32_t layout =
        is_state ? type->state_layouts[emit->index] : type->output_layouts[emit->index];
    const struct cell_def *def = &type->def;
    uint32_t value = is_state ? def->n_inputs + emit->index : def->outputs[emit->index];
    memcpy(place_of(device, &emit->to, layout, step), row, graphs_row_bytes(&def->values[value]));
}

/* Step `step` of a node. */
static void run_cell(struct cell_device *device, struct reference_cells *cells,
                     const struct cell_wiring *wiring, uint32_t step)
{
    const struct cell_type *type = cells->type;
    const struct cell_def *def = &type->def;
    const void *inputs[CELL_INPUTS_MAX] = {NULL};
    void *states[CELL_STATES_MAX] = {NULL};
    void *outputs[CELL_OUTPUTS_MAX] = {NULL};
    for (uint32_t s = 0; s < def->n_states; s++) {
        states[s] = part_at(device, type->state_layout, wiring->state, s);
        if (step == 0) {
            memcpy(states[s], source_of(device, &wiring->init[s], type->state_layouts[s], 0),
                   graphs_row_bytes(&def->values[def->n_inputs + s]));
        }
    }
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        inputs[i] = source_of(device, &wiring->inputs[i], type->input_layouts[i], step);
    }
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        outputs[o] = cells->outputs[o];
    }
    reference_cells_run(cells, inputs, states, outputs);
    bool is_last = step + 1 == wiring->steps;
    for (uint32_t e = 0; e < wiring->n_emits; e++) {
        const struct cell_emit *at = &wiring->emits[e];
        if (is_last || at->when == CELL_EMIT_EACH) {
            emit(device, type, at, step,
                 at->what == CELL_EMIT_STATE ? states[at->index] : outputs[at->index]);
        }
    }
    if (is_last && def->n_states > 0) {
        poison(&device->stores[type->state_layout],
               row_at(device, type->state_layout, wiring->state));
    }
}

struct run {
    struct queue *queue;
    struct cell_batch *batch;
};

/* One member's share of a batch, step after step; attention is member 0's to look at. */
static void run_member(void *argument, struct cell_team *team, uint32_t member)
{
    const struct run *run = argument;
    struct queue *queue = run->queue;
    struct cell_device *device = queue->device;
    const struct cell_batch *batch = run->batch;
    uint32_t members = members_of(queue);
    struct reference_cells *cells =
        &device->cells_of[batch->type->id][queue->index * MEMBERS_MAX + member];
    for (uint32_t step = 0; step < batch->steps; step++) {
        uint64_t until_ns = base_now_ns() + device->options.step_ns;
        for (uint32_t r = member; r < batch->n_rows; r += members) {
            const struct cell_batch_row *row = &batch->rows[r];
            if (step < row->steps) {
                run_cell(device, cells, row->wiring, row->first_step + step);
            }
        }
        while (device->options.step_ns > 0 && base_now_ns() < until_ns) {
            base_cpu_relax();
        }
        if (member == 0) {
            queue->steps_done = step + 1;
            queue->stop_run = batch->interruptible &&
                              atomic_load_explicit(batch->attention, memory_order_relaxed) != 0;
        }
        if (members > 1) {
            team->barrier(team, member);
        }
        bool stop = queue->stop_run;
        if (members > 1) {
            team->barrier(team, member); // before the next step writes it anew
        }
        if (stop) {
            return;
        }
    }
}

/* Whether the script says that this batch fails. */
static bool is_failing(struct cell_device *device)
{
    uint64_t left = atomic_load_explicit(&device->fail_in, memory_order_acquire);
    while (left > 0 && !atomic_compare_exchange_weak(&device->fail_in, &left, left - 1)) {
    }
    return left == 1;
}

static void run_batch(struct queue *queue, struct cell_batch *batch)
{
    struct cell_device *device = queue->device;
    uint64_t cells = 0;
    atomic_fetch_add_explicit(&device->batches, 1, memory_order_relaxed);
    if (is_failing(device)) {
        batch->status = (enum base_status)atomic_load(&device->fail_status);
        batch->steps_done = 0;
        return;
    }
    struct run run = {.queue = queue, .batch = batch};
    if (queue->team == NULL) {
        run_member(&run, NULL, 0);
    } else {
        queue->team->run(queue->team, run_member, &run);
    }
    batch->status = BASE_OK;
    batch->steps_done = queue->steps_done;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        struct cell_batch_row *row = &batch->rows[r];
        row->steps_done = row->steps < batch->steps_done ? row->steps : batch->steps_done;
        cells += row->steps_done;
    }
    atomic_fetch_add_explicit(&device->steps, batch->steps_done, memory_order_relaxed);
    atomic_fetch_add_explicit(&device->cells, cells, memory_order_relaxed);
    if (batch->steps_done < batch->steps) {
        atomic_fetch_add_explicit(&device->interrupted, 1, memory_order_relaxed);
    }
}

/* Release: results, status and steps_done are visible to whoever sees the count. */
static void complete(struct queue *queue)
{
    atomic_fetch_add_explicit(&queue->completed, 1, memory_order_release);
    struct cell_device *device = queue->device;
    if (device->wake != NULL && !device->options.pumped && !device->options.polled) {
        device->wake(device->wake_context);
    }
}

/* ---- The queue's thread ---- */

static bool is_ending(const struct cell_device *device)
{
    return atomic_load_explicit(&device->end, memory_order_acquire);
}

/* Pauses for a random time, most of them short. */
static void pause_before_completion(struct queue *queue)
{
    uint64_t max_ns = queue->device->options.pause_ns_max;
    if (max_ns == 0) {
        return;
    }
    double unit = base_random_unit(&queue->random);
    uint64_t until_ns = base_now_ns() + (uint64_t)((double)max_ns * unit * unit);
    while (base_now_ns() < until_ns && !is_ending(queue->device)) {
        base_cpu_relax();
    }
}

/* Waits while the device is dead. */
static void wait_while_dead(struct queue *queue)
{
    while (atomic_load_explicit(&queue->device->dead, memory_order_acquire) &&
           !is_ending(queue->device)) {
        (void)base_event_wait(&queue->wake, 0, BASE_WAIT_FOREVER);
    }
}

/* Whether the n-th batch of the queue was there when the device was reset, or closed dead. */
static bool is_lost(struct queue *queue, uint64_t n)
{
    return n < atomic_load_explicit(&queue->lost_until, memory_order_acquire) ||
           atomic_load_explicit(&queue->device->dead, memory_order_acquire);
}

static void *queue_main(void *argument)
{
    struct queue *queue = argument;
    while (!is_ending(queue->device)) {
        struct cell_batch *batch = base_spsc_pop(queue->ring);
        if (batch == NULL) {
            (void)base_event_wait(&queue->wake, 0, BASE_WAIT_FOREVER);
            continue;
        }
        uint64_t n = atomic_load_explicit(&queue->completed, memory_order_relaxed);
        wait_while_dead(queue);
        if (!is_lost(queue, n)) {
            run_batch(queue, batch);
            pause_before_completion(queue);
            wait_while_dead(queue);
        }
        if (is_lost(queue, n)) {
            batch->status = BASE_UNAVAILABLE;
            batch->steps_done = 0;
        }
        complete(queue);
    }
    return NULL;
}

static void signal_all(struct cell_device *device)
{
    for (uint32_t q = 0; q < device->n_queues; q++) {
        base_event_signal(&device->queues[q].wake);
    }
}

/* ---- The backend ---- */

static void type_unload(struct cell_device *device, const struct cell_type *type)
{
    struct reference_cells *all = device->cells_of[type->id];
    for (uint32_t i = 0; all != NULL && i < QUEUES_MAX * MEMBERS_MAX; i++) {
        reference_cells_release(&all[i]);
    }
    base_free(all);
    device->cells_of[type->id] = NULL;
}

static void device_close(struct cell_device *device)
{
    atomic_store_explicit(&device->end, true, memory_order_release);
    signal_all(device);
    for (uint32_t q = 0; q < device->n_queues; q++) {
        if (device->queues[q].has_thread) {
            pthread_join(device->queues[q].thread, NULL);
        }
        base_spsc_free(device->queues[q].ring);
    }
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        base_assert(device->cells_of[t] == NULL); // every type was unloaded
    }
    for (uint32_t l = 0; l < CELL_LAYOUTS_MAX; l++) {
        base_free(device->stores[l].rows);
    }
    base_free(device);
}

static enum base_status queue_open(struct cell_device *device,
                                   const struct cell_device_options *options, uint32_t q)
{
    struct queue *queue = &device->queues[q];
    uint32_t capacity = 2;
    while (capacity < options->batches_queued_max) {
        capacity *= 2;
    }
    queue->device = device;
    queue->index = q;
    queue->team = device->options.pumped && options->teams != NULL ? options->teams[q] : NULL;
    base_assert(members_of(queue) <= MEMBERS_MAX);
    base_random_init(&queue->random, device->options.seed + q);
    base_event_init(&queue->wake);
    BASE_TRY(base_spsc_create(capacity, &queue->ring));
    if (!device->options.pumped) {
        if (pthread_create(&queue->thread, NULL, queue_main, queue) != 0) {
            return BASE_UNAVAILABLE;
        }
        queue->has_thread = true;
    }
    return BASE_OK;
}

static enum base_status device_open(const struct cell_device_options *options,
                                    struct cell_device **out, struct base_error *error)
{
    base_assert(options->n_queues >= 1 && options->n_queues <= QUEUES_MAX);
    if (options_next.open_status != BASE_OK) {
        return base_fail(error, options_next.open_status, "reference device: told not to open");
    }
    struct cell_device *device = base_alloc_aligned(sizeof(*device), BASE_CACHE_LINE);
    if (device == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "reference device: out of memory");
    }
    device->options = options_next;
    device->wake = options->wake;
    device->wake_context = options->wake_context;
    for (uint32_t q = 0; q < options->n_queues; q++) {
        device->n_queues++;
        enum base_status status = queue_open(device, options, q);
        if (status != BASE_OK) {
            device_close(device);
            return base_fail(error, status, "reference device: cannot open queue %u", q);
        }
    }
    last_opened = device;
    *out = device;
    return BASE_OK;
}

static void device_caps(const struct cell_device *device, struct cell_device_caps *out)
{
    *out = (struct cell_device_caps){.pumped = device->options.pumped,
                                     .wakes = !device->options.pumped && !device->options.polled,
                                     .invariant_bits = true,
                                     .description = "reference"};
}

static enum base_status type_load(struct cell_device *device, const struct cell_type *type,
                                  struct base_error *error)
{
    base_assert(type->id < CELL_TYPES_MAX && device->cells_of[type->id] == NULL);
    struct reference_cells *all = base_alloc_array((size_t)QUEUES_MAX * MEMBERS_MAX, sizeof(*all));
    device->cells_of[type->id] = all;
    bool ok = all != NULL;
    for (uint32_t i = 0; ok && i < device->n_queues * MEMBERS_MAX; i++) {
        if (i % MEMBERS_MAX < members_of(&device->queues[i / MEMBERS_MAX])) {
            ok = reference_cells_init(&all[i], type);
        }
    }
    return ok ? BASE_OK
              : base_fail(error, BASE_RESOURCE_EXHAUSTED, "reference device: out of memory");
}

static size_t row_bytes(const struct cell_device *device, const struct cell_layout *layout)
{
    (void)device;
    size_t bytes = 0;
    for (uint32_t p = 0; p < layout->n_parts; p++) {
        bytes += graphs_row_bytes(&layout->parts[p]);
    }
    return bytes;
}

static enum base_status rows_open(struct cell_device *device, uint32_t layout_id,
                                  const struct cell_layout *layout, uint32_t count,
                                  struct base_error *error)
{
    base_assert(layout_id < CELL_LAYOUTS_MAX && device->stores[layout_id].rows == NULL);
    struct store *store = &device->stores[layout_id];
    store->layout = layout;
    store->row_bytes = row_bytes(device, layout);
    store->rows = base_alloc_array(count, store->row_bytes);
    if (store->rows == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "reference device: out of memory");
    }
    store->count = count;
    for (uint32_t r = 0; r < count; r++) {
        poison(store, store->rows + r * store->row_bytes);
    }
    return BASE_OK;
}

static void submit(struct cell_device *device, uint32_t queue, struct cell_batch *batch)
{
    base_assert(queue < device->n_queues);
    atomic_fetch_add_explicit(&device->queues[queue].submitted, 1, memory_order_relaxed);
    bool pushed = base_spsc_push(device->queues[queue].ring, batch);
    base_assert(pushed);
    if (!device->options.pumped) {
        base_event_signal(&device->queues[queue].wake);
    }
}

static const _Atomic uint64_t *completed(struct cell_device *device, uint32_t queue)
{
    base_assert(queue < device->n_queues);
    return &device->queues[queue].completed;
}

static bool pump(struct cell_device *device, uint32_t queue)
{
    base_assert(queue < device->n_queues && device->options.pumped);
    struct cell_batch *batch = base_spsc_pop(device->queues[queue].ring);
    if (batch == NULL) {
        return false;
    }
    run_batch(&device->queues[queue], batch);
    complete(&device->queues[queue]);
    return true;
}

/* A state part is held once: as it is after the last step done. */
static void row_read(struct cell_device *device, uint32_t layout_id, uint32_t row, uint32_t part,
                     uint32_t step, void *out)
{
    (void)step;
    memcpy(out, part_at(device, layout_id, row, part),
           graphs_row_bytes(&device->stores[layout_id].layout->parts[part]));
}

static void row_write(struct cell_device *device, uint32_t layout_id, uint32_t row, uint32_t part,
                      uint32_t step, const void *in)
{
    (void)step;
    memcpy(part_at(device, layout_id, row, part), in,
           graphs_row_bytes(&device->stores[layout_id].layout->parts[part]));
}

const struct cell_backend *reference_backend(void)
{
    static const struct cell_backend backend = {
        .name = "reference",
        .open = device_open,
        .close = device_close,
        .caps = device_caps,
        .type_load = type_load,
        .type_unload = type_unload,
        .row_bytes = row_bytes,
        .rows_open = rows_open,
        .submit = submit,
        .completed = completed,
        .pump = pump,
        .row_read = row_read,
        .row_write = row_write,
    };
    return &backend;
}

/* ---- Script and counts ---- */

void reference_fail(struct cell_device *device, uint64_t n, enum base_status status)
{
    atomic_store(&device->fail_status, (uint32_t)status);
    atomic_store_explicit(&device->fail_in, n, memory_order_release);
}

void reference_die(struct cell_device *device)
{
    base_assert(!device->options.pumped);
    atomic_store_explicit(&device->dead, true, memory_order_release);
}

void reference_reset(struct cell_device *device)
{
    for (uint32_t q = 0; q < device->n_queues; q++) {
        struct queue *queue = &device->queues[q];
        atomic_store_explicit(&queue->lost_until, atomic_load(&queue->submitted),
                              memory_order_release);
    }
    atomic_store_explicit(&device->dead, false, memory_order_release);
    signal_all(device);
}

struct cell_device *reference_last(void)
{
    return last_opened;
}

uint64_t reference_submitted(const struct cell_device *device)
{
    uint64_t submitted = 0;
    for (uint32_t q = 0; q < device->n_queues; q++) {
        submitted += atomic_load(&device->queues[q].submitted);
    }
    return submitted;
}

struct reference_counts reference_counts(const struct cell_device *device)
{
    return (struct reference_counts){
        .batches = atomic_load_explicit(&device->batches, memory_order_relaxed),
        .steps = atomic_load_explicit(&device->steps, memory_order_relaxed),
        .cells = atomic_load_explicit(&device->cells, memory_order_relaxed),
        .interrupted = atomic_load_explicit(&device->interrupted, memory_order_relaxed)};
}
