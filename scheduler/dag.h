/* A graph of cells as somebody else describes it, by numbers: which cell each node is, and which
 * output of a node each input of another reads (cells/model.h, struct cell_graph). Nothing in it is
 * trusted: it is checked and put in order here, before it is unfolded (scheduler/unfold.h).
 *
 * Inputs and outputs of all nodes are numbered through, node after node: input i of node n is
 * number first_input[n] + i. Pure; any thread. */
#ifndef SCHEDULER_DAG_H
#define SCHEDULER_DAG_H

#include "base/arena.h"
#include "base/status.h"
#include "cells/model.h"
#include "scheduler/graph.h"

struct sched_dag {
    /* ---- Given ---- */
    const struct cell_model *model;
    uint32_t n_nodes, n_edges;
    const int64_t *cells; /* [n_nodes]: stages of the model */
    const int64_t *edges; /* [n_edges][CELL_EDGE_NUMBERS] */

    /* ---- Found by sched_dag_check() ---- */
    uint32_t n_of_cell[CELL_STAGES_MAX];  /* nodes of each cell */
    uint32_t *places;                     /* [n_nodes]: which of its cell's nodes a node is */
    uint32_t *first_input, *first_output; /* [n_nodes + 1] */
    uint32_t *fed_by;                     /* by input: the edge that it reads, or SCHED_NONE */
    uint32_t *readers;                    /* by output: edges that read it */
    uint32_t *order;                      /* [n_nodes]: who is read before who reads */
    uint32_t n_values;                    /* outputs that are read */
    uint32_t n_ends;                      /* nodes that nobody reads */

    /* ---- Added by who unfolds it: zeros, as sched_dag_check() makes them, mean none ---- */
    const uint8_t **
        rows; /* by input: its row in request memory, read where no edge leads to it; NULL: zeros */
    uint8_t **answers; /* by output: where its row goes; NULL: nowhere */
};

/* Checks what is given and finds the rest, in arrays of the arena. A cell's node may be named
 * before those it reads. INVALID_ARGUMENT: no nodes, a number beyond what there is, two edges into
 * one input, an output that does not fit its reader, a node that is read on its own way; the
 * message has the numbers. RESOURCE_EXHAUSTED: the arena is spent. O(nodes + edges). */
enum base_status sched_dag_check(struct sched_dag *dag, struct base_arena *arena,
                                 struct base_error *error);

/* The cell of a node of a checked graph. */
const struct cell_graph_cell *sched_dag_cell(const struct sched_dag *dag, uint32_t node);

/* A number of an edge of a checked graph. */
static inline uint32_t sched_dag_edge(const struct sched_dag *dag, uint32_t edge, uint32_t which)
{
    return (uint32_t)dag->edges[(size_t)edge * CELL_EDGE_NUMBERS + which];
}

#endif
