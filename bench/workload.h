/* What runs through an engine in a measurement, as options of the command line say it: a model, how
 * long its requests are, on which device, for how long. */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include "bench/shapes.h"
#include "cells/model.h"
#include "loadgen/lengths.h"
#include "server/engine.h"

#include <getopt.h>

#define BENCH_ROUNDS_MAX 100u

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
    "  --answers SPEC         of seq2seq, like lengths: steps until the end (default fixed:24)\n"  \
    "  --threads N            of each team (default 1)\n"                                          \
    "  --isa NAME             auto, scalar, avx2, avx512, neon (default auto)\n"                   \
    "  --device NAME[:CARD]   cpu, blas, cuda:0, cuda-exact:0 (default cpu)\n"                     \
    "  --batch-rows N         the most rows of a batch (default 64)\n"

/* Rows of getopt_long()'s table. */
/* clang-format off */
#define BENCH_WORKLOAD_OPTIONS                   \
    {"model", required_argument, NULL, 'm'},     \
    {"lstm", required_argument, NULL, 's'},      \
    {"tree", required_argument, NULL, 'x'},      \
    {"seq2seq", required_argument, NULL, 'q'},   \
    {"lengths", required_argument, NULL, 'l'},   \
    {"answers", required_argument, NULL, 'A'},   \
    {"threads", required_argument, NULL, 't'},   \
    {"isa", required_argument, NULL, 'i'},       \
    {"device", required_argument, NULL, 'b'},    \
    {"batch-rows", required_argument, NULL, 'r'},\
    {"rounds", required_argument, NULL, 'R'},    \
    {"seconds", required_argument, NULL, 'S'},   \
    {"json", no_argument, NULL, 'j'}
/* clang-format on */

struct bench_workload {
    const char *lstm, *tree, *seq2seq, *cells, *model; /* the last that is not NULL counts */
    const char *spec, *answers_spec;                   /* of lengths */
    const char *device;
    struct srv_engine_options engine; /* but for the device, until that is found */
    uint32_t rounds;                  /* 1..BENCH_ROUNDS_MAX */
    double seconds;
    bool is_json;

    struct lg_lengths lengths;
    struct lg_lengths answers; /* of seq2seq */
    struct bench_shapes shapes;
};

void bench_workload_init(struct bench_workload *workload);
void bench_workload_release(struct bench_workload *workload);

/* An option of the table, or 'c', cells. The value is kept. false: it is not one for this option,
 * or there is no such option. */
bool bench_workload_take(struct bench_workload *workload, int letter, const char *value);

/* What a subcommand takes: BENCH_WORKLOAD_OPTIONS and its own, with help as 'h'. */
struct bench_arguments {
    const struct option *options;
    const char *help;
    /* Of each option; false: the value is not one for it. */
    bool (*take)(void *context, int letter, const char *value);
    void *context;
};

/* Gives each option to take(). false: *status is main()'s result, and the help has been printed. */
bool bench_arguments_read(int argc, char **argv, const struct bench_arguments *arguments,
                          int *status);

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

/* One device for workload->engine, which is lost when it stands still for 10 s. INVALID_ARGUMENT,
 * and cell_backend_load()'s errors. */
enum base_status bench_workload_find_device(struct bench_workload *workload,
                                            struct base_error *error);

#endif
