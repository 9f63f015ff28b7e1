/* The kernels that choose who goes on in beam searches; see plan.h. Which models search is not
 * known when a type is loaded: every type that a search could run gets them, in steps of their own.
 */
#include "cells/cuda/plan.h"

static bool is_integer(const struct cell_value *value)
{
    return value->width == 1 && value->dtype != CELL_F32;
}

bool cell_cuda__may_search(const struct cell_def *def)
{
    bool has_token = false;
    bool has_logits = false;
    for (uint32_t s = 0; s < def->n_states; s++) {
        has_token |= is_integer(&def->values[def->n_inputs + s]);
    }
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        has_logits |= def->values[def->outputs[o]].dtype == CELL_F32;
    }
    return has_token && has_logits;
}

static void add_searching(struct cell_cuda__plan *plan, const struct cell_step *step,
                          const char *about)
{
    *cell_cuda__add(plan, step->kernel, 1, about) = *step;
    if (plan->status == BASE_OK) {
        plan->program->ops[plan->program->n_ops - 1].is_of_searches = true;
        plan->program->n_searching++;
    }
}

void cell_cuda__plan_searches(struct cell_cuda__plan *plan, const struct cell_step_batch *batch)
{
    const struct cell_def *def = plan->def;
    const size_t bytes = (size_t)CELL_STEP_BEST * sizeof(struct cell_step_continued);
    if (!cell_cuda__may_search(def)) {
        return;
    }
    struct cell_step_search_lane search = {
        .batch = *batch,
        .best = cell_cuda__matrix(plan, bytes),
        .room = cell_cuda__matrix(plan, CELL_STEP_SEARCHERS * bytes)};
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        search.outputs[o] = cell_cuda__place(plan, def->outputs[o]);
    }
    const struct cell_step_choose choose = {.batch = *batch, .best = search.best};
    add_searching(plan, &(struct cell_step){.kernel = CELL_STEP_SEARCH, .search = search},
                  "the best ids of a search's lane");
    add_searching(plan, &(struct cell_step){.kernel = CELL_STEP_CHOOSE, .choose = choose},
                  "the lanes of a search that go on");
}
