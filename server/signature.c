/* See signature.h. */
#include "server/signature.h"

#include "server/about.h"
#include "server/text.h"

#include <inttypes.h>
#include <stdio.h>

/* The largest batch a client is told of. */
#define BATCH_MAX 128u

static struct srv_signature_tensor tensor_of(const struct cell_tensor *tensor, bool is_text)
{
    struct srv_signature_tensor made = {.name = tensor->name,
                                        .datatype = is_text ? SRV_BYTES
                                                            : srv_about_datatype_of(tensor)->name,
                                        .optional = tensor->optional,
                                        .batch_axis = -1};
    for (uint32_t i = 0; i < tensor->rank; i++) {
        made.batch_axis = tensor->batch_axis == (int32_t)i ? (int32_t)made.rank : made.batch_axis;
        if (!is_text || tensor->time_axis != (int32_t)i) { // a text is all steps of its row
            made.dims[made.rank++] = tensor->dims[i];
        }
    }
    if (is_text && made.rank == 0) { // of a model for one sequence
        made.dims[made.rank++] = 1;
    }
    return made;
}

/* Numbers of steps below the first, where those mean the first, are not told. Where a stride has
 * left the steps that are told, `steps` are those that it left them of. */
static void set_range(const struct cell_tensor *tensor, struct srv_signature_tensor *made)
{
    const int64_t ids = cell_tensor_ids_below(tensor);
    made->has_range = ids > 0 || tensor->is_lengths || tensor->is_step;
    made->is_of_steps = tensor->is_lengths || tensor->is_step;
    made->least = made->is_of_steps ? cell_telling(tensor->told, tensor->is_lengths ? 1 : 0) : 0;
    made->most = ids > 0                 ? ids - 1
                 : tensor->told.over > 1 ? 0
                 : tensor->is_step       ? cell_telling(tensor->told, 0) - 1
                                         : 0;
}

const char *srv_signature_range(const struct srv_signature_tensor *tensor,
                                char out[SRV_RANGE_BYTES])
{
    if (!tensor->is_of_steps) {
        (void)snprintf(out, SRV_RANGE_BYTES, "%" PRId64 "..%" PRId64, tensor->least, tensor->most);
    } else if (tensor->most == 0) {
        (void)snprintf(out, SRV_RANGE_BYTES, "%" PRId64 "..steps", tensor->least);
    } else {
        (void)snprintf(out, SRV_RANGE_BYTES, "%" PRId64 "..steps%+" PRId64, tensor->least,
                       tensor->most);
    }
    return out;
}

/* Whether the input, or the output, is a state that sessions keep. */
static bool is_state(const struct cell_model *model, uint32_t input, uint32_t output)
{
    bool is_state = false;
    for (uint32_t s = 0; s < model->n_states; s++) {
        is_state = is_state || model->states[s].input == input || model->states[s].output == output;
    }
    return is_state;
}

static uint32_t max_batch_size(const struct cell_model *model, const struct srv_texts *texts)
{
    if (model->unfold == CELL_UNFOLD_TREE || model->unfold == CELL_UNFOLD_GRAPH ||
        model->unfold == CELL_UNFOLD_PLUGIN || texts != NULL) {
        return 0; // nodes of each kind are axes of their own; a text has no axis beside the batch
    }
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        if (model->inputs[i].batch_axis != 0 && !is_state(model, i, CELL_TENSORS_MAX)) {
            return 0;
        }
    }
    for (uint32_t i = 0; i < model->n_outputs; i++) {
        if (model->outputs[i].batch_axis != 0 && !is_state(model, CELL_TENSORS_MAX, i)) {
            return 0;
        }
    }
    return BATCH_MAX;
}

void srv_signature_make(const struct cell_model *model, const struct srv_texts *texts,
                        struct srv_signature *out)
{
    const bool is_text_tree =
        texts != NULL && model->unfold == CELL_UNFOLD_TREE && texts->inputs[0] != NULL;
    *out = (struct srv_signature){.max_batch_size = max_batch_size(model, texts),
                                  .has_sessions = model->n_states > 0};
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        const bool is_told = is_text_tree && i == model->tree.children_input;
        if (!is_told && !is_state(model, i, CELL_TENSORS_MAX)) {
            const bool is_text = texts != NULL && texts->inputs[i] != NULL;
            struct srv_signature_tensor *made = &out->inputs[out->n_inputs++];
            *made = tensor_of(&model->inputs[i], is_text);
            if (!is_text) {
                set_range(&model->inputs[i], made);
            }
        }
    }
    for (uint32_t i = 0; i < model->n_outputs; i++) {
        const bool is_text = texts != NULL && texts->outputs[i] != NULL;
        if (!is_state(model, CELL_TENSORS_MAX, i)) {
            out->outputs[out->n_outputs++] = tensor_of(&model->outputs[i], is_text);
        }
    }
}
