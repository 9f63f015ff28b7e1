/* Gate tables: where an LSTM, a GRU or an RNN reads the row of an embedding, the sums over x of
 * every row are computed at load, and a step looks them up (embedding folding). It then multiplies
 * by the weights of h alone, in any batch and with nothing to compute ahead. The bits are those of
 * a step that does it all, as with windows. Runs on the thread that loads types.
 *
 * The op that looks up an embedding is replaced, for each reader, by one that looks up its table.
 */
#include "cells/cpu/program.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

/* A table is larger than the embedding by 4 gates and by units over width; a vocabulary of words
 * would take hundreds of MiB, and no step would find its rows in a cache. */
#define TABLE_BYTES_MAX ((uint64_t)16 << 20)

/* ---- Planning ------------------------------------------------------------------------------- */

/* The op that makes a value, if it looks up a row; or NULL. */
static const struct cell_program_op *lookup_of(const struct cell_program *program, uint32_t value)
{
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        if (op->kind == CELL_OP_GATHER && op->out == value) {
            return op;
        }
    }
    return NULL;
}

static bool is_small(const struct cell_weight *embedding, const struct cell_program_op *reader)
{
    uint64_t sums = reader->op->weights[0].rows;
    return embedding->rows * sums * sizeof(float) <= TABLE_BYTES_MAX;
}

/* Puts an op before ops[at]. */
static struct cell_program_op *insert(struct cell_program *program, uint32_t at)
{
    base_assert(program->n_ops < CELL_PROGRAM_OPS_MAX);
    struct cell_program_op *op = &program->ops[at];
    memmove(op + 1, op, (program->n_ops - at) * sizeof(*op));
    program->n_ops++;
    return op;
}

/* Lets ops[at] read sums, which an op before it looks up. */
static void plan_table(struct cell_program *program, uint32_t at,
                       const struct cell_program_op *lookup)
{
    base_assert(program->n_values < CELL_PROGRAM_VALUES_MAX);
    uint32_t sums = program->n_values++;
    struct cell_value shape = {CELL_F32, program->ops[at].op->weights[0].rows};
    program->values[sums] = (struct cell_program_value){shape, CELL_PLACE_TABLE, 0};
    struct cell_program_op instead = *lookup;
    instead.out = sums;
    program->ops[at].embedding = &lookup->op->weights[0];
    program->ops[at].in[CELL_GATED_X] = sums;
    *insert(program, at) = instead;
}

static bool is_read(const struct cell_program *program, uint32_t value)
{
    const struct cell_def *def = &program->type->def;
    for (uint32_t o = 0; o < def->n_outputs; o++) {
        if (def->outputs[o] == value) {
            return true;
        }
    }
    for (uint32_t o = 0; o < program->n_ops; o++) {
        for (uint32_t i = 0; i < program->ops[o].n_in; i++) {
            if (program->ops[o].in[i] == value) {
                return true;
            }
        }
    }
    return false;
}

static void remove_unread_lookups(struct cell_program *program)
{
    uint32_t n = 0;
    for (uint32_t o = 0; o < program->n_ops; o++) {
        bool is_needed =
            program->ops[o].kind != CELL_OP_GATHER || is_read(program, program->ops[o].out);
        if (is_needed) {
            program->ops[n++] = program->ops[o];
        } else {
            program->values[program->ops[o].out].place = CELL_PLACE_NONE;
        }
    }
    program->n_ops = n;
}

void cell_program_plan_tables(struct cell_program *program)
{
    for (uint32_t o = 0; o < program->n_ops && !program->type->def.as_written; o++) {
        const struct cell_program_op *op = &program->ops[o];
        bool is_open = op->is_gated && op->embedding == NULL && !cell_op_is_tree(op->kind);
        const struct cell_program_op *lookup =
            is_open ? lookup_of(program, op->in[CELL_GATED_X]) : NULL;
        if (lookup != NULL && is_small(&lookup->op->weights[0], op)) {
            plan_table(program, o, lookup);
        }
    }
    remove_unread_lookups(program);
}

/* ---- Filling -------------------------------------------------------------------------------- */

/* Rows first .. first + n_rows - 1 of the table. */
static void fill_rows(const struct cell_program *program, const struct cell_program_op *reader,
                      uint32_t first, uint32_t n_rows, const float **x, float **out)
{
    const struct cell_weight *embedding = reader->embedding;
    size_t stride = (size_t)reader->gated.panels * reader->gated.columns;
    for (uint32_t r = 0; r < n_rows; r++) {
        x[r] = (const float *)embedding->data + (size_t)(first + r) * embedding->cols;
        out[r] = reader->table + (first + r) * stride;
    }
    struct cell_gated_ahead ahead = {.gated = &reader->gated,
                                     .n_rows = n_rows,
                                     .panel_end = reader->gated.panels,
                                     .x = x,
                                     .out = out,
                                     .scratch = program->spaces[0][0].scratch};
    program->kernels->gated_ahead(&ahead);
}

/* To the op that looks it up: the one whose result the reader takes. */
static void show_table(struct cell_program *program, const struct cell_program_op *reader)
{
    for (uint32_t o = 0; o < program->n_ops; o++) {
        struct cell_program_op *op = &program->ops[o];
        if (op->kind == CELL_OP_GATHER && op->out == reader->in[CELL_GATED_X]) {
            op->lookup = (struct cell_weight){
                .dtype = CELL_F32,
                .rows = reader->embedding->rows,
                .cols = reader->gated.panels * reader->gated.columns,
                .data = reader->table,
            };
        }
    }
}

static enum base_status fill_table(struct cell_program *program, struct cell_program_op *reader)
{
    const struct cell_weight *embedding = reader->embedding;
    uint32_t block = program->block_rows;
    size_t stride = (size_t)reader->gated.panels * reader->gated.columns;
    const float **x = base_arena_array(&program->arena, block, sizeof(*x));
    float **out = base_arena_array(&program->arena, block, sizeof(*out));
    reader->table = base_alloc_large(embedding->rows * stride * sizeof(float));
    if (x == NULL || out == NULL || reader->table == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (uint32_t first = 0; first < embedding->rows; first += block) {
        uint32_t left = embedding->rows - first;
        fill_rows(program, reader, first, left < block ? left : block, x, out);
    }
    show_table(program, reader);
    return BASE_OK;
}

enum base_status cell_program_fill_tables(struct cell_program *program)
{
    enum base_status status = BASE_OK;
    for (uint32_t o = 0; o < program->n_ops && status == BASE_OK; o++) {
        if (program->ops[o].embedding != NULL) {
            status = fill_table(program, &program->ops[o]);
        }
    }
    return status;
}
