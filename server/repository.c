/* Reading the model repository. Names are sorted first, so that the order of loading, and with it
 * type numbers and log, does not depend on the file system. Loop thread, before the server serves,
 * and whoever loads models later. */
#include "server/repository.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/model_config.h"
#include "server/core.h"
#include "server/engine.h"
#include "server/plugin.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES  4096
#define ENTRIES_MAX 4096u

/* Of what the system says. */
#define REASON_BYTES 128

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
    *listing = (struct listing){0};
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool join(char out[PATH_BYTES], const char *folder, const char *name)
{
    int length = snprintf(out, PATH_BYTES, "%s/%s", folder, name);
    return length > 0 && length < PATH_BYTES;
}

/* Whether the entry of a folder is a folder, or leads to one, whose name passes. What only looks
 * like a model is mentioned in the log. */
static bool is_wanted(const char *path, const char *name, bool (*passes)(const char *name))
{
    char full[PATH_BYTES];
    char reason[REASON_BYTES];
    struct stat info;
    if (name[0] == '.' || !join(full, path, name)) {
        return false;
    }
    if (stat(full, &info) != 0) { // such as a link to nowhere
        log_warn("models", "%s passed over: %s", full, strerror_r(errno, reason, sizeof(reason)));
        return false;
    }
    if (!S_ISDIR(info.st_mode)) {
        return false;
    }
    if (!passes(name)) {
        log_warn("models", "%s passed over: not a name or version we take", full);
        return false;
    }
    return true;
}

static enum base_status listing_fill(struct listing *out, DIR *folder, const char *path,
                                     bool (*passes)(const char *name), struct base_error *error)
{
    char reason[REASON_BYTES];
    out->names = base_alloc_array(ENTRIES_MAX, sizeof(*out->names));
    if (out->names == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", path);
    }
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder); // NOLINT(concurrency-mt-unsafe): our own DIR
        if (entry == NULL && errno != 0) {
            return base_fail(error, BASE_UNAVAILABLE, "%s: %s", path,
                             strerror_r(errno, reason, sizeof(reason)));
        }
        if (entry == NULL) {
            return BASE_OK;
        }
        if (!is_wanted(path, entry->d_name, passes)) {
            continue;
        }
        if (out->count == ENTRIES_MAX) {
            return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: more than %u folders in it", path,
                             ENTRIES_MAX);
        }
        out->names[out->count] = base_strdup(entry->d_name);
        if (out->names[out->count] == NULL) {
            return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", path);
        }
        out->count++;
    }
}

/* Sub-folders of path whose names pass, for listing_release(); none after an error. */
static enum base_status list_folders(const char *path, bool (*passes)(const char *name),
                                     struct listing *out, struct base_error *error)
{
    char reason[REASON_BYTES];
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return base_fail(error, BASE_NOT_FOUND, "%s: %s", path,
                         strerror_r(errno, reason, sizeof(reason)));
    }
    enum base_status status = listing_fill(out, folder, path, passes, error);
    closedir(folder);
    if (status != BASE_OK) {
        listing_release(out);
        return status;
    }
    qsort((void *)out->names, out->count, sizeof(*out->names), compare_names);
    return BASE_OK;
}

static enum base_status open_plugin(const struct srv_repository_options *options,
                                    const char *folder, struct srv_model_files *files,
                                    struct base_error *error)
{
    if (files->cells->unfold != CELL_UNFOLD_PLUGIN) {
        return BASE_OK;
    }
    if (!options->allow_plugins) {
        return base_fail(error, BASE_FAILED_PRECONDITION,
                         "unfold.so: plug-ins are not allowed (--allow-plugins true)");
    }
    return srv_plugin_open(folder, files->cells, &files->plugin, error);
}

/* A model's folder as it is found. */
struct folder {
    const char *name;
    char path[PATH_BYTES];
    struct listing versions;
    struct cfg_model_config config; /* that all versions share */
};

/* One version from its folder; on an error nothing of it stays. */
static enum base_status read_files(const struct srv_repository_options *options,
                                   struct cell_registry *registry, const struct folder *folder,
                                   const char *version_folder, struct srv_model_files *out,
                                   struct base_error *error)
{
    BASE_TRY(
        srv_model_files_load(registry, version_folder, folder->name, &folder->config, out, error));
    const enum base_status status = open_plugin(options, version_folder, out, error);
    if (status != BASE_OK) {
        srv_model_files_release(registry, out);
        *out = (struct srv_model_files){0};
    }
    return status;
}

/* After an error the versions may be there all the same. */
static enum base_status folder_open(const struct srv_repository_options *options, const char *name,
                                    struct folder *out, struct base_error *error)
{
    out->name = name;
    out->config =
        (struct cfg_model_config){.weights = "fp32", .linear_weights = "fp32", .unfold = "chain"};
    out->versions = (struct listing){0};
    if (!join(out->path, options->path, name)) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%.200s: path too long", name);
    }
    BASE_TRY(list_folders(out->path, is_version, &out->versions, error));
    if (out->versions.count == 0) {
        return base_fail(error, BASE_NOT_FOUND,
                         "%.150s: no version folder with a model.onnx (such as %s/1/model.onnx)",
                         out->path, name);
    }
    return srv_model_files_configure(out->path, name, &out->config, error);
}

/* ---- One model ---- */

void srv_repository_release(struct cell_registry *registry, struct srv_repository_model *model)
{
    for (uint32_t v = 0; v < model->n_versions; v++) {
        srv_model_files_release(registry, &model->versions[v].files);
    }
    base_free(model->versions);
    *model = (struct srv_repository_model){0};
}

static enum base_status read_versions(const struct srv_repository_options *options,
                                      struct cell_registry *registry, const struct folder *folder,
                                      struct srv_repository_model *out, struct base_error *error)
{
    out->versions = base_alloc_array(folder->versions.count, sizeof(*out->versions));
    if (out->versions == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (uint32_t v = 0; v < folder->versions.count; v++) {
        struct srv_repository_version *version = &out->versions[v];
        char version_folder[PATH_BYTES];
        struct base_error reason = {.status = BASE_OK};
        (void)snprintf(version->version, sizeof(version->version), "%s", folder->versions.names[v]);
        if (!join(version_folder, folder->path, version->version)) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "%.200s: path too long", folder->path);
        }
        const enum base_status status =
            read_files(options, registry, folder, version_folder, &version->files, &reason);
        if (status != BASE_OK) {
            return base_fail(error, status, "version %s: %s", version->version, reason.message);
        }
        out->n_versions++;
    }
    out->sequence_length_max = folder->config.max_sequence_length;
    out->unfold_deadline_ns = folder->config.unfold_deadline;
    return BASE_OK;
}

/* Clients are told what is wrong in a model's folder, not where that lies. */
static void strip_path(const char *path, struct base_error *error)
{
    const size_t length = strlen(path);
    if (strncmp(error->message, path, length) == 0) {
        const char *rest = error->message + length;
        rest += strspn(rest, "/: ");
        memmove(error->message, rest, strlen(rest) + 1);
    }
}

enum base_status srv_repository_read(const struct srv_repository_options *options,
                                     struct cell_registry *registry, const char *name,
                                     struct srv_repository_model *out, struct base_error *error)
{
    struct folder folder;
    *out = (struct srv_repository_model){0};
    enum base_status status = folder_open(options, name, &folder, error);
    if (status == BASE_OK) {
        status = read_versions(options, registry, &folder, out, error);
    }
    if (status != BASE_OK) {
        srv_repository_release(registry, out);
        strip_path(folder.path, error);
    }
    listing_release(&folder.versions);
    return status;
}

/* ---- All of them, at the start ---- */

struct loading {
    const struct srv_repository_options *options;
    struct srv_core *core;
    struct srv_engine *engine;
    uint32_t loaded;
};

/* Into the engine too. */
static enum base_status load_files(struct loading *loading, const struct folder *folder,
                                   const char *version_folder, struct srv_model_files *out,
                                   struct base_error *error)
{
    struct cell_registry *registry = srv_engine_registry(loading->engine);
    BASE_TRY(read_files(loading->options, registry, folder, version_folder, out, error));
    const enum base_status status = srv_engine_add_model(loading->engine, out->cells, error);
    if (status != BASE_OK) {
        srv_model_files_release(registry, out);
    }
    return status;
}

/* What cannot be loaded ends the loading, or stands in core as unavailable. version "": the model
 * as a whole; why: what the log says; reason: what clients are told. */
static enum base_status give_up(struct loading *loading, const char *name, const char *version,
                                const struct base_error *why, const char *reason,
                                struct base_error *error)
{
    if (loading->options->exit_on_error) {
        *error = *why;
        return why->status;
    }
    log_error("models", "model %s%s%s is unavailable: %s", name,
              version[0] != '\0' ? " version " : "", version, why->message);
    const struct srv_model_source source = {.name = name, .version = version, .reason = reason};
    loading->loaded++;
    return srv_core_add_model(loading->core, &source, error);
}

static enum base_status load_version(struct loading *loading, const struct folder *folder,
                                     const char *version, struct base_error *error)
{
    char file[PATH_BYTES];
    char version_folder[PATH_BYTES];
    struct srv_model_files files = {0};
    struct base_error reason = {.status = BASE_OK};
    if (!join(version_folder, folder->path, version) ||
        !join(file, version_folder, srv_model_files_name(version_folder, &folder->config))) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%.200s: path too long", folder->path);
    }
    const char *path = strcmp(folder->config.unfold, "chain") == 0 ? file : version_folder;
    enum base_status status = load_files(loading, folder, version_folder, &files, &reason);
    if (status != BASE_OK) {
        struct base_error why;
        base_fail(&why, status, "%.150s: %s", path, reason.message);
        return give_up(loading, folder->name, version, &why, reason.message, error);
    }
    struct srv_model_source source = {.name = folder->name,
                                      .version = version,
                                      .cells = files.cells,
                                      .texts = files.texts,
                                      .plugin = files.plugin,
                                      .unfold_deadline_ns = folder->config.unfold_deadline,
                                      .reason = "",
                                      .sequence_length_max = folder->config.max_sequence_length};
    status = srv_core_add_model(loading->core, &source, error);
    if (status != BASE_OK) {
        srv_model_files_release(srv_engine_registry(loading->engine), &files);
    }
    loading->loaded++;
    return status;
}

static enum base_status load_model(struct loading *loading, const char *name,
                                   struct base_error *error)
{
    struct folder folder;
    struct base_error why = {.status = BASE_OK};
    bool opened = folder_open(loading->options, name, &folder, &why) == BASE_OK;
    enum base_status status = BASE_OK;
    if (!opened && folder.versions.count == 0) {
        status = give_up(loading, name, "", &why, why.message, error);
    }
    for (uint32_t i = 0; i < folder.versions.count && status == BASE_OK; i++) {
        const char *version = folder.versions.names[i];
        status = opened ? load_version(loading, &folder, version, error)
                        : give_up(loading, name, version, &why, why.message, error);
    }
    listing_release(&folder.versions);
    return status;
}

static enum base_status load_all(struct loading *loading, struct base_error *error)
{
    struct listing models = {0};
    enum base_status status =
        list_folders(loading->options->path, srv_repository_is_name, &models, error);
    for (uint32_t i = 0; i < models.count && status == BASE_OK; i++) {
        status = load_model(loading, models.names[i], error);
    }
    listing_release(&models);
    return status;
}

static enum base_status load_named(struct loading *loading, struct base_error *error)
{
    const struct srv_repository_options *options = loading->options;
    for (uint32_t i = 0; i < options->n_names; i++) {
        if (!srv_repository_is_name(options->names[i])) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "'%.100s' is not a model name",
                             options->names[i]);
        }
        BASE_TRY(load_model(loading, options->names[i], error));
    }
    return BASE_OK;
}

enum base_status srv_repository_load(const struct srv_repository_options *options,
                                     struct srv_core *core, struct srv_engine *engine,
                                     struct base_error *error)
{
    struct loading loading = {.options = options, .core = core, .engine = engine};
    BASE_TRY(options->n_names == 0 && !options->only_names ? load_all(&loading, error)
                                                           : load_named(&loading, error));
    if (loading.loaded == 0 && !options->may_be_empty) {
        return base_fail(error, BASE_NOT_FOUND, "%s: no model here (NAME/1/model.onnx)",
                         options->path);
    }
    return BASE_OK;
}
