/* The check that batches change no bit: chains split over random batches on a device against
 * the same chains, each run alone at once by the scalar kernels, op by op as the cell is written.
 */
#ifndef TESTS_CELLS_SPLIT_H
#define TESTS_CELLS_SPLIT_H

#include "tests/cells/build.h"

#include <stdbool.h>

#define SPLIT_CHAINS_MAX 48u

struct split_options {
    const struct cell_def *def;
    const char *backend; /* NULL: "cpu" */
    const char *isa;
    uint32_t members; /* of the team that runs the batches */
    uint32_t n_chains;
    uint32_t steps_max;               /* of a chain, and of a batch */
    const struct cell_tuning *tuning; /* NULL: the device's own */
    uint64_t salt;                    /* of the chains and the batches */
};

/* What was not as wanted, in words. */
struct split_difference {
    char text[64];
};

/* Three rounds over the same chains, each batch of random rows and length. Whether all outputs and
 * final states have the wanted bits. */
bool split_has_the_bits_of_one_run(const struct split_options *options,
                                   struct split_difference *out);

/* Three gated cells, one behind another, and a front of what depends on no state: wanted by the
 * step alone, by the sums over x alone, and by both. The second gated cell's x depends on the
 * first's state. */
void split_build_front(struct build *build);

#endif
