/* The loop thread's libuv loop.
 *
 * Other threads reach the loop through the inbox alone: a post onto an empty inbox writes the async
 * handle's descriptor once, further posts are then a compare-and-swap each, and the loop takes all
 * of them at one wake. The messages that arrive while others are delivered wake the loop anew, so
 * I/O and timers get their turn between two deliveries.
 *
 * Time: libuv's own clock has milliseconds, ours nanoseconds. It is read after each poll (the check
 * handle, so that timers find it fresh) and at each wake of the inbox. An I/O callback comes
 * between the poll and the check; one that needs the time reads it by srv_loop_update(). */
#include "server/loop.h"

#include "base/assert.h"
#include "base/clock.h"

static void async_cb(uv_async_t *async)
{
    struct srv_loop *loop = async->data;
    srv_loop_update(loop);
    base_inbox_deliver(&loop->inbox);
}

static void turn_cb(uv_check_t *turn)
{
    srv_loop_update(turn->data);
}

enum base_status srv_loop_init(struct srv_loop *loop)
{
    *loop = (struct srv_loop){.now_ns = base_now_ns()};
    atomic_init(&loop->owner, pthread_self());
    base_inbox_init(&loop->inbox);
    if (uv_loop_init(&loop->uv) != 0) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    if (uv_async_init(&loop->uv, &loop->async, async_cb) != 0) {
        int closed = uv_loop_close(&loop->uv);
        base_assert(closed == 0);
        return BASE_RESOURCE_EXHAUSTED;
    }
    loop->async.data = loop;
    loop->turn.data = loop;
    int started = uv_check_init(&loop->uv, &loop->turn);
    base_assert(started == 0);
    started = uv_check_start(&loop->turn, turn_cb);
    base_assert(started == 0);
    // Only the async handle, and the handles of others, keep the loop running.
    uv_unref(srv_uv_handle(&loop->turn));
    return BASE_OK;
}

void srv_loop_run(struct srv_loop *loop)
{
    atomic_store(&loop->owner, pthread_self());
    srv_loop_update(loop);
    int active = uv_run(&loop->uv, UV_RUN_DEFAULT);
    base_assert(active == 0);
    base_assert(loop->stopped);
    while (base_inbox_deliver(&loop->inbox) > 0) {
    }
}

void srv_loop_stop(struct srv_loop *loop)
{
    base_assert(srv_loop_is_owner(loop));
    base_assert(!loop->stopped);
    loop->stopped = true;
    uv_close(srv_uv_handle(&loop->async), NULL);
    uv_close(srv_uv_handle(&loop->turn), NULL);
}

void srv_loop_release(struct srv_loop *loop)
{
    base_assert(base_inbox_is_empty(&loop->inbox));
    if (!loop->stopped) {
        // Never run: one turn lets the handles close.
        atomic_store(&loop->owner, pthread_self());
        srv_loop_stop(loop);
        uv_run(&loop->uv, UV_RUN_DEFAULT);
    }
    int closed = uv_loop_close(&loop->uv);
    base_assert(closed == 0);
}

void srv_loop_post(struct srv_loop *loop, struct base_message *message)
{
    if (base_inbox_post(&loop->inbox, message)) {
        uv_async_send(&loop->async);
    }
}

uint64_t srv_loop_update(struct srv_loop *loop)
{
    base_debug_assert(srv_loop_is_owner(loop));
    loop->now_ns = base_now_ns();
    return loop->now_ns;
}

bool srv_loop_is_owner(const struct srv_loop *loop)
{
    return pthread_equal(atomic_load_explicit(&loop->owner, memory_order_relaxed),
                         pthread_self()) != 0;
}
