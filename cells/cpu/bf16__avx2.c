/* Gated cells with bf16 weights for AVX2 with FMA; rows are rounded to floats of few bits, and a
 * weight is widened where it is loaded. The body is shared, see bf16_body.h.
 * Called only where the instructions are. */
#define CELL_BF16_TABLE cell_bf16__avx2

#include "cells/cpu/bf16_body.h"
