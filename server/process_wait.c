/* Requests that wait for rows: a queue for each model, so that one with more requests than it can
 * be served does not hold back those of others.
 *
 * Models whose requests wait stand in a line, and whoever has had a request admitted goes to its
 * end. Within a model the first that came is the first. One that does not fit yet has a claim on
 * the rows that it needs: nobody behind it in the line takes of these, or a large one would wait
 * for ever; who needs other rows passes it. Loop thread. */
#include "base/assert.h"
#include "server/core_state.h"

/* ---- The line ---- */

static void line_add(struct srv_core *core, struct srv_model_entry *model)
{
    model->line_next = NULL;
    model->line_previous = core->line_last;
    *(core->line_last == NULL ? &core->line_first : &core->line_last->line_next) = model;
    core->line_last = model;
}

static void line_remove(struct srv_core *core, struct srv_model_entry *model)
{
    *(model->line_previous == NULL ? &core->line_first : &model->line_previous->line_next) =
        model->line_next;
    *(model->line_next == NULL ? &core->line_last : &model->line_next->line_previous) =
        model->line_previous;
    model->line_next = model->line_previous = NULL;
}

void srv_core__wait_begin(struct srv_flight *flight)
{
    flight->core->counters.requests_waiting++;
    flight->model->n_waiting++;
}

void srv_core__wait_end(struct srv_flight *flight)
{
    base_assert(flight->model->n_waiting > 0);
    flight->core->counters.requests_waiting--;
    flight->model->n_waiting--;
}

void srv_core__leave_queue(struct srv_flight *flight)
{
    struct srv_model_entry *model = flight->model;
    srv_flights_remove(&model->waiting, flight);
    srv_core__wait_end(flight);
    if (model->waiting.first == NULL) {
        line_remove(flight->core, model);
    }
}

/* ---- Claims ---- */

/* Whether one ahead in the line waits for rows that this one needs. */
static bool is_claimed(const struct srv_core *core, const struct sched_graph *graph)
{
    bool is_claimed = false;
    for (uint32_t i = 0; i < graph->n_needs; i++) {
        is_claimed = is_claimed || core->claims[graph->needs[i].layout] == core->round;
    }
    return is_claimed;
}

static void claim(struct srv_core *core, const struct sched_graph *graph)
{
    for (uint32_t i = 0; i < graph->n_needs; i++) {
        core->claims[graph->needs[i].layout] = core->round;
    }
}

/* Forgets all claims. */
static void begin_round(struct srv_core *core)
{
    core->round++;
}

/* Rows for the flight, unless others have a claim on them; then, or where there are none, it has
 * one too. */
static bool take_rows(struct srv_core *core, struct srv_flight *flight)
{
    const bool taken =
        !is_claimed(core, flight->job.graph) && srv_engine_reserve(core->engine, &flight->job);
    if (!taken) {
        claim(core, flight->job.graph);
    }
    return taken;
}

/* ---- Admission ---- */

enum base_status srv_core__check_queue(struct srv_flight *flight)
{
    struct srv_core *core = flight->core;
    const struct srv_model_entry *model = flight->model;
    if (model->n_waiting < core->options.queue_max) {
        return BASE_OK;
    }
    core->counters.rejected_queue_full++;
    return base_fail(&flight->request->error, core->options.queue_full_status,
                     "the queue is full: %u requests of model '%.100s' wait (--queue-max)",
                     model->n_waiting, model->face.name);
}

/* Admits the first of the model, which then goes to the line's end; false: it does not fit. */
static bool admit_first(struct srv_core *core, struct srv_model_entry *model)
{
    struct srv_flight *flight = model->waiting.first;
    const bool has_more = flight->next != NULL;
    if (!take_rows(core, flight)) {
        return false;
    }
    srv_core__leave_queue(flight);
    if (has_more) {
        line_remove(core, model);
        line_add(core, model);
    }
    srv_core__submit(flight);
    return true;
}

void srv_core__admit_waiting(struct srv_core *core)
{
    bool is_any = core->line_first != NULL;
    while (is_any) { // round by round, one of each model, until none fits
        is_any = false;
        begin_round(core);
        struct srv_model_entry *const last = core->line_last;
        struct srv_model_entry *next = NULL;
        for (struct srv_model_entry *model = core->line_first; model != NULL; model = next) {
            next = model == last ? NULL : model->line_next;
            is_any = admit_first(core, model) || is_any;
        }
    }
}

/* Whether rows may be taken past those that wait. */
static bool may_pass(struct srv_core *core, const struct srv_flight *flight)
{
    begin_round(core);
    for (const struct srv_model_entry *at = core->line_first; at != NULL; at = at->line_next) {
        claim(core, at->waiting.first->job.graph);
    }
    return flight->model->waiting.first == NULL && !is_claimed(core, flight->job.graph);
}

enum base_status srv_core__wait_or_submit(struct srv_flight *flight)
{
    struct srv_core *core = flight->core;
    struct srv_model_entry *model = flight->model;
    const bool is_first = core->line_first == NULL || may_pass(core, flight);
    if (is_first && srv_engine_reserve(core->engine, &flight->job)) {
        srv_core__submit(flight);
        return BASE_OK;
    }
    BASE_TRY(srv_core__check_queue(flight));
    flight->phase = SRV_PHASE_WAITING;
    if (model->waiting.first == NULL) {
        line_add(core, model);
    }
    srv_flights_add(&model->waiting, flight);
    srv_core__wait_begin(flight);
    return BASE_OK;
}
