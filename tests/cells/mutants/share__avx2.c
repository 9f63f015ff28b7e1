/* See mutants.h. As h_first__avx2.c, for some panels. */
#include "tests/cells/mutants/mutants.h"

#define CELL_TABLE      mutant_share__avx2
#define CELL_TABLE_TEXT "share"

#define multiply right_multiply
#include "cells/cpu/product_body.h"
#undef multiply

static bool is_second_share; // of the one thread that tests

CELL_INLINE void multiply(const size_t vectors, const struct product *product)
{
    struct span turned[CELL_GATED_PARTS];
    struct product other = *product;
    if (product->n_spans >= 2 && is_second_share) {
        turned[0] = product->spans[1];
        turned[1] = product->spans[0];
        turned[2] = product->spans[product->n_spans - 1];
        other.spans = turned;
    }
    right_multiply(vectors, &other);
}

// The table names a function without arguments behind it, so that it takes this one.
static void any_step(const struct cell_gated_step *step);
#define any_step(step) right_any_step(step)

#include "cells/cpu/kernels_body.h"
#undef any_step

static void any_step(const struct cell_gated_step *step)
{
    is_second_share = step->panel_first > 0;
    right_any_step(step);
}
