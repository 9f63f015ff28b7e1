/* Peaks of one core, from fixed loops of instructions: what a kernel can be measured against.
 *
 * The loops are written in assembly, so that no compiler changes them and no build flag is needed:
 * 12 independent multiply-adds (enough to cover 4 to 5 cycles of latency on two units), or 8 loads
 * a round; or a tile's multiply-adds with the loads that they cannot do without, where some
 * processors (Intel's from Sapphire Rapids on) lower their clock by a sixth. Activations are those
 * of the kernel tables, whose operations are fixed, over rows that stay in L1. Each loop is
 * repeated for a given time and the best piece counts: others only disturb.
 */
#include "base/clock.h"
#include "base/cpus.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "cells/kernels.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__

/* 16 KiB of weights and 6 rows, which stay in L1: what a tile multiplies. */
enum { TILE_TERMS = 64, TILE_ROWS = 6, TILE_WEIGHTS = 64 };

struct operands {
    _Alignas(64) float weights[TILE_TERMS][TILE_WEIGHTS];
    _Alignas(64) float rows[TILE_TERMS][TILE_ROWS];
};

/* One multiply-add to each of 12 registers `r`0..11. */
#    define FMA_ONE(op, r, i) op " %%" r "12, %%" r "13, %%" r #    i "\n\t"
#    define FMA_12(op, r)                                                                          \
        FMA_ONE(op, r, 0)                                                                          \
        FMA_ONE(op, r, 1)                                                                          \
        FMA_ONE(op, r, 2)                                                                          \
        FMA_ONE(op, r, 3)                                                                          \
        FMA_ONE(op, r, 4)                                                                          \
        FMA_ONE(op, r, 5)                                                                          \
        FMA_ONE(op, r, 6)                                                                          \
        FMA_ONE(op, r, 7)                                                                          \
        FMA_ONE(op, r, 8)                                                                          \
        FMA_ONE(op, r, 9) FMA_ONE(op, r, 10) FMA_ONE(op, r, 11)

#    define VECTORS_USED                                                                           \
        "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",   \
            "xmm11", "xmm12", "xmm13"

/* What is multiplied: no zeros, which cost less power. */
static const float factors[2] = {0.70710678f, 1.25e-3f};

/* rounds x 24 multiply-adds; the sums grow, but stay finite. */
#    define FMA_LOOP(op, r, load)                                                                  \
        __asm__ volatile("vzeroall\n\t" load " %1, %%" r "12\n\t" load " %2, %%" r "13\n\t"        \
                         "1:\n\t" FMA_12(op, r) FMA_12(op, r) "dec %0\n\t"                         \
                                                              "jnz 1b\n\t"                         \
                                                              "vzeroupper"                         \
                         : "+r"(rounds)                                                            \
                         : "m"(factors[0]), "m"(factors[1])                                        \
                         : "cc", VECTORS_USED)

/* 8 loads of `bytes` each from at on, until end. */
#    define LOAD_ONE(r, bytes, i) "vmovaps " #    i "*" bytes "(%0), %%" r #    i "\n\t"
#    define LOAD_LOOP(r, bytes)                                                                    \
        __asm__ volatile("1:\n\t" LOAD_ONE(r, bytes, 0) LOAD_ONE(r, bytes, 1)                      \
                             LOAD_ONE(r, bytes, 2) LOAD_ONE(r, bytes, 3) LOAD_ONE(r, bytes, 4)     \
                                 LOAD_ONE(r, bytes, 5) LOAD_ONE(r, bytes, 6)                       \
                                     LOAD_ONE(r, bytes, 7) "add $8*" bytes ", %0\n\t"              \
                                                           "cmp %1, %0\n\t"                        \
                                                           "jb 1b\n\t"                             \
                                                           "vzeroupper"                            \
                         : "+r"(at)                                                                \
                         : "r"(end)                                                                \
                         : "cc", "memory", VECTORS_USED)

/* A term of a tile of 6 rows by 4 vectors: 6 broadcasts, 4 loads, 24 multiply-adds. A term of 6
 * rows by 2 vectors, for 16 registers: 2 loads, 6 broadcasts, 12 multiply-adds. */
#    define TILE_FMA(r, x, w, sum)     "vfmadd231ps %%" r #    x ", %%" r #    w ", %%" r #    sum "\n\t"
#    define TILE_SET(r, at, x)         "vbroadcastss 4*" #    at "(%1), %%" r #    x "\n\t"
#    define TILE_LOAD(r, bytes, at, w) "vmovaps " #    at "*" bytes "(%0), %%" r #    w "\n\t"
#    define TILE_CLEAR(sum)            "vmovaps %%zmm0, %%zmm" #    sum "\n\t"
#    define TILE_COLUMN(at, a, b, c, d, e, f)                                                      \
        TILE_LOAD("zmm", "64", at, 30)                                                             \
        TILE_FMA("zmm", 24, 30, a)                                                                 \
        TILE_FMA("zmm", 25, 30, b)                                                                 \
        TILE_FMA("zmm", 26, 30, c)                                                                 \
        TILE_FMA("zmm", 27, 30, d) TILE_FMA("zmm", 28, 30, e) TILE_FMA("zmm", 29, 30, f)
#    define TILE_ROW(at, a, b)                                                                     \
        TILE_SET("ymm", at, 14) TILE_FMA("ymm", 14, 12, a) TILE_FMA("ymm", 14, 13, b)

static void tile_zmm(const struct operands *operands)
{
    const float *weights = operands->weights[0];
    const float *rows = operands->rows[0];
    const float *end = weights + (size_t)TILE_TERMS * TILE_WEIGHTS;
    __asm__ volatile(
        "vzeroall\n\t" TILE_CLEAR(16) TILE_CLEAR(17) TILE_CLEAR(18) TILE_CLEAR(19) TILE_CLEAR(20)
            TILE_CLEAR(21) TILE_CLEAR(22) TILE_CLEAR(23) "1:\n\t" TILE_SET("zmm", 0, 24)
                TILE_SET("zmm", 1, 25) TILE_SET("zmm", 2, 26) TILE_SET("zmm", 3, 27)
                    TILE_SET("zmm", 4, 28) TILE_SET("zmm", 5, 29) TILE_COLUMN(0, 0, 1, 2, 3, 4, 5)
                        TILE_COLUMN(1, 6, 7, 8, 9, 10, 11) TILE_COLUMN(2, 12, 13, 14, 15, 16, 17)
                            TILE_COLUMN(3, 18, 19, 20, 21, 22, 23) "add $24, %1\n\t"
                                                                   "add $256, %0\n\t"
                                                                   "cmp %2, %0\n\t"
                                                                   "jb 1b\n\t"
                                                                   "vzeroupper"
        : "+&r"(weights), "+&r"(rows) // &: where the rows begin is where the weights end
        : "r"(end)
        : "cc", "memory", VECTORS_USED, "xmm14", "xmm15"); // the others are AVX-512's alone
}

static void tile_ymm(const struct operands *operands)
{
    const float *weights = operands->weights[0];
    const float *rows = operands->rows[0];
    const float *end = weights + (size_t)TILE_TERMS * TILE_WEIGHTS;
    __asm__ volatile("vzeroall\n\t"
                     "1:\n\t" TILE_LOAD("ymm", "32", 0, 12) TILE_LOAD("ymm", "32", 1, 13)
                         TILE_ROW(0, 0, 1) TILE_ROW(1, 2, 3) TILE_ROW(2, 4, 5) TILE_ROW(3, 6, 7)
                             TILE_ROW(4, 8, 9) TILE_ROW(5, 10, 11) "add $24, %1\n\t"
                                                                   "add $256, %0\n\t"
                                                                   "cmp %2, %0\n\t"
                                                                   "jb 1b\n\t"
                                                                   "vzeroupper"
                     : "+&r"(weights),
                       "+&r"(rows) // &: where the rows begin is where the weights end
                     : "r"(end)
                     : "cc", "memory", VECTORS_USED, "xmm14");
}

static void fma_zmm(uint64_t rounds)
{
    FMA_LOOP("vfmadd231ps", "zmm", "vbroadcastss");
}

static void fma_ymm(uint64_t rounds)
{
    FMA_LOOP("vfmadd231ps", "ymm", "vbroadcastss");
}

/* Terms of a product in a lane's word: 2 of bf16, 4 of int8. */
static void bf16_zmm(uint64_t rounds)
{
    FMA_LOOP("vdpbf16ps", "zmm", "vbroadcastss");
}

static void int8_zmm(uint64_t rounds)
{
    FMA_LOOP("vpdpbusd", "zmm", "vbroadcastss");
}

/* The operand of LDTILECFG (cells/cpu/amx.h): eight tiles of 16 rows of 64 bytes. */
struct tiles {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

static const struct tiles whole_tiles = {
    1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

#    define TILES_4                                                                                \
        "tdpbusd %%tmm6, %%tmm4, %%tmm0\n\ttdpbusd %%tmm7, %%tmm4, %%tmm1\n\t"                     \
        "tdpbusd %%tmm6, %%tmm5, %%tmm2\n\ttdpbusd %%tmm7, %%tmm5, %%tmm3\n\t"

/* 4 sums, which covers 52 cycles of latency at 16 an instruction. */
static void int8_tiles(uint64_t rounds)
{
    uint8_t bytes[16][64];
    memset(bytes, 3, sizeof(bytes));
    __asm__ volatile("ldtilecfg %1\n\t"
                     "tileloadd (%2,%3,1), %%tmm4\n\ttileloadd (%2,%3,1), %%tmm5\n\t"
                     "tileloadd (%2,%3,1), %%tmm6\n\ttileloadd (%2,%3,1), %%tmm7\n\t"
                     "1:\n\t" TILES_4 TILES_4 TILES_4 TILES_4 TILES_4 TILES_4 "dec %0\n\t"
                     "jnz 1b\n\t"
                     "tilerelease"
                     : "+r"(rounds)
                     : "m"(whole_tiles), "r"(bytes), "r"(sizeof(bytes[0]))
                     : "cc", "memory");
}

static void fma_one(uint64_t rounds)
{
    FMA_LOOP("vfmadd231ss", "xmm", "vmovss");
}

static void read_zmm(const uint8_t *at, const uint8_t *end)
{
    LOAD_LOOP("zmm", "64");
}

static void read_ymm(const uint8_t *at, const uint8_t *end)
{
    LOAD_LOOP("ymm", "32");
}

struct loop {
    double terms; /* of one instruction */
    void (*run)(uint64_t rounds);
};

/* A tile over all of its operands; what it multiplies and adds. */
struct tile {
    double flops;
    void (*run)(const struct operands *operands);
};

struct isa {
    const char *name;
    struct loop loops[CELL_PRECISION_COUNT]; /* without one: that of floats */
    struct tile tile;
};

static const struct isa isas[] = {
    {"avx512",
     {{16.0, fma_zmm}, {32.0, bf16_zmm}, {64.0, int8_zmm}},
     {2.0 * TILE_TERMS * TILE_ROWS * 64.0, tile_zmm}},
    {"avx2", {{8.0, fma_ymm}}, {2.0 * TILE_TERMS * TILE_ROWS * 16.0, tile_ymm}},
    {"scalar", {{1.0, fma_one}}, {0.0, NULL}},
};
enum { ISAS = sizeof(isas) / sizeof(isas[0]) };

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}

static bool has_isa(const struct isa *isa)
{
    bool has_fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return has_fma && (isa->loops[0].run != fma_zmm || has_avx512());
}

static const struct loop *loop_of(const struct isa *isa, enum cell_precision precision)
{
    static const struct loop tiles = {16.0 * 64.0 * 16.0, int8_tiles};
    if (precision == CELL_INT8 && isa->loops[0].run == fma_zmm && base_cpus_may_use_tiles()) {
        return &tiles;
    }
    bool has_it = isa->loops[precision].run != NULL &&
                  (precision != CELL_BF16 ||
                   (__builtin_cpu_supports("avx512bf16") && base_cpus_bf16_is_fast())) &&
                  (precision != CELL_INT8 || __builtin_cpu_supports("avx512vnni"));
    return &isa->loops[has_it ? precision : CELL_FP32];
}

/* NULL where this machine lacks it. */
static const struct isa *find_isa(const char *name)
{
    for (int i = 0; i < ISAS; i++) {
        if (strcmp(isas[i].name, name) == 0 && has_isa(&isas[i])) {
            return &isas[i];
        }
    }
    return NULL;
}

/* Pieces of `flops` each, one after the other. */
struct pieces {
    double flops;
    uint64_t start_ns, last_ns, cpu_ns, n;
    struct bench_burst burst;
};

static struct pieces begin_pieces(double flops)
{
    const uint64_t now = base_now_ns();
    return (struct pieces){
        .flops = flops, .start_ns = now, .last_ns = now, .cpu_ns = base_thread_cpu_ns()};
}

/* Counts one; whether another is wanted. */
static bool end_piece(struct pieces *pieces, uint64_t ns)
{
    const uint64_t now = base_now_ns();
    const double gflops = pieces->flops / (double)(now - pieces->last_ns);
    if (gflops > pieces->burst.best_gflops) {
        pieces->burst.best_gflops = gflops;
    }
    pieces->n++;
    pieces->last_ns = now;
    if (now - pieces->start_ns < ns) {
        return true;
    }
    const uint64_t cpu_ns = base_thread_cpu_ns() - pieces->cpu_ns;
    if (cpu_ns > 0) {
        pieces->burst.mean_gflops = pieces->flops * (double)pieces->n / (double)cpu_ns;
    }
    return false;
}

struct bench_burst bench_fma_burst(const char *isa_name, enum cell_precision precision, uint64_t ns)
{
    const struct isa *isa = find_isa(isa_name);
    if (isa == NULL) {
        return (struct bench_burst){0};
    }
    const struct loop *loop = loop_of(isa, precision);
    // About 10 us, so that some pieces are undisturbed.
    const uint64_t rounds = loop->terms > 1e3 ? 100 : 2000;
    struct pieces pieces = begin_pieces((double)rounds * 24 * 2 * loop->terms);
    do {
        loop->run(rounds);
    } while (end_piece(&pieces, ns));
    return pieces.burst;
}

struct bench_burst bench_tile_burst(const char *isa_name, uint64_t ns)
{
    enum { REPEATS = 40 }; // about 10 us
    const struct isa *isa = find_isa(isa_name);
    if (isa == NULL || isa->tile.run == NULL) {
        return (struct bench_burst){0};
    }
    struct operands operands;
    float *weights = operands.weights[0];
    float *rows = operands.rows[0];
    for (int i = 0; i < TILE_TERMS * TILE_WEIGHTS; i++) {
        weights[i] = (float)(i * 37 % 101 - 50) / 64.0f;
    }
    for (int i = 0; i < TILE_TERMS * TILE_ROWS; i++) {
        rows[i] = (float)(i * 29 % 97 - 48) / 64.0f;
    }
    struct pieces pieces = begin_pieces(isa->tile.flops * REPEATS);
    do {
        for (int r = 0; r < REPEATS; r++) {
            isa->tile.run(&operands);
        }
    } while (end_piece(&pieces, ns));
    return pieces.burst;
}

double bench_read_gbytes(size_t bytes, uint64_t ns)
{
    if (!__builtin_cpu_supports("avx2")) {
        return 0.0;
    }
    bytes = (bytes + 511) / 512 * 512;
    uint8_t *memory = base_alloc_aligned(bytes, 4096);
    if (memory == NULL) {
        return 0.0;
    }
    memset(memory, 1, bytes); // or every page would be the same page of zeros
    double best = 0.0;
    const size_t repeats = bytes >= (1u << 20) ? 1 : (1u << 20) / bytes;
    for (uint64_t start = base_now_ns(), now = start; now - start < ns;) {
        for (size_t r = 0; r < repeats; r++) {
            (has_avx512() ? read_zmm : read_ymm)(memory, memory + bytes);
        }
        uint64_t end = base_now_ns();
        double gbytes = (double)(bytes * repeats) / (double)(end - now);
        best = gbytes > best ? gbytes : best;
        now = end;
    }
    base_free(memory);
    return best;
}

#else

struct bench_burst bench_fma_burst(const char *isa, enum cell_precision precision, uint64_t ns)
{
    (void)isa;
    (void)precision;
    (void)ns;
    return (struct bench_burst){0};
}

struct bench_burst bench_tile_burst(const char *isa, uint64_t ns)
{
    (void)isa;
    (void)ns;
    return (struct bench_burst){0};
}

double bench_read_gbytes(size_t bytes, uint64_t ns)
{
    (void)bytes;
    (void)ns;
    return 0.0;
}

#endif

double bench_activation_rate(void (*activation)(uint32_t n, const float *in, float *out),
                             uint64_t ns)
{
    enum { ELEMENTS = 1024, REPEATS = 10 };
    _Alignas(BASE_CACHE_LINE) float in[ELEMENTS];
    _Alignas(BASE_CACHE_LINE) float out[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        in[i] = (float)i / 128.0f - 4.0f; // to 4
    }
    double best = 0.0;
    for (uint64_t start = base_now_ns(), now = start; now - start < ns;) {
        for (int r = 0; r < REPEATS; r++) {
            activation(ELEMENTS, in, out);
        }
        uint64_t end = base_now_ns();
        double rate = (double)ELEMENTS * REPEATS / (double)(end - now);
        best = rate > best ? rate : best;
        now = end;
    }
    return best;
}

static const size_t sizes_kib[] = {16, 512, 2048, 8192, 262144};
enum { SIZES = sizeof(sizes_kib) / sizeof(sizes_kib[0]) };
static const char *const isa_names[] = {"avx512", "avx2", "scalar"};

/* Of every instruction set that this machine has. */
static void measure_activations(struct base_buf *out, bool is_json, uint64_t ns)
{
    bool is_first = true;
    for (int i = 0; i < 3; i++) {
        const struct cell_kernels *kernels = NULL;
        struct base_error error;
        if (cell_kernels_choose(isa_names[i], &kernels, &error) != BASE_OK) {
            continue;
        }
        base_buf_printf(
            out,
            is_json ? "%s\"%s\":{\"sigmoid\":%.3f,\"tanh\":%.3f}" : "%s %s sigmoid %.3f, tanh %.3f",
            is_first ? "" : (is_json ? "," : ";"), isa_names[i],
            bench_activation_rate(kernels->sigmoid, ns), bench_activation_rate(kernels->tanh, ns));
        is_first = false;
    }
}

static void measure(struct base_buf *out, bool is_json, uint64_t ns)
{
    base_buf_text(out, is_json ? ",\"fma_gflops\":{" : "multiply-add, GFLOP/s of one core:");
    for (int i = 0; i < 3; i++) {
        base_buf_printf(out, is_json ? "%s\"%s\":%.1f" : "%s %s %.1f", is_json && i > 0 ? "," : "",
                        isa_names[i], bench_fma_burst(isa_names[i], CELL_FP32, ns).best_gflops);
    }
    base_buf_text(out, is_json ? "},\"tile_gflops\":{"
                               : "\na tile's multiply-adds, operands from L1 (in the mean):");
    for (int i = 0; i < 2; i++) { // of vectors alone
        struct bench_burst tile = bench_tile_burst(isa_names[i], ns);
        base_buf_printf(out, is_json ? "%s\"%s\":[%.1f,%.1f]" : "%s %s %.1f (%.1f)",
                        is_json && i > 0 ? "," : "", isa_names[i], tile.best_gflops,
                        tile.mean_gflops);
    }
    base_buf_text(out, is_json ? "},\"activations_g\":{" : "\nactivations, 10^9/s of one core:");
    measure_activations(out, is_json, ns);
    base_buf_text(out, is_json ? "},\"read_gbytes\":{" : "\nread, GB/s of one core:");
    for (int i = 0; i < SIZES; i++) {
        base_buf_printf(out, is_json ? "%s\"%zu_kib\":%.1f" : "%s %zu_KiB %.1f",
                        is_json && i > 0 ? "," : "", sizes_kib[i],
                        bench_read_gbytes(sizes_kib[i] << 10, ns));
    }
    base_buf_text(out, is_json ? "}" : "\n");
}

int bench_peak(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"ms", required_argument, NULL, 'm'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    bool is_json = false;
    uint64_t ms = 200;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    for (int o = 0; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (o == 'j') {
            is_json = true;
        } else if (o == 'm') {
            ms = strtoull(optarg, NULL, 10);
        } else {
            (void)puts("usage: cellbatch-bench peak [--ms N] [--json]\n"
                       "  --ms N   time of each measurement (default 200)");
            return o == 'h' ? EXIT_SUCCESS : 2;
        }
    }
    struct base_buf out;
    base_buf_init(&out, 1u << 16);
    if (is_json) {
        base_buf_text(&out, "{");
        bench_host_json(&out);
    } else {
        bench_host_text(&out);
    }
    measure(&out, is_json, ms * BASE_NS_PER_MS);
    base_buf_text(&out, is_json ? "}\n" : "");
    (void)fwrite(out.data, 1, out.length, stdout);
    base_buf_release(&out);
    return EXIT_SUCCESS;
}
