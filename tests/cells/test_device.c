/* The CPU device: batches, rows, emits, attention; on every instruction set, with teams of one and
 * two; what a batch means, on the CUDA device's host driver too. Chains split over batches in any
 * way must give the bits of one run. */
#include "cells/backend.h"

#include "base/mem.h"
#include "tests/cells/isa.h"
#include "tests/cells/rig.h"
#include "tests/cells/split.h"
#include "tests/util.h"

#include <stdatomic.h>
#include <string.h>

static struct rig_chain chains[4];

/* By the instruction set, on one thread and on two. */
static void assert_split_equals_one_run(const struct cell_def *def, const char *isa,
                                        uint32_t n_chains, uint32_t steps_max)
{
    struct split_options options = {
        .def = def, .isa = isa, .n_chains = n_chains, .steps_max = steps_max};
    struct split_difference difference;
    if (util_is_quick() && strcmp(isa, "scalar") == 0) {
        return; // it is what the others are compared with
    }
    options.members = util_is_quick() ? 2 : 1;
    for (; options.members <= 2; options.members++) {
        if (!split_has_the_bits_of_one_run(&options, &difference)) {
            ck_abort_msg("%u members: %s", options.members, difference.text);
        }
    }
}

enum { PRECISIONS = 3 };

START_TEST(test_device_gru_split_has_the_bits_of_one_run)
{
    struct build build;
    const int isa = _i / 2 % ISA_COUNT;
    build_init(&build, 23);
    uint32_t x = build_input(&build, CELL_F32, 70);
    uint32_t h = build_state(&build, CELL_F32, 150);
    uint32_t out = build_gated(&build, CELL_OP_GRU, (uint32_t)_i % 2, x, h, true);
    build_next(&build, 0, out);
    build_output(&build, out);
    build_last(&build)->precision = (enum cell_precision)(_i / 2 / ISA_COUNT);
    if (isa_at(isa) != NULL) {
        assert_split_equals_one_run(&build.def, isa_name(isa), 12, 9);
    }
    build_release(&build);
}
END_TEST

START_TEST(test_device_lstm_split_has_the_bits_of_one_run)
{
    struct build build;
    const int isa = _i % ISA_COUNT;
    build_lstm_cell(&build, 70, 130, 21); // enough work that a team of two shares it
    build_last(&build)->precision = (enum cell_precision)(_i / ISA_COUNT);
    if (isa_at(isa) != NULL) {
        assert_split_equals_one_run(&build.def, isa_name(isa), 12, 9);
    }
    build_release(&build);
}
END_TEST

/* More weights than an L2 holds: batches of up to 12 rows have windows. */
START_TEST(test_device_large_lstm_split_has_the_bits_of_one_run)
{
    struct build build;
    build_lstm_cell(&build, 420, 450, 23);
    if (isa_at(_i) != NULL) {
        assert_split_equals_one_run(&build.def, isa_name(_i), 12, 24);
    }
    build_release(&build);
}
END_TEST

/* An embedding, an LSTM with what surrounds it, and a third state that counts in integers. */
static void build_reader(struct build *build)
{
    build_init(build, 31);
    uint32_t id = build_input(build, CELL_I64, 1);
    uint32_t x = build_input(build, CELL_F32, 20);
    uint32_t h = build_state(build, CELL_F32, 66);
    uint32_t c = build_state(build, CELL_F32, 66);
    uint32_t last = build_state(build, CELL_I64, 1);
    uint32_t embedded = build_gather(build, id, 10, 20);
    uint32_t seen = build_gather(build, last, 10, 20);
    uint32_t sum = build_op(build, CELL_OP_ADD, embedded, seen, 20);
    uint32_t both = build_concat(build, 2, (const uint32_t[]){sum, x});
    uint32_t wide = build_linear(build, both, 300, true);
    uint32_t rectified = build_op(build, CELL_OP_RELU, wide, UINT32_MAX, 300);
    uint32_t lstm = build_lstm(build, rectified, h, c, true);
    uint32_t logits = build_linear(build, lstm, 200, false);
    uint32_t soft = build_op(build, CELL_OP_SOFTMAX, logits, UINT32_MAX, 200);
    build_next(build, 0, lstm);
    build_next(build, 1, lstm + 1);
    build_next(build, 2, id);
    (void)last;
    build_output(build, soft);
}

START_TEST(test_device_program_split_has_the_bits_of_one_run)
{
    struct build build;
    build_reader(&build);
    if (isa_at(_i) != NULL) {
        assert_split_equals_one_run(&build.def, isa_name(_i), 12, 9);
    }
    build_release(&build);
}
END_TEST

/* More chains than there are windows, and longer than these, over and over. */
START_TEST(test_device_windows_split_has_the_bits_of_one_run)
{
    struct build build;
    const int isa = _i % ISA_COUNT;
    split_build_front(&build);
    for (uint32_t o = 0; o < build.def.n_ops; o++) {
        build.def.ops[o].precision = (enum cell_precision)(_i / ISA_COUNT);
    }
    if (isa_at(isa) != NULL) {
        assert_split_equals_one_run(&build.def, isa_name(isa), SPLIT_CHAINS_MAX,
                                    util_is_quick() ? 40 : 75);
    }
    build_release(&build);
}
END_TEST

START_TEST(test_device_own_cell_split_has_the_bits_of_one_run)
{
    struct build build;
    build_own_cell(&build, 90, 100, 29);
    if (isa_at(_i) != NULL) {
        assert_split_equals_one_run(&build.def, isa_name(_i), SPLIT_CHAINS_MAX, 40);
    }
    build_release(&build);
}
END_TEST

enum { READERS = 7, READER_STEPS = 12 };

/* What some chains in one batch give, behind each other; ended with base_free(). */
static uint8_t *run_readers(const struct cell_def *def, const char *isa, uint32_t members,
                            size_t *bytes)
{
    struct rig rig;
    struct rig_chain readers[READERS];
    struct cell_batch_row rows[READERS];
    struct base_random random = util_random(6);
    const size_t chain_bytes = READER_STEPS * def->values[def->outputs[0]].width * sizeof(float);
    *bytes = READERS * chain_bytes;
    uint8_t *all = base_alloc(*bytes);
    ck_assert_ptr_nonnull(all);
    rig_init(&rig, "cpu", isa, members, def);
    for (uint32_t r = 0; r < READERS; r++) {
        rig_chain_init(&readers[r], rig.type, r, READER_STEPS, &random);
        rows[r] = rig_chain_row(&readers[r], READER_STEPS);
    }
    struct cell_batch batch = {.n_rows = READERS, .steps = READER_STEPS, .rows = rows};
    rig_run(&rig, &batch);
    for (uint32_t r = 0; r < READERS; r++) {
        memcpy(all + r * chain_bytes, readers[r].outputs[0], chain_bytes);
        rig_chain_release(&readers[r]);
    }
    rig_release(&rig);
    return all;
}

/* LSTM, both GRUs and RNN over the rows of an embedding. */
static void build_embedded(struct build *build, int kind, uint32_t words, uint32_t width,
                           uint32_t hidden)
{
    build_init(build, 51);
    uint32_t id = build_input(build, CELL_I32, 1);
    uint32_t h = build_state(build, CELL_F32, hidden);
    uint32_t c = build_state(build, CELL_F32, hidden);
    uint32_t x = build_gather(build, id, words, width);
    uint32_t out = kind == 0   ? build_lstm(build, x, h, c, true)
                   : kind == 3 ? build_gated(build, CELL_OP_RNN, CELL_RNN_TANH, x, h, true)
                               : build_gated(build, CELL_OP_GRU, (uint32_t)kind - 1, x, h, true);
    build_next(build, 0, out);
    build_next(build, 1, kind == 0 ? out + 1 : c);
    build_output(build, out);
}

enum { EMBEDDED_KINDS = 4 };

/* Sums that were looked up have the bits of those that a step multiplies out. */
START_TEST(test_device_gate_tables_have_the_bits_of_products)
{
    const int isa = _i % ISA_COUNT;
    const int kind = _i / ISA_COUNT % EMBEDDED_KINDS;
    struct build build;
    build_embedded(&build, kind, 10, 70, 150);
    build_last(&build)->precision = (enum cell_precision)(_i / ISA_COUNT / EMBEDDED_KINDS);
    for (uint32_t members = 1; members <= 2 && isa_at(isa) != NULL; members++) {
        size_t bytes = 0;
        build.def.as_written = false;
        uint8_t *looked_up = run_readers(&build.def, isa_name(isa), members, &bytes);
        build.def.as_written = true;
        uint8_t *multiplied = run_readers(&build.def, "scalar", 1, &bytes);
        ck_assert_mem_eq(looked_up, multiplied, bytes);
        base_free(looked_up);
        base_free(multiplied);
    }
    build_release(&build);
}
END_TEST

/* Served as it is and multiplied out as written, it says the same. */
static void check_readers_as_written(struct cell_def *def)
{
    size_t bytes = 0;
    uint8_t *served = run_readers(def, NULL, 1, &bytes);
    def->as_written = true;
    uint8_t *multiplied = run_readers(def, "scalar", 1, &bytes);
    ck_assert_mem_eq(served, multiplied, bytes);
    base_free(served);
    base_free(multiplied);
}

/* A vocabulary whose table would be too large is multiplied out. */
START_TEST(test_device_large_embeddings_have_no_table)
{
    struct build build;
    build_embedded(&build, 0, 60000, 9, 20);
    check_readers_as_written(&build.def);
    build_release(&build);
}
END_TEST

/* As many ops as a definition may have, each of which becomes five in a program. */
START_TEST(test_device_largest_definition_runs)
{
    struct build build;
    build_init(&build, 53);
    uint32_t id = build_input(&build, CELL_I32, 1);
    uint32_t h = build_input(&build, CELL_F32, 3);
    uint32_t x = build_gather(&build, id, 10, 2);
    uint32_t out = h;
    for (uint32_t o = 1; o < CELL_OPS_MAX; o++) {
        out = build_gated(&build, CELL_OP_GRU, CELL_GRU_RESET_BEFORE, x, h, true);
    }
    build_output(&build, out);
    ck_assert_uint_eq(build.def.n_ops, CELL_OPS_MAX);
    check_readers_as_written(&build.def);
    build_release(&build);
}
END_TEST

/* Where batches, rows and references must mean the same. */
static const char *const devices[] = {"cpu", "cuda-host"};
enum { DEVICES = sizeof(devices) / sizeof(devices[0]) };

START_TEST(test_device_attention_ends_a_batch_after_one_step)
{
    struct build build;
    build_lstm_cell(&build, 7, 5, 41);
    struct rig rig;
    rig_init(&rig, devices[_i], NULL, 1, &build.def);
    struct base_random random = util_random(42);
    rig_chain_init(&chains[0], rig.type, 3, 8, &random);
    rig_chain_init(&chains[1], rig.type, 4, 8, &random);
    struct cell_batch_row rows[2] = {rig_chain_row(&chains[0], 8), rig_chain_row(&chains[1], 1)};
    _Atomic uint32_t own;
    _Atomic uint32_t *attention =
        rig.backend->attention == NULL ? &own : rig.backend->attention(rig.device, 0);
    atomic_store(attention, 1);
    struct cell_batch batch = {
        .n_rows = 2, .steps = 8, .interruptible = true, .attention = attention, .rows = rows};
    rig_run(&rig, &batch);
    ck_assert_uint_eq(batch.steps_done, 1);
    ck_assert_uint_eq(rows[0].steps_done, 1);
    ck_assert_uint_eq(rows[1].steps_done, 1);
    batch.interruptible = false; // then it is not looked at
    rig_run(&rig, &batch);
    ck_assert_uint_eq(batch.steps_done, 8);
    ck_assert_uint_eq(rows[1].steps_done, 1);
    atomic_store(attention, 0);
    batch.interruptible = true;
    rig_run(&rig, &batch);
    ck_assert_uint_eq(batch.steps_done, 8);
    rig_chain_release(&chains[0]);
    rig_chain_release(&chains[1]);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

START_TEST(test_device_batch_ends_when_no_row_is_left)
{
    struct build build;
    build_lstm_cell(&build, 7, 5, 41);
    struct rig rig;
    rig_init(&rig, devices[_i], NULL, 1, &build.def);
    struct base_random random = util_random(42);
    rig_chain_init(&chains[0], rig.type, 3, 2, &random);
    struct cell_batch_row row = rig_chain_row(&chains[0], 2);
    struct cell_batch batch = {.n_rows = 1, .steps = 8, .rows = &row};
    rig_run(&rig, &batch);
    ck_assert_uint_eq(batch.steps_done, 2);
    ck_assert_uint_eq(row.steps_done, 2);
    rig_chain_release(&chains[0]);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

/* Two chains in a row, wired through a value row: the second starts from the first's last state
 * and reads the first's last output at every step. */
START_TEST(test_device_value_rows_carry_values_between_chains)
{
    struct build build;
    build_lstm_cell(&build, 5, 5, 51);
    struct rig rig;
    rig_init(&rig, devices[_i], NULL, 1, &build.def);
    struct base_random random = util_random(52);
    struct rig_chain *first = &chains[0];
    struct rig_chain *second = &chains[1];
    rig_chain_init(first, rig.type, 0, 4, &random);
    rig_chain_init(second, rig.type, 1, 3, &random);
    struct cell_ref output = {.kind = CELL_REF_VALUE, .row = 9};
    struct cell_ref state = {.kind = CELL_REF_VALUE, .row = 10};
    first->emits[first->wiring.n_emits++] =
        (struct cell_emit){CELL_EMIT_OUTPUT, CELL_EMIT_LAST, 0, output};
    first->emits[first->wiring.n_emits++] =
        (struct cell_emit){CELL_EMIT_STATE, CELL_EMIT_LAST, 1, state};
    second->wiring.inputs[0] = output;
    second->wiring.init[0].kind = CELL_REF_ZERO;
    second->wiring.init[1] = state;
    struct cell_batch_row row = rig_chain_row(first, 4);
    struct cell_batch batch = {.n_rows = 1, .steps = 4, .rows = &row};
    rig_run(&rig, &batch);
    float kept[5];
    rig.backend->row_read(rig.device, rig.type->output_layouts[0], 9, 0, 0, kept);
    ck_assert_mem_eq(kept, first->final[0], sizeof(kept));
    rig.backend->row_read(rig.device, rig.type->state_layouts[1], 10, 0, 0, kept);
    ck_assert_mem_eq(kept, first->final[1], sizeof(kept));
    row = rig_chain_row(second, 3);
    batch.steps = 3;
    rig_run(&rig, &batch);
    uint8_t *wanted = rig_copy(second->outputs[0], 3 * sizeof(kept));
    // The same from host memory.
    second->wiring.inputs[0] = (struct cell_ref){.kind = CELL_REF_HOST, .host = first->final[0]};
    second->wiring.init[1].kind = CELL_REF_HOST;
    second->wiring.init[1].host = first->final[1];
    rig_chain_reset(second, rig.type);
    rig_run(&rig, &batch);
    ck_assert_mem_eq(second->outputs[0], wanted, 3 * sizeof(kept));
    base_free(wanted);
    rig_chain_release(first);
    rig_chain_release(second);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

START_TEST(test_device_backward_chain_reads_and_writes_with_negative_strides)
{
    struct build build;
    build_lstm_cell(&build, 5, 5, 51);
    struct rig rig;
    rig_init(&rig, devices[_i], NULL, 1, &build.def);
    struct base_random random = util_random(53);
    rig_chain_init(&chains[0], rig.type, 0, 6, &random);
    struct cell_batch_row row = rig_chain_row(&chains[0], 6);
    struct cell_batch batch = {.n_rows = 1, .steps = 6, .rows = &row};
    rig_run(&rig, &batch);
    uint8_t *wanted = rig_copy(chains[0].outputs[0], 6 * 20);
    // Turn the input around, and read and write it from the end.
    uint8_t turned[6 * 20];
    for (size_t t = 0; t < 6; t++) {
        memcpy(turned + t * 20, chains[0].inputs[0] + (5 - t) * 20, 20);
    }
    chains[0].wiring.inputs[0].host = turned + 5 * 20;
    chains[0].wiring.inputs[0].stride_bytes = -20;
    chains[0].emits[2].to.host = chains[0].outputs[0] + 5 * 20;
    chains[0].emits[2].to.stride_bytes = -20;
    rig_run(&rig, &batch);
    for (size_t t = 0; t < 6; t++) {
        ck_assert_mem_eq(chains[0].outputs[0] + (5 - t) * 20, wanted + t * 20, 20);
    }
    base_free(wanted);
    rig_chain_release(&chains[0]);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

START_TEST(test_device_state_can_be_moved_between_slots)
{
    struct build build;
    build_lstm_cell(&build, 5, 5, 61);
    struct rig rig;
    rig_init(&rig, devices[_i], NULL, 1, &build.def);
    struct base_random random = util_random(62);
    rig_chain_init(&chains[0], rig.type, 0, 6, &random);
    struct cell_batch_row row = rig_chain_row(&chains[0], 6);
    struct cell_batch batch = {.n_rows = 1, .steps = 6, .rows = &row};
    rig_run(&rig, &batch);
    uint8_t *wanted = rig_copy(chains[0].outputs[0], 6 * 20);
    for (uint32_t half = 1; half < 6; half++) {
        rig_chain_reset(&chains[0], rig.type);
        chains[0].wiring.state = 0;
        row = rig_chain_row(&chains[0], half);
        rig_run(&rig, &batch);
        for (uint32_t part = 0; part < 2; part++) {
            float state[5];
            rig.backend->row_read(rig.device, rig.type->state_layout, 0, part, half, state);
            rig.backend->row_write(rig.device, rig.type->state_layout, 7, part, half, state);
        }
        chains[0].wiring.state = 7;
        chains[0].done = half;
        row = rig_chain_row(&chains[0], 6 - half);
        rig_run(&rig, &batch);
        ck_assert_mem_eq(chains[0].outputs[0], wanted, 6 * 20);
    }
    base_free(wanted);
    rig_chain_release(&chains[0]);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

START_TEST(test_device_emits_a_state_at_each_step)
{
    struct build build;
    build_lstm_cell(&build, 140, 130, 71);
    struct rig rig;
    rig_init(&rig, devices[_i], NULL, 2, &build.def);
    struct base_random random = util_random(72);
    struct cell_batch_row rows[4];
    float cells[4][5][130];
    for (uint32_t i = 0; i < 4; i++) {
        rig_chain_init(&chains[i], rig.type, i, 5, &random);
        struct cell_ref to = {.kind = CELL_REF_HOST,
                              .host = (uint8_t *)cells[i],
                              .stride_bytes = sizeof(cells[i][0])};
        chains[i].emits[chains[i].wiring.n_emits++] =
            (struct cell_emit){CELL_EMIT_STATE, CELL_EMIT_EACH, 1, to};
        rows[i] = rig_chain_row(&chains[i], 5);
    }
    struct cell_batch batch = {.n_rows = 4, .steps = 5, .rows = rows};
    rig_run(&rig, &batch);
    for (uint32_t t = 0; t < 5; t++) {
        for (uint32_t i = 0; i < 4; i++) {
            rig_chain_reset(&chains[i], rig.type);
            chains[i].wiring.n_emits--;
            struct cell_batch_row row = rig_chain_row(&chains[i], t + 1);
            struct cell_batch alone = {.n_rows = 1, .steps = t + 1, .rows = &row};
            rig_run(&rig, &alone);
            chains[i].wiring.n_emits++;
            float state[130];
            rig.backend->row_read(rig.device, rig.type->state_layout, i, 1, t + 1, state);
            ck_assert_mem_eq(state, cells[i][t], sizeof(state));
        }
    }
    for (uint32_t i = 0; i < 4; i++) {
        rig_chain_release(&chains[i]);
    }
    rig_release(&rig);
    build_release(&build);
}
END_TEST

/* Inputs and units of cells that a team shares even with one row; what they emit is less than a
 * cache line, some lines and a piece, and many. */
static const uint32_t emitted[][2] = {{2000, 5}, {300, 33}, {140, 130}};
enum { EMITTED = sizeof(emitted) / sizeof(emitted[0]), EMITTED_STEPS = 5 };

/* One chain with all steps; what it has emitted: outputs, then c at each step. Ended with
 * base_free(). */
static uint8_t *run_emitting(const char *backend, const struct cell_def *def, uint32_t members)
{
    const size_t bytes = (size_t)EMITTED_STEPS * def->values[def->outputs[0]].width * sizeof(float);
    struct rig rig;
    rig_init(&rig, backend, NULL, members, def);
    struct base_random random = util_random(74);
    rig_chain_init(&chains[0], rig.type, 0, EMITTED_STEPS, &random);
    uint8_t *all = base_alloc(2 * bytes);
    ck_assert_ptr_nonnull(all);
    struct cell_ref to = {.kind = CELL_REF_HOST,
                          .host = all + bytes,
                          .stride_bytes = (int64_t)(bytes / EMITTED_STEPS)};
    chains[0].emits[chains[0].wiring.n_emits++] =
        (struct cell_emit){CELL_EMIT_STATE, CELL_EMIT_EACH, 1, to};
    struct cell_batch_row row = rig_chain_row(&chains[0], EMITTED_STEPS);
    struct cell_batch batch = {.n_rows = 1, .steps = EMITTED_STEPS, .rows = &row};
    rig_run(&rig, &batch);
    memcpy(all, chains[0].outputs[0], bytes);
    rig_chain_release(&chains[0]);
    rig_release(&rig);
    return all;
}

/* Each member then emits a part of the row (cells/cpu/run.c). */
START_TEST(test_device_one_row_is_emitted_by_many_members)
{
    for (uint32_t shape = 0; shape < EMITTED; shape++) {
        struct build build;
        build_lstm_cell(&build, emitted[shape][0], emitted[shape][1], 73);
        uint8_t *wanted = run_emitting(devices[_i], &build.def, 1);
        for (uint32_t members = 2; members <= 4; members++) {
            uint8_t *got = run_emitting(devices[_i], &build.def, members);
            ck_assert_mem_eq(got, wanted, 2 * EMITTED_STEPS * emitted[shape][1] * sizeof(float));
            base_free(got);
        }
        base_free(wanted);
        build_release(&build);
    }
}
END_TEST

START_TEST(test_device_options_are_checked)
{
    const struct cell_backend *cpu = cell_backend_find("cpu");
    struct cell_device *device = NULL;
    struct base_error error = {BASE_OK, ""};
    struct cell_device_options options = {.n_queues = 1, .isa = "mmx", .batches_queued_max = 1};
    ck_assert_int_eq(cpu->open(&options, &device, &error), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "mmx"));
    options.isa = "scalar";
    options.n_queues = 0;
    ck_assert_int_eq(cpu->open(&options, &device, &error), BASE_INVALID_ARGUMENT);
    options.n_queues = 2;
    ck_assert_int_eq(cpu->open(&options, &device, &error), BASE_OK);
    struct cell_device_caps caps;
    cpu->caps(device, &caps);
    ck_assert(caps.pumped && caps.invariant_bits);
    ck_assert_str_eq(caps.description, "cpu scalar, 2 threads");
    ck_assert(!cpu->pump(device, 1));
    cpu->close(device);
    ck_assert_ptr_null(cell_backend_find("abacus"));
    ck_assert_ptr_eq(cell_backend_at(0), cpu);
}
END_TEST

START_TEST(test_device_every_failed_allocation_is_reported)
{
    struct build build;
    build_reader(&build);
    struct rig rig;
    rig_init(&rig, "cpu", NULL, 0, &build.def);
    rig.backend->type_unload(rig.device, rig.type);
    struct base_error error = {BASE_OK, ""};
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    uint64_t n = 1;
    for (; status != BASE_OK; n++) {
        base_alloc_fail_at(n);
        status = rig.backend->type_load(rig.device, rig.type, &error);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
    }
    base_alloc_fail_at(0);
    ck_assert_uint_gt(n, 5);
    rig_release(&rig);
    build_release(&build);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device");
    TCase *tcase = tcase_create("cpu");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_device_lstm_split_has_the_bits_of_one_run, 0,
                        PRECISIONS * ISA_COUNT);
    tcase_add_loop_test(tcase, test_device_windows_split_has_the_bits_of_one_run, 0,
                        PRECISIONS * ISA_COUNT);
    tcase_add_loop_test(tcase, test_device_gru_split_has_the_bits_of_one_run, 0,
                        2 * PRECISIONS * ISA_COUNT);
    if (!util_is_quick()) {
        tcase_add_loop_test(tcase, test_device_large_lstm_split_has_the_bits_of_one_run, 0,
                            ISA_COUNT);
    }
    tcase_add_loop_test(tcase, test_device_program_split_has_the_bits_of_one_run, 0, ISA_COUNT);
    tcase_add_loop_test(tcase, test_device_own_cell_split_has_the_bits_of_one_run, 0, ISA_COUNT);
    tcase_add_loop_test(tcase, test_device_gate_tables_have_the_bits_of_products, 0,
                        ISA_COUNT * EMBEDDED_KINDS * PRECISIONS);
    tcase_add_test(tcase, test_device_large_embeddings_have_no_table);
    tcase_add_test(tcase, test_device_largest_definition_runs);
    tcase_add_loop_test(tcase, test_device_attention_ends_a_batch_after_one_step, 0, DEVICES);
    tcase_add_loop_test(tcase, test_device_batch_ends_when_no_row_is_left, 0, DEVICES);
    tcase_add_loop_test(tcase, test_device_value_rows_carry_values_between_chains, 0, DEVICES);
    tcase_add_loop_test(tcase, test_device_backward_chain_reads_and_writes_with_negative_strides, 0,
                        DEVICES);
    tcase_add_loop_test(tcase, test_device_state_can_be_moved_between_slots, 0, DEVICES);
    tcase_add_loop_test(tcase, test_device_emits_a_state_at_each_step, 0, DEVICES);
    tcase_add_loop_test(tcase, test_device_one_row_is_emitted_by_many_members, 0, DEVICES);
    tcase_add_test(tcase, test_device_options_are_checked);
    tcase_add_test(tcase, test_device_every_failed_allocation_is_reported);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
