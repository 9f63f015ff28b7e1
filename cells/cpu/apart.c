/* See apart.h. A member that has no rows says so in a word of its own and waits. Another that finds
 * one waiting, between two steps, takes that word, writes into the waiting member's space which of
 * its own rows are now the other's, and says so in the same word. Whoever gives has rows, so that
 * the number of members that have some only falls to 0 when nobody can give any more: then all go
 * home.
 *
 * Cost: a look at one word a step, two of member 0; to give rows, some cache lines there and back.
 */
#include "cells/cpu/apart.h"

#include "base/clock.h"
#include "base/cpus.h"
#include "cells/cpu/ahead.h"
#include "cells/cpu/run.h"

#include <string.h>

/* Rows with less left to compute than this, some microseconds, are not worth giving away. */
#define GIVE_FLOPS 400000u

/* A step of a member's rows that is longer than this, half a millisecond, is better shared out by
 * panels: those are taken, in the middle of a step, from a member whom others on the machine slow.
 * Of shorter steps shares.h sees to it that a slow member has fewer. Zen 4, two members, requests
 * of 5 to 50 steps, so that batches have few, requests a second together and apart while the
 * members share an L3, and behind the slash where they share none: LSTM of 64 inputs and units, 64
 * present (2.1 million) 67,441 and 79,835 / 41,258 and 69,278; 128, 32 present (4.2 million) 25,095
 * and 25,645 / 18,483 and 22,457, 64 25,234 and 25,077 / 18,977 and 23,318; 256, 64 present (34
 * million) 7,073 and 7,192 / 6,203 and 6,777. With another process that never stops on one of the
 * two CPUs: 256, 32 present, 3,557 and 3,482 / 3,190 and 3,395; 20 present, all of 100 steps, 742
 * and 1,347 / 901 and 1,301. */
#define STEP_FLOPS_MAX 60000000u

/* Of so much less a member, some tens of microseconds, it costs more to wait for rows than the
 * others can be late: who is done goes home. */
#define MEET_FLOPS 4000000u

/* Rows are shared out by when members were last done from so many a member on: of fewer, one more
 * or less is too much, and where members meet, who is late gives some away. Zen 4, two members,
 * LSTM of 64 units, requests of 5 to 50 steps, requests a second with even shares and without: 6
 * present 54,911 and 51,193, 16 83,656 and 82,344, 32 78,390 and 81,973, 64 77,907 and 84,799. */
#define UNEVEN_ROWS 10u

/* Batches of which one is learnt from: who drives the team waits for when the others were done, in
 * lines of theirs. */
#define LEARNT_FROM 4u

/* Every member reads all weights. Weights of up to so many bytes each member reads faster than it
 * meets the others, also of one row; of up to so many L2s where L3 is near (else one) it waits for
 * the multiply-adds of a tile of rows. Zen 4, two members, which share an L3, time together over
 * time apart (where a word there and back takes 500 ns in place of 105, some tenths more): LSTM,
 * inputs and units alike, fp32, 64 (128 KiB) 2 rows 1.08, 4 1.04, 10 1.08, 20 1.06; 128 2 rows
 * 0.82, 4 0.97, 10 1.05; 256 (two L2s) 4 0.98, 10 1.04 to 1.16, 20 1.04; 512 (eight) 10 1.00, 20
 * 0.97; bf16 64 2 1.35, 10 1.11, 128 (256 KiB) 2 0.92, 10 1.11, 512 (four L2s) 20 0.95; int8 64 2
 * 1.44, 10 1.25, 128 (128 KiB) 2 1.03, 4 1.06, 512 (two) 20 1.01. */
#define ONE_ROW_BYTES 200000u
#define TILE_L2S      3u
#define TILE_ROWS     5u

/* Where every member would have to read more weights than this, rows are never apart. */
#define BYTES_MAX ((uint64_t)12 << 20)

/* What a member is about. */
enum { BUSY, IDLE, GIVEN };

/* ---- Making --------------------------------------------------------------------------------- */

/* Not what a library multiplies, whose bits are those of whole batches. */
static bool may_be_apart(const struct cell_program *program)
{
    return program->type->def.n_states > 0 && program->kernels->invariant &&
           cell_program_most_members(program) > 1 && cell_program_held_bytes(program) <= BYTES_MAX;
}

bool cell_apart_suits(const struct cell_batch *batch, uint32_t members)
{
    const struct cell_def *def = &batch->type->def;
    bool has_integers = false; // a beam keeps its tokens in one
    const uint64_t flops = batch->n_rows * batch->type->flops / members;
    bool suits = flops <= STEP_FLOPS_MAX;
    for (uint32_t s = 0; s < def->n_states; s++) {
        has_integers |= def->values[def->n_inputs + s].dtype != CELL_F32;
    }
    for (uint32_t r = 0; r < batch->n_rows && has_integers && suits; r++) {
        suits = batch->rows[r].wiring->beam == NULL;
    }
    return suits;
}

/* Member 0 works alone with what it works with in the team. */
static enum base_status make(struct cell_program *program, uint32_t queue)
{
    const uint32_t members = program->n_members[queue];
    struct cell_apart *apart = base_arena_alloc_aligned64(
        &program->arena, sizeof(*apart) + members * sizeof(apart->alone[0]));
    if (apart == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    program->apart[queue] = apart;
    apart->members = members;
    apart->took_ns = base_arena_array(&program->arena, members, sizeof(uint64_t));
    if (apart->took_ns == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    BASE_TRY(cell_shares_init(&apart->shares, &program->arena, members));
    apart->alone[0].space = program->spaces[queue];
    for (uint32_t m = 1; m < members; m++) {
        BASE_TRY(cell_program_make_spaces(program, 1, &apart->alone[m].space));
    }
    return BASE_OK;
}

enum base_status cell_apart_create(struct cell_program *program)
{
    if (!may_be_apart(program)) {
        return BASE_OK;
    }
    program->apart =
        base_arena_array(&program->arena, program->n_queues, sizeof(struct cell_apart *));
    if (program->apart == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (uint32_t q = 0; q < program->n_queues; q++) {
        BASE_TRY(make(program, q));
    }
    return BASE_OK;
}

uint32_t cell_apart_rows(const struct cell_program *program)
{
    if (program->apart == NULL) {
        return 0;
    }
    const uint64_t bytes = cell_program_held_bytes(program);
    const uint64_t l2 = base_cpus_l2_bytes();
    if (bytes < ONE_ROW_BYTES) {
        return 2;
    }
    const bool is_near = bytes <= (base_cpus_l3_is_near() ? TILE_L2S * l2 : l2);
    return is_near ? TILE_ROWS * cell_program_most_members(program) : 0;
}

/* ---- Running -------------------------------------------------------------------------------- */

void cell_apart_begin(struct cell_apart *apart, struct cell_batch *batch, uint32_t members)
{
    const uint64_t flops = batch->type->flops * batch->n_rows * batch->steps;
    batch->steps_done = 0;
    apart->meets = batch->n_rows < members || flops / members >= MEET_FLOPS;
    apart->begun_ns = !apart->meets && apart->n_batches++ % LEARNT_FROM == 0 ? base_now_ns() : 0;
    // Relaxed: the start of the run publishes them.
    for (uint32_t m = 0; m < members && apart->meets; m++) {
        atomic_store_explicit(&apart->n_busy, members, memory_order_relaxed);
        atomic_store_explicit(&apart->alone[m].is, BUSY, memory_order_relaxed);
    }
    for (uint32_t w = 0; w * 64 < batch->n_rows; w++) {
        atomic_store_explicit(&apart->ended[w], 0, memory_order_relaxed);
    }
    atomic_store_explicit(&apart->have_ended, false, memory_order_relaxed);
}

void cell_apart_let_go(const struct cell_view *view)
{
    const struct cell_run *run = view->run;
    for (uint32_t r = run->row_first; r < run->row_end; r++) {
        struct cell_batch_row *row = &run->batch->rows[r];
        if (view->space->steps[r] == view->step + 1 && row->has_ended) {
            row->steps_done = view->step + 1;
            view->space->steps[r] = 0; // not this member's any more
            // Release: what stands in the row, and the row's outputs.
            atomic_fetch_or_explicit(&run->apart->ended[r / 64], (uint64_t)1 << r % 64,
                                     memory_order_release);
            atomic_store_explicit(&run->apart->have_ended, true, memory_order_release);
        }
    }
}

static bool have_ended(const struct cell_apart *apart)
{
    return atomic_load_explicit(&apart->have_ended, memory_order_relaxed);
}

/* Member 0. Who notes a row later says so again. */
static void tell_ends(const struct cell_run *run)
{
    struct cell_batch *batch = run->batch;
    (void)atomic_exchange_explicit(&run->apart->have_ended, false, memory_order_acquire);
    for (uint32_t w = 0; w * 64 < batch->n_rows; w++) {
        uint64_t ended = atomic_exchange_explicit(&run->apart->ended[w], 0, memory_order_acquire);
        for (; ended != 0; ended &= ended - 1) {
            const uint32_t r = w * 64 + (uint32_t)__builtin_ctzll(ended);
            batch->row_ended(batch, r, batch->row_ended_context); // its wiring may be gone now
        }
    }
}

/* Rows that were not the member's, or are no longer, have no steps in its space. */
static void note_steps(const struct cell_view *view)
{
    const struct cell_run *run = view->run;
    for (uint32_t r = run->row_first; r < run->row_end; r++) {
        const uint32_t steps = view->space->steps[r];
        if (steps > 0) {
            run->batch->rows[r].steps_done = steps < view->step ? steps : view->step;
        }
    }
}

/* A run of this member alone. Where not all members have windows, nobody uses any but of a row that
 * is helped: a row that came to another member would find none, and what was made ahead for it is
 * lost. */
static struct cell_run make_run(const struct cell_run *run, uint32_t member)
{
    const struct cell_alone *alone = &run->apart->alone[member];
    struct cell_run own = *run;
    own.members = 1;
    own.apart_member = member;
    own.is_helped = run->n_rows < run->members;
    own.spaces = alone->space;
    own.windows = run->apart->all_have_windows || own.is_helped ? alone->windows : NULL;
    own.turn = alone->space->turn;
    return own;
}

/* Whether a run was interrupted that has come to this step. */
static bool is_cut(const struct cell_view *view)
{
    return view->run->stop[(view->step - 1) & 1] != 0;
}

/* Rows of the members before this one. */
static uint32_t border_of(const struct cell_run *run, uint32_t member)
{
    return run->apart->is_even ? cell_shares_even(run->members, run->n_rows, member)
                               : cell_shares_border(&run->apart->shares, run->n_rows, member);
}

/* True: it was interrupted, as the others will be. */
static bool run_own(const struct cell_run *run, struct cell_team *team, uint32_t member)
{
    struct cell_space *space = run->apart->alone[member].space;
    struct cell_run own = make_run(run, member);
    own.row_first = border_of(run, member);
    own.row_end = border_of(run, member + 1);
    struct cell_view view = {.run = &own, .program = run->program, .team = team, .space = space};
    if (own.row_first == own.row_end) {
        return false;
    }
    cell_run_start(&view);
    cell_run_steps(&view);
    note_steps(&view);
    space->turn += view.step;
    cell_windows_close(&view);
    return is_cut(&view);
}

static bool run_given(const struct cell_run *run, struct cell_team *team, uint32_t member)
{
    const struct cell_alone *alone = &run->apart->alone[member];
    struct cell_run own = make_run(run, member);
    own.row_first = alone->row_first;
    own.row_end = alone->row_end;
    struct cell_view view = {.run = &own,
                             .program = run->program,
                             .team = team,
                             .space = alone->space,
                             .step = alone->step,
                             .settles = alone->settles,
                             .has_ends = alone->has_ends};
    cell_run_steps(&view);
    note_steps(&view);
    alone->space->turn += view.step - alone->step;
    return is_cut(&view);
}

/* Makes sums ahead for members that have a row. */
static void help(const struct cell_run *run, struct cell_team *team, uint32_t member)
{
    struct cell_run own = make_run(run, member);
    const struct cell_view view = {
        .run = &own, .program = run->program, .team = team, .space = own.spaces};
    for (uint32_t m = 0; m < run->members; m++) {
        own.windows = run->apart->alone[m].windows;
        const uint32_t n = own.windows != NULL && cell_windows_help(&view) ? 1 : 0;
        atomic_fetch_add_explicit(&run->apart->n_helped, n, memory_order_relaxed);
    }
}

/* Where rows are fewer than members, nobody has more than one. */
static bool has_work(const struct cell_run *run)
{
    bool has = false;
    for (uint32_t m = 0; m < run->members && run->n_rows < run->members; m++) {
        const struct cell_windows *windows = run->apart->alone[m].windows;
        has |= windows != NULL && cell_windows_has_work(windows);
    }
    return has;
}

struct waiting {
    const struct cell_run *run;
    uint32_t member;
};

static bool is_over(void *argument)
{
    const struct waiting *waiting = argument;
    struct cell_apart *apart = waiting->run->apart;
    // Acquire: what a member wrote before it gave its rows, or came to its end, is visible.
    return atomic_load_explicit(&apart->alone[waiting->member].is, memory_order_acquire) == GIVEN ||
           has_work(waiting->run) || (waiting->member == 0 && have_ended(apart)) ||
           atomic_load_explicit(&apart->n_busy, memory_order_acquire) == 0;
}

/* Returns when the member has been given rows, or nobody has any. */
static void wait_for_rows(const struct cell_run *run, struct cell_team *team, uint32_t member)
{
    struct waiting waiting = {.run = run, .member = member};
    for (;;) {
        team->wait(team, member, is_over, &waiting);
        if (member == 0 && have_ended(run->apart)) {
            tell_ends(run);
        } else if (has_work(run)) {
            help(run, team, member);
        } else {
            return;
        }
    }
}

void cell_apart_run(struct cell_run *run, struct cell_team *team, uint32_t member)
{
    struct cell_apart *apart = run->apart;
    _Atomic uint32_t *is = &apart->alone[member].is;
    bool has_rows = true;
    bool is_over_early = run_own(run, team, member);
    if (apart->begun_ns > 0) {
        apart->alone[member].done_ns = is_over_early ? 0 : base_now_ns();
    }
    while (apart->meets && has_rows) {
        if (!is_over_early) {
            atomic_store_explicit(is, IDLE, memory_order_relaxed);
        }
        // Release: the word above, and all that this member has written.
        atomic_fetch_sub_explicit(&apart->n_busy, 1, memory_order_acq_rel);
        if (is_over_early) {
            return;
        }
        wait_for_rows(run, team, member);
        has_rows = atomic_load_explicit(is, memory_order_acquire) == GIVEN;
        is_over_early = has_rows && run_given(run, team, member);
    }
}

/* A member that waits, taken for this one; or `members`. */
static uint32_t take_idle(const struct cell_run *run, uint32_t members)
{
    uint32_t m = 0;
    for (; m < members; m++) {
        uint32_t idle = IDLE;
        if (atomic_compare_exchange_strong_explicit(&run->apart->alone[m].is, &idle, BUSY,
                                                    memory_order_acquire, memory_order_relaxed)) {
            break;
        }
    }
    return m;
}

static bool give(struct cell_view *view, uint32_t n_active)
{
    const struct cell_run *run = view->run;
    struct cell_apart *apart = run->apart;
    const struct cell_space *space = view->space;
    // Acquire: who has no rows has said so before.
    if (!apart->meets || n_active < 2 ||
        atomic_load_explicit(&apart->n_busy, memory_order_acquire) == apart->members) {
        return false;
    }
    uint64_t left = 0;
    const uint32_t n_kept = n_active - n_active / 2;
    for (uint32_t i = n_kept; i < n_active; i++) {
        const uint32_t steps = space->steps[space->active[i]];
        const uint32_t until = steps < run->batch->steps ? steps : run->batch->steps;
        left += until > view->step ? until - view->step : 0;
    }
    if (left * view->program->type->flops < GIVE_FLOPS) {
        return false;
    }
    const uint32_t to = take_idle(run, apart->members);
    if (to == apart->members) {
        return false;
    }
    atomic_fetch_add_explicit(&apart->n_busy, 1, memory_order_relaxed);
    struct cell_alone *given = &apart->alone[to];
    given->row_first = space->active[n_kept];
    given->row_end = space->active[n_active - 1] + 1;
    given->step = view->step;
    given->settles = view->settles;
    given->has_ends = view->has_ends;
    memset(given->space->steps + given->row_first, 0,
           (given->row_end - given->row_first) * sizeof(given->space->steps[0]));
    for (uint32_t i = n_kept; i < n_active; i++) {
        const uint32_t r = space->active[i];
        given->space->steps[r] = space->steps[r];
        space->steps[r] = 0;
    }
    atomic_fetch_add_explicit(&apart->n_given, n_active - n_kept, memory_order_relaxed);
    // Release: the rows and their states.
    atomic_store_explicit(&given->is, GIVEN, memory_order_release);
    return true;
}

bool cell_apart_turn(struct cell_view *view, uint32_t n_active)
{
    const struct cell_run *run = view->run;
    if (run->apart_member == 0 && have_ended(run->apart)) {
        tell_ends(run);
    }
    return give(view, n_active);
}

/* When members were done, unless some were interrupted before. */
static void learn(const struct cell_run *run)
{
    struct cell_apart *apart = run->apart;
    bool is_whole = apart->begun_ns > 0;
    for (uint32_t m = 0; m < run->members && is_whole; m++) {
        is_whole = apart->alone[m].done_ns > 0;
        apart->took_ns[m] = apart->alone[m].done_ns - apart->begun_ns;
    }
    if (is_whole) {
        cell_shares_learn(&apart->shares, run->n_rows, apart->took_ns);
    }
}

void cell_apart_end(const struct cell_run *run)
{
    struct cell_batch *batch = run->batch;
    learn(run);
    if (have_ended(run->apart)) {
        tell_ends(run); // in their last steps, when this member had gone home
    }
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        const uint32_t steps = batch->rows[r].steps_done;
        batch->steps_done = steps > batch->steps_done ? steps : batch->steps_done;
    }
}
