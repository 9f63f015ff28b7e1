/* ATTEND: a row reads all rows of its own request's memory (cells/op.h). */
#ifndef CELLS_CPU_ATTEND_H
#define CELLS_CPU_ATTEND_H

#include "cells/cpu/view.h"

/* This member's share of the view's rows. */
void cell_attend(const struct cell_view *view, const struct cell_program_op *op);

#endif
