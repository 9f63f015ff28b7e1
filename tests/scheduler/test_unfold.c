/* The unfold program `chain`: models made by hand and at random are unfolded and followed, and what
 * comes out is compared with the model evaluated directly (unfold_oracle.h). */
#include "base/mem.h"
#include "scheduler/unfold.h"
#include "tests/scheduler/graphs.h"
#include "tests/scheduler/unfold_oracle.h"
#include "tests/util.h"

#include <string.h>

#define ROWS_MAX  5u
#define STEPS_MAX 7u /* that a request says */
#define ROOM      UNFOLD_STEPS_MAX
#define WIDTH     1u /* of every value: one token */
#define TENSORS   6u
#define BLANK     0xA5A5A5A5A5A5A5A5u

/* A tensor of tokens [rows, steps], with room for both orders of the axes. */
struct tensor {
    uint64_t data[ROWS_MAX * ROOM];
};

static struct graphs_types types;
static const struct cell_type *chain; /* one input, two states, one output */
static const struct cell_type *each;  /* two inputs, two outputs */
static struct cell_model model;
static struct base_arena arena;
static struct tensor inputs[TENSORS], outputs[TENSORS];
static struct sched_tensor in[TENSORS], out[TENSORS];
/* Sequences: of OF_ALL all rows have the same steps, of STRIDED those that follow from FIRST, of
 * JOINED those of all parts of a join. SEQUENCES: those that stages are drawn of. */
enum { FIRST, SECOND, OF_ALL, STRIDED, SEQUENCES, JOINED = SEQUENCES };
enum { STRIDE = 2, ADD = 1 };
static uint32_t lengths[SEQUENCES + 1][ROWS_MAX];
static uint32_t *const steps = lengths[FIRST];
static struct sched_sequences sequences;

static void setup(void)
{
    memset(&types, 0, sizeof(types));
    memset(&model, 0, sizeof(model));
    chain = graphs_type_token(&types, 1, 2, 1, WIDTH);
    each = graphs_type_token(&types, 2, 0, 2, WIDTH);
    model.n_sequences = SEQUENCES + 1;
    model.sequences[STRIDED] =
        (struct cell_sequence){.stride = STRIDE, .add = ADD, .source = FIRST};
    model.n_inputs = TENSORS;
    for (uint32_t t = 0; t < TENSORS; t++) { // a token is two floats
        model.inputs[t] = (struct cell_tensor){.width = 2,
                                               .pieces = 1,
                                               .batch_axis = t == TENSORS - 1 ? -1 : 0,
                                               .sequence = t == TENSORS - 1 ? OF_ALL : t % 2};
    }
    base_arena_init(&arena, 4096, 1 << 20);
    struct base_random random = util_random(4);
    for (uint32_t t = 0; t < TENSORS; t++) {
        for (uint32_t i = 0; i < ROWS_MAX * ROOM; i++) {
            inputs[t].data[i] = base_random_u64(&random);
            outputs[t].data[i] = BLANK;
        }
        in[t] = (struct sched_tensor){
            .data = (uint8_t *)inputs[t].data, .batch_bytes = ROOM * 8, .step_bytes = 8};
        out[t] = in[t];
        out[t].data = (uint8_t *)outputs[t].data;
    }
    for (uint32_t r = 0; r < ROWS_MAX; r++) {
        lengths[FIRST][r] = lengths[SECOND][r] = lengths[OF_ALL][r] = STEPS_MAX;
        lengths[STRIDED][r] = cell_sequence_steps(&model.sequences[STRIDED], STEPS_MAX);
    }
    sequences = (struct sched_sequences){.model = &model,
                                         .n_rows = 1,
                                         .steps = {lengths[FIRST], lengths[SECOND], lengths[OF_ALL],
                                                   lengths[STRIDED], lengths[JOINED]},
                                         .inputs = in,
                                         .outputs = out};
}

static void teardown(void)
{
    base_arena_release(&arena);
}

static struct cell_stage *stage_add(const struct cell_type *type, enum cell_stage_kind kind)
{
    struct cell_stage *stage = &model.stages[model.n_stages++];
    stage->type = type;
    stage->kind = kind;
    return stage;
}

static struct cell_source source(enum cell_source_kind kind, uint32_t stage, uint32_t index)
{
    return (struct cell_source){.kind = kind, .stage = stage, .index = index};
}

static void output_of(struct cell_source from)
{
    model.outputs[model.n_outputs].pieces = 1;
    model.output_sources[model.n_outputs++][0] = from;
}

static void output_add(enum cell_source_kind kind, uint32_t stage, uint32_t index)
{
    output_of(source(kind, stage, index));
}

static void to_time_first(struct sched_tensor *tensor)
{
    tensor->batch_bytes = 8;
    tensor->step_bytes = ROWS_MAX * 8;
}

/* Of a tensor that all rows share. */
static void to_shared(struct sched_tensor *tensor)
{
    tensor->batch_bytes = 0;
    tensor->step_bytes = 8;
}

/* Rows of the output tensors that are not as the model says, untouched ones included. */
static uint32_t wrong_tokens(void)
{
    static struct unfold_trace trace;
    static struct tensor want[TENSORS];
    memset(want, 0xA5, sizeof(want));
    for (uint32_t row = 0; row < sequences.n_rows; row++) {
        unfold_trace_row(&trace, &sequences, row);
        for (uint32_t o = 0; o < model.n_outputs; o++) {
            const struct cell_source *from = model.output_sources[o];
            uint32_t n = from->kind == CELL_SOURCE_EACH ? trace.steps[from->stage] : 1;
            for (uint32_t t = 0; trace.ran[from->stage] && out[o].data != NULL && t < n; t++) {
                int64_t at = row * out[o].batch_bytes + t * out[o].step_bytes;
                want[o].data[at / 8] = unfold_trace_token(&trace, from, row, t);
            }
        }
    }
    uint32_t wrong = 0;
    for (uint32_t o = 0; o < TENSORS; o++) {
        for (uint32_t i = 0; i < ROWS_MAX * ROOM; i++) {
            wrong += outputs[o].data[i] == want[o].data[i] ? 0 : 1;
        }
    }
    return wrong;
}

static struct sched_graph *unfold(void)
{
    return unfold_follow(&sequences, &arena);
}

/* ---- Cases ---- */

/* Embedding, two LSTM layers, a head on every step; final states of both layers. */
static void stacked_model(void)
{
    struct cell_stage *first = stage_add(each, CELL_STAGE_EACH);
    first->inputs[0] = source(CELL_SOURCE_INPUT, 0, 0);
    first->inputs[1] = source(CELL_SOURCE_INPUT, 0, 1);
    for (uint32_t layer = 1; layer <= 2; layer++) {
        struct cell_stage *stage = stage_add(chain, CELL_STAGE_CHAIN);
        stage->inputs[0] = source(CELL_SOURCE_EACH, layer - 1, 0);
        stage->init[1] = source(CELL_SOURCE_INPUT, 0, 1 + layer);
        output_add(CELL_SOURCE_LAST_STATE, layer, 1);
    }
    struct cell_stage *head = stage_add(each, CELL_STAGE_EACH);
    head->inputs[0] = source(CELL_SOURCE_EACH, 2, 0);
    head->inputs[1] = source(CELL_SOURCE_EACH, 1, 0);
    output_add(CELL_SOURCE_EACH, 3, 1);
    model.n_inputs = 4;
}

START_TEST(test_stack_of_layers_with_carried_states)
{
    stacked_model();
    const struct sched_graph *graph = unfold();
    ck_assert_uint_eq(graph->n_nodes, 4);
    ck_assert_uint_eq(graph->n_values, 0);
    ck_assert_uint_eq(graph->n_needs, 1); // two slots: all values pass through request memory
    ck_assert_uint_eq(graph->needs[0].rows, 2);
    ck_assert_uint_eq(wrong_tokens(), 0);
}
END_TEST

/* What the second of two layers reads of the first, and whether it may follow it. */
static const struct {
    bool is_reverse[2], is_each, reads_state, is_same_type, is_window, follows;
} layers[] = {
    {.follows = true},
    {.is_reverse = {true, true}, .follows = true},
    {.is_reverse = {false, true}},
    {.is_reverse = {true, false}},
    {.is_each = true},     // not a chain
    {.reads_state = true}, // and the last one of the first, too
    {.is_same_type = true},
    {.is_window = true}, // a step behind its own
};

START_TEST(test_layer_that_reads_each_step_follows)
{
    const struct cell_type *second = graphs_type_token(&types, 2, 2, 1, WIDTH);
    for (uint32_t i = 0; i < 2; i++) {
        struct cell_stage *stage =
            stage_add(i == 0 || layers[_i].is_same_type ? chain : second, CELL_STAGE_CHAIN);
        stage->is_reverse = layers[_i].is_reverse[i];
    }
    struct cell_stage *upper = &model.stages[1];
    model.stages[0].inputs[0] = source(CELL_SOURCE_INPUT, 0, 0);
    upper->inputs[0] = source(CELL_SOURCE_EACH, 0, 0);
    if (layers[_i].is_each) {
        upper->type = each;
        upper->kind = CELL_STAGE_EACH;
    }
    if (layers[_i].reads_state) {
        upper->init[1] = source(CELL_SOURCE_LAST_STATE, 0, 0);
    }
    if (layers[_i].is_window) {
        model.reach = 1;
        upper->inputs[0].count = 1;
        upper->inputs[0].stride = 1;
        upper->inputs[0].offset = 1;
    }
    output_add(CELL_SOURCE_EACH, 1, 0);
    const struct sched_graph *graph = unfold();
    ck_assert_uint_eq(graph->nodes[0].follows, SCHED_NONE);
    ck_assert_uint_eq(graph->nodes[1].follows, layers[_i].follows ? 0 : SCHED_NONE);
    ck_assert_uint_eq(wrong_tokens(), 0);
}
END_TEST

START_TEST(test_rows_of_a_batch_in_both_orders_of_axes)
{
    stacked_model();
    sequences.n_rows = ROWS_MAX;
    to_time_first(&in[0]);
    to_time_first(&out[2]);
    const struct sched_graph *graph = unfold();
    ck_assert_uint_eq(graph->n_nodes, 4 * ROWS_MAX);
    ck_assert_uint_eq(wrong_tokens(), 0);
    int64_t step = graph->nodes[0].wiring.inputs[0].stride_bytes;
    ck_assert_int_eq(step, ROWS_MAX * 8);
    ck_assert_ptr_eq(graph->nodes[4].wiring.inputs[0].host, (uint8_t *)inputs[0].data + 8);
    ck_assert_ptr_eq(graph->nodes[4].wiring.inputs[1].host, (uint8_t *)inputs[1].data + ROOM * 8);
}
END_TEST

START_TEST(test_rows_of_their_own_lengths)
{
    stacked_model();
    sequences.n_rows = ROWS_MAX;
    for (uint32_t r = 0; r < ROWS_MAX; r++) {
        steps[r] = 1 + r;
    }
    (void)unfold();
    ck_assert_uint_eq(wrong_tokens(), 0);
}
END_TEST

/* The classifier: only the last output goes on, by a value row, to a stage that runs once. */
static void classifier_model(void)
{
    struct cell_stage *stage = stage_add(chain, CELL_STAGE_CHAIN);
    stage->inputs[0] = source(CELL_SOURCE_INPUT, 0, 0);
    struct cell_stage *head = stage_add(each, CELL_STAGE_ONCE);
    head->inputs[0] = source(CELL_SOURCE_LAST, 0, 0);
    head->inputs[1] = source(CELL_SOURCE_LAST_STATE, 0, 1);
    output_add(CELL_SOURCE_LAST, 1, 0);
    model.n_inputs = 1;
}

START_TEST(test_values_read_once_go_through_value_rows)
{
    classifier_model();
    sequences.n_rows = 2;
    const struct sched_graph *graph = unfold();
    ck_assert_uint_eq(graph->n_nodes, 4);
    ck_assert_uint_eq(graph->n_values, 4);
    ck_assert_uint_eq(wrong_tokens(), 0);
}
END_TEST

START_TEST(test_value_read_twice_is_kept_once)
{
    classifier_model();
    model.stages[1].inputs[1] = source(CELL_SOURCE_LAST, 0, 0);
    const struct sched_graph *graph = unfold();
    ck_assert_uint_eq(graph->n_values, 1);
    ck_assert_uint_eq(graph->values[0].readers_left, 2);
    ck_assert_uint_eq(wrong_tokens(), 0);
}
END_TEST

START_TEST(test_row_of_no_steps_runs_only_what_runs_once_and_reads_zeros)
{
    classifier_model();
    sequences.n_rows = 3;
    steps[1] = 0;
    const struct sched_graph *graph = unfold();
    ck_assert_uint_eq(graph->n_nodes, 5);
    ck_assert_uint_eq(wrong_tokens(), 0);
}
END_TEST

START_TEST(test_request_of_no_steps_at_all_has_no_graph)
{
    stacked_model();
    steps[0] = 0;
    struct sched_graph unset;
    struct sched_graph *graph = &unset;
    struct base_error error;
    ck_assert_int_eq(sched_unfold_chain(&sequences, &arena, &graph, &error), BASE_OK);
    ck_assert_ptr_null(graph);
}
END_TEST

START_TEST(test_what_is_left_out_reads_zeros_and_writes_nothing)
{
    stacked_model();
    in[1].data = NULL;
    in[2].data = NULL;
    out[0].data = NULL;
    const struct sched_graph *graph = unfold();
    ck_assert_int_eq(graph->nodes[0].wiring.inputs[1].kind, CELL_REF_ZERO);
    ck_assert_int_eq(graph->nodes[1].wiring.init[1].kind, CELL_REF_ZERO);
    ck_assert_uint_eq(wrong_tokens(), 0);
}
END_TEST

/* A document and a question, each its own steps; the document attends to both directions of the
 * question, one row of which all rows share. */
static void reader_model(void)
{
    for (uint32_t s = 0; s < 3; s++) {
        struct cell_stage *stage = stage_add(chain, CELL_STAGE_CHAIN);
        stage->inputs[0] = source(CELL_SOURCE_INPUT, 0, s == 0 ? 0 : 1);
        stage->sequence = s == 0 ? FIRST : OF_ALL;
        stage->is_shared = s > 0;
        stage->is_reverse = s == 2;
    }
    model.n_memories = 1;
    model.memories[0] = (struct cell_memory){
        .width = 4,
        .pieces = 2,
        .sequence = OF_ALL,
        .sources = {source(CELL_SOURCE_EACH, 1, 0), source(CELL_SOURCE_EACH, 2, 0)}};
    struct cell_stage *attends = stage_add(each, CELL_STAGE_EACH);
    attends->inputs[0] = source(CELL_SOURCE_EACH, 0, 0);
    attends->inputs[1] = source(CELL_SOURCE_MEMORY, 0, 0);
    struct cell_stage *once = stage_add(each, CELL_STAGE_ONCE);
    once->inputs[0] = source(CELL_SOURCE_MEMORY, 0, 0);
    once->inputs[1] = source(CELL_SOURCE_LAST_STATE, 2, 1);
    output_add(CELL_SOURCE_EACH, 3, 0);
    output_add(CELL_SOURCE_LAST, 4, 1);
    output_add(CELL_SOURCE_EACH, 1, 0);
    to_shared(&in[1]);
    to_shared(&out[2]);
    model.n_inputs = 2;
}

/* A stage that runs once takes the step that an input says, of each row its own. */
START_TEST(test_an_input_says_which_step)
{
    static const int64_t said[] = {2, -7, 0, 9};
    for (uint32_t i = 0; i < 8; i++) {
        model.n_stages = model.n_outputs = 0;
        struct cell_stage *stage = stage_add(chain, CELL_STAGE_CHAIN);
        stage->inputs[0] = source(CELL_SOURCE_INPUT, 0, 0);
        stage->sequence = FIRST;
        struct cell_stage *once = stage_add(each, CELL_STAGE_ONCE);
        once->inputs[0] = source(CELL_SOURCE_EACH, 0, 0);
        once->inputs[0].count = once->inputs[0].stride = 1;
        once->inputs[0].offset = 1;
        once->inputs[0].by = 2; // input 1
        once->inputs[0].is_clipped = true;
        once->inputs[0].is_ended = i >= 4;
        output_add(CELL_SOURCE_LAST, 1, 0);
        model.inputs[1].dtype = CELL_I64;
        model.n_inputs = 2;
        sequences.n_rows = 1;
        lengths[FIRST][0] = 5;
        memcpy(in[1].data, &said[i % 4], sizeof(said[0]));
        const struct sched_graph *graph = unfold();
        const struct cell_ref *ref = &graph->nodes[1].wiring.inputs[0];
        int64_t step = said[i % 4] + 1 < 0 ? 0 : said[i % 4] + 1;
        step = i >= 4 && step >= 5 ? 4 : step;
        if (step >= 5) { // nobody asks for it who has been checked
            ck_assert_int_eq(ref->kind, CELL_REF_ZERO);
            continue;
        }
        const struct cell_emit *emit = &graph->nodes[0].wiring.emits[0];
        ck_assert_ptr_eq(ref->host, emit->to.host + step * emit->to.stride_bytes);
    }
}
END_TEST

/* Two parts of each step, less the first one: three of two steps, backwards too. */
START_TEST(test_steps_that_are_parts_of_rows)
{
    const struct cell_type *wide = graphs_type_token(&types, 2, 0, 2, 2 * WIDTH);
    for (uint32_t is_reverse = 0; is_reverse < 2; is_reverse++) {
        model.n_stages = model.n_outputs = 0;
        model.sequences[STRIDED] =
            (struct cell_sequence){.stride = 1, .add = -2, .parts = 2, .source = FIRST};
        struct cell_stage *stage = stage_add(wide, CELL_STAGE_EACH);
        stage->inputs[0] = source(CELL_SOURCE_INPUT, 0, 0);
        stage->sequence = FIRST;
        struct cell_stage *parts = stage_add(chain, CELL_STAGE_CHAIN);
        parts->inputs[0] = source(CELL_SOURCE_EACH, 0, 0);
        parts->inputs[0].count = parts->inputs[0].stride = 1;
        parts->inputs[0].offset = 1;
        parts->inputs[0].parts = 2;
        parts->sequence = STRIDED;
        parts->is_reverse = is_reverse == 1;
        output_add(CELL_SOURCE_LAST, 1, 0);
        model.n_inputs = 1;
        sequences.n_rows = 1;
        lengths[FIRST][0] = 2;
        lengths[STRIDED][0] = cell_sequence_steps(&model.sequences[STRIDED], 2);
        ck_assert_uint_eq(lengths[STRIDED][0], 3);
        const struct sched_graph *graph = unfold();
        const struct cell_emit *emit = &graph->nodes[0].wiring.emits[0];
        const struct cell_ref *ref = &graph->nodes[1].wiring.inputs[0];
        const int64_t part = emit->to.stride_bytes / 2;
        ck_assert_int_gt(part, 0);
        ck_assert_ptr_eq(ref->host, emit->to.host + part * (is_reverse == 1 ? 3 : 1));
        ck_assert_int_eq(ref->stride_bytes, is_reverse == 1 ? -part : part);
    }
}
END_TEST

/* Steps count from 0 in each row, backwards too, whatever the longest row has. */
START_TEST(test_steps_have_numbers)
{
    for (uint32_t is_reverse = 0; is_reverse < 2; is_reverse++) {
        model.n_stages = model.n_outputs = 0;
        struct cell_stage *stage = stage_add(chain, CELL_STAGE_CHAIN);
        stage->inputs[0] = source(CELL_SOURCE_NUMBER, 0, 0);
        stage->sequence = FIRST;
        stage->is_reverse = is_reverse == 1;
        output_add(CELL_SOURCE_EACH, 0, 0);
        model.n_inputs = 1;
        sequences.n_rows = 2;
        lengths[FIRST][0] = 2;
        lengths[FIRST][1] = 5;
        const struct sched_graph *graph = unfold();
        ck_assert_uint_eq(graph->n_nodes, 2);
        for (uint32_t n = 0; n < 2; n++) {
            const struct cell_ref *ref = &graph->nodes[n].wiring.inputs[0];
            const uint32_t own = lengths[FIRST][n];
            for (uint32_t t = 0; t < own; t++) {
                int64_t number = -1;
                memcpy(&number, ref->host + (int64_t)t * ref->stride_bytes, sizeof(number));
                ck_assert_int_eq(number, is_reverse == 1 ? own - 1 - t : t);
            }
        }
    }
}
END_TEST

START_TEST(test_what_all_rows_share_runs_once)
{
    reader_model();
    sequences.n_rows = 3;
    for (uint32_t r = 0; r < ROWS_MAX; r++) {
        lengths[FIRST][r] = 2 + r;
        lengths[OF_ALL][r] = 5;
    }
    const struct sched_graph *graph = unfold();
    ck_assert_uint_eq(graph->n_nodes, 2 + 3 * 3);
    ck_assert_uint_eq(graph->n_values, 1);
    ck_assert_uint_eq(graph->values[0].readers_left, 3);
    ck_assert_uint_eq(graph->nodes[0].wiring.n_emits, 2); // the memory and the answer
    ck_assert_uint_eq(wrong_tokens(), 0);
}
END_TEST

START_TEST(test_sequence_without_steps_is_attended_to_as_nothing)
{
    reader_model();
    sequences.n_rows = 2;
    lengths[FIRST][1] = 0;
    lengths[OF_ALL][0] = lengths[OF_ALL][1] = 0;
    const struct sched_graph *graph = unfold();
    ck_assert_uint_eq(graph->n_nodes, 4);
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        ck_assert(n == 0 || graph->nodes[n].wiring.inputs[1].kind == CELL_REF_ZERO);
    }
    ck_assert_uint_eq(wrong_tokens(), 0);
}
END_TEST

/* Whether a stage may read a stage's results: what all rows share reads nothing else. */
static bool may_read(const struct cell_stage *stage, uint32_t other)
{
    return !stage->is_shared || model.stages[other].is_shared;
}

/* All steps of two stages of one sequence side by side, or of an input. */
static struct cell_source draw_memory(struct base_random *random, const struct cell_stage *stage,
                                      uint32_t n_stages)
{
    struct cell_memory *memory = &model.memories[model.n_memories];
    *memory = (struct cell_memory){.width = 2, .pieces = 1, .sequence = stage->sequence};
    memory->sources[0] =
        source(CELL_SOURCE_INPUT, 0, stage->is_shared ? TENSORS - 1 : base_random_below(random, 4));
    const uint32_t first = base_random_below(random, n_stages);
    const uint32_t second = base_random_below(random, n_stages);
    const struct cell_stage *from = &model.stages[first];
    if (from->kind != CELL_STAGE_ONCE && model.stages[second].kind != CELL_STAGE_ONCE &&
        from->sequence == model.stages[second].sequence &&
        from->is_shared == model.stages[second].is_shared && may_read(stage, first)) {
        *memory = (struct cell_memory){
            .width = 4,
            .pieces = 2,
            .sequence = from->sequence,
            .sources = {source(CELL_SOURCE_EACH, first, 0), source(CELL_SOURCE_EACH, second, 0)}};
    }
    return source(CELL_SOURCE_MEMORY, 0, model.n_memories++);
}

/* A source a stage may read: anything before it. */
static struct cell_source draw_source(struct base_random *random, const struct cell_stage *stage,
                                      uint32_t n_stages, bool is_init)
{
    const uint32_t tensor = stage->is_shared ? TENSORS - 1 : base_random_below(random, TENSORS);
    const uint32_t from = n_stages == 0 ? 0 : base_random_below(random, n_stages);
    if (n_stages == 0 || base_random_below(random, 3) == 0 || !may_read(stage, from)) {
        enum cell_source_kind kind =
            base_random_below(random, 4) == 0 ? CELL_SOURCE_ZERO : CELL_SOURCE_INPUT;
        return source(kind, 0, tensor);
    }
    if (!is_init && model.n_memories < CELL_MEMORIES_MAX && base_random_below(random, 4) == 0) {
        return draw_memory(random, stage, n_stages);
    }
    const struct cell_def *def = &model.stages[from].type->def;
    if (def->n_states > 0 && base_random_below(random, 3) == 0) {
        return source(CELL_SOURCE_LAST_STATE, from, base_random_below(random, def->n_states));
    }
    const bool is_of_steps =
        stage->kind != CELL_STAGE_ONCE && model.stages[from].kind != CELL_STAGE_ONCE;
    const bool fits = !is_of_steps || stage->sequence == model.stages[from].sequence;
    bool follows = !is_init && fits && base_random_below(random, 2) == 0;
    bool is_first = base_random_below(random, 3) == 0;
    return source(follows    ? CELL_SOURCE_EACH
                  : is_first ? CELL_SOURCE_FIRST
                             : CELL_SOURCE_LAST,
                  from, base_random_below(random, def->n_outputs));
}

/* No further than windows do: many models' reach no step beyond the ends. */
static void reach_to(int32_t steps_beyond)
{
    const uint32_t beyond = steps_beyond < 0 ? 0 : (uint32_t)steps_beyond;
    model.reach = beyond > model.reach ? beyond : model.reach;
}

/* Perhaps of another step than the stage's own. */
static struct cell_source draw_window(struct base_random *random, const struct cell_stage *stage,
                                      struct cell_source from)
{
    const bool fits =
        (from.kind == CELL_SOURCE_INPUT && model.inputs[from.index].sequence == stage->sequence) ||
        (from.kind == CELL_SOURCE_EACH && model.stages[from.stage].kind != CELL_STAGE_ONCE);
    if (stage->kind != CELL_STAGE_ONCE && fits && base_random_below(random, 3) == 0) {
        from.count = from.stride = 1;
        from.offset = (int32_t)base_random_below(random, 7) - 3;
        reach_to(-from.offset);
        reach_to(from.offset);
    }
    return from;
}

/* Of a stage whose steps follow from those of FIRST: what it reads of that sequence. */
static struct cell_source draw_strided(struct base_random *random, const struct cell_stage *stage,
                                       uint32_t n_stages)
{
    struct cell_source from = source(CELL_SOURCE_INPUT, 0, 2 * base_random_below(random, 2));
    const uint32_t other = n_stages == 0 ? 0 : base_random_below(random, n_stages);
    if (n_stages > 0 && model.stages[other].kind != CELL_STAGE_ONCE &&
        model.stages[other].sequence == FIRST && may_read(stage, other)) {
        from = source(CELL_SOURCE_EACH, other, 0);
    }
    from.count = 1;
    from.stride = STRIDE;
    from.offset = (int32_t)base_random_below(random, 7) - 3;
    reach_to(-from.offset);
    reach_to(ADD + from.offset + 1); // of the last window, behind the last step
    return from;
}

static void draw_stages(struct base_random *random, uint32_t n)
{
    for (uint32_t s = 0; s < n; s++) {
        bool is_chain = base_random_below(random, 2) == 0;
        struct cell_stage stage = {.type = is_chain ? chain : each};
        stage.kind = is_chain                            ? CELL_STAGE_CHAIN
                     : base_random_below(random, 2) == 0 ? CELL_STAGE_EACH
                                                         : CELL_STAGE_ONCE;
        stage.is_reverse = is_chain && base_random_below(random, 2) == 0;
        stage.is_shared = base_random_below(random, 4) == 0;
        stage.sequence = stage.is_shared ? OF_ALL : base_random_below(random, SEQUENCES);
        for (uint32_t i = 0; i < 2; i++) {
            stage.inputs[i] =
                stage.sequence == STRIDED && base_random_below(random, 2) == 0
                    ? draw_strided(random, &stage, s)
                    : draw_window(random, &stage, draw_source(random, &stage, s, false));
            stage.init[i] = draw_source(random, &stage, s, true);
        }
        model.stages[model.n_stages++] = stage;
    }
}

/* Steps of up to three stages or inputs behind each other, some turned round, and a stage that
 * reads them, each or as windows. */
static void draw_join(struct base_random *random)
{
    struct cell_join *join = &model.joins[model.n_joins];
    const uint32_t n_stages = model.n_stages;
    *join = (struct cell_join){
        .width = 2, .sequence = JOINED, .is_shared = base_random_below(random, 4) == 0};
    while (join->n_parts < 1 + base_random_below(random, 3)) {
        const uint32_t from = base_random_below(random, n_stages);
        const uint32_t tensor = join->is_shared ? TENSORS - 1 : base_random_below(random, TENSORS);
        const struct cell_stage *stage = &model.stages[from];
        struct cell_join_part *part = &join->parts[join->n_parts++];
        const bool is_stage =
            stage->is_shared == join->is_shared && base_random_below(random, 2) == 0;
        const bool is_once = is_stage && stage->kind == CELL_STAGE_ONCE;
        part->source = is_stage ? source(CELL_SOURCE_EACH, from,
                                         base_random_below(random, stage->type->def.n_outputs))
                                : source(CELL_SOURCE_INPUT, 0, tensor);
        part->count = is_once || (!is_stage && base_random_below(random, 4) == 0) ? 1 : 0;
        part->is_turned = part->count == 0 && base_random_below(random, 2) == 0;
    }
    struct cell_stage *reader = stage_add(chain, CELL_STAGE_CHAIN);
    reader->inputs[0] = source(CELL_SOURCE_JOIN, 0, model.n_joins++);
    reader->sequence = JOINED;
    reader->is_shared = join->is_shared;
    reader->is_reverse = base_random_below(random, 2) == 0;
    if (base_random_below(random, 2) == 0) {
        reader->inputs[0].count = reader->inputs[0].stride = 1;
        reader->inputs[0].offset = (int32_t)base_random_below(random, 7) - 3;
        reach_to(-reader->inputs[0].offset);
        reach_to(reader->inputs[0].offset);
    }
}

static void draw_lengths(struct base_random *random)
{
    const uint32_t of_all = 1 + base_random_below(random, STEPS_MAX);
    for (uint32_t r = 0; r < ROWS_MAX; r++) {
        lengths[FIRST][r] = 1 + base_random_below(random, STEPS_MAX);
        lengths[SECOND][r] = 1 + base_random_below(random, STEPS_MAX);
        lengths[OF_ALL][r] = of_all;
        lengths[STRIDED][r] = cell_sequence_steps(&model.sequences[STRIDED], lengths[FIRST][r]);
        lengths[JOINED][r] = 0;
        for (uint32_t p = 0; model.n_joins > 0 && p < model.joins[0].n_parts; p++) {
            const struct cell_join_part *part = &model.joins[0].parts[p];
            const uint32_t of = part->source.kind == CELL_SOURCE_INPUT
                                    ? model.inputs[part->source.index].sequence
                                    : model.stages[part->source.stage].sequence;
            lengths[JOINED][r] += part->count > 0 ? part->count : lengths[of][r];
        }
        // Fewer, as lengths may say; what all rows share has as many in each.
        const bool has_own = model.n_joins > 0 && !model.joins[0].is_shared &&
                             model.stages[model.n_stages - 1].inputs[0].count == 0 &&
                             base_random_below(random, 4) == 0;
        lengths[JOINED][r] =
            has_own ? base_random_below(random, lengths[JOINED][r] + 1) : lengths[JOINED][r];
    }
}

static void draw_model(struct base_random *random)
{
    const struct cell_stage once = {.kind = CELL_STAGE_ONCE};
    uint32_t n = 1 + base_random_below(random, 6);
    draw_stages(random, n);
    if (base_random_below(random, 2) == 0) {
        draw_join(random);
        n++;
    }
    for (uint32_t o = 0; o < TENSORS; o++) {
        struct cell_source from = draw_source(random, &once, n, true);
        if (base_random_below(random, 2) == 0 && from.kind == CELL_SOURCE_LAST &&
            model.stages[from.stage].kind != CELL_STAGE_ONCE) {
            from.kind = CELL_SOURCE_EACH;
        }
        if (from.kind > CELL_SOURCE_INPUT) {
            output_of(from);
        }
    }
}

/* Both orders of axes; tensors that all rows share have no axis for them. */
static void draw_places(struct base_random *random)
{
    for (uint32_t t = 0; t < TENSORS; t++) {
        if (base_random_below(random, 2) == 0) {
            to_time_first(&in[t]);
            to_time_first(&out[t]);
        }
    }
    to_shared(&in[TENSORS - 1]);
    for (uint32_t o = 0; o < model.n_outputs; o++) {
        if (model.stages[model.output_sources[o][0].stage].is_shared) {
            to_shared(&out[o]);
        }
    }
}

START_TEST(test_random_models_compute_what_they_say)
{
    struct base_random random = util_random(5);
    uint32_t memories = 0;
    uint32_t joins = 0;
    for (uint32_t i = 0; i < 6000; i++) {
        teardown();
        setup();
        draw_model(&random);
        sequences.n_rows = 1 + base_random_below(&random, ROWS_MAX);
        draw_lengths(&random);
        draw_places(&random);
        (void)unfold();
        memories += model.n_memories;
        joins += model.n_joins;
        ck_assert_msg(wrong_tokens() == 0, "model %u", i);
    }
    ck_assert_uint_gt(memories, 1000);
    ck_assert_uint_gt(joins, 1000);
}
END_TEST

START_TEST(test_spent_arena_is_reported_wherever_it_ends)
{
    stacked_model();
    sequences.n_rows = 2;
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    uint32_t refused = 0;
    for (size_t budget = 256; status != BASE_OK; budget += 64) {
        struct base_arena memory;
        struct sched_graph *graph = NULL;
        struct base_error error;
        base_arena_init(&memory, 256, budget);
        status = sched_unfold_chain(&sequences, &memory, &graph, &error);
        base_arena_release(&memory);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
        refused += status == BASE_OK ? 0 : 1;
    }
    ck_assert_uint_gt(refused, 10);
}
END_TEST

START_TEST(test_batch_whose_nodes_cannot_be_counted_is_refused)
{
    stacked_model();
    sequences.n_rows = UINT32_MAX / 3;
    struct sched_graph *graph = NULL;
    struct base_error error;
    ck_assert_int_eq(sched_unfold_chain(&sequences, &arena, &graph, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "batch of 1431655765 rows is too large");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unfold");
    TCase *tcase = tcase_create("unfold");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_stack_of_layers_with_carried_states);
    tcase_add_loop_test(tcase, test_layer_that_reads_each_step_follows, 0,
                        sizeof(layers) / sizeof(layers[0]));
    tcase_add_test(tcase, test_rows_of_a_batch_in_both_orders_of_axes);
    tcase_add_test(tcase, test_rows_of_their_own_lengths);
    tcase_add_test(tcase, test_values_read_once_go_through_value_rows);
    tcase_add_test(tcase, test_value_read_twice_is_kept_once);
    tcase_add_test(tcase, test_row_of_no_steps_runs_only_what_runs_once_and_reads_zeros);
    tcase_add_test(tcase, test_request_of_no_steps_at_all_has_no_graph);
    tcase_add_test(tcase, test_what_is_left_out_reads_zeros_and_writes_nothing);
    tcase_add_test(tcase, test_an_input_says_which_step);
    tcase_add_test(tcase, test_steps_that_are_parts_of_rows);
    tcase_add_test(tcase, test_steps_have_numbers);
    tcase_add_test(tcase, test_what_all_rows_share_runs_once);
    tcase_add_test(tcase, test_sequence_without_steps_is_attended_to_as_nothing);
    tcase_add_test(tcase, test_random_models_compute_what_they_say);
    tcase_add_test(tcase, test_spent_arena_is_reported_wherever_it_ends);
    tcase_add_test(tcase, test_batch_whose_nodes_cannot_be_counted_is_refused);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
