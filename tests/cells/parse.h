/* Models that a test has built: accepted, or refused. */
#ifndef TESTS_CELLS_PARSE_H
#define TESTS_CELLS_PARSE_H

#include "base/status.h"
#include "cells/model.h"
#include "tests/onnx_builder.h"

struct built {
    struct cell_registry *registry;
    struct cell_model *model;
};

/* Packs and parses; free_built() either way. The builder stays as it is. */
enum base_status try_built(struct onnx_builder *builder, struct built *built,
                           struct base_error *error);
/* The same of what must be accepted. The builder stays as it is. */
void load_built(struct onnx_builder *builder, struct built *built);
/* Frees both, and releases the builder. */
void free_built(struct onnx_builder *builder, struct built *built);

/* Packs, releases the builder, parses and frees the model. */
enum base_status parse_built(struct onnx_builder *builder, struct base_error *error);

/* The same, where it must be accepted. */
void expect_accepted(struct onnx_builder *builder);

/* The same, where it must not be: with this status, and a message that says why. */
void expect_refused(struct onnx_builder *builder, enum base_status wanted, const char *why);

/* A status, and a message in which both texts stand. */
void expect_error(enum base_status status, const struct base_error *error, enum base_status wanted,
                  const char *where, const char *why);

/* The initializer of that name; fails the case when there is none. */
Onnx__TensorProto *constant_of(const struct onnx_builder *builder, const char *name);

#endif
