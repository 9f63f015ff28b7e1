/* Weights of recurrent nodes, as onnx_builder.h describes them. */
#include "tests/onnx_builder.h"

#include <string.h>

uint32_t onnx_gates(const char *op)
{
    return strcmp(op, "LSTM") == 0 ? 4 : strcmp(op, "GRU") == 0 ? 3 : 1;
}

void onnx_add_weights(struct onnx_builder *builder, const char *op, uint32_t input, uint32_t hidden,
                      uint64_t seed)
{
    const int64_t gates = onnx_gates(op);
    const int64_t w[] = {1, gates * hidden, input};
    const int64_t r[] = {1, gates * hidden, hidden};
    const int64_t b[] = {1, 2 * gates * hidden};
    const int64_t p[] = {1, 3 * (int64_t)hidden};
    struct base_random random;
    base_random_init(&random, seed);
    onnx_constant(builder, "w", onnx_random(builder, 3, w, &random, 0.5f));
    onnx_constant(builder, "r", onnx_random(builder, 3, r, &random, 0.5f));
    onnx_constant(builder, "b", onnx_random(builder, 2, b, &random, 0.5f));
    if (strcmp(op, "LSTM") == 0) {
        onnx_constant(builder, "p", onnx_random(builder, 2, p, &random, 0.5f));
    }
}
