/* The op of a found cell, and the definition with it: see found.h. Cost: a copy of the cell's
 * weights, in the order of the op, and some passes over at most CELL_OPS_MAX ops. */
#include "cells/import/found.h"

#include <string.h>

/* ---- Weights ------------------------------------------------------------------------------ */

/* Rows gate * width.. of to [gates * width, in]. */
static void copy_gate(const struct cell__looking *l, const struct cell__term *term, uint32_t gate,
                      uint32_t width, float *to)
{
    uint32_t in = cell__width_of(l, term->value);
    const float *from = term->weight->data;
    to += (size_t)gate * width * in;
    for (uint32_t k = 0; k < in; k++) {
        const float *row = from + (size_t)(term->row + k) * term->weight->cols + term->column;
        for (uint32_t u = 0; u < width; u++) {
            to[(size_t)u * in + k] = row[u];
        }
    }
}

static void copy_biases(const struct cell__sum *sum, uint32_t width, float *to)
{
    for (uint32_t u = 0; u < width; u++) {
        double all = 0.0;
        for (uint32_t b = 0; b < sum->n_biases; b++) {
            all += (double)sum->biases[b][u];
        }
        to[u] = (float)all;
    }
}

/* The term over this value, or NULL: the gate does not see it. */
static const struct cell__term *term_over(const struct cell__sum *sum, uint32_t value)
{
    for (uint32_t t = 0; t < sum->n_terms; t++) {
        if (sum->terms[t].value == value) {
            return &sum->terms[t];
        }
    }
    return NULL;
}

static void add_operand(struct cell_op *op, uint32_t value)
{
    if (value != CELL__NONE) {
        op->operands[op->n_operands++] = value;
    }
}

/* In the order of the op, without those that are not there. */
static void list_operands(const struct cell__found *found, struct cell_op *op)
{
    const bool is_tree = cell_op_is_tree(found->kind);
    op->n_operands = 0;
    add_operand(op, found->x);
    for (uint32_t k = 0; k < found->n_children; k++) {
        add_operand(op, found->h_of[k]);
        add_operand(op, found->c_of[k]);
    }
    if (found->n_children == 0) {
        add_operand(op, found->h);
        add_operand(op, found->c);
        add_operand(op, is_tree ? found->h_right : CELL__NONE);
        add_operand(op, is_tree ? found->c_right : CELL__NONE);
    }
}

/* A matrix over each value that gates are sums of, then the biases. What a gate does not see has
 * zeros there. */
static enum base_status make_tree_op(const struct cell__looking *l, const struct cell__found *found,
                                     struct cell_op *op)
{
    const uint32_t over[] = {found->x, found->h, found->h_right};
    const uint32_t gates = cell_op_gates(found->kind);
    const uint32_t width = found->width;
    *op = (struct cell_op){.kind = found->kind};
    list_operands(found, op);
    for (uint32_t i = 0; i < 3; i++) {
        if (over[i] == CELL__NONE) {
            continue;
        }
        const uint32_t in = cell__width_of(l, over[i]);
        float *weights = base_arena_array(l->im->arena, (size_t)gates * width * in, sizeof(float));
        if (weights == NULL) {
            return cell__no_memory(l->im);
        }
        for (uint32_t g = 0; g < gates; g++) {
            const struct cell__term *term = term_over(&found->gates[g], over[i]);
            if (term != NULL) {
                copy_gate(l, term, g, width, weights);
            }
        }
        op->weights[op->n_weights++] = (struct cell_weight){CELL_F32, gates * width, in, weights};
    }
    float *bias = base_arena_array(l->im->arena, (size_t)gates * width, sizeof(float));
    if (bias == NULL) {
        return cell__no_memory(l->im);
    }
    for (uint32_t g = 0; g < gates; g++) {
        copy_biases(&found->gates[g], width, bias + (size_t)g * width);
    }
    op->weights[op->n_weights++] = (struct cell_weight){CELL_F32, 1, gates * width, bias};
    return BASE_OK;
}

static enum base_status make_op(const struct cell__looking *l, const struct cell__found *found,
                                struct cell_op *op)
{
    if (cell_op_is_tree(found->kind)) {
        return make_tree_op(l, found, op);
    }
    struct base_arena *arena = l->im->arena;
    uint32_t gates = cell_op_gates(found->kind);
    uint32_t width = found->width;
    uint32_t inputs[2] = {cell__width_of(l, found->x), cell__width_of(l, found->h)};
    float *weights[2];
    float *bias = base_arena_array(arena, (size_t)2 * gates * width, sizeof(float));
    for (uint32_t half = 0; half < 2; half++) {
        weights[half] =
            base_arena_array(arena, (size_t)gates * width * inputs[half], sizeof(float));
        if (weights[half] == NULL || bias == NULL) {
            return cell__no_memory(l->im);
        }
    }
    for (uint32_t g = 0; g < gates; g++) {
        const struct cell__sum *sum = &found->gates[g];
        bool is_late = found->kind == CELL_OP_GRU && g == 2 && sum->n_terms == 1;
        copy_gate(l, &sum->terms[0], g, width, weights[0]);
        copy_gate(l, is_late ? &found->late.terms[0] : &sum->terms[1], g, width, weights[1]);
        copy_biases(sum, width, bias + (size_t)g * width);
        if (is_late) {
            copy_biases(&found->late, width, bias + ((size_t)gates + g) * width);
        }
    }
    *op = (struct cell_op){.kind = found->kind, .variant = found->variant, .n_weights = 3};
    list_operands(found, op);
    for (uint32_t half = 0; half < 2; half++) {
        op->weights[half] =
            (struct cell_weight){CELL_F32, gates * width, inputs[half], weights[half]};
    }
    op->weights[2] = (struct cell_weight){CELL_F32, 1, 2 * gates * width, bias};
    return BASE_OK;
}

/* ---- Replacing ---------------------------------------------------------------------------- */

/* A definition with the op in place of what it was found in, and without what nobody reads. */
struct rewrite {
    const struct cell_def *from;
    const struct cell__found *found;
    const struct cell_op *op;
    uint32_t at; /* op of `from` where it stands: the first that gives one of its results */
    bool is_read[CELL_VALUES_MAX];
    uint32_t number[CELL_VALUES_MAX];
    struct cell_def to;
};

static bool gives_result(const struct cell__found *found, uint32_t o)
{
    return o == found->h_next || o == found->c_next;
}

static void read_operands(struct rewrite *r, const struct cell_op *op)
{
    for (uint32_t i = 0; i < op->n_operands; i++) {
        r->is_read[op->operands[i]] = true;
    }
}

static void mark_read(struct rewrite *r)
{
    const struct cell_def *def = r->from;
    for (uint32_t i = 0; i < def->n_outputs; i++) {
        r->is_read[def->outputs[i]] = true;
    }
    for (uint32_t s = 0; s < def->n_states; s++) {
        r->is_read[def->state_next[s]] = true;
    }
    for (uint32_t o = def->n_ops; o-- > 0;) {
        const struct cell_op *op = &def->ops[o];
        bool is_read = false;
        for (uint32_t i = 0; i < cell_op_results(op->kind); i++) {
            is_read |= r->is_read[op->result + i];
        }
        if (gives_result(r->found, o)) {
            read_operands(r, r->op);
        } else if (is_read) {
            read_operands(r, op);
        }
    }
}

static void put_value(struct rewrite *r, uint32_t old)
{
    r->number[old] = r->to.n_values;
    r->to.values[r->to.n_values++] = r->from->values[old];
}

static void put_op(struct rewrite *r, const struct cell_op *op)
{
    struct cell_op *to = &r->to.ops[r->to.n_ops++];
    *to = *op;
    to->result = r->to.n_values;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        to->operands[i] = r->number[op->operands[i]];
    }
}

static void put_ops(struct rewrite *r)
{
    const struct cell_def *def = r->from;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        const struct cell_op *op = &def->ops[o];
        uint32_t results = cell_op_results(op->kind);
        bool is_read = r->is_read[op->result] || (results > 1 && r->is_read[op->result + 1]);
        if (o == r->at) {
            put_op(r, r->op);
            put_value(r, def->ops[r->found->h_next].result);
            if (r->found->c_next != CELL__NONE) {
                put_value(r, def->ops[r->found->c_next].result);
            }
        } else if (is_read && !gives_result(r->found, o)) {
            put_op(r, op);
            for (uint32_t i = 0; i < results; i++) {
                put_value(r, op->result + i);
            }
        }
    }
}

static uint32_t count_products(const struct cell_def *def)
{
    uint32_t n = 0;
    for (uint32_t o = 0; o < def->n_ops; o++) {
        n += def->ops[o].kind == CELL_OP_LINEAR ? 1 : 0;
    }
    return n;
}

/* Where the op's operands are there, and nobody has read its results yet; CELL__NONE: nowhere. */
static uint32_t place_of(const struct cell__looking *l, const struct cell__found *found)
{
    uint32_t at = found->c_next == CELL__NONE || found->h_next < found->c_next ? found->h_next
                                                                               : found->c_next;
    struct cell_op op;
    list_operands(found, &op);
    for (uint32_t i = 0; i < op.n_operands; i++) {
        const uint32_t maker = l->made_by[op.operands[i]];
        if (maker != CELL__NONE && maker >= at) {
            return CELL__NONE;
        }
    }
    return at;
}

enum base_status cell__replace(struct cell__looking *l, const struct cell__found *found,
                               bool *is_done)
{
    struct rewrite *r = base_arena_alloc(l->im->arena, sizeof(*r));
    struct cell_op op;
    *is_done = false;
    if (r == NULL) {
        return cell__no_memory(l->im);
    }
    r->at = place_of(l, found);
    if (r->at == CELL__NONE) {
        return BASE_OK;
    }
    BASE_TRY(make_op(l, found, &op));
    r->from = l->def;
    r->found = found;
    r->op = &op;
    mark_read(r);
    r->to.n_inputs = l->def->n_inputs;
    r->to.n_states = l->def->n_states;
    r->to.n_outputs = l->def->n_outputs;
    for (uint32_t v = 0; v < l->def->n_inputs + l->def->n_states; v++) {
        put_value(r, v);
    }
    put_ops(r);
    for (uint32_t s = 0; s < l->def->n_states; s++) {
        r->to.state_next[s] = r->number[l->def->state_next[s]];
    }
    for (uint32_t i = 0; i < l->def->n_outputs; i++) {
        r->to.outputs[i] = r->number[l->def->outputs[i]];
    }
    if (count_products(&r->to) < count_products(l->def)) {
        *l->def = r->to;
        *is_done = true;
    }
    return BASE_OK;
}
