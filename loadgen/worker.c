/* The worker thread: sends, reads, measures. It also opens and closes the window, since it sees the
 * time in every turn. */
#include "loadgen/engine.h"

#include "base/assert.h"
#include "base/cpus.h"

#include <sys/prctl.h>

/* After an interrupt, or when the server is gone, nobody wants to wait long for last answers. */
#define SHORT_DRAIN_NS BASE_NS_PER_S

/* ---- The window ------------------------------------------------------------------------------ */

void lg_window_close(struct lg_engine *engine, uint64_t now_ns)
{
    base_assert(lg_window_is_open(engine));
    engine->window_closed_ns = now_ns;
    engine->result->window_ns = now_ns - engine->window_opened_ns;
    engine->result->cpu_ns = base_process_cpu_ns() - engine->cpu_opened_ns;
}

void lg_window_watch(struct lg_engine *engine, uint64_t now_ns)
{
    if (engine->window_opened_ns == 0 && now_ns >= engine->window_start_ns &&
        !lg_is_ending(engine)) {
        engine->window_opened_ns = now_ns;
        engine->cpu_opened_ns = base_process_cpu_ns();
    }
    if (lg_window_is_open(engine) && (now_ns >= engine->window_end_ns || lg_is_ending(engine))) {
        lg_window_close(engine, now_ns);
    }
}

static uint64_t next_boundary(const struct lg_engine *engine)
{
    if (engine->window_opened_ns == 0) {
        return engine->window_start_ns;
    }
    return engine->window_closed_ns == 0 ? engine->window_end_ns : BASE_NEVER;
}

/* ---- The end --------------------------------------------------------------------------------- */

static void watch_server(struct lg_engine *engine, uint32_t code, uint64_t now_ns)
{
    if (code != LG_CODE_UNAVAILABLE) {
        engine->last_alive_ns = now_ns;
    } else if (now_ns > engine->last_alive_ns &&
               now_ns - engine->last_alive_ns > engine->spec->give_up_ns && !lg_is_ending(engine)) {
        engine->result->gave_up = true;
        lg_end_sending(engine, now_ns);
    }
}

static void cancel_all(struct lg_engine *engine, uint64_t now_ns)
{
    engine->expired = true;
    for (uint32_t i = 0; i < engine->call_count; i++) {
        struct lg_rpc *rpc = &engine->calls[i].rpc;
        if (rpc->state != LG_RPC_FREE) {
            lg_client_cancel(engine->spec->client, rpc, LG_CODE_CANCELLED, "no answer", now_ns);
        }
    }
}

/* true when all that was sent has ended, and the window is over. */
static bool watch_end(struct lg_engine *engine, uint64_t now_ns)
{
    if (!engine->sending_done) {
        return false;
    }
    if (engine->started == engine->ended) {
        return engine->window_closed_ns != 0 || lg_is_ending(engine);
    }
    if (engine->drain_end_ns == BASE_NEVER) {
        uint64_t drain_ns = engine->spec->drain_ns;
        if (lg_is_ending(engine)) {
            drain_ns = lg_earlier(drain_ns, SHORT_DRAIN_NS);
        }
        engine->drain_end_ns = base_deadline_after(now_ns, drain_ns);
    }
    if (now_ns >= engine->drain_end_ns && !engine->expired) {
        cancel_all(engine, now_ns);
    }
    return false;
}

/* ---- The loop -------------------------------------------------------------------------------- */

static void end_call(struct lg_engine *engine, struct lg_call *call, uint64_t now_ns)
{
    lg_call_finish(engine, call);
    watch_server(engine, call->rpc.code, now_ns);
    if (lg_is_open_loop(engine)) {
        engine->free_calls[engine->free_count++] = call;
    } else {
        lg_closed_again(engine, call, now_ns);
    }
}

static void take_ended(struct lg_engine *engine, uint64_t now_ns)
{
    // Not those that end meanwhile, which would keep the worker here while the server is away.
    for (uint64_t left = engine->started - engine->ended; left > 0; left--) {
        struct lg_rpc *rpc = lg_client_take(engine->spec->client);
        if (rpc == NULL) {
            break;
        }
        end_call(engine, (struct lg_call *)rpc, now_ns);
    }
}

static uint64_t send_due(struct lg_engine *engine, uint64_t now_ns)
{
    return lg_is_open_loop(engine) ? lg_open_tick(engine, now_ns) : lg_closed_tick(engine, now_ns);
}

void *lg_worker_main(void *arg)
{
    struct lg_engine *engine = arg;
    base_thread_name("lg-worker");
    // The default slack of 50 us would make every send that much later.
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    // First what has happened to the connections since the last run.
    uint64_t now_ns = base_now_ns();
    now_ns = lg_client_turn(engine->spec->client, now_ns, now_ns);
    if (!lg_is_open_loop(engine)) {
        lg_closed_begin(engine, now_ns);
    }
    for (;;) {
        lg_window_watch(engine, now_ns);
        take_ended(engine, now_ns);
        uint64_t wake_ns = send_due(engine, now_ns);
        now_ns = base_now_ns(); // no call may end before it was sent
        lg_calls_expire(engine, now_ns);
        if (watch_end(engine, now_ns)) {
            break;
        }
        wake_ns = lg_earlier(wake_ns, lg_calls_next_ns(engine));
        wake_ns = lg_earlier(wake_ns, next_boundary(engine));
        wake_ns = lg_earlier(wake_ns, now_ns + LG_TICK_NS);
        now_ns = lg_client_turn(engine->spec->client, now_ns, wake_ns);
    }
    atomic_store_explicit(&engine->done, true, memory_order_release);
    return NULL;
}
