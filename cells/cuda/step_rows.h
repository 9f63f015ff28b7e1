/* Bodies of the kernels that move rows and count steps; see step.h.
 *
 * A row runs at a step while the batch is not over and its outcome says so. Only these kernels ask:
 * between LOAD and STORE rows that do not run are computed too, from whatever their matrices hold,
 * and nobody looks. */
#ifndef CELLS_CUDA_STEP_ROWS_H
#define CELLS_CUDA_STEP_ROWS_H

#include "cells/cuda/step.h"

CELL_STEP_FN const struct cell_step_task *cell_step_task(const struct cell_step_batch *batch)
{
    return (const struct cell_step_task *)cell_step_pointer(batch->task);
}

CELL_STEP_FN struct cell_step_result *cell_step_result(const struct cell_step_batch *batch)
{
    return (struct cell_step_result *)cell_step_pointer(batch->result);
}

CELL_STEP_FN const struct cell_step_row *cell_step_row(const struct cell_step_batch *batch,
                                                       uint32_t r)
{
    const uint64_t at = batch->task + sizeof(struct cell_step_task);
    return (const struct cell_step_row *)cell_step_pointer(at) + r;
}

/* Whether the row runs at this step. */
CELL_STEP_FN bool cell_step_runs(const struct cell_step_batch *batch, uint32_t r)
{
    const struct cell_step_result *result = cell_step_result(batch);
    return r < cell_step_task(batch)->n_rows && result->is_over == 0 &&
           result->steps_done < (result->outcomes[r] & ~CELL_STEP_ENDED);
}

/* Where a part of a row's slot stands as after so many steps of its chain. */
CELL_STEP_FN uint32_t *cell_step_slot(const struct cell_step_batch *batch,
                                      const struct cell_step_row *row, uint32_t part, uint32_t step)
{
    const struct cell_step_store *store =
        (const struct cell_step_store *)cell_step_pointer(batch->store);
    return (uint32_t *)cell_step_pointer(store->memory +
                                         cell_lane_rows_at(&store->rows, row->slot, part, step));
}

/* Steps of its chain that the row has taken. */
CELL_STEP_FN uint32_t cell_step_taken(const struct cell_step_batch *batch,
                                      const struct cell_step_row *row)
{
    return row->first_step + cell_step_result(batch)->steps_done;
}

/* ---- Of a row with a search ---- */

CELL_STEP_FN struct cell_beam *cell_step_beam(const struct cell_step_batch *batch,
                                              const struct cell_step_row *row)
{
    const uint64_t at = batch->result + cell_step_task(batch)->beams_at;
    return (struct cell_beam *)cell_step_pointer(at) + (row->search - 1);
}

/* The tokens of the lanes after this step, and behind them their parents; [width] each. */
CELL_STEP_FN int32_t *cell_step_choices(const struct cell_step_batch *batch,
                                        const struct cell_step_row *row, uint32_t width)
{
    const struct cell_step_task *task = cell_step_task(batch);
    const struct cell_step_search *searches =
        (const struct cell_step_search *)cell_step_pointer(batch->task + task->searches_at);
    const uint32_t step = cell_step_result(batch)->steps_done - task->first;
    return (int32_t *)cell_step_pointer(searches[row->search - 1].choices) +
           (uint64_t)step * 2 * width;
}

CELL_STEP_FN void cell_step_begin(const struct cell_step_begin *p, struct cell_step_at at)
{
    struct cell_step_result *result = cell_step_result(&p->batch);
    if (at.phase == 1 && at.lane == 0) {
        result->steps_done = 0;
        result->is_over = 0;
    }
    const struct cell_step_task *task = cell_step_task(&p->batch);
    const uint32_t n = at.phase == 0 ? task->n_rows : 0;
    for (uint32_t r = at.lane; r < n; r += CELL_STEP_LANES_MAX) {
        result->outcomes[r] = cell_step_row(&p->batch, r)->steps;
    }
    const struct cell_step_search *searches =
        (const struct cell_step_search *)cell_step_pointer(p->batch.task + task->searches_at);
    struct cell_beam *beams =
        (struct cell_beam *)cell_step_pointer(p->batch.result + task->beams_at);
    for (uint32_t s = at.phase == 0 ? at.lane : task->n_searches; s < task->n_searches;
         s += CELL_STEP_LANES_MAX) {
        beams[s] = searches[s].beam;
    }
}

/* Which value a word of all belongs to; *word becomes the word of it. */
CELL_STEP_FN uint32_t cell_step_value_of(const struct cell_step_value *values, uint32_t *word)
{
    uint32_t v = 0;
    while (*word >= values[v].words) {
        *word -= values[v++].words;
    }
    return v;
}

/* Of input v, or of state v - inputs. */
CELL_STEP_FN const struct cell_step_source *cell_step_source_of(const struct cell_step_batch *batch,
                                                                uint32_t v, uint32_t r)
{
    const struct cell_step_task *task = cell_step_task(batch);
    return (const struct cell_step_source *)cell_step_pointer(batch->task + task->sources_at) +
           (uint64_t)v * task->n_rows + r;
}

/* What the row's input, or its first state, reads at this step; a null pointer: zeros. */
CELL_STEP_FN const uint32_t *cell_step_source(const struct cell_step_batch *batch, uint32_t v,
                                              uint32_t r)
{
    const struct cell_step_source *source = cell_step_source_of(batch, v, r);
    const int64_t step =
        (int64_t)cell_step_result(batch)->steps_done - (int64_t)cell_step_task(batch)->first;
    const uint32_t *none = 0;
    return source->at == 0 ? none
                           : (const uint32_t *)cell_step_pointer(source->at +
                                                                 (uint64_t)(step * source->stride));
}

CELL_STEP_FN void cell_step_load(const struct cell_step_load *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->words;
    uint32_t word = at.item % p->words;
    if (!cell_step_runs(&p->batch, r)) {
        return;
    }
    const uint32_t v = cell_step_value_of(p->values, &word);
    const struct cell_step_row *row = cell_step_row(&p->batch, r);
    const uint32_t taken = cell_step_taken(&p->batch, row);
    const uint32_t *from = v < p->n_inputs || taken == 0
                               ? cell_step_source(&p->batch, v, r)
                               : cell_step_slot(&p->batch, row, v - p->n_inputs, taken);
    cell_step_words(p->values[v].place, r)[word] = from ? from[word] : 0;
}

/* Word `word` of state s as the lane of a search goes on with it. Lanes are read in their matrices
 * and written in their slots: none overwrites what another reads. */
CELL_STEP_FN uint32_t cell_step_searched(const struct cell_step_store_states *p, uint32_t r,
                                         uint32_t s, uint32_t word)
{
    const struct cell_step_row *row = cell_step_row(&p->batch, r);
    const struct cell_beam *beam = cell_step_beam(&p->batch, row);
    const int32_t *choices = cell_step_choices(&p->batch, row, beam->width);
    const uint32_t parent = (uint32_t)choices[beam->width + row->lane];
    if (s == beam->token) {
        return word == 0 ? (uint32_t)choices[row->lane] : 0; // of an I64, the half above
    }
    return cell_step_words(p->values[s].place, r - row->lane + parent)[word];
}

CELL_STEP_FN void cell_step_store(const struct cell_step_store_states *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->words;
    uint32_t word = at.item % p->words;
    if (cell_step_runs(&p->batch, r)) {
        const uint32_t s = cell_step_value_of(p->values, &word);
        const struct cell_step_row *row = cell_step_row(&p->batch, r);
        cell_step_slot(&p->batch, row, s, cell_step_taken(&p->batch, row) + 1)[word] =
            row->search == 0 ? cell_step_words(p->values[s].place, r)[word]
                             : cell_step_searched(p, r, s, word);
    }
}

/* As cell_emit_is_due() says. */
CELL_STEP_FN bool cell_step_is_due(uint32_t when, uint32_t step, uint32_t steps)
{
    return when == CELL_STEP_EACH || (when == CELL_STEP_FIRST ? step == 0 : step + 1 == steps);
}

CELL_STEP_FN void cell_step_emit(const struct cell_step_emit_values *p, struct cell_step_at at)
{
    const struct cell_step_task *task = cell_step_task(&p->batch);
    const uint32_t step = cell_step_result(&p->batch)->steps_done;
    const struct cell_step_emit *emits =
        (const struct cell_step_emit *)cell_step_pointer(p->batch.task + task->emits_at);
    for (uint32_t e = at.item; e < task->n_emits; e += at.n_items) {
        const struct cell_step_row *row = cell_step_row(&p->batch, emits[e].row);
        if (!cell_step_runs(&p->batch, emits[e].row) ||
            !cell_step_is_due(emits[e].when, row->first_step + step, row->of_chain)) {
            continue;
        }
        const struct cell_step_value *value = &p->values[emits[e].value];
        const int64_t later = (int64_t)step - (int64_t)task->first;
        const uint32_t *from = cell_step_words(value->place, emits[e].row);
        uint32_t *to =
            (uint32_t *)cell_step_pointer(emits[e].to + (uint64_t)(later * emits[e].stride));
        for (uint32_t word = at.lane; word < value->words; word += 32) {
            to[word] = from[word];
        }
    }
}

/* Whether the row's end has come with this step. */
CELL_STEP_FN bool cell_step_is_at_end(const struct cell_step_turn *p, uint32_t r)
{
    const struct cell_step_row *row = cell_step_row(&p->batch, r);
    if (row->search != 0) {
        return cell_step_beam(&p->batch, row)->is_done;
    }
    return row->has_end != 0 && cell_step_integer(cell_step_words(p->states[row->end_state], r),
                                                  p->is_long >> row->end_state & 1) == row->end_id;
}

/* Phases: flags are cleared; rows; the batch. room[0]: some row goes on; room[1]: some has ended.
 */
CELL_STEP_FN void cell_step_turn(const struct cell_step_turn *p, struct cell_step_at at)
{
    const struct cell_step_task *task = cell_step_task(&p->batch);
    struct cell_step_result *result = cell_step_result(&p->batch);
    if (at.phase == 0 && at.lane < 2) {
        at.room[at.lane] = 0.0f;
    }
    const uint32_t n = at.phase == 1 ? task->n_rows : 0;
    for (uint32_t r = at.lane; r < n; r += CELL_STEP_LANES_MAX) {
        if (cell_step_runs(&p->batch, r) && cell_step_is_at_end(p, r)) {
            result->outcomes[r] = (result->steps_done + 1) | CELL_STEP_ENDED;
            at.room[1] = 1.0f;
        } else if ((result->outcomes[r] & ~CELL_STEP_ENDED) > result->steps_done + 1) {
            at.room[0] = 1.0f;
        }
    }
    if (at.phase == 2 && at.lane == 0 && result->is_over == 0) {
        const cell_word32 *attention = (const cell_word32 *)cell_step_pointer(task->attention);
        const uint32_t done = ++result->steps_done;
        const bool is_asked =
            at.room[1] != 0.0f ||
            (done >= task->steps_min && cell_word32_load(attention, CELL_LANE_RELAXED) != 0);
        result->is_over =
            at.room[0] == 0.0f || done == task->steps || (task->is_interruptible != 0 && is_asked);
    }
}

CELL_STEP_FN void cell_step_lookup(const struct cell_step_lookup *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->words;
    const uint32_t word = at.item % p->words;
    int64_t id = cell_step_integer(cell_step_words(p->id, r), p->is_long);
    id = id < 0 ? 0 : id;
    id = id >= (int64_t)p->rows ? (int64_t)p->rows - 1 : id;
    const uint32_t *table = (const uint32_t *)cell_step_pointer(p->table);
    cell_step_words(p->out, r)[word] = table[(uint64_t)id * p->words + word];
}

CELL_STEP_FN void cell_step_move(const struct cell_step_move *p, struct cell_step_at at)
{
    const uint32_t r = at.item / p->words;
    const uint32_t word = at.item % p->words;
    cell_step_words(p->out, r)[word] = cell_step_words(p->in, r)[word];
}

#endif
