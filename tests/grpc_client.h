/* A small blocking gRPC client over the C core, for tests: calls by path and bytes, unary ones and
 * streams both ways.
 *
 * Any number of threads may use one client; a call belongs to one thread. grpc_init() is called by
 * grpc_client_create(), so in a case that forks, fork first. */
#ifndef TESTS_GRPC_CLIENT_H
#define TESTS_GRPC_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grpc_client;
struct grpc_client_call;

struct grpc_client_reply {
    int status; /* grpc_status_code */
    char message[1024];
    uint8_t *bytes; /* NULL without a message; grpc_client_reply_release() */
    size_t length;
};

/* A connection of its own to 127.0.0.1:port; asserts on failure. */
struct grpc_client *grpc_client_create(uint16_t port);
/* The same, with every request compressed by gzip. */
struct grpc_client *grpc_client_create_compressing(uint16_t port);

/* Files, PEM; certificate NULL: the client has none. */
struct grpc_client_tls {
    const char *trust, *certificate, *key;
};
/* Over TLS; the server's certificate has to be for 127.0.0.1. Connects with the first call. */
struct grpc_client *grpc_client_create_tls(uint16_t port, const struct grpc_client_tls *tls);
void grpc_client_free(struct grpc_client *client);

/* Sends the whole request; timeout_ms 0 = no deadline. */
struct grpc_client_call *grpc_client_start(struct grpc_client *client, const char *path,
                                           const void *bytes, size_t length, uint32_t timeout_ms);
void grpc_client_cancel(struct grpc_client_call *call);

/* Waits for the end, fills reply and frees the call. */
void grpc_client_wait(struct grpc_client_call *call, struct grpc_client_reply *reply);

/* start and wait. Returns reply->status. */
int grpc_client_unary(struct grpc_client *client, const char *path, const void *bytes,
                      size_t length, struct grpc_client_reply *reply);

/* ---- Streams: any number of messages each way. One thread may send while another receives. ----
 */

struct grpc_client_stream;

/* timeout_ms 0 = no deadline; key NULL = no metadata, else key: value. */
struct grpc_client_stream *grpc_client_stream_open(struct grpc_client *client, const char *path,
                                                   uint32_t timeout_ms, const char *key,
                                                   const char *value);

/* Waits until HTTP/2 has taken the message; false when the call is over. */
bool grpc_client_stream_send(struct grpc_client_stream *stream, const void *bytes, size_t length);

/* No message follows; once. */
void grpc_client_stream_half_close(struct grpc_client_stream *stream);
void grpc_client_stream_cancel(struct grpc_client_stream *stream);

/* Waits for the next message, which goes into reply's bytes; false at the end of the call. */
bool grpc_client_stream_receive(struct grpc_client_stream *stream, struct grpc_client_reply *reply);

/* Waits for the end, fills reply's status and message, and frees the stream. Messages that come
 * meanwhile are dropped. Returns reply->status. */
int grpc_client_stream_finish(struct grpc_client_stream *stream, struct grpc_client_reply *reply);

void grpc_client_reply_release(struct grpc_client_reply *reply);

#endif
