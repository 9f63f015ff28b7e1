/* See attention.h. */
#include "cells/import/attention.h"

#include "cells/import/ops.h"

#include <math.h>

enum { IN_Q, IN_K, IN_V, IN_MASK, IN_PAST };

#define HEADS_MAX 32

struct attention {
    int64_t heads, kv_heads; /* of queries; of keys and values, each of which some queries share */
    int64_t width;           /* of a head of a query */
    bool by_rows;            /* operands and answer are [batch, steps, heads * width] */
    const char *q, *k, *v;   /* [batch, heads, steps, width] */
};

/* The size of an axis of an operand, which has `rank` axes. */
static enum base_status read_size(struct cell__writer *w, size_t i, uint32_t rank, uint32_t axis,
                                  int64_t *out)
{
    const struct cell__value *value = NULL;
    BASE_TRY(cell__writer_value(w, w->proto->input[i], &value));
    if (value->kind != CELL__ROWS || value->dtype != CELL__F32 || value->shape.rank != rank) {
        return cell__unwritten(w, "of queries, keys and values that are no floats of as many axes");
    }
    *out = cell__axis_size(w->im, &value->shape.axes[axis]);
    return *out > 0 ? BASE_OK : cell__unwritten(w, "of an unknown number of heads or features");
}

/* An operand of rows as heads; the number of these is `heads`. */
static enum base_status by_heads(struct cell__writer *w, size_t i, int64_t heads, const char **out)
{
    static const int64_t perm[] = {0, 2, 1, 3};
    int64_t width = 0;
    const char *shape = NULL;
    BASE_TRY(read_size(w, i, 3, 2, &width));
    if (heads < 1 || width % heads != 0) {
        return cell__unwritten(w, "whose features are no whole number for each head");
    }
    const int64_t dims[] = {0, 0, heads, width / heads};
    BASE_TRY(cell__write_ints(w, dims, 4, &shape));
    BASE_TRY(cell__write(w, "Reshape", (const char *[]){w->proto->input[i], shape, NULL}, out));
    return cell__write_transpose(w, *out, perm, 4, out);
}

static enum base_status read_rows(struct cell__writer *w, struct attention *a)
{
    BASE_TRY(cell__writer_int(w, "q_num_heads", &a->heads));
    BASE_TRY(cell__writer_int(w, "kv_num_heads", &a->kv_heads));
    BASE_TRY(by_heads(w, IN_Q, a->heads, &a->q));
    BASE_TRY(by_heads(w, IN_K, a->kv_heads, &a->k));
    BASE_TRY(by_heads(w, IN_V, a->kv_heads, &a->v));
    BASE_TRY(read_size(w, IN_Q, 3, 2, &a->width));
    a->width /= a->heads;
    return BASE_OK;
}

static enum base_status read_heads(struct cell__writer *w, struct attention *a)
{
    int64_t of_values = 0;
    BASE_TRY(read_size(w, IN_Q, 4, 1, &a->heads));
    BASE_TRY(read_size(w, IN_K, 4, 1, &a->kv_heads));
    BASE_TRY(read_size(w, IN_V, 4, 1, &of_values));
    BASE_TRY(read_size(w, IN_Q, 4, 3, &a->width));
    a->q = w->proto->input[IN_Q];
    a->k = w->proto->input[IN_K];
    a->v = w->proto->input[IN_V];
    return of_values == a->kv_heads
               ? BASE_OK
               : cell__unwritten(w, "of keys and values of unlike numbers of heads");
}

/* The head of keys and values that each head of queries reads. */
static enum base_status share(struct cell__writer *w, const struct attention *a, const char **x)
{
    int64_t of[HEADS_MAX];
    const char *indices = NULL;
    Onnx__NodeProto *gather = NULL;
    if (a->heads == a->kv_heads) {
        return BASE_OK;
    }
    if (a->heads % a->kv_heads != 0 || a->heads > HEADS_MAX) {
        return cell__unwritten(w, "of heads that share no whole number of keys");
    }
    for (int64_t head = 0; head < a->heads; head++) {
        of[head] = head / (a->heads / a->kv_heads);
    }
    BASE_TRY(cell__write_ints(w, of, (size_t)a->heads, &indices));
    BASE_TRY(
        cell__build_node(w->builder, "Gather", (const char *[]){*x, indices, NULL}, 1, &gather));
    *x = gather->output[0];
    return cell__build_set_int(w->builder, gather, "axis", 1);
}

static enum base_status read_attention(struct cell__writer *w, struct attention *a)
{
    int64_t precision = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    float cap = 0.0f;
    uint32_t rank = 0;
    for (size_t i = IN_PAST; i < w->proto->n_input; i++) {
        if (cell__writer_has(w, i)) {
            return cell__unwritten(w, "with keys and values of before, or their number");
        }
    }
    BASE_TRY(cell__writer_float(w, "softcap", &cap));
    BASE_TRY(cell__writer_int(w, "softmax_precision", &precision));
    if (cap != 0.0f ||
        (!cell__is_float(precision) && precision != ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE)) {
        return cell__unwritten(w, "with softcap, or a softmax of less than floats");
    }
    BASE_TRY(cell__writer_rank(w, w->proto->input[IN_Q], &rank));
    a->by_rows = rank == 3;
    BASE_TRY(a->by_rows ? read_rows(w, a) : read_heads(w, a));
    BASE_TRY(share(w, a, &a->k));
    return share(w, a, &a->v);
}

/* Queries and keys times the square root of the scale each, and their products. */
static enum base_status write_scores(struct cell__writer *w, const struct attention *a,
                                     const char **out)
{
    static const int64_t perm[] = {0, 1, 3, 2};
    float scale = 0.0f;
    const char *root = NULL;
    const char *q = NULL;
    const char *k = NULL;
    BASE_TRY(cell__writer_float(w, "scale", &scale));
    const double by = scale == 0.0f ? 1.0 / sqrt((double)a->width) : (double)scale;
    if (!(by > 0.0)) {
        return cell__unwritten(w, "with a scale that has no root");
    }
    BASE_TRY(cell__write_number(w, (float)sqrt(by), &root));
    BASE_TRY(cell__write(w, "Mul", (const char *[]){a->q, root, NULL}, &q));
    BASE_TRY(cell__write_transpose(w, a->k, perm, 4, &k));
    BASE_TRY(cell__write(w, "Mul", (const char *[]){k, root, NULL}, &k));
    return cell__write(w, "MatMul", (const char *[]){q, k, NULL}, out);
}

/* The last axis but one of an operand, as a list. */
static enum base_status write_steps(struct cell__writer *w, const char *x, const char **out)
{
    const char *bounds[2];
    BASE_TRY(cell__write_ints(w, (const int64_t[]){2}, 1, &bounds[0]));
    BASE_TRY(cell__write_ints(w, (const int64_t[]){3}, 1, &bounds[1]));
    BASE_TRY(cell__write(w, "Shape", (const char *[]){x, NULL}, &x));
    return cell__write(w, "Slice", (const char *[]){x, bounds[0], bounds[1], NULL}, out);
}

/* Minus infinity where a key comes behind its query. */
static enum base_status write_causal(struct cell__writer *w, const struct attention *a,
                                     const char **scores)
{
    const char *steps[3] = {NULL};
    const char *numbers[3];
    const char *mask = NULL;
    Onnx__NodeProto *before = NULL;
    BASE_TRY(cell__write_number(w, 0.0f, &numbers[0]));
    BASE_TRY(cell__write_number(w, 1.0f, &numbers[1]));
    BASE_TRY(cell__write_number(w, -INFINITY, &numbers[2]));
    BASE_TRY(write_steps(w, a->q, &steps[0]));
    BASE_TRY(write_steps(w, a->k, &steps[1]));
    BASE_TRY(cell__write_concat(w, steps, 0, &mask));
    BASE_TRY(cell__write(w, "Expand", (const char *[]){numbers[1], mask, NULL}, &mask));
    BASE_TRY(cell__build_node(w->builder, "Trilu", (const char *[]){mask, NULL}, 1, &before));
    BASE_TRY(cell__build_set_int(w->builder, before, "upper", 0));
    BASE_TRY(cell__write(w, "Equal", (const char *[]){before->output[0], numbers[0], NULL}, &mask));
    BASE_TRY(cell__write(w, "Where", (const char *[]){mask, numbers[2], numbers[0], NULL}, &mask));
    return cell__write(w, "Add", (const char *[]){*scores, mask, NULL}, scores);
}

/* What is added to the scores; of truths minus infinity where one is false. */
static enum base_status write_mask(struct cell__writer *w, const char **scores)
{
    uint32_t v = 0;
    const char *numbers[2];
    const char *mask = w->proto->input[IN_MASK];
    if (cell__value_named(w->im, mask, &v) != BASE_OK) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    if (w->im->values[v].dtype == CELL__BOOL) {
        BASE_TRY(cell__write_number(w, 0.0f, &numbers[0]));
        BASE_TRY(cell__write_number(w, -INFINITY, &numbers[1]));
        BASE_TRY(
            cell__write(w, "Where", (const char *[]){mask, numbers[0], numbers[1], NULL}, &mask));
    }
    return cell__write(w, "Add", (const char *[]){*scores, mask, NULL}, scores);
}

enum base_status cell__write_attention(struct cell__writer *w)
{
    static const int64_t perm[] = {0, 2, 1, 3};
    static const int64_t rows[] = {0, 0, -1};
    struct attention a = {.heads = 0};
    int64_t is_causal = 0;
    const char *x = NULL;
    const char *shape = NULL;
    Onnx__NodeProto *weights = NULL;
    BASE_TRY(cell__writer_int(w, "is_causal", &is_causal));
    BASE_TRY(read_attention(w, &a));
    BASE_TRY(write_scores(w, &a, &x));
    BASE_TRY(is_causal != 0 ? write_causal(w, &a, &x) : BASE_OK);
    BASE_TRY(cell__writer_has(w, IN_MASK) ? write_mask(w, &x) : BASE_OK);
    BASE_TRY(cell__build_node(w->builder, "Softmax", (const char *[]){x, NULL}, 1, &weights));
    BASE_TRY(cell__build_set_int(w->builder, weights, "axis", -1));
    BASE_TRY(cell__write(w, "MatMul", (const char *[]){weights->output[0], a.v, NULL}, &w->out));
    if (!a.by_rows) {
        return BASE_OK;
    }
    BASE_TRY(cell__write_transpose(w, w->out, perm, 4, &w->out));
    BASE_TRY(cell__write_ints(w, rows, 3, &shape));
    return cell__write(w, "Reshape", (const char *[]){w->out, shape, NULL}, &w->out);
}
