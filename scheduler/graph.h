/* The cell graph of one request, and how an unfold program builds it.
 *
 * Nodes are flat arrays in the request's arena, linked by 32-bit indices. A node is one cell or a
 * chain of equal cells over one state slot (cells/batch.h). Connected nodes of one type whose
 * outside inputs come ready together form a *subgraph*, the unit of queueing and pinning
 * (BatchMaker, section 4.3). Built on the loop thread, then owned by the pool thread until the
 * scheduler reports it finished; needs[] may be read by the loop thread at any time. */
#ifndef SCHEDULER_GRAPH_H
#define SCHEDULER_GRAPH_H

#include "base/arena.h"
#include "base/status.h"
#include "cells/batch.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SCHED_NONE UINT32_MAX

/* In sched_graph.shown: the node takes no more steps. */
#define SCHED_SHOWN_ALL 0x80000000u

/* A value row that some node writes after its first or last step and others read. */
struct sched_value {
    uint32_t layout;
    uint32_t row;          /* CELL_ROW_NONE until its writer is first submitted */
    uint32_t readers_left; /* nodes that still read it */
};

/* Two cache lines: a large part of what the scheduler does is to wait for them. */
struct sched_node {
    /* Its references to values have the value's number from the first on, and its row once the node
     * is submitted. */
    struct cell_wiring wiring;
    const struct cell_type *type;
    struct sched_graph *graph;
    struct sched_node *next_ready; /* within its subgraph */
    struct cell_wiring *others; /* [lanes - 1]: of lanes 1 and on, from the first submission on */
    uint32_t subgraph;
    uint32_t steps_submitted, steps_done;
    uint32_t waits;               /* producers in its own subgraph not yet wholly submitted */
    uint32_t first_edge, n_edges; /* its consumers: graph.edges */
    uint32_t follows; /* node that it reads step by step, and nothing else of it; or SCHED_NONE */
    uint16_t lanes;   /* rows in a batch: of a beam its width, else 1 */
    bool has_ended;   /* by wiring.end, whose steps are from then on those it took */
    bool is_shown;    /* who waits for it is told how far it is (sched_graph_show()) */
};

/* References of its inputs, and behind them of its initial states. */
static inline uint32_t sched__n_reads(const struct sched_node *node)
{
    return node->type->def.n_inputs + node->type->def.n_states;
}

/* Whether only the device knows how many steps the node takes. */
static inline bool sched__ends_itself(const struct sched_node *node)
{
    return node->wiring.end != NULL || node->wiring.beam != NULL;
}

/* Of a lane. */
static inline struct cell_wiring *sched__wiring_of(struct sched_node *node, uint32_t lane)
{
    return lane == 0 ? &node->wiring : &node->others[lane - 1];
}

struct sched_subgraph {
    struct sched_graph *graph;
    const struct cell_type *type;
    struct sched_subgraph *next, *previous; /* in a ready list of its type */
    struct sched_node *ready_first, *ready_last;
    uint64_t order;   /* of release */
    uint32_t n_ready; /* rows of the nodes in its ready list */
    uint32_t waits;   /* edges from outside whose producers are not yet done */
    uint32_t running; /* batches in flight that contain its nodes */
    uint32_t pinned;  /* queue, or SCHED_NONE; unset when running falls to 0 */
    uint64_t mark;    /* last batch seen with it, to count each batch once */
    bool listed;      /* stands in a ready list */
    bool released;    /* its outside inputs are ready */
};

struct sched_need {
    uint32_t layout, rows;
};

struct sched_graph {
    struct sched_node *nodes;
    struct sched_subgraph *subgraphs;
    struct sched_value *values;
    uint32_t *edges;
    uint32_t n_nodes, n_subgraphs, n_values, n_edges;
    uint32_t n_needs;
    struct sched_need *needs; /* peak of live rows, per layout */
    uint64_t flops;           /* of all cells, if none ends by itself */
    uint64_t finish_tag;      /* set by sched_add(): its virtual finish time */

    uint32_t nodes_left;     /* not yet done */
    uint32_t rows_running;   /* rows of it in batches in flight */
    bool stopping;           /* cancelled or failed: nothing more is submitted */
    bool inside;             /* between add and finish */
    enum base_status status; /* why it stopped; BASE_OK when it ran to its end */
    uint64_t started_ns;     /* first batch formed; 0 = none yet */
    uint64_t finished_ns;
    struct sched_graph *next_finished;
    /* NULL, or [n_nodes]: of each node that is shown, how many steps have retired whose outputs are
     * an answer (not the one that gave its end), and SCHED_SHOWN_ALL. Any thread may read: acquire,
     * and what these steps have emitted stands there. */
    _Atomic uint32_t *shown;
    bool has_news; /* in the list of sched_take_news() */
    struct sched_graph *next_news;
    struct sched_graph *next_inside, *previous_inside;
    void *user;
};

/* Whether a's rows go before b's: those of the earlier finish tag, of equals as they were released.
 */
static inline bool sched__is_before(const struct sched_subgraph *a, const struct sched_subgraph *b)
{
    const uint64_t tag_a = a->graph->finish_tag;
    const uint64_t tag_b = b->graph->finish_tag;
    return tag_a != tag_b ? tag_a < tag_b : a->order < b->order;
}

/* ---- Building. Every call after a failed one does nothing; finish reports the first failure. ----
 */

/* What refers to a node or a value while building. */
typedef uint32_t sched_node_id;
typedef uint32_t sched_value_id;

struct sched_builder {
    struct base_arena *arena;
    struct sched_graph *graph;
    uint32_t nodes_max, values_max, edges_max;
    uint32_t *edge_from, *edge_to;
    bool *edge_in_steps; /* each step of `to` reads one of `from` */
    bool has_followers;
    enum base_status status;
    const char *why;
};

/* The limits are the unfold program's own count (or a bound) of what it will add. */
void sched_builder_init(struct sched_builder *builder, struct base_arena *arena, uint32_t nodes_max,
                        uint32_t values_max, uint32_t edges_max);

/* A chain of steps >= 1 cells; at most emits_max emits. Inputs and initial states read zeros until
 * bound. Producers must be added before their consumers: a graph has no cycle by construction. */
sched_node_id sched_builder_node(struct sched_builder *builder, const struct cell_type *type,
                                 uint32_t steps, uint32_t emits_max);

/* Input or initial state from request memory: host + step * stride_bytes. */
void sched_builder_input_host(struct sched_builder *builder, sched_node_id node_id, uint32_t input,
                              const void *host, int64_t stride_bytes);
/* An input with many rows (ATTEND, REDUCE), the same at every step: row t at host + t *
 * stride_bytes. */
void sched_builder_input_rows(struct sched_builder *builder, sched_node_id node_id, uint32_t input,
                              const void *host, int64_t stride_bytes, uint32_t rows);
void sched_builder_init_host(struct sched_builder *builder, sched_node_id node_id, uint32_t state,
                             const void *host);

/* A place in request memory: host + step * stride_bytes. */
struct cell_ref sched_host_ref(const void *host, int64_t stride_bytes);

/* The chain may end before its last step; it can then emit nothing there. end: outlives the graph.
 */
void sched_builder_end(struct sched_builder *builder, sched_node_id node_id,
                       const struct cell_end *end);

/* The chain is a beam search, with as many rows as it is wide; it emits nothing. beam: the
 * request's. */
void sched_builder_beam(struct sched_builder *builder, sched_node_id node_id,
                        struct cell_beam *beam);

/* Emit to request memory: emit.to is a sched_host_ref(). */
void sched_builder_emit(struct sched_builder *builder, sched_node_id node_id,
                        struct cell_emit emit);

/* A value row with output or state `index` of the node after its first or last step (not EACH). */
sched_value_id sched_builder_value(struct sched_builder *builder, sched_node_id node_id,
                                   enum cell_emit_what what, enum cell_emit_when when,
                                   uint32_t index);
void sched_builder_input_value(struct sched_builder *builder, sched_node_id node_id, uint32_t input,
                               sched_value_id value_id);
void sched_builder_init_value(struct sched_builder *builder, sched_node_id node_id, uint32_t state,
                              sched_value_id value_id);

/* The node reads what producer emits to request memory: it waits for all of it. */
void sched_builder_after(struct sched_builder *builder, sched_node_id node_id,
                         sched_node_id producer);

/* Likewise, but step t of the node reads what step t of the producer emits, which has as many; it
 * may begin before the producer has ended. */
void sched_builder_after_each(struct sched_builder *builder, sched_node_id node_id,
                              sched_node_id producer);

/* Partitions into subgraphs and counts the needs. RESOURCE_EXHAUSTED (arena), INVALID_ARGUMENT
 * (limits, a bad index, a layout that does not fit) in *error. */
enum base_status sched_builder_finish(struct sched_builder *builder, struct sched_graph **out,
                                      struct base_error *error);

/* Behind sched_builder_finish(), before the graph is added: whoever has it wants to know how far
 * these nodes are while they run. Their runs are short. RESOURCE_EXHAUSTED (arena). */
enum base_status sched_graph_show(struct sched_graph *graph, struct base_arena *arena,
                                  const sched_node_id *nodes, uint32_t n);

#endif
