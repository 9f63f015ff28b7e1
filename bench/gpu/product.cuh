/* What mma.cu and wgmma.cu share: weights that stay on an SM times rows of h, what it must come to,
 * and the clock meanwhile. */
#ifndef BENCH_GPU_PRODUCT_CUH
#define BENCH_GPU_PRODUCT_CUH

#include "bench/gpu/floor.cuh"

#include <cuda_bf16.h>

/* Of clock64() and %globaltimer around all steps, by each block. */
struct span {
    uint64_t cycles;
    uint64_t ns;
};

/* Each of an SM's groups of threads multiplies its own [rows, k] weights with its own k of n rows
 * of h. Where is_first_rows, all of those are the first 8 again. */
struct product_shape {
    int groups, rows, k, n;
    bool is_first_rows;
};

/* Inputs, and the sums of one step in double precision. */
struct problem {
    product_shape s;
    std::vector<__nv_bfloat16> weights; /* [groups][rows][k] */
    std::vector<__nv_bfloat16> h;       /* [n][groups * k] */
    std::vector<double> sums, sizes;    /* [groups][rows][n]; sizes: of the absolute products */

    explicit problem(const product_shape &shape)
        : s(shape), weights(static_cast<size_t>(s.groups * s.rows * s.k)),
          h(static_cast<size_t>(s.n * s.groups * s.k))
    {
        draws random(static_cast<uint64_t>(s.n));
        for (__nv_bfloat16 &v : weights) {
            v = __float2bfloat16(random.real(1.0f));
        }
        for (__nv_bfloat16 &v : h) {
            v = __float2bfloat16(random.real(1.0f));
        }
        for (int group = 0; group < s.groups; group++) {
            for (int row = 0; row < s.rows; row++) {
                for (int j = 0; j < s.n; j++) {
                    add_sum(group, row, s.is_first_rows ? j % 8 : j);
                }
            }
        }
    }

    void add_sum(int group, int row, int j)
    {
        double sum = 0.0, size = 0.0;
        for (int k = 0; k < s.k; k++) {
            const auto a = static_cast<double>(
                __bfloat162float(weights[static_cast<size_t>((group * s.rows + row) * s.k + k)]));
            const auto b = static_cast<double>(
                __bfloat162float(h[static_cast<size_t>((j * s.groups + group) * s.k + k)]));
            sum += a * b;
            size += std::fabs(a * b);
        }
        sums.push_back(sum);
        sizes.push_back(size);
    }

    /* What all blocks have after so many steps; `tolerance` is of the sum of absolute products. */
    void want_sums(const std::vector<float> &got, double steps, double tolerance) const
    {
        for (size_t i = 0; i < got.size(); i++) {
            const size_t at = i % sums.size();
            const double error = std::fabs(static_cast<double>(got[i]) - steps * sums[at]);
            want(error <= tolerance * steps * sizes[at], "a sum is not that of the products");
        }
    }
};

/* Medians over blocks: cycles of a step, and the SM's clock. */
inline void add_spans(json_line &line, const std::vector<span> &spans, double steps)
{
    samples cycles, mhz;
    for (const span &s : spans) {
        cycles.values.push_back(static_cast<double>(s.cycles) / steps);
        mhz.values.push_back(1000.0 * static_cast<double>(s.cycles) / static_cast<double>(s.ns));
    }
    line.number("cycles_per_step", cycles.quantile(0.5));
    line.number("sm_mhz", mhz.quantile(0.5));
}

inline void add_flops(json_line &line, const problem &p, int sms)
{
    line.number("gflop_per_step", 2e-9 * p.s.groups * p.s.rows * p.s.k * p.s.n * sms);
}

#endif
