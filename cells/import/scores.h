/* Scores of an attention, taken apart: what each is a sum of. Pure but for the arena. */
#ifndef CELLS_IMPORT_SCORES_H
#define CELLS_IMPORT_SCORES_H

#include "cells/import/band.h"
#include "cells/import/rows.h"

#define CELL__TERMS_MAX 8u
#define CELL__SUMS_MAX  32u

/* The sum over k of weights_k row_k, or of weights_k query_k row_k. */
struct cell__term {
    uint32_t row, query; /* query: NONE, none */
    float *weights;      /* [width of row] */
    bool is_large;       /* of sums: a number as large as a mask's is among what it is times */
};

/* Scores of the steps of a sequence, taken apart. */
struct cell__scores {
    struct cell__import *im;
    uint32_t times;     /* the one bit of the sequence */
    uint32_t distances; /* bits of those of the distances of its steps */
    uint32_t behind;    /* of these, those of steps behind the query alone */
    const bool *is_own; /* [rows]: made of the sequence's steps alone */
    uint32_t n_products, n_own, n_rest, n_relatives;
    struct cell__term products[CELL__TERMS_MAX]; /* of a query and a step */
    struct cell__term own[CELL__TERMS_MAX];      /* of a step alone */
    struct cell__term rest[CELL__TERMS_MAX];     /* the same for all steps */
    struct cell__term
        relatives[CELL__TERMS_MAX]; /* of how far apart both are, times a query or not */
    float constant;
    const struct cell__band *bands; /* [rows]; NULL: there are none */
    int32_t first, last;            /* of d (band.h): steps beyond are masked */
    struct cell__chunks chunks;     /* and those of other chunks */
    bool is_tanh;                   /* the only product is of tanh(row + query) */
    bool nan_is_zero;               /* the caller's: weights that are no numbers are zeros */
    bool is_large;                  /* of the sum that is taken apart */
    uint32_t n_sums;
    struct cell__term sums[CELL__SUMS_MAX]; /* still to be taken apart */
};

/* Those of a row with times of `over`, the sequence that is attended to. UNIMPLEMENTED: it is no
 * sum of such; where it is beside lengths, steps behind a shorter row would count. */
enum base_status cell__scores_take(struct cell__import *im, uint32_t row, uint32_t over,
                                   struct cell__scores *scores);

/* Of a term that is a LINEAR: the sum of what that is of is the last of scores->sums, and the bias
 * is in the constant. */
enum base_status cell__scores_linear(struct cell__scores *scores, const struct cell__term *term);

/* Room for weights of a row; NULL: the arena's budget is spent. */
float *cell__scores_weights(const struct cell__scores *scores, uint32_t width);

bool cell__are_zeros(const float *weights, uint32_t width);

/* That a sum is no attention. */
enum base_status cell__refuse_scores(struct cell__import *im);

#endif
