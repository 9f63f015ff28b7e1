#include "loadgen/ask.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "loadgen/file.h"
#include "loadgen/payload.h"

#include <proto/inference.pb-c.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ASK_TIMEOUT_NS (30 * BASE_NS_PER_S)

/* How far probabilities may be from adding up to 1. */
#define SUM_TOLERANCE 1e-3

/* ---- The answer ------------------------------------------------------------------------------ */

/* Output i as count floats, from the raw bytes or from the typed list; false when it has another
 * type or another number of values. */
static bool take_floats(const Inference__ModelInferResponse *answer, size_t i, size_t count,
                        double *out)
{
    const Inference__ModelInferResponse__InferOutputTensor *output = answer->outputs[i];
    if (strcmp(output->datatype, "FP32") != 0) {
        return false;
    }
    if (answer->n_raw_output_contents > 0) {
        if (i >= answer->n_raw_output_contents ||
            answer->raw_output_contents[i].len != count * sizeof(float)) {
            return false;
        }
        for (size_t k = 0; k < count; k++) {
            float value = 0;
            memcpy(&value, answer->raw_output_contents[i].data + k * sizeof(value), sizeof(value));
            out[k] = (double)value;
        }
        return true;
    }
    if (output->contents == NULL || output->contents->n_fp32_contents != count) {
        return false;
    }
    for (size_t k = 0; k < count; k++) {
        out[k] = (double)output->contents->fp32_contents[k];
    }
    return true;
}

static void make_probabilities(double *values, size_t count)
{
    double sum = 0;
    double max = -HUGE_VAL;
    bool negative = false;
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
        max = values[i] > max ? values[i] : max;
        negative = negative || values[i] < 0;
    }
    if (!negative && fabs(sum - 1) <= SUM_TOLERANCE) {
        return;
    }
    sum = 0;
    for (size_t i = 0; i < count; i++) {
        values[i] = exp(values[i] - max);
        sum += values[i];
    }
    for (size_t i = 0; i < count; i++) {
        values[i] /= sum;
    }
}

enum base_status lg_ask_decode(const uint8_t *reply, size_t length, size_t count, double **out,
                               struct base_error *error)
{
    Inference__ModelInferResponse *answer =
        inference__model_infer_response__unpack(NULL, length, reply);
    double *values = base_alloc_array(count, sizeof(values[0]));
    if (values == NULL) {
        inference__model_infer_response__free_unpacked(answer, NULL);
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for the answer");
    }
    bool found = false;
    for (size_t i = 0; answer != NULL && i < answer->n_outputs && !found; i++) {
        found = take_floats(answer, i, count, values);
    }
    enum base_status status = BASE_OK;
    if (answer == NULL) {
        status = base_fail(error, BASE_INTERNAL, "ModelInfer: the answer cannot be decoded");
    } else if (!found) {
        status = base_fail(error, BASE_FAILED_PRECONDITION,
                           "the answer has no FP32 output of %zu values, one a label", count);
    }
    inference__model_infer_response__free_unpacked(answer, NULL);
    if (status != BASE_OK) {
        base_free(values);
        return status;
    }
    make_probabilities(values, count);
    *out = values;
    return BASE_OK;
}

/* Output i as BYTES: each text a line, raw or typed; false when it has another type. */
static bool take_texts(const Inference__ModelInferResponse *answer, size_t i, struct base_buf *out)
{
    const Inference__ModelInferResponse__InferOutputTensor *output = answer->outputs[i];
    if (strcmp(output->datatype, "BYTES") != 0) {
        return false;
    }
    if (answer->n_raw_output_contents == 0) {
        for (size_t k = 0; output->contents != NULL && k < output->contents->n_bytes_contents;
             k++) {
            const ProtobufCBinaryData *text = &output->contents->bytes_contents[k];
            base_buf_add(out, text->data, text->len);
            base_buf_text(out, "\n");
        }
        return true;
    }
    if (i >= answer->n_raw_output_contents) {
        return false;
    }
    const ProtobufCBinaryData *raw = &answer->raw_output_contents[i];
    uint32_t length = 0;
    for (size_t at = 0; at < raw->len; at += length) {
        if (raw->len - at < sizeof(length)) {
            return false;
        }
        memcpy(&length, raw->data + at, sizeof(length)); // little-endian
        at += sizeof(length);
        if (length > raw->len - at) {
            return false;
        }
        base_buf_add(out, raw->data + at, length);
        base_buf_text(out, "\n");
    }
    return true;
}

bool lg_ask_texts(const uint8_t *reply, size_t length, struct base_buf *out)
{
    Inference__ModelInferResponse *answer =
        inference__model_infer_response__unpack(NULL, length, reply);
    struct base_buf texts;
    bool found = false;
    base_buf_init(&texts, LG_REPLY_MAX);
    for (size_t i = 0; answer != NULL && i < answer->n_outputs && !found; i++) {
        base_buf_clear(&texts);
        found = take_texts(answer, i, &texts) && !texts.failed;
    }
    if (found && texts.length > 0) {
        base_buf_add(out, texts.data, texts.length);
    }
    base_buf_release(&texts);
    inference__model_infer_response__free_unpacked(answer, NULL);
    return found;
}

/* ---- The question ---------------------------------------------------------------------------- */

static enum base_status infer(struct lg_client *client, const struct lg_model *model,
                              const char *text, struct base_buf *reply, struct base_error *error)
{
    struct lg_payload *payload = NULL;
    BASE_TRY(lg_payload_create_text(model, text, strlen(text), &payload, error));
    struct base_buf request;
    base_buf_init(&request, LG_MESSAGE_MAX);
    size_t length = (size_t)lg_payload_bytes(payload, 0);
    uint8_t *bytes = base_buf_grow(&request, length);
    enum base_status status = BASE_OK;
    if (bytes == NULL) {
        status = base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for the text");
    } else {
        lg_payload_read(payload, 0, 0, length, bytes);
        status = lg_client_call(client, "ModelInfer", &request, ASK_TIMEOUT_NS, reply, error);
    }
    base_buf_release(&request);
    lg_payload_free(payload);
    return status;
}

struct named {
    struct lg_line name;
    double probability;
};

static int by_probability(const void *a, const void *b)
{
    double left = ((const struct named *)a)->probability;
    double right = ((const struct named *)b)->probability;
    return (left < right) - (left > right);
}

static void print_all(const struct base_buf *labels, const double *probabilities,
                      struct named *list, struct base_buf *out)
{
    base_assert(list != NULL && probabilities != NULL);
    struct lg_line line = {0};
    size_t count = 0;
    int width = 0;
    while (lg_line_next(labels, &line)) {
        list[count] = (struct named){.name = line, .probability = probabilities[count]};
        width = (int)line.length > width ? (int)line.length : width;
        count++;
    }
    qsort(list, count, sizeof(list[0]), by_probability);
    for (size_t i = 0; i < count; i++) {
        base_buf_printf(out, "%.*s%*s  %.4f\n", (int)list[i].name.length, list[i].name.text,
                        width - (int)list[i].name.length, "", list[i].probability);
    }
}

static enum base_status print_labels(const struct base_buf *reply, const struct base_buf *labels,
                                     struct base_buf *out, struct base_error *error)
{
    struct lg_line line = {0};
    while (lg_line_next(labels, &line)) {
    }
    const size_t count = line.number;
    if (count == 0 || count > LG_LABELS_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "the answer is no text; want 1 to %u labels, have %zu", LG_LABELS_MAX,
                         count);
    }
    double *probabilities = NULL;
    BASE_TRY(
        lg_ask_decode((const uint8_t *)reply->data, reply->length, count, &probabilities, error));
    struct named *list = base_alloc_array(count, sizeof(list[0]));
    enum base_status status = BASE_OK;
    if (list == NULL) {
        status = base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for the labels");
    } else {
        print_all(labels, probabilities, list, out);
    }
    base_free(probabilities);
    base_free(list);
    return status;
}

enum base_status lg_ask(struct lg_client *client, const struct lg_model *model, const char *text,
                        const struct base_buf *labels, struct base_buf *out,
                        struct base_error *error)
{
    struct base_buf reply;
    base_buf_init(&reply, LG_REPLY_MAX);
    enum base_status status = infer(client, model, text, &reply, error);
    if (status == BASE_OK && !lg_ask_texts((const uint8_t *)reply.data, reply.length, out)) {
        status = print_labels(&reply, labels, out, error);
    }
    base_buf_release(&reply);
    return status;
}
