/* From a type's op graph to the kernels of a step; see plan.h.
 *
 *   LOAD | ops in the definition's order ... | of searches: SEARCH | CHOOSE | STORE | EMIT | TURN
 *
 * Every value has a matrix of its own, for as many rows as a batch may have, but for what is a part
 * of another: a SLICE, a COPY, what a CONCAT joins, x and h of a gated cell. So nothing is copied
 * where a place can say it. Weights are shared by the queues of a device; each queue has matrices
 * and recorded graphs of its own. */
#include "cells/cuda/plan.h"

#include "base/assert.h"

#include <string.h>

const uint32_t cell_cuda__buckets[CELL_CUDA__BUCKETS] = {
    1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, CELL_STEP_ROWS_MAX};
const uint32_t cell_cuda__lengths[CELL_CUDA__LENGTHS] = {1, 4};

#define ALIGN 256u /* of what stands in memory of the card */

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void fail(struct cell_cuda__plan *plan, enum base_status status)
{
    if (plan->status == BASE_OK) {
        plan->status =
            base_fail(plan->error, status, "%s",
                      status == BASE_RESOURCE_EXHAUSTED ? "out of memory" : "the device is lost");
    }
}

/* ---- Memory --------------------------------------------------------------------------------- */

static cell_step_address block_take(struct cell_cuda__plan *plan, size_t bytes)
{
    const cell_step_address at = plan->block + plan->block_at;
    plan->block_at += aligned(bytes);
    return at;
}

struct cell_step_place cell_cuda__matrix(struct cell_cuda__plan *plan, size_t bytes)
{
    const size_t pitch =
        (bytes + CELL_LANE_ROW_ALIGN - 1) / CELL_LANE_ROW_ALIGN * CELL_LANE_ROW_ALIGN;
    base_assert(pitch <= UINT32_MAX);
    return (struct cell_step_place){.at = block_take(plan, pitch * CELL_STEP_ROWS_MAX),
                                    .pitch = (uint32_t)pitch};
}

struct cell_step_place cell_cuda__place(struct cell_cuda__plan *plan, uint32_t value)
{
    if (!plan->is_placed[value]) {
        plan->places[value] = cell_cuda__matrix(plan, cell_cuda__bytes(&plan->def->values[value]));
        plan->is_placed[value] = true;
    }
    return plan->places[value];
}

float *cell_cuda__weights_begin(struct cell_cuda__plan *plan, size_t n, cell_step_address *at)
{
    *at = plan->weights + plan->weights_at;
    plan->weights_at += aligned(n * sizeof(float));
    if (!plan->writes_weights || plan->status != BASE_OK) {
        return NULL;
    }
    float *weights = base_alloc_array(n, sizeof(*weights));
    if (weights == NULL) {
        fail(plan, BASE_RESOURCE_EXHAUSTED);
    }
    return weights;
}

void cell_cuda__weights_end(struct cell_cuda__plan *plan, float *weights, size_t n,
                            cell_step_address at)
{
    if (weights == NULL) {
        return;
    }
    const struct cell_device *device = plan->device;
    const enum base_status status =
        device->driver->write(device->cuda, at, weights, n * sizeof(*weights));
    base_free(weights);
    if (status != BASE_OK) {
        fail(plan, status);
    }
}

cell_step_address cell_cuda__weight(struct cell_cuda__plan *plan, const struct cell_weight *weight)
{
    const size_t n =
        (size_t)weight->rows * weight->cols * cell_dtype_bytes(weight->dtype) / sizeof(float);
    cell_step_address at = 0;
    float *weights = cell_cuda__weights_begin(plan, n, &at);
    if (weights != NULL) {
        memcpy(weights, weight->data, n * sizeof(*weights));
    }
    cell_cuda__weights_end(plan, weights, n, at);
    return at;
}

struct cell_step *cell_cuda__add(struct cell_cuda__plan *plan, enum cell_step_kernel kernel,
                                 uint32_t items_row, const char *about)
{
    static struct cell_cuda__op lost; // what is written to it is not read
    struct cell_cuda__program *program = plan->program;
    if (program->n_ops == program->capacity && plan->status == BASE_OK) {
        const uint32_t capacity = program->capacity == 0 ? 16 : 2 * program->capacity;
        struct cell_cuda__op *ops = base_realloc(program->ops, capacity * sizeof(*ops));
        if (ops == NULL) {
            fail(plan, BASE_RESOURCE_EXHAUSTED);
        } else {
            program->ops = ops;
            program->capacity = capacity;
        }
    }
    struct cell_cuda__op *op = plan->status == BASE_OK ? &program->ops[program->n_ops++] : &lost;
    memset(op, 0, sizeof(*op));
    op->step.kernel = kernel;
    op->items_row = items_row;
    op->items = 1;
    op->about = about;
    op->is_of_library = kernel == CELL_STEP_PRODUCT && plan->device->products == CELL_CUDA_LIBRARY;
    return &op->step;
}

/* ---- Values side by side -------------------------------------------------------------------- */

static void find_views(struct cell_cuda__plan *plan)
{
    for (uint32_t o = 0; o < plan->def->n_ops; o++) {
        const struct cell_op *op = &plan->def->ops[o];
        plan->is_view[op->result] =
            op->kind == CELL_OP_SLICE || op->kind == CELL_OP_COPY || op->kind == CELL_OP_CONST;
    }
}

/* What a CONCAT joins stands in its result, where it has no other place; the outermost first. */
static void place_parts(struct cell_cuda__plan *plan)
{
    for (uint32_t o = plan->def->n_ops; o-- > 0;) {
        const struct cell_op *op = &plan->def->ops[o];
        size_t at = 0;
        if (op->kind != CELL_OP_CONCAT) {
            continue;
        }
        const struct cell_step_place whole = cell_cuda__place(plan, op->result);
        for (uint32_t i = 0; i < op->n_operands; i++) {
            const uint32_t part = op->operands[i];
            if (!plan->is_placed[part] && !plan->is_view[part]) {
                plan->places[part] = cell_cuda__columns(whole, at);
                plan->is_placed[part] = true;
            }
            at += cell_cuda__bytes(&plan->def->values[part]);
        }
    }
}

static void move(struct cell_cuda__plan *plan, uint32_t value, struct cell_step_place to,
                 const char *about)
{
    const uint32_t words = cell_cuda__words(&plan->def->values[value]);
    const struct cell_step_place from = cell_cuda__place(plan, value);
    if (from.at != to.at) {
        struct cell_step *step = cell_cuda__add(plan, CELL_STEP_MOVE, words, about);
        step->move.in = from;
        step->move.out = to;
        step->move.words = words;
    }
}

static void plan_concat(struct cell_cuda__plan *plan, const struct cell_op *op)
{
    const struct cell_step_place whole = cell_cuda__place(plan, op->result);
    size_t at = 0;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        move(plan, op->operands[i], cell_cuda__columns(whole, at), "CONCAT");
        at += cell_cuda__bytes(&plan->def->values[op->operands[i]]);
    }
}

/* A part of another row, or a constant's only row. */
static void plan_view(struct cell_cuda__plan *plan, const struct cell_op *op)
{
    struct cell_step_place place = {0};
    if (op->kind == CELL_OP_CONST) {
        place.at = cell_cuda__weight(plan, &op->weights[0]);
    } else {
        const enum cell_dtype dtype = plan->def->values[op->result].dtype;
        const uint32_t start = op->kind == CELL_OP_SLICE ? op->start : 0;
        place = cell_cuda__columns(cell_cuda__place(plan, op->operands[0]),
                                   (size_t)start * cell_dtype_bytes(dtype));
    }
    plan->places[op->result] = place;
    plan->is_placed[op->result] = true;
}

/* ---- Ops --------------------------------------------------------------------------------------
 */

/* Items of a kernel, a word of each row at most, are counted in 31 bits. */
static bool is_too_wide(const struct cell_def *def)
{
    uint64_t loaded = 0;
    uint64_t widest = 0;
    for (uint32_t v = 0; v < def->n_values; v++) {
        const uint32_t words = cell_cuda__words(&def->values[v]);
        loaded += v < def->n_inputs + def->n_states ? words : 0;
        widest = words > widest ? words : widest;
    }
    widest = loaded > widest ? loaded : widest;
    bool is_rounded = def->products != CELL_PRODUCTS_FP32;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        is_rounded |= op->precision == CELL_BF16;
        const uint64_t gathered =
            cell_op_has_picture(op) ? (uint64_t)op->patches * op->weights[0].rows : 0;
        widest = gathered > widest ? gathered : widest;
    }
    // Rounding has an item for each element of up to three values side by side.
    return widest * CELL_STEP_ROWS_MAX * (is_rounded ? 3 : 1) > INT32_MAX;
}

enum base_status cell_cuda__check(const struct cell_def *def, struct base_error *error)
{
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        if (op->precision == CELL_INT8) {
            return base_fail(error, BASE_UNIMPLEMENTED,
                             "op %u: %s with int8 weights has no CUDA kernel yet", o,
                             cell_op_name(op->kind));
        }
    }
    return is_too_wide(def)
               ? base_fail(error, BASE_UNIMPLEMENTED, "its rows are too wide for CUDA kernels")
               : BASE_OK;
}

/* Returns the op to go on with. */
static uint32_t plan_op(struct cell_cuda__plan *plan, uint32_t o,
                        const struct cell_step_batch *batch)
{
    const struct cell_op *op = &plan->def->ops[o];
    if (cell_op_is_pointwise(op->kind)) {
        return cell_cuda__plan_chain(plan, o);
    }
    if (cell_op_gates(op->kind) > 0) {
        cell_cuda__plan_gated(plan, op);
    } else if (cell_op_has_groups(op->kind)) {
        cell_cuda__plan_softmax(plan, op);
    } else if (op->kind == CELL_OP_LINEAR) {
        cell_cuda__plan_linear(plan, op);
    } else if (op->kind == CELL_OP_ATTEND) {
        cell_cuda__plan_attend(plan, op, batch);
    } else if (op->kind == CELL_OP_REDUCE) {
        cell_cuda__plan_reduce(plan, op, batch);
    } else if (op->kind == CELL_OP_PICK) {
        cell_cuda__plan_pick(plan, op, batch);
    } else if (op->kind == CELL_OP_GATHER) {
        cell_cuda__plan_lookup(plan, op);
    } else if (op->kind == CELL_OP_CONCAT) {
        plan_concat(plan, op);
    } else if (plan->is_view[op->result]) {
        plan_view(plan, op);
    } else {
        cell_cuda__plan_rowwise(plan, op);
    }
    return o + 1;
}

/* ---- A step --------------------------------------------------------------------------------- */

static struct cell_step_value step_value(struct cell_cuda__plan *plan, uint32_t value)
{
    return (struct cell_step_value){.place = cell_cuda__place(plan, value),
                                    .words = cell_cuda__words(&plan->def->values[value])};
}

static void plan_load(struct cell_cuda__plan *plan, const struct cell_step_batch *batch)
{
    const struct cell_def *def = plan->def;
    struct cell_step_load load = {
        .batch = *batch, .n_inputs = def->n_inputs, .n_states = def->n_states};
    for (uint32_t v = 0; v < def->n_inputs + def->n_states; v++) {
        if (v >= def->n_inputs || !cell_def_input_has_rows(def, v)) {
            load.values[v] = step_value(plan, v);
        }
        load.words += load.values[v].words;
    }
    if (load.words > 0) {
        cell_cuda__add(plan, CELL_STEP_LOAD, load.words, "inputs and states")->load = load;
    }
}

static void plan_store(struct cell_cuda__plan *plan, const struct cell_step_batch *batch)
{
    const struct cell_def *def = plan->def;
    struct cell_step_store_states store = {.batch = *batch, .n_states = def->n_states};
    struct cell_step_emit_values emit = {.batch = *batch};
    struct cell_step_turn turn = {.batch = *batch};
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        emit.values[o] = step_value(plan, def->outputs[o]);
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        store.values[s] = step_value(plan, def->state_next[s]);
        store.words += store.values[s].words;
        emit.values[def->n_outputs + s] = store.values[s];
        turn.states[s] = store.values[s].place;
        turn.is_long |= (def->values[def->state_next[s]].dtype == CELL_I64 ? 1u : 0u) << s;
    }
    if (store.words > 0) {
        cell_cuda__add(plan, CELL_STEP_STORE, store.words, "states")->store = store;
    }
    cell_cuda__add(plan, CELL_STEP_EMIT, def->n_outputs + def->n_states, "what is given away")
        ->emit = emit;
    cell_cuda__add(plan, CELL_STEP_TURN, 0, "ends and attention")->turn = turn;
}

/* Addresses count from plan->block and plan->weights. */
static void make(struct cell_cuda__plan *plan, const struct cell_type *type)
{
    struct cell_cuda__program *program = plan->program;
    const struct cell_device *device = plan->device;
    program->type = type;
    program->n_ops = 0;
    program->n_searching = 0;
    cell_cuda__piece_sizes(type, &program->inbox_bytes, &program->outbox_bytes);
    program->inbox = block_take(plan, program->inbox_bytes);
    program->outbox = block_take(plan, program->outbox_bytes);
    struct cell_step_batch batch = {.task = program->inbox, .result = program->outbox};
    if (type->state_layout != CELL_LAYOUT_NONE) {
        batch.store = device->stores_at + type->state_layout * sizeof(struct cell_step_store);
    }
    program->begin = (struct cell_cuda__op){
        .step = {.kernel = CELL_STEP_BEGIN, .begin = {.batch = batch}}, .items = 1};
    find_views(plan);
    for (uint32_t o = 0; o < plan->def->n_ops; o++) {
        if (cell_op_gates(plan->def->ops[o].kind) > 0) {
            cell_cuda__join(plan, &plan->def->ops[o]);
        }
    }
    place_parts(plan);
    plan_load(plan, &batch);
    for (uint32_t o = 0; o < plan->def->n_ops;) {
        o = plan_op(plan, o, &batch);
    }
    cell_cuda__plan_searches(plan, &batch);
    plan_store(plan, &batch);
    program->block = plan->block;
    program->block_bytes = plan->block_at;
}

static enum base_status record(struct cell_device *device, struct cell_cuda_stream *stream,
                               struct cell_cuda__program *program, uint32_t bucket, uint32_t l,
                               bool is_searching)
{
    const struct cell_cuda_driver *driver = device->driver;
    struct cell_cuda_graph *graph = NULL;
    BASE_TRY(driver->record(stream));
    enum base_status status = BASE_OK;
    for (uint32_t step = 0; step < cell_cuda__lengths[l]; step++) {
        for (uint32_t o = 0; o < program->n_ops && status == BASE_OK; o++) {
            const struct cell_cuda__op *op = &program->ops[o];
            if (is_searching || !op->is_of_searches) {
                status = cell_cuda__op_run(device, stream, op, cell_cuda__buckets[bucket]);
            }
        }
    }
    const enum base_status ended = driver->recorded(stream, &graph); // in any case
    *(is_searching ? &program->searching[bucket][l] : &program->graphs[bucket][l]) = graph;
    return status == BASE_OK ? ended : status;
}

static enum base_status record_all(struct cell_device *device, uint32_t queue,
                                   struct cell_cuda__program *program, struct base_error *error)
{
    const uint32_t n = CELL_CUDA__BUCKETS * CELL_CUDA__LENGTHS;
    for (uint32_t i = 0; i < (program->n_searching > 0 ? 2 * n : n); i++) {
        const uint32_t bucket = i % n / CELL_CUDA__LENGTHS;
        const enum base_status status = record(device, device->queues[queue].stream, program,
                                               bucket, i % CELL_CUDA__LENGTHS, i >= n);
        if (status != BASE_OK) {
            return base_fail(error, status, "cannot record a step of %u rows",
                             cell_cuda__buckets[bucket]);
        }
    }
    return BASE_OK;
}

static enum base_status alloc(struct cell_device *device, size_t bytes, cell_step_address *out,
                              const char *what, struct base_error *error)
{
    const enum base_status status =
        bytes == 0 ? BASE_OK : device->driver->alloc(device->cuda, bytes, out);
    return status == BASE_OK
               ? BASE_OK
               : base_fail(error, status, "no %zu bytes of the card's memory for %s", bytes, what);
}

static enum base_status type_make(struct cell_device *device, const struct cell_type *type,
                                  struct cell_cuda__type *made, struct base_error *error)
{
    struct cell_cuda__plan counted = {
        .device = device, .def = &type->def, .program = &made->programs[0], .error = error};
    make(&counted, type);
    BASE_TRY(counted.status);
    made->weight_bytes = counted.weights_at;
    BASE_TRY(alloc(device, made->weight_bytes, &made->weights, "weights", error));
    for (uint32_t q = 0; q < device->n_queues; q++) {
        struct cell_cuda__plan plan = {.device = device,
                                       .def = &type->def,
                                       .program = &made->programs[q],
                                       .weights = made->weights,
                                       .writes_weights = q == 0,
                                       .error = error};
        BASE_TRY(alloc(device, counted.block_at, &plan.block, "the rows of a batch", error));
        plan.program->block = plan.block;
        make(&plan, type);
        BASE_TRY(plan.status);
        base_assert(plan.block_at == counted.block_at && plan.weights_at == counted.weights_at);
        BASE_TRY(cell_cuda__products_prepare(device, q == 0 ? NULL : &made->programs[0],
                                             plan.program, error));
        BASE_TRY(record_all(device, q, plan.program, error));
    }
    return cell_cuda__lanes_create(device, type, made, error);
}

enum base_status cell_cuda__type_create(struct cell_device *device, const struct cell_type *type,
                                        struct cell_cuda__type **out, struct base_error *error)
{
    struct cell_cuda__type *made = base_alloc(sizeof(*made));
    if (made == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    const enum base_status status = type_make(device, type, made, error);
    if (status != BASE_OK) {
        cell_cuda__type_free(device, made);
        return status;
    }
    *out = made;
    return BASE_OK;
}

void cell_cuda__type_free(struct cell_device *device, struct cell_cuda__type *type)
{
    const struct cell_cuda_driver *driver = device->driver;
    cell_cuda__lanes_free(device, type);
    for (uint32_t q = 0; q < device->n_queues; q++) {
        struct cell_cuda__program *program = &type->programs[q];
        for (uint32_t i = 0; i < CELL_CUDA__BUCKETS * CELL_CUDA__LENGTHS && !device->is_lost; i++) {
            const uint32_t bucket = i / CELL_CUDA__LENGTHS;
            driver->graph_free(device->cuda, program->graphs[bucket][i % CELL_CUDA__LENGTHS]);
            driver->graph_free(device->cuda, program->searching[bucket][i % CELL_CUDA__LENGTHS]);
        }
        if (!device->is_lost) {
            driver->free(device->cuda, program->block);
        }
        base_free(program->ops);
    }
    if (!device->is_lost) {
        driver->free(device->cuda, type->weights);
    }
    base_free(type);
}
