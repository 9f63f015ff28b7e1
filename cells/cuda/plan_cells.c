/* Products: LINEAR, and the gated ops with the kernel that follows their sums; see plan.h.
 *
 * Weights are turned so that a sum's terms lie one below the other, [terms][gates * hidden]: what a
 * product reads for neighbouring columns lies together. Sums start from the bias, then come the
 * terms of x, of h, of h_right, in this order, whether in one product or in several. */
#include "cells/cuda/plan.h"

#include "base/assert.h"
#include "cells/bf16.h"

#include <string.h>

/* ---- Products ------------------------------------------------------------------------------- */

/* A gated op's matrix [gates * hidden, terms] of which a product takes some gates, and what it is
 * multiplied with. */
struct part {
    const struct cell_weight *weight;
    uint32_t gate, gates; /* the first, how many */
    struct cell_step_place rows;
};

/* Products of an op's first patch, whose weights and biases those of the others are: each adds as
 * many in the same order. */
struct shared {
    bool is_there;
    uint32_t n;
    struct cell_step_product products[4]; /* copies: where ops stand may change */
    cell_step_address peepholes;
};

/* A product over one part or several side by side; their columns are the same gates. */
struct sum {
    const struct cell_op *op;
    uint32_t n_parts;
    struct part parts[3];
    const float *bias; /* [gates * hidden] of the parts' gates; NULL: none */
    const struct cell_step_place *start;
    struct cell_step_place out;
    struct shared *shared; /* of patches; NULL: the op has none */
};

/* What an LSTM, GRU or RNN reads and writes, or one patch of it. */
struct unit {
    struct cell_step_place x, h, c, out, c_out;
    struct shared *shared;
};

static uint32_t hidden_of(const struct cell_op *op)
{
    return op->weights[0].rows / cell_op_gates(op->kind);
}

/* With bf16 weights what they are multiplied with is bf16 too (docs/kernels.md). */
static enum cell_products products_of(const struct cell_cuda__plan *plan, const struct cell_op *op)
{
    return op->precision == CELL_BF16 ? CELL_PRODUCTS_BF16 : plan->def->products;
}

/* out: [terms][columns]. */
static void turn(uint32_t hidden, const struct part *part, float *out)
{
    const uint32_t columns = part->gates * hidden;
    const uint32_t terms = part->weight->cols;
    const float *from = (const float *)part->weight->data + (size_t)part->gate * hidden * terms;
    for (uint32_t k = 0; k < terms; k++) {
        for (uint32_t c = 0; c < columns; c++) {
            out[(size_t)k * columns + c] = from[(size_t)c * terms + k];
        }
    }
}

static cell_step_address copy_floats(struct cell_cuda__plan *plan, const float *from, size_t n)
{
    cell_step_address at = 0;
    float *to = cell_cuda__weights_begin(plan, n, &at);
    if (to != NULL) {
        memcpy(to, from, n * sizeof(*to));
    }
    cell_cuda__weights_end(plan, to, n, at);
    return at;
}

/* A matrix that a library takes: a row for each row. */
static struct cell_step_place matrix_of(struct cell_cuda__plan *plan, uint32_t value)
{
    const struct cell_step_place place = cell_cuda__place(plan, value);
    const uint32_t words = plan->def->values[value].width;
    if (place.pitch != 0) {
        return place;
    }
    const struct cell_step_place matrix = cell_cuda__matrix(plan, words * sizeof(float));
    cell_cuda__add(plan, CELL_STEP_MOVE, words, "a constant's rows")->move =
        (struct cell_step_move){.in = place, .out = matrix, .words = words};
    return matrix;
}

/* The last product that was added is our own kernel's: a library would choose an order for weights
 * that others share, and wants its rows aligned. */
static void keep_from_library(struct cell_cuda__plan *plan)
{
    if (plan->status == BASE_OK) {
        plan->program->ops[plan->program->n_ops - 1].is_of_library = false;
    }
}

/* The part's weights to the product's own, unless they are there. */
static void begin_factors(struct cell_cuda__plan *plan, const struct sum *sum,
                          struct cell_cuda__factors *factors)
{
    if (sum->shared != NULL && sum->shared->is_there) {
        factors->same = &sum->shared->products[sum->shared->n];
        return;
    }
    factors->weights = cell_cuda__factors_begin(plan, factors->inputs, factors->outputs);
    size_t at = 0;
    for (uint32_t p = 0; p < sum->n_parts && factors->weights != NULL; p++) {
        turn(hidden_of(sum->op), &sum->parts[p], factors->weights + at);
        at += (size_t)sum->parts[p].weight->cols * factors->outputs;
    }
}

static void plan_sum(struct cell_cuda__plan *plan, const struct sum *sum)
{
    const uint32_t columns = sum->parts[0].gates * hidden_of(sum->op);
    const bool is_there = sum->shared != NULL && sum->shared->is_there;
    struct cell_cuda__factors factors = {.a = sum->parts[0].rows,
                                         .outputs = columns,
                                         .products = products_of(plan, sum->op),
                                         .about = cell_op_name(sum->op->kind)};
    for (uint32_t p = 0; p < sum->n_parts; p++) {
        factors.inputs += sum->parts[p].weight->cols;
    }
    begin_factors(plan, sum, &factors);
    const cell_step_address bias = is_there            ? factors.same->bias
                                   : sum->bias != NULL ? copy_floats(plan, sum->bias, columns)
                                                       : 0;
    struct cell_step_product *product = cell_cuda__plan_product(plan, &factors);
    product->out = sum->out;
    product->bias = bias;
    if (sum->start != NULL) {
        product->start = *sum->start;
        product->has_start = 1;
    }
    if (sum->shared != NULL) {
        keep_from_library(plan);
        sum->shared->products[sum->shared->n++] = *product;
    }
}

/* All parts into `out`: one product where they stand side by side, else one after the other. */
static void plan_sums(struct cell_cuda__plan *plan, const struct sum *sum)
{
    bool is_joined = sum->shared == NULL;
    for (uint32_t p = 1; p < sum->n_parts; p++) {
        const struct part *before = &sum->parts[p - 1];
        const cell_step_address behind = before->rows.at + before->weight->cols * sizeof(float);
        is_joined &=
            sum->parts[p].rows.at == behind && sum->parts[p].rows.pitch == before->rows.pitch;
    }
    if (is_joined) {
        plan_sum(plan, sum);
        return;
    }
    for (uint32_t p = 0; p < sum->n_parts; p++) {
        struct sum one = *sum;
        one.n_parts = 1;
        one.parts[0] = sum->parts[p];
        one.bias = p == 0 ? sum->bias : NULL;
        one.start = p == 0 ? sum->start : &sum->out;
        plan_sum(plan, &one);
    }
}

/* What a sum begins with; see products_of(). */
static float start_of(const struct cell_op *op, float bias)
{
    return op->precision == CELL_BF16 ? cell_bf16_start(bias) : bias;
}

/* Freed by the caller; NULL when out of memory. */
static float *bias_of_linear(struct cell_cuda__plan *plan, const struct cell_op *op)
{
    const uint32_t n = op->weights[1].cols;
    const float *from = op->weights[1].data;
    float *bias = base_alloc_array(n, sizeof(*bias));
    if (bias == NULL) {
        plan->status = base_fail(plan->error, BASE_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        bias[i] = start_of(op, from[i]);
    }
    return bias;
}

/* What the places of a picture read, place behind place. */
static struct cell_step_place plan_places(struct cell_cuda__plan *plan, const struct cell_op *op,
                                          struct cell_step_place in)
{
    const uint32_t words = op->patches * op->weights[0].rows;
    const struct cell_step_place out = cell_cuda__matrix(plan, words * sizeof(float));
    cell_cuda__add(plan, CELL_STEP_PLACES, words, "LINEAR")->places =
        (struct cell_step_places){.in = in,
                                  .out = out,
                                  .picture = cell_cuda__picture(plan, op),
                                  .words = words,
                                  .terms = op->weights[0].rows};
    return out;
}

/* Each patch of the rows is a product, all with the same weights. */
void cell_cuda__plan_linear(struct cell_cuda__plan *plan, const struct cell_op *op)
{
    const struct cell_weight *w = &op->weights[0];
    struct cell_step_place a = matrix_of(plan, op->operands[0]);
    uint32_t step = op->step;
    const struct cell_step_place out = cell_cuda__place(plan, op->result);
    struct cell_cuda__factors factors = {.inputs = w->rows,
                                         .outputs = w->cols,
                                         .products = products_of(plan, op),
                                         .about = "LINEAR"};
    struct cell_step_product first;
    factors.weights = cell_cuda__factors_begin(plan, w->rows, w->cols);
    if (factors.weights != NULL) {
        memcpy(factors.weights, w->data, (size_t)w->rows * w->cols * sizeof(float));
    }
    float *bias = op->n_weights > 1 ? bias_of_linear(plan, op) : NULL;
    const cell_step_address bias_at = op->n_weights > 1 ? copy_floats(plan, bias, w->cols) : 0;
    if (cell_op_has_picture(op)) {
        a = plan_places(plan, op, a);
        step = w->rows;
    }
    for (uint32_t p = 0; p < cell_op_patches(op); p++) {
        factors.a = cell_cuda__columns(a, (size_t)p * step * sizeof(float));
        struct cell_step_product *product = cell_cuda__plan_product(plan, &factors);
        product->out = cell_cuda__columns(out, (size_t)p * w->cols * sizeof(float));
        product->bias = bias_at;
        if (op->patches > 0) {
            keep_from_library(plan);
        }
        if (p == 0) {
            first = *product; // where ops stand may change
            factors.same = &first;
            factors.weights = NULL;
        }
    }
    base_free(bias);
}

/* ---- Gated ops ------------------------------------------------------------------------------ */

/* Operands whose rows the op's matrices are multiplied with, in the order of the sums. */
static uint32_t factors_of(const struct cell_op *op, uint32_t out[3])
{
    uint32_t n = 0;
    const bool is_tree = cell_op_is_tree(op->kind);
    const bool has_x = !is_tree || cell_op_has_x(op);
    if (has_x) {
        out[n++] = op->operands[0];
    }
    if (!is_tree) {
        out[n++] = op->operands[1];
    } else if (op->kind == CELL_OP_TREE_BINARY) {
        out[n++] = op->operands[has_x ? 1 : 0];
        out[n++] = op->operands[has_x ? 3 : 2];
    }
    return n;
}

/* A GRU multiplies x and h apart; a TREE_SUM the sum of its children's h; patches are parts of
 * rows.
 */
void cell_cuda__join(struct cell_cuda__plan *plan, const struct cell_op *op)
{
    uint32_t factors[3];
    const uint32_t n = factors_of(op, factors);
    size_t bytes = 0;
    bool is_free = n > 1 && op->kind != CELL_OP_GRU && op->kind != CELL_OP_TREE_SUM &&
                   cell_op_patches(op) == 1;
    for (uint32_t i = 0; i < n; i++) {
        is_free &= !plan->is_placed[factors[i]] && !plan->is_view[factors[i]];
        is_free &= i == 0 || (factors[i] != factors[0] && factors[i] != factors[i - 1]);
        bytes += cell_cuda__bytes(&plan->def->values[factors[i]]);
    }
    if (!is_free) {
        return;
    }
    const struct cell_step_place whole = cell_cuda__matrix(plan, bytes);
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        plan->places[factors[i]] = cell_cuda__columns(whole, at);
        plan->is_placed[factors[i]] = true;
        at += cell_cuda__bytes(&plan->def->values[factors[i]]);
    }
}

/* Biases of gates first.., where there are two the sum of both; zeros without. Freed by the caller;
 * NULL where weights are only counted, or out of memory. */
static float *biases_of(struct cell_cuda__plan *plan, const struct cell_op *op, uint32_t gates,
                        bool of_w, bool of_r)
{
    const uint32_t hidden = hidden_of(op);
    const uint32_t all = gates * hidden;
    const uint32_t at = cell_op_matrices(op);
    float *sum = base_alloc_array(all, sizeof(*sum));
    if (sum == NULL) {
        plan->status = base_fail(plan->error, BASE_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    if (op->n_weights <= at) {
        return sum;
    }
    const float *w = op->weights[at].data;
    const bool has_two = op->weights[at].cols == 2 * all;
    for (uint32_t i = 0; i < all; i++) {
        sum[i] = has_two && of_w && of_r ? w[i] + w[all + i] : has_two && of_r ? w[all + i] : w[i];
        sum[i] = start_of(op, sum[i]);
    }
    return sum;
}

/* Adds the sums over all factors, whose rows stand there, every gate, to a new matrix. */
static struct cell_step_place plan_gates(struct cell_cuda__plan *plan, const struct cell_op *op,
                                         const struct cell_step_place rows[3],
                                         struct shared *shared)
{
    const uint32_t gates = cell_op_gates(op->kind);
    uint32_t factors[3];
    struct sum sum = {.op = op, .n_parts = factors_of(op, factors), .shared = shared};
    float *bias = biases_of(plan, op, gates, true, true);
    for (uint32_t p = 0; p < sum.n_parts; p++) {
        sum.parts[p] = (struct part){.weight = &op->weights[p], .gates = gates, .rows = rows[p]};
    }
    sum.bias = bias;
    sum.out = cell_cuda__matrix(plan, (size_t)gates * hidden_of(op) * sizeof(float));
    plan_sums(plan, &sum);
    base_free(bias);
    return sum.out;
}

static struct cell_step_place unit_gates(struct cell_cuda__plan *plan, const struct cell_op *op,
                                         const struct unit *unit)
{
    return plan_gates(plan, op, (const struct cell_step_place[3]){unit->x, unit->h}, unit->shared);
}

static void plan_lstm(struct cell_cuda__plan *plan, const struct cell_op *op,
                      const struct unit *unit)
{
    const uint32_t hidden = hidden_of(op);
    struct cell_step_lstm lstm = {
        .hidden = hidden, .c = unit->c, .h_out = unit->out, .c_out = unit->c_out};
    lstm.sums = unit_gates(plan, op, unit);
    if (op->n_weights > 3 && unit->shared != NULL && unit->shared->is_there) {
        lstm.peepholes = unit->shared->peepholes;
    } else if (op->n_weights > 3) {
        lstm.peepholes = copy_floats(plan, op->weights[3].data, 3 * (size_t)hidden);
    }
    if (unit->shared != NULL) {
        unit->shared->peepholes = lstm.peepholes;
    }
    cell_cuda__add(plan, CELL_STEP_LSTM, hidden, "LSTM")->lstm = lstm;
}

static void plan_rnn(struct cell_cuda__plan *plan, const struct cell_op *op,
                     const struct unit *unit)
{
    struct cell_step_rnn rnn = {
        .hidden = hidden_of(op), .out = unit->out, .is_relu = op->variant == CELL_RNN_RELU ? 1 : 0};
    rnn.sums = unit_gates(plan, op, unit);
    cell_cuda__add(plan, CELL_STEP_RNN, rnn.hidden, "RNN")->rnn = rnn;
}

/* Sums z, r, n over x, and of the form that resets after the product n over h behind them. */
static void plan_gru(struct cell_cuda__plan *plan, const struct cell_op *op,
                     const struct unit *unit)
{
    const uint32_t hidden = hidden_of(op);
    const size_t gate_bytes = hidden * sizeof(float);
    const bool is_after = op->variant == CELL_GRU_RESET_AFTER;
    const struct cell_step_place h = unit->h;
    const struct cell_step_place out = unit->out;
    const struct cell_step_place sums = cell_cuda__matrix(plan, 4 * gate_bytes);
    const struct cell_step_place of_n = cell_cuda__columns(sums, 2 * gate_bytes);
    float *bias = biases_of(plan, op, 3, true, true);
    float *bias_w = biases_of(plan, op, 3, true, false);
    float *bias_r = biases_of(plan, op, 3, false, true);
    if (bias != NULL && bias_w != NULL && is_after) {
        memcpy(bias + 2 * (size_t)hidden, bias_w + 2 * (size_t)hidden, gate_bytes);
    }
    plan_sum(plan, &(struct sum){.op = op,
                                 .n_parts = 1,
                                 .parts = {{&op->weights[0], 0, 3, unit->x}},
                                 .bias = bias,
                                 .out = sums,
                                 .shared = unit->shared});
    plan_sum(plan, &(struct sum){.op = op,
                                 .n_parts = 1,
                                 .parts = {{&op->weights[1], 0, 2, h}},
                                 .start = &sums,
                                 .out = sums,
                                 .shared = unit->shared});
    if (is_after) {
        plan_sum(plan, &(struct sum){.op = op,
                                     .n_parts = 1,
                                     .parts = {{&op->weights[1], 2, 1, h}},
                                     .bias = bias_r == NULL ? NULL : bias_r + 2 * (size_t)hidden,
                                     .out = cell_cuda__columns(sums, 3 * gate_bytes),
                                     .shared = unit->shared});
        cell_cuda__add(plan, CELL_STEP_GRU, hidden, "GRU")->gru =
            (struct cell_step_gru){.sums = sums, .h = h, .out = out, .hidden = hidden};
    } else {
        const struct cell_step_place reset = cell_cuda__matrix(plan, gate_bytes);
        cell_cuda__add(plan, CELL_STEP_GRU_RESET, hidden, "GRU")->gru_reset =
            (struct cell_step_gru_reset){.sums = sums, .h = h, .reset = reset, .hidden = hidden};
        plan_sum(plan, &(struct sum){.op = op,
                                     .n_parts = 1,
                                     .parts = {{&op->weights[1], 2, 1, reset}},
                                     .start = &of_n,
                                     .out = of_n,
                                     .shared = unit->shared});
        cell_cuda__add(plan, CELL_STEP_GRU_NEW, hidden, "GRU")->gru_new =
            (struct cell_step_gru_new){.sums = sums, .h = h, .out = out, .hidden = hidden};
    }
    base_free(bias);
    base_free(bias_w);
    base_free(bias_r);
}

/* ---- Trees ---------------------------------------------------------------------------------- */

/* h and c of child k. */
static uint32_t child_of(const struct cell_op *op, uint32_t k, bool is_c)
{
    return op->operands[(cell_op_has_x(op) ? 1 : 0) + 2 * k + (is_c ? 1 : 0)];
}

/* h_1 + .. + h_n, from the left. */
static struct cell_step_place plan_children(struct cell_cuda__plan *plan, const struct cell_op *op)
{
    const uint32_t n = cell_op_children(op);
    const uint32_t hidden = hidden_of(op);
    struct cell_step_chain chain = {.width = hidden};
    if (n == 1) {
        return matrix_of(plan, child_of(op, 0, false));
    }
    for (uint32_t k = 0; k < n; k++) {
        chain.values[k] = cell_cuda__place(plan, child_of(op, k, false));
        chain.is_read |= UINT64_C(1) << k;
    }
    for (uint32_t k = 1; k < n; k++) {
        chain.ops[chain.n_ops++] =
            (struct cell_step_chain_op){.kind = CELL_OP_ADD,
                                        .in = {(uint8_t)(k == 1 ? 0 : n + k - 2), (uint8_t)k, 0},
                                        .out = (uint8_t)(n + k - 1),
                                        .is_stored = k + 1 == n ? 1 : 0};
    }
    const struct cell_step_place sum = cell_cuda__matrix(plan, hidden * sizeof(float));
    chain.values[2 * n - 2] = sum;
    cell_cuda__add(plan, CELL_STEP_CHAIN, hidden, "TREE_SUM")->chain = chain;
    return sum;
}

/* Gates i, o, u over x and the children's sum; f over x once, then for each child over its h. */
static struct cell_step_place plan_tree_sum(struct cell_cuda__plan *plan, const struct cell_op *op,
                                            struct cell_step_tree *tree)
{
    const uint32_t hidden = hidden_of(op);
    const bool has_x = cell_op_has_x(op);
    const size_t gate_bytes = hidden * sizeof(float);
    const struct cell_weight *u = &op->weights[has_x ? 1 : 0];
    const struct cell_step_place sums = cell_cuda__matrix(plan, 4 * gate_bytes);
    const struct cell_step_place of_f = cell_cuda__columns(sums, 3 * gate_bytes);
    const struct cell_step_place h = plan_children(plan, op);
    float *bias = biases_of(plan, op, 4, true, true);
    if (has_x) {
        plan_sum(plan,
                 &(struct sum){.op = op,
                               .n_parts = 1,
                               .parts = {{&op->weights[0], 0, 4, matrix_of(plan, op->operands[0])}},
                               .bias = bias,
                               .out = sums});
    }
    plan_sum(plan, &(struct sum){.op = op,
                                 .n_parts = 1,
                                 .parts = {{u, 0, 3, h}},
                                 .bias = has_x ? NULL : bias,
                                 .start = has_x ? &sums : NULL,
                                 .out = sums});
    for (uint32_t k = 0; k < tree->n_children; k++) {
        tree->forget[k] = cell_cuda__matrix(plan, gate_bytes);
        plan_sum(plan,
                 &(struct sum){.op = op,
                               .n_parts = 1,
                               .parts = {{u, 3, 1, matrix_of(plan, child_of(op, k, false))}},
                               .bias = has_x || bias == NULL ? NULL : bias + 3 * (size_t)hidden,
                               .start = has_x ? &of_f : NULL,
                               .out = tree->forget[k]});
    }
    base_free(bias);
    return sums;
}

static void plan_tree(struct cell_cuda__plan *plan, const struct cell_op *op)
{
    const uint32_t hidden = hidden_of(op);
    struct cell_step_tree tree = {.hidden = hidden, .n_children = cell_op_children(op)};
    for (uint32_t k = 0; k < tree.n_children; k++) {
        tree.c[k] = cell_cuda__place(plan, child_of(op, k, true));
    }
    if (op->kind == CELL_OP_TREE_SUM && tree.n_children > 0) {
        tree.sums = plan_tree_sum(plan, op, &tree);
    } else {
        uint32_t factors[3];
        struct cell_step_place rows[3] = {{0}};
        const uint32_t n = factors_of(op, factors);
        for (uint32_t p = 0; p < n; p++) {
            rows[p] = matrix_of(plan, factors[p]);
        }
        tree.sums = plan_gates(plan, op, rows, NULL);
        for (uint32_t k = 0; k < tree.n_children; k++) {
            tree.forget[k] =
                cell_cuda__columns(tree.sums, (3 + (size_t)k) * hidden * sizeof(float));
        }
    }
    tree.h_out = cell_cuda__place(plan, op->result);
    tree.c_out = cell_cuda__place(plan, op->result + 1);
    cell_cuda__add(plan, CELL_STEP_TREE, hidden, cell_op_name(op->kind))->tree = tree;
}

/* ---- All gated ops -------------------------------------------------------------------------- */

static void plan_unit(struct cell_cuda__plan *plan, const struct cell_op *op,
                      const struct unit *unit)
{
    if (op->kind == CELL_OP_LSTM) {
        plan_lstm(plan, op, unit);
    } else if (op->kind == CELL_OP_GRU) {
        plan_gru(plan, op, unit);
    } else {
        base_assert(op->kind == CELL_OP_RNN);
        plan_rnn(plan, op, unit);
    }
}

/* Patch p of a row's part of so many floats. */
static struct cell_step_place patch_of(struct cell_step_place whole, uint32_t p, uint32_t floats)
{
    return cell_cuda__columns(whole, (size_t)p * floats * sizeof(float));
}

/* Each patch is an op of its own: apart with its own h and c, else with those that the patch before
 * it has left. */
static void plan_patches(struct cell_cuda__plan *plan, const struct cell_op *op,
                         const struct unit *whole)
{
    const uint32_t hidden = hidden_of(op);
    const bool is_apart = op->order == CELL_PATCHES_APART;
    struct shared shared = {.is_there = false};
    struct unit unit = *whole;
    for (uint32_t i = 0; i < op->patches; i++) {
        const uint32_t p = op->order == CELL_PATCHES_BACKWARD ? op->patches - 1 - i : i;
        if (is_apart) {
            unit.h = patch_of(whole->h, p, op->weights[1].cols);
            unit.c = patch_of(whole->c, p, hidden);
        } else if (i > 0) {
            unit.h = unit.out;
            unit.c = unit.c_out;
        }
        unit.x = patch_of(whole->x, p, op->weights[0].cols);
        unit.out = patch_of(whole->out, p, hidden);
        unit.c_out = patch_of(whole->c_out, p, hidden);
        unit.shared = &shared;
        shared.n = 0;
        plan_unit(plan, op, &unit);
        shared.is_there = true;
    }
}

void cell_cuda__plan_gated(struct cell_cuda__plan *plan, const struct cell_op *op)
{
    if (cell_op_is_tree(op->kind)) {
        plan_tree(plan, op);
        return;
    }
    struct unit unit = {.x = matrix_of(plan, op->operands[0]),
                        .h = matrix_of(plan, op->operands[1]),
                        .out = cell_cuda__place(plan, op->result)};
    if (op->kind == CELL_OP_LSTM) {
        unit.c = cell_cuda__place(plan, op->operands[2]);
        unit.c_out = cell_cuda__place(plan, op->result + 1);
    }
    if (op->patches > 0) {
        plan_patches(plan, op, &unit);
    } else {
        plan_unit(plan, op, &unit);
    }
}
