/* Whole parts of numbers of steps: which chunk of n steps one is in, as masks of streams by chunks
 * ask (Zhang et al., arXiv 2012.05481), and its number there. Exporters write a division rounded
 * down as the operators that would round down below 0 too:
 *
 *     x / n                                                          of integers, rounded to 0
 *     Where((x < 0 xor n < 0) and not (x % n == 0), x / n - 1, x / n)   TorchScript's, of x // n
 *     x / n - Cast((x < 0 == true) and Cast(x % n))                     PyTorch's newer exporter's
 *     Cast(Floor(|y|) * Sign(y)), Cast(Floor(y)), Cast(y)               y = Cast(x) / n, of floats
 *
 * Every node and number of them is looked at, and none but x and n is wanted. Numbers of steps are
 * not below 0. As floats they are exact below 2^24, and so is the quotient rounded down: x is
 * nearer to a multiple of n above it by less than a float holds only beyond. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

#define DIVISOR_MAX (1 << 20)

enum { IN_X, IN_N };

/* ---- Nodes --------------------------------------------------------------------------------- */

/* A constant divisor: a whole number above 0, as an integer or as a float; 0: it is none. */
static int64_t divisor_of(const struct cell__import *im, const struct cell__node *node, uint32_t i)
{
    const struct cell__value *value = cell__input_of(im, node, i);
    int64_t number = 0;
    const bool is_one =
        cell__value_integer(value, DIVISOR_MAX, &number) || cell__value_whole(value, &number);
    return is_one && number >= 1 && number <= DIVISOR_MAX ? number : 0;
}

/* The Div of integers that makes input i, of which n is a divisor. */
static const struct cell__node *quotient_of(const struct cell__import *im,
                                            const struct cell__node *node, uint32_t i)
{
    const struct cell__node *div = cell__made_by(im, node, i, "Div");
    const bool is_one = div != NULL && div->n_inputs == 2 && cell__has_input(div, IN_X) &&
                        divisor_of(im, div, IN_N) > 0;
    const enum cell__dtype dtype = is_one ? im->values[div->inputs[IN_X]].dtype : CELL__BOOL;
    return dtype == CELL__I64 || dtype == CELL__I32 ? div : NULL;
}

/* Operand i of a node that may have been written out (write_out.c), or NONE: only its message
 * tells.
 */
static uint32_t operand_of(struct cell__import *im, const struct cell__node *node, uint32_t i)
{
    uint32_t v = CELL__NONE;
    return node != NULL && i < node->proto->n_input &&
                   cell__value_named(im, node->proto->input[i], &v) == BASE_OK
               ? v
               : CELL__NONE;
}

static bool is_number(const struct cell__import *im, uint32_t v, int64_t wanted)
{
    const struct cell__value *value = v == CELL__NONE ? NULL : &im->values[v];
    struct cell__sym sym;
    if (value != NULL && value->kind == CELL__CONST && value->dtype == CELL__BOOL &&
        value->tensor.count == 1) {
        return (*(const uint8_t *)value->tensor.data != 0) == (wanted != 0);
    }
    return cell__value_size(value, &sym) && cell__sym_is(&sym, wanted);
}

/* Whether input i is x < 0, of that quotient, and then compared with `other` by this operator. */
static bool is_below(struct cell__import *im, const struct cell__node *node, uint32_t i,
                     const struct cell__node *div, const char *name, int64_t other)
{
    const struct cell__node *compared = cell__made_by(im, node, i, name);
    const uint32_t below = operand_of(im, compared, 0);
    const uint32_t maker = below == CELL__NONE ? CELL__NONE : im->values[below].node;
    const struct cell__node *less = maker == CELL__NONE ? NULL : &im->nodes[maker];
    return less != NULL && less->op != NULL && strcmp(less->op->name, "Less") == 0 &&
           is_number(im, operand_of(im, compared, 1), other) &&
           is_number(im, operand_of(im, less, 1), 0) && less->inputs[0] == div->inputs[IN_X];
}

/* Whether a Mod is of x and n. */
static bool is_rest(const struct cell__import *im, const struct cell__node *mod,
                    const struct cell__node *div)
{
    const Onnx__AttributeProto *fmod = mod == NULL ? NULL : cell__attr(mod, "fmod");
    return mod != NULL && (fmod == NULL || fmod->i == 0) && mod->n_inputs == 2 &&
           mod->inputs[0] == div->inputs[IN_X] &&
           divisor_of(im, mod, 1) == divisor_of(im, div, IN_N);
}

/* x // n of TorchScript. */
static const struct cell__node *of_where(struct cell__import *im, const struct cell__node *node)
{
    const struct cell__node *div = quotient_of(im, node, 2);
    const struct cell__node *sub = cell__made_by(im, node, 1, "Sub");
    const struct cell__node *both = cell__made_by(im, node, 0, "And");
    const struct cell__node *other = cell__made_by(im, both, 1, "Not");
    const struct cell__node *same = cell__made_by(im, other, 0, "Equal");
    return div != NULL && sub != NULL && sub->inputs[0] == node->inputs[2] &&
                   is_number(im, operand_of(im, sub, 1), 1) &&
                   is_below(im, both, 0, div, "Xor", 0) &&
                   is_number(im, operand_of(im, same, 1), 0) &&
                   is_rest(im, cell__made_by(im, same, 0, "Mod"), div)
               ? div
               : NULL;
}

/* The newer exporter's. */
static const struct cell__node *of_sub(struct cell__import *im, const struct cell__node *node)
{
    const struct cell__node *div = quotient_of(im, node, 0);
    const struct cell__node *cast = cell__made_by(im, node, 1, "Cast");
    const struct cell__node *both = cell__made_by(im, cast, 0, "And");
    const struct cell__node *truth = cell__made_by(im, both, 1, "Cast");
    return div != NULL && truth != NULL && im->values[truth->outputs[0]].dtype == CELL__BOOL &&
                   is_below(im, both, 0, div, "Equal", 1) &&
                   is_rest(im, cell__made_by(im, truth, 0, "Mod"), div)
               ? div
               : NULL;
}

/* The Div of floats, of a Cast of integers, that a Cast to integers takes the whole part of. */
static const struct cell__node *of_cast(struct cell__import *im, const struct cell__node *node)
{
    const struct cell__node *mul = cell__made_by(im, node, 0, "Mul");
    const struct cell__node *floor = cell__made_by(im, mul != NULL ? mul : node, 0, "Floor");
    const struct cell__node *abs = cell__made_by(im, mul != NULL ? floor : NULL, 0, "Abs");
    const struct cell__node *sign = cell__made_by(im, mul, 1, "Sign");
    const struct cell__node *last = abs != NULL ? abs : floor != NULL && mul == NULL ? floor : node;
    const struct cell__node *div = cell__made_by(im, last, 0, "Div");
    if (mul != NULL && (abs == NULL || sign == NULL || operand_of(im, sign, 0) != abs->inputs[0])) {
        return NULL;
    }
    return div != NULL && divisor_of(im, div, IN_N) > 0 ? div : NULL;
}

/* ---- What stands for them ------------------------------------------------------------------ */

static enum base_status infer_whole(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, IN_X);
    cell__set_rows(im, node, 0, x->dtype, &x->shape);
    return BASE_OK;
}

/* Of the number of a step, or of an integer that tells of steps: inputs first and the one behind.
 * *is_one: it is either. */
static enum base_status lower_one(struct cell__import *im, struct cell__node *node, uint32_t first,
                                  bool is_floor, bool *is_one)
{
    const uint32_t x = cell__input(im, node, first + IN_X)->row;
    const int64_t n = divisor_of(im, node, first + IN_N);
    struct cell_told told;
    uint32_t input = 0;
    uint32_t row = CELL__NONE;
    const bool is_number = im->rows[x].value.width == 1 && cell__row_is_counted(im, x);
    *is_one = is_number || cell__row_told(im, x, &told, &input);
    if (*is_one) {
        BASE_TRY(is_number ? cell__row_whole(im, x, n, &row)
                           : cell__row_told_over(im, x, n, is_floor, &row));
        cell__set_row(im, node, 0, row);
    }
    return BASE_OK;
}

static enum base_status lower_whole(struct cell__import *im, struct cell__node *node)
{
    bool is_one = false;
    BASE_TRY(lower_one(im, node, 0, true, &is_one));
    return is_one ? BASE_OK
                  : cell__refuse(im, "the whole part of what is no number of a step, and no "
                                     "integer of the request that tells of steps");
}

/* Numbers that are no steps' are what the operators make of them: inputs are y, x, n. */
static enum base_status lower_cast(struct cell__import *im, struct cell__node *node)
{
    bool is_one = false;
    BASE_TRY(lower_one(im, node, 1, cell__made_by(im, node, 0, "Floor") != NULL, &is_one));
    return is_one ? BASE_OK : cell__lower_cast(im, node);
}

static const struct cell__operator whole = {"Div", 2, 3, 1, " ", infer_whole, lower_whole, ""};
static const struct cell__operator whole_cast = {
    "Cast", 1, 3, 1, " to saturate ", cell__infer_cast, lower_cast, ""};

static bool is_integers(const struct cell__import *im, uint32_t v)
{
    return v != CELL__NONE && im->values[v].kind == CELL__ROWS &&
           (im->values[v].dtype == CELL__I64 || im->values[v].dtype == CELL__I32);
}

static enum base_status replace_cast(struct cell__import *im, struct cell__node *node)
{
    const Onnx__AttributeProto *to = cell__attr(node, "to");
    const bool is_whole = to != NULL && (to->i == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 ||
                                         to->i == ONNX__TENSOR_PROTO__DATA_TYPE__INT32);
    const struct cell__node *div = is_whole ? of_cast(im, node) : NULL;
    const struct cell__node *floats = cell__made_by(im, div, IN_X, "Cast");
    if (div == NULL || floats == NULL || !is_integers(im, floats->inputs[0])) {
        return BASE_OK;
    }
    uint32_t *inputs = base_arena_array(im->arena, 3, sizeof(*inputs));
    if (inputs == NULL) {
        return cell__no_memory(im);
    }
    inputs[0] = node->inputs[0];
    inputs[1 + IN_X] = floats->inputs[0];
    inputs[1 + IN_N] = div->inputs[IN_N];
    node->op = &whole_cast;
    node->inputs = inputs;
    node->n_inputs = 3;
    return BASE_OK;
}

enum base_status cell__replace_whole(struct cell__import *im, struct cell__node *node)
{
    const char *name = node->op == NULL ? "" : node->op->name;
    if (strcmp(name, "Cast") == 0) {
        return replace_cast(im, node);
    }
    const struct cell__node *div = strcmp(name, "Where") == 0 ? of_where(im, node)
                                   : strcmp(name, "Sub") == 0 ? of_sub(im, node)
                                                              : NULL;
    if (div != NULL && is_integers(im, div->inputs[IN_X])) {
        node->op = &whole;
        node->inputs[IN_X] = div->inputs[IN_X];
        node->inputs[IN_N] = div->inputs[IN_N];
        node->n_inputs = 2;
    }
    return BASE_OK;
}
