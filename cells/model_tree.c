/* Tree models: three parts, each imported on its own, bound to each other by the names of their
 * tensors. Loop thread. */
#include "cells/model.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define PATH_BYTES 4096

/* The name of the input that says which are a node's children. */
#define CHILDREN "children"

static const char *const part_names[] = {"leaf", "node", "root"};

/* What a tree is made of while it is bound. parts[CELL_TREE_ROOT]: NULL when there is none. */
struct binding {
    struct cell_model *parts[3];
    struct cell_model *tree;
    struct base_error *error;
};

/* ---- Loading the parts -------------------------------------------------------------------- */

static enum base_status load_part(struct binding *b, struct cell_registry *registry,
                                  const char *folder, uint32_t part, const char *label,
                                  const struct cell_model_options *options)
{
    char path[PATH_BYTES];
    char name[64];
    struct base_error why = {.status = BASE_OK};
    struct cell_model_options own = *options;
    own.is_part = true;
    int length = snprintf(path, sizeof(path), "%s/%s.onnx", folder, part_names[part]);
    if (length < 0 || length >= PATH_BYTES) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT, "%.200s: path too long", folder);
    }
    (void)snprintf(name, sizeof(name), "%.48s/%s", label, part_names[part]);
    enum base_status status = cell_model_load(registry, path, name, &own, &b->parts[part], &why);
    if (status == BASE_NOT_FOUND && part == CELL_TREE_ROOT) {
        return BASE_OK;
    }
    if (status != BASE_OK) {
        return base_fail(b->error, status, "%s.onnx: %s", part_names[part], why.message);
    }
    if (b->parts[part]->n_stages != 1) {
        return base_fail(b->error, BASE_UNIMPLEMENTED, "%s.onnx: computes nothing",
                         part_names[part]);
    }
    return BASE_OK;
}

/* ---- Values: what leaves and nodes hand up ------------------------------------------------ */

static struct cell_value value_of(const struct cell_model *part, uint32_t output)
{
    return (struct cell_value){part->outputs[output].dtype, part->outputs[output].width};
}

/* A node's outputs, whatever their order, are a leaf's. */
static enum base_status check_values(const struct binding *b)
{
    const struct cell_model *leaf = b->parts[CELL_TREE_LEAF];
    const struct cell_model *node = b->parts[CELL_TREE_NODE];
    if (leaf->n_outputs != node->n_outputs) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "leaf.onnx has %u outputs, node.onnx %u; they must have the same",
                         leaf->n_outputs, node->n_outputs);
    }
    if (leaf->n_outputs > CELL_OUTPUTS_MAX) {
        return base_fail(b->error, BASE_UNIMPLEMENTED, "leaf.onnx: more than %u outputs",
                         CELL_OUTPUTS_MAX);
    }
    for (uint32_t o = 0; o < leaf->n_outputs; o++) {
        struct cell_value want = value_of(leaf, o);
        struct cell_value got = value_of(node, o);
        if (strcmp(leaf->outputs[o].name, node->outputs[o].name) != 0 || want.dtype != got.dtype ||
            want.width != got.width) {
            return base_fail(b->error, BASE_INVALID_ARGUMENT,
                             "output %u of leaf.onnx is '%.60s' of width %u, of node.onnx '%.60s' "
                             "of width %u; they must be the same",
                             o, leaf->outputs[o].name, want.width, node->outputs[o].name,
                             got.width);
        }
    }
    return BASE_OK;
}

/* The value that a name stands for, and of which child: "h_1" is h of child 1. A root's names stand
 * for the values themselves. false: it is no such name. */
static bool find_value(const struct cell_model *leaf, const char *name, bool is_root,
                       struct cell_source *out)
{
    for (uint32_t o = 0; o < leaf->n_outputs; o++) {
        const char *value = leaf->outputs[o].name;
        size_t length = strlen(value);
        if (strncmp(name, value, length) != 0) {
            continue;
        }
        const char *rest = name + length;
        bool is_child = !is_root && rest[0] == '_' && rest[1] >= '0' &&
                        rest[1] < '0' + (int)CELL_CHILDREN_MAX && rest[2] == '\0';
        if (is_child || (is_root && rest[0] == '\0')) {
            *out = (struct cell_source){.kind = CELL_SOURCE_CHILD,
                                        .index = o,
                                        .piece = is_child ? (uint32_t)(rest[1] - '0') : 0};
            return true;
        }
    }
    return false;
}

/* ---- Inputs ------------------------------------------------------------------------------- */

static enum base_status add_input(const struct binding *b, const struct cell_tensor *tensor,
                                  uint32_t *out)
{
    struct cell_model *tree = b->tree;
    for (uint32_t i = 0; i < tree->n_inputs; i++) {
        if (strcmp(tree->inputs[i].name, tensor->name) == 0) {
            return base_fail(b->error, BASE_INVALID_ARGUMENT,
                             "two inputs of the model would be called '%.60s'", tensor->name);
        }
    }
    if (tree->n_inputs == CELL_TENSORS_MAX) {
        return base_fail(b->error, BASE_UNIMPLEMENTED, "more than %u inputs", CELL_TENSORS_MAX);
    }
    *out = tree->n_inputs;
    tree->inputs[tree->n_inputs++] = *tensor;
    return BASE_OK;
}

/* A part's inputs: values from below, or tensors of the request. numbers: of the model's inputs, by
 * the part's; sources: by the part's. */
static enum base_status bind_tensors(const struct binding *b, uint32_t part,
                                     struct cell_source sources[CELL_TENSORS_MAX])
{
    const struct cell_model *leaf = b->parts[CELL_TREE_LEAF];
    const struct cell_model *from = b->parts[part];
    for (uint32_t i = 0; i < from->n_inputs; i++) {
        const struct cell_tensor *tensor = &from->inputs[i];
        bool is_value = part != CELL_TREE_LEAF &&
                        find_value(leaf, tensor->name, part == CELL_TREE_ROOT, &sources[i]);
        if (!is_value && part == CELL_TREE_ROOT) {
            return base_fail(b->error, BASE_INVALID_ARGUMENT,
                             "root.onnx: input '%.60s' is none of the outputs of node.onnx",
                             tensor->name);
        }
        if (!is_value) {
            sources[i] = (struct cell_source){.kind = CELL_SOURCE_INPUT};
            BASE_TRY(add_input(b, tensor, &sources[i].index));
            continue;
        }
        struct cell_value want = value_of(leaf, sources[i].index);
        if (tensor->dtype != want.dtype || tensor->width != want.width || tensor->pieces != 1) {
            return base_fail(b->error, BASE_INVALID_ARGUMENT,
                             "%s.onnx: input '%.60s' has width %u, the output it is of has %u",
                             part_names[part], tensor->name, tensor->width, want.width);
        }
        if (part == CELL_TREE_NODE && sources[i].piece >= b->tree->tree.n_children) {
            b->tree->tree.n_children = sources[i].piece + 1;
        }
    }
    return BASE_OK;
}

/* Takes over a part's stage, whose sources are now the tree's. */
static void take_stage(const struct binding *b, struct cell_registry *registry, uint32_t part,
                       const struct cell_source sources[CELL_TENSORS_MAX])
{
    const struct cell_stage *from = &b->parts[part]->stages[0];
    struct cell_stage *to = &b->tree->stages[part];
    *to = *from;
    base_assert(from->kind == CELL_STAGE_ONCE);
    for (uint32_t i = 0; i < from->type->def.n_inputs; i++) {
        base_assert(from->inputs[i].kind == CELL_SOURCE_INPUT);
        to->inputs[i] = sources[from->inputs[i].index];
        if (to->inputs[i].kind == CELL_SOURCE_INPUT) {
            to->inputs[i].piece = from->inputs[i].piece;
        }
    }
    cell_type_ref(registry, to->type);
    b->tree->n_stages = part + 1;
    b->tree->file_bytes += b->parts[part]->file_bytes;
}

static enum base_status add_children(const struct binding *b)
{
    const uint32_t n = b->tree->tree.n_children;
    struct cell_tensor children = {.name = CHILDREN,
                                   .dtype = CELL_I64,
                                   .rank = 2,
                                   .dims = {CELL_DIM_ANY, n},
                                   .time_axis = -1,
                                   .piece_axis = -1,
                                   .pieces = 1,
                                   .width = n};
    if (n == 0) {
        return base_fail(b->error, BASE_INVALID_ARGUMENT,
                         "node.onnx: no input is a child's, such as '%.60s_0'",
                         b->parts[CELL_TREE_LEAF]->outputs[0].name);
    }
    return add_input(b, &children, &b->tree->tree.children_input);
}

/* Outputs are the root part's, or what a root hands up. */
static void set_outputs(const struct binding *b)
{
    struct cell_model *tree = b->tree;
    const struct cell_model *from = b->parts[tree->tree.has_root ? CELL_TREE_ROOT : CELL_TREE_NODE];
    tree->n_outputs = from->n_outputs;
    memcpy(tree->outputs, from->outputs, sizeof(tree->outputs));
    memcpy(tree->output_sources, from->output_sources, sizeof(tree->output_sources));
    for (uint32_t o = 0; o < tree->n_outputs && !tree->tree.has_root; o++) {
        tree->output_sources[o][0] = (struct cell_source){.kind = CELL_SOURCE_CHILD, .index = o};
    }
    (void)snprintf(tree->producer, sizeof(tree->producer), "%s", from->producer);
}

static enum base_status bind(struct binding *b, struct cell_registry *registry)
{
    struct cell_tree *tree = &b->tree->tree;
    struct cell_source sources[3][CELL_TENSORS_MAX];
    BASE_TRY(check_values(b));
    tree->n_values = b->parts[CELL_TREE_LEAF]->n_outputs;
    for (uint32_t part = 0; part < 2; part++) {
        for (uint32_t v = 0; v < tree->n_values; v++) {
            tree->outputs[part][v] = b->parts[part]->output_sources[v][0].index;
        }
    }
    b->tree->unfold = CELL_UNFOLD_TREE;
    tree->has_root = b->parts[CELL_TREE_ROOT] != NULL;
    for (uint32_t part = 0; part < (tree->has_root ? 3u : 2u); part++) {
        BASE_TRY(bind_tensors(b, part, sources[part]));
        if (part == CELL_TREE_LEAF) {
            tree->n_leaf_inputs = b->tree->n_inputs;
        } else if (part == CELL_TREE_NODE) {
            tree->n_node_inputs = b->tree->n_inputs - tree->n_leaf_inputs;
            BASE_TRY(add_children(b));
        }
    }
    for (uint32_t part = 0; part < (tree->has_root ? 3u : 2u); part++) {
        take_stage(b, registry, part, sources[part]);
    }
    set_outputs(b);
    return BASE_OK;
}

static enum base_status load_parts(struct binding *b, struct cell_registry *registry,
                                   const char *folder, const char *label,
                                   const struct cell_model_options *options)
{
    for (uint32_t part = 0; part < 3; part++) {
        BASE_TRY(load_part(b, registry, folder, part, label, options));
    }
    return BASE_OK;
}

static enum base_status make_tree(struct binding *b, struct cell_registry *registry,
                                  const struct cell_model_options *options)
{
    b->tree = base_alloc(sizeof(*b->tree));
    if (b->tree == NULL) {
        return base_fail(b->error, BASE_RESOURCE_EXHAUSTED, "no memory for a model");
    }
    b->tree->options = *options;
    return bind(b, registry);
}

enum base_status cell_model_load_tree(struct cell_registry *registry, const char *folder,
                                      const char *label, const struct cell_model_options *options,
                                      struct cell_model **out, struct base_error *error)
{
    const struct cell_model_options plain = {.precision = CELL_FP32};
    const struct cell_model_options *given = options == NULL ? &plain : options;
    struct base_error own = {.status = BASE_OK};
    struct binding b = {.error = error == NULL ? &own : error};
    *out = NULL;
    enum base_status status = load_parts(&b, registry, folder, label, given);
    if (status == BASE_OK) {
        status = make_tree(&b, registry, given);
    }
    for (uint32_t part = 0; part < 3; part++) {
        cell_model_free(registry, b.parts[part]);
    }
    if (status != BASE_OK) {
        cell_model_free(registry, b.tree);
        return status;
    }
    *out = b.tree;
    return BASE_OK;
}
