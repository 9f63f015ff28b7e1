/* Words that a host and a device share, and how each is read and written.
 *
 * C11 and CUDA C++ both compile this: in C a word is an _Atomic, in CUDA a plain integer of the
 * same size that only these functions touch (inline PTX of system scope on the device, the
 * compiler's atomics in nvcc's host code). There are loads and stores and nothing else: a device
 * has no read-modify-write on host memory that all buses promise, so each word is written by one
 * side only.
 *
 * An access names its *site* (cells/lane/contract.h), and the site has its order in one table; so
 * the orders that run are the orders that tests/lane/model.c proves to be enough. */
#ifndef CELLS_LANE_WORD_H
#define CELLS_LANE_WORD_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#    define CELL_LANE_FN static inline __host__ __device__
#else
#    define CELL_LANE_FN static inline
#endif

#ifdef __cplusplus
typedef uint32_t cell_word32;
typedef uint64_t cell_word64;
#    define CELL_LANE_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#    include <stdatomic.h>
typedef _Atomic uint32_t cell_word32;
typedef _Atomic uint64_t cell_word64;
#    define CELL_LANE_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

CELL_LANE_STATIC_ASSERT(sizeof(cell_word32) == 4 && alignof(cell_word32) == 4, "one plain word");
CELL_LANE_STATIC_ASSERT(sizeof(cell_word64) == 8 && alignof(cell_word64) == 8, "one plain word");

/* PLAIN: memory that changes hands whole, no word; it is ordered by a word before or behind it. */
enum cell_lane_order {
    CELL_LANE_PLAIN,
    CELL_LANE_RELAXED,
    CELL_LANE_ACQUIRE, /* a load; what was written before the store it reads is visible behind it */
    CELL_LANE_RELEASE, /* a store; all that was written before it is visible to who acquires it */
};

/* A test that defines CELL_WORD_TRACE hears of each access before it is made. */
#ifdef CELL_WORD_TRACE
void cell_word_trace(const void *word, enum cell_lane_order order, bool is_store);
#else
#    define cell_word_trace(word, order, is_store) ((void)0)
#endif

/* The order is a constant at each call, so of the branches one remains. */

CELL_LANE_FN uint64_t cell_word64_load(const cell_word64 *word, enum cell_lane_order order)
{
    cell_word_trace(word, order, false);
#if defined(__CUDA_ARCH__)
    uint64_t value;
    if (order == CELL_LANE_ACQUIRE) {
        asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    } else {
        asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    }
    return value;
#elif defined(__cplusplus)
    return order == CELL_LANE_ACQUIRE ? __atomic_load_n(word, __ATOMIC_ACQUIRE)
                                      : __atomic_load_n(word, __ATOMIC_RELAXED);
#else
    return order == CELL_LANE_ACQUIRE ? atomic_load_explicit(word, memory_order_acquire)
                                      : atomic_load_explicit(word, memory_order_relaxed);
#endif
}

CELL_LANE_FN uint32_t cell_word32_load(const cell_word32 *word, enum cell_lane_order order)
{
    cell_word_trace(word, order, false);
#if defined(__CUDA_ARCH__)
    uint32_t value;
    if (order == CELL_LANE_ACQUIRE) {
        asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    } else {
        asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    }
    return value;
#elif defined(__cplusplus)
    return order == CELL_LANE_ACQUIRE ? __atomic_load_n(word, __ATOMIC_ACQUIRE)
                                      : __atomic_load_n(word, __ATOMIC_RELAXED);
#else
    return order == CELL_LANE_ACQUIRE ? atomic_load_explicit(word, memory_order_acquire)
                                      : atomic_load_explicit(word, memory_order_relaxed);
#endif
}

CELL_LANE_FN void cell_word64_store(cell_word64 *word, uint64_t value, enum cell_lane_order order)
{
    cell_word_trace(word, order, true);
#if defined(__CUDA_ARCH__)
    if (order == CELL_LANE_RELEASE) {
        asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
    } else {
        asm volatile("st.relaxed.sys.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
    }
#elif defined(__cplusplus)
    if (order == CELL_LANE_RELEASE) {
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    } else {
        __atomic_store_n(word, value, __ATOMIC_RELAXED);
    }
#else
    if (order == CELL_LANE_RELEASE) {
        atomic_store_explicit(word, value, memory_order_release);
    } else {
        atomic_store_explicit(word, value, memory_order_relaxed);
    }
#endif
}

CELL_LANE_FN void cell_word32_store(cell_word32 *word, uint32_t value, enum cell_lane_order order)
{
    cell_word_trace(word, order, true);
#if defined(__CUDA_ARCH__)
    if (order == CELL_LANE_RELEASE) {
        asm volatile("st.release.sys.u32 [%0], %1;" : : "l"(word), "r"(value) : "memory");
    } else {
        asm volatile("st.relaxed.sys.u32 [%0], %1;" : : "l"(word), "r"(value) : "memory");
    }
#elif defined(__cplusplus)
    if (order == CELL_LANE_RELEASE) {
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    } else {
        __atomic_store_n(word, value, __ATOMIC_RELAXED);
    }
#else
    if (order == CELL_LANE_RELEASE) {
        atomic_store_explicit(word, value, memory_order_release);
    } else {
        atomic_store_explicit(word, value, memory_order_relaxed);
    }
#endif
}

#endif
