/* The reference device: a backend for tests that takes its time and fails on demand.
 *
 * Each queue has a thread of its own that drains a ring, pauses at random, looks at attention
 * between steps, executes cells one after the other (reference_cells.h) on rows in memory of its
 * own, and calls options.wake. A pumped device does the same inside pump(), with its team. Rows are
 * never trusted: memory starts as NaN, and a state slot is NaN again when its chain has ended. */
#ifndef TESTS_REFERENCE_DEVICE_H
#define TESTS_REFERENCE_DEVICE_H

#include "cells/backend.h"

struct reference_options {
    uint64_t seed;
    uint64_t pause_ns_max; /* before a batch completes: at random, 0..pause_ns_max */
    uint64_t step_ns;      /* at least this long for each step */
    bool pumped;
    bool polled; /* never calls wake */
    enum base_status open_status;
};

/* Named "reference". Not in cell_backend_at(). */
const struct cell_backend *reference_backend(void);

/* For devices opened from now on. Not while another thread opens one. */
void reference_configure(const struct reference_options *options);

/* The device opened last, for tests whose engine opens it. */
struct cell_device *reference_last(void);

/* ---- Of an open device; any thread ---- */

/* The n-th batch from now (1 = the next to run) fails with status, without a step. */
void reference_fail(struct cell_device *device, uint64_t n, enum base_status status);

/* Dead: nothing completes until reset, when all that was submitted fails with UNAVAILABLE. Not for
 * a pumped device. */
void reference_die(struct cell_device *device);
void reference_reset(struct cell_device *device);

/* Batches it was given, ever. */
uint64_t reference_submitted(const struct cell_device *device);

struct reference_counts {
    uint64_t batches, steps, cells;
    uint64_t interrupted; /* batches that ended early because of attention */
};
struct reference_counts reference_counts(const struct cell_device *device);

#endif
