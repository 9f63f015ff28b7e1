/* How many steps each stage of a model has taken when a session has had so many
 * (cell_stream_steps()), and what of which others each of them reads. Pure. Any thread. */
#ifndef CELLS_STREAM_STEPS_H
#define CELLS_STREAM_STEPS_H

#include "cells/model.h"

/* What an input reads for step t of its stage: of an INPUT or an EACH the steps from t * stride +
 * first up to t * stride + last, of which each row has `parts`; or, in the place of t, the first
 * step of its chunk, of so many steps. */
struct cell__reading {
    const struct cell_source *of;
    int64_t stride, first, last, parts;
    uint32_t first_chunk, last_chunk; /* 1: t itself */
};

bool cell__stage_is_timed(const struct cell_stage *stage);
/* Whether it is steps of an input or a stage that the reader takes as they come. */
bool cell__has_steps(const struct cell_model *model, const struct cell_source *source);
/* Of a sequence whose base has so many steps, as of the whole. */
int64_t cell__length_of(const struct cell_model *model, uint32_t sequence, int64_t given);
/* false: the input is no steps. */
bool cell__find_reading(const struct cell_model *model, uint32_t stage, uint32_t input,
                        struct cell__reading *out);
/* Rows of what is read when the session has had `given` and the stages have taken `steps`. */
int64_t cell__rows_there(const struct cell__reading *reading, int64_t given, const int64_t *steps);
/* Of those the first that is read for step t of the stage; below 0: before all. */
int64_t cell__first_row(const struct cell__reading *reading, int64_t t);

#endif
