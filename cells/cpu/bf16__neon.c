/* Gated cells with bf16 weights for the Advanced SIMD of AArch64; rows are rounded to floats of
 * few bits, and a weight is widened where it is loaded. The body is shared, see bf16_body.h.
 * Called only where the instructions are. */
#define CELL_BF16_TABLE cell_bf16__neon

#include "cells/cpu/bf16_body.h"
