/* A one-SM lane's life in the emulator: what it refuses, attention, parking and launches anew,
 * launches of a few tasks, an abort, and threads that hang. Time is made up. */
#include "cells/cuda/lane_shared.h"
#include "tests/cuda/fiber_lane.h"
#include "tests/cuda/fiber_scenes.h"
#include "tests/util.h"

#include <string.h>

static struct fiber_lane rig;

static void begin(const struct fiber_lane_options *options, const struct fiber_options *fibers)
{
    struct fiber_options usual;
    fiber_options_init(&usual, options->kernel->threads);
    usual.seed = util_seed() + options->seed;
    fiber_init(fibers == NULL ? &usual : fibers);
    fiber_lane_init(&rig, options);
}

static void options_of(struct fiber_lane_options *options, uint64_t seed)
{
    fiber_lane_options_init(options, seed % 2 == 0 ? &fiber_lane__f32_16 : &fiber_lane__bf16_16);
    options->kind = seed % 4 < 2 ? CELL_SM_LSTM : CELL_SM_GRU;
    options->seed = seed;
    options->chains = 8;
}

/* The host only looks, and the launch ends by itself. */
static bool look(void *context)
{
    (void)context;
    fiber_lane_look(&rig);
    return rig.wrong == 0;
}

static void run_to(enum cell_lane_end end)
{
    const enum fiber_end fibers = fiber_lane_launch(&rig, look);
    ck_assert_msg(fibers == FIBER_ENDED, "%s",
                  fibers == FIBER_VIOLATION ? fiber_violation() : rig.text);
    fiber_lane_look(&rig);
    ck_assert_uint_eq(rig.host.end, end);
    ck_assert_msg(rig.wrong == 0, "%s", rig.text);
}

/* ---- Launches ---- */

/* The host pauses longer than the lane waits. */
START_TEST(test_an_idle_lane_parks_and_is_launched_again)
{
    struct fiber_lane_options options;
    options_of(&options, (uint64_t)_i);
    options.park_ns = 4000;
    options.one_in = 500;
    begin(&options, NULL);
    const char *wrong = fiber_lane_run(&rig);
    ck_assert_msg(wrong == NULL, "%s", wrong);
    ck_assert_uint_ge(rig.launches, 2);
    fiber_lane_release(&rig);
}
END_TEST

/* As a profiler runs it: the ring is full before the launch, and nobody comes during it. */
START_TEST(test_a_launch_of_so_many_tasks_needs_no_host)
{
    struct fiber_lane_options options;
    options_of(&options, (uint64_t)_i);
    options.tasks_max = 3;
    begin(&options, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t chains[2] = {2 * i, 2 * i + 1};
        fiber_lane_submit(&rig, chains, 2, 5, 0);
    }
    run_to(CELL_LANE_END_LIMIT);
    ck_assert_uint_eq(rig.host.settled, 3);
    ck_assert(cell_lane_host_wants_launch(&rig.host));
    const uint32_t none = 0;
    fiber_lane_submit_op(&rig, CELL_LANE_PARK, &none, 0);
    run_to(CELL_LANE_END_PARKED);
    ck_assert_uint_eq(rig.host.settled, 5);
    fiber_lane_release(&rig);
}
END_TEST

/* What stands behind a PARK waits for the next launch. */
START_TEST(test_nothing_behind_a_park_is_taken)
{
    struct fiber_lane_options options;
    const uint32_t chain = 0;
    options_of(&options, (uint64_t)_i);
    begin(&options, NULL);
    fiber_lane_submit_op(&rig, CELL_LANE_PARK, &chain, 0);
    fiber_lane_submit(&rig, &chain, 1, 2, 0);
    fiber_lane_submit_op(&rig, CELL_LANE_EXIT, &chain, 0);
    run_to(CELL_LANE_END_PARKED);
    ck_assert_uint_eq(rig.host.settled, 1);
    run_to(CELL_LANE_END_EXITED);
    ck_assert_uint_eq(rig.host.settled, 3);
    fiber_lane_release(&rig);
}
END_TEST

START_TEST(test_an_idle_lane_beats)
{
    struct fiber_lane_options options;
    options_of(&options, (uint64_t)_i);
    options.park_ns = 100000;
    begin(&options, NULL);
    const uint32_t none = 0;
    fiber_lane_submit_op(&rig, CELL_LANE_FENCE, &none, 0);
    run_to(CELL_LANE_END_PARKED);
    const uint64_t first = cell_lane_heartbeat(&rig.lane);
    ck_assert_uint_gt(first, 3);
    fiber_lane_submit_op(&rig, CELL_LANE_FENCE, &none, 0);
    run_to(CELL_LANE_END_PARKED);
    ck_assert_uint_gt(cell_lane_heartbeat(&rig.lane), first); // it never falls
    fiber_lane_release(&rig);
}
END_TEST

/* ---- Tasks ---- */

static uint32_t status_of(const struct cell_lane_task *task)
{
    const uint32_t none = 0;
    fiber_lane_submit_raw(&rig, task);
    fiber_lane_submit_op(&rig, CELL_LANE_PARK, &none, 0);
    run_to(CELL_LANE_END_PARKED);
    return rig.statuses[cell_lane_index(&rig.lane, rig.host.settled - 1)];
}

/* Nothing outside the lane's memory is touched for any of them: the emulator would say so. */
START_TEST(test_tasks_that_cannot_be_are_refused)
{
    struct fiber_lane_options options;
    options_of(&options, (uint64_t)_i);
    begin(&options, NULL);
    const struct cell_lane_task run = {
        .op = CELL_LANE_RUN, .n_rows = 1, .k_steps = 1, .x_ref = (uint64_t)(uintptr_t)rig.rows};
    static const uint16_t lacking[] = {CELL_LANE_LEAVE, CELL_LANE_MOVE, CELL_LANE_LOADW, 0, 99};
    struct cell_lane_task task;
    for (uint32_t i = 0; i < sizeof(lacking) / sizeof(lacking[0]); i++) {
        task = run;
        task.op = lacking[i];
        ck_assert_uint_eq(status_of(&task), BASE_UNIMPLEMENTED);
    }
    task = run;
    task.k_steps = 0;
    ck_assert_uint_eq(status_of(&task), BASE_INVALID_ARGUMENT);
    task = run;
    task.rows[0] = options.chains; // there is no such row
    ck_assert_uint_eq(status_of(&task), BASE_INVALID_ARGUMENT);
    task = run;
    task.n_rows = CELL_LANE_TAGGED_INLINE + 1; // not by offset
    ck_assert_uint_eq(status_of(&task), BASE_INVALID_ARGUMENT);
    task = run;
    task.flags = CELL_LANE_ROWS_BY_OFFSET;
    task.n_rows = CELL_SM_ROWS_MAX + 1;
    ck_assert_uint_eq(status_of(&task), BASE_INVALID_ARGUMENT);
    task = run;
    task.flags = CELL_LANE_ROWS_BY_OFFSET;
    task.rows_off = FIBER_LANE_SLOTS * CELL_SM_ROWS_MAX;
    ck_assert_uint_eq(status_of(&task), BASE_INVALID_ARGUMENT);
    task = run;
    task.op = CELL_LANE_JOIN;
    task.rows[0] = UINT32_MAX;
    ck_assert_uint_eq(status_of(&task), BASE_INVALID_ARGUMENT);
    const uint32_t chain = 0; // and what can be goes on
    fiber_lane_submit(&rig, &chain, 1, 5, 0);
    fiber_lane_submit_op(&rig, CELL_LANE_EXIT, &chain, 0);
    run_to(CELL_LANE_END_EXITED);
    ck_assert_uint_eq(rig.chains[0].done, rig.chains[0].steps);
    fiber_lane_release(&rig);
}
END_TEST

/* Attention all the time: an open run has at least its first step, another all. */
START_TEST(test_attention_ends_open_runs_between_two_steps)
{
    struct fiber_lane_options options;
    const uint32_t chains[2] = {0, 1};
    uint32_t interrupted = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        options_of(&options, seed);
        options.chains = 2;
        options.steps = FIBER_LANE_STEPS;
        options.is_calm = true;
        begin(&options, NULL);
        cell_lane_attend(&rig.lane, 1);
        fiber_lane_submit(&rig, chains, 1, FIBER_LANE_STEPS, CELL_LANE_INTERRUPTIBLE);
        fiber_lane_submit(&rig, chains + 1, 1, FIBER_LANE_STEPS, 0);
        fiber_lane_submit_op(&rig, CELL_LANE_EXIT, chains, 0);
        run_to(CELL_LANE_END_EXITED);
        ck_assert_uint_ge(rig.chains[0].done, 1);
        interrupted += rig.chains[0].done < FIBER_LANE_STEPS;
        ck_assert_uint_eq(rig.chains[1].done, FIBER_LANE_STEPS);
        fiber_lane_release(&rig);
    }
    ck_assert_uint_gt(interrupted, 0);
}
END_TEST

/* ---- Trouble ---- */

START_TEST(test_scenes_go_well_under_any_schedule)
{
    struct fiber_options options;
    char text[FIBER_SCENE_TEXT];
    fiber_options_init(&options, fiber_lane__f32_16.threads);
    for (uint32_t seed = 0; seed < (util_is_quick() ? 5u : 40u); seed++) {
        options.seed = util_seed() * 77 + seed;
        ck_assert_msg(fiber_scene((uint32_t)_i, &fiber_lane__f32_16, &options, text), "%s", text);
    }
}
END_TEST

/* What an abort leaves can go on: the next launch answers other chains. */
static bool abort_at_once(void *context)
{
    (void)context;
    fiber_lane_look(&rig);
    cell_lane_abort(&rig.lane, 1);
    return true;
}

START_TEST(test_a_launch_behind_an_abort_answers)
{
    struct fiber_lane_options options;
    const uint32_t chains[2] = {0, 1};
    options_of(&options, (uint64_t)_i);
    begin(&options, NULL);
    fiber_lane_submit(&rig, chains, 1, 5, 0);
    ck_assert_int_eq(fiber_lane_launch(&rig, abort_at_once), FIBER_ENDED);
    fiber_lane_look(&rig);
    ck_assert_uint_eq(rig.host.end, CELL_LANE_END_ABORTED);
    ck_assert_uint_eq(rig.failed, 1);
    fiber_lane_submit(&rig, chains + 1, 1, 5, 0);
    fiber_lane_submit_op(&rig, CELL_LANE_EXIT, chains, 0);
    run_to(CELL_LANE_END_EXITED);
    ck_assert_uint_eq(rig.chains[1].done, rig.chains[1].steps);
    fiber_lane_release(&rig);
}
END_TEST

#define BOUND_NS 200000u

static bool wait_for_end(void *context)
{
    (void)context;
    fiber_lane_look(&rig);
    return rig.host.end == 0;
}

/* Any thread that computes, at any barrier: a fault record within the bound, and not much later. */
START_TEST(test_a_thread_that_hangs_is_a_fault_within_the_bound)
{
    static const uint32_t barriers[] = {CELL_SM_BARRIER_STEP, CELL_SM_BARRIER_ORDER};
    struct fiber_options fibers;
    struct fiber_lane_options options;
    const uint32_t chain = 0;
    fiber_lane_options_init(&options, &fiber_lane__f32_16);
    fiber_options_init(&fibers, options.kernel->threads);
    fibers.seed = util_seed() + (uint64_t)_i;
    fibers.hung_thread = (uint32_t)_i * 9 % 64;
    fibers.hung_barrier = barriers[_i % 2];
    fibers.hung_at = 1;
    options.bound_ns = BOUND_NS;
    options.steps = 3;
    options.is_calm = true;
    begin(&options, &fibers);
    fiber_lane_submit(&rig, &chain, 1, 3, 0);
    ck_assert_int_eq(fiber_lane_launch(&rig, wait_for_end), FIBER_STOPPED);
    ck_assert_uint_eq(rig.host.end, CELL_LANE_END_FAULT);
    ck_assert_uint_eq(rig.failed, 1);
    const struct cell_lane_fault fault = cell_lane_host_fault(&rig.host);
    ck_assert_uint_eq(fault.lane, 7);
    ck_assert_uint_eq(fault.site, CELL_LANE_WAIT_EXCHANGE);
    ck_assert_uint_eq(fault.epoch, 1);
    ck_assert_uint_ge(fiber_now_ns(), BOUND_NS);
    ck_assert_uint_le(fiber_now_ns(), 2 * BOUND_NS);
    fiber_lane_release(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane_life");
    TCase *tcase = tcase_create("lane_life");
    tcase_add_loop_test(tcase, test_an_idle_lane_parks_and_is_launched_again, 0, 6);
    tcase_add_loop_test(tcase, test_a_launch_of_so_many_tasks_needs_no_host, 0, 4);
    tcase_add_loop_test(tcase, test_nothing_behind_a_park_is_taken, 0, 4);
    tcase_add_loop_test(tcase, test_an_idle_lane_beats, 0, 2);
    tcase_add_loop_test(tcase, test_tasks_that_cannot_be_are_refused, 0, 4);
    tcase_add_test(tcase, test_attention_ends_open_runs_between_two_steps);
    tcase_add_loop_test(tcase, test_scenes_go_well_under_any_schedule, 0, FIBER_SCENES);
    tcase_add_loop_test(tcase, test_a_launch_behind_an_abort_answers, 0, 6);
    tcase_add_loop_test(tcase, test_a_thread_that_hangs_is_a_fault_within_the_bound, 0, 8);
    suite_add_tcase(suite, tcase);
    const int status = util_run(suite);
    fiber_release();
    return status;
}
