/* See mutants.h. */
#include "cells/cpu/simd.h"
#include "tests/cells/mutants/mutants.h"

#define simd_one_nan(v, bits) (v)

#define CELL_TABLE      mutant_any_nan__avx2
#define CELL_TABLE_TEXT "any_nan"
#include "cells/cpu/kernels_body.h"
