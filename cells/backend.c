/* The table of backends that this program was built with. */
#include "cells/backend.h"

#include "cells/cpu/device.h"

#include <string.h>

static const struct cell_backend *const backends[] = {
    &cell_backend_cpu,
    &cell_backend_blas,
};

const struct cell_backend *cell_backend_at(uint32_t index)
{
    return index < sizeof(backends) / sizeof(backends[0]) ? backends[index] : NULL;
}

const struct cell_backend *cell_backend_find(const char *name)
{
    for (uint32_t i = 0; cell_backend_at(i) != NULL; i++) {
        if (strcmp(backends[i]->name, name) == 0) {
            return backends[i];
        }
    }
    return NULL;
}
