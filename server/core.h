/* The server without its front ends: models, request processor, drain. Loop thread only.
 *
 * The processor validates, unfolds and admits: it keeps the count of reserved rows and gets the
 * credit back with the finished request. Front ends ask here for models, readiness and statistics.
 */
#ifndef SERVER_CORE_H
#define SERVER_CORE_H

#include "base/buf.h"
#include "base/hist.h"
#include "server/repository.h"
#include "server/request.h"
#include "server/signature.h"

struct srv_engine;
struct srv_loop;

/* ---- Life cycle: create, models, start, [stopping, refuse, cancel], close, free ---- */

struct srv_core_options {
    uint32_t queue_max;                 /* requests of a model that may wait for rows */
    enum base_status queue_full_status; /* RESOURCE_EXHAUSTED or UNAVAILABLE */
    uint32_t sequence_length_max;
    bool strict_readiness;    /* ready only when every model is */
    uint64_t session_idle_ns; /* a silence that ends a session; 0: 60 s */
    size_t session_bytes_max; /* memory of all sessions */
    bool model_control;       /* clients may load and unload models (srv_core_control()), of */
    struct srv_repository_options repository; /* this repository; its texts outlive core */
};

/* Engine and loop outlive core. RESOURCE_EXHAUSTED. */
enum base_status srv_core_create(struct srv_loop *loop, struct srv_engine *engine,
                                 const struct srv_core_options *options, struct srv_core **out)
    __attribute__((warn_unused_result));
/* After srv_core_close() and one more turn of the loop; nothing waiting or running. */
void srv_core_free(struct srv_core *core);
void srv_core_close(struct srv_core *core); /* closes the timer's handle */

struct srv_model_source {
    const char *name, *version;
    struct cell_model *cells; /* core's from now on; NULL: the model is unavailable for `reason` */
    struct srv_texts *texts;  /* core's too; NULL: all of its tensors are numbers */
    const char *reason;
    uint32_t sequence_length_max; /* 0 = the server's */
    struct srv_plugin *plugin;    /* core's too; NULL unless cells are of CELL_UNFOLD_PLUGIN */
    uint64_t unfold_deadline_ns;  /* for a call of it */
};

/* Adds a version before srv_core_warm(). ALREADY_EXISTS, RESOURCE_EXHAUSTED: cells, texts and
 * plugin stay the caller's. */
enum base_status srv_core_add_model(struct srv_core *core, const struct srv_model_source *source,
                                    struct base_error *error);

/* Once, the engine running: sends one short sequence of zeros through each model and makes it READY
 * when it comes back; warmed is called on the loop thread when all have. */
void srv_core_warm(struct srv_core *core, void (*warmed)(void *context), void *context);

/* Drain, in this order: not ready any more, but requests are served; new ones are refused with
 * UNAVAILABLE, and a warm-up ends; what is left is cancelled with UNAVAILABLE. */
void srv_core_set_stopping(struct srv_core *core);
void srv_core_refuse_new(struct srv_core *core);
void srv_core_cancel_all(struct srv_core *core);
/* Calls idle once, as soon as nothing waits, runs or warms up: perhaps before this returns. */
void srv_core_when_idle(struct srv_core *core, void (*idle)(void *context), void *context);

/* ---- Models ---- */

enum srv_model_state { SRV_MODEL_LOADING, SRV_MODEL_READY, SRV_MODEL_UNAVAILABLE };

/* One number of the statistics extension: how often, and nanoseconds in all. */
struct srv_stat {
    uint64_t count, ns;
};

/* Updated together in one place (core), so that a reader on the loop thread always finds
 * success.count == queue.count == compute_*.count. */
struct srv_model_stats {
    uint64_t inference_count; /* rows of the batch axis answered */
    uint64_t execution_count; /* cell batches in which the model's requests took part, estimated as
                                 the requests answered until cells count it exactly */
    uint64_t last_inference_ms; /* wall clock, Unix epoch */
    struct srv_stat success, fail, queue, compute_input, compute_infer, compute_output;
};

/* One version of a model. Stays as it is for this turn of the loop at least, and as long as core
 * where models do not come and go (srv_core_control()). */
struct srv_model {
    char name[CELL_NAME_BYTES];
    char version[SRV_VERSION_BYTES]; /* such as "1"; "": unavailable, and no version is known */
    enum srv_model_state state;
    char reason[BASE_ERROR_BYTES];         /* why it is unavailable */
    const struct srv_signature *signature; /* NULL unless READY */
    struct srv_model_stats stats;
    struct base_hist duration_ns;   /* arrival to answer, of answered requests */
    struct base_hist queue_ns;      /* arrival to first cell */
    struct base_hist first_part_ns; /* arrival to first part, of those that were wanted in parts */
    uint64_t parts;                 /* of answers, that went before the end */
};

/* Live: the loop turns (asking is proof). Ready: all wanted models warm, not draining. */
bool srv_core_is_ready(const struct srv_core *core);
bool srv_core_is_draining(const struct srv_core *core);

/* All versions of all models, in the order name, then version number. */
uint32_t srv_core_models(const struct srv_core *core);
const struct srv_model *srv_core_model_at(const struct srv_core *core, uint32_t index);

/* version "" = the highest. NOT_FOUND names what is missing; a model that is not ready is found. */
enum base_status srv_core_find_model(const struct srv_core *core, const char *name,
                                     const char *version, const struct srv_model **out,
                                     struct base_error *error);

/* ---- Models that are loaded and unloaded while the server runs ---- */

enum srv_control_kind { SRV_CONTROL_LOAD, SRV_CONTROL_UNLOAD };

/* What somebody wants of the model of that name, of all its versions. */
struct srv_control {
    enum srv_control_kind kind;
    char name[CELL_NAME_BYTES];
    /* Loop thread, once, perhaps before srv_core_control() returns: error says how it went, and the
     * memory is its owner's again. */
    void (*done)(struct srv_control *control);
    struct base_error error;  /* set by core */
    struct srv_control *next; /* core's own */
};

/* One after the other, in the order in which they come. LOAD is done when every version in the
 * repository's folder of that name has answered its warm-up; versions that were served before are
 * served until then, and on when it fails. UNLOAD is done when no new request is taken; those that
 * were are answered. NOT_FOUND, INVALID_ARGUMENT (a name that is none), FAILED_PRECONDITION (the
 * options do not allow it), UNIMPLEMENTED (the device cannot), UNAVAILABLE (the server is
 * stopping), and what the model's files give cause to. */
void srv_core_control(struct srv_core *core, struct srv_control *control);

/* Whether the options allow it. */
bool srv_core_has_control(const struct srv_core *core);

/* A silence that ends a session. */
uint64_t srv_core_session_idle_ns(const struct srv_core *core);

/* Server-wide counts, for /metrics. */
struct srv_counters {
    uint64_t requests_total[SRV_PROTOCOL_COUNT][BASE_STATUS_COUNT];
    uint64_t rejected_queue_full, rejected_deadline, rejected_too_large, rejected_draining;
    uint64_t cancelled_waiting, cancelled_running;
    uint64_t reloads_taken, reloads_refused;
    uint32_t requests_waiting; /* for rows, or for a plug-in */
    uint32_t requests_running; /* admitted, not yet done */
};
const struct srv_counters *srv_core_counters(const struct srv_core *core);

/* Counts of a front end's own refusals (message too large, undecodable), so that totals are true.
 */
void srv_core_count_refused(struct srv_core *core, enum srv_protocol protocol,
                            enum base_status status);

/* What /metrics says of secrets (server/secrets.h): files that were read anew are in force, or were
 * wrong; and when the certificate ends, in seconds since 1970, 0 without one. */
void srv_core_count_reload(struct srv_core *core, bool is_taken);
void srv_core_set_certificate_end(struct srv_core *core, int64_t wall_s);

/* Appends all metrics of core, scheduler and devices in Prometheus text format 0.0.4; names as in
 * docs/metrics.md. */
void srv_core_write_metrics(const struct srv_core *core, struct base_buf *out);

#endif
