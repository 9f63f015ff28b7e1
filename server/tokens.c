/* Reading token files, and looking a token up in time that tells nothing of it. */
#include "server/tokens.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <uv.h>

#define LINE_BYTES (SRV_TOKEN_BYTES_MAX + 64u)

struct token {
    uint32_t length;
    char text[SRV_TOKEN_BYTES_MAX];
};

struct srv_tokens {
    uint32_t n;
    struct token all[SRV_TOKENS_MAX];
};

/* ---- Reading ---- */

/* b64token of RFC 6750. */
static bool is_token_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~+/=", c) != NULL);
}

/* All tokens are looked at, and all bytes of those that are as long. */
static bool has(const struct srv_tokens *tokens, const char *text, size_t length)
{
    bool is_there = false;
    for (uint32_t t = 0; t < tokens->n; t++) {
        const struct token *token = &tokens->all[t];
        volatile uint8_t differs = token->length != length;
        for (uint32_t i = 0; i < token->length && token->length == length; i++) {
            differs = (uint8_t)(differs | ((uint8_t)token->text[i] ^ (uint8_t)text[i]));
        }
        is_there = is_there | (differs == 0);
    }
    return is_there;
}

/* One line without blanks around it. */
static enum base_status add(struct srv_tokens *tokens, const char *path, uint32_t number,
                            const char *text, size_t length, struct base_error *error)
{
    bool is_one = length >= SRV_TOKEN_BYTES_MIN && length <= SRV_TOKEN_BYTES_MAX;
    for (size_t i = 0; i < length && is_one; i++) {
        is_one = is_token_byte(text[i]);
    }
    if (!is_one) {
        // The line itself is a secret.
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "%s: line %u: a token has %u to %u letters, digits or - . _ ~ + / =", path,
                         number, SRV_TOKEN_BYTES_MIN, SRV_TOKEN_BYTES_MAX);
    }
    if (has(tokens, text, length)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: line %u: the token is there twice",
                         path, number);
    }
    if (tokens->n == SRV_TOKENS_MAX) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: more than %u tokens", path,
                         SRV_TOKENS_MAX);
    }
    struct token *token = &tokens->all[tokens->n++];
    token->length = (uint32_t)length;
    memcpy(token->text, text, length);
    return BASE_OK;
}

static enum base_status read_line(struct srv_tokens *tokens, const char *path, uint32_t number,
                                  const char *line, struct base_error *error)
{
    const char *text = line + strspn(line, " \t");
    size_t length = strcspn(text, "\r\n");
    while (length > 0 && strchr(" \t", text[length - 1]) != NULL) {
        length--;
    }
    return length == 0 || text[0] == '#' ? BASE_OK : add(tokens, path, number, text, length, error);
}

static enum base_status read_lines(struct srv_tokens *tokens, const char *path, FILE *file,
                                   struct base_error *error)
{
    char line[LINE_BYTES];
    enum base_status status = BASE_OK;
    bool is_whole = true; // the line before
    for (uint32_t number = 1; status == BASE_OK && fgets(line, sizeof line, file) != NULL;) {
        // What is behind a line that is too long is of no account: that has been refused, or is a
        // remark.
        status = is_whole ? read_line(tokens, path, number, line, error) : BASE_OK;
        is_whole = strchr(line, '\n') != NULL;
        number += is_whole ? 1 : 0;
    }
    explicit_bzero(line, sizeof line);
    if (status == BASE_OK && ferror(file) != 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: %s", path, uv_strerror(-errno));
    }
    if (status == BASE_OK && tokens->n == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: holds no token", path);
    }
    return status;
}

static void warn_of_readers(const char *path, FILE *file)
{
    struct stat about;
    if (fstat(fileno(file), &about) == 0 && (about.st_mode & S_IROTH) != 0) {
        log_warn("tokens", "everybody on this machine may read the tokens file=%s", path);
    }
}

enum base_status srv_tokens_load(const char *path, struct srv_tokens **out,
                                 struct base_error *error)
{
    *out = NULL;
    struct srv_tokens *tokens = base_alloc(sizeof *tokens);
    if (tokens == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", path);
    }
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        const int code = errno;
        base_free(tokens);
        return base_fail(error, code == ENOENT ? BASE_NOT_FOUND : BASE_INVALID_ARGUMENT, "%s: %s",
                         path, uv_strerror(-code));
    }
    (void)setvbuf(file, NULL, _IONBF, 0); // no copy of them in a buffer of the library's
    warn_of_readers(path, file);
    const enum base_status status = read_lines(tokens, path, file, error);
    (void)fclose(file);
    if (status != BASE_OK) {
        srv_tokens_free(tokens);
        return status;
    }
    *out = tokens;
    return BASE_OK;
}

void srv_tokens_free(struct srv_tokens *tokens)
{
    if (tokens != NULL) {
        explicit_bzero(tokens, sizeof *tokens);
        base_free(tokens);
    }
}

/* ---- Checking ---- */

/* The token in "Bearer TOKEN"; false: it is not so. The scheme's case does not matter (RFC 9110,
 * 11.1). */
static bool read_bearer(const char *header, size_t length, const char **token, size_t *bytes)
{
    static const char scheme[] = "Bearer ";
    const size_t scheme_bytes = sizeof scheme - 1;
    if (header == NULL || length <= scheme_bytes ||
        strncasecmp(header, scheme, scheme_bytes) != 0) {
        return false;
    }
    size_t at = scheme_bytes;
    while (at < length && header[at] == ' ') {
        at++;
    }
    *token = header + at;
    *bytes = length - at;
    return *bytes > 0;
}

enum base_status srv_access_check(const struct srv_access *access, enum srv_access_need need,
                                  const char *header, size_t length, struct base_error *error)
{
    const char *token = NULL;
    size_t bytes = 0;
    if (access == NULL) {
        return BASE_OK;
    }
    const bool is_control = need == SRV_ACCESS_CONTROL && access->control != NULL;
    if (!is_control && access->use == NULL) {
        return BASE_OK;
    }
    if (!read_bearer(header, length, &token, &bytes)) {
        return base_fail(error, BASE_UNAUTHENTICATED,
                         "a token is needed, sent as authorization: Bearer TOKEN");
    }
    const bool may_control = access->control != NULL && has(access->control, token, bytes);
    const bool may_use = access->use != NULL && has(access->use, token, bytes);
    if (may_control || (may_use && !is_control)) {
        return BASE_OK;
    }
    return may_use ? base_fail(error, BASE_PERMISSION_DENIED,
                               "this token may not load and unload models")
                   : base_fail(error, BASE_UNAUTHENTICATED, "the token is not known here");
}
