/* The server's own life: models, warm-up, readiness, statistics, drain. */
#include "base/log.h"
#include "base/mem.h"
#include "tests/server/exposition.h"
#include "tests/server/gate.h"
#include "tests/server/models.h"
#include "tests/server/site.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

static struct site site;
static struct site_options options;
static struct base_random numbers;

static void setup(void)
{
    site_options_init(&options);
    options.engine.rows = 4;
    options.engine.run_steps_max = 1;
    numbers = util_random(1);
}

static void visit_chain(struct visit *visit, uint32_t steps)
{
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, site.chain, 1, steps, &numbers, ASK_PLAIN);
    visit_start(&site, visit);
}

static bool is_warmed(void *argument)
{
    const struct site *at = argument;
    return atomic_load(&at->warmed);
}

static void wait_warmed(void)
{
    ck_assert(site_until(is_warmed, &site));
}

static bool is_counted(void *argument)
{
    return atomic_load((_Atomic uint32_t *)argument) > 0;
}

static const struct srv_model *find(const char *name)
{
    const struct srv_model *model = NULL;
    ck_assert_int_eq(srv_core_find_model(site.core, name, "", &model, NULL), BASE_OK);
    return model;
}

/* ---- Models ---- */

START_TEST(test_models_are_listed_by_name_and_number)
{
    site_open(&site, &options);
    static const char *const want[][2] = {
        {"broken", "1"}, {"chain", "1"}, {"lone", "1"}, {"tokens", "1"}, {"tokens", "2"}};
    ck_assert_uint_eq(srv_core_models(site.core), 5);
    for (uint32_t i = 0; i < 5; i++) {
        ck_assert_str_eq(srv_core_model_at(site.core, i)->name, want[i][0]);
        ck_assert_str_eq(srv_core_model_at(site.core, i)->version, want[i][1]);
    }
    site_close(&site);
}
END_TEST

START_TEST(test_versions_are_ordered_as_numbers)
{
    struct base_error error;
    const char *versions[] = {"10", "9", "100", "2"};
    const char *want[] = {"2", "9", "10", "100"};
    site_open(&site, &options);
    for (int i = 0; i < 4; i++) {
        struct srv_model_source source = {.name = "m", .version = versions[i], .reason = "none"};
        ck_assert_int_eq(srv_core_add_model(site.core, &source, &error), BASE_OK);
    }
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_str_eq(srv_core_model_at(site.core, 3 + i)->version, want[i]);
    }
    ck_assert_str_eq(find("m")->version, "100");
    site_close(&site);
}
END_TEST

START_TEST(test_the_same_version_twice_is_refused)
{
    struct base_error error;
    struct srv_model_source source = {.name = "chain", .version = "1", .reason = "none"};
    site_open(&site, &options);
    ck_assert_int_eq(srv_core_add_model(site.core, &source, &error), BASE_ALREADY_EXISTS);
    ck_assert_str_eq(error.message, "model 'chain' has version 1 twice");
    ck_assert_uint_eq(srv_core_models(site.core), 5);
    site_close(&site);
}
END_TEST

START_TEST(test_every_allocation_of_models_and_core_may_fail)
{
    struct base_error error;
    struct srv_model_source source = {.name = "m", .version = "1", .reason = "none"};
    site_open(&site, &options);
    uint64_t n = 1;
    for (enum base_status status = BASE_RESOURCE_EXHAUSTED; status != BASE_OK; n++) {
        base_alloc_fail_at(n);
        status = srv_core_add_model(site.core, &source, &error);
        base_alloc_fail_at(0);
        ck_assert_uint_eq(srv_core_models(site.core), status == BASE_OK ? 6 : 5);
    }
    ck_assert_uint_eq(n, 4);
    struct srv_core *core = NULL;
    base_alloc_fail_at(1);
    ck_assert_int_eq(srv_core_create(&site.loop, site.engine, &options.core, &core),
                     BASE_RESOURCE_EXHAUSTED);
    base_alloc_fail_at(0);
    site_close(&site);
}
END_TEST

/* ---- Warm-up and readiness ---- */

START_TEST(test_before_the_warm_up_models_are_loading)
{
    struct visit visit;
    options.cold = true;
    options.core.strict_readiness = false;
    site_open(&site, &options);
    ck_assert_int_eq(find("chain")->state, SRV_MODEL_LOADING);
    ck_assert_ptr_null(find("chain")->signature);
    visit_chain(&visit, 2);
    visit_expect(&visit, BASE_UNAVAILABLE, "model 'chain' version 1 is loading");
    gate_close();
    site_warm(&site);
    ck_assert(!site_is_ready(&site));
    gate_open();
    wait_warmed();
    ck_assert(site_is_ready(&site));
    visit_chain(&visit, 2);
    visit_expect_ok(&visit);
    site_close(&site);
}
END_TEST

START_TEST(test_strict_readiness_wants_every_model)
{
    site_open(&site, &options); // "broken" is
    ck_assert(!site_is_ready(&site));
    site_close(&site);
}
END_TEST

START_TEST(test_the_warm_up_runs_every_type_and_counts_nothing)
{
    site_open(&site, &options);
    const struct cell_model *models[] = {site.chain, site.tokens, site.tokens2, site.lone};
    for (int m = 0; m < 4; m++) {
        for (uint32_t s = 0; s < models[m]->n_stages; s++) {
            const struct sched_type_stats *stats = sched_type_stats(
                srv_engine_scheduler(site.engine, 0), models[m]->stages[s].type->id);
            ck_assert_uint_gt(atomic_load(&stats->cells), 0);
        }
    }
    struct srv_counters counters = site_counters(&site);
    struct srv_counters none = {.rejected_queue_full = 0};
    ck_assert_mem_eq(&counters, &none, sizeof(none));
    struct srv_model_stats stats = site_stats(&site, "tokens", "2");
    ck_assert_uint_eq(stats.success.count + stats.queue.count + stats.inference_count, 0);
    ck_assert_uint_eq(find("chain")->duration_ns.count, 0);
    site_close(&site);
}
END_TEST

START_TEST(test_models_of_one_step_warm_up_too)
{
    options.core.sequence_length_max = 1;
    site_open(&site, &options);
    ck_assert_int_eq(find("chain")->state, SRV_MODEL_READY);
    ck_assert_int_eq(find("tokens")->state, SRV_MODEL_READY);
    site_close(&site);
}
END_TEST

START_TEST(test_a_model_whose_warm_up_fails_is_unavailable)
{
    struct visit visit;
    options.cold = true;
    site_open(&site, &options);
    gate_fail(1, BASE_INTERNAL);
    site_warm(&site);
    wait_warmed();
    ck_assert_int_eq(find("chain")->state, SRV_MODEL_UNAVAILABLE);
    ck_assert_ptr_null(find("chain")->signature);
    ck_assert_str_eq(find("chain")->reason, "the device failed while it was running");
    ck_assert_int_eq(find("tokens")->state, SRV_MODEL_READY);
    visit_chain(&visit, 1);
    visit_expect(&visit, BASE_UNAVAILABLE,
                 "model 'chain' version 1 is unavailable: the device failed while it was running");
    site_close(&site);
}
END_TEST

static void warm_without_memory(struct site *at, void *argument)
{
    (void)argument;
    base_alloc_fail_at(1);
    site_warm_here(at);
    base_alloc_fail_at(0);
}

START_TEST(test_without_memory_to_warm_up_models_are_unavailable)
{
    options.cold = true;
    site_open(&site, &options);
    site_call(&site, warm_without_memory, NULL);
    ck_assert(atomic_load(&site.warmed));
    ck_assert_int_eq(find("chain")->state, SRV_MODEL_UNAVAILABLE);
    ck_assert_str_eq(find("chain")->reason, "no memory for the warm-up");
    ck_assert_str_eq(find("broken")->reason, "its file is torn");
    site_close(&site);
}
END_TEST

START_TEST(test_a_drain_ends_the_warm_up_before_the_core_is_idle)
{
    static _Atomic uint32_t idle;
    struct visit visit;
    atomic_store(&idle, 0);
    options.cold = true;
    site_open(&site, &options);
    gate_close();
    site_warm(&site);
    (void)site_counters(&site); // its first request is on its way
    site_refuse_new(&site);
    site_when_idle(&site, &idle);
    ck_assert_uint_eq(atomic_load(&idle), 0);
    ck_assert(!atomic_load(&site.warmed));
    visit_chain(&visit, 1);
    visit_expect(&visit, BASE_UNAVAILABLE, "the server is stopping");
    gate_open();
    ck_assert(site_until(is_counted, &idle));
    ck_assert(atomic_load(&site.warmed));
    ck_assert_int_eq(find("tokens")->state, SRV_MODEL_LOADING);
    ck_assert(!site_is_ready(&site));
    site_close(&site);
    ck_assert_uint_eq(atomic_load(&idle), 1);
}
END_TEST

/* ---- Drain ---- */

START_TEST(test_an_idle_core_says_so_at_once)
{
    static _Atomic uint32_t idle;
    atomic_store(&idle, 0);
    site_open(&site, &options);
    site_when_idle(&site, &idle);
    ck_assert_uint_eq(atomic_load(&idle), 1);
    site_close(&site);
}
END_TEST

START_TEST(test_stopping_is_not_ready_but_serves)
{
    struct visit visit;
    options.core.strict_readiness = false;
    site_open(&site, &options);
    ck_assert(site_is_ready(&site));
    site_set_stopping(&site);
    ck_assert(!site_is_ready(&site));
    ck_assert(srv_core_is_draining(site.core));
    visit_chain(&visit, 3);
    visit_expect_ok(&visit);
    site_close(&site);
}
END_TEST

START_TEST(test_refusing_lets_finish_what_is_inside)
{
    static struct visit inside[6], late; // two of them wait
    static _Atomic uint32_t idle;
    atomic_store(&idle, 0);
    site_open(&site, &options);
    gate_close();
    for (uint32_t i = 0; i < 6; i++) {
        visit_chain(&inside[i], 10 + i);
    }
    site_refuse_new(&site);
    site_when_idle(&site, &idle);
    visit_chain(&late, 3);
    visit_expect(&late, BASE_UNAVAILABLE, "the server is stopping");
    ck_assert_uint_eq(site_counters(&site).rejected_draining, 1);
    ck_assert_uint_eq(atomic_load(&idle), 0);
    gate_open();
    for (uint32_t i = 0; i < 6; i++) {
        visit_expect_ok(&inside[i]);
    }
    ck_assert(site_until(is_counted, &idle));
    site_close(&site);
    ck_assert_uint_eq(atomic_load(&idle), 1);
}
END_TEST

START_TEST(test_cancel_all_ends_what_waits_and_runs)
{
    static struct visit inside[6];
    static _Atomic uint32_t idle;
    atomic_store(&idle, 0);
    site_open(&site, &options);
    gate_close();
    for (uint32_t i = 0; i < 6; i++) {
        visit_chain(&inside[i], 60);
    }
    site_refuse_new(&site);
    site_when_idle(&site, &idle);
    site_cancel_all(&site);
    for (uint32_t i = 4; i < 6; i++) {
        visit_expect(&inside[i], BASE_UNAVAILABLE, "the server is stopping; it was waiting");
    }
    ck_assert_uint_eq(atomic_load(&idle), 0);
    gate_open();
    for (uint32_t i = 0; i < 4; i++) {
        visit_expect(&inside[i], BASE_UNAVAILABLE, "the server is stopping; it was running");
    }
    ck_assert(site_until(is_counted, &idle));
    struct srv_counters counters = site_counters(&site);
    ck_assert_uint_eq(counters.requests_total[SRV_PROTOCOL_TEST][BASE_UNAVAILABLE], 6);
    ck_assert_uint_eq(counters.cancelled_running + counters.cancelled_waiting, 0);
    site_close(&site);
}
END_TEST

/* ---- done() that starts the next ---- */

static uint32_t again;

static void start_again(struct visit *visit)
{
    if (again > 0 && visit->ask.request.error.status == BASE_OK) {
        again--;
        visit->ask.request.times.arrived_ns = visit->site->loop.now_ns;
        srv_request_start(visit->site->core, &visit->ask.request);
    }
}

static bool is_through(void *argument)
{
    (void)argument;
    return atomic_load(&site.done) == 100;
}

START_TEST(test_an_answer_may_bring_the_next_request)
{
    static struct visit visits[3];
    site_open(&site, &options);
    again = 97;
    for (int i = 0; i < 3; i++) {
        memset(&visits[i], 0, sizeof(visits[i]));
        ask_init(&visits[i].ask, site.tokens2, 2, 4, &numbers, ASK_PLAIN);
        visits[i].then = start_again;
        visit_start(&site, &visits[i]);
    }
    ck_assert(site_until(is_through, NULL));
    struct srv_model_stats stats = site_stats(&site, "tokens", "");
    ck_assert_uint_eq(stats.success.count, 100);
    for (int i = 0; i < 3; i++) {
        ck_assert_double_le(ask_error(&visits[i].ask), 1e-5);
        ask_release(&visits[i].ask);
    }
    site_close(&site);
}
END_TEST

/* ---- What is counted ---- */

static void write_page(struct site *at, void *argument)
{
    srv_core_write_metrics(at->core, argument);
}

static double value_of(const struct base_buf *page, const char *series)
{
    double value = -1;
    ck_assert_msg(exposition_find(page->data, series, &value), "no %s", series);
    return value;
}

START_TEST(test_statistics_and_metrics_agree)
{
    enum { GOOD = 7, BAD = 3 };
    site_open(&site, &options);
    for (uint32_t i = 0; i < GOOD + BAD; i++) {
        struct visit visit = {.site = NULL};
        ask_init(&visit.ask, site.chain, 2, 5, &numbers, ASK_PLAIN);
        if (i >= GOOD) {
            visit.ask.request.inputs[0].rank = 1;
        }
        visit.ask.request.protocol = SRV_PROTOCOL_HTTP;
        visit_start(&site, &visit);
        visit_wait(&visit);
        ask_release(&visit.ask);
    }
    struct srv_model_stats stats = site_stats(&site, "chain", "1");
    ck_assert_uint_eq(stats.success.count, GOOD);
    ck_assert_uint_eq(stats.queue.count, GOOD);
    ck_assert_uint_eq(stats.compute_input.count, GOOD);
    ck_assert_uint_eq(stats.compute_infer.count, GOOD);
    ck_assert_uint_eq(stats.compute_output.count, GOOD);
    ck_assert_uint_eq(stats.inference_count, 2 * GOOD);
    ck_assert_uint_eq(stats.fail.count, BAD);
    ck_assert_uint_gt(stats.last_inference_ms, 1700000000000u);
    // The parts make up the whole, of every request together.
    ck_assert_uint_eq(stats.queue.ns + stats.compute_input.ns + stats.compute_infer.ns +
                          stats.compute_output.ns,
                      stats.success.ns);
    char error[EXPOSITION_ERROR_BYTES];
    struct base_buf page;
    base_buf_init(&page, 1u << 20);
    site_call(&site, write_page, &page);
    ck_assert_msg(exposition_check(page.data, page.length, error), "%s", error);
    ck_assert_double_eq(value_of(&page, "cellbatch_requests_total{protocol=\"http\",code=\"OK\"}"),
                        GOOD);
    ck_assert_double_eq(
        value_of(&page, "cellbatch_requests_total{protocol=\"http\",code=\"INVALID_ARGUMENT\"}"),
        BAD);
    ck_assert_double_eq(
        value_of(&page, "cellbatch_request_duration_seconds_count{model=\"chain\",version=\"1\"}"),
        GOOD);
    ck_assert_double_eq(value_of(&page, "cellbatch_requests_running"), 0);
    base_buf_release(&page);
    site_close(&site);
}
END_TEST

int main(void)
{
    base_log_configure(BASE_LOG_ERROR, BASE_LOG_TEXT);
    Suite *suite = suite_create("core_drain");
    TCase *tcase = tcase_create("core_drain");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, test_models_are_listed_by_name_and_number);
    tcase_add_test(tcase, test_versions_are_ordered_as_numbers);
    tcase_add_test(tcase, test_the_same_version_twice_is_refused);
    tcase_add_test(tcase, test_every_allocation_of_models_and_core_may_fail);
    tcase_add_test(tcase, test_before_the_warm_up_models_are_loading);
    tcase_add_test(tcase, test_strict_readiness_wants_every_model);
    tcase_add_test(tcase, test_the_warm_up_runs_every_type_and_counts_nothing);
    tcase_add_test(tcase, test_models_of_one_step_warm_up_too);
    tcase_add_test(tcase, test_a_model_whose_warm_up_fails_is_unavailable);
    tcase_add_test(tcase, test_without_memory_to_warm_up_models_are_unavailable);
    tcase_add_test(tcase, test_a_drain_ends_the_warm_up_before_the_core_is_idle);
    tcase_add_test(tcase, test_an_idle_core_says_so_at_once);
    tcase_add_test(tcase, test_stopping_is_not_ready_but_serves);
    tcase_add_test(tcase, test_refusing_lets_finish_what_is_inside);
    tcase_add_test(tcase, test_cancel_all_ends_what_waits_and_runs);
    tcase_add_test(tcase, test_an_answer_may_bring_the_next_request);
    tcase_add_test(tcase, test_statistics_and_metrics_agree);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
