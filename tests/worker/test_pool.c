/* The pool computes: random requests from several threads on every kind of device, compared with
 * their direct evaluation; with cancels and deadlines that race with the end. */
#include "base/clock.h"
#include "base/mem.h"
#include "tests/util.h"
#include "tests/worker/pool_rig.h"

#include <string.h>

#ifdef CELLBATCH_DEBUG
#    define JOBS 30u /* of a client; sanitizers are slow */
#else
#    define JOBS 150u
#endif
#define CLIENTS 3u
#define WINDOW  8u /* jobs of a client in flight */

static struct pool_rig rig;
static struct pool_rig_options options;

static void setup(void)
{
    pool_rig_options_init(&options);
    options.reference.seed = util_seed();
}

/* ---- Clients ---- */

struct client {
    uint32_t index;
    uint32_t cancel; /* chance in per cent that a job is cancelled while it runs */
    struct base_random random;
    struct pool_job jobs[WINDOW];
    uint32_t n_ok, n_stopped, n_wrong;
};

static void job_end(struct client *client, struct pool_job *job)
{
    pool_job_wait(job);
    client->n_ok += job->status == BASE_OK ? 1 : 0;
    client->n_stopped += job->status != BASE_OK && job->status == job->cancel_status ? 1 : 0;
    client->n_wrong += pool_job_wrong(job);
    pool_job_release(job);
}

static void *client_main(void *argument)
{
    struct client *client = argument;
    struct recipe_shape shape = {
        .nodes_max = 8, .steps_max = 12, .layers = rig.options.beside_rows > 0 ? 50 : 0};
    for (uint32_t i = 0; i < JOBS; i++) {
        struct pool_job *job = &client->jobs[i % WINDOW];
        if (i >= WINDOW) {
            job_end(client, job);
        }
        pool_job_random(job, &rig, client->index, &shape, &client->random);
        pool_job_post(job);
        struct pool_job *other = &client->jobs[base_random_below(&client->random, i + 1) % WINDOW];
        if (other->cancel_status == BASE_OK &&
            base_random_below(&client->random, 100) < client->cancel) {
            pool_job_cancel(other, i % 2 == 0 ? BASE_CANCELLED : BASE_DEADLINE_EXCEEDED);
        }
    }
    for (uint32_t i = 0; i < WINDOW; i++) {
        job_end(client, &client->jobs[i]);
    }
    return NULL;
}

/* All clients at once; the number of jobs that ran to their end. */
static uint32_t run_clients(uint32_t cancel)
{
    static struct client clients[CLIENTS];
    pthread_t threads[CLIENTS];
    uint32_t n_ok = 0;
    uint32_t n_stopped = 0;
    memset(clients, 0, sizeof(clients));
    for (uint32_t c = 0; c < CLIENTS; c++) {
        clients[c].index = c;
        clients[c].cancel = cancel;
        clients[c].random = util_random(c);
        ck_assert_int_eq(pthread_create(&threads[c], NULL, client_main, &clients[c]), 0);
    }
    for (uint32_t c = 0; c < CLIENTS; c++) {
        ck_assert_int_eq(pthread_join(threads[c], NULL), 0);
        ck_assert_uint_eq(clients[c].n_wrong, 0);
        n_ok += clients[c].n_ok;
        n_stopped += clients[c].n_stopped;
    }
    ck_assert_uint_eq(n_ok + n_stopped, CLIENTS * JOBS);
    return n_ok;
}

/* ---- Every kind of device ---- */

static const struct device {
    const char *backend;
    bool pumped, polled, real_cells, runs_on; /* runs_on: not interruptible */
    bool tagged, inner;                       /* lanes: form of slots; the CPU device computes */
    uint32_t teams, threads, beside_rows;
    uint64_t pause_us;
} devices[] = {
    {.backend = "reference", .teams = 1, .threads = 1},
    {.backend = "reference", .teams = 3, .threads = 1, .pause_us = 300},
    {.backend = "reference", .teams = 2, .threads = 1, .pause_us = 100, .runs_on = true},
    {.backend = "reference", .teams = 2, .threads = 1, .polled = true},
    {.backend = "reference", .teams = 2, .threads = 1, .real_cells = true},
    {.backend = "reference", .teams = 2, .threads = 1, .pause_us = 100, .tagged = true},
    {.backend = "reference", .teams = 2, .threads = 1, .real_cells = true, .inner = true},
    {.backend = "reference",
     .teams = 1,
     .threads = 2,
     .runs_on = true,
     .tagged = true,
     .real_cells = true,
     .inner = true},
    {.backend = "reference", .teams = 1, .threads = 1, .pumped = true},
    {.backend = "reference", .teams = 1, .threads = 2, .pumped = true},
    {.backend = "reference", .teams = 2, .threads = 1, .pumped = true},
    {.backend = "reference", .teams = 2, .threads = 2, .pumped = true},
    {.backend = "cpu", .teams = 1, .threads = 1, .real_cells = true},
    {.backend = "cpu", .teams = 1, .threads = 2, .real_cells = true},
    {.backend = "cpu", .teams = 2, .threads = 1, .real_cells = true, .runs_on = true},
    {.backend = "cpu", .teams = 2, .threads = 2, .real_cells = true},
    {.backend = "cpu", .teams = 1, .threads = 2, .real_cells = true, .beside_rows = 24},
    {.backend = "cpu", .teams = 1, .threads = 3, .real_cells = true, .beside_rows = 24},
    {.backend = "cpu", .teams = 2, .threads = 2, .real_cells = true, .beside_rows = 24},
    {.backend = "blas", .teams = 1, .threads = 1, .real_cells = true},
};

static void init_device(const struct device *device)
{
    bool is_reference = strcmp(device->backend, "reference") == 0;
    options.backend = is_reference ? reference_backend() : cell_backend_find(device->backend);
    options.reference.pumped = device->pumped;
    options.reference.polled = device->polled;
    options.reference.pause_ns_max = device->pause_us * BASE_NS_PER_US;
    options.reference.form = device->tagged ? CELL_LANE_FORM_TAGGED : CELL_LANE_FORM_PLAIN;
    options.reference.inner = device->inner ? cell_backend_find("cpu") : NULL;
    options.real_cells = device->real_cells;
    options.tolerance = is_reference && !device->inner ? 0 : 1e-4;
    options.teams = device->teams;
    options.team_threads = device->threads;
    options.beside_rows = device->beside_rows;
    if (device->beside_rows > 0) { // as the server has them: queues are empty now and then
        options.sched.tasks_max = 2;
        options.sched.full_behind_runs = true;
        options.sched.follow_steps_min = 2;
    }
    options.sched.interruptible = !device->runs_on;
    options.sched.run_steps_max = device->runs_on ? 3 : 256;
    options.sched.rows_max = 24;
    pool_rig_init(&rig, &options);
}

START_TEST(test_random_requests_compute_what_they_should)
{
    init_device(&devices[_i]);
    ck_assert_uint_eq(run_clients(0), CLIENTS * JOBS);
    ck_assert_uint_gt(rig.batches, 0);
    pool_rig_stop(&rig);
    ck_assert((rig.beside > 0) == (options.beside_rows > 0));
    pool_rig_release(&rig);
}
END_TEST

START_TEST(test_cancels_and_deadlines_race_with_the_end)
{
    init_device(&devices[_i]);
    (void)run_clients(60);
    pool_rig_release(&rig);
}
END_TEST

/* One to three requests at a time, of two layers: the upper one mostly runs behind the lower, and
 * newcomers interrupt both. */
START_TEST(test_layers_follow_layers)
{
    enum { PRESENT = 3, REQUESTS = 200 };
    static struct pool_job jobs[PRESENT];
    struct base_random random = util_random(21);
    init_device(&devices[_i]);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const uint32_t n = 1 + base_random_below(&random, PRESENT);
        for (uint32_t j = 0; j < n; j++) {
            const uint32_t steps = 1 + base_random_below(&random, 60);
            pool_job_layers(&jobs[j], &rig, 0, i == 0 ? 60 : steps, &random);
            pool_job_post(&jobs[j]);
        }
        for (uint32_t j = 0; j < n; j++) {
            pool_job_wait(&jobs[j]);
            ck_assert_int_eq(jobs[j].status, BASE_OK);
            ck_assert_uint_eq(pool_job_wrong(&jobs[j]), 0);
            pool_job_release(&jobs[j]);
        }
    }
    pool_rig_stop(&rig);
    ck_assert((rig.followed > 0) == (options.beside_rows > 0));
    pool_rig_release(&rig);
}
END_TEST

/* ---- Attention ---- */

/* A chain that takes about a second when nobody interrupts it, and has begun. */
static void start_long_chain(struct pool_job *job, struct base_random *random)
{
    options.sched.run_steps_max = UINT32_MAX;
    options.reference.step_ns = 50 * BASE_NS_PER_US;
    pool_rig_init(&rig, &options);
    pool_job_chain(job, &rig, 0, 20000, random);
    pool_job_post(job);
    while (reference_counts(wrk_pool_device(rig.pool)).batches == 0) {
        base_cpu_relax();
    }
}

/* A newcomer joins within a few steps; and once it is gone, the long run is left alone. */
static void check_newcomers(void)
{
    struct base_random random = util_random(9);
    struct pool_job runner;
    struct pool_job newcomer;
    start_long_chain(&runner, &random);
    for (uint32_t i = 0; i < 5; i++) {
        pool_job_chain(&newcomer, &rig, 1, 3, &random);
        pool_job_post(&newcomer);
        pool_job_wait(&newcomer);
        ck_assert(!pool_job_is_done(&runner));
        ck_assert_uint_eq(pool_job_wrong(&newcomer), 0);
        pool_job_release(&newcomer);
    }
    pool_job_wait(&runner);
    struct reference_counts counts = reference_counts(wrk_pool_device(rig.pool));
    ck_assert_uint_ge(counts.interrupted, 1); // a newcomer may also come between two runs
    // For each newcomer: the run it broke, the one they shared, and what a late call broke.
    ck_assert_uint_le(counts.batches, 5 * 5 + 5);
    ck_assert_uint_eq(pool_job_wrong(&runner), 0);
    pool_job_release(&runner);
    pool_rig_release(&rig);
}

START_TEST(test_newcomer_interrupts_a_run_of_the_device_s_own_thread)
{
    check_newcomers();
}
END_TEST

START_TEST(test_newcomer_interrupts_a_run_of_the_pool_thread)
{
    options.reference.pumped = true;
    check_newcomers();
}
END_TEST

START_TEST(test_newcomer_interrupts_the_runs_of_two_teams)
{
    options.reference.pumped = true;
    options.teams = 2;
    check_newcomers();
}
END_TEST

START_TEST(test_cancel_interrupts_a_run)
{
    struct base_random random = util_random(10);
    struct pool_job runner;
    start_long_chain(&runner, &random);
    pool_job_cancel(&runner, BASE_CANCELLED);
    pool_job_wait(&runner);
    ck_assert_int_eq(runner.status, BASE_CANCELLED);
    ck_assert_uint_lt(reference_counts(wrk_pool_device(rig.pool)).steps, 20000);
    ck_assert_uint_eq(pool_job_wrong(&runner), 0);
    pool_job_release(&runner);
    pool_rig_release(&rig);
}
END_TEST

/* ---- Cost ---- */

START_TEST(test_steps_allocate_nothing)
{
    options.sched.run_steps_max = 2;
    pool_rig_init(&rig, &options);
    struct base_random random = util_random(11);
    struct pool_job jobs[4];
    for (uint32_t i = 0; i < 4; i++) {
        pool_job_chain(&jobs[i], &rig, 0, 500, &random);
    }
    uint64_t before = base_alloc_count();
    for (uint32_t i = 0; i < 4; i++) {
        pool_job_post(&jobs[i]);
    }
    for (uint32_t i = 0; i < 4; i++) {
        pool_job_wait(&jobs[i]);
    }
    ck_assert_uint_eq(base_alloc_count(), before);
    ck_assert_uint_ge(rig.batches, 250);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(pool_job_wrong(&jobs[i]), 0);
        pool_job_release(&jobs[i]);
    }
    pool_rig_release(&rig);
}
END_TEST

START_TEST(test_busy_time_is_that_of_the_batches)
{
    options.reference.step_ns = 200 * BASE_NS_PER_US;
    pool_rig_init(&rig, &options);
    struct base_random random = util_random(12);
    uint64_t start_ns = base_now_ns();
    ck_assert_uint_eq(wrk_pool_busy_ns(rig.pool), 0);
    struct pool_job job;
    pool_job_chain(&job, &rig, 0, 50, &random);
    pool_job_post(&job);
    pool_job_wait(&job);
    uint64_t busy_ns = wrk_pool_busy_ns(rig.pool);
    ck_assert_uint_ge(busy_ns, 50 * options.reference.step_ns);
    ck_assert_uint_le(busy_ns, base_now_ns() - start_ns);
    pool_job_release(&job);
    pool_rig_release(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *tcase = tcase_create("pool");
    tcase_add_checked_fixture(tcase, setup, NULL);
    int n_devices = sizeof(devices) / sizeof(devices[0]);
    tcase_add_loop_test(tcase, test_random_requests_compute_what_they_should, 0, n_devices);
    tcase_add_loop_test(tcase, test_cancels_and_deadlines_race_with_the_end, 0, n_devices);
    tcase_add_loop_test(tcase, test_layers_follow_layers, 0, n_devices);
    tcase_add_test(tcase, test_newcomer_interrupts_a_run_of_the_device_s_own_thread);
    tcase_add_test(tcase, test_newcomer_interrupts_a_run_of_the_pool_thread);
    tcase_add_test(tcase, test_newcomer_interrupts_the_runs_of_two_teams);
    tcase_add_test(tcase, test_cancel_interrupts_a_run);
    tcase_add_test(tcase, test_steps_allocate_nothing);
    tcase_add_test(tcase, test_busy_time_is_that_of_the_batches);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
