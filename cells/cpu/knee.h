/* How many rows a batch of a type needs until more of them are hardly faster a row: the device's
 * own rule, until that is measured (cells/calibration.h, b_max).
 *
 * Any thread. */
#ifndef CELLS_CPU_KNEE_H
#define CELLS_CPU_KNEE_H

#include "cells/cpu/program.h"

/* 0: more may always be. */
uint32_t cell_knee_rows(const struct cell_program *program);

#endif
