/* The model repository on disk: NAME/VERSION/model.onnx, and NAME/config.yaml if there is one.
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
    bool exit_on_error; /* false: a broken version is added as unavailable */
};

/* Loads all versions of all models into core and engine; blocks. NOT_FOUND (folder, wanted name, no
 * model at all), or the first broken model's error with its file named. */
enum base_status srv_repository_load(const struct srv_repository_options *options,
                                     struct srv_core *core, struct srv_engine *engine,
                                     struct base_error *error);

/* As used above; for URLs and messages too. */
bool srv_repository_is_name(const char *name);

#endif
