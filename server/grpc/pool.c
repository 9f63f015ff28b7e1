/* The call objects: a fixed number, made at start, so that memory is bounded and a call allocates
 * nothing of ours.
 *
 * Free objects are a stack, so that few calls at a time use few objects; posted ones wait inside
 * gRPC, oldest first. When there is none to post, an accept is owed (`missing`) and posted with the
 * next object that comes back; calls then wait inside gRPC, at most as many as streams are open. */
#include "server/grpc/call.h"

#include "base/assert.h"
#include "base/mem.h"

/* For methods that we do not have. */
#define UNKNOWN         SRV_GRPC__METHODS
#define UNKNOWN_ACCEPTS 2u

static uint32_t method_index(const struct srv_grpc__call *call)
{
    return call->method == NULL ? UNKNOWN : (uint32_t)(call->method - srv_grpc__methods);
}

static void post(struct srv_grpc *server, uint32_t method)
{
    base_assert(server->free != NULL);
    struct srv_grpc__call *call = server->free;
    base_assert(call->call == NULL);
    server->free = call->next;
    call->next = NULL;
    server->counts.objects_free--;
    server->counts.objects_posted++;
    grpc_call_error error;
    if (method == UNKNOWN) {
        call->method = NULL;
        error =
            grpc_server_request_call(server->server, &call->call, &call->details, &call->metadata,
                                     server->ended, server->arrivals, &call->arrived);
    } else {
        call->method = &srv_grpc__methods[method];
        // What a stream brings must not wait until the loop looks for it.
        bool is_stream = srv_grpc__stays_open(call->method);
        error = grpc_server_request_registered_call(
            server->server, server->methods[method].registered, &call->call, &call->deadline,
            &call->metadata, is_stream ? NULL : &call->payload,
            is_stream ? server->arrivals : server->ended, server->arrivals, &call->arrived);
    }
    base_assert(error == GRPC_CALL_OK);
}

static void post_or_owe(struct srv_grpc *server, uint32_t method)
{
    if (server->free != NULL) {
        post(server, method);
    } else {
        server->methods[method].missing++;
        server->missing++;
    }
}

/* ModelInfer stands first in the table, so what is owed to it is posted first. */
static void post_missing(struct srv_grpc *server)
{
    for (uint32_t method = 0; method <= UNKNOWN; method++) {
        while (server->free != NULL && server->methods[method].missing > 0) {
            server->methods[method].missing--;
            server->missing--;
            post(server, method);
        }
    }
}

void srv_grpc__pool_start(struct srv_grpc *server)
{
    base_assert(srv_loop_is_owner(server->loop));
    for (uint32_t method = 0; method <= UNKNOWN; method++) {
        uint32_t accepts = method == UNKNOWN ? UNKNOWN_ACCEPTS : srv_grpc__methods[method].accepts;
        for (uint32_t i = 0; i < accepts; i++) {
            post(server, method);
        }
    }
}

void srv_grpc__pool_replace(struct srv_grpc__call *call)
{
    struct srv_grpc *server = call->server;
    base_assert(srv_loop_is_owner(server->loop));
    server->counts.objects_posted--;
    server->counts.open++;
    server->counts.arrived++;
    srv_grpc__batches_expect(server);
    if (!server->closing) {
        post_or_owe(server, method_index(call));
    }
}

void srv_grpc__pool_put(struct srv_grpc__call *call)
{
    struct srv_grpc *server = call->server;
    base_assert(srv_loop_is_owner(server->loop));
    base_assert(call->call == NULL);
    call->next = server->free;
    server->free = call;
    server->counts.objects_free++;
    if (server->missing > 0 && !server->closing) {
        post_missing(server);
    }
    srv_grpc__check_drained(server);
}

bool srv_grpc__pool_init(struct srv_grpc *server)
{
    uint32_t count = server->options.calls_max + server->options.streams_max + UNKNOWN_ACCEPTS;
    for (uint32_t method = 0; method < SRV_GRPC__METHODS; method++) {
        count += srv_grpc__methods[method].accepts;
    }
    server->calls = base_alloc_array(count, sizeof server->calls[0]);
    if (server->calls == NULL) {
        return false;
    }
    server->counts.objects = count;
    for (uint32_t i = 0; i < count; i++) {
        srv_grpc__call_init(&server->calls[i], server);
        srv_grpc__pool_put(&server->calls[i]);
    }
    return true;
}

void srv_grpc__pool_release(struct srv_grpc *server)
{
    base_assert(server->counts.objects_free == server->counts.objects);
    for (uint32_t i = 0; i < server->counts.objects; i++) {
        srv_grpc__call_release(&server->calls[i]);
    }
    base_free(server->calls);
    server->calls = NULL;
}
