/* From the bytes of an ONNX file to a model. The door of this folder; cells/model.c stands before
 * it. */
#ifndef CELLS_IMPORT_IMPORT_H
#define CELLS_IMPORT_IMPORT_H

#include "cells/model.h"

#include <stddef.h>

/* Fills *model (zeroed by the caller) and takes references on its types; on an error they are given
 * back. Statuses as of cell_model_parse(). */
enum base_status cell__import_onnx(struct cell_registry *registry, const void *bytes, size_t length,
                                   const char *label, struct cell_model *model,
                                   struct base_error *error);

#endif
