/* Parts of batches: what a lane can serve and what is the stream's, as batches of their own.
 *
 *   submit -> one part, or [rows of the lane | other rows] -> settled in order -> completed
 *
 * On `cuda` a lane and the stream give a row other last bits. Where it goes is therefore said by
 * its type and its wiring alone: rows of a batch that could not go together are two parts, side by
 * side, each with its rows in the batch's order. Parts are numbered in the order of their queue,
 * and are settled in it; a batch completes with its last. One that may be interrupted may end
 * behind other steps in one part than in the other.
 *
 * Pool thread; nothing is allocated. Cost: a look at each row's emits, and a copy of each row of a
 * batch that is cut. */
#include "cells/cuda/device_state.h"

#include "base/assert.h"

_Static_assert(CELL_CUDA__PARTS_MAX == 2 * CELL_CUDA__BATCHES_MAX, "each may be cut in two");

struct cell_cuda__batch *cell_cuda__batch_at(struct cell_cuda__queue *queue, uint64_t number)
{
    return &queue->parts[number % CELL_CUDA__PARTS_MAX];
}

/* ---- In ------------------------------------------------------------------------------------- */

static struct cell_cuda__batch *add(struct cell_cuda__queue *queue, struct cell_batch *whole,
                                    struct cell_cuda__lane *lane)
{
    struct cell_cuda__batch *entry = cell_cuda__batch_at(queue, ++queue->submitted);
    *entry = (struct cell_cuda__batch){
        .batch = whole, .whole = whole, .part = *whole, .is_last = true, .lane = lane};
    return entry;
}

/* What runs is known. */
static void begin(struct cell_cuda__batch *entry)
{
    entry->steps_most = entry->batch->steps;
    cell_cuda__pass_begin(entry, 0, entry->batch->n_rows);
    if (entry->lane != NULL) {
        cell_cuda__lane_begin(entry);
    }
}

/* Copies of the rows that a lane serves, or of the others, in their order, to `rows`. */
static void take_rows(struct cell_cuda__batch *entry, const struct cell_cuda__lane *lane,
                      struct cell_batch_row *rows)
{
    const struct cell_batch *whole = entry->whole;
    entry->batch = &entry->part;
    entry->part.rows = rows;
    entry->part.n_rows = 0;
    for (uint32_t r = 0; r < whole->n_rows; r++) {
        if (cell_cuda__lane_fits(lane, whole->rows[r].wiring) == (entry->lane != NULL)) {
            rows[entry->part.n_rows] = whole->rows[r];
            rows[entry->part.n_rows++].tag = &whole->rows[r];
        }
    }
}

static void cut(struct cell_cuda__queue *queue, struct cell_batch *whole,
                struct cell_cuda__lane *lane)
{
    // Of batches that are outstanding no two have the same.
    struct cell_batch_row *rows =
        queue->rows + queue->accepted % queue->device->batches_max * CELL_STEP_ROWS_MAX;
    struct cell_cuda__batch *of_lane = add(queue, whole, lane);
    struct cell_cuda__batch *of_stream = add(queue, whole, NULL);
    of_lane->is_last = false;
    take_rows(of_lane, lane, rows);
    take_rows(of_stream, lane, rows + of_lane->part.n_rows);
    begin(of_lane);
    begin(of_stream);
}

void cell_cuda__parts_add(struct cell_cuda__queue *queue, struct cell_batch *batch)
{
    const struct cell_device *device = queue->device;
    struct cell_cuda__lane *lane = device->types[batch->type->id]->lanes[queue - device->queues];
    uint32_t n_fit = 0;
    for (uint32_t r = 0; r < batch->n_rows && lane != NULL; r++) {
        n_fit += cell_cuda__lane_fits(lane, batch->rows[r].wiring) ? 1 : 0;
    }
    batch->status = BASE_OK;
    batch->steps_done = 0;
    if (n_fit > 0 && n_fit < batch->n_rows) {
        cut(queue, batch, lane);
    } else {
        begin(add(queue, batch, n_fit > 0 ? lane : NULL));
    }
}

/* ---- Out ------------------------------------------------------------------------------------ */

/* What has become of the part's rows, to the rows that they are. */
static void give_rows(const struct cell_cuda__batch *entry)
{
    struct cell_batch *whole = entry->whole;
    const struct cell_batch *part = &entry->part;
    for (uint32_t r = 0; r < part->n_rows; r++) {
        struct cell_batch_row *to = part->rows[r].tag;
        to->steps_done = part->rows[r].steps_done;
        to->has_ended = part->rows[r].has_ended;
    }
    whole->steps_done = part->steps_done > whole->steps_done ? part->steps_done : whole->steps_done;
}

/* The batch fails as a whole: nothing was done of any row. */
static void fail(struct cell_batch *whole)
{
    whole->steps_done = 0;
    for (uint32_t r = 0; r < whole->n_rows; r++) {
        whole->rows[r].steps_done = 0;
        whole->rows[r].has_ended = false;
    }
}

bool cell_cuda__part_settle(struct cell_cuda__queue *queue)
{
    base_assert(queue->settled < queue->submitted);
    const struct cell_cuda__batch *entry = cell_cuda__batch_at(queue, ++queue->settled);
    struct cell_batch *whole = entry->whole;
    if (entry->status != BASE_OK) {
        whole->status = entry->status;
    } else if (entry->batch != whole) {
        give_rows(entry);
    }
    if (entry->is_last && whole->status != BASE_OK) {
        fail(whole);
    }
    return entry->is_last;
}
