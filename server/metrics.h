/* Prometheus text format 0.0.4, written into a buffer: what core's srv_core_write_metrics() and
 * other writers of /metrics are made of. Pure; any thread. Names, units and labels of what we
 * publish: docs/metrics.md.
 *
 *   srv_metrics_family(out, "cellbatch_requests_total", SRV_METRICS_COUNTER, "Requests answered.");
 *   for each series of it:
 *       struct srv_metrics_labels labels = {0};
 *       srv_metrics_label(&labels, "model", name);
 *       srv_metrics_count(out, "cellbatch_requests_total", &labels, n);
 *
 * A family is written once and all its series follow it before the next family. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "base/buf.h"
#include "base/hist.h"

#include <stddef.h>
#include <stdint.h>

/* The content type of a page in this format. */
#define SRV_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum srv_metrics_type { SRV_METRICS_COUNTER, SRV_METRICS_GAUGE, SRV_METRICS_HISTOGRAM };

/* Room for four labels with values of 128 bytes, each byte of which needs an escape. */
#define SRV_METRICS_LABELS_BYTES 1280u

/* key="value" pairs of one series, escaped, in the order added. Starts as {0}. */
struct srv_metrics_labels {
    char text[SRV_METRICS_LABELS_BYTES]; /* NUL-terminated */
    size_t length;
};

/* key: [a-zA-Z_][a-zA-Z0-9_]*, each at most once in a list, never "le". value: any UTF-8 text; the
 * list has to fit. */
void srv_metrics_label(struct srv_metrics_labels *labels, const char *key, const char *value);

/* The HELP and TYPE lines. name: [a-zA-Z_:][a-zA-Z0-9_:]*, a counter's ends in _total. */
void srv_metrics_family(struct base_buf *out, const char *name, enum srv_metrics_type type,
                        const char *help);

/* One sample of a counter or gauge. labels may be NULL. Infinities and NaN are allowed; a double is
 * printed with as few digits as give the same double back. */
void srv_metrics_count(struct base_buf *out, const char *name,
                       const struct srv_metrics_labels *labels, uint64_t value);
void srv_metrics_value(struct base_buf *out, const char *name,
                       const struct srv_metrics_labels *labels, double value);

/* One histogram: buckets, sum and count, in seconds from nanoseconds. Upper bounds 10 us to 10 s in
 * steps of 1, 2.5, 5, and 60 s, exact to within a bucket of the histogram (0.8 %). */
void srv_metrics_histogram_seconds(struct base_buf *out, const char *name,
                                   const struct srv_metrics_labels *labels,
                                   const struct base_hist *ns);

/* The same of plain numbers, such as rows; upper bounds are the powers of two 1 to 1024. */
void srv_metrics_histogram_counts(struct base_buf *out, const char *name,
                                  const struct srv_metrics_labels *labels,
                                  const struct base_hist *hist);

#endif
