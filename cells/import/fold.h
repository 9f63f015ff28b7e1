/* Folding: operators over constants. Private to the op_*.c files. */
#ifndef CELLS_IMPORT_FOLD_H
#define CELLS_IMPORT_FOLD_H

#include "cells/import/graph.h"

/* How each axis of a result walks through a constant: element (i0, i1, ..) of the result is element
 * start + i0 * strides[0] + ... of the constant. */
struct cell__view {
    uint32_t rank;
    int64_t dims[CELL_RANK_MAX];
    int64_t strides[CELL_RANK_MAX];
    int64_t start;
};

/* The whole constant as it lies. */
struct cell__view cell__view_of(const struct cell__tensor *tensor);

/* Copies the elements (symbols too) that the view names. */
enum base_status cell__fold_view(struct cell__import *im, const struct cell__tensor *in,
                                 const struct cell__view *view, struct cell__tensor *out);

/* The same elements under another shape; nothing is copied. */
enum base_status cell__fold_reshape(struct cell__import *im, const struct cell__tensor *in,
                                    uint32_t rank, const int64_t *dims, struct cell__tensor *out);

/* Constants behind each other on an axis. */
enum base_status cell__fold_concat(struct cell__import *im, const struct cell__tensor *const *in,
                                   uint32_t n, uint32_t axis, struct cell__tensor *out);

/* data[indices] on an axis. */
enum base_status cell__fold_gather(struct cell__import *im, const struct cell__tensor *data,
                                   const struct cell__tensor *indices, uint32_t axis,
                                   struct cell__tensor *out);

/* op: + - * / on numbers, = for Equal (result bool). ONNX broadcasting. */
enum base_status cell__fold_binary(struct cell__import *im, char op, const struct cell__tensor *a,
                                   const struct cell__tensor *b, struct cell__tensor *out);
enum base_status cell__fold_where(struct cell__import *im, const struct cell__tensor *condition,
                                  const struct cell__tensor *a, const struct cell__tensor *b,
                                  struct cell__tensor *out);
enum base_status cell__fold_cast(struct cell__import *im, const struct cell__tensor *in,
                                 enum cell__dtype dtype, struct cell__tensor *out);

/* Of floats (fold_floats.c): a function of each element and of what it is computed with; a softmax
 * or its logarithm along an axis; the elements of each place that is left when the axes of the mask
 * are taken away, one after the other from `start` on, and what of them and their number is the
 * result; a matrix times another. */
struct cell__function {
    double (*compute)(double x, const void *with);
    const void *with;
};
struct cell__reduction {
    double start;
    double (*add)(double sum, double x);
    double (*end)(double sum, double n);
};
enum base_status cell__fold_each(struct cell__import *im, const struct cell__tensor *in,
                                 const struct cell__function *function, struct cell__tensor *out);
enum base_status cell__fold_softmax(struct cell__import *im, const struct cell__tensor *in,
                                    uint32_t axis, bool is_log, struct cell__tensor *out);
enum base_status cell__fold_reduce(struct cell__import *im, const struct cell__tensor *in,
                                   uint32_t mask, bool keeps,
                                   const struct cell__reduction *reduction,
                                   struct cell__tensor *out);
enum base_status cell__fold_product(struct cell__import *im, const struct cell__tensor *a,
                                    const struct cell__tensor *b, struct cell__tensor *out);

/* Dims of two shapes broadcast against each other. */
enum base_status cell__broadcast(struct cell__import *im, const struct cell__view *a,
                                 const struct cell__view *b, uint32_t *rank, int64_t *dims);
/* The view stretched to these dims. */
struct cell__view cell__view_broadcast(const struct cell__view *view, uint32_t rank,
                                       const int64_t *dims);

#endif
