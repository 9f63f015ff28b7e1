/* Connections to one server: calls that are started and taken when they have ended, for a run, and
 * plain calls that wait for their answer.
 *
 * gRPC over HTTP/2, in clear text or over TLS. No retries (a retry would hide an error), no proxy
 * from the environment, one TCP connection a channel.
 *
 * Threads: a client belongs to one thread at a time; starting or joining a thread hands it over. */
#ifndef LOADGEN_CLIENT_H
#define LOADGEN_CLIENT_H

#include "base/buf.h"
#include "base/status.h"
#include "loadgen/rpc.h"
#include "loadgen/tls.h"

#include <stdint.h>

#define LG_CONNECTIONS_MAX 256u

/* The paths of methods begin with it. */
#define LG_SERVICE "/inference.GRPCInferenceService/"

/* Largest answer that is kept, in bytes. A run counts answers of any size. */
#define LG_REPLY_MAX (64u << 20)

struct lg_client;

/* Connects lazily: a wrong address shows at the first call. target must outlive the client. On
 * BASE_OK end *out with lg_client_free(). */
enum base_status lg_client_create(const char *target, uint32_t connections, struct lg_client **out,
                                  struct base_error *error) __attribute__((warn_unused_result));

/* Every call that was started has been taken. */
void lg_client_free(struct lg_client *client); /* NULL is allowed */

const char *lg_client_target(const struct lg_client *client);

/* Before the first call: all connections are over TLS; it must outlive the client. */
void lg_client_set_tls(struct lg_client *client, const struct lg_tls *tls);

/* The `authorization` of all calls from now on, such as "Bearer TOKEN"; it must outlive the client.
 */
void lg_client_set_authorization(struct lg_client *client, const char *authorization);

/* ---- Calls that wait ------------------------------------------------------------------------- */

/* Calls /inference.GRPCInferenceService/METHOD on the first connection and blocks until the answer
 * or timeout_ns. The answer's bytes are appended to *reply, up to its limit. A failed call returns
 * the status that fits its gRPC code, with the server's words in *error. The first call looks the
 * target's name up, and a later one does when that has failed. */
enum base_status lg_client_call(struct lg_client *client, const char *method,
                                const struct base_buf *request, uint64_t timeout_ns,
                                struct base_buf *reply, struct base_error *error)
    __attribute__((warn_unused_result));

/* ---- Calls of a run: after one that waited has had its answer ---------------------------------
 */

/* Starts a call on connection index % connections; it is written in the next turn. Ends it at once
 * while the server cannot be reached. */
void lg_client_start(struct lg_client *client, struct lg_rpc *rpc, uint64_t index, uint64_t now_ns);

/* Ends a call with code and words, and tells the server. Nothing happens when it has ended. */
void lg_client_cancel(struct lg_client *client, struct lg_rpc *rpc, enum lg_code code,
                      const char *words, uint64_t now_ns);

/* One turn of the loop: writes what was started, one write a connection; waits until something
 * comes, or wake_ns, to the nanosecond; reads once from each connection that has something. now_ns
 * is the time of its begin; returns the time after the wait, which ended calls get too. */
uint64_t lg_client_turn(struct lg_client *client, uint64_t now_ns, uint64_t wake_ns);

/* The next call that has ended, in the order of the ends, and the owner's again; NULL = none. */
struct lg_rpc *lg_client_take(struct lg_client *client);

#endif
