/* Which devices the configuration asks for; see device.h. */
#include "server/device.h"

#include "cells/backend_library.h"

#include <string.h>

/* A number of up to three digits at *text, which moves behind it; false: there is none. */
static bool take_number(const char **text, uint32_t *out)
{
    const char *at = *text;
    *out = 0;
    for (; *at >= '0' && *at <= '9' && at - *text < 3; at++) {
        *out = 10 * *out + (uint32_t)(*at - '0');
    }
    const bool has_digits = at != *text;
    *text = at;
    return has_digits;
}

/* N of NAME:N. */
static enum base_status take_count(const char *text, const char *asked, struct srv_devices *out,
                                   struct base_error *error)
{
    if (!take_number(&text, &out->n) || *text != '\0' || out->n == 0 || out->n > SRV_DEVICES_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "device '%s': a number of 1 to %u must follow the colon", asked,
                         SRV_DEVICES_MAX);
    }
    return BASE_OK;
}

static bool has_card(const struct srv_devices *devices, uint32_t card)
{
    for (uint32_t d = 0; d < devices->n; d++) {
        if (devices->cards[d] == card) {
            return true;
        }
    }
    return false;
}

/* Of NAME:0,2. */
static enum base_status take_cards(const char *text, const char *asked, struct srv_devices *out,
                                   struct base_error *error)
{
    for (out->n = 0;; text++) {
        uint32_t card = 0;
        if (!take_number(&text, &card) || (*text != ',' && *text != '\0') ||
            out->n == SRV_DEVICES_MAX || has_card(out, card)) {
            return base_fail(
                error, BASE_INVALID_ARGUMENT,
                "device '%s': numbers of cards must follow the colon, such as 0 or 0,1, "
                "each once, %u at most",
                asked, SRV_DEVICES_MAX);
        }
        out->cards[out->n++] = card;
        if (*text == '\0') {
            return BASE_OK;
        }
    }
}

enum base_status srv_device_choose(const struct cfg_config *config, struct srv_devices *out,
                                   struct base_error *error)
{
    const char *asked = config->device[0] != '\0' ? config->device : config->backend;
    const char *colon = strchr(asked, ':');
    char name[32] = "";
    const size_t length = colon == NULL ? strlen(asked) : (size_t)(colon - asked);
    if (length >= sizeof(name)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "no backend '%.*s' in this program",
                         (int)length, asked);
    }
    memcpy(name, asked, length);
    name[length] = '\0';
    *out = (struct srv_devices){.n = 1};
    BASE_TRY(cell_backend_load(name, &out->backend, error));
    if (colon == NULL) {
        return BASE_OK;
    }
    return out->backend->is_numbered ? take_cards(colon + 1, asked, out, error)
                                     : take_count(colon + 1, asked, out, error);
}
