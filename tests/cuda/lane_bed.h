/* A cell type on the CUDA device over a host's driver, with queues and lanes as wanted, and chains
 * on it: what the suites of lanes in the device share. */
#ifndef TESTS_CUDA_LANE_BED_H
#define TESTS_CUDA_LANE_BED_H

#include "tests/cells/rig.h"

enum { LANE_BED_QUEUES = 2, LANE_BED_DEPTH = 4, LANE_BED_UNITS_MAX = 128 };

struct lane_bed_options {
    /* Products by the driver's library, which on a host sums from the last term to the first: so
     * the stream has other bits than a lane, as on a card. */
    bool is_library;
    bool is_gru;
    enum cell_products products;
    uint32_t inputs, units;
    uint32_t n_queues; /* 0: 1 */
    uint32_t n_rows;   /* of each layout; 0: RIG_ROWS */
    bool lanes_off;
    uint64_t watchdog_ns;
};

struct lane_bed {
    struct build build;
    struct cell_registry *registry;
    const struct cell_type *type;
    const struct cell_backend *backend;
    struct cell_device *device;
    uint32_t n_queues;
    uint64_t submitted[LANE_BED_QUEUES];
};

/* Opens and loads, or fails the case. */
void lane_bed_init(struct lane_bed *bed, const struct lane_bed_options *options);
/* Wants nothing to have been allocated while work was outstanding. */
void lane_bed_release(struct lane_bed *bed);

/* Whether the type has a lane, as --explain-model tells it. */
bool lane_bed_has_lane(const struct lane_bed *bed);

/* queue, type and status of the batch are set. */
void lane_bed_submit(struct lane_bed *bed, uint32_t queue, struct cell_batch *batch);
uint64_t lane_bed_completed(const struct lane_bed *bed, uint32_t queue);

/* Polls all queues once; until the queue has completed n batches, or all of its own. */
void lane_bed_poll(struct lane_bed *bed);
void lane_bed_wait(struct lane_bed *bed, uint32_t queue, uint64_t n);
void lane_bed_wait_all(struct lane_bed *bed);

/* Nothing outstanding: no lane is on the card behind it, so that the next task is a launch's first.
 * Of a lane that is idle nobody can say whether it looks or has just gone. */
void lane_bed_park(struct lane_bed *bed);

/* Submits, waits, and wants it to go well. */
void lane_bed_run(struct lane_bed *bed, uint32_t queue, struct cell_batch *batch);

/* So many steps of one chain from where it is, in batches of its own; the chain goes on. */
void lane_bed_run_chain(struct lane_bed *bed, struct rig_chain *chain, uint32_t steps);

/* What output 0 of the chain is, run alone in one batch; ended with base_free(). The chain is as
 * before. */
uint8_t *lane_bed_alone(struct lane_bed *bed, struct rig_chain *chain);

/* Has the chain give away c of each step, to to [steps][units]: no lane does. */
void lane_bed_make_odd(const struct lane_bed *bed, struct rig_chain *chain, uint8_t *to);

uint32_t lane_bed_row_bytes(const struct lane_bed *bed); /* of h */

#endif
