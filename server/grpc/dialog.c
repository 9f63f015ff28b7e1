/* A dialog from its call to its end.
 *
 *   completion thread        loop thread
 *   on_received: body    --> deliver_received: hear ... say
 *                            deliver_sent: read on, or look
 *                            on_look, by the clock: look ... say
 *                            deliver_closed, cancelled: the end
 *
 * Nothing is read while something is being sent, and nothing else is said: a client that does not
 * read its answers costs one of them, and its own messages wait at the client.
 *
 * What nobody reports is looked at every LOOK_MS, as long as somebody wants to know.
 *
 * A drain ends every dialog at once. What is being sent may go first, for LATE_MS: a client that
 * does not read would hold up the drain. */
#include "server/grpc/dialog.h"

#include "base/assert.h"
#include "base/mem.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice_buffer.h>

#define LOOK_MS 50u
#define LATE_MS 1000u

/* A longer message is none that anybody would send: names have 127 bytes. */
#define MESSAGE_BYTES_MAX 4096u

#define STOPPING "the server is stopping"

void srv_grpc__dialog_say(struct srv_grpc__dialog *dialog, grpc_slice message)
{
    base_assert(!dialog->sending && dialog->state < SRV_GRPC__CLOSING);
    dialog->sending = true;
    srv_grpc__relay_send(dialog->call, message, &dialog->greeted, &dialog->sent);
}

/* The first reason to end counts. */
static void close_for(struct srv_grpc__dialog *dialog, enum base_status status, const char *text)
{
    if (dialog->state < SRV_GRPC__CLOSING) {
        dialog->state = SRV_GRPC__CLOSING;
        dialog->end = status;
        srv_grpc__relay_set_text(dialog->call, text);
    }
}

/* The next thing to do, unless something is being sent. */
static void advance(struct srv_grpc__dialog *dialog)
{
    base_assert(srv_loop_is_owner(dialog->call->server->loop));
    if (dialog->sending) {
        return;
    }
    switch (dialog->state) {
    case SRV_GRPC__HEARING:
        if (!dialog->reading) {
            dialog->reading = true;
            srv_grpc__relay_read(dialog->call, &dialog->payload, &dialog->received);
        }
        break;
    case SRV_GRPC__LOOKING:
        dialog->talk->look(dialog);
        break;
    case SRV_GRPC__CLOSING:
        dialog->state = SRV_GRPC__CLOSED;
        srv_grpc__relay_end(dialog->call, dialog->end, &dialog->greeted);
        break;
    case SRV_GRPC__CLOSED:
        break;
    }
}

/* ---- The client is gone ---- */

static void gone(struct srv_grpc__dialog *dialog)
{
    struct srv_grpc__call *call = dialog->call;
    enum base_status why = srv_grpc__why_closed(
        srv_grpc__deadline(call->deadline), dialog->opened_ns, srv_loop_update(call->server->loop));
    close_for(dialog, why, base_status_text(why));
}

static void deliver_closed(struct base_message *message)
{
    struct srv_grpc__relay *relay = SRV_GRPC__CONTAINER(message, struct srv_grpc__relay, message);
    struct srv_grpc__call *call = relay->call;
    if (call->cancelled != 0) {
        gone(call->dialog);
        advance(call->dialog);
    }
    srv_grpc__call_drop(call);
}

/* ---- Messages ---- */

static void deliver_sent(struct base_message *message)
{
    struct srv_grpc__relay *relay = SRV_GRPC__CONTAINER(message, struct srv_grpc__relay, message);
    struct srv_grpc__call *call = relay->call;
    struct srv_grpc__dialog *dialog = call->dialog;
    dialog->sending = false;
    grpc_slice_buffer_reset_and_unref(&call->reply->data.raw.slice_buffer);
    if (!relay->ok) {
        gone(dialog); // RECV_CLOSE may come later
    }
    advance(dialog);
    srv_grpc__call_drop(call);
}

static void on_look(uv_timer_t *timer)
{
    struct srv_grpc *server = timer->data;
    bool any = false;
    for (struct srv_grpc__dialog *at = server->dialogs; at != NULL; at = at->next) {
        if (at->state == SRV_GRPC__LOOKING) {
            any = true;
            advance(at);
        }
    }
    if (!any) {
        uv_timer_stop(timer);
    }
}

static void begin_looking(struct srv_grpc__dialog *dialog)
{
    uv_timer_t *timer = srv_grpc__batches_timer(dialog->call->server);
    dialog->state = SRV_GRPC__LOOKING;
    if (uv_is_active(srv_uv_handle(timer)) == 0) {
        uv_timer_start(timer, on_look, LOOK_MS, LOOK_MS);
    }
}

static enum base_status hear(struct srv_grpc__dialog *dialog, struct base_error *error)
{
    struct srv_grpc_bytes message = dialog->call->infer.body;
    if (message.length > MESSAGE_BYTES_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "the message has %zu bytes, more than %u",
                         message.length, MESSAGE_BYTES_MAX);
    }
    return dialog->talk->hear(dialog, message, error);
}

static void take(struct srv_grpc__dialog *dialog)
{
    struct base_error error;
    enum base_status status = hear(dialog, &error);
    if (status != BASE_OK) {
        close_for(dialog, status, error.message);
    } else if (dialog->talk->look != NULL) {
        begin_looking(dialog);
    }
}

static void deliver_received(struct base_message *message)
{
    struct srv_grpc__relay *relay = SRV_GRPC__CONTAINER(message, struct srv_grpc__relay, message);
    struct srv_grpc__call *call = relay->call;
    struct srv_grpc__dialog *dialog = call->dialog;
    dialog->reading = false;
    if (relay->ok && dialog->state == SRV_GRPC__HEARING) {
        take(dialog);
    } else if (dialog->talk->look == NULL) {
        // The client has ended its half; or it is gone, which RECV_CLOSE reports as well.
        close_for(dialog, BASE_OK, "");
    } else {
        close_for(dialog, BASE_INVALID_ARGUMENT, "a message is missing");
    }
    srv_grpc__infer_reset(&call->infer);
    advance(dialog);
    srv_grpc__call_drop(call);
}

/* Completion thread. */
static void on_received(struct srv_grpc__event *event, bool ok)
{
    struct srv_grpc__relay *relay = SRV_GRPC__CONTAINER(event, struct srv_grpc__relay, event);
    struct srv_grpc__call *call = relay->call;
    struct srv_grpc__dialog *dialog = call->dialog;
    bool is_message = ok && dialog->payload != NULL;
    if (is_message) {
        srv_grpc__infer_take(&call->infer, &dialog->payload);
    }
    grpc_byte_buffer_destroy(dialog->payload);
    dialog->payload = NULL;
    srv_grpc__relay_happened(event, is_message);
}

/* ---- Drain ---- */

static void end_by_drain(struct srv_grpc__dialog *dialog)
{
    close_for(dialog, BASE_UNAVAILABLE, STOPPING);
    advance(dialog);
}

static void on_late(uv_timer_t *timer)
{
    struct srv_grpc *server = timer->data;
    for (struct srv_grpc__dialog *at = server->dialogs; at != NULL; at = at->next) {
        if (at->sending) {
            grpc_call_cancel_with_status(at->call->call, GRPC_STATUS_UNAVAILABLE, STOPPING, NULL);
        }
    }
}

void srv_grpc__dialogs_drain(struct srv_grpc *server)
{
    base_assert(srv_loop_is_owner(server->loop));
    // None is gone before this returns: gRPC's events come to the loop by message.
    for (struct srv_grpc__dialog *at = server->dialogs; at != NULL; at = at->next) {
        end_by_drain(at);
    }
    uv_timer_start(srv_grpc__batches_timer(server), on_late, LATE_MS, 0);
}

/* ---- Life ---- */

/* NULL: no memory. */
static struct srv_grpc__dialog *create(struct srv_grpc__call *call)
{
    struct srv_grpc *server = call->server;
    struct srv_grpc__dialog *dialog = base_alloc(sizeof *dialog);
    if (dialog == NULL) {
        return NULL;
    }
    dialog->call = call;
    dialog->talk = call->method->talk;
    dialog->opened_ns = srv_loop_update(server->loop);
    srv_grpc__relay_init(&dialog->received, call, deliver_received);
    dialog->received.event.happened = on_received;
    srv_grpc__relay_init(&dialog->sent, call, deliver_sent);
    srv_grpc__relay_init(&dialog->closed, call, deliver_closed);
    dialog->next = server->dialogs;
    if (dialog->next != NULL) {
        dialog->next->previous = dialog;
    }
    server->dialogs = dialog;
    call->dialog = dialog;
    return dialog;
}

void srv_grpc__dialog_open(struct srv_grpc__call *call)
{
    if (!srv_grpc__relay_admit(call)) {
        return;
    }
    struct srv_grpc__dialog *dialog = create(call);
    if (dialog == NULL) {
        srv_grpc__relay_refuse(call, BASE_RESOURCE_EXHAUSTED, "no memory left for another stream");
        return;
    }
    srv_grpc__relay_watch(call, &dialog->closed);
    if (call->server->draining) {
        end_by_drain(dialog);
    } else {
        advance(dialog);
    }
}

void srv_grpc__dialog_close(struct srv_grpc__call *call)
{
    struct srv_grpc *server = call->server;
    struct srv_grpc__dialog *dialog = call->dialog;
    server->counts.streams_open--;
    if (dialog == NULL) {
        return;
    }
    base_assert(dialog->state == SRV_GRPC__CLOSED && !dialog->reading && !dialog->sending);
    *(dialog->previous == NULL ? &server->dialogs : &dialog->previous->next) = dialog->next;
    if (dialog->next != NULL) {
        dialog->next->previous = dialog->previous;
    }
    base_free(dialog);
    call->dialog = NULL;
}
