/* Random numbers of the tests, without the tests' libraries. */
#ifndef TESTS_SEED_H
#define TESTS_SEED_H

#include "base/random.h"

/* From the run's seed (CELLBATCH_SEED, which a failing run prints) and a case's own salt. */
struct base_random util_random(uint64_t salt);

#endif
