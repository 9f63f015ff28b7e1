/* Counts: numbers that the step of a Loop and the sizes of axes make, also as floats, and what a
 * Loop asks of them. TensorFlow's `while` compares a counter of its own with the number of steps,
 * as tf2onnx (github.com/onnx/tensorflow-onnx) writes it; a Loop ends at its number of steps
 * anyway, so all that matters is whether such a condition could end it before. The step is between
 * 0 and one less than the number of steps, and there is at least one. */
#include "cells/import/fold.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include "base/checked.h"

#include <math.h>
#include <string.h>

/* steps (0, 1 or -1) times the number of the step, and sym. */
struct count {
    int32_t steps;
    struct cell__sym sym;
};

/* Whether it is true or false at all steps, or true at all but the last one. */
enum verdict { NEVER, ALWAYS, UNTIL_LAST, UNKNOWN };

static bool is_one(const struct cell__node *node, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (node->op != NULL && strcmp(node->op->name, *names) == 0) {
            return true;
        }
    }
    return false;
}

static bool compares(const struct cell__node *node)
{
    static const char *const names[] = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual",
                                        "And",  "Or",          "Not",     NULL};
    return is_one(node, names);
}

static bool moves(const struct cell__node *node)
{
    static const char *const names[] = {"Add",      "Sub", "Cast",  "Squeeze", "Unsqueeze",
                                        "Identity", "Neg", "Floor", "Ceil",    NULL};
    return is_one(node, names);
}

/* 1 or -1, where a constant is that number; else 0. */
static int32_t sign_of(const struct cell__value *value)
{
    float real = 0.0f;
    if (value->kind != CELL__CONST || value->tensor.count != 1 || value->tensor.syms != NULL) {
        return 0;
    }
    if (value->dtype == CELL__F32) {
        memcpy(&real, value->tensor.data, sizeof(real));
    } else if (value->dtype == CELL__I64 || value->dtype == CELL__I32) {
        const int64_t number = cell__tensor_sym(&value->tensor, 0).add;
        real = number == 1 || number == -1 ? (float)number : 0.0f;
    }
    return real >= 1.0f && real <= 1.0f ? 1 : real >= -1.0f && real <= -1.0f ? -1 : 0;
}

/* Of a count times, or divided by, 1 or -1, which operand that is; NONE: it is another. A loop over
 * range(n - 1, -1, -1) does that. */
static uint32_t sign_operand(struct cell__import *im, const struct cell__node *node)
{
    static const char *const names[] = {"Mul", "Div", NULL};
    for (uint32_t i = 2; i-- > 0 && is_one(node, names) && node->n_inputs == 2;) {
        if (sign_of(cell__input(im, node, i)) != 0 && (i == 1 || node->op->name[0] == 'M')) {
            return i;
        }
    }
    return CELL__NONE;
}

bool cell__is_count(struct cell__import *im, const struct cell__node *node)
{
    bool is_counted = false;
    bool is_const = node->n_inputs > 0;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct cell__value *value =
            cell__has_input(node, i) ? cell__input(im, node, i) : NULL;
        const bool is_number =
            value != NULL && value->kind == CELL__CONST && value->tensor.count == 1;
        if (value == NULL || (value->kind != CELL__COUNTER && !is_number)) {
            return false;
        }
        is_counted = is_counted || value->kind == CELL__COUNTER;
        is_const = is_const && is_number;
    }
    int64_t to = 0;
    const bool is_size_as_float = is_const && strcmp(node->op->name, "Cast") == 0 &&
                                  cell__input(im, node, 0)->tensor.syms != NULL &&
                                  cell__attr_int(im, node, "to", 0, &to) == BASE_OK &&
                                  cell__is_float(to);
    const bool is_signed = is_counted && sign_operand(im, node) != CELL__NONE;
    return is_size_as_float || (is_counted && moves(node)) || is_signed ||
           ((is_counted || is_const) && compares(node));
}

bool cell__is_step(const struct cell__value *value)
{
    return value->kind == CELL__COUNTER && value->steps == 1 &&
           cell__sym_is_number(&value->count) && value->count.add == 0;
}

bool cell__is_step_from_end(struct cell__import *im, const struct cell__value *value,
                            const struct cell__axis *time)
{
    const struct cell__sym one = cell__sym_number(1);
    const struct cell__sym size = cell__sym_of_axis(im, time);
    struct cell__sym last;
    if (value->kind != CELL__COUNTER || value->steps != -1) {
        return false;
    }
    return (cell__sym_is_number(&value->count) && value->count.add == -1) ||
           (cell__sym_compute(im, '-', &size, &one, &last) &&
            cell__sym_equal(im, &value->count, &last) == 1);
}

void cell__set_count(struct cell__import *im, const struct cell__node *node, uint32_t i,
                     enum cell__dtype dtype, int32_t steps, const struct cell__sym *sym)
{
    if (cell__has_output(node, i)) {
        struct cell__value *value = cell__output(im, node, i);
        value->kind = CELL__COUNTER;
        value->dtype = dtype;
        value->steps = steps;
        value->count = *sym;
        value->shape = (struct cell__shape){.rank = 0};
    }
}

/* ---- Numbers ------------------------------------------------------------------------------ */

static enum base_status count_of(struct cell__import *im, const struct cell__node *node, uint32_t i,
                                 struct count *out)
{
    const struct cell__value *value = cell__input(im, node, i);
    *out = (struct count){.steps = 0};
    if (value->dtype == CELL__BOOL) {
        return cell__refuse(im, "computes with whether this is the last step");
    }
    if (value->kind == CELL__COUNTER) {
        *out = (struct count){.steps = value->steps, .sym = value->count};
        return BASE_OK;
    }
    if (value->dtype != CELL__F32) {
        out->sym = cell__tensor_sym(&value->tensor, 0);
        return BASE_OK;
    }
    float number = 0;
    memcpy(&number, value->tensor.data, sizeof(number));
    // Beyond 2^24 a float is not every integer.
    if (!(fabsf(number) <= 16777216.0f) || truncf(number) < number || truncf(number) > number) {
        return cell__refuse(im, "computes with the size of an axis, or the number of the step, and "
                                "a number that is no small integer");
    }
    out->sym = cell__sym_number((int64_t)number);
    return BASE_OK;
}

static enum base_status combine(struct cell__import *im, char sign, const struct count *a,
                                const struct count *b, struct count *out)
{
    out->steps = sign == '+' ? a->steps + b->steps : a->steps - b->steps;
    return cell__sym_compute(im, sign, &a->sym, &b->sym, &out->sym)
               ? BASE_OK
               : cell__refuse(im, "cannot compute with the size of an axis or the number of the "
                                  "step this way");
}

static uint32_t rank_of(struct cell__import *im, const struct cell__node *node, uint32_t i)
{
    const struct cell__value *value = cell__input(im, node, i);
    return value->kind == CELL__CONST ? value->tensor.rank : value->shape.rank;
}

/* Of how many axes a number is, each of one element. */
static enum base_status count_axes(struct cell__import *im, const struct cell__node *node,
                                   uint32_t *rank)
{
    const bool is_more = strcmp(node->op->name, "Unsqueeze") == 0;
    const bool is_less = strcmp(node->op->name, "Squeeze") == 0;
    struct cell__list axes;
    *rank = rank_of(im, node, 0);
    if (!is_more && !is_less) {
        const uint32_t other = cell__has_input(node, 1) ? rank_of(im, node, 1) : 0;
        *rank = other > *rank ? other : *rank;
        return BASE_OK;
    }
    BASE_TRY(cell__ints_or_attr(im, node, 1, 13, "axes", &axes));
    if (is_more ? axes.n > CELL_RANK_MAX - *rank : axes.n > *rank) {
        return cell__refuse(im, "too many, or too few, axes of one number");
    }
    *rank = is_more ? *rank + axes.n : axes.is_given ? *rank - axes.n : 0;
    return BASE_OK;
}

/* Add, Sub, Neg, and what leaves a number as it is: all numbers are integers. */
static enum base_status infer_number(struct cell__import *im, struct cell__node *node)
{
    struct count a;
    struct count b;
    enum cell__dtype dtype = cell__input(im, node, 0)->dtype;
    const struct count none = {.sym = cell__sym_number(0)};
    const uint32_t sign = sign_operand(im, node);
    const bool is_sum = strcmp(node->op->name, "Add") == 0;
    const bool is_turned = sign != CELL__NONE ? sign_of(cell__input(im, node, sign)) < 0
                                              : strcmp(node->op->name, "Neg") == 0;
    dtype = sign == 0 ? cell__input(im, node, 1)->dtype : dtype;
    BASE_TRY(count_of(im, node, sign == 0 ? 1 : 0, &a));
    if (is_turned) {
        b = a;
        BASE_TRY(combine(im, '-', &none, &b, &a));
    }
    if (is_sum || strcmp(node->op->name, "Sub") == 0) {
        BASE_TRY(count_of(im, node, 1, &b));
        const struct count left = a;
        BASE_TRY(combine(im, is_sum ? '+' : '-', &left, &b, &a));
    } else if (strcmp(node->op->name, "Cast") == 0) {
        int64_t to = 0;
        BASE_TRY(cell__attr_int(im, node, "to", 0, &to));
        BASE_TRY(cell__dtype_of(im, to, "the result", &dtype));
    }
    uint32_t rank = 0;
    BASE_TRY(count_axes(im, node, &rank));
    if (a.steps < -1 || a.steps > 1 || dtype == CELL__BOOL) {
        return cell__refuse(im, "computes with the number of the step");
    }
    cell__set_count(im, node, 0, dtype, a.steps, &a.sym);
    cell__output(im, node, 0)->shape = (struct cell__shape){.rank = rank};
    return BASE_OK;
}

/* ---- Conditions --------------------------------------------------------------------------- */

/* Whether a number of no step is above 0, whatever the request; a product of sizes is at least 1.
 */
static enum verdict is_positive(const struct cell__sym *sym)
{
    int64_t least = 0;
    if (cell__sym_is_number(sym)) {
        return sym->add > 0 ? ALWAYS : NEVER;
    }
    if (!base_i64_add(sym->add, sym->factor, &least)) {
        return UNKNOWN;
    }
    return sym->factor > 0 && least > 0 ? ALWAYS : sym->factor < 0 && least <= 0 ? NEVER : UNKNOWN;
}

/* Whether count is above 0, at every step of the Loop in whose body it stands. */
static enum verdict judge(const struct cell__import *im, const struct count *count)
{
    const struct cell__sym *sym = &count->sym;
    if (count->steps == 0) {
        return is_positive(sym);
    }
    if (count->steps == 1) {
        return is_positive(sym) == ALWAYS ? ALWAYS : UNKNOWN;
    }
    if (count->steps != -1 || im->scan == CELL__NONE) {
        return UNKNOWN;
    }
    // What is left of the number of steps.
    const struct cell__sym steps = cell__sym_of_axis(im, &im->recurrents[im->scan].time);
    struct cell__sym left;
    if (!cell__sym_compute(im, '-', sym, &steps, &left) || !cell__sym_is_number(&left)) {
        return UNKNOWN;
    }
    return left.add >= 0 ? ALWAYS : left.add == -1 ? UNTIL_LAST : UNKNOWN;
}

static enum verdict verdict_of(struct cell__import *im, const struct cell__node *node, uint32_t i)
{
    const struct cell__value *value = cell__input(im, node, i);
    if (value->dtype != CELL__BOOL) {
        return UNKNOWN;
    }
    if (value->kind == CELL__COUNTER) {
        return UNTIL_LAST;
    }
    return *(const uint8_t *)value->tensor.data != 0 ? ALWAYS : NEVER;
}

static enum verdict join(const struct cell__node *node, enum verdict a, enum verdict b)
{
    const bool is_and = strcmp(node->op->name, "And") == 0;
    const enum verdict strong = is_and ? NEVER : ALWAYS; // decides alone
    if (a == UNKNOWN || b == UNKNOWN) {
        return UNKNOWN;
    }
    if (a == strong || b == strong) {
        return strong;
    }
    return a == UNTIL_LAST ? a : b;
}

static enum base_status compare(struct cell__import *im, struct cell__node *node,
                                enum verdict *verdict)
{
    const bool is_turned = strncmp(node->op->name, "Greater", strlen("Greater")) == 0;
    const bool is_or_equal = strstr(node->op->name, "OrEqual") != NULL;
    struct count less;
    struct count more;
    struct count gap;
    BASE_TRY(count_of(im, node, is_turned ? 1 : 0, &less));
    BASE_TRY(count_of(im, node, is_turned ? 0 : 1, &more));
    BASE_TRY(combine(im, '-', &more, &less, &gap));
    if (is_or_equal && !base_i64_add(gap.sym.add, 1, &gap.sym.add)) {
        return cell__refuse(im, "an int64 overflows");
    }
    *verdict = judge(im, &gap);
    return BASE_OK;
}

static enum base_status infer_condition(struct cell__import *im, struct cell__node *node)
{
    static const uint8_t answers[] = {[NEVER] = 0, [ALWAYS] = 1};
    const struct cell__sym none = cell__sym_number(0);
    enum verdict verdict = UNKNOWN;
    if (strcmp(node->op->name, "Not") == 0) {
        verdict = verdict_of(im, node, 0);
        verdict = verdict == ALWAYS ? NEVER : verdict == NEVER ? ALWAYS : UNKNOWN;
    } else if (strcmp(node->op->name, "And") == 0 || strcmp(node->op->name, "Or") == 0) {
        verdict = join(node, verdict_of(im, node, 0), verdict_of(im, node, 1));
    } else {
        BASE_TRY(compare(im, node, &verdict));
    }
    if (verdict == UNKNOWN) {
        return cell__refuse(im, "the answer depends on the number of the step, or on the size of "
                                "batch or time");
    }
    if (verdict == UNTIL_LAST) {
        cell__set_count(im, node, 0, CELL__BOOL, 1, &none);
        return BASE_OK;
    }
    struct cell__tensor answer = {.dtype = CELL__BOOL, .count = 1, .data = &answers[verdict]};
    for (uint32_t i = 0; i < node->n_inputs; i++) { // of as many axes as broadcasting makes
        const struct cell__value *value = cell__input(im, node, i);
        const bool is_wider = value->kind == CELL__CONST && value->tensor.rank > answer.rank;
        answer.rank = is_wider ? value->tensor.rank : answer.rank;
    }
    for (uint32_t k = 0; k < answer.rank; k++) {
        answer.dims[k] = 1;
    }
    cell__set_const(im, node, 0, &answer);
    return BASE_OK;
}

/* ---- As floats beside others -------------------------------------------------------------- */

bool cell__takes_counts(struct cell__import *im, const struct cell__node *node)
{
    bool is_counted = false;
    if (node->op == NULL || node->op->infer != cell__infer_binary) {
        return false;
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct cell__value *value =
            cell__has_input(node, i) ? cell__input(im, node, i) : NULL;
        if (value != NULL && value->kind == CELL__COUNTER) {
            if (value->dtype != CELL__F32 || value->steps != 0) {
                return false;
            }
            is_counted = true;
        }
    }
    return is_counted;
}

/* A standard deviation over the steps is divided by one less than how many there are. */
enum base_status cell__row_of_count(struct cell__import *im, const struct cell__value *value,
                                    uint32_t *out)
{
    const struct cell__sym *sym = &value->count;
    uint32_t other = CELL__NONE;
    if (cell__sym_is_number(sym)) {
        return cell__row_number(im, (float)sym->add, out);
    }
    const uint32_t times = cell__axis_times(im, &sym->axis);
    if (sym->axis.n != 1 || times == 0 || cell__is_pair(times)) {
        return cell__refuse(im, "computes with the size of the batch, or of several axes together");
    }
    if (im->sequences[cell__only_sequence(times)].uses_lengths) {
        return cell__refuse(im, "computes with the number of steps beside sequence_lens");
    }
    BASE_TRY(cell__row_steps(im, cell__only_sequence(times), out));
    BASE_TRY(cell__row_number(im, (float)sym->factor, &other));
    BASE_TRY(sym->factor == 1 ? BASE_OK : cell__row_pair(im, CELL_OP_MUL, *out, other, out));
    BASE_TRY(cell__row_number(im, (float)sym->add, &other));
    return sym->add == 0 ? BASE_OK : cell__row_pair(im, CELL_OP_ADD, *out, other, out);
}

enum base_status cell__infer_count(struct cell__import *im, struct cell__node *node)
{
    return compares(node) ? infer_condition(im, node) : infer_number(im, node);
}
