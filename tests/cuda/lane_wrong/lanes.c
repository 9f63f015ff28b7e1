/* Lanes' life, with one thing wrong; see wrong.h. */
#include "cells/cuda/device_state.h"
#include "tests/cuda/lane_wrong/wrong.h"

static uint64_t wrong_next(struct cell_lane_host *host)
{
    if (lane_wrong_is(LANE_WRONG_EARLY) && host->settled < host->submitted) {
        host->completed = host->settled + 1;
    }
    return cell_lane_host_next(host);
}

static void wrong_take(struct cell_cuda__lane *lane, uint64_t seq, bool has_died)
{
    cell_cuda__lane_take(lane, seq, has_died && !lane_wrong_is(LANE_WRONG_DIED));
}

static void right_lanes_park(struct cell_device *device);

#define cell_lane_host_next   wrong_next
#define cell_cuda__lane_take  wrong_take
#define cell_cuda__lanes_park right_lanes_park
// NOLINTNEXTLINE(bugprone-suspicious-include): to be changed from outside
#include "cells/cuda/lanes.c"
#undef cell_cuda__lanes_park

void cell_cuda__lanes_park(struct cell_device *device)
{
    if (!lane_wrong_is(LANE_WRONG_PARK)) {
        right_lanes_park(device);
    }
}
