/* The core on a device that computes behind its back: the asynchronous reference device, which
 * takes its time at random, fails on demand and dies. What is in flight cannot be called back:
 * whoever cancels, misses a deadline or drains waits for it, and for nothing else. */
#include "base/clock.h"
#include "base/log.h"
#include "tests/reference_device.h"
#include "tests/server/site.h"
#include "tests/util.h"

#include <string.h>

enum { VISITS = 60, TASKS = 3 };

static struct site site;
static struct base_random numbers;
static struct visit visits[VISITS];

static void open_site(const struct reference_options *reference, uint32_t queues)
{
    struct site_options options;
    reference_configure(reference);
    site_options_init(&options);
    options.engine.backend = reference_backend();
    options.engine.teams = queues;
    options.engine.tasks_max = TASKS;
    options.engine.rows = 16;
    site_open(&site, &options);
    numbers = util_random(reference->seed);
}

/* Slow enough that a test comes in between two steps: 2 ms each. */
static void open_slow(void)
{
    const struct reference_options slow = {.seed = 1, .step_ns = 2 * BASE_NS_PER_MS};
    open_site(&slow, 1);
}

static void open_quick(void)
{
    const struct reference_options quick = {.seed = 2, .pause_ns_max = 20 * BASE_NS_PER_US};
    open_site(&quick, 1);
}

static void close_site(void)
{
    site_close(&site);
}

static void start_chain(struct visit *visit, uint32_t n_rows, uint32_t steps)
{
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, site.chain, n_rows, steps, &numbers, ASK_PLAIN);
    visit_start(&site, visit);
}

static void start_any(struct visit *visit)
{
    const struct cell_model *models[] = {site.chain, site.tokens2, site.lone};
    const struct cell_model *model = models[base_random_below(&numbers, 3)];
    uint32_t n_rows = model == site.lone ? 1 : 1 + base_random_below(&numbers, 4);
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, model, n_rows, 1 + base_random_below(&numbers, 30), &numbers,
             base_random_below(&numbers, 2) == 0 ? ASK_PLAIN : ASK_OPTIONAL);
    visit_start(&site, visit);
}

static bool has_submitted(void *argument)
{
    return reference_submitted(reference_last()) >= *(const uint64_t *)argument;
}

/* Until the device holds this many batches more than `before`. */
static void wait_submitted(uint64_t before, uint64_t n)
{
    before += n;
    ck_assert(site_until(has_submitted, &before));
}

/* ---- Answers ---- */

START_TEST(test_every_request_is_answered_right)
{
    const struct reference_options reference = {
        .seed = (uint64_t)_i, .pause_ns_max = 300 * BASE_NS_PER_US, .polled = _i % 3 == 2};
    open_site(&reference, 1 + (uint32_t)_i % 2);
    for (uint32_t i = 0; i < VISITS; i++) {
        start_any(&visits[i]);
    }
    for (uint32_t i = 0; i < VISITS; i++) {
        visit_expect_ok(&visits[i]);
    }
    ck_assert_uint_eq(site_counters(&site).requests_total[SRV_PROTOCOL_TEST][BASE_OK], VISITS);
    close_site();
}
END_TEST

/* ---- Failures ---- */

START_TEST(test_a_failed_batch_fails_only_those_in_it)
{
    const uint32_t fail = 1 + (uint32_t)_i * 3;
    uint32_t n_failed = 0;
    open_quick();
    reference_fail(reference_last(), fail, BASE_UNAVAILABLE);
    for (uint32_t i = 0; i < VISITS; i++) {
        start_any(&visits[i]);
    }
    for (uint32_t i = 0; i < VISITS; i++) {
        visit_wait(&visits[i]);
        if (visits[i].ask.request.error.status == BASE_OK) {
            visit_expect_ok(&visits[i]);
        } else {
            visit_expect(&visits[i], BASE_UNAVAILABLE, "the device failed while it was running");
            n_failed++;
        }
    }
    ck_assert_uint_ge(n_failed, 1);
    ck_assert_uint_le(n_failed, 16); // one batch, and there are no more rows
    ck_assert_uint_eq(site_rows(&site), 0);
    close_site();
}
END_TEST

START_TEST(test_a_dead_device_fails_what_it_holds_and_serves_on)
{
    open_quick();
    struct cell_device *device = reference_last();
    uint64_t before = reference_submitted(device);
    reference_die(device);
    start_chain(&visits[0], 1, 20);
    wait_submitted(before, 1);
    ck_assert_uint_eq(site_counters(&site).requests_running, 1);
    ck_assert(!visit_is_done(&visits[0]));
    for (uint32_t i = 1; i < VISITS; i++) {
        start_chain(&visits[i], 1, 20); // most of them wait for rows
    }
    ck_assert_uint_eq(site_counters(&site).requests_running, 16);
    reference_reset(device);
    visit_expect(&visits[0], BASE_UNAVAILABLE, "the device failed while it was running");
    for (uint32_t i = 1; i < VISITS; i++) {
        visit_wait(&visits[i]);
        if (i >= 16) { // came to the device after it
            visit_expect_ok(&visits[i]);
        } else {
            ask_release(&visits[i].ask);
        }
    }
    close_site();
}
END_TEST

START_TEST(test_a_device_that_fails_the_warm_up)
{
    struct site_options options;
    const struct reference_options reference = {.seed = 3};
    reference_configure(&reference);
    site_options_init(&options);
    options.engine.backend = reference_backend();
    options.cold = true;
    site_open(&site, &options);
    reference_die(reference_last());
    site_warm(&site);
    wait_submitted(0, 1);
    ck_assert(!site_is_ready(&site));
    reference_reset(reference_last());
    ck_assert(site_until(has_submitted, &(uint64_t){3})); // the others are tried
    struct visit visit = {.site = NULL};
    start_chain(&visit, 1, 2);
    visit_wait(&visit);
    ck_assert_str_eq(visit.ask.request.error.message, "model 'chain' version 1 is unavailable: "
                                                      "the device failed while it was running");
    ask_release(&visit.ask);
    close_site();
}
END_TEST

/* Two devices; a lane of the one hangs while both have requests. */
START_TEST(test_a_lane_that_hangs_fails_only_what_it_holds)
{
    const struct reference_options reference = {
        .seed = 5, .step_ns = BASE_NS_PER_MS, .form = (enum cell_lane_form)(_i % 2)};
    struct site_options options;
    uint32_t n_ok = 0;
    reference_configure(&reference);
    site_options_init(&options);
    options.engine.backend = reference_backend();
    options.engine.n_devices = 2;
    options.engine.tasks_max = TASKS;
    options.engine.rows = 64;
    options.engine.watchdog_ns = 300 * BASE_NS_PER_MS;
    site_open(&site, &options);
    numbers = util_random(5);
    const uint64_t before = reference_submitted(reference_last());
    for (uint32_t i = 0; i < VISITS; i++) {
        start_chain(&visits[i], 1, 60);
    }
    wait_submitted(before, 2);
    reference_hang(reference_last(), _i < 2 ? REFERENCE_HANG_STILL : REFERENCE_HANG_FAULT);
    for (uint32_t i = 0; i < VISITS; i++) {
        visit_wait(&visits[i]);
        if (visits[i].ask.request.error.status == BASE_OK) {
            visit_expect_ok(&visits[i]);
            n_ok++;
        } else {
            visit_expect(&visits[i], BASE_UNAVAILABLE, "the device failed while it was running");
        }
    }
    ck_assert_uint_lt(n_ok, VISITS);
    ck_assert_uint_ge(n_ok, VISITS / 2); // the other device's half
    for (uint32_t i = 0; i < 4; i++) {
        start_chain(&visits[i], 1, 5);
    }
    for (uint32_t i = 0; i < 4; i++) {
        visit_expect_ok(&visits[i]);
    }
    close_site();
}
END_TEST

/* As many requests at once as one device has rows for, and as many again: each device has its half,
 * and one more waits. */
START_TEST(test_requests_are_spread_over_the_devices)
{
    const struct reference_options slow = {.seed = 6, .step_ns = BASE_NS_PER_MS};
    struct site_options options;
    reference_configure(&slow);
    site_options_init(&options);
    options.engine.backend = reference_backend();
    options.engine.n_devices = 3;
    options.engine.rows = 16;
    site_open(&site, &options);
    // The warm-up has been everywhere.
    for (uint32_t d = 0; d < 3; d++) {
        ck_assert_uint_gt(srv_engine_busy_ns(site.engine, d), 0);
    }
    numbers = util_random(6);
    for (uint32_t i = 0; i < 49; i++) {
        start_chain(&visits[i], 1, 30);
    }
    ck_assert_uint_eq(site_counters(&site).requests_running, 48);
    ck_assert_uint_eq(site_counters(&site).requests_waiting, 1);
    ck_assert_uint_eq(site_reserved(&site), 3 * 16);
    for (uint32_t i = 0; i < 49; i++) {
        visit_expect_ok(&visits[i]);
    }
    close_site();
}
END_TEST

/* ---- Cancels and deadlines while a batch is in flight ---- */

START_TEST(test_a_cancel_waits_for_what_is_in_flight_and_no_longer)
{
    open_slow();
    uint64_t before = reference_submitted(reference_last());
    start_chain(&visits[0], 1, 64);
    wait_submitted(before, 1);
    visit_cancel(&visits[0], BASE_CANCELLED);
    visit_expect(&visits[0], BASE_CANCELLED, "cancelled by the client while running");
    ck_assert_uint_le(reference_submitted(reference_last()) - before, TASKS);
    ck_assert_uint_eq(site_counters(&site).cancelled_running, 1);
    ck_assert_uint_eq(site_rows(&site), 0);
    ck_assert_uint_eq(site_reserved(&site), 0);
    close_site();
}
END_TEST

START_TEST(test_a_cancelled_request_s_rows_serve_the_next)
{
    // All rows are taken by one; the next waits, and is right although it gets the same rows.
    open_slow();
    uint64_t before = reference_submitted(reference_last());
    start_chain(&visits[0], 16, 64);
    wait_submitted(before, 1);
    start_chain(&visits[1], 16, 3);
    ck_assert_uint_eq(site_counters(&site).requests_waiting, 1);
    visit_cancel(&visits[0], BASE_CANCELLED);
    visit_expect_ok(&visits[1]);
    visit_expect(&visits[0], BASE_CANCELLED, "cancelled by the client while running");
    close_site();
}
END_TEST

START_TEST(test_a_cancel_on_a_dead_device_is_answered_after_its_reset)
{
    open_quick();
    struct cell_device *device = reference_last();
    uint64_t before = reference_submitted(device);
    reference_die(device);
    start_chain(&visits[0], 1, 20);
    wait_submitted(before, 1);
    visit_cancel(&visits[0], BASE_CANCELLED);
    (void)site_counters(&site); // the cancel is on its way
    ck_assert(!visit_is_done(&visits[0]));
    reference_reset(device);
    visit_wait(&visits[0]);
    enum base_status status = visits[0].ask.request.error.status;
    // Whichever the pool thread saw first.
    ck_assert(status == BASE_CANCELLED || status == BASE_UNAVAILABLE);
    ask_release(&visits[0].ask);
    close_site();
}
END_TEST

START_TEST(test_a_deadline_passes_while_a_batch_is_in_flight)
{
    open_slow();
    uint64_t before = reference_submitted(reference_last());
    struct visit *visit = &visits[0];
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, site.chain, 1, 64, &numbers, ASK_PLAIN);
    visit->ask.request.deadline_ns = base_now_ns() + 30 * BASE_NS_PER_MS; // of 128
    visit_start(&site, visit);
    start_chain(&visits[1], 1, 64);
    visit_expect(visit, BASE_DEADLINE_EXCEEDED, "the deadline passed while it was running");
    visit_expect_ok(&visits[1]);
    ck_assert_uint_gt(reference_submitted(reference_last()), before);
    close_site();
}
END_TEST

START_TEST(test_cancels_at_random_leave_the_others_right)
{
    const struct reference_options reference = {.seed = 40 + (uint64_t)_i,
                                                .pause_ns_max = 200 * BASE_NS_PER_US};
    open_site(&reference, 1 + (uint32_t)_i % 2);
    for (uint32_t i = 0; i < VISITS; i++) {
        start_any(&visits[i]);
        struct visit *regretted = &visits[base_random_below(&numbers, i + 1)];
        if (base_random_below(&numbers, 3) == 0 && !regretted->cancel_posted) {
            visit_cancel(regretted, BASE_CANCELLED);
        }
        if (base_random_below(&numbers, 20) == 0) {
            reference_fail(reference_last(), 1 + base_random_below(&numbers, 4), BASE_UNAVAILABLE);
        }
    }
    uint32_t seen[BASE_STATUS_COUNT] = {0};
    for (uint32_t i = 0; i < VISITS; i++) {
        visit_wait(&visits[i]);
        enum base_status status = visits[i].ask.request.error.status;
        seen[status]++;
        if (status == BASE_OK) {
            visit_expect_ok(&visits[i]);
        } else {
            ask_release(&visits[i].ask);
        }
    }
    ck_assert_uint_gt(seen[BASE_OK], 0);
    ck_assert_uint_eq(seen[BASE_OK] + seen[BASE_CANCELLED] + seen[BASE_UNAVAILABLE], VISITS);
    close_site(); // fails the case when anything is left
}
END_TEST

/* ---- Drain ---- */

static bool is_counted(void *argument)
{
    return atomic_load((_Atomic uint32_t *)argument) > 0;
}

START_TEST(test_a_drain_waits_for_what_is_in_flight)
{
    static _Atomic uint32_t idle;
    struct visit late;
    atomic_store(&idle, 0);
    open_slow();
    uint64_t before = reference_submitted(reference_last());
    for (uint32_t i = 0; i < 20; i++) {
        start_chain(&visits[i], 1, 10); // four of them wait for rows
    }
    wait_submitted(before, 1);
    site_set_stopping(&site);
    site_refuse_new(&site);
    site_when_idle(&site, &idle);
    start_chain(&late, 1, 1);
    visit_expect(&late, BASE_UNAVAILABLE, "the server is stopping");
    for (uint32_t i = 0; i < 20; i++) {
        visit_expect_ok(&visits[i]);
    }
    ck_assert(site_until(is_counted, &idle));
    close_site();
}
END_TEST

START_TEST(test_a_drain_that_cancels_waits_for_a_dead_device)
{
    static _Atomic uint32_t idle;
    atomic_store(&idle, 0);
    open_quick();
    struct cell_device *device = reference_last();
    uint64_t before = reference_submitted(device);
    reference_die(device);
    for (uint32_t i = 0; i < 20; i++) {
        start_chain(&visits[i], 1, 10);
    }
    wait_submitted(before, 1);
    site_refuse_new(&site);
    site_when_idle(&site, &idle);
    site_cancel_all(&site);
    for (uint32_t i = 16; i < 20; i++) {
        visit_expect(&visits[i], BASE_UNAVAILABLE, "the server is stopping; it was waiting");
    }
    ck_assert_uint_eq(atomic_load(&idle), 0);
    ck_assert(!visit_is_done(&visits[0]));
    reference_reset(device);
    for (uint32_t i = 0; i < 16; i++) {
        visit_wait(&visits[i]);
        ck_assert_int_eq(visits[i].ask.request.error.status, BASE_UNAVAILABLE);
        ask_release(&visits[i].ask);
    }
    ck_assert(site_until(is_counted, &idle));
    close_site();
}
END_TEST

int main(void)
{
    base_log_configure(BASE_LOG_ERROR, BASE_LOG_TEXT);
    Suite *suite = suite_create("core_device");
    TCase *tcase = tcase_create("core_device");
    tcase_add_loop_test(tcase, test_every_request_is_answered_right, 0, 6);
    tcase_add_loop_test(tcase, test_a_failed_batch_fails_only_those_in_it, 0, 8);
    tcase_add_test(tcase, test_a_dead_device_fails_what_it_holds_and_serves_on);
    tcase_add_loop_test(tcase, test_a_lane_that_hangs_fails_only_what_it_holds, 0, 4);
    tcase_add_test(tcase, test_requests_are_spread_over_the_devices);
    tcase_add_test(tcase, test_a_device_that_fails_the_warm_up);
    tcase_add_test(tcase, test_a_cancel_waits_for_what_is_in_flight_and_no_longer);
    tcase_add_test(tcase, test_a_cancelled_request_s_rows_serve_the_next);
    tcase_add_test(tcase, test_a_cancel_on_a_dead_device_is_answered_after_its_reset);
    tcase_add_test(tcase, test_a_deadline_passes_while_a_batch_is_in_flight);
    tcase_add_loop_test(tcase, test_cancels_at_random_leave_the_others_right, 0, 8);
    tcase_add_test(tcase, test_a_drain_waits_for_what_is_in_flight);
    tcase_add_test(tcase, test_a_drain_that_cancels_waits_for_a_dead_device);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
