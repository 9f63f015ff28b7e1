/* cellbatch-bench policies: requests that come by themselves, batched as cells, and as others batch
 * them, by the same kernels, scheduler and pool.
 *
 * First each policy's capacity: as many requests a second as a number of clients gets answered that
 * always ask again. Then open loops at parts of the first policy's capacity. All of it in rounds in
 * which the policies take turns, so that a busy machine slows all of them; medians are reported. */
#include "base/log.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "bench/open_loop.h"
#include "bench/workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POLICIES_MAX 16u
#define RATES_MAX    16u
#define SEED         1u
#define TEXT_BYTES   32u

/* Rates up to this are parts of the first policy's capacity, larger ones requests a second. */
#define PARTS_MAX 10.0

/* An open loop of which less is answered in time goes on only in a queue that grows. */
#define ANSWERED_LEAST 0.9

struct policy {
    char text[TEXT_BYTES];
    struct bench_batching_policy batching;
};

struct settings {
    const char *policies, *rates;
    uint32_t clients, inside, group;
};

/* One run; and, in a result, the median of each number over the rounds. */
struct numbers {
    double answered, mean_ms, p50_ms, p90_ms, p99_ms, rows, padding;
};
enum { NUMBERS = sizeof(struct numbers) / sizeof(double) };

struct bench {
    struct settings settings;
    struct bench_workload workload;
    struct policy policies[POLICIES_MAX];
    double rates[RATES_MAX]; /* see PARTS_MAX */
    uint32_t n_policies, n_rates;
    struct srv_engine *engine;
    struct cell_model *cells;
    struct bench_open_loop *loop;
    struct numbers runs[POLICIES_MAX][BENCH_ROUNDS_MAX];
    struct numbers medians[POLICIES_MAX];
    struct bench_open_result result; /* of one run */
};

/* ---- Runs ---- */

static enum base_status run_one(struct bench *bench, const struct policy *policy, double rate,
                                uint32_t round, struct numbers *out, struct base_error *error)
{
    const struct settings *set = &bench->settings;
    const struct bench_open_run run = {.policy = policy->batching,
                                       .rate = rate,
                                       .clients = set->clients,
                                       .seconds = bench->workload.seconds,
                                       .seed = SEED + round};
    struct bench_open_result *result = &bench->result;
    BASE_TRY(bench_open_loop_run(bench->loop, &run, result, error));
    const struct bench_type_tally *most = bench_tally_most(bench->cells, result->types);
    *out = (struct numbers){
        .answered = result->requests_per_s,
        .mean_ms = base_hist_mean(&result->latency_ns) * 1e-6,
        .p50_ms = (double)base_hist_quantile(&result->latency_ns, 0.5) * 1e-6,
        .p90_ms = (double)base_hist_quantile(&result->latency_ns, 0.9) * 1e-6,
        .p99_ms = (double)base_hist_quantile(&result->latency_ns, 0.99) * 1e-6,
        .rows = (double)most->cells / (double)most->steps,
        .padding = (double)result->padding / (double)(result->steps + result->padding),
    };
    return BASE_OK;
}

static void median_of(const struct bench *bench, uint32_t policy, struct numbers *out)
{
    double medians[NUMBERS] = {0};
    for (uint32_t n = 0; n < NUMBERS; n++) {
        double values[BENCH_ROUNDS_MAX];
        for (uint32_t r = 0; r < bench->workload.rounds; r++) {
            memcpy(&values[r], (const char *)&bench->runs[policy][r] + n * sizeof(double),
                   sizeof(double));
        }
        medians[n] = bench_quantile(values, bench->workload.rounds, 0.5);
    }
    memcpy(out, medians, sizeof(*out));
}

/* Policies in turns; rate 0: by clients. */
static enum base_status run_rounds(struct bench *bench, double rate, struct base_error *error)
{
    for (uint32_t r = 0; r < bench->workload.rounds; r++) {
        for (uint32_t p = 0; p < bench->n_policies; p++) {
            BASE_TRY(run_one(bench, &bench->policies[p], rate, r, &bench->runs[p][r], error));
        }
    }
    for (uint32_t p = 0; p < bench->n_policies; p++) {
        median_of(bench, p, &bench->medians[p]);
    }
    return BASE_OK;
}

/* ---- Result ---- */

static void write_text(const struct bench *bench, double rate, double part, struct base_buf *out)
{
    if (rate > 0) {
        base_buf_printf(out, "\n%.1f requests/s, %.2f of what %s can\n", rate, part,
                        bench->policies[0].text);
    } else {
        base_buf_printf(out, "\n%u clients\n", bench->settings.clients);
    }
    base_buf_printf(out, "%-12s %12s %8s %8s %9s %9s %9s %9s\n", "policy", "answered/s", "rows",
                    "padding", "mean ms", "p50 ms", "p90 ms", "p99 ms");
    for (uint32_t p = 0; p < bench->n_policies; p++) {
        const struct numbers *own = &bench->medians[p];
        base_buf_printf(out, "%-12s %12.1f %8.2f %8.3f", bench->policies[p].text, own->answered,
                        own->rows, own->padding);
        if (own->answered < ANSWERED_LEAST * rate) {
            base_buf_text(out, " more than it can\n");
        } else {
            base_buf_printf(out, " %9.3f %9.3f %9.3f %9.3f\n", own->mean_ms, own->p50_ms,
                            own->p90_ms, own->p99_ms);
        }
    }
}

static void write_json(const struct bench *bench, double rate, double part, struct base_buf *out)
{
    const struct settings *set = &bench->settings;
    for (uint32_t p = 0; p < bench->n_policies; p++) {
        const struct numbers *own = &bench->medians[p];
        const char *model = bench_workload_name(&bench->workload);
        base_buf_text(out, "{");
        bench_host_json(out);
        base_buf_text(out, ",\"model\":");
        base_buf_json_string(out, model, strlen(model));
        base_buf_text(out, ",\"lengths\":");
        base_buf_json_string(out, bench->workload.spec, strlen(bench->workload.spec));
        base_buf_printf(out,
                        ",\"device\":\"%s\",\"threads\":%u,\"batch_rows\":%u,\"group\":%u,"
                        "\"inside\":%u,\"rounds\":%u,\"seconds\":%.3f,\"policy\":\"%s\",",
                        srv_engine_description(bench->engine), bench->workload.engine.team_threads,
                        bench->workload.engine.batch_rows_max, set->group, set->inside,
                        bench->workload.rounds, bench->workload.seconds, bench->policies[p].text);
        if (rate > 0) {
            base_buf_printf(out, "\"offered_per_s\":%.1f,\"part\":%.3f,", rate, part);
        } else {
            base_buf_printf(out, "\"clients\":%u,", set->clients);
        }
        base_buf_printf(out,
                        "\"answered_per_s\":%.1f,\"overloaded\":%s,\"mean_rows\":%.3f,"
                        "\"padding\":%.4f,\"mean_ms\":%.4f,\"p50_ms\":%.4f,\"p90_ms\":%.4f,"
                        "\"p99_ms\":%.4f}\n",
                        own->answered, own->answered < ANSWERED_LEAST * rate ? "true" : "false",
                        own->rows, own->padding, own->mean_ms, own->p50_ms, own->p90_ms,
                        own->p99_ms);
    }
}

static void write_head(const struct bench *bench, struct base_buf *out)
{
    const struct settings *set = &bench->settings;
    bench_host_text(out);
    base_buf_printf(out, "model    %s, %s\n", bench_workload_name(&bench->workload),
                    bench->workload.spec);
    base_buf_printf(out, "device   %s, batches of %u rows\n", srv_engine_description(bench->engine),
                    bench->workload.engine.batch_rows_max);
    base_buf_printf(out, "policies at most %u requests inside, groups of %u; %u rounds of %g s\n",
                    set->inside, set->group, bench->workload.rounds, bench->workload.seconds);
}

/* Measures, and prints; rate 0: by clients. */
static enum base_status run_load(struct bench *bench, double rate, double part,
                                 struct base_error *error)
{
    struct base_buf out;
    BASE_TRY(run_rounds(bench, rate, error));
    base_buf_init(&out, 1u << 16);
    (bench->workload.is_json ? write_json : write_text)(bench, rate, part, &out);
    const bool printed =
        !out.failed && fwrite(out.data, 1, out.length, stdout) == out.length && fflush(stdout) == 0;
    base_buf_release(&out);
    return printed ? BASE_OK : base_fail(error, BASE_INTERNAL, "the result cannot be written");
}

static enum base_status run_loads(struct bench *bench, struct base_error *error)
{
    if (!bench->workload.is_json) {
        struct base_buf head;
        base_buf_init(&head, 1u << 16);
        write_head(bench, &head);
        (void)fwrite(head.data, 1, head.length, stdout);
        base_buf_release(&head);
    }
    BASE_TRY(run_load(bench, 0, 0, error));
    const double capacity = bench->medians[0].answered;
    for (uint32_t i = 0; i < bench->n_rates; i++) {
        const bool is_part = bench->rates[i] <= PARTS_MAX;
        const double rate = is_part ? bench->rates[i] * capacity : bench->rates[i];
        BASE_TRY(run_load(bench, rate, rate / capacity, error));
    }
    return BASE_OK;
}

/* ---- Life ---- */

static enum base_status read_policies(struct bench *bench, struct base_error *error)
{
    const struct settings *set = &bench->settings;
    const char *rest = set->policies != NULL          ? set->policies
                       : bench->workload.tree != NULL ? "cellular,merge,single"
                                                      : "cellular,graph:10,merge,single";
    for (char text[TEXT_BYTES]; (rest = bench_list_next(rest, text, sizeof text)) != NULL;) {
        struct policy *policy = &bench->policies[bench->n_policies];
        if (bench->n_policies == POLICIES_MAX) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "more than %u policies", POLICIES_MAX);
        }
        BASE_TRY(bench_batching_parse(text, &policy->batching, error));
        policy->batching.most = policy->batching.kind == BENCH_CELLULAR ? set->inside : set->group;
        memcpy(policy->text, text, sizeof text);
        bench->n_policies++;
    }
    return bench->n_policies > 0 ? BASE_OK : base_fail(error, BASE_INVALID_ARGUMENT, "no policies");
}

static enum base_status read_rates(struct bench *bench, struct base_error *error)
{
    const char *rest = bench->settings.rates;
    for (char text[TEXT_BYTES]; (rest = bench_list_next(rest, text, sizeof text)) != NULL;) {
        char *end = NULL;
        const double part = strtod(text, &end);
        if (*end != '\0' || !(part > 0 && part <= 1e9)) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "rate '%s': want a number over 0", text);
        }
        if (bench->n_rates == RATES_MAX) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "more than %u rates", RATES_MAX);
        }
        bench->rates[bench->n_rates++] = part;
    }
    return BASE_OK;
}

static enum base_status open_all(struct bench *bench, struct base_error *error)
{
    struct settings *set = &bench->settings;
    const struct bench_workload *workload = &bench->workload;
    const uint32_t most = set->inside > set->group ? set->inside : set->group;
    BASE_TRY(read_policies(bench, error));
    BASE_TRY(read_rates(bench, error));
    BASE_TRY(bench_workload_read(&bench->workload, SEED, error));
    BASE_TRY(bench_workload_find_device(&bench->workload, error));
    bench->workload.engine.rows = bench_workload_rows(workload, most);
    BASE_TRY(srv_engine_create(&bench->workload.engine, &bench->engine, error));
    BASE_TRY(
        bench_workload_load(workload, srv_engine_registry(bench->engine), &bench->cells, error));
    BASE_TRY(srv_engine_add_model(bench->engine, bench->cells, error));
    const struct bench_load load = {.lengths = &workload->lengths,
                                    .answers = &workload->answers,
                                    .shapes = &workload->shapes,
                                    .present = most};
    BASE_TRY(bench_open_loop_create(bench->engine, bench->cells, &load, &bench->loop, error));
    return srv_engine_start(bench->engine, error);
}

static void close_all(struct bench *bench)
{
    bench_open_loop_free(bench->loop);
    if (bench->cells != NULL) {
        cell_model_free(srv_engine_registry(bench->engine), bench->cells);
    }
    srv_engine_free(bench->engine);
    bench_workload_release(&bench->workload);
}

static int run_all(struct bench *bench)
{
    struct base_error error = {.status = BASE_OK};
    enum base_status status = open_all(bench, &error);
    if (status == BASE_OK) {
        status = run_loads(bench, &error);
        srv_engine_stop(bench->engine);
    }
    close_all(bench);
    return bench_exit_status("policies", status, &error);
}

/* ---- Arguments ---- */

static const char help[] =
    "usage: cellbatch-bench policies [options]\n" BENCH_WORKLOAD_HELP
    "  --policies LIST        cellular: cells of whoever is there; graph:WIDTH: requests of one\n"
    "                         bucket of lengths, padded; merge: requests that wait, their graphs\n"
    "                         merged by depth; single: one by one (default, of trees without the\n"
    "                         second: cellular,graph:10,merge,single)\n"
    "  --rates LIST           of open loops: up to 10 parts of what the first policy can, over 10\n"
    "                         requests a second (default 0.2,0.5,0.8,0.95)\n"
    "  --clients N            that always ask again, to see what a policy can (default 256)\n"
    "  --inside N             the most requests inside, of cellular (default 256)\n"
    "  --group N              the most requests of a group, of the others (default 64)\n"
    "  --calibrate            types as the server does at its start: it may bound batches\n"
    "  --seconds S            of each run (default 2)\n"
    "  --rounds N             in which the policies take turns (default 3)\n"
    "  --json                 one JSON object a line";

/* false: the value is not one for this option. */
static bool take_option(void *context, int option, const char *value)
{
    struct bench *bench = context;
    struct settings *set = &bench->settings;
    switch (option) {
    case 'o':
        set->policies = value;
        return true;
    case 'a':
        set->rates = value;
        return true;
    case 'C':
        bench->workload.engine.calibrate = true;
        return true;
    case 'n':
        return bench_parse_count(value, 1, 1u << 20, &set->clients);
    case 'I':
        return bench_parse_count(value, 1, 1u << 16, &set->inside);
    case 'g':
        return bench_parse_count(value, 1, 1u << 16, &set->group);
    default:
        return bench_workload_take(&bench->workload, option, value);
    }
}

/* false: *status is main()'s result. */
static bool parse_arguments(int argc, char **argv, struct bench *bench, int *status)
{
    static const struct option options[] = {BENCH_WORKLOAD_OPTIONS,
                                            {"policies", required_argument, NULL, 'o'},
                                            {"rates", required_argument, NULL, 'a'},
                                            {"clients", required_argument, NULL, 'n'},
                                            {"inside", required_argument, NULL, 'I'},
                                            {"group", required_argument, NULL, 'g'},
                                            {"calibrate", no_argument, NULL, 'C'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    bench_workload_init(&bench->workload);
    bench->workload.rounds = 3;
    bench->workload.seconds = 2; // of each run
    bench->settings =
        (struct settings){.rates = "0.2,0.5,0.8,0.95", .clients = 256, .inside = 256, .group = 64};
    const struct bench_arguments arguments = {
        .options = options, .help = help, .take = take_option, .context = bench};
    return bench_arguments_read(argc, argv, &arguments, status);
}

int bench_policies(int argc, char **argv)
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
