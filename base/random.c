/* xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2018), its
 * 256-bit state filled by splitmix64 as its authors advise. All state is the caller's; one thread
 * at a time. About 1 ns a number. */
#include "base/random.h"

#include "base/assert.h"

#include <math.h>

static uint64_t splitmix64(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, unsigned bits)
{
    return (x << bits) | (x >> (64 - bits));
}

void base_random_init(struct base_random *random, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++) {
        random->s[i] = splitmix64(&seed);
    }
}

uint64_t base_random_u64(struct base_random *random)
{
    uint64_t *s = random->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* Lemire's multiply-shift with rejection ("Fast random integer generation in an interval", 2019):
 * without bias, and without a division in nearly every call. */
uint32_t base_random_below(struct base_random *random, uint32_t bound)
{
    base_assert(bound > 0);
    uint64_t product = (base_random_u64(random) >> 32) * bound;
    if ((uint32_t)product < bound) {
        uint32_t threshold = (0u - bound) % bound; // 2^32 mod bound
        while ((uint32_t)product < threshold) {
            product = (base_random_u64(random) >> 32) * bound;
        }
    }
    return (uint32_t)(product >> 32);
}

double base_random_unit(struct base_random *random)
{
    return (double)(base_random_u64(random) >> 11) * 0x1.0p-53;
}

float base_random_f32(struct base_random *random, float low, float high)
{
    double width = (double)high - (double)low;
    return (float)((double)low + width * base_random_unit(random));
}

double base_random_exponential(struct base_random *random, double mean)
{
    // 1 - u is never 0, so the logarithm is finite.
    return -mean * log1p(-base_random_unit(random));
}
