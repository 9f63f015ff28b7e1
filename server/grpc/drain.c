/* Drain of the gRPC front end. Loop thread.
 *
 * First calls that were on their way are taken as before, and core refuses them: what gRPC has not
 * handed to us when it is shut down it ends as cancelled, by which a client learns nothing and
 * which none repeats elsewhere. Once none has come for a while gRPC is shut down: it stops
 * listening, returns all posted accepts, tells peers to go away and reports when the last
 * connection is closed. We are drained when that report, the last returned accept and the last open
 * call have all come; in any order. */
#include "base/assert.h"
#include "server/grpc/call.h"

/* How often it is looked whether calls have come; after so many looks without one, or after so many
 * in all, whatever comes, gRPC is shut down. The first of them may follow a turn of the loop that
 * was so long that calls are still in its inbox. */
#define LOOK_MS     25u
#define LOOKS_QUIET 3u
#define LOOKS_MAX   20u

static void deliver_drained(struct base_message *message)
{
    struct srv_grpc *server = SRV_GRPC__CONTAINER(message, struct srv_grpc, drain_message);
    server->drain_done(server->drain_context);
}

void srv_grpc__check_drained(struct srv_grpc *server)
{
    if (!server->shut_down || server->drained ||
        server->counts.objects_free < server->counts.objects) {
        return;
    }
    server->drained = true;
    srv_grpc__batches_close(server); // while the loop still turns
    // Posted: gRPC may stand below us on the stack, and done will want to stop it.
    server->drain_message.deliver = deliver_drained;
    srv_loop_post(server->loop, &server->drain_message);
}

static void deliver_shutdown(struct base_message *message)
{
    struct srv_grpc *server = SRV_GRPC__CONTAINER(message, struct srv_grpc, drain_message);
    server->shut_down = true;
    srv_grpc__check_drained(server);
}

static void on_shutdown(struct srv_grpc__event *event, bool ok)
{
    struct srv_grpc *server = SRV_GRPC__CONTAINER(event, struct srv_grpc, shutdown);
    (void)ok;
    server->drain_message.deliver = deliver_shutdown;
    srv_loop_post(server->loop, &server->drain_message);
}

/* Behind this no call arrives any more. */
static void shut_down(struct srv_grpc *server)
{
    if (!server->closing) {
        server->closing = true;
        uv_timer_stop(srv_grpc__batches_drain_timer(server));
        server->shutdown.happened = on_shutdown;
        grpc_server_shutdown_and_notify(server->server, server->arrivals, &server->shutdown);
    }
}

static void on_look(uv_timer_t *timer)
{
    struct srv_grpc *server = timer->data;
    const bool is_quiet = server->counts.arrived == server->drain_arrived;
    server->drain_arrived = server->counts.arrived;
    server->drain_quiet = is_quiet ? server->drain_quiet + 1 : 0;
    server->drain_looks++;
    if (server->drain_quiet == LOOKS_QUIET || server->drain_looks == LOOKS_MAX) {
        shut_down(server);
    }
}

void srv_grpc_drain(struct srv_grpc *server, void (*done)(void *context), void *context)
{
    base_assert(srv_loop_is_owner(server->loop));
    base_assert(!server->draining);
    server->draining = true;
    server->drain_done = done;
    server->drain_context = context;
    server->drain_arrived = server->counts.arrived;
    srv_grpc__streams_drain(server);
    srv_grpc__dialogs_drain(server);
    uv_timer_start(srv_grpc__batches_drain_timer(server), on_look, LOOK_MS, LOOK_MS);
}

void srv_grpc_cancel_all(struct srv_grpc *server)
{
    base_assert(srv_loop_is_owner(server->loop));
    base_assert(server->draining);
    shut_down(server);
    srv_grpc__watch_all(server); // or nobody would be told
    grpc_server_cancel_all_calls(server->server);
}
