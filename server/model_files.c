/* See model_files.h. */
#include "server/model_files.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES 4096

static enum base_status join(char out[PATH_BYTES], const char *folder, const char *name,
                             struct base_error *error)
{
    const int length = snprintf(out, PATH_BYTES, "%s/%s", folder, name);
    return length > 0 && length < PATH_BYTES
               ? BASE_OK
               : base_fail(error, BASE_INVALID_ARGUMENT, "%.200s: path too long", folder);
}

/* One file, as a chain; or the parts in a folder. */
static enum base_status load(struct cell_registry *registry, enum cell_unfold unfold,
                             const char *path, const char *label,
                             const struct cfg_model_config *config, struct cell_model **out,
                             struct base_error *error)
{
    struct cell_model_options options = {.precision = CELL_FP32};
    const struct cell_decoding decoding = {.has_start = config->start != CFG_ID_NONE,
                                           .start = config->start,
                                           .has_end = config->end != CFG_ID_NONE,
                                           .end = config->end,
                                           .steps_max = config->max_steps};
    BASE_TRY(cell_precision_find(config->weights, &options.precision, error));
    switch (unfold) {
    case CELL_UNFOLD_CHAIN:
        break;
    case CELL_UNFOLD_TREE:
        return cell_model_load_tree(registry, path, label, &options, out, error);
    case CELL_UNFOLD_SEQ2SEQ:
        return cell_model_load_decoder(registry, path, label, &options, &decoding, out, error);
    }
    return cell_model_load(registry, path, label, &options, out, error);
}

enum base_status srv_model_files_load(struct cell_registry *registry, const char *folder,
                                      const char *label, const struct cfg_model_config *config,
                                      struct cell_model **out, struct base_error *error)
{
    char file[PATH_BYTES];
    enum cell_unfold unfold = CELL_UNFOLD_CHAIN;
    BASE_TRY(cell_unfold_find(config->unfold, &unfold, error));
    BASE_TRY(join(file, folder, "model.onnx", error));
    return load(registry, unfold, unfold == CELL_UNFOLD_CHAIN ? file : folder, label, config, out,
                error);
}

static bool holds(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    struct stat info;
    return join(path, folder, name, NULL) == BASE_OK && stat(path, &info) == 0;
}

bool srv_model_files_are_parts(const char *folder, enum cell_unfold *out)
{
    const bool is_tree = holds(folder, "leaf.onnx") && holds(folder, "node.onnx");
    *out = is_tree ? CELL_UNFOLD_TREE : CELL_UNFOLD_SEQ2SEQ;
    return is_tree || holds(folder, "decoder.onnx");
}

enum base_status srv_model_files_open(struct cell_registry *registry, const char *path,
                                      struct cell_model **out, struct base_error *error)
{
    char config_path[PATH_BYTES];
    struct cfg_model_config config;
    enum cell_unfold unfold = CELL_UNFOLD_CHAIN;
    const char *slash = strrchr(path, '/');
    const bool are_parts = srv_model_files_are_parts(path, &unfold);
    const int folder = are_parts ? (int)strlen(path) : slash == NULL ? 0 : (int)(slash - path);
    const int length = snprintf(config_path, sizeof(config_path), "%.*s%s../config.yaml", folder,
                                path, folder > 0 ? "/" : "");
    if (length >= (int)sizeof(config_path)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%.200s: path too long", path);
    }
    BASE_TRY(cfg_model_config_load(config_path, &config, error));
    struct base_error why = {.status = BASE_OK};
    unfold = are_parts ? unfold : CELL_UNFOLD_CHAIN;
    const enum base_status status = load(registry, unfold, path, "model", &config, out, &why);
    return status == BASE_OK ? BASE_OK : base_fail(error, status, "%.150s: %s", path, why.message);
}
