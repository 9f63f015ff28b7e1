/* Ways of batching whole requests, as other systems do it, beside cells as they come: who of those
 * that wait goes in next. Pure, one thread. */
#ifndef BENCH_BATCHING_H
#define BENCH_BATCHING_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum bench_batching_kind {
    /* Whoever comes goes in, as long as there is room (BatchMaker; what the server does). */
    BENCH_CELLULAR,
    /* When all are out: those that wait go in, and their graphs run as one, merged by depth.
     * Answers leave together (TensorFlow Fold, DyNet). */
    BENCH_MERGE,
    /* When all are out: those of one bucket of steps go in, of one bucket after the other, all
     * padded to the longest among them, and their answers to the longest of these (TensorFlow,
     * MXNet, servers' dynamic batching). */
    BENCH_GRAPH,
    /* One after the other. */
    BENCH_SINGLE,
};

/* How long a request is. */
struct bench_extent {
    uint32_t steps;  /* of its sequence, or nodes of its tree */
    uint32_t answer; /* steps of its decoder; 0: it has none */
};

struct bench_batching_policy {
    enum bench_batching_kind kind;
    uint32_t width; /* GRAPH: steps of a bucket, 1..; its first is of 1..width */
    uint32_t most;  /* requests of a group; of CELLULAR that are inside */
};

/* "cellular", "merge", "single" or "graph:WIDTH"; `most` is left as it is. INVALID_ARGUMENT. */
enum base_status bench_batching_parse(const char *text, struct bench_batching_policy *out,
                                      struct base_error *error);

struct bench_batching;

/* Of requests that are numbered 0..capacity-1 while they wait, none of more than steps_max.
 * RESOURCE_EXHAUSTED. */
enum base_status bench_batching_create(const struct bench_batching_policy *policy,
                                       uint32_t capacity, uint32_t steps_max,
                                       struct bench_batching **out, struct base_error *error);
void bench_batching_free(struct bench_batching *batching); /* NULL is allowed */

/* A request comes; of its number none waits. */
void bench_batching_add(struct bench_batching *batching, uint32_t id, struct bench_extent extent);

/* Whether answers leave together, when the last of a group is out. */
bool bench_batching_is_grouped(const struct bench_batching *batching);

/* The next that goes in now: its number, and in *padded what it is padded to (zeros: nothing is).
 * UINT32_MAX: nobody. Asked until it says so; only then is the group complete. */
uint32_t bench_batching_next(struct bench_batching *batching, struct bench_extent *padded);

/* One that was inside is out. */
void bench_batching_leave(struct bench_batching *batching);

uint32_t bench_batching_inside(const struct bench_batching *batching);
uint32_t bench_batching_waiting(const struct bench_batching *batching);

#endif
