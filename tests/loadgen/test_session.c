/* Sessions of the load generator: what a server is told of them, request by request. */
#include "loadgen/session.h"

#include "proto/inference.pb-c.h"
#include "tests/util.h"

#include <string.h>

/* What the bytes say, as protobuf reads them. */
struct told {
    char id[64];
    bool is_start, is_end;
    size_t n;
};

static struct told read(const struct lg_session *session)
{
    struct told told = {.n = 0};
    Inference__ModelInferRequest *request =
        inference__model_infer_request__unpack(NULL, session->n_bytes, session->bytes);
    ck_assert_ptr_nonnull(request);
    told.n = request->n_parameters;
    for (size_t i = 0; i < request->n_parameters; i++) {
        const Inference__ModelInferRequest__ParametersEntry *entry = request->parameters[i];
        if (strcmp(entry->key, "sequence_id") == 0) {
            ck_assert_int_eq(entry->value->parameter_choice_case,
                             INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_STRING_PARAM);
            ck_assert_uint_lt(strlen(entry->value->string_param), sizeof(told.id));
            memcpy(told.id, entry->value->string_param, strlen(entry->value->string_param) + 1);
        } else {
            ck_assert_int_eq(entry->value->parameter_choice_case,
                             INFERENCE__INFER_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM);
            ck_assert(entry->value->bool_param);
            told.is_start = told.is_start || strcmp(entry->key, "sequence_start") == 0;
            told.is_end = told.is_end || strcmp(entry->key, "sequence_end") == 0;
        }
    }
    inference__model_infer_request__free_unpacked(request, NULL);
    return told;
}

START_TEST(test_requests_of_a_session)
{
    enum { LENGTH = 3 };
    struct lg_session session = {.number = 0};
    uint64_t begun = 0;
    char first[64] = "";
    for (uint32_t i = 0; i < 2 * LENGTH; i++) {
        lg_session_next(&session, LENGTH, 0xabc, &begun);
        const struct told told = read(&session);
        ck_assert_uint_eq(told.n, i % LENGTH == 1 ? 1 : 2);
        ck_assert(told.is_start == (i % LENGTH == 0));
        ck_assert(told.is_end == (i % LENGTH == 2));
        if (i % LENGTH == 0) {
            ck_assert_str_ne(told.id, first);
            memcpy(first, told.id, sizeof(first));
        }
        ck_assert_str_eq(told.id, first);
        lg_session_end(&session, LENGTH, true);
    }
    ck_assert_uint_eq(begun, 2);
    ck_assert_str_eq(first, "abc-2");
}
END_TEST

START_TEST(test_a_session_of_one_request_begins_and_ends)
{
    struct lg_session session = {.number = 0};
    uint64_t begun = 41;
    lg_session_next(&session, 1, UINT64_MAX, &begun);
    const struct told told = read(&session);
    ck_assert(told.is_start && told.is_end);
    ck_assert_uint_eq(told.n, 3);
    ck_assert_str_eq(told.id, "ffffffffffffffff-42");
    ck_assert_uint_lt(session.n_bytes, LG_SESSION_BYTES - 16); // numbers grow
}
END_TEST

START_TEST(test_after_a_failure_a_new_session_begins)
{
    struct lg_session session = {.number = 0};
    uint64_t begun = 0;
    lg_session_next(&session, 3, 1, &begun);
    lg_session_end(&session, 3, true);
    lg_session_next(&session, 3, 1, &begun);
    ck_assert_str_eq(read(&session).id, "1-1");
    lg_session_end(&session, 3, false);
    lg_session_next(&session, 3, 1, &begun);
    const struct told told = read(&session);
    ck_assert(told.is_start && !told.is_end);
    ck_assert_str_eq(told.id, "1-2");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("session");
    TCase *tcase = tcase_create("session");
    tcase_add_test(tcase, test_requests_of_a_session);
    tcase_add_test(tcase, test_a_session_of_one_request_begins_and_ends);
    tcase_add_test(tcase, test_after_a_failure_a_new_session_begins);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
