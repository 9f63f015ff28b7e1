/* One request of a run: start, deadline and cancel, accounting. Nothing here allocates, except that
 * the heap of the cancels grows. */
#include "loadgen/engine.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

/* ---- Deadlines ------------------------------------------------------------------------------- */

static void add_deadline(struct lg_engine *engine, struct lg_call *call)
{
    base_assert(engine->latest == NULL || engine->latest->deadline_ns <= call->deadline_ns);
    call->later = NULL;
    call->sooner = engine->latest;
    if (engine->latest == NULL) {
        engine->soonest = call;
    } else {
        engine->latest->later = call;
    }
    engine->latest = call;
}

static void remove_deadline(struct lg_engine *engine, struct lg_call *call)
{
    if (call->sooner == NULL) {
        engine->soonest = call->later;
    } else {
        call->sooner->later = call->later;
    }
    if (call->later == NULL) {
        engine->latest = call->sooner;
    } else {
        call->later->sooner = call->sooner;
    }
}

/* ---- Start ----------------------------------------------------------------------------------- */

static void read_message(const struct lg_rpc *rpc, uint64_t offset, size_t length, uint8_t *out)
{
    const struct lg_call *call = (const struct lg_call *)rpc;
    const uint64_t payload_bytes = lg_payload_bytes(call->payload, call->index);
    const uint64_t left = offset < payload_bytes ? payload_bytes - offset : 0;
    const size_t first = left < length ? (size_t)left : length;
    if (first > 0) {
        lg_payload_read(call->payload, call->index, offset, first, out);
    }
    if (first < length) {
        memcpy(out + first, call->behind + (offset + first - payload_bytes), length - first);
    }
}

/* Open loop: by the plan. Closed loop: what leaves while the window is open, up to the number
 * wanted. */
static bool is_measured(const struct lg_engine *engine, uint64_t index)
{
    const struct lg_run_spec *spec = engine->spec;
    if (spec->plan != NULL) {
        return index >= spec->plan->measured_first && index < spec->plan->measured_end;
    }
    return lg_window_is_open(engine) &&
           (spec->requests == 0 || engine->measured_started < spec->requests);
}

static void plan_cancel(struct lg_engine *engine, struct lg_call *call, uint64_t now_ns)
{
    const struct lg_run_spec *spec = engine->spec;
    call->we_cancel =
        spec->cancel_fraction > 0 && base_random_unit(&engine->random) < spec->cancel_fraction;
    if (call->we_cancel) {
        double delay_ns = base_random_unit(&engine->random) * (double)spec->cancel_after_ns;
        const struct lg_timer timer = {
            .when_ns = now_ns + (uint64_t)delay_ns, .what = call, .number = call->index};
        call->we_cancel = lg_timers_add(&engine->cancels, timer);
    }
}

/* What is asked: the payload, and parameters of the request behind it. */
static void set_message(struct lg_engine *engine, struct lg_call *call)
{
    // ModelInferRequest.parameters: {"stream": true}
    static const uint8_t in_parts[] = {0x22, 12,  0x0a, 6,    's', 't',  'r',
                                       'e',  'a', 'm',  0x12, 2,   0x08, 1};
    const struct lg_run_spec *spec = engine->spec;
    call->behind = in_parts;
    call->n_behind = spec->in_parts ? sizeof(in_parts) : 0;
    if (spec->session_requests > 0) {
        lg_session_next(&call->session, spec->session_requests, engine->run,
                        &engine->sessions_begun);
        call->behind = call->session.bytes;
        call->n_behind = call->session.n_bytes;
    }
    call->rpc.path = spec->in_parts ? LG_SERVICE "ModelStreamInfer" : LG_SERVICE "ModelInfer";
    call->rpc.is_stream = spec->in_parts;
    call->rpc.read = read_message;
    call->rpc.message_bytes = lg_payload_bytes(spec->payload, call->index) + call->n_behind;
}

void lg_call_start(struct lg_engine *engine, struct lg_call *call, uint64_t index,
                   uint64_t planned_ns, uint64_t now_ns)
{
    const struct lg_run_spec *spec = engine->spec;
    base_assert(call->rpc.state == LG_RPC_FREE);
    base_assert(planned_ns <= now_ns);
    call->payload = spec->payload;
    call->index = index;
    call->planned_ns = planned_ns;
    call->sent_ns = now_ns;
    call->measured = is_measured(engine, index);
    engine->measured_started += call->measured;
    if (call->measured) {
        lg_sends_add(&engine->sends, now_ns - planned_ns);
    }
    plan_cancel(engine, call, now_ns);
    set_message(engine, call);
    call->rpc.timeout_ns = 0;
    call->rpc.reply = NULL;
    call->deadline_ns = BASE_NEVER;
    if (spec->deadline_ns > 0) {
        call->deadline_ns = base_deadline_after(planned_ns, spec->deadline_ns);
        // One that is over is told to nobody: lg_calls_expire() comes before anything is written.
        call->rpc.timeout_ns = call->deadline_ns > now_ns ? call->deadline_ns - now_ns : 1;
        add_deadline(engine, call);
    }
    engine->started++;
    lg_client_start(spec->client, &call->rpc, index, now_ns);
}

void lg_calls_expire(struct lg_engine *engine, uint64_t now_ns)
{
    struct lg_client *client = engine->spec->client;
    struct lg_timer timer;
    while (lg_timers_pop(&engine->cancels, now_ns, &timer)) {
        struct lg_call *call = timer.what;
        if (call->index == timer.number) { // else used again since
            lg_client_cancel(client, &call->rpc, LG_CODE_CANCELLED, "cancelled", now_ns);
        }
    }
    while (engine->soonest != NULL && engine->soonest->deadline_ns <= now_ns) {
        struct lg_call *call = engine->soonest;
        remove_deadline(engine, call);
        call->deadline_ns = BASE_NEVER;
        lg_client_cancel(client, &call->rpc, LG_CODE_DEADLINE_EXCEEDED, "deadline exceeded",
                         now_ns);
    }
}

uint64_t lg_calls_next_ns(const struct lg_engine *engine)
{
    uint64_t deadline_ns = engine->soonest == NULL ? BASE_NEVER : engine->soonest->deadline_ns;
    return lg_earlier(deadline_ns, lg_timers_next(&engine->cancels));
}

/* ---- End ------------------------------------------------------------------------------------- */

static void account(struct lg_engine *engine, const struct lg_call *call)
{
    struct lg_result *result = engine->result;
    const struct lg_rpc *rpc = &call->rpc;
    if (rpc->code == LG_CODE_OK && lg_window_is_open(engine)) {
        result->ok_in_window++;
    }
    if (!call->measured) {
        return;
    }
    struct lg_outcome outcome = {
        .code = rpc->code,
        .we_cancelled = call->we_cancel,
        .unfinished = engine->expired && rpc->code == LG_CODE_CANCELLED,
        .planned_ns = call->planned_ns,
        .sent_ns = call->sent_ns,
        .first_ns = rpc->first_ns,
        .done_ns = rpc->ended_ns,
        .n_messages = rpc->n_messages,
        .message_bytes = rpc->message_bytes,
    };
    lg_result_add(result, &outcome);
    engine->measured_ended++;
    if (rpc->code != LG_CODE_OK && !call->we_cancel && !outcome.unfinished &&
        result->first_error[0] == '\0') {
        (void)snprintf(result->first_error, sizeof(result->first_error), "%.*s",
                       (int)sizeof(result->first_error) - 1, rpc->words);
    }
}

void lg_call_finish(struct lg_engine *engine, struct lg_call *call)
{
    base_assert(call->rpc.state == LG_RPC_FREE && engine->ended < engine->started);
    account(engine, call);
    if (engine->spec->session_requests > 0) {
        lg_session_end(&call->session, engine->spec->session_requests,
                       call->rpc.code == LG_CODE_OK);
    }
    if (call->deadline_ns != BASE_NEVER) {
        remove_deadline(engine, call);
        call->deadline_ns = BASE_NEVER;
    }
    engine->ended++;
    atomic_store_explicit(&engine->finished, engine->ended, memory_order_relaxed);
}
