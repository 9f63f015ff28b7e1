/* Exchanges within a thread block cluster (compute capability 9.0 on), and what clusters fit.
 *
 *   fit           how many clusters of a size run at the same time, a block an SM
 *   cooperative   may a launch be cooperative and have clusters?
 *   cluster.sync  barrier.cluster, release and acquire
 *   push          every block stores 256 bytes into every block of its cluster (st.async), until
 *                 its own mbarrier has counted the bytes of all: data and arrival in one
 *
 * The wait of a push acquires with the cluster's scope, as it must by the letter, or with the
 * block's, as is usual. Barrier and push run with one cluster and with all that fit. All are
 * checked by what blocks read. */
#include "bench/gpu/floor.cuh"

enum { THREADS = 256, ROUNDS = 1000, CHECKED_ROUNDS = 500, CLUSTER_MAX = 16, WORDS = 32 };

struct memory {
    uint64_t *arrivals;        /* of a barrier of the whole grid */
    unsigned long long *right; /* words that were as they should be */
    uint32_t *fault;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ uint32_t shared_address(const void *at)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

/* Where the same variable of another block of the cluster lies. */
__device__ uint32_t peer_address(uint32_t own, uint32_t rank)
{
    uint32_t address;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(own), "r"(rank));
    return address;
}

__device__ uint32_t cluster_rank()
{
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ uint32_t cluster_blocks()
{
    uint32_t count;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
    return count;
}

/* The hardware's barrier cannot be given up; a cluster is placed whole, and no thread leaves early.
 */
__device__ void cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\n\t"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

__device__ uint32_t load_peer(uint32_t address)
{
    uint32_t value;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

/* Two slots by parity: a block rewrites one two barriers later, when its readers of this round have
 * passed the barrier in between. */
template <bool HAS_SLOTS> __device__ uint64_t sync_rounds(uint32_t rounds)
{
    __shared__ uint32_t slots[2];
    uint64_t right = 0;
    const uint32_t rank = cluster_rank();
    const uint32_t count = cluster_blocks();
    for (uint32_t round = 0; round < rounds; round++) {
        if (HAS_SLOTS && threadIdx.x == THREADS - 1) {
            slots[round & 1u] = round * CLUSTER_MAX + rank;
        }
        __syncwarp(); // the aligned forms want whole warps
        cluster_sync();
        if (HAS_SLOTS && threadIdx.x < count) {
            const uint32_t at = peer_address(shared_address(&slots[round & 1u]), threadIdx.x);
            right += load_peer(at) == round * CLUSTER_MAX + threadIdx.x;
        }
    }
    __syncwarp();
    cluster_sync(); // nobody reads the memory of a block that has left
    return right;
}

__device__ void mbarrier_init(uint32_t bar, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

__device__ void mbarrier_expect(uint32_t bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(bar),
                 "r"(bytes)
                 : "memory");
}

#    define TRY_WAIT(scope, is_done, bar, parity)                                                  \
        asm volatile("{\n\t.reg .pred p;\n\t"                                                      \
                     "mbarrier.try_wait.parity.acquire." scope ".shared::cta.b64 p, [%1], %2;\n\t" \
                     "selp.u32 %0, 1, 0, p;\n\t}"                                                  \
                     : "=r"(is_done)                                                               \
                     : "r"(bar), "r"(parity)                                                       \
                     : "memory")

/* Acquire of the cluster's scope: the bytes that others stored are counted with a release of that
 * scope. It also empties L1, for what else those others may have written; that of the block's scope
 * does not. */
template <bool IS_OF_BLOCK> __device__ bool mbarrier_is_done(uint32_t bar, uint32_t parity)
{
    uint32_t is_done;
    if (IS_OF_BLOCK) {
        TRY_WAIT("cta", is_done, bar, parity);
    } else {
        TRY_WAIT("cluster", is_done, bar, parity);
    }
    return is_done != 0;
}

__device__ uint64_t push_value(uint32_t rank, uint32_t word, uint32_t round)
{
    return static_cast<uint64_t>(round * 2654435761u + 1u) << 32 | (rank * 1000u + word + 1u);
}

__device__ void push(uint32_t to, uint64_t value, uint32_t bar)
{
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(to),
        "l"(value), "r"(bar)
        : "memory");
}

/* Two buffers and two mbarriers by the round's parity. A block pushes round t + 1 after it has all
 * of round t and, behind bar.sync, has read it. So when a word of round t + 2 is stored here, its
 * sender has this block's words of t + 1, and this block is done with round t in the same buffer;
 * and the mbarrier's phase of round t is over. Bytes may be counted before this block has said how
 * many it expects: the phase does not end before that arrival. Who gives up pushes nothing more,
 * for nobody would count it. */
template <bool IS_OF_BLOCK> __device__ uint64_t push_rounds(const memory &m, uint32_t rounds)
{
    __shared__ alignas(16) uint64_t buffers[2][CLUSTER_MAX * WORDS];
    __shared__ alignas(8) uint64_t bars[2];
    const uint32_t rank = cluster_rank();
    const uint32_t all = cluster_blocks() * WORDS;
    patience wait(m.fault);
    uint64_t right = 0;
    if (threadIdx.x == 0) {
        mbarrier_init(shared_address(&bars[0]), 1);
        mbarrier_init(shared_address(&bars[1]), 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncwarp();
    cluster_sync();
    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t *const buffer = buffers[round & 1u];
        const uint32_t bar = shared_address(&bars[round & 1u]);
        if (threadIdx.x == 0 && !wait.is_over) {
            mbarrier_expect(bar, all * static_cast<uint32_t>(sizeof(uint64_t)));
        }
        for (uint32_t i = threadIdx.x; i < all && !wait.is_over; i += THREADS) {
            const uint32_t peer = i / WORDS;
            const uint32_t to = shared_address(&buffer[rank * WORDS + i % WORDS]);
            push(peer_address(to, peer), push_value(rank, i % WORDS, round),
                 peer_address(bar, peer));
        }
        for (uint32_t turn = 0; !mbarrier_is_done<IS_OF_BLOCK>(bar, (round >> 1) & 1u); turn++) {
            if (!wait.goes_on(turn * 256 + 255, 1)) { // a turn may sleep in hardware: look at each
                break;
            }
        }
        for (uint32_t i = threadIdx.x; i < all; i += THREADS) {
            right += buffer[i] == push_value(i / WORDS, i % WORDS, round);
        }
        __syncthreads();
    }
    cluster_sync();
    return right;
}

#else

template <bool HAS_SLOTS> __device__ uint64_t sync_rounds(uint32_t)
{
    return 0;
}

template <bool IS_OF_BLOCK> __device__ uint64_t push_rounds(const memory &, uint32_t)
{
    return 0;
}

#endif

enum what { SYNC, SYNC_CHECKED, PUSH, PUSH_OF_BLOCK };

template <what WHAT>
__global__ void __launch_bounds__(THREADS, 1) cluster_kernel(memory m, uint32_t rounds)
{
    uint64_t right = 0;
    if (WHAT == PUSH || WHAT == PUSH_OF_BLOCK) {
        right = push_rounds<WHAT == PUSH_OF_BLOCK>(m, rounds);
    } else {
        right = sync_rounds<WHAT == SYNC_CHECKED>(rounds);
    }
    atomicAdd(m.right, static_cast<unsigned long long>(right));
}

/* All blocks wait for all, by a counter. */
__global__ void __launch_bounds__(THREADS, 1) meet_kernel(memory m)
{
    patience wait(m.fault, 1000000000ull);
    if (threadIdx.x == 0) {
        add_release_gpu(m.arrivals, 1);
        uint32_t turn = 0;
        while (load_acquire_gpu(m.arrivals) < gridDim.x && wait.goes_on(turn, 2)) {
            turn++;
        }
        atomicAdd(m.right, wait.is_over ? 0ull : 1ull);
    }
}

template <class... P>
static int clusters_that_fit(const rig &r, const shape &s, void (*kernel)(P...))
{
    if (!r.is_hopper()) {
        throw unsupported{"clusters need compute capability 9.0"};
    }
    TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(s.shared_bytes)));
    TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned>(s.cluster), 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(s.cluster));
    config.blockDim = dim3(static_cast<unsigned>(s.threads));
    config.dynamicSmemBytes = s.shared_bytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int clusters = 0;
    TRY(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
    if (clusters == 0) {
        throw unsupported{"no cluster of this size fits"};
    }
    return clusters;
}

static shape block_an_sm(const rig &r, int cluster)
{
    shape s = {cluster, THREADS};
    s.shared_bytes =
        std::min(r.about.sharedMemPerBlockOptin - 16384, // less what kernels have by themselves
                 r.about.sharedMemPerMultiprocessor / 2 + 1024);
    s.cluster = cluster;
    return s;
}

template <what WHAT> static void measure(rig &r, json_line &line, int cluster, bool is_alone)
{
    shape s = block_an_sm(r, cluster);
    (void)clusters_that_fit(r, s, cluster_kernel<SYNC_CHECKED>);
    const int clusters = clusters_that_fit(r, s, cluster_kernel<WHAT>);
    s.blocks = (is_alone ? 1 : clusters) * cluster;
    line.number("blocks", s.blocks);
    device_array<unsigned long long> right(1);
    memory m = {};
    m.right = right.at;
    m.fault = r.fault;
    const auto pairs = static_cast<unsigned long long>(s.blocks * cluster);
    if (WHAT == SYNC) {
        TRY(launch(r, s, cluster_kernel<SYNC_CHECKED>, m, CHECKED_ROUNDS));
        TRY(cudaStreamSynchronize(r.stream));
        want(right.get()[0] == pairs * CHECKED_ROUNDS, "a block left before its cluster had come");
    }
    r.repeat(line, ROUNDS, [&] { TRY(launch(r, s, cluster_kernel<WHAT>, m, ROUNDS)); });
    want(WHAT == SYNC || right.get()[0] == pairs * WORDS * ROUNDS * (REPEATS + WARM_UPS),
         "a word was not as its block pushed it");
}

/* Also at nearly all of an SM's shared memory, as lanes have it. */
static void fit(rig &r, json_line &line, int cluster)
{
    shape s = block_an_sm(r, cluster);
    const int clusters = clusters_that_fit(r, s, cluster_kernel<SYNC>);
    line.number("clusters", clusters);
    line.number("sms", clusters * cluster);
    s.shared_bytes = r.about.sharedMemPerBlockOptin - 1024;
    line.number("clusters_full_memory", clusters_that_fit(r, s, cluster_kernel<SYNC>));
}

static void cooperative(rig &r, json_line &line, int cluster)
{
    shape s = block_an_sm(r, cluster);
    s.blocks = clusters_that_fit(r, s, meet_kernel) * cluster;
    s.is_cooperative = true;
    device_array<uint64_t> arrivals(1);
    device_array<unsigned long long> right(1);
    memory m = {};
    m.arrivals = arrivals.at;
    m.right = right.at;
    m.fault = r.fault;
    const cudaError_t error = launch(r, s, meet_kernel, m);
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        throw unsupported{std::string("the launch: ") + cudaGetErrorString(error)};
    }
    TRY(cudaStreamSynchronize(r.stream));
    r.want_no_fault();
    want(right.get()[0] == static_cast<unsigned long long>(s.blocks), "not all blocks met");
    line.number("blocks", s.blocks);
}

int main()
{
    return run_all("cluster", [](rig &r) {
        for (const int cluster : {2, 4, 8, 16}) {
            const auto describe = [&](json_line &line) { line.number("cluster", cluster); };
            r.run("fit", describe, [&](json_line &line) { fit(r, line, cluster); });
            r.run("cooperative", describe, [&](json_line &line) { cooperative(r, line, cluster); });
        }
        for (const bool is_alone : {true, false}) {
            for (const int cluster : {2, 4, 8, 16}) {
                const auto describe = [&](json_line &line) {
                    line.number("cluster", cluster);
                    line.string("clusters", is_alone ? "one" : "all");
                };
                r.run("cluster.sync", describe,
                      [&](json_line &line) { measure<SYNC>(r, line, cluster, is_alone); });
                r.run("push", describe,
                      [&](json_line &line) { measure<PUSH>(r, line, cluster, is_alone); });
                r.run("push, block scope", describe,
                      [&](json_line &line) { measure<PUSH_OF_BLOCK>(r, line, cluster, is_alone); });
            }
        }
    });
}
