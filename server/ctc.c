/* See ctc.h. Labels move towards the front, each over what stood before it. Cost: O(steps). */
#include "server/ctc.h"

#include "base/assert.h"
#include "server/tensors.h"

#include <string.h>

enum base_status srv_ctc_place(struct srv_request *request, const struct sched_sequences *sequences,
                               uint32_t steps, struct sched_tensor *outputs,
                               struct base_error *error)
{
    const struct cell_ctc *ctc = &sequences->model->ctc;
    struct sched_tensor *tokens = &outputs[ctc->first + CELL_CTC_TOKENS];
    bool is_wanted = ctc->has_last && outputs[ctc->last_output].data != NULL;
    for (uint32_t i = 0; i < CELL_CTC_OUTPUTS; i++) {
        is_wanted = is_wanted || outputs[ctc->first + i].data != NULL;
    }
    if (!is_wanted || tokens->data != NULL) {
        return BASE_OK;
    }
    const size_t row_bytes = steps * sizeof(int64_t);
    *tokens = (struct sched_tensor){
        .data = base_arena_array(&request->arena, sequences->n_rows, row_bytes),
        .batch_bytes = (int64_t)row_bytes,
        .step_bytes = sizeof(int64_t),
    };
    return tokens->data != NULL ? BASE_OK
                                : base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
}

/* The labels of all rows. */
struct labels {
    const struct sched_sequences *sequences;
    const struct cell_ctc *ctc;
    uint32_t *lengths; /* [rows] */
    uint32_t *kept;    /* of each row, behind those of the rows before it: steps with a label */
    uint32_t longest;
};

static const struct sched_tensor *rows_of(const struct labels *labels, uint32_t output)
{
    return &labels->sequences->outputs[labels->ctc->first + output];
}

static int64_t integer_at(const struct sched_tensor *rows, uint32_t row, uint32_t step)
{
    return cell_integer_at(CELL_I64, rows->data + row * (size_t)rows->batch_bytes +
                                         step * (size_t)rows->step_bytes);
}

static void set_integer(const struct sched_tensor *rows, uint32_t row, int64_t value)
{
    memcpy(rows->data + row * (size_t)rows->batch_bytes, &value, sizeof(value));
}

/* The label before the first step of a row, with 1 added: 0, and so none, outside of a session. */
static int64_t label_before(const struct labels *labels, uint32_t row)
{
    const struct sched_tensor *last = &labels->sequences->inputs[labels->ctc->last_input];
    return labels->ctc->has_last && last->data != NULL ? integer_at(last, row, 0) : 0;
}

/* Steps of one row whose label is none of the step before and no blank; returns how many. */
static uint32_t walk_row(const struct labels *labels, uint32_t row, uint32_t *kept)
{
    const struct cell_ctc *ctc = labels->ctc;
    const uint32_t steps = labels->sequences->steps[ctc->sequence][row];
    int64_t before = label_before(labels, row) - 1;
    uint32_t n = 0;
    for (uint32_t t = 0; t < steps; t++) {
        const int64_t label = integer_at(rows_of(labels, CELL_CTC_TOKENS), row, t);
        if (label != before && label != ctc->blank) {
            kept[n++] = t;
        }
        before = label;
    }
    if (ctc->has_last && labels->sequences->outputs[ctc->last_output].data != NULL) {
        set_integer(&labels->sequences->outputs[ctc->last_output], row, before + 1);
    }
    return n;
}

static void walk(struct labels *labels)
{
    uint32_t *kept = labels->kept;
    for (uint32_t row = 0; row < labels->sequences->n_rows; row++) {
        labels->lengths[row] = walk_row(labels, row, kept);
        kept += labels->lengths[row];
        if (labels->lengths[row] > labels->longest) {
            labels->longest = labels->lengths[row];
        }
    }
}

/* What cells have written at the steps that are kept, or the numbers of these. */
static void move_rows(const struct labels *labels, uint32_t output)
{
    const struct sched_tensor *rows = rows_of(labels, output);
    const size_t bytes = (size_t)rows->step_bytes;
    const int64_t none = output == CELL_CTC_TOKENS ? labels->ctc->blank : 0;
    const uint32_t *kept = labels->kept;
    uint8_t *to = rows->data;
    for (uint32_t row = 0; row < labels->sequences->n_rows; row++) {
        const uint8_t *from = rows->data + row * (size_t)rows->batch_bytes;
        for (uint32_t i = 0; i < labels->longest; i++, to += bytes) {
            const bool is_own = i < labels->lengths[row];
            const int64_t step = is_own ? kept[i] : none;
            if (is_own && output != CELL_CTC_STEPS) {
                memmove(to, from + kept[i] * bytes, bytes);
            } else {
                memcpy(to, &step, bytes); // little-endian
            }
        }
        kept += labels->lengths[row];
    }
}

static void write_lengths(const struct labels *labels)
{
    const struct sched_tensor *rows = rows_of(labels, CELL_CTC_LENGTHS);
    for (uint32_t row = 0; row < labels->sequences->n_rows; row++) {
        set_integer(rows, row, labels->lengths[row]);
    }
}

static void cut(const struct labels *labels, struct srv_tensor *answer)
{
    const struct cell_model *model = labels->sequences->model;
    const uint32_t output = srv_tensor_output(model, answer) - labels->ctc->first;
    if (output == CELL_CTC_LENGTHS) {
        write_lengths(labels);
    } else if (output < CELL_CTC_LENGTHS) {
        const struct cell_tensor *tensor = &model->outputs[labels->ctc->first + output];
        move_rows(labels, output);
        answer->shape[tensor->time_axis] = labels->longest;
        answer->bytes =
            (size_t)labels->longest * labels->sequences->n_rows * cell_dtype_bytes(tensor->dtype);
    }
}

enum base_status srv_ctc_collapse(struct srv_request *request,
                                  const struct sched_sequences *sequences, const uint32_t **lengths,
                                  struct base_error *error)
{
    struct labels labels = {.sequences = sequences, .ctc = &sequences->model->ctc};
    size_t steps = 0;
    for (uint32_t row = 0; row < sequences->n_rows; row++) {
        steps += sequences->steps[labels.ctc->sequence][row];
    }
    labels.lengths = base_arena_array(&request->arena, sequences->n_rows, sizeof(*labels.lengths));
    labels.kept = base_arena_array(&request->arena, steps, sizeof(*labels.kept));
    if (labels.lengths == NULL || labels.kept == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    *lengths = labels.lengths;
    if (rows_of(&labels, CELL_CTC_TOKENS)->data == NULL) {
        return BASE_OK; // nothing of it is asked for
    }
    walk(&labels);
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        cut(&labels, &request->outputs[i]);
    }
    return BASE_OK;
}
