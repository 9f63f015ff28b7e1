/* Which part of a program does not depend on the state, and so may run ahead of its steps; see
 * ahead.h. Runs on the thread that loads types. */
#include "cells/cpu/program.h"

#include "base/assert.h"

#include <string.h>

/* Values that are the same whatever the state: inputs, constants, and what is made of them alone.
 */
static void mark_timeless(const struct cell_program *program, bool is_timeless[])
{
    for (uint32_t v = 0; v < program->n_values; v++) {
        enum cell_place place = program->values[v].place;
        is_timeless[v] = place == CELL_PLACE_INPUT || place == CELL_PLACE_CONST;
    }
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        bool all = !op->is_gated;
        for (uint32_t i = 0; i < op->n_in; i++) {
            all = all && is_timeless[op->in[i]];
        }
        is_timeless[op->out] = all;
    }
}

/* Gives each gated op whose x is timeless its place in a window; but a tree's node is one step, and
 * has nothing to gain. */
static void place_windows(struct cell_program *program, const bool is_timeless[])
{
    for (uint32_t o = 0; o < program->n_ops; o++) {
        struct cell_program_op *op = &program->ops[o];
        op->has_window = op->is_gated && !cell_op_is_tree(op->kind) &&
                         is_timeless[op->in[CELL_GATED_X]] &&
                         program->n_windowed < CELL_WINDOWED_MAX;
        if (op->has_window) {
            op->window = program->n_windowed++;
        }
    }
}

/* Whether anything but the sums over x wants a value: a step's own op, a state, an output. */
static void mark_wanted(const struct cell_program *program, bool is_wanted[])
{
    const struct cell_def *def = &program->type->def;
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        is_wanted[def->outputs[o]] = true;
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        is_wanted[program->next_value[s]] = true;
    }
}

/* From the last op to the first: who reads what an op gives, the sums over x or a step? An op that
 * only fills windows reads nothing in a step. */
static void mark_ahead(struct cell_program *program, const bool is_timeless[], bool is_wanted[])
{
    bool is_summed[CELL_PROGRAM_VALUES_MAX] = {false};
    for (uint32_t o = program->n_ops; o-- > 0;) {
        struct cell_program_op *op = &program->ops[o];
        op->fills_windows = !op->is_gated && is_timeless[op->out] && is_summed[op->out];
        op->is_only_ahead = op->fills_windows && !is_wanted[op->out];
        for (uint32_t i = 0; i < op->n_in; i++) {
            bool is_windowed_x = op->has_window && i == CELL_GATED_X;
            is_summed[op->in[i]] |= is_windowed_x || op->fills_windows;
            is_wanted[op->in[i]] |= !is_windowed_x && !op->is_only_ahead;
        }
    }
}

void cell_program_find_phases(struct cell_program *program)
{
    bool is_timeless[CELL_PROGRAM_VALUES_MAX] = {false};
    bool is_wanted[CELL_PROGRAM_VALUES_MAX] = {false};
    mark_timeless(program, is_timeless);
    place_windows(program, is_timeless);
    mark_wanted(program, is_wanted);
    mark_ahead(program, is_timeless, is_wanted);
}

void cell_program_size_windows(struct cell_program *program)
{
    for (uint32_t o = 0; o < program->n_ops; o++) {
        struct cell_program_op *op = &program->ops[o];
        if (op->has_window) {
            uint64_t columns = (uint64_t)op->gated.panels * op->gated.columns;
            op->window_at = program->window_floats;
            program->window_floats += (uint32_t)columns;
            program->window_flops += 2ull * op->gated.inputs * columns;
        } else if (op->fills_windows && op->kind == CELL_OP_LINEAR) {
            program->window_flops += 2ull * op->linear.inputs * op->linear.outputs;
        }
    }
}
