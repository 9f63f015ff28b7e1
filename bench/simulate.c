/* cellbatch-bench simulate: requests through the scheduler in virtual time (virtual.h): throughput,
 * latencies, rows of each stage. The same options give the same numbers on any machine. */
#include "base/log.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "bench/virtual.h"
#include "bench/workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED 1u

/* Requests of an open loop that are there at most. */
#define OPEN_PRESENT 2048u

struct bench {
    struct bench_workload workload;
    struct bench_virtual_run run;
    uint32_t present;
    struct cell_registry *registry;
    struct cell_model *cells;
    struct bench_virtual_result result;
};

/* ---- Report ---- */

static double quantile_ms(const struct bench *bench, double quantile)
{
    return (double)base_hist_quantile(&bench->result.latency_ns, quantile) * 1e-6;
}

static void write_json(const struct bench *bench, struct base_buf *out)
{
    const char *model = bench_workload_name(&bench->workload);
    base_buf_text(out, "{\"model\":");
    base_buf_json_string(out, model, strlen(model));
    base_buf_text(out, ",\"lengths\":");
    base_buf_json_string(out, bench->workload.spec, strlen(bench->workload.spec));
    base_buf_printf(out,
                    ",\"batch_rows\":%u,\"requests_present\":%u,\"rate\":%.1f,\"seconds\":%.3f,"
                    "\"seed\":%u,\"requests_per_s\":%.1f,\"full\":%s,\"mean_ms\":%.3f,"
                    "\"p50_ms\":%.3f,\"p90_ms\":%.3f,\"p99_ms\":%.3f,\"stages\":[",
                    bench->run.rows_max, bench->present, bench->run.rate, bench->run.seconds, SEED,
                    bench->result.requests_per_s, bench->result.is_full ? "true" : "false",
                    base_hist_mean(&bench->result.latency_ns) * 1e-6, quantile_ms(bench, 0.5),
                    quantile_ms(bench, 0.9), quantile_ms(bench, 0.99));
    for (uint32_t s = 0; s < bench->cells->n_stages; s++) {
        const struct cell_type *type = bench->cells->stages[s].type;
        const struct bench_virtual_stage *stage = &bench->result.types[type->id];
        base_buf_printf(out, "%s{\"name\":", s > 0 ? "," : "");
        base_buf_json_string(out, type->name, strlen(type->name));
        base_buf_printf(out, ",\"rows\":%.2f,\"busy\":%.4f}", stage->rows, stage->busy);
    }
    base_buf_text(out, "]}\n");
}

static void write_text(const struct bench *bench, struct base_buf *out)
{
    base_buf_printf(out, "model            %s\n", bench_workload_name(&bench->workload));
    if (bench->run.rate > 0) {
        base_buf_printf(out, "load             %.1f requests/s, %s%s\n", bench->run.rate,
                        bench->workload.spec,
                        bench->result.is_full ? "; more than can be answered" : "");
    } else {
        base_buf_printf(out, "load             %u present, %s\n", bench->present,
                        bench->workload.spec);
    }
    base_buf_printf(out, "requests_per_s   %.1f\n", bench->result.requests_per_s);
    base_buf_printf(out, "latency          p50 %.3f, p90 %.3f, p99 %.3f ms\n",
                    quantile_ms(bench, 0.5), quantile_ms(bench, 0.9), quantile_ms(bench, 0.99));
    for (uint32_t s = 0; s < bench->cells->n_stages; s++) {
        const struct cell_type *type = bench->cells->stages[s].type;
        const struct bench_virtual_stage *stage = &bench->result.types[type->id];
        base_buf_printf(out, "stage            %s: %.2f rows a step, %.1f %% of the time\n",
                        type->name, stage->rows, stage->busy * 100);
    }
}

static enum base_status report(const struct bench *bench, struct base_error *error)
{
    struct base_buf out;
    base_buf_init(&out, 1u << 20);
    if (bench->workload.is_json) {
        write_json(bench, &out);
    } else {
        write_text(bench, &out);
    }
    const bool printed = !out.failed && fwrite(out.data, 1, out.length, stdout) == out.length;
    base_buf_release(&out);
    return printed ? BASE_OK : base_fail(error, BASE_INTERNAL, "cannot print");
}

/* ---- Life ---- */

static enum base_status run_all(struct bench *bench, struct base_error *error)
{
    struct bench_workload *workload = &bench->workload;
    BASE_TRY(bench_workload_read(workload, SEED, error));
    if (cell_registry_create(&bench->registry) != BASE_OK) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    BASE_TRY(bench_workload_load(workload, bench->registry, &bench->cells, error));
    bench->run.rows_max = workload->engine.batch_rows_max;
    bench->run.seconds = workload->seconds;
    bench->run.seed = SEED;
    bench->present = bench->run.rate > 0 ? OPEN_PRESENT : bench->present;
    const struct bench_load load = {.lengths = &workload->lengths,
                                    .answers = &workload->answers,
                                    .shapes = &workload->shapes,
                                    .present = bench->present};
    BASE_TRY(bench_virtual_run(bench->registry, bench->cells, &load, &bench->run, &bench->result,
                               error));
    return report(bench, error);
}

static void close_all(struct bench *bench)
{
    if (bench->cells != NULL) {
        cell_model_free(bench->registry, bench->cells);
    }
    if (bench->registry != NULL) {
        cell_registry_free(bench->registry);
    }
    bench_workload_release(&bench->workload);
}

/* ---- Arguments ---- */

static const char help[] =
    "usage: cellbatch-bench simulate [options]\n" BENCH_WORKLOAD_HELP
    "  --requests-present N   how many requests are always inside (default 64)\n"
    "  --rate R               in place of that, so many come a second\n"
    "  --gflops G             10^9 operations a second of a core (default 80)\n"
    "  --near-gbytes G        10^9 bytes a second of weights that it reads from its caches\n"
    "                         (default 100), and\n"
    "  --far-gbytes G         of those of a cell with more of them (default 22) than\n"
    "  --near-kib N           (default 1024)\n"
    "  --batch-us U           to begin and end a batch (default 2)\n"
    "  --row-us U             and of each of its rows (default 0.15)\n"
    "  --seconds S            that go by (default 10)\n"
    "  --json                 one JSON object\n"
    "Threads, instruction set, device and rounds have no meaning here.";

/* A number from `low` on, below 1e9. */
static bool parse_number(const char *text, double low, double *out)
{
    char *end = NULL;
    const double number = strtod(text, &end);
    const bool is_one = end != text && *end == '\0' && number >= low && number < 1e9;
    *out = is_one ? number : *out;
    return is_one;
}

static bool parse_scaled(const char *text, double low, double scale, double *out)
{
    const bool is_one = parse_number(text, low, out);
    *out *= is_one ? scale : 1;
    return is_one;
}

/* false: the value is not one for this option. */
static bool take_option(void *context, int option, const char *value)
{
    struct bench *bench = context;
    struct bench_virtual_times *times = &bench->run.times;
    const double least = 1e-3;
    switch (option) {
    case 'p':
        return bench_parse_count(value, 1, 1u << 16, &bench->present);
    case 'a':
        return parse_number(value, least, &bench->run.rate);
    case 'g':
        return parse_number(value, least, &times->gflops);
    case 'n':
        return parse_number(value, least, &times->near_gbytes);
    case 'f':
        return parse_number(value, least, &times->far_gbytes);
    case 'k':
        return parse_scaled(value, 0, 1024, &times->near_bytes);
    case 'u':
        return parse_scaled(value, 0, 1e3, &times->batch_ns);
    case 'w':
        return parse_scaled(value, 0, 1e3, &times->row_ns);
    default:
        return bench_workload_take(&bench->workload, option, value);
    }
}

/* false: *status is main()'s result. */
static bool parse_arguments(int argc, char **argv, struct bench *bench, int *status)
{
    static const struct option options[] = {BENCH_WORKLOAD_OPTIONS,
                                            {"requests-present", required_argument, NULL, 'p'},
                                            {"rate", required_argument, NULL, 'a'},
                                            {"gflops", required_argument, NULL, 'g'},
                                            {"near-gbytes", required_argument, NULL, 'n'},
                                            {"far-gbytes", required_argument, NULL, 'f'},
                                            {"near-kib", required_argument, NULL, 'k'},
                                            {"batch-us", required_argument, NULL, 'u'},
                                            {"row-us", required_argument, NULL, 'w'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    bench_workload_init(&bench->workload);
    bench->workload.seconds = 10;
    bench->present = 64;
    bench_virtual_times_init(&bench->run.times);
    const struct bench_arguments arguments = {
        .options = options, .help = help, .take = take_option, .context = bench};
    return bench_arguments_read(argc, argv, &arguments, status);
}

int bench_simulate(int argc, char **argv)
{
    int status = EXIT_SUCCESS;
    struct base_error error = {.status = BASE_OK};
    base_log_configure(BASE_LOG_WARN, BASE_LOG_TEXT);
    struct bench *bench = base_alloc(sizeof(*bench));
    if (bench == NULL) {
        return EXIT_FAILURE;
    }
    if (parse_arguments(argc, argv, bench, &status)) {
        status = bench_exit_status("simulate", run_all(bench, &error), &error);
        close_all(bench);
    }
    base_free(bench);
    return status;
}
