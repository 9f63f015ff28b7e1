/* The one place where a status becomes a gRPC code or an HTTP code. */
#ifndef SERVER_STATUS_H
#define SERVER_STATUS_H

#include "base/status.h"

int srv_status_grpc(enum base_status status); /* grpc_status_code */
int srv_status_http(
    enum base_status status); /* 200, 400, 401, 403, 404, 409, 429, 499, 500, 501, 503, 504 */

#endif
