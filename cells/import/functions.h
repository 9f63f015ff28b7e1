/* Functions that a model file itself defines (ONNX: FunctionProto): a module of the user's, or an
 * operator of an exporter's own, as nodes of other domains. */
#ifndef CELLS_IMPORT_FUNCTIONS_H
#define CELLS_IMPORT_FUNCTIONS_H

#include "base/arena.h"
#include "base/status.h"

#include "proto/onnx.pb-c.h"

/* *out: the model with the nodes of its functions in place of each node that stands for one, inside
 * of branches and bodies too; `model` itself where it defines none. It lives as long as arena and
 * model. Values of a call have names of their own. INVALID_ARGUMENT, UNIMPLEMENTED (functions of
 * another opset than the graph, or that stand for each other without end) and RESOURCE_EXHAUSTED
 * name the function. */
enum base_status cell__functions_inline(struct base_arena *arena, Onnx__ModelProto *model,
                                        Onnx__ModelProto **out, struct base_error *error);

#endif
