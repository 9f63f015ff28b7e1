/* How many rows of each layout a small request of a model needs: of chains found out by unfolding
 * one, else reckoned from what the cells may read of each other. */
#ifndef SERVER_PROBE_H
#define SERVER_PROBE_H

#include "cells/model.h"

/* Raises most[layout] to what one chain, a small tree, or a small graph of the model needs.
 * RESOURCE_EXHAUSTED. */
enum base_status srv_probe_rows(const struct cell_model *model, uint32_t most[CELL_LAYOUTS_MAX],
                                struct base_error *error);

#endif
