/* An infer request's JSON text with the `data` arrays of its inputs cut out, so that a JSON library
 * sees only the small envelope around them. Pure; any thread. */
#ifndef SERVER_HTTP_JSON_CUT_H
#define SERVER_HTTP_JSON_CUT_H

#include "base/arena.h"
#include "base/status.h"
#include <stddef.h>
#include <stdint.h>

/* Brackets open at once, in the whole text. */
#define SRV_HTTP_DEPTH_MAX 32u

/* Inputs with data: the number of one is no longer than the shortest data, []. */
#define SRV_HTTP_SPANS_MAX 100u

/* A piece of the text. */
struct srv_http_span {
    const char *text;
    size_t length;
};

struct srv_http_cut {
    struct srv_http_span envelope; /* `data` of inputs is the number of its span: "data": 0 */
    uint32_t n_spans;
    struct srv_http_span spans[SRV_HTTP_SPANS_MAX]; /* each from [ to its ] */
};

/* Finds .inputs[i].data in text; one pass, no recursion. The envelope is text itself when there is
 * nothing to cut, else it is built in scratch. Refuses, as INVALID_ARGUMENT, more than
 * SRV_HTTP_DEPTH_MAX open brackets, more than SRV_HTTP_SPANS_MAX arrays, `data` that is not an
 * array and escapes in the keys of inputs, so that no integer of the client's can stand for a span;
 * RESOURCE_EXHAUSTED when scratch has no room. Other mistakes are left for the envelope's reader.
 */
enum base_status srv_http_json_cut(const char *text, size_t length, struct base_arena *scratch,
                                   struct srv_http_cut *out, struct base_error *error)
    __attribute__((warn_unused_result));

/* Where a byte of the envelope stands in the whole text, both counted from 0. */
size_t srv_http_cut_origin(const struct srv_http_cut *cut, const char *text, size_t position);

#endif
