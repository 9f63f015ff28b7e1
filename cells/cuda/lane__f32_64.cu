/* The one-SM lane in fp32, up to 64 units: an LSTM and a GRU.
 *
 * Orders: the slot and `attention` with abort by system scope, completed and ended released by it;
 * the block's own words by the block's. Registers: 8 warps that compute and 2 that do not leave 168
 * for a thread.
 *
 * Gates (scripts/gpu/gates.sh):
 *   archs      80 90 90a
 *   registers  cell_sm_lstm__f32_64 160
 *   registers  cell_sm_gru__f32_64 160
 *   ptx        2 ld.acquire.sys.u64
 *   ptx        4 st.release.sys.u64
 *   ptx        2 ld.relaxed.sys.u32
 *   ptx        4 ld.relaxed.sys.u64
 *   ptx        18 ld.acquire.cta.shared.u64
 *   ptx        10 st.release.cta.shared.u64
 */
#define CELL_SM_NAME(x) x##__f32_64
#define CELL_SM_UNITS   64u
#define CELL_SM_IS_BF16 0

#include "cells/cuda/lane_body.h"
#include "cells/cuda/lane_kernel.cuh"

CELL_SM_KERNEL(cell_sm_lstm__f32_64, CELL_SM_LSTM)
CELL_SM_KERNEL(cell_sm_gru__f32_64, CELL_SM_GRU)
