/* The core's inside, shared by core.c (models, drain), process.c (request life), warm.c and
 * core_metrics.c. Private to these. Loop thread, but for the two messages that jobs post. */
#ifndef SERVER_CORE_STATE_H
#define SERVER_CORE_STATE_H

#include "server/core.h"
#include "server/deadline.h"
#include "server/engine.h"
#include "server/loop.h"
#include "server/sessions.h"
#include "server/validate.h"

/* Requests of a model that its plug-in has still to unfold (process_plugin.c). */
struct srv_unfolding {
    struct srv_core *core;
    struct srv_flights flights;
    struct srv_plugin_call *call; /* with the plug-in's thread; NULL: it is free */
    bool is_late;
    uint64_t deadline_ns; /* for a call */
    uv_timer_t timer;
};

/* How the engine lets go of a model; there before it is needed, when memory may be short. */
struct srv_leaving {
    struct srv_engine_change change; /* first */
    struct srv_core *core;
    struct srv_model_entry *entry;
    const struct cell_model *cells;
    struct base_message dropped;
};

struct srv_model_entry {
    struct srv_model face;     /* first: found models are faces of entries */
    struct srv_plugin *plugin; /* of CELL_UNFOLD_PLUGIN */
    struct srv_unfolding unfolding;
    struct cell_model *cells;
    struct srv_texts *texts;
    struct srv_signature signature;
    struct srv_limits limits;
    struct srv_flights waiting;                        /* for rows, */
    struct srv_model_entry *line_next, *line_previous; /* in the line of models that have some */
    uint32_t n_waiting;                                /* requests that wait for anything */
    uint32_t n_flights; /* requests that have come and are not answered */
    /* Replaced or unloaded: in core's list of those, until nothing of it is left. */
    bool is_retired;
    struct srv_model_entry *retired_next;
    struct srv_leaving *leaving; /* NULL: without cells, or where no model ever goes */
    bool is_asked_for;           /* at the start: the server is ready when all of these are */
};

enum srv_phase {
    SRV_PHASE_TURN, /* waits for those before it in its session */
    SRV_PHASE_LOST, /* one of those has failed; it is about to be answered */
    SRV_PHASE_UNFOLDING,
    SRV_PHASE_WAITING,
    SRV_PHASE_RUNNING,
};

/* An answer that is taken in parts (process_parts.c); of others is_open is false. */
struct srv_parts {
    bool is_open;
    bool is_broken;             /* one could not be made: the rest comes with the end */
    uint32_t steps;             /* that parts have had */
    uint64_t first_ns;          /* when the first was taken */
    uint32_t n_whole;           /* outputs, */
    struct srv_tensor *whole;   /* of the request as the device writes them; */
    struct srv_tensor *outputs; /* of the last part */
    uint32_t *lengths;          /* [rows], of the part that is being made, and */
    bool *is_over;              /* whether that is all that the row gets */
    struct base_message message;
    _Atomic bool is_posted; /* the message */
};

/* A request between start and done; in the request's arena. */
struct srv_flight {
    struct srv_core *core;
    struct srv_request *request;
    struct srv_model_entry *model;
    struct srv_session *session;        /* NULL: none */
    uint64_t session_step;              /* its place there */
    uint32_t n_visible;                 /* outputs that are answered; behind them are states */
    struct srv_flight *next, *previous; /* in its session's, model's or core's list of its phase */
    enum srv_phase phase;
    bool cancel_posted;               /* the pool has been or is being told */
    bool finished, cancel_seen;       /* what has come back from the pool */
    uint32_t n_rows;                  /* of the batch axis */
    struct sched_sequences sequences; /* of a model of sequences */
    struct sched_tensor *inputs;      /* of a plug-in's model, and what that is shown */
    struct cellbatch_values *values;
    uint64_t validated_ns; /* how long checking and unfolding took */
    struct srv_deadline deadline;
    struct srv_job job;
    struct base_message finished_message, cancelled_message;
    struct srv_parts parts;
};

/* Models that come and go (control.c). */
struct srv_controls {
    struct srv_control *first, *last; /* that wait */
    bool is_busy;                     /* one is at work, or what was retired is being dropped */
    bool is_awake;                    /* the message is posted */
    struct base_message wake;
};

struct srv_core {
    struct srv_core_options options;
    struct srv_loop *loop;
    struct srv_engine *engine;
    struct srv_model_entry **models;
    uint32_t n_models;
    struct srv_counters counters;
    int64_t certificate_end_s; /* 0: none */
    struct srv_flights running;
    struct srv_model_entry *line_first, *line_last; /* models whose requests wait for rows */
    uint64_t claims[CELL_LAYOUTS_MAX]; /* the last round in which somebody waited for such rows */
    uint64_t round;
    uint32_t n_unfolding; /* flights in lists of models */
    struct srv_sessions sessions;
    struct srv_deadlines deadlines;
    uv_timer_t timer;
    uint64_t timer_at_ns; /* what the timer is armed for; BASE_NEVER = not armed */
    bool stopping, refusing, is_closed;
    void (*idle)(void *context);
    void *idle_context;
    struct srv_warming *warming;
    bool has_warmed; /* the models of the start */
    struct srv_model_entry *retired;
    struct srv_controls controls;
};

/* The entry whose face it is. */
static inline struct srv_model_entry *srv_model_entry_of(const struct srv_model *model)
{
    union {
        const struct srv_model *in;
        struct srv_model_entry *out;
    } face = {.in = model};
    return face.out;
}

/* As srv_request_start(), the model given: warm-up uses it before the model is ready. */
void srv_core__start(struct srv_core *core, struct srv_request *request,
                     struct srv_model_entry *model);

static inline void srv_flights_add(struct srv_flights *list, struct srv_flight *flight)
{
    flight->next = NULL;
    flight->previous = list->last;
    *(list->last == NULL ? &list->first : &list->last->next) = flight;
    list->last = flight;
}

static inline void srv_flights_remove(struct srv_flights *list, struct srv_flight *flight)
{
    *(flight->previous == NULL ? &list->first : &flight->previous->next) = flight->next;
    *(flight->next == NULL ? &list->last : &flight->next->previous) = flight->previous;
    flight->next = flight->previous = NULL;
}

/* ---- Of process.c, for process_session.c ---- */

/* A flight for the request, or NULL, and the request is answered. */
struct srv_flight *srv_core__flight_of(struct srv_core *core, struct srv_request *request,
                                       struct srv_model_entry *model);
/* Checks, unfolds and admits a flight, or answers it with why not. */
void srv_core__begin(struct srv_flight *flight);
enum base_status srv_core__arm_deadline(struct srv_flight *flight, uint64_t now_ns);
/* Puts into the request that it was stopped while it waited, and by whom. */
void srv_core__fail_waiting(struct srv_flight *flight, enum base_status status);
/* Answers a flight that is in no list and has failed, and counts it. */
void srv_core__answer_failed(struct srv_flight *flight);

/* Gives the pool a flight that has its rows. */
void srv_core__submit(struct srv_flight *flight);

/* ---- Of process_wait.c, for process.c and process_session.c ---- */

/* That one more of its model may wait. */
enum base_status srv_core__check_queue(struct srv_flight *flight);
/* One more waits, for rows, its turn, or a plug-in; one less. */
void srv_core__wait_begin(struct srv_flight *flight);
void srv_core__wait_end(struct srv_flight *flight);
/* Reserves rows and goes on to the pool, or waits for them, or is refused. */
enum base_status srv_core__wait_or_submit(struct srv_flight *flight);
/* The flight waits for rows no more. */
void srv_core__leave_queue(struct srv_flight *flight);
/* Rows may have become free, or a claim on some. */
void srv_core__admit_waiting(struct srv_core *core);

/* ---- Of process_session.c, for process.c ---- */

/* A request that names a session. */
void srv_core__start_in_session(struct srv_core *core, struct srv_request *request,
                                struct srv_model_entry *model);
/* Of a request of a model with states that is of no session: which outputs it gets. */
enum base_status srv_core__hide_states(struct srv_request *request, const struct cell_model *cells);
/* The flight is checked: room for the states that it leaves, if it is the first of its session. */
enum base_status srv_core__reserve_states(struct srv_flight *flight);
/* The request whose turn it is is about to be answered: its states are kept, or, if it failed, who
 * waits behind it fails too. */
void srv_core__settle_session(struct srv_core *core, struct srv_request *request);
/* It has been answered: the next one's turn. */
void srv_core__turn_session(struct srv_core *core, struct srv_session *session);
/* Of one that waits for its turn. */
void srv_core__stop_turn(struct srv_flight *flight, enum base_status why);

/* ---- Of process_parts.c, for process.c ---- */

/* Of a flight that has its graph: opens it for parts, where its request asks for some. */
enum base_status srv_core__open_parts(struct srv_flight *flight);
/* No more parts: the request has its outputs again, as the device has written them. */
void srv_core__close_parts(struct srv_flight *flight);
/* Pool thread. */
void srv_core__job_progressed(struct srv_job *job);

/* ---- Between process.c and process_plugin.c ---- */

/* Checks a request of a plug-in's model. */
enum base_status srv_core__check_plugin(struct srv_flight *flight);
/* Gives the plug-in its next request, if it is free. */
void srv_core__begin_plugin(struct srv_model_entry *entry);
/* The request is going: whatever the plug-in says of it is not looked at. */
void srv_core__drop_plugin(struct srv_flight *flight);
/* Takes a flight out of its model's list: it has its graph, or fails with status, which its error
 * has already. */
void srv_core__unfolded(struct srv_flight *flight, enum base_status status);
/* Starts and ends the plug-in of a model. */
enum base_status srv_core__open_plugin(struct srv_core *core, struct srv_model_entry *entry,
                                       const struct srv_model_source *source,
                                       struct base_error *error);
/* Of a model that has one. closed may be NULL; the handle's data is the entry. */
void srv_core__close_plugin(struct srv_model_entry *entry, uv_close_cb closed);

/* ---- Between core.c, warm.c and control.c ---- */

/* An entry of a version, in no table yet; NULL: out of memory, and what source has stays the
 * caller's. A plug-in is not started. */
struct srv_model_entry *srv_core__entry_create(const struct srv_core *core,
                                               const struct srv_model_source *source);
/* And all that is its own; of an entry whose plug-in, if it has one, is closed. */
void srv_core__entry_free(struct srv_core *core, struct srv_model_entry *entry);
/* Room in the table for so many more entries. */
bool srv_core__reserve_entries(struct srv_core *core, uint32_t n_more);
/* Puts an entry into the table, where it is the only one of its name and version, and has room. */
void srv_core__insert_entry(struct srv_core *core, struct srv_model_entry *entry);

/* Warms entries that are loading, wherever they stand; nothing else is warmed meanwhile. */
void srv_core__warm(struct srv_core *core, struct srv_model_entry *const *entries, uint32_t n,
                    void (*warmed)(void *context), void *context);

/* A model's last request may have been answered: what was retired may go. */
void srv_core__check_retired(struct srv_core *core, const struct srv_model_entry *entry);
/* Something may be done for those who want models loaded or unloaded. */
void srv_core__wake_controls(struct srv_core *core);
/* Whether nobody wants anything of control.c, and it does nothing. */
bool srv_core__has_controls(const struct srv_core *core);

/* Calls the idle callback if it is due. */
void srv_core__check_idle(struct srv_core *core);

void srv_core__timer_fired(uv_timer_t *timer);

#endif
