/* One cell type on one device, and chains that run on it: what the device tests share. */
#ifndef TESTS_CELLS_RIG_H
#define TESTS_CELLS_RIG_H

#include "cells/backend.h"
#include "tests/cells/build.h"

#define RIG_ROWS 64u

struct rig {
    const struct cell_backend *backend;
    struct cell_device *device;
    struct cell_team *team; /* NULL: one thread */
    struct cell_registry *registry;
    const struct cell_type *type;
    uint32_t n_layouts; /* whose rows are open */
    uint64_t submitted;
};

/* Opens the backend, one of this program's or "cuda-host", "cuda-host-library", and the first of
 * them with everything in its streams, "cuda-host-stream" (isa may be NULL),
 * loads def's type and opens RIG_ROWS rows of every layout. members 0: no team; of several all
 * compute, however small the cell is. Fails the case when
 * anything does. */
void rig_init(struct rig *rig, const char *backend, const char *isa, uint32_t members,
              const struct cell_def *def);
void rig_release(struct rig *rig);

/* Loads one more type on the device, of another definition; likewise. */
const struct cell_type *rig_add(struct rig *rig, const struct cell_def *def);

/* Submits, pumps or polls until it has completed, and checks the counter and the status. Of a team
 * a member is late now and then. */
void rig_run(struct rig *rig, struct cell_batch *batch);

/* A chain with its own memory. Inputs, per-step outputs and final states are all HOST references;
 * inputs and initial states are random (bytes 0 of ids in 0..9). An input of many rows has as many
 * as the chain has steps. */
struct rig_chain {
    struct cell_wiring wiring;
    struct cell_refs refs;
    struct cell_emit emits[CELL_OUTPUTS_MAX + CELL_STATES_MAX];
    uint8_t *inputs[CELL_INPUTS_MAX];   /* [steps][width] */
    uint8_t *outputs[CELL_OUTPUTS_MAX]; /* [steps][width] */
    uint8_t *init[CELL_STATES_MAX];
    uint8_t *final[CELL_STATES_MAX];
    uint32_t done;
};

void rig_chain_init(struct rig_chain *chain, const struct cell_type *type, uint32_t slot,
                    uint32_t steps, struct base_random *random);
void rig_chain_release(struct rig_chain *chain);

/* Puts the chain back to its start and wipes what it wrote. */
void rig_chain_reset(struct rig_chain *chain, const struct cell_type *type);

/* The chain as a row of the next batch, with up to steps steps. */
struct cell_batch_row rig_chain_row(struct rig_chain *chain, uint32_t steps);

/* What a chain has written, kept; ended with base_free(). */
uint8_t *rig_copy(const uint8_t *data, size_t bytes);

#endif
