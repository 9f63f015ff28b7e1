/* The lane's protocol, proved for small bounds: all interleavings, all values that the memory model
 * allows (tests/lane/model.h). Then each order of the contract's table is taken away, and each step
 * done wrong that a hurried hand might do wrong, and the proof must fail. */
#include "tests/lane/model.h"
#include "tests/util.h"

#include <stdio.h>

static const char *const site_names[] = {
#define NAME(name, order) #name,
    CELL_LANE_SITES(NAME)
#undef NAME
};

/* What the checks range over: both forms, a ring of one slot and of two, with an op PARK between
 * tasks that run, with more tasks than slots, and a lane that takes tasks one by one or ahead. */
static uint32_t variant(uint32_t n, struct model_options *options)
{
    model_options_init(options);
    options->form = (n & 1) != 0 ? CELL_LANE_FORM_TAGGED : CELL_LANE_FORM_PLAIN;
    options->n_slots = (n & 2) != 0 ? 1 : 2;
    options->park_op = (n & 4) != 0 ? 1 : 0;
    options->is_ahead = (n & 8) != 0;
    return 16;
}

static void assert_right(const struct model_options *options, const char *what)
{
    struct model_result result;
    model_check(options, &result);
    ck_assert_msg(result.violation == NULL, "%s: %s", what, result.violation);
    ck_assert_msg(result.is_whole, "%s: more than %u states", what, result.states);
    printf("%s: %u states, %u steps\n", what, result.states, result.edges);
}

START_TEST(test_protocol_holds)
{
    struct model_options options;
    char what[64];
    for (uint32_t n = 0; n < variant(n, &options); n++) {
        snprintf(what, sizeof(what), "variant %u", n);
        assert_right(&options, what);
    }
}
END_TEST

/* A longer run of more tasks; where it must be quick nobody dies in it, and nobody calls. */
START_TEST(test_protocol_holds_for_more_tasks)
{
    struct model_options options;
    for (uint32_t n = 0; n < 8; n++) {
        (void)variant(n < 4 ? n : n + 4, &options);
        options.n_tasks = 3;
        // Two threads of a lane have many more interleavings: there the watchdog is never wrong.
        options.aborts_max = options.is_ahead ? 0 : options.aborts_max;
        if (util_is_quick()) {
            options.aborts_max = 0;
            options.faults_max = 0;
            options.attentions_max = 0;
        }
        assert_right(&options, "three tasks");
    }
}
END_TEST

START_TEST(test_protocol_holds_for_more_launches)
{
    struct model_options options;
    for (uint32_t n = 0; n < 8; n++) {
        (void)variant(n < 4 ? n : n + 4, &options);
        options.parks_max = 2;
        options.aborts_max = util_is_quick() ? 1 : 2;
        assert_right(&options, "more launches");
    }
}
END_TEST

/* Whether any of the variants finds it: of a lane that takes tasks one by one, or ahead. */
static bool is_caught(const struct model_options *mutant, bool is_ahead, const char **why)
{
    struct model_options options;
    for (uint32_t n = 0; n < variant(n, &options); n++) {
        if (options.is_ahead != is_ahead) {
            continue;
        }
        struct model_result result;
        for (uint32_t s = 0; s < CELL_LANE_SITE_COUNT; s++) {
            options.orders[s] = mutant->orders[s];
        }
        options.mutant = mutant->mutant;
        model_check(&options, &result);
        if (result.violation != NULL) {
            *why = result.violation;
            return true;
        }
    }
    return false;
}

START_TEST(test_every_order_of_the_table_is_needed)
{
    uint32_t taken_away = 0;
    for (uint32_t s = 0; s < CELL_LANE_SITE_COUNT; s++) {
        struct model_options mutant;
        const char *why = NULL;
        model_options_init(&mutant);
        if (mutant.orders[s] != CELL_LANE_ACQUIRE && mutant.orders[s] != CELL_LANE_RELEASE) {
            continue;
        }
        mutant.orders[s] = CELL_LANE_RELAXED;
        for (int is_ahead = 0; is_ahead < 2; is_ahead++) {
            ck_assert_msg(is_caught(&mutant, is_ahead != 0, &why),
                          "%s may be relaxed, and nobody notices (%d)", site_names[s], is_ahead);
            printf("%s relaxed: %s\n", site_names[s], why);
            taken_away++;
        }
    }
    ck_assert_uint_eq(taken_away, 2 * 8);
}
END_TEST

START_TEST(test_every_step_done_wrong_is_noticed)
{
    for (uint32_t m = MODEL_RIGHT + 1; m < MODEL_MUTANTS; m++) {
        struct model_options mutant;
        const char *why = NULL;
        model_options_init(&mutant);
        mutant.mutant = (enum model_mutant)m;
        const bool is_of_both = m < MODEL_LEAVES_BACK;
        for (int is_ahead = is_of_both ? 0 : 1; is_ahead < 2; is_ahead++) {
            ck_assert_msg(is_caught(&mutant, is_ahead != 0, &why), "mutant %u: nobody notices (%d)",
                          m, is_ahead);
            printf("mutant %u: %s\n", m, why);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lane_model");
    TCase *tcase = tcase_create("lane_model");
    tcase_add_test(tcase, test_protocol_holds);
    tcase_add_test(tcase, test_protocol_holds_for_more_tasks);
    tcase_add_test(tcase, test_protocol_holds_for_more_launches);
    tcase_add_test(tcase, test_every_order_of_the_table_is_needed);
    tcase_add_test(tcase, test_every_step_done_wrong_is_noticed);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
