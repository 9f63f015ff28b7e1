/* Gated cells whose weights are held in fewer bits: what a table of kernels hands them on to.
 * Private to cells/cpu. Functions as in struct cell_kernels. */
#ifndef CELLS_CPU_REDUCED_H
#define CELLS_CPU_REDUCED_H

#include "cells/kernels.h"

struct cell_reduced_kernels {
    enum base_status (*load)(struct cell_gated *gated);
    void (*ahead)(const struct cell_gated_ahead *ahead);
    void (*step)(const struct cell_gated_step *step);
    size_t (*scratch)(const struct cell_gated *gated, uint32_t rows_max);
};

#ifdef __x86_64__
extern const struct cell_reduced_kernels cell_bf16__avx2;
extern const struct cell_reduced_kernels cell_bf16__avx512;
extern const struct cell_reduced_kernels cell_bf16__avx512bf16;
extern const struct cell_reduced_kernels cell_int8__avx2;
extern const struct cell_reduced_kernels cell_int8__avx512;
extern const struct cell_reduced_kernels cell_int8__avx512vnni;
extern const struct cell_reduced_kernels cell_int8__avx512amx;

/* Those for this machine; NULL for FP32. */
const struct cell_reduced_kernels *cell_reduced__avx2(enum cell_precision precision);
const struct cell_reduced_kernels *cell_reduced__avx512(enum cell_precision precision);
#endif

#ifdef __aarch64__
extern const struct cell_reduced_kernels cell_bf16__neon;
extern const struct cell_reduced_kernels cell_int8__neon;
extern const struct cell_reduced_kernels cell_int8__neondot;

const struct cell_reduced_kernels *cell_reduced__neon(enum cell_precision precision);
#endif

#endif
