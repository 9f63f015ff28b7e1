/* What the engine is measured against: the same kernels, weights, threads and instruction set, or
 * the same card, in a bare loop. Batches are made beforehand and handed straight to a device of
 * their own; nothing is scheduled, nothing emitted, no request begins or ends. */
#ifndef BENCH_IDEAL_H
#define BENCH_IDEAL_H

#include "server/engine.h"

struct bench_ideal;

/* Opens a device as the engine with these options does, and loads the model's types. The calling
 * thread computes: it is member 0 of the first team. */
enum base_status bench_ideal_create(const struct srv_engine_options *options,
                                    const struct cell_registry *registry,
                                    const struct cell_model *cells, struct bench_ideal **out,
                                    struct base_error *error);
void bench_ideal_free(struct bench_ideal *ideal);

/* Cells a second of a type of the model in batches of `rows` rows and `steps` steps (a stateless
 * type: 1), all queues together, over about ns. A device that is not pumped has as many batches
 * under way as the engine may have. 0: a batch has failed. */
double bench_ideal_cells_per_s(struct bench_ideal *ideal, const struct cell_type *type,
                               uint32_t rows, uint32_t steps, uint64_t ns);

#endif
