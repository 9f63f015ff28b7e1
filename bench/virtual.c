/* Virtual time: see virtual.h.
 *
 * The scheduler's own batches, executed one after the other: at each step the clock goes on by what
 * the step would take, then rows whose chain has ended leave, requests come, and whoever stands in
 * the way of them ends after the step. One thread. */
#include "bench/virtual.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/random.h"
#include "scheduler/scheduler.h"

#include <string.h>

struct loop {
    const struct bench_virtual_run *run;
    struct bench_virtual_result *result;
    struct bench_requests requests;
    struct sched *sched;
    uint32_t *idle; /* requests that nobody uses, [n_idle] */
    uint32_t n_idle, drawn;
    double *came_ns; /* [requests] */
    double now_ns, next_ns, warm_ns;
    struct base_random random;
    double cells[CELL_TYPES_MAX], steps[CELL_TYPES_MAX], busy_ns[CELL_TYPES_MAX];
};

void bench_virtual_times_init(struct bench_virtual_times *times)
{
    *times = (struct bench_virtual_times){.gflops = 80,
                                          .near_gbytes = 100,
                                          .far_gbytes = 22,
                                          .near_bytes = 1u << 20,
                                          .batch_ns = 2000,
                                          .row_ns = 150};
}

static bool has_state(const struct cell_batch *batch)
{
    return batch->type->state_layout != CELL_LAYOUT_NONE;
}

static double step_ns(const struct bench_virtual_times *times, const struct cell_type *type,
                      double cells)
{
    const bool recurs = type->state_layout != CELL_LAYOUT_NONE;
    const double bytes = (double)type->weight_bytes * (recurs ? 0.5 : 1);
    const double reads =
        bytes / (bytes > times->near_bytes ? times->far_gbytes : times->near_gbytes);
    const double products = (double)type->flops * cells / times->gflops;
    return reads > products ? reads + products / 2 : products + reads / 2;
}

/* ---- Requests ---- */

static void go_in(struct loop *loop, double came_ns)
{
    const uint32_t index = loop->idle[--loop->n_idle];
    struct bench_request *request = &loop->requests.all[index];
    bench_request_unfold(&loop->requests, request, loop->drawn, (struct bench_extent){0});
    loop->drawn = (loop->drawn + 1) % bench_requests_kinds(&loop->requests);
    loop->came_ns[index] = came_ns;
    request->job.graph->user = request;
    sched_add(loop->sched, request->job.graph, (uint64_t)loop->now_ns);
}

/* Those that should have come by now, as far as there are requests. */
static bool arrive(struct loop *loop)
{
    const double rate = loop->run->rate;
    bool has_come = false;
    while (loop->n_idle > 0 && (rate == 0 || loop->next_ns <= loop->now_ns)) {
        go_in(loop, rate == 0 ? loop->now_ns : loop->next_ns);
        loop->next_ns += rate == 0 ? 0 : base_random_exponential(&loop->random, 1e9 / rate);
        has_come = true;
    }
    loop->result->is_full |= rate > 0 && loop->next_ns <= loop->now_ns;
    return has_come;
}

static void collect(struct loop *loop)
{
    struct bench_virtual_result *result = loop->result;
    struct sched_graph *next = NULL;
    for (struct sched_graph *graph = sched_take_finished(loop->sched); graph != NULL;
         graph = next) {
        next = graph->next_finished;
        const struct bench_request *request = graph->user;
        const uint32_t index = (uint32_t)(request - loop->requests.all);
        if (loop->now_ns >= loop->warm_ns) {
            base_hist_add(&result->latency_ns, (uint64_t)(loop->now_ns - loop->came_ns[index]));
            result->requests++;
        }
        loop->idle[loop->n_idle++] = index;
    }
}

/* ---- The device ---- */

/* Cells of the batch's step number `step`. */
static uint32_t count_cells(const struct cell_batch *batch, uint32_t step)
{
    uint32_t cells = 0;
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        const struct cell_batch_row *row = &batch->rows[i];
        const bool takes_it = row->tag != NULL && (!has_state(batch) || step < row->steps);
        cells += !takes_it ? 0 : has_state(batch) ? 1 : row->steps;
    }
    return cells;
}

/* Whether the row's chain ends with the step it has just done: it has answered. */
static bool has_answered(const struct loop *loop, const struct cell_batch_row *row)
{
    const struct sched_node *node = row->tag;
    const struct bench_request *request = node->graph->user;
    return row->wiring->end != NULL &&
           row->first_step + row->steps_done >=
               bench_requests_extent(&loop->requests, request->number).answer;
}

static void step_rows(struct loop *loop, struct cell_batch *batch, uint32_t step)
{
    for (uint32_t i = 0; i < batch->n_rows; i++) {
        struct cell_batch_row *row = &batch->rows[i];
        if (row->tag == NULL || (has_state(batch) && step >= row->steps)) {
            continue;
        }
        row->steps_done = has_state(batch) ? step + 1 : row->steps;
        if (has_answered(loop, row)) {
            row->has_ended = true;
            sched_row_ended(loop->sched, batch, i, (uint64_t)loop->now_ns);
        }
    }
}

static void execute(struct loop *loop, struct cell_batch *batch)
{
    const cell_type_id type = batch->type->id;
    const struct bench_virtual_times *times = &loop->run->times;
    bool is_in_way = false;
    loop->now_ns += times->batch_ns + times->row_ns * batch->n_rows;
    for (uint32_t cells = count_cells(batch, 0); cells > 0;) {
        const double ns = step_ns(times, batch->type, cells);
        loop->now_ns += ns;
        if (loop->now_ns >= loop->warm_ns) {
            loop->cells[type] += cells;
            loop->steps[type]++;
            loop->busy_ns[type] += ns;
        }
        step_rows(loop, batch, batch->steps_done++);
        collect(loop);
        is_in_way = (arrive(loop) && sched_is_in_way(loop->sched, 0)) || is_in_way;
        const bool ends =
            batch->interruptible && is_in_way && batch->steps_done >= batch->steps_min;
        cells =
            ends || batch->steps_done == batch->steps ? 0 : count_cells(batch, batch->steps_done);
    }
}

static void run_loop(struct loop *loop)
{
    const double end_ns = loop->run->seconds * 1e9;
    loop->warm_ns = end_ns / 10;
    (void)arrive(loop);
    while (loop->now_ns < end_ns) {
        struct cell_batch *batch = sched_next(loop->sched, 0, (uint64_t)loop->now_ns);
        if (batch == NULL) { // nobody is inside
            loop->now_ns = loop->next_ns;
        } else {
            execute(loop, batch);
            sched_retire(loop->sched, batch, (uint64_t)loop->now_ns);
            collect(loop);
        }
        (void)arrive(loop);
    }
}

/* ---- Life ---- */

/* Rows for all requests: of each layout as many as the one that needs most. */
static enum base_status open_rows(struct loop *loop, const struct cell_registry *registry)
{
    uint32_t most[CELL_LAYOUTS_MAX] = {0};
    struct bench_request *request = &loop->requests.all[0];
    for (uint32_t kind = 0; kind < bench_requests_kinds(&loop->requests); kind++) {
        bench_request_unfold(&loop->requests, request, kind, (struct bench_extent){0});
        const struct sched_graph *graph = request->job.graph;
        for (uint32_t n = 0; n < graph->n_needs; n++) {
            const struct sched_need *need = &graph->needs[n];
            most[need->layout] = need->rows > most[need->layout] ? need->rows : most[need->layout];
        }
    }
    for (uint32_t layout = 0; layout < cell_registry_layouts(registry); layout++) {
        const uint64_t rows = (uint64_t)most[layout] * loop->requests.count;
        if (rows > UINT32_MAX / 2) {
            return BASE_RESOURCE_EXHAUSTED;
        }
        if (rows > 0) {
            BASE_TRY(sched_layout_open(loop->sched, layout, (uint32_t)rows));
        }
    }
    return BASE_OK;
}

static enum base_status open_all(struct loop *loop, const struct cell_registry *registry,
                                 const struct cell_model *cells)
{
    struct sched_options options;
    sched_options_init_pumped(&options);
    options.rows_max = loop->run->rows_max;
    options.spans = true;
    BASE_TRY(sched_create(&options, &loop->sched));
    for (uint32_t s = 0; s < cells->n_stages; s++) {
        BASE_TRY(sched_type_set(loop->sched, cells->stages[s].type, s, 0));
    }
    BASE_TRY(open_rows(loop, registry));
    const uint32_t count = loop->requests.count;
    loop->idle = base_alloc_array(count, sizeof(*loop->idle));
    loop->came_ns = base_alloc_array(count, sizeof(*loop->came_ns));
    if (loop->idle == NULL || loop->came_ns == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    while (loop->n_idle < count) {
        loop->idle[loop->n_idle] = loop->n_idle;
        loop->n_idle++;
    }
    base_random_init(&loop->random, loop->run->seed);
    return BASE_OK;
}

static void close_all(struct loop *loop)
{
    if (loop->sched != NULL) {
        sched_cancel_all(loop->sched, BASE_CANCELLED, (uint64_t)loop->now_ns);
        (void)sched_take_finished(loop->sched);
        sched_free(loop->sched);
    }
    base_free(loop->idle);
    base_free(loop->came_ns);
    bench_requests_release(&loop->requests);
}

static void summarise(const struct loop *loop, struct bench_virtual_result *out)
{
    const double ns = loop->now_ns - loop->warm_ns;
    out->requests_per_s = (double)out->requests / ns * 1e9;
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        out->types[t].rows = loop->steps[t] > 0 ? loop->cells[t] / loop->steps[t] : 0;
        out->types[t].busy = loop->busy_ns[t] / ns;
    }
}

enum base_status bench_virtual_run(const struct cell_registry *registry,
                                   const struct cell_model *cells, const struct bench_load *load,
                                   const struct bench_virtual_run *run,
                                   struct bench_virtual_result *out, struct base_error *error)
{
    struct loop *loop = base_alloc(sizeof(*loop));
    memset(out, 0, sizeof(*out));
    base_hist_init(&out->latency_ns);
    if (loop == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    *loop = (struct loop){.run = run, .result = out};
    enum base_status status = bench_requests_create(cells, load, &loop->requests, error);
    if (status == BASE_OK) {
        status = open_all(loop, registry, cells);
        if (status == BASE_OK) {
            run_loop(loop);
            summarise(loop, out);
        } else {
            (void)base_fail(error, status, "out of memory");
        }
        close_all(loop);
    }
    base_free(loop);
    return status;
}
