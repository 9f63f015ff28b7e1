/* Gated cells with int8 weights for AVX-512 with VNNI; the body is shared, see int8_body.h.
 * Called only where the instructions are. */
#define CELL_INT8_TABLE cell_int8__avx512vnni

#include "cells/cpu/int8_body.h"
