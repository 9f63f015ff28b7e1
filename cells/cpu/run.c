/* A batch runs in one parallel region: every member goes through the same steps and blocks of rows
 * on its own, computes its share of each op, and meets the others at barriers only where one reads
 * what another wrote (program.c places them).
 *
 *   step:  input, state pointers | ops ... | barrier | emits | barrier if they might be overwritten
 *
 * Or each runs rows of its own alone (apart.h), or takes cells one by one (taking.h): then all that
 * follows is about one member.
 *
 * What all members must agree on (which rows still run, when to stop) each works out from the same
 * data, but for the attention word, which member 0 alone reads and shares before a barrier.
 * Cost of a step beside the ops: some ten nanoseconds a row and member, one or two barriers. */
#include "cells/cpu/run.h"

#include "base/assert.h"
#include "base/cpus.h"
#include "base/mem.h"
#include "cells/cpu/ahead.h"
#include "cells/cpu/apart.h"
#include "cells/cpu/beam.h"
#include "cells/cpu/beside.h"
#include "cells/cpu/places.h"
#include "cells/cpu/taking.h"
#include "cells/cpu/view.h"

#include <stdatomic.h>
#include <string.h>

/* Below this many operations a step, about a microsecond of one core, a second member may cost
 * more at the barriers than it saves. Zen 4, time of one member over that of two, which share an L3
 * (a word there and back: 105 ns; where it takes 500, a step of two is 0.3 us longer): LSTM of 64
 * units, 1 row 1.25 to 1.38 (0.67 to 1.0 on a disturbed host with 500 ns), 2 rows 1.30, 4 rows
 * 1.50; GRU of 64 units, 1 row 1.15, 2 rows 1.25, 4 rows 1.40. Cascade Lake, one core 1.6 times as
 * slow as the other much of the time: LSTM of 64 units, 1 row 0.86 to 1.17, 2 rows 0.85, 3 rows
 * 0.86, 4 rows 1.14 to 1.17; 96 units, 1 row 1.06; 128 units, 1 row 1.32; GRU of 64 units, 1 row
 * 0.71; 96 units, 1 row 1.13. */
#define SOLO_FLOPS 100000u

/* A row alone, whose sums over x the others make (apart.h): one member may have more to do, but
 * reads all weights of h. Zen 4, two members, which share an L3, time of a shared step over that
 * of one so: LSTM of 64 inputs and units in fp32 1.39, bf16 1.35, int8 1.27; 96 (144 KiB in
 * fp32) 0.94, 1.02, 1.12; 128 0.85, 0.88, 0.94; GRU, fp32, 64 1.34, 96 0.91, 128 0.87. */
#define HELPED_BYTES 100000u

/* Whoever makes a piece of them reads all weights of x: so many bytes at most where L3 is near,
 * else half of an L2. Of wide inputs a piece is long beside the steps between, and what a run's
 * first and last ones leave undone counts in short runs. Zen 5, two members, which share an L3
 * (and, behind the slash, which share none), ms of a run of 10, 24, 50 and 100 steps shared out and
 * helped: LSTM of 1024 inputs and 64 units 0.0140 and 0.0153, 0.0326 and 0.0360, 0.0671 and 0.0678,
 * 0.130 and 0.128 / 0.0225 and 0.0185, 0.0483 and 0.0383, 100 steps 0.189 and 0.135; GRU of these
 * 0.0112 and 0.0114, 0.0254 and 0.0267, 0.0525 and 0.0493, 0.101 and 0.095 / 0.0190 and 0.0141,
 * 0.0397 and 0.0290, 100 steps 0.156 and 0.102; LSTM of 512 and 64 100 steps 0.081 and 0.073 /
 * 0.139 and 0.085; of 512 and 32 0.050 and 0.034 / 0.109 and 0.044; of 2048 and 64 (2 MiB) 10 to
 * 100 steps 0.95 to 1.08 times as fast, of 4096 0.69 to 1.03. */
#define HELPED_AHEAD_BYTES ((uint64_t)2 << 20)

/* Less than this in a whole run, some 20 us, is not worth waking others. */
#define WAKE_FLOPS 2000000u

/* ---- References ----------------------------------------------------------------------------- */

static void resolve_input(const struct cell_view *view, uint32_t input, uint8_t **pointers)
{
    for (uint32_t r = 0; r < view->n_rows; r++) {
        pointers[r] =
            cell_place_input(view->program, view->run->stores, cell_view_row(view, r)->wiring,
                             input, cell_view_step(view, r));
    }
}

/* State `state` as after `later` more steps than were done before this one. */
static void resolve_state(const struct cell_view *view, uint32_t state, uint32_t later,
                          uint8_t **pointers)
{
    const struct cell_rows *slots = &view->run->stores[view->program->type->state_layout];
    for (uint32_t r = 0; r < view->n_rows; r++) {
        const struct cell_batch_row *row = cell_view_row(view, r);
        pointers[r] =
            cell_rows_part(slots, row->wiring->state, state, row->first_step + view->step + later);
    }
}

/* Behind a step of the same rows: it has written what is read now, and the other way round where a
 * state is held twice. */
static void turn_state(const struct cell_view *view, uint32_t state)
{
    const struct cell_program *program = view->program;
    uint8_t **now = view->space->rows[program->type->def.n_inputs + state];
    uint8_t **next = view->space->rows[program->next_value[state]];
    for (uint32_t r = 0; r < view->n_rows; r++) {
        uint8_t *written = next[r];
        next[r] = now[r];
        now[r] = written;
    }
}

void cell_view_resolve_inputs(const struct cell_view *view)
{
    for (uint32_t i = 0; i < view->program->type->def.n_inputs; i++) {
        if (view->program->values[i].place == CELL_PLACE_INPUT) {
            resolve_input(view, i, view->space->rows[i]);
        }
    }
}

/* Outputs of a type without states: rows that go to value rows are computed there. */
static void resolve_outputs(const struct cell_view *view)
{
    const struct cell_program *program = view->program;
    const struct cell_type *type = program->type;
    for (uint32_t o = 0; o < type->def.n_outputs && type->def.n_states == 0; o++) {
        const struct cell_program_value *value = &program->values[type->def.outputs[o]];
        if (value->place != CELL_PLACE_OUT || value->index != o) {
            continue;
        }
        uint8_t **rows = view->space->rows[type->def.outputs[o]];
        for (uint32_t r = 0; r < view->n_rows; r++) {
            uint8_t *to =
                cell_place_output(program, view->run->stores, cell_view_row(view, r)->wiring, o,
                                  cell_view_step(view, r));
            rows[r] = to == NULL ? view->space->outs[o][r] : to;
        }
    }
}

static void resolve(const struct cell_view *view)
{
    const struct cell_program *program = view->program;
    const struct cell_def *def = &program->type->def;
    cell_view_resolve_inputs(view);
    resolve_outputs(view);
    for (uint32_t s = 0; s < def->n_states; s++) {
        if (view->goes_on) {
            turn_state(view, s);
        } else {
            resolve_state(view, s, 0, view->space->rows[def->n_inputs + s]);
            resolve_state(view, s, 1, view->space->rows[program->next_value[s]]);
        }
    }
    if (view->is_ahead) {
        cell_windows_resolve(view);
        return;
    }
    for (uint32_t k = 0; k < program->n_kept; k++) {
        memcpy(view->space->rows[program->kept[k].value], view->space->kept[k],
               view->n_rows * sizeof(uint8_t *));
    }
}

/* ---- Ops ------------------------------------------------------------------------------------ */

/* A barrier stands even where its op is left out: others count on it. */
static void run_ops(const struct cell_view *view)
{
    for (uint32_t o = 0; o < view->program->n_ops; o++) {
        const struct cell_program_op *op = &view->program->ops[o];
        if (op->barrier_before) {
            cell_view_barrier(view);
        }
        if (!(view->is_ahead && op->is_only_ahead)) {
            cell_view_run_op(view, op);
        }
    }
}

/* ---- Emits and first states ----------------------------------------------------------------- */

/* Part number `part` of `parts`, cut between cache lines. */
static void emit(const struct cell_view *view, uint32_t r, const struct cell_emit *emit,
                 uint32_t part, uint32_t parts)
{
    const struct cell_program *program = view->program;
    const struct cell_type *type = program->type;
    bool is_state = emit->what == CELL_EMIT_STATE;
    base_assert(emit->index < (is_state ? type->def.n_states : type->def.n_outputs));
    uint32_t value = is_state ? program->next_value[emit->index] : type->def.outputs[emit->index];
    uint32_t layout =
        is_state ? type->state_layouts[emit->index] : type->output_layouts[emit->index];
    struct cell_value shape = program->values[value].shape;
    uint8_t *to = cell_place(view->run->stores, &emit->to, layout, cell_view_step(view, r));
    const size_t bytes = (size_t)shape.width * cell_dtype_bytes(shape.dtype);
    const size_t first = bytes * part / parts / BASE_CACHE_LINE * BASE_CACHE_LINE;
    const size_t end =
        part + 1 == parts ? bytes : bytes * (part + 1) / parts / BASE_CACHE_LINE * BASE_CACHE_LINE;
    if (to != view->space->rows[value][r]) {
        memcpy(to + first, view->space->rows[value][r] + first, end - first);
    }
}

/* The emits of this member's share of the rows, which it may have computed itself without a barrier
 * behind it. Behind panels, and of few rows, its part of each: most of that it has computed itself,
 * and what another has written is a cache miss away, in every step. */
static void run_emits(const struct cell_view *view)
{
    const uint32_t members = view->run->members;
    const bool in_parts = view->program->ends_on_panels && view->n_rows < members;
    const uint32_t part = in_parts ? view->member : 0;
    uint32_t first = 0;
    uint32_t end = view->n_rows;
    if (!in_parts) {
        cell_view_share(view, view->n_rows, &first, &end);
    }
    for (uint32_t r = first; r < end; r++) {
        const struct cell_batch_row *row = cell_view_row(view, r);
        const uint32_t step = cell_view_step(view, r);
        for (uint32_t e = 0; e < row->wiring->n_emits; e++) {
            if (cell_emit_is_due(&row->wiring->emits[e], step, row->wiring->steps)) {
                emit(view, r, &row->wiring->emits[e], part, in_parts ? members : 1);
            }
        }
    }
}

/* Slots are never trusted: a chain's first step sets every part it will read, to its full width. */
static void init_states(const struct cell_view *view)
{
    const struct cell_type *type = view->program->type;
    const struct cell_run *run = view->run;
    const struct cell_batch *batch = run->batch;
    const struct cell_rows *slots = &run->stores[type->state_layout];
    uint32_t first;
    uint32_t end;
    cell_view_share(view, run->row_end - run->row_first, &first, &end);
    for (uint32_t r = run->row_first + first; r < run->row_first + end; r++) {
        const struct cell_wiring *wiring = batch->rows[r].wiring;
        for (uint32_t s = 0; s < type->def.n_states && batch->rows[r].first_step == 0; s++) {
            uint8_t *to = cell_rows_part(slots, wiring->state, s, 0);
            memset(to, 0, slots->part_bytes[s] * (slots->layout.twice[s] ? 2 : 1));
            if (wiring->init[s].kind != CELL_REF_ZERO) {
                memcpy(to,
                       cell_place(view->run->stores, &wiring->init[s], type->state_layouts[s], 0),
                       cell_rows_value_bytes(slots, s));
            }
        }
    }
}

/* ---- Steps ---------------------------------------------------------------------------------- */

/* A state that is held once is emitted before the last step: the next one must wait for the emits.
 */
static bool emits_in_place(const struct cell_def *def, const struct cell_wiring *wiring)
{
    for (uint32_t e = 0; e < wiring->n_emits; e++) {
        const struct cell_emit *emit = &wiring->emits[e];
        if (emit->what == CELL_EMIT_STATE && emit->when != CELL_EMIT_LAST &&
            cell_state_in_place(def, emit->index)) {
            return true;
        }
    }
    return false;
}

/* Rows whose wirings are on their way while one is looked at. */
#define FETCHED 8u

/* Wirings were written by the thread that unfolded the request: first one of them is asked for,
 * then what it points to. */
static void fetch_wirings(const struct cell_run *run, uint32_t row)
{
    const struct cell_batch *batch = run->batch;
    const uint32_t n_inputs = batch->type->def.n_inputs;
    if (row + FETCHED < run->row_end) { // another member's may have ended and be gone
        const struct cell_wiring *wiring = batch->rows[row + FETCHED].wiring;
        __builtin_prefetch(wiring);
        __builtin_prefetch(&wiring->emits);
    }
    if (row + FETCHED / 2 >= run->row_end) {
        return;
    }
    const struct cell_wiring *wiring = batch->rows[row + FETCHED / 2].wiring;
    if (n_inputs > 0) {
        __builtin_prefetch(wiring->inputs);
        __builtin_prefetch(&wiring->inputs[n_inputs - 1]);
    }
    if (wiring->n_emits > 0) {
        __builtin_prefetch(wiring->emits);
        __builtin_prefetch(&wiring->emits[wiring->n_emits - 1]);
    }
}

/* What every member must know before the first step, from one look at each row. */
void cell_run_start(struct cell_view *view)
{
    const struct cell_batch *batch = view->run->batch;
    const struct cell_def *def = &view->program->type->def;
    bool is_fresh = false;
    view->settles = view->program->settles;
    for (uint32_t r = view->run->row_first; r < view->run->row_end; r++) {
        const struct cell_batch_row *row = &batch->rows[r];
        fetch_wirings(view->run, r);
        is_fresh |= row->first_step == 0;
        view->settles |= emits_in_place(def, row->wiring);
        view->has_ends |= row->wiring->end != NULL || row->wiring->beam != NULL;
        view->has_beams |= row->wiring->beam != NULL;
        view->space->steps[r] = row->steps;
    }
    if (is_fresh && def->n_states > 0) {
        init_states(view);
        cell_view_barrier(view);
    }
}

/* All cells of the rows' spans. */
static uint32_t select_spans(const struct cell_view *view)
{
    uint32_t n = 0;
    for (uint32_t r = view->run->row_first; r < view->run->row_end; r++) {
        for (uint32_t k = 0; k < view->space->steps[r]; k++) {
            view->space->offsets[n] = k;
            view->space->active[n++] = r;
        }
    }
    return n;
}

/* Drops the rows that have no step left. Returns the number that have; *until is the first step
 * at which that may change again. */
static uint32_t select_active(const struct cell_view *view, uint32_t *until)
{
    uint32_t n = 0;
    *until = UINT32_MAX;
    if (cell_batch_has_spans(view->run->batch)) {
        return select_spans(view);
    }
    for (uint32_t r = view->run->row_first; r < view->run->row_end; r++) {
        uint32_t steps = view->space->steps[r];
        if (steps > view->step) {
            view->space->active[n++] = r;
            *until = steps < *until ? steps : *until;
        }
    }
    return n;
}

static bool is_at_end(const struct cell_view *view, uint32_t r)
{
    const struct cell_wiring *wiring = cell_view_row(view, r)->wiring;
    if (wiring->end == NULL) {
        return wiring->beam != NULL && wiring->beam->is_done;
    }
    const uint32_t value = view->program->next_value[wiring->end->state];
    const enum cell_dtype dtype = view->program->values[value].shape.dtype;
    return cell_integer_at(dtype, view->space->rows[value][r]) == wiring->end->id;
}

/* Rows whose end has come take no further step. Each member finds that out by itself from the
 * states that this step made: there is a barrier between their writers and here, and another before
 * the next but one step overwrites them. */
static void find_ends(struct cell_view *view)
{
    for (uint32_t r = 0; r < view->n_rows; r++) {
        if (is_at_end(view, r)) {
            view->space->steps[view->rows[r]] = view->step + 1;
            view->have_ended = true;
            if (view->member == 0) {
                view->run->batch->rows[view->rows[r]].has_ended = true;
            }
        }
    }
}

/* Rows that the last step has ended leave the batch, which goes on. No member may still read their
 * wiring, or write what they emit. */
static void let_go(const struct cell_view *view)
{
    struct cell_batch *batch = view->run->batch;
    if (view->run->apart != NULL) {
        cell_apart_let_go(view);
        return;
    }
    cell_view_barrier(view);
    uint32_t lanes = 1;
    for (uint32_t r = 0; view->member == 0 && r < batch->n_rows; r += lanes) {
        lanes = 1;
        if (!batch->rows[r].has_ended || view->space->steps[r] != view->step + 1) {
            continue;
        }
        const struct cell_beam *beam = batch->rows[r].wiring->beam;
        lanes = beam == NULL ? 1 : beam->width;
        for (uint32_t lane = 0; lane < lanes; lane++) {
            batch->rows[r + lane].steps_done = view->step + 1;
        }
        batch->row_ended(batch, r, batch->row_ended_context); // wiring and beam may be gone now
    }
}

static void share_attention(const struct cell_view *view)
{
    const struct cell_batch *batch = view->run->batch;
    if (view->member == 0) {
        const uint32_t done = view->step + 1;
        // Relaxed: the word only says "come back soon"; what it is about crosses by message.
        view->run->stop[view->step & 1] =
            batch->interruptible && done >= batch->steps_min &&
            (atomic_load_explicit(batch->attention, memory_order_relaxed) != 0 ||
             (view->run->beside != NULL && cell_beside_is_over(view->run, done)));
    }
}

/* Rows of the next block, of `left`: all lanes of a beam stand in one. */
static uint32_t block_of(const struct cell_view *view, uint32_t left)
{
    uint32_t n = left < view->program->block_rows ? left : view->program->block_rows;
    while (view->has_beams && n < left && cell_view_row(view, n)->wiring->lane > 0) {
        n--;
    }
    base_assert(n > 0);
    return n;
}

static void run_step(struct cell_view *view, uint32_t n_active)
{
    base_assert(!view->is_ahead || n_active <= view->program->block_rows);
    for (uint32_t first = 0; first < n_active;) {
        uint32_t left = n_active - first;
        view->rows = view->space->active + first;
        view->offsets =
            cell_batch_has_spans(view->run->batch) ? view->space->offsets + first : NULL;
        view->n_rows = block_of(view, left);
        resolve(view);
        run_ops(view);
        if (left == view->n_rows) {
            share_attention(view);
        }
        if (view->program->ends_on_panels) {
            cell_view_barrier(view);
        }
        run_emits(view);
        if (view->settles) {
            cell_view_barrier(view);
        }
        if (view->has_beams) {
            cell_beam_advance(view);
        }
        if (view->has_ends) {
            find_ends(view);
        }
        first += view->n_rows;
    }
}

uint32_t cell_run_select(const struct cell_view *view)
{
    uint32_t until = 0;
    return select_active(view, &until);
}

void cell_run_cells(struct cell_view *view, uint32_t first, uint32_t n)
{
    base_assert(view->run->members == 1 && n <= view->program->block_rows && !view->has_beams);
    view->rows = view->space->active + first;
    view->offsets = cell_batch_has_spans(view->run->batch) ? view->space->offsets + first : NULL;
    view->n_rows = n;
    resolve(view);
    run_ops(view);
    run_emits(view);
}

/* A batch whose places were found when it was submitted: one step of all cells. No member looks at
 * rows or wirings, which another core has just written; but ATTEND, REDUCE and PICK do, for
 * their many rows. */
static void run_placed(struct cell_view *view)
{
    const struct cell_program *program = view->program;
    const struct cell_def *def = &program->type->def;
    const struct cell_places *places = view->run->places;
    const uint32_t n_cells = places->n_cells;
    view->rows = places->rows;
    view->n_rows = n_cells;
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        if (places->inputs[i] != NULL) {
            memcpy(view->space->rows[i], places->inputs[i], n_cells * sizeof(uint8_t *));
        }
    }
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        if (places->outs[o] != NULL) {
            memcpy(view->space->rows[def->outputs[o]], places->outs[o],
                   n_cells * sizeof(uint8_t *));
        }
    }
    run_ops(view);
    if (program->ends_on_panels) {
        cell_view_barrier(view);
    }
    uint32_t first;
    uint32_t end;
    cell_view_share(view, n_cells, &first, &end); // as ops by rows are, behind which no barrier is
    for (uint32_t c = 0; c < places->n_copies; c++) {
        const struct cell_copy *copy = &places->copies[c];
        if (copy->cell < first || copy->cell >= end) {
            continue;
        }
        const struct cell_value shape = program->values[copy->value].shape;
        memcpy(copy->to, view->space->rows[copy->value][copy->cell],
               (size_t)shape.width * cell_dtype_bytes(shape.dtype));
    }
    view->step = 1;
}

void cell_run_steps(struct cell_view *view)
{
    const struct cell_run *run = view->run;
    uint32_t n_active = 0;
    uint32_t until = 0;
    bool is_stopped = false;
    while (view->step < run->batch->steps && !is_stopped) {
        bool is_changed = view->step >= until || view->have_ended;
        if (is_changed) {
            n_active = select_active(view, &until);
            view->have_ended = false;
        }
        if (n_active == 0 || (run->batch->follows && !cell_beside_await(view, view->step + 1))) {
            break;
        }
        if (is_changed || view->step >= view->ahead_until) {
            view->rows = view->space->active;
            view->n_rows = n_active;
            cell_windows_fill(view);
        }
        view->goes_on = !is_changed && n_active <= view->program->block_rows && !view->has_beams;
        run_step(view, n_active);
        if (run->beside != NULL) {
            cell_beside_tell(view);
        }
        is_stopped = run->stop[view->step & 1] != 0;
        if (view->have_ended && run->batch->row_ended != NULL) {
            let_go(view);
        } else if (view->have_ended) {
            is_stopped |= run->batch->interruptible;
        }
        view->step++;
        if (run->apart != NULL && !is_stopped && cell_apart_turn(view, n_active)) {
            until = view->step;
        }
    }
}

void cell_run_member(struct cell_run *run, struct cell_team *team, uint32_t member)
{
    if (run->apart != NULL) {
        cell_apart_run(run, team, member);
        return;
    }
    if (run->taking != NULL) {
        cell_taking_run(run, team, member);
        if (member == 0) {
            run->batch->steps_done = 1;
        }
        return;
    }
    struct cell_view view = {.run = run,
                             .program = run->program,
                             .team = team,
                             .space = &run->spaces[member],
                             .member = member};
    if (run->places != NULL) {
        run_placed(&view);
    } else {
        cell_run_start(&view);
        cell_run_steps(&view);
    }
    if (member == 0) {
        run->batch->steps_done = view.step;
    }
}

static void run_member(void *argument, struct cell_team *team, uint32_t member)
{
    cell_run_member(argument, team, member);
}

/* Of h, and whatever else each step reads where sums over x stand in windows. */
static uint64_t step_bytes(const struct cell_program *program)
{
    uint64_t bytes = cell_program_held_bytes(program);
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        if (op->has_window) {
            bytes -= (uint64_t)op->gated.inputs * op->gated.hidden *
                     cell_gated_gates(op->gated.kind) * cell_precision_bytes(op->gated.precision);
        } else if (op->is_only_ahead && op->kind == CELL_OP_LINEAR) {
            bytes -= (uint64_t)op->linear.inputs * op->linear.outputs *
                     cell_precision_bytes(op->linear.precision);
        }
    }
    return bytes;
}

static uint32_t choose_solo_rows(const struct cell_program *program)
{
    const uint64_t flops = program->type->flops + (program->type->flops == 0 ? 1 : 0);
    const uint64_t bytes = step_bytes(program);
    const bool is_helped =
        program->apart != NULL && program->windows != NULL &&
        flops - program->window_flops < SOLO_FLOPS && bytes < HELPED_BYTES &&
        cell_program_held_bytes(program) - bytes <=
            (base_cpus_l3_is_near() ? HELPED_AHEAD_BYTES : base_cpus_l2_bytes() / 2);
    const uint32_t rows = (uint32_t)((SOLO_FLOPS - 1) / flops);
    return rows == 0 && is_helped ? 1 : rows;
}

void cell_run_tune(struct cell_program *program, const struct cell_tuning *tuning)
{
    program->solo_rows = tuning != NULL ? tuning->solo_rows : choose_solo_rows(program);
    program->apart_rows = tuning != NULL ? tuning->apart_rows : cell_apart_rows(program);
    program->beside_rows = tuning != NULL ? tuning->beside_rows : cell_beside_rows(program);
    program->follow_rows = tuning != NULL ? tuning->follow_rows : cell_beside_follow_rows(program);
    if (program->apart == NULL) {
        program->apart_rows = 0;
    }
}

/* How the batch is shared out: to one member, in rows, or each step of it. */
static void share_out(struct cell_run *run, uint32_t queue)
{
    const struct cell_program *program = run->program;
    const struct cell_batch *batch = run->batch;
    const bool is_solo = run->n_cells <= program->solo_rows;
    const bool is_helped = batch->n_rows == 1 && is_solo && program->apart != NULL &&
                           program->windows != NULL && program->ahead_rows > 0;
    const bool is_apart = program->apart != NULL && program->apart_rows > 0 &&
                          batch->n_rows >= program->apart_rows &&
                          cell_apart_suits(batch, run->members);
    // What others could do of it.
    const uint64_t flops = batch->steps * (is_helped ? program->window_flops
                                                     : batch->n_rows * program->type->flops / 2);
    if (run->members > 1 && (is_apart || is_helped) && (!is_solo || flops >= WAKE_FLOPS / 2)) {
        run->apart = program->apart[queue];
        cell_apart_begin(run->apart, run->batch, run->members);
    } else if (is_solo) {
        run->members = 1;
    } else {
        (void)cell_taking_begin(run, queue);
    }
}

void cell_run_prepare(struct cell_run *run, struct cell_program *program,
                      const struct cell_rows *stores, uint32_t queue, uint32_t members,
                      const struct cell_submitted *submitted)
{
    struct cell_batch *batch = submitted->batch;
    base_assert(batch->n_rows > 0 && batch->n_rows <= CELL_BATCH_ROWS_MAX && batch->steps > 0);
    const bool must_count = submitted->places == NULL && cell_batch_has_spans(batch);
    uint32_t n_cells = submitted->places != NULL ? submitted->places->n_cells
                       : must_count              ? 0
                                                 : batch->n_rows;
    for (uint32_t r = 0; r < batch->n_rows && must_count; r++) {
        n_cells += batch->rows[r].steps;
    }
    base_assert(n_cells <= CELL_BATCH_ROWS_MAX);
    *run = (struct cell_run){.program = program,
                             .stores = stores,
                             .batch = batch,
                             .places = submitted->places,
                             .n_rows = batch->n_rows,
                             .n_cells = n_cells,
                             .row_end = batch->n_rows,
                             .spaces = program->spaces[queue],
                             .windows = program->windows == NULL ? NULL : program->windows[queue],
                             .members = members,
                             .by_rows = program->type->def.n_states == 0,
                             .turn = program->spaces[queue][0].turn};
}

void cell_run_begin(struct cell_run *run, struct cell_program *program,
                    const struct cell_rows *stores, uint32_t queue, struct cell_team *team,
                    const struct cell_submitted *submitted)
{
    cell_run_prepare(run, program, stores, queue, program->n_members[queue], submitted);
    run->team = team;
    share_out(run, queue);
    if (run->members > 1) {
        team->start(team, run_member, run);
    }
}

static void note_steps(const struct cell_run *run)
{
    struct cell_batch *batch = run->batch;
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        struct cell_batch_row *row = &batch->rows[r];
        const uint32_t steps = run->spaces[0].steps[r];
        row->steps_done = cell_batch_has_spans(batch) ? row->steps
                          : steps < batch->steps_done ? steps
                                                      : batch->steps_done;
    }
}

void cell_run_note(const struct cell_run *run)
{
    if (run->apart != NULL) {
        cell_apart_end(run);
    } else {
        note_steps(run);
        run->spaces[0].turn += run->batch->steps_done;
    }
    run->batch->status = BASE_OK;
}

void cell_run_end(struct cell_run *run)
{
    if (run->members > 1) {
        run->team->finish(run->team);
    } else {
        cell_run_member(run, run->team, 0);
    }
    cell_run_note(run);
}
