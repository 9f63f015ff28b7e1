/* Double-precision evaluation of a cell definition, one row and step at a time: plain loops that
 * share no code with the kernels. */
#ifndef TESTS_CELLS_ORACLE_H
#define TESTS_CELLS_ORACLE_H

#include "cells/def.h"

struct oracle {
    const struct cell_def *def;
    double *values[CELL_VALUES_MAX]; /* [width] each; owned */
    /* Of inputs with many rows (ATTEND, REDUCE): [n_rows][width] each, the caller's. */
    const double *rows[CELL_INPUTS_MAX];
    uint32_t n_rows[CELL_INPUTS_MAX];
};

void oracle_init(struct oracle *oracle, const struct cell_def *def);
void oracle_release(struct oracle *oracle);

/* Computes the results from values[0 .. inputs + states - 1]. */
void oracle_step(struct oracle *oracle);

/* Then moves each next state into its state. */
void oracle_advance(struct oracle *oracle);

#endif
