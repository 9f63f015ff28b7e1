/* Models before the engine starts: their types go into the devices and schedulers, rows are opened,
 * types that wait for one another are calibrated. Loop thread. */
#include "base/assert.h"
#include "base/mem.h"
#include "server/batch_rows.h"
#include "server/calibrate.h"
#include "server/engine_state.h"
#include "server/probe.h"

void srv_engine__type_unload(struct srv_engine *engine, const struct cell_type *type,
                             uint32_t n_devices)
{
    for (uint32_t d = 0; d < n_devices; d++) {
        engine->options.backend->type_unload(wrk_pool_device(engine->devices[d].pool), type);
    }
}

enum base_status srv_engine__type_load(struct srv_engine *engine, const struct cell_type *type,
                                       struct base_error *error)
{
    for (uint32_t d = 0; d < engine->options.n_devices; d++) {
        struct cell_device *device = wrk_pool_device(engine->devices[d].pool);
        enum base_status status = engine->options.backend->type_load(device, type, error);
        if (status != BASE_OK) {
            srv_engine__type_unload(engine, type, d);
            return status;
        }
    }
    return BASE_OK;
}

/* Rows of a batch, and those up to which it may have another beside it. */
enum base_status srv_engine__type_set(const struct srv_engine *engine, struct srv_device *device,
                                      const struct cell_type *type)
{
    const struct cell_backend *backend = engine->options.backend;
    const struct srv_engine_type *known = &engine->types[type->id];
    const struct srv_engine_options *options = &engine->options;
    struct cell_tuning tuning = {0};
    if (backend->type_tuning != NULL) {
        (void)backend->type_tuning(wrk_pool_device(device->pool), type, &tuning);
    }
    const uint32_t rows = srv_batch_rows(type, known->recurs, tuning.knee_rows, &engine->caps,
                                         options->team_threads, options->batch_rows_max);
    BASE_TRY(sched_type_set(device->sched, type, known->priority, rows));
    sched_type_set_group(device->sched, type, known->group);
    if (engine->caps.beside) {
        sched_type_set_beside(device->sched, type, tuning.beside_rows, tuning.follow_rows);
    }
    return BASE_OK;
}

static enum base_status type_set_everywhere(struct srv_engine *engine, const struct cell_type *type)
{
    for (uint32_t d = 0; d < engine->options.n_devices; d++) {
        BASE_TRY(srv_engine__type_set(engine, &engine->devices[d], type));
    }
    return BASE_OK;
}

enum base_status srv_engine__check_model(const struct srv_engine *engine,
                                         const struct cell_model *model, struct base_error *error)
{
    const bool has_label_beam = model->labels.is_on && model->decoder.beam_width > 0;
    return !has_label_beam || engine->caps.label_beams
               ? BASE_OK
               : base_fail(error, BASE_UNIMPLEMENTED,
                           "%s has no beams of transducers: serve the model without one",
                           engine->caps.description);
}

/* A number that no group has; the schedulers' own for all, 0, where there is none left. */
static uint32_t free_group(const struct srv_engine *engine)
{
    bool is_taken[CELL_TYPES_MAX] = {false};
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        is_taken[engine->types[t].group] |= engine->types[t].uses > 0;
    }
    for (uint32_t group = 1; group < CELL_TYPES_MAX; group++) {
        if (!is_taken[group]) {
            return group;
        }
    }
    return 0;
}

/* Types of a model take turns with those of others as one; one of several is the first's. */
void srv_engine__count_uses(struct srv_engine *engine, const struct cell_model *model)
{
    const uint32_t group = free_group(engine);
    for (uint32_t s = 0; s < model->n_stages; s++) {
        struct srv_engine_type *known = &engine->types[model->stages[s].type->id];
        base_assert(known->type == model->stages[s].type);
        known->group = known->uses == 0 ? group : known->group;
        known->uses++;
        known->priority = s > known->priority ? s : known->priority; // later in the graph first
        known->recurs |= cell_model_recurs(model, s);
    }
}

/* Into the devices, which hold it until the engine ends, whatever becomes of the model. */
static enum base_status add_type(struct srv_engine *engine, const struct cell_type *type,
                                 struct base_error *error)
{
    if (engine->types[type->id].type != NULL) {
        return BASE_OK;
    }
    BASE_TRY(srv_engine__type_load(engine, type, error));
    cell_type_ref(engine->registry, type);
    engine->types[type->id].type = type;
    return BASE_OK;
}

enum base_status srv_engine_add_model(struct srv_engine *engine, const struct cell_model *model,
                                      struct base_error *error)
{
    base_assert(!engine->running);
    BASE_TRY(srv_engine__check_model(engine, model, error));
    for (uint32_t s = 0; s < model->n_stages; s++) {
        BASE_TRY(add_type(engine, model->stages[s].type, error));
    }
    srv_engine__count_uses(engine, model);
    for (uint32_t s = 0; s < model->n_stages; s++) {
        if (type_set_everywhere(engine, model->stages[s].type) != BASE_OK) {
            return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
        }
        engine->types[model->stages[s].type->id].is_known = true;
    }
    return srv_probe_rows(model, engine->rows_per_chain, error);
}

enum base_status srv_engine__rows_open(struct srv_engine *engine, uint32_t layout,
                                       uint32_t per_chain, struct base_error *error)
{
    const uint64_t rows = (uint64_t)engine->options.rows * per_chain;
    const uint32_t capacity = rows < UINT32_MAX / 2 ? (uint32_t)rows : UINT32_MAX / 2;
    for (uint32_t d = 0; d < engine->options.n_devices; d++) {
        struct srv_device *device = &engine->devices[d];
        if (device->store_rows[layout] == 0) {
            BASE_TRY(engine->options.backend->rows_open(
                wrk_pool_device(device->pool), layout,
                cell_registry_layout(engine->registry, layout), capacity, error));
            device->store_rows[layout] = capacity;
        }
    }
    return BASE_OK;
}

/* Ids for the rows that there are, and their reservation. */
static enum base_status ids_open(struct srv_engine *engine, uint32_t layout,
                                 struct base_error *error)
{
    for (uint32_t d = 0; d < engine->options.n_devices; d++) {
        struct srv_device *device = &engine->devices[d];
        const uint32_t capacity = device->store_rows[layout];
        const enum base_status status = sched_layout_open(device->sched, layout, capacity);
        if (status != BASE_OK) {
            return base_fail(error, status, "no memory for %u rows", capacity);
        }
        device->admission.capacity[layout] = capacity;
    }
    engine->layouts[layout] = cell_registry_layout(engine->registry, layout);
    return BASE_OK;
}

/* Rows that a batch of the type can have at most while it is measured; 0: it has none. A batch of
 * cells that wait for nobody may be as large as it can. */
static uint32_t calibration_rows(const struct srv_engine *engine, const struct cell_type *type)
{
    const uint32_t most = engine->options.batch_rows_max;
    if (type->state_layout == CELL_LAYOUT_NONE) {
        return most;
    }
    const uint32_t rows = engine->devices[0].store_rows[type->state_layout];
    return rows < most ? rows : most;
}

void srv_engine__calibrate(struct srv_engine *engine, const struct cell_type *const *types,
                           uint32_t n_types, bool may_measure)
{
    const struct srv_engine_options *options = &engine->options;
    if (!options->calibrate || !wrk_pool_can_calibrate(engine->devices[0].pool)) {
        return;
    }
    // Only devices that compute inside pump() are measured, and of them there is one.
    struct srv_calibrator calibrator = {.pool = engine->devices[0].pool,
                                        .backend = options->backend,
                                        .folder = options->calibration_cache,
                                        .teams = options->teams,
                                        .team_threads = options->team_threads,
                                        .is_pinned = options->pin,
                                        .may_measure = may_measure};
    srv_calibrator_init(&calibrator);
    for (uint32_t t = 0; t < n_types; t++) {
        const uint32_t rows = calibration_rows(engine, types[t]);
        if (rows > 0) {
            struct cell_calibration calibration;
            struct cell_tuning choice;
            (void)srv_calibrate(&calibrator, types[t], rows, &calibration, &choice);
        }
    }
}

static void calibrate_all(struct srv_engine *engine)
{
    const struct cell_type *types[CELL_TYPES_MAX];
    uint32_t n = 0;
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        if (engine->types[t].is_known && engine->types[t].recurs) {
            types[n++] = engine->types[t].type;
        }
    }
    srv_engine__calibrate(engine, types, n, true);
    for (uint32_t t = 0; t < n; t++) {
        // It is known already, so no memory is needed.
        const enum base_status status = type_set_everywhere(engine, types[t]);
        base_assert(status == BASE_OK);
    }
}

enum base_status srv_engine__open(struct srv_engine *engine, struct base_error *error)
{
    for (uint32_t l = 0; l < cell_registry_layouts(engine->registry); l++) {
        if (engine->rows_per_chain[l] > 0 && engine->layouts[l] == NULL) {
            BASE_TRY(srv_engine__rows_open(engine, l, engine->rows_per_chain[l], error));
            BASE_TRY(ids_open(engine, l, error));
        }
    }
    calibrate_all(engine);
    return BASE_OK;
}
