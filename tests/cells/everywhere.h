/* A cell on every device and instruction set, held against double precision. */
#ifndef TESTS_CELLS_EVERYWHERE_H
#define TESTS_CELLS_EVERYWHERE_H

#include "cells/def.h"

struct everywhere {
    uint32_t members; /* of a team; 0: no team */
    uint32_t steps;
    double tolerance; /* oracle_check_chain() */
};

/* All rows of a batch, on each instruction set; where the run is not a quick one also over OpenBLAS
 * and on the CUDA device over the host's driver. Fails the case. */
void everywhere_check(const struct cell_def *def, const struct everywhere *how);

#endif
