/* See parse.h. */
#include "tests/cells/parse.h"

#include "tests/util.h"

#include <string.h>

enum base_status try_built(struct onnx_builder *builder, struct built *built,
                           struct base_error *error)
{
    size_t length = 0;
    const uint8_t *bytes = onnx_pack(builder, &length);
    const struct cell_model_file file = {bytes, length, NULL};
    *built = (struct built){.model = NULL};
    *error = (struct base_error){.message = ""};
    ck_assert_int_eq(cell_registry_create(&built->registry), BASE_OK);
    return cell_model_parse(built->registry, file, "test", NULL, &built->model, error);
}

void load_built(struct onnx_builder *builder, struct built *built)
{
    struct base_error error;
    enum base_status status = try_built(builder, built, &error);
    ck_assert_msg(status == BASE_OK, "%s", error.message);
}

void free_built(struct onnx_builder *builder, struct built *built)
{
    cell_model_free(built->registry, built->model);
    cell_registry_free(built->registry);
    onnx_release(builder);
}

enum base_status parse_built(struct onnx_builder *builder, struct base_error *error)
{
    struct built built;
    enum base_status status = try_built(builder, &built, error);
    free_built(builder, &built);
    return status;
}

void expect_accepted(struct onnx_builder *builder)
{
    struct base_error error;
    enum base_status status = parse_built(builder, &error);
    ck_assert_msg(status == BASE_OK, "%s", error.message);
}

void expect_refused(struct onnx_builder *builder, enum base_status wanted, const char *why)
{
    struct base_error error;
    enum base_status status = parse_built(builder, &error);
    ck_assert_msg(status == wanted && strstr(error.message, why) != NULL, "%s, wanted %s: %s",
                  base_status_name(status), base_status_name(wanted), error.message);
}

void expect_error(enum base_status status, const struct base_error *error, enum base_status wanted,
                  const char *where, const char *why)
{
    ck_assert_msg(status == wanted, "%s, wanted %s: %s", base_status_name(status),
                  base_status_name(wanted), error->message);
    ck_assert_msg(strstr(error->message, where) != NULL, "no '%s' in: %s", where, error->message);
    ck_assert_msg(strstr(error->message, why) != NULL, "no '%s' in: %s", why, error->message);
}

Onnx__TensorProto *constant_of(const struct onnx_builder *builder, const char *name)
{
    for (size_t i = 0; i < builder->graph.n_initializer; i++) {
        if (strcmp(builder->graph.initializer[i]->name, name) == 0) {
            return builder->graph.initializer[i];
        }
    }
    ck_abort_msg("no %s", name);
    return NULL;
}
