/* Every kernel table against the scalar reference, bit by bit (same_bits.h): each row count 1..40
 * over sizes around those of tiles and vectors. */
#include "cells/kernels.h"

#include "base/cpus.h"
#include "base/mem.h"
#include "cells/cpu/reduced.h"
#include "tests/cells/build.h"
#include "tests/cells/isa.h"
#include "tests/cells/same_bits.h"
#include "tests/util.h"

#include <math.h>

enum { ROWS = SAME_BITS_ROWS, KINDS = SAME_BITS_ALL_KINDS, PRECISIONS = CELL_PRECISION_COUNT };

/* Every so many row counts: all of them, but where races are looked for, of which one thread has
 * none. */
#ifdef __SANITIZE_THREAD__
enum { STRIDE = 9 };
#else
enum { STRIDE = 1 };
#endif

/* Of kinds that share the tiles of another, AddressSanitizer, some eight times slower than none,
 * sees every third row count. */
#ifdef __SANITIZE_ADDRESS__
enum { SHARED_STRIDE = 3 };
#else
enum { SHARED_STRIDE = 1 };
#endif

static const uint32_t sizes[] = {1, 15, 16, 17, 64, 130, 256};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* A quick run takes the largest sizes not at all, and large ones with few row counts. */
static bool is_left_out(uint32_t inputs, uint32_t hidden)
{
    return util_is_quick() && (inputs > 64 || hidden > 64);
}

static uint32_t stride_of(uint32_t inputs, uint32_t hidden)
{
    return util_is_quick() && inputs + hidden > 20 ? 13 : STRIDE;
}

/* The instruction sets, and the last one as on processors that have fewer instructions for products
 * in fewer bits, or whose are slower. Without dot products: AVX-512 without VNNI and BF16, NEON.
 * Plain: AVX-512 with both, and without AMX. */
enum { WITHOUT_DOT = ISA_COUNT, PLAIN_DOT, TABLES };

/* NULL: nothing else than what is chosen. */
static const struct cell_reduced_kernels *plain_dot(enum cell_precision precision)
{
#if defined(__x86_64__)
    const bool has_all = base_cpus_may_use_tiles(); // emulated, or on a processor that has the rest
    return !has_all                   ? NULL
           : precision == CELL_INT8   ? &cell_int8__avx512vnni
           : precision != CELL_BF16   ? NULL
           : base_cpus_bf16_is_fast() ? NULL
                                      : &cell_bf16__avx512bf16;
#else
    (void)precision;
    return NULL;
#endif
}

static const struct cell_reduced_kernels *without_dot(enum cell_precision precision)
{
#if defined(__x86_64__)
    return precision == CELL_BF16   ? &cell_bf16__avx512
           : precision == CELL_INT8 ? &cell_int8__avx512
                                    : NULL;
#elif defined(__aarch64__)
    return precision == CELL_INT8 ? &cell_int8__neon : NULL;
#else
    (void)precision;
    return NULL;
#endif
}

static enum base_status load_by(const struct cell_reduced_kernels *reduced,
                                struct cell_gated *gated)
{
    gated->reduced = reduced;
    return reduced == NULL ? isa_at(ISA_COUNT - 1)->gated_load(gated) : reduced->load(gated);
}

static enum base_status load_without_dot(struct cell_gated *gated)
{
    return load_by(without_dot(gated->precision), gated);
}

static enum base_status load_plain_dot(struct cell_gated *gated)
{
    return load_by(plain_dot(gated->precision), gated);
}

/* NULL: not here. The scalar table is what the others are compared with: a quick run has none. */
static const struct cell_kernels *table_at(int index)
{
    if (util_is_quick() && index == 0) {
        return NULL;
    }
    const struct cell_kernels *kernels = isa_at(index < ISA_COUNT ? index : ISA_COUNT - 1);
    static struct cell_kernels without;
    if (index == PLAIN_DOT && plain_dot(CELL_INT8) == NULL) {
        return NULL;
    }
    if (index >= ISA_COUNT && kernels != NULL) {
        without = *kernels;
        without.gated_load = index == WITHOUT_DOT ? load_without_dot : load_plain_dot;
        return &without;
    }
    return kernels;
}

static bool is_other(int table, struct same_bits_kind kind)
{
    return table < ISA_COUNT ||
           (table == WITHOUT_DOT ? without_dot : plain_dot)(kind.precision) != NULL;
}

static void check_gated(const struct cell_kernels *kernels, const struct same_bits_gated *options)
{
    struct same_bits_difference difference;
    if (!same_bits_gated(kernels, options, &difference)) {
        ck_abort_msg("%u inputs, %u units: %s", options->inputs, options->hidden, difference.text);
    }
}

/* One kind of each number of vectors, 3 to 5: the others share their products. */
static bool is_full(struct same_bits_kind kind)
{
    bool has_own_tiles = kind.kind == CELL_GATED_GRU || kind.kind == CELL_GATED_LSTM ||
                         kind.kind == CELL_GATED_TREE_BINARY;
    return has_own_tiles && kind.form == SAME_BITS_PLAIN;
}

START_TEST(test_kernels_gated_cells_have_the_scalar_bits)
{
    const struct cell_kernels *kernels = table_at(_i / KINDS);
    // The scalar table is what it is compared with: a few row counts will do.
    struct same_bits_gated options = {.kind = same_bits_kinds[_i % KINDS], .rows_max = ROWS};
    bool has_all_sizes = is_full(options.kind) && options.kind.precision == CELL_FP32;
    for (uint32_t i = 0; i < SIZES * SIZES && kernels != NULL; i++) {
        options.inputs = sizes[i / SIZES];
        options.hidden = sizes[i % SIZES];
        options.rows_stride =
            kernels == &cell_kernels__scalar ? 13 : stride_of(options.inputs, options.hidden);
        if (!is_full(options.kind)) {
            options.rows_stride *= SHARED_STRIDE;
        }
        if (is_other(_i / KINDS, options.kind) && !is_left_out(options.inputs, options.hidden) &&
            (has_all_sizes || i / SIZES == (3 * i + 1) % SIZES)) {
            check_gated(kernels, &options);
        }
    }
}
END_TEST

/* More weights than memory or L3 give in time are asked for ahead, in blocks and a panel ahead. */
START_TEST(test_kernels_large_cells_have_the_scalar_bits)
{
    const struct cell_kernels *kernels = table_at(_i / KINDS);
    struct same_bits_gated options = {
        .kind = same_bits_kinds[_i % KINDS], .hidden = 930, .rows_max = 14, .rows_stride = STRIDE};
    options.inputs = options.kind.precision == CELL_FP32 ? 900 : 1400; // over PANEL_TERMS_MAX
    if (util_is_quick()) {
        options.inputs += options.kind.precision == CELL_FP32 ? 200 : 700;
        options.hidden = 100;
        options.rows_stride = 7; // one tile, and two
    }
    if (kernels != NULL && kernels != &cell_kernels__scalar && is_full(options.kind) &&
        is_other(_i / KINDS, options.kind)) {
        check_gated(kernels, &options);
        options.inputs = 300;
        options.hidden = util_is_quick() ? 160 : 310;
        options.rows_max = util_is_quick() ? 14 : ROWS;
        options.rows_stride = stride_of(300, 310);
        check_gated(kernels, &options);
    }
}
END_TEST

/* Every number of units that can be left for the last panel, which may be narrow then, alone and
 * behind one to four others. */
START_TEST(test_kernels_every_rest_of_a_panel)
{
    const struct cell_kernels *kernels = table_at(_i / KINDS);
    const bool is_quick = util_is_quick();
    struct same_bits_gated options = {.kind = same_bits_kinds[_i % KINDS],
                                      .inputs = 5,
                                      .rows_max = is_quick ? 14 : ROWS,
                                      .rows_stride = 13};
    if (kernels == NULL || kernels == &cell_kernels__scalar ||
        !is_other(_i / KINDS, options.kind)) {
        return;
    }
    for (options.hidden = 1; options.hidden < 81; options.hidden += is_quick              ? 7
                                                                    : options.hidden < 40 ? 1
                                                                                          : 5) {
        check_gated(kernels, &options);
    }
}
END_TEST

/* Words of 4 terms are tiles of 16: every number that can be left for the last, over x behind whole
 * ones and over h alone. */
START_TEST(test_kernels_every_rest_of_a_tile)
{
    const struct cell_kernels *kernels = table_at(_i / KINDS);
    struct same_bits_gated options = {.kind = same_bits_kinds[_i % KINDS],
                                      .hidden = 20,
                                      .rows_max = ROWS,
                                      .rows_stride = util_is_quick() ? 13 : 4};
    if (kernels == NULL || kernels == &cell_kernels__scalar || !is_full(options.kind) ||
        options.kind.precision != CELL_INT8 || !is_other(_i / KINDS, options.kind)) {
        return;
    }
    for (options.inputs = 125; options.inputs < 300;
         options.inputs += options.inputs < 189 ? 4 : 79) {
        check_gated(kernels, &options);
    }
}
END_TEST

START_TEST(test_kernels_gated_cell_without_biases)
{
    const struct cell_kernels *kernels = table_at(_i / KINDS);
    struct same_bits_gated options = {.kind = same_bits_kinds[_i % KINDS],
                                      .inputs = 17,
                                      .hidden = 33,
                                      .rows_max = ROWS,
                                      .rows_stride = util_is_quick() ? 39 : 11,
                                      .no_biases = true};
    if (kernels != NULL && is_other(_i / KINDS, options.kind)) {
        check_gated(kernels, &options);
    }
}
END_TEST

/* To 8 bits, ties to even, and what is less than the least to 0, by other means than the kernels'.
 */
static float rounded(float x)
{
    int exponent = 0;
    if (!isfinite(x) || fabsf(x) < 0x1p-55f) {
        return isfinite(x) ? 0.0f : x;
    }
    double part = frexp((double)x, &exponent);
    return (float)ldexp(rint(ldexp(part, 8)), exponent - 8);
}

static const float *rounded_weights(struct build *build, const float *weights, size_t n)
{
    float *out = base_arena_array(&build->arena, n, sizeof(float));
    ck_assert_ptr_nonnull(out);
    for (size_t i = 0; i < n; i++) {
        out[i] = rounded(weights[i]);
    }
    return out;
}

static void round_before(struct build *build, struct cell_gated *gated,
                         const struct same_bits_factors *rows, bool is_wanted)
{
    const size_t gates = (size_t)cell_gated_gates(gated->kind) * gated->hidden;
    if (!is_wanted) {
        return;
    }
    gated->precision = CELL_FP32;
    gated->w = rounded_weights(build, gated->w, gates * gated->inputs);
    gated->r = rounded_weights(build, gated->r, gates * gated->feedback);
    gated->r_right = rounded_weights(build, gated->r_right, gates * gated->right);
    for (uint32_t part = 0; part < CELL_GATED_PARTS; part++) {
        for (uint32_t r = 0; r < SAME_BITS_ROWS; r++) {
            for (uint32_t k = 0; k < cell_gated_terms(gated, part); k++) {
                rows->part[part][r][k] = rounded(rows->part[part][r][k]);
            }
        }
    }
}

/* bf16 is nothing but fp32 with other weights, x and h. */
START_TEST(test_kernels_bf16_has_the_bits_of_rounded_factors)
{
    const struct cell_kernels *kernels = table_at(_i / KINDS);
    struct same_bits_gated options = {.kind = same_bits_kinds[_i % KINDS],
                                      .inputs = 70,
                                      .hidden = 130,
                                      .rows_max = ROWS,
                                      .rows_stride = util_is_quick() ? 39 : 7,
                                      .change = round_before};
    if (kernels != NULL && options.kind.precision == CELL_BF16) {
        check_gated(kernels, &options);
        options.inputs = 33; // a last term alone
        options.hidden = 17;
        check_gated(kernels, &options);
    }
}
END_TEST

/* Magnitudes about the least that counts as a factor, 2^-55; products from 2^-100 to denormals. */
static float small(struct base_random *random)
{
    return ldexpf(base_random_f32(random, -1.0f, 1.0f), -50 - (int)base_random_below(random, 18));
}

/* And sums that begin about the least of theirs, 2^-100, or at what such products add up to. */
static void use_small(struct build *build, struct cell_gated *gated,
                      const struct same_bits_factors *rows, bool is_wanted)
{
    (void)is_wanted;
    const uint32_t columns = cell_gated_gates(gated->kind) * gated->hidden;
    for (uint32_t part = 0; part < CELL_GATED_PARTS; part++) {
        const size_t terms = cell_gated_terms(gated, part);
        float *weights = build_floats(build, columns, (uint32_t)terms, 1.0f);
        for (size_t i = 0; i < columns * terms; i++) {
            weights[i] = small(&build->random);
        }
        *(part == 0 ? &gated->w : part == 1 ? &gated->r : &gated->r_right) = weights;
        for (size_t i = 0; i < SAME_BITS_ROWS * terms; i++) {
            rows->part[part][i / terms][i % terms] = small(&build->random);
        }
    }
    float *bias = build_floats(build, 1, columns, 1.0f);
    for (uint32_t i = 0; i < columns; i++) {
        bias[i] = ldexpf(bias[i], -95 - (int)base_random_below(&build->random, 30));
    }
    gated->b_w = bias;
    gated->b_r = gated->b_r == NULL ? NULL : bias;
}

/* An instruction for bf16 takes denormals for 0: no sum may come by one. */
START_TEST(test_kernels_bf16_has_no_denormal_sums)
{
    const struct cell_kernels *kernels = table_at(_i / KINDS);
    struct same_bits_gated options = {.kind = same_bits_kinds[_i % KINDS],
                                      .inputs = 9,
                                      .hidden = 70,
                                      .rows_max = ROWS,
                                      .rows_stride = util_is_quick() ? 39 : 7,
                                      .change = use_small};
    if (kernels != NULL && options.kind.precision == CELL_BF16) {
        check_gated(kernels, &options);
    }
}
END_TEST

static void use_largest(struct build *build, struct cell_gated *gated,
                        const struct same_bits_factors *rows, bool is_wanted)
{
    (void)is_wanted;
    float *const *x = rows->part[0];
    uint32_t columns = cell_gated_gates(gated->kind) * gated->hidden;
    float *w = build_floats(build, columns, gated->inputs, 1.0f);
    for (size_t i = 0; i < (size_t)columns * gated->inputs; i++) {
        w[i] = i / gated->inputs % 2 == 0 ? 1e-6f : -1e-6f;
    }
    for (uint32_t i = 0; i < gated->inputs; i++) {
        for (uint32_t r = 0; r < 4; r++) {
            x[r][i] = r % 2 == 0 ? 1.0f : -1.0f;
        }
    }
    gated->w = w;
}

/* The longest sums that cannot leave int32, of the largest terms. */
START_TEST(test_kernels_int8_sums_reach_the_ends_of_int32)
{
    const struct cell_kernels *kernels = table_at(_i / 2);
    struct same_bits_gated options = {
        .kind = {_i % 2 == 0 ? CELL_GATED_LSTM : CELL_GATED_GRU, SAME_BITS_PLAIN, CELL_INT8},
        .inputs = CELL_INT8_TERMS_MAX,
        .hidden = 3,
        .rows_max = 4,
        .rows_stride = util_is_quick() ? 3 : 1,
        .change = use_largest};
    bool is_skipped = util_is_quick() && options.kind.kind == CELL_GATED_GRU;
    if (kernels != NULL && !is_skipped) {
        check_gated(kernels, &options);
    }
}
END_TEST

START_TEST(test_kernels_every_failed_allocation_of_a_load)
{
    const struct cell_kernels *kernels = table_at(_i / KINDS);
    struct same_bits_gated options = {
        .kind = same_bits_kinds[_i % KINDS], .inputs = 17, .hidden = 33};
    struct build build;
    if (kernels == NULL) {
        return;
    }
    build_init(&build, 17033);
    struct cell_gated gated = same_bits_gated_cell(&build, &options);
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    uint64_t n = 0;
    while (status == BASE_RESOURCE_EXHAUSTED) {
        n++;
        base_alloc_fail_at(n);
        status = kernels->gated_load(&gated);
        base_alloc_fail_at(0);
        ck_assert(status == BASE_OK || gated.packed[0] == NULL);
        ck_assert(status == BASE_OK || gated.scales[0] == NULL);
        ck_assert(status == BASE_OK || (gated.packed[1] == NULL && gated.scales[1] == NULL));
        ck_assert(status == BASE_OK || (gated.packed[2] == NULL && gated.scales[2] == NULL));
    }
    ck_assert_int_eq(status, BASE_OK);
    ck_assert_uint_gt(n, kernels == &cell_kernels__scalar ? 1 : 2);
    cell_gated_release(&gated);
    build_release(&build);
}
END_TEST

START_TEST(test_kernels_linear_has_the_scalar_bits)
{
    const enum cell_precision precision = (enum cell_precision)(_i / SIZES % PRECISIONS);
    const struct cell_kernels *kernels = table_at(_i / SIZES / PRECISIONS);
    const uint32_t inputs = sizes[_i % SIZES];
    struct same_bits_difference difference;
    for (uint32_t o = 0; o < SIZES && kernels != NULL; o++) {
        if (!is_left_out(inputs, sizes[o]) &&
            !same_bits_linear(kernels, precision, inputs, sizes[o], &difference)) {
            ck_abort_msg("%s, %u outputs: %s", cell_precision_name(precision), sizes[o],
                         difference.text);
        }
    }
}
END_TEST

START_TEST(test_kernels_linear_of_every_width)
{
    const enum cell_precision precision = (enum cell_precision)(_i % PRECISIONS);
    const struct cell_kernels *kernels = table_at(_i / PRECISIONS);
    struct same_bits_difference difference;
    for (uint32_t outputs = 1; outputs < 70 && kernels != NULL;
         outputs += util_is_quick() ? 11 : 1) {
        if (!same_bits_linear(kernels, precision, 9, outputs, &difference)) {
            ck_abort_msg("%s, %u outputs: %s", cell_precision_name(precision), outputs,
                         difference.text);
        }
    }
}
END_TEST

START_TEST(test_kernels_every_failed_allocation_of_a_linear)
{
    const struct cell_kernels *kernels = isa_at(_i / PRECISIONS);
    struct build build;
    build_init(&build, 9);
    struct cell_linear linear = {.precision = (enum cell_precision)(_i % PRECISIONS),
                                 .inputs = 17,
                                 .outputs = 33,
                                 .w = build_floats(&build, 17, 33, 1.0f),
                                 .b = build_floats(&build, 1, 33, 1.0f)};
    enum base_status status = kernels == NULL ? BASE_OK : BASE_RESOURCE_EXHAUSTED;
    for (uint64_t n = 1; status == BASE_RESOURCE_EXHAUSTED; n++) {
        base_alloc_fail_at(n);
        status = kernels->linear_load(&linear);
        base_alloc_fail_at(0);
        ck_assert(status == BASE_OK || (linear.packed == NULL && linear.sums.packed[0] == NULL));
    }
    ck_assert_int_eq(status, BASE_OK);
    cell_linear_release(&linear);
    build_release(&build);
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
    ck_assert_int_eq(cell_kernels_choose("abacus", &kernels, &error), BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(error.message, "isa abacus: must be auto, scalar, avx2, avx512 or neon");
}
END_TEST

/* What only another architecture has is known, and not here. */
START_TEST(test_kernels_choice_of_another_architecture)
{
#ifdef __aarch64__
    const char *isa = "avx2";
#else
    const char *isa = "neon";
#endif
    const struct cell_kernels *kernels = NULL;
    struct base_error error = {BASE_OK, ""};
    ck_assert_int_eq(cell_kernels_choose(isa, &kernels, &error), BASE_UNAVAILABLE);
    ck_assert_ptr_null(kernels);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernels");
    TCase *tcase = tcase_create("bits");
    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, test_kernels_gated_cells_have_the_scalar_bits, 0, TABLES * KINDS);
    tcase_add_loop_test(tcase, test_kernels_large_cells_have_the_scalar_bits, 0, TABLES * KINDS);
    tcase_add_loop_test(tcase, test_kernels_every_rest_of_a_panel, 0, TABLES * KINDS);
    tcase_add_loop_test(tcase, test_kernels_every_rest_of_a_tile, 0, KINDS * TABLES);
    tcase_add_loop_test(tcase, test_kernels_gated_cell_without_biases, 0, TABLES * KINDS);
    tcase_add_loop_test(tcase, test_kernels_bf16_has_the_bits_of_rounded_factors, 0,
                        TABLES * KINDS);
    tcase_add_loop_test(tcase, test_kernels_bf16_has_no_denormal_sums, 0, TABLES * KINDS);
    tcase_add_loop_test(tcase, test_kernels_int8_sums_reach_the_ends_of_int32, 0, 2 * TABLES);
    tcase_add_loop_test(tcase, test_kernels_every_failed_allocation_of_a_load, 0, TABLES * KINDS);
    tcase_add_loop_test(tcase, test_kernels_linear_has_the_scalar_bits, 0,
                        TABLES * PRECISIONS * SIZES);
    tcase_add_loop_test(tcase, test_kernels_linear_of_every_width, 0, TABLES * PRECISIONS);
    tcase_add_loop_test(tcase, test_kernels_every_failed_allocation_of_a_linear, 0,
                        ISA_COUNT * PRECISIONS);
    tcase_add_test(tcase, test_kernels_choice);
    tcase_add_test(tcase, test_kernels_choice_of_another_architecture);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
