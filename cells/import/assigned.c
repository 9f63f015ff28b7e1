/* See assigned.h. PyTorch writes `out[:, t] = h` as a ScatterND of a tensor that the Loop carries,
 * with indices made of the sizes of that tensor and of the number of the step:
 *
 *   indices = Concat(.. Range(0, Shape(out)[k], 1) .., t, ..)     of each axis up to the step's
 *   updates = Reshape(Expand(h, Shape(Gather(out, t))), ..)
 *
 * Where all other indices are whole ranges, and the Loop has as many steps as the axis is long, the
 * tensor behind the Loop is the h of all steps beside each other, whatever it was before. So h goes
 * to a list, with what the place had before where it goes to a part of it, `out[:, t, :n] = h`.
 * That it has the shape of what it is assigned to, and the list as many elements, an
 * Expand and a Reshape say: where they do not, the file is refused.
 *
 * A list that has elements before the Loop is likewise an empty one, to which they are added in
 * front behind it; op_list.c keeps them apart until the list is joined. */
#include "cells/import/assigned.h"

#include "cells/import/loop_body.h"
#include "cells/import/ops.h"

#include <string.h>

/* Assignments to one place in a step. */
#define PUTS_MAX 8u

/* One of them: to all of the place, or to elements from..end-1 along one axis of it. */
struct put {
    const char *to; /* the tensor as it was before */
    const char *result;
    bool is_kept; /* the result has the step's axis, of one element, as in out[:, t : t + 1] */
    bool is_part;
    uint32_t axis; /* of the tensor, not the step's */
    int64_t from, end;
};

/* The tensor that a body carries, and what is assigned to it. */
struct assignment {
    struct cell__loop_body body;
    const char *carried;      /* by what name it comes in */
    uint32_t number;          /* of those that are carried */
    uint32_t axis;            /* the step's */
    const char *index;        /* what numbers the places: the step, or */
    const char *last;         /* this less the step, where that is not NULL */
    struct cell__shape shape; /* of the tensor */
    uint32_t n_puts;
    struct put puts[PUTS_MAX]; /* the first one last */
};

/* -1 times the number of the step. */
static bool is_negative_step(const struct assignment *a, const char *name)
{
    const Onnx__NodeProto *node = cell__body_maker(&a->body, name);
    return cell__is_op(node, "Mul", 2) && strcmp(node->input[0], a->body.step) == 0 &&
           cell__body_is_integer(&a->body, node->input[1], -1);
}

/* What the step's number is taken from, where the value is that: last - step, last + -1 * step. */
static const char *less_step(const struct assignment *a, const char *name)
{
    const Onnx__NodeProto *node = cell__body_maker(&a->body, name);
    if (cell__is_op(node, "Sub", 2) && strcmp(node->input[1], a->body.step) == 0) {
        return node->input[0];
    }
    return cell__is_op(node, "Add", 2) && is_negative_step(a, node->input[1]) ? node->input[0]
                                                                              : NULL;
}

/* Whether an index is made of the step; notes how. */
static bool is_of_step(struct assignment *a, const char *name)
{
    const char *last = less_step(a, name);
    const bool is_one = last != NULL || strcmp(name, a->body.step) == 0;
    a->last = is_one ? last : a->last;
    a->index = is_one ? name : a->index;
    return is_one;
}

/* The sizes of all axes: no part of them. */
static bool is_shape(const Onnx__NodeProto *node)
{
    const struct cell__node shape = {.proto = node};
    const Onnx__AttributeProto *start = node == NULL ? NULL : cell__attr(&shape, "start");
    return cell__is_op(node, "Shape", 1) && cell__attr(&shape, "end") == NULL &&
           (start == NULL || start->i == 0);
}

/* All numbers of axis k of the carried tensor: Range(0, Shape(carried)[k], 1). */
static bool is_whole(const struct assignment *a, const struct put *put, const char *name,
                     uint32_t k)
{
    static const char *const wraps[] = {"Cast", "Squeeze", "Unsqueeze", "Identity", NULL};
    const Onnx__NodeProto *range = cell__body_maker(&a->body, name);
    if (!cell__is_op(range, "Range", 3) || !cell__body_is_integer(&a->body, range->input[0], 0) ||
        !cell__body_is_integer(&a->body, range->input[2], 1)) {
        return false;
    }
    const Onnx__NodeProto *size =
        cell__body_maker(&a->body, cell__body_look(&a->body, range->input[1], wraps));
    if (!cell__is_op(size, "Gather", 2) || !cell__body_is_integer(&a->body, size->input[1], k)) {
        return false;
    }
    const Onnx__NodeProto *shape = cell__body_maker(&a->body, size->input[0]);
    return is_shape(shape) && (strcmp(shape->input[0], a->carried) == 0 ||
                               strcmp(shape->input[0], put->to) == 0); // which are as large
}

/* Between an index and what it is made of. */
static const char *const spread[] = {"Unsqueeze", "Squeeze",  "Expand", "Reshape",
                                     "Cast",      "Identity", NULL};
static const char *const scalar[] = {"Identity", "Cast", "Squeeze", "Unsqueeze", NULL};
static const char *const same[] = {"Identity", NULL};

/* Elements from..end-1 of an axis, or the step's own alone. */
struct span {
    bool is_step;
    int64_t from, end;
};

/* A constant, or one that has been given an axis. */
static bool read_integer(const struct assignment *a, const char *name, int64_t *out)
{
    return cell__body_integer(&a->body, name, out) ||
           cell__body_integer(&a->body, cell__body_look(&a->body, name, scalar), out);
}

/* Whether a Slice takes such, along the axis that *axis says. */
static bool is_span(const struct assignment *a, const Onnx__NodeProto *slice, int64_t *axis,
                    struct span *out)
{
    const struct cell__loop_body *body = &a->body;
    int64_t more = 0;
    *out = (struct span){.from = 0};
    if (!cell__is_op(slice, "Slice", 4) || !read_integer(a, slice->input[3], axis) ||
        (slice->n_input > 4 && (!read_integer(a, slice->input[4], &more) || more != 1))) {
        return false;
    }
    if (read_integer(a, slice->input[1], &out->from)) {
        return read_integer(a, slice->input[2], &out->end);
    }
    const Onnx__NodeProto *next =
        cell__body_maker(body, cell__body_look(body, slice->input[2], scalar));
    out->is_step = strcmp(cell__body_look(body, slice->input[1], scalar), body->step) == 0;
    return out->is_step && cell__is_op(next, "Add", 2) &&
           strcmp(cell__body_look(body, next->input[0], scalar), body->step) == 0 &&
           cell__body_integer(body, next->input[1], &more) && more == 1;
}

/* The span along axis k as the elements that there are; false: there are none, or nobody knows. */
static bool settle(const struct assignment *a, uint32_t k, struct span *span)
{
    const int64_t size = cell__axis_size(a->body.im, &a->shape.axes[k]);
    span->from += span->from < 0 ? size : 0;
    span->end += span->end < 0 ? size : 0;
    span->end = span->end > size ? size : span->end;
    return size > 0 && span->from >= 0 && span->from < span->end;
}

/* An index along axis k: the step's number, or that alone of all, or some of all; *is_step: which.
 */
static bool read_index(struct assignment *a, struct put *put, const char *name, uint32_t k,
                       bool *is_step)
{
    const char *of = cell__body_look(&a->body, name, spread);
    const Onnx__NodeProto *slice = cell__body_maker(&a->body, of);
    struct span span;
    int64_t axis = 0;
    *is_step = is_of_step(a, of);
    if (*is_step || is_whole(a, put, of, k)) {
        return true;
    }
    if (!is_span(a, slice, &axis, &span) || axis != 0 ||
        !is_whole(a, put, cell__body_look(&a->body, slice->input[0], spread), k)) {
        return false;
    }
    *is_step = span.is_step;
    if (span.is_step) {
        a->index = a->body.step;
        a->last = NULL;
        put->is_kept = true;
        return true;
    }
    const bool is_first = !put->is_part;
    put->is_part = true;
    put->axis = k;
    const bool is_some = k < a->shape.rank && settle(a, k, &span);
    put->from = span.from;
    put->end = span.end;
    return is_first && is_some;
}

/* The axis of the step among the indices, where all others are whole, or a part of one axis. */
static bool find_axis(struct assignment *a, struct put *put, const char *indices)
{
    const Onnx__NodeProto *concat = cell__body_maker(&a->body, indices);
    bool has_step = false;
    bool is_step = false;
    if (!cell__is_op(concat, "Concat", 1)) {
        a->axis = 0;
        return read_index(a, put, indices, 0, &is_step) && is_step;
    }
    for (uint32_t k = 0; k < concat->n_input && k < CELL_RANK_MAX; k++) {
        if (!read_index(a, put, concat->input[k], k, &is_step) || (is_step && has_step)) {
            return false;
        }
        a->axis = is_step ? k : a->axis;
        has_step = has_step || is_step;
    }
    return has_step && concat->n_input <= CELL_RANK_MAX;
}

/* Whether a node takes the step's place of a tensor, of which it stays an axis (*keeps) or not. */
static bool takes_place(const struct assignment *a, const Onnx__NodeProto *node, bool *keeps)
{
    const struct cell__node gather = {.proto = node};
    struct span span;
    int64_t axis = 0;
    if (cell__is_op(node, "Gather", 2)) {
        const Onnx__AttributeProto *given = cell__attr(&gather, "axis");
        *keeps = false;
        return (given == NULL ? 0 : given->i) == (int64_t)a->axis &&
               strcmp(cell__body_look(&a->body, node->input[1], scalar), a->index) == 0;
    }
    *keeps = true;
    return is_span(a, node, &axis, &span) && span.is_step && axis == (int64_t)a->axis;
}

/* Whether a node takes the part of the place that is assigned to. */
static bool takes_part(const struct assignment *a, const struct put *put,
                       const Onnx__NodeProto *node)
{
    const int64_t wanted = put->axis - (put->axis > a->axis && !put->is_kept ? 1 : 0);
    struct span span;
    int64_t axis = 0;
    return is_span(a, node, &axis, &span) && !span.is_step && axis == wanted &&
           settle(a, put->axis, &span) && span.from == put->from && span.end == put->end;
}

/* Whether the shape is that of what is assigned to: of the step's place of the tensor, or of the
 * part of it. */
static bool is_shape_of_place(const struct assignment *a, const struct put *put, const char *name)
{
    const Onnx__NodeProto *shape = cell__body_maker(&a->body, name);
    bool keeps = false;
    if (!is_shape(shape)) {
        return false;
    }
    const char *of = cell__body_look(&a->body, shape->input[0], same);
    const Onnx__NodeProto *node = cell__body_maker(&a->body, of);
    if (put->is_part) {
        if (!takes_part(a, put, node)) {
            return false;
        }
        node = cell__body_maker(&a->body, cell__body_look(&a->body, node->input[0], same));
    }
    return takes_place(a, node, &keeps) && keeps == put->is_kept &&
           strcmp(cell__body_look(&a->body, node->input[0], same), put->to) == 0;
}

/* What is assigned, where it is first spread over what it is assigned to. */
static bool find_result(const struct assignment *a, struct put *put, const char *updates)
{
    static const char *const as_flat[] = {"Identity", "Reshape", NULL};
    const char *wide = cell__body_look(&a->body, updates, as_flat);
    const Onnx__NodeProto *expand = cell__body_maker(&a->body, wide);
    if (!cell__is_op(expand, "Expand", 2) || !is_shape_of_place(a, put, expand->input[1])) {
        return false;
    }
    put->result = expand->input[0];
    return true;
}

/* An assignment, no sum or product. */
static bool is_plain_scatter(const Onnx__NodeProto *node)
{
    const struct cell__node scatter = {.proto = node};
    if (node == NULL || !cell__is_op(node, "ScatterND", 3)) {
        return false;
    }
    const Onnx__AttributeProto *reduction = cell__attr(&scatter, "reduction");
    const size_t n = node->n_attribute;
    return reduction == NULL ? n == 0 : n == 1 && cell__is_text(reduction->s, "none");
}

/* One assignment, behind which the tensor is `name`. All of a step are to one place. */
static bool find_put(struct assignment *a, const char *name, struct put *put)
{
    const struct assignment before = *a;
    const Onnx__NodeProto *scatter = cell__body_maker(&a->body, name);
    if (!is_plain_scatter(scatter)) {
        return false;
    }
    *put = (struct put){.to = cell__body_look(&a->body, scatter->input[0], same)};
    return find_axis(a, put, cell__body_look(&a->body, scatter->input[1], same)) &&
           find_result(a, put, scatter->input[2]) &&
           (a->n_puts == 0 || (strcmp(a->index, before.index) == 0 && a->axis == before.axis));
}

/* Carried value number k, where each step assigns to it. */
static bool find(const struct cell__loop_body *body, const Onnx__NodeProto *loop, uint32_t k,
                 struct assignment *a)
{
    const char *in = body->graph->input[k + 2]->name;
    const char *out = body->graph->output[k + 1]->name;
    uint32_t v = 0;
    *a = (struct assignment){.body = *body, .carried = in, .number = k};
    if (in == NULL || out == NULL || loop->input[k + 2][0] == '\0' ||
        cell__value_named(body->im, loop->input[k + 2], &v) != BASE_OK ||
        (body->im->values[v].kind != CELL__CONST && body->im->values[v].kind != CELL__ROWS) ||
        cell__shape_of(body->im, &body->im->values[v], &a->shape) != BASE_OK) {
        return false;
    }
    const char *name = cell__body_look(body, out, same);
    while (strcmp(name, in) != 0) {
        if (a->n_puts == PUTS_MAX || !find_put(a, name, &a->puts[a->n_puts])) {
            return false;
        }
        name = a->puts[a->n_puts++].to;
    }
    return a->n_puts > 0;
}

/* ---- The Loop with a list ---------------------------------------------------------------------
 */

/* A part of a list of sizes, or of a tensor along one axis; bounds: first, end, axis, stride. */
static enum base_status write_slice(struct cell__writer *w, const char *x, const int64_t bounds[4],
                                    const char **out)
{
    const char *at[4];
    for (uint32_t i = 0; i < 4; i++) {
        BASE_TRY(cell__write_ints(w, &bounds[i], 1, &at[i]));
    }
    return cell__write(w, "Slice", (const char *[]){x, at[0], at[1], at[2], at[3], NULL}, out);
}

/* A part of the place and what stands beside it; NULL where nothing does. */
static enum base_status write_parts(struct cell__writer *w, const struct put *put, int64_t axis,
                                    int64_t size, const char *place, const char *parts[3])
{
    BASE_TRY(write_slice(w, place, (const int64_t[]){put->from, put->end, axis, 1}, &parts[1]));
    if (put->from > 0) {
        BASE_TRY(write_slice(w, place, (const int64_t[]){0, put->from, axis, 1}, &parts[0]));
    }
    if (put->end < size) {
        BASE_TRY(write_slice(w, place, (const int64_t[]){put->end, size, axis, 1}, &parts[2]));
    }
    return BASE_OK;
}

/* The result as wide as the place, or the part of it, whose shape is given. */
static enum base_status write_wide(struct cell__writer *w, const struct assignment *a,
                                   const struct put *put, const char *shape, const char **out)
{
    const int64_t axis = a->axis;
    const char *wide = NULL;
    BASE_TRY(cell__write(w, "Expand", (const char *[]){put->result, shape, NULL}, &wide));
    *out = wide;
    return put->is_kept ? cell__write_axes(w, "Squeeze", wide, &axis, 1, out) : BASE_OK;
}

/* The place behind an assignment to a part of it. */
static enum base_status write_part(struct cell__writer *w, const struct assignment *a,
                                   const struct put *put, const char **place)
{
    const int64_t axis = put->axis - (put->axis > a->axis ? 1 : 0);
    const int64_t size = cell__axis_size(w->im, &a->shape.axes[put->axis]);
    const int64_t step = a->axis;
    const char *parts[3] = {NULL};
    const char *joined[4] = {NULL};
    const char *shape = NULL;
    uint32_t n = 0;
    BASE_TRY(write_parts(w, put, axis, size, *place, parts));
    const char *of = parts[1];
    BASE_TRY(put->is_kept ? cell__write_axes(w, "Unsqueeze", of, &step, 1, &of) : BASE_OK);
    BASE_TRY(cell__write(w, "Shape", (const char *[]){of, NULL}, &shape));
    BASE_TRY(write_wide(w, a, put, shape, &parts[1]));
    for (uint32_t i = 0; i < 3; i++) {
        if (parts[i] != NULL) {
            joined[n++] = parts[i];
        }
    }
    *place = joined[0];
    return n == 1 ? BASE_OK : cell__write_concat(w, joined, axis, place);
}

/* The shapes of a step's place: without the step's axis, and with it. */
struct slots {
    const char *plain, *kept;
};

/* What the step's place holds behind all that is assigned to it. Before, it holds what the tensor
 * had there at first. */
static enum base_status write_place(struct cell__writer *w, const struct assignment *a,
                                    const struct slots *slots, const char **out)
{
    Onnx__NodeProto *gather = NULL;
    *out = NULL;
    for (uint32_t i = a->n_puts; i-- > 0;) {
        const struct put *put = &a->puts[i];
        if (!put->is_part) {
            BASE_TRY(write_wide(w, a, put, put->is_kept ? slots->kept : slots->plain, out));
            continue;
        }
        if (*out == NULL) {
            const char *first = w->proto->input[a->number + 2];
            BASE_TRY(cell__build_node(w->builder, "Gather", (const char *[]){first, a->index, NULL},
                                      1, &gather));
            BASE_TRY(cell__build_set_int(w->builder, gather, "axis", a->axis));
            *out = gather->output[0];
        }
        BASE_TRY(write_part(w, a, put, out));
    }
    return BASE_OK;
}

/* The body with some nodes behind it: the result, as wide as its place, goes to the list. */
static enum base_status write_body(struct cell__writer *w, const struct assignment *a,
                                   const struct slots *slots, Onnx__GraphProto **out)
{
    Onnx__GraphProto added;
    Onnx__GraphProto *outer = w->builder->into;
    const char *result = NULL;
    const char *list = NULL;
    onnx__graph_proto__init(&added);
    w->builder->into = &added;
    BASE_TRY(write_place(w, a, slots, &result));
    BASE_TRY(cell__write(w, "SequenceInsert", (const char *[]){a->carried, result, NULL}, &list));
    w->builder->into = outer;
    Onnx__GraphProto *body = base_arena_alloc(w->im->arena, sizeof(*body));
    Onnx__ValueInfoProto *info = base_arena_alloc(w->im->arena, sizeof(*info));
    if (body == NULL || info == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    *body = *a->body.graph;
    onnx__value_info_proto__init(info);
    info->name = base_arena_text(w->im->arena, list, strlen(list));
    body->node = cell__body_copy_list(&a->body, body->node, body->n_node, added.n_node);
    body->output = cell__body_copy_list(&a->body, body->output, body->n_output, 0);
    if (info->name == NULL || body->node == NULL || body->output == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    memcpy(body->node + body->n_node, added.node, added.n_node * sizeof(Onnx__NodeProto *));
    body->n_node += added.n_node;
    body->output[a->number + 1] = info;
    *out = body;
    return BASE_OK;
}

/* The Loop, which carries a list that is empty at first in place of the tensor; *list: behind it.
 */
static enum base_status write_loop(struct cell__writer *w, const struct assignment *a,
                                   const struct slots *slots, const char **list)
{
    const char *empty = NULL;
    Onnx__GraphProto *body = NULL;
    char **inputs = cell__body_copy_list(&a->body, w->proto->input, w->proto->n_input, 0);
    char **outputs = cell__body_copy_list(&a->body, w->proto->output, w->proto->n_output, 0);
    if (inputs == NULL || outputs == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    BASE_TRY(cell__write(w, "SequenceEmpty", (const char *[]){NULL}, &empty));
    BASE_TRY(write_body(w, a, slots, &body));
    BASE_TRY(cell__build_text(w->builder, empty, &inputs[a->number + 2]));
    BASE_TRY(cell__build_name(w->builder, &outputs[a->number]));
    *list = outputs[a->number];
    return cell__write_loop(w, &a->body, inputs, outputs, body);
}

/* A copy of a node of the body, outside of it. */
static enum base_status copy_node(struct cell__writer *w, const Onnx__NodeProto *node,
                                  const char *const *inputs, const char **out)
{
    Onnx__NodeProto *copy = NULL;
    BASE_TRY(cell__build_node(w->builder, node->op_type, inputs, 1, &copy));
    copy->attribute = node->attribute;
    copy->n_attribute = node->n_attribute;
    *out = copy->output[0];
    return BASE_OK;
}

/* A value of the body outside of it: what one op makes of Constants and of what is outside. */
static enum base_status write_outside(struct cell__writer *w, const struct assignment *a,
                                      const char *name, const char **out)
{
    const Onnx__NodeProto *node = cell__body_maker(&a->body, name);
    const char *inputs[3] = {NULL, NULL, NULL};
    *out = name;
    if (node == NULL) {
        return BASE_OK;
    }
    if (node->n_input > 2 || node->n_output != 1) {
        return cell__unwritten(w, "assigned to by numbers that are no sums");
    }
    for (size_t i = 0; i < node->n_input; i++) {
        const Onnx__NodeProto *of = cell__body_maker(&a->body, node->input[i]);
        inputs[i] = node->input[i];
        if (of != NULL && !cell__is_op(of, "Constant", 0)) {
            return cell__unwritten(w, "assigned to by numbers that each step computes");
        }
        BASE_TRY(of == NULL ? BASE_OK : copy_node(w, of, (const char *[]){NULL}, &inputs[i]));
    }
    return copy_node(w, node, inputs, out);
}

/* The sizes of all axes before the step's, of it `n` where that is not NULL, and of all behind it.
 */
static enum base_status write_sizes(struct cell__writer *w, uint32_t axis, const char *shape,
                                    const char *n, const char **out)
{
    const char *parts[4] = {NULL};
    uint32_t n_parts = 0;
    if (axis > 0) {
        BASE_TRY(write_slice(w, shape, (const int64_t[]){0, axis, 0, 1}, &parts[n_parts++]));
    }
    if (n != NULL) {
        parts[n_parts++] = n;
    }
    BASE_TRY(write_slice(w, shape, (const int64_t[]){(int64_t)axis + 1, INT64_MAX, 0, 1},
                         &parts[n_parts++]));
    *out = parts[0];
    return n_parts == 1 ? BASE_OK : cell__write_concat(w, parts, 0, out);
}

/* The steps of a list that went down from number `last`, the other way round; that there are last +
 * 1 of them a Reshape says. */
static enum base_status write_turned(struct cell__writer *w, const struct assignment *a,
                                     const char *shape, const char **joined)
{
    static const int64_t one = 1;
    const char *last = NULL;
    const char *n = NULL;
    BASE_TRY(write_outside(w, a, a->last, &last));
    BASE_TRY(cell__write_ints(w, &one, 1, &n));
    BASE_TRY(cell__write(w, "Add", (const char *[]){last, n, NULL}, &n)); // of one axis
    BASE_TRY(write_sizes(w, a->axis, shape, n, &n));
    BASE_TRY(write_slice(w, *joined, (const int64_t[]){-1, INT64_MIN, a->axis, -1}, joined));
    return cell__write(w, "Reshape", (const char *[]){*joined, n, NULL}, joined);
}

static enum base_status write_all(struct cell__writer *w, const struct assignment *a)
{
    static const int64_t one = 1;
    const char *shape = NULL;
    const char *single = NULL;
    struct slots slots;
    const char *list = NULL;
    Onnx__NodeProto *join = NULL;
    Onnx__NodeProto *reshape = NULL;
    char *of = w->proto->output[a->number];
    BASE_TRY(
        cell__write(w, "Shape", (const char *[]){w->proto->input[a->number + 2], NULL}, &shape));
    BASE_TRY(cell__write_ints(w, &one, 1, &single));
    BASE_TRY(write_sizes(w, a->axis, shape, NULL, &slots.plain));
    BASE_TRY(write_sizes(w, a->axis, shape, single, &slots.kept));
    BASE_TRY(write_loop(w, a, &slots, &list));
    BASE_TRY(
        cell__build_node(w->builder, "ConcatFromSequence", (const char *[]){list, NULL}, 1, &join));
    BASE_TRY(cell__build_set_int(w->builder, join, "axis", a->axis));
    BASE_TRY(cell__build_set_int(w->builder, join, "new_axis", 1));
    const char *joined = join->output[0];
    BASE_TRY(a->last == NULL ? BASE_OK : write_turned(w, a, shape, &joined));
    BASE_TRY(cell__build_node(w->builder, "Reshape", (const char *[]){joined, shape, NULL}, 1,
                              &reshape));
    reshape->output[0] = of;
    return BASE_OK;
}

static bool is_float_tensor(struct cell__import *im, const char *name)
{
    uint32_t v = 0;
    if (cell__value_named(im, name, &v) != BASE_OK) {
        return false;
    }
    const struct cell__value *value = &im->values[v];
    return (value->kind == CELL__CONST || value->kind == CELL__ROWS) && value->dtype == CELL__F32;
}

const Onnx__GraphProto *cell__write_assigned(struct cell__import *im, const Onnx__NodeProto *loop)
{
    struct cell__loop_body body;
    struct assignment a;
    struct cell__writer w;
    for (uint32_t k = 0; cell__loop_body(im, loop, &body) && k + 2 < loop->n_input; k++) {
        if (loop->output[k][0] != '\0' && find(&body, loop, k, &a) &&
            is_float_tensor(im, loop->input[k + 2])) {
            const bool is_written =
                cell__writer_begin(&w, im, loop) == BASE_OK && write_all(&w, &a) == BASE_OK;
            return is_written ? cell__writer_nodes(&w) : NULL;
        }
    }
    return NULL;
}

/* ---- Lists with elements before the Loop ------------------------------------------------------
 */

static enum base_status write_headed(struct cell__writer *w, const struct cell__loop_body *body,
                                     uint32_t k, const struct cell__value *list)
{
    static const int64_t zero = 0;
    const char *empty = NULL;
    const char *first = NULL;
    char **inputs = cell__body_copy_list(body, w->proto->input, w->proto->n_input, 0);
    char **outputs = cell__body_copy_list(body, w->proto->output, w->proto->n_output, 0);
    Onnx__GraphProto *copy = base_arena_alloc(w->im->arena, sizeof(*copy));
    Onnx__NodeProto *insert = NULL;
    if (inputs == NULL || outputs == NULL || copy == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    *copy = *body->graph;
    BASE_TRY(cell__write(w, "SequenceEmpty", (const char *[]){NULL}, &empty));
    BASE_TRY(cell__build_text(w->builder, empty, &inputs[k + 2]));
    BASE_TRY(cell__build_name(w->builder, &outputs[k]));
    BASE_TRY(cell__write_loop(w, body, inputs, outputs, copy));
    BASE_TRY(cell__write_ints(w, &zero, 1, &first));
    const char *grown = outputs[k];
    for (uint32_t i = list->n_heads; i-- > 0;) {
        const char *head = w->im->values[list->heads[i]].name;
        BASE_TRY(cell__build_node(w->builder, "SequenceInsert",
                                  (const char *[]){grown, head, first, NULL}, 1, &insert));
        grown = insert->output[0];
    }
    if (insert != NULL) { // there is a head
        insert->output[0] = w->proto->output[k];
    }
    return BASE_OK;
}

const Onnx__GraphProto *cell__write_headed(struct cell__import *im, const Onnx__NodeProto *loop)
{
    struct cell__loop_body body;
    struct cell__writer w;
    for (uint32_t k = 0; cell__loop_body(im, loop, &body) && k + 2 < loop->n_input; k++) {
        uint32_t v = 0;
        if (loop->output[k][0] == '\0' ||
            cell__value_named(im, loop->input[k + 2], &v) != BASE_OK) {
            continue;
        }
        const struct cell__value list = im->values[v];
        if (list.kind == CELL__LIST && list.n_heads > 0 && list.behind_heads == 0) {
            const bool is_written = cell__writer_begin(&w, im, loop) == BASE_OK &&
                                    write_headed(&w, &body, k, &list) == BASE_OK;
            return is_written ? cell__writer_nodes(&w) : NULL;
        }
    }
    return NULL;
}
