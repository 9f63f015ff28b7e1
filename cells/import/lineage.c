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
           one->is_kept == two->is_kept && one->is_behind == two->is_behind &&
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

/* ---- So many more, always ----------------------------------------------------------------------
 */

#define PERIOD_MAX 16384
#define NUMBER_MAX ((int64_t)1 << 61) /* two of them have a difference */

/* Steps of what follows from n of the source, where all windows are full. */
static bool steps_of(const struct lineage *lineage, int64_t n, int64_t *out)
{
    for (uint32_t i = lineage->n; i-- > 0;) {
        const struct cell__atom *atom = lineage->atoms[i];
        if (!base_i64_mul(n, atom->parts, &n) || !base_i64_add(n, atom->add, &n)) {
            return false;
        }
        n = base_floor_divide(n, atom->stride) + 1;
    }
    *out = n;
    return true;
}

/* The same of a number that is made of them. */
static bool number_of(const struct lineage *lineage, const struct cell__sym *sym, int64_t n,
                      int64_t *out)
{
    return steps_of(lineage, n, out) && base_i64_mul(*out, sym->factor, out) &&
           base_i64_add(*out, sym->add, out) && *out > -NUMBER_MAX && *out < NUMBER_MAX;
}

/* *period becomes a multiple of the steps after which all strides begin anew. */
static bool find_period(const struct lineage *lineage, int64_t *period)
{
    uint64_t given = 1; // steps of the source that come with `made` of what follows
    uint64_t made = 1;
    for (uint32_t i = lineage->n; i-- > 0;) {
        const uint64_t stride = (uint64_t)lineage->atoms[i]->stride;
        made *= (uint64_t)lineage->atoms[i]->parts;
        const uint64_t common = base_greatest_divisor(made, stride);
        made /= common;
        given *= stride / common;
        if (made > (uint64_t)NUMBER_MAX >> 31 || stride > PERIOD_MAX || given > PERIOD_MAX) {
            return false;
        }
    }
    *period = *period / (int64_t)base_greatest_divisor((uint64_t)*period, given) * (int64_t)given;
    return *period <= PERIOD_MAX;
}

/* How many more one number has than the other: from the least to the most of them within a period,
 * and so many more in each that follows. */
struct gap {
    int64_t least, most, growth;
};

static bool find_gap(const struct cell__import *im, const struct cell__sym *one,
                     const struct cell__sym *other, struct gap *gap)
{
    struct lineage lineages[2];
    int64_t period = 1;
    if (one->axis.n != 1 || other->axis.n != 1) {
        return false;
    }
    const struct cell__atom *a = &im->atoms[cell__atom_root(im, one->axis.atoms[0])];
    const struct cell__atom *b = &im->atoms[cell__atom_root(im, other->axis.atoms[0])];
    const uint32_t source = find_common(im, a, b);
    if (source == CELL__NONE || !find_lineage(im, a, source, &lineages[0]) ||
        !find_lineage(im, b, source, &lineages[1]) || !find_period(&lineages[0], &period) ||
        !find_period(&lineages[1], &period)) {
        return false;
    }
    *gap = (struct gap){.least = INT64_MAX, .most = INT64_MIN};
    for (int64_t n = 0; n <= period; n++) {
        int64_t numbers[2];
        if (!number_of(&lineages[0], one, n, &numbers[0]) ||
            !number_of(&lineages[1], other, n, &numbers[1])) {
            return false;
        }
        const int64_t more = numbers[0] - numbers[1];
        gap->growth += n == 0 ? -more : n == period ? more : 0;
        gap->least = more < gap->least ? more : gap->least;
        gap->most = more > gap->most ? more : gap->most;
    }
    return true;
}

bool cell__steps_more(const struct cell__import *im, const struct cell__sym *one,
                      const struct cell__sym *other, int64_t *more)
{
    struct gap gap;
    if (!find_gap(im, one, other, &gap) || gap.least != gap.most || gap.growth != 0) {
        return false;
    }
    *more = gap.least;
    return true;
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

/* Of a number that is made of such: part->factor times it, and part->add. */
static bool find_bound_of(const struct lineage *lineage, const struct cell__sym *part,
                          struct bound *bound)
{
    int64_t added = 0;
    return find_bound(lineage, true, bound) &&
           base_i64_mul(bound->slope, part->factor, &bound->slope) &&
           base_i64_mul(bound->rest, part->factor, &bound->rest) &&
           base_i64_mul(bound->by, part->add, &added) &&
           base_i64_add(bound->rest, added, &bound->rest);
}

bool cell__axis_is_within(const struct cell__import *im, const struct cell__sym *part,
                          const struct cell__axis *whole)
{
    struct lineage lineages[2];
    struct bound most;
    struct bound least;
    struct gap gap;
    int64_t slopes[2];
    int64_t rests[2];
    const struct cell__sym size = {.factor = 1, .axis = *whole};
    if (find_gap(im, part, &size, &gap)) {
        return gap.most <= 0 && gap.growth <= 0;
    }
    if (part->axis.n != 1 || part->factor < 1 || whole->n != 1) {
        return false;
    }
    const struct cell__atom *one = &im->atoms[cell__atom_root(im, part->axis.atoms[0])];
    const struct cell__atom *two = &im->atoms[cell__atom_root(im, whole->atoms[0])];
    const uint32_t source = find_common(im, one, two);
    if (source == CELL__NONE || !find_lineage(im, one, source, &lineages[0]) ||
        !find_lineage(im, two, source, &lineages[1]) || !find_bound_of(&lineages[0], part, &most) ||
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

/* ---- A step of it ------------------------------------------------------------------------------
 */

/* What of n of the source a number and an axis are; false: too large, or there are no such n. */
struct followed {
    struct lineage number, axis;
};

static bool find_followed(const struct cell__import *im, const struct cell__sym *number,
                          const struct cell__axis *axis, uint32_t *root, struct followed *out)
{
    if (number->axis.n != 1 || axis->n != 1 || number->factor == 0) {
        return false;
    }
    const struct cell__atom *a = &im->atoms[cell__atom_root(im, number->axis.atoms[0])];
    const struct cell__atom *b = &im->atoms[cell__atom_root(im, axis->atoms[0])];
    *root = find_common(im, a, b);
    return *root != CELL__NONE && find_lineage(im, a, *root, &out->number) &&
           find_lineage(im, b, *root, &out->axis);
}

/* The fewest of the source with which the axis has a step; 0: nobody knows. */
static int64_t first_with_step(const struct followed *followed)
{
    for (int64_t n = 1; n <= PERIOD_MAX; n++) {
        int64_t steps = 0;
        if (!steps_of(&followed->axis, n, &steps)) {
            return 0;
        }
        if (steps >= 1) {
            return n;
        }
    }
    return 0;
}

bool cell__is_never_below(const struct cell__import *im, const struct cell__sym *number,
                          const struct cell__axis *axis)
{
    struct followed followed;
    uint32_t root = 0;
    int64_t least = 0;
    if (number->factor < 1 || !find_followed(im, number, axis, &root, &followed)) {
        return false;
    }
    const int64_t first = first_with_step(&followed);
    return first > 0 && number_of(&followed.number, number, first, &least) && least >= 0;
}

bool cell__is_step_of(const struct cell__import *im, const struct cell__sym *number,
                      const struct cell__axis *axis, uint32_t *root)
{
    struct followed followed;
    const struct cell__sym size = {.factor = 1, .axis = *axis};
    int64_t period = 1;
    int64_t starts[2] = {0, 0}; // at the first: steps before it and behind it
    if (!find_followed(im, number, axis, root, &followed) ||
        !find_period(&followed.number, &period) || !find_period(&followed.axis, &period)) {
        return false;
    }
    const int64_t first = first_with_step(&followed);
    for (int64_t n = first; n <= first + period; n++) {
        int64_t steps = 0;
        int64_t before = 0;
        if (!number_of(&followed.axis, &size, n, &steps) ||
            !number_of(&followed.number, number, n, &before)) {
            return false;
        }
        const int64_t behind = steps - 1 - before;
        starts[0] = n == first ? before : starts[0];
        starts[1] = n == first ? behind : starts[1];
        // Each period adds as many as the first: none of them takes any away.
        if (before < 0 || behind < 0 ||
            (n == first + period && (before < starts[0] || behind < starts[1]))) {
            return false;
        }
    }
    return first > 0;
}
