/* See choice.h. What a branch computes in vain nobody sees: no operator of a cell has an effect of
 * its own. Both must make the same shapes, so that what is chosen is one tensor at every step. */
#include "cells/import/choice.h"

#include "cells/import/ops.h"
#include "cells/import/rows.h"

#include <string.h>

/* ---- Both branches as one graph ----------------------------------------------------------- */

static const Onnx__GraphProto *branch_of(const Onnx__NodeProto *proto, const char *name)
{
    const struct cell__node node = {.proto = proto};
    const Onnx__AttributeProto *branch = cell__attr(&node, name);
    return branch == NULL ? NULL : branch->g;
}

/* A condition of one element that each step has. */
static bool has_condition(struct cell__import *im, const Onnx__NodeProto *proto)
{
    uint32_t v = 0;
    if (proto->n_input != 1 || cell__value_named(im, proto->input[0], &v) != BASE_OK) {
        return false;
    }
    const struct cell__value *value = &im->values[v];
    if (value->kind == CELL__COUNTER) {
        return value->dtype == CELL__BOOL; // not the last step
    }
    bool is_one = value->kind == CELL__ROWS && value->dtype == CELL__BOOL;
    for (uint32_t k = 0; is_one && k < value->shape.rank; k++) {
        is_one = cell__axis_size(im, &value->shape.axes[k]) == 1;
    }
    return is_one;
}

static bool names(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t n = 0; n < graph->n_node; n++) {
        for (size_t i = 0; i < graph->node[n]->n_output; i++) {
            if (strcmp(graph->node[n]->output[i], name) == 0) {
                return true;
            }
        }
    }
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const char *own = graph->initializer[i]->name;
        if (own != NULL && strcmp(own, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool name_alike(const Onnx__GraphProto *one, const Onnx__GraphProto *other)
{
    for (size_t n = 0; n < other->n_node; n++) {
        for (size_t i = 0; i < other->node[n]->n_output; i++) {
            const char *name = other->node[n]->output[i];
            if (name[0] != '\0' && names(one, name)) {
                return true;
            }
        }
    }
    for (size_t i = 0; i < other->n_initializer; i++) {
        const char *name = other->initializer[i]->name;
        if (name != NULL && names(one, name)) {
            return true;
        }
    }
    return false;
}

/* n pointers of one list and m of another, behind `room` others. */
static void *join(struct cell__import *im, size_t room, const void *one, size_t n,
                  const void *other, size_t m)
{
    void **list = base_arena_array(im->arena, room + n + m + 1, sizeof(*list));
    if (list != NULL && n > 0) {
        memcpy(list + room, one, n * sizeof(*list));
    }
    if (list != NULL && m > 0) {
        memcpy(list + room + n, other, m * sizeof(*list));
    }
    return list;
}

const Onnx__GraphProto *cell__write_choice(struct cell__import *im, const Onnx__NodeProto *proto)
{
    const Onnx__GraphProto *then = branch_of(proto, "then_branch");
    const Onnx__GraphProto *other = branch_of(proto, "else_branch");
    Onnx__GraphProto *graph = base_arena_alloc(im->arena, sizeof(*graph));
    Onnx__ValueInfoProto *condition = base_arena_alloc(im->arena, sizeof(*condition));
    if (graph == NULL || condition == NULL || im->scan == CELL__NONE || then == NULL ||
        other == NULL || then->n_output != proto->n_output || other->n_output != proto->n_output ||
        !has_condition(im, proto) || name_alike(then, other)) {
        return NULL;
    }
    onnx__graph_proto__init(graph);
    onnx__value_info_proto__init(condition);
    condition->name = proto->input[0];
    graph->node = join(im, 0, then->node, then->n_node, other->node, other->n_node);
    graph->n_node = then->n_node + other->n_node;
    graph->initializer = join(im, 0, then->initializer, then->n_initializer, other->initializer,
                              other->n_initializer);
    graph->n_initializer = then->n_initializer + other->n_initializer;
    graph->output = join(im, 1, then->output, then->n_output, other->output, other->n_output);
    graph->n_output = 1 + then->n_output + other->n_output;
    if (graph->node == NULL || graph->initializer == NULL || graph->output == NULL) {
        return NULL;
    }
    graph->output[0] = condition;
    return graph;
}

/* ---- Behind them -------------------------------------------------------------------------- */

/* Sizes that a request chooses must be the same one; a constant fixes none of them. */
static enum base_status unite(struct cell__import *im, const struct cell__shape *one,
                              const struct cell__shape *other)
{
    bool is_same = one->rank == other->rank;
    for (uint32_t k = 0; is_same && k < one->rank; k++) {
        const int64_t size = cell__axis_size(im, &one->axes[k]);
        is_same = size == cell__axis_size(im, &other->axes[k]);
        if (is_same && size != 1) {
            BASE_TRY(cell__axis_unite(im, &one->axes[k], &other->axes[k], "of both branches"));
        }
    }
    return is_same ? BASE_OK : cell__refuse(im, "branches that make tensors of other shapes");
}

static enum base_status infer_choice(struct cell__import *im, struct cell__node *node)
{
    if (node->n_inputs != 1 + 2 * node->n_outputs) {
        return cell__invalid(im, "the branches have %u outputs", node->n_inputs - 1);
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        struct cell__shape shapes[2];
        if (!cell__has_output(node, i)) {
            continue;
        }
        for (uint32_t b = 0; b < 2; b++) {
            const uint32_t at = 1 + i + b * node->n_outputs;
            if (!cell__has_input(node, at)) {
                return cell__invalid(im, "the branch lacks output %u", i);
            }
            const struct cell__value *of = cell__input(im, node, at);
            if ((of->kind != CELL__ROWS && of->kind != CELL__CONST) ||
                (of->dtype != CELL__F32 && of->dtype != CELL__BOOL) ||
                of->dtype != cell__input(im, node, 1 + i)->dtype) {
                return cell__refuse(im, "branches on a value that depends on the request, and "
                                        "makes other than floats");
            }
            BASE_TRY(cell__shape_of(im, of, &shapes[b]));
        }
        BASE_TRY(unite(im, &shapes[0], &shapes[1]));
        const bool is_const = cell__input(im, node, 1 + i)->kind == CELL__CONST;
        cell__set_rows(im, node, i, cell__input(im, node, 1 + i)->dtype, &shapes[is_const ? 1 : 0]);
    }
    return BASE_OK;
}

static enum base_status lower_choice(struct cell__import *im, struct cell__node *node)
{
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        struct cell_op op = {.kind = CELL_OP_SELECT, .n_operands = 3};
        struct cell_value value = {.dtype = CELL_F32};
        uint32_t row = CELL__NONE;
        if (!cell__has_output(node, i)) {
            continue;
        }
        const struct cell__shape *shape = &cell__output(im, node, i)->shape;
        op.operands[0] = cell__input(im, node, 0)->row;
        for (uint32_t b = 0; b < 2; b++) {
            const struct cell__value *of = cell__input(im, node, 1 + i + b * node->n_outputs);
            BASE_TRY(cell__row_of(im, of, shape, false, &op.operands[1 + b]));
        }
        BASE_TRY(cell__shape_width(im, shape, &value.width));
        if (im->rows[op.operands[1]].value.width != value.width ||
            im->rows[op.operands[2]].value.width != value.width) {
            return cell__refuse(im, "of rows that are no longer what their axes say");
        }
        BASE_TRY(cell__row_op(im, &op, value, &row));
        cell__set_row(im, node, i, row);
    }
    return BASE_OK;
}

const struct cell__operator cell__choice_end = {
    "If", 1, 1, CELL__OPERANDS_MAX, " then_branch else_branch ", infer_choice, lower_choice, ""};
