/* cellbatch-bench: what its subcommands share. One thread, beside the teams it starts. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "base/buf.h"
#include "base/status.h"
#include "cells/backend.h"

#include <stdbool.h>
#include <stdint.h>

/* A subcommand: gets its own name as argv[0]; returns main()'s result. A row of the table in
 * bench/main.c. */
struct bench_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; /* one line */
};

int bench_calibrate(int argc, char **argv);
int bench_cellular(int argc, char **argv);
int bench_describe(int argc, char **argv);
int bench_engine(int argc, char **argv);
int bench_kernels(int argc, char **argv);
int bench_layouts(int argc, char **argv);
int bench_own_cell(int argc, char **argv);
int bench_peak(int argc, char **argv);
int bench_policies(int argc, char **argv);
int bench_simulate(int argc, char **argv);

/* Processor, allowed CPUs, commit of the source tree ("unknown" outside of one), as one line of
 * text or as the members of a JSON object, without braces. */
void bench_host_text(struct base_buf *out);
void bench_host_json(struct base_buf *out);

/* One word of a comma-separated list, copied to out (cut at its end); returns where the rest
 * begins, or NULL when text is at its end. */
const char *bench_list_next(const char *text, char *out, size_t out_bytes);

/* A number of an option; false: not one in low..high. */
bool bench_parse_count(const char *text, uint32_t low, uint32_t high, uint32_t *out);

/* A team that a subcommand measures with, pinned from two threads on; UNAVAILABLE when it cannot be
 * started. wrk_team_free() ends it. */
enum base_status bench_team_start(uint32_t threads, struct cell_team **out,
                                  struct base_error *error);

/* What main() returns after `status`; a failure of subcommand `name` is told on standard error. */
int bench_exit_status(const char *name, enum base_status status, const struct base_error *error);

/* A clock for what `threads` threads compute, the caller being one: of the caller's CPU time where
 * it is alone, which other processes only disturb through the caches. */
uint64_t bench_cost_ns(uint32_t threads);

/* The value at `quantile` (0..1) of n numbers, which are sorted by it; n > 0. */
double bench_quantile(double *numbers, uint32_t n, double quantile);

/* ---- Peaks (bench/peak.c): fixed loops of instructions, of the calling core ------------------ */

/* 10^9 floating-point operations (a multiply-add is 2) a second. */
struct bench_burst {
    double best_gflops; /* of the best piece of about 10 us */
    double mean_gflops; /* of all of it, by the thread's CPU time */
};

/* Multiply-adds of the instruction set for about `ns` of time, of floats or, where it has an
 * instruction for them, of fewer bits; zeros when this machine lacks it. */
struct bench_burst bench_fma_burst(const char *isa, enum cell_precision precision, uint64_t ns);

/* The same of a tile as product_body.h has it, 6 rows by 4 vectors (16 registers: 2), with its
 * loads, from L1: what a product can reach, where these lower the clock. Zeros for scalar code. */
struct bench_burst bench_tile_burst(const char *isa, uint64_t ns);

/* 10^9 elements a second that an activation of a kernel table takes through L1, for about `ns`. */
double bench_activation_rate(void (*activation)(uint32_t n, const float *in, float *out),
                             uint64_t ns);

/* 10^9 bytes a second read from `bytes` of memory, again and again, for about `ns`; 0 when out of
 * memory. */
double bench_read_gbytes(size_t bytes, uint64_t ns);

/* Nanoseconds that a word takes from the first allowed CPU to the second and back, the best of some
 * milliseconds; 0 where there is only one. */
double bench_round_trip_ns(void);

#endif
