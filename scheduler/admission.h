/* Admission: how many rows the requests inside have reserved, per layout of one device.
 *
 * A request states its peak of live rows when it is unfolded (struct sched_graph.needs). It is
 * admitted only when all of them can be reserved at once, so that no admitted request ever waits
 * for a row, and none can deadlock. Owner: the loop thread. */
#ifndef SCHEDULER_ADMISSION_H
#define SCHEDULER_ADMISSION_H

#include "scheduler/graph.h"

#include <stdbool.h>

struct sched_admission {
    uint32_t capacity[CELL_LAYOUTS_MAX];
    uint32_t reserved[CELL_LAYOUTS_MAX];
};

/* false: the needs exceed the capacity, so waiting would not help. */
bool sched_admission_fits(const struct sched_admission *admission, const struct sched_graph *graph);

/* Reserves all needs and returns true, or changes nothing and returns false. */
bool sched_admission_reserve(struct sched_admission *admission, const struct sched_graph *graph);

/* Gives back what reserve took for this graph. */
void sched_admission_credit(struct sched_admission *admission, const struct sched_graph *graph);

#endif
