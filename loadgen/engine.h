/* Private to the files of a run: run.c, worker.c, open.c, closed.c, call.c.
 *
 * Threads. The worker does everything: it sends what is due, waits for answers or for the next
 * thing to do, whichever comes first, reads, measures. The thread that called lg_run() only looks
 * at the atomics. A turn of the worker's loop is: write what was started, wait, read, account what
 * has ended, start what is due. */
#ifndef LOADGEN_ENGINE_H
#define LOADGEN_ENGINE_H

#include "base/clock.h"
#include "base/random.h"
#include "loadgen/run.h"
#include "loadgen/session.h"
#include "loadgen/timers.h"

#include <stdatomic.h>

/* Longest sleep of the worker: how soon it notices that the run is ending. */
#define LG_TICK_NS (20 * BASE_NS_PER_MS)

/* One request. Free while rpc.state is LG_RPC_FREE. */
struct lg_call {
    struct lg_rpc rpc; /* first: an ended one is its call */
    const struct lg_payload *payload;
    uint64_t index; /* of the request */
    uint64_t planned_ns, sent_ns;
    uint64_t deadline_ns;           /* BASE_NEVER = none */
    struct lg_call *sooner, *later; /* in the list of deadlines */
    bool measured;
    bool we_cancel;
    struct lg_session session; /* closed loop with sessions */
    const uint8_t *behind;     /* the payload: n_behind bytes of parameters */
    size_t n_behind;
};

/* The worker's, except the atomics. */
struct lg_engine {
    const struct lg_run_spec *spec;
    struct lg_result *result;
    struct lg_call *calls;       /* [call_count] */
    struct lg_call **free_calls; /* [free_count], a stack */
    uint32_t call_count, free_count;
    struct base_random random;
    struct lg_timers cancels; /* of lg_call, with the request's index */
    struct lg_timers resends; /* of lg_call; closed loop, after UNAVAILABLE */
    /* Calls with a deadline: each is as long after its planned send, and these only grow, so the
     * list is in their order. */
    struct lg_call *soonest, *latest;

    /* Times are absolute; BASE_NEVER: not by time. */
    uint64_t start_ns;
    uint64_t window_start_ns, window_end_ns;     /* as planned */
    uint64_t window_opened_ns, window_closed_ns; /* as happened; 0 = not yet */
    uint64_t cpu_opened_ns;
    uint64_t send_end_ns;   /* no send after it */
    uint64_t drain_end_ns;  /* set when the sending is over */
    uint64_t last_alive_ns; /* last end other than UNAVAILABLE */

    struct lg_sends sends;
    uint64_t started, ended;
    uint64_t measured_started, measured_ended;
    uint64_t run, sessions_begun; /* run: of the ids of sessions */
    size_t plan_at;               /* open loop: next request of the plan */
    bool sending_done;            /* nothing more will be started */
    bool expired;                 /* the drain time is over: all calls have been cancelled */

    /* Anyone's. */
    _Atomic uint64_t finished;  /* = ended, for the progress bar */
    _Atomic uint64_t ending_ns; /* since when nothing is sent any more; 0 = not yet */
    _Atomic bool done;          /* the worker has left */
};

/* ---- call.c ---------------------------------------------------------------------------------- */

/* Starts request index on a free call. planned_ns <= now_ns. */
void lg_call_start(struct lg_engine *engine, struct lg_call *call, uint64_t index,
                   uint64_t planned_ns, uint64_t now_ns);

/* Accounts a call that has ended. */
void lg_call_finish(struct lg_engine *engine, struct lg_call *call);

/* Cancels the calls whose time has come, by --cancel-fraction or by their deadline. */
void lg_calls_expire(struct lg_engine *engine, uint64_t now_ns);

/* When lg_calls_expire() has something to do next. */
uint64_t lg_calls_next_ns(const struct lg_engine *engine);

/* ---- open.c ---------------------------------------------------------------------------------- */

/* Sends that are due, not too many; sets sending_done behind the last. Returns when to call it
 * again: now_ns or earlier when more are due and can be sent. */
uint64_t lg_open_tick(struct lg_engine *engine, uint64_t now_ns);

/* ---- closed.c -------------------------------------------------------------------------------- */

/* Starts the first calls. */
void lg_closed_begin(struct lg_engine *engine, uint64_t now_ns);

/* Puts a finished call to work again. */
void lg_closed_again(struct lg_engine *engine, struct lg_call *call, uint64_t now_ns);

/* Resends that are due; sets sending_done when the run is over. Returns when to call it again. */
uint64_t lg_closed_tick(struct lg_engine *engine, uint64_t now_ns);

/* ---- worker.c -------------------------------------------------------------------------------- */

void *lg_worker_main(void *arg); /* thread body; arg is the engine */

/* Opens and closes the window. */
void lg_window_watch(struct lg_engine *engine, uint64_t now_ns);
void lg_window_close(struct lg_engine *engine, uint64_t now_ns);

static inline bool lg_window_is_open(const struct lg_engine *engine)
{
    return engine->window_opened_ns != 0 && engine->window_closed_ns == 0;
}

static inline bool lg_is_open_loop(const struct lg_engine *engine)
{
    return engine->spec->plan != NULL;
}

static inline bool lg_is_ending(const struct lg_engine *engine)
{
    return atomic_load_explicit(&engine->ending_ns, memory_order_relaxed) != 0;
}

/* Any thread: ends the sending now, unless it has been ended. */
static inline void lg_end_sending(struct lg_engine *engine, uint64_t now_ns)
{
    uint64_t not_yet = 0;
    (void)atomic_compare_exchange_strong_explicit(&engine->ending_ns, &not_yet, now_ns,
                                                  memory_order_relaxed, memory_order_relaxed);
}

static inline uint64_t lg_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#endif
