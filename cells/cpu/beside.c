/* See beside.h. The halves know nothing of each other but for one word, that one of them has come
 * to its end; and where one follows, another, how far the first is. */
#include "cells/cpu/beside.h"

#include "base/assert.h"
#include "base/cpus.h"
#include "cells/cpu/panels.h"

#include <stdatomic.h>

/* A batch that has less left to compute than this, some 10 us of a core, or one step, is not
 * interrupted to be begun again by the whole team. */
#define LEFT_FLOPS 1000000u

/* Steps that take a member longer than this, some 40 us of a core, are the team's: it shares them
 * out evenly, while of two batches one is done first, and the thread that drives the team has more
 * to do beside its own. And both cells should find room in the caches that cores share.
 *
 * Zen 4, two members, requests of both directions of an LSTM or GRU present, requests a second in
 * turns and side by side (behind the slash: while the two share no L3, where what they wait for
 * each other counts most). All of 100 steps: LSTM of 64 units, 1 present 4,498 and 9,264 / 4,530
 * and 7,560, 4 10,770 and 12,868 / 8,752 and 11,147; 128 units, 1 2,143 and 2,515 / 1,439 and
 * 2,269; 256 units, 4 954 and 1,001 / 824 and 886; 512 units (twice 8 MiB), 1 143 and 151, 4 231
 * and 245. Of 5 to 50 steps, where runs are short: GRU of 64 units, 8 34,628 and 47,405, 32 43,700
 * and 42,041; LSTM of 128, 4 10,379 and 12,475, 16 12,275 and 12,436, 32 (8.4 million) 12,069 and
 * 10,505; 256, 4 2,940 and 3,368, 8 (8.4 million) 3,261 and 3,208. */
#define STEP_FLOPS_MAX 5000000u
#define L2S_MAX        10u

uint32_t cell_beside_rows(const struct cell_program *program)
{
    const uint64_t flops = program->type->flops + (program->type->flops == 0 ? 1 : 0);
    const uint32_t members = cell_program_most_members(program);
    if (program->type->def.n_states == 0 || members < 2 || !program->kernels->invariant) {
        return 0;
    }
    const uint64_t near = L2S_MAX * base_cpus_l2_bytes() * (members / 2);
    const uint64_t rows = STEP_FLOPS_MAX * (uint64_t)(members / 2) / flops;
    const uint64_t most = rows < CELL_BATCH_ROWS_MAX ? rows : CELL_BATCH_ROWS_MAX;
    return cell_program_held_bytes(program) <= near ? (uint32_t)most : 0;
}

/* Weights that do not fit the half's private caches are read from a shared one in every step, twice
 * as many for each core as when all members share the step. Zen 4, two members, which share an L3
 * and have L2s of 1 MiB, requests a second, two layers one after the other and one following the
 * other, one request present: LSTM of 64 units (128 KiB a layer) 4,860 and 6,640 to 7,080, 128 (512
 * KiB) 2,160 and 2,220, 256 (2 MiB) 613 and 567; GRU of 128 (384 KiB) 2,440 and 2,820, 256 (1.5
 * MiB) 825 and 773.
 *
 * And of many rows each thread has enough of its own in either layer, while all that the first
 * makes has to cross to the other core. The same, all requests at the same steps, where the two
 * share no L3: LSTM of 64 units, 4 present 5,260 and 6,140, 8 7,040 and 7,970, 12 8,670 and 8,820,
 * 16 8,660 and 7,820; GRU of 128, 8 2,660 and 3,180, 16 3,620 and 3,410. */
#define FOLLOW_ROWS_MAX 8u

uint32_t cell_beside_follow_rows(const struct cell_program *program)
{
    const uint32_t members = cell_program_most_members(program);
    const uint32_t rows = cell_beside_rows(program);
    const uint32_t most = rows < FOLLOW_ROWS_MAX ? rows : FOLLOW_ROWS_MAX;
    return cell_program_held_bytes(program) <= base_cpus_l2_bytes() * (members / 2) ? most : 0;
}

/* The last member of the first half to come to its end: all that they emitted has been written. */
static void tell_end(struct cell_beside *beside)
{
    // Acquire and release: what the others wrote before they came here.
    if (atomic_fetch_sub_explicit(&beside->n_running, 1, memory_order_acq_rel) == 1) {
        const uint64_t steps = beside->runs[0].batch->steps_done;
        atomic_store_explicit(&beside->told, 2 * steps + 1, memory_order_release);
    }
}

static void run_half(void *argument, struct cell_team *team, uint32_t member)
{
    struct cell_beside *beside = argument;
    const uint32_t border = cell_team_first_half(team->members);
    const uint32_t half = member < border ? 0 : 1;
    const uint32_t own = half == 0 ? member : member - border;
    if (own < beside->runs[half].members) {
        cell_run_member(&beside->runs[half], team->halves[half], own);
        if (half == 0) {
            tell_end(beside);
        }
    }
    if (own == 0) {
        // Relaxed: it says "come to your end soon"; results cross when the team has finished.
        atomic_store_explicit(&beside->is_over, true, memory_order_relaxed);
    }
}

bool cell_beside_is_over(const struct cell_run *run, uint32_t steps_done)
{
    const struct cell_batch *batch = run->batch;
    const uint32_t left = batch->steps - steps_done;
    return atomic_load_explicit(&run->beside->is_over, memory_order_relaxed) && left > 1 &&
           batch->type->flops * batch->n_rows * left > LEFT_FLOPS;
}

void cell_beside_tell(const struct cell_view *view)
{
    struct cell_beside *beside = view->run->beside;
    if (view->run != &beside->runs[0] || !beside->is_followed || view->member != 0) {
        return;
    }
    // All have met behind the emits, or may still be writing those of this step, but not of the one
    // before: a barrier stands in each.
    const bool has_settled = view->run->members == 1 || view->settles;
    base_assert(has_settled || view->program->ends_on_panels);
    const uint64_t steps = has_settled ? view->step + 1 : view->step;
    // Release: what was emitted.
    atomic_store_explicit(&beside->told, 2 * steps, memory_order_release);
}

struct awaited {
    struct cell_view *view;
    uint32_t steps;
};

/* So many steps can be computed, or no more will be than can. */
static bool has_come(void *argument)
{
    const struct awaited *awaited = argument;
    struct cell_view *view = awaited->view;
    // Acquire: what was emitted.
    const uint64_t told = atomic_load_explicit(&view->run->beside->told, memory_order_acquire);
    const bool has_ended = (told & 1) != 0;
    view->available = (uint32_t)(told / 2) + view->run->batch->lead;
    return has_ended || view->available >= awaited->steps;
}

bool cell_beside_await(struct cell_view *view, uint32_t steps)
{
    struct awaited awaited = {.view = view, .steps = steps};
    if (view->available < steps && !has_come(&awaited)) {
        view->team->wait(view->team, view->member, has_come, &awaited);
    }
    return view->available >= steps;
}

void cell_beside_begin(struct cell_beside *beside, struct cell_program *const programs[2],
                       const struct cell_rows *stores, uint32_t queue, struct cell_team *team,
                       const struct cell_submitted *submitted)
{
    const struct cell_submitted both[2] = {*submitted, {.batch = submitted->batch->beside}};
    base_assert(team != NULL && team->members > 1 && programs[0] != programs[1]);
    base_assert(both[1].batch->beside == NULL && both[1].batch->row_ended == NULL);
    base_assert(!both[1].batch->follows || both[1].batch->interruptible);
    for (uint32_t h = 0; h < 2; h++) {
        struct cell_run *run = &beside->runs[h];
        cell_run_prepare(run, programs[h], stores, queue, team->halves[h]->members, &both[h]);
        run->team = team;
        run->beside = beside;
        // Of small cells one member of the half is enough, as one of the team would be.
        run->members = run->n_cells <= programs[h]->solo_rows ? 1 : run->members;
    }
    beside->is_followed = both[1].batch->follows;
    // Relaxed: the start publishes them.
    atomic_store_explicit(&beside->is_over, false, memory_order_relaxed);
    atomic_store_explicit(&beside->told, 0, memory_order_relaxed);
    atomic_store_explicit(&beside->n_running, beside->runs[0].members, memory_order_relaxed);
    team->start(team, run_half, beside);
}

void cell_beside_end(struct cell_beside *beside)
{
    struct cell_team *team = beside->runs[0].team;
    team->finish(team);
    for (uint32_t h = 0; h < 2; h++) {
        const struct cell_run *run = &beside->runs[h];
        cell_run_note(run);
        cell_panels_align(run->spaces, run->members, team->members);
    }
}
