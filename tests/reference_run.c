/* Rows and batches of the reference device; see reference_state.h. Nothing is allocated. */
#include "base/assert.h"
#include "base/clock.h"
#include "tests/reference_state.h"
#include "tests/scheduler/graphs.h"

#include <string.h>

/* Reads as zeros: as wide as any row of a test. */
static const uint8_t zeros[4096];

/* ---- Rows ---- */

void reference__poison(const struct reference__store *store, uint32_t row)
{
    for (uint32_t p = 0; p < store->rows.n_parts; p++) {
        for (uint32_t step = 0; step < 2; step++) {
            memset(store->memory + cell_lane_rows_at(&store->rows, row, p, step), 0xFF,
                   store->rows.parts[p].value_bytes);
        }
    }
}

uint8_t *reference__part_at(const struct cell_device *device, uint32_t layout, uint32_t row,
                            uint32_t part, uint32_t step)
{
    const struct reference__store *store = &device->stores[layout];
    base_assert(row < store->rows.count && part < store->rows.n_parts);
    return store->memory + cell_lane_rows_at(&store->rows, row, part, step);
}

static uint8_t *place_of(const struct cell_device *device, const struct cell_ref *ref,
                         uint32_t layout, uint32_t step)
{
    return ref->kind == CELL_REF_HOST ? ref->host + (int64_t)step * ref->stride_bytes
                                      : reference__part_at(device, layout, ref->row, 0, 0);
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
        // The old state is read from one copy and advanced in the other, where there are two.
        const size_t bytes = graphs_row_bytes(&def->values[def->n_inputs + s]);
        uint8_t *old = reference__part_at(device, type->state_layout, wiring->state, s, step);
        states[s] = reference__part_at(device, type->state_layout, wiring->state, s, step + 1);
        if (step == 0) {
            memcpy(old, source_of(device, &wiring->init[s], type->state_layouts[s], 0), bytes);
        }
        memmove(states[s], old, bytes);
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
        reference__poison(&device->stores[type->state_layout], wiring->state);
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

bool reference__is_failing(struct cell_device *device)
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
    if (reference__is_failing(device)) {
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
    reference__count(device, batch->steps_done, cells, batch->steps_done < batch->steps);
}

/* ---- A step of a lane ---- */

/* The rows of the task, as the host has written them. */
static const struct cell_batch_row *rows_of(const struct cell_lane_task *task)
{
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the task carries an address
    return (const struct cell_batch_row *)(uintptr_t)task->x_ref;
}

static bool goes_on(const struct cell_batch_row *row, uint32_t step, uint32_t outcome)
{
    return step < row->steps && (outcome & CELL_LANE_ROW_ENDED) == 0;
}

static uint32_t outcome_of(uint32_t step, bool has_ended)
{
    return (step + 1) | (has_ended ? CELL_LANE_ROW_ENDED : 0);
}

/* Another device runs the rows that go on as a batch of one step. */
static void run_inside(struct reference__queue *queue, const struct cell_lane_task *task,
                       uint32_t step, uint32_t *outcomes)
{
    const struct cell_device *device = queue->device;
    const struct cell_batch_row *rows = rows_of(task);
    uint32_t n = 0;
    for (uint32_t r = 0; r < task->n_rows; r++) {
        if (goes_on(&rows[r], step, outcomes[r])) {
            queue->inner_index[n] = r;
            queue->inner_rows[n++] = (struct cell_batch_row){
                .wiring = rows[r].wiring, .first_step = rows[r].first_step + step, .steps = 1};
        }
    }
    if (n == 0) {
        return;
    }
    queue->inner_batch = (struct cell_batch){.type = device->types[task->cell],
                                             .queue = queue->index,
                                             .n_rows = n,
                                             .steps = 1,
                                             .rows = queue->inner_rows};
    device->options.inner->submit(device->inner, queue->index, &queue->inner_batch);
    bool has_run = device->options.inner->pump(device->inner, queue->index);
    base_assert(has_run && queue->inner_batch.status == BASE_OK);
    for (uint32_t i = 0; i < n; i++) {
        outcomes[queue->inner_index[i]] = outcome_of(step, queue->inner_rows[i].has_ended);
    }
}

void reference__run_step(struct reference__queue *queue, const struct cell_lane_task *task,
                         uint32_t step, uint32_t *outcomes)
{
    struct cell_device *device = queue->device;
    const struct cell_batch_row *rows = rows_of(task);
    const uint64_t until_ns = base_now_ns() + device->options.step_ns;
    if (device->inner != NULL) {
        run_inside(queue, task, step, outcomes);
    } else {
        struct reference_cells *cells =
            &device->cells_of[task->cell][queue->index * REFERENCE__MEMBERS_MAX];
        for (uint32_t r = 0; r < task->n_rows; r++) {
            if (goes_on(&rows[r], step, outcomes[r])) {
                bool has_ended = run_cell(device, cells, rows[r].wiring, rows[r].first_step + step);
                outcomes[r] = outcome_of(step, has_ended);
            }
        }
    }
    while (device->options.step_ns > 0 && base_now_ns() < until_ns) {
        base_cpu_relax();
    }
}

void reference__count(struct cell_device *device, uint64_t steps, uint64_t cells, bool interrupted)
{
    atomic_fetch_add_explicit(&device->steps, steps, memory_order_relaxed);
    atomic_fetch_add_explicit(&device->cells, cells, memory_order_relaxed);
    atomic_fetch_add_explicit(&device->interrupted, interrupted ? 1 : 0, memory_order_relaxed);
}
