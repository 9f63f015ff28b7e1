/* Blocks of random tensor values. */
#ifndef LOADGEN_VALUES_H
#define LOADGEN_VALUES_H

#include "base/random.h"
#include "loadgen/model.h"

#include <stddef.h>
#include <stdint.h>

/* Fills bytes (a multiple of the element size) with little-endian elements: integers from 0..vocab
 * cut to the type's own range, floats from [-1, 1), halves and brain floats from +-[0.5, 1). */
void lg_values_fill(const struct lg_datatype *datatype, uint64_t vocab, struct base_random *random,
                    uint8_t *out, size_t bytes);

#endif
