/* The certificate and key of the listeners, read and checked at start.
 *
 * gRPC (OpenSSL) and HTTP (GnuTLS) both take them as PEM texts. Each would find out at another
 * time, and in other words, that one is wrong; so all is checked here, before anything listens.
 * Whoever starts the server uses this, once; the texts are then only read. */
#ifndef SERVER_TLS_H
#define SERVER_TLS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Largest file: a bundle of all public CAs has a quarter of it. */
#define SRV_TLS_FILE_BYTES_MAX ((size_t)1 << 20)

/* Paths, as the options have them; client_ca "" = clients need no certificate. */
struct srv_tls_files {
    const char *certificate, *key, *client_ca;
};

struct srv_tls {
    char *certificate;    /* PEM, the server's first and then those that signed it */
    char *key;            /* PEM */
    char *client_ca;      /* PEM; NULL: clients need no certificate */
    int64_t until_wall_s; /* end of the server's certificate, in seconds since 1970 */
};

/* Reads the files; blocks while it does. On BASE_OK *out is owned by the caller: end it with
 * srv_tls_free(). Every message begins with the file's name. NOT_FOUND, INVALID_ARGUMENT
 * (unreadable, not PEM, not in order, a key with a password or of another certificate),
 * RESOURCE_EXHAUSTED (memory, a file over 1 MiB). A certificate whose time is over, or has not
 * come, is only warned of: the clock may be what is wrong. */
enum base_status srv_tls_load(const struct srv_tls_files *files, struct srv_tls **out,
                              struct base_error *error) __attribute__((warn_unused_result));

/* Overwrites the key first. NULL is allowed. */
void srv_tls_free(struct srv_tls *tls);

#endif
