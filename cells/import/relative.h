/* Values of pairs of steps that follow from how far apart these are, whatever else they hold:
 * biases by distance (Press, Smith, Lewis, ICLR 2022; Raffel et al., JMLR 2020), embeddings of
 * relative positions (Shaw, Uszkoreit, Vaswani, NAACL 2018). Where a row is made of numbers of
 * steps and of constants alone, it is computed once for each distance, when the model is loaded. */
#ifndef CELLS_IMPORT_RELATIVE_H
#define CELLS_IMPORT_RELATIVE_H

#include "cells/import/graph.h"

/* Steps of a sequence whose distances are computed, at most; fewer of wide rows. */
#define CELL__RELATIVE_STEPS 8192

/* Rows of distances, the key's number less the query's, from `first` up to `last`. Where
 * is_same[0] the first is the row of all below, too, and where is_same[1] the last of all above. */
struct cell__relative {
    int32_t first, last; /* first <= 0 <= last */
    uint32_t width;
    bool is_same[2];
    const float *rows; /* [last - first + 1][width] */
};

/* Whether what this op makes of numbers of steps can be computed here. */
bool cell__is_computed_of_numbers(const struct cell_op *op);

/* The row at a distance, or the nearest that there is. */
const float *cell__relative_at(const struct cell__relative *relative, int32_t d);

/* Of a row of numbers of steps, with times of two sequences, `over` that of the keys. UNIMPLEMENTED
 * where it follows from more than the distance. Tables that are looked up may end before: then
 * there are as many distances. Kept for who asks again. RESOURCE_EXHAUSTED. */
enum base_status cell__relative(struct cell__import *im, uint32_t row, uint32_t over,
                                const struct cell__relative **out);

#endif
