/* Weights of a gated cell in the order in which a one-SM lane reads them. Host code; pure functions
 * over the caller's memory, any thread. */
#ifndef CELLS_CUDA_LANE_PACK_H
#define CELLS_CUDA_LANE_PACK_H

#include "base/status.h"
#include "cells/cuda/lane_args.h"
#include "cells/kernels.h"

/* A kernel of a fixed menu. */
struct cell_sm_kernel {
    const char *lstm, *gru; /* names of the kernels */
    uint32_t units;         /* at most */
    bool is_bf16;
};

/* The smallest that has room; UNIMPLEMENTED with the reason if none has: another kind of cell,
 * int8, peepholes, a projection, too many units or inputs. is_given: x comes as sums, so that the
 * lane needs no weights over x. */
enum base_status cell_sm_choose(const struct cell_gated *gated, bool is_given,
                                const struct cell_sm_kernel **out, struct base_error *error);

/* Packs into `to`, layout.bytes of it; gated: as given, it need not be loaded. Rounds to bf16 where
 * the kernel is of bf16. */
void cell_sm_pack(const struct cell_gated *gated, const struct cell_sm_kernel *kernel,
                  bool is_given, uint8_t *to);

/* Of a launch: threads of its one block, and bytes of its dynamic shared memory. What a card has
 * for a block (227 KiB on sm_90, 163 KiB on sm_80) is for the caller to compare. */
uint32_t cell_sm_threads(const struct cell_sm_layout *layout);
uint32_t cell_sm_shared_bytes(const struct cell_sm_kernel *kernel,
                              const struct cell_sm_layout *layout);

/* The layout of what it packs. */
struct cell_sm_layout cell_sm_layout_of(const struct cell_gated *gated,
                                        const struct cell_sm_kernel *kernel, bool is_given);

#endif
