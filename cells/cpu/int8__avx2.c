/* Gated cells with int8 weights for AVX2 with FMA; the body is shared, see int8_body.h.
 * Called only where the instructions are. */
#define CELL_INT8_TABLE cell_int8__avx2

#include "cells/cpu/int8_body.h"
