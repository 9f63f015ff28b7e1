/* Every kernel table against the scalar reference, bit by bit: each row count 1..40, rows at
 * changing places among neighbours that hold NaN, infinities, denormals and huge numbers, panels
 * shared out in two parts as two threads do. Rows of x stand in memory of exactly their width, so
 * that the address sanitizer sees a read past them. */
#include "cells/kernels.h"

#include "base/mem.h"
#include "tests/cells/build.h"
#include "tests/cells/isa.h"
#include "tests/util.h"

#include <math.h>
#include <string.h>

enum { ROWS = 40 };

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

/* Two rows in five hold something nasty here and there. */
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

/* ---- LSTM ----------------------------------------------------------------------------------- */

struct lstm_case {
    struct build build;
    struct cell_lstm lstm;
    struct rows x, h, c, h_out, c_out;
    float *scratch;
};

static void lstm_case_init(struct lstm_case *test, uint32_t inputs, uint32_t hidden)
{
    build_lstm_cell(&test->build, inputs, hidden, inputs * 1000 + hidden);
    const struct cell_weight *weights = test->build.def.ops[0].weights;
    test->lstm = (struct cell_lstm){.inputs = inputs,
                                    .hidden = hidden,
                                    .w = weights[0].data,
                                    .r = weights[1].data,
                                    .b = weights[2].data};
    rows_init(&test->x, inputs, inputs);
    rows_init(&test->h, hidden, hidden);
    rows_init(&test->c, hidden, CELL_ROW_FLOATS(hidden) + CELL_ROW_LINE);
    rows_init(&test->h_out, hidden, CELL_ROW_FLOATS(hidden) + CELL_ROW_LINE);
    rows_init(&test->c_out, hidden, CELL_ROW_FLOATS(hidden) + CELL_ROW_LINE);
    rows_fill(&test->x, &test->build.random);
    rows_fill(&test->h, &test->build.random);
    rows_fill(&test->c, &test->build.random);
}

static void lstm_case_release(struct lstm_case *test)
{
    rows_release(&test->x);
    rows_release(&test->h);
    rows_release(&test->c);
    rows_release(&test->h_out);
    rows_release(&test->c_out);
    build_release(&test->build);
}

/* n rows from `first` on, panels 0..split-1 and then the rest. */
static void lstm_run(struct lstm_case *test, const struct cell_kernels *kernels, uint32_t first,
                     uint32_t n, uint32_t split)
{
    float *x[ROWS];
    float *h[ROWS];
    float *c[ROWS];
    float *h_out[ROWS];
    float *c_out[ROWS];
    turn(&test->x, first, x);
    turn(&test->h, first, h);
    turn(&test->c, first, c);
    turn(&test->h_out, first, h_out);
    turn(&test->c_out, first, c_out);
    for (uint32_t r = 0; r < n; r++) {
        memset(h_out[r], 0xA5, test->h_out.width * sizeof(float));
        memset(c_out[r], 0xA5, test->c_out.width * sizeof(float));
    }
    struct cell_lstm_step step = {.lstm = &test->lstm,
                                  .n_rows = n,
                                  .panel_end = split,
                                  .x = (const float *const *)x,
                                  .h = (const float *const *)h,
                                  .c = (const float *const *)c,
                                  .h_out = h_out,
                                  .c_out = c_out,
                                  .scratch = test->scratch,
                                  .backwards = n % 2 != 0};
    kernels->lstm_step(&step);
    step.panel_first = split;
    step.panel_end = test->lstm.panels;
    kernels->lstm_step(&step);
}

/* Up to `most` rows; every `stride`th row count. */
static void assert_lstm(const struct cell_kernels *kernels, struct lstm_case *got, uint32_t most,
                        uint32_t stride)
{
    struct lstm_case want;
    uint32_t inputs = got->lstm.inputs;
    uint32_t hidden = got->lstm.hidden;
    lstm_case_init(&want, inputs, hidden);
    ck_assert_int_eq(cell_kernels__scalar.lstm_load(&want.lstm), BASE_OK);
    ck_assert_int_eq(kernels->lstm_load(&got->lstm), BASE_OK);
    lstm_run(&want, &cell_kernels__scalar, 0, most, want.lstm.panels);
    size_t floats = kernels->scratch_floats(inputs + hidden, 4 * hidden, ROWS);
    got->scratch = base_alloc_aligned((floats + 1) * sizeof(float), BASE_CACHE_LINE);
    ck_assert_ptr_nonnull(got->scratch);
    for (uint32_t n = 1; n <= most; n += stride) {
        uint32_t first = most == ROWS ? n * 7 % ROWS : 0;
        uint32_t split = n * 3 % (got->lstm.panels + 1);
        lstm_run(got, kernels, first, n, split);
        assert_rows(&got->h_out, &want.h_out, first, n, "h'");
        assert_rows(&got->c_out, &want.c_out, first, n, "c'");
    }
    base_free(got->scratch);
    cell_lstm_release(&want.lstm);
    cell_lstm_release(&got->lstm);
    lstm_case_release(&want);
}

START_TEST(test_kernels_lstm_has_the_scalar_bits)
{
    const struct cell_kernels *kernels = isa_at(_i / SIZES);
    // The scalar table is what it is compared with: a few row counts will do.
    uint32_t stride = kernels == &cell_kernels__scalar ? 13 : 1;
    for (uint32_t h = 0; h < SIZES && kernels != NULL; h++) {
        struct lstm_case test;
        lstm_case_init(&test, sizes[_i % SIZES], sizes[h]);
        assert_lstm(kernels, &test, ROWS, stride);
        lstm_case_release(&test);
    }
}
END_TEST

/* More weights than a cache holds take the way with prefetches. */
START_TEST(test_kernels_large_lstm_has_the_scalar_bits)
{
    const struct cell_kernels *kernels = isa_at(_i);
    struct lstm_case test;
    if (kernels != NULL && kernels != &cell_kernels__scalar) {
        lstm_case_init(&test, 900, 930);
        assert_lstm(kernels, &test, 14, 1);
        lstm_case_release(&test);
    }
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
    size_t floats = kernels->scratch_floats(inputs, outputs, ROWS);
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
    tcase_add_loop_test(tcase, test_kernels_lstm_has_the_scalar_bits, 0, ISA_COUNT * SIZES);
    tcase_add_loop_test(tcase, test_kernels_large_lstm_has_the_scalar_bits, 0, ISA_COUNT);
    tcase_add_loop_test(tcase, test_kernels_linear_has_the_scalar_bits, 0, ISA_COUNT * SIZES);
    tcase_add_test(tcase, test_kernels_choice);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
