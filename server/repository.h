/* The model repository on disk: NAME/VERSION/model.onnx or model.safetensors, and NAME/config.yaml
 * if there is one.
 *
 * Read once at start. Names are [A-Za-z0-9_.-]+ without a leading dot, versions plain positive
 * integers; other files and folders at these places are passed over, hidden ones silently. */
#ifndef SERVER_REPOSITORY_H
#define SERVER_REPOSITORY_H

#include "server/core.h"

struct srv_engine;

struct srv_repository_options {
    const char *path;
    uint32_t n_names; /* load only these models; 0 = all */
    const char *const *names;
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

/* As used above; for URLs and messages too. */
bool srv_repository_is_name(const char *name);

#endif
