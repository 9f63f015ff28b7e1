/* Models that come into a running engine and go again, beside jobs of others. */
#include "base/mem.h"
#include "server/engine.h"
#include "tests/server/models.h"
#include "tests/server/work.h"
#include "tests/util.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static struct srv_engine *engine;
static struct base_error error;

static void open_engine(uint32_t teams, uint32_t threads, const struct cell_backend *backend)
{
    struct srv_engine_options options;
    srv_engine_options_init(&options);
    options.teams = teams;
    options.team_threads = threads;
    options.rows = 64;
    options.spin_ns = 0;
    options.backend = backend;
    ck_assert_msg(srv_engine_create(&options, &engine, &error) == BASE_OK, "%s", error.message);
}

static void start(void)
{
    ck_assert_msg(srv_engine_start(engine, &error) == BASE_OK, "%s", error.message);
}

static void close_engine(void)
{
    srv_engine_stop(engine);
    srv_engine_free(engine);
}

static struct cell_registry *registry(void)
{
    return srv_engine_registry(engine);
}

/* Types that all devices know. */
static uint32_t count_types(void)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        n += srv_engine_type(engine, t) != NULL ? 1 : 0;
    }
    return n;
}

/* ---- A change, its loading on a thread of its own ---- */

struct change {
    struct srv_engine_change inner; /* first */
    const struct cell_model *models[2];
    enum base_status status;
    struct base_error error;
    _Atomic uint32_t done;
};

static void change_done(struct srv_engine_change *inner)
{
    struct change *change = (struct change *)inner;
    atomic_fetch_add(&change->done, 1);
}

static void change_init(struct change *change, const struct cell_model *first,
                        const struct cell_model *second)
{
    memset(change, 0, sizeof(*change));
    change->models[0] = first;
    change->models[1] = second;
    change->inner.models = change->models;
    change->inner.n_models = second == NULL ? 1 : 2;
    change->inner.done = change_done;
}

static void *prepare(void *argument)
{
    struct change *change = argument;
    change->status = srv_engine_prepare(engine, &change->inner, &change->error);
    return NULL;
}

static void prepare_elsewhere(struct change *change)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, prepare, change), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

static enum base_status adopt(struct change *change)
{
    const uint32_t before = atomic_load(&change->done);
    srv_engine_adopt(engine, &change->inner);
    work_wait(&change->done, before + 1);
    return srv_engine_adopted(&change->inner, &error);
}

static void add(struct change *change)
{
    prepare_elsewhere(change);
    ck_assert_msg(change->status == BASE_OK, "%s", change->error.message);
    ck_assert_int_eq(adopt(change), BASE_OK);
}

static void drop(struct change *change)
{
    const uint32_t before = atomic_load(&change->done);
    srv_engine_drop(engine, &change->inner);
    work_wait(&change->done, before + 1);
    srv_engine_dropped(&change->inner);
}

static void compute(const struct cell_model *model, uint32_t steps, struct base_random *random)
{
    static struct work work;
    work_init(engine, &work, model, 1, steps, random);
    srv_engine_submit(engine, &work.job);
    work_wait(&work.finished, 1);
    ck_assert_double_le(ask_error(&work.ask), 1e-5);
    work_release(engine, &work);
}

/* ---- Jobs that go round ---- */

#define ROUND_JOBS 6u

/* Whoever has finished is checked and sent anew, with other numbers. */
static void turn(struct work *works, const struct cell_model *model, struct base_random *random)
{
    for (uint32_t i = 0; i < ROUND_JOBS; i++) {
        if (atomic_load(&works[i].finished) > 0) {
            ck_assert_double_le(ask_error(&works[i].ask), 1e-5);
            work_release(engine, &works[i]);
            work_init(engine, &works[i], model, 1, 1 + base_random_below(random, 40), random);
            srv_engine_submit(engine, &works[i].job);
        }
    }
}

/* ---- Cases ---- */

START_TEST(test_models_come_and_go_beside_jobs_of_others)
{
    const uint32_t shapes[][2] = {{1, 1}, {1, 2}, {2, 1}};
    open_engine(shapes[_i][0], shapes[_i][1], cell_backend_find("cpu"));
    struct cell_model *stays = models_tokens(registry(), 12, 1);
    ck_assert_int_eq(srv_engine_add_model(engine, stays, &error), BASE_OK);
    start();
    static struct work works[ROUND_JOBS];
    static struct change change;
    struct base_random random = util_random(5);
    for (uint32_t i = 0; i < ROUND_JOBS; i++) {
        work_init(engine, &works[i], stays, 1, 30, &random);
        srv_engine_submit(engine, &works[i].job);
    }
    const uint32_t n_stay = count_types();
    for (uint32_t round = 0; round < 20; round++) {
        // Of three shapes of states: every third round finds its rows open.
        struct cell_model *comes = models_chain(registry(), 8, 24 + round % 3, 40 + round);
        change_init(&change, comes, NULL);
        prepare_elsewhere(&change);
        ck_assert_int_eq(change.status, BASE_OK);
        ck_assert_uint_eq(count_types(), n_stay);
        ck_assert_int_eq(adopt(&change), BASE_OK);
        ck_assert_uint_gt(count_types(), n_stay);
        turn(works, stays, &random);
        compute(comes, 1 + round, &random);
        turn(works, stays, &random);
        drop(&change);
        ck_assert_uint_eq(count_types(), n_stay);
        cell_model_free(registry(), comes);
    }
    for (uint32_t i = 0; i < ROUND_JOBS; i++) {
        work_wait(&works[i].finished, 1);
        ck_assert_double_le(ask_error(&works[i].ask), 1e-5);
        work_release(engine, &works[i]);
    }
    srv_engine_stop(engine);
    cell_model_free(registry(), stays);
    srv_engine_free(engine);
}
END_TEST

START_TEST(test_types_stay_while_a_model_uses_them)
{
    open_engine(1, 1, cell_backend_find("cpu"));
    start();
    struct cell_model *first = models_chain(registry(), 8, 16, 1);
    struct cell_model *second = models_chain(registry(), 8, 16, 1);
    struct base_random random = util_random(6);
    static struct change changes[2];
    change_init(&changes[0], first, NULL);
    change_init(&changes[1], second, NULL);
    add(&changes[0]);
    const uint32_t n = count_types();
    add(&changes[1]);
    ck_assert_uint_eq(count_types(), n);
    drop(&changes[0]);
    cell_model_free(registry(), first);
    ck_assert_uint_eq(count_types(), n);
    compute(second, 9, &random);
    drop(&changes[1]);
    ck_assert_uint_eq(count_types(), 0);
    cell_model_free(registry(), second);
    // Two versions together, the second of which brings nothing.
    first = models_chain(registry(), 8, 16, 3);
    second = models_chain(registry(), 8, 16, 3);
    change_init(&changes[0], first, second);
    add(&changes[0]);
    ck_assert_uint_eq(count_types(), n);
    compute(first, 4, &random);
    compute(second, 4, &random);
    drop(&changes[0]);
    ck_assert_uint_eq(count_types(), 0);
    cell_model_free(registry(), first);
    cell_model_free(registry(), second);
    close_engine();
}
END_TEST

/* More than there are numbers of types and of groups. */
START_TEST(test_a_thousand_models_come_and_go)
{
    open_engine(1, 1, cell_backend_find("cpu"));
    start();
    struct base_random random = util_random(7);
    static struct change change;
    for (uint32_t i = 0; i < CELL_TYPES_MAX + 10; i++) {
        struct cell_model *model = models_chain(registry(), 3, 4, i);
        change_init(&change, model, NULL);
        change.status = srv_engine_prepare(engine, &change.inner, &change.error);
        ck_assert_msg(change.status == BASE_OK, "%u: %s", i, change.error.message);
        ck_assert_int_eq(adopt(&change), BASE_OK);
        if (i % 100 == 0) {
            compute(model, 3, &random);
        }
        drop(&change);
        cell_model_free(registry(), model);
    }
    close_engine();
}
END_TEST

START_TEST(test_every_allocation_of_prepare_may_fail)
{
    open_engine(1, 1, cell_backend_find("cpu"));
    start();
    struct cell_model *model = models_tokens(registry(), 4, 14);
    struct base_random random = util_random(8);
    static struct change change;
    change_init(&change, model, NULL);
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    for (uint64_t n = 1; status != BASE_OK; n++) {
        ck_assert_uint_lt(n, 1000);
        base_alloc_fail_at(n);
        change.error.message[0] = '\0';
        status = srv_engine_prepare(engine, &change.inner, &change.error);
        base_alloc_fail_at(0);
        if (status != BASE_OK) {
            ck_assert_int_eq(status, BASE_RESOURCE_EXHAUSTED);
            ck_assert_str_ne(change.error.message, "");
            ck_assert_uint_eq(change.inner.n_types, 0);
        }
    }
    ck_assert_int_eq(adopt(&change), BASE_OK);
    compute(model, 5, &random);
    drop(&change);
    cell_model_free(registry(), model);
    close_engine();
}
END_TEST

/* The pool thread's own. */
START_TEST(test_every_allocation_of_adopt_may_fail)
{
    open_engine(1, 1, cell_backend_find("cpu"));
    start();
    struct cell_model *model = models_tokens(registry(), 4, 15);
    struct base_random random = util_random(9);
    static struct change change;
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    uint64_t n = 0;
    while (status != BASE_OK) {
        ck_assert_uint_lt(++n, 1000);
        change_init(&change, model, NULL);
        ck_assert_int_eq(srv_engine_prepare(engine, &change.inner, &change.error), BASE_OK);
        base_alloc_fail_at(n);
        status = adopt(&change);
        base_alloc_fail_at(0);
        if (status != BASE_OK) {
            ck_assert_int_eq(status, BASE_RESOURCE_EXHAUSTED);
            drop(&change);
            ck_assert_uint_eq(count_types(), 0);
        }
    }
    ck_assert_uint_gt(n, 2);
    compute(model, 5, &random);
    drop(&change);
    cell_model_free(registry(), model);
    close_engine();
}
END_TEST

static void dead_caps(const struct cell_device *device, struct cell_device_caps *out)
{
    cell_backend_find("cpu")->caps(device, out);
    out->live = false;
}

START_TEST(test_devices_that_are_not_live_say_so)
{
    struct cell_backend dead = *cell_backend_find("cpu");
    dead.caps = dead_caps;
    open_engine(1, 1, &dead);
    start();
    struct cell_model *model = models_chain(registry(), 3, 4, 16);
    static struct change change;
    change_init(&change, model, NULL);
    prepare_elsewhere(&change);
    ck_assert_int_eq(change.status, BASE_UNIMPLEMENTED);
    ck_assert_ptr_nonnull(strstr(change.error.message, "takes models at the start alone"));
    cell_model_free(registry(), model);
    close_engine();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_change");
    TCase *tcase = tcase_create("engine_change");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_models_come_and_go_beside_jobs_of_others, 0, 3);
    tcase_add_test(tcase, test_types_stay_while_a_model_uses_them);
    tcase_add_test(tcase, test_a_thousand_models_come_and_go);
    tcase_add_test(tcase, test_every_allocation_of_prepare_may_fail);
    tcase_add_test(tcase, test_every_allocation_of_adopt_may_fail);
    tcase_add_test(tcase, test_devices_that_are_not_live_say_so);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
