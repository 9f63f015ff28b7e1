/* See parts.h. */
#include "tests/server/parts.h"

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
