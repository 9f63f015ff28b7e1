/* A one-SM lane on a card, over cells/cuda/driver.h, for tests/cuda/card_lane.c: its memory, a
 * random cell and chains of it, tasks, launches, and what its answers must be. No library of the
 * tests.
 *
 * One thread. What goes wrong is kept in `wrong`, the first of it; nothing is done behind it. */
#ifndef TESTS_CUDA_CARD_LANE_H
#define TESTS_CUDA_CARD_LANE_H

#include "base/random.h"
#include "cells/cuda/driver.h"
#include "cells/cuda/lane_pack.h"
#include "cells/lane/host.h"

#define LANE_CARD_SLOTS 8u
#define LANE_CARD_STEPS 12u /* of a chain, at most */
#define LANE_CARD_UNITS 128u

/* No wait of a case is longer. */
#define LANE_CARD_WAIT_NS UINT64_C(20000000000)

struct lane_shape {
    enum cell_sm_kind kind;
    bool is_bf16;
    uint32_t units, inputs;
    bool is_given; /* x comes as sums */
};

/* A chain's input and output, in pinned memory. */
struct lane_card_io {
    float x[LANE_CARD_STEPS][CELL_SM_INPUTS_MAX];
    float sums[LANE_CARD_STEPS][4 * LANE_CARD_UNITS];
    float init[2 * LANE_CARD_UNITS];
    float out[LANE_CARD_STEPS][LANE_CARD_UNITS]; /* the lane's */
    float last[2 * LANE_CARD_UNITS];             /* the lane's */
};

struct lane_card_chain {
    uint32_t steps, submitted, done;
    bool has_init;
};

struct lane_card {
    const struct cell_cuda_driver *driver;
    struct cell_cuda *cuda;
    struct lane_shape shape;
    float *w, *r, *b_w, *b_r;
    struct cell_gated gated;
    const struct cell_sm_kernel *kernel;
    struct cell_cuda_lane *lane;
    struct cell_cuda_pinned pinned; /* all that both sides reach */
    cell_step_address weights, memory;
    cell_step_address x; /* the first step of each chain, in the card's memory */
    struct cell_sm_args args;
    struct cell_lane_host host;
    struct cell_sm_row *rows; /* [slots][CELL_SM_ROWS_MAX] */
    uint64_t rows_at;
    struct lane_card_io *io; /* [CELL_SM_ROWS_MAX] */
    uint64_t io_at;
    struct lane_card_chain chains[CELL_SM_ROWS_MAX];
    struct {
        bool is_raw; /* nothing is known of its rows */
        uint32_t n_rows, chains[CELL_SM_ROWS_MAX], steps[CELL_SM_ROWS_MAX];
    } sent[LANE_CARD_SLOTS];
    bool is_filled; /* max_tasks mode: launches for what stands in the ring, and no more */
    uint32_t failed, interrupted;
    uint32_t steps_done; /* of the task settled last */
    struct base_random random;
    struct base_error error;
    const char *wrong;
    char text[160];
};

/* Opens card 0 of the driver, and a lane of the shape with chains of random lengths; driver and
 * is_filled are the caller's, the rest is zeros. false: card->wrong. */
bool lane_card_open(struct lane_card *card, const struct lane_shape *shape);
/* Ends the lane by EXIT, unless it is lost. */
void lane_card_close(struct lane_card *card);

/* The chain from its beginning; its outputs are NaN. */
void lane_card_reset(struct lane_card *card, uint32_t chain);

/* There is room: the next k steps of these chains. */
void lane_card_submit(struct lane_card *card, const uint32_t *chains, uint32_t n, uint32_t k_steps,
                      uint32_t flags);
/* There is room: an op without rows. */
void lane_card_submit_op(struct lane_card *card, uint16_t op);
/* There is room: n rows over the same x at each step. is_far: x in the card's memory, and no
 * outputs; else the chains' own, and each step's output over the last one's, in pinned memory. */
void lane_card_submit_long(struct lane_card *card, uint32_t n, uint32_t k_steps, uint32_t flags,
                           bool is_far);

/* Looks once, settles what is complete, and launches where that is wanted. */
void lane_card_turn(struct lane_card *card);
/* Turns until all is settled. */
void lane_card_drain(struct lane_card *card);
/* Looks until the launch has ended, and launches none. */
void lane_card_wait_end(struct lane_card *card);

/* Runs these chains to their ends: tasks of some of them and some of their steps, several in the
 * ring, now and then one that attention ends early. */
void lane_card_run(struct lane_card *card, const uint32_t *chains, uint32_t n);

/* What a chain's answers are, step by step from the lane's own h before it, in double precision;
 * *worst becomes the largest difference, if that is larger. Over the bound is card->wrong. */
void lane_card_compare(struct lane_card *card, uint32_t chain, double *worst);

#endif
