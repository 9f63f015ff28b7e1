/* The worker thread: takes completions, measures, sends. It also opens and closes the window, since
 * it sees the time at every completion. */
#include "loadgen/engine.h"

#include "base/assert.h"
#include "base/cpus.h"

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

static void watch_server(struct lg_engine *engine, grpc_status_code code, uint64_t now_ns)
{
    if (code != GRPC_STATUS_UNAVAILABLE) {
        engine->last_alive_ns = now_ns;
    } else if (now_ns > engine->last_alive_ns &&
               now_ns - engine->last_alive_ns > engine->spec->give_up_ns && !lg_is_ending(engine)) {
        engine->result->gave_up = true;
        lg_end_sending(engine, now_ns);
    }
}

static void cancel_all(struct lg_engine *engine)
{
    engine->expired = true;
    for (uint32_t i = 0; i < engine->call_count; i++) {
        if (engine->calls[i].call != NULL) {
            (void)grpc_call_cancel(engine->calls[i].call, NULL);
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
        cancel_all(engine);
    }
    return false;
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* The next completion, or none when something else is due: sends, timers, the window's ends. Lets
 * go of the engine meanwhile. *now_ns becomes the time of the completion. */
static grpc_event wait_for_event(struct lg_engine *engine, bool busy, uint64_t *now_ns)
{
    uint64_t wake_ns = lg_earlier(*now_ns + LG_TICK_NS, next_boundary(engine));
    wake_ns = lg_earlier(wake_ns, lg_timers_next(&engine->cancels));
    wake_ns = lg_earlier(wake_ns, lg_timers_next(&engine->resends));
    wake_ns = busy ? *now_ns : wake_ns;
    (void)pthread_mutex_unlock(&engine->lock);
    grpc_event event = grpc_completion_queue_next(engine->queue, lg_timespec(wake_ns), NULL);
    *now_ns = base_now_ns();
    (void)pthread_mutex_lock(&engine->lock);
    return event;
}

static void end_call(struct lg_engine *engine, struct lg_call *call, uint64_t now_ns)
{
    grpc_status_code code = lg_call_finish(engine, call, now_ns);
    watch_server(engine, code, now_ns);
    if (lg_is_open_loop(engine)) {
        engine->free_calls[engine->free_count++] = call;
    } else {
        lg_closed_again(engine, call, code, now_ns);
    }
}

void *lg_worker_main(void *arg)
{
    struct lg_engine *engine = arg;
    base_thread_name("lg-worker");
    (void)pthread_mutex_lock(&engine->lock);
    if (!lg_is_open_loop(engine)) {
        lg_closed_begin(engine);
    }
    uint64_t now_ns = base_now_ns();
    bool busy = false;
    do {
        grpc_event event = wait_for_event(engine, busy, &now_ns);
        lg_window_watch(engine, now_ns);
        if (event.type == GRPC_OP_COMPLETE) {
            end_call(engine, event.tag, now_ns);
        }
        if (lg_is_open_loop(engine)) {
            busy = lg_open_tick(engine, now_ns);
        } else {
            lg_closed_tick(engine, now_ns);
        }
    } while (!watch_end(engine, now_ns));
    (void)pthread_mutex_unlock(&engine->lock);
    atomic_store_explicit(&engine->done, true, memory_order_release);
    return NULL;
}
