/* What it costs to start kernels, and to hear that they have ended, without a kernel that stays.
 *
 *   call_us     of the CPU, for one call among many
 *   events_us   of the GPU, for one kernel among many, by events
 *   wall_us     from before the call until the CPU knows of the end
 *
 * By launches into a stream and by graphs; the end by synchronising, an event's query, a word that
 * the kernel itself stores, cuStreamWriteValue64, or a host function. Then a lane's start: a block
 * on every SM that reads 128 KiB of weights into shared memory, from memory or from L2, until the
 * CPU sees that all have.
 *
 * Each kernel adds 1 to a counter, and each word ends at a known number, so nothing was left out.
 */
#include "bench/gpu/floor.cuh"

#include <cuda.h>

enum { MANY = 500, WEIGHT_BYTES = 131072, WEIGHT_THREADS = 512 };

/* In one stream: no two of them run at the same time. */
__global__ void count_kernel(uint64_t *count)
{
    *count += 1;
}

/* The same, and tells the CPU. */
__global__ void tell_kernel(uint64_t *count, uint64_t *word)
{
    *count += 1;
    store_release_sys(word, *count);
}

struct weights_memory {
    const uint4 *weights; /* [blocks][WEIGHT_BYTES] */
    uint32_t *sums;       /* [blocks] */
    uint64_t *arrivals;   /* only grows */
    uint64_t *ready;      /* host: the launch whose weights are all on the chip */
    uint32_t *fault;
};

/* Block 0 waits for the others, so all must run together: a cooperative launch. */
__global__ void __launch_bounds__(WEIGHT_THREADS, 1)
    weights_kernel(weights_memory m, uint64_t number)
{
    extern __shared__ __align__(16) uint4 kept[];
    __shared__ uint32_t total;
    const uint4 *from = m.weights + static_cast<size_t>(blockIdx.x) * (WEIGHT_BYTES / 16);
    patience wait(m.fault);
    if (threadIdx.x == 0) {
        total = 0;
    }
#pragma unroll 8
    for (uint32_t i = threadIdx.x; i < WEIGHT_BYTES / 16; i += WEIGHT_THREADS) {
        kept[i] = from[i];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        add_release_gpu(m.arrivals, 1);
        if (blockIdx.x == 0) {
            uint32_t turn = 0;
            while (load_acquire_gpu(m.arrivals) < number * gridDim.x && wait.goes_on(turn, 1)) {
                turn++;
            }
            store_release_sys(m.ready, number);
        }
    }
    // Only now, when the CPU has been told: what was read, looked at from the other end.
    uint32_t sum = 0;
    for (uint32_t i = threadIdx.x; i < WEIGHT_BYTES / 16; i += WEIGHT_THREADS) {
        const uint4 v = kept[WEIGHT_BYTES / 16 - 1 - i];
        sum += v.x + v.y + v.z + v.w;
    }
    atomicAdd(&total, sum);
    __syncthreads();
    if (threadIdx.x == 0) {
        m.sums[blockIdx.x] = total;
    }
}

struct counters {
    device_array<uint64_t> count;
    pinned_array<uint64_t> word;
    uint64_t wanted = 0;

    counters() : count(1), word(16)
    {
    }
    void want_all() const
    {
        want(count.get()[0] == wanted, "kernels are missing, or too many");
    }
};

static void count_once(rig &r, counters &c)
{
    count_kernel<<<1, 1, 0, r.stream>>>(c.count.at);
    TRY(cudaGetLastError());
    c.wanted++;
}

static void tell_once(rig &r, counters &c)
{
    tell_kernel<<<1, 1, 0, r.stream>>>(c.count.at, c.word.at);
    TRY(cudaGetLastError());
    c.wanted++;
}

/* `n` calls in one go: what a call costs the CPU, and an operation the GPU. */
template <class F> static void many(rig &r, json_line &line, int n, F call)
{
    samples calls;
    r.repeat(line, n, [&] {
        const double start = now_us();
        for (int i = 0; i < n; i++) {
            call();
        }
        calls.values.push_back((now_us() - start) / n);
    });
    calls.values.erase(calls.values.begin(), calls.values.begin() + WARM_UPS);
    line.quantiles("call_us", calls);
}

/* One at a time, from before the call until `seen` has returned; the stream is empty then. */
template <class F, class G> static void alone(rig &r, json_line &line, F call, G seen)
{
    samples wall;
    for (int i = -WARM_UPS; i < 5 * REPEATS; i++) {
        const double start = now_us();
        call();
        seen(start);
        const double us = now_us() - start;
        TRY(cudaStreamSynchronize(r.stream));
        if (i >= 0) {
            wall.values.push_back(us);
        }
    }
    line.quantiles("wall_us", wall);
}

struct graph {
    cudaGraphExec_t exec = nullptr;

    /* Of what record() puts into the stream, which runs nothing meanwhile. */
    template <class F> graph(rig &r, F record)
    {
        cudaGraph_t recorded = nullptr;
        TRY(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal));
        try {
            record();
        } catch (...) {
            (void)cudaStreamEndCapture(r.stream, &recorded);
            throw;
        }
        TRY(cudaStreamEndCapture(r.stream, &recorded));
        const cudaError_t error = cudaGraphInstantiate(&exec, recorded, 0);
        (void)cudaGraphDestroy(recorded);
        TRY(error);
        TRY(cudaGraphUpload(exec, r.stream));
        TRY(cudaStreamSynchronize(r.stream));
    }
    graph(const graph &) = delete;
    ~graph()
    {
        (void)cudaGraphExecDestroy(exec);
    }
};

static void run_stream(rig &r)
{
    const auto nothing = [](json_line &) {};
    r.run("stream, many", nothing, [&](json_line &line) {
        counters c;
        many(r, line, MANY, [&] { count_once(r, c); });
        c.want_all();
    });
    r.run("stream, synchronised", nothing, [&](json_line &line) {
        counters c;
        alone(
            r, line, [&] { count_once(r, c); },
            [&](double) { TRY(cudaStreamSynchronize(r.stream)); });
        c.want_all();
    });
    r.run("stream, event queried", nothing, [&](json_line &line) {
        counters c;
        alone(
            r, line,
            [&] {
                count_once(r, c);
                TRY(cudaEventRecord(r.end, r.stream));
            },
            [&](double start) {
                cudaError_t error = cudaErrorNotReady;
                while ((error = cudaEventQuery(r.end)) == cudaErrorNotReady) {
                    want(now_us() - start < 2e6, "no end within two seconds");
                }
                TRY(error);
            });
        c.want_all();
    });
    r.run("stream, word of the kernel", nothing, [&](json_line &line) {
        counters c;
        alone(
            r, line, [&] { tell_once(r, c); },
            [&](double start) { await_word(c.word.at, c.wanted, start); });
        c.want_all();
    });
}

static void run_graphs(rig &r)
{
    for (const int kernels : {1, 20, 100}) {
        const auto describe = [&](json_line &line) { line.number("kernels", kernels); };
        const auto record = [&](counters &c) {
            for (int i = 0; i < kernels; i++) {
                count_once(r, c);
            }
            c.wanted = 0; // recorded, not run
        };
        r.run("graph, many", describe, [&](json_line &line) {
            counters c;
            graph g(r, [&] { record(c); });
            const int launches = MANY / kernels + 1;
            many(r, line, launches, [&] {
                TRY(cudaGraphLaunch(g.exec, r.stream));
                c.wanted += static_cast<uint64_t>(kernels);
            });
            c.want_all();
        });
        r.run("graph, word of the last kernel", describe, [&](json_line &line) {
            counters c;
            graph g(r, [&] {
                record(c);
                tell_once(r, c);
                c.wanted = 0;
            });
            alone(
                r, line,
                [&] {
                    c.wanted += static_cast<uint64_t>(kernels) + 1;
                    TRY(cudaGraphLaunch(g.exec, r.stream));
                },
                [&](double start) { await_word(c.word.at, c.wanted, start); });
            c.want_all();
        });
    }
}

using write_value = CUresult (*)(CUstream, CUdeviceptr, cuuint64_t, unsigned);

/* By the runtime, so that no program here is linked to the driver. */
static write_value find_write_value()
{
    void *found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    TRY(cudaGetDriverEntryPointByVersion("cuStreamWriteValue64", &found, 12000, cudaEnableDefault,
                                         &result));
    if (result != cudaDriverEntryPointSuccess || found == nullptr) {
        throw unsupported{"the driver has no cuStreamWriteValue64"};
    }
    return reinterpret_cast<write_value>(found);
}

static void write_word(rig &r, write_value write, counters &c, uint64_t value)
{
    const CUresult result = write(r.stream, reinterpret_cast<CUdeviceptr>(c.word.at), value, 0);
    if (result != CUDA_SUCCESS) {
        throw failure{"cuStreamWriteValue64: CUresult " + std::to_string(result)};
    }
}

static void run_write_value(rig &r)
{
    const auto nothing = [](json_line &) {};
    r.run("write value, many", nothing, [&](json_line &line) {
        const write_value write = find_write_value();
        counters c;
        uint64_t value = 0;
        many(r, line, MANY, [&] { write_word(r, write, c, ++value); });
        want(host_load(c.word.at) == value, "the last value is not there");
    });
    r.run("write value, alone", nothing, [&](json_line &line) {
        const write_value write = find_write_value();
        counters c;
        uint64_t value = 0;
        alone(
            r, line, [&] { write_word(r, write, c, ++value); },
            [&](double start) { await_word(c.word.at, value, start); });
    });
    r.run("stream, write value", nothing, [&](json_line &line) {
        const write_value write = find_write_value();
        counters c;
        alone(
            r, line,
            [&] {
                count_once(r, c);
                write_word(r, write, c, c.wanted);
            },
            [&](double start) { await_word(c.word.at, c.wanted, start); });
        c.want_all();
    });
}

struct host_call {
    uint64_t *word;
    uint64_t value;
};

static void CUDART_CB store_word(void *argument)
{
    const auto *call = static_cast<const host_call *>(argument);
    host_store(call->word, call->value);
}

static void run_host_function(rig &r)
{
    r.run(
        "stream, host function", [](json_line &) {},
        [&](json_line &line) {
            counters c;
            host_call call = {c.word.at, 0};
            alone(
                r, line,
                [&] {
                    count_once(r, c);
                    call.value = c.wanted;
                    TRY(cudaLaunchHostFunc(r.stream, store_word, &call));
                },
                [&](double start) { await_word(c.word.at, c.wanted, start); });
            c.want_all();
        });
}

struct weights_case {
    shape s;
    device_array<uint4> weights;
    device_array<uint32_t> sums;
    device_array<uint64_t> arrivals;
    pinned_array<uint64_t> ready;
    std::vector<uint32_t> wanted;

    explicit weights_case(const rig &r)
        : s{r.sms(), WEIGHT_THREADS, WEIGHT_BYTES}, weights(blocks() * WEIGHT_BYTES / 16),
          sums(blocks()), arrivals(1), ready(16), wanted(blocks(), 0)
    {
        s.is_cooperative = true;
        std::vector<uint4> values(weights.count);
        draws random(3);
        for (size_t i = 0; i < values.size(); i++) {
            const uint64_t a = random.next(), b = random.next();
            values[i] = {static_cast<uint32_t>(a) | 1u, static_cast<uint32_t>(a >> 32) | 1u,
                         static_cast<uint32_t>(b) | 1u, static_cast<uint32_t>(b >> 32) | 1u};
            wanted[i / (WEIGHT_BYTES / 16)] +=
                values[i].x + values[i].y + values[i].z + values[i].w;
        }
        weights.set(values.data());
    }
    size_t blocks() const
    {
        return static_cast<size_t>(s.blocks);
    }
};

/* From the launch until the CPU sees that all weights are on the chip. */
static void measure_weights(rig &r, json_line &line, bool is_cold)
{
    weights_case w(r);
    want_resident(r, w.s, weights_kernel);
    device_array<uint8_t> flushed(2 * static_cast<size_t>(r.about.l2CacheSize));
    const weights_memory m = {w.weights.at, w.sums.at, w.arrivals.at, w.ready.at, r.fault};
    samples wall, events;
    for (int i = 1; i <= REPEATS + WARM_UPS; i++) {
        if (is_cold) { // other bytes take the place of the weights in L2
            TRY(cudaMemsetAsync(flushed.at, i, flushed.count, r.stream));
        }
        TRY(cudaStreamSynchronize(r.stream));
        const auto number = static_cast<uint64_t>(i);
        const double start = now_us();
        TRY(cudaEventRecord(r.begin, r.stream));
        TRY(launch(r, w.s, weights_kernel, m, number));
        TRY(cudaEventRecord(r.end, r.stream));
        await_word(w.ready.at, number, start);
        const double us = now_us() - start;
        TRY(cudaStreamSynchronize(r.stream));
        r.want_no_fault();
        float ms = 0.0f;
        TRY(cudaEventElapsedTime(&ms, r.begin, r.end));
        if (i > WARM_UPS) {
            wall.values.push_back(us);
            events.values.push_back(1000.0 * static_cast<double>(ms));
        }
    }
    want(w.sums.get() == w.wanted, "a block has other weights");
    line.number("mbytes", static_cast<double>(w.blocks()) * WEIGHT_BYTES * 1e-6);
    line.quantiles("events_us", events);
    line.quantiles("wall_us", wall);
}

int main()
{
    return run_all("launch", [](rig &r) {
        run_stream(r);
        run_graphs(r);
        run_write_value(r);
        run_host_function(r);
        for (const bool is_cold : {true, false}) {
            r.run(
                "relaunch with weights",
                [&](json_line &line) { line.string("from", is_cold ? "memory" : "L2"); },
                [&](json_line &line) { measure_weights(r, line, is_cold); });
        }
    });
}
