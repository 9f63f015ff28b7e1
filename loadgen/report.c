#include "loadgen/report.h"

#include "base/clock.h"
#include "loadgen/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct percentile {
    const char *name;
    double quantile;
};

static const struct percentile percentiles[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1},
};

#define PERCENTILE_COUNT (sizeof(percentiles) / sizeof(percentiles[0]))

static double ms(uint64_t ns)
{
    return (double)ns / (double)BASE_NS_PER_MS;
}

static double at_quantile(const struct base_hist *hist, double quantile)
{
    if (hist->count == 0) {
        return 0;
    }
    return ms(quantile >= 1 ? hist->max : base_hist_quantile(hist, quantile));
}

static double mean_ms(const struct base_hist *hist)
{
    return base_hist_mean(hist) / (double)BASE_NS_PER_MS;
}

static const char *lengths_of(const struct lg_options *options)
{
    return options->text != NULL ? "text" : options->lengths;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void text_hist(const char *name, const struct base_hist *hist, struct base_buf *out)
{
    base_buf_printf(out, "  %-9s ms  mean %.3f", name, mean_ms(hist));
    for (size_t i = 0; i < PERCENTILE_COUNT; i++) {
        base_buf_printf(out, "  %s %.3f", percentiles[i].name,
                        at_quantile(hist, percentiles[i].quantile));
    }
    base_buf_text(out, "\n");
}

static void text_errors(const struct lg_result *result, struct base_buf *out)
{
    if (lg_result_failed(result) == 0) {
        return;
    }
    base_buf_text(out, "  errors       ");
    for (uint32_t i = 1; i < LG_CODE_COUNT; i++) {
        if (result->errors[i] > 0) {
            base_buf_printf(out, " %s %" PRIu64, lg_code_name(i), result->errors[i]);
        }
    }
    if (result->unfinished > 0) {
        base_buf_printf(out, " unfinished %" PRIu64, result->unfinished);
    }
    if (result->first_error[0] != '\0') {
        base_buf_printf(out, "; first: %s", result->first_error);
    }
    base_buf_text(out, "\n");
}

static void text_verdict(const struct lg_result *result, struct base_buf *out)
{
    if (result->mode == LG_MODE_OPEN) {
        base_buf_printf(out,
                        "  schedule      %" PRIu64 " sends missed (%.2f %%; later than %.1f ms), "
                        "latest %.1f ms\n",
                        result->sends.missed, 100 * lg_result_missed_share(result),
                        ms(result->sends.limit_ns), ms(result->sends.lateness_max_ns));
    }
    if (result->sends.planned == 0) {
        base_buf_text(out, "  INVALID: no request was measured\n");
    } else if (!lg_result_is_valid(result)) {
        base_buf_printf(out, "  INVALID: more than %.0f %% of the sends missed their time\n",
                        100 * LG_MISSED_SHARE_MAX);
    }
    if (result->interrupted) {
        base_buf_text(out, "  interrupted: the window was cut short\n");
    }
    if (result->gave_up) {
        base_buf_text(out, "  gave up: the server could not be reached\n");
    }
}

/* Of an answer in parts. */
static double messages_each(const struct lg_result *result)
{
    return result->ok == 0 ? 0 : (double)result->messages / (double)result->ok;
}

void lg_report_text(const struct lg_options *options, const struct lg_result *result,
                    struct base_buf *out)
{
    if (result->mode == LG_MODE_OPEN) {
        base_buf_printf(out, "open loop, %.6g requests/s asked", result->rate_asked);
    } else {
        base_buf_printf(out, "closed loop, %u in flight", result->concurrency);
    }
    base_buf_printf(out, ", lengths %s, %" PRIu64 " connection%s, seed %" PRIu64 "\n",
                    lengths_of(options), options->connections, options->connections == 1 ? "" : "s",
                    result->seed);
    base_buf_printf(out, "  rate          offered %.1f/s  achieved %.1f/s  in %.2f s\n",
                    lg_result_offered(result), lg_result_achieved(result),
                    (double)result->window_ns / (double)BASE_NS_PER_S);
    base_buf_printf(out,
                    "  requests      %" PRIu64 " planned  %" PRIu64 " sent  %" PRIu64
                    " ok  %" PRIu64 " failed  %" PRIu64 " cancelled\n",
                    result->sends.planned, result->sent, result->ok, lg_result_failed(result),
                    result->cancelled);
    text_errors(result, out);
    text_hist("latency", &result->latency, out);
    if (result->in_parts) {
        text_hist("first", &result->first, out);
        base_buf_printf(out, "  parts         %.2f an answer\n", messages_each(result));
    }
    if (result->mode == LG_MODE_OPEN) {
        text_hist("service", &result->service, out);
    }
    base_buf_printf(out, "  client        %.2f cores, %.2f s of CPU, %.1f us a request\n",
                    lg_result_cpu_share(result), (double)result->cpu_ns / (double)BASE_NS_PER_S,
                    lg_result_cpu_us_each(result));
    text_verdict(result, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_text(const char *name, const char *value, struct base_buf *out)
{
    base_buf_printf(out, "\"%s\":", name);
    base_buf_json_string(out, value, strlen(value));
    base_buf_text(out, ",");
}

static void json_u64(const char *name, uint64_t value, struct base_buf *out)
{
    base_buf_printf(out, "\"%s\":%" PRIu64 ",", name, value);
}

static void json_f64(const char *name, double value, struct base_buf *out)
{
    base_buf_printf(out, "\"%s\":%.9g,", name, value);
}

static void json_bool(const char *name, bool value, struct base_buf *out)
{
    base_buf_printf(out, "\"%s\":%s,", name, value ? "true" : "false");
}

static void json_hist(const char *name, const struct base_hist *hist, struct base_buf *out)
{
    base_buf_printf(out, "\"%s\":{\"mean\":%.6f", name, mean_ms(hist));
    for (size_t i = 0; i < PERCENTILE_COUNT; i++) {
        base_buf_printf(out, ",\"%s\":%.6f", percentiles[i].name,
                        at_quantile(hist, percentiles[i].quantile));
    }
    base_buf_text(out, "},");
}

static void json_errors(const struct lg_result *result, struct base_buf *out)
{
    base_buf_text(out, "\"errors\":{");
    const char *comma = "";
    for (uint32_t i = 1; i < LG_CODE_COUNT; i++) {
        if (result->errors[i] > 0) {
            base_buf_printf(out, "%s\"%s\":%" PRIu64, comma, lg_code_name(i), result->errors[i]);
            comma = ",";
        }
    }
    base_buf_text(out, "},");
}

static void json_load(const struct lg_options *options, const struct lg_result *result,
                      struct base_buf *out)
{
    json_text("target", options->target, out);
    json_text("model", options->model, out);
    json_text("mode", result->mode == LG_MODE_OPEN ? "open" : "closed", out);
    if (result->mode == LG_MODE_OPEN) {
        json_f64("rate_asked", result->rate_asked, out);
    } else {
        json_u64("concurrency", result->concurrency, out);
    }
    json_text("lengths", lengths_of(options), out);
    json_u64("batch", options->batch, out);
    json_u64("connections", options->connections, out);
    json_u64("seed", result->seed, out);
}

void lg_report_json(const struct lg_options *options, const struct lg_result *result,
                    struct base_buf *out)
{
    base_buf_text(out, "{");
    json_load(options, result, out);
    json_bool("valid", lg_result_is_valid(result), out);
    json_bool("interrupted", result->interrupted, out);
    json_bool("gave_up", result->gave_up, out);
    json_f64("window_s", (double)result->window_ns / (double)BASE_NS_PER_S, out);
    json_f64("rate_offered", lg_result_offered(result), out);
    json_f64("rate_achieved", lg_result_achieved(result), out);
    json_u64("planned", result->sends.planned, out);
    json_u64("sent", result->sent, out);
    json_u64("ok", result->ok, out);
    json_u64("failed", lg_result_failed(result), out);
    json_u64("cancelled", result->cancelled, out);
    json_u64("unfinished", result->unfinished, out);
    json_errors(result, out);
    if (result->first_error[0] != '\0') {
        json_text("first_error", result->first_error, out);
    }
    json_u64("missed", result->sends.missed, out);
    json_f64("missed_limit_ms", ms(result->sends.limit_ns), out);
    json_f64("lateness_max_ms", ms(result->sends.lateness_max_ns), out);
    json_u64("bytes_sent", result->bytes_sent, out);
    json_hist("latency_ms", &result->latency, out);
    json_hist("service_ms", &result->service, out);
    if (result->in_parts) {
        json_hist("first_ms", &result->first, out);
        json_f64("parts_each", messages_each(result), out);
    }
    json_f64("cpu_s", (double)result->cpu_ns / (double)BASE_NS_PER_S, out);
    json_f64("cpu_cores", lg_result_cpu_share(result), out);
    base_buf_printf(out, "\"cpu_us_each\":%.6g}\n", lg_result_cpu_us_each(result));
}

/* ---- CSV ------------------------------------------------------------------------------------- */

void lg_report_csv_head(struct base_buf *out)
{
    base_buf_text(out, "mode,rate_asked,concurrency,seed,window_s,rate_offered,rate_achieved,"
                       "planned,sent,ok,failed,cancelled,unfinished,missed,valid,cpu_cores,"
                       "cpu_us_each");
    static const char *const kinds[] = {"latency", "service", "first"};
    for (size_t k = 0; k < 3; k++) {
        base_buf_printf(out, ",%s_mean_ms", kinds[k]);
        for (size_t i = 0; i < PERCENTILE_COUNT; i++) {
            base_buf_printf(out, ",%s_%s_ms", kinds[k], percentiles[i].name);
        }
    }
    base_buf_text(out, "\n");
}

static void csv_hist(const struct base_hist *hist, struct base_buf *out)
{
    base_buf_printf(out, ",%.6f", mean_ms(hist));
    for (size_t i = 0; i < PERCENTILE_COUNT; i++) {
        base_buf_printf(out, ",%.6f", at_quantile(hist, percentiles[i].quantile));
    }
}

void lg_report_csv_row(const struct lg_result *result, struct base_buf *out)
{
    base_buf_printf(out, "%s,%.9g,%u,%" PRIu64 ",%.6f,%.9g,%.9g,",
                    result->mode == LG_MODE_OPEN ? "open" : "closed", result->rate_asked,
                    result->concurrency, result->seed,
                    (double)result->window_ns / (double)BASE_NS_PER_S, lg_result_offered(result),
                    lg_result_achieved(result));
    base_buf_printf(out,
                    "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
                    ",%" PRIu64 ",%s,%.4f,%.4f",
                    result->sends.planned, result->sent, result->ok, lg_result_failed(result),
                    result->cancelled, result->unfinished, result->sends.missed,
                    lg_result_is_valid(result) ? "yes" : "no", lg_result_cpu_share(result),
                    lg_result_cpu_us_each(result));
    csv_hist(&result->latency, out);
    csv_hist(&result->service, out);
    csv_hist(&result->first, out);
    base_buf_text(out, "\n");
}
