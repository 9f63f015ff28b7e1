/* What the stages of a model read beside their own steps, by windows and by attention, where a
 * sequence comes in several requests: found here, made states by cell_model_keep_states(). Loop
 * thread; at load. */
#ifndef CELLS_MODEL_STREAM_H
#define CELLS_MODEL_STREAM_H

#include "cells/model.h"

/* Whether the input of a stage is a window of steps beside the stage's own. */
bool cell__stream_is_window(const struct cell_source *source);

/* Fills model->stream, and model->histories without their tensors; where a stage lags behind what
 * it reads at its own step, that becomes a window. Does nothing where all stages have the request's
 * steps and read no others. steps_max: of a session's sequence, as in cell_kept_states. Sources of
 * other kinds than these have been looked at. UNIMPLEMENTED: in parts it would not give what the
 * whole gives, and why. */
enum base_status cell__stream_find(struct cell_model *model, uint32_t steps_max,
                                   struct base_error *error);

#endif
