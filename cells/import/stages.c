/* Partition into stages. Every recurrent node is a CHAIN stage: an LSTM, GRU or RNN with the
 * embedding that feeds it or with what joins other chains' outputs (both directions of the layer
 * before) to its x, a Scan with the ops of its body. All other ops are grouped by (sequence or
 * none, of each row of the batch or shared, rank) into EACH and ONCE stages, where
 *
 *   rank(op)    = the largest of: rank of an operand in a group of the same kind; rank + 1 of an
 *                 operand of the other kind; rank + 1 of a chain it reads
 *   rank(chain) = the largest rank + 1 of what it reads
 *
 * so every edge between two stages climbs, and the order by rank is a schedule. Constants have no
 * stage: they are repeated where they are used. One definition is at work at a time; the whole
 * costs a few passes over the row expressions. */
#include "cells/import/stages.h"

#include "cells/import/feed_back.h"
#include "cells/import/recognise.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

/* A stage while it is planned. */
struct plan {
    enum cell_stage_kind kind;
    uint32_t rank;
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

struct plans {
    struct cell__import *im;
    uint32_t n;
    struct plan stages[CELL_STAGES_MAX];
    uint32_t chain_stages[CELL_STAGES_MAX];
    uint32_t chain_ranks[CELL_STAGES_MAX];
    uint32_t n_memories;
    struct cell_memory memories[CELL_MEMORIES_MAX];
    struct cell_def def; /* the one at work */
};

static enum base_status too_many(struct cell__import *im, uint32_t max, const char *what)
{
    return base_fail(im->error, BASE_UNIMPLEMENTED, "the model needs more than %u %s", max, what);
}

/* ---- What is attended to ------------------------------------------------------------------ */

/* Whether operand i of a row's op is read with all of its steps. */
static bool is_memory(const struct cell__row *row, uint32_t i)
{
    return row->kind == CELL__ROW_OP && row->op.kind == CELL_OP_ATTEND && i > 0;
}

/* The rows that lie side by side in a memory: what joins the outputs of chains is not computed. */
static const uint32_t *pieces_of(const struct cell__import *im, const uint32_t *row, uint32_t *n)
{
    const struct cell__row *at = &im->rows[*row];
    bool is_even = at->kind == CELL__ROW_OP && at->op.kind == CELL_OP_CONCAT &&
                   at->op.n_operands <= CELL_PIECES_MAX;
    for (uint32_t i = 0; is_even && i < at->op.n_operands; i++) {
        const struct cell__row *piece = &im->rows[at->op.operands[i]];
        is_even = piece->kind == CELL__ROW_STEP &&
                  piece->value.width * at->op.n_operands == at->value.width &&
                  piece->times == at->times && piece->is_batched == at->is_batched;
    }
    *n = is_even ? at->op.n_operands : 1;
    return is_even ? at->op.operands : row;
}

/* ---- What is needed ----------------------------------------------------------------------- */

static void need_operands(struct cell__import *im, const struct cell__row *row)
{
    for (uint32_t i = 0; i < row->op.n_operands; i++) {
        uint32_t n = 1;
        const uint32_t *rows = &row->op.operands[i];
        if (is_memory(row, i) && !im->is_part) {
            rows = pieces_of(im, rows, &n);
        }
        for (uint32_t p = 0; p < n; p++) {
            im->rows[rows[p]].is_needed = true;
        }
    }
}

/* The op of x that is taken into the chain's own definition, or NONE: an embedding, or what joins
 * the outputs of chains. */
static uint32_t fused_op(const struct cell__import *im, const struct cell__recurrent *recurrent)
{
    const struct cell__row *x = &im->rows[recurrent->x_row];
    bool is_fused =
        x->kind == CELL__ROW_OP && (x->op.kind == CELL_OP_GATHER || x->op.kind == CELL_OP_CONCAT);
    for (uint32_t i = 0; is_fused && x->op.kind == CELL_OP_CONCAT && i < x->op.n_operands; i++) {
        is_fused = im->rows[x->op.operands[i]].kind == CELL__ROW_STEP;
    }
    return is_fused ? recurrent->x_row : CELL__NONE;
}

/* The rows that x is, or is made of inside the chain. */
static const uint32_t *rows_of_x(const struct cell__import *im,
                                 const struct cell__recurrent *recurrent, uint32_t *n)
{
    uint32_t fused = fused_op(im, recurrent);
    *n = fused == CELL__NONE ? 1 : im->rows[fused].op.n_operands;
    return fused == CELL__NONE ? &recurrent->x_row : im->rows[fused].op.operands;
}

static void need_recurrent(struct cell__import *im, const struct cell__recurrent *recurrent)
{
    uint32_t n = 0;
    const uint32_t *x = recurrent->is_scan ? NULL : rows_of_x(im, recurrent, &n);
    for (uint32_t i = 0; i < n; i++) {
        im->rows[x[i]].is_needed = true;
    }
    for (uint32_t s = 0; s < recurrent->n_states; s++) {
        if (recurrent->init_rows[s] != CELL__NONE) {
            im->rows[recurrent->init_rows[s]].is_needed = true;
        }
        if (recurrent->is_scan) {
            im->rows[recurrent->next_rows[s]].is_needed = true;
        }
    }
}

/* What a STEP or STATE needs. */
static void need_chain(struct cell__import *im, const struct cell__row *row)
{
    const struct cell__recurrent *recurrent = &im->recurrents[row->index];
    need_recurrent(im, recurrent);
    if (recurrent->is_scan && row->kind == CELL__ROW_STEP) {
        im->rows[recurrent->output_rows[row->part]].is_needed = true;
    }
}

static void mark_needed(struct cell__import *im, const struct cell_model *model,
                        uint32_t (*output_rows)[CELL_PIECES_MAX])
{
    for (uint32_t i = 0; i < model->n_outputs; i++) {
        for (uint32_t p = 0; p < model->outputs[i].pieces; p++) {
            im->rows[output_rows[i][p]].is_needed = true;
        }
    }
    for (uint32_t r = im->n_rows; r-- > 0;) {
        const struct cell__row *row = &im->rows[r];
        if (!row->is_needed) {
            continue;
        }
        switch (row->kind) {
        case CELL__ROW_OP:
            need_operands(im, row);
            break;
        case CELL__ROW_FIRST:
        case CELL__ROW_LAST:
            im->rows[row->index].is_needed = true;
            break;
        case CELL__ROW_STEP:
        case CELL__ROW_STATE:
            need_chain(im, row);
            break;
        case CELL__ROW_IN:
        case CELL__ROW_INPUT:
        case CELL__ROW_CONST:
            break;
        }
    }
}

/* ---- Ranks and stages --------------------------------------------------------------------- */

/* The least rank of a stage that reads this row from outside. */
static uint32_t rank_behind(const struct plans *plans, uint32_t r)
{
    const struct cell__row *row = &plans->im->rows[r];
    switch (row->kind) {
    case CELL__ROW_OP:
        return row->rank + 1;
    case CELL__ROW_STEP:
    case CELL__ROW_STATE:
        return plans->chain_ranks[row->index] + 1;
    case CELL__ROW_FIRST:
    case CELL__ROW_LAST:
        return row->rank;
    case CELL__ROW_IN:
    case CELL__ROW_INPUT:
    case CELL__ROW_CONST:
        break;
    }
    return 0;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The least rank of a Scan by what its body reads from outside. */
static uint32_t rank_body(const struct plans *plans, uint32_t number)
{
    const struct cell__import *im = plans->im;
    const struct cell__recurrent *scan = &im->recurrents[number];
    uint32_t rank = 0;
    for (uint32_t r = 0; r < im->n_rows; r++) {
        const struct cell__row *row = &im->rows[r];
        for (uint32_t i = 0; row->is_needed && row->chain == number && i < row->op.n_operands;
             i++) {
            if (im->rows[row->op.operands[i]].chain != number) {
                rank = max_u32(rank, rank_behind(plans, row->op.operands[i]));
            }
        }
    }
    for (uint32_t s = 0; s < scan->n_states; s++) {
        if (im->rows[scan->next_rows[s]].chain != number) {
            rank = max_u32(rank, rank_behind(plans, scan->next_rows[s]));
        }
    }
    return rank;
}

static void rank_recurrent(struct plans *plans, uint32_t number)
{
    struct cell__import *im = plans->im;
    const struct cell__recurrent *recurrent = &im->recurrents[number];
    uint32_t n = 0;
    const uint32_t *x = recurrent->is_scan ? NULL : rows_of_x(im, recurrent, &n);
    uint32_t rank = recurrent->is_scan ? rank_body(plans, number) : 0;
    for (uint32_t i = 0; i < n; i++) {
        rank = max_u32(rank, rank_behind(plans, x[i]));
    }
    for (uint32_t s = 0; s < recurrent->n_states; s++) {
        if (recurrent->init_rows[s] != CELL__NONE) {
            rank = max_u32(rank, rank_behind(plans, recurrent->init_rows[s]));
        }
    }
    plans->chain_ranks[number] = rank;
}

/* The least rank of an op by its operand i. */
static uint32_t rank_operand(const struct plans *plans, const struct cell__row *row, uint32_t i)
{
    const struct cell__import *im = plans->im;
    const struct cell__row *operand = &im->rows[row->op.operands[i]];
    uint32_t rank = 0;
    if (is_memory(row, i) && !im->is_part) {
        uint32_t n = 0;
        const uint32_t *pieces = pieces_of(im, &row->op.operands[i], &n);
        for (uint32_t p = 0; p < n; p++) {
            rank = max_u32(rank, rank_behind(plans, pieces[p]));
        }
        return rank;
    }
    const bool is_same = operand->kind == CELL__ROW_OP && operand->times == row->times &&
                         operand->is_batched == row->is_batched;
    return is_same ? operand->rank : rank_behind(plans, row->op.operands[i]);
}

static void rank_row(struct plans *plans, uint32_t r)
{
    struct cell__import *im = plans->im;
    struct cell__row *row = &im->rows[r];
    row->rank = 0;
    if (row->kind == CELL__ROW_STEP || row->kind == CELL__ROW_STATE) {
        rank_recurrent(plans, row->index);
    } else if (row->kind == CELL__ROW_FIRST || row->kind == CELL__ROW_LAST) {
        row->rank = rank_behind(plans, row->index);
    } else if (row->kind == CELL__ROW_OP && row->chain == CELL__NONE) {
        for (uint32_t i = 0; i < row->op.n_operands; i++) {
            row->rank = max_u32(row->rank, rank_operand(plans, row, i));
        }
    }
}

/* The number of the stage of the same kind, rank, sequence and (for a chain) recurrent node; it is
 * added when it is new. */
static enum base_status find_stage(struct plans *plans, const struct plan *like, uint32_t *out)
{
    for (*out = 0; *out < plans->n; ++*out) {
        const struct plan *at = &plans->stages[*out];
        if (at->kind == like->kind && at->rank == like->rank && at->recurrent == like->recurrent &&
            at->sequence == like->sequence && at->is_shared == like->is_shared) {
            return BASE_OK;
        }
    }
    if (plans->n == CELL_STAGES_MAX) {
        return too_many(plans->im, CELL_STAGES_MAX, "stages");
    }
    plans->stages[plans->n] = *like;
    plans->stages[plans->n++].fused = CELL__NONE;
    return BASE_OK;
}

/* Insertion sort by rank; equal ranks keep their order. */
static void sort_stages(struct plans *plans)
{
    for (uint32_t i = 1; i < plans->n; i++) {
        struct plan moving = plans->stages[i];
        uint32_t to = i;
        while (to > 0 && plans->stages[to - 1].rank > moving.rank) {
            plans->stages[to] = plans->stages[to - 1];
            to--;
        }
        plans->stages[to] = moving;
    }
}

/* The stage of an op that belongs to no chain. */
static enum base_status find_rows_stage(struct plans *plans, const struct cell__row *row,
                                        uint32_t *out)
{
    const struct plan like = {.kind = row->times != 0 ? CELL_STAGE_EACH : CELL_STAGE_ONCE,
                              .rank = row->rank,
                              .recurrent = CELL__NONE,
                              .sequence = row->times == 0 ? 0 : cell__only_sequence(row->times),
                              .is_shared = !row->is_batched};
    return find_stage(plans, &like, out);
}

/* Makes the stage that the row belongs to, or (of a recurrent node's result) comes from. */
static enum base_status make_stage(struct plans *plans, uint32_t r)
{
    struct cell__row *row = &plans->im->rows[r];
    uint32_t stage = 0;
    row->stage = CELL__NONE;
    row->output = CELL__NONE;
    if (!row->is_needed) {
        return BASE_OK;
    }
    if (cell__is_pair(row->times)) {
        return base_fail(plans->im->error, BASE_UNIMPLEMENTED,
                         "the model computes a value for each pair of steps of two sequences that "
                         "is no part of an attention");
    }
    rank_row(plans, r);
    if (row->kind == CELL__ROW_OP && row->chain == CELL__NONE) {
        return find_rows_stage(plans, row, &stage);
    }
    if (row->kind == CELL__ROW_STEP || row->kind == CELL__ROW_STATE) {
        const struct plan like = {.kind = CELL_STAGE_CHAIN,
                                  .rank = plans->chain_ranks[row->index],
                                  .recurrent = row->index,
                                  .sequence = plans->im->recurrents[row->index].sequence,
                                  .is_shared = !row->is_batched};
        return find_stage(plans, &like, &stage);
    }
    return BASE_OK;
}

static void note_chains(struct plans *plans)
{
    for (uint32_t s = 0; s < plans->n; s++) {
        struct plan *plan = &plans->stages[s];
        if (plan->kind == CELL_STAGE_CHAIN) {
            const struct cell__recurrent *recurrent = &plans->im->recurrents[plan->recurrent];
            plans->chain_stages[plan->recurrent] = s;
            plan->fused = recurrent->is_scan ? CELL__NONE : fused_op(plans->im, recurrent);
        }
    }
}

static enum base_status make_stages(struct plans *plans)
{
    struct cell__import *im = plans->im;
    for (uint32_t r = 0; r < im->n_rows; r++) {
        BASE_TRY(make_stage(plans, r));
    }
    sort_stages(plans);
    note_chains(plans);
    for (uint32_t r = 0; r < im->n_rows; r++) {
        struct cell__row *row = &im->rows[r];
        if (!row->is_needed || row->kind != CELL__ROW_OP) {
            continue;
        }
        if (row->chain != CELL__NONE) {
            row->stage = plans->chain_stages[row->chain];
        } else {
            BASE_TRY(find_rows_stage(plans, row, &row->stage));
        }
    }
    return BASE_OK;
}

/* ---- Sources ------------------------------------------------------------------------------ */

/* Output of a stage that holds this op's result. */
static enum base_status publish(struct plans *plans, uint32_t r)
{
    struct cell__row *row = &plans->im->rows[r];
    struct plan *stage = &plans->stages[row->stage];
    if (row->output != CELL__NONE) {
        return BASE_OK;
    }
    if (stage->n_outputs == CELL_OUTPUTS_MAX) {
        return too_many(plans->im, CELL_OUTPUTS_MAX, "values handed on by one stage");
    }
    row->output = stage->n_outputs;
    stage->output_rows[stage->n_outputs++] = r;
    return BASE_OK;
}

/* Where a row of a recurrent node's output is found: of is its STEP. */
static enum base_status source_of_step(struct plans *plans, enum cell_source_kind kind,
                                       const struct cell__row *of, struct cell_source *out)
{
    const struct cell__recurrent *recurrent = &plans->im->recurrents[of->index];
    *out = (struct cell_source){.kind = kind, .stage = plans->chain_stages[of->index]};
    if (recurrent->is_scan) {
        uint32_t row = recurrent->output_rows[of->part];
        BASE_TRY(publish(plans, row));
        out->index = plans->im->rows[row].output;
    }
    return BASE_OK;
}

/* Where a stage or an output of the model finds this row. */
static enum base_status source_of(struct plans *plans, uint32_t r, struct cell_source *out)
{
    const struct cell__row *row = &plans->im->rows[r];
    const struct cell__row *of = row;
    const enum cell_source_kind kind_at =
        row->kind == CELL__ROW_FIRST ? CELL_SOURCE_FIRST : CELL_SOURCE_LAST;
    *out = (struct cell_source){.kind = CELL_SOURCE_ZERO};
    switch (row->kind) {
    case CELL__ROW_CONST:
        base_assert(cell__row_is_zero(plans->im, r)); // others are made ops before
        return BASE_OK;
    case CELL__ROW_INPUT:
        *out = (struct cell_source){
            .kind = CELL_SOURCE_INPUT, .index = row->index, .piece = row->part};
        return BASE_OK;
    case CELL__ROW_STEP:
        return source_of_step(plans, CELL_SOURCE_EACH, row, out);
    case CELL__ROW_STATE:
        *out = (struct cell_source){.kind = CELL_SOURCE_LAST_STATE,
                                    .stage = plans->chain_stages[row->index],
                                    .index = row->part};
        return BASE_OK;
    case CELL__ROW_FIRST:
    case CELL__ROW_LAST:
        of = &plans->im->rows[row->index];
        if (of->kind == CELL__ROW_STEP) {
            return source_of_step(plans, kind_at, of, out);
        }
        BASE_TRY(publish(plans, row->index));
        break;
    case CELL__ROW_OP:
        BASE_TRY(publish(plans, r));
        break;
    case CELL__ROW_IN:
        base_assert(false); // inside its own chain it is no source
        break;
    }
    out->kind = row->times != 0 ? CELL_SOURCE_EACH : kind_at;
    out->stage = of->stage;
    out->index = of->output;
    return BASE_OK;
}

static bool is_same_source(struct cell_source a, struct cell_source b)
{
    return a.kind == b.kind && a.stage == b.stage && a.index == b.index && a.piece == b.piece;
}

/* Number of the stage's input that is this source. */
static enum base_status add_input(struct plans *plans, struct plan *stage,
                                  struct cell_source source, uint32_t *out)
{
    for (*out = 0; *out < stage->n_inputs; ++*out) {
        if (is_same_source(stage->inputs[*out], source)) {
            return BASE_OK;
        }
    }
    if (stage->n_inputs == CELL_INPUTS_MAX) {
        return too_many(plans->im, CELL_INPUTS_MAX, "values read by one stage");
    }
    stage->inputs[stage->n_inputs++] = source;
    return BASE_OK;
}

static bool is_outside(const struct cell__import *im, uint32_t operand, uint32_t stage)
{
    const struct cell__row *row = &im->rows[operand];
    return row->kind != CELL__ROW_CONST && row->kind != CELL__ROW_IN &&
           (row->kind != CELL__ROW_OP || row->stage != stage);
}

/* Makes the row an input of the stage, which reads it under that number. */
static enum base_status connect_input(struct plans *plans, uint32_t row, struct plan *stage,
                                      uint32_t *out)
{
    struct cell_source source;
    BASE_TRY(source_of(plans, row, &source));
    return add_input(plans, stage, source, out);
}

static bool is_same_memory(const struct cell_memory *a, const struct cell_memory *b)
{
    bool is_same = a->pieces == b->pieces;
    for (uint32_t p = 0; is_same && p < a->pieces; p++) {
        is_same = is_same_source(a->sources[p], b->sources[p]);
    }
    return is_same;
}

/* The number of the model's memory that these rows are, added when it is new. */
static enum base_status add_memory(struct plans *plans, const struct cell_memory *memory,
                                   uint32_t *out)
{
    for (*out = 0; *out < plans->n_memories; ++*out) {
        if (is_same_memory(&plans->memories[*out], memory)) {
            return BASE_OK;
        }
    }
    if (plans->n_memories == CELL_MEMORIES_MAX) {
        return too_many(plans->im, CELL_MEMORIES_MAX, "sequences that something attends to");
    }
    plans->memories[plans->n_memories++] = *memory;
    return BASE_OK;
}

/* Makes all steps of the row an input of the stage. */
static enum base_status connect_memory(struct plans *plans, uint32_t row, struct plan *stage,
                                       uint32_t *out)
{
    const struct cell__row *at = &plans->im->rows[row];
    struct cell_memory memory = {.width = at->value.width,
                                 .sequence = cell__only_sequence(at->times)};
    struct cell_source source = {.kind = CELL_SOURCE_MEMORY};
    const uint32_t *pieces = pieces_of(plans->im, &row, &memory.pieces);
    for (uint32_t p = 0; p < memory.pieces; p++) {
        BASE_TRY(source_of(plans, pieces[p], &memory.sources[p]));
    }
    BASE_TRY(add_memory(plans, &memory, &source.index));
    return add_input(plans, stage, source, out);
}

/* Makes operand i of the row's op an input of its stage, unless the stage has it inside. */
static enum base_status connect_operand(struct plans *plans, const struct cell__row *row,
                                        uint32_t i)
{
    const uint32_t operand = row->op.operands[i];
    struct plan *stage = &plans->stages[row->stage];
    uint32_t input = 0;
    if (is_memory(row, i) && !plans->im->is_part) {
        return connect_memory(plans, operand, stage, &input);
    }
    return is_outside(plans->im, operand, row->stage) ? connect_input(plans, operand, stage, &input)
                                                      : BASE_OK;
}

static enum base_status connect_chain(struct plans *plans, uint32_t s)
{
    struct cell__import *im = plans->im;
    struct plan *stage = &plans->stages[s];
    const struct cell__recurrent *recurrent = &im->recurrents[stage->recurrent];
    uint32_t n = 0;
    const uint32_t *x = recurrent->is_scan ? NULL : rows_of_x(im, recurrent, &n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t input = 0;
        BASE_TRY(connect_input(plans, x[i], stage, &input));
    }
    for (uint32_t i = 0; i < recurrent->n_states; i++) {
        if (recurrent->init_rows[i] != CELL__NONE) {
            BASE_TRY(source_of(plans, recurrent->init_rows[i], &stage->init[i]));
        }
        uint32_t input = 0;
        if (recurrent->is_scan && is_outside(im, recurrent->next_rows[i], s)) {
            BASE_TRY(connect_input(plans, recurrent->next_rows[i], stage, &input));
        }
    }
    return BASE_OK;
}

/* Every edge between stages becomes an input here and an output there. */
static enum base_status connect(struct plans *plans)
{
    struct cell__import *im = plans->im;
    for (uint32_t s = 0; s < plans->n; s++) {
        if (plans->stages[s].kind == CELL_STAGE_CHAIN) {
            BASE_TRY(connect_chain(plans, s));
        }
    }
    for (uint32_t r = 0; r < im->n_rows; r++) {
        const struct cell__row *row = &im->rows[r];
        for (uint32_t i = 0; row->stage != CELL__NONE && i < row->op.n_operands; i++) {
            BASE_TRY(connect_operand(plans, row, i));
        }
    }
    return BASE_OK;
}

/* ---- Definitions -------------------------------------------------------------------------- */

static enum base_status def_value(struct plans *plans, struct cell_value value, uint32_t *out)
{
    struct cell_def *def = &plans->def;
    if (def->n_values == CELL_VALUES_MAX) {
        return too_many(plans->im, CELL_VALUES_MAX, "values in one stage");
    }
    *out = def->n_values;
    def->values[def->n_values++] = value;
    return BASE_OK;
}

/* Appends an op whose operands are value numbers already. */
static enum base_status def_op(struct plans *plans, const struct cell_op *op,
                               struct cell_value value, uint32_t *out)
{
    struct cell_def *def = &plans->def;
    if (def->n_ops == CELL_OPS_MAX) {
        return too_many(plans->im, CELL_OPS_MAX, "operations in one stage");
    }
    BASE_TRY(def_value(plans, value, out));
    def->ops[def->n_ops] = *op;
    def->ops[def->n_ops++].result = *out;
    return BASE_OK;
}

static struct cell_value source_value(const struct plans *plans, const struct cell_model *model,
                                      struct cell_source source)
{
    const struct cell__import *im = plans->im;
    const struct plan *stage = &plans->stages[source.stage];
    switch (source.kind) {
    case CELL_SOURCE_INPUT:
        return (struct cell_value){model->inputs[source.index].dtype,
                                   model->inputs[source.index].width /
                                       model->inputs[source.index].pieces};
    case CELL_SOURCE_EACH:
    case CELL_SOURCE_FIRST:
    case CELL_SOURCE_LAST:
    case CELL_SOURCE_LAST_STATE:
        if (stage->kind == CELL_STAGE_CHAIN && source.kind == CELL_SOURCE_LAST_STATE) {
            return im->recurrents[stage->recurrent].states[source.index];
        }
        if (stage->kind == CELL_STAGE_CHAIN && !im->recurrents[stage->recurrent].is_scan) {
            return im->recurrents[stage->recurrent].states[0];
        }
        return im->rows[stage->output_rows[source.index]].value;
    case CELL_SOURCE_MEMORY:
        return (struct cell_value){CELL_F32, plans->memories[source.index].width};
    case CELL_SOURCE_ZERO:
    case CELL_SOURCE_CHILD:
    case CELL_SOURCE_START:
    case CELL_SOURCE_TAKEN:
        break;
    }
    base_assert(false);
    return (struct cell_value){CELL_F32, 1};
}

static enum base_status def_begin(struct plans *plans, const struct cell_model *model,
                                  const struct plan *stage)
{
    uint32_t ignored = 0;
    plans->def =
        (struct cell_def){.n_inputs = stage->n_inputs, .as_written = model->options.as_written};
    for (uint32_t i = 0; i < stage->n_inputs; i++) {
        BASE_TRY(def_value(plans, source_value(plans, model, stage->inputs[i]), &ignored));
    }
    return BASE_OK;
}

static enum base_status define_chain(struct plans *plans, const struct cell_model *model,
                                     struct plan *stage)
{
    const struct cell__recurrent *recurrent = &plans->im->recurrents[stage->recurrent];
    struct cell_def *def = &plans->def;
    struct cell_value state = {CELL_F32, recurrent->hidden};
    struct cell_op op = recurrent->op;
    op.operands[0] = 0; // x
    op.n_operands = 1;
    BASE_TRY(def_begin(plans, model, stage));
    def->n_states = recurrent->n_states;
    for (uint32_t s = 0; s < def->n_states; s++) {
        BASE_TRY(def_value(plans, state, &op.operands[op.n_operands++]));
    }
    if (stage->fused != CELL__NONE) {
        const struct cell__row *row = &plans->im->rows[stage->fused];
        struct cell_op fused = row->op;
        for (uint32_t i = 0; i < fused.n_operands; i++) {
            BASE_TRY(connect_input(plans, row->op.operands[i], stage, &fused.operands[i]));
        }
        BASE_TRY(def_op(plans, &fused, row->value, &op.operands[0]));
    }
    BASE_TRY(def_op(plans, &op, state, &def->state_next[0])); // its results are the next states
    for (uint32_t s = 1; s < def->n_states; s++) {
        BASE_TRY(def_value(plans, state, &def->state_next[s]));
    }
    def->n_outputs = 1;
    def->outputs[0] = def->state_next[0];
    return BASE_OK;
}

/* Value number of an operand in the definition at work. */
static enum base_status define_operand(struct plans *plans, uint32_t s, uint32_t operand,
                                       uint32_t *out)
{
    struct cell__import *im = plans->im;
    struct cell__row *row = &im->rows[operand];
    if (row->kind == CELL__ROW_IN) {
        *out = plans->def.n_inputs + row->part; // states stand behind the inputs
        return BASE_OK;
    }
    if (is_outside(im, operand, s)) {
        return connect_input(plans, operand, &plans->stages[s], out);
    }
    if (row->kind == CELL__ROW_CONST && row->stage != s) {
        row->stage = s; // constants belong to the stage that used them last
        BASE_TRY(def_op(plans, &row->op, row->value, &row->number));
    }
    *out = row->number;
    return BASE_OK;
}

/* The ops of a stage, in their order. */
static enum base_status define_ops(struct plans *plans, uint32_t s)
{
    struct cell__import *im = plans->im;
    for (uint32_t r = 0; r < im->n_rows; r++) {
        struct cell__row *row = &im->rows[r];
        if (row->kind != CELL__ROW_OP || row->stage != s) {
            continue;
        }
        struct cell_op op = row->op;
        for (uint32_t i = 0; i < op.n_operands; i++) {
            if (is_memory(row, i) && !im->is_part) {
                BASE_TRY(connect_memory(plans, op.operands[i], &plans->stages[s], &op.operands[i]));
            } else {
                BASE_TRY(define_operand(plans, s, op.operands[i], &op.operands[i]));
            }
        }
        BASE_TRY(def_op(plans, &op, row->value, &row->number));
    }
    return BASE_OK;
}

static void define_outputs(struct plans *plans, const struct plan *stage)
{
    plans->def.n_outputs = stage->n_outputs;
    for (uint32_t i = 0; i < stage->n_outputs; i++) {
        plans->def.outputs[i] = plans->im->rows[stage->output_rows[i]].number;
    }
}

static enum base_status define_rows(struct plans *plans, struct cell_model *model, uint32_t s)
{
    struct plan *stage = &plans->stages[s];
    BASE_TRY(def_begin(plans, model, stage));
    BASE_TRY(define_ops(plans, s));
    define_outputs(plans, stage);
    if (model->options.feeds_back) {
        const struct cell__fed fed = {
            .def = &plans->def, .inputs = stage->inputs, .init = stage->init};
        BASE_TRY(cell__feed_back(plans->im, model, &fed));
        stage->kind = CELL_STAGE_DECODER;
    }
    return plans->im->is_part && !model->options.as_written
               ? cell__recognise(plans->im, &plans->def)
               : BASE_OK;
}

/* The body of a Scan. */
static enum base_status define_body(struct plans *plans, const struct cell_model *model, uint32_t s)
{
    const struct plan *stage = &plans->stages[s];
    const struct cell__recurrent *scan = &plans->im->recurrents[stage->recurrent];
    uint32_t ignored = 0;
    BASE_TRY(def_begin(plans, model, stage));
    plans->def.n_states = scan->n_states;
    for (uint32_t i = 0; i < scan->n_states; i++) {
        BASE_TRY(def_value(plans, scan->states[i], &ignored));
    }
    BASE_TRY(define_ops(plans, s));
    for (uint32_t i = 0; i < scan->n_states; i++) {
        BASE_TRY(define_operand(plans, s, scan->next_rows[i], &plans->def.state_next[i]));
    }
    define_outputs(plans, stage);
    return model->options.as_written ? BASE_OK : cell__recognise(plans->im, &plans->def);
}

static enum base_status define_stage(struct plans *plans, struct cell_model *model, uint32_t s)
{
    struct plan *plan = &plans->stages[s];
    if (plan->kind != CELL_STAGE_CHAIN) {
        return define_rows(plans, model, s);
    }
    return plans->im->recurrents[plan->recurrent].is_scan ? define_body(plans, model, s)
                                                          : define_chain(plans, model, plan);
}

/* What a stage is called in metrics. */
static const char *stage_word(const struct plans *plans, const struct plan *plan)
{
    if (plan->kind != CELL_STAGE_CHAIN) {
        return plan->kind == CELL_STAGE_ONCE ? "once" : "each";
    }
    return plans->im->recurrents[plan->recurrent].word;
}

static enum base_status intern_stage(struct plans *plans, struct cell_registry *registry,
                                     struct cell_model *model, uint32_t s)
{
    const struct plan *plan = &plans->stages[s];
    const char *word = stage_word(plans, plan);
    struct cell_stage *stage = &model->stages[s];
    bool is_new = false;
    char name[64];
    BASE_TRY(define_stage(plans, model, s));
    for (uint32_t o = 0; o < plans->def.n_ops; o++) {
        struct cell_op *op = &plans->def.ops[o];
        op->precision = cell_op_gates(op->kind) > 0 ? model->options.precision : CELL_FP32;
    }
    uint32_t same = 0;
    for (uint32_t i = 0; i < s; i++) {
        same += strcmp(stage_word(plans, &plans->stages[i]), word) == 0 ? 1 : 0;
    }
    if (plans->im->is_part) { // its label says which part of the model it is
        snprintf(name, sizeof(name), "%s", plans->im->label);
    } else if (same == 0) {
        snprintf(name, sizeof(name), "%.48s/%s", plans->im->label, word);
    } else {
        snprintf(name, sizeof(name), "%.48s/%s%u", plans->im->label, word, same + 1);
    }
    BASE_TRY(
        cell_registry_intern(registry, &plans->def, name, &stage->type, &is_new, plans->im->error));
    model->n_stages = s + 1;
    stage->kind = plan->kind;
    stage->sequence = plan->sequence;
    stage->is_shared = plan->is_shared;
    stage->is_reverse =
        plan->kind == CELL_STAGE_CHAIN && plans->im->recurrents[plan->recurrent].is_reverse;
    memcpy(stage->inputs, plan->inputs, sizeof(stage->inputs));
    memcpy(stage->init, plan->init, sizeof(stage->init));
    return BASE_OK;
}

enum base_status cell__stages_build(struct cell__import *im, struct cell_registry *registry,
                                    uint32_t (*output_rows)[CELL_PIECES_MAX],
                                    struct cell_model *model)
{
    struct plans *plans = base_arena_alloc(im->arena, sizeof(*plans));
    if (plans == NULL) {
        return cell__no_memory(im);
    }
    plans->im = im;
    mark_needed(im, model, output_rows);
    BASE_TRY(make_stages(plans));
    if (im->is_part && plans->n > 1) { // only what has steps makes a second one
        return cell__refuse(im, "an output has a row for each step of the source");
    }
    BASE_TRY(connect(plans));
    for (uint32_t i = 0; i < model->n_outputs; i++) {
        for (uint32_t p = 0; p < model->outputs[i].pieces; p++) {
            BASE_TRY(source_of(plans, output_rows[i][p], &model->output_sources[i][p]));
        }
    }
    model->n_memories = plans->n_memories;
    memcpy(model->memories, plans->memories, sizeof(model->memories));
    enum base_status status = BASE_OK;
    for (uint32_t s = 0; s < plans->n && status == BASE_OK; s++) {
        status = intern_stage(plans, registry, model, s);
    }
    for (uint32_t s = 0; s < model->n_stages && status != BASE_OK; s++) {
        cell_type_unref(registry, model->stages[s].type);
    }
    return status;
}
