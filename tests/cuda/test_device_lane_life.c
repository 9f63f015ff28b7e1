/* Lanes of the CUDA device while they live, over a host's driver: several tasks that are
 * interrupted at once, parking, one lane a queue, one that dies in the middle, and types for whose
 * lanes there is no SM. A lane that hangs as it is launched: test_device_faults. */
#include "base/clock.h"
#include "base/mem.h"
#include "tests/cuda/driver_host.h"
#include "tests/cuda/lane_bed.h"
#include "tests/cuda/lane_host.h"
#include "tests/util.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { INPUTS = 5, UNITS = 6, ROW_BYTES = UNITS * sizeof(float) };

#define PATIENCE_NS (60 * BASE_NS_PER_S)

/* Chains on queue c % 2 where there are two, with what each gives alone. */
struct crowd {
    struct lane_bed bed;
    uint32_t n, steps;
    struct rig_chain *chains;
    uint8_t **wanted;
};

static void crowd_init(struct crowd *crowd, const struct lane_bed_options *options, uint32_t n,
                       uint32_t steps)
{
    struct base_random random = util_random(5);
    lane_bed_init(&crowd->bed, options);
    crowd->n = n;
    crowd->steps = steps;
    crowd->chains = base_alloc_array(n, sizeof(*crowd->chains));
    crowd->wanted = base_alloc_array(n, sizeof(*crowd->wanted));
    ck_assert(crowd->chains != NULL && crowd->wanted != NULL);
    for (uint32_t i = 0; i < n; i++) {
        rig_chain_init(&crowd->chains[i], crowd->bed.type, i, steps, &random);
        crowd->wanted[i] = lane_bed_alone(&crowd->bed, &crowd->chains[i]);
    }
}

static void crowd_release(struct crowd *crowd)
{
    for (uint32_t i = 0; i < crowd->n; i++) {
        base_free(crowd->wanted[i]);
        rig_chain_release(&crowd->chains[i]);
    }
    base_free(crowd->chains);
    base_free((void *)crowd->wanted);
    lane_bed_release(&crowd->bed);
}

static void expect_wanted(const struct crowd *crowd, uint32_t i)
{
    const struct rig_chain *chain = &crowd->chains[i];
    ck_assert_msg(memcmp(chain->outputs[0], crowd->wanted[i], (size_t)chain->done * ROW_BYTES) == 0,
                  "chain %u", i);
    ck_assert(chain->done == crowd->steps ||
              chain->outputs[0][(size_t)chain->done * ROW_BYTES] == 0xA5);
}

/* ---- Interrupted ---------------------------------------------------------------------------- */

enum { TASKS = 3, MANY = 32 * (TASKS - 1) + 7, MANY_STEPS = 40 };

/* A batch of three tasks a window on each queue, told to end by each queue's own word: all rows of
 * a batch stand behind the same step, and no bit changes. */
START_TEST(test_several_tasks_are_interrupted_at_once)
{
    static const struct lane_bed_options options = {.is_library = true,
                                                    .inputs = INPUTS,
                                                    .units = UNITS,
                                                    .n_queues = LANE_BED_QUEUES,
                                                    .n_rows = MANY * LANE_BED_QUEUES};
    static struct crowd crowd;
    static struct cell_batch_row rows[LANE_BED_QUEUES][MANY];
    struct cell_batch batches[LANE_BED_QUEUES];
    struct base_random random = util_random((uint64_t)_i);
    crowd_init(&crowd, &options, MANY * LANE_BED_QUEUES, MANY_STEPS);
    uint32_t interrupted = 0;
    while (crowd.chains[0].done < MANY_STEPS || crowd.chains[1].done < MANY_STEPS) {
        for (uint32_t q = 0; q < LANE_BED_QUEUES; q++) {
            batches[q] =
                (struct cell_batch){.n_rows = MANY,
                                    .steps = MANY_STEPS - crowd.chains[q].done,
                                    .interruptible = true,
                                    .steps_min = base_random_below(&random, 6),
                                    .attention = crowd.bed.backend->attention(crowd.bed.device, q),
                                    .rows = rows[q]};
            for (uint32_t r = 0; r < MANY && batches[q].steps > 0; r++) {
                rows[q][r] = rig_chain_row(&crowd.chains[LANE_BED_QUEUES * r + q], MANY_STEPS);
            }
            if (batches[q].steps > 0) {
                lane_bed_submit(&crowd.bed, q, &batches[q]);
            }
        }
        const uint64_t until_ns = base_now_ns() + base_random_below(&random, 400000);
        while (base_now_ns() < until_ns) {
            lane_bed_poll(&crowd.bed);
        }
        for (uint32_t q = 0; q < LANE_BED_QUEUES; q++) {
            atomic_store(crowd.bed.backend->attention(crowd.bed.device, q), 1);
        }
        lane_bed_wait_all(&crowd.bed);
        for (uint32_t q = 0; q < LANE_BED_QUEUES; q++) {
            atomic_store(crowd.bed.backend->attention(crowd.bed.device, q), 0);
            for (uint32_t r = 0; r < MANY && batches[q].steps > 0; r++) {
                ck_assert_int_eq(batches[q].status, BASE_OK);
                ck_assert_uint_eq(rows[q][r].steps_done, batches[q].steps_done);
                crowd.chains[LANE_BED_QUEUES * r + q].done += rows[q][r].steps_done;
            }
            ck_assert(batches[q].steps == 0 || batches[q].steps_done >= batches[q].steps_min ||
                      batches[q].steps_done == batches[q].steps);
            interrupted += batches[q].steps_done < batches[q].steps ? 1 : 0;
        }
    }
    ck_assert_uint_gt(interrupted, 0);
    for (uint32_t i = 0; i < crowd.n; i++) {
        expect_wanted(&crowd, i);
    }
    crowd_release(&crowd);
}
END_TEST

/* One task of all steps, which the lane has begun when it is told to end. */
START_TEST(test_a_task_ends_in_the_middle)
{
    enum { STEPS = 120, TRIES = 20 };
    static const struct lane_bed_options options = {
        .is_library = true, .inputs = INPUTS, .units = UNITS};
    static struct crowd crowd;
    bool is_interrupted = false;
    crowd_init(&crowd, &options, 1, STEPS);
    struct rig_chain *chain = &crowd.chains[0];
    _Atomic uint32_t *attention = crowd.bed.backend->attention(crowd.bed.device, 0);
    for (uint32_t t = 0; t < TRIES && !is_interrupted; t++) { // a machine may be busy elsewhere
        rig_chain_reset(chain, crowd.bed.type);
        struct cell_batch_row row = rig_chain_row(chain, STEPS);
        struct cell_batch batch = {.n_rows = 1,
                                   .steps = STEPS,
                                   .interruptible = true,
                                   .attention = attention,
                                   .rows = &row};
        lane_bed_submit(&crowd.bed, 0, &batch);
        lane_bed_poll(&crowd.bed);
        atomic_store(attention, 1);
        lane_bed_wait_all(&crowd.bed);
        atomic_store(attention, 0);
        ck_assert_int_eq(batch.status, BASE_OK);
        ck_assert_uint_ge(row.steps_done, 1);
        is_interrupted = row.steps_done < STEPS;
        chain->done = row.steps_done;
        expect_wanted(&crowd, 0);
    }
    ck_assert(is_interrupted);
    crowd_release(&crowd);
}
END_TEST

/* ---- Parking -------------------------------------------------------------------------------- */

static const struct lane_bed_options one_queue = {
    .is_library = true, .inputs = INPUTS, .units = UNITS};

static void run_all(struct crowd *crowd, uint32_t from, uint32_t to, uint32_t steps)
{
    struct cell_batch_row rows[RIG_ROWS];
    struct cell_batch batch = {.steps = steps, .rows = rows};
    for (uint32_t i = from; i < to; i++) {
        rows[batch.n_rows++] = rig_chain_row(&crowd->chains[i], steps);
        crowd->chains[i].done += steps;
    }
    lane_bed_run(&crowd->bed, 0, &batch);
}

/* One launch does for all batches as long as the lane has no time to park. */
START_TEST(test_a_lane_stays_between_batches)
{
    static struct crowd crowd;
    lane_host_park_ns(PATIENCE_NS);
    crowd_init(&crowd, &one_queue, 4, 20);
    lane_bed_park(&crowd.bed);
    const uint64_t launches = lane_host_launches();
    for (uint32_t b = 0; b < 10; b++) {
        run_all(&crowd, 0, 4, 2);
    }
    ck_assert_uint_eq(lane_host_launches() - launches, lane_host_can() ? 1 : 0);
    for (uint32_t i = 0; i < 4; i++) {
        expect_wanted(&crowd, i);
    }
    crowd_release(&crowd);
    lane_host_park_ns(0);
}
END_TEST

/* Nobody looks at a lane while nothing is outstanding, so it must go of its own accord. */
static void wait_until_parked(void)
{
    const uint64_t until_ns = base_now_ns() + PATIENCE_NS;
    while (lane_host_lives_any() && base_now_ns() < until_ns) {
        (void)usleep(1000);
    }
    ck_assert(!lane_host_lives_any());
}

/* A lane that has nothing to do leaves by itself; chains that it had begun go on in its next
 * launch, beside others that begin there. */
START_TEST(test_a_lane_parks_and_rows_join_it)
{
    enum { CHAINS = 12, STEPS = 30 };
    static struct crowd crowd;
    lane_host_park_ns(BASE_NS_PER_MS);
    crowd_init(&crowd, &one_queue, CHAINS, STEPS);
    for (uint32_t round = 0; round < 4; round++) {
        wait_until_parked();
        const uint64_t launches = lane_host_launches();
        run_all(&crowd, 0, 3 * round + 3, 1);
        ck_assert_uint_eq(lane_host_launches() - launches, lane_host_can() ? 1 : 0);
        wait_until_parked();
        run_all(&crowd, 0, 3 * round + 3, 2);
        ck_assert_uint_eq(lane_host_launches() - launches, lane_host_can() ? 2 : 0);
    }
    for (uint32_t i = 0; i < CHAINS; i++) {
        expect_wanted(&crowd, i);
    }
    crowd_release(&crowd);
    lane_host_park_ns(0);
}
END_TEST

/* What loads, opens or reads rows sends all lanes away first (driver_host.h counts what would not),
 * and none of them forgets where it was. */
START_TEST(test_lanes_are_parked_for_what_allocates)
{
    static struct crowd crowd;
    struct base_error error;
    struct build build;
    const struct cell_type *type = NULL;
    bool is_new = false;
    lane_host_park_ns(PATIENCE_NS);
    crowd_init(&crowd, &one_queue, 3, 9);
    build_lstm_cell(&build, INPUTS, 2 * UNITS, 61);
    ck_assert_int_eq(
        cell_registry_intern(crowd.bed.registry, &build.def, "test/other", &type, &is_new, &error),
        BASE_OK);
    for (uint32_t round = 0; round < 3; round++) {
        const uint64_t launches = lane_host_launches();
        run_all(&crowd, 0, 3, 3);
        ck_assert_int_eq(crowd.bed.backend->type_load(crowd.bed.device, type, &error), BASE_OK);
        ck_assert(!lane_host_lives_any());
        crowd.bed.backend->type_unload(crowd.bed.device, type);
        ck_assert_uint_eq(lane_host_launches() - launches, lane_host_can() && round > 0 ? 1 : 0);
    }
    for (uint32_t i = 0; i < 3; i++) {
        expect_wanted(&crowd, i);
    }
    crowd_release(&crowd);
    build_release(&build);
    lane_host_park_ns(0);
}
END_TEST

/* ---- Two queues ----------------------------------------------------------------------------- */

enum { LONG = 700 }; /* steps: six windows */

/* Whether the first step's h has come. */
static bool has_given(const struct rig_chain *chain)
{
    static const uint8_t nothing[] = {0xA5, 0xA5, 0xA5, 0xA5};
    return memcmp(chain->outputs[0], nothing, sizeof(nothing)) != 0;
}

/* Each queue has a lane of its own: both run at the same time. One dies in the middle; what the
 * other has is not touched, and the dead one's queue goes on by a new launch. */
START_TEST(test_a_lane_that_dies_in_the_middle_fails_what_it_has)
{
    static const struct lane_bed_options options = {.is_library = true,
                                                    .inputs = INPUTS,
                                                    .units = UNITS,
                                                    .n_queues = 2,
                                                    .watchdog_ns = 2 * BASE_NS_PER_S};
    const enum lane_host_hang hang = (enum lane_host_hang)_i;
    static struct crowd crowd;
    struct cell_batch_row rows[2];
    struct cell_batch batches[2];
    crowd_init(&crowd, &options, 2, LONG);
    lane_bed_park(&crowd.bed);
    const uint64_t launches = lane_host_launches();
    for (uint32_t q = 0; q < 2; q++) {
        rows[q] = rig_chain_row(&crowd.chains[q], LONG);
        batches[q] = (struct cell_batch){.n_rows = 1, .steps = LONG, .rows = &rows[q]};
        lane_bed_submit(&crowd.bed, q, &batches[q]);
    }
    // Behind the first windows: of one of the two lanes, whichever looks.
    while (!has_given(&crowd.chains[0]) || !has_given(&crowd.chains[1])) {
        lane_bed_poll(&crowd.bed);
    }
    ck_assert(lane_host_launches() - launches >= 2 || !lane_host_can());
    lane_host_hang(lane_host_can() ? hang : LANE_HOST_HANG_NONE);
    lane_bed_wait_all(&crowd.bed);
    uint32_t failed = 0;
    for (uint32_t q = 0; q < 2; q++) {
        if (batches[q].status != BASE_OK) {
            ck_assert_int_eq(batches[q].status, BASE_UNAVAILABLE);
            ck_assert_uint_eq(batches[q].steps_done + rows[q].steps_done, 0);
            failed++;
            rig_chain_reset(&crowd.chains[q], crowd.bed.type);
            lane_bed_submit(&crowd.bed, q, &batches[q]);
        }
    }
    ck_assert_uint_eq(failed, lane_host_can() ? 1 : 0);
    ck_assert(!crowd.bed.backend->is_lost(crowd.bed.device));
    lane_bed_wait_all(&crowd.bed);
    for (uint32_t q = 0; q < 2; q++) {
        ck_assert_int_eq(batches[q].status, BASE_OK);
        crowd.chains[q].done = LONG;
        expect_wanted(&crowd, q);
    }
    crowd_release(&crowd);
}
END_TEST

/* ---- Too few SMs ---------------------------------------------------------------------------- */

enum { TYPES = 5 }; /* two lanes each, and a host's card has SMs for eight */

struct kinds {
    struct lane_bed bed; /* the first of them */
    struct build builds[TYPES];
    const struct cell_type *types[TYPES];
};

static void kinds_load(struct kinds *kinds, uint32_t t)
{
    struct base_error error;
    ck_assert_int_eq(kinds->bed.backend->type_load(kinds->bed.device, kinds->types[t], &error),
                     BASE_OK);
    kinds->bed.type = kinds->types[t];
}

/* A chain of the type, whichever executor has it: the device is exact. */
static void run_kind(struct kinds *kinds, uint32_t t, bool has_lane)
{
    enum { STEPS = 7 };
    struct rig_chain chain;
    static uint8_t c[STEPS * LANE_BED_UNITS_MAX * sizeof(float)];
    struct base_random random = util_random(t);
    kinds->bed.type = kinds->types[t];
    ck_assert(lane_bed_has_lane(&kinds->bed) == (has_lane && lane_host_can()));
    rig_chain_init(&chain, kinds->types[t], 0, STEPS, &random);
    const uint64_t launches = lane_host_launches();
    uint8_t *got = lane_bed_alone(&kinds->bed, &chain);
    ck_assert((lane_host_launches() > launches) == (has_lane && lane_host_can()));
    lane_bed_make_odd(&kinds->bed, &chain, c); // the stream's answer
    uint8_t *wanted = lane_bed_alone(&kinds->bed, &chain);
    ck_assert_mem_eq(got, wanted, STEPS * lane_bed_row_bytes(&kinds->bed));
    base_free(got);
    base_free(wanted);
    rig_chain_release(&chain);
    lane_bed_park(&kinds->bed);
}

static void expect_told(struct kinds *kinds, uint32_t t, const char *text)
{
    struct base_buf out;
    base_buf_init(&out, 1 << 16);
    kinds->bed.backend->type_explain(kinds->bed.device, kinds->types[t], &out);
    ck_assert_msg(!lane_host_can() || strstr(out.data, text) != NULL, "%s", out.data);
    base_buf_release(&out);
}

START_TEST(test_types_without_an_SM_run_in_the_stream)
{
    static const struct lane_bed_options options = {
        .inputs = INPUTS, .units = UNITS, .n_queues = 2};
    static struct kinds kinds;
    struct base_error error;
    bool is_new = false;
    lane_bed_init(&kinds.bed, &options);
    kinds.types[0] = kinds.bed.type;
    for (uint32_t t = 1; t < TYPES; t++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "test/%u", t);
        build_lstm_cell(&kinds.builds[t], INPUTS, UNITS, 80 + t); // other weights, the same rows
        ck_assert_int_eq(cell_registry_intern(kinds.bed.registry, &kinds.builds[t].def, name,
                                              &kinds.types[t], &is_new, &error),
                         BASE_OK);
        ck_assert(is_new);
        kinds_load(&kinds, t);
    }
    for (uint32_t t = 0; t < TYPES; t++) {
        run_kind(&kinds, t, t + 1 < TYPES);
    }
    expect_told(&kinds, TYPES - 1, "no lane: there are lanes on 8 of 8 SMs for them");
    // A type that leaves makes room for the next.
    kinds.bed.backend->type_unload(kinds.bed.device, kinds.types[1]);
    kinds.bed.backend->type_unload(kinds.bed.device, kinds.types[TYPES - 1]);
    kinds_load(&kinds, TYPES - 1);
    kinds_load(&kinds, 1);
    run_kind(&kinds, TYPES - 1, true);
    run_kind(&kinds, 1, false);
    for (uint32_t t = 1; t < TYPES; t++) {
        kinds.bed.backend->type_unload(kinds.bed.device, kinds.types[t]);
        build_release(&kinds.builds[t]);
    }
    kinds.bed.type = kinds.types[0];
    lane_bed_release(&kinds.bed);
}
END_TEST

START_TEST(test_lanes_that_are_turned_off)
{
    static const struct lane_bed_options options = {
        .inputs = INPUTS, .units = UNITS, .lanes_off = true};
    static struct kinds kinds;
    lane_bed_init(&kinds.bed, &options);
    kinds.types[0] = kinds.bed.type;
    run_kind(&kinds, 0, false);
    expect_told(&kinds, 0, "no lane: lanes are turned off");
    lane_bed_release(&kinds.bed);
}
END_TEST

static void add_case(Suite *suite, TCase *tcase)
{
    tcase_set_timeout(tcase, 120);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("device_lane_life");
    TCase *interrupted = tcase_create("interrupted");
    TCase *middle = tcase_create("middle");
    TCase *parking = tcase_create("parking");
    TCase *dying = tcase_create("dying");
    TCase *room = tcase_create("room");
    tcase_add_loop_test(interrupted, test_several_tasks_are_interrupted_at_once, 0, 4);
    tcase_add_test(middle, test_a_task_ends_in_the_middle);
    tcase_add_test(parking, test_a_lane_stays_between_batches);
    tcase_add_test(parking, test_a_lane_parks_and_rows_join_it);
    tcase_add_test(parking, test_lanes_are_parked_for_what_allocates);
    tcase_add_loop_test(dying, test_a_lane_that_dies_in_the_middle_fails_what_it_has,
                        LANE_HOST_HANG_FAULT, LANE_HOST_HANG_STILL + 1);
    tcase_add_test(room, test_types_without_an_SM_run_in_the_stream);
    tcase_add_test(room, test_lanes_that_are_turned_off);
    add_case(suite, interrupted);
    add_case(suite, middle);
    add_case(suite, parking);
    add_case(suite, dying);
    add_case(suite, room);
    return util_run(suite);
}
