/* Gate tables: where an LSTM, a GRU or an RNN reads the row of an embedding, the sums over x of
 * every row are computed at load, and a step looks them up (embedding folding). It then multiplies
 * by the weights of h alone, in any batch and with nothing to compute ahead. The bits are those of
 * a step that does it all, as with windows. Runs on the thread that loads types.
 *
 * The op that looks up an embedding is replaced, for each reader, by one that looks up its table.
 *
 * A tree's leaf that reads such a row depends on nothing else: its h and c are known at load,
 * whole, and two ops that look them up stand in its place. */
#include "cells/cpu/patches.h"
#include "cells/cpu/program.h"
#include "cells/cpu/tree.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

/* A table is larger than the embedding by 4 gates and by units over width; a vocabulary of words
 * would take hundreds of MiB, and no step would find its rows in a cache. */
#define TABLE_BYTES_MAX ((uint64_t)16 << 20)

/* A leaf's h and c are read once each, a few lines behind each other: from memory, too, in less
 * time than they are computed. 20,000 words of 150 units are 24 MB, as much as their embedding. */
#define LEAVES_BYTES_MAX ((uint64_t)32 << 20)

/* Leaves that are computed together. */
#define FILL_ROWS 64u

/* ---- Planning ------------------------------------------------------------------------------- */

/* The op that makes a value, if it looks up one row; or NULL. */
static const struct cell_program_op *lookup_of(const struct cell_program *program, uint32_t value)
{
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        if (op->kind == CELL_OP_GATHER && op->out == value && !cell_patches_has(op)) {
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
    program->values[sums] = (struct cell_program_value){.shape = shape, .place = CELL_PLACE_TABLE};
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

/* The op that looks up x of a leaf whose h and c can be looked up instead: they go nowhere but to
 * scratch. Or NULL. */
static const struct cell_program_op *leaf_lookup(const struct cell_program *program,
                                                 const struct cell_program_op *op)
{
    const struct cell_program_op *lookup =
        op->kind == CELL_OP_TREE_LEAF ? lookup_of(program, op->in[0]) : NULL;
    const bool is_open = lookup != NULL && program->values[op->out].place == CELL_PLACE_SCRATCH &&
                         program->values[op->second].place == CELL_PLACE_SCRATCH;
    const uint64_t hidden = program->values[op->out].shape.width;
    return is_open && hidden * lookup->lookup.rows * 2 * sizeof(float) <= LEAVES_BYTES_MAX ? lookup
                                                                                           : NULL;
}

/* Two ops that look up h and c come where ops[at] was, which goes to the leaves. */
static void plan_leaf(struct cell_program *program, uint32_t at,
                      const struct cell_program_op *lookup)
{
    const struct cell_program_op instead = *lookup;
    struct cell_program_op *leaf = &program->leaves[program->n_leaves++];
    *leaf = program->ops[at];
    leaf->embedding = &lookup->op->weights[0];
    *insert(program, at) = instead;
    program->ops[at].out = leaf->out;
    program->ops[at + 1] = instead;
    program->ops[at + 1].out = leaf->second;
    program->values[leaf->out].place = CELL_PLACE_TABLE;
    program->values[leaf->second].place = CELL_PLACE_TABLE;
}

static enum base_status plan_leaves(struct cell_program *program)
{
    uint32_t n = 0;
    for (uint32_t o = 0; o < program->n_ops; o++) {
        n += leaf_lookup(program, &program->ops[o]) != NULL ? 1 : 0;
    }
    if (n == 0) {
        return BASE_OK;
    }
    program->leaves = base_arena_array(&program->arena, n, sizeof(program->leaves[0]));
    if (program->leaves == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (uint32_t o = 0; program->n_leaves < n; o++) {
        const struct cell_program_op *lookup = leaf_lookup(program, &program->ops[o]);
        if (lookup != NULL) {
            plan_leaf(program, o, lookup);
        }
    }
    return BASE_OK;
}

enum base_status cell_program_plan_tables(struct cell_program *program)
{
    if (program->type->def.as_written) {
        return BASE_OK;
    }
    for (uint32_t o = 0; o < program->n_ops; o++) {
        const struct cell_program_op *op = &program->ops[o];
        bool is_open = op->is_gated && op->embedding == NULL && !cell_op_is_tree(op->kind) &&
                       !cell_patches_has(op);
        const struct cell_program_op *lookup =
            is_open ? lookup_of(program, op->in[CELL_GATED_X]) : NULL;
        if (lookup != NULL && is_small(&lookup->op->weights[0], op)) {
            plan_table(program, o, lookup);
        }
    }
    BASE_TRY(plan_leaves(program));
    remove_unread_lookups(program);
    return BASE_OK;
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

/* ---- Filling with leaves -------------------------------------------------------------------- */

/* To the op that looks a value of the leaf up: of as many rows, from `data` on. */
static void show_leaves(struct cell_program *program, const struct cell_program_op *leaf,
                        uint32_t value, const float *data)
{
    for (uint32_t o = 0; o < program->n_ops; o++) {
        struct cell_program_op *op = &program->ops[o];
        if (op->kind == CELL_OP_GATHER && op->out == value) {
            op->lookup = (struct cell_weight){.dtype = CELL_F32,
                                              .rows = leaf->embedding->rows,
                                              .cols = leaf->gated.hidden,
                                              .data = data};
        }
    }
}

/* Leaves first .. first + n - 1; rows: room for h and for c of FILL_ROWS, and behind them scratch.
 */
static void fill_leaves(const struct cell_program *program, const struct cell_program_op *leaf,
                        uint32_t first, uint32_t n, float *rows)
{
    const struct cell_weight *embedding = leaf->embedding;
    const size_t hidden = leaf->gated.hidden;
    const size_t room = CELL_ROW_FLOATS(hidden);
    const float *x[FILL_ROWS];
    float *h[FILL_ROWS];
    float *c[FILL_ROWS];
    for (uint32_t r = 0; r < n; r++) {
        x[r] = (const float *)embedding->data + (size_t)(first + r) * embedding->cols;
        h[r] = rows + r * room;
        c[r] = rows + (FILL_ROWS + r) * room;
    }
    const struct cell_gated_step step = {.gated = &leaf->gated,
                                         .n_rows = n,
                                         .panel_end = leaf->gated.panels,
                                         .x = x,
                                         .out = h,
                                         .second = c,
                                         .scratch = rows + (size_t)2 * FILL_ROWS * room};
    program->kernels->gated_step(&step);
    for (uint32_t r = 0; r < n; r++) {
        float *to = leaf->table + (first + r) * hidden;
        memcpy(to, h[r], hidden * sizeof(float));
        memcpy(to + embedding->rows * hidden, c[r], hidden * sizeof(float));
    }
}

static enum base_status make_leaves(struct cell_program *program, struct cell_program_op *leaf)
{
    BASE_TRY(cell_tree_load(program->kernels, leaf));
    const uint32_t n = leaf->embedding->rows;
    const size_t hidden = leaf->gated.hidden;
    const size_t floats = (size_t)2 * FILL_ROWS * CELL_ROW_FLOATS(hidden) +
                          program->kernels->gated_scratch(&leaf->gated, FILL_ROWS);
    float *rows = base_alloc_aligned(floats * sizeof(float), BASE_CACHE_LINE);
    // Behind the last row there is room for the vector that a kernel reads it by.
    leaf->table = base_alloc_large((hidden * n * 2 + CELL_ROW_LINE) * sizeof(float));
    if (rows == NULL || leaf->table == NULL) {
        base_free(rows);
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (uint32_t first = 0; first < n; first += FILL_ROWS) {
        const uint32_t left = n - first;
        fill_leaves(program, leaf, first, left < FILL_ROWS ? left : FILL_ROWS, rows);
    }
    base_free(rows);
    cell_gated_release(&leaf->gated);
    show_leaves(program, leaf, leaf->out, leaf->table);
    show_leaves(program, leaf, leaf->second, leaf->table + n * hidden);
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
    for (uint32_t i = 0; i < program->n_leaves && status == BASE_OK; i++) {
        status = make_leaves(program, &program->leaves[i]);
    }
    return status;
}
