/* Tables of the import: growing arrays in the arena, names to values, and the wording of errors. */
#include "cells/import/graph.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/hash.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Errors ------------------------------------------------------------------------------- */

const char *cell__quote(char out[CELL__TEXT_BYTES], const char *name)
{
    size_t n = 0;
    name = name == NULL ? "" : name;
    while (n < CELL__TEXT_BYTES - 1 && name[n] != '\0') {
        out[n] = '?';
        if (name[n] >= ' ' && name[n] <= '~' && name[n] != '"' && name[n] != '\\') {
            out[n] = name[n];
        }
        n++;
    }
    out[n] = '\0';
    if (name[n] != '\0') {
        memcpy(&out[n - 3], "...", 3);
    }
    return out;
}

void cell__fail(struct cell__import *im, enum base_status status, const char *format, ...)
{
    char text[BASE_ERROR_BYTES];
    char op[CELL__TEXT_BYTES];
    char name[CELL__TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (im->current == CELL__NONE) {
        (void)base_fail(im->error, status, "%s", text);
        return;
    }
    const Onnx__NodeProto *proto = im->nodes[im->current].proto;
    const char *label = proto->name;
    if ((label == NULL || label[0] == '\0') && proto->n_output > 0) {
        label = proto->output[0];
    }
    (void)base_fail(im->error, status, "%s (node \"%s\", opset %lld): %s",
                    cell__quote(op, proto->op_type), cell__quote(name, label), (long long)im->opset,
                    text);
}

/* ---- Arrays ------------------------------------------------------------------------------- */

enum base_status cell__grow(struct cell__import *im, void **array, uint32_t *room, uint32_t used,
                            size_t size, struct cell__limit limit)
{
    base_assert(used <= *room);
    if (used < *room) {
        return BASE_OK;
    }
    if (used >= limit.max) {
        return base_fail(im->error, BASE_RESOURCE_EXHAUSTED, "the graph has more than %u %s",
                         limit.max, limit.what);
    }
    uint32_t grown = *room == 0 ? 64 : *room * 2;
    grown = grown < limit.max ? grown : limit.max;
    void *larger = base_arena_array(im->arena, grown, size);
    if (larger == NULL) {
        return cell__no_memory(im);
    }
    if (used > 0) {
        memcpy(larger, *array, used * size);
    }
    *array = larger;
    *room = grown;
    return BASE_OK;
}

/* ---- Names -------------------------------------------------------------------------------- */

static uint32_t name_slot(const struct cell__import *im, const char *name)
{
    uint32_t mask = im->names_room - 1;
    uint32_t slot = (uint32_t)base_hash_bytes(name, strlen(name)).low & mask;
    while (im->names[slot] != CELL__NONE && (im->values[im->names[slot]].is_hidden ||
                                             strcmp(im->values[im->names[slot]].name, name) != 0)) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

/* Keeps the table at most half full. */
static enum base_status names_grow(struct cell__import *im)
{
    if (im->n_values < im->names_room / 2) {
        return BASE_OK;
    }
    uint32_t room = im->names_room == 0 ? 256 : im->names_room * 2;
    uint32_t *names = base_arena_array(im->arena, room, sizeof(*names));
    if (names == NULL) {
        return cell__no_memory(im);
    }
    memset(names, 0xff, room * sizeof(*names));
    im->names = names;
    im->names_room = room;
    for (uint32_t v = 0; v < im->n_values; v++) {
        if (!im->values[v].is_hidden) {
            im->names[name_slot(im, im->values[v].name)] = v;
        }
    }
    return BASE_OK;
}

void *cell__scratch(struct cell__import *im, enum cell__scratch which, size_t n, size_t size)
{
    size_t bytes = 0;
    if (!base_size_mul(n, size, &bytes)) {
        return NULL;
    }
    if (bytes > im->scratch_bytes[which]) {
        // Twice as much as is needed now: what has been outgrown takes no more than the last in
        // all.
        void *more = base_arena_alloc(im->arena, bytes <= SIZE_MAX / 2 ? 2 * bytes : bytes);
        if (more == NULL) {
            return NULL;
        }
        im->scratch[which] = more;
        im->scratch_bytes[which] = bytes <= SIZE_MAX / 2 ? 2 * bytes : bytes;
    }
    return im->scratch[which];
}

enum base_status cell__value_named(struct cell__import *im, const char *name, uint32_t *out)
{
    void *array = im->values;
    BASE_TRY(cell__grow(im, &array, &im->values_room, im->n_values, sizeof(*im->values),
                        (struct cell__limit){CELL__VALUES_MAX, "values"}));
    im->values = array;
    BASE_TRY(names_grow(im));
    uint32_t slot = name_slot(im, name);
    if (im->names[slot] == CELL__NONE) {
        im->values[im->n_values] =
            (struct cell__value){.name = name, .row = CELL__NONE, .node = CELL__NONE};
        im->names[slot] = im->n_values++;
    }
    *out = im->names[slot];
    return BASE_OK;
}

enum base_status cell__value_constant(struct cell__import *im, const char *name,
                                      const struct cell__tensor *tensor, uint32_t *out)
{
    void *array = im->values;
    BASE_TRY(cell__grow(im, &array, &im->values_room, im->n_values, sizeof(*im->values),
                        (struct cell__limit){CELL__VALUES_MAX, "values"}));
    im->values = array;
    im->values[im->n_values] = (struct cell__value){.name = name,
                                                    .kind = CELL__CONST,
                                                    .dtype = tensor->dtype,
                                                    .tensor = *tensor,
                                                    .row = CELL__NONE,
                                                    .node = CELL__NONE,
                                                    .is_hidden = true};
    *out = im->n_values++;
    return BASE_OK;
}

/* ---- Inputs and outputs of a node --------------------------------------------------------- */

bool cell__has_input(const struct cell__node *node, uint32_t i)
{
    return i < node->n_inputs && node->inputs[i] != CELL__NONE;
}

const struct cell__value *cell__input_of(const struct cell__import *im,
                                         const struct cell__node *node, uint32_t i)
{
    return node != NULL && cell__has_input(node, i) ? &im->values[node->inputs[i]] : NULL;
}

struct cell__value *cell__input(struct cell__import *im, const struct cell__node *node, uint32_t i)
{
    base_assert(cell__has_input(node, i));
    return &im->values[node->inputs[i]];
}

bool cell__has_output(const struct cell__node *node, uint32_t i)
{
    return i < node->n_outputs && node->outputs[i] != CELL__NONE;
}

struct cell__value *cell__output(struct cell__import *im, const struct cell__node *node, uint32_t i)
{
    base_assert(cell__has_output(node, i));
    return &im->values[node->outputs[i]];
}

const struct cell__node *cell__made_by(const struct cell__import *im, const struct cell__node *node,
                                       uint32_t i, const char *name)
{
    const uint32_t v = node != NULL && i < node->n_inputs ? node->inputs[i] : CELL__NONE;
    const uint32_t maker = v == CELL__NONE ? CELL__NONE : im->values[v].node;
    const struct cell__node *made = maker == CELL__NONE ? NULL : &im->nodes[maker];
    return made != NULL && made->op != NULL && strcmp(made->op->name, name) == 0 ? made : NULL;
}

void cell__set_const(struct cell__import *im, const struct cell__node *node, uint32_t i,
                     const struct cell__tensor *tensor)
{
    if (cell__has_output(node, i)) {
        struct cell__value *value = cell__output(im, node, i);
        value->kind = CELL__CONST;
        value->dtype = tensor->dtype;
        value->tensor = *tensor;
    }
}

void cell__set_rows(struct cell__import *im, const struct cell__node *node, uint32_t i,
                    enum cell__dtype dtype, const struct cell__shape *shape)
{
    if (cell__has_output(node, i)) {
        struct cell__value *value = cell__output(im, node, i);
        value->kind = CELL__ROWS;
        value->dtype = dtype;
        value->shape = *shape;
        for (uint32_t k = 0; k < shape->rank; k++) {
            cell__axis_see_joined(im, &value->shape.axes[k]);
        }
    }
}

void cell__set_list(struct cell__import *im, const struct cell__node *node, uint32_t i,
                    enum cell__dtype dtype, const struct cell__shape *shape, uint32_t axis)
{
    if (cell__has_output(node, i)) {
        struct cell__value *value = cell__output(im, node, i);
        cell__set_rows(im, node, i, dtype, shape);
        value->kind = CELL__LIST;
        value->list_axis = axis;
    }
}
