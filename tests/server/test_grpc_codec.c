/* ModelInfer's messages: what a client can send arrives whole and where possible in place; what it
 * must not send is refused by name. */
#include "server/grpc/codec.h"

#include "base/clock.h"
#include "base/mem.h"
#include "tests/server/grpc_draft.h"
#include "tests/util.h"

#include <check.h>
#include <string.h>

static bool lies_in_message(const struct decoded *decoded, const struct srv_tensor *tensor)
{
    return tensor->data >= decoded->bytes &&
           tensor->data + tensor->bytes <= decoded->bytes + decoded->length;
}

START_TEST(test_codec_raw_tensor_stays_in_the_message)
{
    struct draft draft;
    draft_init(&draft);
    struct decoded decoded;
    draft_decode(&draft, &decoded);
    ck_assert_int_eq(decoded.status, BASE_OK);
    struct srv_request *request = &decoded.request;
    ck_assert_str_eq(request->model_name, "m");
    ck_assert_str_eq(request->model_version, "");
    ck_assert_str_eq(request->id, "r1");
    ck_assert_uint_eq(request->n_inputs, 1);
    ck_assert_uint_eq(request->n_wanted, 0);
    ck_assert_uint_eq(request->timeout_ns, 0);
    struct srv_tensor *tensor = &request->inputs[0];
    ck_assert_str_eq(tensor->name, "tokens");
    ck_assert_str_eq(tensor->datatype, "INT64");
    ck_assert_uint_eq(tensor->rank, 2);
    ck_assert_int_eq(tensor->shape[0], 1);
    ck_assert_int_eq(tensor->shape[1], 3);
    ck_assert(lies_in_message(&decoded, tensor));
    ck_assert_uint_eq(tensor->bytes, sizeof draft.tokens);
    ck_assert_mem_eq(tensor->data, draft.tokens, sizeof draft.tokens);
    decoded_release(&decoded);
}
END_TEST

START_TEST(test_codec_typed_contents_of_each_type)
{
    struct draft draft;
    draft_init(&draft);
    static int32_t ints[3] = {-1, 7, INT32_MIN};
    static float floats[3] = {1.5f, -0.0f, 3e38f};
    char *names[] = {draft_text_tokens, draft_text_more, draft_text_model};
    char *types[] = {draft_text_int64, draft_text_int32, draft_text_fp32};
    draft.message.n_inputs = 3;
    draft.message.n_raw_input_contents = 0;
    for (size_t i = 0; i < 3; i++) {
        draft.inputs[i].name = names[i];
        draft.inputs[i].datatype = types[i];
        draft.inputs[i].contents = &draft.contents[i];
    }
    draft.contents[0].int64_contents = draft.tokens;
    draft.contents[0].n_int64_contents = 3;
    draft.contents[1].int_contents = ints;
    draft.contents[1].n_int_contents = 3;
    draft.contents[2].fp32_contents = floats;
    draft.contents[2].n_fp32_contents = 3;
    struct decoded decoded;
    draft_decode(&draft, &decoded);
    ck_assert_msg(decoded.status == BASE_OK, "%s", decoded.error.message);
    ck_assert_uint_eq(decoded.request.n_inputs, 3);
    ck_assert_uint_eq(decoded.request.inputs[0].bytes, sizeof draft.tokens);
    ck_assert_mem_eq(decoded.request.inputs[0].data, draft.tokens, sizeof draft.tokens);
    ck_assert_uint_eq(decoded.request.inputs[1].bytes, sizeof ints);
    ck_assert_mem_eq(decoded.request.inputs[1].data, ints, sizeof ints);
    ck_assert_uint_eq(decoded.request.inputs[2].bytes, sizeof floats);
    ck_assert_mem_eq(decoded.request.inputs[2].data, floats, sizeof floats);
    ck_assert(lies_in_message(&decoded, &decoded.request.inputs[2]));
    decoded_release(&decoded);
}
END_TEST

/* Truth is one, whatever stands for it; numbers have to fit. */
START_TEST(test_codec_elements_of_a_byte)
{
    static char types[][8] = {"BOOL", "UINT8", "INT8"};
    static protobuf_c_boolean truths[3] = {1, 0, 1};
    static uint32_t naturals[3] = {0, 255, 127};
    static int32_t integers[3] = {0, -1, 127};
    static const uint8_t wanted[][3] = {{1, 0, 1}, {0, 255, 127}, {0, 255, 127}};
    struct draft draft;
    struct decoded decoded;
    for (uint32_t i = 0; i < 3; i++) {
        draft_init(&draft);
        draft.message.n_raw_input_contents = 0;
        draft.inputs[0].datatype = types[i];
        draft.inputs[0].contents = &draft.contents[0];
        draft.contents[0].bool_contents = truths;
        draft.contents[0].n_bool_contents = i == 0 ? 3 : 0;
        draft.contents[0].uint_contents = naturals;
        draft.contents[0].n_uint_contents = i == 1 ? 3 : 0;
        draft.contents[0].int_contents = integers;
        draft.contents[0].n_int_contents = i == 2 ? 3 : 0;
        draft_decode(&draft, &decoded);
        ck_assert_msg(decoded.status == BASE_OK, "%s", decoded.error.message);
        ck_assert_uint_eq(decoded.request.inputs[0].bytes, 3);
        ck_assert_mem_eq(decoded.request.inputs[0].data, wanted[i], 3);
        decoded_release(&decoded);
        naturals[2] = 256;
        integers[2] = 128;
        if (i == 1) {
            draft_refused(&draft, "input 'tokens': uint_contents is malformed, or a number is no "
                                  "UINT8");
        } else if (i == 2) {
            draft_refused(&draft, "input 'tokens': int_contents is malformed, or a number is no "
                                  "INT8");
            integers[2] = -129;
            draft_refused(&draft, "or a number is no INT8");
        }
        naturals[2] = 127;
        integers[2] = 127;
    }
}
END_TEST

/* Halves of either kind come raw; no list of contents is theirs. */
START_TEST(test_codec_halves)
{
    static char types[][8] = {"FP16", "BF16"};
    static uint8_t halves[] = {0x00, 0x3C, 0x00, 0xC0, 0xFF, 0x7B};
    static float floats[3] = {1, 2, 3};
    struct draft draft;
    struct decoded decoded;
    for (uint32_t i = 0; i < 2; i++) {
        draft_init(&draft);
        draft.inputs[0].datatype = types[i];
        draft.raw[0] = (ProtobufCBinaryData){sizeof halves, halves};
        draft_decode(&draft, &decoded);
        ck_assert_msg(decoded.status == BASE_OK, "%s", decoded.error.message);
        ck_assert_str_eq(decoded.request.inputs[0].datatype, types[i]);
        ck_assert_uint_eq(decoded.request.inputs[0].bytes, sizeof halves);
        ck_assert_mem_eq(decoded.request.inputs[0].data, halves, sizeof halves);
        decoded_release(&decoded);
        draft.message.n_raw_input_contents = 0;
        draft.inputs[0].contents = &draft.contents[0];
        draft.contents[0].fp32_contents = floats;
        draft.contents[0].n_fp32_contents = 3;
        draft_refused(&draft, i == 0 ? "input 'tokens': no list of contents has FP16; use "
                                       "raw_input_contents"
                                     : "no list of contents has BF16");
    }
}
END_TEST

/* Doubles have a list of their own, packed, which stays where it lies, and come raw. */
START_TEST(test_codec_doubles)
{
    static char type[] = "FP64";
    static double doubles[3] = {1, -0.1, 1e300};
    static float floats[3] = {1, 2, 3};
    struct draft draft;
    struct decoded decoded;
    for (uint32_t i = 0; i < 2; i++) {
        draft_init(&draft);
        draft.inputs[0].datatype = type;
        if (i == 0) {
            draft.raw[0] = (ProtobufCBinaryData){sizeof doubles, (uint8_t *)doubles};
        } else {
            draft.message.n_raw_input_contents = 0;
            draft.inputs[0].contents = &draft.contents[0];
            draft.contents[0].fp64_contents = doubles;
            draft.contents[0].n_fp64_contents = 3;
        }
        draft_decode(&draft, &decoded);
        ck_assert_msg(decoded.status == BASE_OK, "%s", decoded.error.message);
        ck_assert_str_eq(decoded.request.inputs[0].datatype, "FP64");
        ck_assert_uint_eq(decoded.request.inputs[0].bytes, sizeof doubles);
        ck_assert_mem_eq(decoded.request.inputs[0].data, doubles, sizeof doubles);
        decoded_release(&decoded);
    }
    draft.contents[0].n_fp64_contents = 0;
    draft.contents[0].fp32_contents = floats;
    draft.contents[0].n_fp32_contents = 3;
    draft_refused(&draft, "contents of FP64 come in fp64_contents, not in fp32_contents");
}
END_TEST

/* Typed, each text gets its length before it; raw, it stands as it came, whatever is in it. */
START_TEST(test_codec_texts)
{
    static char bytes_type[] = "BYTES";
    static uint8_t raw[] = "\2\0\0\0ab\0\0\0\0\1\0\0\0\xff";
    static uint8_t ab[] = "ab";
    static uint8_t high[] = "\xff";
    ProtobufCBinaryData texts[] = {{2, ab}, {0, NULL}, {1, high}};
    struct draft draft;
    struct decoded decoded;
    draft_init(&draft);
    draft.inputs[0].datatype = bytes_type;
    draft.raw[0] = (ProtobufCBinaryData){sizeof(raw) - 1, raw};
    draft_decode(&draft, &decoded);
    ck_assert_msg(decoded.status == BASE_OK, "%s", decoded.error.message);
    ck_assert(lies_in_message(&decoded, &decoded.request.inputs[0]));
    ck_assert_uint_eq(decoded.request.inputs[0].bytes, sizeof(raw) - 1);
    decoded_release(&decoded);
    draft.message.n_raw_input_contents = 0;
    draft.inputs[0].contents = &draft.contents[0];
    draft.contents[0].bytes_contents = texts;
    draft.contents[0].n_bytes_contents = 3;
    draft_decode(&draft, &decoded);
    ck_assert_msg(decoded.status == BASE_OK, "%s", decoded.error.message);
    ck_assert_uint_eq(decoded.request.inputs[0].bytes, sizeof(raw) - 1);
    ck_assert_mem_eq(decoded.request.inputs[0].data, raw, sizeof(raw) - 1);
    decoded_release(&decoded);
    draft.contents[0].n_bytes_contents = 2;
    draft_refused(&draft, "input 'tokens': bytes_contents has 2 elements, shape [1,3] takes 3");
}
END_TEST

/* Writes a request with one input "x" of the given type, shape and InferTensorContents. */
static size_t write_by_hand(uint8_t *out, const char *type, const void *shape_fields,
                            size_t shape_length, const void *contents, size_t contents_length)
{
    uint8_t input[512];
    uint8_t *at = srv_grpc_put_bytes(input, 1, "x", 1);
    at = srv_grpc_put_bytes(at, 2, type, strlen(type));
    memcpy(at, shape_fields, shape_length);
    at += shape_length;
    at = srv_grpc_put_bytes(at, 5, contents, contents_length);
    return (size_t)(srv_grpc_put_bytes(out, 5, input, (size_t)(at - input)) - out);
}

START_TEST(test_codec_unpacked_numbers_are_read)
{
    /* shape as two fields 3 {2} {2}; fp32_contents: one packed of two, then two unpacked. */
    static const uint8_t shape[] = {0x18, 2, 0x18, 2};
    static const uint8_t contents[] = {0x32, 8, 0, 0,    0x80, 0x3f, 0, 0, 0,    0x40,
                                       0x35, 0, 0, 0x40, 0x40, 0x35, 0, 0, 0x80, 0x40};
    uint8_t message[600];
    size_t length = write_by_hand(message, "FP32", shape, sizeof shape, contents, sizeof contents);
    struct decoded decoded;
    decode_bytes(message, length, &decoded);
    ck_assert_msg(decoded.status == BASE_OK, "%s", decoded.error.message);
    static const float want[] = {1, 2, 3, 4};
    ck_assert_uint_eq(decoded.request.inputs[0].bytes, sizeof want);
    ck_assert_mem_eq(decoded.request.inputs[0].data, want, sizeof want);
    decoded_release(&decoded);

    /* int64_contents: unpacked 5, packed {300, -1}, unpacked 6. */
    static const uint8_t mixed[] = {0x18, 5,    0x1a, 12,   0xac, 0x02, 0xff, 0xff, 0xff,
                                    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x18, 6};
    length = write_by_hand(message, "INT64", shape, sizeof shape, mixed, sizeof mixed);
    decode_bytes(message, length, &decoded);
    ck_assert_msg(decoded.status == BASE_OK, "%s", decoded.error.message);
    static const int64_t numbers[] = {5, 300, -1, 6};
    ck_assert_mem_eq(decoded.request.inputs[0].data, numbers, sizeof numbers);
    decoded_release(&decoded);
}
END_TEST

START_TEST(test_codec_malformed_contents_are_refused)
{
    static const uint8_t shape[] = {0x1a, 1, 1};
    static const struct {
        const char *type;
        uint8_t contents[16];
        size_t length;
    } cases[] = {
        {"FP32", {0x32, 3, 0, 0, 0}, 5},     /* not a multiple of 4 */
        {"FP32", {0x30, 1}, 2},              /* a varint in a list of floats */
        {"INT64", {0x1a, 2, 0x80, 0x80}, 4}, /* its last varint does not end */
        {"INT64",
         {0x1a, 12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
         14},
        {"INT64", {0x19, 0, 0, 0, 0, 0, 0, 0, 0}, 9}, /* fixed64 in a list of varints */
        {"INT64", {0x0b, 0x0c}, 2},                   /* a group */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t message[600];
        size_t length = write_by_hand(message, cases[i].type, shape, sizeof shape,
                                      cases[i].contents, cases[i].length);
        struct decoded decoded;
        decode_bytes(message, length, &decoded);
        ck_assert_msg(decoded.status == BASE_INVALID_ARGUMENT, "case %zu", i);
        ck_assert_msg(strstr(decoded.error.message, "input 'x'") != NULL, "%s",
                      decoded.error.message);
        ck_assert_msg(strstr(decoded.error.message, "malformed") != NULL, "%s",
                      decoded.error.message);
        decoded_release(&decoded);
    }
}
END_TEST

START_TEST(test_codec_scalar_and_empty_tensors)
{
    struct draft draft;
    draft_init(&draft);
    draft.inputs[0].n_shape = 0;
    draft.raw[0].len = 8;
    struct decoded decoded;
    draft_decode(&draft, &decoded);
    ck_assert_msg(decoded.status == BASE_OK, "%s", decoded.error.message);
    ck_assert_uint_eq(decoded.request.inputs[0].rank, 0);
    ck_assert_uint_eq(decoded.request.inputs[0].bytes, 8);
    decoded_release(&decoded);

    draft.inputs[0].n_shape = 2;
    draft.shape[1] = 0;
    draft.raw[0].len = 0;
    draft_decode(&draft, &decoded);
    ck_assert_msg(decoded.status == BASE_OK, "%s", decoded.error.message);
    ck_assert_uint_eq(decoded.request.inputs[0].bytes, 0);
    decoded_release(&decoded);
}
END_TEST

START_TEST(test_codec_data_that_do_not_fit_are_refused)
{
    struct draft draft;
    draft_init(&draft);
    draft.raw[0].len = 16;
    draft_refused(&draft, "input 'tokens': raw_input_contents has 16 bytes, shape [1,3] of INT64 "
                          "takes 24");

    draft_init(&draft);
    draft.message.n_raw_input_contents = 2;
    draft_refused(&draft, "raw_input_contents has 2 entries for 1 inputs");

    draft_init(&draft);
    draft.message.n_raw_input_contents = 0;
    draft_refused(&draft, "input 'tokens' has no data");

    draft_init(&draft);
    draft.inputs[0].contents = &draft.contents[0];
    draft_refused(&draft, "input 'tokens' has contents beside raw_input_contents");

    draft_init(&draft);
    draft.message.n_raw_input_contents = 0;
    draft.inputs[0].contents = &draft.contents[0];
    draft.contents[0].int64_contents = draft.tokens;
    draft.contents[0].n_int64_contents = 2;
    draft_refused(&draft, "input 'tokens': int64_contents has 2 elements, shape [1,3] takes 3");

    draft.contents[0].n_int64_contents = 0;
    static float floats[3];
    draft.contents[0].fp32_contents = floats;
    draft.contents[0].n_fp32_contents = 3;
    draft_refused(&draft, "input 'tokens': contents of INT64 come in int64_contents, not in "
                          "fp32_contents");
}
END_TEST

START_TEST(test_codec_shapes_that_cannot_be_are_refused)
{
    struct draft draft;
    draft_init(&draft);
    draft.shape[1] = -1;
    draft_refused(&draft, "input 'tokens': shape [1,-1] has a negative dimension");

    draft_init(&draft);
    draft.shape[0] = INT64_MAX;
    draft.shape[1] = INT64_MAX;
    draft_refused(&draft, "is too large");

    // The element count fits size_t, the bytes do not.
    draft.shape[0] = INT64_MAX;
    draft.shape[1] = 2;
    draft_refused(&draft, "is too large");

    draft_init(&draft);
    static int64_t many[CELL_RANK_MAX + 1];
    draft.inputs[0].shape = many;
    draft.inputs[0].n_shape = CELL_RANK_MAX + 1;
    draft_refused(&draft, "input 0 has more than 8 dimensions");
}
END_TEST

START_TEST(test_codec_names_are_checked)
{
    struct draft draft;
    draft_init(&draft);
    static char empty[] = "";
    draft.inputs[0].name = empty;
    draft_refused(&draft, "input 0 has no name");

    draft_init(&draft);
    draft.message.n_inputs = 2;
    draft.message.n_raw_input_contents = 2;
    draft.raw[1] = draft.raw[0];
    draft_refused(&draft, "input 'tokens' is given twice");

    draft_init(&draft);
    draft.message.n_outputs = 2;
    draft.outputs[0].name = draft_text_more;
    draft.outputs[1].name = draft_text_more;
    draft_refused(&draft, "output 'more' is requested twice");

    draft_init(&draft);
    draft.message.n_outputs = 1;
    draft_refused(&draft, "requested output 0 has no name");

    draft_init(&draft);
    static char twice[] = "UINT64";
    draft.inputs[0].datatype = twice;
    draft_refused(&draft,
                  "input 'tokens': data type UINT64 is not one of FP32, INT64, INT32, BOOL, "
                  "UINT8, INT8, FP16, BF16, FP64, BYTES");

    draft_init(&draft);
    static char bad[] = "\xff\xfe";
    draft.inputs[0].datatype = bad;
    draft_refused(&draft, "data type ? is not one of");
    draft_init(&draft);
    draft.message.model_name = bad;
    draft_refused(&draft, "the model's name is not UTF-8 text");

    draft_init(&draft);
    static char longest[CELL_NAME_BYTES + 1];
    memset(longest, 'n', CELL_NAME_BYTES);
    draft.inputs[0].name = longest;
    draft_refused(&draft, "an input's name has 128 bytes, more than 127");
}
END_TEST

START_TEST(test_codec_wanted_outputs_in_their_order)
{
    struct draft draft;
    draft_init(&draft);
    draft.message.n_outputs = 2;
    draft.outputs[0].name = draft_text_more;
    draft.outputs[1].name = draft_text_model;
    struct decoded decoded;
    draft_decode(&draft, &decoded);
    ck_assert_int_eq(decoded.status, BASE_OK);
    ck_assert_uint_eq(decoded.request.n_wanted, 2);
    ck_assert_str_eq(decoded.request.wanted[0], "more");
    ck_assert_str_eq(decoded.request.wanted[1], "m");
    decoded_release(&decoded);
}
END_TEST

START_TEST(test_codec_limits_on_repeated_fields_and_id)
{
    struct draft draft;
    draft_init(&draft);
    static ProtobufCBinaryData raw[CELL_TENSORS_MAX + 1];
    draft.message.raw_input_contents = raw;
    draft.message.n_raw_input_contents = CELL_TENSORS_MAX + 1;
    struct decoded decoded;
    draft_decode(&draft, &decoded);
    ck_assert_int_eq(decoded.status, BASE_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(decoded.error.message, "more than 256 raw_input_contents"));
    decoded_release(&decoded);

    draft_init(&draft);
    static char id[SRV_GRPC_ID_BYTES_MAX + 2];
    memset(id, 'i', SRV_GRPC_ID_BYTES_MAX);
    draft.message.id = id;
    draft_decode(&draft, &decoded);
    ck_assert_int_eq(decoded.status, BASE_OK);
    ck_assert_str_eq(decoded.request.id, id);
    decoded_release(&decoded);

    // In a message it is cut, so that the reason stays.
    draft.raw[0].len = 16;
    draft_decode(&draft, &decoded);
    ck_assert_ptr_nonnull(
        strstr(decoded.error.message, "iiii] input 'tokens': raw_input_contents"));
    ck_assert_ptr_nonnull(strstr(decoded.error.message, "takes 24"));
    decoded_release(&decoded);
    id[SRV_GRPC_ID_BYTES_MAX] = 'i';
    draft_decode(&draft, &decoded);
    ck_assert_int_eq(decoded.status, BASE_INVALID_ARGUMENT);
    ck_assert_str_eq(decoded.error.message, "the id has 257 bytes, more than 256");
    decoded_release(&decoded);
}
END_TEST

START_TEST(test_codec_unknown_fields_are_skipped)
{
    struct draft draft;
    draft_init(&draft);
    size_t length = inference__model_infer_request__get_packed_size(&draft.message);
    uint8_t bytes[512];
    // Field 9 with a message, field 100 as a varint, field 8 as fixed32, before the request.
    static const uint8_t unknown[] = {0x4a, 2, 0x08, 1, 0xa0, 0x06, 5, 0x45, 1, 2, 3, 4};
    memcpy(bytes, unknown, sizeof unknown);
    inference__model_infer_request__pack(&draft.message, bytes + sizeof unknown);
    struct decoded decoded;
    decode_bytes(bytes, sizeof unknown + length, &decoded);
    ck_assert_int_eq(decoded.status, BASE_OK);
    ck_assert_uint_eq(decoded.request.n_inputs, 1);
    decoded_release(&decoded);
}
END_TEST

START_TEST(test_codec_every_cut_of_a_message_is_refused_or_smaller)
{
    static char key_timeout[] = "timeout";
    struct draft draft;
    draft_init(&draft);
    draft.message.n_parameters = 1;
    draft_set_int(&draft, 0, key_timeout, 5);
    draft.message.n_outputs = 1;
    draft.outputs[0].name = draft_text_more;
    size_t length = inference__model_infer_request__get_packed_size(&draft.message);
    uint8_t bytes[512];
    inference__model_infer_request__pack(&draft.message, bytes);
    for (size_t cut = 0; cut < length; cut++) {
        struct decoded decoded;
        decode_bytes(bytes, cut, &decoded);
        // The raw tensor comes last, so no proper prefix is a whole request; one that ends between
        // two fields is a valid smaller message.
        ck_assert(decoded.status != BASE_OK || decoded.request.n_inputs == 0);
        decoded_release(&decoded);
    }
}
END_TEST

START_TEST(test_codec_spent_arena_is_reported)
{
    struct draft draft;
    draft_init(&draft);
    static int64_t shape[] = {4096};
    static int64_t tokens[4096];
    draft.inputs[0].shape = shape;
    draft.inputs[0].n_shape = 1;
    draft.message.n_raw_input_contents = 0;
    draft.inputs[0].contents = &draft.contents[0];
    draft.contents[0].int64_contents = tokens;
    draft.contents[0].n_int64_contents = 4096;
    uint8_t bytes[8192];
    size_t length = inference__model_infer_request__pack(&draft.message, bytes);
    ck_assert_uint_le(length, sizeof bytes);
    struct srv_request request = {.n_inputs = 0};
    struct base_error error;
    base_arena_init(&request.arena, 1024, 16384);
    enum base_status status =
        srv_grpc_decode_infer((struct srv_grpc_bytes){bytes, length}, &request, &error);
    ck_assert_int_eq(status, BASE_RESOURCE_EXHAUSTED);
    ck_assert_ptr_nonnull(strstr(error.message, "input 'tokens': no memory for its 32768 bytes"));
    base_arena_release(&request.arena);
}
END_TEST

START_TEST(test_codec_every_failed_allocation_is_reported)
{
    struct draft draft;
    draft_init(&draft);
    uint8_t bytes[512];
    size_t length = inference__model_infer_request__pack(&draft.message, bytes);
    struct srv_request request = {.n_inputs = 0};
    struct base_error error;
    base_arena_init(&request.arena, 256, 1 << 20);
    base_alloc_fail_at(1);
    enum base_status status =
        srv_grpc_decode_infer((struct srv_grpc_bytes){bytes, length}, &request, &error);
    base_alloc_fail_at(0);
    ck_assert_int_eq(status, BASE_RESOURCE_EXHAUSTED);
    base_arena_release(&request.arena);
}
END_TEST

START_TEST(test_codec_query_fields)
{
    struct srv_grpc_query query;
    struct base_error error;
    static const uint8_t names[] = {0x0a, 1, 'm', 0x12, 2, '1', '2'};
    ck_assert_int_eq(
        srv_grpc_decode_query((struct srv_grpc_bytes){names, sizeof names}, &query, &error),
        BASE_OK);
    ck_assert_str_eq(query.first, "m");
    ck_assert_str_eq(query.second, "12");
    ck_assert(!query.flag);
    static const uint8_t flag[] = {0x10, 1};
    ck_assert_int_eq(
        srv_grpc_decode_query((struct srv_grpc_bytes){flag, sizeof flag}, &query, &error), BASE_OK);
    ck_assert(query.flag);
    ck_assert_str_eq(query.first, "");
    static const uint8_t bad[] = {0x0a, 5, 'm'};
    ck_assert_int_eq(
        srv_grpc_decode_query((struct srv_grpc_bytes){bad, sizeof bad}, &query, &error),
        BASE_INVALID_ARGUMENT);
    uint8_t large[200] = {0x0a, 0xa0, 0x01};
    memset(large + 3, 'x', 160);
    ck_assert_int_eq(srv_grpc_decode_query((struct srv_grpc_bytes){large, 163}, &query, &error),
                     BASE_INVALID_ARGUMENT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grpc_codec");
    TCase *tcase = tcase_create("codec");
    tcase_add_test(tcase, test_codec_raw_tensor_stays_in_the_message);
    tcase_add_test(tcase, test_codec_typed_contents_of_each_type);
    tcase_add_test(tcase, test_codec_elements_of_a_byte);
    tcase_add_test(tcase, test_codec_halves);
    tcase_add_test(tcase, test_codec_doubles);
    tcase_add_test(tcase, test_codec_texts);
    tcase_add_test(tcase, test_codec_unpacked_numbers_are_read);
    tcase_add_test(tcase, test_codec_malformed_contents_are_refused);
    tcase_add_test(tcase, test_codec_scalar_and_empty_tensors);
    tcase_add_test(tcase, test_codec_data_that_do_not_fit_are_refused);
    tcase_add_test(tcase, test_codec_shapes_that_cannot_be_are_refused);
    tcase_add_test(tcase, test_codec_names_are_checked);
    tcase_add_test(tcase, test_codec_wanted_outputs_in_their_order);
    tcase_add_test(tcase, test_codec_limits_on_repeated_fields_and_id);
    tcase_add_test(tcase, test_codec_unknown_fields_are_skipped);
    tcase_add_test(tcase, test_codec_every_cut_of_a_message_is_refused_or_smaller);
    tcase_add_test(tcase, test_codec_spent_arena_is_reported);
    tcase_add_test(tcase, test_codec_every_failed_allocation_is_reported);
    tcase_add_test(tcase, test_codec_query_fields);
    suite_add_tcase(suite, tcase);
    return util_run(suite);
}
