/* A file that is read whole: a model, or weights that lie beside one. Any thread. */
#ifndef CELLS_FILE_H
#define CELLS_FILE_H

#include "base/status.h"

#include <stddef.h>

/* Reads an open file from its beginning; only a regular one, since reading another could wait.
 * what: the file in errors, such as "the model file". On success *out, which is at least 16-byte
 * aligned, is ended with base_free(). An empty file is an error. INVALID_ARGUMENT,
 * RESOURCE_EXHAUSTED (more than bytes_max, or no memory), UNAVAILABLE. */
enum base_status cell_file_read(int fd, const char *what, size_t bytes_max, unsigned char **out,
                                size_t *length, struct base_error *error);

#endif
