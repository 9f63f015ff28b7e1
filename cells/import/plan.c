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
#include "cells/import/plan.h"
#include "cells/import/ops.h"

#include "base/assert.h"

enum base_status cell__too_many(struct cell__import *im, uint32_t max, const char *what)
{
    return base_fail(im->error, BASE_UNIMPLEMENTED, "the model needs more than %u %s", max, what);
}

/* ---- What is attended to ------------------------------------------------------------------ */

/* Whether operand i of a row's op is read with all of its steps. */
bool cell__is_memory(const struct cell__row *row, uint32_t i)
{
    return row->kind == CELL__ROW_OP && cell_op_takes_rows(&row->op, i);
}

/* Copies of all steps are not made, nor what takes a part of each row. */
uint32_t cell__memory_of(const struct cell__import *im, uint32_t row, struct cell__part *part)
{
    *part = (struct cell__part){.width = im->rows[row].value.width};
    for (;;) {
        const struct cell__row *at = &im->rows[row];
        const struct cell__row *of =
            at->kind == CELL__ROW_OP ? &im->rows[at->op.operands[0]] : NULL;
        if (of != NULL && at->op.kind == CELL_OP_SLICE && of->times != 0) {
            part->start += at->op.start;
            row = at->op.operands[0];
        } else if (of != NULL && cell__row_is_mirror(im, row) &&
                   im->rows[of->index].kind != CELL__ROW_JOIN) {
            row = of->index;
        } else {
            return row;
        }
    }
}

/* The rows that lie side by side in a memory: what joins the outputs of chains is not computed. */
const uint32_t *cell__pieces_of(const struct cell__import *im, const uint32_t *row, uint32_t *n)
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

static void need_memory(struct cell__import *im, uint32_t row)
{
    struct cell__part part;
    uint32_t n = 0;
    const uint32_t whole = cell__memory_of(im, row, &part);
    const uint32_t *pieces = cell__pieces_of(im, &whole, &n);
    for (uint32_t p = 0; p < n; p++) {
        im->rows[pieces[p]].is_needed = true;
    }
}

static void need_operands(struct cell__import *im, const struct cell__row *row)
{
    for (uint32_t i = 0; i < row->op.n_operands; i++) {
        if (cell__is_memory(row, i) && !im->is_part) {
            need_memory(im, row->op.operands[i]);
        } else {
            im->rows[row->op.operands[i]].is_needed = true;
        }
    }
}

/* The op of x that is taken into the chain's own definition, or NONE: an embedding, or what joins
 * the outputs of chains. */
uint32_t cell__fused_op(const struct cell__import *im, const struct cell__recurrent *recurrent)
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
const uint32_t *cell__rows_of_x(const struct cell__import *im,
                                const struct cell__recurrent *recurrent, uint32_t *n)
{
    uint32_t fused = cell__fused_op(im, recurrent);
    *n = fused == CELL__NONE ? 1 : im->rows[fused].op.n_operands;
    return fused == CELL__NONE ? &recurrent->x_row : im->rows[fused].op.operands;
}

static void need_recurrent(struct cell__import *im, const struct cell__recurrent *recurrent)
{
    uint32_t n = 0;
    const uint32_t *x = recurrent->is_scan ? NULL : cell__rows_of_x(im, recurrent, &n);
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

void cell__plan_needed(struct cell__import *im, const struct cell_model *model,
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
        case CELL__ROW_WINDOW:
            im->rows[row->index].is_needed = true;
            break;
        case CELL__ROW_JOIN:
            for (uint32_t p = 0; p < row->joined->n; p++) {
                im->rows[row->joined->parts[p].row].is_needed = true;
            }
            break;
        case CELL__ROW_STEP:
        case CELL__ROW_STATE:
            need_chain(im, row);
            break;
        case CELL__ROW_IN:
        case CELL__ROW_INPUT:
        case CELL__ROW_NUMBER:
        case CELL__ROW_DISTANCE:
        case CELL__ROW_INDEX:
        case CELL__ROW_CONST:
            break;
        }
    }
}

/* ---- Ranks and stages --------------------------------------------------------------------- */

/* The least rank of a stage that reads this row from outside. */
static uint32_t rank_behind(const struct cell__plans *plans, uint32_t r)
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
    case CELL__ROW_WINDOW:
    case CELL__ROW_JOIN:
        return row->rank;
    case CELL__ROW_IN:
    case CELL__ROW_INPUT:
    case CELL__ROW_NUMBER:
    case CELL__ROW_DISTANCE:
    case CELL__ROW_INDEX:
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
static uint32_t rank_body(const struct cell__plans *plans, uint32_t number)
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

static void rank_recurrent(struct cell__plans *plans, uint32_t number)
{
    struct cell__import *im = plans->im;
    const struct cell__recurrent *recurrent = &im->recurrents[number];
    uint32_t n = 0;
    const uint32_t *x = recurrent->is_scan ? NULL : cell__rows_of_x(im, recurrent, &n);
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
static uint32_t rank_operand(const struct cell__plans *plans, const struct cell__row *row,
                             uint32_t i)
{
    const struct cell__import *im = plans->im;
    const struct cell__row *operand = &im->rows[row->op.operands[i]];
    uint32_t rank = 0;
    if (cell__is_memory(row, i) && !im->is_part) {
        uint32_t n = 0;
        struct cell__part part;
        const uint32_t whole = cell__memory_of(im, row->op.operands[i], &part);
        const uint32_t *pieces = cell__pieces_of(im, &whole, &n);
        for (uint32_t p = 0; p < n; p++) {
            rank = max_u32(rank, rank_behind(plans, pieces[p]));
        }
        return rank;
    }
    const bool is_same = operand->kind == CELL__ROW_OP && operand->times == row->times &&
                         operand->is_batched == row->is_batched;
    return is_same ? operand->rank : rank_behind(plans, row->op.operands[i]);
}

static void rank_row(struct cell__plans *plans, uint32_t r)
{
    struct cell__import *im = plans->im;
    struct cell__row *row = &im->rows[r];
    row->rank = 0;
    if (row->kind == CELL__ROW_STEP || row->kind == CELL__ROW_STATE) {
        rank_recurrent(plans, row->index);
    } else if (row->kind == CELL__ROW_FIRST || row->kind == CELL__ROW_LAST ||
               row->kind == CELL__ROW_WINDOW) {
        row->rank = rank_behind(plans, row->index);
    } else if (row->kind == CELL__ROW_JOIN) {
        for (uint32_t p = 0; p < row->joined->n; p++) {
            row->rank = max_u32(row->rank, rank_behind(plans, row->joined->parts[p].row));
        }
    } else if (row->kind == CELL__ROW_OP && row->chain == CELL__NONE) {
        for (uint32_t i = 0; i < row->op.n_operands; i++) {
            row->rank = max_u32(row->rank, rank_operand(plans, row, i));
        }
    }
}

/* The number of the stage of the same kind, rank, sequence and (for a chain) recurrent node; it is
 * added when it is new. */
static enum base_status find_stage(struct cell__plans *plans, const struct cell__plan *like,
                                   uint32_t *out)
{
    for (*out = 0; *out < plans->n; ++*out) {
        const struct cell__plan *at = &plans->stages[*out];
        if (at->kind == like->kind && at->rank == like->rank && at->recurrent == like->recurrent &&
            at->sequence == like->sequence && at->is_shared == like->is_shared &&
            at->cut == like->cut) {
            return BASE_OK;
        }
    }
    if (plans->n == CELL_STAGES_MAX) {
        return cell__too_many(plans->im, CELL_STAGES_MAX, "stages");
    }
    plans->stages[plans->n] = *like;
    plans->stages[plans->n++].fused = CELL__NONE;
    return BASE_OK;
}

/* Whether a stage must stand behind another: the pieces of one that was cut stand in their order,
 * whatever the numbers of their rows (a CONCAT is taken before rows that it does not need). */
static bool is_behind(const struct cell__plan *plan, const struct cell__plan *of)
{
    return plan->rank > of->rank || (plan->rank == of->rank && plan->cut > of->cut);
}

/* Insertion sort by rank and piece; equal ones keep their order. */
static void sort_stages(struct cell__plans *plans)
{
    for (uint32_t i = 1; i < plans->n; i++) {
        struct cell__plan moving = plans->stages[i];
        uint32_t to = i;
        while (to > 0 && is_behind(&plans->stages[to - 1], &moving)) {
            plans->stages[to] = plans->stages[to - 1];
            to--;
        }
        plans->stages[to] = moving;
    }
}

/* The stage of an op that belongs to no chain. */
static enum base_status find_rows_stage(struct cell__plans *plans, const struct cell__row *row,
                                        uint32_t *out)
{
    const struct cell__plan like = {.kind = row->times != 0 ? CELL_STAGE_EACH : CELL_STAGE_ONCE,
                                    .rank = row->rank,
                                    .recurrent = CELL__NONE,
                                    .cut = row->cut,
                                    .sequence =
                                        row->times == 0 ? 0 : cell__only_sequence(row->times),
                                    .is_shared = !row->is_batched};
    return find_stage(plans, &like, out);
}

/* Makes the stage that the row belongs to, or (of a recurrent node's result) comes from. */
static enum base_status make_stage(struct cell__plans *plans, uint32_t r)
{
    struct cell__row *row = &plans->im->rows[r];
    uint32_t stage = 0;
    if (!row->is_needed) {
        return BASE_OK;
    }
    if (row->kind == CELL__ROW_OP && row->chain == CELL__NONE) {
        return find_rows_stage(plans, row, &stage);
    }
    if (row->kind == CELL__ROW_STEP || row->kind == CELL__ROW_STATE) {
        const struct cell__plan like = {.kind = CELL_STAGE_CHAIN,
                                        .rank = plans->chain_ranks[row->index],
                                        .recurrent = row->index,
                                        .sequence = plans->im->recurrents[row->index].sequence,
                                        .is_shared = !row->is_batched};
        return find_stage(plans, &like, &stage);
    }
    return BASE_OK;
}

/* The least rank of every row. */
static enum base_status rank_rows(struct cell__plans *plans)
{
    struct cell__import *im = plans->im;
    for (uint32_t r = 0; r < im->n_rows; r++) {
        struct cell__row *row = &im->rows[r];
        row->stage = CELL__NONE;
        row->output = CELL__NONE;
        if (row->is_needed && cell__is_pair(row->times)) {
            return base_fail(im->error, BASE_UNIMPLEMENTED,
                             "the model computes a value for each pair of steps of two sequences "
                             "that is no part of an attention");
        }
        if (row->is_needed) {
            rank_row(plans, r);
        }
    }
    return BASE_OK;
}

static void note_chains(struct cell__plans *plans)
{
    for (uint32_t s = 0; s < plans->n; s++) {
        struct cell__plan *plan = &plans->stages[s];
        if (plan->kind == CELL_STAGE_CHAIN) {
            const struct cell__recurrent *recurrent = &plans->im->recurrents[plan->recurrent];
            plans->chain_stages[plan->recurrent] = s;
            plan->fused = recurrent->is_scan ? CELL__NONE : cell__fused_op(plans->im, recurrent);
        }
    }
}

enum base_status cell__plan_stages(struct cell__plans *plans)
{
    struct cell__import *im = plans->im;
    BASE_TRY(rank_rows(plans));
    BASE_TRY(cell__sink_rows(plans));
    BASE_TRY(cell__cut_stages(plans));
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
