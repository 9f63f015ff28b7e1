/* See sessions.h. A hash table of chains that doubles, a list of all, a list of the idle by how
 * long they are so, and one timer for the first of them. */
#include "server/sessions.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"

#include <string.h>

#define BUCKETS_MIN 64u
#define BUCKETS_MAX (1u << 20)

/* What a session takes beside its states. */
static size_t own_bytes(const struct srv_session *session)
{
    return sizeof(*session) + strlen(session->id) + 1;
}

static uint32_t hash_of(const void *owner, const char *id)
{
    return (uint32_t)base_hash_bytes(id, strlen(id)).low ^ (uint32_t)((uintptr_t)owner >> 6);
}

void srv_sessions_init(struct srv_sessions *sessions, struct srv_loop *loop, uint64_t idle_ns,
                       size_t bytes_max)
{
    *sessions = (struct srv_sessions){.loop = loop, .idle_ns = idle_ns, .bytes_max = bytes_max};
    int failed = uv_timer_init(&loop->uv, &sessions->timer);
    base_assert(failed == 0); // it cannot fail
    sessions->timer.data = sessions;
}

void srv_sessions_close(struct srv_sessions *sessions)
{
    uv_close(srv_uv_handle(&sessions->timer), NULL);
}

void srv_sessions_release(struct srv_sessions *sessions)
{
    while (sessions->first != NULL) {
        srv_sessions_remove(sessions, sessions->first);
    }
    base_assert(sessions->count == 0 && sessions->bytes == 0);
    base_free((void *)sessions->buckets);
}

/* ---- Table ---- */

struct srv_session *srv_sessions_find(const struct srv_sessions *sessions, const void *owner,
                                      const char *id)
{
    const uint32_t hash = hash_of(owner, id);
    struct srv_session *at =
        sessions->n_buckets == 0 ? NULL : sessions->buckets[hash & (sessions->n_buckets - 1)];
    while (at != NULL && (at->hash != hash || at->owner != owner || strcmp(at->id, id) != 0)) {
        at = at->next_of_bucket;
    }
    return at;
}

static void hang_up(struct srv_sessions *sessions, struct srv_session *session)
{
    struct srv_session **bucket = &sessions->buckets[session->hash & (sessions->n_buckets - 1)];
    session->next_of_bucket = *bucket;
    *bucket = session;
}

/* Room for one more in the table. Without memory it stays as it is, and only becomes slower. */
static bool grow(struct srv_sessions *sessions)
{
    if (sessions->count < sessions->n_buckets || sessions->n_buckets == BUCKETS_MAX) {
        return true;
    }
    const uint32_t n = sessions->n_buckets == 0 ? BUCKETS_MIN : 2 * sessions->n_buckets;
    struct srv_session **buckets = base_alloc_array(n, sizeof(struct srv_session *));
    if (buckets == NULL) {
        return sessions->n_buckets > 0;
    }
    base_free((void *)sessions->buckets);
    sessions->buckets = buckets;
    sessions->n_buckets = n;
    for (struct srv_session *at = sessions->first; at != NULL; at = at->next) {
        hang_up(sessions, at);
    }
    return true;
}

static enum base_status check_room(const struct srv_sessions *sessions, size_t more,
                                   struct base_error *error)
{
    return more <= sessions->bytes_max - sessions->bytes
               ? BASE_OK
               : base_fail(error, BASE_RESOURCE_EXHAUSTED,
                           "the session needs %zu bytes, and %u sessions have %zu of %zu "
                           "(--session-memory-max)",
                           more, sessions->count, sessions->bytes, sessions->bytes_max);
}

enum base_status srv_sessions_add(struct srv_sessions *sessions, const void *owner, const char *id,
                                  struct srv_session **out, struct base_error *error)
{
    const size_t bytes = sizeof(struct srv_session) + strlen(id) + 1;
    base_assert(srv_sessions_find(sessions, owner, id) == NULL);
    BASE_TRY(check_room(sessions, bytes, error));
    struct srv_session *session = grow(sessions) ? base_alloc(bytes) : NULL;
    if (session == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    session->owner = owner;
    session->hash = hash_of(owner, id);
    memcpy(session->id, id, strlen(id) + 1);
    hang_up(sessions, session);
    session->next = sessions->first;
    if (sessions->first != NULL) {
        sessions->first->previous = session;
    }
    sessions->first = session;
    sessions->count++;
    sessions->begun++;
    sessions->bytes += bytes;
    *out = session;
    return BASE_OK;
}

static void drop_states(struct srv_sessions *sessions, struct srv_session *session)
{
    sessions->bytes -= session->bytes;
    base_free(session->states);
    session->states = NULL;
    session->bytes = 0;
}

void srv_sessions_remove(struct srv_sessions *sessions, struct srv_session *session)
{
    base_assert(session->running == NULL && session->waiting.first == NULL);
    srv_sessions_set_busy(sessions, session);
    struct srv_session **at = &sessions->buckets[session->hash & (sessions->n_buckets - 1)];
    while (*at != session) {
        at = &(*at)->next_of_bucket;
    }
    *at = session->next_of_bucket;
    *(session->previous == NULL ? &sessions->first : &session->previous->next) = session->next;
    if (session->next != NULL) {
        session->next->previous = session->previous;
    }
    drop_states(sessions, session);
    sessions->bytes -= own_bytes(session);
    sessions->count--;
    base_free(session);
}

void srv_sessions_end(struct srv_sessions *sessions, const void *owner)
{
    struct srv_session *next = NULL;
    for (struct srv_session *at = sessions->idle_first; at != NULL; at = next) {
        next = at->idle_next;
        if (at->owner == owner) {
            srv_sessions_remove(sessions, at);
        }
    }
}

enum base_status srv_sessions_make_room(struct srv_sessions *sessions, struct srv_session *session,
                                        size_t bytes, struct base_error *error)
{
    BASE_TRY(check_room(sessions, bytes > session->bytes ? bytes - session->bytes : 0, error));
    uint8_t *states = base_alloc(bytes > 0 ? bytes : 1);
    if (states == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    drop_states(sessions, session);
    session->states = states;
    session->bytes = bytes;
    sessions->bytes += bytes;
    return BASE_OK;
}

/* ---- Silence ---- */

static void arm(struct srv_sessions *sessions, uint64_t now_ns);

static void expire(uv_timer_t *timer)
{
    struct srv_sessions *sessions = timer->data;
    const uint64_t now_ns = srv_loop_update(sessions->loop);
    while (sessions->idle_first != NULL &&
           now_ns - sessions->idle_first->idle_since_ns >= sessions->idle_ns) {
        sessions->expired++;
        srv_sessions_remove(sessions, sessions->idle_first);
    }
    if (sessions->idle_first != NULL) {
        arm(sessions, now_ns);
    }
}

/* For the first of the idle; one that is armed already fires no later than that. */
static void arm(struct srv_sessions *sessions, uint64_t now_ns)
{
    if (uv_is_active(srv_uv_handle(&sessions->timer)) == 0 &&
        uv_is_closing(srv_uv_handle(&sessions->timer)) == 0) {
        const uint64_t at_ns = sessions->idle_first->idle_since_ns + sessions->idle_ns;
        const uint64_t wait_ns = at_ns > now_ns ? at_ns - now_ns : 0;
        // One millisecond more than the difference, cut: never before it is time.
        uv_timer_start(&sessions->timer, expire, wait_ns / BASE_NS_PER_MS + 1, 0);
    }
}

void srv_sessions_set_idle(struct srv_sessions *sessions, struct srv_session *session)
{
    base_assert(!session->is_idle);
    session->is_idle = true;
    session->idle_since_ns = base_now_ns();
    session->idle_next = NULL;
    session->idle_previous = sessions->idle_last;
    *(sessions->idle_last == NULL ? &sessions->idle_first : &sessions->idle_last->idle_next) =
        session;
    sessions->idle_last = session;
    arm(sessions, session->idle_since_ns);
}

void srv_sessions_set_busy(struct srv_sessions *sessions, struct srv_session *session)
{
    if (!session->is_idle) {
        return;
    }
    session->is_idle = false;
    *(session->idle_previous == NULL ? &sessions->idle_first : &session->idle_previous->idle_next) =
        session->idle_next;
    *(session->idle_next == NULL ? &sessions->idle_last : &session->idle_next->idle_previous) =
        session->idle_previous;
}
