/* As mma.cu, with Hopper's wgmma: 64 x 16 weights of a group of four warps in registers, times 16 x
 * N of h that the matrix units read from shared memory by themselves.
 *
 * Two groups of 128 threads, each with 64 x 256 weights (64 KiB an SM together, bf16), sums in
 * fp32. A step is 16 instructions of each group and the wait for them. The instruction is of sm_90a
 * alone: no older and no newer card has it.
 *
 * Checked: the sums of one step against the same products in double precision, and of the timed
 * steps against as many times that. */
#include "bench/gpu/product.cuh"

enum {
    THREADS = 256,
    GROUPS = 2,
    ROWS = 64,
    TILES_K = 16,
    K_GROUP = TILES_K * 16, /* 256 */
    K_ALL = GROUPS * K_GROUP,
    CORE_BYTES = 128, /* 8 rows of h by 8 of k, which lie together */
    STEPS = 2000
};

struct memory {
    const __nv_bfloat16 *weights; /* [GROUPS][ROWS][K_GROUP] */
    const __nv_bfloat16 *h;       /* [n][K_ALL] */
    float *out;                   /* [blocks][GROUPS][ROWS][n] */
    span *spans;                  /* [blocks] */
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* d += a x b. b is a descriptor of 16 x N of h. */
__device__ void wgmma(float (&d)[4], const uint4 &a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, %8, 1, 1, 1, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}

__device__ void wgmma(float (&d)[8], const uint4 &a, uint64_t b)
{
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
        "{%8, %9, %10, %11}, %12, 1, 1, 1, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}

__device__ void wgmma(float (&d)[16], const uint4 &a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, "
                 "%6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                 "{%16, %17, %18, %19}, %20, 1, 1, 1, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}

__device__ void wgmma(float (&d)[32], const uint4 &a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, "
                 "%6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "
                 "%23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}

/* Registers and shared memory written before are seen by the instructions that follow. */
__device__ void wgmma_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* All instructions of this warp group so far are done. */
__device__ void wgmma_end()
{
    asm volatile("wgmma.commit_group.sync.aligned;\n\t"
                 "wgmma.wait_group.sync.aligned 0;" ::
                     : "memory");
}

__device__ uint32_t pair(const __nv_bfloat16 *at)
{
    return *reinterpret_cast<const uint32_t *>(at);
}

/* A lane's part of 64 x 16 weights: of its warp's 16 rows, lane / 4 and 8 more; columns from 2
 * (lane % 4) on and 8 more. */
__device__ uint4 weight_tile(const memory &m, uint32_t tile)
{
    const uint32_t group = threadIdx.x / 128;
    const uint32_t row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    const __nv_bfloat16 *at =
        m.weights + (group * ROWS + row) * K_GROUP + tile * 16 + threadIdx.x % 4 * 2;
    return make_uint4(pair(at), pair(at + 8 * K_GROUP), pair(at + 8), pair(at + 8 * K_GROUP + 8));
}

/* h in shared memory as the instruction reads it without swizzle: cores of 8 rows by 8 of k, a row
 * of a core 16 bytes, a core after the other over the rows, then over k. */
template <int TILES_N> __device__ uint32_t h_offset(uint32_t row, uint32_t k)
{
    return (k / 8 * TILES_N + row / 8) * CORE_BYTES + row % 8 * 16 + k % 8 * 2;
}

/* Where 16 of k begin, all rows: start, the way to the next 8 of k, the way to the next 8 rows; all
 * in 16 bytes; no swizzle. */
template <int TILES_N> __device__ uint64_t h_descriptor(uint32_t address)
{
    const uint64_t next_k = TILES_N * CORE_BYTES / 16;
    const uint64_t next_rows = CORE_BYTES / 16;
    return (address & 0x3ffffu) >> 4 | next_k << 16 | next_rows << 32;
}

template <int TILES_N> __device__ void run_steps(const memory &m, uint32_t steps)
{
    extern __shared__ __align__(128) unsigned char h[];
    const uint32_t group = threadIdx.x / 128;
    uint4 own[TILES_K];
    float sums[TILES_N * 4] = {};
    for (uint32_t i = threadIdx.x; i < TILES_N * 8 * K_ALL; i += THREADS) {
        *reinterpret_cast<__nv_bfloat16 *>(h + h_offset<TILES_N>(i / K_ALL, i % K_ALL)) = m.h[i];
    }
#    pragma unroll
    for (uint32_t k = 0; k < TILES_K; k++) {
        own[k] = weight_tile(m, k);
    }
    // The matrix units read through another proxy than these stores.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const auto first =
        static_cast<uint32_t>(__cvta_generic_to_shared(h)) + h_offset<TILES_N>(0, group * K_GROUP);
    const uint64_t start_ns = global_ns();
    const auto start = static_cast<uint64_t>(clock64());
    for (uint32_t s = 0; s < steps; s++) {
        wgmma_begin();
#    pragma unroll
        for (uint32_t k = 0; k < TILES_K; k++) {
            wgmma(sums, own[k], h_descriptor<TILES_N>(first + h_offset<TILES_N>(0, k * 16)));
        }
        wgmma_end();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        m.spans[blockIdx.x] = {static_cast<uint64_t>(clock64()) - start, global_ns() - start_ns};
    }
    const uint32_t row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    float *out = m.out + ((blockIdx.x * GROUPS + group) * ROWS + row) * (TILES_N * 8);
#    pragma unroll
    for (uint32_t i = 0; i < TILES_N * 4; i++) {
        out[i % 4 / 2 * 8 * (TILES_N * 8) + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2] = sums[i];
    }
}

#else

template <int TILES_N> __device__ void run_steps(const memory &, uint32_t)
{
}

#endif

template <int TILES_N>
__global__ void __launch_bounds__(THREADS, 1) wgmma_kernel(memory m, uint32_t steps)
{
    run_steps<TILES_N>(m, steps);
}

template <int TILES_N> static void measure(rig &r, json_line &line)
{
    if (r.about.major != 9) {
        throw unsupported{"wgmma is of compute capability 9.0 alone"};
    }
    const problem p({GROUPS, ROWS, K_GROUP, TILES_N * 8, false});
    device_array<__nv_bfloat16> weights(p.weights.size()), h(p.h.size());
    device_array<float> out(p.sums.size() * static_cast<size_t>(r.sms()));
    device_array<span> spans(static_cast<size_t>(r.sms()));
    weights.set(p.weights.data());
    h.set(p.h.data());
    const memory m = {weights.at, h.at, out.at, spans.at};
    const shape s = {r.sms(), THREADS, sizeof(__nv_bfloat16) * TILES_N * 8 * K_ALL};
    const auto kernel = wgmma_kernel<TILES_N>;
    want_resident(r, s, kernel);
    TRY(launch(r, s, kernel, m, 1));
    TRY(cudaStreamSynchronize(r.stream));
    p.want_sums(out.get(), 1.0, 1e-5);
    r.repeat(line, STEPS, [&] { TRY(launch(r, s, kernel, m, STEPS)); });
    p.want_sums(out.get(), STEPS, 5e-3);
    add_spans(line, spans.get(), STEPS);
    add_flops(line, p, r.sms());
}

template <int TILES_N> static void run_one(rig &r)
{
    r.run(
        "h shared", [](json_line &line) { line.number("rows", TILES_N * 8); },
        [&](json_line &line) { measure<TILES_N>(r, line); });
}

int main()
{
    return run_all("wgmma", [](rig &r) {
        run_one<1>(r);
        run_one<2>(r);
        run_one<4>(r);
        run_one<8>(r);
    });
}
