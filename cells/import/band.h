/* Values of pairs of steps that follow from the steps' numbers alone, as masks do: a causal mask, a
 * band around each step. With d, the key's number less the query's, such a value is one number in
 * each of a few stretches of d. Pure but for the arena. */
#ifndef CELLS_IMPORT_BAND_H
#define CELLS_IMPORT_BAND_H

#include "cells/import/graph.h"

#define CELL__BAND_BORDERS_MAX 4u

/* d is smaller: no sequence has as many steps. Stretches that have no end go to there. */
#define CELL__BAND_FAR (1 << 30)

enum cell__band_kind {
    CELL__BAND_NONE,   /* it follows from something else, or not like that */
    CELL__BAND_LINEAR, /* of_key * key + of_query * query + add */
    CELL__BAND_SIZE,   /* of_key * d + add, without its sign */
    CELL__BAND_PARTS   /* a number in each stretch */
};

struct cell__band {
    enum cell__band_kind kind;
    int32_t of_key, of_query;
    float add;
    uint32_t n;                              /* PARTS: borders; 0: a constant */
    int32_t from[CELL__BAND_BORDERS_MAX];    /* where stretches 1.. begin, the smallest first */
    float value[CELL__BAND_BORDERS_MAX + 1]; /* of stretches 0.. */
};

/* Of each row up to `row`, keys being steps of sequence `over`: [row + 1], until the next call.
 * NULL where nothing is made of numbers of steps. RESOURCE_EXHAUSTED. */
enum base_status cell__bands(struct cell__import *im, uint32_t row, uint32_t over,
                             const struct cell__band **out);

#endif
