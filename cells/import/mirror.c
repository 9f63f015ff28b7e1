/* What has a value for each pair of steps of one sequence, as attention of a sequence over itself
 * has: the second of both steps is one of a sequence of its own, the mirror, which follows from the
 * first and is as long. So such values are those of two sequences, of which op_attend.c knows. */
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/assert.h"

/* What a mirror's atom has: (n + add) / stride + 1 is n. */
enum { MIRROR_ADD = -1, MIRROR_STRIDE = 1 };

enum base_status cell__axis_mirror(struct cell__import *im, const struct cell__axis *axis,
                                   struct cell__axis *out)
{
    base_assert(axis->n == 1);
    const uint32_t source = cell__atom_root(im, axis->atoms[0]);
    out->n = 1;
    BASE_TRY(cell__atom_new(im, im->atoms[source].size, &out->atoms[0]));
    struct cell__atom *atom = &im->atoms[out->atoms[0]];
    atom->source = source;
    atom->add = MIRROR_ADD;
    atom->stride = MIRROR_STRIDE;
    return BASE_OK;
}

/* What the axis is a mirror of: an atom; NONE: it is none. */
static uint32_t mirrored(const struct cell__import *im, const struct cell__axis *axis)
{
    if (axis->n != 1) {
        return CELL__NONE;
    }
    const struct cell__atom *atom = &im->atoms[cell__atom_root(im, axis->atoms[0])];
    const bool is_one = atom->source != CELL__NONE && atom->parts == 1 && atom->add == MIRROR_ADD &&
                        atom->stride == MIRROR_STRIDE && !atom->is_behind && !atom->has_lengths;
    return is_one ? cell__atom_root(im, atom->source) : CELL__NONE;
}

void cell__axis_unmirror(const struct cell__import *im, struct cell__axis *axis)
{
    const uint32_t source = mirrored(im, axis);
    axis->atoms[0] = source == CELL__NONE ? axis->atoms[0] : source;
}

bool cell__axis_is_mirror(const struct cell__import *im, const struct cell__axis *axis,
                          const struct cell__axis *of)
{
    const uint32_t source = mirrored(im, axis);
    return source != CELL__NONE && of->n == 1 && source == cell__atom_root(im, of->atoms[0]);
}

enum base_status cell__axes_unite_mirror(struct cell__import *im, const struct cell__axis *a,
                                         const struct cell__axis *b, bool *is_one)
{
    const uint32_t of_a = mirrored(im, a);
    const uint32_t of_b = mirrored(im, b);
    const struct cell__axis *plain = of_a == CELL__NONE ? a : b;
    const uint32_t source = of_a == CELL__NONE ? of_b : of_a;
    *is_one = (of_a == CELL__NONE) != (of_b == CELL__NONE) && plain->n == 1 &&
              im->atoms[cell__atom_root(im, plain->atoms[0])].source == CELL__NONE;
    const struct cell__axis of = {.n = 1, .atoms = {source}};
    return *is_one ? cell__axis_unite(im, &of, plain, "operand dimensions") : BASE_OK;
}

bool cell__axis_has_lengths_of(const struct cell__import *im, const struct cell__axis *axis,
                               const struct cell__axis *of)
{
    const struct cell__atom *atom =
        axis->n == 1 ? &im->atoms[cell__atom_root(im, axis->atoms[0])] : NULL;
    return atom != NULL && atom->has_lengths && of->n == 1 &&
           cell__atom_root(im, atom->source) == cell__atom_root(im, of->atoms[0]);
}

static bool is_as_long(const struct cell__import *im, const struct cell__axis *axis,
                       const struct cell__axis *of)
{
    return cell__axis_is_mirror(im, axis, of) || cell__axis_has_lengths_of(im, axis, of);
}

bool cell__axes_mirror(const struct cell__import *im, const struct cell__axis *a,
                       const struct cell__axis *b, struct cell__axis *out)
{
    const bool is_first = is_as_long(im, a, b);
    *out = is_first ? *a : *b;
    return is_first || is_as_long(im, b, a);
}

/* Whether one of the axes before axis k is the same. */
static bool is_there(const struct cell__import *im, const struct cell__shape *shape, uint32_t k)
{
    bool is = false;
    for (uint32_t i = 0; i < k; i++) {
        is = is || cell__axis_is_same(im, &shape->axes[k], &shape->axes[i]);
    }
    return is;
}

enum base_status cell__shape_mirror(struct cell__import *im, struct cell__shape *shape)
{
    for (uint32_t k = 1; k < shape->rank; k++) {
        const struct cell__axis axis = shape->axes[k];
        if (axis.n == 1 && is_there(im, shape, k)) {
            BASE_TRY(cell__axis_mirror(im, &axis, &shape->axes[k]));
        }
    }
    return BASE_OK;
}

/* The axis of the one sequence in times. */
static struct cell__axis axis_of(const struct cell__import *im, uint32_t times)
{
    return (struct cell__axis){.n = 1, .atoms = {im->sequences[cell__only_sequence(times)].atom}};
}

bool cell__row_is_mirror(const struct cell__import *im, uint32_t row)
{
    const struct cell__row *at = &im->rows[row];
    if (at->kind != CELL__ROW_OP || at->op.kind != CELL_OP_COPY || at->times == 0) {
        return false;
    }
    const struct cell__row *of = &im->rows[at->op.operands[0]];
    if (of->kind != CELL__ROW_WINDOW || of->offset != 0 || of->part != 1 || of->stride != 1) {
        return false;
    }
    const struct cell__axis own = axis_of(im, at->times);
    const struct cell__axis source = axis_of(im, im->rows[of->index].times);
    return cell__axis_is_mirror(im, &own, &source);
}

/* The copy that there is of this row, or NONE. */
static uint32_t find_copy(const struct cell__import *im, uint32_t row, uint32_t sequence)
{
    for (uint32_t r = im->n_rows; r-- > 0;) {
        const struct cell__row *at = &im->rows[r];
        if (at->times == 1u << sequence && cell__row_is_mirror(im, r) &&
            im->rows[at->op.operands[0]].index == row) {
            return r;
        }
    }
    return CELL__NONE;
}

enum base_status cell__row_mirror(struct cell__import *im, const struct cell__axis *mirror,
                                  uint32_t *row)
{
    const uint32_t to = cell__axis_times(im, mirror);
    const uint32_t times = im->rows[*row].times;
    struct cell_op copy = {.kind = CELL_OP_COPY, .n_operands = 1};
    if (times == 0) {
        return BASE_OK; // the same at every step
    }
    if (to == 0 || cell__is_pair(times) || im->feeds_back || im->scan != CELL__NONE) {
        return cell__refuse(im, "a value for each pair of steps that are no steps of one sequence");
    }
    if (im->rows[*row].kind == CELL__ROW_NUMBER) {
        return cell__row_number_of_step(im, cell__only_sequence(to), row);
    }
    const struct cell__steps steps = {.sequence = cell__only_sequence(to), .count = 1, .stride = 1};
    const uint32_t made = find_copy(im, *row, steps.sequence); // keys that are the values, too
    if (made != CELL__NONE) {
        *row = made;
        return BASE_OK;
    }
    BASE_TRY(cell__row_window(im, *row, &steps, &copy.operands[0]));
    return cell__row_op(im, &copy, im->rows[*row].value, row);
}

bool cell__shape_has_twice(const struct cell__import *im, const struct cell__shape *shape)
{
    uint32_t seen = 0;
    for (uint32_t k = 0; k < shape->rank; k++) {
        for (uint32_t i = 0; i < shape->axes[k].n; i++) {
            const struct cell__axis one = {.n = 1, .atoms = {shape->axes[k].atoms[i]}};
            const uint32_t times = cell__axis_times(im, &one);
            if ((seen & times) != 0) {
                return true;
            }
            seen |= times;
        }
    }
    return false;
}
