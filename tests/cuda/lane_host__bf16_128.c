/* A one-SM lane, compiled for a driver on a host. */
#define CELL_SM_NAME(x) x##__bf16_128
#define CELL_SM_UNITS   128u
#define CELL_SM_IS_BF16 1

#include "tests/cuda/lane_host_body.h"
