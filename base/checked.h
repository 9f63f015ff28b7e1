/* Arithmetic that notices overflow. Every size that comes from a message, a model or a config file
 * goes through here. Each returns true when *out holds the exact result. */
#ifndef BASE_CHECKED_H
#define BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool base_size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool base_size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool base_i64_mul(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool base_i64_add(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* true when value fits uint32_t. */
static inline bool base_u32_from_u64(uint64_t value, uint32_t *out)
{
    *out = (uint32_t)value;
    return value <= UINT32_MAX;
}

#endif
