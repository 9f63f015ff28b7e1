/* Who may ask: bearer tokens (RFC 6750, 2.1), read from files.
 *
 * One set for those who ask models, one for those who load and unload them; without a set nobody
 * needs a token for that. Health is told to everybody, and /metrics has a listener of its own. Both
 * front ends check by srv_access_check(). A set is immutable once read; any thread. */
#ifndef SERVER_TOKENS_H
#define SERVER_TOKENS_H

#include "base/status.h"

#include <stddef.h>

#define SRV_TOKEN_BYTES_MIN 16u
#define SRV_TOKEN_BYTES_MAX 256u
#define SRV_TOKENS_MAX      1024u

struct srv_tokens;

/* Reads a file of tokens, one a line; blank lines, and those that begin with #, are passed over.
 * Blocks. Every message begins with the file's name. NOT_FOUND; INVALID_ARGUMENT names the line
 * (unreadable, too short, too long, a character that no token has, twice, none at all);
 * RESOURCE_EXHAUSTED (memory, more than SRV_TOKENS_MAX). One that everybody on the machine may read
 * is warned of. */
enum base_status srv_tokens_load(const char *path, struct srv_tokens **out,
                                 struct base_error *error) __attribute__((warn_unused_result));
/* Overwrites them first. NULL is allowed. */
void srv_tokens_free(struct srv_tokens *tokens);

struct srv_access {
    struct srv_tokens *use;     /* NULL: everybody may ask */
    struct srv_tokens *control; /* NULL: who may ask may load and unload, too */
};

enum srv_access_need { SRV_ACCESS_USE, SRV_ACCESS_CONTROL };

/* access NULL: everybody may do everything. header: the value of `authorization`, of that length;
 * NULL: none came. UNAUTHENTICATED: none, not "Bearer TOKEN", or a token that is not known;
 * PERMISSION_DENIED: one that may not do this. How long it takes tells nothing of a token but its
 * length. */
enum base_status srv_access_check(const struct srv_access *access, enum srv_access_need need,
                                  const char *header, size_t length, struct base_error *error);

#endif
