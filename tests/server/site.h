/* A whole server without front ends: loop thread, engine, core, hand-built models; and a fake front
 * end whose requests are posted to the loop's inbox from any thread.
 *
 * Models: "chain" 1, "tokens" 1 and 2, "lone" 1 (tests/server/models.h), and "broken" 1, which is
 * unavailable. */
#ifndef TESTS_SERVER_SITE_H
#define TESTS_SERVER_SITE_H

#include "server/core.h"
#include "server/engine.h"
#include "server/loop.h"
#include "tests/server/ask.h"

#include <pthread.h>
#include <stdatomic.h>

struct site_options {
    struct srv_engine_options engine;
    struct srv_core_options core;
    bool gated; /* the test commands the gate: see engine_options() in site.c */
    bool cold;  /* not warmed: site_warm() does it */
    bool keeps; /* "chain" keeps h0=h and c0=c between requests, "tokens" 2 and "lone" the states of
                   their layers */
    /* NULL, or a repository on disk (path from the root of the tree, or absolute) loaded beside the
     * others. */
    const char *repositories[2];
    bool allow_plugins; /* of models there */
};

struct site {
    struct srv_loop loop;
    struct srv_engine *engine;
    struct srv_core *core;
    pthread_t thread;
    struct cell_model *chain, *tokens, *tokens2, *lone;
    _Atomic bool warmed;
    _Atomic uint32_t done; /* requests answered, ever */
};

/* Defaults: the gate's device (tests/server/gate.h), 64 rows, a queue of 100, 64 steps at most,
 * ready only when every model is. */
void site_options_init(struct site_options *options);
void site_open(struct site *site, const struct site_options *options);

/* Drains and ends everything; fails the case when a row, a reservation or a request is left. */
void site_close(struct site *site);

/* Runs function(site, argument) on the loop thread and waits for it. */
void site_call(struct site *site, void (*function)(struct site *site, void *argument),
               void *argument);

/* As the functions of server/core.h, called on the loop thread. */
void site_warm(struct site *site);      /* returns before it is done */
void site_warm_here(struct site *site); /* by a caller on the loop thread */
bool site_is_ready(struct site *site);
struct srv_counters site_counters(struct site *site);
struct srv_model_stats site_stats(struct site *site, const char *model, const char *version);
void site_set_stopping(struct site *site);
void site_refuse_new(struct site *site);
void site_cancel_all(struct site *site);
/* *idle counts the calls. */
void site_when_idle(struct site *site, _Atomic uint32_t *idle);

/* The cells of the newest version; fails the case when there is none. */
const struct cell_model *site_find(struct site *site, const char *model);

/* Rows in use in the device, and reserved by admission. */
uint32_t site_rows(struct site *site);
uint32_t site_reserved(struct site *site);

/* ---- A client's request ---- */

struct visit {
    struct ask ask; /* first: done() finds the visit by it */
    struct site *site;
    struct base_message start, cancel;
    enum base_status cancel_why;
    bool cancel_posted;
    _Atomic bool cancel_seen;          /* the cancel message was delivered */
    _Atomic uint32_t done;             /* how often it was answered: must be once */
    uint32_t wrong;                    /* what done() found amiss */
    void (*then)(struct visit *visit); /* NULL, or called by done() on the loop thread */
};

/* ask is initialised by the caller. */
void visit_start(struct site *site, struct visit *visit);
/* At most once a visit; nothing happens when it is answered already. */
void visit_cancel(struct visit *visit, enum base_status why);
/* Until it is answered and its cancel delivered; fails the case after 30 s. */
void visit_wait(struct visit *visit);
bool visit_try_wait(struct visit *visit); /* any thread: the same, false after 30 s */
bool visit_is_done(const struct visit *visit);

/* Waits for this answer, or for the right tensors of an own model, and ends the ask. */
void visit_expect(struct visit *visit, enum base_status status, const char *message);
void visit_expect_ok(struct visit *visit);

/* ---- A model that is to come or go ---- */

struct wish {
    struct srv_control control; /* first */
    struct site *site;
    struct base_message start;
    _Atomic uint32_t done; /* how often: must be once */
};

void wish_start(struct site *site, struct wish *wish, enum srv_control_kind kind, const char *name);
/* Its outcome; the message stands in wish->control.error. */
enum base_status wish_wait(struct wish *wish);
/* Both at once; a failure fails the case. */
void site_load(struct site *site, const char *name);
void site_unload(struct site *site, const char *name);

/* Waits until it is true, 30 s at most; returns whether it became so. */
bool site_until(bool (*is_true)(void *argument), void *argument);

#endif
