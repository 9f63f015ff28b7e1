/* Between the bytes of the messages that infer and a struct srv_request. Pure: no gRPC in here. */
#ifndef SERVER_GRPC_CODEC_H
#define SERVER_GRPC_CODEC_H

#include "server/core.h"
#include "server/grpc/wire.h"
#include "server/request.h"

/* Longest id of a request, which every log line and error message about it repeats. */
#define SRV_GRPC_ID_BYTES_MAX 256u

/* Decodes a ModelInferRequest. Tensors that came in raw_input_contents, and fp32_contents packed in
 * one piece, stay where they are: `message` must outlive the request. All else goes into the
 * request's arena, which must be empty or hold nothing that matters.
 *
 * Sets model_name, model_version, id, inputs, wanted and what its parameters say; nothing else. The
 * first three are texts in any case, on an error those that had been read by then. What the model
 * has to say (unknown names, shapes, missing tensors) is core's to check.
 *
 * INVALID_ARGUMENT: malformed, a limit passed, data that does not fit its shape, or a parameter
 * that cannot be honoured. RESOURCE_EXHAUSTED: the arena's budget is spent. The message names the
 * request's id when it has one. */
enum base_status srv_grpc_decode_infer(struct srv_grpc_bytes message, struct srv_request *request,
                                       struct base_error *error)
    __attribute__((warn_unused_result));

/* The ModelInferResponse of a request answered with OK: its exact size, and its bytes. Tensors go
 * into raw_output_contents, one copy from the arena to the message. srv_grpc_encode_infer() fills
 * exactly that many bytes. */
size_t srv_grpc_infer_bytes(const struct srv_request *request);
void srv_grpc_encode_infer(const struct srv_request *request, uint8_t *out, size_t bytes);

/* Likewise the ModelStreamInferResponse of a request that has been answered, with OK or an error,
 * or of a part of its answer. An error's message stands beside a ModelInferResponse without
 * outputs, which says whose it is: id, model_name and model_version as they came. Whether no other
 * answer follows says the parameter `triton_final_response`. */
size_t srv_grpc_stream_bytes(const struct srv_request *request);
void srv_grpc_encode_stream(const struct srv_request *request, bool is_final, uint8_t *out,
                            size_t bytes);

/* Decodes a RepositoryModelLoadRequest or RepositoryModelUnloadRequest into the model's name, which
 * Triton's clients have in field 2 and KServe's in field 1. INVALID_ARGUMENT: malformed, no name or
 * one that is too long, or a parameter that cannot be honoured. UNIMPLEMENTED: a repository's name.
 */
enum base_status srv_grpc_decode_order(struct srv_grpc_bytes message, enum srv_control_kind kind,
                                       char name[CELL_NAME_BYTES], struct base_error *error)
    __attribute__((warn_unused_result));

/* The messages of the small methods: {string 1, string 2 or bool 2}. */
struct srv_grpc_query {
    char first[CELL_NAME_BYTES];
    char second[CELL_NAME_BYTES];
    bool flag; /* field 2 as a bool */
};

/* INVALID_ARGUMENT: malformed, not UTF-8, or longer than any name here can be. */
enum base_status srv_grpc_decode_query(struct srv_grpc_bytes message, struct srv_grpc_query *query,
                                       struct base_error *error)
    __attribute__((warn_unused_result));

#endif
