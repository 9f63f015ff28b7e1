/* Lanes of the CUDA device: which types have them, and their life; see lanes.h.
 *
 * One block of pinned memory a lane: control words, ring, results, row ids, outcomes, rows of
 * tasks, staging. Pool thread but for load and unload; a look costs three loads of host memory. */
#include "cells/cuda/device_state.h"

#include "base/assert.h"

/* ---- Which types ---------------------------------------------------------------------------- */

/* The op's weights, as the packing reads them. */
static struct cell_gated gated_of(const struct cell_op *op)
{
    const bool is_lstm = op->kind == CELL_OP_LSTM;
    const struct cell_weight *w = &op->weights[0];
    struct cell_gated gated = {.kind = is_lstm ? CELL_GATED_LSTM : CELL_GATED_GRU,
                               .precision = op->precision,
                               .inputs = w->cols,
                               .feedback = op->weights[1].cols,
                               .hidden = w->rows / cell_op_gates(op->kind),
                               .w = w->data,
                               .r = op->weights[1].data};
    if (op->n_weights > 2) {
        gated.b_w = op->weights[2].data;
        gated.b_r = gated.b_w + w->rows;
    }
    gated.p = op->n_weights > 3 ? op->weights[3].data : NULL;
    return gated;
}

/* Whether the cell is its op and nothing else: from its input and states to its states, with no
 * output but these. */
static bool is_one_op(const struct cell_def *def)
{
    const struct cell_op *op = &def->ops[0];
    if (def->n_ops != 1 || def->n_inputs != 1 || def->values[0].dtype != CELL_F32 ||
        (op->kind != CELL_OP_LSTM && op->kind != CELL_OP_GRU) || op->patches > 0 ||
        op->operands[0] != 0) {
        return false;
    }
    const uint32_t n_states = op->kind == CELL_OP_LSTM ? 2 : 1;
    bool is_so = def->n_states == n_states;
    for (uint32_t s = 0; s < n_states && is_so; s++) {
        const uint32_t state = op->operands[1 + s] - def->n_inputs;
        is_so = state < n_states && def->state_next[state] == op->result + s;
    }
    for (uint32_t o = 0; o < def->n_outputs && is_so; o++) {
        is_so = def->outputs[o] >= op->result && def->outputs[o] < op->result + n_states;
    }
    return is_so;
}

/* A lane has floats as they are, or rounds weights, h and x to bf16: what `products` allows. */
static enum base_status choose_precision(const struct cell_device *device,
                                         const struct cell_def *def, enum cell_precision *precision,
                                         struct base_error *why_not)
{
    if (def->products == CELL_PRODUCTS_BF16 && device->products == CELL_CUDA_OWN) {
        return base_fail(why_not, BASE_UNIMPLEMENTED,
                         "a lane's sums in bf16 have an order of their own, and this device is "
                         "exact");
    }
    if (def->products == CELL_PRODUCTS_BF16 && *precision != CELL_INT8) {
        *precision = CELL_BF16;
        return BASE_OK;
    }
    if (def->products != CELL_PRODUCTS_FP32 || *precision != CELL_FP32) {
        return base_fail(why_not, BASE_UNIMPLEMENTED, "lanes have no weights in %s times %s",
                         cell_precision_name(*precision), cell_products_name(def->products));
    }
    return BASE_OK;
}

static enum base_status choose(const struct cell_device *device, const struct cell_def *def,
                               struct cell_cuda__lane_shape *out, struct base_error *why_not)
{
    const struct cell_op *op = &def->ops[0];
    if (device->lanes_off) {
        return base_fail(why_not, BASE_UNIMPLEMENTED, "lanes are turned off");
    }
    if (!is_one_op(def)) {
        return base_fail(why_not, BASE_UNIMPLEMENTED, "it is not one LSTM or GRU and no more");
    }
    if (op->kind == CELL_OP_GRU && op->variant != CELL_GRU_RESET_AFTER) {
        return base_fail(why_not, BASE_UNIMPLEMENTED, "a GRU with linear_before_reset = 0");
    }
    struct cell_gated gated = gated_of(op);
    BASE_TRY(choose_precision(device, def, &gated.precision, why_not));
    struct cell_cuda__lane_shape shape = {.is_lstm = op->kind == CELL_OP_LSTM,
                                          .units = gated.hidden,
                                          .inputs = gated.inputs,
                                          .h = op->operands[1] - def->n_inputs};
    shape.c = shape.is_lstm ? op->operands[2] - def->n_inputs : 0;
    BASE_TRY(cell_sm_choose(&gated, false, &shape.kernel, why_not));
    shape.layout = cell_sm_layout_of(&gated, shape.kernel, false);
    shape.shared_bytes = cell_sm_shared_bytes(shape.kernel, &shape.layout);
    *out = shape;
    return BASE_OK;
}

/* Whether the card has an SM for a lane on each queue. Lanes have an SM each: a block asks for more
 * than half of the shared memory. */
static enum base_status find_room(const struct cell_device *device,
                                  struct cell_cuda__lane_shape *shape, struct base_error *why_not)
{
    struct cell_cuda_room room = {0};
    device->driver->room(device->cuda, &room);
    const uint32_t sms = room.sms > CELL_CUDA__SMS_FREE ? room.sms - CELL_CUDA__SMS_FREE : 0;
    const uint32_t most = sms < CELL_CUDA__LANES_MAX ? sms : CELL_CUDA__LANES_MAX;
    if (device->n_lanes + device->n_queues > most) {
        return base_fail(why_not, BASE_UNIMPLEMENTED, "there are lanes on %u of %u SMs for them",
                         device->n_lanes, most);
    }
    if (shape->shared_bytes > room.shared_block) {
        return base_fail(why_not, BASE_UNIMPLEMENTED,
                         "%u bytes of shared memory, and a block has %u", shape->shared_bytes,
                         room.shared_block);
    }
    const uint32_t alone = room.shared_sm / 2 + 1;
    shape->shared_bytes = shape->shared_bytes > alone ? shape->shared_bytes : alone;
    return BASE_OK;
}

/* ---- Memory --------------------------------------------------------------------------------- */

static size_t take(size_t *at, size_t bytes)
{
    const size_t from = *at;
    *at += (bytes + CELL_LANE_LINE_BYTES - 1) / CELL_LANE_LINE_BYTES * CELL_LANE_LINE_BYTES;
    return from;
}

/* A pointer as the card has it. */
static void *card_pointer(const struct cell_cuda__lane *lane, size_t offset)
{
    // NOLINTNEXTLINE(performance-no-int-to-ptr): of the card, as arguments of a launch are
    return (void *)(uintptr_t)(lane->memory.at + offset);
}

/* Lays out the lane's pinned memory, and takes it. Both sides' views of the ring. */
static enum base_status place(struct cell_cuda__lane *lane)
{
    const struct cell_cuda__lane_shape *shape = &lane->shape;
    const size_t n_rows = (size_t)CELL_CUDA__LANE_SLOTS * CELL_SM_ROWS_MAX;
    const size_t states = (size_t)(shape->is_lstm ? 2 : 1) * CELL_SM_ROWS_MAX * shape->units;
    const size_t x = (size_t)CELL_CUDA__LANE_ROW_STEPS * shape->inputs;
    const size_t h = (size_t)CELL_CUDA__LANE_ROW_STEPS * shape->units;
    size_t bytes = 0;
    const size_t control = take(&bytes, sizeof(struct cell_lane_control));
    const size_t slots = take(&bytes, sizeof(union cell_lane_slot) * CELL_CUDA__LANE_SLOTS);
    const size_t results = take(&bytes, sizeof(struct cell_lane_result) * CELL_CUDA__LANE_SLOTS);
    const size_t ids = take(&bytes, sizeof(uint32_t) * n_rows);
    const size_t outcomes = take(&bytes, sizeof(uint32_t) * n_rows);
    lane->zeros = take(&bytes, sizeof(float) * ((size_t)shape->inputs + shape->units));
    lane->rows = take(&bytes, 0);
    lane->row_bytes = sizeof(struct cell_sm_row) * CELL_SM_ROWS_MAX;
    (void)take(&bytes, lane->row_bytes * CELL_CUDA__LANE_SLOTS);
    lane->in = take(&bytes, 0);
    lane->in_bytes = sizeof(float) * (x + states);
    (void)take(&bytes, lane->in_bytes * CELL_CUDA__LANE_SLOTS);
    lane->out = take(&bytes, 0);
    lane->out_bytes = sizeof(float) * (h + states);
    (void)take(&bytes, lane->out_bytes * CELL_CUDA__LANE_SLOTS);
    BASE_TRY(lane->device->driver->pin(lane->device->cuda, bytes, &lane->memory));
    uint8_t *host = lane->memory.host;
    const struct cell_lane ring = {.control = (void *)(host + control),
                                   .slots = (void *)(host + slots),
                                   .results = (void *)(host + results),
                                   .row_ids = (void *)(host + ids),
                                   .outcomes = (void *)(host + outcomes),
                                   .n_slots = CELL_CUDA__LANE_SLOTS,
                                   .rows_max = CELL_SM_ROWS_MAX,
                                   .form = CELL_LANE_FORM_TAGGED};
    cell_lane_host_init(&lane->host, &ring, lane->device->watchdog_ns);
    lane->args.lane = ring;
    lane->args.lane.control = card_pointer(lane, control);
    lane->args.lane.slots = card_pointer(lane, slots);
    lane->args.lane.results = card_pointer(lane, results);
    lane->args.lane.row_ids = card_pointer(lane, ids);
    lane->args.lane.outcomes = card_pointer(lane, outcomes);
    return BASE_OK;
}

/* A wait inside the block that is longer is a fault; as long as the host waits for the block. */
static uint32_t bound_of(const struct cell_device *device)
{
    const uint64_t watchdog_ns = device->watchdog_ns;
    return watchdog_ns == 0 || watchdog_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)watchdog_ns;
}

static enum base_status write_weights(struct cell_device *device, const struct cell_op *op,
                                      const struct cell_cuda__lane_shape *shape,
                                      cell_step_address *out)
{
    const struct cell_gated gated = gated_of(op);
    uint8_t *packed = base_alloc_aligned(shape->layout.bytes, CELL_LANE_LINE_BYTES);
    if (packed == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    cell_sm_pack(&gated, shape->kernel, false, packed);
    enum base_status status = device->driver->alloc(device->cuda, shape->layout.bytes, out);
    if (status == BASE_OK) {
        status = device->driver->write(device->cuda, *out, packed, shape->layout.bytes);
    }
    base_free(packed);
    return status;
}

static enum base_status lane_create(struct cell_cuda__type *made, struct cell_cuda__queue *queue,
                                    const struct cell_cuda__lane_shape *shape,
                                    const struct cell_type *type)
{
    struct cell_device *device = queue->device;
    base_assert(shape->kernel != NULL);
    struct cell_cuda__lane *lane = base_alloc_aligned(sizeof(*lane), BASE_CACHE_LINE);
    if (lane == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    made->lanes[queue - device->queues] = lane;
    device->lanes[device->n_lanes++] = lane;
    lane->device = device;
    lane->queue = queue;
    lane->type = type;
    lane->shape = *shape;
    BASE_TRY(place(lane));
    lane->args.weights = (void *)(uintptr_t)made->lane_weights; // NOLINT(performance-no-int-to-ptr)
    lane->args.units = shape->units;
    lane->args.inputs = shape->inputs;
    lane->args.index = device->n_lanes - 1;
    lane->args.bound_ns = bound_of(device);
    lane->args.busy_idle_ns = CELL_CUDA__LANE_NAP_NS;
    lane->args.park_ns = CELL_CUDA__LANE_PARK_NS;
    const struct cell_cuda_lane_kernel kernel = {.name = shape->is_lstm ? shape->kernel->lstm
                                                                        : shape->kernel->gru,
                                                 .threads = cell_sm_threads(&shape->layout),
                                                 .shared_bytes = shape->shared_bytes};
    return device->driver->lane_open(device->cuda, &kernel, &lane->lane, NULL);
}

enum base_status cell_cuda__lanes_create(struct cell_device *device, const struct cell_type *type,
                                         struct cell_cuda__type *made, struct base_error *error)
{
    struct cell_cuda__lane_shape shape = {0};
    if (choose(device, &type->def, &shape, &made->why_no_lane) != BASE_OK ||
        find_room(device, &shape, &made->why_no_lane) != BASE_OK) {
        return BASE_OK;
    }
    enum base_status status = write_weights(device, &type->def.ops[0], &shape, &made->lane_weights);
    for (uint32_t q = 0; q < device->n_queues && status == BASE_OK; q++) {
        status = lane_create(made, &device->queues[q], &shape, type);
    }
    return status == BASE_OK ? BASE_OK : base_fail(error, status, "no memory for a lane");
}

/* ---- Parking -------------------------------------------------------------------------------- */

static void lose(struct cell_device *device, const char *why)
{
    if (!device->is_lost) {
        device->is_lost = true;
        (void)base_fail(&device->why_lost, BASE_UNAVAILABLE, "%s", why);
    }
}

static bool is_running(struct cell_cuda__lane *lane)
{
    if (lane->host.launch > 0 && lane->host.end == 0) {
        cell_lane_host_look(&lane->host, lane->host.looked_ns); // no time passes
    }
    return lane->host.launch > 0 && lane->host.end == 0;
}

/* Has the launch end, by PARK or EXIT. If it has parked meanwhile, the next one begins with that
 * task, ends at once, and is launched again: no harm. */
static void send_away(struct cell_cuda__lane *lane, enum cell_lane_op op)
{
    struct cell_device *device = lane->device;
    if (device->is_lost || lane->lane == NULL) {
        return;
    }
    base_assert(lane->outstanding == 0);
    if (is_running(lane)) {
        const struct cell_lane_task task = {.op = (uint16_t)op};
        lane->tasks[cell_lane_index(&lane->host.lane, lane->host.submitted + 1)].batch = 0;
        (void)cell_lane_host_submit(&lane->host, &task);
    }
    // Also of a launch that has said that it ends: some instructions of it may be left.
    if (device->driver->lane_wait(lane->lane, CELL_CUDA__LANE_END_NS) != BASE_OK ||
        is_running(lane)) {
        lose(device, "a lane does not leave");
        return;
    }
    while (cell_lane_host_next(&lane->host) != 0 || cell_lane_host_next_failed(&lane->host) != 0) {
    }
}

void cell_cuda__lanes_park(struct cell_device *device)
{
    for (uint32_t l = 0; l < device->n_lanes; l++) {
        send_away(device->lanes[l], CELL_LANE_PARK);
    }
    device->launching = NULL;
}

static void lane_free(struct cell_cuda__lane *lane)
{
    struct cell_device *device = lane->device;
    uint32_t l = 0;
    send_away(lane, CELL_LANE_EXIT);
    if (!device->is_lost && lane->lane != NULL) {
        device->driver->lane_close(lane->lane);
    }
    if (!device->is_lost && lane->memory.host != NULL) {
        device->driver->unpin(device->cuda, &lane->memory);
    }
    while (device->lanes[l] != lane) {
        l++;
    }
    device->lanes[l] = device->lanes[--device->n_lanes];
    base_free(lane);
}

void cell_cuda__lanes_free(struct cell_device *device, struct cell_cuda__type *made)
{
    for (uint32_t q = 0; q < device->n_queues; q++) {
        if (made->lanes[q] != NULL) {
            lane_free(made->lanes[q]);
            made->lanes[q] = NULL;
        }
    }
    if (!device->is_lost) {
        device->driver->free(device->cuda, made->lane_weights);
    }
}

/* ---- Launching and looking ------------------------------------------------------------------ */

/* One launch begins at a time: blocks that are not on their SMs yet wait for it without a word. */
static bool may_launch(struct cell_device *device)
{
    struct cell_cuda__lane *last = device->launching;
    if (last == NULL || last->host.end != 0 ||
        cell_lane_heartbeat(&last->host.lane) != last->beats) {
        device->launching = NULL;
    }
    return device->launching == NULL;
}

static enum base_status launch(struct cell_cuda__lane *lane)
{
    struct cell_device *device = lane->device;
    const struct cell_step_store *store = &device->stores[lane->type->state_layout];
    struct cell_sm_args *args = &lane->args;
    args->rows = store->rows;
    base_assert(store->rows.parts[lane->shape.h].twice != 0);
    args->rows.parts[CELL_SM_PART_H] = store->rows.parts[lane->shape.h];
    if (lane->shape.is_lstm) {
        base_assert(store->rows.parts[lane->shape.c].twice == 0); // cell_state_in_place()
        args->rows.parts[CELL_SM_PART_C] = store->rows.parts[lane->shape.c];
    }
    args->memory =
        (void *)(uintptr_t)store->memory; // NOLINT(performance-no-int-to-ptr): the card's
    args->launch = cell_lane_host_launch(&lane->host, 0);
    lane->beats = cell_lane_heartbeat(&lane->host.lane);
    device->launching = lane;
    return device->driver->lane_launch(lane->lane, args);
}

static enum base_status poll_lane(struct cell_cuda__lane *lane, uint64_t now_ns)
{
    struct cell_lane_host *host = &lane->host;
    uint64_t seq = 0;
    cell_cuda__lane_attend(lane);
    cell_lane_host_look(host, now_ns);
    while ((seq = cell_lane_host_next(host)) != 0) {
        cell_cuda__lane_take(lane, seq, false);
    }
    while ((seq = cell_lane_host_next_failed(host)) != 0) {
        cell_cuda__lane_take(lane, seq, true);
    }
    if (host->is_lost) {
        lose(lane->device, "a lane stands still and cannot be stopped");
        return BASE_OK;
    }
    const bool can = cell_lane_host_wants_launch(host) && may_launch(lane->device);
    return can ? launch(lane) : BASE_OK;
}

enum base_status cell_cuda__lanes_poll(struct cell_cuda__queue *queue, uint64_t now_ns)
{
    struct cell_device *device = queue->device;
    for (uint32_t l = 0; l < device->n_lanes && !device->is_lost; l++) {
        struct cell_cuda__lane *lane = device->lanes[l];
        if (lane->queue == queue && lane->outstanding > 0) {
            BASE_TRY(poll_lane(lane, now_ns));
        }
    }
    return BASE_OK;
}
