/* Writes safetensors files in memory for tests, and models of named layers from them. */
#ifndef TESTS_CELLS_STORED_H
#define TESTS_CELLS_STORED_H

#include "base/buf.h"
#include "cells/model.h"

/* A header as it stands, good or bad, and so many zeros behind it; to be ended with base_free(). */
uint8_t *stored_raw(const char *header, size_t header_length, size_t data_bytes, size_t *length);

/* A file that grows by tensors. */
struct stored_file {
    struct base_buf header, data, whole;
};

void stored_init(struct stored_file *file);
void stored_release(struct stored_file *file);

/* A tensor of float32 from -0.5 to 0.5, the same ones for the same name. shape: "4 8", "" of a
 * scalar. */
void stored_add(struct stored_file *file, const char *name, const char *shape);

/* One of any type, with its bytes. */
void stored_add_bytes(struct stored_file *file, const char *name, const char *dtype,
                      const char *shape, const void *bytes, size_t length);

/* The file so far; valid until the next change. */
struct cell_model_file stored_file(struct stored_file *file);

/* layers as in config.yaml, between commas; at most 80. *out is freed with cell_model_free(). */
enum base_status stored_load(struct cell_registry *registry, struct cell_model_file file,
                             const char *layers, struct cell_model **out, struct base_error *error);

#endif
