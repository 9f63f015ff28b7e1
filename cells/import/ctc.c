/* See ctc.h. Cells choose the label of each step, so that what has a number for every label, which
 * may be thousands, leaves neither the device nor the server. */
#include "cells/import/ctc.h"

#include "cells/import/rows.h"

#include "base/assert.h"

#include <inttypes.h>
#include <string.h>

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

enum base_status cell__ctc_choose(struct cell__import *im, const struct cell_ctc_of *of,
                                  struct cell_model *model, uint32_t (*rows)[CELL_PIECES_MAX])
{
    const uint32_t at = cell_tensor_find(model->outputs, model->n_outputs, of->output);
    uint32_t row = CELL__NONE;
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
    const int64_t batch = numbers.batch_axis < 0 ? 0 : numbers.dims[numbers.batch_axis];
    for (uint32_t i = 0; i < CELL_LABELS_OUTPUTS; i++) {
        const struct cell_tensor made = cell_labels_tensor(i, batch);
        if (cell_tensor_find(model->outputs, kept, made.name) < kept) {
            return base_fail(im->error, BASE_INVALID_ARGUMENT,
                             "ctc: output \"%s\" would be there twice", made.name);
        }
        model->outputs[kept + i] = made;
    }
    model->labels = (struct cell_labels){.is_on = true,
                                         .is_ctc = true,
                                         .first = kept,
                                         .sequence = numbers.sequence,
                                         .blank = of->blank,
                                         .n_ids = numbers.width};
    // The last two come when the stages stand: no cell makes them.
    model->n_outputs = kept + CELL_LABELS_SCORES + 1;
    return choose(im, row, &rows[kept + CELL_LABELS_TOKENS][0],
                  &rows[kept + CELL_LABELS_SCORES][0]);
}

void cell__ctc_finish(struct cell_model *model)
{
    struct cell_labels *ctc = &model->labels;
    base_assert(model->n_outputs == ctc->first + CELL_LABELS_STEPS);
    model->sequences[model->n_sequences] = (struct cell_sequence){
        .stride = 1, .add = -1, .source = ctc->sequence, .may_be_empty = true};
    ctc->sequence = model->n_sequences++;
    for (uint32_t i = CELL_LABELS_STEPS; i < CELL_LABELS_OUTPUTS; i++) {
        const uint32_t o = model->n_outputs++;
        model->output_sources[o][0] = (struct cell_source){.kind = CELL_SOURCE_TAKEN, .index = i};
    }
    for (uint32_t i = CELL_LABELS_TOKENS; i <= CELL_LABELS_STEPS; i++) {
        model->outputs[ctc->first + i].sequence = ctc->sequence;
    }
}
