/* See mutants.h. */
#include "cells/cpu/simd.h"
#include "tests/cells/mutants/mutants.h"

#define CELL_TABLE      mutant_no_fma__avx2
#define CELL_TABLE_TEXT "no_fma"

CELL_INLINE simd_vec round_twice(simd_vec a, simd_vec b, simd_vec c)
{
    return simd_add(c, simd_mul(a, b));
}
#define simd_fma(a, b, c)          round_twice(a, b, c)
#define simd_fma_in_place(a, b, c) round_twice(a, b, c)

#include "cells/cpu/kernels_body.h"
