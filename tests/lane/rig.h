/* A lane's memory for the tests. */
#ifndef TESTS_LANE_RIG_H
#define TESTS_LANE_RIG_H

#include "cells/lane/host.h"

/* Zeroed; false when out of memory. Ended with lane_rig_release() in any case. */
bool lane_rig_init(struct cell_lane *lane, uint32_t n_slots, uint32_t rows_max,
                   enum cell_lane_form form) __attribute__((warn_unused_result));
void lane_rig_release(struct cell_lane *lane);

#endif
