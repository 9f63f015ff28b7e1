/* A model's cells in a file, for this program where it was built without the importer, on a machine
 * that has none of its libraries (scripts/gpu/engine.sh).
 *
 * The structs as they are in memory, then the weights: for a program of the same tree and
 * architecture, as the file's head says; it is no format to keep anything in. */
#ifndef BENCH_CELLS_FILE_H
#define BENCH_CELLS_FILE_H

#include "cells/model.h"

/* UNAVAILABLE, with the path: it cannot be written. */
enum base_status bench_cells_write(const struct cell_model *model, const char *path,
                                   struct base_error *error);

/* Ended with cell_model_free(). NOT_FOUND, INVALID_ARGUMENT: another program's, or cut short;
 * definitions are checked as any is, how they are wired is believed. RESOURCE_EXHAUSTED. */
enum base_status bench_cells_read(struct cell_registry *registry, const char *path,
                                  struct cell_model **out, struct base_error *error);

#endif
