/* Conditions on steps, and what they are made of: whether a mask that several of them make is the
 * masks of each. Pure. */
#ifndef CELLS_IMPORT_CONDITIONS_H
#define CELLS_IMPORT_CONDITIONS_H

#include "cells/import/band.h"
#include "cells/import/rows.h"

/* A row that is above 0 or not, and whether a mask goes where it is. */
struct cell__condition {
    uint32_t row;
    bool is_where;
};

/* Whether a row is 0 or 1 at each pair of steps by how it is made. bands: as cell__bands() has
 * them. */
bool cell__row_is_truth(const struct cell__import *im, const struct cell__band *bands,
                        uint32_t row);

/* Conditions of which each masks by itself, and together what this one does: of And where it does
 * not hold, of Or where it does, of Not the other way round. Returns how many; 0: it is made
 * otherwise. */
uint32_t cell__condition_parts(const struct cell__import *im, const struct cell__band *bands,
                               struct cell__condition condition, struct cell__condition out[2]);

#endif
