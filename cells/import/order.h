/* Nodes in the order of what they read. ONNX asks files for it; some are written otherwise, which
 * ONNX Runtime takes all the same (its own quantisers write such, where a Loop reads what is
 * computed behind it). */
#ifndef CELLS_IMPORT_ORDER_H
#define CELLS_IMPORT_ORDER_H

#include "base/arena.h"
#include "base/status.h"

#include "proto/onnx.pb-c.h"

/* Puts the nodes of the graph, of its branches and of its bodies in order, in place, where they are
 * not: each behind those that it reads, else as they stood. A graph with a circle stays as it is,
 * and is refused when it is walked. RESOURCE_EXHAUSTED. */
enum base_status cell__order_nodes(struct base_arena *arena, Onnx__GraphProto *graph,
                                   struct base_error *error);

#endif
