/* Divisions that C does not have. */
#ifndef BASE_DIVIDE_H
#define BASE_DIVIDE_H

#include <stdint.h>

/* a / by, rounded down; by > 0. */
static inline int64_t base_floor_divide(int64_t a, int64_t by)
{
    return a / by - (a % by < 0 ? 1 : 0);
}

/* The greatest that divides both; the other one where one of them is 0. */
static inline uint64_t base_greatest_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
