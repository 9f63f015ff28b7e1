/* The cpu backend behind a gate: its queue computes only as many batches as a test lets through,
 * and fails those that the test chooses. One device at a time, one queue; state is the program's.
 *
 * So a test knows in which phase a request is: with run_steps_max = 1 a batch is one step. */
#ifndef TESTS_SERVER_GATE_H
#define TESTS_SERVER_GATE_H

#include "cells/backend.h"

extern const struct cell_backend gate_backend;

/* Any thread. Open at first: everything passes. */
void gate_open(void);
void gate_close(void);

/* Closed as soon as this many batches have passed. */
void gate_let(uint32_t batches);

/* The n-th batch to pass from now (1 = the next) fails with this status, and no other. */
void gate_fail(uint32_t n, enum base_status status);

/* Chains of more steps are none that the device can compute. While no request is there. */
void gate_steps_max(uint32_t steps);

/* Batches that have passed since the device was opened. */
uint64_t gate_passed(void);

#endif
