/* Compiled by tests/lane/test_contract.sh, never run: the contract's functions as a kernel's
 * dispatcher and a host in CUDA C++ call them. */
#include "cells/lane/contract.h"
#include "cells/lane/rows.h"

__global__ void dispatch(struct cell_lane lane, struct cell_lane_launch launch,
                         struct cell_lane_rows rows, float *memory)
{
    struct cell_lane_task task;
    uint64_t beats = 0;
    uint64_t seq = launch.first;
    while (!cell_lane_is_aborted(&lane, launch.number)) {
        cell_lane_beat(&lane, ++beats);
        if (!cell_lane_take(&lane, seq, &task)) {
            continue;
        }
        if (task.op == CELL_LANE_EXIT) {
            break;
        }
        if (!cell_lane_has_attention(&lane)) {
            memory[cell_lane_rows_at(&rows, task.rows[0], 0, 1) / sizeof(*memory)] = 1.0f;
        }
        lane.results[cell_lane_index(&lane, seq)].status = 0;
        cell_lane_complete(&lane, seq++);
    }
    cell_lane_end(&lane, launch.number, CELL_LANE_END_EXITED);
}

uint64_t submit(const struct cell_lane *lane, const struct cell_lane_task *task)
{
    cell_lane_publish(lane, 1, task);
    cell_lane_attend(lane, 1);
    cell_lane_abort(lane, 1);
    return cell_lane_ended(lane, 1) + cell_lane_heartbeat(lane) + cell_lane_completed(lane);
}
