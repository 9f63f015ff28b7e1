/* A core without cells. Each running request has a timer for its pace and its deadline. */
#include "tests/server/fake_core.h"

#include "base/assert.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

struct srv_flight {
    struct srv_core *core;
    struct srv_request *request;
    struct srv_flight *next, *previous;
    uv_timer_t timer;
    bool late;               /* the timer is the deadline's */
    enum base_status status; /* not BASE_OK: cancelled, and why */
    uint32_t steps, taken;   /* of parts */
};

static const struct cell_model sum_cells = {
    .n_inputs = 1,
    .n_outputs = 1,
    .inputs = {{.name = "tokens",
                .dtype = CELL_I64,
                .rank = 2,
                .dims = {CELL_DIM_ANY, CELL_DIM_ANY},
                .time_axis = 1,
                .piece_axis = -1,
                .width = 1,
                .id_bound = 60}},
    .outputs = {{.name = "sums",
                 .dtype = CELL_F32,
                 .rank = 2,
                 .dims = {CELL_DIM_ANY, 2},
                 .time_axis = -1,
                 .width = 2}},
    .n_sequences = 1,
};

static struct srv_signature sum_signature;

void fake_core_init(struct srv_core *core, struct srv_loop *loop)
{
    srv_signature_make(&sum_cells, NULL, &sum_signature);
    memset(core, 0, sizeof *core);
    core->loop = loop;
    core->ready = true;
    static const char *const versions[] = {"1", "1", "2"};
    for (uint32_t i = 0; i < 3; i++) {
        struct srv_model *model = &core->models[i];
        strncpy(model->name, i == 0 ? "broken" : "sum", sizeof model->name - 1);
        strncpy(model->version, versions[i], sizeof model->version - 1);
        model->state = i == 0 ? SRV_MODEL_UNAVAILABLE : SRV_MODEL_READY;
        model->signature = i == 0 ? NULL : &sum_signature;
    }
    strncpy(core->models[0].reason, "no such operator", sizeof core->models[0].reason - 1);
}

bool srv_core_is_ready(const struct srv_core *core)
{
    return core->ready && !core->draining;
}

bool srv_core_is_draining(const struct srv_core *core)
{
    return core->draining;
}

uint64_t srv_core_session_idle_ns(const struct srv_core *core)
{
    (void)core;
    return 60 * BASE_NS_PER_S;
}

uint32_t srv_core_models(const struct srv_core *core)
{
    (void)core;
    return 3;
}

const struct srv_model *srv_core_model_at(const struct srv_core *core, uint32_t index)
{
    base_assert(index < 3);
    return &core->models[index];
}

enum base_status srv_core_find_model(const struct srv_core *core, const char *name,
                                     const char *version, const struct srv_model **out,
                                     struct base_error *error)
{
    *out = NULL;
    for (uint32_t i = 0; i < 3; i++) {
        const struct srv_model *model = &core->models[i];
        if (strcmp(model->name, name) == 0 &&
            (version[0] == 0 || strcmp(model->version, version) == 0)) {
            *out = model;
        }
    }
    return *out != NULL ? BASE_OK
                        : base_fail(error, BASE_NOT_FOUND, "model '%s' version '%s' is not here",
                                    name, version);
}

const struct srv_counters *srv_core_counters(const struct srv_core *core)
{
    return &core->counters;
}

void srv_core_count_refused(struct srv_core *core, enum srv_protocol protocol,
                            enum base_status status)
{
    core->counters.requests_total[protocol][status]++;
}

void srv_core_write_metrics(const struct srv_core *core, struct base_buf *out)
{
    (void)core;
    base_buf_text(out, "# fake\n");
}

/* ---- Requests ---- */

static void answer(struct srv_core *core, struct srv_request *request, enum base_status status)
{
    if (status != BASE_OK) {
        base_fail(&request->error, status, "fake %s", base_status_text(status));
        srv_request_name_error(request->id, &request->error);
    }
    core->counters.requests_total[request->protocol][status]++;
    request->done(request);
}

static void set_sums(struct srv_request *request, const float *sums, uint32_t rows)
{
    request->outputs[0] = (struct srv_tensor){.name = "sums",
                                              .datatype = "FP32",
                                              .rank = 2,
                                              .shape = {rows, 2},
                                              .batch_axis = 0,
                                              .data = (const uint8_t *)sums,
                                              .bytes = rows * 2 * sizeof sums[0]};
    request->n_outputs = 1;
}

/* sums [rows, 2] from tokens [batch, time]. */
static enum base_status compute(struct srv_core *core, struct srv_request *request)
{
    const struct srv_tensor *tokens = &request->inputs[0];
    uint32_t batch = (uint32_t)tokens->shape[0];
    uint32_t time = (uint32_t)tokens->shape[1];
    uint32_t rows = core->answer_rows > 0 ? core->answer_rows : batch;
    float *sums = base_arena_array(&request->arena, rows, 2 * sizeof sums[0]);
    request->outputs = base_arena_array(&request->arena, 1, sizeof request->outputs[0]);
    if (sums == NULL || request->outputs == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (uint32_t row = 0; row < rows && row < batch; row++) {
        for (uint32_t step = 0; step < time; step++) {
            int64_t token;
            memcpy(&token, tokens->data + ((size_t)row * time + step) * sizeof token, sizeof token);
            sums[2 * row] += (float)token;
        }
        sums[2 * row + 1] = (float)time;
    }
    set_sums(request, sums, rows);
    return BASE_OK;
}

static void timer_closed_cb(uv_handle_t *handle)
{
    free(handle->data);
}

/* Takes the flight from the list and answers its request. */
static void land(struct srv_flight *flight, enum base_status status)
{
    struct srv_core *core = flight->core;
    struct srv_request *request = flight->request;
    request->flight = NULL;
    if (flight->previous != NULL) {
        flight->previous->next = flight->next;
    } else {
        core->first = flight->next;
    }
    if (flight->next != NULL) {
        flight->next->previous = flight->previous;
    }
    core->running--;
    uv_close(srv_uv_handle(&flight->timer), timer_closed_cb);
    if (status == BASE_OK) {
        status = core->fail != BASE_OK ? core->fail : compute(core, request);
    }
    answer(core, request, status);
}

static void timer_cb(uv_timer_t *timer)
{
    struct srv_flight *flight = timer->data;
    land(flight, flight->late ? BASE_DEADLINE_EXCEEDED : BASE_OK);
}

static void take_off(struct srv_core *core, struct srv_request *request, uint64_t deadline_ns)
{
    struct srv_flight *flight = calloc(1, sizeof *flight);
    base_assert(flight != NULL);
    flight->core = core;
    flight->request = request;
    flight->next = core->first;
    if (core->first != NULL) {
        core->first->previous = flight;
    }
    core->first = flight;
    core->running++;
    request->flight = flight;
    uv_timer_init(&core->loop->uv, &flight->timer);
    flight->timer.data = flight;
    uint64_t now_ns = srv_loop_update(core->loop);
    uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    uint64_t left_ms = deadline_ns == BASE_NEVER ? UINT64_MAX : left_ns / BASE_NS_PER_MS + 1;
    uint64_t pace_ms = core->pace == FAKE_HOLD ? UINT64_MAX : core->delay_ms;
    flight->late = left_ms < pace_ms;
    uint64_t wait_ms = flight->late ? left_ms : pace_ms;
    uv_update_time(&core->loop->uv);
    if (wait_ms != UINT64_MAX) {
        uv_timer_start(&flight->timer, timer_cb, wait_ms, 0);
    }
}

void srv_request_start(struct srv_core *core, struct srv_request *request)
{
    base_assert(srv_loop_is_owner(core->loop));
    core->started++;
    uint64_t deadline_ns = request->deadline_ns;
    if (request->timeout_ns > 0) {
        uint64_t end_ns = base_deadline_after(request->times.arrived_ns, request->timeout_ns);
        deadline_ns = end_ns < deadline_ns ? end_ns : deadline_ns;
    }
    core->last_deadline_ns = request->deadline_ns;
    core->last_timeout_ns = request->timeout_ns;
    struct base_error error;
    const struct srv_model *model = NULL;
    enum base_status status =
        srv_core_find_model(core, request->model_name, request->model_version, &model, &error);
    (void)snprintf(request->version, sizeof request->version, "%s",
                   model != NULL ? model->version : "");
    if (status == BASE_OK && core->draining) {
        status = BASE_UNAVAILABLE;
    } else if (status == BASE_OK &&
               (request->n_inputs != 1 || strcmp(request->inputs[0].name, "tokens") != 0 ||
                request->inputs[0].rank != 2)) {
        status = BASE_INVALID_ARGUMENT;
    }
    if (status != BASE_OK) {
        answer(core, request, status);
    } else if (core->pace != FAKE_AT_ONCE) {
        take_off(core, request, core->ignore_deadlines ? BASE_NEVER : deadline_ns);
    } else {
        answer(core, request, core->fail != BASE_OK ? core->fail : compute(core, request));
    }
}

void srv_request_cancel(struct srv_core *core, struct srv_request *request, enum base_status why)
{
    base_assert(srv_loop_is_owner(core->loop));
    base_assert(request->flight != NULL);
    core->cancels++;
    core->last_cancel = why;
    request->flight->status = why;
    if (!core->slow_cancels) {
        land(request->flight, why);
    }
}

void fake_core_progress(struct srv_core *core)
{
    struct srv_flight *next = NULL;
    for (struct srv_flight *at = core->first; at != NULL; at = next) {
        next = at->next;
        at->steps++;
        if (at->request->in_parts && at->status == BASE_OK) {
            at->request->progressed(at->request);
        }
    }
}

bool srv_request_take_part(struct srv_request *request)
{
    struct srv_flight *flight = request->flight;
    if (!request->in_parts || flight == NULL || flight->steps == flight->taken) {
        return false;
    }
    const uint32_t n = flight->steps - flight->taken;
    const uint32_t rows = flight->core->answer_rows > 0 ? flight->core->answer_rows : n;
    float *sums = base_arena_array(&request->arena, rows, 2 * sizeof sums[0]);
    request->outputs = base_arena_array(&request->arena, 1, sizeof request->outputs[0]);
    base_assert(sums != NULL && request->outputs != NULL);
    for (uint32_t row = 0; row < rows; row++) {
        sums[2 * row] = (float)(flight->taken + row + 1);
        sums[2 * row + 1] = (float)n;
    }
    flight->taken = flight->steps;
    set_sums(request, sums, rows);
    return true;
}

void fake_core_release(struct srv_core *core)
{
    while (core->first != NULL) {
        land(core->first, core->first->status);
    }
}

void fake_core_release_newest(struct srv_core *core)
{
    base_assert(core->first != NULL);
    land(core->first, core->first->status);
}

void fake_core_release_oldest(struct srv_core *core)
{
    struct srv_flight *oldest = core->first;
    base_assert(oldest != NULL);
    while (oldest->next != NULL) {
        oldest = oldest->next;
    }
    land(oldest, oldest->status);
}

/* ---- Loads and unloads ---- */

bool srv_core_has_control(const struct srv_core *core)
{
    return !core->control_off;
}

static void end_control(struct srv_core *core, struct srv_control *control)
{
    struct srv_control **at = &core->controls;
    while (*at != control) {
        at = &(*at)->next;
    }
    *at = control->next;
    core->controls_running--;
    control->error.status = BASE_OK;
    if (core->fail != BASE_OK) {
        base_fail(&control->error, core->fail, "fake %s of '%s'", base_status_text(core->fail),
                  control->name);
    }
    control->done(control);
}

void fake_core_end_controls(struct srv_core *core)
{
    while (core->controls != NULL) {
        end_control(core, core->controls);
    }
}

struct control_timer {
    uv_timer_t timer;
    struct srv_core *core;
    struct srv_control *control;
};

static void control_timer_cb(uv_timer_t *timer)
{
    struct control_timer *later = timer->data;
    end_control(later->core, later->control);
    uv_close(srv_uv_handle(timer), timer_closed_cb);
}

static void end_later(struct srv_core *core, struct srv_control *control)
{
    struct control_timer *later = calloc(1, sizeof *later);
    base_assert(later != NULL);
    later->core = core;
    later->control = control;
    uv_timer_init(&core->loop->uv, &later->timer);
    later->timer.data = later;
    uv_update_time(&core->loop->uv);
    uv_timer_start(&later->timer, control_timer_cb, core->delay_ms, 0);
}

/* What is refused before it begins. */
static enum base_status check_control(const struct srv_core *core, struct srv_control *control)
{
    if (core->control_off) {
        return base_fail(&control->error, BASE_FAILED_PRECONDITION, "fake control is off");
    }
    if (core->draining) {
        return base_fail(&control->error, BASE_UNAVAILABLE, "fake drain");
    }
    if (control->name[0] == '.') {
        return base_fail(&control->error, BASE_INVALID_ARGUMENT, "fake: '%s' is no name",
                         control->name);
    }
    return BASE_OK;
}

void srv_core_control(struct srv_core *core, struct srv_control *control)
{
    base_assert(srv_loop_is_owner(core->loop));
    if (check_control(core, control) != BASE_OK) {
        control->done(control);
        return;
    }
    core->controls_begun++;
    core->controls_running++;
    core->control_kind = control->kind;
    memcpy(core->control_name, control->name, sizeof core->control_name);
    control->next = core->controls;
    core->controls = control;
    if (core->pace == FAKE_AT_ONCE) {
        end_control(core, control);
    } else if (core->pace == FAKE_LATER) {
        end_later(core, control);
    }
}
