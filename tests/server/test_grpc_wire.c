/* The protobuf wire reader and writer on bytes: what is well formed comes out whole, what is not is
 * refused at the first bad byte, and nothing is read past the end. */
#include "server/grpc/wire.h"

#include "tests/util.h"

#include <check.h>
#include <string.h>

/* A reader over a heap copy of exactly these bytes, so that ASan sees every read past them. */
static struct srv_grpc_bytes copy_of(const void *bytes, size_t length, void **memory)
{
    *memory = malloc(length == 0 ? 1 : length);
    ck_assert_ptr_nonnull(*memory);
    memcpy(*memory, bytes, length);
    return (struct srv_grpc_bytes){*memory, length};
}

START_TEST(test_wire_reads_every_wire_type)
{
    static const uint8_t message[] = {
        0x08, 0x96, 0x01,                            /* 1: varint 150 */
        0x11, 1,    0,    0,    0,    0, 0, 0, 0x80, /* 2: fixed64 */
        0x1a, 3,    'a',  'b',  'c',                 /* 3: bytes */
        0x25, 0,    0,    0x80, 0x3f,                /* 4: fixed32 */
        0xf8, 0xff, 0xff, 0xff, 0x0f, 0,             /* 536870911: varint 0 */
    };
    void *memory;
    struct srv_grpc_wire wire = srv_grpc_wire_open(copy_of(message, sizeof message, &memory));
    struct srv_grpc_field field;
    ck_assert(srv_grpc_wire_next(&wire, &field));
    ck_assert_uint_eq(field.number, 1);
    ck_assert_uint_eq(field.value, 150);
    ck_assert(srv_grpc_wire_next(&wire, &field));
    ck_assert_uint_eq(field.type, SRV_GRPC_FIXED64);
    ck_assert_uint_eq(field.value, 0x8000000000000001u);
    ck_assert(srv_grpc_wire_next(&wire, &field));
    ck_assert(srv_grpc_bytes_equal(field.bytes, "abc"));
    ck_assert(srv_grpc_wire_next(&wire, &field));
    ck_assert_uint_eq(field.value, 0x3f800000);
    ck_assert(srv_grpc_wire_next(&wire, &field));
    ck_assert_uint_eq(field.number, 536870911);
    ck_assert(!srv_grpc_wire_next(&wire, &field));
    ck_assert(!wire.broken);
    free(memory);
}
END_TEST

static const struct {
    const char *what;
    size_t length;
    uint8_t bytes[12];
} malformed[] = {
    {"field number 0", 2, {0x00, 0x01}},
    {"a tag alone", 1, {0x08}},
    {"an endless tag", 2, {0x88, 0x80}},
    {"a tag of more than 32 bits", 6, {0x88, 0x80, 0x80, 0x80, 0x10, 0}},
    {"a varint cut short", 3, {0x08, 0x80, 0x80}},
    {"a varint of eleven bytes",
     12,
     {0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}},
    {"a varint of 65 bits", 11, {0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}},
    {"a length past the end", 3, {0x0a, 0x02, 'a'}},
    {"a length of 2^64 - 1",
     11,
     {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
    {"fixed64 cut short", 8, {0x11, 1, 2, 3, 4, 5, 6, 7}},
    {"fixed32 cut short", 4, {0x25, 1, 2, 3}},
    {"a group's start", 2, {0x0b, 0x0c}},
    {"a group's end", 1, {0x0c}},
    {"wire type 6", 2, {0x0e, 0}},
    {"wire type 7", 2, {0x0f, 0}},
};

START_TEST(test_wire_refuses_what_is_malformed)
{
    void *memory;
    struct srv_grpc_wire wire =
        srv_grpc_wire_open(copy_of(malformed[_i].bytes, malformed[_i].length, &memory));
    struct srv_grpc_field field;
    ck_assert_msg(!srv_grpc_wire_next(&wire, &field), "%s", malformed[_i].what);
    ck_assert_msg(wire.broken, "%s", malformed[_i].what);
    // It stays at its end.
    ck_assert(!srv_grpc_wire_next(&wire, &field));
    ck_assert(wire.broken);
    free(memory);
}
END_TEST

START_TEST(test_wire_varint_comes_back_as_written)
{
    static const uint64_t values[] = {0,     1,          127,        128,       16383,
                                      16384, UINT32_MAX, 1ull << 32, INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        uint8_t bytes[10];
        size_t length = srv_grpc_varint_bytes(values[i]);
        ck_assert_ptr_eq(srv_grpc_put_varint(bytes, values[i]), bytes + length);
        struct srv_grpc_wire wire = srv_grpc_wire_open((struct srv_grpc_bytes){bytes, length});
        uint64_t value;
        ck_assert(srv_grpc_wire_varint(&wire, &value));
        ck_assert_uint_eq(value, values[i]);
        ck_assert_ptr_eq(wire.at, wire.end);
    }
}
END_TEST

START_TEST(test_wire_counts_packed_varints)
{
    size_t count;
    static const uint8_t three[] = {1, 0x80, 1, 0xff, 0xff, 3};
    ck_assert(srv_grpc_wire_count_varints((struct srv_grpc_bytes){three, 6}, &count));
    ck_assert_uint_eq(count, 3);
    ck_assert(!srv_grpc_wire_count_varints((struct srv_grpc_bytes){three, 2}, &count));
    ck_assert(srv_grpc_wire_count_varints((struct srv_grpc_bytes){NULL, 0}, &count));
    ck_assert_uint_eq(count, 0);
}
END_TEST

START_TEST(test_wire_text_is_utf8_without_nul)
{
    static const struct {
        size_t length;
        uint8_t bytes[4];
        bool good;
    } cases[] = {
        {1, {'a'}, true},
        {2, {0xc3, 0xa4}, true},
        {3, {0xe2, 0x82, 0xac}, true},
        {4, {0xf4, 0x8f, 0xbf, 0xbf}, true},
        {1, {0}, false},
        {3, {'a', 0, 'b'}, false},
        {1, {0x80}, false},
        {2, {0xc0, 0x80}, false},             /* overlong */
        {3, {0xe0, 0x80, 0x80}, false},       /* overlong */
        {3, {0xed, 0xa0, 0x80}, false},       /* surrogate */
        {4, {0xf4, 0x90, 0x80, 0x80}, false}, /* above U+10FFFF */
        {2, {0xe2, 0x82}, false},             /* cut short */
        {3, {0xe2, 0x28, 0xa1}, false},
        {1, {0xff}, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        void *memory;
        struct srv_grpc_bytes text = copy_of(cases[i].bytes, cases[i].length, &memory);
        ck_assert_msg(srv_grpc_wire_is_text(text) == cases[i].good, "case %zu", i);
        free(memory);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grpc_wire");
    TCase *tcase = tcase_create("wire");
    tcase_add_test(tcase, test_wire_reads_every_wire_type);
    tcase_add_loop_test(tcase, test_wire_refuses_what_is_malformed, 0,
                        (int)(sizeof malformed / sizeof malformed[0]));
    tcase_add_test(tcase, test_wire_varint_comes_back_as_written);
    tcase_add_test(tcase, test_wire_counts_packed_varints);
    tcase_add_test(tcase, test_wire_text_is_utf8_without_nul);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
