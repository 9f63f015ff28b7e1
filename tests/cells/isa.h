/* The instruction sets, for tests that loop over them. */
#ifndef TESTS_CELLS_ISA_H
#define TESTS_CELLS_ISA_H

#include "cells/kernels.h"

#define ISA_COUNT 3

/* "scalar", "avx2", "avx512". */
const char *isa_name(int index);

/* Its kernels, or NULL with the case marked as skipped when this machine lacks it. */
const struct cell_kernels *isa_at(int index);

#endif
