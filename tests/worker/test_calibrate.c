/* Measuring on the device: everything is measured, within the time that is given, and the device is
 * left as it was. Nothing is said of how long anything takes; where time matters it is made up. */
#include "worker/calibrate.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cells/cpu/device.h"
#include "tests/cells/build.h"
#include "tests/util.h"
#include "worker/pool.h"
#include "worker/team.h"

#include <string.h>

struct bed {
    const struct cell_backend *backend;
    struct cell_team *team;
    struct cell_device *device;
    struct cell_registry *registry;
    const struct cell_type *type;
    struct build build;
};

static struct base_error error;

static void bed_open(struct bed *bed, uint32_t threads, uint32_t rows)
{
    const struct wrk_team_options team = {.members = threads, .name = "test"};
    bool is_new = false;
    bed->backend = cell_backend_find("cpu");
    ck_assert_int_eq(wrk_team_create(&team, &bed->team), BASE_OK);
    struct cell_device_options options = {
        .n_queues = 1, .teams = &bed->team, .isa = "auto", .batches_queued_max = 1};
    ck_assert_int_eq(bed->backend->open(&options, &bed->device, &error), BASE_OK);
    ck_assert_int_eq(cell_registry_create(&bed->registry), BASE_OK);
    ck_assert_int_eq(cell_registry_intern(bed->registry, &bed->build.def, "test/cell", &bed->type,
                                          &is_new, &error),
                     BASE_OK);
    ck_assert_int_eq(bed->backend->type_load(bed->device, bed->type, &error), BASE_OK);
    uint32_t layout = bed->type->state_layout;
    if (layout != CELL_LAYOUT_NONE) {
        ck_assert_int_eq(bed->backend->rows_open(bed->device, layout,
                                                 cell_registry_layout(bed->registry, layout), rows,
                                                 &error),
                         BASE_OK);
    }
}

static void bed_close(struct bed *bed)
{
    bed->backend->close(bed->device);
    cell_registry_free(bed->registry);
    wrk_team_free(bed->team);
    build_release(&bed->build);
}

static struct wrk_calibrate_options options_of(const struct bed *bed, uint32_t rows)
{
    return (struct wrk_calibrate_options){.backend = bed->backend,
                                          .device = bed->device,
                                          .rows_limit = rows,
                                          .is_alone = bed->team->members == 1,
                                          .budget_ns = 60 * BASE_NS_PER_S};
}

/* A table of ids, a projection, two LSTMs: what a step has beside the cell is measured with it. */
static void build_stack(struct build *build)
{
    build_init(build, 7);
    uint32_t id = build_input(build, CELL_I64, 1);
    uint32_t states[4];
    for (uint32_t s = 0; s < 4; s++) {
        states[s] = build_state(build, CELL_F32, 8);
    }
    uint32_t x = build_linear(build, build_gather(build, id, 11, 6), 8, true);
    for (uint32_t l = 0; l < 2; l++) {
        uint32_t h = build_lstm(build, x, states[2 * l], states[2 * l + 1], true);
        build_next(build, 2 * l, h);
        build_next(build, 2 * l + 1, h + 1);
        x = h;
    }
    build_output(build, x);
}

START_TEST(test_all_is_measured_and_nothing_left_changed)
{
    struct bed bed;
    struct cell_tuning before;
    struct cell_tuning after;
    struct cell_calibration calibration;
    build_stack(&bed.build);
    bed_open(&bed, (uint32_t)_i, 64);
    struct wrk_calibrate_options options = options_of(&bed, 64);
    ck_assert(bed.backend->type_tuning(bed.device, bed.type, &before));
    ck_assert_msg(wrk_calibrate(&options, bed.type, &calibration, &error) == BASE_OK, "%s",
                  error.message);
    ck_assert(bed.backend->type_tuning(bed.device, bed.type, &after));
    ck_assert_mem_eq(&before, &after, sizeof(before));
    ck_assert_mem_eq(&before, &calibration.own, sizeof(before));
    ck_assert(cell_calibration_has(&calibration, CELL_TUNABLE_WINDOWS));
    ck_assert_int_eq(cell_calibration_has(&calibration, CELL_TUNABLE_TEAM), _i > 1); // threads
    ck_assert_int_eq(cell_calibration_has(&calibration, CELL_TUNABLE_APART), _i > 1);
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        uint32_t rows = cell_calibration_rows[p];
        ck_assert_uint_gt(calibration.step_ns[CELL_VARIANT_PLAIN][p], 0);
        ck_assert_int_eq(calibration.step_ns[CELL_VARIANT_AHEAD][p] > 0, rows <= 32);
        ck_assert_int_eq(calibration.step_ns[CELL_VARIANT_AHEAD_16][p] > 0, rows <= 8);
        ck_assert_int_eq(calibration.step_ns[CELL_VARIANT_SOLO][p] > 0, _i > 1 && rows <= 16);
        ck_assert_int_eq(calibration.step_ns[CELL_VARIANT_APART][p] > 0, _i > 1 && rows > 1);
    }
    bed_close(&bed);
}
END_TEST

/* As a tree's inner nodes are: steps of a row would all be cells of one batch. */
static void submit_one_step(struct cell_device *device, uint32_t queue, struct cell_batch *batch)
{
    ck_assert_uint_eq(batch->steps, 1);
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        ck_assert_uint_eq(batch->rows[r].steps, 1);
    }
    cell_backend_cpu.submit(device, queue, batch);
}

START_TEST(test_cells_without_a_state_are_measured_a_step_at_a_time)
{
    static struct cell_backend one_step;
    struct bed bed;
    struct cell_calibration calibration;
    one_step = cell_backend_cpu;
    one_step.submit = submit_one_step;
    build_init(&bed.build, 7);
    const uint32_t x = build_input(&bed.build, CELL_F32, 6);
    build_output(&bed.build, build_linear(&bed.build, x, 8, true));
    bed_open(&bed, (uint32_t)_i, 64);
    struct wrk_calibrate_options options = options_of(&bed, 64);
    options.backend = &one_step;
    ck_assert_msg(wrk_calibrate(&options, bed.type, &calibration, &error) == BASE_OK, "%s",
                  error.message);
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        ck_assert_uint_gt(calibration.step_ns[CELL_VARIANT_PLAIN][p], 0);
    }
    bed_close(&bed);
}
END_TEST

/* Rows that are not there are not touched (the address sanitizer would see it). */
START_TEST(test_rows_limit_is_kept)
{
    struct bed bed;
    struct cell_calibration calibration;
    build_lstm_cell(&bed.build, 5, 9, 3);
    bed_open(&bed, 1, 5);
    struct wrk_calibrate_options options = options_of(&bed, 5);
    ck_assert_int_eq(wrk_calibrate(&options, bed.type, &calibration, &error), BASE_OK);
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        ck_assert_int_eq(calibration.step_ns[CELL_VARIANT_PLAIN][p] > 0,
                         cell_calibration_rows[p] <= 5);
    }
    /* Five rows bound no batch. The device's own estimate would stand if the times were found
     * disturbed, as those of instrumented kernels can be. */
    calibration.own.knee_rows = 0;
    ck_assert_uint_eq(cell_calibration_choose(&calibration).knee_rows, 0);
    bed_close(&bed);
}
END_TEST

/* ---- Made-up time: each look at the clock finds that TICK_NS have gone by ---- */

#define TICK_NS (20 * BASE_NS_PER_MS)

static uint64_t looks; /* ever */

static uint64_t ticking_now(void)
{
    return ++looks * TICK_NS;
}

/* The cpu backend, watched: how many batches began, and the clock when the last one did. */
static uint64_t batches, began_ns;

static void watched_submit(struct cell_device *device, uint32_t queue, struct cell_batch *batch)
{
    batches++;
    began_ns = looks * TICK_NS;
    cell_backend_find("cpu")->submit(device, queue, batch);
}

START_TEST(test_budget_is_kept)
{
    static const uint64_t budgets_ns[] = {0, 100 * BASE_NS_PER_MS, 2 * BASE_NS_PER_S,
                                          20 * BASE_NS_PER_S};
    struct bed bed;
    struct cell_calibration calibration;
    looks = 0;
    batches = 0;
    build_lstm_cell(&bed.build, 5, 9, 3);
    bed_open(&bed, 1, 64);
    struct cell_backend watched = *bed.backend;
    watched.submit = watched_submit;
    struct wrk_calibrate_options options = options_of(&bed, 64);
    options.backend = &watched;
    options.now_ns = ticking_now;
    options.budget_ns = budgets_ns[_i];
    ck_assert_int_eq(wrk_calibrate(&options, bed.type, &calibration, &error), BASE_OK);
    ck_assert_uint_ge(batches, 1);
    ck_assert(batches == 1 || began_ns + TICK_NS <= TICK_NS + budgets_ns[_i]);
    // Where time runs out, nothing with more rows is measured behind a gap.
    for (uint32_t p = 1; p < CELL_CALIBRATION_POINTS; p++) {
        ck_assert(calibration.step_ns[CELL_VARIANT_PLAIN][p] == 0 ||
                  calibration.step_ns[CELL_VARIANT_PLAIN][p - 1] > 0);
    }
    bed_close(&bed);
}
END_TEST

START_TEST(test_without_memory_it_says_so)
{
    struct bed bed;
    struct cell_calibration calibration;
    build_stack(&bed.build);
    bed_open(&bed, 1, 64);
    struct wrk_calibrate_options options = options_of(&bed, 64);
    options.budget_ns = BASE_NS_PER_MS;
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    for (uint64_t n = 1; status != BASE_OK; n++) {
        base_alloc_fail_at(n);
        status = wrk_calibrate(&options, bed.type, &calibration, &error);
        base_alloc_fail_at(0);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
        ck_assert_uint_lt(n, 100);
    }
    bed_close(&bed);
}
END_TEST

/* ---- Through a pool, which must not be confused by batches that were none of its own ---- */

static struct cell_batch *no_batch(void *context, uint32_t queue, uint64_t now_ns)
{
    (void)context;
    (void)queue;
    (void)now_ns;
    return NULL;
}

START_TEST(test_pool_calibrates_and_then_starts)
{
    struct build build;
    struct wrk_pool *pool = NULL;
    struct cell_registry *registry = NULL;
    const struct cell_type *type = NULL;
    struct cell_calibration calibration;
    bool is_new = false;
    const struct cell_backend *backend = cell_backend_find("cpu");
    const struct wrk_pool_options options = {.backend = backend,
                                             .isa = "auto",
                                             .teams = (uint32_t)_i,
                                             .team_threads = 2,
                                             .batches_queued_max = 3,
                                             .pin = _i == 1};
    build_lstm_cell(&build, 5, 9, 3);
    ck_assert_int_eq(wrk_pool_create(&options, &pool, &error), BASE_OK);
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    ck_assert_int_eq(
        cell_registry_intern(registry, &build.def, "test/cell", &type, &is_new, &error), BASE_OK);
    struct cell_device *device = wrk_pool_device(pool);
    ck_assert_int_eq(backend->type_load(device, type, &error), BASE_OK);
    ck_assert_int_eq(backend->rows_open(device, type->state_layout,
                                        cell_registry_layout(registry, type->state_layout), 4,
                                        &error),
                     BASE_OK);
    ck_assert(wrk_pool_can_calibrate(pool));
    ck_assert_int_eq(wrk_pool_calibrate(pool, type, 4, &calibration, &error), BASE_OK);
    ck_assert_uint_gt(calibration.step_ns[CELL_VARIANT_PLAIN][2], 0);
    struct cell_batch_source source = {.next = no_batch};
    ck_assert_int_eq(wrk_pool_start(pool, source, NULL), BASE_OK);
    wrk_pool_stop(pool);
    wrk_pool_free(pool);
    cell_registry_free(registry);
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("calibrate");
    TCase *tcase = tcase_create("calibrate");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_all_is_measured_and_nothing_left_changed, 1, 3);
    tcase_add_loop_test(tcase, test_cells_without_a_state_are_measured_a_step_at_a_time, 1, 3);
    tcase_add_test(tcase, test_rows_limit_is_kept);
    tcase_add_loop_test(tcase, test_budget_is_kept, 0, 4);
    tcase_add_test(tcase, test_without_memory_it_says_so);
    tcase_add_loop_test(tcase, test_pool_calibrates_and_then_starts, 1, 3);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
