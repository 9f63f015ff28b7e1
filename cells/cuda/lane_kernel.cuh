/* A one-SM lane as kernels: included behind lane_body.h. One block, CELL_SM_THREADS threads,
 * dynamic shared memory of cell_sm_shared_bytes(). Nothing but the symbol is exported; the launch
 * is the backend's. */
#ifndef CELLS_CUDA_LANE_KERNEL_CUH
#define CELLS_CUDA_LANE_KERNEL_CUH

/* The block has its SM alone: registers are counted for one. */
#define CELL_SM_KERNEL(name, kind)                                                                 \
    extern "C" __global__ void __launch_bounds__(CELL_SM_THREADS, 1)                               \
        name(const __grid_constant__ struct cell_sm_args args)                                     \
    {                                                                                              \
        extern __shared__ uint4 memory[];                                                          \
        CELL_SM_NAME(lane)                                                                         \
        (&args, reinterpret_cast<struct CELL_SM_NAME(shared) *>(memory), kind);                    \
    }

#endif
