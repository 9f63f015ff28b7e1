/* Making the program of a type: where each value's matrix stands, and which kernels compute it.
 * Shared by plan.c, plan_cells.c and plan_ops.c; on the stack of who loads. */
#ifndef CELLS_CUDA_PLAN_H
#define CELLS_CUDA_PLAN_H

#include "cells/cuda/device_state.h"

/* A product's factor as it is multiplied: more than so many are rounded anew for each product. */
#define CELL_CUDA__ROUNDED 16u
struct cell_cuda__rounded {
    struct cell_step_place from, to;
    uint32_t width;
    enum cell_products products;
};

/* A program is made several times by the same code: first to learn how much memory it takes, then
 * for each queue at its addresses. Weights are written the second time. */
struct cell_cuda__plan {
    struct cell_device *device;
    const struct cell_def *def;
    cell_step_address block, weights; /* 0: only counted */
    size_t block_at, weights_at;      /* taken so far */
    bool writes_weights;
    struct cell_step_place places[CELL_VALUES_MAX];
    bool is_placed[CELL_VALUES_MAX];
    bool is_view[CELL_VALUES_MAX]; /* a part of another's matrix, or a constant */
    uint32_t n_rounded;
    struct cell_cuda__rounded rounded[CELL_CUDA__ROUNDED];
    struct cell_cuda__program *program;
    enum base_status status; /* the first that failed */
    struct base_error *error;
};

/* Matrices for CELL_STEP_ROWS_MAX rows of so many bytes. */
struct cell_step_place cell_cuda__matrix(struct cell_cuda__plan *plan, size_t bytes);

/* Columns of a matrix from byte `at` on. */
static inline struct cell_step_place cell_cuda__columns(struct cell_step_place place, size_t at)
{
    place.at += at;
    return place;
}

/* The value's, placed now if it has none yet. */
struct cell_step_place cell_cuda__place(struct cell_cuda__plan *plan, uint32_t value);

/* Appends an op that has items_row items for each row; its step is filled in through what is
 * returned, until the next is added. Never NULL: after a failure it is one that is not kept. */
struct cell_step *cell_cuda__add(struct cell_cuda__plan *plan, enum cell_step_kernel kernel,
                                 uint32_t items_row, const char *about);

/* Memory for n weights: to be filled and given back with cell_cuda__weights_end(), or NULL when
 * they are only counted. *at is where they will stand. */
float *cell_cuda__weights_begin(struct cell_cuda__plan *plan, size_t n, cell_step_address *at);
void cell_cuda__weights_end(struct cell_cuda__plan *plan, float *weights, size_t n,
                            cell_step_address at);

/* A weight's words of 32 bits, as they stand in the definition. */
cell_step_address cell_cuda__weight(struct cell_cuda__plan *plan, const struct cell_weight *weight);

static inline uint32_t cell_cuda__words(const struct cell_value *value)
{
    return cell_cuda__bytes(value) / (uint32_t)sizeof(uint32_t);
}

/* ---- plan_ops.c ---- */

/* The element-wise ops from `first` on, as many as stand together and have one width. Returns the
 * op behind them. */
uint32_t cell_cuda__plan_chain(struct cell_cuda__plan *plan, uint32_t first);

void cell_cuda__plan_lookup(struct cell_cuda__plan *plan, const struct cell_op *op);
void cell_cuda__plan_softmax(struct cell_cuda__plan *plan, const struct cell_op *op);
void cell_cuda__plan_attend(struct cell_cuda__plan *plan, const struct cell_op *op,
                            const struct cell_step_batch *batch);
void cell_cuda__plan_pick(struct cell_cuda__plan *plan, const struct cell_op *op,
                          const struct cell_step_batch *batch);
void cell_cuda__plan_reduce(struct cell_cuda__plan *plan, const struct cell_op *op,
                            const struct cell_step_batch *batch);

/* Of an op that has one. */
struct cell_step_picture cell_cuda__picture(const struct cell_cuda__plan *plan,
                                            const struct cell_op *op);

/* SUM, MEAN, ARGMAX, TOP, TAKE, FILTER, TRANSPOSE, SPREAD, CAST. */
void cell_cuda__plan_rowwise(struct cell_cuda__plan *plan, const struct cell_op *op);

/* ---- plan_search.c ---- */

/* Whether a beam search could run it: logits, and a token that is fed back. */
bool cell_cuda__may_search(const struct cell_def *def);

/* What is left of a step of a batch with searches, between its ops and STORE. */
void cell_cuda__plan_searches(struct cell_cuda__plan *plan, const struct cell_step_batch *batch);

/* ---- plan_products.c ---- */

/* Room for a product's weights [inputs][outputs], to be filled and handed to
 * cell_cuda__plan_product(); NULL while they are only counted. */
float *cell_cuda__factors_begin(struct cell_cuda__plan *plan, uint32_t inputs, uint32_t outputs);

/* Appends a product: a's first `inputs` columns, floats whose ops stand already, times the weights,
 * which are given back; both rounded as the definition says. What else it has (start, bias, out) is
 * filled in through what is returned, until the next is added. */
struct cell_cuda__factors {
    struct cell_step_place a;
    float *weights;
    uint32_t inputs, outputs;
    enum cell_products products; /* what they are rounded to */
    const char *about;
    /* Of another product of the program whose weights these are; then `weights` is NULL, and the
     * product is our own kernel's, as that one must be. NULL: none. */
    const struct cell_step_product *same;
};
struct cell_step_product *cell_cuda__plan_product(struct cell_cuda__plan *plan,
                                                  const struct cell_cuda__factors *factors);

/* The library learns the shapes of the program's products, chooses the order of their weights, and
 * may leave some to our own kernel. Those of the type's first queue, whose choice, `first`, the
 * others take over: weights are shared. first: NULL for that one. */
enum base_status cell_cuda__products_prepare(struct cell_device *device,
                                             const struct cell_cuda__program *first,
                                             struct cell_cuda__program *program,
                                             struct base_error *error);

/* ---- plan_cells.c ---- */

/* Tries to place what a gated op's sums go over side by side, so that one product has all. */
void cell_cuda__join(struct cell_cuda__plan *plan, const struct cell_op *op);

/* The kernels of a gated op, or of a LINEAR. */
void cell_cuda__plan_gated(struct cell_cuda__plan *plan, const struct cell_op *op);
void cell_cuda__plan_linear(struct cell_cuda__plan *plan, const struct cell_op *op);

#endif
