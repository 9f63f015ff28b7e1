/* See fused.h. What these operators are, ONNX Runtime was asked: its description leaves out what is
 * said here of ranks, of attributes that must be there, and of what is left alone. */
#include "cells/import/fused.h"

#include "cells/import/ops.h"

#include <string.h>

/* ---- Activations ------------------------------------------------------------------------------
 */

#define PARAMETERS_MAX 2

enum { OF_CONV = 1, OF_GEMM = 2 };

/* What may stand behind a product, and its numbers: all must be there. */
static const struct activation {
    const char *name;
    const char *numbers[PARAMETERS_MAX]; /* attributes of the operator of this name */
    unsigned of;
} activations[] = {
    {"Clip", {"min", "max"}, OF_CONV},
    {"Elu", {"alpha"}, OF_GEMM},
    {"HardSigmoid", {"alpha", "beta"}, OF_CONV | OF_GEMM},
    {"HardSwish", {NULL}, OF_CONV},
    {"LeakyRelu", {"alpha"}, OF_CONV | OF_GEMM},
    {"Relu", {NULL}, OF_CONV | OF_GEMM},
    {"Selu", {"alpha", "gamma"}, OF_GEMM},
    {"Sigmoid", {NULL}, OF_CONV | OF_GEMM},
    {"Softplus", {NULL}, OF_GEMM},
    {"Softsign", {NULL}, OF_GEMM},
    {"Tanh", {NULL}, OF_CONV | OF_GEMM},
    {"ThresholdedRelu", {"alpha"}, OF_GEMM},
};

/* The activation that the node names, which must be one of a product of this kind. */
static enum base_status read_activation(struct cell__writer *w, unsigned of,
                                        const struct activation **out)
{
    const Onnx__AttributeProto *attribute = NULL;
    BASE_TRY(cell__writer_attribute(w, "activation", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING,
                                    &attribute));
    *out = NULL;
    for (size_t i = 0; attribute != NULL && i < sizeof(activations) / sizeof(activations[0]); i++) {
        if ((activations[i].of & of) != 0 &&
            cell__writer_is(w, "activation", activations[i].name)) {
            *out = &activations[i];
        }
    }
    return attribute == NULL || *out != NULL
               ? BASE_OK
               : cell__unwritten_of(w, "with the activation", attribute->s.data, attribute->s.len);
}

static size_t count_numbers(const struct activation *activation)
{
    size_t n = 0;
    while (activation != NULL && n < PARAMETERS_MAX && activation->numbers[n] != NULL) {
        n++;
    }
    return n;
}

/* w->out, behind the activation. */
static enum base_status write_activation(struct cell__writer *w, const struct activation *by,
                                         const float *numbers)
{
    Onnx__NodeProto *node = NULL;
    if (by == NULL) {
        return BASE_OK;
    }
    if (strcmp(by->name, "Clip") == 0) { // its limits are attributes or inputs, as the opset says
        const char *limits[2];
        BASE_TRY(cell__write_number(w, numbers[0], &limits[0]));
        BASE_TRY(cell__write_number(w, numbers[1], &limits[1]));
        BASE_TRY(cell__write(w, "Max", (const char *[]){w->out, limits[0], NULL}, &w->out));
        return cell__write(w, "Min", (const char *[]){w->out, limits[1], NULL}, &w->out);
    }
    BASE_TRY(cell__build_node(w->builder, by->name, (const char *[]){w->out, NULL}, 1, &node));
    for (size_t i = 0; i < count_numbers(by); i++) {
        BASE_TRY(cell__build_set_float(w->builder, node, by->numbers[i], numbers[i]));
    }
    w->out = node->output[0];
    return BASE_OK;
}

/* ---- Products ---------------------------------------------------------------------------------
 */

/* act(Conv(x, W, b) + z) */
static enum base_status write_conv(struct cell__writer *w)
{
    enum { IN_B = 2, IN_Z = 3 };
    static const float none[PARAMETERS_MAX];
    static const char *const own[] = {"activation", "activation_params", NULL};
    const char *const *in = (const char *const *)w->proto->input;
    const char *b = cell__writer_has(w, IN_B) ? in[IN_B] : NULL;
    const struct activation *activation = NULL;
    const Onnx__AttributeProto *numbers = NULL;
    Onnx__NodeProto *conv = NULL;
    BASE_TRY(read_activation(w, OF_CONV, &activation));
    BASE_TRY(cell__writer_attribute(w, "activation_params",
                                    ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS, &numbers));
    if ((numbers == NULL ? 0 : numbers->n_floats) != count_numbers(activation)) {
        return cell__unwritten(w, "with activation_params that are not as many as the activation "
                                  "has");
    }
    BASE_TRY(
        cell__build_node(w->builder, "Conv", (const char *[]){in[0], in[1], b, NULL}, 1, &conv));
    BASE_TRY(cell__writer_copy_attributes(w, conv, own));
    w->out = conv->output[0];
    if (cell__writer_has(w, IN_Z)) {
        BASE_TRY(cell__write(w, "Add", (const char *[]){w->out, in[IN_Z], NULL}, &w->out));
    }
    return write_activation(w, activation, numbers == NULL ? none : numbers->floats);
}

/* The numbers of the activation behind a Gemm: an attribute each. */
static enum base_status read_numbers(struct cell__writer *w, const struct activation *of,
                                     float out[PARAMETERS_MAX])
{
    static const char *const all[][2] = {
        {"activation_alpha", "alpha"}, {"activation_beta", "beta"}, {"activation_gamma", "gamma"}};
    const size_t n = count_numbers(of);
    for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
        const Onnx__AttributeProto *attribute = NULL;
        size_t i = 0;
        BASE_TRY(cell__writer_attribute(w, all[k][0], ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT,
                                        &attribute));
        while (i < n && strcmp(of->numbers[i], all[k][1]) != 0) {
            i++;
        }
        if ((i < n) != (attribute != NULL)) {
            return cell__unwritten_of(
                w, i < n ? "without the attribute" : "whose activation has no attribute",
                (const uint8_t *)all[k][0], strlen(all[k][0]));
        }
        if (i < n) {
            out[i] = attribute->f;
        }
    }
    return BASE_OK;
}

/* act(alpha * A B + beta * C) */
static enum base_status write_gemm(struct cell__writer *w)
{
    static const char *const own[] = {"activation", "activation_alpha", "activation_beta",
                                      "activation_gamma", NULL};
    const char *const *in = (const char *const *)w->proto->input;
    const struct activation *activation = NULL;
    float numbers[PARAMETERS_MAX] = {0.0f};
    Onnx__NodeProto *gemm = NULL;
    const char *c = cell__writer_has(w, 2) ? in[2] : NULL;
    BASE_TRY(read_activation(w, OF_GEMM, &activation));
    BASE_TRY(read_numbers(w, activation, numbers));
    if (activation == NULL) {
        return cell__unwritten(w, "without an activation");
    }
    BASE_TRY(
        cell__build_node(w->builder, "Gemm", (const char *[]){in[0], in[1], c, NULL}, 1, &gemm));
    BASE_TRY(cell__writer_copy_attributes(w, gemm, own));
    w->out = gemm->output[0];
    return write_activation(w, activation, numbers);
}

/* How FusedMatMul reads an operand: transBatch puts the first axis behind those of the batch,
 * [m, b.., k] as [b.., m, k]; trans then exchanges the last two. */
struct turning {
    uint32_t rank;
    bool is_const;
    int64_t batch, last;
};

static enum base_status read_turning(struct cell__writer *w, size_t i, struct turning *out)
{
    static const char *const names[][2] = {{"transA", "transBatchA"}, {"transB", "transBatchB"}};
    const struct cell__value *value = NULL;
    BASE_TRY(cell__writer_value(w, w->proto->input[i], &value));
    BASE_TRY(cell__writer_rank(w, w->proto->input[i], &out->rank));
    BASE_TRY(cell__writer_flag(w, names[i][0], &out->last));
    BASE_TRY(cell__writer_flag(w, names[i][1], &out->batch));
    out->is_const = value->kind == CELL__CONST;
    return BASE_OK;
}

static enum base_status turn(struct cell__writer *w, const char *x, const struct turning *by,
                             const char **out)
{
    int64_t perm[CELL_RANK_MAX] = {0};
    const uint32_t rank = by->rank;
    *out = x;
    if (rank < 2 || rank > CELL_RANK_MAX) {
        return BASE_OK; // a vector is one, whatever is said
    }
    for (uint32_t k = 0; k < rank; k++) {
        perm[k] = by->batch != 0 && k + 1 < rank ? (k + 1) % (rank - 1) : k;
    }
    if (by->last != 0) {
        const int64_t before = perm[rank - 2];
        perm[rank - 2] = perm[rank - 1];
        perm[rank - 1] = before;
    }
    return cell__write_transpose(w, x, perm, rank, out);
}

static enum base_status times(struct cell__writer *w, float by, const char **x)
{
    const char *number = NULL;
    if (by == 1.0f) {
        return BASE_OK;
    }
    BASE_TRY(cell__write_number(w, by, &number));
    return cell__write(w, "Mul", (const char *[]){*x, number, NULL}, x);
}

/* alpha * A B; a constant operand takes alpha itself. */
static enum base_status write_product(struct cell__writer *w)
{
    struct turning turnings[2];
    const char *in[3] = {NULL};
    float alpha = 1.0f;
    BASE_TRY(cell__writer_float(w, "alpha", &alpha));
    for (size_t i = 0; i < 2; i++) {
        BASE_TRY(read_turning(w, i, &turnings[i]));
    }
    const bool is_batch = turnings[0].batch != 0 || turnings[1].batch != 0;
    if (is_batch && (turnings[0].rank < 3 || turnings[0].rank != turnings[1].rank)) {
        return cell__unwritten(w, "transBatchA or transBatchB of operands that are not of one rank "
                                  "from 3 on");
    }
    for (size_t i = 0; i < 2; i++) {
        BASE_TRY(turn(w, w->proto->input[i], &turnings[i], &in[i]));
    }
    const size_t constant = turnings[0].is_const ? 0 : 1;
    const bool has = turnings[constant].is_const;
    BASE_TRY(has ? times(w, alpha, &in[constant]) : BASE_OK);
    BASE_TRY(cell__write(w, "MatMul", in, &w->out));
    return has ? BASE_OK : times(w, alpha, &w->out);
}

/* ---- Functions of an element ------------------------------------------------------------------
 */

/* x and the bias, where there is one. */
static enum base_status write_biased(struct cell__writer *w, const char **out)
{
    const char *const *in = (const char *const *)w->proto->input;
    uint32_t rank = 0;
    *out = in[0];
    if (!cell__writer_has(w, 1)) {
        return BASE_OK;
    }
    BASE_TRY(cell__writer_rank(w, in[1], &rank));
    if (rank != 1) {
        return cell__unwritten(w, "with a bias that is no list");
    }
    return cell__write(w, "Add", (const char *[]){in[0], in[1], NULL}, out);
}

static enum base_status write_bias_gelu(struct cell__writer *w)
{
    const char *x = NULL;
    BASE_TRY(write_biased(w, &x));
    return cell__write(w, "Gelu", (const char *[]){x, NULL}, &w->out);
}

static enum base_status write_fast_gelu(struct cell__writer *w)
{
    const char *x = NULL;
    Onnx__NodeProto *gelu = NULL;
    BASE_TRY(write_biased(w, &x));
    BASE_TRY(cell__build_node(w->builder, "Gelu", (const char *[]){x, NULL}, 1, &gelu));
    w->out = gelu->output[0];
    return cell__build_set_text(w->builder, gelu, "approximate", "tanh");
}

/* x * sigmoid(alpha * x) */
static enum base_status write_quick_gelu(struct cell__writer *w)
{
    const char *x = w->proto->input[0];
    const char *gate = x;
    float alpha = 1.702f;
    BASE_TRY(cell__writer_float(w, "alpha", &alpha));
    BASE_TRY(times(w, alpha, &gate));
    BASE_TRY(cell__write(w, "Sigmoid", (const char *[]){gate, NULL}, &gate));
    return cell__write(w, "Mul", (const char *[]){x, gate, NULL}, &w->out);
}

/* ---- Norms ------------------------------------------------------------------------------------
 */

enum { IN_X, IN_SKIP, IN_GAMMA };

/* x + skip + bias, which is the fourth output, too. */
static enum base_status write_skip(struct cell__writer *w, size_t in_bias, const char **sum)
{
    enum { OUT_SUM = 3 };
    const char *const *in = (const char *const *)w->proto->input;
    uint32_t ranks[2] = {0};
    for (size_t i = 0; i < 2; i++) {
        BASE_TRY(cell__writer_rank(w, in[i], &ranks[i]));
    }
    if (ranks[0] < 2 || ranks[0] > 3 || ranks[1] < 2 || ranks[1] > ranks[0]) {
        return cell__unwritten(w, "of anything but rows [batch, steps, features], or of two axes");
    }
    for (size_t i = 1; i < OUT_SUM && i < w->proto->n_output; i++) {
        if (w->proto->output[i][0] != '\0') {
            return cell__unwritten(w, "with the mean, or the deviation");
        }
    }
    BASE_TRY(cell__write(w, "Add", (const char *[]){in[IN_X], in[IN_SKIP], NULL}, sum));
    if (cell__writer_has(w, in_bias)) {
        BASE_TRY(cell__write(w, "Add", (const char *[]){*sum, in[in_bias], NULL}, sum));
    }
    w->fourth = *sum;
    return BASE_OK;
}

static enum base_status write_norm(struct cell__writer *w, const char *op,
                                   const char *const *inputs)
{
    float epsilon = 1e-12f;
    Onnx__NodeProto *norm = NULL;
    BASE_TRY(cell__writer_float(w, "epsilon", &epsilon));
    BASE_TRY(cell__build_node(w->builder, op, inputs, 1, &norm));
    BASE_TRY(cell__build_set_float(w->builder, norm, "epsilon", epsilon));
    w->out = norm->output[0];
    return BASE_OK;
}

static enum base_status write_skip_norm(struct cell__writer *w)
{
    enum { IN_BETA = 3, IN_BIAS = 4 };
    const char *const *in = (const char *const *)w->proto->input;
    const char *beta = cell__writer_has(w, IN_BETA) ? in[IN_BETA] : NULL;
    const char *sum = NULL;
    BASE_TRY(write_skip(w, IN_BIAS, &sum));
    return write_norm(w, "LayerNormalization", (const char *[]){sum, in[IN_GAMMA], beta, NULL});
}

static enum base_status write_skip_rms_norm(struct cell__writer *w)
{
    enum { IN_BIAS = 3 };
    const char *const *in = (const char *const *)w->proto->input;
    const char *sum = NULL;
    BASE_TRY(write_skip(w, IN_BIAS, &sum));
    return write_norm(w, "RMSNormalization", (const char *[]){sum, in[IN_GAMMA], NULL});
}

/* ---- Which there are --------------------------------------------------------------------------
 */

static const struct {
    const char *name;
    enum base_status (*write)(struct cell__writer *w);
    size_t inputs_min;
} rules[] = {
    {"BiasGelu", write_bias_gelu, 2},
    {"DynamicQuantizeMatMul", cell__write_dynamic_product, 3},
    {"FastGelu", write_fast_gelu, 1},
    {"FusedConv", write_conv, 2},
    {"FusedGemm", write_gemm, 2},
    {"FusedMatMul", write_product, 2},
    {"MatMulIntegerToFloat", cell__write_product_to_floats, 4},
    {"QGemm", cell__write_quantised_gemm, 6},
    {"QLinearAdd", cell__write_qlinear_pair, 2},
    {"QLinearConcat", cell__write_qlinear_concat, 5},
    {"QLinearLeakyRelu", cell__write_qlinear_function, 2},
    {"QLinearMul", cell__write_qlinear_pair, 2},
    {"QLinearSigmoid", cell__write_qlinear_function, 2},
    {"QLinearSoftmax", cell__write_qlinear_softmax, 5},
    {"QuickGelu", write_quick_gelu, 1},
    {"SkipLayerNormalization", write_skip_norm, 3},
    {"SkipSimplifiedLayerNormalization", write_skip_rms_norm, 3},
};
enum { N_RULES = sizeof(rules) / sizeof(rules[0]) };

static size_t rule_of(const char *name)
{
    size_t i = 0;
    while (i < N_RULES && strcmp(rules[i].name, name) != 0) {
        i++;
    }
    return i;
}

bool cell__is_fused(const char *name)
{
    return rule_of(name) < N_RULES;
}

/* As many as the operator takes, and none of those that it needs is left out. */
static bool has_operands(const Onnx__NodeProto *proto, size_t inputs_min)
{
    const struct cell__operator *op = cell__operator_find(proto->op_type);
    bool has = op != NULL && proto->n_input >= inputs_min && proto->n_input <= op->inputs_max &&
               proto->n_output >= 1 && proto->n_output <= op->outputs_max;
    for (size_t i = 0; has && i < proto->n_input; i++) {
        has = proto->input[i] != NULL && (proto->input[i][0] != '\0' || i >= inputs_min);
    }
    return has;
}

const Onnx__GraphProto *cell__write_fused(struct cell__import *im, const Onnx__NodeProto *proto)
{
    struct cell__writer w;
    const size_t i = proto->op_type == NULL ? N_RULES : rule_of(proto->op_type);
    if (i == N_RULES || proto->domain == NULL || strcmp(proto->domain, "com.microsoft") != 0) {
        return NULL;
    }
    im->unwritten = "operands that there are not";
    return has_operands(proto, rules[i].inputs_min) &&
                   cell__writer_begin(&w, im, proto) == BASE_OK && rules[i].write(&w) == BASE_OK
               ? cell__writer_end(&w)
               : NULL;
}
