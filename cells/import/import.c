/* The way of a model through this folder: unpack, read the graph's inputs and constants, infer node
 * by node (an If on a constant condition is replaced by its branch), give roles to axes, lower what
 * the outputs need, build stages, describe inputs and outputs.
 *
 * A node that cannot be imported poisons what it makes; it is an error only when an output needs
 * it, so dead branches and left-overs of training do no harm. All working memory is one arena whose
 * budget follows the size of the file. No recursion anywhere. */
#include "cells/import/import.h"

#include "cells/import/ops.h"
#include "cells/import/stages.h"
#include "cells/import/tensors.h"
#include "cells/import/wire.h"

#include "base/assert.h"
#include "base/checked.h"

#include <stdio.h>
#include <string.h>

/* Graphs inside graphs. */
#define DEPTH_MAX   8u
#define ARENA_CHUNK (64u << 10)

/* What protobuf-c may take: four times the message and 64 KiB (DESIGN.md section 10), and what the
 * import may: weights transposed, sliced and joined again by exporters that do not fold. */
#define UNPACK_FACTOR 4u
#define IMPORT_FACTOR 6u
#define IMPORT_EXTRA  (4u << 20)

/* A graph being read, and the If or Scan that it is a part of (NULL: the model's). */
struct frame {
    const Onnx__GraphProto *graph;
    const Onnx__NodeProto *part_of;
    bool is_body;         /* of a Scan */
    uint32_t scan;        /* in whose body all of this stands: its number, or NONE */
    uint32_t first_value; /* of a body: its names end with it */
    size_t next;
};

/* A node to be added: as the file has it, or one at an end of a branch or body. */
struct wires {
    const Onnx__NodeProto *proto;
    const struct cell__operator *op;
    char *const *inputs, *const *outputs;
    size_t n_inputs, n_outputs;
    const struct frame *ends; /* the frame that this node ends, or NULL */
};

/* ---- Constants ---------------------------------------------------------------------------- */

static enum base_status define(struct cell__import *im, const char *name, uint32_t *out)
{
    char text[CELL__TEXT_BYTES];
    if (name == NULL || name[0] == '\0') {
        return cell__invalid(im, "a value without a name");
    }
    BASE_TRY(cell__value_named(im, name, out));
    if (im->values[*out].kind != CELL__UNSET) {
        return cell__invalid(im, "value \"%s\" is computed twice", cell__quote(text, name));
    }
    return BASE_OK;
}

/* Copies the error into the arena and marks the value. Running out of memory is an error at once.
 */
static enum base_status poison(struct cell__import *im, uint32_t v, const struct base_error *why)
{
    if (why->status == BASE_RESOURCE_EXHAUSTED) {
        return base_fail(im->error, why->status, "%s", why->message);
    }
    struct base_error *copy = base_arena_alloc(im->arena, sizeof(*copy));
    if (copy == NULL) {
        return cell__no_memory(im);
    }
    *copy = *why;
    im->values[v].kind = CELL__POISON;
    im->values[v].poison = copy;
    return BASE_OK;
}

static enum base_status read_constants(struct cell__import *im, const Onnx__GraphProto *graph)
{
    for (size_t i = 0; i < graph->n_initializer; i++) {
        uint32_t v = 0;
        struct base_error *outer = im->error;
        struct base_error why = {.status = BASE_OK};
        BASE_TRY(define(im, graph->initializer[i]->name, &v));
        im->error = &why;
        struct cell__tensor tensor;
        enum base_status status = cell__tensor_read(im, graph->initializer[i], &tensor);
        im->error = outer;
        if (status != BASE_OK) {
            BASE_TRY(poison(im, v, &why));
            continue;
        }
        im->values[v].kind = CELL__CONST;
        im->values[v].dtype = tensor.dtype;
        im->values[v].tensor = tensor;
    }
    return BASE_OK;
}

/* ---- Nodes -------------------------------------------------------------------------------- */

/* Value numbers for names; NONE for "". */
static enum base_status resolve(struct cell__import *im, char *const *names, size_t n,
                                bool is_output, uint32_t **out)
{
    char text[CELL__TEXT_BYTES];
    if (n > CELL__OPERANDS_MAX) {
        return cell__refuse(im, "%zu inputs or outputs; at most %u", n, CELL__OPERANDS_MAX);
    }
    *out = base_arena_array(im->arena, n + 1, sizeof(**out));
    if (*out == NULL) {
        return cell__no_memory(im);
    }
    for (size_t i = 0; i < n; i++) {
        (*out)[i] = CELL__NONE;
        if (names[i][0] == '\0') {
            continue;
        }
        if (is_output) {
            BASE_TRY(define(im, names[i], &(*out)[i]));
            im->values[(*out)[i]].node = im->current;
            im->values[(*out)[i]].kind = CELL__POISON; // until the node has set it
            continue;
        }
        BASE_TRY(cell__value_named(im, names[i], &(*out)[i]));
        if (im->values[(*out)[i]].kind == CELL__UNSET) {
            return cell__invalid(im, "input \"%s\" is not computed by any node before",
                                 cell__quote(text, names[i]));
        }
    }
    return BASE_OK;
}

/* What a body has named is no name any more: another body may use it again. */
static void hide_values(struct cell__import *im, uint32_t first)
{
    for (uint32_t v = first; v < im->n_values; v++) {
        im->values[v].is_hidden = true;
    }
}

/* A node with its inputs and outputs resolved. */
static enum base_status add_node(struct cell__import *im, const struct wires *wires)
{
    const struct frame *ends = wires->ends;
    void *array = im->nodes;
    BASE_TRY(cell__grow(im, &array, &im->nodes_room, im->n_nodes, sizeof(*im->nodes),
                        (struct cell__limit){CELL__NODES_MAX, "nodes"}));
    im->nodes = array;
    im->current = im->n_nodes++;
    struct cell__node *node = &im->nodes[im->current];
    *node = (struct cell__node){.proto = wires->proto,
                                .op = wires->op,
                                .recurrent = CELL__NONE,
                                .scan = im->scan,
                                .n_inputs = (uint32_t)wires->n_inputs,
                                .n_outputs = (uint32_t)wires->n_outputs};
    BASE_TRY(resolve(im, wires->inputs, wires->n_inputs, false, &node->inputs));
    if (ends != NULL && ends->is_body) {
        node->recurrent = ends->scan;
        hide_values(im, ends->first_value);
    }
    return resolve(im, wires->outputs, wires->n_outputs, true, &node->outputs);
}

static enum base_status check_node(struct cell__import *im, const struct cell__node *node)
{
    const Onnx__NodeProto *proto = node->proto;
    const struct cell__operator *op = node->op;
    char text[CELL__TEXT_BYTES];
    bool is_known =
        proto->domain == NULL || proto->domain[0] == '\0' || strcmp(proto->domain, "ai.onnx") == 0;
    if (!is_known) {
        return cell__refuse(im, "operator of another domain, \"%s\"",
                            cell__quote(text, proto->domain));
    }
    if (op == NULL) {
        return cell__refuse(im, "the operator is not supported");
    }
    uint32_t inputs = proto->n_input > UINT32_MAX ? UINT32_MAX : (uint32_t)proto->n_input;
    if (inputs < op->inputs_min || inputs > op->inputs_max || node->n_outputs > op->outputs_max) {
        return cell__invalid(im, "%u inputs and %u outputs", inputs, node->n_outputs);
    }
    for (uint32_t i = 0; i < op->inputs_min && i < node->n_inputs; i++) {
        if (node->inputs[i] == CELL__NONE) {
            return cell__invalid(im, "input %u is missing", i);
        }
    }
    for (uint32_t i = 0; i < node->n_inputs && !cell__operator_takes_lists(op); i++) {
        if (cell__has_input(node, i) && (cell__input(im, node, i)->kind == CELL__COUNTER ||
                                         cell__input(im, node, i)->kind == CELL__LIST)) {
            return cell__refuse(im, "computes with the number of the step, or with a sequence of "
                                    "tensors");
        }
    }
    for (size_t i = 0; i < proto->n_attribute; i++) {
        char known[CELL__TEXT_BYTES + 2];
        const Onnx__AttributeProto *a = proto->attribute[i];
        snprintf(known, sizeof(known), " %s ", cell__quote(text, a->name));
        if (strstr(op->attributes, known) == NULL) {
            return cell__refuse(im, "attribute \"%s\"", text);
        }
        if (a->ref_attr_name != NULL && a->ref_attr_name[0] != '\0') {
            return cell__refuse(im, "attribute \"%s\" refers to a function", text);
        }
    }
    return BASE_OK;
}

/* The error of an input that could not be computed, or NULL. */
static const struct base_error *poison_of_inputs(struct cell__import *im,
                                                 const struct cell__node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (cell__has_input(node, i) && cell__input(im, node, i)->kind == CELL__POISON) {
            return cell__input(im, node, i)->poison;
        }
    }
    return NULL;
}

static enum base_status infer_node(struct cell__import *im, struct cell__node *node)
{
    const struct base_error *before = poison_of_inputs(im, node);
    struct base_error *outer = im->error;
    struct base_error why = {.status = BASE_OK};
    if (before == NULL) {
        im->error = &why;
        enum base_status status = check_node(im, node);
        if (status == BASE_OK && node->op != NULL) {
            status = node->op->infer(im, node);
        }
        im->error = outer;
        base_assert(status == BASE_OK || status == why.status);
        before = status == BASE_OK ? NULL : &why;
    }
    node->is_folded = true;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (!cell__has_output(node, i)) {
            continue;
        }
        if (before != NULL) {
            BASE_TRY(poison(im, node->outputs[i], before));
        }
        const struct cell__value *value = cell__output(im, node, i);
        base_assert(value->kind != CELL__POISON || value->poison != NULL);
        bool is_known = value->kind == CELL__CONST || value->kind == CELL__POISON;
        bool is_empty = value->kind == CELL__LIST && node->op->lower == NULL; // SequenceEmpty
        node->is_folded = node->is_folded && (is_known || is_empty);
    }
    return BASE_OK;
}

/* ---- If ----------------------------------------------------------------------------------- */

enum base_status cell__infer_branch(struct cell__import *im, struct cell__node *node)
{
    if (node->n_inputs != node->n_outputs) {
        return cell__invalid(im, "the branch has %u outputs", node->n_inputs);
    }
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        if (!cell__has_input(node, i)) {
            return cell__invalid(im, "the branch lacks output %u", i);
        }
        const struct cell__value *in = cell__input(im, node, i);
        if (in->kind == CELL__CONST) {
            cell__set_const(im, node, i, &in->tensor);
        } else {
            cell__set_rows(im, node, i, in->dtype, &in->shape);
        }
    }
    return BASE_OK;
}

enum base_status cell__lower_branch(struct cell__import *im, struct cell__node *node)
{
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        cell__set_row(im, node, i, cell__input(im, node, i)->row);
    }
    return BASE_OK;
}

static enum base_status refuse_branch(struct cell__import *im, struct cell__node *node)
{
    (void)node;
    return cell__refuse(im,
                        "branches on a value that depends on the request, or nests more than "
                        "%u deep",
                        DEPTH_MAX);
}

/* Stands for an If whose branch is not known. */
static const struct cell__operator open_branch = {
    "If", 1, 1, CELL__OPERANDS_MAX, " then_branch else_branch ", refuse_branch, NULL, ""};

/* The branch of an If, or NULL when the condition is not known (then the If stays, refused). */
static const Onnx__GraphProto *choose_branch(struct cell__import *im, const Onnx__NodeProto *proto)
{
    uint32_t v = 0;
    const Onnx__GraphProto *branches[2] = {NULL, NULL}; // else, then
    if (proto->n_input != 1 || cell__value_named(im, proto->input[0], &v) != BASE_OK) {
        return NULL;
    }
    const struct cell__value *condition = &im->values[v];
    if (condition->kind != CELL__CONST || condition->dtype != CELL__BOOL ||
        condition->tensor.count != 1) {
        return NULL;
    }
    for (size_t i = 0; i < proto->n_attribute; i++) {
        const char *name = proto->attribute[i]->name;
        if (name != NULL && strcmp(name, "then_branch") == 0) {
            branches[1] = proto->attribute[i]->g;
        } else if (name != NULL && strcmp(name, "else_branch") == 0) {
            branches[0] = proto->attribute[i]->g;
        }
    }
    return branches[*(const uint8_t *)condition->tensor.data != 0];
}

/* ---- Scan --------------------------------------------------------------------------------- */

static bool is_standard(const Onnx__NodeProto *proto, const char *name)
{
    return proto->op_type != NULL && strcmp(proto->op_type, name) == 0 &&
           (proto->domain == NULL || proto->domain[0] == '\0');
}

/* The body of a Scan or Loop, or NULL. */
static const Onnx__GraphProto *body_of(const Onnx__NodeProto *proto)
{
    if (!is_standard(proto, "Scan") && !is_standard(proto, "Loop")) {
        return NULL;
    }
    for (size_t i = 0; i < proto->n_attribute; i++) {
        const char *name = proto->attribute[i]->name;
        if (name != NULL && strcmp(name, "body") == 0) {
            return proto->attribute[i]->g;
        }
    }
    return NULL;
}

/* ---- The walk over the graph -------------------------------------------------------------- */

/* Adds one node and infers it. */
static enum base_status walk_node(struct cell__import *im, const struct wires *wires)
{
    BASE_TRY(add_node(im, wires));
    enum base_status status = infer_node(im, &im->nodes[im->current]);
    im->current = CELL__NONE;
    return status;
}

static enum base_status walk_plain(struct cell__import *im, const Onnx__NodeProto *proto)
{
    const struct cell__operator *op =
        proto->op_type == NULL ? NULL : cell__operator_find(proto->op_type);
    struct wires wires = {.proto = proto,
                          .op = is_standard(proto, "If") ? &open_branch : op,
                          .inputs = proto->input,
                          .n_inputs = proto->n_input,
                          .outputs = proto->output,
                          .n_outputs = proto->n_output};
    return walk_node(im, &wires);
}

/* The names of a graph's inputs or outputs. */
static enum base_status names_of(struct cell__import *im, Onnx__ValueInfoProto *const *infos,
                                 size_t n, char *names[])
{
    static char none[] = "";
    if (n > CELL__OPERANDS_MAX) {
        return cell__refuse(im, "a part of the graph has %zu inputs or outputs; at most %u", n,
                            CELL__OPERANDS_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        names[i] = infos[i]->name == NULL ? none : infos[i]->name;
    }
    return BASE_OK;
}

/* The node behind a branch or body: it reads what that has computed. */
static enum base_status walk_end(struct cell__import *im, const struct frame *frame)
{
    const Onnx__NodeProto *proto = frame->part_of;
    char *names[CELL__OPERANDS_MAX];
    BASE_TRY(names_of(im, frame->graph->output, frame->graph->n_output, names));
    struct wires wires = {.proto = proto,
                          .op = cell__operator_find(proto->op_type),
                          .inputs = names,
                          .n_inputs = frame->graph->n_output,
                          .outputs = proto->output,
                          .n_outputs = proto->n_output,
                          .ends = frame};
    return walk_node(im, &wires);
}

/* The node before a body. */
static enum base_status walk_begin(struct cell__import *im, struct frame *frame)
{
    const Onnx__NodeProto *proto = frame->part_of;
    char *names[CELL__OPERANDS_MAX];
    BASE_TRY(names_of(im, frame->graph->input, frame->graph->n_input, names));
    struct wires wires = {.proto = proto,
                          .op = is_standard(proto, "Loop") ? &cell__loop_begin : &cell__scan_begin,
                          .inputs = proto->input,
                          .n_inputs = proto->n_input,
                          .outputs = names,
                          .n_outputs = frame->graph->n_input};
    frame->first_value = im->n_values;
    BASE_TRY(walk_node(im, &wires));
    frame->scan = im->nodes[im->n_nodes - 1].recurrent;
    return BASE_OK;
}

/* The next node of the innermost graph: added, or, a Scan or an If on a constant, entered. */
static enum base_status walk_next(struct cell__import *im, struct frame *frames, uint32_t *depth)
{
    struct frame *frame = &frames[*depth - 1];
    const Onnx__NodeProto *proto = frame->graph->node[frame->next++];
    const Onnx__GraphProto *branch = is_standard(proto, "If") ? choose_branch(im, proto) : NULL;
    const Onnx__GraphProto *body = body_of(proto);
    const Onnx__GraphProto *part = branch != NULL ? branch : body;
    if (part == NULL || *depth == DEPTH_MAX) {
        return walk_plain(im, proto);
    }
    struct frame inner = {
        .graph = part, .part_of = proto, .is_body = body != NULL, .scan = frame->scan};
    if (inner.is_body) {
        BASE_TRY(walk_begin(im, &inner));
    }
    frames[(*depth)++] = inner;
    return read_constants(im, part);
}

static enum base_status walk_graph(struct cell__import *im)
{
    struct frame frames[DEPTH_MAX] = {{.graph = im->model->graph, .scan = CELL__NONE}};
    uint32_t depth = 1;
    while (depth > 0) {
        const struct frame *frame = &frames[depth - 1];
        im->scan = frame->scan;
        if (frame->next < frame->graph->n_node) {
            BASE_TRY(walk_next(im, frames, &depth));
            continue;
        }
        depth--;
        if (frame->part_of != NULL) {
            im->scan = frames[depth - 1].scan;
            BASE_TRY(walk_end(im, frame));
        }
    }
    im->scan = CELL__NONE;
    return BASE_OK;
}

/* ---- Liveness and roles ------------------------------------------------------------------- */

/* Marks the nodes that the outputs need; a poisoned value among them is the model's error. */
static enum base_status need_value(struct cell__import *im, uint32_t v)
{
    const struct cell__value *value = &im->values[v];
    if (value->kind == CELL__POISON) {
        return base_fail(im->error, value->poison->status, "%s", value->poison->message);
    }
    if (value->kind != CELL__CONST && value->node != CELL__NONE) {
        im->nodes[value->node].is_needed = true;
    }
    return BASE_OK;
}

static enum base_status need_inputs(struct cell__import *im, const struct cell__node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (cell__has_input(node, i)) {
            BASE_TRY(need_value(im, node->inputs[i]));
        }
    }
    return BASE_OK;
}

static enum base_status mark_needed_nodes(struct cell__import *im)
{
    const Onnx__GraphProto *graph = im->model->graph;
    for (size_t i = 0; i < graph->n_output; i++) {
        uint32_t v = 0;
        char text[CELL__TEXT_BYTES];
        const char *name = graph->output[i]->name == NULL ? "" : graph->output[i]->name;
        BASE_TRY(cell__value_named(im, name, &v));
        if (im->values[v].kind == CELL__UNSET) {
            return cell__invalid(im, "output \"%s\" is not computed", cell__quote(text, name));
        }
        BASE_TRY(need_value(im, v));
    }
    for (uint32_t n = im->n_nodes; n-- > 0;) {
        if (im->nodes[n].is_needed) {
            BASE_TRY(need_inputs(im, &im->nodes[n]));
        }
    }
    return BASE_OK;
}

/* Gives the axis its role; all recurrent nodes must agree. *atom: where the role stands, or
 * NONE so far. */
static enum base_status set_role(struct cell__import *im, const struct cell__axis *axis,
                                 enum cell__role role, uint32_t *atom)
{
    const char *word = role == CELL__ROLE_BATCH ? "batch" : "time";
    if (axis->n == 0) {
        return BASE_OK;
    }
    uint32_t root = cell__atom_root(im, axis->atoms[0]);
    if (axis->n > 1) {
        return cell__refuse(im, "X's %s axis is made of several dimensions", word);
    }
    if (role == CELL__ROLE_BATCH && im->atoms[root].size == 1) {
        return BASE_OK; // a lone sequence
    }
    if (im->atoms[root].role != CELL__ROLE_FEATURE && im->atoms[root].role != role) {
        return cell__refuse(im, "X's batch axis is also its time axis");
    }
    if (*atom != CELL__NONE && cell__atom_root(im, *atom) != root) {
        return cell__refuse(im,
                            "X's %s axis is another one than that of the recurrent "
                            "node before",
                            word);
    }
    *atom = root;
    im->atoms[root].role = role;
    return BASE_OK;
}

static enum base_status set_roles(struct cell__import *im)
{
    uint32_t time = CELL__NONE;
    uint32_t batch = CELL__NONE;
    bool is_recurrent = false;
    for (uint32_t r = 0; r < im->n_recurrents; r++) {
        const struct cell__recurrent *recurrent = &im->recurrents[r];
        if (!im->nodes[recurrent->node].is_needed || recurrent->is_step) {
            continue;
        }
        is_recurrent = true;
        im->uses_lengths = im->uses_lengths || recurrent->lengths_value != CELL__NONE;
        im->current = recurrent->node;
        BASE_TRY(set_role(im, &recurrent->time, CELL__ROLE_TIME, &time));
        BASE_TRY(set_role(im, &recurrent->batch, CELL__ROLE_BATCH, &batch));
        im->current = CELL__NONE;
    }
    im->has_batch = batch != CELL__NONE;
    return is_recurrent
               ? BASE_OK
               : cell__refuse(im, "the outputs do not come from an LSTM, GRU, RNN or Scan; "
                                  "other models are not supported");
}

/* Of the body of a Scan, or what comes before it: there each value is one step's. */
static bool is_of_body(const struct cell__node *node)
{
    return node->scan != CELL__NONE || node->op->lower == cell__lower_scan;
}

/* A value from outside must not be a whole sequence: inside, its rows would be those of the step.
 */
static enum base_status check_body_inputs(struct cell__import *im, const struct cell__node *node)
{
    if (node->op->lower == cell__lower_element ||
        (cell__has_input(node, 1) && cell__input(im, node, 1)->kind == CELL__COUNTER)) {
        return BASE_OK; // takes the step's element
    }
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (cell__has_input(node, i) && cell__input(im, node, i)->kind == CELL__ROWS &&
            cell__shape_has(im, &cell__input(im, node, i)->shape, CELL__ROLE_TIME)) {
            return cell__refuse(im, "uses a whole sequence inside the body of a Scan");
        }
    }
    return BASE_OK;
}

/* What all later steps rely on: a row is as wide as its value's shape says, and has steps only
 * where the shape has a time axis. A reshape that splits batch or time into what looks like
 * features breaks this. */
static enum base_status check_rows(struct cell__import *im, const struct cell__node *node)
{
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        uint32_t width = 0;
        if (!cell__has_output(node, i) || cell__output(im, node, i)->row == CELL__NONE) {
            continue;
        }
        const struct cell__value *value = cell__output(im, node, i);
        const struct cell__row *row = &im->rows[value->row];
        bool has_time = cell__shape_has(im, &value->shape, CELL__ROLE_TIME);
        bool is_inside = is_of_body(node);
        BASE_TRY(cell__shape_width(im, &value->shape, &width));
        if (row->value.width != width || (row->is_timed && !has_time && !is_inside)) {
            return cell__refuse(im, "splits the batch or time axis");
        }
        if (has_time && is_inside) {
            return cell__refuse(im, "a whole sequence inside the body of a Scan");
        }
    }
    return BASE_OK;
}

static enum base_status lower_node(struct cell__import *im, struct cell__node *node)
{
    base_assert(node->op->lower != NULL);
    if (node->scan != CELL__NONE || node->op->lower == cell__lower_scan_end) {
        BASE_TRY(check_body_inputs(im, node));
    }
    BASE_TRY(node->op->lower(im, node));
    return check_rows(im, node);
}

static enum base_status lower_nodes(struct cell__import *im)
{
    for (uint32_t n = 0; n < im->n_nodes; n++) {
        struct cell__node *node = &im->nodes[n];
        if (!node->is_needed || node->is_folded) {
            continue;
        }
        im->current = n;
        im->scan = node->scan;
        BASE_TRY(lower_node(im, node));
        im->scan = CELL__NONE;
        im->current = CELL__NONE;
    }
    return BASE_OK;
}

/* ---- The whole ---------------------------------------------------------------------------- */

static enum base_status check_model(struct cell__import *im)
{
    const Onnx__ModelProto *model = im->model;
    if (model->graph == NULL) {
        return cell__invalid(im, "not an ONNX model: it has no graph");
    }
    im->opset = 0;
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *set = model->opset_import[i];
        if (set->domain == NULL || set->domain[0] == '\0' || strcmp(set->domain, "ai.onnx") == 0) {
            im->opset = set->version;
        }
    }
    if (im->opset < CELL__OPSET_MIN || im->opset > CELL__OPSET_MAX) {
        return cell__refuse(im, "opset %lld; supported: %d to %d", (long long)im->opset,
                            CELL__OPSET_MIN, CELL__OPSET_MAX);
    }
    return BASE_OK;
}

static enum base_status import_graph(struct cell__import *im, struct cell_registry *registry,
                                     struct cell_model *model)
{
    uint32_t output_rows[CELL_TENSORS_MAX];
    BASE_TRY(check_model(im));
    BASE_TRY(read_constants(im, im->model->graph));
    BASE_TRY(cell__tensors_declare(im));
    BASE_TRY(walk_graph(im));
    BASE_TRY(mark_needed_nodes(im));
    BASE_TRY(set_roles(im));
    BASE_TRY(cell__tensors_inputs(im, model));
    BASE_TRY(lower_nodes(im));
    model->lengths_input = im->lengths_input;
    BASE_TRY(cell__tensors_outputs(im, model, output_rows));
    return cell__stages_build(im, registry, output_rows, model);
}

/* factor * length + extra, or as much as can be. */
static size_t budget(size_t length, size_t factor, size_t extra)
{
    size_t bytes = 0;
    bool fits = base_size_mul(length, factor, &bytes) && base_size_add(bytes, extra, &bytes);
    return fits ? bytes : SIZE_MAX;
}

enum base_status cell__import_onnx(struct cell_registry *registry, const void *bytes, size_t length,
                                   const char *label, struct cell_model *model,
                                   struct base_error *error)
{
    struct base_error own = {.status = BASE_OK};
    struct base_arena message;
    struct base_arena work;
    Onnx__ModelProto *proto = NULL;
    base_arena_init(&message, ARENA_CHUNK, budget(length, UNPACK_FACTOR, ARENA_CHUNK));
    base_arena_init(&work, ARENA_CHUNK, budget(length, IMPORT_FACTOR, IMPORT_EXTRA));
    struct cell__import im = {.arena = &work,
                              .error = error == NULL ? &own : error,
                              .label = label,
                              .lengths_input = -1,
                              .scan = CELL__NONE,
                              .current = CELL__NONE};
    enum base_status status = cell__wire_unpack(&message, bytes, length, &proto, im.error);
    if (status == BASE_OK) {
        im.model = proto;
        status = import_graph(&im, registry, model);
    }
    if (status == BASE_OK) {
        snprintf(model->producer, sizeof(model->producer), "%s%s%s",
                 cell__quote((char[CELL__TEXT_BYTES]){0}, proto->producer_name),
                 proto->producer_version == NULL ? "" : " ",
                 cell__quote((char[CELL__TEXT_BYTES]){0}, proto->producer_version));
    }
    base_arena_release(&work);
    base_arena_release(&message);
    return status;
}
