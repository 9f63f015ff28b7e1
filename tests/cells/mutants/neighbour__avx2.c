/* See mutants.h. */
#include "tests/cells/mutants/mutants.h"

#define CELL_TABLE      mutant_neighbour__avx2
#define CELL_TABLE_TEXT "neighbour"

#define multiply right_multiply
#include "cells/cpu/product_body.h"
#undef multiply

CELL_INLINE void multiply(const size_t vectors, const struct product *product)
{
    right_multiply(vectors, product);
    if (product->n_rows % 2 == 1 && product->n_rows > 1) {
        *end_of(&product->end, 1) = *end_of(&product->end, 0);
    }
}

#include "cells/cpu/kernels_body.h"
