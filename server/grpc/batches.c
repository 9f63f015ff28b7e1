/* The batches of calls: their start and, on the loop thread again, their end.
 *
 * Batches complete on a queue that nobody sleeps on: the loop thread looks into it after each of
 * its turns, and every TICK_MS while calls are open. So an answered call costs no wake-up of any
 * thread; what is late is only that its memory comes back and that a client is noticed to have
 * gone.
 *
 * gRPC could call back wherever a batch completes; but it does so when it has nothing else to do,
 * and under load hundreds of ended calls wait for that, with their memory. */
#include "server/grpc/call.h"

#include "base/assert.h"
#include "base/mem.h"

#define TICK_MS 5u

/* Freed when all handles are closed. */
struct srv_grpc__turns {
    uv_check_t turn;
    uv_timer_t tick;
    uv_timer_t dialogs;
    uv_timer_t drain;
    uint32_t open;
};

void srv_grpc__batch_start(struct srv_grpc__call *call, const grpc_op *ops, size_t count,
                           struct srv_grpc__event *ended)
{
    base_assert(srv_loop_is_owner(call->server->loop));
    call->server->batches++;
    grpc_call_error error = grpc_call_start_batch(call->call, ops, count, ended, NULL);
    base_assert(error == GRPC_CALL_OK);
}

static void take_ended(struct srv_grpc *server)
{
    while (server->batches > 0) {
        grpc_event event =
            grpc_completion_queue_next(server->ended, gpr_time_0(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_TIMEOUT) {
            return;
        }
        base_assert(event.type == GRPC_OP_COMPLETE);
        server->batches--;
        struct srv_grpc__event *happened = event.tag;
        happened->happened(happened, event.success != 0);
    }
}

static void on_turn(uv_check_t *turn)
{
    take_ended(turn->data);
}

static void on_tick(uv_timer_t *tick)
{
    struct srv_grpc *server = tick->data;
    take_ended(server);
    srv_grpc__watch_old(server);
    // Those of streams come by themselves.
    if (server->counts.open == server->counts.streams_open) {
        uv_timer_stop(tick);
    }
}

void srv_grpc__batches_expect(struct srv_grpc *server)
{
    uv_timer_t *tick = &server->turns->tick;
    if (uv_is_active(srv_uv_handle(tick)) == 0) {
        uv_timer_start(tick, on_tick, TICK_MS, TICK_MS);
    }
}

bool srv_grpc__batches_init(struct srv_grpc *server)
{
    struct srv_grpc__turns *turns = base_alloc(sizeof *turns);
    if (turns == NULL) {
        return false;
    }
    server->turns = turns;
    turns->open = 4;
    turns->turn.data = turns->tick.data = turns->dialogs.data = turns->drain.data = server;
    // None of these can fail.
    int failed = uv_check_init(&server->loop->uv, &turns->turn);
    failed |= uv_check_start(&turns->turn, on_turn);
    failed |= uv_timer_init(&server->loop->uv, &turns->tick);
    failed |= uv_timer_init(&server->loop->uv, &turns->dialogs);
    failed |= uv_timer_init(&server->loop->uv, &turns->drain);
    base_assert(failed == 0);
    // Open calls keep the loop going, not these.
    uv_unref(srv_uv_handle(&turns->turn));
    uv_unref(srv_uv_handle(&turns->tick));
    uv_unref(srv_uv_handle(&turns->dialogs));
    uv_unref(srv_uv_handle(&turns->drain));
    return true;
}

uv_timer_t *srv_grpc__batches_timer(struct srv_grpc *server)
{
    return &server->turns->dialogs;
}

uv_timer_t *srv_grpc__batches_drain_timer(struct srv_grpc *server)
{
    return &server->turns->drain;
}

static void on_closed(uv_handle_t *handle)
{
    struct srv_grpc__turns *turns = handle->data;
    if (--turns->open == 0) {
        base_free(turns);
    }
}

void srv_grpc__batches_close(struct srv_grpc *server)
{
    struct srv_grpc__turns *turns = server->turns;
    base_assert(server->batches == 0);
    if (turns != NULL) {
        turns->turn.data = turns->tick.data = turns->dialogs.data = turns->drain.data = turns;
        uv_close(srv_uv_handle(&turns->turn), on_closed);
        uv_close(srv_uv_handle(&turns->tick), on_closed);
        uv_close(srv_uv_handle(&turns->dialogs), on_closed);
        uv_close(srv_uv_handle(&turns->drain), on_closed);
    }
}
