/* cellbatch-bench engine: how much of the kernels' own speed is left when requests come and go, and
 * how much of the time the device had work.
 *
 * A round is a closed loop through the engine (bench/closed_loop.h), then the same kernels in a
 * bare loop (bench/ideal.h) at the row counts that the engine reached. ideal_requests_per_s is what
 * the bare loop would do of the run's cells; the ratio compares the two. Rounds alternate so that a
 * busy machine slows both; medians are reported. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "bench/cells_file.h"
#include "bench/closed_loop.h"
#include "bench/ideal.h"
#include "bench/workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED 1u

/* Of a request alone and in company: what other sums of a library's products may make of it. */
#define DIFFERENCE_MAX 1e-4

struct settings {
    const char *write_cells;
    uint32_t present;
};

/* One round; and, in a result, the median of each number over the rounds. */
struct round {
    double requests_per_s, cells_per_s, ideal_requests_per_s, ideal_ratio;
    double device_busy;     /* of the time measured the queues had work: their mean */
    double mean_rows;       /* of the type that had most cells */
    double steps_per_batch; /* likewise */
    double round_trip_ns;   /* between the first two CPUs, behind it */
    uint64_t allocations;
};

struct bench {
    struct settings settings;
    struct bench_workload workload;
    struct srv_engine *engine;
    struct cell_model *cells;
    struct bench_loop *loop;
    struct bench_ideal *ideal;
    struct round rounds[BENCH_ROUNDS_MAX];
    double difference; /* the largest of a request's outputs, in company and alone */
};

/* ---- A round ---- */

static double seconds_of(uint64_t ns)
{
    return (double)ns * 1e-9;
}

/* Seconds that the bare loop needs for the cells that one request has of the type. */
static double ideal_seconds(struct bench *bench, const struct cell_type *type,
                            const struct bench_tally *tally, uint64_t ns)
{
    const struct bench_type_tally *own = &tally->types[type->id];
    double per_request = (double)own->cells / (double)tally->requests;
    double rows = (double)own->cells / (double)own->steps;
    // A chain's run is as long as a request's own; a stateless type has rows only.
    double steps = type->state_layout == CELL_LAYOUT_NONE ? 1 : per_request;
    double cells_per_s = bench_ideal_cells_per_s(bench->ideal, type, (uint32_t)(rows + 0.5),
                                                 steps < 1 ? 1 : (uint32_t)(steps + 0.5), ns);
    return per_request / cells_per_s;
}

/* Each type of the model once, though several stages may use it. */
static bool is_first_use(const struct cell_model *cells, uint32_t stage)
{
    for (uint32_t s = 0; s < stage; s++) {
        if (cells->stages[s].type == cells->stages[stage].type) {
            return false;
        }
    }
    return true;
}

static enum base_status run_round(struct bench *bench, uint64_t ns, struct round *out)
{
    struct bench_tally tally;
    BASE_TRY(bench_loop_run(bench->loop, ns, &tally));
    out->round_trip_ns = bench_round_trip_ns();
    const struct bench_type_tally *most = bench_tally_most(bench->cells, tally.types);
    double cells = 0;
    double ideal_s = 0;
    uint32_t n_types = 0;
    for (uint32_t s = 0; s < bench->cells->n_stages; s++) {
        n_types += is_first_use(bench->cells, s) ? 1 : 0;
    }
    for (uint32_t s = 0; s < bench->cells->n_stages; s++) {
        const struct cell_type *type = bench->cells->stages[s].type;
        const struct bench_type_tally *own = &tally.types[type->id];
        if (is_first_use(bench->cells, s)) {
            cells += (double)own->cells;
            ideal_s += ideal_seconds(bench, type, &tally, ns / n_types);
        }
    }
    base_assert(most->steps > 0);
    out->requests_per_s = (double)tally.requests / seconds_of(tally.ns);
    out->cells_per_s = cells / seconds_of(tally.ns);
    out->ideal_requests_per_s = 1 / ideal_s;
    out->ideal_ratio = out->requests_per_s / out->ideal_requests_per_s;
    out->device_busy = (double)tally.busy_ns / (double)tally.ns / bench->workload.engine.teams;
    out->mean_rows = (double)most->cells / (double)most->steps;
    out->steps_per_batch = (double)most->steps / (double)most->batches;
    out->allocations = tally.allocations;
    return isfinite(ideal_s) ? BASE_OK : BASE_UNAVAILABLE;
}

/* ---- Result ---- */

static double median_of(const struct bench *bench, size_t offset)
{
    double values[BENCH_ROUNDS_MAX];
    for (uint32_t i = 0; i < bench->workload.rounds; i++) {
        memcpy(&values[i], (const char *)&bench->rounds[i] + offset, sizeof(values[i]));
    }
    return bench_quantile(values, bench->workload.rounds, 0.5);
}

static void summarise(const struct bench *bench, struct round *out)
{
    out->requests_per_s = median_of(bench, offsetof(struct round, requests_per_s));
    out->cells_per_s = median_of(bench, offsetof(struct round, cells_per_s));
    out->ideal_requests_per_s = median_of(bench, offsetof(struct round, ideal_requests_per_s));
    out->ideal_ratio = median_of(bench, offsetof(struct round, ideal_ratio));
    out->device_busy = median_of(bench, offsetof(struct round, device_busy));
    out->mean_rows = median_of(bench, offsetof(struct round, mean_rows));
    out->steps_per_batch = median_of(bench, offsetof(struct round, steps_per_batch));
    out->round_trip_ns = median_of(bench, offsetof(struct round, round_trip_ns));
    out->allocations = 0;
    for (uint32_t i = 0; i < bench->workload.rounds; i++) {
        out->allocations += bench->rounds[i].allocations;
    }
}

static bool is_right(const struct bench *bench)
{
    return bench->difference <= DIFFERENCE_MAX; // and not of a NaN
}

/* What all tables of scripts/gpu/ want of a line: bench/gpu/table.py. */
static void write_outcome(const struct bench *bench, struct base_buf *out)
{
    if (is_right(bench)) {
        base_buf_printf(out, "\"max_difference\":%.3g,\"checked\":true,\"status\":\"ok\"",
                        bench->difference);
    } else {
        base_buf_text(out, "\"status\":\"failed\",\"reason\":\"other answers alone than in "
                           "company\"");
    }
}

static void write_json(const struct bench *bench, const struct round *all, struct base_buf *out)
{
    const struct settings *set = &bench->settings;
    base_buf_text(out, "{\"part\":\"engine\",\"case\":\"closed loop\",");
    write_outcome(bench, out);
    base_buf_text(out, ",");
    bench_host_json(out);
    const char *model = bench_workload_name(&bench->workload);
    base_buf_text(out, ",\"model\":");
    base_buf_json_string(out, model, strlen(model));
    base_buf_text(out, ",\"lengths\":");
    base_buf_json_string(out, bench->workload.spec, strlen(bench->workload.spec));
    base_buf_printf(out,
                    ",\"device\":\"%s\",\"teams\":%u,\"threads\":%u,\"batch_rows\":%u,"
                    "\"requests_present\":%u,\"seed\":%u,\"rounds\":%u,\"seconds\":%.3f,",
                    srv_engine_description(bench->engine), bench->workload.engine.teams,
                    bench->workload.engine.team_threads, bench->workload.engine.batch_rows_max,
                    set->present, SEED, bench->workload.rounds, bench->workload.seconds);
    base_buf_printf(out,
                    "\"requests_per_s\":%.1f,\"cells_per_s\":%.0f,\"device_busy\":%.4f,"
                    "\"mean_rows\":%.2f,\"steps_per_batch\":%.2f,\"ideal_requests_per_s\":%.1f,"
                    "\"ideal_ratio\":%.4f,\"allocations\":%llu,\"round_trip_ns\":%.0f,\"ratios\":[",
                    all->requests_per_s, all->cells_per_s, all->device_busy, all->mean_rows,
                    all->steps_per_batch, all->ideal_requests_per_s, all->ideal_ratio,
                    (unsigned long long)all->allocations, all->round_trip_ns);
    for (uint32_t i = 0; i < bench->workload.rounds; i++) {
        base_buf_printf(out, "%s%.4f", i > 0 ? "," : "", bench->rounds[i].ideal_ratio);
    }
    base_buf_text(out, "]}\n");
}

static void write_text(const struct bench *bench, const struct round *all, struct base_buf *out)
{
    const struct settings *set = &bench->settings;
    bench_host_text(out);
    base_buf_printf(out, "model            %s\n", bench_workload_name(&bench->workload));
    base_buf_printf(out, "device           %s, %u team%s\n", srv_engine_description(bench->engine),
                    bench->workload.engine.teams, bench->workload.engine.teams > 1 ? "s" : "");
    base_buf_printf(out, "load             %u present, %s\n", set->present, bench->workload.spec);
    base_buf_printf(out, "requests_per_s   %.1f\n", all->requests_per_s);
    base_buf_printf(out, "cells_per_s      %.0f\n", all->cells_per_s);
    base_buf_printf(out, "device_busy      %.4f\n", all->device_busy);
    base_buf_printf(out, "mean_rows        %.2f\n", all->mean_rows);
    base_buf_printf(out, "steps_per_batch  %.2f\n", all->steps_per_batch);
    base_buf_printf(out, "ideal            %.1f requests/s\n", all->ideal_requests_per_s);
    base_buf_printf(out, "ideal_ratio      %.4f (", all->ideal_ratio);
    for (uint32_t i = 0; i < bench->workload.rounds; i++) {
        base_buf_printf(out, "%s%.4f", i > 0 ? " " : "", bench->rounds[i].ideal_ratio);
    }
    base_buf_text(out, ")\nround_trip_ns    ");
    for (uint32_t i = 0; i < bench->workload.rounds; i++) {
        base_buf_printf(out, "%.0f ", bench->rounds[i].round_trip_ns);
    }
    base_buf_printf(out, "between two CPUs\nallocations      %llu while measuring\n",
                    (unsigned long long)all->allocations);
    base_buf_printf(out, "max_difference   %.3g alone and in company\n", bench->difference);
}

static int report(const struct bench *bench)
{
    struct round all = {0};
    struct base_buf out;
    summarise(bench, &all);
    base_buf_init(&out, 1u << 16);
    if (bench->workload.is_json) {
        write_json(bench, &all, &out);
    } else {
        write_text(bench, &all, &out);
    }
    bool printed = !out.failed && fwrite(out.data, 1, out.length, stdout) == out.length;
    base_buf_release(&out);
    return printed && is_right(bench) ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- Life ---- */

static enum base_status open_all(struct bench *bench, struct base_error *error)
{
    struct settings *set = &bench->settings;
    BASE_TRY(bench_workload_read(&bench->workload, SEED, error));
    BASE_TRY(bench_workload_find_device(&bench->workload, error));
    bench->workload.engine.rows = bench_workload_rows(&bench->workload, set->present);
    BASE_TRY(srv_engine_create(&bench->workload.engine, &bench->engine, error));
    BASE_TRY(bench_workload_load(&bench->workload, srv_engine_registry(bench->engine),
                                 &bench->cells, error));
    if (set->write_cells != NULL) {
        return bench_cells_write(bench->cells, set->write_cells, error);
    }
    BASE_TRY(srv_engine_add_model(bench->engine, bench->cells, error));
    BASE_TRY(bench_ideal_create(&bench->workload.engine, srv_engine_registry(bench->engine),
                                bench->cells, &bench->ideal, error));
    const struct bench_load load = {.lengths = &bench->workload.lengths,
                                    .answers = &bench->workload.answers,
                                    .shapes = &bench->workload.shapes,
                                    .present = set->present};
    BASE_TRY(bench_loop_create(bench->engine, bench->cells, &load, &bench->loop, error));
    return srv_engine_start(bench->engine, error);
}

static void close_all(struct bench *bench)
{
    if (bench->loop != NULL) {
        bench_loop_free(bench->loop);
    }
    if (bench->ideal != NULL) {
        bench_ideal_free(bench->ideal);
    }
    if (bench->cells != NULL) {
        cell_model_free(srv_engine_registry(bench->engine), bench->cells);
    }
    srv_engine_free(bench->engine);
    bench_workload_release(&bench->workload);
}

static int run_all(struct bench *bench)
{
    struct base_error error = {.status = BASE_OK};
    if (open_all(bench, &error) != BASE_OK) {
        (void)fprintf(stderr, "%s\n", error.message);
        close_all(bench);
        return EXIT_FAILURE;
    }
    if (bench->settings.write_cells != NULL) {
        close_all(bench);
        return EXIT_SUCCESS;
    }
    const uint32_t rounds = bench->workload.rounds;
    const uint64_t ns = (uint64_t)(bench->workload.seconds * 1e9 / rounds);
    enum base_status status = BASE_OK;
    for (uint32_t i = 0; i < rounds && status == BASE_OK; i++) {
        status = run_round(bench, ns, &bench->rounds[i]);
    }
    if (status == BASE_OK) {
        status = bench_loop_check(bench->loop, &bench->difference);
    }
    srv_engine_stop(bench->engine);
    if (status != BASE_OK) {
        (void)fprintf(stderr, "the device failed: %s\n", base_status_name(status));
    }
    const int result = status == BASE_OK ? report(bench) : EXIT_FAILURE;
    close_all(bench);
    return result;
}

/* ---- Arguments ---- */

static const char help[] =
    "usage: cellbatch-bench engine [options]\n" BENCH_WORKLOAD_HELP
    "  --cells FILE           in place of a model: what --write-cells has written\n"
    "  --requests-present N   how many requests are always inside (default 64)\n"
    "  --teams N              (default 1)\n"
    "  --pin                  pin threads to CPUs\n"
    "  --seconds S            of the engine's rounds together (default 5)\n"
    "  --rounds N             engine and bare loop by turns (default 5)\n"
    "  --json                 one JSON object\n"
    "  --write-cells FILE     writes the model's cells for this program where it has no importer\n"
    "                         (scripts/gpu/engine.sh), and ends";

/* false: the value is not one for this option. */
static bool take_option(void *context, int option, const char *value)
{
    struct bench *bench = context;
    struct settings *set = &bench->settings;
    struct srv_engine_options *engine = &bench->workload.engine;
    switch (option) {
    case 'w':
        set->write_cells = value;
        return true;
    case 'P':
        engine->pin = true;
        return true;
    case 'p':
        return bench_parse_count(value, 1, 1u << 20, &set->present);
    case 'T':
        return bench_parse_count(value, 1, 64, &engine->teams);
    default:
        return bench_workload_take(&bench->workload, option, value);
    }
}

/* false: *status is main()'s result. */
static bool parse_arguments(int argc, char **argv, struct bench *bench, int *status)
{
    static const struct option options[] = {BENCH_WORKLOAD_OPTIONS,
                                            {"cells", required_argument, NULL, 'c'},
                                            {"write-cells", required_argument, NULL, 'w'},
                                            {"requests-present", required_argument, NULL, 'p'},
                                            {"teams", required_argument, NULL, 'T'},
                                            {"backend", required_argument, NULL, 'b'},
                                            {"pin", no_argument, NULL, 'P'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    bench_workload_init(&bench->workload);
    bench->workload.rounds = 5;
    bench->workload.seconds = 5;
    bench->settings = (struct settings){.present = 64};
    const struct bench_arguments arguments = {
        .options = options, .help = help, .take = take_option, .context = bench};
    return bench_arguments_read(argc, argv, &arguments, status);
}

int bench_engine(int argc, char **argv)
{
    int status = EXIT_SUCCESS;
    base_log_configure(BASE_LOG_WARN, BASE_LOG_TEXT);
    struct bench *bench = base_alloc(sizeof(*bench));
    if (bench == NULL) {
        return EXIT_FAILURE;
    }
    if (parse_arguments(argc, argv, bench, &status)) {
        status = run_all(bench);
    }
    base_free(bench);
    return status;
}
