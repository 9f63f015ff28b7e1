/* Operands of element-wise ops that are read again in place of copied: an outer product of two rows
 * is a chain over what both have, and its two SPREADs are gone. Runs on the thread that loads
 * types.
 */
#include "cells/cpu/program.h"

/* Whether all that reads a value are element-wise ops of its width. */
static bool is_for_pointwise(const struct cell_program *program, uint32_t value)
{
    const struct cell_def *def = &program->type->def;
    if (program->values[value].place != CELL_PLACE_SCRATCH) {
        return false; // a state, which has its own row
    }
    for (uint32_t i = 0; i < def->n_outputs; i++) {
        if (def->outputs[i] == value) {
            return false;
        }
    }
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        for (uint32_t i = 0; i < op->n_in; i++) {
            if (op->in[i] == value && !cell_op_is_pointwise(op->kind)) {
                return false;
            }
        }
    }
    return true;
}

/* All who read what `spread` makes read its operand. One element needs no repeats: it is broadcast.
 */
static void read_again(struct cell_program *program, const struct cell_program_op *spread)
{
    const uint32_t from = spread->in[0];
    const uint32_t *dims = spread->op->dims;
    struct cell_repeats repeats = {.times = dims[1], .part = dims[2]};
    if (program->values[from].shape.width == 1 || dims[1] == 1) {
        repeats = (struct cell_repeats){0};
    }
    for (uint32_t o = 0; o < program->n_ops; o++) {
        struct cell_program_op *op = &program->ops[o];
        for (uint32_t i = 0; i < op->n_in; i++) {
            if (op->in[i] == spread->out) {
                op->in[i] = from;
                op->repeats[i] = repeats;
            }
        }
    }
}

void cell_program_find_repeats(struct cell_program *program)
{
    uint32_t n = 0;
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        const bool is_read_again = op->kind == CELL_OP_SPREAD && !program->type->def.as_written &&
                                   is_for_pointwise(program, op->out);
        if (is_read_again) {
            program->values[op->out].place = CELL_PLACE_NONE;
            read_again(program, op);
        } else {
            program->ops[n++] = *op;
        }
    }
    program->n_ops = n;
}
