/* cellbatch-bench layouts: one product with its values in rows, as the kernels of cells/ read them,
 * beside the same with its values in columns (bench/columns.h), in turns of one run. Weights are
 * packed before, for each its own way; what it would cost to turn the values is not counted, which
 * favours columns. One thread, timed by its own CPU time. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "bench/bench.h"
#include "bench/columns.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX   64u
#define WIDTH_MAX  8192u /* of inputs and of outputs */
#define ROUND_NS   BASE_NS_PER_MS
#define ROUNDS_MAX 4096u
#define SEED       1u

struct settings {
    const char *shapes, *rows, *isa;
    uint64_t ms;
    bool is_json;
};

struct job {
    const struct settings *settings;
    const struct cell_kernels *kernels;
    const struct bench_columns_kernel *kernel;
    uint32_t inputs, outputs, n_rows;
    struct cell_linear linear;
    float *w, *bias;          /* as given */
    float *x_rows, *out_rows; /* [ROWS_MAX][inputs], [ROWS_MAX][outputs and room] */
    float *scratch;
    const float *x[ROWS_MAX];
    float *out[ROWS_MAX];
    float *x_columns, *out_columns, *packed;
};

/* ---- Data ----------------------------------------------------------------------------------- */

static float *floats(size_t n)
{
    float *data = base_alloc_aligned(n * sizeof(float), BASE_CACHE_LINE);
    base_assert(data != NULL); // a benchmark without memory has nothing to say
    return data;
}

static void open_job(struct job *job)
{
    const size_t weights = (size_t)job->inputs * job->outputs;
    const size_t out_floats = CELL_ROW_FLOATS((size_t)job->outputs);
    struct base_random random;
    base_random_init(&random, SEED);
    job->w = floats(weights);
    job->bias = floats(job->outputs);
    job->x_rows = floats((size_t)ROWS_MAX * job->inputs);
    job->out_rows = floats(ROWS_MAX * out_floats);
    job->x_columns = floats((size_t)ROWS_MAX * job->inputs);
    job->out_columns = floats((size_t)ROWS_MAX * job->outputs);
    job->packed = floats((size_t)job->inputs * (job->outputs + BENCH_COLUMNS_UNITS_MAX));
    for (size_t i = 0; i < weights; i++) {
        job->w[i] = base_random_f32(&random, -0.1f, 0.1f);
    }
    for (uint32_t o = 0; o < job->outputs; o++) {
        job->bias[o] = base_random_f32(&random, -1.0f, 1.0f);
    }
    for (size_t i = 0; i < (size_t)ROWS_MAX * job->inputs; i++) {
        job->x_rows[i] = base_random_f32(&random, -1.0f, 1.0f);
    }
    for (uint32_t r = 0; r < ROWS_MAX; r++) {
        job->x[r] = job->x_rows + (size_t)r * job->inputs;
        job->out[r] = job->out_rows + r * out_floats;
    }
    job->linear = (struct cell_linear){
        .inputs = job->inputs, .outputs = job->outputs, .w = job->w, .b = job->bias};
    base_assert(job->kernels->linear_load(&job->linear) == BASE_OK);
    job->scratch = floats(job->kernels->linear_scratch(&job->linear, ROWS_MAX) + 1);
}

static void close_job(struct job *job)
{
    cell_linear_release(&job->linear);
    base_free(job->w);
    base_free(job->bias);
    base_free(job->x_rows);
    base_free(job->out_rows);
    base_free(job->x_columns);
    base_free(job->out_columns);
    base_free(job->packed);
    base_free(job->scratch);
}

/* Rows in whole vectors: what is filled up is computed too. */
static struct bench_columns columns_of(const struct job *job)
{
    return (struct bench_columns){.inputs = job->inputs,
                                  .outputs = job->outputs,
                                  .rows = bench_columns_rows(job->n_rows, job->kernel->lanes),
                                  .w = job->w,
                                  .bias = job->bias,
                                  .x = job->x_columns,
                                  .out = job->out_columns,
                                  .packed = job->packed};
}

static void turn_x(struct job *job, uint32_t rows)
{
    for (uint32_t k = 0; k < job->inputs; k++) {
        for (uint32_t r = 0; r < rows; r++) {
            job->x_columns[(size_t)k * rows + r] = r < job->n_rows ? job->x[r][k] : 0.0f;
        }
    }
}

/* ---- Measuring ------------------------------------------------------------------------------ */

static void multiply_rows(const struct job *job)
{
    struct cell_linear_rows rows = {.linear = &job->linear,
                                    .n_rows = job->n_rows,
                                    .panel_end = job->linear.panels,
                                    .x = job->x,
                                    .out = job->out,
                                    .scratch = job->scratch};
    job->kernels->linear_rows(&rows);
}

/* One product of either, as often as makes a round; us of one. */
static double round_us(const struct job *job, const struct bench_columns *columns, uint32_t repeats)
{
    uint64_t start_ns = bench_cost_ns(1);
    for (uint32_t i = 0; i < repeats; i++) {
        if (columns != NULL) {
            job->kernel->multiply(columns);
        } else {
            multiply_rows(job);
        }
    }
    return (double)(bench_cost_ns(1) - start_ns) / 1e3 / repeats;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static bool have_same_bits(const struct job *job, const struct bench_columns *columns)
{
    for (uint32_t r = 0; r < job->n_rows; r++) {
        for (uint32_t o = 0; o < job->outputs; o++) {
            if (bits_of(columns->out[(size_t)o * columns->rows + r]) != bits_of(job->out[r][o])) {
                return false;
            }
        }
    }
    return true;
}

static enum base_status measure(struct job *job, struct base_error *error)
{
    static double us[2][ROUNDS_MAX];
    struct bench_columns columns = columns_of(job);
    turn_x(job, columns.rows);
    job->kernel->pack(&columns);
    (void)round_us(job, NULL, 1);
    (void)round_us(job, &columns, 1);
    if (!have_same_bits(job, &columns)) {
        return base_fail(error, BASE_INTERNAL, "%ux%u, %u rows: the two differ", job->inputs,
                         job->outputs, job->n_rows);
    }
    const double once_ns = round_us(job, NULL, 1) * 1e3 + 1.0;
    const uint32_t repeats = once_ns > ROUND_NS ? 1 : (uint32_t)(ROUND_NS / once_ns) + 1;
    const uint64_t start_ns = base_now_ns();
    uint32_t rounds = 0;
    while (rounds < ROUNDS_MAX &&
           (rounds < 5 || base_now_ns() - start_ns < job->settings->ms * BASE_NS_PER_MS)) {
        us[0][rounds] = round_us(job, NULL, repeats);
        us[1][rounds++] = round_us(job, &columns, repeats);
    }
    const double of_rows = bench_quantile(us[0], rounds, 0.5);
    const double of_columns = bench_quantile(us[1], rounds, 0.5);
    const double flops = 2.0 * job->inputs * job->outputs * job->n_rows;
    (void)printf(job->settings->is_json
                     ? "{\"input\":%u,\"output\":%u,\"rows\":%u,\"isa\":\"%s\",\"rows_us\":%.3f,"
                       "\"columns_us\":%.3f,\"rows_gflops\":%.1f,\"columns_gflops\":%.1f,"
                       "\"speedup_of_columns\":%.3f}\n"
                     : "%6ux%-6u %5u  %-7s %10.3f %10.3f %9.1f %9.1f %8.3f\n",
                 job->inputs, job->outputs, job->n_rows, job->kernel->isa, of_rows, of_columns,
                 flops / of_rows / 1e3, flops / of_columns / 1e3, of_rows / of_columns);
    (void)fflush(stdout);
    return BASE_OK;
}

static enum base_status measure_shape(struct job *job, struct base_error *error)
{
    char word[16];
    for (const char *rest = job->settings->rows;
         (rest = bench_list_next(rest, word, sizeof(word))) != NULL;) {
        char *end = NULL;
        unsigned long n = strtoul(word, &end, 10);
        if (*end != '\0' || n == 0 || n > ROWS_MAX) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "\"%s\" is not 1 to %u rows", word,
                             ROWS_MAX);
        }
        job->n_rows = (uint32_t)n;
        BASE_TRY(measure(job, error));
    }
    return BASE_OK;
}

static enum base_status choose(struct job *job, struct base_error *error)
{
    BASE_TRY(cell_kernels_choose(job->settings->isa, &job->kernels, error));
#ifdef __x86_64__
    const struct bench_columns_kernel *const kernels[] = {&bench_columns__avx2,
                                                          &bench_columns__avx512};
    for (uint32_t i = 0; i < 2; i++) {
        job->kernel = strcmp(kernels[i]->isa, job->kernels->name) == 0 ? kernels[i] : job->kernel;
    }
#endif
    return job->kernel != NULL
               ? BASE_OK
               : base_fail(error, BASE_UNIMPLEMENTED,
                           "isa %s: columns are known to avx2 and avx512", job->kernels->name);
}

static void print_start(const struct settings *settings)
{
    struct base_buf text;
    base_buf_init(&text, 4096);
    if (settings->is_json) {
        base_buf_text(&text, "{");
        bench_host_json(&text);
        base_buf_text(&text, "}\n");
    } else {
        bench_host_text(&text);
        base_buf_printf(&text, "%6sx%-6s %5s  %-7s %10s %10s %9s %9s %8s\n", "INPUT", "OUTPUT",
                        "rows", "isa", "rows_us", "columns_us", "GFLOP/s", "GFLOP/s", "speedup");
    }
    (void)fputs(text.failed ? "" : text.data, stdout);
    base_buf_release(&text);
}

static enum base_status measure_all(const struct settings *settings, struct base_error *error)
{
    char word[32];
    struct job first = {.settings = settings};
    BASE_TRY(choose(&first, error));
    print_start(settings);
    for (const char *rest = settings->shapes;
         (rest = bench_list_next(rest, word, sizeof(word))) != NULL;) {
        struct job job = first;
        char tail = 0;
        // NOLINTNEXTLINE(cert-err34-c): ranges are checked
        int n = sscanf(word, "%ux%u%c", &job.inputs, &job.outputs, &tail);
        if (n != 2 || job.inputs == 0 || job.inputs > WIDTH_MAX || job.outputs == 0 ||
            job.outputs > WIDTH_MAX) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "\"%s\" is not INPUTxOUTPUT, 1 to %u",
                             word, WIDTH_MAX);
        }
        open_job(&job);
        enum base_status status = measure_shape(&job, error);
        close_job(&job);
        BASE_TRY(status);
    }
    return BASE_OK;
}

/* ---- Options -------------------------------------------------------------------------------- */

static const char help[] =
    "usage: cellbatch-bench layouts [options]\n"
    "  --shapes LIST      INPUTxOUTPUT, comma between (default 64x256,256x1024,1024x4096)\n"
    "  --rows LIST        comma between (default 1,4,10,16,20,32,48,64)\n"
    "  --isa NAME         auto, avx2, avx512 (default auto)\n"
    "  --ms N             time for each number of rows (default 200)\n"
    "  --json             one JSON object a line";

int bench_layouts(int argc, char **argv)
{
    static const struct option options[] = {{"shapes", required_argument, NULL, 's'},
                                            {"rows", required_argument, NULL, 'r'},
                                            {"isa", required_argument, NULL, 'i'},
                                            {"ms", required_argument, NULL, 'm'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct settings settings = {.shapes = "64x256,256x1024,1024x4096",
                                .rows = "1,4,10,16,20,32,48,64",
                                .isa = "auto",
                                .ms = 200};
    struct base_error error;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
    for (int o = 0; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        settings.shapes = o == 's' ? optarg : settings.shapes;
        settings.rows = o == 'r' ? optarg : settings.rows;
        settings.isa = o == 'i' ? optarg : settings.isa;
        settings.ms = o == 'm' ? strtoull(optarg, NULL, 10) : settings.ms;
        settings.is_json |= o == 'j';
        if (o == 'h' || o == '?') {
            (void)fprintf(o == 'h' ? stdout : stderr, "%s\n", help);
            return o == 'h' ? EXIT_SUCCESS : 2;
        }
    }
    return bench_exit_status(argv[0], measure_all(&settings, &error), &error);
}
