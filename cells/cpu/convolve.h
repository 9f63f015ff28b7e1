/* LINEAR over the places of a picture, or over many patches (cells/op.h), read where they stand:
 * what a place reads is some lines of taps, each one piece of a line of the picture. A picture with
 * zeros around it is copied once, line by line, as many lines as stay in L2; without them nothing
 * is.
 *
 * Threads: the members of one team while they run a batch, each its share of the places. */
#ifndef CELLS_CPU_CONVOLVE_H
#define CELLS_CPU_CONVOLVE_H

#include "cells/cpu/view.h"

/* Of an op; numbers of floats. */
struct cell_convolution {
    uint32_t of_line;  /* places of a line */
    size_t step, down; /* from place to place, and from line to line of places */
    bool is_in_place;  /* no place reads beyond the edges: nothing is copied */
    size_t line;       /* of the picture, with the zeros around it */
    uint32_t reach;    /* lines of it that a place goes over */
    size_t room;       /* for copies; whole lines */
    uint32_t n_pieces, piece;
    size_t *pieces;
};

/* Once the weights are loaded; an op that is none of these has no convolution then.
 * RESOURCE_EXHAUSTED; of the program's arena. */
enum base_status cell_convolve_plan(struct cell_program *program, struct cell_program_op *op);

/* Floats of scratch. */
size_t cell_convolve_floats(const struct cell_convolution *convolution);

/* This member's share of the op. */
void cell_convolve(const struct cell_view *view, const struct cell_program_op *op);

#endif
