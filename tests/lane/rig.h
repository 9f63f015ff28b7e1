/* A lane's memory for the tests. */
#ifndef TESTS_LANE_RIG_H
#define TESTS_LANE_RIG_H

#include "cells/lane/host.h"

/* Zeroed; aborts when out of memory. Ended with lane_rig_release(). */
void lane_rig_init(struct cell_lane *lane, uint32_t n_slots, uint32_t rows_max,
                   enum cell_lane_form form);
void lane_rig_release(struct cell_lane *lane);

#endif
