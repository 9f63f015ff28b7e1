/* Sets a run up, lets its worker work, and takes it down. The calling thread only watches: it
 * passes the stop signal on and draws the progress. */
#include "loadgen/run.h"

#include "base/assert.h"
#include "base/mem.h"
#include "loadgen/engine.h"
#include "loadgen/progress.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define WATCH_NS      (5 * BASE_NS_PER_MS)
#define PROGRESS_NS   (200 * BASE_NS_PER_MS)
#define START_LEAD_NS (5 * BASE_NS_PER_MS) /* open loop: the worker is up before the first send */

static enum base_status make_calls(struct lg_engine *engine, struct base_error *error)
{
    uint32_t count = engine->call_count;
    engine->calls = base_alloc_array(count, sizeof(engine->calls[0]));
    engine->free_calls = base_alloc_array(count, sizeof(struct lg_call *));
    if (engine->calls == NULL || engine->free_calls == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for %u calls", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        engine->free_calls[engine->free_count++] = &engine->calls[i];
    }
    return BASE_OK;
}

static void set_times(struct lg_engine *engine)
{
    const struct lg_run_spec *spec = engine->spec;
    engine->start_ns = base_now_ns() + (spec->plan != NULL ? START_LEAD_NS : 0);
    engine->last_alive_ns = engine->start_ns;
    engine->drain_end_ns = BASE_NEVER;
    if (spec->plan != NULL) {
        engine->window_start_ns = engine->start_ns + spec->plan->window_start_ns;
        engine->window_end_ns = engine->start_ns + spec->plan->window_end_ns;
        // A sender that fell behind may catch up for as long as answers are awaited.
        engine->send_end_ns = engine->start_ns + spec->plan->end_ns + spec->drain_ns;
        return;
    }
    engine->window_start_ns = engine->start_ns + spec->warmup_ns;
    engine->window_end_ns =
        spec->requests > 0 ? BASE_NEVER : engine->window_start_ns + spec->duration_ns;
    engine->send_end_ns =
        spec->requests > 0 ? BASE_NEVER : engine->window_end_ns + spec->cooldown_ns;
}

static enum base_status set_up(const struct lg_run_spec *spec, struct lg_result *result,
                               struct lg_engine *engine, struct base_error *error)
{
    engine->spec = spec;
    engine->result = result;
    engine->call_count = spec->plan != NULL ? spec->in_flight_max : spec->concurrency;
    engine->run = base_wall_ns();
    base_random_init(&engine->random, spec->seed ^ 0x63616e63656cu); // apart from the schedule's
    lg_timers_init(&engine->cancels);
    lg_timers_init(&engine->resends);
    engine->sends.limit_ns = spec->plan != NULL ? lg_missed_limit_ns(spec->rate) : 0;
    BASE_TRY(make_calls(engine, error));
    set_times(engine);
    return BASE_OK;
}

static void take_down(struct lg_engine *engine)
{
    base_assert(engine->started == engine->ended);
    base_free(engine->calls);
    base_free(engine->free_calls);
    lg_timers_release(&engine->cancels);
    lg_timers_release(&engine->resends);
    base_free(engine);
}

/* ---- While it runs --------------------------------------------------------------------------- */

static double share_done(const struct lg_engine *engine, uint64_t now_ns, uint64_t finished)
{
    if (now_ns <= engine->start_ns) {
        return 0;
    }
    if (engine->window_end_ns == BASE_NEVER) {
        return (double)finished / (double)engine->spec->requests; // warm-up included: close enough
    }
    uint64_t whole_ns = engine->window_end_ns - engine->start_ns;
    return (double)(now_ns - engine->start_ns) / (double)whole_ns;
}

static void watch(struct lg_engine *engine)
{
    uint64_t drawn_ns = engine->start_ns;
    uint64_t drawn_finished = 0;
    while (!atomic_load_explicit(&engine->done, memory_order_acquire)) {
        struct timespec pause = {.tv_nsec = (long)WATCH_NS};
        (void)nanosleep(&pause, NULL);
        if (atomic_load_explicit(engine->spec->stop, memory_order_relaxed)) {
            lg_end_sending(engine, base_now_ns());
        }
        uint64_t now_ns = base_now_ns();
        if (engine->spec->progress && now_ns > drawn_ns + PROGRESS_NS) {
            uint64_t finished = atomic_load_explicit(&engine->finished, memory_order_relaxed);
            double seconds = (double)(now_ns - drawn_ns) / (double)BASE_NS_PER_S;
            lg_progress_draw(stderr, share_done(engine, now_ns, finished), finished,
                             (double)(finished - drawn_finished) / seconds);
            drawn_ns = now_ns;
            drawn_finished = finished;
        }
    }
    if (engine->spec->progress) {
        lg_progress_end(stderr);
    }
}

static enum base_status run_worker(struct lg_engine *engine, struct base_error *error)
{
    pthread_t worker;
    if (pthread_create(&worker, NULL, lg_worker_main, engine) != 0) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "cannot start a thread");
    }
    watch(engine);
    (void)pthread_join(worker, NULL);
    return BASE_OK;
}

enum base_status lg_run(const struct lg_run_spec *spec, struct lg_result *result,
                        struct base_error *error)
{
    base_assert(spec->plan != NULL ? spec->in_flight_max > 0 : spec->concurrency > 0);
    struct lg_engine *engine = base_alloc(sizeof(*engine));
    if (engine == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for the run");
    }
    lg_result_init(result);
    result->in_parts = spec->in_parts;
    result->mode = spec->plan != NULL ? LG_MODE_OPEN : LG_MODE_CLOSED;
    result->rate_asked = spec->plan != NULL ? spec->rate : 0;
    result->concurrency = spec->plan != NULL ? 0 : spec->concurrency;
    result->seed = spec->seed;
    enum base_status status = set_up(spec, result, engine, error);
    if (status == BASE_OK) {
        status = run_worker(engine, error);
    }
    result->sends = engine->sends;
    result->interrupted = atomic_load_explicit(spec->stop, memory_order_relaxed);
    take_down(engine);
    return status;
}
