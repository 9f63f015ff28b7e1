/* The instruction sets, for tests that loop over them. */
#ifndef TESTS_CELLS_ISA_H
#define TESTS_CELLS_ISA_H

#include "cells/kernels.h"

#if defined(__x86_64__)
#    define ISA_COUNT 3
#elif defined(__aarch64__)
#    define ISA_COUNT 2
#else
#    define ISA_COUNT 1
#endif

/* Those of the architecture, the simplest first: "scalar", "avx2", "avx512" or "scalar", "neon". */
const char *isa_name(int index);

/* Its kernels, or NULL with the case marked as skipped when this machine lacks it. */
const struct cell_kernels *isa_at(int index);
const struct cell_kernels *isa_named(const char *name);

#endif
