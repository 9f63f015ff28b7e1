/* What is measured: a kind of recurrent cell over a shape, with its weights and rows. `treelstm` is
 * the binary cell without x of a tree that leans to one side: at each step x is the left child's h
 * and c, and as wide as the units, and the right child is the step before.
 *
 * Weights stand as in ONNX: W [gates * hidden, inputs], R [gates * hidden, hidden],
 * B [2 * gates * hidden] (input biases, then recurrent ones), gates in ONNX's order. Rows stand
 * step by step: x [steps, rows, inputs], y [steps, rows, hidden]. */
#ifndef BENCH_CELL_H
#define BENCH_CELL_H

#include "cells/def.h"
#include "cells/kernels.h"

#include <stdbool.h>
#include <stddef.h>

/* A kind: a row of the table in cell.c. */
struct bench_cell {
    const char *name; /* "lstm" */
    enum cell_op_kind op;
    uint32_t variant;           /* of the op */
    enum cell_gated_kind gated; /* the kernel that computes it */
    uint32_t states;
    uint32_t sigmoids, tanhs; /* of one unit in one step */
};

/* Whether x is a child: W is then read at every step. */
bool bench_cell_is_tree(const struct bench_cell *cell);

/* NOT_FOUND for another word. */
enum base_status bench_cell_find(const char *name, const struct bench_cell **out,
                                 struct base_error *error);

struct bench_shape {
    uint32_t inputs, hidden, rows, steps;
};

#define BENCH_SHAPES_MAX 64u

/* A list with commas between: INPUTxHIDDENxROWSxSTEPS, or `deepcpu` for the 15 of table 1 of
 * DeepCPU (USENIX ATC 2018). INVALID_ARGUMENT names the word that is neither, or says that there
 * are too many. */
enum base_status bench_shapes_parse(const char *list, struct bench_shape out[BENCH_SHAPES_MAX],
                                    uint32_t *n, struct base_error *error);

/* Of the products of all steps, a multiply-add being 2. */
double bench_flops(const struct bench_cell *cell, const struct bench_shape *shape);

enum bench_tensor { BENCH_W, BENCH_R, BENCH_B, BENCH_X, BENCH_Y, BENCH_TENSORS };

/* "w", "r", "b", "x", "y"; how many floats it has. */
const char *bench_tensor_name(enum bench_tensor tensor);
size_t bench_tensor_floats(const struct bench_cell *cell, const struct bench_shape *shape,
                           enum bench_tensor tensor);

/* The tensors of one cell, or NULL where there is none. Begins as {0}, ends with _release(). */
struct bench_data {
    float *tensors[BENCH_TENSORS];
};

/* Zeros. RESOURCE_EXHAUSTED names the tensor. */
enum base_status bench_data_add(struct bench_data *data, const struct bench_cell *cell,
                                const struct bench_shape *shape, enum bench_tensor tensor,
                                struct base_error *error);
/* All tensors: weights within 1/sqrt(hidden), x within 1, y zeros. Always the same for a shape. */
enum base_status bench_data_random(struct bench_data *data, const struct bench_cell *cell,
                                   const struct bench_shape *shape, uint64_t seed,
                                   struct base_error *error);
void bench_data_release(struct bench_data *data);

/* The kind as one op: input x; the states, of which h is the first; output h'. The definition
 * points into data's weights. */
void bench_cell_def(const struct bench_cell *cell, const struct bench_shape *shape,
                    const struct bench_data *data, struct cell_def *out);

#endif
