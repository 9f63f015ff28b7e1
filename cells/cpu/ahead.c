/* See ahead.h. Windows are found by the number of the chain, which is never used twice, so what
 * a dead chain has left is never taken for another's. Member 0 chooses and notes, all compute.
 *
 * Help: where members have no rows, the sums of a single row's next steps are made in pieces, each
 * by who is free: the member that runs the row, while it waits for one, or a helper. The row's
 * window is a ring then: a piece may be begun as soon as the steps whose place it takes are done.
 *
 * Cost: a look at CELL_WINDOWS numbers a row when the rows of a batch change, a pointer a row and
 * step; a fill lasts as long as some steps, in which nobody joins: FILL_FLOPS bounds it, for each
 * row that fills. */
#include "cells/cpu/ahead.h"

#include "base/assert.h"
#include "base/cpus.h"
#include "cells/cpu/beside.h"
#include "cells/cpu/panels.h"

#include <stdatomic.h>
#include <string.h>

/* What one row's fill computes at most, some tenths of a millisecond of a core, unless that is less
 * than STEPS_MIN. */
#define FILL_FLOPS ((uint64_t)50 << 20)

/* But where weights come from memory, reading them takes longer than some rows' multiply-adds, and
 * the fewer fills the better: a fill computes so many steps of all rows together, as far as the
 * windows reach, also where one row alone has joined. Cascade Lake, one thread, LSTM of 1024 inputs
 * and units, 1 row, 100 steps, with 8 steps for each row and so: 96.4 and 83.9 ms, best of three
 * alternated runs. Zen 4, one thread, a fill of a GRU of 1024 inputs and units, us a step filled:
 * 1 row 388, 4 rows 135, 8 rows 80, 14 rows 67, 24 to 80 rows 60. */
#define FILL_ROW_STEPS 80u

/* Who joins has W read for its own steps, often few: where its weights come from far, so many take
 * as long as they need to come. Windows of others are filled up to that, so that W is read less
 * often for them alone. Cascade Lake, one thread, what a step costs more where rows stay 24 steps
 * in the mean than of whole sequences, us (medians of 9 runs by turns), without, filled up to 24
 * and to 80 steps: 1024 inputs and units, LSTM, 10 rows (2,800 a step) 409, 277, 351, 20 rows 581,
 * 460, 497; GRU 298, 219, 223 and 415, 301, 286. Likewise, to 24 and to 120 steps: 512, 10 rows,
 * LSTM (680) 143, 36, 45, GRU 54, 11, 19; 256 9, 5, 6 and 14, 7, 5; two threads, 512, without and
 * to 24, 29 and 14, 20 and 9. Of 64 and 128, in L2, 3 rows: 1.02 and 1.06 times whole sequences,
 * 0.99 and 1.00. */
#define TOP_UP_STEPS 24u

/* Steps of a window: enough rows for a product near its peak. The windows of a batch share L2 with
 * the weights of h: more steps than the fewest only while they take half of it. Not so where
 * weights come from memory: each fill reads W from there and drives R out of L3. Zen 3 (an L2 of
 * 512 KiB, an L3 of 32 MiB), LSTM of 1024 inputs and units, 100 steps, medians in ms by turns, with
 * half of L2 and with all the room: one thread, 1 row 89.6 and 71.8, 2 rows 112 and 85, 4 rows 168
 * and 129; two threads 33.3 and 28.2, 44.8 and 37.0, 91 and 68; GRU, 1 row 44.3 and 36.7, 17.9
 * and 19.0. Windows of 80 and 112 steps are within 3 % of these. */
#define STEPS_MAX 36u
#define STEPS_MIN 8u

/* Windows save weights from being read, which is what few rows wait for; many wait for the
 * multiply-adds, which are the same. How many are few depends on where the weights are. Cascade
 * Lake, one thread, ms without and with windows: 256 inputs and units (2 MiB, an L2 of 1), 96
 * steps: 1 row 5.8 and 2.4, 10 rows 9.8 and 8.9, 20 rows 17.6 and 17.7; 512 (8 MiB), 48 steps, 10
 * rows: 20.9 and 19.4; 64 (in L2), 10 rows: 0.73 and 0.79; 1024 (from memory), 32 steps: 20 rows
 * 136 and 126. us a step by `cellbatch-bench calibrate`: 128 (in half of L2) 2 rows 11.1 and 10.4,
 * 4 rows 16.2 and 16.9, 6 rows 22.1 and 24.8; 256 with two threads (1 MiB each) 4 rows 31.4
 * and 27.4, 6 rows 33.3 and 35.3; GRUs likewise.
 *
 * Where L3 is near, W of some times L2 is read as fast as few rows are multiplied. Zen 4, two
 * threads, us: 256 inputs and units 2 rows 14.3 and 13.1, 4 rows 21.5 and 23.4, 10 rows 54.0
 * and 59.0; 512 4 rows 87 and 85, 10 rows 210 and 209; one thread 256 2 rows 26.9 and 24.4, 4
 * rows 41.8 and 44.6, 10 rows 101 and 108; 512 4 rows 227 and 175, 10 rows 546 and 449. Zen 3
 * (an L2 of 512 KiB), one thread, ms: 512, 20 steps, 8 rows 9.57 and 8.67. All of these were taken
 * before a window's lines were asked for ahead of being written. With that, the same Zen 3 whose
 * cores others use too, ms for 100 steps of 256 inputs and units, one thread: 4 rows 8.15 and 7.38,
 * 6 rows 9.94 and 9.63, 8 rows 13.7 and 13.5, 12 rows 18.5 and 19.0; two: 4.73 and 4.08, 6.20
 * and 5.81, 8.18 and 7.54, 10.2 and 10.3; GRU, one thread, 6 rows 9.16 and 8.61, 10 rows 12.6
 * and 12.7. */
#define AHEAD_ROWS_OF_HALF   3u
#define AHEAD_ROWS           4u
#define AHEAD_ROWS_NEAR      6u
#define AHEAD_ROWS_OF_L3     12u
#define AHEAD_ROWS_OF_MEMORY 24u
#define NEAR_L2S             4u

/* Weights from here on are not all found in a shared L3 at the next step. */
#define MEMORY_BYTES ((uint64_t)12 << 20)

/* Where the sums are of what another run makes at the same time, as many steps are waited for: a
 * product of fewer rows takes longer for each, and the wait is lost. Zen 4, two layers of 64 units,
 * one request of 100 steps: LSTM 6,234 requests a second with 6, 5,833 with 8, 5,720 with 12; GRU
 * 7,740, 7,787, 7,425 (medians of 4 and 5 runs by turns). */
#define FOLLOWED_STEPS 6u

/* Between the steps of a window, and between windows: without it those of one step would share few
 * sets of the caches with each other, with 1024 columns even the same ones. */
#define PAD_FLOATS 64u

/* Members that run rows alone have windows of their own where those take no more than this: of
 * larger cells they have so many rows each that none are used. */
#define ALONE_BYTES_MAX ((size_t)4 << 20)

struct window {
    uint64_t chain;      /* 0: free, or only this batch's */
    uint32_t first, end; /* steps of the chain that it holds */
    uint64_t used;       /* the larger, the later */
    float *sums;         /* [step % capacity][window_stride()] */
};

/* Pieces of a ring; half as many where one would be less than a few microseconds of work. */
#define PIECES      6u
#define PIECE_FLOPS 500000u

/* Sums of one row that are made in pieces. Steps are the batch's. */
struct ring {
    _Alignas(BASE_CACHE_LINE) _Atomic bool is_open; /* all but what is atomic stays, once it is */
    uint32_t row;                                   /* of the batch */
    uint32_t first, end;                            /* steps that are made in pieces */
    uint32_t piece_steps;
    uint32_t capacity;                               /* of the window */
    _Alignas(BASE_CACHE_LINE) _Atomic uint32_t next; /* piece that nobody has begun yet */
    _Alignas(BASE_CACHE_LINE) _Atomic uint32_t done; /* steps before it are not read again */
    /* By piece % PIECES: one more than the last that stands there. */
    _Alignas(BASE_CACHE_LINE) _Atomic uint32_t made[PIECES];
};

/* Steps of a row, from `first` on, that its window lacks. */
struct window_fill {
    uint32_t place; /* in view->rows */
    uint32_t first, end;
};

struct cell_windows {
    struct ring ring;
    struct window windows[CELL_WINDOWS];
    uint32_t capacity; /* steps of each */
    bool tops_up;      /* W comes from far */
    uint64_t clock;
    /* Member 0 writes, all read behind a barrier. By place in view->rows. */
    uint32_t window_of[CELL_WINDOWS];
    uint32_t n_fills;
    struct window_fill fills[2 * CELL_WINDOWS]; /* who has none, and then who is topped up */
    uint32_t until;
    uint64_t times_filled;
};

/* ---- Making ---------------------------------------------------------------------------------- */

static bool is_from_memory(const struct cell_program *program)
{
    return cell_program_held_bytes(program) > MEMORY_BYTES;
}

/* Of the weights of h and x, what a member reads at each step. */
static uint64_t member_bytes(const struct cell_program *program)
{
    return cell_program_held_bytes(program) / cell_program_most_members(program);
}

/* Beyond L2, where L3 is not near. */
static bool is_from_far(const struct cell_program *program)
{
    return is_from_memory(program) ||
           (!base_cpus_l3_is_near() && member_bytes(program) > base_cpus_l2_bytes());
}

static uint32_t rows_of(uint64_t bytes)
{
    const uint64_t l2 = base_cpus_l2_bytes();
    if (base_cpus_l3_is_near()) {
        return bytes > NEAR_L2S * l2 ? AHEAD_ROWS_OF_L3
               : bytes > l2          ? AHEAD_ROWS_NEAR
                                     : AHEAD_ROWS_OF_HALF;
    }
    return bytes > l2 ? AHEAD_ROWS_OF_L3 : bytes > l2 / 2 ? AHEAD_ROWS : AHEAD_ROWS_OF_HALF;
}

static uint32_t choose_rows(const struct cell_program *program)
{
    uint32_t rows = is_from_memory(program) ? AHEAD_ROWS_OF_MEMORY : rows_of(member_bytes(program));
    return rows < program->block_rows ? rows : program->block_rows;
}

static uint32_t clamp_steps(uint64_t steps)
{
    return (uint32_t)(steps > STEPS_MAX ? STEPS_MAX : steps < STEPS_MIN ? STEPS_MIN : steps);
}

/* Steps that a window has room for. */
static uint32_t window_steps(const struct cell_program *program)
{
    return is_from_memory(program) ? STEPS_MAX
                                   : clamp_steps(FILL_FLOPS / (program->window_flops + 1));
}

/* Of these, those that are filled for each of n_empty rows in a batch of n_rows. What was chosen
 * stands for what the caches let expect; the bounds of how long a fill takes stay. */
static uint32_t fill_steps(const struct cell_program *program, uint32_t n_rows, uint32_t n_empty)
{
    const bool from_memory = is_from_memory(program);
    const uint64_t bytes = (uint64_t)n_rows * program->window_floats * sizeof(float);
    const uint32_t room =
        from_memory ? clamp_steps(FILL_ROW_STEPS / n_empty) : window_steps(program);
    uint32_t near = room;
    if (program->fill_steps > 0) {
        // of memory's as if all were empty: both times weights are read once
        near = from_memory ? program->fill_steps * n_rows / n_empty : program->fill_steps;
    } else if (!from_memory) {
        near = clamp_steps(program->windows_near_bytes / (bytes + 1));
    }
    return near < room ? near : room;
}

static size_t window_stride(const struct cell_program *program)
{
    return (size_t)program->window_floats + PAD_FLOATS;
}

static size_t window_size(const struct cell_program *program)
{
    return (window_stride(program) * window_steps(program) + PAD_FLOATS) * sizeof(float);
}

static enum base_status make_windows(struct cell_program *program, struct cell_windows **out)
{
    struct cell_windows *windows = base_arena_alloc_aligned64(&program->arena, sizeof(*windows));
    if (windows == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    windows->capacity = window_steps(program);
    windows->tops_up = is_from_far(program);
    for (uint32_t w = 0; w < CELL_WINDOWS; w++) {
        windows->windows[w].sums =
            base_arena_alloc_aligned64(&program->arena, window_size(program));
        if (windows->windows[w].sums == NULL) {
            return BASE_RESOURCE_EXHAUSTED;
        }
    }
    *out = windows;
    return BASE_OK;
}

/* What a member needs to fill windows and to find sums in them. */
static enum base_status make_space(struct cell_program *program, struct cell_space *space)
{
    struct base_arena *arena = &program->arena;
    uint32_t rows = program->block_rows;
    space->fill_rows = base_arena_array(arena, rows, sizeof(space->fill_rows[0]));
    space->fill_offsets = base_arena_array(arena, rows, sizeof(space->fill_offsets[0]));
    space->fill_places = base_arena_array(arena, rows, sizeof(space->fill_places[0]));
    space->ahead_out = base_arena_array(arena, rows, sizeof(space->ahead_out[0]));
    if (space->fill_rows == NULL || space->fill_offsets == NULL || space->fill_places == NULL ||
        space->ahead_out == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (uint32_t w = 0; w < program->n_windowed; w++) {
        space->ahead[w] = base_arena_array(arena, CELL_WINDOWS, sizeof(space->ahead[w][0]));
        if (space->ahead[w] == NULL) {
            return BASE_RESOURCE_EXHAUSTED;
        }
    }
    return BASE_OK;
}

/* Member 0 works alone with what it works with in the team. */
static enum base_status make_alone(struct cell_program *program, uint32_t queue)
{
    if (program->apart == NULL) {
        return BASE_OK;
    }
    struct cell_apart *apart = program->apart[queue];
    struct cell_alone *alone = apart->alone;
    alone[0].windows = program->windows[queue]; // of any size: a row alone is helped in them
    apart->all_have_windows = CELL_WINDOWS * window_size(program) <= ALONE_BYTES_MAX;
    for (uint32_t m = 1; m < program->n_members[queue]; m++) {
        BASE_TRY(make_space(program, alone[m].space));
        if (apart->all_have_windows) {
            BASE_TRY(make_windows(program, &alone[m].windows));
        }
    }
    return BASE_OK;
}

enum base_status cell_windows_create(struct cell_program *program)
{
    program->ahead_rows = choose_rows(program);
    program->windows_near_bytes = base_cpus_l2_bytes() / 2 * cell_program_most_members(program);
    program->windows =
        base_arena_array(&program->arena, program->n_queues, sizeof(struct cell_windows *));
    if (program->windows == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (uint32_t q = 0; q < program->n_queues; q++) {
        for (uint32_t m = 0; m < program->n_members[q]; m++) {
            BASE_TRY(make_space(program, &program->spaces[q][m]));
        }
        BASE_TRY(make_windows(program, &program->windows[q]));
        BASE_TRY(make_alone(program, q));
    }
    return BASE_OK;
}

void cell_windows_tune(struct cell_program *program, const struct cell_tuning *tuning)
{
    uint32_t most = CELL_WINDOWS < program->block_rows ? CELL_WINDOWS : program->block_rows;
    program->ahead_rows = choose_rows(program);
    program->fill_steps = 0;
    if (tuning != NULL) {
        program->ahead_rows = tuning->ahead_rows < most ? tuning->ahead_rows : most;
        program->fill_steps = tuning->fill_steps;
    }
}

/* ---- Which window a row has ----------------------------------------------------------------- */

static bool holds(const struct window *window, const struct cell_wiring *wiring, uint32_t step)
{
    return window->chain == wiring->chain && window->chain != 0 && window->first <= step &&
           step < window->end;
}

/* The window that holds the step, or CELL_WINDOWS. */
static uint32_t find(const struct cell_windows *windows, const struct cell_wiring *wiring,
                     uint32_t step)
{
    uint32_t w = 0;
    while (w < CELL_WINDOWS && !holds(&windows->windows[w], wiring, step)) {
        w++;
    }
    return w;
}

/* The one whose use is the longest ago; those of this batch's rows have just been used. */
static uint32_t oldest(const struct cell_windows *windows)
{
    uint32_t found = 0;
    for (uint32_t w = 1; w < CELL_WINDOWS; w++) {
        found = windows->windows[w].used < windows->windows[found].used ? w : found;
    }
    return found;
}

static void take(struct cell_windows *windows, uint32_t place, uint32_t w)
{
    windows->windows[w].used = ++windows->clock;
    windows->window_of[place] = w;
}

uint64_t cell_windows_count(const struct cell_windows *windows)
{
    return windows->clock;
}

uint64_t cell_windows_times_filled(const struct cell_windows *windows)
{
    return windows->times_filled;
}

/* Of a run that follows another: steps of which sums can be made now. */
static uint32_t await_inputs(struct cell_view *view)
{
    const uint32_t wanted = view->step + FOLLOWED_STEPS;
    const uint32_t most = view->run->batch->steps;
    (void)cell_beside_await(view, wanted < most ? wanted : most); // one is there
    return view->available - view->step;
}

/* Steps that the row's window lacks to reach so many from the row's own on, or the end of its
 * chain.
 */
static uint32_t lack_of(const struct cell_view *view, uint32_t r, uint32_t steps)
{
    const struct cell_windows *windows = view->run->windows;
    const uint32_t held = windows->windows[windows->window_of[r]].end - cell_view_step(view, r);
    const uint32_t left = cell_view_row(view, r)->wiring->steps - cell_view_step(view, r);
    const uint32_t wanted = left < steps ? left : steps;
    return wanted > held ? wanted - held : 0;
}

/* Lets it reach them. Returns how many are to be filled. */
static uint32_t extend(const struct cell_view *view, uint32_t r, uint32_t steps)
{
    struct cell_windows *windows = view->run->windows;
    struct window *window = &windows->windows[windows->window_of[r]];
    const uint32_t lack = lack_of(view, r, steps);
    if (lack > 0) {
        window->first = cell_view_step(view, r); // later ones take the place of what was before
        windows->fills[windows->n_fills++] =
            (struct window_fill){.place = r, .first = window->end, .end = window->end + lack};
        window->end += lack;
    }
    return lack;
}

/* Fills windows up to one level, at most `level_max`, which `most` steps of all rows together
 * reach. */
static void top_up(const struct cell_view *view, uint32_t most, uint32_t level_max)
{
    uint32_t level = 0;
    uint32_t lack = 0;
    while (level <= level_max && lack <= most) {
        level++;
        lack = 0;
        for (uint32_t r = 0; r < view->n_rows; r++) {
            lack += lack_of(view, r, level);
        }
    }
    for (uint32_t r = 0; r < view->n_rows; r++) {
        (void)extend(view, r, level - 1);
    }
}

/* Gives every row a window. First the rows that have one, so that none is taken from them. */
static void choose(struct cell_view *view)
{
    struct cell_windows *windows = view->run->windows;
    uint32_t n_empty = 0;
    bool has[CELL_WINDOWS] = {false};
    windows->n_fills = 0;
    windows->until = UINT32_MAX;
    for (uint32_t r = 0; r < view->n_rows; r++) {
        uint32_t w = find(windows, cell_view_row(view, r)->wiring, cell_view_step(view, r));
        has[r] = w < CELL_WINDOWS;
        if (has[r]) {
            take(windows, r, w);
        }
        n_empty += has[r] ? 0 : 1;
    }
    uint32_t steps = n_empty == 0 ? 0 : fill_steps(view->program, view->n_rows, n_empty);
    if (n_empty > 0 && view->run->batch->follows) {
        const uint32_t ready = await_inputs(view);
        steps = steps < ready ? steps : ready;
    }
    uint32_t n_filled = 0;
    for (uint32_t r = 0; r < view->n_rows; r++) {
        if (!has[r]) {
            const uint32_t w = oldest(windows);
            take(windows, r, w);
            windows->windows[w].chain = cell_view_row(view, r)->wiring->chain;
            windows->windows[w].end = cell_view_step(view, r);
            n_filled += extend(view, r, steps);
        }
    }
    if (windows->tops_up && n_filled > 0 && n_filled < TOP_UP_STEPS && !view->run->batch->follows) {
        // as far as a fill goes: what L2 is to hold it does
        top_up(view, TOP_UP_STEPS - n_filled,
               is_from_memory(view->program) ? windows->capacity : steps);
    }
    windows->times_filled += windows->n_fills > 0 ? 1 : 0;
    for (uint32_t r = 0; r < view->n_rows; r++) {
        uint32_t until =
            windows->windows[windows->window_of[r]].end - cell_view_row(view, r)->first_step;
        windows->until = until < windows->until ? until : windows->until;
    }
}

/* ---- Fill ----------------------------------------------------------------------------------- */

/* A step's float number window_at. */
static float *at(const struct cell_view *view, uint32_t place, uint32_t step, uint32_t window_at)
{
    const struct cell_windows *windows = view->run->windows;
    const struct window *window = &windows->windows[windows->window_of[place]];
    const uint32_t slot = step % windows->capacity;
    return window->sums + slot * window_stride(view->program) + window_at;
}

/* Lets the rows of kept values point into the windows. places: of the chains, by row; NULL: r. */
static void resolve_kept(const struct cell_view *view, const uint32_t *places)
{
    const struct cell_program *program = view->program;
    for (uint32_t k = 0; k < program->n_kept; k++) {
        uint8_t **rows = view->space->rows[program->kept[k].value];
        for (uint32_t r = 0; r < view->n_rows; r++) {
            uint32_t place = places == NULL ? r : places[r];
            rows[r] =
                (uint8_t *)at(view, place, cell_view_step(view, r), program->kept[k].window_at);
        }
    }
}

/* Another core has just written what this run follows: all of it is asked for at once. */
static void fetch_inputs(const struct cell_view *block)
{
    const struct cell_def *def = &block->program->type->def;
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        const size_t bytes = (size_t)def->values[i].width * cell_dtype_bytes(def->values[i].dtype);
        for (uint32_t r = 0;
             r < block->n_rows && block->program->values[i].place == CELL_PLACE_INPUT; r++) {
            for (size_t at = 0; at < bytes; at += BASE_CACHE_LINE) {
                __builtin_prefetch(block->space->rows[i][r] + at);
            }
        }
    }
}

/* What stands in windows, for a block of rows, each a step of a chain. places: of the chains. */
static void compute(const struct cell_view *block, const uint32_t *places)
{
    const struct cell_program *program = block->program;
    cell_view_resolve_inputs(block);
    resolve_kept(block, places);
    if (block->run->batch->follows) {
        fetch_inputs(block);
    }
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        if (op->fills_windows) {
            // Other ops, whose barriers might have stood between, are left out here.
            cell_view_barrier(block);
            cell_view_run_op(block, op);
        }
    }
    cell_view_barrier(block);
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        if (!op->has_window) {
            continue;
        }
        struct cell_gated_ahead ahead = {
            .gated = &op->gated,
            .n_rows = block->n_rows,
            .x = (const float *const *)(void *)block->space->rows[op->in[CELL_GATED_X]],
            .out = block->space->ahead_out,
            .scratch = block->space->scratch};
        for (uint32_t r = 0; r < block->n_rows; r++) {
            block->space->ahead_out[r] =
                at(block, places[r], cell_view_step(block, r), op->window_at);
        }
        const struct cell_gated_ahead whole = ahead;
        struct cell_panels panels;
        cell_panels_begin(&panels, block, NULL, op->gated.panels, block->n_rows,
                          cell_panels_flops(&op->gated, op->gated.inputs, block->n_rows));
        while (cell_panels_next(&panels)) {
            ahead.panel_first = panels.first;
            ahead.panel_end = panels.end;
            ahead.n_rows = panels.row_end - panels.row_first;
            ahead.x = whole.x + panels.row_first;
            ahead.out = whole.out + panels.row_first;
            program->kernels->gated_ahead(&ahead);
        }
    }
    cell_view_barrier(block); // before the next block overwrites what the ops have left
}

/* Collects steps of chains until a block is full. */
static void fill(const struct cell_view *view)
{
    const struct cell_windows *windows = view->run->windows;
    struct cell_space *space = view->space;
    struct cell_view block = *view;
    uint32_t n = 0;
    block.rows = space->fill_rows;
    block.offsets = space->fill_offsets;
    block.is_filling = true;
    for (uint32_t f = 0; f < windows->n_fills; f++) {
        const uint32_t place = windows->fills[f].place;
        const uint32_t now = cell_view_step(view, place);
        for (uint32_t step = windows->fills[f].first; step < windows->fills[f].end; step++) {
            space->fill_rows[n] = view->rows[place];
            space->fill_offsets[n] = step - now;
            space->fill_places[n++] = place;
            if (n == view->program->block_rows) {
                block.n_rows = n;
                compute(&block, space->fill_places);
                n = 0;
            }
        }
    }
    if (n > 0) {
        block.n_rows = n;
        compute(&block, space->fill_places);
    }
}

/* ---- Help ----------------------------------------------------------------------------------- */

static uint32_t piece_end(const struct ring *ring, uint32_t piece)
{
    const uint32_t end = ring->first + (piece + 1) * ring->piece_steps;
    return end < ring->end ? end : ring->end;
}

/* Whether there is such a piece, and room for it. */
static bool may_begin(const struct ring *ring, uint32_t piece)
{
    // Acquire: the sums that stood there have been read.
    return ring->first + piece * ring->piece_steps < ring->end &&
           piece_end(ring, piece) <=
               atomic_load_explicit(&ring->done, memory_order_acquire) + ring->capacity;
}

/* Takes a piece to be made. */
static bool take_piece(struct ring *ring, uint32_t *piece)
{
    *piece = atomic_load_explicit(&ring->next, memory_order_relaxed);
    while (may_begin(ring, *piece)) {
        if (atomic_compare_exchange_weak_explicit(&ring->next, piece, *piece + 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

/* view: of who makes it; its run has the ring's windows. */
static void make_piece(const struct cell_view *view, struct ring *ring, uint32_t piece)
{
    const struct cell_space *space = view->space;
    const uint32_t end = piece_end(ring, piece);
    struct cell_view block = *view;
    block.rows = space->fill_rows;
    block.offsets = space->fill_offsets;
    block.is_filling = true;
    block.n_rows = 0;
    for (uint32_t step = ring->first + piece * ring->piece_steps; step < end; step++) {
        space->fill_rows[block.n_rows] = ring->row;
        space->fill_offsets[block.n_rows] = step - view->step;
        space->fill_places[block.n_rows++] = 0;
    }
    base_assert(block.n_rows <= view->program->block_rows);
    compute(&block, space->fill_places);
    // Release: the sums.
    atomic_store_explicit(&ring->made[piece % PIECES], piece + 1, memory_order_release);
}

static bool is_made(const struct ring *ring, uint32_t piece)
{
    // Acquire: the sums.
    return atomic_load_explicit(&ring->made[piece % PIECES], memory_order_acquire) == piece + 1;
}

/* Steps of a piece, at most `most`: where there are so few pieces that all may stand there at a
 * time, every member can make as many, equally long ones. */
static uint32_t even_piece(uint32_t steps, uint32_t most, uint32_t members)
{
    const uint32_t pieces = ((steps + most - 1) / most + members - 1) / members * members;
    return pieces > 0 && pieces <= PIECES ? (steps + pieces - 1) / pieces : most;
}

/* From the first step on that no window holds yet. */
static void open_ring(struct cell_view *view)
{
    struct cell_windows *windows = view->run->windows;
    struct ring *ring = &windows->ring;
    const struct cell_batch_row *row = cell_view_row(view, 0);
    const uint32_t step = cell_view_step(view, 0);
    uint32_t w = find(windows, row->wiring, step);
    const bool has = w < CELL_WINDOWS;
    w = has ? w : oldest(windows);
    struct window *window = &windows->windows[w];
    take(windows, 0, w);
    window->chain = row->wiring->chain;
    ring->row = view->rows[0];
    ring->first = has ? window->end - row->first_step : view->step;
    ring->end = view->space->steps[ring->row];
    ring->capacity = windows->capacity;
    ring->piece_steps = (ring->capacity + PIECES - 1) / PIECES; // no more stand there at a time
    if (view->program->window_flops * ring->piece_steps < PIECE_FLOPS) {
        ring->piece_steps *= 2;
    }
    ring->piece_steps = even_piece(ring->end - ring->first, ring->piece_steps, view->team->members);
    // Relaxed: is_open publishes them.
    atomic_store_explicit(&ring->next, 0, memory_order_relaxed);
    atomic_store_explicit(&ring->done, view->step, memory_order_relaxed);
    for (uint32_t p = 0; p < PIECES; p++) {
        atomic_store_explicit(&ring->made[p], 0, memory_order_relaxed);
    }
    atomic_store_explicit(&ring->is_open, true, memory_order_release);
    view->ahead_until = ring->first;
}

static bool is_open(const struct ring *ring)
{
    return atomic_load_explicit(&ring->is_open, memory_order_acquire);
}

bool cell_windows_has_work(const struct cell_windows *windows)
{
    const struct ring *ring = &windows->ring;
    return is_open(ring) &&
           may_begin(ring, atomic_load_explicit(&ring->next, memory_order_relaxed));
}

bool cell_windows_help(const struct cell_view *view)
{
    struct ring *ring = &view->run->windows->ring;
    uint32_t piece;
    const bool is_taken = is_open(ring) && take_piece(ring, &piece);
    if (is_taken) {
        make_piece(view, ring, piece);
    }
    return is_taken;
}

struct awaited {
    const struct ring *ring;
    uint32_t piece;
};

static bool has_come(void *argument)
{
    const struct awaited *awaited = argument;
    return is_made(awaited->ring, awaited->piece);
}

/* The sums of the next steps, whoever makes them: this member too, while it would wait and there is
 * room for later ones. */
static void await_piece(struct cell_view *view)
{
    struct ring *ring = &view->run->windows->ring;
    const uint32_t awaited = (view->step - ring->first) / ring->piece_steps;
    uint32_t piece;
    // Release: what stood there has been read.
    atomic_store_explicit(&ring->done, view->step, memory_order_release);
    while (!is_made(ring, awaited) && take_piece(ring, &piece)) {
        make_piece(view, ring, piece);
    }
    if (!is_made(ring, awaited)) {
        struct awaited argument = {.ring = ring, .piece = awaited};
        view->team->wait(view->team, view->run->apart_member, has_come, &argument);
    }
    view->ahead_until = piece_end(ring, awaited);
}

void cell_windows_close(const struct cell_view *view)
{
    struct cell_windows *windows = view->run->windows;
    if (windows == NULL || !is_open(&windows->ring)) {
        return;
    }
    struct ring *ring = &windows->ring;
    struct window *window = &windows->windows[windows->window_of[0]];
    const uint32_t first_step = view->run->batch->rows[ring->row].first_step;
    uint32_t until = ring->first;
    uint32_t piece = view->step > ring->first ? (view->step - ring->first) / ring->piece_steps : 0;
    while (until < ring->end && is_made(ring, piece)) {
        until = piece_end(ring, piece++);
    }
    window->first = first_step + view->step;
    window->end = first_step + until;
    // Members that make a piece of it still end before the batch does.
    atomic_store_explicit(&ring->is_open, false, memory_order_relaxed);
}

void cell_windows_fill(struct cell_view *view)
{
    struct cell_windows *windows = view->run->windows;
    if (windows != NULL && view->run->is_helped && view->program->ahead_rows > 0) {
        view->is_ahead = true;
        if (!is_open(&windows->ring)) {
            open_ring(view);
        }
        if (view->step >= windows->ring.first) {
            await_piece(view);
        }
        return;
    }
    view->is_ahead = windows != NULL && view->n_rows <= view->program->ahead_rows;
    view->ahead_until = UINT32_MAX;
    if (!view->is_ahead) {
        return;
    }
    base_assert(view->n_rows <= CELL_WINDOWS);
    if (view->member == 0) {
        choose(view);
    }
    cell_view_barrier(view);
    view->ahead_until = windows->until;
    fill(view);
}

void cell_windows_resolve(const struct cell_view *view)
{
    const struct cell_program *program = view->program;
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        for (uint32_t r = 0; r < view->n_rows && op->has_window; r++) {
            view->space->ahead[op->window][r] = at(view, r, cell_view_step(view, r), op->window_at);
        }
    }
    resolve_kept(view, NULL);
}
