/* Parts of the request decoder, private to this folder. */
#ifndef SERVER_GRPC_DECODE_H
#define SERVER_GRPC_DECODE_H

#include "server/grpc/codec.h"

/* ---- Parameters: entries of map<string, InferParameter> ---- */

enum srv_grpc__parameter_kind {
    SRV_GRPC__NONE,
    SRV_GRPC__BOOL,
    SRV_GRPC__INT,
    SRV_GRPC__UINT,
    SRV_GRPC__DOUBLE,
    SRV_GRPC__TEXT,
};

struct srv_grpc__parameter {
    enum srv_grpc__parameter_kind kind;
    uint64_t number; /* BOOL, INT (two's complement), UINT */
    struct srv_grpc_bytes text;
};

/* The request's parameters that mean something here; of equal keys the last counts. */
struct srv_grpc__parameters {
    struct srv_grpc__parameter timeout, priority, max_steps, beam, stream;
    struct srv_grpc__parameter sequence_id, sequence_start, sequence_end, sequence_step;
};

/* Reads one map entry; false when it is malformed. */
bool srv_grpc__parameter_read(struct srv_grpc_bytes entry, struct srv_grpc_bytes *key,
                              struct srv_grpc__parameter *value);

/* Keeps a parameter of the request when it is a known one; false when malformed. */
bool srv_grpc__parameters_add(struct srv_grpc__parameters *parameters, struct srv_grpc_bytes entry);

/* Checks them all and sets request->timeout_ns, steps_max, beam, in_parts and sequence. */
enum base_status srv_grpc__parameters_apply(const struct srv_grpc__parameters *parameters,
                                            struct srv_request *request, struct base_error *error);

/* Refuses a tensor's parameter that asks for what is not there (shared memory, classification).
 * what: "input" or "output", for the message. */
enum base_status srv_grpc__tensor_parameter_check(struct srv_grpc_bytes entry, const char *what,
                                                  struct base_error *error);

/* ---- Input tensors ---- */

/* The data types we know, with the list of InferTensorContents that carries them. */
struct srv_grpc__type {
    const char *name;
    uint32_t element_bytes; /* 0: BYTES, each with its length in 4 bytes before it */
    uint32_t list;          /* field number in InferTensorContents */
};

#define SRV_GRPC__LISTS      9u /* field numbers 1..8 */
#define SRV_GRPC__BYTES_LIST 8u
#define SRV_GRPC__NO_LIST    0u /* halves come raw alone */

/* A copy of text in the arena with a NUL. what names the field in the message. */
enum base_status srv_grpc__text(struct base_arena *arena, struct srv_grpc_bytes text,
                                size_t bytes_max, const char *what, const char **out,
                                struct base_error *error);

/* Decodes an InferInputTensor. raw: its entry of raw_input_contents, NULL when the request has
 * none. index: its place, named while the name is not known. */
enum base_status srv_grpc__input_decode(struct srv_grpc_bytes message,
                                        const struct srv_grpc_bytes *raw, uint32_t index,
                                        struct base_arena *arena, struct srv_tensor *tensor,
                                        struct base_error *error);

/* Takes a tensor's data from InferTensorContents: exactly `elements` of the type's list, nothing in
 * the others. tensor->name and shape are set already. */
enum base_status srv_grpc__contents_decode(struct srv_grpc_bytes contents,
                                           const struct srv_grpc__type *type, size_t elements,
                                           struct base_arena *arena, struct srv_tensor *tensor,
                                           struct base_error *error);

#define SRV_GRPC__SHAPE_BYTES 192u /* CELL_RANK_MAX numbers of 20 digits */

/* "[2,-1,3]" */
void srv_grpc__shape_text(const struct srv_tensor *tensor, char out[SRV_GRPC__SHAPE_BYTES]);

#endif
