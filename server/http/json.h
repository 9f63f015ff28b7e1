/* The body of an infer request and of its answer: JSON, or JSON followed by binary tensors, as the
 * Open Inference Protocol's REST form and its binary extension have it. docs/http.md describes
 * both for clients. Pure functions over bytes; a codec belongs to one thread (the loop's). */
#ifndef SERVER_HTTP_JSON_H
#define SERVER_HTTP_JSON_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/status.h"
#include "server/core.h"
#include "server/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory that one decode may use beside the request's own; kept between decodes. */
struct srv_http_codec {
    size_t json_bytes_max; /* longer JSON text is refused */
    struct base_arena scratch;
};

/* Takes no memory yet. json_bytes_max > 0. */
void srv_http_codec_init(struct srv_http_codec *codec, size_t json_bytes_max);
void srv_http_codec_release(struct srv_http_codec *codec);

/* What a body asks for beside the request: outputs in binary or in JSON. */
struct srv_http_form {
    /* By index of srv_request's wanted; of those that the body does not name, and where it names
     * none, what it says of all. A session names what it wants itself. */
    bool binary[CELL_TENSORS_MAX];
};

struct srv_http_body {
    const uint8_t *data;
    size_t bytes;
    size_t json_bytes; /* the JSON at the start, tensors' bytes follow; <= bytes, and equal when
                          there was no Inference-Header-Content-Length */
};

/* Reads a body. Sets id, inputs, wanted and what parameters say of request, whose arena is
 * initialised; binary inputs point into the body's data, which has to stay as long as the request.
 * Checks what can be checked without the model.
 *
 * INVALID_ARGUMENT: malformed, a limit passed, data that does not fit its shape or type, or a
 * parameter that cannot be honoured. RESOURCE_EXHAUSTED: text, tree or request too large (HTTP 413,
 * not 429). The message names the request's id when it has one; request->id is never NULL. */
enum base_status srv_http_decode(struct srv_http_codec *codec, const struct srv_http_body *body,
                                 struct srv_request *request, struct srv_http_form *form,
                                 struct base_error *error) __attribute__((warn_unused_result));

/* The same for a body of generate, {"x": [[0.5]], "parameters": {"max_steps": 9}}: inputs by their
 * names, as arrays or what would stand in them, without the axis of the batch where there is one
 * row; `outputs`, an array of names; `id`; and parameters, which may stand beside the inputs where
 * there is no `parameters`. signature: the model's; NULL: it is not there, and core says so. Other
 * members are ignored. */
enum base_status srv_http_decode_generate(struct srv_http_codec *codec,
                                          const struct srv_http_body *body,
                                          const struct srv_signature *signature,
                                          struct srv_request *request, struct base_error *error)
    __attribute__((warn_unused_result));

/* Bytes of a binary output, to be sent behind the JSON in order. */
struct srv_http_part {
    const uint8_t *data;
    size_t bytes;
};

struct srv_http_answer {
    bool binary; /* Inference-Header-Content-Length is wanted: the JSON's length */
    uint32_t n_parts;
    struct srv_http_part parts[CELL_TENSORS_MAX];
};

/* The body of a repository index: empty, or a JSON object with `ready`: only models that are. */
enum base_status srv_http_decode_index(struct srv_http_codec *codec, const uint8_t *body,
                                       size_t bytes, bool *ready_only, struct base_error *error)
    __attribute__((warn_unused_result));

/* The body of a load or an unload: empty, or a JSON object whose `parameters` may stand in such an
 * order (server/orders.h). */
enum base_status srv_http_decode_order(struct srv_http_codec *codec, const uint8_t *body,
                                       size_t bytes, enum srv_control_kind kind,
                                       struct base_error *error)
    __attribute__((warn_unused_result));

/* Appends the JSON of a request that was answered BASE_OK. json->failed when it passes the buffer's
 * limit. The parts point to the request's outputs. */
void srv_http_encode(const struct srv_request *request, const struct srv_http_form *form,
                     struct base_buf *json, struct srv_http_answer *answer);

/* Of generate: {"model_name":"m","model_version":"1","y":[0.5]}, outputs without the axis of the
 * batch where there is one row. */
void srv_http_encode_generate(const struct srv_request *request, struct base_buf *json);

/* {"error":"message"} */
void srv_http_encode_error(struct base_buf *json, const char *message);

#endif
