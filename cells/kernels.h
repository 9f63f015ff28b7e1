/* Kernels: one table per instruction set or library, with one contract.
 *
 * The bits of a result are defined by cells/ref/ and by this order: an accumulator starts from the
 * bias, then takes one fused multiply-add per term, first the terms of x with k = 0..inputs-1,
 * then those of h with k = 0..hidden-1; activations are the fixed operation sequences of
 * cells/ref/math.c. Every table with `invariant` set gives exactly those bits, for any number and
 * order of rows and any share of the panels. A NaN that leaves a kernel is always CELL_NAN_BITS.
 *
 * Work is shared out in *panels*: groups of hidden units (LSTM) or of columns (LINEAR) whose
 * weights lie together. Any panel of any rows may be computed by any thread.
 *
 * Tables are constant; *_load allocates, the rest neither allocates nor fails. */
#ifndef CELLS_KERNELS_H
#define CELLS_KERNELS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CELL_NAN_BITS 0x7FC00000u

/* Rows that kernels write, and the c they read, start on a cache line and have room up to the next
 * one, so that whole vectors may be loaded and stored: CELL_ROW_FLOATS(width) floats. What stands
 * past the width is unspecified. Rows of x and h are read within their width only. */
#define CELL_ROW_LINE          16u
#define CELL_ROW_FLOATS(width) (((width) + CELL_ROW_LINE - 1) / CELL_ROW_LINE * CELL_ROW_LINE)

/* A loaded LSTM. The caller fills the first block, lstm_load() the second. */
struct cell_lstm {
    uint32_t inputs, hidden;
    const float *w; /* [4 * hidden, inputs], gates i, o, f, c; outlives the load */
    const float *r; /* [4 * hidden, hidden] */
    const float *b; /* [8 * hidden] or NULL */

    uint32_t panels;
    float *bias;   /* input + recurrent bias, rounded once; order is the kernel's */
    float *packed; /* weights in the kernel's order; NULL when it reads w and r */
};

/* One step of n_rows rows, for panels first..end-1. No c_out or h_out row may overlap an x or h
 * row; c_out[r] == c[r] is allowed. */
struct cell_lstm_step {
    const struct cell_lstm *lstm;
    uint32_t n_rows;
    uint32_t panel_first, panel_end;
    const float *const *x; /* [n_rows] -> [inputs] */
    const float *const *h; /* [n_rows] -> [hidden] */
    const float *const *c; /* [n_rows] -> [CELL_ROW_FLOATS(hidden)] */
    float *const *h_out;   /* [n_rows] -> [CELL_ROW_FLOATS(hidden)] */
    float *const *c_out;
    float *scratch; /* scratch_floats() of it, this thread's, on a cache line */
    /* Takes the panels from the last to the first. A caller that alternates finds the weights used
     * last still in the core's cache; the bits do not change. */
    bool backwards;
    /* For measurements: leaves out what follows the products; then no row is written. */
    bool products_only;
};

/* A loaded LINEAR, likewise. */
struct cell_linear {
    uint32_t inputs, outputs;
    const float *w; /* [inputs, outputs] */
    const float *b; /* [outputs] or NULL */

    uint32_t panels;
    float *bias;
    float *packed;
};

struct cell_linear_rows {
    const struct cell_linear *linear;
    uint32_t n_rows;
    uint32_t panel_first, panel_end;
    const float *const *x; /* [n_rows] -> [inputs] */
    float *const *out;     /* [n_rows] -> [CELL_ROW_FLOATS(outputs)] */
    float *scratch;
};

struct cell_kernels {
    const char *name; /* "scalar", "avx2", "avx512", "blas" */
    bool invariant;

    /* RESOURCE_EXHAUSTED when out of memory. Undone with cell_lstm_release(). */
    enum base_status (*lstm_load)(struct cell_lstm *lstm);
    void (*lstm_step)(const struct cell_lstm_step *step);
    enum base_status (*linear_load)(struct cell_linear *linear);
    void (*linear_rows)(const struct cell_linear_rows *rows);

    /* Floats of scratch a thread needs for steps of up to rows_max rows: inputs and outputs of a
     * LINEAR, or inputs + hidden and 4 * hidden of an LSTM. May be 0. */
    size_t (*scratch_floats)(uint32_t inputs, uint32_t outputs, uint32_t rows_max);

    /* Element by element; in == out is allowed. softmax: over the n elements, one group. */
    void (*sigmoid)(uint32_t n, const float *in, float *out);
    void (*tanh)(uint32_t n, const float *in, float *out);
    void (*softmax)(uint32_t n, const float *in, float *out);
};

void cell_lstm_release(struct cell_lstm *lstm);
void cell_linear_release(struct cell_linear *linear);

/* Packing for kernels whose panels hold `units` hidden units or `columns` columns: the last panel
 * is filled up with zeros.
 *   LSTM    packed [panel][k < inputs + hidden][gate i, o, f, c][unit], bias [panel][gate][unit]
 *   LINEAR  packed [panel][k < inputs][column],                        bias [panel][column] */
enum base_status cell_lstm_pack(struct cell_lstm *lstm, uint32_t units);
enum base_status cell_linear_pack(struct cell_linear *linear, uint32_t columns);

extern const struct cell_kernels cell_kernels__scalar;
#ifdef __x86_64__
extern const struct cell_kernels cell_kernels__avx2;
extern const struct cell_kernels cell_kernels__avx512;
#endif

/* isa: "auto" (or NULL) the best this machine has, "scalar", "avx2", "avx512". INVALID_ARGUMENT for
 * another word, UNAVAILABLE when the machine lacks it. */
enum base_status cell_kernels_choose(const char *isa, const struct cell_kernels **out,
                                     struct base_error *error);

#endif
