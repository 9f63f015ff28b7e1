/* What the server says of itself and of its models, the same over gRPC and HTTP: the answers of
 * ServerMetadata, ModelMetadata and ModelConfig are made of these. No state, any thread. */
#ifndef SERVER_ABOUT_H
#define SERVER_ABOUT_H

#include "base/status.h"
#include "cells/model.h"

#include <stdbool.h>
#include <stdint.h>

struct srv_model;

#define SRV_ABOUT_NAME    "cellbatch"
#define SRV_ABOUT_VERSION "0.1.0"

/* `platform` of a model (server_format, as Triton's), and `backend` of its configuration. */
#define SRV_ABOUT_PLATFORM "cellbatch_onnx"
#define SRV_ABOUT_BACKEND  "cellbatch"

/* Before an input's name, a key of `parameters` there: what its integers may be
 * (srv_signature_range()). */
#define SRV_ABOUT_RANGE "range."

/* Names of protocol extensions that work here; *count gets their number. Static. has_control:
 * clients may load and unload models. */
const char *const *srv_about_extensions(bool has_control, uint32_t *count);

/* What the elements of a request's tensor are. */
struct srv_datatype {
    const char *name; /* one of SRV_DATATYPES */
    enum cell_dtype dtype;
    enum cell_form form;
    uint32_t bytes; /* of an element */
};

/* All of them, for a message. */
#define SRV_DATATYPES "FP32, INT64, INT32, BOOL, UINT8, INT8, FP16, BF16, FP64"

/* By its name, NULL for another; of a model's tensor; static both. */
const struct srv_datatype *srv_about_datatype_named(const char *name);
const struct srv_datatype *srv_about_datatype_of(const struct cell_tensor *tensor);

/* Name of what cells see; static. */
const char *srv_about_datatype(enum cell_dtype dtype);

/* UNAVAILABLE with why a model that is not READY does not answer. */
enum base_status srv_about_not_ready(const struct srv_model *model, struct base_error *error);

#endif
