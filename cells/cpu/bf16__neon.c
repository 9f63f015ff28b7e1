/* Gated cells with bf16 weights for the Advanced SIMD of AArch64; the body is that of fp32 but for
 * the loads of weights, see gated_body.h. Called only where cell_kernels_choose() found the
 * instructions. */
#define CELL_WEIGHTS_BF16

#include "cells/cpu/gated_body.h"
#include "cells/cpu/reduced.h"

#ifdef CELL_SIMD_LANES
const struct cell_reduced_kernels cell_bf16__neon = {gated_load, gated_ahead, gated_step,
                                                     gated_scratch};
#endif
