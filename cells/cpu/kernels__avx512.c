/* The kernels for AVX-512 (F, BW, DQ, VL); the body is shared, see kernels_body.h. Called only
 * where cell_kernels_choose() found the instructions. */
#define CELL_TABLE      cell_kernels__avx512
#define CELL_TABLE_TEXT "avx512"
#define CELL_REDUCED    cell_reduced__avx512

#include "cells/cpu/kernels_body.h"
