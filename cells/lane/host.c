/* The host's side of a lane; see host.h.
 *
 * Data: the caller's struct. Thread: its owner's. Cost of a look: three loads. */
#include "cells/lane/host.h"

#include "base/assert.h"
#include "cells/def.h"
#include "cells/lane/rows.h"

#include <string.h>

_Static_assert(CELL_LANE_PARTS_MAX >= CELL_STATES_MAX, "a state slot's parts have room");

void cell_lane_host_init(struct cell_lane_host *host, const struct cell_lane *lane,
                         uint64_t watchdog_ns)
{
    base_assert(lane->n_slots > 0 && (lane->n_slots & (lane->n_slots - 1)) == 0);
    memset(host, 0, sizeof(*host));
    host->lane = *lane;
    host->watchdog_ns = watchdog_ns;
    host->end = CELL_LANE_END_PARKED;
}

/* ---- Tasks ---- */

void cell_lane_host_rows(const struct cell_lane_host *host, struct cell_lane_task *task,
                         const uint32_t *ids, uint32_t n_rows)
{
    const struct cell_lane *lane = &host->lane;
    base_assert(n_rows <= lane->rows_max && n_rows <= UINT16_MAX);
    const uint32_t index = cell_lane_index(lane, host->submitted + 1);
    uint32_t *to = task->rows;
    task->n_rows = (uint16_t)n_rows;
    task->rows_off = 0;
    task->flags &= ~(uint32_t)CELL_LANE_ROWS_BY_OFFSET;
    if (n_rows > cell_lane_inline_max(lane)) {
        CELL_LANE_NOTE(HOST_WRITES_OUTSIDE);
        task->rows_off = index * lane->rows_max;
        task->flags |= CELL_LANE_ROWS_BY_OFFSET;
        to = lane->row_ids + task->rows_off;
    }
    for (uint32_t r = 0; r < n_rows; r++) {
        to[r] = ids[r];
    }
}

uint64_t cell_lane_host_submit(struct cell_lane_host *host, const struct cell_lane_task *task)
{
    base_assert(cell_lane_host_has_room(host));
    if (!cell_lane_host_is_busy(host)) {
        host->still_ns = 0; // nobody has looked at the lane while it had nothing to do
        host->looked_ns = 0;
    }
    host->submitted++;
    cell_lane_publish(&host->lane, host->submitted, task);
    return host->submitted;
}

/* ---- Looking ---- */

static bool has_moved(struct cell_lane_host *host)
{
    const uint64_t heartbeat = cell_lane_heartbeat(&host->lane);
    const bool moved = heartbeat != host->heartbeat || host->completed != host->progress;
    host->heartbeat = heartbeat;
    host->progress = host->completed;
    return moved;
}

static void watch(struct cell_lane_host *host, uint64_t now_ns)
{
    const bool moved = has_moved(host);
    uint64_t since_ns = host->looked_ns == 0 ? 0 : now_ns - host->looked_ns;
    host->looked_ns = now_ns;
    // An aborted lane has to end; that its heart still beats does not help it.
    if ((moved && !host->is_aborted) || !cell_lane_host_is_busy(host) || host->watchdog_ns == 0) {
        host->still_ns = 0;
        return;
    }
    const uint64_t most_ns = host->watchdog_ns / 4;
    host->still_ns += since_ns < most_ns ? since_ns : most_ns;
    if (host->still_ns < host->watchdog_ns) {
        return;
    }
    host->still_ns = 0;
    if (!host->is_aborted) {
        host->is_aborted = true;
        cell_lane_abort(&host->lane, host->launch);
        return;
    }
    host->is_lost = true;
    host->failed_to = host->submitted;
}

static void note_end(struct cell_lane_host *host, uint32_t end)
{
    host->end = end;
    host->is_aborted = false;
    host->still_ns = 0;
    if (end == CELL_LANE_END_FAULT || end == CELL_LANE_END_ABORTED) {
        host->faults++;
        host->failed_to = host->submitted;
    }
}

void cell_lane_host_look(struct cell_lane_host *host, uint64_t now_ns)
{
    if (host->is_lost) {
        host->failed_to = host->submitted;
        return;
    }
    const uint32_t end = host->end == 0 ? cell_lane_ended(&host->lane, host->launch) : 0;
    const uint64_t completed = cell_lane_completed(&host->lane);
    base_assert(completed <= host->submitted);
    // Behind a launch that died the counter still stands where it did.
    host->completed = completed > host->completed ? completed : host->completed;
    if (end != 0) {
        note_end(host, end);
    }
    if (host->end == 0) {
        watch(host, now_ns);
    }
}

uint64_t cell_lane_host_next(struct cell_lane_host *host)
{
    if (host->settled >= host->completed) {
        return 0;
    }
    CELL_LANE_NOTE(HOST_READS_RESULT);
    return ++host->settled;
}

uint64_t cell_lane_host_next_failed(struct cell_lane_host *host)
{
    base_assert(host->settled >= host->completed);
    return host->settled < host->failed_to ? ++host->settled : 0;
}

/* ---- Launches ---- */

bool cell_lane_host_wants_launch(const struct cell_lane_host *host)
{
    return host->end != 0 && host->end != CELL_LANE_END_EXITED && !host->is_lost &&
           cell_lane_host_is_busy(host);
}

struct cell_lane_launch cell_lane_host_launch(struct cell_lane_host *host, uint64_t tasks_max)
{
    base_assert(host->end != 0 && !host->is_lost && host->settled >= host->completed);
    host->launch++;
    host->end = 0;
    host->still_ns = 0;
    host->looked_ns = 0;
    return (struct cell_lane_launch){
        .number = host->launch, .first = host->settled + 1, .tasks_max = tasks_max};
}

void cell_lane_host_exit(struct cell_lane_host *host)
{
    base_assert(!cell_lane_host_is_busy(host));
    if (host->end == 0) {
        const struct cell_lane_task task = {.op = CELL_LANE_EXIT};
        (void)cell_lane_host_submit(host, &task);
    }
}

struct cell_lane_fault cell_lane_host_fault(const struct cell_lane_host *host)
{
    CELL_LANE_NOTE(HOST_READS_FAULT);
    return host->lane.control->fault;
}

const char *cell_lane_wait_name(uint32_t site)
{
    static const char *const names[] = {
        [CELL_LANE_WAIT_NONE] = "none", [CELL_LANE_WAIT_SLOT] = "slot",
        [CELL_LANE_WAIT_TASK] = "task", [CELL_LANE_WAIT_EXCHANGE] = "exchange",
        [CELL_LANE_WAIT_ROW] = "row",
    };
    return site < sizeof(names) / sizeof(names[0]) ? names[site] : "unknown";
}
