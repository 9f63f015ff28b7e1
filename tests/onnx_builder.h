/* Builds ONNX models for tests and tools, node by node. Everything lives in the builder's arena;
 * running out of memory ends the program. Dimensions of -1 are symbolic. */
#ifndef TESTS_ONNX_BUILDER_H
#define TESTS_ONNX_BUILDER_H

#include "base/arena.h"
#include "base/random.h"

#include <stdbool.h>

#include "proto/onnx.pb-c.h"

struct onnx_builder {
    struct base_arena arena;
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    Onnx__OperatorSetIdProto opset;
    Onnx__OperatorSetIdProto *opsets[1];
};

void onnx_init(struct onnx_builder *builder, int64_t opset);
void onnx_release(struct onnx_builder *builder);

/* The file; valid until release. */
const uint8_t *onnx_pack(struct onnx_builder *builder, size_t *length);

/* Inputs, outputs and constants of the model's graph. dtype: ONNX__TENSOR_PROTO__DATA_TYPE__... */
void onnx_input(struct onnx_builder *builder, const char *name, int32_t dtype, uint32_t rank,
                const int64_t *dims);
void onnx_output(struct onnx_builder *builder, const char *name, int32_t dtype, uint32_t rank,
                 const int64_t *dims);
void onnx_constant(struct onnx_builder *builder, const char *name, Onnx__TensorProto *tensor);

/* Tensors with raw_data; floats at random in -scale..scale. */
Onnx__TensorProto *onnx_tensor(struct onnx_builder *builder, int32_t dtype, uint32_t rank,
                               const int64_t *dims, const void *data, size_t bytes);
Onnx__TensorProto *onnx_ints(struct onnx_builder *builder, uint32_t rank, size_t n,
                             const int64_t *numbers);
Onnx__TensorProto *onnx_random(struct onnx_builder *builder, uint32_t rank, const int64_t *dims,
                               struct base_random *random, float scale);

/* A node at the end of the graph. inputs and outputs: names with one blank between, "-" for one
 * that is not given. Its name is its first output's. */
Onnx__NodeProto *onnx_node(struct onnx_builder *builder, const char *op, const char *inputs,
                           const char *outputs);
/* The same at the end of another graph, as of a branch. */
Onnx__NodeProto *onnx_node_in(struct onnx_builder *builder, Onnx__GraphProto *graph, const char *op,
                              const char *inputs, const char *outputs);
Onnx__GraphProto *onnx_graph(struct onnx_builder *builder, const char *output);

/* A function of the model's own, without nodes yet; its domain, and the nodes that stand for it,
 * are ONNX_OWN_DOMAIN's. */
#define ONNX_OWN_DOMAIN "own"
Onnx__FunctionProto *onnx_function(struct onnx_builder *builder, const char *name,
                                   const char *inputs, const char *outputs);
Onnx__NodeProto *onnx_node_of(struct onnx_builder *builder, Onnx__FunctionProto *function,
                              const char *op, const char *inputs, const char *outputs);
/* Makes a node one that stands for a function. Returns it. */
Onnx__NodeProto *onnx_call(Onnx__NodeProto *node);

/* Attributes of a node. */
void onnx_set_int(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name,
                  int64_t value);
void onnx_set_float(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name,
                    float value);
void onnx_set_ints(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name, size_t n,
                   const int64_t *values);
void onnx_set_floats(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name,
                     size_t n, const float *values);
void onnx_set_string(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name,
                     const char *value);
/* values: with one blank between. */
void onnx_set_strings(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name,
                      const char *values);
void onnx_set_tensor(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name,
                     Onnx__TensorProto *tensor);
void onnx_set_graph(struct onnx_builder *builder, Onnx__NodeProto *node, const char *name,
                    Onnx__GraphProto *graph);

/* Gates of "LSTM", "GRU" or "RNN". */
uint32_t onnx_gates(const char *op);

/* Random constants w, r and b for one node of this operator, and p for an LSTM. */
void onnx_add_weights(struct onnx_builder *builder, const char *op, uint32_t input, uint32_t hidden,
                      uint64_t seed);

/* A random-weight model of LSTM layers in PyTorch's manner:
 *
 *   x [batch, time, input], or tokens [batch, time] (int64) through an embedding
 *   -> layers -> y [batch, time, hidden], or probabilities [batch, classes] of the last step
 *
 * and, with states, h0, c0 -> hn, cn [1, batch, hidden] of the (then only) layer. */
struct onnx_lstm {
    uint32_t input, hidden;
    uint32_t classes;   /* 0: y */
    uint32_t embedding; /* rows of the table; 0: x */
    uint32_t layers;    /* >= 1; 1 when has_states */
    bool has_states;
    uint64_t seed;
};

void onnx_add_lstm(struct onnx_builder *builder, const struct onnx_lstm *lstm);

#endif
