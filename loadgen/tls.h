/* TLS of a client's connections (GnuTLS): what all of them share, and one link below HTTP/2 over a
 * non-blocking socket. One thread at a time, the client's. */
#ifndef LOADGEN_TLS_H
#define LOADGEN_TLS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct lg_tls;
struct lg_tls_link;

/* PEM files; ca NULL: the system's CAs; certificate and key NULL: the client has none. */
struct lg_tls_files {
    const char *ca, *certificate, *key;
};

/* Reads the files. Messages name the file. INVALID_ARGUMENT, RESOURCE_EXHAUSTED. */
enum base_status lg_tls_load(const struct lg_tls_files *files, struct lg_tls **out,
                             struct base_error *error) __attribute__((warn_unused_result));
void lg_tls_free(struct lg_tls *tls); /* no link is left; NULL is allowed */

/* Over a connected socket, which stays the caller's. target: HOST:PORT, whose host the server's
 * certificate has to be for. NULL: out of memory. */
struct lg_tls_link *lg_tls_begin(const struct lg_tls *tls, int fd, const char *target);
void lg_tls_end(struct lg_tls_link *link); /* NULL is allowed */

/* The handshake, as far as the socket lets it come. */
enum lg_tls_turn { LG_TLS_DONE, LG_TLS_AGAIN, LG_TLS_FAILED };
enum lg_tls_turn lg_tls_shake(struct lg_tls_link *link, char *why, size_t why_bytes);
/* After AGAIN: whether it waits to write, else to read. */
bool lg_tls_waits_to_write(const struct lg_tls_link *link);

/* As send() and recv(), once the handshake is done: -1 with errno EAGAIN; another error of TLS is
 * EPROTO. What was to be sent has to be offered again after EAGAIN, and not less of it. */
ssize_t lg_tls_send(struct lg_tls_link *link, const void *bytes, size_t length);
ssize_t lg_tls_receive(struct lg_tls_link *link, void *bytes, size_t length);

#endif
