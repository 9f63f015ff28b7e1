/* Nodes in the order of the file, each inferred when it is added. An If on a constant condition is
 * replaced by its branch; a Scan's or Loop's body stands between a node that begins it and one that
 * ends it (op_scan.c). A node that cannot be imported poisons what it makes. Graphs inside graphs
 * are frames of a small stack: no recursion. */
#include "cells/import/walk.h"

#include "cells/import/assigned.h"
#include "cells/import/choice.h"
#include "cells/import/fused.h"
#include "cells/import/handed_on.h"
#include "cells/import/listed.h"
#include "cells/import/ops.h"
#include "cells/import/rows.h"
#include "cells/import/some_steps.h"
#include "cells/import/step_number.h"
#include "cells/import/top_steps.h"
#include "cells/import/write_out.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

/* Graphs inside graphs. */
#define DEPTH_MAX 8u

/* A graph being read, and the If or Scan that it is a part of (NULL: the model's). */
struct frame {
    const Onnx__GraphProto *graph;
    const Onnx__NodeProto *part_of;
    const struct cell__operator *end; /* NULL: that of the node */
    bool is_body;                     /* of a Scan */
    uint32_t scan;                    /* in whose body all of this stands: its number, or NONE */
    uint32_t first_value;             /* of a body: its names end with it */
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

enum base_status cell__leave_out(struct cell__import *im, const struct cell__node *node, uint32_t i,
                                 const char *why)
{
    struct base_error *outer = im->error;
    struct base_error error = {.status = BASE_OK};
    im->error = &error;
    cell__fail(im, BASE_UNIMPLEMENTED, "%s", why);
    im->error = outer;
    return poison(im, node->outputs[i], &error);
}

enum base_status cell__walk_constants(struct cell__import *im, const Onnx__GraphProto *graph)
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

/* Whether the operator is the standard's, whose domain has two names. */
static bool is_of_standard(const Onnx__NodeProto *proto)
{
    return proto->domain == NULL || proto->domain[0] == '\0' ||
           strcmp(proto->domain, "ai.onnx") == 0;
}

/* Whether the operator is the one of that name: of the standard, or what ONNX Runtime and its tools
 * write. */
static bool is_of_known_domain(const Onnx__NodeProto *proto)
{
    static const char *const of_both[] = {"QuantizeLinear", "DequantizeLinear", "Gelu"};
    const char *type = proto->op_type == NULL ? "" : proto->op_type;
    const bool is_runtimes = strcmp(type, "DynamicQuantizeLSTM") == 0 || cell__is_fused(type);
    bool is_of_both = false;
    for (size_t i = 0; i < sizeof(of_both) / sizeof(of_both[0]); i++) {
        is_of_both |= strcmp(type, of_both[i]) == 0;
    }
    return is_of_standard(proto)
               ? !is_runtimes
               : (is_runtimes || is_of_both) && strcmp(proto->domain, "com.microsoft") == 0;
}

/* Whether the operator moves elements and does nothing else with them, or makes floats of them, so
 * that it does not matter that they are rounded before. */
static bool moves(const struct cell__operator *op)
{
    static const char names[] = " Cast Concat Dropout Flatten Gather Identity Reshape Shape Size "
                                "Slice Split Squeeze Transpose Unsqueeze ";
    char name[CELL__TEXT_BYTES];
    snprintf(name, sizeof(name), " %s ", op->name);
    return strstr(names, name) != NULL;
}

/* Whether it is the mean or the sum of squares of floats, as jax2onnx takes the variance of a layer
 * norm in doubles: of what is not below 0 sums of floats are as good, and a float follows. */
static bool sums_squares(const struct cell__import *im, const struct cell__node *node)
{
    const bool is_sum =
        strcmp(node->op->name, "ReduceMean") == 0 || strcmp(node->op->name, "ReduceSum") == 0;
    const struct cell__node *cast = is_sum ? cell__made_by(im, node, 0, "Cast") : NULL;
    const struct cell__node *square = cell__made_by(im, cast, 0, "Mul");
    return square != NULL && square->n_inputs == 2 && square->inputs[0] == square->inputs[1];
}

/* in: of doubles. */
static enum base_status check_double(struct cell__import *im, const struct cell__node *node,
                                     const struct cell__value *in)
{
    char text[CELL__TEXT_BYTES];
    const bool is_infinite = strcmp(node->op->name, "IsInf") == 0 && in->as_double > 0;
    const bool is_square = in->as_double > 0 && sums_squares(im, node);
    return is_infinite || is_square || moves(node->op)
               ? BASE_OK
               : cell__refuse(im,
                              "%s is of type double, which nothing computes with; cast it to "
                              "float before",
                              cell__quote(text, in->name));
}

/* That the inputs are of a kind that the operator takes. */
static enum base_status check_kinds(struct cell__import *im, const struct cell__node *node)
{
    const bool takes_lists = cell__operator_takes_lists(node->op) || cell__is_count(im, node) ||
                             cell__takes_counts(im, node);
    const bool takes_orders = cell__operator_takes_orders(node->op);
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const struct cell__value *in = cell__has_input(node, i) ? cell__input(im, node, i) : NULL;
        if (in == NULL) {
            continue;
        }
        if (in->kind == CELL__ROWS && cell__is_double(in->dtype)) {
            BASE_TRY(check_double(im, node, in));
        }
        if (!takes_lists && (in->kind == CELL__COUNTER || in->kind == CELL__LIST)) {
            return cell__refuse(im, "computes with the number of the step, or with a sequence of "
                                    "tensors");
        }
        if (!takes_orders && in->kind == CELL__ORDER) {
            return cell__refuse(im, "computes with the places of a batch's rows");
        }
    }
    return BASE_OK;
}

/* What is 0 or 1 may be nothing else, which runtimes take for either. */
static bool is_no_flag(const char *known, const Onnx__AttributeProto *attribute)
{
    static const char flags[] =
        " allowzero ceil_mode count_include_pad exclusive input_forget is_causal keepdims largest "
        "linear_before_reset noop_with_empty_axes reverse saturate select_last_index sorted transA "
        "transB upper ";
    return strstr(flags, known) != NULL &&
           attribute->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT &&
           (attribute->i < 0 || attribute->i > 1);
}

static enum base_status check_node(struct cell__import *im, const struct cell__node *node)
{
    const Onnx__NodeProto *proto = node->proto;
    const struct cell__operator *op = node->op;
    char text[CELL__TEXT_BYTES];
    if (!is_of_known_domain(proto)) {
        return cell__refuse(im, "operator of another domain, \"%s\"",
                            cell__quote(text, proto->domain == NULL ? "" : proto->domain));
    }
    if (op == NULL) {
        return cell__refuse(im, "the operator is not supported");
    }
    uint32_t inputs = proto->n_input > UINT32_MAX ? UINT32_MAX : (uint32_t)proto->n_input;
    if (inputs < op->inputs_min || inputs > op->inputs_max || node->n_outputs > op->outputs_max) {
        return cell__invalid(im, "%u inputs and %u outputs", inputs, node->n_outputs);
    }
    const bool is_written = op->infer == cell__infer_written && im->unwritten == NULL; // its end
    for (uint32_t i = 0; i < op->inputs_min && i < node->n_inputs; i++) {
        if (node->inputs[i] == CELL__NONE && !is_written) {
            return cell__invalid(im, "input %u is missing", i);
        }
    }
    BASE_TRY(check_kinds(im, node));
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
        if (is_no_flag(known, a)) {
            return cell__invalid(im, "attribute \"%s\" of %lld; 0 or 1", text, (long long)a->i);
        }
    }
    return BASE_OK;
}

/* The condition that ends a step of a Loop, where it is not known to hold: why. */
static const struct base_error *open_condition(struct cell__import *im,
                                               const struct cell__node *node)
{
    const bool is_end = node->op != NULL && node->op->infer == cell__infer_scan_end;
    return is_end && cell__has_input(node, 0) && cell__input(im, node, 0)->dtype == CELL__BOOL
               ? cell__input(im, node, 0)->poison
               : NULL;
}

/* The error of an input that could not be computed, or NULL. */
static const struct base_error *poison_of_inputs(struct cell__import *im,
                                                 const struct cell__node *node)
{
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        if (cell__has_input(node, i) && cell__input(im, node, i)->kind == CELL__POISON) {
            return cell__input(im, node, i)->poison;
        }
        if (i == 0 && open_condition(im, node) != NULL) {
            return open_condition(im, node);
        }
    }
    return NULL;
}

/* Whether an output has a name, by which it could be read. */
static bool has_outputs(const struct cell__node *node)
{
    bool has = false;
    for (uint32_t i = 0; i < node->n_outputs; i++) {
        has = has || cell__has_output(node, i);
    }
    return has;
}

static enum base_status infer_once(struct cell__import *im, struct cell__node *node, bool *is_count)
{
    BASE_TRY(check_node(im, node));
    if (node->op == NULL) {
        return BASE_OK;
    }
    *is_count = cell__is_count(im, node);
    BASE_TRY(*is_count ? cell__infer_count(im, node) : node->op->infer(im, node));
    BASE_TRY(cell__infer_turned(im, node));
    return cell__infer_sorted(im, node);
}

/* A step, or a row of a sequence, is taken by the number as it is; the indices of an assignment are
 * reshaped. */
static bool takes_step(struct cell__import *im, const struct cell__node *node)
{
    const struct cell__value *in = cell__has_input(node, 0) ? cell__input(im, node, 0) : NULL;
    if (node->op == NULL || in == NULL) {
        return false;
    }
    return node->op->infer == cell__infer_reshape
               ? in->dtype != CELL__F32
               : cell__operator_takes_lists(node->op) && in->kind != CELL__CONST;
}

/* What is refused of numbers of steps is tried again with rows in their place. */
static enum base_status infer_again(struct cell__import *im, struct cell__node *node,
                                    bool *is_count)
{
    struct base_error *outer = im->error;
    struct base_error why = {.status = BASE_OK};
    bool is_any = false;
    if (takes_step(im, node)) {
        return BASE_UNIMPLEMENTED;
    }
    BASE_TRY(cell__number_inputs(im, node, &is_any));
    im->error = &why;
    enum base_status status = is_any ? infer_once(im, node, is_count) : BASE_UNIMPLEMENTED;
    im->error = outer;
    if (status == BASE_OK || status == BASE_UNIMPLEMENTED) {
        return status;
    }
    *outer = why;
    return status;
}

/* Of a condition that nobody could tell at once: why, for a Loop that ends by it. */
static enum base_status keep_reason(struct cell__import *im, struct cell__value *value,
                                    const struct base_error *why)
{
    if (value->kind != CELL__ROWS || value->dtype != CELL__BOOL || why->status == BASE_OK) {
        return BASE_OK;
    }
    struct base_error *copy = base_arena_alloc(im->arena, sizeof(*copy));
    if (copy == NULL) {
        return cell__no_memory(im);
    }
    *copy = *why;
    value->poison = copy;
    return BASE_OK;
}

static enum base_status infer_node(struct cell__import *im, struct cell__node *node)
{
    if (!has_outputs(node)) {
        return BASE_OK;
    }
    cell__replace_ids(im, node);
    cell__replace_shift(im, node);
    cell__replace_rest(im, node);
    cell__replace_reversed(im, node);
    BASE_TRY(cell__replace_whole(im, node));
    BASE_TRY(cell__replace_pairs(im, node));
    BASE_TRY(cell__replace_down(im, node));
    BASE_TRY(cell__replace_upsample(im, node));
    const struct base_error *before = poison_of_inputs(im, node);
    bool is_count = false;
    struct base_error *outer = im->error;
    struct base_error why = {.status = BASE_OK};
    if (before == NULL) {
        im->error = &why;
        enum base_status status = infer_once(im, node, &is_count);
        status = status == BASE_UNIMPLEMENTED ? infer_again(im, node, &is_count) : status;
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
        struct cell__value *value = cell__output(im, node, i);
        BASE_TRY(keep_reason(im, value, &why));
        base_assert(value->kind != CELL__POISON || value->poison != NULL);
        bool is_known = value->kind == CELL__CONST || value->kind == CELL__POISON;
        bool is_empty = value->kind == CELL__LIST && node->op->lower == NULL; // SequenceEmpty
        node->is_folded = node->is_folded && (is_known || is_empty || is_count);
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
        if (!cell__has_output(node, i)) {
            continue;
        }
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
        if (cell__has_output(node, i)) {
            cell__set_row(im, node, i, cell__input(im, node, i)->row);
        }
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
    return proto->op_type != NULL && strcmp(proto->op_type, name) == 0 && is_of_standard(proto);
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

/* What ends nodes of which some are written out, and others are computed as they are. */
static const struct cell__operator written[] = {
    {"Cast", 1, 1, 1, " saturate to ", cell__infer_written, cell__lower_branch, ""},
    {"CumSum", 1, 2, 1, " exclusive reverse ", cell__infer_written, cell__lower_branch, ""},
    {"Gemm", 1, 3, 1, " alpha beta transA transB ", cell__infer_written, cell__lower_branch, ""},
    {"MatMul", 1, 2, 1, " ", cell__infer_written, cell__lower_branch, ""},
    {"ConcatFromSequence", 1, 1, 1, " axis new_axis ", cell__infer_written, cell__lower_branch, ""},
    {"Range", 1, 3, 1, " ", cell__infer_written, cell__lower_branch, ""},
    {"Slice", 1, 5, 1, " starts ends axes ", cell__infer_written, cell__lower_branch, ""},
    {"Sub", 1, 2, 1, " ", cell__infer_written, cell__lower_branch, ""},
    {"Where", 1, 3, 1, " ", cell__infer_written, cell__lower_branch, ""},
};

static const struct cell__operator *end_of(const Onnx__NodeProto *proto)
{
    for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++) {
        if (is_standard(proto, written[i].name)) {
            return &written[i];
        }
    }
    return cell__operator_find(proto->op_type);
}

/* The node behind a branch or body: it reads what that has computed. */
static enum base_status walk_end(struct cell__import *im, const struct frame *frame)
{
    const Onnx__NodeProto *proto = frame->part_of;
    char *names[CELL__OPERANDS_MAX];
    BASE_TRY(names_of(im, frame->graph->output, frame->graph->n_output, names));
    struct wires wires = {.proto = proto,
                          .op = frame->end == NULL ? end_of(proto) : frame->end,
                          .inputs = names,
                          .n_inputs = frame->graph->n_output,
                          .outputs = proto->output,
                          .n_outputs = proto->n_output,
                          .ends = frame};
    im->unwritten = NULL;
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

/* Nodes that stand for a Loop or TopK, written out as others. */
static const Onnx__GraphProto *write_nodes(struct cell__import *im, const Onnx__NodeProto *proto)
{
    static const Onnx__GraphProto *(*const of_loop[])(struct cell__import *,
                                                      const Onnx__NodeProto *) = {
        cell__write_handed_on, cell__write_assigned, cell__write_some_steps, cell__write_listed,
        cell__write_headed};
    const Onnx__GraphProto *nodes =
        is_standard(proto, "TopK") ? cell__write_top_steps(im, proto) : NULL;
    for (size_t i = 0; i < sizeof(of_loop) / sizeof(of_loop[0]) && is_standard(proto, "Loop");
         i++) {
        nodes = nodes == NULL ? of_loop[i](im, proto) : nodes;
    }
    return nodes;
}

/* The next node of the innermost graph: added, or, a Scan or an If on a constant, entered. */
static enum base_status walk_next(struct cell__import *im, struct frame *frames, uint32_t *depth)
{
    struct frame *frame = &frames[*depth - 1];
    const Onnx__NodeProto *proto = frame->graph->node[frame->next++];
    const Onnx__GraphProto *branch = is_standard(proto, "If") ? choose_branch(im, proto) : NULL;
    const Onnx__GraphProto *body = body_of(proto);
    const bool is_open = branch == NULL && is_standard(proto, "If");
    const Onnx__GraphProto *choice = is_open ? cell__write_choice(im, proto) : NULL;
    const Onnx__GraphProto *part = branch != NULL ? branch : choice != NULL ? choice : body;
    im->unwritten = "of another domain, or nested too deep";
    if (part == NULL && *depth < DEPTH_MAX) {
        part = is_of_standard(proto) ? cell__write_out(im, proto) : cell__write_fused(im, proto);
    }
    const Onnx__GraphProto *nodes = *depth < DEPTH_MAX ? write_nodes(im, proto) : NULL;
    if ((part == NULL && nodes == NULL) || *depth == DEPTH_MAX) {
        return walk_plain(im, proto);
    }
    if (nodes != NULL) { // in place of it: they make all that it makes
        frames[(*depth)++] = (struct frame){.graph = nodes, .scan = frame->scan};
        return cell__walk_constants(im, nodes);
    }
    struct frame inner = {
        .graph = part, .part_of = proto, .is_body = body != NULL, .scan = frame->scan};
    inner.end = choice == NULL ? NULL : &cell__choice_end;
    if (inner.is_body) {
        BASE_TRY(walk_begin(im, &inner));
    }
    frames[(*depth)++] = inner;
    return cell__walk_constants(im, part);
}

enum base_status cell__walk(struct cell__import *im)
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
