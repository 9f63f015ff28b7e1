/* Batches as tasks of a lane: rows in the order of their steps, by 32; windows of steps; what goes
 * in and comes out through pinned memory, so that the card never touches a request's.
 *
 *   in    x of each row, [steps][inputs], or one; a state to begin with: h [units], c [units]
 *   out   h' of each row, [steps][units]; c' behind the row's last step, [units]
 *
 * A window is some steps of all rows, a task for each 32 of them; the next follows at once, but
 * where the one before may end early. Pool thread; cost: the bytes of the rows, and some tens of
 * nanoseconds a reference. */
#include "cells/cuda/device_state.h"

#include "base/assert.h"

#include <stdatomic.h>
#include <string.h>

/* ---- Which executor ------------------------------------------------------------------------- */

/* Whether what is given away is c', else h'. */
static bool is_c(const struct cell_cuda__lane *lane, const struct cell_emit *emit)
{
    const struct cell_def *def = &lane->type->def;
    return emit->what == CELL_EMIT_STATE ? emit->index != lane->shape.h
                                         : def->outputs[emit->index] != def->ops[0].result;
}

/* A lane has for each row one place for the h' of each step, which is staging; one for h' and one
 * for c' behind the task's last step. Any number of copies are made from staging. */
bool cell_cuda__lane_fits(const struct cell_cuda__lane *lane, const struct cell_wiring *wiring)
{
    uint32_t h_rows = 0;
    uint32_t c_places = 0;
    bool does = wiring->end == NULL && wiring->beam == NULL;
    for (uint32_t e = 0; e < wiring->n_emits && does; e++) {
        const struct cell_emit *emit = &wiring->emits[e];
        const bool is_row = emit->to.kind == CELL_REF_VALUE;
        c_places += is_c(lane, emit) ? 1 : 0;
        h_rows += is_row && !is_c(lane, emit) ? 1 : 0;
        does = emit->when != CELL_EMIT_EACH || (!is_row && !is_c(lane, emit));
    }
    return does && h_rows <= 1 && c_places <= 1;
}

/* Rows with the most steps first, others as they came: a sort by counting would need a table of all
 * lengths, so by merging, from a batch's own order and back. */
static void sort(const struct cell_batch *batch, uint16_t *order)
{
    uint16_t other[CELL_STEP_ROWS_MAX];
    uint16_t *from = order;
    uint16_t *to = other;
    const uint32_t n = batch->n_rows;
    for (uint32_t r = 0; r < n; r++) {
        order[r] = (uint16_t)r;
    }
    for (uint32_t run = 1; run < n; run *= 2) {
        for (uint32_t at = 0; at < n; at += 2 * run) {
            const uint32_t middle = at + run < n ? at + run : n;
            const uint32_t end = at + 2 * run < n ? at + 2 * run : n;
            uint32_t a = at;
            uint32_t b = middle;
            for (uint32_t i = at; i < end; i++) {
                const bool takes_a = a < middle && (b == end || batch->rows[from[a]].steps >=
                                                                    batch->rows[from[b]].steps);
                to[i] = takes_a ? from[a++] : from[b++];
            }
        }
        uint16_t *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != order) {
        memcpy(order, from, n * sizeof(*order));
    }
}

void cell_cuda__lane_begin(struct cell_cuda__batch *entry)
{
    sort(entry->batch, entry->order);
}

/* ---- Windows -------------------------------------------------------------------------------- */

/* Rows that take a step `first` of the batch: the first of its order. */
static uint32_t active(const struct cell_cuda__batch *entry, uint32_t first)
{
    uint32_t n = 0;
    while (n < entry->batch->n_rows && entry->batch->rows[entry->order[n]].steps > first) {
        n++;
    }
    return n;
}

/* Whether a row gives something away behind the first step of its chain that only a task's last
 * step can give. */
static bool is_first_apart(const struct cell_cuda__batch *entry)
{
    for (uint32_t r = 0; r < entry->batch->n_rows; r++) {
        const struct cell_wiring *wiring = entry->batch->rows[r].wiring;
        for (uint32_t e = 0; e < wiring->n_emits && entry->batch->rows[r].first_step == 0; e++) {
            const struct cell_emit *emit = &wiring->emits[e];
            if (emit->when == CELL_EMIT_FIRST &&
                (emit->to.kind == CELL_REF_VALUE || is_c(entry->lane, emit))) {
                return true;
            }
        }
    }
    return false;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Of a batch that may be interrupted: whether it may end behind the first step of the window. */
static bool may_end(const struct cell_batch *batch, uint32_t first)
{
    return batch->interruptible && first + 1 >= batch->steps_min;
}

/* Steps of the window that begins now. */
static uint32_t window_of(const struct cell_cuda__batch *entry, uint32_t n_active)
{
    const struct cell_batch *batch = entry->batch;
    const uint32_t first = entry->issued;
    base_assert(n_active > 0);
    uint32_t steps = least(entry->steps - first, CELL_CUDA__LANE_STEPS);
    steps = least(steps, CELL_CUDA__LANE_ROW_STEPS / least(n_active, CELL_SM_ROWS_MAX));
    if (first == 0 && is_first_apart(entry)) {
        return 1;
    }
    if (batch->interruptible && entry->lane->attention != 0) {
        // Somebody waits already: the lane would see it some steps too late.
        return may_end(batch, first) ? 1 : least(steps, batch->steps_min - first);
    }
    if (batch->interruptible && n_active > CELL_SM_ROWS_MAX) {
        return least(steps, CELL_CUDA__LANE_STEPS_LOOSE); // the host looks, between two windows
    }
    if (batch->interruptible && !may_end(batch, first)) {
        return least(steps, batch->steps_min - 1 - first); // and then one that may end
    }
    return steps;
}

bool cell_cuda__lane_may_issue(const struct cell_cuda__batch *entry)
{
    const bool is_window = entry->group == 0;
    return cell_lane_host_has_room(&entry->lane->host) &&
           !(is_window && entry->batch->interruptible && entry->pieces > 0);
}

/* ---- In ------------------------------------------------------------------------------------- */

/* A task while it is written. */
struct writer {
    const struct cell_cuda__lane *lane;
    const struct cell_cuda__lane_task *task;
    size_t in, out; /* in the lane's memory: what is free of the slot's staging */
    size_t c_out;   /* c' of the task's rows, [units] each */
};

static size_t units_bytes(const struct cell_cuda__lane *lane)
{
    return lane->shape.units * sizeof(float);
}

static cell_step_address put(struct writer *writer, const uint8_t *from, int64_t stride,
                             size_t bytes, uint32_t n)
{
    const struct cell_cuda_pinned to = cell_cuda__lane_at(writer->lane, writer->in);
    for (uint32_t i = 0; i < n; i++) {
        memcpy((uint8_t *)to.host + i * bytes, from + i * stride, bytes);
    }
    writer->in += n * bytes;
    return to.at;
}

static cell_step_address value_row(const struct cell_device *device, uint32_t layout, uint32_t row)
{
    const struct cell_step_store *store = &device->stores[layout];
    base_assert(row < store->rows.count);
    return store->memory + cell_lane_rows_at(&store->rows, row, 0, 0);
}

/* x of the row's n steps. */
static void write_x(struct writer *writer, const struct cell_batch_row *row, uint32_t n,
                    struct cell_sm_row *to)
{
    const struct cell_cuda__lane *lane = writer->lane;
    const struct cell_ref *ref = &row->wiring->inputs[0];
    const size_t bytes = lane->shape.inputs * sizeof(float);
    if (ref->kind == CELL_REF_ZERO) {
        to->x = cell_cuda__lane_at(lane, lane->zeros).at;
    } else if (ref->kind == CELL_REF_VALUE) {
        to->x = value_row(lane->device, lane->type->input_layouts[0], ref->row);
    } else {
        const int64_t step = (int64_t)row->first_step + writer->task->first;
        const bool is_one = ref->stride_bytes == 0;
        to->x = put(writer, ref->host + step * ref->stride_bytes, ref->stride_bytes, bytes,
                    is_one ? 1 : n);
        to->x_stride = is_one ? 0 : (int64_t)bytes;
    }
}

/* A state to begin with; 0: zeros. */
static cell_step_address init_of(struct writer *writer, const struct cell_wiring *wiring,
                                 uint32_t state)
{
    const struct cell_cuda__lane *lane = writer->lane;
    const struct cell_ref *ref = &wiring->init[state];
    if (ref->kind == CELL_REF_ZERO) {
        return 0;
    }
    return ref->kind == CELL_REF_VALUE
               ? value_row(lane->device, lane->type->state_layouts[state], ref->row)
               : put(writer, ref->host, 0, units_bytes(lane), 1);
}

/* Whether the row gives this away behind one of the n steps from `step` of its chain on, and which.
 * Of EACH the last. */
static bool is_due(const struct cell_emit *emit, uint32_t step, uint32_t n, uint32_t of_chain,
                   uint32_t *at)
{
    *at = emit->when == CELL_EMIT_FIRST ? 0 : n - 1;
    return n > 0 && cell_emit_is_due(emit, step + *at, of_chain);
}

static cell_step_address row_of(const struct cell_cuda__lane *lane, const struct cell_emit *emit)
{
    const struct cell_type *type = lane->type;
    const uint32_t layout = emit->what == CELL_EMIT_STATE ? type->state_layouts[emit->index]
                                                          : type->output_layouts[emit->index];
    return value_row(lane->device, layout, emit->to.row);
}

/* Where the lane puts what the row gives away. */
static void write_out(struct writer *writer, const struct cell_batch_row *row, uint32_t n,
                      uint32_t number, struct cell_sm_row *to)
{
    const struct cell_cuda__lane *lane = writer->lane;
    const struct cell_wiring *wiring = row->wiring;
    const uint32_t step = row->first_step + writer->task->first;
    uint32_t at = 0;
    for (uint32_t e = 0; e < wiring->n_emits; e++) {
        const struct cell_emit *emit = &wiring->emits[e];
        const bool is_row = emit->to.kind == CELL_REF_VALUE;
        if (!is_due(emit, step, n, wiring->steps, &at)) {
            continue;
        }
        if (is_c(lane, emit)) {
            to->last_c =
                is_row ? row_of(lane, emit)
                       : cell_cuda__lane_at(lane, writer->c_out).at + number * units_bytes(lane);
        } else if (is_row) {
            to->last = row_of(lane, emit);
        } else {
            to->out = cell_cuda__lane_at(lane, writer->out).at;
            to->out_stride = (int64_t)units_bytes(lane);
        }
    }
    writer->out += n * units_bytes(lane); // whether it is used or not: take() reckons the same
    to->flags |= to->last != 0 || to->last_c != 0 ? CELL_SM_ROW_LAST : 0;
}

static uint32_t steps_of(const struct cell_batch_row *row, const struct cell_cuda__lane_task *task)
{
    return least(row->steps - task->first, task->steps);
}

static void write_row(struct writer *writer, const struct cell_batch_row *row, uint32_t number,
                      struct cell_sm_row *to)
{
    const struct cell_cuda__lane *lane = writer->lane;
    const uint32_t n = steps_of(row, writer->task);
    *to = (struct cell_sm_row){.first_step = row->first_step + writer->task->first,
                               .steps = n,
                               .flags = lane->shape.is_lstm ? CELL_SM_ROW_APART : 0};
    write_x(writer, row, n, to);
    if (to->first_step == 0) {
        to->init = init_of(writer, row->wiring, lane->shape.h);
        to->init_c = lane->shape.is_lstm ? init_of(writer, row->wiring, lane->shape.c) : 0;
    }
    write_out(writer, row, n, number, to);
}

static struct writer writer_of(const struct cell_cuda__lane *lane,
                               const struct cell_cuda__lane_task *task)
{
    const size_t slot = (size_t)(task - lane->tasks);
    const size_t out = lane->out + slot * lane->out_bytes;
    return (struct writer){.lane = lane,
                           .task = task,
                           .in = lane->in + slot * lane->in_bytes,
                           .out = out + CELL_SM_ROWS_MAX * units_bytes(lane),
                           .c_out = out};
}

void cell_cuda__lane_attend(struct cell_cuda__lane *lane)
{
    const uint32_t attention =
        atomic_load_explicit(cell_cuda__attention_of(lane->queue), memory_order_relaxed);
    if (attention != lane->attention) {
        lane->attention = attention;
        cell_lane_attend(&lane->host.lane, attention);
    }
}

/* The window's next task. */
static void send(struct cell_cuda__batch *entry, uint64_t number, uint32_t n_active)
{
    struct cell_cuda__lane *lane = entry->lane;
    struct cell_lane_host *host = &lane->host;
    const uint32_t slot = cell_lane_index(&host->lane, host->submitted + 1);
    struct cell_cuda__lane_task *sent = &lane->tasks[slot];
    const uint32_t from = entry->group * CELL_SM_ROWS_MAX;
    uint32_t ids[CELL_SM_ROWS_MAX];
    *sent = (struct cell_cuda__lane_task){.batch = number,
                                          .first = entry->issued,
                                          .steps = entry->window,
                                          .from = from,
                                          .n_rows = least(n_active - from, CELL_SM_ROWS_MAX)};
    const struct cell_cuda_pinned place =
        cell_cuda__lane_at(lane, lane->rows + slot * lane->row_bytes);
    struct cell_sm_row *rows = place.host;
    struct writer writer = writer_of(lane, sent);
    for (uint32_t r = 0; r < sent->n_rows; r++) {
        const struct cell_batch_row *row = &entry->batch->rows[entry->order[from + r]];
        ids[r] = row->wiring->state;
        write_row(&writer, row, r, &rows[r]);
    }
    base_assert(writer.in <= lane->in + (slot + 1) * lane->in_bytes);
    base_assert(writer.out <= lane->out + (slot + 1) * lane->out_bytes);
    const bool is_alone = n_active <= CELL_SM_ROWS_MAX;
    const bool is_open = is_alone && may_end(entry->batch, entry->issued);
    struct cell_lane_task task = {
        .op = CELL_LANE_RUN,
        .k_steps = (uint16_t)steps_of(&entry->batch->rows[entry->order[from]], sent),
        .flags = is_open ? CELL_LANE_INTERRUPTIBLE : 0,
        .x_ref = place.at,
        .user_tag = number};
    cell_lane_host_rows(host, &task, ids, sent->n_rows);
    (void)cell_lane_host_submit(host, &task);
}

void cell_cuda__lane_issue(struct cell_cuda__batch *entry, uint64_t number)
{
    const uint32_t n_active = active(entry, entry->issued);
    cell_cuda__lane_attend(entry->lane);
    if (entry->group == 0) {
        entry->window = window_of(entry, n_active);
    }
    send(entry, number, n_active);
    entry->pieces++;
    entry->lane->outstanding++;
    entry->group++;
    if (entry->group * CELL_SM_ROWS_MAX >= n_active) {
        entry->issued += entry->window;
        entry->group = 0;
    }
}

/* ---- Out ------------------------------------------------------------------------------------ */

/* Copies what the row has given away to requests' memory, of `done` of the task's steps. */
static void take_row(struct writer *writer, const struct cell_batch_row *row, uint32_t number,
                     uint32_t done)
{
    const struct cell_cuda__lane *lane = writer->lane;
    const struct cell_wiring *wiring = row->wiring;
    const uint32_t step = row->first_step + writer->task->first;
    const size_t bytes = units_bytes(lane);
    const uint8_t *h = cell_cuda__lane_at(lane, writer->out).host;
    const uint8_t *c = (const uint8_t *)cell_cuda__lane_at(lane, writer->c_out).host;
    for (uint32_t e = 0; e < wiring->n_emits; e++) {
        const struct cell_emit *emit = &wiring->emits[e];
        uint32_t at = 0;
        if (emit->to.kind != CELL_REF_HOST || !is_due(emit, step, done, wiring->steps, &at)) {
            continue;
        }
        if (is_c(lane, emit)) {
            memcpy(emit->to.host + (int64_t)(step + at) * emit->to.stride_bytes, c + number * bytes,
                   bytes);
            continue;
        }
        for (uint32_t t = emit->when == CELL_EMIT_EACH ? 0 : at; t <= at; t++) {
            memcpy(emit->to.host + (int64_t)(step + t) * emit->to.stride_bytes, h + t * bytes,
                   bytes);
        }
    }
    writer->out += steps_of(row, writer->task) * bytes;
}

/* Nothing more of the batch is sent; it ends behind `steps`. */
static void end_behind(struct cell_cuda__batch *entry, uint32_t steps)
{
    entry->steps = steps;
    entry->issued = steps;
    entry->group = 0;
}

static void take_results(struct cell_cuda__lane *lane, const struct cell_cuda__lane_task *task,
                         struct cell_cuda__batch *entry, uint32_t slot)
{
    const struct cell_lane *ring = &lane->host.lane;
    const struct cell_batch *batch = entry->batch;
    const uint32_t *outcomes = ring->outcomes + (size_t)slot * ring->rows_max;
    const uint32_t steps_done = ring->results[slot].steps_done;
    struct writer writer = writer_of(lane, task);
    for (uint32_t r = 0; r < task->n_rows; r++) {
        take_row(&writer, &batch->rows[entry->order[task->from + r]], r, outcomes[r]);
    }
    const uint32_t wanted = steps_of(&batch->rows[entry->order[task->from]], task);
    const uint32_t until = task->first + steps_done;
    const bool is_asked = batch->interruptible && entry->pieces == 0 && entry->group == 0 &&
                          until >= batch->steps_min && lane->attention != 0;
    if (steps_done < wanted) {
        end_behind(entry, until); // it was the window's only task, and the last that was sent
    } else if (is_asked && entry->issued < entry->steps) {
        end_behind(entry, entry->issued);
    }
}

void cell_cuda__lane_take(struct cell_cuda__lane *lane, uint64_t seq, bool has_died)
{
    const uint32_t slot = cell_lane_index(&lane->host.lane, seq);
    const struct cell_cuda__lane_task *task = &lane->tasks[slot];
    if (task->batch == 0) {
        return;
    }
    struct cell_cuda__batch *entry = cell_cuda__batch_at(lane->queue, task->batch);
    const uint32_t status = lane->host.lane.results[slot].status;
    entry->pieces--;
    lane->outstanding--;
    if (has_died || status != BASE_OK) {
        entry->status = has_died ? BASE_UNAVAILABLE : (enum base_status)status;
        end_behind(entry, entry->steps);
    } else if (entry->status == BASE_OK) {
        take_results(lane, task, entry, slot);
    }
}
