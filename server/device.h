/* Which devices the configuration asks for. */
#ifndef SERVER_DEVICE_H
#define SERVER_DEVICE_H

#include "cells/backend.h"
#include "config/config.h"
#include "server/engine.h"

struct srv_devices {
    const struct cell_backend *backend;
    uint32_t n;
    uint32_t cards[SRV_DEVICES_MAX]; /* [n]; of a backend whose devices are numbered */
};

/* --device, else --backend, once: NAME; NAME:N, that many; or of cards NAME:CARD,CARD .. , which,
 * each once, and card 0 without. Loads the backend's library where it has one. INVALID_ARGUMENT:
 * nobody has that name, or what follows the colon is not as it must be. UNAVAILABLE: its library
 * is missing. */
enum base_status srv_device_choose(const struct cfg_config *config, struct srv_devices *out,
                                   struct base_error *error);

#endif
