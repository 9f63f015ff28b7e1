/* Sessions: sequences in several requests give the bits that they give as a whole, in whatever
 * company and order of coming; who may begin, go on and end them; their limits, and their table.
 * tests/server/talk.h. */
#include "base/clock.h"
#include "base/mem.h"
#include "tests/server/gate.h"
#include "tests/server/talk.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Good sessions ---- */

START_TEST(test_parts_have_the_bits_of_the_whole)
{
    for (uint32_t i = 0; i < 12; i++) {
        struct talk talk;
        talk_init(&talk, "a", 1 + i % 3, 1 + i % 6, 1);
        for (uint32_t p = 0; p < talk.n_parts; p++) {
            ck_assert_uint_eq(talk_look().count, p == 0 ? 0 : 1);
            talk_run(&talk, p);
        }
        talk_end(&talk);
    }
    const struct talk_look after = talk_look();
    ck_assert_uint_eq(after.count, 0);
    ck_assert_uint_eq(after.bytes, 0);
    ck_assert_uint_eq(after.begun, 12);
    ck_assert_uint_eq(after.expired, 0);
}
END_TEST

/* Nobody waits for an answer: turns are taken in the order of coming. */
START_TEST(test_parts_may_come_before_those_before_them_are_answered)
{
    enum { TALKS = 12 };
    static struct talk talks[TALKS];
    static char ids[TALKS][8];
    uint32_t next[TALKS] = {0};
    for (uint32_t i = 0; i < TALKS; i++) {
        snprintf(ids[i], sizeof(ids[i]), "%u", i);
        talk_init(&talks[i], ids[i], 1 + i % 2, 6, 1);
        talks[i].parts[i % 6].ask.request.timeout_ns = 60 * BASE_NS_PER_S;
    }
    for (uint32_t left = TALKS * 6; left > 0; left--) {
        uint32_t i = base_random_below(&talk_numbers, TALKS);
        while (next[i] == 6) {
            i = (i + 1) % TALKS;
        }
        visit_start(&talk_site, &talks[i].parts[next[i]++]);
    }
    for (uint32_t i = 0; i < TALKS; i++) {
        for (uint32_t p = 0; p < 6; p++) {
            talk_expect(&talks[i], p);
        }
        talk_end(&talks[i]);
    }
    ck_assert_uint_eq(talk_look().count, 0);
    ck_assert_uint_eq(talk_look().deadlines, 0);
}
END_TEST

START_TEST(test_a_session_may_begin_again_while_its_end_is_under_way)
{
    struct talk first;
    struct talk second;
    talk_init(&first, "again", 2, 3, 1);
    talk_init(&second, "again", 1, 2, 1);
    gate_close();
    for (uint32_t p = 0; p < 3; p++) {
        visit_start(&talk_site, &first.parts[p]);
    }
    for (uint32_t p = 0; p < 2; p++) {
        visit_start(&talk_site, &second.parts[p]);
    }
    ck_assert_uint_eq(site_counters(&talk_site).requests_waiting, 4);
    gate_open();
    for (uint32_t p = 0; p < 3; p++) {
        talk_expect(&first, p);
    }
    for (uint32_t p = 0; p < 2; p++) {
        talk_expect(&second, p);
    }
    talk_end(&first);
    talk_end(&second);
    ck_assert_uint_eq(talk_look().bytes, 0);
}
END_TEST

/* A client takes the states along, and goes on by another name, or at another server. */
START_TEST(test_states_are_answered_and_brought)
{
    static const char *const wanted[] = {"h", "y", "c"};
    struct talk talk;
    struct talk other;
    talk_init(&talk, "here", 2, 2, 1);
    visit_start(&talk_site, &talk.parts[0]);
    talk_expect(&talk, 0);
    talk_part(&talk, 0);
    talk_mark(&talk.parts[0], "there", true, true);
    talk.parts[0].ask.request.wanted = wanted;
    talk.parts[0].ask.request.n_wanted = 3;
    visit_start(&talk_site, &talk.parts[0]);
    visit_wait(&talk.parts[0]);
    ck_assert_uint_eq(talk.parts[0].ask.request.n_outputs, 3);
    ck_assert_str_eq(talk.parts[0].ask.request.outputs[0].name, "h");
    ck_assert_str_eq(talk.parts[0].ask.request.outputs[2].name, "c");

    struct srv_request *request = &talk.parts[1].ask.request;
    talk_mark(&talk.parts[1], "elsewhere", true, false);
    for (uint32_t s = 0; s < 2; s++) {
        request->inputs[1 + s] = *ask_output(&talk.parts[0].ask, s == 0 ? "h" : "c");
        request->inputs[1 + s].name = s == 0 ? "h0" : "c0";
    }
    request->n_inputs = 3;
    visit_start(&talk_site, &talk.parts[1]);
    talk_expect(&talk, 1);

    // Only the first request may.
    talk_init(&other, "elsewhere", 2, 1, 1);
    other.parts[0].ask.request.sequence.is_start = false;
    other.parts[0].ask.request.inputs[1] = *ask_output(&talk.parts[0].ask, "h");
    other.parts[0].ask.request.inputs[1].name = "h0";
    other.parts[0].ask.request.n_inputs = 2;
    visit_start(&talk_site, &other.parts[0]);
    talk_refused(&other, 0, BASE_INVALID_ARGUMENT, "input 'h0' is a state that the session has");
    ck_assert_uint_eq(talk_look().count, 2);
    ask_release(&talk.parts[0].ask);
    talk_end(&talk);
    talk_end(&other);
}
END_TEST

/* Whose states are no tensors of the file. */
START_TEST(test_states_of_recurrent_layers)
{
    enum { STEPS = 9 };
    const struct cell_model *models[] = {talk_site.tokens2, talk_site.lone};
    for (uint32_t m = 0; m < 2; m++) {
        const uint32_t n_rows = m == 0 ? 2 : 1;
        struct visit whole = {.site = NULL};
        struct visit parts[STEPS];
        ask_init(&whole.ask, models[m], n_rows, STEPS, &talk_numbers, ASK_PLAIN);
        visit_start(&talk_site, &whole);
        visit_wait(&whole);
        ck_assert_uint_eq(whole.ask.request.n_outputs, m == 0 ? 2 : 1);
        for (uint32_t t = 0; t < STEPS; t++) {
            memset(&parts[t], 0, sizeof(parts[t]));
            ask_init(&parts[t].ask, models[m], n_rows, 1, &talk_numbers, ASK_PLAIN);
            struct srv_tensor *ids = &parts[t].ask.request.inputs[0];
            const size_t bytes = ids->bytes / n_rows;
            uint8_t *data = base_arena_alloc(&parts[t].ask.request.arena, ids->bytes);
            ck_assert_ptr_nonnull(data);
            for (uint32_t b = 0; b < n_rows; b++) {
                memcpy(data + b * bytes, whole.ask.request.inputs[0].data + (b * STEPS + t) * bytes,
                       bytes);
            }
            ids->data = data;
            talk_mark(&parts[t], "x", t == 0, t + 1 == STEPS);
            visit_start(&talk_site, &parts[t]);
        }
        for (uint32_t t = 0; t < STEPS; t++) {
            visit_wait(&parts[t]);
            ck_assert_int_eq(parts[t].ask.request.error.status, BASE_OK);
            ck_assert_uint_eq(parts[t].ask.request.n_outputs, m == 0 ? 2 : 1);
        }
        const struct srv_tensor *last = &parts[STEPS - 1].ask.request.outputs[0];
        ck_assert_mem_eq(last->data, whole.ask.request.outputs[0].data, last->bytes);
        for (uint32_t t = 0; t < STEPS; t++) {
            ask_release(&parts[t].ask);
        }
        ask_release(&whole.ask);
    }
}
END_TEST

/* Rows whose part has no steps keep their states, the first request's zeros too, and are answered
 * with them. */
START_TEST(test_rows_without_a_step_keep_their_states)
{
    static const char *const wanted[] = {"h", "y"};
    const size_t state = TALK_HIDDEN * sizeof(float);
    static const int64_t none_of_second[] = {2, 0};
    static const int64_t none[] = {0, 0};
    const int64_t *lengths[] = {none, none_of_second, none, none_of_second};
    const uint8_t *data[4];
    struct talk talk;
    struct visit whole = {.site = NULL};
    talk_init(&talk, "still", 2, 4, 1);
    for (uint32_t p = 0; p < 4; p++) {
        struct srv_request *request = &talk.parts[p].ask.request;
        ask_release(&talk.parts[p].ask);
        memset(&talk.parts[p], 0, sizeof(talk.parts[p]));
        ask_init(&talk.parts[p].ask, talk_site.chain, 2, 2, &talk_numbers, ASK_PLAIN);
        data[p] = request->inputs[0].data;
        request->inputs[1] = (struct srv_tensor){.name = "lengths",
                                                 .datatype = "INT64",
                                                 .rank = 1,
                                                 .shape = {2},
                                                 .data = (const uint8_t *)lengths[p],
                                                 .bytes = sizeof(none)};
        request->n_inputs = 2;
        request->wanted = wanted;
        request->n_wanted = 2;
        talk_mark(&talk.parts[p], "still", p == 0, p == 3);
        visit_start(&talk_site, &talk.parts[p]);
        visit_wait(&talk.parts[p]);
        ck_assert_int_eq(request->error.status, BASE_OK);
    }
    const uint8_t *h[4];
    for (uint32_t p = 0; p < 4; p++) {
        h[p] = ask_output(&talk.parts[p].ask, "h")->data;
        ck_assert_mem_eq(h[p] + state, h[0], state); // the second row never had a step
    }
    ck_assert_mem_ne(h[1], h[0], state);
    ck_assert_mem_eq(h[2], h[1], state);
    ck_assert_mem_ne(h[3], h[2], state);
    // The first row had the steps of parts 1 and 3.
    ask_init(&whole.ask, talk_site.chain, 1, 4, &talk_numbers, ASK_PLAIN);
    uint8_t x[4 * TALK_FEATURES * sizeof(float)];
    memcpy(x, data[1], sizeof(x) / 2);
    memcpy(x + sizeof(x) / 2, data[3], sizeof(x) / 2);
    whole.ask.request.inputs[0].data = x;
    visit_start(&talk_site, &whole);
    visit_wait(&whole);
    const size_t half = 2 * TALK_HIDDEN * sizeof(float);
    ck_assert_mem_eq(ask_output(&talk.parts[3].ask, "y")->data,
                     ask_output(&whole.ask, "y")->data + half, half);
    for (uint32_t p = 0; p < 4; p++) {
        ask_release(&talk.parts[p].ask);
    }
    ask_release(&whole.ask);
    talk_end(&talk);
}
END_TEST

/* ---- Refusals ---- */

START_TEST(test_who_may_begin_and_go_on)
{
    struct talk talk;
    struct visit visit = {.site = NULL};
    talk_init(&talk, "who", 1, 3, 1);
    talk_mark(&talk.parts[0], "who", false, false);
    visit_start(&talk_site, &talk.parts[0]);
    talk_refused(&talk, 0, BASE_NOT_FOUND, "no session 'who': it has not begun");
    talk_part(&talk, 0);
    talk_run(&talk, 0);
    talk_part(&talk, 0);
    visit_start(&talk_site, &talk.parts[0]);
    talk_refused(&talk, 0, BASE_ALREADY_EXISTS, "session 'who' has begun already");
    talk.parts[1].ask.request.sequence.has_step = true;
    talk.parts[1].ask.request.sequence.step = 2;
    visit_start(&talk_site, &talk.parts[1]);
    talk_refused(&talk, 1, BASE_FAILED_PRECONDITION, "request 2 of session 'who', where 1 is next");
    talk_part(&talk, 1);
    talk.parts[1].ask.request.sequence.has_step = true;
    talk.parts[1].ask.request.sequence.step = 1;
    talk_run(&talk, 1);
    talk_run(&talk, 2);
    talk_part(&talk, 2);
    visit_start(&talk_site, &talk.parts[2]);
    talk_refused(&talk, 2, BASE_NOT_FOUND, "no session 'who'");
    talk_end(&talk);

    ask_init(&visit.ask, talk_site.tokens, 1, 2, &talk_numbers, ASK_PLAIN);
    visit.ask.request.model_version = "1";
    talk_mark(&visit, "who", true, false);
    visit_start(&talk_site, &visit);
    visit_expect(&visit, BASE_INVALID_ARGUMENT,
                 "parameter 'sequence_id': model 'tokens' keeps no states between requests "
                 "(states in its config.yaml)");
    ck_assert_uint_eq(talk_look().count, 0);
}
END_TEST

/* Another number of rows than the session has. */
START_TEST(test_rows_stay_the_same)
{
    struct talk talk;
    struct talk wide;
    talk_init(&talk, "rows", 1, 2, 1);
    talk_init(&wide, "rows", 3, 1, 1);
    talk_run(&talk, 0);
    talk_mark(&wide.parts[0], "rows", false, false);
    visit_start(&talk_site, &wide.parts[0]);
    talk_refused(&wide, 0, BASE_INVALID_ARGUMENT, "1 on its batch axis, but input 'x' has 3");
    talk_run(&talk, 1);
    talk_end(&talk);
    talk_end(&wide);
}
END_TEST

START_TEST(test_an_output_that_is_none)
{
    static const char *const wanted[] = {"y", "z"};
    struct talk talk;
    talk_init(&talk, "out", 1, 1, 1);
    talk.parts[0].ask.request.wanted = wanted;
    talk.parts[0].ask.request.n_wanted = 2;
    visit_start(&talk_site, &talk.parts[0]);
    talk_refused(&talk, 0, BASE_INVALID_ARGUMENT, "output 'z' is not one of the model's");
    ck_assert_uint_eq(talk_look().count, 0);
    talk_end(&talk);
}
END_TEST

/* ---- Limits ---- */

START_TEST(test_a_full_queue_refuses_who_would_wait)
{
    struct site_options options;
    site_options_init(&options);
    options.core.queue_max = 1;
    talk_open(&options);
    struct talk talk;
    talk_init(&talk, "queue", 1, 3, 1);
    gate_close();
    for (uint32_t p = 0; p < 3; p++) {
        visit_start(&talk_site, &talk.parts[p]);
    }
    talk_refused(&talk, 2, BASE_RESOURCE_EXHAUSTED, "the queue is full: 1 requests of model");
    gate_open();
    talk_expect(&talk, 0);
    talk_expect(&talk, 1);
    talk_part(&talk, 2);
    talk_run(&talk, 2);
    talk_end(&talk);
    site_close(&talk_site);
}
END_TEST

START_TEST(test_memory_of_all_sessions_is_limited)
{
    struct site_options options;
    site_options_init(&options);
    // Of one row: a session with its id, and h and c, 32 bytes at multiples of 64.
    options.core.session_bytes_max = 2 * (sizeof(struct srv_session) + 2 + 128);
    talk_open(&options);
    struct talk talks[3];
    static const char *const ids[] = {"1", "2", "3"};
    for (uint32_t i = 0; i < 3; i++) {
        talk_init(&talks[i], ids[i], 1, 2, 1);
        visit_start(&talk_site, &talks[i].parts[0]);
        if (i == 2) {
            talk_refused(&talks[i], 0, BASE_RESOURCE_EXHAUSTED, "(--session-memory-max)");
        } else {
            talk_expect(&talks[i], 0);
        }
    }
    ck_assert_uint_eq(talk_look().count, 2);
    ck_assert_uint_eq(talk_look().bytes, options.core.session_bytes_max);
    talk_run(&talks[0], 1);
    talk_part(&talks[2], 0);
    talk_run(&talks[2], 0);
    talk_run(&talks[2], 1);
    talk_run(&talks[1], 1);
    ck_assert_uint_eq(talk_look().bytes, 0);
    for (uint32_t i = 0; i < 3; i++) {
        talk_end(&talks[i]);
    }
    // Of four rows: the session fits, its states do not.
    struct talk wide;
    talk_init(&wide, "4", 32, 1, 1);
    visit_start(&talk_site, &wide.parts[0]);
    talk_refused(&wide, 0, BASE_RESOURCE_EXHAUSTED, "the session needs 2048 bytes");
    ck_assert_uint_eq(talk_look().bytes, 0);
    talk_end(&wide);
    site_close(&talk_site);
}
END_TEST

static bool are_none(void *argument)
{
    (void)argument;
    return talk_look().count == 0;
}

START_TEST(test_silence_ends_a_session)
{
    struct site_options options;
    site_options_init(&options);
    options.core.session_idle_ns = 30 * BASE_NS_PER_MS;
    talk_open(&options);
    struct talk talk;
    struct talk other;
    talk_init(&talk, "silent", 1, 2, 1);
    talk_init(&other, "busy", 1, 2, 1);
    gate_close();
    visit_start(&talk_site, &other.parts[0]);
    gate_open();
    talk_expect(&other, 0);
    gate_close(); // a request under way is no silence, however long it takes
    visit_start(&talk_site, &other.parts[1]);
    (void)talk_look();
    usleep(60000);
    ck_assert_uint_eq(talk_look().count, 1);
    gate_open();
    talk_expect(&other, 1);
    talk_run(&talk, 0);
    ck_assert(site_until(are_none, NULL));
    ck_assert_uint_ge(talk_look().expired, 1);
    visit_start(&talk_site, &talk.parts[1]);
    talk_refused(&talk, 1, BASE_NOT_FOUND, "was silent for too long (--session-idle-timeout)");
    ck_assert_uint_eq(talk_look().bytes, 0);
    talk_end(&talk);
    talk_end(&other);
    site_close(&talk_site);
}
END_TEST

/* ---- The table ---- */

START_TEST(test_many_sessions)
{
    enum { MANY = 300 };
    static struct srv_session *made[MANY];
    struct srv_loop loop;
    struct srv_sessions sessions;
    struct base_error error;
    char id[16];
    int owner;
    int other;
    ck_assert_int_eq(srv_loop_init(&loop), BASE_OK);
    srv_sessions_init(&sessions, &loop, BASE_NS_PER_S, (size_t)1 << 20);
    ck_assert_ptr_null(srv_sessions_find(&sessions, &owner, "0"));
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(id, sizeof(id), "%u", i);
        ck_assert_int_eq(srv_sessions_add(&sessions, &owner, id, &made[i], &error), BASE_OK);
        ck_assert_ptr_null(srv_sessions_find(&sessions, &other, id));
    }
    for (uint32_t i = 0; i < MANY; i += 3) {
        srv_sessions_remove(&sessions, made[i]);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(id, sizeof(id), "%u", i);
        ck_assert_ptr_eq(srv_sessions_find(&sessions, &owner, id), i % 3 == 0 ? NULL : made[i]);
    }
    ck_assert_uint_eq(sessions.count, MANY - MANY / 3);
    srv_sessions_close(&sessions);
    srv_loop_stop(&loop);
    srv_loop_run(&loop);
    srv_sessions_release(&sessions);
    srv_loop_release(&loop);
    ck_assert_uint_eq(sessions.bytes, 0);
}
END_TEST

int main(void)
{
    const TTest *const cases[] = {
        test_parts_have_the_bits_of_the_whole,
        test_parts_may_come_before_those_before_them_are_answered,
        test_a_session_may_begin_again_while_its_end_is_under_way,
        test_states_are_answered_and_brought,
        test_states_of_recurrent_layers,
        test_rows_without_a_step_keep_their_states,
        test_who_may_begin_and_go_on,
        test_rows_stay_the_same,
        test_an_output_that_is_none,
    };
    Suite *suite = suite_create("sessions");
    TCase *tcase = tcase_create("sessions");
    tcase_add_checked_fixture(tcase, talk_setup, talk_teardown);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tcase_add_test(tcase, cases[i]);
    }
    suite_add_tcase(suite, tcase);
    const TTest *const alone[] = {
        test_a_full_queue_refuses_who_would_wait,
        test_memory_of_all_sessions_is_limited,
        test_silence_ends_a_session,
        test_many_sessions,
    };
    TCase *own = tcase_create("own");
    for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
        tcase_add_test(own, alone[i]);
    }
    suite_add_tcase(suite, own);
    return util_run(suite);
}
