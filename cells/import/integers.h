/* Integers that PaddlePaddle computes in a roundabout way, written out as sums and Ranges, and
 * casts. */
#ifndef CELLS_IMPORT_INTEGERS_H
#define CELLS_IMPORT_INTEGERS_H

#include "cells/import/writer.h"

/* As the rules of write_out.c: a Cast of a constant that is repeated, the CumSum
 * of ones, and a Sub of ones from it. */
enum base_status cell__write_integer(struct cell__writer *w);
enum base_status cell__write_count_up(struct cell__writer *w);
enum base_status cell__write_count_from_zero(struct cell__writer *w);
/* Of JAX: a CastLike. */
enum base_status cell__write_cast_like(struct cell__writer *w);

#endif
