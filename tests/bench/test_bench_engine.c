/* The engine benchmark on a small model: every request is replaced, nothing is allocated while it
 * measures, and the bare loop runs what it is told to. No speed is asserted. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "bench/cells_file.h"
#include "bench/closed_loop.h"
#include "bench/ideal.h"
#include "bench/lstm_model.h"
#include "bench/tree_model.h"
#include "cells/cpu/device.h"
#include "loadgen/file.h"
#include "tests/bench/command.h"
#include "tests/cuda/driver_host.h"
#include "tests/server/models.h"
#include "tests/util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct srv_engine_options options;
static struct srv_engine *engine;
static struct lg_lengths lengths;
static struct base_error error;

static void setup(void)
{
    base_log_configure(BASE_LOG_ERROR, BASE_LOG_TEXT);
    srv_engine_options_init(&options);
    options.rows = 16;
    ck_assert_int_eq(srv_engine_create(&options, &engine, &error), BASE_OK);
    ck_assert_int_eq(lg_lengths_create("uniform:1:20", 1, &lengths, &error), BASE_OK);
}

static void teardown(void)
{
    lg_lengths_release(&lengths);
    srv_engine_free(engine);
}

static void check_loop(const struct cell_model *cells)
{
    struct bench_loop *loop = NULL;
    struct bench_tally tally;
    ck_assert_int_eq(srv_engine_add_model(engine, cells, &error), BASE_OK);
    ck_assert_msg(bench_loop_create(engine, cells,
                                    &(struct bench_load){.lengths = &lengths, .present = 16}, &loop,
                                    &error) == BASE_OK,
                  "%s", error.message);
    ck_assert_int_eq(srv_engine_start(engine, &error), BASE_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(bench_loop_run(loop, 20 * BASE_NS_PER_MS, &tally), BASE_OK);
        ck_assert_uint_ge(tally.ns, 20 * BASE_NS_PER_MS);
        ck_assert_uint_gt(tally.requests, 0);
        ck_assert_uint_eq(tally.allocations, 0);
        ck_assert_uint_gt(tally.busy_ns, 0);
        ck_assert_uint_le(tally.busy_ns, tally.ns + BASE_NS_PER_S);
        for (uint32_t s = 0; s < cells->n_stages; s++) {
            const struct bench_type_tally *type = &tally.types[cells->stages[s].type->id];
            ck_assert_uint_ge(type->steps, type->batches);
            ck_assert_uint_ge(type->cells, type->steps);
            ck_assert_uint_le(type->cells, 16 * 20 * type->steps);
        }
    }
    double difference = 1;
    ck_assert_int_eq(bench_loop_check(loop, &difference), BASE_OK);
    ck_assert(difference == 0); // the same bits alone: the rule of these devices
    srv_engine_stop(engine);
    bench_loop_free(loop);
}

START_TEST(test_loop_replaces_requests_without_allocating)
{
    struct cell_model *cells = NULL;
    ck_assert_int_eq(bench_lstm_model(srv_engine_registry(engine), 8, 8, &cells, &error), BASE_OK);
    check_loop(cells);
    cell_model_free(srv_engine_registry(engine), cells);
}
END_TEST

START_TEST(test_loop_runs_models_of_several_stages)
{
    struct cell_model *cells = models_tokens(srv_engine_registry(engine), 8, 1);
    check_loop(cells);
    cell_model_free(srv_engine_registry(engine), cells);
}
END_TEST

/* Shapes of trees, one a line; ended with bench_shapes_release(). */
static enum base_status read_shapes(const char *text, struct bench_shapes *out)
{
    char folder[UTIL_PATH_BYTES];
    char path[2 * UTIL_PATH_BYTES];
    util_temp_dir(folder);
    snprintf(path, sizeof(path), "%s/shapes", folder);
    util_write_file(path, text);
    enum base_status status = bench_shapes_read(path, out, &error);
    util_remove_tree(folder);
    return status;
}

START_TEST(test_shapes_are_trees_in_postorder)
{
    struct bench_shapes shapes;
    ck_assert_int_eq(read_shapes("# a comment\nSSSRR\nS\nSSRSSRR\n", &shapes), BASE_OK);
    ck_assert_uint_eq(shapes.count, 3);
    ck_assert_uint_eq(shapes.leaves_max, 4);
    ck_assert_uint_eq(shapes.nodes_max, 3);
    const uint32_t right[] = {1, 2, 0, 3};
    ck_assert_mem_eq(shapes.trees[0].children, right, sizeof(right));
    ck_assert_uint_eq(shapes.trees[0].root, 4);
    ck_assert_uint_eq(shapes.trees[1].n_nodes, 0);
    ck_assert_uint_eq(shapes.trees[1].root, 0);
    const uint32_t even[] = {0, 1, 2, 3, 4, 5};
    ck_assert_mem_eq(shapes.trees[2].children, even, sizeof(even));
    bench_shapes_release(&shapes);
}
END_TEST

START_TEST(test_shapes_that_are_no_trees_are_refused_by_line)
{
    static const char *const texts[] = {"SSR\nSS\n", "SSR\nSRS\n", "SSR\nRSS\n", "SSR\nSxR\n"};
    struct bench_shapes shapes;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        ck_assert_int_eq(read_shapes(texts[i], &shapes), BASE_INVALID_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(error.message, "shapes:2: "));
        bench_shapes_release(&shapes);
    }
    ck_assert_int_eq(read_shapes("# nothing\n", &shapes), BASE_INVALID_ARGUMENT);
    bench_shapes_release(&shapes);
    ck_assert_int_eq(bench_shapes_read("/no/such/file", &shapes, &error), BASE_NOT_FOUND);
    bench_shapes_release(&shapes);
}
END_TEST

/* As many rows as the trees can hold; their leaves and inner nodes are all computed. */
START_TEST(test_loop_runs_trees)
{
    struct bench_shapes shapes;
    struct bench_loop *loop = NULL;
    struct bench_tally tally;
    struct cell_model *cells = NULL;
    ck_assert_int_eq(read_shapes("SSSRR\nS\nSSRSSRR\nSSRSRSRSR\n", &shapes), BASE_OK);
    ck_assert_int_eq(bench_tree_model(srv_engine_registry(engine), 8, 8, &cells, &error), BASE_OK);
    ck_assert_int_eq(srv_engine_add_model(engine, cells, &error), BASE_OK);
    const struct bench_load load = {.lengths = &lengths, .shapes = &shapes, .present = 16};
    ck_assert_int_eq(bench_loop_create(engine, cells, &load, &loop, &error), BASE_OK);
    ck_assert_int_eq(srv_engine_start(engine, &error), BASE_OK);
    ck_assert_int_eq(bench_loop_run(loop, 20 * BASE_NS_PER_MS, &tally), BASE_OK);
    srv_engine_stop(engine);
    ck_assert_uint_gt(tally.requests, 16);
    ck_assert_uint_eq(tally.allocations, 0);
    const struct bench_type_tally *leaves = &tally.types[cells->stages[CELL_TREE_LEAF].type->id];
    const struct bench_type_tally *nodes = &tally.types[cells->stages[CELL_TREE_NODE].type->id];
    ck_assert_uint_gt(leaves->cells, nodes->cells);
    ck_assert_uint_gt(nodes->cells, nodes->batches); // more than one row a batch
    bench_loop_free(loop);
    cell_model_free(srv_engine_registry(engine), cells);
    bench_shapes_release(&shapes);
}
END_TEST

START_TEST(test_loop_refuses_a_fixed_length)
{
    struct bench_loop *loop = NULL;
    struct cell_model *cells = models_tokens(srv_engine_registry(engine), 8, 1);
    cells->inputs[0].dims[1] = 7;
    ck_assert_int_eq(bench_loop_create(engine, cells,
                                       &(struct bench_load){.lengths = &lengths, .present = 4},
                                       &loop, &error),
                     BASE_INVALID_ARGUMENT);
    cell_model_free(srv_engine_registry(engine), cells);
}
END_TEST

START_TEST(test_ideal_runs_every_type_on_every_team)
{
    struct bench_ideal *ideal = NULL;
    struct cell_model *cells = models_tokens(srv_engine_registry(engine), 8, 1);
    options.teams = 2;
    ck_assert_int_eq(
        bench_ideal_create(&options, srv_engine_registry(engine), cells, &ideal, &error), BASE_OK);
    for (uint32_t s = 0; s < cells->n_stages; s++) {
        const struct cell_type *type = cells->stages[s].type;
        uint32_t steps = type->state_layout == CELL_LAYOUT_NONE ? 1 : 9;
        ck_assert_double_gt(bench_ideal_cells_per_s(ideal, type, 5, steps, BASE_NS_PER_MS), 0);
        ck_assert_double_gt(bench_ideal_cells_per_s(ideal, type, 64, steps, BASE_NS_PER_MS), 0);
    }
    bench_ideal_free(ideal);
    cell_model_free(srv_engine_registry(engine), cells);
}
END_TEST

/* ---- A device that computes by itself ---- */

static void open_host_card(const struct cell_backend *backend)
{
    srv_engine_free(engine);
    engine = NULL;
    options.backend = backend;
    ck_assert_int_eq(srv_engine_create(&options, &engine, &error), BASE_OK);
}

START_TEST(test_a_card_runs_loop_and_ideal)
{
    struct bench_ideal *ideal = NULL;
    struct cell_model *cells = NULL;
    open_host_card(_i == 0 ? cuda_host_backend() : cuda_host_library_backend());
    cells = models_tokens(srv_engine_registry(engine), 8, 1);
    ck_assert_int_eq(
        bench_ideal_create(&options, srv_engine_registry(engine), cells, &ideal, &error), BASE_OK);
    check_loop(cells);
    for (uint32_t s = 0; s < cells->n_stages; s++) {
        const struct cell_type *type = cells->stages[s].type;
        const uint32_t steps = type->state_layout == CELL_LAYOUT_NONE ? 1 : 9;
        ck_assert_double_gt(bench_ideal_cells_per_s(ideal, type, 5, steps, BASE_NS_PER_MS), 0);
        ck_assert_double_gt(bench_ideal_cells_per_s(ideal, type, 64, steps, BASE_NS_PER_MS), 0);
    }
    bench_ideal_free(ideal);
    cell_model_free(srv_engine_registry(engine), cells);
    ck_assert_uint_eq(cuda_host_counts().unsound, 0);
}
END_TEST

START_TEST(test_a_card_that_is_lost_is_told)
{
    struct bench_ideal *ideal = NULL;
    struct bench_loop *loop = NULL;
    struct bench_tally tally;
    struct cell_model *cells = NULL;
    double difference = 0;
    open_host_card(cuda_host_backend());
    ck_assert_int_eq(bench_lstm_model(srv_engine_registry(engine), 8, 8, &cells, &error), BASE_OK);
    ck_assert_int_eq(
        bench_ideal_create(&options, srv_engine_registry(engine), cells, &ideal, &error), BASE_OK);
    ck_assert_int_eq(srv_engine_add_model(engine, cells, &error), BASE_OK);
    const struct bench_load load = {.lengths = &lengths, .present = 16};
    ck_assert_int_eq(bench_loop_create(engine, cells, &load, &loop, &error), BASE_OK);
    ck_assert_int_eq(srv_engine_start(engine, &error), BASE_OK);
    cuda_host_fail_at(500);
    ck_assert_int_eq(bench_loop_run(loop, 60 * BASE_NS_PER_S, &tally), BASE_UNAVAILABLE);
    ck_assert_int_eq(bench_loop_check(loop, &difference), BASE_UNAVAILABLE);
    ck_assert(bench_ideal_cells_per_s(ideal, cells->stages[0].type, 5, 9, BASE_NS_PER_S) == 0);
    cuda_host_fail_at(0);
    srv_engine_stop(engine);
    bench_loop_free(loop);
    bench_ideal_free(ideal);
    cell_model_free(srv_engine_registry(engine), cells);
}
END_TEST

/* Another input, once rows are alone. */
static void submit_wrong(struct cell_device *device, uint32_t queue, struct cell_batch *batch)
{
    if (batch->n_rows == 1 && batch->rows[0].first_step == 0) {
        union {
            const void *told;
            float *changed;
        } x = {.told = batch->rows[0].wiring->inputs[0].host};
        *x.changed += 1.0f;
    }
    cell_backend_cpu.submit(device, queue, batch);
}

START_TEST(test_other_answers_alone_are_noticed)
{
    static struct cell_backend wrong;
    struct bench_loop *loop = NULL;
    struct bench_tally tally;
    struct cell_model *cells = NULL;
    double difference = 0;
    wrong = cell_backend_cpu;
    wrong.submit = submit_wrong;
    open_host_card(&wrong);
    ck_assert_int_eq(bench_lstm_model(srv_engine_registry(engine), 8, 8, &cells, &error), BASE_OK);
    ck_assert_int_eq(srv_engine_add_model(engine, cells, &error), BASE_OK);
    const struct bench_load load = {.lengths = &lengths, .present = 16};
    ck_assert_int_eq(bench_loop_create(engine, cells, &load, &loop, &error), BASE_OK);
    ck_assert_int_eq(srv_engine_start(engine, &error), BASE_OK);
    ck_assert_int_eq(bench_loop_run(loop, 5 * BASE_NS_PER_MS, &tally), BASE_OK);
    ck_assert_int_eq(bench_loop_check(loop, &difference), BASE_OK);
    ck_assert_double_gt(difference, 1e-4);
    srv_engine_stop(engine);
    bench_loop_free(loop);
    cell_model_free(srv_engine_registry(engine), cells);
}
END_TEST

/* ---- Cells in a file ---- */

static void path_in(const char *folder, char path[2 * UTIL_PATH_BYTES])
{
    snprintf(path, 2 * UTIL_PATH_BYTES, "%s/cells", folder);
}

/* The types are found again, since all is the same. */
START_TEST(test_cells_come_back_from_a_file)
{
    char folder[UTIL_PATH_BYTES];
    char path[2 * UTIL_PATH_BYTES];
    struct cell_registry *registry = srv_engine_registry(engine);
    struct cell_model *cells = models_tokens(registry, 8, 1);
    struct cell_model *read = NULL;
    util_temp_dir(folder);
    path_in(folder, path);
    ck_assert_int_eq(bench_cells_write(cells, path, &error), BASE_OK);
    const uint32_t n_types = cell_registry_types(registry);
    ck_assert_msg(bench_cells_read(registry, path, &read, &error) == BASE_OK, "%s", error.message);
    ck_assert_uint_eq(cell_registry_types(registry), n_types);
    ck_assert_uint_eq(read->n_stages, cells->n_stages);
    for (uint32_t s = 0; s < cells->n_stages; s++) {
        ck_assert_ptr_eq(read->stages[s].type, cells->stages[s].type);
    }
    check_loop(read);
    ck_assert_int_eq(bench_cells_write(read, "/no/such/folder/cells", &error), BASE_UNAVAILABLE);
    cell_model_free(registry, read);
    cell_model_free(registry, cells);
    util_remove_tree(folder);
}
END_TEST

/* Cut at any of some places, another program's, and with a weight that is no number. */
START_TEST(test_cells_that_are_not_whole_are_refused)
{
    char folder[UTIL_PATH_BYTES];
    char path[2 * UTIL_PATH_BYTES];
    struct cell_registry *registry = srv_engine_registry(engine);
    struct cell_model *cells = models_tokens(registry, 8, 1);
    struct cell_model *read = NULL;
    struct base_buf whole;
    util_temp_dir(folder);
    path_in(folder, path);
    ck_assert_int_eq(bench_cells_write(cells, path, &error), BASE_OK);
    cell_model_free(registry, cells);
    base_buf_init(&whole, 1u << 30);
    ck_assert_int_eq(lg_file_read(path, &whole, &error), BASE_OK);
    for (size_t cut = 0; cut < whole.length; cut += 1 + whole.length / 40) {
        FILE *file = fopen(path, "we");
        ck_assert_uint_eq(fwrite(whole.data, 1, cut, file), cut);
        ck_assert_int_eq(fclose(file), 0);
        ck_assert_int_eq(bench_cells_read(registry, path, &read, &error), BASE_INVALID_ARGUMENT);
    }
    static const float nan_weight = NAN;
    for (int kind = 0; kind < 2; kind++) {
        const size_t at = kind == 0 ? 8 : whole.length - sizeof(nan_weight);
        FILE *file = fopen(path, "we");
        ck_assert_uint_eq(fwrite(whole.data, 1, whole.length, file), whole.length);
        ck_assert_int_eq(fseek(file, (long)at, SEEK_SET), 0);
        ck_assert_uint_eq(fwrite(&nan_weight, sizeof(nan_weight), 1, file), 1);
        ck_assert_int_eq(fclose(file), 0);
        ck_assert_int_eq(bench_cells_read(registry, path, &read, &error), BASE_INVALID_ARGUMENT);
    }
    ck_assert_int_eq(bench_cells_read(registry, "/no/such/file", &read, &error), BASE_NOT_FOUND);
    base_buf_release(&whole);
    util_remove_tree(folder);
}
END_TEST

/* ---- The command ---- */

START_TEST(test_command_says_what_is_wrong)
{
    static const char *const refused[] = {"engine --device nobody", "engine --device cpu:0",
                                          "engine --device cpu:x", "engine --model /no/such/file",
                                          "engine --cells /no/such/file"};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        int result = 0;
        base_free(command_run(bench_engine, refused[i], &result));
        ck_assert_int_ne(result, 0);
    }
}
END_TEST

START_TEST(test_command_says_how_busy_the_device_was)
{
    int result = 1;
    char *text = command_run(
        bench_engine, "engine --lstm 8x8 --seconds 0.05 --rounds 2 --json --device cpu", &result);
    ck_assert_int_eq(result, 0);
    json_t *line = command_json(text, 0);
    ck_assert_double_gt(command_number(line, "device_busy"), 0);
    ck_assert_double_lt(command_number(line, "device_busy"), 1.5);
    ck_assert_double_eq(command_number(line, "max_difference"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(line, "part")), "engine");
    ck_assert_str_eq(json_string_value(json_object_get(line, "status")), "ok");
    ck_assert(json_is_true(json_object_get(line, "checked")));
    json_decref(line);
    base_free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench_engine");
    TCase *tcase = tcase_create("bench_engine");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_loop_replaces_requests_without_allocating);
    tcase_add_test(tcase, test_shapes_are_trees_in_postorder);
    tcase_add_test(tcase, test_shapes_that_are_no_trees_are_refused_by_line);
    tcase_add_test(tcase, test_loop_runs_trees);
    tcase_add_test(tcase, test_loop_runs_models_of_several_stages);
    tcase_add_test(tcase, test_loop_refuses_a_fixed_length);
    tcase_add_test(tcase, test_ideal_runs_every_type_on_every_team);
    tcase_add_loop_test(tcase, test_a_card_runs_loop_and_ideal, 0, 2);
    tcase_add_test(tcase, test_a_card_that_is_lost_is_told);
    tcase_add_test(tcase, test_other_answers_alone_are_noticed);
    tcase_add_test(tcase, test_cells_come_back_from_a_file);
    tcase_add_test(tcase, test_cells_that_are_not_whole_are_refused);
    suite_add_tcase(suite, tcase);
    TCase *command = tcase_create("command");
    tcase_add_test(command, test_command_says_what_is_wrong);
    tcase_add_test(command, test_command_says_how_busy_the_device_was);
    suite_add_tcase(suite, command);
    return util_run(suite);
}
