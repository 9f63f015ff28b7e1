/* See attend_relative.h. The table has a column for all terms that no query asks for, and as many
 * as a query is wide for each that one does; rows for the distances that a mask leaves. */
#include "cells/import/attend_relative.h"

#include "cells/import/band.h"
#include "cells/import/behind.h"
#include "cells/import/ops.h"
#include "cells/import/relative.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#include <math.h>
#include <string.h>

#define QUERIES_MAX 8u

/* What a term's row is: elements first.. of what is computed for all heads at once. */
struct part {
    const struct cell__relative *of;
    uint32_t first, width;
};

struct table {
    struct part parts[QUERIES_MAX]; /* of each term */
    int32_t first, last;            /* distances */
    uint32_t width;
    bool has_bias; /* the first column */
    float *rows;
};

static enum base_status find_part(struct cell__import *im, uint32_t row, uint32_t over,
                                  struct part *out)
{
    *out = (struct part){.width = im->rows[row].value.width};
    while (im->rows[row].kind == CELL__ROW_OP && im->rows[row].op.kind == CELL_OP_SLICE) {
        out->first += im->rows[row].op.start;
        row = im->rows[row].op.operands[0];
    }
    return cell__relative(im, row, over, &out->of);
}

/* A sequence has no more steps than there are rows. */
static void bound_steps(struct cell__import *im, uint32_t sequence, int32_t steps)
{
    uint32_t *most = &im->sequences[sequence].steps_max;
    *most = *most == 0 || (uint32_t)steps < *most ? (uint32_t)steps : *most;
}

/* From which distance to which there are rows: as far as the mask leaves steps, or as far as any
 * term has rows of its own; then the last is that of all beyond, or there are no steps beyond. */
static void find_ends(struct cell__import *im, const struct cell__span *span, uint32_t sequence,
                      uint32_t n, struct table *table)
{
    for (uint32_t t = 0; t < n; t++) {
        const struct cell__relative *of = table->parts[t].of;
        table->first = of->first < table->first ? of->first : table->first;
        table->last = of->last > table->last ? of->last : table->last;
    }
    table->first = span->first > table->first ? span->first : table->first;
    table->last = span->last < table->last ? span->last : table->last;
    for (uint32_t t = 0; t < n; t++) {
        const struct cell__relative *of = table->parts[t].of;
        if (!of->is_same[0] && span->first < of->first) {
            bound_steps(im, sequence, 1 - of->first);
        }
        if (!of->is_same[1] && span->last > of->last) {
            bound_steps(im, sequence, 1 + of->last);
        }
    }
}

/* Adds a term to its columns of a row. */
static void add_term(const struct cell__relative_term *term, const struct part *part, int32_t d,
                     float *to)
{
    const float *row = cell__relative_at(part->of, d) + part->first;
    for (uint32_t k = 0; k < part->width; k++) {
        to[term->query == CELL__NONE ? 0 : k] += term->weights[k] * row[k];
    }
}

static enum base_status fill(struct cell__import *im, const struct cell__relative_term *terms,
                             uint32_t n, struct table *table)
{
    const size_t rows = (size_t)(table->last - table->first) + 1;
    table->rows = base_arena_array(im->arena, rows * table->width, sizeof(*table->rows));
    if (table->rows == NULL) {
        return cell__no_memory(im);
    }
    memset(table->rows, 0, rows * table->width * sizeof(*table->rows));
    for (size_t r = 0; r < rows; r++) {
        float *row = table->rows + r * table->width;
        uint32_t column = table->has_bias ? 1 : 0;
        for (uint32_t t = 0; t < n; t++) {
            const bool is_bias = terms[t].query == CELL__NONE;
            add_term(&terms[t], &table->parts[t], table->first + (int32_t)r,
                     row + (is_bias ? 0 : column));
            column += is_bias ? 0 : table->parts[t].width;
        }
    }
    for (size_t k = 0; k < rows * table->width; k++) {
        if (!isfinite(table->rows[k])) {
            return cell__refuse(im,
                                "a number for each distance of steps that is infinite, or none");
        }
    }
    return BASE_OK;
}

/* What the table's columns are multiplied by. */
static enum base_status ask(struct cell__import *im, const struct table *table,
                            const struct cell__relative_term *terms, uint32_t n, uint32_t *out)
{
    uint32_t parts[QUERIES_MAX + 1];
    uint32_t n_parts = 0;
    if (table->has_bias) {
        BASE_TRY(cell__row_number(im, 1.0f, &parts[n_parts++]));
    }
    for (uint32_t t = 0; t < n; t++) {
        if (terms[t].query != CELL__NONE) {
            parts[n_parts++] = terms[t].query;
        }
    }
    return cell__row_concat(im, parts, n_parts, out);
}

enum base_status cell__attend_relative(struct cell__import *im, struct cell_op *op,
                                       const struct cell__span *span,
                                       const struct cell__relative_term *terms, uint32_t n)
{
    const uint32_t times = im->rows[op->operands[0]].times & ~span->times;
    const uint32_t over = cell__only_sequence(span->times);
    struct table table = {.first = 0};
    base_assert(op->n_operands == 3 && op->n_weights == 1);
    if (n > QUERIES_MAX) {
        return cell__refuse(im, "an attention with more than %u relative positions", QUERIES_MAX);
    }
    if (times == 0 || cell__is_pair(times) ||
        cell__sequence_of_mirror(im, cell__only_sequence(times)) !=
            cell__sequence_of_mirror(im, over)) {
        return cell__refuse(im, "relative positions of steps of two sequences");
    }
    for (uint32_t t = 0; t < n; t++) {
        BASE_TRY(find_part(im, terms[t].row, over, &table.parts[t]));
        table.has_bias = table.has_bias || terms[t].query == CELL__NONE;
        table.width += terms[t].query == CELL__NONE ? 0 : table.parts[t].width;
    }
    const uint32_t sequence = cell__only_sequence(times);
    table.width += table.has_bias ? 1 : 0;
    find_ends(im, span, sequence, n, &table);
    BASE_TRY(fill(im, terms, n, &table));
    struct cell__span all = *span;
    all.has_table = true;
    all.distances = table.first;
    BASE_TRY(cell__attend_bounds(im, op, &all, &op->operands[3]));
    BASE_TRY(ask(im, &table, terms, n, &op->operands[4]));
    op->n_operands = 5;
    op->weights[op->n_weights++] = (struct cell_weight){
        CELL_F32, (uint32_t)(table.last - table.first) + 1, table.width, table.rows};
    return BASE_OK;
}
