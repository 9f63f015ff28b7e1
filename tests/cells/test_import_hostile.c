/* Files that mean harm, or are broken: nothing may crash, leak, or take more memory than the file's
 * size allows, and every refusal says something. */
#include "base/mem.h"
#include "cells/import/wire.h"
#include "cells/model.h"
#include "tests/onnx_builder.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>

static struct base_error last_error;

static enum base_status parse(const uint8_t *bytes, size_t length)
{
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    uint8_t *copy = base_alloc(length > 0 ? length : 1); // of the exact size, for the sanitizers
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes, length);
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    last_error = (struct base_error){.message = ""};
    enum base_status status = cell_model_parse(
        registry, (struct cell_model_file){copy, length, NULL}, "test", NULL, &model, &last_error);
    ck_assert((status == BASE_OK) == (model != NULL));
    ck_assert(status == BASE_OK || (last_error.status == status && last_error.message[0] != '\0'));
    cell_model_free(registry, model);
    cell_registry_free(registry);
    base_free(copy);
    return status;
}

static void expect(const uint8_t *bytes, size_t length, enum base_status wanted, const char *why)
{
    enum base_status status = parse(bytes, length);
    ck_assert_msg(status == wanted && strstr(last_error.message, why) != NULL, "%s: %s",
                  base_status_name(status), last_error.message);
}

/* One recurrent node over x, lengths n and a state s. */
static void add_node(struct onnx_builder *builder, const char *op, const char *inputs)
{
    const int64_t any[] = {-1, -1, 1};
    const int64_t state[] = {1, -1, 1};
    onnx_input(builder, "x", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 3, any);
    onnx_input(builder, "n", ONNX__TENSOR_PROTO__DATA_TYPE__INT32, 1, any);
    onnx_input(builder, "s", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 3, state);
    onnx_add_weights(builder, op, 1, 1, 1);
    Onnx__NodeProto *node = onnx_node(builder, op, inputs, "y h");
    onnx_set_int(builder, node, "hidden_size", 1);
    onnx_set_string(builder, node, "direction", "forward");
    onnx_output(builder, "h", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 3, state);
}

/* A small model of each kind: layers with an embedding and a head, and each recurrent operator with
 * what the others lack. */
enum { SMALL_MODELS = 4 };

static const uint8_t *small_model(struct onnx_builder *builder, int which, size_t *length)
{
    struct onnx_lstm lstm = {
        .input = 1, .hidden = 1, .classes = 2, .embedding = 2, .layers = 2, .seed = 1};
    onnx_init(builder, 17);
    if (which == 0) {
        onnx_add_lstm(builder, &lstm);
    } else if (which == 1) {
        add_node(builder, "LSTM", "x w r - n s s p");
    } else if (which == 2) {
        add_node(builder, "GRU", "x w r b n s");
        onnx_set_int(builder, builder->graph.node[0], "linear_before_reset", 1);
    } else {
        add_node(builder, "RNN", "x w r b n s");
        onnx_set_strings(builder, builder->graph.node[0], "activations", "Relu");
    }
    return onnx_pack(builder, length);
}

/* ---- Broken files ------------------------------------------------------------------------- */

START_TEST(test_every_truncation_is_survived)
{
    struct onnx_builder builder;
    size_t length = 0;
    const uint8_t *bytes = small_model(&builder, _i, &length);
    ck_assert_int_eq(parse(bytes, length), BASE_OK);
    for (size_t cut = 0; cut < length; cut++) {
        ck_assert_int_ne(parse(bytes, cut), BASE_OK);
    }
    onnx_release(&builder);
}
END_TEST

START_TEST(test_every_changed_byte_is_survived)
{
    static const uint8_t changes[] = {0x01, 0x08, 0x80, 0xff};
    struct onnx_builder builder;
    size_t length = 0;
    const uint8_t *bytes = small_model(&builder, _i, &length);
    uint8_t *changed = base_alloc(length);
    memcpy(changed, bytes, length);
    for (size_t i = 0; i < length; i++) {
        for (size_t c = 0; c < sizeof(changes); c++) {
            changed[i] = bytes[i] ^ changes[c];
            (void)parse(changed, length);
        }
        changed[i] = bytes[i];
    }
    base_free(changed);
    onnx_release(&builder);
}
END_TEST

START_TEST(test_garbage_is_survived)
{
    struct base_random random = util_random(1);
    uint8_t bytes[256];
    for (int round = 0; round < 5000; round++) {
        size_t length = base_random_below(&random, sizeof(bytes));
        for (size_t i = 0; i < length; i++) {
            bytes[i] = (uint8_t)base_random_below(&random, 256);
        }
        ck_assert_int_ne(parse(bytes, length), BASE_OK);
    }
}
END_TEST

START_TEST(test_malformed_fields_are_refused_with_their_place)
{
    static const uint8_t group[] = {0x3b, 0x3c};
    static const uint8_t field_zero[] = {0x02, 0x00};
    static const uint8_t too_long[] = {0x3a, 0x05, 0x00};
    static const uint8_t endless[] = {0x08, 0xff, 0xff, 0xff, 0xff, 0xff,
                                      0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    static const uint8_t twice[] = {0x3a, 0x00, 0x3a, 0x00};
    static const uint8_t inner[] = {0x3a, 0x02, 0x0a, 0x01, 0x00};
    expect(group, sizeof(group), BASE_INVALID_ARGUMENT, "unknown kind at byte 1");
    expect(field_zero, sizeof(field_zero), BASE_INVALID_ARGUMENT, "malformed field");
    expect(too_long, sizeof(too_long), BASE_INVALID_ARGUMENT, "longer than what holds it");
    expect(endless, sizeof(endless), BASE_INVALID_ARGUMENT, "malformed number");
    expect(twice, sizeof(twice), BASE_INVALID_ARGUMENT, "given twice");
    expect(inner, sizeof(inner), BASE_INVALID_ARGUMENT, "longer than what holds it");
    expect(twice, 0, BASE_INVALID_ARGUMENT, "no graph");
}
END_TEST

/* ---- Files that ask for too much ---------------------------------------------------------- */

/* Wraps the message that ends at bytes + room into field `tag`; returns the new start. */
static size_t wrap(uint8_t *bytes, size_t room, size_t start, uint8_t tag)
{
    size_t length = room - start;
    uint8_t varint[10];
    size_t n = 0;
    do {
        varint[n] = (uint8_t)((length & 0x7f) | (length > 0x7f ? 0x80 : 0));
        length >>= 7;
        n++;
    } while (length > 0);
    memcpy(bytes + start - n, varint, n);
    bytes[start - n - 1] = tag;
    return start - n - 1;
}

START_TEST(test_deeply_nested_graphs_are_refused)
{
    enum { LEVELS = 4000, ROOM = 64 << 10 };
    uint8_t *bytes = base_alloc(ROOM);
    size_t start = ROOM;
    for (int level = 0; level < LEVELS; level++) {
        start = wrap(bytes, ROOM, start, 0x32); // attribute.g
        start = wrap(bytes, ROOM, start, 0x2a); // node.attribute
        start = wrap(bytes, ROOM, start, 0x0a); // graph.node
    }
    start = wrap(bytes, ROOM, start, 0x3a); // model.graph
    expect(bytes + start, ROOM - start, BASE_INVALID_ARGUMENT, "nested too deeply");
    base_free(bytes);
}
END_TEST

START_TEST(test_millions_of_empty_parts_are_refused)
{
    enum { ROOM = 2 << 20 };
    uint8_t *bytes = base_alloc(ROOM);
    size_t start = ROOM;
    while (start > 16) {
        bytes[--start] = 0x00; // an empty node
        bytes[--start] = 0x0a;
    }
    start = wrap(bytes, ROOM, start, 0x3a);
    expect(bytes + start, ROOM - start, BASE_RESOURCE_EXHAUSTED, "too many small parts");
    base_free(bytes);
}
END_TEST

START_TEST(test_constants_larger_than_the_budget_are_refused)
{
    const int64_t huge[] = {1 << 20, 1 << 20};
    const int64_t endless[] = {INT64_MAX, INT64_MAX};
    const int64_t *shapes[] = {huge, endless};
    for (size_t i = 0; i < 2; i++) {
        struct onnx_lstm lstm = {.input = 1, .hidden = 1, .layers = 1, .seed = 1};
        struct onnx_builder builder;
        size_t length = 0;
        onnx_init(&builder, 17);
        onnx_constant(&builder, "shape", onnx_ints(&builder, 1, 2, shapes[i]));
        onnx_node(&builder, "ConstantOfShape", "shape", "huge");
        onnx_add_lstm(&builder, &lstm);
        const uint8_t *bytes = onnx_pack(&builder, &length);
        expect(bytes, length, BASE_RESOURCE_EXHAUSTED, "more memory than its size allows");
        onnx_release(&builder);
    }
}
END_TEST

START_TEST(test_too_many_nodes_are_refused)
{
    struct onnx_lstm lstm = {.input = 64, .hidden = 128, .layers = 8, .seed = 1};
    struct onnx_builder builder;
    size_t length = 0;
    char inputs[32] = "s7";
    char outputs[32];
    onnx_init(&builder, 17);
    onnx_add_lstm(&builder, &lstm);
    for (int i = 0; i < 20000; i++) {
        snprintf(outputs, sizeof(outputs), "n%d", i);
        onnx_node(&builder, "Relu", inputs, outputs);
        memcpy(inputs, outputs, sizeof(inputs));
    }
    const uint8_t *bytes = onnx_pack(&builder, &length);
    expect(bytes, length, BASE_RESOURCE_EXHAUSTED, "more than 16384 nodes");
    onnx_release(&builder);
}
END_TEST

/* ---- Memory ------------------------------------------------------------------------------- */

START_TEST(test_every_failed_allocation_is_survived)
{
    struct onnx_builder builder;
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    struct base_error error;
    size_t length = 0;
    uint64_t n = 0;
    const uint8_t *bytes = small_model(&builder, _i, &length);
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    while (status != BASE_OK) {
        ck_assert_int_eq(status, BASE_RESOURCE_EXHAUSTED);
        base_alloc_fail_at(++n);
        status = cell_model_parse(registry, (struct cell_model_file){bytes, length, NULL}, "test",
                                  NULL, &model, &error);
        base_alloc_fail_at(0);
    }
    ck_assert_uint_gt(n, 5);
    cell_model_free(registry, model);
    cell_registry_free(registry);
    onnx_release(&builder);
}
END_TEST

/* ---- Files -------------------------------------------------------------------------------- */

START_TEST(test_what_is_no_model_file_is_refused)
{
    struct cell_registry *registry = NULL;
    struct cell_model *model = NULL;
    struct base_error error;
    char folder[UTIL_PATH_BYTES];
    char path[UTIL_PATH_BYTES + 32];
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    util_temp_dir(folder);
    snprintf(path, sizeof(path), "%s/none", folder);
    ck_assert_int_eq(cell_model_load(registry, path, "test", NULL, &model, &error), BASE_NOT_FOUND);
    ck_assert_int_eq(cell_model_load(registry, folder, "test", NULL, &model, &error),
                     BASE_INVALID_ARGUMENT);
    snprintf(path, sizeof(path), "%s/empty", folder);
    util_write_file(path, "");
    ck_assert_int_eq(cell_model_load(registry, path, "test", NULL, &model, &error),
                     BASE_INVALID_ARGUMENT);
    ck_assert_int_eq(cell_model_load(registry, "/dev/zero", "test", NULL, &model, &error),
                     BASE_INVALID_ARGUMENT);
    util_remove_tree(folder);
    cell_registry_free(registry);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_hostile");
    TCase *tests = tcase_create("hostile");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_every_truncation_is_survived, 0, SMALL_MODELS);
    tcase_add_loop_test(tests, test_every_changed_byte_is_survived, 0, SMALL_MODELS);
    tcase_add_test(tests, test_garbage_is_survived);
    tcase_add_test(tests, test_malformed_fields_are_refused_with_their_place);
    tcase_add_test(tests, test_deeply_nested_graphs_are_refused);
    tcase_add_test(tests, test_millions_of_empty_parts_are_refused);
    tcase_add_test(tests, test_constants_larger_than_the_budget_are_refused);
    tcase_add_test(tests, test_too_many_nodes_are_refused);
    tcase_add_loop_test(tests, test_every_failed_allocation_is_survived, 0, SMALL_MODELS);
    tcase_add_test(tests, test_what_is_no_model_file_is_refused);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
