/* cellbatch-bench calibrate: what the daemon measures when it loads a type, by the same code, as a
 * table, as JSON and as a picture. The types are those of a model file that have a state, or cells
 * of given shapes with random weights. */
#include "worker/calibrate.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "bench/cell.h"
#include "cells/model.h"
#include "loadgen/plot.h"
#include "worker/team.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRIPT_BYTES_MAX ((size_t)1 << 20)

struct settings {
    const char *model, *isa, *precision, *plot;
    const char *shapes[2]; /* of cells[] */
    uint32_t threads, rows;
    uint64_t ms;
    bool is_json;
};

static const char *const cells[2] = {"lstm", "gru"};

struct run {
    struct settings settings;
    const struct cell_backend *backend;
    struct cell_team *team;
    struct base_buf script; /* of the picture */
    uint32_t measured;
};

struct result {
    const char *name;
    struct cell_calibration calibration;
    struct cell_tuning choice;
    double seconds;
};

/* ---- Output --------------------------------------------------------------------------------- */

static void print_ns(uint64_t ns)
{
    if (ns == 0) {
        (void)printf(" %10s", "-");
    } else {
        (void)printf(" %10.2f", (double)ns / 1e3);
    }
}

/* How a batch of so many rows is computed. */
static const char *way_of(const struct result *result, uint32_t point)
{
    const struct cell_tuning *tuning = &result->choice;
    const uint32_t rows = cell_calibration_rows[point];
    if (cell_calibration_has(&result->calibration, CELL_TUNABLE_TEAM) &&
        rows <= tuning->solo_rows) {
        return "solo";
    }
    if (cell_calibration_has(&result->calibration, CELL_TUNABLE_APART) && tuning->apart_rows > 0 &&
        rows >= tuning->apart_rows) {
        return "apart";
    }
    return cell_calibration_has(&result->calibration, CELL_TUNABLE_WINDOWS) &&
                   rows <= tuning->ahead_rows
               ? "ahead"
               : "plain";
}

static double rows_a_second(const struct result *result, uint32_t point)
{
    uint64_t ns = cell_calibration_step_ns(&result->calibration, &result->choice, point);
    return ns == 0 ? 0.0 : (double)cell_calibration_rows[point] * 1e9 / (double)ns;
}

static void print_choice(const struct result *result)
{
    const struct cell_calibration *calibration = &result->calibration;
    const struct cell_tuning *tuning = &result->choice;
    if (cell_calibration_is_disturbed(calibration)) {
        (void)printf("disturbed, nothing is chosen: ");
    }
    if (cell_calibration_has(calibration, CELL_TUNABLE_WINDOWS)) {
        (void)printf("windows up to %u rows (own rule: %u), ", tuning->ahead_rows,
                     calibration->own.ahead_rows);
        if (tuning->fill_steps > 0) {
            (void)printf("fills of %u steps", tuning->fill_steps);
        } else {
            (void)printf("fills by the own rule");
        }
    } else {
        (void)printf("no windows to choose");
    }
    if (cell_calibration_has(calibration, CELL_TUNABLE_TEAM)) {
        (void)printf(", one thread up to %u rows (own rule: %u)", tuning->solo_rows,
                     calibration->own.solo_rows);
    }
    if (cell_calibration_has(calibration, CELL_TUNABLE_APART)) {
        (void)printf(", rows apart from %u on (own rule: %u; 0: never)", tuning->apart_rows,
                     calibration->own.apart_rows);
    }
    if (cell_calibration_has(calibration, CELL_TUNABLE_BESIDE)) {
        (void)printf(", beside another type up to %u rows (own rule: %u)", tuning->beside_rows,
                     calibration->own.beside_rows);
    }
    if (result->choice.knee_rows > 0) {
        (void)printf("; b_max %u (own rule: %u)", result->choice.knee_rows,
                     calibration->own.knee_rows);
    } else {
        (void)printf("; b_max: none (own rule: %u)", calibration->own.knee_rows);
    }
    (void)printf("; %.2f s\n\n", result->seconds);
}

static void print_table(const struct result *result)
{
    const struct cell_calibration *calibration = &result->calibration;
    (void)printf("%s, us a step of all rows\n  rows", result->name);
    for (enum cell_variant v = CELL_VARIANT_PLAIN; v < CELL_VARIANTS; v++) {
        (void)printf(" %10s", cell_variant_name(v));
    }
    (void)printf("       rows/s  chosen\n");
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        if (cell_calibration_rows[p] > calibration->rows_limit) {
            break;
        }
        (void)printf("%6u", cell_calibration_rows[p]);
        for (enum cell_variant v = CELL_VARIANT_PLAIN; v < CELL_VARIANTS; v++) {
            print_ns(calibration->step_ns[v][p]);
        }
        (void)printf(" %12.0f  %s%s\n", rows_a_second(result, p), way_of(result, p),
                     cell_calibration_rows[p] == result->choice.knee_rows ? ", b_max" : "");
    }
    print_choice(result);
}

static void print_json(const struct result *result, uint32_t threads)
{
    const struct cell_calibration *calibration = &result->calibration;
    const struct cell_tuning *tuning = &result->choice;
    (void)printf("{\"cell\":\"%s\",\"threads\":%u,\"seconds\":%.3f,\"has_windows\":%s,"
                 "\"is_disturbed\":%s,\"own_ahead_rows\":%u,\"ahead_rows\":%u,\"fill_steps\":%u,"
                 "\"own_solo_rows\":%u,\"solo_rows\":%u,\"own_apart_rows\":%u,"
                 "\"apart_rows\":%u,\"own_beside_rows\":%u,\"beside_rows\":%u,"
                 "\"b_max\":%u,\"points\":[",
                 result->name, threads, result->seconds,
                 cell_calibration_has(calibration, CELL_TUNABLE_WINDOWS) ? "true" : "false",
                 cell_calibration_is_disturbed(calibration) ? "true" : "false",
                 calibration->own.ahead_rows, tuning->ahead_rows, tuning->fill_steps,
                 calibration->own.solo_rows, tuning->solo_rows, calibration->own.apart_rows,
                 tuning->apart_rows, calibration->own.beside_rows, tuning->beside_rows,
                 result->choice.knee_rows);
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        if (cell_calibration_rows[p] > calibration->rows_limit) {
            break;
        }
        (void)printf("%s{\"rows\":%u", p > 0 ? "," : "", cell_calibration_rows[p]);
        for (enum cell_variant v = CELL_VARIANT_PLAIN; v < CELL_VARIANTS; v++) {
            if (calibration->step_ns[v][p] > 0) {
                (void)printf(",\"%s_us\":%.3f", cell_variant_name(v),
                             (double)calibration->step_ns[v][p] / 1e3);
            }
        }
        (void)printf(",\"rows_per_s\":%.0f,\"chosen\":\"%s\"}", rows_a_second(result, p),
                     way_of(result, p));
    }
    (void)printf("]}\n");
}

/* ---- Picture -------------------------------------------------------------------------------- */

/* In single quotes, where gnuplot reads only the quote itself in another way. */
static void quote(const char *text, struct base_buf *out)
{
    base_buf_text(out, "'");
    for (const char *c = text; *c != '\0'; c++) {
        base_buf_add(out, *c == '\'' ? "''" : c, *c == '\'' ? 2 : 1);
    }
    base_buf_text(out, "'");
}

static void begin_plot(const struct run *run, struct base_buf *out)
{
    const char *path = run->settings.plot;
    size_t length = strlen(path);
    bool is_svg = length > 4 && strcmp(path + length - 4, ".svg") == 0;
    base_buf_printf(out, "set terminal %s size 960,600 noenhanced\nset output ",
                    is_svg ? "svg" : "pngcairo");
    quote(path, out);
    base_buf_text(out, "\nset xlabel 'rows of a batch'\nset ylabel 'us a step of all rows'\n"
                       "set logscale xy 2\nset grid\nset key left top Left reverse\n");
}

/* Data of one type; its lines follow when all data stands. */
static void plot_data(const struct result *result, uint32_t number, struct base_buf *out)
{
    const struct cell_calibration *calibration = &result->calibration;
    base_buf_printf(out, "$type%u << END\n", number);
    for (uint32_t p = 0; p < CELL_CALIBRATION_POINTS; p++) {
        uint64_t plain = calibration->step_ns[CELL_VARIANT_PLAIN][p];
        uint64_t ahead = calibration->step_ns[CELL_VARIANT_AHEAD][p];
        if (plain > 0) {
            base_buf_printf(out, "%u %.3f ", cell_calibration_rows[p], (double)plain / 1e3);
            base_buf_printf(out, ahead > 0 ? "%.3f" : "NaN", (double)ahead / 1e3);
            bool is_most = cell_calibration_rows[p] == result->choice.knee_rows;
            uint64_t ns = cell_calibration_step_ns(calibration, &result->choice, p);
            base_buf_printf(out, is_most ? " %.3f\n" : " NaN\n", (double)ns / 1e3);
        }
    }
    base_buf_text(out, "END\n");
}

static void plot_lines(const struct result *result, uint32_t number, struct base_buf *lines)
{
    static const char *const titles[] = {"without windows", "with windows", "b_max"};
    static const char *const styles[] = {"linespoints", "linespoints dt 2", "points pt 7 ps 2"};
    for (uint32_t i = 0; i < 3; i++) {
        bool is_there =
            i == 0 || (i == 1 ? cell_calibration_has(&result->calibration, CELL_TUNABLE_WINDOWS)
                              : result->choice.knee_rows > 0);
        if (is_there) {
            char title[128];
            (void)snprintf(title, sizeof(title), "%s, %s", result->name, titles[i]);
            base_buf_printf(lines, "%s$type%u using 1:%u with %s lc %u title ",
                            lines->length > 0 ? ", \\\n     " : "", number, i + 2, styles[i],
                            number + 1);
            quote(title, lines);
        }
    }
}

static enum base_status draw(struct run *run, const struct base_buf *lines,
                             struct base_error *error)
{
    base_buf_text(&run->script, "plot ");
    base_buf_add(&run->script, lines->data, lines->length);
    base_buf_text(&run->script, "\n");
    if (run->script.failed || lines->failed) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    return lg_plot_run(LG_PLOT_GNUPLOT, &run->script, error);
}

/* ---- Measuring ------------------------------------------------------------------------------ */

static enum base_status measure(struct run *run, const struct cell_registry *registry,
                                const struct cell_type *type, struct result *out,
                                struct base_error *error)
{
    struct cell_device *device = NULL;
    struct cell_device_options options = {
        .n_queues = 1, .teams = &run->team, .isa = run->settings.isa, .batches_queued_max = 1};
    uint32_t layout = type->state_layout;
    BASE_TRY(run->backend->open(&options, &device, error));
    enum base_status status = run->backend->type_load(device, type, error);
    if (status == BASE_OK) {
        status = run->backend->rows_open(device, layout, cell_registry_layout(registry, layout),
                                         run->settings.rows, error);
    }
    if (status == BASE_OK) {
        const struct wrk_calibrate_options calibrate = {.backend = run->backend,
                                                        .device = device,
                                                        .rows_limit = run->settings.rows,
                                                        .is_alone = run->settings.threads == 1,
                                                        .budget_ns =
                                                            run->settings.ms * BASE_NS_PER_MS};
        uint64_t start_ns = base_now_ns();
        status = wrk_calibrate(&calibrate, type, &out->calibration, error);
        out->seconds = (double)(base_now_ns() - start_ns) / 1e9;
    }
    run->backend->close(device);
    return status;
}

static enum base_status measure_type(struct run *run, const struct cell_registry *registry,
                                     const struct cell_type *type, const char *name,
                                     struct base_buf *lines, struct base_error *error)
{
    struct result result = {.name = name};
    BASE_TRY(measure(run, registry, type, &result, error));
    result.choice = cell_calibration_choose(&result.calibration);
    if (run->settings.is_json) {
        print_json(&result, run->settings.threads);
    } else {
        print_table(&result);
    }
    (void)fflush(stdout);
    plot_data(&result, run->measured, &run->script);
    plot_lines(&result, run->measured, lines);
    run->measured++;
    return BASE_OK;
}

static enum base_status measure_model(struct run *run, struct cell_registry *registry,
                                      struct base_buf *lines, struct base_error *error)
{
    struct cell_model_options options = {.precision = CELL_FP32};
    struct cell_model *model = NULL;
    BASE_TRY(cell_precision_find(run->settings.precision, &options.precision, error));
    BASE_TRY(cell_model_load(registry, run->settings.model, "model", &options, &model, error));
    enum base_status status = BASE_OK;
    for (uint32_t s = 0; s < model->n_stages && status == BASE_OK; s++) {
        const struct cell_type *type = model->stages[s].type;
        if (type->state_layout != CELL_LAYOUT_NONE) {
            status = measure_type(run, registry, type, type->name, lines, error);
        }
    }
    cell_model_free(registry, model);
    return status;
}

static enum base_status measure_shape(struct run *run, struct cell_registry *registry,
                                      const char *cell_name, const char *text,
                                      struct base_buf *lines, struct base_error *error)
{
    char shape_text[64];
    char name[64];
    struct bench_shape shapes[BENCH_SHAPES_MAX];
    uint32_t n = 0;
    const struct bench_cell *cell = NULL;
    const struct cell_type *type = NULL;
    struct bench_data data = {0};
    bool is_new = false;
    (void)snprintf(shape_text, sizeof(shape_text), "%.40sx1x1", text);
    (void)snprintf(name, sizeof(name), "%s %.40s", cell_name, text);
    BASE_TRY(bench_cell_find(cell_name, &cell, error));
    if (strchr(text, 'x') == NULL || bench_shapes_parse(shape_text, shapes, &n, error) != BASE_OK) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "\"%.32s\" is not INPUTxHIDDEN", text);
    }
    struct cell_def *def = base_alloc(sizeof(*def));
    enum base_status status = bench_data_random(&data, cell, &shapes[0], 1, error);
    if (def == NULL) {
        status = base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (status == BASE_OK) {
        bench_cell_def(cell, &shapes[0], &data, def);
        status = cell_precision_find(run->settings.precision, &def->ops[0].precision, error);
    }
    if (status == BASE_OK) {
        status = cell_registry_intern(registry, def, name, &type, &is_new, error);
    }
    base_free(def);
    bench_data_release(&data);
    if (status == BASE_OK) {
        status = measure_type(run, registry, type, name, lines, error);
        cell_type_unref(registry, type);
    }
    return status;
}

static enum base_status measure_all(struct run *run, struct cell_registry *registry,
                                    struct base_buf *lines, struct base_error *error)
{
    char word[64];
    if (run->settings.model != NULL) {
        BASE_TRY(measure_model(run, registry, lines, error));
    }
    for (uint32_t c = 0; c < 2; c++) {
        const char *rest = run->settings.shapes[c];
        while ((rest = bench_list_next(rest, word, sizeof(word))) != NULL) {
            BASE_TRY(measure_shape(run, registry, cells[c], word, lines, error));
        }
    }
    return run->measured > 0 ? BASE_OK
                             : base_fail(error, BASE_INVALID_ARGUMENT,
                                         "no cell with a state is there to be measured");
}

static void print_start(const struct run *run)
{
    struct base_buf text;
    base_buf_init(&text, 4096);
    if (run->settings.is_json) {
        base_buf_text(&text, "{");
        bench_host_json(&text);
        base_buf_text(&text, "}\n");
    } else {
        bench_host_text(&text);
        base_buf_printf(&text, "# %u threads\n", run->settings.threads);
    }
    (void)fputs(text.failed ? "" : text.data, stdout);
    base_buf_release(&text);
}

static enum base_status run_all(struct run *run, struct base_error *error)
{
    struct cell_registry *registry = NULL;
    struct base_buf lines;
    if (cell_registry_create(&registry) != BASE_OK) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    base_buf_init(&lines, SCRIPT_BYTES_MAX);
    base_buf_init(&run->script, SCRIPT_BYTES_MAX);
    print_start(run);
    if (run->settings.plot != NULL) {
        begin_plot(run, &run->script);
    }
    enum base_status status = measure_all(run, registry, &lines, error);
    if (status == BASE_OK && run->settings.plot != NULL) {
        status = draw(run, &lines, error);
    }
    base_buf_release(&lines);
    base_buf_release(&run->script);
    cell_registry_free(registry);
    return status;
}

/* ---- Options -------------------------------------------------------------------------------- */

static const char help[] =
    "usage: cellbatch-bench calibrate [--model FILE] [--lstm LIST] [--gru LIST] [options]\n"
    "  --model FILE       the types of an ONNX file that have a state\n"
    "  --lstm LIST        INPUTxHIDDEN, comma between (default 256x256 without --model and --gru)\n"
    "  --gru LIST         the same for GRUs\n"
    "  --precision NAME   how weights are held: fp32, bf16, int8 (default fp32)\n"
    "  --threads N        team of N threads (default 1)\n"
    "  --backend NAME     cpu, blas (default cpu)\n"
    "  --isa NAME         auto, scalar, avx2, avx512 (default auto)\n"
    "  --rows N           the most rows that are measured (default 64)\n"
    "  --ms N             the longest time for a type (default 1900, as at load)\n"
    "  --plot FILE        draw it (.png or .svg; needs gnuplot)\n"
    "  --json             one JSON object a line";

static bool are_sane(const struct run *run)
{
    const struct settings *set = &run->settings;
    return run->backend != NULL && set->threads >= 1 && set->threads <= 1024 && set->rows >= 1 &&
           set->rows <= CELL_CALIBRATION_ROWS_MAX && set->ms >= 1 && set->ms <= 600000;
}

static bool is_usage_wrong(int argc, char **argv, struct run *run, bool *wants_help)
{
    static const struct option options[] = {{"model", required_argument, NULL, 'f'},
                                            {"lstm", required_argument, NULL, 'l'},
                                            {"gru", required_argument, NULL, 'g'},
                                            {"precision", required_argument, NULL, 'w'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"backend", required_argument, NULL, 'b'},
                                            {"isa", required_argument, NULL, 'i'},
                                            {"rows", required_argument, NULL, 'r'},
                                            {"ms", required_argument, NULL, 'm'},
                                            {"plot", required_argument, NULL, 'p'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct settings *out = &run->settings;
    bool is_wrong = false;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
    for (int o = 0; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        out->model = o == 'f' ? optarg : out->model;
        out->shapes[0] = o == 'l' ? optarg : out->shapes[0];
        out->shapes[1] = o == 'g' ? optarg : out->shapes[1];
        out->precision = o == 'w' ? optarg : out->precision;
        out->threads = o == 't' ? (uint32_t)strtoul(optarg, NULL, 10) : out->threads;
        run->backend = o == 'b' ? cell_backend_find(optarg) : run->backend;
        out->isa = o == 'i' ? optarg : out->isa;
        out->rows = o == 'r' ? (uint32_t)strtoul(optarg, NULL, 10) : out->rows;
        out->ms = o == 'm' ? strtoull(optarg, NULL, 10) : out->ms;
        out->plot = o == 'p' ? optarg : out->plot;
        out->is_json |= o == 'j';
        *wants_help |= o == 'h';
        is_wrong |= o == '?';
    }
    if (out->model == NULL && out->shapes[0] == NULL && out->shapes[1] == NULL) {
        out->shapes[0] = "256x256";
    }
    return is_wrong || optind != argc || !are_sane(run);
}

int bench_calibrate(int argc, char **argv)
{
    struct run run = {.backend = cell_backend_find("cpu"),
                      .settings = {.isa = "auto",
                                   .precision = "fp32",
                                   .threads = 1,
                                   .rows = CELL_CALIBRATION_ROWS_MAX,
                                   .ms = WRK_CALIBRATE_BUDGET_NS / BASE_NS_PER_MS}};
    struct base_error error = {.status = BASE_OK};
    bool wants_help = false;
    bool is_wrong = is_usage_wrong(argc, argv, &run, &wants_help);
    if (is_wrong || wants_help) {
        (void)fprintf(wants_help ? stdout : stderr, "%s\n", help);
        return wants_help ? EXIT_SUCCESS : 2;
    }
    enum base_status status = bench_team_start(run.settings.threads, &run.team, &error);
    if (status == BASE_OK) {
        status = run_all(&run, &error);
        wrk_team_free(run.team);
    }
    return bench_exit_status(argv[0], status, &error);
}
