/* Where Gather and Slice take what: parts of axes, and steps of sequences. Private to
 * cells/import. */
#ifndef CELLS_IMPORT_SELECT_H
#define CELLS_IMPORT_SELECT_H

#include "cells/import/graph.h"

/* The border of a part of an axis of unknown size: elements from its beginning, or from its end on.
 */
struct cell__border {
    bool is_from_end;
    int64_t at;
};

/* The border that a bound of the axis says; false: neither by a number. */
bool cell__find_border(struct cell__import *im, const struct cell__sym *bound,
                       const struct cell__sym *size, struct cell__border *out);

/* Whether it is near enough for a step to be taken by its number. */
bool cell__is_numbered(const struct cell__border *border);

/* Steps of a time axis: `count` from number `first` on; of an axis of unknown size one, from the
 * end on below 0. */
struct cell__taken {
    int64_t first, count;
    bool is_first, is_last;
};

/* data's row at the one step of its axis k, or at each of them, whose axis is `left`. */
enum base_status cell__take_steps(struct cell__import *im, const struct cell__value *data,
                                  uint32_t k, const struct cell__taken *taken,
                                  const struct cell__axis *left, uint32_t *row);

#endif
