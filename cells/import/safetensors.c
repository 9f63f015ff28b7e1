/* jansson reads the header, once its length and its nesting were looked at: it recurses, and keeps
 * several times the text. Its memory comes from the caller's arena and is never given back piece by
 * piece, so names stay where jansson has put them. It knows only global allocation functions; ours
 * are set for the time of one parse, as in server/http/json.c. */
#include "cells/import/safetensors.h"

#include "base/assert.h"
#include "base/checked.h"
#include "cells/import/graph.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX_BYTES ((size_t)8)

/* The header's object, a tensor's, its shape. */
#define DEPTH_MAX 3u

#define METADATA "__metadata__"

static _Thread_local struct base_arena *tree_arena;
static _Thread_local bool tree_is_too_large; // jansson does not always say so

struct reading {
    struct base_arena *arena;
    struct base_error *error;
    const uint8_t *data;
    size_t data_bytes;
};

#define FAIL(reading, ...) base_fail((reading)->error, BASE_INVALID_ARGUMENT, __VA_ARGS__)

/* ---- The header's text -------------------------------------------------------------------- */

static void *tree_alloc(size_t bytes)
{
    void *memory = base_arena_alloc(tree_arena, bytes);
    tree_is_too_large = tree_is_too_large || memory == NULL;
    return memory;
}

static void tree_free(void *memory)
{
    (void)memory; // goes with the arena
}

/* Before anything recurses over it. */
static enum base_status check_depth(const struct reading *reading, const char *text, size_t length)
{
    uint32_t depth = 0;
    bool is_inside = false; // of a string
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        if (is_inside) {
            i += c == '\\' ? 1 : 0;
            is_inside = c != '"';
        } else if (c == '"') {
            is_inside = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
        if (depth > DEPTH_MAX) {
            return FAIL(reading, "the header is nested deeper than %u at byte %zu", DEPTH_MAX, i);
        }
    }
    return BASE_OK;
}

static enum base_status parse_header(const struct reading *reading, const char *text, size_t length,
                                     json_t **out)
{
    json_malloc_t old_malloc;
    json_free_t old_free;
    json_error_t why = {.text = ""};
    if (length == 0 || text[0] != '{') {
        return FAIL(reading, "the header does not begin with {");
    }
    BASE_TRY(check_depth(reading, text, length));
    json_get_alloc_funcs(&old_malloc, &old_free);
    tree_arena = reading->arena;
    tree_is_too_large = false;
    json_set_alloc_funcs(tree_alloc, tree_free);
    *out = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    json_set_alloc_funcs(old_malloc, old_free);
    tree_arena = NULL;
    if (tree_is_too_large) {
        return base_fail(reading->error, BASE_RESOURCE_EXHAUSTED,
                         "the header takes more than %u times its %zu bytes to read",
                         CELL__HEADER_FACTOR, length);
    }
    return *out != NULL
               ? BASE_OK
               : FAIL(reading, "the header is no JSON: %.150s at byte %d", why.text, why.position);
}

/* Splits the file. Offsets in messages count from the first byte of the header. */
static enum base_status find_header(struct reading *reading, struct cell_model_file file,
                                    const char **text, size_t *length)
{
    const uint8_t *bytes = file.bytes;
    uint64_t stated = 0;
    if (file.length < PREFIX_BYTES) {
        return FAIL(reading, "not a safetensors file: it has %zu bytes", file.length);
    }
    for (size_t i = 0; i < PREFIX_BYTES; i++) {
        stated |= (uint64_t)bytes[i] << (8 * i);
    }
    if (stated > file.length - PREFIX_BYTES) {
        return FAIL(reading,
                    "not a safetensors file, or cut: its header of %llu bytes does not end in its "
                    "%zu bytes",
                    (unsigned long long)stated, file.length);
    }
    if (stated > CELL__HEADER_BYTES_MAX) {
        return base_fail(reading->error, BASE_RESOURCE_EXHAUSTED,
                         "a header of %llu bytes; at most %zu", (unsigned long long)stated,
                         CELL__HEADER_BYTES_MAX);
    }
    *text = (const char *)bytes + PREFIX_BYTES;
    *length = (size_t)stated;
    reading->data = bytes + PREFIX_BYTES + *length;
    reading->data_bytes = file.length - PREFIX_BYTES - *length;
    return BASE_OK;
}

/* ---- A tensor ----------------------------------------------------------------------------- */

/* Bytes of an element; 0: no type of the format. */
static size_t dtype_bytes(const char *dtype, enum cell__encoding *encoding)
{
    static const struct {
        const char *name;
        size_t bytes;
        enum cell__encoding encoding;
    } types[] = {
        {"F32", 4, CELL__ENCODING_F32},       {"F16", 2, CELL__ENCODING_F16},
        {"BF16", 2, CELL__ENCODING_BF16},     {"BOOL", 1, CELL__ENCODING_OTHER},
        {"U8", 1, CELL__ENCODING_OTHER},      {"I8", 1, CELL__ENCODING_OTHER},
        {"F8_E4M3", 1, CELL__ENCODING_OTHER}, {"F8_E5M2", 1, CELL__ENCODING_OTHER},
        {"U16", 2, CELL__ENCODING_OTHER},     {"I16", 2, CELL__ENCODING_OTHER},
        {"U32", 4, CELL__ENCODING_OTHER},     {"I32", 4, CELL__ENCODING_OTHER},
        {"U64", 8, CELL__ENCODING_OTHER},     {"I64", 8, CELL__ENCODING_OTHER},
        {"F64", 8, CELL__ENCODING_OTHER},     {"C64", 8, CELL__ENCODING_OTHER},
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(types[i].name, dtype) == 0) {
            *encoding = types[i].encoding;
            return types[i].bytes;
        }
    }
    return 0;
}

/* A whole number from 0 on. */
static bool is_count(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static enum base_status read_shape(const struct reading *reading, const json_t *shape,
                                   struct cell__stored *out)
{
    char name[CELL__TEXT_BYTES];
    if (!json_is_array(shape)) {
        return FAIL(reading, "tensor \"%s\" has no shape", cell__quote(name, out->name));
    }
    if (json_array_size(shape) > CELL_RANK_MAX) {
        return base_fail(reading->error, BASE_UNIMPLEMENTED,
                         "tensor \"%s\" has rank %zu; at most %u", cell__quote(name, out->name),
                         json_array_size(shape), CELL_RANK_MAX);
    }
    out->rank = (uint32_t)json_array_size(shape);
    out->count = 1;
    for (uint32_t k = 0; k < out->rank; k++) {
        const json_t *dim = json_array_get(shape, k);
        if (!is_count(dim)) {
            return FAIL(reading, "dimension %u of tensor \"%s\" is no whole number", k,
                        cell__quote(name, out->name));
        }
        out->dims[k] = json_integer_value(dim);
        if (!base_size_mul(out->count, (size_t)out->dims[k], &out->count)) {
            return FAIL(reading, "tensor \"%s\" has more elements than can be counted",
                        cell__quote(name, out->name));
        }
    }
    return BASE_OK;
}

static enum base_status read_offsets(const struct reading *reading, const json_t *offsets,
                                     size_t element_bytes, struct cell__stored *out)
{
    char name[CELL__TEXT_BYTES];
    const json_t *begin = json_array_get(offsets, 0); // NULL of what is no array
    const json_t *end = json_array_get(offsets, 1);
    size_t bytes = 0;
    if (json_array_size(offsets) != 2 || !is_count(begin) || !is_count(end)) {
        return FAIL(reading, "tensor \"%s\" has no data_offsets of two whole numbers",
                    cell__quote(name, out->name));
    }
    out->begin = (size_t)json_integer_value(begin);
    out->end = (size_t)json_integer_value(end);
    if (out->begin > out->end || out->end > reading->data_bytes) {
        return FAIL(reading, "tensor \"%s\" stands at %zu to %zu of %zu bytes of data",
                    cell__quote(name, out->name), out->begin, out->end, reading->data_bytes);
    }
    if (!base_size_mul(out->count, element_bytes, &bytes) || bytes != out->end - out->begin) {
        return FAIL(reading, "tensor \"%s\" has %zu bytes, and %zu elements of type %s",
                    cell__quote(name, out->name), out->end - out->begin, out->count, out->dtype);
    }
    out->bytes = reading->data + out->begin;
    return BASE_OK;
}

static enum base_status read_tensor(const struct reading *reading, const char *name,
                                    const json_t *entry, struct cell__stored *out)
{
    char text[CELL__TEXT_BYTES];
    char type[CELL__TEXT_BYTES];
    *out = (struct cell__stored){.name = name, .dtype = ""};
    if (json_object_size(entry) != 3 || !json_is_string(json_object_get(entry, "dtype"))) {
        return FAIL(reading, "tensor \"%s\" is not told by dtype, shape and data_offsets",
                    cell__quote(text, name));
    }
    out->dtype = json_string_value(json_object_get(entry, "dtype"));
    const size_t element_bytes = dtype_bytes(out->dtype, &out->encoding);
    if (element_bytes == 0) {
        return FAIL(reading, "tensor \"%s\" is of type \"%s\", which is none of the format",
                    cell__quote(text, name), cell__quote(type, out->dtype));
    }
    BASE_TRY(read_shape(reading, json_object_get(entry, "shape"), out));
    return read_offsets(reading, json_object_get(entry, "data_offsets"), element_bytes, out);
}

/* ---- All of them -------------------------------------------------------------------------- */

static int compare_places(const void *a, const void *b)
{
    const struct cell__stored *left = a;
    const struct cell__stored *right = b;
    if (left->begin != right->begin) {
        return left->begin < right->begin ? -1 : 1;
    }
    return (left->end > right->end) - (left->end < right->end); // the empty ones first
}

static enum base_status check_places(const struct reading *reading, const struct cell__store *store)
{
    size_t at = 0;
    char name[CELL__TEXT_BYTES];
    for (uint32_t i = 0; i < store->n; i++) {
        const struct cell__stored *tensor = &store->tensors[i];
        if (tensor->begin < at) {
            return FAIL(reading, "tensor \"%s\" begins at byte %zu of the data, inside another",
                        cell__quote(name, tensor->name), tensor->begin);
        }
        if (tensor->begin > at) {
            return FAIL(reading, "bytes %zu to %zu of the data belong to no tensor", at,
                        tensor->begin);
        }
        at = tensor->end;
    }
    return at == reading->data_bytes
               ? BASE_OK
               : FAIL(reading, "the tensors end at byte %zu of %zu bytes of data", at,
                      reading->data_bytes);
}

static enum base_status read_metadata(const struct reading *reading, json_t *metadata,
                                      struct cell__store *out)
{
    const char *key = NULL;
    json_t *value = NULL;
    char text[CELL__TEXT_BYTES];
    if (!json_is_object(metadata)) {
        return FAIL(reading, METADATA " is no object");
    }
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value)) {
            return FAIL(reading, METADATA ": \"%s\" is no text", cell__quote(text, key));
        }
        out->format = strcmp(key, "format") == 0 ? json_string_value(value) : out->format;
    }
    return BASE_OK;
}

static enum base_status read_tensors(const struct reading *reading, json_t *header,
                                     struct cell__store *out)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(header, key, value)
    {
        if (strcmp(key, METADATA) == 0) {
            BASE_TRY(read_metadata(reading, value, out));
            continue;
        }
        struct cell__stored *tensor = &out->tensors[out->n++];
        BASE_TRY(read_tensor(reading, key, value, tensor));
        out->float_bytes += tensor->count * sizeof(float); // at most four times the file
    }
    qsort(out->tensors, out->n, sizeof(*out->tensors), compare_places);
    return check_places(reading, out);
}

enum base_status cell__safetensors_read(struct base_arena *arena, struct cell_model_file file,
                                        struct cell__store *out, struct base_error *error)
{
    struct reading reading = {.arena = arena, .error = error};
    const char *text = NULL;
    size_t length = 0;
    json_t *header = NULL;
    *out = (struct cell__store){.format = ""};
    BASE_TRY(find_header(&reading, file, &text, &length));
    BASE_TRY(parse_header(&reading, text, length, &header));
    out->tensors = base_arena_array(arena, json_object_size(header) + 1, sizeof(*out->tensors));
    if (out->tensors == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for %zu tensors",
                         json_object_size(header));
    }
    return read_tensors(&reading, header, out);
}
