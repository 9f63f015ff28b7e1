/* What the threads of a one-SM lane share, and the places where they wait for each other.
 *
 * Threads: the math warps compute; behind them the dispatcher's warp talks with the host, and the
 * reporter's tells it what is complete. Work goes through the block as *orders*, numbered from 1
 * in each launch, of which two exist at a time:
 *
 *   dispatcher --order, barrier ORDER--> math --word done--> reporter --word reported--> dispatcher
 *
 * The dispatcher arrives at ORDER and goes on, so the next order waits for the math warps, not they
 * for it. It writes order n when order n - 2 is reported, and arrives for it when n - 1 is taken.
 * Between two steps the math warps meet at STEP; nothing that crosses the bus stands between. */
#ifndef CELLS_CUDA_LANE_SHARED_H
#define CELLS_CUDA_LANE_SHARED_H

#include "cells/cuda/block.h"
#include "cells/cuda/lane_args.h"

/* X(NAME, KIND): places of synchronisation. tests/cuda/test_lane_removed.c takes each away that
 * orders memory: a BARRIER or a WARP's barrier becomes nothing, ACQUIRE and RELEASE become
 * RELAXED. */
#define CELL_SM_SITES(X)                                                                           \
    X(START, BARRIER)          /* words are zero, and weights there, before anybody looks */       \
    X(ORDER_ARRIVE, BARRIER)   /* an order is written before it is read */                         \
    X(ORDER_SYNC, BARRIER)     /* the same */                                                      \
    X(ROWS_LOADED, BARRIER)    /* h and x of the rows stand in the tiles before the first step */  \
    X(STEP, BARRIER)           /* a step has read the old tile, and the new one is whole */        \
    X(ZEROED, BARRIER)         /* all rows are zero before that is said */                         \
    X(DONE_STORE, RELEASE)     /* what the math threads wrote */                                   \
    X(DONE_LOAD, ACQUIRE)      /* by the reporter's first thread */                                \
    X(DONE_WARP, WARP)         /* and by its others */                                             \
    X(WRITTEN_WARP, WARP)      /* all of the reporter's threads have written before one tells */   \
    X(REPORTED_STORE, RELEASE) /* the order's entry has been read */                               \
    X(REPORTED_LOAD, ACQUIRE)  /* by the dispatcher's first thread */                              \
    X(TAKE_WARP, WARP)         /* what some of the dispatcher's threads acquired, all have */      \
    X(OUT_STORE, RELEASE)      /* the math threads' last stores are before `ended` */              \
    X(OUT_LOAD, ACQUIRE)                                                                           \
    X(REPORTER_STORE, RELEASE) /* the same of the reporter */                                      \
    X(REPORTER_LOAD, ACQUIRE)                                                                      \
    X(ENDS_WARP, WARP)      /* and of the dispatcher's other threads */                            \
    X(TAKEN_STORE, RELEASE) /* ORDER may be used again, the entry of the order before too */       \
    X(TAKEN_LOAD, ACQUIRE)                                                                         \
    X(STOP_STORE, RELAXED) /* what follows carries no data: late is as good as later */            \
    X(STOP_LOAD, RELAXED)                                                                          \
    X(ABORT_STORE, RELAXED)                                                                        \
    X(ABORT_LOAD, RELAXED)                                                                         \
    X(STEPS_STORE, RELAXED)                                                                        \
    X(STEPS_LOAD, RELAXED)                                                                         \
    X(QUIT_STORE, RELAXED)                                                                         \
    X(QUIT_LOAD, RELAXED)

enum cell_sm_site {
#define CELL_SM_SITE_ENUM(name, kind) CELL_SM_SITE_##name,
    CELL_SM_SITES(CELL_SM_SITE_ENUM)
#undef CELL_SM_SITE_ENUM
        CELL_SM_SITE_COUNT
};

/* Numbers of barriers. */
enum { CELL_SM_BARRIER_START = 1, CELL_SM_BARRIER_ORDER, CELL_SM_BARRIER_STEP };

enum cell_sm_order_kind {
    CELL_SM_ORDER_RUN = 1,
    CELL_SM_ORDER_ZERO, /* the rows' states */
    CELL_SM_ORDER_NONE, /* nothing to compute: it only keeps its place in the row */
    CELL_SM_ORDER_QUIT, /* the math warps leave */
};

/* The dispatcher writes it, but steps_done, which is the math warps'. */
struct cell_sm_order {
    uint64_t seq;    /* of the task */
    uint32_t kind;   /* enum cell_sm_order_kind */
    uint32_t status; /* for the result */
    uint32_t n_rows;
    uint32_t k_steps;
    uint32_t steps_done;
    uint32_t reserved;
    uint32_t ids[CELL_SM_ROWS_MAX];
    struct cell_sm_row rows[CELL_SM_ROWS_MAX];
};

/* Whether the run goes on; thread 0 reads the dispatcher's words, and all do what it saw. */
enum cell_sm_go { CELL_SM_GO_ON, CELL_SM_GO_STOP, CELL_SM_GO_ABORT };

/* Each word has one writer. Orders count from 1. */
struct cell_sm_words {
    uint64_t taken;    /* math: the order that it has begun */
    uint64_t done;     /* math: the last that is computed */
    uint64_t steps;    /* math: steps of all orders */
    uint64_t reported; /* reporter: the last that the host was told of */
    uint64_t stop;     /* dispatcher: the order that ends after its step */
    uint64_t abort;    /* dispatcher: 1: whatever runs ends, and is not done */
    uint64_t quit;     /* dispatcher: 1: the reporter leaves */
    uint64_t out;      /* math: 1: it has left */
    uint64_t reporter; /* reporter: 1: it has left */
};

/* What does not depend on the kernel's size; the tiles stand behind it. */
struct cell_sm_block {
    struct cell_sm_words words;
    uint32_t go[2]; /* by parity of the step */
    alignas(16) struct cell_sm_order orders[2];
};

/* Values from one row of a tile to the next: a little more than there are, so that the threads of a
 * warp meet different banks: those that read the 8 rows of a fragment, and those that write 8 units
 * of 4 rows. */
#define CELL_SM_PITCH(values) ((values) + 8)

/* Shared memory of a block, but for the weights behind it: biases, h and x twice. */
#define CELL_SM_FIXED_BYTES(units, value_bytes)                                                    \
    (sizeof(struct cell_sm_block) + sizeof(float) * CELL_COLUMNS * (units) +                       \
     (size_t)2 * (value_bytes)*CELL_SM_ROWS_MAX *                                                  \
         (CELL_SM_PITCH(units) + CELL_SM_PITCH(CELL_SM_INPUTS_MAX)))

#endif
