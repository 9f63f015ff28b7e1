/* --check-model PATH: what a model file or a folder of models holds, or why it cannot be served. */
#ifndef SERVER_CHECK_MODEL_H
#define SERVER_CHECK_MODEL_H

#include "base/buf.h"
#include "base/status.h"

/* path: a model file, or a repository's or a model's folder, of which every version is checked.
 * Appends tensors and stages, in words. The first error names its file; blocks. */
enum base_status srv_check_model(const char *path, struct base_buf *out, struct base_error *error);

#endif
