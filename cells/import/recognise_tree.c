/* The cells of a TreeLSTM (cells/op.h), as exporters write them:
 *
 *   leaf       c' = s(i) tanh(u)
 *   binary     c' = s(i) tanh(u) + s(f_l) c_l + s(f_r) c_r,  added in any order
 *   child-sum  c' = s(i) tanh(u) + s(f_1) c_1 + .. + s(f_n) c_n,  i, o and u over h_1 + .. + h_n,
 *              f_k over h_k, with the same weights for all
 *   all        h' = s(o) tanh(c')
 *
 * They have no state that would tell h from x: a binary node's gates are sums over two values as
 * wide as itself and perhaps one more, a leaf's over one. Which of a node's children is the first
 * is all the same, as long as each keeps its weights. */
#include "cells/import/found.h"

#include <string.h>

#define NONE CELL__NONE

/* Order of the gates in the op's weights. */
enum { GATE_I, GATE_O, GATE_U, GATE_LEFT, GATE_RIGHT, GATE_FORGET = GATE_LEFT };

#define ADDENDS_MAX (CELL_CHILDREN_MAX + 1)

/* What a value is the sum of, one by one. */
struct addends {
    uint32_t n;
    uint32_t values[ADDENDS_MAX];
};

/* Whatever is no addition itself; false: more than there is room for. */
static bool list_addends(const struct cell__looking *l, uint32_t value, struct addends *out)
{
    uint32_t open[ADDENDS_MAX] = {value};
    uint32_t n = 1;
    out->n = 0;
    while (n > 0) {
        uint32_t at = open[--n];
        const struct cell_op *add = cell__even_op_of(l, at, CELL_OP_ADD);
        if (add == NULL) {
            out->values[out->n++] = at;
        } else if (n + out->n + 2 <= ADDENDS_MAX) {
            open[n++] = add->operands[0];
            open[n++] = add->operands[1];
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

/* ---- Child-sum ---- */

/* Sums and c of the products that c' is made of: the fresh one's i and u, and f_k with c_k of each
 * other. */
static bool match_products(const struct cell__looking *l, const struct addends *products,
                           struct cell__part sums[], struct cell__part forgets[],
                           struct cell__found *found)
{
    bool has_fresh = false;
    found->n_children = 0;
    for (uint32_t p = 0; p < products->n; p++) {
        const uint32_t k = found->n_children;
        if (!has_fresh && match_fresh(l, products->values[p], sums)) {
            has_fresh = true;
        } else if (k < CELL_CHILDREN_MAX &&
                   match_kept(l, products->values[p], &forgets[k], &found->c_of[k])) {
            found->n_children++;
        } else {
            return false;
        }
    }
    return has_fresh && found->n_children > 0;
}

/* Whether two sums of `width` elements start from the same. An importer may have copied what was
 * one tensor: what counts is what stands there. */
static bool has_biases_of(const struct cell__sum *a, const struct cell__sum *b, uint32_t width)
{
    bool are_equal = a->n_biases == b->n_biases;
    for (uint32_t i = 0; are_equal && i < a->n_biases; i++) {
        are_equal = memcmp(a->biases[i], b->biases[i], width * sizeof(float)) == 0;
    }
    return are_equal;
}

/* Whether two terms have equal weights, over n elements. */
static bool has_weights_of(const struct cell__term *a, const struct cell__term *b, uint32_t n,
                           uint32_t width)
{
    const float *of_a = (const float *)a->weight->data + a->column;
    const float *of_b = (const float *)b->weight->data + b->column;
    for (uint32_t k = 0; k < n; k++) {
        if (memcmp(of_a + (size_t)(a->row + k) * a->weight->cols,
                   of_b + (size_t)(b->row + k) * b->weight->cols, width * sizeof(float)) != 0) {
            return false;
        }
    }
    return true;
}

/* Puts the term over x first, if there is one; false: the sum is over more than x and one other. */
static bool order_terms(struct cell__sum *sum, uint32_t x)
{
    const uint32_t wanted = x == NONE ? 1 : 2;
    if (sum->n_others > 0 || sum->n_terms != wanted) {
        return false;
    }
    if (wanted == 2 && sum->terms[0].value != x) {
        const struct cell__term swapped = sum->terms[0];
        sum->terms[0] = sum->terms[1];
        sum->terms[1] = swapped;
    }
    return wanted == 1 || (sum->terms[0].value == x && sum->terms[1].value != x);
}

/* The children's f are one gate, over x and a child's h: *found has the first of them, and all h.
 */
static bool take_forgets(const struct cell__looking *l, const struct cell__part forgets[],
                         struct cell__found *found)
{
    struct cell__sum *first = &found->gates[GATE_FORGET];
    for (uint32_t k = 0; k < found->n_children; k++) {
        struct cell__sum sum;
        if (!cell__take_apart(l, forgets[k], found->width, &sum) || !order_terms(&sum, found->x)) {
            return false;
        }
        *first = k == 0 ? sum : *first;
        found->h_of[k] = sum.terms[sum.n_terms - 1].value;
        if (cell__width_of(l, found->h_of[k]) != found->width ||
            !has_biases_of(&sum, first, found->width)) {
            return false;
        }
        for (uint32_t t = 0; t < sum.n_terms; t++) {
            const uint32_t n = cell__width_of(l, sum.terms[t].value);
            if (!has_weights_of(&sum.terms[t], &first->terms[t], n, found->width)) {
                return false;
            }
        }
    }
    first->terms[first->n_terms - 1].value = found->h;
    return true;
}

/* Whether h is the sum of the children's, each once. */
static bool is_sum_of_children(const struct cell__looking *l, const struct cell__found *found)
{
    struct addends of;
    uint32_t n_found = 0;
    if (!list_addends(l, found->h, &of) || of.n != found->n_children) {
        return false;
    }
    for (uint32_t k = 0; k < found->n_children; k++) {
        for (uint32_t i = 0; i < of.n; i++) {
            if (of.values[i] == found->h_of[k]) {
                of.values[i] = NONE;
                n_found++;
                break;
            }
        }
    }
    return n_found == of.n;
}

/* One of the values of i is the sum of the children's h, the other, if there is one, x. */
static bool match_child_sum(const struct cell__looking *l, const struct cell__part sums[],
                            const struct cell__part forgets[], struct cell__found *found)
{
    struct cell__sum i;
    if (!cell__take_apart(l, sums[GATE_I], found->width, &i) || i.n_terms == 0 || i.n_terms > 2) {
        return false;
    }
    for (uint32_t t = 0; t < i.n_terms; t++) {
        bool fits = true;
        found->h = i.terms[t].value;
        found->x = i.n_terms == 2 ? i.terms[1 - t].value : NONE;
        for (uint32_t g = GATE_I; g <= GATE_U && fits; g++) {
            struct cell__sum *sum = &found->gates[g];
            fits = cell__take_apart(l, sums[g], found->width, sum) && order_terms(sum, found->x) &&
                   sum->terms[sum->n_terms - 1].value == found->h;
        }
        if (fits && take_forgets(l, forgets, found) && is_sum_of_children(l, found)) {
            return true;
        }
    }
    return false;
}

/* ---- All ---- */

bool cell__match_tree(const struct cell__looking *l, uint32_t o, struct cell__found *found)
{
    const uint32_t value = l->def->ops[o].result;
    const struct cell__found nothing = {.width = cell__width_of(l, value),
                                        .c_next = o,
                                        .x = NONE,
                                        .h = NONE,
                                        .c = NONE,
                                        .h_right = NONE,
                                        .c_right = NONE};
    struct cell__part sums[CELL__GATES_MAX];
    struct cell__part forgets[CELL_CHILDREN_MAX];
    struct addends products;
    uint32_t values[3] = {NONE, NONE, NONE};
    uint32_t n = 0;
    *found = nothing;
    if (l->def->n_states > 0 || !list_addends(l, value, &products)) {
        return false;
    }
    const uint32_t h_next = cell__find_h_next(l, value, &sums[GATE_O]);
    found->h_next = h_next;
    if (h_next == NONE) {
        return false;
    }
    if (products.n == 1) {
        found->kind = CELL_OP_TREE_LEAF;
        return match_fresh(l, products.values[0], sums) && take_gates(l, found, sums, values, &n) &&
               place_values(l, found, values, n);
    }
    found->kind = CELL_OP_TREE_SUM;
    if (!match_products(l, &products, sums, forgets, found)) {
        return false;
    }
    if (match_child_sum(l, sums, forgets, found)) {
        return true;
    }
    if (found->n_children != 2) {
        return false;
    }
    const uint32_t kept[2] = {found->c_of[0], found->c_of[1]};
    *found = nothing;
    found->kind = CELL_OP_TREE_BINARY;
    found->h_next = h_next;
    found->c = kept[0];
    found->c_right = kept[1];
    sums[GATE_LEFT] = forgets[0];
    sums[GATE_RIGHT] = forgets[1];
    return take_gates(l, found, sums, values, &n) && place_values(l, found, values, n);
}
