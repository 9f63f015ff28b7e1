/* The lane of 16 units in fp32 with one step wrong each: what test_lane_removed wants to be
 * noticed. */
#ifndef TESTS_CUDA_FIBER_MUTANTS_H
#define TESTS_CUDA_FIBER_MUTANTS_H

#include "tests/cuda/fiber_lane.h"

#define FIBER_MUTANTS 6

extern const struct fiber_lane_kernel fiber_lane__counts_first; /* and writes the result then */
extern const struct fiber_lane_kernel fiber_lane__ends_first;   /* and lets the others leave then */
extern const struct fiber_lane_kernel fiber_lane__reporter_stays; /* it is not waited for */
extern const struct fiber_lane_kernel fiber_lane__old_copy;       /* h into the copy it came from */
extern const struct fiber_lane_kernel
    fiber_lane__trusts_rows;                                  /* c of a new chain: what was there */
extern const struct fiber_lane_kernel fiber_lane__drops_last; /* no state behind the last step */

#endif
