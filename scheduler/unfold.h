/* Unfold programs: from a model and a request's tensors to a cell graph.
 *
 * `tree`: every leaf and every inner node is a node of the graph; what a node hands up goes through
 * value rows, and is free again when its parent has read it.
 *
 * `graph`: every node that the request names is a node of the graph; an output that others read
 * goes through a value row, and is free again when the last of them has read it.
 *
 * `chain`: every row of the batch axis becomes one chain per CHAIN stage, with the model's EACH and
 * ONCE stages around it (cells/model.h); what reads nothing of a batch axis runs once for all rows.
 * Values that are read at every step of a chain, and what cells attend to, pass through request
 * memory, values read once through a value row. A DECODER stage is a chain whose steps end
 * by themselves, after decoder_steps at the latest. Pure; loop thread. */
#ifndef SCHEDULER_UNFOLD_H
#define SCHEDULER_UNFOLD_H

#include "cells/model.h"
#include "scheduler/dag.h"
#include "scheduler/graph.h"

/* Where a tensor's rows lie in request memory: piece p of the row of batch b at step t is at
 * data + b * batch_bytes + t * step_bytes + p * piece_bytes. */
struct sched_tensor {
    uint8_t *data; /* NULL: an optional input left out (zeros), or an output not asked for */
    int64_t batch_bytes, step_bytes, piece_bytes;
};

/* Of a request of a session whose model has a stream (cells/model.h): what each row brings and
 * takes of steps. [stage][row], or [row]. */
struct sched_stream {
    bool is_end; /* no other request comes */
    const uint32_t *given;
    uint32_t *taken;
    int64_t *given_before, *taken_before; /* in all requests before this one */
};

struct sched_sequences {
    const struct cell_model *model;
    uint32_t n_rows; /* of the batch axis, >= 1 */
    /* [model->n_sequences][n_rows]: length of each row; 0: no step runs, what reads its results
     * reads zeros. Not looked at of what a decoder answers. */
    const uint32_t *steps[CELL_SEQUENCES_MAX];
    const struct sched_tensor *inputs; /* [model->n_inputs] */
    const struct sched_tensor
        *outputs;            /* [model->n_outputs]; a decoder's have room for all steps */
    sched_node_id *decoders; /* [n_rows], filled: nodes of a decoder; of CELL_UNFOLD_SEQ2SEQ */
    const struct sched_stream *stream; /* NULL: a whole sequence, or the model has none. Else what
                                          is in steps is not looked at, but of what is answered */
    const uint8_t **kept;   /* [model->n_histories][n_rows], filled with a stream: where what a
                               session keeps stands when the graph has finished, NULL of rows that
                               nothing was brought of */
    uint32_t decoder_steps; /* a decoder takes at most so many; 0: as many as the model's. Of a
                               transducer each row takes at most what its frames ask for */
    uint32_t beam_width;    /* of its search, at most the model's; 0: the model's */
};

/* Trees of one request: leaves are numbered from 0, inner nodes behind them. */
struct sched_forest {
    const struct cell_model *model;
    uint32_t n_leaves, n_nodes, n_roots; /* inner nodes; those that are nobody's child */
    const uint32_t *children;            /* [n_nodes][tree.n_children]: numbers, SCHED_NONE: none */
    const uint32_t *order;               /* [n_nodes]: inner nodes, children before parents */
    const uint32_t *roots;               /* [n_roots]: numbers */
    const struct sched_tensor *inputs;   /* [model->n_inputs]: a row a leaf, or an inner node */
    const struct sched_tensor *outputs;  /* [model->n_outputs]: a row a root */
};

/* Takes all memory from the arena. RESOURCE_EXHAUSTED (arena spent), INVALID_ARGUMENT. */
enum base_status sched_unfold_tree(const struct sched_forest *forest, struct base_arena *arena,
                                   struct sched_graph **out, struct base_error *error);

/* dag: checked, with its rows and answers. The same. */
enum base_status sched_unfold_graph(const struct sched_dag *dag, struct base_arena *arena,
                                    struct sched_graph **out, struct base_error *error);

static inline uint32_t sched_decoder_steps(const struct sched_sequences *sequences)
{
    const uint32_t most = sequences->model->decoder.steps_max;
    const uint32_t asked = sequences->decoder_steps;
    return asked > 0 && asked < most ? asked : most;
}

/* 0: no beam search. */
static inline uint32_t sched_beam_width(const struct sched_sequences *sequences)
{
    const uint32_t most = sequences->model->decoder.beam_width;
    const uint32_t asked = sequences->beam_width;
    return asked > 0 && asked < most ? asked : most;
}

/* When the graph has finished: writes what a session keeps of a stream, as far as it is asked for.
 */
void sched_sequences_keep(const struct sched_sequences *sequences);

/* Takes all memory from the arena. *out is NULL when nothing is to run: every row has no step and
 * the model no ONCE stage. INVALID_ARGUMENT, RESOURCE_EXHAUSTED (arena spent). */
enum base_status sched_unfold_chain(const struct sched_sequences *sequences,
                                    struct base_arena *arena, struct sched_graph **out,
                                    struct base_error *error);

#endif
