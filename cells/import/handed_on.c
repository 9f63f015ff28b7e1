/* See handed_on.h. What is carried and handed on as it is has the same value at every step, and
 * behind the last one:
 *
 *   Loop(n, x, h): x is handed on; Gather(x, t)
 *   Loop(n, h): Identity(x of outside), Gather of it by t; Identity behind the Loop */
#include "cells/import/handed_on.h"

#include "cells/import/loop_body.h"

#include <string.h>

/* Whether the body hands carried value i on as it is, and it depends on the request. A constant is
 * known to be one in the body too (op_loop.c). */
static bool is_handed_on(const struct cell__loop_body *body, const Onnx__NodeProto *loop, size_t i)
{
    static const char *const same[] = {"Identity", NULL};
    const char *given = loop->input[i + 2];
    const char *in = body->graph->input[i + 2]->name;
    const char *out = body->graph->output[i + 1]->name;
    uint32_t v = 0;
    return given[0] != '\0' && in != NULL && out != NULL &&
           strcmp(cell__body_look(body, out, same), in) == 0 &&
           cell__body_maker(body, in) == NULL &&
           cell__value_named(body->im, given, &v) == BASE_OK &&
           body->im->values[v].kind == CELL__ROWS;
}

/* A value by another name. */
static enum base_status write_same(struct cell__writer *w, const char *value, const char *name)
{
    Onnx__NodeProto *same = NULL;
    BASE_TRY(cell__build_node(w->builder, "Identity", (const char *[]){value, NULL}, 1, &same));
    return cell__build_text(w->builder, name, &same->output[0]);
}

/* The lists of the Loop and its body, which lose what is handed on. */
struct lists {
    char **inputs, **outputs;
    Onnx__NodeProto changed; /* with as many */
    Onnx__GraphProto *body;
};

static enum base_status copy_lists(const struct cell__loop_body *body, const Onnx__NodeProto *loop,
                                   struct lists *out)
{
    Onnx__GraphProto *graph = base_arena_alloc(body->im->arena, sizeof(*graph));
    out->inputs = cell__body_copy_list(body, loop->input, loop->n_input, 0);
    out->outputs = cell__body_copy_list(body, loop->output, loop->n_output, 0);
    if (graph == NULL || out->inputs == NULL || out->outputs == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    *graph = *body->graph;
    graph->input = cell__body_copy_list(body, graph->input, graph->n_input, 0);
    graph->output = cell__body_copy_list(body, graph->output, graph->n_output, 0);
    out->changed = *loop;
    out->body = graph;
    return graph->input == NULL || graph->output == NULL ? BASE_RESOURCE_EXHAUSTED : BASE_OK;
}

/* Leaves out of the lists what is handed on. */
static void leave_out(struct lists *lists, const Onnx__NodeProto *loop,
                      const Onnx__GraphProto *graph, const bool *handed)
{
    const size_t n_carried = loop->n_input - 2;
    size_t n = 0;
    for (size_t i = 0; i < n_carried; i++) {
        if (!handed[i]) {
            lists->inputs[2 + n] = loop->input[2 + i];
            lists->outputs[n] = loop->output[i];
            lists->body->input[2 + n] = graph->input[2 + i];
            lists->body->output[1 + n] = graph->output[1 + i];
            n++;
        }
    }
    const size_t less = n_carried - n;
    for (size_t i = n_carried; i < loop->n_output; i++) {
        lists->outputs[i - less] = loop->output[i];
    }
    for (size_t i = 1 + n_carried; i < graph->n_output; i++) {
        lists->body->output[i - less] = graph->output[i];
    }
    lists->changed.n_input -= less;
    lists->changed.n_output -= less;
    lists->body->n_input -= less;
    lists->body->n_output -= less;
}

/* The body's nodes behind those that give what is handed on, which the builder holds. */
static enum base_status put_in_front(const struct cell__loop_body *body, Onnx__GraphProto *graph,
                                     const Onnx__GraphProto *front)
{
    Onnx__NodeProto **nodes = cell__body_copy_list(body, front->node, front->n_node, graph->n_node);
    if (nodes == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    for (size_t i = 0; i < graph->n_node; i++) {
        nodes[front->n_node + i] = graph->node[i];
    }
    graph->node = nodes;
    graph->n_node += front->n_node;
    return BASE_OK;
}

static enum base_status write_all(struct cell__writer *w, const struct cell__loop_body *body,
                                  const bool *handed)
{
    const Onnx__NodeProto *loop = w->proto;
    struct lists lists;
    Onnx__GraphProto *front = NULL;
    BASE_TRY(copy_lists(body, loop, &lists));
    BASE_TRY(cell__build_begin_body(w->builder, 0, &front));
    for (size_t i = 0; i + 2 < loop->n_input; i++) {
        BASE_TRY(handed[i] ? write_same(w, loop->input[i + 2], body->graph->input[i + 2]->name)
                           : BASE_OK);
    }
    BASE_TRY(cell__build_end_body(w->builder, (const char *[]){NULL}));
    BASE_TRY(put_in_front(body, lists.body, front));
    leave_out(&lists, loop, body->graph, handed);
    w->proto = &lists.changed; // for its numbers of inputs and outputs
    enum base_status status = cell__write_loop(w, body, lists.inputs, lists.outputs, lists.body);
    w->proto = loop;
    BASE_TRY(status);
    for (size_t i = 0; i + 2 < loop->n_input; i++) {
        BASE_TRY(handed[i] && loop->output[i][0] != '\0'
                     ? write_same(w, loop->input[i + 2], loop->output[i])
                     : BASE_OK);
    }
    return BASE_OK;
}

const Onnx__GraphProto *cell__write_handed_on(struct cell__import *im, const Onnx__NodeProto *loop)
{
    bool handed[CELL__OPERANDS_MAX] = {false};
    bool is_any = false;
    struct cell__loop_body body;
    struct cell__writer w;
    if (!cell__loop_body(im, loop, &body)) {
        return NULL;
    }
    for (size_t i = 0; i + 2 < loop->n_input; i++) {
        handed[i] = is_handed_on(&body, loop, i);
        is_any = is_any || handed[i];
    }
    const bool is_written = is_any && cell__writer_begin(&w, im, loop) == BASE_OK &&
                            write_all(&w, &body, handed) == BASE_OK;
    return is_written ? cell__writer_nodes(&w) : NULL;
}
