/* BatchMaker's choice: (a) types with a full batch ready, else (b) types with something ready and
 * nothing running, else (c) types with something ready; among equals the highest priority, then
 * the one whose first row is to be done first. One pass over a handful of candidates.
 *
 * A type that always has a full batch, of a model with more requests than can be served, would so
 * hold back all other models for ever. So first comes the group that has been served least, and its
 * types alone are compared: fair queueing by operations. */
#include "scheduler/policy.h"

#include "base/assert.h"

#include <stdbool.h>

/* 2, 1, 0 for criteria (a), (b), (c). */
static uint32_t criterion(const struct sched_candidate *candidate)
{
    if (candidate->ready >= candidate->rows_max) {
        return 2;
    }
    return candidate->running == 0 ? 1 : 0;
}

static bool is_better(const struct sched_candidate *a, const struct sched_candidate *b)
{
    uint32_t class_a = criterion(a);
    uint32_t class_b = criterion(b);
    if (class_a != class_b) {
        return class_a > class_b;
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
