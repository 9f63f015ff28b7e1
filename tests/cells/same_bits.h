/* The checks of the rule of the bits: a kernel table against the scalar one, by memcmp(), over row
 * counts, places of rows, shares of the panels, and sums over x computed ahead. Used by the suites
 * of the kernels, which want no difference, and by that of the mutants, which wants one. */
#ifndef TESTS_CELLS_SAME_BITS_H
#define TESTS_CELLS_SAME_BITS_H

#include "cells/kernels.h"
#include "tests/cells/build.h"

#include <stdbool.h>

#define SAME_BITS_ROWS 40u

/* Of fp32, and of all precisions: those of fp32 come first. */
#define SAME_BITS_KINDS     15u
#define SAME_BITS_ALL_KINDS (3 * SAME_BITS_KINDS)

enum same_bits_form {
    SAME_BITS_PLAIN,
    SAME_BITS_PEEPHOLES, /* and a state that is narrower than the units, as a projected one is */
    SAME_BITS_NO_X,
    SAME_BITS_LEAF, /* x alone */
};

/* Every kind of gated cell. */
struct same_bits_kind {
    enum cell_gated_kind kind;
    enum same_bits_form form;
    enum cell_precision precision;
};
extern const struct same_bits_kind same_bits_kinds[SAME_BITS_ALL_KINDS];

/* The first difference that was found, in words. */
struct same_bits_difference {
    char text[128];
};

/* Rows of each part, [SAME_BITS_ROWS] -> [terms]. */
struct same_bits_factors {
    float *const *part[CELL_GATED_PARTS];
};

struct same_bits_gated {
    struct same_bits_kind kind;
    uint32_t inputs, hidden;
    uint32_t rows_max;    /* <= SAME_BITS_ROWS */
    uint32_t rows_stride; /* every so many row counts, from 1 on */
    bool no_biases;
    /* NULL, or changes the cell and what it multiplies before it is loaded: that of the scalar
     * table (is_wanted) and that of the other. */
    void (*change)(struct build *build, struct cell_gated *gated,
                   const struct same_bits_factors *rows, bool is_wanted);
};

/* A cell with random weights, which are the build's; not yet loaded. */
struct cell_gated same_bits_gated_cell(struct build *build, const struct same_bits_gated *options);

/* Each: whether all bits are those of the scalar table; else *out says which are not.
 *
 * same_bits_gated: rows at changing places among neighbours that hold NaN, infinities, denormals
 * and huge numbers; panels shared out in two parts, as two threads do; sums over x ahead or with
 * the step. Rows of x stand in memory of exactly their width, so that the address sanitizer sees a
 * read past them. */
bool same_bits_gated(const struct cell_kernels *kernels, const struct same_bits_gated *options,
                     struct same_bits_difference *out);
bool same_bits_linear(const struct cell_kernels *kernels, enum cell_precision precision,
                      uint32_t inputs, uint32_t outputs, struct same_bits_difference *out);

/* Sigmoid and tanh of every `stride`th float. */
bool same_bits_activations(const struct cell_kernels *kernels, uint32_t stride,
                           struct same_bits_difference *out);

#endif
