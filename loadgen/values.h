/* Blocks of random tensor values. */
#ifndef LOADGEN_VALUES_H
#define LOADGEN_VALUES_H

#include "base/random.h"
#include "loadgen/model.h"

#include <stddef.h>
#include <stdint.h>

/* Integers from least to most; least <= most. */
struct lg_range {
    int64_t least, most;
};

/* Fills bytes (a multiple of the element size) with little-endian elements: integers of the range
 * (needed) cut to the type's own, floats likewise where there is one (ids as floats), else from
 * [-1, 1), halves and brain floats from +-[0.5, 1). */
void lg_values_fill(const struct lg_datatype *datatype, const struct lg_range *range,
                    struct base_random *random, uint8_t *out, size_t bytes);

#endif
