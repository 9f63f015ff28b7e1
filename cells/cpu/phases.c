/* Which part of a program does not depend on the state, and so may run ahead of its steps; see
 * ahead.h. Runs on the thread that loads types. */
#include "cells/cpu/program.h"

#include "base/mem.h"
#include "cells/cpu/patches.h"

/* Of a value. */
struct phase {
    bool is_timeless; /* the same whatever the state */
    bool has_product; /* and a LINEAR is in what it is made of: worth its room in a window */
    bool is_ahead;    /* what stands in windows is made of it */
    bool is_wanted;   /* a step reads it: an op that does not run ahead, a state, an output */
};

/* Values that are the same whatever the state: inputs, constants, and what is made of them alone.
 */
static void mark_timeless(const struct cell_program *program, struct phase phases[])
{
    for (uint32_t v = 0; v < program->n_values; v++) {
        enum cell_place place = program->values[v].place;
        phases[v].is_timeless = place == CELL_PLACE_INPUT || place == CELL_PLACE_CONST;
    }
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        struct phase *out = &phases[op->out];
        out->is_timeless = !op->is_gated;
        out->has_product = op->kind == CELL_OP_LINEAR;
        for (uint32_t i = 0; i < op->n_in; i++) {
            out->is_timeless = out->is_timeless && phases[op->in[i]].is_timeless;
            out->has_product |= phases[op->in[i]].has_product;
        }
    }
}

/* Gives each gated op whose x is timeless its place in a window; but a tree's node is one step, and
 * has nothing to gain, and patches are as many rows together. */
static void place_windows(struct cell_program *program, const struct phase phases[])
{
    for (uint32_t o = 0; o < program->n_ops; o++) {
        struct cell_program_op *op = &program->ops[o];
        op->has_window = op->is_gated && !cell_op_is_tree(op->kind) && !cell_patches_has(op) &&
                         op->embedding == NULL && phases[op->in[CELL_GATED_X]].is_timeless &&
                         program->n_windowed < CELL_WINDOWED_MAX;
        if (op->has_window) {
            op->window = program->n_windowed++;
        }
    }
}

/* Whether anything that may run ahead reads a value that is timeless. */
static bool is_read_ahead(const struct cell_program *program, uint32_t value,
                          const struct phase phases[])
{
    bool is_read = false;
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        for (uint32_t i = 0; i < op->n_in; i++) {
            is_read |= op->in[i] == value &&
                       (phases[op->out].is_timeless || (op->has_window && i == CELL_GATED_X));
        }
    }
    return is_read;
}

/* A next state stands in the row's slot, which holds one step; what runs ahead has many. So it is
 * made elsewhere, and each step copies its own to the slot. */
static void move_nexts(struct cell_program *program, struct phase phases[])
{
    for (uint32_t s = 0; s < program->type->def.n_states; s++) {
        const uint32_t value = program->next_value[s];
        if (phases[value].is_timeless && is_read_ahead(program, value, phases)) {
            program->values[value].place = CELL_PLACE_SCRATCH;
            cell_program_add_next(program, value, s);
        }
    }
}

static void mark_wanted(const struct cell_program *program, struct phase phases[])
{
    const struct cell_def *def = &program->type->def;
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        phases[def->outputs[o]].is_wanted = true;
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        phases[program->next_value[s]].is_wanted = true;
    }
}

/* Gives a value that steps read its place in a window, if it is worth that. */
static bool keep(struct cell_program *program, uint32_t value, const struct phase *phase)
{
    bool is_kept = phase->is_timeless && phase->has_product && phase->is_wanted &&
                   !program->type->def.as_written &&
                   program->values[value].place == CELL_PLACE_SCRATCH &&
                   program->n_kept < CELL_KEPT_MAX;
    if (is_kept) {
        program->values[value].place = CELL_PLACE_KEPT;
        program->values[value].index = program->n_kept;
        program->kept[program->n_kept++].value = value;
    }
    return is_kept;
}

/* From the last op to the first: who reads what an op gives, a window or a step? An op that only
 * fills windows reads nothing in a step. */
static void mark_ahead(struct cell_program *program, struct phase phases[])
{
    for (uint32_t o = program->n_ops; o-- > 0;) {
        struct cell_program_op *op = &program->ops[o];
        const struct phase *out = &phases[op->out];
        bool is_kept = !op->is_gated && keep(program, op->out, out);
        op->fills_windows = is_kept || (!op->is_gated && out->is_timeless && out->is_ahead);
        op->is_only_ahead = is_kept || (op->fills_windows && !out->is_wanted);
        for (uint32_t i = 0; i < op->n_in; i++) {
            struct phase *in = &phases[op->in[i]];
            bool is_windowed_x = op->has_window && i == CELL_GATED_X;
            in->is_ahead |= is_windowed_x || op->fills_windows;
            in->is_wanted |= !is_windowed_x && !op->is_only_ahead;
        }
    }
}

void cell_program_find_phases(struct cell_program *program)
{
    struct phase phases[CELL_PROGRAM_VALUES_MAX] = {{false}};
    if (program->type->def.n_states == 0) {
        return; // one step is all there is: nothing is ahead of it
    }
    mark_timeless(program, phases);
    place_windows(program, phases);
    move_nexts(program, phases);
    mark_wanted(program, phases);
    mark_ahead(program, phases);
}

/* Rows begin on a cache line, and kernels write whole vectors. */
static uint32_t kept_floats(struct cell_value shape)
{
    uint32_t line = BASE_CACHE_LINE / (uint32_t)sizeof(float);
    uint32_t floats = shape.width * (cell_dtype_bytes(shape.dtype) / (uint32_t)sizeof(float));
    return (floats + line - 1) / line * line;
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
            program->window_flops +=
                2ull * op->linear.inputs * op->linear.outputs * cell_op_patches(op->op);
        }
    }
    for (uint32_t k = 0; k < program->n_kept; k++) {
        program->kept[k].window_at = program->window_floats;
        program->window_floats += kept_floats(program->values[program->kept[k].value].shape);
    }
}
