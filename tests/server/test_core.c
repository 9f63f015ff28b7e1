/* A request's life, phase by phase: waiting and running are held still by the gate's device, whose
 * batches are single steps here. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/core_state.h"
#include "tests/server/gate.h"
#include "tests/server/models.h"
#include "tests/server/site.h"
#include "tests/util.h"

#include <string.h>

#define ROWS 4u /* chains the site of these cases has room for */

static struct site site;
static struct base_random numbers;

static void open_with(uint32_t queue_max, enum base_status queue_full_status)
{
    struct site_options options;
    site_options_init(&options);
    options.engine.rows = ROWS;
    options.engine.run_steps_max = 1;
    options.core.queue_max = queue_max;
    options.core.queue_full_status = queue_full_status;
    site_open(&site, &options);
    numbers = util_random(1);
}

static void setup(void)
{
    open_with(3, BASE_RESOURCE_EXHAUSTED);
}

static void teardown(void)
{
    site_close(&site);
}

static void chain_init(struct visit *visit, uint32_t n_rows, uint32_t steps)
{
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, site.chain, n_rows, steps, &numbers, ASK_OPTIONAL);
}

/* The device holds back; this many chains of the model run, filling all rows when ROWS. */
static void run_held(struct visit *visits, uint32_t n)
{
    gate_close();
    for (uint32_t i = 0; i < n; i++) {
        chain_init(&visits[i], 1, 20);
        visit_start(&site, &visits[i]);
    }
}

/* ---- Good requests ---- */

START_TEST(test_every_model_answers_what_the_interpreter_does)
{
    const struct cell_model *models[] = {site.chain, site.tokens2, site.lone};
    static const char *const versions[] = {"1", "2", "1"};
    for (int i = 0; i < 60; i++) {
        struct visit visit = {.site = NULL};
        const struct cell_model *model = models[i % 3];
        uint32_t n_rows = model == site.lone ? 1 : 1 + base_random_below(&numbers, ROWS);
        ask_init(&visit.ask, model, n_rows, 1 + base_random_below(&numbers, 64), &numbers,
                 i % 2 == 0 ? ASK_OPTIONAL : ASK_PLAIN);
        visit_start(&site, &visit);
        visit_wait(&visit);
        ck_assert_str_eq(visit.ask.request.version, versions[i % 3]);
        visit_expect_ok(&visit);
    }
}
END_TEST

START_TEST(test_only_the_outputs_asked_for_are_answered)
{
    const char *wanted[] = {"c"};
    struct visit visit;
    chain_init(&visit, 2, 5);
    visit.ask.request.wanted = wanted;
    visit.ask.request.n_wanted = 1;
    visit_start(&site, &visit);
    visit_wait(&visit);
    ck_assert_uint_eq(visit.ask.request.n_outputs, 1);
    visit_expect_ok(&visit);
}
END_TEST

START_TEST(test_a_client_may_carry_its_own_state)
{
    // Two halves, the second from the first's state, give the bits of the whole.
    enum { STEPS = 10 };
    struct visit whole, half[2];
    chain_init(&whole, 1, STEPS);
    const uint8_t *x = ask_input(&whole.ask, "x")->data;
    const size_t step_bytes = 3 * sizeof(float);
    whole.ask.request.n_inputs = 3; // without lengths
    visit_start(&site, &whole);
    visit_wait(&whole);
    for (uint32_t i = 0; i < 2; i++) {
        chain_init(&half[i], 1, STEPS / 2);
        half[i].ask.request.n_inputs = 3;
        ask_input(&half[i].ask, "x")->data = x + i * (STEPS / 2) * step_bytes;
        const struct ask *before = i == 0 ? NULL : &half[0].ask;
        for (uint32_t s = 0; s < 2; s++) {
            const char *name = s == 0 ? "h0" : "c0";
            ask_input(&half[i].ask, name)->data =
                before == NULL ? ask_input(&whole.ask, name)->data
                               : ask_output(before, s == 0 ? "h" : "c")->data;
        }
        visit_start(&site, &half[i]);
        visit_wait(&half[i]);
        ck_assert_mem_eq(ask_output(&half[i].ask, "y")->data,
                         ask_output(&whole.ask, "y")->data +
                             i * ask_output(&half[i].ask, "y")->bytes,
                         ask_output(&half[i].ask, "y")->bytes);
    }
    ck_assert_mem_eq(ask_output(&half[1].ask, "h")->data, ask_output(&whole.ask, "h")->data, 32);
    ck_assert_mem_eq(ask_output(&half[1].ask, "c")->data, ask_output(&whole.ask, "c")->data, 32);
    ask_release(&half[0].ask);
    ask_release(&half[1].ask);
    ask_release(&whole.ask);
}
END_TEST

/* Sets row b's length. */
static void set_length(struct ask *ask, uint32_t b, int64_t length)
{
    uint8_t *copy = base_arena_alloc(&ask->request.arena, ask_input(ask, "lengths")->bytes);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, ask_input(ask, "lengths")->data, ask_input(ask, "lengths")->bytes);
    memcpy(copy + b * sizeof(length), &length, sizeof(length));
    ask_input(ask, "lengths")->data = copy;
}

static bool all_zeros(const struct srv_tensor *tensor, size_t first, size_t end)
{
    bool zeros = true;
    for (size_t i = first; i < end; i++) {
        zeros = zeros && tensor->data[i] == 0;
    }
    return zeros;
}

START_TEST(test_a_row_of_length_0_answers_zeros_beside_others)
{
    struct visit visit;
    chain_init(&visit, 2, 6);
    set_length(&visit.ask, 0, 6);
    set_length(&visit.ask, 1, 0);
    visit_start(&site, &visit);
    visit_wait(&visit);
    ck_assert_int_eq(visit.ask.request.error.status, BASE_OK);
    for (uint32_t o = 0; o < 3; o++) {
        const struct srv_tensor *output = &visit.ask.request.outputs[o];
        ck_assert(!all_zeros(output, 0, output->bytes / 2));
        ck_assert(all_zeros(output, output->bytes / 2, output->bytes));
    }
    ask_release(&visit.ask);
}
END_TEST

START_TEST(test_nothing_but_length_0_answers_zeros_at_once)
{
    struct visit visit;
    chain_init(&visit, 2, 6);
    set_length(&visit.ask, 0, 0);
    set_length(&visit.ask, 1, 0);
    gate_close(); // not a cell is needed
    visit_start(&site, &visit);
    visit_wait(&visit);
    ck_assert_int_eq(visit.ask.request.error.status, BASE_OK);
    ck_assert_uint_eq(visit.ask.request.n_outputs, 3);
    for (uint32_t o = 0; o < 3; o++) {
        const struct srv_tensor *output = &visit.ask.request.outputs[o];
        ck_assert(all_zeros(output, 0, output->bytes));
    }
    struct srv_model_stats stats = site_stats(&site, "chain", "1");
    ck_assert_uint_eq(stats.success.count, 1);
    ck_assert_uint_eq(stats.queue.count, 1);
    ck_assert_uint_eq(stats.inference_count, 2);
    ask_release(&visit.ask);
}
END_TEST

/* ---- Refusals ---- */

START_TEST(test_an_unknown_model_is_not_found)
{
    struct visit visit;
    chain_init(&visit, 1, 1);
    visit.ask.request.model_name = "chains";
    visit.ask.request.id = "7";
    visit_start(&site, &visit);
    visit_expect(&visit, BASE_NOT_FOUND, "[request id: 7] no model 'chains' here");
    ck_assert_str_eq(visit.ask.request.version, "");
}
END_TEST

START_TEST(test_an_unknown_version_is_not_found)
{
    struct visit visit;
    chain_init(&visit, 1, 1);
    visit.ask.request.model_version = "9";
    visit_start(&site, &visit);
    visit_expect(&visit, BASE_NOT_FOUND, "model 'chain' has no version '9'");
}
END_TEST

START_TEST(test_no_version_means_the_highest)
{
    const char *versions[] = {"", "1", "2"};
    const struct cell_model *want[] = {site.tokens2, site.tokens, site.tokens2};
    static const char *const answers[] = {"2", "1", "2"};
    for (int i = 0; i < 3; i++) {
        struct visit visit = {.site = NULL};
        ask_init(&visit.ask, want[i], 1, 3, &numbers, ASK_PLAIN);
        visit.ask.request.model_version = versions[i];
        visit_start(&site, &visit);
        visit_wait(&visit);
        ck_assert_str_eq(visit.ask.request.version, answers[i]);
        visit_expect_ok(&visit);
    }
}
END_TEST

START_TEST(test_an_unavailable_model_says_why)
{
    struct visit visit;
    chain_init(&visit, 1, 1);
    visit.ask.request.model_name = "broken";
    visit_start(&site, &visit);
    visit_expect(&visit, BASE_UNAVAILABLE,
                 "model 'broken' version 1 is unavailable: its file is torn");
}
END_TEST

START_TEST(test_bad_input_is_answered_and_counted)
{
    struct visit visit;
    chain_init(&visit, 1, 1);
    visit.ask.request.inputs[0].datatype = "BYTES";
    visit.ask.request.id = "nr. 5";
    visit_start(&site, &visit);
    visit_expect(&visit, BASE_INVALID_ARGUMENT,
                 "[request id: nr. 5] input 'x': datatype 'BYTES', expected FP32");
    struct srv_model_stats stats = site_stats(&site, "chain", "1");
    ck_assert_uint_eq(stats.fail.count, 1);
    ck_assert_uint_gt(stats.fail.ns, 0);
    ck_assert_uint_eq(stats.success.count, 0);
    struct srv_counters counters = site_counters(&site);
    ck_assert_uint_eq(counters.requests_total[SRV_PROTOCOL_TEST][BASE_INVALID_ARGUMENT], 1);
}
END_TEST

START_TEST(test_a_batch_beyond_all_rows_is_refused)
{
    struct visit visit;
    chain_init(&visit, ROWS + 1, 1);
    visit_start(&site, &visit);
    visit_expect(&visit, BASE_RESOURCE_EXHAUSTED,
                 "a batch of 5 rows needs more state rows than the server has (--rows)");
    ck_assert_uint_eq(site_counters(&site).rejected_too_large, 1);
}
END_TEST

/* Before it is in a batch with others; they are answered. */
START_TEST(test_a_chain_that_no_device_can_compute_is_refused)
{
    struct visit large;
    struct visit visit;
    gate_steps_max(3);
    memset(&large, 0, sizeof(large));
    ask_init(&large.ask, site.chain, 1, 4, &numbers, ASK_PLAIN); // of no other lengths than that
    chain_init(&visit, 1, 3);
    visit_start(&site, &large);
    visit_start(&site, &visit);
    visit_expect(&large, BASE_RESOURCE_EXHAUSTED, "a chain of 4 steps, 3 are the most");
    visit_expect_ok(&visit);
    gate_steps_max(UINT32_MAX);
    ck_assert_uint_eq(site_counters(&site).rejected_too_large, 1);
}
END_TEST

START_TEST(test_a_full_queue_refuses)
{
    static struct visit inside[ROWS + 3];
    struct visit visit;
    run_held(inside, ROWS + 3);
    chain_init(&visit, 1, 1);
    visit_start(&site, &visit);
    visit_expect(&visit, BASE_RESOURCE_EXHAUSTED,
                 "the queue is full: 3 requests of model 'chain' wait (--queue-max)");
    struct srv_counters counters = site_counters(&site);
    ck_assert_uint_eq(counters.rejected_queue_full, 1);
    ck_assert_uint_eq(counters.requests_waiting, 3);
    ck_assert_uint_eq(counters.requests_running, ROWS);
    gate_open();
    for (uint32_t i = 0; i < ROWS + 3; i++) {
        visit_expect_ok(&inside[i]);
    }
}
END_TEST

START_TEST(test_a_full_queue_refuses_as_configured)
{
    open_with(0, BASE_UNAVAILABLE);
    static struct visit inside[ROWS];
    struct visit visit;
    run_held(inside, ROWS);
    chain_init(&visit, 1, 1);
    visit_start(&site, &visit);
    visit_expect(&visit, BASE_UNAVAILABLE,
                 "the queue is full: 0 requests of model 'chain' wait (--queue-max)");
    gate_open();
    for (uint32_t i = 0; i < ROWS; i++) {
        visit_expect_ok(&inside[i]);
    }
    site_close(&site);
}
END_TEST

START_TEST(test_every_allocation_of_a_request_may_fail)
{
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    uint64_t n = 1;
    for (; status != BASE_OK; n++) {
        ck_assert_uint_lt(n, 200);
        struct visit visit;
        chain_init(&visit, 2, 5);
        // What it has is used up, and every piece that comes is an allocation of its own.
        size_t used = visit.ask.request.arena.used_bytes;
        visit.ask.request.arena.chunk_bytes = 256;
        while (visit.ask.request.arena.used_bytes == used) {
            ck_assert_ptr_nonnull(base_arena_alloc(&visit.ask.request.arena, 64));
        }
        visit.ask.request.deadline_ns = base_now_ns() + 60 * BASE_NS_PER_S;
        base_alloc_fail_at(n);
        visit_start(&site, &visit);
        visit_wait(&visit);
        base_alloc_fail_at(0);
        status = visit.ask.request.error.status;
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
        ask_release(&visit.ask);
    }
    ck_assert_uint_gt(n, 8);
}
END_TEST

/* ---- Cancel ---- */

START_TEST(test_cancel_while_waiting_answers_at_once)
{
    static struct visit inside[ROWS + 2];
    run_held(inside, ROWS + 2);
    visit_cancel(&inside[ROWS], BASE_CANCELLED);
    visit_expect(&inside[ROWS], BASE_CANCELLED, "cancelled by the client while waiting");
    struct srv_counters counters = site_counters(&site);
    ck_assert_uint_eq(counters.cancelled_waiting, 1);
    ck_assert_uint_eq(counters.requests_waiting, 1);
    gate_open();
    for (uint32_t i = 0; i < ROWS + 2; i++) {
        if (i != ROWS) {
            visit_expect_ok(&inside[i]);
        }
    }
}
END_TEST

START_TEST(test_cancel_while_running_ends_it_within_the_batches_in_flight)
{
    static struct visit visit;
    gate_close();
    chain_init(&visit, 1, 60);
    visit_start(&site, &visit);
    gate_let(3);
    visit_cancel(&visit, BASE_CANCELLED);
    (void)site_counters(&site); // the cancel is with the pool thread now
    uint64_t before = gate_passed();
    gate_open();
    visit_expect(&visit, BASE_CANCELLED, "cancelled by the client while running");
    ck_assert_uint_le(gate_passed() - before, 3 + 5); // what passed meanwhile, and a full queue
    ck_assert_uint_eq(site_counters(&site).cancelled_running, 1);
    ck_assert_uint_eq(site_rows(&site), 0);
    ck_assert_uint_eq(site_reserved(&site), 0);
}
END_TEST

START_TEST(test_cancel_twice_keeps_the_first_reason)
{
    static struct visit visit;
    static struct visit other;
    gate_close();
    chain_init(&visit, 1, 60);
    visit_start(&site, &visit);
    visit_cancel(&visit, BASE_DEADLINE_EXCEEDED);
    // The drain's cancel comes second.
    chain_init(&other, 1, 60);
    visit_start(&site, &other);
    site_refuse_new(&site);
    site_cancel_all(&site);
    site_cancel_all(&site);
    gate_open();
    visit_expect(&visit, BASE_DEADLINE_EXCEEDED, "the deadline passed while it was running");
    visit_expect(&other, BASE_UNAVAILABLE, "the server is stopping; it was running");
}
END_TEST

START_TEST(test_those_behind_a_cancelled_large_request_go_on)
{
    // Two rows are free; the large one needs all and holds the small one back.
    static struct visit inside[2], large, small;
    run_held(inside, 2);
    chain_init(&large, ROWS, 4);
    visit_start(&site, &large);
    chain_init(&small, 1, 4);
    visit_start(&site, &small);
    ck_assert_uint_eq(site_counters(&site).requests_waiting, 2);
    visit_cancel(&large, BASE_CANCELLED);
    visit_expect(&large, BASE_CANCELLED, "cancelled by the client while waiting");
    struct srv_counters counters = site_counters(&site);
    ck_assert_uint_eq(counters.requests_waiting, 0);
    ck_assert_uint_eq(counters.requests_running, 3);
    gate_open();
    visit_expect_ok(&small);
    visit_expect_ok(&inside[0]);
    visit_expect_ok(&inside[1]);
}
END_TEST

/* ---- Deadlines ---- */

START_TEST(test_a_deadline_in_the_past_is_refused)
{
    struct visit visit;
    chain_init(&visit, 1, 1);
    visit.ask.request.deadline_ns = base_now_ns() - 1;
    visit_start(&site, &visit);
    visit_expect(&visit, BASE_DEADLINE_EXCEEDED,
                 "the deadline had passed before the request could start");
    ck_assert_uint_eq(site_counters(&site).rejected_deadline, 1);
}
END_TEST

START_TEST(test_deadlines_pass_while_waiting_and_running)
{
    static struct visit inside[ROWS + 2];
    gate_close();
    for (uint32_t i = 0; i < ROWS + 2; i++) {
        chain_init(&inside[i], 1, 40);
        // Late ones first, so that the timer has to be brought forward.
        inside[i].ask.request.deadline_ns = base_now_ns() + (150 - 10 * i) * BASE_NS_PER_MS;
        visit_start(&site, &inside[i]);
    }
    visit_expect(&inside[ROWS + 1], BASE_DEADLINE_EXCEEDED,
                 "the deadline passed while it was waiting");
    visit_expect(&inside[ROWS], BASE_DEADLINE_EXCEEDED, "the deadline passed while it was waiting");
    while (base_now_ns() < inside[0].ask.request.deadline_ns + 10 * BASE_NS_PER_MS) {
        (void)site_counters(&site);
    }
    // Those with a batch in the device are left.
    ck_assert_uint_gt(site_counters(&site).requests_running, 0);
    gate_open();
    for (uint32_t i = 0; i < ROWS; i++) {
        visit_expect(&inside[i], BASE_DEADLINE_EXCEEDED,
                     "the deadline passed while it was running");
    }
}
END_TEST

START_TEST(test_the_smaller_of_deadline_and_timeout_counts)
{
    static struct visit visit;
    gate_close();
    static struct visit inside[ROWS];
    run_held(inside, ROWS);
    chain_init(&visit, 1, 2);
    visit.ask.request.deadline_ns = base_now_ns() + 3600 * BASE_NS_PER_S;
    visit.ask.request.timeout_ns = 20 * BASE_NS_PER_MS;
    visit_start(&site, &visit);
    visit_expect(&visit, BASE_DEADLINE_EXCEEDED, "the deadline passed while it was waiting");
    gate_open();
    for (uint32_t i = 0; i < ROWS; i++) {
        visit_expect_ok(&inside[i]);
    }
}
END_TEST

START_TEST(test_a_deadline_not_reached_changes_nothing)
{
    for (uint32_t i = 0; i < 200; i++) {
        struct visit visit;
        chain_init(&visit, 1, 3);
        visit.ask.request.deadline_ns = base_now_ns() + 20 * BASE_NS_PER_S + i;
        visit_start(&site, &visit);
        visit_expect_ok(&visit);
    }
}
END_TEST

/* ---- The device fails ---- */

START_TEST(test_a_failing_batch_fails_its_requests_and_no_other)
{
    static struct visit visit, after;
    gate_close();
    chain_init(&visit, 2, 9);
    visit.ask.request.id = "a";
    visit_start(&site, &visit);
    gate_fail(1, BASE_INTERNAL);
    gate_open(); // what was submitted behind it ends first
    visit_expect(&visit, BASE_INTERNAL, "[request id: a] the device failed while it was running");
    chain_init(&after, 2, 9);
    visit_start(&site, &after);
    visit_expect_ok(&after);
    ck_assert_uint_eq(site_rows(&site), 0);
    ck_assert_uint_eq(site_reserved(&site), 0);
    ck_assert_uint_eq(site_stats(&site, "chain", "1").fail.count, 1);
}
END_TEST

START_TEST(test_a_lost_device_is_not_taken_for_a_drain)
{
    static struct visit visit;
    gate_close();
    chain_init(&visit, 1, 9);
    visit_start(&site, &visit);
    gate_fail(1, BASE_UNAVAILABLE);
    gate_open();
    visit_expect(&visit, BASE_UNAVAILABLE, "the device failed while it was running");
}
END_TEST

static TCase *case_of(const char *name)
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, setup, teardown);
    return tcase;
}

static TCase *answers_case(void)
{
    TCase *tcase = case_of("answers");
    tcase_add_test(tcase, test_every_model_answers_what_the_interpreter_does);
    tcase_add_test(tcase, test_only_the_outputs_asked_for_are_answered);
    tcase_add_test(tcase, test_a_client_may_carry_its_own_state);
    tcase_add_test(tcase, test_a_row_of_length_0_answers_zeros_beside_others);
    tcase_add_test(tcase, test_nothing_but_length_0_answers_zeros_at_once);
    return tcase;
}

static TCase *refusals_case(void)
{
    TCase *tcase = case_of("refusals");
    tcase_add_test(tcase, test_an_unknown_model_is_not_found);
    tcase_add_test(tcase, test_an_unknown_version_is_not_found);
    tcase_add_test(tcase, test_no_version_means_the_highest);
    tcase_add_test(tcase, test_an_unavailable_model_says_why);
    tcase_add_test(tcase, test_bad_input_is_answered_and_counted);
    tcase_add_test(tcase, test_a_batch_beyond_all_rows_is_refused);
    tcase_add_test(tcase, test_a_chain_that_no_device_can_compute_is_refused);
    tcase_add_test(tcase, test_a_full_queue_refuses);
    tcase_add_test(tcase, test_every_allocation_of_a_request_may_fail);
    return tcase;
}

static TCase *stops_case(void)
{
    TCase *tcase = case_of("stops");
    tcase_add_test(tcase, test_cancel_while_waiting_answers_at_once);
    tcase_add_test(tcase, test_cancel_while_running_ends_it_within_the_batches_in_flight);
    tcase_add_test(tcase, test_cancel_twice_keeps_the_first_reason);
    tcase_add_test(tcase, test_those_behind_a_cancelled_large_request_go_on);
    tcase_add_test(tcase, test_a_deadline_in_the_past_is_refused);
    tcase_add_test(tcase, test_deadlines_pass_while_waiting_and_running);
    tcase_add_test(tcase, test_the_smaller_of_deadline_and_timeout_counts);
    tcase_add_test(tcase, test_a_deadline_not_reached_changes_nothing);
    tcase_add_test(tcase, test_a_failing_batch_fails_its_requests_and_no_other);
    tcase_add_test(tcase, test_a_lost_device_is_not_taken_for_a_drain);
    return tcase;
}

int main(void)
{
    base_log_configure(BASE_LOG_ERROR, BASE_LOG_TEXT);
    Suite *suite = suite_create("core");
    suite_add_tcase(suite, answers_case());
    suite_add_tcase(suite, refusals_case());
    suite_add_tcase(suite, stops_case());
    TCase *own = tcase_create("own");
    tcase_add_test(own, test_a_full_queue_refuses_as_configured);
    suite_add_tcase(suite, own);
    return util_run(suite);
}
