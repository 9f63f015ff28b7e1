/* See writer.h. */
#include "cells/import/writer.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

enum base_status cell__unwritten(struct cell__writer *w, const char *why)
{
    w->im->unwritten = why;
    return BASE_UNIMPLEMENTED;
}

enum base_status cell__unwritten_of(struct cell__writer *w, const char *why, const uint8_t *text,
                                    size_t length)
{
    char plain[CELL__TEXT_BYTES] = "";
    char quoted[CELL__TEXT_BYTES];
    char message[2 * CELL__TEXT_BYTES];
    if (length > 0) {
        memcpy(plain, text, length < sizeof(plain) ? length : sizeof(plain) - 1);
    }
    const int n = snprintf(message, sizeof(message), "%s \"%s\"", why, cell__quote(quoted, plain));
    const char *kept = base_arena_text(w->im->arena, message,
                                       n < (int)sizeof(message) ? (size_t)n : sizeof(message) - 1);
    return kept == NULL ? BASE_RESOURCE_EXHAUSTED : cell__unwritten(w, kept);
}

enum base_status cell__writer_begin(struct cell__writer *w, struct cell__import *im,
                                    const Onnx__NodeProto *proto)
{
    *w = (struct cell__writer){.im = im, .proto = proto};
    im->unwritten = "the importer's memory is spent";
    struct base_error *error = im->spare == NULL ? NULL : im->spare->error; // of memory alone
    w->builder = im->spare;
    im->spare = NULL;
    if (w->builder == NULL) {
        w->builder = base_arena_alloc(im->arena, sizeof(*w->builder));
        error = base_arena_alloc(im->arena, sizeof(*error));
    }
    if (w->builder == NULL || error == NULL) {
        w->builder = NULL;
        return BASE_RESOURCE_EXHAUSTED;
    }
    cell__build_init(w->builder, im->arena, error);
    w->builder->label = proto->name == NULL ? "" : proto->name;
    w->builder->prefix = "\x01"; // no text of a file begins so
    w->builder->n_names = im->n_written;
    return BASE_OK;
}

const Onnx__GraphProto *cell__writer_nodes(struct cell__writer *w)
{
    w->im->n_written = w->builder->n_names;
    return &w->builder->graph;
}

static enum base_status push_output(struct cell__writer *w, const char *name,
                                    Onnx__ValueInfoProto **out)
{
    void *memory = base_arena_alloc(w->im->arena, sizeof(**out));
    if (memory == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    *out = memory;
    onnx__value_info_proto__init(*out);
    (*out)->name = base_arena_text(w->im->arena, name, strlen(name));
    return (*out)->name == NULL ? BASE_RESOURCE_EXHAUSTED : BASE_OK;
}

const Onnx__GraphProto *cell__writer_end(struct cell__writer *w)
{
    enum { FOURTH = 3 };
    const size_t n = w->proto->n_output;
    void *list = base_arena_array(w->im->arena, n, sizeof(Onnx__ValueInfoProto *));
    w->im->n_written = w->builder->n_names;
    if (list == NULL) {
        return NULL;
    }
    Onnx__ValueInfoProto **infos = list;
    for (size_t i = 0; i < n; i++) {
        const bool is_fourth = i == FOURTH && w->fourth != NULL;
        const char *name = i == 0 ? w->out : is_fourth ? w->fourth : "";
        if (push_output(w, name, &infos[i]) != BASE_OK) {
            return NULL;
        }
    }
    w->builder->graph.output = infos;
    w->builder->graph.n_output = n;
    return &w->builder->graph;
}

/* ---- What the node says
 * -------------------------------------------------------------------------- */

static const Onnx__AttributeProto *attribute_of(const struct cell__writer *w, const char *name)
{
    const struct cell__node node = {.proto = w->proto};
    return cell__attr(&node, name);
}

/* Files older than IR version 2 may lack the type. */
static enum base_status read_attribute(struct cell__writer *w, const char *name,
                                       Onnx__AttributeProto__AttributeType type, bool may_lack,
                                       const Onnx__AttributeProto **out)
{
    const Onnx__AttributeProto *attribute = attribute_of(w, name);
    *out = attribute;
    return attribute == NULL || (attribute->has_type ? attribute->type == type : may_lack)
               ? BASE_OK
               : cell__unwritten_of(w, "with an attribute of another type than it has,",
                                    (const uint8_t *)name, strlen(name));
}

enum base_status cell__writer_attribute(struct cell__writer *w, const char *name,
                                        Onnx__AttributeProto__AttributeType type,
                                        const Onnx__AttributeProto **out)
{
    return read_attribute(w, name, type, false, out);
}

enum base_status cell__writer_int(struct cell__writer *w, const char *name, int64_t *out)
{
    const Onnx__AttributeProto *attribute = NULL;
    BASE_TRY(read_attribute(w, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT, true, &attribute));
    *out = attribute == NULL ? *out : attribute->i;
    return BASE_OK;
}

enum base_status cell__writer_float(struct cell__writer *w, const char *name, float *out)
{
    const Onnx__AttributeProto *attribute = NULL;
    BASE_TRY(
        read_attribute(w, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT, true, &attribute));
    *out = attribute == NULL ? *out : attribute->f;
    return BASE_OK;
}

enum base_status cell__writer_flag(struct cell__writer *w, const char *name, int64_t *out)
{
    *out = 0;
    BASE_TRY(cell__writer_int(w, name, out));
    return *out == 0 || *out == 1 ? BASE_OK
                                  : cell__unwritten_of(w, "with a number beyond 0 and 1 for",
                                                       (const uint8_t *)name, strlen(name));
}

enum base_status cell__writer_copy_attributes(struct cell__writer *w, Onnx__NodeProto *to,
                                              const char *const *except)
{
    for (size_t i = 0; i < w->proto->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = w->proto->attribute[i];
        const char *name = attribute->name == NULL ? "" : attribute->name;
        size_t k = 0;
        while (except[k] != NULL && strcmp(except[k], name) != 0) {
            k++;
        }
        if (except[k] == NULL) {
            BASE_TRY(cell__build_copy_attribute(w->builder, to, attribute));
        }
    }
    return BASE_OK;
}

bool cell__writer_is(struct cell__writer *w, const char *name, const char *text)
{
    const Onnx__AttributeProto *attribute = attribute_of(w, name);
    return attribute != NULL && attribute->s.len == strlen(text) &&
           memcmp(attribute->s.data, text, attribute->s.len) == 0;
}

bool cell__writer_has(const struct cell__writer *w, size_t i)
{
    return i < w->proto->n_input && w->proto->input[i][0] != '\0';
}

enum base_status cell__writer_value(struct cell__writer *w, const char *name,
                                    const struct cell__value **out)
{
    uint32_t v = 0;
    if (cell__value_named(w->im, name, &v) != BASE_OK) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    *out = &w->im->values[v];
    return (*out)->kind == CELL__ROWS || (*out)->kind == CELL__CONST
               ? BASE_OK
               : cell__unwritten(w, "of an operand that is no tensor, or is not computed");
}

enum base_status cell__writer_rank(struct cell__writer *w, const char *name, uint32_t *out)
{
    const struct cell__value *value = NULL;
    BASE_TRY(cell__writer_value(w, name, &value));
    *out = value->kind == CELL__CONST ? value->tensor.rank : value->shape.rank;
    return BASE_OK;
}

enum base_status cell__writer_axes(struct cell__writer *w, struct cell__list *axes, bool *keeps)
{
    const Onnx__AttributeProto *attribute = attribute_of(w, "axes");
    int64_t keepdims = 1;
    BASE_TRY(cell__writer_int(w, "keepdims", &keepdims));
    *keeps = keepdims != 0;
    *axes = (struct cell__list){.n = 0};
    if (w->proto->n_input > 1 && w->proto->input[1][0] != '\0') {
        const struct cell__value *value = NULL;
        BASE_TRY(cell__writer_value(w, w->proto->input[1], &value));
        if (value->kind != CELL__CONST ||
            cell__tensor_ints(w->im, value, "axes", axes) != BASE_OK) {
            return cell__unwritten(w, "axes that are no constant");
        }
    } else if (attribute != NULL && attribute->n_ints <= CELL_RANK_MAX) {
        axes->n = (uint32_t)attribute->n_ints;
        memcpy(axes->at, attribute->ints, attribute->n_ints * sizeof(axes->at[0]));
    }
    return axes->n > 0 ? BASE_OK : cell__unwritten(w, "without axes");
}

/* ---- Nodes
 * --------------------------------------------------------------------------------------- */

enum base_status cell__write(struct cell__writer *w, const char *op, const char *const *inputs,
                             const char **out)
{
    return cell__build_op(w->builder, op, inputs, out);
}

enum base_status cell__write_number(struct cell__writer *w, float number, const char **out)
{
    float *data = base_arena_alloc(w->im->arena, sizeof(*data));
    if (data == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    *data = number;
    const struct cell__constant one = {.data = data};
    return cell__build_floats(w->builder, &one, out);
}

enum base_status cell__write_ints(struct cell__writer *w, const int64_t *ints, size_t n,
                                  const char **out)
{
    return cell__build_ints(w->builder, n, ints, out);
}

/* With axes as an input from this opset on, as an attribute before. */
static enum base_status write_with_axes(struct cell__writer *w, const char *op, int64_t since,
                                        const char *x, const struct cell__list *axes,
                                        Onnx__NodeProto **out)
{
    const char *input = NULL;
    const bool is_input = w->im->opset >= since;
    if (is_input) {
        BASE_TRY(cell__write_ints(w, axes->at, axes->n, &input));
    }
    BASE_TRY(cell__build_node(w->builder, op, (const char *[]){x, input, NULL}, 1, out));
    return is_input ? BASE_OK : cell__build_set_ints(w->builder, *out, "axes", axes->n, axes->at);
}

enum base_status cell__write_axes(struct cell__writer *w, const char *op, const char *x,
                                  const int64_t *axes, size_t n, const char **out)
{
    struct cell__list list = {.n = (uint32_t)n};
    Onnx__NodeProto *node = NULL;
    *out = x;
    if (n == 0) {
        return BASE_OK;
    }
    base_assert(n <= CELL_RANK_MAX);
    memcpy(list.at, axes, n * sizeof(*axes));
    BASE_TRY(write_with_axes(w, op, 13, x, &list, &node));
    *out = node->output[0];
    return BASE_OK;
}

enum base_status cell__write_transpose(struct cell__writer *w, const char *x, const int64_t *perm,
                                       size_t n, const char **out)
{
    Onnx__NodeProto *node = NULL;
    bool is_same = true;
    for (size_t k = 0; k < n; k++) {
        is_same = is_same && perm[k] == (int64_t)k;
    }
    *out = x;
    if (is_same) {
        return BASE_OK;
    }
    BASE_TRY(cell__build_node(w->builder, "Transpose", (const char *[]){x, NULL}, 1, &node));
    *out = node->output[0];
    return cell__build_set_ints(w->builder, node, "perm", n, perm);
}

enum base_status cell__write_concat(struct cell__writer *w, const char *const *inputs, int64_t axis,
                                    const char **out)
{
    Onnx__NodeProto *node = NULL;
    BASE_TRY(cell__build_node(w->builder, "Concat", inputs, 1, &node));
    *out = node->output[0];
    return cell__build_set_int(w->builder, node, "axis", axis);
}

enum base_status cell__write_reduce(struct cell__writer *w, const char *op, const char *x,
                                    const struct cell__list *axes, bool keeps, const char **out)
{
    Onnx__NodeProto *node = NULL;
    const int64_t since = strcmp(op, "ReduceSum") == 0 ? 13 : 18;
    BASE_TRY(write_with_axes(w, op, since, x, axes, &node));
    *out = node->output[0];
    return cell__build_set_int(w->builder, node, "keepdims", keeps ? 1 : 0);
}
