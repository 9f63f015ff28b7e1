/* `cellbatch-bench kernels --serve` as its drivers use it: every line is answered by one line,
 * whatever stands in it; what it writes is what the definition says. And the shapes, kinds and
 * limits around it. No speed is asserted. */
#include "base/clock.h"
#include "base/cpus.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "bench/cell.h"
#include "bench/limits.h"
#include "bench/serve.h"
#include "tests/cells/build.h"
#include "tests/cells/oracle.h"
#include "tests/util.h"
#include "worker/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct bench_shape small = {.inputs = 5, .hidden = 7, .rows = 3, .steps = 4};
#define SMALL "5x7x3x4"

static char folder[UTIL_PATH_BYTES];
static struct base_error error;

static void setup(void)
{
    util_temp_dir(folder);
}

static void teardown(void)
{
    util_remove_tree(folder);
}

/* `lines` through a server on `members` threads; the answers, ended with base_free(). %s in lines
 * is the folder. */
static char *serve(uint32_t members, const char *isa, const char *lines)
{
    char text[3 * UTIL_PATH_BYTES];
    char *answers = NULL;
    size_t length = 0;
    struct wrk_team_options team = {.members = members, .name = "test"};
    struct bench_serve_options options = {.backend = cell_backend_find("cpu"), .isa = isa};
    ck_assert_int_eq(wrk_team_create(&team, &options.team), BASE_OK);
    size_t at = 0;
    for (const char *c = lines; *c != '\0'; c++) {
        bool is_folder = c[0] == '%' && c[1] == 's';
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%.*s",
                               is_folder ? UTIL_PATH_BYTES : 1, is_folder ? folder : c);
        c += is_folder;
    }
    FILE *in = fmemopen(text, at, "r");
    FILE *out = open_memstream(&answers, &length);
    ck_assert_ptr_nonnull(in);
    ck_assert_ptr_nonnull(out);
    bench_serve(in, out, &options);
    (void)fclose(in);
    (void)fclose(out);
    wrk_team_free(options.team);
    return answers;
}

/* The answers begin with these words, one a line, and are no more. */
static void check_answers(const char *lines, const char *const *wanted, uint32_t n)
{
    char *answers = serve(1, "auto", lines);
    const char *at = answers;
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_msg(strncmp(at, wanted[i], strlen(wanted[i])) == 0, "line %u is %s", i, at);
        at += strcspn(at, "\n");
        ck_assert_int_eq(*at, '\n');
        at++;
    }
    ck_assert_str_eq(at, "");
    free(answers); // NOLINT: the C library's
}
#define CHECK_ANSWERS(lines, ...)                                                                  \
    do {                                                                                           \
        static const char *const wanted[] = {__VA_ARGS__};                                         \
        check_answers(lines, wanted, sizeof(wanted) / sizeof(wanted[0]));                          \
    } while (0)

static void write_floats(enum bench_tensor tensor, const float *floats, size_t n)
{
    char path[UTIL_PATH_BYTES + 16];
    (void)snprintf(path, sizeof(path), "%s/%s.f32", folder, bench_tensor_name(tensor));
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(floats, sizeof(float), n, file), n);
    ck_assert_int_eq(fclose(file), 0);
}

static void write_cell(const struct bench_cell *cell, struct bench_data *data)
{
    ck_assert_int_eq(bench_data_random(data, cell, &small, util_seed(), &error), BASE_OK);
    for (enum bench_tensor t = BENCH_W; t < BENCH_Y; t++) {
        write_floats(t, data->tensors[t], bench_tensor_floats(cell, &small, t));
    }
}

static const struct bench_cell *cell_named(const char *name)
{
    const struct bench_cell *cell = NULL;
    ck_assert_int_eq(bench_cell_find(name, &cell, &error), BASE_OK);
    return cell;
}

static const struct bench_cell *lstm(void)
{
    return cell_named("lstm");
}

/* ---- Lines ---------------------------------------------------------------------------------- */

START_TEST(test_serve_answers_bad_lines)
{
    CHECK_ANSWERS(
        "\nnonsense\nopen\nopen lstm\nopen lstm " SMALL "\nopen lstm " SMALL " \nruns 3\n",
        "error: ", "error: \"nonsense\"", "error: open: an argument", "error: wanted: open",
        "error: wanted: open", "error: wanted: open", "error: \"runs 3\"");
    CHECK_ANSWERS("run 1\nwrite\nclose\nclose", "error: run: no cell", "error: write: no cell",
                  "error: close: no cell", "error: close: no cell");
    CHECK_ANSWERS("open lstm 0x1x1x1 %s\nopen lstm 1x1x1 %s\nopen lstm deepcpu %s\nopen lstm "
                  "1048577x1x1x1 %s\nopen rnn 1x1x1x1 %s\n",
                  "error: \"0x1x1x1\"", "error: \"1x1x1\"", "error: wanted: one shape",
                  "error: \"1048577x1x1x1\"", "error: no cell is called \"rnn\"");
}
END_TEST

/* With and without a cell. A machine of one CPU has no second one to be away from. */
START_TEST(test_serve_tells_how_far_cpus_are_apart)
{
    static const char begins[] = "{\"round_trip_ns\":";
    char *answers = serve(1, "auto", "round_trip\nround_trip 2\n");
    ck_assert_msg(strncmp(answers, begins, strlen(begins)) == 0, "the answer is %s", answers);
    char *end = NULL;
    const double ns = strtod(answers + strlen(begins), &end);
    ck_assert(base_cpus_allowed() < 2 ? ns == 0.0 : ns > 0.0);
    ck_assert_int_eq(strncmp(end, "}\nerror: round_trip: takes no", 29), 0);
    free(answers); // NOLINT: the C library's
}
END_TEST

START_TEST(test_serve_answers_a_line_that_is_too_long)
{
    char *line = base_alloc(8 * UTIL_PATH_BYTES);
    memset(line, 'x', 5000);
    (void)snprintf(line + 5000, 16, "\nclose\n");
    CHECK_ANSWERS(line, "error: \"\"", "error: close: no cell");
    base_free(line);
}
END_TEST

START_TEST(test_serve_ends_with_its_input)
{
    CHECK_ANSWERS("close", "error: close: no cell");
    char *answers = serve(2, "auto", "\n");
    ck_assert_int_eq(strncmp(answers, "error: ", 7), 0);
    free(answers); // NOLINT: the C library's
}
END_TEST

/* ---- Files ---------------------------------------------------------------------------------- */

START_TEST(test_serve_names_a_missing_file)
{
    struct bench_data data = {0};
    CHECK_ANSWERS("open lstm " SMALL " /nowhere/at all\n",
                  "error: cannot open /nowhere/at all/w.f32");
    write_cell(lstm(), &data);
    char path[UTIL_PATH_BYTES + 16];
    (void)snprintf(path, sizeof(path), "%s/x.f32", folder);
    ck_assert_int_eq(remove(path), 0);
    CHECK_ANSWERS("open lstm " SMALL " %s\nrun 1\n", "error: cannot open /", "error: run: no cell");
    bench_data_release(&data);
}
END_TEST

START_TEST(test_serve_refuses_a_wrong_size)
{
    struct bench_data data = {0};
    write_cell(lstm(), &data);
    CHECK_ANSWERS("open lstm 5x7x3x5 %s\nopen lstm 131072x131072x1024x100000 %s\n", "error: /",
                  "error: /");
    write_floats(BENCH_R, data.tensors[BENCH_R], 3);
    char *answers = serve(1, "auto", "open lstm " SMALL " %s\n");
    ck_assert_ptr_nonnull(strstr(answers, "r.f32: 12 bytes, wanted 784"));
    free(answers); // NOLINT: the C library's
    bench_data_release(&data);
}
END_TEST

START_TEST(test_serve_refuses_weights_that_are_not_finite)
{
    struct bench_data data = {0};
    write_cell(lstm(), &data);
    const uint32_t infinity = 0x7F800000u;
    memcpy(&data.tensors[BENCH_B][1], &infinity, sizeof(infinity));
    write_floats(BENCH_B, data.tensors[BENCH_B], 56);
    CHECK_ANSWERS("open lstm " SMALL " %s\nrun 1\n", "error: ", "error: run: no cell");
    bench_data_release(&data);
}
END_TEST

/* ---- Runs ----------------------------------------------------------------------------------- */

/* y as it stands in the folder, ended with base_free(). */
static float *read_output(size_t floats)
{
    char path[UTIL_PATH_BYTES + 16];
    size_t length = 0;
    (void)snprintf(path, sizeof(path), "%s/y.f32", folder);
    char *bytes = util_read_file(path, &length);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(length, floats * sizeof(float));
    ck_assert_int_eq(remove(path), 0);
    float *y = base_alloc(length);
    memcpy(y, bytes, length);
    base_free(bytes);
    return y;
}

/* What the definition says, each row by itself in double precision. */
static void check_output(const struct bench_cell *cell, const struct bench_data *data,
                         const float *y)
{
    struct cell_def *def = base_alloc(sizeof(*def));
    bench_cell_def(cell, &small, data, def);
    for (uint32_t r = 0; r < small.rows; r++) {
        struct oracle oracle;
        oracle_init(&oracle, def);
        for (uint32_t t = 0; t < small.steps; t++) {
            size_t row = (size_t)t * small.rows + r;
            for (uint32_t i = 0; i < small.inputs; i++) {
                oracle.values[0][i] = (double)data->tensors[BENCH_X][row * small.inputs + i];
            }
            oracle_step(&oracle);
            for (uint32_t j = 0; j < small.hidden; j++) {
                util_assert_close(y[row * small.hidden + j], oracle.values[def->outputs[0]][j],
                                  1e-6, 0);
            }
            oracle_advance(&oracle);
        }
        oracle_release(&oracle);
    }
    base_free(def);
}

START_TEST(test_serve_computes_what_the_definition_says)
{
    struct bench_data data = {0};
    const struct bench_cell *cell = cell_named(_i == 0 ? "lstm" : "gru");
    write_cell(cell, &data);
    size_t floats = bench_tensor_floats(cell, &small, BENCH_Y);
    const char *lines = _i == 0 ? "open lstm " SMALL " %s\nrun 2\nwrite\nclose\n"
                                : "open gru " SMALL " %s\nrun 2\nwrite\nclose\n";
    CHECK_ANSWERS(lines, "{\"cell\":\"", "{\"runs\":2,\"ms_p50\":", "{\"floats\":84}", "{}");
    float *y = read_output(floats);
    check_output(cell, &data, y);
    char *answers = serve(2, "scalar", lines);
    ck_assert_ptr_null(strstr(answers, "error"));
    free(answers); // NOLINT: the C library's
    float *again = read_output(floats);
    ck_assert_mem_eq(y, again, floats * sizeof(float));
    base_free(y);
    base_free(again);
    bench_data_release(&data);
}
END_TEST

START_TEST(test_serve_holds_one_cell_at_a_time)
{
    struct bench_data data = {0};
    write_cell(lstm(), &data);
    CHECK_ANSWERS("open lstm " SMALL " %s\nopen lstm " SMALL " %s\nwrite\nrun 0\nrun -1\nrun 2x\n"
                  "run\nwrite now\nrun 1\nclose\nrun 1\nopen lstm " SMALL " %s\nwrite\n",
                  "{\"cell\"", "error: a cell is open", "error: nothing has run",
                  "error: wanted: run 1..", "error: wanted: run 1..", "error: wanted: run 1..",
                  "error: run: an argument", "error: write: takes no", "{\"runs\":1", "{}",
                  "error: run: no cell", "{\"cell\"", "error: nothing has run");
    bench_data_release(&data);
}
END_TEST

START_TEST(test_serve_survives_every_failed_allocation)
{
    struct bench_data data = {0};
    write_cell(lstm(), &data);
    uint64_t before = base_alloc_count();
    free(serve(1, "auto", "open lstm " SMALL " %s\nrun 1\nclose\n")); // NOLINT: the C library's
    uint64_t needed = base_alloc_count() - before;
    for (uint64_t n = 2; n < needed; n++) {
        struct wrk_team_options team = {.members = 1, .name = "test"};
        struct bench_serve_options options = {.backend = cell_backend_find("cpu"), .isa = "auto"};
        char line[UTIL_PATH_BYTES + 64];
        ck_assert_int_eq(wrk_team_create(&team, &options.team), BASE_OK);
        int length = snprintf(line, sizeof(line), "open lstm " SMALL " %s\nrun 1\n", folder);
        FILE *in = fmemopen(line, (size_t)length, "r");
        FILE *out = fopen("/dev/null", "we");
        base_alloc_fail_at(n);
        bench_serve(in, out, &options);
        base_alloc_fail_at(0);
        (void)fclose(in);
        (void)fclose(out);
        wrk_team_free(options.team);
    }
    bench_data_release(&data);
}
END_TEST

/* ---- Shapes and limits ---------------------------------------------------------------------- */

START_TEST(test_shapes_are_a_list)
{
    struct bench_shape shapes[BENCH_SHAPES_MAX];
    uint32_t n = 0;
    ck_assert_int_eq(bench_shapes_parse("deepcpu,3x4x5x6", shapes, &n, &error), BASE_OK);
    ck_assert_uint_eq(n, 16);
    ck_assert_uint_eq(shapes[2].inputs, 1024);
    ck_assert_uint_eq(shapes[14].rows, 20);
    ck_assert_uint_eq(shapes[15].steps, 6);
    uint32_t with_100_steps = 0;
    for (uint32_t i = 0; i < 15; i++) {
        with_100_steps += shapes[i].steps == 100;
    }
    ck_assert_uint_eq(with_100_steps, 13);
    static const char *const bad[] = {"",
                                      ",",
                                      "3x4x5",
                                      "3x4x5x6x7",
                                      "3x4x5x6,",
                                      "axbxcxd",
                                      "1x1x1025x1",
                                      "1x131073x1x1",
                                      "1x1x1x100001",
                                      "-1x1x1x1",
                                      "deepcpu,deepcpu,deepcpu,deepcpu,deepcpu"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        enum base_status status = bench_shapes_parse(bad[i], shapes, &n, &error);
        bool may_pass = strcmp(bad[i], "3x4x5x6,") == 0; // an end without a word
        ck_assert_msg((status == BASE_OK) == may_pass, "%s", bad[i]);
    }
}
END_TEST

START_TEST(test_roofline_is_the_larger_limit_and_the_activations)
{
    struct bench_limits limits = {.threads = 2,
                                  .gflops = {1000, 1000, 1000},
                                  .gsigmoids = 2,
                                  .gtanhs = 1,
                                  .n_levels = 2,
                                  .levels = {{"L2", 1e6, 100}, {"memory", 1e18, 10}}};
    const struct bench_shape wide = {.inputs = 1000, .hidden = 1000, .rows = 1, .steps = 10};
    struct bench_demand all;
    bench_demand_of_cell(lstm(), &wide, CELL_FP32, &all);
    struct bench_demand work = all;
    work.sigmoids = 0;
    work.tanhs = 0;
    // 2 x 4 x 1000 x 2000 x 10 operations
    double activations_ms = 1000 * 10 * (3 / 2.0 + 2 / 1.0) * 1e-6;
    ck_assert_double_eq(bench_flops(lstm(), &wide), 160e6);
    // A thread has 8 MB of R and of W: 7 MB of each come from memory, R's ten times.
    util_assert_close(bench_roofline_ms(&limits, &work, 1, 10), 77e6 / 10e9 * 1e3, 0, 1e-9);
    util_assert_close(bench_roofline_ms(&limits, &all, 1, 10), 77e6 / 10e9 * 1e3 + activations_ms,
                      0, 1e-9);
    struct bench_demand narrow; // 2 MB of R and of W
    bench_demand_of_cell(lstm(), &wide, CELL_INT8, &narrow);
    util_assert_close(bench_roofline_ms(&limits, &narrow, 1, 10),
                      11e6 / 10e9 * 1e3 + activations_ms, 0, 1e-9);
    limits.levels[1].gbytes = 1e9; // now L2: every byte passes it
    util_assert_close(bench_roofline_ms(&limits, &work, 1, 10), 88e6 / 100e9 * 1e3, 0, 1e-9);
    bench_demand_of_cell(lstm(), &wide, CELL_BF16, &narrow);
    narrow.sigmoids = 0;
    narrow.tanhs = 0;
    limits.gflops[CELL_BF16] = 20; // of products whose weights are held so, and of no others
    util_assert_close(bench_roofline_ms(&limits, &narrow, 1, 10), 160e6 / 20e9 * 1e3, 0, 1e-9);
    util_assert_close(bench_roofline_ms(&limits, &work, 1, 10), 88e6 / 100e9 * 1e3, 0, 1e-9);
    limits.gflops[CELL_FP32] = 10;
    util_assert_close(bench_roofline_ms(&limits, &work, 1, 10), 160e6 / 10e9 * 1e3, 0, 1e-9);
    limits.gflops[CELL_FP32] = 0;
    ck_assert_double_eq(bench_roofline_ms(&limits, &work, 1, 10), 0);
}
END_TEST

/* x through a product and a sigmoid; that and h through another, added; an LSTM over an embedding.
 */
START_TEST(test_demand_of_a_definition_is_counted)
{
    struct build build;
    struct bench_demand demand;
    build_init(&build, 1);
    uint32_t x = build_input(&build, CELL_F32, 10);
    uint32_t id = build_input(&build, CELL_I32, 1);
    uint32_t h = build_state(&build, CELL_F32, 20);
    uint32_t c = build_state(&build, CELL_F32, 20);
    uint32_t ahead =
        build_op(&build, CELL_OP_SIGMOID, build_linear(&build, x, 30, true), UINT32_MAX, 30);
    uint32_t late = build_linear(&build, build_linear(&build, ahead, 40, false), 50, false);
    uint32_t of_h = build_linear(&build, h, 50, false);
    uint32_t sum = build_op(&build, CELL_OP_ADD, late, of_h, 50);
    (void)build_op(&build, CELL_OP_MEAN, sum, UINT32_MAX, 1);
    (void)build_lstm(&build, build_gather(&build, id, 7, 60), h, c, true);
    (void)build_lstm(&build, sum, h, c, true);
    bench_demand_of_def(&build.def, &demand);
    double once = 10 * 30 + 30 * 40 + 40 * 50;
    double each = 20 * 50 + 80 * 20 + 80 * 50 + 80 * 20;
    ck_assert_double_eq(demand.once_bytes, once * 4);
    ck_assert_double_eq(demand.step_bytes, each * 4);
    ck_assert_double_eq(demand.flops[CELL_FP32], 2 * (once + each));
    ck_assert_double_eq(demand.sigmoids, 30 + 2 * 3 * 20);
    ck_assert_double_eq(demand.tanhs, 2 * 2 * 20);
    ck_assert_double_eq(demand.elements, 50 + 50);
    build_release(&build);
}
END_TEST

START_TEST(test_limits_are_measured_by_a_team)
{
    struct cell_team *team = NULL;
    const struct cell_kernels *kernels = NULL;
    struct bench_limits limits;
    struct wrk_team_options options = {.members = 2, .name = "test"};
    ck_assert_int_eq(wrk_team_create(&options, &team), BASE_OK);
    ck_assert_int_eq(cell_kernels_choose("auto", &kernels, &error), BASE_OK);
    bench_limits_measure(team, kernels, BASE_NS_PER_MS, &limits);
    wrk_team_free(team);
    ck_assert_uint_eq(limits.threads, 2);
    ck_assert_double_gt(limits.gsigmoids, 0);
    ck_assert_double_gt(limits.gtanhs, 0);
    ck_assert_uint_ge(limits.n_levels, 1);
    ck_assert_str_eq(limits.levels[limits.n_levels - 1].name, "memory");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench_serve");
    TCase *tcase = tcase_create("bench_serve");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, test_serve_answers_bad_lines);
    tcase_add_test(tcase, test_serve_tells_how_far_cpus_are_apart);
    tcase_add_test(tcase, test_serve_answers_a_line_that_is_too_long);
    tcase_add_test(tcase, test_serve_ends_with_its_input);
    tcase_add_test(tcase, test_serve_names_a_missing_file);
    tcase_add_test(tcase, test_serve_refuses_a_wrong_size);
    tcase_add_test(tcase, test_serve_refuses_weights_that_are_not_finite);
    tcase_add_loop_test(tcase, test_serve_computes_what_the_definition_says, 0, 2);
    tcase_add_test(tcase, test_serve_holds_one_cell_at_a_time);
    tcase_add_test(tcase, test_serve_survives_every_failed_allocation);
    tcase_add_test(tcase, test_shapes_are_a_list);
    tcase_add_test(tcase, test_roofline_is_the_larger_limit_and_the_activations);
    tcase_add_test(tcase, test_demand_of_a_definition_is_counted);
    tcase_add_test(tcase, test_limits_are_measured_by_a_team);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
