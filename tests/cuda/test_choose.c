/* Choosing among algorithms, with candidates that are made up: each has times, and a flaw. */
#include "cells/cuda/choose.h"

#include "tests/util.h"

#include <stdio.h>
#include <string.h>

#define KN CELL_STEP_KN
#define NK CELL_STEP_NK

enum flaw { GOOD, VARIES, CANNOT, CANNOT_LONG, LOSES };

struct candidate {
    enum flaw flaw;
    uint64_t ns[CELL_CUDA_COUNTS];
    enum cell_step_order order;
};

static struct {
    const struct candidate *candidates;
    uint32_t n;
    enum base_status rank_status; /* of candidates in this order */
    enum cell_step_order rank_order;
    bool is_slow_first; /* the first round of times is disturbed */
    uint32_t ranked, probed, timed;
    uint64_t budget_ns;
    char name[32], key[32], text[256];
    bool has_text;
    uint32_t stored;
} script;

static struct cell_cuda_algo algo_of(uint32_t i)
{
    struct cell_cuda_algo algo = {{0}};
    algo.words[0] = i;
    algo.words[7] = UINT64_C(0xFEDCBA9876543210) + i;
    return algo;
}

static const struct candidate *candidate_of(const struct cell_cuda_candidate *one)
{
    const uint64_t *words = one->algo.words;
    ck_assert_uint_lt(words[0], script.n);
    ck_assert_uint_eq(words[7] - words[0], UINT64_C(0xFEDCBA9876543210));
    ck_assert_int_eq(script.candidates[words[0]].order, one->order);
    return &script.candidates[words[0]];
}

static enum base_status rank(void *context, enum cell_step_order order,
                             struct cell_cuda_algo out[CELL_CUDA_RANKED], uint32_t *n)
{
    ck_assert_ptr_eq(context, &script);
    *n = 0;
    for (uint32_t i = 0; i < script.n; i++) {
        if (script.candidates[i].order == order) {
            out[(*n)++] = algo_of(i);
        }
    }
    script.ranked++;
    return order == script.rank_order ? script.rank_status : BASE_OK;
}

static enum base_status probe(void *context, const struct cell_cuda_candidate *one,
                              bool *is_invariant)
{
    const struct candidate *candidate = candidate_of(one);
    ck_assert_ptr_eq(context, &script);
    script.probed++;
    *is_invariant = candidate->flaw != VARIES;
    return candidate->flaw == CANNOT  ? BASE_UNIMPLEMENTED
           : candidate->flaw == LOSES ? BASE_UNAVAILABLE
                                      : BASE_OK;
}

static enum base_status time_it(void *context, const struct cell_cuda_candidate *one, uint32_t rows,
                                uint64_t budget_ns, uint64_t *ns)
{
    const struct candidate *candidate = candidate_of(one);
    uint32_t count = 0;
    ck_assert_ptr_eq(context, &script);
    ck_assert_int_ne(candidate->flaw, VARIES);
    while (cell_cuda_counts[count] != rows) {
        count++;
    }
    script.budget_ns += budget_ns;
    *ns = candidate->ns[count] * (script.is_slow_first && script.timed == 0 ? 100 : 1);
    script.timed++;
    return candidate->flaw == CANNOT_LONG && count == CELL_CUDA_COUNTS - 1 ? BASE_UNIMPLEMENTED
                                                                           : BASE_OK;
}

static bool load(void *context, const char *name, const char *key, char *out, size_t bytes)
{
    ck_assert_ptr_eq(context, &script);
    const bool is_there = script.has_text && strcmp(name, "name") == 0 && strcmp(key, "key\n") == 0;
    if (is_there) {
        snprintf(out, bytes, "%s", script.text);
    }
    return is_there;
}

static void store(void *context, const char *name, const char *key, const char *text)
{
    ck_assert_ptr_eq(context, &script);
    ck_assert_str_eq(name, "name");
    ck_assert_str_eq(key, "key\n");
    snprintf(script.text, sizeof(script.text), "%s", text);
    script.has_text = true;
    script.stored++;
}

static const struct cell_device_cache cache = {.context = &script, .load = load, .store = store};

static void setup(void)
{
    memset(&script, 0, sizeof(script));
}

/* The number of the one that is chosen, or the script's n. */
static uint32_t choose(const struct candidate *candidates, uint32_t n, enum base_status *status)
{
    const struct cell_cuda_trial trial = {.context = &script,
                                          .cache = &cache,
                                          .name = "name",
                                          .key = "key\n",
                                          .rank = rank,
                                          .probe = probe,
                                          .time = time_it};
    struct cell_cuda_candidate chosen;
    script.candidates = candidates;
    script.n = n;
    script.ranked = script.probed = script.timed = 0;
    *status = cell_cuda_choose(&trial, &chosen);
    return *status == BASE_OK ? (uint32_t)(candidate_of(&chosen) - candidates) : n;
}

#define CHOSEN(candidates, status)                                                                 \
    choose((candidates), sizeof(candidates) / sizeof((candidates)[0]), (status))

/* The fastest one's bits vary, the next is fast at few rows alone, another fails at many rows. */
START_TEST(test_the_best_over_all_row_counts_of_those_that_pass)
{
    static const struct candidate candidates[] = {
        {VARIES, {1, 1, 1, 1, 1}, KN},      {GOOD, {5, 5, 40, 200, 900}, KN},
        {CANNOT, {1, 1, 1, 1, 1}, KN},      {GOOD, {6, 7, 12, 30, 100}, KN},
        {CANNOT_LONG, {2, 2, 2, 2, 2}, KN}, {GOOD, {30, 30, 30, 30, 90}, KN},
    };
    enum base_status status = BASE_OK;
    ck_assert_uint_eq(CHOSEN(candidates, &status), 3);
    ck_assert_uint_eq(script.probed, 6);
    ck_assert_uint_le(script.budget_ns, CELL_CUDA_CHOICE_NS);
}
END_TEST

/* One that could not do all counts is no measure for the others either. */
START_TEST(test_a_candidate_that_fails_while_timed_does_not_count)
{
    static const struct candidate candidates[] = {
        {CANNOT_LONG, {1, 100, 100, 100, 100}, KN},
        {GOOD, {40, 10, 10, 10, 10}, KN},
        {GOOD, {10, 14, 14, 14, 14}, KN},
    };
    enum base_status status = BASE_OK;
    ck_assert_uint_eq(CHOSEN(candidates, &status), 2); // 5.6 and 8; with the first's 1: 14 and 44
}
END_TEST

START_TEST(test_of_equal_ones_the_librarys_first)
{
    static const struct candidate candidates[] = {
        {VARIES, {1, 1, 1, 1, 1}, KN}, {GOOD, {9, 9, 9, 9, 9}, KN}, {GOOD, {9, 9, 9, 9, 9}, KN}};
    enum base_status status = BASE_OK;
    ck_assert_uint_eq(CHOSEN(candidates, &status), 1);
    script.has_text = false;
    script.is_slow_first = true; // the second round is believed
    ck_assert_uint_eq(CHOSEN(candidates, &status), 1);
}
END_TEST

/* Both orders of the weights compete: the faster wins, one whose bits vary does not, nor does one
 * that fails; of equal ones the order that needs no turning. */
START_TEST(test_either_order_of_the_weights)
{
    static const struct candidate faster[] = {
        {GOOD, {9, 9, 9, 9, 9}, NK}, {GOOD, {9, 9, 9, 9, 8}, NK}, {GOOD, {9, 9, 9, 9, 9}, KN}};
    static const struct candidate varies[] = {{VARIES, {1, 1, 1, 1, 1}, NK},
                                              {CANNOT_LONG, {1, 1, 1, 1, 1}, NK},
                                              {CANNOT, {1, 1, 1, 1, 1}, NK},
                                              {GOOD, {9, 9, 9, 9, 9}, KN}};
    static const struct candidate equal[] = {{GOOD, {9, 9, 9, 9, 9}, NK},
                                             {GOOD, {9, 9, 9, 9, 9}, KN}};
    static const struct candidate alone[] = {{VARIES, {1, 1, 1, 1, 1}, KN},
                                             {GOOD, {9, 9, 9, 9, 9}, NK}};
    enum base_status status = BASE_OK;
    ck_assert_uint_eq(CHOSEN(faster, &status), 1);
    ck_assert_int_eq(strncmp(script.text, "nk 0000000000000001 ", 20), 0);
    script.has_text = false;
    ck_assert_uint_eq(CHOSEN(varies, &status), 3);
    script.has_text = false;
    ck_assert_uint_eq(CHOSEN(equal, &status), 1);
    ck_assert_int_eq(strncmp(script.text, "kn 0000000000000001 ", 20), 0);
    script.has_text = false;
    ck_assert_uint_eq(CHOSEN(alone, &status), 1);
    ck_assert_uint_eq(script.timed, 0);
}
END_TEST

/* What was kept in one order is that order's again, and one that does not pass any more leaves the
 * other's. */
START_TEST(test_the_order_is_kept)
{
    static const struct candidate candidates[] = {{GOOD, {9, 9, 9, 9, 9}, KN},
                                                  {GOOD, {8, 8, 8, 8, 8}, NK}};
    static const struct candidate later[] = {{GOOD, {9, 9, 9, 9, 9}, KN},
                                             {VARIES, {8, 8, 8, 8, 8}, NK}};
    enum base_status status = BASE_OK;
    ck_assert_uint_eq(CHOSEN(candidates, &status), 1);
    ck_assert_uint_eq(CHOSEN(candidates, &status), 1);
    ck_assert_uint_eq(script.ranked + script.timed, 0);
    ck_assert_uint_eq(CHOSEN(later, &status), 0);
    ck_assert_uint_eq(CHOSEN(later, &status), 0);
    ck_assert_uint_eq(script.ranked, 0);
}
END_TEST

/* A library that ranks nothing in one order has candidates of the other. */
START_TEST(test_an_order_without_candidates)
{
    static const struct candidate candidates[] = {{GOOD, {9, 9, 9, 9, 9}, KN},
                                                  {GOOD, {8, 8, 8, 8, 8}, NK}};
    enum base_status status = BASE_OK;
    script.rank_status = BASE_UNIMPLEMENTED;
    script.rank_order = NK;
    ck_assert_uint_eq(CHOSEN(candidates, &status), 0);
    script.has_text = false;
    script.rank_order = KN;
    ck_assert_uint_eq(CHOSEN(candidates, &status), 1);
}
END_TEST

START_TEST(test_one_that_passes_is_not_timed)
{
    static const struct candidate candidates[] = {{VARIES, {1, 1, 1, 1, 1}, KN},
                                                  {GOOD, {9, 9, 9, 9, 9}, KN}};
    enum base_status status = BASE_OK;
    ck_assert_uint_eq(CHOSEN(candidates, &status), 1);
    ck_assert_uint_eq(script.timed, 0);
}
END_TEST

START_TEST(test_so_many_are_timed_and_no_more)
{
    struct candidate candidates[CELL_STEP_ORDERS * CELL_CUDA_RANKED];
    enum base_status status = BASE_OK;
    for (uint32_t i = 0; i < CELL_STEP_ORDERS * CELL_CUDA_RANKED; i++) {
        candidates[i] = (struct candidate){
            GOOD, {50 - i, 50 - i, 50 - i, 50 - i, 50 - i}, i < CELL_CUDA_RANKED ? KN : NK};
    }
    ck_assert_uint_eq(CHOSEN(candidates, &status), CELL_CUDA_RANKED + CELL_CUDA_TIMED - 1);
    ck_assert_uint_eq(script.probed, CELL_STEP_ORDERS * CELL_CUDA_TIMED);
    ck_assert_uint_eq(script.timed,
                      CELL_STEP_ORDERS * CELL_CUDA_TIMED * CELL_CUDA_COUNTS * CELL_CUDA_ROUNDS);
    ck_assert_uint_eq(script.budget_ns, CELL_CUDA_CHOICE_NS);
}
END_TEST

START_TEST(test_a_choice_is_kept_and_probed_again)
{
    static const struct candidate candidates[] = {{GOOD, {9, 9, 9, 9, 9}, KN},
                                                  {GOOD, {8, 8, 8, 8, 8}, KN}};
    static const struct candidate later[] = {{GOOD, {9, 9, 9, 9, 9}, KN},
                                             {VARIES, {8, 8, 8, 8, 8}, KN}};
    enum base_status status = BASE_OK;
    ck_assert_uint_eq(CHOSEN(candidates, &status), 1);
    ck_assert_uint_eq(script.stored, 1);
    ck_assert_uint_eq(CHOSEN(candidates, &status), 1);
    ck_assert_uint_eq(script.ranked + script.timed, 0);
    ck_assert_uint_eq(script.probed, 1);
    ck_assert_uint_eq(script.stored, 1);
    ck_assert_uint_eq(CHOSEN(later, &status), 0); // what was kept does not pass any more
    ck_assert_uint_eq(script.stored, 2);
    ck_assert_uint_eq(CHOSEN(later, &status), 0);
    ck_assert_uint_eq(script.ranked, 0);
}
END_TEST

START_TEST(test_that_none_passes_is_kept_too)
{
    static const struct candidate candidates[] = {{VARIES, {9, 9, 9, 9, 9}, KN},
                                                  {CANNOT, {8, 8, 8, 8, 8}, KN}};
    enum base_status status = BASE_OK;
    (void)CHOSEN(candidates, &status);
    ck_assert_int_eq(status, BASE_UNIMPLEMENTED);
    ck_assert_str_eq(script.text, "none\n");
    (void)CHOSEN(candidates, &status);
    ck_assert_int_eq(status, BASE_UNIMPLEMENTED);
    ck_assert_uint_eq(script.ranked + script.probed, 0);
}
END_TEST

START_TEST(test_all_fail_while_timed)
{
    static const struct candidate candidates[] = {{CANNOT_LONG, {9, 9, 9, 9, 9}, KN},
                                                  {CANNOT_LONG, {8, 8, 8, 8, 8}, KN}};
    enum base_status status = BASE_OK;
    (void)CHOSEN(candidates, &status);
    ck_assert_int_eq(status, BASE_UNIMPLEMENTED);
}
END_TEST

START_TEST(test_a_text_that_is_none_of_ours_is_measured_again)
{
    static const char older[] = "algo" // of a program that knew one order only
                                " 0000000000000000 0000000000000000 0000000000000000"
                                " 0000000000000000 0000000000000000 0000000000000000"
                                " 0000000000000000 fedcba9876543210\n";
    static const char *const texts[] = {
        "", "kn\n", "kn 1\n", "none", "kn 0 0 0 0 0 0 0 fedcba9876543210\n", older};
    static const struct candidate candidates[] = {{GOOD, {9, 9, 9, 9, 9}, KN}};
    enum base_status status = BASE_OK;
    snprintf(script.text, sizeof(script.text), "%s", texts[_i]);
    script.has_text = true;
    ck_assert_uint_eq(CHOSEN(candidates, &status), 0);
    ck_assert_uint_eq(script.ranked, CELL_STEP_ORDERS);
    ck_assert_uint_eq(script.stored, 1);
}
END_TEST

/* A lost card ends it, and nothing is kept; a library that ranks nothing has none. */
START_TEST(test_failures)
{
    static const struct candidate candidates[] = {{GOOD, {9, 9, 9, 9, 9}, KN},
                                                  {LOSES, {8, 8, 8, 8, 8}, KN}};
    enum base_status status = BASE_OK;
    (void)CHOSEN(candidates, &status);
    ck_assert_int_eq(status, BASE_UNAVAILABLE);
    script.rank_status = BASE_UNAVAILABLE;
    (void)CHOSEN(candidates, &status);
    ck_assert_int_eq(status, BASE_UNAVAILABLE);
    ck_assert_uint_eq(script.stored, 0);
    script.rank_status = BASE_UNIMPLEMENTED; // and there are none of the other order
    (void)CHOSEN(candidates, &status);
    ck_assert_int_eq(status, BASE_UNIMPLEMENTED);
    ck_assert_str_eq(script.text, "none\n");
}
END_TEST

START_TEST(test_without_a_cache)
{
    static const struct candidate candidates[] = {{GOOD, {9, 9, 9, 9, 9}, KN},
                                                  {GOOD, {8, 8, 8, 8, 8}, KN}};
    const struct cell_cuda_trial trial = {
        .context = &script, .rank = rank, .probe = probe, .time = time_it};
    struct cell_cuda_candidate chosen;
    script.candidates = candidates;
    script.n = 2;
    ck_assert_int_eq(cell_cuda_choose(&trial, &chosen), BASE_OK);
    ck_assert_uint_eq(chosen.algo.words[0], 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("choose");
    TCase *tcase = tcase_create("choose");
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, test_the_best_over_all_row_counts_of_those_that_pass);
    tcase_add_test(tcase, test_a_candidate_that_fails_while_timed_does_not_count);
    tcase_add_test(tcase, test_of_equal_ones_the_librarys_first);
    tcase_add_test(tcase, test_either_order_of_the_weights);
    tcase_add_test(tcase, test_the_order_is_kept);
    tcase_add_test(tcase, test_an_order_without_candidates);
    tcase_add_test(tcase, test_one_that_passes_is_not_timed);
    tcase_add_test(tcase, test_so_many_are_timed_and_no_more);
    tcase_add_test(tcase, test_a_choice_is_kept_and_probed_again);
    tcase_add_test(tcase, test_that_none_passes_is_kept_too);
    tcase_add_test(tcase, test_all_fail_while_timed);
    tcase_add_loop_test(tcase, test_a_text_that_is_none_of_ours_is_measured_again, 0, 6);
    tcase_add_test(tcase, test_failures);
    tcase_add_test(tcase, test_without_a_cache);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
