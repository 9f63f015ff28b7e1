/* The cells of a TreeLSTM on the CPU device; see tree.h.
 *
 *   leaf, binary   one gated op
 *   child-sum      h~ = h_1 + .. + h_n by rows
 *                  f_k of all children by panels: a product over n * rows rows of h
 *                  i, o, u over x and h~, and the new state, by panels
 *
 * The operands of a gated op are those of the definition's, but for a child-sum's: [x,] h_1 .. h_n
 * of the f_k, [x,] h~, c_1 .. c_n, f of the last. f is one value for all children, side by side,
 * each with a row's room. Listing and loading run on the thread that loads types, the rest in the
 * team. Nothing is computed ahead: a node is one step. */
#include "cells/cpu/tree.h"

#include "base/assert.h"
#include "cells/cpu/panels.h"

#include <string.h>

static uint32_t hidden_of(const struct cell_op *op)
{
    return op->weights[0].rows / cell_op_gates(op->kind);
}

static uint32_t of_x(const struct cell_op *op)
{
    return cell_op_has_x(op) ? 1 : 0;
}

/* ---- Listing -------------------------------------------------------------------------------- */

/* h and c of a node. */
static struct cell_program_op *add_node(struct cell_program *program, const struct cell_op *from,
                                        enum cell_gated_kind kind)
{
    struct cell_program_op *op = cell_program_add_gated(program, from, kind);
    op->second = from->result + 1;
    return op;
}

static void add_in(struct cell_program_op *op, uint32_t value)
{
    base_assert(op->n_in < CELL_OPERANDS_MAX);
    op->in[op->n_in++] = value;
}

/* The sum of the children's h into a value of its own: a chain of additions, of which only the last
 * has a row. */
static enum base_status add_sum(struct cell_program *program, const struct cell_op *from,
                                uint32_t *out)
{
    const uint32_t n = cell_op_children(from);
    struct cell_pointwise *chain = base_arena_alloc(&program->arena, sizeof(*chain));
    uint32_t *values =
        base_arena_array(&program->arena, CELL_POINTWISE_VALUES_MAX, sizeof(values[0]));
    if (chain == NULL || values == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    struct cell_program_op *op = cell_program_add_op(program, CELL_OP_COUNT, CELL_SHARE_ROWS);
    *out =
        cell_program_add_value(program, program->values[from->result].shape, CELL_PLACE_SCRATCH, 0);
    *chain = (struct cell_pointwise){.width = hidden_of(from), .n_values = 2 * n - 1};
    for (uint32_t k = 0; k < n; k++) {
        add_in(op, from->operands[of_x(from) + 2 * k]);
        chain->values[k].tile = CELL_POINTWISE_ROW;
        values[k] = op->in[k];
    }
    for (uint32_t k = 1; k < n; k++) {
        bool is_last = k + 1 == n;
        uint32_t sum = n + k - 1;
        chain->ops[chain->n_ops++] = (struct cell_pointwise_op){
            .kind = CELL_OP_ADD, .n_in = 2, .in = {k == 1 ? 0 : sum - 1, k}, .out = sum};
        chain->values[sum].tile = is_last ? CELL_POINTWISE_ROW : 0;
        values[sum] = *out;
    }
    op->chain = chain;
    op->chain_values = values;
    op->out = *out;
    return BASE_OK;
}

static enum base_status add_child_sum(struct cell_program *program, const struct cell_op *from)
{
    const uint32_t n = cell_op_children(from);
    const uint32_t first = of_x(from);
    const struct cell_value forgets = {CELL_F32, n * CELL_ROW_FLOATS(hidden_of(from))};
    const uint32_t f = cell_program_add_value(program, forgets, CELL_PLACE_SCRATCH, 0);
    uint32_t sum = from->operands[first];
    if (n > 1) {
        BASE_TRY(add_sum(program, from, &sum));
    }
    struct cell_program_op *forget = cell_program_add_gated(program, from, CELL_GATED_FORGET);
    forget->out = f;
    struct cell_program_op *tree = add_node(program, from, CELL_GATED_TREE);
    for (uint32_t x = 0; x < first; x++) {
        add_in(forget, from->operands[x]);
        add_in(tree, from->operands[x]);
    }
    add_in(tree, sum);
    for (uint32_t k = 0; k < n; k++) {
        add_in(forget, from->operands[first + 2 * k]);
        add_in(tree, from->operands[first + 2 * k + 1]);
    }
    add_in(tree, f);
    program->pairs_max = n > program->pairs_max ? n : program->pairs_max;
    return BASE_OK;
}

enum base_status cell_tree_list(struct cell_program *program, const struct cell_op *from)
{
    if (from->kind == CELL_OP_TREE_SUM) {
        return add_child_sum(program, from);
    }
    bool is_leaf = from->kind == CELL_OP_TREE_LEAF;
    struct cell_program_op *op =
        add_node(program, from, is_leaf ? CELL_GATED_TREE : CELL_GATED_TREE_BINARY);
    op->n_in = from->n_operands;
    memcpy(op->in, from->operands, sizeof(op->in));
    return BASE_OK;
}

/* ---- Loading -------------------------------------------------------------------------------- */

enum base_status cell_tree_load(const struct cell_kernels *kernels, struct cell_program_op *op)
{
    const struct cell_op *from = op->op;
    const struct cell_weight *weights = from->weights;
    const uint32_t matrices = cell_op_matrices(from);
    struct cell_gated *gated = &op->gated;
    gated->precision = from->precision;
    gated->hidden = hidden_of(from);
    // A child-sum's f stands behind i, o and u.
    const size_t first = gated->kind == CELL_GATED_FORGET ? 3 * (size_t)gated->hidden : 0;
    const float **const given[] = {&gated->w, &gated->r, &gated->r_right};
    uint32_t *const terms[] = {&gated->inputs, &gated->feedback, &gated->right};
    for (uint32_t w = 0; w < matrices; w++) {
        uint32_t part = w + 1 - of_x(from); // without x the first matrix is of h
        base_assert(part < CELL_GATED_PARTS);
        const float *data = weights[w].data;
        *terms[part] = weights[w].cols;
        *given[part] = data + first * weights[w].cols;
    }
    if (from->n_weights > matrices) {
        const float *b = weights[matrices].data;
        gated->b_w = b + first;
    }
    return kernels->gated_load(gated);
}

enum base_status cell_tree_make_space(struct cell_program *program, struct cell_space *space)
{
    const size_t pairs = (size_t)program->block_rows * program->pairs_max;
    if (pairs == 0) {
        return BASE_OK;
    }
    space->pair_x = base_arena_array(&program->arena, pairs, sizeof(space->pair_x[0]));
    space->pair_h = base_arena_array(&program->arena, pairs, sizeof(space->pair_h[0]));
    space->pair_out = base_arena_array(&program->arena, pairs, sizeof(space->pair_out[0]));
    return space->pair_x == NULL || space->pair_h == NULL || space->pair_out == NULL
               ? BASE_RESOURCE_EXHAUSTED
               : BASE_OK;
}

/* ---- Running -------------------------------------------------------------------------------- */

static float *const *rows_of(const struct cell_view *view, uint32_t value)
{
    return (float *const *)(void *)view->space->rows[value];
}

static const float *const *const_rows_of(const struct cell_view *view, uint32_t value)
{
    return (const float *const *)rows_of(view, value);
}

static void step_panels(const struct cell_view *view, const struct cell_program_op *op,
                        struct cell_gated_step *step)
{
    step->scratch = view->space->scratch;
    step->backwards = cell_view_is_backwards(view);
    cell_panels_gated(view, cell_view_wave(view, op), step);
}

/* All children of all rows in one product, so that it reads the weights once. */
static void forget(const struct cell_view *view, const struct cell_program_op *op)
{
    const struct cell_space *space = view->space;
    const uint32_t first = of_x(op->op);
    const uint32_t children = op->n_in - first;
    const size_t room = CELL_ROW_FLOATS((size_t)op->gated.hidden);
    uint32_t n = 0;
    for (uint32_t r = 0; r < view->n_rows; r++) {
        for (uint32_t k = 0; k < children; k++, n++) {
            space->pair_x[n] = first == 1 ? rows_of(view, op->in[0])[r] : NULL;
            space->pair_h[n] = rows_of(view, op->in[first + k])[r];
            space->pair_out[n] = rows_of(view, op->out)[r] + k * room;
        }
    }
    struct cell_gated_step step = {.gated = &op->gated,
                                   .n_rows = n,
                                   .x = first == 1 ? space->pair_x : NULL,
                                   .h = space->pair_h,
                                   .out = space->pair_out};
    step_panels(view, op, &step);
}

/* A leaf, a binary node, or what is left of a child-sum node. */
static void grow(const struct cell_view *view, const struct cell_program_op *op)
{
    const bool is_binary = op->gated.kind == CELL_GATED_TREE_BINARY;
    const uint32_t *in = op->in + of_x(op->op);
    const float *const *children[CELL_CHILDREN_MAX];
    struct cell_gated_step step = {.gated = &op->gated,
                                   .n_rows = view->n_rows,
                                   .x = of_x(op->op) == 1 ? const_rows_of(view, op->in[0]) : NULL,
                                   .n_children = cell_op_children(op->op),
                                   .children = children,
                                   .out = rows_of(view, op->out),
                                   .second = rows_of(view, op->second)};
    for (uint32_t k = 0; k < step.n_children; k++) {
        children[k] = const_rows_of(view, is_binary ? in[2 * k + 1] : in[k + 1]);
    }
    if (step.n_children > 0) {
        step.h = const_rows_of(view, in[0]);
        step.h_right = is_binary ? const_rows_of(view, in[2]) : NULL;
        step.forget = is_binary ? NULL : const_rows_of(view, in[step.n_children + 1]);
    }
    step_panels(view, op, &step);
}

void cell_tree_run(const struct cell_view *view, const struct cell_program_op *op)
{
    if (op->gated.kind == CELL_GATED_FORGET) {
        forget(view, op);
    } else {
        grow(view, op);
    }
}
