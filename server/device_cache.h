/* What devices have measured (struct cell_device_cache), in files beside the calibrations: one for
 * each name. Loop thread. */
#ifndef SERVER_DEVICE_CACHE_H
#define SERVER_DEVICE_CACHE_H

#include "base/build.h"
#include "cells/backend.h"

struct srv_device_cache {
    struct cell_device_cache table;
    const char *folder;
    char build[BASE_BUILD_ID_BYTES];
    bool cannot_write; /* said once */
};

/* folder outlives it; "": nothing is kept. It must not move afterwards. A file of another program
 * or of another key, or a damaged one, is as good as none, with a warning. */
void srv_device_cache_init(struct srv_device_cache *cache, const char *folder);

/* For cell_device_options.cache; NULL without a folder. */
const struct cell_device_cache *srv_device_cache_of(const struct srv_device_cache *cache);

#endif
