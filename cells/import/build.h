/* A graph of ONNX messages made in memory, for model files that hold none: the importer reads it as
 * it reads an unpacked file. Everything lives in one arena; constants may lie outside of it. Every
 * function that can fail says RESOURCE_EXHAUSTED. */
#ifndef CELLS_IMPORT_BUILD_H
#define CELLS_IMPORT_BUILD_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

#include "proto/onnx.pb-c.h"

/* Of the graphs made here: LayerNormalization is there from 17 on, reductions take their axes as an
 * attribute up to 17. */
#define CELL__BUILD_OPSET 17

struct cell__builder {
    struct base_arena *arena;
    struct base_error *error;
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    Onnx__OperatorSetIdProto opset;
    Onnx__OperatorSetIdProto *opsets[1];
    Onnx__GraphProto *into; /* where nodes go: the graph, or the body of a node to come */
    const char *label;      /* of the nodes to come, for messages; copied */
    const char *prefix;     /* of values' names, before "#1" */
    uint32_t n_names;
};

/* A constant's place and shape; data must outlive the builder's arena, aligned to its elements. */
struct cell__constant {
    const void *data;
    uint32_t rank;
    int64_t dims[3];
};

/* An empty model, with nothing to release. error must not be NULL. */
void cell__build_init(struct cell__builder *builder, struct base_arena *arena,
                      struct base_error *error);

/* A copy of the text that the arena keeps. */
enum base_status cell__build_text(struct cell__builder *builder, const char *text, char **out);

/* A name that no other value has. */
enum base_status cell__build_name(struct cell__builder *builder, char **out);

/* dims: -1 where a request chooses. type: ONNX__TENSOR_PROTO__DATA_TYPE__.. */
enum base_status cell__build_input(struct cell__builder *builder, const char *name, int32_t type,
                                   uint32_t rank, const int64_t *dims);
/* Makes the value `from` an output of the model by this name. */
enum base_status cell__build_output(struct cell__builder *builder, const char *name,
                                    const char *from);

/* Constants of the model's graph; *out is the value's name. */
enum base_status cell__build_floats(struct cell__builder *builder,
                                    const struct cell__constant *floats, const char **out);
/* n int64 in a list; their copies. */
enum base_status cell__build_ints(struct cell__builder *builder, size_t n, const int64_t *ints,
                                  const char **out);

/* A node at the end of builder->into. inputs: names ending with NULL, "" for one not given. Its
 * outputs get names of their own: (*out)->output[i]. */
enum base_status cell__build_node(struct cell__builder *builder, const char *op,
                                  const char *const *inputs, uint32_t n_outputs,
                                  Onnx__NodeProto **out);
/* The same for one output, whose name is *out, and no attributes. */
enum base_status cell__build_op(struct cell__builder *builder, const char *op,
                                const char *const *inputs, const char **out);

enum base_status cell__build_set_int(struct cell__builder *builder, Onnx__NodeProto *node,
                                     const char *name, int64_t value);
enum base_status cell__build_set_float(struct cell__builder *builder, Onnx__NodeProto *node,
                                       const char *name, float value);
enum base_status cell__build_set_ints(struct cell__builder *builder, Onnx__NodeProto *node,
                                      const char *name, size_t n, const int64_t *values);
enum base_status cell__build_set_text(struct cell__builder *builder, Onnx__NodeProto *node,
                                      const char *name, const char *value);
/* One that a file has, whose contents stay there. */
enum base_status cell__build_copy_attribute(struct cell__builder *builder, Onnx__NodeProto *node,
                                            const Onnx__AttributeProto *attribute);
/* n times the same text. */
enum base_status cell__build_set_texts(struct cell__builder *builder, Onnx__NodeProto *node,
                                       const char *name, size_t n, const char *value);

/* The body of a node that comes after it: nodes go into it until cell__build_end_body(). inputs get
 * names of their own. There is one body at a time. */
enum base_status cell__build_begin_body(struct cell__builder *builder, uint32_t n_inputs,
                                        Onnx__GraphProto **out);
/* outputs: names ending with NULL, values of the body. */
enum base_status cell__build_end_body(struct cell__builder *builder, const char *const *outputs);
enum base_status cell__build_set_graph(struct cell__builder *builder, Onnx__NodeProto *node,
                                       const char *name, Onnx__GraphProto *body);

#endif
