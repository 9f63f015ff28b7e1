/* The checks of the rule of the bits (same_bits.h) notice what they are there for: each kernel
 * table that breaks the rule in one way differs from the scalar one by them, in every cell that the
 * violation touches, and the same body without one does not. By one shape of those that the
 * kernels' suite takes. */
#include "tests/cells/mutants/mutants.h"

#include "tests/cells/isa.h"
#include "tests/cells/same_bits.h"
#include "tests/util.h"

/* The cells in which the compiler's own choice of what to contract is not the definition's. What is
 * else a product and a sum is fused there too. */
#ifdef __clang__
#    define CONTRACTED 0
#else
#    define CONTRACTED BIT(LSTM)
#endif

enum { INPUTS = 64, HIDDEN = 130, KINDS = SAME_BITS_KINDS };

#define BIT(kind)  (1u << CELL_GATED_##kind)
#define ALL        ((BIT(FORGET) << 1) - 1)
#define BUT(kinds) (ALL & ~(kinds))

#define ONE_PRODUCT (BIT(GRU) | BIT(TREE) | BIT(FORGET))

struct mutant {
    const struct cell_kernels *kernels;
    uint32_t gated; /* kinds of cells that it is about */
    bool linear, activations;
};

static const struct mutant mutants[] = {
    {&mutant_two_sums__avx2, ALL, true, false},
    // A GRU's two sums are products of their own; a leaf's gates, and a node's without x, are one.
    {&mutant_h_first__avx2, BUT(ONE_PRODUCT), false, false},
    {&mutant_share__avx2, BUT(ONE_PRODUCT), false, false},
    {&mutant_bias_last__avx2, ALL, true, false},
    {&mutant_no_fma__avx2, ALL, true, true},
    {&mutant_contraction__avx2, CONTRACTED, false, false},
    // An RNN's rectifier divides nothing.
    {&mutant_reciprocal__avx2, BUT(BIT(RELU)), false, true},
    {&mutant_any_nan__avx2, ALL, true, true},
    {&mutant_neighbour__avx2, ALL, true, false},
};
enum { MUTANTS = sizeof(mutants) / sizeof(mutants[0]) };

enum { AVX2 = 1 }; // of isa_at()

static struct same_bits_gated shape(int kind)
{
    return (struct same_bits_gated){.kind = same_bits_kinds[kind],
                                    .inputs = INPUTS,
                                    .hidden = HIDDEN,
                                    .rows_max = SAME_BITS_ROWS,
                                    .rows_stride = 1};
}

static void assert_caught(const struct mutant *mutant, bool is_same, const char *by)
{
    ck_assert_msg(!is_same, "%s passes the check of %s", mutant->kernels->name, by);
}

START_TEST(test_mutants_are_caught_in_every_cell_they_touch)
{
    const struct mutant *mutant = &mutants[_i];
    struct same_bits_difference difference;
    for (int k = 0; k < KINDS && isa_at(AVX2) != NULL; k++) {
        struct same_bits_gated options = shape(k);
        if ((mutant->gated >> options.kind.kind & 1) != 0) {
            assert_caught(mutant, same_bits_gated(mutant->kernels, &options, &difference),
                          "gated cells");
        }
    }
}
END_TEST

START_TEST(test_mutants_are_caught_in_linear_and_activations)
{
    const struct mutant *mutant = &mutants[_i];
    struct same_bits_difference difference;
    if (isa_at(AVX2) != NULL && mutant->linear) {
        assert_caught(mutant,
                      same_bits_linear(mutant->kernels, CELL_FP32, INPUTS, HIDDEN, &difference),
                      "LINEAR");
    }
    if (isa_at(AVX2) != NULL && mutant->activations) {
        assert_caught(mutant, same_bits_activations(mutant->kernels, 257, &difference),
                      "activations");
    }
}
END_TEST

START_TEST(test_mutants_without_a_mutation_pass)
{
    const struct cell_kernels *kernels = &mutant_none__avx2;
    struct same_bits_difference difference;
    if (isa_at(AVX2) == NULL) {
        return;
    }
    for (int k = 0; k < KINDS; k++) {
        struct same_bits_gated options = shape(k);
        ck_assert_msg(same_bits_gated(kernels, &options, &difference), "%s", difference.text);
    }
    ck_assert_msg(same_bits_linear(kernels, CELL_FP32, INPUTS, HIDDEN, &difference), "%s",
                  difference.text);
    ck_assert_msg(same_bits_activations(kernels, 257, &difference), "%s", difference.text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mutants");
    TCase *tcase = tcase_create("bits");
    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, test_mutants_are_caught_in_every_cell_they_touch, 0, MUTANTS);
    tcase_add_loop_test(tcase, test_mutants_are_caught_in_linear_and_activations, 0, MUTANTS);
    tcase_add_test(tcase, test_mutants_without_a_mutation_pass);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
