/* The kernels for AVX2 with FMA; the body is shared, see kernels_body.h. Called only where
 * cell_kernels_choose() found the instructions. */
#define CELL_TABLE      cell_kernels__avx2
#define CELL_TABLE_TEXT "avx2"
#define CELL_REDUCED    cell_reduced__avx2

#include "cells/cpu/kernels_body.h"
