/* A lane's kernel for a driver on a host, behind the macros of cells/cuda/lane_body.h. */
#include "cells/cuda/step.h"
#define CELL_BLOCK_UNHEARD
#define CELL_BLOCK_BIAS CELL_STEP_HOST_BIAS
#include "tests/cuda/lane_host.h"

#ifdef CELL_SM_UNITS
#    include "cells/cuda/lane_body.h"

static void CELL_SM_NAME(main)(void *argument)
{
    const struct lane_host_launch *launch = argument;
    CELL_SM_NAME(lane)(&launch->args, launch->shared, launch->kind);
}

const struct lane_host_kernel CELL_SM_NAME(lane_host) = {
    .threads = CELL_SM_THREADS,
    .shared_bytes = sizeof(struct CELL_SM_NAME(shared)),
    .main = CELL_SM_NAME(main)};
#endif
