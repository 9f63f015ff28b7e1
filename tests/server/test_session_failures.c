/* Sessions whose requests fail, are cancelled or stopped by a drain: nothing changes but for those
 * behind, and nothing is lost. The gate's device holds requests where a case needs them. */
#include "base/clock.h"
#include "base/mem.h"
#include "tests/server/gate.h"
#include "tests/server/talk.h"
#include "tests/util.h"

#include <string.h>

/* ---- Failures ---- */

START_TEST(test_a_request_that_fails_changes_nothing_but_for_those_behind)
{
    struct talk talk;
    talk_init(&talk, "fail", 1, 5, 1);
    talk_spoil(&talk, 2);
    gate_close();
    for (uint32_t p = 0; p < 5; p++) {
        visit_start(&talk_site, &talk.parts[p]);
    }
    ck_assert_uint_eq(site_counters(&talk_site).requests_waiting, 4);
    gate_open();
    talk_expect(&talk, 0);
    talk_expect(&talk, 1);
    talk_refused(&talk, 2, BASE_INVALID_ARGUMENT, "input 'x': datatype 'INT64'");
    for (uint32_t p = 3; p < 5; p++) {
        talk_refused(&talk, p, BASE_FAILED_PRECONDITION,
                     "a request before it in session 'fail' failed");
    }
    ck_assert_uint_eq(site_counters(&talk_site).requests_waiting, 0);
    for (uint32_t p = 2; p < 5; p++) {
        talk_part(&talk, p);
        talk.parts[p].ask.request.sequence.has_step = true;
        talk.parts[p].ask.request.sequence.step = p;
        talk_run(&talk, p);
    }
    talk_end(&talk);
}
END_TEST

START_TEST(test_a_session_that_fails_to_begin_is_none)
{
    struct talk talk;
    talk_init(&talk, "start", 1, 2, 1);
    talk_spoil(&talk, 0);
    gate_close();
    visit_start(&talk_site, &talk.parts[0]);
    talk_refused(&talk, 0, BASE_INVALID_ARGUMENT, "datatype 'INT64'");
    ck_assert_uint_eq(talk_look().count, 0);
    gate_open();
    visit_start(&talk_site, &talk.parts[1]);
    talk_refused(&talk, 1, BASE_NOT_FOUND, "no session 'start'");
    talk_end(&talk);
}
END_TEST

START_TEST(test_a_batch_that_fails)
{
    struct talk talk;
    talk_init(&talk, "device", 1, 3, 1);
    talk_run(&talk, 0);
    gate_fail(1, BASE_INTERNAL);
    visit_start(&talk_site, &talk.parts[1]);
    talk_refused(&talk, 1, BASE_INTERNAL, "the device failed");
    talk_part(&talk, 1);
    talk_run(&talk, 1);
    talk_run(&talk, 2);
    talk_end(&talk);
}
END_TEST

START_TEST(test_cancel_of_the_one_that_runs)
{
    struct talk talk;
    talk_init(&talk, "cancel", 1, 4, 10);
    talk_run(&talk, 0);
    gate_close();
    visit_start(&talk_site, &talk.parts[1]);
    visit_start(&talk_site, &talk.parts[2]);
    visit_cancel(&talk.parts[1], BASE_CANCELLED);
    (void)site_counters(&talk_site); // the cancel is with the pool thread now
    gate_open();
    talk_refused(&talk, 1, BASE_CANCELLED, "cancelled by the client while running");
    talk_refused(&talk, 2, BASE_FAILED_PRECONDITION, "a request before it");
    for (uint32_t p = 1; p < 4; p++) {
        if (p < 3) {
            talk_part(&talk, p);
        }
        talk_run(&talk, p);
    }
    talk_end(&talk);
}
END_TEST

START_TEST(test_cancel_and_deadline_of_those_that_wait)
{
    struct talk talk;
    talk_init(&talk, "line", 1, 5, 1);
    talk.parts[3].ask.request.timeout_ns = 20 * BASE_NS_PER_MS;
    gate_close();
    for (uint32_t p = 0; p < 5; p++) {
        visit_start(&talk_site, &talk.parts[p]);
    }
    talk_refused(&talk, 3, BASE_DEADLINE_EXCEEDED, "the deadline passed while it was waiting");
    talk_refused(&talk, 4, BASE_FAILED_PRECONDITION, "a request before it");
    ck_assert_uint_eq(site_counters(&talk_site).requests_waiting, 2);
    visit_cancel(&talk.parts[1], BASE_CANCELLED);
    talk_refused(&talk, 1, BASE_CANCELLED, "cancelled by the client while waiting");
    talk_refused(&talk, 2, BASE_FAILED_PRECONDITION, "a request before it");
    ck_assert_uint_eq(site_counters(&talk_site).cancelled_waiting, 1);
    ck_assert_uint_eq(site_counters(&talk_site).rejected_deadline, 1);
    gate_open();
    talk_expect(&talk, 0);
    for (uint32_t p = 1; p < 5; p++) {
        talk_part(&talk, p);
        talk_run(&talk, p);
    }
    talk_end(&talk);
}
END_TEST

/* A beginning that waits behind an end, and is given up, leaves the end. */
START_TEST(test_cancel_of_a_beginning_behind_an_end)
{
    struct talk first;
    struct talk second;
    talk_init(&first, "twice", 1, 2, 1);
    talk_init(&second, "twice", 1, 2, 1);
    gate_close();
    visit_start(&talk_site, &first.parts[0]);
    visit_start(&talk_site, &first.parts[1]);
    visit_start(&talk_site, &second.parts[0]);
    visit_start(&talk_site, &second.parts[1]);
    visit_cancel(&second.parts[0], BASE_CANCELLED);
    talk_refused(&second, 0, BASE_CANCELLED, "cancelled");
    talk_refused(&second, 1, BASE_FAILED_PRECONDITION, "a request before it");
    talk_part(&second, 1);
    visit_start(&talk_site, &second.parts[1]);
    talk_refused(&second, 1, BASE_NOT_FOUND, "no session 'twice'");
    gate_open();
    talk_expect(&first, 0);
    talk_expect(&first, 1);
    ck_assert_uint_eq(talk_look().count, 0);
    talk_end(&first);
    talk_end(&second);
}
END_TEST

/* done() of the one that fails sends it again, and stops one that is lost already. */
static struct talk *then_talk;

static void again(struct visit *visit)
{
    visit->then = NULL;
    srv_request_cancel(talk_site.core, &then_talk->parts[2].ask.request, BASE_CANCELLED);
    srv_request_start(talk_site.core, &then_talk->parts[3].ask.request);
}

START_TEST(test_done_may_start_and_stop_others)
{
    struct talk talk;
    talk_init(&talk, "then", 1, 4, 1);
    talk_spoil(&talk, 1);
    then_talk = &talk;
    talk.parts[1].then = again;
    // The fourth stands for the second, sent again.
    struct visit *repeat = &talk.parts[3];
    ask_release(&repeat->ask);
    memset(repeat, 0, sizeof(*repeat));
    ask_init(&repeat->ask, talk_site.chain, 1, talk.steps[1], &talk_numbers, ASK_PLAIN);
    uint8_t *data =
        base_arena_alloc(&repeat->ask.request.arena, repeat->ask.request.inputs[0].bytes);
    ck_assert_ptr_nonnull(data);
    talk_cut(&talk, 1, TALK_FEATURES, ask_input(&talk.whole.ask, "x")->data, data);
    repeat->ask.request.inputs[0].data = data;
    talk_mark(repeat, "then", false, true);
    repeat->site = &talk_site;
    repeat->ask.request.done = talk.whole.ask.request.done;
    gate_close();
    for (uint32_t p = 0; p < 3; p++) {
        visit_start(&talk_site, &talk.parts[p]);
    }
    gate_open();
    talk_expect(&talk, 0);
    talk_refused(&talk, 1, BASE_INVALID_ARGUMENT, "datatype");
    talk_refused(&talk, 2, BASE_FAILED_PRECONDITION, "a request before it");
    visit_wait(repeat);
    ck_assert_int_eq(repeat->ask.request.error.status, BASE_OK);
    uint8_t right[4 * TALK_HIDDEN * sizeof(float)];
    talk_cut(&talk, 1, TALK_HIDDEN, ask_output(&talk.whole.ask, "y")->data, right);
    ck_assert_mem_eq(ask_output(&repeat->ask, "y")->data, right,
                     ask_output(&repeat->ask, "y")->bytes);
    ask_release(&repeat->ask);
    talk_end(&talk);
    ck_assert_uint_eq(talk_look().count, 0);
}
END_TEST

START_TEST(test_every_allocation_may_fail)
{
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    uint64_t n = 1;
    for (; status != BASE_OK; n++) {
        ck_assert_uint_lt(n, 300);
        struct talk talk;
        talk_init(&talk, "memory", 1, 2, 1);
        for (uint32_t p = 0; p < 2; p++) {
            struct base_arena *arena = &talk.parts[p].ask.request.arena;
            const size_t used = arena->used_bytes;
            arena->chunk_bytes = 256;
            while (arena->used_bytes == used) {
                ck_assert_ptr_nonnull(base_arena_alloc(arena, 64));
            }
        }
        base_alloc_fail_at(n);
        for (uint32_t p = 0; p < 2; p++) {
            visit_start(&talk_site, &talk.parts[p]);
            visit_wait(&talk.parts[p]);
        }
        base_alloc_fail_at(0);
        const enum base_status first = talk.parts[0].ask.request.error.status;
        status = talk.parts[1].ask.request.error.status;
        ck_assert(first == BASE_OK || first == BASE_RESOURCE_EXHAUSTED);
        ck_assert(first == BASE_OK || status == BASE_NOT_FOUND);
        ck_assert(first != BASE_OK || status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
        ask_release(&talk.parts[0].ask);
        ask_release(&talk.parts[1].ask);
        if (first == BASE_OK && status != BASE_OK) { // it may be sent again
            talk_part(&talk, 1);
            talk_run(&talk, 1);
        }
        ck_assert_uint_eq(talk_look().count, 0);
        talk_end(&talk);
    }
    ck_assert_uint_gt(n, 20);
}
END_TEST

/* ---- Drain ---- */

START_TEST(test_drain_serves_those_that_wait)
{
    struct talk talk;
    talk_init(&talk, "drain", 1, 4, 1);
    gate_close();
    for (uint32_t p = 0; p < 3; p++) {
        visit_start(&talk_site, &talk.parts[p]);
    }
    site_refuse_new(&talk_site);
    visit_start(&talk_site, &talk.parts[3]);
    talk_refused(&talk, 3, BASE_UNAVAILABLE, "the server is stopping");
    gate_open();
    for (uint32_t p = 0; p < 3; p++) {
        talk_expect(&talk, p);
    }
    talk_end(&talk);
}
END_TEST

START_TEST(test_the_end_of_a_drain_stops_all)
{
    static struct talk talks[2];
    gate_close();
    for (uint32_t i = 0; i < 2; i++) {
        gate_open();
        talk_init(&talks[i], i == 0 ? "one" : "two", 1, 3, 1);
    }
    gate_close();
    for (uint32_t i = 0; i < 6; i++) {
        visit_start(&talk_site, &talks[i / 3].parts[i % 3]);
    }
    site_refuse_new(&talk_site);
    site_cancel_all(&talk_site);
    gate_open();
    for (uint32_t i = 0; i < 6; i++) {
        talk_refused(&talks[i / 3], i % 3, BASE_UNAVAILABLE, "the server is stopping");
    }
    talk_end(&talks[0]);
    talk_end(&talks[1]);
}
END_TEST

int main(void)
{
    const TTest *const cases[] = {
        test_a_request_that_fails_changes_nothing_but_for_those_behind,
        test_a_session_that_fails_to_begin_is_none,
        test_a_batch_that_fails,
        test_cancel_of_the_one_that_runs,
        test_cancel_and_deadline_of_those_that_wait,
        test_cancel_of_a_beginning_behind_an_end,
        test_done_may_start_and_stop_others,
        test_every_allocation_may_fail,
        test_drain_serves_those_that_wait,
        test_the_end_of_a_drain_stops_all,
    };
    Suite *suite = suite_create("session_failures");
    TCase *tcase = tcase_create("failures");
    tcase_add_checked_fixture(tcase, talk_setup, talk_teardown);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tcase_add_test(tcase, cases[i]);
    }
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
