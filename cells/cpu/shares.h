/* How many of a batch's rows each member of a team takes, where rows are apart (apart.h).
 *
 * Members do not begin at the same time: the thread that drives the team looks after the scheduler
 * first, others have to be woken, and what a batch is about has to cross to their caches. And cores
 * that other machines or processes share are not equally fast. In a batch of few steps, in which
 * rows can hardly be given away, that is a good part of it. It is much the same in the next one: so
 * who was done late takes fewer rows then, until all are done at about the same time. In small
 * steps, and only when it is worth a row: a row that changes its member takes its state along.
 *
 * Who runs a row does not change its bits.
 *
 * Threads: borders are asked for by all members while they run a batch; one thread learns, between
 * two batches. */
#ifndef CELLS_CPU_SHARES_H
#define CELLS_CPU_SHARES_H

#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

struct cell_shares {
    uint32_t members;
    float *more;    /* [members] rows that each should take beyond an even share */
    int32_t *moved; /* [members] rows by which the border before each stands behind the even one */
};

/* Even shares. RESOURCE_EXHAUSTED; of the arena. */
enum base_status cell_shares_init(struct cell_shares *shares, struct base_arena *arena,
                                  uint32_t members);

/* Rows of the members before this one, of n_rows; of member number `members`: all. Every member has
 * a row where there are enough. */
uint32_t cell_shares_border(const struct cell_shares *shares, uint32_t n_rows, uint32_t member);

/* The same of even shares. */
uint32_t cell_shares_even(uint32_t members, uint32_t n_rows, uint32_t member);

/* ns: [members] from the beginning of a batch that was shared out so until each had done its rows.
 */
void cell_shares_learn(struct cell_shares *shares, uint32_t n_rows, const uint64_t *ns);

#endif
