/* The engine's inside, shared by engine.c (life, jobs), engine_models.c (models before it starts)
 * and engine_change.c (models while it runs). Private to these. */
#ifndef SERVER_ENGINE_STATE_H
#define SERVER_ENGINE_STATE_H

#include "server/device_cache.h"
#include "server/engine.h"
#include "worker/pool.h"

struct srv_device {
    struct wrk_pool *pool;
    struct sched *sched;
    uint32_t store_rows[CELL_LAYOUTS_MAX]; /* that it has; of whoever loads */
    struct sched_admission admission;      /* loop thread, as inside */
    uint32_t inside;                       /* graphs reserved for */
    bool running;
};

/* What the models that the engine has make of a type. */
struct srv_engine_type {
    const struct cell_type *type; /* NULL: the devices do not have it */
    uint32_t uses;                /* stages of models */
    uint32_t priority;            /* the highest place in any model */
    uint32_t group;               /* types that take turns with others as one */
    bool recurs;                  /* in some model: these are calibrated */
    bool is_known;                /* to the schedulers of all devices */
};

struct srv_engine {
    struct srv_engine_options options;
    struct cell_registry *registry;
    struct srv_device *devices; /* [options.n_devices] */
    uint32_t turn; /* who comes first of devices with as many graphs inside; loop thread */
    struct cell_device_caps caps; /* all are of one kind */
    struct srv_engine_type types[CELL_TYPES_MAX];
    uint32_t rows_per_chain[CELL_LAYOUTS_MAX]; /* the most that one chain of any model needs */
    const struct cell_layout *layouts[CELL_LAYOUTS_MAX]; /* whose rows graphs may reserve */
    bool running;
    struct srv_device_cache cache;
};

/* ---- Of engine_models.c, for engine.c and engine_change.c ---- */

/* Whether the devices can serve it. UNIMPLEMENTED. */
enum base_status srv_engine__check_model(const struct srv_engine *engine,
                                         const struct cell_model *model, struct base_error *error);
/* On every device, or on none. */
enum base_status srv_engine__type_load(struct srv_engine *engine, const struct cell_type *type,
                                       struct base_error *error);
/* Of a type that is loaded on the first n_devices. */
void srv_engine__type_unload(struct srv_engine *engine, const struct cell_type *type,
                             uint32_t n_devices);
/* Tells a device's scheduler of the type, as it is tuned. RESOURCE_EXHAUSTED. */
enum base_status srv_engine__type_set(const struct srv_engine *engine, struct srv_device *device,
                                      const struct cell_type *type);
/* Counts the stages of a model whose types the devices have. */
void srv_engine__count_uses(struct srv_engine *engine, const struct cell_model *model);
/* Memory for rows of the layout, of which a chain needs so many, on every device that has none. */
enum base_status srv_engine__rows_open(struct srv_engine *engine, uint32_t layout,
                                       uint32_t per_chain, struct base_error *error);
/* Before the threads start: row stores, ids and calibrations. */
enum base_status srv_engine__open(struct srv_engine *engine, struct base_error *error);
/* Sets how types that recur are best computed, from the cache on disk, or measured where nothing
 * runs (may_measure). Their rows are open. */
void srv_engine__calibrate(struct srv_engine *engine, const struct cell_type *const *types,
                           uint32_t n_types, bool may_measure);

#endif
