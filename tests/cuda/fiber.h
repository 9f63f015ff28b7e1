/* A thread block on one CPU: each thread of cells/cuda/block.h is a fiber (a ucontext), and which
 * goes on next is drawn at random by seed.
 *
 * Fibers are threads and not warps, though there are more of them: block code is written for a
 * thread, and what one thread of a warp does before the others do is a part of what is tested.
 * They change at barriers, warp functions, words, clocks and naps; between these the order makes no
 * difference, since every access to memory is checked: two that touch the same word, of which one
 * writes, must be ordered by barriers and words, whatever the schedule was. So a barrier that is
 * missing is found by every schedule, and not by luck.
 *
 * The host is one more thread: it runs when host() is called, between two fibers, and its accesses
 * are checked as the others are. Time is made up, and passes when somebody looks at it.
 *
 * One block at a time, by one thread. */
#ifndef TESTS_CUDA_FIBER_H
#define TESTS_CUDA_FIBER_H

#include "cells/cuda/block.h"

#define FIBER_THREADS_MAX 352u
#define FIBER_NONE        UINT32_MAX

struct fiber_options {
    uint64_t seed;
    uint32_t n_threads;
    uint32_t gone_site;   /* this place of synchronisation is taken away, or FIBER_NONE */
    int relaxed_site;     /* of cells/lane/contract.h: its order becomes RELAXED; -1: none */
    uint32_t hung_thread; /* does not come to barrier hung_barrier the hung_at-th time, or NONE */
    uint32_t hung_barrier, hung_at;
    uint64_t turns_max; /* changes of fibers after which a launch has gone wrong */
};

/* Forgets what was checked so far. Defaults: seed 1, nothing wrong. */
void fiber_init(const struct fiber_options *options);
void fiber_options_init(struct fiber_options *options, uint32_t n_threads);
void fiber_release(void);

/* Memory that a block may touch; anything else is a violation. Zeroed or written already counts as
 * written by the host. Until fiber_init(). */
void fiber_watch(const void *base, size_t bytes, const char *name);

enum fiber_end {
    FIBER_ENDED,     /* all threads have returned */
    FIBER_STOPPED,   /* host() said so */
    FIBER_VIOLATION, /* fiber_violation() says what */
};

/* Runs main(argument) on every thread, with host(context) in between; its false ends the run, and
 * the fibers are given up where they stand. A launch: what the host wrote before is visible, and
 * when all threads have returned, what they wrote is visible to the next launch. */
enum fiber_end fiber_run(void (*main)(void *argument), void *argument, bool (*host)(void *context),
                         void *context);

/* The first thing that was wrong since fiber_init(), or NULL. */
const char *fiber_violation(void);

uint64_t fiber_now_ns(void);

/* ---- The host's ---- */

/* It reads or writes memory that the block touches too. */
void fiber_host_touch(const void *at, size_t bytes, bool is_write);

#endif
