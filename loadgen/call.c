/* One request on the wire. Nothing here allocates, except gRPC itself: the message buffer, the
 * metadata arrays and the slot are used again. */
#include "loadgen/engine.h"

#include "base/assert.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/slice_buffer.h>

#include <string.h>

#define OP_COUNT 6u

static void begin_batch(struct lg_call *call)
{
    grpc_op ops[OP_COUNT];
    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = call->message;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &call->initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &call->reply;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &call->trailing;
    ops[5].data.recv_status_on_client.status = &call->code;
    ops[5].data.recv_status_on_client.status_details = &call->details;
    grpc_call_error started = grpc_call_start_batch(call->call, ops, OP_COUNT, call, NULL);
    base_assert(started == GRPC_CALL_OK);
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

void lg_call_start(struct lg_engine *engine, struct lg_call *call, uint64_t index,
                   uint64_t planned_ns, uint64_t now_ns)
{
    const struct lg_run_spec *spec = engine->spec;
    base_assert(call->call == NULL);
    base_assert(planned_ns <= now_ns);
    const struct lg_channel *channel = &spec->client->channels[index % spec->client->count];
    uint64_t deadline_ns =
        spec->deadline_ns == 0 ? BASE_NEVER : base_deadline_after(planned_ns, spec->deadline_ns);
    call->call = grpc_channel_create_registered_call(
        channel->channel, NULL, GRPC_PROPAGATE_DEFAULTS, engine->queue, channel->infer,
        lg_timespec(deadline_ns), NULL);
    call->index = index;
    call->planned_ns = planned_ns;
    call->sent_ns = now_ns;
    call->measured = is_measured(engine, index);
    engine->measured_started += call->measured;
    if (call->measured) {
        lg_sends_add(&engine->sends, now_ns - planned_ns);
    }
    call->reply = NULL;
    call->we_cancel =
        spec->cancel_fraction > 0 && base_random_unit(&engine->random) < spec->cancel_fraction;
    if (call->we_cancel) {
        double delay_ns = base_random_unit(&engine->random) * (double)spec->cancel_after_ns;
        call->we_cancel = lg_timers_add(&engine->cancels, now_ns + (uint64_t)delay_ns, call->call);
        if (call->we_cancel) {
            grpc_call_ref(call->call);
        }
    }
    // gRPC has taken the slices of the send before; what is left may be anything.
    grpc_slice_buffer *slices = &call->message->data.raw.slice_buffer;
    grpc_slice_buffer_reset_and_unref(slices);
    lg_payload_fill(spec->payload, index, slices);
    engine->started++;
    begin_batch(call);
}

void lg_cancels_fire(struct lg_engine *engine, uint64_t now_ns)
{
    for (;;) {
        grpc_call *call = lg_timers_pop(&engine->cancels, now_ns);
        if (call == NULL) {
            return;
        }
        (void)grpc_call_cancel(call, NULL); // no effect on a call that has ended
        grpc_call_unref(call);
    }
}

static void keep_first_error(struct lg_result *result, const struct lg_call *call)
{
    if (result->first_error[0] != '\0') {
        return;
    }
    size_t length = GRPC_SLICE_LENGTH(call->details);
    length = length < sizeof(result->first_error) ? length : sizeof(result->first_error) - 1;
    memcpy(result->first_error, GRPC_SLICE_START_PTR(call->details), length);
    result->first_error[length] = '\0';
}

static void account(struct lg_engine *engine, const struct lg_call *call, uint64_t now_ns)
{
    struct lg_result *result = engine->result;
    if (call->code == GRPC_STATUS_OK && lg_window_is_open(engine)) {
        result->ok_in_window++;
    }
    if (!call->measured) {
        return;
    }
    struct lg_outcome outcome = {
        .code = (int)call->code,
        .we_cancelled = call->we_cancel,
        .unfinished = engine->expired && call->code == GRPC_STATUS_CANCELLED,
        .planned_ns = call->planned_ns,
        .sent_ns = call->sent_ns,
        .done_ns = now_ns,
        .message_bytes = lg_payload_bytes(engine->spec->payload, call->index),
    };
    lg_result_add(result, &outcome);
    engine->measured_ended++;
    if (call->code != GRPC_STATUS_OK && !call->we_cancel && !outcome.unfinished) {
        keep_first_error(result, call);
    }
}

grpc_status_code lg_call_finish(struct lg_engine *engine, struct lg_call *call, uint64_t now_ns)
{
    base_assert(call->call != NULL);
    account(engine, call, now_ns);
    if (call->reply != NULL) {
        grpc_byte_buffer_destroy(call->reply);
    }
    grpc_slice_unref(call->details);
    call->details = grpc_empty_slice();
    grpc_call_unref(call->call);
    call->call = NULL;
    engine->ended++;
    atomic_store_explicit(&engine->finished, engine->ended, memory_order_relaxed);
    return call->code;
}
