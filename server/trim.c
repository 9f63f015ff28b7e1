/* See trim.h. Rows move towards the front, each over what stood before it. Cost: O(bytes of the
 * answer). */
#include "server/trim.h"

#include "base/assert.h"

#include <string.h>

struct trim {
    const struct sched_sequences *sequences;
    const struct sched_graph *graph;
    uint32_t longest;
};

/* Steps of a row that are answered: the one that gave the end id is not. */
static uint32_t length_of(const struct trim *t, uint32_t row)
{
    const struct sched_node *node = &t->graph->nodes[t->sequences->decoders[row]];
    base_assert(node->steps_done == node->wiring.steps);
    return node->steps_done - (node->has_ended ? 1 : 0);
}

static void write_lengths(const struct trim *t, const struct sched_tensor *to)
{
    for (uint32_t row = 0; row < t->sequences->n_rows; row++) {
        const int64_t length = length_of(t, row);
        memcpy(to->data + row * to->batch_bytes, &length, sizeof(length));
    }
}

/* What stands behind a row's own steps. */
static void fill(const struct trim *t, uint32_t output, uint8_t *from, size_t steps,
                 size_t step_bytes)
{
    const struct cell_decoder *decoder = &t->sequences->model->decoder;
    memset(from, 0, steps * step_bytes);
    for (size_t i = 0; i < steps && output == decoder->token_output; i++) {
        memcpy(from + i * step_bytes, &decoder->end.id, step_bytes); // little-endian
    }
}

static void move_rows(const struct trim *t, uint32_t output)
{
    const struct sched_tensor *rows = &t->sequences->outputs[output];
    const size_t step_bytes = (size_t)rows->step_bytes;
    const size_t row_bytes = t->longest * step_bytes;
    for (uint32_t row = 0; row < t->sequences->n_rows; row++) {
        const size_t length = length_of(t, row);
        uint8_t *to = rows->data + row * row_bytes;
        memmove(to, rows->data + row * (size_t)rows->batch_bytes, length * step_bytes);
        fill(t, output, to + length * step_bytes, t->longest - length, step_bytes);
    }
}

void srv_trim(struct srv_request *request, const struct sched_sequences *sequences,
              const struct sched_graph *graph)
{
    const struct cell_model *model = sequences->model;
    struct trim t = {.sequences = sequences, .graph = graph};
    for (uint32_t row = 0; row < sequences->n_rows; row++) {
        const uint32_t length = length_of(&t, row);
        t.longest = length > t.longest ? length : t.longest;
    }
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        struct srv_tensor *answer = &request->outputs[i];
        uint32_t o = 0;
        while (answer->name != model->outputs[o].name) { // they are the model's own
            o++;
        }
        if (model->output_sources[o][0].kind == CELL_SOURCE_TAKEN) {
            write_lengths(&t, &sequences->outputs[o]);
            continue;
        }
        move_rows(&t, o);
        base_assert(model->outputs[o].time_axis == 1);
        answer->shape[1] = t.longest;
        answer->bytes = (size_t)sequences->outputs[o].step_bytes * t.longest * sequences->n_rows;
    }
}
