/* Numbers of steps that follow from others: from which, and what two of them have to do with each
 * other. Chains of a few atoms, by loops; numbers are exact, and too large ones say nothing. */
#include "cells/import/ops.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/divide.h"

/* Of a root: that of what its steps follow from, or NULL. */
static const struct cell__atom *source_of(const struct cell__import *im,
                                          const struct cell__atom *atom)
{
    return atom->source == CELL__NONE ? NULL : &im->atoms[cell__atom_root(im, atom->source)];
}

bool cell__atoms_follow_alike(const struct cell__import *im, const struct cell__atom *one,
                              const struct cell__atom *two)
{
    return one->parts == two->parts && one->add == two->add && one->stride == two->stride &&
           one->is_kept == two->is_kept &&
           cell__atom_root(im, one->source) == cell__atom_root(im, two->source);
}

bool cell__atom_follows(const struct cell__import *im, const struct cell__atom *atom, uint32_t root)
{
    do {
        atom = source_of(im, atom);
    } while (atom != NULL && atom->parent != root);
    return atom != NULL;
}

/* ---- What both follow from --------------------------------------------------------------------
 */

#define LINEAGE_MAX 32u

/* From an atom up to one that its number of steps follows from, without that one. */
struct lineage {
    uint32_t n;
    const struct cell__atom *atoms[LINEAGE_MAX];
};

/* The nearest that both follow from, or that is one of them; or NONE. */
static uint32_t find_common(const struct cell__import *im, const struct cell__atom *one,
                            const struct cell__atom *two)
{
    for (; two != NULL; two = source_of(im, two)) {
        for (const struct cell__atom *at = one; at != NULL; at = source_of(im, at)) {
            if (at == two) {
                return at->parent;
            }
        }
    }
    return CELL__NONE;
}

static bool find_lineage(const struct cell__import *im, const struct cell__atom *atom,
                         uint32_t root, struct lineage *out)
{
    for (out->n = 0; atom == NULL || atom->parent != root; atom = source_of(im, atom)) {
        if (atom == NULL || atom->is_kept || out->n == LINEAGE_MAX) {
            return false;
        }
        out->atoms[out->n++] = atom;
    }
    return true;
}

/* ---- Equal where some number divides another ---------------------------------------------------
 */

/* Steps of what follows from m times a number: slope * m + rest. */
struct line {
    int64_t slope, rest;
};

/* *by becomes a multiple of itself, so that no stride leaves steps over. */
static bool find_line(const struct lineage *lineage, int64_t *by, struct line *line)
{
    *line = (struct line){.slope = *by};
    for (uint32_t i = lineage->n; i-- > 0;) {
        const struct cell__atom *atom = lineage->atoms[i];
        if (!base_i64_mul(line->slope, atom->parts, &line->slope) ||
            !base_i64_mul(line->rest, atom->parts, &line->rest)) {
            return false;
        }
        if (line->slope % atom->stride != 0) {
            *by *= atom->stride /
                   (int64_t)base_greatest_divisor((uint64_t)line->slope, (uint64_t)atom->stride);
            *line = (struct line){.slope = *by};
            i = lineage->n; // once more
        } else {
            line->slope /= atom->stride;
            line->rest = base_floor_divide(line->rest + atom->add, atom->stride) + 1;
        }
        if (*by > CELL__STEPS_ADD_MAX) {
            return false;
        }
    }
    return true;
}

bool cell__atoms_are_even(const struct cell__import *im, const struct cell__atom *one,
                          const struct cell__atom *two, uint32_t *source, int64_t *by)
{
    struct lineage lineages[2];
    struct line lines[2];
    *source = find_common(im, one, two);
    *by = 1;
    return *source != CELL__NONE && find_lineage(im, one, *source, &lineages[0]) &&
           find_lineage(im, two, *source, &lineages[1]) && find_line(&lineages[0], by, &lines[0]) &&
           find_line(&lineages[1], by, &lines[1]) && find_line(&lineages[0], by, &lines[0]) &&
           lines[0].slope == lines[1].slope && lines[0].rest == lines[1].rest;
}

/* ---- Never more -------------------------------------------------------------------------------
 */

/* Of n steps at most, or at least, (slope * n + rest) / by. */
struct bound {
    int64_t slope, rest, by;
};

/* What a stride leaves over makes the difference between both. */
static bool find_bound(const struct lineage *lineage, bool is_upper, struct bound *bound)
{
    *bound = (struct bound){.slope = 1, .by = 1};
    for (uint32_t i = lineage->n; i-- > 0;) {
        const struct cell__atom *atom = lineage->atoms[i];
        const int64_t over = is_upper ? 0 : atom->stride - 1;
        int64_t added = 0;
        if (!base_i64_mul(bound->slope, atom->parts, &bound->slope) ||
            !base_i64_mul(bound->rest, atom->parts, &bound->rest) ||
            !base_i64_mul(bound->by, atom->add + atom->stride - over, &added) ||
            !base_i64_add(bound->rest, added, &bound->rest) ||
            !base_i64_mul(bound->by, atom->stride, &bound->by)) {
            return false;
        }
    }
    return true;
}

bool cell__axis_is_within(const struct cell__import *im, const struct cell__axis *part,
                          const struct cell__axis *whole)
{
    struct lineage lineages[2];
    struct bound most;
    struct bound least;
    int64_t slopes[2];
    int64_t rests[2];
    if (part->n != 1 || whole->n != 1) {
        return false;
    }
    const struct cell__atom *one = &im->atoms[cell__atom_root(im, part->atoms[0])];
    const struct cell__atom *two = &im->atoms[cell__atom_root(im, whole->atoms[0])];
    const uint32_t source = find_common(im, one, two);
    if (source == CELL__NONE || !find_lineage(im, one, source, &lineages[0]) ||
        !find_lineage(im, two, source, &lineages[1]) || !find_bound(&lineages[0], true, &most) ||
        !find_bound(&lineages[1], false, &least) ||
        !base_i64_mul(most.slope, least.by, &slopes[0]) ||
        !base_i64_mul(least.slope, most.by, &slopes[1]) ||
        !base_i64_mul(most.rest, least.by, &rests[0]) ||
        !base_i64_mul(least.rest, most.by, &rests[1])) {
        return false;
    }
    int64_t ends[2]; // of one step
    return slopes[0] <= slopes[1] && base_i64_add(slopes[0], rests[0], &ends[0]) &&
           base_i64_add(slopes[1], rests[1], &ends[1]) && ends[0] <= ends[1];
}
