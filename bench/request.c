/* Requests that stand ready. Arenas are of one chunk, so that unfolding never allocates. */
#include "bench/request.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/random.h"
#include "bench/seq2seq_model.h"

#include <string.h>

#define SEED 1u

/* Arenas of graphs are tried in sizes from this on. */
#define ARENA_BYTES_MIN ((size_t)16 << 10)
#define ARENA_BYTES_MAX ((size_t)256 << 20)

static bool is_of_trees(const struct bench_requests *requests)
{
    return requests->cells->unfold == CELL_UNFOLD_TREE;
}

static bool is_decoder(const struct bench_requests *requests)
{
    return requests->cells->unfold == CELL_UNFOLD_SEQ2SEQ;
}

uint32_t bench_requests_kinds(const struct bench_requests *requests)
{
    return is_of_trees(requests) ? requests->shapes->count : requests->lengths->count;
}

uint32_t bench_requests_rows(const struct bench_requests *requests,
                             const struct cell_tensor *tensor)
{
    if (is_of_trees(requests)) {
        return requests->shapes->leaves_max;
    }
    if (tensor->time_axis < 0) {
        return 1;
    }
    const struct cell_decoder *decoder = &requests->cells->decoder;
    if (is_decoder(requests) && tensor->sequence == decoder->sequence) {
        return decoder->steps_max;
    }
    uint32_t steps[CELL_SEQUENCES_MAX];
    cell_model_steps(requests->cells, requests->lengths->max, steps);
    return steps[tensor->sequence];
}

struct bench_extent bench_requests_extent(const struct bench_requests *requests, uint32_t number)
{
    if (is_of_trees(requests)) {
        const struct bench_shapes *shapes = requests->shapes;
        const struct bench_shape_tree *tree = &shapes->trees[number % shapes->count];
        return (struct bench_extent){.steps = tree->n_leaves + tree->n_nodes};
    }
    const struct lg_lengths *lengths = requests->lengths;
    const struct lg_lengths *answers = requests->answers;
    return (struct bench_extent){
        .steps = lengths->values[number % lengths->count],
        .answer = is_decoder(requests) ? answers->values[number % answers->count] : 0};
}

/* ---- Graphs ---- */

static struct sched_forest forest_of(const struct bench_requests *requests,
                                     const struct bench_shape_tree *tree,
                                     const struct sched_tensor *inputs,
                                     const struct sched_tensor *outputs)
{
    return (struct sched_forest){.model = requests->cells,
                                 .n_leaves = tree->n_leaves,
                                 .n_nodes = tree->n_nodes,
                                 .n_roots = 1,
                                 .children = tree->children,
                                 .order = requests->shapes->order,
                                 .roots = &tree->root,
                                 .inputs = inputs,
                                 .outputs = outputs};
}

void bench_request_unfold(const struct bench_requests *requests, struct bench_request *request,
                          uint32_t number, struct bench_extent padded)
{
    enum base_status status;
    const bool is_padded = padded.steps > 0;
    const struct bench_extent extent = is_padded ? padded : bench_requests_extent(requests, number);
    base_arena_reset(&request->arena);
    request->number = number;
    if (is_of_trees(requests)) {
        const struct bench_shapes *shapes = requests->shapes;
        request->forest = forest_of(requests, &shapes->trees[number % shapes->count],
                                    request->inputs, request->outputs);
        status = sched_unfold_tree(&request->forest, &request->arena, &request->job.graph, NULL);
    } else {
        if (is_decoder(requests)) {
            const float answer = (float)extent.answer;
            memcpy(request->inputs[BENCH_SEQ2SEQ_ANSWER].data, &answer, sizeof answer);
        }
        cell_model_steps(requests->cells, extent.steps, request->steps);
        status =
            sched_unfold_chain(&request->sequences, &request->arena, &request->job.graph, NULL);
    }
    base_assert(status == BASE_OK); // the largest was tried before
}

/* The graph of the longest sequence or the largest tree, of the request's tensors: what nobody asks
 * for takes less. Any other takes less, too. */
static enum base_status unfold_largest(const struct bench_requests *requests,
                                       const struct bench_request *request,
                                       struct base_arena *arena)
{
    struct sched_graph *graph = NULL;
    if (is_of_trees(requests)) {
        const struct bench_shapes *shapes = requests->shapes;
        uint32_t largest = 0;
        for (uint32_t t = 0; t < shapes->count; t++) {
            largest = shapes->trees[t].n_leaves > shapes->trees[largest].n_leaves ? t : largest;
        }
        const struct sched_forest forest =
            forest_of(requests, &shapes->trees[largest], request->inputs, request->outputs);
        return sched_unfold_tree(&forest, arena, &graph, NULL);
    }
    uint32_t steps[CELL_SEQUENCES_MAX];
    sched_node_id decoder;
    struct sched_sequences longest = {.model = requests->cells,
                                      .n_rows = 1,
                                      .inputs = request->inputs,
                                      .outputs = request->outputs,
                                      .decoders = &decoder};
    cell_model_steps(requests->cells, requests->lengths->max, steps);
    for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
        longest.steps[s] = &steps[s];
    }
    return sched_unfold_chain(&longest, arena, &graph, NULL);
}

/* The size of one chunk that holds any graph of the request's tensors; 0: none does. */
static size_t arena_bytes_for(const struct bench_requests *requests,
                              const struct bench_request *request)
{
    for (size_t bytes = ARENA_BYTES_MIN; bytes <= ARENA_BYTES_MAX; bytes *= 2) {
        struct base_arena arena;
        base_arena_init(&arena, bytes, bytes);
        enum base_status status = unfold_largest(requests, request, &arena);
        base_arena_release(&arena);
        if (status == BASE_OK) {
            return bytes;
        }
    }
    return 0;
}

/* ---- Tensors ---- */

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

static enum base_status check_model(const struct bench_requests *requests, struct base_error *error)
{
    const struct cell_model *cells = requests->cells;
    const bool has_steps = !is_of_trees(requests);
    for (uint32_t i = 0; i < cells->n_inputs && has_steps; i++) {
        BASE_TRY(check_tensor(&cells->inputs[i], requests->lengths, error));
    }
    for (uint32_t i = 0; i < cells->n_inputs; i++) {
        if (cells->inputs[i].is_lengths && !cells->inputs[i].optional) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "a model that wants lengths");
        }
    }
    if (is_decoder(requests) && (cells->n_inputs != BENCH_SEQ2SEQ_ANSWER + 1 ||
                                 strcmp(cells->inputs[BENCH_SEQ2SEQ_ANSWER].name, "answer") != 0 ||
                                 requests->answers->max > cells->decoder.steps_max)) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "a decoder without an input 'answer', or of less than %u steps",
                         requests->answers->max);
    }
    return has_steps ? check_steps(cells, requests->lengths, error) : BASE_OK;
}

static void fill_random(const struct cell_tensor *tensor, uint8_t *data, uint32_t rows,
                        struct base_random *random)
{
    size_t count = (size_t)rows * tensor->width;
    for (size_t i = 0; i < count; i++) {
        int64_t id = tensor->id_bound > 0 && tensor->id_bound <= UINT32_MAX
                         ? base_random_below(random, (uint32_t)tensor->id_bound)
                         : cell_telling(tensor->told, 0); // of a step that an input says, the first
        int32_t narrow = (int32_t)id;
        float real = tensor->id_bound > 0 ? (float)id : base_random_f32(random, -1.0f, 1.0f);
        const void *value = tensor->dtype == CELL_F32   ? (const void *)&real
                            : tensor->dtype == CELL_I64 ? (const void *)&id
                                                        : (const void *)&narrow;
        memcpy(data + i * cell_dtype_bytes(tensor->dtype), value, cell_dtype_bytes(tensor->dtype));
    }
}

/* Memory for as many rows, time first. */
static enum base_status place(const struct bench_requests *requests,
                              const struct cell_tensor *tensor, struct sched_tensor *out)
{
    size_t bytes = (size_t)tensor->width * cell_dtype_bytes(tensor->dtype);
    out->data = base_alloc_aligned(bench_requests_rows(requests, tensor) * bytes, BASE_CACHE_LINE);
    out->batch_bytes = is_of_trees(requests) ? (int64_t)bytes : 0;
    out->step_bytes = tensor->time_axis < 0 ? 0 : (int64_t)bytes;
    out->piece_bytes = (int64_t)(bytes / tensor->pieces);
    return out->data == NULL ? BASE_RESOURCE_EXHAUSTED : BASE_OK;
}

/* ---- Life ---- */

/* *arena_bytes: 0, or what an earlier request needed. */
static enum base_status init(const struct bench_requests *requests, struct bench_request *request,
                             struct base_random *random, size_t *arena_bytes)
{
    const struct cell_model *cells = requests->cells;
    request->sequences = (struct sched_sequences){.model = cells,
                                                  .n_rows = 1,
                                                  .inputs = request->inputs,
                                                  .outputs = request->outputs,
                                                  .decoders = &request->decoder};
    for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
        request->sequences.steps[s] = &request->steps[s];
    }
    for (uint32_t i = 0; i < cells->n_inputs; i++) {
        const struct cell_tensor *input = &cells->inputs[i];
        if (!input->optional) {
            BASE_TRY(place(requests, input, &request->inputs[i]));
            fill_random(input, request->inputs[i].data, bench_requests_rows(requests, input),
                        random);
        }
    }
    for (uint32_t o = 0; o < cells->n_outputs; o++) {
        BASE_TRY(place(requests, &cells->outputs[o], &request->outputs[o]));
    }
    *arena_bytes = *arena_bytes == 0 ? arena_bytes_for(requests, request) : *arena_bytes;
    if (*arena_bytes == 0) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    base_arena_init(&request->arena, *arena_bytes, *arena_bytes);
    bench_request_unfold(requests, request, 0,
                         (struct bench_extent){0}); // so that the chunk is there
    return BASE_OK;
}

static enum base_status init_all(struct bench_requests *requests)
{
    size_t arena_bytes = 0;
    struct base_random random;
    base_random_init(&random, SEED);
    requests->all = base_alloc_array(requests->count, sizeof(*requests->all));
    if (requests->all == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (uint32_t i = 0; i < requests->count; i++) {
        BASE_TRY(init(requests, &requests->all[i], &random, &arena_bytes));
    }
    return BASE_OK;
}

enum base_status bench_requests_create(const struct cell_model *cells,
                                       const struct bench_load *load, struct bench_requests *out,
                                       struct base_error *error)
{
    *out = (struct bench_requests){.cells = cells,
                                   .lengths = load->lengths,
                                   .answers = load->answers,
                                   .shapes = load->shapes,
                                   .count = load->present};
    BASE_TRY(check_model(out, error));
    if (init_all(out) != BASE_OK) {
        bench_requests_release(out);
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for the requests");
    }
    return BASE_OK;
}

void bench_requests_release(struct bench_requests *requests)
{
    for (uint32_t i = 0; requests->all != NULL && i < requests->count; i++) {
        struct bench_request *request = &requests->all[i];
        for (uint32_t t = 0; t < CELL_TENSORS_MAX; t++) {
            base_free(request->inputs[t].data);
            base_free(request->outputs[t].data);
        }
        base_arena_release(&request->arena);
    }
    base_free(requests->all);
    requests->all = NULL;
}
