/* Requests of several models that wait for rows: in turn by model, past others whose rows they do
 * not need, and not past one that has come for more of the same. Models "chain" and "tokens" have
 * states of one layout, "lone" another. The gate's device holds what runs. */
#include "server/core_state.h"
#include "tests/server/gate.h"
#include "tests/server/site.h"
#include "tests/util.h"

#include <string.h>

#define ROWS      4u /* of each layout */
#define QUEUE_MAX 3u

static struct site site;
static struct base_random numbers;

static void setup(void)
{
    struct site_options options;
    site_options_init(&options);
    options.gated = true;
    options.engine.rows = ROWS;
    options.engine.run_steps_max = 1;
    options.core.queue_max = QUEUE_MAX;
    site_open(&site, &options);
    numbers = util_random(1);
}

static void teardown(void)
{
    site_close(&site);
}

static void start(struct visit *visit, const struct cell_model *cells, uint32_t n_rows,
                  uint32_t steps)
{
    memset(visit, 0, sizeof(*visit));
    ask_init(&visit->ask, cells, n_rows, steps, &numbers, ASK_PLAIN);
    visit_start(&site, visit);
}

static void expect_counts(uint32_t running, uint32_t waiting)
{
    const struct srv_counters counters = site_counters(&site);
    ck_assert_uint_eq(counters.requests_running, running);
    ck_assert_uint_eq(counters.requests_waiting, waiting);
}

/* Whether the first was admitted before the second; both are answered. */
static bool is_before(const struct visit *first, const struct visit *second)
{
    return first->ask.request.times.admitted_ns < second->ask.request.times.admitted_ns;
}

START_TEST(test_models_take_turns)
{
    struct visit inside[ROWS];
    struct visit chains[QUEUE_MAX];
    struct visit tokens[2];
    gate_close();
    for (uint32_t i = 0; i < ROWS; i++) {
        start(&inside[i], site.chain, 1, 3 + 5 * i); // they end one after the other
    }
    for (uint32_t i = 0; i < QUEUE_MAX; i++) {
        start(&chains[i], site.chain, 1, 30);
    }
    for (uint32_t i = 0; i < 2; i++) {
        start(&tokens[i], site.tokens2, 1, 30);
    }
    expect_counts(ROWS, QUEUE_MAX + 2);
    gate_open();
    for (uint32_t i = 0; i < QUEUE_MAX; i++) {
        visit_wait(&chains[i]);
    }
    visit_wait(&tokens[0]);
    visit_wait(&tokens[1]);
    ck_assert(is_before(&chains[0], &tokens[0]));
    ck_assert(is_before(&tokens[0], &chains[1]));
    ck_assert(is_before(&chains[1], &tokens[1]));
    ck_assert(is_before(&tokens[1], &chains[2]));
    for (uint32_t i = 0; i < ROWS; i++) {
        visit_expect_ok(&inside[i]);
    }
    for (uint32_t i = 0; i < QUEUE_MAX; i++) {
        visit_expect_ok(&chains[i]);
    }
    visit_expect_ok(&tokens[0]);
    visit_expect_ok(&tokens[1]);
}
END_TEST

START_TEST(test_who_needs_other_rows_passes)
{
    struct visit large;
    struct visit behind;
    struct visit lone;
    gate_close();
    start(&large, site.chain, ROWS, 20);
    start(&behind, site.chain, 1, 20);
    start(&lone, site.lone, 1, 20);
    expect_counts(2, 1);
    gate_open();
    visit_expect_ok(&large);
    visit_expect_ok(&behind);
    visit_expect_ok(&lone);
}
END_TEST

START_TEST(test_nobody_passes_a_large_one_for_its_rows)
{
    struct visit inside[2];
    struct visit large;
    struct visit tokens;
    gate_close();
    start(&inside[0], site.chain, 1, 10);
    start(&inside[1], site.chain, 1, 20);
    start(&large, site.chain, ROWS, 5);
    start(&tokens, site.tokens2, 1, 5); // there is a row for it, to which the large one has a claim
    expect_counts(2, 2);
    gate_open();
    visit_wait(&large);
    visit_wait(&tokens);
    ck_assert(is_before(&large, &tokens));
    visit_expect_ok(&inside[0]);
    visit_expect_ok(&inside[1]);
    visit_expect_ok(&large);
    visit_expect_ok(&tokens);
}
END_TEST

START_TEST(test_a_claim_goes_with_its_request)
{
    struct visit inside;
    struct visit large;
    struct visit tokens;
    gate_close();
    start(&inside, site.chain, 1, 10);
    start(&large, site.chain, ROWS, 5);
    start(&tokens, site.tokens2, 1, 5);
    expect_counts(1, 2);
    visit_cancel(&large, BASE_CANCELLED);
    visit_expect(&large, BASE_CANCELLED, "cancelled by the client while waiting");
    expect_counts(2, 0);
    gate_open();
    visit_expect_ok(&inside);
    visit_expect_ok(&tokens);
}
END_TEST

START_TEST(test_a_model_fills_its_own_queue_alone)
{
    struct visit large;
    struct visit chains[QUEUE_MAX];
    struct visit tokens[QUEUE_MAX];
    struct visit visit;
    gate_close();
    start(&large, site.chain, ROWS, 10);
    for (uint32_t i = 0; i < QUEUE_MAX; i++) {
        start(&chains[i], site.chain, 1, 10);
    }
    start(&visit, site.chain, 1, 1);
    visit_expect(&visit, BASE_RESOURCE_EXHAUSTED,
                 "the queue is full: 3 requests of model 'chain' wait (--queue-max)");
    for (uint32_t i = 0; i < QUEUE_MAX; i++) {
        start(&tokens[i], site.tokens2, 1, 10);
    }
    start(&visit, site.tokens2, 1, 1);
    visit_expect(&visit, BASE_RESOURCE_EXHAUSTED,
                 "the queue is full: 3 requests of model 'tokens' wait (--queue-max)");
    expect_counts(1, 2 * QUEUE_MAX);
    ck_assert_uint_eq(site_counters(&site).rejected_queue_full, 2);
    gate_open();
    visit_expect_ok(&large);
    for (uint32_t i = 0; i < QUEUE_MAX; i++) {
        visit_expect_ok(&chains[i]);
        visit_expect_ok(&tokens[i]);
    }
    start(&visit, site.chain, 1, 1);
    visit_expect_ok(&visit);
}
END_TEST

/* Whatever waits and is stopped, in any order, all rows come back. */
START_TEST(test_random_requests_of_all_models)
{
    enum { MANY = 300 };
    static struct visit visits[MANY];
    const struct cell_model *models[] = {site.chain, site.tokens2, site.lone, site.tokens};
    for (uint32_t i = 0; i < MANY; i++) {
        const struct cell_model *cells = models[base_random_below(&numbers, 4)];
        const uint32_t n_rows = cells == site.lone ? 1 : 1 + base_random_below(&numbers, ROWS);
        memset(&visits[i], 0, sizeof(visits[i]));
        ask_init(&visits[i].ask, cells, n_rows, 1 + base_random_below(&numbers, 12), &numbers,
                 ASK_PLAIN);
        visits[i].ask.request.model_version = cells == site.tokens ? "1" : "";
        visit_start(&site, &visits[i]);
        if (base_random_below(&numbers, 8) == 0) {
            visit_cancel(&visits[i], BASE_CANCELLED);
        }
        if (i >= 8 && base_random_below(&numbers, 3) == 0) {
            visit_wait(&visits[i - 8]);
        }
    }
    for (uint32_t i = 0; i < MANY; i++) {
        visit_wait(&visits[i]);
        const enum base_status status = visits[i].ask.request.error.status;
        if (status == BASE_OK) {
            visit_expect_ok(&visits[i]);
        } else {
            ck_assert(status == BASE_RESOURCE_EXHAUSTED ||
                      (status == BASE_CANCELLED && visits[i].cancel_posted));
            ask_release(&visits[i].ask);
        }
    }
    expect_counts(0, 0);
    ck_assert_uint_eq(site_reserved(&site), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_wait");
    TCase *tcase = tcase_create("wait");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_models_take_turns);
    tcase_add_test(tcase, test_who_needs_other_rows_passes);
    tcase_add_test(tcase, test_nobody_passes_a_large_one_for_its_rows);
    tcase_add_test(tcase, test_a_claim_goes_with_its_request);
    tcase_add_test(tcase, test_a_model_fills_its_own_queue_alone);
    tcase_add_test(tcase, test_random_requests_of_all_models);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
