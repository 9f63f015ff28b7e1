/* cellbatch-bench cell: the chains of a model file on a device, as the server runs them (cells in
 * small operators recognised, element-wise ops joined), beside the same with every op on its own,
 * as the file has it. Both are loaded into one process, read the same random rows and run in turns;
 * the largest difference of their outputs is reported with their times. One thread is timed by its
 * CPU time, a team by the clock. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "bench/bench.h"
#include "bench/limits.h"
#include "cells/backend.h"
#include "cells/model.h"
#include "worker/team.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 4096u
#define ROUNDS_MIN 5u
#define ROUND_NS   BASE_NS_PER_MS        /* each form takes at least this in a round */
#define LIMIT_NS   (50 * BASE_NS_PER_MS) /* for each limit of the roofline */
#define SEED       1u

struct settings {
    const char *model;
    const char *rows;
    const char *isa;
    uint32_t steps, threads;
    uint64_t ms;
    bool is_json;
};

/* The model, loaded in one of the two ways. */
struct form {
    struct cell_registry *registry;
    struct cell_model *model;
    struct cell_device *device; /* of the stage at work */
    struct cell_wiring *wirings;
    struct cell_refs *refs;
    struct cell_emit *emits; /* [rows][outputs] */
    struct cell_batch_row *rows;
    uint8_t *outputs[CELL_OUTPUTS_MAX]; /* [rows][steps][width] */
};

enum { AS_SERVED, AS_WRITTEN, FORMS };

struct run {
    struct settings settings;
    const struct cell_backend *backend;
    struct cell_team *team;
    struct form forms[FORMS];
    struct bench_limits limits;
    uint32_t stage, n_rows;
    uint8_t *inputs[CELL_INPUTS_MAX]; /* [rows][steps][width] */
};

struct result {
    uint32_t rounds;
    double us[FORMS]; /* of a step, all rows: medians of the rounds */
    double difference;
};

static const struct cell_def *def_of(const struct run *run, uint32_t form)
{
    return &run->forms[form].model->stages[run->stage].type->def;
}

static size_t row_bytes(struct cell_value value)
{
    return (size_t)value.width * cell_dtype_bytes(value.dtype);
}

static struct cell_value output_of(const struct cell_def *def, uint32_t output)
{
    return def->values[def->outputs[output]];
}

static enum base_status no_memory(struct base_error *error)
{
    return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
}

/* ---- Models --------------------------------------------------------------------------------- */

static enum base_status load_form(struct run *run, uint32_t form, struct base_error *error)
{
    const struct cell_model_options options = {.as_written = form == AS_WRITTEN};
    struct form *f = &run->forms[form];
    if (cell_registry_create(&f->registry) != BASE_OK) {
        return no_memory(error);
    }
    return cell_model_load(f->registry, run->settings.model, "bench", &options, &f->model, error);
}

static void unload_form(struct form *form)
{
    if (form->registry != NULL) {
        cell_model_free(form->registry, form->model);
        cell_registry_free(form->registry);
    }
}

/* ---- A stage -------------------------------------------------------------------------------- */

static enum base_status open_device(struct run *run, struct form *form, struct base_error *error)
{
    const struct cell_type *type = form->model->stages[run->stage].type;
    struct cell_device_options options = {
        .n_queues = 1, .teams = &run->team, .isa = run->settings.isa, .batches_queued_max = 1};
    BASE_TRY(run->backend->open(&options, &form->device, error));
    BASE_TRY(run->backend->type_load(form->device, type, error));
    if (type->state_layout == CELL_LAYOUT_NONE) {
        return BASE_OK;
    }
    return run->backend->rows_open(form->device, type->state_layout,
                                   cell_registry_layout(form->registry, type->state_layout),
                                   run->n_rows, error);
}

/* Row r of [rows][steps][width]. */
static struct cell_ref host_ref(const struct run *run, uint8_t *tensor, size_t bytes, uint32_t r)
{
    return (struct cell_ref){.kind = CELL_REF_HOST,
                             .host = tensor + (size_t)r * run->settings.steps * bytes,
                             .stride_bytes = (int64_t)bytes};
}

static enum base_status open_form(struct run *run, uint32_t number, struct base_error *error)
{
    struct form *form = &run->forms[number];
    const struct cell_def *def = def_of(run, number);
    const uint32_t steps = run->settings.steps;
    BASE_TRY(open_device(run, form, error));
    form->wirings = base_alloc_array(run->n_rows, sizeof(*form->wirings));
    form->refs = base_alloc_array(run->n_rows, sizeof(*form->refs));
    form->emits = base_alloc_array((size_t)run->n_rows * CELL_OUTPUTS_MAX, sizeof(*form->emits));
    form->rows = base_alloc_array(run->n_rows, sizeof(*form->rows));
    if (form->wirings == NULL || form->refs == NULL || form->emits == NULL || form->rows == NULL) {
        return no_memory(error);
    }
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        size_t bytes = row_bytes(output_of(def, o)) * steps;
        form->outputs[o] = base_alloc_array(run->n_rows, bytes);
        if (form->outputs[o] == NULL) {
            return no_memory(error);
        }
    }
    for (uint32_t r = 0; r < run->n_rows; r++) {
        struct cell_wiring *wiring = &form->wirings[r];
        struct cell_emit *emits = form->emits + (size_t)r * CELL_OUTPUTS_MAX;
        *wiring = (struct cell_wiring){
            .steps = steps, .state = r, .n_emits = def->n_outputs, .emits = emits};
        cell_wiring_use(wiring, &form->refs[r]);
        for (uint32_t i = 0; i < def->n_inputs; i++) {
            wiring->inputs[i] = host_ref(run, run->inputs[i], row_bytes(def->values[i]), r);
        }
        for (uint32_t o = 0; o < def->n_outputs; o++) {
            emits[o] = (struct cell_emit){
                .what = CELL_EMIT_OUTPUT,
                .when = CELL_EMIT_EACH,
                .index = o,
                .to = host_ref(run, form->outputs[o], row_bytes(output_of(def, o)), r)};
        }
        form->rows[r] = (struct cell_batch_row){.wiring = wiring, .steps = steps};
    }
    return BASE_OK;
}

static void close_form(const struct run *run, struct form *form)
{
    if (form->device != NULL) {
        run->backend->close(form->device);
        form->device = NULL;
    }
    base_free(form->wirings);
    base_free(form->refs);
    base_free(form->emits);
    base_free(form->rows);
    form->wirings = NULL;
    form->refs = NULL;
    form->emits = NULL;
    form->rows = NULL;
    for (uint32_t o = 0; o < CELL_OUTPUTS_MAX; o++) {
        base_free(form->outputs[o]);
        form->outputs[o] = NULL;
    }
}

/* Floats within 1; ids of 0, which every table has. */
static enum base_status make_inputs(struct run *run, struct base_error *error)
{
    const struct cell_def *def = def_of(run, AS_SERVED);
    struct base_random random;
    base_random_init(&random, SEED);
    for (uint32_t i = 0; i < def->n_inputs; i++) {
        struct cell_value value = def->values[i];
        size_t elements = (size_t)run->n_rows * run->settings.steps * value.width;
        run->inputs[i] = base_alloc_array(elements, cell_dtype_bytes(value.dtype));
        if (run->inputs[i] == NULL) {
            return no_memory(error);
        }
        for (size_t e = 0; e < elements && value.dtype == CELL_F32; e++) {
            float x = base_random_f32(&random, -1.0f, 1.0f);
            memcpy(run->inputs[i] + e * sizeof(x), &x, sizeof(x));
        }
    }
    return BASE_OK;
}

static void free_inputs(struct run *run)
{
    for (uint32_t i = 0; i < CELL_INPUTS_MAX; i++) {
        base_free(run->inputs[i]);
        run->inputs[i] = NULL;
    }
}

/* ---- Measuring ------------------------------------------------------------------------------ */

static void run_form(const struct run *run, struct form *form)
{
    struct cell_batch batch = {.type = form->model->stages[run->stage].type,
                               .n_rows = run->n_rows,
                               .steps = run->settings.steps,
                               .rows = form->rows};
    run->backend->submit(form->device, 0, &batch);
    (void)run->backend->pump(form->device, 0);
}

static double time_us(const struct run *run, struct form *form, uint32_t repeats)
{
    uint64_t start = bench_cost_ns(run->settings.threads);
    for (uint32_t i = 0; i < repeats; i++) {
        run_form(run, form);
    }
    double all_us = (double)(bench_cost_ns(run->settings.threads) - start) / 1e3;
    return all_us / repeats / run->settings.steps;
}

/* Of all outputs that are floats. */
static double largest_difference(const struct run *run)
{
    const struct cell_def *def = def_of(run, AS_SERVED);
    double worst = 0.0;
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        struct cell_value value = output_of(def, o);
        size_t n = (size_t)run->n_rows * run->settings.steps * value.width;
        for (size_t i = 0; i < n && value.dtype == CELL_F32; i++) {
            float a;
            float b;
            memcpy(&a, run->forms[AS_SERVED].outputs[o] + i * sizeof(a), sizeof(a));
            memcpy(&b, run->forms[AS_WRITTEN].outputs[o] + i * sizeof(b), sizeof(b));
            double off = fabs((double)a - (double)b);
            worst = off <= worst ? worst : off; // a NaN is the worst
        }
    }
    return worst;
}

static void measure(struct run *run, struct result *out)
{
    static double us[FORMS][ROUNDS_MAX];
    *out = (struct result){0};
    for (uint32_t f = 0; f < FORMS; f++) {
        run_form(run, &run->forms[f]);
    }
    double once_us = time_us(run, &run->forms[AS_SERVED], 1) * run->settings.steps;
    double wanted = (double)ROUND_NS / 1e3 / (once_us + 1e-3);
    uint32_t repeats = wanted < 1.0 ? 1 : (uint32_t)wanted + 1;
    uint64_t start = base_now_ns();
    while (
        out->rounds < ROUNDS_MAX &&
        (out->rounds < ROUNDS_MIN || base_now_ns() - start < run->settings.ms * BASE_NS_PER_MS)) {
        for (uint32_t f = 0; f < FORMS; f++) {
            uint32_t form = (f + out->rounds) % FORMS;
            us[form][out->rounds] = time_us(run, &run->forms[form], repeats);
        }
        out->rounds++;
    }
    for (uint32_t f = 0; f < FORMS; f++) {
        out->us[f] = bench_quantile(us[f], out->rounds, 0.5);
    }
    out->difference = largest_difference(run);
}

/* Of a step of all rows, of what is served: recognised cells ask for less than they are written as.
 */
static double roofline_us(const struct run *run)
{
    struct bench_demand demand;
    bench_demand_of_def(def_of(run, AS_SERVED), &demand);
    return bench_roofline_ms(&run->limits, &demand, run->n_rows, run->settings.steps) * 1e3 /
           run->settings.steps;
}

static void print_result(const struct run *run, const struct result *result)
{
    const struct cell_type *type = run->forms[AS_SERVED].model->stages[run->stage].type;
    const uint32_t ops = type->def.n_ops;
    const uint32_t written = def_of(run, AS_WRITTEN)->n_ops;
    double gflops = (double)type->flops * run->n_rows / (result->us[AS_SERVED] * 1e3);
    double ratio = result->us[AS_WRITTEN] / result->us[AS_SERVED];
    double limit_us = roofline_us(run);
    double part = limit_us / result->us[AS_SERVED];
    if (run->settings.is_json) {
        (void)printf("{\"cell\":\"%s\",\"ops\":%u,\"ops_as_written\":%u,\"rows\":%u,\"steps\":%u,"
                     "\"threads\":%u,\"rounds\":%u,\"us_per_step\":%.4f,"
                     "\"us_per_step_as_written\":%.4f,\"ratio\":%.3f,\"gflops\":%.2f,"
                     "\"roofline_us\":%.4f,\"roofline_ratio\":%.3f,"
                     "\"difference\":%.3g}\n",
                     type->name, ops, written, run->n_rows, run->settings.steps,
                     run->settings.threads, result->rounds, result->us[AS_SERVED],
                     result->us[AS_WRITTEN], ratio, gflops, limit_us, part, result->difference);
        return;
    }
    (void)printf("%-20s %4u %4u %6u %7u %6u %12.3f %12.3f %7.2f %9.1f %8.3f %7.2f %10.2g\n",
                 type->name, ops, written, run->n_rows, run->settings.threads, result->rounds,
                 result->us[AS_SERVED], result->us[AS_WRITTEN], ratio, gflops, limit_us, part,
                 result->difference);
}

static enum base_status measure_stage(struct run *run, struct base_error *error)
{
    struct result result;
    enum base_status status = make_inputs(run, error);
    for (uint32_t f = 0; f < FORMS && status == BASE_OK; f++) {
        status = open_form(run, f, error);
    }
    if (status == BASE_OK) {
        measure(run, &result);
        print_result(run, &result);
        (void)fflush(stdout);
    }
    for (uint32_t f = 0; f < FORMS; f++) {
        close_form(run, &run->forms[f]);
    }
    free_inputs(run);
    return status;
}

static void print_start(const struct run *run)
{
    struct base_buf text;
    base_buf_init(&text, 4096);
    if (run->settings.is_json) {
        base_buf_text(&text, "{");
        bench_host_json(&text);
        base_buf_text(&text, ",");
        bench_limits_json(&text, &run->limits);
        base_buf_text(&text, "}\n");
    } else {
        bench_host_text(&text);
        bench_limits_text(&text, &run->limits);
        base_buf_printf(&text, "# us of a step of all rows, %u steps, medians of the rounds\n",
                        run->settings.steps);
        base_buf_text(&text, "cell                  ops  own   rows threads rounds       served   "
                             "as_written   ratio   GFLOP/s roofline of_roof difference\n");
    }
    (void)fputs(text.failed ? "" : text.data, stdout);
    base_buf_release(&text);
}

static enum base_status measure_limits(struct run *run, struct base_error *error)
{
    const struct cell_kernels *kernels = NULL;
    BASE_TRY(cell_kernels_choose(run->settings.isa, &kernels, error));
    bench_limits_measure(run->team, kernels, LIMIT_NS, &run->limits);
    return BASE_OK;
}

static enum base_status measure_all(struct run *run, struct base_error *error)
{
    char word[16];
    uint32_t chains = 0;
    for (uint32_t f = 0; f < FORMS; f++) {
        BASE_TRY(load_form(run, f, error));
    }
    BASE_TRY(measure_limits(run, error));
    print_start(run);
    const struct cell_model *model = run->forms[AS_SERVED].model;
    for (run->stage = 0; run->stage < model->n_stages; run->stage++) {
        bool is_chain = model->stages[run->stage].kind == CELL_STAGE_CHAIN;
        const char *rest = is_chain ? run->settings.rows : "";
        chains += is_chain ? 1 : 0;
        while ((rest = bench_list_next(rest, word, sizeof(word))) != NULL) {
            char *end = NULL;
            unsigned long n = strtoul(word, &end, 10);
            if (*end != '\0' || n == 0 || n > CELL_BATCH_ROWS_MAX) {
                return base_fail(error, BASE_INVALID_ARGUMENT, "\"%s\" is not 1 to %u rows", word,
                                 CELL_BATCH_ROWS_MAX);
            }
            run->n_rows = (uint32_t)n;
            BASE_TRY(measure_stage(run, error));
        }
    }
    return chains > 0 ? BASE_OK : base_fail(error, BASE_INVALID_ARGUMENT, "the model has no chain");
}

/* ---- Options -------------------------------------------------------------------------------- */

static const char help[] =
    "usage: cellbatch-bench cell --model FILE [options]\n"
    "  --model FILE       an ONNX file; its LSTM, GRU, RNN, Scan and Loop nodes are measured\n"
    "  --rows LIST        rows of a batch, comma between (default 1,10,64)\n"
    "  --steps N          of a sequence (default 100)\n"
    "  --threads N        team of N threads (default 1)\n"
    "  --isa NAME         auto, scalar, avx2, avx512, neon (default auto)\n"
    "  --ms N             time for each number of rows (default 1000)\n"
    "  --json             one JSON object a line";

static bool are_sane(const struct settings *set)
{
    return set->model != NULL && set->threads >= 1 && set->threads <= 1024 && set->steps >= 1 &&
           set->steps <= 100000;
}

/* false: *status is main()'s result. */
static bool parse_arguments(int argc, char **argv, struct settings *out, int *status)
{
    static const struct option options[] = {{"model", required_argument, NULL, 'f'},
                                            {"rows", required_argument, NULL, 'r'},
                                            {"steps", required_argument, NULL, 's'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"isa", required_argument, NULL, 'i'},
                                            {"ms", required_argument, NULL, 'm'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    *out =
        (struct settings){.rows = "1,10,64", .isa = "auto", .steps = 100, .threads = 1, .ms = 1000};
    bool is_wrong = false;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
    for (int o = 0; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        out->model = o == 'f' ? optarg : out->model;
        out->rows = o == 'r' ? optarg : out->rows;
        out->isa = o == 'i' ? optarg : out->isa;
        out->steps = o == 's' ? (uint32_t)strtoul(optarg, NULL, 10) : out->steps;
        out->threads = o == 't' ? (uint32_t)strtoul(optarg, NULL, 10) : out->threads;
        out->ms = o == 'm' ? strtoull(optarg, NULL, 10) : out->ms;
        out->is_json |= o == 'j';
        is_wrong |= o == '?';
        if (o == 'h') {
            (void)puts(help);
            *status = EXIT_SUCCESS;
            return false;
        }
    }
    if (is_wrong || !are_sane(out)) {
        (void)fprintf(stderr, "%s\n", help);
        *status = 2;
        return false;
    }
    return true;
}

int bench_own_cell(int argc, char **argv)
{
    struct run run = {.backend = cell_backend_find("cpu")};
    struct base_error error = {.status = BASE_OK};
    int exit_status = EXIT_SUCCESS;
    if (!parse_arguments(argc, argv, &run.settings, &exit_status)) {
        return exit_status;
    }
    enum base_status status = bench_team_start(run.settings.threads, &run.team, &error);
    if (status == BASE_OK) {
        status = measure_all(&run, &error);
        for (uint32_t f = 0; f < FORMS; f++) {
            unload_form(&run.forms[f]);
        }
        wrk_team_free(run.team);
    }
    return bench_exit_status(argv[0], status, &error);
}
