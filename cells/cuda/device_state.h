/* The CUDA device's inside, shared by device.c (life, rows, types), plan*.c (which kernels a type
 * is) and queue.c and piece.c (batches).
 *
 * All of it is the pool thread's while batches run; loading is done before. Nothing is allocated
 * after type_load and rows_open. */
#ifndef CELLS_CUDA_DEVICE_STATE_H
#define CELLS_CUDA_DEVICE_STATE_H

#include "base/mem.h"
#include "cells/cuda/device.h"
#include "cells/cuda/lanes.h"

#define CELL_CUDA__QUEUES_MAX  8u
#define CELL_CUDA__BATCHES_MAX 64u  /* outstanding on a queue */
#define CELL_CUDA__PARTS_MAX   128u /* of them */

/* Pieces on their way on a queue: one runs while the next waits behind it, and two are being made
 * or taken back. */
#define CELL_CUDA__SLOTS 4u

/* Steps of a piece; of one that may be interrupted, whose steps behind an interruption are in vain,
 * and how many of those are on their way. */
#define CELL_CUDA__STEPS        16u
#define CELL_CUDA__STEPS_LOOSE  4u
#define CELL_CUDA__PIECES_LOOSE 2u

/* What a piece brings and takes beside one step of the largest batch: room for several steps of
 * smaller ones. */
#define CELL_CUDA__STAGING ((size_t)1 << 20)

/* And of a type that attends, for all that its rows attend to: every piece brings it anew. A batch
 * with more is run in several *passes*, some rows in each; what a row alone may attend to. */
#define CELL_CUDA__MEMORY ((size_t)32 << 20)

/* Row counts for which a step is recorded, once and four times in a row. */
#define CELL_CUDA__BUCKETS 17u
#define CELL_CUDA__LENGTHS 2u
extern const uint32_t cell_cuda__buckets[CELL_CUDA__BUCKETS];
extern const uint32_t cell_cuda__lengths[CELL_CUDA__LENGTHS];

/* One kernel or product of a step. */
struct cell_cuda__op {
    struct cell_step step;
    uint32_t items_row;  /* items for each row; 0: `items` in all */
    uint32_t items;      /* or one of them */
    bool is_of_library;  /* a PRODUCT by the driver's library */
    bool is_of_searches; /* only in steps of batches with a beam search */
    const char *about;   /* what for, in words; static */
};

/* A type on one queue: its memory, and its steps as they were recorded. */
struct cell_cuda__program {
    const struct cell_type *type;
    cell_step_address block; /* inbox, result and what is given away, matrices */
    size_t block_bytes;
    cell_step_address inbox, outbox;
    size_t inbox_bytes, outbox_bytes;
    struct cell_cuda__op begin;
    uint32_t n_ops, capacity;
    uint32_t n_searching; /* ops of searches */
    struct cell_cuda__op *ops;
    struct cell_cuda_graph *graphs[CELL_CUDA__BUCKETS][CELL_CUDA__LENGTHS];
    struct cell_cuda_graph *searching[CELL_CUDA__BUCKETS][CELL_CUDA__LENGTHS]; /* of searches */
};

/* A type on the device. */
struct cell_cuda__type {
    cell_step_address weights;
    size_t weight_bytes;
    struct cell_cuda__program programs[CELL_CUDA__QUEUES_MAX];
    /* One on each queue, or none, and why not. */
    struct cell_cuda__lane *lanes[CELL_CUDA__QUEUES_MAX];
    cell_step_address lane_weights;
    struct base_error why_no_lane;
};

/* Some steps of a batch, on their way. */
struct cell_cuda__piece {
    uint64_t batch; /* number of its part on its queue, from 1 on */
    uint32_t from;  /* row of the part: the first of its pass */
    uint32_t first, steps;
    uint32_t emitted_at; /* in the outbox: what is given away */
    struct cell_cuda_pinned in, out;
};

#define CELL_CUDA__BLOCKS      UINT64_C(8192)
#define CELL_CUDA__BLOCK_BYTES UINT64_C(256)

/* A batch that was submitted and has not completed, or one of two parts of it: the rows that a lane
 * can serve, and the others. */
struct cell_cuda__batch {
    struct cell_batch *batch;     /* what runs: as it was submitted, or `part` */
    struct cell_batch *whole;     /* as it was submitted */
    struct cell_batch part;       /* rows: a part of the queue's; their tags: those they are */
    bool is_last;                 /* part of its batch, which has completed with it */
    bool is_over;                 /* of the stream: its results have been taken over */
    uint32_t from, n_rows;        /* of this pass; all rows, but where they do not fit */
    uint32_t steps_most;          /* of this pass */
    uint32_t steps;               /* that some row of it takes */
    uint32_t issued;              /* of them */
    uint32_t pieces;              /* on their way, of passes before too; of a lane, tasks */
    struct cell_cuda__lane *lane; /* that runs it; NULL: the stream does */
    uint32_t window, group;       /* of a lane: steps of this window, and its next task */
    uint16_t order[CELL_STEP_ROWS_MAX]; /* of a lane: rows, those with the most steps first */
    enum base_status status;            /* what it will end with, if it is not OK */
    /* A bit for each block of requests' memory that it writes, modulo their number: some are set in
     * vain. */
    uint64_t writes[CELL_CUDA__BLOCKS / 64];
};

struct cell_cuda__queue {
    _Alignas(BASE_CACHE_LINE) _Atomic uint64_t completed;
    struct cell_device *device;
    struct cell_cuda_stream *stream;
    struct cell_cuda_pinned words; /* struct cell_cuda__words */
    struct cell_cuda_pinned staging;
    uint64_t accepted; /* batches */
    /* Parts, most of which are batches: number n stands at n mod PARTS_MAX. */
    struct cell_cuda__batch parts[CELL_CUDA__PARTS_MAX];
    /* Numbers: of the last; of the last that is settled; of the one whose pieces are being made. */
    uint64_t submitted, settled, issuing;
    struct cell_batch_row *rows; /* [batches_max][CELL_STEP_ROWS_MAX]: of batches that are cut */
    struct cell_cuda__piece pieces[CELL_CUDA__SLOTS]; /* number n stands at n mod SLOTS */
    uint64_t pieces_sent, pieces_back;
    uint64_t looked_ns;  /* at the watchdog's last look; 0: nothing was outstanding */
    uint64_t stalled_ns; /* without progress until then */
    uint64_t asked_ns;   /* for an error, last */
};

/* What host and card tell each other beside pieces, a line each. */
struct cell_cuda__words {
    _Alignas(128) _Atomic uint32_t attention; /* host */
    _Alignas(128) _Atomic uint64_t pieces;    /* card: those done */
};

struct cell_device {
    const struct cell_cuda_driver *driver;
    struct cell_cuda *cuda;
    enum cell_cuda_products products;
    bool is_lost;
    struct base_error why_lost;
    uint64_t watchdog_ns;
    uint32_t n_queues;
    uint32_t batches_max;
    struct cell_cuda__queue queues[CELL_CUDA__QUEUES_MAX];
    bool lanes_off;
    uint32_t n_lanes;
    struct cell_cuda__lane *lanes[CELL_CUDA__LANES_MAX];
    struct cell_cuda__lane *launching; /* that was launched and has not beaten; NULL: none */
    cell_step_address stores_at;       /* struct cell_step_store [CELL_LAYOUTS_MAX] */
    struct cell_step_store stores[CELL_LAYOUTS_MAX];
    struct cell_cuda__type *types[CELL_TYPES_MAX];
    size_t in_bytes, out_bytes; /* of a slot's staging */
    char description[128];
};

/* Bytes of an element row, and words of 32 bits. */
static inline uint32_t cell_cuda__bytes(const struct cell_value *value)
{
    return value->width * cell_dtype_bytes(value->dtype);
}

/* ---- plan.c ---- */

/* Whether the device has kernels for all of it; UNIMPLEMENTED names the op. */
enum base_status cell_cuda__check(const struct cell_def *def, struct base_error *error);

/* Loads weights, makes the programs of all queues and records their steps. On failure everything is
 * as before. */
enum base_status cell_cuda__type_create(struct cell_device *device, const struct cell_type *type,
                                        struct cell_cuda__type **out, struct base_error *error);
void cell_cuda__type_free(struct cell_device *device, struct cell_cuda__type *type);

/* ---- piece.c: struct cell_step_task and all that goes with it ---- */

/* Bytes that a piece of the type brings and takes at most. */
void cell_cuda__piece_sizes(const struct cell_type *type, size_t *in_bytes, size_t *out_bytes);

/* Writes the piece's task into its pinned memory: steps piece->first .. and as many as fit, at most
 * piece->steps, which is set. Returns the bytes to be copied, 0: not even one step fits. */
size_t cell_cuda__piece_write(const struct cell_device *device,
                              const struct cell_cuda__program *program,
                              const struct cell_batch *batch, struct cell_cuda__piece *piece,
                              size_t *out_bytes);

/* How many rows, from the batch's first on, fit into a piece of one step; those of a search stay
 * together. 0: not even the first. */
uint32_t cell_cuda__piece_rows(const struct cell_cuda__program *program,
                               const struct cell_batch *batch);

/* Copies what it has given away to where it belongs, and what was chosen in beam searches. */
void cell_cuda__piece_read(const struct cell_batch *batch, const struct cell_cuda__piece *piece);

/* ---- parts.c ---- */

/* Makes the batch that was accepted last the queue's next part, or its next two: in two it is cut
 * where a lane can serve some of its rows, so that a row's place is its own matter and not its
 * neighbours'. */
void cell_cuda__parts_add(struct cell_cuda__queue *queue, struct cell_batch *batch);

/* The oldest part that is not settled is done, or has failed; with the last of them the batch has
 * what has become of all its rows. Returns whether it has. */
bool cell_cuda__part_settle(struct cell_cuda__queue *queue);

/* The part with this number. */
struct cell_cuda__batch *cell_cuda__batch_at(struct cell_cuda__queue *queue, uint64_t number);

/* ---- queue.c ---- */

/* The part goes on with so many rows from `from` on; its steps_most is set. */
void cell_cuda__pass_begin(struct cell_cuda__batch *entry, uint32_t from, uint32_t n_rows);

/* The word that the pool raises. */
const _Atomic uint32_t *cell_cuda__attention_of(const struct cell_cuda__queue *queue);

enum base_status cell_cuda__queue_open(struct cell_device *device, struct cell_cuda__queue *queue);
void cell_cuda__queue_close(struct cell_cuda__queue *queue);

/* Has the card write a word in the order of the queue's stream: that a driver has the call does not
 * say that the card, or who shares it out, allows it. Nothing outstanding; waits for 3 s at most,
 * and then the device is lost. */
enum base_status cell_cuda__queue_try(struct cell_cuda__queue *queue, struct base_error *error);

/* No batch is outstanding, but pieces of one may be that was over before they came: waits for them.
 */
void cell_cuda__queue_drain(struct cell_cuda__queue *queue);

/* Staging for every type so far; while nothing is outstanding. */
enum base_status cell_cuda__queue_stage(struct cell_cuda__queue *queue);

/* One launch or product of a step for so many rows. */
enum base_status cell_cuda__op_run(struct cell_device *device, struct cell_cuda_stream *stream,
                                   const struct cell_cuda__op *op, uint32_t n_rows);

#endif
