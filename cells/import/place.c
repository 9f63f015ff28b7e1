/* Which stage an op of no chain belongs to, where there is a choice: what is made of the request
 * alone is made where it is read, and a stage of more ops than a cell may have is cut. Cost: some
 * passes over the operands of the needed rows. */
#include "cells/import/plan.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

/* ---- Where it is read ----------------------------------------------------------------------- */

/* Who reads a row: by what rank it must be there; whether some are of another kind than ops beside
 * it, and whether there are such for whom it stays. */
struct readers {
    uint32_t rank;  /* UINT32_MAX: none */
    uint32_t after; /* the latest rank of an op beside it */
    bool has_far, has_others;
};

static void note_rank(struct readers *readers, uint32_t rank)
{
    readers->rank = rank < readers->rank ? rank : readers->rank;
}

static void note_memory(const struct cell__import *im, uint32_t r, struct readers *readers)
{
    struct cell__part part;
    uint32_t n = 0;
    const uint32_t whole = cell__memory_of(im, r, &part);
    const uint32_t *pieces = cell__pieces_of(im, &whole, &n);
    readers[r].has_others = readers[whole].has_others = true;
    for (uint32_t p = 0; p < n; p++) {
        readers[pieces[p]].has_others = true;
    }
}

static void note_operands(const struct cell__import *im, const struct cell__row *reader,
                          struct readers *readers)
{
    for (uint32_t i = 0; i < reader->op.n_operands; i++) {
        const uint32_t r = reader->op.operands[i];
        const struct cell__row *row = &im->rows[r];
        if (cell__is_memory(reader, i)) {
            note_memory(im, r, readers);
            continue;
        }
        const bool is_beside = reader->times == row->times && reader->is_batched == row->is_batched;
        if (reader->chain != CELL__NONE || (!is_beside && reader->rank == 0)) {
            readers[r].has_others = true;
            continue;
        }
        note_rank(&readers[r], is_beside ? reader->rank : reader->rank - 1);
        readers[r].has_far |= !is_beside;
        if (is_beside && reader->rank > readers[r].after) {
            readers[r].after = reader->rank;
        }
    }
}

/* What a chain reads must be there before it begins. */
static void note_before(const struct cell__plans *plans, uint32_t number, uint32_t r,
                        struct readers *readers)
{
    const uint32_t before = plans->chain_ranks[number] - 1;
    if (plans->chain_ranks[number] == 0 || plans->im->recurrents[number].is_scan) {
        readers[r].has_others = true;
    } else {
        note_rank(&readers[r], before);
        readers[r].has_far = true;
    }
}

static void note_recurrent(const struct cell__plans *plans, uint32_t number,
                           struct readers *readers)
{
    const struct cell__import *im = plans->im;
    const struct cell__recurrent *recurrent = &im->recurrents[number];
    uint32_t n = 0;
    const uint32_t *x = recurrent->is_scan ? NULL : cell__rows_of_x(im, recurrent, &n);
    for (uint32_t k = 0; k < n; k++) {
        note_before(plans, number, x[k], readers);
    }
    for (uint32_t s = 0; s < recurrent->n_states; s++) {
        if (recurrent->init_rows[s] != CELL__NONE) {
            note_before(plans, number, recurrent->init_rows[s], readers);
        }
        if (recurrent->is_scan) {
            readers[recurrent->next_rows[s]].has_others = true;
        }
    }
    for (uint32_t o = 0; o < recurrent->n_outputs; o++) {
        readers[recurrent->output_rows[o]].has_others = true;
    }
}

/* An op that may be computed with who reads it, and not where it could be first. */
struct sinking {
    uint32_t least; /* rank */
    bool may_sink;
};

/* Each op that may goes to the rank of its first reader, from the last to the first; goes_far: also
 * to before a chain, or to another kind of stage, where there was none perhaps. */
static void sink(struct cell__plans *plans, struct readers *readers, const struct sinking *sinking,
                 bool goes_far)
{
    struct cell__import *im = plans->im;
    for (uint32_t r = 0; r < im->n_rows; r++) {
        readers[r] = (struct readers){.rank = UINT32_MAX};
    }
    for (uint32_t r = im->n_rows; r-- > 0;) {
        struct cell__row *row = &im->rows[r];
        if (!row->is_needed) {
            continue;
        }
        if (row->kind == CELL__ROW_STEP || row->kind == CELL__ROW_STATE) {
            note_recurrent(plans, row->index, readers);
        } else if (row->kind == CELL__ROW_FIRST || row->kind == CELL__ROW_LAST ||
                   row->kind == CELL__ROW_WINDOW) {
            readers[row->index].has_others = true;
        } else if (row->kind == CELL__ROW_JOIN) {
            for (uint32_t p = 0; p < row->joined->n; p++) {
                readers[row->joined->parts[p].row].has_others = true;
            }
        } else if (row->kind == CELL__ROW_OP) {
            const bool has_later = !readers[r].has_others && (goes_far || !readers[r].has_far) &&
                                   readers[r].rank != UINT32_MAX &&
                                   readers[r].rank > sinking[r].least;
            row->rank = sinking[r].may_sink && has_later ? readers[r].rank : sinking[r].least;
            note_operands(im, row, readers);
        }
    }
}

/* Whether more would be handed on for the op where it is now than its result alone. */
static bool asks_for_more(const struct cell__import *im, const struct cell__row *row)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < row->op.n_operands; i++) {
        const uint32_t r = row->op.operands[i];
        bool is_again = false;
        for (uint32_t k = 0; k < i; k++) {
            is_again = is_again || row->op.operands[k] == r;
        }
        n += im->rows[r].kind == CELL__ROW_OP && im->rows[r].rank < row->rank && !is_again ? 1 : 0;
    }
    return n > 1;
}

/* Ops are let go down until none of them asks for more. */
static void settle(struct cell__plans *plans, struct readers *readers, struct sinking *sinking,
                   bool goes_far)
{
    enum { TRIES_MAX = 8 };
    const struct cell__import *im = plans->im;
    bool is_done = false;
    for (uint32_t tries = 0; tries < TRIES_MAX && !is_done; tries++) {
        sink(plans, readers, sinking, goes_far);
        is_done = true;
        for (uint32_t r = 0; r < im->n_rows; r++) {
            const struct cell__row *row = &im->rows[r];
            if (row->is_needed && sinking[r].may_sink && row->rank > sinking[r].least &&
                asks_for_more(im, row)) {
                sinking[r].may_sink = false;
                is_done = false;
            }
        }
    }
}

/* Whether the first stage of those made of the request alone would hand on more than it may. */
static bool is_full(const struct cell__import *im, const struct readers *readers, bool is_once)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < im->n_rows; r++) {
        const struct cell__row *row = &im->rows[r];
        const bool is_of_first = row->is_needed && row->kind == CELL__ROW_OP && row->rank == 0 &&
                                 row->chain == CELL__NONE && (row->times == 0) == is_once;
        const bool is_handed_on = readers[r].has_far || readers[r].has_others ||
                                  readers[r].after > 0 || readers[r].rank == UINT32_MAX;
        n += is_of_first && is_handed_on ? 1 : 0;
    }
    return n > CELL_OUTPUTS_MAX;
}

/* Whether the row takes a part of one whose parts are most of it, as those of heads are: the whole
 * is handed on once, and not each part. taken: by row, the elements that such ops take of it. */
static bool is_part_of_taken(const struct cell__import *im, const struct cell__row *row,
                             const uint64_t *taken)
{
    const uint32_t of = row->op.operands[0];
    return row->kind == CELL__ROW_OP && row->op.kind == CELL_OP_SLICE &&
           2 * taken[of] >= im->rows[of].value.width;
}

enum base_status cell__sink_rows(struct cell__plans *plans)
{
    struct cell__import *im = plans->im;
    struct readers *readers = base_arena_array(im->arena, im->n_rows, sizeof(*readers));
    struct sinking *sinking = base_arena_array(im->arena, im->n_rows, sizeof(*sinking));
    uint64_t *taken = base_arena_array(im->arena, im->n_rows, sizeof(*taken));
    if (readers == NULL || sinking == NULL || taken == NULL) {
        return cell__no_memory(im);
    }
    memset(taken, 0, im->n_rows * sizeof(*taken));
    for (uint32_t r = 0; r < im->n_rows; r++) {
        const struct cell__row *row = &im->rows[r];
        if (row->is_needed && row->kind == CELL__ROW_OP && row->op.kind == CELL_OP_SLICE) {
            taken[row->op.operands[0]] += row->value.width;
        }
    }
    for (uint32_t r = 0; r < im->n_rows; r++) {
        const struct cell__row *row = &im->rows[r];
        const bool may_sink = row->kind == CELL__ROW_OP && row->chain == CELL__NONE &&
                              (row->rank == 0 || is_part_of_taken(im, row, taken));
        sinking[r] = (struct sinking){row->rank, may_sink};
    }
    settle(plans, readers, sinking, false);
    if (is_full(im, readers, true) || is_full(im, readers, false)) {
        settle(plans, readers, sinking, true);
    }
    for (uint32_t r = 0; r < im->n_rows; r++) {
        im->rows[r].is_handed_on = readers[r].has_far || readers[r].has_others ||
                                   readers[r].after > im->rows[r].rank ||
                                   readers[r].rank == UINT32_MAX;
    }
    return BASE_OK;
}

/* ---- Cells of many ops ---------------------------------------------------------------------- */

/* Of a piece: with its constants; what a cell of a definition adds besides is less than the rest.
 */
#define PIECE_OPS_MAX (CELL_OPS_MAX - 8u)

/* The rows of one stage, in an order in which each stands behind its operands. */
struct stage_rows {
    uint32_t n;
    uint32_t *rows;
    uint32_t *last; /* by row: how many stand up to the last of the stage that reads it; 0: none */
    uint64_t *keys; /* by row: behind which it stands, and its own number */
};

static uint32_t cost_of(const struct cell__import *im, uint32_t r)
{
    const struct cell__row *row = &im->rows[r];
    uint32_t cost = 1;
    for (uint32_t i = 0; i < row->op.n_operands; i++) {
        cost += im->rows[row->op.operands[i]].kind == CELL__ROW_CONST ? 1 : 0;
    }
    return cost;
}

static bool is_of_stage(const struct cell__row *row, const struct cell__row *of)
{
    return row->is_needed && row->kind == CELL__ROW_OP && row->chain == CELL__NONE &&
           row->rank == of->rank && row->times == of->times && row->is_batched == of->is_batched;
}

/* Rows of the stage of row `first`, its first; their cost. */
static uint32_t collect(const struct cell__import *im, uint32_t first, struct stage_rows *stage)
{
    uint32_t cost = 0;
    stage->n = 0;
    for (uint32_t r = first; r < im->n_rows; r++) {
        if (is_of_stage(&im->rows[r], &im->rows[first])) {
            stage->rows[stage->n++] = r;
            cost += cost_of(im, r);
        }
    }
    return cost;
}

static int compare_keys(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

/* Rows are joined as soon as they are there: what is answered of a loop that is written out would
 * else wait for its end, and be handed on one by one where it is cut. */
static void join_early(const struct cell__import *im, struct stage_rows *stage)
{
    for (uint32_t i = 0; i < stage->n; i++) {
        stage->last[stage->rows[i]] = stage->rows[i]; // behind which it stands, until all are known
    }
    for (uint32_t i = 0; i < stage->n; i++) {
        const uint32_t r = stage->rows[i];
        const struct cell_op *op = &im->rows[r].op;
        uint32_t behind = op->kind == CELL_OP_CONCAT ? 0 : r;
        for (uint32_t k = 0; k < op->n_operands; k++) {
            const uint32_t of = op->operands[k];
            const bool is_here = is_of_stage(&im->rows[of], &im->rows[r]);
            behind = is_here && stage->last[of] > behind ? stage->last[of] : behind;
        }
        stage->last[r] = behind;
        stage->keys[i] = (uint64_t)behind << 32 | r;
    }
    qsort(stage->keys, stage->n, sizeof(stage->keys[0]), compare_keys);
    for (uint32_t i = 0; i < stage->n; i++) {
        stage->rows[i] = (uint32_t)stage->keys[i];
    }
}

/* The longest way to a row from those of the stage that read none of it; kept in `last`. */
static void find_depths(const struct cell__import *im, struct stage_rows *stage)
{
    for (uint32_t i = 0; i < stage->n; i++) {
        const uint32_t r = stage->rows[i];
        const struct cell_op *op = &im->rows[r].op;
        uint32_t depth = 1;
        for (uint32_t k = 0; k < op->n_operands; k++) {
            const uint32_t of = op->operands[k];
            const bool is_deep =
                is_of_stage(&im->rows[of], &im->rows[r]) && stage->last[of] >= depth;
            depth = is_deep ? stage->last[of] + 1 : depth;
        }
        stage->last[r] = depth;
    }
}

/* The deepest operand of a row that has not been put, or NONE. */
static uint32_t deepest_left(const struct cell__import *im, const struct stage_rows *stage,
                             const bool *is_put, uint32_t r)
{
    const struct cell_op *op = &im->rows[r].op;
    uint32_t best = CELL__NONE;
    for (uint32_t k = 0; k < op->n_operands; k++) {
        const uint32_t of = op->operands[k];
        if (is_of_stage(&im->rows[of], &im->rows[r]) && !is_put[of] &&
            (best == CELL__NONE || stage->last[of] > stage->last[best])) {
            best = of;
        }
    }
    return best;
}

/* Each row just before who reads it first, the longest way first: so that little is kept between. A
 * file may have them otherwise, such as a loop that is written out with what all steps read in
 * front. is_put: false for all rows. */
static void order_by_depth(const struct cell__import *im, struct stage_rows *stage, bool *is_put,
                           uint32_t *stack)
{
    uint32_t n = 0;
    uint32_t n_ends = 0;
    for (uint32_t i = 0; i < stage->n; i++) { // which none of the stage reads: the keys keep them
        if (stage->last[stage->rows[i]] == 0) {
            stage->keys[n_ends++] = stage->rows[i];
        }
    }
    find_depths(im, stage);
    for (uint32_t i = 0; i < n_ends; i++) {
        uint32_t height = 0;
        stack[height++] = (uint32_t)stage->keys[i];
        while (height > 0) {
            const uint32_t r = stack[height - 1];
            const uint32_t of = is_put[r] ? CELL__NONE : deepest_left(im, stage, is_put, r);
            if (of != CELL__NONE) {
                stack[height++] = of;
                continue;
            }
            height--;
            if (!is_put[r]) {
                is_put[r] = true;
                stage->rows[n++] = r;
            }
        }
    }
    base_assert(n == stage->n);
}

static void find_last_readers(const struct cell__import *im, struct stage_rows *stage)
{
    for (uint32_t i = 0; i < stage->n; i++) {
        stage->last[stage->rows[i]] = 0;
    }
    for (uint32_t i = 0; i < stage->n; i++) {
        const struct cell__row *row = &im->rows[stage->rows[i]];
        for (uint32_t k = 0; k < row->op.n_operands; k++) {
            stage->last[row->op.operands[k]] = i + 1;
        }
    }
}

/* What rows of a piece read of others. */
struct piece_inputs {
    uint32_t n, rows[CELL_INPUTS_MAX + 1]; /* that many: more than a stage may have */
};

static void add_piece_input(struct piece_inputs *inputs, uint32_t row)
{
    uint32_t i = 0;
    while (i < inputs->n && inputs->rows[i] != row) {
        i++;
    }
    if (i == inputs->n && i <= CELL_INPUTS_MAX) {
        inputs->rows[inputs->n++] = row;
    }
}

/* Adds what row number `at` of the stage reads that is not of the piece from number `first` on. */
static void add_inputs_of(const struct cell__import *im, const struct stage_rows *stage,
                          uint32_t first, uint32_t at, struct piece_inputs *inputs)
{
    const struct cell__row *row = &im->rows[stage->rows[at]];
    for (uint32_t k = 0; k < row->op.n_operands; k++) {
        const uint32_t operand = row->op.operands[k];
        bool is_here = im->rows[operand].kind == CELL__ROW_CONST;
        for (uint32_t i = first; i < at && !is_here; i++) {
            is_here = stage->rows[i] == operand;
        }
        if (!is_here) {
            add_piece_input(inputs, operand);
        }
    }
}

static bool has_many_inputs(const struct cell__import *im, const struct stage_rows *stage)
{
    struct piece_inputs inputs = {.n = 0};
    for (uint32_t i = 0; i < stage->n && inputs.n <= CELL_INPUTS_MAX; i++) {
        add_inputs_of(im, stage, 0, i, &inputs);
    }
    return inputs.n > CELL_INPUTS_MAX;
}

static bool has_many_outputs(const struct cell__import *im, const struct stage_rows *stage)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < stage->n; i++) {
        n += im->rows[stage->rows[i]].is_handed_on ? 1 : 0;
    }
    return n > CELL_OUTPUTS_MAX;
}

/* Rows of a piece that other stages read, and those that later pieces of its own read alone. */
struct piece_outputs {
    uint32_t handed_on, live;
};

static struct piece_outputs outputs_of(const struct cell__import *im,
                                       const struct stage_rows *stage, uint32_t first, uint32_t end)
{
    struct piece_outputs outputs = {0, 0};
    for (uint32_t i = first; i < end; i++) {
        const bool is_live = stage->last[stage->rows[i]] > end;
        const bool is_handed_on = im->rows[stage->rows[i]].is_handed_on;
        outputs.handed_on += is_handed_on ? 1 : 0;
        outputs.live += is_live && !is_handed_on ? 1 : 0;
    }
    return outputs;
}

/* Where the piece that begins with number `first` ends: of the places in its second half that where
 * the least is handed on to its own stage. */
static uint32_t end_of_piece(const struct cell__import *im, const struct stage_rows *stage,
                             uint32_t first)
{
    uint32_t end = first;
    uint32_t best = first;
    uint32_t least = UINT32_MAX;
    uint32_t cost = 0;
    struct piece_inputs inputs = {.n = 0};
    while (end < stage->n && cost + cost_of(im, stage->rows[end]) <= PIECE_OPS_MAX) {
        add_inputs_of(im, stage, first, end, &inputs);
        if (inputs.n > CELL_INPUTS_MAX) {
            break;
        }
        const struct piece_outputs outputs = outputs_of(im, stage, first, end + 1);
        if (outputs.handed_on > CELL_OUTPUTS_MAX) {
            break;
        }
        cost += cost_of(im, stage->rows[end++]);
        const bool is_second_half = 2 * cost > PIECE_OPS_MAX || 2 * inputs.n > CELL_INPUTS_MAX ||
                                    2 * outputs.handed_on > CELL_OUTPUTS_MAX;
        const bool is_held = outputs.handed_on + outputs.live <= CELL_OUTPUTS_MAX;
        if (is_second_half && (outputs.live <= least && (is_held || least == UINT32_MAX))) {
            least = outputs.live;
            best = end;
        }
    }
    return end == stage->n ? end : best > first ? best : first + 1;
}

/* Into pieces; false: one hands on more than it may. */
static bool cut_stage(struct cell__import *im, const struct stage_rows *stage)
{
    bool is_held = true;
    for (uint32_t first = 0, cut = 0, end = 0; first < stage->n; first = end, cut++) {
        end = end_of_piece(im, stage, first);
        const struct piece_outputs outputs = outputs_of(im, stage, first, end);
        is_held = is_held && outputs.handed_on + outputs.live <= CELL_OUTPUTS_MAX;
        for (uint32_t i = first; i < end; i++) {
            im->rows[stage->rows[i]].cut = cut;
        }
    }
    return is_held;
}

enum base_status cell__cut_stages(struct cell__plans *plans)
{
    struct cell__import *im = plans->im;
    struct stage_rows stage = {0};
    bool *is_seen = base_arena_array(im->arena, im->n_rows, sizeof(*is_seen));
    bool *is_put = base_arena_array(im->arena, im->n_rows, sizeof(*is_put));
    uint32_t *stack = base_arena_array(im->arena, im->n_rows, sizeof(*stack));
    stage.rows = base_arena_array(im->arena, im->n_rows, sizeof(*stage.rows));
    stage.last = base_arena_array(im->arena, im->n_rows, sizeof(*stage.last));
    stage.keys = base_arena_array(im->arena, im->n_rows, sizeof(*stage.keys));
    if (is_seen == NULL || is_put == NULL || stack == NULL || stage.rows == NULL ||
        stage.last == NULL || stage.keys == NULL) {
        return cell__no_memory(im);
    }
    for (uint32_t r = 0; r < im->n_rows; r++) {
        im->rows[r].cut = 0;
    }
    uint32_t stages = 0; // more than there may be are refused when they are made
    for (uint32_t r = 0; r < im->n_rows && stages <= CELL_STAGES_MAX; r++) {
        if (is_seen[r] || !is_of_stage(&im->rows[r], &im->rows[r])) {
            continue;
        }
        stages++;
        const bool has_many = collect(im, r, &stage) > CELL_OPS_MAX;
        for (uint32_t i = 0; i < stage.n; i++) {
            is_seen[stage.rows[i]] = true;
        }
        join_early(im, &stage);
        find_last_readers(im, &stage);
        const bool is_long =
            (has_many || has_many_inputs(im, &stage) || has_many_outputs(im, &stage)) &&
            !im->is_part;
        if (is_long && !cut_stage(im, &stage)) {
            order_by_depth(im, &stage, is_put, stack);
            find_last_readers(im, &stage);
            (void)cut_stage(im, &stage); // what is too much then is refused when stages are made
        }
    }
    return BASE_OK;
}
