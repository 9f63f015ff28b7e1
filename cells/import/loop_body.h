/* A Loop's body as the file has it, before its nodes are read: what makes a value of it. For those
 * that write a Loop out as another (assigned.c, some_steps.c). Cost: a look at all nodes for each
 * value. */
#ifndef CELLS_IMPORT_LOOP_BODY_H
#define CELLS_IMPORT_LOOP_BODY_H

#include "cells/import/writer.h"

struct cell__loop_body {
    struct cell__import *im;
    const Onnx__GraphProto *graph;
    const char *step; /* the number of the step */
};

/* False: it is none, or its file is too old for what is written out. */
bool cell__loop_body(struct cell__import *im, const Onnx__NodeProto *loop,
                     struct cell__loop_body *out);

/* The node whose first output it is; NULL: it comes from outside. */
const Onnx__NodeProto *cell__body_maker(const struct cell__loop_body *body, const char *name);

/* NULL is none; at least so many inputs. */
bool cell__is_op(const Onnx__NodeProto *node, const char *op, size_t inputs);

/* A constant of one integer, of the body or of what is outside. */
bool cell__body_integer(const struct cell__loop_body *body, const char *name, int64_t *out);
bool cell__body_is_integer(const struct cell__loop_body *body, const char *name, int64_t wanted);

/* What a value is made of by these operators alone, of each its first operand, and by slices that
 * are whole. ops: ends with NULL. */
const char *cell__body_look(const struct cell__loop_body *body, const char *name,
                            const char *const *ops);

/* Lists that are changed in the arena: a copy of n pointers with room for `more`, or NULL. */
void *cell__body_copy_list(const struct cell__loop_body *body, const void *list, size_t n,
                           size_t more);

/* The Loop with other operands, outputs and body, at the end of w's graph. inputs, outputs: as many
 * as w->proto has, in the arena. */
enum base_status cell__write_loop(struct cell__writer *w, const struct cell__loop_body *body,
                                  char **inputs, char **outputs, Onnx__GraphProto *changed);

#endif
