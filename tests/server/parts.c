/* See parts.h. */
#include "tests/server/parts.h"

#include "base/buf.h"
#include "base/mem.h"
#include "server/check_model.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void parts_folder(const char *repository, const char *name, const char *config,
                  char version[UTIL_PATH_BYTES])
{
    char path[2 * UTIL_PATH_BYTES];
    snprintf(path, sizeof(path), "%s/%s", repository, name);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    snprintf(path, sizeof(path), "%s/%s/config.yaml", repository, name);
    util_write_file(path, config);
    snprintf(version, UTIL_PATH_BYTES, "%.3000s/%s/1", repository, name);
    ck_assert_int_eq(mkdir(version, 0755), 0);
}

void parts_write(struct onnx_builder *builder, const char *version, const char *name)
{
    char path[2 * UTIL_PATH_BYTES];
    size_t length = 0;
    const uint8_t *bytes = onnx_pack(builder, &length);
    snprintf(path, sizeof(path), "%s/%s.onnx", version, name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
    onnx_release(builder);
}

static void state_half(Onnx__ValueInfoProto *info)
{
    if (info->type->tensor_type->elem_type == PARTS_FLOAT) {
        info->type->tensor_type->elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16;
    }
}

void parts_halve(const char *version, const char *name)
{
    char path[2 * UTIL_PATH_BYTES];
    size_t length = 0;
    Onnx__TypeProto__Tensor tensor = ONNX__TYPE_PROTO__TENSOR__INIT;
    Onnx__TypeProto type = ONNX__TYPE_PROTO__INIT;
    tensor.has_elem_type = true;
    tensor.elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16;
    type.value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type.tensor_type = &tensor;
    snprintf(path, sizeof(path), "%s/%s.onnx", version, name);
    char *bytes = util_read_file(path, &length);
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, length, (const uint8_t *)bytes);
    ck_assert_ptr_nonnull(model);
    for (size_t i = 0; i < model->graph->n_input; i++) {
        state_half(model->graph->input[i]);
    }
    for (size_t o = 0; o < model->graph->n_output; o++) {
        Onnx__ValueInfoProto *info = model->graph->output[o];
        ck_assert_ptr_null(info->type);
        info->type = strncmp(info->name, "token", strlen("token")) == 0 ? NULL : &type;
    }
    uint8_t *packed = malloc(onnx__model_proto__get_packed_size(model));
    ck_assert_ptr_nonnull(packed);
    length = onnx__model_proto__pack(model, packed);
    for (size_t o = 0; o < model->graph->n_output; o++) {
        model->graph->output[o]->type = NULL; // not its own
    }
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(packed, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
    onnx__model_proto__free_unpacked(model, NULL);
    free(packed);
    free(bytes);
}

void parts_constant(struct onnx_builder *builder, struct base_random *random, const char *name,
                    int64_t rows, int64_t cols)
{
    const int64_t dims[] = {rows, cols};
    onnx_constant(builder, name, onnx_random(builder, 2, dims, random, 0.5f));
}

void parts_input(struct onnx_builder *builder, const char *name, int32_t dtype, int64_t width)
{
    const int64_t dims[] = {-1, width};
    onnx_input(builder, name, dtype, width > 0 ? 2 : 1, dims);
}

void parts_output(struct onnx_builder *builder, const char *name)
{
    onnx_output(builder, name, PARTS_FLOAT, 0, NULL);
    builder->graph.output[builder->graph.n_output - 1]->type = NULL;
}

void parts_fail_allocations(parts_load *load, const void *version)
{
    enum base_status status = BASE_RESOURCE_EXHAUSTED;
    uint32_t refused = 0;
    for (uint64_t n = 1; status != BASE_OK; n++) {
        struct cell_registry *registry = NULL;
        struct cell_model *model = NULL;
        ck_assert_int_eq(cell_registry_create(&registry), BASE_OK);
        base_alloc_fail_at(n);
        status = load(registry, version, &model);
        base_alloc_fail_at(0);
        ck_assert(status == BASE_OK || status == BASE_RESOURCE_EXHAUSTED);
        refused += status == BASE_OK ? 0 : 1;
        cell_model_free(registry, model);
        cell_registry_free(registry);
    }
    ck_assert_uint_gt(refused, 3);
}

void parts_expect_lines(const char *folder, const char *const *lines)
{
    struct base_buf out;
    struct base_error error = {.message = ""};
    base_buf_init(&out, 1 << 16);
    ck_assert_msg(srv_check_model(folder, &out, &error) == BASE_OK, "%s", error.message);
    base_buf_text(&out, "");
    for (; *lines != NULL; lines++) {
        ck_assert_msg(memmem(out.data, out.length, *lines, strlen(*lines)) != NULL, "%s in %.*s",
                      *lines, (int)out.length, (const char *)out.data);
    }
    base_buf_release(&out);
}
