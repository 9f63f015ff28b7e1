/* Steps that a Reshape groups anew. What it leaves as it is stands before and behind what it
 * changes, outermost first; of that, where time is on either side,
 *
 *   [steps]              [fewer steps][by]      frames that are stacked: windows
 *   [steps][by]          [more steps]           steps of parts: a pyramid that grows, frames that
 *                                               are repeated
 *   [stated][..]         [..][steps][..]        some steps of all, or one of each group: windows
 *   [stated]             [features]             all steps as one row
 *   [features]           [..][steps][..]        one row as steps
 *
 * and what lies between is put in the order that the new shape says. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

#define FLAT_MAX (CELL_RANK_MAX * CELL__AXIS_ATOMS_MAX)

/* The atoms of a shape, outermost first, but those of size 1; first .. end - 1 are what changes. */
struct side {
    uint32_t first, end;
    uint32_t atoms[FLAT_MAX];
};

static void flatten(const struct cell__import *im, const struct cell__shape *shape,
                    struct side *side)
{
    *side = (struct side){.first = 0};
    for (uint32_t k = 0; k < shape->rank; k++) {
        for (uint32_t i = 0; i < shape->axes[k].n; i++) {
            const uint32_t root = cell__atom_root(im, shape->axes[k].atoms[i]);
            if (im->atoms[root].size != 1) {
                side->atoms[side->end++] = root;
            }
        }
    }
}

static enum cell__role role_of(const struct cell__import *im, uint32_t atom)
{
    return im->atoms[atom].role;
}

/* What changes has one time on this side at most, *time, or NONE, and no batch; else false, also
 * where a request chooses how many features there are. */
static bool find_time(const struct cell__import *im, const struct side *side, uint32_t *time)
{
    *time = CELL__NONE;
    for (uint32_t i = 0; i < side->end; i++) {
        const enum cell__role role = role_of(im, side->atoms[i]);
        const bool is_changed = i >= side->first;
        if (role == CELL__ROLE_FEATURE && im->atoms[side->atoms[i]].size < 1) {
            return false;
        }
        if (is_changed &&
            (role == CELL__ROLE_BATCH || (role == CELL__ROLE_TIME && *time != CELL__NONE))) {
            return false;
        }
        *time = is_changed && role == CELL__ROLE_TIME ? i : *time;
    }
    return true;
}

/* The features among some atoms. */
static uint32_t width_of(const struct cell__import *im, const struct side *side, uint32_t first,
                         uint32_t end)
{
    uint64_t width = 1;
    for (uint32_t i = first; i < end; i++) {
        const struct cell__atom *atom = &im->atoms[side->atoms[i]];
        if (atom->role == CELL__ROLE_FEATURE) {
            width *= (uint64_t)atom->size;
            width = width > CELL_WIDTH_MAX ? CELL_WIDTH_MAX + 1 : width;
        }
    }
    return (uint32_t)width;
}

/* Of known sizes both sides have as many elements. */
static bool is_as_many(const struct cell__import *im, const struct side *in, const struct side *out)
{
    const struct side *sides[] = {in, out};
    uint64_t sizes[2] = {1, 1};
    for (uint32_t s = 0; s < 2; s++) {
        for (uint32_t i = sides[s]->first; i < sides[s]->end; i++) {
            const int64_t size = im->atoms[sides[s]->atoms[i]].size;
            sizes[s] *= size > 0 && sizes[s] <= CELL_WIDTH_MAX ? (uint64_t)size : 1;
            if (size < 0) {
                return false;
            }
        }
    }
    return sizes[0] == sizes[1] && sizes[0] <= CELL_WIDTH_MAX;
}

/* A Reshape at work. */
struct regroup {
    struct side in, out;
    uint32_t from, to;     /* places of time on either side, or NONE */
    uint32_t before;       /* features before what changes */
    uint32_t outer, inner; /* on the side that has more atoms: features on either side of time */
};

static struct cell__axis axis_of(const struct side *side, uint32_t at)
{
    return (struct cell__axis){.n = 1, .atoms = {side->atoms[at]}};
}

/* Features that stand behind each other for each element before them change places with these. */
static enum base_status swap(struct cell__import *im, uint32_t first, uint32_t second,
                             uint32_t *row)
{
    const uint32_t dims[3] = {1, first, second};
    return first == 1 || second == 1 ? BASE_OK : cell__row_transpose(im, *row, dims, row);
}

/* ---- From steps ----------------------------------------------------------------------------- */

/* [before][by] at each step: a step of each. */
static enum base_status part_steps(struct cell__import *im, const struct regroup *regroup,
                                   uint32_t *row)
{
    const struct cell__axis from = axis_of(&regroup->in, regroup->from);
    const struct cell__axis to = axis_of(&regroup->out, regroup->to);
    struct cell__steps steps = {.count = 1, .stride = 1, .parts = regroup->inner, .is_cut = true};
    BASE_TRY(swap(im, regroup->before, regroup->inner, row));
    return cell__row_copy_steps(im, &from, &to, &steps, row);
}

/* Of step t of those that are left: step (o * left + t) * inner + i of all, for each o and i. */
static enum base_status gather_steps(struct cell__import *im, const struct regroup *regroup,
                                     uint32_t *row)
{
    const struct cell__axis from = axis_of(&regroup->in, regroup->from);
    const struct cell__axis to = axis_of(&regroup->out, regroup->to);
    const uint32_t apart = (uint32_t)cell__axis_size(im, &to) * regroup->inner;
    uint32_t *parts = base_arena_array(im->arena, regroup->outer, sizeof(*parts));
    if (parts == NULL) {
        return cell__no_memory(im);
    }
    if (regroup->inner > CELL_WINDOW_MAX || (regroup->outer - 1) * (uint64_t)apart > INT32_MAX) {
        return cell__refuse(im, "more than %u steps as one", CELL_WINDOW_MAX);
    }
    if (regroup->outer == 1) {
        BASE_TRY(cell__row_stacked(im, &from, to.atoms[0], regroup->inner, row));
        return swap(im, regroup->inner, regroup->before, row);
    }
    for (uint32_t o = 0; o < regroup->outer; o++) {
        struct cell__steps steps = {
            .count = regroup->inner, .stride = regroup->inner, .offset = (int32_t)(o * apart)};
        parts[o] = *row;
        BASE_TRY(cell__row_copy_steps(im, &from, &to, &steps, &parts[o]));
    }
    BASE_TRY(cell__row_concat(im, parts, regroup->outer, row));
    return swap(im, regroup->outer * regroup->inner, regroup->before, row);
}

/* All of them, of stated number, as features. */
static enum base_status gather_all(struct cell__import *im, const struct regroup *regroup,
                                   uint32_t *row)
{
    const struct cell__axis from = axis_of(&regroup->in, regroup->from);
    const struct cell__shape time = {.rank = 1, .axes = {from}};
    struct cell__place place;
    BASE_TRY(cell__row_of_steps(im, &time, 0, "groups", row, &place));
    return swap(im, place.size, regroup->before, row);
}

/* Whether `steps` are so many parts of each step of `whole`, or as many as these are: other steps,
 * of which a stride has left the whole, are put together again. */
static bool is_of_parts(const struct cell__import *im, const struct cell__axis *steps,
                        const struct cell__axis *whole, uint32_t parts)
{
    for (uint32_t i = 0; i < im->n_atoms; i++) {
        const struct cell__axis one = {.n = 1, .atoms = {i}};
        struct cell__axis of;
        if (im->atoms[i].parts == (int64_t)parts && im->atoms[i].add == -1 &&
            im->atoms[i].stride == 1 && cell__axis_is_same(im, &one, steps) &&
            cell__axis_whole(im, &one, &of) && cell__axis_is_same(im, &of, whole)) {
            return true;
        }
    }
    return false;
}

/* Whether each step of `to` is so many of `from`: of numbers that a request chooses the one follows
 * from the other (reshape.c). */
static bool is_stacked(const struct cell__import *im, const struct cell__axis *from,
                       const struct cell__axis *to, uint32_t by)
{
    const int64_t size = cell__axis_size(im, to);
    const int64_t all = cell__axis_size(im, from);
    return size < 0 || (all % by == 0 && all / by == size);
}

/* Features beside time, where that comes first of what changes: fewer of more steps, or more of
 * fewer. */
static enum base_status regroup_first(struct cell__import *im, struct regroup *regroup,
                                      uint32_t *row, bool *is_done)
{
    const struct cell__axis from = axis_of(&regroup->in, regroup->from);
    const struct cell__axis to = axis_of(&regroup->out, regroup->to);
    const uint32_t have = width_of(im, &regroup->in, regroup->in.first, regroup->in.end);
    const uint32_t wanted = width_of(im, &regroup->out, regroup->out.first, regroup->out.end);
    const bool is_more = have > wanted;
    if (have == 0 || wanted == 0) {
        return BASE_OK;
    }
    regroup->inner = is_more ? have / wanted : wanted / have;
    *is_done = is_more ? have % wanted == 0 && is_of_parts(im, &to, &from, regroup->inner)
                       : wanted % have == 0 && is_stacked(im, &from, &to, regroup->inner);
    if (!*is_done) {
        return BASE_OK;
    }
    return is_more ? part_steps(im, regroup, row) : gather_steps(im, regroup, row);
}

static enum base_status regroup_steps(struct cell__import *im, struct regroup *regroup,
                                      uint32_t *row, bool *is_done)
{
    const struct side *in = &regroup->in;
    const struct side *out = &regroup->out;
    if (regroup->from == in->first && regroup->to == out->first) {
        return regroup_first(im, regroup, row, is_done);
    }
    regroup->outer = width_of(im, out, out->first, regroup->to);
    regroup->inner = width_of(im, out, regroup->to, out->end);
    *is_done = in->end - in->first == 1 && is_as_many(im, in, out);
    return *is_done ? gather_steps(im, regroup, row) : BASE_OK;
}

/* ---- From one row --------------------------------------------------------------------------- */

/* Its elements as those of steps. */
static enum base_status make_steps(struct cell__import *im, const struct regroup *regroup,
                                   uint32_t *row)
{
    const struct cell__axis to = axis_of(&regroup->out, regroup->to);
    const uint32_t steps = (uint32_t)cell__axis_size(im, &to);
    const uint32_t width = im->rows[*row].value.width;
    struct cell__joined joined = {.n = 1};
    if (im->rows[*row].times != 0 || width % steps != 0 || im->rows[*row].value.dtype != CELL_F32) {
        return cell__refuse(im, "splits the batch or time axis");
    }
    BASE_TRY(swap(im, regroup->before * regroup->outer, steps, row));
    joined.parts[0].row = *row;
    return cell__row_join_steps(im, &joined, &to, width / steps, row);
}

/* ---- Which of these ------------------------------------------------------------------------- */

/* What both sides begin and end with stays as it is. */
static void find_change(struct regroup *regroup)
{
    struct side *in = &regroup->in;
    struct side *out = &regroup->out;
    while (in->first < in->end && out->first < out->end &&
           in->atoms[in->first] == out->atoms[out->first]) {
        in->first = ++out->first;
    }
    while (in->first < in->end && out->first < out->end &&
           in->atoms[in->end - 1] == out->atoms[out->end - 1]) {
        in->end--;
        out->end--;
    }
}

enum base_status cell__row_regrouped(struct cell__import *im, const struct cell__value *value,
                                     const struct cell__shape *shape, uint32_t *row, bool *is_done)
{
    struct regroup regroup = {.outer = 1, .inner = 1};
    struct side *in = &regroup.in;
    struct side *out = &regroup.out;
    *is_done = false;
    flatten(im, &value->shape, in);
    flatten(im, shape, out);
    find_change(&regroup);
    if (value->kind != CELL__ROWS || !find_time(im, in, &regroup.from) ||
        !find_time(im, out, &regroup.to) ||
        (regroup.from == CELL__NONE && regroup.to == CELL__NONE) || im->scan != CELL__NONE) {
        return BASE_OK;
    }
    regroup.before = width_of(im, in, 0, in->first);
    if (regroup.from == CELL__NONE) {
        regroup.outer = width_of(im, out, out->first, regroup.to);
        *is_done = is_as_many(im, in, out);
        return *is_done ? make_steps(im, &regroup, row) : BASE_OK;
    }
    const struct cell__axis from = axis_of(in, regroup.from);
    if (cell__is_turned_along(im, value, &from)) {
        return cell__refuse(im, "groups steps of a sequence that is turned round");
    }
    if (regroup.to != CELL__NONE) {
        return regroup_steps(im, &regroup, row, is_done);
    }
    *is_done = in->end - in->first == 1 && is_as_many(im, in, out);
    return *is_done ? gather_all(im, &regroup, row) : BASE_OK;
}
