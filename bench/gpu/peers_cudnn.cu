/* cuDNN's recurrent layers through its C interface, each algorithm asked for by name: what resident
 * lanes and the fallback are measured against.
 *
 * One layer, one direction, inputs as many as units, on GRNN's shapes (64, 256, 1,024 units, 1 to
 * 24 rows, 100 steps) and those of BatchMaker's figure 3 (1,024 units, 2 to 2,048 rows, 20 steps).
 * `sequence` is one call for all steps, which cuDNN may then plan as a whole; `step in graph` is a
 * call a step, recorded into a CUDA graph: what cellular batching, where rows join at every step,
 * must be compared with.
 *
 * What an algorithm refuses is "unsupported" with cuDNN's words; STANDARD may refuse nothing.
 * Outputs of the first and of the last row, which have the same inputs, are compared with double
 * precision on the CPU over the weights as rounded for the card; the largest error is told. Usage:
 * peers_cudnn [seconds]: cases that are not reached by then have failed. */
#include "bench/gpu/floor.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cudnn.h>

#include <map>

enum { GRNN_STEPS = 100, FIGURE_STEPS = 20, DRAWN_ROWS = 64, CHECKED_STEPS_WIDE = 8 };

/* ---- cuDNN's answers ------------------------------------------------------------------------- */

struct refusal {
    std::string text;
};

/* Statuses of 2,000 to 3,999 say that it does not do this; others that something broke. */
static void check_cudnn(cudnnStatus_t status, const char *call)
{
    if (status == CUDNN_STATUS_SUCCESS) {
        return;
    }
    char more[512] = "";
    cudnnGetLastErrorString(more, sizeof(more));
    const std::string text = std::string(cudnnGetErrorString(status)) + " by " + call +
                             (more[0] != '\0' ? ": " : "") + more;
    (void)cudaGetLastError();
    if (status >= 2000 && status < 4000) {
        throw refusal{text};
    }
    throw failure{text};
}

#define CUDNN(call) check_cudnn((call), std::string(#call).substr(0, strcspn(#call, "(")).c_str())

/* A descriptor that ends with its scope. */
template <class T, cudnnStatus_t (*MAKE)(T *), cudnnStatus_t (*END)(T)> struct owned {
    T it = nullptr;

    owned()
    {
        CUDNN(MAKE(&it));
    }
    owned(const owned &) = delete;
    ~owned()
    {
        (void)END(it);
    }
};

using rnn_descriptor =
    owned<cudnnRNNDescriptor_t, cudnnCreateRNNDescriptor, cudnnDestroyRNNDescriptor>;
using data_descriptor =
    owned<cudnnRNNDataDescriptor_t, cudnnCreateRNNDataDescriptor, cudnnDestroyRNNDataDescriptor>;
using tensor_descriptor =
    owned<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using dropout_descriptor =
    owned<cudnnDropoutDescriptor_t, cudnnCreateDropoutDescriptor, cudnnDestroyDropoutDescriptor>;

/* ---- What is asked for ----------------------------------------------------------------------- */

/* Sums are fp32 in all of them. `tolerance` is of outputs, which are within 1. */
struct precision {
    const char *name;
    cudnnDataType_t data;
    cudnnMathType_t math;
    size_t bytes;
    double tolerance;
};

static const precision precisions[] = {
    {"fp32", CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, 4, 1e-4},
    {"tf32", CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH, 4, 1e-2},
    {"fp16", CUDNN_DATA_HALF, CUDNN_TENSOR_OP_MATH, 2, 2e-2},
    {"bf16", CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_OP_MATH, 2, 1e-1},
};

struct algorithm {
    const char *name;
    cudnnRNNAlgo_t id;
};

static const algorithm algorithms[] = {
    {"STANDARD", CUDNN_RNN_ALGO_STANDARD},
    {"PERSIST_STATIC", CUDNN_RNN_ALGO_PERSIST_STATIC},
    {"PERSIST_DYNAMIC", CUDNN_RNN_ALGO_PERSIST_DYNAMIC},
    {"PERSIST_STATIC_SMALL_H", CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H},
};

struct problem {
    bool is_gru;
    int hidden, rows, steps;
    const precision *type;
    const algorithm *algo;
    bool is_by_step;

    int gates() const
    {
        return is_gru ? 3 : 4;
    }
    size_t row_values() const
    {
        return static_cast<size_t>(rows) * static_cast<size_t>(hidden);
    }
};

/* As the card will have it. */
static float rounded(const precision &type, float value)
{
    if (type.data == CUDNN_DATA_HALF) {
        return __half2float(__float2half(value));
    }
    return type.data == CUDNN_DATA_BFLOAT16 ? __bfloat162float(__float2bfloat16(value)) : value;
}

static void store(const precision &type, float value, unsigned char *at)
{
    if (type.data == CUDNN_DATA_HALF) {
        const __half half = __float2half(value);
        memcpy(at, &half, sizeof(half));
    } else if (type.data == CUDNN_DATA_BFLOAT16) {
        const __nv_bfloat16 half = __float2bfloat16(value);
        memcpy(at, &half, sizeof(half));
    } else {
        memcpy(at, &value, sizeof(value));
    }
}

static double load(const precision &type, const unsigned char *at)
{
    float value = 0.0f;
    if (type.data == CUDNN_DATA_HALF) {
        __half half;
        memcpy(&half, at, sizeof(half));
        value = __half2float(half);
    } else if (type.data == CUDNN_DATA_BFLOAT16) {
        __nv_bfloat16 half;
        memcpy(&half, at, sizeof(half));
        value = __bfloat162float(half);
    } else {
        memcpy(&value, at, sizeof(value));
    }
    return static_cast<double>(value);
}

/* ---- Weights, inputs and reference ----------------------------------------------------------- */

/* Of all networks of so many units: matrices and biases in cuDNN's order (LSTM i f g o, GRU r z n;
 * those of x, then those of h), [8][hidden][hidden] and [8][hidden]; inputs
 * [GRNN_STEPS][DRAWN_ROWS][hidden]. */
struct values {
    std::vector<float> matrices, biases, inputs;

    explicit values(int hidden)
    {
        const auto h = static_cast<size_t>(hidden);
        const float scale = 1.0f / std::sqrt(static_cast<float>(hidden));
        draws random(h);
        matrices.resize(8 * h * h);
        biases.resize(8 * h);
        inputs.resize(GRNN_STEPS * DRAWN_ROWS * h);
        std::generate(matrices.begin(), matrices.end(), [&] { return random.real(scale); });
        std::generate(biases.begin(), biases.end(), [&] { return random.real(scale); });
        std::generate(inputs.begin(), inputs.end(), [&] { return random.real(1.0f); });
    }
};

static const values &values_of(int hidden)
{
    static std::map<int, values> known;
    return known.try_emplace(hidden, hidden).first->second;
}

/* Row `row` of a batch has these inputs; the last has those of the first. */
static size_t drawn_row(int row, int rows)
{
    return row == rows - 1 ? 0 : static_cast<size_t>(row % DRAWN_ROWS);
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + std::exp(-x));
}

/* Bias and product of one gate of x or h, one unit. */
static double gate_sum(const values &v, const precision &type, size_t linear, size_t unit,
                       const std::vector<double> &in)
{
    const size_t h = in.size();
    const float *row = &v.matrices[(linear * h + unit) * h];
    auto sum = static_cast<double>(rounded(type, v.biases[linear * h + unit]));
    for (size_t k = 0; k < h; k++) {
        sum += static_cast<double>(rounded(type, row[k])) * in[k];
    }
    return sum;
}

static void advance(const problem &p, const values &v, const std::vector<double> &x,
                    std::vector<double> &h, std::vector<double> &c)
{
    const std::vector<double> before = h;
    const auto gates = static_cast<size_t>(p.gates());
    for (size_t unit = 0; unit < before.size(); unit++) {
        double of_x[4] = {}, of_h[4] = {};
        for (size_t g = 0; g < gates; g++) {
            of_x[g] = gate_sum(v, *p.type, g, unit, x);
            of_h[g] = gate_sum(v, *p.type, gates + g, unit, before);
        }
        if (p.is_gru) {
            const double r = sigmoid(of_x[0] + of_h[0]);
            const double z = sigmoid(of_x[1] + of_h[1]);
            const double n = std::tanh(of_x[2] + r * of_h[2]);
            h[unit] = (1.0 - z) * n + z * before[unit];
        } else {
            c[unit] = sigmoid(of_x[1] + of_h[1]) * c[unit] +
                      sigmoid(of_x[0] + of_h[0]) * std::tanh(of_x[2] + of_h[2]);
            h[unit] = sigmoid(of_x[3] + of_h[3]) * std::tanh(c[unit]);
        }
    }
}

static int checked_steps(const problem &p)
{
    return p.hidden > 256 ? CHECKED_STEPS_WIDE : p.steps;
}

/* Outputs of row 0, [steps][hidden], steps as are checked; the same for all batches, so kept. */
static const std::vector<double> &reference(const problem &p)
{
    static std::map<std::string, std::vector<double>> known;
    std::vector<double> &out = known[std::to_string(p.hidden) + (p.is_gru ? "gru" : "lstm") +
                                     std::to_string(static_cast<int>(p.type->data))];
    const auto hidden = static_cast<size_t>(p.hidden);
    const auto steps = static_cast<size_t>(checked_steps(p));
    if (out.size() >= steps * hidden) {
        return out;
    }
    out.clear();
    const values &v = values_of(p.hidden);
    std::vector<double> x(hidden), h(hidden, 0.0), c(hidden, 0.0);
    for (size_t step = 0; step < steps; step++) {
        for (size_t i = 0; i < hidden; i++) {
            x[i] = static_cast<double>(rounded(*p.type, v.inputs[step * DRAWN_ROWS * hidden + i]));
        }
        advance(p, v, x, h, c);
        out.insert(out.end(), h.begin(), h.end());
    }
    return out;
}

/* ---- A network on the card ------------------------------------------------------------------- */

struct network {
    const problem &p;
    cudnnHandle_t cudnn;
    dropout_descriptor dropout;
    rnn_descriptor rnn;
    data_descriptor data; /* of inputs and outputs alike, for the steps of a call */
    tensor_descriptor state;
    int call_steps;
    size_t weight_bytes = 0, work_bytes = 0;

    network(const problem &problem, cudnnHandle_t handle)
        : p(problem), cudnn(handle), call_steps(problem.is_by_step ? 1 : problem.steps)
    {
        CUDNN(cudnnSetDropoutDescriptor(dropout.it, cudnn, 0.0f, nullptr, 0, 0));
        CUDNN(cudnnSetRNNDescriptor_v8(
            rnn.it, p.algo->id, p.is_gru ? CUDNN_GRU : CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS,
            CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, p.type->data, CUDNN_DATA_FLOAT, p.type->math,
            p.hidden, p.hidden, p.hidden, 1, dropout.it, CUDNN_RNN_PADDED_IO_DISABLED));
        if (p.algo->id == CUDNN_RNN_ALGO_PERSIST_DYNAMIC) {
            CUDNN(cudnnBuildRNNDynamic(cudnn, rnn.it, p.rows));
        }
        const std::vector<int> lengths(static_cast<size_t>(p.rows), call_steps);
        CUDNN(cudnnSetRNNDataDescriptor(data.it, p.type->data,
                                        CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, call_steps, p.rows,
                                        p.hidden, lengths.data(), nullptr));
        const int sizes[3] = {1, p.rows, p.hidden};
        const int strides[3] = {p.rows * p.hidden, p.hidden, 1};
        CUDNN(cudnnSetTensorNdDescriptor(state.it, p.type->data, 3, sizes, strides));
        size_t reserve_bytes = 0;
        CUDNN(cudnnGetRNNWeightSpaceSize(cudnn, rnn.it, &weight_bytes));
        CUDNN(cudnnGetRNNTempSpaceSizes(cudnn, rnn.it, CUDNN_FWD_MODE_INFERENCE, data.it,
                                        &work_bytes, &reserve_bytes));
    }
};

struct memory {
    device_array<unsigned char> weights, work, x, y, states; /* states: h, h', c, c' */
    device_array<int> lengths;
    size_t state_bytes;

    explicit memory(const network &n)
        : weights(n.weight_bytes), work(std::max<size_t>(n.work_bytes, 1)), x(bytes(n)),
          y(bytes(n)), states(4 * n.p.row_values() * n.p.type->bytes),
          lengths(static_cast<size_t>(n.p.rows)), state_bytes(n.p.row_values() * n.p.type->bytes)
    {
        const std::vector<int> steps(lengths.count, n.call_steps);
        lengths.set(steps.data());
        // No output may be taken for one that was written: all bits set are no number in any type.
        TRY(cudaMemset(y.at, 0xff, y.count));
        set_weights(n);
        set_inputs(n);
        TRY(cudaStreamSynchronize(cudaStreamPerThread));
    }

    static size_t bytes(const network &n)
    {
        return static_cast<size_t>(n.p.steps) * n.p.row_values() * n.p.type->bytes;
    }

    void set_some(const network &n, void *at, const float *from, size_t count)
    {
        std::vector<unsigned char> out(count * n.p.type->bytes);
        for (size_t i = 0; i < count; i++) {
            store(*n.p.type, from[i], &out[i * n.p.type->bytes]);
        }
        TRY(cudaMemcpy(at, out.data(), out.size(), cudaMemcpyHostToDevice));
    }

    void set_weights(const network &n)
    {
        const values &v = values_of(n.p.hidden);
        const auto h = static_cast<size_t>(n.p.hidden);
        tensor_descriptor matrix, bias;
        for (size_t linear = 0; linear < 2 * static_cast<size_t>(n.p.gates()); linear++) {
            void *matrix_at = nullptr, *bias_at = nullptr;
            CUDNN(cudnnGetRNNWeightParams(n.cudnn, n.rnn.it, 0, n.weight_bytes, weights.at,
                                          static_cast<int32_t>(linear), matrix.it, &matrix_at,
                                          bias.it, &bias_at));
            want(matrix_at != nullptr && bias_at != nullptr, "cuDNN has no such weights");
            set_some(n, matrix_at, &v.matrices[linear * h * h], h * h);
            set_some(n, bias_at, &v.biases[linear * h], h);
        }
    }

    void set_inputs(const network &n)
    {
        const values &v = values_of(n.p.hidden);
        const auto h = static_cast<size_t>(n.p.hidden);
        const size_t each = n.p.type->bytes;
        std::vector<unsigned char> out(x.count);
        unsigned char *at = out.data();
        for (size_t step = 0; step < static_cast<size_t>(n.p.steps); step++) {
            for (int row = 0; row < n.p.rows; row++) {
                const float *from = &v.inputs[(step * DRAWN_ROWS + drawn_row(row, n.p.rows)) * h];
                for (size_t i = 0; i < h; i++, at += each) {
                    store(*n.p.type, from[i], at);
                }
            }
        }
        x.set(out.data());
    }

    unsigned char *state(size_t which) const
    {
        return states.at + which * state_bytes;
    }
};

/* The steps of call `call`; states go from one buffer to the other and back. */
static void forward(const network &n, const memory &m, int call)
{
    const size_t offset = static_cast<size_t>(call) * m.state_bytes;
    const size_t from = static_cast<size_t>(call % 2);
    const bool has_c = !n.p.is_gru;
    CUDNN(cudnnRNNForward(n.cudnn, n.rnn.it, CUDNN_FWD_MODE_INFERENCE, m.lengths.at, n.data.it,
                          m.x.at + offset, n.data.it, m.y.at + offset, n.state.it, m.state(from),
                          m.state(1 - from), n.state.it, has_c ? m.state(2 + from) : nullptr,
                          has_c ? m.state(3 - from) : nullptr, n.weight_bytes, m.weights.at,
                          n.work_bytes, m.work.at, 0, nullptr));
}

/* The largest error of the outputs of the first and the last row. */
static double largest_error(const network &n, const memory &m)
{
    const std::vector<double> &wanted = reference(n.p);
    const std::vector<unsigned char> got = m.y.get();
    const auto h = static_cast<size_t>(n.p.hidden);
    const auto rows = static_cast<size_t>(n.p.rows);
    double largest = 0.0;
    for (size_t step = 0; step < static_cast<size_t>(checked_steps(n.p)); step++) {
        for (const size_t row : {size_t{0}, rows - 1}) {
            for (size_t i = 0; i < h; i++) {
                const size_t at = ((step * rows + row) * h + i) * n.p.type->bytes;
                const double error = std::fabs(load(*n.p.type, &got[at]) - wanted[step * h + i]);
                want(std::isfinite(error), "an output is no number");
                largest = std::max(largest, error);
            }
        }
    }
    return largest;
}

/* A graph of so many calls of a step each, again and again over the inputs. Their number is even,
 * so that a launch ends where the next begins. */
static cudaGraphExec_t record(const rig &r, const network &n, const memory &m, int calls)
{
    cudaGraph_t recorded = nullptr;
    cudaGraphExec_t exec = nullptr;
    TRY(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeRelaxed));
    try {
        for (int call = 0; call < calls; call++) {
            forward(n, m, call % n.p.steps);
        }
    } catch (...) {
        (void)cudaStreamEndCapture(r.stream, &recorded);
        (void)cudaGetLastError();
        throw;
    }
    TRY(cudaStreamEndCapture(r.stream, &recorded));
    const cudaError_t error = cudaGraphInstantiate(&exec, recorded, 0);
    (void)cudaGraphDestroy(recorded);
    TRY(error);
    return exec;
}

static void check_outputs(json_line &line, const network &n, const memory &m)
{
    const double error = largest_error(n, m);
    line.number("max_error", error);
    if (error > n.p.type->tolerance) {
        throw failure{"an output is off by " + std::to_string(error)};
    }
}

/* How often all steps are gone through in a repeat: short ones so often that a launch's own time is
 * lost. */
static int passes_of(const problem &p)
{
    return p.steps < GRNN_STEPS && p.rows <= 64 ? GRNN_STEPS / p.steps : 1;
}

static void measure_sequence(rig &r, json_line &line, const network &n)
{
    const memory m(n);
    forward(n, m, 0);
    TRY(cudaStreamSynchronize(r.stream));
    check_outputs(line, n, m);
    const int passes = passes_of(n.p);
    r.repeat(line, n.p.steps * passes, [&] {
        for (int pass = 0; pass < passes; pass++) {
            forward(n, m, 0);
        }
    });
}

static void measure_steps(rig &r, json_line &line, const network &n)
{
    const memory m(n);
    for (int step = 0; step < 2; step++) { // what is loaded or made at a first call is not recorded
        forward(n, m, step);
    }
    TRY(cudaStreamSynchronize(r.stream));
    TRY(cudaMemset(m.states.at, 0, m.states.count));
    TRY(cudaMemset(m.y.at, 0xff, m.y.count));
    TRY(cudaStreamSynchronize(cudaStreamPerThread));
    cudaGraphExec_t once = record(r, n, m, n.p.steps);
    TRY(cudaGraphLaunch(once, r.stream));
    TRY(cudaStreamSynchronize(r.stream));
    TRY(cudaGraphExecDestroy(once));
    check_outputs(line, n, m);
    const int calls = n.p.steps * passes_of(n.p);
    cudaGraphExec_t exec = record(r, n, m, calls);
    r.repeat(line, calls, [&] { TRY(cudaGraphLaunch(exec, r.stream)); });
    TRY(cudaGraphExecDestroy(exec));
}

static void measure(rig &r, json_line &line, const problem &p, cudnnHandle_t cudnn)
{
    const network n(p, cudnn);
    if (p.is_by_step) {
        measure_steps(r, line, n);
    } else {
        measure_sequence(r, line, n);
    }
}

/* ---- All of them ----------------------------------------------------------------------------- */

static void run(rig &r, const problem &p, cudnnHandle_t cudnn, double end_us)
{
    r.run(
        p.is_by_step ? "step in graph" : "sequence",
        [&](json_line &line) {
            line.string("cell", p.is_gru ? "gru" : "lstm");
            line.number("hidden", p.hidden);
            line.number("rows", p.rows);
            line.number("steps", p.steps);
            line.string("type", p.type->name);
            line.string("algorithm", p.algo->name);
        },
        [&](json_line &line) {
            want(now_us() < end_us, "not reached in time");
            try {
                measure(r, line, p, cudnn);
            } catch (const refusal &refused) {
                if (p.algo->id == CUDNN_RNN_ALGO_STANDARD) {
                    throw failure{refused.text};
                }
                throw unsupported{refused.text};
            }
        });
}

/* Calls of single steps by STANDARD alone: the others hold weights for many. PERSIST_DYNAMIC
 * compiles at run time, for seconds perhaps, so it comes after all others. */
static void run_algorithms(rig &r, problem p, cudnnHandle_t cudnn, double end_us, bool is_dynamic)
{
    for (const precision &type : precisions) {
        for (const algorithm &algo : algorithms) {
            p.type = &type;
            p.algo = &algo;
            const bool is_its_turn = (algo.id == CUDNN_RNN_ALGO_PERSIST_DYNAMIC) == is_dynamic;
            if (is_its_turn && (!p.is_by_step || algo.id == CUDNN_RNN_ALGO_STANDARD)) {
                run(r, p, cudnn, end_us);
            }
        }
    }
}

static void run_grnn(rig &r, cudnnHandle_t cudnn, double end_us, bool is_by_step, bool is_dynamic)
{
    for (const bool is_gru : {false, true}) {
        for (const int hidden : {64, 256, 1024}) {
            for (const int rows : {1, 8, 10, 16, 20, 24}) {
                const int steps = is_by_step ? FIGURE_STEPS : GRNN_STEPS;
                run_algorithms(r, {is_gru, hidden, rows, steps, nullptr, nullptr, is_by_step},
                               cudnn, end_us, is_dynamic);
            }
        }
    }
}

static void run_figure(rig &r, cudnnHandle_t cudnn, double end_us, bool is_by_step, bool is_dynamic)
{
    for (int rows = 2; rows <= 2048; rows *= 2) {
        run_algorithms(r, {false, 1024, rows, FIGURE_STEPS, nullptr, nullptr, is_by_step}, cudnn,
                       end_us, is_dynamic);
    }
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? strtod(argv[1], nullptr) : 240.0;
    const double end_us = now_us() + seconds * 1e6;
    return run_all("cudnn", [&](rig &r) {
        cudnnHandle_t cudnn = nullptr;
        r.run(
            "library", [](json_line &) {},
            [&](json_line &line) {
                const cudnnStatus_t status = cudnnCreate(&cudnn);
                if (status != CUDNN_STATUS_SUCCESS) {
                    throw failure{cudnnGetErrorString(status)};
                }
                if (cudnnSetStream(cudnn, r.stream) != CUDNN_STATUS_SUCCESS) {
                    throw failure{"cuDNN does not take the stream"};
                }
                line.number("version", static_cast<double>(cudnnGetVersion()));
            });
        if (r.failures > 0) {
            return;
        }
        run_grnn(r, cudnn, end_us, false, false);
        run_figure(r, cudnn, end_us, true, false);
        run_figure(r, cudnn, end_us, false, false);
        run_grnn(r, cudnn, end_us, true, false);
        run_grnn(r, cudnn, end_us, false, true);
        run_figure(r, cudnn, end_us, false, true);
        (void)cudnnDestroy(cudnn);
    });
}
