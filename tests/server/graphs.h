/* A model of a graph of small cells, on disk and served, and requests to it. One at a time. What
 * fails fails the case. */
#ifndef TESTS_SERVER_GRAPHS_H
#define TESTS_SERVER_GRAPHS_H

#include "tests/server/parts.h"
#include "tests/server/site.h"

#define GRAPHS_WIDTH 2
#define GRAPHS_WORDS 5

/* The cells of "graph", as its config.yaml numbers them. All but `y` and `z` are FP32 of
 * GRAPHS_WIDTH, rows of `id` INT64 below GRAPHS_WORDS:
 *   source  x -> v = 2 x
 *   join    a, b -> sum = a + b, product = a b
 *   word    id -> v = [id + 1, 10 id]
 *   wide    y -> z = 2 y, one wider than the others */
enum { GRAPHS_SOURCE, GRAPHS_JOIN, GRAPHS_WORD, GRAPHS_WIDE };

extern char graphs_folder[UTIL_PATH_BYTES]; /* the repository */
extern struct onnx_builder graphs_builder;
extern struct site graphs_site;

/* A checked fixture: an empty repository, and its end. */
void graphs_setup(void);
void graphs_teardown(void);

/* Writes "graph"; the path of its version. */
void graphs_write(char version[UTIL_PATH_BYTES]);

/* Its parts, into a version's folder. */
void graphs_write_parts(const char *version);

/* Serves the repository, plug-ins allowed: at most so many nodes a request, rows for so many of the
 * probe's graphs.
 */
void graphs_open(uint32_t nodes_max, uint32_t rows);

/* ---- Requests ---- */

#define GRAPHS_INPUTS_MAX 8u

void graphs_begin(struct visit *visit, const char *model);
void graphs_end(struct visit *visit);

/* Adds an input of [rows, width], or of [rows] where width is 0; data stays the caller's. */
void graphs_add(struct visit *visit, const char *name, const char *datatype, int64_t rows,
                int64_t width, const void *data);
/* Inputs "cells" and "edges". */
void graphs_add_shape(struct visit *visit, int64_t n_nodes, const int64_t *cells, int64_t n_edges,
                      const int64_t *edges);

/* Asks and waits; the answer is good. */
void graphs_answer(struct visit *visit);
/* Asks, waits, ends: INVALID_ARGUMENT, and the message says why. */
void graphs_refused(struct visit *visit, const char *why);

#endif
