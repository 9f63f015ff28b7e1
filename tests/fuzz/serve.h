/* The way of a request without network and threads, for the fuzz targets: validation, unfolding,
 * admission, scheduler and the scalar kernels, over the small models of tests/server/models.h, of
 * which "tokens" takes text too, its bytes, and "graph" what leads from cell to cell, and a
 * TreeLSTM (bench/tree_model.h). */
#ifndef TESTS_FUZZ_SERVE_H
#define TESTS_FUZZ_SERVE_H

#include "server/request.h"

#define SERVE_MODELS 5u /* "lone", "tokens", "chain", "tree", "graph" */

/* Answers a decoded request as the model of that index. BASE_OK: request->model, error and outputs
 * are as a front end finds them in done(). Else error says why.
 *
 * Asserts what must be so for any request: a refusal has its words, an admitted graph ends with
 * BASE_OK, and no row stays reserved or taken. */
enum base_status serve(struct srv_request *request, uint32_t model, struct base_error *error);

#endif
