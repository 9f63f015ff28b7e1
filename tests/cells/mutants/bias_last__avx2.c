/* See mutants.h. What a sum would begin with is added when it is complete; so are the sums over x
 * that were computed ahead. One row alone has a product of its own and is left as it is. */
#include "tests/cells/mutants/mutants.h"

#define CELL_TABLE      mutant_bias_last__avx2
#define CELL_TABLE_TEXT "bias_last"

#define multiply right_multiply
#include "cells/cpu/product_body.h"
#undef multiply

CELL_INLINE void multiply(const size_t vectors, const struct product *product)
{
    static const float zeros[COLUMNS_MAX];
    const size_t columns = vectors * CELL_SIMD_LANES;
    float starts[GROUP_ROWS][COLUMNS_MAX]; // kept: a sum may end where it starts
    struct product late = *product;
    late.start = (struct starts){.table = zeros};
    for (uint32_t r = 0; r < product->n_rows; r++) {
        const float *start = start_of(&product->start, r);
        for (size_t c = 0; c < columns; c++) {
            starts[r][c] = start[c];
        }
    }
    right_multiply(vectors, &late);
    for (uint32_t r = 0; r < product->n_rows; r++) {
        float *sums = end_of(&product->end, r);
        for (size_t c = 0; c < columns; c++) {
            sums[c] += starts[r][c];
        }
    }
}

#include "cells/cpu/kernels_body.h"
