/* XXH3, 128 bits. A hasher is one state block of the library in memory of ours; one thread at a
 * time. About 10 GB/s. */
#include "base/hash.h"

#include "base/mem.h"

// Shows the size of XXH3_state_t, so that the state comes from base_alloc_aligned().
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

struct base_hasher {
    XXH3_state_t state;
};

static struct base_hash from_xxh(XXH128_hash_t hash)
{
    return (struct base_hash){.low = hash.low64, .high = hash.high64};
}

struct base_hasher *base_hasher_create(void)
{
    struct base_hasher *hasher = base_alloc_aligned(sizeof(*hasher), BASE_CACHE_LINE);
    if (hasher != NULL) {
        (void)XXH3_128bits_reset(&hasher->state);
    }
    return hasher;
}

void base_hasher_add(struct base_hasher *hasher, const void *bytes, size_t length)
{
    if (length > 0) {
        (void)XXH3_128bits_update(&hasher->state, bytes, length);
    }
}

struct base_hash base_hasher_digest(const struct base_hasher *hasher)
{
    return from_xxh(XXH3_128bits_digest(&hasher->state));
}

void base_hasher_free(struct base_hasher *hasher)
{
    base_free(hasher);
}

struct base_hash base_hash_bytes(const void *bytes, size_t length)
{
    return from_xxh(XXH3_128bits(length > 0 ? bytes : "", length));
}
