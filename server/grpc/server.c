/* Start and stop of the gRPC front end, and its completion threads.
 *
 * gRPC does the network work inside grpc_completion_queue_next(): the completion thread is the one
 * that reads sockets, parses HTTP/2 and then finds the calls it thereby made complete. It decodes
 * requests and hands them to the loop thread (call.c), which does everything else. */
#include "server/grpc/server.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/grpc/call.h"
#include "server/tls.h"

#include <errno.h>
#include <grpc/support/log.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void srv_grpc_options_init(struct srv_grpc_options *options)
{
    *options = (struct srv_grpc_options){
        .address = "127.0.0.1",
        .threads = 1,
        .calls_max = 4096,
        .calls_bytes_max = 256u << 20,
        .streams_max = 256,
        .stream_requests_max = 64,
        .busy = BASE_RESOURCE_EXHAUSTED,
        .message_bytes_max = 64u << 20,
        .request_bytes_max = 256u << 20,
        .connection_streams_max = 1024,
        .handshake_ms = 10000,
        .keepalive_ms = 30000,
        .keepalive_timeout_ms = 20000,
    };
}

/* What gRPC itself has to say goes to our log. */
static void log_from_grpc(gpr_log_func_args *args)
{
    switch (args->severity) {
    case GPR_LOG_SEVERITY_ERROR:
        log_warn("grpc", "library file=%s line=%d: %s", args->file, args->line, args->message);
        break;
    case GPR_LOG_SEVERITY_INFO:
        log_info("grpc", "library file=%s line=%d: %s", args->file, args->line, args->message);
        break;
    case GPR_LOG_SEVERITY_DEBUG:
        log_debug("grpc", "library file=%s line=%d: %s", args->file, args->line, args->message);
        break;
    }
}

static void *thread_main(void *context)
{
    struct srv_grpc *server = context;
    base_thread_name("grpc");
    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(server->arrivals, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN) {
            return NULL;
        }
        base_assert(event.type == GRPC_OP_COMPLETE);
        struct srv_grpc__event *happened = event.tag;
        happened->happened(happened, event.success != 0);
    }
}

static grpc_arg int_arg(const char *name, uint64_t value)
{
    grpc_arg arg = {.type = GRPC_ARG_INTEGER};
    // Names are only read.
    memcpy(&arg.key, &name, sizeof name);
    arg.value.integer = value > INT32_MAX ? INT32_MAX : (int)value;
    return arg;
}

/* Calls complete their batches on a queue without sockets to poll: whoever looks into it only
 * looks. Those of streams are bound to `arrivals`. */
static void create_queues(struct srv_grpc *server)
{
    const grpc_completion_queue_attributes looked_into = {.version = GRPC_CQ_CURRENT_VERSION,
                                                          .cq_completion_type = GRPC_CQ_NEXT,
                                                          .cq_polling_type = GRPC_CQ_NON_POLLING};
    server->arrivals = grpc_completion_queue_create_for_next(NULL);
    server->ended = grpc_completion_queue_create(grpc_completion_queue_factory_lookup(&looked_into),
                                                 &looked_into, NULL);
}

/* Of gRPC's ways to poll only epoll1 carries calls whose queue has no sockets; the other one, which
 * is there for systems without epoll, would crash. */
static enum base_status check_strategy(struct base_error *error)
{
    const char *strategy = getenv("GRPC_POLL_STRATEGY"); // NOLINT(concurrency-mt-unsafe): not set
    if (strategy == NULL || strcmp(strategy, "all") == 0 || strcmp(strategy, "epoll1") == 0) {
        return BASE_OK;
    }
    return base_fail(error, BASE_UNAVAILABLE,
                     "GRPC_POLL_STRATEGY=%.50s is not supported: leave it unset, or epoll1",
                     strategy);
}

/* A queue that has been shut down; was_seen: somebody has taken the event that says so. */
static void destroy_queue(grpc_completion_queue *queue, bool was_seen)
{
    if (!was_seen) {
        grpc_event event =
            grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        base_assert(event.type == GRPC_QUEUE_SHUTDOWN);
    }
    grpc_completion_queue_destroy(queue);
}

static grpc_server *create_server(const struct srv_grpc_options *options)
{
    grpc_arg list[] = {
        // By default the kernel lets two servers share a port silently.
        int_arg(GRPC_ARG_ALLOW_REUSEPORT, 0),
        int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, options->message_bytes_max),
        int_arg(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, INT32_MAX),
        int_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, options->connection_streams_max),
        int_arg(GRPC_ARG_MAX_METADATA_SIZE, 16384),
        int_arg(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, options->handshake_ms),
        // A half-open peer is noticed by its silence alone.
        int_arg(GRPC_ARG_KEEPALIVE_TIME_MS, options->keepalive_ms),
        int_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, options->keepalive_timeout_ms),
        int_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        int_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
        // Clients choose their own keep-alive; one a second is no attack.
        int_arg(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000),
        // Without compression no small message can become a large one.
        int_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1),
        // What we do not use and every call would pay for: 7 % of the server's CPU time.
        int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0),
        int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
        int_arg(GRPC_ARG_ENABLE_CHANNELZ, 0),
        int_arg(GRPC_ARG_ENABLE_CENSUS, 0),
        // Up to 4 MiB by default, and then a whole buffer hangs on each message read into it.
        int_arg(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 65536),
    };
    grpc_channel_args args = {sizeof list / sizeof list[0], list};
    return grpc_server_create(&args, NULL);
}

/* Why the address cannot be had: gRPC tells only its log, so the same is asked of the kernel. */
static const char *refusal_reason(const struct srv_grpc_options *options)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char port[8];
    snprintf(port, sizeof port, "%u", options->port);
    if (getaddrinfo(options->address, port, &hints, &found) != 0) {
        return "not an IPv4 or IPv6 address";
    }
    const char *reason = options->tls == NULL ? "refused by the system"
                                              : "refused by the system, or by its TLS library";
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0) {
        reason = errno == EADDRINUSE      ? "the port is in use"
                 : errno == EACCES        ? "the port is not permitted"
                 : errno == EADDRNOTAVAIL ? "not an address of this machine"
                                          : reason;
    }
    if (fd >= 0) {
        close(fd);
    }
    freeaddrinfo(found);
    return reason;
}

/* gRPC's threads. What is handed over is theirs. */
static grpc_ssl_certificate_config_reload_status
fetch_certificate(void *context, grpc_ssl_server_certificate_config **out)
{
    struct srv_grpc *server = context;
    (void)pthread_mutex_lock(&server->certificate_lock);
    *out = server->certificate;
    server->certificate = NULL;
    (void)pthread_mutex_unlock(&server->certificate_lock);
    return *out != NULL ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW
                        : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
}

/* gRPC keeps copies of the texts. */
void srv_grpc_set_tls(struct srv_grpc *server, const struct srv_tls *tls)
{
    grpc_ssl_pem_key_cert_pair pair = {tls->key, tls->certificate};
    // gRPC 1.51 aborts where what is fetched has no CAs, though it asks no client for a
    // certificate. Then it looks at none, whatever they are.
    const char *roots = tls->client_ca != NULL ? tls->client_ca : tls->certificate;
    grpc_ssl_server_certificate_config *fresh =
        grpc_ssl_server_certificate_config_create(roots, &pair, 1);
    (void)pthread_mutex_lock(&server->certificate_lock);
    grpc_ssl_server_certificate_config *unseen = server->certificate;
    server->certificate = fresh;
    (void)pthread_mutex_unlock(&server->certificate_lock);
    if (unseen != NULL) {
        grpc_ssl_server_certificate_config_destroy(unseen);
    }
}

/* TLS 1.2 is the least that gRPC speaks. */
static grpc_server_credentials *create_credentials(struct srv_grpc *server,
                                                   const struct srv_tls *tls)
{
    if (tls == NULL) {
        return grpc_insecure_server_credentials_create();
    }
    srv_grpc_set_tls(server, tls);
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            tls->client_ca != NULL ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                   : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            fetch_certificate, server));
}

static enum base_status listen_on(struct srv_grpc *server, const struct srv_grpc_options *options,
                                  struct base_error *error)
{
    char target[256];
    bool is_v6 = strchr(options->address, ':') != NULL;
    int length = snprintf(target, sizeof target, is_v6 ? "[%s]:%u" : "%s:%u", options->address,
                          options->port);
    if (length < 0 || (size_t)length >= sizeof target) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "the address for gRPC is too long");
    }
    grpc_server_credentials *credentials = create_credentials(server, options->tls);
    int port = grpc_server_add_http2_port(server->server, target, credentials);
    grpc_server_credentials_release(credentials);
    if (port <= 0) {
        return base_fail(error, BASE_UNAVAILABLE, "gRPC cannot listen on %s: %s", target,
                         refusal_reason(options));
    }
    server->port = (uint16_t)port;
    return BASE_OK;
}

static void register_methods(struct srv_grpc *server)
{
    for (uint32_t i = 0; i < SRV_GRPC__METHODS; i++) {
        const struct srv_grpc__method *method = &srv_grpc__methods[i];
        server->methods[i].registered = grpc_server_register_method(
            server->server, method->path, NULL,
            srv_grpc__stays_open(method) ? GRPC_SRM_PAYLOAD_NONE
                                         : GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER,
            0);
        base_assert(server->methods[i].registered != NULL);
    }
}

static enum base_status start_threads(struct srv_grpc *server, struct base_error *error)
{
    uint32_t count = server->options.threads;
    server->threads = base_alloc_array(count, sizeof server->threads[0]);
    if (server->threads == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for gRPC");
    }
    for (uint32_t i = 0; i < count; i++) {
        if (pthread_create(&server->threads[i], NULL, thread_main, server) != 0) {
            return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no thread for gRPC");
        }
        server->n_threads++;
    }
    return BASE_OK;
}

/* Gives back whatever a start, finished or not, has taken. */
static void release(struct srv_grpc *server)
{
    grpc_server_destroy(server->server);
    grpc_completion_queue_shutdown(server->arrivals);
    for (uint32_t i = 0; i < server->n_threads; i++) {
        int joined = pthread_join(server->threads[i], NULL);
        base_assert(joined == 0);
    }
    destroy_queue(server->arrivals, server->n_threads > 0);
    grpc_completion_queue_shutdown(server->ended);
    destroy_queue(server->ended, false);
    srv_grpc__pool_release(server);
    srv_orders_release(&server->orders);
    if (server->certificate != NULL) {
        grpc_ssl_server_certificate_config_destroy(server->certificate);
    }
    (void)pthread_mutex_destroy(&server->certificate_lock);
    base_free(server->threads);
    base_free(server);
    grpc_shutdown();
}

static void on_abandoned(struct srv_grpc__event *event, bool ok)
{
    (void)ok;
    base_event_signal(&SRV_GRPC__CONTAINER(event, struct srv_grpc, shutdown)->abandoned);
}

/* The end of a start that failed. A server must be shut down before it is destroyed, even when it
 * never served. */
static void abandon(struct srv_grpc *server)
{
    base_event_init(&server->abandoned);
    server->shutdown.happened = on_abandoned;
    grpc_server_shutdown_and_notify(server->server, server->arrivals, &server->shutdown);
    if (server->n_threads > 0) {
        base_event_wait(&server->abandoned, 0, BASE_WAIT_FOREVER);
    } else {
        grpc_event event =
            grpc_completion_queue_next(server->arrivals, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        base_assert(event.tag == &server->shutdown);
    }
    srv_grpc__batches_close(server);
    release(server);
}

enum base_status srv_grpc_start(const struct srv_grpc_options *options, struct srv_loop *loop,
                                struct srv_core *core, struct srv_grpc **out,
                                struct base_error *error)
{
    base_assert(srv_loop_is_owner(loop));
    base_assert(options->threads > 0 && options->calls_max > 0);
    BASE_TRY(check_strategy(error));
    struct srv_grpc *server = base_alloc(sizeof *server);
    if (server == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for gRPC");
    }
    gpr_set_log_function(log_from_grpc);
    grpc_init();
    (void)pthread_mutex_init(&server->certificate_lock, NULL);
    server->loop = loop;
    server->core = core;
    server->orders.core = core;
    server->options = *options;
    server->options.address = NULL;
    server->options.tls = NULL;
    create_queues(server);
    server->server = create_server(options);
    grpc_server_register_completion_queue(server->server, server->arrivals, NULL);
    register_methods(server);
    enum base_status status = listen_on(server, options, error);
    if (status == BASE_OK && !(srv_grpc__batches_init(server) && srv_grpc__pool_init(server))) {
        status = base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for gRPC");
    }
    if (status == BASE_OK) {
        status = start_threads(server, error);
    }
    if (status != BASE_OK) {
        abandon(server);
        return status;
    }
    grpc_server_start(server->server);
    srv_grpc__pool_start(server);
    *out = server;
    return BASE_OK;
}

uint16_t srv_grpc_port(const struct srv_grpc *server)
{
    return server->port;
}

void srv_grpc_counts(const struct srv_grpc *server, struct srv_grpc_counts *counts)
{
    base_assert(srv_loop_is_owner(server->loop));
    *counts = server->counts;
    base_assert(counts->objects == counts->objects_free + counts->objects_posted + counts->open);
    base_assert(counts->arrived == counts->finished + counts->open);
}

void srv_grpc_stop(struct srv_grpc *server)
{
    base_assert(srv_loop_is_owner(server->loop));
    base_assert(server->drained);
    release(server);
}
