/* See sound.h. */
#include "tests/fuzz/sound.h"

#include "base/assert.h"

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

void sound_model(const struct cell_model *model)
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
