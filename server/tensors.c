/* See tensors.h. Each tensor of the model is looked up by name among the few that came. Data that
 * is not aligned to its elements (raw tensors stand anywhere in a message) is copied once into the
 * arena. Cost: O(inputs squared) name comparisons, plus one pass over ids that index a table. */
#include "server/tensors.h"

#include "base/assert.h"
#include "base/checked.h"
#include "server/about.h"
#include "server/forms.h"
#include "server/turn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHAPE_TEXT_BYTES 160

/* "[2,-1,8]" */
static void shape_text(char text[SHAPE_TEXT_BYTES], const int64_t *dims, uint32_t rank)
{
    size_t at = 0;
    text[at++] = '[';
    for (uint32_t i = 0; i < rank && at + 24 < SHAPE_TEXT_BYTES; i++) {
        at += (size_t)snprintf(text + at, SHAPE_TEXT_BYTES - at, "%s%" PRId64, i > 0 ? "," : "",
                               dims[i]);
    }
    text[at++] = ']';
    text[at] = '\0';
}

static enum base_status fail_shape(const struct cell_tensor *want, const struct srv_tensor *got,
                                   const char *why, struct base_error *error)
{
    char got_text[SHAPE_TEXT_BYTES];
    char want_text[SHAPE_TEXT_BYTES];
    shape_text(got_text, got->shape, got->rank);
    shape_text(want_text, want->dims, want->rank);
    return base_fail(error, BASE_INVALID_ARGUMENT, "input '%s': shape %s, expected %s%s",
                     want->name, got_text, want_text, why);
}

struct srv_extents srv_extents_none(void)
{
    struct srv_extents none = {.batch = -1};
    for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
        none.steps[s] = -1;
    }
    return none;
}

/* Notes an extent, or checks it against the one another input has set. */
static enum base_status agree(int64_t *extent, const char **extent_of, int64_t got,
                              const char *axis, const struct cell_tensor *want,
                              struct base_error *error)
{
    if (*extent < 0) {
        *extent = got;
        *extent_of = want->name;
        return BASE_OK;
    }
    if (*extent == got) {
        return BASE_OK;
    }
    return base_fail(error, BASE_INVALID_ARGUMENT,
                     "input '%s': %" PRId64 " on its %s axis, but input '%s' has %" PRId64,
                     want->name, got, axis, *extent_of, *extent);
}

/* One dimension against the model's tensor and the extents known so far. */
static enum base_status check_dim(const struct cell_tensor *want, const struct srv_tensor *got,
                                  uint32_t axis, struct srv_extents *extents,
                                  struct base_error *error)
{
    int64_t dim = got->shape[axis];
    if (dim < 0) {
        return fail_shape(want, got, ": a dimension is negative", error);
    }
    // A model exported with a fixed batch or length keeps it.
    if (want->dims[axis] != CELL_DIM_ANY && dim != want->dims[axis]) {
        return fail_shape(want, got, "", error);
    }
    if (want->batch_axis == (int32_t)axis) {
        return agree(&extents->batch, &extents->batch_of, dim, "batch", want, error);
    }
    if (want->time_axis == (int32_t)axis) {
        const uint32_t s = want->sequence;
        return agree(&extents->steps[s], &extents->steps_of[s], dim, "time", want, error);
    }
    return BASE_OK;
}

static enum base_status check_shape(const struct cell_tensor *want, const struct srv_tensor *got,
                                    struct srv_extents *extents, struct base_error *error)
{
    base_assert(got->rank <= CELL_RANK_MAX);
    if (got->rank != want->rank) {
        return fail_shape(want, got, "", error);
    }
    for (uint32_t i = 0; i < got->rank; i++) {
        BASE_TRY(check_dim(want, got, i, extents, error));
    }
    return BASE_OK;
}

static enum base_status check_bytes(const struct cell_tensor *want, const struct srv_tensor *got,
                                    struct base_error *error)
{
    size_t expected = srv_about_datatype_of(want)->bytes;
    for (uint32_t i = 0; i < got->rank; i++) {
        if (!base_size_mul(expected, (size_t)got->shape[i], &expected)) {
            return fail_shape(want, got, ": too large", error);
        }
    }
    if (got->bytes != expected) {
        char text[SHAPE_TEXT_BYTES];
        shape_text(text, got->shape, got->rank);
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "input '%s': %zu bytes, expected %zu for %s of shape %s", want->name,
                         got->bytes, expected, got->datatype, text);
    }
    return BASE_OK;
}

int64_t srv_tensor_integer(const struct cell_tensor *tensor, const uint8_t *data, size_t i)
{
    return cell_integer_at(tensor->dtype, data + i * cell_dtype_bytes(tensor->dtype));
}

const char *srv_ids_from(const struct cell_tensor *tensor)
{
    return tensor->ids_below_zero ? "at most " : "0..";
}

/* Of floats, which the model casts to integers. */
static enum base_status check_float_ids(const struct cell_tensor *want,
                                        const struct srv_tensor *got, struct base_error *error)
{
    for (size_t i = 0; i < got->bytes / sizeof(float); i++) {
        float id = 0.0f;
        memcpy(&id, got->data + i * sizeof(id), sizeof(id));
        const int64_t bound = cell_tensor_id_bound(want, i);
        const bool is_low = id < 0.0f && !want->ids_below_zero;
        if (bound > 0 && (is_low || !(id < (float)bound))) { // a NaN neither
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "input '%s': id %g at position %zu, expected %s%" PRId64, want->name,
                             (double)id, i, srv_ids_from(want), bound - 1);
        }
    }
    return BASE_OK;
}

static enum base_status check_ids(const struct cell_tensor *want, const struct srv_tensor *got,
                                  struct base_error *error)
{
    size_t count = got->bytes / cell_dtype_bytes(want->dtype);
    if (want->dtype == CELL_F32) {
        return check_float_ids(want, got, error);
    }
    for (size_t i = 0; i < count; i++) {
        int64_t id = srv_tensor_integer(want, got->data, i);
        const int64_t bound = cell_tensor_id_bound(want, i);
        if (bound > 0 && ((id < 0 && !want->ids_below_zero) || id >= bound)) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "input '%s': id %" PRId64 " at position %zu, expected %s%" PRId64,
                             want->name, id, i, srv_ids_from(want), bound - 1);
        }
    }
    return BASE_OK;
}

/* The request's tensor of that name, or NULL; INVALID_ARGUMENT when there are two. */
static enum base_status find_input(const struct srv_request *request, const char *name,
                                   const struct srv_tensor **out, struct base_error *error)
{
    *out = NULL;
    for (uint32_t i = 0; i < request->n_inputs; i++) {
        if (strcmp(request->inputs[i].name, name) != 0) {
            continue;
        }
        if (*out != NULL) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "input '%s' came twice", name);
        }
        *out = &request->inputs[i];
    }
    return BASE_OK;
}

enum base_status srv_tensors_known(const struct srv_request *request,
                                   const struct cell_model *model, struct base_error *error)
{
    for (uint32_t i = 0; i < request->n_inputs; i++) {
        bool known = false;
        for (uint32_t k = 0; k < model->n_inputs && !known; k++) {
            known = strcmp(request->inputs[i].name, model->inputs[k].name) == 0;
        }
        if (!known) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "input '%.100s' is not one of the model's %u inputs",
                             request->inputs[i].name, model->n_inputs);
        }
    }
    return BASE_OK;
}

/* Bytes between neighbours on an axis; 0 for an axis that is not there. */
static int64_t axis_bytes(const int64_t *shape, uint32_t rank, int32_t axis, enum cell_dtype dtype)
{
    if (axis < 0) {
        return 0;
    }
    int64_t bytes = cell_dtype_bytes(dtype);
    for (uint32_t i = (uint32_t)axis + 1; i < rank; i++) {
        bytes *= shape[i];
    }
    return bytes;
}

/* Where the rows of a tensor will lie that is turned: [batch][time][width]. */
static struct sched_tensor turned_rows_of(const struct srv_tensor *at,
                                          const struct cell_tensor *tensor)
{
    const int64_t row_bytes = (int64_t)tensor->width * cell_dtype_bytes(tensor->dtype);
    const int64_t steps = tensor->time_axis < 0 ? 1 : at->shape[tensor->time_axis];
    return (struct sched_tensor){.batch_bytes = tensor->batch_axis < 0 ? 0 : steps * row_bytes,
                                 .step_bytes = tensor->time_axis < 0 ? 0 : row_bytes,
                                 .piece_bytes = row_bytes / tensor->pieces};
}

/* Where the rows of a tensor in memory lie. */
static struct sched_tensor rows_of(const struct srv_tensor *at, const struct cell_tensor *tensor)
{
    // Inputs are only ever read through it, outputs are ours to write.
    union {
        const uint8_t *in;
        uint8_t *out;
    } address = {.in = at->data};
    return (struct sched_tensor){
        .data = address.out,
        .batch_bytes = axis_bytes(at->shape, at->rank, tensor->batch_axis, tensor->dtype),
        .step_bytes = axis_bytes(at->shape, at->rank, tensor->time_axis, tensor->dtype),
        .piece_bytes =
            tensor->piece_axis >= 0
                ? axis_bytes(at->shape, at->rank, tensor->piece_axis, tensor->dtype)
                : (int64_t)tensor->width / tensor->pieces * cell_dtype_bytes(tensor->dtype)};
}

static enum base_status turn_input(struct srv_request *request, const struct cell_tensor *want,
                                   const struct srv_tensor *got, struct sched_tensor *out,
                                   struct base_error *error)
{
    *out = turned_rows_of(got, want);
    out->data = base_arena_alloc_aligned64(&request->arena, got->bytes);
    if (out->data == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    srv_turn_to_rows(want, got->shape, got->data, out->data);
    return BASE_OK;
}

/* The rows of an input, at an address aligned to its elements. */
static enum base_status place_input(struct srv_request *request, const struct cell_tensor *want,
                                    const struct srv_tensor *got, struct sched_tensor *out,
                                    struct base_error *error)
{
    if (want->is_turned) {
        return turn_input(request, want, got, out, error);
    }
    *out = rows_of(got, want);
    if (got->bytes > 0 && (uintptr_t)got->data % cell_dtype_bytes(want->dtype) != 0) {
        out->data = base_arena_alloc(&request->arena, got->bytes);
        if (out->data == NULL) {
            return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
        }
        memcpy(out->data, got->data, got->bytes);
    }
    return BASE_OK;
}

/* Floats of what came in another form. */
static enum base_status widen(struct srv_request *request, const struct cell_tensor *want,
                              const struct srv_tensor *got, struct srv_tensor *out,
                              struct base_error *error)
{
    const size_t n = got->bytes / srv_about_datatype_of(want)->bytes;
    float *floats = base_arena_array(&request->arena, n, sizeof(*floats));
    *out = *got;
    if (floats == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    const size_t wrong = srv_forms_widen(want->form, got->data, n, floats);
    if (wrong < n) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "input '%s': the number at position %zu is beyond the largest float",
                         want->name, wrong);
    }
    out->data = (const uint8_t *)floats;
    out->bytes = n * sizeof(*floats);
    return BASE_OK;
}

enum base_status srv_tensor_take(struct srv_request *request, const struct cell_tensor *want,
                                 struct srv_extents *extents, struct sched_tensor *out,
                                 struct base_error *error)
{
    const struct srv_tensor *got = NULL;
    BASE_TRY(find_input(request, want->name, &got, error));
    if (got == NULL) {
        if (want->optional) {
            return BASE_OK;
        }
        return base_fail(error, BASE_INVALID_ARGUMENT, "input '%s' is missing", want->name);
    }
    const char *datatype = srv_about_datatype_of(want)->name;
    if (strcmp(got->datatype, datatype) != 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "input '%s': datatype '%.16s', expected %s",
                         want->name, got->datatype, datatype);
    }
    BASE_TRY(check_shape(want, got, extents, error));
    BASE_TRY(check_bytes(want, got, error));
    struct srv_tensor floats;
    if (want->form != CELL_FORM_OWN) {
        BASE_TRY(widen(request, want, got, &floats, error));
        got = &floats;
    }
    if (cell_tensor_ids_below(want) > 0) {
        BASE_TRY(check_ids(want, got, error));
    }
    return place_input(request, want, got, out, error);
}

/* ---- Outputs ---- */

/* Memory for an answer's tensor of the model's shape at this batch and time extent. */
static enum base_status place_output(struct srv_request *request, const struct cell_tensor *tensor,
                                     const struct srv_extents *extents, struct srv_tensor *answer,
                                     struct base_error *error)
{
    answer->name = tensor->name;
    answer->datatype = srv_about_datatype(tensor->dtype);
    answer->rank = tensor->rank;
    answer->batch_axis = tensor->batch_axis;
    size_t bytes = cell_dtype_bytes(tensor->dtype);
    bool fits = true;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        int64_t dim = extents->dims != NULL              ? extents->dims[i]
                      : tensor->batch_axis == (int32_t)i ? extents->batch
                      : extents->beam > 0 && i == 1      ? extents->beam
                      : tensor->time_axis == (int32_t)i  ? extents->steps[tensor->sequence]
                                                         : tensor->dims[i];
        base_assert(dim >= 0);
        answer->shape[i] = dim;
        fits = fits && base_size_mul(bytes, (size_t)dim, &bytes);
    }
    const size_t more = srv_forms_room(tensor->form) / sizeof(float);
    size_t room = 0;
    fits = fits && base_size_mul(bytes, more, &room);
    uint8_t *data = fits ? base_arena_alloc_aligned64(&request->arena, room) : NULL;
    if (data == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "output '%s' exceeds the request's memory",
                         tensor->name);
    }
    answer->data = data;
    answer->bytes = bytes;
    return BASE_OK;
}

/* Index of the i-th output to answer: as asked for, or the model's own order. */
static enum base_status find_output(const struct srv_request *request,
                                    const struct cell_model *model, uint32_t i, uint32_t *index,
                                    struct base_error *error)
{
    if (request->n_wanted == 0) {
        *index = i;
        return BASE_OK;
    }
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        if (strcmp(model->outputs[o].name, request->wanted[i]) == 0) {
            *index = o;
            return BASE_OK;
        }
    }
    return base_fail(error, BASE_INVALID_ARGUMENT,
                     "output '%.100s' is not one of the model's %u outputs", request->wanted[i],
                     model->n_outputs);
}

static enum base_status check_wanted(const struct srv_request *request,
                                     const struct cell_model *model, struct base_error *error)
{
    return request->n_wanted <= model->n_outputs
               ? BASE_OK
               : base_fail(error, BASE_INVALID_ARGUMENT, "%u outputs asked for, the model has %u",
                           request->n_wanted, model->n_outputs);
}

/* stride: 0 where one pair of extents is that of all outputs, else 1. */
static enum base_status place_outputs(struct srv_request *request, const struct cell_model *model,
                                      const struct srv_extents *extents, uint32_t stride,
                                      struct sched_tensor *outputs, struct base_error *error)
{
    const uint32_t n = request->n_wanted > 0 ? request->n_wanted : model->n_outputs;
    BASE_TRY(check_wanted(request, model, error));
    request->outputs = base_arena_array(&request->arena, n, sizeof(*request->outputs));
    if (request->outputs == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t index = 0;
        BASE_TRY(find_output(request, model, i, &index, error));
        const struct cell_tensor *tensor = &model->outputs[index];
        struct srv_tensor *answer = &request->outputs[i];
        if (outputs[index].data != NULL) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "output '%s' is asked for twice",
                             tensor->name);
        }
        const struct srv_extents *own = &extents[(size_t)index * stride];
        BASE_TRY(place_output(request, tensor, own, answer, error));
        outputs[index] =
            tensor->is_turned ? turned_rows_of(answer, tensor) : rows_of(answer, tensor);
        if (tensor->is_turned) {
            outputs[index].data = base_arena_alloc_aligned64(&request->arena, answer->bytes);
        }
        if (outputs[index].data == NULL) {
            return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
        }
    }
    request->n_outputs = n;
    return BASE_OK;
}

enum base_status srv_tensors_place(struct srv_request *request, const struct cell_model *model,
                                   const struct srv_extents *extents, struct sched_tensor *outputs,
                                   struct base_error *error)
{
    return place_outputs(request, model, extents, 0, outputs, error);
}

enum base_status srv_tensors_place_each(struct srv_request *request, const struct cell_model *model,
                                        const struct srv_extents *extents,
                                        struct sched_tensor *outputs, struct base_error *error)
{
    return place_outputs(request, model, extents, 1, outputs, error);
}

uint32_t srv_tensor_output(const struct cell_model *model, const struct srv_tensor *answer)
{
    uint32_t o = 0;
    while (answer->name != model->outputs[o].name) { // they are the model's own
        o++;
    }
    return o;
}

void srv_tensors_turn_back(struct srv_request *request, const struct cell_model *model,
                           const struct sched_tensor *outputs)
{
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        const struct srv_tensor *answer = &request->outputs[i];
        const uint32_t o = srv_tensor_output(model, answer);
        if (model->outputs[o].is_turned) {
            union {
                const uint8_t *in;
                uint8_t *out; // the request's own memory; see place_output()
            } address = {.in = answer->data};
            srv_turn_from_rows(&model->outputs[o], answer->shape, outputs[o].data, address.out);
        }
    }
}

void srv_tensors_narrow(struct srv_request *request, const struct cell_model *model)
{
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        struct srv_tensor *answer = &request->outputs[i];
        const struct cell_tensor *tensor = &model->outputs[srv_tensor_output(model, answer)];
        if (tensor->form != CELL_FORM_OWN) {
            union {
                const uint8_t *in;
                uint8_t *out; // the request's own memory; see place_output()
            } address = {.in = answer->data};
            const size_t n = answer->bytes / cell_dtype_bytes(tensor->dtype);
            const struct srv_datatype *datatype = srv_about_datatype_of(tensor);
            srv_forms_narrow(tensor->form, address.out, n);
            answer->datatype = datatype->name;
            answer->bytes = n * datatype->bytes;
        }
    }
}
