/* A stored model with one thing changed: tests unpack a file of tests/data, change a message and
 * load what comes of it. One model at a time; a failed wish aborts the test. */
#ifndef TESTS_CELLS_CHANGED_H
#define TESTS_CELLS_CHANGED_H

#include "cells/model.h"
#include "proto/onnx.pb-c.h"

#include <stdio.h>

/* A registry of their own; for checked fixtures. */
void changed_setup(void);
void changed_teardown(void);

/* Unpacks the file, whose path is relative to the repository. */
Onnx__ModelProto *changed_begin(const char *relative);
/* The one at work. */
Onnx__ModelProto *changed_model(void);

/* The first node of this operator. */
Onnx__NodeProto *changed_node(const Onnx__GraphProto *graph, const char *op);
Onnx__AttributeProto *changed_attribute(const Onnx__NodeProto *node, const char *name);
/* The initialiser that has this text in its name. */
Onnx__TensorProto *changed_constant(const Onnx__GraphProto *graph, const char *part);
/* Adds a constant of one int32; returns its name. */
const char *changed_add_int32(const char *name, int32_t value);
/* Replaces a text of the message. */
void changed_rename(char **text, const char *to);
void changed_add_ints(Onnx__NodeProto *node, const char *name, size_t n, const int64_t *ints);

/* Loads it and ends the case. *out: to be freed by changed_free(). */
enum base_status changed_parse(struct cell_model **out);
void changed_free(struct cell_model *parsed);
/* Loads it, which must fail so, with both texts in the message. */
void changed_expect(enum base_status wanted, const char *where, const char *why);
/* Loads it: the ops of stage s, a blank behind each. */
void changed_expect_ops(uint32_t s, enum cell_stage_kind kind, const char *wanted);

#endif
