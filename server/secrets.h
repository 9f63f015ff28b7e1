/* What the server reads from files that are replaced while it serves: certificate, key, client CAs
 * and tokens. All of them together, so that a set of files that fits only in part is never in
 * force. */
#ifndef SERVER_SECRETS_H
#define SERVER_SECRETS_H

#include "config/config.h"
#include "server/tls.h"
#include "server/tokens.h"

/* Zeros: none. */
struct srv_secrets {
    struct srv_tls *tls;      /* NULL: plain text */
    struct srv_access access; /* its sets are owned */
};

/* Reads the files that the configuration names; blocks, on any thread. Errors are those of
 * srv_tls_load() and srv_tokens_load(); then there is nothing in *out. */
enum base_status srv_secrets_load(const struct cfg_config *config, struct srv_secrets *out,
                                  struct base_error *error) __attribute__((warn_unused_result));

/* Overwrites them first, and leaves zeros. */
void srv_secrets_release(struct srv_secrets *secrets);

/* When the certificate ends, as "2027-01-31T12:00:00Z"; "" without one. */
#define SRV_SECRETS_UNTIL_BYTES 24u
void srv_secrets_until(const struct srv_secrets *secrets, char out[SRV_SECRETS_UNTIL_BYTES]);

#endif
