/* See mutants.h. One row alone, and a GRU, have a product of their own for each part of the sum,
 * and are left as they are. */
#include "tests/cells/mutants/mutants.h"

#define CELL_TABLE      mutant_h_first__avx2
#define CELL_TABLE_TEXT "h_first"

#define multiply right_multiply
#include "cells/cpu/product_body.h"
#undef multiply

CELL_INLINE void multiply(const size_t vectors, const struct product *product)
{
    struct span turned[CELL_GATED_PARTS];
    struct product other = *product;
    if (product->n_spans >= 2) {
        turned[0] = product->spans[1];
        turned[1] = product->spans[0];
        turned[2] = product->spans[product->n_spans - 1];
        other.spans = turned;
    }
    right_multiply(vectors, &other);
}

#include "cells/cpu/kernels_body.h"
