/* cellbatch-bench: finds the subcommand and runs it. */
#include "bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct bench_command commands[] = {
    {"calibrate", bench_calibrate, "what the server measures when it loads a type"},
    {"cell", bench_own_cell, "the cells of a model file, beside every op of theirs on its own"},
    {"cellular", bench_cellular, "a cell whose rows join and leave, beside whole sequences"},
    {"describe", bench_describe, "a model's graph of cells for a sample request, as text or drawn"},
    {"engine", bench_engine, "requests through scheduler and device, beside the bare kernels"},
    {"kernels", bench_kernels, "speed of the cell kernels, beside the core's peak"},
    {"layouts", bench_layouts, "products of values in rows, beside values in columns"},
    {"peak", bench_peak,
     "peaks of a core: multiply-adds, activations, reads from caches and memory"},
    {"policies", bench_policies, "cells as they come, beside padding, merging, one by one"},
    {"simulate", bench_simulate, "requests through the scheduler in virtual time"},
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *to)
{
    (void)fputs("usage: cellbatch-bench COMMAND [--help | options]\n\ncommands:\n", to);
    for (int i = 0; i < COMMANDS; i++) {
        (void)fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
    }
}

int main(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "--help") == 0) {
        print_help(stdout);
        return EXIT_SUCCESS;
    }
    for (int i = 0; i < COMMANDS && argc >= 2; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    print_help(stderr);
    return 2;
}
