/* The reference device: a backend for tests that takes its time and fails on demand.
 *
 * Each queue is a *lane* (cells/lane/contract.h): a thread that polls a ring of tasks as a resident
 * kernel does, looks at attention and abort between steps, beats its heart, completes through the
 * lane's counter, parks when it is idle and is launched again. The host's side is that of every
 * backend with lanes (cells/lane/host.h), with its watchdog. Lanes see batches only through their
 * tasks: nothing of a batch is written but by poll(), on the pool thread.
 *
 * A pumped device has no lanes: it does the same work inside pump(), with its team.
 *
 * Cells are executed one after the other (reference_cells.h) on rows of the device's own memory,
 * which are never trusted: they start as NaN, and a state slot is NaN again when its chain has
 * ended. Or another backend does it, a step at a time (options.inner). */
#ifndef TESTS_REFERENCE_DEVICE_H
#define TESTS_REFERENCE_DEVICE_H

#include "cells/backend.h"
#include "cells/lane/contract.h"

struct reference_options {
    uint64_t seed;
    uint64_t pause_ns_max; /* before a batch completes: at random, 0..pause_ns_max */
    uint64_t step_ns;      /* at least this long for each step */
    bool pumped;
    bool polled; /* never calls wake */
    enum base_status open_status;
    enum cell_lane_form form;         /* of the lanes' slots */
    const struct cell_backend *inner; /* NULL, or the pumped backend that computes on the lanes */
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

/* The next step that any of its lanes runs does not come to an end. */
enum reference_hang {
    REFERENCE_HANG_NONE,
    REFERENCE_HANG_FAULT, /* its own bounded wait finds out: it writes a fault record and ends */
    REFERENCE_HANG_STILL, /* its heart stops until it is aborted */
    REFERENCE_HANG_DEAF,  /* and it does not look at abort either: the device is lost */
};
void reference_hang(struct cell_device *device, enum reference_hang hang);

/* Batches it was given, ever. */
uint64_t reference_submitted(const struct cell_device *device);

struct reference_counts {
    uint64_t batches, steps, cells;
    uint64_t interrupted; /* batches that ended early because of attention */
    uint64_t launches;    /* of lanes */
};
struct reference_counts reference_counts(const struct cell_device *device);

#endif
