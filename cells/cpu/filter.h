/* FILTER (cells/op.h): depthwise convolutions and pools over a picture within a row. Lines of
 * places are gone through from edge to edge; those whose taps are all inside go through the kernel
 * at once. Any thread. */
#ifndef CELLS_CPU_FILTER_H
#define CELLS_CPU_FILTER_H

#include "cells/cpu/program.h"

/* One row. */
void cell_filter(const struct cell_program *program, const struct cell_program_op *op,
                 const float *x, float *out);

#endif
