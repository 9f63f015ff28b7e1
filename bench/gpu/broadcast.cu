/* Every SM reads the same bytes from L2, as each does with the state of all units between two
 * steps.
 *
 *   loads      16-byte loads of scope gpu by 512 threads, added up
 *   bulk       cp.async.bulk into shared memory, by each block for itself (from 9.0 on)
 *   multicast  each block of a cluster copies its part of the bytes into all blocks of the cluster
 *
 * Multicast is to be built for sm_90a: plain sm_90 has it without the promise that it is fast. One
 * block an SM; a round begins when the block has all bytes of the round before, so a round's
 * time contains the latency of one dependent step. The timed runs of `loads` are checked by their
 * sums. Bulk copies are checked by a run that adds up what arrived; the timed ones only wait for
 * it. */
#include "bench/gpu/floor.cuh"

enum {
    THREADS = 512,
    ROUNDS = 500,
    CHECKED_ROUNDS = 20,
    ITEM_BYTES = 32768, /* a bulk copy's part */
    SLOTS = 4           /* items that shared memory holds */
};

struct memory {
    const uint4 *from;
    uint32_t bytes;
    uint32_t *sums; /* [blocks]: of all words of all rounds, modulo 2^32 */
    uint32_t *fault;
};

__device__ uint4 load_vector(const uint4 *at)
{
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at)
                 : "memory");
    return v;
}

__device__ uint32_t sum_of(const uint4 &v)
{
    return v.x + v.y + v.z + v.w;
}

/* Never by the first level's cache, which relaxed loads of scope gpu pass by. */
__global__ void __launch_bounds__(THREADS, 1) loads_kernel(memory m, uint32_t rounds)
{
    constexpr uint32_t AT_ONCE = 8;
    const uint32_t vectors = m.bytes / 16;
    uint32_t sum = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t first = threadIdx.x; first < vectors; first += AT_ONCE * THREADS) {
            uint4 got[AT_ONCE];
#pragma unroll
            for (uint32_t i = 0; i < AT_ONCE; i++) {
                const uint32_t at = first + i * THREADS;
                got[i] = at < vectors ? load_vector(&m.from[at]) : make_uint4(0, 0, 0, 0);
            }
#pragma unroll
            for (uint32_t i = 0; i < AT_ONCE; i++) {
                sum += sum_of(got[i]);
            }
        }
        __syncthreads();
    }
    atomicAdd(&m.sums[blockIdx.x], sum);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ uint32_t shared_address(const void *at)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

__device__ uint32_t special(bool is_count)
{
    uint32_t value;
    if (is_count) {
        asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(value));
    } else {
        asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(value));
    }
    return value;
}

__device__ void expect(uint32_t bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(bar),
                 "r"(bytes)
                 : "memory");
}

__device__ bool is_done(uint32_t bar, uint32_t parity)
{
    uint32_t done;
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(done)
                 : "r"(bar), "r"(parity)
                 : "memory");
    return done != 0;
}

/* The bytes and the count go to the same offsets in all blocks of the mask. */
__device__ void copy_to_cluster(uint32_t to, const void *from, uint32_t bytes, uint32_t bar,
                                uint16_t mask)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(bar), "h"(mask)
                 : "memory");
}

__device__ void copy_to_block(uint32_t to, const void *from, uint32_t bytes, uint32_t bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(bar)
                 : "memory");
}

__device__ void sync_cluster()
{
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

/* What one block does with items, numbered over all rounds; item j lies in slot j % SLOTS and is
 * counted by that slot's mbarrier, whose phase j / SLOTS it is. */
struct items {
    const memory &m;
    unsigned char *slots;
    uint64_t *bars;
    bool is_multicast;
    patience wait;
    uint32_t sum;

    __device__ uint32_t bytes(uint32_t part) const
    {
        return min(static_cast<uint32_t>(ITEM_BYTES), m.bytes - part * ITEM_BYTES);
    }

    /* By one thread. Each block expects the whole item, and copies its share of it. Who has given
     * up starts nothing more. */
    __device__ void start(uint32_t item, uint32_t part)
    {
        if (wait.is_over) {
            return;
        }
        const uint32_t all = bytes(part);
        const uint32_t bar = shared_address(&bars[item % SLOTS]);
        const uint32_t to = shared_address(slots + item % SLOTS * ITEM_BYTES);
        const auto *from = reinterpret_cast<const unsigned char *>(m.from) + part * ITEM_BYTES;
        expect(bar, all);
        if (is_multicast) {
            const uint32_t share = all / special(true);
            const uint32_t offset = share * special(false);
            const auto mask = static_cast<uint16_t>((1u << special(true)) - 1u);
            copy_to_cluster(to + offset, from + offset, share, bar, mask);
        } else {
            copy_to_block(to, from, all, bar);
        }
    }

    /* By all threads. */
    template <bool IS_SUMMED> __device__ void finish(uint32_t item, uint32_t part)
    {
        const uint32_t bar = shared_address(&bars[item % SLOTS]);
        for (uint32_t turn = 0; !is_done(bar, item / SLOTS & 1u); turn++) {
            if (!wait.goes_on(turn * 256 + 255, 1)) { // a turn may sleep in hardware: look at each
                break;
            }
        }
        if (IS_SUMMED) {
            const auto *got = reinterpret_cast<const uint4 *>(slots + item % SLOTS * ITEM_BYTES);
            for (uint32_t i = threadIdx.x; i < bytes(part) / 16; i += THREADS) {
                sum += sum_of(got[i]);
            }
            // The copies that come next into this slot are of another proxy than these reads.
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        }
        __syncthreads();
    }
};

/* Two items are on their way at most, and none of the next round. An item is started when the one
 * two before it is finished here. All blocks of the cluster had started that one, and so, by the
 * same rule, had finished the one four before: its slot is free in all of them, and its mbarrier's
 * phase over. Bytes may be counted before a block has said what it expects: the phase does not end
 * before that arrival. */
template <bool IS_SUMMED>
__device__ uint32_t bulk_rounds(const memory &m, uint32_t rounds, bool is_multicast)
{
    extern __shared__ __align__(128) unsigned char slots[];
    __shared__ alignas(8) uint64_t bars[SLOTS];
    items it = {m, slots, bars, is_multicast, patience(m.fault), 0};
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < SLOTS; i++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&bars[i]))
                         : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    sync_cluster();
    const uint32_t parts = (m.bytes + ITEM_BYTES - 1) / ITEM_BYTES;
    for (uint32_t round = 0; round < rounds; round++) {
        const uint32_t first = round * parts;
        for (uint32_t part = 0; part < parts + 2; part++) {
            if (part >= 2) {
                it.finish<IS_SUMMED>(first + part - 2, part - 2);
            }
            if (part < parts && threadIdx.x == 0) {
                it.start(first + part, part);
            }
        }
    }
    sync_cluster(); // nobody copies into a block that has left
    return it.sum;
}

#else

template <bool IS_SUMMED> __device__ uint32_t bulk_rounds(const memory &, uint32_t, bool)
{
    return 0;
}

#endif

template <bool IS_SUMMED>
__global__ void __launch_bounds__(THREADS, 1)
    bulk_kernel(memory m, uint32_t rounds, bool is_multicast)
{
    const uint32_t sum = bulk_rounds<IS_SUMMED>(m, rounds, is_multicast);
    atomicAdd(&m.sums[blockIdx.x], sum);
}

struct source {
    device_array<uint32_t> words;
    device_array<uint32_t> sums;
    uint32_t sum = 0;

    source(uint32_t bytes, int blocks) : words(bytes / 4), sums(static_cast<size_t>(blocks))
    {
        draws random(bytes);
        std::vector<uint32_t> values(bytes / 4);
        for (uint32_t &v : values) {
            v = static_cast<uint32_t>(random.next()) | 1u;
            sum += v;
        }
        words.set(values.data());
    }
    memory arguments(const rig &r, uint32_t bytes) const
    {
        return {reinterpret_cast<const uint4 *>(words.at), bytes, sums.at, r.fault};
    }
    /* After so many rounds of every block. */
    void want_sums(uint32_t rounds) const
    {
        for (const uint32_t got : sums.get()) {
            want(got == sum * rounds, "a block's sum is not that of the bytes");
        }
    }
};

static void sizes(json_line &line, uint32_t bytes, int blocks)
{
    line.number("blocks", blocks);
    line.number("bytes_all_blocks", static_cast<double>(bytes) * blocks);
}

static void measure_loads(rig &r, json_line &line, uint32_t bytes)
{
    shape s = {r.sms(), THREADS};
    s.shared_bytes = r.about.sharedMemPerMultiprocessor / 2 + 1024; // one block an SM
    s.shared_bytes = std::min(s.shared_bytes, r.about.sharedMemPerBlockOptin);
    want_resident(r, s, loads_kernel);
    source from(bytes, s.blocks);
    sizes(line, bytes, s.blocks);
    r.repeat(line, ROUNDS,
             [&] { TRY(launch(r, s, loads_kernel, from.arguments(r, bytes), ROUNDS)); });
    from.want_sums(ROUNDS * (REPEATS + WARM_UPS));
}

static int clusters_that_fit(const rig &r, const shape &s)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned>(s.cluster), 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(s.cluster));
    config.blockDim = dim3(THREADS);
    config.dynamicSmemBytes = s.shared_bytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int clusters = r.sms();
    if (s.cluster > 1) {
        TRY(cudaOccupancyMaxActiveClusters(&clusters, bulk_kernel<true>, &config));
    }
    if (clusters == 0) {
        throw unsupported{"no cluster of this size fits"};
    }
    return clusters;
}

/* A cluster of 1 has no multicast. */
static void measure_bulk(rig &r, json_line &line, uint32_t bytes, int cluster)
{
    if (!r.is_hopper()) {
        throw unsupported{"bulk copies need compute capability 9.0"};
    }
    shape s = {cluster, THREADS};
    s.shared_bytes = ITEM_BYTES * SLOTS;
    s.cluster = cluster;
    want_resident(r, s, bulk_kernel<true>);
    want_resident(r, s, bulk_kernel<false>);
    s.blocks = clusters_that_fit(r, s) * cluster;
    source from(bytes, s.blocks);
    sizes(line, bytes, s.blocks);
    const bool is_multicast = cluster > 1;
    TRY(launch(r, s, bulk_kernel<true>, from.arguments(r, bytes), CHECKED_ROUNDS, is_multicast));
    TRY(cudaStreamSynchronize(r.stream));
    r.want_no_fault();
    from.want_sums(CHECKED_ROUNDS);
    r.repeat(line, ROUNDS, [&] {
        TRY(launch(r, s, bulk_kernel<false>, from.arguments(r, bytes), ROUNDS, is_multicast));
    });
    from.want_sums(CHECKED_ROUNDS); // the timed runs add nothing
}

int main()
{
    return run_all("broadcast", [](rig &r) {
        for (const uint32_t kib : {2u, 4u, 8u, 16u, 32u, 64u, 128u, 256u}) {
            const uint32_t bytes = kib * 1024;
            const auto describe = [&](json_line &line) { line.number("kib", kib); };
            r.run("loads", describe, [&](json_line &line) { measure_loads(r, line, bytes); });
            r.run("bulk", describe, [&](json_line &line) { measure_bulk(r, line, bytes, 1); });
            for (const int cluster : {2, 4, 8}) {
                r.run(
                    "multicast",
                    [&](json_line &line) {
                        line.number("kib", kib);
                        line.number("cluster", cluster);
                    },
                    [&](json_line &line) { measure_bulk(r, line, bytes, cluster); });
            }
        }
    });
}
