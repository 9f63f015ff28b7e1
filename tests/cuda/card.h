/* The devices that tests/cuda/card.c knows, by name: those of a card (card_cuda.c), or the same
 * over a host's driver (card_host.c), whichever is linked. */
#ifndef TESTS_CUDA_CARD_H
#define TESTS_CUDA_CARD_H

#include "cells/backend.h"

/* NULL: there is none of that name. */
const struct cell_backend *card_backend(const char *name);

#endif
