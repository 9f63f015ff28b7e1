/* A model's files: NAME/VERSION/model.onnx, or model.safetensors, whose layers NAME/config.yaml
 * names (docs/safetensors.md), or the parts of a model of several (docs/trees.md,
 * docs/decoders.md), and what NAME/config.yaml and Triton's NAME/config.pbtxt say of them
 * (docs/triton.md), with the vocabularies beside these.
 * Blocks; loop thread, or any before it runs. */
#ifndef SERVER_MODEL_FILES_H
#define SERVER_MODEL_FILES_H

#include "cells/model.h"
#include "config/model_config.h"

struct srv_plugin;
struct srv_texts;

/* What the files make; ended with srv_model_files_release() or by who takes it over. */
struct srv_model_files {
    struct cell_model *cells;
    struct srv_texts *texts;   /* NULL: no tensor is text */
    struct srv_plugin *plugin; /* NULL: none, or not loaded (srv_plugin_open()) */
};

/* Loads what config->unfold asks for from the version's folder. Errors name a part, but no path of
 * this machine. */
enum base_status srv_model_files_load(struct cell_registry *registry, const char *folder,
                                      const char *label, const struct cfg_model_config *config,
                                      struct srv_model_files *out, struct base_error *error);

/* What the files of the model's own folder say of it, config.yaml and Triton's config.pbtxt, which
 * may be missing, but nothing that reading could wait for. name: the model's, or NULL. */
enum base_status srv_model_files_configure(const char *folder, const char *name,
                                           struct cfg_model_config *out, struct base_error *error);

/* The file of a whole model in that folder of a version: as config names it, else
 * "model.safetensors" where there is one, else "model.onnx". */
const char *srv_model_files_name(const char *folder, const struct cfg_model_config *config);

/* Whether the path ends as that of a model file. */
bool srv_model_files_is_model(const char *path);

/* Whether the folder holds the parts of a model, and of which kind. */
bool srv_model_files_are_parts(const char *folder, enum cell_unfold *out);

/* A file, or a folder of parts, as somebody names it who has no repository: with the config.yaml of
 * the folder above the version's, if there is one. */
enum base_status srv_model_files_open(struct cell_registry *registry, const char *path,
                                      struct srv_model_files *out, struct base_error *error);

void srv_model_files_release(struct cell_registry *registry, struct srv_model_files *files);

#endif
