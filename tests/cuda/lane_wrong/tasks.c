/* Batches as tasks of a lane, with one thing wrong; see wrong.h. */
#include "cells/cuda/device_state.h"
#include "tests/cuda/lane_wrong/wrong.h"

static void spoil_row(struct cell_sm_row *row)
{
    if (lane_wrong_is(LANE_WRONG_STEPS) && row->steps > 1) {
        row->steps--;
    } else if (lane_wrong_is(LANE_WRONG_PARITY) && row->first_step > 0) {
        row->first_step++;
    } else if (lane_wrong_is(LANE_WRONG_LAST)) {
        row->flags &= ~(uint32_t)CELL_SM_ROW_LAST;
    } else if (lane_wrong_is(LANE_WRONG_APART)) {
        row->flags &= ~(uint32_t)CELL_SM_ROW_APART;
    } else if (lane_wrong_is(LANE_WRONG_INIT)) {
        row->init_c = 0;
    } else if (lane_wrong_is(LANE_WRONG_OUT)) {
        row->out_stride = 0;
    } else if (lane_wrong_is(LANE_WRONG_X)) {
        row->x_stride = 0;
    }
}

static void wrong_rows(const struct cell_lane_host *host, struct cell_lane_task *task,
                       const uint32_t *ids, uint32_t n_rows)
{
    uint32_t others[CELL_SM_ROWS_MAX];
    for (uint32_t r = 0; r < n_rows; r++) {
        others[r] = ids[(r + (lane_wrong_is(LANE_WRONG_SLOT) ? 1 : 0)) % n_rows];
    }
    const bool is_less = lane_wrong_is(LANE_WRONG_ROWS) && n_rows == CELL_SM_ROWS_MAX;
    cell_lane_host_rows(host, task, others, is_less ? n_rows - 1 : n_rows);
}

static uint64_t wrong_submit(struct cell_lane_host *host, const struct cell_lane_task *task)
{
    struct cell_lane_task wrong = *task;
    struct cell_sm_row *rows = cell_step_pointer(task->x_ref); // the host's driver's addresses
    for (uint32_t r = 0; r < task->n_rows; r++) {
        spoil_row(&rows[r]);
    }
    if (lane_wrong_is(LANE_WRONG_LENGTH)) {
        wrong.k_steps = (uint16_t)rows[task->n_rows - 1].steps;
    } else if (lane_wrong_is(LANE_WRONG_OPEN)) {
        wrong.flags |= CELL_LANE_INTERRUPTIBLE;
    } else if (lane_wrong_is(LANE_WRONG_CLOSED)) {
        wrong.flags &= (uint16_t)~CELL_LANE_INTERRUPTIBLE;
    }
    return cell_lane_host_submit(host, &wrong);
}

static void wrong_attend(const struct cell_lane *lane, uint32_t attention)
{
    if (!lane_wrong_is(LANE_WRONG_ATTENTION)) {
        cell_lane_attend(lane, attention);
    }
}

static bool wrong_due(const struct cell_emit *emit, uint32_t step, uint32_t steps)
{
    struct cell_emit wrong = *emit;
    if (lane_wrong_is(LANE_WRONG_FIRST) && emit->when == CELL_EMIT_FIRST) {
        wrong.when = CELL_EMIT_LAST;
    }
    return cell_emit_is_due(&wrong, step, steps);
}

#define cell_lane_host_rows   wrong_rows
#define cell_lane_host_submit wrong_submit
#define cell_lane_attend      wrong_attend
#define cell_emit_is_due      wrong_due
// NOLINTNEXTLINE(bugprone-suspicious-include): to be changed from outside
#include "cells/cuda/lane_tasks.c"
