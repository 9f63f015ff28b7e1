/* The metrics writer against a strict reader of the format, and the reader against bad pages. */
#include "server/metrics.h"

#include "tests/server/exposition.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

static struct base_buf page;

static void setup(void)
{
    base_buf_init(&page, 1u << 20);
}

static void teardown(void)
{
    base_buf_release(&page);
}

static void assert_good(void)
{
    char error[EXPOSITION_ERROR_BYTES];
    ck_assert(!page.failed);
    ck_assert_msg(exposition_check(page.data, page.length, error), "%s in\n%s", error, page.data);
}

static double value_of(const char *series)
{
    double value = -1;
    ck_assert_msg(exposition_find(page.data, series, &value), "no %s in\n%s", series, page.data);
    return value;
}

START_TEST(test_metrics_counter_and_gauge_lines)
{
    struct srv_metrics_labels labels = {0};
    srv_metrics_label(&labels, "model", "langid");
    srv_metrics_label(&labels, "version", "1");
    srv_metrics_family(&page, "cb_requests_total", SRV_METRICS_COUNTER, "Requests.");
    srv_metrics_count(&page, "cb_requests_total", &labels, UINT64_MAX);
    srv_metrics_family(&page, "cb_ratio", SRV_METRICS_GAUGE, "A \\ and\na line.");
    srv_metrics_value(&page, "cb_ratio", NULL, 0.1);
    assert_good();
    ck_assert_str_eq(page.data, "# HELP cb_requests_total Requests.\n"
                                "# TYPE cb_requests_total counter\n"
                                "cb_requests_total{model=\"langid\",version=\"1\"} "
                                "18446744073709551615\n"
                                "# HELP cb_ratio A \\\\ and\\na line.\n"
                                "# TYPE cb_ratio gauge\n"
                                "cb_ratio 0.1\n");
}
END_TEST

START_TEST(test_metrics_label_values_are_escaped)
{
    struct srv_metrics_labels labels = {0};
    srv_metrics_label(&labels, "cell", "a\"b\\c\nd");
    ck_assert_str_eq(labels.text, "cell=\"a\\\"b\\\\c\\nd\"");
    srv_metrics_family(&page, "cb_x", SRV_METRICS_GAUGE, "x");
    srv_metrics_value(&page, "cb_x", &labels, 1);
    assert_good();
}
END_TEST

START_TEST(test_metrics_four_longest_labels_fit)
{
    char value[128];
    memset(value, '"', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    struct srv_metrics_labels labels = {0};
    srv_metrics_label(&labels, "a_long_label_name", value);
    srv_metrics_label(&labels, "b_long_label_name", value);
    srv_metrics_label(&labels, "c_long_label_name", value);
    srv_metrics_label(&labels, "d_long_label_name", value);
    ck_assert_uint_eq(labels.length, strlen(labels.text));
}
END_TEST

START_TEST(test_metrics_doubles_read_back_the_same)
{
    struct base_random random = util_random(1);
    srv_metrics_family(&page, "cb_x", SRV_METRICS_GAUGE, "x");
    double want[1000];
    for (int i = 0; i < 1000; i++) {
        uint64_t bits = base_random_u64(&random);
        memcpy(&want[i], &bits, sizeof bits);
        struct srv_metrics_labels labels = {0};
        char number[16];
        (void)snprintf(number, sizeof number, "%d", i);
        srv_metrics_label(&labels, "i", number);
        srv_metrics_value(&page, "cb_x", &labels, want[i]);
    }
    assert_good();
    for (int i = 0; i < 1000; i++) {
        char series[32];
        (void)snprintf(series, sizeof series, "cb_x{i=\"%d\"}", i);
        double got = value_of(series);
        ck_assert(isnan(want[i]) ? isnan(got) : got == want[i]);
    }
}
END_TEST

START_TEST(test_metrics_histogram_of_seconds)
{
    static struct base_hist hist;
    base_hist_init(&hist);
    srv_metrics_family(&page, "cb_s", SRV_METRICS_HISTOGRAM, "Time.");
    srv_metrics_histogram_seconds(&page, "cb_s", NULL, &hist);
    assert_good();
    ck_assert(value_of("cb_s_count") == 0);

    base_hist_add(&hist, 5000);            // 5 us
    base_hist_add(&hist, 2000000);         // 2 ms
    base_hist_add(&hist, 400000000000ull); // 400 s
    base_buf_clear(&page);
    struct srv_metrics_labels labels = {0};
    srv_metrics_label(&labels, "model", "m");
    srv_metrics_family(&page, "cb_s", SRV_METRICS_HISTOGRAM, "Time.");
    srv_metrics_histogram_seconds(&page, "cb_s", &labels, &hist);
    assert_good();
    ck_assert(value_of("cb_s_bucket{model=\"m\",le=\"1e-05\"}") == 1);
    ck_assert(value_of("cb_s_bucket{model=\"m\",le=\"0.001\"}") == 1);
    ck_assert(value_of("cb_s_bucket{model=\"m\",le=\"0.0025\"}") == 2);
    ck_assert(value_of("cb_s_bucket{model=\"m\",le=\"60\"}") == 2);
    ck_assert(value_of("cb_s_bucket{model=\"m\",le=\"+Inf\"}") == 3);
    util_assert_close(value_of("cb_s_sum{model=\"m\"}"), 400.002005, 1e-9, 0);
}
END_TEST

START_TEST(test_metrics_histogram_of_counts)
{
    static struct base_hist hist;
    base_hist_init(&hist);
    for (uint64_t rows = 1; rows <= 20; rows++) {
        base_hist_add(&hist, rows);
    }
    srv_metrics_family(&page, "cb_rows", SRV_METRICS_HISTOGRAM, "Rows.");
    srv_metrics_histogram_counts(&page, "cb_rows", NULL, &hist);
    assert_good();
    ck_assert(value_of("cb_rows_bucket{le=\"1\"}") == 1);
    ck_assert(value_of("cb_rows_bucket{le=\"16\"}") == 16);
    ck_assert(value_of("cb_rows_bucket{le=\"1024\"}") == 20);
    ck_assert(value_of("cb_rows_sum") == 210);
}
END_TEST

#define H "# HELP x h\n# TYPE x "
static const char *const bad_pages[] = {
    "x 1\n",                                        // no family
    H "gauge\nx 1",                                 // no last line feed
    H "gauge\nx 1\nx 2\n",                          // twice
    H "gauge\ny 1\n",                               // another's sample
    H "gauge\n",                                    // empty family
    H "summary\nx 1\n",                             // type
    H "gauge\nx one\n",                             // value
    H "gauge\nx{a=1} 1\n",                          // label without quotes
    H "gauge\nx{a=\"\\t\"} 1\n",                    // escape
    H "gauge\nx{a=\"1\",} 1\n",                     // comma at the end
    H "gauge\nx{1a=\"1\"} 1\n",                     // label name
    H "counter\nx 1\n",                             // no _total
    H "gauge\nx 1\n" H "gauge\nx{a=\"b\"} 1\n",     // family twice
    "# HELP x h\nx 1\n",                            // no TYPE
    "# comment\n",                                  // other comment
    H "histogram\nx_bucket{le=\"1\"} 1\nx_sum 1\n", // no +Inf
    H "histogram\nx_bucket{le=\"1\"} 2\nx_bucket{le=\"+Inf\"} 1\nx_sum 1\nx_count 1\n",
    H "histogram\nx_bucket{le=\"1\"} 1\nx_bucket{le=\"+Inf\"} 1\nx_sum 1\nx_count 2\n",
    H "histogram\nx_bucket{le=\"+Inf\"} 1\nx_sum 1\n", // no count
    "# HELP x_total h\n# TYPE x_total counter\nx_total -1\n",
};

START_TEST(test_metrics_reader_refuses)
{
    char error[EXPOSITION_ERROR_BYTES];
    const char *text = bad_pages[_i];
    ck_assert_msg(!exposition_check(text, strlen(text), error), "accepted\n%s", text);
    ck_assert_str_ne(error, "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tc = tcase_create("metrics");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, test_metrics_counter_and_gauge_lines);
    tcase_add_test(tc, test_metrics_label_values_are_escaped);
    tcase_add_test(tc, test_metrics_four_longest_labels_fit);
    tcase_add_test(tc, test_metrics_doubles_read_back_the_same);
    tcase_add_test(tc, test_metrics_histogram_of_seconds);
    tcase_add_test(tc, test_metrics_histogram_of_counts);
    tcase_add_loop_test(tc, test_metrics_reader_refuses, 0,
                        (int)(sizeof bad_pages / sizeof bad_pages[0]));
    suite_add_tcase(suite, tc);
    return util_run(suite);
}
