/* The host's side of a lane: publishing tasks, taking results, launches and the watchdog.
 *
 * Plain bookkeeping over the words of cells/lane/contract.h, shared by every backend that has
 * lanes: how a launch is started, and where the memory comes from, is the backend's. One thread
 * owns a cell_lane_host (the pool thread); it never blocks and never allocates.
 *
 * A look, which the owner takes in each of its turns while tasks are outstanding:
 *
 *   cell_lane_host_look(host, now);
 *   while ((seq = cell_lane_host_next(host)) != 0) { results of task seq are there }
 *   while ((seq = cell_lane_host_next_failed(host)) != 0) { task seq is lost with its launch }
 *   if (cell_lane_host_wants_launch(host)) { start cell_lane_host_launch(host) }
 *
 * Watchdog: a lane with tasks outstanding whose heartbeat and counter both stand still for
 * watchdog_ns is told to abort; one that then does not end within as long again is lost, and its
 * device with it: nobody knows what a kernel that cannot be stopped still writes. Time in which the
 * owner did not look (a paused process) is not held against the lane: one look counts for a quarter
 * of watchdog_ns at most. */
#ifndef CELLS_LANE_HOST_H
#define CELLS_LANE_HOST_H

#include "cells/lane/contract.h"

struct cell_lane_host {
    struct cell_lane lane;
    uint64_t submitted; /* the last task published */
    uint64_t completed; /* the last whose results are there, as of the last look */
    uint64_t settled;   /* the last that was handed to the owner, done or failed */
    uint64_t launch;    /* number of the last launch; 0: none yet */
    uint64_t failed_to; /* tasks up to this one, and not completed, died with their launch */
    uint32_t end;       /* enum cell_lane_end of the last launch; 0 while it runs */
    uint32_t faults;    /* launches that died, ever */
    bool is_lost;
    /* Watchdog. */
    uint64_t watchdog_ns; /* 0: none */
    uint64_t looked_ns, still_ns;
    uint64_t heartbeat, progress;
    bool is_aborted;
};

/* lane: as the backend has laid it out; zeroed control words. */
void cell_lane_host_init(struct cell_lane_host *host, const struct cell_lane *lane,
                         uint64_t watchdog_ns);

/* Whether one more task has a slot. */
static inline bool cell_lane_host_has_room(const struct cell_lane_host *host)
{
    return host->submitted - host->settled < host->lane.n_slots;
}

static inline bool cell_lane_host_is_busy(const struct cell_lane_host *host)
{
    return host->submitted != host->settled;
}

/* The n_rows row ids of the next task: inline where they fit, else in the slot's part of row_ids.
 * Sets the task's flag for it. ids may be NULL when n_rows is 0. */
void cell_lane_host_rows(const struct cell_lane_host *host, struct cell_lane_task *task,
                         const uint32_t *ids, uint32_t n_rows);

/* Publishes the next task and returns its number. There must be room. What it names outside is
 * written. */
uint64_t cell_lane_host_submit(struct cell_lane_host *host, const struct cell_lane_task *task);

/* Reads the lane's words, in the order of rule 5, and lets the watchdog judge. */
void cell_lane_host_look(struct cell_lane_host *host, uint64_t now_ns);

/* The next task to settle that completed, or that failed; 0: none. First all completed ones. Its
 * slot, result and outcomes stay until the next submit. */
uint64_t cell_lane_host_next(struct cell_lane_host *host);
uint64_t cell_lane_host_next_failed(struct cell_lane_host *host);

/* Whether tasks are outstanding and no launch runs; after an EXIT or a loss, never. */
bool cell_lane_host_wants_launch(const struct cell_lane_host *host);

/* Arguments of the next launch, which the backend starts at once: it runs from here on. */
struct cell_lane_launch cell_lane_host_launch(struct cell_lane_host *host, uint64_t tasks_max);

/* Nothing outstanding: sends EXIT, if a launch runs; the backend then waits for its end. */
void cell_lane_host_exit(struct cell_lane_host *host);

/* The fault record; meaningful once `end` is CELL_LANE_END_FAULT. */
struct cell_lane_fault cell_lane_host_fault(const struct cell_lane_host *host);

/* "slot", "exchange" and so on, for the log. Static. */
const char *cell_lane_wait_name(uint32_t site);

#endif
