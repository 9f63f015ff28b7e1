/* Gated cells with int8 weights for AVX-512 with VNNI and AMX; the body is shared, see int8_body.h.
 * Called only where the instructions are, and the process may use them. */
#define CELL_INT8_TABLE cell_int8__avx512amx
#define CELL_INT8_TILES

#include "cells/cpu/int8_body.h"
