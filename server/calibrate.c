/* See calibrate.h. A cache that cannot be used is a warning and costs the time to measure anew; it
 * never keeps the server from starting. */
#include "server/calibrate.h"

#include "base/clock.h"
#include "base/log.h"
#include "server/about.h"

#include <stdio.h>

void srv_calibrator_init(struct srv_calibrator *calibrator)
{
    struct cell_device_caps caps;
    calibrator->backend->caps(wrk_pool_device(calibrator->pool), &caps);
    cell_calibration_key_init(&calibrator->key);
    calibrator->key.version = SRV_ABOUT_VERSION;
    calibrator->key.device = caps.description;
    calibrator->key.teams = calibrator->teams;
    calibrator->key.team_threads = calibrator->team_threads;
    calibrator->key.is_pinned = calibrator->is_pinned;
}

static bool read_cache(const struct srv_calibrator *calibrator, const struct cell_type *type,
                       struct cell_calibration *calibration)
{
    struct base_error error = {.status = BASE_OK};
    if (calibrator->folder[0] == '\0') {
        return false;
    }
    enum base_status status =
        cell_calibration_read(calibrator->folder, &calibrator->key, type, calibration, &error);
    if (status != BASE_OK && status != BASE_NOT_FOUND) {
        log_warn("calibration", "measuring again: %s", error.message);
    }
    return status == BASE_OK;
}

static void write_cache(struct srv_calibrator *calibrator, const struct cell_type *type,
                        const struct cell_calibration *calibration)
{
    struct base_error error = {.status = BASE_OK};
    if (calibrator->folder[0] == '\0' || calibrator->cannot_write) {
        return;
    }
    if (cell_calibration_write(calibrator->folder, &calibrator->key, type, calibration, &error) !=
        BASE_OK) {
        log_warn("calibration", "not kept, each start will measure: %s", error.message);
        calibrator->cannot_write = true;
    }
}

/* What stands in a calibration before anything is measured, by which its file is known. */
static void ask_device(const struct srv_calibrator *calibrator, const struct cell_type *type,
                       uint32_t rows_limit, struct cell_calibration *out)
{
    const struct cell_backend *backend = calibrator->backend;
    *out = (struct cell_calibration){.rows_limit = rows_limit < CELL_CALIBRATION_ROWS_MAX
                                                       ? rows_limit
                                                       : CELL_CALIBRATION_ROWS_MAX};
    if (backend->type_tuning != NULL) {
        // Its own rule, whatever an earlier calibration has set.
        backend->type_tune(wrk_pool_device(calibrator->pool), type, NULL);
        out->tunable = backend->type_tuning(wrk_pool_device(calibrator->pool), type, &out->own);
    }
}

static enum srv_calibrated measure(struct srv_calibrator *calibrator, const struct cell_type *type,
                                   struct cell_calibration *calibration)
{
    struct base_error error = {.status = BASE_OK};
    struct cell_calibration measured;
    if (wrk_pool_calibrate(calibrator->pool, type, calibration->rows_limit, &measured, &error) !=
        BASE_OK) {
        log_warn("calibration", "%s is not measured: %s", type->name, error.message);
        return SRV_CALIBRATED_FAILED;
    }
    *calibration = measured;
    if (cell_calibration_is_disturbed(calibration)) {
        return SRV_CALIBRATED_DISTURBED;
    }
    write_cache(calibrator, type, calibration);
    return SRV_CALIBRATED_NOW;
}

static void report(const struct cell_type *type, const struct cell_calibration *calibration,
                   const struct cell_tuning *choice, enum srv_calibrated how, uint64_t took_ns)
{
    static const char *const words[] = {
        "from the cache", "measured", "other work disturbed it, the device's own rule stays",
        "the device's own rule stays", "not measured while the server runs"};
    char b_max[16] = "none";
    if (choice->knee_rows > 0) {
        (void)snprintf(b_max, sizeof(b_max), "%u", choice->knee_rows);
    }
    log_info("calibration",
             "%s type=\"%s\" ahead_rows=%u own_ahead_rows=%u fill_steps=%u solo_rows=%u "
             "own_solo_rows=%u apart_rows=%u own_apart_rows=%u beside_rows=%u own_beside_rows=%u "
             "b_max=%s own_b_max=%u ms=%u",
             words[how], type->name, choice->ahead_rows, calibration->own.ahead_rows,
             choice->fill_steps, choice->solo_rows, calibration->own.solo_rows, choice->apart_rows,
             calibration->own.apart_rows, choice->beside_rows, calibration->own.beside_rows, b_max,
             calibration->own.knee_rows, (uint32_t)(took_ns / BASE_NS_PER_MS));
}

enum srv_calibrated srv_calibrate(struct srv_calibrator *calibrator, const struct cell_type *type,
                                  uint32_t rows_limit, struct cell_calibration *calibration,
                                  struct cell_tuning *choice)
{
    uint64_t start_ns = base_now_ns();
    ask_device(calibrator, type, rows_limit, calibration);
    enum srv_calibrated how = SRV_CALIBRATED_CACHE;
    if (!read_cache(calibrator, type, calibration)) {
        how = calibrator->may_measure ? measure(calibrator, type, calibration) : SRV_CALIBRATED_NOT;
    }
    *choice = cell_calibration_choose(calibration);
    if (calibrator->backend->type_tune != NULL) {
        calibrator->backend->type_tune(wrk_pool_device(calibrator->pool), type, choice);
    }
    report(type, calibration, choice, how, base_now_ns() - start_ns);
    return how;
}
