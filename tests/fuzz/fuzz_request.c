/* ModelInferRequest messages: decoded, served by each of the small models, and answered. Then the
 * same bytes as a RepositoryModelLoadRequest, or -UnloadRequest, whose first fields are alike.
 *
 * Beside not crashing: protobuf-c, where it takes the message, reads the same, and from the answer
 * the same outputs. */
#include "base/assert.h"
#include "base/mem.h"
#include "proto/inference.pb-c.h"
#include "server/grpc/codec.h"
#include "tests/fuzz/serve.h"

#include <string.h>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_decoded(const uint8_t *data, size_t size, const struct srv_request *request)
{
    Inference__ModelInferRequest *message =
        inference__model_infer_request__unpack(NULL, size, data);
    if (message == NULL) {
        return; // it refuses a known field of a wrong wire type, which is to be passed over
    }
    base_assert(message->n_inputs == request->n_inputs);
    base_assert(strcmp(message->model_name, request->model_name) == 0);
    base_assert(strcmp(message->id, request->id) == 0);
    for (uint32_t i = 0; i < request->n_inputs; i++) {
        const struct srv_tensor *input = &request->inputs[i];
        base_assert(strcmp(message->inputs[i]->name, input->name) == 0);
        base_assert(message->inputs[i]->n_shape == input->rank);
        base_assert(input->rank == 0 || memcmp(message->inputs[i]->shape, input->shape,
                                               input->rank * sizeof(input->shape[0])) == 0);
    }
    inference__model_infer_request__free_unpacked(message, NULL);
}

static void check_answer(const struct srv_request *request)
{
    size_t bytes = srv_grpc_infer_bytes(request);
    uint8_t *out = base_alloc(bytes);
    base_assert(out != NULL);
    srv_grpc_encode_infer(request, out, bytes);
    Inference__ModelInferResponse *answer =
        inference__model_infer_response__unpack(NULL, bytes, out);
    base_assert(answer != NULL && answer->n_raw_output_contents == request->n_outputs);
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        base_assert(answer->raw_output_contents[i].len == request->outputs[i].bytes);
        // Without rows, as of a cell that no node is of, protobuf-c has no data.
        base_assert(request->outputs[i].bytes == 0 ||
                    memcmp(answer->raw_output_contents[i].data, request->outputs[i].data,
                           request->outputs[i].bytes) == 0);
    }
    inference__model_infer_response__free_unpacked(answer, NULL);
    base_free(out);
}

static void check_order(const uint8_t *data, size_t size, enum srv_control_kind kind)
{
    char name[CELL_NAME_BYTES];
    struct base_error error = {.status = BASE_OK};
    if (srv_grpc_decode_order((struct srv_grpc_bytes){data, size}, kind, name, &error) != BASE_OK) {
        base_assert(error.status != BASE_OK && error.message[0] != '\0');
        return;
    }
    base_assert(name[0] != '\0');
    Inference__RepositoryModelUnloadRequest *message =
        inference__repository_model_unload_request__unpack(NULL, size, data);
    if (message != NULL) { // as above
        base_assert(strcmp(name, message->model_name[0] != '\0' ? message->model_name
                                                                : message->repository_name) == 0);
        inference__repository_model_unload_request__free_unpacked(message, NULL);
    }
}

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct srv_request request = {.id = ""};
    struct base_error error = {.status = BASE_OK};
    base_arena_init(&request.arena, 4096, 1u << 20);
    if (srv_grpc_decode_infer((struct srv_grpc_bytes){data, size}, &request, &error) != BASE_OK) {
        base_assert(error.status != BASE_OK && error.message[0] != '\0');
    } else {
        check_decoded(data, size, &request);
        for (uint32_t m = 0; m < SERVE_MODELS; m++) {
            if (serve(&request, m, &error) == BASE_OK) {
                check_answer(&request);
            }
        }
    }
    base_arena_release(&request.arena);
    check_order(data, size, SRV_CONTROL_LOAD);
    check_order(data, size, SRV_CONTROL_UNLOAD);
    return 0;
}
