/* Requests that a plug-in unfolds: they wait for its thread, one after the other in the order in
 * which they came, and then go on to admission like all others. Everything here runs on the loop
 * thread.
 *
 * A call is in time, or late: then its request is answered, those that wait behind it are refused,
 * and so is every new one until the plug-in has returned. The call itself, which holds copies of
 * what the plug-in reads, waits for that alone. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/core_state.h"
#include "server/plugin.h"

#include <string.h>

static struct srv_plugin_call *call_of(struct base_message *message)
{
    return (struct srv_plugin_call *)(void *)((char *)message -
                                              offsetof(struct srv_plugin_call, back));
}

static enum base_status fail_busy(const struct srv_model_entry *entry, struct base_error *error)
{
    return base_fail(error, BASE_UNAVAILABLE,
                     "model '%.100s': unfold.so has not returned from an earlier request",
                     entry->face.name);
}

/* ---- A call and its end ---- */

static void begin_next(struct srv_model_entry *entry);

static void late(uv_timer_t *timer)
{
    struct srv_model_entry *entry = timer->data;
    struct srv_unfolding *unfolding = &entry->unfolding;
    base_assert(unfolding->call != NULL);
    struct srv_flight *flight = unfolding->call->user;
    unfolding->is_late = true;
    log_warn("models", "model %s: unfold.so is late; its requests are refused until it returns",
             entry->face.name);
    if (flight != NULL) {
        unfolding->call->user = NULL;
        base_fail(&flight->request->error, BASE_DEADLINE_EXCEEDED,
                  "unfold.so took longer than %llu ms (unfold-deadline)",
                  (unsigned long long)(unfolding->deadline_ns / BASE_NS_PER_MS));
        srv_core__unfolded(flight, BASE_DEADLINE_EXCEEDED);
    }
    while (unfolding->flights.first != NULL) {
        flight = unfolding->flights.first;
        (void)fail_busy(entry, &flight->request->error);
        srv_core__unfolded(flight, BASE_UNAVAILABLE);
    }
}

/* From what the plug-in said to the graph. */
static enum base_status take_graph(struct srv_flight *flight, const struct srv_plugin_call *call)
{
    struct srv_request *request = flight->request;
    struct sched_dag dag;
    if (call->error.status != BASE_OK) {
        request->error = call->error;
        return call->error.status;
    }
    BASE_TRY(srv_validate_plugin(request, flight->model->cells, call, flight->inputs, &dag,
                                 &request->error));
    flight->n_rows = dag.n_ends;
    return sched_unfold_graph(&dag, &request->arena, &flight->job.graph, &request->error);
}

static void returned(struct base_message *message)
{
    struct srv_plugin_call *call = call_of(message);
    struct srv_model_entry *entry = call->owner;
    struct srv_flight *flight = call->user;
    struct srv_unfolding *unfolding = &entry->unfolding;
    unfolding->call = NULL;
    unfolding->is_late = false;
    if (!unfolding->core->is_closed) {
        uv_timer_stop(&unfolding->timer);
    }
    if (flight != NULL) {
        const uint64_t begun_ns = base_now_ns();
        const enum base_status status = take_graph(flight, call);
        flight->validated_ns += base_now_ns() - begun_ns;
        srv_plugin_call_free(call);
        srv_core__unfolded(flight, status);
    } else {
        srv_plugin_call_free(call);
    }
    begin_next(entry);
    srv_core__check_retired(unfolding->core, entry);
}

static enum base_status begin(struct srv_flight *flight)
{
    struct srv_model_entry *entry = flight->model;
    struct srv_unfolding *unfolding = &entry->unfolding;
    struct srv_plugin_call *call =
        srv_plugin_call_create(entry->cells, flight->values, entry->limits.sequence_length_max,
                               flight->request->arena.budget_bytes);
    if (call == NULL) {
        return base_fail(&flight->request->error, BASE_RESOURCE_EXHAUSTED,
                         "no memory for unfold.so");
    }
    call->user = flight;
    call->owner = entry;
    call->back.deliver = returned;
    unfolding->call = call;
    // One millisecond more than asked for, cut: never before.
    uv_timer_start(&unfolding->timer, late, unfolding->deadline_ns / BASE_NS_PER_MS + 1, 0);
    srv_plugin_post(entry->plugin, call);
    return BASE_OK;
}

static void begin_next(struct srv_model_entry *entry)
{
    struct srv_unfolding *unfolding = &entry->unfolding;
    while (unfolding->call == NULL && unfolding->flights.first != NULL &&
           !unfolding->core->is_closed) {
        struct srv_flight *flight = unfolding->flights.first;
        const enum base_status status = begin(flight);
        if (status != BASE_OK) {
            srv_core__unfolded(flight, status);
        }
    }
}

/* ---- For process.c and core.c ---- */

enum base_status srv_core__check_plugin(struct srv_flight *flight)
{
    struct srv_request *request = flight->request;
    const struct cell_model *cells = flight->model->cells;
    flight->inputs = base_arena_array(&request->arena, cells->n_inputs, sizeof(*flight->inputs));
    flight->values = base_arena_array(&request->arena, cells->n_inputs, sizeof(*flight->values));
    if (flight->inputs == NULL || flight->values == NULL) {
        return base_fail(&request->error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    if (flight->model->unfolding.is_late) {
        return fail_busy(flight->model, &request->error);
    }
    return srv_validate_plugin_inputs(request, cells, flight->inputs, flight->values,
                                      &request->error);
}

void srv_core__begin_plugin(struct srv_model_entry *entry)
{
    begin_next(entry);
}

void srv_core__drop_plugin(struct srv_flight *flight)
{
    struct srv_plugin_call *call = flight->model->unfolding.call;
    if (call != NULL && call->user == flight) {
        call->user = NULL; // what it says of it is thrown away
    }
}

enum base_status srv_core__open_plugin(struct srv_core *core, struct srv_model_entry *entry,
                                       const struct srv_model_source *source,
                                       struct base_error *error)
{
    BASE_TRY(srv_plugin_start(source->plugin, core->loop, error));
    entry->plugin = source->plugin;
    entry->unfolding.core = core;
    entry->unfolding.deadline_ns = source->unfold_deadline_ns;
    (void)uv_timer_init(&core->loop->uv, &entry->unfolding.timer); // it cannot fail
    entry->unfolding.timer.data = entry;
    return BASE_OK;
}

void srv_core__close_plugin(struct srv_model_entry *entry, uv_close_cb closed)
{
    srv_plugin_stop(entry->plugin);
    uv_close(srv_uv_handle(&entry->unfolding.timer), closed);
}
