/* The way from the CPU to a kernel that is already running and back, through pinned host memory.
 *
 *   two reads   the kernel polls a number (ld.acquire.sys), then reads the message: two trips
 *   tagged      a line of 16 words, each with the number in it: one trip, and no fence
 *
 * From before the first store of the CPU until it sees the kernel's answer, which has the sum of
 * what the kernel has read; with 4 KiB of outputs, which the CPU looks at too; and while other
 * blocks poll. Messages come at random times. Then the parts: dependent reads of host memory and of
 * L2 by one thread, and what stores with and without release cost the thread that makes them.
 *
 * How long an answer alone takes to reach the CPU no clock tells, the two clocks being apart. In
 * the shortest tagged round the poll has met the message just as it was stored, so it holds half a
 * read of host memory and then the answer's way: shortest round - read of host memory / 2
 * (docs/benchmarks/gpu.md).
 *
 * Every word is written by one side only, and there are no atomic additions in host memory. */
#include "bench/gpu/floor.cuh"

enum {
    WORDS = 16, /* of 8 bytes, in a line of 128 */
    OUTPUTS = 1024,
    MESSAGES = 2000,
    UNCOUNTED = 200,
    CHASE_LINES = 256,
    READS = 1000,
    STORES = 1000,
    POLLERS_MAX = 255
};

struct memory {
    uint64_t *bell;     /* host: a line; word 0 is the number where the message has its own line */
    uint64_t *message;  /* host: a line, after which the CPU stores the number (two reads) */
    uint64_t *answer;   /* host: number and sum, 32 bits each */
    uint32_t *outputs;  /* host: [OUTPUTS] */
    uint64_t *others;   /* host: a line for each of the other blocks, not 0 when they may leave */
    uint64_t *are_done; /* device: the same for all */
    uint32_t *fault;
};

enum form { TWO_READS, TAGGED };

__device__ __host__ uint32_t output_value(uint32_t number, uint32_t i)
{
    return number * 2654435761u + i + 1u;
}

/* By the first warp of a block: waits for message `number`; each lane returns its word of it. */
__device__ uint32_t receive_two_reads(const memory &m, uint32_t number, patience &wait)
{
    if (threadIdx.x == 0) {
        uint32_t turn = 0;
        while (load_acquire_sys(m.bell) != number && wait.goes_on(turn, 1)) {
            turn++;
        }
    }
    __syncwarp(); // hands lane 0's acquire on
    return static_cast<uint32_t>(load_relaxed_sys(&m.message[threadIdx.x % WORDS]));
}

/* The warp's loads of a line are one read of it. Each 8-byte word is read whole, so what has the
 * number is of this message, in whatever order words arrive. All lanes leave together. */
__device__ uint32_t receive_tagged(const memory &m, uint32_t number, patience &wait)
{
    for (uint32_t turn = 0;; turn++) {
        const uint64_t word = load_relaxed_sys(&m.bell[threadIdx.x % WORDS]);
        if (__all_sync(~0u, static_cast<uint32_t>(word >> 32) == number) != 0 ||
            __any_sync(~0u, wait.goes_on(turn, 2) ? 0 : 1) != 0) {
            return static_cast<uint32_t>(word);
        }
    }
}

/* The release covers what the block's other threads stored, by the bar.sync before it. Without
 * outputs a tagged answer orders nothing: it holds its number and the sum, which is made of what
 * was read. */
template <form FORM, bool HAS_OUTPUTS>
__device__ void answer_all(const memory &m, uint32_t messages)
{
    patience wait(m.fault);
    for (uint32_t number = 1; number <= messages; number++) {
        uint32_t sum = 0;
        if (threadIdx.x < 32) {
            const uint32_t word = FORM == TAGGED ? receive_tagged(m, number, wait)
                                                 : receive_two_reads(m, number, wait);
            sum = __reduce_add_sync(~0u, threadIdx.x < WORDS ? word : 0);
        }
        if (HAS_OUTPUTS) {
            __syncthreads();
            for (uint32_t i = threadIdx.x; i < OUTPUTS; i += blockDim.x) {
                m.outputs[i] = output_value(number, i);
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            const uint64_t answer = static_cast<uint64_t>(number) << 32 | sum;
            if (FORM == TAGGED && !HAS_OUTPUTS) {
                store_relaxed_sys(m.answer, answer);
            } else {
                store_release_sys(m.answer, answer);
            }
        }
    }
    if (threadIdx.x == 0) {
        store_relaxed_gpu(m.are_done, 1);
    }
}

/* Block 0 answers; the others poll, each with one thread, until they are told to leave. */
template <form FORM, bool HAS_OUTPUTS>
__global__ void __launch_bounds__(256, 1)
    doorbell_kernel(memory m, uint32_t messages, bool is_polling_host)
{
    if (blockIdx.x == 0) {
        answer_all<FORM, HAS_OUTPUTS>(m, messages);
    } else if (threadIdx.x == 0) {
        patience wait(m.fault);
        const uint64_t *line = m.others + (blockIdx.x - 1) * WORDS;
        uint32_t turn = 0;
        while ((is_polling_host ? load_relaxed_sys(line) : load_relaxed_gpu(m.are_done)) == 0 &&
               wait.goes_on(turn, 3)) {
            turn++;
        }
    }
}

struct sides {
    pinned_array<uint64_t> lines;
    pinned_array<uint32_t> outputs;
    pinned_array<uint64_t> others;
    device_array<uint64_t> are_done;
    draws random;
    memory m;

    explicit sides(const rig &r)
        : lines(3 * WORDS), outputs(OUTPUTS), others(POLLERS_MAX * WORDS), are_done(1), random(1)
    {
        m = {lines.at,    lines.at + WORDS, lines.at + 2 * WORDS, outputs.at, others.at,
             are_done.at, r.fault};
    }

    void release_pollers()
    {
        for (int i = 0; i < POLLERS_MAX; i++) {
            host_store(&others.at[i * WORDS], 1);
        }
    }

    /* Words to send, and their sum. */
    uint32_t draw(uint32_t (&words)[WORDS])
    {
        uint32_t sum = 0;
        for (uint32_t &word : words) {
            word = static_cast<uint32_t>(random.next()) | 1u;
            sum += word;
        }
        return sum;
    }

    void send(form f, uint32_t number, const uint32_t (&words)[WORDS])
    {
        for (int i = 0; i < WORDS; i++) {
            if (f == TAGGED) {
                __atomic_store_n(&m.bell[i], static_cast<uint64_t>(number) << 32 | words[i],
                                 __ATOMIC_RELAXED);
            } else {
                __atomic_store_n(&m.message[i], words[i], __ATOMIC_RELAXED);
            }
        }
        if (f == TWO_READS) {
            host_store(m.bell, number); // release: after the message
        }
    }

    /* Microseconds of one message; waits for two seconds at most. */
    double exchange(form f, uint32_t number, bool has_outputs)
    {
        uint32_t words[WORDS];
        const uint32_t sum = draw(words);
        const double start = now_us();
        send(f, number, words);
        uint64_t got = host_load(m.answer);
        for (uint32_t turn = 1; got >> 32 != number; turn++) {
            want(turn % 4096 != 0 || now_us() - start < 2e6, "no answer within two seconds");
            got = host_load(m.answer);
        }
        const double us = now_us() - start;
        want(static_cast<uint32_t>(got) == sum, "the kernel read another message");
        for (uint32_t i = 0; has_outputs && i < OUTPUTS; i++) {
            want(outputs.at[i] == output_value(number, i), "an output came after the answer");
        }
        return us;
    }

    /* Up to 4 us, so that messages do not keep step with the polls. */
    void idle()
    {
        const double end = now_us() + static_cast<double>(random.next() % 4096) * 1e-3;
        while (now_us() < end) {
        }
    }
};

template <form FORM, bool HAS_OUTPUTS>
static void measure(rig &r, json_line &line, int pollers, bool is_polling_host)
{
    shape s = {1 + pollers, HAS_OUTPUTS ? 256 : 32};
    s.shared_bytes = std::min(r.about.sharedMemPerBlockOptin,
                              r.about.sharedMemPerMultiprocessor / 2 + 1024); // one block an SM
    const auto kernel = doorbell_kernel<FORM, HAS_OUTPUTS>;
    want_resident(r, s, kernel);
    sides both(r);
    samples wall;
    TRY(launch(r, s, kernel, both.m, MESSAGES + UNCOUNTED, is_polling_host));
    try {
        for (uint32_t number = 1; number <= MESSAGES + UNCOUNTED; number++) {
            both.idle();
            const double us = both.exchange(FORM, number, HAS_OUTPUTS);
            if (number > UNCOUNTED) {
                wall.values.push_back(us);
            }
        }
    } catch (const failure &) {
        both.release_pollers();
        (void)cudaStreamSynchronize(r.stream); // ends by its own bound
        r.want_no_fault();                     // which says where it waited
        throw;
    }
    both.release_pollers();
    TRY(cudaStreamSynchronize(r.stream));
    r.want_no_fault();
    line.quantiles("wall_us", wall);
}

/* Line to line, each read naming the next. */
template <bool IS_HOST> __global__ void chase_kernel(const uint64_t *lines, uint64_t *last)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < READS; i++) {
        at = IS_HOST ? load_relaxed_sys(&lines[at * WORDS]) : load_relaxed_gpu(&lines[at * WORDS]);
    }
    *last = at;
}

template <bool IS_HOST> static void measure_reads(rig &r, json_line &line)
{
    pinned_array<uint64_t> host(CHASE_LINES * WORDS);
    device_array<uint64_t> device(CHASE_LINES * WORDS);
    device_array<uint64_t> last(1);
    std::vector<uint64_t> order(CHASE_LINES);
    draws random(2);
    for (uint64_t i = 0; i < CHASE_LINES; i++) {
        order[i] = i;
    }
    for (uint64_t i = CHASE_LINES - 1; i > 1; i--) { // line 0 stays first
        std::swap(order[i], order[1 + random.next() % i]);
    }
    for (uint64_t i = 0; i < CHASE_LINES; i++) {
        host.at[order[i] * WORDS] = order[(i + 1) % CHASE_LINES];
    }
    device.set(host.at);
    const uint64_t *lines = IS_HOST ? host.at : device.at;
    r.repeat(line, READS, [&] {
        chase_kernel<IS_HOST><<<1, 1, 0, r.stream>>>(lines, last.at);
        TRY(cudaGetLastError());
    });
    want(last.get()[0] == order[READS % CHASE_LINES], "the reads led elsewhere");
}

enum store { RELAXED, RELEASE_AFTER_DEVICE, RELEASE_AFTER_HOST };

template <store STORE>
__global__ void store_kernel(uint64_t *host, uint64_t *device, uint64_t first)
{
    for (uint64_t i = first + 1; i <= first + STORES; i++) {
        if (STORE == RELEASE_AFTER_DEVICE) {
            store_relaxed_gpu(device, i);
        } else if (STORE == RELEASE_AFTER_HOST) {
            store_relaxed_sys(&host[WORDS], i);
        }
        if (STORE == RELAXED) {
            store_relaxed_sys(host, i);
        } else {
            store_release_sys(host, i);
        }
    }
}

template <store STORE> static void measure_stores(rig &r, json_line &line)
{
    pinned_array<uint64_t> host(2 * WORDS);
    device_array<uint64_t> device(1);
    uint64_t stores = 0;
    r.repeat(line, STORES, [&] {
        store_kernel<STORE><<<1, 1, 0, r.stream>>>(host.at, device.at, stores);
        TRY(cudaGetLastError());
        stores += STORES;
    });
    want(host_load(host.at) == stores, "the last store is not there");
    want(STORE != RELEASE_AFTER_HOST || host_load(&host.at[WORDS]) == stores, "a store is missing");
    want(STORE != RELEASE_AFTER_DEVICE || device.get()[0] == stores, "a store is missing");
}

static void run_pollers(rig &r)
{
    for (const int pollers : {7, 31, r.sms() - 1}) {
        for (const bool is_polling_host : {true, false}) {
            const auto describe = [&](json_line &line) {
                line.number("other_blocks", pollers);
                line.string("polling", is_polling_host ? "host memory" : "device memory");
            };
            r.run("two reads", describe, [&](json_line &line) {
                measure<TWO_READS, false>(r, line, pollers, is_polling_host);
            });
            r.run("tagged", describe, [&](json_line &line) {
                measure<TAGGED, false>(r, line, pollers, is_polling_host);
            });
        }
    }
}

int main()
{
    return run_all("doorbell", [](rig &r) {
        const auto alone = [](json_line &line) { line.number("other_blocks", 0); };
        const auto nothing = [](json_line &) {};
        r.run("two reads", alone,
              [&](json_line &line) { measure<TWO_READS, false>(r, line, 0, true); });
        r.run("tagged", alone, [&](json_line &line) { measure<TAGGED, false>(r, line, 0, true); });
        r.run("two reads, outputs", alone,
              [&](json_line &line) { measure<TWO_READS, true>(r, line, 0, true); });
        r.run("tagged, outputs", alone,
              [&](json_line &line) { measure<TAGGED, true>(r, line, 0, true); });
        run_pollers(r);
        r.run("read of host memory", nothing,
              [&](json_line &line) { measure_reads<true>(r, line); });
        r.run("read of L2", nothing, [&](json_line &line) { measure_reads<false>(r, line); });
        r.run("store to host", nothing, [&](json_line &line) { measure_stores<RELAXED>(r, line); });
        r.run("release after a store to the device", nothing,
              [&](json_line &line) { measure_stores<RELEASE_AFTER_DEVICE>(r, line); });
        r.run("release after a store to the host", nothing,
              [&](json_line &line) { measure_stores<RELEASE_AFTER_HOST>(r, line); });
    });
}
