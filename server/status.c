/* Status to wire codes: one table, so that gRPC and HTTP cannot drift apart.
 *
 * The names of our statuses are gRPC's, so its column says nothing new; HTTP's follows what clients
 * of inference servers retry and report (docs/protocol.md). No state, any thread. */
#include "server/status.h"

#include "base/assert.h"

#include <grpc/status.h>

static const struct {
    int grpc, http;
} codes[BASE_STATUS_COUNT] = {
    [BASE_OK] = {GRPC_STATUS_OK, 200},
    [BASE_CANCELLED] = {GRPC_STATUS_CANCELLED, 499},
    [BASE_INVALID_ARGUMENT] = {GRPC_STATUS_INVALID_ARGUMENT, 400},
    [BASE_DEADLINE_EXCEEDED] = {GRPC_STATUS_DEADLINE_EXCEEDED, 504},
    [BASE_NOT_FOUND] = {GRPC_STATUS_NOT_FOUND, 404},
    [BASE_ALREADY_EXISTS] = {GRPC_STATUS_ALREADY_EXISTS, 409},
    [BASE_RESOURCE_EXHAUSTED] = {GRPC_STATUS_RESOURCE_EXHAUSTED, 429},
    [BASE_FAILED_PRECONDITION] = {GRPC_STATUS_FAILED_PRECONDITION, 400},
    [BASE_UNIMPLEMENTED] = {GRPC_STATUS_UNIMPLEMENTED, 501},
    [BASE_INTERNAL] = {GRPC_STATUS_INTERNAL, 500},
    [BASE_UNAVAILABLE] = {GRPC_STATUS_UNAVAILABLE, 503},
    [BASE_UNAUTHENTICATED] = {GRPC_STATUS_UNAUTHENTICATED, 401},
    [BASE_PERMISSION_DENIED] = {GRPC_STATUS_PERMISSION_DENIED, 403},
};

int srv_status_grpc(enum base_status status)
{
    base_assert((unsigned)status < BASE_STATUS_COUNT);
    return codes[status].grpc;
}

int srv_status_http(enum base_status status)
{
    base_assert((unsigned)status < BASE_STATUS_COUNT);
    return codes[status].http;
}
