/* What the matrix units do for a recurrent product whose weights stay on the SM, and the clock
 * meanwhile.
 *
 * Each of 8 warps of an SM has 2 x 8 tiles of 16 x 16 weights (64 KiB an SM, 1,024 units on 128
 * SMs), bf16, and multiplies them with N = 8 .. 64 rows of h, mma.sync m16n8k16, sums in fp32:
 *
 *   registers     weights and h in registers: what the units can do at most
 *   h shared      weights in registers, h read from shared memory
 *   both shared   weights read from shared memory too
 *
 * A step is all products of an SM with all N rows. `clock` is the longest case again, for two
 * seconds. wgmma.cu has the same with Hopper's own instruction.
 *
 * Checked: the sums of one step against the same products in double precision, and of the timed
 * steps against as many times that. */
#include "bench/gpu/product.cuh"

enum {
    THREADS = 256,
    WARPS = THREADS / 32,
    TILES_M = 2,
    TILES_K = 8, /* of a warp */
    TILE = 16,
    ROWS = TILES_M * TILE,   /* of weights, the same for all warps: their sums are of other k */
    K_WARP = TILES_K * TILE, /* 128 */
    K_ALL = WARPS * K_WARP,  /* 1,024 */
    PITCH = K_ALL + 8,       /* of a row of h: 16 bytes more, so that no two lanes share a bank */
    STEPS = 2000
};

enum place { REGISTERS, H_SHARED, BOTH_SHARED };

struct memory {
    const __nv_bfloat16 *weights; /* [WARPS][ROWS][K_WARP] */
    const __nv_bfloat16 *h;       /* [N][K_ALL] */
    float *out;                   /* [blocks][WARPS][ROWS][N] */
    span *spans;                  /* [blocks] */
};

__device__ void mma(float (&sum)[4], const uint4 &a, const uint2 &b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
}

__device__ uint32_t pair(const __nv_bfloat16 *at)
{
    return *reinterpret_cast<const uint32_t *>(at);
}

/* A lane's part of a tile, as the instruction wants it: rows lane / 4 and 8 more, columns from 2
 * (lane % 4) on and 8 more. */
__device__ uint4 weight_tile(const memory &m, uint32_t warp, uint32_t tile_m, uint32_t tile_k)
{
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t row = tile_m * TILE + lane / 4;
    const __nv_bfloat16 *at =
        m.weights + (warp * ROWS + row) * K_WARP + tile_k * TILE + lane % 4 * 2;
    return make_uint4(pair(at), pair(at + 8 * K_WARP), pair(at + 8), pair(at + 8 * K_WARP + 8));
}

/* Likewise of h: row lane / 4 of 8, columns as above. */
__device__ uint2 h_tile(const __nv_bfloat16 *h, uint32_t pitch, uint32_t tile_n, uint32_t k)
{
    const uint32_t lane = threadIdx.x % 32;
    const __nv_bfloat16 *at = h + (tile_n * 8 + lane / 4) * pitch + k + lane % 4 * 2;
    return make_uint2(pair(at), pair(at + 8));
}

/* One step of a warp: sums[tile_m][tile_n] += weights x h. The asm of an mma is volatile: no step
 * can be left out or made of another. The empty asm keeps the compiler from reading shared memory
 * once for all steps. */
template <place PLACE, int TILES_N>
__device__ void step(float (&sums)[TILES_M][TILES_N][4], const uint4 (&own)[TILES_M][TILES_K],
                     const uint4 *tiles, const __nv_bfloat16 *h, const uint2 (&h_own)[TILES_K])
{
    const uint32_t warp = threadIdx.x / 32;
    asm volatile("" ::: "memory");
#pragma unroll
    for (uint32_t k = 0; k < TILES_K; k++) {
        uint4 a[TILES_M];
#pragma unroll
        for (uint32_t i = 0; i < TILES_M; i++) {
            a[i] = PLACE == BOTH_SHARED
                       ? tiles[((warp * TILES_M + i) * TILES_K + k) * 32 + threadIdx.x % 32]
                       : own[i][k];
        }
#pragma unroll
        for (uint32_t n = 0; n < TILES_N; n++) {
            const uint2 b =
                PLACE == REGISTERS ? h_own[k] : h_tile(h, PITCH, n, warp * K_WARP + k * TILE);
#pragma unroll
            for (uint32_t i = 0; i < TILES_M; i++) {
                mma(sums[i][n], a[i], b);
            }
        }
    }
}

template <int TILES_N>
__device__ void store(const memory &m, const float (&sums)[TILES_M][TILES_N][4])
{
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t block_warp = blockIdx.x * WARPS + threadIdx.x / 32;
    for (uint32_t i = 0; i < TILES_M; i++) {
        for (uint32_t n = 0; n < TILES_N; n++) {
            for (uint32_t half = 0; half < 2; half++) {
                const uint32_t row = i * TILE + lane / 4 + half * 8;
                float *at =
                    m.out + (block_warp * ROWS + row) * (TILES_N * 8) + n * 8 + lane % 4 * 2;
                at[0] = sums[i][n][half * 2];
                at[1] = sums[i][n][half * 2 + 1];
            }
        }
    }
}

/* In REGISTERS mode all rows of h are the first 8: registers for more would not be there. */
template <place PLACE, int TILES_N>
__global__ void __launch_bounds__(THREADS, 1) mma_kernel(memory m, uint32_t steps)
{
    extern __shared__ __align__(128) unsigned char shared[];
    auto *h = reinterpret_cast<__nv_bfloat16 *>(shared);
    auto *tiles = reinterpret_cast<uint4 *>(shared + sizeof(*h) * PITCH * TILES_N * 8);
    const uint32_t warp = threadIdx.x / 32;
    uint4 own[TILES_M][TILES_K];
    uint2 h_own[TILES_K];
    float sums[TILES_M][TILES_N][4] = {};
    for (uint32_t i = threadIdx.x; i < TILES_N * 8 * K_ALL; i += THREADS) {
        h[i / K_ALL * PITCH + i % K_ALL] = m.h[i];
    }
#pragma unroll
    for (uint32_t k = 0; k < TILES_K; k++) {
        h_own[k] = h_tile(m.h, K_ALL, 0, warp * K_WARP + k * TILE);
#pragma unroll
        for (uint32_t i = 0; i < TILES_M; i++) {
            own[i][k] = weight_tile(m, warp, i, k);
            if (PLACE == BOTH_SHARED) {
                tiles[((warp * TILES_M + i) * TILES_K + k) * 32 + threadIdx.x % 32] = own[i][k];
            }
        }
    }
    __syncthreads();
    const uint64_t start_ns = global_ns();
    const auto start = static_cast<uint64_t>(clock64());
    for (uint32_t s = 0; s < steps; s++) {
        step<PLACE, TILES_N>(sums, own, tiles, h, h_own);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        m.spans[blockIdx.x] = {static_cast<uint64_t>(clock64()) - start, global_ns() - start_ns};
    }
    store<TILES_N>(m, sums);
}

struct ready {
    shape s;
    problem p;
    device_array<__nv_bfloat16> weights, h;
    device_array<float> out;
    device_array<span> spans;

    ready(const rig &r, int n, place where)
        : s{r.sms(), THREADS}, p({WARPS, ROWS, K_WARP, n, where == REGISTERS}),
          weights(p.weights.size()), h(p.h.size()),
          out(p.sums.size() * static_cast<size_t>(r.sms())), spans(static_cast<size_t>(r.sms()))
    {
        s.shared_bytes =
            sizeof(__nv_bfloat16) * PITCH * static_cast<size_t>(n) +
            (where == BOTH_SHARED ? sizeof(uint4) * WARPS * TILES_M * TILES_K * 32 : 0);
        weights.set(p.weights.data());
        h.set(p.h.data());
    }
    memory arguments() const
    {
        return {weights.at, h.at, out.at, spans.at};
    }
};

template <place PLACE, int TILES_N> static void measure(rig &r, json_line &line)
{
    ready data(r, TILES_N * 8, PLACE);
    const auto kernel = mma_kernel<PLACE, TILES_N>;
    want_resident(r, data.s, kernel);
    TRY(launch(r, data.s, kernel, data.arguments(), 1));
    TRY(cudaStreamSynchronize(r.stream));
    data.p.want_sums(data.out.get(), 1.0, 1e-5);
    r.repeat(line, STEPS, [&] { TRY(launch(r, data.s, kernel, data.arguments(), STEPS)); });
    data.p.want_sums(data.out.get(), STEPS, 5e-3);
    add_spans(line, data.spans.get(), STEPS);
    add_flops(line, data.p, r.sms());
    // An SM has four units, each with every fourth warp.
    const double mmas = TILES_M * TILES_K * TILES_N * WARPS / 4.0;
    line.number("mmas_per_unit", mmas);
}

/* Launch after launch, for two seconds: the clock of each by its first block. */
static void measure_clock(rig &r, json_line &line)
{
    ready data(r, 64, H_SHARED);
    const auto kernel = mma_kernel<H_SHARED, 8>;
    want_resident(r, data.s, kernel);
    std::vector<double> mhz;
    for (const double end = now_us() + 2e6; now_us() < end;) {
        TRY(launch(r, data.s, kernel, data.arguments(), 5 * STEPS));
        TRY(cudaStreamSynchronize(r.stream));
        const span first = data.spans.get()[0];
        mhz.push_back(1000.0 * static_cast<double>(first.cycles) / static_cast<double>(first.ns));
    }
    data.p.want_sums(data.out.get(), 5 * STEPS,
                     5e-2); // a check of the steps made, not of rounding
    line.number("launches", static_cast<double>(mhz.size()));
    line.number("sm_mhz_first", mhz.front());
    line.number("sm_mhz_last", mhz.back());
    std::sort(mhz.begin(), mhz.end());
    line.number("sm_mhz", mhz[mhz.size() / 2]);
    line.number("sm_mhz_min", mhz.front());
    line.number("sm_mhz_attribute", r.attribute(cudaDevAttrClockRate) / 1000.0);
}

template <place PLACE, int TILES_N> static void run_one(rig &r, const char *name)
{
    r.run(
        name, [](json_line &line) { line.number("rows", TILES_N * 8); },
        [&](json_line &line) { measure<PLACE, TILES_N>(r, line); });
}

template <place PLACE> static void run_place(rig &r, const char *name)
{
    run_one<PLACE, 1>(r, name);
    run_one<PLACE, 2>(r, name);
    run_one<PLACE, 4>(r, name);
    run_one<PLACE, 8>(r, name);
}

int main()
{
    return run_all("mma", [](rig &r) {
        run_place<REGISTERS>(r, "registers");
        run_place<H_SHARED>(r, "h shared");
        run_place<BOTH_SHARED>(r, "both shared");
        r.run(
            "clock", [](json_line &) {}, [&](json_line &line) { measure_clock(r, line); });
    });
}
