/* Recurrent nodes over the bands of each step, and over the steps of each band: both come to what a
 * node with bands, or steps, for rows of its batch makes; and what is refused. */
#include "base/mem.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/cells/replay.h"
#include "tests/util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT };
enum { IN = 3, HIDDEN = 4, BANDS = 5, BATCH = 2, TIME = 4, SEED = 11 };

static const char *const units[] = {"LSTM", "GRU", "RNN"};
enum { UNITS = 3, LSTM = 0, GRU = 1 };

/* What loop tests take by number: [directions][layout][unit]. */
struct way {
    const char *unit;
    bool is_lstm, is_batch_first;
    uint32_t directions;
};
enum { WAYS = 2 * 2 * UNITS };

static struct onnx_builder builder;

static struct way way_of(int i)
{
    return (struct way){.unit = units[i % UNITS],
                        .is_lstm = i % UNITS == LSTM,
                        .is_batch_first = i / UNITS % 2 == 1,
                        .directions = 1 + (uint32_t)i / UNITS / 2};
}

/* ---- Models --------------------------------------------------------------------------------- */

static void output(const char *name)
{
    const size_t n = builder.graph.n_output;
    onnx_output(&builder, name, FLOAT, 0, NULL);
    builder.graph.output[n]->type = NULL;
}

static void add_weights(const struct way *way)
{
    const int64_t gates = onnx_gates(way->unit);
    const int64_t w[] = {way->directions, gates * HIDDEN, IN};
    const int64_t r[] = {way->directions, gates * HIDDEN, HIDDEN};
    const int64_t b[] = {way->directions, 2 * gates * HIDDEN};
    struct base_random random = util_random(SEED);
    onnx_constant(&builder, "w", onnx_random(&builder, 3, w, &random, 0.7f));
    onnx_constant(&builder, "r", onnx_random(&builder, 3, r, &random, 0.7f));
    onnx_constant(&builder, "b", onnx_random(&builder, 2, b, &random, 0.5f));
}

static Onnx__NodeProto *add_node(const struct way *way, const char *inputs)
{
    Onnx__NodeProto *node =
        onnx_node(&builder, way->unit, inputs, way->is_lstm ? "y hn cn" : "y hn");
    onnx_set_int(&builder, node, "hidden_size", HIDDEN);
    if (way->directions == 2) {
        onnx_set_string(&builder, node, "direction", "bidirectional");
    }
    if (way->is_batch_first) {
        onnx_set_int(&builder, node, "layout", 1);
    }
    if (strcmp(way->unit, "GRU") == 0) {
        onnx_set_int(&builder, node, "linear_before_reset", 1);
    }
    return node;
}

static void transpose(const char *from, const char *to, uint32_t n, const int64_t *perm)
{
    onnx_set_ints(&builder, onnx_node(&builder, "Transpose", from, to), "perm", n, perm);
}

/* Reshape to so many numbers; 0 and -1 as ONNX has them. */
static void reshape(const char *from, const char *to, uint32_t n, const int64_t *dims)
{
    char shape[32];
    char inputs[64];
    (void)snprintf(shape, sizeof(shape), "%s_dims", to);
    (void)snprintf(inputs, sizeof(inputs), "%s %s", from, shape);
    onnx_constant(&builder, shape, onnx_ints(&builder, 1, n, dims));
    (void)onnx_node(&builder, "Reshape", inputs, to);
}

/* x [steps, rows, IN], h and c [directions, rows, HIDDEN]; y [steps, directions, rows, HIDDEN]. */
static void build_plain(const struct way *way)
{
    const int64_t x[] = {-1, -1, IN};
    const int64_t state[] = {way->directions, -1, HIDDEN};
    const struct way time_first = {way->unit, way->is_lstm, false, way->directions};
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 3, x);
    onnx_input(&builder, "h", FLOAT, 3, state);
    if (way->is_lstm) {
        onnx_input(&builder, "c", FLOAT, 3, state);
    }
    add_weights(&time_first);
    (void)add_node(&time_first, way->is_lstm ? "x w r b - h c" : "x w r b - h");
    output("y");
    output("hn");
}

/* ---- Numbers -------------------------------------------------------------------------------- */

/* The same elements, axis k of the result being axis perm[k]. */
static struct replay_tensor permuted(const struct replay_tensor *of, const uint32_t *perm)
{
    int64_t dims[CELL_RANK_MAX];
    for (uint32_t k = 0; k < of->rank; k++) {
        dims[k] = of->dims[perm[k]];
    }
    struct replay_tensor made = replay_tensor_random(of->rank, dims, NULL);
    for (size_t i = 0; i < made.count; i++) {
        int64_t at[CELL_RANK_MAX];
        size_t left = i;
        for (uint32_t k = of->rank; k-- > 0;) {
            at[perm[k]] = (int64_t)(left % (size_t)dims[k]);
            left /= (size_t)dims[k];
        }
        size_t from = 0;
        for (uint32_t k = 0; k < of->rank; k++) {
            from = from * (size_t)of->dims[k] + (size_t)at[k];
        }
        made.data[i] = of->data[from];
    }
    return made;
}

static void shape_as(struct replay_tensor *of, uint32_t rank, const int64_t *dims)
{
    size_t count = 1;
    of->rank = rank;
    for (uint32_t k = 0; k < rank; k++) {
        of->dims[k] = dims[k];
        count *= (size_t)dims[k];
    }
    ck_assert_uint_eq(count, of->count);
}

static void assert_near(const struct replay_tensor *is, const struct replay_tensor *wanted)
{
    ck_assert_uint_eq(is->count, wanted->count);
    for (size_t i = 0; i < is->count; i++) {
        ck_assert_msg(fabs(is->data[i] - wanted->data[i]) < 1e-9, "element %zu: %g, wanted %g", i,
                      is->data[i], wanted->data[i]);
    }
}

/* Outputs of the plain node for these inputs. */
static void run_plain(const struct way *way, const struct replay_tensor *inputs,
                      struct replay_tensor *outputs)
{
    struct built built;
    build_plain(way);
    load_built(&builder, &built);
    replay_run(built.model, inputs, outputs);
    free_built(&builder, &built);
}

static void free_tensors(struct replay_tensor *tensors, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        base_free(tensors[i].data);
    }
}

/* ---- Over the steps of each band ------------------------------------------------------------ */

/* h or c [batch, directions, bands, HIDDEN] as the node takes it. */
static void add_state(const struct way *way, const char *name)
{
    static const int64_t to_rows[] = {1, 0, 2, 3};
    static const int64_t to_bands[] = {0, 2, 1, 3};
    const int64_t given[] = {-1, way->directions, BANDS, HIDDEN};
    char turned[16];
    char flat[16];
    (void)snprintf(turned, sizeof(turned), "%s_turned", name);
    (void)snprintf(flat, sizeof(flat), "%s_flat", name);
    onnx_input(&builder, name, FLOAT, 4, given);
    transpose(name, turned, 4, way->is_batch_first ? to_bands : to_rows);
    if (way->is_batch_first) {
        reshape(turned, flat, 3, (const int64_t[]){-1, way->directions, HIDDEN});
    } else {
        reshape(turned, flat, 3, (const int64_t[]){way->directions, -1, HIDDEN});
    }
}

/* x [batch, bands, time, IN] with the time named in the shape of what the node takes and makes. */
static void add_batch_first(const struct way *way)
{
    static const int64_t minus_one = -1;
    const int64_t in = IN;
    const int64_t two = 2;
    const int64_t left[] = {way->directions * HIDDEN};
    onnx_constant(&builder, "open", onnx_ints(&builder, 1, 1, &minus_one));
    onnx_constant(&builder, "in", onnx_ints(&builder, 1, 1, &in));
    onnx_constant(&builder, "two", onnx_ints(&builder, 1, 1, &two));
    onnx_constant(&builder, "bands", onnx_ints(&builder, 1, 1, (const int64_t[]){BANDS}));
    onnx_constant(&builder, "left", onnx_ints(&builder, 1, 1, left));
    (void)onnx_node(&builder, "Shape", "x", "shape");
    (void)onnx_node(&builder, "Gather", "shape two", "time");
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "open time in", "rows"), "axis", 0);
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "open bands time left", "whole"), "axis",
                 0);
    (void)onnx_node(&builder, "Reshape", "x rows", "x_flat");
    (void)add_node(way, way->is_lstm ? "x_flat w r b - h_flat c_flat" : "x_flat w r b - h_flat");
    (void)onnx_node(&builder, "Reshape", "y whole", "y_whole"); // [batch, bands, time, d * h]
    reshape("hn", "hn_whole", 4, (const int64_t[]){-1, BANDS, way->directions, HIDDEN});
    transpose("y_whole", "y_out", 4, (const int64_t[]){2, 0, 1, 3});
    transpose("hn_whole", "hn_out", 4, (const int64_t[]){0, 2, 1, 3});
}

static void add_time_first(const struct way *way)
{
    transpose("x", "x_turned", 4, (const int64_t[]){2, 0, 1, 3});
    reshape("x_turned", "x_flat", 3, (const int64_t[]){0, -1, IN});
    (void)add_node(way, way->is_lstm ? "x_flat w r b - h_flat c_flat" : "x_flat w r b - h_flat");
    reshape("y", "y_whole", 5, (const int64_t[]){0, way->directions, -1, BANDS, HIDDEN});
    transpose("y_whole", "y_turned", 5, (const int64_t[]){0, 2, 3, 1, 4});
    reshape("y_turned", "y_out", 4, (const int64_t[]){0, 0, BANDS, way->directions * HIDDEN});
    reshape("hn", "hn_whole", 4, (const int64_t[]){way->directions, -1, BANDS, HIDDEN});
    transpose("hn_whole", "hn_out", 4, (const int64_t[]){1, 0, 2, 3});
}

/* Outputs y [time, batch, bands, directions * HIDDEN], hn [batch, directions, bands, HIDDEN]. */
static void build_steps(const struct way *way)
{
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 4, (const int64_t[]){-1, BANDS, -1, IN});
    add_state(way, "h");
    if (way->is_lstm) {
        add_state(way, "c");
    }
    add_weights(way);
    if (way->is_batch_first) {
        add_batch_first(way);
    } else {
        add_time_first(way);
    }
    output("y_out");
    output("hn_out");
}

START_TEST(test_steps_of_each_band)
{
    static const uint32_t time_first[] = {2, 0, 1, 3};
    static const uint32_t rows_inside[] = {1, 0, 2, 3};
    const struct way way = way_of(_i);
    const uint32_t n = way.is_lstm ? 3 : 2;
    const int64_t d = way.directions;
    struct base_random random = util_random(1);
    struct replay_tensor given[3];
    struct replay_tensor plain[3];
    struct replay_tensor is[2];
    struct replay_tensor wanted[2];
    given[0] = replay_tensor_random(4, (const int64_t[]){BATCH, BANDS, TIME, IN}, &random);
    plain[0] = permuted(&given[0], time_first);
    shape_as(&plain[0], 3, (const int64_t[]){TIME, BATCH * BANDS, IN});
    for (uint32_t s = 1; s < n; s++) {
        given[s] = replay_tensor_random(4, (const int64_t[]){BATCH, d, BANDS, HIDDEN}, &random);
        plain[s] = permuted(&given[s], rows_inside);
        shape_as(&plain[s], 3, (const int64_t[]){d, BATCH * BANDS, HIDDEN});
    }
    struct built built;
    build_steps(&way);
    load_built(&builder, &built);
    const struct cell_stage *chain = built.model->stages;
    while (chain->kind != CELL_STAGE_CHAIN) { // states are put into their order first
        chain++;
    }
    ck_assert_uint_eq(chain->type->def.ops[0].patches, BANDS);
    ck_assert_int_eq(chain->type->def.ops[0].order, CELL_PATCHES_APART);
    replay_run(built.model, given, is);
    free_built(&builder, &built);
    run_plain(&way, plain, wanted);
    shape_as(&wanted[0], 4, (const int64_t[]){TIME, d, BATCH * BANDS, HIDDEN});
    shape_as(&wanted[1], 4, (const int64_t[]){d, BATCH, BANDS, HIDDEN});
    struct replay_tensor y = permuted(&wanted[0], (const uint32_t[]){0, 2, 1, 3});
    struct replay_tensor hn = permuted(&wanted[1], rows_inside);
    assert_near(&is[0], &y);
    assert_near(&is[1], &hn);
    base_free(y.data);
    base_free(hn.data);
    free_tensors(given, n);
    free_tensors(plain, n);
    free_tensors(is, 2);
    free_tensors(wanted, 2);
}
END_TEST

/* ---- Over the bands of each step ------------------------------------------------------------ */

/* x [batch, time, bands, IN], states that the request gives, the same at each step, where it has
 * them; y [batch, time, bands * directions * HIDDEN], hn [batch, time, directions * HIDDEN]. */
static void build_bands(const struct way *way, const char *inputs)
{
    static const int64_t minus_one = -1;
    const int64_t zero = 0;
    const int64_t two = 2;
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 4, (const int64_t[]){-1, -1, BANDS, IN});
    add_weights(way);
    onnx_constant(&builder, "open", onnx_ints(&builder, 1, 1, &minus_one));
    onnx_constant(&builder, "zero", onnx_ints(&builder, 1, 1, &zero));
    onnx_constant(&builder, "two", onnx_ints(&builder, 1, 1, &two));
    (void)onnx_node(&builder, "Shape", "x", "shape");
    (void)onnx_node(&builder, "Slice", "shape zero two", "rows");
    onnx_set_int(&builder, onnx_node(&builder, "Concat", "rows open", "whole"), "axis", 0);
    if (way->is_batch_first) {
        reshape("x", "x_flat", 3, (const int64_t[]){-1, BANDS, IN});
        (void)add_node(way, inputs);
        (void)onnx_node(&builder, "Reshape", "y whole", "y_out");
        (void)onnx_node(&builder, "Reshape", "hn whole", "hn_out");
    } else {
        transpose("x", "x_turned", 4, (const int64_t[]){2, 0, 1, 3});
        reshape("x_turned", "x_flat", 3, (const int64_t[]){BANDS, -1, IN});
        (void)add_node(way, inputs);
        transpose("y", "y_turned", 4, (const int64_t[]){2, 0, 1, 3});
        transpose("hn", "hn_turned", 3, (const int64_t[]){1, 0, 2});
        (void)onnx_node(&builder, "Reshape", "y_turned whole", "y_out");
        (void)onnx_node(&builder, "Reshape", "hn_turned whole", "hn_out");
    }
}

START_TEST(test_bands_of_each_step)
{
    static const uint32_t bands_first[] = {2, 0, 1, 3};
    const struct way way = way_of(_i);
    const int64_t d = way.directions;
    struct base_random random = util_random(2);
    struct replay_tensor x =
        replay_tensor_random(4, (const int64_t[]){BATCH, TIME, BANDS, IN}, &random);
    struct replay_tensor plain[3] = {permuted(&x, bands_first)};
    struct replay_tensor is[2];
    struct replay_tensor wanted[2];
    shape_as(&plain[0], 3, (const int64_t[]){BANDS, BATCH * TIME, IN});
    for (uint32_t s = 1; s < 3; s++) {
        plain[s] = replay_tensor_random(3, (const int64_t[]){d, BATCH * TIME, HIDDEN}, NULL);
    }
    struct built built;
    build_bands(&way, "x_flat w r b");
    output("y_out");
    output("hn_out");
    load_built(&builder, &built);
    ck_assert_uint_eq(built.model->n_stages, 1);
    ck_assert_int_eq(built.model->stages[0].kind, CELL_STAGE_EACH);
    replay_run(built.model, &x, is);
    free_built(&builder, &built);
    run_plain(&way, plain, wanted);
    struct replay_tensor y = permuted(&wanted[0], (const uint32_t[]){2, 0, 1, 3});
    struct replay_tensor hn = permuted(&wanted[1], (const uint32_t[]){1, 0, 2});
    assert_near(&is[0], &y);
    assert_near(&is[1], &hn);
    base_free(x.data);
    base_free(y.data);
    base_free(hn.data);
    free_tensors(plain, 3);
    free_tensors(is, 2);
    free_tensors(wanted, 2);
}
END_TEST

/* A constant that the bands of every step begin with. */
START_TEST(test_bands_begin_with_a_constant)
{
    const struct way way = {.unit = "RNN", .is_batch_first = true, .directions = 1};
    struct base_random random = util_random(3);
    float h[HIDDEN];
    struct replay_tensor inputs[2] = {
        replay_tensor_random(3, (const int64_t[]){BANDS, 1, IN}, &random),
        replay_tensor_random(3, (const int64_t[]){1, 1, HIDDEN}, &random),
    };
    struct replay_tensor is[2];
    struct replay_tensor wanted[2];
    for (uint32_t i = 0; i < HIDDEN; i++) {
        h[i] = (float)inputs[1].data[i];
        inputs[1].data[i] = (double)h[i];
    }
    run_plain(&way, inputs, wanted);
    shape_as(&inputs[0], 4, (const int64_t[]){1, 1, BANDS, IN});
    struct built built;
    build_bands(&way, "x_flat w r b - h");
    onnx_constant(&builder, "h",
                  onnx_tensor(&builder, FLOAT, 3, (const int64_t[]){1, 1, HIDDEN}, h, sizeof(h)));
    output("y_out");
    output("hn_out");
    load_built(&builder, &built);
    replay_run(built.model, inputs, is);
    free_built(&builder, &built);
    assert_near(&is[0], &wanted[0]);
    assert_near(&is[1], &wanted[1]);
    free_tensors(inputs, 2);
    free_tensors(is, 2);
    free_tensors(wanted, 2);
}
END_TEST

/* ---- Refusals ------------------------------------------------------------------------------- */

static Onnx__NodeProto *node_named(const char *op)
{
    for (size_t i = 0; i < builder.graph.n_node; i++) {
        if (strcmp(builder.graph.node[i]->op_type, op) == 0) {
            return builder.graph.node[i];
        }
    }
    ck_abort_msg("no %s", op);
}

START_TEST(test_what_over_bands_is_refused)
{
    const struct way gru = {.unit = "GRU", .is_batch_first = true, .directions = 1};
    const struct way lstm = {
        .unit = "LSTM", .is_lstm = true, .is_batch_first = true, .directions = 1};
    build_bands(&gru, "x_flat w r b");
    node_named("GRU")->attribute[2]->i = 0; // linear_before_reset
    output("y_out");
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "GRU (node \"y\", opset 17): over bands of each step, and resets before the "
                   "product");
    build_bands(&gru, "x_flat w r b");
    onnx_set_strings(&builder, node_named("GRU"), "activations", "HardSigmoid Tanh");
    output("y_out");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "a cell of small operators over bands");
    build_bands(&gru, "x_flat w r b lengths");
    onnx_input(&builder, "lengths", ONNX__TENSOR_PROTO__DATA_TYPE__INT32, 1, (const int64_t[]){-1});
    output("y_out");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "sequence_lens");
    build_bands(&lstm, "x_flat w r b");
    (void)onnx_node(&builder, "Reshape", "cn whole", "cn_out");
    output("cn_out");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "Y_c of bands");
}
END_TEST

/* Bands whose number no file states are no bands; nor may states that are not zero be constants,
 * of which each band would have one. */
START_TEST(test_what_along_steps_is_refused)
{
    const struct way way = {.unit = "RNN", .directions = 1};
    float h[HIDDEN] = {1.0f};
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 4, (const int64_t[]){-1, -1, -1, IN});
    add_weights(&way);
    transpose("x", "x_turned", 4, (const int64_t[]){2, 0, 1, 3});
    reshape("x_turned", "x_flat", 3, (const int64_t[]){0, -1, IN});
    (void)add_node(&way, "x_flat w r b");
    output("hn");
    expect_refused(&builder, BASE_UNIMPLEMENTED, "X's batch axis is made of several dimensions");
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 4, (const int64_t[]){-1, BANDS, -1, IN});
    add_weights(&way);
    onnx_constant(&builder, "h_flat",
                  onnx_tensor(&builder, FLOAT, 3, (const int64_t[]){1, 1, HIDDEN}, h, sizeof(h)));
    add_time_first(&way);
    output("hn_out");
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "a constant initial state of bands that is not zero");
    // x has the bands of each row, the state the rows of each band.
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 4, (const int64_t[]){-1, BANDS, -1, IN});
    onnx_input(&builder, "h", FLOAT, 4, (const int64_t[]){-1, 1, BANDS, HIDDEN});
    transpose("h", "h_turned", 4, (const int64_t[]){1, 2, 0, 3});
    reshape("h_turned", "h_flat", 3, (const int64_t[]){1, -1, HIDDEN});
    add_weights(&way);
    add_time_first(&way);
    output("hn_out");
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "initial_h: cannot tell that two dimensions are equal");
}
END_TEST

/* The same of one input, whose rows are known to be the same: x is [batch, bands, time, IN] and the
 * state its first step, but the bands outside of the rows. */
START_TEST(test_a_state_in_another_order_is_refused)
{
    const struct way way = {.unit = "RNN", .directions = 1};
    const int64_t first = 0;
    onnx_init(&builder, 17);
    onnx_input(&builder, "x", FLOAT, 4, (const int64_t[]){-1, BANDS, -1, IN});
    onnx_constant(&builder, "first", onnx_ints(&builder, 0, 1, &first));
    onnx_constant(&builder, "wide",
                  onnx_tensor(&builder, FLOAT, 2, (const int64_t[]){IN, HIDDEN},
                              (const float[IN * HIDDEN]){1.0f}, IN * HIDDEN * sizeof(float)));
    onnx_set_int(&builder, onnx_node(&builder, "Gather", "x first", "step"), "axis", 2);
    (void)onnx_node(&builder, "MatMul", "step wide", "state");
    transpose("state", "state_turned", 3, (const int64_t[]){1, 0, 2});
    reshape("state_turned", "h_flat", 3, (const int64_t[]){1, -1, HIDDEN});
    add_weights(&way);
    add_time_first(&way);
    output("hn_out");
    expect_refused(&builder, BASE_UNIMPLEMENTED,
                   "an initial state whose rows are in another order than X's");
}
END_TEST

/* Six bands of each row are three times two of the state's, but not where three stand outside of
 * the rows. */
START_TEST(test_a_state_of_bands_that_are_parts_of_others)
{
    enum { HALF = 3, PAIRS = 2 };
    static const float wide[IN * HIDDEN * PAIRS] = {1.0f};
    static const char *const names[] = {"first", "from", "to", "bands"};
    static const int64_t at[] = {0, 0, HALF, 1};
    const struct way way = {.unit = "RNN", .directions = 1};
    for (int is_outside = 0; is_outside < 2; is_outside++) {
        onnx_init(&builder, 17);
        onnx_input(&builder, "x", FLOAT, 4, (const int64_t[]){-1, HALF * PAIRS, -1, IN});
        for (uint32_t i = 0; i < 4; i++) {
            onnx_constant(&builder, names[i], onnx_ints(&builder, i == 0 ? 0 : 1, 1, &at[i]));
        }
        onnx_set_int(&builder, onnx_node(&builder, "Gather", "x first", "step"), "axis", 2);
        (void)onnx_node(&builder, "Slice", "step from to bands", "half");
        onnx_constant(&builder, "wide",
                      onnx_tensor(&builder, FLOAT, 2, (const int64_t[]){IN, HIDDEN * PAIRS}, wide,
                                  sizeof(wide)));
        (void)onnx_node(&builder, "MatMul", "half wide", "state");
        transpose("state", "turned", 3, (const int64_t[]){1, 0, 2});
        reshape(is_outside ? "turned" : "state", "h_flat", 3, (const int64_t[]){1, -1, HIDDEN});
        add_weights(&way);
        transpose("x", "x_turned", 4, (const int64_t[]){2, 0, 1, 3});
        reshape("x_turned", "x_flat", 3, (const int64_t[]){0, -1, IN});
        (void)add_node(&way, "x_flat w r b - h_flat");
        reshape("hn", "hn_out", 3, (const int64_t[]){-1, HALF * PAIRS, HIDDEN});
        output("hn_out");
        if (is_outside) {
            expect_refused(&builder, BASE_UNIMPLEMENTED,
                           "whose rows are in another order than X's");
        } else {
            expect_accepted(&builder);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_bands");
    TCase *tcase = tcase_create("bands");
    tcase_add_loop_test(tcase, test_steps_of_each_band, 0, WAYS);
    tcase_add_loop_test(tcase, test_bands_of_each_step, 0, WAYS);
    tcase_add_test(tcase, test_bands_begin_with_a_constant);
    tcase_add_test(tcase, test_what_over_bands_is_refused);
    tcase_add_test(tcase, test_what_along_steps_is_refused);
    tcase_add_test(tcase, test_a_state_in_another_order_is_refused);
    tcase_add_test(tcase, test_a_state_of_bands_that_are_parts_of_others);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
