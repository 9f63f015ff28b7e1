/* How many rows a batch of a type may have. Pure. Any thread. */
#ifndef SERVER_BATCH_ROWS_H
#define SERVER_BATCH_ROWS_H

#include "cells/backend.h"

/* Unless the user says otherwise. */
#define SRV_BATCH_ROWS 64u

/* recurs: its cells may have to wait for others of it; the device's knee is for these, since what
 * else is ready is done soonest at once. Of the others, steps of a convolution over samples may be
 * next to nothing: where the device takes them as spans a batch has as many more as take some 50 us
 * of each thread, which is less than 64 rows of most cells with states do. most: what the user
 * says; who asks for fewer than is usual has these. 1..CELL_BATCH_ROWS_MAX. */
uint32_t srv_batch_rows(const struct cell_type *type, bool recurs, uint32_t knee_rows,
                        const struct cell_device_caps *caps, uint32_t team_threads, uint32_t most);

#endif
