/* The cells of a TreeLSTM on the CPU device; see tree.h.
 *
 *   leaf, binary   one gated op
 *   child-sum      h~ = h_1 + .. + h_n by rows
 *                  f_k of all children by panels: a product over rows of x, and one that begins
 * with its sums over h of all children that are there i, o, u over x and h~, and the new state, by
 * panels
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

/* Nodes and their children that are there, pairs, in a forget op; each member has its own. */
struct cell_pairs {
    uint32_t *at;        /* [block_rows + 1]: where a node's begin */
    const float **h;     /* [block_rows * pairs_max]: the child's, */
    const float **ahead; /* what its sums begin with, */
    float **out;         /* and where f goes */
    float **over_x;      /* [block_rows]: a node's sums over x, of the panels at hand */
};

/* Floats of a node's sums over x. */
static size_t widest_forget(const struct cell_program *program)
{
    size_t most = 0;
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        const size_t floats = (size_t)op->gated.panels * op->gated.columns;
        const bool is_forget = op->is_gated && op->gated.kind == CELL_GATED_FORGET;
        most = is_forget && floats > most ? floats : most;
    }
    return most;
}

enum base_status cell_tree_make_space(struct cell_program *program, struct cell_space *space)
{
    struct base_arena *arena = &program->arena;
    const uint32_t rows = program->block_rows;
    const size_t n = (size_t)rows * program->pairs_max;
    if (n == 0) {
        return BASE_OK;
    }
    struct cell_pairs *pairs = base_arena_alloc(arena, sizeof(*pairs));
    if (pairs == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    *pairs = (struct cell_pairs){
        .at = base_arena_array(arena, (size_t)rows + 1, sizeof(pairs->at[0])),
        .h = base_arena_array(arena, n, sizeof(pairs->h[0])),
        .ahead = base_arena_array(arena, n, sizeof(pairs->ahead[0])),
        .out = base_arena_array(arena, n, sizeof(pairs->out[0])),
        .over_x = base_arena_array(arena, rows, sizeof(pairs->over_x[0])),
    };
    bool is_whole = pairs->at != NULL && pairs->h != NULL && pairs->ahead != NULL &&
                    pairs->out != NULL && pairs->over_x != NULL;
    const size_t bytes = CELL_ROW_FLOATS(widest_forget(program)) * sizeof(float);
    for (uint32_t r = 0; r < rows && is_whole; r++) {
        pairs->over_x[r] = base_arena_alloc_aligned64(arena, bytes);
        is_whole = pairs->over_x[r] != NULL;
    }
    space->pairs = pairs;
    return is_whole ? BASE_OK : BASE_RESOURCE_EXHAUSTED;
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

/* ---- Forget gates ---- */

/* One forget op over the view's rows, which are nodes. */
struct forget {
    const struct cell_view *view;
    const struct cell_program_op *op;
    struct cell_pairs *pairs;
    uint32_t children; /* that a node can have */
    bool has_x;
};

/* A child that is not there reads as zeros, those of the program. */
static bool is_there(const struct forget *f, uint32_t r, uint32_t k)
{
    const uint32_t h = f->op->in[of_x(f->op->op) + k];
    return f->view->space->rows[h][r] != f->view->program->zeros;
}

static float *f_of(const struct forget *f, uint32_t r, uint32_t k)
{
    return rows_of(f->view, f->op->out)[r] + k * CELL_ROW_FLOATS((size_t)f->op->gated.hidden);
}

/* Returns how many pairs there are. */
static uint32_t list_pairs(const struct forget *f)
{
    const struct cell_pairs *pairs = f->pairs;
    uint32_t n = 0;
    for (uint32_t r = 0; r < f->view->n_rows; r++) {
        pairs->at[r] = n;
        for (uint32_t k = 0; k < f->children; k++) {
            if (is_there(f, r, k)) {
                pairs->h[n] = rows_of(f->view, f->op->in[of_x(f->op->op) + k])[r];
                pairs->ahead[n] = pairs->over_x[r];
                pairs->out[n++] = f_of(f, r, k);
            }
        }
    }
    pairs->at[f->view->n_rows] = n;
    return n;
}

/* The sums over x of a piece's nodes, once for all of their children. */
static void sum_over_x(const struct forget *f, const struct cell_panels *panels)
{
    const struct cell_gated_ahead ahead = {.gated = &f->op->gated,
                                           .n_rows = panels->row_end - panels->row_first,
                                           .panel_first = panels->first,
                                           .panel_end = panels->end,
                                           .x = const_rows_of(f->view, f->op->in[0]) +
                                                panels->row_first,
                                           .out = f->pairs->over_x + panels->row_first,
                                           .scratch = f->view->space->scratch};
    f->view->program->kernels->gated_ahead(&ahead);
}

static void step_pairs(const struct forget *f, const struct cell_panels *panels)
{
    const struct cell_pairs *pairs = f->pairs;
    const uint32_t first = pairs->at[panels->row_first];
    const struct cell_gated_step step = {.gated = &f->op->gated,
                                         .n_rows = pairs->at[panels->row_end] - first,
                                         .panel_first = panels->first,
                                         .panel_end = panels->end,
                                         .ahead = f->has_x ? pairs->ahead + first : NULL,
                                         .h = pairs->h + first,
                                         .out = pairs->out + first,
                                         .scratch = f->view->space->scratch,
                                         .backwards = cell_view_is_backwards(f->view)};
    if (step.n_rows > 0) {
        f->view->program->kernels->gated_step(&step);
    }
}

/* f of children that are not there, whose h adds nothing to the sums, and none to their bits: what
 * is multiplied with their c, which is 0 unless f is no number. A panel has one gate, so units are
 * columns. */
static void fill_absent(const struct forget *f, const struct cell_panels *panels)
{
    const struct cell_gated *gated = &f->op->gated;
    const size_t at = (size_t)panels->first * gated->columns;
    const size_t end = (size_t)panels->end * gated->columns;
    const uint32_t n = (uint32_t)((end < gated->hidden ? end : gated->hidden) - at);
    for (uint32_t r = panels->row_first; r < panels->row_end; r++) {
        const float *sums = f->has_x ? f->pairs->over_x[r] : gated->bias;
        const float *filled = NULL;
        for (uint32_t k = 0; k < f->children; k++) {
            float *to = f_of(f, r, k) + at;
            if (is_there(f, r, k)) {
                continue;
            }
            if (filled == NULL) {
                f->view->program->kernels->sigmoid(n, sums + at, to);
                filled = to;
            } else {
                memcpy(to, filled, n * sizeof(float));
            }
        }
    }
}

/* The children of all rows in one product, so that it reads the weights once; those alone that are
 * there. */
static void forget(const struct cell_view *view, const struct cell_program_op *op)
{
    const struct forget f = {.view = view,
                             .op = op,
                             .pairs = view->space->pairs,
                             .children = op->n_in - of_x(op->op),
                             .has_x = of_x(op->op) == 1};
    const struct cell_gated *gated = &op->gated;
    const uint32_t n = list_pairs(&f);
    struct cell_panels panels;
    cell_panels_begin(&panels, view, cell_view_wave(view, op), gated->panels, view->n_rows,
                      cell_panels_flops(gated, gated->inputs, view->n_rows) +
                          cell_panels_flops(gated, gated->feedback, n));
    panels.unit = n > 1 ? 1 : 2; // one row goes through two at once
    while (cell_panels_next(&panels)) {
        if (f.has_x) {
            sum_over_x(&f, &panels);
        }
        step_pairs(&f, &panels);
        fill_absent(&f, &panels);
    }
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
