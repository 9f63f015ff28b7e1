/* The operators we know; docs/operators.md is made of them (tests/cells/test_import_docs.c). */
#include "cells/import/ops.h"

#include <stddef.h>
#include <string.h>

#define SCAN_ATTRIBUTES                                                                            \
    " body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes "                \
    "scan_output_directions "

const struct cell__operator cell__scan_begin = {
    "Scan",           1, CELL__OPERANDS_MAX, CELL__OPERANDS_MAX, SCAN_ATTRIBUTES, cell__infer_scan,
    cell__lower_scan, ""};

const struct cell__operator cell__loop_begin = {
    "Loop",           0, CELL__OPERANDS_MAX, CELL__OPERANDS_MAX, " body ", cell__infer_loop,
    cell__lower_scan, ""};

static const struct cell__operator operators[] = {
    {"Abs", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "float32"},
    {"Acos", 1, 1, 1, " ", cell__infer_written, cell__lower_branch, "float32, within 5e-7"},
    {"Acosh", 1, 1, 1, " ", cell__infer_written, cell__lower_branch, "float32, within 4e-7"},
    {"Add", 2, 2, 1, " ", cell__infer_binary, cell__lower_binary, "float32"},
    {"And", 2, 2, 1, " ", cell__infer_binary, cell__lower_binary, "bool, inside a row"},
    {"ArgMax", 1, 1, 1, " axis keepdims select_last_index ", cell__infer_argmax, cell__lower_argmax,
     "over the whole of a row; the first of equal ones"},
    {"Asin", 1, 1, 1, " ", cell__infer_written, cell__lower_branch, "float32, within 5e-7"},
    {"Asinh", 1, 1, 1, " ", cell__infer_written, cell__lower_branch, "float32, within 4e-7"},
    {"Atan", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "float32"},
    {"Atanh", 1, 1, 1, " ", cell__infer_written, cell__lower_branch, "float32, within 4e-7"},
    {"Attention", 3, 7, 4,
     " is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision ",
     cell__infer_written, cell__lower_branch,
     "of opset 23 on: queries, keys and values of rank 3 or 4, heads that share keys too; a mask "
     "as "
     "MatMul and Softmax have it; no keys of before, no softcap; the answer alone"},
    {"AveragePool", 1, 1, 1,
     " auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides ", cell__infer_pool,
     cell__lower_pool,
     "along the steps of a sequence, of rank 3, or of rank 4 and 5 with one or two more axes of "
     "fixed sizes (of rank 5 the steps come first); not beside sequence_lens; or within each step, "
     "along one to three axes"},
    {"BatchNormalization", 5, 5, 5, " epsilon momentum spatial training_mode ",
     cell__infer_batch_norm, cell__lower_batch_norm,
     "inference; constants, or one float a row (a layer normalisation)"},
    {"BiasGelu", 2, 2, 1, " ", cell__infer_written, cell__lower_branch,
     "of com.microsoft: Add and Gelu"},
    {"Cast", 1, 1, 1, " to saturate ", cell__infer_cast, cell__lower_cast,
     "between float32, halves, int64, int32; of bool and bytes that are inputs; to bool from "
     "float32"},
    {"CastLike", 1, 2, 1, " saturate ", cell__infer_written, cell__lower_branch,
     "as Cast, to float32, int64 or int32"},
    {"Ceil", 1, 1, 1, " ", cell__infer_written, cell__lower_branch, "float32"},
    {"Celu", 1, 1, 1, " alpha ", cell__infer_written, cell__lower_branch, "float32"},
    {"Clip", 1, 3, 1, " min max ", cell__infer_clip, cell__lower_clip,
     "float32, constant limits; ids that are looked up, from 0 on"},
    {"Concat", 1, CELL__OPERANDS_MAX, 1, " axis ", cell__infer_concat, cell__lower_concat,
     "along a feature axis; float32 along the steps, of one sequence of any length, or of one "
     "several "
     "times, and of stated numbers of steps; not beside sequence_lens"},
    {"ConcatFromSequence", 1, 1, 1, " axis new_axis ", cell__infer_list_join, cell__lower_identity,
     "of what a Loop has collected"},
    {"Constant", 0, 0, 1,
     " value value_int value_ints value_float value_floats value_string value_strings "
     "sparse_value ",
     cell__infer_constant, NULL, "folded"},
    {"ConstantOfShape", 1, 1, 1, " value ", cell__infer_constant_of_shape,
     cell__lower_constant_of_shape, "folded"},
    {"Conv", 2, 3, 1, " auto_pad dilations group kernel_shape pads strides ", cell__infer_conv,
     cell__lower_conv,
     "as AveragePool; of rank 3 also of parts of a row that a Reshape has put into the batch's "
     "axis"},
    {"ConvInteger", 2, 4, 1, " auto_pad dilations group kernel_shape pads strides ",
     cell__infer_integer_product, NULL, "of what DynamicQuantizeLinear gives, and as Conv"},
    {"ConvTranspose", 2, 3, 1,
     " auto_pad dilations group kernel_shape output_padding output_shape pads strides ",
     cell__infer_conv_transpose, cell__lower_conv_transpose,
     "as Conv, of rank 3 and 4; of steps whose number a request chooses no output_shape"},
    {"Cos", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "float32"},
    {"Cosh", 1, 1, 1, " ", cell__infer_written, cell__lower_branch, "float32, within 5e-6"},
    {"CumSum", 2, 2, 1, " exclusive reverse ", cell__infer_cumsum, cell__lower_cumsum,
     "over the steps of a sequence, or up to 32 features; float32; of integers: of ones, which are "
     "the numbers of the steps"},
    {"DepthToSpace", 1, 1, 1, " blocksize mode ", cell__infer_written, cell__lower_branch,
     "of four axes; both modes"},
    {"DequantizeLinear", 2, 3, 1, " axis block_size ", cell__infer_dequantise,
     cell__lower_dequantise, "of a constant; or one scale for all of a row"},
    {"Div", 2, 2, 1, " ", cell__infer_binary, cell__lower_binary, "float32"},
    {"Dropout", 1, 3, 2, " ratio seed is_test ", cell__infer_dropout, cell__lower_identity,
     "inference: the same values; no mask"},
    {"DynamicQuantizeLSTM", 3, 12, 3,
     " activation_alpha activation_beta activations clip direction hidden_size input_forget ",
     cell__infer_dynamic_lstm, NULL,
     "of com.microsoft; an LSTM of the floats that its weights stand for, x and h not rounded"},
    {"DynamicQuantizeLinear", 1, 1, 3, " ", cell__infer_dynamic, cell__lower_identity,
     "its input as it is, not rounded, with a scale of 1 and a zero point of 0"},
    {"DynamicQuantizeMatMul", 3, 5, 1, " ", cell__infer_written, cell__lower_branch,
     "of com.microsoft; MatMul of the floats that its weights stand for, x not rounded"},
    {"Einsum", 1, CELL__OPERANDS_MAX, 1, " equation ", cell__infer_written, cell__lower_branch,
     "two operands at a time, by Transpose, MatMul, Mul and ReduceSum; no diagonals. A constant "
     "with "
     "labels that stay beside those that are summed (`btgi,gih->btgh`, a linear layer of each "
     "group) "
     "is a matrix for some groups each, zeros between their blocks"},
    {"Elu", 1, 1, 1, " alpha ", cell__infer_function, cell__lower_function, "float32"},
    {"Equal", 2, 2, 1, " ", cell__infer_same, cell__lower_same,
     "float32; integers beside one constant below 2^24"},
    {"Erf", 1, 1, 1, " ", cell__infer_function, cell__lower_function, "float32, within 3e-7"},
    {"Exp", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "float32"},
    {"Expand", 2, 2, 1, " ", cell__infer_expand, cell__lower_expand,
     "along batch or time, a constant, or within a row, of up to 1,048,576 elements then"},
    {"FastGelu", 1, 2, 1, " ", cell__infer_written, cell__lower_branch,
     "of com.microsoft: Add and Gelu, by its tanh"},
    {"Flatten", 1, 1, 1, " axis ", cell__infer_flatten, cell__lower_reshaped,
     "keeps the order of a row"},
    {"Floor", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "float32"},
    {"FusedConv", 2, 4, 1,
     " activation activation_params auto_pad dilations group kernel_shape pads strides ",
     cell__infer_written, cell__lower_branch,
     "of com.microsoft: Conv, Add and Clip, HardSigmoid, HardSwish, LeakyRelu, Relu, Sigmoid or "
     "Tanh"},
    {"FusedGemm", 2, 3, 1,
     " activation activation_alpha activation_beta activation_gamma alpha beta transA transB ",
     cell__infer_written, cell__lower_branch,
     "of com.microsoft: Gemm and Elu, HardSigmoid, LeakyRelu, Relu, Selu, Sigmoid, Softplus, "
     "Softsign, Tanh or ThresholdedRelu"},
    {"FusedMatMul", 2, 2, 1, " alpha transA transB transBatchA transBatchB ", cell__infer_written,
     cell__lower_branch, "of com.microsoft: Transpose, MatMul and Mul"},
    {"Gather", 2, 2, 1, " axis ", cell__infer_gather, cell__lower_gather,
     "an embedding (constant table, axis 0), of ids, of elements of a row that are ids, of numbers "
     "of steps or of what ArgMax has chosen; a step by its "
     "number from either end, or one that follows from how many there are, as of the middle; "
     "constant indices of a feature axis, in any order"},
    {"GatherElements", 2, 2, 1, " axis ", cell__infer_gather_elements, cell__lower_gather_elements,
     "the step whose number an input says, plus or minus a number; of a value for each step and "
     "distance those of each pair of steps, as Zipformer has it"},
    {"GatherND", 2, 2, 1, " batch_dims ", cell__infer_gather_nd, cell__lower_gather_nd,
     "the same: pairs of a row of the batch and its step, or with batch_dims=1 a step of each row; "
     "of a constant list, such as a shape"},
    {"Gelu", 1, 1, 1, " approximate ", cell__infer_function, cell__lower_function,
     "float32, its Erf within 3e-7; of com.microsoft too"},
    {"Gemm", 2, 3, 1, " alpha beta transA transB ", cell__infer_gemm, cell__lower_gemm,
     "constant weights; C constant, or rows; not transA; or constant weights times columns, "
     "nothing "
     "added"},
    {"GlobalAveragePool", 1, 1, 1, " ", cell__infer_reduce, cell__lower_reduce,
     "over the steps of a sequence, of rank 4 and 5 over the other axes too"},
    {"GlobalMaxPool", 1, 1, 1, " ", cell__infer_reduce, cell__lower_reduce, "as GlobalAveragePool"},
    {"Greater", 2, 2, 1, " ", cell__infer_binary, cell__lower_binary, "float32"},
    {"GreaterOrEqual", 2, 2, 1, " ", cell__infer_binary, cell__lower_binary, "float32"},
    {"GRU", 3, 6, 2,
     " activation_alpha activation_beta activations clip direction hidden_size layout "
     "linear_before_reset output_sequence ",
     cell__infer_recurrent, cell__lower_recurrent, "any activation; W, R, B constant"},
    {"GroupNormalization", 3, 3, 1, " epsilon num_groups stash_type ", cell__infer_instance_norm,
     cell__lower_instance_norm, "as InstanceNormalization"},
    {"HardSigmoid", 1, 1, 1, " alpha beta ", cell__infer_function, cell__lower_function, "float32"},
    {"HardSwish", 1, 1, 1, " ", cell__infer_function, cell__lower_function, "float32"},
    {"Identity", 1, 1, 1, " ", cell__infer_identity, cell__lower_identity, ""},
    {"If", 1, 1, CELL__OPERANDS_MAX, " then_branch else_branch ", cell__infer_branch,
     cell__lower_branch, "on a condition that folds to a constant"},
    {"InstanceNormalization", 3, 3, 1, " epsilon ", cell__infer_instance_norm,
     cell__lower_instance_norm,
     "over the steps of a sequence, inside a row, or both; constant scale and bias; not beside "
     "sequence_lens"},
    {"IsInf", 1, 1, 1, " detect_negative detect_positive ", cell__infer_written, cell__lower_branch,
     "float32"},
    {"IsNaN", 1, 1, 1, " ", cell__infer_written, cell__lower_branch, "float32"},
    {"LayerNormalization", 2, 3, 1, " axis epsilon stash_type ", cell__infer_layer_norm,
     cell__lower_layer_norm, "over features of a row; constant scale and bias"},
    {"LeakyRelu", 1, 1, 1, " alpha ", cell__infer_function, cell__lower_function, "float32"},
    {"Less", 2, 2, 1, " ", cell__infer_binary, cell__lower_binary, "float32"},
    {"LessOrEqual", 2, 2, 1, " ", cell__infer_binary, cell__lower_binary, "float32"},
    {"Log", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "float32"},
    {"LogSoftmax", 1, 1, 1, " axis ", cell__infer_softmax, cell__lower_softmax,
     "over the innermost feature axis, over the steps of a sequence, or over these and all "
     "features"},
    {"Loop", 0, CELL__OPERANDS_MAX, CELL__OPERANDS_MAX, " body ", cell__infer_scan_end,
     cell__lower_scan_end,
     "as many steps as an axis is long, which Gather or SequenceAt takes one by one; a condition "
     "must hold until then, and may say how many; else as Scan"},
    {"LSTM", 3, 8, 3,
     " activation_alpha activation_beta activations clip direction hidden_size input_forget "
     "layout output_sequence ",
     cell__infer_recurrent, cell__lower_recurrent, "any activation; W, R, B, P constant"},
    {"LpNormalization", 1, 1, 1, " axis p ", cell__infer_written, cell__lower_branch,
     "of p 1 and 2"},
    {"MatMul", 2, 2, 1, " ", cell__infer_matmul, cell__lower_matmul,
     "constant right operand, also where it stands once for each row of the batch, or left "
     "operand; "
     "the products of an attention; of two matrices of a row, of up to 262,144 products"},
    {"MatMulInteger", 2, 4, 1, " ", cell__infer_integer_product, NULL,
     "of what DynamicQuantizeLinear gives, and as MatMul"},
    {"MatMulIntegerToFloat", 4, 7, 1, " ", cell__infer_written, cell__lower_branch,
     "of com.microsoft: DequantizeLinear and MatMul"},
    {"Max", 1, CELL__OPERANDS_MAX, 1, " ", cell__infer_binary, cell__lower_binary, "float32"},
    {"MaxPool", 1, 1, 2, " auto_pad ceil_mode dilations kernel_shape pads storage_order strides ",
     cell__infer_pool, cell__lower_pool, "as AveragePool; no Indices"},
    {"Mean", 1, CELL__OPERANDS_MAX, 1, " ", cell__infer_written, cell__lower_branch, "float32"},
    {"Min", 1, CELL__OPERANDS_MAX, 1, " ", cell__infer_binary, cell__lower_binary, "float32"},
    {"Mish", 1, 1, 1, " ", cell__infer_function, cell__lower_function, "float32"},
    {"Mod", 2, 2, 1, " fmod ", cell__infer_mod, cell__lower_mod,
     "folded: of integers that shapes make; of a number and a number of steps, as torch.roll has "
     "it: requests have as many steps. Of the number of a step and constants"},
    {"Mul", 2, 2, 1, " ", cell__infer_binary, cell__lower_binary, "float32"},
    {"Neg", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary,
     "float32, and integers that shapes make"},
    {"Not", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "bool, inside a row"},
    {"OneHot", 3, 3, 1, " axis ", cell__infer_one_hot, cell__lower_one_hot,
     "of ids, along the last axis; constant depth and values"},
    {"Or", 2, 2, 1, " ", cell__infer_binary, cell__lower_binary, "bool, inside a row"},
    {"Pad", 1, 4, 1, " mode pads value ", cell__infer_pad, cell__lower_pad,
     "with zeros, of which there may be less than none (elements are left out), edge, reflect and "
     "wrap; "
     "along the steps of a sequence not beside sequence_lens; of a constant list of integers, such "
     "as "
     "a shape, with a constant"},
    {"Pow", 2, 2, 1, " ", cell__infer_pow, cell__lower_pow,
     "float32, within 2e-7 + 1e-8 |ln| of the result; a constant exponent may be an integer"},
    {"PRelu", 2, 2, 1, " ", cell__infer_prelu, cell__lower_prelu, "float32, constant slope"},
    {"QGemm", 6, 9, 1, " alpha transA transB ", cell__infer_written, cell__lower_branch,
     "of com.microsoft: Gemm between DequantizeLinear and QuantizeLinear"},
    {"QLinearAdd", 7, 8, 1, " ", cell__infer_written, cell__lower_branch,
     "of com.microsoft: Add between DequantizeLinear and QuantizeLinear"},
    {"QLinearConcat", 5, CELL__OPERANDS_MAX, 1, " axis ", cell__infer_written, cell__lower_branch,
     "of com.microsoft, as QLinearAdd"},
    {"QLinearConv", 8, 9, 1, " auto_pad dilations group kernel_shape pads strides ",
     cell__infer_written, cell__lower_branch, "Conv between DequantizeLinear and QuantizeLinear"},
    {"QLinearLeakyRelu", 4, 5, 1, " alpha ", cell__infer_written, cell__lower_branch,
     "of com.microsoft, as QLinearAdd"},
    {"QLinearMatMul", 8, 8, 1, " ", cell__infer_written, cell__lower_branch,
     "MatMul between DequantizeLinear and QuantizeLinear"},
    {"QLinearMul", 7, 8, 1, " ", cell__infer_written, cell__lower_branch,
     "of com.microsoft, as QLinearAdd"},
    {"QLinearSigmoid", 4, 5, 1, " ", cell__infer_written, cell__lower_branch,
     "of com.microsoft, as QLinearAdd"},
    {"QLinearSoftmax", 5, 5, 1, " axis opset ", cell__infer_written, cell__lower_branch,
     "of com.microsoft, as QLinearAdd"},
    {"QuantizeLinear", 2, 3, 1, " axis block_size output_dtype saturate ", cell__infer_quantise,
     cell__lower_quantise, "to uint8 or int8; of a constant, or one scale for all of a row"},
    {"QuickGelu", 1, 1, 1, " alpha ", cell__infer_written, cell__lower_branch,
     "of com.microsoft: x times Sigmoid of alpha x"},
    {"Range", 3, 3, 1, " ", cell__infer_range, cell__lower_range,
     "folded: integer constants only; the numbers of all steps of a sequence, floats too, from the "
     "first on, some times these, or, as Transformer-XL shifts them, from the last one down"},
    {"Reciprocal", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "float32"},
    {"ReduceL1", 1, 2, 1, " axes keepdims noop_with_empty_axes ", cell__infer_reduce,
     cell__lower_reduce, "as ReduceSum"},
    {"ReduceL2", 1, 2, 1, " axes keepdims noop_with_empty_axes ", cell__infer_reduce,
     cell__lower_reduce, "as ReduceSum"},
    {"ReduceLogSum", 1, 2, 1, " axes keepdims noop_with_empty_axes ", cell__infer_written,
     cell__lower_branch, "as ReduceSum"},
    {"ReduceLogSumExp", 1, 2, 1, " axes keepdims noop_with_empty_axes ", cell__infer_written,
     cell__lower_branch, "as ReduceMax"},
    {"ReduceMax", 1, 2, 1, " axes keepdims noop_with_empty_axes ", cell__infer_reduce,
     cell__lower_reduce, "as ReduceMean; the largest score of an attention"},
    {"ReduceMean", 1, 2, 1, " axes keepdims noop_with_empty_axes ", cell__infer_reduce,
     cell__lower_reduce,
     "over features of a row that lie together, all or some of them, over the steps of a "
     "sequence, or both"},
    {"ReduceMin", 1, 2, 1, " axes keepdims noop_with_empty_axes ", cell__infer_reduce,
     cell__lower_reduce, "as ReduceMax"},
    {"ReduceProd", 1, 2, 1, " axes keepdims noop_with_empty_axes ", cell__infer_product,
     cell__lower_reduce, "as ReduceMax, of features alone; folded: of shapes"},
    {"ReduceSum", 1, 2, 1, " axes keepdims noop_with_empty_axes ", cell__infer_reduce,
     cell__lower_reduce, "as ReduceMean"},
    {"ReduceSumSquare", 1, 2, 1, " axes keepdims noop_with_empty_axes ", cell__infer_reduce,
     cell__lower_reduce, "as ReduceSum"},
    {"Relu", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "float32"},
    {"Reshape", 2, 2, 1, " allowzero ", cell__infer_reshape, cell__lower_reshaped,
     "keeps the batch; groups steps anew (model-files.md). They may be written as another "
     "tensor's (`x.view(*skip.shape[:3], -1)`), and a request in which these differ is refused"},
    {"ReverseSequence", 2, 2, 1, " batch_axis time_axis ", cell__infer_reverse, cell__lower_reverse,
     "all steps of a sequence, of floats unless it is turned back, feeds a recurrent node, or "
     "gives its "
     "first or last step"},
    {"RMSNormalization", 2, 2, 1, " axis epsilon stash_type ", cell__infer_written,
     cell__lower_branch, "float32"},
    {"RNN", 3, 6, 2,
     " activation_alpha activation_beta activations clip direction hidden_size layout "
     "output_sequence ",
     cell__infer_recurrent, cell__lower_recurrent, "any activation; W, R, B constant"},
    {"Resize", 1, 4, 1,
     " antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
     "extrapolation_value keep_aspect_ratio_policy mode nearest_mode scales ",
     cell__infer_resize, cell__lower_resize,
     "of the nearest element, each a whole number of times, along the steps of a sequence and "
     "within a row; `linear` too, within a row to any size"},
    {"Round", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "float32"},
    {"Scan", 1, CELL__OPERANDS_MAX, CELL__OPERANDS_MAX, SCAN_ATTRIBUTES, cell__infer_scan_end,
     cell__lower_scan_end,
     "opset 9 on; forward or all backward; up to 9 state variables; a body of operators of this "
     "table that works "
     "on "
     "each row of the batch alone"},
    {"ScatterElements", 3, 3, 1, " axis reduction ", cell__infer_scatter_elements,
     cell__lower_order,
     "folded: lists of int64; the inverse of the order in which rows are sorted"},
    {"ScatterND", 3, 3, 1, " reduction ", cell__infer_written, cell__lower_branch,
     "constant indices of a box, one of whose axes is not whole: an assignment to a part; of a "
     "constant list any"},
    {"Selu", 1, 1, 1, " alpha gamma ", cell__infer_function, cell__lower_function, "float32"},
    {"SequenceAt", 2, 2, 1, " ", cell__infer_list_at, cell__lower_list_at,
     "by the number of the step, in a Loop; by a constant an element, the first or last step, or "
     "a part of the features"},
    {"SequenceConstruct", 1, CELL__OPERANDS_MAX, 1, " ", cell__infer_list_construct, NULL,
     "of single tensors, before a Loop that collects others, or as its states"},
    {"SequenceEmpty", 0, 0, 1, " dtype ", cell__infer_list_empty, NULL, "carried by a Loop"},
    {"SequenceErase", 1, 2, 1, " ", cell__infer_list_erase, NULL,
     "of single tensors, at a constant place"},
    {"SequenceInsert", 2, 3, 1, " ", cell__infer_list_insert, cell__lower_list_insert,
     "at the end or in front, once a step of a Loop; of single tensors at a constant place"},
    {"SequenceLength", 1, 1, 1, " ", cell__infer_list_length, NULL, "folded"},
    {"Shape", 1, 1, 1, " start end ", cell__infer_shape, NULL, "folded, batch and time as symbols"},
    {"Sigmoid", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "float32"},
    {"Sign", 1, 1, 1, " ", cell__infer_written, cell__lower_branch, "float32"},
    {"SimplifiedLayerNormalization", 2, 2, 1, " axis epsilon stash_type ", cell__infer_written,
     cell__lower_branch, "of ONNX Runtime, in the standard's domain; as RMSNormalization"},
    {"Sin", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "float32"},
    {"Sinh", 1, 1, 1, " ", cell__infer_written, cell__lower_branch, "float32, within 5e-6"},
    {"Size", 1, 1, 1, " ", cell__infer_size, NULL, "folded, batch and time as symbols"},
    {"SkipLayerNormalization", 3, 5, 4, " epsilon ", cell__infer_written, cell__lower_branch,
     "of com.microsoft: Add and LayerNormalization; the sum too, no mean"},
    {"SkipSimplifiedLayerNormalization", 3, 4, 4, " epsilon ", cell__infer_written,
     cell__lower_branch, "of com.microsoft: Add and RMSNormalization; the sum too, no mean"},
    {"Slice", 1, 5, 1, " starts ends axes ", cell__infer_slice, cell__lower_slice,
     "the first or last step or steps, or all but some at the ends, every nth of them, as many as "
     "a number divides, the first or last as many as another sequence has, of a stated number any "
     "part; of a feature axis every nth, in either direction; of a constant any, or as much as "
     "there are steps, along one axis or along two"},
    {"STFT", 2, 4, 1, " onesided ", cell__infer_written, cell__lower_branch,
     "of a real signal along the steps; constant step, length (up to 2048) and window"},
    {"Softmax", 1, 1, 1, " axis ", cell__infer_softmax, cell__lower_softmax,
     "over the innermost feature axis, over the steps of a sequence, or over these and all "
     "features"},
    {"Softplus", 1, 1, 1, " ", cell__infer_softplus, cell__lower_softplus, "float32"},
    {"Softsign", 1, 1, 1, " ", cell__infer_function, cell__lower_function, "float32"},
    {"SpaceToDepth", 1, 1, 1, " blocksize ", cell__infer_written, cell__lower_branch,
     "of four axes"},
    {"Split", 1, 2, CELL__OPERANDS_MAX, " axis split num_outputs ", cell__infer_split,
     cell__lower_split, "along a feature axis"},
    {"Sqrt", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "float32"},
    {"SplitToSequence", 1, 2, 1, " axis keepdims ", cell__infer_list_split, cell__lower_identity,
     "into its elements, without the axis; into parts of the features, of constant sizes"},
    {"Squeeze", 1, 2, 1, " axes ", cell__infer_squeeze, cell__lower_reshaped, ""},
    {"Sub", 2, 2, 1, " ", cell__infer_binary, cell__lower_binary, "float32"},
    {"Sum", 1, CELL__OPERANDS_MAX, 1, " ", cell__infer_written, cell__lower_branch, "float32"},
    {"Swish", 1, 1, 1, " alpha ", cell__infer_written, cell__lower_branch, "float32"},
    {"Tan", 1, 1, 1, " ", cell__infer_written, cell__lower_branch, "float32, within 5e-7"},
    {"Tanh", 1, 1, 1, " ", cell__infer_unary, cell__lower_unary, "float32"},
    {"Tile", 2, 2, 1, " ", cell__infer_tile, cell__lower_tile,
     "as Expand, of axes of one element; of others within a row a constant number of times; of a "
     "constant for each row of the batch"},
    {"ThresholdedRelu", 1, 1, 1, " alpha ", cell__infer_function, cell__lower_function, "float32"},
    {"TopK", 1, 2, 2, " axis k largest sorted ", cell__infer_top, cell__lower_top,
     "over the whole of a row; constant k; of equal elements the first come first. Along the steps "
     "of a sequence the values alone, k up to 8"},
    {"Transpose", 1, 1, 1, " perm ", cell__infer_transpose, cell__lower_transpose, "any"},
    {"Trilu", 1, 2, 1, " upper ", cell__infer_trilu, cell__lower_trilu,
     "of a constant; or of one number for each pair of steps, as a mask of an attention"},
    {"Unsqueeze", 1, 2, 1, " axes ", cell__infer_unsqueeze, cell__lower_reshaped, ""},
    {"Upsample", 1, 2, 1, " mode scales ", cell__infer_resize, cell__lower_resize, "as Resize"},
    {"Where", 3, 3, 1, " ", cell__infer_select, cell__lower_select, "float32"},
    {"Xor", 2, 2, 1, " ", cell__infer_written, cell__lower_branch, "bool, inside a row"},
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

static bool is_among(const struct cell__operator *op, cell__op_fn *const fns[], size_t n)
{
    size_t i = 0;
    while (i < n && op->infer != fns[i]) {
        i++;
    }
    return i < n;
}

bool cell__operator_takes_lists(const struct cell__operator *op)
{
    static cell__op_fn *const takers[] = {
        cell__infer_gather,    cell__infer_list_split,  cell__infer_list_length,
        cell__infer_list_at,   cell__infer_list_insert, cell__infer_list_erase,
        cell__infer_list_join, cell__infer_loop,        cell__infer_scan_end};
    return is_among(op, takers, sizeof(takers) / sizeof(takers[0]));
}

bool cell__operator_takes_orders(const struct cell__operator *op)
{
    static cell__op_fn *const takers[] = {cell__infer_gather,   cell__infer_cast,
                                          cell__infer_identity, cell__infer_shape,
                                          cell__infer_top,      cell__infer_scatter_elements};
    return is_among(op, takers, sizeof(takers) / sizeof(takers[0]));
}

const struct cell__operator *cell__operator_at(uint32_t index)
{
    return index < N_OPERATORS ? &operators[index] : NULL;
}
