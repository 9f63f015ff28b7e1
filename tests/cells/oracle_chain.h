/* What a chain gave, held against the oracle. */
#ifndef TESTS_CELLS_ORACLE_CHAIN_H
#define TESTS_CELLS_ORACLE_CHAIN_H

#include "tests/cells/rig.h"

/* Fails the case where an output of a step or a final state of the chain, which has run to its end,
 * is further than tolerance + tolerance * |x| from the x of double precision. */
void oracle_check_chain(const struct cell_def *def, const struct rig_chain *chain,
                        double tolerance);

#endif
