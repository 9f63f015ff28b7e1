/* The Prometheus text format, one line at a time.
 *
 *   # HELP name text        text: \ and line feed escaped
 *   # TYPE name counter
 *   name{key="value"} 12    value: \, " and line feed escaped
 *
 * A histogram is written from one of ours by counting its values up to each bound; the bounds are
 * fixed, since Prometheus can only add up histograms whose bounds agree. A scrape reads 58 KB per
 * bound at worst, about 2 us. No state. */
#include "server/metrics.h"

#include "base/assert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1e9

/* An upper bound and how it is printed. */
struct bound {
    uint64_t limit;
    const char *le;
};

static const struct bound seconds[] = {
    {10000, "1e-05"},     {25000, "2.5e-05"},  {50000, "5e-05"},     {100000, "0.0001"},
    {250000, "0.00025"},  {500000, "0.0005"},  {1000000, "0.001"},   {2500000, "0.0025"},
    {5000000, "0.005"},   {10000000, "0.01"},  {25000000, "0.025"},  {50000000, "0.05"},
    {100000000, "0.1"},   {250000000, "0.25"}, {500000000, "0.5"},   {1000000000, "1"},
    {2500000000u, "2.5"}, {5000000000u, "5"},  {10000000000u, "10"}, {60000000000u, "60"},
};

static const struct bound counts[] = {
    {1, "1"},   {2, "2"},     {4, "4"},     {8, "8"},     {16, "16"},     {32, "32"},
    {64, "64"}, {128, "128"}, {256, "256"}, {512, "512"}, {1024, "1024"},
};

/* Appends text with \, line feed and, in label values, " escaped. */
static void add_escaped(struct base_buf *out, const char *text, bool quotes)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '\n') {
            base_buf_add(out, "\\n", 2);
        } else if (*at == '\\' || (*at == '"' && quotes)) {
            base_buf_add(out, "\\", 1);
            base_buf_add(out, at, 1);
        } else {
            base_buf_add(out, at, 1);
        }
    }
}

static void append(struct srv_metrics_labels *labels, const char *text, size_t length)
{
    base_assert(length < SRV_METRICS_LABELS_BYTES - labels->length);
    memcpy(labels->text + labels->length, text, length);
    labels->length += length;
    labels->text[labels->length] = '\0';
}

void srv_metrics_label(struct srv_metrics_labels *labels, const char *key, const char *value)
{
    base_assert(strcmp(key, "le") != 0);
    if (labels->length > 0) {
        append(labels, ",", 1);
    }
    append(labels, key, strlen(key));
    append(labels, "=\"", 2);
    for (const char *at = value; *at != '\0'; at++) {
        if (*at == '\n') {
            append(labels, "\\n", 2);
        } else {
            if (*at == '\\' || *at == '"') {
                append(labels, "\\", 1);
            }
            append(labels, at, 1);
        }
    }
    append(labels, "\"", 1);
}

static const char *const type_names[] = {
    [SRV_METRICS_COUNTER] = "counter",
    [SRV_METRICS_GAUGE] = "gauge",
    [SRV_METRICS_HISTOGRAM] = "histogram",
};

void srv_metrics_family(struct base_buf *out, const char *name, enum srv_metrics_type type,
                        const char *help)
{
    base_buf_printf(out, "# HELP %s ", name);
    add_escaped(out, help, false);
    base_buf_printf(out, "\n# TYPE %s %s\n", name, type_names[type]);
}

/* name, suffix, {labels,le="..."} and a space. */
static void add_series(struct base_buf *out, const char *name, const char *suffix,
                       const struct srv_metrics_labels *labels, const char *le)
{
    const char *text = labels == NULL ? "" : labels->text;
    base_buf_text(out, name);
    base_buf_text(out, suffix);
    if (text[0] != '\0' || le != NULL) {
        base_buf_printf(out, "{%s", text);
        if (le != NULL) {
            base_buf_printf(out, "%sle=\"%s\"", text[0] != '\0' ? "," : "", le);
        }
        base_buf_text(out, "}");
    }
    base_buf_text(out, " ");
}

static void add_double(struct base_buf *out, double value)
{
    if (isnan(value)) {
        base_buf_text(out, "NaN");
    } else if (isinf(value)) {
        base_buf_text(out, value > 0 ? "+Inf" : "-Inf");
    } else {
        char text[40];
        // 15 digits always survive a double, 17 always tell it from its neighbours.
        for (int digits = 15; digits <= 17; digits++) {
            (void)snprintf(text, sizeof text, "%.*g", digits, value);
            if (strtod(text, NULL) == value) {
                break;
            }
        }
        base_buf_text(out, text);
    }
}

void srv_metrics_count(struct base_buf *out, const char *name,
                       const struct srv_metrics_labels *labels, uint64_t value)
{
    add_series(out, name, "", labels, NULL);
    base_buf_printf(out, "%llu\n", (unsigned long long)value);
}

void srv_metrics_value(struct base_buf *out, const char *name,
                       const struct srv_metrics_labels *labels, double value)
{
    add_series(out, name, "", labels, NULL);
    add_double(out, value);
    base_buf_text(out, "\n");
}

static void add_histogram(struct base_buf *out, const char *name,
                          const struct srv_metrics_labels *labels, const struct base_hist *hist,
                          const struct bound *bounds, size_t n_bounds)
{
    for (size_t i = 0; i < n_bounds; i++) {
        add_series(out, name, "_bucket", labels, bounds[i].le);
        base_buf_printf(out, "%llu\n",
                        (unsigned long long)base_hist_count_le(hist, bounds[i].limit));
    }
    add_series(out, name, "_bucket", labels, "+Inf");
    base_buf_printf(out, "%llu\n", (unsigned long long)hist->count);
}

static void add_sum_and_count(struct base_buf *out, const char *name,
                              const struct srv_metrics_labels *labels, double sum, uint64_t count)
{
    add_series(out, name, "_sum", labels, NULL);
    add_double(out, sum);
    base_buf_text(out, "\n");
    add_series(out, name, "_count", labels, NULL);
    base_buf_printf(out, "%llu\n", (unsigned long long)count);
}

void srv_metrics_histogram_seconds(struct base_buf *out, const char *name,
                                   const struct srv_metrics_labels *labels,
                                   const struct base_hist *ns)
{
    add_histogram(out, name, labels, ns, seconds, sizeof seconds / sizeof seconds[0]);
    add_sum_and_count(out, name, labels, (double)ns->sum / NS_PER_S, ns->count);
}

void srv_metrics_histogram_counts(struct base_buf *out, const char *name,
                                  const struct srv_metrics_labels *labels,
                                  const struct base_hist *hist)
{
    add_histogram(out, name, labels, hist, counts, sizeof counts / sizeof counts[0]);
    add_sum_and_count(out, name, labels, (double)hist->sum, hist->count);
}
