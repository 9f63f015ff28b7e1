/* See same_bits.h. One thread. */
#include "tests/cells/same_bits.h"

#include "base/mem.h"
#include "cells/ref/math.h"
#include "tests/util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BLOCK 4096u

/* Rows of one kind: each its own memory. */
struct rows {
    float *row[SAME_BITS_ROWS];
    uint32_t width; /* compared */
};

static void rows_init(struct rows *rows, uint32_t width, uint32_t floats)
{
    rows->width = width;
    for (uint32_t r = 0; r < SAME_BITS_ROWS; r++) {
        // On a cache line where kernels ask for it, else exactly as long as it is.
        size_t bytes = floats * sizeof(float);
        rows->row[r] =
            floats == width ? base_alloc(bytes) : base_alloc_aligned(bytes, BASE_CACHE_LINE);
        ck_assert_ptr_nonnull(rows->row[r]);
    }
}

static void rows_release(struct rows *rows)
{
    for (uint32_t r = 0; r < SAME_BITS_ROWS; r++) {
        base_free(rows->row[r]);
    }
}

/* All of a row: what it is rounded by, its largest element, is then out of the ordinary. */
static void row_fill(struct rows *rows, uint32_t row, float value)
{
    for (uint32_t i = 0; i < rows->width; i++) {
        rows->row[row][i] = i % 3 == 0 ? value : value * 0.5f;
    }
}

/* Two rows in five hold something nasty here and there, one NaN is not the one that may leave; the
 * last are small or large throughout. */
static void rows_fill(struct rows *rows, struct base_random *random)
{
    static const float nasty[] = {
        NAN, __builtin_nanf("0x1234"), INFINITY, -INFINITY, 1e-40f, -1e-42f, 3e38f, -0.0f};
    for (uint32_t r = 0; r < SAME_BITS_ROWS; r++) {
        for (uint32_t i = 0; i < rows->width; i++) {
            bool is_nasty = r % 5 < 2 && base_random_below(random, 8) == 0;
            rows->row[r][i] =
                is_nasty ? nasty[base_random_below(random, sizeof(nasty) / sizeof(nasty[0]))]
                         : base_random_f32(random, -1.0f, 1.0f);
        }
    }
    static const float whole[] = {0.0f, -0.0f, 1e-45f, -3e-43f, 1e-38f, -3e38f};
    for (uint32_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        row_fill(rows, SAME_BITS_ROWS - 1 - i, whole[i]);
    }
}

/* rows->row from `first` on, around the end. */
static void turn(const struct rows *rows, uint32_t first, float *out[SAME_BITS_ROWS])
{
    for (uint32_t r = 0; r < SAME_BITS_ROWS; r++) {
        out[r] = rows->row[(first + r) % SAME_BITS_ROWS];
    }
}

/* Whether n rows from `first` on have the wanted bits. */
static bool are_same(const struct rows *got, const struct rows *want, uint32_t first, uint32_t n,
                     struct same_bits_difference *out)
{
    for (uint32_t r = 0; r < n; r++) {
        uint32_t at = (first + r) % SAME_BITS_ROWS;
        if (memcmp(got->row[at], want->row[at], want->width * sizeof(float)) != 0) {
            (void)snprintf(out->text, sizeof(out->text), "row %u of %u (number %u) differs", r, n,
                           at);
            return false;
        }
    }
    return true;
}

/* ---- Gated cells ---------------------------------------------------------------------------- */

#define KINDS_OF(precision)                                                                        \
    {CELL_GATED_LSTM, SAME_BITS_PLAIN, precision},                                                 \
        {CELL_GATED_LSTM, SAME_BITS_PEEPHOLES, precision},                                         \
        {CELL_GATED_GRU, SAME_BITS_PLAIN, precision},                                              \
        {CELL_GATED_GRU_RESET, SAME_BITS_PLAIN, precision},                                        \
        {CELL_GATED_GRU_NEW, SAME_BITS_PLAIN, precision},                                          \
        {CELL_GATED_TANH, SAME_BITS_PLAIN, precision},                                             \
        {CELL_GATED_RELU, SAME_BITS_PLAIN, precision},                                             \
        {CELL_GATED_TREE, SAME_BITS_PLAIN, precision},                                             \
        {CELL_GATED_TREE, SAME_BITS_NO_X, precision},                                              \
        {CELL_GATED_TREE, SAME_BITS_LEAF, precision},                                              \
        {CELL_GATED_TREE_BINARY, SAME_BITS_PLAIN, precision},                                      \
        {CELL_GATED_TREE_BINARY, SAME_BITS_NO_X, precision},                                       \
        {CELL_GATED_FORGET, SAME_BITS_PLAIN, precision},                                           \
        {CELL_GATED_FORGET, SAME_BITS_NO_X, precision},                                            \
    {                                                                                              \
        CELL_GATED_SUM, SAME_BITS_LEAF, precision                                                  \
    }

const struct same_bits_kind same_bits_kinds[SAME_BITS_ALL_KINDS] = {
    KINDS_OF(CELL_FP32), KINDS_OF(CELL_BF16), KINDS_OF(CELL_INT8)};

/* Of a TREE that is no leaf, and of a TREE_BINARY the first two. */
#define CHILDREN 3u

struct gated_case {
    struct build build; /* of its weights */
    struct cell_gated gated;
    struct rows x, h, right, old, z, forget, out, second, ahead;
    struct rows children[CHILDREN];
    float *scratch;
    bool backwards;
};

struct cell_gated same_bits_gated_cell(struct build *build, const struct same_bits_gated *options)
{
    const struct same_bits_kind kind = options->kind;
    const uint32_t hidden = options->hidden;
    uint32_t gates = cell_gated_gates(kind.kind) * hidden;
    const bool is_binary = kind.kind == CELL_GATED_TREE_BINARY;
    const bool has_one_bias = kind.kind == CELL_GATED_TREE || kind.kind == CELL_GATED_FORGET ||
                              kind.kind == CELL_GATED_SUM || is_binary;
    // As wide as the state, but for an LSTM whose state is projected.
    uint32_t feedback = kind.form == SAME_BITS_PEEPHOLES ? hidden / 2 + 1
                        : kind.form == SAME_BITS_LEAF    ? 0
                                                         : hidden;
    float scale = 2.0f / sqrtf((float)(options->inputs + hidden));
    struct cell_gated gated = {
        .kind = kind.kind,
        .precision = kind.precision,
        .inputs = kind.form == SAME_BITS_NO_X ? 0 : options->inputs,
        .feedback = feedback,
        .hidden = hidden,
        .right = is_binary ? hidden : 0,
        .w = build_floats(build, gates, options->inputs, scale),
        .r = build_floats(build, gates, feedback, scale),
        .b_w = build_floats(build, 1, gates, 1.0f),
        .b_r = has_one_bias ? NULL : build_floats(build, 1, gates, 1.0f),
        .p = kind.form == SAME_BITS_PEEPHOLES ? build_floats(build, 3, hidden, 1.0f) : NULL,
        .r_right = is_binary ? build_floats(build, gates, hidden, scale) : NULL,
    };
    if (options->no_biases) {
        gated.b_w = gated.b_r = NULL;
    }
    return gated;
}

static void gated_case_init(struct gated_case *test, const struct same_bits_gated *options)
{
    uint32_t hidden = options->hidden;
    uint32_t room = CELL_ROW_FLOATS(hidden) + CELL_ROW_LINE;
    struct build *build = &test->build;
    build_init(build, options->inputs * 1000 + hidden);
    test->gated = same_bits_gated_cell(build, options);
    test->backwards = false;
    rows_init(&test->x, options->inputs, options->inputs);
    uint32_t feedback = test->gated.feedback > 0 ? test->gated.feedback : 1;
    rows_init(&test->h, feedback, feedback);
    rows_init(&test->right, hidden, hidden);
    rows_init(&test->old, hidden, room);
    rows_init(&test->z, hidden, room);
    rows_init(&test->forget, CHILDREN * CELL_ROW_FLOATS(hidden), CHILDREN * room);
    rows_init(&test->out, hidden, room);
    rows_init(&test->second, hidden, room);
    rows_fill(&test->x, &build->random);
    rows_fill(&test->h, &build->random);
    rows_fill(&test->old, &build->random);
    rows_fill(&test->z, &build->random);
    rows_fill(&test->right, &build->random);
    rows_fill(&test->forget, &build->random);
    for (uint32_t c = 0; c < CHILDREN; c++) {
        rows_init(&test->children[c], hidden, hidden);
        rows_fill(&test->children[c], &build->random);
    }
}

static void gated_case_release(struct gated_case *test)
{
    rows_release(&test->x);
    rows_release(&test->h);
    rows_release(&test->old);
    rows_release(&test->right);
    rows_release(&test->z);
    rows_release(&test->forget);
    rows_release(&test->out);
    rows_release(&test->second);
    for (uint32_t c = 0; c < CHILDREN; c++) {
        rows_release(&test->children[c]);
    }
    build_release(&test->build);
}

static void gated_case_load(struct gated_case *test, const struct cell_kernels *kernels)
{
    const struct cell_gated *gated = &test->gated;
    ck_assert_int_eq(kernels->gated_load(&test->gated), BASE_OK);
    uint32_t floats = gated->panels * gated->columns;
    rows_init(&test->ahead, floats, CELL_ROW_FLOATS(floats) + CELL_ROW_LINE);
    size_t scratch = kernels->gated_scratch(gated, SAME_BITS_ROWS);
    test->scratch = base_alloc_aligned((scratch + 1) * sizeof(float), BASE_CACHE_LINE);
    ck_assert_ptr_nonnull(test->scratch);
}

static void gated_case_unload(struct gated_case *test)
{
    rows_release(&test->ahead);
    base_free(test->scratch);
    cell_gated_release(&test->gated);
}

static void clear(float *rows[SAME_BITS_ROWS], uint32_t n, uint32_t width)
{
    for (uint32_t r = 0; r < n; r++) {
        memset(rows[r], 0xA5, width * sizeof(float));
    }
}

static uint32_t children_of(const struct cell_gated *gated)
{
    return gated->kind == CELL_GATED_TREE_BINARY                   ? 2
           : gated->kind == CELL_GATED_TREE && gated->feedback > 0 ? CHILDREN
                                                                   : 0;
}

/* n rows from `first` on, panels 0..split-1 and then the rest; the sums over x computed ahead, of
 * `apart` rows and then of the others, or not (UINT32_MAX). */
static void gated_run(struct gated_case *test, const struct cell_kernels *kernels, uint32_t first,
                      uint32_t n, uint32_t split, uint32_t apart)
{
    float *x[SAME_BITS_ROWS];
    float *h[SAME_BITS_ROWS];
    float *right[SAME_BITS_ROWS];
    float *forget[SAME_BITS_ROWS];
    float *c[CHILDREN][SAME_BITS_ROWS];
    const float *const *children[CHILDREN];
    float *old[SAME_BITS_ROWS];
    float *z[SAME_BITS_ROWS];
    float *out[SAME_BITS_ROWS];
    float *second[SAME_BITS_ROWS];
    float *ahead[SAME_BITS_ROWS];
    turn(&test->x, first, x);
    turn(&test->h, first, h);
    turn(&test->right, first, right);
    turn(&test->forget, first, forget);
    for (uint32_t k = 0; k < CHILDREN; k++) {
        turn(&test->children[k], first, c[k]);
        children[k] = (const float *const *)c[k];
    }
    turn(&test->old, first, old);
    turn(&test->z, first, z);
    turn(&test->out, first, out);
    turn(&test->second, first, second);
    turn(&test->ahead, first, ahead);
    clear(out, n, test->out.width);
    clear(second, n, test->second.width);
    clear(ahead, n, test->ahead.width);
    struct cell_gated_step step = {.gated = &test->gated,
                                   .n_rows = n,
                                   .panel_end = split,
                                   .x = (const float *const *)x,
                                   .h = (const float *const *)h,
                                   .h_right = (const float *const *)right,
                                   .n_children = children_of(&test->gated),
                                   .children = children,
                                   .forget = (const float *const *)forget,
                                   .old = (const float *const *)old,
                                   .z = (const float *const *)z,
                                   .out = out,
                                   .second = second,
                                   .scratch = test->scratch,
                                   .backwards = test->backwards};
    if (apart != UINT32_MAX) {
        apart = apart < n ? apart : n;
        struct cell_gated_ahead part = {.gated = &test->gated,
                                        .n_rows = apart,
                                        .panel_end = test->gated.panels,
                                        .x = (const float *const *)x,
                                        .out = ahead,
                                        .scratch = test->scratch};
        kernels->gated_ahead(&part);
        part.n_rows = n - apart;
        part.x += apart;
        part.out += apart;
        part.panel_end = split;
        kernels->gated_ahead(&part);
        part.panel_first = split;
        part.panel_end = test->gated.panels;
        kernels->gated_ahead(&part);
        step.x = NULL;
        step.ahead = (const float *const *)ahead;
    }
    kernels->gated_step(&step);
    step.panel_first = split;
    step.panel_end = test->gated.panels;
    kernels->gated_step(&step);
}

/* The row counts by turns, each with the sums over x ahead and without, one row in both directions;
 * to the first difference. */
static bool compare_gated(const struct cell_kernels *kernels, struct gated_case *got,
                          const struct gated_case *want, const struct same_bits_gated *options,
                          struct same_bits_difference *out)
{
    const struct cell_gated *gated = &got->gated;
    bool has_second = gated->kind == CELL_GATED_LSTM || gated->kind == CELL_GATED_GRU_RESET ||
                      gated->kind == CELL_GATED_TREE || gated->kind == CELL_GATED_TREE_BINARY;
    bool has_ahead = gated->inputs > 0 && gated->feedback > 0;
    for (uint32_t n = 1; n <= options->rows_max; n += options->rows_stride) {
        uint32_t first = options->rows_max == SAME_BITS_ROWS ? n * 7 % SAME_BITS_ROWS : 0;
        for (uint32_t i = 0; i < (n == 1 ? 4 : 2); i++) {
            uint32_t split = (n * 3 + i / 2) % (got->gated.panels + 1);
            bool is_ahead = has_ahead && i % 2 == 1;
            got->backwards = (n + i / 2) % 2 != 0;
            gated_run(got, kernels, first, n, split, is_ahead ? n * 5 % 9 : UINT32_MAX);
            if (!are_same(&got->out, &want->out, first, n, out) ||
                (has_second && !are_same(&got->second, &want->second, first, n, out))) {
                return false;
            }
        }
    }
    return true;
}

bool same_bits_gated(const struct cell_kernels *kernels, const struct same_bits_gated *options,
                     struct same_bits_difference *out)
{
    struct gated_case got;
    struct gated_case want;
    gated_case_init(&got, options);
    gated_case_init(&want, options);
    if (options->change != NULL) {
        const struct same_bits_factors of_got = {{got.x.row, got.h.row, got.right.row}};
        const struct same_bits_factors of_want = {{want.x.row, want.h.row, want.right.row}};
        options->change(&got.build, &got.gated, &of_got, false);
        options->change(&want.build, &want.gated, &of_want, true);
    }
    gated_case_load(&want, &cell_kernels__scalar);
    gated_case_load(&got, kernels);
    gated_run(&want, &cell_kernels__scalar, 0, options->rows_max, want.gated.panels, UINT32_MAX);
    bool is_same = compare_gated(kernels, &got, &want, options, out);
    gated_case_unload(&want);
    gated_case_unload(&got);
    gated_case_release(&got);
    gated_case_release(&want);
    return is_same;
}

/* ---- LINEAR --------------------------------------------------------------------------------- */

struct linear_case {
    struct build build;
    struct cell_linear linear;
    struct rows x, out;
    float *scratch;
};

static void linear_case_init(struct linear_case *test, uint32_t inputs, uint32_t outputs)
{
    build_init(&test->build, inputs * 1000 + outputs);
    (void)build_input(&test->build, CELL_F32, inputs);
    (void)build_linear(&test->build, 0, outputs, true);
    const struct cell_weight *weights = test->build.def.ops[0].weights;
    test->linear = (struct cell_linear){
        .inputs = inputs, .outputs = outputs, .w = weights[0].data, .b = weights[1].data};
    rows_init(&test->x, inputs, inputs);
    rows_init(&test->out, outputs, CELL_ROW_FLOATS(outputs) + CELL_ROW_LINE);
    rows_fill(&test->x, &test->build.random);
}

static void linear_run(struct linear_case *test, const struct cell_kernels *kernels, uint32_t first,
                       uint32_t n, uint32_t split)
{
    float *x[SAME_BITS_ROWS];
    float *out[SAME_BITS_ROWS];
    turn(&test->x, first, x);
    turn(&test->out, first, out);
    for (uint32_t r = 0; r < n; r++) {
        memset(out[r], 0xA5, test->out.width * sizeof(float));
    }
    struct cell_linear_rows rows = {.linear = &test->linear,
                                    .n_rows = n,
                                    .panel_end = split,
                                    .x = (const float *const *)x,
                                    .out = out,
                                    .scratch = test->scratch};
    kernels->linear_rows(&rows);
    rows.panel_first = split;
    rows.panel_end = test->linear.panels;
    kernels->linear_rows(&rows);
}

static void linear_case_release(struct linear_case *test)
{
    base_free(test->scratch);
    cell_linear_release(&test->linear);
    rows_release(&test->x);
    rows_release(&test->out);
    build_release(&test->build);
}

static void linear_case_load(struct linear_case *test, const struct cell_kernels *kernels,
                             enum cell_precision precision)
{
    test->linear.precision = precision;
    ck_assert_int_eq(kernels->linear_load(&test->linear), BASE_OK);
    size_t floats = kernels->linear_scratch(&test->linear, SAME_BITS_ROWS);
    test->scratch = base_alloc_aligned((floats + 1) * sizeof(float), BASE_CACHE_LINE);
    ck_assert_ptr_nonnull(test->scratch);
}

bool same_bits_linear(const struct cell_kernels *kernels, enum cell_precision precision,
                      uint32_t inputs, uint32_t outputs, struct same_bits_difference *out)
{
    struct linear_case want;
    struct linear_case got;
    linear_case_init(&want, inputs, outputs);
    linear_case_init(&got, inputs, outputs);
    linear_case_load(&want, &cell_kernels__scalar, precision);
    linear_case_load(&got, kernels, precision);
    linear_run(&want, &cell_kernels__scalar, 0, SAME_BITS_ROWS, want.linear.panels);
    // The scalar table is what it is compared with: a few row counts will do.
    uint32_t stride = kernels == &cell_kernels__scalar || util_is_quick() ? 13
                      : precision == CELL_FP32                            ? 1
                                                                          : 3;
    bool is_same = true;
    for (uint32_t n = 1; n <= SAME_BITS_ROWS && is_same; n += stride) {
        uint32_t first = n * 7 % SAME_BITS_ROWS;
        linear_run(&got, kernels, first, n, n * 3 % (got.linear.panels + 1));
        is_same = are_same(&got.out, &want.out, first, n, out);
    }
    linear_case_release(&want);
    linear_case_release(&got);
    return is_same;
}

/* ---- Activations ---------------------------------------------------------------------------- */

static bool is_same_block(const float *got, const float *want, uint32_t n, const char *what,
                          struct same_bits_difference *out)
{
    bool is_same = memcmp(got, want, n * sizeof(float)) == 0;
    if (!is_same) {
        (void)snprintf(out->text, sizeof(out->text), "%s differs among %u floats", what, n);
    }
    return is_same;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Blocks of odd length, so that the vector kernels' tails are met too. */
bool same_bits_activations(const struct cell_kernels *kernels, uint32_t stride,
                           struct same_bits_difference *out)
{
    static float in[BLOCK];
    static float got[BLOCK];
    static float want[BLOCK];
    uint64_t bits = 0;
    bool is_same = true;
    for (uint32_t round = 0; bits <= UINT32_MAX && is_same; round++) {
        uint32_t n = BLOCK - round % 37;
        for (uint32_t i = 0; i < n; i++, bits += stride) {
            in[i] = float_of((uint32_t)bits);
        }
        for (uint32_t i = 0; i < n; i++) {
            want[i] = cell_sigmoid_f32__scalar(in[i]);
        }
        kernels->sigmoid(n, in, got);
        is_same = is_same_block(got, want, n, "sigmoid", out);
        for (uint32_t i = 0; i < n; i++) {
            want[i] = cell_tanh_f32__scalar(in[i]);
        }
        kernels->tanh(n, in, got);
        is_same = is_same && is_same_block(got, want, n, "tanh", out);
    }
    return is_same;
}
