/* Random LSTM models, as onnx_builder.h describes them. */
#include "tests/onnx_builder.h"

#include "base/assert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64 };

/* PyTorch's bound for initial weights. */
static float scale_of(uint32_t fan_in)
{
    return (float)(1.0 / sqrt((double)fan_in));
}

static void add_inputs(struct onnx_builder *builder, const struct onnx_lstm *lstm,
                       struct base_random *random)
{
    const int64_t x[] = {-1, -1, lstm->input};
    const int64_t state[] = {1, -1, lstm->hidden};
    const int64_t table[] = {lstm->embedding, lstm->input};
    const int64_t perm[] = {1, 0, 2};
    if (lstm->embedding > 0) {
        onnx_input(builder, "tokens", INT64, 2, x);
        onnx_constant(builder, "table", onnx_random(builder, 2, table, random, 1.0f));
        onnx_node(builder, "Gather", "table tokens", "embedded");
    } else {
        onnx_input(builder, "x", FLOAT, 3, x);
    }
    Onnx__NodeProto *transpose =
        onnx_node(builder, "Transpose", lstm->embedding > 0 ? "embedded" : "x", "time_major");
    onnx_set_ints(builder, transpose, "perm", 3, perm);
    if (lstm->has_states) {
        onnx_input(builder, "h0", FLOAT, 3, state);
        onnx_input(builder, "c0", FLOAT, 3, state);
        onnx_output(builder, "hn", FLOAT, 3, state);
        onnx_output(builder, "cn", FLOAT, 3, state);
    }
}

/* Layer n reads `from`, and leaves Y without its direction axis in s<n>. */
static void add_layer(struct onnx_builder *builder, const struct onnx_lstm *lstm, uint32_t n,
                      const char *from, struct base_random *random)
{
    const int64_t width = n == 0 ? lstm->input : lstm->hidden;
    const int64_t w[] = {1, 4 * (int64_t)lstm->hidden, width};
    const int64_t r[] = {1, 4 * (int64_t)lstm->hidden, lstm->hidden};
    const int64_t b[] = {1, 8 * (int64_t)lstm->hidden};
    const int64_t direction[] = {1};
    const float scale = scale_of(lstm->hidden);
    char name[32];
    char inputs[160];
    char outputs[64];
    snprintf(name, sizeof(name), "w%u", n);
    onnx_constant(builder, name, onnx_random(builder, 3, w, random, scale));
    snprintf(name, sizeof(name), "r%u", n);
    onnx_constant(builder, name, onnx_random(builder, 3, r, random, scale));
    snprintf(name, sizeof(name), "b%u", n);
    onnx_constant(builder, name, onnx_random(builder, 2, b, random, scale));
    snprintf(inputs, sizeof(inputs), "%s w%u r%u b%u%s", from, n, n, n,
             lstm->has_states ? " - h0 c0" : "");
    snprintf(outputs, sizeof(outputs), "y%u%s", n, lstm->has_states ? " hn cn" : "");
    Onnx__NodeProto *node = onnx_node(builder, "LSTM", inputs, outputs);
    onnx_set_int(builder, node, "hidden_size", lstm->hidden);
    if (n == 0) {
        onnx_constant(builder, "direction", onnx_ints(builder, 1, 1, direction));
    }
    snprintf(inputs, sizeof(inputs), "y%u direction", n);
    snprintf(outputs, sizeof(outputs), "s%u", n);
    onnx_node(builder, "Squeeze", inputs, outputs);
}

static void add_head(struct onnx_builder *builder, const struct onnx_lstm *lstm, const char *from,
                     struct base_random *random)
{
    const int64_t y[] = {-1, -1, lstm->hidden};
    const int64_t probabilities[] = {-1, lstm->classes};
    const int64_t w[] = {lstm->classes, lstm->hidden};
    const int64_t perm[] = {1, 0, 2};
    const int64_t last = -1;
    const float scale = scale_of(lstm->hidden);
    if (lstm->classes == 0) {
        Onnx__NodeProto *transpose = onnx_node(builder, "Transpose", from, "y");
        onnx_set_ints(builder, transpose, "perm", 3, perm);
        onnx_output(builder, "y", FLOAT, 3, y);
        return;
    }
    char inputs[64];
    onnx_constant(builder, "last", onnx_ints(builder, 0, 1, &last));
    onnx_constant(builder, "head_w", onnx_random(builder, 2, w, random, scale));
    onnx_constant(builder, "head_b", onnx_random(builder, 1, w, random, scale));
    snprintf(inputs, sizeof(inputs), "%s last", from);
    onnx_node(builder, "Gather", inputs, "last_step");
    Onnx__NodeProto *gemm = onnx_node(builder, "Gemm", "last_step head_w head_b", "scores");
    onnx_set_int(builder, gemm, "transB", 1);
    onnx_node(builder, "Softmax", "scores", "probabilities");
    onnx_output(builder, "probabilities", FLOAT, 2, probabilities);
}

void onnx_add_lstm(struct onnx_builder *builder, const struct onnx_lstm *lstm)
{
    struct base_random random;
    char from[32] = "time_major";
    base_assert(builder->opset.version >= 13); // Squeeze takes its axes as an input
    base_assert(lstm->layers >= 1 && !(lstm->has_states && lstm->layers > 1));
    base_random_init(&random, lstm->seed);
    add_inputs(builder, lstm, &random);
    for (uint32_t n = 0; n < lstm->layers; n++) {
        add_layer(builder, lstm, n, from, &random);
        snprintf(from, sizeof(from), "s%u", n);
    }
    add_head(builder, lstm, from, &random);
}
