/* Every kernel table against the scalar reference, bit by bit: each row count 1..40, rows at
 * changing places among neighbours that hold NaN, infinities, denormals and huge numbers, panels
 * shared out in two parts as two threads do. Rows of x stand in memory of exactly their width, so
 * that the address sanitizer sees a read past them. */
#include "cells/kernels.h"

#include "base/mem.h"
#include "cells/cpu/reduced.h"
#include "tests/cells/build.h"
#include "tests/cells/isa.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { ROWS = 40 };

/* Every so many row counts: all of them, but where races are looked for, of which one thread has
 * none. */
#ifdef __SANITIZE_THREAD__
enum { STRIDE = 9 };
#else
enum { STRIDE = 1 };
#endif

static const uint32_t sizes[] = {1, 15, 16, 17, 64, 130, 256};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* Rows of one kind: each its own memory. */
struct rows {
    float *row[ROWS];
    uint32_t width; /* compared */
};

static void rows_init(struct rows *rows, uint32_t width, uint32_t floats)
{
    rows->width = width;
    for (uint32_t r = 0; r < ROWS; r++) {
        // On a cache line where kernels ask for it, else exactly as long as it is.
        size_t bytes = floats * sizeof(float);
        rows->row[r] =
            floats == width ? base_alloc(bytes) : base_alloc_aligned(bytes, BASE_CACHE_LINE);
        ck_assert_ptr_nonnull(rows->row[r]);
    }
}

static void rows_release(struct rows *rows)
{
    for (uint32_t r = 0; r < ROWS; r++) {
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

/* Two rows in five hold something nasty here and there; the last are small or large throughout. */
static void rows_fill(struct rows *rows, struct base_random *random)
{
    static const float nasty[] = {NAN, INFINITY, -INFINITY, 1e-40f, -1e-42f, 3e38f, -0.0f};
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t i = 0; i < rows->width; i++) {
            bool is_nasty = r % 5 < 2 && base_random_below(random, 8) == 0;
            rows->row[r][i] =
                is_nasty ? nasty[base_random_below(random, sizeof(nasty) / sizeof(nasty[0]))]
                         : base_random_f32(random, -1.0f, 1.0f);
        }
    }
    static const float whole[] = {0.0f, -0.0f, 1e-45f, -3e-43f, 1e-38f, -3e38f};
    for (uint32_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        row_fill(rows, ROWS - 1 - i, whole[i]);
    }
}

/* rows->row from `first` on, around the end. */
static void turn(const struct rows *rows, uint32_t first, float *out[ROWS])
{
    for (uint32_t r = 0; r < ROWS; r++) {
        out[r] = rows->row[(first + r) % ROWS];
    }
}

static void assert_rows(const struct rows *got, const struct rows *want, uint32_t first, uint32_t n,
                        const char *what)
{
    for (uint32_t r = 0; r < n; r++) {
        uint32_t at = (first + r) % ROWS;
        if (memcmp(got->row[at], want->row[at], want->width * sizeof(float)) != 0) {
            ck_abort_msg("%s: row %u of %u (number %u) differs", what, r, n, at);
        }
    }
}

/* ---- Gated cells ---------------------------------------------------------------------------- */

struct kind {
    enum cell_gated_kind kind;
    bool has_peepholes;
    enum cell_precision precision;
};

static const struct kind kinds[] = {
    {CELL_GATED_LSTM, false, CELL_FP32},      {CELL_GATED_LSTM, true, CELL_FP32},
    {CELL_GATED_GRU, false, CELL_FP32},       {CELL_GATED_GRU_RESET, false, CELL_FP32},
    {CELL_GATED_GRU_NEW, false, CELL_FP32},   {CELL_GATED_TANH, false, CELL_FP32},
    {CELL_GATED_RELU, false, CELL_FP32},      {CELL_GATED_LSTM, false, CELL_BF16},
    {CELL_GATED_LSTM, true, CELL_BF16},       {CELL_GATED_GRU, false, CELL_BF16},
    {CELL_GATED_GRU_RESET, false, CELL_BF16}, {CELL_GATED_GRU_NEW, false, CELL_BF16},
    {CELL_GATED_TANH, false, CELL_BF16},      {CELL_GATED_RELU, false, CELL_BF16},
    {CELL_GATED_LSTM, false, CELL_INT8},      {CELL_GATED_LSTM, true, CELL_INT8},
    {CELL_GATED_GRU, false, CELL_INT8},       {CELL_GATED_GRU_RESET, false, CELL_INT8},
    {CELL_GATED_GRU_NEW, false, CELL_INT8},   {CELL_GATED_TANH, false, CELL_INT8},
    {CELL_GATED_RELU, false, CELL_INT8},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* The instruction sets, and AVX-512 as on a processor without VNNI. */
enum { TABLES = ISA_COUNT + 1 };

#ifdef __x86_64__
static enum base_status load_without_vnni(struct cell_gated *gated)
{
    if (gated->precision != CELL_INT8) {
        return cell_kernels__avx512.gated_load(gated);
    }
    gated->reduced = &cell_int8__avx512;
    return gated->reduced->load(gated);
}
#endif

static const struct cell_kernels *table_at(int index)
{
    const struct cell_kernels *kernels = isa_at(index < ISA_COUNT ? index : ISA_COUNT - 1);
#ifdef __x86_64__
    static struct cell_kernels without_vnni;
    if (index == ISA_COUNT && kernels != NULL) {
        without_vnni = *kernels;
        without_vnni.gated_load = load_without_vnni;
        return &without_vnni;
    }
#endif
    return kernels;
}

/* Without VNNI only int8 is another. */
static bool is_other(int table, struct kind kind)
{
    return table < ISA_COUNT || kind.precision == CELL_INT8;
}

struct gated_case {
    struct build build; /* of its weights */
    struct cell_gated gated;
    struct rows x, h, old, z, out, second, ahead;
    float *scratch;
};

static void gated_case_init(struct gated_case *test, struct kind kind, uint32_t inputs,
                            uint32_t hidden)
{
    uint32_t gates = cell_gated_gates(kind.kind) * hidden;
    uint32_t room = CELL_ROW_FLOATS(hidden) + CELL_ROW_LINE;
    struct build *build = &test->build;
    build_init(build, inputs * 1000 + hidden);
    // As wide as the state, but for an LSTM whose state is projected.
    uint32_t feedback = kind.has_peepholes ? hidden / 2 + 1 : hidden;
    float scale = 2.0f / sqrtf((float)(inputs + hidden));
    test->gated = (struct cell_gated){
        .kind = kind.kind,
        .precision = kind.precision,
        .inputs = inputs,
        .feedback = feedback,
        .hidden = hidden,
        .w = build_floats(build, gates, inputs, scale),
        .r = build_floats(build, gates, feedback, scale),
        .b_w = build_floats(build, 1, gates, 1.0f),
        .b_r = build_floats(build, 1, gates, 1.0f),
        .p = kind.has_peepholes ? build_floats(build, 3, hidden, 1.0f) : NULL,
    };
    rows_init(&test->x, inputs, inputs);
    rows_init(&test->h, feedback, feedback);
    rows_init(&test->old, hidden, room);
    rows_init(&test->z, hidden, room);
    rows_init(&test->out, hidden, room);
    rows_init(&test->second, hidden, room);
    rows_fill(&test->x, &build->random);
    rows_fill(&test->h, &build->random);
    rows_fill(&test->old, &build->random);
    rows_fill(&test->z, &build->random);
}

static void gated_case_release(struct gated_case *test)
{
    rows_release(&test->x);
    rows_release(&test->h);
    rows_release(&test->old);
    rows_release(&test->z);
    rows_release(&test->out);
    rows_release(&test->second);
    build_release(&test->build);
}

static void gated_case_load(struct gated_case *test, const struct cell_kernels *kernels)
{
    const struct cell_gated *gated = &test->gated;
    ck_assert_int_eq(kernels->gated_load(&test->gated), BASE_OK);
    uint32_t floats = gated->panels * gated->columns;
    rows_init(&test->ahead, floats, CELL_ROW_FLOATS(floats) + CELL_ROW_LINE);
    size_t scratch = kernels->gated_scratch(gated, ROWS);
    test->scratch = base_alloc_aligned((scratch + 1) * sizeof(float), BASE_CACHE_LINE);
    ck_assert_ptr_nonnull(test->scratch);
}

static void gated_case_unload(struct gated_case *test)
{
    rows_release(&test->ahead);
    base_free(test->scratch);
    cell_gated_release(&test->gated);
}

static void clear(float *rows[ROWS], uint32_t n, uint32_t width)
{
    for (uint32_t r = 0; r < n; r++) {
        memset(rows[r], 0xA5, width * sizeof(float));
    }
}

/* n rows from `first` on, panels 0..split-1 and then the rest; the sums over x computed ahead, of
 * `apart` rows and then of the others, or not (UINT32_MAX). */
static void gated_run(struct gated_case *test, const struct cell_kernels *kernels, uint32_t first,
                      uint32_t n, uint32_t split, uint32_t apart)
{
    float *x[ROWS];
    float *h[ROWS];
    float *old[ROWS];
    float *z[ROWS];
    float *out[ROWS];
    float *second[ROWS];
    float *ahead[ROWS];
    turn(&test->x, first, x);
    turn(&test->h, first, h);
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
                                   .old = (const float *const *)old,
                                   .z = (const float *const *)z,
                                   .out = out,
                                   .second = second,
                                   .scratch = test->scratch,
                                   .backwards = n % 2 != 0};
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

/* Up to `most` rows; every `stride`th row count; with the sums over x ahead and without. */
static void assert_gated(const struct cell_kernels *kernels, struct gated_case *got,
                         struct gated_case *want, uint32_t most, uint32_t stride)
{
    bool has_second = got->gated.kind == CELL_GATED_LSTM || got->gated.kind == CELL_GATED_GRU_RESET;
    gated_case_load(want, &cell_kernels__scalar);
    gated_case_load(got, kernels);
    gated_run(want, &cell_kernels__scalar, 0, most, want->gated.panels, UINT32_MAX);
    for (uint32_t n = 1; n <= most; n += stride) {
        uint32_t first = most == ROWS ? n * 7 % ROWS : 0;
        uint32_t split = n * 3 % (got->gated.panels + 1);
        for (uint32_t is_ahead = 0; is_ahead < 2; is_ahead++) {
            gated_run(got, kernels, first, n, split, is_ahead == 1 ? n * 5 % 9 : UINT32_MAX);
            assert_rows(&got->out, &want->out, first, n, is_ahead ? "out, ahead" : "out");
            if (has_second) {
                assert_rows(&got->second, &want->second, first, n, "second");
            }
        }
    }
    gated_case_unload(want);
    gated_case_unload(got);
}

static void check_gated(const struct cell_kernels *kernels, struct kind kind, uint32_t inputs,
                        uint32_t hidden, uint32_t most, uint32_t stride)
{
    struct gated_case got;
    struct gated_case want;
    gated_case_init(&got, kind, inputs, hidden);
    gated_case_init(&want, kind, inputs, hidden);
    assert_gated(kernels, &got, &want, most, stride);
    gated_case_release(&got);
    gated_case_release(&want);
}

/* One kind of 4 vectors and one of 3: the others share their products. */
static bool is_full(struct kind kind)
{
    return kind.kind == CELL_GATED_GRU || (kind.kind == CELL_GATED_LSTM && !kind.has_peepholes);
}

START_TEST(test_kernels_gated_cells_have_the_scalar_bits)
{
    const struct cell_kernels *kernels = table_at(_i / KINDS);
    // The scalar table is what it is compared with: a few row counts will do.
    uint32_t stride = kernels == &cell_kernels__scalar ? 13 : STRIDE;
    struct kind kind = kinds[_i % KINDS];
    bool has_all_sizes = is_full(kind) && kind.precision == CELL_FP32;
    for (uint32_t i = 0; i < SIZES * SIZES && kernels != NULL; i++) {
        if (is_other(_i / KINDS, kind) && (has_all_sizes || i / SIZES == (3 * i + 1) % SIZES)) {
            check_gated(kernels, kind, sizes[i / SIZES], sizes[i % SIZES], ROWS, stride);
        }
    }
}
END_TEST

/* More weights than memory or L3 give in time are asked for ahead, in blocks and a panel ahead. */
START_TEST(test_kernels_large_cells_have_the_scalar_bits)
{
    const struct cell_kernels *kernels = table_at(_i / KINDS);
    struct kind kind = kinds[_i % KINDS];
    uint32_t width = kind.precision == CELL_FP32 ? 900 : 1400; // more than PANEL_TERMS_MAX
    if (kernels != NULL && kernels != &cell_kernels__scalar && is_full(kind) &&
        is_other(_i / KINDS, kind)) {
        check_gated(kernels, kind, width, 930, 14, STRIDE);
        check_gated(kernels, kind, 300, 310, ROWS, STRIDE);
    }
}
END_TEST

START_TEST(test_kernels_gated_cell_without_biases)
{
    const struct cell_kernels *kernels = table_at(_i / KINDS);
    struct gated_case got;
    struct gated_case want;
    if (kernels == NULL) {
        return;
    }
    gated_case_init(&got, kinds[_i % KINDS], 17, 33);
    gated_case_init(&want, kinds[_i % KINDS], 17, 33);
    got.gated.b_w = got.gated.b_r = want.gated.b_w = want.gated.b_r = NULL;
    assert_gated(kernels, &got, &want, ROWS, 11);
    gated_case_release(&got);
    gated_case_release(&want);
}
END_TEST

/* To 8 bits, ties to even, by other means than the kernels'. */
static const float *rounded(struct build *build, const float *weights, size_t n)
{
    float *out = base_arena_array(&build->arena, n, sizeof(float));
    ck_assert_ptr_nonnull(out);
    for (size_t i = 0; i < n; i++) {
        int exponent = 0;
        double part = frexp((double)weights[i], &exponent);
        out[i] = (float)ldexp(rint(ldexp(part, 8)), exponent - 8);
    }
    return out;
}

/* bf16 is nothing but fp32 with other weights. */
START_TEST(test_kernels_bf16_has_the_bits_of_rounded_weights)
{
    const struct cell_kernels *kernels = isa_at(_i / KINDS);
    struct kind kind = kinds[_i % KINDS];
    if (kernels == NULL || kind.precision != CELL_BF16) {
        return;
    }
    struct gated_case got;
    struct gated_case want;
    gated_case_init(&got, kind, 70, 130);
    gated_case_init(&want, kind, 70, 130);
    struct cell_gated *gated = &want.gated;
    size_t gates = (size_t)cell_gated_gates(gated->kind) * gated->hidden;
    gated->precision = CELL_FP32;
    gated->w = rounded(&want.build, gated->w, gates * gated->inputs);
    gated->r = rounded(&want.build, gated->r, gates * gated->feedback);
    assert_gated(kernels, &got, &want, ROWS, 7);
    gated_case_release(&got);
    gated_case_release(&want);
}
END_TEST

/* The longest sums that cannot leave int32, of the largest terms. */
START_TEST(test_kernels_int8_sums_reach_the_ends_of_int32)
{
    const struct cell_kernels *kernels = table_at(_i / 2);
    const struct kind kind = {_i % 2 == 0 ? CELL_GATED_LSTM : CELL_GATED_GRU, false, CELL_INT8};
    if (kernels == NULL) {
        return;
    }
    struct gated_case got;
    struct gated_case want;
    gated_case_init(&got, kind, CELL_INT8_TERMS_MAX, 3);
    gated_case_init(&want, kind, CELL_INT8_TERMS_MAX, 3);
    size_t weights = (size_t)cell_gated_gates(kind.kind) * 3 * CELL_INT8_TERMS_MAX;
    float *w = build_floats(&got.build, (uint32_t)(weights / CELL_INT8_TERMS_MAX),
                            CELL_INT8_TERMS_MAX, 1.0f);
    for (size_t i = 0; i < weights; i++) {
        w[i] = i / CELL_INT8_TERMS_MAX % 2 == 0 ? 1e-6f : -1e-6f;
    }
    for (uint32_t i = 0; i < CELL_INT8_TERMS_MAX; i++) {
        for (uint32_t r = 0; r < 4; r++) {
            got.x.row[r][i] = want.x.row[r][i] = r % 2 == 0 ? 1.0f : -1.0f;
        }
    }
    got.gated.w = want.gated.w = w;
    assert_gated(kernels, &got, &want, 4, 1);
    gated_case_release(&got);
    gated_case_release(&want);
}
END_TEST

START_TEST(test_kernels_every_failed_allocation_of_a_load)
{
    const struct cell_kernels *kernels = table_at(_i / KINDS);
    struct gated_case test;
    if (kernels == NULL) {
        return;
    }
    gated_case_init(&test, kinds[_i % KINDS], 17, 33);
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    uint64_t n = 0;
    while (status == BASE_RESOURCE_EXHAUSTED) {
        n++;
        base_alloc_fail_at(n);
        status = kernels->gated_load(&test.gated);
        base_alloc_fail_at(0);
        ck_assert(status == BASE_OK || test.gated.packed[0] == NULL);
        ck_assert(status == BASE_OK || test.gated.scales[1] == NULL);
    }
    ck_assert_int_eq(status, BASE_OK);
    ck_assert_uint_gt(n, kernels == &cell_kernels__scalar ? 1 : 3);
    cell_gated_release(&test.gated);
    gated_case_release(&test);
}
END_TEST

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
    float *x[ROWS];
    float *out[ROWS];
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
    cell_linear_release(&test->linear);
    rows_release(&test->x);
    rows_release(&test->out);
    build_release(&test->build);
}

static void assert_linear(const struct cell_kernels *kernels, uint32_t inputs, uint32_t outputs)
{
    struct linear_case want;
    struct linear_case got;
    linear_case_init(&want, inputs, outputs);
    linear_case_init(&got, inputs, outputs);
    ck_assert_int_eq(cell_kernels__scalar.linear_load(&want.linear), BASE_OK);
    ck_assert_int_eq(kernels->linear_load(&got.linear), BASE_OK);
    linear_run(&want, &cell_kernels__scalar, 0, ROWS, want.linear.panels);
    size_t floats = kernels->linear_scratch(&got.linear, ROWS);
    got.scratch = base_alloc_aligned((floats + 1) * sizeof(float), BASE_CACHE_LINE);
    ck_assert_ptr_nonnull(got.scratch);
    // The scalar table is what it is compared with: a few row counts will do.
    uint32_t stride = kernels == &cell_kernels__scalar ? 13 : 1;
    for (uint32_t n = 1; n <= ROWS; n += stride) {
        uint32_t first = n * 7 % ROWS;
        linear_run(&got, kernels, first, n, n * 3 % (got.linear.panels + 1));
        assert_rows(&got.out, &want.out, first, n, "out");
    }
    base_free(got.scratch);
    linear_case_release(&want);
    linear_case_release(&got);
}

START_TEST(test_kernels_linear_has_the_scalar_bits)
{
    const struct cell_kernels *kernels = isa_at(_i / SIZES);
    for (uint32_t o = 0; o < SIZES && kernels != NULL; o++) {
        assert_linear(kernels, sizes[_i % SIZES], sizes[o]);
    }
}
END_TEST

/* ---- Choice --------------------------------------------------------------------------------- */

START_TEST(test_kernels_choice)
{
    const struct cell_kernels *kernels = NULL;
    struct base_error error = {BASE_OK, ""};
    ck_assert_int_eq(cell_kernels_choose("scalar", &kernels, &error), BASE_OK);
    ck_assert_ptr_eq(kernels, &cell_kernels__scalar);
    ck_assert_int_eq(cell_kernels_choose("auto", &kernels, &error), BASE_OK);
    const struct cell_kernels *same = NULL;
    ck_assert_int_eq(cell_kernels_choose(NULL, &same, &error), BASE_OK);
    ck_assert_ptr_eq(kernels, same);
    ck_assert_int_eq(cell_kernels_choose("neon", &kernels, &error), BASE_INVALID_ARGUMENT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernels");
    TCase *tcase = tcase_create("bits");
    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, test_kernels_gated_cells_have_the_scalar_bits, 0, TABLES * KINDS);
    tcase_add_loop_test(tcase, test_kernels_large_cells_have_the_scalar_bits, 0, TABLES * KINDS);
    tcase_add_loop_test(tcase, test_kernels_gated_cell_without_biases, 0, TABLES * KINDS);
    tcase_add_loop_test(tcase, test_kernels_bf16_has_the_bits_of_rounded_weights, 0,
                        ISA_COUNT * KINDS);
    tcase_add_loop_test(tcase, test_kernels_int8_sums_reach_the_ends_of_int32, 0, 2 * TABLES);
    tcase_add_loop_test(tcase, test_kernels_every_failed_allocation_of_a_load, 0, TABLES * KINDS);
    tcase_add_loop_test(tcase, test_kernels_linear_has_the_scalar_bits, 0, ISA_COUNT * SIZES);
    tcase_add_test(tcase, test_kernels_choice);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
