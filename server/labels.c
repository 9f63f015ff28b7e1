/* See labels.h. Labels move towards the front, each over what stood before it. Cost: O(steps). */
#include "server/labels.h"

#include "base/assert.h"
#include "server/tensors.h"

#include <string.h>

enum base_status srv_labels_place(struct srv_request *request,
                                  const struct sched_sequences *sequences, uint32_t steps,
                                  struct sched_tensor *outputs, struct base_error *error)
{
    const struct cell_labels *labels = &sequences->model->labels;
    struct sched_tensor *tokens = &outputs[labels->first + CELL_LABELS_TOKENS];
    bool is_wanted = labels->has_last && outputs[labels->last_output].data != NULL;
    for (uint32_t i = 0; i < CELL_LABELS_OUTPUTS; i++) {
        is_wanted = is_wanted || outputs[labels->first + i].data != NULL;
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

/* All rows of a request. */
struct collapse {
    const struct sched_sequences *sequences;
    const struct sched_graph *graph;
    const struct cell_labels *labels;
    uint32_t *lengths; /* [rows]: labels */
    uint32_t *kept;    /* of each row, behind those of the rows before it: steps with a label */
    uint32_t longest;
};

static const struct sched_tensor *rows_of(const struct collapse *c, uint32_t output)
{
    return &c->sequences->outputs[c->labels->first + output];
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

/* Steps that a row has taken. Without a frame a transducer's step had nothing to read. */
static uint32_t steps_of(const struct collapse *c, uint32_t row)
{
    if (c->labels->is_ctc) {
        return c->sequences->steps[c->labels->sequence][row];
    }
    const bool has_frames = c->sequences->steps[c->labels->frames][row] > 0;
    return has_frames ? c->graph->nodes[c->sequences->decoders[row]].steps_done : 0;
}

/* The label before the first step of a row, with 1 added: 0, and so none, outside of a session. */
static int64_t label_before(const struct collapse *c, uint32_t row)
{
    const struct sched_tensor *last = &c->sequences->inputs[c->labels->last_input];
    return c->labels->has_last && last->data != NULL ? integer_at(last, row, 0) : 0;
}

/* Steps of one row that say a label; returns how many. In CTC one goes on until another comes. */
static uint32_t walk_row(const struct collapse *c, uint32_t row, uint32_t *kept)
{
    const struct cell_labels *labels = c->labels;
    const uint32_t steps = steps_of(c, row);
    int64_t before = label_before(c, row) - 1;
    uint32_t n = 0;
    for (uint32_t t = 0; t < steps; t++) {
        const int64_t label = integer_at(rows_of(c, CELL_LABELS_TOKENS), row, t);
        if (label != labels->blank && (label != before || !labels->is_ctc)) {
            kept[n++] = t;
        }
        before = label;
    }
    if (labels->has_last && c->sequences->outputs[labels->last_output].data != NULL) {
        set_integer(&c->sequences->outputs[labels->last_output], row, before + 1);
    }
    return n;
}

static void set_number(const struct sched_tensor *rows, uint32_t row, uint32_t step,
                       const void *number, size_t bytes)
{
    if (rows->data != NULL) {
        memcpy(rows->data + row * (size_t)rows->batch_bytes + step * (size_t)rows->step_bytes,
               number, bytes);
    }
}

/* What the best hypothesis of a beam has at each frame, as steps write it that choose by
 * themselves; blanks where there is none. */
static void write_best(const struct collapse *c, uint32_t row)
{
    const struct cell_beam *beam = c->graph->nodes[c->sequences->decoders[row]].wiring.beam;
    const bool is_found = beam->n_found > 0;
    uint32_t lane = is_found ? beam->found[0].lane : 0;
    for (uint32_t t = steps_of(c, row); t-- > 0;) {
        const size_t at = (size_t)t * beam->width + lane;
        const int64_t label = is_found ? beam->tokens[at] : c->labels->blank;
        const float gain = is_found ? beam->labels->gains[at] : 0.0f;
        const int64_t frame = t;
        set_number(rows_of(c, CELL_LABELS_TOKENS), row, t, &label, sizeof(label));
        set_number(rows_of(c, CELL_LABELS_SCORES), row, t, &gain, sizeof(gain));
        set_number(rows_of(c, CELL_LABELS_STEPS), row, t, &frame, sizeof(frame));
        lane = is_found ? (uint32_t)beam->parents[at] : 0;
    }
}

static void walk(struct collapse *c)
{
    const bool has_beam = sched_beam_width(c->sequences) > 0;
    for (uint32_t row = 0; row < c->sequences->n_rows && has_beam; row++) {
        write_best(c, row);
    }
    uint32_t *kept = c->kept;
    for (uint32_t row = 0; row < c->sequences->n_rows; row++) {
        c->lengths[row] = walk_row(c, row, kept);
        kept += c->lengths[row];
        c->longest = c->lengths[row] > c->longest ? c->lengths[row] : c->longest;
    }
}

/* What cells have written at the steps that are kept; in CTC these are the steps, by their number.
 */
static void move_rows(const struct collapse *c, uint32_t output)
{
    const struct sched_tensor *rows = rows_of(c, output);
    const bool is_written = output != CELL_LABELS_STEPS || !c->labels->is_ctc;
    const size_t bytes = (size_t)rows->step_bytes;
    const int64_t none = output == CELL_LABELS_TOKENS ? c->labels->blank : 0;
    const uint32_t *kept = c->kept;
    uint8_t *to = rows->data;
    for (uint32_t row = 0; row < c->sequences->n_rows; row++) {
        const uint8_t *from = rows->data + row * (size_t)rows->batch_bytes;
        for (uint32_t i = 0; i < c->longest; i++, to += bytes) {
            const bool is_own = i < c->lengths[row];
            const int64_t number = is_own ? kept[i] : none;
            if (is_own && is_written) {
                memmove(to, from + kept[i] * bytes, bytes);
            } else {
                memcpy(to, &number, bytes); // little-endian
            }
        }
        kept += c->lengths[row];
    }
}

static void write_lengths(const struct collapse *c)
{
    const struct sched_tensor *rows = rows_of(c, CELL_LABELS_LENGTHS);
    for (uint32_t row = 0; row < c->sequences->n_rows; row++) {
        set_integer(rows, row, c->lengths[row]);
    }
}

static void cut(const struct collapse *c, struct srv_tensor *answer)
{
    const struct cell_model *model = c->sequences->model;
    const uint32_t output = srv_tensor_output(model, answer) - c->labels->first;
    if (output == CELL_LABELS_LENGTHS) {
        write_lengths(c);
    } else if (output < CELL_LABELS_LENGTHS) {
        const struct cell_tensor *tensor = &model->outputs[c->labels->first + output];
        move_rows(c, output);
        answer->shape[tensor->time_axis] = c->longest;
        answer->bytes = (size_t)c->longest * c->sequences->n_rows * cell_dtype_bytes(tensor->dtype);
    }
}

enum base_status srv_labels_collapse(struct srv_request *request,
                                     const struct sched_sequences *sequences,
                                     const struct sched_graph *graph, const uint32_t **lengths,
                                     struct base_error *error)
{
    struct collapse c = {
        .sequences = sequences, .graph = graph, .labels = &sequences->model->labels};
    size_t steps = 0;
    base_assert(c.labels->is_on && (c.labels->is_ctc || graph != NULL));
    for (uint32_t row = 0; row < sequences->n_rows; row++) {
        steps += steps_of(&c, row);
    }
    c.lengths = base_arena_array(&request->arena, sequences->n_rows, sizeof(*c.lengths));
    c.kept = base_arena_array(&request->arena, steps, sizeof(*c.kept));
    if (c.lengths == NULL || c.kept == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    *lengths = c.lengths;
    if (rows_of(&c, CELL_LABELS_TOKENS)->data == NULL) {
        return BASE_OK; // nothing of it is asked for
    }
    walk(&c);
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        cut(&c, &request->outputs[i]);
    }
    return BASE_OK;
}
