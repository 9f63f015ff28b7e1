/* The CUDA device over a host's driver gives the CPU's bits: chains split over random batches
 * against the same chains, each run alone at once by the scalar kernels. What a GPU does with the
 * same kernel bodies is scripts/gpu/check.sh's to see. */
#include "tests/cells/split.h"
#include "tests/cuda/driver_host.h"
#include "tests/cuda/lane_host.h"
#include "tests/util.h"

static void assert_same_bits(struct build *build, uint32_t n_chains, uint32_t steps_max)
{
    const struct split_options options = {
        .def = &build->def, .backend = "cuda-host", .n_chains = n_chains, .steps_max = steps_max};
    struct split_difference difference;
    if (!split_has_the_bits_of_one_run(&options, &difference)) {
        ck_abort_msg("%s", difference.text);
    }
    ck_assert_uint_eq(cuda_host_counts().unsound, 0);
    build_release(build);
}

START_TEST(test_bits_of_lstm)
{
    struct build build;
    build_lstm_cell(&build, 70, 130, 21);
    build_last(&build)->precision = _i == 0 ? CELL_FP32 : CELL_BF16;
    assert_same_bits(&build, 12, 40);
}
END_TEST

START_TEST(test_bits_of_gru)
{
    struct build build;
    build_init(&build, 23);
    const uint32_t x = build_input(&build, CELL_F32, 70);
    const uint32_t h = build_state(&build, CELL_F32, 90);
    const uint32_t out = build_gated(&build, CELL_OP_GRU, (uint32_t)_i % 2, x, h, true);
    build_next(&build, 0, out);
    build_output(&build, out);
    build_last(&build)->precision = _i / 2 == 0 ? CELL_FP32 : CELL_BF16;
    assert_same_bits(&build, 12, 9);
}
END_TEST

/* An embedding, what surrounds an LSTM, and a state that counts in integers. */
static const uint32_t sizes[][2] = {{1, 1}, {5, 7}, {128, 64}, {33, 60}}; // inputs, units

/* Cells that have a lane; batches of up to two tasks. */
START_TEST(test_bits_on_lanes)
{
    struct build build;
    const uint64_t launches = lane_host_launches();
    const uint32_t *size = sizes[_i / 2];
    if (_i % 2 == 0) {
        build_lstm_cell(&build, size[0], size[1], 51);
    } else {
        build_init(&build, 53);
        const uint32_t x = build_input(&build, CELL_F32, size[0]);
        const uint32_t h = build_state(&build, CELL_F32, size[1]);
        const uint32_t out = build_gated(&build, CELL_OP_GRU, CELL_GRU_RESET_AFTER, x, h, true);
        build_next(&build, 0, out);
        build_output(&build, out);
    }
    assert_same_bits(&build, SPLIT_CHAINS_MAX, 6);
    ck_assert(lane_host_launches() > launches || !lane_host_can());
}
END_TEST

START_TEST(test_bits_of_a_reader)
{
    struct build build;
    build_init(&build, 31);
    const uint32_t id = build_input(&build, CELL_I64, 1);
    const uint32_t x = build_input(&build, CELL_F32, 20);
    const uint32_t h = build_state(&build, CELL_F32, 66);
    const uint32_t c = build_state(&build, CELL_F32, 66);
    const uint32_t last = build_state(&build, CELL_I64, 1);
    const uint32_t seen = build_gather(&build, last, 10, 20);
    const uint32_t sum = build_op(&build, CELL_OP_ADD, build_gather(&build, id, 10, 20), seen, 20);
    const uint32_t both = build_concat(&build, 2, (const uint32_t[]){sum, x});
    const uint32_t wide = build_linear(&build, both, 100, true);
    const uint32_t rectified = build_op(&build, CELL_OP_RELU, wide, UINT32_MAX, 100);
    const uint32_t lstm = build_lstm(&build, rectified, h, c, true);
    const uint32_t logits = build_linear(&build, lstm, 200, false);
    build_next(&build, 0, lstm);
    build_next(&build, 1, lstm + 1);
    build_next(&build, 2, id);
    build_output(&build, build_op(&build, CELL_OP_SOFTMAX, logits, UINT32_MAX, 200));
    for (uint32_t o = 0; o < build.def.n_ops && _i == 1; o++) {
        build.def.ops[o].precision = CELL_BF16; // of its LINEARs and its LSTM
    }
    assert_same_bits(&build, 12, 9);
}
END_TEST

START_TEST(test_bits_of_three_cells_behind_one_another)
{
    struct build build;
    split_build_front(&build);
    assert_same_bits(&build, SPLIT_CHAINS_MAX, 30);
}
END_TEST

START_TEST(test_bits_of_a_cell_of_small_ops)
{
    struct build build;
    build_own_cell(&build, 90, 100, 29);
    assert_same_bits(&build, SPLIT_CHAINS_MAX, 20);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_bits");
    TCase *tcase = tcase_create("cuda-host");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_bits_of_lstm, 0, 2);
    tcase_add_loop_test(tcase, test_bits_of_gru, 0, 4);
    tcase_add_loop_test(tcase, test_bits_on_lanes, 0, 8);
    tcase_add_loop_test(tcase, test_bits_of_a_reader, 0, 2);
    tcase_add_test(tcase, test_bits_of_three_cells_behind_one_another);
    tcase_add_test(tcase, test_bits_of_a_cell_of_small_ops);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
