/* Credentials of GnuTLS.
 *
 * libmicrohttpd reads a certificate once, when it starts. So each session is given ours before its
 * handshake begins, and goes on with it until the connection is closed, whatever has come since. */
#include "base/assert.h"
#include "base/mem.h"
#include "server/http/internal.h"
#include "server/tls.h"

#include <string.h>

static gnutls_datum_t datum(char *text)
{
    return (gnutls_datum_t){(unsigned char *)text, (unsigned)strlen(text)};
}

/* Below 0: an error of GnuTLS. */
static int fill(gnutls_certificate_credentials_t credentials, const struct srv_tls *tls)
{
    const gnutls_datum_t certificate = datum(tls->certificate);
    const gnutls_datum_t key = datum(tls->key);
    const int code =
        gnutls_certificate_set_x509_key_mem(credentials, &certificate, &key, GNUTLS_X509_FMT_PEM);
    if (code < 0 || tls->client_ca == NULL) {
        return code;
    }
    const gnutls_datum_t ca = datum(tls->client_ca);
    return gnutls_certificate_set_x509_trust_mem(credentials, &ca, GNUTLS_X509_FMT_PEM);
}

enum base_status srv_http__certificate_create(const struct srv_tls *tls,
                                              struct srv_http__certificate **out,
                                              struct base_error *error)
{
    struct srv_http__certificate *certificate = base_alloc(sizeof *certificate);
    *out = NULL;
    if (certificate == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "http: out of memory");
    }
    int code = gnutls_certificate_allocate_credentials(&certificate->credentials);
    if (code < 0) {
        base_free(certificate);
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "http: %s", gnutls_strerror(code));
    }
    certificate->users = 1;
    code = fill(certificate->credentials, tls);
    if (code < 0) {
        srv_http__certificate_leave(certificate);
        return base_fail(error, BASE_INVALID_ARGUMENT, "http: the certificate cannot be used: %s",
                         gnutls_strerror(code));
    }
    *out = certificate;
    return BASE_OK;
}

void srv_http__certificate_leave(struct srv_http__certificate *certificate)
{
    if (certificate != NULL) {
        base_assert(certificate->users > 0);
        if (--certificate->users == 0) {
            gnutls_certificate_free_credentials(certificate->credentials);
            base_free(certificate);
        }
    }
}
