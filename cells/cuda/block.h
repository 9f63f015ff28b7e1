/* What the code of a thread block may use: barriers, warps, memory, clock; and nothing else.
 *
 * Block code is written once, in the common subset of C11 and CUDA C++. nvcc makes each of these
 * functions an instruction or two; a C compiler leaves them to an emulator (tests/cuda/fiber.h)
 * that runs each thread as a fiber, under random schedules, and checks that every two accesses of
 * which one writes are ordered. So block code touches memory that others touch only through here.
 *
 * A *site* names a place of synchronisation, so that a test can take it away and see that this is
 * noticed; a GPU does not hear of it. Warp functions are called by all 32 threads of a warp
 * together; shfl, all and mma order no memory, warp_sync does. */
#ifndef CELLS_CUDA_BLOCK_H
#define CELLS_CUDA_BLOCK_H

#include "cells/lane/word.h"

#define CELL_WARP 32u

/* Four words that are read and written together. */
struct cell_u32x4 {
    alignas(16) uint32_t v[4];
};

struct cell_f32x4 {
    alignas(16) float v[4];
};

#ifdef __CUDACC__
#    define CELL_BLOCK_FN     static __device__ __forceinline__
#    define CELL_BLOCK_UNROLL _Pragma("unroll")
#    define CELL_BLOCK_ROLLED _Pragma("unroll 1")
#else
#    define CELL_BLOCK_FN static inline
#    define CELL_BLOCK_UNROLL
#    define CELL_BLOCK_ROLLED
#endif

#ifdef __CUDACC__

/* ---- Threads ---- */

CELL_BLOCK_FN uint32_t cell_block_thread(void)
{
    return threadIdx.x;
}

/* Waits until `threads` threads have come to barrier `number` (0..15), by sync or by arrive; what
 * they wrote before is visible to those that sync. */
CELL_BLOCK_FN void cell_block_sync(uint32_t site, uint32_t number, uint32_t threads)
{
    (void)site;
    __syncwarp(); // the instruction wants a warp's threads together
    asm volatile("bar.sync %0, %1;" : : "r"(number), "r"(threads) : "memory");
}

/* Counts as one that has come, and goes on. Not twice before the barrier has opened. */
CELL_BLOCK_FN void cell_block_arrive(uint32_t site, uint32_t number, uint32_t threads)
{
    (void)site;
    __syncwarp();
    asm volatile("bar.arrive %0, %1;" : : "r"(number), "r"(threads) : "memory");
}

/* ---- Warps ---- */

CELL_BLOCK_FN void cell_warp_sync(uint32_t site)
{
    (void)site;
    __syncwarp();
}

/* The value of thread `from` of the warp. */
CELL_BLOCK_FN uint32_t cell_warp_shfl(uint32_t value, uint32_t from)
{
    return __shfl_sync(0xFFFFFFFFu, value, (int)from);
}

CELL_BLOCK_FN float cell_warp_shfl_f32(float value, uint32_t from)
{
    return __shfl_sync(0xFFFFFFFFu, value, (int)from);
}

/* Whether it holds of all threads of the warp. */
CELL_BLOCK_FN bool cell_warp_all(bool is_so)
{
    return __all_sync(0xFFFFFFFFu, is_so) != 0;
}

/* sums += a b: 16 x 16 by 16 x 8, bf16 with sums in fp32; which element stands where is
 * cells/cuda/fragment.h. (PTX: mma.m16n8k16, sm_80 and later.) */
CELL_BLOCK_FN void cell_warp_mma(float sums[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* ---- Memory ---- */

/* Plain accesses, ordered by barriers and words; never through the read-only path (ld.global.nc),
 * which may return what stood there before this launch. */
// NOLINTBEGIN(bugprone-macro-parentheses): a type
#    define CELL_BLOCK_ACCESS(name, type)                                                          \
        CELL_BLOCK_FN type cell_block_load_##name(const type *at)                                  \
        {                                                                                          \
            return *at;                                                                            \
        }                                                                                          \
        CELL_BLOCK_FN void cell_block_store_##name(type *at, type value)                           \
        {                                                                                          \
            *at = value;                                                                           \
        }
// NOLINTEND(bugprone-macro-parentheses)

/* Asks that memory, which nobody writes any more, be near when it is read; a hint. */
CELL_BLOCK_FN void cell_block_prefetch(const void *at)
{
    asm volatile("prefetch.global.L1 [%0];" : : "l"(at));
}

/* A word in shared memory by which threads of the block tell each other of something; 64 bits, so
 * that none is ever used twice. */
CELL_BLOCK_FN uint64_t cell_block_word_load(uint32_t site, const uint64_t *word,
                                            enum cell_lane_order order)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(word);
    uint64_t value;
    (void)site;
    if (order == CELL_LANE_ACQUIRE) {
        asm volatile("ld.acquire.cta.shared.u64 %0, [%1];" : "=l"(value) : "r"(at) : "memory");
    } else {
        asm volatile("ld.relaxed.cta.shared.u64 %0, [%1];" : "=l"(value) : "r"(at) : "memory");
    }
    return value;
}

CELL_BLOCK_FN void cell_block_word_store(uint32_t site, uint64_t *word, uint64_t value,
                                         enum cell_lane_order order)
{
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(word);
    (void)site;
    if (order == CELL_LANE_RELEASE) {
        asm volatile("st.release.cta.shared.u64 [%0], %1;" : : "r"(at), "l"(value) : "memory");
    } else {
        asm volatile("st.relaxed.cta.shared.u64 [%0], %1;" : : "r"(at), "l"(value) : "memory");
    }
}

/* ---- Time ---- */

/* The device's clock; its steps are up to a microsecond. */
CELL_BLOCK_FN uint64_t cell_block_clock_ns(void)
{
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/* Sleeps up to twice as long. */
CELL_BLOCK_FN void cell_block_sleep(uint32_t ns)
{
    __nanosleep(ns);
}

#else

/* The emulator's; as above. */
uint32_t cell_block_thread(void);
void cell_block_sync(uint32_t site, uint32_t number, uint32_t threads);
void cell_block_arrive(uint32_t site, uint32_t number, uint32_t threads);
void cell_warp_sync(uint32_t site);
uint32_t cell_warp_shfl(uint32_t value, uint32_t from);
float cell_warp_shfl_f32(float value, uint32_t from);
bool cell_warp_all(bool is_so);
void cell_warp_mma(float sums[4], const uint32_t a[4], const uint32_t b[2]);
void cell_block_prefetch(const void *at);
uint64_t cell_block_word_load(uint32_t site, const uint64_t *word, enum cell_lane_order order);
void cell_block_word_store(uint32_t site, uint64_t *word, uint64_t value,
                           enum cell_lane_order order);
uint64_t cell_block_clock_ns(void);
void cell_block_sleep(uint32_t ns);

/* It hears of each access before it is made, but where who includes this has made it nothing. */
#    ifndef CELL_BLOCK_UNHEARD
void cell_block_touch(const void *at, uint32_t bytes, bool is_write);
#    else
#        define cell_block_touch(at, bytes, is_write) ((void)0)
#    endif

// NOLINTBEGIN(bugprone-macro-parentheses): a type
#    define CELL_BLOCK_ACCESS(name, type)                                                          \
        CELL_BLOCK_FN type cell_block_load_##name(const type *at)                                  \
        {                                                                                          \
            cell_block_touch(at, (uint32_t)sizeof(*at), false);                                    \
            return *at;                                                                            \
        }                                                                                          \
        CELL_BLOCK_FN void cell_block_store_##name(type *at, type value)                           \
        {                                                                                          \
            cell_block_touch(at, (uint32_t)sizeof(*at), true);                                     \
            *at = value;                                                                           \
        }
// NOLINTEND(bugprone-macro-parentheses)

#endif

CELL_BLOCK_ACCESS(u16, uint16_t)
CELL_BLOCK_ACCESS(u32, uint32_t)
CELL_BLOCK_ACCESS(u64, uint64_t)
CELL_BLOCK_ACCESS(f32, float)
CELL_BLOCK_ACCESS(u32x4, struct cell_u32x4)
CELL_BLOCK_ACCESS(f32x4, struct cell_f32x4)

/* Memory whose address a task or a row carries. */
CELL_BLOCK_FN void *cell_block_pointer(uint64_t address)
{
#ifdef CELL_BLOCK_BIAS
    address -= CELL_BLOCK_BIAS; // of a driver on a host, whose addresses are no pointers
#endif
    return (void *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
}

/* Which of the warp's threads this is. */
CELL_BLOCK_FN uint32_t cell_warp_lane(void)
{
    return cell_block_thread() % CELL_WARP;
}

/* What thread 0 of the warp has read, for all of it. */
CELL_BLOCK_FN uint64_t cell_warp_first_u64(uint64_t value)
{
    const uint64_t low = cell_warp_shfl((uint32_t)value, 0);
    return low | (uint64_t)cell_warp_shfl((uint32_t)(value >> 32), 0) << 32;
}

#endif
