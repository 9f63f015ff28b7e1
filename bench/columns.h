/* A product over values that stand in columns, x [inputs, rows] and out [outputs, rows]: vectors go
 * over rows, and weights come one by one. What the kernels of cells/ do not do; it is here to be
 * measured beside them (EcoRNN, section 4: which of the two is faster depends on the sizes). */
#ifndef BENCH_COLUMNS_H
#define BENCH_COLUMNS_H

#include "cells/kernels.h"

struct bench_columns {
    uint32_t inputs, outputs;
    uint32_t rows;         /* as many as bench_columns_rows() gives */
    const float *w, *bias; /* as of struct cell_linear */
    const float *x;        /* on a cache line, as the others */
    float *out;
    float *packed; /* room for inputs * (outputs + BENCH_COLUMNS_UNITS_MAX) floats */
};

#define BENCH_COLUMNS_UNITS_MAX   24u
#define BENCH_COLUMNS_VECTORS_MAX 4u /* of rows that go through the weights together */

/* n rows and what fills them up to equal groups of whole vectors. */
static inline uint32_t bench_columns_rows(uint32_t n, uint32_t lanes)
{
    uint32_t vectors = (n + lanes - 1) / lanes;
    uint32_t groups = (vectors + BENCH_COLUMNS_VECTORS_MAX - 1) / BENCH_COLUMNS_VECTORS_MAX;
    return (vectors + groups - 1) / groups * groups * lanes;
}

struct bench_columns_kernel {
    const char *isa;
    uint32_t lanes;
    /* Puts the weights in the order of the tiles for so many rows. */
    void (*pack)(const struct bench_columns *columns);
    void (*multiply)(const struct bench_columns *columns);
};

#ifdef __x86_64__
extern const struct bench_columns_kernel bench_columns__avx2;
extern const struct bench_columns_kernel bench_columns__avx512;
#endif

#endif
