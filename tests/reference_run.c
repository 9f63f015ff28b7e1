/* Rows and batches of the reference device; see reference_state.h. Nothing is allocated. */
#include "base/assert.h"
#include "base/clock.h"
#include "tests/reference_state.h"
#include "tests/scheduler/graphs.h"

#include <string.h>

/* Reads as zeros: as wide as any row of a test. */
static const uint8_t zeros[4096];

/* ---- Rows ---- */

void reference__poison(const struct reference__store *store, uint8_t *row)
{
    memset(row, 0xFF, store->row_bytes);
}

static uint8_t *row_at(const struct cell_device *device, uint32_t layout, uint32_t row)
{
    const struct reference__store *store = &device->stores[layout];
    base_assert(row < store->count);
    return store->rows + row * store->row_bytes;
}

uint8_t *reference__part_at(const struct cell_device *device, uint32_t layout, uint32_t row,
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

static bool is_at_end(const struct cell_type *type, const struct cell_wiring *wiring,
                      void *const *states)
{
    base_assert(wiring->beam == NULL); // nobody asks it for one
    const struct cell_end *end = wiring->end;
    return end != NULL && cell_integer_at(type->def.values[type->def.n_inputs + end->state].dtype,
                                          states[end->state]) == end->id;
}

/* Step `step` of a node; whether its chain has ended by it. */
static bool run_cell(struct cell_device *device, struct reference_cells *cells,
                     const struct cell_wiring *wiring, uint32_t step)
{
    const struct cell_type *type = cells->type;
    const struct cell_def *def = &type->def;
    const void *inputs[CELL_INPUTS_MAX] = {NULL};
    void *states[CELL_STATES_MAX] = {NULL};
    void *outputs[CELL_OUTPUTS_MAX] = {NULL};
    for (uint32_t s = 0; s < def->n_states; s++) {
        states[s] = reference__part_at(device, type->state_layout, wiring->state, s);
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
    for (uint32_t e = 0; e < wiring->n_emits; e++) {
        const struct cell_emit *at = &wiring->emits[e];
        if (cell_emit_is_due(at, step, wiring->steps)) {
            emit(device, type, at, step,
                 at->what == CELL_EMIT_STATE ? states[at->index] : outputs[at->index]);
        }
    }
    bool has_ended = is_at_end(type, wiring, states);
    if ((has_ended || step + 1 == wiring->steps) && def->n_states > 0) {
        reference__poison(&device->stores[type->state_layout],
                          row_at(device, type->state_layout, wiring->state));
    }
    return has_ended;
}

struct run {
    struct reference__queue *queue;
    struct cell_batch *batch;
};

/* One member's share of a batch, step after step; attention is member 0's to look at. */
static void run_member(void *argument, struct cell_team *team, uint32_t member)
{
    const struct run *run = argument;
    struct reference__queue *queue = run->queue;
    struct cell_device *device = queue->device;
    const struct cell_batch *batch = run->batch;
    uint32_t members = reference__members(queue);
    struct reference_cells *cells =
        &device->cells_of[batch->type->id][queue->index * REFERENCE__MEMBERS_MAX + member];
    for (uint32_t step = 0; step < batch->steps; step++) {
        uint64_t until_ns = base_now_ns() + device->options.step_ns;
        for (uint32_t r = member; r < batch->n_rows; r += members) {
            struct cell_batch_row *row = &batch->rows[r];
            if (step < row->steps && !row->has_ended) {
                row->has_ended = run_cell(device, cells, row->wiring, row->first_step + step);
                row->steps_done = step + 1;
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

void reference__run(struct reference__queue *queue, struct cell_batch *batch)
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
        cell_team_run(queue->team, run_member, &run);
    }
    batch->status = BASE_OK;
    batch->steps_done = queue->steps_done;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        cells += batch->rows[r].steps_done;
    }
    atomic_fetch_add_explicit(&device->steps, batch->steps_done, memory_order_relaxed);
    atomic_fetch_add_explicit(&device->cells, cells, memory_order_relaxed);
    if (batch->steps_done < batch->steps) {
        atomic_fetch_add_explicit(&device->interrupted, 1, memory_order_relaxed);
    }
}
