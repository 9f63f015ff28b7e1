/* Ops that no barrier parts are a *wave*: they depend on nothing that another of them writes, and
 * members may work at different ones at a time. So what is shared out is the wave, not each op:
 * its panels lie in a row, as long as what they cost, and each member has as long a piece. An op of
 * few panels then falls to one member, or to neighbours, while others do the next (the executors of
 * Graphi, section 4, and Parallel-GEMMs-in-Parallel of DeepCPU, section 5.2.2, without a scheduler:
 * what a cell's ops cost is known at load, and the same at every step). docs/decisions.md, 23.
 *
 * Runs on the thread that loads types, once a type; linear in the ops. */
#include "cells/cpu/program.h"

#include "cells/cpu/patches.h"

/* Multiply-adds of one panel for a row. */
static uint64_t panel_cost(const struct cell_program_op *op, bool is_ahead)
{
    if (!op->is_gated) {
        return (uint64_t)op->linear.inputs * op->linear.outputs / op->linear.panels;
    }
    bool has_no_x = op->embedding != NULL || (is_ahead && op->has_window);
    uint64_t terms = (uint64_t)op->gated.feedback + op->gated.right;
    return (terms + (has_no_x ? 0 : op->gated.inputs)) * op->gated.columns;
}

/* The narrow one counts for what it is. */
static uint64_t panels_cost(const struct cell_program_op *op, uint64_t panel)
{
    const struct cell_gated *gated = &op->gated;
    return !op->is_gated ? op->linear.panels * panel
           : gated->narrow == 0
               ? gated->panels * panel
               : (gated->panels - 1) * panel + panel * gated->narrow / gated->columns;
}

/* Ops first..end-1 are a wave. */
static void measure(struct cell_program *program, uint32_t first, uint32_t end, bool is_ahead)
{
    uint64_t total = 0;
    for (uint32_t o = first; o < end; o++) {
        struct cell_program_op *op = &program->ops[o];
        struct cell_wave *wave = &op->wave[is_ahead];
        // Patches are shared out alone, so many at a time.
        bool has_panels = op->share == CELL_SHARE_PANELS && !(is_ahead && op->is_only_ahead) &&
                          !cell_patches_has(op);
        uint64_t cost = has_panels ? panel_cost(op, is_ahead) : 0;
        *wave = (struct cell_wave){.before = total, .panel = cost > 0 ? cost : 1};
        total += has_panels ? panels_cost(op, wave->panel) : 0;
    }
    for (uint32_t o = first; o < end; o++) {
        program->ops[o].wave[is_ahead].total = total;
    }
}

void cell_program_find_waves(struct cell_program *program)
{
    for (uint32_t first = 0, end = 0; first < program->n_ops; first = end) {
        end = first + 1;
        while (end < program->n_ops && !program->ops[end].barrier_before) {
            end++;
        }
        measure(program, first, end, false);
        measure(program, first, end, true);
    }
}
