/* Models of several parts on disk, for the tests of trees and decoders. What fails fails the case.
 */
#ifndef TESTS_SERVER_PARTS_H
#define TESTS_SERVER_PARTS_H

#include "cells/model.h"
#include "tests/onnx_builder.h"
#include "tests/util.h"

enum {
    PARTS_FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
    PARTS_INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
    PARTS_INT32 = ONNX__TENSOR_PROTO__DATA_TYPE__INT32,
};

/* REPOSITORY/NAME/1, its path in version, with this config.yaml. */
void parts_folder(const char *repository, const char *name, const char *config,
                  char version[UTIL_PATH_BYTES]);

/* The builder's model as VERSION/NAME.onnx; releases the builder. */
void parts_write(struct onnx_builder *builder, const char *version, const char *name);

/* Makes a file of parts_write() state halves for what it states floats, inputs and outputs; those
 * without a type are floats but for ids, whose names begin with "token". */
void parts_halve(const char *version, const char *name);

/* A matrix of random floats in +-0.5; rows in [-1, width], or [-1] where width is 0; what it gives,
 * shape and type not stated. */
void parts_constant(struct onnx_builder *builder, struct base_random *random, const char *name,
                    int64_t rows, int64_t cols);
void parts_input(struct onnx_builder *builder, const char *name, int32_t dtype, int64_t width);
void parts_output(struct onnx_builder *builder, const char *name);

/* Loads what `version` names; RESOURCE_EXHAUSTED where an allocation fails. */
typedef enum base_status parts_load(struct cell_registry *registry, const void *version,
                                    struct cell_model **out);

/* Loads it again and again, with each allocation failing in turn, until it succeeds: nothing may be
 * left behind. */
void parts_fail_allocations(parts_load *load, const void *version);

/* --check-model takes the folder and says these lines, NULL behind the last. */
void parts_expect_lines(const char *folder, const char *const *lines);

#endif
