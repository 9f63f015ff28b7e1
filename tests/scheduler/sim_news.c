/* The simulation's check of nodes that are shown (sched_graph_show()). */
#include "tests/scheduler/sim.h"

#include <string.h>

/* What a step has emitted, of those that emit at each, is what it should be. */
static bool is_right(const struct recipe_result *result, uint32_t step)
{
    const size_t at = step * result->row_bytes;
    return !result->is_emitted || result->when != CELL_EMIT_EACH ||
           memcmp(result->got + at, result->want + at, result->row_bytes) == 0;
}

/* Of one node: as many steps as have retired, and what they have emitted. Returns the steps. */
static uint32_t check_node(const struct sim *sim, const struct sim_graph *graph, uint32_t n)
{
    const struct recipe_node *node = &graph->recipe.nodes[n];
    const struct sched_node *made = &graph->recipe.graph->nodes[n];
    const uint32_t word = atomic_load(&graph->recipe.graph->shown[n]);
    const uint32_t steps = word & ~SCHED_SHOWN_ALL;
    const bool is_all = (word & SCHED_SHOWN_ALL) != 0;
    const bool has_ended = node->ends_after > 0;
    if (graph->stopped != BASE_OK || graph->failed) {
        return steps;
    }
    sim_require(sim, steps <= graph->executed[n]);
    sim_require(sim, is_all == (made->steps_done == node->taken));
    sim_require(sim, steps == made->steps_done - (is_all && has_ended ? 1 : 0));
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t i = 0; i < node->type->def.n_outputs; i++) {
            sim_require(sim, is_right(&node->outputs[i], step));
        }
        for (uint32_t i = 0; i < node->type->def.n_states; i++) {
            sim_require(sim, is_right(&node->states[i], step));
        }
    }
    return steps;
}

void sim_news_check(struct sim *sim)
{
    bool is_told[SIM_GRAPHS_MAX] = {false};
    for (const struct sched_graph *at = sched_take_news(sim->sched); at != NULL;
         at = at->next_news) {
        uint32_t place = 0;
        while (place < SIM_GRAPHS_MAX && sim->graphs[place] != at->user) {
            place++;
        }
        sim_require(sim, place < SIM_GRAPHS_MAX && at->inside && !is_told[place]);
        is_told[place] = true;
        sim->n_news++;
    }
    for (uint32_t i = 0; i < SIM_GRAPHS_MAX; i++) {
        struct sim_graph *graph = sim->graphs[i];
        if (graph == NULL || !graph->recipe.is_shown) {
            sim_require(sim, !is_told[i]);
            continue;
        }
        uint32_t steps = 0;
        for (uint32_t n = 0; n < graph->recipe.n_nodes; n++) {
            steps += check_node(sim, graph, n);
        }
        // Nothing new without news, and no news of what is over.
        sim_require(sim, !graph->recipe.graph->inside || steps == graph->seen || is_told[i]);
        graph->seen = steps;
    }
}
