/* What runs through an engine in a measurement, as options of the command line say it: a model, how
 * long its requests are, and on which device. */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include "bench/shapes.h"
#include "cells/model.h"
#include "loadgen/lengths.h"
#include "server/engine.h"

/* Of the help of a subcommand that has one. */
#define BENCH_WORKLOAD_HELP                                                                        \
    "  --model FILE           an ONNX model, or its folder in a repository, or\n"                  \
    "  --lstm INPUTSxUNITS    one LSTM of random weights (default 256x256), or\n"                  \
    "  --tree INPUTSxUNITS    one binary TreeLSTM of random weights, or\n"                         \
    "  --seq2seq WORDSxUNITS  an LSTM that reads words and one that answers some, both random\n"   \
    "  --lengths SPEC         fixed:N, uniform:A:B or trace:FILE[:COLUMN] (default fixed:24); "    \
    "of\n"                                                                                         \
    "                         trees trees:FILE, a tree a line in postorder: S a leaf, R joins "    \
    "two\n"                                                                                        \
    "  --answers SPEC         of seq2seq, like lengths: steps until the end (default fixed:24)\n"

struct bench_workload {
    const char *lstm, *tree, *seq2seq, *cells, *model; /* the last that is not NULL counts */
    const char *spec, *answers_spec;                   /* of lengths */

    struct lg_lengths lengths;
    struct lg_lengths answers; /* of seq2seq */
    struct bench_shapes shapes;
};

void bench_workload_init(struct bench_workload *workload);
void bench_workload_release(struct bench_workload *workload);

/* An option: 'm' model, 'c' cells, 's' lstm, 'x' tree, 'q' seq2seq, 'l' lengths,
 * 'A' answers. The value is kept. */
void bench_workload_take(struct bench_workload *workload, int letter, const char *value);

/* As the user has named it. */
const char *bench_workload_name(const struct bench_workload *workload);

/* Draws or reads the lengths, or reads the trees. INVALID_ARGUMENT, NOT_FOUND,
 * RESOURCE_EXHAUSTED. */
enum base_status bench_workload_read(struct bench_workload *workload, uint64_t seed,
                                     struct base_error *error);

/* Makes or loads the model; ended with cell_model_free(). The importer's and cells_file.h's errors;
 * INVALID_ARGUMENT for sizes that are none. */
enum base_status bench_workload_load(const struct bench_workload *workload,
                                     struct cell_registry *registry, struct cell_model **out,
                                     struct base_error *error);

/* Rows of an engine that has so many requests inside: rows are reckoned by small trees, and here no
 * admission holds back large ones. */
uint32_t bench_workload_rows(const struct bench_workload *workload, uint32_t present);

/* NAME or NAME:CARD: one device, which is lost when it stands still for 10 s. INVALID_ARGUMENT, and
 * cell_backend_load()'s errors. */
enum base_status bench_workload_find_device(const char *text, struct srv_engine_options *out,
                                            struct base_error *error);

#endif
