/* Which device the configuration asks for; see device.h. */
#include "server/device.h"

#include "server/engine.h"

#include <string.h>

/* N of NAME:N; 0: it is no such number. */
static uint32_t number_of(const char *text)
{
    uint32_t n = 0;
    if (text[0] == '\0' || strlen(text) > 3) {
        return 0;
    }
    for (; *text >= '0' && *text <= '9'; text++) {
        n = 10 * n + (uint32_t)(*text - '0');
    }
    return *text == '\0' && n <= SRV_DEVICES_MAX ? n : 0;
}

enum base_status srv_device_choose(const struct cfg_config *config,
                                   const struct cell_backend **backend, uint32_t *n_devices,
                                   struct base_error *error)
{
    const char *asked = config->device[0] != '\0' ? config->device : config->backend;
    const char *colon = strchr(asked, ':');
    char name[32] = "";
    size_t length = colon == NULL ? strlen(asked) : (size_t)(colon - asked);
    if (length < sizeof(name)) {
        memcpy(name, asked, length);
        name[length] = '\0';
    }
    *backend = cell_backend_find(name);
    if (*backend == NULL) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "no backend '%.*s' in this program",
                         (int)length, asked);
    }
    *n_devices = colon == NULL ? 1 : number_of(colon + 1);
    if (*n_devices == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "device '%s': a number of 1 to %u must follow the colon", asked,
                         SRV_DEVICES_MAX);
    }
    return BASE_OK;
}
