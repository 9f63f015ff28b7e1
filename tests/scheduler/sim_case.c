/* See sim_case.h. */
#include "tests/scheduler/sim_case.h"

#include "base/mem.h"
#include "tests/util.h"

#include <string.h>

void sim_case_open(struct sim_case *now)
{
    memset(now, 0, sizeof(*now));
    sched_options_init(&now->options);
    now->sim = base_alloc(sizeof(*now->sim));
    ck_assert_ptr_nonnull(now->sim);
}

void sim_case_start(struct sim_case *now)
{
    sim_init(now->sim, &now->types, &now->options, NULL, util_seed());
}

void sim_case_close(struct sim_case *now)
{
    sim_end(now->sim);
}

struct sim_graph *sim_case_add(struct sim_case *now, struct recipe *recipe)
{
    recipe_fill(recipe, &now->sim->random);
    recipe_build(recipe);
    recipe_evaluate(recipe, graphs_cell_token);
    struct sim_graph *graph = sim_add(now->sim, recipe);
    ck_assert_ptr_nonnull(graph);
    return graph;
}

void sim_case_open_beside(struct sim_case *now)
{
    sim_case_open(now);
    for (uint32_t t = 0; t < SIM_CASE_TYPES; t++) {
        graphs_type_token(&now->types, 1, 2, 1, 1);
        now->types.types[t].flops = 100;
        now->sim->beside_rows[t] = SIM_CASE_FEW;
    }
    now->options.beside = true;
    now->options.full_behind_runs = true;
    now->options.tasks_max = 2;
    now->options.run_steps_max = 100;
    now->options.run_steps_shared = 2;
}

void sim_case_check(const struct sim_case *now, const struct cell_batch *batch, uint32_t type,
                    uint32_t n_rows, uint32_t steps)
{
    ck_assert_ptr_nonnull(batch);
    ck_assert_ptr_eq(batch->type, &now->types.types[type]);
    ck_assert_uint_eq(batch->n_rows, n_rows);
    ck_assert_uint_eq(batch->steps, steps);
}

void sim_case_finish(struct sim_case *now, uint32_t steps_max)
{
    ck_assert(sim_execute(now->sim, 0, steps_max, BASE_OK));
    while (sim_retire(now->sim, 0)) {
    }
}
