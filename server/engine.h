/* The engine: devices, each with its pool thread and a scheduler, wired together; cell types and
 * row stores.
 *
 * A device is one memory, and a graph lives on one device from its reservation to its end: no state
 * and no value ever leaves it, so devices know nothing of each other. Each has all types and rows
 * of its own. Which device a graph goes to is decided when its rows are reserved: the one with the
 * fewest graphs inside that has the rows free; of equals, in turn.
 *
 * It runs cell graphs and knows nothing of requests or protocols: the benchmark drives it without a
 * network. Jobs come in from one thread (the loop thread, or a benchmark's own) and leave on their
 * device's pool thread. */
#ifndef SERVER_ENGINE_H
#define SERVER_ENGINE_H

#include "base/inbox.h"
#include "cells/backend.h"
#include "cells/model.h"
#include "scheduler/admission.h"
#include "scheduler/scheduler.h"

#define SRV_DEVICES_MAX 16u

struct srv_engine;

struct srv_engine_options {
    const struct cell_backend *backend;
    uint32_t n_devices; /* 1..SRV_DEVICES_MAX, of the backend; each with as many teams */
    uint32_t cards[SRV_DEVICES_MAX]; /* of a backend whose devices are numbered: which */
    const char *isa;
    uint32_t teams, team_threads;
    uint64_t spin_ns;
    bool pin;
    uint32_t rows; /* chains that can be under way at once, per state layout */
    uint32_t batch_rows_max;
    uint32_t tasks_max;            /* batches in flight per queue */
    uint32_t run_steps_max;        /* 0 = no bound of its own */
    bool calibrate;                /* types with a state, at start (server/calibrate.h) */
    const char *calibration_cache; /* folder; "": none; outlives the engine */
    uint64_t watchdog_ns;          /* of device queues; 0: none */
    bool lanes_off;                /* of GPUs (cells/backend.h) */
    /* NULL, or called on a pool thread, at most once a device, when it is lost. */
    void (*lost)(void *context);
    void *lost_context;
};

/* One graph to run. Embedded in what its owner keeps of the request; must stay until `finished`
 * and, when it was cancelled, until `cancelled` has been called too. */
struct srv_job {
    struct sched_graph *graph;
    uint32_t device; /* set by reserve; 0 for who reserves nothing */
    /* Of a graph with nodes that are shown; pool thread, any number of times before `finished`:
     * they have done more steps. */
    void (*progressed)(struct srv_job *job);
    /* Pool thread, once: the graph left; its status says how. */
    void (*finished)(struct srv_job *job);
    /* Pool thread, once per srv_engine_cancel(): the cancel message was seen. */
    void (*cancelled)(struct srv_job *job);
    enum base_status cancel_status;
    struct srv_engine *engine; /* set by submit */
    struct base_message add, cancel;
};

void srv_engine_options_init(struct srv_engine_options *options);

/* Opens the device; UNAVAILABLE, UNIMPLEMENTED (ISA), RESOURCE_EXHAUSTED with the reason. */
enum base_status srv_engine_create(const struct srv_engine_options *options,
                                   struct srv_engine **out, struct base_error *error);
void srv_engine_free(struct srv_engine *engine); /* not running */

/* Where models are loaded from and to; loop thread. */
struct cell_registry *srv_engine_registry(struct srv_engine *engine);

/* Loads the model's types into the device and reserves room in the row stores; before start. The
 * engine keeps what it has loaded, also of a model that failed; the model itself may be freed when
 * nothing of it is inside. */
enum base_status srv_engine_add_model(struct srv_engine *engine, const struct cell_model *model,
                                      struct base_error *error);

/* The type that has the id, if all devices know it, and the layout of that number, if graphs may
 * reserve its rows; else NULL. Loop thread. */
const struct cell_type *srv_engine_type(const struct srv_engine *engine, cell_type_id id);
const struct cell_layout *srv_engine_layout(const struct srv_engine *engine, uint32_t layout);

/* Opens the row stores, calibrates if wanted (2 s a type at most, and then blocks so long), and
 * starts the threads. */
enum base_status srv_engine_start(struct srv_engine *engine, struct base_error *error);
/* No job may be inside. */
void srv_engine_stop(struct srv_engine *engine);

/* ---- Models that come and go while it runs ----
 *
 * One change at a time: prepare, adopt, adopted; or drop, dropped. What a model needs is loaded
 * beside the batches that run, then the pool threads are told between two of them. Row stores stay
 * when a model goes, for the next that has such rows, and one that is there stays as large as it
 * is. */
struct srv_engine_change {
    const struct cell_model *const *models; /* [n_models], the caller's, from prepare to adopted */
    uint32_t n_models;
    /* Pool thread, once for adopt and once for drop: all devices have been told. */
    void (*done)(struct srv_engine_change *change);

    /* The engine's own, zeros at first. */
    struct srv_engine *engine;
    const struct cell_type *types[CELL_TYPES_MAX]; /* that are new, or go */
    uint32_t n_types;
    uint32_t rows_per_chain[CELL_LAYOUTS_MAX];
    _Atomic uint32_t n_left; /* devices that have not been told */
    _Atomic bool is_short;   /* of memory, on some device */
    struct srv_engine_notice {
        struct base_message message;
        struct srv_engine_change *change;
        uint32_t device;
    } notices[SRV_DEVICES_MAX];
};

/* Whether its devices can. UNIMPLEMENTED. */
enum base_status srv_engine_can_change(const struct srv_engine *engine, struct base_error *error);

/* Any one thread, the registry's for that long: loads the types that the devices lack, and opens
 * rows that there are none of. Blocks. On an error no type of it stays. */
enum base_status srv_engine_prepare(struct srv_engine *engine, struct srv_engine_change *change,
                                    struct base_error *error);

/* Loop thread: what was prepared is not wanted. */
void srv_engine_unprepare(struct srv_engine_change *change);

/* Loop thread; done follows. */
void srv_engine_adopt(struct srv_engine *engine, struct srv_engine_change *change);
/* Loop thread, behind done: graphs of the models may come. RESOURCE_EXHAUSTED: they may not, and
 * each model is to be dropped. */
enum base_status srv_engine_adopted(struct srv_engine_change *change, struct base_error *error);

/* Loop thread: models that were adopted or added, of which no graph is inside; done follows, and
 * dropped behind it, after which the models may be freed. */
void srv_engine_drop(struct srv_engine *engine, struct srv_engine_change *change);
void srv_engine_dropped(struct srv_engine_change *change);

/* ---- Jobs ----
 *
 * Reserve before submit, credit after finished: loop thread. fits: some device could hold the graph
 * if it were empty, else waiting does not help. reserve: false, and nothing changes, when no device
 * has the rows now; else job->device is where it goes. */
bool srv_engine_fits(const struct srv_engine *engine, const struct sched_graph *graph);
/* Whether the device can compute each of its chains at all (struct cell_backend's wiring_check). */
enum base_status srv_engine_check(const struct srv_engine *engine, const struct sched_graph *graph,
                                  struct base_error *error);
bool srv_engine_reserve(struct srv_engine *engine, struct srv_job *job);
void srv_engine_credit(struct srv_engine *engine, struct srv_job *job);

void srv_engine_submit(struct srv_engine *engine, struct srv_job *job);

/* At most once per job, after submit, before its owner has seen `finished`. */
void srv_engine_cancel(struct srv_engine *engine, struct srv_job *job, enum base_status status);

/* Inspect: any thread, moment's views. */
const char *srv_engine_description(const struct srv_engine *engine);
uint32_t srv_engine_devices(const struct srv_engine *engine);
const struct sched *srv_engine_scheduler(const struct srv_engine *engine, uint32_t device);
uint64_t srv_engine_busy_ns(const struct srv_engine *engine, uint32_t device);
/* Loop thread. */
const struct sched_admission *srv_engine_admission(const struct srv_engine *engine,
                                                   uint32_t device);

#endif
