/* See write_out.h. Sums of several, functions of one element and norms, by operators that there
 * are; einsum.c has a file of its own. */
#include "cells/import/write_out.h"

#include "cells/import/einsum.h"
#include "cells/import/ops.h"
#include "cells/import/scatter.h"
#include "cells/import/writer.h"

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

static const struct {
    const char *name;
    enum base_status (*write)(struct cell__writer *w);
    size_t inputs_min;
} rules[] = {
    {"Ceil", write_ceil, 1},
    {"Celu", write_celu, 1},
    {"Einsum", cell__write_einsum, 1},
    {"LpNormalization", write_lp_normal, 1},
    {"Mean", write_mean, 1},
    {"RMSNormalization", write_rms_norm, 2},
    {"ReduceLogSum", write_log_sum, 1},
    {"ReduceLogSumExp", write_log_sum_exp, 1},
    {"ScatterND", cell__write_scatter, 3},
    {"Sum", write_sum, 1},
    {"Swish", write_swish, 1},
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
    return cell__writer_begin(&w, im, proto) == BASE_OK && rules[i].write(&w) == BASE_OK
               ? cell__writer_end(&w)
               : NULL;
}

/* Behind the graph the node hands on what that gives; without one it is refused. */
enum base_status cell__infer_written(struct cell__import *im, struct cell__node *node)
{
    if (im->unwritten != NULL) {
        return cell__refuse(im, "%s", im->unwritten);
    }
    return cell__infer_branch(im, node);
}
