/* The reference device's inside, shared by reference_device.c (backend, script), reference_lane.c
 * (lanes: their threads, and the host's side) and reference_run.c (rows, batches).
 *
 * Rows by layout are written by whichever queue runs the batch that owns them; a queue's random
 * numbers and an evaluator of each type for each member of its team are its thread's; `host` and
 * the batches in flight are the pool thread's. */
#ifndef TESTS_REFERENCE_STATE_H
#define TESTS_REFERENCE_STATE_H

#include "base/event.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/ring.h"
#include "cells/lane/host.h"
#include "cells/lane/rows.h"
#include "tests/lane/loop.h"
#include "tests/reference_cells.h"
#include "tests/reference_device.h"

#include <pthread.h>

#define REFERENCE__QUEUES_MAX  8u
#define REFERENCE__MEMBERS_MAX 4u

#define REFERENCE__SLOTS 64u /* of a lane's ring; at least batches_queued_max */

/* Rows of one layout. */
struct reference__store {
    const struct cell_layout *layout;
    struct cell_lane_rows rows;
    uint8_t *memory;
};

struct reference__queue {
    struct cell_device *device;
    uint32_t index;
    struct cell_team *team; /* NULL: the queue's thread alone */
    struct base_random random;
    _Alignas(BASE_CACHE_LINE) _Atomic uint64_t completed; /* batches; the pool thread writes it */
    _Atomic uint64_t submitted;
    /* Pumped. */
    struct base_spsc *ring;
    bool stop_run; /* member 0 writes, all read, a barrier between */
    uint32_t steps_done;
    /* A lane. */
    struct cell_lane lane;
    struct cell_lane_host host;
    struct cell_batch *batches[REFERENCE__SLOTS]; /* in flight, by slot */
    struct cell_lane_launch launch; /* the pool thread's until `start`, the lane's until ended */
    struct base_event start;        /* a launch, a reset or the end */
    struct lane_loop loop;
    uint32_t idle_polls;
    _Atomic bool is_deaf;        /* it touches nothing any more, until the device is closed */
    _Atomic uint64_t lost_until; /* tasks up to this one were submitted before a reset */
    pthread_t thread;
    bool has_thread;
    /* The step that an inner device runs. */
    struct cell_batch inner_batch;
    struct cell_batch_row *inner_rows; /* [CELL_BATCH_ROWS_MAX] */
    uint32_t *inner_index;             /* which row of the task each of them is */
};

struct cell_device {
    struct reference_options options;
    void (*wake)(void *context);
    void *wake_context;
    uint32_t n_queues;
    struct reference__queue queues[REFERENCE__QUEUES_MAX];
    struct reference__store stores[CELL_LAYOUTS_MAX];
    const struct cell_type *types[CELL_TYPES_MAX];
    struct reference_cells *cells_of[CELL_TYPES_MAX]; /* [queue * MEMBERS_MAX + member] */
    struct cell_device *inner;                        /* NULL: we compute */
    bool is_lost;                                     /* pool thread */
    _Atomic bool end, dead;
    _Atomic uint32_t hang;    /* enum reference_hang; the lane that takes it clears it */
    _Atomic uint64_t fail_in; /* batches until one fails; 0 = none will */
    _Atomic uint32_t fail_status;
    _Atomic uint64_t batches, steps, cells, interrupted, launches;
};

static inline uint32_t reference__members(const struct reference__queue *queue)
{
    return queue->team == NULL ? 1 : queue->team->members;
}

static inline bool reference__is_ending(const struct cell_device *device)
{
    return atomic_load_explicit(&device->end, memory_order_acquire);
}

/* NaN in every float, and no valid id in every integer. */
void reference__poison(const struct reference__store *store, uint32_t row);

/* A part as after `step` steps. */
uint8_t *reference__part_at(const struct cell_device *device, uint32_t layout, uint32_t row,
                            uint32_t part, uint32_t step);

/* Runs a batch, or fails it as scripted; in pump(). */
void reference__run(struct reference__queue *queue, struct cell_batch *batch);

/* One step of a lane's rows; outcomes as in the contract. By the lane's thread. */
void reference__run_step(struct reference__queue *queue, const struct cell_lane_task *task,
                         uint32_t step, uint32_t *outcomes);

/* Whether the script says that this batch fails. */
bool reference__is_failing(struct cell_device *device);
void reference__count(struct cell_device *device, uint64_t steps, uint64_t cells, bool interrupted);

/* ---- Lanes (reference_lane.c) ---- */

enum base_status reference__lane_open(struct reference__queue *queue, uint64_t watchdog_ns);
void reference__lane_close(struct reference__queue *queue);
void reference__lane_submit(struct reference__queue *queue, struct cell_batch *batch);
void reference__lane_poll(struct reference__queue *queue, uint64_t now_ns);

#endif
