/* The reference device; see reference_device.h.
 *
 * Data: reference_state.h. Threads: one a queue; submit on the pool thread meets it in the ring;
 * script and counts are atomics. Nothing is allocated after type_load and rows_open. */
#include "tests/reference_device.h"

#include "base/assert.h"
#include "base/clock.h"
#include "tests/reference_state.h"
#include "tests/scheduler/graphs.h"

#include <string.h>

static struct reference_options options_next;
static struct cell_device *last_opened;

void reference_configure(const struct reference_options *options)
{
    options_next = *options;
}

/* ---- The queue's thread ---- */

/* Release: results, status and steps_done are visible to whoever sees the count. */
static void complete(struct reference__queue *queue)
{
    atomic_fetch_add_explicit(&queue->completed, 1, memory_order_release);
    struct cell_device *device = queue->device;
    if (device->wake != NULL && !device->options.pumped && !device->options.polled) {
        device->wake(device->wake_context);
    }
}

static bool is_ending(const struct cell_device *device)
{
    return atomic_load_explicit(&device->end, memory_order_acquire);
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
    while (base_now_ns() < until_ns && !is_ending(queue->device)) {
        base_cpu_relax();
    }
}

/* Waits while the device is dead. */
static void wait_while_dead(struct reference__queue *queue)
{
    while (atomic_load_explicit(&queue->device->dead, memory_order_acquire) &&
           !is_ending(queue->device)) {
        (void)base_event_wait(&queue->wake, 0, BASE_WAIT_FOREVER);
    }
}

/* Whether the n-th batch of the queue was there when the device was reset, or closed dead. */
static bool is_lost(struct reference__queue *queue, uint64_t n)
{
    return n < atomic_load_explicit(&queue->lost_until, memory_order_acquire) ||
           atomic_load_explicit(&queue->device->dead, memory_order_acquire);
}

static void *queue_main(void *argument)
{
    struct reference__queue *queue = argument;
    while (!is_ending(queue->device)) {
        struct cell_batch *batch = base_spsc_pop(queue->ring);
        if (batch == NULL) {
            (void)base_event_wait(&queue->wake, 0, BASE_WAIT_FOREVER);
            continue;
        }
        uint64_t n = atomic_load_explicit(&queue->completed, memory_order_relaxed);
        wait_while_dead(queue);
        if (!is_lost(queue, n)) {
            reference__run(queue, batch);
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
    for (uint32_t i = 0; all != NULL && i < REFERENCE__QUEUES_MAX * REFERENCE__MEMBERS_MAX; i++) {
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
    struct reference__queue *queue = &device->queues[q];
    uint32_t capacity = 2;
    while (capacity < options->batches_queued_max) {
        capacity *= 2;
    }
    queue->device = device;
    queue->index = q;
    queue->team = device->options.pumped && options->teams != NULL ? options->teams[q] : NULL;
    base_assert(reference__members(queue) <= REFERENCE__MEMBERS_MAX);
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
    base_assert(options->n_queues >= 1 && options->n_queues <= REFERENCE__QUEUES_MAX);
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
    struct reference_cells *all =
        base_alloc_array((size_t)REFERENCE__QUEUES_MAX * REFERENCE__MEMBERS_MAX, sizeof(*all));
    device->cells_of[type->id] = all;
    bool ok = all != NULL;
    for (uint32_t i = 0; ok && i < device->n_queues * REFERENCE__MEMBERS_MAX; i++) {
        if (i % REFERENCE__MEMBERS_MAX <
            reference__members(&device->queues[i / REFERENCE__MEMBERS_MAX])) {
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
    struct reference__store *store = &device->stores[layout_id];
    store->layout = layout;
    store->row_bytes = row_bytes(device, layout);
    store->rows = base_alloc_array(count, store->row_bytes);
    if (store->rows == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "reference device: out of memory");
    }
    store->count = count;
    for (uint32_t r = 0; r < count; r++) {
        reference__poison(store, store->rows + r * store->row_bytes);
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
    reference__run(&device->queues[queue], batch);
    complete(&device->queues[queue]);
    return true;
}

/* A state part is held once: as it is after the last step done. */
static void row_read(struct cell_device *device, uint32_t layout_id, uint32_t row, uint32_t part,
                     uint32_t step, void *out)
{
    (void)step;
    memcpy(out, reference__part_at(device, layout_id, row, part),
           graphs_row_bytes(&device->stores[layout_id].layout->parts[part]));
}

static void row_write(struct cell_device *device, uint32_t layout_id, uint32_t row, uint32_t part,
                      uint32_t step, const void *in)
{
    (void)step;
    memcpy(reference__part_at(device, layout_id, row, part), in,
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
        struct reference__queue *queue = &device->queues[q];
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
