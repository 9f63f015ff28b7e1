/* Watching clients: the batch that completes when the client of a running call is gone.
 *
 * Most calls end before anybody could notice that their client has gone, and the batch costs a
 * tenth of a short call. So a call joins a line when it starts, and whoever is still in it after
 * WATCH_AFTER_MS is watched from then on; a client that went before is then reported at once. What
 * is answered earlier leaves the line and asks along with its answer. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "server/grpc/call.h"

#include <string.h>

#define WATCH_AFTER_MS 5u

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
    atomic_fetch_add_explicit(&call->holds, 1, memory_order_relaxed);
    grpc_call_error error = grpc_call_start_batch(call->call, &op, 1, &call->closed, NULL);
    base_assert(error == GRPC_CALL_OK);
}

static void timer_fired(uv_timer_t *timer)
{
    struct srv_grpc *server = timer->data;
    uint64_t now_ns = srv_loop_update(server->loop);
    while (server->watch_first != NULL) {
        uint64_t arrived_ns = server->watch_first->request.times.arrived_ns;
        uint64_t due_ns = arrived_ns + WATCH_AFTER_MS * BASE_NS_PER_MS;
        if (due_ns > now_ns) {
            uv_timer_start(timer, timer_fired, (due_ns - now_ns) / BASE_NS_PER_MS + 1, 0);
            return;
        }
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
    if (uv_is_active(srv_uv_handle(server->watch_timer)) == 0) {
        uv_timer_start(server->watch_timer, timer_fired, WATCH_AFTER_MS, 0);
    }
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

static void free_timer(uv_handle_t *timer)
{
    base_free(timer);
}

bool srv_grpc__watch_init(struct srv_grpc *server)
{
    server->watch_timer = base_alloc(sizeof *server->watch_timer);
    if (server->watch_timer == NULL) {
        return false;
    }
    int failed = uv_timer_init(&server->loop->uv, server->watch_timer);
    base_assert(failed == 0); // it cannot fail
    server->watch_timer->data = server;
    uv_unref(srv_uv_handle(server->watch_timer)); // running calls keep the loop going, not this
    return true;
}

void srv_grpc__watch_close(struct srv_grpc *server)
{
    base_assert(server->watch_first == NULL);
    if (server->watch_timer != NULL) {
        uv_close(srv_uv_handle(server->watch_timer), free_timer);
    }
}
