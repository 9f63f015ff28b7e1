/* Integers that may depend on the shape of a request: what Shape gives and exporters compute with
 * before they hand it to Expand, Reshape, ConstantOfShape or Slice. Enough arithmetic to follow
 * that, and no more: products of dimensions, a factor, a number added. */
#include "cells/import/graph.h"

#include "base/assert.h"
#include "base/checked.h"

#include <math.h>

#define WHOLE_MAX 16777216.0f /* whole numbers below are floats */

struct cell__sym cell__sym_number(int64_t value)
{
    return (struct cell__sym){.add = value};
}

bool cell__sym_is_number(const struct cell__sym *sym)
{
    return sym->factor == 0;
}

bool cell__sym_is(const struct cell__sym *sym, int64_t number)
{
    return cell__sym_is_number(sym) && sym->add == number;
}

bool cell__value_size(const struct cell__value *value, struct cell__sym *out)
{
    if (value == NULL || value->kind != CELL__CONST || value->tensor.count != 1 ||
        (value->dtype != CELL__I64 && value->dtype != CELL__I32)) {
        return false;
    }
    *out = cell__tensor_sym(&value->tensor, 0);
    return true;
}

bool cell__value_integer(const struct cell__value *value, int64_t most, int64_t *out)
{
    struct cell__sym sym;
    if (!cell__value_size(value, &sym) || !cell__sym_is_number(&sym)) {
        return false;
    }
    *out = sym.add;
    return sym.add >= -most && sym.add <= most;
}

bool cell__value_whole(const struct cell__value *value, int64_t *out)
{
    if (value == NULL || value->kind != CELL__CONST || value->dtype != CELL__F32 ||
        value->tensor.count != 1) {
        return false;
    }
    const float number = *(const float *)value->tensor.data;
    const bool is_small = fabsf(number) < WHOLE_MAX;
    *out = is_small ? (int64_t)number : 0;
    return is_small && (float)*out <= number && (float)*out >= number;
}

struct cell__sym cell__sym_of_axis(const struct cell__import *im, const struct cell__axis *axis)
{
    int64_t size = cell__axis_size(im, axis);
    if (size >= 0) {
        return cell__sym_number(size);
    }
    return (struct cell__sym){.factor = 1, .axis = *axis};
}

struct cell__sym cell__tensor_sym(const struct cell__tensor *tensor, size_t i)
{
    base_assert(i < tensor->count);
    if (tensor->syms != NULL) {
        return tensor->syms[i];
    }
    switch (tensor->dtype) {
    case CELL__I64:
        return cell__sym_number(((const int64_t *)tensor->data)[i]);
    case CELL__I32:
        return cell__sym_number(((const int32_t *)tensor->data)[i]);
    case CELL__BOOL:
    case CELL__U8:
        return cell__sym_number(((const uint8_t *)tensor->data)[i]);
    case CELL__I8:
        return cell__sym_number(((const int8_t *)tensor->data)[i]);
    case CELL__F32:
    case CELL__F64_GIVEN:
    case CELL__F64_MADE:
        break;
    }
    base_assert(false);
    return cell__sym_number(0);
}

/* The same number, what the file states of the axis as a factor: 65 times [time] is [time, 65]. */
static bool open_axis(const struct cell__import *im, struct cell__sym *sym)
{
    int64_t stated = 1;
    sym->axis = cell__axis_open(im, &sym->axis, &stated);
    return stated >= 1 && base_i64_mul(sym->factor, stated, &sym->factor);
}

static bool add(const struct cell__import *im, const struct cell__sym *a, const struct cell__sym *b,
                int64_t sign, struct cell__sym *out)
{
    struct cell__sym one = *a;
    struct cell__sym two = *b;
    if (one.factor != 0 && two.factor != 0 &&
        !cell__axis_has_same_atoms(im, &one.axis, &two.axis) &&
        (!open_axis(im, &one) || !open_axis(im, &two) ||
         !cell__axis_has_same_atoms(im, &one.axis, &two.axis))) {
        return false;
    }
    *out = (struct cell__sym){.axis = one.factor != 0 ? one.axis : two.axis};
    return base_i64_mul(two.add, sign, &two.add) && base_i64_mul(two.factor, sign, &two.factor) &&
           base_i64_add(one.add, two.add, &out->add) &&
           base_i64_add(one.factor, two.factor, &out->factor);
}

static bool multiply(const struct cell__sym *a, const struct cell__sym *b, struct cell__sym *out)
{
    *out = (struct cell__sym){.axis = a->axis};
    if (cell__sym_is_number(a) || cell__sym_is_number(b)) {
        int64_t number = cell__sym_is_number(a) ? a->add : b->add;
        const struct cell__sym *other = cell__sym_is_number(a) ? b : a;
        out->axis = other->axis;
        return base_i64_mul(number, other->add, &out->add) &&
               base_i64_mul(number, other->factor, &out->factor);
    }
    if (a->add != 0 || b->add != 0 || a->axis.n + b->axis.n > CELL__AXIS_ATOMS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < b->axis.n; i++) {
        out->axis.atoms[out->axis.n++] = b->axis.atoms[i];
    }
    return base_i64_mul(a->factor, b->factor, &out->factor);
}

/* A product of dimensions by one of some of them, as exporters compute what Reshape's -1 stands
 * for.
 */
static bool divide_product(const struct cell__import *im, const struct cell__sym *a,
                           const struct cell__sym *b, struct cell__sym *out)
{
    *out = (struct cell__sym){.axis = a->axis};
    if (a->add != 0 || b->add != 0 || b->factor == 0 || b->factor == -1 ||
        a->factor % b->factor != 0) {
        return false;
    }
    out->factor = a->factor / b->factor;
    for (uint32_t i = 0; i < b->axis.n; i++) {
        const uint32_t wanted = cell__atom_root(im, b->axis.atoms[i]);
        uint32_t k = 0;
        while (k < out->axis.n && cell__atom_root(im, out->axis.atoms[k]) != wanted) {
            k++;
        }
        if (k == out->axis.n) {
            return false;
        }
        for (out->axis.n--; k < out->axis.n; k++) { // their order stays
            out->axis.atoms[k] = out->axis.atoms[k + 1];
        }
    }
    if (out->axis.n == 0) {
        *out = cell__sym_number(out->factor);
    }
    return true;
}

/* ONNX divides integers towards zero; of symbols only what is certain. */
static bool divide(const struct cell__import *im, const struct cell__sym *a,
                   const struct cell__sym *b, struct cell__sym *out)
{
    if (!cell__sym_is_number(a) && !cell__sym_is_number(b)) {
        return divide_product(im, a, b, out);
    }
    if (!cell__sym_is_number(b) || b->add == 0 || (b->add == -1 && a->add == INT64_MIN)) {
        return false;
    }
    if (cell__sym_is_number(a)) {
        *out = cell__sym_number(a->add / b->add);
        return true;
    }
    *out = *a;
    if (b->add < 1 || a->add % b->add != 0 || a->factor % b->add != 0) {
        return false;
    }
    out->add /= b->add;
    out->factor /= b->add;
    return true;
}

/* ONNX Mod has the sign of the divisor. */
static bool modulo(const struct cell__sym *a, const struct cell__sym *b, struct cell__sym *out)
{
    if (!cell__sym_is_number(b) || b->add == 0 || b->add == -1 || a->factor % b->add != 0) {
        return false;
    }
    const int64_t left = a->add % b->add;
    *out = cell__sym_number(left != 0 && (left < 0) != (b->add < 0) ? left + b->add : left);
    return true;
}

/* The larger of two, or the smaller one: where these are certain. */
static bool choose(const struct cell__import *im, const struct cell__sym *a,
                   const struct cell__sym *b, bool is_larger, struct cell__sym *out)
{
    struct cell__sym difference;
    int64_t nearest = 0;
    if (!add(im, a, b, -1, &difference)) {
        return false;
    }
    // The product of dimensions is at least 1: add + factor * product stays on one side of 0.
    if (!base_i64_add(difference.add, difference.factor, &nearest) ||
        (difference.factor > 0 && nearest < 0) || (difference.factor < 0 && nearest > 0)) {
        return false;
    }
    const bool is_first = difference.factor != 0 ? difference.factor > 0 : difference.add >= 0;
    *out = is_first == is_larger ? *a : *b;
    return true;
}

bool cell__sym_compute(const struct cell__import *im, char op, const struct cell__sym *a,
                       const struct cell__sym *b, struct cell__sym *out)
{
    switch (op) {
    case '+':
        return add(im, a, b, 1, out);
    case '-':
        return add(im, a, b, -1, out);
    case '*':
        return multiply(a, b, out);
    case '/':
        return divide(im, a, b, out);
    case '>':
    case '<':
        return choose(im, a, b, op == '>', out);
    case '%':
        return modulo(a, b, out);
    default:
        base_assert(false);
        return false;
    }
}

int cell__sym_equal(const struct cell__import *im, const struct cell__sym *a,
                    const struct cell__sym *b)
{
    struct cell__sym difference;
    if (!add(im, a, b, -1, &difference)) {
        return -1;
    }
    if (cell__sym_is_number(&difference)) {
        return difference.add == 0 ? 1 : 0;
    }
    // The product of dimensions is at least 1: add + factor * product stays on one side of 0.
    int64_t nearest = 0;
    if (!base_i64_add(difference.add, difference.factor, &nearest)) {
        return -1;
    }
    bool is_away = (difference.factor > 0 && nearest > 0) || (difference.factor < 0 && nearest < 0);
    return is_away ? 0 : -1;
}

/* The axis of as many steps more, or fewer, than another as padding or a slice has left; the
 * newest. False: there is none. */
static bool find_longer(const struct cell__import *im, const struct cell__sym *sym,
                        struct cell__axis *out)
{
    if (sym->factor != 1 || sym->axis.n != 1) {
        return false;
    }
    const uint32_t source = cell__atom_root(im, sym->axis.atoms[0]);
    for (uint32_t a = im->n_atoms; a-- > 0;) {
        const struct cell__atom *atom = &im->atoms[a];
        if (cell__atom_root(im, a) == a && atom->source != CELL__NONE && atom->parts == 1 &&
            atom->stride == 1 && !atom->is_kept && atom->add + 1 == sym->add &&
            cell__atom_root(im, atom->source) == source) {
            *out = (struct cell__axis){.n = 1, .atoms = {a}};
            return true;
        }
    }
    return false;
}

enum base_status cell__sym_axis(struct cell__import *im, const struct cell__sym *sym,
                                struct cell__axis *out)
{
    if (cell__sym_is_number(sym)) {
        if (sym->add < 0) {
            return cell__invalid(im, "a dimension of %lld", (long long)sym->add);
        }
        return cell__axis_new(im, sym->add, out);
    }
    if (sym->add != 0 && find_longer(im, sym, out)) {
        return BASE_OK;
    }
    if (sym->add != 0 || sym->factor != 1) {
        return cell__refuse(im, "a dimension computed from the batch or time axis");
    }
    *out = sym->axis;
    return BASE_OK;
}
