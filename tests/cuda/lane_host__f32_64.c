/* A one-SM lane, compiled for a driver on a host. */
#define CELL_SM_NAME(x) x##__f32_64
#define CELL_SM_UNITS   64u
#define CELL_SM_IS_BF16 0

#include "tests/cuda/lane_host_body.h"
