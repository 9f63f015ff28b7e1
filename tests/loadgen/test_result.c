/* Accounting: which end counts as what, latency from the planned time, validity, the reports. */
#include "loadgen/result.h"

#include "base/clock.h"
#include "loadgen/plan.h"
#include "loadgen/report.h"
#include "tests/util.h"

#include <check.h>
#include <string.h>

static struct lg_result result; // too large for a stack
static struct base_buf text;

static void begin(void)
{
    lg_result_init(&result);
    base_buf_init(&text, 1u << 20);
}

static void end(void)
{
    base_buf_release(&text);
}

static void add(uint32_t code, uint64_t planned_ms, uint64_t sent_ms, uint64_t done_ms)
{
    struct lg_outcome outcome = {.code = code,
                                 .planned_ns = planned_ms * BASE_NS_PER_MS,
                                 .sent_ns = sent_ms * BASE_NS_PER_MS,
                                 .done_ns = done_ms * BASE_NS_PER_MS,
                                 .message_bytes = 10};
    lg_result_add(&result, &outcome);
}

START_TEST(test_result_latency_counts_from_the_planned_time)
{
    add(LG_CODE_OK, 100, 150, 160);
    ck_assert_uint_eq(result.latency.max, 60 * BASE_NS_PER_MS);
    ck_assert_uint_eq(result.service.max, 10 * BASE_NS_PER_MS);
    ck_assert_uint_eq(result.bytes_sent, 10);
}
END_TEST

START_TEST(test_result_first_part_counts_from_the_planned_time)
{
    const struct lg_outcome outcome = {.code = LG_CODE_OK,
                                       .planned_ns = 100 * BASE_NS_PER_MS,
                                       .sent_ns = 150 * BASE_NS_PER_MS,
                                       .first_ns = 155 * BASE_NS_PER_MS,
                                       .done_ns = 190 * BASE_NS_PER_MS,
                                       .n_messages = 4};
    struct lg_options options = {
        .target = "h:1", .model = "m", .lengths = "fixed:3", .batch = 1, .connections = 1};
    result.in_parts = true;
    lg_result_add(&result, &outcome);
    ck_assert_uint_eq(result.first.max, 55 * BASE_NS_PER_MS);
    ck_assert_uint_eq(result.latency.max, 90 * BASE_NS_PER_MS);
    ck_assert_uint_eq(result.messages, 4);
    lg_report_text(&options, &result, &text);
    ck_assert_ptr_nonnull(strstr(text.data, "\n  first     ms  mean 55.000"));
    ck_assert_ptr_nonnull(strstr(text.data, "\n  parts         4.00 an answer\n"));
}
END_TEST

START_TEST(test_result_percentiles_are_within_the_histograms_bound)
{
    for (uint64_t ms = 1; ms <= 1000; ms++) {
        add(LG_CODE_OK, 0, 0, ms);
    }
    static const double quantiles[] = {0.5, 0.9, 0.95, 0.99, 0.999};
    for (size_t i = 0; i < 5; i++) {
        double got = (double)base_hist_quantile(&result.latency, quantiles[i]) / BASE_NS_PER_MS;
        ck_assert_double_ge(got, 1000 * quantiles[i]);
        ck_assert_double_le(got, 1000 * quantiles[i] * 1.008 + 0.01);
    }
    ck_assert_uint_eq(result.latency.max, 1000 * BASE_NS_PER_MS);
}
END_TEST

START_TEST(test_result_every_end_is_counted_once)
{
    add(LG_CODE_OK, 0, 0, 1);
    add(LG_CODE_RESOURCE_EXHAUSTED, 0, 0, 1);
    add(LG_CODE_RESOURCE_EXHAUSTED, 0, 0, 1);
    add(LG_CODE_CANCELLED, 0, 0, 1); // not our doing: an error
    add(99, 0, 0, 1);
    struct lg_outcome ours = {.code = LG_CODE_CANCELLED, .we_cancelled = true};
    lg_result_add(&result, &ours);
    struct lg_outcome late = {.code = LG_CODE_OK, .we_cancelled = true};
    lg_result_add(&result, &late); // the answer was faster than our cancel
    struct lg_outcome unfinished = {.code = LG_CODE_CANCELLED, .unfinished = true};
    lg_result_add(&result, &unfinished);
    ck_assert_uint_eq(result.sent, 8);
    ck_assert_uint_eq(result.ok, 2);
    ck_assert_uint_eq(result.cancelled, 1);
    ck_assert_uint_eq(result.unfinished, 1);
    ck_assert_uint_eq(result.errors[LG_CODE_RESOURCE_EXHAUSTED], 2);
    ck_assert_uint_eq(result.errors[LG_CODE_CANCELLED], 1);
    ck_assert_uint_eq(result.errors[LG_CODE_COUNT - 1], 1);
    ck_assert_uint_eq(lg_result_failed(&result), 5);
    ck_assert_uint_eq(result.sent, result.ok + result.cancelled + lg_result_failed(&result));
    ck_assert_uint_eq(result.latency.count, 2);
}
END_TEST

START_TEST(test_result_valid_up_to_one_percent_missed)
{
    ck_assert(!lg_result_is_valid(&result)); // nothing was measured
    result.sends.limit_ns = lg_missed_limit_ns(1000);
    for (uint32_t i = 0; i < 990; i++) {
        lg_sends_add(&result.sends, result.sends.limit_ns); // on the limit is in time
    }
    for (uint32_t i = 0; i < 10; i++) {
        lg_sends_add(&result.sends, result.sends.limit_ns + 1);
    }
    ck_assert_uint_eq(result.sends.missed, 10);
    ck_assert(lg_result_is_valid(&result));
    lg_sends_add_unsent(&result.sends, 1);
    ck_assert_uint_eq(result.sends.planned, 1001);
    ck_assert(!lg_result_is_valid(&result));
    ck_assert_uint_eq(result.sends.lateness_max_ns, result.sends.limit_ns + 1);
}
END_TEST

START_TEST(test_result_rates_of_an_empty_window_are_zero)
{
    util_assert_close(lg_result_offered(&result), 0, 0, 0);
    util_assert_close(lg_result_achieved(&result), 0, 0, 0);
    util_assert_close(lg_result_cpu_share(&result), 0, 0, 0);
    util_assert_close(lg_result_cpu_us_each(&result), 0, 0, 0);
    util_assert_close(lg_result_missed_share(&result), 0, 0, 0);
}
END_TEST

/* 4 requests in 2 s, 3 answered, 1 refused, half a core. */
static struct lg_options fill(void)
{
    struct lg_options options = {
        .target = "h:1", .model = "a \"b\"", .lengths = "fixed:3", .batch = 1, .connections = 2};
    result.mode = LG_MODE_OPEN;
    result.rate_asked = 2;
    result.seed = 9;
    result.window_ns = 2 * BASE_NS_PER_S;
    result.ok_in_window = 3;
    result.cpu_ns = BASE_NS_PER_S;
    for (uint64_t i = 1; i <= 3; i++) {
        add(LG_CODE_OK, 0, 1, 1 + i);
        lg_sends_add(&result.sends, 0);
    }
    add(LG_CODE_RESOURCE_EXHAUSTED, 0, 0, 1);
    lg_sends_add(&result.sends, 0);
    memcpy(result.first_error, "no", 3);
    return options;
}

START_TEST(test_report_json_is_one_line_of_json)
{
    struct lg_options options = fill();
    lg_report_json(&options, &result, &text);
    ck_assert(!text.failed);
    ck_assert_ptr_eq(strchr(text.data, '\n'), text.data + text.length - 1);
    json_t *json = json_loads(text.data, 0, NULL);
    ck_assert_ptr_nonnull(json);
    ck_assert_str_eq(json_string_value(json_object_get(json, "model")), "a \"b\"");
    ck_assert_str_eq(json_string_value(json_object_get(json, "mode")), "open");
    ck_assert(json_is_true(json_object_get(json, "valid")));
    ck_assert_int_eq(json_integer_value(json_object_get(json, "ok")), 3);
    ck_assert_int_eq(json_integer_value(json_object_get(json, "seed")), 9);
    util_assert_close(json_number_value(json_object_get(json, "rate_offered")), 2, 1e-9, 0);
    util_assert_close(json_number_value(json_object_get(json, "rate_achieved")), 1.5, 1e-9, 0);
    util_assert_close(json_number_value(json_object_get(json, "cpu_cores")), 0.5, 1e-9, 0);
    const json_t *errors = json_object_get(json, "errors");
    ck_assert_uint_eq(json_object_size(errors), 1);
    ck_assert_int_eq(json_integer_value(json_object_get(errors, "RESOURCE_EXHAUSTED")), 1);
    const json_t *latency = json_object_get(json, "latency_ms");
    util_assert_close(json_number_value(json_object_get(latency, "max")), 4, 1e-6, 0);
    util_assert_close(json_number_value(json_object_get(latency, "p50")), 3, 0.03, 0);
    const json_t *service = json_object_get(json, "service_ms");
    util_assert_close(json_number_value(json_object_get(service, "max")), 3, 1e-6, 0);
    json_decref(json);
}
END_TEST

static size_t count_commas(const char *from, const char *to)
{
    size_t count = 0;
    for (const char *c = from; c < to; c++) {
        count += *c == ',';
    }
    return count;
}

START_TEST(test_report_csv_row_has_the_heads_columns)
{
    (void)fill();
    lg_report_csv_head(&text);
    size_t head = text.length;
    lg_report_csv_row(&result, &text);
    ck_assert(!text.failed);
    ck_assert_uint_eq(count_commas(text.data, text.data + head),
                      count_commas(text.data + head, text.data + text.length));
    ck_assert_int_eq(text.data[text.length - 1], '\n');
}
END_TEST

START_TEST(test_report_text_names_errors_and_verdict)
{
    struct lg_options options = fill();
    lg_report_text(&options, &result, &text);
    ck_assert_ptr_nonnull(strstr(text.data, "RESOURCE_EXHAUSTED 1; first: no"));
    ck_assert_ptr_nonnull(strstr(text.data, "seed 9"));
    ck_assert_ptr_null(strstr(text.data, "INVALID"));
    lg_sends_add_unsent(&result.sends, 1);
    lg_report_text(&options, &result, &text);
    ck_assert_ptr_nonnull(strstr(text.data, "INVALID"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("result");
    TCase *tcase = tcase_create("accounting");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_result_latency_counts_from_the_planned_time);
    tcase_add_test(tcase, test_result_first_part_counts_from_the_planned_time);
    tcase_add_test(tcase, test_result_percentiles_are_within_the_histograms_bound);
    tcase_add_test(tcase, test_result_every_end_is_counted_once);
    tcase_add_test(tcase, test_result_valid_up_to_one_percent_missed);
    tcase_add_test(tcase, test_result_rates_of_an_empty_window_are_zero);
    tcase_add_test(tcase, test_report_json_is_one_line_of_json);
    tcase_add_test(tcase, test_report_csv_row_has_the_heads_columns);
    tcase_add_test(tcase, test_report_text_names_errors_and_verdict);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
