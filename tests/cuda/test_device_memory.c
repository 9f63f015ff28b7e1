/* Batches whose rows attend to more than a piece has room for, on the CUDA device over a host's
 * driver: they are run in passes, and nobody fails for what the others bring. */
#include "base/mem.h"
#include "cells/cuda/device_state.h"
#include "tests/cells/rig.h"
#include "tests/cuda/driver_host.h"
#include "tests/util.h"

#include <stdatomic.h>
#include <string.h>

enum { ROWS = 13, STEPS = 7, KEY = 200, VALUE = 9, LONGEST = 9000 };

/* A row's memory takes up to LONGEST * (4 * (KEY + VALUE) + 2 * 68) bytes, 8.7 MB of the 33.5 that
 * there are. */
#define ROOM_BYTES   68u /* of the keys, a position: a score and its 16 partial sums */
#define MEMORY_BYTES ((size_t)32 << 20)

/* Chains of different lengths that sum what they attend to, and their answers on the CPU. */
struct bed {
    struct build build;
    struct rig rig;
    struct rig_chain chains[ROWS];
    float *keys[ROWS], *values[ROWS];
    uint8_t *wanted[ROWS];
};

static void build_sum(struct build *build)
{
    build_init(build, 3);
    const uint32_t q = build_input(build, CELL_F32, KEY);
    const uint32_t keys = build_input(build, CELL_F32, KEY);
    const uint32_t values = build_input(build, CELL_F32, VALUE);
    const uint32_t sum = build_state(build, CELL_F32, VALUE);
    const uint32_t out = build_op(build, CELL_OP_ATTEND, q, keys, VALUE);
    struct cell_op *op = build_last(build);
    op->operands[op->n_operands++] = values;
    op->variant = CELL_ATTEND_PRODUCT;
    op->n_weights = 1;
    op->weights[0] = (struct cell_weight){CELL_F32, 1, KEY, build_floats(build, 1, KEY, 0.1f)};
    const uint32_t next = build_op(build, CELL_OP_ADD, sum, out, VALUE);
    build_next(build, 0, next);
    build_output(build, next);
}

static float *random_rows(uint32_t rows, uint32_t width, struct base_random *random)
{
    float *floats = base_alloc_array((size_t)(rows + 1) * width, sizeof(*floats));
    ck_assert_ptr_nonnull(floats);
    for (size_t i = 0; i < (size_t)rows * width; i++) {
        floats[i] = base_random_f32(random, -2.0f, 2.0f);
    }
    return floats;
}

static struct cell_ref memory_of(float *rows, uint32_t width, uint32_t n)
{
    return (struct cell_ref){.kind = CELL_REF_HOST,
                             .host = (uint8_t *)rows,
                             .stride_bytes = (int64_t)(width * sizeof(float)),
                             .rows = n};
}

static size_t output_bytes(const struct bed *bed, uint32_t r)
{
    return bed->chains[r].wiring.steps * VALUE * sizeof(float);
}

/* What is left of all chains, so many steps of each at most. */
static struct cell_batch batch_of(struct bed *bed, struct cell_batch_row *rows, uint32_t steps)
{
    struct cell_batch batch = {.steps = steps, .rows = rows};
    for (uint32_t r = 0; r < ROWS; r++) {
        if (bed->chains[r].done < bed->chains[r].wiring.steps) {
            rows[batch.n_rows] = rig_chain_row(&bed->chains[r], steps);
            rows[batch.n_rows++].tag = &bed->chains[r];
        }
    }
    return batch;
}

static void bed_init(struct bed *bed, uint32_t longest)
{
    struct base_random random = util_random(6);
    struct cell_batch_row rows[ROWS];
    struct rig cpu;
    build_sum(&bed->build);
    rig_init(&cpu, "cpu", NULL, 0, &bed->build.def);
    rig_init(&bed->rig, "cuda-host", NULL, 0, &bed->build.def);
    for (uint32_t r = 0; r < ROWS; r++) {
        const uint32_t n = r == 4 ? 0 : longest - base_random_below(&random, longest / 2);
        // The longest stand in the first pass.
        const uint32_t steps = 1 + (r * 3 + 5) % (r < 6 ? STEPS : STEPS - 2);
        rig_chain_init(&bed->chains[r], cpu.type, r, steps, &random);
        bed->keys[r] = random_rows(n, KEY, &random);
        bed->values[r] = random_rows(n, VALUE, &random);
        bed->chains[r].wiring.inputs[1] = memory_of(bed->keys[r], KEY, n);
        bed->chains[r].wiring.inputs[2] = memory_of(bed->values[r], VALUE, n);
    }
    struct cell_batch batch = batch_of(bed, rows, STEPS);
    rig_run(&cpu, &batch);
    for (uint32_t r = 0; r < ROWS; r++) {
        bed->wanted[r] = rig_copy(bed->chains[r].outputs[0], output_bytes(bed, r));
        rig_chain_reset(&bed->chains[r], cpu.type);
    }
    rig_release(&cpu);
}

static void bed_release(struct bed *bed)
{
    for (uint32_t r = 0; r < ROWS; r++) {
        ck_assert_mem_eq(bed->chains[r].outputs[0], bed->wanted[r], output_bytes(bed, r));
        base_free(bed->wanted[r]);
        base_free(bed->keys[r]);
        base_free(bed->values[r]);
        rig_chain_release(&bed->chains[r]);
    }
    rig_release(&bed->rig);
    ck_assert_uint_eq(cuda_host_counts().unsound, 0);
    build_release(&bed->build);
}

static void take(const struct cell_batch *batch)
{
    for (uint32_t r = 0; r < batch->n_rows; r++) {
        struct rig_chain *chain = batch->rows[r].tag;
        chain->done += batch->rows[r].steps_done;
    }
}

/* Chains of 1 to STEPS steps, whose memories are 3 to 4 times what a piece has room for. */
START_TEST(test_what_rows_attend_to_may_be_more_than_fits)
{
    static struct bed bed;
    struct cell_batch_row rows[ROWS];
    bed_init(&bed, LONGEST);
    struct cell_batch batch = batch_of(&bed, rows, STEPS);
    rig_run(&bed.rig, &batch);
    ck_assert_uint_eq(batch.steps_done, STEPS);
    for (uint32_t r = 0; r < ROWS; r++) {
        ck_assert_uint_eq(rows[r].steps_done, rows[r].steps);
        ck_assert(!rows[r].has_ended);
    }
    bed_release(&bed);
}
END_TEST

/* Attention ends the first pass, and the others take as many steps; or as many as it did before. */
START_TEST(test_a_batch_in_passes_is_interrupted_as_one)
{
    static struct bed bed;
    struct cell_batch_row rows[ROWS];
    bed_init(&bed, LONGEST);
    _Atomic uint32_t *attention = bed.rig.backend->attention(bed.rig.device, 0);
    const uint32_t wanted[] = {1, 3, STEPS - 4};
    for (uint32_t i = 0; i < 3; i++) {
        struct cell_batch batch = batch_of(&bed, rows, STEPS);
        batch.interruptible = true;
        batch.steps_min = wanted[i];
        atomic_store(attention, 1);
        rig_run(&bed.rig, &batch);
        ck_assert_uint_eq(batch.steps_done, wanted[i]);
        for (uint32_t r = 0; r < batch.n_rows; r++) {
            const uint32_t steps = rows[r].steps < wanted[i] ? rows[r].steps : wanted[i];
            ck_assert_uint_eq(rows[r].steps_done, steps);
        }
        take(&batch);
    }
    atomic_store(attention, 0);
    bed_release(&bed);
}
END_TEST

static void submit(struct bed *bed, struct cell_batch *batch)
{
    batch->type = bed->rig.type;
    batch->status = BASE_INTERNAL;
    bed->rig.backend->submit(bed->rig.device, 0, batch);
    bed->rig.submitted++;
}

static void poll_all(struct bed *bed)
{
    uint64_t now_ns = 1;
    while (atomic_load(bed->rig.backend->completed(bed->rig.device, 0)) < bed->rig.submitted) {
        bed->rig.backend->poll(bed->rig.device, 0, now_ns++);
    }
}

/* When the first pass has taken all steps, so do the others, whoever asks. */
START_TEST(test_a_later_pass_is_not_interrupted)
{
    static struct bed bed;
    struct cell_batch_row rows[ROWS];
    bed_init(&bed, LONGEST);
    _Atomic uint32_t *attention = bed.rig.backend->attention(bed.rig.device, 0);
    struct cell_batch batch = batch_of(&bed, rows, STEPS);
    batch.interruptible = true;
    batch.steps_min = 1;
    cuda_host_pause(2000000);
    submit(&bed, &batch);
    for (uint64_t now_ns = 1; rows[0].steps_done == 0; now_ns++) {
        bed.rig.backend->poll(bed.rig.device, 0, now_ns);
    }
    ck_assert_uint_eq(rows[ROWS - 1].steps_done, 0);
    atomic_store(attention, 1);
    cuda_host_pause(0);
    poll_all(&bed);
    atomic_store(attention, 0);
    ck_assert_int_eq(batch.status, BASE_OK);
    for (uint32_t r = 0; r < ROWS; r++) {
        ck_assert_uint_eq(rows[r].steps_done, rows[r].steps);
    }
    bed_release(&bed);
}
END_TEST

/* The same rows' next steps stand behind: they come when all passes before are over. */
START_TEST(test_batches_behind_one_in_passes)
{
    static struct bed bed;
    struct cell_batch_row rows[3][ROWS];
    struct cell_batch batches[3];
    bed_init(&bed, LONGEST);
    cuda_host_pause(_i == 0 ? 0 : 200000);
    for (uint32_t b = 0; b < 3; b++) {
        const uint32_t steps = b == 2 ? STEPS : 2;
        batches[b] = batch_of(&bed, rows[b], steps);
        submit(&bed, &batches[b]);
        for (uint32_t r = 0; r < batches[b].n_rows; r++) {
            struct rig_chain *chain = rows[b][r].tag;
            chain->done += rows[b][r].steps;
        }
    }
    poll_all(&bed);
    cuda_host_pause(0);
    for (uint32_t b = 0; b < 3; b++) {
        ck_assert_int_eq(batches[b].status, BASE_OK);
    }
    bed_release(&bed);
}
END_TEST

/* A row that is too large alone is told so before; in a batch it fails, and what follows does not.
 */
START_TEST(test_a_row_that_is_too_large_alone)
{
    static struct bed bed;
    struct cell_batch_row rows[ROWS];
    struct base_error error = {BASE_OK, ""};
    char number[32];
    bed_init(&bed, 40);
    struct rig_chain *chain = &bed.chains[2];
    struct cell_ref *inputs = chain->wiring.inputs;
    const struct cell_ref kept[] = {inputs[1], inputs[2]};
    const size_t position_bytes = (KEY + VALUE) * sizeof(float) + ROOM_BYTES;
    inputs[1].stride_bytes = inputs[2].stride_bytes = 0; // one row again and again
    inputs[1].rows = inputs[2].rows = (uint32_t)(MEMORY_BYTES / position_bytes);
    ck_assert_int_eq(
        bed.rig.backend->wiring_check(bed.rig.device, bed.rig.type, &chain->wiring, &error),
        BASE_OK);
    struct cell_batch batch = {.n_rows = 1, .steps = 1, .rows = rows};
    rows[0] = rig_chain_row(chain, 1);
    rig_run(&bed.rig, &batch); // just so
    inputs[1].rows = ++inputs[2].rows;
    ck_assert_int_eq(
        bed.rig.backend->wiring_check(bed.rig.device, bed.rig.type, &chain->wiring, &error),
        BASE_RESOURCE_EXHAUSTED);
    snprintf(number, sizeof(number), " %zu bytes", inputs[1].rows * position_bytes);
    ck_assert_ptr_nonnull(strstr(error.message, number));
    snprintf(number, sizeof(number), " has %zu ", MEMORY_BYTES);
    ck_assert_ptr_nonnull(strstr(error.message, number));
    inputs[1].rows = inputs[2].rows += 100000;
    for (uint32_t r = 0; r < ROWS; r++) {
        rig_chain_reset(&bed.chains[r], bed.rig.type);
    }
    batch = batch_of(&bed, rows, STEPS);
    submit(&bed, &batch);
    poll_all(&bed);
    ck_assert_int_eq(batch.status, BASE_RESOURCE_EXHAUSTED);
    inputs[1] = kept[0];
    inputs[2] = kept[1];
    for (uint32_t r = 0; r < ROWS; r++) {
        rig_chain_reset(&bed.chains[r], bed.rig.type);
    }
    batch = batch_of(&bed, rows, STEPS);
    rig_run(&bed.rig, &batch);
    bed_release(&bed);
}
END_TEST

/* Lanes of a search are cut from others, not from one another. */
START_TEST(test_a_search_is_in_one_pass)
{
    static struct cell_type type;
    struct build build;
    struct cell_beam beam = {.width = 4};
    struct cell_wiring wirings[8];
    struct cell_refs refs = {.inputs = {{.kind = CELL_REF_ZERO}}};
    struct cell_batch_row rows[8];
    build_sum(&build);
    type.def = build.def;
    refs.inputs[1] = memory_of(NULL, KEY, 10);
    for (uint32_t r = 0; r < 8; r++) {
        const bool is_lane = r >= 2 && r < 6;
        wirings[r] = (struct cell_wiring){
            .steps = 1, .lane = is_lane ? r - 2 : 0, .beam = is_lane ? &beam : NULL};
        cell_wiring_use(&wirings[r], &refs);
        rows[r] = (struct cell_batch_row){.wiring = &wirings[r], .first_step = 1, .steps = 1};
    }
    const struct cell_batch batch = {.type = &type, .n_rows = 8, .steps = 1, .rows = rows};
    struct cell_cuda__program program = {.outbox_bytes = 100000};
    uint32_t before = 0;
    for (size_t bytes = 0; bytes < 100000; bytes += 100) {
        program.inbox_bytes = bytes;
        const uint32_t fit = cell_cuda__piece_rows(&program, &batch);
        ck_assert(fit >= before && (fit <= 2 || fit >= 6));
        before = fit;
    }
    ck_assert_uint_eq(before, 8);
    program.outbox_bytes = 0;
    ck_assert_uint_eq(cell_cuda__piece_rows(&program, &batch), 0);
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_memory");
    TCase *tcase = tcase_create("cuda-host");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, test_what_rows_attend_to_may_be_more_than_fits);
    tcase_add_test(tcase, test_a_batch_in_passes_is_interrupted_as_one);
    tcase_add_test(tcase, test_a_later_pass_is_not_interrupted);
    tcase_add_loop_test(tcase, test_batches_behind_one_in_passes, 0, 2);
    tcase_add_test(tcase, test_a_search_is_in_one_pass);
    tcase_add_test(tcase, test_a_row_that_is_too_large_alone);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
