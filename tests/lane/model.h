/* A bounded model check of the lane's protocol (cells/lane/contract.h).
 *
 * Two threads, the host (as cells/lane/host.c) and the lane (as tests/lane/loop.c; or two, as the
 * one-SM lane, is_ahead), take one access to shared memory at a time; every interleaving of them is
 * explored, and with it every value that the memory model lets a load return. States are remembered
 * by their hash.
 *
 * Memory model. Each word keeps all its stores, in order, since it has one writer. A thread has a
 * *view*: of each word, the oldest store that it may still read. A load takes any store from there
 * on, so a thread may see a word late, and two words in another order than they were written: store
 * buffers and reordered loads are among its runs. A release store carries its thread's view; an
 * acquire load that reads it takes that view over. A relaxed store carries nothing. That is C11's
 * release / acquire, without the strength of any processor. Left out are runs in which a load
 * returns a store that only what its own thread does later makes possible (load buffering): where
 * that could matter, a slot that is written anew while it is read, the race below stands for it.
 *
 * Plain memory is checked for races: who reads it must see its last write, who writes it anew must
 * have seen that it was read, and see its last write too.
 *
 * What must hold in every state: no race; no task is run twice; results are those of their task;
 * every launch waits with a beating heart; and some way leads on to the good end, where each task
 * was answered exactly once, failed only if its launch died, and the last launch has ended. A task
 * that is lost, or a launch that an abort does not end, is a state without such a way. */
#ifndef TESTS_LANE_MODEL_H
#define TESTS_LANE_MODEL_H

#include "cells/lane/contract.h"

/* Steps that are done wrong, one at a time; the orders are in struct model_options. */
enum model_mutant {
    MODEL_RIGHT,
    MODEL_PUBLISHES_FIRST,      /* the number before the payload; word 0 before the others */
    MODEL_INPUT_LAST,           /* memory outside the slot behind the number */
    MODEL_COUNTS_FIRST,         /* the counter before the result */
    MODEL_REUSES_EARLY,         /* a slot is written anew while its task may still be read */
    MODEL_COUNTER_BEFORE_ENDED, /* the host reads the two the wrong way round */
    MODEL_LOOKS_ONCE,           /* at `ended` when it submits, and never while it waits */
    MODEL_STARTS_BEHIND,        /* the next launch begins behind what was submitted */
    MODEL_STARTS_AT_SAME,       /* the next launch begins with the last task completed */
    MODEL_ENDS_FIRST,           /* op PARK: ended before the counter */
    MODEL_FAULT_LAST,           /* the fault record behind ended */
    MODEL_WAITS_STILL,          /* the idle poll does not beat */
    MODEL_DEAF,                 /* a step that waits does not look at abort */
    /* Of a lane that takes tasks ahead alone. */
    MODEL_LEAVES_BACK,  /* a launch that is aborted ends before its back has */
    MODEL_HANDS_UNSEEN, /* an order is run without what its writer has seen */
    MODEL_MUTANTS
};

struct model_options {
    enum cell_lane_order orders[CELL_LANE_SITE_COUNT];
    enum cell_lane_form form;
    enum model_mutant mutant;
    bool is_ahead;   /* the lane takes a task while the one before runs */
    uint8_t n_slots; /* 1 or 2 */
    uint8_t n_tasks; /* then one more, EXIT */
    uint8_t park_op; /* number of the task that is a PARK; 0: none */
    uint8_t parks_max, aborts_max, faults_max, attentions_max;
};

struct model_result {
    const char *violation; /* NULL: none */
    uint32_t states, edges;
    bool is_whole; /* false: given up at the bound of states */
};

/* The orders as the contract's table has them, 2 slots, 2 tasks, plain, no mutant. */
void model_options_init(struct model_options *options);

void model_check(const struct model_options *options, struct model_result *out);

#define MODEL_TRACE_MAX 128u

/* The sites of one run in which nothing interferes: the host submits a task, the lane takes it,
 * runs it in two steps and completes it; the host takes the result; then EXIT likewise. Repeats of
 * a site are one. Returns how many. */
uint32_t model_trace(const struct model_options *options, uint8_t sites[MODEL_TRACE_MAX]);

#endif
