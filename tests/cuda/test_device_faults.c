/* A card that fails, at each call in turn, in the middle of a kernel, or by standing still: what it
 * held fails with UNAVAILABLE, it is lost, and nothing of it reaches a request's memory any more.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "tests/cells/rig.h"
#include "tests/cuda/driver_host.h"
#include "tests/cuda/lane_host.h"
#include "tests/util.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 40, WIDTH = 5, ROW_BYTES = WIDTH * sizeof(float) };

#define WATCHDOG_NS (2 * BASE_NS_PER_S)

struct bed {
    struct build build;
    struct cell_registry *registry;
    const struct cell_type *type;
    const struct cell_backend *backend;
    struct cell_device *device;
    struct rig_chain chain;
};

static void bed_init(struct bed *bed)
{
    struct base_error error;
    bool is_new = false;
    struct base_random random = util_random(5);
    memset(bed, 0, sizeof(*bed));
    build_lstm_cell(&bed->build, WIDTH, WIDTH, 41);
    ck_assert_int_eq(cell_registry_create(&bed->registry), BASE_OK);
    ck_assert_int_eq(cell_registry_intern(bed->registry, &bed->build.def, "test/cell", &bed->type,
                                          &is_new, &error),
                     BASE_OK);
    bed->backend = cuda_host_backend();
    rig_chain_init(&bed->chain, bed->type, 0, STEPS, &random);
}

static void bed_release(struct bed *bed)
{
    cuda_host_fail_at(0);
    cuda_host_hang(false);
    rig_chain_release(&bed->chain);
    cell_registry_free(bed->registry);
    build_release(&bed->build);
}

static enum base_status load(struct bed *bed, struct base_error *error)
{
    BASE_TRY(bed->backend->type_load(bed->device, bed->type, error));
    for (uint32_t l = 0; l < cell_registry_layouts(bed->registry); l++) {
        const enum base_status status = bed->backend->rows_open(
            bed->device, l, cell_registry_layout(bed->registry, l), RIG_ROWS, error);
        if (status != BASE_OK) {
            bed->backend->type_unload(bed->device, bed->type);
            return status;
        }
    }
    return BASE_OK;
}

/* Opens and loads. */
static enum base_status open_all(struct bed *bed, struct base_error *error)
{
    const struct cell_device_options options = {
        .n_queues = 2, .batches_queued_max = 4, .watchdog_ns = WATCHDOG_NS, .lanes_off = true};
    BASE_TRY(bed->backend->open(&options, &bed->device, error));
    const enum base_status status = load(bed, error);
    if (status != BASE_OK) {
        bed->backend->close(bed->device);
    }
    return status;
}

static void close_all(struct bed *bed)
{
    bed->backend->type_unload(bed->device, bed->type);
    bed->backend->close(bed->device);
}

/* Each call to the driver that may fail, and each allocation of ours. */
START_TEST(test_faults_at_start_up_are_told)
{
    static struct bed bed;
    enum base_status status = BASE_UNAVAILABLE;
    uint64_t n = 1;
    bed_init(&bed);
    for (; status != BASE_OK; n += n < 40 ? 1 : 37) {
        struct base_error error = {BASE_OK, ""};
        if (_i == 0) {
            cuda_host_fail_at(n);
        } else {
            base_alloc_fail_at(n);
        }
        status = open_all(&bed, &error);
        ck_assert(status == BASE_OK || (error.status == status && error.message[0] != '\0'));
        cuda_host_fail_at(0);
        base_alloc_fail_at(0);
    }
    ck_assert_uint_gt(n, _i == 0 ? 100 : 5);
    close_all(&bed);
    bed_release(&bed);
}
END_TEST

START_TEST(test_a_card_that_is_not_there)
{
    struct cell_device *device = NULL;
    struct base_error error;
    const struct cell_device_options options = {.n_queues = 1, .batches_queued_max = 1, .card = 7};
    ck_assert_int_eq(cuda_host_backend()->open(&options, &device, &error), BASE_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(error.message, "no card 7"));
}
END_TEST

/* _i: that refuses to write a word in the order of a stream; whose word does not arrive. */
START_TEST(test_a_card_without_words_in_order_is_not_opened)
{
    struct cell_device *device = NULL;
    struct base_error error = {BASE_OK, ""};
    const struct cell_device_options options = {.n_queues = 2, .batches_queued_max = 1};
    cuda_host_refuse_words(_i == 0);
    cuda_host_hang(_i == 1);
    ck_assert_int_eq(cuda_host_backend()->open(&options, &device, &error), BASE_UNAVAILABLE);
    ck_assert_ptr_nonnull(
        strstr(error.message, _i == 0 ? "does not allow 64-bit words" : "arrive"));
    cuda_host_refuse_words(false);
    cuda_host_hang(false);
    ck_assert_int_eq(cuda_host_backend()->open(&options, &device, &error), BASE_OK);
    cuda_host_backend()->close(device);
}
END_TEST

/* _i: an LSTM with int8 weights; rows of which 1,024 are more words than a kernel counts. */
START_TEST(test_what_it_has_no_kernel_for_is_refused_by_name)
{
    static struct bed bed;
    struct base_error error;
    bool is_new = false;
    struct build build;
    const struct cell_type *type = NULL;
    bed_init(&bed);
    ck_assert_int_eq(open_all(&bed, &error), BASE_OK);
    if (_i == 0) {
        build_lstm_cell(&build, WIDTH, WIDTH, 43);
        build_last(&build)->precision = CELL_INT8;
    } else {
        build_init(&build, 43);
        const uint32_t wide = build_input(&build, CELL_F32, CELL_WIDTH_MAX);
        (void)build_input(&build, CELL_F32, CELL_WIDTH_MAX);
        build_output(&build, build_op(&build, CELL_OP_TANH, wide, UINT32_MAX, CELL_WIDTH_MAX));
    }
    ck_assert_int_eq(
        cell_registry_intern(bed.registry, &build.def, "test/other", &type, &is_new, &error),
        BASE_OK);
    const uint64_t allocs = cuda_host_counts().allocs;
    ck_assert_int_eq(bed.backend->type_load(bed.device, type, &error), BASE_UNIMPLEMENTED);
    ck_assert_ptr_nonnull(strstr(error.message, _i == 0 ? "LSTM with int8 weights" : "too wide"));
    ck_assert_uint_eq(cuda_host_counts().allocs, allocs);
    close_all(&bed);
    build_release(&build);
    bed_release(&bed);
}
END_TEST

static void submit(struct bed *bed, struct cell_batch *batch, struct cell_batch_row *row)
{
    *row = rig_chain_row(&bed->chain, STEPS);
    *batch = (struct cell_batch){.type = bed->type, .n_rows = 1, .steps = STEPS, .rows = row};
    bed->backend->submit(bed->device, 0, batch);
}

static uint64_t completed(const struct bed *bed)
{
    return atomic_load(bed->backend->completed(bed->device, 0));
}

static void expect_untouched(const struct bed *bed)
{
    for (uint32_t i = 0; i < STEPS * ROW_BYTES; i++) {
        ck_assert_uint_eq(bed->chain.outputs[0][i], 0xA5);
    }
}

enum fault { FAULT_CALL, FAULT_KERNEL, FAULT_HANG, FAULTS };

/* Two batches are on the queue, and a third comes later. Polls come a millisecond apart, by a clock
 * of the test's own. */
START_TEST(test_faults_while_it_runs)
{
    static struct bed bed;
    struct base_error error;
    struct cell_batch batches[3];
    struct cell_batch_row rows[3];
    const enum fault fault = (enum fault)_i;
    bed_init(&bed);
    ck_assert_int_eq(open_all(&bed, &error), BASE_OK);
    rig_chain_reset(&bed.chain, bed.type);
    if (fault == FAULT_KERNEL) {
        cuda_host_fault();
    } else if (fault == FAULT_HANG) {
        cuda_host_hang(true);
    } else {
        cuda_host_fail_at(3);
    }
    submit(&bed, &batches[0], &rows[0]);
    submit(&bed, &batches[1], &rows[1]);
    uint64_t now_ns = BASE_NS_PER_S;
    uint32_t polls = 0;
    for (; completed(&bed) < 2; polls++) {
        ck_assert_uint_lt(polls, 60000);
        bed.backend->poll(bed.device, 0, now_ns);
        now_ns += BASE_NS_PER_MS;
        if (fault == FAULT_KERNEL) {
            (void)usleep(100); // it comes in time of its own
        }
    }
    ck_assert(bed.backend->is_lost(bed.device));
    ck_assert_ptr_nonnull(strstr(bed.backend->why_lost(bed.device),
                                 fault == FAULT_HANG ? "no progress for 2000 ms" : "told to fail"));
    if (fault == FAULT_HANG) {
        ck_assert_uint_ge(polls, WATCHDOG_NS / BASE_NS_PER_MS);
        ck_assert_uint_le(polls, WATCHDOG_NS / BASE_NS_PER_MS + 10);
    }
    cuda_host_hang(false); // what it does from now on is nobody's
    submit(&bed, &batches[2], &rows[2]);
    bed.backend->poll(bed.device, 0, now_ns);
    ck_assert_uint_eq(completed(&bed), 3);
    for (uint32_t b = 0; b < 3; b++) {
        ck_assert_int_eq(batches[b].status, BASE_UNAVAILABLE);
        ck_assert_uint_eq(batches[b].steps_done, 0);
    }
    (void)usleep(5000);
    expect_untouched(&bed);
    close_all(&bed);
    bed_release(&bed);
}
END_TEST

/* A process that was stopped for an hour does not find its card dead. */
START_TEST(test_watchdog_forgives_a_clock_that_jumps)
{
    static struct bed bed;
    struct base_error error;
    struct cell_batch batch;
    struct cell_batch_row row;
    bed_init(&bed);
    ck_assert_int_eq(open_all(&bed, &error), BASE_OK);
    cuda_host_hang(true);
    submit(&bed, &batch, &row);
    for (uint64_t hour = 1; hour <= 3; hour++) {
        bed.backend->poll(bed.device, 0, hour * 3600 * BASE_NS_PER_S);
        ck_assert(!bed.backend->is_lost(bed.device));
    }
    cuda_host_hang(false);
    while (completed(&bed) == 0) {
        bed.backend->poll(bed.device, 0, 4 * 3600 * BASE_NS_PER_S);
        sched_yield();
    }
    ck_assert_int_eq(batch.status, BASE_OK);
    close_all(&bed);
    bed_release(&bed);
}
END_TEST

/* A lane that hangs fails what it holds, and is launched again; one that is deaf is a lost card. */
START_TEST(test_lanes_that_hang)
{
    static struct bed bed;
    struct base_error error;
    struct cell_batch batches[2];
    struct cell_batch_row rows[2];
    const enum lane_host_hang hang = (enum lane_host_hang)_i;
    const struct cell_device_options options = {
        .n_queues = 2, .batches_queued_max = 4, .watchdog_ns = BASE_NS_PER_S};
    bed_init(&bed);
    ck_assert_int_eq(bed.backend->open(&options, &bed.device, &error), BASE_OK);
    ck_assert_int_eq(load(&bed, &error), BASE_OK);
    rig_chain_reset(&bed.chain, bed.type);
    if (lane_host_can()) {
        lane_host_hang(hang);
        submit(&bed, &batches[0], &rows[0]);
        while (completed(&bed) < 1) {
            bed.backend->poll(bed.device, 0, base_now_ns());
            (void)usleep(100);
        }
        ck_assert_int_eq(batches[0].status, BASE_UNAVAILABLE);
        expect_untouched(&bed);
        ck_assert_int_eq(bed.backend->is_lost(bed.device), hang == LANE_HOST_HANG_DEAF);
    }
    if (hang != LANE_HOST_HANG_DEAF) {
        const uint64_t before = completed(&bed);
        submit(&bed, &batches[1], &rows[1]);
        while (completed(&bed) == before) {
            bed.backend->poll(bed.device, 0, base_now_ns());
            (void)usleep(100);
        }
        ck_assert_int_eq(batches[1].status, BASE_OK);
        ck_assert_uint_eq(batches[1].steps_done, STEPS);
    }
    close_all(&bed);
    bed_release(&bed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_faults");
    TCase *tcase = tcase_create("cuda-host");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_faults_at_start_up_are_told, 0, 2);
    tcase_add_test(tcase, test_a_card_that_is_not_there);
    tcase_add_loop_test(tcase, test_a_card_without_words_in_order_is_not_opened, 0, 2);
    tcase_add_loop_test(tcase, test_what_it_has_no_kernel_for_is_refused_by_name, 0, 2);
    tcase_add_loop_test(tcase, test_faults_while_it_runs, 0, FAULTS);
    tcase_add_loop_test(tcase, test_lanes_that_hang, LANE_HOST_HANG_FAULT, LANE_HOST_HANG_DEAF + 1);
    tcase_add_test(tcase, test_watchdog_forgives_a_clock_that_jumps);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
