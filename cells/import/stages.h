/* From row expressions to the model's program. */
#ifndef CELLS_IMPORT_STAGES_H
#define CELLS_IMPORT_STAGES_H

#include "cells/import/rows.h"

/* output_rows: the row expression of each piece of each model output. Fills model->stages and
 * output_sources; the types' references belong to the model, on an error to nobody. */
enum base_status cell__stages_build(struct cell__import *im, struct cell_registry *registry,
                                    uint32_t (*output_rows)[CELL_PIECES_MAX],
                                    struct cell_model *model);

#endif
