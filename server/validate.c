/* Checking a request of sequences against its model: the batch and time extents must agree between
 * all of its tensors. */
#include "server/validate.h"

#include "server/tensors.h"
#include "server/text.h"

#include <inttypes.h>

static enum base_status check_extents(const struct srv_extents *extents,
                                      const struct srv_limits *limits, struct base_error *error)
{
    if (extents->batch == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "input '%s': a batch of no rows",
                         extents->batch_of);
    }
    if (extents->steps == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "input '%s': an empty sequence, expected 1..%u steps", extents->steps_of,
                         limits->sequence_length_max);
    }
    if (extents->steps > (int64_t)limits->sequence_length_max) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "input '%s': a sequence of %" PRId64 " steps, expected 1..%u",
                         extents->steps_of, extents->steps, limits->sequence_length_max);
    }
    if (extents->batch > INT32_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "input '%s': a batch of %" PRId64 " rows",
                         extents->batch_of, extents->batch);
    }
    return BASE_OK;
}

/* Each row's number of steps: the time extent, what its text says, or what the lengths input says.
 * Needs the inputs placed and n_rows set. */
static enum base_status take_lengths(struct srv_request *request, struct sched_sequences *sequences,
                                     uint32_t steps, const struct srv_text_rows *rows,
                                     struct base_error *error)
{
    uint32_t *lengths = base_arena_array(&request->arena, sequences->n_rows, sizeof(*lengths));
    if (lengths == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    sequences->steps = lengths;
    for (uint32_t b = 0; b < sequences->n_rows; b++) {
        lengths[b] = rows->steps != NULL ? rows->steps[b] : steps;
    }
    int32_t input = sequences->model->lengths_input;
    if (input < 0 || sequences->inputs[input].data == NULL) {
        return BASE_OK;
    }
    const struct cell_tensor *tensor = &sequences->model->inputs[input];
    const struct sched_tensor *given = &sequences->inputs[input];
    for (uint32_t b = 0; b < sequences->n_rows; b++) {
        int64_t length = srv_tensor_integer(tensor, given->data + b * given->batch_bytes, 0);
        if (length < 0 || length > (int64_t)lengths[b]) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "input '%s': length %" PRId64 " of row %u, expected 0..%u",
                             tensor->name, length, b, lengths[b]);
        }
        lengths[b] = (uint32_t)length;
    }
    return BASE_OK;
}

enum base_status srv_validate(struct srv_request *request, const struct cell_model *model,
                              const struct srv_limits *limits, const struct srv_text_rows *rows,
                              struct sched_sequences *sequences, struct base_error *error)
{
    struct srv_extents extents = {.batch = -1, .steps = -1};
    struct sched_tensor *inputs =
        base_arena_array(&request->arena, model->n_inputs, sizeof(*inputs));
    struct sched_tensor *outputs =
        base_arena_array(&request->arena, model->n_outputs, sizeof(*outputs));
    if (inputs == NULL || outputs == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    BASE_TRY(srv_tensors_known(request, model, error));
    for (uint32_t i = 0; i < model->n_inputs; i++) {
        BASE_TRY(srv_tensor_take(request, &model->inputs[i], &extents, &inputs[i], error));
    }
    BASE_TRY(check_extents(&extents, limits, error));
    // A model without such an axis: one row, one step.
    extents.batch = extents.batch < 0 ? 1 : extents.batch;
    extents.steps = extents.steps < 0 ? 1 : extents.steps;
    sequences->model = model;
    sequences->n_rows = (uint32_t)extents.batch;
    sequences->inputs = inputs;
    sequences->outputs = outputs;
    BASE_TRY(take_lengths(request, sequences, (uint32_t)extents.steps, rows, error));
    if (model->unfold == CELL_UNFOLD_SEQ2SEQ) {
        sequences->decoder_steps =
            request->steps_max < UINT32_MAX ? (uint32_t)request->steps_max : UINT32_MAX;
        extents.steps = sched_decoder_steps(sequences); // of what is answered
        sequences->decoders =
            base_arena_array(&request->arena, sequences->n_rows, sizeof(*sequences->decoders));
        if (sequences->decoders == NULL) {
            return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
        }
    }
    return srv_tensors_place(request, model, &extents, outputs, error);
}
