/* What the windows of a model read of steps before their own, where a sequence comes in several
 * requests: found here, made states by cell_model_keep_states().
 *
 * A request has n steps; every sequence that follows from it begins with the step that belongs to
 * the request's first, since the steps before are at hand: those of inputs and stages that windows
 * read are kept. Where a cell reads steps behind its own, its last ones are not what they are in
 * the whole. They may be made nevertheless, as long as nobody reads them: so much is reckoned here,
 * stage by stage. Loop thread; at load. */
#ifndef CELLS_MODEL_HISTORY_H
#define CELLS_MODEL_HISTORY_H

#include "cells/model.h"

/* Of each stage: how many of its steps are as in the whole, over as many as the request's steps
 * make in its sequence; below 0 if some of those are missing, and then which stage reads behind its
 * own.
 */
struct cell__history_stages {
    int64_t ahead[CELL_STAGES_MAX];
    uint32_t culprit[CELL_STAGES_MAX];
};

/* Takes up an input of a stage, which is of the input's or an earlier stage's steps, or of none:
 * how far the stage goes with it, model->histories, without their tensors, and what divides the
 * steps of requests. Those of the stages before it are there, and so is what was found of the
 * stage's inputs before it. UNIMPLEMENTED: in parts it would not read what it reads of the whole.
 */
enum base_status cell__history_read(struct cell_model *model, struct cell__history_stages *stages,
                                    uint32_t stage, uint32_t input, struct base_error *error);

/* Whether a source has as many steps as the request makes in its sequence, no others, and all as in
 * the whole; else UNIMPLEMENTED, which tells why. reader: for that. */
enum base_status cell__history_check(const struct cell_model *model,
                                     const struct cell__history_stages *stages,
                                     const struct cell_source *source, const char *reader,
                                     struct base_error *error);

#endif
