/* See model_files.h. */
#include "server/model_files.h"

#include "server/text.h"

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

static enum base_status load_cells(struct cell_registry *registry, const char *folder,
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

/* above: the folder of config.yaml. */
static enum base_status add_texts(struct cell_registry *registry, const char *above,
                                  const struct cfg_model_config *config,
                                  struct srv_model_files *files, struct base_error *error)
{
    const enum base_status status =
        srv_texts_load(config, above, files->cells, &files->texts, error);
    if (status != BASE_OK) {
        srv_model_files_release(registry, files);
    }
    return status;
}

enum base_status srv_model_files_load(struct cell_registry *registry, const char *folder,
                                      const char *label, const struct cfg_model_config *config,
                                      struct srv_model_files *out, struct base_error *error)
{
    char above[PATH_BYTES];
    *out = (struct srv_model_files){0};
    BASE_TRY(join(above, folder, "..", error));
    BASE_TRY(load_cells(registry, folder, label, config, &out->cells, error));
    return add_texts(registry, above, config, out, error);
}

void srv_model_files_release(struct cell_registry *registry, struct srv_model_files *files)
{
    if (files->cells != NULL) {
        cell_model_free(registry, files->cells);
    }
    srv_texts_free(files->texts);
    *files = (struct srv_model_files){0};
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

/* The folder above the version's: of a file, or of the folder of parts. */
static enum base_status folder_above(const char *path, bool are_parts, char out[PATH_BYTES],
                                     struct base_error *error)
{
    const char *slash = strrchr(path, '/');
    const int folder = are_parts ? (int)strlen(path) : slash == NULL ? 0 : (int)(slash - path);
    const int length = snprintf(out, PATH_BYTES, "%.*s%s..", folder, path, folder > 0 ? "/" : "");
    return length < PATH_BYTES
               ? BASE_OK
               : base_fail(error, BASE_INVALID_ARGUMENT, "%.200s: path too long", path);
}

static enum base_status open_cells(struct cell_registry *registry, const char *path,
                                   const char *above, struct cfg_model_config *config,
                                   struct srv_model_files *out, struct base_error *error)
{
    char file[PATH_BYTES];
    struct cell_model_options options = {0};
    enum cell_unfold unfold = CELL_UNFOLD_CHAIN;
    const bool are_parts = srv_model_files_are_parts(path, &unfold);
    BASE_TRY(join(file, above, "config.yaml", error));
    BASE_TRY(cfg_model_config_load(file, config, error));
    BASE_TRY(read_options(config, &options, error));
    config->unfold = unfold == CELL_UNFOLD_TREE ? "tree" : "seq2seq"; // as the files tell
    struct base_error why = {.status = BASE_OK};
    const enum base_status status =
        are_parts ? load_cells(registry, path, "model", config, &out->cells, &why)
                  : cell_model_load(registry, path, "model", &options, &out->cells, &why);
    return status == BASE_OK ? BASE_OK : base_fail(error, status, "%.150s: %s", path, why.message);
}

enum base_status srv_model_files_open(struct cell_registry *registry, const char *path,
                                      struct srv_model_files *out, struct base_error *error)
{
    char above[PATH_BYTES];
    struct cfg_model_config config = {0};
    enum cell_unfold unfold = CELL_UNFOLD_CHAIN;
    *out = (struct srv_model_files){0};
    BASE_TRY(folder_above(path, srv_model_files_are_parts(path, &unfold), above, error));
    BASE_TRY(open_cells(registry, path, above, &config, out, error));
    return add_texts(registry, above, &config, out, error);
}
