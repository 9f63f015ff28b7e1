/* Which values and ops a program has: those of the definition, a GRU's halves, copies; and where
 * each value stands. See program.h. Runs on the thread that loads types. */
#include "cells/cpu/program.h"

#include "base/assert.h"
#include "cells/cpu/patches.h"
#include "cells/cpu/tree.h"

#include <math.h>
#include <string.h>

/* ---- Places --------------------------------------------------------------------------------- */

uint32_t cell_program_add_value(struct cell_program *program, struct cell_value shape,
                                enum cell_place place, uint32_t index)
{
    base_assert(program->n_values < CELL_PROGRAM_VALUES_MAX);
    program->values[program->n_values] =
        (struct cell_program_value){.shape = shape, .place = place, .index = index};
    return program->n_values++;
}

/* A result that becomes a state is written there; the first such state, if several. */
static void place_result(struct cell_program *program, uint32_t value)
{
    const struct cell_def *def = &program->type->def;
    program->values[value].place = CELL_PLACE_SCRATCH;
    for (uint32_t s = 0; s < def->n_states; s++) {
        if (def->state_next[s] == value) {
            program->values[value].place = CELL_PLACE_NEXT;
            program->values[value].index = s;
            return;
        }
    }
}

static void mark_read(struct cell_program *program, uint32_t value, bool is_read[])
{
    base_assert(value < program->n_values);
    is_read[value] = true;
}

/* Places inputs, states and results; what nobody reads, and no op must write, gets none. */
static void place_values(struct cell_program *program)
{
    const struct cell_def *def = &program->type->def;
    bool is_read[CELL_VALUES_MAX] = {false};
    program->n_values = def->n_values;
    for (uint32_t v = 0; v < def->n_values; v++) {
        program->values[v].shape = def->values[v];
    }
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        for (uint32_t i = 0; i < op->n_operands; i++) {
            mark_read(program, op->operands[i], is_read);
        }
        for (uint32_t i = 0; i < cell_op_results(op->kind); i++) {
            place_result(program, op->result + i);
        }
        if ((op->kind == CELL_OP_GATHER && op->patches == 0) || op->kind == CELL_OP_PICK) {
            program->values[op->result].place = CELL_PLACE_TABLE;
        } else if (op->kind == CELL_OP_SLICE &&
                   program->values[op->result].place == CELL_PLACE_SCRATCH) {
            program->values[op->result].place = CELL_PLACE_VIEW;
        } else if (op->kind == CELL_OP_CONST) {
            program->values[op->result].place = CELL_PLACE_CONST;
        }
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        mark_read(program, def->state_next[s], is_read);
        program->values[def->n_inputs + s].place = CELL_PLACE_STATE;
        program->values[def->n_inputs + s].index = s;
    }
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        mark_read(program, def->outputs[o], is_read);
    }
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        const bool is_row = is_read[i] && !cell_def_input_has_rows(def, i); // else attend.c's
        program->values[i].place = is_row ? CELL_PLACE_INPUT : CELL_PLACE_NONE;
        program->values[i].index = i;
    }
}

/* ---- Ops ------------------------------------------------------------------------------------ */

struct cell_program_op *cell_program_add_op(struct cell_program *program, enum cell_op_kind kind,
                                            enum cell_share share)
{
    base_assert(program->n_ops < CELL_PROGRAM_OPS_MAX);
    struct cell_program_op *op = &program->ops[program->n_ops++];
    // One that was left out may have stood there before.
    *op = (struct cell_program_op){.kind = kind, .share = share, .second = CELL_VALUES_MAX};
    return op;
}

struct cell_program_op *cell_program_add_gated(struct cell_program *program,
                                               const struct cell_op *from,
                                               enum cell_gated_kind kind)
{
    struct cell_program_op *op = cell_program_add_op(program, from->kind, CELL_SHARE_PANELS);
    op->op = from;
    op->is_gated = true;
    op->gated.kind = kind;
    op->out = from->result;
    return op;
}

static void add_copy(struct cell_program *program, uint32_t from, uint32_t to)
{
    struct cell_program_op *copy = cell_program_add_op(program, CELL_OP_COPY, CELL_SHARE_ROWS);
    copy->n_in = 1;
    copy->in[0] = from;
    copy->out = to;
}

/* Kernels read c, and the h that a GRU mixes in, by whole vectors: a value from a place without
 * that room is copied first. */
static uint32_t padded(struct cell_program *program, uint32_t value)
{
    enum cell_place place = program->values[value].place;
    if (place == CELL_PLACE_STATE || place == CELL_PLACE_NEXT || place == CELL_PLACE_SCRATCH) {
        return value;
    }
    uint32_t copy =
        cell_program_add_value(program, program->values[value].shape, CELL_PLACE_SCRATCH, 0);
    add_copy(program, value, copy);
    return copy;
}

static enum cell_share share_of(const struct cell_op *op)
{
    return cell_op_may_have_patches(op->kind) && op->patches > 0 ? cell_patches_share(op)
           : op->kind == CELL_OP_GATHER                          ? CELL_SHARE_EACH
           : op->kind == CELL_OP_PICK                            ? CELL_SHARE_EACH
           : op->kind == CELL_OP_LINEAR                          ? CELL_SHARE_PANELS
                                                                 : CELL_SHARE_ROWS;
}

/* Over x and h. */
static struct cell_program_op *add_gated(struct cell_program *program, const struct cell_op *from,
                                         enum cell_gated_kind kind)
{
    struct cell_program_op *op = cell_program_add_gated(program, from, kind);
    op->share = from->patches > 0 ? cell_patches_share(from) : op->share;
    op->n_in = 2;
    op->in[CELL_GATED_X] = from->operands[0];
    op->in[CELL_GATED_H] = from->operands[1];
    return op;
}

static void add_lstm(struct cell_program *program, const struct cell_op *from)
{
    uint32_t c = padded(program, from->operands[2]);
    struct cell_program_op *op = add_gated(program, from, CELL_GATED_LSTM);
    op->n_in = 3;
    op->in[CELL_GATED_OLD] = c;
    op->second = from->result + 1;
}

/* With the reset before the product a GRU is two ops: the second multiplies what the first's reset
 * gate has left of h. */
static void add_gru(struct cell_program *program, const struct cell_op *from)
{
    uint32_t h = padded(program, from->operands[1]);
    struct cell_value row = program->values[from->result].shape;
    if (from->variant == CELL_GRU_RESET_AFTER) {
        struct cell_program_op *op = add_gated(program, from, CELL_GATED_GRU);
        op->n_in = 3;
        op->in[CELL_GATED_OLD] = h;
        return;
    }
    uint32_t z = cell_program_add_value(program, row, CELL_PLACE_SCRATCH, 0);
    uint32_t left = cell_program_add_value(program, row, CELL_PLACE_SCRATCH, 0);
    struct cell_program_op *reset = add_gated(program, from, CELL_GATED_GRU_RESET);
    reset->n_in = 3;
    reset->in[CELL_GATED_OLD] = h;
    reset->out = z;
    reset->second = left;
    struct cell_program_op *op = add_gated(program, from, CELL_GATED_GRU_NEW);
    op->n_in = 4;
    op->in[CELL_GATED_H] = left;
    op->in[CELL_GATED_OLD] = h;
    op->in[CELL_GATED_Z] = z;
}

/* Ops, outputs and states that read a value of the definition. */
static uint32_t count_reads(const struct cell_def *def, uint32_t value)
{
    uint32_t n = 0;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        for (uint32_t i = 0; i < def->ops[o].n_operands; i++) {
            n += def->ops[o].operands[i] == value ? 1 : 0;
        }
    }
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        n += def->outputs[o] == value ? 1 : 0;
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        n += def->state_next[s] == value ? 1 : 0;
    }
    return n;
}

/* The number that a value is, where the definition states it. */
static const float *stated(const struct cell_def *def, uint32_t value)
{
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        if (op->kind == CELL_OP_CONST && op->result == value && op->weights[0].cols == 1 &&
            op->weights[0].dtype == CELL_F32) {
            return op->weights[0].data;
        }
    }
    return NULL;
}

/* What an op holds its first operand within; false: it is another one. */
static bool find_bounds(const struct cell_def *def, const struct cell_op *op,
                        struct cell_bounds *bounds)
{
    *bounds = (struct cell_bounds){.are = true, .least = 0.0f, .most = INFINITY};
    if (op->kind == CELL_OP_RELU) {
        return true;
    }
    if (op->kind != CELL_OP_MAX && op->kind != CELL_OP_MIN) {
        return false;
    }
    const float *number = stated(def, op->operands[1]);
    const bool is_least = op->kind == CELL_OP_MAX;
    if (number == NULL) {
        return false;
    }
    bounds->least = is_least ? *number : -INFINITY;
    bounds->most = is_least ? INFINITY : *number;
    return true;
}

/* Bounds of bounds: those that come in the order in which they are held. */
static bool add_bounds(const struct cell_bounds *more, struct cell_bounds *bounds)
{
    const bool is_most_alone = more->least == -INFINITY;
    if (bounds->are && (!is_most_alone || bounds->most != INFINITY)) {
        return false;
    }
    const float least = bounds->are ? bounds->least : more->least;
    *bounds = (struct cell_bounds){.are = true, .least = least, .most = more->most};
    return true;
}

/* A RELU of a LINEAR or FILTER that nothing else reads, or its MAX or MIN with a number, goes along
 * with it: its kernel has each result in hand. */
static bool join_bounds(struct cell_program *program, const struct cell_op *from)
{
    const struct cell_def *def = &program->type->def;
    struct cell_bounds bounds;
    if (def->as_written || !program->kernels->takes_bounds || !find_bounds(def, from, &bounds) ||
        count_reads(def, from->operands[0]) > 1 ||
        def->values[from->result].width != def->values[from->operands[0]].width) {
        return false;
    }
    for (uint32_t o = 0; o < program->n_ops; o++) {
        struct cell_program_op *op = &program->ops[o];
        const bool may_have_bounds = op->kind == CELL_OP_FILTER ||
                                     (op->kind == CELL_OP_LINEAR && op->op->precision == CELL_FP32);
        if (may_have_bounds && op->out == from->operands[0] && add_bounds(&bounds, &op->bounds)) {
            program->values[op->out].place = CELL_PLACE_NONE;
            op->out = from->result;
            return true;
        }
    }
    return false;
}

/* RESOURCE_EXHAUSTED. */
static enum base_status list_op(struct cell_program *program, const struct cell_op *from)
{
    if (cell_op_is_tree(from->kind)) {
        return cell_tree_list(program, from);
    }
    if (from->kind == CELL_OP_LSTM) {
        add_lstm(program, from);
    } else if (from->kind == CELL_OP_GRU) {
        add_gru(program, from);
    } else if (from->kind == CELL_OP_RNN) {
        (void)add_gated(program, from,
                        from->variant == CELL_RNN_RELU ? CELL_GATED_RELU : CELL_GATED_TANH);
    } else if (from->kind != CELL_OP_CONST && !join_bounds(program, from)) {
        bool is_view = program->values[from->result].place == CELL_PLACE_VIEW;
        struct cell_program_op *op =
            cell_program_add_op(program, from->kind, is_view ? CELL_SHARE_EACH : share_of(from));
        op->op = from;
        op->out = from->result;
        op->n_in = from->n_operands;
        memcpy(op->in, from->operands, sizeof(op->in));
        op->lookup = from->kind == CELL_OP_GATHER ? from->weights[0] : op->lookup;
    }
    return BASE_OK;
}

void cell_program_add_next(struct cell_program *program, uint32_t from, uint32_t state)
{
    const struct cell_value shape = program->values[from].shape;
    program->next_value[state] = cell_program_add_value(program, shape, CELL_PLACE_NEXT, state);
    add_copy(program, from, program->next_value[state]);
}

enum base_status cell_program_list(struct cell_program *program)
{
    const struct cell_def *def = &program->type->def;
    place_values(program);
    for (uint32_t o = 0; o < def->n_ops; o++) {
        BASE_TRY(list_op(program, &def->ops[o]));
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        uint32_t value = def->state_next[s];
        bool is_there =
            program->values[value].place == CELL_PLACE_NEXT && program->values[value].index == s;
        program->next_value[s] = value;
        if (!is_there) {
            cell_program_add_next(program, value, s);
        }
    }
    return BASE_OK;
}
