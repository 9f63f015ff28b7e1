/* Thousands of small random worlds: random graphs of random types come, are admitted, cancelled and
 * fail at random, on up to four queues, with every knob drawn anew and rows for hardly more than
 * one graph. The simulation (sim.h) looks for everything that is wrong. */
#include "base/mem.h"
#include "tests/scheduler/sim.h"
#include "tests/util.h"

#ifdef CELLBATCH_DEBUG
#    define WORLDS 250u /* sanitizers are slow */
#else
#    define WORLDS 1500u
#endif

/* Chances per mille of an event at each turn. */
struct climate {
    uint32_t cancel, cancel_all, fail;
    uint32_t layers; /* of 100 nodes; then on devices that run two batches at the same time */
};

static void draw_event(struct sim *sim, const struct climate *climate)
{
    struct base_random *random = &sim->random;
    uint32_t q = base_random_below(random, sim->options.n_queues);
    uint32_t chance = base_random_below(random, 1000);
    struct sim_graph *graph = sim->graphs[base_random_below(random, SIM_GRAPHS_MAX)];
    if (chance < climate->cancel_all) {
        sim_cancel_all(sim, BASE_UNAVAILABLE);
    } else if (chance < climate->cancel_all + climate->cancel && graph != NULL) {
        sim_cancel(sim, graph, chance % 2 == 0 ? BASE_CANCELLED : BASE_DEADLINE_EXCEEDED);
    } else if (chance % 3 == 0) {
        (void)sim_next(sim, q);
    } else if (chance % 3 == 1) {
        bool fails = base_random_below(random, 1000) < climate->fail;
        (void)sim_execute(sim, q, base_random_below(random, 6), fails ? BASE_INTERNAL : BASE_OK);
    } else {
        (void)sim_retire(sim, q);
    }
}

/* Batches that ran behind another, of all worlds so far. */
static uint64_t n_followers;

/* Types that can stand over one another, and a device for which that is worth something. */
static void draw_layers(struct graphs_types *types, struct sched_options *options,
                        struct base_random *random)
{
    for (uint32_t t = 0; t < 4; t++) {
        graphs_type_token(types, 1 + base_random_below(random, 2), 1 + base_random_below(random, 2),
                          1, 1);
    }
    options->tasks_max += options->tasks_max == 1 ? 1 : 0;
    options->beside = true;
    options->interruptible = true;
    options->n_queues = 1 + base_random_below(random, 2);
    options->run_steps_max = 256;
}

/* One world from its first request to its last; the number of requests that ran to their end. */
static uint32_t run_world(uint64_t seed, const struct climate *climate)
{
    struct base_random random;
    base_random_init(&random, seed);
    struct graphs_types *types = base_alloc(sizeof(*types));
    struct sim *sim = base_alloc(sizeof(*sim));
    ck_assert(types != NULL && sim != NULL);
    struct sched_options options;
    sim_draw_options(&options, &random);
    if (climate->layers > 0) {
        draw_layers(types, &options, &random);
    } else {
        sim_draw_types(types, &random);
    }
    for (uint32_t t = 0; t < types->n; t++) {
        sim->priorities[t] = base_random_below(&random, 3);
        sim->rows_max[t] = base_random_below(&random, 2) * base_random_below(&random, 20);
        sim->beside_rows[t] = base_random_below(&random, 8);
        sim->groups[t] = base_random_below(&random, 3);
        sim->follow_rows[t] = base_random_below(&random, 8) + (climate->layers > 0 ? 1 : 0);
    }
    struct recipe recipes[24];
    uint32_t n = 1 + base_random_below(&random, 24);
    struct recipe_shape shape = {.nodes_max =
                                     1 + base_random_below(&random, climate->layers > 0 ? 5 : 12),
                                 .steps_max = 1 + base_random_below(&random, 9),
                                 .layers = climate->layers};
    for (uint32_t i = 0; i < n; i++) {
        recipe_random(&recipes[i], types, &shape, &random);
        recipes[i].is_shown = base_random_below(&random, 4) == 0;
        recipe_build(&recipes[i]);
        recipe_evaluate(&recipes[i], graphs_cell_token);
    }
    uint32_t capacity[GRAPHS_LAYOUTS_MAX] = {0};
    sim_capacity(capacity, recipes, n, 1 + base_random_below(&random, 3));
    sim_init(sim, types, &options, capacity, seed);
    uint32_t added = 0;
    while (added < n || sched_graphs_inside(sim->sched) > 0) {
        if (added < n && base_random_below(&random, 4) == 0 &&
            sim_add(sim, &recipes[added]) != NULL) {
            added++;
        }
        sim->now_ns += base_random_below(&random, 3);
        draw_event(sim, climate);
        if (added == n && base_random_below(&random, 500) == 0) {
            sim_drain(sim);
        }
    }
    sim_require(sim, sim->n_finished == n);
    uint32_t n_ok = sim->n_ok;
    n_followers += sim->n_followers;
    sim_release(sim);
    base_free(sim);
    base_free(types);
    return n_ok;
}

static uint32_t run_worlds(const struct climate *climate, uint32_t worlds, uint64_t salt)
{
    uint32_t n_ok = 0;
    for (uint32_t i = 0; i < worlds; i++) {
        n_ok += run_world(util_seed() * 1000003u + salt + i, climate);
    }
    return n_ok;
}

START_TEST(test_random_graphs_in_fair_weather_all_finish)
{
    struct climate fair = {.cancel = 0};
    ck_assert_uint_gt(run_worlds(&fair, WORLDS, 0), WORLDS);
}
END_TEST

START_TEST(test_random_graphs_cancelled_at_random)
{
    struct climate climate = {.cancel = 100, .cancel_all = 2};
    ck_assert_uint_gt(run_worlds(&climate, WORLDS, 1u << 20), WORLDS);
}
END_TEST

START_TEST(test_random_batches_fail)
{
    struct climate climate = {.cancel = 10, .fail = 60};
    ck_assert_uint_gt(run_worlds(&climate, WORLDS, 2u << 20), WORLDS);
}
END_TEST

START_TEST(test_random_layers)
{
    struct climate climate = {.cancel = _i == 1 ? 30 : 0, .fail = _i == 2 ? 30 : 0, .layers = 60};
    ck_assert_uint_gt(run_worlds(&climate, WORLDS, (3u + (uint64_t)_i) << 20), WORLDS);
    ck_assert_uint_gt(n_followers, WORLDS / 10);
}
END_TEST

int main(void)
{
    sim_report_aborts();
    Suite *suite = suite_create("simulation");
    TCase *tcase = tcase_create("simulation");
    tcase_add_test(tcase, test_random_graphs_in_fair_weather_all_finish);
    tcase_add_test(tcase, test_random_graphs_cancelled_at_random);
    tcase_add_test(tcase, test_random_batches_fail);
    tcase_add_loop_test(tcase, test_random_layers, 0, 3);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
