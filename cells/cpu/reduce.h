/* REDUCE: what all rows of a request's memory have in common (cells/op.h). */
#ifndef CELLS_CPU_REDUCE_H
#define CELLS_CPU_REDUCE_H

#include "cells/cpu/view.h"

/* This member's share of the view's rows. */
void cell_reduce(const struct cell_view *view, const struct cell_program_op *op);

#endif
