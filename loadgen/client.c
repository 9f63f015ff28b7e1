/* The loop is one ppoll() a turn: it waits to the nanosecond, and the few connections of a load
 * generator are faster handed over each time than kept registered. */
#include "loadgen/client.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "loadgen/channel.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Longest wait of a call that waits: attempts to connect have an end, too. */
#define TICK_NS (20 * BASE_NS_PER_MS)

struct lg_client {
    const char *target;
    const char *authorization; /* NULL: none */
    struct lg_addresses addresses;
    struct lg_rpc_list ended;
    uint32_t count;
    struct lg_channel channels[LG_CONNECTIONS_MAX];

    /* Of one turn: what is polled, and whose it is. */
    struct pollfd polls[2 * LG_CONNECTIONS_MAX];
    struct lg_channel *poll_channels[2 * LG_CONNECTIONS_MAX];
    struct lg_http2 *poll_connections[2 * LG_CONNECTIONS_MAX];
    nfds_t poll_count;
    uint8_t memory[LG_RECEIVE_BYTES];
};

/* ---- Life cycle ------------------------------------------------------------------------------ */

enum base_status lg_client_create(const char *target, uint32_t connections, struct lg_client **out,
                                  struct base_error *error)
{
    base_assert(connections > 0 && connections <= LG_CONNECTIONS_MAX);
    struct lg_client *client = base_alloc(sizeof(*client));
    if (client == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for the client");
    }
    client->target = target;
    client->count = connections;
    for (uint32_t i = 0; i < connections; i++) {
        lg_channel_init(&client->channels[i], &client->addresses, target, &client->ended);
    }
    *out = client;
    return BASE_OK;
}

void lg_client_free(struct lg_client *client)
{
    if (client == NULL) {
        return;
    }
    base_assert(client->ended.first == NULL);
    for (uint32_t i = 0; i < client->count; i++) {
        lg_channel_release(&client->channels[i]);
    }
    base_free(client);
}

const char *lg_client_target(const struct lg_client *client)
{
    return client->target;
}

void lg_client_set_tls(struct lg_client *client, const struct lg_tls *tls)
{
    for (uint32_t i = 0; i < client->count; i++) {
        client->channels[i].tls = tls;
    }
}

void lg_client_set_authorization(struct lg_client *client, const char *authorization)
{
    client->authorization = authorization;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

void lg_client_start(struct lg_client *client, struct lg_rpc *rpc, uint64_t index, uint64_t now_ns)
{
    base_assert(client->addresses.count > 0);
    rpc->authorization = client->authorization;
    lg_channel_start(&client->channels[index % client->count], rpc, now_ns);
}

void lg_client_cancel(struct lg_client *client, struct lg_rpc *rpc, enum lg_code code,
                      const char *words, uint64_t now_ns)
{
    base_assert(rpc->channel >= client->channels &&
                rpc->channel < client->channels + client->count);
    if (rpc->state == LG_RPC_WAITING || rpc->state == LG_RPC_OPEN) {
        lg_rpc_fail(rpc, code, "%s", words);
        lg_channel_cancel(rpc->channel, rpc, now_ns);
    }
}

struct lg_rpc *lg_client_take(struct lg_client *client)
{
    struct lg_rpc *rpc = client->ended.first;
    if (rpc != NULL) {
        lg_rpc_list_remove(&client->ended, rpc);
        rpc->state = LG_RPC_FREE;
    }
    return rpc;
}

/* ---- The turn -------------------------------------------------------------------------------- */

static void add_poll(struct lg_client *client, struct lg_channel *channel,
                     struct lg_http2 *connection)
{
    if (connection != NULL) {
        nfds_t at = client->poll_count++;
        client->polls[at] =
            (struct pollfd){.fd = lg_http2_fd(connection), .events = lg_http2_events(connection)};
        client->poll_channels[at] = channel;
        client->poll_connections[at] = connection;
    }
}

static void wait_until(struct lg_client *client, uint64_t now_ns, uint64_t wake_ns)
{
    // Calls that have ended want to be taken.
    uint64_t wait_ns = wake_ns > now_ns && client->ended.first == NULL ? wake_ns - now_ns : 0;
    struct timespec wait = {.tv_sec = (time_t)(wait_ns / BASE_NS_PER_S),
                            .tv_nsec = (long)(wait_ns % BASE_NS_PER_S)};
    if (ppoll(client->polls, client->poll_count, &wait, NULL) <= 0) {
        client->poll_count = 0; // nothing is ready, or a signal came
    }
}

uint64_t lg_client_turn(struct lg_client *client, uint64_t now_ns, uint64_t wake_ns)
{
    client->poll_count = 0;
    for (uint32_t i = 0; i < client->count; i++) {
        struct lg_channel *channel = &client->channels[i];
        lg_channel_flush(channel, now_ns);
        // In this order: handling the second cannot end the first, nor the first the second.
        add_poll(client, channel, channel->draining);
        add_poll(client, channel, channel->current);
    }
    wait_until(client, now_ns, wake_ns);
    now_ns = base_now_ns();
    for (nfds_t i = 0; i < client->poll_count; i++) {
        if (client->polls[i].revents != 0) {
            lg_channel_receive(client->poll_channels[i], client->poll_connections[i],
                               client->memory, now_ns);
        }
    }
    return now_ns;
}

/* ---- One call that waits --------------------------------------------------------------------- */

struct waiting_call {
    struct lg_rpc rpc; /* first */
    const struct base_buf *request;
};

static void read_request(const struct lg_rpc *rpc, uint64_t offset, size_t length, uint8_t *out)
{
    const struct waiting_call *w = (const struct waiting_call *)rpc;
    memcpy(out, w->request->data + offset, length);
}

static enum base_status status_of(uint32_t code)
{
    switch (code) {
    case LG_CODE_OK:
        return BASE_OK;
    case LG_CODE_CANCELLED:
        return BASE_CANCELLED;
    case LG_CODE_INVALID_ARGUMENT:
        return BASE_INVALID_ARGUMENT;
    case LG_CODE_DEADLINE_EXCEEDED:
        return BASE_DEADLINE_EXCEEDED;
    case LG_CODE_NOT_FOUND:
        return BASE_NOT_FOUND;
    case LG_CODE_RESOURCE_EXHAUSTED:
        return BASE_RESOURCE_EXHAUSTED;
    case LG_CODE_FAILED_PRECONDITION:
        return BASE_FAILED_PRECONDITION;
    case LG_CODE_UNIMPLEMENTED:
        return BASE_UNIMPLEMENTED;
    case LG_CODE_UNAVAILABLE:
        return BASE_UNAVAILABLE;
    case LG_CODE_UNAUTHENTICATED:
        return BASE_UNAUTHENTICATED;
    case LG_CODE_PERMISSION_DENIED:
        return BASE_PERMISSION_DENIED;
    default:
        return BASE_INTERNAL;
    }
}

static void wait_for(struct lg_client *client, struct lg_rpc *rpc, uint64_t deadline_ns)
{
    // First what has happened to the connection since the last call.
    uint64_t now_ns = base_now_ns();
    now_ns = lg_client_turn(client, now_ns, now_ns);
    lg_client_start(client, rpc, 0, now_ns);
    for (;;) {
        const struct lg_rpc *taken = lg_client_take(client);
        base_assert(taken == NULL || taken == rpc); // no run is under way
        if (taken != NULL) {
            return;
        }
        if (now_ns >= deadline_ns) {
            lg_client_cancel(client, rpc, LG_CODE_DEADLINE_EXCEEDED, "no answer in time", now_ns);
            continue;
        }
        uint64_t tick_ns = now_ns + TICK_NS;
        now_ns = lg_client_turn(client, now_ns, deadline_ns < tick_ns ? deadline_ns : tick_ns);
    }
}

enum base_status lg_client_call(struct lg_client *client, const char *method,
                                const struct base_buf *request, uint64_t timeout_ns,
                                struct base_buf *reply, struct base_error *error)
{
    if (client->addresses.count == 0) {
        BASE_TRY(lg_addresses_find(client->target, &client->addresses, error));
    }
    char path[128];
    int length = snprintf(path, sizeof(path), "%s%s", LG_SERVICE, method);
    base_assert(length > 0 && (size_t)length < sizeof(path));
    struct waiting_call w = {.rpc = {.path = path,
                                     .read = read_request,
                                     .message_bytes = request->length,
                                     .timeout_ns = timeout_ns,
                                     .reply = reply},
                             .request = request};
    wait_for(client, &w.rpc, base_deadline_after(base_now_ns(), timeout_ns));
    if (w.rpc.code != LG_CODE_OK) {
        return base_fail(error, status_of(w.rpc.code), "%s %s: %s: %s", client->target, method,
                         lg_code_name(lg_code_slot(w.rpc.code)), w.rpc.words);
    }
    return BASE_OK;
}
