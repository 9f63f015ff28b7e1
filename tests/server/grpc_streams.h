/* What the tests of streams share: a server over the fake core, a client, and requests and answers
 * in words. One server at a time. */
#ifndef TESTS_SERVER_GRPC_STREAMS_H
#define TESTS_SERVER_GRPC_STREAMS_H

#include "tests/server/grpc_fixture.h"

#define STREAM_PATH GRPC_FIXTURE_SERVICE "ModelStreamInfer"

extern struct grpc_fixture streams_fixture;
extern struct grpc_client *streams_client;

/* options NULL: the defaults. */
void streams_setup_with(const struct srv_grpc_options *options);
void streams_setup(void);

/* Asserts that every call has come to its end with one status, and no request is left. */
void streams_check_accounts(void);
void streams_teardown(void);

/* Functions for grpc_fixture_on_loop(): how the fake core answers. */
void streams_hold(struct grpc_fixture *fixture);
void streams_hold_with_slow_cancels(struct grpc_fixture *fixture);
void streams_answer_large(struct grpc_fixture *fixture); /* 8 MiB */
void streams_progress(struct grpc_fixture *fixture);
void streams_release_all(struct grpc_fixture *fixture);
void streams_release_oldest(struct grpc_fixture *fixture);
void streams_release_newest(struct grpc_fixture *fixture);

/* Polls until streams have read that many messages in all; false after ten seconds. */
bool streams_wait_requests(uint64_t requests);

/* Polls until no request is open; false after ten seconds. A request counts against the limits
 * until gRPC has said that its answer is sent, and the client may have read it before. */
bool streams_wait_answered(void);

struct grpc_client_stream *streams_open(uint32_t timeout_ms);

/* Sends a request for "sum" of one row of `time` tokens; false when the call is over. */
bool streams_send(struct grpc_client_stream *stream, const char *id, uint32_t time);

/* The same, wanted in parts. */
bool streams_send_in_parts(struct grpc_client_stream *stream, const char *id, uint32_t time);

/* The same for a model that is not there, "som". */
bool streams_send_unknown(struct grpc_client_stream *stream, const char *id);

/* The next answer must be good: of this id, and for this many tokens. */
void streams_expect(struct grpc_client_stream *stream, const char *id, uint32_t time);

/* The next answer must be a part of this id's: `steps` rows, the first of this number. */
void streams_expect_part(struct grpc_client_stream *stream, const char *id, uint32_t first,
                         uint32_t steps);

/* The next answer must be an error that begins so, of this id and model. */
void streams_expect_error(struct grpc_client_stream *stream, const char *id, const char *model,
                          const char *message);

/* No answer may follow, and the call must have ended so; message NULL: any. */
void streams_expect_end(struct grpc_client_stream *stream, int status, const char *message);

#endif
