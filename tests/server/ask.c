/* See ask.h. Owner: whoever holds the ask. */
#include "tests/server/ask.h"

#include "base/assert.h"
#include "base/mem.h"
#include "cells/f16.h"
#include "server/about.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

static size_t count_of(const struct srv_tensor *tensor)
{
    size_t count = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        count *= (size_t)tensor->shape[i];
    }
    return count;
}

/* Of other forms than floats halves are drawn alone. */
static size_t bytes_of(const struct cell_tensor *want)
{
    return want->form == CELL_FORM_F16 ? sizeof(uint16_t) : cell_dtype_bytes(want->dtype);
}

static const char *datatype_of(const struct cell_tensor *want)
{
    return want->form == CELL_FORM_F16 ? "FP16" : srv_about_datatype(want->dtype);
}

static void shape(const struct ask *ask, const struct cell_tensor *want, struct srv_tensor *out)
{
    out->name = want->name;
    out->datatype = datatype_of(want);
    out->rank = want->rank;
    for (uint32_t i = 0; i < want->rank; i++) {
        out->shape[i] = want->batch_axis == (int32_t)i  ? ask->n_rows
                        : want->time_axis == (int32_t)i ? ask->steps[want->sequence]
                                                        : want->dims[i];
    }
}

static int64_t random_integer(const struct ask *ask, const struct cell_tensor *want,
                              struct base_random *random)
{
    if (want->id_bound > 0) {
        return base_random_below(random, (uint32_t)want->id_bound);
    }
    return 1 + base_random_below(random, ask->steps[want->sequence]);
}

static void fill(struct ask *ask, const struct cell_tensor *want, struct srv_tensor *out,
                 struct base_random *random)
{
    shape(ask, want, out);
    size_t count = count_of(out);
    const size_t bytes = bytes_of(want);
    uint8_t *data = base_arena_array(&ask->request.arena, count, bytes);
    base_assert(data != NULL);
    for (size_t i = 0; i < count; i++) {
        if (want->form == CELL_FORM_F16) {
            const uint16_t value = cell_f16_round(base_random_f32(random, -1.0f, 1.0f));
            memcpy(data + i * sizeof(value), &value, sizeof(value));
        } else if (want->dtype == CELL_F32) {
            float value = base_random_f32(random, -1.0f, 1.0f);
            memcpy(data + i * sizeof(value), &value, sizeof(value));
        } else if (want->dtype == CELL_I64) {
            int64_t value = random_integer(ask, want, random);
            memcpy(data + i * sizeof(value), &value, sizeof(value));
        } else {
            int32_t value = (int32_t)random_integer(ask, want, random);
            memcpy(data + i * sizeof(value), &value, sizeof(value));
        }
    }
    out->data = data;
    out->bytes = count * bytes;
}

void ask_init(struct ask *ask, const struct cell_model *cells, uint32_t n_rows, uint32_t steps,
              struct base_random *random, enum ask_extras extras)
{
    uint32_t all[CELL_SEQUENCES_MAX];
    for (uint32_t s = 0; s < CELL_SEQUENCES_MAX; s++) {
        all[s] = steps;
    }
    ask_init_sequences(ask, cells, n_rows, all, random, extras);
}

void ask_init_sequences(struct ask *ask, const struct cell_model *cells, uint32_t n_rows,
                        const uint32_t *steps, struct base_random *random, enum ask_extras extras)
{
    memset(ask, 0, sizeof(*ask));
    struct srv_request *request = &ask->request;
    ask->cells = cells;
    ask->n_rows = n_rows;
    memcpy(ask->steps, steps, sizeof(ask->steps));
    for (uint32_t s = 0; s < cells->n_sequences; s++) {
        const struct cell_sequence *sequence = &cells->sequences[s];
        if (sequence->stride > 0) {
            ask->steps[s] = cell_sequence_steps(sequence, ask->steps[sequence->source]);
        }
    }
    base_arena_init(&request->arena, 4096, (size_t)64 << 20);
    request->protocol = SRV_PROTOCOL_TEST;
    request->model_name = cells->producer;
    request->model_version = "";
    request->id = "";
    request->deadline_ns = UINT64_MAX;
    request->inputs =
        base_arena_array(&request->arena, cells->n_inputs + 1, sizeof(struct srv_tensor));
    base_assert(request->inputs != NULL);
    for (uint32_t i = 0; i < cells->n_inputs; i++) {
        if (!cells->inputs[i].optional || (extras & ASK_OPTIONAL) != 0) {
            fill(ask, &cells->inputs[i], &request->inputs[request->n_inputs++], random);
        }
    }
}

void ask_release(struct ask *ask)
{
    base_arena_release(&ask->request.arena);
}

size_t ask_put_text(uint8_t *to, const char *text, size_t length)
{
    const uint32_t prefix = (uint32_t)length;
    memcpy(to, &prefix, sizeof(prefix)); // little-endian
    memcpy(to + sizeof(prefix), text, length);
    return sizeof(prefix) + length;
}

struct srv_tensor *ask_input(struct ask *ask, const char *name)
{
    for (uint32_t i = 0; i < ask->request.n_inputs; i++) {
        if (strcmp(ask->request.inputs[i].name, name) == 0) {
            return &ask->request.inputs[i];
        }
    }
    return NULL;
}

const struct srv_tensor *ask_output(const struct ask *ask, const char *name)
{
    for (uint32_t i = 0; i < ask->request.n_outputs; i++) {
        if (strcmp(ask->request.outputs[i].name, name) == 0) {
            return &ask->request.outputs[i];
        }
    }
    return NULL;
}

/* ---- Comparing ---- */

static double element(const struct cell_tensor *want, const uint8_t *data, size_t i)
{
    if (want->form == CELL_FORM_F16) {
        uint16_t value = 0;
        memcpy(&value, data + i * sizeof(value), sizeof(value));
        return (double)cell_f16_widen(value);
    }
    if (want->dtype == CELL_F32) {
        float value = 0;
        memcpy(&value, data + i * sizeof(value), sizeof(value));
        return (double)value;
    }
    if (want->dtype == CELL_I64) {
        int64_t value = 0;
        memcpy(&value, data + i * sizeof(value), sizeof(value));
        return (double)value;
    }
    int32_t value = 0;
    memcpy(&value, data + i * sizeof(value), sizeof(value));
    return (double)value;
}

/* The tensor for the interpreter; one that was left out is zeros, or the full lengths. */
static struct replay_tensor replay_input(const struct ask *ask, uint32_t i)
{
    const struct cell_tensor *want = &ask->cells->inputs[i];
    struct srv_tensor shaped = {0};
    shape(ask, want, &shaped);
    struct replay_tensor made = {.rank = shaped.rank, .count = count_of(&shaped)};
    memcpy(made.dims, shaped.shape, sizeof(made.dims));
    made.data = base_alloc_array(made.count, sizeof(*made.data));
    base_assert(made.data != NULL);
    const struct srv_tensor *sent = NULL;
    for (uint32_t k = 0; k < ask->request.n_inputs; k++) {
        if (strcmp(ask->request.inputs[k].name, want->name) == 0) {
            sent = &ask->request.inputs[k];
        }
    }
    for (size_t e = 0; e < made.count; e++) {
        const int64_t all =
            want->is_lengths ? cell_telling(want->told, ask->steps[want->sequence]) : 0;
        made.data[e] = sent == NULL ? (double)all : element(want, sent->data, e);
    }
    return made;
}

/* Difference of one output, if it was asked for. */
static double output_error(const struct ask *ask, const struct cell_tensor *want,
                           const struct replay_tensor *right)
{
    const struct srv_tensor *got = ask_output(ask, want->name);
    double worst = 0;
    if (got == NULL) {
        return 0;
    }
    ck_assert_str_eq(got->datatype, datatype_of(want));
    ck_assert_uint_eq(got->rank, right->rank);
    ck_assert_mem_eq(got->shape, right->dims, right->rank * sizeof(got->shape[0]));
    ck_assert_uint_eq(got->bytes, right->count * bytes_of(want));
    for (size_t e = 0; e < right->count; e++) {
        double value = element(want, got->data, e);
        worst = fmax(worst, isnan(value) ? HUGE_VAL : fabs(value - right->data[e]));
    }
    return worst;
}

double ask_error(const struct ask *ask)
{
    const struct cell_model *cells = ask->cells;
    struct replay_tensor inputs[CELL_TENSORS_MAX] = {{0}};
    struct replay_tensor outputs[CELL_TENSORS_MAX] = {{0}};
    double worst = 0;
    ck_assert_msg(ask->request.error.status == BASE_OK, "%s", ask->request.error.message);
    for (uint32_t i = 0; i < cells->n_inputs; i++) {
        inputs[i] = replay_input(ask, i);
    }
    replay_run(cells, inputs, outputs);
    for (uint32_t o = 0; o < cells->n_outputs; o++) {
        worst = fmax(worst, output_error(ask, &cells->outputs[o], &outputs[o]));
        base_free(outputs[o].data);
    }
    for (uint32_t i = 0; i < cells->n_inputs; i++) {
        base_free(inputs[i].data);
    }
    return worst;
}
