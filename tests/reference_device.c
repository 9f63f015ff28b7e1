/* The reference device; see reference_device.h.
 *
 * Data: reference_state.h. Threads: one a lane (reference_lane.c); script and counts are atomics.
 * Nothing is allocated after type_load and rows_open. */
#include "tests/reference_device.h"

#include "base/assert.h"
#include "tests/reference_state.h"
#include "tests/scheduler/graphs.h"

#include <string.h>

static struct reference_options options_next;
static struct cell_device *last_opened;

void reference_configure(const struct reference_options *options)
{
    options_next = *options;
}

/* ---- The backend ---- */

static void type_unload(struct cell_device *device, const struct cell_type *type)
{
    struct reference_cells *all = device->cells_of[type->id];
    device->types[type->id] = NULL;
    if (device->inner != NULL) {
        device->options.inner->type_unload(device->inner, type);
        return;
    }
    for (uint32_t i = 0; all != NULL && i < REFERENCE__QUEUES_MAX * REFERENCE__MEMBERS_MAX; i++) {
        reference_cells_release(&all[i]);
    }
    base_free(all);
    device->cells_of[type->id] = NULL;
}

static void queue_close(struct reference__queue *queue)
{
    if (queue->device->options.pumped) {
        base_spsc_free(queue->ring);
    } else {
        reference__lane_close(queue);
    }
}

static void device_close(struct cell_device *device)
{
    atomic_store_explicit(&device->end, true, memory_order_release);
    for (uint32_t q = 0; q < device->n_queues; q++) {
        queue_close(&device->queues[q]);
    }
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        base_assert(device->types[t] == NULL); // every type was unloaded
    }
    for (uint32_t l = 0; l < CELL_LAYOUTS_MAX; l++) {
        base_free(device->stores[l].memory);
    }
    if (device->inner != NULL) {
        device->options.inner->close(device->inner);
    }
    if (last_opened == device) {
        last_opened = NULL;
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
    if (device->options.pumped) {
        return base_spsc_create(capacity, &queue->ring);
    }
    base_assert(capacity <= REFERENCE__SLOTS);
    return reference__lane_open(queue, options->watchdog_ns);
}

static enum base_status inner_open(struct cell_device *device,
                                   const struct cell_device_options *options,
                                   struct base_error *error)
{
    const struct cell_backend *inner = device->options.inner;
    if (inner == NULL || device->options.pumped) {
        return BASE_OK;
    }
    struct cell_device_options of_inner = *options;
    of_inner.batches_queued_max = 1;
    of_inner.wake = NULL;
    return inner->open(&of_inner, &device->inner, error);
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
    enum base_status opened = inner_open(device, options, error);
    if (opened != BASE_OK) {
        device_close(device);
        return opened;
    }
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
                                     .live = true,
                                     .invariant_bits = true,
                                     .description = "reference"};
}

static enum base_status type_load(struct cell_device *device, const struct cell_type *type,
                                  struct base_error *error)
{
    base_assert(type->id < CELL_TYPES_MAX && device->types[type->id] == NULL);
    if (device->inner != NULL) {
        BASE_TRY(device->options.inner->type_load(device->inner, type, error));
        device->types[type->id] = type;
        return BASE_OK;
    }
    device->types[type->id] = type;
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

static void rows_init(struct cell_lane_rows *rows, const struct cell_layout *layout, uint32_t count)
{
    cell_lane_rows_init(rows, count);
    for (uint32_t p = 0; p < layout->n_parts; p++) {
        bool twice = layout->kind == CELL_LAYOUT_STATE && layout->twice[p];
        cell_lane_rows_add(rows, (uint32_t)graphs_row_bytes(&layout->parts[p]), twice);
    }
}

static size_t row_bytes(const struct cell_device *device, const struct cell_layout *layout)
{
    struct cell_lane_rows rows;
    if (device->inner != NULL) {
        return device->options.inner->row_bytes(device->inner, layout);
    }
    rows_init(&rows, layout, 1);
    return (size_t)rows.bytes;
}

static enum base_status rows_open(struct cell_device *device, uint32_t layout_id,
                                  const struct cell_layout *layout, uint32_t count,
                                  struct base_error *error)
{
    struct reference__store *store = &device->stores[layout_id];
    if (device->inner != NULL) {
        return device->options.inner->rows_open(device->inner, layout_id, layout, count, error);
    }
    base_assert(layout_id < CELL_LAYOUTS_MAX && store->memory == NULL);
    store->layout = layout;
    rows_init(&store->rows, layout, count);
    store->memory = base_alloc_aligned((size_t)store->rows.bytes, CELL_LANE_ROW_ALIGN);
    if (store->memory == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "reference device: out of memory");
    }
    for (uint32_t r = 0; r < count; r++) {
        reference__poison(store, r);
    }
    return BASE_OK;
}

static void submit(struct cell_device *device, uint32_t index, struct cell_batch *batch)
{
    base_assert(index < device->n_queues);
    struct reference__queue *queue = &device->queues[index];
    atomic_fetch_add_explicit(&queue->submitted, 1, memory_order_relaxed);
    if (!device->options.pumped) {
        reference__lane_submit(queue, batch);
        return;
    }
    bool pushed = base_spsc_push(queue->ring, batch);
    base_assert(pushed);
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
    // Release: results, status and steps_done are visible to whoever sees the count.
    atomic_fetch_add_explicit(&device->queues[queue].completed, 1, memory_order_release);
    return true;
}

static void poll(struct cell_device *device, uint32_t queue, uint64_t now_ns)
{
    if (!device->options.pumped) {
        reference__lane_poll(&device->queues[queue], now_ns);
    }
}

static bool is_lost(const struct cell_device *device)
{
    return device->is_lost;
}

static _Atomic uint32_t *attention(struct cell_device *device, uint32_t queue)
{
    return device->options.pumped ? NULL : &device->queues[queue].lane.control->attention;
}

static void row_read(struct cell_device *device, uint32_t layout_id, uint32_t row, uint32_t part,
                     uint32_t step, void *out)
{
    if (device->inner != NULL) {
        device->options.inner->row_read(device->inner, layout_id, row, part, step, out);
        return;
    }
    memcpy(out, reference__part_at(device, layout_id, row, part, step),
           device->stores[layout_id].rows.parts[part].value_bytes);
}

static void row_write(struct cell_device *device, uint32_t layout_id, uint32_t row, uint32_t part,
                      uint32_t step, const void *in)
{
    if (device->inner != NULL) {
        device->options.inner->row_write(device->inner, layout_id, row, part, step, in);
        return;
    }
    memcpy(reference__part_at(device, layout_id, row, part, step), in,
           device->stores[layout_id].rows.parts[part].value_bytes);
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
        .poll = poll,
        .is_lost = is_lost,
        .attention = attention,
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
}

void reference_hang(struct cell_device *device, enum reference_hang hang)
{
    base_assert(!device->options.pumped);
    atomic_store_explicit(&device->hang, hang, memory_order_relaxed);
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
        .interrupted = atomic_load_explicit(&device->interrupted, memory_order_relaxed),
        .launches = atomic_load_explicit(&device->launches, memory_order_relaxed)};
}
