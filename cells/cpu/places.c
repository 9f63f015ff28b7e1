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
    const bool is_exact = program->values[program->type->def.outputs[o]].is_exact;
    for (uint32_t e = 0; e < wiring->n_emits; e++) {
        const struct cell_emit *emit = &wiring->emits[e];
        if (emit->what == CELL_EMIT_OUTPUT && emit->index == o &&
            (emit->to.kind == CELL_REF_VALUE || is_exact) &&
            cell_emit_is_due(emit, step, wiring->steps)) {
            return cell_place(stores, &emit->to, program->type->output_layouts[o], step);
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
    places->rows = base_arena_array(&program->arena, rows, sizeof(*places->rows));
    places->copies = base_arena_array(&program->arena, rows * def->n_outputs * COPIES_EACH,
                                      sizeof(*places->copies));
    return is_whole && places->rows != NULL && places->copies != NULL ? BASE_OK
                                                                      : BASE_RESOURCE_EXHAUSTED;
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

/* The cells of a row, of which the first is number `cell`. */
struct found {
    const struct cell_program *program;
    const struct cell_rows *stores;
    const struct cell_batch_row *row;
    struct cell_places *places;
    uint32_t cell, copies_max;
};

static void find_inputs(const struct found *f)
{
    const struct cell_batch_row *row = f->row;
    for (uint32_t i = 0; i < f->program->type->def.n_inputs; i++) {
        if (f->places->inputs[i] == NULL) {
            continue;
        }
        const struct cell_ref *ref = &row->wiring->inputs[i];
        const int64_t stride = ref->kind == CELL_REF_HOST ? ref->stride_bytes : 0;
        uint8_t **to = f->places->inputs[i] + f->cell;
        uint8_t *at = cell_place_input(f->program, f->stores, row->wiring, i, row->first_step);
        for (uint32_t k = 0; k < row->steps; k++) {
            to[k] = at + (int64_t)k * stride;
        }
    }
}

/* The row's steps first .. end - 1 behind which the emit is due. */
static void find_due(const struct cell_emit *emit, const struct cell_batch_row *row,
                     uint32_t *first, uint32_t *end)
{
    const bool has_first = row->first_step == 0;
    const bool has_last = row->first_step + row->steps == row->wiring->steps;
    *first = emit->when == CELL_EMIT_LAST ? row->steps - 1 : 0;
    *end = emit->when == CELL_EMIT_FIRST ? 1 : row->steps;
    if ((emit->when == CELL_EMIT_FIRST && !has_first) ||
        (emit->when == CELL_EMIT_LAST && !has_last)) {
        *end = *first;
    }
}

/* One emit of the row: its cells are computed where the first emit that suits them puts them, and
 * copied where others do. false: more copies than there is room for. */
static bool find_emit(const struct found *f, const struct cell_emit *emit)
{
    const struct cell_program *program = f->program;
    const uint32_t o = emit->index;
    const uint32_t value = program->type->def.outputs[o];
    struct cell_places *places = f->places;
    uint8_t **outs = places->outs[o];
    const bool may_be_there =
        outs != NULL && (emit->to.kind == CELL_REF_VALUE || program->values[value].is_exact);
    const int64_t stride = emit->to.kind == CELL_REF_HOST ? emit->to.stride_bytes : 0;
    uint8_t *to =
        cell_place(f->stores, &emit->to, program->type->output_layouts[o], f->row->first_step);
    uint32_t first;
    uint32_t end;
    find_due(emit, f->row, &first, &end);
    for (uint32_t k = first; k < end; k++) {
        const uint32_t cell = f->cell + k;
        uint8_t *at = to + (int64_t)k * stride;
        if (may_be_there && outs[cell] == places->own_outs[o][cell]) {
            outs[cell] = at;
        } else if (outs == NULL || outs[cell] != at) {
            if (places->n_copies == f->copies_max) {
                return false;
            }
            places->copies[places->n_copies++] =
                (struct cell_copy){.value = value, .cell = cell, .to = at};
        }
    }
    return true;
}

static bool find_outputs(const struct found *f)
{
    const struct cell_def *def = &f->program->type->def;
    const struct cell_wiring *wiring = f->row->wiring;
    bool has_room = true;
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        for (uint32_t k = 0; f->places->outs[o] != NULL && k < f->row->steps; k++) {
            f->places->outs[o][f->cell + k] = f->places->own_outs[o][f->cell + k];
        }
    }
    for (uint32_t e = 0; has_room && e < wiring->n_emits; e++) {
        base_assert(wiring->emits[e].what == CELL_EMIT_OUTPUT &&
                    wiring->emits[e].index < def->n_outputs);
        has_room = find_emit(f, &wiring->emits[e]);
    }
    return has_room;
}

const struct cell_places *cell_places_find(struct cell_program *program,
                                           const struct cell_rows *stores, uint32_t queue,
                                           uint32_t slot, const struct cell_batch *batch)
{
    if (program->places == NULL || batch->steps > 1) {
        return NULL;
    }
    struct cell_places *places = &program->places[queue][slot];
    places->n_copies = 0;
    places->n_cells = 0;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        const struct found found = {.program = program,
                                    .stores = stores,
                                    .row = &batch->rows[r],
                                    .places = places,
                                    .cell = places->n_cells,
                                    .copies_max = program->block_rows *
                                                  program->type->def.n_outputs * COPIES_EACH};
        if (found.row->steps > program->block_rows - places->n_cells) {
            return NULL;
        }
        find_inputs(&found);
        if (!find_outputs(&found)) {
            return NULL;
        }
        for (uint32_t k = 0; k < found.row->steps; k++) {
            places->rows[places->n_cells++] = r;
        }
    }
    return places;
}
