/* Sessions in random company: requests that begin, go on, end, do so when they may not, are wrong,
 * are cancelled at any time or late, of several sessions at once. Whatever has become of them, each
 * is answered once, and every answer is what those that were answered before it in its session make
 * it: with the bits of their sequence as a whole. */
#include "base/clock.h"
#include "tests/server/talk.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

enum { SESSIONS = 5, REQUESTS = 400, STEPS = 3, PARTS_MAX = 100 };

struct act {
    struct visit visit;
    uint32_t session;
    bool is_spoilt;
};

static char ids[SESSIONS][8];
static uint32_t n_rows[SESSIONS];
static struct act acts[REQUESTS];

/* A request of some session, which believes that `open` have begun. */
static void act_init(struct act *act, bool open[SESSIONS])
{
    const uint32_t s = base_random_below(&talk_numbers, SESSIONS);
    memset(act, 0, sizeof(*act));
    act->session = s;
    ask_init(&act->visit.ask, talk_site.chain, n_rows[s], STEPS, &talk_numbers, ASK_PLAIN);
    const bool is_mistaken = base_random_below(&talk_numbers, 12) == 0;
    const bool is_start = open[s] == is_mistaken;
    const bool is_end = base_random_below(&talk_numbers, 6) == 0;
    talk_mark(&act->visit, ids[s], is_start, is_end);
    open[s] = !is_end;
    act->is_spoilt = base_random_below(&talk_numbers, 15) == 0;
    if (act->is_spoilt) {
        act->visit.ask.request.inputs[0].datatype = "INT64";
    }
    if (base_random_below(&talk_numbers, 25) == 0) {
        act->visit.ask.request.timeout_ns = 1 + base_random_below(&talk_numbers, 2000000);
    }
}

/* What the sequence of these requests answers at its last, as a whole. */
static void check_last(struct act *const *parts, uint32_t n)
{
    const uint32_t rows = n_rows[parts[0]->session];
    const size_t in_bytes = STEPS * TALK_FEATURES * sizeof(float);
    const size_t out_bytes = STEPS * TALK_HIDDEN * sizeof(float);
    struct visit whole = {.site = NULL};
    ask_init(&whole.ask, talk_site.chain, rows, n * STEPS, &talk_numbers, ASK_PLAIN);
    struct srv_tensor *x = ask_input(&whole.ask, "x");
    uint8_t *data = base_arena_alloc(&whole.ask.request.arena, x->bytes);
    ck_assert_ptr_nonnull(data);
    for (uint32_t p = 0; p < n; p++) {
        for (uint32_t b = 0; b < rows; b++) {
            memcpy(data + (b * n + p) * in_bytes,
                   ask_input(&parts[p]->visit.ask, "x")->data + b * in_bytes, in_bytes);
        }
    }
    x->data = data;
    visit_start(&talk_site, &whole);
    visit_wait(&whole);
    ck_assert_int_eq(whole.ask.request.error.status, BASE_OK);
    const uint8_t *right = ask_output(&whole.ask, "y")->data;
    const uint8_t *got = ask_output(&parts[n - 1]->visit.ask, "y")->data;
    for (uint32_t b = 0; b < rows; b++) {
        ck_assert_mem_eq(got + b * out_bytes, right + (b * n + n - 1) * out_bytes, out_bytes);
    }
    ask_release(&whole.ask);
}

static bool is_expected(const struct act *act)
{
    const struct srv_request *request = &act->visit.ask.request;
    const bool allowed[BASE_STATUS_COUNT] = {
        [BASE_OK] = !act->is_spoilt,
        [BASE_INVALID_ARGUMENT] = act->is_spoilt,
        [BASE_CANCELLED] = act->visit.cancel_posted,
        [BASE_DEADLINE_EXCEEDED] = request->timeout_ns > 0,
        [BASE_ALREADY_EXISTS] = request->sequence.is_start,
        [BASE_NOT_FOUND] = !request->sequence.is_start,
        [BASE_FAILED_PRECONDITION] = true, // behind one that failed
    };
    return allowed[request->error.status];
}

/* Follows one session through what became of its requests; whether it is open at the end. */
static bool follow(uint32_t session, uint32_t *answered)
{
    struct act *parts[PARTS_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct act *act = &acts[i];
        const struct srv_sequence *sequence = &act->visit.ask.request.sequence;
        if (act->session != session) {
            continue;
        }
        ck_assert_msg(is_expected(act), "request %u: %s", i, act->visit.ask.request.error.message);
        if (act->visit.ask.request.error.status != BASE_OK) {
            continue;
        }
        ck_assert_msg(sequence->is_start == (n == 0), "request %u", i);
        ck_assert_uint_lt(n, PARTS_MAX);
        parts[n++] = act;
        check_last(parts, n);
        n = sequence->is_end ? 0 : n;
        *answered += 1;
    }
    return n > 0;
}

static void run(uint32_t threads)
{
    struct site_options options;
    bool open[SESSIONS] = {false};
    uint32_t answered = 0;
    uint32_t n_open = 0;
    site_options_init(&options);
    options.engine.team_threads = threads;
    options.core.sequence_length_max = STEPS * PARTS_MAX;
    options.core.queue_max = REQUESTS;
    talk_open(&options);
    for (uint32_t s = 0; s < SESSIONS; s++) {
        snprintf(ids[s], sizeof(ids[s]), "s%u", s);
        n_rows[s] = 1 + s % 3;
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        act_init(&acts[i], open);
        visit_start(&talk_site, &acts[i].visit);
        if (base_random_below(&talk_numbers, 10) == 0) {
            const uint32_t back = base_random_below(&talk_numbers, i < 6 ? i + 1 : 6);
            struct visit *victim = &acts[i - back].visit;
            if (!victim->cancel_posted) {
                visit_cancel(victim, BASE_CANCELLED);
            }
        }
        if (base_random_below(&talk_numbers, 4) == 0) { // others may overtake
            visit_wait(&acts[base_random_below(&talk_numbers, i + 1)].visit);
        }
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        visit_wait(&acts[i].visit);
    }
    for (uint32_t s = 0; s < SESSIONS; s++) {
        n_open += follow(s, &answered) ? 1 : 0;
    }
    ck_assert_uint_eq(talk_look().count, n_open);
    ck_assert_uint_eq(talk_look().deadlines, 0);
    ck_assert_uint_gt(answered, REQUESTS / 4);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        ask_release(&acts[i].visit.ask);
    }
    site_close(&talk_site);
}

START_TEST(test_random_requests_with_one_thread)
{
    run(1);
}
END_TEST

START_TEST(test_random_requests_with_two_threads)
{
    run(2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("session_random");
    TCase *tcase = tcase_create("random");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_random_requests_with_one_thread);
    tcase_add_test(tcase, test_random_requests_with_two_threads);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
