/* See ctc.h. Cells choose the label of each step, so that what has a number for every label, which
 * may be thousands, leaves neither the device nor the server. */
#include "cells/import/ctc.h"

#include "cells/import/rows.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* [batch, labels], or [batch]; without a batch axis [labels], or [1]. */
static struct cell_tensor tensor_of(const char *name, enum cell_dtype dtype,
                                    const struct cell_tensor *numbers, bool is_timed)
{
    const bool has_batch = numbers->batch_axis >= 0;
    struct cell_tensor made = {.dtype = dtype,
                               .rank = has_batch && is_timed ? 2 : 1,
                               .dims = {CELL_DIM_ANY, CELL_DIM_ANY},
                               .batch_axis = has_batch ? 0 : -1,
                               .time_axis = !is_timed   ? -1
                                            : has_batch ? 1
                                                        : 0,
                               .piece_axis = -1,
                               .pieces = 1,
                               .width = 1};
    if (has_batch) {
        made.dims[0] = numbers->dims[numbers->batch_axis];
    } else if (!is_timed) {
        made.dims[0] = 1;
    }
    (void)snprintf(made.name, sizeof(made.name), "%s", name);
    return made;
}

static enum base_status check(struct cell__import *im, const struct cell_ctc_of *of,
                              const struct cell_tensor *numbers)
{
    if (numbers->dtype != CELL_F32 || numbers->time_axis < 0 || numbers->piece_axis >= 0 ||
        numbers->width < 2) {
        return base_fail(im->error, BASE_INVALID_ARGUMENT,
                         "ctc: output \"%.100s\" has no float for each label at each step",
                         numbers->name);
    }
    if (of->blank < 0 || of->blank >= (int64_t)numbers->width) {
        return base_fail(im->error, BASE_INVALID_ARGUMENT,
                         "ctc: the blank is %" PRId64 ", and output \"%.100s\" has %u labels",
                         of->blank, numbers->name, numbers->width);
    }
    return BASE_OK;
}

/* The number of the largest element of each step, and that element. */
static enum base_status choose(struct cell__import *im, uint32_t numbers, uint32_t *token,
                               uint32_t *score)
{
    const struct cell_op top = {
        .kind = CELL_OP_TOP, .n_operands = 1, .operands = {numbers}, .variant = CELL_TOP_LARGEST};
    BASE_TRY(cell__row_op(im, &top, (struct cell_value){CELL_I64, 1}, token));
    const struct cell_op take = {
        .kind = CELL_OP_TAKE, .n_operands = 2, .operands = {numbers, *token}};
    return cell__row_op(im, &take, (struct cell_value){CELL_F32, 1}, score);
}

static enum base_status check_name(struct cell__import *im, const struct cell_model *model,
                                   const char *name)
{
    for (uint32_t o = 0; o < model->n_outputs; o++) {
        if (strcmp(model->outputs[o].name, name) == 0) {
            return base_fail(im->error, BASE_INVALID_ARGUMENT,
                             "ctc: output \"%s\" would be there twice", name);
        }
    }
    return BASE_OK;
}

static const char *const names[CELL_LABELS_OUTPUTS] = {"token", "scores", "steps", "lengths"};

enum base_status cell__ctc_choose(struct cell__import *im, const struct cell_ctc_of *of,
                                  struct cell_model *model, uint32_t (*rows)[CELL_PIECES_MAX])
{
    uint32_t at = 0;
    uint32_t row = CELL__NONE;
    while (at < model->n_outputs && strcmp(model->outputs[at].name, of->output) != 0) {
        at++;
    }
    if (at == model->n_outputs) {
        return base_fail(im->error, BASE_INVALID_ARGUMENT,
                         "ctc: the model has no output \"%.100s\"", of->output);
    }
    const struct cell_tensor numbers = model->outputs[at];
    BASE_TRY(check(im, of, &numbers));
    if (model->n_outputs - 1 > CELL_TENSORS_MAX - CELL_LABELS_OUTPUTS ||
        model->n_sequences == CELL_SEQUENCES_MAX) {
        return base_fail(im->error, BASE_UNIMPLEMENTED,
                         "ctc: more than %u outputs with its own, or %u sequences",
                         CELL_TENSORS_MAX, CELL_SEQUENCES_MAX);
    }
    BASE_TRY(cell__row_concat(im, rows[at], numbers.pieces, &row));
    const uint32_t kept = --model->n_outputs;
    memmove(&model->outputs[at], &model->outputs[at + 1], (kept - at) * sizeof(numbers));
    memmove(rows[at], rows[at + 1], (kept - at) * sizeof(rows[at]));
    for (uint32_t i = 0; i < CELL_LABELS_OUTPUTS; i++) {
        BASE_TRY(check_name(im, model, names[i]));
    }
    model->labels = (struct cell_labels){.is_on = true,
                                         .is_ctc = true,
                                         .first = kept,
                                         .sequence = numbers.sequence,
                                         .blank = of->blank,
                                         .n_ids = numbers.width};
    model->outputs[kept + CELL_LABELS_TOKENS] =
        tensor_of(names[CELL_LABELS_TOKENS], CELL_I64, &numbers, true);
    model->outputs[kept + CELL_LABELS_SCORES] =
        tensor_of(names[CELL_LABELS_SCORES], CELL_F32, &numbers, true);
    model->n_outputs = kept + CELL_LABELS_SCORES + 1;
    return choose(im, row, &rows[kept + CELL_LABELS_TOKENS][0],
                  &rows[kept + CELL_LABELS_SCORES][0]);
}

void cell__ctc_finish(struct cell_model *model)
{
    struct cell_labels *ctc = &model->labels;
    const struct cell_tensor tokens = model->outputs[ctc->first + CELL_LABELS_TOKENS];
    base_assert(model->n_outputs == ctc->first + CELL_LABELS_STEPS);
    model->sequences[model->n_sequences] = (struct cell_sequence){
        .stride = 1, .add = -1, .source = ctc->sequence, .may_be_empty = true};
    ctc->sequence = model->n_sequences++;
    for (uint32_t i = CELL_LABELS_STEPS; i < CELL_LABELS_OUTPUTS; i++) {
        const uint32_t o = model->n_outputs++;
        model->outputs[o] = tensor_of(names[i], CELL_I64, &tokens, i == CELL_LABELS_STEPS);
        model->output_sources[o][0] = (struct cell_source){.kind = CELL_SOURCE_TAKEN, .index = i};
    }
    for (uint32_t i = CELL_LABELS_TOKENS; i <= CELL_LABELS_STEPS; i++) {
        model->outputs[ctc->first + i].sequence = ctc->sequence;
    }
}
