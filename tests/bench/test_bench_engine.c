/* The engine benchmark on a small model: every request is replaced, nothing is allocated while it
 * measures, and the bare loop runs what it is told to. No speed is asserted. */
#include "base/clock.h"
#include "base/log.h"
#include "bench/closed_loop.h"
#include "bench/ideal.h"
#include "bench/lstm_model.h"
#include "bench/tree_model.h"
#include "tests/server/models.h"
#include "tests/util.h"

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
        bench_loop_run(loop, 20 * BASE_NS_PER_MS, &tally);
        ck_assert_uint_ge(tally.ns, 20 * BASE_NS_PER_MS);
        ck_assert_uint_gt(tally.requests, 16);
        ck_assert_uint_eq(tally.allocations, 0);
        for (uint32_t s = 0; s < cells->n_stages; s++) {
            const struct bench_type_tally *type = &tally.types[cells->stages[s].type->id];
            ck_assert_uint_ge(type->steps, type->batches);
            ck_assert_uint_ge(type->cells, type->steps);
            ck_assert_uint_le(type->cells, 16 * 20 * type->steps);
        }
    }
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
    bench_loop_run(loop, 20 * BASE_NS_PER_MS, &tally);
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
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
