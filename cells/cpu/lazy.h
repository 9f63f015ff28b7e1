/* Products that a step needs of some of its rows alone: those whose results only a SELECT reads,
 * which takes them where a state or an input says so. A transducer's predictor is asked so: of rows
 * that have just said a label. */
#ifndef CELLS_CPU_LAZY_H
#define CELLS_CPU_LAZY_H

#include "cells/cpu/program.h"

/* Behind the phases: sets the guards of ops. */
void cell_program_find_lazy(struct cell_program *program);

/* Room in the spaces of members for the rows that are chosen. RESOURCE_EXHAUSTED. */
enum base_status cell_lazy_make_space(struct cell_program *program, struct cell_space *space);

#endif
