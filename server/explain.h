/* How a model would be computed here, in words and with predicted times: --explain-model. */
#ifndef SERVER_EXPLAIN_H
#define SERVER_EXPLAIN_H

#include "base/buf.h"
#include "base/status.h"
#include "config/config.h"

/* Loads config->explain_model, a model file, as the server would (with the config.yaml of its model
 * when it lies in a repository) onto the device that config describes; appends a text. Types are
 * calibrated unless config says off: from the cache, or 2 s a type. Starts the device's threads and
 * ends them. NOT_FOUND, INVALID_ARGUMENT, UNIMPLEMENTED and so on as a server that cannot start. */
enum base_status srv_explain_model(const struct cfg_config *config, struct base_buf *out,
                                   struct base_error *error);

#endif
