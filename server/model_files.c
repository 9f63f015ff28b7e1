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

/* What config says of how the files are read. */
static enum base_status read_options(const struct cfg_model_config *config,
                                     struct cell_model_options *out, struct base_error *error)
{
    *out =
        (struct cell_model_options){.decoding = {.has_start = config->start != CFG_ID_NONE,
                                                 .start = config->start,
                                                 .has_end = config->end != CFG_ID_NONE,
                                                 .end = config->end,
                                                 .steps_max = config->max_steps,
                                                 .beam_width = config->beam,
                                                 .length_penalty = (float)config->length_penalty}};
    return cell_precision_find(config->weights, &out->precision, error);
}

enum base_status srv_model_files_load(struct cell_registry *registry, const char *folder,
                                      const char *label, const struct cfg_model_config *config,
                                      struct cell_model **out, struct base_error *error)
{
    char file[PATH_BYTES];
    struct cell_model_options options = {0};
    enum cell_unfold unfold = CELL_UNFOLD_CHAIN;
    BASE_TRY(cell_unfold_find(config->unfold, &unfold, error));
    BASE_TRY(read_options(config, &options, error));
    switch (unfold) {
    case CELL_UNFOLD_CHAIN:
        break;
    case CELL_UNFOLD_TREE:
        return cell_model_load_tree(registry, folder, label, &options, out, error);
    case CELL_UNFOLD_SEQ2SEQ:
        return cell_model_load_decoder(registry, folder, label, &options, out, error);
    }
    BASE_TRY(join(file, folder, "model.onnx", error));
    return cell_model_load(registry, file, label, &options, out, error);
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

/* The config.yaml of the folder above the version's: of a file, or of the folder of parts. */
static enum base_status read_config(const char *path, bool are_parts, struct cfg_model_config *out,
                                    struct base_error *error)
{
    char file[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    const int folder = are_parts ? (int)strlen(path) : slash == NULL ? 0 : (int)(slash - path);
    const int length =
        snprintf(file, sizeof(file), "%.*s%s../config.yaml", folder, path, folder > 0 ? "/" : "");
    if (length >= (int)sizeof(file)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%.200s: path too long", path);
    }
    return cfg_model_config_load(file, out, error);
}

enum base_status srv_model_files_open(struct cell_registry *registry, const char *path,
                                      struct cell_model **out, struct base_error *error)
{
    struct cfg_model_config config = {0};
    struct cell_model_options options = {0};
    struct base_error why = {.status = BASE_OK};
    enum cell_unfold unfold = CELL_UNFOLD_CHAIN;
    const bool are_parts = srv_model_files_are_parts(path, &unfold);
    BASE_TRY(read_config(path, are_parts, &config, error));
    BASE_TRY(read_options(&config, &options, error));
    config.unfold = unfold == CELL_UNFOLD_TREE ? "tree" : "seq2seq"; // as the files tell
    const enum base_status status =
        are_parts ? srv_model_files_load(registry, path, "model", &config, out, &why)
                  : cell_model_load(registry, path, "model", &options, out, &why);
    return status == BASE_OK ? BASE_OK : base_fail(error, status, "%.150s: %s", path, why.message);
}
