/* What the places of a picture read (cells/op.h, struct cell_picture), gathered to rows of a
 * product: for kernels that do not read them where they stand (convolve.h), those of fewer bits and
 * of libraries. Any thread; a copy of each element as often as it is read. */
#ifndef CELLS_CPU_PICTURE_H
#define CELLS_CPU_PICTURE_H

#include "cells/cpu/program.h"

/* Of a LINEAR over a picture: of n places of one row x, from number `place` on, to rows that are
 * CELL_ROW_FLOATS(terms) apart. */
void cell_picture_gather(const struct cell_op *op, const float *x, uint32_t place, uint32_t n,
                         float *to);

#endif
