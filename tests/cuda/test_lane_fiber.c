/* The emulator of a thread block finds what it is there to find: small blocks, each with one thing
 * wrong, and the same without it. */
#include "tests/cuda/fiber.h"
#include "tests/util.h"

#include <string.h>

#define THREADS 64u

/* Shared memory of the blocks below. */
static struct {
    uint32_t values[THREADS];
    uint64_t word;
    uint32_t more[4];
    uint16_t halves[THREADS];
} shared;

static uint64_t not_watched;

static bool idle(void *context)
{
    (void)context;
    return true;
}

/* Runs a block under a few schedules; the first thing that is wrong, or NULL. */
static const char *run(void (*block)(void *argument))
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct fiber_options options;
        fiber_options_init(&options, THREADS);
        options.seed = util_seed() + seed;
        options.turns_max = 100000;
        fiber_init(&options);
        memset(&shared, 0, sizeof(shared));
        fiber_watch(&shared, sizeof(shared), "shared memory");
        if (fiber_run(block, NULL, idle, NULL) != FIBER_ENDED) {
            return fiber_violation();
        }
    }
    return NULL;
}

static void is_wrong(void (*block)(void *argument), const char *how)
{
    const char *text = run(block);
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(strstr(text, how) != NULL, "says '%s', not '%s'", text, how);
}

/* ---- Barriers order ---- */

static void with_barrier(void *argument)
{
    (void)argument;
    const uint32_t thread = cell_block_thread();
    const uint32_t other = (thread + 1) % THREADS;
    cell_block_store_u32(&shared.values[thread], thread);
    cell_block_sync(0, 1, THREADS);
    ck_assert_uint_eq(cell_block_load_u32(&shared.values[other]), other);
}

static void without_barrier(void *argument)
{
    (void)argument;
    const uint32_t thread = cell_block_thread();
    cell_block_store_u32(&shared.values[thread], thread);
    (void)cell_block_load_u32(&shared.values[(thread + 1) % THREADS]);
}

/* Reads first, then somebody writes. */
static void write_behind_reads(void *argument)
{
    (void)argument;
    (void)cell_block_load_u32(&shared.more[0]);
    if (cell_block_thread() == 7) {
        cell_block_store_u32(&shared.more[0], 1);
    }
}

static void halves_of_a_word(void *argument)
{
    (void)argument;
    cell_block_store_u16(&shared.halves[cell_block_thread()], 1);
}

static void all_write_the_same(void *argument)
{
    (void)argument;
    cell_block_store_u32(&shared.more[cell_block_thread() % 4], 1);
}

START_TEST(test_accesses_without_order_are_found)
{
    ck_assert_ptr_null(run(with_barrier));
    ck_assert_ptr_null(run(halves_of_a_word));
    is_wrong(without_barrier, "not ordered behind");
    is_wrong(write_behind_reads, "not ordered behind");
    is_wrong(all_write_the_same, "not ordered behind");
}
END_TEST

/* ---- Words order ---- */

static void pass_on(enum cell_lane_order store, enum cell_lane_order load)
{
    if (cell_block_thread() == 3) {
        cell_block_store_u32(&shared.more[1], 5);
        cell_block_word_store(0, &shared.word, 1, store);
    } else if (cell_block_thread() == 40) {
        while (cell_block_word_load(1, &shared.word, load) == 0) {
        }
        ck_assert_uint_eq(cell_block_load_u32(&shared.more[1]), 5);
    }
}

static void release_and_acquire(void *argument)
{
    (void)argument;
    pass_on(CELL_LANE_RELEASE, CELL_LANE_ACQUIRE);
}

static void relaxed_store(void *argument)
{
    (void)argument;
    pass_on(CELL_LANE_RELAXED, CELL_LANE_ACQUIRE);
}

static void relaxed_load(void *argument)
{
    (void)argument;
    pass_on(CELL_LANE_RELEASE, CELL_LANE_RELAXED);
}

START_TEST(test_words_order_what_their_orders_say)
{
    ck_assert_ptr_null(run(release_and_acquire));
    is_wrong(relaxed_store, "not ordered behind thread 3");
    is_wrong(relaxed_load, "not ordered behind thread 3");
}
END_TEST

/* ---- Warps ---- */

/* Values cross by shfl, memory does not. */
static void give_by_shfl(bool has_sync)
{
    const uint32_t lane = cell_warp_lane();
    uint32_t *place = &shared.more[cell_block_thread() / CELL_WARP];
    if (lane == 5) {
        cell_block_store_u32(place, 9);
    }
    ck_assert_uint_eq(cell_warp_shfl(lane * 3, 5), 15);
    ck_assert(cell_warp_all(true) && !cell_warp_all(lane != 31));
    if (has_sync) {
        cell_warp_sync(0);
    }
    ck_assert_uint_eq(cell_block_load_u32(place), 9);
}

static void shfl_and_sync(void *argument)
{
    (void)argument;
    give_by_shfl(true);
}

static void shfl_alone(void *argument)
{
    (void)argument;
    give_by_shfl(false);
}

static void different_functions(void *argument)
{
    (void)argument;
    if (cell_warp_lane() < 16) {
        cell_warp_sync(0);
    } else {
        (void)cell_warp_all(true);
    }
}

START_TEST(test_shfl_orders_no_memory)
{
    ck_assert_ptr_null(run(shfl_and_sync));
    is_wrong(shfl_alone, "not ordered behind");
    is_wrong(different_functions, "at different functions");
}
END_TEST

/* ---- Barriers that do not open, or not as they should ---- */

static void one_is_missing(void *argument)
{
    (void)argument;
    if (cell_block_thread() != 11) {
        cell_block_sync(0, 1, THREADS);
    }
}

static void different_counts(void *argument)
{
    (void)argument;
    cell_block_sync(0, 1, cell_block_thread() < 32 ? THREADS : 32);
}

static void arrives_twice(void *argument)
{
    (void)argument;
    cell_block_arrive(0, 1, 3 * THREADS);
    cell_block_arrive(0, 1, 3 * THREADS);
}

static void waits_for_nothing(void *argument)
{
    (void)argument;
    while (cell_block_word_load(0, &shared.word, CELL_LANE_ACQUIRE) == 0) {
    }
}

/* Those that arrive go on; those that sync see what the others wrote. */
static void arrive_and_sync(void *argument)
{
    (void)argument;
    if (cell_block_thread() < 32) {
        cell_block_store_u32(&shared.values[cell_block_thread()], 1);
        cell_block_arrive(0, 2, THREADS);
    } else {
        cell_block_sync(0, 2, THREADS);
        ck_assert_uint_eq(cell_block_load_u32(&shared.values[cell_block_thread() - 32]), 1);
    }
}

START_TEST(test_barriers_that_do_not_open_are_found)
{
    ck_assert_ptr_null(run(arrive_and_sync));
    is_wrong(one_is_missing, "wait for each other");
    is_wrong(different_counts, "different numbers of threads");
    is_wrong(arrives_twice, "twice before it opens");
    is_wrong(waits_for_nothing, "does not end");
}
END_TEST

/* ---- Memory that is nobody's ---- */

static void outside(void *argument)
{
    (void)argument;
    cell_block_store_u64(&not_watched, 1);
}

START_TEST(test_memory_outside_is_not_touched)
{
    is_wrong(outside, "outside all memory");
    ck_assert_uint_eq(not_watched, 0); // it is said before it happens
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane_fiber");
    TCase *tcase = tcase_create("lane_fiber");
    tcase_add_test(tcase, test_accesses_without_order_are_found);
    tcase_add_test(tcase, test_words_order_what_their_orders_say);
    tcase_add_test(tcase, test_shfl_orders_no_memory);
    tcase_add_test(tcase, test_barriers_that_do_not_open_are_found);
    tcase_add_test(tcase, test_memory_outside_is_not_touched);
    suite_add_tcase(suite, tcase);
    const int status = util_run(suite);
    fiber_release();
    return status;
}
