/* The batch, and where its rows read and write: the one thing the scheduler and the worker share.
 *
 * A *node* is one cell of a request's graph, or a chain of `steps` equal cells over one state slot
 * (a run-length coding of the cell graph: a sentence is one node, whatever its length). Its
 * *wiring* says once where inputs come from and outputs go; a batch then only names nodes and
 * steps. Batches with the same rows need no gathering: kernels read rows through these references.
 *
 * Memory: a batch is a slot of a fixed pool owned by the scheduler; wirings live in the request's
 * arena. Both belong to the device from submit until the scheduler sees the batch completed.
 * BatchMaker (EuroSys'18) section 4.3 calls a batch a batched task. */
#ifndef CELLS_BATCH_H
#define CELLS_BATCH_H

#include "base/status.h"
#include "cells/beam_state.h"
#include "cells/type.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CELL_ROW_NONE UINT32_MAX

/* Largest batch any policy may form. */
#define CELL_BATCH_ROWS_MAX 1024u

/* A place for one row per step. */
enum cell_ref_kind {
    CELL_REF_ZERO,  /* reads as zeros; not a place to write */
    CELL_REF_HOST,  /* request memory: host + step * stride_bytes, aligned to the element */
    CELL_REF_VALUE, /* value row `row` of the device, the same at every step */
};

struct cell_ref {
    enum cell_ref_kind kind;
    union {
        uint32_t row; /* VALUE */
        /* HOST, of an input with many rows (ATTEND, REDUCE): row t, the same at every step, is at
         * host + t * stride_bytes. */
        uint32_t rows;
    };
    union {
        uint8_t *host;
        uint32_t value; /* VALUE: the scheduler's; no device looks at it */
    };
    int64_t stride_bytes; /* may be negative: a chain that runs backwards in time */
};

/* What to write where after a step. */
enum cell_emit_what { CELL_EMIT_OUTPUT, CELL_EMIT_STATE } __attribute__((packed));
enum cell_emit_when { CELL_EMIT_EACH, CELL_EMIT_FIRST, CELL_EMIT_LAST } __attribute__((packed));

struct cell_emit {
    enum cell_emit_what what;
    enum cell_emit_when when;
    uint32_t index; /* of the cell's output or state; a state is emitted as it is after the step */
    struct cell_ref to;
};

/* Whether this step of a chain is one to write after. */
static inline bool cell_emit_is_due(const struct cell_emit *emit, uint32_t step, uint32_t steps)
{
    return emit->when == CELL_EMIT_EACH ||
           (emit->when == CELL_EMIT_FIRST ? step == 0 : step + 1 == steps);
}

/* A chain that ends by itself: after the step that leaves `id` in a state of one integer (a decoder
 * that has given its end-of-sequence id). */
struct cell_end {
    uint32_t state;
    int64_t id;
};

/* Wiring of one node. */
struct cell_wiring {
    uint32_t steps; /* cells in the chain, >= 1; at most, where it has an end */
    uint32_t lane;  /* of a beam */
    /* NULL: it takes all steps. Such a chain is in one batch at a time, and emits nothing at its
     * last step, which only the device knows. */
    const struct cell_end *end;
    struct cell_beam *beam; /* NULL: none. Such a chain has no end and emits nothing */
    /* Never given to two chains: by it a device knows what it has computed ahead, in an earlier
     * batch, for this one. 0: it keeps nothing beyond a batch. */
    uint64_t chain;
    uint32_t state; /* state slot, CELL_ROW_NONE for a stateless cell */
    uint32_t n_emits;
    struct cell_ref *inputs; /* of each input: read at every step; all steps' are there from the
                                first batch on, but where it follows another (cell_batch) */
    struct cell_ref *init;   /* of each state: read at step 0, with step = 0 */
    struct cell_emit *emits;
};

/* Room for the references of any wiring, where they are not counted. */
struct cell_refs {
    struct cell_ref inputs[CELL_INPUTS_MAX], init[CELL_STATES_MAX];
};

static inline void cell_wiring_use(struct cell_wiring *wiring, struct cell_refs *refs)
{
    wiring->inputs = refs->inputs;
    wiring->init = refs->init;
}

/* One row: steps first_step .. first_step + steps - 1 of a node. */
struct cell_batch_row {
    const struct cell_wiring *wiring;
    uint32_t first_step;
    /* >= 1, at most batch.steps: rows may leave before the batch ends. A batch of one step of a
     * type without state may have *spans* on a device that takes them (cell_device_caps.spans): any
     * number of a row's steps, which are computed side by side, as so many rows. */
    uint32_t steps;
    /* Written by the device: min(steps, batch.steps_done), or up to its end; of a batch that was
     * interrupted also less, where a device computes its rows in several places: at least 1, and
     * steps_min. */
    uint32_t steps_done;
    bool has_ended; /* written by the device, false before: wiring->end came with steps_done */
    void *tag;      /* the scheduler's; untouched by the device */
};

struct cell_batch {
    const struct cell_type *type;
    uint32_t queue; /* in-order queue it was formed for */
    uint32_t n_rows;
    uint32_t n_cells; /* of a step: n_rows, or the steps of all spans; the scheduler's */
    uint32_t steps;   /* up to this many steps, a barrier between them; >= 1 */
    /* true: before each step but the first the device looks at *attention and, when it is not zero,
     * ends the batch with steps_done < steps; it may also do so when a row has ended and nobody is
     * to be told (row_ended). false: it runs all steps, so that later batches with the same rows
     * may be submitted behind it. */
    bool interruptible;
    uint32_t steps_min; /* before so many steps it does not look */
    const _Atomic uint32_t *attention;
    /* NULL, or called between two steps, for each row (of a beam: lane 0) that has ended, by the
     * thread that pumps: the device has written the row's steps_done and looks neither at its tag
     * nor at its wiring again. The batch then goes on with the other rows. */
    void (*row_ended)(struct cell_batch *batch, uint32_t row, void *context);
    void *row_ended_context;
    /* NULL, or a batch of another type that reads nothing of what this one writes, or follows it: a
     * device that can (cell_device_caps.beside) runs both at the same time. It is submitted with
     * this one, comes right behind it in the queue's order, and has neither a batch beside itself
     * nor row_ended. When one has ended, the other is soon interrupted, too, unless it has little
     * left. */
    struct cell_batch *beside;
    /* Of a batch beside another, whose rows read step by step what the other's emit (a layer over
     * another): its first `lead` steps can be computed at once, and one more with each step that
     * the other has done. Where the other ends before, so does this one; it can be interrupted. */
    bool follows;
    uint32_t lead;
    uint32_t steps_done;     /* written by the device, >= 1 unless status is an error: the most
                              * that a row has done */
    enum base_status status; /* written by the device: BASE_OK, or why all rows failed */
    uint64_t submitted_ns;
    struct cell_batch_row *rows;
};

/* Whether the steps of its rows are spans. */
static inline bool cell_batch_has_spans(const struct cell_batch *batch)
{
    return batch->steps == 1 && batch->type->state_layout == CELL_LAYOUT_NONE;
}

/* What a worker pulls batches from; implemented by the scheduler, called by the pool thread only.
 */
struct cell_batch_source {
    void *context;
    /* The next batch for this queue, or NULL. */
    struct cell_batch *(*next)(void *context, uint32_t queue, uint64_t now_ns);
    /* Hands back a completed batch of this queue; in the order of next(). */
    void (*retire)(void *context, struct cell_batch *batch, uint64_t now_ns);
    /* NULL, or whether somebody waits for whom the runs in flight on the queue should end soon. */
    bool (*is_pressed)(void *context, uint32_t queue);
    /* The same when messages have been delivered; NULL: always. */
    bool (*is_in_way)(void *context, uint32_t queue);
    /* A row of a batch that goes on has ended. */
    void (*row_ended)(void *context, struct cell_batch *batch, uint32_t row, uint64_t now_ns);
};

#endif
