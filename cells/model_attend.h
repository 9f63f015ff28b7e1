/* Which steps of a sequence a step attends to, by the bounds that ATTEND is given: those from so
 * many before its own up to so many behind it, as masks of causal attention and of bands leave
 * them. Pure. */
#ifndef CELLS_MODEL_ATTEND_H
#define CELLS_MODEL_ATTEND_H

#include "cells/model.h"

/* Of all that a stage attends to. NULL: it is in *out, also where the stage attends to nothing;
 * else why its steps cannot be told from those of other requests, static. */
const char *cell__attend_find(const struct cell_model *model, uint32_t stage,
                              struct cell_attended *out);

#endif
