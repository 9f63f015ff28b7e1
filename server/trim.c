/* See trim.h. Rows move towards the front, each over what stood before it. Cost: O(bytes of the
 * answer). */
#include "server/trim.h"

#include "base/assert.h"
#include "server/forms.h"
#include "server/tensors.h"

#include <math.h>
#include <string.h>

struct trim {
    const struct sched_sequences *sequences;
    const struct sched_graph *graph;
    uint32_t from; /* the first step that is left */
    uint32_t longest;
};

/* Steps of a row that are answered: the one that gave the end id is not. */
static uint32_t length_of(const struct trim *t, uint32_t row)
{
    const struct sched_node *node = &t->graph->nodes[t->sequences->decoders[row]];
    base_assert(node->steps_done == node->wiring.steps);
    return node->steps_done - (node->has_ended ? 1 : 0);
}

static uint32_t left_of(const struct trim *t, uint32_t row)
{
    const uint32_t length = length_of(t, row);
    return length > t->from ? length - t->from : 0;
}

static void write_lengths(const struct trim *t, const struct sched_tensor *to)
{
    for (uint32_t row = 0; row < t->sequences->n_rows; row++) {
        const int64_t length = length_of(t, row);
        memcpy(to->data + row * to->batch_bytes, &length, sizeof(length));
    }
}

/* What stands behind a row's own steps. */
static void fill(const struct sched_sequences *sequences, uint32_t output, uint8_t *from,
                 size_t steps, size_t step_bytes)
{
    const struct cell_decoder *decoder = &sequences->model->decoder;
    memset(from, 0, steps * step_bytes);
    for (size_t i = 0; i < steps && output == decoder->token_output; i++) {
        memcpy(from + i * step_bytes, &decoder->end.id, step_bytes); // little-endian
    }
}

static void move_rows(const struct trim *t, uint32_t output)
{
    const struct sched_tensor *rows = &t->sequences->outputs[output];
    const size_t step_bytes = (size_t)rows->step_bytes;
    const size_t steps = t->longest - t->from;
    for (uint32_t row = 0; row < t->sequences->n_rows; row++) {
        const size_t left = left_of(t, row);
        const uint8_t *own = rows->data + row * (size_t)rows->batch_bytes;
        uint8_t *to = rows->data + row * steps * step_bytes;
        memmove(to, own + t->from * step_bytes, left * step_bytes);
        fill(t->sequences, output, to + left * step_bytes, steps - left, step_bytes);
    }
}

/* ---- Beam search ---- */

static const struct cell_beam *beam_of(const struct trim *t, uint32_t row)
{
    return t->graph->nodes[t->sequences->decoders[row]].wiring.beam;
}

/* The ids of a hypothesis, from its last to its first. */
static void walk_back(const struct cell_beam *beam, const struct cell_beam_found *found,
                      uint8_t *to)
{
    uint32_t lane = found->lane;
    for (uint32_t step = found->steps; step-- > 0;) {
        const size_t at = (size_t)step * beam->width + lane;
        const int64_t id = beam->tokens[at];
        memcpy(to + step * sizeof(id), &id, sizeof(id));
        lane = (uint32_t)beam->parents[at];
    }
}

/* One hypothesis of a row, or none, to one of the outputs. */
static void write_found(const struct trim *t, uint32_t output, uint32_t row, uint32_t number)
{
    const struct cell_beam *beam = beam_of(t, row);
    const struct cell_beam_found none = {.score = -INFINITY};
    const struct cell_beam_found *found = number < beam->n_found ? &beam->found[number] : &none;
    const size_t at = (size_t)row * beam->width + number;
    const int64_t length = found->steps;
    uint8_t *data = t->sequences->outputs[output].data;
    if (output == CELL_BEAM_SCORES) {
        memcpy(data + at * sizeof(found->score), &found->score, sizeof(found->score));
    } else if (output == CELL_BEAM_LENGTHS) {
        memcpy(data + at * sizeof(length), &length, sizeof(length));
    } else {
        uint8_t *ids = data + at * t->longest * sizeof(int64_t);
        walk_back(beam, found, ids);
        fill(t->sequences, output, ids + found->steps * sizeof(int64_t), t->longest - found->steps,
             sizeof(int64_t));
    }
}

static void trim_beams(struct srv_request *request, struct trim *t, uint32_t *steps)
{
    const struct cell_model *model = t->sequences->model;
    const uint32_t width = sched_beam_width(t->sequences);
    for (uint32_t row = 0; row < t->sequences->n_rows; row++) {
        for (uint32_t i = 0; i < width; i++) {
            const bool is_found = i < beam_of(t, row)->n_found;
            const uint32_t length = is_found ? beam_of(t, row)->found[i].steps : 0;
            t->longest = length > t->longest ? length : t->longest;
            if (steps != NULL) {
                steps[row * width + i] = length;
            }
        }
    }
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        struct srv_tensor *answer = &request->outputs[i];
        const uint32_t o = srv_tensor_output(model, answer);
        for (uint32_t at = 0; at < t->sequences->n_rows * width; at++) {
            write_found(t, o, at / width, at % width);
        }
        if (o == CELL_BEAM_TOKENS) {
            answer->shape[2] = t->longest;
            answer->bytes = (size_t)t->sequences->n_rows * width * t->longest * sizeof(int64_t);
        }
    }
}

void srv_trim(struct srv_request *request, const struct sched_sequences *sequences,
              const struct sched_graph *graph, uint32_t from, uint32_t *steps)
{
    const struct cell_model *model = sequences->model;
    struct trim t = {.sequences = sequences, .graph = graph, .from = from, .longest = from};
    if (model->decoder.beam_width > 0) {
        trim_beams(request, &t, steps);
        return;
    }
    for (uint32_t row = 0; row < sequences->n_rows; row++) {
        const uint32_t length = length_of(&t, row);
        t.longest = length > t.longest ? length : t.longest;
        if (steps != NULL) {
            steps[row] = left_of(&t, row);
        }
    }
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        struct srv_tensor *answer = &request->outputs[i];
        const uint32_t o = srv_tensor_output(model, answer);
        if (model->output_sources[o][0].kind == CELL_SOURCE_TAKEN) {
            write_lengths(&t, &sequences->outputs[o]);
            continue;
        }
        move_rows(&t, o);
        base_assert(model->outputs[o].time_axis == 1);
        const size_t left = t.longest - from;
        answer->shape[1] = (int64_t)left;
        answer->bytes = (size_t)sequences->outputs[o].step_bytes * left * sequences->n_rows;
    }
}

/* ---- A part ---- */

/* The part of one output. One row's steps are handed out where they stand, unless their elements
 * become others (forms.h). */
static const uint8_t *rows_of_part(const struct sched_sequences *sequences, uint32_t output,
                                   const struct srv_trim_part *part, struct base_arena *arena)
{
    const struct sched_tensor *rows = &sequences->outputs[output];
    const size_t step_bytes = (size_t)rows->step_bytes;
    const size_t steps = part->to - part->from;
    if (sequences->n_rows == 1 && sequences->model->outputs[output].form == CELL_FORM_OWN) {
        return rows->data + part->from * step_bytes;
    }
    const size_t more = srv_forms_room(sequences->model->outputs[output].form) / sizeof(float);
    uint8_t *data = base_arena_array(arena, sequences->n_rows, steps * step_bytes * more);
    for (uint32_t row = 0; data != NULL && row < sequences->n_rows; row++) {
        const size_t own = part->lengths[row];
        uint8_t *to = data + row * steps * step_bytes;
        memcpy(to, rows->data + row * (size_t)rows->batch_bytes + part->from * step_bytes,
               own * step_bytes);
        fill(sequences, output, to + own * step_bytes, steps - own, step_bytes);
    }
    return data;
}

enum base_status srv_trim_part(struct srv_request *request, const struct sched_sequences *sequences,
                               const struct srv_trim_part *part, struct base_error *error)
{
    const struct cell_model *model = sequences->model;
    base_assert(part->from < part->to && model->decoder.beam_width == 0);
    for (uint32_t row = 0; row < sequences->n_rows; row++) {
        const uint32_t length = part->lengths[row] < part->to ? part->lengths[row] : part->to;
        part->lengths[row] = length > part->from ? length - part->from : 0;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        struct srv_tensor answer = request->outputs[i];
        const uint32_t o = srv_tensor_output(model, &answer);
        if (model->output_sources[o][0].kind == CELL_SOURCE_TAKEN) {
            continue;
        }
        answer.data = rows_of_part(sequences, o, part, &request->arena);
        if (answer.data == NULL) {
            return base_fail(error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
        }
        answer.shape[1] = part->to - part->from;
        answer.bytes =
            (size_t)sequences->outputs[o].step_bytes * (part->to - part->from) * sequences->n_rows;
        request->outputs[n++] = answer;
    }
    request->n_outputs = n;
    return BASE_OK;
}
