/* See mutants.h. */
#include "cells/cpu/simd.h"
#include "tests/cells/mutants/mutants.h"

#define CELL_TABLE      mutant_any_nan__avx2
#define CELL_TABLE_TEXT "any_nan"

#define simd_one_nan(v, bits) (v)

#include "cells/cpu/kernels_body.h"
