/* The engine without requests: jobs in, jobs out, on the real pool thread and CPU device. */
#include "server/engine.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/batch_rows.h"
#include "server/text.h"
#include "server/validate.h"
#include "tests/cells/build.h"
#include "tests/server/ask.h"
#include "tests/server/gate.h"
#include "tests/server/models.h"
#include "tests/server/work.h"
#include "tests/util.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define JOBS 40u

static struct srv_engine *engine;
static struct base_error error;

static struct srv_engine_options options_of(uint32_t teams, uint32_t threads)
{
    struct srv_engine_options options;
    srv_engine_options_init(&options);
    options.teams = teams;
    options.team_threads = threads;
    options.rows = 64;
    options.spin_ns = 0;
    return options;
}

static void create(const struct srv_engine_options *options)
{
    ck_assert_msg(srv_engine_create(options, &engine, &error) == BASE_OK, "%s", error.message);
}

static void add(const struct cell_model *model)
{
    ck_assert_msg(srv_engine_add_model(engine, model, &error) == BASE_OK, "%s", error.message);
}

static void start(void)
{
    ck_assert_msg(srv_engine_start(engine, &error) == BASE_OK, "%s", error.message);
}

static void model_free(struct cell_model *model)
{
    cell_model_free(srv_engine_registry(engine), model);
}

static uint32_t rows_in_use(void)
{
    uint32_t rows = 0;
    for (uint32_t l = 0; l < cell_registry_layouts(srv_engine_registry(engine)); l++) {
        rows += sched_rows_in_use(sched_rows_of(srv_engine_scheduler(engine, 0)), l);
    }
    return rows;
}

/* ---- Cases ---- */

/* The last of them calibrates: whatever it chooses, results stay right. */
START_TEST(test_engine_runs_jobs_to_the_right_result)
{
    const uint32_t shapes[][2] = {{1, 1}, {1, 2}, {2, 1}, {1, 2}};
    struct srv_engine_options options = options_of(shapes[_i][0], shapes[_i][1]);
    options.calibrate = _i == 3;
    create(&options);
    struct cell_registry *registry = srv_engine_registry(engine);
    // The second is wide enough for both threads to compute (a small batch stays with one).
    struct cell_model *models[2] = {models_tokens(registry, 12, 1),
                                    models_chain(registry, 24, 160, 2)};
    add(models[0]);
    add(models[1]);
    start();
    static struct work works[JOBS];
    struct base_random random = util_random(3);
    for (uint32_t i = 0; i < JOBS; i++) {
        work_init(engine, &works[i], models[i % 2], 1 + i % 2, 1 + base_random_below(&random, 12),
                  &random);
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        srv_engine_submit(engine, &works[i].job);
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        work_wait(&works[i].finished, 1);
        ck_assert_int_eq(works[i].job.graph->status, BASE_OK);
        ck_assert_double_le(ask_error(&works[i].ask), 1e-5);
        work_release(engine, &works[i]);
    }
    ck_assert_uint_eq(rows_in_use(), 0);
    ck_assert_uint_gt(srv_engine_busy_ns(engine, 0), 0);
    srv_engine_stop(engine);
    model_free(models[0]);
    model_free(models[1]);
    srv_engine_free(engine);
}
END_TEST

START_TEST(test_engine_description_tells_device_and_threads)
{
    struct srv_engine_options options = options_of(1, 2);
    options.isa = "scalar";
    create(&options);
    ck_assert_str_eq(srv_engine_description(engine), "cpu scalar, 2 threads");
    srv_engine_free(engine);
}
END_TEST

START_TEST(test_engine_with_an_unknown_isa_says_so)
{
    struct srv_engine_options options = options_of(1, 1);
    options.isa = "mmx";
    engine = NULL;
    ck_assert_int_eq(srv_engine_create(&options, &engine, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "mmx"));
    ck_assert_ptr_null(engine);
}
END_TEST

START_TEST(test_engine_starts_and_stops_without_models)
{
    struct srv_engine_options options = options_of(2, 1);
    create(&options);
    start();
    srv_engine_stop(engine);
    srv_engine_free(engine);
}
END_TEST

START_TEST(test_cancel_calls_both_callbacks_once_before_and_after_the_end)
{
    struct srv_engine_options options = options_of(1, 1);
    options.backend = &gate_backend;
    options.run_steps_max = 1;
    create(&options);
    struct cell_model *model = models_chain(srv_engine_registry(engine), 4, 8, 4);
    add(model);
    start();
    gate_close();
    static struct work works[2];
    struct base_random random = util_random(5);
    work_init(engine, &works[0], model, 1, 100, &random);
    work_init(engine, &works[1], model, 1, 1, &random);
    srv_engine_submit(engine, &works[0].job);
    srv_engine_submit(engine, &works[1].job);
    gate_let(8); // up to five steps of the long one may stand before the only one of the other
    work_wait(&works[1].finished, 1);
    srv_engine_cancel(engine, &works[0].job, BASE_DEADLINE_EXCEEDED);
    srv_engine_cancel(engine, &works[1].job, BASE_CANCELLED);
    gate_open();
    for (int i = 0; i < 2; i++) {
        work_wait(&works[i].finished, 1);
        work_wait(&works[i].cancelled, 1);
    }
    ck_assert_int_eq(works[0].job.graph->status, BASE_DEADLINE_EXCEEDED);
    ck_assert_int_eq(works[1].job.graph->status, BASE_OK);
    ck_assert_uint_eq(rows_in_use(), 0);
    srv_engine_stop(engine);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(atomic_load(&works[i].finished), 1);
        ck_assert_uint_eq(atomic_load(&works[i].cancelled), 1);
        work_release(engine, &works[i]);
    }
    model_free(model);
    srv_engine_free(engine);
}
END_TEST

/* Pool thread: the same job again, from the same memory. */
static void work_again(struct srv_job *job)
{
    struct work *work = (struct work *)job;
    atomic_fetch_add(&work->finished, 1);
    if (work->again == 0) {
        return;
    }
    work->again--;
    base_arena_reset(&work->ask.request.arena);
    if (sched_unfold_chain(&work->sequences, &work->ask.request.arena, &job->graph, NULL) ==
        BASE_OK) {
        srv_engine_submit(engine, job);
    }
}

START_TEST(test_jobs_replaced_on_the_pool_thread_allocate_nothing)
{
    enum { AGAIN = 200, N = 8 };
    struct srv_engine_options options = options_of(1, 1);
    create(&options);
    struct cell_model *model = models_chain(srv_engine_registry(engine), 4, 8, 6);
    add(model);
    start();
    static struct work works[N];
    struct ask asks[N];
    struct base_random random = util_random(7);
    for (uint32_t i = 0; i < N; i++) {
        work_init(engine, &works[i], model, 1, 1 + 3 * i, &random);
        // Inputs and outputs stay where they are; the graph gets an arena that is reset.
        asks[i] = works[i].ask;
        base_arena_init(&works[i].ask.request.arena, 16384, 16384);
        ck_assert_int_eq(sched_unfold_chain(&works[i].sequences, &works[i].ask.request.arena,
                                            &works[i].job.graph, &error),
                         BASE_OK);
        works[i].job.finished = work_again;
        works[i].again = AGAIN;
    }
    uint64_t allocations = base_alloc_count();
    for (uint32_t i = 0; i < N; i++) {
        srv_engine_submit(engine, &works[i].job);
    }
    for (uint32_t i = 0; i < N; i++) {
        work_wait(&works[i].finished, AGAIN + 1);
    }
    ck_assert_uint_eq(base_alloc_count(), allocations);
    ck_assert_uint_eq(rows_in_use(), 0);
    srv_engine_stop(engine);
    for (uint32_t i = 0; i < N; i++) {
        ck_assert_double_le(ask_error(&asks[i]), 1e-5);
        work_release(engine, &works[i]);
        ask_release(&asks[i]);
    }
    model_free(model);
    srv_engine_free(engine);
}
END_TEST

/* ---- Types ---- */

START_TEST(test_models_may_go_before_the_engine)
{
    struct srv_engine_options options = options_of(1, 1);
    create(&options);
    struct cell_model *model = models_tokens(srv_engine_registry(engine), 4, 8);
    cell_type_id id = model->stages[1].type->id;
    add(model);
    model_free(model);
    const struct cell_type *kept = cell_registry_type(srv_engine_registry(engine), id);
    ck_assert_ptr_nonnull(kept);
    ck_assert_uint_eq(kept->refs, 1);
    srv_engine_free(engine);
}
END_TEST

START_TEST(test_equal_types_of_two_models_are_loaded_once)
{
    struct srv_engine_options options = options_of(1, 1);
    create(&options);
    struct cell_registry *registry = srv_engine_registry(engine);
    struct cell_model *a = models_tokens(registry, 4, 9);
    struct cell_model *b = models_tokens(registry, 4, 9);
    ck_assert_ptr_eq(a->stages[1].type, b->stages[1].type);
    add(a);
    add(b);
    model_free(b);
    start();
    static struct work work;
    struct base_random random = util_random(10);
    work_init(engine, &work, a, 2, 3, &random);
    srv_engine_submit(engine, &work.job);
    work_wait(&work.finished, 1);
    ck_assert_double_le(ask_error(&work.ask), 1e-5);
    work_release(engine, &work);
    srv_engine_stop(engine);
    model_free(a);
    srv_engine_free(engine);
}
END_TEST

/* Of 40 rows that are ready at once; their steps take 2 us of a row, and 8 rows are the device's
 * own knee. */
static void expect_rows_of_a_batch(uint32_t batch_rows_max, uint32_t rows)
{
    struct srv_engine_options options = options_of(1, 1);
    options.batch_rows_max = batch_rows_max;
    create(&options);
    struct cell_model *model = models_chain(srv_engine_registry(engine), 24, 160, 2);
    add(model);
    start();
    static struct work work;
    struct base_random random = util_random(11);
    work_init(engine, &work, model, 40, 9, &random);
    srv_engine_submit(engine, &work.job);
    work_wait(&work.finished, 1);
    ck_assert_double_le(ask_error(&work.ask), 1e-5);
    work_release(engine, &work);
    srv_engine_stop(engine);
    const struct sched_type_stats *stats =
        sched_type_stats(srv_engine_scheduler(engine, 0), model->stages[0].type->id);
    const uint64_t batches = atomic_load(&stats->batches);
    ck_assert_uint_ge(batches, 40 / rows);
    ck_assert_uint_le(atomic_load(&stats->rows_sum), batches * rows);
    model_free(model);
    srv_engine_free(engine);
}

START_TEST(test_a_batch_has_as_many_rows_as_gain)
{
    expect_rows_of_a_batch(64, 8);
    expect_rows_of_a_batch(4, 4);
}
END_TEST

/* A cell waits for none of the others: of such there are as many as take 5 million operations of a
 * thread, where the user does not want fewer. */
START_TEST(test_rows_of_cells_that_wait_for_none)
{
    static const struct {
        uint64_t flops;
        uint32_t threads, most, rows;
    } cases[] = {{0, 1, 64, 1024},           {0, 1, 63, 63},      {0, 1, 1024, 1024},
                 {9936, 1, 64, 500},         {9936, 2, 64, 1000}, {9936, 1, 600, 600},
                 {99936, 1, 64, 64},         {99936, 2, 64, 100}, {1u << 30, 1, 64, 64},
                 {UINT64_MAX / 2, 1, 64, 64}};
    struct cell_device_caps caps = {.spans = true};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct cell_type type = {.flops = cases[i].flops};
        ck_assert_uint_eq(srv_batch_rows(&type, false, 8, &caps, cases[i].threads, cases[i].most),
                          cases[i].rows);
        ck_assert_uint_eq(srv_batch_rows(&type, true, 8, &caps, 1, 64), 8);
        ck_assert_uint_eq(srv_batch_rows(&type, true, 0, &caps, 1, 64), 64);
        ck_assert_uint_eq(srv_batch_rows(&type, true, 80, &caps, 1, 64), 64);
    }
    const struct cell_type small = {.flops = 0};
    caps.spans = false;
    ck_assert_uint_eq(srv_batch_rows(&small, false, 0, &caps, 1, 64), 64);
}
END_TEST

/* 1,000 steps of small convolutions. */
START_TEST(test_steps_of_convolutions_are_few_batches)
{
    char path[UTIL_PATH_BYTES];
    struct srv_engine_options options = options_of(1, 1);
    struct cell_model *model = NULL;
    create(&options);
    util_repo_path(path, "tests/data/onnx/stream_convolved-ts1.13-op17/model.onnx");
    ck_assert_int_eq(cell_model_load(srv_engine_registry(engine), path, "m", NULL, &model, &error),
                     BASE_OK);
    add(model);
    start();
    static struct work work;
    struct base_random random = util_random(11);
    work_init(engine, &work, model, 1, 1000, &random);
    srv_engine_submit(engine, &work.job);
    work_wait(&work.finished, 1);
    ck_assert_double_le(ask_error(&work.ask), 1e-5);
    work_release(engine, &work);
    srv_engine_stop(engine);
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct sched_type_stats *stats =
            sched_type_stats(srv_engine_scheduler(engine, 0), model->stages[s].type->id);
        ck_assert_uint_ge(atomic_load(&stats->rows_sum), 1000);
        ck_assert_uint_le(atomic_load(&stats->batches), 4);
    }
    model_free(model);
    srv_engine_free(engine);
}
END_TEST

static enum base_status (*real_type_load)(struct cell_device *device, const struct cell_type *type,
                                          struct base_error *error);

/* Lacks LINEAR. */
static enum base_status picky_type_load(struct cell_device *device, const struct cell_type *type,
                                        struct base_error *why)
{
    for (uint32_t o = 0; o < type->def.n_ops; o++) {
        if (type->def.ops[o].kind == CELL_OP_LINEAR) {
            return base_fail(why, BASE_UNIMPLEMENTED, "no LINEAR here");
        }
    }
    return real_type_load(device, type, why);
}

START_TEST(test_a_model_that_fails_half_way_leaves_a_usable_engine)
{
    struct cell_backend picky = *cell_backend_find("cpu");
    real_type_load = picky.type_load;
    picky.type_load = picky_type_load;
    struct srv_engine_options options = options_of(1, 1);
    options.backend = &picky;
    options.calibrate = true; // what is loaded of a model that failed may have no rows
    create(&options);
    struct cell_registry *registry = srv_engine_registry(engine);
    struct cell_model *bad = models_tokens(registry, 4, 11);
    ck_assert_int_eq(srv_engine_add_model(engine, bad, &error), BASE_UNIMPLEMENTED);
    ck_assert_str_eq(error.message, "no LINEAR here");
    model_free(bad);
    // Its types' numbers are given anew to what comes next.
    struct cell_model *good = models_lone(registry, 12);
    add(good);
    start();
    static struct work work;
    struct base_random random = util_random(13);
    work_init(engine, &work, good, 1, 5, &random);
    srv_engine_submit(engine, &work.job);
    work_wait(&work.finished, 1);
    ck_assert_double_le(ask_error(&work.ask), 1e-5);
    work_release(engine, &work);
    srv_engine_stop(engine);
    model_free(good);
    srv_engine_free(engine);
}
END_TEST

/* ---- Out of memory ---- */

START_TEST(test_every_allocation_of_create_may_fail)
{
    struct srv_engine_options options = options_of(2, 2);
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    for (uint64_t n = 1; status != BASE_OK; n++) {
        ck_assert_uint_lt(n, 1000);
        base_alloc_fail_at(n);
        error.message[0] = '\0';
        status = srv_engine_create(&options, &engine, &error);
        base_alloc_fail_at(0);
        if (status != BASE_OK) {
            ck_assert_int_eq(status, BASE_RESOURCE_EXHAUSTED);
            ck_assert_str_ne(error.message, "");
        }
    }
    srv_engine_free(engine);
}
END_TEST

START_TEST(test_every_allocation_of_add_model_may_fail)
{
    struct srv_engine_options options = options_of(1, 1);
    create(&options);
    struct cell_model *model = models_tokens(srv_engine_registry(engine), 4, 14);
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    for (uint64_t n = 1; status != BASE_OK; n++) {
        ck_assert_uint_lt(n, 1000);
        base_alloc_fail_at(n);
        status = srv_engine_add_model(engine, model, &error); // again, until it comes through
        base_alloc_fail_at(0);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
    }
    start();
    srv_engine_stop(engine);
    model_free(model);
    srv_engine_free(engine);
}
END_TEST

START_TEST(test_every_allocation_of_start_may_fail)
{
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    for (uint64_t n = 1; status != BASE_OK; n++) {
        ck_assert_uint_lt(n, 1000);
        struct srv_engine_options options = options_of(2, 1);
        create(&options);
        struct cell_model *model = models_tokens(srv_engine_registry(engine), 4, 15);
        add(model);
        base_alloc_fail_at(n);
        status = srv_engine_start(engine, &error);
        base_alloc_fail_at(0);
        if (status == BASE_OK) {
            srv_engine_stop(engine);
        } else {
            ck_assert_int_eq(status, BASE_RESOURCE_EXHAUSTED);
        }
        model_free(model);
        srv_engine_free(engine);
    }
}
END_TEST

int main(void)
{
    base_log_configure(BASE_LOG_ERROR, BASE_LOG_TEXT);
    Suite *suite = suite_create("engine");
    TCase *tcase = tcase_create("engine");
    tcase_add_loop_test(tcase, test_engine_runs_jobs_to_the_right_result, 0, 4);
    tcase_add_test(tcase, test_engine_description_tells_device_and_threads);
    tcase_add_test(tcase, test_engine_with_an_unknown_isa_says_so);
    tcase_add_test(tcase, test_engine_starts_and_stops_without_models);
    tcase_add_test(tcase, test_cancel_calls_both_callbacks_once_before_and_after_the_end);
    tcase_add_test(tcase, test_jobs_replaced_on_the_pool_thread_allocate_nothing);
    tcase_add_test(tcase, test_models_may_go_before_the_engine);
    tcase_add_test(tcase, test_equal_types_of_two_models_are_loaded_once);
    tcase_add_test(tcase, test_a_batch_has_as_many_rows_as_gain);
    tcase_add_test(tcase, test_rows_of_cells_that_wait_for_none);
    tcase_add_test(tcase, test_steps_of_convolutions_are_few_batches);
    tcase_add_test(tcase, test_a_model_that_fails_half_way_leaves_a_usable_engine);
    tcase_add_test(tcase, test_every_allocation_of_create_may_fail);
    tcase_add_test(tcase, test_every_allocation_of_add_model_may_fail);
    tcase_add_test(tcase, test_every_allocation_of_start_may_fail);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
