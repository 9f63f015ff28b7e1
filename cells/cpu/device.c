/* The CPU device: row stores, loaded types and, a queue, a ring of submitted batches. A batch runs
 * inside pump(), on the caller's thread and its team.
 *
 * Threads: submit on the pool thread and pump on the thread that drives the queue meet in the ring
 * (single producer, single consumer); the completion counter has a cache line of its own. All else
 * is written at load time only. */
#include "cells/cpu/device.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/ring.h"
#include "cells/cpu/ahead.h"
#include "cells/cpu/beside.h"
#include "cells/cpu/knee.h"
#include "cells/cpu/places.h"
#include "cells/cpu/program.h"
#include "cells/cpu/rows.h"
#include "cells/cpu/run.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct queue {
    _Alignas(BASE_CACHE_LINE) _Atomic uint64_t completed;
    _Alignas(BASE_CACHE_LINE) struct base_spsc *ring;
    struct cell_submitted *slots; /* [batches_max]; what the ring points to */
    uint64_t n_submitted;         /* ever; of the thread that submits */
    struct cell_team *team;       /* NULL: the pumping thread alone */
    struct cell_run run;          /* of the batch that has begun */
    struct cell_beside beside;    /* likewise, where another runs beside it */
    bool has_begun, is_beside;
};

struct cell_device {
    const struct cell_kernels *kernels;
    char description[64];
    uint32_t n_queues;
    uint32_t batches_max; /* outstanding in each */
    struct queue *queues;
    uint32_t *n_members;
    struct cell_program *programs[CELL_TYPES_MAX]; /* NULL: not loaded */
    struct cell_rows stores[CELL_LAYOUTS_MAX];
};

static uint32_t ring_capacity(uint32_t batches)
{
    uint32_t capacity = 2;
    while (capacity < batches) {
        capacity *= 2;
    }
    return capacity;
}

static enum base_status open_queues(struct cell_device *device,
                                    const struct cell_device_options *options)
{
    device->queues =
        base_alloc_aligned(options->n_queues * sizeof(struct queue), _Alignof(struct queue));
    device->n_members = base_alloc_array(options->n_queues, sizeof(uint32_t));
    if (device->queues == NULL || device->n_members == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    device->n_queues = options->n_queues;
    device->batches_max = ring_capacity(options->batches_queued_max);
    for (uint32_t q = 0; q < options->n_queues; q++) {
        struct queue *queue = &device->queues[q];
        queue->team = options->teams == NULL ? NULL : options->teams[q];
        device->n_members[q] = queue->team == NULL ? 1 : queue->team->members;
        atomic_init(&queue->completed, 0);
        queue->slots = base_alloc_array(device->batches_max, sizeof(*queue->slots));
        if (queue->slots == NULL) {
            return BASE_RESOURCE_EXHAUSTED;
        }
        BASE_TRY(base_spsc_create(device->batches_max, &queue->ring));
    }
    return BASE_OK;
}

static void describe(struct cell_device *device, const char *name)
{
    uint32_t threads = 0;
    for (uint32_t q = 0; q < device->n_queues; q++) {
        threads += device->n_members[q];
    }
    (void)snprintf(device->description, sizeof(device->description), "%s %s, %u thread%s", name,
                   device->kernels->name, threads, threads == 1 ? "" : "s");
}

enum base_status cell_cpu_open(const struct cell_device_options *options,
                               const struct cell_kernels *kernels, const char *name,
                               struct cell_device **out, struct base_error *error)
{
    if (options->n_queues == 0 || options->batches_queued_max == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s device: no queue, or no room in it",
                         name);
    }
    struct cell_device *device = base_alloc(sizeof(*device));
    if (device == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s device: out of memory", name);
    }
    device->kernels = kernels;
    if (open_queues(device, options) != BASE_OK) {
        cell_cpu_close(device);
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s device: out of memory", name);
    }
    describe(device, name);
    *out = device;
    return BASE_OK;
}

void cell_cpu_close(struct cell_device *device)
{
    for (uint32_t q = 0; q < device->n_queues; q++) {
        base_spsc_free(device->queues[q].ring);
        base_free(device->queues[q].slots);
    }
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        cell_program_free(device->programs[t]);
    }
    for (uint32_t l = 0; l < CELL_LAYOUTS_MAX; l++) {
        cell_rows_close(&device->stores[l]);
    }
    base_free(device->queues);
    base_free(device->n_members);
    base_free(device);
}

void cell_cpu_caps(const struct cell_device *device, struct cell_device_caps *out)
{
    bool has_others = device->kernels->invariant;
    for (uint32_t q = 0; q < device->n_queues; q++) {
        has_others &= device->n_members[q] > 1;
    }
    *out = (struct cell_device_caps){.pumped = true,
                                     .beside = has_others,
                                     .spans = true,
                                     .live = true,
                                     .label_beams = true,
                                     .invariant_bits = device->kernels->invariant,
                                     .description = device->description};
}

enum base_status cell_cpu_type_load(struct cell_device *device, const struct cell_type *type,
                                    struct base_error *error)
{
    base_assert(type->id < CELL_TYPES_MAX && device->programs[type->id] == NULL);
    struct cell_program **program = &device->programs[type->id];
    const struct cell_program_queues queues = {
        .n = device->n_queues, .n_members = device->n_members, .batches = device->batches_max};
    BASE_TRY(cell_program_create(type, device->kernels, &queues, program, error));
    cell_run_tune(*program, NULL);
    (*program)->knee_rows = cell_knee_rows(*program);
    return BASE_OK;
}

void cell_cpu_type_unload(struct cell_device *device, const struct cell_type *type)
{
    cell_program_free(device->programs[type->id]);
    device->programs[type->id] = NULL;
}

/* Sums that a library orders have other bits ahead than in their step, and in a panel of another
 * size: nothing to choose there. */
uint32_t cell_cpu_type_tuning(const struct cell_device *device, const struct cell_type *type,
                              struct cell_tuning *out)
{
    const struct cell_program *program = device->programs[type->id];
    uint32_t tunable = program->windows != NULL ? CELL_TUNABLE_WINDOWS : 0;
    for (uint32_t q = 0; q < program->n_queues; q++) {
        tunable |= program->n_members[q] > 1 ? CELL_TUNABLE_TEAM : 0;
    }
    tunable |= program->apart != NULL ? CELL_TUNABLE_APART : 0;
    tunable |= program->beside_rows > 0 && cell_program_most_members(program) == 2
                   ? CELL_TUNABLE_BESIDE
                   : 0;
    *out = (struct cell_tuning){.ahead_rows = program->ahead_rows,
                                .fill_steps = program->fill_steps,
                                .solo_rows = program->solo_rows,
                                .apart_rows = program->apart_rows,
                                .beside_rows = program->beside_rows,
                                .follow_rows = program->follow_rows,
                                .knee_rows = program->knee_rows};
    return device->kernels->invariant ? tunable : 0;
}

void cell_cpu_type_tune(struct cell_device *device, const struct cell_type *type,
                        const struct cell_tuning *tuning)
{
    struct cell_program *program = device->programs[type->id];
    program->knee_rows = tuning != NULL ? tuning->knee_rows : cell_knee_rows(program);
    if (!device->kernels->invariant) {
        return;
    }
    cell_run_tune(program, tuning);
    if (program->windows != NULL) {
        cell_windows_tune(program, tuning);
    }
}

const struct cell_program *cell_cpu__program(const struct cell_device *device,
                                             const struct cell_type *type)
{
    base_assert(device->programs[type->id] != NULL);
    return device->programs[type->id];
}

size_t cell_cpu_row_bytes(const struct cell_device *device, const struct cell_layout *layout)
{
    (void)device;
    return cell_rows_bytes(layout);
}

enum base_status cell_cpu_rows_open(struct cell_device *device, uint32_t layout_id,
                                    const struct cell_layout *layout, uint32_t count,
                                    struct base_error *error)
{
    base_assert(layout_id < CELL_LAYOUTS_MAX);
    if (cell_rows_open(&device->stores[layout_id], layout, count) != BASE_OK) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory for %u rows of %zu bytes",
                         count, cell_rows_bytes(layout));
    }
    return BASE_OK;
}

void cell_cpu_submit(struct cell_device *device, uint32_t queue, struct cell_batch *batch)
{
    base_assert(queue < device->n_queues && device->programs[batch->type->id] != NULL);
    struct queue *own = &device->queues[queue];
    // No more are outstanding than there are slots: the batch that had this one is completed.
    const uint32_t slot = (uint32_t)(own->n_submitted++ % device->batches_max);
    own->slots[slot] =
        (struct cell_submitted){.batch = batch,
                                .places = cell_places_find(device->programs[batch->type->id],
                                                           device->stores, queue, slot, batch)};
    bool has_room = base_spsc_push(own->ring, &own->slots[slot]);
    base_assert(has_room);
}

const _Atomic uint64_t *cell_cpu_completed(struct cell_device *device, uint32_t queue)
{
    base_assert(queue < device->n_queues);
    return &device->queues[queue].completed;
}

void cell_cpu_begin(struct cell_device *device, uint32_t queue)
{
    base_assert(queue < device->n_queues);
    struct queue *own = &device->queues[queue];
    const struct cell_submitted *submitted = own->has_begun ? NULL : base_spsc_pop(own->ring);
    if (submitted == NULL) {
        return;
    }
    struct cell_batch *batch = submitted->batch;
    struct cell_program *program = device->programs[batch->type->id];
    own->has_begun = true;
    own->is_beside = batch->beside != NULL;
    if (own->is_beside) {
        struct cell_program *both[2] = {program, device->programs[batch->beside->type->id]};
        cell_beside_begin(&own->beside, both, device->stores, queue, own->team, submitted);
    } else {
        cell_run_begin(&own->run, program, device->stores, queue, own->team, submitted);
    }
}

bool cell_cpu_pump(struct cell_device *device, uint32_t queue)
{
    struct queue *own = &device->queues[queue];
    cell_cpu_begin(device, queue);
    if (!own->has_begun) {
        return false;
    }
    if (own->is_beside) {
        cell_beside_end(&own->beside);
    } else {
        cell_run_end(&own->run);
    }
    own->has_begun = false;
    // Release: who sees the count also sees the batch's results, status and steps.
    atomic_fetch_add_explicit(&own->completed, own->is_beside ? 2 : 1, memory_order_release);
    return true;
}

void cell_cpu_row_read(struct cell_device *device, uint32_t layout_id, uint32_t row, uint32_t part,
                       uint32_t step, void *out)
{
    base_assert(layout_id < CELL_LAYOUTS_MAX);
    const struct cell_rows *rows = &device->stores[layout_id];
    memcpy(out, cell_rows_part(rows, row, part, step), cell_rows_value_bytes(rows, part));
}

void cell_cpu_row_write(struct cell_device *device, uint32_t layout_id, uint32_t row, uint32_t part,
                        uint32_t step, const void *in)
{
    base_assert(layout_id < CELL_LAYOUTS_MAX);
    const struct cell_rows *rows = &device->stores[layout_id];
    memcpy(cell_rows_part(rows, row, part, step), in, cell_rows_value_bytes(rows, part));
}

static enum base_status open_cpu(const struct cell_device_options *options,
                                 struct cell_device **out, struct base_error *error)
{
    const struct cell_kernels *kernels = NULL;
    BASE_TRY(cell_kernels_choose(options->isa, &kernels, error));
    return cell_cpu_open(options, kernels, "cpu", out, error);
}

const struct cell_backend cell_backend_cpu = CELL_CPU_BACKEND("cpu", open_cpu);
