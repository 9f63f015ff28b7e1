/* What the programs of bench/gpu/ share: checked CUDA calls, cases that fail by themselves, repeats
 * and their quantiles, lines of JSON, and waits that end.
 *
 * A program is one thread and one card. It prints one JSON object a line for each case, flushed at
 * once, so that what was measured before a hang is kept. A case throws: `failure` (CUDA said no, or
 * a result is wrong) or `unsupported` (this card or library cannot do it); the next one goes on.
 * Device memory of a case is freed by its destructors. main() returns 0, 1 after a failed case, 3
 * without a card.
 *
 * No kernel waits for ever: all waits of a launch share one bound by %globaltimer (struct
 * patience), after which they all give up, the launch ends, and the case has failed. */
#ifndef BENCH_GPU_FLOOR_CUH
#define BENCH_GPU_FLOOR_CUH

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

enum { EXIT_NO_GPU = 3, REPEATS = 200, WARM_UPS = 20 };

/* ---- Failures -------------------------------------------------------------------------------- */

struct failure {
    std::string text;
};

struct unsupported {
    std::string reason;
};

inline void check_call(cudaError_t error, const char *call, const char *file, int line)
{
    if (error != cudaSuccess) {
        (void)cudaGetLastError(); // or the next case would find it again
        const char *name = strrchr(file, '/');
        throw failure{std::string(cudaGetErrorName(error)) + ", " + cudaGetErrorString(error) +
                      ": " + call + " at " + (name != nullptr ? name + 1 : file) + ":" +
                      std::to_string(line)};
    }
}

#define TRY(call) check_call((call), #call, __FILE__, __LINE__)

/* Cheap enough for a loop that polls. */
inline void want(bool is_right, const char *what)
{
    if (!is_right) {
        throw failure{what};
    }
}

/* ---- Waits in kernels ------------------------------------------------------------------------ */

#define PATIENCE_NS 3000000000ull

__device__ inline uint64_t global_ns()
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* Of one thread: until when it waits at all. The first wait that gives up names its site in the
 * fault word, which is pinned memory that the host reads after the launch; later waits give up at
 * once, so that every thread still walks through every barrier of its block. */
struct patience {
    uint64_t until_ns;
    uint32_t *fault;
    bool is_over;

    __device__ explicit patience(uint32_t *fault_word, uint64_t ns = PATIENCE_NS)
        : until_ns(global_ns() + ns), fault(fault_word), is_over(false)
    {
    }

    /* For a waiting loop: false when it must stop. The clock is read at every 256th turn. */
    __device__ bool goes_on(uint32_t turn, uint32_t site)
    {
        if (is_over) {
            return false;
        }
        if ((turn & 255u) != 255u || global_ns() < until_ns) {
            return true;
        }
        is_over = true;
        if (fault != nullptr) {
            asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(fault), "r"(site) : "memory");
        }
        return false;
    }
};

/* Control words: always with order and scope. `relaxed` ones are for words that carry their own
 * tag. */
__device__ inline uint64_t load_acquire_gpu(const uint64_t *at)
{
    uint64_t value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

__device__ inline uint64_t load_relaxed_gpu(const uint64_t *at)
{
    uint64_t value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

__device__ inline void store_relaxed_gpu(uint64_t *at, uint64_t value)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

__device__ inline void store_release_gpu(uint64_t *at, uint64_t value)
{
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

__device__ inline void add_release_gpu(uint64_t *at, uint64_t value)
{
    asm volatile("red.release.gpu.global.add.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

__device__ inline uint64_t load_acquire_sys(const uint64_t *at)
{
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

__device__ inline uint64_t load_relaxed_sys(const uint64_t *at)
{
    uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

__device__ inline void store_release_sys(uint64_t *at, uint64_t value)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

__device__ inline void store_relaxed_sys(uint64_t *at, uint64_t value)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}

/* The host's side of words that both sides see: each is written by one side alone. */
inline uint64_t host_load(const uint64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

inline void host_store(uint64_t *at, uint64_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

inline double now_us()
{
    using namespace std::chrono;
    return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

/* Polls until the word is `value`, for two seconds at most; since when the wait counts is the
 * caller's. */
inline void await_word(const uint64_t *word, uint64_t value, double start_us)
{
    for (uint32_t turn = 1; host_load(word) != value; turn++) {
        want(turn % 4096 != 0 || now_us() - start_us < 2e6, "no answer within two seconds");
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Zeroed at first. `pinned` memory is mapped: one address for both sides. Copies go by the thread's
 * own default stream (nvcc's --default-stream per-thread), never by the legacy one, which waits for
 * all. */
template <class T> struct device_array {
    T *at = nullptr;
    size_t count;

    explicit device_array(size_t n) : count(n)
    {
        TRY(cudaMalloc(&at, n * sizeof(T)));
        TRY(cudaMemset(at, 0, n * sizeof(T))); // before any kernel waits for anything
        TRY(cudaStreamSynchronize(cudaStreamPerThread));
    }
    device_array(const device_array &) = delete;
    ~device_array()
    {
        (void)cudaFree(at); // after a failure it says what is known already
    }
    void set(const T *from)
    {
        TRY(cudaMemcpy(at, from, count * sizeof(T), cudaMemcpyHostToDevice));
        // It may return before the last bytes have left; kernels run in streams that would not
        // wait.
        TRY(cudaStreamSynchronize(cudaStreamPerThread));
    }
    std::vector<T> get() const
    {
        std::vector<T> out(count);
        TRY(cudaMemcpy(out.data(), at, count * sizeof(T), cudaMemcpyDeviceToHost));
        return out;
    }
};

template <class T> struct pinned_array {
    T *at = nullptr;

    explicit pinned_array(size_t n)
    {
        TRY(cudaHostAlloc(&at, n * sizeof(T), cudaHostAllocMapped | cudaHostAllocPortable));
        memset(at, 0, n * sizeof(T));
    }
    pinned_array(const pinned_array &) = delete;
    ~pinned_array()
    {
        (void)cudaFreeHost(at);
    }
};

/* Numbers that are no zeros, the same at every run (splitmix64). */
struct draws {
    uint64_t state;

    explicit draws(uint64_t seed) : state(seed)
    {
    }
    uint64_t next()
    {
        uint64_t z = (state += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    /* From -scale to scale, not 0. */
    float real(float scale)
    {
        const auto steps = static_cast<float>((next() >> 41) | 1u); // below 2^23
        const float value = scale * steps / 8388608.0f;
        return (next() & 1u) != 0 ? value : -value;
    }
};

/* ---- Lines of JSON --------------------------------------------------------------------------- */

/* Repeated measurements of one thing, in its unit. */
struct samples {
    std::vector<double> values;

    /* The smallest value that at least this part of all is not above; 0 < part <= 1. */
    double quantile(double part) const
    {
        std::vector<double> sorted = values;
        std::sort(sorted.begin(), sorted.end());
        const auto rank = static_cast<size_t>(std::ceil(part * static_cast<double>(sorted.size())));
        return sorted.empty() ? 0.0 : sorted[std::max<size_t>(rank, 1) - 1];
    }
};

struct json_line {
    std::string text;

    void key(const char *name)
    {
        text += text.empty() ? "{\"" : ",\"";
        text += name;
        text += "\":";
    }
    void string(const char *name, const std::string &value)
    {
        key(name);
        text += '"';
        for (const char c : value) {
            if (c == '"' || c == '\\') {
                text += '\\';
            }
            text += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        }
        text += '"';
    }
    void number(const char *name, double value)
    {
        char digits[32];
        (void)snprintf(digits, sizeof(digits), "%.7g", value);
        key(name);
        text += std::isfinite(value) ? digits : "null";
    }
    void flag(const char *name, bool value)
    {
        key(name);
        text += value ? "true" : "false";
    }
    /* {"p50": .., "p99": .., "min": .., "n": ..}, microseconds. */
    void quantiles(const char *name, const samples &s)
    {
        char digits[160];
        (void)snprintf(digits, sizeof(digits), "{\"p50\":%.6g,\"p99\":%.6g,\"min\":%.6g,\"n\":%zu}",
                       s.quantile(0.5), s.quantile(0.99), s.quantile(1e-9), s.values.size());
        key(name);
        text += digits;
    }
    void print() const
    {
        (void)printf("%s}\n", text.c_str());
        (void)fflush(stdout);
    }
};

/* ---- The card, and repeats on it ------------------------------------------------------------- */

/* Keeps all units of an SM a little busy, so that the clock has risen before anything is timed. */
static __global__ void warm_kernel(float *out, uint64_t ns)
{
    const uint64_t end = global_ns() + ns;
    float a = static_cast<float>(threadIdx.x) + 0.5f;
    float b = 0.25f;
    while (global_ns() < end) {
        for (int i = 0; i < 256; i++) {
            a = fmaf(a, 0.999f, b);
            b = fmaf(b, 0.998f, a * 1e-6f);
        }
    }
    if (a + b == 12345.0f) {
        *out = a; // never; keeps the sums
    }
}

struct rig {
    const char *part; /* of all lines of this program */
    cudaDeviceProp about = {};
    cudaStream_t stream = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
    uint32_t *fault = nullptr;
    int failures = 0;

    explicit rig(const char *name) : part(name)
    {
    }

    int sms() const
    {
        return about.multiProcessorCount;
    }
    bool is_hopper() const
    {
        return about.major >= 9;
    }
    int attribute(cudaDeviceAttr which) const
    {
        int value = 0;
        TRY(cudaDeviceGetAttribute(&value, which, 0));
        return value;
    }

    /* False, with a word on standard error, when there is no card. One device, its first. */
    bool start()
    {
        // Before the first call: nothing may be loaded while a kernel waits.
        (void)setenv("CUDA_MODULE_LOADING", "EAGER", 1);
        (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); // as the product does
        int count = 0;
        const cudaError_t error = cudaGetDeviceCount(&count);
        if (error != cudaSuccess || count == 0) {
            (void)fprintf(stderr, "%s: no GPU: %s\n", part,
                          error != cudaSuccess ? cudaGetErrorString(error) : "no device");
            return false;
        }
        TRY(cudaSetDeviceFlags(cudaDeviceScheduleSpin | cudaDeviceMapHost)); // of device 0
        TRY(cudaSetDevice(0));
        TRY(cudaGetDeviceProperties(&about, 0));
        TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        TRY(cudaEventCreate(&begin));
        TRY(cudaEventCreate(&end));
        TRY(cudaHostAlloc(&fault, sizeof(*fault), cudaHostAllocMapped | cudaHostAllocPortable));
        *fault = 0;
        return true;
    }

    void warm(uint64_t ns)
    {
        device_array<float> out(1);
        warm_kernel<<<2 * sms(), 256, 0, stream>>>(out.at, ns);
        TRY(cudaGetLastError());
        TRY(cudaStreamSynchronize(stream));
    }

    /* After every launch that waits: did a wait give up? */
    void want_no_fault()
    {
        const uint32_t site = __atomic_exchange_n(fault, 0u, __ATOMIC_ACQUIRE);
        if (site != 0) {
            throw failure{"a wait gave up, site " + std::to_string(site)};
        }
    }

    /* Repeats launch(), which gives `of` operations to the stream: time of one operation by events
     * around it, and by the host's clock from before the call until the stream is empty. The first
     * event does not wait for the launch, whose own microseconds are in both times: `of` is to be
     * so large that they are lost. */
    template <class F>
    void repeat(json_line &line, double of, F launch, int repeats = REPEATS,
                int warm_ups = WARM_UPS)
    {
        samples events, wall;
        for (int i = -warm_ups; i < repeats; i++) {
            const double start_us = now_us();
            TRY(cudaEventRecord(begin, stream));
            launch();
            TRY(cudaEventRecord(end, stream));
            TRY(cudaStreamSynchronize(stream));
            const double end_us = now_us();
            want_no_fault();
            float ms = 0.0f;
            TRY(cudaEventElapsedTime(&ms, begin, end));
            if (i >= 0) {
                events.values.push_back(1000.0 * static_cast<double>(ms) / of);
                wall.values.push_back((end_us - start_us) / of);
            }
        }
        line.number("per_repeat", of);
        line.quantiles("events_us", events);
        line.quantiles("wall_us", wall);
    }

    /* Runs body(line) as a case whose line begins with what describe(line) says. */
    template <class D, class B> void run(const char *name, D describe, B body)
    {
        json_line head;
        head.string("part", part);
        head.string("case", name);
        describe(head);
        json_line line = head;
        __atomic_store_n(fault, 0u,
                         __ATOMIC_RELEASE); // of a case that failed before it was looked at
        try {
            body(line);
            line.flag("checked", true);
            line.string("status", "ok");
        } catch (const unsupported &u) {
            line = head;
            line.string("status", "unsupported");
            line.string("reason", u.reason);
        } catch (const failure &f) {
            line = head;
            line.string("status", "failed");
            line.string("reason", f.text);
            failures++;
        }
        line.print();
    }
};

/* main(): starts the rig, warms the card for a second, and runs all(). */
template <class F> int run_all(const char *part, F all)
{
    rig r(part);
    try {
        if (!r.start()) {
            return EXIT_NO_GPU;
        }
        r.warm(1000000000ull);
        all(r);
    } catch (const failure &f) {
        (void)fprintf(stderr, "%s: %s\n", part, f.text.c_str());
        return 1;
    }
    return r.failures > 0 ? 1 : 0;
}

/* ---- Launches -------------------------------------------------------------------------------- */

struct shape {
    int blocks, threads;
    size_t shared_bytes = 0; /* dynamic */
    int cluster = 1;
    bool is_cooperative = false;
};

template <class... P, class... A>
cudaError_t launch(const rig &r, const shape &s, void (*kernel)(P...), A... arguments)
{
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(s.blocks));
    config.blockDim = dim3(static_cast<unsigned>(s.threads));
    config.dynamicSmemBytes = s.shared_bytes;
    config.stream = r.stream;
    config.attrs = attributes;
    if (s.is_cooperative) {
        attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
        attributes[config.numAttrs++].val.cooperative = 1;
    }
    if (s.cluster > 1) {
        attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
        attributes[config.numAttrs].val.clusterDim = {static_cast<unsigned>(s.cluster), 1, 1};
        config.numAttrs++;
    }
    return cudaLaunchKernelEx(&config, kernel, static_cast<P>(arguments)...);
}

/* Makes the kernel ready for so much dynamic shared memory, and sees to it that all blocks can run
 * at the same time: to be asked before any launch whose blocks wait for each other. */
template <class... P> void want_resident(const rig &r, const shape &s, void (*kernel)(P...))
{
    if (s.shared_bytes > r.about.sharedMemPerBlockOptin) {
        throw unsupported{"not enough shared memory in a block"};
    }
    TRY(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(s.shared_bytes)));
    int blocks = 0;
    TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, s.threads, s.shared_bytes));
    if (blocks * r.sms() < s.blocks) {
        throw unsupported{"only " + std::to_string(blocks * r.sms()) + " blocks run together"};
    }
}

#endif
