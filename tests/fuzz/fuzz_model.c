/* Model files: arbitrary bytes through cell_model_parse(). A refusal says why; an accepted model is
 * consistent, and parsing it again finds the same types. */
#include "base/assert.h"
#include "cells/model.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A source is made before stage `before`, and is a row of this width. */
static void check_source(const struct cell_model *model, struct cell_source source, uint32_t before,
                         uint32_t width)
{
    if (source.kind == CELL_SOURCE_INPUT) {
        base_assert(source.index < model->n_inputs);
        const struct cell_tensor *tensor = &model->inputs[source.index];
        base_assert(source.piece < tensor->pieces && tensor->width == width * tensor->pieces);
    } else if (source.kind != CELL_SOURCE_ZERO) {
        base_assert(source.stage < before);
        const struct cell_def *def = &model->stages[source.stage].type->def;
        bool is_state = source.kind == CELL_SOURCE_LAST_STATE;
        base_assert(source.index < (is_state ? def->n_states : def->n_outputs));
        uint32_t v = is_state ? def->n_inputs + source.index : def->outputs[source.index];
        base_assert(def->values[v].width == width);
    }
}

static void check_model(const struct cell_model *model)
{
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct cell_def *def = &model->stages[s].type->def;
        for (uint32_t i = 0; i < def->n_inputs + def->n_states; i++) {
            const struct cell_stage *stage = &model->stages[s];
            check_source(model,
                         i < def->n_inputs ? stage->inputs[i] : stage->init[i - def->n_inputs], s,
                         def->values[i].width);
        }
    }
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        const struct cell_tensor *tensor = &model->outputs[o];
        base_assert(tensor->pieces >= 1 && tensor->pieces <= CELL_PIECES_MAX);
        for (uint32_t p = 0; p < tensor->pieces; p++) {
            check_source(model, model->output_sources[o][p], model->n_stages,
                         tensor->width / tensor->pieces);
        }
    }
}

/* As a whole model, a part, or a decoder's step. */
static void parse(const uint8_t *data, size_t size, const struct cell_model_options *options)
{
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL, *again = NULL;
    struct base_error error = {.message = ""};
    const struct cell_model_file file = {data, size};
    base_assert(cell_registry_create(&registry) == BASE_OK);
    enum base_status status = cell_model_parse(registry, file, "fuzz", options, &model, &error);
    base_assert(status == BASE_OK || error.message[0] != '\0');
    if (status == BASE_OK) {
        check_model(model);
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
