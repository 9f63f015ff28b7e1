/* Reshape, as the axes that its result has: atoms that are merged, split, or taken as they are; and
 * frames of steps that are stacked. */
#include "cells/import/ops.h"

#include "base/assert.h"
#include "base/checked.h"

#include <string.h>

#define FLAT_MAX (CELL_RANK_MAX * CELL__AXIS_ATOMS_MAX)

/* The atoms of the input, outermost first; [first, last) are not used yet. */
struct flat {
    uint32_t first, last;
    uint32_t atoms[FLAT_MAX];
};

static void flatten(const struct cell__import *im, const struct cell__shape *in, struct flat *flat)
{
    *flat = (struct flat){.first = 0};
    for (uint32_t k = 0; k < in->rank; k++) {
        for (uint32_t i = 0; i < in->axes[k].n; i++) {
            if (cell__atom_size(im, in->axes[k].atoms[i]) != 1) {
                flat->atoms[flat->last++] = in->axes[k].atoms[i];
            }
        }
    }
}

static bool axis_push(struct cell__axis *axis, uint32_t atom, bool at_front)
{
    if (axis->n == CELL__AXIS_ATOMS_MAX) {
        return false;
    }
    if (at_front) {
        memmove(&axis->atoms[1], &axis->atoms[0], axis->n * sizeof(axis->atoms[0]));
    }
    axis->atoms[at_front ? 0 : axis->n] = atom;
    axis->n++;
    return true;
}

/* Splits the number `size` into part (the one at hand) and rest, which stays in flat. */
static enum base_status split_atom(struct cell__import *im, struct flat *flat, bool from_back,
                                   int64_t part, int64_t rest, uint32_t *out)
{
    uint32_t left = 0;
    BASE_TRY(cell__atom_new(im, part, out));
    BASE_TRY(cell__atom_new(im, rest, &left));
    flat->atoms[from_back ? flat->last - 1 : flat->first] = left;
    return BASE_OK;
}

/* Where the next atom of flat neither divides `part` nor is divided by it, makes one of as few at
 * that end, of known sizes, as it divides all together: such as channels and bands that are grouped
 * anew. Nothing can be followed through it: should one of them be batch or time, the row is not as
 * wide as its shape, which is refused then. */
static enum base_status merge_atoms(struct cell__import *im, struct flat *flat, bool from_back,
                                    int64_t part)
{
    const int64_t next = cell__atom_size(im, flat->atoms[from_back ? flat->last - 1 : flat->first]);
    int64_t size = 1;
    if (next < 1 || part % next == 0 || next % part == 0) {
        return BASE_OK;
    }
    for (uint32_t n = 1; n <= flat->last - flat->first; n++) {
        const uint32_t at = from_back ? flat->last - n : flat->first + n - 1;
        const int64_t have = cell__atom_size(im, flat->atoms[at]);
        if (have < 1 || !base_i64_mul(size, have, &size)) {
            return BASE_OK;
        }
        if (size % part == 0) {
            flat->first += from_back ? 0 : n - 1;
            flat->last -= from_back ? n - 1 : 0;
            return cell__atom_new(im, size, &flat->atoms[from_back ? flat->last - 1 : flat->first]);
        }
    }
    return BASE_OK;
}

/* Of steps whose number a request chooses, frames of so many, which stay in flat where they stand
 * behind: a number that they divide. */
static enum base_status split_steps(struct cell__import *im, struct flat *flat, bool from_back,
                                    int64_t by, uint32_t *left)
{
    uint32_t *place = &flat->atoms[from_back ? flat->last - 1 : flat->first];
    const struct cell__axis steps = {.n = 1, .atoms = {*place}};
    struct cell__axis frames;
    uint32_t inner = 0;
    BASE_TRY(cell__axis_strided(im, &steps, -by, by, &frames));
    BASE_TRY(cell__atom_divide(im, &im->atoms[cell__atom_root(im, *place)], by));
    BASE_TRY(cell__atom_new(im, by, &inner));
    base_assert(frames.n == 1);
    *place = from_back ? frames.atoms[0] : inner;
    *left = from_back ? inner : frames.atoms[0];
    return BASE_OK;
}

/* Takes atoms of `size` elements in all from one end of flat. */
static enum base_status take_number(struct cell__import *im, struct flat *flat, bool from_back,
                                    int64_t size, struct cell__axis *out)
{
    int64_t left = size;
    while (left > 1) {
        if (flat->first == flat->last) {
            return cell__invalid(im, "the new shape has more elements than the old");
        }
        BASE_TRY(merge_atoms(im, flat, from_back, left));
        uint32_t atom = flat->atoms[from_back ? flat->last - 1 : flat->first];
        int64_t have = cell__atom_size(im, atom);
        if (have > 0 && left % have == 0) {
            left /= have;
            flat->first += from_back ? 0 : 1;
            flat->last -= from_back ? 1 : 0;
        } else if (have > left && have % left == 0) {
            BASE_TRY(split_atom(im, flat, from_back, left, have / left, &atom));
            left = 1;
        } else if (have < 0 && from_back && left <= (int64_t)CELL_WINDOW_MAX) {
            BASE_TRY(split_steps(im, flat, true, left, &atom));
            left = 1;
        } else {
            return cell__refuse(im, "cannot follow which axis becomes the one of %lld elements",
                                (long long)size);
        }
        if (!axis_push(out, atom, from_back)) {
            return cell__refuse(im, "merges more than %u dimensions", CELL__AXIS_ATOMS_MAX);
        }
    }
    return BASE_OK;
}

/* Whether two atoms are as long as each other, as far as that is known. */
static bool are_alike(const struct cell__import *im, uint32_t a, uint32_t b)
{
    const struct cell__axis own = {.n = 1, .atoms = {a}};
    const struct cell__axis wanted = {.n = 1, .atoms = {b}};
    return cell__axis_is_same(im, &own, &wanted) || cell__axis_is_mirror(im, &own, &wanted) ||
           cell__axis_is_behind(im, &own, &wanted);
}

/* Whether the atoms of `axis` stand at this end of flat, in whatever order, since a size alone is
 * asked for; where a mirror of one, or its distances, will do. */
static bool is_next(const struct cell__import *im, const struct flat *flat, bool from_back,
                    const struct cell__axis *axis)
{
    const uint32_t n = axis->n;
    uint32_t taken = 0; // of the axis' atoms, a bit each
    if (n > flat->last - flat->first) {
        return false;
    }
    const uint32_t start = from_back ? flat->last - n : flat->first;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < n; k++) {
            if ((taken >> k & 1) == 0 && are_alike(im, flat->atoms[start + i], axis->atoms[k])) {
                taken |= 1u << k;
                break;
            }
        }
    }
    return taken == (1u << n) - 1;
}

/* Of an atom that is all whole frames of some steps: how many in each; 0: it is none. */
static int64_t frame_of(const struct cell__atom *atom)
{
    const bool is_frames =
        atom->source != CELL__NONE && atom->parts == 1 && atom->add == -atom->stride;
    return is_frames ? atom->stride : 0;
}

/* Whether the first atom of flat is steps of which the axis is frames, *by each; or both are frames
 * of the same steps. */
static bool is_frames_of_next(const struct cell__import *im, const struct flat *flat,
                              const struct cell__axis *axis, int64_t *by)
{
    if (axis->n != 1 || flat->first == flat->last) {
        return false;
    }
    const uint32_t next = cell__atom_root(im, flat->atoms[flat->first]);
    const struct cell__atom *atom = &im->atoms[cell__atom_root(im, axis->atoms[0])];
    const struct cell__atom *steps = &im->atoms[next];
    const int64_t smaller = frame_of(steps);
    *by = frame_of(atom);
    if (*by == 0) {
        return false;
    }
    const uint32_t source = cell__atom_root(im, atom->source);
    if (source != next) {
        const bool are_both = smaller > 0 && cell__atom_root(im, steps->source) == source;
        *by = are_both && *by % smaller == 0 ? *by / smaller : 0;
    }
    return *by >= 2 && *by <= (int64_t)CELL_WINDOW_MAX;
}

/* Whether a stride has left the first atom of flat of the steps of `axis`, and what is stated
 * behind it can be parted by *by, as it went. */
static bool is_left_next(const struct cell__import *im, const struct flat *flat,
                         const struct cell__axis *axis, int64_t *by)
{
    int64_t stated = 1;
    if (flat->first == flat->last || !cell__axis_has_left(im, axis, flat->atoms[flat->first], by)) {
        return false;
    }
    for (uint32_t i = flat->first + 1; i < flat->last; i++) {
        const int64_t size = cell__atom_size(im, flat->atoms[i]);
        if (size < 1 || stated % *by == 0 || !base_i64_mul(stated, size, &stated)) {
            break;
        }
    }
    return stated % *by == 0;
}

/* Takes these, and as many parts of each: the steps of `axis`, put together again. */
static enum base_status take_parts(struct cell__import *im, struct flat *flat,
                                   const struct cell__axis *axis, int64_t by,
                                   struct cell__axis *out)
{
    struct cell__axis parts = {.n = 0};
    *out = (struct cell__axis){.n = 1, .atoms = {flat->atoms[flat->first++]}};
    BASE_TRY(take_number(im, flat, false, by, &parts));
    for (uint32_t i = 0; i < parts.n; i++) {
        if (!axis_push(out, parts.atoms[i], false)) {
            return cell__refuse(im, "merges more than %u dimensions", CELL__AXIS_ATOMS_MAX);
        }
    }
    return cell__axis_unite(im, out, axis, "the new shape's dimensions");
}

/* Takes exactly the atoms of `axis` from one end of flat. */
static enum base_status take_axis(struct cell__import *im, struct flat *flat, bool from_back,
                                  const struct cell__axis *axis, struct cell__axis *out)
{
    const uint32_t n = axis->n;
    int64_t by = 0;
    if (!from_back && is_frames_of_next(im, flat, axis, &by)) {
        out->n = 1;
        return split_steps(im, flat, false, by, &out->atoms[0]);
    }
    if (!from_back && is_left_next(im, flat, axis, &by)) {
        return take_parts(im, flat, axis, by, out);
    }
    if (!is_next(im, flat, from_back, axis)) {
        return cell__refuse(im, "moves the batch or the time axis inside the tensor");
    }
    const uint32_t start = from_back ? flat->last - n : flat->first;
    out->n = n;
    memcpy(out->atoms, &flat->atoms[start], n * sizeof(out->atoms[0]));
    flat->first += from_back ? 0 : n;
    flat->last -= from_back ? n : 0;
    return BASE_OK;
}

/* Takes the atoms of `axis` and a number of others, such as the heads of each row of a batch, or
 * the batch of each of so many steps: the axis stands where it is found. */
static enum base_status take_multiple(struct cell__import *im, struct flat *flat, bool from_back,
                                      const struct cell__axis *axis, int64_t number,
                                      struct cell__axis *out)
{
    const bool is_axis_next = is_next(im, flat, from_back, axis);
    const uint32_t place = is_axis_next == from_back ? 1 : 0; // of the axis among the two
    struct cell__axis parts[2] = {{.n = 0}, {.n = 0}};
    if (is_axis_next) {
        BASE_TRY(take_axis(im, flat, from_back, axis, &parts[place]));
    }
    BASE_TRY(take_number(im, flat, from_back, number, &parts[1 - place]));
    if (!is_axis_next) {
        BASE_TRY(take_axis(im, flat, from_back, axis, &parts[place]));
    }
    *out = parts[0];
    for (uint32_t i = 0; i < parts[1].n; i++) {
        if (!axis_push(out, parts[1].atoms[i], false)) {
            return cell__refuse(im, "merges more than %u dimensions", CELL__AXIS_ATOMS_MAX);
        }
    }
    return BASE_OK;
}

/* The atom at one end of flat. */
static enum base_status take_axis_at(struct flat *flat, bool from_back, struct cell__axis *out)
{
    out->n = 1;
    out->atoms[0] = from_back ? flat->atoms[--flat->last] : flat->atoms[flat->first++];
    return BASE_OK;
}

/* Of a size and a number of others, such as the heads of each row of a batch, the size. */
static struct cell__sym lone_of(const struct cell__sym *target)
{
    struct cell__sym lone = *target;
    lone.factor = target->factor > 1 ? 1 : target->factor;
    return lone;
}

/* Whether the atom at this end of flat is so many parts of each step of an axis, as one. */
static bool is_parted_next(const struct cell__import *im, const struct flat *flat, bool from_back,
                           const struct cell__axis *axis, int64_t parts)
{
    if (flat->first == flat->last || axis->n != 1) {
        return false;
    }
    const uint32_t at = flat->atoms[from_back ? flat->last - 1 : flat->first];
    const struct cell__atom *atom = &im->atoms[cell__atom_root(im, at)];
    return atom->source != CELL__NONE && atom->parts == parts && atom->add == -1 &&
           atom->stride == 1 &&
           cell__atom_root(im, atom->source) == cell__atom_root(im, axis->atoms[0]);
}

static enum base_status take(struct cell__import *im, struct flat *flat, bool from_back,
                             const struct cell__sym *target, struct cell__axis *out)
{
    *out = (struct cell__axis){.n = 0};
    if (cell__sym_is_number(target)) {
        if (target->add < 1) {
            return cell__invalid(im, "a new dimension of %lld", (long long)target->add);
        }
        return take_number(im, flat, from_back, target->add, out);
    }
    struct cell__axis axis;
    const struct cell__sym lone = lone_of(target);
    BASE_TRY(cell__sym_axis(im, &lone, &axis));
    if (target->factor > 1 && is_parted_next(im, flat, from_back, &axis, target->factor)) {
        return take_axis_at(flat, from_back, out);
    }
    return target->factor > 1 ? take_multiple(im, flat, from_back, &axis, target->factor, out)
                              : take_axis(im, flat, from_back, &axis, out);
}

/* Of an input, as it stands there. */
static bool is_given(const struct cell__import *im, const struct cell__axis *axis)
{
    return axis->n == 1 && im->atoms[cell__atom_root(im, axis->atoms[0])].source == CELL__NONE;
}

/* A size that is asked for and one that is not, of inputs whose dimensions have one name: ONNX says
 * that these are equal. */
static enum base_status unite_namesakes(struct cell__import *im, const struct flat *flat,
                                        const struct cell__axis *axis, bool is_asked[FLAT_MAX],
                                        bool *is_there)
{
    for (uint32_t i = 0; i < flat->last && !*is_there; i++) {
        const struct cell__axis own = {.n = 1, .atoms = {flat->atoms[i]}};
        if (!is_asked[i] && cell__axis_is_namesake(im, &own, axis)) {
            BASE_TRY(cell__axis_unite(im, &own, axis, "the new shape's dimensions"));
            is_asked[i] = true;
            *is_there = true;
        }
    }
    return BASE_OK;
}

/* Of a shape that is written with another tensor's sizes, as `x.view(*y.shape[:2], -1)`: where as
 * many that a request chooses are asked for that the input has not as it has that are not asked
 * for, these are the same, in their order, and so are those that inputs name alike. Requests in
 * which they are not are refused. Only of sizes that inputs have: what strides leave says itself
 * what it is. */
static enum base_status unite_sizes(struct cell__import *im, const struct flat *flat,
                                    const struct cell__sym *targets, uint32_t n)
{
    bool is_asked[FLAT_MAX] = {false};
    struct cell__axis missing[CELL_RANK_MAX];
    uint32_t n_missing = 0;
    uint32_t n_left = 0;
    uint32_t n_made = 0; // of either, by windows and slices
    for (uint32_t k = 0; k < n; k++) {
        struct cell__axis *axis = &missing[n_missing];
        if (cell__sym_is_number(&targets[k])) {
            continue;
        }
        const struct cell__sym lone = lone_of(&targets[k]);
        BASE_TRY(cell__sym_axis(im, &lone, axis));
        bool is_there = false;
        for (uint32_t i = 0; i < flat->last * axis->n; i++) {
            const bool is = are_alike(im, flat->atoms[i / axis->n], axis->atoms[i % axis->n]);
            is_asked[i / axis->n] |= is;
            is_there |= is;
        }
        BASE_TRY(is_there ? BASE_OK : unite_namesakes(im, flat, axis, is_asked, &is_there));
        n_missing += is_there ? 0 : 1;
        n_made += is_there || is_given(im, axis) ? 0 : 1;
    }
    for (uint32_t i = 0; i < flat->last; i++) {
        const struct cell__axis own = {.n = 1, .atoms = {flat->atoms[i]}};
        is_asked[i] |= cell__atom_size(im, flat->atoms[i]) >= 0;
        n_left += is_asked[i] ? 0 : 1;
        n_made += is_asked[i] || is_given(im, &own) ? 0 : 1;
    }
    uint32_t next = 0;
    for (uint32_t i = 0; i < flat->last && n_left == n_missing && n_made == 0; i++) {
        const struct cell__axis own = {.n = 1, .atoms = {flat->atoms[i]}};
        if (!is_asked[i]) {
            BASE_TRY(cell__axis_unite(im, &own, &missing[next++], "the new shape's dimensions"));
        }
    }
    return BASE_OK;
}

/* [rows, steps, features] to [rows, steps / by, by * features]: frames that are stacked, of a
 * number of steps that `by` must divide. Sets *is_one where it is that. */
static enum base_status stack(struct cell__import *im, const struct cell__shape *in,
                              const struct cell__sym *targets, struct cell__shape *out,
                              bool *is_one)
{
    const struct cell__axis *time = &in->axes[1];
    const int64_t width = cell__axis_size(im, &in->axes[2]);
    const struct cell__sym rows = cell__sym_of_axis(im, &in->axes[0]);
    const int64_t by = width > 0 ? targets[2].add / width : 0;
    const bool has_rows =
        cell__sym_is(&targets[0], -1) || cell__sym_equal(im, &targets[0], &rows) == 1;
    *is_one = time->n == 1 && cell__axis_size(im, time) < 0 && cell__sym_is_number(&targets[2]) &&
              by >= 2 && by <= (int64_t)CELL_WINDOW_MAX && targets[2].add == by * width && has_rows;
    if (!*is_one) {
        return BASE_OK;
    }
    *out = *in;
    BASE_TRY(cell__axis_strided(im, time, -by, by, &out->axes[1]));
    const struct cell__sym left = cell__sym_of_axis(im, &out->axes[1]);
    *is_one = cell__sym_is(&targets[1], -1) || cell__sym_equal(im, &targets[1], &left) == 1;
    if (!*is_one) {
        return BASE_OK;
    }
    struct cell__atom *atom = &im->atoms[cell__atom_root(im, time->atoms[0])];
    BASE_TRY(cell__atom_divide(im, atom, by));
    struct cell__axis frames;
    BASE_TRY(cell__axis_new(im, by, &frames));
    return axis_push(&out->axes[2], frames.atoms[0], true)
               ? BASE_OK
               : cell__refuse(im, "merges more than %u dimensions", CELL__AXIS_ATOMS_MAX);
}

/* 2 T - 1, as a file asks for that many distances between T steps: as the axis that has them. */
static struct cell__sym as_distances(const struct cell__import *im, const struct cell__shape *in,
                                     const struct cell__sym *sym)
{
    for (uint32_t k = 0; k < in->rank && sym->factor == 2 && sym->add == -1; k++) {
        if (cell__axis_is_distances(im, &in->axes[k], &sym->axis)) {
            return cell__sym_of_axis(im, &in->axes[k]);
        }
    }
    return *sym;
}

enum base_status cell__reshape(struct cell__import *im, const struct cell__shape *in,
                               const struct cell__sym *targets, uint32_t n, bool allow_zero,
                               struct cell__shape *out)
{
    struct cell__sym wanted[CELL_RANK_MAX];
    uint32_t open = n; // place of the -1
    if (n > CELL_RANK_MAX) {
        return cell__refuse(im, "rank %u; at most %u", n, CELL_RANK_MAX);
    }
    for (uint32_t k = 0; k < n; k++) {
        wanted[k] = as_distances(im, in, &targets[k]);
        if (!allow_zero && cell__sym_is(&targets[k], 0) && k < in->rank) {
            wanted[k] = cell__sym_of_axis(im, &in->axes[k]);
        }
        if (cell__sym_is(&targets[k], -1)) {
            if (open < n) {
                return cell__invalid(im, "two dimensions of -1");
            }
            open = k;
        }
    }
    struct flat flat;
    bool is_stack = false;
    if (in->rank == 3 && n == 3) {
        BASE_TRY(stack(im, in, wanted, out, &is_stack));
    }
    if (is_stack) {
        return BASE_OK;
    }
    flatten(im, in, &flat);
    BASE_TRY(unite_sizes(im, &flat, wanted, n));
    *out = (struct cell__shape){.rank = n};
    for (uint32_t k = 0; k < open; k++) {
        BASE_TRY(take(im, &flat, false, &wanted[k], &out->axes[k]));
    }
    for (uint32_t k = n; k > open + 1; k--) {
        BASE_TRY(take(im, &flat, true, &wanted[k - 1], &out->axes[k - 1]));
    }
    if (open == n && flat.first < flat.last) {
        return cell__invalid(im, "the new shape has fewer elements than the old");
    }
    while (flat.first < flat.last) {
        if (!axis_push(&out->axes[open], flat.atoms[flat.first++], false)) {
            return cell__refuse(im, "merges more than %u dimensions", CELL__AXIS_ATOMS_MAX);
        }
    }
    return BASE_OK;
}
