/* See mutants.h. The Makefile compiles it with -ffp-contract=fast: products and sums that stand
 * apart here are fused again, and nearly all as the definition has them. But which product of
 * f * c + i * g is fused is the compiler's choice: clang 14 takes the right one, gcc the other. */
#include "cells/cpu/simd.h"
#include "tests/cells/mutants/mutants.h"

#define CELL_TABLE      mutant_contraction__avx2
#define CELL_TABLE_TEXT "contraction"

CELL_INLINE simd_vec contractible(simd_vec a, simd_vec b, simd_vec c)
{
    return simd_add(c, simd_mul(a, b));
}
#define simd_fma(a, b, c)          contractible(a, b, c)
#define simd_fma_in_place(a, b, c) contractible(a, b, c)

#include "cells/cpu/kernels_body.h"
