/* The scheduler: cellular batching over cell graphs (BatchMaker, EuroSys'18, Algorithm 1).
 *
 * Pure: no I/O, clock, thread or allocation after creation; time comes in as an argument. So the
 * tests and a simulator drive it step by step. Owner: the pool thread; only the counters of struct
 * sched_type_stats may be read by other threads.
 *
 * Runs. A batch advances its rows up to k steps. k is bounded by the smallest number of steps left
 * among its rows, so that a request leaves the moment its last cell retires; by run_steps_max; and
 * by run_steps_shared, or run_flops_shared, while other types have ready rows. A batch of many rows
 * of a small cell, of which one leaves at nearly every step, goes on for some without them
 * (run_flops_least). An interruptible run keeps its rows until it retires; otherwise dependencies
 * advance at submit (line 18) and the next batch may follow with the same rows at once.
 *
 * Order. Where a batch has no room for all that are ready, rows go first whose graph has the
 * earliest finish tag: what its group (sched_type_set_group()) had been given when it came, and
 * eight times its own work, as if it were served at an eighth of the group's share (virtual finish
 * times of fair queueing, Demers, Keshav and Shenker 1989). So small graphs overtake large ones,
 * and none is overtaken for ever: the longer it waits the fewer come before it. Equal ones go as
 * they were released.
 *
 * Side by side. Where a device runs two batches at the same time, a queue with nothing in flight is
 * given two of different types, if both have few rows, and steps about as long, of chains whose
 * length is known. What is ready waits for nothing of a different type that is not done, so neither
 * reads what the other writes. Where nothing else is ready to run beside a batch, it is given the
 * chains that read its own step by step (a layer over a layer): they come as far as those do. */
#ifndef SCHEDULER_SCHEDULER_H
#define SCHEDULER_SCHEDULER_H

#include "cells/batch.h"
#include "scheduler/graph.h"
#include "scheduler/policy.h"
#include "scheduler/rows.h"

#define SCHED_QUEUES_MAX  64u
#define SCHED_ROW_BUCKETS 11u /* le 1, 2, 4, ... 1024 */

struct sched_options {
    uint32_t n_queues;
    uint32_t rows_max;         /* Bsizes.Max() unless a type has its own; <= CELL_BATCH_ROWS_MAX */
    uint32_t rows_min;         /* Bsizes.Min() */
    uint32_t tasks_max;        /* MaxTasksToSubmit: batches in flight per queue, and in a burst */
    bool full_behind_runs;     /* behind a run that can be interrupted only full batches */
    uint32_t run_steps_max;    /* bound of a run */
    uint32_t run_steps_shared; /* the same while another type has ready rows, */
    uint64_t run_flops_shared; /* but in small cells as many steps as make so many operations */
    uint64_t run_flops_least; /* a batch that rows leave goes on up to so many operations; 0: not */
    uint64_t run_flops_shown; /* a run of nodes that are shown: up to so many operations, and up to
                                 run_steps_shared steps; at least one; 0: only that */
    bool interruptible;       /* the devices look at their attention words */
    bool spans;               /* the device takes several steps of a row of a type without state */
    bool beside;              /* and run two batches at the same time; tasks_max >= 2 */
    uint32_t
        follow_steps_min; /* of a run that another is to follow, where they are interruptible */
    const struct sched_policy *policy;
    const _Atomic uint32_t *attention[SCHED_QUEUES_MAX]; /* one per queue; outlive the scheduler */
};

/* Written by the pool thread with relaxed stores; any thread may read a moment's view. */
struct sched_type_stats {
    _Atomic uint64_t batches, steps; /* steps: of batches, that is rounds of the kernel */
    _Atomic uint64_t cells;          /* rows x steps */
    _Atomic uint64_t exec_ns;        /* submit to retire, summed over batches */
    _Atomic uint64_t rows_buckets[SCHED_ROW_BUCKETS + 1]; /* batches by rows, the last = larger */
    _Atomic uint64_t rows_sum;
};

struct sched;

/* Defaults: 1 queue, 64 rows, min 1, 5 tasks, runs of 256 steps (8 shared; 24 to be
 * followed), interruptible. */
void sched_options_init(struct sched_options *options);
/* Those of a device that computes while it is pumped (cell_device_caps.pumped): one batch at a
 * time, long runs, interrupted when somebody comes. One that computes behind our back is kept busy
 * by several short batches instead. */
void sched_options_init_pumped(struct sched_options *options);

enum base_status sched_create(const struct sched_options *options, struct sched **out);
/* Nothing may be inside any more. */
void sched_free(struct sched *sched);

/* Makes a type known, or changes its numbers; while nothing of it is inside, or from the pool
 * thread. rows_max 0 = the option's. Priorities of a type shared by models: the caller's maximum.
 * RESOURCE_EXHAUSTED when out of memory. */
enum base_status sched_type_set(struct sched *sched, const struct cell_type *type,
                                uint32_t priority, uint32_t rows_max);
/* The type is not known any more, if it was; its counts are gone, and its id may be another's. When
 * sched_type_set() may be called; no graph of it is inside. */
void sched_type_drop(struct sched *sched, const struct cell_type *type);
/* Types of one group, below CELL_TYPES_MAX, share the device with those of others as one: the types
 * of a model, so that one with more requests than can be served does not hold back the others. At
 * first all are of group 0. Of a known type; when sched_type_set() may be called. */
void sched_type_set_group(struct sched *sched, const struct cell_type *type, uint32_t group);
/* Batches of the type of up to so many rows may have one of another such type beside them; at first
 * none. Of up to follow_rows also if one follows the other. Of a known type; when sched_type_set()
 * may be called. */
void sched_type_set_beside(struct sched *sched, const struct cell_type *type, uint32_t rows,
                           uint32_t follow_rows);
/* Ids for a layout's rows, as sched_rows_open(); before any graph needs them. */
enum base_status sched_layout_open(struct sched *sched, uint32_t layout, uint32_t capacity);

/* Takes a graph whose needs were reserved. It leaves through sched_take_finished(). */
void sched_add(struct sched *sched, struct sched_graph *graph, uint64_t now_ns);

/* Stops a graph that is inside (else nothing happens): what has not been submitted never will be;
 * what is in flight ends at its device's next look at the attention word. The first stop's status
 * stays. */
void sched_cancel(struct sched *sched, struct sched_graph *graph, enum base_status status,
                  uint64_t now_ns);

/* Stops all graphs inside. */
void sched_cancel_all(struct sched *sched, enum base_status status, uint64_t now_ns);

/* Forms the next batch for a queue, and perhaps one beside it (batch.beside, submitted with it);
 * or returns NULL: nothing ready for it, or tasks_max in flight. Both are the device's until
 * sched_retire() of each. */
struct cell_batch *sched_next(struct sched *sched, uint32_t queue_index, uint64_t now_ns);

/* Whether a group has something ready for the queue that has been served less than those whose
 * batches are in flight: what can be interrupted of these should be, though nobody new has come. */
bool sched_is_pressed(const struct sched *sched, uint32_t queue_index);

/* Whether a run in flight stands in the way of what is ready for the queue, when somebody new has
 * come: it has room, or somebody who has less to do than it has would now go before its last row;
 * or a graph of it has been stopped. What cannot be interrupted is not in the way. */
bool sched_is_in_way(const struct sched *sched, uint32_t queue_index);

/* Takes a completed batch back, in the queue's order; batch.steps_done, rows and status as the
 * device left them. */
void sched_retire(struct sched *sched, struct cell_batch *batch, uint64_t now_ns);

/* Takes back one row, whose chain has ended, of a batch that goes on without it. */
void sched_row_ended(struct sched *sched, struct cell_batch *batch, uint32_t row, uint64_t now_ns);

/* Graphs finished since the last call, oldest first, linked by next_finished; NULL when none. Their
 * rows are free; status says how they ended. */
struct sched_graph *sched_take_finished(struct sched *sched);

/* Graphs inside of which nodes that are shown have done more steps since the last call, linked by
 * next_news; NULL when none. */
struct sched_graph *sched_take_news(struct sched *sched);

/* Inspect. */
uint32_t sched_graphs_inside(const struct sched *sched);
const struct sched_rows *sched_rows_of(const struct sched *sched);
const struct sched_type_stats *sched_type_stats(const struct sched *sched, cell_type_id type);
/* Recounts everything that is counted and asserts that it agrees: for tests, O(everything). */
void sched_check(const struct sched *sched);

#endif
