/* TLS below tests/http_client.h, over GnuTLS: handshakes that are begun and left, bytes in pieces.
 * One thread a link. Files are PEM. */
#ifndef TESTS_TLS_LINK_H
#define TESTS_TLS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tls_link;

struct tls_wanted {
    const char *trust;       /* CAs; the server has to be `localhost` */
    const char *certificate; /* the client's own; NULL: none */
    const char *key;         /* its key */
    const char *versions;    /* as in "+VERS-TLS1.2"; NULL: 1.2 and 1.3 */
    size_t piece;            /* bytes that are sent at a time, with a pause; 0: all at once */
};

/* A link over a connected socket, which stays the caller's. Asserts on failure. */
struct tls_link *tls_link_create(int fd, const struct tls_wanted *wanted);
void tls_link_free(struct tls_link *link);

/* Sends the client's first words, and reads nothing. */
void tls_link_begin(struct tls_link *link);
/* The whole handshake, up to ten seconds; false when it fails. In TLS 1.3 a server that refuses the
 * client's certificate is heard of only by the first read. */
bool tls_link_shake(struct tls_link *link);

/* true when all was sent. */
bool tls_link_send(struct tls_link *link, const void *bytes, size_t length);
/* Decrypted bytes lie here: the socket need not be readable. */
bool tls_link_has_bytes(const struct tls_link *link);
/* As recv(); -1 with errno EAGAIN where not even one record is whole. */
ssize_t tls_link_receive(struct tls_link *link, void *bytes, size_t length);
/* Says that nothing follows. */
void tls_link_end(struct tls_link *link);

#endif
