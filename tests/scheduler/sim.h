/* A simulation of what stands around the scheduler: requests that come, are admitted and cancelled,
 * and devices that run batches, all on one thread with a clock of its own.
 *
 * The devices execute cells of tokens in memory of their own, row ids and all, so whatever is wired
 * wrongly, runs too early, twice or on a row that was given away is noticed by value. Beside that a
 * model of Algorithm 1 predicts every batch: its type, its rows, its length. After each call
 * sched_check() recounts the scheduler. What is wrong ends the program, with the seed printed. */
#ifndef TESTS_SCHEDULER_SIM_H
#define TESTS_SCHEDULER_SIM_H

#include "scheduler/admission.h"
#include "scheduler/scheduler.h"
#include "tests/scheduler/graphs.h"

#define SIM_GRAPHS_MAX 64u
#define SIM_QUEUES_MAX 4u
#define SIM_TASKS_MAX  8u

struct sim_graph {
    struct recipe recipe;
    bool inside;
    uint32_t seen;                  /* steps of all its nodes that it has shown */
    bool failed;                    /* a batch with it failed: its memory says nothing any more */
    enum base_status stopped;       /* by whom it was stopped first; BASE_OK = nobody */
    uint32_t *submitted, *executed; /* [node] steps */
    bool *held;                     /* [node] in a batch in flight that may not take all steps */
    uint8_t **cells;                /* [node][step] executed */
    uint32_t *running;              /* [subgraph] batches in flight, all on one queue */
    uint32_t *queue;
    uint32_t *ready, *taken; /* [subgraph] rows before a batch, and rows it took */
    uint32_t *pinned;        /* [subgraph] before a batch */
    uint32_t *due;           /* [subgraph] rows that the batch should take */
    uint32_t *follower;      /* [node] before a batch: the one that may run behind it */
};

struct sim_queue {
    struct cell_batch *batches[SIM_TASKS_MAX + 1]; /* in flight, oldest first */
    uint32_t n, n_executed;
    uint32_t burst_type, burst_left;
    bool has_burst; /* it has formed a batch before */
    uint32_t
        passed[GRAPHS_TYPES_MAX]; /* batches of other groups while the type had something ready */
    _Atomic uint32_t attention;
};

struct sim {
    uint64_t seed;
    struct base_random random;
    const struct graphs_types *types;
    struct sched_options options;
    uint32_t priorities[GRAPHS_TYPES_MAX], rows_max[GRAPHS_TYPES_MAX];
    uint32_t beside_rows[GRAPHS_TYPES_MAX];
    uint32_t follow_rows[GRAPHS_TYPES_MAX];
    uint32_t groups[GRAPHS_TYPES_MAX];
    uint64_t served[GRAPHS_TYPES_MAX], clock; /* operations that each group has had */
    uint32_t running[GRAPHS_TYPES_MAX];       /* batches of the type in flight */
    uint64_t turn_of[GRAPHS_TYPES_MAX];       /* number of the type's last batch, 0 before it, */
    uint64_t turns;                           /* of so many */
    struct sched *sched;
    struct sched_admission admission;
    uint64_t now_ns;
    uint8_t *rows[GRAPHS_LAYOUTS_MAX]; /* [capacity][row] */
    size_t row_bytes[GRAPHS_LAYOUTS_MAX];
    struct sim_queue queues[SIM_QUEUES_MAX];
    struct sim_graph *graphs[SIM_GRAPHS_MAX];
    uint32_t n_finished, n_ok;
    uint64_t n_batches, n_followers; /* batches that follow another */
    uint64_t n_news;                 /* graphs that sched_take_news() has handed out */
};

/* Prints the seed, the condition and its place, and aborts. */
_Noreturn void sim_fail(const struct sim *sim, const char *condition, const char *file, int line);
#define sim_require(sim, cond) ((cond) ? (void)0 : sim_fail(sim, #cond, __FILE__, __LINE__))

/* ---- Life ---- */

/* From now on the seed is printed, too, when an assertion of the scheduler's own fails. */
void sim_report_aborts(void);

/* Empty, with capacity[layout] rows (NULL: 64 of each); attention words are the simulation's.
 * priorities, rows_max (0 = the option's), beside_rows, follow_rows and groups of the types: as in
 * the struct, filled by the caller before. */
void sim_init(struct sim *sim, const struct graphs_types *types,
              const struct sched_options *options, const uint32_t *capacity, uint64_t seed);
/* Nothing may be inside. */
void sim_release(struct sim *sim);

/* ---- Verbs ---- */

/* Reserves the needs of a built and evaluated recipe and adds it. Returns its graph, whose memory
 * it takes; NULL, and nothing has happened, when it is not admitted now or SIM_GRAPHS_MAX are in.
 */
struct sim_graph *sim_add(struct sim *sim, const struct recipe *recipe);

/* Pulls a batch for a queue, and the one beside it, and checks them against the model. NULL when
 * there is none. */
struct cell_batch *sim_next(struct sim *sim, uint32_t queue);

/* Executes the oldest batch of the queue that waits for it: an interruptible one up to steps_max
 * steps. With a status other than BASE_OK it fails instead. false when none waits. Of two side by
 * side both, one after the other. */
bool sim_execute(struct sim *sim, uint32_t queue, uint32_t steps_max, enum base_status status);

/* Retires the oldest executed batch of the queue; false when there is none. Finished graphs are
 * checked and released. */
bool sim_retire(struct sim *sim, uint32_t queue);

void sim_cancel(struct sim *sim, struct sim_graph *graph, enum base_status status);
void sim_cancel_all(struct sim *sim, enum base_status status);

/* Pulls, executes and retires on all queues until nothing is inside. */
void sim_drain(struct sim *sim);

/* The end of a case, whether it has got as far as sim_init() or not: drains, releases and frees. */
void sim_end(struct sim *sim);

/* ---- Random worlds ---- */

/* One to five types of tokens, into an empty one; every knob of the scheduler. */
void sim_draw_types(struct graphs_types *types, struct base_random *random);
void sim_draw_options(struct sched_options *options, struct base_random *random);

/* capacity[layout], zeros before: rows for factor times the neediest of these recipes, so that with
 * 1 it has hardly room for a second beside it. */
void sim_capacity(uint32_t *capacity, const struct recipe *recipes, uint32_t n, uint32_t factor);

/* ---- For sim.c and sim_model.c ---- */

/* Whether node n reads nothing of an earlier one but the same step at each step. */
bool sim_reads_steps(const struct recipe *recipe, uint32_t n, uint32_t from);

/* A graph that has been added: its finish tag. */
void sim_model_add(struct sim *sim, const struct sched_graph *graph);
/* Notes what is ready for the queue; then compares a formed batch with what was to be formed. */
void sim_model_before(struct sim *sim, uint32_t queue);
/* batch: and the one beside it. */
void sim_model_after(struct sim *sim, uint32_t queue, const struct cell_batch *batch);
void sim_model_retire(struct sim *sim, const struct cell_batch *batch);
void sim_model_row_ended(const struct sim *sim, const struct cell_batch_row *row);

/* Behind each retirement: who has news, and that what is shown stands there. */
void sim_news_check(struct sim *sim);

static inline struct sim_graph *sim_graph_of(const struct cell_batch_row *row)
{
    return ((const struct sched_node *)row->tag)->graph->user;
}
static inline uint32_t sim_node_of(const struct cell_batch_row *row)
{
    const struct sched_node *node = row->tag;
    return (uint32_t)(node - node->graph->nodes);
}

#endif
