/* A model's settings as Triton Inference Server has them, NAME/config.pbtxt: the text format of
 * inference.ModelConfig (triton-inference-server/common, protobuf/model_config.proto).
 *
 * Taken are the file's name, sizes of inputs and the states of a sequence; refused is what would
 * make another model of it; all else, which says how Triton is to run it, is passed over. */
#ifndef CONFIG_TRITON_CONFIG_H
#define CONFIG_TRITON_CONFIG_H

#include "config/model_config.h"

/* Adds to config what the file says and config, read from a config.yaml, does not. path: the file,
 * which may be missing. name: the model's, which the file has to have if it has one, or NULL.
 * INVALID_ARGUMENT: `FILE:LINE:COLUMN: what`; RESOURCE_EXHAUSTED. Blocks. */
enum base_status cfg_triton_config_load(const char *path, const char *name,
                                        struct cfg_model_config *config, struct base_error *error);

/* The same from memory; file names it in messages. */
enum base_status cfg_triton_config_parse(const char *file, const void *bytes, size_t length,
                                         const char *name, struct cfg_model_config *config,
                                         struct base_error *error);

#endif
