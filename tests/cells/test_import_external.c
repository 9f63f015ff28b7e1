/* Weights in files beside the model file (ONNX: external data): wherever a tensor may say that it
 * lies, the model is the one with the weights inside, of the very types; and whatever else it may
 * say is refused, with the tensor's name. */
#include "base/mem.h"
#include "cells/import/external.h"
#include "cells/model.h"
#include "tests/cells/parse.h"
#include "tests/util.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_MAX  8u
#define CONSTANTS    3u /* of the model: w0, r0, b0 */
#define WEIGHTS_FILE "weights.bin"

static char folder[UTIL_PATH_BYTES];
static struct onnx_builder builder;
static struct cell_registry *registry;
static struct cell_model *inside; /* the same weights, in the file */
static struct base_error last_error;

/* ---- Files ---------------------------------------------------------------------------------- */

static void path_of(const char *name, char path[2 * UTIL_PATH_BYTES])
{
    (void)snprintf(path, (size_t)2 * UTIL_PATH_BYTES, "%s/%s", folder, name);
}

static void write_bytes(const char *name, const void *bytes, size_t length)
{
    char path[2 * UTIL_PATH_BYTES];
    path_of(name, path);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
}

/* `pad` bytes that are no weights, then those of each constant behind each other. Returns where
 * each begins. */
static void write_weights(const char *name, size_t pad, size_t offsets[CONSTANTS])
{
    char path[2 * UTIL_PATH_BYTES];
    path_of(name, path);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    for (size_t i = 0; i < pad; i++) {
        ck_assert_int_ne(fputc(0xFF, file), EOF);
    }
    for (size_t i = 0; i < CONSTANTS; i++) {
        const ProtobufCBinaryData *data = &builder.graph.initializer[i]->raw_data;
        offsets[i] = (size_t)ftell(file);
        ck_assert_uint_eq(fwrite(data->data, 1, data->len, file), data->len);
    }
    ck_assert_int_eq(fclose(file), 0);
}

/* ---- The model ------------------------------------------------------------------------------ */

static void build(void)
{
    const struct onnx_lstm lstm = {.input = 3, .hidden = 5, .layers = 1, .seed = 1};
    onnx_init(&builder, 17);
    onnx_add_lstm(&builder, &lstm);
    ck_assert_uint_ge(builder.graph.n_initializer, CONSTANTS);
}

static void setup(void)
{
    size_t length = 0;
    util_temp_dir(folder);
    ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
    build();
    const uint8_t *bytes = onnx_pack(&builder, &length);
    const struct cell_model_file file = {bytes, length, NULL};
    ck_assert_int_eq(cell_model_parse(registry, file, "inside", NULL, &inside, NULL), BASE_OK);
    onnx_release(&builder);
    build();
}

static void teardown(void)
{
    onnx_release(&builder);
    cell_model_free(registry, inside);
    cell_registry_free(registry);
    util_remove_tree(folder);
}

static char *text_of(const char *text)
{
    char *copy = base_arena_text(&builder.arena, text, strlen(text));
    ck_assert_ptr_nonnull(copy);
    return copy;
}

/* One more line of where it lies. */
static void say(Onnx__TensorProto *tensor, const char *key, const char *value)
{
    if (tensor->external_data == NULL) {
        tensor->external_data = base_arena_array(&builder.arena, ENTRIES_MAX, sizeof(void *));
        ck_assert_ptr_nonnull(tensor->external_data);
    }
    Onnx__StringStringEntryProto *entry = base_arena_alloc(&builder.arena, sizeof(*entry));
    ck_assert_ptr_nonnull(entry);
    ck_assert_uint_lt(tensor->n_external_data, ENTRIES_MAX);
    onnx__string_string_entry_proto__init(entry);
    entry->key = text_of(key);
    entry->value = text_of(value);
    tensor->external_data[tensor->n_external_data++] = entry;
}

static void say_number(Onnx__TensorProto *tensor, const char *key, size_t value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%zu", value);
    say(tensor, key, text);
}

/* It lies elsewhere, and nothing is said yet of where. */
static Onnx__TensorProto *send_out(uint32_t constant)
{
    Onnx__TensorProto *tensor = builder.graph.initializer[constant];
    tensor->has_data_location = true;
    tensor->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    tensor->has_raw_data = false;
    tensor->raw_data = (ProtobufCBinaryData){0, NULL};
    return tensor;
}

/* All constants lie in one file behind `pad` bytes, as exporters write it. */
static void send_all_out(const char *location, size_t pad)
{
    size_t offsets[CONSTANTS];
    size_t bytes[CONSTANTS];
    write_weights(location, pad, offsets);
    for (uint32_t i = 0; i < CONSTANTS; i++) {
        bytes[i] = builder.graph.initializer[i]->raw_data.len;
        Onnx__TensorProto *tensor = send_out(i);
        say(tensor, "location", location);
        say_number(tensor, "offset", offsets[i]);
        say_number(tensor, "length", bytes[i]);
    }
}

static enum base_status load(struct cell_model **out)
{
    char path[2 * UTIL_PATH_BYTES];
    size_t length = 0;
    const uint8_t *bytes = onnx_pack(&builder, &length);
    write_bytes("model.onnx", bytes, length);
    path_of("model.onnx", path);
    last_error = (struct base_error){.message = ""};
    return cell_model_load(registry, path, "outside", NULL, out, &last_error);
}

/* The model is that with its weights inside: equal weights make equal types, which are one. */
static void expect_same(void)
{
    struct cell_model *model = NULL;
    const enum base_status status = load(&model);
    ck_assert_msg(status == BASE_OK, "%s", last_error.message);
    ck_assert_uint_eq(model->n_stages, inside->n_stages);
    for (uint32_t s = 0; s < model->n_stages; s++) {
        ck_assert_ptr_eq(model->stages[s].type, inside->stages[s].type);
    }
    cell_model_free(registry, model);
}

static void expect_why(enum base_status wanted, const char *where, const char *why)
{
    struct cell_model *model = NULL;
    const enum base_status status = load(&model);
    ck_assert_msg(status == wanted && strstr(last_error.message, where) != NULL &&
                      strstr(last_error.message, why) != NULL,
                  "%s, wanted %s, %s and %s: %s", base_status_name(status),
                  base_status_name(wanted), where, why, last_error.message);
    ck_assert_ptr_null(model);
    onnx_release(&builder); // the next case of the same test
    build();
}

/* ---- Where weights may lie ------------------------------------------------------------------ */

START_TEST(test_all_weights_in_one_file)
{
    send_all_out(WEIGHTS_FILE, 0);
    expect_same();
}
END_TEST

START_TEST(test_weights_at_odd_places_of_a_file)
{
    send_all_out(WEIGHTS_FILE, 1 + (size_t)_i);
    expect_same();
}
END_TEST

START_TEST(test_each_tensor_in_a_file_of_its_own)
{
    for (uint32_t i = 0; i < CONSTANTS; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "%u.bin", i);
        const ProtobufCBinaryData data = builder.graph.initializer[i]->raw_data;
        write_bytes(name, data.data, data.len);
        say(send_out(i), "location", name); // all of it
    }
    expect_same();
}
END_TEST

START_TEST(test_a_length_left_out_is_all_behind_the_offset)
{
    size_t offsets[CONSTANTS];
    write_weights(WEIGHTS_FILE, 0, offsets);
    Onnx__TensorProto *last = send_out(CONSTANTS - 1);
    say_number(last, "offset", offsets[CONSTANTS - 1]);
    say(last, "location", "./" WEIGHTS_FILE);
    say(last, "checksum", "is not looked at");
    expect_same();
}
END_TEST

START_TEST(test_weights_in_a_folder_below)
{
    char path[2 * UTIL_PATH_BYTES];
    path_of("below", path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    send_all_out("below/..weights..", 4);
    expect_same();
}
END_TEST

START_TEST(test_links_are_followed)
{
    char elsewhere[UTIL_PATH_BYTES];
    char from[2 * UTIL_PATH_BYTES];
    char to[2 * UTIL_PATH_BYTES];
    util_temp_dir(elsewhere);
    send_all_out(WEIGHTS_FILE, 0);
    path_of(WEIGHTS_FILE, from);
    (void)snprintf(to, sizeof(to), "%s/blob", elsewhere);
    ck_assert_int_eq(rename(from, to), 0);
    ck_assert_int_eq(symlink(to, from), 0);
    expect_same();
    util_remove_tree(elsewhere);
}
END_TEST

START_TEST(test_two_tensors_may_share_bytes)
{
    struct cell_model *model = NULL;
    send_all_out(WEIGHTS_FILE, 0);
    const Onnx__TensorProto *first = builder.graph.initializer[0];
    Onnx__TensorProto *unused = base_arena_alloc(&builder.arena, sizeof(*unused));
    ck_assert_ptr_nonnull(unused);
    *unused = *first;
    unused->name = text_of("twice");
    onnx_constant(&builder, "twice", unused);
    ck_assert_int_eq(load(&model), BASE_OK);
    ck_assert_ptr_eq(model->stages[0].type, inside->stages[0].type);
    cell_model_free(registry, model);
}
END_TEST

START_TEST(test_a_missing_file_that_nobody_needs_does_no_harm)
{
    Onnx__TensorProto *unused = onnx_ints(&builder, 1, 1, &(int64_t){1});
    onnx_constant(&builder, "unused", unused);
    unused->has_data_location = true;
    unused->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    unused->has_raw_data = false;
    say(unused, "location", "nowhere");
    expect_same();
}
END_TEST

START_TEST(test_the_size_of_a_model_is_that_of_all_its_files)
{
    struct cell_model *model = NULL;
    struct stat model_file;
    struct stat weights;
    char path[2 * UTIL_PATH_BYTES];
    send_all_out(WEIGHTS_FILE, 0);
    ck_assert_int_eq(load(&model), BASE_OK);
    path_of("model.onnx", path);
    ck_assert_int_eq(stat(path, &model_file), 0);
    path_of(WEIGHTS_FILE, path);
    ck_assert_int_eq(stat(path, &weights), 0);
    ck_assert_uint_eq(model->file_bytes, (uint64_t)(model_file.st_size + weights.st_size));
    cell_model_free(registry, model);
}
END_TEST

START_TEST(test_the_budget_follows_the_files_too)
{
    // A file of 5 MiB that is transposed, so copied, by nodes in front of the LSTM; the model file
    // alone, of some hundred bytes, would allow 4 MiB.
    enum { UNITS = 512 };
    const int64_t dims[] = {1, UNITS, (int64_t)4 * UNITS};
    const size_t bytes = sizeof(float) * 4 * UNITS * UNITS;
    struct cell_model *model = NULL;
    struct base_random random = {0};
    onnx_release(&builder);
    onnx_init(&builder, 17);
    base_random_init(&random, 1);
    onnx_input(&builder, "x", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 3,
               (const int64_t[]){-1, -1, UNITS});
    Onnx__TensorProto *tensor = onnx_random(&builder, 3, dims, &random, 0.1F);
    write_bytes(WEIGHTS_FILE, tensor->raw_data.data, bytes);
    onnx_constant(&builder, "turned", tensor);
    (void)send_out(0);
    say(tensor, "location", WEIGHTS_FILE);
    Onnx__NodeProto *turn = onnx_node(&builder, "Transpose", "turned", "w");
    onnx_set_ints(&builder, turn, "perm", 3, (const int64_t[]){0, 2, 1});
    Onnx__NodeProto *lstm = onnx_node(&builder, "LSTM", "x w w", "y h");
    onnx_set_int(&builder, lstm, "hidden_size", UNITS);
    onnx_output(&builder, "h", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 3,
                (const int64_t[]){1, -1, UNITS});
    const enum base_status status = load(&model);
    ck_assert_msg(status == BASE_OK, "%s", last_error.message);
    cell_model_free(registry, model);
}
END_TEST

/* ---- Where they may not --------------------------------------------------------------------- */

START_TEST(test_files_that_cannot_be_read_are_refused_by_name)
{
    char path[2 * UTIL_PATH_BYTES];
    // Never NOT_FOUND, by which whoever loads an encoder or a root tells that there is none.
    say(send_out(0), "location", "nowhere.bin");
    expect_why(BASE_UNAVAILABLE, "constant \"w0\" lies in \"nowhere.bin\"", "No such file");
    path_of("folder", path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    say(send_out(1), "location", "folder");
    expect_why(BASE_INVALID_ARGUMENT, "external data \"folder\"", "not a regular file");
    path_of("pipe", path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    say(send_out(1), "location", "pipe");
    expect_why(BASE_INVALID_ARGUMENT, "external data \"pipe\"", "not a regular file");
    write_bytes("empty", "", 0);
    say(send_out(1), "location", "empty");
    expect_why(BASE_INVALID_ARGUMENT, "external data \"empty\"", "is empty");
}
END_TEST

START_TEST(test_no_path_leads_out_of_the_folder)
{
    static const char *const paths[] = {"",          "/etc/passwd", "..", "../x",  "a/..",
                                        "a/../../x", "a/b/../c",    "/",  "./../x"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        say(send_out(0), "location", paths[i]);
        expect_why(BASE_INVALID_ARGUMENT, "constant \"w0\"", "no path below the model's folder");
    }
}
END_TEST

START_TEST(test_a_path_that_is_too_long_is_refused)
{
    char path[UTIL_PATH_BYTES];
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    say(send_out(0), "location", path);
    expect_why(BASE_UNAVAILABLE, "constant \"w0\" lies in \"xxx", "too long");
}
END_TEST

START_TEST(test_what_is_said_of_a_place_must_make_sense)
{
    static const struct {
        const char *key, *value, *why;
    } cases[] = {
        {"offset", "", "with the offset \"\""},
        {"offset", "-4", "with the offset \"-4\""},
        {"offset", "4 ", "with the offset \"4 \""},
        {"offset", "0x4", "with the offset \"0x4\""},
        {"length", "1e2", "with the length \"1e2\""},
        {"offset", "18446744073709551616", "with the offset"},
        {"length", "99999999999999999999999", "with the length"},
        {"location", WEIGHTS_FILE, "twice the key \"location\""},
        {"format", "raw", "the unknown key \"format\""},
        {"", "", "the unknown key \"\""},
    };
    write_bytes(WEIGHTS_FILE, "0123", 4);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Onnx__TensorProto *tensor = send_out(0);
        say(tensor, "location", WEIGHTS_FILE);
        say(tensor, cases[i].key, cases[i].value);
        expect_why(BASE_INVALID_ARGUMENT, "constant \"w0\"", cases[i].why);
    }
    (void)send_out(0);
    expect_why(BASE_INVALID_ARGUMENT, "constant \"w0\"", "without a location");
    say_number(send_out(0), "offset", 0);
    expect_why(BASE_INVALID_ARGUMENT, "constant \"w0\"", "without a location");
    const ProtobufCBinaryData data = builder.graph.initializer[0]->raw_data;
    Onnx__TensorProto *both = send_out(0);
    both->has_raw_data = true;
    both->raw_data = data;
    say(both, "location", WEIGHTS_FILE);
    expect_why(BASE_INVALID_ARGUMENT, "constant \"w0\"", "inside and outside");
}
END_TEST

START_TEST(test_places_beyond_the_file_or_of_another_size_are_refused_with_numbers)
{
    const size_t bytes = constant_of(&builder, "w0")->raw_data.len;
    static const char zeros[4096];
    ck_assert_uint_lt(bytes + 8, sizeof(zeros));
    write_bytes(WEIGHTS_FILE, zeros, bytes + 8);
    static const struct {
        const char *offset, *length;
        int64_t more; /* than the tensor has; length is not given */
        const char *why;
    } cases[] = {
        {"0", NULL, 8, "bytes of data in \"" WEIGHTS_FILE "\", its shape"},
        {"12", NULL, -4, "bytes of data in \"" WEIGHTS_FILE "\", its shape"},
        {"18446744073709551615", NULL, 0, "the file has"},
        {"100000", NULL, 0, "lies at 100000 of"},
        {"4", "18446744073709551615", 0, "the file has"},
        {"8", "0", 0, "has 0 bytes of data"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        Onnx__TensorProto *tensor = send_out(0);
        say(tensor, "location", WEIGHTS_FILE);
        say(tensor, "offset", cases[i].offset);
        if (cases[i].length != NULL) {
            say(tensor, "length", cases[i].length);
        }
        expect_why(BASE_INVALID_ARGUMENT, "constant \"w0\"", cases[i].why);
    }
    Onnx__TensorProto *cut = send_out(0);
    say(cut, "location", WEIGHTS_FILE);
    say_number(cut, "offset", 12);
    say_number(cut, "length", bytes);
    expect_why(BASE_INVALID_ARGUMENT, "constant \"w0\" lies at 12", "the file has");
}
END_TEST

START_TEST(test_a_nan_in_another_file_is_refused_as_one_inside)
{
    char path[2 * UTIL_PATH_BYTES];
    const uint32_t nan = 0x7FC00000;
    send_all_out(WEIGHTS_FILE, 0);
    path_of(WEIGHTS_FILE, path);
    FILE *file = fopen(path, "r+b");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(&nan, sizeof(nan), 1, file), 1);
    ck_assert_int_eq(fclose(file), 0);
    expect_why(BASE_INVALID_ARGUMENT, "LSTM", "not finite");
}
END_TEST

START_TEST(test_all_files_together_have_the_limit_of_one)
{
    char path[2 * UTIL_PATH_BYTES];
    write_bytes("huge", "0", 1);
    path_of("huge", path);
    ck_assert_int_eq(truncate(path, (off_t)CELL_MODEL_BYTES_MAX), 0); // a hole: no disk
    say(send_out(0), "location", "huge");
    expect_why(BASE_RESOURCE_EXHAUSTED, "external data \"huge\" has 2147483647 bytes", "at most");
}
END_TEST

START_TEST(test_too_many_files_are_refused)
{
    char name[32];
    const int64_t dims[] = {1 << 18}; // the budget follows the file, and each entry costs some
    onnx_constant(&builder, "large",
                  onnx_tensor(&builder, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 1, dims,
                              base_arena_alloc(&builder.arena, 1 << 20), 1 << 20));
    for (uint32_t i = 0; i <= CELL__EXTERNAL_FILES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "many%u", i);
        write_bytes(name, "12345678", 8);
        Onnx__TensorProto *tensor = onnx_ints(&builder, 1, 1, &(int64_t){1});
        onnx_constant(&builder, name, tensor);
        tensor->has_data_location = true;
        tensor->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
        tensor->has_raw_data = false;
        say(tensor, "location", name);
    }
    expect_why(BASE_RESOURCE_EXHAUSTED, "files of external data", "1024");
}
END_TEST

START_TEST(test_a_model_in_memory_has_no_files)
{
    send_all_out(WEIGHTS_FILE, 0);
    expect_refused(&builder, BASE_UNIMPLEMENTED, "lies in another file (external data)");
    build(); // for teardown
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import_external");
    TCase *tests = tcase_create("external");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_all_weights_in_one_file);
    tcase_add_loop_test(tests, test_weights_at_odd_places_of_a_file, 0, 8);
    tcase_add_test(tests, test_each_tensor_in_a_file_of_its_own);
    tcase_add_test(tests, test_a_length_left_out_is_all_behind_the_offset);
    tcase_add_test(tests, test_weights_in_a_folder_below);
    tcase_add_test(tests, test_links_are_followed);
    tcase_add_test(tests, test_two_tensors_may_share_bytes);
    tcase_add_test(tests, test_a_missing_file_that_nobody_needs_does_no_harm);
    tcase_add_test(tests, test_the_size_of_a_model_is_that_of_all_its_files);
    tcase_add_test(tests, test_the_budget_follows_the_files_too);
    tcase_add_test(tests, test_files_that_cannot_be_read_are_refused_by_name);
    tcase_add_test(tests, test_no_path_leads_out_of_the_folder);
    tcase_add_test(tests, test_a_path_that_is_too_long_is_refused);
    tcase_add_test(tests, test_what_is_said_of_a_place_must_make_sense);
    tcase_add_test(tests, test_places_beyond_the_file_or_of_another_size_are_refused_with_numbers);
    tcase_add_test(tests, test_a_nan_in_another_file_is_refused_as_one_inside);
    tcase_add_test(tests, test_all_files_together_have_the_limit_of_one);
    tcase_add_test(tests, test_too_many_files_are_refused);
    tcase_add_test(tests, test_a_model_in_memory_has_no_files);
    suite_add_tcase(suite, tests);
    return util_run(suite);
}
