#include "tests/loadgen/raw_server.h"

#include "base/assert.h"
#include "base/mem.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PEERS_MAX     8u
#define PREFACE_BYTES 24u
#define FRAME_BYTES   9u
#define IN_BYTES      (256u << 10)

struct raw_peer {
    struct raw_server *server;
    int fd; /* -1 = free */
    bool greeted;
    size_t in_bytes;
    uint8_t in[IN_BYTES];
};

struct raw_server {
    struct raw_script script;
    int listener;
    char target[64];
    pthread_t thread;
    _Atomic bool stop;
    _Atomic unsigned connections, resets, open_max;
    unsigned requests, open;
    struct raw_peer peers[PEERS_MAX];
};

/* ---- Sending --------------------------------------------------------------------------------- */

void raw_send(struct raw_peer *peer, const void *bytes, size_t length)
{
    const uint8_t *next = bytes;
    while (length > 0 && peer->fd >= 0) {
        ssize_t count = send(peer->fd, next, length, MSG_NOSIGNAL);
        if (count <= 0) {
            return; // the client has gone; its end is seen when it is read
        }
        next += count;
        length -= (size_t)count;
    }
}

void raw_close(struct raw_peer *peer)
{
    if (peer->fd >= 0) {
        (void)close(peer->fd);
        peer->fd = -1;
    }
}

void raw_frame(struct raw_peer *peer, uint8_t type, uint8_t flags, uint32_t stream,
               const void *payload, size_t length)
{
    uint8_t head[FRAME_BYTES] = {(uint8_t)(length >> 16),
                                 (uint8_t)(length >> 8),
                                 (uint8_t)length,
                                 type,
                                 flags,
                                 (uint8_t)(stream >> 24),
                                 (uint8_t)(stream >> 16),
                                 (uint8_t)(stream >> 8),
                                 (uint8_t)stream};
    raw_send(peer, head, sizeof(head));
    raw_send(peer, payload, length);
}

/* Literals without indexing, with new names (RFC 7541, 6.2.2). */
void raw_headers(struct raw_peer *peer, uint8_t flags, uint32_t stream, const char *lines)
{
    uint8_t block[1024];
    size_t at = 0;
    for (const char *line = lines; *line != '\0';) {
        const char *colon = strchr(line + 1, ':'); // a name may begin with one
        const char *end = strchr(line, '\n');
        base_assert(colon != NULL && end != NULL && colon < end);
        size_t name = (size_t)(colon - line);
        size_t value = (size_t)(end - colon) - 2;
        base_assert(name < 127 && value < 127 && at + name + value + 3 <= sizeof(block));
        block[at++] = 0;
        block[at++] = (uint8_t)name;
        memcpy(block + at, line, name);
        at += name;
        block[at++] = (uint8_t)value;
        memcpy(block + at, colon + 2, value);
        at += value;
        line = end + 1;
    }
    raw_frame(peer, RAW_HEADERS, flags, stream, block, at);
}

void raw_ok_headers(struct raw_peer *peer, uint32_t stream)
{
    raw_headers(peer, RAW_END_HEADERS, stream, ":status: 200\ncontent-type: application/grpc\n");
}

void raw_message(struct raw_peer *peer, uint32_t stream, const void *message, size_t length)
{
    uint8_t prefix[5] = {0, (uint8_t)(length >> 24), (uint8_t)(length >> 16),
                         (uint8_t)(length >> 8), (uint8_t)length};
    raw_frame(peer, RAW_DATA, 0, stream, prefix, sizeof(prefix));
    for (size_t at = 0; at < length; at += 16384) {
        size_t piece = length - at < 16384 ? length - at : 16384;
        raw_frame(peer, RAW_DATA, 0, stream, (const uint8_t *)message + at, piece);
    }
}

void raw_ok_trailers(struct raw_peer *peer, uint32_t stream)
{
    peer->server->open--;
    raw_headers(peer, RAW_END_HEADERS | RAW_END_STREAM, stream, "grpc-status: 0\n");
}

void raw_answer(struct raw_peer *peer, uint32_t stream, const void *message, size_t length)
{
    raw_ok_headers(peer, stream);
    raw_message(peer, stream, message, length);
    raw_ok_trailers(peer, stream);
}

void raw_reset(struct raw_peer *peer, uint32_t stream, uint32_t code)
{
    uint8_t payload[4] = {0, 0, 0, (uint8_t)code};
    raw_frame(peer, RAW_RST, 0, stream, payload, sizeof(payload));
}

void raw_goaway(struct raw_peer *peer, uint32_t last_stream, uint32_t code, const char *words)
{
    uint8_t payload[64] = {0};
    size_t count = 8;
    for (; *words != '\0' && count < sizeof(payload); words++) {
        payload[count++] = (uint8_t)*words;
    }
    payload[2] = (uint8_t)(last_stream >> 8);
    payload[3] = (uint8_t)last_stream;
    payload[7] = (uint8_t)code;
    raw_frame(peer, RAW_GOAWAY, 0, 0, payload, count);
}

/* ---- Receiving ------------------------------------------------------------------------------- */

static void begin_request(struct raw_server *server)
{
    server->open++;
    if (server->open > server->open_max) {
        server->open_max = server->open;
    }
}

static void take_frame(struct raw_peer *peer, const uint8_t *head, size_t length)
{
    struct raw_server *server = peer->server;
    uint32_t stream =
        (uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8];
    bool ends = (head[3] == RAW_DATA || head[3] == RAW_HEADERS) && (head[4] & RAW_END_STREAM) != 0;
    if (head[3] == RAW_RST && length == 4 && head[FRAME_BYTES + 3] == 8) {
        server->resets++;
    }
    if (head[3] == RAW_HEADERS) {
        begin_request(server);
    }
    bool told = server->script.early ? head[3] == RAW_HEADERS : ends;
    if (told && server->script.on_request != NULL) {
        server->script.on_request(peer, stream, ++server->requests);
    }
}

static void take_bytes(struct raw_peer *peer)
{
    size_t at = 0;
    if (!peer->greeted && peer->in_bytes >= PREFACE_BYTES) {
        peer->greeted = true;
        at = PREFACE_BYTES;
    }
    while (peer->greeted && peer->fd >= 0 && peer->in_bytes - at >= FRAME_BYTES) {
        const uint8_t *head = peer->in + at;
        size_t length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        if (peer->in_bytes - at < FRAME_BYTES + length) {
            break;
        }
        take_frame(peer, head, length);
        at += FRAME_BYTES + length;
    }
    memmove(peer->in, peer->in + at, peer->in_bytes - at);
    peer->in_bytes -= at;
}

static void receive(struct raw_peer *peer)
{
    ssize_t count = recv(peer->fd, peer->in + peer->in_bytes, IN_BYTES - peer->in_bytes, 0);
    if (count <= 0) {
        raw_close(peer);
        return;
    }
    peer->in_bytes += (size_t)count;
    if (peer->server->script.on_bytes != NULL) {
        peer->server->script.on_bytes(peer);
        peer->in_bytes = 0;
        return;
    }
    take_bytes(peer);
}

static void take_connection(struct raw_server *server)
{
    int fd = accept(server->listener, NULL, NULL);
    for (size_t i = 0; i < PEERS_MAX && fd >= 0; i++) {
        struct raw_peer *peer = &server->peers[i];
        if (peer->fd < 0) {
            peer->fd = fd;
            peer->in_bytes = 0;
            peer->greeted = false;
            server->connections++;
            if (!server->script.mute) {
                raw_frame(peer, RAW_SETTINGS, 0, 0, NULL, 0);
            }
            if (server->script.on_connect != NULL) {
                server->script.on_connect(peer, server->connections);
            }
            return;
        }
    }
    base_assert(!"more connections than a test needs");
}

static void *serve(void *arg)
{
    struct raw_server *server = arg;
    while (!server->stop) {
        struct pollfd polls[1 + PEERS_MAX] = {{.fd = server->listener, .events = POLLIN}};
        for (size_t i = 0; i < PEERS_MAX; i++) {
            polls[1 + i] = (struct pollfd){.fd = server->peers[i].fd, .events = POLLIN};
        }
        (void)poll(polls, 1 + PEERS_MAX, 5);
        for (size_t i = 0; i < PEERS_MAX; i++) {
            if (polls[1 + i].fd >= 0 && polls[1 + i].revents != 0) {
                receive(&server->peers[i]);
            }
        }
        if (polls[0].revents != 0) {
            take_connection(server);
        }
    }
    return NULL;
}

/* ---- Life cycle ------------------------------------------------------------------------------ */

static void listen_on(struct raw_server *server)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } name = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    bool ipv6 = server->script.ipv6;
    if (ipv6) {
        name.v6 =
            (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    }
    socklen_t bytes = ipv6 ? sizeof(name.v6) : sizeof(name.v4);
    server->listener = socket(name.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server->listener < 0 || bind(server->listener, &name.any, bytes) != 0) {
        return; // the target stays empty
    }
    int failed = listen(server->listener, 16) | getsockname(server->listener, &name.any, &bytes);
    base_assert(failed == 0);
    unsigned port = ntohs(ipv6 ? name.v6.sin6_port : name.v4.sin_port);
    (void)snprintf(server->target, sizeof(server->target), "%s:%u", ipv6 ? "[::1]" : "127.0.0.1",
                   port);
}

struct raw_server *raw_server_start(const struct raw_script *script)
{
    struct raw_server *server = base_alloc(sizeof(*server));
    base_assert(server != NULL);
    server->script = *script;
    for (size_t i = 0; i < PEERS_MAX; i++) {
        server->peers[i].server = server;
        server->peers[i].fd = -1;
    }
    listen_on(server);
    if (server->target[0] == '\0') { // no such address here
        (void)close(server->listener);
        base_free(server);
        return NULL;
    }
    int failed = pthread_create(&server->thread, NULL, serve, server);
    base_assert(failed == 0);
    return server;
}

const char *raw_server_target(const struct raw_server *server)
{
    return server->target;
}

void raw_server_stop(struct raw_server *server)
{
    if (server == NULL) {
        return;
    }
    server->stop = true;
    (void)pthread_join(server->thread, NULL);
    for (size_t i = 0; i < PEERS_MAX; i++) {
        raw_close(&server->peers[i]);
    }
    (void)close(server->listener);
    base_free(server);
}

unsigned raw_server_connections(const struct raw_server *server)
{
    return server->connections;
}

unsigned raw_server_resets(const struct raw_server *server)
{
    return server->resets;
}

unsigned raw_server_open_max(const struct raw_server *server)
{
    return server->open_max;
}
