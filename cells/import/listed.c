/* See listed.h. A list that has `n` elements at first and as many behind each step is as many
 * states, and each step begins by making a list of them (op_list.c):
 *
 *   Loop(list): SequenceErase(list, 0), SequenceInsert(.., h, 0)
 *   Loop(a, b): SequenceConstruct(a, b), .., SequenceAt(.., 0), SequenceAt(.., 1)
 *
 * Of a list to which each step adds one element, those that the body reads from the end are as many
 * states beside it: the last one is what a step adds, the one before what was the last, and at
 * first they are the elements that the list begins with. By the number of the step it is the same,
 * as so many elements are there. */
#include "cells/import/listed.h"

#include "cells/import/loop_body.h"

#include <string.h>

/* Elements that are read from the end of a list. */
#define BACK_MAX 8u

/* A list that a Loop carries. */
struct listed {
    struct cell__loop_body body;
    uint32_t number;  /* of those that are carried */
    const char *in;   /* its name in the body, */
    const char *out;  /* and behind the step */
    uint32_t n_heads; /* elements at first */
    const uint32_t *heads;
    const char *grown;   /* it and one more; */
    const char *element; /* that one */
    uint32_t n_back;     /* elements that are read from the end */
};

static const char *const same[] = {"Identity", NULL};

/* Carried value k, where it is a list of single tensors. */
static bool find_list(const struct cell__loop_body *body, const Onnx__NodeProto *loop, uint32_t k,
                      struct listed *out)
{
    uint32_t v = 0;
    const char *in = body->graph->input[k + 2]->name;
    const char *next = body->graph->output[k + 1]->name;
    if (in == NULL || next == NULL || loop->input[k + 2][0] == '\0' ||
        cell__value_named(body->im, loop->input[k + 2], &v) != BASE_OK) {
        return false;
    }
    const struct cell__value *list = &body->im->values[v];
    *out = (struct listed){.body = *body,
                           .number = k,
                           .in = in,
                           .out = next,
                           .n_heads = list->n_heads,
                           .heads = list->heads};
    return list->kind == CELL__LIST && list->n_heads > 0 && list->behind_heads == 0 &&
           list->list_axis == CELL__NONE;
}

/* How many elements the list has behind each step, where the file says; -1: it does not. */
static int64_t length_behind(const struct listed *l)
{
    const char *name = l->out;
    int64_t more = 0;
    for (size_t n = 0; n <= l->body.graph->n_node && strcmp(name, l->in) != 0; n++) {
        const Onnx__NodeProto *node = cell__body_maker(&l->body, name);
        if (cell__is_op(node, "SequenceConstruct", 1)) {
            return (int64_t)node->n_input + more;
        }
        if (cell__is_op(node, "SequenceEmpty", 0)) {
            return more;
        }
        const bool is_more = cell__is_op(node, "SequenceInsert", 2);
        if (!is_more && !cell__is_op(node, "SequenceErase", 1)) {
            return -1;
        }
        more += is_more ? 1 : -1;
        name = node->input[0];
    }
    return strcmp(name, l->in) == 0 ? (int64_t)l->n_heads + more : -1;
}

/* ---- Writing ------------------------------------------------------------------------------ */

/* The lists of a Loop and its body, of which some are longer by `more`. */
struct lists {
    char **inputs, **outputs;
    Onnx__NodeProto changed; /* with as many */
    Onnx__GraphProto *body;
};

/* n pointers of a list, moved within it. */
static void move(void *list, size_t to, size_t from, size_t n)
{
    void **at = list;
    memmove(&at[to], &at[from], n * sizeof(*at));
}

/* Room for `more` states behind what is carried, whose names are not there yet. */
static enum base_status make_room(const struct listed *l, const Onnx__NodeProto *loop, size_t more,
                                  struct lists *out)
{
    const struct cell__loop_body *body = &l->body;
    const size_t n_carried = loop->n_input - 2;
    Onnx__GraphProto *graph = base_arena_alloc(body->im->arena, sizeof(*graph));
    out->inputs = cell__body_copy_list(body, loop->input, loop->n_input, more);
    out->outputs = cell__body_copy_list(body, loop->output, loop->n_output, more);
    if (graph == NULL || out->inputs == NULL || out->outputs == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    *graph = *body->graph;
    graph->input = cell__body_copy_list(body, graph->input, graph->n_input, more);
    graph->output = cell__body_copy_list(body, graph->output, graph->n_output, more);
    if (graph->input == NULL || graph->output == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    move(out->outputs, n_carried + more, n_carried, loop->n_output - n_carried);
    move(graph->output, 1 + n_carried + more, 1 + n_carried, graph->n_output - 1 - n_carried);
    graph->n_input += more;
    graph->n_output += more;
    out->changed = *loop;
    out->changed.n_input += more;
    out->changed.n_output += more;
    out->body = graph;
    return BASE_OK;
}

static enum base_status new_info(struct cell__writer *w, const char *name,
                                 Onnx__ValueInfoProto **out)
{
    *out = base_arena_alloc(w->im->arena, sizeof(**out));
    if (*out == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    onnx__value_info_proto__init(*out);
    return name == NULL ? cell__build_name(w->builder, &(*out)->name)
                        : cell__build_text(w->builder, name, &(*out)->name);
}

/* State number i behind those that are carried, which begins as `first`; *in: in the body. */
static enum base_status add_state(struct cell__writer *w, struct lists *lists, size_t i,
                                  const char *first, const char **in)
{
    const size_t n_carried = w->proto->n_input - 2;
    BASE_TRY(cell__build_text(w->builder, first, &lists->inputs[2 + n_carried + i]));
    BASE_TRY(cell__build_name(w->builder, &lists->outputs[n_carried + i]));
    BASE_TRY(new_info(w, NULL, &lists->body->input[2 + n_carried + i]));
    *in = lists->body->input[2 + n_carried + i]->name;
    return BASE_OK;
}

/* What it is behind the step. */
static enum base_status set_next(struct cell__writer *w, struct lists *lists, size_t i,
                                 const char *next)
{
    return new_info(w, next, &lists->body->output[1 + w->proto->n_input - 2 + i]);
}

static enum base_status write_loop(struct cell__writer *w, const struct listed *l,
                                   struct lists *lists)
{
    const Onnx__NodeProto *loop = w->proto;
    w->proto = &lists->changed; // for its numbers of inputs and outputs
    enum base_status status =
        cell__write_loop(w, &l->body, lists->inputs, lists->outputs, lists->body);
    w->proto = loop;
    return status;
}

/* Nodes of the builder, into which `begin` to `end` go, beside those of the body. */
static enum base_status put_nodes(const struct listed *l, Onnx__GraphProto *graph,
                                  const Onnx__GraphProto *front, const Onnx__GraphProto *behind)
{
    Onnx__NodeProto **nodes =
        cell__body_copy_list(&l->body, front->node, front->n_node, graph->n_node + behind->n_node);
    if (nodes == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (size_t i = 0; i < graph->n_node; i++) {
        nodes[front->n_node + i] = graph->node[i];
    }
    for (size_t i = 0; i < behind->n_node; i++) {
        nodes[front->n_node + graph->n_node + i] = behind->node[i];
    }
    graph->node = nodes;
    graph->n_node += front->n_node + behind->n_node;
    return BASE_OK;
}

/* ---- As many states ----------------------------------------------------------------------- */

/* A list by a name that is given. */
static enum base_status write_list(struct cell__writer *w, const char *const *names,
                                   const char *name)
{
    Onnx__NodeProto *node = NULL;
    BASE_TRY(cell__build_node(w->builder, "SequenceConstruct", names, 1, &node));
    return cell__build_text(w->builder, name, &node->output[0]);
}

/* The states' names in the body, made a list there; behind the step its elements. */
static enum base_status write_elements(struct cell__writer *w, const struct listed *l,
                                       struct lists *lists, const char **names)
{
    Onnx__GraphProto front;
    Onnx__GraphProto behind;
    Onnx__GraphProto *outer = w->builder->into;
    onnx__graph_proto__init(&front);
    onnx__graph_proto__init(&behind);
    w->builder->into = &front;
    BASE_TRY(write_list(w, names, l->in));
    w->builder->into = &behind;
    for (uint32_t i = 0; i < l->n_heads; i++) {
        const int64_t place = i;
        const char *at = NULL;
        const char *element = NULL;
        BASE_TRY(cell__write_ints(w, &place, 1, &at));
        BASE_TRY(cell__write(w, "SequenceAt", (const char *[]){l->out, at, NULL}, &element));
        BASE_TRY(set_next(w, lists, i, element));
    }
    w->builder->into = outer;
    return put_nodes(l, lists->body, &front, &behind);
}

/* What is carried before the list's states is one value less. */
static void drop(struct lists *lists, uint32_t k)
{
    Onnx__NodeProto *loop = &lists->changed;
    Onnx__GraphProto *graph = lists->body;
    loop->n_input--;
    loop->n_output--;
    graph->n_input--;
    graph->n_output--;
    move(lists->inputs, k + 2, k + 3, loop->n_input - k - 2);
    move(lists->outputs, k, k + 1, loop->n_output - k);
    move(graph->input, k + 2, k + 3, graph->n_input - k - 2);
    move(graph->output, k + 1, k + 2, graph->n_output - k - 1);
}

static enum base_status write_states(struct cell__writer *w, const struct listed *l)
{
    const char *names[CELL__OPERANDS_MAX + 1] = {NULL};
    struct lists lists;
    BASE_TRY(make_room(l, w->proto, l->n_heads, &lists));
    for (uint32_t i = 0; i < l->n_heads; i++) {
        BASE_TRY(add_state(w, &lists, i, w->im->values[l->heads[i]].name, &names[i]));
    }
    names[l->n_heads] = NULL;
    BASE_TRY(write_elements(w, l, &lists, names));
    for (uint32_t i = 0; i < l->n_heads; i++) {
        names[i] = lists.outputs[w->proto->n_input - 2 + i];
    }
    drop(&lists, l->number);
    BASE_TRY(write_loop(w, l, &lists));
    const char *name = w->proto->output[l->number];
    return name[0] == '\0' ? BASE_OK : write_list(w, names, name);
}

/* ---- Elements from the end ---------------------------------------------------------------- */

/* Whether the value is the list as the step begins, or with its own element (*is_grown). */
static bool is_list(const struct listed *l, const char *name, bool *is_grown)
{
    const char *of = cell__body_look(&l->body, name, same);
    *is_grown = strcmp(of, l->grown) == 0;
    return *is_grown || strcmp(of, l->in) == 0;
}

/* Whether a value is the number of the step and *more. */
static bool is_of_step(const struct listed *l, const char *name, int64_t *more)
{
    const char *of = cell__body_look(&l->body, name, same);
    const Onnx__NodeProto *node = cell__body_maker(&l->body, of);
    const bool is_sum = cell__is_op(node, "Add", 2);
    *more = 0;
    if (strcmp(of, l->body.step) == 0) {
        return true;
    }
    if ((!is_sum && !cell__is_op(node, "Sub", 2)) ||
        !cell__body_integer(&l->body, node->input[1], more) || *more > INT32_MAX ||
        *more < -INT32_MAX) {
        return false;
    }
    *more = is_sum ? *more : -*more;
    return strcmp(cell__body_look(&l->body, node->input[0], same), l->body.step) == 0;
}

/* Of a node that takes an element of the list: how many elements from the end of what the step
 * began with, 0: its own. -1: it takes none, or from where nobody knows. */
static int64_t back_of(const struct listed *l, const Onnx__NodeProto *node)
{
    bool is_grown = false;
    int64_t at = 0;
    int64_t back = -1;
    if (!cell__is_op(node, "SequenceAt", 2) || node->n_output != 1 ||
        !is_list(l, node->input[0], &is_grown)) {
        return -1;
    }
    if (is_of_step(l, node->input[1], &at)) { // of the step's number and n_heads elements
        back = (int64_t)l->n_heads - at;
    } else if (cell__body_integer(&l->body, node->input[1], &at) && at < 0 && at > -INT32_MAX) {
        back = -at - (is_grown ? 1 : 0);
    }
    const bool is_there = back > 0 || (back == 0 && is_grown);
    return is_there && back <= (int64_t)l->n_heads && back <= (int64_t)BACK_MAX ? back : -1;
}

/* A list to which each step adds one element at its end, and of which the body reads some. */
static bool find_read(struct listed *l)
{
    const char *grown = cell__body_look(&l->body, l->out, same);
    const Onnx__NodeProto *insert = cell__body_maker(&l->body, grown);
    bool is_read = false;
    if (!cell__is_op(insert, "SequenceInsert", 2) ||
        (insert->n_input > 2 && insert->input[2][0] != '\0') ||
        strcmp(cell__body_look(&l->body, insert->input[0], same), l->in) != 0) {
        return false;
    }
    l->grown = grown;
    l->element = insert->input[1];
    for (size_t n = 0; n < l->body.graph->n_node; n++) {
        const int64_t back = back_of(l, l->body.graph->node[n]);
        is_read = is_read || back >= 0;
        l->n_back = back > (int64_t)l->n_back ? (uint32_t)back : l->n_back;
    }
    return is_read;
}

/* An Identity in place of a node that takes an element. */
static enum base_status replace(struct cell__writer *w, const char *by, Onnx__NodeProto **at)
{
    Onnx__GraphProto none;
    Onnx__GraphProto *outer = w->builder->into;
    Onnx__NodeProto *node = NULL;
    onnx__graph_proto__init(&none);
    w->builder->into = &none;
    enum base_status status =
        cell__build_node(w->builder, "Identity", (const char *[]){by, NULL}, 1, &node);
    w->builder->into = outer;
    BASE_TRY(status);
    BASE_TRY(cell__build_text(w->builder, (*at)->output[0], &node->output[0]));
    *at = node;
    return BASE_OK;
}

static enum base_status write_back(struct cell__writer *w, const struct listed *l)
{
    const char *names[1 + BACK_MAX] = {l->element};
    struct lists lists;
    BASE_TRY(make_room(l, w->proto, l->n_back, &lists));
    for (uint32_t i = 0; i < l->n_back; i++) {
        const char *first = w->im->values[l->heads[l->n_heads - 1 - i]].name;
        BASE_TRY(add_state(w, &lists, i, first, &names[1 + i]));
        BASE_TRY(set_next(w, &lists, i, names[i]));
    }
    Onnx__GraphProto *graph = lists.body;
    graph->node = cell__body_copy_list(&l->body, graph->node, graph->n_node, 0);
    if (graph->node == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (size_t n = 0; n < graph->n_node; n++) {
        const int64_t back = back_of(l, graph->node[n]);
        BASE_TRY(back < 0 ? BASE_OK : replace(w, names[back], &graph->node[n]));
    }
    return write_loop(w, l, &lists);
}

const Onnx__GraphProto *cell__write_listed(struct cell__import *im, const Onnx__NodeProto *loop)
{
    struct cell__loop_body body;
    struct cell__writer w;
    struct listed l;
    for (uint32_t k = 0; cell__loop_body(im, loop, &body) && k + 2 < loop->n_input; k++) {
        if (!find_list(&body, loop, k, &l)) {
            continue;
        }
        const bool is_as_long = length_behind(&l) == (int64_t)l.n_heads;
        if (is_as_long || find_read(&l)) {
            bool is_written = cell__writer_begin(&w, im, loop) == BASE_OK &&
                              (is_as_long ? write_states(&w, &l) : write_back(&w, &l)) == BASE_OK;
            return is_written ? cell__writer_nodes(&w) : NULL;
        }
    }
    return NULL;
}
