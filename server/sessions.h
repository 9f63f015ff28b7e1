/* Sessions: sequences that come in several requests, and what the server keeps of them in between.
 *
 * A session belongs to a version of a model and has an id that its client chooses. Between two of
 * its requests it is idle and holds the model's states (struct cell_model_state), in memory of
 * which all sessions together have so much; an idle session whose client stays silent ends. Who
 * may begin, go on and end, and in which order, is process_session.c's to say. Loop thread. */
#ifndef SERVER_SESSIONS_H
#define SERVER_SESSIONS_H

#include "base/status.h"
#include "cells/model.h"
#include "server/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct srv_flight;
struct srv_session;

/* In the order in which they came. */
struct srv_flights {
    struct srv_flight *first, *last;
};

struct srv_session {
    const void *owner; /* the model's version */
    uint32_t hash;
    struct srv_session *next_of_bucket;
    struct srv_session *next, *previous; /* in the list of all */
    struct srv_session *idle_next, *idle_previous;
    bool is_idle;
    uint64_t idle_since_ns;

    /* process_session.c's. */
    struct srv_flight *running; /* the request whose turn it is */
    struct srv_flights waiting; /* for theirs */
    struct srv_flights lost;    /* behind one that failed, and not answered yet */
    uint64_t next_step;         /* number of the next request to come; 0: none has begun it */
    bool ends;                  /* the last that came ends it */
    bool is_turning;            /* requests are being started */

    uint32_t n_rows; /* of the batch axis */
    size_t bytes;    /* of states */
    uint8_t *states; /* one after the other; NULL: it has none yet */
    char id[];       /* NUL-terminated */
};

struct srv_sessions {
    struct srv_loop *loop;
    uint64_t idle_ns; /* a silence that ends a session */
    size_t bytes_max, bytes;
    struct srv_session **buckets;
    uint32_t n_buckets; /* a power of two */
    uint32_t count;
    struct srv_session *first, *idle_first, *idle_last; /* idle: the longest silent first */
    uint64_t begun, expired;                            /* counts */
    uv_timer_t timer;
};

/* Life cycle: init, close while the loop turns, release when its handles are closed. */
void srv_sessions_init(struct srv_sessions *sessions, struct srv_loop *loop, uint64_t idle_ns,
                       size_t bytes_max);
void srv_sessions_close(struct srv_sessions *sessions);
void srv_sessions_release(struct srv_sessions *sessions);

/* NULL: there is none. */
struct srv_session *srv_sessions_find(const struct srv_sessions *sessions, const void *owner,
                                      const char *id);
/* A new one, which is not idle, and of which there is none by that id. RESOURCE_EXHAUSTED. */
enum base_status srv_sessions_add(struct srv_sessions *sessions, const void *owner, const char *id,
                                  struct srv_session **out, struct base_error *error);
void srv_sessions_remove(struct srv_sessions *sessions, struct srv_session *session);

/* The model's version goes: its sessions that are idle end. */
void srv_sessions_end(struct srv_sessions *sessions, const void *owner);

/* Nobody uses the session until the next request comes, or its time is up. */
void srv_sessions_set_idle(struct srv_sessions *sessions, struct srv_session *session);
void srv_sessions_set_busy(struct srv_sessions *sessions, struct srv_session *session);

/* Memory for states in the place of those that the session has. RESOURCE_EXHAUSTED: it keeps them.
 */
enum base_status srv_sessions_make_room(struct srv_sessions *sessions, struct srv_session *session,
                                        size_t bytes, struct base_error *error);

#endif
