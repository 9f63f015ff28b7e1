/* Stages while they are planned. Private to plan.c, place.c, connect.c and stages.c, which come in
 * this order: which stages there are, what each reads and hands on, what each computes. */
#ifndef CELLS_IMPORT_PLAN_H
#define CELLS_IMPORT_PLAN_H

#include "cells/import/rows.h"

/* A stage while it is planned. */
struct cell__plan {
    enum cell_stage_kind kind;
    uint32_t rank;
    uint32_t cut;       /* of those of one rank, see cell__cut_stages() */
    uint32_t recurrent; /* CHAIN */
    uint32_t sequence;  /* EACH, CHAIN */
    bool is_shared;
    uint32_t fused; /* CHAIN: row of the op that makes x, inside, or NONE */
    uint32_t n_inputs;
    struct cell_source inputs[CELL_INPUTS_MAX];
    struct cell_source init[CELL_STATES_MAX];
    uint32_t n_outputs;
    uint32_t output_rows[CELL_OUTPUTS_MAX];
};

struct cell__plans {
    struct cell__import *im;
    uint32_t n;
    struct cell__plan stages[CELL_STAGES_MAX];
    uint32_t chain_stages[CELL_STAGES_MAX];
    uint32_t chain_ranks[CELL_STAGES_MAX];
    uint32_t reach; /* of windows: the most steps beyond either end */
    uint32_t n_memories;
    struct cell_memory memories[CELL_MEMORIES_MAX];
    uint32_t n_joins;
    struct cell_join joins[CELL_JOINS_MAX];
    struct cell_def def; /* the one at work */
};

/* UNIMPLEMENTED. */
enum base_status cell__too_many(struct cell__import *im, uint32_t max, const char *what);

/* joined.c: sets cell_sequence.may_be_empty of the model's sequences, once it is known which rows
 * are needed. */
void cell__note_empty(const struct cell__import *im, uint32_t (*output_rows)[CELL_PIECES_MAX],
                      struct cell_model *model);

/* ---- plan.c ---- */

/* Whether operand i of a row's op is read with all of its steps. */
bool cell__is_memory(const struct cell__row *row, uint32_t i);

/* The n rows that lie side by side in a memory, or the row itself: what joins the outputs of chains
 * is not computed. */
/* The row of a memory that a row of it is, or is a part of. */
struct cell__part {
    uint32_t start, width;
};
uint32_t cell__memory_of(const struct cell__import *im, uint32_t row, struct cell__part *part);
const uint32_t *cell__pieces_of(const struct cell__import *im, const uint32_t *row, uint32_t *n);

/* The op of x that is taken into the chain's own definition, or NONE: an embedding, or what joins
 * the outputs of chains. */
uint32_t cell__fused_op(const struct cell__import *im, const struct cell__recurrent *recurrent);

/* The n rows that x is, or is made of inside the chain. */
const uint32_t *cell__rows_of_x(const struct cell__import *im,
                                const struct cell__recurrent *recurrent, uint32_t *n);

/* Marks the rows that the model's outputs need. */
void cell__plan_needed(struct cell__import *im, const struct cell_model *model,
                       uint32_t (*output_rows)[CELL_PIECES_MAX]);

/* Makes plans->stages, in the order of their ranks, and gives every needed op its stage. */
enum base_status cell__plan_stages(struct cell__plans *plans);

/* ---- place.c: once all rows have their least ranks ---- */

/* What is made of the request alone could all be made in the first stage, which then would hand on
 * much: each state of a stream that a later layer reads, or what a convolution makes of it. It is
 * made where it is read, if no more is handed on so. */
enum base_status cell__sink_rows(struct cell__plans *plans);

/* Stages of more ops than a definition may have become several, one behind the other. */
enum base_status cell__cut_stages(struct cell__plans *plans);

/* ---- connect.c ---- */

/* Whether a stage reads the operand from outside. */
bool cell__is_outside(const struct cell__import *im, uint32_t operand, uint32_t stage);

/* Where a stage or an output of the model finds this row, which is published by its own stage. */
enum base_status cell__source_of(struct cell__plans *plans, uint32_t r, struct cell_source *out);

/* Makes the row, or all steps of the row, an input of the stage, which reads it under that number.
 */
enum base_status cell__connect_input(struct cell__plans *plans, uint32_t row,
                                     struct cell__plan *stage, uint32_t *out);
enum base_status cell__connect_memory(struct cell__plans *plans, uint32_t row,
                                      struct cell__plan *stage, uint32_t *out);

/* Every edge between stages becomes an input here and an output there. */
enum base_status cell__connect_stages(struct cell__plans *plans);

#endif
