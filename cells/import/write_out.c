/* See write_out.h. Sums of several, functions of one element and norms, by operators that there
 * are; einsum.c has a file of its own. */
#include "cells/import/write_out.h"

#include "cells/import/attention.h"
#include "cells/import/einsum.h"
#include "cells/import/fused.h"
#include "cells/import/integers.h"
#include "cells/import/ops.h"
#include "cells/import/products.h"
#include "cells/import/scatter.h"
#include "cells/import/step_number.h"
#include "cells/import/stft.h"
#include "cells/import/writer.h"
#include "cells/math_constants.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

/* ---- Rules: each sets writer->out --------------------------------------------------------------
 */

/* The first operand and each of the others, one after the other. */
static enum base_status write_sum(struct cell__writer *w)
{
    w->out = w->proto->input[0];
    for (size_t i = 1; i < w->proto->n_input; i++) {
        BASE_TRY(
            cell__write(w, "Add", (const char *[]){w->out, w->proto->input[i], NULL}, &w->out));
    }
    return w->proto->n_input > 1
               ? BASE_OK
               : cell__write(w, "Identity", (const char *[]){w->out, NULL}, &w->out);
}

static enum base_status write_mean(struct cell__writer *w)
{
    const char *count = NULL;
    BASE_TRY(write_sum(w));
    BASE_TRY(cell__write_number(w, (float)w->proto->n_input, &count));
    return cell__write(w, "Div", (const char *[]){w->out, count, NULL}, &w->out);
}

static enum base_status write_ceil(struct cell__writer *w)
{
    const char *x = NULL;
    BASE_TRY(cell__write(w, "Neg", (const char *[]){w->proto->input[0], NULL}, &x));
    BASE_TRY(cell__write(w, "Floor", (const char *[]){x, NULL}, &x));
    return cell__write(w, "Neg", (const char *[]){x, NULL}, &w->out);
}

/* x * sigmoid(alpha * x) */
static enum base_status write_swish(struct cell__writer *w)
{
    const char *x = w->proto->input[0];
    const char *by = NULL;
    const char *gate = x;
    float alpha = 1.0f;
    BASE_TRY(cell__writer_float(w, "alpha", &alpha));
    if (alpha != 1.0f) {
        BASE_TRY(cell__write_number(w, alpha, &by));
        BASE_TRY(cell__write(w, "Mul", (const char *[]){x, by, NULL}, &gate));
    }
    BASE_TRY(cell__write(w, "Sigmoid", (const char *[]){gate, NULL}, &gate));
    return cell__write(w, "Mul", (const char *[]){x, gate, NULL}, &w->out);
}

/* alpha * elu(x / alpha): x itself above 0 */
static enum base_status write_celu(struct cell__writer *w)
{
    const char *x = w->proto->input[0];
    const char *by = NULL;
    float alpha = 1.0f;
    BASE_TRY(cell__writer_float(w, "alpha", &alpha));
    BASE_TRY(cell__write_number(w, alpha, &by));
    BASE_TRY(cell__write(w, "Div", (const char *[]){x, by, NULL}, &x));
    BASE_TRY(cell__write(w, "Elu", (const char *[]){x, NULL}, &x));
    return cell__write(w, "Mul", (const char *[]){x, by, NULL}, &w->out);
}

/* log(sum(x)) */
static enum base_status write_log_sum(struct cell__writer *w)
{
    struct cell__list axes;
    bool keeps = true;
    BASE_TRY(cell__writer_axes(w, &axes, &keeps));
    BASE_TRY(cell__write_reduce(w, "ReduceSum", w->proto->input[0], &axes, keeps, &w->out));
    return cell__write(w, "Log", (const char *[]){w->out, NULL}, &w->out);
}

/* log(sum(exp(x - m))) + m, m the largest, where it is finite. */
static enum base_status write_log_sum_exp(struct cell__writer *w)
{
    struct cell__list axes;
    bool keeps = true;
    const char *limits[2];
    const char *largest = NULL;
    const char *x = NULL;
    BASE_TRY(cell__writer_axes(w, &axes, &keeps));
    BASE_TRY(cell__write_number(w, -FLT_MAX, &limits[0]));
    BASE_TRY(cell__write_number(w, FLT_MAX, &limits[1]));
    BASE_TRY(cell__write_reduce(w, "ReduceMax", w->proto->input[0], &axes, true, &largest));
    BASE_TRY(cell__write(w, "Max", (const char *[]){largest, limits[0], NULL}, &largest));
    BASE_TRY(cell__write(w, "Min", (const char *[]){largest, limits[1], NULL}, &largest));
    BASE_TRY(cell__write(w, "Sub", (const char *[]){w->proto->input[0], largest, NULL}, &x));
    BASE_TRY(cell__write(w, "Exp", (const char *[]){x, NULL}, &x));
    BASE_TRY(cell__write_reduce(w, "ReduceSum", x, &axes, keeps, &x));
    BASE_TRY(cell__write(w, "Log", (const char *[]){x, NULL}, &x));
    if (!keeps) {
        BASE_TRY(cell__write_axes(w, "Squeeze", largest, axes.at, axes.n, &largest));
    }
    return cell__write(w, "Add", (const char *[]){x, largest, NULL}, &w->out);
}

/* x over its norm along an axis; 0 where that is 0. */
static enum base_status write_lp_normal(struct cell__writer *w)
{
    struct cell__list axes = {.n = 1, .at = {-1}};
    int64_t p = 2;
    const char *least = NULL;
    const char *norm = NULL;
    BASE_TRY(cell__writer_int(w, "axis", &axes.at[0]));
    BASE_TRY(cell__writer_int(w, "p", &p));
    if (p != 1 && p != 2) {
        return cell__unwritten(w, "p is neither 1 nor 2");
    }
    BASE_TRY(cell__write_reduce(w, p == 1 ? "ReduceL1" : "ReduceL2", w->proto->input[0], &axes,
                                true, &norm));
    BASE_TRY(cell__write_number(w, FLT_MIN, &least));
    BASE_TRY(cell__write(w, "Max", (const char *[]){norm, least, NULL}, &norm));
    return cell__write(w, "Div", (const char *[]){w->proto->input[0], norm, NULL}, &w->out);
}

/* x / sqrt(mean(x^2) + epsilon) * scale, the mean over the axes from one on. */
static enum base_status write_rms_norm(struct cell__writer *w)
{
    struct cell__list axes = {.n = 0};
    uint32_t rank = 0;
    int64_t axis = -1;
    float epsilon = 1e-5f;
    const char *x = w->proto->input[0];
    const char *mean = NULL;
    const char *added = NULL;
    BASE_TRY(cell__writer_int(w, "axis", &axis));
    BASE_TRY(cell__writer_float(w, "epsilon", &epsilon));
    BASE_TRY(cell__writer_rank(w, x, &rank));
    for (int64_t k = axis < 0 ? axis + rank : axis; k >= 0 && k < rank; k++) {
        axes.at[axes.n++] = k;
    }
    if (axes.n == 0) {
        return cell__unwritten(w, "an axis that there is not");
    }
    BASE_TRY(cell__write(w, "Mul", (const char *[]){x, x, NULL}, &mean));
    BASE_TRY(cell__write_reduce(w, "ReduceMean", mean, &axes, true, &mean));
    BASE_TRY(cell__write_number(w, epsilon, &added));
    BASE_TRY(cell__write(w, "Add", (const char *[]){mean, added, NULL}, &mean));
    BASE_TRY(cell__write(w, "Sqrt", (const char *[]){mean, NULL}, &mean));
    BASE_TRY(cell__write(w, "Div", (const char *[]){x, mean, NULL}, &x));
    return cell__write(w, "Mul", (const char *[]){x, w->proto->input[1], NULL}, &w->out);
}

/* ---- Signs, and what is no number
 * ----------------------------------------------------------------
 */

/* x made so large that what is not 0 is beyond 1, within -1 and 1. A NaN stays one. */
static enum base_status write_sign(struct cell__writer *w)
{
    const char *x = w->proto->input[0];
    const char *numbers[3];
    BASE_TRY(cell__write_number(w, 0x1p+127f, &numbers[0]));
    BASE_TRY(cell__write_number(w, -1.0f, &numbers[1]));
    BASE_TRY(cell__write_number(w, 1.0f, &numbers[2]));
    BASE_TRY(cell__write(w, "Mul", (const char *[]){x, numbers[0], NULL}, &x));
    BASE_TRY(cell__write(w, "Mul", (const char *[]){x, numbers[0], NULL}, &x));
    BASE_TRY(cell__write(w, "Max", (const char *[]){x, numbers[1], NULL}, &x));
    return cell__write(w, "Min", (const char *[]){x, numbers[2], NULL}, &w->out);
}

/* The operand: of doubles that have been floats, as TorchScript's isinf() has them, these. */
static enum base_status of_floats(struct cell__writer *w, const char **out)
{
    uint32_t v = 0;
    *out = w->proto->input[0];
    if (cell__value_named(w->im, *out, &v) != BASE_OK) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    const uint32_t as_double = w->im->values[v].as_double;
    *out = as_double == 0 ? *out : w->im->values[as_double - 1].name;
    return BASE_OK;
}

/* What is not as large as itself. */
static enum base_status write_is_nan(struct cell__writer *w)
{
    const char *x = NULL;
    const char *own = NULL;
    BASE_TRY(of_floats(w, &x));
    BASE_TRY(cell__write(w, "Equal", (const char *[]){x, x, NULL}, &own));
    return cell__write(w, "Not", (const char *[]){own, NULL}, &w->out);
}

static enum base_status write_is_inf(struct cell__writer *w)
{
    const char *x = NULL;
    const char *most = NULL;
    int64_t is_negative = 1;
    int64_t is_positive = 1;
    BASE_TRY(of_floats(w, &x));
    BASE_TRY(cell__writer_int(w, "detect_negative", &is_negative));
    BASE_TRY(cell__writer_int(w, "detect_positive", &is_positive));
    if (is_negative == 0 && is_positive == 0) {
        return cell__unwritten(w, "of neither sign");
    }
    BASE_TRY(cell__write_number(w, FLT_MAX, &most));
    if (is_negative != 0) {
        BASE_TRY(cell__write(w, is_positive != 0 ? "Abs" : "Neg", (const char *[]){x, NULL}, &x));
    }
    return cell__write(w, "Greater", (const char *[]){x, most, NULL}, &w->out);
}

static enum base_status write_xor(struct cell__writer *w)
{
    const char *const *in = (const char *const *)w->proto->input;
    const char *any = NULL;
    const char *all = NULL;
    BASE_TRY(cell__write(w, "Or", (const char *[]){in[0], in[1], NULL}, &any));
    BASE_TRY(cell__write(w, "And", (const char *[]){in[0], in[1], NULL}, &all));
    BASE_TRY(cell__write(w, "Not", (const char *[]){all, NULL}, &all));
    return cell__write(w, "And", (const char *[]){any, all, NULL}, &w->out);
}

/* ---- Of sines, arc tangents, exponentials and logarithms
 * -----------------------------------------
 */

static enum base_status write_tan(struct cell__writer *w)
{
    const char *sine = NULL;
    const char *cosine = NULL;
    BASE_TRY(cell__write(w, "Sin", (const char *[]){w->proto->input[0], NULL}, &sine));
    BASE_TRY(cell__write(w, "Cos", (const char *[]){w->proto->input[0], NULL}, &cosine));
    return cell__write(w, "Div", (const char *[]){sine, cosine, NULL}, &w->out);
}

/* 1 - x and 1 + x */
static enum base_status write_beside_one(struct cell__writer *w, const char **less,
                                         const char **more)
{
    const char *x = w->proto->input[0];
    const char *one = NULL;
    BASE_TRY(cell__write_number(w, 1.0f, &one));
    BASE_TRY(cell__write(w, "Sub", (const char *[]){one, x, NULL}, less));
    return cell__write(w, "Add", (const char *[]){one, x, NULL}, more);
}

/* atan(x / sqrt((1 - x) (1 + x))) */
static enum base_status write_asin(struct cell__writer *w)
{
    const char *x = w->proto->input[0];
    const char *less = NULL;
    const char *more = NULL;
    BASE_TRY(write_beside_one(w, &less, &more));
    BASE_TRY(cell__write(w, "Mul", (const char *[]){less, more, NULL}, &less));
    BASE_TRY(cell__write(w, "Sqrt", (const char *[]){less, NULL}, &less));
    BASE_TRY(cell__write(w, "Div", (const char *[]){x, less, NULL}, &less));
    return cell__write(w, "Atan", (const char *[]){less, NULL}, &w->out);
}

/* 2 atan(sqrt((1 - x) / (1 + x))) */
static enum base_status write_acos(struct cell__writer *w)
{
    const char *less = NULL;
    const char *more = NULL;
    BASE_TRY(write_beside_one(w, &less, &more));
    BASE_TRY(cell__write(w, "Div", (const char *[]){less, more, NULL}, &less));
    BASE_TRY(cell__write(w, "Sqrt", (const char *[]){less, NULL}, &less));
    BASE_TRY(cell__write(w, "Atan", (const char *[]){less, NULL}, &less));
    return cell__write(w, "Add", (const char *[]){less, less, NULL}, &w->out);
}

/* log((1 + x) / (1 - x)) / 2 */
static enum base_status write_atanh(struct cell__writer *w)
{
    const char *less = NULL;
    const char *more = NULL;
    const char *half = NULL;
    BASE_TRY(write_beside_one(w, &less, &more));
    BASE_TRY(cell__write_number(w, 0.5f, &half));
    BASE_TRY(cell__write(w, "Div", (const char *[]){more, less, NULL}, &more));
    BASE_TRY(cell__write(w, "Log", (const char *[]){more, NULL}, &more));
    return cell__write(w, "Mul", (const char *[]){more, half, NULL}, &w->out);
}

/* e + 1 / (4 e) with e = exp(|x| - ln 2), which is a float wherever the result is one. */
static enum base_status write_cosh(struct cell__writer *w)
{
    const char *x = NULL;
    const char *numbers[2];
    BASE_TRY(cell__write_number(w, CELL_LN2, &numbers[0]));
    BASE_TRY(cell__write_number(w, 0.25f, &numbers[1]));
    BASE_TRY(cell__write(w, "Abs", (const char *[]){w->proto->input[0], NULL}, &x));
    BASE_TRY(cell__write(w, "Sub", (const char *[]){x, numbers[0], NULL}, &x));
    BASE_TRY(cell__write(w, "Exp", (const char *[]){x, NULL}, &x));
    BASE_TRY(cell__write(w, "Div", (const char *[]){numbers[1], x, NULL}, &w->out));
    return cell__write(w, "Add", (const char *[]){x, w->out, NULL}, &w->out);
}

/* tanh(x) cosh(x), exact near 0. */
static enum base_status write_sinh(struct cell__writer *w)
{
    const char *tangent = NULL;
    BASE_TRY(write_cosh(w));
    BASE_TRY(cell__write(w, "Tanh", (const char *[]){w->proto->input[0], NULL}, &tangent));
    return cell__write(w, "Mul", (const char *[]){tangent, w->out, NULL}, &w->out);
}

/* log(x + sqrt(x^2 + add)), x not negative: from where x^2 is all of the sum log(x) + ln 2. */
static enum base_status write_log_of_hypotenuse(struct cell__writer *w, const char *x, float add,
                                                const char **out)
{
    const char *numbers[3];
    const char *near = NULL;
    const char *far = NULL;
    const char *is_far = NULL;
    BASE_TRY(cell__write_number(w, add, &numbers[0]));
    BASE_TRY(cell__write_number(w, CELL_LN2, &numbers[1]));
    BASE_TRY(cell__write_number(w, 0x1p+60f, &numbers[2]));
    BASE_TRY(cell__write(w, "Mul", (const char *[]){x, x, NULL}, &near));
    BASE_TRY(cell__write(w, "Add", (const char *[]){near, numbers[0], NULL}, &near));
    BASE_TRY(cell__write(w, "Sqrt", (const char *[]){near, NULL}, &near));
    BASE_TRY(cell__write(w, "Add", (const char *[]){x, near, NULL}, &near));
    BASE_TRY(cell__write(w, "Log", (const char *[]){near, NULL}, &near));
    BASE_TRY(cell__write(w, "Log", (const char *[]){x, NULL}, &far));
    BASE_TRY(cell__write(w, "Add", (const char *[]){far, numbers[1], NULL}, &far));
    BASE_TRY(cell__write(w, "Greater", (const char *[]){x, numbers[2], NULL}, &is_far));
    return cell__write(w, "Where", (const char *[]){is_far, far, near, NULL}, out);
}

static enum base_status write_acosh(struct cell__writer *w)
{
    return write_log_of_hypotenuse(w, w->proto->input[0], -1.0f, &w->out);
}

/* Of |x|, with the sign of x. */
static enum base_status write_asinh(struct cell__writer *w)
{
    const char *size = NULL;
    const char *value = NULL;
    BASE_TRY(cell__write(w, "Abs", (const char *[]){w->proto->input[0], NULL}, &size));
    BASE_TRY(write_log_of_hypotenuse(w, size, 1.0f, &value));
    BASE_TRY(write_sign(w));
    return cell__write(w, "Mul", (const char *[]){value, w->out, NULL}, &w->out);
}

/* Of an input, which is named: a constant of one float that is a whole number. */
static bool read_whole(struct cell__writer *w, size_t i, int64_t *out)
{
    uint32_t v = 0;
    return cell__value_named(w->im, w->proto->input[i], &v) == BASE_OK &&
           cell__value_whole(&w->im->values[v], out);
}

/* The integer of which a float is the Cast, by way of halves too, or NULL. */
static const char *cast_from(struct cell__writer *w, size_t i)
{
    uint32_t v = 0;
    if (cell__value_named(w->im, w->proto->input[i], &v) != BASE_OK) {
        return NULL;
    }
    const struct cell__value *value = &w->im->values[v];
    while (value->dtype == CELL__F32 && value->node != CELL__NONE) {
        const struct cell__node *cast = &w->im->nodes[value->node];
        if (cast->op == NULL || strcmp(cast->op->name, "Cast") != 0) {
            return NULL;
        }
        value = &w->im->values[cast->inputs[0]];
    }
    return value->dtype == CELL__F32 ? NULL : value->name;
}

/* Numbers 0, 1 and so on below a limit, as floats. */
static enum base_status write_numbers(struct cell__writer *w, int64_t first, const char *limit,
                                      const char **out)
{
    static const int64_t one = 1;
    const char *bounds[2];
    const char *numbers = NULL;
    Onnx__NodeProto *cast = NULL;
    BASE_TRY(cell__write_ints(w, &first, 1, &bounds[0]));
    BASE_TRY(cell__write_ints(w, &one, 1, &bounds[1]));
    BASE_TRY(
        cell__write(w, "Range", (const char *[]){bounds[0], limit, bounds[1], NULL}, &numbers));
    BASE_TRY(cell__build_node(w->builder, "Cast", (const char *[]){numbers, NULL}, 1, &cast));
    *out = cast->output[0];
    return cell__build_set_int(w->builder, cast, "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
}

/* How many numbers from 0 on, `by` apart, are below a limit that a size makes. */
static enum base_status write_count(struct cell__writer *w, const char *limit, int64_t by,
                                    const char **out)
{
    static const int64_t one = 1;
    const struct cell__value *value = NULL;
    const char *names[2];
    BASE_TRY(cell__writer_value(w, limit, &value));
    const bool is_count = value->kind == CELL__COUNTER && value->steps == 0;
    if (!is_count && (value->kind != CELL__CONST || value->tensor.count != 1)) {
        return cell__unwritten(w, "as it is");
    }
    const struct cell__sym sym = is_count ? value->count : cell__tensor_sym(&value->tensor, 0);
    const struct cell__sym divisor = cell__sym_number(by);
    const struct cell__sym first = cell__sym_number(1);
    const bool is_whole = sym.factor % by == 0 && sym.add % by == 0;
    struct cell__sym less;
    struct cell__sym divided;
    const bool is_divided = is_whole ? cell__sym_compute(w->im, '/', &sym, &divisor, &divided)
                                     : cell__sym_compute(w->im, '-', &sym, &first, &less) &&
                                           cell__axis_divide(w->im, &less, by, &divided);
    if (cell__sym_is_number(&sym) || !is_divided) {
        return cell__unwritten(w, "as it is");
    }
    BASE_TRY(cell__write_ints(w, &by, 1, &names[0]));
    BASE_TRY(cell__write_ints(w, &one, 1, &names[1]));
    *out = limit;
    BASE_TRY(is_whole ? BASE_OK
                      : cell__write(w, "Sub", (const char *[]){limit, names[1], NULL}, out));
    BASE_TRY(cell__write(w, "Div", (const char *[]){*out, names[0], NULL}, out));
    return is_whole ? BASE_OK : cell__write(w, "Add", (const char *[]){*out, names[1], NULL}, out);
}

/* One constant integer. */
static bool read_integer(struct cell__writer *w, size_t i, int64_t *out)
{
    uint32_t v = 0;
    if (cell__value_named(w->im, w->proto->input[i], &v) != BASE_OK) {
        return false;
    }
    const struct cell__value *value = &w->im->values[v];
    if (value->kind != CELL__CONST || value->dtype != CELL__I64 || value->tensor.count != 1) {
        return false;
    }
    const struct cell__sym sym = cell__tensor_sym(&value->tensor, 0);
    *out = sym.add;
    return cell__sym_is_number(&sym);
}

/* Numbers that are some apart, `by` > 1: so many times those that are not. */
static enum base_status write_apart(struct cell__writer *w, const char *limit, int64_t by,
                                    bool is_float)
{
    const char *count = NULL;
    const char *factor = NULL;
    const char *numbers = NULL;
    Onnx__NodeProto *cast = NULL;
    BASE_TRY(write_count(w, limit, by, &count));
    BASE_TRY(write_numbers(w, 0, count, &numbers));
    BASE_TRY(cell__write_number(w, (float)by, &factor));
    BASE_TRY(cell__write(w, "Mul", (const char *[]){numbers, factor, NULL}, &w->out));
    if (is_float) {
        return BASE_OK;
    }
    BASE_TRY(cell__build_node(w->builder, "Cast", (const char *[]){w->out, NULL}, 1, &cast));
    w->out = cast->output[0];
    return cell__build_set_int(w->builder, cast, "to", ONNX__TENSOR_PROTO__DATA_TYPE__INT64);
}

/* Floats up to a size that is one: the integers of these, `torch.arange(steps, dtype=torch.float)`;
 * and of both kinds those that are some apart. */
static enum base_status write_range(struct cell__writer *w)
{
    int64_t first = 0;
    int64_t by = 0;
    if (read_integer(w, 0, &first) && read_integer(w, 2, &by) && first == 0 && by > 1 &&
        by < CELL__STEPS_ADD_MAX) {
        return write_apart(w, w->proto->input[1], by, false);
    }
    const char *limit = cast_from(w, 1);
    if (limit == NULL || !read_whole(w, 0, &first) || !read_whole(w, 2, &by)) {
        return cell__unwritten(w, "as it is");
    }
    if (first == 0 && by > 1 && by < CELL__STEPS_ADD_MAX) {
        return write_apart(w, limit, by, true);
    }
    return by == 1 ? write_numbers(w, first, limit, &w->out) : cell__unwritten(w, "as it is");
}

/* Element k of an operand of integers, of which each axis has one. */
static enum base_status write_element(struct cell__writer *w, size_t operand, int64_t k,
                                      const char **out)
{
    const int64_t zero = 0;
    const int64_t end = k + 1;
    const char *bounds[3];
    BASE_TRY(cell__write_ints(w, &k, 1, &bounds[0]));
    BASE_TRY(cell__write_ints(w, &end, 1, &bounds[1]));
    BASE_TRY(cell__write_ints(w, &zero, 1, &bounds[2]));
    return cell__write(
        w, "Slice",
        (const char *[]){w->proto->input[operand], bounds[0], bounds[1], bounds[2], NULL}, out);
}

/* A constant cut to numbers of steps along several axes at once, as simplifiers join Slices: one by
 * one, as exporters write them (op_pairs.c). */
static enum base_status write_slices(struct cell__writer *w)
{
    const struct cell__value *values[4];
    const char *out = w->proto->input[0];
    if (!cell__writer_has(w, 3)) {
        return cell__unwritten(w, "as it is");
    }
    if (w->im->scan != CELL__NONE && cell__write_step_slice(w) == BASE_OK) {
        return BASE_OK;
    }
    for (size_t i = 0; i < 4; i++) {
        BASE_TRY(cell__writer_value(w, w->proto->input[i], &values[i]));
    }
    const bool is_cut = values[0]->kind == CELL__CONST && values[0]->tensor.syms == NULL &&
                        values[2]->kind == CELL__CONST && values[2]->tensor.syms != NULL;
    const size_t n = values[3]->kind == CELL__CONST ? values[3]->tensor.count : 0;
    if (!is_cut || n < 2 || n > CELL_RANK_MAX) {
        return cell__unwritten(w, "as it is");
    }
    for (size_t k = 0; k < n; k++) {
        const char *operands[6] = {out};
        for (size_t i = 1; i < 5 && cell__writer_has(w, i); i++) {
            BASE_TRY(write_element(w, i, (int64_t)k, &operands[i]));
        }
        BASE_TRY(cell__write(w, "Slice", operands, &out));
    }
    w->out = out;
    return BASE_OK;
}

/* Sizes of a picture's three axes and of the blocks whose channels are places; of one axis at most
 * the size is unknown, -1. */
struct blocks {
    int64_t channels, height, width, size;
};

static enum base_status read_blocks(struct cell__writer *w, struct blocks *out)
{
    const struct cell__value *in = NULL;
    BASE_TRY(cell__writer_value(w, w->proto->input[0], &in));
    *out = (struct blocks){.size = 0};
    BASE_TRY(cell__writer_int(w, "blocksize", &out->size));
    if (in->kind != CELL__ROWS || in->shape.rank != 4 || out->size < 1 || out->size > 1024) {
        return cell__unwritten(w, "of anything but four axes, or a blocksize beyond 1 .. 1024");
    }
    out->channels = cell__axis_size(w->im, &in->shape.axes[1]);
    out->height = cell__axis_size(w->im, &in->shape.axes[2]);
    out->width = cell__axis_size(w->im, &in->shape.axes[3]);
    return out->channels < 1 || (out->height < 0 && out->width < 0)
               ? cell__unwritten(w, "of more axes than one whose sizes are unknown")
               : BASE_OK;
}

static int64_t times(int64_t size, int64_t factor)
{
    return size < 0 ? size : size * factor;
}

/* A Reshape, a Transpose and a Reshape; the first axis stays. */
static enum base_status write_turned(struct cell__writer *w, const int64_t before[6],
                                     const int64_t perm[6], const int64_t after[4])
{
    const char *x = w->proto->input[0];
    const char *shape = NULL;
    BASE_TRY(cell__write_ints(w, before, 6, &shape));
    BASE_TRY(cell__write(w, "Reshape", (const char *[]){x, shape, NULL}, &x));
    BASE_TRY(cell__write_transpose(w, x, perm, 6, &x));
    BASE_TRY(cell__write_ints(w, after, 4, &shape));
    return cell__write(w, "Reshape", (const char *[]){x, shape, NULL}, &w->out);
}

static enum base_status write_to_space(struct cell__writer *w)
{
    static const int64_t blocks_first[] = {0, 3, 4, 1, 5, 2};
    static const int64_t channels_first[] = {0, 1, 4, 2, 5, 3};
    struct blocks in;
    BASE_TRY(read_blocks(w, &in));
    const int64_t b = in.size;
    const int64_t channels = in.channels / (b * b);
    const bool is_crd = cell__writer_is(w, "mode", "CRD");
    if (in.channels % (b * b) != 0) {
        return cell__unwritten(w, "of channels that are no blocks");
    }
    const int64_t before[] = {0,       is_crd ? channels : b, b, is_crd ? b : channels, in.height,
                              in.width};
    const int64_t after[] = {0, channels, times(in.height, b), times(in.width, b)};
    return write_turned(w, before, is_crd ? channels_first : blocks_first, after);
}

static enum base_status write_to_depth(struct cell__writer *w)
{
    static const int64_t perm[] = {0, 3, 5, 1, 2, 4};
    struct blocks in;
    BASE_TRY(read_blocks(w, &in));
    const int64_t b = in.size;
    if ((in.height >= 0 && in.height % b != 0) || (in.width >= 0 && in.width % b != 0)) {
        return cell__unwritten(w, "of a height or width that are no blocks");
    }
    const int64_t height = in.height < 0 ? -1 : in.height / b;
    const int64_t width = in.width < 0 ? -1 : in.width / b;
    const int64_t before[] = {0, in.channels, height, b, width, b};
    const int64_t after[] = {0, in.channels * b * b, height, width};
    return write_turned(w, before, perm, after);
}

/* Single tensors, alone or before what a Loop has collected: as elements of the axis that joins
 * them. */
static enum base_status write_joined(struct cell__writer *w)
{
    uint32_t v = 0;
    int64_t axis = 0;
    int64_t is_new = 0;
    const char *parts[CELL__OPERANDS_MAX + 1] = {NULL};
    Onnx__NodeProto *join = NULL;
    if (cell__value_named(w->im, w->proto->input[0], &v) != BASE_OK) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    const struct cell__value list = w->im->values[v];
    BASE_TRY(cell__writer_int(w, "axis", &axis));
    BASE_TRY(cell__writer_int(w, "new_axis", &is_new));
    const bool is_behind = list.behind_heads != 0;
    const bool is_alone = !is_behind && list.n_heads > 0 && list.list_axis == CELL__NONE;
    if (list.kind != CELL__LIST || (!is_behind && !is_alone) ||
        list.n_heads >= CELL__OPERANDS_MAX) {
        return cell__unwritten(w, "of what no Loop has collected");
    }
    for (uint32_t i = 0; i < list.n_heads; i++) {
        parts[i] = w->im->values[list.heads[i]].name;
        BASE_TRY(cell__write_axes(w, "Unsqueeze", parts[i], &axis, is_new != 0 ? 1 : 0, &parts[i]));
    }
    if (is_alone) {
        return cell__write_concat(w, parts, axis, &w->out);
    }
    const char *behind = w->im->values[list.behind_heads - 1].name;
    BASE_TRY(cell__build_node(w->builder, "ConcatFromSequence", (const char *[]){behind, NULL}, 1,
                              &join));
    BASE_TRY(cell__build_set_int(w->builder, join, "axis", axis));
    BASE_TRY(cell__build_set_int(w->builder, join, "new_axis", is_new));
    parts[list.n_heads] = join->output[0];
    return cell__write_concat(w, parts, axis, &w->out);
}

/* Whether a value of this shape is as it was beside another in one operator: no axis of it is
 * repeated for the other's. */
static bool is_as_large(struct cell__import *im, const struct cell__shape *shape,
                        const struct cell__shape *other)
{
    bool is = other->rank <= shape->rank;
    for (uint32_t k = 0; is && k < other->rank; k++) {
        const struct cell__axis *axis = &other->axes[k];
        is = cell__axis_size(im, axis) == 1 ||
             cell__axis_is_same(im, axis, &shape->axes[shape->rank - other->rank + k]);
    }
    return is;
}

/* A choice that does not depend on the request: jax.numpy.var() chooses so between the variance and
 * a NaN for no elements. */
static enum base_status write_choice(struct cell__writer *w)
{
    const struct cell__value *values[3];
    struct cell__shape shapes[3];
    for (uint32_t i = 0; i < 3; i++) {
        BASE_TRY(cell__writer_value(w, w->proto->input[i], &values[i]));
        if (cell__shape_of(w->im, values[i], &shapes[i]) != BASE_OK) {
            return cell__unwritten(w, "as it is");
        }
    }
    const struct cell__tensor *condition = &values[0]->tensor;
    if (values[0]->kind != CELL__CONST || values[0]->dtype != CELL__BOOL || condition->count == 0) {
        return cell__unwritten(w, "as it is");
    }
    const uint8_t *flags = condition->data;
    const uint32_t taken = flags[0] != 0 ? 1 : 2;
    for (size_t i = 1; i < condition->count; i++) {
        if ((flags[i] != 0) != (flags[0] != 0)) {
            return cell__unwritten(w, "as it is");
        }
    }
    if (values[taken]->kind != CELL__ROWS || values[1]->dtype != values[2]->dtype ||
        !is_as_large(w->im, &shapes[taken], &shapes[0]) ||
        !is_as_large(w->im, &shapes[taken], &shapes[3 - taken])) {
        return cell__unwritten(w, "as it is");
    }
    return cell__write(w, "Identity", (const char *[]){w->proto->input[taken], NULL}, &w->out);
}

static const struct {
    const char *name;
    enum base_status (*write)(struct cell__writer *w);
    size_t inputs_min;
} rules[] = {
    {"Acos", write_acos, 1},
    {"Acosh", write_acosh, 1},
    {"Asin", write_asin, 1},
    {"Asinh", write_asinh, 1},
    {"Atanh", write_atanh, 1},
    {"Attention", cell__write_attention, 3},
    {"Cast", cell__write_integer, 1},
    {"CastLike", cell__write_cast_like, 2},
    {"Ceil", write_ceil, 1},
    {"Celu", write_celu, 1},
    {"ConcatFromSequence", write_joined, 1},
    {"Cosh", write_cosh, 1},
    {"CumSum", cell__write_count_up, 2},
    {"DepthToSpace", write_to_space, 1},
    {"Einsum", cell__write_einsum, 1},
    {"Gemm", cell__write_gemm, 2},
    {"IsInf", write_is_inf, 1},
    {"IsNaN", write_is_nan, 1},
    {"LpNormalization", write_lp_normal, 1},
    {"MatMul", cell__write_product, 2},
    {"Mean", write_mean, 1},
    {"QLinearConv", cell__write_qlinear_conv, 8},
    {"QLinearMatMul", cell__write_qlinear_matmul, 8},
    {"RMSNormalization", write_rms_norm, 2},
    {"Range", write_range, 3},
    {"ReduceLogSum", write_log_sum, 1},
    {"ReduceLogSumExp", write_log_sum_exp, 1},
    {"STFT", cell__write_stft, 2},
    {"ScatterND", cell__write_scatter, 3},
    {"Sign", write_sign, 1},
    {"SimplifiedLayerNormalization", write_rms_norm, 2},
    {"Sinh", write_sinh, 1},
    {"Slice", write_slices, 3},
    {"SpaceToDepth", write_to_depth, 1},
    {"Sub", cell__write_count_from_zero, 2},
    {"Sum", write_sum, 1},
    {"Swish", write_swish, 1},
    {"Tan", write_tan, 1},
    {"Where", write_choice, 3},
    {"Xor", write_xor, 2},
};

/* ---- The graph ----------------------------------------------------------------------------------
 */

static bool has_operands(const Onnx__NodeProto *proto, size_t inputs_min)
{
    bool has = proto->n_input >= inputs_min && proto->n_input <= CELL__OPERANDS_MAX;
    for (size_t i = 0; has && i < proto->n_input; i++) {
        has = proto->input[i] != NULL && (proto->input[i][0] != '\0' || i >= inputs_min);
    }
    return has && proto->n_output == 1;
}

const Onnx__GraphProto *cell__write_out(struct cell__import *im, const Onnx__NodeProto *proto)
{
    struct cell__writer w;
    size_t i = 0;
    im->unwritten = "operands that there are not";
    while (i < sizeof(rules) / sizeof(rules[0]) &&
           (proto->op_type == NULL || strcmp(rules[i].name, proto->op_type) != 0)) {
        i++;
    }
    if (i == sizeof(rules) / sizeof(rules[0]) || !has_operands(proto, rules[i].inputs_min)) {
        return NULL;
    }
    if (cell__writer_begin(&w, im, proto) == BASE_OK && rules[i].write(&w) == BASE_OK) {
        return cell__writer_end(&w);
    }
    im->spare = w.builder; // of what it holds nobody knows
    return NULL;
}

/* Behind the graph the node hands on what that gives; without one it is refused. */
enum base_status cell__infer_written(struct cell__import *im, struct cell__node *node)
{
    if (im->unwritten != NULL) {
        return cell__refuse(im, "%s", im->unwritten);
    }
    return cell__infer_branch(im, node);
}
