/* Reductions, softmax over the steps, and the first and last step: each against plain loops over
 * the input, in both layouts of batch and time. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/onnx_builder.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };
enum { IN = 3, HIDDEN = 4, BATCH = 2, TIME = 5, SEED = 13, BINS_MAX = 187 };

static struct onnx_builder builder;
static bool has_infinities; // of both signs, in x: features 0 and 1 of the second step
static bool is_far;         // x goes down to -2000, of which exponentials are no numbers
static struct base_error last_error;

/* x [time, batch, IN]; an RNN over it says which axis is which. The case adds what makes "out". */
static void begin_with(int64_t opset, const char *rnn_inputs)
{
    const int64_t x[] = {-1, -1, IN};
    onnx_init(&builder, opset);
    onnx_input(&builder, "x", FLOAT, 3, x);
    onnx_add_weights(&builder, "RNN", IN, HIDDEN, SEED);
    onnx_node(&builder, "RNN", rnn_inputs, "- h");
    onnx_output(&builder, "h", FLOAT, 0, NULL);
    onnx_output(&builder, "out", FLOAT, 0, NULL);
    builder.graph.output[0]->type = NULL;
    builder.graph.output[1]->type = NULL;
}

static void begin(int64_t opset)
{
    begin_with(opset, "x w r b");
}

/* A node of x with these axes, as attribute or as input. */
static Onnx__NodeProto *reduce(const char *op, size_t n, const int64_t *axes, bool as_input)
{
    if (as_input) {
        onnx_constant(&builder, "axes", onnx_ints(&builder, 1, n, axes));
        return onnx_node(&builder, op, "x axes", "out");
    }
    Onnx__NodeProto *node = onnx_node(&builder, op, "x", "out");
    onnx_set_ints(&builder, node, "axes", n, axes);
    return node;
}

/* Runs the model on random x and hands both to check(); frees all. */
static void run(void (*check)(const double *x, const struct replay_tensor *out))
{
    struct built built;
    struct replay_tensor x = {
        .rank = 3, .dims = {TIME, BATCH, IN}, .count = (size_t)TIME * BATCH * IN};
    struct replay_tensor outputs[2] = {{.rank = 0}};
    struct base_random random = util_random(1);
    load_built(&builder, &built);
    x.data = base_alloc_array(x.count, sizeof(double));
    ck_assert_ptr_nonnull(x.data);
    for (size_t i = 0; i < x.count; i++) {
        const float low = is_far ? -2000.0f : -2.0f;
        x.data[i] = (double)base_random_f32(&random, low, -0.5f); // below the states' zeros
    }
    for (size_t b = 0; has_infinities && b < BATCH; b++) {
        x.data[(BATCH + b) * IN] = (double)INFINITY;
        x.data[(BATCH + b) * IN + 1] = -(double)INFINITY;
    }
    replay_run(built.model, &x, outputs);
    check(x.data, &outputs[1]);
    base_free(outputs[0].data);
    base_free(outputs[1].data);
    base_free(x.data);
    free_built(&builder, &built);
}

static double at(const double *x, size_t t, size_t b, size_t i)
{
    return x[(t * BATCH + b) * IN + i];
}

/* ---- Over the steps ----------------------------------------------------------------------- */

enum over { SUM, MEAN, MAX, MIN, PRODUCT };

static const struct {
    const char *name;
    enum over over;
    int64_t input_opset; /* from which axes are an input */
} reductions[] = {{"ReduceSum", SUM, 13},
                  {"ReduceMean", MEAN, 18},
                  {"ReduceMax", MAX, 18},
                  {"ReduceMin", MIN, 18},
                  {"ReduceProd", PRODUCT, 18}}; // over features alone

static enum over wanted_over;
static bool wants_sum; /* of squares, in place of their mean */

static double over_steps(const double *x, size_t b, size_t i)
{
    double sum = 0;
    double high = -(double)INFINITY;
    double low = (double)INFINITY;
    for (size_t t = 0; t < TIME; t++) {
        sum += at(x, t, b, i);
        high = fmax(high, at(x, t, b, i));
        low = fmin(low, at(x, t, b, i));
    }
    return wanted_over == SUM    ? sum
           : wanted_over == MEAN ? sum / TIME
           : wanted_over == MAX  ? high
                                 : low;
}

static void expect_over_steps(const double *x, const struct replay_tensor *out)
{
    ck_assert_uint_eq(out->count, (size_t)BATCH * IN);
    for (size_t b = 0; b < BATCH; b++) {
        for (size_t i = 0; i < IN; i++) {
            util_assert_close(out->data[b * IN + i], over_steps(x, b, i), 1e-6, 0);
        }
    }
}

START_TEST(test_reductions_over_the_steps)
{
    static const int64_t axes[] = {0, -3};
    wanted_over = reductions[_i].over;
    for (int64_t opset = 12; opset <= 18; opset += 3) {
        for (int64_t keep = 0; keep < 2; keep++) {
            begin(opset);
            Onnx__NodeProto *node =
                reduce(reductions[_i].name, 1, &axes[keep], opset >= reductions[_i].input_opset);
            onnx_set_int(&builder, node, "keepdims", keep);
            run(expect_over_steps);
        }
    }
}
END_TEST

static void expect_infinities(const double *x, const struct replay_tensor *out)
{
    for (size_t b = 0; b < BATCH; b++) {
        const double *of = out->data + b * IN;
        ck_assert_msg(of[0] == (double)INFINITY && of[1] == -(double)INFINITY, "%g %g", of[0],
                      of[1]);
        util_assert_close(of[2], over_steps(x, b, 2), 1e-6, 0);
    }
}

START_TEST(test_infinities_are_no_nan_in_a_sum_over_the_steps)
{
    const int64_t axis = 0;
    wanted_over = SUM;
    has_infinities = true;
    begin(14);
    onnx_set_int(&builder, reduce("ReduceSum", 1, &axis, true), "keepdims", 0);
    run(expect_infinities);
    has_infinities = false;
}
END_TEST

static void expect_over_all(const double *x, const struct replay_tensor *out)
{
    ck_assert_uint_eq(out->count, BATCH);
    for (size_t b = 0; b < BATCH; b++) {
        double sum = 0;
        for (size_t i = 0; i < IN; i++) {
            sum += over_steps(x, b, i);
        }
        util_assert_close(out->data[b], wanted_over == SUM ? sum : sum / IN, 1e-6, 0);
    }
}

START_TEST(test_sums_and_means_over_steps_and_features)
{
    const int64_t axes[] = {0, 2};
    for (size_t r = 0; r < 2; r++) {
        wanted_over = reductions[r].over;
        begin(14);
        reduce(reductions[r].name, 2, axes, reductions[r].over == SUM);
        run(expect_over_all);
    }
}
END_TEST

static void expect_feature_sum(const double *x, const struct replay_tensor *out)
{
    ck_assert_uint_eq(out->count, (size_t)TIME * BATCH);
    for (size_t row = 0; row < (size_t)TIME * BATCH; row++) {
        util_assert_close(out->data[row], x[row * IN] + x[row * IN + 1] + x[row * IN + 2], 1e-6, 0);
    }
}

START_TEST(test_sum_over_the_features_of_each_step)
{
    const int64_t axis = 2;
    begin(14);
    reduce("ReduceSum", 1, &axis, true);
    run(expect_feature_sum);
}
END_TEST

static float bins[BINS_MAX * IN]; // added to x, bin by bin
static size_t n_bins;

static void expect_over_bins(const double *x, const struct replay_tensor *out)
{
    ck_assert_uint_eq(out->count, (size_t)TIME * BATCH * IN);
    for (size_t i = 0; i < out->count; i++) {
        double sum = 0;
        double product = 1;
        double high = -(double)INFINITY;
        double low = (double)INFINITY;
        for (size_t k = 0; k < n_bins; k++) {
            const double of = x[i] + (double)bins[k * IN + i % IN];
            sum += of;
            product *= of;
            high = fmax(high, of);
            low = fmin(low, of);
        }
        const double want = wanted_over == SUM    ? sum
                            : wanted_over == MEAN ? sum / (double)n_bins
                            : wanted_over == MAX  ? high
                            : wanted_over == MIN  ? low
                                                  : product;
        util_assert_close(out->data[i], want, 1e-6, wanted_over == PRODUCT ? 1e-4 : 1e-6);
    }
}

/* The bins of a spectrogram, of which there are more than ops in a cell; powers of two, and odd
 * numbers at each halving. */
START_TEST(test_reductions_over_a_part_of_the_features)
{
    static const size_t counts[] = {2, 3, 7, 80, 128, BINS_MAX};
    const int64_t axis = 2;
    struct base_random random = util_random(2);
    for (size_t i = 0; i < BINS_MAX * IN; i++) {
        bins[i] = base_random_f32(&random, -3.0f, 3.0f);
    }
    wanted_over = reductions[_i].over;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        n_bins = counts[c];
        if (wanted_over == PRODUCT && n_bins > 80) {
            continue; // what floats cannot hold
        }
        const int64_t dims[] = {(int64_t)n_bins, IN};
        const int64_t shape[] = {0, 0, 1, IN};
        begin(17);
        onnx_constant(&builder, "bins",
                      onnx_tensor(&builder, FLOAT, 2, dims, bins, n_bins * IN * sizeof(float)));
        onnx_constant(&builder, "shape", onnx_ints(&builder, 1, 4, shape));
        onnx_constant(&builder, "axes", onnx_ints(&builder, 1, 1, &axis));
        onnx_node(&builder, "Reshape", "x shape", "column");
        onnx_node(&builder, "Add", "column bins", "wide");
        Onnx__NodeProto *node = reductions[_i].over == SUM
                                    ? onnx_node(&builder, "ReduceSum", "wide axes", "out")
                                    : onnx_node(&builder, reductions[_i].name, "wide", "out");
        if (reductions[_i].over != SUM) {
            onnx_set_ints(&builder, node, "axes", 1, &axis);
        }
        onnx_set_int(&builder, node, "keepdims", 0);
        run(expect_over_bins);
    }
}
END_TEST

/* ---- How they are made ---------------------------------------------------------------------- */

static uint32_t count_reduces(const struct cell_model *model, uint32_t variant)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < model->n_stages; s++) {
        const struct cell_def *def = &model->stages[s].type->def;
        for (uint32_t o = 0; o < def->n_ops; o++) {
            n += def->ops[o].kind == CELL_OP_REDUCE && def->ops[o].variant == variant ? 1 : 0;
        }
    }
    return n;
}

static void expect_reduces(uint32_t stages, uint32_t mean, uint32_t variance, uint32_t count)
{
    struct built built;
    load_built(&builder, &built);
    ck_assert_uint_eq(built.model->n_stages, stages);
    ck_assert_uint_eq(count_reduces(built.model, CELL_REDUCE_MEAN), mean);
    ck_assert_uint_eq(count_reduces(built.model, CELL_REDUCE_VARIANCE), variance);
    ck_assert_uint_eq(count_reduces(built.model, CELL_REDUCE_COUNT), count);
    cell_model_free(built.registry, built.model);
    cell_registry_free(built.registry);
}

static void expect_variance(const double *x, const struct replay_tensor *out)
{
    ck_assert_uint_eq(out->count, (size_t)BATCH * IN);
    for (size_t b = 0; b < BATCH; b++) {
        for (size_t i = 0; i < IN; i++) {
            double squares = 0;
            wanted_over = MEAN;
            for (size_t t = 0; t < TIME; t++) {
                squares += pow(at(x, t, b, i) - over_steps(x, b, i), 2);
            }
            util_assert_close(out->data[b * IN + i], squares / (wants_sum ? 1 : TIME), 1e-6, 0);
        }
    }
}

/* How exporters write a variance: the mean twice or once, what is off it, squared. Nothing of it is
 * computed step by step: the RNN and one stage more, where the sum asks for the number of steps. */
START_TEST(test_a_variance_over_the_steps_is_one_op)
{
    const int64_t axis = 0;
    const float two = 2.0f;
    for (int is_power = 0; is_power < 2; is_power++) {
        wants_sum = _i != 0;
        begin(14);
        onnx_set_ints(&builder, onnx_node(&builder, "ReduceMean", "x", "mean"), "axes", 1, &axis);
        onnx_node(&builder, "Sub", "x mean", "off");
        onnx_constant(&builder, "two", onnx_tensor(&builder, FLOAT, 0, NULL, &two, sizeof(two)));
        onnx_node(&builder, is_power ? "Pow" : "Mul", is_power ? "off two" : "off off", "squares");
        onnx_constant(&builder, "axes", onnx_ints(&builder, 1, 1, &axis));
        Onnx__NodeProto *node = wants_sum ? onnx_node(&builder, "ReduceSum", "squares axes", "out")
                                          : onnx_node(&builder, "ReduceMean", "squares", "out");
        if (!wants_sum) {
            onnx_set_ints(&builder, node, "axes", 1, &axis);
        }
        onnx_set_int(&builder, node, "keepdims", 0);
        expect_reduces(2, 0, 1, wants_sum ? 1 : 0);
        run(expect_variance);
    }
}
END_TEST

/* A mean of something else, or squares of what is off another's mean, is as it is written. */
START_TEST(test_what_is_no_variance_is_no_such_op)
{
    const int64_t axis = 0;
    begin(14);
    onnx_set_ints(&builder, onnx_node(&builder, "ReduceMean", "x", "mean"), "axes", 1, &axis);
    onnx_node(&builder, "Abs", "x", "size");
    onnx_node(&builder, "Sub", "size mean", "off");
    onnx_node(&builder, "Mul", "off off", "squares");
    onnx_set_ints(&builder, onnx_node(&builder, "ReduceMean", "squares", "out"), "axes", 1, &axis);
    expect_reduces(4, 2, 0, 0); // the RNN, sizes and their squares at each step, both means
    onnx_release(&builder);
}
END_TEST

/* ---- Sums so far ----------------------------------------------------------------------------- */

static bool is_exclusive, is_reverse;

static void expect_sums_so_far(const double *x, const struct replay_tensor *out)
{
    ck_assert_uint_eq(out->count, (size_t)TIME * BATCH * IN);
    for (size_t i = 0; i < (size_t)BATCH * IN; i++) {
        double sum = 0;
        for (size_t k = 0; k < TIME; k++) {
            const size_t t = is_reverse ? TIME - 1 - k : k;
            const double added = x[t * BATCH * IN + i];
            util_assert_close(out->data[t * BATCH * IN + i], is_exclusive ? sum : sum + added, 1e-6,
                              0);
            sum += added;
        }
    }
}

/* x is [time, batch, IN]. */
static Onnx__NodeProto *cumsum(int64_t axis)
{
    onnx_constant(&builder, "along", onnx_ints(&builder, 0, 1, &axis));
    return onnx_node(&builder, "CumSum", "x along", "out");
}

/* Exclusive or not, from either end, the axis counted from the front and from the back. */
static void run_all_sums(int64_t axis,
                         void (*expect)(const double *x, const struct replay_tensor *out))
{
    for (int way = 0; way < 4; way++) {
        is_exclusive = way % 2 != 0;
        is_reverse = way / 2 != 0;
        begin(14);
        Onnx__NodeProto *node = cumsum(way < 2 ? axis : axis - 3);
        onnx_set_int(&builder, node, "exclusive", is_exclusive ? 1 : 0);
        onnx_set_int(&builder, node, "reverse", is_reverse ? 1 : 0);
        run(expect);
    }
    is_exclusive = is_reverse = false;
}

START_TEST(test_sums_so_far)
{
    run_all_sums(0, expect_sums_so_far);
}
END_TEST

static void expect_no_number_behind(const double *x, const struct replay_tensor *out)
{
    (void)x;
    for (size_t t = 0; t < TIME; t++) {
        ck_assert(isinf(out->data[t * BATCH * IN]) == (t > 0)); // and not NaN
    }
}

/* The second step is infinite, and so are all sums behind. */
START_TEST(test_sums_so_far_behind_an_infinity)
{
    has_infinities = true;
    begin(14);
    (void)cumsum(0);
    run(expect_no_number_behind);
    has_infinities = false;
}
END_TEST

static void expect_sums_of_features(const double *x, const struct replay_tensor *out)
{
    ck_assert_uint_eq(out->count, (size_t)TIME * BATCH * IN);
    for (size_t row = 0; row < (size_t)TIME * BATCH; row++) {
        double sum = 0;
        for (size_t k = 0; k < IN; k++) {
            const size_t at = row * IN + (is_reverse ? IN - 1 - k : k);
            util_assert_close(out->data[at], is_exclusive ? sum : sum + x[at], 1e-6, 0);
            sum += x[at];
        }
    }
}

START_TEST(test_sums_of_features_so_far)
{
    run_all_sums(2, expect_sums_of_features);
}
END_TEST

START_TEST(test_sums_so_far_of_the_batch_are_refused)
{
    begin(14);
    (void)cumsum(1);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "adds up along the batch axis");
    begin(14);
    (void)cumsum(3);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "axis 3");
}
END_TEST

/* ---- Norms ---------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int power; /* of absolute values */
    bool is_root;
} norms[] = {{"ReduceL1", 1, false}, {"ReduceL2", 2, true}, {"ReduceSumSquare", 2, false}};

static size_t wanted_norm;

/* Of n elements, `stride` apart. */
static double norm(const double *x, size_t n, size_t stride)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += pow(fabs(x[i * stride]), norms[wanted_norm].power);
    }
    return norms[wanted_norm].is_root ? sqrt(sum) : sum;
}

static void expect_norm_of_features(const double *x, const struct replay_tensor *out)
{
    ck_assert_uint_eq(out->count, (size_t)TIME * BATCH);
    for (size_t row = 0; row < (size_t)TIME * BATCH; row++) {
        util_assert_close(out->data[row], norm(x + row * IN, IN, 1), 0, 1e-6);
    }
}

static void expect_norm_of_steps(const double *x, const struct replay_tensor *out)
{
    ck_assert_uint_eq(out->count, (size_t)BATCH * IN);
    for (size_t i = 0; i < (size_t)BATCH * IN; i++) {
        util_assert_close(out->data[i], norm(x + i, TIME, (size_t)BATCH * IN), 0, 1e-6);
    }
}

/* Of the features of each step, as cosine similarity and normalised embeddings have them, or over
 * the steps; axes as attribute and as input. */
START_TEST(test_norms)
{
    const int64_t axes[] = {2, 0};
    wanted_norm = (size_t)_i;
    for (int64_t opset = 17; opset <= 18; opset++) {
        for (size_t over = 0; over < 2; over++) {
            begin(opset);
            Onnx__NodeProto *node = reduce(norms[_i].name, 1, &axes[over], opset >= 18);
            onnx_set_int(&builder, node, "keepdims", 0);
            run(over == 0 ? expect_norm_of_features : expect_norm_of_steps);
        }
    }
}
END_TEST

START_TEST(test_pools_are_reductions_over_the_steps)
{
    const int64_t perm[] = {1, 2, 0}; // [batch, channels, time]
    for (int is_max = 0; is_max < 2; is_max++) {
        wanted_over = is_max ? MAX : MEAN;
        begin(14);
        onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "x", "channels"), "perm", 3, perm);
        onnx_node(&builder, is_max ? "GlobalMaxPool" : "GlobalAveragePool", "channels", "out");
        run(expect_over_steps);
    }
}
END_TEST

static void expect_softmax(const double *x, const struct replay_tensor *out)
{
    ck_assert_uint_eq(out->count, (size_t)TIME * BATCH * IN);
    for (size_t b = 0; b < BATCH; b++) {
        for (size_t i = 0; i < IN; i++) {
            double sum = 0;
            for (size_t t = 0; t < TIME; t++) {
                sum += exp(at(x, t, b, i));
            }
            for (size_t t = 0; t < TIME; t++) {
                util_assert_close(out->data[(t * BATCH + b) * IN + i], exp(at(x, t, b, i)) / sum,
                                  1e-6, 0);
            }
        }
    }
}

/* What attention pooling does: weights of all steps, then the weighted sum. */
START_TEST(test_softmax_over_the_steps)
{
    begin(14);
    onnx_set_int(&builder, onnx_node(&builder, "Softmax", "x", "out"), "axis", 0);
    run(expect_softmax);
}
END_TEST

static void expect_pooled(const double *x, const struct replay_tensor *out)
{
    ck_assert_uint_eq(out->count, (size_t)BATCH * IN);
    for (size_t b = 0; b < BATCH; b++) {
        for (size_t i = 0; i < IN; i++) {
            double sum = 0;
            double weighted = 0;
            for (size_t t = 0; t < TIME; t++) {
                sum += exp(at(x, t, b, i));
                weighted += exp(at(x, t, b, i)) * at(x, t, b, i);
            }
            util_assert_close(out->data[b * IN + i], weighted / sum, 1e-6, 0);
        }
    }
}

START_TEST(test_attention_pooling)
{
    const int64_t axis = 0;
    begin(14);
    onnx_constant(&builder, "axes", onnx_ints(&builder, 1, 1, &axis));
    onnx_set_int(&builder, onnx_node(&builder, "Softmax", "x", "weights"), "axis", 0);
    onnx_node(&builder, "Mul", "weights x", "weighted");
    onnx_set_int(&builder, onnx_node(&builder, "ReduceSum", "weighted axes", "out"), "keepdims", 0);
    run(expect_pooled);
}
END_TEST

static double log_of_sum(const double *x, size_t n)
{
    double largest = x[0];
    double sum = 0;
    for (size_t k = 1; k < n; k++) {
        largest = fmax(largest, x[k]);
    }
    for (size_t k = 0; k < n; k++) {
        sum += exp(x[k] - largest);
    }
    return largest + log(sum);
}

static void expect_log_softmax_of_steps(const double *x, const struct replay_tensor *out)
{
    for (size_t b = 0; b < BATCH; b++) {
        for (size_t i = 0; i < IN; i++) {
            double all[TIME];
            for (size_t t = 0; t < TIME; t++) {
                all[t] = at(x, t, b, i);
            }
            for (size_t t = 0; t < TIME; t++) {
                util_assert_close(out->data[(t * BATCH + b) * IN + i],
                                  all[t] - log_of_sum(all, TIME), 1e-6, 0);
            }
        }
    }
}

static void expect_log_softmax(const double *x, const struct replay_tensor *out)
{
    ck_assert_uint_eq(out->count, (size_t)TIME * BATCH * IN);
    for (size_t row = 0; row < (size_t)TIME * BATCH; row++) {
        const double sum = log_of_sum(&x[row * IN], IN);
        for (size_t i = 0; i < IN; i++) {
            util_assert_close(out->data[row * IN + i], x[row * IN + i] - sum, 1e-6, 0);
        }
    }
}

/* Of all steps and features of a row of the batch: [batch, steps, features]. */
static void expect_of_all(const double *x, const struct replay_tensor *out, bool is_log)
{
    ck_assert_uint_eq(out->count, (size_t)TIME * BATCH * IN);
    for (size_t b = 0; b < BATCH; b++) {
        double all[TIME * IN];
        for (size_t n = 0; n < TIME * IN; n++) {
            all[n] = at(x, n / IN, b, n % IN);
        }
        for (size_t n = 0; n < TIME * IN; n++) {
            const double wanted = all[n] - log_of_sum(all, TIME * IN);
            util_assert_close(out->data[b * TIME * IN + n], is_log ? wanted : exp(wanted), 1e-6, 0);
        }
    }
}

static void expect_softmax_of_all(const double *x, const struct replay_tensor *out)
{
    expect_of_all(x, out, false);
}

static void expect_log_softmax_of_all(const double *x, const struct replay_tensor *out)
{
    expect_of_all(x, out, true);
}

/* Flattened as people write it. */
static void softmax_of_all(const char *op)
{
    static const int64_t perm[] = {1, 0, 2};
    static const int64_t flat[] = {0, -1};
    static const int64_t parted[] = {0, -1, IN};
    begin(14);
    onnx_constant(&builder, "flat", onnx_ints(&builder, 1, 2, flat));
    onnx_constant(&builder, "parted", onnx_ints(&builder, 1, 3, parted));
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", "x", "turned"), "perm", 3, perm);
    onnx_node(&builder, "Reshape", "turned flat", "all");
    onnx_set_int(&builder, onnx_node(&builder, op, "all", "weights"), "axis", 1);
    onnx_node(&builder, "Reshape", "weights parted", "out");
}

START_TEST(test_softmax_over_the_steps_and_features)
{
    is_far = _i == 1;
    softmax_of_all("Softmax");
    run(expect_softmax_of_all);
    softmax_of_all("LogSoftmax");
    run(expect_log_softmax_of_all);
    is_far = false;
}
END_TEST

START_TEST(test_log_softmax)
{
    is_far = _i == 1;
    begin(14);
    onnx_set_int(&builder, onnx_node(&builder, "LogSoftmax", "x", "out"), "axis", 0);
    run(expect_log_softmax_of_steps);
    begin(14);
    onnx_set_int(&builder, onnx_node(&builder, "LogSoftmax", "x", "out"), "axis", -1);
    run(expect_log_softmax);
    is_far = false;
}
END_TEST

static void expect_softplus(const double *x, const struct replay_tensor *out)
{
    for (size_t i = 0; i < (size_t)TIME * BATCH * IN; i++) {
        util_assert_close(out->data[i], log(1 + exp(x[i])), 1e-6, 0);
    }
}

START_TEST(test_logarithms)
{
    begin(14);
    onnx_node(&builder, "Softplus", "x", "out");
    run(expect_softplus);
    begin(14);
    onnx_node(&builder, "Exp", "x", "e");
    onnx_node(&builder, "Add", "e one", "more");
    const float one = 1.0f;
    onnx_constant(
        &builder, "one",
        onnx_tensor(&builder, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 0, NULL, &one, sizeof(one)));
    onnx_node(&builder, "Log", "more", "out");
    run(expect_softplus);
}
END_TEST

static void expect_argmax(const double *x, const struct replay_tensor *out)
{
    ck_assert_uint_eq(out->count, (size_t)TIME * BATCH);
    for (size_t row = 0; row < (size_t)TIME * BATCH; row++) {
        size_t best = 0;
        for (size_t i = 1; i < IN; i++) {
            best = x[row * IN + i] > x[row * IN + best] ? i : best;
        }
        util_assert_close(out->data[row], (double)best, 0, 0);
    }
}

START_TEST(test_argmax_of_each_step)
{
    for (int64_t keep = 0; keep < 2; keep++) {
        begin(14);
        Onnx__NodeProto *node = onnx_node(&builder, "ArgMax", "x", "out");
        onnx_set_int(&builder, node, "axis", -1);
        onnx_set_int(&builder, node, "keepdims", keep);
        run(expect_argmax);
    }
}
END_TEST

/* k of each row's largest and smallest, values and numbers apart; k as attribute before opset 10.
 */
static size_t wanted_place;
static bool is_largest, wants_numbers;

static void expect_top(const double *x, const struct replay_tensor *out)
{
    ck_assert_uint_eq(out->count, (size_t)TIME * BATCH * (wanted_place + 1));
    for (size_t row = 0; row < (size_t)TIME * BATCH; row++) {
        const double *given = x + row * IN;
        const size_t number =
            wants_numbers ? (size_t)out->data[row * (wanted_place + 1) + wanted_place] : IN;
        size_t before = 0;
        for (size_t i = 0; i < IN; i++) {
            const double last = out->data[row * (wanted_place + 1) + wanted_place];
            const double at = wants_numbers ? given[number] : last;
            before += (is_largest ? given[i] > at : given[i] < at) ? 1 : 0;
        }
        ck_assert_uint_eq(before, wanted_place);
    }
}

static Onnx__NodeProto *top(int64_t opset, int64_t k, const char *outputs)
{
    Onnx__NodeProto *node = NULL;
    begin(opset);
    if (opset < 10) {
        node = onnx_node(&builder, "TopK", "x", outputs);
        onnx_set_int(&builder, node, "k", k);
        return node;
    }
    onnx_constant(&builder, "k", onnx_ints(&builder, 1, 1, &k));
    return onnx_node(&builder, "TopK", "x k", outputs);
}

/* Smallest ones are of opset 11. */
static void run_top(int64_t opset, bool largest, bool numbers)
{
    is_largest = largest;
    wants_numbers = numbers;
    Onnx__NodeProto *node = top(opset, (int64_t)wanted_place + 1, wants_numbers ? "- out" : "out");
    if (!is_largest) {
        onnx_set_int(&builder, node, "largest", 0);
        onnx_set_int(&builder, node, "sorted", 1);
    }
    run(expect_top);
}

START_TEST(test_top_of_each_step)
{
    static const int64_t opsets[] = {9, 10, 14};
    for (wanted_place = 0; wanted_place < IN; wanted_place++) {
        for (size_t i = 0; i < 3; i++) {
            run_top(opsets[i], true, false);
            run_top(opsets[i], true, true);
        }
        run_top(14, false, false);
        run_top(14, false, true);
    }
}
END_TEST

START_TEST(test_other_tops_are_refused)
{
    const int64_t lengths[] = {-1};
    (void)top(14, 0, "out");
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "TopK (node \"out\", opset 14): k is 0; at least 1");
    (void)top(14, -3, "out");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "k is -3; at least 1");
    (void)top(14, IN + 1, "out");
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "k is 4, on an axis of 3");
    (void)top(9, IN + 1, "out");
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "k is 4, on an axis of 3");
    onnx_set_int(&builder, top(14, 9, "out"), "axis", 0); // of more than a few
    expect_refused(&builder, BASE_UNIMPLEMENTED, "over the steps of a sequence");
    onnx_set_int(&builder, top(14, 2, "- out"), "axis", 0); // at which steps
    expect_refused(&builder, BASE_UNIMPLEMENTED, "over the steps of a sequence");
    onnx_set_int(&builder, top(9, 2, "out"), "axis", 0);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "over the steps of a sequence");
    Onnx__NodeProto *both = top(14, 2, "out");
    onnx_set_int(&builder, both, "axis", 0);
    onnx_set_int(&builder, both, "largest", 2);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "attribute \"largest\" of 2; 0 or 1");
    onnx_set_int(&builder, top(14, 2, "out"), "axis", 1);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "over the batch axis");
    onnx_set_int(&builder, top(14, 2, "out"), "axis", 3);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "axis 3 of a tensor of rank 3");
    onnx_set_int(&builder, top(14, 2, "out"), "largest", 2);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "attribute \"largest\" of 2; 0 or 1");
    begin(14);
    onnx_node(&builder, "TopK", "x", "out");
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "without k");
    begin(14);
    onnx_input(&builder, "k", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 1, lengths);
    onnx_node(&builder, "TopK", "x k", "out");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "k is not constant");
    begin(14);
    onnx_node(&builder, "Shape", "x", "shape");
    const int64_t first = 0;
    onnx_constant(&builder, "first", onnx_ints(&builder, 1, 1, &first));
    onnx_node(&builder, "Gather", "shape first", "k");
    onnx_node(&builder, "TopK", "x k", "out");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "it depends on the shape of the request");
    begin(14);
    const int64_t two[] = {1, 2};
    onnx_constant(&builder, "k", onnx_ints(&builder, 1, 2, two));
    onnx_node(&builder, "TopK", "x k", "out");
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "k is no integer");
    begin(14);
    onnx_constant(&builder, "k", onnx_ints(&builder, 1, 1, two));
    onnx_node(&builder, "ArgMax", "x", "numbers");
    onnx_node(&builder, "TopK", "numbers k", "out");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "of a constant, or of type int64");
}
END_TEST

/* ---- One step ----------------------------------------------------------------------------- */

static size_t wanted_step;

static void expect_step(const double *x, const struct replay_tensor *out)
{
    ck_assert_uint_eq(out->count, (size_t)BATCH * IN);
    for (size_t b = 0; b < BATCH; b++) {
        for (size_t i = 0; i < IN; i++) {
            util_assert_close(out->data[b * IN + i], at(x, wanted_step, b, i), 1e-6, 0);
        }
    }
}

START_TEST(test_first_and_last_step_by_gather_and_slice)
{
    static const struct {
        int64_t start, end;
        size_t step;
    } takes[] = {{0, 1, 0}, {-1, INT64_MAX, TIME - 1}};
    for (size_t i = 0; i < 2; i++) {
        wanted_step = takes[i].step;
        begin(14);
        onnx_constant(&builder, "index", onnx_ints(&builder, 0, 1, &takes[i].start));
        onnx_set_int(&builder, onnx_node(&builder, "Gather", "x index", "out"), "axis", 0);
        run(expect_step);
        begin(14);
        onnx_constant(&builder, "start", onnx_ints(&builder, 1, 1, &takes[i].start));
        onnx_constant(&builder, "end", onnx_ints(&builder, 1, 1, &takes[i].end));
        onnx_node(&builder, "Slice", "x start end", "out");
        run(expect_step);
    }
}
END_TEST

/* ---- Refusals ----------------------------------------------------------------------------- */

START_TEST(test_reductions_over_anything_else_are_refused)
{
    const int64_t batch = 1;
    const int64_t features = 2;
    const int64_t lengths[] = {-1};
    const int64_t time = 0;
    begin(14);
    reduce("ReduceMean", 1, &batch, false);
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "ReduceMean (node \"out\", opset 14): over the batch axis");
    begin(14);
    reduce("ReduceProd", 1, &batch, false);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "over the batch axis");
    begin(18);
    reduce("ReduceProd", 1, &time, true);
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "ReduceProd (node \"out\", opset 18): the product of the steps of a sequence");
    begin(14);
    reduce("ReduceMax", 1, &features, false);
    expect_accepted(&builder); // what it computes: picture_pools in test_import_exports.c
    begin(14);
    onnx_node(&builder, "ReduceMean", "x", "out"); // over all axes
    expect_refused(&builder, BASE_UNIMPLEMENTED, "over the batch axis");
    begin(18);
    onnx_set_int(&builder, onnx_node(&builder, "ReduceMean", "x", "out"), "noop_with_empty_axes",
                 1);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "without axes, which leaves all as it is");
    begin(14); // which others take for 0
    onnx_set_int(&builder, reduce("ReduceMean", 1, &time, false), "keepdims", -2);
    expect_refused(&builder, BASE_INVALID_ARGUMENT, "attribute \"keepdims\" of -2; 0 or 1");
    begin(14);
    onnx_node(&builder, "ArgMax", "x", "out");
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "ArgMax (node \"out\", opset 14): over anything but the whole");
    begin(14);
    onnx_set_int(&builder, onnx_node(&builder, "ArgMax", "x", "out"), "select_last_index", 1);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "select_last_index");
    begin(14);
    onnx_set_int(&builder, onnx_node(&builder, "Softmax", "x", "out"), "axis", 1);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "over the batch axis");
    begin(12);
    onnx_set_int(&builder, onnx_node(&builder, "Softmax", "x", "out"), "axis", 0);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "over the batch axis"); // all axes from there on
    begin_with(14, "x w r b lengths");
    onnx_input(&builder, "lengths", ONNX__TENSOR_PROTO__DATA_TYPE__INT32, 1, lengths);
    reduce("ReduceMean", 1, &time, false);
    expect_accepted(&builder); // of x, whose steps have no lengths
    begin(14);
    onnx_node(&builder, "Squeeze", "h", "flat");
    onnx_node(&builder, "GlobalMaxPool", "flat", "out");
    ck_assert_int_ne(parse_built(&builder, &last_error), BASE_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_reduce");
    TCase *steps = tcase_create("steps");
    TCase *refused = tcase_create("refused");
    tcase_add_loop_test(steps, test_reductions_over_the_steps, 0, 4);
    tcase_add_test(steps, test_infinities_are_no_nan_in_a_sum_over_the_steps);
    tcase_add_test(steps, test_sums_and_means_over_steps_and_features);
    tcase_add_test(steps, test_sum_over_the_features_of_each_step);
    tcase_add_loop_test(steps, test_reductions_over_a_part_of_the_features, 0, 5);
    tcase_add_loop_test(steps, test_a_variance_over_the_steps_is_one_op, 0, 2);
    tcase_add_test(steps, test_what_is_no_variance_is_no_such_op);
    tcase_add_test(steps, test_sums_so_far);
    tcase_add_test(steps, test_sums_so_far_behind_an_infinity);
    tcase_add_test(steps, test_sums_of_features_so_far);
    tcase_add_test(steps, test_sums_so_far_of_the_batch_are_refused);
    tcase_add_loop_test(steps, test_norms, 0, 3);
    tcase_add_test(steps, test_pools_are_reductions_over_the_steps);
    tcase_add_test(steps, test_argmax_of_each_step);
    tcase_add_test(steps, test_top_of_each_step);
    tcase_add_test(refused, test_other_tops_are_refused);
    tcase_add_test(steps, test_softmax_over_the_steps);
    tcase_add_test(steps, test_attention_pooling);
    tcase_add_loop_test(steps, test_log_softmax, 0, 2);
    tcase_add_loop_test(steps, test_softmax_over_the_steps_and_features, 0, 2);
    tcase_add_test(steps, test_logarithms);
    tcase_add_test(steps, test_first_and_last_step_by_gather_and_slice);
    suite_add_tcase(suite, steps);
    tcase_add_test(refused, test_reductions_over_anything_else_are_refused);
    suite_add_tcase(suite, refused);
    return util_run(suite);
}
