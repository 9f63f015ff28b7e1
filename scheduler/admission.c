/* Admission by counting; a request needs a handful of layouts, so each call is a few additions. */
#include "scheduler/admission.h"

#include "base/assert.h"

bool sched_admission_fits(const struct sched_admission *admission, const struct sched_graph *graph)
{
    for (uint32_t i = 0; i < graph->n_needs; i++) {
        if (graph->needs[i].rows > admission->capacity[graph->needs[i].layout]) {
            return false;
        }
    }
    return true;
}

bool sched_admission_reserve(struct sched_admission *admission, const struct sched_graph *graph)
{
    for (uint32_t i = 0; i < graph->n_needs; i++) {
        const struct sched_need *need = &graph->needs[i];
        base_debug_assert(admission->reserved[need->layout] <= admission->capacity[need->layout]);
        if (need->rows > admission->capacity[need->layout] - admission->reserved[need->layout]) {
            return false;
        }
    }
    for (uint32_t i = 0; i < graph->n_needs; i++) {
        admission->reserved[graph->needs[i].layout] += graph->needs[i].rows;
    }
    return true;
}

void sched_admission_credit(struct sched_admission *admission, const struct sched_graph *graph)
{
    for (uint32_t i = 0; i < graph->n_needs; i++) {
        const struct sched_need *need = &graph->needs[i];
        base_assert(admission->reserved[need->layout] >= need->rows);
        admission->reserved[need->layout] -= need->rows;
    }
}
