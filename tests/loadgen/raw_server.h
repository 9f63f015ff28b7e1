/* A TCP server that speaks HTTP/2 frame by frame, as wrongly as a test wants, on a loopback port.
 * It takes requests apart only as far as frames go: no HPACK, no windows.
 *
 * One thread of its own runs the callbacks; the other functions are called from one other thread,
 * unless they take a peer: those are for the callbacks. */
#ifndef TESTS_LOADGEN_RAW_SERVER_H
#define TESTS_LOADGEN_RAW_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RAW_DATA = 0, RAW_HEADERS = 1, RAW_RST = 3, RAW_SETTINGS = 4, RAW_GOAWAY = 7, RAW_MORE = 9 };
enum { RAW_END_STREAM = 1, RAW_END_HEADERS = 4 };

struct raw_peer;

struct raw_script {
    bool ipv6;
    bool early; /* a request is told of at its headers, not at its end */
    bool mute;  /* no SETTINGS at the begin */
    /* All may be NULL. connection counts from 1, as does request, over all connections. */
    void (*on_connect)(struct raw_peer *peer, unsigned connection);
    void (*on_bytes)(struct raw_peer *peer); /* the first bytes have come; then nothing is parsed */
    void (*on_request)(struct raw_peer *peer, uint32_t stream, unsigned request);
};

struct raw_server;

/* NULL when the machine has no such address (IPv6). End it with raw_server_stop(). */
struct raw_server *raw_server_start(const struct raw_script *script);
const char *raw_server_target(const struct raw_server *server);
void raw_server_stop(struct raw_server *server); /* NULL is allowed */

unsigned raw_server_connections(const struct raw_server *server);
unsigned raw_server_resets(const struct raw_server *server); /* RST_STREAM that came, with CANCEL */
unsigned raw_server_open_max(const struct raw_server *server); /* most requests without answer */

/* ---- For the callbacks ------------------------------------------------------------------------
 */

void raw_send(struct raw_peer *peer, const void *bytes, size_t length);
void raw_close(struct raw_peer *peer);

/* length < 2^24 */
void raw_frame(struct raw_peer *peer, uint8_t type, uint8_t flags, uint32_t stream,
               const void *payload, size_t length);

/* HEADERS of "name: value" lines, each ended by \n. */
void raw_headers(struct raw_peer *peer, uint8_t flags, uint32_t stream, const char *lines);

/* ":status: 200" and the content-type; the message with its prefix; grpc-status: 0. */
void raw_ok_headers(struct raw_peer *peer, uint32_t stream);
void raw_message(struct raw_peer *peer, uint32_t stream, const void *message, size_t length);
void raw_ok_trailers(struct raw_peer *peer, uint32_t stream);
void raw_answer(struct raw_peer *peer, uint32_t stream, const void *message, size_t length);

void raw_reset(struct raw_peer *peer, uint32_t stream, uint32_t code);
void raw_goaway(struct raw_peer *peer, uint32_t last_stream, uint32_t code, const char *words);

#endif
