#include "loadgen/channel.h"

#include "base/assert.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>

#define PAUSE_MIN_NS (100 * BASE_NS_PER_MS)
#define PAUSE_MAX_NS BASE_NS_PER_S
#define ATTEMPT_NS   (5 * BASE_NS_PER_S)

void lg_channel_init(struct lg_channel *channel, const struct lg_addresses *addresses,
                     const char *authority, struct lg_rpc_list *ended)
{
    *channel = (struct lg_channel){
        .addresses = addresses, .authority = authority, .ended = ended, .pause_ns = PAUSE_MIN_NS};
}

void lg_channel_release(struct lg_channel *channel)
{
    base_assert(channel->waiting.first == NULL);
    lg_http2_free(channel->current);
    lg_http2_free(channel->draining);
}

/* ---- Attempts -------------------------------------------------------------------------------- */

static void fail_waiting(struct lg_channel *channel, uint64_t now_ns)
{
    while (channel->waiting.first != NULL) {
        struct lg_rpc *rpc = channel->waiting.first;
        lg_rpc_list_remove(&channel->waiting, rpc);
        lg_rpc_fail(rpc, LG_CODE_UNAVAILABLE, "%s", channel->why);
        lg_rpc_end(rpc, channel->ended, now_ns);
    }
}

/* The attempts have failed: none for a while. */
static void rest(struct lg_channel *channel, uint64_t now_ns)
{
    channel->retry_ns = now_ns + channel->pause_ns;
    channel->pause_ns *= 2;
    channel->pause_ns = channel->pause_ns > PAUSE_MAX_NS ? PAUSE_MAX_NS : channel->pause_ns;
    fail_waiting(channel, now_ns);
}

static void connect_to(struct lg_channel *channel, uint32_t address_at, uint64_t now_ns)
{
    base_assert(channel->current == NULL);
    channel->address_at = address_at;
    channel->attempt_end_ns = now_ns + ATTEMPT_NS;
    if (address_at < channel->addresses->count) {
        channel->current = lg_http2_create(&channel->addresses->list[address_at], channel->tls,
                                           channel->authority, channel->ended);
    }
    if (channel->current == NULL) {
        (void)snprintf(channel->why, sizeof(channel->why), "cannot make a connection");
        rest(channel, now_ns);
    }
}

static bool is_ready(enum lg_http2_state state)
{
    return state == LG_HTTP2_READY || state == LG_HTTP2_DRAINING;
}

/* The current connection has failed. */
static void replace(struct lg_channel *channel, bool was_ready, uint64_t now_ns)
{
    struct lg_http2 *lost = channel->current;
    bool useful = lg_http2_was_useful(lost);
    (void)snprintf(channel->why, sizeof(channel->why), "%s", lg_http2_why(lost));
    lg_http2_end_all(lost, now_ns);
    lg_http2_free(lost);
    channel->current = NULL;
    if (useful) {
        channel->pause_ns = PAUSE_MIN_NS;
        channel->retry_ns = 0;
    } else if (!was_ready && channel->address_at + 1 < channel->addresses->count) {
        connect_to(channel, channel->address_at + 1, now_ns);
        return;
    } else {
        rest(channel, now_ns);
        return;
    }
    if (channel->waiting.first != NULL) {
        connect_to(channel, 0, now_ns);
    }
}

static void end_draining(struct lg_channel *channel, uint64_t now_ns)
{
    if (channel->draining != NULL) {
        lg_http2_fail(channel->draining, "the connection was given up");
        lg_http2_end_all(channel->draining, now_ns);
        lg_http2_free(channel->draining);
        channel->draining = NULL;
    }
}

/* A GOAWAY came: a second one ends the calls that the first has left. */
static void drain(struct lg_channel *channel, uint64_t now_ns)
{
    end_draining(channel, now_ns);
    channel->draining = channel->current;
    channel->current = NULL;
    (void)snprintf(channel->why, sizeof(channel->why), "%s", lg_http2_why(channel->draining));
    if (!lg_http2_was_useful(channel->draining)) {
        rest(channel, now_ns);
    } else if (channel->waiting.first != NULL) {
        connect_to(channel, 0, now_ns);
    }
}

/* Draws the conclusions from what happened to the connections. */
static void settle(struct lg_channel *channel, bool was_ready, uint64_t now_ns)
{
    struct lg_http2 *old = channel->draining;
    if (old != NULL && (lg_http2_state(old) == LG_HTTP2_FAILED || lg_http2_is_idle(old))) {
        end_draining(channel, now_ns);
    }
    // An address that refuses at once is followed by the next one at once.
    for (uint32_t i = 0; i <= LG_ADDRESSES_MAX && channel->current != NULL; i++) {
        enum lg_http2_state state = lg_http2_state(channel->current);
        if (state == LG_HTTP2_DRAINING) {
            drain(channel, now_ns);
        } else if (state == LG_HTTP2_FAILED) {
            replace(channel, was_ready, now_ns);
            was_ready = false;
        } else {
            break;
        }
    }
}

/* ---- Use ------------------------------------------------------------------------------------- */

void lg_channel_start(struct lg_channel *channel, struct lg_rpc *rpc, uint64_t now_ns)
{
    base_assert(rpc->state == LG_RPC_FREE);
    lg_rpc_begin(rpc);
    rpc->state = LG_RPC_WAITING;
    rpc->channel = channel;
    if (channel->current != NULL && channel->waiting.first == NULL &&
        lg_http2_has_room(channel->current)) {
        lg_http2_start(channel->current, rpc);
        return;
    }
    lg_rpc_list_add(&channel->waiting, rpc);
    if (channel->current == NULL && now_ns < channel->retry_ns) {
        fail_waiting(channel, now_ns);
    } else if (channel->current == NULL) {
        connect_to(channel, 0, now_ns);
        settle(channel, false, now_ns);
    }
}

void lg_channel_cancel(struct lg_channel *channel, struct lg_rpc *rpc, uint64_t now_ns)
{
    base_assert(rpc->channel == channel);
    if (rpc->state == LG_RPC_OPEN) {
        lg_http2_cancel(rpc->connection, rpc, now_ns);
    } else {
        base_assert(rpc->state == LG_RPC_WAITING);
        lg_rpc_list_remove(&channel->waiting, rpc);
        lg_rpc_end(rpc, channel->ended, now_ns);
    }
}

void lg_channel_flush(struct lg_channel *channel, uint64_t now_ns)
{
    if (channel->draining != NULL) {
        lg_http2_flush(channel->draining, now_ns);
    }
    struct lg_http2 *current = channel->current;
    bool was_ready = current != NULL && is_ready(lg_http2_state(current));
    if (current != NULL) {
        while (channel->waiting.first != NULL && lg_http2_has_room(current)) {
            struct lg_rpc *rpc = channel->waiting.first;
            lg_rpc_list_remove(&channel->waiting, rpc);
            lg_http2_start(current, rpc);
        }
        if (!was_ready && now_ns >= channel->attempt_end_ns) {
            lg_http2_fail(current, "the server does not answer");
        }
        lg_http2_flush(current, now_ns);
    }
    settle(channel, was_ready, now_ns);
}

void lg_channel_receive(struct lg_channel *channel, struct lg_http2 *connection, uint8_t *memory,
                        uint64_t now_ns)
{
    base_assert(connection == channel->current || connection == channel->draining);
    bool was_ready = is_ready(lg_http2_state(connection));
    lg_http2_receive(connection, memory, now_ns);
    settle(channel, connection == channel->current ? was_ready : true, now_ns);
}
