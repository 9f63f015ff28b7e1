/* Ids that may count from the end of a table, as Keras 3 writes an embedding: of an id below 0 the
 * rows of the table are added. tf2onnx makes small operators of integers of it,
 *
 *     Add(Mul(Cast(Less(Cast(x), 0)), Add(x, n)), Mul(x, Cast(Not(Less(Cast(x), 0)))))
 *
 * which is x for each id that a request may hold: one below 0 is refused as any outside of the
 * table. */
#include "cells/import/ops.h"

#include <string.h>

/* Whether input i is Cast(Less(Cast(x), 0)), or, is_not, Cast(Not(of that)). */
static bool is_below_zero(const struct cell__import *im, const struct cell__node *node, uint32_t i,
                          bool is_not, uint32_t x)
{
    const struct cell__node *at = cell__made_by(im, node, i, "Cast");
    at = is_not ? cell__made_by(im, at, 0, "Not") : at;
    const struct cell__node *less = cell__made_by(im, at, 0, "Less");
    const struct cell__node *cast = cell__made_by(im, less, 0, "Cast");
    if (cast == NULL || cast->inputs[0] != x || less->n_inputs != 2 ||
        less->inputs[1] == CELL__NONE) {
        return false;
    }
    const struct cell__value *zero = &im->values[less->inputs[1]];
    float number = 1.0f;
    if (zero->kind == CELL__CONST && zero->dtype == CELL__F32 && zero->tensor.count == 1) {
        memcpy(&number, zero->tensor.data, sizeof(number));
    }
    return number <= 0.0f && number >= 0.0f;
}

/* Whether a node is Add(x, n). */
static bool is_moved(const struct cell__import *im, const struct cell__node *node, uint32_t x)
{
    if (node == NULL || node->n_inputs != 2 || node->inputs[0] != x ||
        node->inputs[1] == CELL__NONE) {
        return false;
    }
    const struct cell__value *n = &im->values[node->inputs[1]];
    return n->kind == CELL__CONST && n->tensor.count == 1 && n->dtype != CELL__F32;
}

/* Whether these are the two products, of ids x. */
static bool are_halves(const struct cell__import *im, const struct cell__node *moved,
                       const struct cell__node *kept, uint32_t *x)
{
    for (uint32_t i = 0; moved != NULL && kept != NULL && i < 4; i++) {
        const uint32_t own = i / 2;   // of kept: x
        const uint32_t added = i % 2; // of moved: the sum
        *x = kept->inputs[own];
        if (*x != CELL__NONE && is_moved(im, cell__made_by(im, moved, added, "Add"), *x) &&
            is_below_zero(im, moved, 1 - added, false, *x) &&
            is_below_zero(im, kept, 1 - own, true, *x)) {
            return im->values[*x].kind == CELL__ROWS &&
                   (im->values[*x].dtype == CELL__I32 || im->values[*x].dtype == CELL__I64);
        }
    }
    return false;
}

/* What that Add is then: of input 0 alone. */
static const struct cell__operator ids = {
    "Add", 1, 2, 1, " ", cell__infer_identity, cell__lower_identity, ""};

void cell__replace_ids(struct cell__import *im, struct cell__node *node)
{
    uint32_t x = CELL__NONE;
    if (node->op == NULL || strcmp(node->op->name, "Add") != 0) {
        return;
    }
    const struct cell__node *first = cell__made_by(im, node, 0, "Mul");
    const struct cell__node *second = cell__made_by(im, node, 1, "Mul");
    if (are_halves(im, first, second, &x) || are_halves(im, second, first, &x)) {
        node->op = &ids;
        node->inputs[0] = x;
        node->n_inputs = 1;
    }
}
