/* Model files: arbitrary bytes through cell_model_parse(). A refusal says why; an accepted model is
 * consistent, and parsing it again finds the same types. */
#include "base/assert.h"
#include "cells/model.h"
#include "tests/fuzz/sound.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As a whole model, a part, or a decoder's step. */
static void parse(const uint8_t *data, size_t size, const struct cell_model_options *options)
{
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL, *again = NULL;
    struct base_error error = {.message = ""};
    const struct cell_model_file file = {data, size, NULL};
    base_assert(cell_registry_create(&registry) == BASE_OK);
    enum base_status status = cell_model_parse(registry, file, "fuzz", options, &model, &error);
    base_assert(status == BASE_OK || error.message[0] != '\0');
    if (status == BASE_OK) {
        sound_model(model);
        uint32_t types = cell_registry_types(registry);
        base_assert(cell_model_parse(registry, file, "fuzz", options, &again, &error) == BASE_OK);
        base_assert(cell_registry_types(registry) == types);
        cell_model_free(registry, again);
    }
    cell_model_free(registry, model);
    cell_registry_free(registry);
}

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct cell_model_options kinds[] = {
        {.is_part = false}, {.is_part = true}, {.is_part = true, .feeds_back = true}};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        parse(data, size, &kinds[k]);
    }
    return 0;
}
