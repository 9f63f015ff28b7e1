/* Values of pairs of steps that follow from the steps' numbers alone, as masks do: a causal mask, a
 * band around each step. With d, the key's number less the query's, such a value is one number in
 * each of a few stretches of d; or of how far apart the chunks are, of so many steps each, that
 * both are in. Pure but for the arena. */
#ifndef CELLS_IMPORT_BAND_H
#define CELLS_IMPORT_BAND_H

#include "cells/import/graph.h"

#define CELL__BAND_BORDERS_MAX 4u

/* d is smaller: no sequence has as many steps. Stretches that have no end go to there. */
#define CELL__BAND_FAR (1 << 30)

enum cell__band_kind {
    CELL__BAND_NONE,     /* it follows from something else, or not like that */
    CELL__BAND_LINEAR,   /* of_key * key + of_query * query + add, and the same of their chunks */
    CELL__BAND_QUOTIENT, /* key / chunk or query / chunk, and a whole number */
    CELL__BAND_SIZE,     /* of_key * d + add, without its sign */
    CELL__BAND_PARTS     /* a number in each stretch */
};

struct cell__band {
    enum cell__band_kind kind;
    int32_t of_key, of_query;
    uint32_t chunk;                       /* steps of one; d is of chunks then. 0: there are none */
    int32_t of_key_chunk, of_query_chunk; /* LINEAR: of the numbers of the chunks */
    float add;
    bool has_least; /* LINEAR: it is no less than that */
    float least;
    uint32_t n;                              /* PARTS: borders; 0: a constant */
    int32_t from[CELL__BAND_BORDERS_MAX];    /* where stretches 1.. begin, the smallest first */
    float value[CELL__BAND_BORDERS_MAX + 1]; /* of stretches 0.. */
};

/* Of d of chunks, of `steps` each: those that a mask leaves; steps 0: it leaves all. */
struct cell__chunks {
    uint32_t steps;
    int32_t first, last;
};

/* Of each row up to `row`, keys being steps of sequence `over`: [row + 1], until the next call.
 * NULL where nothing is made of numbers of steps. RESOURCE_EXHAUSTED. */
enum base_status cell__bands(struct cell__import *im, uint32_t row, uint32_t over,
                             const struct cell__band **out);

#endif
