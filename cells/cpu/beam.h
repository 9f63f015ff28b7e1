/* What a beam search does between two steps; see struct cell_beam in cells/beam_state.h. */
#ifndef CELLS_CPU_BEAM_H
#define CELLS_CPU_BEAM_H

#include "cells/cpu/view.h"

/* Chooses the lanes of the next step for all beams of the view's block, and notes what is complete.
 * All members call it, behind a barrier after the step; there is one after it. No allocation. */
void cell_beam_advance(const struct cell_view *view);

#endif
