/* A lane's life as a thread lives it: the loop of one launch over cells/lane/contract.h. The
 * reference device and the lane's tests run it; a kernel's dispatcher does the same steps. */
#ifndef TESTS_LANE_LOOP_H
#define TESTS_LANE_LOOP_H

#include "cells/lane/contract.h"

struct lane_loop {
    const struct cell_lane *lane;
    void *context;
    /* Runs a task and writes its result; 0, or why the launch ends here without completing it. */
    uint32_t (*run)(struct lane_loop *loop, uint64_t seq, const struct cell_lane_task *task);
    /* Nothing to do: true when the launch has been idle for long enough. */
    bool (*is_idle_over)(struct lane_loop *loop);
    /* NULL, or called behind each completion and behind `ended`, to wake the host. */
    void (*has_moved)(struct lane_loop *loop);
    /* Filled in by the loop. */
    struct cell_lane_launch launch;
    uint64_t beats; /* of all launches */
};

void lane_loop_beat(struct lane_loop *loop);
bool lane_loop_is_aborted(const struct lane_loop *loop);

/* From the first task to the last store, `ended`. */
void lane_loop_run(struct lane_loop *loop, const struct cell_lane_launch *launch);

#endif
