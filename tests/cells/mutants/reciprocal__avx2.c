/* See mutants.h. */
#include "cells/cpu/simd.h"
#include "tests/cells/mutants/mutants.h"

#define CELL_TABLE      mutant_reciprocal__avx2
#define CELL_TABLE_TEXT "reciprocal"

CELL_INLINE simd_vec estimate_div(simd_vec a, simd_vec b)
{
    simd_vec r = _mm256_rcp_ps(b);
    r = simd_mul(r, simd_fnma(b, r, simd_set1(2.0f)));
    return simd_mul(a, r);
}
#define simd_div(a, b) estimate_div(a, b)

#include "cells/cpu/kernels_body.h"
