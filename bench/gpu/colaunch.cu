/* What goes on beside a kernel that stays: which calls return, and which work is done, while a lane
 * holds one SM, half of them, or all.
 *
 * The lane is a block of 256 threads an SM with nearly all shared memory. Block 0 polls a word of
 * the host and hands it to the others. It leaves by itself after LANE_NS, so a call that waits for
 * it returns then: such calls must never be made while a lane runs, which is what is to be found
 * out here. For each call:
 *
 *   call_us       until the call returned
 *   done_us       until its work was seen to be done; null when not before the lane left
 *   runs_beside   whether both were before the lane left
 *
 * Checked: the work itself, after the lane has left. */
#include "bench/gpu/floor.cuh"

#include <memory>

#define LANE_NS 600000000ull

enum { THREADS = 256, WORDS = 16, BYTES = 65536, DONE_WITHIN_US = 200000 };

struct lane_memory {
    uint64_t *alive;   /* host: a line a block */
    uint64_t *stop;    /* host */
    uint64_t *stopped; /* device: the same for blocks other than 0 */
    uint64_t *gave_up; /* host: blocks that left by themselves; each stores the same 1 */
};

__global__ void __launch_bounds__(THREADS, 1) lane_kernel(lane_memory m)
{
    if (threadIdx.x != 0) {
        return; // the block stays as long as one of its threads
    }
    patience wait(nullptr, LANE_NS);
    store_release_sys(&m.alive[blockIdx.x * WORDS], 1);
    uint32_t turn = 0;
    if (blockIdx.x == 0) {
        while (load_relaxed_sys(m.stop) == 0 && wait.goes_on(turn, 1)) {
            turn++;
        }
        store_release_gpu(m.stopped, 1);
    } else {
        while (load_acquire_gpu(m.stopped) == 0 && wait.goes_on(turn, 2)) {
            turn++;
        }
    }
    if (wait.is_over) {
        store_relaxed_sys(m.gave_up, 1);
    }
}

/* By one thread of each block: adds, and the last tells the CPU. */
__global__ void visit_kernel(unsigned long long *count, uint64_t *word)
{
    if (threadIdx.x == 0 && atomicAdd(count, 1ull) == gridDim.x - 1) {
        store_release_sys(word, gridDim.x);
    }
}

struct lane {
    int blocks;
    size_t shared_bytes;
    cudaStream_t stream = nullptr;
    pinned_array<uint64_t> alive, words;
    device_array<uint64_t> stopped;

    lane(const rig &r, int n)
        : blocks(n), shared_bytes(r.about.sharedMemPerBlockOptin - 1024),
          alive(static_cast<size_t>(n) * WORDS), words(2 * WORDS), stopped(1)
    {
        TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        want_resident(r, {n, THREADS, shared_bytes}, lane_kernel);
    }
    lane(const lane &) = delete;
    ~lane()
    {
        host_store(words.at, 1);
        (void)cudaStreamSynchronize(stream);
        (void)cudaStreamDestroy(stream);
    }

    void launch()
    {
        const lane_memory m = {alive.at, words.at, stopped.at, words.at + WORDS};
        lane_kernel<<<blocks, THREADS, shared_bytes, stream>>>(m);
        TRY(cudaGetLastError());
    }
    int alive_blocks() const
    {
        int count = 0;
        for (int i = 0; i < blocks; i++) {
            count += host_load(&alive.at[i * WORDS]) != 0 ? 1 : 0;
        }
        return count;
    }
    /* All blocks run before so much time is over. */
    bool is_alive_within(double us) const
    {
        const double end = now_us() + us;
        while (alive_blocks() < blocks) {
            if (now_us() > end) {
                return false;
            }
        }
        return true;
    }
    bool is_running() const
    {
        return cudaStreamQuery(stream) == cudaErrorNotReady;
    }
    void stop()
    {
        host_store(words.at, 1);
        TRY(cudaStreamSynchronize(stream));
    }
};

struct bench {
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    cudaGraphExec_t graph = nullptr;
    device_array<unsigned long long> count;
    device_array<uint8_t> device;
    pinned_array<uint64_t> word;
    pinned_array<uint8_t> pinned;
    std::vector<uint8_t> pageable;
    void *made = nullptr;    /* what an allocation under test has made */
    int blocks = 1;          /* of visit_kernel */
    size_t shared_bytes = 0; /* likewise */

    bench() : count(1), device(BYTES), word(WORDS), pinned(BYTES), pageable(BYTES)
    {
        draws random(4);
        for (size_t i = 0; i < BYTES; i++) {
            pageable[i] = static_cast<uint8_t>(random.next() | 1u);
        }
        memcpy(pinned.at, pageable.data(), BYTES);
        TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        cudaGraph_t recorded = nullptr;
        TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        visit_kernel<<<1, 32, 0, stream>>>(count.at, word.at);
        TRY(cudaStreamEndCapture(stream, &recorded));
        TRY(cudaGraphInstantiate(&graph, recorded, 0));
        TRY(cudaGraphDestroy(recorded));
        TRY(cudaGraphUpload(graph, stream));
        TRY(cudaStreamSynchronize(stream));
    }
    bench(const bench &) = delete;
    ~bench()
    {
        (void)cudaGraphExecDestroy(graph);
        (void)cudaEventDestroy(event);
        (void)cudaStreamDestroy(stream);
    }
};

static void nothing(const rig &, bench &)
{
}

static bool at_once(const bench &)
{
    return true;
}

static bool is_told(const bench &b)
{
    return host_load(b.word.at) != 0;
}

static bool is_past_event(const bench &b)
{
    const cudaError_t error = cudaEventQuery(b.event);
    if (error != cudaErrorNotReady) {
        TRY(error);
    }
    return error == cudaSuccess;
}

static void visit(bench &b)
{
    visit_kernel<<<b.blocks, 32, b.shared_bytes, b.stream>>>(b.count.at, b.word.at);
    TRY(cudaGetLastError());
}

static bool is_visited(bench &b)
{
    return b.count.get()[0] == static_cast<unsigned>(b.blocks);
}

static bool is_copied(bench &b)
{
    return b.device.get() == b.pageable;
}

static void make_stream_and_event(bench &b)
{
    cudaStream_t stream = nullptr;
    TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    b.made = stream;
    cudaEvent_t event = nullptr;
    TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    TRY(cudaEventDestroy(event));
}

static void use_whole_sm(const rig &r, bench &b)
{
    b.shared_bytes = r.about.sharedMemPerBlockOptin - 1024;
    TRY(cudaFuncSetAttribute(visit_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(b.shared_bytes)));
}

static void copy_from(bench &b, const uint8_t *from)
{
    TRY(cudaMemcpyAsync(b.device.at, from, BYTES, cudaMemcpyHostToDevice, b.stream));
    TRY(cudaEventRecord(b.event, b.stream));
}

struct work {
    const char *name;
    void (*prepare)(const rig &, bench &); /* before the lane runs */
    void (*begin)(bench &);                /* alone beside it */
    bool (*is_done)(const bench &);
    bool (*is_right)(bench &); /* after the lane has left; ends what was made */
};

static const work works[] = {
    {"kernel", nothing, visit, is_told, is_visited},
    {"kernel, a block an SM", [](const rig &r, bench &b) { b.blocks = r.sms(); }, visit, is_told,
     is_visited},
    {"kernel, a whole SM", use_whole_sm, visit, is_told, is_visited},
    {"graph", nothing, [](bench &b) { TRY(cudaGraphLaunch(b.graph, b.stream)); }, is_told,
     is_visited},
    {"copy, pinned", nothing, [](bench &b) { copy_from(b, b.pinned.at); }, is_past_event,
     is_copied},
    {"copy, pageable", nothing, [](bench &b) { copy_from(b, b.pageable.data()); }, is_past_event,
     is_copied},
    {"memset", nothing,
     [](bench &b) {
         TRY(cudaMemsetAsync(b.device.at, 7, BYTES, b.stream));
         TRY(cudaEventRecord(b.event, b.stream));
     },
     is_past_event, [](bench &b) { return b.device.get() == std::vector<uint8_t>(BYTES, 7); }},
    {"cudaMalloc", nothing, [](bench &b) { TRY(cudaMalloc(&b.made, BYTES)); }, at_once,
     [](bench &b) { return cudaFree(b.made) == cudaSuccess; }},
    {"cudaFree", [](const rig &, bench &b) { TRY(cudaMalloc(&b.made, BYTES)); },
     [](bench &b) { TRY(cudaFree(b.made)); }, at_once, [](bench &) { return true; }},
    {"cudaHostAlloc", nothing,
     [](bench &b) { TRY(cudaHostAlloc(&b.made, BYTES, cudaHostAllocMapped)); }, at_once,
     [](bench &b) { return cudaFreeHost(b.made) == cudaSuccess; }},
    {"cudaFreeHost",
     [](const rig &, bench &b) { TRY(cudaHostAlloc(&b.made, BYTES, cudaHostAllocMapped)); },
     [](bench &b) { TRY(cudaFreeHost(b.made)); }, at_once, [](bench &) { return true; }},
    {"stream and event made", nothing, make_stream_and_event, at_once,
     [](bench &b) { return cudaStreamDestroy(static_cast<cudaStream_t>(b.made)) == cudaSuccess; }},
    {"occupancy query", nothing,
     [](bench &b) {
         TRY(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&b.blocks, visit_kernel, 32, 0));
     },
     at_once, [](bench &b) { return b.blocks > 0; }},
};

static void beside(rig &r, json_line &line, int blocks, const work &w)
{
    bench b;
    lane held(r, blocks);
    w.prepare(r, b);
    held.launch();
    want(held.is_alive_within(5e5), "the lane itself does not run");
    const double start = now_us();
    w.begin(b);
    const double called = now_us();
    bool is_done = w.is_done(b);
    while (!is_done && now_us() - called < DONE_WITHIN_US && held.is_running()) {
        is_done = w.is_done(b);
    }
    const double done = now_us();
    const bool runs_beside = is_done && held.is_running();
    held.stop();
    TRY(cudaStreamSynchronize(b.stream));
    want(w.is_right(b), "the work was not done right");
    line.number("call_us", called - start);
    line.number("done_us", runs_beside ? done - start : std::nan(""));
    line.flag("runs_beside", runs_beside);
}

/* Two lanes: do all blocks of the second run while the first holds its SMs? */
static void two_lanes(rig &r, json_line &line, int first, int second)
{
    lane a(r, first);
    lane b(r, second);
    a.launch();
    want(a.is_alive_within(5e5), "the first lane does not run");
    const double start = now_us();
    b.launch();
    const bool is_alive = b.is_alive_within(DONE_WITHIN_US);
    const double done = now_us();
    const bool runs_beside = is_alive && a.is_running();
    line.number("done_us", runs_beside ? done - start : std::nan(""));
    line.number("alive_blocks", b.alive_blocks());
    line.flag("runs_beside", runs_beside);
    a.stop();
    b.stop();
    want(b.alive_blocks() == second, "a block of the second lane never ran");
}

/* As many lanes as a device of ours has, each on an SM of its own, and then a kernel and a copy in
 * each of a dozen streams: together fewer streams than floor.cuh asks hardware queues for. In one
 * queue with a lane, either would wait until that has left. */
static void many_streams(rig &r, json_line &line, int n_lanes, size_t n_streams)
{
    std::vector<std::unique_ptr<lane>> lanes;
    std::vector<std::unique_ptr<bench>> others;
    for (int i = 0; i < n_lanes; i++) {
        lanes.push_back(std::make_unique<lane>(r, 1));
    }
    while (others.size() < n_streams) {
        others.push_back(std::make_unique<bench>());
    }
    for (const auto &one : lanes) {
        one->launch();
    }
    for (const auto &one : lanes) {
        want(one->is_alive_within(DONE_WITHIN_US), "a lane waits for another");
    }
    const double start = now_us();
    for (const auto &other : others) {
        visit(*other);
        copy_from(*other, other->pinned.at);
    }
    const double called = now_us();
    const auto is_done = [](const std::unique_ptr<bench> &b) {
        return is_told(*b) && is_past_event(*b);
    };
    const auto is_running = [](const std::unique_ptr<lane> &one) { return one->is_running(); };
    long done = 0;
    double now = called;
    do {
        done = std::count_if(others.begin(), others.end(), is_done);
        now = now_us();
    } while (done < static_cast<long>(n_streams) && now - called < DONE_WITHIN_US);
    const bool runs_beside =
        done == static_cast<long>(n_streams) && std::all_of(lanes.begin(), lanes.end(), is_running);
    for (const auto &one : lanes) {
        one->stop();
    }
    for (const auto &other : others) {
        TRY(cudaStreamSynchronize(other->stream));
        want(is_visited(*other) && is_copied(*other), "the work was not done right");
    }
    line.number("call_us", called - start);
    line.number("done_us", runs_beside ? now - start : std::nan(""));
    line.number("done_streams", static_cast<double>(done));
    line.flag("runs_beside", runs_beside);
}

int main()
{
    return run_all("colaunch", [](rig &r) {
        for (const int blocks : {1, r.sms() / 2, r.sms()}) {
            for (const work &w : works) {
                r.run(
                    w.name, [&](json_line &line) { line.number("lane_sms", blocks); },
                    [&](json_line &line) { beside(r, line, blocks, w); });
            }
        }
        for (const int second : {1, r.sms() - r.sms() / 2, r.sms() - r.sms() / 2 + 1}) {
            r.run(
                "second lane",
                [&](json_line &line) {
                    line.number("lane_sms", r.sms() / 2);
                    line.number("second_sms", second);
                },
                [&](json_line &line) { two_lanes(r, line, r.sms() / 2, second); });
        }
        const int lanes = std::min(16, r.sms() / 2);
        const size_t streams = 12;
        r.run(
            "many lanes and streams",
            [&](json_line &line) {
                line.number("lane_sms", lanes);
                line.number("streams", static_cast<double>(streams));
            },
            [&](json_line &line) { many_streams(r, line, lanes, streams); });
    });
}
