/* cellbatch-bench kernels: a cell's steps, straight through a kernel table or through a backend's
 * device, beside the multiply-add peak of a core measured in the same breath.
 *
 * A round is one run of all steps (a short one several times, so that clocks and caches have
 * settled), between two bursts of the peak loop; rounds repeat for --ms. Reported are the best
 * round against the best piece of any burst, which is what the code can do, and the median of each
 * round against its own two bursts, all by the same clock: neighbours on the same core or chip slow
 * both; and the median beside the roofline of the limits measured at start (bench/limits.h). One
 * thread is timed by its own CPU time, which other processes only disturb through the caches; a
 * team by the clock. */
#include "cells/kernels.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/mem.h"
#include "bench/ablate.h"
#include "bench/bare.h"
#include "bench/bench.h"
#include "bench/limits.h"
#include "bench/sequence.h"
#include "bench/serve.h"
#include "worker/team.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 4096u
#define ROUND_NS   BASE_NS_PER_MS         /* a round takes at least this */
#define BURST_NS   (300 * BASE_NS_PER_US) /* on either side of it */
#define LIMIT_NS   (50 * BASE_NS_PER_MS)  /* for each limit of the roofline */
#define SEED       1u

/* The default of cellbatchd's --spin-us. */
#define SERVER_SPIN_NS (20 * BASE_NS_PER_US)

struct settings {
    const char *shapes;
    const char *cells;
    const char *isa;
    const char *precision; /* of the weights */
    const char *backend;   /* NULL: the kernel table itself */
    uint32_t threads;
    uint32_t ahead; /* steps whose sums over x are computed together; 0: none are */
    uint64_t ms;
    bool products_only;
    bool is_serving;
    bool is_ablating;
    bool pin;
    bool is_json;
};

/* What all jobs share. */
struct bench_run {
    struct settings settings;
    struct bench_shape shapes[BENCH_SHAPES_MAX];
    uint32_t n_shapes;
    const struct cell_kernels *kernels;
    enum cell_precision precision;
    const struct cell_backend *backend;
    struct cell_team *team;
    struct bench_limits limits;
};

/* One cell with its data. */
struct job {
    const struct bench_run *run;
    const struct bench_cell *cell;
    struct bench_shape shape;
    struct bench_data data;
    // One of the two:
    struct bench_sequence *sequence; /* through a device */
    struct bench_bare *bare;         /* straight through the kernels */
};

/* ---- Measuring ------------------------------------------------------------------------------ */

static void run_once(struct job *job)
{
    if (job->sequence != NULL) {
        bench_sequence_run(job->sequence);
    } else {
        bench_bare_run(job->bare);
    }
}

struct result {
    double best_ms, median_ms; /* all steps once */
    double gflops;             /* of the best round, all threads */
    double peak;               /* of one core, best piece of a burst */
    double median_of_peak;     /* of the rounds, each against the bursts before and behind it */
    uint32_t rounds;
};

static uint64_t time_ns(const struct job *job)
{
    return bench_cost_ns(job->run->settings.threads);
}

/* How often the steps are run in a round. */
static uint32_t repeats_of(struct job *job)
{
    uint64_t start = base_now_ns();
    run_once(job);
    uint64_t once_ns = base_now_ns() - start + 1;
    return once_ns >= ROUND_NS ? 1 : (uint32_t)(ROUND_NS / once_ns) + 1;
}

static struct bench_burst burst_of(const struct bench_run *run)
{
    return bench_fma_burst(run->kernels->name, run->precision, BURST_NS);
}

static void measure(struct job *job, struct result *out)
{
    static double ms[ROUNDS_MAX];
    static double of_peak[ROUNDS_MAX];
    double flops = bench_flops(job->cell, &job->shape);
    *out = (struct result){0};
    run_once(job);
    uint32_t repeats = repeats_of(job);
    uint64_t start = base_now_ns();
    struct bench_burst before = burst_of(job->run);
    while (out->rounds < ROUNDS_MAX &&
           (out->rounds < 3 || base_now_ns() - start < job->run->settings.ms * BASE_NS_PER_MS)) {
        uint64_t begun_ns = time_ns(job);
        for (uint32_t i = 0; i < repeats; i++) {
            run_once(job);
        }
        double round_ms = (double)(time_ns(job) - begun_ns) / 1e6 / repeats;
        struct bench_burst behind = burst_of(job->run);
        double all = (before.mean_gflops + behind.mean_gflops) / 2.0 * job->run->settings.threads;
        out->peak = before.best_gflops > out->peak ? before.best_gflops : out->peak;
        of_peak[out->rounds] = all > 0.0 && round_ms > 0.0 ? flops / (round_ms * 1e6) / all : 0.0;
        ms[out->rounds++] = round_ms;
        before = behind;
    }
    out->median_of_peak = bench_quantile(of_peak, out->rounds, 0.5);
    out->median_ms = bench_quantile(ms, out->rounds, 0.5);
    out->best_ms = ms[0]; // sorted
    out->gflops = flops / (out->best_ms * 1e6);
}

static const char *path_name(const struct bench_run *run)
{
    return run->backend == NULL ? "kernels" : run->backend->name;
}

static void print_json(const struct job *job, const struct result *result, double part,
                       double roofline_ms)
{
    const struct settings *set = &job->run->settings;
    const struct bench_shape *s = &job->shape;
    (void)printf("{\"cell\":\"%s\",\"input\":%u,\"hidden\":%u,\"rows\":%u,\"steps\":%u,"
                 "\"threads\":%u,\"precision\":\"%s\",\"isa\":\"%s\",\"path\":\"%s\","
                 "\"ahead\":%u,\"products_only\":%s,\"rounds\":%u,",
                 job->cell->name, s->inputs, s->hidden, s->rows, s->steps, set->threads,
                 set->precision, job->run->kernels->name, path_name(job->run), set->ahead,
                 set->products_only ? "true" : "false", result->rounds);
    (void)printf("\"ms_p50\":%.5f,\"ms_min\":%.5f,\"gflops\":%.1f,\"peak_gflops_per_core\":%.1f,"
                 "\"of_peak\":%.3f,\"median_of_peak\":%.3f,\"roofline_ms\":%.5f,"
                 "\"roofline_ratio\":%.3f}\n",
                 result->median_ms, result->best_ms, result->gflops, result->peak, part,
                 result->median_of_peak, roofline_ms, roofline_ms / result->median_ms);
}

static void print_result(const struct job *job, const struct result *result, bool is_first)
{
    const struct settings *set = &job->run->settings;
    const struct bench_shape *s = &job->shape;
    double part = result->peak > 0.0 ? result->gflops / (result->peak * set->threads) : 0.0;
    struct bench_demand demand;
    bench_demand_of_cell(job->cell, s, job->run->precision, &demand);
    demand.sigmoids = set->products_only ? 0.0 : demand.sigmoids;
    demand.tanhs = set->products_only ? 0.0 : demand.tanhs;
    double roofline_ms = bench_roofline_ms(&job->run->limits, &demand, s->rows, s->steps);
    if (set->is_json) {
        print_json(job, result, part, roofline_ms);
        return;
    }
    if (is_first) {
        (void)printf("%-8s %-22s %-8s %-7s %7s %10s %10s %9s %8s %7s %11s %6s\n", "cell",
                     "INPUTxHIDDENxROWSxSTEPS", "path", "isa", "threads", "best_ms", "median_ms",
                     "GFLOP/s", "of_peak", "median", "roofline_ms", "ratio");
    }
    (void)printf("%-8s %5ux%4ux%4ux%4u     %-8s %-7s %7u %10.4f %10.4f %9.1f %8.3f %7.3f %11.4f "
                 "%6.3f\n",
                 job->cell->name, s->inputs, s->hidden, s->rows, s->steps, path_name(job->run),
                 job->run->kernels->name, set->threads, result->best_ms, result->median_ms,
                 result->gflops, part, result->median_of_peak, roofline_ms,
                 roofline_ms / result->median_ms);
}

/* ---- Cells and shapes ------------------------------------------------------------------------ */

static enum base_status open_job(struct job *job, struct base_error *error)
{
    const struct bench_run *run = job->run;
    if (bench_cell_is_tree(job->cell) && job->shape.inputs != job->shape.hidden) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "%s: an input of %u for %u units, but it stands for a child",
                         job->cell->name, job->shape.inputs, job->shape.hidden);
    }
    if (bench_cell_is_tree(job->cell) && run->settings.ahead > 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: --ahead computes no child",
                         job->cell->name);
    }
    BASE_TRY(bench_data_random(&job->data, job->cell, &job->shape, SEED, error));
    if (run->backend == NULL) {
        struct bench_bare_options bare = {.kernels = run->kernels,
                                          .team = run->team,
                                          .cell = job->cell,
                                          .shape = job->shape,
                                          .precision = run->precision,
                                          .ahead = run->settings.ahead,
                                          .products_only = run->settings.products_only};
        bench_bare_open(&bare, &job->data, &job->bare);
        return BASE_OK;
    }
    struct bench_sequence_options options = {.backend = run->backend,
                                             .isa = run->settings.isa,
                                             .team = run->team,
                                             .cell = job->cell,
                                             .shape = job->shape,
                                             .precision = run->precision};
    return bench_sequence_open(&options, &job->data, &job->sequence, error);
}

static void close_job(struct job *job)
{
    bench_bare_close(job->bare);
    bench_sequence_close(job->sequence);
    bench_data_release(&job->data);
}

static enum base_status measure_cell(const struct bench_run *run, const char *name, bool is_first,
                                     struct base_error *error)
{
    const struct bench_cell *cell = NULL;
    BASE_TRY(bench_cell_find(name, &cell, error));
    for (uint32_t i = 0; i < run->n_shapes; i++) {
        struct job job = {.run = run, .cell = cell, .shape = run->shapes[i]};
        struct result result;
        enum base_status status = open_job(&job, error);
        if (status == BASE_OK) {
            measure(&job, &result);
            print_result(&job, &result, is_first && i == 0);
            (void)fflush(stdout);
        }
        close_job(&job);
        BASE_TRY(status);
    }
    return BASE_OK;
}

static void print_start(const struct bench_run *run)
{
    struct base_buf text;
    base_buf_init(&text, 4096);
    if (run->settings.is_json) {
        base_buf_text(&text, "{");
        bench_host_json(&text);
        base_buf_printf(&text, ",\"seed\":%u,", SEED);
        bench_limits_json(&text, &run->limits);
        base_buf_text(&text, "}\n");
    } else {
        bench_host_text(&text);
        base_buf_printf(&text, "# seed %u\n", SEED);
        bench_limits_text(&text, &run->limits);
    }
    (void)fputs(text.failed ? "" : text.data, stdout);
    base_buf_release(&text);
}

static enum base_status measure_all(struct bench_run *run, struct base_error *error)
{
    char name[32];
    bool is_first = true;
    bench_limits_measure(run->team, run->kernels, LIMIT_NS, &run->limits);
    print_start(run);
    for (const char *rest = run->settings.cells;
         (rest = bench_list_next(rest, name, sizeof(name))) != NULL; is_first = false) {
        BASE_TRY(measure_cell(run, name, is_first, error));
    }
    return BASE_OK;
}

static enum base_status ablate(struct bench_run *run, struct base_error *error)
{
    struct bench_ablate_options options = {.cells = run->settings.cells,
                                           .shapes = run->shapes,
                                           .n_shapes = run->n_shapes,
                                           .isa = run->settings.isa,
                                           .team = run->team,
                                           .seed = SEED,
                                           .ms = run->settings.ms,
                                           .is_json = run->settings.is_json};
    bench_limits_measure(run->team, run->kernels, LIMIT_NS, &run->limits);
    print_start(run);
    return bench_ablate(&options, error);
}

static void serve(const struct bench_run *run)
{
    struct bench_serve_options options = {
        .backend = run->backend, .isa = run->settings.isa, .team = run->team};
    if (run->settings.pin) {
        (void)base_cpus_pin_self(0);
    }
    bench_serve(stdin, stdout, &options);
}

/* ---- Options --------------------------------------------------------------------------------- */

static const char help[] =
    "usage: cellbatch-bench kernels [options]\n"
    "  --shapes LIST      INPUTxHIDDENxROWSxSTEPS, comma between; deepcpu: table 1 of that paper\n"
    "                     (default: those of docs/kernels.md)\n"
    "  --cells LIST       lstm, gru, treelstm (default lstm)\n"
    "  --threads N        team of N threads (default 1)\n"
    "  --precision NAME   how weights are held: fp32, bf16, int8 (default fp32)\n"
    "  --isa NAME         auto, scalar, avx2, avx512, neon (default auto)\n"
    "  --backend NAME     through this backend's device (cpu, blas), each step's output written,\n"
    "                     instead of the kernels alone\n"
    "  --ahead N          sums over x of N steps together, as the device does for few rows\n"
    "                     (kernels alone; default 0: with each step)\n"
    "  --products-only    leave out activations and state update (kernels alone)\n"
    "  --ablate           what fusion, windows and one parallel region for all steps are worth\n"
    "                     (bench/ablate.h; lstm, gru)\n"
    "  --serve            run what standard input asks for (bench/serve.h); default backend cpu\n"
    "  --pin              a CPU for each thread (when serving; else always)\n"
    "  --ms N             time for each shape (default 1000)\n"
    "  --json             one JSON object a line";

static void set_count(struct settings *set, int option)
{
    uint64_t count = strchr("tam", option) != NULL ? strtoull(optarg, NULL, 10) : 0;
    set->threads = option == 't' ? (uint32_t)count : set->threads;
    set->ahead = option == 'a' ? (uint32_t)count : set->ahead;
    set->ms = option == 'm' ? count : set->ms;
}

static bool are_counts_sane(const struct settings *set)
{
    return set->threads >= 1 && set->threads <= 1024 && set->ahead <= 1024;
}

/* false: *status is main()'s result. */
static bool parse_arguments(int argc, char **argv, struct settings *out, int *status)
{
    static const struct option options[] = {{"shapes", required_argument, NULL, 's'},
                                            {"cells", required_argument, NULL, 'c'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"isa", required_argument, NULL, 'i'},
                                            {"precision", required_argument, NULL, 'r'},
                                            {"backend", required_argument, NULL, 'b'},
                                            {"ahead", required_argument, NULL, 'a'},
                                            {"products-only", no_argument, NULL, 'p'},
                                            {"ablate", no_argument, NULL, 'x'},
                                            {"serve", no_argument, NULL, 'v'},
                                            {"pin", no_argument, NULL, 'n'},
                                            {"ms", required_argument, NULL, 'm'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    *out = (struct settings){.shapes = "64x64x1x100,256x256x1x100,1024x1024x1x100,256x256x10x100,"
                                       "256x256x20x100,1024x1024x10x100",
                             .cells = "lstm",
                             .isa = "auto",
                             .precision = "fp32",
                             .threads = 1,
                             .ms = 1000};
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
    for (int o = 0; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        out->shapes = o == 's' ? optarg : out->shapes;
        out->cells = o == 'c' ? optarg : out->cells;
        out->isa = o == 'i' ? optarg : out->isa;
        out->precision = o == 'r' ? optarg : out->precision;
        out->backend = o == 'b' ? optarg : out->backend;
        set_count(out, o);
        out->products_only |= o == 'p';
        out->is_ablating |= o == 'x';
        out->is_serving |= o == 'v';
        out->pin |= o == 'n';
        out->is_json |= o == 'j';
        if (o == 'h' || o == '?' || !are_counts_sane(out)) {
            (void)fprintf(o == 'h' ? stdout : stderr, "%s\n", help);
            *status = o == 'h' ? EXIT_SUCCESS : 2;
            return false;
        }
    }
    return true;
}

static enum base_status check_cells(const struct bench_run *run, struct base_error *error)
{
    char name[32];
    const struct bench_cell *cell = NULL;
    for (const char *rest = run->settings.cells;
         (rest = bench_list_next(rest, name, sizeof(name))) != NULL;) {
        BASE_TRY(bench_cell_find(name, &cell, error));
    }
    return BASE_OK;
}

/* What the settings name must be there, and go together. */
static enum base_status choose(struct bench_run *run, struct base_error *error)
{
    struct settings *set = &run->settings;
    BASE_TRY(cell_precision_find(set->precision, &run->precision, error));
    if (set->is_serving && run->precision != CELL_FP32) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "--precision does not go with --serve");
    }
    if (set->is_ablating && (set->is_serving || set->products_only || set->ahead > 0 ||
                             set->backend != NULL || run->precision != CELL_FP32)) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "--ablate goes with cells, shapes, threads, isa, ms and json only");
    }
    if (set->is_serving && set->backend == NULL) {
        set->backend = "cpu";
    }
    if (set->backend != NULL) {
        run->backend = cell_backend_find(set->backend);
        if (run->backend == NULL) {
            return base_fail(error, BASE_NOT_FOUND, "no backend is called %.32s", set->backend);
        }
        if (set->products_only || set->ahead > 0) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "--products-only and --ahead go with the kernels alone");
        }
    }
    BASE_TRY(check_cells(run, error));
    BASE_TRY(bench_shapes_parse(set->shapes, run->shapes, &run->n_shapes, error));
    return cell_kernels_choose(set->isa, &run->kernels, error);
}

int bench_kernels(int argc, char **argv)
{
    struct bench_run run = {.kernels = NULL};
    struct base_error error;
    int exit_status = EXIT_SUCCESS;
    if (!parse_arguments(argc, argv, &run.settings, &exit_status)) {
        return exit_status;
    }
    // Served sequences are compared with what others do by default, so they run as in the server.
    bool is_serving = run.settings.is_serving;
    struct wrk_team_options team = {.members = run.settings.threads,
                                    .spin_ns = is_serving ? SERVER_SPIN_NS : BASE_NS_PER_MS,
                                    .pin = run.settings.threads > 1 &&
                                           (!is_serving || run.settings.pin),
                                    .name = "bench"};
    enum base_status status = choose(&run, &error);
    if (status == BASE_OK && wrk_team_create(&team, &run.team) != BASE_OK) {
        status = base_fail(&error, BASE_UNAVAILABLE, "cannot start %u threads", team.members);
    }
    if (status == BASE_OK && run.settings.is_serving) {
        serve(&run);
    } else if (status == BASE_OK && run.settings.is_ablating) {
        status = ablate(&run, &error);
    } else if (status == BASE_OK) {
        status = measure_all(&run, &error);
    }
    if (run.team != NULL) {
        wrk_team_free(run.team);
    }
    return bench_exit_status(argv[0], status, &error);
}
