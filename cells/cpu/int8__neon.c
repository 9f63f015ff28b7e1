/* Gated cells with int8 weights for the Advanced SIMD of AArch64; the body is shared, see
 * int8_body.h. Called only where the instructions are. */
#define CELL_INT8_TABLE cell_int8__neon

#include "cells/cpu/int8_body.h"
