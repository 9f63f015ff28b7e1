/* The loop's requests and what is counted of them.
 *
 * Data: a slot per request with its inputs, its outputs and an arena of one chunk for its graph.
 * Threads: bench_loop_run() starts the requests and sleeps; everything else happens in finished()
 * on the pool thread, which owns all of it meanwhile. Time is taken from the graphs' own completion
 * times; both ends of the measurement are the first completion of a turn. */
#include "bench/closed_loop.h"

#include "base/assert.h"
#include "base/event.h"
#include "base/mem.h"
#include "base/random.h"
#include "scheduler/unfold.h"

#include <math.h>
#include <string.h>

#define SEED 1u

/* Requests that bench_loop_check() repeats, at most. */
#define CHECKED_MAX 32u

/* Arenas of graphs are tried in sizes from this on. */
#define ARENA_BYTES_MIN ((size_t)16 << 10)
#define ARENA_BYTES_MAX ((size_t)256 << 20)

enum phase { FILLING, MEASURING, ENDING };

struct slot {
    struct srv_job job; /* first */
    struct bench_loop *loop;
    struct base_arena arena;
    uint32_t request; /* which of the lengths or trees it has */
    uint32_t steps[CELL_SEQUENCES_MAX];
    struct sched_sequences sequences;
    struct sched_forest forest;
    struct sched_tensor inputs[CELL_TENSORS_MAX], outputs[CELL_TENSORS_MAX];
};

struct bench_loop {
    struct srv_engine *engine;
    const struct cell_model *cells;
    const struct lg_lengths *lengths;
    const struct bench_shapes *shapes;
    uint32_t present, next;
    struct slot *slots;
    enum phase phase;
    uint64_t window_ns, last_finished_ns;
    uint64_t finished, finished_at_start;
    uint32_t inside;
    enum base_status status; /* of the first request that failed */
    struct bench_tally start, end;
    struct base_event over;
};

/* ---- Counting, on the pool thread ---- */

static void read_tally(const struct bench_loop *loop, uint64_t now_ns, struct bench_tally *out)
{
    const struct sched *sched = srv_engine_scheduler(loop->engine, 0);
    out->ns = now_ns;
    out->requests = loop->finished;
    out->allocations = base_alloc_count();
    out->busy_ns = srv_engine_busy_ns(loop->engine, 0);
    for (uint32_t s = 0; s < loop->cells->n_stages; s++) {
        cell_type_id id = loop->cells->stages[s].type->id;
        const struct sched_type_stats *stats = sched_type_stats(sched, id);
        struct bench_type_tally *type = &out->types[id];
        type->cells = atomic_load_explicit(&stats->cells, memory_order_relaxed);
        type->steps = atomic_load_explicit(&stats->steps, memory_order_relaxed);
        type->batches = atomic_load_explicit(&stats->batches, memory_order_relaxed);
    }
}

/* The first completion of a turn. */
static void move_phase(struct bench_loop *loop, uint64_t now_ns)
{
    if (loop->phase == FILLING && loop->finished >= loop->finished_at_start + loop->present) {
        read_tally(loop, now_ns, &loop->start);
        loop->phase = MEASURING;
    } else if (loop->phase == MEASURING && now_ns - loop->start.ns >= loop->window_ns) {
        read_tally(loop, now_ns, &loop->end);
        loop->phase = ENDING;
    }
}

/* ---- Requests ---- */

static bool is_of_trees(const struct bench_loop *loop)
{
    return loop->cells->unfold == CELL_UNFOLD_TREE;
}

/* A request of this tree, over the slot's tensors. */
static struct sched_forest forest_of(const struct bench_loop *loop,
                                     const struct bench_shape_tree *tree,
                                     const struct sched_tensor *inputs,
                                     const struct sched_tensor *outputs)
{
    return (struct sched_forest){.model = loop->cells,
                                 .n_leaves = tree->n_leaves,
                                 .n_nodes = tree->n_nodes,
                                 .n_roots = 1,
                                 .children = tree->children,
                                 .order = loop->shapes->order,
                                 .roots = &tree->root,
                                 .inputs = inputs,
                                 .outputs = outputs};
}

/* A fresh graph of the slot's request in its arena. */
static enum base_status unfold(struct slot *slot)
{
    struct bench_loop *loop = slot->loop;
    base_arena_reset(&slot->arena);
    if (is_of_trees(loop)) {
        slot->forest =
            forest_of(loop, &loop->shapes->trees[slot->request], slot->inputs, slot->outputs);
        return sched_unfold_tree(&slot->forest, &slot->arena, &slot->job.graph, NULL);
    }
    cell_model_steps(loop->cells, loop->lengths->values[slot->request], slot->steps);
    return sched_unfold_chain(&slot->sequences, &slot->arena, &slot->job.graph, NULL);
}

/* The next length or tree. */
static enum base_status refill(struct slot *slot)
{
    struct bench_loop *loop = slot->loop;
    slot->request = loop->next;
    loop->next = (loop->next + 1) %
                 (uint32_t)(is_of_trees(loop) ? loop->shapes->count : loop->lengths->count);
    return unfold(slot);
}

static void finished(struct srv_job *job)
{
    struct slot *slot = (struct slot *)job;
    struct bench_loop *loop = slot->loop;
    if (job->graph->status != BASE_OK) { // the device is lost: so are all others
        loop->status = loop->status == BASE_OK ? job->graph->status : loop->status;
        loop->phase = ENDING;
    }
    if (job->graph->finished_ns != loop->last_finished_ns) {
        loop->last_finished_ns = job->graph->finished_ns;
        move_phase(loop, job->graph->finished_ns);
    }
    loop->finished++;
    if (loop->phase != ENDING) {
        enum base_status status = refill(slot);
        base_assert(status == BASE_OK); // the longest was tried before
        srv_engine_submit(loop->engine, job);
    } else if (--loop->inside == 0) {
        base_event_signal(&loop->over);
    }
}

enum base_status bench_loop_run(struct bench_loop *loop, uint64_t ns, struct bench_tally *out)
{
    loop->phase = FILLING;
    loop->window_ns = ns;
    loop->finished_at_start = loop->finished;
    loop->inside = loop->present;
    for (uint32_t i = 0; i < loop->present; i++) {
        enum base_status status = refill(&loop->slots[i]);
        base_assert(status == BASE_OK);
    }
    for (uint32_t i = 0; i < loop->present; i++) {
        srv_engine_submit(loop->engine, &loop->slots[i].job);
    }
    base_event_wait(&loop->over, 0, BASE_WAIT_FOREVER);
    *out = (struct bench_tally){.ns = loop->end.ns - loop->start.ns,
                                .requests = loop->end.requests - loop->start.requests,
                                .allocations = loop->end.allocations - loop->start.allocations,
                                .busy_ns = loop->end.busy_ns - loop->start.busy_ns};
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        out->types[t].cells = loop->end.types[t].cells - loop->start.types[t].cells;
        out->types[t].steps = loop->end.types[t].steps - loop->start.types[t].steps;
        out->types[t].batches = loop->end.types[t].batches - loop->start.types[t].batches;
    }
    return loop->status;
}

/* ---- Checking ---- */

/* Rows of a tensor in the longest sequence, or the leaves of the largest tree. */
static uint32_t rows_of(const struct bench_loop *loop, const struct cell_tensor *tensor)
{
    if (is_of_trees(loop)) {
        return loop->shapes->leaves_max;
    }
    uint32_t steps[CELL_SEQUENCES_MAX];
    cell_model_steps(loop->cells, loop->lengths->max, steps);
    return tensor->time_axis < 0 ? 1 : steps[tensor->sequence];
}

static size_t bytes_of(const struct bench_loop *loop, const struct cell_tensor *tensor)
{
    return (size_t)rows_of(loop, tensor) * tensor->width * cell_dtype_bytes(tensor->dtype);
}

static double larger(double a, double b)
{
    return b <= a ? a : b; // a NaN is larger than all, as the second; as the first it stays
}

static double difference_of(const struct cell_tensor *tensor, const uint8_t *a, const uint8_t *b,
                            size_t bytes)
{
    const size_t size = cell_dtype_bytes(tensor->dtype);
    double worst = 0;
    for (size_t at = 0; at < bytes; at += size) {
        if (memcmp(a + at, b + at, size) == 0) {
            continue;
        }
        float x[2] = {0, 1}; // of numbers that are no floats any difference is one
        if (tensor->dtype == CELL_F32) {
            memcpy(&x[0], a + at, size);
            memcpy(&x[1], b + at, size);
        }
        const double difference = (double)x[0] - (double)x[1];
        worst = isnan(worst) ? worst : larger(worst, difference < 0 ? -difference : difference);
    }
    return worst;
}

/* The slot's request alone; what its outputs were before is in kept, one behind the other. */
static enum base_status check_slot(struct bench_loop *loop, struct slot *slot, uint8_t *kept,
                                   double *worst)
{
    const struct cell_model *cells = loop->cells;
    size_t at = 0;
    for (uint32_t o = 0; o < cells->n_outputs; at += bytes_of(loop, &cells->outputs[o++])) {
        memcpy(kept + at, slot->outputs[o].data, bytes_of(loop, &cells->outputs[o]));
    }
    loop->inside = 1;
    enum base_status status = unfold(slot);
    base_assert(status == BASE_OK); // it was unfolded before
    srv_engine_submit(loop->engine, &slot->job);
    base_event_wait(&loop->over, 0, BASE_WAIT_FOREVER);
    at = 0;
    for (uint32_t o = 0; o < cells->n_outputs; at += bytes_of(loop, &cells->outputs[o++])) {
        const double difference =
            difference_of(&cells->outputs[o], kept + at, slot->outputs[o].data,
                          bytes_of(loop, &cells->outputs[o]));
        *worst = isnan(*worst) ? *worst : larger(*worst, difference);
    }
    return loop->status;
}

enum base_status bench_loop_check(struct bench_loop *loop, double *out)
{
    size_t bytes = 0;
    for (uint32_t o = 0; o < loop->cells->n_outputs; o++) {
        bytes += bytes_of(loop, &loop->cells->outputs[o]);
    }
    uint8_t *kept = base_alloc(bytes);
    enum base_status status = kept == NULL ? BASE_RESOURCE_EXHAUSTED : loop->status;
    *out = 0;
    for (uint32_t i = 0; i < loop->present && i < CHECKED_MAX && status == BASE_OK; i++) {
        status = check_slot(loop, &loop->slots[i], kept, out);
    }
    base_free(kept);
    return status;
}

/* ---- Making ---- */

static enum base_status check_tensor(const struct cell_tensor *tensor,
                                     const struct lg_lengths *lengths, struct base_error *error)
{
    bool batch_fits = tensor->batch_axis < 0 || tensor->dims[tensor->batch_axis] == CELL_DIM_ANY ||
                      tensor->dims[tensor->batch_axis] == 1;
    bool time_fits = tensor->time_axis < 0 || tensor->dims[tensor->time_axis] == CELL_DIM_ANY ||
                     (lengths->count == 1 && lengths->max == tensor->dims[tensor->time_axis]);
    return batch_fits && time_fits
               ? BASE_OK
               : base_fail(error, BASE_INVALID_ARGUMENT,
                           "tensor '%s': a fixed batch or length other than those asked for",
                           tensor->name);
}

static void fill_random(const struct cell_tensor *tensor, uint8_t *data, uint32_t rows,
                        struct base_random *random)
{
    size_t count = (size_t)rows * tensor->width;
    for (size_t i = 0; i < count; i++) {
        int64_t id = tensor->id_bound > 0 && tensor->id_bound <= UINT32_MAX
                         ? base_random_below(random, (uint32_t)tensor->id_bound)
                         : -(int64_t)tensor->step_add; // of a step that an input says, the first
        int32_t narrow = (int32_t)id;
        float real = tensor->id_bound > 0 ? (float)id : base_random_f32(random, -1.0f, 1.0f);
        const void *value = tensor->dtype == CELL_F32   ? (const void *)&real
                            : tensor->dtype == CELL_I64 ? (const void *)&id
                                                        : (const void *)&narrow;
        memcpy(data + i * cell_dtype_bytes(tensor->dtype), value, cell_dtype_bytes(tensor->dtype));
    }
}

/* Memory for as many rows, time first. */
static enum base_status place(const struct bench_loop *loop, const struct cell_tensor *tensor,
                              struct sched_tensor *out)
{
    size_t bytes = (size_t)tensor->width * cell_dtype_bytes(tensor->dtype);
    out->data = base_alloc_aligned(rows_of(loop, tensor) * bytes, BASE_CACHE_LINE);
    out->batch_bytes = is_of_trees(loop) ? (int64_t)bytes : 0;
    out->step_bytes = tensor->time_axis < 0 ? 0 : (int64_t)bytes;
    out->piece_bytes = (int64_t)(bytes / tensor->pieces);
    return out->data == NULL ? BASE_RESOURCE_EXHAUSTED : BASE_OK;
}

static enum base_status slot_init(struct bench_loop *loop, struct slot *slot, size_t arena_bytes,
                                  struct base_random *random)
{
    const struct cell_model *cells = loop->cells;
    slot->loop = loop;
    slot->job.finished = finished;
    slot->sequences = (struct sched_sequences){
        .model = cells, .n_rows = 1, .inputs = slot->inputs, .outputs = slot->outputs};
    for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
        slot->sequences.steps[s] = &slot->steps[s];
    }
    for (uint32_t i = 0; i < cells->n_inputs; i++) {
        if (!cells->inputs[i].optional) {
            BASE_TRY(place(loop, &cells->inputs[i], &slot->inputs[i]));
            fill_random(&cells->inputs[i], slot->inputs[i].data, rows_of(loop, &cells->inputs[i]),
                        random);
        }
    }
    for (uint32_t o = 0; o < cells->n_outputs; o++) {
        BASE_TRY(place(loop, &cells->outputs[o], &slot->outputs[o]));
    }
    base_arena_init(&slot->arena, arena_bytes, arena_bytes);
    return refill(slot);
}

/* The graph of the longest sequence or the largest tree; any other takes less. */
static enum base_status unfold_largest(const struct bench_loop *loop, struct base_arena *arena)
{
    struct sched_graph *graph = NULL;
    struct sched_tensor none[CELL_TENSORS_MAX] = {{0}};
    if (is_of_trees(loop)) {
        const struct bench_shapes *shapes = loop->shapes;
        uint32_t largest = 0;
        for (uint32_t t = 0; t < shapes->count; t++) {
            largest = shapes->trees[t].n_leaves > shapes->trees[largest].n_leaves ? t : largest;
        }
        const struct sched_forest forest = forest_of(loop, &shapes->trees[largest], none, none);
        return sched_unfold_tree(&forest, arena, &graph, NULL);
    }
    uint32_t steps[CELL_SEQUENCES_MAX];
    struct sched_sequences longest = {
        .model = loop->cells, .n_rows = 1, .inputs = none, .outputs = none};
    cell_model_steps(loop->cells, loop->lengths->max, steps);
    for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
        longest.steps[s] = &steps[s];
    }
    return sched_unfold_chain(&longest, arena, &graph, NULL);
}

/* The size of one chunk that holds any graph; 0: none does. */
static size_t arena_bytes_for(const struct bench_loop *loop)
{
    for (size_t bytes = ARENA_BYTES_MIN; bytes <= ARENA_BYTES_MAX; bytes *= 2) {
        struct base_arena arena;
        base_arena_init(&arena, bytes, bytes);
        enum base_status status = unfold_largest(loop, &arena);
        base_arena_release(&arena);
        if (status == BASE_OK) {
            return bytes;
        }
    }
    return 0;
}

static enum base_status slots_init(struct bench_loop *loop, struct base_error *error)
{
    struct base_random random;
    base_random_init(&random, SEED);
    size_t arena_bytes = arena_bytes_for(loop);
    loop->slots = base_alloc_array(loop->present, sizeof(*loop->slots));
    enum base_status status =
        loop->slots == NULL || arena_bytes == 0 ? BASE_RESOURCE_EXHAUSTED : BASE_OK;
    for (uint32_t i = 0; i < loop->present && status == BASE_OK; i++) {
        status = slot_init(loop, &loop->slots[i], arena_bytes, &random);
    }
    return status == BASE_OK ? BASE_OK : base_fail(error, status, "no memory for the requests");
}

/* Convolutions need as many steps as their windows have. */
static enum base_status check_steps(const struct cell_model *cells,
                                    const struct lg_lengths *lengths, struct base_error *error)
{
    uint32_t steps[CELL_SEQUENCES_MAX];
    for (uint32_t i = 0; i < lengths->count; i++) {
        cell_model_steps(cells, lengths->values[i], steps);
        for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
            if (steps[s] == 0) {
                return base_fail(error, BASE_INVALID_ARGUMENT,
                                 "sequences of %u steps, of which the model's strides and windows "
                                 "leave none",
                                 lengths->values[i]);
            }
        }
    }
    return BASE_OK;
}

enum base_status bench_loop_create(struct srv_engine *engine, const struct cell_model *cells,
                                   const struct bench_load *load, struct bench_loop **out,
                                   struct base_error *error)
{
    const bool is_of_trees = cells->unfold == CELL_UNFOLD_TREE;
    for (uint32_t i = 0; i < cells->n_inputs && !is_of_trees; i++) {
        BASE_TRY(check_tensor(&cells->inputs[i], load->lengths, error));
    }
    if (!is_of_trees) {
        BASE_TRY(check_steps(cells, load->lengths, error));
    }
    for (uint32_t i = 0; i < cells->n_inputs; i++) {
        if (cells->inputs[i].is_lengths && !cells->inputs[i].optional) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "a model that wants lengths");
        }
    }
    struct bench_loop *loop = base_alloc(sizeof(*loop));
    if (loop == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    loop->engine = engine;
    loop->cells = cells;
    loop->lengths = load->lengths;
    loop->shapes = load->shapes;
    loop->present = load->present;
    base_event_init(&loop->over);
    enum base_status status = slots_init(loop, error);
    if (status == BASE_OK) {
        *out = loop;
    } else {
        bench_loop_free(loop);
    }
    return status;
}

void bench_loop_free(struct bench_loop *loop)
{
    for (uint32_t i = 0; loop->slots != NULL && i < loop->present; i++) {
        struct slot *slot = &loop->slots[i];
        for (uint32_t t = 0; t < CELL_TENSORS_MAX; t++) {
            base_free(slot->inputs[t].data);
            base_free(slot->outputs[t].data);
        }
        base_arena_release(&slot->arena);
    }
    base_free(loop->slots);
    base_free(loop);
}
