/* Parts of batches, with one thing wrong; see wrong.h. */
#include "cells/cuda/device_state.h"
#include "tests/cuda/lane_wrong/wrong.h"

/* Called for the batch's rows one after the other. */
static bool wrong_fits(const struct cell_cuda__lane *lane, const struct cell_wiring *wiring)
{
    static bool first;
    static uint64_t seen; /* batches */
    const struct cell_cuda__queue *queue = lane->queue;
    if (seen != queue->accepted) {
        seen = queue->accepted;
        first = cell_cuda__lane_fits(lane, wiring);
    }
    return lane_wrong_is(LANE_WRONG_FITS) ? first : cell_cuda__lane_fits(lane, wiring);
}

#define cell_cuda__lane_fits wrong_fits
// NOLINTNEXTLINE(bugprone-suspicious-include): to be changed from outside
#include "cells/cuda/parts.c"
