/* What it costs until all blocks of a grid know that all others have come: the exchange at the end
 * of every step of a recurrent network whose units lie on many SMs.
 *
 *   grid.sync   cooperative groups' own
 *   counter     red.release on one word, ld.acquire polls of it by one thread a block
 *   flags       st.release on a word of each block's own, polled by a thread for each block
 *   tagged      no fence: 64-bit words of data and round, read until the round is right; 1 or 8
 *               words a block (8 are what one of 128 SMs has of 1,024 units)
 *
 * One block an SM, 256 threads. Each is also run with slots that every block writes before and
 * reads after the barrier, and must have seen all of them; tagged words are looked at in the timed
 * runs too. */
#include "bench/gpu/floor.cuh"

#include <cooperative_groups.h>

enum { THREADS = 256, ROUNDS = 1000, CHECKED_ROUNDS = 500, BLOCKS_MAX = 160, WORDS_MAX = 8 };

struct memory {
    uint64_t *counter; /* one */
    uint64_t *flags;   /* [blocks] */
    uint64_t *words;   /* [2][blocks * words of a block] */
    uint64_t *slots;   /* [2][BLOCKS_MAX] */
    unsigned long long *right;
    uint32_t *fault;
};

struct grid_sync {
    static constexpr const char *name = "grid.sync";
    static constexpr uint32_t words = 0;

    // Cannot be given up; a cooperative launch has all blocks running, and none leaves before the
    // end.
    static __device__ uint64_t pass(const memory &, uint64_t, patience &)
    {
        cooperative_groups::this_grid().sync();
        return 0;
    }
};

struct counter {
    static constexpr const char *name = "counter";
    static constexpr uint32_t words = 0;

    // bar.sync orders what the block's other threads wrote before thread 0's release; the release
    // adds to the counter, so that an acquire of the full count has all blocks' releases before it;
    // the second bar.sync hands that on. The counter only grows: a late poll still sees enough.
    static __device__ uint64_t pass(const memory &m, uint64_t round, patience &wait)
    {
        __syncthreads();
        if (threadIdx.x == 0) {
            add_release_gpu(m.counter, 1);
            const uint64_t all = round * gridDim.x;
            for (uint32_t turn = 0; load_acquire_gpu(m.counter) < all; turn++) {
                if (!wait.goes_on(turn, 1)) {
                    break;
                }
            }
        }
        __syncthreads();
        return 0;
    }
};

struct flags {
    static constexpr const char *name = "flags";
    static constexpr uint32_t words = 0;

    // As above, with a word for each block: each poller acquires one block's release, bar.sync
    // joins them.
    static __device__ uint64_t pass(const memory &m, uint64_t round, patience &wait)
    {
        __syncthreads();
        if (threadIdx.x == 0) {
            store_release_gpu(&m.flags[blockIdx.x], round);
        }
        if (threadIdx.x < gridDim.x) {
            for (uint32_t turn = 0; load_acquire_gpu(&m.flags[threadIdx.x]) < round; turn++) {
                if (!wait.goes_on(turn, 2)) {
                    break;
                }
            }
        }
        __syncthreads();
        return 0;
    }
};

__device__ uint32_t word_data(uint32_t word, uint64_t round)
{
    return word * 2654435761u + static_cast<uint32_t>(round) * 40503u + 1u;
}

/* A word is read whole (one 64-bit scalar), so data with the right round is that round's data. Two
 * buffers by the round's parity are enough: who writes round t + 2 has read all words of round t +
 * 1, which others write only after the bar.sync that ends their reads of round t. Those reads have
 * returned the values that let the loop end, so no later store can be seen by them. Equality of
 * rounds is compared, in 32 bits. */
template <uint32_t WORDS> struct tagged {
    static constexpr const char *name = WORDS == 1 ? "tagged 1" : "tagged 8";
    static constexpr uint32_t words = WORDS;
    static constexpr uint32_t each = (BLOCKS_MAX * WORDS + THREADS - 1) / THREADS;

    /* How many words this thread has found right. */
    static __device__ uint64_t pass(const memory &m, uint64_t round, patience &wait)
    {
        const uint32_t all = gridDim.x * WORDS;
        uint64_t *const buffer = m.words + (round & 1u) * all;
        const auto tag = static_cast<uint32_t>(round);
        if (threadIdx.x < WORDS) {
            const uint32_t own = blockIdx.x * WORDS + threadIdx.x;
            store_relaxed_gpu(&buffer[own],
                              static_cast<uint64_t>(tag) << 32 | word_data(own, round));
        }
        uint64_t got[each];
        uint64_t right = 0;
#pragma unroll
        for (uint32_t i = 0; i < each; i++) { // all on their way before the first is looked at
            const uint32_t word = i * THREADS + threadIdx.x;
            got[i] = word < all ? load_relaxed_gpu(&buffer[word]) : 0;
        }
#pragma unroll
        for (uint32_t i = 0; i < each; i++) {
            const uint32_t word = i * THREADS + threadIdx.x;
            for (uint32_t turn = 0; word < all && (got[i] >> 32) != tag; turn++) {
                if (!wait.goes_on(turn, 3)) {
                    break;
                }
                got[i] = load_relaxed_gpu(&buffer[word]);
            }
            right += word < all && static_cast<uint32_t>(got[i]) == word_data(word, round);
        }
        __syncthreads();
        return right;
    }
};

/* Rounds first + 1 .. first + rounds. right[0] counts words that were as they should be. */
template <class BARRIER, bool HAS_SLOTS>
__global__ void __launch_bounds__(THREADS, 1)
    barrier_kernel(memory m, uint64_t first, uint32_t rounds)
{
    patience wait(m.fault);
    uint64_t right = 0;
    for (uint64_t round = first + 1; round <= first + rounds; round++) {
        uint64_t *const slots = m.slots + (round & 1u) * BLOCKS_MAX;
        // Not by thread 0, whose release must cover it all the same.
        if (HAS_SLOTS && threadIdx.x == THREADS - 1) {
            store_relaxed_gpu(&slots[blockIdx.x], round * 1000 + blockIdx.x);
        }
        right += BARRIER::pass(m, round, wait);
        // A block rewrites this slot after the next barrier, which this thread has then left
        // behind.
        if (HAS_SLOTS && threadIdx.x < gridDim.x) {
            right += load_relaxed_gpu(&slots[threadIdx.x]) == round * 1000 + threadIdx.x;
        }
    }
    atomicAdd(m.right, static_cast<unsigned long long>(right));
}

template <class BARRIER> static void measure(rig &r, json_line &line, int blocks)
{
    if (blocks > BLOCKS_MAX) {
        throw unsupported{"more blocks than a thread has words for"};
    }
    shape s = {blocks, THREADS};
    // More than half of an SM's shared memory: no two blocks on one.
    s.shared_bytes =
        std::min(r.about.sharedMemPerBlockOptin, r.about.sharedMemPerMultiprocessor / 2 + 1024);
    s.is_cooperative = true;
    want_resident(r, s, barrier_kernel<BARRIER, true>);
    want_resident(r, s, barrier_kernel<BARRIER, false>);
    device_array<uint64_t> words(1 + BLOCKS_MAX + 2 * BLOCKS_MAX * WORDS_MAX + 2 * BLOCKS_MAX);
    device_array<unsigned long long> right(1);
    memory m = {};
    m.counter = words.at;
    m.flags = m.counter + 1;
    m.words = m.flags + BLOCKS_MAX;
    m.slots = m.words + 2 * BLOCKS_MAX * WORDS_MAX;
    m.right = right.at;
    m.fault = r.fault;
    uint64_t round = 0;
    const auto pairs = static_cast<uint64_t>(blocks) * static_cast<uint64_t>(blocks);

    // Tagged words alone do not order what else a block wrote, so slots are not for them.
    const bool has_slots = BARRIER::words == 0;
    if (has_slots) {
        TRY(launch(r, s, barrier_kernel<BARRIER, true>, m, round, CHECKED_ROUNDS));
        TRY(cudaStreamSynchronize(r.stream));
        r.want_no_fault();
        round += CHECKED_ROUNDS;
        want(right.get()[0] == pairs * CHECKED_ROUNDS, "a block left before all others had come");
    }
    r.repeat(line, ROUNDS, [&] {
        TRY(launch(r, s, barrier_kernel<BARRIER, false>, m, round, ROUNDS));
        round += ROUNDS;
    });
    const uint64_t launches = REPEATS + WARM_UPS;
    want(has_slots || right.get()[0] == pairs * BARRIER::words * ROUNDS * launches,
         "a word was not as its block wrote it");
}

template <class BARRIER> static void measure_all(rig &r)
{
    std::vector<int> sizes = {8, 32, 64, 128};
    if (r.sms() > 128) {
        sizes.push_back(r.sms());
    }
    for (const int blocks : sizes) {
        r.run(
            BARRIER::name,
            [&](json_line &line) {
                line.number("blocks", blocks);
                line.number("threads", THREADS);
            },
            [&](json_line &line) { measure<BARRIER>(r, line, blocks); });
    }
}

int main()
{
    return run_all("barrier", [](rig &r) {
        measure_all<grid_sync>(r);
        measure_all<counter>(r);
        measure_all<flags>(r);
        measure_all<tagged<1>>(r);
        measure_all<tagged<8>>(r);
    });
}
