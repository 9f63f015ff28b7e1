/* What the cases of the scheduler's suites begin and end with: types, options and a simulation, new
 * for each. */
#ifndef TESTS_SCHEDULER_SIM_CASE_H
#define TESTS_SCHEDULER_SIM_CASE_H

#include "tests/scheduler/sim.h"

struct sim_case {
    struct graphs_types types;
    struct sched_options options; /* the defaults, and what the case makes of them */
    struct sim *sim;
};

/* Without types. */
void sim_case_open(struct sim_case *now);
/* After types and options are as the case wants them; with 64 rows of each layout. */
void sim_case_start(struct sim_case *now);
void sim_case_close(struct sim_case *now);

/* Fills, builds and adds a recipe, which is admitted. */
struct sim_graph *sim_case_add(struct sim_case *now, struct recipe *recipe);

/* For batches side by side: a device that runs two at the same time, and types of one input, two
 * states and one output, with steps of 100 operations, of which up to so many rows are beside
 * others; runs of up to 100 steps, and 2 while others wait. */
enum { SIM_CASE_TYPES = 4, SIM_CASE_FEW = 3 };
void sim_case_open_beside(struct sim_case *now);

/* A batch of type number `type`. */
void sim_case_check(const struct sim_case *now, const struct cell_batch *batch, uint32_t type,
                    uint32_t n_rows, uint32_t steps);

/* Executes the oldest batch of queue 0, and the one beside it, and retires all that is done. */
void sim_case_finish(struct sim_case *now, uint32_t steps_max);

#endif
