/* See mutants.h. One row alone has a product of its own and is left as it is. */
#include "tests/cells/mutants/mutants.h"

#define CELL_TABLE      mutant_two_sums__avx2
#define CELL_TABLE_TEXT "two_sums"

#define multiply right_multiply
#include "cells/cpu/product_body.h"
#undef multiply

/* One vector of one row: the terms of even k are added to the start, those of odd k to zero. */
static void add_in_two(const size_t vectors, const struct product *product, uint32_t row, size_t at)
{
    simd_vec sums[2] = {simd_load(start_of(&product->start, row) + at), simd_set1(0.0f)};
    for (uint32_t s = 0; s < product->n_spans; s++) {
        const struct span *span = &product->spans[s];
        for (uint32_t k = 0; k < span->k; k++) {
            struct place term = span->weights;
            term.term += k;
            const size_t in_strip =
                vector_in_strip(vectors, at / CELL_SIMD_LANES) * CELL_SIMD_LANES;
            simd_vec weights = simd_load(column_at(vectors, &term, at - in_strip) + in_strip);
            sums[k % 2] = simd_fma(weights, simd_set1(span->rows[row][k]), sums[k % 2]);
        }
    }
    simd_store(end_of(&product->end, row) + at, simd_add(sums[0], sums[1]));
}

CELL_INLINE void multiply(const size_t vectors, const struct product *product)
{
    for (uint32_t r = 0; r < product->n_rows; r++) {
        for (size_t v = 0; v < vectors; v++) {
            add_in_two(vectors, product, r, v * CELL_SIMD_LANES);
        }
    }
}

#include "cells/cpu/kernels_body.h"
