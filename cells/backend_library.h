/* Backends in a shared object: what it shows the program that loads it, and the loading.
 *
 * A library that needs what not every machine has (a GPU's driver and libraries) is loaded when its
 * device is asked for, and not before: one program serves machines with and without a GPU. It is
 * built from the same tree as the program, since both share this folder's structs; that is checked
 * by the symbol's version and by the sizes of what crosses. */
#ifndef CELLS_BACKEND_LIBRARY_H
#define CELLS_BACKEND_LIBRARY_H

#include "cells/backend.h"

/* The one symbol of a library, a struct cell_backend_library. A struct of this folder that changes
 * its meaning and not its size changes the version. */
#define CELL_LIBRARY_SYMBOL "cellbatch_backends_1"

#define CELL_LIBRARY_SIZES                                                                         \
    {                                                                                              \
        sizeof(struct cell_backend), sizeof(struct cell_device_options),                           \
            sizeof(struct cell_device_caps), sizeof(struct cell_type), sizeof(struct cell_layout), \
            sizeof(struct cell_batch), sizeof(struct cell_batch_row), sizeof(struct cell_wiring)   \
    }

struct cell_backend_library {
    uint32_t sizes[8];                          /* CELL_LIBRARY_SIZES */
    const struct cell_backend *const *backends; /* up to a NULL */
};

/* The backend of that name: one of this program's, or of libcellbatch_cuda.so, which is looked for
 * beside the program, in ../lib from there, and where the system looks for libraries. It stays
 * loaded. INVALID_ARGUMENT: nobody has that name. UNAVAILABLE: its library is not there, or cannot
 * be loaded; says why. One thread at a time. */
enum base_status cell_backend_load(const char *name, const struct cell_backend **out,
                                   struct base_error *error);

#endif
