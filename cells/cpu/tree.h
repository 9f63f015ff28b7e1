/* The cells of a TreeLSTM as ops of a program: how they are listed, loaded and run. Private to
 * cells/cpu. */
#ifndef CELLS_CPU_TREE_H
#define CELLS_CPU_TREE_H

#include "cells/cpu/view.h"

/* ---- While the program is made; each RESOURCE_EXHAUSTED ---- */

/* Adds the ops that compute a tree op of the definition. */
enum base_status cell_tree_list(struct cell_program *program, const struct cell_op *from);

/* Loads the weights of a gated one of them. */
enum base_status cell_tree_load(const struct cell_kernels *kernels, struct cell_program_op *op);

/* What a member needs to run them; nothing in a program without. */
enum base_status cell_tree_make_space(struct cell_program *program, struct cell_space *space);

/* ---- While a batch runs ---- */

/* This member's share of a gated one over the view's rows. */
void cell_tree_run(const struct cell_view *view, const struct cell_program_op *op);

#endif
