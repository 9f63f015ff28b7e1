/* The kernels of a step (step.h) on a GPU: each body in blocks of 256 threads, as many items side
 * by side as its lanes leave room for. They are named for the tools; launching is what others use.
 *
 * Gates (scripts/gpu/gates.sh):
 *   archs      80 90 90a
 *   registers  cell_step_begin__sm80 32
 *   registers  cell_step_load__sm80 32
 *   registers  cell_step_store__sm80 32
 *   registers  cell_step_emit__sm80 32
 *   registers  cell_step_turn__sm80 32
 *   registers  cell_step_lookup__sm80 32
 *   registers  cell_step_move__sm80 32
 *   registers  cell_step_cast__sm80 32
 *   registers  cell_step_round__sm80 32
 *   registers  cell_step_product__sm80 96
 *   registers  cell_step_lstm__sm80 40
 *   registers  cell_step_gru__sm80 40
 *   registers  cell_step_gru_reset__sm80 40
 *   registers  cell_step_gru_new__sm80 40
 *   registers  cell_step_rnn__sm80 40
 *   registers  cell_step_tree__sm80 40
 *   registers  cell_step_chain__sm80 32
 *   registers  cell_step_softmax__sm80 40
 *   registers  cell_step_mean__sm80 32
 *   registers  cell_step_argmax__sm80 32
 *   registers  cell_step_top__sm80 80
 *   registers  cell_step_take__sm80 32
 *   registers  cell_step_transpose__sm80 32
 *   registers  cell_step_spread__sm80 32
 *   registers  cell_step_places__sm80 40
 *   registers  cell_step_filter__sm80 48
 *   registers  cell_step_attend_score__sm80 48
 *   registers  cell_step_attend_weigh__sm80 40
 *   registers  cell_step_attend__sm80 40
 *   registers  cell_step_reduce__sm80 48
 *   registers  cell_step_pick__sm80 32
 *   registers  cell_step_search__sm80 80
 *   registers  cell_step_choose__sm80 48
 *   ptx        1 ld.relaxed.sys.u32
 *   stack      cell_step_chain__sm80 160
 *   stack      cell_step_choose__sm80 208
 */
#include "cells/cuda/step_kernels.h"

#include "cells/cuda/step_attend.h"
#include "cells/cuda/step_cells.h"
#include "cells/cuda/step_ops.h"
#include "cells/cuda/step_reduce.h"
#include "cells/cuda/step_round.h"
#include "cells/cuda/step_rows.h"
#include "cells/cuda/step_search.h"
#include "cells/cuda/step_top.h"

namespace
{

constexpr uint32_t THREADS = 256;
constexpr uint32_t BLOCKS_MAX = 1u << 20; /* of a launch; items beyond are done in turns */

static_assert(THREADS == CELL_STEP_LANES_MAX, "an item is one block's at most");

/* Threads that wait for each other between phases go through the same turns, items or not. */
#define CELL_STEP_KERNEL(NAME, name, lanes, phases)                                                \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) cell_step_##name##__sm80(             \
        const __grid_constant__ decltype(cell_step::name) told, uint32_t n_items)                  \
    {                                                                                              \
        constexpr uint32_t items = THREADS / (lanes);                                              \
        __shared__ float rooms[(lanes) > 1 ? items : 1][CELL_STEP_ROOM * (lanes)];                 \
        struct cell_step_at at;                                                                    \
        at.n_items = n_items;                                                                      \
        at.lane = threadIdx.x % (lanes);                                                           \
        at.room = rooms[(lanes) > 1 ? threadIdx.x / (lanes) : 0];                                  \
        for (uint32_t first = blockIdx.x * items; first < n_items; first += gridDim.x * items) {   \
            at.item = first + threadIdx.x / (lanes);                                               \
            for (at.phase = 0; at.phase < (phases); at.phase++) {                                  \
                if (at.item < n_items) {                                                           \
                    cell_step_##name(&told, at);                                                   \
                }                                                                                  \
                if ((phases) > 1) {                                                                \
                    __syncthreads();                                                               \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
CELL_STEP_MAP(CELL_STEP_KERNEL)
#undef CELL_STEP_KERNEL

uint32_t blocks_of(uint32_t n_items, uint32_t lanes)
{
    const uint32_t items = THREADS / lanes;
    const uint32_t blocks = (n_items + items - 1) / items;
    return blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX;
}

} // namespace

extern "C" cudaError_t cell_step_launch(const struct cell_step *step, uint32_t n_items,
                                        cudaStream_t stream)
{
    if (n_items == 0) {
        return cudaSuccess;
    }
    switch (step->kernel) {
#define CELL_STEP_LAUNCH(NAME, name, lanes, phases)                                                \
    case CELL_STEP_##NAME:                                                                         \
        cell_step_##name##__sm80<<<blocks_of(n_items, lanes), THREADS, 0, stream>>>(step->name,    \
                                                                                    n_items);      \
        break;
        CELL_STEP_MAP(CELL_STEP_LAUNCH)
#undef CELL_STEP_LAUNCH
    default:
        return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}

/* By a launch of no items each: memory for a kernel's stack, too, is made at its first. */
extern "C" cudaError_t cell_step_load_all(cudaStream_t stream)
{
#define CELL_STEP_TOUCH(NAME, name, lanes, phases)                                                 \
    cell_step_##name##__sm80<<<1, THREADS, 0, stream>>>(decltype(cell_step::name){}, 0);
    CELL_STEP_MAP(CELL_STEP_TOUCH)
#undef CELL_STEP_TOUCH
    const cudaError_t status = cudaGetLastError();
    return status == cudaSuccess ? cudaStreamSynchronize(stream) : status;
}
