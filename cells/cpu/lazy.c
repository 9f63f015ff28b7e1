/* See lazy.h. From the last op to the first: who reads a value, and when? What a SELECT takes only
 * where its condition is above 0, or only where it is not, is needed of those rows, and so is what
 * it alone is made of. Only products are left out; what is made of their results, where these are
 * no results, is not looked at: the SELECT takes the other side. So nothing that such values go
 * through may trust them: integers are not followed. */
#include "cells/cpu/lazy.h"

#include "cells/cpu/patches.h"

/* When a value is needed. */
enum when { NEVER, ABOVE, NOT_ABOVE, ALWAYS };

struct need {
    enum when when;
    uint32_t condition; /* value */
};

static void add_need(struct need *to, struct need more)
{
    const bool is_same = to->when == more.when && to->condition == more.condition;
    if (to->when == NEVER) {
        *to = more;
    } else if (more.when != NEVER && !is_same) {
        to->when = ALWAYS;
    }
}

/* Whether every member knows the condition before the first op of a step. */
static bool is_known(const struct cell_program *program, uint32_t condition)
{
    const struct cell_program_value *value = &program->values[condition];
    const bool is_there = value->place == CELL_PLACE_STATE || value->place == CELL_PLACE_INPUT;
    return is_there && value->shape.dtype == CELL_F32 && value->shape.width == 1;
}

static void need_select(const struct cell_program *program, const struct cell_op *op,
                        struct need own, struct need *needs)
{
    const struct need always = {.when = ALWAYS};
    const uint32_t condition = op->operands[0];
    const bool is_lazy = own.when == ALWAYS && is_known(program, condition);
    add_need(&needs[condition], always);
    add_need(&needs[op->operands[1]], is_lazy ? (struct need){ABOVE, condition} : own);
    add_need(&needs[op->operands[2]], is_lazy ? (struct need){NOT_ABOVE, condition} : own);
}

/* Whether rows that are no results do no harm to it. */
static bool may_be_followed(const struct cell_op *op)
{
    return cell_op_is_pointwise(op->kind) || cell_op_has_groups(op->kind) ||
           op->kind == CELL_OP_LINEAR || op->kind == CELL_OP_LSTM || op->kind == CELL_OP_GRU ||
           op->kind == CELL_OP_RNN || op->kind == CELL_OP_SLICE || op->kind == CELL_OP_CONCAT ||
           op->kind == CELL_OP_COPY || op->kind == CELL_OP_SPREAD || op->kind == CELL_OP_SUM ||
           op->kind == CELL_OP_MEAN || op->kind == CELL_OP_FILTER;
}

static struct need need_of(const struct cell_op *op, const struct need *needs)
{
    struct need need = needs[op->result];
    for (uint32_t i = 1; i < cell_op_results(op->kind); i++) {
        add_need(&need, needs[op->result + i]);
    }
    return need;
}

static void find_needs(const struct cell_program *program, struct need *needs)
{
    const struct cell_def *def = &program->type->def;
    const struct need always = {.when = ALWAYS};
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        add_need(&needs[def->outputs[o]], always);
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        add_need(&needs[def->state_next[s]], always);
    }
    for (uint32_t o = def->n_ops; o-- > 0;) {
        const struct cell_op *op = &def->ops[o];
        const struct need own = need_of(op, needs);
        if (op->kind == CELL_OP_SELECT) {
            need_select(program, op, own, needs);
            continue;
        }
        for (uint32_t i = 0; i < op->n_operands; i++) {
            const bool is_float = def->values[op->operands[i]].dtype == CELL_F32;
            const bool is_followed = own.when == NEVER || (is_float && may_be_followed(op));
            add_need(&needs[op->operands[i]], is_followed ? own : always);
        }
    }
}

void cell_program_find_lazy(struct cell_program *program)
{
    struct need needs[CELL_VALUES_MAX] = {{.when = NEVER}};
    program->has_guards = false;
    if (program->type->def.as_written) {
        return;
    }
    find_needs(program, needs);
    for (uint32_t o = 0; o < program->n_ops; o++) {
        struct cell_program_op *op = &program->ops[o];
        const bool is_product = op->kind == CELL_OP_LINEAR ||
                                (op->is_gated && !cell_op_is_tree(op->kind) && !op->has_window);
        if (!is_product || op->op == NULL || op->fills_windows || cell_patches_has(op)) {
            continue;
        }
        const struct need need = need_of(op->op, needs);
        op->is_guarded = need.when == ABOVE || need.when == NOT_ABOVE;
        op->guard = need.condition;
        op->guard_is_above = need.when == ABOVE;
        program->has_guards |= op->is_guarded;
    }
}

enum base_status cell_lazy_make_space(struct cell_program *program, struct cell_space *space)
{
    if (!program->has_guards) {
        return BASE_OK;
    }
    space->chosen = base_arena_array(&program->arena, program->block_rows, sizeof(uint32_t));
    for (uint32_t i = 0; i < CELL_CHOSEN_MAX; i++) {
        space->chosen_rows[i] =
            base_arena_array(&program->arena, program->block_rows, sizeof(uint8_t *));
        if (space->chosen == NULL || space->chosen_rows[i] == NULL) {
            return BASE_RESOURCE_EXHAUSTED;
        }
    }
    return BASE_OK;
}
