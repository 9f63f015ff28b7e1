#include "loadgen/sweep.h"

#include "base/clock.h"
#include "base/mem.h"
#include "loadgen/file.h"
#include "loadgen/payload.h"
#include "loadgen/plan.h"
#include "loadgen/plot.h"
#include "loadgen/program.h"
#include "loadgen/report.h"
#include "loadgen/run.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* State of the whole sweep. */
struct sweep {
    const struct lg_options *options;
    struct lg_client *client;
    struct lg_payload *payload;
    struct lg_result *result; /* of the latest run */
    struct base_buf text;     /* of its report */
    struct lg_point points[LG_RATES_MAX];
    uint32_t point_count;
    FILE *csv;
    FILE *out, *err;
    const _Atomic bool *stop;
    bool failed, invalid;
};

static uint64_t ns_of_s(double seconds)
{
    return (uint64_t)(seconds * (double)BASE_NS_PER_S);
}

static uint64_t ns_of_ms(double ms)
{
    return (uint64_t)(ms * (double)BASE_NS_PER_MS);
}

static struct lg_run_spec spec_of(const struct sweep *sweep)
{
    const struct lg_options *options = sweep->options;
    struct lg_run_spec spec = {
        .client = sweep->client,
        .payload = sweep->payload,
        .seed = options->seed,
        .in_flight_max = (uint32_t)options->in_flight_max,
        .concurrency = (uint32_t)options->concurrency,
        .session_requests = (uint32_t)options->session_requests,
        .in_parts = options->in_parts,
        .warmup_ns = ns_of_s(options->warmup_s),
        .duration_ns = options->requests > 0 ? 0 : ns_of_s(options->duration_s),
        .cooldown_ns = ns_of_s(options->cooldown_s),
        .requests = options->requests,
        .drain_ns = ns_of_s(options->drain_s),
        .give_up_ns = ns_of_s(options->give_up_s),
        .deadline_ns = ns_of_ms(options->deadline_ms),
        .cancel_fraction = options->cancel_fraction,
        .cancel_after_ns = ns_of_ms(options->cancel_after_ms),
        .stop = sweep->stop,
        .progress = sweep->err == stderr && isatty(STDERR_FILENO) == 1,
    };
    return spec;
}

/* ---- What a run leaves behind ---------------------------------------------------------------- */

static double ms_at(const struct base_hist *hist, double quantile)
{
    return (double)base_hist_quantile(hist, quantile) / (double)BASE_NS_PER_MS;
}

static void add_point(struct sweep *sweep)
{
    const struct lg_result *result = sweep->result;
    sweep->points[sweep->point_count++] = (struct lg_point){
        .rate =
            result->mode == LG_MODE_OPEN ? lg_result_offered(result) : lg_result_achieved(result),
        .p50_ms = ms_at(&result->latency, 0.5),
        .p90_ms = ms_at(&result->latency, 0.9),
        .p99_ms = ms_at(&result->latency, 0.99),
        .p999_ms = ms_at(&result->latency, 0.999),
        .valid = lg_result_is_valid(result),
    };
}

static void put(const struct base_buf *text, FILE *file)
{
    (void)fwrite(text->data, 1, text->length, file);
    (void)fflush(file);
}

static void report(struct sweep *sweep)
{
    const struct lg_result *result = sweep->result;
    base_buf_clear(&sweep->text);
    if (sweep->options->json) {
        lg_report_json(sweep->options, result, &sweep->text);
    } else {
        lg_report_text(sweep->options, result, &sweep->text);
    }
    put(&sweep->text, sweep->out);
    if (sweep->csv != NULL) {
        base_buf_clear(&sweep->text);
        lg_report_csv_row(result, &sweep->text);
        put(&sweep->text, sweep->csv);
    }
    add_point(sweep);
    sweep->failed = sweep->failed || lg_result_failed(result) > 0 || result->gave_up;
    sweep->invalid = sweep->invalid || !lg_result_is_valid(result);
}

/* ---- The runs -------------------------------------------------------------------------------- */

static enum base_status run_closed(struct sweep *sweep, struct base_error *error)
{
    struct lg_run_spec spec = spec_of(sweep);
    BASE_TRY(lg_run(&spec, sweep->result, error));
    report(sweep);
    return BASE_OK;
}

static enum base_status run_open(struct sweep *sweep, double rate, struct base_error *error)
{
    struct lg_run_spec spec = spec_of(sweep);
    const struct lg_plan_spec plan_spec = {.rate = rate,
                                           .seed = spec.seed,
                                           .warmup_ns = spec.warmup_ns,
                                           .cooldown_ns = spec.cooldown_ns,
                                           .duration_ns = spec.duration_ns,
                                           .requests = spec.requests};
    struct lg_plan plan;
    BASE_TRY(lg_plan_create(&plan_spec, &plan, error));
    spec.plan = &plan;
    spec.rate = rate;
    enum base_status status = lg_run(&spec, sweep->result, error);
    lg_plan_release(&plan);
    if (status == BASE_OK) {
        report(sweep);
    }
    return status;
}

static enum base_status run_all(struct sweep *sweep, struct base_error *error)
{
    if (sweep->options->mode == LG_MODE_CLOSED) {
        return run_closed(sweep, error);
    }
    for (uint32_t i = 0; i < sweep->options->rate_count; i++) {
        BASE_TRY(run_open(sweep, sweep->options->rates[i], error));
        if (atomic_load_explicit(sweep->stop, memory_order_relaxed) || sweep->result->gave_up) {
            break;
        }
    }
    return BASE_OK;
}

static enum base_status draw(struct sweep *sweep, struct base_error *error)
{
    if (sweep->options->png == NULL) {
        return BASE_OK;
    }
    char title[256];
    (void)snprintf(title, sizeof(title), "%.64s, %.120s", sweep->options->model,
                   sweep->options->text != NULL ? sweep->options->text : sweep->options->lengths);
    base_buf_clear(&sweep->text);
    if (!lg_plot_script(sweep->options->png, title, sweep->points, sweep->point_count,
                        &sweep->text)) {
        return base_fail(error, BASE_UNAVAILABLE, "no picture: no run had an answer");
    }
    return lg_plot_run(LG_PLOT_GNUPLOT, &sweep->text, error);
}

static enum base_status begin(struct sweep *sweep, const struct lg_model *model,
                              struct base_error *error)
{
    const struct lg_options *options = sweep->options;
    sweep->result = base_alloc(sizeof(*sweep->result));
    if (sweep->result == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for the results");
    }
    struct lg_payload_spec spec = {.model = model,
                                   .lengths = options->lengths,
                                   .text = options->text,
                                   .batch = (uint32_t)options->batch,
                                   .vocab = options->vocab,
                                   .seed = options->seed};
    BASE_TRY(lg_payload_create(&spec, &sweep->payload, error));
    if (options->csv != NULL) {
        sweep->csv = fopen(options->csv, "we");
        if (sweep->csv == NULL) {
            return base_fail(error, BASE_NOT_FOUND, "%s: %s", options->csv, lg_errno_text(errno));
        }
        lg_report_csv_head(&sweep->text);
        put(&sweep->text, sweep->csv);
    }
    return BASE_OK;
}

static void end(struct sweep *sweep)
{
    if (sweep->csv != NULL) {
        (void)fclose(sweep->csv);
    }
    lg_payload_free(sweep->payload);
    base_buf_release(&sweep->text);
    base_free(sweep->result);
}

int lg_sweep(struct lg_client *client, const struct lg_model *model,
             const struct lg_options *options, FILE *out, FILE *err, const _Atomic bool *stop)
{
    struct base_error error;
    struct sweep sweep = {
        .options = options, .client = client, .out = out, .err = err, .stop = stop};
    base_buf_init(&sweep.text, 1u << 20);
    enum base_status status = begin(&sweep, model, &error);
    if (status == BASE_OK) {
        status = run_all(&sweep, &error);
    }
    if (status == BASE_OK) {
        status = draw(&sweep, &error);
    }
    end(&sweep);
    if (status != BASE_OK) {
        fprintf(err, "cellbatch-load: %s\n", error.message);
        return LG_EXIT_START;
    }
    return sweep.invalid ? LG_EXIT_INVALID : sweep.failed ? LG_EXIT_FAILED : LG_EXIT_OK;
}
