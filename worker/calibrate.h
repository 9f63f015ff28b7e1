/* Measuring a type on the device that will serve it: real batches through submit and pump, on the
 * real team, with the type's own weights and random rows (cells/calibration.h has the numbers and
 * what follows from them).
 *
 * The calling thread is the team's member 0. Nothing else may run on the queue: it is for the time
 * between loading and serving. */
#ifndef WORKER_CALIBRATE_H
#define WORKER_CALIBRATE_H

#include "cells/calibration.h"

struct wrk_calibrate_options {
    const struct cell_backend *backend; /* whose devices are pumped */
    struct cell_device *device;         /* the type is loaded */
    uint32_t queue;
    uint32_t
        rows_limit;     /* >= 1: rows 0.. of the state's layout that are open, to be written over */
    bool is_alone;      /* the team has no other member */
    uint64_t budget_ns; /* no batch is begun that would end later; the first step is taken anyway */
    uint64_t (*now_ns)(void); /* NULL: base_now_ns() */
};

/* Two seconds a type are the most that a start may take longer. */
#define WRK_CALIBRATE_BUDGET_NS (1900ull * 1000 * 1000)

/* The type has a state. Leaves the device's own rule in force. What could not be measured in time
 * is 0 in *out. RESOURCE_EXHAUSTED; INTERNAL when a batch failed. */
enum base_status wrk_calibrate(const struct wrk_calibrate_options *options,
                               const struct cell_type *type, struct cell_calibration *out,
                               struct base_error *error);

#endif
