/* The only place that calls malloc and free.
 *
 * Every allocation is counted, so that tests can prove that a step allocates nothing, and can be
 * made to fail at the n-th call, so that tests walk every out-of-memory path. Thread-safe. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

/* Cache line, and the alignment of base_alloc_aligned() memory for 512-bit vectors. */
#define BASE_CACHE_LINE 64u

/* bytes > 0. Zeroed memory aligned for any scalar, or NULL. Free with base_free(). */
void *base_alloc(size_t bytes) __attribute__((warn_unused_result));

/* count * size bytes, zeroed; NULL also when the product overflows. Free with base_free(). */
void *base_alloc_array(size_t count, size_t size) __attribute__((warn_unused_result));

/* bytes > 0, alignment a power of two. Zeroed, or NULL. Free with base_free(). */
void *base_alloc_aligned(size_t bytes, size_t alignment) __attribute__((warn_unused_result));

/* bytes > 0. Zeroed memory on a cache line, or NULL, for what is read over and over: where the
 * system has huge pages to give, large blocks lie in them, so that addresses are found in fewer
 * steps and physically indexed caches fill evenly. May round up, by half a huge page at most. Free
 * with base_free(). */
void *base_alloc_large(size_t bytes) __attribute__((warn_unused_result));

/* Like realloc(); new bytes are not zeroed. On NULL the old memory is untouched. */
void *base_realloc(void *memory, size_t bytes) __attribute__((warn_unused_result));

/* A copy of text with its NUL, or NULL. Free with base_free(). */
char *base_strdup(const char *text) __attribute__((warn_unused_result));

/* NULL is allowed. */
void base_free(void *memory);

/* Before any thread starts: all threads share one heap of the C library, instead of one each that
 * grows by itself. With the caches that the library gives each thread this costs nothing here, and
 * memory stays where it is under constant load. And the heap keeps up to 128 MiB that are free at
 * its end, for the next large request. The environment's MALLOC_ARENA_MAX and
 * MALLOC_TRIM_THRESHOLD_ win. */
void base_mem_configure(void);

/* Number of successful allocations so far, over all threads. */
uint64_t base_alloc_count(void);

/* Test knob: the n-th allocation from now (1 = the next) returns NULL once; 0 turns it off. */
void base_alloc_fail_at(uint64_t n);

#endif
