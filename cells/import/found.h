/* A cell that was found in a definition's small operators, and its replacement by the one op that
 * it is. Private to recognise.c, recognise_tree.c and replace.c. */
#ifndef CELLS_IMPORT_FOUND_H
#define CELLS_IMPORT_FOUND_H

#include "cells/import/graph.h"

#define CELL__GATES_MAX 5u

/* Columns start.. of W' (rows first.. of W [in, out]) times a value. */
struct cell__term {
    uint32_t value;
    const struct cell_weight *weight;
    uint32_t row, column;
};

/* A gate's sum, taken apart. */
struct cell__sum {
    uint32_t n_terms, n_others;
    struct cell__term terms[3];
    uint32_t other; /* a value that is no product with weights; whole */
    const float *biases[6];
    uint32_t n_biases;
};

/* What was found: results of the definition, and the gates in the order of the op's weights. */
struct cell__found {
    enum cell_op_kind kind;
    uint32_t variant;
    uint32_t width;
    uint32_t h_next, c_next;   /* ops that compute them; c_next: CELL__NONE but for an LSTM */
    uint32_t x, h, c;          /* values; of a tree's node x may be NONE, of a leaf h and c are */
    uint32_t h_right, c_right; /* of a node with two children, whose left ones are h and c */
    /* Of a child-sum node, whose h is the sum of the children's; its gates' terms are over x and h
     * alone, though f's product is with each child's own. */
    uint32_t n_children;
    uint32_t h_of[CELL_CHILDREN_MAX], c_of[CELL_CHILDREN_MAX];
    struct cell__sum gates[CELL__GATES_MAX];
    struct cell__sum late; /* GRU, reset after: the sum over h of its last gate */
};

/* The definition, and who makes what. */
struct cell__looking {
    struct cell__import *im;
    struct cell_def *def;
    uint32_t made_by[CELL_VALUES_MAX]; /* op, or CELL__NONE */
    bool keeps_joined; /* a product over values side by side is one over what joins them */
};

static inline uint32_t cell__width_of(const struct cell__looking *l, uint32_t value)
{
    return l->def->values[value].width;
}

/* Elements start.. of a value. */
struct cell__part {
    uint32_t value, start;
};

/* ---- Looking at ops (recognise.c) ---- */

/* The op of this kind that makes the value, element by element, all operands as wide as the result:
 * none of them is one element for all. Or NULL. */
const struct cell_op *cell__even_op_of(const struct cell__looking *l, uint32_t value,
                                       enum cell_op_kind kind);
/* What the function is taken of, where it makes the value or what the value is cut from; or NONE.
 */
struct cell__part cell__inside(const struct cell__looking *l, uint32_t value,
                               enum cell_op_kind function);
/* The operand of a MUL beside sigmoid(*gate), or NONE; which: try this operand as the gate. */
uint32_t cell__gated_by(const struct cell__looking *l, uint32_t value, uint32_t which,
                        struct cell__part *gate);
/* Takes `width` elements from here on apart. false: they are no such sum. */
bool cell__take_apart(const struct cell__looking *l, struct cell__part from, uint32_t width,
                      struct cell__sum *sum);
/* The op that makes h' = s(o) tanh(c'), or NONE. */
uint32_t cell__find_h_next(const struct cell__looking *l, uint32_t c_next, struct cell__part *gate);

/* Whether op number o makes the c' of a leaf or of a node (recognise_tree.c). */
bool cell__match_tree(const struct cell__looking *l, uint32_t o, struct cell__found *found);

/* Puts the op in place of what it was found in, with weights of its own in the import's arena, and
 * drops what nobody reads any more. *is_done: that was possible, and takes products away; else
 * nothing has changed. RESOURCE_EXHAUSTED. */
enum base_status cell__replace(struct cell__looking *l, const struct cell__found *found,
                               bool *is_done);

#endif
