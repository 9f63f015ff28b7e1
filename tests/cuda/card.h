/* The devices that tests/cuda/card.c knows, by name: those of a card (card_cuda.c), or the same
 * over a host's driver (card_host.c), whichever is linked. */
#ifndef TESTS_CUDA_CARD_H
#define TESTS_CUDA_CARD_H

#include "cells/backend.h"
#include "cells/cuda/driver.h"

/* NULL: there is none of that name. */
const struct cell_backend *card_backend(const char *name);

/* The drivers below them, for who needs no device: "cuda", or over a host. NULL: none of that name.
 */
const struct cell_cuda_driver *card_driver(const char *name);

/* Ends a line of JSON that was begun, and flushes it: ok and checked, or why it failed.
 * (card_lines.c) */
void card_end_line(const char *wrong);

/* Members of a line, behind a comma: quantiles of n numbers, which are sorted by it. */
void card_quantiles(const char *name, double *numbers, uint32_t n);

#endif
