/* Private to the files of a run: run.c, worker.c, open.c, closed.c, call.c, pacer.c.
 *
 * Threads. The worker takes the completions, measures, and sends what is due whenever it is awake.
 * gRPC waits in whole milliseconds, so in an open loop a pacer thread sleeps until the next planned
 * send, to the microsecond, and sends when the worker is not at work. One lock says who is: the
 * worker lets go of it only while it waits for a completion, and the pacer only tries it. (Two
 * threads that both send and receive all the time contend inside gRPC, which then hands work to a
 * thread of its own.) */
#ifndef LOADGEN_ENGINE_H
#define LOADGEN_ENGINE_H

#include "base/mem.h"
#include "base/random.h"
#include "loadgen/run.h"
#include "loadgen/timers.h"

#include <grpc/grpc.h>

#include <pthread.h>
#include <stdatomic.h>

/* Longest sleep of any thread here: how soon it notices that the run is ending. */
#define LG_TICK_NS (20 * BASE_NS_PER_MS)

struct lg_call {
    grpc_call *call; /* NULL while free */
    uint64_t index;  /* of the request */
    uint64_t planned_ns, sent_ns;
    bool measured;
    bool we_cancel;
    grpc_status_code code;
    grpc_byte_buffer *message; /* reused */
    grpc_byte_buffer *reply;
    grpc_metadata_array initial, trailing; /* reused */
    grpc_slice details;
};

/* Belongs to the holder of the lock, except the atomics. */
struct lg_engine {
    const struct lg_run_spec *spec;
    struct lg_result *result;
    grpc_completion_queue *queue;
    struct lg_call *calls;       /* [call_count] */
    struct lg_call **free_calls; /* [free_count], a stack */
    uint32_t call_count, free_count;
    struct base_random random;
    struct lg_timers cancels; /* of grpc_call, each with a reference */
    struct lg_timers resends; /* of lg_call; closed loop, after UNAVAILABLE */

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
    size_t plan_at;    /* open loop: next request of the plan */
    bool sending_done; /* nothing more will be started */
    bool expired;      /* the drain time is over: all calls are being cancelled */

    pthread_mutex_t lock;
    _Atomic uint64_t pacer_wake_ns; /* open loop: next send or cancel; set by the lock's holder */

    /* Anyone's. */
    _Atomic uint64_t finished;  /* = ended, for the progress bar */
    _Atomic uint64_t ending_ns; /* since when nothing is sent any more; 0 = not yet */
    _Atomic bool done;          /* the worker has left */
};

/* ---- call.c ---------------------------------------------------------------------------------- */

/* Starts request index on a free call. planned_ns <= now_ns. */
void lg_call_start(struct lg_engine *engine, struct lg_call *call, uint64_t index,
                   uint64_t planned_ns, uint64_t now_ns);

/* Accounts a completed call and frees it (call->call becomes NULL). Returns its code. */
grpc_status_code lg_call_finish(struct lg_engine *engine, struct lg_call *call, uint64_t now_ns);

/* Cancels the calls whose time has come. */
void lg_cancels_fire(struct lg_engine *engine, uint64_t now_ns);

/* ---- open.c ---------------------------------------------------------------------------------- */

/* Cancels, and a few of the sends, that are due; sets sending_done behind the last, and
 * pacer_wake_ns. true when more sends are due and can be made. */
bool lg_open_tick(struct lg_engine *engine, uint64_t now_ns);

/* ---- closed.c -------------------------------------------------------------------------------- */

/* Starts the first calls. */
void lg_closed_begin(struct lg_engine *engine);

/* Puts a finished call to work again. */
void lg_closed_again(struct lg_engine *engine, struct lg_call *call, grpc_status_code code,
                     uint64_t now_ns);

/* Cancels and resends that are due; sets sending_done when the run is over. */
void lg_closed_tick(struct lg_engine *engine, uint64_t now_ns);

/* ---- worker.c, pacer.c: thread bodies; arg is the engine ------------------------------------- */

void *lg_worker_main(void *arg);
void *lg_pacer_main(void *arg);

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
