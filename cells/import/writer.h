/* Writes the graph that stands for a node (write_out.h). Names of values are the arena's. Functions
 * say RESOURCE_EXHAUSTED, or UNIMPLEMENTED when im->unwritten says why; only the caller of
 * cell__write_out() makes an error of it. Axes and reductions take the form of the file's opset. */
#ifndef CELLS_IMPORT_WRITER_H
#define CELLS_IMPORT_WRITER_H

#include "cells/import/build.h"
#include "cells/import/graph.h"

struct cell__writer {
    struct cell__import *im;
    const Onnx__NodeProto *proto; /* stands for this node */
    struct cell__builder *builder;
    const char *out;    /* the value that the node gives */
    const char *fourth; /* its fourth output, NULL: there is none. Others there are not. */
};

enum base_status cell__writer_begin(struct cell__writer *w, struct cell__import *im,
                                    const Onnx__NodeProto *proto);
/* The graph, whose output is w->out; NULL when memory is short. */
const Onnx__GraphProto *cell__writer_end(struct cell__writer *w);

/* The same of nodes that make values of their own names. */
const Onnx__GraphProto *cell__writer_nodes(struct cell__writer *w);

/* UNIMPLEMENTED; why: static. */
enum base_status cell__unwritten(struct cell__writer *w, const char *why);
/* The same, and of what: a text of the file, which is quoted. */
enum base_status cell__unwritten_of(struct cell__writer *w, const char *why, const uint8_t *text,
                                    size_t length);

/* Attributes of the node; *out stays where there is none. One of another type is UNIMPLEMENTED. */
enum base_status cell__writer_int(struct cell__writer *w, const char *name, int64_t *out);
enum base_status cell__writer_float(struct cell__writer *w, const char *name, float *out);
/* 0 or 1. */
enum base_status cell__writer_flag(struct cell__writer *w, const char *name, int64_t *out);
/* The attribute itself, NULL where there is none. */
enum base_status cell__writer_attribute(struct cell__writer *w, const char *name,
                                        Onnx__AttributeProto__AttributeType type,
                                        const Onnx__AttributeProto **out);
/* Gives all attributes but these (names, ending with NULL) to a node that is written. */
enum base_status cell__writer_copy_attributes(struct cell__writer *w, Onnx__NodeProto *to,
                                              const char *const *except);
/* Whether a text is this one; of none it is not. */
bool cell__writer_is(struct cell__writer *w, const char *name, const char *text);
/* Of a reduction: its axes, of which there are some, and whether they stay. */
enum base_status cell__writer_axes(struct cell__writer *w, struct cell__list *axes, bool *keeps);

/* Whether an operand is given. */
bool cell__writer_has(const struct cell__writer *w, size_t i);

/* Of an operand that is computed: its value, and its rank. */
enum base_status cell__writer_value(struct cell__writer *w, const char *name,
                                    const struct cell__value **out);
enum base_status cell__writer_rank(struct cell__writer *w, const char *name, uint32_t *out);

/* A node of one output. inputs: names ending with NULL. */
enum base_status cell__write(struct cell__writer *w, const char *op, const char *const *inputs,
                             const char **out);
/* A float of rank 0, and integers of rank 1. */
enum base_status cell__write_number(struct cell__writer *w, float number, const char **out);
enum base_status cell__write_ints(struct cell__writer *w, const int64_t *ints, size_t n,
                                  const char **out);
/* Squeeze or Unsqueeze of these axes; x itself where n is 0. */
enum base_status cell__write_axes(struct cell__writer *w, const char *op, const char *x,
                                  const int64_t *axes, size_t n, const char **out);
enum base_status cell__write_transpose(struct cell__writer *w, const char *x, const int64_t *perm,
                                       size_t n, const char **out);
/* inputs: names ending with NULL. */
enum base_status cell__write_concat(struct cell__writer *w, const char *const *inputs, int64_t axis,
                                    const char **out);
enum base_status cell__write_reduce(struct cell__writer *w, const char *op, const char *x,
                                    const struct cell__list *axes, bool keeps, const char **out);

#endif
