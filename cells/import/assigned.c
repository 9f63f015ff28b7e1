/* See assigned.h. PyTorch writes `out[:, t] = h` as a ScatterND of a tensor that the Loop carries,
 * with indices made of the sizes of that tensor and of the number of the step:
 *
 *   indices = Concat(.. Range(0, Shape(out)[k], 1) .., t, ..)     of each axis up to the step's
 *   updates = Reshape(Expand(h, Shape(Gather(out, t))), ..)
 *
 * Where all other indices are whole ranges, and the Loop has as many steps as the axis is long, the
 * tensor behind the Loop is the h of all steps beside each other, whatever it was before. So h goes
 * to a list. That it has the shape of what it is assigned to, and the list as many elements, an
 * Expand and a Reshape say: where they do not, the file is refused.
 *
 * A list that has elements before the Loop is likewise an empty one, to which they are added in
 * front behind it; op_list.c keeps them apart until the list is joined. */
#include "cells/import/assigned.h"

#include "cells/import/loop_body.h"

#include <string.h>

/* The tensor that a body carries, and what is assigned to it. */
struct assignment {
    struct cell__loop_body body;
    const char *carried; /* by what name it comes in */
    uint32_t number;     /* of those that are carried */
    uint32_t axis;       /* the step's */
    const char *index;   /* what numbers the places: the step, or */
    const char *last;    /* this less the step, where that is not NULL */
    const char *result;  /* what is assigned */
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
static bool is_whole(const struct assignment *a, const char *name, uint32_t k)
{
    static const char *const same[] = {"Cast", "Squeeze", "Unsqueeze", "Identity", NULL};
    const Onnx__NodeProto *range = cell__body_maker(&a->body, name);
    if (!cell__is_op(range, "Range", 3) || !cell__body_is_integer(&a->body, range->input[0], 0) ||
        !cell__body_is_integer(&a->body, range->input[2], 1)) {
        return false;
    }
    const Onnx__NodeProto *size =
        cell__body_maker(&a->body, cell__body_look(&a->body, range->input[1], same));
    if (!cell__is_op(size, "Gather", 2) || !cell__body_is_integer(&a->body, size->input[1], k)) {
        return false;
    }
    const Onnx__NodeProto *shape = cell__body_maker(&a->body, size->input[0]);
    return is_shape(shape) && strcmp(shape->input[0], a->carried) == 0;
}

/* The axis of the step among the indices, where all others are whole. */
static bool find_axis(struct assignment *a, const char *indices)
{
    static const char *const spread[] = {"Unsqueeze", "Squeeze",  "Expand", "Reshape",
                                         "Cast",      "Identity", NULL};
    const Onnx__NodeProto *concat = cell__body_maker(&a->body, indices);
    bool has_step = false;
    if (!cell__is_op(concat, "Concat", 1)) {
        a->axis = 0;
        return is_of_step(a, cell__body_look(&a->body, indices, spread));
    }
    for (uint32_t k = 0; k < concat->n_input && k < CELL_RANK_MAX; k++) {
        const char *of = cell__body_look(&a->body, concat->input[k], spread);
        const bool is_step = !has_step && is_of_step(a, of);
        if (!is_step && !is_whole(a, of, k)) {
            return false;
        }
        a->axis = is_step ? k : a->axis;
        has_step = has_step || is_step;
    }
    return has_step && concat->n_input <= CELL_RANK_MAX;
}

/* Whether the shape is that of the step's place of the carried tensor. */
static bool is_shape_of_place(const struct assignment *a, const char *name)
{
    static const char *const whole[] = {"Identity", NULL};
    static const char *const scalar[] = {"Identity", "Cast", "Squeeze", "Unsqueeze", NULL};
    const Onnx__NodeProto *shape = cell__body_maker(&a->body, name);
    if (!is_shape(shape)) {
        return false;
    }
    const char *of = cell__body_look(&a->body, shape->input[0], whole);
    const Onnx__NodeProto *place = cell__body_maker(&a->body, of);
    return cell__is_op(place, "Gather", 2) &&
           strcmp(cell__body_look(&a->body, place->input[0], whole), a->carried) == 0 &&
           strcmp(cell__body_look(&a->body, place->input[1], scalar), a->index) == 0;
}

/* What is assigned, where it is first spread over what it is assigned to. */
static bool find_result(struct assignment *a, const char *updates)
{
    static const char *const same[] = {"Identity", "Reshape", NULL};
    const char *spread = cell__body_look(&a->body, updates, same);
    const Onnx__NodeProto *expand = cell__body_maker(&a->body, spread);
    if (!cell__is_op(expand, "Expand", 2) || !is_shape_of_place(a, expand->input[1])) {
        return false;
    }
    a->result = expand->input[0];
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

/* Carried value number k, where each step assigns to it. */
static bool find(const struct cell__loop_body *body, uint32_t k, struct assignment *a)
{
    static const char *const same[] = {"Identity", NULL};
    const char *in = body->graph->input[k + 2]->name;
    const char *out = body->graph->output[k + 1]->name;
    *a = (struct assignment){.body = *body, .carried = in, .number = k};
    if (in == NULL || out == NULL) {
        return false;
    }
    const Onnx__NodeProto *scatter = cell__body_maker(body, cell__body_look(body, out, same));
    return is_plain_scatter(scatter) &&
           strcmp(cell__body_look(body, scatter->input[0], same), a->carried) == 0 &&
           find_axis(a, cell__body_look(body, scatter->input[1], same)) &&
           find_result(a, scatter->input[2]);
}

/* ---- The Loop with a list ---------------------------------------------------------------------
 */

/* The body with two nodes behind it: the result, as wide as its place (`slot`), goes to the list.
 */
static enum base_status write_body(struct cell__writer *w, const struct assignment *a,
                                   const char *slot, Onnx__GraphProto **out)
{
    Onnx__GraphProto added;
    Onnx__GraphProto *outer = w->builder->into;
    const char *result = NULL;
    const char *list = NULL;
    onnx__graph_proto__init(&added);
    w->builder->into = &added;
    BASE_TRY(cell__write(w, "Expand", (const char *[]){a->result, slot, NULL}, &result));
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
                                   const char *slot, const char **list)
{
    const char *empty = NULL;
    Onnx__GraphProto *body = NULL;
    char **inputs = cell__body_copy_list(&a->body, w->proto->input, w->proto->n_input, 0);
    char **outputs = cell__body_copy_list(&a->body, w->proto->output, w->proto->n_output, 0);
    if (inputs == NULL || outputs == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    BASE_TRY(cell__write(w, "SequenceEmpty", (const char *[]){NULL}, &empty));
    BASE_TRY(write_body(w, a, slot, &body));
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

/* A part of a list of sizes, or of a tensor along one axis. */
static enum base_status write_slice(struct cell__writer *w, const char *x, const int64_t bounds[4],
                                    const char **out)
{
    const char *at[4];
    for (uint32_t i = 0; i < 4; i++) {
        BASE_TRY(cell__write_ints(w, &bounds[i], 1, &at[i]));
    }
    return cell__write(w, "Slice", (const char *[]){x, at[0], at[1], at[2], at[3], NULL}, out);
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
    const char *shape = NULL;
    const char *slot = NULL;
    const char *list = NULL;
    Onnx__NodeProto *join = NULL;
    Onnx__NodeProto *reshape = NULL;
    char *of = w->proto->output[a->number];
    BASE_TRY(
        cell__write(w, "Shape", (const char *[]){w->proto->input[a->number + 2], NULL}, &shape));
    BASE_TRY(write_sizes(w, a->axis, shape, NULL, &slot));
    BASE_TRY(write_loop(w, a, slot, &list));
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
        if (loop->output[k][0] != '\0' && find(&body, k, &a) &&
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
    Onnx__GraphProto *same = base_arena_alloc(w->im->arena, sizeof(*same));
    Onnx__NodeProto *insert = NULL;
    if (inputs == NULL || outputs == NULL || same == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    *same = *body->graph;
    BASE_TRY(cell__write(w, "SequenceEmpty", (const char *[]){NULL}, &empty));
    BASE_TRY(cell__build_text(w->builder, empty, &inputs[k + 2]));
    BASE_TRY(cell__build_name(w->builder, &outputs[k]));
    BASE_TRY(cell__write_loop(w, body, inputs, outputs, same));
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
