/* Blocking sends, polled reads. An answer's end is known by its Content-Length, which all answers
 * of the server have. */
#include "tests/http_client.h"

#include "base/assert.h"
#include "base/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_BYTES_MAX ((size_t)512 << 20)

bool http_connect(struct http_client *client, uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    base_buf_init(&client->text, ANSWER_BYTES_MAX);
    base_buf_init(&client->in, ANSWER_BYTES_MAX);
    client->tls = NULL;
    client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    base_assert(client->fd >= 0);
    const void *to = &address; // as any address
    if (connect(client->fd, to, sizeof address) != 0) {
        http_close(client);
        return false;
    }
    return true;
}

bool http_connect_tls(struct http_client *client, uint16_t port, const struct tls_wanted *wanted)
{
    if (!http_connect(client, port)) {
        return false;
    }
    client->tls = tls_link_create(client->fd, wanted);
    if (!tls_link_shake(client->tls)) {
        http_close(client);
        return false;
    }
    return true;
}

void http_close(struct http_client *client)
{
    tls_link_free(client->tls);
    client->tls = NULL;
    (void)close(client->fd);
    client->fd = -1;
    base_buf_release(&client->text);
    base_buf_release(&client->in);
}

void http_abort(struct http_client *client)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    int set = setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    base_assert(set == 0);
    http_close(client);
}

bool http_send(struct http_client *client, const void *bytes, size_t length)
{
    if (client->tls != NULL) {
        return tls_link_send(client->tls, bytes, length);
    }
    const char *at = bytes;
    while (length > 0) {
        ssize_t sent = send(client->fd, at, length, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        at += sent;
        length -= (size_t)sent;
    }
    return true;
}

bool http_send_text(struct http_client *client, const char *text)
{
    return http_send(client, text, strlen(text));
}

/* Receives what there is, waiting until the deadline. false: the end, or too late. */
static bool receive(struct http_client *client, uint64_t deadline_ns)
{
    uint64_t now_ns = base_now_ns();
    struct pollfd poll_fd = {.fd = client->fd, .events = POLLIN};
    int wait_ms = now_ns >= deadline_ns ? 0 : (int)((deadline_ns - now_ns) / BASE_NS_PER_MS) + 1;
    bool is_here = client->tls != NULL && tls_link_has_bytes(client->tls);
    if (!is_here && poll(&poll_fd, 1, wait_ms) <= 0) {
        return false;
    }
    char chunk[16384];
    ssize_t got = client->tls != NULL ? tls_link_receive(client->tls, chunk, sizeof chunk)
                                      : recv(client->fd, chunk, sizeof chunk, 0);
    if (got < 0 && client->tls != NULL && errno == EAGAIN) {
        return true; // half a record
    }
    if (got > 0) {
        base_buf_add(&client->in, chunk, (size_t)got);
        base_assert(!client->in.failed);
    }
    return got > 0;
}

bool http_header(const struct http_answer *answer, const char *name, char *out, size_t out_bytes)
{
    size_t length = strlen(name);
    for (const char *line = answer->head; line != NULL; line = strstr(line, "\r\n")) {
        line += *line == '\r' ? 2 : 0;
        if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
            const char *value = line + length + 1;
            value += strspn(value, " ");
            (void)snprintf(out, out_bytes, "%.*s", (int)strcspn(value, "\r"), value);
            return true;
        }
    }
    return false;
}

/* Drops the answer that was read before: it stands at the buffer's start, marked by its length. */
static void drop(struct http_client *client, size_t bytes)
{
    memmove(client->in.data, client->in.data + bytes, client->in.length - bytes);
    client->in.length -= bytes;
    client->in.data[client->in.length] = '\0';
}

struct http_answer http_read(struct http_client *client, int timeout_ms, bool without_body)
{
    static struct base_buf taken; // what the answer points into
    if (taken.limit == 0) {
        base_buf_init(&taken, ANSWER_BYTES_MAX);
    }
    uint64_t deadline_ns =
        base_deadline_after(base_now_ns(), (unsigned)timeout_ms * BASE_NS_PER_MS);
    struct http_answer none = {.head = "", .body = ""};
    const char *end = NULL;
    while (client->in.length == 0 || (end = strstr(client->in.data, "\r\n\r\n")) == NULL) {
        if (!receive(client, deadline_ns)) {
            return none;
        }
    }
    size_t head = (size_t)(end - client->in.data) + 4;
    base_buf_clear(&taken);
    base_buf_add(&taken, client->in.data, head - 2);
    base_buf_add(&taken, "", 1); // a NUL between head and body
    struct http_answer answer = {.head = taken.data};
    char length[32] = "0";
    (void)http_header(&answer, "Content-Length", length, sizeof length);
    size_t body = without_body ? 0 : (size_t)strtoull(length, NULL, 10);
    while (client->in.length < head + body) {
        if (!receive(client, deadline_ns)) {
            return none;
        }
    }
    base_buf_add(&taken, client->in.data + head, body);
    base_assert(!taken.failed);
    drop(client, head + body);
    answer.head = taken.data;
    answer.code = (int)strtol(answer.head + strcspn(answer.head, " "), NULL, 10);
    answer.body = taken.data + head - 1;
    answer.body_bytes = body;
    return answer;
}

/* Moves the next chunk of the body into text. false: there is none within the time. *is_last: it
 * was the empty one. */
static bool take_chunk(struct http_client *client, uint64_t deadline_ns, bool *is_last)
{
    for (;;) {
        const char *line = client->in.length > 0 ? strstr(client->in.data, "\r\n") : NULL;
        if (line != NULL) {
            const size_t head = (size_t)(line - client->in.data) + 2;
            const size_t bytes = strtoull(client->in.data, NULL, 16);
            if (client->in.length >= head + bytes + 2) {
                base_buf_add(&client->text, client->in.data + head, bytes);
                drop(client, head + bytes + 2);
                *is_last = bytes == 0;
                return true;
            }
        }
        if (!receive(client, deadline_ns)) {
            return false;
        }
    }
}

const char *http_read_event(struct http_client *client, int timeout_ms, bool *is_whole)
{
    static struct base_buf taken;
    const uint64_t deadline_ns =
        base_deadline_after(base_now_ns(), (unsigned)timeout_ms * BASE_NS_PER_MS);
    if (taken.limit == 0) {
        base_buf_init(&taken, ANSWER_BYTES_MAX);
    }
    *is_whole = false;
    const char *end = NULL;
    while (client->text.length == 0 || (end = strstr(client->text.data, "\n\n")) == NULL) {
        if (!take_chunk(client, deadline_ns, is_whole) || *is_whole) {
            base_assert(client->text.length == 0); // no half of an event
            return NULL;
        }
    }
    const size_t bytes = (size_t)(end - client->text.data);
    base_assert(bytes > 6 && memcmp(client->text.data, "data: ", 6) == 0);
    base_buf_clear(&taken);
    base_buf_add(&taken, client->text.data + 6, bytes - 6);
    base_assert(!taken.failed);
    client->text.length -= bytes + 2;
    memmove(client->text.data, end + 2, client->text.length + 1);
    return taken.data;
}

struct http_answer http_request(struct http_client *client, const char *method, const char *path,
                                const char *head, const char *body)
{
    struct base_buf text;
    base_buf_init(&text, ANSWER_BYTES_MAX);
    base_buf_printf(&text, "%s %s HTTP/1.1\r\nHost: test\r\n%s", method, path, head);
    if (body != NULL) {
        base_buf_printf(&text, "Content-Length: %zu\r\n", strlen(body));
    }
    base_buf_printf(&text, "\r\n%s", body == NULL ? "" : body);
    bool sent = http_send(client, text.data, text.length);
    base_buf_release(&text);
    struct http_answer none = {.head = "", .body = ""};
    return sent ? http_read(client, 10000, strcmp(method, "HEAD") == 0) : none;
}

bool http_is_closed(struct http_client *client, int timeout_ms)
{
    uint64_t deadline_ns =
        base_deadline_after(base_now_ns(), (unsigned)timeout_ms * BASE_NS_PER_MS);
    while (receive(client, deadline_ns)) {
        base_buf_clear(&client->in);
    }
    char byte;
    return recv(client->fd, &byte, 1, MSG_DONTWAIT) == 0 || base_now_ns() < deadline_ns;
}
