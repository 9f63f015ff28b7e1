/* The model repository on disk: NAME/VERSION/model.onnx or model.safetensors, and NAME/config.yaml
 * and config.pbtxt if there are any.
 *
 * Read at the start, and model by model for who loads some later. Names are [A-Za-z0-9_.-]+ without
 * a leading dot, versions plain positive integers; other files and folders at these places are
 * passed over, hidden ones silently. */
#ifndef SERVER_REPOSITORY_H
#define SERVER_REPOSITORY_H

#include "server/model_files.h"
#include "server/request.h"

struct srv_core;
struct srv_engine;

struct srv_repository_options {
    const char *path;
    uint32_t n_names; /* load only these models; 0 = all, or none if only_names */
    const char *const *names;
    bool only_names;
    bool may_be_empty;  /* no model at all is no error */
    bool allow_plugins; /* else a model with one cannot be loaded */
    bool exit_on_error; /* false: what cannot be loaded is added as unavailable */
};

/* Loads all versions of all models into core and engine; blocks. NOT_FOUND (folder, no model at
 * all), INVALID_ARGUMENT (what cannot be a name), RESOURCE_EXHAUSTED (more than 4,096 folders in
 * one), or the first error of a model, its file or folder named: no such folder, no version,
 * config.yaml, model.onnx. Unless exit_on_error, such a model stands in core as unavailable, each
 * version with the reason; one without versions as version "". */
enum base_status srv_repository_load(const struct srv_repository_options *options,
                                     struct srv_core *core, struct srv_engine *engine,
                                     struct base_error *error);

/* All versions of one model, for who takes over what they hold. */
struct srv_repository_model {
    uint32_t n_versions;
    struct srv_repository_version {
        char version[SRV_VERSION_BYTES];
        struct srv_model_files files;
    } * versions;
    uint32_t sequence_length_max; /* 0 = the server's */
    uint64_t unfold_deadline_ns;
};

/* Reads a model's folder; blocks. The thread is the registry's for that long. Errors as above; then
 * nothing of it stays. */
enum base_status srv_repository_read(const struct srv_repository_options *options,
                                     struct cell_registry *registry, const char *name,
                                     struct srv_repository_model *out, struct base_error *error);
/* With whatever of the files has not been taken over (and set to zeros). */
void srv_repository_release(struct cell_registry *registry, struct srv_repository_model *model);

/* As used above; for URLs and messages too. */
bool srv_repository_is_name(const char *name);

#endif
