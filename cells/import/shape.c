/* Atoms and axes: which dimension of which value is which. Union-find with path halving, so a
 * question costs a few steps; no recursion. Sizes are kept at the root: a request's choice (-1)
 * united with a number becomes the number. */
#include "cells/import/ops.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/divide.h"

#include <string.h>

/* ---- Atoms -------------------------------------------------------------------------------- */

enum base_status cell__atom_new(struct cell__import *im, int64_t size, uint32_t *out)
{
    void *array = im->atoms;
    BASE_TRY(cell__grow(im, &array, &im->atoms_room, im->n_atoms, sizeof(*im->atoms),
                        (struct cell__limit){CELL__ATOMS_MAX, "dimensions"}));
    im->atoms = array;
    *out = im->n_atoms++;
    im->atoms[*out] = (struct cell__atom){
        .parent = *out, .size = size, .source = CELL__NONE, .parts = 1, .whole = CELL__NONE};
    return BASE_OK;
}

uint32_t cell__atom_root(const struct cell__import *im, uint32_t atom)
{
    base_assert(atom < im->n_atoms);
    struct cell__atom *atoms = im->atoms;
    while (atoms[atom].parent != atom) {
        atoms[atom].parent = atoms[atoms[atom].parent].parent;
        atom = atoms[atom].parent;
    }
    return atom;
}

int64_t cell__atom_size(const struct cell__import *im, uint32_t atom)
{
    return im->atoms[cell__atom_root(im, atom)].size;
}

static enum cell__role atom_role(const struct cell__import *im, uint32_t atom)
{
    return im->atoms[cell__atom_root(im, atom)].role;
}

/* Whether two atoms have as many steps whatever the request: the file states both, neither follows
 * from another, or both do in the same way. */
static bool may_unite(const struct cell__import *im, const struct cell__atom *one,
                      const struct cell__atom *two)
{
    if (one->size >= 0 && two->size >= 0) {
        return true; // their sizes are compared next
    }
    if (one->source == CELL__NONE || two->source == CELL__NONE) {
        return one->source == two->source;
    }
    return cell__atoms_follow_alike(im, one, two);
}

/* Of two atoms, one of distances: whether the other is of nothing else, so that it may be of them.
 */
static bool may_be_behind(const struct cell__import *im, const struct cell__atom *one,
                          const struct cell__atom *two)
{
    const struct cell__atom *plain = one->is_behind ? two : one;
    const struct cell__atom *behind = one->is_behind ? one : two;
    return plain->source == CELL__NONE && !cell__atom_follows(im, behind, plain->parent);
}

#define ADD_MAX CELL__STEPS_ADD_MAX

enum base_status cell__atom_divide(struct cell__import *im, struct cell__atom *atom, int64_t by)
{
    int64_t both = atom->multiple;
    if (both == 0 || by <= 1) {
        atom->multiple = by <= 1 ? both : by;
        return BASE_OK;
    }
    while (both % by != 0 && both <= ADD_MAX) {
        both += atom->multiple;
    }
    if (both > ADD_MAX) {
        return cell__refuse(im, "parts the steps so that more than %d must divide them", ADD_MAX);
    }
    atom->multiple = both;
    return BASE_OK;
}

static enum base_status atoms_unite(struct cell__import *im, uint32_t a, uint32_t b,
                                    const char *what)
{
    struct cell__atom *one = &im->atoms[cell__atom_root(im, a)];
    struct cell__atom *two = &im->atoms[cell__atom_root(im, b)];
    const struct cell__sym as_one = {.factor = 1, .axis = {.n = 1, .atoms = {one->parent}}};
    const struct cell__sym as_two = {.factor = 1, .axis = {.n = 1, .atoms = {two->parent}}};
    uint32_t source = CELL__NONE;
    int64_t by = 1;
    int64_t more = 0;
    if (one == two) {
        return BASE_OK;
    }
    if (cell__atom_follows(im, two, one->parent) ||
        (one->is_divided && !two->is_divided && !cell__atom_follows(im, one, two->parent))) {
        // what others follow from stays, and what is found again
        struct cell__atom *other = one;
        one = two;
        two = other;
    }
    if (one->is_behind != two->is_behind && !may_be_behind(im, one, two)) {
        return cell__refuse(im, "%s: steps, and how far others are behind the last", what);
    }
    const bool is_same =
        may_unite(im, one, two) || (cell__steps_more(im, &as_one, &as_two, &more) && more == 0);
    if (!is_same && cell__atoms_are_even(im, one, two, &source, &by)) {
        BASE_TRY(cell__atom_divide(im, &im->atoms[source], by));
    } else if (!is_same) {
        return cell__refuse(im,
                            "%s: a number of steps that follows from another's, by a stride or "
                            "padding, and one that may differ from it",
                            what);
    }
    if (one->size != two->size && one->size >= 0 && two->size >= 0) {
        return cell__invalid(im, "%s: sizes %lld and %lld do not fit", what, (long long)one->size,
                             (long long)two->size);
    }
    two->size = two->size < 0 ? one->size : two->size;
    BASE_TRY(cell__atom_divide(im, two, one->multiple));
    two->least = two->least > one->least ? two->least : one->least;
    if (two->source == CELL__NONE && !cell__atom_follows(im, one, two->parent)) {
        two->source = one->source;
        two->parts = one->parts;
        two->add = one->add;
        two->stride = one->stride;
        two->is_kept = one->is_kept;
        two->is_behind = one->is_behind;
    }
    two->whole = two->whole == CELL__NONE ? one->whole : two->whole;
    one->parent = two->parent;
    return BASE_OK;
}

/* ---- Axes --------------------------------------------------------------------------------- */

enum base_status cell__axis_new(struct cell__import *im, int64_t size, struct cell__axis *out)
{
    *out = (struct cell__axis){.n = 0};
    if (size != 1) {
        out->n = 1;
        BASE_TRY(cell__atom_new(im, size, &out->atoms[0]));
    }
    return BASE_OK;
}

/* What a window leaves of steps that are as many in each request. */
static enum base_status steps_left(struct cell__import *im, int64_t given, int64_t add,
                                   int64_t stride, int64_t *out)
{
    *out = given + add < 0 ? 0 : (given + add) / stride + 1;
    return *out < 1 ? cell__invalid(im, "nothing is left of %lld steps", (long long)given)
                    : BASE_OK;
}

/* Of an axis that is nobody's time: of several dimensions, or of one element. */
static enum base_status axis_left(struct cell__import *im, int64_t given, int64_t add,
                                  int64_t stride, struct cell__axis *out)
{
    int64_t size = 0;
    if (given < 0) {
        return cell__refuse(im, "along an axis that is made of several dimensions");
    }
    BASE_TRY(steps_left(im, given, add, stride, &size));
    return cell__axis_new(im, size, out);
}

/* An atom's number of steps by that of one that follows from no other: (n * parts + add) / stride
 * + 1. */
struct origin {
    uint32_t root;
    int64_t parts, add, stride;
};

/* Of (n * parts + add) / stride + 1, where the source has n; false where numbers become too large,
 * or parts are made of what a stride has left. */
static bool find_origin(const struct cell__import *im, uint32_t source, struct origin *origin)
{
    origin->root = cell__atom_root(im, source);
    while (im->atoms[origin->root].source != CELL__NONE) {
        const struct cell__atom *atom = &im->atoms[origin->root];
        int64_t own = 0;
        if ((origin->parts > 1 && atom->stride > 1) ||
            !base_i64_mul(atom->stride, origin->parts + origin->add, &origin->add) ||
            !base_i64_mul(atom->add, origin->parts, &own) ||
            !base_i64_add(origin->add, own, &origin->add) ||
            !base_i64_mul(origin->parts, atom->parts, &origin->parts) ||
            !base_i64_mul(origin->stride, atom->stride, &origin->stride) ||
            origin->add < -ADD_MAX || origin->add > ADD_MAX || origin->parts > ADD_MAX ||
            origin->stride > ADD_MAX) {
            return false;
        }
        origin->root = cell__atom_root(im, atom->source);
    }
    return true;
}

/* An atom that has as many steps and *more, none if there is such, or NONE. only_divided: of those.
 */
static uint32_t find_as_many(const struct cell__import *im, const struct origin *wanted,
                             bool only_divided, int64_t *more)
{
    uint32_t found = CELL__NONE;
    for (uint32_t i = 0; i < im->n_atoms && (found == CELL__NONE || *more != 0); i++) {
        const struct cell__atom *atom = &im->atoms[i];
        const bool is_mirror =
            atom->parts == 1 && atom->stride == 1 && atom->add == -1; // a time of its own
        if (atom->parent != i || atom->source == CELL__NONE || atom->size >= 0 || is_mirror ||
            (only_divided && !atom->is_divided)) {
            continue;
        }
        struct origin origin = {.parts = atom->parts, .add = atom->add, .stride = atom->stride};
        if (find_origin(im, atom->source, &origin) && origin.root == wanted->root &&
            origin.parts == wanted->parts && origin.stride == wanted->stride &&
            (wanted->add - origin.add) % wanted->stride == 0) {
            const int64_t left = (wanted->add - origin.add) / wanted->stride;
            found = found == CELL__NONE || left == 0 ? i : found;
            *more = found == i ? left : *more;
        }
    }
    return found;
}

/* An atom of as many steps, a new one if need be, and a number more. */
static bool make_divided(struct cell__import *im, const struct origin *origin,
                         struct cell__sym *out)
{
    *out = (struct cell__sym){.factor = 1, .axis = {.n = 1}};
    out->axis.atoms[0] = find_as_many(im, origin, false, &out->add);
    if (out->axis.atoms[0] != CELL__NONE && out->add == 0) {
        return true;
    }
    out->add = 0;
    if (cell__atom_new(im, -1, &out->axis.atoms[0]) != BASE_OK) {
        return false;
    }
    struct cell__atom *atom = &im->atoms[out->axis.atoms[0]];
    atom->source = origin->root;
    atom->parts = origin->parts;
    atom->add = origin->add;
    atom->stride = origin->stride;
    atom->is_divided = true;
    return true;
}

struct cell__axis cell__axis_open(const struct cell__import *im, const struct cell__axis *axis,
                                  int64_t *stated)
{
    struct cell__axis open = {.n = 0};
    *stated = 1;
    for (uint32_t i = 0; i < axis->n; i++) {
        const int64_t size = cell__atom_size(im, axis->atoms[i]);
        if (size < 0) {
            open.atoms[open.n++] = axis->atoms[i];
        } else if (!base_i64_mul(*stated, size, stated)) {
            *stated = -1;
        }
    }
    return open;
}

/* Steps times what the file states, as of frames that are to be parted: divided by a part of that.
 */
static bool divide_stated(const struct cell__import *im, const struct cell__sym *steps, int64_t by,
                          struct cell__sym *out)
{
    int64_t stated = 1;
    *out = (struct cell__sym){.axis = cell__axis_open(im, &steps->axis, &stated)};
    if (by < 1 || stated < 2 || steps->add % by != 0 ||
        !base_i64_mul(steps->factor, stated, &out->factor) || out->factor % by != 0) {
        return false;
    }
    out->add = steps->add / by;
    out->factor /= by;
    return true;
}

/* Steps that are some number of parts of others, and some more or less, which `by` divides but for
 * these: 2 n - 1, divided by 2, is n - 1. */
static bool divide_parted(const struct cell__import *im, const struct cell__sym *steps, int64_t by,
                          struct cell__sym *out)
{
    if (steps->factor != 1 || steps->axis.n != 1 || by < 2 || steps->add < -ADD_MAX ||
        steps->add > ADD_MAX) {
        return false;
    }
    const struct cell__atom *atom = &im->atoms[cell__atom_root(im, steps->axis.atoms[0])];
    if (atom->source == CELL__NONE || atom->is_kept || atom->stride != 1 || atom->parts < 2 ||
        atom->parts % by != 0 || atom->parts + atom->add + 1 + steps->add < 0) {
        return false;
    }
    *out = (struct cell__sym){.add = base_floor_divide(atom->add + 1 + steps->add, by),
                              .factor = atom->parts / by,
                              .axis = {.n = 1, .atoms = {atom->source}}};
    return true;
}

bool cell__axis_divide(struct cell__import *im, const struct cell__sym *steps, int64_t by,
                       struct cell__sym *out)
{
    if (divide_stated(im, steps, by, out) || divide_parted(im, steps, by, out)) {
        return true;
    }
    if (steps->factor != 1 || steps->axis.n != 1 || by < 2 || by > ADD_MAX ||
        steps->add < -ADD_MAX || steps->add > ADD_MAX) {
        return false;
    }
    // (n + add) / by is (n + add - by) / by + 1
    struct origin origin = {.parts = 1, .add = steps->add - by, .stride = by};
    return find_origin(im, steps->axis.atoms[0], &origin) && make_divided(im, &origin, out);
}

/* That the node at hand has computed a shape for so many steps; most 0: any. */
static bool bound(struct cell__import *im, uint32_t atom, int64_t least, int64_t most)
{
    void *array = im->bounds;
    if (cell__grow(im, &array, &im->bounds_room, im->n_bounds, sizeof(*im->bounds),
                   (struct cell__limit){CELL__VALUES_MAX, "numbers of steps"}) != BASE_OK) {
        return false;
    }
    im->bounds = array;
    im->bounds[im->n_bounds++] = (struct cell__bound){im->current, atom, least, most};
    return true;
}

bool cell__axis_bounded(struct cell__import *im, const struct cell__sym *a,
                        const struct cell__sym *b, struct cell__sym *out)
{
    const struct cell__sym *size = cell__sym_is_number(a) ? b : a;
    const struct cell__sym *number = cell__sym_is_number(a) ? a : b;
    if (!cell__sym_is_number(number) || size->factor != 1 || size->axis.n != 1 || size->add != 0 ||
        number->add < 1 || number->add > ADD_MAX) {
        return false;
    }
    *out = *size;
    return bound(im, size->axis.atoms[0], 0, number->add);
}

bool cell__axis_smaller(const struct cell__import *im, const struct cell__sym *a,
                        const struct cell__sym *b, struct cell__sym *out)
{
    const struct cell__sym *frames = a->factor > 1 ? a : b;
    const struct cell__sym *steps = a->factor > 1 ? b : a;
    if (frames->factor < 2 || steps->factor != 1 || frames->axis.n != 1 || steps->axis.n != 1 ||
        frames->add != 0 || steps->add != 0) {
        return false;
    }
    // factor * ((n + add) / factor + 1), where add is at most -factor
    const struct cell__atom *atom = &im->atoms[cell__atom_root(im, frames->axis.atoms[0])];
    *out = *frames;
    return atom->source != CELL__NONE && atom->parts == 1 && atom->stride == frames->factor &&
           atom->add <= -atom->stride &&
           cell__atom_root(im, atom->source) == cell__atom_root(im, steps->axis.atoms[0]);
}

bool cell__axis_wrapped(struct cell__import *im, const struct cell__sym *number,
                        const struct cell__sym *size, struct cell__sym *out)
{
    const int64_t add = number->add;
    if (!cell__sym_is_number(number) || size->factor != 1 || size->axis.n != 1 || size->add != 0 ||
        add < -ADD_MAX || add > ADD_MAX) {
        return false;
    }
    *out = add < 0 ? *size : cell__sym_number(add);
    out->add = add;
    return bound(im, size->axis.atoms[0], add < 0 ? -add : add + 1, 0);
}

bool cell__axis_larger(struct cell__import *im, const struct cell__sym *a,
                       const struct cell__sym *b, struct cell__sym *out)
{
    const bool is_first = cell__sym_is_number(b);
    const struct cell__sym *size = is_first ? a : b;
    const struct cell__sym *number = is_first ? b : a;
    if (!cell__sym_is_number(number) || size->factor != 1 || size->axis.n != 1 ||
        size->add < -ADD_MAX || size->add > 0 || number->add < 0 || number->add > ADD_MAX) {
        return false;
    }
    struct cell__atom *atom = &im->atoms[cell__atom_root(im, size->axis.atoms[0])];
    const int64_t least = number->add - size->add;
    atom->least = atom->least > least ? atom->least : least;
    *out = *size;
    return true;
}

void cell__axis_settle(struct cell__import *im, struct cell__sym *steps)
{
    struct origin origin = {.parts = 1, .add = -1, .stride = 1};
    struct cell__sym settled;
    if (steps->factor < 1 || steps->add % steps->factor != 0 || steps->axis.n != 1 ||
        steps->add == 0 || steps->add < -ADD_MAX || steps->add > ADD_MAX ||
        !im->atoms[cell__atom_root(im, steps->axis.atoms[0])].is_divided ||
        !find_origin(im, steps->axis.atoms[0], &origin)) {
        return;
    }
    origin.add += steps->add / steps->factor * origin.stride;
    if (make_divided(im, &origin, &settled)) {
        settled.factor = steps->factor;
        *steps = settled;
    }
}

enum base_status cell__axis_strided(struct cell__import *im, const struct cell__axis *axis,
                                    int64_t add, int64_t stride, struct cell__axis *out)
{
    *out = *axis;
    if (stride == 1 && add == -1) {
        return BASE_OK;
    }
    if (axis->n != 1 && cell__axis_size(im, axis) < 0) {
        BASE_TRY(cell__axis_join(im, out));
    }
    if (out->n != 1) {
        return axis_left(im, cell__axis_size(im, axis), add, stride, out);
    }
    uint32_t source = cell__atom_root(im, out->atoms[0]);
    if (im->atoms[source].source != CELL__NONE && im->atoms[source].stride == 1 &&
        im->atoms[source].parts == 1 && !im->atoms[source].is_kept) {
        add += im->atoms[source].add + 1; // padding that is cut off again leaves what there was
        source = cell__atom_root(im, im->atoms[source].source);
    }
    if (add < -ADD_MAX || add > ADD_MAX) {
        return cell__refuse(im, "after more than %d steps of padding or windows", ADD_MAX);
    }
    if (stride == 1 && add == -1) {
        out->atoms[0] = source;
        return BASE_OK;
    }
    int64_t size = im->atoms[source].size;
    if (size >= 0) {
        BASE_TRY(steps_left(im, size, add, stride, &size));
    }
    struct origin origin = {.parts = 1, .add = add, .stride = stride};
    int64_t more = 0;
    if (size < 0 && find_origin(im, source, &origin)) {
        out->atoms[0] = find_as_many(im, &origin, true, &more);
        if (out->atoms[0] != CELL__NONE && more == 0) {
            return BASE_OK;
        }
    }
    BASE_TRY(cell__atom_new(im, size, &out->atoms[0]));
    struct cell__atom *atom = &im->atoms[out->atoms[0]];
    atom->source = source;
    atom->add = add;
    atom->stride = stride;
    return BASE_OK;
}

enum base_status cell__axis_with_lengths(struct cell__import *im, const struct cell__axis *axis,
                                         struct cell__axis *out)
{
    *out = *axis;
    if (axis->n != 1 || cell__axis_size(im, axis) >= 0) {
        return cell__refuse(im, "sequence_lens of an axis that is no open number of steps");
    }
    const uint32_t source = cell__atom_root(im, axis->atoms[0]);
    if (im->atoms[source].has_lengths) {
        return BASE_OK;
    }
    BASE_TRY(cell__atom_new(im, -1, &out->atoms[0]));
    struct cell__atom *atom = &im->atoms[out->atoms[0]];
    atom->source = source;
    atom->add = -1;
    atom->stride = 1;
    atom->has_lengths = true;
    return BASE_OK;
}

enum base_status cell__axis_parted(struct cell__import *im, const struct cell__axis *axis,
                                   int64_t parts, int64_t add, struct cell__axis *out)
{
    const int64_t given = cell__axis_size(im, axis);
    int64_t size = -1;
    base_assert(parts >= 2 && parts <= CELL_WINDOW_MAX && add >= -ADD_MAX && add <= ADD_MAX);
    if (given < 0 && axis->n != 1) {
        return cell__refuse(im, "along an axis that is made of several dimensions");
    }
    if (given >= 0 &&
        (!base_i64_mul(given, parts, &size) || !base_i64_add(size, add, &size) || size < 1)) {
        return cell__invalid(im, "nothing is left of %lld steps", (long long)given);
    }
    if (axis->n != 1) {
        return cell__axis_new(im, size, out);
    }
    *out = (struct cell__axis){.n = 1};
    BASE_TRY(cell__atom_new(im, size, &out->atoms[0]));
    struct cell__atom *atom = &im->atoms[out->atoms[0]];
    atom->source = cell__atom_root(im, axis->atoms[0]);
    atom->parts = parts;
    atom->add = add - 1;
    atom->stride = 1;
    return BASE_OK;
}

/* The axis `of` is from now on the one of another atom. */
static void put_axis(const struct cell__import *im, const struct cell__axis *of,
                     const struct cell__axis *joined, struct cell__axis *axis)
{
    bool is_same = axis->n == of->n;
    for (uint32_t i = 0; i < axis->n && is_same; i++) {
        is_same = cell__atom_root(im, axis->atoms[i]) == cell__atom_root(im, of->atoms[i]);
    }
    *axis = is_same ? *joined : *axis;
}

static void put_everywhere(struct cell__import *im, const struct cell__axis *of,
                           const struct cell__axis *joined)
{
    for (uint32_t v = 0; v < im->n_values; v++) {
        struct cell__value *value = &im->values[v];
        for (uint32_t k = 0; k < value->shape.rank; k++) {
            put_axis(im, of, joined, &value->shape.axes[k]);
        }
    }
    for (uint32_t r = 0; r < im->n_recurrents; r++) {
        put_axis(im, of, joined, &im->recurrents[r].time);
    }
}

/* Parts of each step of an axis of several dimensions, of which a file states all but the steps';
 * 0: it is none, or has more than a window. */
static int64_t parts_of(const struct cell__import *im, const struct cell__axis *axis)
{
    int64_t parts = 1;
    for (uint32_t i = 1; i < axis->n; i++) {
        const int64_t size = cell__atom_size(im, axis->atoms[i]);
        const bool is_few = size >= 1 && size <= CELL_WINDOW_MAX && parts <= CELL_WINDOW_MAX;
        parts = is_few ? parts * size : CELL_WINDOW_MAX + 1;
    }
    return parts <= CELL_WINDOW_MAX && parts >= 2 ? parts : 0;
}

/* The atom that such an axis has become, or NONE. */
static uint32_t find_joined(const struct cell__import *im, const struct cell__axis *axis)
{
    const int64_t parts = parts_of(im, axis);
    for (uint32_t i = 0; i < im->n_atoms && parts > 0; i++) {
        const struct cell__atom *atom = &im->atoms[i];
        if (atom->parts == parts && atom->add == -1 && atom->stride == 1 && atom->is_joined &&
            cell__atom_root(im, atom->source) == cell__atom_root(im, axis->atoms[0])) {
            return i;
        }
    }
    return CELL__NONE;
}

void cell__axis_see_joined(const struct cell__import *im, struct cell__axis *axis)
{
    const uint32_t joined = axis->n < 2 ? CELL__NONE : find_joined(im, axis);
    if (joined != CELL__NONE && im->atoms[joined].parent != joined) {
        *axis = (struct cell__axis){.n = 1, .atoms = {joined}};
    }
}

enum base_status cell__axis_join(struct cell__import *im, struct cell__axis *axis)
{
    const struct cell__axis of = *axis;
    const struct cell__axis steps = {.n = 1, .atoms = {of.atoms[0]}};
    struct cell__axis joined = {.n = 1};
    const int64_t parts = parts_of(im, axis);
    if (of.n < 2 || parts == 0 || atom_role(im, of.atoms[0]) == CELL__ROLE_BATCH) {
        return BASE_OK;
    }
    joined.atoms[0] = find_joined(im, axis);
    if (joined.atoms[0] == CELL__NONE) {
        BASE_TRY(cell__axis_parted(im, &steps, parts, 0, &joined));
        im->atoms[joined.atoms[0]].is_joined = true;
    }
    put_everywhere(im, &of, &joined);
    *axis = joined;
    return BASE_OK;
}

bool cell__axis_whole(const struct cell__import *im, const struct cell__axis *axis,
                      struct cell__axis *out)
{
    // as it was made: it may have been united with another since
    const struct cell__atom *atom = axis->n == 1 ? &im->atoms[axis->atoms[0]] : NULL;
    if (atom == NULL || atom->parts == 1) {
        return false;
    }
    *out = (struct cell__axis){.n = 1, .atoms = {cell__atom_root(im, atom->source)}};
    return true;
}

enum base_status cell__axis_kept(struct cell__import *im, const struct cell__axis *axis,
                                 int64_t size, int64_t needed, struct cell__axis *out)
{
    base_assert(size >= 2 && needed >= size);
    if (axis->n != 1 || needed > ADD_MAX) {
        return cell__refuse(im,
                            "takes steps of an axis that is made of several, or of more than "
                            "%d steps",
                            ADD_MAX);
    }
    BASE_TRY(cell__axis_new(im, size, out));
    struct cell__atom *atom = &im->atoms[out->atoms[0]];
    atom->source = cell__atom_root(im, axis->atoms[0]);
    atom->add = -needed;
    atom->stride = 1;
    atom->is_kept = true;
    return BASE_OK;
}

enum base_status cell__axis_part(struct cell__import *im, const struct cell__axis *axis,
                                 int64_t size, struct cell__axis *out)
{
    BASE_TRY(cell__axis_new(im, size, out));
    if (out->n == 1 && axis->n == 1) {
        im->atoms[out->atoms[0]].whole = cell__atom_root(im, axis->atoms[0]);
    }
    return BASE_OK;
}

int64_t cell__axis_size(const struct cell__import *im, const struct cell__axis *axis)
{
    int64_t size = 1;
    for (uint32_t i = 0; i < axis->n; i++) {
        int64_t atom = cell__atom_size(im, axis->atoms[i]);
        if (atom < 0 || !base_i64_mul(size, atom, &size)) {
            return -1;
        }
    }
    return size;
}

bool cell__axis_is_same(const struct cell__import *im, const struct cell__axis *a,
                        const struct cell__axis *b)
{
    if (a->n != b->n) {
        return false;
    }
    for (uint32_t i = 0; i < a->n; i++) {
        if (cell__atom_root(im, a->atoms[i]) != cell__atom_root(im, b->atoms[i])) {
            return false;
        }
    }
    return true;
}

bool cell__axis_has_same_atoms(const struct cell__import *im, const struct cell__axis *a,
                               const struct cell__axis *b)
{
    uint32_t taken = 0; // atoms of b, a bit each
    for (uint32_t i = 0; i < a->n && a->n == b->n; i++) {
        uint32_t k = 0;
        while (k < b->n && ((taken >> k & 1) != 0 ||
                            cell__atom_root(im, a->atoms[i]) != cell__atom_root(im, b->atoms[k]))) {
            k++;
        }
        taken |= k < b->n ? 1u << k : 0;
    }
    return a->n == b->n && taken == (1u << a->n) - 1;
}

bool cell__axis_is_as_long(const struct cell__import *im, const struct cell__axis *a,
                           const struct cell__axis *b)
{
    int64_t stated[2];
    const struct cell__axis open[2] = {cell__axis_open(im, a, &stated[0]),
                                       cell__axis_open(im, b, &stated[1])};
    return stated[0] == stated[1] && cell__axis_has_same_atoms(im, &open[0], &open[1]);
}

bool cell__axis_is_alike(const struct cell__import *im, const struct cell__axis *a,
                         const struct cell__axis *b)
{
    for (uint32_t i = 0; i < a->n && a->n == b->n; i++) {
        const int64_t size = cell__atom_size(im, a->atoms[i]);
        if (cell__atom_root(im, a->atoms[i]) != cell__atom_root(im, b->atoms[i]) &&
            (size < 0 || size != cell__atom_size(im, b->atoms[i]))) {
            return false;
        }
    }
    return a->n == b->n;
}

/* Pairs of which a request chooses one, and the file states the other: of more than one, as of [5,
 * batch] and [batch, 5], products may be equal and their dimensions not. */
static uint32_t count_mixed(const struct cell__import *im, const struct cell__axis *a,
                            const struct cell__axis *b)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n && a->n == b->n; i++) {
        n += (cell__atom_size(im, a->atoms[i]) < 0) != (cell__atom_size(im, b->atoms[i]) < 0) ? 1
                                                                                              : 0;
    }
    return n;
}

/* An open size that an input has must be 1, as of a state of rows of which the other inputs have
 * one.
 */
static bool set_lone(struct cell__import *im, uint32_t number)
{
    struct cell__atom *atom = &im->atoms[cell__atom_root(im, number)];
    const bool is_open = atom->size < 0 && atom->source == CELL__NONE;
    atom->size = is_open ? 1 : atom->size;
    return is_open;
}

bool cell__axis_has_left(const struct cell__import *im, const struct cell__axis *steps,
                         uint32_t left, int64_t *by)
{
    const uint32_t root = cell__atom_root(im, left);
    int64_t stride = 1;
    *by = 0;
    if (steps->n != 1 || im->atoms[root].size >= 0) {
        return false;
    }
    const uint32_t whole = cell__atom_root(im, steps->atoms[0]);
    const struct cell__atom *atom = &im->atoms[root];
    for (; atom->source != CELL__NONE && atom->parent != whole;
         atom = &im->atoms[cell__atom_root(im, atom->source)]) {
        if (atom->parts != 1 || atom->is_kept || !base_i64_mul(stride, atom->stride, &stride) ||
            stride > (int64_t)CELL_WINDOW_MAX) {
            return false;
        }
    }
    *by = stride;
    return atom->parent == whole && *by >= 2;
}

/* What a stride has left of steps, with parts of each, as many as those went by, beside these
 * steps: all of them, put together again. */
static bool is_put_together(const struct cell__import *im, const struct cell__axis *axis,
                            const struct cell__axis *steps)
{
    int64_t by = 0;
    int64_t parts = 1;
    if (axis->n < 2 || !cell__axis_has_left(im, steps, axis->atoms[0], &by)) {
        return false;
    }
    for (uint32_t i = 1; i < axis->n; i++) {
        if (!base_i64_mul(parts, cell__atom_size(im, axis->atoms[i]), &parts) || parts < 1) {
            return false;
        }
    }
    return parts == by;
}

enum base_status cell__axis_unite(struct cell__import *im, const struct cell__axis *a,
                                  const struct cell__axis *b, const char *what)
{
    if (is_put_together(im, a, b) || is_put_together(im, b, a)) {
        struct cell__axis joined = a->n > 1 ? *a : *b;
        const uint32_t steps = a->n > 1 ? b->atoms[0] : a->atoms[0];
        BASE_TRY(cell__axis_join(im, &joined));
        if (joined.n == 1) {
            return atoms_unite(im, joined.atoms[0], steps, what);
        }
    }
    if (a->n == b->n && cell__axis_is_as_long(im, a, b) && !cell__axis_is_alike(im, a, b)) {
        return cell__refuse(im, "%s: the same dimensions in another order", what);
    }
    if (a->n == b->n && count_mixed(im, a, b) < 2) {
        for (uint32_t i = 0; i < a->n; i++) {
            BASE_TRY(atoms_unite(im, a->atoms[i], b->atoms[i], what));
        }
        return BASE_OK;
    }
    // A lone atom of a graph input may have any size, 1 included; a product of two may not.
    const struct cell__axis *lone = a->n == 1 ? a : b;
    const struct cell__axis *other = a->n == 1 ? b : a;
    if (lone->n == 1 && other->n == 0 && set_lone(im, lone->atoms[0])) {
        return BASE_OK;
    }
    int64_t size = cell__axis_size(im, other);
    int64_t lone_size = cell__axis_size(im, lone);
    if (lone->n == 1 && size >= 0 && lone_size == size) {
        return BASE_OK;
    }
    if (size >= 0 && lone_size >= 0 && size != lone_size) {
        return cell__invalid(im, "%s: sizes %lld and %lld do not fit", what, (long long)lone_size,
                             (long long)size);
    }
    return cell__refuse(im, "%s: cannot tell that two dimensions are equal", what);
}

bool cell__axis_has(const struct cell__import *im, const struct cell__axis *axis,
                    enum cell__role role)
{
    for (uint32_t i = 0; i < axis->n; i++) {
        if (atom_role(im, axis->atoms[i]) == role) {
            return true;
        }
    }
    return false;
}

uint32_t cell__axis_times(const struct cell__import *im, const struct cell__axis *axis)
{
    uint32_t times = 0;
    for (uint32_t i = 0; i < axis->n; i++) {
        const struct cell__atom *atom = &im->atoms[cell__atom_root(im, axis->atoms[i])];
        times |= atom->role == CELL__ROLE_TIME ? 1u << atom->sequence : 0;
    }
    return times;
}

/* ---- Shapes ------------------------------------------------------------------------------- */

uint32_t cell__shape_times(const struct cell__import *im, const struct cell__shape *shape)
{
    uint32_t times = 0;
    for (uint32_t k = 0; k < shape->rank; k++) {
        times |= cell__axis_times(im, &shape->axes[k]);
    }
    return times;
}

bool cell__shape_has(const struct cell__import *im, const struct cell__shape *shape,
                     enum cell__role role)
{
    for (uint32_t k = 0; k < shape->rank; k++) {
        if (cell__axis_has(im, &shape->axes[k], role)) {
            return true;
        }
    }
    return false;
}

bool cell__shape_has_atom(const struct cell__import *im, const struct cell__shape *shape,
                          uint32_t atom)
{
    for (uint32_t k = 0; k < shape->rank; k++) {
        for (uint32_t a = 0; a < shape->axes[k].n; a++) {
            if (cell__atom_root(im, shape->axes[k].atoms[a]) == cell__atom_root(im, atom)) {
                return true;
            }
        }
    }
    return false;
}

enum base_status cell__shape_width(struct cell__import *im, const struct cell__shape *shape,
                                   uint32_t *out)
{
    int64_t width = 1;
    for (uint32_t k = 0; k < shape->rank; k++) {
        for (uint32_t i = 0; i < shape->axes[k].n; i++) {
            uint32_t atom = shape->axes[k].atoms[i];
            if (atom_role(im, atom) != CELL__ROLE_FEATURE) {
                continue;
            }
            int64_t size = cell__atom_size(im, atom);
            if (size < 0) {
                return cell__refuse(im,
                                    "axis %u is neither the batch nor the time of a "
                                    "recurrent node, and of unknown size",
                                    k);
            }
            if (size == 0 || !base_i64_mul(width, size, &width) || width > CELL_WIDTH_MAX) {
                return cell__refuse(im, "a row of 0, or of more than %u elements", CELL_WIDTH_MAX);
            }
        }
    }
    *out = (uint32_t)width;
    return BASE_OK;
}

enum base_status cell__shape_of_tensor(struct cell__import *im, const struct cell__tensor *tensor,
                                       struct cell__shape *out)
{
    *out = (struct cell__shape){.rank = tensor->rank};
    for (uint32_t k = 0; k < tensor->rank; k++) {
        BASE_TRY(cell__axis_new(im, tensor->dims[k], &out->axes[k]));
    }
    return BASE_OK;
}

enum base_status cell__axis_index(struct cell__import *im, int64_t axis, uint32_t rank,
                                  uint32_t *out)
{
    if (axis < -(int64_t)rank || axis >= (int64_t)rank) {
        return cell__invalid(im, "axis %lld of a tensor of rank %u", (long long)axis, rank);
    }
    *out = (uint32_t)(axis < 0 ? axis + rank : axis);
    return BASE_OK;
}
