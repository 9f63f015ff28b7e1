/* Parameters of ModelInfer's messages: those that mean something, those that are passed over, and
 * those that cannot be honoured. */
#include "base/clock.h"
#include "tests/server/grpc_draft.h"
#include "tests/util.h"

static char key_timeout[] = "timeout";
static char key_priority[] = "priority";
static char key_sequence[] = "sequence_id";

static uint64_t timeout_of(const struct draft *draft)
{
    struct decoded decoded;
    draft_decode(draft, &decoded);
    ck_assert_msg(decoded.status == BASE_OK, "%s", decoded.error.message);
    uint64_t timeout_ns = decoded.request.timeout_ns;
    decoded_release(&decoded);
    return timeout_ns;
}

START_TEST(test_timeout_is_in_microseconds_and_the_last_counts)
{
    struct draft draft;
    draft_init(&draft);
    draft.message.n_parameters = 2;
    draft_set_int(&draft, 0, key_timeout, 5);
    draft_set_int(&draft, 1, key_timeout, 1500);
    ck_assert_uint_eq(timeout_of(&draft), 1500 * BASE_NS_PER_US);
    draft.values[1].parameter_choice_case =
        INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_UINT64_PARAM;
    draft.values[1].uint64_param = 2500;
    ck_assert_uint_eq(timeout_of(&draft), 2500 * BASE_NS_PER_US);
    draft.values[1].uint64_param = UINT64_MAX;
    ck_assert_uint_eq(timeout_of(&draft), 0);
    // A NULL value is a parameter without a value.
    draft.parameters[1].value = NULL;
    ck_assert_uint_eq(timeout_of(&draft), 0);
}
END_TEST

START_TEST(test_bound_of_steps)
{
    static char key_max_steps[] = "max_steps";
    static char key_beam[] = "beam";
    struct draft draft;
    struct decoded decoded;
    draft_init(&draft);
    draft_decode(&draft, &decoded);
    ck_assert_uint_eq(decoded.request.steps_max, 0);
    decoded_release(&decoded);
    draft.message.n_parameters = 1;
    draft_set_int(&draft, 0, key_max_steps, 12);
    draft_decode(&draft, &decoded);
    ck_assert_uint_eq(decoded.request.steps_max, 12);
    decoded_release(&decoded);
    draft_set_int(&draft, 0, key_max_steps, -1);
    draft_refused(&draft, "parameter 'max_steps' is negative");
    draft_set_int(&draft, 0, key_beam, 3);
    draft_decode(&draft, &decoded);
    ck_assert_uint_eq(decoded.request.beam, 3);
    decoded_release(&decoded);
    draft_set_int(&draft, 0, key_beam, -3);
    draft_refused(&draft, "parameter 'beam' is negative");
}
END_TEST

START_TEST(test_parameters_without_effect_are_accepted)
{
    struct draft draft;
    draft_init(&draft);
    static char key_own[] = "my_tag";
    static char empty[] = "";
    draft.message.n_parameters = 3;
    draft_set_int(&draft, 0, key_priority, 3);
    draft_set_int(&draft, 1, key_sequence, 0);
    draft_set_text(&draft, 2, key_own, draft_text_more);
    ck_assert_uint_eq(timeout_of(&draft), 0);
    draft_set_text(&draft, 1, key_sequence, empty);
    ck_assert_uint_eq(timeout_of(&draft), 0);
}
END_TEST

static void set_flag(struct draft *draft, uint32_t i, char *key, bool flag)
{
    draft_set_int(draft, i, key, 0);
    draft->values[i].parameter_choice_case =
        INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM;
    draft->values[i].bool_param = flag;
}

static char key_start[] = "sequence_start";
static char key_end[] = "sequence_end";
static char key_step[] = "sequence_step";

START_TEST(test_sessions)
{
    struct draft draft;
    struct decoded decoded;
    draft_init(&draft);
    draft_decode(&draft, &decoded);
    ck_assert_ptr_null(decoded.request.sequence.id);
    ck_assert(!decoded.request.sequence.has_step);
    decoded_release(&decoded);
    draft.message.n_parameters = 4;
    draft_set_text(&draft, 0, key_sequence, draft_text_more);
    set_flag(&draft, 1, key_start, true);
    set_flag(&draft, 2, key_end, true);
    draft_set_int(&draft, 3, key_step, 0);
    draft_decode(&draft, &decoded);
    ck_assert_msg(decoded.status == BASE_OK, "%s", decoded.error.message);
    ck_assert_str_eq(decoded.request.sequence.id, draft_text_more);
    ck_assert(decoded.request.sequence.is_start && decoded.request.sequence.is_end);
    ck_assert(decoded.request.sequence.has_step);
    ck_assert_uint_eq(decoded.request.sequence.step, 0);
    decoded_release(&decoded);
    draft_set_int(&draft, 0, key_sequence, 0);
    draft.values[0].parameter_choice_case =
        INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_UINT64_PARAM;
    draft.values[0].uint64_param = UINT64_MAX;
    set_flag(&draft, 2, key_end, false);
    draft_set_int(&draft, 3, key_step, 5);
    draft_decode(&draft, &decoded);
    ck_assert_str_eq(decoded.request.sequence.id, "18446744073709551615");
    ck_assert(decoded.request.sequence.is_start && !decoded.request.sequence.is_end);
    ck_assert_uint_eq(decoded.request.sequence.step, 5);
    decoded_release(&decoded);
}
END_TEST

START_TEST(test_sessions_that_are_refused)
{
    static char long_id[130];
    struct draft draft;
    draft_init(&draft);
    draft.message.n_parameters = 2;
    memset(long_id, 'x', sizeof(long_id) - 1);
    draft_set_text(&draft, 0, key_sequence, long_id);
    set_flag(&draft, 1, key_end, true);
    draft_refused(&draft, "parameter 'sequence_id' has 129 bytes, more than 128");
    draft_set_int(&draft, 0, key_sequence, -1);
    draft_refused(&draft, "parameter 'sequence_id' is negative");
    set_flag(&draft, 0, key_sequence, true);
    draft_refused(&draft, "parameter 'sequence_id' must be an int64 or a uint64, not a bool");
    draft_set_int(&draft, 0, key_sequence, 0);
    draft_refused(&draft, "parameter 'sequence_end' without a 'sequence_id' that is neither");
    set_flag(&draft, 1, key_start, true);
    draft_refused(&draft, "parameter 'sequence_start' without a 'sequence_id'");
    draft_set_int(&draft, 1, key_step, 0);
    draft_refused(&draft, "parameter 'sequence_step' without a 'sequence_id'");
    draft_set_int(&draft, 1, key_step, -1);
    draft_refused(&draft, "parameter 'sequence_step' is negative");
    draft_set_int(&draft, 1, key_start, 1);
    draft_refused(&draft, "parameter 'sequence_start' must be a bool, not an int64");
    // Clients send false with each request that is of no session.
    set_flag(&draft, 1, key_start, false);
    ck_assert_uint_eq(timeout_of(&draft), 0);
}
END_TEST

START_TEST(test_parameters_that_cannot_be_honoured_are_refused)
{
    struct draft draft;
    draft_init(&draft);
    draft.message.n_parameters = 1;
    draft_set_int(&draft, 0, key_timeout, -1);
    draft_refused(&draft, "parameter 'timeout' is negative");
    draft_set_text(&draft, 0, key_timeout, draft_text_more);
    draft_refused(&draft, "parameter 'timeout' must be an int64 or a uint64, not a string");
    draft.values[0].parameter_choice_case =
        INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_DOUBLE_PARAM;
    draft.parameters[0].key = key_priority;
    draft_refused(&draft, "parameter 'priority' must be an int64 or a uint64, not a double");

    draft.message.n_parameters = 0;
    Inference__ModelInferRequest__InferInputTensor__ParametersEntry entry;
    Inference__ModelInferRequest__InferInputTensor__ParametersEntry *entries[] = {&entry};
    inference__model_infer_request__infer_input_tensor__parameters_entry__init(&entry);
    static char key_region[] = "shared_memory_region";
    entry.key = key_region;
    draft.inputs[0].parameters = entries;
    draft.inputs[0].n_parameters = 1;
    draft_refused(&draft, "input parameter 'shared_memory_region' is not implemented");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grpc_parameters");
    TCase *tcase = tcase_create("parameters");
    tcase_add_test(tcase, test_timeout_is_in_microseconds_and_the_last_counts);
    tcase_add_test(tcase, test_bound_of_steps);
    tcase_add_test(tcase, test_parameters_without_effect_are_accepted);
    tcase_add_test(tcase, test_sessions);
    tcase_add_test(tcase, test_sessions_that_are_refused);
    tcase_add_test(tcase, test_parameters_that_cannot_be_honoured_are_refused);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
