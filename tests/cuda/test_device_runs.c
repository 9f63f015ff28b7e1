/* Batches on the CUDA device over a host's driver, in pieces in its stream and as tasks of a lane:
 * several behind each other, ended early, reading what an earlier one writes; and nothing allocated
 * meanwhile. */
#include "base/clock.h"
#include "base/mem.h"
#include "tests/cells/rig.h"
#include "tests/cuda/driver_host.h"
#include "tests/util.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { STEPS = 70, WIDTH = 5, CHAINS = 3, ROW_BYTES = WIDTH * sizeof(float) };

/* An LSTM of WIDTH, and chains of STEPS with what they give in one run. */
struct bed {
    struct build build;
    struct rig rig;
    struct rig_chain chains[CHAINS];
    uint8_t *wanted[CHAINS];
};

static void run_alone(struct bed *bed, uint32_t c, uint32_t steps)
{
    struct cell_batch_row row = rig_chain_row(&bed->chains[c], steps);
    struct cell_batch batch = {.n_rows = 1, .steps = steps, .rows = &row};
    rig_run(&bed->rig, &batch);
    ck_assert_uint_eq(batch.steps_done, steps);
}

enum executor { IN_STREAM, ON_LANE, EXECUTORS };

static void bed_init(struct bed *bed, enum executor executor)
{
    static const char *const names[] = {"cuda-host-stream", "cuda-host"};
    struct base_random random = util_random(5);
    build_lstm_cell(&bed->build, WIDTH, WIDTH, 41);
    rig_init(&bed->rig, names[executor], NULL, 0, &bed->build.def);
    for (uint32_t c = 0; c < CHAINS; c++) {
        rig_chain_init(&bed->chains[c], bed->rig.type, c, STEPS, &random);
        run_alone(bed, c, STEPS);
        bed->wanted[c] = rig_copy(bed->chains[c].outputs[0], STEPS * ROW_BYTES);
        rig_chain_reset(&bed->chains[c], bed->rig.type);
    }
}

static void bed_release(struct bed *bed)
{
    for (uint32_t c = 0; c < CHAINS; c++) {
        base_free(bed->wanted[c]);
        rig_chain_release(&bed->chains[c]);
    }
    rig_release(&bed->rig);
    cuda_host_pause(0);
    ck_assert_uint_eq(cuda_host_counts().unsound, 0);
    build_release(&bed->build);
}

static void submit(struct bed *bed, struct cell_batch *batch)
{
    batch->type = bed->rig.type;
    batch->status = BASE_INTERNAL;
    bed->rig.backend->submit(bed->rig.device, 0, batch);
    bed->rig.submitted++;
}

static uint64_t completed(const struct bed *bed)
{
    return atomic_load(bed->rig.backend->completed(bed->rig.device, 0));
}

static void poll_until(struct bed *bed, uint64_t n)
{
    while (completed(bed) < n) {
        bed->rig.backend->poll(bed->rig.device, 0, base_now_ns());
        sched_yield();
    }
}

/* Four batches of the same chains, all on the queue before the first has begun. */
START_TEST(test_runs_behind_each_other)
{
    static const uint32_t parts[] = {1, 17, 40, 12};
    static struct bed bed;
    struct cell_batch batches[4];
    struct cell_batch_row rows[4][CHAINS];
    bed_init(&bed, (enum executor)_i);
    cuda_host_pause(20 * BASE_NS_PER_US);
    const uint64_t before = bed.rig.submitted;
    const uint64_t allocs = cuda_host_counts().allocs;
    const uint64_t own_allocs = base_alloc_count();
    for (uint32_t b = 0; b < 4; b++) {
        for (uint32_t c = 0; c < CHAINS; c++) {
            rows[b][c] = rig_chain_row(&bed.chains[c], parts[b]);
            bed.chains[c].done += parts[b];
        }
        batches[b] = (struct cell_batch){.n_rows = CHAINS, .steps = parts[b], .rows = rows[b]};
        submit(&bed, &batches[b]);
    }
    poll_until(&bed, before + 4);
    ck_assert_uint_eq(cuda_host_counts().allocs, allocs);
    ck_assert_uint_eq(base_alloc_count(), own_allocs);
    for (uint32_t b = 0; b < 4; b++) {
        ck_assert_int_eq(batches[b].status, BASE_OK);
        ck_assert_uint_eq(batches[b].steps_done, parts[b]);
    }
    for (uint32_t c = 0; c < CHAINS; c++) {
        ck_assert_mem_eq(bed.chains[c].outputs[0], bed.wanted[c], STEPS * ROW_BYTES);
    }
    bed_release(&bed);
}
END_TEST

/* Whenever somebody asks for it a run ends soon, another batch follows, and no bit changes. */
START_TEST(test_runs_that_are_interrupted)
{
    static struct bed bed;
    struct base_random random = util_random((uint64_t)_i);
    bed_init(&bed, (enum executor)(_i % EXECUTORS));
    cuda_host_pause(10 * BASE_NS_PER_US);
    _Atomic uint32_t *attention = bed.rig.backend->attention(bed.rig.device, 0);
    uint32_t interrupted = 0;
    while (bed.chains[0].done < STEPS) {
        struct cell_batch_row rows[CHAINS];
        struct cell_batch batch = {.n_rows = CHAINS,
                                   .steps = STEPS - bed.chains[0].done,
                                   .interruptible = true,
                                   .steps_min = 3,
                                   .attention = attention,
                                   .rows = rows};
        for (uint32_t c = 0; c < CHAINS; c++) {
            rows[c] = rig_chain_row(&bed.chains[c], STEPS);
        }
        submit(&bed, &batch);
        const uint64_t until_ns = base_now_ns() + base_random_below(&random, 400000);
        while (base_now_ns() < until_ns) {
            bed.rig.backend->poll(bed.rig.device, 0, base_now_ns());
        }
        atomic_store(attention, 1);
        poll_until(&bed, bed.rig.submitted);
        atomic_store(attention, 0);
        ck_assert_int_eq(batch.status, BASE_OK);
        ck_assert(batch.steps_done >= 3 || batch.steps_done == batch.steps);
        interrupted += batch.steps_done < batch.steps ? 1 : 0;
        for (uint32_t c = 0; c < CHAINS; c++) {
            ck_assert_uint_eq(rows[c].steps_done, batch.steps_done);
            bed.chains[c].done += batch.steps_done;
        }
    }
    ck_assert_uint_gt(interrupted, 0);
    for (uint32_t c = 0; c < CHAINS; c++) {
        ck_assert_mem_eq(bed.chains[c].outputs[0], bed.wanted[c], STEPS * ROW_BYTES);
    }
    bed_release(&bed);
}
END_TEST

/* What was sent behind an interruption is still on its way when the device is closed. */
START_TEST(test_runs_that_leave_pieces_behind)
{
    static struct bed bed;
    bed_init(&bed, (enum executor)_i);
    _Atomic uint32_t *attention = bed.rig.backend->attention(bed.rig.device, 0);
    struct cell_batch_row row = rig_chain_row(&bed.chains[0], STEPS);
    struct cell_batch batch = {
        .n_rows = 1, .steps = STEPS, .interruptible = true, .attention = attention, .rows = &row};
    atomic_store(attention, 1);
    cuda_host_pause(8 * BASE_NS_PER_MS);
    submit(&bed, &batch);
    poll_until(&bed, bed.rig.submitted);
    ck_assert_uint_eq(batch.steps_done, 1);
    bed_release(&bed);
}
END_TEST

/* A chain that reads, in the request's memory, what the chain on the queue before it writes. */
START_TEST(test_runs_that_read_what_is_being_written)
{
    enum { FEW = 10 }; // one piece or task each
    static struct bed bed;
    bed_init(&bed, (enum executor)_i);
    bed.chains[0].wiring.steps = FEW;
    bed.chains[1].wiring.steps = FEW;
    bed.chains[1].wiring.inputs[0] = (struct cell_ref){
        .kind = CELL_REF_HOST, .host = bed.chains[0].outputs[0], .stride_bytes = ROW_BYTES};
    run_alone(&bed, 0, FEW);
    run_alone(&bed, 1, FEW);
    uint8_t *wanted = rig_copy(bed.chains[1].outputs[0], FEW * ROW_BYTES);
    rig_chain_reset(&bed.chains[0], bed.rig.type);
    rig_chain_reset(&bed.chains[1], bed.rig.type);
    cuda_host_pause(50 * BASE_NS_PER_US);
    struct cell_batch_row rows[2];
    struct cell_batch batches[2];
    for (uint32_t c = 0; c < 2; c++) {
        rows[c] = rig_chain_row(&bed.chains[c], FEW);
        batches[c] = (struct cell_batch){.n_rows = 1, .steps = FEW, .rows = &rows[c]};
        submit(&bed, &batches[c]);
    }
    poll_until(&bed, bed.rig.submitted);
    ck_assert_mem_eq(bed.chains[1].outputs[0], wanted, FEW * ROW_BYTES);
    base_free(wanted);
    bed_release(&bed);
}
END_TEST

/* Rows that leave early, in a batch that goes on for others; and pieces behind the last. */
START_TEST(test_runs_of_rows_with_steps_of_their_own)
{
    static struct bed bed;
    struct cell_batch_row rows[CHAINS];
    bed_init(&bed, (enum executor)_i);
    for (uint32_t c = 0; c < CHAINS; c++) {
        rows[c] = rig_chain_row(&bed.chains[c], 20 * c + 3);
    }
    struct cell_batch batch = {.n_rows = CHAINS, .steps = STEPS, .rows = rows};
    rig_run(&bed.rig, &batch);
    ck_assert_uint_eq(batch.steps_done, 20 * (CHAINS - 1) + 3);
    for (uint32_t c = 0; c < CHAINS; c++) {
        ck_assert_uint_eq(rows[c].steps_done, 20 * c + 3);
        ck_assert_mem_eq(bed.chains[c].outputs[0], bed.wanted[c], (20 * c + 3) * ROW_BYTES);
        ck_assert_uint_eq(bed.chains[c].outputs[0][(20 * c + 3) * ROW_BYTES], 0xA5);
    }
    bed_release(&bed);
}
END_TEST

/* A chain on a lane, then in the stream, for c at each step no lane gives away, and back: all on
 * the queue at once, over one state slot. */
START_TEST(test_runs_that_change_the_executor)
{
    static const uint32_t parts[] = {20, 30, 20};
    static struct bed bed;
    static uint8_t states[STEPS * ROW_BYTES];
    struct cell_batch batches[3];
    struct cell_batch_row rows[3];
    struct cell_emit emits[8];
    bed_init(&bed, ON_LANE);
    cuda_host_pause(20 * BASE_NS_PER_US);
    struct cell_wiring odd = bed.chains[0].wiring;
    memcpy(emits, odd.emits, odd.n_emits * sizeof(*emits));
    emits[odd.n_emits++] =
        (struct cell_emit){CELL_EMIT_STATE,
                           CELL_EMIT_EACH,
                           1,
                           {.kind = CELL_REF_HOST, .host = states, .stride_bytes = ROW_BYTES}};
    odd.emits = emits;
    for (uint32_t b = 0; b < 3; b++) {
        rows[b] = rig_chain_row(&bed.chains[0], parts[b]);
        rows[b].wiring = b == 1 ? &odd : rows[b].wiring;
        bed.chains[0].done += parts[b];
        batches[b] = (struct cell_batch){.n_rows = 1, .steps = parts[b], .rows = &rows[b]};
        submit(&bed, &batches[b]);
    }
    poll_until(&bed, bed.rig.submitted);
    ck_assert_mem_eq(bed.chains[0].outputs[0], bed.wanted[0], STEPS * ROW_BYTES);
    bed_release(&bed);
}
END_TEST

/* More references than a piece has room for: the batch fails, those around it do not. */
START_TEST(test_runs_with_too_many_references)
{
    enum { EMITS = 100000 };
    static struct bed bed;
    static struct cell_emit emits[EMITS];
    struct cell_batch_row rows[3];
    struct cell_batch batches[3];
    bed_init(&bed, (enum executor)_i);
    const struct cell_emit own = bed.chains[1].emits[2];
    for (uint32_t e = 0; e < EMITS; e++) {
        emits[e] = own;
    }
    bed.chains[1].wiring.emits = emits;
    bed.chains[1].wiring.n_emits = EMITS;
    for (uint32_t c = 0; c < 3; c++) {
        rows[c] = rig_chain_row(&bed.chains[c], STEPS);
        batches[c] = (struct cell_batch){.n_rows = 1, .steps = STEPS, .rows = &rows[c]};
        submit(&bed, &batches[c]);
    }
    poll_until(&bed, bed.rig.submitted);
    ck_assert_int_eq(batches[0].status, BASE_OK);
    ck_assert_int_eq(batches[1].status, BASE_RESOURCE_EXHAUSTED);
    ck_assert_uint_eq(batches[1].steps_done, 0);
    ck_assert_int_eq(batches[2].status, BASE_OK);
    ck_assert_mem_eq(bed.chains[2].outputs[0], bed.wanted[2], STEPS * ROW_BYTES);
    bed_release(&bed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_runs");
    TCase *tcase = tcase_create("cuda-host");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_runs_behind_each_other, 0, EXECUTORS);
    tcase_add_loop_test(tcase, test_runs_that_are_interrupted, 0, 8 * EXECUTORS);
    tcase_add_loop_test(tcase, test_runs_that_leave_pieces_behind, 0, EXECUTORS);
    tcase_add_loop_test(tcase, test_runs_that_read_what_is_being_written, 0, EXECUTORS);
    tcase_add_loop_test(tcase, test_runs_of_rows_with_steps_of_their_own, 0, EXECUTORS);
    tcase_add_test(tcase, test_runs_that_change_the_executor);
    tcase_add_test(tcase, test_runs_with_too_many_references); // a lane takes them
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
