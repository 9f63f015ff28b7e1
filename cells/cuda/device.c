/* The CUDA device: life, types, rows; see device.h. Batches are in queue.c. */
#include "cells/cuda/device_state.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

/* ---- Life ----------------------------------------------------------------------------------- */

static enum base_status open_all(struct cell_device *device, struct base_error *error)
{
    const struct cell_cuda_driver *driver = device->driver;
    enum base_status status =
        driver->alloc(device->cuda, sizeof(device->stores), &device->stores_at);
    for (uint32_t q = 0; q < device->n_queues && status == BASE_OK; q++) {
        status = cell_cuda__queue_open(device, &device->queues[q]);
    }
    if (status != BASE_OK) {
        return base_fail(error, status, "%s device: cannot open its streams", driver->name);
    }
    return device->n_queues == 0 ? BASE_OK : cell_cuda__queue_try(&device->queues[0], error);
}

enum base_status cell_cuda_open(const struct cell_cuda_driver *driver,
                                enum cell_cuda_products products,
                                const struct cell_device_options *options, struct cell_device **out,
                                struct base_error *error)
{
    base_assert(options->batches_queued_max >= 1);
    if (options->n_queues > CELL_CUDA__QUEUES_MAX ||
        options->batches_queued_max > CELL_CUDA__BATCHES_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "a %s device has %u queues at most, and %u batches on each", driver->name,
                         CELL_CUDA__QUEUES_MAX, CELL_CUDA__BATCHES_MAX);
    }
    struct cell_device *device = base_alloc_aligned(sizeof(*device), BASE_CACHE_LINE);
    if (device == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s device: out of memory", driver->name);
    }
    device->driver = driver;
    device->products = products;
    device->watchdog_ns = options->watchdog_ns;
    device->lanes_off = options->lanes_off;
    device->batches_max = options->batches_queued_max;
    enum base_status status = driver->open(options, &device->cuda, error);
    if (status != BASE_OK) {
        base_free(device);
        return status;
    }
    device->n_queues = options->n_queues;
    (void)snprintf(device->description, sizeof(device->description), "%s:%u %s, %s products",
                   driver->name, options->card, driver->description(device->cuda),
                   products == CELL_CUDA_OWN ? "exact" : "library");
    status = open_all(device, error);
    if (status != BASE_OK) {
        cell_cuda_close(device);
        return status;
    }
    *out = device;
    return BASE_OK;
}

static void drain(struct cell_device *device)
{
    cell_cuda__lanes_park(device);
    for (uint32_t q = 0; q < device->n_queues; q++) {
        if (device->queues[q].device != NULL) {
            cell_cuda__queue_drain(&device->queues[q]);
        }
    }
}

/* What a lost card still has is left to the end of the process: to give it back would wait for it.
 */
void cell_cuda_close(struct cell_device *device)
{
    const struct cell_cuda_driver *driver = device->driver;
    drain(device);
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        base_assert(device->types[t] == NULL); // every type was unloaded
    }
    for (uint32_t q = 0; q < device->n_queues; q++) {
        if (device->queues[q].device != NULL) {
            cell_cuda__queue_close(&device->queues[q]);
        }
    }
    for (uint32_t l = 0; l < CELL_LAYOUTS_MAX && !device->is_lost; l++) {
        driver->free(device->cuda, device->stores[l].memory);
    }
    if (!device->is_lost) {
        driver->free(device->cuda, device->stores_at);
    }
    driver->close(device->cuda, device->is_lost);
    base_free(device);
}

void cell_cuda_caps(const struct cell_device *device, struct cell_device_caps *out)
{
    *out = (struct cell_device_caps){.invariant_bits = device->products == CELL_CUDA_OWN,
                                     .description = device->description};
}

bool cell_cuda_is_lost(const struct cell_device *device)
{
    return device->is_lost;
}

const char *cell_cuda_why_lost(const struct cell_device *device)
{
    return device->why_lost.message;
}

/* ---- Types ---------------------------------------------------------------------------------- */

/* Staging as large as the type needs it. */
static enum base_status stage(struct cell_device *device, const struct cell_type *type,
                              struct base_error *error)
{
    size_t in = 0;
    size_t out = 0;
    cell_cuda__piece_sizes(type, &in, &out);
    if (in <= device->in_bytes && out <= device->out_bytes) {
        return BASE_OK;
    }
    device->in_bytes = in > device->in_bytes ? in : device->in_bytes;
    device->out_bytes = out > device->out_bytes ? out : device->out_bytes;
    for (uint32_t q = 0; q < device->n_queues; q++) {
        const enum base_status status = cell_cuda__queue_stage(&device->queues[q]);
        if (status != BASE_OK) {
            return base_fail(error, status, "no %zu bytes of pinned memory",
                             CELL_CUDA__SLOTS * (device->in_bytes + device->out_bytes));
        }
    }
    return BASE_OK;
}

enum base_status cell_cuda_type_load(struct cell_device *device, const struct cell_type *type,
                                     struct base_error *error)
{
    base_assert(type->id < CELL_TYPES_MAX && device->types[type->id] == NULL);
    drain(device);
    BASE_TRY(cell_cuda__check(&type->def, error));
    BASE_TRY(stage(device, type, error));
    return cell_cuda__type_create(device, type, &device->types[type->id], error);
}

void cell_cuda_type_unload(struct cell_device *device, const struct cell_type *type)
{
    struct cell_cuda__type *loaded = device->types[type->id];
    base_assert(loaded != NULL);
    drain(device);
    cell_cuda__type_free(device, loaded);
    device->types[type->id] = NULL;
}

void cell_cuda_type_explain(const struct cell_device *device, const struct cell_type *type,
                            struct base_buf *out)
{
    static const char *const names[] = {
#define NAME_OF(NAME, name, lanes, phases) #name,
        CELL_STEP_MAP(NAME_OF)
#undef NAME_OF
    };
    const struct cell_cuda__type *loaded = device->types[type->id];
    const struct cell_cuda__program *program = &loaded->programs[0];
    if (loaded->lanes[0] != NULL) {
        const struct cell_cuda__lane_shape *shape = &loaded->lanes[0]->shape;
        base_buf_printf(out, "  a lane on each queue: %s, %u bytes of weights\n",
                        shape->is_lstm ? shape->kernel->lstm : shape->kernel->gru,
                        shape->layout.bytes);
        base_buf_text(out, "  what lanes cannot give away goes through the stream:\n");
    } else {
        base_buf_printf(out, "  no lane: %s\n", loaded->why_no_lane.message);
    }
    base_buf_printf(out, "  %u kernels a step, recorded for 1 to %u rows; %zu bytes of weights\n",
                    program->n_ops - program->n_searching, CELL_STEP_ROWS_MAX,
                    loaded->weight_bytes);
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_cuda__op *op = &program->ops[o];
        base_buf_printf(out, "  %-10s %s", names[op->step.kernel], op->about);
        if (op->step.kernel == CELL_STEP_PRODUCT) {
            const struct cell_step_product *product = &op->step.product;
            base_buf_printf(out, ", %u x %u %s, %s", product->inputs, product->outputs,
                            cell_products_name((enum cell_products)product->products),
                            op->is_of_library ? "by the library" : "own kernel");
            base_buf_printf(out, ", weights %s",
                            product->order == CELL_STEP_NK ? "[n, k]" : "[k, n]");
        }
        base_buf_text(out, "\n");
    }
}

/* ---- Rows ----------------------------------------------------------------------------------- */

static struct cell_lane_rows rows_of(const struct cell_layout *layout, uint32_t count)
{
    struct cell_lane_rows rows;
    cell_lane_rows_init(&rows, count);
    for (uint32_t p = 0; p < layout->n_parts; p++) {
        const bool is_twice = layout->kind == CELL_LAYOUT_STATE && layout->twice[p];
        cell_lane_rows_add(&rows, cell_cuda__bytes(&layout->parts[p]), is_twice);
    }
    return rows;
}

size_t cell_cuda_row_bytes(const struct cell_device *device, const struct cell_layout *layout)
{
    (void)device;
    return (size_t)rows_of(layout, 1).bytes;
}

enum base_status cell_cuda_rows_open(struct cell_device *device, uint32_t layout_id,
                                     const struct cell_layout *layout, uint32_t count,
                                     struct base_error *error)
{
    base_assert(layout_id < CELL_LAYOUTS_MAX && device->stores[layout_id].memory == 0);
    struct cell_step_store *store = &device->stores[layout_id];
    drain(device);
    store->rows = rows_of(layout, count);
    enum base_status status =
        device->driver->alloc(device->cuda, (size_t)store->rows.bytes, &store->memory);
    if (status == BASE_OK) {
        status = device->driver->write(device->cuda, device->stores_at + layout_id * sizeof(*store),
                                       store, sizeof(*store));
    }
    return status == BASE_OK
               ? BASE_OK
               : base_fail(error, status, "no %llu bytes of the card's memory for %u rows",
                           (unsigned long long)store->rows.bytes, count);
}

static cell_step_address part_at(const struct cell_device *device, uint32_t layout, uint32_t row,
                                 uint32_t part, uint32_t step)
{
    base_assert(layout < CELL_LAYOUTS_MAX && row < device->stores[layout].rows.count);
    const struct cell_step_store *store = &device->stores[layout];
    return store->memory + cell_lane_rows_at(&store->rows, row, part, step);
}

void cell_cuda_row_read(struct cell_device *device, uint32_t layout_id, uint32_t row, uint32_t part,
                        uint32_t step, void *out)
{
    drain(device);
    const enum base_status status =
        device->driver->read(device->cuda, out, part_at(device, layout_id, row, part, step),
                             device->stores[layout_id].rows.parts[part].value_bytes);
    device->is_lost |= status != BASE_OK;
}

void cell_cuda_row_write(struct cell_device *device, uint32_t layout_id, uint32_t row,
                         uint32_t part, uint32_t step, const void *in)
{
    drain(device);
    const enum base_status status =
        device->driver->write(device->cuda, part_at(device, layout_id, row, part, step), in,
                              device->stores[layout_id].rows.parts[part].value_bytes);
    device->is_lost |= status != BASE_OK;
}
