/* What the server says of itself and of its models, the same over gRPC and HTTP: the answers of
 * ServerMetadata, ModelMetadata and ModelConfig are made of these. No state, any thread. */
#ifndef SERVER_ABOUT_H
#define SERVER_ABOUT_H

#include "base/status.h"
#include "cells/model.h"

#include <stdint.h>

struct srv_model;

#define SRV_ABOUT_NAME    "cellbatch"
#define SRV_ABOUT_VERSION "0.1.0"

/* `platform` of a model (server_format, as Triton's), and `backend` of its configuration. */
#define SRV_ABOUT_PLATFORM "cellbatch_onnx"
#define SRV_ABOUT_BACKEND  "cellbatch"

/* Names of protocol extensions that work here; *count gets their number. Static. */
const char *const *srv_about_extensions(uint32_t *count);

/* "FP32", "INT64", "INT32"; static. */
const char *srv_about_datatype(enum cell_dtype dtype);

/* UNAVAILABLE with why a model that is not READY does not answer. */
enum base_status srv_about_not_ready(const struct srv_model *model, struct base_error *error);

#endif
