/* Models that come and go while the engine runs.
 *
 * A change goes through three hands. Whoever loads it writes what nobody reads yet: programs of new
 * types and rows of new layouts in the devices. The loop thread then counts it and posts a notice
 * to each pool thread, which tells its scheduler between two batches; the last of them calls
 * `done`. Behind that the loop thread lets graphs in. A model goes the other way round. */
#include "base/assert.h"
#include "server/engine_state.h"
#include "server/probe.h"

#include <string.h>

enum base_status srv_engine_can_change(const struct srv_engine *engine, struct base_error *error)
{
    return engine->caps.live ? BASE_OK
                             : base_fail(error, BASE_UNIMPLEMENTED,
                                         "the device (%s) takes models at the start alone",
                                         engine->caps.description);
}

/* ---- Prepare ---- */

static bool is_new(const struct srv_engine_change *change, const struct cell_type *type)
{
    bool is_listed = change->engine->types[type->id].type != NULL;
    for (uint32_t t = 0; t < change->n_types && !is_listed; t++) {
        is_listed = change->types[t] == type;
    }
    return !is_listed;
}

static enum base_status load_types(struct srv_engine_change *change, const struct cell_model *model,
                                   struct base_error *error)
{
    struct srv_engine *engine = change->engine;
    BASE_TRY(srv_engine__check_model(engine, model, error));
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct cell_type *type = model->stages[s].type;
        if (is_new(change, type)) {
            BASE_TRY(srv_engine__type_load(engine, type, error));
            cell_type_ref(engine->registry, type);
            change->types[change->n_types++] = type;
        }
    }
    return srv_probe_rows(model, change->rows_per_chain, error);
}

static enum base_status open_rows(struct srv_engine_change *change, struct base_error *error)
{
    struct srv_engine *engine = change->engine;
    for (uint32_t l = 0; l < cell_registry_layouts(engine->registry); l++) {
        if (change->rows_per_chain[l] > 0 && engine->layouts[l] == NULL) {
            BASE_TRY(srv_engine__rows_open(engine, l, change->rows_per_chain[l], error));
        }
    }
    return BASE_OK;
}

/* Of the new types those that recur in one of the models. */
static void calibrate(const struct srv_engine_change *change)
{
    const struct cell_type *types[CELL_TYPES_MAX];
    uint32_t n = 0;
    for (uint32_t t = 0; t < change->n_types; t++) {
        bool recurs = false;
        for (uint32_t m = 0; m < change->n_models; m++) {
            const struct cell_model *model = change->models[m];
            for (uint32_t s = 0; s < model->n_stages && !recurs; s++) {
                recurs = model->stages[s].type == change->types[t] && cell_model_recurs(model, s);
            }
        }
        if (recurs) {
            types[n++] = change->types[t];
        }
    }
    srv_engine__calibrate(change->engine, types, n, false);
}

static void unload_types(struct srv_engine_change *change)
{
    struct srv_engine *engine = change->engine;
    for (uint32_t t = 0; t < change->n_types; t++) {
        srv_engine__type_unload(engine, change->types[t], engine->options.n_devices);
        cell_type_unref(engine->registry, change->types[t]);
    }
    change->n_types = 0;
}

void srv_engine_unprepare(struct srv_engine_change *change)
{
    unload_types(change);
}

enum base_status srv_engine_prepare(struct srv_engine *engine, struct srv_engine_change *change,
                                    struct base_error *error)
{
    enum base_status status = srv_engine_can_change(engine, error);
    change->engine = engine;
    change->n_types = 0;
    memset(change->rows_per_chain, 0, sizeof(change->rows_per_chain));
    for (uint32_t m = 0; m < change->n_models && status == BASE_OK; m++) {
        status = load_types(change, change->models[m], error);
    }
    status = status == BASE_OK ? open_rows(change, error) : status;
    if (status != BASE_OK) {
        unload_types(change);
        return status;
    }
    calibrate(change);
    return BASE_OK;
}

/* ---- Notices ---- */

static void post(struct srv_engine_change *change, void (*deliver)(struct base_message *message))
{
    struct srv_engine *engine = change->engine;
    base_assert(engine->running && change->done != NULL);
    atomic_store(&change->is_short, false);
    atomic_store(&change->n_left, engine->options.n_devices);
    for (uint32_t d = 0; d < engine->options.n_devices; d++) {
        struct srv_engine_notice *notice = &change->notices[d];
        notice->change = change;
        notice->device = d;
        notice->message.deliver = deliver;
        wrk_pool_post(engine->devices[d].pool, &notice->message);
    }
}

static struct srv_engine_notice *notice_of(struct base_message *message)
{
    return (struct srv_engine_notice *)(void *)((char *)message -
                                                offsetof(struct srv_engine_notice, message));
}

/* Pool thread: one device more has been told. */
static void told(struct srv_engine_change *change)
{
    if (atomic_fetch_sub(&change->n_left, 1) == 1) {
        change->done(change);
    }
}

/* ---- A model comes ---- */

static enum base_status tell_types(const struct srv_engine_change *change,
                                   struct srv_device *device)
{
    for (uint32_t m = 0; m < change->n_models; m++) {
        const struct cell_model *model = change->models[m];
        for (uint32_t s = 0; s < model->n_stages; s++) {
            BASE_TRY(srv_engine__type_set(change->engine, device, model->stages[s].type));
        }
    }
    return BASE_OK;
}

static enum base_status tell_rows(const struct srv_engine_change *change, struct srv_device *device)
{
    for (uint32_t l = 0; l < CELL_LAYOUTS_MAX; l++) {
        if (change->rows_per_chain[l] > 0 &&
            sched_rows_capacity(sched_rows_of(device->sched), l) == 0) {
            BASE_TRY(sched_layout_open(device->sched, l, device->store_rows[l]));
        }
    }
    return BASE_OK;
}

static void deliver_adopt(struct base_message *message)
{
    struct srv_engine_notice *notice = notice_of(message);
    struct srv_engine_change *change = notice->change;
    struct srv_device *device = &change->engine->devices[notice->device];
    if (tell_types(change, device) != BASE_OK || tell_rows(change, device) != BASE_OK) {
        atomic_store(&change->is_short, true);
    }
    told(change);
}

void srv_engine_adopt(struct srv_engine *engine, struct srv_engine_change *change)
{
    base_assert(change->engine == engine);
    for (uint32_t t = 0; t < change->n_types; t++) {
        const struct cell_type *type = change->types[t];
        engine->types[type->id] = (struct srv_engine_type){.type = type};
    }
    for (uint32_t m = 0; m < change->n_models; m++) {
        srv_engine__count_uses(engine, change->models[m]);
    }
    post(change, deliver_adopt);
}

enum base_status srv_engine_adopted(struct srv_engine_change *change, struct base_error *error)
{
    struct srv_engine *engine = change->engine;
    if (atomic_load(&change->is_short)) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (uint32_t m = 0; m < change->n_models; m++) {
        const struct cell_model *model = change->models[m];
        for (uint32_t s = 0; s < model->n_stages; s++) {
            engine->types[model->stages[s].type->id].is_known = true;
        }
    }
    for (uint32_t l = 0; l < CELL_LAYOUTS_MAX; l++) {
        if (change->rows_per_chain[l] > 0 && engine->layouts[l] == NULL) {
            for (uint32_t d = 0; d < engine->options.n_devices; d++) {
                struct srv_device *device = &engine->devices[d];
                device->admission.capacity[l] = device->store_rows[l];
            }
            engine->layouts[l] = cell_registry_layout(engine->registry, l);
        }
    }
    return BASE_OK;
}

/* ---- A model goes ---- */

static void deliver_drop(struct base_message *message)
{
    struct srv_engine_notice *notice = notice_of(message);
    struct srv_engine_change *change = notice->change;
    for (uint32_t t = 0; t < change->n_types; t++) {
        sched_type_drop(change->engine->devices[notice->device].sched, change->types[t]);
    }
    told(change);
}

void srv_engine_drop(struct srv_engine *engine, struct srv_engine_change *change)
{
    change->engine = engine;
    change->n_types = 0;
    for (uint32_t m = 0; m < change->n_models; m++) {
        const struct cell_model *model = change->models[m];
        for (uint32_t s = 0; s < model->n_stages; s++) {
            struct srv_engine_type *known = &engine->types[model->stages[s].type->id];
            base_assert(known->type == model->stages[s].type && known->uses > 0);
            known->uses--;
            if (known->uses == 0) {
                known->is_known = false;
                change->types[change->n_types++] = known->type;
            }
        }
    }
    post(change, deliver_drop);
}

void srv_engine_dropped(struct srv_engine_change *change)
{
    for (uint32_t t = 0; t < change->n_types; t++) {
        change->engine->types[change->types[t]->id] = (struct srv_engine_type){0};
    }
    unload_types(change);
}
