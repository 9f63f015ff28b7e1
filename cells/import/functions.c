/* See functions.h. Lists of nodes are copied one by one to those of the graphs that are made;
 * where a node stands for a function, that one's list comes first, its names translated: inputs
 * and outputs to those of the node, all others to such as begin with the number of the call. What
 * is left to copy stands on a stack of its own, as the file may nest as it likes. */
#include "cells/import/functions.h"

#include "base/assert.h"
#include "cells/import/graph.h"

#include <stdio.h>
#include <string.h>

#define NESTED_MAX    64u   /* functions and graphs inside each other */
#define FUNCTIONS_MAX 4096u /* which are looked through for each node */

/* A call: what the names and attributes of its function stand for; NULL in the model's own graph.
 */
struct call {
    const Onnx__FunctionProto *function;
    const Onnx__NodeProto *node; /* in the caller's terms */
    uint32_t number;
};

/* The nodes of a graph that is made. */
struct list {
    Onnx__GraphProto *graph;
    size_t room;
};

/* Nodes that are left to copy. */
struct left {
    Onnx__NodeProto *const *at, *const *end;
    const struct call *call;
    struct list *to;
};

struct inlining {
    struct base_arena *arena;
    const Onnx__ModelProto *model;
    struct left left[NESTED_MAX];
    uint32_t n_left, n_calls, n_nodes;
    struct base_error *error;
};

static enum base_status no_memory(struct inlining *in)
{
    return base_fail(in->error, BASE_RESOURCE_EXHAUSTED,
                     "the model's functions take more memory "
                     "than there is for a file of its size");
}

static const char *text_of(const char *text)
{
    return text == NULL ? "" : text;
}

static bool is_standard(const char *domain)
{
    return domain == NULL || domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;
}

static int64_t opset_of(Onnx__OperatorSetIdProto *const *sets, size_t n)
{
    int64_t version = -1;
    for (size_t i = 0; i < n; i++) {
        version = is_standard(sets[i]->domain) ? sets[i]->version : version;
    }
    return version;
}

/* The function that a node stands for, or NULL. */
static const Onnx__FunctionProto *find(const struct inlining *in, const Onnx__NodeProto *node)
{
    for (size_t f = 0; f < in->model->n_functions && !is_standard(node->domain); f++) {
        const Onnx__FunctionProto *function = in->model->functions[f];
        if (strcmp(text_of(function->name), text_of(node->op_type)) == 0 &&
            strcmp(text_of(function->domain), text_of(node->domain)) == 0 &&
            strcmp(text_of(function->overload), text_of(node->overload)) == 0) {
            return function;
        }
    }
    return NULL;
}

/* ---- Names ---------------------------------------------------------------------------------- */

static char no_name[] = "";

/* The place of a name, or n. */
static size_t place_of(char *const *names, size_t n, const char *name)
{
    size_t i = 0;
    while (i < n && strcmp(names[i], name) != 0) {
        i++;
    }
    return i;
}

static enum base_status translate(struct inlining *in, const struct call *call, char *name,
                                  char **out)
{
    *out = name;
    if (call == NULL || name == NULL || name[0] == '\0') {
        return BASE_OK;
    }
    const Onnx__FunctionProto *of = call->function;
    const size_t input = place_of(of->input, of->n_input, name);
    if (input < of->n_input) {
        *out = input < call->node->n_input ? call->node->input[input] : no_name;
        return BASE_OK;
    }
    const size_t output = place_of(of->output, of->n_output, name);
    if (output < call->node->n_output && call->node->output[output][0] != '\0') {
        *out = call->node->output[output];
        return BASE_OK;
    }
    const size_t bytes = strlen(name) + 16;
    *out = base_arena_alloc(in->arena, bytes);
    if (*out == NULL) {
        return no_memory(in);
    }
    (void)snprintf(*out, bytes, "call%u/%s", call->number, name);
    return BASE_OK;
}

static enum base_status translate_all(struct inlining *in, const struct call *call, size_t n,
                                      char **names, char ***out)
{
    char **made = base_arena_array(in->arena, n, sizeof(*made));
    if (made == NULL) {
        return no_memory(in);
    }
    for (size_t i = 0; i < n; i++) {
        BASE_TRY(translate(in, call, names[i], &made[i]));
    }
    *out = made;
    return BASE_OK;
}

/* ---- Lists ---------------------------------------------------------------------------------- */

static enum base_status push_node(struct inlining *in, struct list *to, Onnx__NodeProto *node)
{
    Onnx__GraphProto *graph = to->graph;
    if (graph->n_node == to->room) {
        const size_t room = to->room < 8 ? 8 : 2 * to->room;
        Onnx__NodeProto **more = base_arena_array(in->arena, room, sizeof(void *));
        if (more == NULL) {
            return no_memory(in);
        }
        if (graph->n_node > 0) {
            memcpy(more, graph->node, graph->n_node * sizeof(void *));
        }
        graph->node = more;
        to->room = room;
    }
    graph->node[graph->n_node++] = node;
    return BASE_OK;
}

static enum base_status push_left(struct inlining *in, const struct left *left)
{
    if (in->n_left == NESTED_MAX) {
        return base_fail(in->error, BASE_UNIMPLEMENTED,
                         "functions and graphs stand inside each other more than %u deep",
                         NESTED_MAX);
    }
    in->left[in->n_left++] = *left;
    return BASE_OK;
}

/* ---- Attributes ----------------------------------------------------------------------------- */

static const Onnx__AttributeProto *find_attribute(Onnx__AttributeProto *const *list, size_t n,
                                                  const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(text_of(list[i]->name), name) == 0) {
            return list[i];
        }
    }
    return NULL;
}

/* The nodes of a branch or body are left to copy; its other names are translated here. */
static enum base_status copy_graph(struct inlining *in, const struct call *call,
                                   const Onnx__GraphProto *from, Onnx__GraphProto **out)
{
    Onnx__GraphProto *graph = base_arena_alloc(in->arena, sizeof(*graph));
    struct list *list = base_arena_alloc(in->arena, sizeof(*list));
    Onnx__TensorProto **tensors = base_arena_array(in->arena, from->n_initializer, sizeof(void *));
    if (graph == NULL || list == NULL || tensors == NULL) {
        return no_memory(in);
    }
    *graph = *from;
    graph->n_node = 0;
    graph->node = NULL;
    *list = (struct list){.graph = graph};
    Onnx__ValueInfoProto **const infos[] = {from->input, from->output};
    const size_t counts[] = {from->n_input, from->n_output};
    for (size_t k = 0; k < 2 && call != NULL; k++) {
        Onnx__ValueInfoProto **made = base_arena_array(in->arena, counts[k], sizeof(void *));
        for (size_t i = 0; made != NULL && i < counts[k]; i++) {
            made[i] = base_arena_alloc(in->arena, sizeof(*made[i]));
            if (made[i] == NULL) {
                return no_memory(in);
            }
            *made[i] = *infos[k][i];
            BASE_TRY(translate(in, call, infos[k][i]->name, &made[i]->name));
        }
        if (made == NULL) {
            return no_memory(in);
        }
        *(k == 0 ? &graph->input : &graph->output) = made;
    }
    for (size_t i = 0; i < from->n_initializer; i++) {
        tensors[i] = base_arena_alloc(in->arena, sizeof(*tensors[i]));
        if (tensors[i] == NULL) {
            return no_memory(in);
        }
        *tensors[i] = *from->initializer[i];
        BASE_TRY(translate(in, call, from->initializer[i]->name, &tensors[i]->name));
    }
    graph->initializer = tensors;
    *out = graph;
    const struct left left = {from->node, from->node + from->n_node, call, list};
    return push_left(in, &left);
}

/* *out NULL: the node has none, and neither has the function. */
static enum base_status copy_attribute(struct inlining *in, const struct call *call,
                                       Onnx__AttributeProto *from, Onnx__AttributeProto **out)
{
    const bool is_asked = text_of(from->ref_attr_name)[0] != '\0';
    *out = from;
    if ((!is_asked || call == NULL) && from->g == NULL) {
        return BASE_OK;
    }
    const Onnx__AttributeProto *given = from;
    if (is_asked && call != NULL) {
        const Onnx__FunctionProto *of = call->function;
        given = find_attribute(call->node->attribute, call->node->n_attribute, from->ref_attr_name);
        given = given != NULL ? given
                              : find_attribute(of->attribute_proto, of->n_attribute_proto,
                                               from->ref_attr_name);
    }
    *out = given == NULL ? NULL : base_arena_alloc(in->arena, sizeof(**out));
    if (given == NULL) {
        return BASE_OK;
    }
    if (*out == NULL) {
        return no_memory(in);
    }
    **out = *given;
    (*out)->name = from->name;
    return from->g == NULL || is_asked ? BASE_OK : copy_graph(in, call, from->g, &(*out)->g);
}

/* ---- Nodes ---------------------------------------------------------------------------------- */

static enum base_status copy_node(struct inlining *in, const struct call *call,
                                  const Onnx__NodeProto *from, Onnx__NodeProto **out)
{
    Onnx__NodeProto *node = base_arena_alloc(in->arena, sizeof(*node));
    Onnx__AttributeProto **attributes =
        base_arena_array(in->arena, from->n_attribute, sizeof(Onnx__AttributeProto *));
    if (node == NULL || attributes == NULL) {
        return no_memory(in);
    }
    *node = *from;
    BASE_TRY(translate_all(in, call, from->n_input, from->input, &node->input));
    BASE_TRY(translate_all(in, call, from->n_output, from->output, &node->output));
    node->n_attribute = 0;
    node->attribute = attributes;
    for (size_t i = 0; i < from->n_attribute; i++) {
        BASE_TRY(copy_attribute(in, call, from->attribute[i], &attributes[node->n_attribute]));
        node->n_attribute += attributes[node->n_attribute] != NULL ? 1 : 0;
    }
    *out = node;
    return BASE_OK;
}

static enum base_status check_call(struct inlining *in, const Onnx__FunctionProto *function,
                                   const Onnx__NodeProto *node)
{
    char text[CELL__TEXT_BYTES];
    const char *name = cell__quote(text, function->name);
    const int64_t own = opset_of(function->opset_import, function->n_opset_import);
    const int64_t opset = opset_of(in->model->opset_import, in->model->n_opset_import);
    if (function->n_input > CELL__OPERANDS_MAX || function->n_output > CELL__OPERANDS_MAX) {
        return base_fail(in->error, BASE_UNIMPLEMENTED,
                         "function \"%s\" has more than %u inputs or outputs", name,
                         CELL__OPERANDS_MAX);
    }
    if (node->n_input > function->n_input || node->n_output > function->n_output) {
        return base_fail(in->error, BASE_INVALID_ARGUMENT,
                         "a node of function \"%s\" has %zu inputs and %zu outputs; it takes %zu "
                         "and gives %zu",
                         name, node->n_input, node->n_output, function->n_input,
                         function->n_output);
    }
    if (own >= 0 && own != opset) {
        return base_fail(in->error, BASE_UNIMPLEMENTED,
                         "function \"%s\" is of opset %lld, and the graph of %lld", name,
                         (long long)own, (long long)opset);
    }
    for (size_t i = 0; i < function->n_attribute; i++) {
        if (find_attribute(node->attribute, node->n_attribute, function->attribute[i]) == NULL) {
            char attribute[CELL__TEXT_BYTES];
            return base_fail(in->error, BASE_INVALID_ARGUMENT,
                             "a node of function \"%s\" lacks its attribute \"%s\"", name,
                             cell__quote(attribute, function->attribute[i]));
        }
    }
    return BASE_OK;
}

/* Outputs that are inputs as they are. */
static enum base_status hand_on(struct inlining *in, const struct call *call, struct list *to)
{
    static char identity[] = "Identity";
    const Onnx__FunctionProto *of = call->function;
    for (size_t i = 0; i < call->node->n_output; i++) {
        const size_t input = place_of(of->input, of->n_input, of->output[i]);
        if (input == of->n_input || call->node->output[i][0] == '\0') {
            continue;
        }
        Onnx__NodeProto *node = base_arena_alloc(in->arena, sizeof(*node));
        char **names = base_arena_array(in->arena, 2, sizeof(*names));
        if (node == NULL || names == NULL) {
            return no_memory(in);
        }
        onnx__node_proto__init(node);
        names[0] = input < call->node->n_input ? call->node->input[input] : no_name;
        names[1] = call->node->output[i];
        node->op_type = identity;
        node->n_input = node->n_output = 1;
        node->input = &names[0];
        node->output = &names[1];
        BASE_TRY(push_node(in, to, node));
    }
    return BASE_OK;
}

static enum base_status begin_call(struct inlining *in, const Onnx__FunctionProto *function,
                                   const Onnx__NodeProto *node, struct list *to)
{
    struct call *call = base_arena_alloc(in->arena, sizeof(*call));
    if (call == NULL) {
        return no_memory(in);
    }
    BASE_TRY(check_call(in, function, node));
    *call = (struct call){function, node, in->n_calls++};
    BASE_TRY(hand_on(in, call, to));
    const struct left left = {function->node, function->node + function->n_node, call, to};
    return push_left(in, &left);
}

static enum base_status next_node(struct inlining *in)
{
    struct left *left = &in->left[in->n_left - 1];
    if (left->at == left->end) {
        in->n_left--;
        return BASE_OK;
    }
    if (in->n_nodes++ == CELL__NODES_MAX) {
        return base_fail(in->error, BASE_RESOURCE_EXHAUSTED,
                         "the model's functions stand for more than %u nodes", CELL__NODES_MAX);
    }
    const Onnx__NodeProto *from = *left->at++;
    const struct call *call = left->call;
    struct list *to = left->to; // copying may add to the stack
    Onnx__NodeProto *node = NULL;
    BASE_TRY(copy_node(in, call, from, &node));
    base_assert(node != NULL);
    const Onnx__FunctionProto *function = find(in, node);
    return function != NULL ? begin_call(in, function, node, to) : push_node(in, to, node);
}

enum base_status cell__functions_inline(struct base_arena *arena, Onnx__ModelProto *model,
                                        Onnx__ModelProto **out, struct base_error *error)
{
    *out = model;
    if (model->n_functions == 0 || model->graph == NULL) {
        return BASE_OK;
    }
    if (model->n_functions > FUNCTIONS_MAX) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "%zu functions; at most %u",
                         model->n_functions, FUNCTIONS_MAX);
    }
    struct inlining *in = base_arena_alloc(arena, sizeof(*in));
    Onnx__ModelProto *made = base_arena_alloc(arena, sizeof(*made));
    if (in == NULL || made == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for the model's functions");
    }
    *in = (struct inlining){.arena = arena, .model = model, .error = error};
    *made = *model;
    BASE_TRY(copy_graph(in, NULL, model->graph, &made->graph));
    while (in->n_left > 0) {
        BASE_TRY(next_node(in));
    }
    *out = made;
    return BASE_OK;
}
