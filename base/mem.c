/* Counted allocation over the C library, with a failure knob for tests.
 *
 * Two process-wide atomics: the number of successful allocations, and how many calls are left until
 * one fails (0 = off). Any thread. Cost over malloc: one relaxed load and one relaxed add. */
#include "base/mem.h"

#include "base/assert.h"
#include "base/checked.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The page that x86-64 and 64-bit ARM with pages of 4 KiB have above the usual one. */
#define HUGE_PAGE ((size_t)2 << 20)

/* Blocks from here on are the system's own pages, and go back when freed: the most that the C
 * library takes. */
#define MAPPED_BYTES (32 << 20)

/* Free memory at the heap's end that stays. A long request of a large model takes tens of MB; given
 * back and taken again, each of its pages is cleared by the system and faulted in anew. Zen 4, four
 * rows of 63 frames of a speech model of 31 stages, 40 MB: 45 ms so, 33 where it stays. */
#define KEPT_BYTES (128 << 20)

static _Atomic uint64_t allocations;
static _Atomic uint64_t calls_until_failure;

/* Counts the failure knob down; false when this very call has to fail. */
static bool may_allocate(void)
{
    uint64_t left = atomic_load_explicit(&calls_until_failure, memory_order_relaxed);
    while (left != 0) {
        if (atomic_compare_exchange_weak_explicit(&calls_until_failure, &left, left - 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {
            return left != 1;
        }
    }
    return true;
}

static void *counted(void *memory)
{
    if (memory != NULL) {
        atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    }
    return memory;
}

void *base_alloc(size_t bytes)
{
    base_assert(bytes > 0);
    return may_allocate() ? counted(calloc(1, bytes)) : NULL;
}

void *base_alloc_array(size_t count, size_t size)
{
    size_t bytes;
    if (!base_size_mul(count, size, &bytes)) {
        return NULL;
    }
    return base_alloc(bytes);
}

static void *alloc_at(size_t bytes, size_t alignment)
{
    // posix_memalign() wants at least the alignment of a pointer.
    size_t at_least = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    void *memory = NULL;
    return may_allocate() && posix_memalign(&memory, at_least, bytes) == 0 ? counted(memory) : NULL;
}

void *base_alloc_aligned(size_t bytes, size_t alignment)
{
    base_assert(bytes > 0);
    base_assert(alignment > 0 && (alignment & (alignment - 1)) == 0);
    void *memory = alloc_at(bytes, alignment);
    if (memory != NULL) {
        memset(memory, 0, bytes);
    }
    return memory;
}

void *base_alloc_large(size_t bytes)
{
    size_t rest = bytes % HUGE_PAGE;
    bool fills = rest >= HUGE_PAGE / 2;
    if (bytes - rest == 0 && !fills) {
        return base_alloc_aligned(bytes, BASE_CACHE_LINE);
    }
    size_t whole = bytes;
    if (fills && !base_size_add(bytes - rest, HUGE_PAGE, &whole)) {
        return NULL;
    }
    void *memory = alloc_at(whole, HUGE_PAGE);
    if (memory != NULL) {
        // Advice, before the pages are first touched: a system that has none to give says so here,
        // and the memory is as good as any.
        (void)madvise(memory, whole, MADV_HUGEPAGE);
        memset(memory, 0, bytes);
    }
    return memory;
}

void *base_realloc(void *memory, size_t bytes)
{
    base_assert(bytes > 0);
    return may_allocate() ? counted(realloc(memory, bytes)) : NULL;
}

char *base_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = base_alloc(bytes);
    if (copy != NULL) {
        memcpy(copy, text, bytes);
    }
    return copy;
}

void base_free(void *memory)
{
    free(memory);
}

uint64_t base_alloc_count(void)
{
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

void base_alloc_fail_at(uint64_t n)
{
    atomic_store_explicit(&calls_until_failure, n, memory_order_relaxed);
}

void base_mem_configure(void)
{
    // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs yet
    if (getenv("MALLOC_ARENA_MAX") == NULL) {
        (void)mallopt(M_ARENA_MAX, 1);
    }
    if (getenv("MALLOC_TRIM_THRESHOLD_") == NULL) {
        (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
        (void)mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    }
    // NOLINTEND(concurrency-mt-unsafe)
}
