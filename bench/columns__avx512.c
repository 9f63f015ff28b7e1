/* See columns_body.h. 24 sums in 32 registers. */
#define COLUMNS_KERNEL  bench_columns__avx512
#define COLUMNS_ISA     "avx512"
#define COLUMNS_UNITS_1 24u
#define COLUMNS_UNITS_2 12u
#define COLUMNS_UNITS_3 8u
#define COLUMNS_UNITS_4 6u
#include "bench/columns_body.h"
