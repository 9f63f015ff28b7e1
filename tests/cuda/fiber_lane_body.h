/* A kernel for the emulator, behind the macros of cells/cuda/lane_body.h. */
#define CELL_LANE_TRACE
#define CELL_WORD_TRACE
#include "tests/cuda/fiber_lane.h"

#ifdef CELL_SM_UNITS
#    include "cells/cuda/lane_body.h"

static void CELL_SM_NAME(main)(void *argument)
{
    const struct fiber_lane_launch *launch = argument;
    CELL_SM_NAME(lane)(&launch->args, launch->shared, launch->kind);
}

const struct fiber_lane_kernel CELL_SM_NAME(fiber_lane) = {
    .menu = {.units = CELL_SM_UNITS, .is_bf16 = CELL_SM_IS_BF16},
    .threads = CELL_SM_THREADS,
    .main = CELL_SM_NAME(main)};
#endif
