/* See explain.h. The pool is opened, but never started: a calibration runs before a start anyway.
 */
#include "server/explain.h"

#include "base/clock.h"
#include "cells/model.h"
#include "server/calibrate.h"
#include "server/device.h"
#include "server/device_cache.h"
#include "server/model_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Rows whose times are told. */
static const uint32_t told_rows[] = {1, 4, 16, 64};

struct explaining {
    struct srv_device_cache cache;
    const struct cfg_config *config;
    const struct cell_backend *backend;
    struct wrk_pool *pool;
    struct cell_registry *registry;
    struct srv_model_files files;
    const struct cell_model *model; // of files
    struct srv_calibrator calibrator;
    bool is_loaded[CELL_TYPES_MAX]; /* and explained */
    bool is_open[CELL_LAYOUTS_MAX];
    struct base_buf *out;
};

/* ---- Device and model ------------------------------------------------------------------------ */

static enum base_status open_pool(struct explaining *e, struct base_error *error)
{
    const struct cfg_config *config = e->config;
    struct srv_devices devices;
    BASE_TRY(srv_device_choose(config, &devices, error));
    e->backend = devices.backend;
    srv_device_cache_init(&e->cache, config->calibration_cache);
    const struct wrk_pool_options options = {.backend = e->backend,
                                             .lanes_off = !e->config->lanes,
                                             .card = devices.cards[0],
                                             .isa = config->isa,
                                             .teams = config->teams,
                                             .team_threads = cfg_threads(config) / config->teams,
                                             .batches_queued_max = 1,
                                             .spin_ns = config->spin_us * BASE_NS_PER_US,
                                             .pin = config->pin_threads,
                                             .cache = srv_device_cache_of(&e->cache)};
    BASE_TRY(wrk_pool_create(&options, &e->pool, error));
    e->calibrator = (struct srv_calibrator){.pool = e->pool,
                                            .backend = e->backend,
                                            .folder = config->calibration_cache,
                                            .teams = options.teams,
                                            .team_threads = options.team_threads,
                                            .is_pinned = options.pin,
                                            .may_measure = true};
    srv_calibrator_init(&e->calibrator);
    return BASE_OK;
}

static enum base_status load_model(struct explaining *e, struct base_error *error)
{
    if (cell_registry_create(&e->registry) != BASE_OK) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    BASE_TRY(srv_model_files_open(e->registry, e->config->explain_model, &e->files, error));
    e->model = e->files.cells;
    return BASE_OK;
}

/* ---- A type ---------------------------------------------------------------------------------- */

static enum base_status open_rows(struct explaining *e, uint32_t layout, struct base_error *error)
{
    if (e->is_open[layout]) {
        return BASE_OK;
    }
    e->is_open[layout] = true;
    return e->backend->rows_open(wrk_pool_device(e->pool), layout,
                                 cell_registry_layout(e->registry, layout),
                                 CELL_CALIBRATION_ROWS_MAX, error);
}

static void write_times(struct base_buf *out, const struct cell_calibration *calibration,
                        const struct cell_tuning *choice)
{
    const char *lead = "";
    base_buf_text(out, "    a step takes ");
    for (uint32_t i = 0; i < sizeof(told_rows) / sizeof(told_rows[0]); i++) {
        for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
            uint64_t ns = cell_calibration_step_ns(calibration, choice, p);
            if (cell_calibration_rows[p] == told_rows[i] && ns > 0) {
                base_buf_printf(out, "%s%.1f us with %u row%s", lead, (double)ns / 1e3,
                                told_rows[i], told_rows[i] == 1 ? "" : "s");
                lead = ", ";
            }
        }
    }
}

static enum base_status explain_times(struct explaining *e, const struct cell_type *type,
                                      struct base_error *error)
{
    static const char *const sources[] = {"from the cache", "measured now",
                                          "measured now, disturbed by other work", "not measured"};
    struct cell_calibration calibration;
    struct cell_tuning choice;
    const uint32_t rows = e->config->max_batch_rows;
    if (type->state_layout != CELL_LAYOUT_NONE) {
        BASE_TRY(open_rows(e, type->state_layout, error));
    }
    enum srv_calibrated how = srv_calibrate(&e->calibrator, type, rows, &calibration, &choice);
    if (how != SRV_CALIBRATED_FAILED) {
        write_times(e->out, &calibration, &choice);
        base_buf_printf(e->out, " (%s)\n", sources[how]);
    }
    if (cell_calibration_has(&calibration, CELL_TUNABLE_WINDOWS)) {
        base_buf_printf(e->out, "    windows up to %u rows", choice.ahead_rows);
        if (choice.fill_steps > 0) {
            base_buf_printf(e->out, ", fills of %u steps", choice.fill_steps);
        }
        base_buf_printf(e->out, " (the device's own rule: %u rows)\n", calibration.own.ahead_rows);
    }
    if (cell_calibration_has(&calibration, CELL_TUNABLE_TEAM) && choice.solo_rows > 0) {
        base_buf_printf(e->out, "    one thread for up to %u rows (the device's own rule: %u)\n",
                        choice.solo_rows, calibration.own.solo_rows);
    }
    if (cell_calibration_has(&calibration, CELL_TUNABLE_APART) && choice.apart_rows > 0) {
        base_buf_printf(e->out, "    each thread runs rows of its own from %u rows on\n",
                        choice.apart_rows);
    }
    if (choice.beside_rows > 0) {
        base_buf_printf(
            e->out,
            "    up to %u rows run beside another type, each on half the threads; up to "
            "%u behind the layer that they read\n",
            choice.beside_rows, choice.follow_rows);
    }
    uint32_t b_max = choice.knee_rows > 0 && choice.knee_rows < rows ? choice.knee_rows : rows;
    base_buf_printf(e->out, "    batches of up to %u rows (%s)\n", b_max,
                    b_max < rows ? "b_max" : "max-batch-rows");
    return BASE_OK;
}

static enum base_status explain_type(struct explaining *e, uint32_t stage, struct base_error *error)
{
    const struct cell_type *type = e->model->stages[stage].type;
    struct cell_device *device = wrk_pool_device(e->pool);
    if (e->is_loaded[type->id]) {
        base_buf_text(e->out, "    the same type as above\n");
        return BASE_OK;
    }
    BASE_TRY(e->backend->type_load(device, type, error));
    e->is_loaded[type->id] = true;
    if (e->backend->type_explain != NULL) {
        e->backend->type_explain(device, type, e->out);
    }
    bool is_calibrated = cell_model_recurs(e->model, stage) && wrk_pool_can_calibrate(e->pool) &&
                         strcmp(e->config->calibrate, "off") != 0;
    return is_calibrated ? explain_times(e, type, error) : BASE_OK;
}

static enum base_status explain_stages(struct explaining *e, struct base_error *error)
{
    struct cell_device_caps caps;
    e->backend->caps(wrk_pool_device(e->pool), &caps);
    base_buf_printf(e->out, "%s: %u stage%s on %s\n", e->config->explain_model, e->model->n_stages,
                    e->model->n_stages == 1 ? "" : "s", caps.description);
    for (uint32_t s = 0; s < e->model->n_stages; s++) {
        const struct cell_stage *stage = &e->model->stages[s];
        const struct cell_type *type = stage->type;
        base_buf_printf(e->out,
                        "  stage %u %s (%s), %" PRIu64 " weight bytes in the file's precision, "
                        "%" PRIu64 " flops a row and step\n",
                        s, type->name, cell_stage_kind_name(stage), type->weight_bytes,
                        type->flops);
        BASE_TRY(explain_type(e, s, error));
    }
    return BASE_OK;
}

static void release(struct explaining *e)
{
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        if (e->is_loaded[t]) {
            e->backend->type_unload(wrk_pool_device(e->pool), cell_registry_type(e->registry, t));
        }
    }
    wrk_pool_free(e->pool);
    if (e->model != NULL) {
        srv_model_files_release(e->registry, &e->files);
    }
    cell_registry_free(e->registry);
}

enum base_status srv_explain_model(const struct cfg_config *config, struct base_buf *out,
                                   struct base_error *error)
{
    struct explaining e = {.config = config, .out = out};
    enum base_status status = load_model(&e, error);
    if (status == BASE_OK) {
        status = open_pool(&e, error);
    }
    if (status == BASE_OK) {
        status = explain_stages(&e, error);
    }
    release(&e);
    return status;
}
