/* The loop's requests and what is counted of them.
 *
 * Threads: bench_loop_run() starts the requests and sleeps; everything else happens in finished()
 * on the pool thread, which owns all of it meanwhile. Time is taken from the graphs' own completion
 * times; both ends of the measurement are the first completion of a turn. */
#include "bench/closed_loop.h"

#include "base/assert.h"
#include "base/event.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

/* Requests that bench_loop_check() repeats, at most. */
#define CHECKED_MAX 32u

enum phase { FILLING, MEASURING, ENDING };

struct bench_loop {
    struct srv_engine *engine;
    const struct cell_model *cells;
    struct bench_requests requests; /* that are present */
    uint32_t next;
    enum phase phase;
    uint64_t window_ns, last_finished_ns;
    uint64_t finished, finished_at_start;
    uint32_t inside;
    enum base_status status; /* of the first request that failed */
    struct bench_tally start, end;
    struct base_event over;
};

/* ---- Counting, on the pool thread ---- */

static void read_tally(const struct bench_loop *loop, uint64_t now_ns, struct bench_tally *out)
{
    out->ns = now_ns;
    out->requests = loop->finished;
    out->allocations = base_alloc_count();
    out->busy_ns = srv_engine_busy_ns(loop->engine, 0);
    bench_tally_read(loop->engine, loop->cells, out->types);
}

/* The first completion of a turn. */
static void move_phase(struct bench_loop *loop, uint64_t now_ns)
{
    if (loop->phase == FILLING &&
        loop->finished >= loop->finished_at_start + loop->requests.count) {
        read_tally(loop, now_ns, &loop->start);
        loop->phase = MEASURING;
    } else if (loop->phase == MEASURING && now_ns - loop->start.ns >= loop->window_ns) {
        read_tally(loop, now_ns, &loop->end);
        loop->phase = ENDING;
    }
}

/* ---- Requests ---- */

/* The next length or tree. */
static void refill(struct bench_loop *loop, struct bench_request *request)
{
    bench_request_unfold(&loop->requests, request, loop->next, (struct bench_extent){0});
    loop->next = (loop->next + 1) % bench_requests_kinds(&loop->requests);
}

static void finished(struct srv_job *job)
{
    struct bench_request *request = (struct bench_request *)job;
    struct bench_loop *loop = request->owner;
    if (job->graph->status != BASE_OK) { // the device is lost: so are all others
        loop->status = loop->status == BASE_OK ? job->graph->status : loop->status;
        loop->phase = ENDING;
    }
    if (job->graph->finished_ns != loop->last_finished_ns) {
        loop->last_finished_ns = job->graph->finished_ns;
        move_phase(loop, job->graph->finished_ns);
    }
    loop->finished++;
    if (loop->phase != ENDING) {
        refill(loop, request);
        srv_engine_submit(loop->engine, job);
    } else if (--loop->inside == 0) {
        base_event_signal(&loop->over);
    }
}

enum base_status bench_loop_run(struct bench_loop *loop, uint64_t ns, struct bench_tally *out)
{
    loop->phase = FILLING;
    loop->window_ns = ns;
    loop->finished_at_start = loop->finished;
    loop->inside = loop->requests.count;
    for (uint32_t i = 0; i < loop->requests.count; i++) {
        refill(loop, &loop->requests.all[i]);
    }
    for (uint32_t i = 0; i < loop->requests.count; i++) {
        srv_engine_submit(loop->engine, &loop->requests.all[i].job);
    }
    base_event_wait(&loop->over, 0, BASE_WAIT_FOREVER);
    *out = (struct bench_tally){.ns = loop->end.ns - loop->start.ns,
                                .requests = loop->end.requests - loop->start.requests,
                                .allocations = loop->end.allocations - loop->start.allocations,
                                .busy_ns = loop->end.busy_ns - loop->start.busy_ns};
    memcpy(out->types, loop->end.types, sizeof(out->types));
    bench_tally_subtract(out->types, loop->start.types);
    return loop->status;
}

/* ---- Checking ---- */

static size_t bytes_of(const struct bench_loop *loop, const struct cell_tensor *tensor)
{
    return (size_t)bench_requests_rows(&loop->requests, tensor) * tensor->width *
           cell_dtype_bytes(tensor->dtype);
}

static double larger(double a, double b)
{
    return b <= a ? a : b; // a NaN is larger than all, as the second; as the first it stays
}

static double difference_of(const struct cell_tensor *tensor, const uint8_t *a, const uint8_t *b,
                            size_t bytes)
{
    const size_t size = cell_dtype_bytes(tensor->dtype);
    double worst = 0;
    for (size_t at = 0; at < bytes; at += size) {
        if (memcmp(a + at, b + at, size) == 0) {
            continue;
        }
        float x[2] = {0, 1}; // of numbers that are no floats any difference is one
        if (tensor->dtype == CELL_F32) {
            memcpy(&x[0], a + at, size);
            memcpy(&x[1], b + at, size);
        }
        const double difference = (double)x[0] - (double)x[1];
        worst = isnan(worst) ? worst : larger(worst, difference < 0 ? -difference : difference);
    }
    return worst;
}

/* The request alone; what its outputs were before is in kept, one behind the other. */
static enum base_status check_request(struct bench_loop *loop, struct bench_request *request,
                                      uint8_t *kept, double *worst)
{
    const struct cell_model *cells = loop->cells;
    size_t at = 0;
    for (uint32_t o = 0; o < cells->n_outputs; at += bytes_of(loop, &cells->outputs[o++])) {
        memcpy(kept + at, request->outputs[o].data, bytes_of(loop, &cells->outputs[o]));
    }
    loop->inside = 1;
    bench_request_unfold(&loop->requests, request, request->number, (struct bench_extent){0});
    srv_engine_submit(loop->engine, &request->job);
    base_event_wait(&loop->over, 0, BASE_WAIT_FOREVER);
    at = 0;
    for (uint32_t o = 0; o < cells->n_outputs; at += bytes_of(loop, &cells->outputs[o++])) {
        const double difference =
            difference_of(&cells->outputs[o], kept + at, request->outputs[o].data,
                          bytes_of(loop, &cells->outputs[o]));
        *worst = isnan(*worst) ? *worst : larger(*worst, difference);
    }
    return loop->status;
}

enum base_status bench_loop_check(struct bench_loop *loop, double *out)
{
    size_t bytes = 0;
    for (uint32_t o = 0; o < loop->cells->n_outputs; o++) {
        bytes += bytes_of(loop, &loop->cells->outputs[o]);
    }
    uint8_t *kept = base_alloc(bytes);
    enum base_status status = kept == NULL ? BASE_RESOURCE_EXHAUSTED : loop->status;
    *out = 0;
    for (uint32_t i = 0; i < loop->requests.count && i < CHECKED_MAX && status == BASE_OK; i++) {
        status = check_request(loop, &loop->requests.all[i], kept, out);
    }
    base_free(kept);
    return status;
}

/* ---- Life ---- */

enum base_status bench_loop_create(struct srv_engine *engine, const struct cell_model *cells,
                                   const struct bench_load *load, struct bench_loop **out,
                                   struct base_error *error)
{
    struct bench_loop *loop = base_alloc(sizeof(*loop));
    if (loop == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    loop->engine = engine;
    loop->cells = cells;
    base_event_init(&loop->over);
    enum base_status status = bench_requests_create(cells, load, &loop->requests, error);
    if (status != BASE_OK) {
        base_free(loop);
        return status;
    }
    for (uint32_t i = 0; i < load->present; i++) {
        loop->requests.all[i].owner = loop;
        loop->requests.all[i].job.finished = finished;
    }
    *out = loop;
    return BASE_OK;
}

void bench_loop_free(struct bench_loop *loop)
{
    bench_requests_release(&loop->requests);
    base_free(loop);
}
