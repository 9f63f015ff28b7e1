/* BatchMaker's choice: (a) types with a full batch ready, else (b) types with something ready and
 * nothing running, else (c) types with something ready; among equals the highest priority, then
 * the one whose first row is to be done first. One pass over a handful of candidates.
 *
 * Among those with nothing running priority would let the last two of a graph take turns as long as
 * either has a row, and rows leave the types before them one by one: they would run nearly alone.
 * So the one is first whose rows have waited longest, all together: its rows meet, and a single row
 * that is passed over does not wait for ever.
 *
 * A type that always has a full batch, of a model with more requests than can be served, would so
 * hold back all other models for ever. So first comes the group that has been served least, and its
 * types alone are compared: fair queueing by operations. */
#include "scheduler/policy.h"

#include "base/assert.h"

#include <stdbool.h>

enum criterion { RUNNING, IDLE, FULL }; /* (c), (b), (a) */

static enum criterion criterion(const struct sched_candidate *candidate)
{
    if (candidate->ready >= candidate->rows_max) {
        return FULL;
    }
    return candidate->running == 0 ? IDLE : RUNNING;
}

/* Of all its rows, in batches. */
static uint64_t waited(const struct sched_candidate *candidate)
{
    return candidate->ready * candidate->turns;
}

static bool is_better(const struct sched_candidate *a, const struct sched_candidate *b)
{
    const enum criterion criterion_a = criterion(a);
    const enum criterion criterion_b = criterion(b);
    if (criterion_a != criterion_b) {
        return criterion_a > criterion_b;
    }
    if (criterion_a == IDLE && waited(a) != waited(b)) {
        return waited(a) > waited(b);
    }
    if (a->priority != b->priority) {
        return a->priority > b->priority;
    }
    return a->finish_tag != b->finish_tag ? a->finish_tag < b->finish_tag : a->order < b->order;
}

static uint32_t choose_cellular(const struct sched_candidate *candidates, uint32_t n)
{
    base_assert(n > 0);
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        least = candidates[i].served < least ? candidates[i].served : least;
    }
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++) {
        if (candidates[i].served == least &&
            (best == n || is_better(&candidates[i], &candidates[best]))) {
            best = i;
        }
    }
    return best;
}

const struct sched_policy sched_policy_cellular = {.name = "cellular", .choose = choose_cellular};
