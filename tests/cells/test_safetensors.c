/* The reader of safetensors files: what good ones hold, and that each way of being wrong is refused
 * with words that say where. */
#include "cells/import/safetensors.h"

#include "base/mem.h"
#include "tests/cells/stored.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

#define TENSOR(name, dtype, shape, offsets)                                                        \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

enum { ARENA_CHUNK = 4096, ARENA_BUDGET = 64 << 20 };

static struct base_arena arena;
static struct cell__store store;
static struct base_error error;

static void setup(void)
{
    base_arena_init(&arena, ARENA_CHUNK, ARENA_BUDGET);
}

static void teardown(void)
{
    base_arena_release(&arena);
}

static enum base_status read_text(const char *header, size_t header_length, size_t data_bytes)
{
    struct cell_model_file file = {NULL, 0, NULL};
    uint8_t *bytes = stored_raw(header, header_length, data_bytes, &file.length);
    file.bytes = bytes;
    error = (struct base_error){.message = ""};
    const enum base_status status = cell__safetensors_read(&arena, file, &store, &error);
    base_free(bytes);
    return status;
}

static void expect_refused(const char *header, size_t data_bytes, enum base_status wanted,
                           const char *why)
{
    const enum base_status status = read_text(header, strlen(header), data_bytes);
    ck_assert_msg(status == wanted && strstr(error.message, why) != NULL, "%.100s: %s: %s", header,
                  base_status_name(status), error.message);
}

/* ---- Good files --------------------------------------------------------------------------- */

START_TEST(test_tensors_are_found_in_the_order_of_the_data)
{
    static const float numbers[] = {1.5f, -2.0f, 3.25f};
    struct stored_file file;
    stored_init(&file);
    stored_add_bytes(&file, "half", "F16", "3", "\0\0\0\0\0\0", 6);
    stored_add_bytes(&file, "b.weight", "F32", "1 3", numbers, sizeof(numbers));
    stored_add_bytes(&file, "empty", "I64", "2 0", "", 0);
    stored_add_bytes(&file, "scalar", "BF16", "", "\0\0", 2);
    ck_assert_int_eq(cell__safetensors_read(&arena, stored_file(&file), &store, &error), BASE_OK);
    ck_assert_uint_eq(store.n, 4);
    ck_assert_str_eq(store.format, "");
    ck_assert_str_eq(store.tensors[0].name, "half");
    ck_assert_int_eq(store.tensors[0].encoding, CELL__ENCODING_F16);
    const struct cell__stored *weight = &store.tensors[1];
    ck_assert_str_eq(weight->name, "b.weight");
    ck_assert_int_eq(weight->encoding, CELL__ENCODING_F32);
    ck_assert_uint_eq(weight->rank, 2);
    ck_assert_int_eq(weight->dims[0], 1);
    ck_assert_int_eq(weight->dims[1], 3);
    ck_assert_uint_eq(weight->count, 3);
    ck_assert_mem_eq(weight->bytes, numbers, sizeof(numbers));
    ck_assert_str_eq(store.tensors[2].name, "empty");
    ck_assert_uint_eq(store.tensors[2].count, 0);
    ck_assert_int_eq(store.tensors[2].encoding, CELL__ENCODING_OTHER);
    ck_assert_str_eq(store.tensors[3].name, "scalar");
    ck_assert_uint_eq(store.tensors[3].rank, 0);
    ck_assert_uint_eq(store.tensors[3].count, 1);
    ck_assert_uint_eq(store.float_bytes, (3 + 3 + 1) * sizeof(float));
    stored_release(&file);
}
END_TEST

START_TEST(test_good_headers)
{
    static const struct {
        const char *header;
        size_t data_bytes;
        uint32_t n;
    } good[] = {
        {"{}", 0, 0},
        {"{}    ", 0, 0}, // padded to a multiple of 8
        {"{\"__metadata__\":{}}", 0, 0},
        {"{\"__metadata__\":{\"format\":\"pt\",\"more\":\"{[{[{[\\\"\"}}", 0, 0},
        {"{" TENSOR("b", "U8", "[4]", "[3,7]") "," TENSOR("a", "BOOL", "[3]", "[0,3]") "}", 7, 2},
        {"{" TENSOR("a", "U8", "[0]", "[2,2]") "," TENSOR("b", "U8", "[2]", "[0,2]") "}", 2, 2},
        {"{" TENSOR("gr\xC3\xBC\xC3\x9F", "F64", "[1,1,1,1,1,1,1,1]", "[0,8]") "}", 8, 1},
        {"{" TENSOR("", "C64", "[]", "[0,8]") "}", 8, 1},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        const char *header = good[i].header;
        ck_assert_msg(read_text(header, strlen(header), good[i].data_bytes) == BASE_OK, "%s: %s",
                      header, error.message);
        ck_assert_uint_eq(store.n, good[i].n);
    }
    ck_assert_int_eq(read_text(good[3].header, strlen(good[3].header), 0), BASE_OK);
    ck_assert_str_eq(store.format, "pt");
}
END_TEST

/* ---- Files that are none ------------------------------------------------------------------ */

START_TEST(test_a_cut_file_is_refused_at_every_length)
{
    struct stored_file file;
    stored_init(&file);
    stored_add(&file, "a", "2 3");
    stored_add(&file, "b", "4");
    const struct cell_model_file whole = stored_file(&file);
    ck_assert_int_eq(cell__safetensors_read(&arena, whole, &store, &error), BASE_OK);
    for (size_t length = 0; length < whole.length; length++) {
        uint8_t *part = base_alloc(length + 1); // so that a sanitizer sees every step beyond
        memcpy(part, whole.bytes, length);
        uint8_t *exact = length > 0 ? base_realloc(part, length) : part;
        ck_assert_int_eq(cell__safetensors_read(
                             &arena, (struct cell_model_file){exact, length, NULL}, &store, &error),
                         BASE_INVALID_ARGUMENT);
        base_free(exact);
    }
    stored_release(&file);
}
END_TEST

START_TEST(test_lengths_of_headers_that_cannot_be)
{
    static const uint64_t lengths[] = {3, 100, (uint64_t)1 << 32, INT64_MAX, UINT64_MAX};
    uint8_t bytes[8 + 2] = {0, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        memcpy(bytes, &lengths[i], sizeof(lengths[i]));
        ck_assert_int_eq(cell__safetensors_read(&arena, (struct cell_model_file){bytes, 10, NULL},
                                                &store, &error),
                         BASE_INVALID_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(error.message, "does not end in its 10 bytes"));
    }
    char *header = base_alloc(CELL__HEADER_BYTES_MAX + 1);
    memset(header, ' ', CELL__HEADER_BYTES_MAX + 1);
    header[0] = '{';
    header[1] = '}';
    ck_assert_int_eq(read_text(header, CELL__HEADER_BYTES_MAX, 0), BASE_OK);
    ck_assert_int_eq(read_text(header, CELL__HEADER_BYTES_MAX + 1, 0), BASE_RESOURCE_EXHAUSTED);
    base_free(header);
}
END_TEST

START_TEST(test_headers_that_are_no_json)
{
    static const char *const bad[][2] = {
        {"", "does not begin with {"},
        {" {}", "does not begin with {"},
        {"[]", "does not begin with {"},
        {"\"a\"", "does not begin with {"},
        {"{", "no JSON"},
        {"{}{}", "no JSON"},
        {"{\"a\":1,}", "no JSON"},
        {"{\"\xFF\":1}", "no JSON"},
        {"{\"\xC3(\":1}", "no JSON"},
        {"{\"\\ud800\":1}", "no JSON"},
        {"{\"a\\u0000b\":1}", "no JSON"},
        {"{\"a\":99999999999999999999}", "no JSON"},
        {"{" TENSOR("a", "U8", "[1]", "[0,1]") "," TENSOR("a", "U8", "[1]", "[0,1]") "}",
         "duplicate"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
         "duplicate"},
        {"{\"a\":{\"b\":[[1]]}}", "nested deeper than 3 at byte 11"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        expect_refused(bad[i][0], 1, BASE_INVALID_ARGUMENT, bad[i][1]);
    }
    ck_assert_int_eq(read_text("{}\0", 3, 0), BASE_INVALID_ARGUMENT);
}
END_TEST

START_TEST(test_deep_headers_end_early)
{
    static char deep[1 << 20];
    static const char begin[5] = {'{', '"', 'a', '"', ':'};
    memset(deep, '[', sizeof(deep));
    memcpy(deep, begin, sizeof(begin));
    ck_assert_int_eq(read_text(deep, sizeof(deep), 0), BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(error.message, "nested deeper"));
}
END_TEST

START_TEST(test_a_header_that_takes_too_much_memory)
{
    static char wide[1 << 16];
    size_t length = 0;
    base_arena_release(&arena);
    base_arena_init(&arena, ARENA_CHUNK, 1 << 18);
    length += (size_t)snprintf(wide, sizeof(wide), "{\"a\":[0");
    while (length < sizeof(wide) - 4) {
        length += (size_t)snprintf(wide + length, sizeof(wide) - length, ",0");
    }
    length += (size_t)snprintf(wide + length, sizeof(wide) - length, "]}");
    ck_assert_int_eq(read_text(wide, length, 0), BASE_RESOURCE_EXHAUSTED);
}
END_TEST

START_TEST(test_tensors_that_are_not_told)
{
    static const char *const bad[][2] = {
        {"{\"a\":1}", "not told by dtype, shape and data_offsets"},
        {"{\"a\":{}}", "not told by"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8]}}", "not told by"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8],\"x\":1}}", "not told by"},
        {"{\"a\":{\"dtype\":8,\"shape\":[8],\"data_offsets\":[0,8]}}", "not told by"},
        {"{\"a\":{\"DTYPE\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}", "not told by"},
        {"{" TENSOR("a", "U9", "[8]", "[0,8]") "}", "of type \"U9\", which is none"},
        {"{" TENSOR("a", "f32", "[2]", "[0,8]") "}", "of type \"f32\", which is none"},
        {"{" TENSOR("a", "U8", "8", "[0,8]") "}", "has no shape"},
        {"{" TENSOR("a", "U8", "{}", "[0,8]") "}", "has no shape"},
        {"{" TENSOR("a", "U8", "[8.0]", "[0,8]") "}", "dimension 0 of tensor \"a\""},
        {"{" TENSOR("a", "U8", "[8,\"1\"]", "[0,8]") "}", "dimension 1 of tensor \"a\""},
        {"{" TENSOR("a", "U8", "[-8]", "[0,8]") "}", "is no whole number"},
        {"{" TENSOR("a", "U8", "[8]", "8") "}", "no data_offsets of two whole numbers"},
        {"{" TENSOR("a", "U8", "[8]", "[8]") "}", "no data_offsets"},
        {"{" TENSOR("a", "U8", "[8]", "[0,8,8]") "}", "no data_offsets"},
        {"{" TENSOR("a", "U8", "[8]", "[-8,0]") "}", "no data_offsets"},
        {"{" TENSOR("a", "U8", "[8]", "[0,8.0]") "}", "no data_offsets"},
        {"{\"__metadata__\":1}", "__metadata__ is no object"},
        {"{\"__metadata__\":{\"a\":1}}", "__metadata__: \"a\" is no text"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        expect_refused(bad[i][0], 8, BASE_INVALID_ARGUMENT, bad[i][1]);
    }
    expect_refused("{" TENSOR("a", "U8", "[1,1,1,1,1,1,1,1,8]", "[0,8]") "}", 8, BASE_UNIMPLEMENTED,
                   "has rank 9; at most 8");
}
END_TEST

START_TEST(test_places_that_do_not_fit)
{
    static const char *const bad[][2] = {
        {"{" TENSOR("a", "U8", "[9]", "[0,9]") "}", "stands at 0 to 9 of 8 bytes of data"},
        {"{" TENSOR("a", "U8", "[0]", "[9,9]") "}", "stands at 9 to 9"},
        {"{" TENSOR("a", "U8", "[8]", "[8,0]") "}", "stands at 8 to 0"},
        {"{" TENSOR("a", "U8", "[8]", "[0,9223372036854775807]") "}", "of 8 bytes of data"},
        {"{" TENSOR("a", "U8", "[7]", "[0,8]") "}", "has 8 bytes, and 7 elements of type U8"},
        {"{" TENSOR("a", "F32", "[8]", "[0,8]") "}", "has 8 bytes, and 8 elements of type F32"},
        {"{" TENSOR("a", "F32", "[0,2]", "[0,8]") "}", "and 0 elements"},
        {"{" TENSOR("a", "F32", "[4611686018427387904]", "[0,0]") "}", "has 0 bytes"},
        {"{" TENSOR("a", "F32", "[4294967296,4294967296]", "[0,0]") "}",
         "more elements than can be counted"},
        {"{" TENSOR("a", "U8", "[9223372036854775807,3]", "[0,8]") "}", "can be counted"},
        {"{" TENSOR("a", "U8", "[4]", "[0,4]") "," TENSOR("b", "U8", "[6]", "[2,8]") "}",
         "tensor \"b\" begins at byte 2 of the data, inside another"},
        {"{" TENSOR("a", "U8", "[8]", "[0,8]") "," TENSOR("b", "U8", "[8]", "[0,8]") "}",
         "begins at byte 0 of the data, inside another"},
        {"{" TENSOR("a", "U8", "[3]", "[0,3]") "," TENSOR("b", "U8", "[4]", "[4,8]") "}",
         "bytes 3 to 4 of the data belong to no tensor"},
        {"{" TENSOR("a", "U8", "[7]", "[1,8]") "}", "bytes 0 to 1 of the data"},
        {"{" TENSOR("a", "U8", "[7]", "[0,7]") "}", "the tensors end at byte 7 of 8"},
        {"{}", "the tensors end at byte 0 of 8"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        expect_refused(bad[i][0], 8, BASE_INVALID_ARGUMENT, bad[i][1]);
    }
}
END_TEST

START_TEST(test_when_allocations_fail)
{
    static const char header[] = "{" TENSOR("a", "U8", "[8]", "[0,8]") "}";
    struct cell_model_file file = {NULL, 0, NULL};
    uint8_t *bytes = stored_raw(header, sizeof(header) - 1, 8, &file.length);
    file.bytes = bytes;
    enum base_status status = BASE_INTERNAL;
    for (uint64_t n = 1; status != BASE_OK; n++) {
        ck_assert_uint_lt(n, 20);
        base_arena_release(&arena);
        base_arena_init(&arena, 256, ARENA_BUDGET);
        base_alloc_fail_at(n);
        status = cell__safetensors_read(&arena, file, &store, &error);
        base_alloc_fail_at(0);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
    }
    base_free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *good = tcase_create("good");
    tcase_add_checked_fixture(good, setup, teardown);
    tcase_add_test(good, test_tensors_are_found_in_the_order_of_the_data);
    tcase_add_test(good, test_good_headers);
    suite_add_tcase(suite, good);
    TCase *bad = tcase_create("bad");
    tcase_add_checked_fixture(bad, setup, teardown);
    tcase_add_test(bad, test_a_cut_file_is_refused_at_every_length);
    tcase_add_test(bad, test_lengths_of_headers_that_cannot_be);
    tcase_add_test(bad, test_headers_that_are_no_json);
    tcase_add_test(bad, test_deep_headers_end_early);
    tcase_add_test(bad, test_a_header_that_takes_too_much_memory);
    tcase_add_test(bad, test_tensors_that_are_not_told);
    tcase_add_test(bad, test_places_that_do_not_fit);
    tcase_add_test(bad, test_when_allocations_fail);
    suite_add_tcase(suite, bad);
    return util_run(suite);
}
