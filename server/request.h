/* A request's life, as every front end sees it.
 *
 * A front end (gRPC, HTTP, a test) fills a struct srv_request from the wire, starts it, and is
 * answered exactly once through `done`. In between it may cancel. All calls here and `done` happen
 * on the loop thread; a front end that decodes on another thread posts to the loop's inbox
 * (server/loop.h). Request life is therefore tested without gRPC.
 *
 *   start -> validate -> [wait for rows, at most queue_max requests] -> admitted -> running -> done
 *   any phase: cancel, deadline, drain time-out -> rows released at the next step border -> done
 *   running, if the front end wants it: progressed -> srv_request_take_part(), any number of times
 *
 * Memory: the request and everything it points to live in its arena, owned by the front end, and
 * must stay until `done`. Outputs are written by the device straight into the arena. */
#ifndef SERVER_REQUEST_H
#define SERVER_REQUEST_H

#include "base/arena.h"
#include "base/inbox.h"
#include "base/status.h"
#include "cells/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct srv_core;
struct srv_model;

enum srv_protocol { SRV_PROTOCOL_GRPC, SRV_PROTOCOL_HTTP, SRV_PROTOCOL_TEST, SRV_PROTOCOL_COUNT };

/* The datatype of texts: each element its length in 4 bytes, little-endian, and its bytes. */
#define SRV_BYTES "BYTES"

/* A tensor as it came, or as it goes. Row-major, dense. */
struct srv_tensor {
    const char *name;     /* NUL-terminated */
    const char *datatype; /* "FP32", "INT64", "INT32", "BYTES"; what else came is refused by core */
    uint32_t rank;
    int64_t shape[CELL_RANK_MAX];
    int32_t batch_axis;  /* of what goes; -1: none */
    const uint8_t *data; /* little-endian elements; input data may be unaligned */
    size_t bytes;
};

/* Where a request's time went, for statistics; monotonic ns, 0 = not reached. */
struct srv_times {
    uint64_t arrived_ns;  /* set by the front end when the message is complete */
    uint64_t admitted_ns; /* rows reserved, handed to the pool */
    uint64_t started_ns;  /* first cell submitted */
    uint64_t computed_ns; /* last cell retired */
};

/* Of a session, which is a sequence in several requests (docs/sessions.md). */
struct srv_sequence {
    const char *id; /* `sequence_id`, a number in decimal; NULL = the request is of no session */
    bool is_start, is_end; /* `sequence_start`, `sequence_end`: its first and last request */
    bool has_step;
    uint64_t step; /* `sequence_step`: its place in the session, from 0 on */
};

/* The longest id of a session. */
#define SRV_SEQUENCE_ID_BYTES_MAX 128u

/* A plain integer, and its NUL. */
#define SRV_VERSION_BYTES 24

struct srv_request {
    /* Set by the front end before start. */
    struct base_arena arena;
    enum srv_protocol protocol;
    const char *model_name;
    const char *model_version; /* "" = the newest */
    const char *id;            /* "" = none; echoed in the answer and named in errors */
    uint32_t n_inputs;
    struct srv_tensor *inputs;
    uint32_t n_wanted;         /* outputs asked for; 0 = all */
    const char *const *wanted; /* their names */
    uint64_t deadline_ns;      /* monotonic; BASE_NEVER = none */
    uint64_t timeout_ns;       /* the `timeout` parameter, 0 = none; core takes the smaller */
    uint64_t steps_max;        /* `max_steps` of a decoder's answer, 0 = the model's; likewise */
    uint64_t beam;             /* `beam`: width of a beam search, 0 = the model's; likewise */
    struct srv_sequence sequence;
    struct srv_times times;
    bool in_parts; /* `stream`: the answer is wanted while it is made. Then */
    /* this is called any number of times before done, where it can be: there are steps that
     * srv_request_take_part() has not given. NULL: the front end answers once, and core refuses. */
    void (*progressed)(struct srv_request *request);
    /* Called once; the request is the front end's again. error.status BASE_OK: outputs are valid.
     */
    void (*done)(struct srv_request *request);

    /* Set by core before done. */
    struct base_error error;         /* message already names the request's id when it has one */
    char version[SRV_VERSION_BYTES]; /* of the model that it was for; "": it was found none */
    uint32_t n_outputs;
    struct srv_tensor *outputs; /* in the order asked for, or the model's */

    struct srv_flight *flight;   /* core's own, */
    struct srv_session *session; /* also; NULL unless it is the request's turn in it */
};

/* Loop thread. Takes the request until done, which may be called before this returns (bad input).
 */
void srv_request_start(struct srv_core *core, struct srv_request *request);

/* Loop thread; only between start and done. done follows with why (CANCELLED, DEADLINE_EXCEEDED or
 * UNAVAILABLE), possibly before this returns, at the latest one cell step later, of a decoder
 * eight. A request whose last cell has retired already may still answer OK. Calling it again
 * changes nothing. */
void srv_request_cancel(struct srv_core *core, struct srv_request *request, enum base_status why);

/* Loop thread, between start and done: whether there is more of an answer that goes in parts.
 * request->outputs are then, until this is called again or the request is done, the steps that no
 * part has had: of a decoder that is no beam search those of its outputs that have steps. What done
 * finds are the steps behind the last part, and all else. Put together along the axis of steps
 * (text behind text) they are the answer that comes in one piece. */
bool srv_request_take_part(struct srv_request *request);

/* Any thread. Puts the request's id, where it has one, before the message of its error, so that a
 * line of a client's log can be found in the server's. */
void srv_request_name_error(const char *id, struct base_error *error);

/* Any thread; for front ends. What of a session goes together: INVALID_ARGUMENT. */
enum base_status srv_request_check_sequence(const struct srv_sequence *sequence,
                                            struct base_error *error);
/* Any thread; for front ends. *out := the number in decimal. RESOURCE_EXHAUSTED. */
enum base_status srv_request_number_id(struct base_arena *arena, uint64_t number, const char **out,
                                       struct base_error *error);

#endif
