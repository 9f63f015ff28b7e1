/* From the definition's results backwards: an op that may end a cell is matched against the
 * equations of cells/op.h, with the operands of sums and products in either order. A gate's sum is
 * taken apart into products with constant weights, constants and the rest, whatever the tree of
 * ADD, SLICE and CONCAT: so it does not matter whether an exporter writes one product for all gates
 * or one for each, two biases or one, or one product over x and h side by side.
 *
 *   LSTM   c' = s(f) c + s(i) tanh(g),  h' = s(o) tanh(c')
 *   GRU    h' = n + z (h - n)  or  (1 - z) n + z h,
 *          n = tanh(x.. + s(r) (h..))  or  tanh(x.. + (s(r) h)..)
 *   RNN    h' = tanh or relu (x.. + h..)
 *
 * h is a state: that tells it from x. A TreeLSTM's cells, which have no state, are matched in
 * recognise_tree.c. replace.c puts the op in. Cost: some passes over at most
 * CELL_OPS_MAX ops for each cell found. */
#include "cells/import/recognise.h"

#include "cells/import/found.h"

#include <string.h>

#define NONE CELL__NONE

/* ---- Looking at ops ----------------------------------------------------------------------- */

static const struct cell_op *op_of(const struct cell__looking *l, uint32_t value,
                                   enum cell_op_kind kind)
{
    uint32_t o = l->made_by[value];
    return o != NONE && l->def->ops[o].kind == kind ? &l->def->ops[o] : NULL;
}

const struct cell_op *cell__even_op_of(const struct cell__looking *l, uint32_t value,
                                       enum cell_op_kind kind)
{
    const struct cell_op *op = op_of(l, value, kind);
    for (uint32_t i = 0; op != NULL && i < op->n_operands; i++) {
        if (cell__width_of(l, op->operands[i]) != cell__width_of(l, value)) {
            return NULL;
        }
    }
    return op;
}

static bool is_state(const struct cell__looking *l, uint32_t value)
{
    return value >= l->def->n_inputs && value < l->def->n_inputs + l->def->n_states;
}

struct cell__part cell__inside(const struct cell__looking *l, uint32_t value,
                               enum cell_op_kind function)
{
    const struct cell_op *slice = op_of(l, value, CELL_OP_SLICE);
    const struct cell_op *op = op_of(l, slice == NULL ? value : slice->operands[0], function);
    return op == NULL ? (struct cell__part){NONE, 0}
                      : (struct cell__part){op->operands[0], slice == NULL ? 0 : slice->start};
}

uint32_t cell__gated_by(const struct cell__looking *l, uint32_t value, uint32_t which,
                        struct cell__part *gate)
{
    const struct cell_op *op = cell__even_op_of(l, value, CELL_OP_MUL);
    if (op == NULL) {
        return NONE;
    }
    *gate = cell__inside(l, op->operands[which], CELL_OP_SIGMOID);
    return gate->value == NONE ? NONE : op->operands[1 - which];
}

/* ---- Sums --------------------------------------------------------------------------------- */

static bool add_term(struct cell__sum *sum, struct cell__term term)
{
    if (sum->n_terms == sizeof(sum->terms) / sizeof(sum->terms[0])) {
        return false;
    }
    sum->terms[sum->n_terms++] = term;
    return true;
}

static bool add_bias(struct cell__sum *sum, const struct cell_weight *bias, uint32_t start)
{
    const float *data = bias->data;
    if (sum->n_biases == sizeof(sum->biases) / sizeof(sum->biases[0])) {
        return false;
    }
    sum->biases[sum->n_biases++] = data + start;
    return true;
}

/* A LINEAR over values side by side is one over each, of which one may be h. */
static bool add_linear(const struct cell__looking *l, struct cell__sum *sum,
                       const struct cell_op *op, uint32_t start)
{
    const struct cell_op *joined = op_of(l, op->operands[0], CELL_OP_CONCAT);
    uint32_t row = 0;
    if (op->n_weights > 1 && !add_bias(sum, &op->weights[1], start)) {
        return false;
    }
    if (joined == NULL || l->keeps_joined) {
        return add_term(sum, (struct cell__term){op->operands[0], &op->weights[0], 0, start});
    }
    for (uint32_t i = 0; i < joined->n_operands; i++) {
        if (!add_term(sum, (struct cell__term){joined->operands[i], &op->weights[0], row, start})) {
            return false;
        }
        row += cell__width_of(l, joined->operands[i]);
    }
    return true;
}

/* Where a part of a CONCAT comes from: one of its operands, or nowhere. */
static bool enter_concat(const struct cell__looking *l, const struct cell_op *op, uint32_t width,
                         struct cell__part *part)
{
    uint32_t start = part->start;
    for (uint32_t i = 0; i < op->n_operands; i++) {
        uint32_t own = cell__width_of(l, op->operands[i]);
        if (start < own) {
            *part = (struct cell__part){op->operands[i], start};
            return start + width <= own;
        }
        start -= own;
    }
    return false;
}

bool cell__take_apart(const struct cell__looking *l, struct cell__part from, uint32_t width,
                      struct cell__sum *sum)
{
    struct cell__part parts[8] = {from};
    uint32_t n = 1;
    *sum = (struct cell__sum){.other = NONE};
    if ((uint64_t)from.start + width > cell__width_of(l, from.value)) {
        return false;
    }
    while (n > 0) {
        struct cell__part part = parts[--n];
        uint32_t o = l->made_by[part.value];
        const struct cell_op *op = o == NONE ? NULL : &l->def->ops[o];
        bool fits = true;
        if (op != NULL && op->kind == CELL_OP_ADD && n + 2 <= sizeof(parts) / sizeof(parts[0]) &&
            cell__width_of(l, op->operands[0]) == cell__width_of(l, op->operands[1])) {
            parts[n++] = (struct cell__part){op->operands[0], part.start};
            parts[n++] = (struct cell__part){op->operands[1], part.start};
        } else if (op != NULL && op->kind == CELL_OP_SLICE) {
            parts[n++] = (struct cell__part){op->operands[0], part.start + op->start};
        } else if (op != NULL && op->kind == CELL_OP_CONCAT) {
            fits = enter_concat(l, op, width, &part);
            parts[n++] = part;
        } else if (op != NULL && op->kind == CELL_OP_LINEAR && op->patches == 0) {
            fits = add_linear(l, sum, op, part.start);
        } else if (op != NULL && op->kind == CELL_OP_CONST) {
            fits = add_bias(sum, &op->weights[0], part.start);
        } else {
            fits =
                sum->n_others++ == 0 && part.start == 0 && cell__width_of(l, part.value) == width;
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
static bool is_over(struct cell__sum *sum, uint32_t *x, uint32_t h)
{
    if (sum->n_others > 0 || sum->n_terms != 2) {
        return false;
    }
    if (sum->terms[0].value == h) {
        struct cell__term swapped = sum->terms[0];
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
static uint32_t find_h(const struct cell__looking *l, const struct cell__sum *sum, uint32_t next)
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
static bool match_c(const struct cell__looking *l, uint32_t o, uint32_t turn,
                    struct cell__part sums[CELL__GATES_MAX], uint32_t *c)
{
    const struct cell_op *add = cell__even_op_of(l, l->def->ops[o].result, CELL_OP_ADD);
    if (add == NULL) {
        return false;
    }
    uint32_t kept = add->operands[turn & 1];
    uint32_t fresh = add->operands[1 - (turn & 1)];
    *c = cell__gated_by(l, kept, turn >> 1 & 1, &sums[2]);
    uint32_t g = cell__gated_by(l, fresh, turn >> 2 & 1, &sums[0]);
    if (*c == NONE || g == NONE) {
        return false;
    }
    sums[3] = cell__inside(l, g, CELL_OP_TANH);
    return sums[3].value != NONE;
}

uint32_t cell__find_h_next(const struct cell__looking *l, uint32_t c_next, struct cell__part *gate)
{
    for (uint32_t o = 0; o < l->def->n_ops; o++) {
        const struct cell_op *op = &l->def->ops[o];
        for (uint32_t which = 0; op->kind == CELL_OP_MUL && which < 2; which++) {
            uint32_t other = cell__gated_by(l, op->result, which, gate);
            const struct cell_op *squashed = other == NONE ? NULL : op_of(l, other, CELL_OP_TANH);
            if (squashed != NULL && squashed->operands[0] == c_next) {
                return o;
            }
        }
    }
    return NONE;
}

static bool match_gates(const struct cell__looking *l, struct cell__found *found,
                        const struct cell__part sums[], uint32_t n, uint32_t h_next)
{
    for (uint32_t g = 0; g < n; g++) {
        if (!cell__take_apart(l, sums[g], found->width, &found->gates[g])) {
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

static bool match_lstm(const struct cell__looking *l, uint32_t o, struct cell__found *found)
{
    uint32_t value = l->def->ops[o].result;
    for (uint32_t turn = 0; turn < 8; turn++) {
        struct cell__part sums[CELL__GATES_MAX]; // i, o, f, g
        *found = (struct cell__found){
            .kind = CELL_OP_LSTM, .width = cell__width_of(l, value), .c_next = o};
        if (!match_c(l, o, turn, sums, &found->c) || cell__width_of(l, found->c) != found->width) {
            continue;
        }
        found->h_next = cell__find_h_next(l, value, &sums[1]);
        if (found->h_next != NONE &&
            match_gates(l, found, sums, 4, l->def->ops[found->h_next].result)) {
            return true;
        }
    }
    return false;
}

/* A constant all of whose elements are this. */
static bool is_constant(const struct cell__looking *l, uint32_t value, float wanted)
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
static uint32_t complement_of(const struct cell__looking *l, uint32_t value)
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
static bool match_gap(const struct cell__looking *l, uint32_t o, uint32_t turn, uint32_t *n,
                      uint32_t *h, struct cell__part *z)
{
    const struct cell_op *add = cell__even_op_of(l, l->def->ops[o].result, CELL_OP_ADD);
    uint32_t gap =
        add == NULL ? NONE : cell__gated_by(l, add->operands[1 - (turn & 1)], turn >> 1 & 1, z);
    const struct cell_op *sub = gap == NONE ? NULL : cell__even_op_of(l, gap, CELL_OP_SUB);
    if (sub == NULL) {
        return false;
    }
    *n = add->operands[turn & 1];
    *h = sub->operands[0];
    return sub->operands[1] == *n;
}

/* (1 - z) n + z h. */
static bool match_mix(const struct cell__looking *l, uint32_t o, uint32_t turn, uint32_t *n,
                      uint32_t *h, struct cell__part *z)
{
    const struct cell_op *add = cell__even_op_of(l, l->def->ops[o].result, CELL_OP_ADD);
    if (add == NULL) {
        return false;
    }
    const struct cell_op *fresh = cell__even_op_of(l, add->operands[turn & 1], CELL_OP_MUL);
    *h = cell__gated_by(l, add->operands[1 - (turn & 1)], turn >> 1 & 1, z);
    if (fresh == NULL || *h == NONE) {
        return false;
    }
    uint32_t rest = complement_of(l, fresh->operands[turn >> 2 & 1]);
    *n = fresh->operands[1 - (turn >> 2 & 1)];
    if (rest == NONE || cell__width_of(l, rest) != cell__width_of(l, add->result)) {
        return false;
    }
    struct cell__part other = cell__inside(l, rest, CELL_OP_SIGMOID);
    return other.value == z->value && other.start == z->start;
}

/* The sum of n over x, and s(r) (h..), which is all the rest of it. */
static bool match_reset_after(const struct cell__looking *l, struct cell__found *found,
                              struct cell__part *reset)
{
    struct cell__sum *n = &found->gates[2];
    for (uint32_t which = 0; n->n_terms == 1 && n->n_others == 1 && which < 2; which++) {
        uint32_t late = cell__gated_by(l, n->other, which, reset);
        if (late != NONE &&
            cell__take_apart(l, (struct cell__part){late, 0}, found->width, &found->late) &&
            found->late.n_terms == 1 && found->late.n_others == 0 &&
            found->late.terms[0].value == found->h) {
            found->variant = CELL_GRU_RESET_AFTER;
            return true;
        }
    }
    return false;
}

/* The sum of n over x and s(r) h. */
static bool match_reset_before(const struct cell__looking *l, struct cell__found *found,
                               struct cell__part *reset)
{
    struct cell__sum *n = &found->gates[2];
    for (uint32_t turn = 0; n->n_terms == 2 && n->n_others == 0 && turn < 4; turn++) {
        if (cell__gated_by(l, n->terms[turn & 1].value, turn >> 1, reset) == found->h) {
            if ((turn & 1) == 0) {
                struct cell__term swapped = n->terms[0];
                n->terms[0] = n->terms[1];
                n->terms[1] = swapped;
            }
            found->variant = CELL_GRU_RESET_BEFORE;
            return true;
        }
    }
    return false;
}

static bool match_gru_gates(const struct cell__looking *l, struct cell__found *found, uint32_t n,
                            struct cell__part z)
{
    struct cell__part sum = cell__inside(l, n, CELL_OP_TANH);
    struct cell__part sums[2] = {z, {NONE, 0}}; // z, r
    if (sum.value == NONE || !is_state(l, found->h) ||
        cell__width_of(l, found->h) != found->width ||
        !cell__take_apart(l, sum, found->width, &found->gates[2])) {
        return false;
    }
    if (!match_reset_after(l, found, &sums[1]) && !match_reset_before(l, found, &sums[1])) {
        return false;
    }
    found->x = found->gates[2].terms[0].value;
    for (uint32_t g = 0; g < 2; g++) {
        if (!cell__take_apart(l, sums[g], found->width, &found->gates[g]) ||
            !is_over(&found->gates[g], &found->x, found->h)) {
            return false;
        }
    }
    return true;
}

static bool match_gru(const struct cell__looking *l, uint32_t o, struct cell__found *found)
{
    for (uint32_t turn = 0; turn < 16; turn++) {
        uint32_t n = NONE;
        struct cell__part z = {NONE, 0};
        *found = (struct cell__found){.kind = CELL_OP_GRU,
                                      .width = cell__width_of(l, l->def->ops[o].result),
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

static bool match_rnn(const struct cell__looking *l, uint32_t o, struct cell__found *found)
{
    const struct cell_op *op = &l->def->ops[o];
    if (op->kind != CELL_OP_TANH && op->kind != CELL_OP_RELU) {
        return false;
    }
    *found =
        (struct cell__found){.kind = CELL_OP_RNN,
                             .variant = op->kind == CELL_OP_RELU ? CELL_RNN_RELU : CELL_RNN_TANH,
                             .width = cell__width_of(l, op->result),
                             .h_next = o,
                             .c_next = NONE,
                             .c = NONE};
    struct cell__part sum = {op->operands[0], 0};
    return match_gates(l, found, &sum, 1, op->result) &&
           cell__width_of(l, found->h) == found->width;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static void note_makers(struct cell__looking *l)
{
    memset(l->made_by, 0xff, sizeof(l->made_by));
    for (uint32_t o = 0; o < l->def->n_ops; o++) {
        for (uint32_t i = 0; i < cell_op_results(l->def->ops[o].kind); i++) {
            l->made_by[l->def->ops[o].result + i] = o;
        }
    }
}

/* x may itself be values side by side, as where a decoder joins its token and what it attends to:
 * then the second look finds the cell. */
static bool match_recurrent(struct cell__looking *l, uint32_t o, bool is_plain,
                            struct cell__found *found)
{
    bool is_found = false;
    for (uint32_t look = 0; look < 2 && !is_found; look++) {
        l->keeps_joined = look == 1;
        is_found =
            is_plain ? match_rnn(l, o, found) : match_lstm(l, o, found) || match_gru(l, o, found);
    }
    l->keeps_joined = false;
    return is_found;
}

/* Those of this kind, of all ops. An RNN may stand in another cell: the candidate of an LSTM whose
 * gates are products of their own looks like one. So these come last. */
static enum base_status recognise_all(struct cell__looking *looking, bool is_plain)
{
    uint32_t o = 0;
    while (o < looking->def->n_ops) {
        struct cell__found found;
        bool is_done = false;
        if (match_recurrent(looking, o, is_plain, &found) ||
            (!is_plain && cell__match_tree(looking, o, &found))) {
            BASE_TRY(cell__replace(looking, &found, &is_done));
        }
        if (is_done) {
            note_makers(looking);
        }
        o = is_done ? 0 : o + 1;
    }
    return BASE_OK;
}

enum base_status cell__recognise(struct cell__import *im, struct cell_def *def)
{
    struct cell__looking looking = {.im = im, .def = def};
    note_makers(&looking);
    BASE_TRY(recognise_all(&looking, false));
    return recognise_all(&looking, true);
}
