/* Scenes of a lane's life; see fiber_scenes.h. */
#include "tests/cuda/fiber_scenes.h"

#include "cells/cuda/lane_shared.h"
#include "tests/util.h"

#include <string.h>

/* Larger than a task is behind the host's last look; of made-up time. */
#define BOUND_NS 300000u

static struct fiber_lane rig;

/* Of the scene that plays: when it happens. */
static struct {
    uint32_t one_in; /* turns */
    bool has_happened;
} play;

static void begin(const struct fiber_lane_kernel *kernel, const struct fiber_options *options,
                  uint32_t chains)
{
    struct fiber_lane_options lane;
    fiber_init(options);
    fiber_lane_options_init(&lane, kernel);
    lane.chains = chains;
    lane.seed = options->seed;
    lane.kind = options->seed % 2 == 0 ? CELL_SM_LSTM : CELL_SM_GRU;
    lane.is_given = options->seed % 4 == 1;
    lane.bound_ns = BOUND_NS;
    memset(&play, 0, sizeof(play));
    fiber_lane_init(&rig, &lane);
}

/* ---- JOIN ---- */

static bool drive_join(void *context)
{
    (void)context;
    uint32_t chains[12];
    fiber_lane_look(&rig);
    for (uint32_t i = 0; i < 12; i++) {
        chains[i] = i;
    }
    if (rig.host.submitted == 0) {
        fiber_lane_submit_op(&rig, CELL_LANE_JOIN, chains, 11);
    } else if (rig.host.settled == 1 && rig.host.submitted == 1) {
        // A device's memory is not the host's to read; here it is, when JOIN is complete.
        for (uint32_t i = 0; i < 12; i++) {
            const uint32_t id = rig.chains[i].id;
            for (uint32_t copy = 0; copy < 2; copy++) {
                const uint8_t *row =
                    rig.memory + cell_lane_rows_at(&rig.launch.args.rows, id, 0, copy);
                const uint32_t bytes = rig.launch.args.rows.parts[0].pitch_bytes;
                fiber_host_touch(row, bytes, false);
                rig.wrong += (row[0] == 0 && row[bytes - 1] == 0) != (i < 11);
            }
        }
        fiber_lane_submit_op(&rig, CELL_LANE_FENCE, chains, 0);
        fiber_lane_submit_op(&rig, CELL_LANE_PARK, chains, 0);
    }
    return rig.wrong == 0;
}

/* ---- Abort ---- */

/* Whoever held what the lane reads and writes takes it back: nothing of it is touched any more. */
static void take_back(void)
{
    fiber_host_touch(rig.chains, rig.options.chains * sizeof(*rig.chains), true);
    fiber_host_touch(rig.memory, rig.launch.args.rows.bytes, true);
    fiber_host_touch(rig.rows, FIBER_LANE_SLOTS * CELL_SM_ROWS_MAX * sizeof(*rig.rows), true);
    fiber_host_touch(rig.lane.results, FIBER_LANE_SLOTS * sizeof(*rig.lane.results), true);
    fiber_host_touch(rig.lane.slots, FIBER_LANE_SLOTS * sizeof(*rig.lane.slots), true);
    fiber_host_touch(rig.lane.control, sizeof(*rig.lane.control), true);
}

/* Runs and fences one behind the other, and then, at any time, an abort. */
static bool drive_abort(void *context)
{
    (void)context;
    fiber_lane_look(&rig);
    if (!play.has_happened && cell_lane_host_has_room(&rig.host)) {
        const uint32_t chain = base_random_below(&rig.random, rig.options.chains);
        if (rig.chains[chain].submitted < rig.chains[chain].steps) {
            fiber_lane_submit(&rig, &chain, 1, 3, 0);
        } else {
            fiber_lane_submit_op(&rig, CELL_LANE_FENCE, &chain, 0);
        }
    }
    if (!play.has_happened && base_random_below(&rig.random, play.one_in) == 0) {
        play.has_happened = true;
        cell_lane_abort(&rig.lane, rig.host.launch);
    }
    return rig.wrong == 0;
}

static const char *play_abort(void)
{
    const uint32_t none = 0;
    play.one_in = 16u << base_random_below(&rig.random, 8);
    fiber_lane_submit_op(&rig, CELL_LANE_FENCE, &none, 0);
    const enum fiber_end end = fiber_lane_launch(&rig, drive_abort);
    if (end != FIBER_ENDED) {
        return end == FIBER_VIOLATION ? fiber_violation() : "an aborted launch does not end";
    }
    fiber_lane_look(&rig);
    if (rig.host.end != CELL_LANE_END_ABORTED || cell_lane_host_is_busy(&rig.host)) {
        return "an aborted launch ends, but not as aborted";
    }
    take_back();
    return fiber_violation();
}

/* ---- A thread that hangs ---- */

static bool drive_fault(void *context)
{
    (void)context;
    const uint32_t chains[3] = {0, 1, 2};
    fiber_lane_look(&rig);
    if (rig.host.submitted == 1) {
        fiber_lane_submit(&rig, chains, 3, 5, 0);
    }
    return rig.host.end == 0;
}

static const char *play_fault(void)
{
    const uint32_t chain = 3;
    fiber_lane_submit(&rig, &chain, 1, 1, 0);
    const enum fiber_end end = fiber_lane_launch(&rig, drive_fault);
    if (end != FIBER_STOPPED || rig.host.end != CELL_LANE_END_FAULT) {
        return end == FIBER_VIOLATION ? fiber_violation() : "a hung launch does not say so";
    }
    const struct cell_lane_fault fault = cell_lane_host_fault(&rig.host);
    fiber_host_touch(&rig.lane.control->fault, sizeof(fault), false);
    if (fault.lane != 7 || fault.block != 0 || fault.site != CELL_LANE_WAIT_EXCHANGE ||
        fault.epoch != 2) {
        return "a fault record says something else";
    }
    if (rig.failed != 1 || rig.host.completed != 1) {
        return "a fault fails other tasks than those that were not complete";
    }
    fiber_host_touch(rig.lane.slots, FIBER_LANE_SLOTS * sizeof(*rig.lane.slots), true);
    fiber_host_touch(rig.lane.control, sizeof(*rig.lane.control), true);
    return fiber_violation();
}

/* ---- All ---- */

static const char *play_scene(uint32_t scene)
{
    if (scene == FIBER_SCENE_ABORT) {
        return play_abort();
    }
    if (scene == FIBER_SCENE_FAULT) {
        return play_fault();
    }
    if (scene != FIBER_SCENE_JOIN) {
        const char *wrong = fiber_lane_run(&rig);
        return wrong != NULL ? wrong : fiber_violation();
    }
    const enum fiber_end end = fiber_lane_launch(&rig, drive_join);
    if (end == FIBER_VIOLATION) {
        return fiber_violation();
    }
    fiber_lane_look(&rig);
    return rig.wrong == 0 && end == FIBER_ENDED && rig.host.end == CELL_LANE_END_PARKED
               ? NULL
               : "JOIN does not leave zeros, or its launch does not end";
}

bool fiber_scene(uint32_t scene, const struct fiber_lane_kernel *kernel,
                 const struct fiber_options *options, char text[FIBER_SCENE_TEXT])
{
    static const uint32_t chains[FIBER_SCENES] = {14, 1, 12, 8, 4};
    struct fiber_options with = *options;
    if (scene == FIBER_SCENE_FAULT) {
        with.hung_thread = (uint32_t)(options->seed % 64);
        with.hung_barrier = CELL_SM_BARRIER_STEP;
        with.hung_at = 4; // one run of a step has two, the next one is stuck in its first step
    }
    begin(kernel, &with, chains[scene]);
    const char *wrong = play_scene(scene);
    text[0] = '\0';
    if (wrong != NULL) {
        (void)snprintf(text, FIBER_SCENE_TEXT, "scene %u, seed %llu: %s", scene,
                       (unsigned long long)options->seed, wrong);
    }
    fiber_lane_release(&rig);
    return wrong == NULL;
}
