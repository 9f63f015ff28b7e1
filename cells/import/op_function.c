/* Functions of each element that networks put behind a layer, as operators of their own; the same
 * as activations of recurrent nodes: op_step.c. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

/* alpha and beta: where the node says nothing, or has no such attribute. */
static const struct function {
    const char *name;
    struct cell__activation by;
    bool is_factor; /* x times it */
} functions[] = {
    {"Elu", {CELL__ACT_ELU, 1.0f, 0.0f}, false},
    {"Erf", {CELL__ACT_ERF, 0.0f, 0.0f}, false},
    {"Gelu", {CELL__ACT_GELU, 0.0f, 0.0f}, false},
    {"HardSigmoid", {CELL__ACT_HARD_SIGMOID, 0.2f, 0.5f}, false},
    {"HardSwish", {CELL__ACT_HARD_SIGMOID, 1.0f / 6.0f, 0.5f}, true},
    {"LeakyRelu", {CELL__ACT_LEAKY_RELU, 0.01f, 0.0f}, false},
    {"Mish", {CELL__ACT_MISH, 0.0f, 0.0f}, true},
    {"Selu", {CELL__ACT_SELU, 1.67326319217681884765625f, 1.05070102214813232421875f}, false},
    {"Softsign", {CELL__ACT_SOFTSIGN, 0.0f, 0.0f}, false},
    {"ThresholdedRelu", {CELL__ACT_THRESHOLDED_RELU, 1.0f, 0.0f}, false},
};

static const struct function *function_of(const struct cell__node *node)
{
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        if (strcmp(functions[i].name, node->op->name) == 0) {
            return &functions[i];
        }
    }
    base_assert(false);
    return &functions[0];
}

static enum base_status read_function(struct cell__import *im, const struct cell__node *node,
                                      struct cell__activation *out)
{
    *out = function_of(node)->by;
    BASE_TRY(cell__attr_float(im, node, "alpha", out->alpha, &out->alpha));
    BASE_TRY(cell__attr_float(im, node, "beta", out->beta, &out->beta));
    BASE_TRY(cell__attr_float(im, node, "gamma", out->beta, &out->beta));
    const Onnx__AttributeProto *approximate = cell__attr(node, "approximate");
    if (approximate != NULL && !cell__is_text(approximate->s, "none")) {
        out->kind = CELL__ACT_GELU_TANH;
        BASE_TRY(cell__is_text(approximate->s, "tanh")
                     ? BASE_OK
                     : cell__invalid(im, "approximate is neither none nor tanh"));
    }
    return isfinite(out->alpha) && isfinite(out->beta)
               ? BASE_OK
               : cell__invalid(im, "alpha or beta is not finite");
}

static enum base_status infer_floats(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, 0);
    if (x->kind != CELL__ROWS || x->dtype != CELL__F32) {
        return cell__refuse(im, "of a constant, or of type %s", cell__dtype_name(x->dtype));
    }
    cell__set_rows(im, node, 0, CELL__F32, &x->shape);
    return BASE_OK;
}

enum base_status cell__infer_function(struct cell__import *im, struct cell__node *node)
{
    struct cell__activation by;
    BASE_TRY(read_function(im, node, &by));
    return infer_floats(im, node);
}

enum base_status cell__lower_function(struct cell__import *im, struct cell__node *node)
{
    const uint32_t x = cell__input(im, node, 0)->row;
    struct cell__activation by;
    uint32_t row = CELL__NONE;
    BASE_TRY(read_function(im, node, &by));
    BASE_TRY(cell__row_function(im, &by, x, &row));
    if (function_of(node)->is_factor) {
        BASE_TRY(cell__row_pair(im, CELL_OP_MUL, x, row, &row));
    }
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}

enum base_status cell__infer_prelu(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *slope = cell__input(im, node, 1);
    if (slope->kind != CELL__CONST || slope->dtype != CELL__F32) {
        return cell__refuse(im, "a slope that is no constant of floats");
    }
    return infer_floats(im, node);
}

/* x where it is above 0, else x times the slope. */
enum base_status cell__lower_prelu(struct cell__import *im, struct cell__node *node)
{
    const struct cell__value *x = cell__input(im, node, 0);
    struct cell_op choose = {
        .kind = CELL_OP_SELECT, .n_operands = 3, .operands = {x->row, x->row, CELL__NONE}};
    const struct cell_value value = im->rows[x->row].value;
    uint32_t row = CELL__NONE;
    BASE_TRY(cell__row_of(im, cell__input(im, node, 1), &x->shape, true, &row));
    BASE_TRY(cell__row_pair(im, CELL_OP_MUL, x->row, row, &choose.operands[2]));
    BASE_TRY(cell__row_op(im, &choose, value, &row));
    cell__set_row(im, node, 0, row);
    return BASE_OK;
}
