/* The kernels for the Advanced SIMD of AArch64; the body is shared, see kernels_body.h. Called only
 * where cell_kernels_choose() found the instructions. */
#define CELL_TABLE      cell_kernels__neon
#define CELL_TABLE_TEXT "neon"
#define CELL_REDUCED    cell_reduced__neon

#include "cells/cpu/kernels_body.h"
