/* TLS handshakes of connections.
 *
 * libmicrohttpd calls GnuTLS for all that TLS does, and takes care of what GnuTLS has decrypted and
 * nobody has read yet. Two things it does not do:
 *
 * - It asks for a client's certificate and looks at none. So before the handshake begins the
 * session is told to demand one, and to have it verified: the handshake of a client that has none,
 * or a wrong one, fails, and no byte of its request is ever read.
 * - It forgets that a handshake waits for the peer: until it is over the connection counts as
 *   readable, and libmicrohttpd wants to be run again at once, for as long as the peer likes. So
 *   between its steps a handshake is suspended, our own watch of the socket wakes it, and
 *   libmicrohttpd then goes as far as it can.
 *
 * Only the time limit of a head ends a handshake that is never finished. */
#include "base/assert.h"
#include "base/log.h"
#include "server/http/internal.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

/* What the client is told, as far as TLS has words for it. */
static gnutls_alert_description_t alert_for(unsigned status)
{
    if ((status & (GNUTLS_CERT_EXPIRED | GNUTLS_CERT_NOT_ACTIVATED)) != 0) {
        return GNUTLS_A_CERTIFICATE_EXPIRED;
    }
    return (status & GNUTLS_CERT_SIGNER_NOT_FOUND) != 0 ? GNUTLS_A_UNKNOWN_CA
                                                        : GNUTLS_A_BAD_CERTIFICATE;
}

/* Signed by one of the CAs, in its time, and meant for clients. */
static int verify_client(gnutls_session_t session)
{
    static char purpose[] = GNUTLS_KP_TLS_WWW_CLIENT;
    gnutls_typed_vdata_st wanted = {GNUTLS_DT_KEY_PURPOSE_OID, (unsigned char *)purpose, 0};
    unsigned status = 0;
    int code = gnutls_certificate_verify_peers(session, &wanted, 1, &status);
    if (code == GNUTLS_E_SUCCESS && status == 0) {
        return 0;
    }
    log_debug("http", "a client's certificate was refused status=0x%x", status);
    // Best effort: libmicrohttpd closes without a word.
    (void)gnutls_alert_send(session, GNUTLS_AL_FATAL, alert_for(status));
    return GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR;
}

static void add(struct srv_http__connection *connection)
{
    struct srv_http__listener *listener = connection->listener;
    connection->next_shaking = listener->shaking;
    listener->shaking = connection;
}

void srv_http__handshake_begin(struct srv_http__connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    base_assert(info != NULL && info->tls_session != NULL);
    connection->shaking = info->tls_session;
    connection->certificate = connection->listener->certificate;
    connection->certificate->users++;
    const int set = gnutls_credentials_set(connection->shaking, GNUTLS_CRD_CERTIFICATE,
                                           connection->certificate->credentials);
    base_assert(set == GNUTLS_E_SUCCESS); // it takes the place of libmicrohttpd's own
    if (connection->listener->demands_certificates) {
        gnutls_certificate_server_set_request(connection->shaking, GNUTLS_CERT_REQUIRE);
        gnutls_session_set_verify_function(connection->shaking, verify_client);
    }
    add(connection);
}

/* GnuTLS describes a session only once its handshake is over. */
static bool is_over(gnutls_session_t session)
{
    char *description = gnutls_session_get_desc(session);
    if (description == NULL) {
        return false;
    }
    log_debug("http", "TLS session %s", description);
    gnutls_free(description);
    return true;
}

void srv_http__handshakes_suspend(struct srv_http__listener *listener)
{
    struct srv_http__connection *next = listener->shaking;
    listener->shaking = NULL;
    while (next != NULL) {
        struct srv_http__connection *connection = next;
        next = connection->next_shaking;
        connection->next_shaking = NULL;
        if (is_over(connection->shaking)) {
            connection->shaking = NULL;
            continue;
        }
        MHD_suspend_connection(connection->mhd);
        connection->waits = true;
        bool sends = gnutls_record_get_direction(connection->shaking) == 1;
        srv_http__connection_watch(connection, sends ? UV_WRITABLE : UV_READABLE);
    }
}

void srv_http__handshake_resume(struct srv_http__connection *connection)
{
    base_assert(connection->waits && connection->shaking != NULL);
    connection->waits = false;
    MHD_resume_connection(connection->mhd);
    add(connection);
    srv_http__listener_wake(connection->listener);
}

void srv_http__handshake_end(struct srv_http__connection *connection)
{
    struct srv_http__connection **at = &connection->listener->shaking;
    while (*at != NULL && *at != connection) {
        at = &(*at)->next_shaking;
    }
    if (*at != NULL) {
        *at = connection->next_shaking;
    }
    connection->shaking = NULL;
}
