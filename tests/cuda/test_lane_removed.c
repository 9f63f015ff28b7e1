/* Each barrier, acquire and release of a one-SM lane is needed: with any one of them taken away,
 * the emulator finds an access that is not ordered, a wrong answer, or a launch that dies. */
#include "tests/cuda/fiber_lane.h"
#include "tests/cuda/fiber_mutants.h"
#include "tests/cuda/fiber_scenes.h"
#include "tests/util.h"

#include "cells/cuda/lane_shared.h"

#include <string.h>

/* Without anything removed; and with, until somebody notices. */
#define SEEDS_SOUND   12u
#define SEEDS_REMOVED 400u

/* Of a place whose order is RELAXED nothing can be taken away. */
enum kind { BARRIER, WARP, ACQUIRE, RELEASE, RELAXED, PLAIN };

struct place {
    const char *name;
    enum kind kind;
    uint32_t site;
};

static const struct place block_places[] = {
#define PLACE(name, kind) {#name, kind, CELL_SM_SITE_##name},
    CELL_SM_SITES(PLACE)
#undef PLACE
};

static const struct place lane_places[] = {
#define PLACE(name, kind) {#name, kind, CELL_LANE_SITE_##name},
    CELL_LANE_SITES(PLACE)
#undef PLACE
};

/* The lane speaks tagged slots only. */
static bool is_wanted(const struct place *place)
{
    const bool is_ordering = place->kind != RELAXED && place->kind != PLAIN;
    return is_ordering && strcmp(place->name, "LANE_POLLS_SLOT") != 0 &&
           strcmp(place->name, "HOST_PUBLISHES_SLOT") != 0;
}

/* Whether a scene goes wrong, and how. */
static bool is_noticed(const struct fiber_lane_kernel *kernel, struct fiber_options *options,
                       uint32_t seeds, char text[FIBER_SCENE_TEXT])
{
    bool is_well = true;
    for (uint32_t seed = 0; seed < seeds && is_well; seed++) {
        for (uint32_t scene = 0; scene < FIBER_SCENES && is_well; scene++) {
            options->seed = util_seed() * 1000 + seed;
            is_well = fiber_scene(scene, kernel, options, text);
        }
    }
    return !is_well;
}

static void options_of(struct fiber_options *options)
{
    fiber_options_init(options, fiber_lane__f32_16.threads);
    options->turns_max = 2000000;
}

START_TEST(test_nothing_is_noticed_when_nothing_is_missing)
{
    struct fiber_options options;
    char text[FIBER_SCENE_TEXT];
    options_of(&options);
    ck_assert_msg(!is_noticed(&fiber_lane__f32_16, &options, SEEDS_SOUND, text), "%s", text);
}
END_TEST

START_TEST(test_a_removed_barrier_or_order_of_the_block_is_noticed)
{
    const struct place *place = &block_places[_i];
    struct fiber_options options;
    char text[FIBER_SCENE_TEXT];
    if (!is_wanted(place)) {
        return;
    }
    options_of(&options);
    options.gone_site = place->site;
    ck_assert_msg(is_noticed(&fiber_lane__f32_16, &options, SEEDS_REMOVED, text),
                  "nobody misses %s", place->name);
}
END_TEST

START_TEST(test_a_relaxed_order_of_the_contract_is_noticed)
{
    const struct place *place = &lane_places[_i];
    struct fiber_options options;
    char text[FIBER_SCENE_TEXT];
    if (!is_wanted(place)) {
        return;
    }
    options_of(&options);
    options.relaxed_site = (int)place->site;
    ck_assert_msg(is_noticed(&fiber_lane__f32_16, &options, SEEDS_REMOVED, text),
                  "nobody misses %s", place->name);
}
END_TEST

/* Steps in the wrong order, or left out. */
START_TEST(test_a_wrong_step_is_noticed)
{
    static const struct fiber_lane_kernel *const mutants[FIBER_MUTANTS] = {
        &fiber_lane__counts_first, &fiber_lane__ends_first,  &fiber_lane__reporter_stays,
        &fiber_lane__old_copy,     &fiber_lane__trusts_rows, &fiber_lane__drops_last};
    struct fiber_options options;
    char text[FIBER_SCENE_TEXT];
    options_of(&options);
    ck_assert_msg(is_noticed(mutants[_i], &options, SEEDS_REMOVED, text),
                  "nobody notices mutant %d", _i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane_removed");
    TCase *tcase = tcase_create("lane_removed");
    tcase_add_test(tcase, test_nothing_is_noticed_when_nothing_is_missing);
    tcase_add_loop_test(tcase, test_a_removed_barrier_or_order_of_the_block_is_noticed, 0,
                        (int)(sizeof(block_places) / sizeof(block_places[0])));
    tcase_add_loop_test(tcase, test_a_relaxed_order_of_the_contract_is_noticed, 0,
                        (int)(sizeof(lane_places) / sizeof(lane_places[0])));
    tcase_add_loop_test(tcase, test_a_wrong_step_is_noticed, 0, FIBER_MUTANTS);
    suite_add_tcase(suite, tcase);
    const int status = util_run(suite);
    fiber_release();
    return status;
}
