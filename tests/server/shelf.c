/* See shelf.h. One thread. */
#include "tests/server/shelf.h"

#include "server/core.h"
#include "server/loop.h"
#include "tests/onnx_builder.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct shelf shelf;
static struct srv_loop loop;

void shelf_setup(void)
{
    const struct srv_core_options core_options = {.sequence_length_max = 64,
                                                  .strict_readiness = true};
    struct srv_engine_options options;
    srv_engine_options_init(&options);
    options.rows = 16;
    util_temp_dir(shelf.root);
    memset(&shelf.error, 0, sizeof(shelf.error));
    ck_assert_int_eq(srv_loop_init(&loop), BASE_OK);
    ck_assert_int_eq(srv_engine_create(&options, &shelf.engine, &shelf.error), BASE_OK);
    ck_assert_int_eq(srv_core_create(&loop, shelf.engine, &core_options, &shelf.core), BASE_OK);
}

void shelf_teardown(void)
{
    srv_core_close(shelf.core);
    srv_loop_stop(&loop);
    srv_loop_run(&loop);
    srv_loop_release(&loop);
    srv_core_free(shelf.core);
    srv_engine_free(shelf.engine);
    util_remove_tree(shelf.root);
}

/* ---- What lies in the repository ---- */

const char *shelf_at(const char *name)
{
    static char path[UTIL_PATH_BYTES + 256];
    snprintf(path, sizeof(path), "%s/%s", shelf.root, name);
    return path;
}

void shelf_text(const char *name, const char *text)
{
    util_write_file(shelf_at(name), text);
}

void shelf_folder(const char *name)
{
    ck_assert_int_eq(mkdir(shelf_at(name), 0700), 0);
}

void shelf_link(const char *name, const char *target)
{
    ck_assert_int_eq(symlink(target, shelf_at(name)), 0);
}

void shelf_pipe(const char *name)
{
    ck_assert_int_eq(mkfifo(shelf_at(name), 0600), 0);
}

void shelf_model(const char *name)
{
    shelf_lstm(name, 3, 1);
}

void shelf_lstm(const char *name, uint32_t hidden, uint64_t seed)
{
    const struct onnx_lstm lstm = {
        .input = 2, .hidden = hidden, .layers = 1, .has_states = true, .seed = seed};
    struct onnx_builder builder;
    size_t length = 0;
    shelf_text(name, ""); // makes the folders
    onnx_init(&builder, 17);
    onnx_add_lstm(&builder, &lstm);
    const uint8_t *bytes = onnx_pack(&builder, &length);
    FILE *file = fopen(shelf_at(name), "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
    onnx_release(&builder);
}

/* ---- Loading ---- */

enum base_status shelf_load_from(const char *path, bool exit_on_error)
{
    const struct srv_repository_options options = {.path = path, .exit_on_error = exit_on_error};
    return srv_repository_load(&options, shelf.core, shelf.engine, &shelf.error);
}

enum base_status shelf_load_names(uint32_t n, const char *const *names, bool exit_on_error)
{
    const struct srv_repository_options options = {
        .path = shelf.root, .n_names = n, .names = names, .exit_on_error = exit_on_error};
    return srv_repository_load(&options, shelf.core, shelf.engine, &shelf.error);
}

void shelf_expect_refused(enum base_status status, const char *text, const char *more)
{
    ck_assert_int_eq(shelf_load_from(shelf.root, true), status);
    ck_assert_int_eq(shelf.error.status, status);
    ck_assert_msg(strstr(shelf.error.message, text) != NULL, "'%s' is not in '%s'", text,
                  shelf.error.message);
    ck_assert_msg(more == NULL || strstr(shelf.error.message, more) != NULL, "'%s' is not in '%s'",
                  more, shelf.error.message);
}

void shelf_expect_unavailable(const char *name, const char *version, const char *reason)
{
    shelf_model("good/1/model.onnx");
    ck_assert_msg(shelf_load_from(shelf.root, false) == BASE_OK, "%s", shelf.error.message);
    uint32_t n_unavailable = 0;
    for (uint32_t i = 0; i < srv_core_models(shelf.core); i++) {
        const struct srv_model *model = srv_core_model_at(shelf.core, i);
        bool is_good = strcmp(model->name, "good") == 0;
        ck_assert_int_eq(model->state, is_good ? SRV_MODEL_LOADING : SRV_MODEL_UNAVAILABLE);
        n_unavailable += is_good ? 0 : 1;
        ck_assert_int_eq(model->reason[0] == '\0', is_good);
    }
    ck_assert_uint_eq(n_unavailable, 1);
    const struct srv_model *model = NULL;
    ck_assert_int_eq(srv_core_find_model(shelf.core, name, version, &model, &shelf.error), BASE_OK);
    ck_assert_str_eq(model->version, version);
    ck_assert_msg(strstr(model->reason, reason) != NULL, "'%s' is not in '%s'", reason,
                  model->reason);
}
