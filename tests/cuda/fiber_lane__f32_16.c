/* A one-SM lane, compiled for the emulator. */
#define CELL_SM_NAME(x) x##__f32_16
#define CELL_SM_UNITS   16u
#define CELL_SM_IS_BF16 0

#include "tests/cuda/fiber_lane_body.h"
