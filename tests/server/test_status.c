/* Status codes: every status has a code on both wires, and the documented pairs hold. */
#include "server/status.h"

#include "tests/util.h"

#include <check.h>
#include <grpc/status.h>

START_TEST(test_status_grpc_code_has_the_same_name)
{
    static const struct {
        enum base_status status;
        int code;
    } pairs[] = {
        {BASE_OK, GRPC_STATUS_OK},
        {BASE_CANCELLED, GRPC_STATUS_CANCELLED},
        {BASE_INVALID_ARGUMENT, GRPC_STATUS_INVALID_ARGUMENT},
        {BASE_DEADLINE_EXCEEDED, GRPC_STATUS_DEADLINE_EXCEEDED},
        {BASE_NOT_FOUND, GRPC_STATUS_NOT_FOUND},
        {BASE_ALREADY_EXISTS, GRPC_STATUS_ALREADY_EXISTS},
        {BASE_RESOURCE_EXHAUSTED, GRPC_STATUS_RESOURCE_EXHAUSTED},
        {BASE_FAILED_PRECONDITION, GRPC_STATUS_FAILED_PRECONDITION},
        {BASE_UNIMPLEMENTED, GRPC_STATUS_UNIMPLEMENTED},
        {BASE_INTERNAL, GRPC_STATUS_INTERNAL},
        {BASE_UNAVAILABLE, GRPC_STATUS_UNAVAILABLE},
        {BASE_UNAUTHENTICATED, GRPC_STATUS_UNAUTHENTICATED},
        {BASE_PERMISSION_DENIED, GRPC_STATUS_PERMISSION_DENIED},
    };
    ck_assert_uint_eq(sizeof pairs / sizeof pairs[0], BASE_STATUS_COUNT);
    for (size_t i = 0; i < BASE_STATUS_COUNT; i++) {
        ck_assert_int_eq(srv_status_grpc(pairs[i].status), pairs[i].code);
    }
}
END_TEST

START_TEST(test_status_http_code_follows_the_table)
{
    ck_assert_int_eq(srv_status_http(BASE_OK), 200);
    ck_assert_int_eq(srv_status_http(BASE_CANCELLED), 499);
    ck_assert_int_eq(srv_status_http(BASE_INVALID_ARGUMENT), 400);
    ck_assert_int_eq(srv_status_http(BASE_DEADLINE_EXCEEDED), 504);
    ck_assert_int_eq(srv_status_http(BASE_NOT_FOUND), 404);
    ck_assert_int_eq(srv_status_http(BASE_UNAUTHENTICATED), 401);
    ck_assert_int_eq(srv_status_http(BASE_PERMISSION_DENIED), 403);
    ck_assert_int_eq(srv_status_http(BASE_ALREADY_EXISTS), 409);
    ck_assert_int_eq(srv_status_http(BASE_RESOURCE_EXHAUSTED), 429);
    ck_assert_int_eq(srv_status_http(BASE_FAILED_PRECONDITION), 400);
    ck_assert_int_eq(srv_status_http(BASE_UNIMPLEMENTED), 501);
    ck_assert_int_eq(srv_status_http(BASE_INTERNAL), 500);
    ck_assert_int_eq(srv_status_http(BASE_UNAVAILABLE), 503);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("status");
    TCase *tcase = tcase_create("codes");
    tcase_add_test(tcase, test_status_grpc_code_has_the_same_name);
    tcase_add_test(tcase, test_status_http_code_follows_the_table);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
