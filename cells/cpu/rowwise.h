/* Ops that look at one row alone, but for chains of element-wise ones (kernels.h). */
#ifndef CELLS_CPU_ROWWISE_H
#define CELLS_CPU_ROWWISE_H

#include "cells/cpu/program.h"

/* Runs the op on one row: in[i] and out are where its operands and its result stand. */
void cell_rowwise(const struct cell_program *program, const struct cell_program_op *op,
                  const uint8_t *const *in, uint8_t *out);

#endif
