/* Connections to one server, and plain calls that wait for their answer.
 *
 * The channels are set up for load: no retries (a retry would hide an error), no proxy from the
 * environment, one TCP connection each, and none of gRPC's own tracing, which costs a seventh of
 * the client's CPU. grpc_init() is called by lg_client_create(). */
#ifndef LOADGEN_CLIENT_H
#define LOADGEN_CLIENT_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/status.h"

#include <grpc/grpc.h>

#include <stdint.h>

#define LG_CONNECTIONS_MAX 256u

struct lg_channel {
    grpc_channel *channel;
    void *infer; /* registered handle of ModelInfer */
};

/* Read by the run; written only at create. */
struct lg_client {
    const char *target;
    uint32_t count;
    struct lg_channel channels[LG_CONNECTIONS_MAX];
};

/* Connects lazily: a wrong address shows at the first call. target must outlive the client. On
 * BASE_OK end *out with lg_client_free(). */
enum base_status lg_client_create(const char *target, uint32_t connections, struct lg_client **out,
                                  struct base_error *error) __attribute__((warn_unused_result));
void lg_client_free(struct lg_client *client); /* NULL is allowed */

/* Calls /inference.GRPCInferenceService/METHOD on the first connection and blocks until the answer
 * or timeout_ns. The answer's bytes are appended to *reply. A failed call returns the status that
 * fits its gRPC code, with the server's words in *error. */
enum base_status lg_client_call(struct lg_client *client, const char *method,
                                const struct base_buf *request, uint64_t timeout_ns,
                                struct base_buf *reply, struct base_error *error)
    __attribute__((warn_unused_result));

/* A gRPC code as the enum's name ("UNAVAILABLE"), "CODE_n" for one that gRPC does not name. */
const char *lg_code_name(uint32_t code);

/* Codes 0..16 have names; the last slot counts all others. */
#define LG_CODE_COUNT 18u

/* The slot of a code: itself, or the last. */
static inline uint32_t lg_code_slot(int code)
{
    return code >= 0 && code < (int)LG_CODE_COUNT - 1 ? (uint32_t)code : LG_CODE_COUNT - 1;
}

/* A monotonic time as gRPC wants it; BASE_NEVER becomes "never". */
static inline gpr_timespec lg_timespec(uint64_t time_ns)
{
    gpr_timespec time = {.tv_sec = (int64_t)(time_ns / BASE_NS_PER_S),
                         .tv_nsec = (int32_t)(time_ns % BASE_NS_PER_S),
                         .clock_type = GPR_CLOCK_MONOTONIC};
    return time_ns == BASE_NEVER ? gpr_inf_future(GPR_CLOCK_MONOTONIC) : time;
}

#endif
