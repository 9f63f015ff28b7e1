/* See unfold_oracle.h. */
#include "tests/scheduler/unfold_oracle.h"

#include "base/assert.h"
#include "tests/scheduler/graphs.h"
#include "tests/util.h"

#include <string.h>

/* One token of many. */
static uint64_t add_token(uint64_t sum, uint64_t token)
{
    return (sum ^ token) * 0x9E3779B97F4A7C15u + 1;
}

/* ---- The model, evaluated directly ---- */

/* Of a source that is one row. */
static uint64_t row_token(const struct unfold_trace *trace, const struct cell_source *from,
                          uint32_t row, uint32_t step)
{
    if (from->kind == CELL_SOURCE_INPUT) {
        const struct sched_tensor *tensor = &trace->sequences->inputs[from->index];
        uint64_t token = 0;
        if (tensor->data != NULL) {
            memcpy(&token, tensor->data + row * tensor->batch_bytes + step * tensor->step_bytes, 8);
        }
        return token;
    }
    if (from->kind == CELL_SOURCE_ZERO || !trace->ran[from->stage]) {
        return 0;
    }
    if (from->kind == CELL_SOURCE_LAST_STATE) {
        return trace->states[from->stage][from->index];
    }
    if (from->kind == CELL_SOURCE_FIRST) {
        return trace->outputs[from->stage][from->index][0];
    }
    uint32_t last = trace->steps[from->stage] - 1;
    bool follows = from->kind == CELL_SOURCE_EACH && step <= last;
    return trace->outputs[from->stage][from->index][follows ? step : last];
}

/* All rows of a memory, piece by piece; what a test's cell attends to is one token of them. */
static uint64_t memory_token(const struct unfold_trace *trace, const struct cell_memory *memory,
                             uint32_t row)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < trace->sequences->steps[memory->sequence][row]; t++) {
        for (uint32_t p = 0; p < memory->pieces; p++) {
            sum = add_token(sum, row_token(trace, &memory->sources[p], row, t));
        }
    }
    return sum;
}

/* One step of what is joined. */
static uint64_t join_token(const struct unfold_trace *trace, const struct cell_join *join,
                           uint32_t row, uint32_t step)
{
    const struct cell_model *model = trace->sequences->model;
    for (uint32_t p = 0; p < join->n_parts; p++) {
        const struct cell_join_part *part = &join->parts[p];
        const bool is_input = part->source.kind == CELL_SOURCE_INPUT;
        const uint32_t *lengths =
            is_input ? trace->sequences->steps[model->inputs[part->source.index].sequence] : NULL;
        // A test's cell hands on a token, of one step.
        const uint32_t n = part->count > 0 ? part->count
                           : is_input      ? lengths[row]
                                           : trace->steps[part->source.stage];
        if (step < n) {
            return row_token(trace, &part->source, row, part->is_turned ? n - 1 - step : step);
        }
        step -= n;
    }
    return 0;
}

uint64_t unfold_trace_token(const struct unfold_trace *trace, const struct cell_source *from,
                            uint32_t row, uint32_t step)
{
    if (from->kind == CELL_SOURCE_JOIN) {
        return join_token(trace, &trace->sequences->model->joins[from->index], row, step);
    }
    return from->kind == CELL_SOURCE_MEMORY
               ? memory_token(trace, &trace->sequences->model->memories[from->index], row)
               : row_token(trace, from, row, step);
}

/* What a stage reads at step t: perhaps of a step before or behind it. */
static uint64_t window_token(const struct unfold_trace *trace, const struct cell_stage *stage,
                             uint32_t input, uint32_t row, uint32_t t)
{
    const struct cell_source *from = &stage->inputs[input];
    const struct cell_model *model = trace->sequences->model;
    const uint32_t of = from->kind == CELL_SOURCE_JOIN    ? model->joins[from->index].sequence
                        : from->kind == CELL_SOURCE_INPUT ? model->inputs[from->index].sequence
                                                          : model->stages[from->stage].sequence;
    const int64_t at = from->count == 0 ? t : (int64_t)t * from->stride + from->offset;
    const bool is_there = at >= 0 && at < trace->sequences->steps[of][row];
    return from->count == 0 || is_there ? unfold_trace_token(trace, from, row, (uint32_t)at) : 0;
}

void unfold_trace_row(struct unfold_trace *trace, const struct sched_sequences *sequences,
                      uint32_t row)
{
    memset(trace, 0, sizeof(*trace));
    trace->sequences = sequences;
    for (uint32_t s = 0; s < sequences->model->n_stages; s++) {
        const struct cell_stage *stage = &sequences->model->stages[s];
        const struct cell_def *def = &stage->type->def;
        trace->steps[s] =
            stage->kind == CELL_STAGE_ONCE ? 1 : sequences->steps[stage->sequence][row];
        for (uint32_t i = 0; i < def->n_states; i++) {
            trace->states[s][i] = unfold_trace_token(trace, &stage->init[i], row, 0);
        }
        for (uint32_t n = 0; n < trace->steps[s]; n++) {
            const uint32_t t = stage->is_reverse ? trace->steps[s] - 1 - n : n;
            uint64_t tokens[CELL_INPUTS_MAX] = {0};
            const void *from[CELL_INPUTS_MAX];
            void *states[CELL_STATES_MAX];
            void *to[CELL_OUTPUTS_MAX];
            for (uint32_t i = 0; i < CELL_INPUTS_MAX; i++) {
                from[i] = &tokens[i];
                tokens[i] = i < def->n_inputs ? window_token(trace, stage, i, row, t) : 0;
            }
            for (uint32_t i = 0; i < CELL_STATES_MAX; i++) {
                states[i] = &trace->states[s][i];
            }
            for (uint32_t i = 0; i < CELL_OUTPUTS_MAX; i++) {
                to[i] = &trace->outputs[s][i][t];
            }
            graphs_cell_token(stage->type, from, states, to);
        }
        trace->ran[s] = trace->steps[s] > 0;
    }
}

/* ---- The graph, followed node by node ---- */

static uint64_t *values; /* [value], in the place of value rows */

static uint8_t *place_of(const struct cell_ref *ref, uint32_t step)
{
    static uint64_t zero;
    base_assert(zero == 0);
    if (ref->kind == CELL_REF_ZERO) {
        return (uint8_t *)&zero;
    }
    return ref->kind == CELL_REF_HOST ? ref->host + (int64_t)step * ref->stride_bytes
                                      : (uint8_t *)&values[ref->row];
}

/* What the node reads at a step: of many rows one token. */
static void read_token(const struct cell_ref *ref, uint32_t step, uint64_t *token)
{
    if (ref->kind != CELL_REF_HOST || ref->rows == 0) {
        memcpy(token, place_of(ref, step), 8);
        return;
    }
    *token = 0;
    for (uint32_t t = 0; t < ref->rows; t++) {
        const uint8_t *at = ref->host + (int64_t)t * ref->stride_bytes;
        // Pieces stand side by side; a row of an input is one.
        const size_t n = ref->stride_bytes == 16 ? 2 : 1;
        for (size_t p = 0; p < n; p++) {
            uint64_t piece = 0;
            memcpy(&piece, at + p * 8, 8);
            *token = add_token(*token, piece);
        }
    }
}

static void follow_node(const struct sched_node *node)
{
    uint64_t tokens[CELL_INPUTS_MAX] = {0};
    const struct cell_def *def = &node->type->def;
    uint64_t state_rows[CELL_STATES_MAX] = {0};
    uint64_t output_rows[CELL_OUTPUTS_MAX] = {0};
    const void *from[CELL_INPUTS_MAX];
    void *states[CELL_STATES_MAX];
    void *to[CELL_OUTPUTS_MAX];
    for (uint32_t i = 0; i < CELL_STATES_MAX; i++) {
        states[i] = &state_rows[i];
    }
    for (uint32_t i = 0; i < CELL_OUTPUTS_MAX; i++) {
        to[i] = &output_rows[i];
    }
    for (uint32_t i = 0; i < def->n_states; i++) {
        memcpy(&state_rows[i], place_of(&node->wiring.init[i], 0), 8);
    }
    for (uint32_t t = 0; t < node->wiring.steps; t++) {
        for (uint32_t i = 0; i < def->n_inputs; i++) {
            read_token(&node->wiring.inputs[i], t, &tokens[i]);
            from[i] = &tokens[i];
        }
        graphs_cell_token(node->type, from, states, to);
        for (uint32_t e = 0; e < node->wiring.n_emits; e++) {
            const struct cell_emit *emit = &node->wiring.emits[e];
            if (cell_emit_is_due(emit, t, node->wiring.steps)) {
                memcpy(place_of(&emit->to, t),
                       emit->what == CELL_EMIT_STATE ? &state_rows[emit->index]
                                                     : &output_rows[emit->index],
                       8);
            }
        }
    }
}

/* A value's row is here the one of its number. */
static void number(struct cell_ref *ref)
{
    if (ref->kind == CELL_REF_VALUE) {
        ref->row = ref->value;
    }
}

// The nodes stand in an order that respects the edges.
struct sched_graph *unfold_follow(const struct sched_sequences *sequences, struct base_arena *arena)
{
    struct sched_graph *graph = NULL;
    struct base_error error = {.message = ""};
    enum base_status status = sched_unfold_chain(sequences, arena, &graph, &error);
    ck_assert_msg(status == BASE_OK, "%s", error.message);
    values = base_arena_array(arena, graph->n_values, sizeof(*values));
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        const struct sched_node *node = &graph->nodes[n];
        for (uint32_t i = 0; i < sched__n_reads(node); i++) {
            number(&node->wiring.inputs[i]);
        }
        for (uint32_t e = 0; e < node->wiring.n_emits; e++) {
            number(&node->wiring.emits[e].to);
        }
        follow_node(node);
    }
    return graph;
}
