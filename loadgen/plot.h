/* A picture of a sweep: latency percentiles against load, drawn by gnuplot. */
#ifndef LOADGEN_PLOT_H
#define LOADGEN_PLOT_H

#include "base/buf.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* One run of the curve. */
struct lg_point {
    double rate; /* offered (open loop) or achieved (closed loop), requests/s */
    double p50_ms, p90_ms, p99_ms, p999_ms;
    bool valid;
};

/* The gnuplot script that draws points[count] (ascending rate) into the PNG file at path. Runs
 * without an answer are left out; INVALID ones are crosses beside the lines. false when that leaves
 * nothing to draw. */
bool lg_plot_script(const char *path, const char *title, const struct lg_point *points,
                    size_t count, struct base_buf *out);

#define LG_PLOT_GNUPLOT ((const char *const[]){"gnuplot", NULL})

/* Runs a program (a name found through PATH, its arguments, NULL) with the script on its standard
 * input and waits. NOT_FOUND when there is no such program, INTERNAL when it failed. */
enum base_status lg_plot_run(const char *const argv[], const struct base_buf *script,
                             struct base_error *error) __attribute__((warn_unused_result));

#endif
