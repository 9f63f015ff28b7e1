/* Safetensors files: arbitrary bytes, in front of them a line of layers as config.yaml has them. A
 * refusal says why; an accepted model is consistent, and parsing it again finds the same types. */
#include "base/assert.h"
#include "cells/model.h"
#include "tests/fuzz/sound.h"

#include <string.h>

enum { LAYERS_MAX = 66, LINE_BYTES = 512 };

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Cuts KIND:PREFIX,KIND:PREFIX in place; returns how many. */
static uint32_t cut(char *line, struct cell_layer items[LAYERS_MAX])
{
    uint32_t n = 0;
    for (char *at = line; at != NULL && n < LAYERS_MAX; n++) {
        char *comma = strchr(at, ',');
        if (comma != NULL) {
            *comma = '\0';
        }
        char *colon = strchr(at, ':');
        if (colon != NULL) {
            *colon = '\0';
        }
        items[n] = (struct cell_layer){at, colon == NULL ? "" : colon + 1};
        at = comma == NULL ? NULL : comma + 1;
    }
    return n;
}

static void parse(struct cell_model_file file, const struct cell_layers *layers)
{
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL, *again = NULL;
    struct base_error error = {.message = ""};
    const struct cell_model_options options = {.layers = layers};
    base_assert(cell_registry_create(&registry) == BASE_OK);
    enum base_status status = cell_model_parse(registry, file, "fuzz", &options, &model, &error);
    base_assert(status == BASE_OK || error.message[0] != '\0');
    if (status == BASE_OK) {
        sound_model(model);
        uint32_t types = cell_registry_types(registry);
        base_assert(cell_model_parse(registry, file, "fuzz", &options, &again, &error) == BASE_OK);
        base_assert(cell_registry_types(registry) == types);
        cell_model_free(registry, again);
    }
    cell_model_free(registry, model);
    cell_registry_free(registry);
}

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char line[LINE_BYTES] = "";
    struct cell_layer items[LAYERS_MAX];
    const uint8_t *end = size == 0 ? NULL : memchr(data, '\n', size);
    const size_t length = end == NULL ? 0 : (size_t)(end - data);
    if (end == NULL || length >= sizeof(line)) {
        return 0;
    }
    memcpy(line, data, length);
    const struct cell_layers layers = {cut(line, items), items};
    parse((struct cell_model_file){end + 1, size - length - 1, NULL}, &layers);
    return 0;
}
