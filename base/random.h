/* Seeded pseudo-random numbers (xoshiro256** seeded by splitmix64, Blackman and Vigna 2018): the
 * same seed gives the same numbers on every machine. Not for secrets. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

struct base_random {
    uint64_t s[4];
};

void base_random_init(struct base_random *random, uint64_t seed);
uint64_t base_random_u64(struct base_random *random);
uint32_t base_random_below(struct base_random *random, uint32_t bound); /* 0..bound-1, bound > 0 */
double base_random_unit(struct base_random *random);                    /* [0, 1) */
float base_random_f32(struct base_random *random, float low, float high);
double base_random_exponential(struct base_random *random, double mean);

#endif
