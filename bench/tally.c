/* Counters of the scheduler's types. */
#include "bench/tally.h"

void bench_tally_read(const struct srv_engine *engine, const struct cell_model *cells,
                      struct bench_type_tally types[CELL_TYPES_MAX])
{
    const struct sched *sched = srv_engine_scheduler(engine, 0);
    for (uint32_t s = 0; s < cells->n_stages; s++) {
        cell_type_id id = cells->stages[s].type->id;
        const struct sched_type_stats *stats = sched_type_stats(sched, id);
        types[id].cells = atomic_load_explicit(&stats->cells, memory_order_relaxed);
        types[id].steps = atomic_load_explicit(&stats->steps, memory_order_relaxed);
        types[id].batches = atomic_load_explicit(&stats->batches, memory_order_relaxed);
    }
}

void bench_tally_subtract(struct bench_type_tally to[CELL_TYPES_MAX],
                          const struct bench_type_tally from[CELL_TYPES_MAX])
{
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        to[t].cells -= from[t].cells;
        to[t].steps -= from[t].steps;
        to[t].batches -= from[t].batches;
    }
}

const struct bench_type_tally *bench_tally_most(const struct cell_model *cells,
                                                const struct bench_type_tally types[CELL_TYPES_MAX])
{
    const struct bench_type_tally *most = &types[cells->stages[0].type->id]; // one at least
    for (uint32_t s = 1; s < cells->n_stages; s++) {
        const struct bench_type_tally *own = &types[cells->stages[s].type->id];
        most = own->cells > most->cells ? own : most;
    }
    return most;
}
