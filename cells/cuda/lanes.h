/* Lanes of the CUDA device: which types have them, their life, and batches as their tasks; shared
 * by lanes.c (types, launches), lane_tasks.c (tasks) and queue.c.
 *
 * A type that is one cell of cell_sm_choose() has a lane on each queue, and its kernels in the
 * stream besides: rows stand in memory alike for both, so chains that ask for what a lane cannot
 * give away go to the stream, whoever is in their batches (parts.c). All is the pool thread's while
 * batches run; nothing is allocated then. */
#ifndef CELLS_CUDA_LANES_H
#define CELLS_CUDA_LANES_H

#include "cells/cuda/driver.h"
#include "cells/cuda/lane_pack.h"
#include "cells/lane/host.h"
#include "cells/type.h"

struct cell_cuda__batch;
struct cell_wiring;
struct cell_cuda__lane;
struct cell_cuda__queue;
struct cell_cuda__type;

/* Of a device; and SMs that are left to the streams. */
#define CELL_CUDA__LANES_MAX 16u
#define CELL_CUDA__SMS_FREE  16u

#define CELL_CUDA__LANE_SLOTS 8u

/* Steps of a task, at most: alone, of all its rows together, and where the host looks between two
 * tasks whether the batch is to end. */
#define CELL_CUDA__LANE_STEPS       128u
#define CELL_CUDA__LANE_ROW_STEPS   512u
#define CELL_CUDA__LANE_STEPS_LOOSE 4u

/* A lane without work naps between polls, and then leaves its SM. */
#define CELL_CUDA__LANE_NAP_NS  UINT64_C(100000)
#define CELL_CUDA__LANE_PARK_NS UINT64_C(100000000)

/* Between two launches a lane has so long to leave. */
#define CELL_CUDA__LANE_END_NS UINT64_C(5000000000)

/* What a type is to a lane. */
struct cell_cuda__lane_shape {
    const struct cell_sm_kernel *kernel; /* NULL: it has no lane */
    struct cell_sm_layout layout;        /* of the weights */
    bool is_lstm;
    uint32_t units, inputs;
    uint32_t h, c; /* states */
    uint32_t shared_bytes;
};

/* A task that was given to a lane. */
struct cell_cuda__lane_task {
    uint64_t batch; /* number of its part (parts.c); 0: none of a batch */
    uint32_t first, steps;
    uint32_t from, n_rows; /* of the batch's order */
};

struct cell_cuda__lane {
    struct cell_device *device;
    struct cell_cuda__queue *queue;
    const struct cell_type *type;
    struct cell_cuda__lane_shape shape;
    struct cell_cuda_lane *lane;
    struct cell_lane_host host;
    struct cell_sm_args args;       /* but rows and launch, which are set when it is launched */
    struct cell_cuda_pinned memory; /* words, ring, staging: offsets in it follow */
    size_t zeros, rows, in, out;
    size_t row_bytes, in_bytes, out_bytes; /* of a slot */
    struct cell_cuda__lane_task tasks[CELL_CUDA__LANE_SLOTS];
    uint32_t outstanding; /* of them, a batch's */
    uint64_t beats;       /* when it was launched last */
    uint32_t attention;   /* that it was told of */
};

/* ---- lanes.c ---- */

/* Makes the type's lanes, if it can have them; else why not stands in the type, and it is the
 * stream's alone. Errors are of memory and of the card. On failure what was made is the type's. */
enum base_status cell_cuda__lanes_create(struct cell_device *device, const struct cell_type *type,
                                         struct cell_cuda__type *made, struct base_error *error);
void cell_cuda__lanes_free(struct cell_device *device, struct cell_cuda__type *made);

/* No task of a batch is outstanding: no lane is on the card behind it. A lane that does not leave
 * loses the device. */
void cell_cuda__lanes_park(struct cell_device *device);

/* Takes over what the queue's lanes have done, and launches those that have work. */
enum base_status cell_cuda__lanes_poll(struct cell_cuda__queue *queue, uint64_t now_ns);

/* ---- lane_tasks.c ---- */

/* Whether the lane can serve rows of this wiring. */
bool cell_cuda__lane_fits(const struct cell_cuda__lane *lane, const struct cell_wiring *wiring);

/* The batch is for its lane: orders its rows. */
void cell_cuda__lane_begin(struct cell_cuda__batch *entry);

/* Whether the next task of the batch may be sent, and sending it. */
bool cell_cuda__lane_may_issue(const struct cell_cuda__batch *entry);
void cell_cuda__lane_issue(struct cell_cuda__batch *entry, uint64_t number);

/* Tells the lane of the queue's attention word. */
void cell_cuda__lane_attend(struct cell_cuda__lane *lane);

/* Takes over task seq, which is done; or which died with its launch. */
void cell_cuda__lane_take(struct cell_cuda__lane *lane, uint64_t seq, bool has_died);

/* Where a slot's parts stand, for both sides. */
static inline struct cell_cuda_pinned cell_cuda__lane_at(const struct cell_cuda__lane *lane,
                                                         size_t offset)
{
    return (struct cell_cuda_pinned){.host = (uint8_t *)lane->memory.host + offset,
                                     .at = lane->memory.at + offset};
}

#endif
