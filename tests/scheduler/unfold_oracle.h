/* What a request's unfolding is compared with: the model evaluated directly, row by row, on tokens
 * (graphs.h) of eight bytes; and what it computes: the graph, followed node by node. */
#ifndef TESTS_SCHEDULER_UNFOLD_ORACLE_H
#define TESTS_SCHEDULER_UNFOLD_ORACLE_H

#include "scheduler/unfold.h"

#include <stdbool.h>
#include <stdint.h>

#define UNFOLD_STEPS_MAX 21u

/* Of one row: every stage's outputs after every step and its states at the end. */
struct unfold_trace {
    const struct sched_sequences *sequences;
    bool ran[CELL_STAGES_MAX];
    uint32_t steps[CELL_STAGES_MAX];
    uint64_t outputs[CELL_STAGES_MAX][CELL_OUTPUTS_MAX][UNFOLD_STEPS_MAX];
    uint64_t states[CELL_STAGES_MAX][CELL_STATES_MAX];
};

/* Evaluates a row; of sequences of up to UNFOLD_STEPS_MAX steps, which must outlive the trace. */
void unfold_trace_row(struct unfold_trace *trace, const struct sched_sequences *sequences,
                      uint32_t row);

/* What a source is at a step of the evaluated row: of many rows one token. */
uint64_t unfold_trace_token(const struct unfold_trace *trace, const struct cell_source *from,
                            uint32_t row, uint32_t step);

/* Unfolds, which must succeed, and runs every node's steps: outputs stand in sequences->outputs
 * then. The graph is the arena's. */
struct sched_graph *unfold_follow(const struct sched_sequences *sequences,
                                  struct base_arena *arena);

#endif
