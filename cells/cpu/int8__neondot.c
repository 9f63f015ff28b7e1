/* Gated cells with int8 weights for AArch64 with dot products (FEAT_DotProd); the body is shared,
 * see int8_body.h. Called only where the instructions are. */
#define CELL_INT8_TABLE cell_int8__neondot

#include "cells/cpu/int8_body.h"
