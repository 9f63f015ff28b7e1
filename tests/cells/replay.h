/* A request through an imported model's stages, one row and step at a time in double precision: the
 * oracle for the importer, and for whoever runs whole models. */
#ifndef TESTS_CELLS_REPLAY_H
#define TESTS_CELLS_REPLAY_H

#include "base/random.h"
#include "cells/model.h"

#include <jansson.h>
#include <stdbool.h>

/* Dense, row-major; integers are numbers too. data ends with base_free(). */
struct replay_tensor {
    uint32_t rank;
    int64_t dims[CELL_RANK_MAX];
    size_t count;
    double *data;
};

/* A fresh tensor of numbers in -1..1 that floats hold; of zeros where random is NULL. */
struct replay_tensor replay_tensor_random(uint32_t rank, const int64_t *dims,
                                          struct base_random *random);

/* inputs as in model->inputs; outputs, as in model->outputs, are filled with fresh tensors. Fails
 * the running case when the inputs do not fit the model. */
void replay_run(const struct cell_model *model, const struct replay_tensor *inputs,
                struct replay_tensor *outputs);

/* The same of a request of a session of a model with a stream; is_end: its last. Rows have had
 * equally many steps before. */
void replay_run_part(const struct cell_model *model, const struct replay_tensor *inputs,
                     bool is_end, struct replay_tensor *outputs);

/* Runs a golden case `{"inputs": .., "outputs": ..}` whose tensors are {shape, data}, listed with
 * their names or keyed by them; fails the running case when an output is further than 1e-5 from
 * what is wanted. Outputs behind a row's length are not compared. what: for messages. */
void replay_golden(const struct cell_model *model, const json_t *golden_case, const char *what);

#endif
