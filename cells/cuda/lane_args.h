/* A one-SM lane's arguments: what the host hands to a launch, and what it says of each row.
 *
 * The lane speaks cells/lane/contract.h, tagged slots only. Each RUN's x_ref is the address of
 * n_rows struct cell_sm_row, which the host has written before it published the task and does not
 * touch until the task is settled. Host and device code share this header. */
#ifndef CELLS_CUDA_LANE_ARGS_H
#define CELLS_CUDA_LANE_ARGS_H

#include "cells/cuda/fragment.h"
#include "cells/lane/contract.h"
#include "cells/lane/rows.h"

/* Of a task; the lane answers INVALID_ARGUMENT to one with more. */
#define CELL_SM_ROWS_MAX 32u

/* Width of x; wider ones come as sums, computed ahead. */
#define CELL_SM_INPUTS_MAX 128u

enum cell_sm_kind {
    CELL_SM_LSTM, /* as CELL_OP_LSTM, without peepholes and projection; state: h, then c */
    CELL_SM_GRU,  /* as CELL_OP_GRU with CELL_GRU_RESET_AFTER; state: h */
};

/* Parts of a row, as the lane counts them. */
enum { CELL_SM_PART_H, CELL_SM_PART_C };

enum cell_sm_row_flags {
    /* The last step of this run is the chain's last: write `last` behind it, if it is reached. */
    CELL_SM_ROW_LAST = 1,
    /* c does not stand behind h where a state is read or written, but at init_c and last_c. */
    CELL_SM_ROW_APART = 2,
};

/* One row of a RUN. Addresses are the device's, aligned to a float; memory that a run reads is
 * complete when the task is published. */
struct cell_sm_row {
    uint64_t x;          /* of the run's first step: [inputs]; of a lane with inputs = 0 the sums
                            over x with their bias: [gates][units] */
    int64_t x_stride;    /* bytes from one step's x to the next one's */
    uint64_t out;        /* h' of each step: [units]; 0: nowhere */
    int64_t out_stride;  /* bytes */
    uint64_t init;       /* state before step 0 of the chain: [states][units]; 0: zeros */
    uint64_t last;       /* state behind the chain's last step: [states][units]; 0: nowhere */
    uint32_t first_step; /* of the chain; says which copy of h is the newest */
    uint32_t steps;      /* the row leaves behind so many; at most the task's */
    uint32_t flags;      /* enum cell_sm_row_flags */
    uint32_t reserved;
    uint64_t init_c; /* with CELL_SM_ROW_APART: [units]; 0: zeros */
    uint64_t last_c; /* the same; 0: nowhere */
};

CELL_LANE_STATIC_ASSERT(sizeof(struct cell_sm_row) == 80, "copied by 16 bytes");

/* Arguments of a launch. */
struct cell_sm_args {
    struct cell_lane lane; /* rows_max at most CELL_SM_ROWS_MAX */
    struct cell_lane_launch launch;
    struct cell_lane_rows rows; /* parts: h twice, an LSTM's c once; floats, in bf16 lanes too */
    uint8_t *memory;            /* of rows */
    const uint8_t *weights;     /* as cell_sm_pack() has written them; aligned to 16 bytes */
    uint32_t units;             /* at most the kernel's */
    uint32_t inputs;            /* 0: x are sums */
    uint32_t index;             /* of the lane, for the fault record */
    uint32_t bound_ns;          /* a wait inside the block that is longer is a fault */
    uint64_t busy_idle_ns;      /* without a task so long: naps between polls */
    uint64_t park_ns;           /* and so long: parks */
};

/* How weights stand in memory. Offsets in bytes. */
struct cell_sm_layout {
    uint32_t warps;    /* that compute */
    uint32_t groups;   /* bf16: of 8 units, of a warp */
    uint32_t k_inputs; /* inputs, filled up */
    /* At 0: R, to registers: [words of a thread][threads that compute]. fp32: word k is the weight
     * of term k; bf16: word ((group * 2 + tile) * kept tiles + k / 16) * 4 + i is register i of A
     */
    uint32_t kept;   /* bf16: tiles of 16 terms that are in registers; the others are the rest */
    uint32_t biases; /* [4 columns][max_units] floats, to shared memory */
    uint32_t rest;   /* R, to shared memory: [group][tile][k tile][thread] of 4 registers */
    uint32_t early;  /* W, to shared memory behind it: fp32 [k / 4][thread] of 4 floats,
                        bf16 as the rest */
    uint32_t shared_bytes; /* of rest and early */
    uint32_t bytes;
};

/* Tiles of 16 terms over h whose weights bf16 kernels keep in registers. With more than 8 warps on
 * an SM a thread has 168 of them, and a GRU needs more for its sums than an LSTM. */
#define CELL_SM_KEPT_LSTM 7u
#define CELL_SM_KEPT_GRU  6u

CELL_LANE_FN uint32_t cell_sm_kept(uint32_t max_units, bool is_lstm)
{
    const uint32_t tiles = max_units / CELL_MMA_K;
    const uint32_t most = is_lstm ? CELL_SM_KEPT_LSTM : CELL_SM_KEPT_GRU;
    return tiles < most ? tiles : most;
}

/* Of a kernel: its kind, its size, its precision, and whether x comes as sums (inputs = 0). */
struct cell_sm_shape {
    enum cell_sm_kind kind;
    uint32_t max_units;
    bool is_bf16;
    uint32_t inputs;
};

/* 64 units of fp32 are 256 threads, one a column; bf16 has 8 warps from 64 units up. */
CELL_LANE_FN struct cell_sm_layout cell_sm_layout(const struct cell_sm_shape *shape)
{
    struct cell_sm_layout to;
    const uint32_t max_units = shape->max_units;
    const bool is_bf16 = shape->is_bf16;
    const uint32_t all_groups = max_units / CELL_MMA_UNITS;
    const uint32_t fill = is_bf16 ? CELL_MMA_K : 4;
    const uint32_t weight_bytes = is_bf16 ? 2 : 4;
    const uint32_t term_bytes = CELL_COLUMNS * max_units * weight_bytes; // of all columns
    to.warps = is_bf16 ? (all_groups < 8 ? all_groups : 8) : max_units * CELL_COLUMNS / 32;
    to.groups = all_groups / to.warps;
    to.k_inputs = (shape->inputs + fill - 1) / fill * fill;
    to.kept =
        is_bf16 ? cell_sm_kept(max_units, shape->kind == CELL_SM_LSTM) : max_units / CELL_MMA_K;
    to.biases = to.kept * CELL_MMA_K * term_bytes;
    to.rest = to.biases + CELL_COLUMNS * max_units * 4;
    to.early = to.rest + (max_units - to.kept * CELL_MMA_K) * term_bytes;
    to.bytes = to.early + to.k_inputs * term_bytes;
    to.shared_bytes = to.bytes - to.rest;
    return to;
}

#endif
