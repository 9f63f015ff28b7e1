/* cellbatch-bench cellular: what it costs a device that rows join and leave.
 *
 * A shape runs in two forms on one device: whole sequences, in which nobody joins or leaves, and
 * the cellular form of bench/course.h, with the same rows, steps, inputs and outputs written. A
 * round is both, one behind the other and in turns the first, the cellular form with a new draw of
 * who stays how long; rounds repeat for --ms. Reported are the median of each form's rounds, and
 * the median of the rounds' own differences: what disturbs a round disturbs both. One thread is
 * timed by its CPU time, as by `kernels`; a team by the clock. */
#include "base/buf.h"
#include "base/clock.h"
#include "bench/bench.h"
#include "bench/course.h"
#include "bench/sequence.h"
#include "worker/team.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 4096u
#define ROUNDS_MIN 5u
#define ROUND_NS   BASE_NS_PER_MS /* each form takes at least this in a round */
#define SEED       1u
#define RESIDENCE  24.0

/* What the cellular form may cost: a tenth of a step, or this where that is less. */
#define LIMIT_PART 0.10
#define LIMIT_US   0.3

struct settings {
    const char *shapes;
    const char *cells;
    const char *isa;
    uint32_t threads;
    uint64_t ms;
    bool is_json;
};

struct run {
    struct settings settings;
    struct bench_shape shapes[BENCH_SHAPES_MAX];
    uint32_t n_shapes;
    const char *isa; /* the one that was chosen */
    struct cell_team *team;
};

/* One cell and shape in both forms. */
struct job {
    const struct run *run;
    const struct bench_cell *cell;
    struct bench_shape shape;
    struct bench_data data;
    struct bench_sequence *sequence;
    struct bench_course *course;
};

/* Of a step, all rows. */
struct result {
    uint32_t rounds;
    double whole_us, cellular_us;
    double difference_us, percent, limit_us;
    double joins, batch_steps; /* a step; of a batch */
};

/* ---- Measuring ------------------------------------------------------------------------------ */

static void run_whole(struct job *job)
{
    bench_sequence_run(job->sequence);
}

static void run_cellular(struct job *job)
{
    bench_course_run(job->course);
}

/* Microseconds of a step, over `repeats` runs. */
static double time_us(struct job *job, void (*form)(struct job *job), uint32_t repeats)
{
    uint64_t begun_ns = bench_cost_ns(job->run->settings.threads);
    for (uint32_t i = 0; i < repeats; i++) {
        form(job);
    }
    uint64_t ns = bench_cost_ns(job->run->settings.threads) - begun_ns;
    return (double)ns / 1e3 / repeats / job->shape.steps;
}

static uint32_t repeats_of(struct job *job)
{
    run_whole(job);
    run_cellular(job);
    double ns = time_us(job, run_whole, 1) * 1e3 * job->shape.steps + 1;
    return 1 + (uint32_t)((double)ROUND_NS / ns);
}

static void measure(struct job *job, struct result *out)
{
    static double whole[ROUNDS_MAX];
    static double cellular[ROUNDS_MAX];
    static double difference[ROUNDS_MAX];
    *out = (struct result){0};
    uint32_t repeats = repeats_of(job);
    uint64_t joins = 0;
    uint64_t batches = 0;
    uint64_t start = base_now_ns();
    uint32_t n = 0;
    for (; n < ROUNDS_MAX &&
           (n < ROUNDS_MIN || base_now_ns() - start < job->run->settings.ms * BASE_NS_PER_MS);
         n++) {
        bench_course_draw(job->course);
        if (n % 2 == 0) {
            whole[n] = time_us(job, run_whole, repeats);
        }
        cellular[n] = time_us(job, run_cellular, repeats);
        if (n % 2 != 0) {
            whole[n] = time_us(job, run_whole, repeats);
        }
        difference[n] = cellular[n] - whole[n];
        joins += bench_course_joins(job->course);
        batches += bench_course_batches(job->course);
    }
    double steps = (double)n * job->shape.steps;
    out->rounds = n;
    out->whole_us = bench_quantile(whole, n, 0.5);
    out->cellular_us = bench_quantile(cellular, n, 0.5);
    out->difference_us = bench_quantile(difference, n, 0.5);
    out->percent = 100.0 * out->difference_us / out->whole_us;
    out->limit_us = out->whole_us * LIMIT_PART > LIMIT_US ? out->whole_us * LIMIT_PART : LIMIT_US;
    out->joins = (double)joins / steps;
    out->batch_steps = steps / (double)batches;
}

/* ---- Results -------------------------------------------------------------------------------- */

static void print_json(const struct job *job, const struct result *result)
{
    const struct bench_shape *s = &job->shape;
    (void)printf("{\"cell\":\"%s\",\"input\":%u,\"hidden\":%u,\"rows\":%u,\"steps\":%u,"
                 "\"threads\":%u,\"isa\":\"%s\",\"rounds\":%u,",
                 job->cell->name, s->inputs, s->hidden, s->rows, s->steps,
                 job->run->settings.threads, job->run->isa, result->rounds);
    (void)printf("\"joins_per_step\":%.4f,\"steps_per_batch\":%.2f,\"whole_us\":%.4f,"
                 "\"cellular_us\":%.4f,\"difference_us\":%.4f,\"difference_percent\":%.2f,"
                 "\"limit_us\":%.4f,\"within\":%s}\n",
                 result->joins, result->batch_steps, result->whole_us, result->cellular_us,
                 result->difference_us, result->percent, result->limit_us,
                 result->difference_us <= result->limit_us ? "true" : "false");
}

static void print_result(const struct job *job, const struct result *result, bool is_first)
{
    const struct bench_shape *s = &job->shape;
    if (job->run->settings.is_json) {
        print_json(job, result);
        return;
    }
    if (is_first) {
        (void)printf("%-5s %-24s %6s %10s %12s %10s %12s %9s %7s %9s %s\n", "cell",
                     "INPUTxHIDDENxROWSxSTEPS", "rounds", "joins/step", "steps/batch", "whole_us",
                     "cellular_us", "more_us", "percent", "limit_us", "within");
    }
    (void)printf("%-5s %5ux%4ux%4ux%4u      %6u %10.3f %12.2f %10.3f %12.3f %9.3f %7.1f %9.3f %s\n",
                 job->cell->name, s->inputs, s->hidden, s->rows, s->steps, result->rounds,
                 result->joins, result->batch_steps, result->whole_us, result->cellular_us,
                 result->difference_us, result->percent, result->limit_us,
                 result->difference_us <= result->limit_us ? "yes" : "NO");
}

static void print_start(const struct run *run)
{
    struct base_buf text;
    base_buf_init(&text, 4096);
    if (run->settings.is_json) {
        base_buf_text(&text, "{");
        bench_host_json(&text);
        base_buf_printf(&text, ",\"seed\":%u,\"residence_steps\":%.0f}\n", SEED, RESIDENCE);
    } else {
        bench_host_text(&text);
        base_buf_printf(&text, "# seed %u; a row stays %.0f steps in the mean; %s, %u threads\n",
                        SEED, RESIDENCE, run->isa, run->settings.threads);
    }
    (void)fputs(text.failed ? "" : text.data, stdout);
    base_buf_release(&text);
}

/* ---- Cells and shapes ------------------------------------------------------------------------ */

static enum base_status open_job(struct job *job, struct base_error *error)
{
    struct bench_sequence_options options = {.backend = cell_backend_find("cpu"),
                                             .isa = job->run->isa,
                                             .team = job->run->team,
                                             .cell = job->cell,
                                             .shape = job->shape};
    BASE_TRY(bench_data_random(&job->data, job->cell, &job->shape, SEED, error));
    BASE_TRY(bench_sequence_open(&options, &job->data, &job->sequence, error));
    return bench_course_open(job->sequence, &job->shape, RESIDENCE, SEED, &job->course, error);
}

static void close_job(struct job *job)
{
    bench_course_close(job->course);
    bench_sequence_close(job->sequence);
    bench_data_release(&job->data);
}

static enum base_status measure_cell(const struct run *run, const char *name, bool is_first,
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

static enum base_status measure_all(struct run *run, struct base_error *error)
{
    char name[32];
    bool is_first = true;
    const struct cell_kernels *kernels = NULL;
    BASE_TRY(bench_shapes_parse(run->settings.shapes, run->shapes, &run->n_shapes, error));
    BASE_TRY(cell_kernels_choose(run->settings.isa, &kernels, error));
    run->isa = kernels->name;
    print_start(run);
    for (const char *rest = run->settings.cells;
         (rest = bench_list_next(rest, name, sizeof(name))) != NULL; is_first = false) {
        BASE_TRY(measure_cell(run, name, is_first, error));
    }
    return BASE_OK;
}

/* ---- Options --------------------------------------------------------------------------------- */

static const char help[] =
    "usage: cellbatch-bench cellular [options]\n"
    "  --shapes LIST      INPUTxHIDDENxROWSxSTEPS, comma between; deepcpu: table 1 of that paper\n"
    "                     (default)\n"
    "  --cells LIST       lstm, gru (default both)\n"
    "  --threads N        team of N threads, pinned (default 1, not pinned)\n"
    "  --isa NAME         auto, scalar, avx2, avx512, neon (default auto)\n"
    "  --ms N             time for each shape (default 1000)\n"
    "  --json             one JSON object a line";

/* false: *status is main()'s result. */
static bool parse_arguments(int argc, char **argv, struct settings *out, int *status)
{
    static const struct option options[] = {
        {"shapes", required_argument, NULL, 's'},  {"cells", required_argument, NULL, 'c'},
        {"threads", required_argument, NULL, 't'}, {"isa", required_argument, NULL, 'i'},
        {"ms", required_argument, NULL, 'm'},      {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    *out = (struct settings){
        .shapes = "deepcpu", .cells = "lstm,gru", .isa = "auto", .threads = 1, .ms = 1000};
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
    for (int o = 0; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        out->shapes = o == 's' ? optarg : out->shapes;
        out->cells = o == 'c' ? optarg : out->cells;
        out->isa = o == 'i' ? optarg : out->isa;
        out->threads = o == 't' ? (uint32_t)strtoul(optarg, NULL, 10) : out->threads;
        out->ms = o == 'm' ? strtoull(optarg, NULL, 10) : out->ms;
        out->is_json |= o == 'j';
        if (o == 'h' || o == '?' || out->threads < 1 || out->threads > 1024) {
            (void)fprintf(o == 'h' ? stdout : stderr, "%s\n", help);
            *status = o == 'h' ? EXIT_SUCCESS : 2;
            return false;
        }
    }
    return true;
}

int bench_cellular(int argc, char **argv)
{
    struct run run = {.team = NULL};
    struct base_error error;
    int exit_status = EXIT_SUCCESS;
    if (!parse_arguments(argc, argv, &run.settings, &exit_status)) {
        return exit_status;
    }
    enum base_status status = bench_team_start(run.settings.threads, &run.team, &error);
    if (status == BASE_OK) {
        status = measure_all(&run, &error);
        wrk_team_free(run.team);
    }
    return bench_exit_status(argv[0], status, &error);
}
