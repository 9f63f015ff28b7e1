/* Cells drawn at random out of every op that a cell may hold, for tests: ops over each other's
 * results, inputs and states in all ways that cell_def_check() allows. */
#ifndef TESTS_CELLS_RANDOM_CELL_H
#define TESTS_CELLS_RANDOM_CELL_H

#include "tests/cells/build.h"

enum random_cell_manner {
    /* Every op but CAST, weights in fp32; no value is large, and none depends on which of two
     * nearly equal numbers is larger, so that double precision comes to nearly the same. */
    RANDOM_CELL_SMOOTH,
    /* Every op, weights in any precision; infinities and NaN come up. */
    RANDOM_CELL_ANY
};

/* Initialises build, whose random numbers decide all. The cell has passed cell_def_check(). An
 * input of integers holds ids below 10; one with many rows (ATTEND) is nothing else's. */
void random_cell_build(struct build *build, enum random_cell_manner manner, uint64_t salt);

/* For who looks into a failure: a line an op on standard output. */
void random_cell_print(const struct cell_def *def);

#endif
