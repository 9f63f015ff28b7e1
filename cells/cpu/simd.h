/* The vectors that the kernel bodies are written in: one small set of operations, given by the
 * header of the instruction set that the file is compiled for. CELL_SIMD_LANES is not defined when
 * it is compiled for none, and then the bodies are empty.
 *
 * Every operation is one IEEE operation a lane, so a body means the same sequence of operations on
 * each instruction set, and the scalar reference can follow it. minimum and maximum give their
 * second operand when either is a NaN. */
#ifndef CELLS_CPU_SIMD_H
#define CELLS_CPU_SIMD_H

#include "cells/kernels.h"
#include "cells/math_constants.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#    include "cells/cpu/simd__avx512.h"
#elif defined(__AVX2__) && defined(__FMA__)
#    include "cells/cpu/simd__avx2.h"
#elif defined(__aarch64__) && defined(__ARM_NEON)
#    include "cells/cpu/simd__neon.h"
#endif

/* Before a loop over a constant number of vectors: without it compilers keep the vectors in memory
 * instead of registers. */
#ifdef __clang__
#    define CELL_UNROLL _Pragma("clang loop unroll(full)")
#else
#    define CELL_UNROLL _Pragma("GCC unroll 16")
#endif

#define CELL_INLINE static inline __attribute__((always_inline))

#endif
