/* The closed loop: a fixed number of requests in flight; each end starts the next. */
#include "loadgen/engine.h"

/* A closed loop does not spin on a server that is not there. */
#define RESEND_NS BASE_NS_PER_MS

static void send_next(struct lg_engine *engine, struct lg_call *call, uint64_t now_ns)
{
    lg_call_start(engine, call, engine->started, now_ns, now_ns);
}

/* By time, or when the wanted number has been measured. */
static void watch_end(struct lg_engine *engine, uint64_t now_ns)
{
    uint64_t wanted = engine->spec->requests;
    if (wanted > 0 && engine->measured_ended >= wanted && lg_window_is_open(engine)) {
        lg_window_close(engine, now_ns);
        engine->send_end_ns = now_ns;
    }
    if (now_ns >= engine->send_end_ns || lg_is_ending(engine)) {
        engine->sending_done = true;
    }
}

void lg_closed_begin(struct lg_engine *engine, uint64_t now_ns)
{
    lg_window_watch(engine, now_ns);
    while (engine->free_count > 0) {
        send_next(engine, engine->free_calls[--engine->free_count], now_ns);
    }
}

void lg_closed_again(struct lg_engine *engine, struct lg_call *call, uint64_t now_ns)
{
    watch_end(engine, now_ns);
    if (engine->sending_done) {
        return;
    }
    const struct lg_timer resend = {.when_ns = now_ns + RESEND_NS, .what = call};
    if (call->rpc.code != LG_CODE_UNAVAILABLE || !lg_timers_add(&engine->resends, resend)) {
        send_next(engine, call, now_ns);
    }
}

uint64_t lg_closed_tick(struct lg_engine *engine, uint64_t now_ns)
{
    watch_end(engine, now_ns);
    struct lg_timer resend;
    while (lg_timers_pop(&engine->resends, now_ns, &resend)) {
        if (!engine->sending_done) {
            send_next(engine, resend.what, now_ns);
        }
    }
    return lg_timers_next(&engine->resends);
}
