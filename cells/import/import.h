/* From the bytes of a file to a model. The door of this folder; cells/model.c stands before
 * it. */
#ifndef CELLS_IMPORT_IMPORT_H
#define CELLS_IMPORT_IMPORT_H

#include "cells/model.h"

/* Both fill *model (zeroed by the caller but for its options) and take references on its types; on
 * an error they are given back. Statuses as of cell_model_parse(). */
enum base_status cell__import_onnx(struct cell_registry *registry, struct cell_model_file file,
                                   const struct cell_known_inputs *known, const char *label,
                                   struct cell_model *model, struct base_error *error);

/* Of a safetensors file and the layers that its tensors are of. */
enum base_status cell__import_layers(struct cell_registry *registry, struct cell_model_file file,
                                     const struct cell_layers *layers, const char *label,
                                     struct cell_model *model, struct base_error *error);

#endif
