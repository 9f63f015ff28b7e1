/* 128-bit content hash (XXH3). For identity together with a byte-by-byte comparison, and for cache
 * keys; not for secrets. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct base_hash {
    uint64_t low, high;
};

/* Streaming: create, add any number of times, digest (may be called repeatedly), free. */
struct base_hasher;
struct base_hasher *base_hasher_create(void); /* NULL when out of memory */
void base_hasher_add(struct base_hasher *hasher, const void *bytes, size_t length);
struct base_hash base_hasher_digest(const struct base_hasher *hasher);
void base_hasher_free(struct base_hasher *hasher);

struct base_hash base_hash_bytes(const void *bytes, size_t length);

static inline bool base_hash_equal(struct base_hash a, struct base_hash b)
{
    return a.low == b.low && a.high == b.high;
}

#endif
