/* Two batches side by side: each half of a team runs one, as if it were the team.
 *
 * The two directions of a bidirectional layer, two layers of different requests, two models: what
 * does not depend on each other need not be shared out. A cell that is too small for the team, or
 * whose members would mostly wait for one another, is computed by half of it in less than twice the
 * time; and each core reads the weights of one cell. (DeepCPU, USENIX ATC'18, section 4:
 * independent products at the same time; Graphi: executors x threads. The bits are those of the
 * whole team.)
 *
 * A batch that follows the other, a layer over a layer, is some steps behind it all the while: the
 * first half says how far it has come, the second waits where it must.
 *
 * Threads: the members of one team while they run both batches. */
#ifndef CELLS_CPU_BESIDE_H
#define CELLS_CPU_BESIDE_H

#include "cells/cpu/run.h"

struct cell_beside {
    struct cell_run runs[2];
    bool is_followed;                               /* the second batch follows the first */
    _Alignas(BASE_CACHE_LINE) _Atomic bool is_over; /* one of them */
    /* Of the first: twice the steps of which all emits have been written, and 1 more when it has
     * come to its end. */
    _Alignas(BASE_CACHE_LINE) _Atomic uint64_t told;
    _Alignas(BASE_CACHE_LINE) _Atomic uint32_t n_running; /* its members */
};

/* Batches of up to so many rows are expected to be better run by half of the team, if another is
 * there; 0: none. */
uint32_t cell_beside_rows(const struct cell_program *program);

/* And of so many where one of them follows the other. */
uint32_t cell_beside_follow_rows(const struct cell_program *program);

/* Begins submitted->batch and the one beside it, whose programs these are; as cell_run_begin() and
 * cell_run_end(). The team has two members at least. */
void cell_beside_begin(struct cell_beside *beside, struct cell_program *const programs[2],
                       const struct cell_rows *stores, uint32_t queue, struct cell_team *team,
                       const struct cell_submitted *submitted);
void cell_beside_end(struct cell_beside *beside);

/* Whether a run that has done so many steps should make room, since the other batch has ended and
 * the whole team could go on with this one. */
bool cell_beside_is_over(const struct cell_run *run, uint32_t steps_done);

/* Behind a step of one of the two: whoever follows learns of it. */
void cell_beside_tell(const struct cell_view *view);

/* For a run that follows: waits until so many of its steps can be computed; view->available then
 * says how many can. False: so many never will. All members of a run come to the same answer. */
bool cell_beside_await(struct cell_view *view, uint32_t steps);

#endif
