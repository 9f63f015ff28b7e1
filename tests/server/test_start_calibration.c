/* Calibration as a start does it: measured once, then from the cache; a cache that is damaged,
 * another's or cannot be written is a matter of time only. */
#include "server/calibrate.h"

#include "base/log.h"
#include "base/mem.h"
#include "cells/backend.h"
#include "tests/cells/build.h"
#include "tests/util.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define ROWS 8u

static char folder[UTIL_PATH_BYTES];
static struct base_error error;
static struct build build;
static struct cell_registry *registry;
static const struct cell_type *type;
static const struct cell_backend *backend;
static struct wrk_pool *pool;
static struct cell_calibration calibration;
static struct cell_tuning choice;

static void setup(void)
{
    bool is_new = false;
    util_temp_dir(folder);
    backend = cell_backend_find("cpu");
    // Scalar: in a build with sanitizers too, twice the rows take twice the time. Vector kernels
    // that compute several rows together do not, and that is taken for a disturbance.
    const struct wrk_pool_options options = {.backend = backend,
                                             .isa = "scalar",
                                             .teams = 1,
                                             .team_threads = 1,
                                             .batches_queued_max = 1};
    build_lstm_cell(&build, 3, 4, 1);
    ck_assert_int_eq(wrk_pool_create(&options, &pool, &error), BASE_OK);
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    ck_assert_int_eq(
        cell_registry_intern(registry, &build.def, "test/cell", &type, &is_new, &error), BASE_OK);
    struct cell_device *device = wrk_pool_device(pool);
    ck_assert_int_eq(backend->type_load(device, type, &error), BASE_OK);
    ck_assert_int_eq(backend->rows_open(device, type->state_layout,
                                        cell_registry_layout(registry, type->state_layout), ROWS,
                                        &error),
                     BASE_OK);
}

static void teardown(void)
{
    wrk_pool_free(pool);
    cell_registry_free(registry);
    build_release(&build);
    util_remove_tree(folder);
}

static struct srv_calibrator calibrator_of(const char *cache)
{
    struct srv_calibrator calibrator = {.pool = pool,
                                        .backend = backend,
                                        .folder = cache,
                                        .teams = 1,
                                        .team_threads = 1,
                                        .may_measure = true};
    srv_calibrator_init(&calibrator);
    return calibrator;
}

static enum srv_calibrated calibrate(struct srv_calibrator *calibrator)
{
    return srv_calibrate(calibrator, type, ROWS, &calibration, &choice);
}

/* Measured anew; only on a machine that is too busy is the result not kept. */
static void expect_measured(struct srv_calibrator *calibrator)
{
    enum srv_calibrated how = calibrate(calibrator);
    ck_assert(how == SRV_CALIBRATED_NOW || how == SRV_CALIBRATED_DISTURBED);
    for (uint32_t i = 0; i < 20 && how == SRV_CALIBRATED_DISTURBED; i++) {
        how = calibrate(calibrator);
    }
    ck_assert_int_eq(how, SRV_CALIBRATED_NOW);
    ck_assert_uint_gt(calibration.step_ns[CELL_VARIANT_PLAIN][0], 0);
}

static uint32_t files_in(const char *path, char name[UTIL_PATH_BYTES])
{
    uint32_t n = 0;
    DIR *list = opendir(path);
    ck_assert_ptr_nonnull(list);
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        if (entry->d_name[0] != '.') {
            snprintf(name, UTIL_PATH_BYTES, "%s", entry->d_name);
            n++;
        }
    }
    closedir(list);
    return n;
}

START_TEST(test_second_start_reads_what_the_first_has_measured)
{
    char name[UTIL_PATH_BYTES];
    struct cell_tuning now;
    struct srv_calibrator first = calibrator_of(folder);
    expect_measured(&first);
    ck_assert_uint_eq(files_in(folder, name), 1);
    struct cell_calibration measured = calibration;
    struct cell_tuning chosen = choice;
    // What is in force, by the first or otherwise, is not taken for the device's own rule.
    const struct cell_tuning other = {.ahead_rows = calibration.own.ahead_rows + 1};
    backend->type_tune(wrk_pool_device(pool), type, &other);
    struct srv_calibrator second = calibrator_of(folder);
    ck_assert_int_eq(calibrate(&second), SRV_CALIBRATED_CACHE);
    ck_assert_mem_eq(&calibration, &measured, sizeof(measured));
    ck_assert_uint_eq(choice.knee_rows, chosen.knee_rows);
    ck_assert(backend->type_tuning(wrk_pool_device(pool), type, &now));
    ck_assert_uint_eq(now.ahead_rows, chosen.ahead_rows);
    ck_assert_uint_eq(now.fill_steps, chosen.fill_steps);
    ck_assert_uint_eq(now.knee_rows, chosen.knee_rows);
}
END_TEST

START_TEST(test_unusable_caches_are_measured_again_and_replaced)
{
    char name[UTIL_PATH_BYTES];
    char path[2 * UTIL_PATH_BYTES];
    struct srv_calibrator calibrator = calibrator_of(folder);
    expect_measured(&calibrator);
    ck_assert_uint_eq(files_in(folder, name), 1);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    util_write_file(path, "cellbatch-calibration 1\nprogram ");
    expect_measured(&calibrator);
    ck_assert_int_eq(calibrate(&calibrator), SRV_CALIBRATED_CACHE);
    struct srv_calibrator elsewhere = calibrator_of(folder);
    snprintf(elsewhere.key.processor, sizeof(elsewhere.key.processor), "Another Processor");
    expect_measured(&elsewhere);
    ck_assert_int_eq(calibrate(&elsewhere), SRV_CALIBRATED_CACHE);
    ck_assert_uint_eq(files_in(folder, name), 1);
}
END_TEST

START_TEST(test_cache_that_cannot_be_written_is_said_once)
{
    char path[2 * UTIL_PATH_BYTES];
    snprintf(path, sizeof(path), "%s/no/such", folder);
    struct srv_calibrator calibrator = calibrator_of(path);
    ck_assert(!calibrator.cannot_write);
    expect_measured(&calibrator);
    ck_assert(calibrator.cannot_write);
    expect_measured(&calibrator);
}
END_TEST

START_TEST(test_without_a_folder_nothing_is_kept)
{
    struct srv_calibrator calibrator = calibrator_of("");
    expect_measured(&calibrator);
    expect_measured(&calibrator);
    ck_assert(!calibrator.cannot_write);
}
END_TEST

START_TEST(test_while_the_server_runs_the_cache_alone_is_asked)
{
    struct cell_tuning own;
    struct srv_calibrator calibrator = calibrator_of(folder);
    calibrator.may_measure = false;
    (void)backend->type_tuning(wrk_pool_device(pool), type, &own);
    ck_assert_int_eq(calibrate(&calibrator), SRV_CALIBRATED_NOT);
    ck_assert_int_eq(memcmp(&choice, &own, sizeof(own)), 0);
    calibrator.may_measure = true;
    expect_measured(&calibrator);
    calibrator.may_measure = false;
    ck_assert_int_eq(calibrate(&calibrator), SRV_CALIBRATED_CACHE);
}
END_TEST

START_TEST(test_without_memory_the_own_rule_stays)
{
    struct cell_tuning before;
    struct cell_tuning after;
    ck_assert(backend->type_tuning(wrk_pool_device(pool), type, &before));
    struct srv_calibrator calibrator = calibrator_of("");
    base_alloc_fail_at(1);
    ck_assert_int_eq(calibrate(&calibrator), SRV_CALIBRATED_FAILED);
    base_alloc_fail_at(0);
    ck_assert_uint_eq(choice.knee_rows, before.knee_rows);
    ck_assert(backend->type_tuning(wrk_pool_device(pool), type, &after));
    ck_assert_uint_eq(after.ahead_rows, before.ahead_rows);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("start_calibration");
    TCase *tcase = tcase_create("start_calibration");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_second_start_reads_what_the_first_has_measured);
    tcase_add_test(tcase, test_unusable_caches_are_measured_again_and_replaced);
    tcase_add_test(tcase, test_cache_that_cannot_be_written_is_said_once);
    tcase_add_test(tcase, test_without_a_folder_nothing_is_kept);
    tcase_add_test(tcase, test_while_the_server_runs_the_cache_alone_is_asked);
    tcase_add_test(tcase, test_without_memory_the_own_rule_stays);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
