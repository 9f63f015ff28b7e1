/* See places.h. Owner of a room: the thread that submits to the queue, until the batch is on it;
 * then its members, who only read. */
#include "cells/cpu/places.h"

#include "base/assert.h"

/* Copies that a batch has room for, for each row and output: a value row and request memory. */
#define COPIES_EACH 2u

uint8_t *cell_place(const struct cell_rows *stores, const struct cell_ref *ref, uint32_t layout,
                    uint32_t step)
{
    if (ref->kind == CELL_REF_HOST) {
        return ref->host + (int64_t)step * ref->stride_bytes;
    }
    base_assert(ref->kind == CELL_REF_VALUE);
    return cell_rows_part(&stores[layout], ref->row, 0, 0);
}

uint8_t *cell_place_input(const struct cell_program *program, const struct cell_rows *stores,
                          const struct cell_wiring *wiring, uint32_t input, uint32_t step)
{
    const struct cell_ref *ref = &wiring->inputs[input];
    return ref->kind == CELL_REF_ZERO
               ? program->zeros
               : cell_place(stores, ref, program->type->input_layouts[input], step);
}

uint8_t *cell_place_output(const struct cell_program *program, const struct cell_rows *stores,
                           const struct cell_wiring *wiring, uint32_t o, uint32_t step)
{
    for (uint32_t e = 0; e < wiring->n_emits; e++) {
        const struct cell_emit *emit = &wiring->emits[e];
        if (emit->what == CELL_EMIT_OUTPUT && emit->index == o && emit->to.kind == CELL_REF_VALUE &&
            cell_emit_is_due(emit, step, wiring->steps)) {
            return cell_place(stores, &emit->to, program->type->output_layouts[o], 0);
        }
    }
    return NULL;
}

/* ---- All rows of a batch ---- */

static bool is_placed_out(const struct cell_program *program, uint32_t o)
{
    const struct cell_program_value *value = &program->values[program->type->def.outputs[o]];
    return value->place == CELL_PLACE_OUT && value->index == o;
}

/* space: of any member of the queue. */
static enum base_status make_room(struct cell_program *program, const struct cell_space *space,
                                  struct cell_places *places)
{
    const struct cell_def *def = &program->type->def;
    const size_t rows = program->block_rows;
    bool is_whole = true;
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        if (program->values[i].place == CELL_PLACE_INPUT) {
            places->inputs[i] = base_arena_array(&program->arena, rows, sizeof(uint8_t *));
            is_whole &= places->inputs[i] != NULL;
        }
    }
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        if (is_placed_out(program, o)) {
            places->outs[o] = base_arena_array(&program->arena, rows, sizeof(uint8_t *));
            places->own_outs[o] = space->outs[o];
            is_whole &= places->outs[o] != NULL;
        }
    }
    places->copies = base_arena_array(&program->arena, rows * def->n_outputs * COPIES_EACH,
                                      sizeof(*places->copies));
    return is_whole && places->copies != NULL ? BASE_OK : BASE_RESOURCE_EXHAUSTED;
}

enum base_status cell_places_make(struct cell_program *program, uint32_t batches)
{
    if (program->type->def.n_states > 0) {
        return BASE_OK;
    }
    program->places =
        base_arena_array(&program->arena, program->n_queues, sizeof(struct cell_places *));
    for (uint32_t q = 0; program->places != NULL && q < program->n_queues; q++) {
        program->places[q] = base_arena_array(&program->arena, batches, sizeof(struct cell_places));
        for (uint32_t b = 0; b < batches; b++) {
            if (program->places[q] == NULL) {
                return BASE_RESOURCE_EXHAUSTED;
            }
            BASE_TRY(make_room(program, program->spaces[q], &program->places[q][b]));
        }
    }
    return program->places == NULL ? BASE_RESOURCE_EXHAUSTED : BASE_OK;
}

/* A row's outputs where they are computed, and what is to be copied from there. false: more than
 * there is room for. */
static bool find_outputs(const struct cell_program *program, const struct cell_rows *stores,
                         const struct cell_batch *batch, uint32_t r, struct cell_places *places)
{
    const struct cell_batch_row *row = &batch->rows[r];
    const struct cell_def *def = &program->type->def;
    const struct cell_wiring *wiring = row->wiring;
    const uint32_t copies_max = program->block_rows * def->n_outputs * COPIES_EACH;
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        if (places->outs[o] != NULL) {
            uint8_t *to = cell_place_output(program, stores, wiring, o, row->first_step);
            places->outs[o][r] = to == NULL ? places->own_outs[o][r] : to;
        }
    }
    for (uint32_t e = 0; e < wiring->n_emits; e++) {
        const struct cell_emit *emit = &wiring->emits[e];
        base_assert(emit->what == CELL_EMIT_OUTPUT && emit->index < def->n_outputs);
        if (!cell_emit_is_due(emit, row->first_step, wiring->steps)) {
            continue;
        }
        const uint32_t o = emit->index;
        uint8_t *to =
            cell_place(stores, &emit->to, program->type->output_layouts[o], row->first_step);
        if (places->outs[o] != NULL && places->outs[o][r] == to) {
            continue;
        }
        if (places->n_copies == copies_max) {
            return false;
        }
        places->copies[places->n_copies++] =
            (struct cell_copy){.value = def->outputs[o], .row = r, .to = to};
    }
    return true;
}

const struct cell_places *cell_places_find(struct cell_program *program,
                                           const struct cell_rows *stores, uint32_t queue,
                                           uint32_t slot, const struct cell_batch *batch)
{
    if (program->places == NULL || batch->steps > 1 || batch->n_rows > program->block_rows) {
        return NULL;
    }
    const struct cell_def *def = &program->type->def;
    struct cell_places *places = &program->places[queue][slot];
    places->n_copies = 0;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        const struct cell_batch_row *row = &batch->rows[r];
        for (uint32_t i = 0; i < def->n_inputs; i++) {
            if (places->inputs[i] != NULL) {
                places->inputs[i][r] =
                    cell_place_input(program, stores, row->wiring, i, row->first_step);
            }
        }
        if (!find_outputs(program, stores, batch, r, places)) {
            return NULL;
        }
    }
    return places;
}
