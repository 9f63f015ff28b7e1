/* Calibration at load: each type's times come from the cache on disk or are measured on the device,
 * what follows from them is set in the device and returned for the scheduler. One line of the log a
 * type. Before the pool starts, in the loop thread, which waits; what is not measured may come
 * later, of types that nobody computes yet. */
#ifndef SERVER_CALIBRATE_H
#define SERVER_CALIBRATE_H

#include "cells/calibration_file.h"
#include "worker/pool.h"

/* Filled by the caller but for the last two. */
struct srv_calibrator {
    struct wrk_pool *pool; /* can calibrate */
    const struct cell_backend *backend;
    const char *folder; /* of the cache; "": none */
    uint32_t teams, team_threads;
    bool is_pinned;
    bool may_measure; /* the pool has not started; else what the cache has not stays as it is */
    struct cell_calibration_key key;
    bool cannot_write; /* said once */
};

void srv_calibrator_init(struct srv_calibrator *calibrator);

enum srv_calibrated {
    SRV_CALIBRATED_CACHE,
    SRV_CALIBRATED_NOW,
    SRV_CALIBRATED_DISTURBED, /* measured, but not to be believed */
    SRV_CALIBRATED_FAILED,    /* no memory, no thread: the log says which */
    SRV_CALIBRATED_NOT,       /* may not */
};

/* The type is loaded and has a state, of whose rows rows_limit are open. Never fails: where nothing
 * is known, the device's own rule stays. */
enum srv_calibrated srv_calibrate(struct srv_calibrator *calibrator, const struct cell_type *type,
                                  uint32_t rows_limit, struct cell_calibration *calibration,
                                  struct cell_tuning *choice);

#endif
