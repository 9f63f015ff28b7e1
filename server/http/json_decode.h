/* What the readers of bodies share; private to json.c and json_generate.c. Loop thread. */
#ifndef SERVER_HTTP_JSON_DECODE_H
#define SERVER_HTTP_JSON_DECODE_H

#include "server/http/json.h"
#include "server/http/json_cut.h"

#include <jansson.h>

struct srv_http__decoder {
    struct srv_http_codec *codec;
    const struct srv_http_body *body;
    size_t binary_at; /* first byte of the next binary tensor */
    struct srv_http_cut cut;
    struct srv_request *request;
    struct srv_http_form *form;
    struct base_error *error;
};

#define SRV_HTTP__FAIL(decoder, ...) base_fail((decoder)->error, BASE_INVALID_ARGUMENT, __VA_ARGS__)

enum base_status srv_http__out_of_memory(struct srv_http__decoder *decoder);

/* Parses what stands in a span, the envelope or data; *out lives in the scratch arena. Positions in
 * messages are those of the whole text. */
enum base_status srv_http__parse(struct srv_http__decoder *decoder,
                                 const struct srv_http_span *span, const char *text, json_t **out);
/* Cuts and parses the body: *root is its envelope. */
enum base_status srv_http__read(struct srv_http__decoder *decoder, json_t **root);

/* Members of every such body: it is an object, `id`, and that `parameters` is one, where there are
 * some. */
enum base_status srv_http__take_root(struct srv_http__decoder *decoder, const json_t *root);
/* Those of the request in `parameters`, which may be NULL. */
enum base_status srv_http__take_parameters(struct srv_http__decoder *decoder,
                                           const json_t *parameters);

/* An array of texts becomes what it is on the wire of gRPC: each behind its length in 4 bytes. */
enum base_status srv_http__copy_texts(struct srv_http__decoder *decoder, const json_t *array,
                                      struct srv_tensor *tensor);

/* What a body may set is as without it. */
void srv_http__clear(struct srv_request *request);
/* The end of a decode: why, with the request's id, goes to error. */
enum base_status srv_http__end(struct srv_request *request, enum base_status status,
                               struct base_error *why, struct base_error *error);

#endif
