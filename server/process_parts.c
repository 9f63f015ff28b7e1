/* An answer that is taken in parts while it is made.
 *
 * Only that of a decoder which is neither a beam search nor a transducer is: its steps stand in the
 * request's memory one by one, and stay as they are. The pool thread says that there are more
 * (graph.shown), the loop thread tells the front end, and that takes them when it can send: parts
 * become as large as it is slow, and nothing is kept for it but the answer itself. */
#include "base/assert.h"
#include "base/clock.h"
#include "server/core_state.h"
#include "server/tensors.h"
#include "server/text.h"
#include "server/trim.h"

#include <string.h>

/* ---- The pool thread's side ---- */

void srv_core__job_progressed(struct srv_job *job)
{
    struct srv_flight *flight =
        (struct srv_flight *)(void *)((char *)job - offsetof(struct srv_flight, job));
    // One on the way is enough: who delivers it sees what was shown before this.
    if (!atomic_exchange_explicit(&flight->parts.is_posted, true, memory_order_acq_rel)) {
        srv_loop_post(flight->core->loop, &flight->parts.message);
    }
}

/* ---- The loop thread's side ---- */

static void deliver_progress(struct base_message *message)
{
    struct srv_flight *flight =
        (struct srv_flight *)(void *)((char *)message - offsetof(struct srv_flight, parts.message));
    // Exchanged, not stored: so that what was shown before the other side's exchange is seen.
    (void)atomic_exchange_explicit(&flight->parts.is_posted, false, memory_order_acq_rel);
    if (!flight->cancel_posted) {
        flight->request->progressed(flight->request);
    }
}

enum base_status srv_core__open_parts(struct srv_flight *flight)
{
    struct srv_request *request = flight->request;
    const struct sched_sequences *sequences = &flight->sequences;
    struct srv_parts *parts = &flight->parts;
    if (!request->in_parts || flight->job.graph == NULL || flight->session != NULL ||
        flight->model->cells->unfold != CELL_UNFOLD_SEQ2SEQ || flight->model->cells->labels.is_on ||
        sched_beam_width(sequences) > 0) {
        return BASE_OK;
    }
    parts->n_whole = request->n_outputs;
    parts->whole = request->outputs;
    parts->outputs = base_arena_array(&request->arena, request->n_outputs, sizeof(*parts->outputs));
    parts->lengths = base_arena_array(&request->arena, sequences->n_rows, sizeof(*parts->lengths));
    parts->is_over = base_arena_array(&request->arena, sequences->n_rows, sizeof(*parts->is_over));
    if (parts->outputs == NULL || parts->lengths == NULL || parts->is_over == NULL ||
        sched_graph_show(flight->job.graph, &request->arena, sequences->decoders,
                         sequences->n_rows) != BASE_OK) {
        return base_fail(&request->error, BASE_RESOURCE_EXHAUSTED, "request memory spent");
    }
    atomic_init(&parts->is_posted, false);
    parts->message.deliver = deliver_progress;
    parts->is_open = true;
    return BASE_OK;
}

void srv_core__close_parts(struct srv_flight *flight)
{
    if (flight->parts.is_open) {
        flight->parts.is_open = false;
        flight->request->outputs = flight->parts.whole;
        flight->request->n_outputs = flight->parts.n_whole;
    }
}

/* Looks at all rows. Returns how many steps of all of them are known: so many as the shortest has
 * that is not over, and no half of a character; 0 when all are, for then the end is on its way. */
static uint32_t count_steps(const struct srv_flight *flight)
{
    const struct sched_graph *graph = flight->job.graph;
    uint32_t steps = UINT32_MAX;
    for (uint32_t row = 0; row < flight->n_rows; row++) {
        const uint32_t word = atomic_load_explicit(&graph->shown[flight->sequences.decoders[row]],
                                                   memory_order_acquire);
        const bool is_over = (word & SCHED_SHOWN_ALL) != 0;
        flight->parts.lengths[row] = word & ~SCHED_SHOWN_ALL;
        flight->parts.is_over[row] = is_over;
        steps = !is_over && word < steps ? word : steps;
    }
    if (steps == UINT32_MAX || steps <= flight->parts.steps) {
        return 0;
    }
    const struct srv_texts_part part = {.outputs = flight->sequences.outputs,
                                        .n_rows = flight->n_rows,
                                        .from = flight->parts.steps,
                                        .to = steps,
                                        .lengths = flight->parts.lengths,
                                        .is_over = flight->parts.is_over};
    return srv_texts_whole(flight->model->texts, flight->model->cells, &part);
}

static enum base_status make_part(struct srv_flight *flight, uint32_t to)
{
    struct srv_request *request = flight->request;
    struct srv_parts *parts = &flight->parts;
    const struct cell_model *cells = flight->model->cells;
    const struct srv_trim_part part = {.from = parts->steps, .to = to, .lengths = parts->lengths};
    const uint32_t *steps[CELL_SEQUENCES_MAX];
    memcpy(steps, flight->sequences.steps, sizeof(steps));
    steps[cells->decoder.sequence] = parts->lengths;
    BASE_TRY(srv_trim_part(request, &flight->sequences, &part, &request->error));
    srv_tensors_narrow(request, cells);
    return srv_texts_write(flight->model->texts, cells, request, steps, part.from > 0,
                           &request->error);
}

bool srv_request_take_part(struct srv_request *request)
{
    struct srv_flight *flight = request->flight;
    if (flight == NULL || !flight->parts.is_open || flight->phase != SRV_PHASE_RUNNING) {
        return false;
    }
    base_assert(srv_loop_is_owner(flight->core->loop));
    struct srv_parts *parts = &flight->parts;
    const uint32_t steps = flight->finished || flight->cancel_posted ? 0 : count_steps(flight);
    if (parts->is_broken || steps <= parts->steps) {
        return false;
    }
    request->outputs = parts->outputs;
    request->n_outputs = parts->n_whole;
    memcpy(parts->outputs, parts->whole, parts->n_whole * sizeof(*parts->outputs));
    if (make_part(flight, steps) != BASE_OK || request->n_outputs == 0) {
        // Nothing with steps was asked for; or what went wrong, memory or an id without a text, the
        // end meets as well, and tells.
        parts->is_broken = true;
        request->error = (struct base_error){.status = BASE_OK};
        return false;
    }
    parts->first_ns = parts->steps == 0 ? base_now_ns() : parts->first_ns;
    parts->steps = steps;
    flight->model->face.parts++;
    return true;
}
