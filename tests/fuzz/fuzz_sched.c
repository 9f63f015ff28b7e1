/* The scheduler: bytes say how it is set up, which graphs come, and what happens in which order.
 *
 *   header: options (6 bytes), row pools (1), number of types (1) and 2 bytes each, of graphs (1)
 *   a graph: nodes and steps at most (1 byte), seed of its recipe (2)
 *   an event a byte: what (modulo 5), and which queue, graph or number of steps
 *
 * The simulation (tests/scheduler/sim.h) looks for everything that is wrong; in the end each graph
 * must have finished once, whatever happened, and no row may be left. */
#include "base/mem.h"
#include "tests/scheduler/sim.h"

#include <string.h>

enum { GRAPHS_MAX = 24, TYPES_MAX = 5 };

struct input {
    const uint8_t *data;
    size_t left;
};

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A number below bound from the next byte; 0 when there is none. */
static uint32_t below(struct input *input, uint32_t bound)
{
    if (input->left == 0) {
        return 0;
    }
    input->left--;
    return *input->data++ % bound;
}

static void read_options(struct input *input, struct sched_options *options)
{
    sched_options_init(options);
    options->n_queues = 1 + below(input, SIM_QUEUES_MAX);
    options->rows_max = 1 + below(input, 12);
    options->rows_min = 1 + below(input, options->rows_max);
    options->tasks_max = 1 + below(input, 5);
    uint32_t runs = below(input, 64);
    options->run_steps_max = runs % 8 == 0 ? 256 : runs % 8;
    options->run_steps_shared = 1 + runs / 8;
    const uint32_t way = below(input, 6);
    options->spans = runs / 8 % 2 == 0;
    options->interruptible = way % 3 != 0;
    options->full_behind_runs = way % 3 == 2;
    options->beside = way >= 3 && options->tasks_max > 1;
    options->follow_steps_min = 2;
    options->run_flops_least = runs / 8 % 2 * 100;
}

static void read_types(struct input *input, struct graphs_types *types, struct sim *sim)
{
    uint32_t n = 1 + below(input, TYPES_MAX);
    for (uint32_t t = 0; t < n; t++) {
        uint32_t shape = below(input, 48);
        graphs_type_token(types, shape % 4, shape / 4 % 3, 1 + shape / 12 % 2, 1 + shape / 24);
        uint32_t numbers = below(input, 60);
        sim->priorities[t] = numbers % 3;
        sim->rows_max[t] = numbers / 3;
        sim->beside_rows[t] = numbers % 7;
        sim->follow_rows[t] = numbers % 5;
    }
}

static void read_recipe(struct input *input, const struct graphs_types *types, struct recipe *out)
{
    uint32_t bounds = below(input, 256);
    struct recipe_shape shape = {.nodes_max = 1 + bounds % 16,
                                 .steps_max = 1 + bounds / 16,
                                 .layers = bounds % 3 == 0 ? 60 : 0};
    uint32_t seed = below(input, 256);
    struct base_random random;
    base_random_init(&random, seed << 8 | below(input, 256));
    recipe_random(out, types, &shape, &random);
    out->is_shown = seed % 4 == 0;
    recipe_build(out);
    recipe_evaluate(out, graphs_cell_token);
}

/* Cancels and failures, which are rarer than the rest. */
static void happen_rarely(struct sim *sim, uint32_t which)
{
    struct sim_graph *graph = sim->graphs[which];
    if (which == 50) {
        sim_cancel_all(sim, BASE_UNAVAILABLE);
    } else if (which >= 40) {
        (void)sim_execute(sim, which % sim->options.n_queues, 1, BASE_INTERNAL);
    } else if (graph != NULL) {
        sim_cancel(sim, graph, which % 2 == 0 ? BASE_CANCELLED : BASE_DEADLINE_EXCEEDED);
    }
}

/* Returns whether the next graph came in. */
static bool happen(struct sim *sim, uint32_t event, const struct recipe *next)
{
    uint32_t which = event / 5;
    uint32_t queue = which % sim->options.n_queues;
    sim->now_ns += which % 3;
    switch (event % 5) {
    case 0:
        (void)sim_next(sim, queue);
        return false;
    case 1:
        (void)sim_execute(sim, queue, which / SIM_QUEUES_MAX, BASE_OK);
        return false;
    case 2:
        (void)sim_retire(sim, queue);
        return false;
    case 3:
        return next != NULL && sim_add(sim, next) != NULL;
    default:
        happen_rarely(sim, which);
        return false;
    }
}

/* All events, then what graphs there still are, as soon as there is room. */
static void run(struct input *input, struct sim *sim, const struct recipe *recipes, uint32_t n)
{
    uint32_t added = 0;
    while (input->left > 0) {
        const struct recipe *next = added < n ? &recipes[added] : NULL;
        added += happen(sim, below(input, 256), next) ? 1 : 0;
    }
    while (added < n) {
        if (sim_add(sim, &recipes[added]) != NULL) {
            added++;
        } else {
            sim_drain(sim);
        }
    }
    sim_drain(sim);
    sim_require(sim, sim->n_finished == n);
}

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct graphs_types types;
    static struct sim sim;
    static struct recipe recipes[GRAPHS_MAX];
    struct input input = {data, size};
    struct sched_options options;
    uint32_t capacity[GRAPHS_LAYOUTS_MAX] = {0};
    memset(&types, 0, sizeof(types));
    memset(&sim, 0, sizeof(sim));
    read_options(&input, &options);
    uint32_t factor = 1 + below(&input, 3);
    read_types(&input, &types, &sim);
    uint32_t n = 1 + below(&input, GRAPHS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        read_recipe(&input, &types, &recipes[i]);
    }
    sim_capacity(capacity, recipes, n, factor);
    sim_init(&sim, &types, &options, capacity, 0);
    run(&input, &sim, recipes, n);
    sim_release(&sim);
    return 0;
}
