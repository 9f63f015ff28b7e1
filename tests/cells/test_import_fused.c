/* Operators that ONNX Runtime writes when it optimises a file, each beside the standard's that it
 * stands for; and what is refused by name. */
#include "base/mem.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
    UINT8 = ONNX__TENSOR_PROTO__DATA_TYPE__UINT8,
    INT8 = ONNX__TENSOR_PROTO__DATA_TYPE__INT8,
    INT32 = ONNX__TENSOR_PROTO__DATA_TYPE__INT32,
};
enum { IN = 2, WIDTH = 3, WIDE = 5, BATCH = 2, TIME = 4, OUT_MAX = 256, STEPS_MAX = 7 };

static struct onnx_builder builder;

/* ---- Models ------------------------------------------------------------------------------- */

/* attributes: `name=` and i4, f0.5, I1,2 (integers), F0.5,2 (floats), or a text; blanks between. */
struct step {
    const char *op, *inputs, *outputs, *attributes;
};

static void set_list(Onnx__NodeProto *node, const char *name, const char *text)
{
    int64_t ints[8];
    float floats[8];
    size_t n = 0;
    const bool is_float = text[0] == 'F';
    for (char *at = NULL; n < 8 && *++text != '\0'; text = at) {
        floats[n] = strtof(text, &at);
        ints[n] = (int64_t)floats[n];
        n++;
        if (*at == '\0') {
            break;
        }
    }
    if (is_float) {
        onnx_set_floats(&builder, node, name, n, floats);
    } else {
        onnx_set_ints(&builder, node, name, n, ints);
    }
}

static void set(Onnx__NodeProto *node, const char *name, const char *value)
{
    const bool is_number = value[1] == '-' || (value[1] >= '0' && value[1] <= '9');
    if (is_number && value[0] == 'i') {
        onnx_set_int(&builder, node, name, strtoll(value + 1, NULL, 10));
    } else if (is_number && value[0] == 'f') {
        onnx_set_float(&builder, node, name, strtof(value + 1, NULL));
    } else if (value[0] == 'F' || (is_number && value[0] == 'I')) {
        set_list(node, name, value);
    } else {
        onnx_set_string(&builder, node, name, value);
    }
}

/* The standard's own operators have no domain here; ONNX Runtime gives one of its own that, too. */
static bool is_of_runtime(const char *op)
{
    static const char all[] = " BiasGelu DynamicQuantizeMatMul FastGelu FusedConv FusedGemm "
                              "FusedMatMul MatMulIntegerToFloat QGemm QLinearAdd QLinearConcat "
                              "QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearSoftmax QuickGelu "
                              "SkipLayerNormalization SkipSimplifiedLayerNormalization ";
    char word[64];
    snprintf(word, sizeof(word), " %s ", op);
    return strstr(all, word) != NULL;
}

static void add(const struct step *step)
{
    static char domain[] = "com.microsoft";
    char attributes[160];
    Onnx__NodeProto *node = onnx_node(&builder, step->op, step->inputs, step->outputs);
    if (is_of_runtime(step->op)) {
        node->domain = domain;
    }
    snprintf(attributes, sizeof(attributes), "%s",
             step->attributes == NULL ? "" : step->attributes);
    char *rest = NULL;
    for (char *at = strtok_r(attributes, " ", &rest); at != NULL; at = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(at, '=');
        ck_assert_ptr_nonnull(value);
        *value = '\0';
        set(node, at, value + 1);
    }
}

static void floats(const char *name, uint32_t rank, const int64_t *dims)
{
    struct base_random random = util_random((uint64_t)name[0] * 31 + (uint64_t)name[1]);
    onnx_constant(&builder, name, onnx_random(&builder, rank, dims, &random, 1.0f));
}

static void number(const char *name, float value)
{
    onnx_constant(&builder, name, onnx_tensor(&builder, FLOAT, 0, NULL, &value, sizeof(value)));
}

static void byte(const char *name, int32_t dtype, uint8_t value)
{
    onnx_constant(&builder, name, onnx_tensor(&builder, dtype, 0, NULL, &value, 1));
}

static void integers(void)
{
    static const int64_t matrix[] = {WIDTH, WIDE};
    static const int64_t kernel[] = {WIDE, WIDTH, 3};
    static const int64_t list[] = {WIDE};
    static const float scales[WIDE] = {0.01f, 0.02f, 0.005f, 0.015f, 0.01f};
    static const int8_t zeros[WIDE] = {1, -2, 3, 0, 5};
    static const int32_t bias[WIDE] = {300, -200, 100, 0, 50};
    int8_t q[WIDE * WIDTH * 3];
    for (size_t i = 0; i < sizeof(q); i++) {
        q[i] = (int8_t)((int)(i * 37 % 256) - 128);
    }
    onnx_constant(&builder, "q35", onnx_tensor(&builder, INT8, 2, matrix, q, WIDTH * WIDE));
    onnx_constant(&builder, "q533", onnx_tensor(&builder, INT8, 3, kernel, q, sizeof(q)));
    onnx_constant(&builder, "qs", onnx_tensor(&builder, FLOAT, 1, list, scales, sizeof(scales)));
    onnx_constant(&builder, "qz", onnx_tensor(&builder, INT8, 1, list, zeros, sizeof(zeros)));
    onnx_constant(&builder, "qb", onnx_tensor(&builder, INT32, 1, list, bias, sizeof(bias)));
    number("as", 0.01f);
    byte("az", UINT8, 120);
    number("bs", 0.02f);
    byte("bz", UINT8, 7);
    number("cs", 0.03f);
    byte("cz", UINT8, 99);
}

/* y [batch, time, WIDTH] of an LSTM, z beside it, x as y with its features before its steps, v
 * [batch, WIDTH], yq and zq integers. */
static void begin(int64_t opset)
{
    static const struct step before[] = {
        {"Sin", "y", "z", NULL},
        {"Transpose", "y", "xf", "perm=I0,2,1"},
        {"Transpose", "y", "yt", "perm=I1,0,2"},
        {"Transpose", "z", "zt", "perm=I1,0,2"},
        {"Gather", "y minus", "v", "axis=i1"},
        {"QuantizeLinear", "y as az", "yq", NULL},
        {"QuantizeLinear", "z bs bz", "zq", NULL},
        {"QuantizeLinear", "xf as az", "xq", NULL},
        {"QuantizeLinear", "v as az", "vq", NULL},
    };
    static const int64_t minus = -1;
    const struct onnx_lstm lstm = {.input = IN, .hidden = WIDTH, .layers = 1, .seed = 3};
    onnx_init(&builder, opset);
    onnx_add_lstm(&builder, &lstm);
    onnx_constant(&builder, "minus", onnx_ints(&builder, 0, 1, &minus));
    floats("g3", 1, (const int64_t[]){WIDTH});
    floats("h3", 1, (const int64_t[]){WIDTH});
    floats("i3", 1, (const int64_t[]){WIDTH});
    floats("m35", 2, (const int64_t[]){WIDTH, WIDE});
    floats("n53", 2, (const int64_t[]){WIDE, WIDTH});
    floats("b5", 1, (const int64_t[]){WIDE});
    floats("k533", 3, (const int64_t[]){WIDE, WIDTH, 3});
    floats("k333", 3, (const int64_t[]){WIDTH, WIDTH, 3});
    number("half", 0.5f);
    number("low", -0.2f);
    number("high", 0.3f);
    number("quick", 1.702f);
    number("gate", 0.7f);
    integers();
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
        add(&before[i]);
    }
}

/* What `out` is for one request; returns how many. */
static size_t answer(const struct step *steps, double out[OUT_MAX])
{
    static double numbers[BATCH * TIME * IN];
    struct replay_tensor input = {
        .rank = 3, .dims = {BATCH, TIME, IN}, .count = BATCH * TIME * IN, .data = numbers};
    struct replay_tensor output;
    struct built built;
    begin(17);
    for (size_t i = 0; i < STEPS_MAX && steps[i].op != NULL; i++) {
        add(&steps[i]);
    }
    for (size_t i = 0; i < input.count; i++) {
        numbers[i] = (double)((i * 5) % 7) - 3.0;
    }
    builder.graph.n_output = 0;
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    load_built(&builder, &built);
    replay_run(built.model, &input, &output);
    ck_assert_uint_le(output.count, OUT_MAX);
    memcpy(out, output.data, output.count * sizeof(out[0]));
    base_free(output.data);
    free_built(&builder, &built);
    return output.count;
}

/* ---- What they stand for -------------------------------------------------------------------- */

struct twin {
    struct step fused[STEPS_MAX], plain[STEPS_MAX];
};

#define CONV "kernel_shape=I3 pads=I1,1"
#define CONV_OF(a)                                                                                 \
    {                                                                                              \
        "FusedConv", "xf k533 b5", "out", CONV " activation=" a                                    \
    }
#define PLAIN_CONV                                                                                 \
    {                                                                                              \
        "Conv", "xf k533 b5", "c", CONV                                                            \
    }
#define GEMM_OF(a)                                                                                 \
    {                                                                                              \
        "FusedGemm", "v m35 b5", "out", "alpha=f2 beta=f0.5 activation=" a                         \
    }
#define PLAIN_GEMM                                                                                 \
    {                                                                                              \
        "Gemm", "v m35 b5", "c", "alpha=f2 beta=f0.5"                                              \
    }
#define A_FLOATS                                                                                   \
    {                                                                                              \
        "DequantizeLinear", "yq as az", "a", NULL                                                  \
    }
#define B_FLOATS                                                                                   \
    {                                                                                              \
        "DequantizeLinear", "zq bs bz", "b", NULL                                                  \
    }
#define W_FLOATS                                                                                   \
    {                                                                                              \
        "DequantizeLinear", "q35 qs qz", "w", "axis=i1"                                            \
    }
#define C_QUANTISED                                                                                \
    {"QuantizeLinear", "c cs cz", "q", NULL},                                                      \
    {                                                                                              \
        "DequantizeLinear", "q cs cz", "out", NULL                                                 \
    }
#define Q_FLOATS                                                                                   \
    {                                                                                              \
        "DequantizeLinear", "q cs cz", "out", NULL                                                 \
    }

static const struct twin twins[] = {
    {{CONV_OF("Relu")}, {PLAIN_CONV, {"Relu", "c", "out", NULL}}},
    {{CONV_OF("Tanh")}, {PLAIN_CONV, {"Tanh", "c", "out", NULL}}},
    {{CONV_OF("Sigmoid")}, {PLAIN_CONV, {"Sigmoid", "c", "out", NULL}}},
    {{CONV_OF("HardSwish")}, {PLAIN_CONV, {"HardSwish", "c", "out", NULL}}},
    {{CONV_OF("LeakyRelu activation_params=F0.3")},
     {PLAIN_CONV, {"LeakyRelu", "c", "out", "alpha=f0.3"}}},
    {{CONV_OF("HardSigmoid activation_params=F0.3,0.4")},
     {PLAIN_CONV, {"HardSigmoid", "c", "out", "alpha=f0.3 beta=f0.4"}}},
    {{CONV_OF("Clip activation_params=F-0.2,0.3")},
     {PLAIN_CONV, {"Clip", "c low high", "out", NULL}}},
    {{{"FusedConv", "xf k533", "out", CONV}}, {{"Conv", "xf k533", "out", CONV}}},
    {{{"FusedConv", "xf k333 - xf", "out", CONV " activation=Relu"}},
     {{"Conv", "xf k333", "c", CONV}, {"Add", "c xf", "d", NULL}, {"Relu", "d", "out", NULL}}},
    {{{"FusedConv", "xf k333 g3 xf", "out", CONV}},
     {{"Conv", "xf k333 g3", "c", CONV}, {"Add", "c xf", "out", NULL}}},
    {{GEMM_OF("Relu")}, {PLAIN_GEMM, {"Relu", "c", "out", NULL}}},
    {{GEMM_OF("Tanh")}, {PLAIN_GEMM, {"Tanh", "c", "out", NULL}}},
    {{GEMM_OF("Sigmoid")}, {PLAIN_GEMM, {"Sigmoid", "c", "out", NULL}}},
    {{GEMM_OF("Softplus")}, {PLAIN_GEMM, {"Softplus", "c", "out", NULL}}},
    {{GEMM_OF("Softsign")}, {PLAIN_GEMM, {"Softsign", "c", "out", NULL}}},
    {{GEMM_OF("LeakyRelu activation_alpha=f0.3")},
     {PLAIN_GEMM, {"LeakyRelu", "c", "out", "alpha=f0.3"}}},
    {{GEMM_OF("Elu activation_alpha=f0.6")}, {PLAIN_GEMM, {"Elu", "c", "out", "alpha=f0.6"}}},
    {{GEMM_OF("ThresholdedRelu activation_alpha=f0.05")},
     {PLAIN_GEMM, {"ThresholdedRelu", "c", "out", "alpha=f0.05"}}},
    {{GEMM_OF("Selu activation_alpha=f1.6 activation_gamma=f1.2")},
     {PLAIN_GEMM, {"Selu", "c", "out", "alpha=f1.6 gamma=f1.2"}}},
    {{GEMM_OF("HardSigmoid activation_alpha=f0.3 activation_beta=f0.4")},
     {PLAIN_GEMM, {"HardSigmoid", "c", "out", "alpha=f0.3 beta=f0.4"}}},
    {{{"FusedGemm", "v n53", "out", "transB=i1 activation=Tanh"}},
     {{"Gemm", "v n53", "c", "transB=i1"}, {"Tanh", "c", "out", NULL}}},
    {{{"FusedMatMul", "y m35", "out", NULL}}, {{"MatMul", "y m35", "out", NULL}}},
    {{{"FusedMatMul", "y n53", "out", "transB=i1 alpha=f0.5"}},
     {{"Transpose", "n53", "n", "perm=I1,0"},
      {"MatMul", "y n", "c", NULL},
      {"Mul", "c half", "out", NULL}}},
    {{{"FusedMatMul", "m35 xf", "out", "transA=i1 alpha=f0.5"}},
     {{"Transpose", "m35", "m", "perm=I1,0"},
      {"MatMul", "m xf", "c", NULL},
      {"Mul", "c half", "out", NULL}}},
    {{{"FusedMatMul", "y g3", "out", "transB=i1 alpha=f0.5"}},
     {{"MatMul", "y g3", "c", NULL}, {"Mul", "c half", "out", NULL}}},
    {{{"FusedMatMul", "y z", "s", "transB=i1 alpha=f0.5"},
      {"Softmax", "s", "p", "axis=i-1"},
      {"FusedMatMul", "p y", "out", NULL}},
     {{"Transpose", "z", "t", "perm=I0,2,1"},
      {"MatMul", "y t", "c", NULL},
      {"Mul", "c half", "s", NULL},
      {"Softmax", "s", "p", "axis=i-1"},
      {"MatMul", "p y", "out", NULL}}},
    {{{"FusedMatMul", "yt zt", "s", "transBatchA=i1 transBatchB=i1 transB=i1"},
      {"Softmax", "s", "p", "axis=i-1"},
      {"FusedMatMul", "p yt", "out", "transBatchB=i1"}},
     {{"Transpose", "z", "t", "perm=I0,2,1"},
      {"MatMul", "y t", "s", NULL},
      {"Softmax", "s", "p", "axis=i-1"},
      {"MatMul", "p y", "out", NULL}}},
    {{{"BiasGelu", "y g3", "out", NULL}}, {{"Add", "y g3", "c", NULL}, {"Gelu", "c", "out", NULL}}},
    {{{"FastGelu", "y", "out", NULL}}, {{"Gelu", "y", "out", "approximate=tanh"}}},
    {{{"FastGelu", "y g3", "out", NULL}},
     {{"Add", "y g3", "c", NULL}, {"Gelu", "c", "out", "approximate=tanh"}}},
    {{{"QuickGelu", "y", "out", NULL}},
     {{"Mul", "y quick", "c", NULL}, {"Sigmoid", "c", "s", NULL}, {"Mul", "y s", "out", NULL}}},
    {{{"QuickGelu", "y", "out", "alpha=f0.7"}},
     {{"Mul", "y gate", "c", NULL}, {"Sigmoid", "c", "s", NULL}, {"Mul", "y s", "out", NULL}}},
    {{{"SkipLayerNormalization", "y z g3 h3 i3", "out", "epsilon=f0.25"}},
     {{"Add", "y z", "c", NULL},
      {"Add", "c i3", "d", NULL},
      {"LayerNormalization", "d g3 h3", "out", "epsilon=f0.25"}}},
    {{{"SkipLayerNormalization", "y z g3", "out", NULL}},
     {{"Add", "y z", "c", NULL}, {"LayerNormalization", "c g3", "out", "epsilon=f1e-12"}}},
    {{{"SkipLayerNormalization", "y z g3 - i3", "n - - s", NULL}, {"Mul", "n s", "out", NULL}},
     {{"Add", "y z", "c", NULL},
      {"Add", "c i3", "s", NULL},
      {"LayerNormalization", "s g3", "n", "epsilon=f1e-12"},
      {"Mul", "n s", "out", NULL}}},
    {{{"SkipLayerNormalization", "v v g3", "out", NULL}},
     {{"Add", "v v", "c", NULL}, {"LayerNormalization", "c g3", "out", "epsilon=f1e-12"}}},
    {{{"SkipSimplifiedLayerNormalization", "y z g3 h3", "n - - s", "epsilon=f0.25"},
      {"Mul", "n s", "out", NULL}},
     {{"Add", "y z", "c", NULL},
      {"Add", "c h3", "s", NULL},
      {"RMSNormalization", "s g3", "n", "epsilon=f0.25"},
      {"Mul", "n s", "out", NULL}}},
    {{{"SimplifiedLayerNormalization", "y g3", "out", "epsilon=f0.25 axis=i-1 stash_type=i1"}},
     {{"RMSNormalization", "y g3", "out", "epsilon=f0.25"}}},
    {{{"DynamicQuantizeMatMul", "y q35 qs qz b5", "out", NULL}},
     {W_FLOATS, {"MatMul", "y w", "c", NULL}, {"Add", "c b5", "out", NULL}}},
    {{{"DynamicQuantizeMatMul", "y q35 bs", "out", NULL}},
     {{"DequantizeLinear", "q35 bs", "w", NULL}, {"MatMul", "y w", "out", NULL}}},
    {{{"MatMulIntegerToFloat", "yq q35 as qs az qz b5", "out", NULL}},
     {A_FLOATS, W_FLOATS, {"MatMul", "a w", "c", NULL}, {"Add", "c b5", "out", NULL}}},
    {{{"DynamicQuantizeLinear", "y", "d ds dz", NULL},
      {"MatMulIntegerToFloat", "d q35 ds qs dz", "out", NULL}},
     {{"DequantizeLinear", "q35 qs", "w", "axis=i1"}, {"MatMul", "y w", "out", NULL}}},
    {{{"QLinearMatMul", "yq as az q35 qs qz cs cz", "q", NULL}, Q_FLOATS},
     {A_FLOATS, W_FLOATS, {"MatMul", "a w", "c", NULL}, C_QUANTISED}},
    {{{"QLinearConv", "xq as az q533 qs qz cs cz qb", "q", CONV}, Q_FLOATS},
     {{"DequantizeLinear", "xq as az", "a", NULL},
      {"DequantizeLinear", "q533 qs qz", "w", "axis=i0"},
      {"Mul", "as qs", "bias_scale", NULL},
      {"DequantizeLinear", "qb bias_scale", "d", "axis=i0"},
      {"Conv", "a w d", "c", CONV},
      C_QUANTISED}},
    {{{"QGemm", "vq as az q35 qs qz qb cs cz", "q", "alpha=f0.5"}, Q_FLOATS},
     {{"DequantizeLinear", "vq as az", "a", NULL},
      W_FLOATS,
      {"Mul", "as qs", "bias_scale", NULL},
      {"DequantizeLinear", "qb bias_scale", "d", "axis=i0"},
      {"Gemm", "a w d", "c", "alpha=f0.5 beta=f0.5"},
      C_QUANTISED}},
    {{{"QGemm", "vq as az q35 qs qz", "out", NULL}},
     {{"DequantizeLinear", "vq as az", "a", NULL}, W_FLOATS, {"Gemm", "a w", "out", NULL}}},
    {{{"QLinearAdd", "yq as az zq bs bz cs cz", "q", NULL}, Q_FLOATS},
     {A_FLOATS, B_FLOATS, {"Add", "a b", "c", NULL}, C_QUANTISED}},
    {{{"QLinearMul", "yq as az zq bs bz cs cz", "q", NULL}, Q_FLOATS},
     {A_FLOATS, B_FLOATS, {"Mul", "a b", "c", NULL}, C_QUANTISED}},
    {{{"QLinearSigmoid", "yq as az cs cz", "q", NULL}, Q_FLOATS},
     {A_FLOATS, {"Sigmoid", "a", "c", NULL}, C_QUANTISED}},
    {{{"QLinearLeakyRelu", "yq as az cs cz", "q", "alpha=f0.3"}, Q_FLOATS},
     {A_FLOATS, {"LeakyRelu", "a", "c", "alpha=f0.3"}, C_QUANTISED}},
    {{{"QLinearSoftmax", "yq as az cs cz", "q", "opset=i13"}, Q_FLOATS},
     {A_FLOATS, {"Softmax", "a", "c", "axis=i-1"}, C_QUANTISED}},
    {{{"QLinearConcat", "cs cz yq as az zq bs bz", "q", "axis=i2"}, Q_FLOATS},
     {A_FLOATS, B_FLOATS, {"Concat", "a b", "c", "axis=i2"}, C_QUANTISED}},
};

START_TEST(test_they_are_what_they_stand_for)
{
    double got[OUT_MAX];
    double wanted[OUT_MAX];
    bool differs = false; // a model that answers the same whatever it is given proves nothing
    const struct twin *twin = &twins[_i];
    const size_t count = answer(twin->fused, got);
    ck_assert_uint_eq(answer(twin->plain, wanted), count);
    for (size_t i = 0; i < count; i++) {
        ck_assert_msg(fabs(got[i] - wanted[i]) <= 1e-6 * fmax(1.0, fabs(wanted[i])),
                      "%s: %g, wanted %g", twin->fused[0].op, got[i], wanted[i]);
        differs |= fabs(got[i] - got[0]) > 1e-6;
    }
    ck_assert(differs);
}
END_TEST

/* ---- Refusals ------------------------------------------------------------------------------- */

static const struct {
    struct step step;
    enum base_status status;
    const char *why;
} refused[] = {
    {CONV_OF("Elu"), BASE_UNIMPLEMENTED, "with the activation \"Elu\""},
    {CONV_OF("Clip activation_params=F0.1"), BASE_UNIMPLEMENTED, "with activation_params that"},
    {CONV_OF("LeakyRelu"), BASE_UNIMPLEMENTED, "with activation_params that"},
    {CONV_OF("Relu activation_params=F1"), BASE_UNIMPLEMENTED, "with activation_params that"},
    {{"FusedConv", "xf k533", "out", CONV " activation_params=F1"},
     BASE_UNIMPLEMENTED,
     "with activation_params that"},
    {CONV_OF("i3"), BASE_UNIMPLEMENTED, "of another type than it has, \"activation\""},
    {CONV_OF("Relu speed=i3"), BASE_UNIMPLEMENTED, "attribute \"speed\""},
    {{"FusedConv", "xf k533 b5 xf xf", "out", CONV},
     BASE_INVALID_ARGUMENT,
     "5 inputs and 1 outputs"},
    {{"FusedConv", "xf", "out", CONV}, BASE_INVALID_ARGUMENT, "1 inputs and 1 outputs"},
    {GEMM_OF("Clip"), BASE_UNIMPLEMENTED, "with the activation \"Clip\""},
    {GEMM_OF("LeakyRelu"), BASE_UNIMPLEMENTED, "without the attribute \"activation_alpha\""},
    {GEMM_OF("Relu activation_beta=f1"), BASE_UNIMPLEMENTED,
     "whose activation has no attribute \"activation_beta\""},
    {GEMM_OF("Elu activation_alpha=i1"), BASE_UNIMPLEMENTED,
     "of another type than it has, \"activation_alpha\""},
    {{"FusedGemm", "v m35 b5", "out", NULL}, BASE_UNIMPLEMENTED, "without an activation"},
    {{"FusedMatMul", "y m35", "out", "transBatchA=i1"}, BASE_UNIMPLEMENTED, "not of one rank"},
    {{"FusedMatMul", "v n53", "out", "transBatchB=i1"}, BASE_UNIMPLEMENTED, "not of one rank"},
    {{"FusedMatMul", "y n53", "out", "transB=i2"}, BASE_INVALID_ARGUMENT, "of 2; 0 or 1"},
    {{"FusedMatMul", "y y", "out", "transB=i1 transBatchA=i2"},
     BASE_UNIMPLEMENTED,
     "with a number beyond 0 and 1 for \"transBatchA\""},
    {{"FusedMatMul", "y n53", "out", "transB=f1"},
     BASE_UNIMPLEMENTED,
     "of another type than it has, \"transB\""},
    {{"FusedMatMul", "y m35", "out", "alpha=i2"},
     BASE_UNIMPLEMENTED,
     "of another type than it has, \"alpha\""},
    {{"FusedMatMul", "y m35", "out", "gamma=f2"}, BASE_UNIMPLEMENTED, "attribute \"gamma\""},
    {{"BiasGelu", "y z", "out", NULL}, BASE_UNIMPLEMENTED, "with a bias that is no list"},
    {{"FastGelu", "y z", "out", NULL}, BASE_UNIMPLEMENTED, "with a bias that is no list"},
    {{"QuickGelu", "y", "out", "beta=f2"}, BASE_UNIMPLEMENTED, "attribute \"beta\""},
    {{"SkipLayerNormalization", "y z g3", "out mean", NULL},
     BASE_UNIMPLEMENTED,
     "with the mean, or the deviation"},
    {{"SkipLayerNormalization", "y z g3", "out - deviation", NULL},
     BASE_UNIMPLEMENTED,
     "with the mean, or the deviation"},
    {{"SkipLayerNormalization", "y g3 g3", "out", NULL}, BASE_UNIMPLEMENTED, "or of two axes"},
    {{"SkipLayerNormalization", "v y g3", "out", NULL}, BASE_UNIMPLEMENTED, "or of two axes"},
    {{"SkipLayerNormalization", "y z - g3", "out", NULL},
     BASE_INVALID_ARGUMENT,
     "input 2 is missing"},
    {{"SkipSimplifiedLayerNormalization", "y z g3 h3 i3", "out", NULL},
     BASE_INVALID_ARGUMENT,
     "5 inputs and 1 outputs"},
    {{"SimplifiedLayerNormalization", "y g3", "out deviation", NULL},
     BASE_INVALID_ARGUMENT,
     "2 inputs and 2 outputs"},
    {{"SimplifiedLayerNormalization", "y g3", "out", "axis=i3"},
     BASE_UNIMPLEMENTED,
     "an axis that there is not"},
    {{"DynamicQuantizeMatMul", "y q35 qs qz m35", "out", NULL},
     BASE_UNIMPLEMENTED,
     "with a bias that is no list"},
    {{"DynamicQuantizeMatMul", "y zq bs bz", "out", NULL}, BASE_UNIMPLEMENTED, "MatMul"},
    {{"MatMulIntegerToFloat", "yq q35 qs qs az qz", "out", NULL},
     BASE_UNIMPLEMENTED,
     "a scale for each index of an axis"},
    {{"QLinearMatMul", "yq as az q35 qs qz cs -", "out", NULL},
     BASE_INVALID_ARGUMENT,
     "is missing"},
    {{"QLinearAdd", "yq as az zq bs bz cs", "out", NULL},
     BASE_UNIMPLEMENTED,
     "without a scale or zero point of what it gives"},
    {{"QLinearAdd", "yq as az - bs bz cs cz", "out", NULL},
     BASE_INVALID_ARGUMENT,
     "input 3 is missing"},
    {{"QLinearSoftmax", "yq as az cs cz", "out", "opset=i11"},
     BASE_UNIMPLEMENTED,
     "of another opset than the file's"},
    {{"QLinearSoftmax", "yq as az cs cz", "out", NULL},
     BASE_UNIMPLEMENTED,
     "of another opset than the file's"},
    {{"QLinearConcat", "cs cz yq as az zq bs", "out", "axis=i2"},
     BASE_UNIMPLEMENTED,
     "without a scale and zero point each"},
};

START_TEST(test_what_is_refused_by_name)
{
    begin(17);
    add(&refused[_i].step);
    builder.graph.n_output = 0;
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    struct base_error error = {.status = BASE_OK};
    const enum base_status status = parse_built(&builder, &error);
    expect_error(status, &error, refused[_i].status, "(node \"out\", opset 17)", refused[_i].why);
}
END_TEST

/* One of the standard's domain is nobody's, nor one of another. */
START_TEST(test_the_domain_is_theirs)
{
    static char other[] = "com.example";
    for (size_t i = 0; i < 3; i++) {
        const struct step step = {i == 2 ? "Gelu" : "QuickGelu", "y", "out", NULL};
        begin(17);
        add(&step);
        builder.graph.node[builder.graph.n_node - 1]->domain = i == 1 ? NULL : other;
        builder.graph.n_output = 0;
        onnx_output(&builder, "out", FLOAT, 0, NULL);
        expect_refused(&builder, BASE_UNIMPLEMENTED, "operator of another domain");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_fused");
    TCase *tcase = tcase_create("fused");
    tcase_add_loop_test(tcase, test_they_are_what_they_stand_for, 0,
                        (int)(sizeof(twins) / sizeof(twins[0])));
    tcase_add_loop_test(tcase, test_what_is_refused_by_name, 0,
                        (int)(sizeof(refused) / sizeof(refused[0])));
    tcase_add_test(tcase, test_the_domain_is_theirs);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
