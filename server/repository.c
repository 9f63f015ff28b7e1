/* Reading the model repository. Names are sorted first, so that the order of loading, and with it
 * type numbers and log, does not depend on the file system. Loop thread, before the server serves.
 */
#include "server/repository.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/model_config.h"
#include "server/engine.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES  4096
#define ENTRIES_MAX 4096u

/* Sorted entries of a folder that pass a test. */
struct listing {
    char **names;
    uint32_t count;
};

bool srv_repository_is_name(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length >= CELL_NAME_BYTES || name[0] == '.') {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.' || c == '-';
        if (!allowed) {
            return false;
        }
    }
    return true;
}

/* 1, 2, ... without leading zeros, below 10^18: what clients may write as a version. */
static bool is_version(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length <= 18 && strspn(name, "0123456789") == length && name[0] != '0';
}

static void listing_release(struct listing *listing)
{
    for (uint32_t i = 0; i < listing->count; i++) {
        base_free(listing->names[i]);
    }
    base_free((void *)listing->names);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool join(char out[PATH_BYTES], const char *folder, const char *name)
{
    int length = snprintf(out, PATH_BYTES, "%s/%s", folder, name);
    return length > 0 && length < PATH_BYTES;
}

/* Adds the entry when it is a folder whose name passes; false: out of memory. */
static bool listing_add(struct listing *out, const char *path, const char *name,
                        bool (*passes)(const char *name))
{
    char full[PATH_BYTES];
    if (name[0] == '.' || !join(full, path, name) || !is_folder(full)) {
        return true;
    }
    if (!passes(name)) {
        log_warn("models", "%s passed over: not a name or version we take", full);
        return true;
    }
    out->names[out->count] = base_strdup(name);
    return out->names[out->count] != NULL && ++out->count > 0;
}

/* Sub-folders of path whose names pass; the caller releases the listing also after an error. */
static enum base_status list_folders(const char *path, bool (*passes)(const char *name),
                                     struct listing *out, struct base_error *error)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): before any other thread is started
        return base_fail(error, BASE_NOT_FOUND, "%s: %s", path, strerror(errno));
    }
    out->names = base_alloc_array(ENTRIES_MAX, sizeof(*out->names));
    bool ok = out->names != NULL;
    while (ok && out->count < ENTRIES_MAX) {
        const struct dirent *entry = readdir(folder); // NOLINT(concurrency-mt-unsafe): our own DIR
        if (entry == NULL) {
            break;
        }
        ok = listing_add(out, path, entry->d_name, passes);
    }
    closedir(folder);
    if (!ok) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", path);
    }
    qsort((void *)out->names, out->count, sizeof(*out->names), compare_names);
    return BASE_OK;
}

struct loading {
    const struct srv_repository_options *options;
    struct srv_core *core;
    struct srv_engine *engine;
    uint32_t loaded;
};

/* Loads one version; on an error nothing of it stays. */
static enum base_status load_cells(struct loading *loading, const char *file, const char *name,
                                   struct cell_model **out, struct base_error *error)
{
    struct cell_registry *registry = srv_engine_registry(loading->engine);
    struct cell_model *cells = NULL;
    BASE_TRY(cell_model_load(registry, file, name, &cells, error));
    enum base_status status = srv_engine_add_model(loading->engine, cells, error);
    if (status != BASE_OK) {
        cell_model_free(registry, cells);
        return status;
    }
    *out = cells;
    return BASE_OK;
}

static enum base_status load_version(struct loading *loading, const char *folder, const char *name,
                                     const char *version, const struct cfg_model_config *config,
                                     struct base_error *error)
{
    char file[PATH_BYTES];
    char version_folder[PATH_BYTES];
    struct cell_model *cells = NULL;
    struct base_error why = {.status = BASE_OK};
    if (!join(version_folder, folder, version) || !join(file, version_folder, "model.onnx")) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%.200s: path too long", folder);
    }
    enum base_status status = load_cells(loading, file, name, &cells, &why);
    if (status != BASE_OK) {
        if (loading->options->exit_on_error) {
            return base_fail(error, status, "%.150s: %s", file, why.message);
        }
        log_error("models", "model %s version %s is unavailable: %s: %s", name, version, file,
                  why.message);
    }
    struct srv_model_source source = {.name = name,
                                      .version = version,
                                      .cells = cells,
                                      .reason = why.message,
                                      .sequence_length_max = config->max_sequence_length};
    status = srv_core_add_model(loading->core, &source, error);
    if (status != BASE_OK && cells != NULL) {
        cell_model_free(srv_engine_registry(loading->engine), cells);
    }
    loading->loaded++;
    return status;
}

static enum base_status load_model(struct loading *loading, const char *name,
                                   struct base_error *error)
{
    char folder[PATH_BYTES];
    char config_file[PATH_BYTES];
    if (!join(folder, loading->options->path, name) || !join(config_file, folder, "config.yaml")) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%.200s: path too long", name);
    }
    struct cfg_model_config config;
    BASE_TRY(cfg_model_config_load(config_file, &config, error));
    struct listing versions = {0};
    enum base_status status = list_folders(folder, is_version, &versions, error);
    if (status == BASE_OK && versions.count == 0) {
        status = base_fail(error, BASE_NOT_FOUND,
                           "%s: no version folder with a model.onnx (such as %s/1/model.onnx)",
                           folder, folder);
    }
    for (uint32_t i = 0; i < versions.count && status == BASE_OK; i++) {
        status = load_version(loading, folder, name, versions.names[i], &config, error);
    }
    listing_release(&versions);
    return status;
}

enum base_status srv_repository_load(const struct srv_repository_options *options,
                                     struct srv_core *core, struct srv_engine *engine,
                                     struct base_error *error)
{
    struct loading loading = {.options = options, .core = core, .engine = engine};
    struct listing models = {0};
    enum base_status status = BASE_OK;
    if (options->n_names == 0) {
        status = list_folders(options->path, srv_repository_is_name, &models, error);
        for (uint32_t i = 0; i < models.count && status == BASE_OK; i++) {
            status = load_model(&loading, models.names[i], error);
        }
        listing_release(&models);
    }
    for (uint32_t i = 0; i < options->n_names && status == BASE_OK; i++) {
        if (!srv_repository_is_name(options->names[i])) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "'%.100s' is not a model name",
                             options->names[i]);
        }
        status = load_model(&loading, options->names[i], error);
    }
    if (status == BASE_OK && loading.loaded == 0) {
        return base_fail(error, BASE_NOT_FOUND, "%s: no model here (NAME/1/model.onnx)",
                         options->path);
    }
    return status;
}
