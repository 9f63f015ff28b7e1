/* A request's path and method, read. Pure; any thread. */
#ifndef SERVER_HTTP_ROUTE_H
#define SERVER_HTTP_ROUTE_H

#include "base/status.h"
#include "cells/model.h"

#include <stdbool.h>

enum srv_http_page {
    SRV_HTTP_SERVER,          /* GET  /v2 */
    SRV_HTTP_LIVE,            /* GET  /v2/health/live */
    SRV_HTTP_READY,           /* GET  /v2/health/ready */
    SRV_HTTP_STATS,           /* GET  /v2/models/stats and /v2/models/M[/versions/V]/stats */
    SRV_HTTP_MODEL,           /* GET  /v2/models/M[/versions/V] */
    SRV_HTTP_MODEL_READY,     /* GET  /v2/models/M[/versions/V]/ready */
    SRV_HTTP_CONFIG,          /* GET  /v2/models/M[/versions/V]/config */
    SRV_HTTP_INFER,           /* POST /v2/models/M[/versions/V]/infer */
    SRV_HTTP_GENERATE,        /* POST /v2/models/M[/versions/V]/generate */
    SRV_HTTP_GENERATE_STREAM, /* POST /v2/models/M[/versions/V]/generate_stream */
    SRV_HTTP_INDEX,           /* POST /v2/repository/index */
    SRV_HTTP_LOAD,            /* POST /v2/repository/models/M/load */
    SRV_HTTP_UNLOAD,          /* POST /v2/repository/models/M/unload */
    SRV_HTTP_METRICS,         /* GET  /metrics, of the metrics port only */
};

struct srv_http_route {
    enum srv_http_page page;
    char model[CELL_NAME_BYTES]; /* "" = none */
    char version[24];            /* "" = the newest */
};

/* Whether it loads or unloads a model. */
static inline bool srv_http_is_order(enum srv_http_page page)
{
    return page == SRV_HTTP_LOAD || page == SRV_HTTP_UNLOAD;
}

/* Whether it asks a model something. */
static inline bool srv_http_is_inference(enum srv_http_page page)
{
    return page == SRV_HTTP_INFER || page == SRV_HTTP_GENERATE || page == SRV_HTTP_GENERATE_STREAM;
}

/* Whether it takes POST, and so a body. */
static inline bool srv_http_takes_body(enum srv_http_page page)
{
    return srv_http_is_inference(page) || page == SRV_HTTP_INDEX || srv_http_is_order(page);
}

/* Reads path as it came, percent signs and all, without the query. A slash at the end is allowed.
 * Returns 200, or the HTTP code of what is wrong, said in error: 400 (a name or version that cannot
 * be one), 404, 405 (*allow is then the header's value), 501 (a path of an extension that is not
 * served). HEAD counts as GET. */
int srv_http_route_read(const char *method, const char *path, bool is_metrics,
                        struct srv_http_route *out, const char **allow, struct base_error *error);

#endif
