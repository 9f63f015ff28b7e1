/* The loop of one launch; see loop.h. The model checker's lane (tests/lane/model_lane.c) does the
 * same accesses in the same order, which test_lane compares. */
#include "tests/lane/loop.h"

void lane_loop_beat(struct lane_loop *loop)
{
    cell_lane_beat(loop->lane, ++loop->beats);
}

bool lane_loop_is_aborted(const struct lane_loop *loop)
{
    return cell_lane_is_aborted(loop->lane, loop->launch.number);
}

static void wake(struct lane_loop *loop)
{
    if (loop->has_moved != NULL) {
        loop->has_moved(loop);
    }
}

/* One turn; why the launch ends, or 0. */
static uint32_t turn(struct lane_loop *loop, uint64_t seq, bool *did_take)
{
    struct cell_lane_task task;
    lane_loop_beat(loop);
    if (lane_loop_is_aborted(loop)) {
        return CELL_LANE_END_ABORTED;
    }
    *did_take = cell_lane_take(loop->lane, seq, &task);
    if (!*did_take) {
        return loop->is_idle_over(loop) ? CELL_LANE_END_PARKED : 0;
    }
    uint32_t end = loop->run(loop, seq, &task);
    if (end != 0) {
        return end;
    }
    cell_lane_complete(loop->lane, seq);
    wake(loop);
    if (task.op == CELL_LANE_PARK) {
        return CELL_LANE_END_PARKED;
    }
    return task.op == CELL_LANE_EXIT ? CELL_LANE_END_EXITED : 0;
}

void lane_loop_run(struct lane_loop *loop, const struct cell_lane_launch *launch)
{
    loop->launch = *launch;
    uint64_t seq = launch->first;
    uint32_t end = 0;
    while (end == 0) {
        bool did_take = false;
        end = turn(loop, seq, &did_take);
        seq += did_take ? 1 : 0;
        if (end == 0 && launch->tasks_max != 0 && seq - launch->first == launch->tasks_max) {
            end = CELL_LANE_END_LIMIT;
        }
    }
    cell_lane_end(loop->lane, launch->number, (enum cell_lane_end)end);
    wake(loop);
}
