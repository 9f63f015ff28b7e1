/* Arrivals, and who is inside.
 *
 * Threads: the caller sleeps until the next arrival and lets it in; the pool thread lets in others
 * as answers leave. Whichever it is holds the lock, and sees by the clock who has come. */
#include "bench/open_loop.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/event.h"
#include "base/mem.h"
#include "base/random.h"

#include <pthread.h>
#include <string.h>

#define WARM_PART 10u /* of the time, in which latencies are not counted */

#define ARRIVALS_MAX 50000000u

/* Somebody who comes: of an open loop once, a client again and again. */
struct arrival {
    uint64_t when_ns;
    uint32_t number; /* which of the lengths or trees */
};

/* A place inside. */
struct place {
    uint32_t id;   /* the arrival that it holds */
    uint32_t next; /* of those that are free; of a group, those that are done */
};

struct bench_open_loop {
    struct srv_engine *engine;
    struct bench_requests requests; /* as many as can be inside */
    struct place *places;           /* likewise */
    struct base_event over;
    pthread_mutex_t lock;

    /* ---- Of one run; under the lock ---- */
    const struct bench_open_run *run;
    struct bench_batching *batching;
    struct arrival *arrivals;
    uint32_t n_arrivals, arrived; /* of an open loop; the others are still to come */
    uint32_t drawn;               /* numbers that clients have had */
    uint32_t free, done;          /* lists of places */
    uint64_t start_ns, warm_ns, end_ns, last_ns;
    bool is_closing;         /* nobody goes in any more */
    enum base_status status; /* of the first request that failed */
    struct bench_open_result *result;
};

#define NONE UINT32_MAX

static bool is_open(const struct bench_open_loop *loop)
{
    return loop->run->rate > 0;
}

static bool is_of_trees(const struct bench_open_loop *loop)
{
    return loop->requests.cells->unfold == CELL_UNFOLD_TREE;
}

static uint32_t cells_of(struct bench_extent extent)
{
    return extent.steps + extent.answer;
}

/* ---- In ---- */

static void arrive(struct bench_open_loop *loop, uint32_t id)
{
    bench_batching_add(loop->batching, id,
                       bench_requests_extent(&loop->requests, loop->arrivals[id].number));
}

static void go_in(struct bench_open_loop *loop, uint32_t id, struct bench_extent padded)
{
    const uint32_t number = loop->arrivals[id].number;
    const uint32_t at = loop->free;
    base_assert(at != NONE);
    loop->free = loop->places[at].next;
    loop->places[at].id = id;
    const uint32_t own = cells_of(bench_requests_extent(&loop->requests, number));
    loop->result->steps += own;
    loop->result->padding += cells_of(padded) == 0 ? 0 : cells_of(padded) - own;
    bench_request_unfold(&loop->requests, &loop->requests.all[at], number, padded);
    srv_engine_submit(loop->engine, &loop->requests.all[at].job);
}

/* Lets in who may. */
static void advance(struct bench_open_loop *loop, uint64_t now_ns)
{
    while (loop->arrived < loop->n_arrivals && loop->arrivals[loop->arrived].when_ns <= now_ns) {
        arrive(loop, loop->arrived++);
    }
    struct bench_extent padded = {0};
    for (uint32_t id = 0; !loop->is_closing && id != NONE;) {
        id = bench_batching_next(loop->batching, &padded);
        if (id != NONE) {
            go_in(loop, id, padded);
        }
    }
}

/* ---- Out; pool thread ---- */

static void answer(struct bench_open_loop *loop, struct place *place)
{
    struct arrival *arrival = &loop->arrivals[place->id];
    const uint64_t now_ns = loop->last_ns;
    if (arrival->when_ns >= loop->warm_ns) {
        // An order of time between two threads' clocks is not promised to the nanosecond.
        base_hist_add(&loop->result->latency_ns,
                      now_ns > arrival->when_ns ? now_ns - arrival->when_ns : 0);
    }
    loop->result->requests++;
    place->next = loop->free;
    loop->free = (uint32_t)(place - loop->places);
    if (!is_open(loop) && !loop->is_closing) {
        *arrival = (struct arrival){.when_ns = now_ns, .number = loop->drawn++};
        arrive(loop, place->id);
    }
}

/* All that are done and whose answers may leave. */
static void answer_done(struct bench_open_loop *loop)
{
    const bool is_whole = bench_batching_inside(loop->batching) == 0;
    if (bench_batching_is_grouped(loop->batching) && !is_whole) {
        return;
    }
    while (loop->done != NONE) {
        struct place *place = &loop->places[loop->done];
        loop->done = place->next;
        answer(loop, place);
    }
}

static bool is_done(const struct bench_open_loop *loop)
{
    if (bench_batching_inside(loop->batching) > 0) {
        return false;
    }
    return loop->is_closing || (is_open(loop) && loop->arrived == loop->n_arrivals &&
                                bench_batching_waiting(loop->batching) == 0);
}

static void rate_until_now(struct bench_open_loop *loop)
{
    loop->result->requests_per_s =
        (double)loop->result->requests * 1e9 / (double)(loop->last_ns - loop->start_ns);
}

static void leave(struct bench_open_loop *loop, struct srv_job *job)
{
    struct place *place = &loop->places[(struct bench_request *)job - loop->requests.all];
    if (job->graph->status != BASE_OK) { // the device is lost: so are all others
        loop->status = loop->status == BASE_OK ? job->graph->status : loop->status;
        loop->is_closing = true;
    }
    const uint64_t now_ns = job->graph->finished_ns;
    loop->last_ns = now_ns > loop->last_ns ? now_ns : loop->last_ns;
    bench_batching_leave(loop->batching);
    place->next = loop->done;
    loop->done = (uint32_t)(place - loop->places);
    answer_done(loop);
    // Clients are stopped where a group has ended; the cells of requests that are under way then
    // are work that nobody counts, at most one of a few hundred.
    if (!is_open(loop) && !loop->is_closing && loop->done == NONE && now_ns >= loop->end_ns) {
        rate_until_now(loop);
        loop->is_closing = true;
    }
    advance(loop, base_now_ns());
    if (is_done(loop)) {
        base_event_signal(&loop->over);
    }
}

static void finished(struct srv_job *job)
{
    struct bench_open_loop *loop = ((struct bench_request *)job)->owner;
    (void)pthread_mutex_lock(&loop->lock);
    leave(loop, job);
    (void)pthread_mutex_unlock(&loop->lock);
}

/* ---- A run ---- */

/* When each comes. */
static enum base_status draw_arrivals(struct bench_open_loop *loop, struct base_error *error)
{
    const struct bench_open_run *run = loop->run;
    const double expected = run->rate * run->seconds;
    if (expected > ARRIVALS_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%.0f arrivals are more than %u", expected,
                         ARRIVALS_MAX);
    }
    const uint32_t open = expected < 1 ? 1 : (uint32_t)expected;
    const uint32_t n = is_open(loop) ? open : run->clients;
    loop->arrivals = base_alloc_array(n, sizeof *loop->arrivals);
    if (loop->arrivals == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for %u arrivals", n);
    }
    struct base_random random;
    base_random_init(&random, run->seed);
    double at_ns = 0;
    for (uint32_t i = 0; i < n; i++) {
        at_ns += is_open(loop) ? base_random_exponential(&random, 1e9 / run->rate) : 0;
        loop->arrivals[i] = (struct arrival){.when_ns = (uint64_t)at_ns, .number = i};
    }
    loop->n_arrivals = n;
    loop->drawn = n;
    return BASE_OK;
}

static enum base_status prepare(struct bench_open_loop *loop, struct base_error *error)
{
    const struct bench_open_run *run = loop->run;
    uint32_t longest = 1;
    for (uint32_t i = 0; i < bench_requests_kinds(&loop->requests); i++) {
        const uint32_t steps = bench_requests_extent(&loop->requests, i).steps;
        longest = steps > longest ? steps : longest;
    }
    base_assert(run->policy.most <= loop->requests.count);
    if (is_of_trees(loop) && run->policy.kind == BENCH_GRAPH) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "trees are not padded: no graph:WIDTH");
    }
    BASE_TRY(draw_arrivals(loop, error));
    BASE_TRY(
        bench_batching_create(&run->policy, loop->n_arrivals, longest, &loop->batching, error));
    loop->arrived = 0;
    loop->is_closing = false;
    loop->status = BASE_OK;
    loop->done = NONE;
    loop->free = NONE;
    for (uint32_t i = loop->requests.count; i-- > 0;) {
        loop->places[i].next = loop->free;
        loop->free = i;
    }
    return BASE_OK;
}

static void start(struct bench_open_loop *loop)
{
    const uint64_t ns = (uint64_t)(loop->run->seconds * 1e9);
    loop->start_ns = base_now_ns();
    loop->last_ns = loop->start_ns;
    loop->warm_ns = loop->start_ns + ns / WARM_PART;
    loop->end_ns = loop->start_ns + ns;
    for (uint32_t i = 0; i < loop->n_arrivals; i++) {
        loop->arrivals[i].when_ns += loop->start_ns;
    }
}

/* Lets in who has come, and says when the next comes; BASE_NEVER: nobody any more. */
static uint64_t look(struct bench_open_loop *loop)
{
    (void)pthread_mutex_lock(&loop->lock);
    advance(loop, base_now_ns());
    const uint64_t next = loop->arrived < loop->n_arrivals && !loop->is_closing
                              ? loop->arrivals[loop->arrived].when_ns
                              : BASE_NEVER;
    (void)pthread_mutex_unlock(&loop->lock);
    return next;
}

static void wait_until_over(struct bench_open_loop *loop)
{
    for (;;) {
        const uint64_t next = look(loop);
        const uint64_t now = base_now_ns();
        const uint64_t timeout = next == BASE_NEVER ? BASE_WAIT_FOREVER
                                 : next > now       ? next - now
                                                    : 0;
        if (base_event_wait(&loop->over, 0, timeout)) {
            return;
        }
    }
}

enum base_status bench_open_loop_run(struct bench_open_loop *loop, const struct bench_open_run *run,
                                     struct bench_open_result *out, struct base_error *error)
{
    struct bench_type_tally before[CELL_TYPES_MAX];
    memset(before, 0, sizeof before);
    memset(out, 0, sizeof *out);
    base_hist_init(&out->latency_ns);
    loop->run = run;
    loop->result = out;
    enum base_status status = prepare(loop, error);
    if (status == BASE_OK) {
        bench_tally_read(loop->engine, loop->requests.cells, before);
        start(loop);
        wait_until_over(loop);
        bench_tally_read(loop->engine, loop->requests.cells, out->types);
        bench_tally_subtract(out->types, before);
        if (is_open(loop)) {
            rate_until_now(loop);
        }
        status = loop->status == BASE_OK ? BASE_OK
                                         : base_fail(error, loop->status, "the device failed: %s",
                                                     base_status_name(loop->status));
    }
    bench_batching_free(loop->batching);
    base_free(loop->arrivals);
    loop->batching = NULL;
    loop->arrivals = NULL;
    return status;
}

/* ---- Life ---- */

enum base_status bench_open_loop_create(struct srv_engine *engine, const struct cell_model *cells,
                                        const struct bench_load *load, struct bench_open_loop **out,
                                        struct base_error *error)
{
    struct bench_open_loop *loop = base_alloc(sizeof *loop);
    if (loop == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    (void)pthread_mutex_init(&loop->lock, NULL);
    base_event_init(&loop->over);
    loop->engine = engine;
    loop->places = base_alloc_array(load->present, sizeof *loop->places);
    enum base_status status = loop->places == NULL
                                  ? base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory")
                                  : bench_requests_create(cells, load, &loop->requests, error);
    if (status != BASE_OK) {
        bench_open_loop_free(loop);
        return status;
    }
    for (uint32_t i = 0; i < load->present; i++) {
        loop->requests.all[i].owner = loop;
        loop->requests.all[i].job.finished = finished;
    }
    *out = loop;
    return BASE_OK;
}

void bench_open_loop_free(struct bench_open_loop *loop)
{
    if (loop != NULL) {
        bench_requests_release(&loop->requests);
        base_free(loop->places);
        (void)pthread_mutex_destroy(&loop->lock);
        base_free(loop);
    }
}
