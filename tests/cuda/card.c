/* Whether a CUDA device computes what it should, and how fast: a program that needs gcc, nvcc and
 * cuBLASLt, and none of the tests' or the server's libraries (scripts/gpu/check.sh, bench.sh).
 *
 *   quick   a few of check's cases without lanes, for tools that slow it down
 *   check   every kind of cell at edges of its shapes: chains of different lengths that join and
 *           leave, against double precision (tests/cells/oracle.h); and each chain alone against
 *           itself in company, bit by bit
 *   bench   time of a step of an LSTM and a GRU by rows, in runs of 64 steps, behind a check of one
 *           row
 *
 * PRODUCTS, fp32 where it is left out: how exactly the cells multiply (enum cell_products).
 *
 * A line of JSON for each case, as bench/gpu/ has them (bench/gpu/table.py). Exit status: 0, 1
 * after a failed case, 2 for wrong arguments, 3 where the device cannot be opened. */
#include "tests/cuda/card.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "cells/type.h"
#include "tests/cells/oracle.h"
#include "tests/cells/rig.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2, EXIT_NO_DEVICE = 3 };

#define CHECK_ROWS  64u
#define CHECK_STEPS 20u
#define BENCH_ROWS  1024u
#define BENCH_STEPS 64u
#define BENCH_RUNS  60u
#define BENCH_WARM  10u
#define BENCH_NS    UINT64_C(5000000000) /* of a case: what has been timed by then is enough */
#define TOLD_BYTES  8192u
#define WATCHDOG_NS UINT64_C(3000000000)
#define WAIT_NS     UINT64_C(20000000000)

/* Gates of h at 100 steps, by products; here are fewer. Of a kind whose outputs have no bound, one
 * that goes beyond -1..1 is held to the same share of its largest value, but for a device's that
 * has fp32 and the CPU's bits. */
static const double errors_max[CELL_PRODUCTS_COUNT] = {1e-5, 4e-3, 2e-2, 1e-4};

/* ---- Cells ---- */

static void make_lstm(struct build *build, uint32_t inputs, uint32_t hidden)
{
    build_lstm_cell(build, inputs, hidden, 1);
}

static void make_gated(struct build *build, enum cell_op_kind kind, uint32_t variant,
                       const uint32_t size[2])
{
    build_init(build, 2);
    const uint32_t x = build_input(build, CELL_F32, size[0]);
    const uint32_t h = build_state(build, CELL_F32, size[1]);
    const uint32_t next = build_gated(build, kind, variant, x, h, true);
    build_next(build, 0, next);
    build_output(build, next);
}

static void make_gru(struct build *build, uint32_t inputs, uint32_t hidden)
{
    make_gated(build, CELL_OP_GRU, CELL_GRU_RESET_AFTER, (const uint32_t[]){inputs, hidden});
}

static void make_gru_before(struct build *build, uint32_t inputs, uint32_t hidden)
{
    make_gated(build, CELL_OP_GRU, CELL_GRU_RESET_BEFORE, (const uint32_t[]){inputs, hidden});
}

static void make_rnn(struct build *build, uint32_t inputs, uint32_t hidden)
{
    make_gated(build, CELL_OP_RNN, CELL_RNN_TANH, (const uint32_t[]){inputs, hidden});
}

static void make_own(struct build *build, uint32_t inputs, uint32_t hidden)
{
    build_own_cell(build, inputs, hidden, 3);
}

static uint32_t half(struct build *build, uint32_t of, uint32_t number, uint32_t width)
{
    const uint32_t value = build_op(build, CELL_OP_SLICE, of, UINT32_MAX, width);
    build_last(build)->start = number * width;
    return value;
}

/* One gate, in small operators: f = s(x + h), h' = h + f * (tanh(x + W (f * h)) - h), within -1..1
 * where h was. */
static void make_one_gate(struct build *build, uint32_t inputs, uint32_t hidden)
{
    build_init(build, 5);
    const uint32_t x = build_input(build, CELL_F32, inputs);
    const uint32_t h = build_state(build, CELL_F32, hidden);
    const uint32_t of_x = build_linear(build, x, 2 * hidden, true);
    const uint32_t of_h = build_linear(build, h, hidden, false);
    const uint32_t sum = build_op(build, CELL_OP_ADD, half(build, of_x, 0, hidden), of_h, hidden);
    const uint32_t gate = build_op(build, CELL_OP_SIGMOID, sum, UINT32_MAX, hidden);
    const uint32_t kept = build_op(build, CELL_OP_MUL, gate, h, hidden);
    const uint32_t of_kept = build_linear(build, kept, hidden, false);
    const uint32_t part =
        build_op(build, CELL_OP_ADD, half(build, of_x, 1, hidden), of_kept, hidden);
    const uint32_t fresh = build_op(build, CELL_OP_TANH, part, UINT32_MAX, hidden);
    const uint32_t off = build_op(build, CELL_OP_SUB, fresh, h, hidden);
    const uint32_t moved = build_op(build, CELL_OP_MUL, gate, off, hidden);
    const uint32_t next = build_op(build, CELL_OP_ADD, h, moved, hidden);
    build_next(build, 0, next);
    build_output(build, next);
}

static void make_tree_of(struct build *build, enum cell_op_kind kind, uint32_t n_children,
                         const uint32_t size[2])
{
    const struct build_tree tree = {
        .kind = kind, .hidden = size[1], .n_children = n_children, .has_bias = true};
    build_tree_cell(build, tree, size[0], 4);
}

static void make_leaf(struct build *build, uint32_t inputs, uint32_t hidden)
{
    make_tree_of(build, CELL_OP_TREE_LEAF, 0, (const uint32_t[]){inputs, hidden});
}

static void make_binary(struct build *build, uint32_t inputs, uint32_t hidden)
{
    make_tree_of(build, CELL_OP_TREE_BINARY, 2, (const uint32_t[]){inputs, hidden});
}

static void make_child_sum(struct build *build, uint32_t inputs, uint32_t hidden)
{
    make_tree_of(build, CELL_OP_TREE_SUM, 3, (const uint32_t[]){inputs, hidden});
}

/* As a convolution within a row is written: the row turned, patches of it, turned back. */
static void make_patches(struct build *build, uint32_t inputs, uint32_t hidden)
{
    const uint32_t patches = inputs < 4 ? inputs : 4;
    build_init(build, 6);
    const uint32_t x = build_input(build, CELL_F32, 3 * inputs);
    const uint32_t turned = build_transpose(build, x, (const uint32_t[]){1, 3, inputs});
    const uint32_t sums = build_patches(build, turned, patches, 3, hidden);
    const uint32_t out = build_op(build, CELL_OP_RELU, sums, UINT32_MAX, patches * hidden);
    build_output(build, build_transpose(build, out, (const uint32_t[]){1, patches, hidden}));
}

/* As frames are convolved: their places, the largest of windows of what is left, each channel for
 * itself. */
static void make_frames(struct build *build, uint32_t inputs, uint32_t hidden)
{
    const uint32_t width = inputs < 5 ? inputs : 5;
    const struct cell_picture first = {.size = {4, width},
                                       .taps = {3, 2},
                                       .dilations = {1, 1},
                                       .strides = {1, 1},
                                       .before = {1, 1},
                                       .left = {4, width}};
    const struct cell_picture next = {.size = {4, width},
                                      .taps = {2, 3},
                                      .dilations = {1, 1},
                                      .strides = {2, 1},
                                      .before = {0, 1},
                                      .left = {2, width}};
    const struct cell_picture last = {.size = {2, width},
                                      .taps = {2, 2},
                                      .dilations = {1, 2},
                                      .strides = {1, 1},
                                      .before = {1, 1},
                                      .left = {3, width}};
    build_init(build, 7);
    const uint32_t x = build_input(build, CELL_F32, 4 * width * (inputs < 20 ? 2 : 9));
    const uint32_t sums = build_picture(build, x, &first, hidden < 64 ? hidden : 64);
    const uint32_t most = build_filter(build, sums, &next, CELL_FILTER_LARGEST, false);
    build_output(build, build_filter(build, most, &last, CELL_FILTER_SUM, true));
}

static const struct cell_kind {
    const char *name;
    void (*make)(struct build *build, uint32_t inputs, uint32_t hidden);
    bool is_unbounded; /* sums are given away, or c of a node with several children */
} kinds[] = {
    {"lstm", make_lstm, false},
    {"gru", make_gru, false},
    {"gru, reset before", make_gru_before, false},
    {"rnn", make_rnn, false},
    {"own cell", make_own, true},
    {"own cell, bounded", make_one_gate, false},
    {"tree, leaf", make_leaf, false},
    {"tree, binary", make_binary, false},
    {"tree, child-sum", make_child_sum, true},
    {"patches", make_patches, true},
    {"frames", make_frames, true},
};

/* Below, at and beyond what blocks, tiles and warps hold. */
static const uint32_t shapes[][2] = {{1, 1}, {3, 7}, {31, 33}, {64, 64}, {65, 127}, {256, 256}};

/* Kinds that have all shapes in fewer bits; others lack the last, which takes as long as all
 * before. */
#define ROUNDED_KINDS 3u
static const uint32_t row_counts[] = {1, 3, 8, 17, CHECK_ROWS};

#define QUICK_SHAPE 1u
#define QUICK_ROWS  17u

/* ---- A type on the device ---- */

struct card {
    const struct cell_backend *backend;
    enum cell_products products;
    struct cell_device *device;
    struct cell_registry *registry;
    const struct cell_type *type;
    uint64_t submitted;
    bool is_quick, is_loaded;
    bool is_lost;      /* as its last device was closed: nothing more is run */
    const char *wrong; /* what has failed, or NULL */
    struct base_error error;
};

static bool card_open(struct card *card, const struct cell_def *def, uint32_t rows)
{
    // A tool that slows it down takes its time at a kernel's first launch, and may run kernel and
    // host one after the other, which a lane does not bear.
    const struct cell_device_options options = {.n_queues = 1,
                                                .batches_queued_max = 4,
                                                .watchdog_ns =
                                                    (card->is_quick ? 5 : 1) * WATCHDOG_NS,
                                                .lanes_off = card->is_quick};
    bool is_new = false;
    card->is_loaded = card->backend->open(&options, &card->device, &card->error) == BASE_OK &&
                      cell_registry_create(&card->registry) == BASE_OK &&
                      cell_registry_intern(card->registry, def, "card/cell", &card->type, &is_new,
                                           &card->error) == BASE_OK &&
                      card->backend->type_load(card->device, card->type, &card->error) == BASE_OK;
    bool is_open = card->is_loaded;
    for (uint32_t l = 0; is_open && l < cell_registry_layouts(card->registry); l++) {
        is_open = card->backend->rows_open(card->device, l, cell_registry_layout(card->registry, l),
                                           rows, &card->error) == BASE_OK;
    }
    card->wrong = is_open ? NULL : card->error.message;
    return is_open;
}

static void card_close(struct card *card)
{
    if (card->is_loaded) {
        card->backend->type_unload(card->device, card->type);
    }
    // One that cannot be opened any more is lost, too.
    card->is_lost = card->device == NULL || card->backend->is_lost(card->device);
    if (card->device != NULL) {
        card->backend->close(card->device);
    }
    cell_registry_free(card->registry);
    card->device = NULL;
    card->registry = NULL;
    card->is_loaded = false;
    card->submitted = 0;
}

static void run(struct card *card, struct cell_batch *batch)
{
    const uint64_t start_ns = base_now_ns();
    batch->type = card->type;
    batch->status = BASE_INTERNAL;
    card->backend->submit(card->device, 0, batch);
    card->submitted++;
    while (atomic_load(card->backend->completed(card->device, 0)) < card->submitted) {
        card->backend->poll(card->device, 0, base_now_ns());
        if (base_now_ns() - start_ns > WAIT_NS) {
            card->wrong = "a batch does not come back";
            return;
        }
    }
    if (batch->status != BASE_OK) {
        card->wrong = card->backend->is_lost(card->device) ? card->backend->why_lost(card->device)
                                                           : base_status_name(batch->status);
    }
}

/* ---- Check ---- */

/* Of each output: what it is off double precision at most, and its largest value there. */
struct spread {
    double error[CELL_OUTPUTS_MAX], largest[CELL_OUTPUTS_MAX];
};

static void compare_row(const float *y, const double *wanted, uint32_t width, double *error,
                        double *largest)
{
    for (uint32_t k = 0; k < width; k++) {
        const double off = fabs((double)y[k] - wanted[k]);
        *error = off <= *error ? *error : off; // a NaN, too, is the worst
        *largest = fabs(wanted[k]) > *largest ? fabs(wanted[k]) : *largest;
    }
}

/* The worst of all outputs, as a gate has it. */
static double error_within(const struct spread *spread, bool is_relative)
{
    double worst = 0;
    for (uint32_t o = 0; o < CELL_OUTPUTS_MAX; o++) {
        const double share = is_relative && spread->largest[o] > 1 ? spread->largest[o] : 1;
        const double error = spread->error[o] / share;
        worst = error <= worst ? worst : error;
    }
    return worst;
}

static void compare(const struct cell_type *type, const struct rig_chain *chain,
                    struct spread *spread)
{
    const struct cell_def *def = &type->def;
    struct oracle oracle;
    oracle_init(&oracle, def);
    for (uint32_t s = 0; s < def->n_states; s++) {
        const float *init = (const float *)(const void *)chain->init[s];
        for (uint32_t k = 0; k < def->values[def->n_inputs + s].width; k++) {
            oracle.values[def->n_inputs + s][k] = (double)init[k];
        }
    }
    for (uint32_t t = 0; t < chain->wiring.steps; t++) {
        for (uint32_t i = 0; i < def->n_inputs; i++) {
            const uint32_t width = def->values[i].width;
            const float *x = (const float *)(const void *)chain->inputs[i] + (size_t)t * width;
            for (uint32_t k = 0; k < width; k++) {
                oracle.values[i][k] = (double)x[k];
            }
        }
        oracle_step(&oracle);
        for (uint32_t o = 0; o < def->n_outputs; o++) {
            const uint32_t width = def->values[def->outputs[o]].width;
            const float *y = (const float *)(const void *)chain->outputs[o] + (size_t)t * width;
            compare_row(y, oracle.values[def->outputs[o]], width, &spread->error[o],
                        &spread->largest[o]);
        }
        oracle_advance(&oracle);
    }
    oracle_release(&oracle);
}

/* Runs all chains to their ends: at each turn most of those that have steps left, up to four of
 * them. */
static void run_chains(struct card *card, struct rig_chain *chains, uint32_t n,
                       struct base_random *random)
{
    struct cell_batch_row rows[CHECK_ROWS];
    const bool has_state = card->type->def.n_states > 0;
    for (bool is_left = true; is_left && card->wrong == NULL;) {
        struct cell_batch batch = {.rows = rows};
        is_left = false;
        batch.steps = has_state ? 1 + base_random_below(random, 4) : 1;
        for (uint32_t i = 0; i < n; i++) {
            const bool has_steps = chains[i].done < chains[i].wiring.steps;
            is_left |= has_steps;
            if (has_steps && (n == 1 || base_random_below(random, 4) != 0)) {
                rows[batch.n_rows] = rig_chain_row(&chains[i], batch.steps);
                rows[batch.n_rows++].tag = &chains[i];
            }
        }
        if (batch.n_rows > 0) {
            run(card, &batch);
        }
        for (uint32_t r = 0; r < batch.n_rows; r++) {
            struct rig_chain *chain = rows[r].tag;
            chain->done += rows[r].steps_done;
            if (card->wrong == NULL && rows[r].steps_done == 0) {
                card->wrong = "a row has taken no step";
            }
        }
    }
}

struct verdict {
    double error;
    bool has_same_bits;
};

/* The first chain once more, alone. */
static bool is_same_alone(struct card *card, struct rig_chain *chain, struct base_random *random)
{
    const struct cell_def *def = &card->type->def;
    uint8_t *kept[CELL_OUTPUTS_MAX] = {NULL};
    bool is_same = true;
    size_t bytes[CELL_OUTPUTS_MAX];
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        bytes[o] = (size_t)chain->wiring.steps * def->values[def->outputs[o]].width * sizeof(float);
        kept[o] = rig_copy(chain->outputs[o], bytes[o]);
    }
    rig_chain_reset(chain, card->type);
    run_chains(card, chain, 1, random);
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        is_same &= memcmp(kept[o], chain->outputs[o], bytes[o]) == 0;
        base_free(kept[o]);
    }
    return is_same;
}

static struct verdict check(struct card *card, uint32_t n, bool is_relative)
{
    static struct rig_chain chains[CHECK_ROWS];
    struct verdict verdict = {0, true};
    struct spread spread = {{0}, {0}};
    struct base_random random;
    base_random_init(&random, n);
    for (uint32_t i = 0; i < n; i++) {
        rig_chain_init(&chains[i], card->type, i, 1 + base_random_below(&random, CHECK_STEPS),
                       &random);
        rig_chain_reset(&chains[i], card->type);
    }
    run_chains(card, chains, n, &random);
    for (uint32_t i = 0; i < n && card->wrong == NULL; i++) {
        compare(card->type, &chains[i], &spread);
    }
    verdict.error = error_within(&spread, is_relative);
    if (card->wrong == NULL) {
        verdict.has_same_bits = is_same_alone(card, &chains[0], &random);
    }
    for (uint32_t i = 0; i < n; i++) {
        rig_chain_release(&chains[i]);
    }
    return verdict;
}

/* How the weights of each product lie, in the order of the ops: a member of a line. */
static void print_orders(const struct card *card)
{
    static const char mark[] = "weights [";
    struct base_buf told;
    (void)printf(",\"weights\":\"");
    if (card->is_loaded) {
        base_buf_init(&told, TOLD_BYTES);
        card->backend->type_explain(card->device, card->type, &told);
        base_buf_add(&told, "", 1);
        for (const char *at = told.data; !told.failed && (at = strstr(at, mark)) != NULL; at++) {
            (void)printf("%.6s", at + sizeof(mark) - 2);
        }
        base_buf_release(&told);
    }
    (void)printf("\"");
}

static bool must_have_same_bits(const struct card *card)
{
    struct cell_device_caps caps;
    card->backend->caps(card->device, &caps);
    return caps.invariant_bits;
}

/* Another order of a sum is off by a share of it. */
static bool is_by_share(const struct card *card, const struct cell_kind *kind)
{
    return kind->is_unbounded &&
           (card->products != CELL_PRODUCTS_FP32 || !must_have_same_bits(card));
}

static bool check_shape(struct card *card, const struct cell_kind *kind, const uint32_t *shape)
{
    struct build build;
    bool is_right = true;
    kind->make(&build, shape[0], shape[1]);
    build.def.products = card->products;
    (void)card_open(card, &build.def, CHECK_ROWS);
    for (size_t i = 0; i < sizeof(row_counts) / sizeof(row_counts[0]); i++) {
        struct verdict verdict = {0, true};
        if (card->is_quick && row_counts[i] != QUICK_ROWS) {
            continue;
        }
        if (card->wrong == NULL) {
            verdict = check(card, row_counts[i], is_by_share(card, kind));
        }
        if (card->wrong == NULL && !(verdict.error <= errors_max[card->products])) {
            card->wrong = "the answers are wrong";
        } else if (card->wrong == NULL && !verdict.has_same_bits && must_have_same_bits(card)) {
            card->wrong = "other bits alone than in company";
        }
        (void)printf("{\"part\":\"check\",\"case\":\"%s\",\"device\":\"%s\",\"products\":\"%s\","
                     "\"inputs\":%u,\"hidden\":%u,\"rows\":%u,\"error\":%.3g,\"same_bits\":%s",
                     kind->name, card->backend->name, cell_products_name(card->products), shape[0],
                     shape[1], row_counts[i], isnan(verdict.error) ? -1.0 : verdict.error,
                     verdict.has_same_bits ? "true" : "false");
        print_orders(card);
        card_end_line(card->wrong);
        is_right &= card->wrong == NULL;
    }
    card_close(card);
    build_release(&build);
    return is_right;
}

static bool check_all(struct card *card)
{
    bool is_right = true;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
            const bool is_left_out = card->products != CELL_PRODUCTS_FP32 && k >= ROUNDED_KINDS &&
                                     s + 1 == sizeof(shapes) / sizeof(shapes[0]);
            if (!card->is_lost && (card->is_quick ? s == QUICK_SHAPE : !is_left_out)) {
                is_right &= check_shape(card, &kinds[k], shapes[s]);
            }
        }
    }
    return is_right;
}

/* ---- Bench ---- */

/* One row alone, since double precision takes longer for many than all that is timed. */
static void check_one_row(struct card *card, const struct cell_kind *kind)
{
    const struct verdict verdict = check(card, 1, is_by_share(card, kind));
    if (card->wrong == NULL && !(verdict.error <= errors_max[card->products])) {
        card->wrong = "the answers are wrong";
    }
}

/* Microseconds of a step, from submit until the counter moves; how many there are. The first runs
 * warm up, and are not timed. */
static uint32_t time_rows(struct card *card, uint32_t n, double us[BENCH_RUNS])
{
    static struct rig_chain chains[BENCH_ROWS];
    static struct cell_batch_row rows[BENCH_ROWS];
    struct base_random random;
    base_random_init(&random, n);
    for (uint32_t i = 0; i < n; i++) {
        // In mid-course: no initial state, and no final one that must come back.
        rig_chain_init(&chains[i], card->type, i, BENCH_STEPS + 2, &random);
        chains[i].wiring.n_emits = 0;
    }
    const uint64_t begin_ns = base_now_ns();
    uint32_t n_us = 0;
    for (uint32_t run_number = 0; run_number < BENCH_WARM + BENCH_RUNS; run_number++) {
        struct cell_batch batch = {.rows = rows, .n_rows = n, .steps = BENCH_STEPS};
        for (uint32_t i = 0; i < n; i++) {
            chains[i].done = 1;
            rows[i] = rig_chain_row(&chains[i], BENCH_STEPS);
        }
        const uint64_t start_ns = base_now_ns();
        run(card, &batch);
        const uint64_t end_ns = base_now_ns();
        if (card->wrong != NULL || (n_us > 0 && end_ns - begin_ns > BENCH_NS)) {
            break;
        }
        if (run_number >= BENCH_WARM) {
            us[n_us++] = (double)(end_ns - start_ns) * 1e-3 / (double)BENCH_STEPS;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        rig_chain_release(&chains[i]);
    }
    return n_us;
}

/* GRNN's shapes, and BatchMaker's figure 3. */
static bool bench_all(struct card *card)
{
    static const struct {
        uint32_t kind, hidden, rows;
    } cases[] = {
        {0, 64, 1},     {0, 64, 10},    {0, 64, 20},     {0, 256, 1},   {0, 256, 10},
        {0, 256, 20},   {0, 1024, 1},   {0, 1024, 10},   {0, 1024, 20}, {1, 64, 1},
        {1, 64, 10},    {1, 64, 20},    {1, 256, 1},     {1, 256, 10},  {1, 256, 20},
        {1, 1024, 1},   {1, 1024, 10},  {1, 1024, 20},   {0, 1024, 2},  {0, 1024, 4},
        {0, 1024, 8},   {0, 1024, 16},  {0, 1024, 32},   {0, 1024, 64}, {0, 1024, 128},
        {0, 1024, 256}, {0, 1024, 512}, {0, 1024, 1024},
    };
    bool is_right = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) && !card->is_lost; i++) {
        struct build build;
        double us[BENCH_RUNS] = {0};
        uint32_t n_us = 1; // a zero, where it has failed
        kinds[cases[i].kind].make(&build, cases[i].hidden, cases[i].hidden);
        build.def.products = card->products;
        if (card_open(card, &build.def, BENCH_ROWS)) {
            check_one_row(card, &kinds[cases[i].kind]);
            n_us = time_rows(card, cases[i].rows, us);
            n_us = n_us > 0 ? n_us : 1;
        }
        (void)printf("{\"part\":\"step\",\"case\":\"%s\",\"device\":\"%s\",\"products\":\"%s\","
                     "\"hidden\":%u,"
                     "\"rows\":%u,\"steps\":%u",
                     kinds[cases[i].kind].name, card->backend->name,
                     cell_products_name(card->products), cases[i].hidden, cases[i].rows,
                     BENCH_STEPS);
        card_quantiles("step_us", us, n_us);
        print_orders(card);
        card_end_line(card->wrong);
        is_right &= card->wrong == NULL;
        card_close(card);
        build_release(&build);
    }
    return is_right;
}

int main(int argc, char **argv)
{
    const bool has_all = argc == 3 || argc == 4;
    struct card card = {.backend = has_all ? card_backend(argv[2]) : NULL};
    const char *job = has_all ? argv[1] : "";
    const bool is_known =
        cell_products_find(argc == 4 ? argv[3] : "fp32", &card.products, NULL) == BASE_OK;
    const bool is_bench = strcmp(job, "bench") == 0;
    card.is_quick = strcmp(job, "quick") == 0;
    if (card.backend == NULL || !is_known ||
        (!is_bench && !card.is_quick && strcmp(job, "check") != 0)) {
        (void)fprintf(stderr, "usage: card quick|check|bench DEVICE [PRODUCTS]\n");
        return EXIT_USAGE;
    }
    struct build build;
    build_lstm_cell(&build, 1, 1, 1);
    const bool is_there = card_open(&card, &build.def, 1);
    card_close(&card);
    build_release(&build);
    if (!is_there) {
        (void)fprintf(stderr, "card: %s\n", card.error.message);
        return EXIT_NO_DEVICE;
    }
    const bool is_right = is_bench ? bench_all(&card) : check_all(&card);
    if (card.is_lost) {
        (void)printf("{\"part\":\"%s\",\"case\":\"the rest\",\"device\":\"%s\",\"products\":\"%s\"",
                     is_bench ? "step" : "check", card.backend->name,
                     cell_products_name(card.products));
        card_end_line("not run: the device was lost");
    }
    return is_right ? EXIT_SUCCESS : EXIT_FAILURE;
}
