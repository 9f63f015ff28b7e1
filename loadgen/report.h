/* A result as text for people, as a JSON line, and as a row of a table. */
#ifndef LOADGEN_REPORT_H
#define LOADGEN_REPORT_H

#include "base/buf.h"
#include "loadgen/options.h"
#include "loadgen/result.h"

/* Appends to *out, which ends with a line end. */
void lg_report_text(const struct lg_options *options, const struct lg_result *result,
                    struct base_buf *out);
void lg_report_json(const struct lg_options *options, const struct lg_result *result,
                    struct base_buf *out);

/* The table's first line, and a run's. Times in milliseconds. */
void lg_report_csv_head(struct base_buf *out);
void lg_report_csv_row(const struct lg_result *result, struct base_buf *out);

#endif
