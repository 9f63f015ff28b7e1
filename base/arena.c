/* Bump allocation over a list of chunks.
 *
 *   chunk:  | header | used ... | free ... |          offsets: used, bytes
 *
 * An allocation that does not fit opens a new chunk of the usual size, which becomes the one where
 * allocation goes on; one larger than that gets a chunk of its own behind the first, so that the
 * room left in the first is not lost. Fresh chunks are zero already; below `dirty` a chunk was used
 * before the last reset, and allocation zeroes only that part. Under ASan the free part is poisoned
 * and a red zone follows every allocation. No lock: one thread at a time. Amortised cost of an
 * allocation: some additions and, after a reset, its memset. */
#include "base/arena.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/mem.h"

#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#    define HAS_ASAN 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define HAS_ASAN 1
#    endif
#endif

#ifdef HAS_ASAN
#    include <sanitizer/asan_interface.h>
#    define RED_ZONE_BYTES          16u
#    define poison(memory, bytes)   ASAN_POISON_MEMORY_REGION(memory, bytes)
#    define unpoison(memory, bytes) ASAN_UNPOISON_MEMORY_REGION(memory, bytes)
#else
#    define RED_ZONE_BYTES          0u
#    define poison(memory, bytes)   ((void)(memory), (void)(bytes))
#    define unpoison(memory, bytes) ((void)(memory), (void)(bytes))
#endif

#define ALIGNMENT       16u
#define CHUNK_BYTES_MIN 256u

struct base_arena_chunk {
    struct base_arena_chunk *next;
    size_t bytes; /* of the whole chunk, with this header */
    size_t used;  /* offset of the first free byte */
    size_t dirty; /* bytes below this offset may be non-zero */
};

static size_t round_up(size_t value, size_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

static char *bytes_of(struct base_arena_chunk *chunk)
{
    return (char *)chunk;
}

static void chunk_clear(struct base_arena_chunk *chunk)
{
    size_t start = round_up(sizeof(*chunk), ALIGNMENT);
    chunk->dirty = chunk->used > chunk->dirty ? chunk->used : chunk->dirty;
    chunk->used = start;
    poison(bytes_of(chunk) + start, chunk->bytes - start);
}

static void chunk_free(struct base_arena_chunk *chunk)
{
    unpoison(chunk, chunk->bytes);
    base_free(chunk);
}

/* A chunk with room for `needed` bytes, header included, linked into the arena; NULL when the
 * budget or the memory is spent. */
static struct base_arena_chunk *chunk_add(struct base_arena *arena, size_t needed)
{
    size_t left = arena->budget_bytes - arena->used_bytes;
    if (needed > left) {
        return NULL;
    }
    size_t usual = arena->chunk_bytes < left ? arena->chunk_bytes : left;
    size_t bytes = needed > usual ? needed : usual;
    struct base_arena_chunk *chunk = base_alloc_aligned(bytes, BASE_CACHE_LINE);
    if (chunk == NULL) {
        return NULL;
    }
    chunk->bytes = bytes;
    chunk_clear(chunk);
    arena->used_bytes += bytes;
    if (needed > arena->chunk_bytes && arena->first != NULL) {
        chunk->next = arena->first->next;
        arena->first->next = chunk;
    } else {
        chunk->next = arena->first;
        arena->first = chunk;
    }
    return chunk;
}

/* `bytes` zeroed bytes out of the free part, of which `padded` are taken; NULL when too short. */
static void *chunk_take(struct base_arena_chunk *chunk, size_t bytes, size_t padded,
                        size_t alignment)
{
    size_t start = round_up(chunk->used, alignment);
    if (start > chunk->bytes || padded > chunk->bytes - start) {
        return NULL;
    }
    char *memory = bytes_of(chunk) + start;
    unpoison(memory, bytes);
    if (start < chunk->dirty) {
        size_t dirty = chunk->dirty - start;
        memset(memory, 0, dirty < bytes ? dirty : bytes);
    }
    chunk->used = start + padded;
    return memory;
}

static void *take(struct base_arena *arena, size_t bytes, size_t alignment)
{
    bytes = bytes == 0 ? 1 : bytes; // a pointer of its own
    size_t padded;
    size_t needed;
    if (!base_size_add(bytes, ALIGNMENT - 1 + RED_ZONE_BYTES, &padded)) {
        return NULL;
    }
    padded &= ~(size_t)(ALIGNMENT - 1);
    if (!base_size_add(round_up(sizeof(struct base_arena_chunk), alignment), padded, &needed)) {
        return NULL;
    }
    void *memory = NULL;
    if (arena->first != NULL) {
        memory = chunk_take(arena->first, bytes, padded, alignment);
    }
    if (memory == NULL) {
        struct base_arena_chunk *chunk = chunk_add(arena, needed);
        memory = chunk == NULL ? NULL : chunk_take(chunk, bytes, padded, alignment);
    }
    return memory;
}

void base_arena_init(struct base_arena *arena, size_t chunk_bytes, size_t budget_bytes)
{
    base_assert(chunk_bytes >= CHUNK_BYTES_MIN);
    base_assert(budget_bytes >= chunk_bytes);
    *arena = (struct base_arena){.chunk_bytes = chunk_bytes, .budget_bytes = budget_bytes};
}

void base_arena_reset(struct base_arena *arena)
{
    struct base_arena_chunk *kept = NULL;
    struct base_arena_chunk *next = NULL;
    for (struct base_arena_chunk *chunk = arena->first; chunk != NULL; chunk = next) {
        next = chunk->next;
        if (kept == NULL && chunk->bytes == arena->chunk_bytes) {
            kept = chunk;
        } else {
            chunk_free(chunk);
        }
    }
    if (kept != NULL) {
        kept->next = NULL;
        chunk_clear(kept);
    }
    arena->first = kept;
    arena->used_bytes = kept == NULL ? 0 : kept->bytes;
}

void base_arena_release(struct base_arena *arena)
{
    struct base_arena_chunk *next = NULL;
    for (struct base_arena_chunk *chunk = arena->first; chunk != NULL; chunk = next) {
        next = chunk->next;
        chunk_free(chunk);
    }
    *arena = (struct base_arena){0};
}

void *base_arena_alloc(struct base_arena *arena, size_t bytes)
{
    return take(arena, bytes, ALIGNMENT);
}

void *base_arena_alloc_aligned64(struct base_arena *arena, size_t bytes)
{
    return take(arena, bytes, 64);
}

void *base_arena_array(struct base_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    return base_size_mul(count, size, &bytes) ? take(arena, bytes, ALIGNMENT) : NULL;
}

char *base_arena_text(struct base_arena *arena, const char *text, size_t length)
{
    size_t bytes;
    char *copy = base_size_add(length, 1, &bytes) ? take(arena, bytes, ALIGNMENT) : NULL;
    if (copy != NULL && length > 0) {
        memcpy(copy, text, length); // the NUL is there already
    }
    return copy;
}
