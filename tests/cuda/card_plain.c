/* What card.c and its siblings need of libraries that a machine with a card may lack, in plain
 * words: identity of the few types it has (xxHash elsewhere), and the tests' seed. */
#include "base/hash.h"
#include "base/mem.h"
#include "base/random.h"
#include "tests/seed.h"

#define FNV_PRIME UINT64_C(0x100000001B3)

struct base_hasher {
    uint64_t state;
};

struct base_hasher *base_hasher_create(void)
{
    return base_alloc(sizeof(struct base_hasher));
}

void base_hasher_add(struct base_hasher *hasher, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < length; i++) {
        hasher->state = (hasher->state ^ at[i]) * FNV_PRIME;
    }
}

struct base_hash base_hasher_digest(const struct base_hasher *hasher)
{
    return (struct base_hash){hasher->state, ~hasher->state};
}

void base_hasher_free(struct base_hasher *hasher)
{
    base_free(hasher);
}

struct base_hash base_hash_bytes(const void *bytes, size_t length)
{
    struct base_hasher hasher = {.state = 0};
    base_hasher_add(&hasher, bytes, length);
    return base_hasher_digest(&hasher);
}

struct base_random util_random(uint64_t salt)
{
    struct base_random random;
    base_random_init(&random, salt);
    return random;
}
