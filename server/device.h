/* Which device the configuration asks for. */
#ifndef SERVER_DEVICE_H
#define SERVER_DEVICE_H

#include "cells/backend.h"
#include "config/config.h"

/* --device NAME or NAME:N, else --backend, once. INVALID_ARGUMENT: nobody of that name is in this
 * program, or N is not 1..SRV_DEVICES_MAX. */
enum base_status srv_device_choose(const struct cfg_config *config,
                                   const struct cell_backend **backend, uint32_t *n_devices,
                                   struct base_error *error);

#endif
