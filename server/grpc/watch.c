/* Watching clients: the batch that completes when the client of a running call is gone.
 *
 * Most calls end before anybody could notice that their client has gone, and the batch costs a
 * tenth of a short call. So a call joins a line when it starts, and whoever is still in it after
 * WATCH_AFTER_NS is watched from then on; a client that went before is then reported at once. What
 * is answered earlier leaves the line and asks along with its answer. */
#include "base/assert.h"
#include "base/clock.h"
#include "server/grpc/call.h"

#include <string.h>

#define WATCH_AFTER_NS (5 * BASE_NS_PER_MS)

static void leave_line(struct srv_grpc__call *call)
{
    struct srv_grpc *server = call->server;
    struct srv_grpc__call **next =
        call->watch_previous == NULL ? &server->watch_first : &call->watch_previous->watch_next;
    struct srv_grpc__call **previous =
        call->watch_next == NULL ? &server->watch_last : &call->watch_next->watch_previous;
    *next = call->watch_next;
    *previous = call->watch_previous;
    call->watch_next = call->watch_previous = NULL;
}

static void watch(struct srv_grpc__call *call)
{
    grpc_op op;
    memset(&op, 0, sizeof op);
    op.op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    op.data.recv_close_on_server.cancelled = &call->cancelled;
    leave_line(call);
    call->watch = SRV_GRPC__WATCH_ON;
    call->holds++;
    srv_grpc__batch_start(call, &op, 1, &call->closed);
}

void srv_grpc__watch_old(struct srv_grpc *server)
{
    uint64_t begun_ns = srv_loop_update(server->loop) - WATCH_AFTER_NS;
    while (server->watch_first != NULL &&
           server->watch_first->infer.request.times.arrived_ns <= begun_ns) {
        watch(server->watch_first);
    }
}

void srv_grpc__watch_begin(struct srv_grpc__call *call)
{
    struct srv_grpc *server = call->server;
    call->watch = SRV_GRPC__WATCH_SOON;
    call->watch_next = NULL;
    call->watch_previous = server->watch_last;
    *(server->watch_last == NULL ? &server->watch_first : &server->watch_last->watch_next) = call;
    server->watch_last = call;
}

bool srv_grpc__watch_end(struct srv_grpc__call *call)
{
    bool was_watched = call->watch == SRV_GRPC__WATCH_ON;
    if (call->watch == SRV_GRPC__WATCH_SOON) {
        leave_line(call);
    }
    call->watch = SRV_GRPC__WATCH_OFF;
    return !was_watched;
}

void srv_grpc__watch_all(struct srv_grpc *server)
{
    while (server->watch_first != NULL) {
        watch(server->watch_first);
    }
}
