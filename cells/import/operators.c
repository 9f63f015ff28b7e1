/* The operators we know. docs/model-files.md has the same table; a test compares them. */
#include "cells/import/ops.h"

#include <stddef.h>
#include <string.h>

static const struct cell__operator operators[] = {
    {"Add", 2, 2, 1, " ", cell__infer_binary, cell__lower_binary, "float32"},
    {"Cast", 1, 1, 1, " to saturate ", cell__infer_cast, cell__lower_cast,
     "between float32, int64, int32"},
    {"Concat", 1, CELL__OPERANDS_MAX, 1, " axis ", cell__infer_concat, cell__lower_concat,
     "along a feature axis that is the outermost of a row"},
    {"Constant", 0, 0, 1,
     " value value_int value_ints value_float value_floats value_string value_strings "
     "sparse_value ",
     cell__infer_constant, NULL, "folded"},
    {"ConstantOfShape", 1, 1, 1, " value ", cell__infer_constant_of_shape,
     cell__lower_constant_of_shape, "folded"},
    {"Div", 2, 2, 1, " ", cell__infer_binary, cell__lower_binary, "float32"},
    {"Dropout", 1, 3, 2, " ratio seed is_test ", cell__infer_dropout, cell__lower_identity,
     "inference: the same values; no mask"},
    {"Equal", 2, 2, 1, " ", cell__infer_equal, NULL, "folded: constants and shapes only"},
    {"Expand", 2, 2, 1, " ", cell__infer_expand, cell__lower_expand,
     "along batch or time, or a constant"},
    {"Flatten", 1, 1, 1, " axis ", cell__infer_flatten, cell__lower_reshaped,
     "keeps the order of a row"},
    {"Gather", 2, 2, 1, " axis ", cell__infer_gather, cell__lower_gather,
     "an embedding (constant table, axis 0); the last step; consecutive constant indices of a "
     "feature axis"},
    {"Gemm", 2, 3, 1, " alpha beta transA transB ", cell__infer_gemm, cell__lower_gemm,
     "constant weights; not transA"},
    {"GRU", 3, 6, 2,
     " activation_alpha activation_beta activations clip direction hidden_size layout "
     "linear_before_reset output_sequence ",
     cell__infer_recurrent, cell__lower_recurrent,
     "forward, default activations; W, R, B constant; no clip"},
    {"Identity", 1, 1, 1, " ", cell__infer_identity, cell__lower_identity, ""},
    {"If", 1, 1, CELL__OPERANDS_MAX, " then_branch else_branch ", cell__infer_branch,
     cell__lower_branch, "on a condition that folds to a constant"},
    {"LSTM", 3, 8, 3,
     " activation_alpha activation_beta activations clip direction hidden_size input_forget "
     "layout output_sequence ",
     cell__infer_recurrent, cell__lower_recurrent,
     "forward, default activations; W, R, B, P constant; no clip or input_forget"},
    {"MatMul", 2, 2, 1, " ", cell__infer_matmul, cell__lower_matmul, "constant right operand"},
    {"Mul", 2, 2, 1, " ", cell__infer_binary, cell__lower_binary, "float32"},
    {"Range", 3, 3, 1, " ", cell__infer_range, NULL, "folded: int64 constants only"},
    {"Relu", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "float32"},
    {"Reshape", 2, 2, 1, " allowzero ", cell__infer_reshape, cell__lower_reshaped,
     "keeps batch and time in their order"},
    {"RNN", 3, 6, 2,
     " activation_alpha activation_beta activations clip direction hidden_size layout "
     "output_sequence ",
     cell__infer_recurrent, cell__lower_recurrent,
     "forward, Tanh or Relu; W, R, B constant; no clip"},
    {"Shape", 1, 1, 1, " start end ", cell__infer_shape, NULL, "folded, batch and time as symbols"},
    {"Sigmoid", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "float32"},
    {"Slice", 1, 5, 1, " starts ends axes ", cell__infer_slice, cell__lower_slice,
     "step 1; the last step, or a part of a feature axis"},
    {"Softmax", 1, 1, 1, " axis ", cell__infer_softmax, cell__lower_softmax,
     "over the innermost feature axis"},
    {"Split", 1, 2, CELL__OPERANDS_MAX, " axis split num_outputs ", cell__infer_split,
     cell__lower_split, "along a feature axis that is the outermost of a row"},
    {"Squeeze", 1, 2, 1, " axes ", cell__infer_squeeze, cell__lower_reshaped, ""},
    {"Sub", 2, 2, 1, " ", cell__infer_binary, cell__lower_binary, "float32"},
    {"Tanh", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "float32"},
    {"Transpose", 1, 1, 1, " perm ", cell__infer_transpose, cell__lower_transpose,
     "keeps the order of a row; any of a constant"},
    {"Unsqueeze", 1, 2, 1, " axes ", cell__infer_unsqueeze, cell__lower_reshaped, ""},
    {"Where", 3, 3, 1, " ", cell__infer_where, NULL, "folded: constants and shapes only"},
};

#define N_OPERATORS (sizeof(operators) / sizeof(operators[0]))

const struct cell__operator *cell__operator_find(const char *name)
{
    for (size_t i = 0; i < N_OPERATORS; i++) {
        if (strcmp(operators[i].name, name) == 0) {
            return &operators[i];
        }
    }
    return NULL;
}

const struct cell__operator *cell__operator_at(uint32_t index)
{
    return index < N_OPERATORS ? &operators[index] : NULL;
}
