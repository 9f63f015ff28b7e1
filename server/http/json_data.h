/* The `data` array of a JSON tensor <-> its elements. Pure; any thread. */
#ifndef SERVER_HTTP_JSON_DATA_H
#define SERVER_HTTP_JSON_DATA_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/status.h"
#include "server/about.h"
#include "server/http/json_cut.h"
#include "server/request.h"

/* Reads span, flat or nested like the shape, into memory of arena and sets tensor->data and
 * ->bytes; name, shape and rank are set already. The number of elements and, when nested, of each
 * dimension has to be the shape's. INVALID_ARGUMENT names the input, the element and what is wrong;
 * RESOURCE_EXHAUSTED when the arena is full. */
enum base_status srv_http_data_read(const struct srv_http_span *span,
                                    const struct srv_datatype *datatype, struct base_arena *arena,
                                    struct srv_tensor *tensor, struct base_error *error)
    __attribute__((warn_unused_result));

/* Appends all elements as one flat array. */
void srv_http_data_write(struct base_buf *out, const struct srv_datatype *datatype,
                         const uint8_t *data, size_t bytes);

#endif
