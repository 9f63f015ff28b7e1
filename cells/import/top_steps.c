/* See top_steps.h. A Scan has the largest so far as its states, the first one the largest of all.
 * Each step goes through them: a state keeps the larger of the two, and hands on the smaller.
 *
 *   states -inf, .. : Max(s1, x), x = Min(s1, x), Max(s2, x), ..
 *
 * At which steps these stood nobody computes. */
#include "cells/import/top_steps.h"

#include "cells/import/writer.h"

#include <string.h>

#define K_MAX 8

/* Opset in which k became an input, and which has Scans without a batch of their own. */
#define OPSET_MIN 10

struct top {
    int64_t axis, k;
    bool is_largest;
};

/* The constant k, where it is one. */
static bool read_k(struct cell__import *im, const char *name, int64_t *k)
{
    uint32_t v = 0;
    if (cell__value_named(im, name, &v) != BASE_OK) {
        return false;
    }
    const struct cell__value *value = &im->values[v];
    if (value->kind != CELL__CONST || value->dtype != CELL__I64 || value->tensor.count != 1) {
        return false;
    }
    const struct cell__sym sym = cell__tensor_sym(&value->tensor, 0);
    *k = sym.add;
    return cell__sym_is_number(&sym) && sym.add >= 1 && sym.add <= K_MAX;
}

/* Its attributes, where they are what ONNX knows; others are refused where the node is read. */
static bool read_attributes(const Onnx__NodeProto *proto, struct top *out)
{
    out->axis = -1;
    out->is_largest = true;
    for (size_t i = 0; i < proto->n_attribute; i++) {
        const Onnx__AttributeProto *a = proto->attribute[i];
        const bool is_integer = a->name != NULL && a->ref_attr_name == NULL &&
                                a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
        if (is_integer && strcmp(a->name, "axis") == 0) {
            out->axis = a->i;
        } else if (is_integer && strcmp(a->name, "largest") == 0 && (a->i == 0 || a->i == 1)) {
            out->is_largest = a->i == 1;
        } else if (!is_integer || strcmp(a->name, "sorted") != 0 || a->i < 0 || a->i > 1) {
            return false;
        }
    }
    return true;
}

/* Whether it is known by now that an axis is the batch. */
static bool is_batch(const struct cell__import *im, const struct cell__axis *axis)
{
    bool is = false;
    for (uint32_t r = 0; r < im->n_recurrents; r++) {
        is = is || (im->recurrents[r].batch.n > 0 &&
                    cell__axis_is_same(im, axis, &im->recurrents[r].batch));
    }
    return is;
}

/* A TopK of floats along an axis whose size a request chooses, outside of any body. */
static bool read_top(struct cell__import *im, const Onnx__NodeProto *proto, struct top *out)
{
    uint32_t v = 0;
    if (im->opset < OPSET_MIN || im->scan != CELL__NONE || im->feeds_back || im->is_part ||
        proto->n_input != 2 || proto->n_output < 1 || proto->n_output > 2 ||
        proto->output[0][0] == '\0' || proto->input[0][0] == '\0' || !read_attributes(proto, out) ||
        !read_k(im, proto->input[1], &out->k) ||
        cell__value_named(im, proto->input[0], &v) != BASE_OK) {
        return false;
    }
    const struct cell__value *x = &im->values[v];
    if (x->kind != CELL__ROWS || x->dtype != CELL__F32 || x->shape.rank < 2) {
        return false;
    }
    out->axis += out->axis < 0 ? (int64_t)x->shape.rank : 0;
    return out->axis >= 0 && out->axis < (int64_t)x->shape.rank &&
           cell__axis_size(im, &x->shape.axes[out->axis]) < 0 &&
           !is_batch(im, &x->shape.axes[out->axis]);
}

/* x, of which requests have at least k steps: its steps up to max(n - k, 0) + k. */
static enum base_status write_whole(struct cell__writer *w, const struct top *top,
                                    const char *shape, const char **out)
{
    static const int64_t zero = 0;
    const char *k = NULL;
    const char *axis = NULL;
    const char *none = NULL;
    const char *n = NULL;
    BASE_TRY(cell__write_ints(w, &top->k, 1, &k));
    BASE_TRY(cell__write_ints(w, &top->axis, 1, &axis));
    BASE_TRY(cell__write_ints(w, &zero, 1, &none));
    BASE_TRY(cell__write(w, "Gather", (const char *[]){shape, axis, NULL}, &n));
    BASE_TRY(cell__write(w, "Sub", (const char *[]){n, k, NULL}, &n));
    BASE_TRY(cell__write(w, "Max", (const char *[]){n, none, NULL}, &n));
    BASE_TRY(cell__write(w, "Add", (const char *[]){n, k, NULL}, &n));
    return cell__write(w, "Slice", (const char *[]){w->proto->input[0], none, n, axis, NULL}, out);
}

/* Elements from..end-1 of a list of sizes. */
static enum base_status write_sizes(struct cell__writer *w, const char *shape, int64_t from,
                                    int64_t end, const char **out)
{
    const char *bounds[2];
    BASE_TRY(cell__write_ints(w, &from, 1, &bounds[0]));
    BASE_TRY(cell__write_ints(w, &end, 1, &bounds[1]));
    return cell__write(w, "Slice", (const char *[]){shape, bounds[0], bounds[1], NULL}, out);
}

/* What each state is at first: below, or above, all numbers. No constant is infinite; a logarithm
 * of 0 is. */
static enum base_status write_first(struct cell__writer *w, const struct top *top,
                                    const char *shape, const char **out)
{
    const char *parts[3] = {NULL};
    const char *number = NULL;
    uint32_t n = 0;
    if (top->axis > 0) {
        BASE_TRY(write_sizes(w, shape, 0, top->axis, &parts[n++]));
    }
    BASE_TRY(write_sizes(w, shape, top->axis + 1, INT64_MAX, &parts[n++]));
    const char *sizes = parts[0];
    BASE_TRY(n == 1 ? BASE_OK : cell__write_concat(w, parts, 0, &sizes));
    BASE_TRY(cell__write_number(w, 0.0f, &number));
    BASE_TRY(cell__write(w, "Expand", (const char *[]){number, sizes, NULL}, out));
    BASE_TRY(cell__write(w, "Log", (const char *[]){*out, NULL}, out));
    return top->is_largest ? BASE_OK : cell__write(w, "Neg", (const char *[]){*out, NULL}, out);
}

static enum base_status write_body(struct cell__writer *w, const struct top *top,
                                   Onnx__GraphProto **body)
{
    const char *const keeps = top->is_largest ? "Max" : "Min";
    const char *const hands = top->is_largest ? "Min" : "Max";
    const char *names[K_MAX + 1] = {NULL};
    BASE_TRY(cell__build_begin_body(w->builder, (uint32_t)top->k + 1, body));
    const char *x = (*body)->input[top->k]->name;
    for (int64_t i = 0; i < top->k; i++) {
        const char *state = (*body)->input[i]->name;
        BASE_TRY(cell__write(w, keeps, (const char *[]){state, x, NULL}, &names[i]));
        if (i + 1 < top->k) {
            BASE_TRY(cell__write(w, hands, (const char *[]){state, x, NULL}, &x));
        }
    }
    return cell__build_end_body(w->builder, names);
}

/* The states behind the last step, beside each other along the axis. */
static enum base_status write_values(struct cell__writer *w, const struct top *top,
                                     const Onnx__NodeProto *scan)
{
    const char *parts[K_MAX + 1] = {NULL};
    const char *joined = NULL;
    Onnx__NodeProto *same = NULL;
    for (int64_t i = 0; i < top->k; i++) {
        BASE_TRY(cell__write_axes(w, "Unsqueeze", scan->output[i], &top->axis, 1, &parts[i]));
    }
    BASE_TRY(cell__write_concat(w, parts, top->axis, &joined));
    BASE_TRY(cell__build_node(w->builder, "Identity", (const char *[]){joined, NULL}, 1, &same));
    return cell__build_text(w->builder, w->proto->output[0], &same->output[0]);
}

/* The node as it is, for the numbers of these steps, which are refused where they are needed. */
static enum base_status write_numbers(struct cell__writer *w)
{
    static char none[] = "";
    Onnx__NodeProto *top = NULL;
    BASE_TRY(cell__build_node(w->builder, "TopK",
                              (const char *[]){w->proto->input[0], w->proto->input[1], NULL}, 2,
                              &top));
    top->attribute = w->proto->attribute;
    top->n_attribute = w->proto->n_attribute;
    top->output[0] = none;
    return cell__build_text(w->builder, w->proto->output[1], &top->output[1]);
}

static enum base_status write_all(struct cell__writer *w, const struct top *top)
{
    const char *inputs[K_MAX + 2] = {NULL};
    const char *shape = NULL;
    const char *first = NULL;
    Onnx__GraphProto *body = NULL;
    Onnx__NodeProto *scan = NULL;
    BASE_TRY(cell__write(w, "Shape", (const char *[]){w->proto->input[0], NULL}, &shape));
    BASE_TRY(write_first(w, top, shape, &first));
    BASE_TRY(write_whole(w, top, shape, &inputs[top->k]));
    for (int64_t i = 0; i < top->k; i++) {
        inputs[i] = first;
    }
    BASE_TRY(write_body(w, top, &body));
    BASE_TRY(cell__build_node(w->builder, "Scan", inputs, (uint32_t)top->k, &scan));
    BASE_TRY(cell__build_set_int(w->builder, scan, "num_scan_inputs", 1));
    BASE_TRY(cell__build_set_ints(w->builder, scan, "scan_input_axes", 1, &top->axis));
    BASE_TRY(cell__build_set_graph(w->builder, scan, "body", body));
    BASE_TRY(write_values(w, top, scan));
    const bool has_numbers = w->proto->n_output > 1 && w->proto->output[1][0] != '\0';
    return has_numbers ? write_numbers(w) : BASE_OK;
}

const Onnx__GraphProto *cell__write_top_steps(struct cell__import *im, const Onnx__NodeProto *top)
{
    struct cell__writer w;
    struct top read;
    const bool is_written = read_top(im, top, &read) &&
                            cell__writer_begin(&w, im, top) == BASE_OK &&
                            write_all(&w, &read) == BASE_OK;
    return is_written ? cell__writer_nodes(&w) : NULL;
}
