/* Attributes of a node: typed reads with a default. */
#include "cells/import/graph.h"

#include "base/assert.h"

#include <string.h>

const Onnx__AttributeProto *cell__attr(const struct cell__node *node, const char *name)
{
    for (size_t i = 0; i < node->proto->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = node->proto->attribute[i];
        if (attribute->name != NULL && strcmp(attribute->name, name) == 0) {
            return attribute;
        }
    }
    return NULL;
}

/* Files older than IR version 2 may lack the type. */
static bool is_of_type(const Onnx__AttributeProto *attribute,
                       Onnx__AttributeProto__AttributeType type, bool is_filled)
{
    return attribute->has_type ? attribute->type == type : is_filled;
}

enum base_status cell__attr_int(struct cell__import *im, const struct cell__node *node,
                                const char *name, int64_t otherwise, int64_t *out)
{
    const Onnx__AttributeProto *attribute = cell__attr(node, name);
    *out = otherwise;
    if (attribute == NULL) {
        return BASE_OK;
    }
    if (!is_of_type(attribute, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT, attribute->has_i)) {
        return cell__invalid(im, "attribute %s is not an integer", name);
    }
    *out = attribute->i;
    return BASE_OK;
}

enum base_status cell__attr_float(struct cell__import *im, const struct cell__node *node,
                                  const char *name, float otherwise, float *out)
{
    const Onnx__AttributeProto *attribute = cell__attr(node, name);
    *out = otherwise;
    if (attribute == NULL) {
        return BASE_OK;
    }
    if (!is_of_type(attribute, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT, attribute->has_f)) {
        return cell__invalid(im, "attribute %s is not a float", name);
    }
    *out = attribute->f;
    return BASE_OK;
}

enum base_status cell__attr_ints(struct cell__import *im, const struct cell__node *node,
                                 const char *name, struct cell__list *out)
{
    const Onnx__AttributeProto *attribute = cell__attr(node, name);
    out->n = 0;
    out->is_given = attribute != NULL;
    if (attribute == NULL) {
        return BASE_OK;
    }
    if (!is_of_type(attribute, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS,
                    attribute->n_ints > 0) ||
        attribute->n_ints > CELL__OPERANDS_MAX) {
        return cell__invalid(im, "attribute %s is not a list of at most %u integers", name,
                             CELL__OPERANDS_MAX);
    }
    if (attribute->n_ints > 0) {
        memcpy(out->at, attribute->ints, attribute->n_ints * sizeof(out->at[0]));
    }
    out->n = (uint32_t)attribute->n_ints;
    return BASE_OK;
}

enum base_status cell__ints_or_attr(struct cell__import *im, const struct cell__node *node,
                                    uint32_t i, int64_t since, const char *name,
                                    struct cell__list *out)
{
    if (im->opset < since) {
        return cell__attr_ints(im, node, name, out);
    }
    out->n = 0;
    out->is_given = cell__has_input(node, i);
    return out->is_given ? cell__tensor_ints(im, cell__input(im, node, i), name, out) : BASE_OK;
}

bool cell__is_text(ProtobufCBinaryData text, const char *wanted)
{
    bool is_same = text.len == strlen(wanted);
    for (size_t i = 0; is_same && i < text.len; i++) {
        int c = text.data[i];
        is_same = (c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) == wanted[i];
    }
    return is_same;
}
