/* A one-SM lane in the emulator (tests/cuda/fiber.h), with the host that drives it: chains of
 * random cells in random batches, by cells/lane/host.c, every access of both sides checked, every
 * answer compared with its definition. */
#ifndef TESTS_CUDA_FIBER_LANE_H
#define TESTS_CUDA_FIBER_LANE_H

#include "cells/cuda/lane_pack.h"
#include "cells/lane/host.h"
#include "tests/cuda/fiber.h"

#include "base/random.h"

#define FIBER_LANE_SLOTS  4u
#define FIBER_LANE_CHAINS 32u
#define FIBER_LANE_STEPS  12u /* of a chain, at most */
#define FIBER_LANE_UNITS  128u

/* A kernel, compiled for the emulator. */
struct fiber_lane_kernel {
    struct cell_sm_kernel menu;
    uint32_t threads;
    void (*main)(void *argument); /* a struct fiber_lane_launch */
};

struct fiber_lane_launch {
    struct cell_sm_args args;
    void *shared;
    enum cell_sm_kind kind;
};

extern const struct fiber_lane_kernel fiber_lane__f32_16;
extern const struct fiber_lane_kernel fiber_lane__f32_64;
extern const struct fiber_lane_kernel fiber_lane__bf16_16;
extern const struct fiber_lane_kernel fiber_lane__bf16_64;
extern const struct fiber_lane_kernel fiber_lane__bf16_128;

/* What is run. */
struct fiber_lane_options {
    const struct fiber_lane_kernel *kernel;
    enum cell_sm_kind kind;
    uint32_t units, inputs;
    bool is_given;   /* sums over x are computed ahead */
    uint32_t chains; /* rows at a time, at most */
    uint32_t steps;  /* of a chain, at most */
    bool is_calm;    /* tasks have all chains and all their steps: no joining, no attention */
    bool is_alone;   /* a task has one chain */
    bool is_wild;    /* some x are not finite */
    uint32_t one_in; /* turns of the host in which it submits */
    uint64_t seed;   /* of weights, chains and batches; the schedule's is fiber's */
    uint64_t tasks_max, bound_ns, park_ns;
};

void fiber_lane_options_init(struct fiber_lane_options *options,
                             const struct fiber_lane_kernel *kernel);

/* A sequence: a request of one row. */
struct fiber_lane_chain {
    uint32_t id, steps;
    uint32_t submitted, done;
    uint32_t pending; /* tasks in flight; one of them may end early: is_open */
    bool is_open, has_init;
    float x[FIBER_LANE_STEPS][CELL_SM_INPUTS_MAX];
    float sums[FIBER_LANE_STEPS][4 * FIBER_LANE_UNITS];
    float init[2 * FIBER_LANE_UNITS];
    float out[FIBER_LANE_STEPS][FIBER_LANE_UNITS]; /* the lane's */
    float last[2 * FIBER_LANE_UNITS];              /* the lane's */
};

struct fiber_lane {
    struct fiber_lane_options options;
    struct base_random random;
    struct cell_gated gated;
    float *w, *r, *b_w, *b_r;
    struct cell_lane lane;
    struct cell_lane_host host;
    struct fiber_lane_launch launch;
    uint8_t *memory, *weights;
    struct cell_sm_row *rows; /* [slots][CELL_SM_ROWS_MAX] */
    struct fiber_lane_chain *chains;
    struct {
        uint32_t n_rows, chains[CELL_SM_ROWS_MAX], steps[CELL_SM_ROWS_MAX];
        uint16_t op;
    } tasks[FIBER_LANE_SLOTS];
    uint32_t launches, interrupted, failed;
    uint32_t statuses[FIBER_LANE_SLOTS]; /* of the last task in each slot */
    uint32_t wrong;                      /* answers that are not as defined */
    char text[256];                      /* about the first of them */
    bool is_leaving;
};

/* fiber_init() first. */
void fiber_lane_init(struct fiber_lane *rig, const struct fiber_lane_options *options);
void fiber_lane_release(struct fiber_lane *rig);

/* Submits what is left of the chains, in launches as they come, until all is answered or something
 * is wrong: NULL, or what. Ends the lane by EXIT. */
const char *fiber_lane_run(struct fiber_lane *rig);

/* One launch, whatever host does; see fiber_run(). */
enum fiber_end fiber_lane_launch(struct fiber_lane *rig, bool (*host)(void *context));

/* Publishes a RUN of the chains that are named, k steps. The chain's next steps. */
void fiber_lane_submit(struct fiber_lane *rig, const uint32_t *chains, uint32_t n_chains,
                       uint32_t k_steps, uint32_t flags);
void fiber_lane_submit_op(struct fiber_lane *rig, uint16_t op, const uint32_t *chains,
                          uint32_t n_chains);

/* Publishes a task as it is; its outcome is not compared. */
void fiber_lane_submit_raw(struct fiber_lane *rig, const struct cell_lane_task *task);

/* Looks, settles what is complete, and compares it. */
void fiber_lane_look(struct fiber_lane *rig);

/* NULL, or what is wrong with the steps that a chain has done. */
const char *fiber_lane_compare(struct fiber_lane *rig, const struct fiber_lane_chain *chain);

#endif
