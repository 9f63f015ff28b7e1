/* Kernel tables that break the rule of the bits (docs/kernels.md), each in one way: proof that the
 * checks of same_bits.h would notice. They are the body of the AVX2 kernels, which all instruction
 * sets share, compiled once more with one operation or function replaced from outside: the product
 * has no switch for it. */
#ifndef TESTS_CELLS_MUTANTS_MUTANTS_H
#define TESTS_CELLS_MUTANTS_MUTANTS_H

#include "cells/cpu/reduced.h"

/* Of fp32 alone. */
#define CELL_REDUCED(precision) ((void)(precision), (const struct cell_reduced_kernels *)NULL)

/* Not one: the same body under another name. */
extern const struct cell_kernels mutant_none__avx2;

/* Order: sums of even and of odd k, added at the end; h before x; the bias last; h before x for
 * panels that do not begin with the first, as another thread's share. */
extern const struct cell_kernels mutant_two_sums__avx2;
extern const struct cell_kernels mutant_h_first__avx2;
extern const struct cell_kernels mutant_bias_last__avx2;
extern const struct cell_kernels mutant_share__avx2;

/* Rounding: multiply, then add; the same left to the compiler to contract, of which gcc fuses
 * another product of an LSTM's c'; a reciprocal estimate refined once for a division. */
extern const struct cell_kernels mutant_no_fma__avx2;
extern const struct cell_kernels mutant_contraction__avx2;
extern const struct cell_kernels mutant_reciprocal__avx2;

/* What must not show: a NaN's payload; a neighbour, in one lane of one row and only where rows are
 * odd in number. */
extern const struct cell_kernels mutant_any_nan__avx2;
extern const struct cell_kernels mutant_neighbour__avx2;

#endif
