/* The card's own devices and driver, linked into the program. */
#include "cells/backend_library.h"
#include "tests/cuda/card.h"

#include <string.h>

extern const struct cell_backend_library cellbatch_backends_1;

const struct cell_backend *card_backend(const char *name)
{
    const struct cell_backend *const *backend = cellbatch_backends_1.backends;
    while (*backend != NULL && strcmp((*backend)->name, name) != 0) {
        backend++;
    }
    return *backend;
}

extern const struct cell_cuda_driver cell_cuda_driver;

const struct cell_cuda_driver *card_driver(const char *name)
{
    return strcmp(name, cell_cuda_driver.name) == 0 ? &cell_cuda_driver : NULL;
}
