/* The cells of a TreeLSTM (cells/def.h), as exporters write them:
 *
 *   leaf   c' = s(i) tanh(u)
 *   node   c' = s(i) tanh(u) + s(f_l) c_l + s(f_r) c_r,  added in any order
 *   both   h' = s(o) tanh(c')
 *
 * They have no state that would tell h from x: a node's gates are sums over two values as wide as
 * itself and perhaps one more, a leaf's over one. Which of a node's two is left is all the same, as
 * long as each keeps its weights. */
#include "cells/import/found.h"

#define NONE CELL__NONE

/* Order of the gates in the op's weights. */
enum { GATE_I, GATE_O, GATE_U, GATE_LEFT, GATE_RIGHT };

/* What c' is the sum of: products with a sigmoid. */
struct products {
    uint32_t n;
    uint32_t values[3];
};

/* The terms of a sum of up to three. */
static bool list_products(const struct cell__looking *l, uint32_t value, struct products *out)
{
    uint32_t open[3] = {value};
    uint32_t n = 1;
    out->n = 0;
    while (n > 0) {
        uint32_t at = open[--n];
        const struct cell_op *add = cell__even_op_of(l, at, CELL_OP_ADD);
        if (add != NULL && n + out->n + 2 <= 3) {
            open[n++] = add->operands[0];
            open[n++] = add->operands[1];
        } else if (cell__even_op_of(l, at, CELL_OP_MUL) != NULL) {
            out->values[out->n++] = at;
        } else {
            return false;
        }
    }
    return true;
}

/* s(i) tanh(u): the sums of both. */
static bool match_fresh(const struct cell__looking *l, uint32_t value, struct cell__part sums[])
{
    for (uint32_t which = 0; which < 2; which++) {
        uint32_t u = cell__gated_by(l, value, which, &sums[GATE_I]);
        if (u != NONE) {
            sums[GATE_U] = cell__inside(l, u, CELL_OP_TANH);
            if (sums[GATE_U].value != NONE) {
                return true;
            }
        }
    }
    return false;
}

/* s(f) c, where c is made by nobody here: it comes from below. */
static bool match_kept(const struct cell__looking *l, uint32_t value, struct cell__part *sum,
                       uint32_t *c)
{
    for (uint32_t which = 0; which < 2; which++) {
        *c = cell__gated_by(l, value, which, sum);
        if (*c != NONE && l->made_by[*c] == NONE) {
            return true;
        }
    }
    return false;
}

/* Whether the value is among those that gates are sums over; it becomes one if there is room. */
static bool note_value(uint32_t values[3], uint32_t *n, uint32_t value)
{
    for (uint32_t i = 0; i < *n; i++) {
        if (values[i] == value) {
            return true;
        }
    }
    if (*n == 3) {
        return false;
    }
    values[(*n)++] = value;
    return true;
}

/* Whether the sum has two terms over one value. */
static bool has_value_twice(const struct cell__sum *sum)
{
    for (uint32_t t = 1; t < sum->n_terms; t++) {
        for (uint32_t before = 0; before < t; before++) {
            if (sum->terms[before].value == sum->terms[t].value) {
                return true;
            }
        }
    }
    return false;
}

/* Each gate is a sum over these values alone, over each at most once. */
static bool take_gates(const struct cell__looking *l, struct cell__found *found,
                       const struct cell__part sums[], uint32_t values[3], uint32_t *n)
{
    *n = 0;
    for (uint32_t g = 0; g < cell_op_gates(found->kind); g++) {
        struct cell__sum *sum = &found->gates[g];
        if (!cell__take_apart(l, sums[g], found->width, sum) || sum->n_others > 0 ||
            has_value_twice(sum)) {
            return false;
        }
        for (uint32_t t = 0; t < sum->n_terms; t++) {
            if (!note_value(values, n, sum->terms[t].value)) {
                return false;
            }
        }
    }
    return true;
}

/* Which of the values are h of the children and which is x. */
static bool place_values(const struct cell__looking *l, struct cell__found *found,
                         const uint32_t values[3], uint32_t n)
{
    if (found->kind == CELL_OP_TREE_LEAF) {
        found->x = values[0];
        return n == 1;
    }
    uint32_t x = 3; // the first that is no state of a child by its width, or the last of three
    for (uint32_t i = 0; i < n; i++) {
        if (cell__width_of(l, values[i]) != found->width && x == 3) {
            x = i;
        }
    }
    x = n == 3 && x == 3 ? 2 : x;
    if (n < 2 || (n == 2 && x != 3)) {
        return false;
    }
    found->x = x == 3 ? NONE : values[x];
    found->h = values[x == 0 ? 1 : 0];
    found->h_right = values[x == 3 || x == 2 ? 1 : 2];
    return cell__width_of(l, found->h) == found->width &&
           cell__width_of(l, found->h_right) == found->width;
}

bool cell__match_tree(const struct cell__looking *l, uint32_t o, struct cell__found *found)
{
    const uint32_t value = l->def->ops[o].result;
    struct cell__part sums[CELL__GATES_MAX];
    struct products products;
    uint32_t values[3] = {NONE, NONE, NONE};
    uint32_t n = 0;
    uint32_t kept[2] = {NONE, NONE};
    uint32_t n_kept = 0;
    bool has_fresh = false;
    if (l->def->n_states > 0 || !list_products(l, value, &products) || products.n == 2) {
        return false;
    }
    *found = (struct cell__found){.kind = products.n == 1 ? CELL_OP_TREE_LEAF : CELL_OP_TREE_BINARY,
                                  .width = cell__width_of(l, value),
                                  .c_next = o,
                                  .x = NONE,
                                  .h = NONE,
                                  .c = NONE,
                                  .h_right = NONE,
                                  .c_right = NONE};
    for (uint32_t p = 0; p < products.n; p++) {
        if (!has_fresh && match_fresh(l, products.values[p], sums)) {
            has_fresh = true;
        } else if (n_kept == 2 ||
                   !match_kept(l, products.values[p], &sums[GATE_LEFT + n_kept], &kept[n_kept])) {
            return false;
        } else {
            n_kept++;
        }
    }
    if (!has_fresh || n_kept + 1 != products.n) {
        return false;
    }
    found->c = kept[0];
    found->c_right = kept[1];
    found->h_next = cell__find_h_next(l, value, &sums[GATE_O]);
    return found->h_next != NONE && take_gates(l, found, sums, values, &n) &&
           place_values(l, found, values, n);
}
