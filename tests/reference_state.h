/* The reference device's inside, shared by reference_device.c (threads, backend, script) and
 * reference_run.c (rows, batches).
 *
 * Rows by layout are written by whichever queue runs the batch that owns them; a queue's ring, its
 * random numbers and an evaluator of each type for each member of its team are its thread's. */
#ifndef TESTS_REFERENCE_STATE_H
#define TESTS_REFERENCE_STATE_H

#include "base/event.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/ring.h"
#include "tests/reference_cells.h"
#include "tests/reference_device.h"

#include <pthread.h>

#define REFERENCE__QUEUES_MAX  8u
#define REFERENCE__MEMBERS_MAX 4u

/* Rows of one layout. */
struct reference__store {
    const struct cell_layout *layout;
    size_t row_bytes;
    uint32_t count;
    uint8_t *rows;
};

struct reference__queue {
    _Alignas(BASE_CACHE_LINE) _Atomic uint64_t completed;
    _Atomic uint64_t submitted;
    _Atomic uint64_t lost_until; /* batches before this one were submitted before a reset */
    _Alignas(BASE_CACHE_LINE) struct base_event wake; /* work, reset or the end */
    struct cell_device *device;
    uint32_t index;
    struct cell_team *team; /* NULL: the queue's thread alone */
    struct base_spsc *ring;
    struct base_random random;
    pthread_t thread;
    bool has_thread;
    bool stop_run; /* member 0 writes, all read, a barrier between */
    uint32_t steps_done;
};

struct cell_device {
    struct reference_options options;
    void (*wake)(void *context);
    void *wake_context;
    uint32_t n_queues;
    struct reference__queue queues[REFERENCE__QUEUES_MAX];
    struct reference__store stores[CELL_LAYOUTS_MAX];
    struct reference_cells *cells_of[CELL_TYPES_MAX]; /* [queue * MEMBERS_MAX + member] */
    _Atomic bool end, dead;
    _Atomic uint64_t fail_in; /* batches until one fails; 0 = none will */
    _Atomic uint32_t fail_status;
    _Atomic uint64_t batches, steps, cells, interrupted;
};

static inline uint32_t reference__members(const struct reference__queue *queue)
{
    return queue->team == NULL ? 1 : queue->team->members;
}

/* NaN in every float, and no valid id in every integer. */
void reference__poison(const struct reference__store *store, uint8_t *row);

uint8_t *reference__part_at(const struct cell_device *device, uint32_t layout, uint32_t row,
                            uint32_t part);

/* Runs a batch, or fails it as scripted; by the queue's thread, or in pump(). */
void reference__run(struct reference__queue *queue, struct cell_batch *batch);

#endif
