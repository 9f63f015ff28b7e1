/* See columns_body.h. 10 to 12 sums in 16 registers. */
#define COLUMNS_KERNEL  bench_columns__avx2
#define COLUMNS_ISA     "avx2"
#define COLUMNS_UNITS_1 12u
#define COLUMNS_UNITS_2 6u
#define COLUMNS_UNITS_3 4u
#define COLUMNS_UNITS_4 2u
#include "bench/columns_body.h"
