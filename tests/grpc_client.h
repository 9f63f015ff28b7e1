/* A small blocking gRPC client over the C core, for tests: unary calls by path and bytes.
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

void grpc_client_reply_release(struct grpc_client_reply *reply);

#endif
