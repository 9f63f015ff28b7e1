/* Reading and checking of certificate, key and client CAs.
 *
 * GnuTLS judges for both: what it takes OpenSSL takes too, but for the order of a chain, which
 * GnuTLS would put right by itself and OpenSSL sends as it is, and for keys with a password, which
 * OpenSSL would ask for on the terminal. Both are refused here. The key lies in one block that is
 * never moved, so that its only copy of ours can be overwritten. */
#include "server/tls.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

static enum base_status fail_errno(const char *path, int code, struct base_error *error)
{
    return base_fail(error, code == ENOENT ? BASE_NOT_FOUND : BASE_INVALID_ARGUMENT, "%s: %s", path,
                     uv_strerror(-code));
}

/* Up to bytes of the file; the number read, or -errno. */
static ssize_t read_all(int fd, char *memory, size_t bytes)
{
    size_t length = 0;
    while (length < bytes) {
        ssize_t got = read(fd, memory + length, bytes - length);
        if (got < 0 && errno != EINTR) {
            return -errno;
        }
        if (got == 0) {
            break;
        }
        length += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)length;
}

/* The whole file as a text in *out, also when it is refused: the caller frees it. */
static enum base_status read_text(const char *path, char **out, struct base_error *error)
{
    *out = base_alloc(SRV_TLS_FILE_BYTES_MAX + 1);
    if (*out == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", path);
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail_errno(path, errno, error);
    }
    ssize_t length = read_all(fd, *out, SRV_TLS_FILE_BYTES_MAX + 1);
    (void)close(fd);
    if (length < 0) {
        return fail_errno(path, (int)-length, error);
    }
    if ((size_t)length > SRV_TLS_FILE_BYTES_MAX) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: longer than 1 MiB", path);
    }
    if (length == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: is empty", path);
    }
    if (strlen(*out) != (size_t)length) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: not PEM, which is text", path);
    }
    return BASE_OK;
}

static gnutls_datum_t datum(char *text)
{
    return (gnutls_datum_t){(unsigned char *)text, (unsigned)strlen(text)};
}

static enum base_status fail_gnutls(const char *path, const char *what, int code,
                                    struct base_error *error)
{
    return base_fail(
        error, code == GNUTLS_E_MEMORY_ERROR ? BASE_RESOURCE_EXHAUSTED : BASE_INVALID_ARGUMENT,
        "%s: %s: %s", path, what, gnutls_strerror(code));
}

static void warn_of_time(const char *path, gnutls_x509_crt_t certificate)
{
    int64_t now_s = (int64_t)(base_wall_ns() / BASE_NS_PER_S);
    if (gnutls_x509_crt_get_expiration_time(certificate) < now_s) {
        log_warn("tls", "the time of the certificate is over file=%s", path);
    } else if (gnutls_x509_crt_get_activation_time(certificate) > now_s) {
        log_warn("tls", "the time of the certificate has not come file=%s", path);
    }
}

/* A list of at least one; until_s NULL: of CAs, in any order. */
static enum base_status check_certificates(const char *path, char *text, int64_t *until_s,
                                           struct base_error *error)
{
    gnutls_x509_crt_t *list = NULL;
    unsigned count = 0;
    gnutls_datum_t pem = datum(text);
    unsigned flags = until_s != NULL ? GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED : 0u;
    int code = gnutls_x509_crt_list_import2(&list, &count, &pem, GNUTLS_X509_FMT_PEM, flags);
    if (code == GNUTLS_E_CERTIFICATE_LIST_UNSORTED) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "%s: not in order: first the server's certificate, then each one's issuer",
                         path);
    }
    if (code < 0) {
        return fail_gnutls(path, "no certificates in PEM", code, error);
    }
    if (until_s != NULL && count > 0) {
        *until_s = (int64_t)gnutls_x509_crt_get_expiration_time(list[0]);
        warn_of_time(path, list[0]);
    }
    for (unsigned i = 0; i < count; i++) {
        gnutls_x509_crt_deinit(list[i]);
    }
    gnutls_free(list);
    return count > 0 ? BASE_OK
                     : base_fail(error, BASE_INVALID_ARGUMENT, "%s: no certificate", path);
}

static enum base_status check_key(const char *path, char *text, struct base_error *error)
{
    gnutls_x509_privkey_t key = NULL;
    gnutls_datum_t pem = datum(text);
    int code = gnutls_x509_privkey_init(&key);
    if (code == GNUTLS_E_SUCCESS) {
        code = gnutls_x509_privkey_import2(key, &pem, GNUTLS_X509_FMT_PEM, NULL, 0);
        gnutls_x509_privkey_deinit(key);
    }
    if (code == GNUTLS_E_DECRYPTION_FAILED) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: the key has a password", path);
    }
    return code < 0 ? fail_gnutls(path, "no private key in PEM", code, error) : BASE_OK;
}

/* Takes the pair as a listener will. */
static enum base_status check_pair(const struct srv_tls_files *files, const struct srv_tls *tls,
                                   struct base_error *error)
{
    gnutls_certificate_credentials_t credentials = NULL;
    gnutls_datum_t certificate = datum(tls->certificate);
    gnutls_datum_t key = datum(tls->key);
    int code = gnutls_certificate_allocate_credentials(&credentials);
    if (code == GNUTLS_E_SUCCESS) {
        code = gnutls_certificate_set_x509_key_mem(credentials, &certificate, &key,
                                                   GNUTLS_X509_FMT_PEM);
        gnutls_certificate_free_credentials(credentials);
    }
    if (code == GNUTLS_E_CERTIFICATE_KEY_MISMATCH) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: not the key of the certificate in %s",
                         files->key, files->certificate);
    }
    return code < 0 ? fail_gnutls(files->certificate, "cannot be used", code, error) : BASE_OK;
}

static enum base_status load(const struct srv_tls_files *files, struct srv_tls *tls,
                             struct base_error *error)
{
    BASE_TRY(read_text(files->certificate, &tls->certificate, error));
    BASE_TRY(check_certificates(files->certificate, tls->certificate, &tls->until_wall_s, error));
    BASE_TRY(read_text(files->key, &tls->key, error));
    BASE_TRY(check_key(files->key, tls->key, error));
    BASE_TRY(check_pair(files, tls, error));
    if (files->client_ca[0] == '\0') {
        return BASE_OK;
    }
    BASE_TRY(read_text(files->client_ca, &tls->client_ca, error));
    return check_certificates(files->client_ca, tls->client_ca, NULL, error);
}

enum base_status srv_tls_load(const struct srv_tls_files *files, struct srv_tls **out,
                              struct base_error *error)
{
    *out = NULL;
    struct srv_tls *tls = base_alloc(sizeof *tls);
    if (tls == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", files->certificate);
    }
    enum base_status status = load(files, tls, error);
    if (status != BASE_OK) {
        srv_tls_free(tls);
        return status;
    }
    *out = tls;
    return BASE_OK;
}

void srv_tls_free(struct srv_tls *tls)
{
    if (tls == NULL) {
        return;
    }
    if (tls->key != NULL) {
        explicit_bzero(tls->key, SRV_TLS_FILE_BYTES_MAX + 1);
    }
    base_free(tls->certificate);
    base_free(tls->key);
    base_free(tls->client_ca);
    base_free(tls);
}
