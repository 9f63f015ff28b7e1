/* Many clients at once: four threads of a fake front end post good, bad, hasty and regretted
 * requests to the loop's inbox. Each is answered exactly once, with the bits it would get alone or
 * with an error that fits, the counts agree, and nothing is left. */
#include "base/clock.h"
#include "base/log.h"
#include "tests/server/models.h"
#include "tests/server/site.h"
#include "tests/util.h"

#include <string.h>

enum {
    THREADS = 4,
    WINDOW = 6,   /* requests of a thread that are out at the same time */
    VISITS = 300, /* of a thread */
    ROWS = 12,
    WAITING = 16
};

enum intent { PLAIN, REGRETTED, HASTY, BAD, LOST, TIMED };

struct client {
    struct visit visit; /* first */
    enum intent intent;
};

/* check's assertions are for one thread only: a front end just sends and waits, what came back is
 * looked at after the join. */
struct front {
    struct site *site;
    struct base_random random;
    const struct ask *alone; /* answered when nobody else was there */
    bool stop_at_drain;
    struct client clients[VISITS];
    uint32_t sent, ended;
    pthread_t thread;
};

/* What all of them saw. */
struct seen {
    uint32_t sent, statuses[BASE_STATUS_COUNT], rows_answered, repeated;
};

static struct site site;
static struct site_options options;
static struct front fronts[THREADS];
static struct visit alone;
static struct base_random numbers;

/* ---- Requests ---- */

static enum intent random_intent(struct base_random *random)
{
    uint32_t draw = base_random_below(random, 20);
    return draw < 11   ? PLAIN
           : draw < 14 ? REGRETTED
           : draw < 16 ? HASTY
           : draw < 17 ? BAD
           : draw < 18 ? LOST
                       : TIMED;
}

static const struct cell_model *random_model(struct front *front)
{
    const struct cell_model *models[] = {front->site->chain, front->site->tokens2,
                                         front->site->lone};
    return models[base_random_below(&front->random, 3)];
}

/* The same request as `alone`, for the comparison of bits. */
static void repeat_alone(struct client *client, struct front *front)
{
    const struct ask *ask = front->alone;
    ask_init(&client->visit.ask, ask->cells, ask->n_rows, ask->steps[0], &front->random,
             ASK_OPTIONAL);
    for (uint32_t i = 0; i < ask->request.n_inputs; i++) {
        client->visit.ask.request.inputs[i].data = ask->request.inputs[i].data;
    }
}

static void client_start(struct front *front, struct client *client)
{
    struct srv_request *request = &client->visit.ask.request;
    memset(&client->visit, 0, sizeof(client->visit));
    client->intent = random_intent(&front->random);
    if (client->intent == PLAIN && front->sent % 3 == 0) {
        repeat_alone(client, front);
    } else {
        const struct cell_model *model = random_model(front);
        uint32_t n_rows = model == front->site->lone ? 1 : 1 + base_random_below(&front->random, 4);
        ask_init(&client->visit.ask, model, n_rows, 1 + base_random_below(&front->random, 40),
                 &front->random, base_random_below(&front->random, 2) ? ASK_OPTIONAL : ASK_PLAIN);
    }
    switch (client->intent) {
    case BAD:
        request->inputs[0].bytes++;
        break;
    case LOST:
        request->model_name = "nowhere";
        break;
    case HASTY:
        request->deadline_ns = base_now_ns() + base_random_below(&front->random, 3000000);
        break;
    case TIMED:
        request->timeout_ns = 60 * BASE_NS_PER_S;
        break;
    case PLAIN:
    case REGRETTED:
        break;
    }
    front->sent++;
    visit_start(front->site, &client->visit);
    if (client->intent == REGRETTED) {
        visit_cancel(&client->visit, BASE_CANCELLED);
    }
}

static bool fits(enum intent intent, enum base_status status)
{
    bool served = status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED;
    if (status == BASE_UNAVAILABLE) {
        return true; // counted, and only the drain may give it
    }
    switch (intent) {
    case PLAIN:
    case TIMED:
        return served;
    case REGRETTED:
        return served || status == BASE_CANCELLED;
    case HASTY:
        return served || status == BASE_DEADLINE_EXCEEDED;
    case BAD:
        return status == BASE_INVALID_ARGUMENT;
    case LOST:
        return status == BASE_NOT_FOUND;
    }
    return false;
}

/* Compares an answer with the one that was computed alone. */
static bool has_the_bits(const struct srv_request *request, const struct srv_request *want)
{
    bool same = request->n_outputs == want->n_outputs;
    for (uint32_t o = 0; same && o < want->n_outputs; o++) {
        same = request->outputs[o].bytes == want->outputs[o].bytes &&
               memcmp(request->outputs[o].data, want->outputs[o].data, want->outputs[o].bytes) == 0;
    }
    return same;
}

static void *front_main(void *argument)
{
    struct front *front = argument;
    bool stop = false;
    while (front->ended < front->sent || (!stop && front->sent < VISITS)) {
        if (!stop && front->sent < VISITS && front->sent < front->ended + WINDOW) {
            client_start(front, &front->clients[front->sent]);
            continue;
        }
        struct visit *visit = &front->clients[front->ended].visit;
        if (!visit_try_wait(visit)) {
            return NULL; // ended < sent tells
        }
        front->ended++;
        stop |= front->stop_at_drain && visit->ask.request.error.status == BASE_UNAVAILABLE;
    }
    return NULL;
}

/* ---- The site and its clients ---- */

static void open_site(uint32_t teams, uint32_t threads)
{
    site_options_init(&options);
    options.engine.backend = cell_backend_find("cpu");
    options.engine.teams = teams;
    options.engine.team_threads = threads;
    options.engine.rows = ROWS;
    options.core.queue_max = WAITING;
    site_open(&site, &options);
    numbers = util_random(20);
    memset(&alone, 0, sizeof(alone));
    ask_init(&alone.ask, site.chain, 3, 21, &numbers, ASK_OPTIONAL);
    visit_start(&site, &alone);
    visit_wait(&alone);
    ck_assert_double_le(ask_error(&alone.ask), 1e-5);
}

static void start_fronts(bool stop_at_drain)
{
    for (uint32_t i = 0; i < THREADS; i++) {
        memset(&fronts[i], 0, sizeof(fronts[i]));
        fronts[i].site = &site;
        fronts[i].alone = &alone.ask;
        fronts[i].stop_at_drain = stop_at_drain;
        fronts[i].random = util_random(30 + i);
        ck_assert_int_eq(pthread_create(&fronts[i].thread, NULL, front_main, &fronts[i]), 0);
    }
}

static void look_at(const struct front *front, struct client *client, struct seen *seen)
{
    const struct srv_request *request = &client->visit.ask.request;
    enum base_status status = request->error.status;
    visit_wait(&client->visit);
    ck_assert_msg(fits(client->intent, status), "intent %d: %s", (int)client->intent,
                  request->error.message);
    seen->statuses[status]++;
    if (status == BASE_OK) {
        seen->rows_answered += client->visit.ask.n_rows;
        ck_assert_double_le(ask_error(&client->visit.ask), 1e-5);
        if (request->inputs[0].data == front->alone->request.inputs[0].data) {
            seen->repeated++;
            ck_assert(has_the_bits(request, &front->alone->request));
        }
    }
    ask_release(&client->visit.ask);
}

static struct seen join_fronts(void)
{
    struct seen seen = {0};
    for (uint32_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(fronts[i].thread, NULL), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        ck_assert_uint_eq(fronts[i].sent, fronts[i].ended);
        seen.sent += fronts[i].sent;
        for (uint32_t v = 0; v < fronts[i].sent; v++) {
            look_at(&fronts[i], &fronts[i].clients[v], &seen);
        }
    }
    return seen;
}

static uint64_t models_sum(size_t offset)
{
    static const char *const names[] = {"chain", "tokens", "lone"};
    uint64_t sum = 0;
    for (int i = 0; i < 3; i++) {
        struct srv_model_stats stats = site_stats(&site, names[i], "");
        uint64_t count = 0;
        memcpy(&count, (const char *)&stats + offset, sizeof(count));
        sum += count;
    }
    return sum;
}

/* The server's counts against what the clients saw; `alone` counts too. */
static void check_counts(const struct seen *all)
{
    struct srv_counters counters = site_counters(&site);
    for (uint32_t s = 0; s < BASE_STATUS_COUNT; s++) {
        ck_assert_uint_eq(counters.requests_total[SRV_PROTOCOL_TEST][s],
                          all->statuses[s] + (s == BASE_OK ? 1 : 0));
    }
    uint64_t good = all->statuses[BASE_OK] + 1;
    ck_assert_uint_eq(models_sum(offsetof(struct srv_model_stats, success.count)), good);
    ck_assert_uint_eq(models_sum(offsetof(struct srv_model_stats, queue.count)), good);
    ck_assert_uint_eq(models_sum(offsetof(struct srv_model_stats, compute_infer.count)), good);
    ck_assert_uint_eq(models_sum(offsetof(struct srv_model_stats, execution_count)), good);
    ck_assert_uint_eq(models_sum(offsetof(struct srv_model_stats, inference_count)),
                      all->rows_answered + alone.ask.n_rows);
    ck_assert_uint_eq(counters.rejected_queue_full, all->statuses[BASE_RESOURCE_EXHAUSTED]);
    ck_assert_uint_eq(counters.rejected_deadline, all->statuses[BASE_DEADLINE_EXCEEDED]);
    ck_assert_uint_eq(counters.cancelled_waiting + counters.cancelled_running,
                      all->statuses[BASE_CANCELLED]);
    // Nothing took longer than the test: no time is negative and wrapped.
    uint64_t hour_ns = 3600 * BASE_NS_PER_S;
    ck_assert_uint_lt(models_sum(offsetof(struct srv_model_stats, queue.ns)), hour_ns);
    ck_assert_uint_lt(models_sum(offsetof(struct srv_model_stats, compute_infer.ns)), hour_ns);
    ck_assert_uint_lt(models_sum(offsetof(struct srv_model_stats, compute_output.ns)), hour_ns);
}

/* ---- Cases ---- */

START_TEST(test_four_threads_get_every_answer_once)
{
    const uint32_t shapes[][2] = {{1, 1}, {1, 2}, {2, 1}};
    open_site(shapes[_i][0], shapes[_i][1]);
    start_fronts(false);
    struct seen all = join_fronts();
    ck_assert_uint_eq(all.sent, THREADS * VISITS);
    ck_assert_uint_eq(all.statuses[BASE_UNAVAILABLE], 0);
    ck_assert_uint_gt(all.repeated, 0);
    ck_assert_uint_gt(all.statuses[BASE_INVALID_ARGUMENT], 0);
    ck_assert_uint_gt(all.statuses[BASE_NOT_FOUND], 0);
    check_counts(&all);
    ask_release(&alone.ask);
    site_close(&site);
}
END_TEST

static bool half_way(void *argument)
{
    (void)argument;
    return atomic_load(&site.done) > THREADS * VISITS / 8;
}

START_TEST(test_a_drain_amid_load_answers_everything)
{
    static _Atomic uint32_t idle;
    atomic_store(&idle, 0);
    open_site(1, 1);
    start_fronts(true);
    ck_assert(site_until(half_way, NULL));
    site_set_stopping(&site);
    site_refuse_new(&site);
    site_when_idle(&site, &idle);
    if (_i == 1) {
        site_cancel_all(&site);
    }
    struct seen all = join_fronts();
    ck_assert_uint_gt(all.statuses[BASE_UNAVAILABLE], 0);
    ck_assert_uint_eq(atomic_load(&idle), 1);
    check_counts(&all);
    ask_release(&alone.ask);
    site_close(&site);
}
END_TEST

int main(void)
{
    base_log_configure(BASE_LOG_ERROR, BASE_LOG_TEXT);
    Suite *suite = suite_create("core_load");
    TCase *tcase = tcase_create("core_load");
    tcase_add_loop_test(tcase, test_four_threads_get_every_answer_once, 0, 3);
    tcase_add_loop_test(tcase, test_a_drain_amid_load_answers_everything, 0, 2);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
