/* Bump allocator over a few chunks with a hard budget: the memory of one request, or of one model
 * while it is loaded. Not thread-safe; it belongs to one thread at a time and moves by message. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct base_arena_chunk;

struct base_arena {
    struct base_arena_chunk *first; /* newest chunk, where allocation goes on */
    size_t chunk_bytes;             /* usual size of a chunk */
    size_t budget_bytes;            /* sum of all chunks never passes this */
    size_t used_bytes;              /* sum of all chunks */
};

/* Life cycle. Takes no memory yet; chunk_bytes >= 256, budget_bytes >= chunk_bytes. */
void base_arena_init(struct base_arena *arena, size_t chunk_bytes, size_t budget_bytes);

/* Gives back everything but one chunk of the usual size, whose memory is reused. */
void base_arena_reset(struct base_arena *arena);

/* Gives back everything; base_arena_init() is needed before the next use. */
void base_arena_release(struct base_arena *arena);

/* Zeroed memory aligned to 16 bytes (64 with the _aligned64 form), valid until reset or release.
 * NULL when the budget or the machine's memory is spent. bytes may be 0: a valid unique pointer. */
void *base_arena_alloc(struct base_arena *arena, size_t bytes) __attribute__((warn_unused_result));
void *base_arena_alloc_aligned64(struct base_arena *arena, size_t bytes)
    __attribute__((warn_unused_result));

/* count * size bytes; NULL also when the product overflows. */
void *base_arena_array(struct base_arena *arena, size_t count, size_t size)
    __attribute__((warn_unused_result));

/* A copy of length bytes with a NUL behind them, or NULL. */
char *base_arena_text(struct base_arena *arena, const char *text, size_t length)
    __attribute__((warn_unused_result));

#endif
