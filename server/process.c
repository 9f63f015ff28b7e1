/* The request processor: a request's life from start to done.
 *
 * Data: the list of running flights, those of each model that wait for rows (process_wait.c), and
 * the heap of deadlines. Everything runs on the loop thread; a job's two callbacks run on the pool
 * thread and only post a message. A flight ends when its job has finished and, if a cancel was
 * posted, when that has been seen too: only then does nothing on the pool thread point into the
 * request any more. */
#include "base/assert.h"
#include "base/clock.h"
#include "server/about.h"
#include "server/core_state.h"
#include "server/labels.h"
#include "server/tensors.h"
#include "server/text.h"
#include "server/trim.h"

#include <stdio.h>
#include <string.h>

/* ---- Ending ---- */

static void count_rejection(struct srv_counters *counters, const struct srv_request *request)
{
    if (request->error.status == BASE_DEADLINE_EXCEEDED) {
        counters->rejected_deadline++;
    }
}

/* All numbers of one answered request change together: clients divide one by another. */
static void count_answer(struct srv_model_entry *model, const struct srv_request *request,
                         const struct srv_flight *flight, uint64_t now_ns)
{
    struct srv_model_stats *stats = &model->face.stats;
    const struct srv_times *times = &request->times;
    uint64_t all_ns = now_ns - times->arrived_ns;
    if (request->error.status != BASE_OK) {
        stats->fail.count++;
        stats->fail.ns += all_ns;
        return;
    }
    stats->inference_count += flight->n_rows;
    stats->execution_count++;
    stats->last_inference_ms = base_wall_ns() / BASE_NS_PER_MS;
    stats->success.count++;
    stats->success.ns += all_ns;
    uint64_t waited_ns = times->started_ns - times->arrived_ns;
    uint64_t input_ns = flight->validated_ns < waited_ns ? flight->validated_ns : waited_ns;
    stats->queue.count++;
    stats->queue.ns += waited_ns - input_ns;
    stats->compute_input.count++;
    stats->compute_input.ns += input_ns;
    stats->compute_infer.count++;
    stats->compute_infer.ns += times->computed_ns - times->started_ns;
    stats->compute_output.count++;
    stats->compute_output.ns += now_ns - times->computed_ns;
    base_hist_add(&model->face.duration_ns, all_ns);
    base_hist_add(&model->face.queue_ns, waited_ns);
    if (request->in_parts) {
        const uint64_t first_ns = flight->parts.steps > 0 ? flight->parts.first_ns : now_ns;
        base_hist_add(&model->face.first_part_ns, first_ns - times->arrived_ns);
    }
}

/* Answers a request that never became a flight, or whose flight is over. */
static void answer(struct srv_core *core, struct srv_request *request)
{
    base_assert(request->protocol < SRV_PROTOCOL_COUNT);
    core->counters.requests_total[request->protocol][request->error.status]++;
    count_rejection(&core->counters, request);
    srv_request_name_error(request->id, &request->error);
    request->flight = NULL;
    struct srv_session *session = request->session;
    if (session != NULL) {
        srv_core__settle_session(core, request);
    }
    request->done(request);
    if (session != NULL) {
        srv_core__turn_session(core, session);
    }
}

/* Answers the request of a flight, which is over, and lets go of its model. */
static void answer_flight(struct srv_flight *flight)
{
    struct srv_core *core = flight->core;
    struct srv_model_entry *model = flight->model;
    answer(core, flight->request); // and with it goes the flight's memory
    base_assert(model->n_flights > 0);
    model->n_flights--;
    srv_core__check_retired(core, model);
}

void srv_core__answer_failed(struct srv_flight *flight)
{
    count_answer(flight->model, flight->request, flight, base_now_ns());
    answer_flight(flight);
}

/* Who stopped it is said by status; by_device: not one of us, but the device. */
static void fail_flight(struct srv_flight *flight, enum base_status status, bool by_device)
{
    struct base_error *error = &flight->request->error;
    const char *text = by_device                          ? "the device failed while it was"
                       : status == BASE_DEADLINE_EXCEEDED ? "the deadline passed while it was"
                       : status == BASE_CANCELLED         ? "cancelled by the client while"
                                                          : "the server is stopping; it was";
    base_fail(error, status, "%s %s", text,
              flight->phase == SRV_PHASE_RUNNING ? "running" : "waiting");
}

void srv_core__fail_waiting(struct srv_flight *flight, enum base_status status)
{
    fail_flight(flight, status, false);
}

/* The flight's rows are free and nothing points to it any more. */
static void end_flight(struct srv_flight *flight)
{
    struct srv_core *core = flight->core;
    struct srv_request *request = flight->request;
    bool was_running = flight->phase == SRV_PHASE_RUNNING;
    srv_deadlines_remove(&core->deadlines, &flight->deadline);
    if (was_running) {
        srv_flights_remove(&core->running, flight);
        core->counters.requests_running--;
        srv_engine_credit(core->engine, &flight->job);
        request->times.started_ns = flight->job.graph->started_ns;
        request->times.computed_ns = flight->job.graph->finished_ns;
    } else {
        srv_core__leave_queue(flight);
    }
    if (request->error.status == BASE_CANCELLED) {
        *(was_running ? &core->counters.cancelled_running : &core->counters.cancelled_waiting) += 1;
    }
    count_answer(flight->model, request, flight, base_now_ns());
    answer_flight(flight);
    if (was_running) {
        srv_core__admit_waiting(core);
    }
    srv_core__check_idle(core);
}

/* The answer is read after the model may have gone. */
static enum base_status keep_names(struct srv_request *request)
{
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        struct srv_tensor *output = &request->outputs[i];
        const char *name = base_arena_text(&request->arena, output->name, strlen(output->name));
        if (name == NULL) {
            return base_fail(&request->error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
        }
        output->name = name;
    }
    return BASE_OK;
}

/* What the device has written becomes what is answered: a decoder's steps are cut, labels are all
 * that is left of theirs, ids become text. */
static enum base_status finish_outputs(struct srv_flight *flight)
{
    struct srv_request *request = flight->request;
    const struct cell_model *cells = flight->model->cells;
    const bool has_texts = srv_texts_has_outputs(flight->model->texts);
    const struct sched_sequences *sequences = &flight->sequences;
    const uint32_t *steps[CELL_SEQUENCES_MAX];
    memcpy(steps, sequences->steps, sizeof(steps));
    if (cells->unfold == CELL_UNFOLD_SEQ2SEQ && !cells->labels.is_on) {
        const uint32_t beam_width = sched_beam_width(sequences);
        const uint32_t width = beam_width > 0 ? beam_width : 1;
        const size_t n = (size_t)flight->n_rows * width;
        uint32_t *taken = has_texts ? base_arena_array(&request->arena, n, sizeof(*taken)) : NULL;
        if (has_texts && taken == NULL) {
            return base_fail(&request->error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
        }
        srv_trim(request, sequences, flight->job.graph, flight->parts.steps, taken);
        steps[cells->decoder.sequence] = taken;
    }
    sched_sequences_keep(sequences);
    if (cells->unfold == CELL_UNFOLD_CHAIN || cells->unfold == CELL_UNFOLD_SEQ2SEQ) {
        srv_tensors_turn_back(request, cells, sequences->outputs);
    }
    srv_tensors_narrow(request, cells);
    if (cells->labels.is_on) {
        BASE_TRY(srv_labels_collapse(request, sequences, flight->job.graph,
                                     &steps[cells->labels.sequence], &request->error));
    }
    BASE_TRY(srv_texts_write(flight->model->texts, cells, request, steps, flight->parts.steps > 0,
                             &request->error));
    return keep_names(request);
}

/* The pool is done with the flight when both answers that were asked for are back. */
static void flight_back(struct srv_flight *flight)
{
    if (!flight->finished || (flight->cancel_posted && !flight->cancel_seen)) {
        return;
    }
    enum base_status status = flight->job.graph->status;
    srv_core__close_parts(flight);
    if (status != BASE_OK) {
        bool stopped = flight->cancel_posted && status == flight->job.cancel_status;
        fail_flight(flight, status, !stopped);
    } else {
        (void)finish_outputs(flight); // what goes wrong stands in the request
    }
    end_flight(flight);
}

static void deliver_finished(struct base_message *message)
{
    struct srv_flight *flight =
        (struct srv_flight *)(void *)((char *)message -
                                      offsetof(struct srv_flight, finished_message));
    flight->finished = true;
    flight_back(flight);
}

static void deliver_cancelled(struct base_message *message)
{
    struct srv_flight *flight =
        (struct srv_flight *)(void *)((char *)message -
                                      offsetof(struct srv_flight, cancelled_message));
    flight->cancel_seen = true;
    flight_back(flight);
}

/* ---- The pool thread's side ---- */

static struct srv_flight *flight_of(struct srv_job *job)
{
    return (struct srv_flight *)(void *)((char *)job - offsetof(struct srv_flight, job));
}

static void job_finished(struct srv_job *job)
{
    struct srv_flight *flight = flight_of(job);
    srv_loop_post(flight->core->loop, &flight->finished_message);
}

static void job_cancelled(struct srv_job *job)
{
    struct srv_flight *flight = flight_of(job);
    srv_loop_post(flight->core->loop, &flight->cancelled_message);
}

/* ---- Starting ---- */

void srv_core__submit(struct srv_flight *flight)
{
    struct srv_core *core = flight->core;
    flight->phase = SRV_PHASE_RUNNING;
    flight->request->times.admitted_ns = base_now_ns();
    srv_flights_add(&core->running, flight);
    core->counters.requests_running++;
    flight->job.progressed = srv_core__job_progressed;
    flight->job.finished = job_finished;
    flight->job.cancelled = job_cancelled;
    flight->finished_message.deliver = deliver_finished;
    flight->cancelled_message.deliver = deliver_cancelled;
    srv_engine_submit(core->engine, &flight->job);
}

enum base_status srv_core__arm_deadline(struct srv_flight *flight, uint64_t now_ns)
{
    struct srv_core *core = flight->core;
    struct srv_request *request = flight->request;
    uint64_t at_ns = request->deadline_ns;
    if (request->timeout_ns > 0) {
        uint64_t by_ns = base_deadline_after(request->times.arrived_ns, request->timeout_ns);
        at_ns = by_ns < at_ns ? by_ns : at_ns;
    }
    flight->deadline = (struct srv_deadline){.at_ns = at_ns, .index = SRV_DEADLINE_OUT};
    if (at_ns == BASE_NEVER) {
        return BASE_OK;
    }
    if (at_ns <= now_ns) {
        return base_fail(&request->error, BASE_DEADLINE_EXCEEDED,
                         "the deadline had passed before the request could start");
    }
    if (srv_deadlines_add(&core->deadlines, &flight->deadline) != BASE_OK) {
        return base_fail(&request->error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (at_ns < core->timer_at_ns) {
        // One millisecond more than the difference, cut: never before the deadline.
        core->timer_at_ns = at_ns;
        uv_timer_start(&core->timer, srv_core__timer_fired, (at_ns - now_ns) / BASE_NS_PER_MS + 1,
                       0);
    }
    return BASE_OK;
}

/* Refuses what no device could ever hold or compute; else it waits for rows, or has them. */
static enum base_status admit(struct srv_flight *flight)
{
    struct srv_core *core = flight->core;
    struct srv_request *request = flight->request;
    if (!srv_engine_fits(core->engine, flight->job.graph)) {
        core->counters.rejected_too_large++;
        return base_fail(&request->error, BASE_RESOURCE_EXHAUSTED,
                         "a batch of %u rows needs more state rows than the server has (--rows)",
                         flight->n_rows);
    }
    if (srv_engine_check(core->engine, flight->job.graph, &request->error) != BASE_OK) {
        core->counters.rejected_too_large++;
        return request->error.status;
    }
    return srv_core__wait_or_submit(flight);
}

/* Sequences of no steps: the outputs, zeros, stand there already. */
static enum base_status answer_empty(struct srv_flight *flight)
{
    struct srv_request *request = flight->request;
    uint64_t now_ns = base_now_ns();
    BASE_TRY(finish_outputs(flight));
    request->times.admitted_ns = now_ns;
    request->times.started_ns = now_ns;
    request->times.computed_ns = now_ns;
    count_answer(flight->model, request, flight, now_ns);
    answer_flight(flight);
    return BASE_OK;
}

static enum base_status unfold_sequences(struct srv_flight *flight,
                                         const struct srv_text_rows *rows)
{
    struct srv_request *request = flight->request;
    struct sched_sequences *sequences = &flight->sequences;
    BASE_TRY(srv_validate(request, flight->model->cells, &flight->model->limits, rows, sequences,
                          &request->error));
    flight->n_rows = sequences->n_rows;
    return sched_unfold_chain(sequences, &request->arena, &flight->job.graph, &request->error);
}

static enum base_status unfold_trees(struct srv_flight *flight, const struct srv_text_rows *rows)
{
    struct srv_request *request = flight->request;
    struct sched_forest forest;
    BASE_TRY(srv_validate_tree(request, flight->model->cells, &flight->model->limits, rows, &forest,
                               &request->error));
    flight->n_rows = forest.n_roots;
    return sched_unfold_tree(&forest, &request->arena, &flight->job.graph, &request->error);
}

static enum base_status unfold_graph(struct srv_flight *flight)
{
    struct srv_request *request = flight->request;
    struct sched_dag dag;
    BASE_TRY(srv_validate_graph(request, flight->model->cells, &flight->model->limits, &dag,
                                &request->error));
    flight->n_rows = dag.n_ends;
    return sched_unfold_graph(&dag, &request->arena, &flight->job.graph, &request->error);
}

/* Of a plug-in's model only a warm-up comes here. */
static enum base_status unfold_sample(struct srv_flight *flight)
{
    struct srv_request *request = flight->request;
    struct sched_dag dag;
    BASE_TRY(srv_validate_plugin_sample(request, flight->model->cells, &flight->model->limits, &dag,
                                        &request->error));
    flight->n_rows = dag.n_ends;
    return sched_unfold_graph(&dag, &request->arena, &flight->job.graph, &request->error);
}

static enum base_status unfold(struct srv_flight *flight, const struct srv_text_rows *rows)
{
    switch (flight->model->cells->unfold) {
    case CELL_UNFOLD_CHAIN:
    case CELL_UNFOLD_SEQ2SEQ:
        return unfold_sequences(flight, rows);
    case CELL_UNFOLD_TREE:
        return unfold_trees(flight, rows);
    case CELL_UNFOLD_GRAPH:
        return unfold_graph(flight);
    case CELL_UNFOLD_PLUGIN:
        return unfold_sample(flight);
    case CELL_UNFOLD_TRANSDUCER:
        break; // such a model is one of SEQ2SEQ
    }
    base_assert(!"no such unfold program");
    return BASE_INTERNAL;
}

/* Gives the request to the model's plug-in; it comes back by srv_core__unfolded(). */
static enum base_status start_plugin(struct srv_flight *flight)
{
    struct srv_core *core = flight->core;
    struct srv_model_entry *entry = flight->model;
    const uint64_t begun_ns = base_now_ns();
    BASE_TRY(srv_core__check_plugin(flight));
    const uint64_t now_ns = base_now_ns();
    flight->validated_ns = now_ns - begun_ns;
    BASE_TRY(srv_core__check_queue(flight));
    BASE_TRY(srv_core__arm_deadline(flight, now_ns));
    flight->request->flight = flight;
    flight->phase = SRV_PHASE_UNFOLDING;
    srv_flights_add(&entry->unfolding.flights, flight);
    core->n_unfolding++;
    srv_core__wait_begin(flight);
    srv_core__begin_plugin(entry);
    return BASE_OK;
}

void srv_core__unfolded(struct srv_flight *flight, enum base_status status)
{
    struct srv_core *core = flight->core;
    base_assert(flight->phase == SRV_PHASE_UNFOLDING);
    srv_flights_remove(&flight->model->unfolding.flights, flight);
    core->n_unfolding--;
    srv_core__wait_end(flight);
    status = status == BASE_OK ? admit(flight) : status;
    if (status != BASE_OK) {
        srv_deadlines_remove(&core->deadlines, &flight->deadline);
        srv_core__answer_failed(flight);
        srv_core__check_idle(core);
    }
}

/* Checks, unfolds, admits. */
static enum base_status start_flight(struct srv_flight *flight)
{
    struct srv_request *request = flight->request;
    const struct cell_model *cells = flight->model->cells;
    struct srv_text_rows rows;
    uint64_t begun_ns = base_now_ns();
    if (cells->unfold == CELL_UNFOLD_PLUGIN && flight->model->face.state != SRV_MODEL_LOADING) {
        return start_plugin(flight);
    }
    BASE_TRY(srv_texts_read(flight->model->texts, cells, request, &rows, &request->error));
    BASE_TRY(unfold(flight, &rows));
    BASE_TRY(srv_core__reserve_states(flight));
    BASE_TRY(srv_core__open_parts(flight));
    uint64_t now_ns = base_now_ns();
    flight->validated_ns = now_ns - begun_ns;
    if (flight->job.graph == NULL) {
        return answer_empty(flight);
    }
    BASE_TRY(srv_core__arm_deadline(flight, now_ns));
    request->flight = flight;
    enum base_status status = admit(flight);
    if (status != BASE_OK) {
        srv_deadlines_remove(&flight->core->deadlines, &flight->deadline);
    }
    return status;
}

static void count_refused(const struct srv_request *request, struct srv_model_entry *model)
{
    model->face.stats.fail.count++;
    model->face.stats.fail.ns += base_now_ns() - request->times.arrived_ns;
}

static void refuse(struct srv_core *core, struct srv_request *request,
                   struct srv_model_entry *model)
{
    count_refused(request, model);
    answer(core, request);
}

void srv_core__begin(struct srv_flight *flight)
{
    const struct srv_request *request = flight->request;
    struct srv_model_entry *model = flight->model;
    if (start_flight(flight) != BASE_OK) {
        count_refused(request, model);
        answer_flight(flight);
    }
}

struct srv_flight *srv_core__flight_of(struct srv_core *core, struct srv_request *request,
                                       struct srv_model_entry *model)
{
    struct srv_flight *flight = base_arena_alloc(&request->arena, sizeof(*flight));
    if (flight == NULL) {
        base_fail(&request->error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
        refuse(core, request, model);
        return NULL;
    }
    flight->core = core;
    flight->request = request;
    flight->model = model;
    model->n_flights++;
    flight->deadline.index = SRV_DEADLINE_OUT;
    return flight;
}

void srv_core__start(struct srv_core *core, struct srv_request *request,
                     struct srv_model_entry *model)
{
    struct srv_flight *flight = srv_core__flight_of(core, request, model);
    if (flight != NULL) {
        srv_core__begin(flight);
    }
}

void srv_request_start(struct srv_core *core, struct srv_request *request)
{
    base_assert(srv_loop_is_owner(core->loop) && request->done != NULL);
    request->error = (struct base_error){.status = BASE_OK};
    request->flight = NULL;
    request->session = NULL;
    request->n_outputs = 0;
    const struct srv_model *model = NULL;
    const bool is_found = srv_core_find_model(core, request->model_name, request->model_version,
                                              &model, &request->error) == BASE_OK;
    snprintf(request->version, sizeof(request->version), "%s", is_found ? model->version : "");
    if (core->refusing) {
        core->counters.rejected_draining++;
        base_fail(&request->error, BASE_UNAVAILABLE, "the server is stopping");
    } else if (is_found && model->state != SRV_MODEL_READY) {
        srv_about_not_ready(model, &request->error);
    }
    if (request->error.status == BASE_OK && request->in_parts && request->progressed == NULL) {
        base_fail(&request->error, BASE_INVALID_ARGUMENT,
                  "parameter 'stream': this call has one answer; ModelStreamInfer and"
                  " generate_stream answer in parts");
    }
    if (model == NULL || request->error.status != BASE_OK) {
        answer(core, request);
        return;
    }
    struct srv_model_entry *entry = srv_model_entry_of(model);
    if (request->sequence.id != NULL) {
        srv_core__start_in_session(core, request, entry);
    } else if (srv_core__hide_states(request, entry->cells) != BASE_OK) {
        refuse(core, request, entry);
    } else {
        srv_core__start(core, request, entry);
    }
}

/* ---- Stopping early ---- */

static void stop_flight(struct srv_flight *flight, enum base_status why)
{
    if (flight->phase == SRV_PHASE_TURN) {
        srv_core__stop_turn(flight, why);
    } else if (flight->phase == SRV_PHASE_LOST) {
        return; // its answer is on the way
    } else if (flight->phase == SRV_PHASE_UNFOLDING) {
        fail_flight(flight, why, false);
        flight->core->counters.cancelled_waiting += why == BASE_CANCELLED ? 1 : 0;
        srv_core__drop_plugin(flight);
        srv_core__unfolded(flight, why);
    } else if (flight->phase == SRV_PHASE_WAITING) {
        fail_flight(flight, why, false);
        end_flight(flight);
    } else if (!flight->cancel_posted && !flight->finished) {
        flight->cancel_posted = true;
        srv_engine_cancel(flight->core->engine, &flight->job, why);
    }
}

void srv_request_cancel(struct srv_core *core, struct srv_request *request, enum base_status why)
{
    base_assert(srv_loop_is_owner(core->loop) && why != BASE_OK);
    if (request->flight != NULL) {
        stop_flight(request->flight, why);
        srv_core__admit_waiting(core); // those behind it may fit where it did not
    }
}

static void stop_unfolding(struct srv_model_entry *model)
{
    while (model->unfolding.flights.first != NULL) {
        stop_flight(model->unfolding.flights.first, BASE_UNAVAILABLE);
    }
}

void srv_core_cancel_all(struct srv_core *core)
{
    base_assert(core->refusing); // or answers could bring new requests without end
    for (struct srv_session *at = core->sessions.first; at != NULL; at = at->next) {
        while (at->waiting.last != NULL) { // from behind, so that none fails for another's sake
            stop_flight(at->waiting.last, BASE_UNAVAILABLE);
        }
    }
    for (uint32_t i = 0; i < core->n_models; i++) {
        stop_unfolding(core->models[i]);
    }
    for (struct srv_model_entry *at = core->retired; at != NULL; at = at->retired_next) {
        stop_unfolding(at);
    }
    while (core->line_first != NULL) {
        stop_flight(core->line_first->waiting.first, BASE_UNAVAILABLE);
    }
    for (struct srv_flight *flight = core->running.first; flight != NULL; flight = flight->next) {
        stop_flight(flight, BASE_UNAVAILABLE);
    }
}

void srv_core__timer_fired(uv_timer_t *timer)
{
    struct srv_core *core = timer->data;
    uint64_t now_ns = base_now_ns();
    core->timer_at_ns = BASE_NEVER;
    struct srv_deadline *first = NULL;
    while ((first = srv_deadlines_first(&core->deadlines)) != NULL && first->at_ns <= now_ns) {
        struct srv_flight *flight =
            (struct srv_flight *)(void *)((char *)first - offsetof(struct srv_flight, deadline));
        srv_deadlines_remove(&core->deadlines, first);
        stop_flight(flight, BASE_DEADLINE_EXCEEDED);
    }
    srv_core__admit_waiting(core); // those behind one that went may fit where it did not
    if (first != NULL) {
        core->timer_at_ns = first->at_ns;
        uv_timer_start(timer, srv_core__timer_fired, (first->at_ns - now_ns) / BASE_NS_PER_MS + 1,
                       0);
    }
}
