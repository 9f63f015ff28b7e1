/* From the definition's results backwards: an op that may end a cell is matched against the
 * equations of cells/def.h, with the operands of sums and products in either order. A gate's sum is
 * taken apart into products with constant weights, constants and the rest, whatever the tree of
 * ADD, SLICE and CONCAT: so it does not matter whether an exporter writes one product for all gates
 * or one for each, two biases or one, or one product over x and h side by side.
 *
 *   LSTM   c' = s(f) c + s(i) tanh(g),  h' = s(o) tanh(c')
 *   GRU    h' = n + z (h - n)  or  (1 - z) n + z h,
 *          n = tanh(x.. + s(r) (h..))  or  tanh(x.. + (s(r) h)..)
 *   RNN    h' = tanh or relu (x.. + h..)
 *
 * h is a state: that tells it from x. Cost: some passes over at most CELL_OPS_MAX ops for each cell
 * found, and a copy of its weights. */
#include "cells/import/recognise.h"

#include "base/assert.h"

#include <string.h>

#define NONE      CELL__NONE
#define GATES_MAX 4u

/* Columns start.. of W' (rows first.. of W [in, out]) times a value. */
struct term {
    uint32_t value;
    const struct cell_weight *weight;
    uint32_t row, column;
};

/* A gate's sum, taken apart. */
struct sum {
    uint32_t n_terms, n_others;
    struct term terms[3];
    uint32_t other; /* a value that is no product with weights; whole */
    const float *biases[6];
    uint32_t n_biases;
};

/* What was found: results of the definition, and the gates in the order of the op's weights. */
struct found {
    enum cell_op_kind kind;
    uint32_t variant;
    uint32_t width;
    uint32_t h_next, c_next; /* ops that compute them; c_next: NONE but for an LSTM */
    uint32_t x, h, c;        /* values */
    struct sum gates[GATES_MAX];
    struct sum late; /* GRU, reset after: the sum over h of its last gate */
};

struct looking {
    struct cell__import *im;
    struct cell_def *def;
    uint32_t made_by[CELL_VALUES_MAX]; /* op, or NONE */
};

/* ---- Looking at ops ----------------------------------------------------------------------- */

static const struct cell_op *op_of(const struct looking *l, uint32_t value, enum cell_op_kind kind)
{
    uint32_t o = l->made_by[value];
    return o != NONE && l->def->ops[o].kind == kind ? &l->def->ops[o] : NULL;
}

static uint32_t width_of(const struct looking *l, uint32_t value)
{
    return l->def->values[value].width;
}

/* The same of an op that works element by element, all operands as wide as the result: none of
 * them is one element for all. */
static const struct cell_op *even_op_of(const struct looking *l, uint32_t value,
                                        enum cell_op_kind kind)
{
    const struct cell_op *op = op_of(l, value, kind);
    for (uint32_t i = 0; op != NULL && i < op->n_operands; i++) {
        if (width_of(l, op->operands[i]) != width_of(l, value)) {
            return NULL;
        }
    }
    return op;
}

static bool is_state(const struct looking *l, uint32_t value)
{
    return value >= l->def->n_inputs && value < l->def->n_inputs + l->def->n_states;
}

/* Elements start.. of a value. */
struct part {
    uint32_t value, start;
};

/* What the function is taken of, where it makes the value or what the value is cut from; or NONE.
 */
static struct part inside(const struct looking *l, uint32_t value, enum cell_op_kind function)
{
    const struct cell_op *slice = op_of(l, value, CELL_OP_SLICE);
    const struct cell_op *op = op_of(l, slice == NULL ? value : slice->operands[0], function);
    return op == NULL ? (struct part){NONE, 0}
                      : (struct part){op->operands[0], slice == NULL ? 0 : slice->start};
}

/* The operand of a MUL beside sigmoid(*gate), or NONE; which: try this operand as the gate. */
static uint32_t gated_by(const struct looking *l, uint32_t value, uint32_t which, struct part *gate)
{
    const struct cell_op *op = even_op_of(l, value, CELL_OP_MUL);
    if (op == NULL) {
        return NONE;
    }
    *gate = inside(l, op->operands[which], CELL_OP_SIGMOID);
    return gate->value == NONE ? NONE : op->operands[1 - which];
}

/* ---- Sums --------------------------------------------------------------------------------- */

static bool add_term(struct sum *sum, struct term term)
{
    if (sum->n_terms == sizeof(sum->terms) / sizeof(sum->terms[0])) {
        return false;
    }
    sum->terms[sum->n_terms++] = term;
    return true;
}

static bool add_bias(struct sum *sum, const struct cell_weight *bias, uint32_t start)
{
    const float *data = bias->data;
    if (sum->n_biases == sizeof(sum->biases) / sizeof(sum->biases[0])) {
        return false;
    }
    sum->biases[sum->n_biases++] = data + start;
    return true;
}

/* A LINEAR over values side by side is one over each. */
static bool add_linear(const struct looking *l, struct sum *sum, const struct cell_op *op,
                       uint32_t start)
{
    const struct cell_op *joined = op_of(l, op->operands[0], CELL_OP_CONCAT);
    uint32_t row = 0;
    if (op->n_weights > 1 && !add_bias(sum, &op->weights[1], start)) {
        return false;
    }
    if (joined == NULL) {
        return add_term(sum, (struct term){op->operands[0], &op->weights[0], 0, start});
    }
    for (uint32_t i = 0; i < joined->n_operands; i++) {
        if (!add_term(sum, (struct term){joined->operands[i], &op->weights[0], row, start})) {
            return false;
        }
        row += width_of(l, joined->operands[i]);
    }
    return true;
}

/* Where a part of a CONCAT comes from: one of its operands, or nowhere. */
static bool enter_concat(const struct looking *l, const struct cell_op *op, uint32_t width,
                         struct part *part)
{
    uint32_t start = part->start;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        uint32_t own = width_of(l, op->operands[i]);
        if (start < own) {
            *part = (struct part){op->operands[i], start};
            return start + width <= own;
        }
        start -= own;
    }
    return false;
}

/* Takes `width` elements from here on apart. false: they are no such sum. */
static bool take_apart(const struct looking *l, struct part from, uint32_t width, struct sum *sum)
{
    struct part parts[8] = {from};
    uint32_t n = 1;
    *sum = (struct sum){.other = NONE};
    if ((uint64_t)from.start + width > width_of(l, from.value)) {
        return false;
    }
    while (n > 0) {
        struct part part = parts[--n];
        uint32_t o = l->made_by[part.value];
        const struct cell_op *op = o == NONE ? NULL : &l->def->ops[o];
        bool fits = true;
        if (op != NULL && op->kind == CELL_OP_ADD && n + 2 <= sizeof(parts) / sizeof(parts[0]) &&
            width_of(l, op->operands[0]) == width_of(l, op->operands[1])) {
            parts[n++] = (struct part){op->operands[0], part.start};
            parts[n++] = (struct part){op->operands[1], part.start};
        } else if (op != NULL && op->kind == CELL_OP_SLICE) {
            parts[n++] = (struct part){op->operands[0], part.start + op->start};
        } else if (op != NULL && op->kind == CELL_OP_CONCAT) {
            fits = enter_concat(l, op, width, &part);
            parts[n++] = part;
        } else if (op != NULL && op->kind == CELL_OP_LINEAR) {
            fits = add_linear(l, sum, op, part.start);
        } else if (op != NULL && op->kind == CELL_OP_CONST) {
            fits = add_bias(sum, &op->weights[0], part.start);
        } else {
            fits = sum->n_others++ == 0 && part.start == 0 && width_of(l, part.value) == width;
            sum->other = part.value;
        }
        if (!fits) {
            return false;
        }
    }
    return true;
}

/* The sum is over x and h alone (h alone with x = NONE), and x is the same as before. Puts the term
 * over x first. */
static bool is_over(struct sum *sum, uint32_t *x, uint32_t h)
{
    if (sum->n_others > 0 || sum->n_terms != 2) {
        return false;
    }
    if (sum->terms[0].value == h) {
        struct term swapped = sum->terms[0];
        sum->terms[0] = sum->terms[1];
        sum->terms[1] = swapped;
    }
    if (*x == NONE) {
        *x = sum->terms[0].value;
    }
    return sum->terms[0].value == *x && sum->terms[1].value == h && *x != h;
}

/* The state among the values of a sum, that of h: the one whose next value is `next` rather than
 * another. */
static uint32_t find_h(const struct looking *l, const struct sum *sum, uint32_t next)
{
    uint32_t found = NONE;
    for (uint32_t i = 0; i < sum->n_terms; i++) {
        uint32_t value = sum->terms[i].value;
        if (is_state(l, value) &&
            (found == NONE || l->def->state_next[value - l->def->n_inputs] == next)) {
            found = value;
        }
    }
    return found;
}

/* ---- The cells ---------------------------------------------------------------------------- */

/* c' = s(f) c + s(i) tanh(g), from op number o on. */
static bool match_c(const struct looking *l, uint32_t o, uint32_t turn, struct part sums[GATES_MAX],
                    uint32_t *c)
{
    const struct cell_op *add = even_op_of(l, l->def->ops[o].result, CELL_OP_ADD);
    if (add == NULL) {
        return false;
    }
    uint32_t kept = add->operands[turn & 1];
    uint32_t fresh = add->operands[1 - (turn & 1)];
    *c = gated_by(l, kept, turn >> 1 & 1, &sums[2]);
    uint32_t g = gated_by(l, fresh, turn >> 2 & 1, &sums[0]);
    if (*c == NONE || g == NONE) {
        return false;
    }
    sums[3] = inside(l, g, CELL_OP_TANH);
    return sums[3].value != NONE;
}

/* The op that makes h' = s(o) tanh(c'), or NONE. */
static uint32_t find_h_next(const struct looking *l, uint32_t c_next, struct part *gate)
{
    for (uint32_t o = 0; o < l->def->n_ops; o++) {
        const struct cell_op *op = &l->def->ops[o];
        for (uint32_t which = 0; op->kind == CELL_OP_MUL && which < 2; which++) {
            uint32_t other = gated_by(l, op->result, which, gate);
            const struct cell_op *squashed = other == NONE ? NULL : op_of(l, other, CELL_OP_TANH);
            if (squashed != NULL && squashed->operands[0] == c_next) {
                return o;
            }
        }
    }
    return NONE;
}

static bool match_gates(const struct looking *l, struct found *found, const struct part sums[],
                        uint32_t n, uint32_t h_next)
{
    for (uint32_t g = 0; g < n; g++) {
        if (!take_apart(l, sums[g], found->width, &found->gates[g])) {
            return false;
        }
    }
    found->x = NONE;
    found->h = find_h(l, &found->gates[0], h_next);
    for (uint32_t g = 0; g < n; g++) {
        if (found->h == NONE || !is_over(&found->gates[g], &found->x, found->h)) {
            return false;
        }
    }
    return true;
}

static bool match_lstm(const struct looking *l, uint32_t o, struct found *found)
{
    uint32_t value = l->def->ops[o].result;
    for (uint32_t turn = 0; turn < 8; turn++) {
        struct part sums[GATES_MAX]; // i, o, f, g
        *found = (struct found){.kind = CELL_OP_LSTM, .width = width_of(l, value), .c_next = o};
        if (!match_c(l, o, turn, sums, &found->c) || width_of(l, found->c) != found->width) {
            continue;
        }
        found->h_next = find_h_next(l, value, &sums[1]);
        if (found->h_next != NONE &&
            match_gates(l, found, sums, 4, l->def->ops[found->h_next].result)) {
            return true;
        }
    }
    return false;
}

/* A constant all of whose elements are this. */
static bool is_constant(const struct looking *l, uint32_t value, float wanted)
{
    const struct cell_op *op = op_of(l, value, CELL_OP_CONST);
    const float *data = op == NULL ? NULL : op->weights[0].data;
    bool is = op != NULL && op->weights[0].dtype == CELL_F32;
    for (uint32_t i = 0; is && i < op->weights[0].cols; i++) {
        is = data[i] == wanted;
    }
    return is;
}

/* z, where the value is 1 - z, or 1 + -1 z; or NONE. */
static uint32_t complement_of(const struct looking *l, uint32_t value)
{
    const struct cell_op *sub = op_of(l, value, CELL_OP_SUB);
    const struct cell_op *add = op_of(l, value, CELL_OP_ADD);
    if (sub != NULL && is_constant(l, sub->operands[0], 1.0f)) {
        return sub->operands[1];
    }
    for (uint32_t turn = 0; add != NULL && turn < 4; turn++) {
        const struct cell_op *mul = op_of(l, add->operands[turn & 1], CELL_OP_MUL);
        if (mul != NULL && is_constant(l, add->operands[1 - (turn & 1)], 1.0f) &&
            is_constant(l, mul->operands[turn >> 1], -1.0f)) {
            return mul->operands[1 - (turn >> 1)];
        }
    }
    return NONE;
}

/* n + z (h - n): *n and *h of op number o, and z's sum. */
static bool match_gap(const struct looking *l, uint32_t o, uint32_t turn, uint32_t *n, uint32_t *h,
                      struct part *z)
{
    const struct cell_op *add = even_op_of(l, l->def->ops[o].result, CELL_OP_ADD);
    uint32_t gap =
        add == NULL ? NONE : gated_by(l, add->operands[1 - (turn & 1)], turn >> 1 & 1, z);
    const struct cell_op *sub = gap == NONE ? NULL : even_op_of(l, gap, CELL_OP_SUB);
    if (sub == NULL) {
        return false;
    }
    *n = add->operands[turn & 1];
    *h = sub->operands[0];
    return sub->operands[1] == *n;
}

/* (1 - z) n + z h. */
static bool match_mix(const struct looking *l, uint32_t o, uint32_t turn, uint32_t *n, uint32_t *h,
                      struct part *z)
{
    const struct cell_op *add = even_op_of(l, l->def->ops[o].result, CELL_OP_ADD);
    if (add == NULL) {
        return false;
    }
    const struct cell_op *fresh = even_op_of(l, add->operands[turn & 1], CELL_OP_MUL);
    *h = gated_by(l, add->operands[1 - (turn & 1)], turn >> 1 & 1, z);
    if (fresh == NULL || *h == NONE) {
        return false;
    }
    uint32_t rest = complement_of(l, fresh->operands[turn >> 2 & 1]);
    *n = fresh->operands[1 - (turn >> 2 & 1)];
    if (rest == NONE || width_of(l, rest) != width_of(l, add->result)) {
        return false;
    }
    struct part other = inside(l, rest, CELL_OP_SIGMOID);
    return other.value == z->value && other.start == z->start;
}

/* The sum of n over x, and s(r) (h..), which is all the rest of it. */
static bool match_reset_after(const struct looking *l, struct found *found, struct part *reset)
{
    struct sum *n = &found->gates[2];
    for (uint32_t which = 0; n->n_terms == 1 && n->n_others == 1 && which < 2; which++) {
        uint32_t late = gated_by(l, n->other, which, reset);
        if (late != NONE && take_apart(l, (struct part){late, 0}, found->width, &found->late) &&
            found->late.n_terms == 1 && found->late.n_others == 0 &&
            found->late.terms[0].value == found->h) {
            found->variant = CELL_GRU_RESET_AFTER;
            return true;
        }
    }
    return false;
}

/* The sum of n over x and s(r) h. */
static bool match_reset_before(const struct looking *l, struct found *found, struct part *reset)
{
    struct sum *n = &found->gates[2];
    for (uint32_t turn = 0; n->n_terms == 2 && n->n_others == 0 && turn < 4; turn++) {
        if (gated_by(l, n->terms[turn & 1].value, turn >> 1, reset) == found->h) {
            if ((turn & 1) == 0) {
                struct term swapped = n->terms[0];
                n->terms[0] = n->terms[1];
                n->terms[1] = swapped;
            }
            found->variant = CELL_GRU_RESET_BEFORE;
            return true;
        }
    }
    return false;
}

static bool match_gru_gates(const struct looking *l, struct found *found, uint32_t n, struct part z)
{
    struct part sum = inside(l, n, CELL_OP_TANH);
    struct part sums[2] = {z, {NONE, 0}}; // z, r
    if (sum.value == NONE || !is_state(l, found->h) || width_of(l, found->h) != found->width ||
        !take_apart(l, sum, found->width, &found->gates[2])) {
        return false;
    }
    if (!match_reset_after(l, found, &sums[1]) && !match_reset_before(l, found, &sums[1])) {
        return false;
    }
    found->x = found->gates[2].terms[0].value;
    for (uint32_t g = 0; g < 2; g++) {
        if (!take_apart(l, sums[g], found->width, &found->gates[g]) ||
            !is_over(&found->gates[g], &found->x, found->h)) {
            return false;
        }
    }
    return true;
}

static bool match_gru(const struct looking *l, uint32_t o, struct found *found)
{
    for (uint32_t turn = 0; turn < 16; turn++) {
        uint32_t n = NONE;
        struct part z = {NONE, 0};
        *found = (struct found){.kind = CELL_OP_GRU,
                                .width = width_of(l, l->def->ops[o].result),
                                .h_next = o,
                                .c_next = NONE,
                                .c = NONE};
        bool is_mixed = (turn & 8) != 0 ? match_gap(l, o, turn & 7, &n, &found->h, &z)
                                        : match_mix(l, o, turn & 7, &n, &found->h, &z);
        if (is_mixed && match_gru_gates(l, found, n, z)) {
            return true;
        }
    }
    return false;
}

static bool match_rnn(const struct looking *l, uint32_t o, struct found *found)
{
    const struct cell_op *op = &l->def->ops[o];
    if (op->kind != CELL_OP_TANH && op->kind != CELL_OP_RELU) {
        return false;
    }
    *found = (struct found){.kind = CELL_OP_RNN,
                            .variant = op->kind == CELL_OP_RELU ? CELL_RNN_RELU : CELL_RNN_TANH,
                            .width = width_of(l, op->result),
                            .h_next = o,
                            .c_next = NONE,
                            .c = NONE};
    struct part sum = {op->operands[0], 0};
    return match_gates(l, found, &sum, 1, op->result) && width_of(l, found->h) == found->width;
}

/* ---- Weights ------------------------------------------------------------------------------ */

/* Rows gate * width.. of to [gates * width, in]. */
static void copy_gate(const struct looking *l, const struct term *term, uint32_t gate,
                      uint32_t width, float *to)
{
    uint32_t in = width_of(l, term->value);
    const float *from = term->weight->data;
    to += (size_t)gate * width * in;
    for (uint32_t k = 0; k < in; k++) {
        const float *row = from + (size_t)(term->row + k) * term->weight->cols + term->column;
        for (uint32_t u = 0; u < width; u++) {
            to[(size_t)u * in + k] = row[u];
        }
    }
}

static void copy_biases(const struct sum *sum, uint32_t width, float *to)
{
    for (uint32_t u = 0; u < width; u++) {
        double all = 0.0;
        for (uint32_t b = 0; b < sum->n_biases; b++) {
            all += (double)sum->biases[b][u];
        }
        to[u] = (float)all;
    }
}

static enum base_status make_op(const struct looking *l, const struct found *found,
                                struct cell_op *op)
{
    struct base_arena *arena = l->im->arena;
    uint32_t gates = cell_op_gates(found->kind);
    uint32_t width = found->width;
    uint32_t inputs[2] = {width_of(l, found->x), width_of(l, found->h)};
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
        const struct sum *sum = &found->gates[g];
        bool is_late = found->kind == CELL_OP_GRU && g == 2 && sum->n_terms == 1;
        copy_gate(l, &sum->terms[0], g, width, weights[0]);
        copy_gate(l, is_late ? &found->late.terms[0] : &sum->terms[1], g, width, weights[1]);
        copy_biases(sum, width, bias + (size_t)g * width);
        if (is_late) {
            copy_biases(&found->late, width, bias + ((size_t)gates + g) * width);
        }
    }
    *op = (struct cell_op){.kind = found->kind,
                           .variant = found->variant,
                           .n_operands = found->c == NONE ? 2 : 3,
                           .operands = {found->x, found->h, found->c},
                           .n_weights = 3};
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
    const struct found *found;
    const struct cell_op *op;
    uint32_t at; /* op of `from` where it stands: the first that gives one of its results */
    bool is_read[CELL_VALUES_MAX];
    uint32_t number[CELL_VALUES_MAX];
    struct cell_def to;
};

static bool gives_result(const struct found *found, uint32_t o)
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
            if (r->found->c_next != NONE) {
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

/* Where the op's operands are there, and nobody has read its results yet; NONE: nowhere. */
static uint32_t place_of(const struct looking *l, const struct found *found)
{
    uint32_t at =
        found->c_next == NONE || found->h_next < found->c_next ? found->h_next : found->c_next;
    uint32_t operands[] = {found->x, found->h, found->c};
    for (uint32_t i = 0; i < 3; i++) {
        bool is_made = operands[i] != NONE && l->made_by[operands[i]] != NONE;
        if (is_made && l->made_by[operands[i]] >= at) {
            return NONE;
        }
    }
    return at;
}

/* *is_done: the definition has the op now, and fewer products than before. */
static enum base_status replace(struct looking *l, const struct found *found, bool *is_done)
{
    struct rewrite *r = base_arena_alloc(l->im->arena, sizeof(*r));
    struct cell_op op;
    *is_done = false;
    if (r == NULL) {
        return cell__no_memory(l->im);
    }
    r->at = place_of(l, found);
    if (r->at == NONE) {
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

static void note_makers(struct looking *l)
{
    memset(l->made_by, 0xff, sizeof(l->made_by));
    for (uint32_t o = 0; o < l->def->n_ops; o++) {
        for (uint32_t i = 0; i < cell_op_results(l->def->ops[o].kind); i++) {
            l->made_by[l->def->ops[o].result + i] = o;
        }
    }
}

enum base_status cell__recognise(struct cell__import *im, struct cell_def *def)
{
    struct looking looking = {.im = im, .def = def};
    uint32_t o = 0;
    note_makers(&looking);
    while (o < def->n_ops) {
        struct found found;
        bool is_done = false;
        if (match_lstm(&looking, o, &found) || match_gru(&looking, o, &found) ||
            match_rnn(&looking, o, &found)) {
            BASE_TRY(replace(&looking, &found, &is_done));
        }
        if (is_done) {
            note_makers(&looking);
        }
        o = is_done ? 0 : o + 1;
    }
    return BASE_OK;
}
