/* Requests of sessions: each has its turn when those before it have been answered, reads the states
 * that they left, and leaves its own.
 *
 * A request that fails changes nothing: the session stays as the one before it left it, so that it
 * may be sent again. Who waits behind it was meant for states that now do not come, and fails too.
 *
 * Data: of each session the flight whose turn it is and a list of those that wait for theirs; the
 * states, in the session's memory, are read by the device where they lie, since nobody else is at
 * work with them. Loop thread. A flight's `done` may start requests of the same session, or stop
 * others: what is done here is therefore complete before any is called. */
#include "base/assert.h"
#include "base/clock.h"
#include "server/about.h"
#include "server/core_state.h"

#include <inttypes.h>
#include <string.h>

/* States lie in a session's memory at multiples of this. */
#define STATE_ALIGN 64u

/* Whether requests may go on from here. */
static bool is_open(const struct srv_session *session)
{
    return session != NULL && session->next_step > 0 && !session->ends;
}

/* ---- States ---- */

static bool is_state_input(const struct cell_model *cells, const char *name)
{
    bool is_state = false;
    for (uint32_t s = 0; s < cells->n_states && !is_state; s++) {
        is_state = strcmp(cells->inputs[cells->states[s].input].name, name) == 0;
    }
    return is_state;
}

static bool is_state_output(const struct cell_model *cells, uint32_t output)
{
    bool is_state = false;
    for (uint32_t s = 0; s < cells->n_states && !is_state; s++) {
        is_state = cells->states[s].output == output;
    }
    return is_state;
}

static bool is_among(const char *name, const char *const *names, uint32_t n)
{
    bool is_there = false;
    for (uint32_t i = 0; i < n && !is_there; i++) {
        is_there = strcmp(names[i], name) == 0;
    }
    return is_there;
}

static bool is_output(const struct cell_model *cells, const char *name)
{
    bool is_there = false;
    for (uint32_t o = 0; o < cells->n_outputs && !is_there; o++) {
        is_there = strcmp(cells->outputs[o].name, name) == 0;
    }
    return is_there;
}

enum base_status srv_core__hide_states(struct srv_request *request, const struct cell_model *cells)
{
    if (cells->n_states == 0 || request->n_wanted > 0) {
        return BASE_OK;
    }
    const char **wanted = base_arena_array(&request->arena, cells->n_outputs, sizeof(wanted[0]));
    if (wanted == NULL) {
        return base_fail(&request->error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    for (uint32_t o = 0; o < cells->n_outputs; o++) {
        if (!is_state_output(cells, o)) {
            wanted[request->n_wanted++] = cells->outputs[o].name;
        }
    }
    request->wanted = wanted;
    return BASE_OK;
}

/* What the device is to write: what the client wants, and behind it the states. */
static enum base_status want_states(struct srv_flight *flight)
{
    struct srv_request *request = flight->request;
    const struct cell_model *cells = flight->model->cells;
    BASE_TRY(srv_core__hide_states(request, cells));
    const uint32_t n = request->n_wanted;
    const char **wanted = base_arena_array(&request->arena, n + cells->n_states, sizeof(wanted[0]));
    if (wanted == NULL) {
        return base_fail(&request->error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!is_output(cells, request->wanted[i])) {
            return BASE_OK; // it will be refused by that name
        }
        wanted[i] = request->wanted[i];
    }
    flight->n_visible = n;
    for (uint32_t s = 0; s < cells->n_states; s++) {
        const char *name = cells->outputs[cells->states[s].output].name;
        if (!is_among(name, wanted, n)) {
            wanted[request->n_wanted++] = name;
        }
    }
    request->wanted = wanted;
    return BASE_OK;
}

/* The tensor of state s of a session of so many rows; *offset, its place in memory, moves on. */
static struct srv_tensor tensor_of(const struct cell_model *cells, uint32_t s, uint32_t n_rows,
                                   size_t *offset)
{
    const struct cell_tensor *input = &cells->inputs[cells->states[s].input];
    const struct srv_datatype *datatype = srv_about_datatype_of(input);
    struct srv_tensor made = {.name = input->name,
                              .datatype = datatype->name,
                              .rank = input->rank,
                              .bytes = datatype->bytes};
    for (uint32_t k = 0; k < input->rank; k++) {
        made.shape[k] = input->batch_axis == (int32_t)k ? n_rows : input->dims[k];
        made.bytes *= (size_t)made.shape[k]; // an output of this size was laid out
    }
    *offset += (made.bytes + STATE_ALIGN - 1) / STATE_ALIGN * STATE_ALIGN;
    return made;
}

/* The states as inputs of the request. */
static enum base_status bring_states(struct srv_flight *flight)
{
    struct srv_request *request = flight->request;
    const struct srv_session *session = flight->session;
    const struct cell_model *cells = flight->model->cells;
    const uint32_t n = request->n_inputs;
    for (uint32_t i = 0; i < n; i++) {
        if (is_state_input(cells, request->inputs[i].name)) {
            return base_fail(&request->error, BASE_INVALID_ARGUMENT,
                             "input '%s' is a state that the session has; only its first request "
                             "may bring it",
                             request->inputs[i].name);
        }
    }
    struct srv_tensor *inputs =
        base_arena_array(&request->arena, n + cells->n_states, sizeof(*inputs));
    if (inputs == NULL) {
        return base_fail(&request->error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    if (n > 0) {
        memcpy(inputs, request->inputs, n * sizeof(*inputs));
    }
    size_t offset = 0;
    for (uint32_t s = 0; s < cells->n_states; s++) {
        const uint8_t *data = session->states + offset;
        inputs[n + s] = tensor_of(cells, s, session->n_rows, &offset);
        inputs[n + s].data = data;
    }
    request->inputs = inputs;
    request->n_inputs = n + cells->n_states;
    return BASE_OK;
}

enum base_status srv_core__reserve_states(struct srv_flight *flight)
{
    size_t bytes = 0;
    if (flight->session == NULL || !flight->request->sequence.is_start) {
        return BASE_OK;
    }
    const struct cell_model *cells = flight->model->cells;
    for (uint32_t s = 0; s < cells->n_states; s++) {
        (void)tensor_of(cells, s, flight->n_rows, &bytes);
    }
    return srv_sessions_make_room(&flight->core->sessions, flight->session, bytes,
                                  &flight->request->error);
}

static const struct srv_tensor *find_tensor(const struct srv_tensor *tensors, uint32_t n,
                                            const char *name)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(tensors[i].name, name) == 0) {
            return &tensors[i];
        }
    }
    return NULL;
}

/* Whether the row had no step of what makes state s. */
static bool stood_still(const struct srv_flight *flight, uint32_t s, uint32_t row)
{
    const struct cell_model *cells = flight->model->cells;
    const struct cell_source *from = &cells->output_sources[cells->states[s].output][0];
    const struct sched_stream *stream = flight->sequences.stream;
    if (stream != NULL && from->kind == CELL_SOURCE_KEPT) {
        const struct cell_source *of = &cells->histories[from->index].source;
        return (of->kind == CELL_SOURCE_INPUT
                    ? stream->given[row]
                    : stream->taken[(size_t)of->stage * flight->n_rows + row]) == 0;
    }
    if (stream != NULL && from->kind == CELL_SOURCE_COUNT) {
        return false;
    }
    if (from->kind == CELL_SOURCE_LAST_STATE) {
        const struct cell_stage *stage = &cells->stages[from->stage];
        const bool is_of_stream = stream != NULL && stage->kind == CELL_STAGE_CHAIN;
        return (is_of_stream ? stream->taken[(size_t)from->stage * flight->n_rows + row]
                             : flight->sequences.steps[stage->sequence][row]) == 0;
    }
    bool stood_still = cells->n_sequences > 0;
    for (uint32_t q = 0; q < cells->n_sequences && stood_still; q++) {
        stood_still = flight->sequences.steps[q][row] == 0;
    }
    return stood_still;
}

/* Copies the row on the axis from one tensor to another of its shape. */
static void copy_row(uint8_t *to, const struct srv_tensor *from, uint32_t axis, uint32_t row)
{
    size_t outer = 1;
    for (uint32_t k = 0; k < axis; k++) {
        outer *= (size_t)from->shape[k];
    }
    const size_t n_rows = (size_t)from->shape[axis];
    const size_t bytes = outer == 0 || n_rows == 0 ? 0 : from->bytes / outer / n_rows;
    for (size_t o = 0; o < outer; o++) {
        memcpy(to + (o * n_rows + row) * bytes, from->data + (o * n_rows + row) * bytes, bytes);
    }
}

/* A row that has never had a step, in the session's memory. */
static void begin_row(const struct cell_model *cells, const struct cell_model_state *state,
                      uint8_t *to, uint32_t row)
{
    const struct cell_tensor *input = &cells->inputs[state->input];
    const size_t bytes = (size_t)input->width * cell_dtype_bytes(input->dtype);
    if (state->or_start) {
        base_assert(input->batch_axis <= 0 && bytes <= sizeof(cells->decoder.start));
        memcpy(to + row * bytes, cells->decoder.start, bytes);
    }
}

/* A client that asks for a state gets what the session has, also of a row without a step, for which
 * the device wrote nothing. */
static void show_state(const struct srv_tensor *answer, const uint8_t *state)
{
    union {
        const uint8_t *in;
        uint8_t *out; // the request's own memory; see place_output()
    } address = {.in = answer->data};
    memcpy(address.out, state, answer->bytes);
}

/* The states that the request has left are the session's, but for those of rows without a step:
 * these have theirs still. */
static void keep_states(struct srv_session *session, struct srv_flight *flight)
{
    const struct srv_request *request = flight->request;
    const struct cell_model *cells = flight->model->cells;
    size_t offset = 0;
    for (uint32_t s = 0; s < cells->n_states; s++) {
        const struct cell_model_state *state = &cells->states[s];
        const struct cell_tensor *input = &cells->inputs[state->input];
        uint8_t *to = session->states + offset;
        const struct srv_tensor *before =
            find_tensor(request->inputs, request->n_inputs, input->name);
        const struct srv_tensor *after =
            find_tensor(request->outputs, request->n_outputs, cells->outputs[state->output].name);
        const struct srv_tensor room = tensor_of(cells, s, flight->n_rows, &offset);
        const uint32_t axis = input->batch_axis < 0 ? 0 : (uint32_t)input->batch_axis;
        base_assert(after != NULL && after->bytes == room.bytes);
        const bool is_first = before == NULL && state->is_made; // then all rows are written
        if (input->batch_axis < 0 && (is_first || !stood_still(flight, s, 0))) {
            memcpy(to, after->data, after->bytes);
        } else if (input->batch_axis < 0 && before != NULL && before->data != to) {
            memcpy(to, before->data, before->bytes);
        } else if (input->batch_axis < 0 && before == NULL) {
            begin_row(cells, state, to, 0);
        }
        for (uint32_t row = 0; input->batch_axis >= 0 && row < flight->n_rows; row++) {
            const struct srv_tensor *from =
                is_first || !stood_still(flight, s, row) ? after : before;
            if (from == NULL) {
                begin_row(cells, state, to, row);
            } else if (from->data != to) {
                copy_row(to, from, axis, row);
            }
        }
        if (after < request->outputs + flight->n_visible) {
            show_state(after, to);
        }
    }
    base_assert(offset == session->bytes);
    session->n_rows = flight->n_rows;
}

/* ---- Turns ---- */

/* Who waits from this flight on has no states to go on from. */
static void lose_from(struct srv_session *session, struct srv_flight *flight)
{
    while (flight != NULL) {
        struct srv_flight *next = flight->next;
        srv_flights_remove(&session->waiting, flight);
        flight->phase = SRV_PHASE_LOST;
        srv_flights_add(&session->lost, flight);
        flight = next;
    }
}

static void leave_line(struct srv_flight *flight)
{
    srv_core__wait_end(flight);
    srv_deadlines_remove(&flight->core->deadlines, &flight->deadline);
}

static void answer_lost(struct srv_session *session)
{
    while (session->lost.first != NULL) {
        struct srv_flight *flight = session->lost.first;
        srv_flights_remove(&session->lost, flight);
        leave_line(flight);
        base_fail(&flight->request->error, BASE_FAILED_PRECONDITION,
                  "a request before it in session '%s' failed, so that it has no state to go on "
                  "from",
                  session->id);
        srv_core__answer_failed(flight);
    }
}

void srv_core__settle_session(struct srv_core *core, struct srv_request *request)
{
    struct srv_session *session = request->session;
    struct srv_flight *flight = session->running;
    base_assert(flight != NULL && flight->request == request);
    (void)core;
    if (request->error.status == BASE_OK) {
        keep_states(session, flight);
        request->n_outputs = flight->n_visible;
        return;
    }
    // What the session was before it: of a first request nothing.
    session->next_step = flight->session_step;
    session->ends = false;
    lose_from(session, session->waiting.first);
}

static enum base_status prepare(struct srv_flight *flight)
{
    BASE_TRY(want_states(flight));
    return flight->request->sequence.is_start ? BASE_OK : bring_states(flight);
}

/* It is the flight's turn. */
static void begin_turn(struct srv_session *session, struct srv_flight *flight)
{
    base_assert(session->running == NULL);
    session->running = flight;
    flight->request->session = session;
    if (prepare(flight) != BASE_OK) {
        srv_core__answer_failed(flight);
        return;
    }
    srv_core__begin(flight);
}

void srv_core__turn_session(struct srv_core *core, struct srv_session *session)
{
    answer_lost(session);
    session->running = NULL;
    if (session->is_turning) {
        return; // a request that was answered at once; the loop below goes on
    }
    session->is_turning = true;
    while (session->running == NULL && session->waiting.first != NULL) {
        struct srv_flight *flight = session->waiting.first;
        srv_flights_remove(&session->waiting, flight);
        leave_line(flight);
        begin_turn(session, flight);
    }
    session->is_turning = false;
    if (session->running != NULL) {
        return;
    }
    const struct srv_model_entry *model = session->owner;
    if (is_open(session) && !model->is_retired) {
        srv_sessions_set_idle(&core->sessions, session);
    } else {
        srv_sessions_remove(&core->sessions, session);
    }
}

void srv_core__stop_turn(struct srv_flight *flight, enum base_status why)
{
    struct srv_session *session = flight->session;
    base_assert(session->running != NULL);
    // What comes next is what it was, or a beginning, as it was one.
    session->next_step = flight->session_step;
    session->ends = false;
    lose_from(session, flight->next);
    srv_flights_remove(&session->waiting, flight);
    leave_line(flight);
    srv_core__fail_waiting(flight, why);
    flight->core->counters.cancelled_waiting += why == BASE_CANCELLED ? 1 : 0;
    srv_core__answer_failed(flight);
    answer_lost(session);
}

/* ---- Coming ---- */

static enum base_status check_sequence(const struct srv_request *request,
                                       const struct srv_session *session, struct base_error *error)
{
    const struct srv_sequence *sequence = &request->sequence;
    if (sequence->is_start && is_open(session)) {
        return base_fail(error, BASE_ALREADY_EXISTS,
                         "session '%.100s' has begun already, and has not ended", sequence->id);
    }
    if (!sequence->is_start && !is_open(session)) {
        return base_fail(error, BASE_NOT_FOUND,
                         "no session '%.100s': it has not begun (sequence_start), has ended, or "
                         "was silent for too long (--session-idle-timeout)",
                         sequence->id);
    }
    const uint64_t step = sequence->is_start ? 0 : session->next_step;
    if (sequence->has_step && sequence->step != step) {
        return base_fail(error, BASE_FAILED_PRECONDITION,
                         "request %" PRIu64 " of session '%.100s', where %" PRIu64 " is next",
                         sequence->step, sequence->id, step);
    }
    return BASE_OK;
}

/* The flight waits until those before it are answered. */
static enum base_status wait_turn(struct srv_session *session, struct srv_flight *flight)
{
    BASE_TRY(srv_core__check_queue(flight));
    BASE_TRY(srv_core__arm_deadline(flight, base_now_ns()));
    flight->phase = SRV_PHASE_TURN;
    flight->request->flight = flight;
    srv_core__wait_begin(flight);
    srv_flights_add(&session->waiting, flight);
    return BASE_OK;
}

/* The session that the request names, made anew if it begins it; NULL: it may not, and why stands
 * in the request. */
static struct srv_session *find_session(struct srv_flight *flight)
{
    struct srv_core *core = flight->core;
    struct srv_request *request = flight->request;
    const char *id = request->sequence.id;
    if (flight->model->cells->n_states == 0) {
        base_fail(&request->error, BASE_INVALID_ARGUMENT,
                  "parameter 'sequence_id': model '%s' keeps no states between requests (states in "
                  "its config.yaml)",
                  flight->model->face.name);
        return NULL;
    }
    struct srv_session *session = srv_sessions_find(&core->sessions, flight->model, id);
    if (check_sequence(request, session, &request->error) != BASE_OK ||
        (session == NULL && srv_sessions_add(&core->sessions, flight->model, id, &session,
                                             &request->error) != BASE_OK)) {
        return NULL;
    }
    return session;
}

void srv_core__start_in_session(struct srv_core *core, struct srv_request *request,
                                struct srv_model_entry *model)
{
    struct srv_flight *flight = srv_core__flight_of(core, request, model);
    if (flight == NULL) {
        return;
    }
    struct srv_session *session = find_session(flight);
    if (session == NULL) {
        srv_core__answer_failed(flight);
        return;
    }
    const bool is_turn = session->running == NULL;
    flight->session = session;
    flight->session_step = request->sequence.is_start ? 0 : session->next_step;
    if (!is_turn && wait_turn(session, flight) != BASE_OK) {
        srv_core__answer_failed(flight);
        return;
    }
    session->next_step = flight->session_step + 1;
    session->ends = request->sequence.is_end;
    if (is_turn) {
        srv_sessions_set_busy(&core->sessions, session);
        begin_turn(session, flight);
    }
}
