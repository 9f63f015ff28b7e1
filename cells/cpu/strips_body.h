/* Where the weights of a panel stand: in strips (kernels.h), or in one piece. Any thread, over
 * weights that nobody writes. */
#ifndef CELLS_CPU_STRIPS_BODY_H
#define CELLS_CPU_STRIPS_BODY_H

#include "cells/cpu/update_body.h"

#ifdef CELL_SIMD_LANES

/* A weight as it is held, and how many terms of a sum it is: with bf16 one, widened to a float; or,
 * where an instruction multiplies words of two, such a word, for which a float stands. */
#    ifdef CELL_WEIGHTS_BF16
#        ifdef CELL_BF16_WORDS
typedef float weight;
#            define WEIGHT_TERMS 2u
#        else
typedef uint16_t weight;
#            define WEIGHT_TERMS 1u
#            define WEIGHT_HALVES
#        endif
#    else
typedef float weight;
#        define WEIGHT_TERMS 1u
#    endif

/* A panel of weights, from its term number `term` on. */
struct place {
    const weight *panel;
    uint32_t term, terms; /* of so many that the panel has */
};

#    define STRIPS_MAX    3u
#    define STRIP_WEIGHTS (CELL_STRIP_VECTORS * CELL_SIMD_LANES)

/* The strips of a panel of `of` vectors. */
CELL_INLINE uint32_t strips_of(const size_t of)
{
    return CELL_STRIPS && WEIGHT_TERMS == 1 && of >= (size_t)2 * CELL_STRIP_VECTORS
               ? (uint32_t)of / CELL_STRIP_VECTORS
               : 1;
}

/* Vectors of strip number s. */
CELL_INLINE size_t strip_vectors(const size_t of, const uint32_t s)
{
    const uint32_t last = strips_of(of) - 1;
    return s < last ? CELL_STRIP_VECTORS : of - (size_t)last * CELL_STRIP_VECTORS;
}

/* The strip, and the vector of it, that is vector v of a panel. */
CELL_INLINE uint32_t strip_of(const size_t of, const size_t v)
{
    const uint32_t last = strips_of(of) - 1;
    const uint32_t s = (uint32_t)v / CELL_STRIP_VECTORS;
    return s < last ? s : last;
}

CELL_INLINE size_t vector_in_strip(const size_t of, const size_t v)
{
    return v - strip_of(of, v) * (size_t)CELL_STRIP_VECTORS;
}

/* Where column `column` of a panel stands at a place, the first of a strip if there are several. */
CELL_INLINE const weight *column_at(const size_t of, const struct place *place, size_t column)
{
    const uint32_t s = strip_of(of, column / CELL_SIMD_LANES);
    const size_t wide = strip_vectors(of, s) * CELL_SIMD_LANES;
    return s == 0 ? place->panel + place->term * wide + column
                  : place->panel + place->terms * column + place->term * wide;
}

/* Vector v of the `vectors` that one term has at `from`. */
#    ifdef WEIGHT_HALVES
CELL_INLINE simd_vec load_weights(const size_t vectors, const weight *from, size_t v)
{
    const weight *pair = from + v / 2 * 2 * CELL_SIMD_LANES;
    return (v | 1) >= vectors ? simd_load_bf16(pair)
           : v % 2 == 0       ? simd_load_low_bf16(pair)
                              : simd_load_high_bf16(pair);
}
#    else
CELL_INLINE simd_vec load_weights(const size_t vectors, const weight *from, size_t v)
{
    (void)vectors;
    return simd_load(from + v * CELL_SIMD_LANES);
}
#    endif

/* Vector v of the `vectors` that one term has in its strips: all of a panel, or one strip. */
CELL_INLINE simd_vec load_from_strips(const size_t vectors, const weight *const strips[], size_t v)
{
    const uint32_t s = strip_of(vectors, v);
    return load_weights(strip_vectors(vectors, s), strips[s], vector_in_strip(vectors, v));
}

#endif
#endif
