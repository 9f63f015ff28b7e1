/* See taking.h. */
#include "cells/cpu/taking.h"

#include "base/mem.h"
#include "cells/cpu/run.h"

#include <stdatomic.h>

/* Of a batch each member takes its share in so many turns at the least, unless weights would be
 * read for too few. */
#define TURNS_MIN 4u

/* Member 0 works with what it works with in the team, whose rows of scratch all share. */
static enum base_status make(struct cell_program *program, uint32_t queue)
{
    const uint32_t members = program->n_members[queue];
    struct cell_taking *taking = base_arena_alloc_aligned64(
        &program->arena, sizeof(*taking) + members * sizeof(struct cell_space *));
    if (taking == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    program->taking[queue] = taking;
    taking->spaces[0] = program->spaces[queue];
    for (uint32_t m = 1; m < members; m++) {
        BASE_TRY(cell_program_make_spaces(program, 1, &taking->spaces[m]));
    }
    return BASE_OK;
}

enum base_status cell_taking_create(struct cell_program *program)
{
    if (!program->takes_cells || cell_program_most_members(program) == 1) {
        return BASE_OK;
    }
    program->taking =
        base_arena_array(&program->arena, program->n_queues, sizeof(struct cell_taking *));
    if (program->taking == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (uint32_t q = 0; q < program->n_queues; q++) {
        BASE_TRY(make(program, q));
    }
    return BASE_OK;
}

bool cell_taking_begin(struct cell_run *run, uint32_t queue)
{
    if (run->program->taking == NULL || run->members == 1 || run->n_cells < run->members ||
        run->batch->steps > 1) {
        return false;
    }
    run->taking = run->program->taking[queue];
    run->places = NULL; // each member finds those of the cells that it takes
    // Relaxed: the start of the run publishes it.
    atomic_store_explicit(&run->taking->next, 0, memory_order_relaxed);
    return true;
}

static uint32_t cells_at_once(const struct cell_run *run)
{
    const struct cell_program *program = run->program;
    const uint32_t share = (run->n_cells + run->members - 1) / run->members;
    const uint32_t least = program->rows_least < share ? program->rows_least : share;
    const uint32_t n = share / TURNS_MIN > least ? share / TURNS_MIN : least;
    return n < program->block_rows ? n : program->block_rows;
}

void cell_taking_run(const struct cell_run *run, struct cell_team *team, uint32_t member)
{
    const uint32_t at_once = cells_at_once(run);
    struct cell_run own = *run;
    own.members = 1;
    own.spaces = run->taking->spaces[member];
    struct cell_view view = {
        .run = &own, .program = run->program, .team = team, .space = own.spaces};
    cell_run_start(&view);
    const uint32_t n_cells = cell_run_select(&view);
    // Relaxed: what cells read was written before the run, what they write nobody reads in it.
    uint32_t first = atomic_fetch_add_explicit(&run->taking->next, at_once, memory_order_relaxed);
    while (first < n_cells) {
        const uint32_t left = n_cells - first;
        cell_run_cells(&view, first, left < at_once ? left : at_once);
        first = atomic_fetch_add_explicit(&run->taking->next, at_once, memory_order_relaxed);
    }
}
