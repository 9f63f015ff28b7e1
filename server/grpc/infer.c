/* A ModelInferRequest from gRPC's buffer to a request that may start: what a call of ModelInfer and
 * each message of a stream have in common. */
#include "server/grpc/call.h"

#include "base/assert.h"
#include "base/clock.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <string.h>

/* Arena memory that an object keeps between requests: one of some hundred bytes with its names,
 * cells and outputs. */
#define ARENA_CHUNK_BYTES 8192u

/* A body up to this is copied, so that gRPC gets the buffer back into which it read it, and which
 * may be a hundred times as large. */
#define BODY_COPY_BYTES_MAX 4096u

/* ---- Life ---- */

void srv_grpc__infer_init(struct srv_grpc__infer *infer, const struct srv_grpc *server)
{
    infer->body_slice = grpc_empty_slice();
    base_arena_init(&infer->request.arena, ARENA_CHUNK_BYTES, server->options.request_bytes_max);
}

void srv_grpc__infer_reset(struct srv_grpc__infer *infer)
{
    infer->body = (struct srv_grpc_bytes){NULL, 0};
    grpc_slice_unref(infer->body_slice);
    infer->body_slice = grpc_empty_slice();
    base_arena_reset(&infer->request.arena);
}

void srv_grpc__infer_release(struct srv_grpc__infer *infer)
{
    base_arena_release(&infer->request.arena);
}

/* ---- On a completion thread ---- */

/* The pieces one behind the other in the request's own memory. */
static bool copy_body(struct srv_grpc__infer *infer, const grpc_slice_buffer *slices)
{
    uint8_t *copy = base_arena_alloc(&infer->request.arena, slices->length);
    if (copy == NULL) {
        return false;
    }
    infer->body = (struct srv_grpc_bytes){copy, slices->length};
    for (size_t i = 0; i < slices->count; i++) {
        memcpy(copy, GRPC_SLICE_START_PTR(slices->slices[i]), GRPC_SLICE_LENGTH(slices->slices[i]));
        copy += GRPC_SLICE_LENGTH(slices->slices[i]);
    }
    return true;
}

/* The message in one piece: a copy when it is small, or in several pieces, else as gRPC holds it.
 */
void srv_grpc__infer_take(struct srv_grpc__infer *infer, grpc_byte_buffer **payload)
{
    if (*payload == NULL) {
        return;
    }
    const grpc_slice_buffer *slices = &(*payload)->data.raw.slice_buffer;
    bool is_small = slices->length > 0 && slices->length <= BODY_COPY_BYTES_MAX;
    if (!(is_small && copy_body(infer, slices)) && slices->count > 0) {
        grpc_byte_buffer_reader reader;
        int readable = grpc_byte_buffer_reader_init(&reader, *payload);
        base_assert(readable != 0);
        infer->body_slice = slices->count == 1 ? grpc_slice_ref(slices->slices[0])
                                               : grpc_byte_buffer_reader_readall(&reader);
        infer->body = (struct srv_grpc_bytes){GRPC_SLICE_START_PTR(infer->body_slice),
                                              GRPC_SLICE_LENGTH(infer->body_slice)};
        grpc_byte_buffer_reader_destroy(&reader);
    }
    grpc_byte_buffer_destroy(*payload);
    *payload = NULL;
}

uint64_t srv_grpc__deadline(gpr_timespec deadline)
{
    if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) {
        return BASE_NEVER;
    }
    // gpr's monotonic clock is CLOCK_MONOTONIC, as ours.
    deadline = gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC);
    if (deadline.tv_sec < 0) {
        return 0;
    }
    return (uint64_t)deadline.tv_sec * BASE_NS_PER_S + (uint64_t)(uint32_t)deadline.tv_nsec;
}

void srv_grpc__infer_decode(struct srv_grpc__infer *infer, gpr_timespec deadline,
                            void (*done)(struct srv_request *request))
{
    struct srv_request *request = &infer->request;
    struct base_arena arena = request->arena;
    *request = (struct srv_request){
        .arena = arena,
        .protocol = SRV_PROTOCOL_GRPC,
        .deadline_ns = srv_grpc__deadline(deadline),
        .times = {.arrived_ns = base_now_ns()},
        .done = done,
    };
    infer->decoded = srv_grpc_decode_infer(infer->body, request, &infer->error);
}

/* ---- On the loop thread ---- */

static enum base_status refuse(const struct srv_grpc *server, struct srv_grpc__infer *infer,
                               const char *why)
{
    base_fail(&infer->error, server->options.busy, "the server is busy: %s", why);
    srv_request_name_error(infer->request.id, &infer->error);
    return infer->error.status;
}

/* The request is counted already. */
static enum base_status admit(const struct srv_grpc *server, struct srv_grpc__infer *infer)
{
    if (infer->decoded != BASE_OK) {
        return infer->decoded;
    }
    if (server->counts.infer_open > server->options.calls_max) {
        return refuse(server, infer, "too many calls are open");
    }
    if (server->counts.infer_bytes > server->options.calls_bytes_max) {
        return refuse(server, infer, "open calls hold too many bytes");
    }
    return BASE_OK;
}

enum base_status srv_grpc__infer_enter(struct srv_grpc *server, struct srv_grpc__infer *infer)
{
    base_assert(srv_loop_is_owner(server->loop));
    server->counts.infer_open++;
    server->counts.infer_bytes += infer->body.length;
    enum base_status status = admit(server, infer);
    if (status != BASE_OK) {
        srv_core_count_refused(server->core, SRV_PROTOCOL_GRPC, status);
    }
    return status;
}

void srv_grpc__infer_leave(struct srv_grpc *server, const struct srv_grpc__infer *infer)
{
    base_assert(server->counts.infer_open > 0);
    base_assert(server->counts.infer_bytes >= infer->body.length);
    server->counts.infer_open--;
    server->counts.infer_bytes -= infer->body.length;
}

/* The client's own timer fires before ours and its RST arrives first; gRPC rounds a timeout up by
 * at most 1 % on its way here. */
enum base_status srv_grpc__why_closed(uint64_t deadline_ns, uint64_t begun_ns, uint64_t now_ns)
{
    if (deadline_ns == BASE_NEVER) {
        return BASE_CANCELLED;
    }
    uint64_t given_ns = deadline_ns > begun_ns ? deadline_ns - begun_ns : 0;
    uint64_t slack_ns = given_ns / 64 + BASE_NS_PER_MS;
    return now_ns + slack_ns >= deadline_ns ? BASE_DEADLINE_EXCEEDED : BASE_CANCELLED;
}
