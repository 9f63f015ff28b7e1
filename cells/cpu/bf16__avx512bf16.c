/* Gated cells with bf16 weights for AVX-512 with BF16: a product of two bf16 by two others, added
 * to a float, is one instruction. The body is shared, see bf16_body.h. Called only where the
 * instructions are. */
#define CELL_BF16_TABLE cell_bf16__avx512bf16

#include "cells/cpu/bf16_body.h"
