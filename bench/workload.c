/* Models, lengths and devices as the command line has them. */
#include "bench/workload.h"

#include "base/clock.h"
#include "bench/bench.h"
#include "bench/cells_file.h"
#include "bench/lstm_model.h"
#include "bench/seq2seq_model.h"
#include "bench/tree_model.h"
#include "cells/backend_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define WATCHDOG_NS (10 * BASE_NS_PER_S)

void bench_workload_init(struct bench_workload *workload)
{
    *workload = (struct bench_workload){
        .lstm = "256x256", .spec = "fixed:24", .answers_spec = "fixed:24", .device = "cpu"};
    srv_engine_options_init(&workload->engine);
}

void bench_workload_release(struct bench_workload *workload)
{
    lg_lengths_release(&workload->lengths);
    lg_lengths_release(&workload->answers);
    bench_shapes_release(&workload->shapes);
}

/* Where an option that is a text goes; NULL: to none. */
static const char **text_of(struct bench_workload *workload, int letter)
{
    switch (letter) {
    case 'm':
        return &workload->model;
    case 'c':
        return &workload->cells;
    case 's':
        return &workload->lstm;
    case 'x':
        return &workload->tree;
    case 'q':
        return &workload->seq2seq;
    case 'l':
        return &workload->spec;
    case 'A':
        return &workload->answers_spec;
    case 'b':
        return &workload->device;
    case 'i':
        return &workload->engine.isa;
    default:
        return NULL;
    }
}

bool bench_workload_take(struct bench_workload *workload, int letter, const char *value)
{
    const char **text = text_of(workload, letter);
    char *end = NULL;
    switch (letter) {
    case 'j':
        workload->is_json = true;
        return true;
    case 't':
        return bench_parse_count(value, 1, 1024, &workload->engine.team_threads);
    case 'r':
        return bench_parse_count(value, 1, CELL_BATCH_ROWS_MAX, &workload->engine.batch_rows_max);
    case 'R':
        return bench_parse_count(value, 1, BENCH_ROUNDS_MAX, &workload->rounds);
    case 'S':
        workload->seconds = strtod(value, &end);
        return *end == '\0' && workload->seconds > 0 && workload->seconds < 1e5;
    default:
        if (text != NULL) {
            *text = value;
        }
        return text != NULL;
    }
}

bool bench_arguments_read(int argc, char **argv, const struct bench_arguments *arguments,
                          int *status)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread runs yet
    for (int o = 0; (o = getopt_long(argc, argv, "", arguments->options, NULL)) != -1;) {
        if (o == 'h') {
            (void)puts(arguments->help);
            *status = EXIT_SUCCESS;
            return false;
        }
        if (o == '?' || !arguments->take(arguments->context, o, optarg)) {
            (void)fprintf(stderr, "%s\n", arguments->help);
            *status = 2;
            return false;
        }
    }
    return true;
}

const char *bench_workload_name(const struct bench_workload *workload)
{
    return workload->model != NULL     ? workload->model
           : workload->cells != NULL   ? workload->cells
           : workload->seq2seq != NULL ? workload->seq2seq
           : workload->tree != NULL    ? workload->tree
                                       : workload->lstm;
}

enum base_status bench_workload_read(struct bench_workload *workload, uint64_t seed,
                                     struct base_error *error)
{
    static const char trees[] = "trees:";
    const char *spec = workload->spec;
    const bool has_trees = strncmp(spec, trees, sizeof(trees) - 1) == 0;
    if (has_trees != (workload->tree != NULL)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "--tree goes with --lengths trees:FILE");
    }
    // Of another seed: of two specs that draw, the long requests' answers are not the long ones.
    BASE_TRY(lg_lengths_create(workload->answers_spec, seed + 1, &workload->answers, error));
    return has_trees ? bench_shapes_read(spec + sizeof(trees) - 1, &workload->shapes, error)
                     : lg_lengths_create(spec, seed, &workload->lengths, error);
}

/* A file, or a model's folder in a repository: the file of its version 1. */
static enum base_status load_file(const char *model, struct cell_registry *registry,
                                  struct cell_model **out, struct base_error *error)
{
    char path[4096];
    struct stat info;
    const bool is_folder = stat(model, &info) == 0 && S_ISDIR(info.st_mode);
    (void)snprintf(path, sizeof(path), "%s%s", model, is_folder ? "/1/model.onnx" : "");
    return cell_model_load(registry, path, "bench", NULL, out, error);
}

enum base_status bench_workload_load(const struct bench_workload *workload,
                                     struct cell_registry *registry, struct cell_model **out,
                                     struct base_error *error)
{
    if (workload->model != NULL) {
        return load_file(workload->model, registry, out, error);
    }
    if (workload->cells != NULL) {
        return bench_cells_read(registry, workload->cells, out, error);
    }
    const char *size = bench_workload_name(workload);
    uint32_t inputs = 0;
    uint32_t hidden = 0;
    char rest = 0;
    // NOLINTNEXTLINE(cert-err34-c): ranges are checked below
    if (sscanf(size, "%ux%u%c", &inputs, &hidden, &rest) != 2 || inputs == 0 || hidden == 0 ||
        inputs > CELL_WIDTH_MAX || hidden > CELL_WIDTH_MAX / 8) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: want %sxUNITS", size,
                         workload->seq2seq != NULL ? "WORDS" : "INPUTS");
    }
    if (workload->seq2seq != NULL) {
        return bench_seq2seq_model(registry, inputs, hidden, workload->answers.max, out, error);
    }
    return workload->tree != NULL ? bench_tree_model(registry, inputs, hidden, out, error)
                                  : bench_lstm_model(registry, inputs, hidden, out, error);
}

uint32_t bench_workload_rows(const struct bench_workload *workload, uint32_t present)
{
    return present * (1 + workload->shapes.leaves_max / 8);
}

enum base_status bench_workload_find_device(struct bench_workload *workload,
                                            struct base_error *error)
{
    const char *text = workload->device;
    struct srv_engine_options *out = &workload->engine;
    char name[32] = "";
    char rest = 0;
    // NOLINTNEXTLINE(cert-err34-c): the range is checked below
    const int n = sscanf(text, "%31[^:]:%2u%c", name, &out->cards[0], &rest);
    const bool has_colon = strchr(text, ':') != NULL;
    if (n != (has_colon ? 2 : 1)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "device '%s': want NAME or NAME:CARD", text);
    }
    BASE_TRY(cell_backend_load(name, &out->backend, error));
    if (has_colon && !out->backend->is_numbered) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "device '%s' has no numbers", name);
    }
    out->watchdog_ns = WATCHDOG_NS;
    return BASE_OK;
}
