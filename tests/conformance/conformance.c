/* conformance: asks a served model of each conformance case (cases.h) for its answer.
 *
 *   conformance write DATA REPOSITORY   the cases' models
 *   conformance ask DATA PORT           over gRPC; ends with `N passed, N failed`
 *
 * DATA is the folder that holds the suites of others, or empty. tests/conformance/run.sh runs both.
 */
#include "tests/conformance/cases.h"
#include "tests/grpc_client.h"
#include "tests/util.h"

#include "cells/bf16.h"
#include "cells/f16.h"
#include "proto/inference.pb-c.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INFER            "/inference.GRPCInferenceService/ModelInfer"
#define INVALID_ARGUMENT 3 /* grpc_status_code */

typedef Inference__ModelInferRequest__InferInputTensor input_message;
typedef Inference__ModelInferResponse__InferOutputTensor output_message;

static struct conformance_cases cases;

/* ---- Models ------------------------------------------------------------------------------- */

static void make_folder(const char *path)
{
    if (mkdir(path, 0755) != 0 && errno != EEXIST) {
        cases_fail(path, strerror(errno));
    }
}

static void write_file(const char *path, const uint8_t *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    bool is_written = file != NULL && fwrite(bytes, 1, length, file) == length;
    if (file == NULL || fclose(file) != 0 || !is_written) {
        cases_fail(path, "cannot be written");
    }
}

static void write_model(const char *repository, const struct conformance_case *of)
{
    char path[2 * UTIL_PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%s/%s", repository, of->model_name);
    make_folder(path);
    (void)snprintf(path, sizeof(path), "%s/%s/1", repository, of->model_name);
    make_folder(path);
    (void)snprintf(path, sizeof(path), "%s/%s/1/model.onnx", repository, of->model_name);
    write_file(path, of->model, of->model_bytes);
    if (of->data != NULL) {
        (void)snprintf(path, sizeof(path), "%s/%s/1/model.onnx.data", repository, of->model_name);
        write_file(path, of->data, of->data_bytes);
    }
}

/* ---- Requests ----------------------------------------------------------------------------- */

/* protobuf-c's fields are not const; packing only reads. */
static char *text_of(const char *text)
{
    union {
        const char *in;
        char *out;
    } both = {.in = text};
    return both.out;
}

static ProtobufCBinaryData data_of(const struct case_tensor *tensor)
{
    union {
        const void *in;
        uint8_t *out;
    } both = {.in = tensor->data};
    return (ProtobufCBinaryData){tensor->bytes, both.out};
}

static void ask(struct grpc_client *client, const struct conformance_case *of,
                struct grpc_client_reply *reply)
{
    Inference__ModelInferRequest request;
    input_message inputs[CASES_TENSORS_MAX];
    input_message *pointers[CASES_TENSORS_MAX];
    ProtobufCBinaryData raw[CASES_TENSORS_MAX];
    int64_t shapes[CASES_TENSORS_MAX][CASES_RANK_MAX];
    inference__model_infer_request__init(&request);
    request.model_name = text_of(of->model_name);
    for (uint32_t i = 0; i < of->n_inputs; i++) {
        const struct case_tensor *tensor = &of->inputs[i];
        inference__model_infer_request__infer_input_tensor__init(&inputs[i]);
        memcpy(shapes[i], tensor->dims, sizeof(shapes[i]));
        inputs[i].name = text_of(tensor->name);
        inputs[i].datatype = text_of(tensor->datatype);
        inputs[i].n_shape = tensor->rank;
        inputs[i].shape = shapes[i];
        raw[i] = data_of(tensor);
        pointers[i] = &inputs[i];
    }
    request.n_inputs = request.n_raw_input_contents = of->n_inputs;
    request.inputs = pointers;
    request.raw_input_contents = raw;
    size_t length = inference__model_infer_request__get_packed_size(&request);
    uint8_t *bytes = malloc(length + 1);
    if (bytes == NULL) {
        cases_fail(of->name, "out of memory");
    }
    inference__model_infer_request__pack(&request, bytes);
    (void)grpc_client_unary(client, INFER, bytes, length, reply);
    free(bytes);
}

/* ---- Answers ------------------------------------------------------------------------------ */

static bool is_half(const struct case_tensor *tensor)
{
    return strcmp(tensor->datatype, "FP16") == 0 || strcmp(tensor->datatype, "BF16") == 0;
}

static bool is_double(const struct case_tensor *tensor)
{
    return strcmp(tensor->datatype, "FP64") == 0;
}

static double element_at(const struct case_tensor *tensor, const void *data, size_t i)
{
    float real = 0.0f;
    double wide = 0.0;
    uint16_t half = 0;
    if (is_double(tensor)) {
        memcpy(&wide, (const char *)data + i * sizeof(wide), sizeof(wide));
        return wide;
    }
    if (is_half(tensor)) {
        memcpy(&half, (const char *)data + i * sizeof(half), sizeof(half));
        real = tensor->datatype[0] == 'F' ? cell_f16_widen(half) : cell_bf16_widen(half);
    } else {
        memcpy(&real, (const char *)data + i * sizeof(real), sizeof(real));
    }
    return (double)real;
}

/* Numbers that differ a little may be rounded to neighbours. */
static double half_step(const struct case_tensor *tensor)
{
    return !is_half(tensor) ? 0.0 : tensor->datatype[0] == 'F' ? 0x1p-10 : 0x1p-7;
}

static bool is_equal(const struct conformance_case *of, const struct case_tensor *wanted,
                     const output_message *got, const ProtobufCBinaryData *raw)
{
    bool fits = got->n_shape == wanted->rank && raw->len == wanted->bytes &&
                strcmp(got->datatype, wanted->datatype) == 0;
    for (uint32_t k = 0; fits && k < wanted->rank; k++) {
        fits = got->shape[k] == wanted->dims[k];
    }
    if (!fits) {
        printf("FAILED: %s: %s: another type or shape\n", of->name, wanted->name);
        return false;
    }
    if (strcmp(wanted->datatype, "FP32") != 0 && !is_half(wanted) &&
        !is_double(wanted)) { // integers are right or wrong
        fits = memcmp(wanted->data, raw->data, wanted->bytes) == 0;
        if (!fits) {
            printf("FAILED: %s: %s: another integer\n", of->name, wanted->name);
        }
        return fits;
    }
    for (size_t i = 0; i < wanted->count; i++) {
        const double want = element_at(wanted, wanted->data, i);
        const double is = element_at(wanted, raw->data, i);
        const double relative = of->relative + half_step(wanted);
        bool may_be_zero = of->has_lengths && is == 0.0;
        if (!may_be_zero && !util_is_close(is, want, of->absolute, relative)) {
            printf("FAILED: %s: %s[%zu] is %.9g, wanted %.9g\n", of->name, wanted->name, i, is,
                   want);
            return false;
        }
    }
    return true;
}

static bool has_output(const struct conformance_case *of, const struct case_tensor *wanted,
                       const Inference__ModelInferResponse *response)
{
    for (size_t o = 0; o < response->n_outputs && o < response->n_raw_output_contents; o++) {
        if (strcmp(response->outputs[o]->name, wanted->name) == 0) {
            return is_equal(of, wanted, response->outputs[o], &response->raw_output_contents[o]);
        }
    }
    printf("FAILED: %s: no output %s\n", of->name, wanted->name);
    return false;
}

static bool is_right(const struct conformance_case *of, const struct grpc_client_reply *reply)
{
    if (of->is_refused) {
        bool is_refused = reply->status == INVALID_ARGUMENT && reply->message[0] != '\0';
        if (!is_refused) {
            printf("FAILED: %s: status %d, wanted a refusal\n", of->name, reply->status);
        }
        return is_refused;
    }
    if (reply->status != 0) {
        printf("FAILED: %s: status %d: %s\n", of->name, reply->status, reply->message);
        return false;
    }
    Inference__ModelInferResponse *response =
        inference__model_infer_response__unpack(NULL, reply->length, reply->bytes);
    bool right = response != NULL && of->n_outputs > 0;
    for (uint32_t o = 0; right && o < of->n_outputs; o++) {
        right = has_output(of, &of->outputs[o], response);
    }
    if (response != NULL) {
        inference__model_infer_response__free_unpacked(response, NULL);
    }
    return right;
}

static int ask_all(uint16_t port)
{
    struct grpc_client *client = grpc_client_create(port);
    uint32_t passed = 0;
    for (uint32_t i = 0; i < cases.n; i++) {
        struct grpc_client_reply reply;
        ask(client, &cases.at[i], &reply);
        passed += is_right(&cases.at[i], &reply) ? 1 : 0;
        grpc_client_reply_release(&reply);
    }
    grpc_client_free(client);
    printf("%u passed, %u failed\n", passed, cases.n - passed);
    return passed == cases.n ? 0 : 1;
}

int main(int argc, char **argv)
{
    bool writes = argc == 4 && strcmp(argv[1], "write") == 0;
    bool asks = argc == 4 && strcmp(argv[1], "ask") == 0;
    if (!writes && !asks) {
        (void)fprintf(stderr, "usage: conformance write DATA REPOSITORY | ask DATA PORT\n");
        return 2;
    }
    cases_read(&cases, argv[2]);
    int status = asks ? ask_all((uint16_t)strtoul(argv[3], NULL, 10)) : 0;
    for (uint32_t i = 0; writes && i < cases.n; i++) {
        if (cases.at[i].model != NULL) {
            write_model(argv[3], &cases.at[i]);
        }
    }
    cases_release(&cases);
    return status;
}
