/* Operators of integers of 8 bits, as fused.h has them: each is the standard's of the floats that
 * these stand for, between DequantizeLinear and QuantizeLinear. */
#include "cells/import/fused.h"

#include <string.h>

/* What is said of a tensor of integers: operands of the node, in this order. */
struct quantised {
    size_t x, scale, zero;
};

/* The floats of an operand; its scales are one, or one for each index of the axis. */
static enum base_status to_floats(struct cell__writer *w, const struct quantised *of, int64_t axis,
                                  const char **out)
{
    const char *const *in = (const char *const *)w->proto->input;
    const char *zero = cell__writer_has(w, of->zero) ? in[of->zero] : NULL;
    Onnx__NodeProto *node = NULL;
    BASE_TRY(cell__build_node(w->builder, "DequantizeLinear",
                              (const char *[]){in[of->x], in[of->scale], zero, NULL}, 1, &node));
    *out = node->output[0];
    return cell__build_set_int(w->builder, node, "axis", axis);
}

/* w->out as the integers that the node gives. Which these are their zero point says. */
static enum base_status to_integers(struct cell__writer *w, size_t scale, size_t zero)
{
    const char *const *in = (const char *const *)w->proto->input;
    if (!cell__writer_has(w, scale) || !cell__writer_has(w, zero)) {
        return cell__unwritten(w, "without a scale or zero point of what it gives");
    }
    return cell__write(w, "QuantizeLinear", (const char *[]){w->out, in[scale], in[zero], NULL},
                       &w->out);
}

/* The floats of a bias of 32 bits, at the product of the scales of what is multiplied. */
static enum base_status bias_to_floats(struct cell__writer *w, size_t bias, size_t scale, size_t by,
                                       const char **out)
{
    const char *const *in = (const char *const *)w->proto->input;
    const char *both = NULL;
    Onnx__NodeProto *node = NULL;
    BASE_TRY(cell__write(w, "Mul", (const char *[]){in[scale], in[by], NULL}, &both));
    BASE_TRY(cell__build_node(w->builder, "DequantizeLinear",
                              (const char *[]){in[bias], both, NULL}, 1, &node));
    *out = node->output[0];
    return cell__build_set_int(w->builder, node, "axis", -1);
}

enum base_status cell__write_qlinear_conv(struct cell__writer *w)
{
    enum { X, X_SCALE, X_ZERO, W, W_SCALE, W_ZERO, Y_SCALE, Y_ZERO, BIAS };
    const struct quantised x = {X, X_SCALE, X_ZERO};
    const struct quantised weights = {W, W_SCALE, W_ZERO};
    const char *in[4] = {NULL};
    Onnx__NodeProto *conv = NULL;
    BASE_TRY(to_floats(w, &x, 0, &in[0]));
    BASE_TRY(to_floats(w, &weights, 0, &in[1]));
    if (cell__writer_has(w, BIAS)) {
        BASE_TRY(bias_to_floats(w, BIAS, X_SCALE, W_SCALE, &in[2]));
    }
    BASE_TRY(cell__build_node(w->builder, "Conv", in, 1, &conv));
    BASE_TRY(cell__writer_copy_attributes(w, conv, (const char *[]){NULL}));
    w->out = conv->output[0];
    return to_integers(w, Y_SCALE, Y_ZERO);
}

/* The product of two operands of integers: a scale each, or one for each row of the first and each
 * column of the second. */
static enum base_status write_product(struct cell__writer *w, const struct quantised *a,
                                      const struct quantised *b)
{
    const char *in[3] = {NULL};
    BASE_TRY(to_floats(w, a, -2, &in[0]));
    BASE_TRY(to_floats(w, b, -1, &in[1]));
    return cell__write(w, "MatMul", in, &w->out);
}

enum base_status cell__write_qlinear_matmul(struct cell__writer *w)
{
    const struct quantised a = {0, 1, 2};
    const struct quantised b = {3, 4, 5};
    BASE_TRY(write_product(w, &a, &b));
    return to_integers(w, 6, 7);
}

static enum base_status add_bias(struct cell__writer *w, size_t bias)
{
    const char *const *in = (const char *const *)w->proto->input;
    uint32_t rank = 0;
    if (!cell__writer_has(w, bias)) {
        return BASE_OK;
    }
    BASE_TRY(cell__writer_rank(w, in[bias], &rank));
    return rank == 1 ? cell__write(w, "Add", (const char *[]){w->out, in[bias], NULL}, &w->out)
                     : cell__unwritten(w, "with a bias that is no list");
}

/* Of floats, which it would round at a scale of their own: they are left as they are. */
enum base_status cell__write_dynamic_product(struct cell__writer *w)
{
    enum { A, B, B_SCALE, B_ZERO, BIAS };
    const struct quantised b = {B, B_SCALE, B_ZERO};
    const char *in[3] = {w->proto->input[A], NULL, NULL};
    BASE_TRY(to_floats(w, &b, -1, &in[1]));
    BASE_TRY(cell__write(w, "MatMul", in, &w->out));
    return add_bias(w, BIAS);
}

enum base_status cell__write_product_to_floats(struct cell__writer *w)
{
    enum { A, B, A_SCALE, B_SCALE, A_ZERO, B_ZERO, BIAS };
    const struct quantised a = {A, A_SCALE, A_ZERO};
    const struct quantised b = {B, B_SCALE, B_ZERO};
    BASE_TRY(write_product(w, &a, &b));
    return add_bias(w, BIAS);
}

/* alpha * (A B + C), C at the product of the scales; floats where no scale of the result is given.
 */
enum base_status cell__write_quantised_gemm(struct cell__writer *w)
{
    enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, C, Y_SCALE, Y_ZERO };
    const struct quantised a = {A, A_SCALE, A_ZERO};
    const struct quantised b = {B, B_SCALE, B_ZERO};
    const char *in[4] = {NULL};
    float alpha = 1.0f;
    int64_t is_turned = 0;
    Onnx__NodeProto *gemm = NULL;
    BASE_TRY(cell__writer_float(w, "alpha", &alpha));
    BASE_TRY(cell__writer_flag(w, "transB", &is_turned));
    BASE_TRY(to_floats(w, &a, 0, &in[0]));
    BASE_TRY(to_floats(w, &b, is_turned != 0 ? 0 : 1, &in[1]));
    if (cell__writer_has(w, C)) {
        BASE_TRY(bias_to_floats(w, C, A_SCALE, B_SCALE, &in[2]));
    }
    BASE_TRY(cell__build_node(w->builder, "Gemm", in, 1, &gemm));
    BASE_TRY(cell__writer_copy_attributes(w, gemm, (const char *[]){NULL}));
    BASE_TRY(cell__build_set_float(w->builder, gemm, "beta", alpha));
    w->out = gemm->output[0];
    return cell__writer_has(w, Y_SCALE) || cell__writer_has(w, Y_ZERO)
               ? to_integers(w, Y_SCALE, Y_ZERO)
               : BASE_OK;
}

/* QLinearAdd and QLinearMul: their operators' names are behind the word. */
enum base_status cell__write_qlinear_pair(struct cell__writer *w)
{
    enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, C_SCALE, C_ZERO };
    const struct quantised a = {A, A_SCALE, A_ZERO};
    const struct quantised b = {B, B_SCALE, B_ZERO};
    const char *in[3] = {NULL};
    if (!cell__writer_has(w, B) || !cell__writer_has(w, B_SCALE)) {
        return cell__unwritten(w, "without a second operand and its scale");
    }
    BASE_TRY(to_floats(w, &a, 0, &in[0]));
    BASE_TRY(to_floats(w, &b, 0, &in[1]));
    BASE_TRY(cell__write(w, w->proto->op_type + strlen("QLinear"), in, &w->out));
    return to_integers(w, C_SCALE, C_ZERO);
}

enum { X, X_SCALE, X_ZERO, Y_SCALE, Y_ZERO };

/* A function of each element, of the name behind the word, with the attributes of the node. */
enum base_status cell__write_qlinear_function(struct cell__writer *w)
{
    const struct quantised x = {X, X_SCALE, X_ZERO};
    const char *floats = NULL;
    Onnx__NodeProto *function = NULL;
    BASE_TRY(to_floats(w, &x, 0, &floats));
    BASE_TRY(cell__build_node(w->builder, w->proto->op_type + strlen("QLinear"),
                              (const char *[]){floats, NULL}, 1, &function));
    BASE_TRY(cell__writer_copy_attributes(w, function, (const char *[]){NULL}));
    w->out = function->output[0];
    return to_integers(w, Y_SCALE, Y_ZERO);
}

/* As the Softmax of an opset that the node names. Since 13 it goes along one axis. */
enum base_status cell__write_qlinear_softmax(struct cell__writer *w)
{
    const struct quantised x = {X, X_SCALE, X_ZERO};
    const char *floats = NULL;
    int64_t axis = -1;
    int64_t opset = 0;
    Onnx__NodeProto *softmax = NULL;
    BASE_TRY(cell__writer_int(w, "axis", &axis));
    BASE_TRY(cell__writer_int(w, "opset", &opset));
    if (opset < 1 || (opset >= 13) != (w->im->opset >= 13)) {
        return cell__unwritten(w, "of another opset than the file's");
    }
    BASE_TRY(to_floats(w, &x, 0, &floats));
    BASE_TRY(cell__build_node(w->builder, "Softmax", (const char *[]){floats, NULL}, 1, &softmax));
    BASE_TRY(cell__build_set_int(w->builder, softmax, "axis", axis));
    w->out = softmax->output[0];
    return to_integers(w, Y_SCALE, Y_ZERO);
}

/* Tensors, scale and zero point of each, behind those of the result. */
enum base_status cell__write_qlinear_concat(struct cell__writer *w)
{
    const char *parts[CELL__OPERANDS_MAX] = {NULL};
    size_t n = 0;
    int64_t axis = 0;
    bool has_all = w->proto->n_input % 3 == 2 && w->proto->n_input <= CELL__OPERANDS_MAX;
    for (size_t i = 0; i < w->proto->n_input; i++) {
        has_all = has_all && cell__writer_has(w, i);
    }
    if (!has_all) {
        return cell__unwritten(w, "of tensors without a scale and zero point each");
    }
    for (size_t i = 2; i < w->proto->n_input; i += 3) {
        const struct quantised part = {i, i + 1, i + 2};
        BASE_TRY(to_floats(w, &part, 0, &parts[n++]));
    }
    BASE_TRY(cell__writer_int(w, "axis", &axis));
    BASE_TRY(cell__write_concat(w, parts, axis, &w->out));
    return to_integers(w, 0, 1);
}
