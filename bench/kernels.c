/* cellbatch-bench kernels: an LSTM's steps, straight through a kernel table or through a backend's
 * device, beside the multiply-add peak of a core measured in the same breath.
 *
 * A shape is INPUTxHIDDENxROWSxSTEPS. A round is one run of all steps (a short one several times,
 * so that clocks and caches have settled), between two bursts of the peak loop; rounds repeat for
 * --ms. Reported are the best round against the best piece of any burst, which is what the code can
 * do, and the median of each round against its own two bursts, all by the same clock: neighbours on
 * the same core or chip slow both. One thread is timed by its own CPU time, which other processes
 * only disturb through the caches; a team by the clock. */
#include "cells/kernels.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "bench/bench.h"
#include "cells/backend.h"
#include "worker/team.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 4096u
#define ROUND_NS   BASE_NS_PER_MS         /* a round takes at least this */
#define BURST_NS   (300 * BASE_NS_PER_US) /* on either side of it */
#define SEED       1u

struct settings {
    const char *shapes;
    const char *isa;
    const char *backend; /* NULL: the kernel table itself */
    uint32_t threads;
    uint64_t ms;
    bool products_only;
    bool is_json;
};

struct shape {
    uint32_t inputs, hidden, rows, steps;
};

/* One LSTM with its data; x [steps][rows][inputs] as requests would hold it. */
struct job {
    const struct settings *settings;
    struct shape shape;
    struct cell_def def; /* input x, states h, c, output h' */
    float *weights[3];
    float *x;
    struct cell_team *team;
    // Straight through the kernels:
    const struct cell_kernels *kernels;
    struct cell_gated gated;
    float *state;     /* [rows][h even, h odd, c] */
    const float **in; /* [steps][rows] */
    float **rows[3];  /* [rows] pointers to h even, h odd, c */
    float **scratch;  /* [threads] */
    // Through a device:
    const struct cell_backend *backend;
    struct cell_device *device;
    struct cell_registry *registry;
    const struct cell_type *type;
    struct cell_wiring *wirings;
    struct cell_batch_row *batch_rows;
};

static void *must(void *memory)
{
    base_assert(memory != NULL); // a benchmark without memory has nothing to say
    return memory;
}

static float *random_floats(struct base_random *random, size_t n, float scale)
{
    float *floats = must(base_alloc_aligned(n * sizeof(float), BASE_CACHE_LINE));
    for (size_t i = 0; i < n; i++) {
        floats[i] = base_random_f32(random, -scale, scale);
    }
    return floats;
}

static void make_cell(struct job *job)
{
    struct shape s = job->shape;
    struct base_random random;
    base_random_init(&random, SEED);
    float scale = 1.0f / sqrtf((float)s.hidden);
    job->weights[0] = random_floats(&random, 4 * (size_t)s.hidden * s.inputs, scale);
    job->weights[1] = random_floats(&random, 4 * (size_t)s.hidden * s.hidden, scale);
    job->weights[2] = random_floats(&random, 8 * (size_t)s.hidden, scale);
    job->x = random_floats(&random, (size_t)s.steps * s.rows * s.inputs, 1.0f);
    struct cell_def *def = &job->def;
    *def = (struct cell_def){.n_inputs = 1,
                             .n_states = 2,
                             .n_values = 5,
                             .n_ops = 1,
                             .n_outputs = 1,
                             .state_next = {3, 4},
                             .outputs = {3}};
    for (uint32_t v = 0; v < def->n_values; v++) {
        def->values[v] = (struct cell_value){CELL_F32, v == 0 ? s.inputs : s.hidden};
    }
    def->ops[0] = (struct cell_op){.kind = CELL_OP_LSTM,
                                   .n_operands = 3,
                                   .operands = {0, 1, 2},
                                   .n_weights = 3,
                                   .weights = {{CELL_F32, 4 * s.hidden, s.inputs, job->weights[0]},
                                               {CELL_F32, 4 * s.hidden, s.hidden, job->weights[1]},
                                               {CELL_F32, 1, 8 * s.hidden, job->weights[2]}},
                                   .result = 3};
}

/* ---- Straight through the kernels ----------------------------------------------------------- */

static void open_kernels(struct job *job)
{
    struct shape s = job->shape;
    job->gated = (struct cell_gated){.kind = CELL_GATED_LSTM,
                                     .inputs = s.inputs,
                                     .feedback = s.hidden,
                                     .hidden = s.hidden,
                                     .w = job->weights[0],
                                     .r = job->weights[1],
                                     .b_w = job->weights[2],
                                     .b_r = job->weights[2] + 4 * (size_t)s.hidden};
    base_assert(job->kernels->gated_load(&job->gated) == BASE_OK);
    size_t width = CELL_ROW_FLOATS((size_t)s.hidden);
    job->state =
        must(base_alloc_aligned(3 * (size_t)s.rows * width * sizeof(float), BASE_CACHE_LINE));
    job->in = must(base_alloc_array((size_t)s.steps * s.rows, sizeof(float *)));
    for (size_t i = 0; i < (size_t)s.steps * s.rows; i++) {
        job->in[i] = job->x + i * s.inputs;
    }
    for (uint32_t part = 0; part < 3; part++) {
        job->rows[part] = must(base_alloc_array(s.rows, sizeof(float *)));
        for (uint32_t r = 0; r < s.rows; r++) {
            job->rows[part][r] = job->state + (3 * (size_t)r + part) * width;
        }
    }
    size_t floats = job->kernels->scratch_floats(s.inputs + s.hidden, 4 * s.hidden, s.rows);
    job->scratch = must(base_alloc_array(job->settings->threads, sizeof(float *)));
    for (uint32_t t = 0; t < job->settings->threads; t++) {
        job->scratch[t] = must(base_alloc_aligned((floats + 1) * sizeof(float), BASE_CACHE_LINE));
    }
}

static void close_kernels(struct job *job)
{
    for (uint32_t t = 0; t < job->settings->threads; t++) {
        base_free(job->scratch[t]);
    }
    for (uint32_t part = 0; part < 3; part++) {
        base_free(job->rows[part]);
    }
    base_free(job->scratch);
    base_free(job->in);
    base_free(job->state);
    cell_gated_release(&job->gated);
}

static void run_kernels(void *argument, struct cell_team *team, uint32_t member)
{
    struct job *job = argument;
    uint32_t threads = job->settings->threads;
    struct cell_gated_step step = {
        .gated = &job->gated,
        .n_rows = job->shape.rows,
        .panel_first = (uint32_t)((uint64_t)job->gated.panels * member / threads),
        .panel_end = (uint32_t)((uint64_t)job->gated.panels * (member + 1) / threads),
        .old = (const float *const *)job->rows[2],
        .second = job->rows[2],
        .scratch = job->scratch[member],
        .products_only = job->settings->products_only,
    };
    for (uint32_t t = 0; t < job->shape.steps; t++) {
        step.x = job->in + (size_t)t * job->shape.rows;
        step.h = (const float *const *)job->rows[t & 1];
        step.out = job->rows[(t + 1) & 1];
        step.backwards = (t & 1) != 0;
        job->kernels->gated_step(&step);
        if (threads > 1) {
            team->barrier(team, member);
        }
    }
}

/* ---- Through a device ----------------------------------------------------------------------- */

static void open_device(struct job *job)
{
    struct shape s = job->shape;
    struct base_error error;
    bool is_new = false;
    struct cell_device_options options = {
        .n_queues = 1, .teams = &job->team, .isa = job->settings->isa, .batches_queued_max = 1};
    base_assert(job->backend->open(&options, &job->device, &error) == BASE_OK);
    base_assert(cell_registry_create(&job->registry) == BASE_OK);
    base_assert(cell_registry_intern(job->registry, &job->def, "bench", &job->type, &is_new,
                                     &error) == BASE_OK);
    base_assert(job->backend->type_load(job->device, job->type, &error) == BASE_OK);
    base_assert(
        job->backend->rows_open(job->device, job->type->state_layout,
                                cell_registry_layout(job->registry, job->type->state_layout),
                                s.rows, &error) == BASE_OK);
    job->wirings = must(base_alloc_array(s.rows, sizeof(job->wirings[0])));
    job->batch_rows = must(base_alloc_array(s.rows, sizeof(job->batch_rows[0])));
    for (uint32_t r = 0; r < s.rows; r++) {
        job->wirings[r] = (struct cell_wiring){.steps = s.steps, .state = r};
        job->wirings[r].inputs[0] =
            (struct cell_ref){.kind = CELL_REF_HOST,
                              .host = (uint8_t *)(job->x + (size_t)r * s.inputs),
                              .stride_bytes = (int64_t)((size_t)s.rows * s.inputs * sizeof(float))};
        job->batch_rows[r] = (struct cell_batch_row){.wiring = &job->wirings[r], .steps = s.steps};
    }
}

static void run_device(struct job *job)
{
    struct cell_batch batch = {.type = job->type,
                               .n_rows = job->shape.rows,
                               .steps = job->shape.steps,
                               .rows = job->batch_rows};
    job->backend->submit(job->device, 0, &batch);
    base_assert(job->backend->pump(job->device, 0) && batch.status == BASE_OK);
}

static void close_device(struct job *job)
{
    job->backend->close(job->device);
    cell_registry_free(job->registry);
    base_free(job->wirings);
    base_free(job->batch_rows);
}

/* ---- Measuring ------------------------------------------------------------------------------ */

static void run_once(struct job *job)
{
    if (job->backend != NULL) {
        run_device(job);
    } else if (job->settings->threads > 1) {
        job->team->run(job->team, run_kernels, job);
    } else {
        run_kernels(job, job->team, 0);
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
    return job->settings->threads == 1 ? base_thread_cpu_ns() : base_now_ns();
}

/* How often the steps are run in a round. */
static uint32_t repeats_of(struct job *job)
{
    uint64_t start = base_now_ns();
    run_once(job);
    uint64_t once_ns = base_now_ns() - start + 1;
    return once_ns >= ROUND_NS ? 1 : (uint32_t)(ROUND_NS / once_ns) + 1;
}

static void measure(struct job *job, struct result *out)
{
    static double ms[ROUNDS_MAX];
    static double of_peak[ROUNDS_MAX];
    struct shape s = job->shape;
    double flops = 2.0 * 4 * s.hidden * ((double)s.inputs + s.hidden) * s.rows * s.steps;
    *out = (struct result){0};
    run_once(job);
    uint32_t repeats = repeats_of(job);
    uint64_t start = base_now_ns();
    struct bench_burst before = bench_fma_burst(job->kernels->name, BURST_NS);
    while (out->rounds < ROUNDS_MAX &&
           (out->rounds < 3 || base_now_ns() - start < job->settings->ms * BASE_NS_PER_MS)) {
        uint64_t begun_ns = time_ns(job);
        for (uint32_t i = 0; i < repeats; i++) {
            run_once(job);
        }
        double round_ms = (double)(time_ns(job) - begun_ns) / 1e6 / repeats;
        struct bench_burst behind = bench_fma_burst(job->kernels->name, BURST_NS);
        double all = (before.mean_gflops + behind.mean_gflops) / 2.0 * job->settings->threads;
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

static void print_result(const struct job *job, const struct result *result, bool is_first)
{
    const struct settings *set = job->settings;
    struct shape s = job->shape;
    const char *path = job->backend == NULL ? "kernels" : job->backend->name;
    double part = result->peak > 0.0 ? result->gflops / (result->peak * set->threads) : 0.0;
    if (set->is_json) {
        (void)printf("%s{\"cell\":\"lstm\",\"input\":%u,\"hidden\":%u,\"rows\":%u,\"steps\":%u,"
                     "\"path\":\"%s\",\"isa\":\"%s\",\"threads\":%u,\"products_only\":%s,"
                     "\"rounds\":%u,\"best_ms\":%.5f,\"median_ms\":%.5f,\"gflops\":%.1f,"
                     "\"peak_gflops_per_core\":%.1f,\"of_peak\":%.3f,\"median_of_peak\":%.3f}",
                     is_first ? "" : ",\n", s.inputs, s.hidden, s.rows, s.steps, path,
                     job->kernels->name, set->threads, set->products_only ? "true" : "false",
                     result->rounds, result->best_ms, result->median_ms, result->gflops,
                     result->peak, part, result->median_of_peak);
        return;
    }
    if (is_first) {
        (void)printf("%-22s %-8s %-7s %7s %10s %10s %9s %8s %7s\n", "INPUTxHIDDENxROWSxSTEPS",
                     "path", "isa", "threads", "best_ms", "median_ms", "GFLOP/s", "of_peak",
                     "median");
    }
    (void)printf("%5ux%4ux%4ux%4u     %-8s %-7s %7u %10.4f %10.4f %9.1f %8.3f %7.3f\n", s.inputs,
                 s.hidden, s.rows, s.steps, path, job->kernels->name, set->threads, result->best_ms,
                 result->median_ms, result->gflops, part, result->median_of_peak);
}

static bool parse_shape(const char *text, struct shape *out)
{
    char rest = 0;
    struct shape s;
    // NOLINTNEXTLINE(cert-err34-c): ranges are checked below
    int n = sscanf(text, "%ux%ux%ux%u%c", &s.inputs, &s.hidden, &s.rows, &s.steps, &rest);
    *out = s;
    return n == 4 && s.inputs > 0 && s.inputs <= CELL_WIDTH_MAX && s.hidden > 0 &&
           s.hidden <= CELL_WIDTH_MAX / 8 && s.rows > 0 && s.rows <= CELL_BATCH_ROWS_MAX &&
           s.steps > 0 && s.steps <= 100000;
}

static int run_shape(struct job *job, bool is_first)
{
    struct result result;
    struct wrk_team_options options = {.members = job->settings->threads,
                                       .spin_ns = BASE_NS_PER_MS,
                                       .pin = job->settings->threads > 1,
                                       .name = "bench"};
    if (wrk_team_create(&options, &job->team) != BASE_OK) {
        (void)fprintf(stderr, "cannot start %u threads\n", options.members);
        return EXIT_FAILURE;
    }
    make_cell(job);
    if (job->backend == NULL) {
        open_kernels(job);
    } else {
        open_device(job);
    }
    measure(job, &result);
    print_result(job, &result, is_first);
    (void)fflush(stdout);
    if (job->backend == NULL) {
        close_kernels(job);
    } else {
        close_device(job);
    }
    wrk_team_free(job->team);
    for (uint32_t w = 0; w < 3; w++) {
        base_free(job->weights[w]);
    }
    base_free(job->x);
    return EXIT_SUCCESS;
}

static int run_all(const struct settings *settings, const struct cell_kernels *kernels,
                   const struct cell_backend *backend)
{
    char text[64];
    bool is_first = true;
    for (const char *rest = settings->shapes;
         (rest = bench_list_next(rest, text, sizeof(text))) != NULL; is_first = false) {
        struct job job = {.settings = settings, .kernels = kernels, .backend = backend};
        if (!parse_shape(text, &job.shape)) {
            (void)fprintf(stderr, "%s: not INPUTxHIDDENxROWSxSTEPS\n", text);
            return 2;
        }
        int status = run_shape(&job, is_first);
        if (status != EXIT_SUCCESS) {
            return status;
        }
    }
    return EXIT_SUCCESS;
}

static const char help[] =
    "usage: cellbatch-bench kernels [options]\n"
    "  --shapes LIST      INPUTxHIDDENxROWSxSTEPS, comma between (default: those of "
    "docs/kernels.md)\n"
    "  --cells lstm       the only kind so far\n"
    "  --threads N        team of N threads (default 1)\n"
    "  --isa NAME         auto, scalar, avx2, avx512 (default auto)\n"
    "  --backend NAME     through this backend's device (cpu, blas) instead of the kernels alone\n"
    "  --products-only    leave out activations and state update (kernels alone)\n"
    "  --ms N             time for each shape (default 1000)\n"
    "  --json             one JSON object";

/* false: *status is main()'s result. */
static bool parse_arguments(int argc, char **argv, struct settings *out, int *status)
{
    static const struct option options[] = {
        {"shapes", required_argument, NULL, 's'},  {"cells", required_argument, NULL, 'c'},
        {"threads", required_argument, NULL, 't'}, {"isa", required_argument, NULL, 'i'},
        {"backend", required_argument, NULL, 'b'}, {"products-only", no_argument, NULL, 'p'},
        {"ms", required_argument, NULL, 'm'},      {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    *out = (struct settings){.shapes = "64x64x1x100,256x256x1x100,1024x1024x1x100,256x256x10x100,"
                                       "256x256x20x100,1024x1024x10x100",
                             .isa = "auto",
                             .threads = 1,
                             .ms = 1000};
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
    for (int o = 0; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        bool is_bad = o == 'c' && strcmp(optarg, "lstm") != 0;
        out->shapes = o == 's' ? optarg : out->shapes;
        out->isa = o == 'i' ? optarg : out->isa;
        out->backend = o == 'b' ? optarg : out->backend;
        out->threads = o == 't' ? (uint32_t)strtoul(optarg, NULL, 10) : out->threads;
        out->ms = o == 'm' ? strtoull(optarg, NULL, 10) : out->ms;
        out->products_only |= o == 'p';
        out->is_json |= o == 'j';
        if (is_bad || o == 'h' || o == '?' || out->threads == 0 || out->threads > 1024) {
            (void)fprintf(o == 'h' ? stdout : stderr, "%s\n", help);
            *status = o == 'h' ? EXIT_SUCCESS : 2;
            return false;
        }
    }
    return true;
}

int bench_kernels(int argc, char **argv)
{
    struct settings settings;
    struct base_error error;
    struct base_buf host;
    int status = EXIT_SUCCESS;
    if (!parse_arguments(argc, argv, &settings, &status)) {
        return status;
    }
    const struct cell_kernels *kernels = NULL;
    const struct cell_backend *backend = NULL;
    if (cell_kernels_choose(settings.isa, &kernels, &error) != BASE_OK) {
        (void)fprintf(stderr, "%s\n", error.message);
        return 2;
    }
    if (settings.backend != NULL) {
        backend = cell_backend_find(settings.backend);
        if (backend == NULL || settings.products_only) {
            (void)fprintf(stderr, "%s\n",
                          backend == NULL ? "no such backend"
                                          : "--products-only goes with the kernels alone");
            return 2;
        }
    }
    base_buf_init(&host, 4096);
    (settings.is_json ? bench_host_json : bench_host_text)(&host);
    (void)printf(settings.is_json ? "{%s,\"seed\":%u,\"results\":[\n" : "%s# seed %u\n", host.data,
                 SEED);
    base_buf_release(&host);
    status = run_all(&settings, kernels, backend);
    (void)fputs(settings.is_json ? "]}\n" : "", stdout);
    return status;
}
