/* From the tensors of a safetensors file and the names of layers to the ONNX graph that PyTorch's
 * exporter would have written: docs/safetensors.md. */
#ifndef CELLS_IMPORT_LAYERS_H
#define CELLS_IMPORT_LAYERS_H

#include "cells/import/safetensors.h"

#include "proto/onnx.pb-c.h"

#define CELL__LAYERS_MAX 64u

/* *out lives in the arena and refers to the bytes of the store's file. Marks the tensors that it
 * uses. INVALID_ARGUMENT, UNIMPLEMENTED: of which layer or tensor; RESOURCE_EXHAUSTED. error must
 * not be NULL. */
enum base_status cell__layers_build(struct base_arena *arena, struct cell__store *store,
                                    const struct cell_layers *layers, Onnx__ModelProto **out,
                                    struct base_error *error);

#endif
