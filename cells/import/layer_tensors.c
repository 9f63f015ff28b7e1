/* Finding a layer's tensors by their names, and reading them.
 *
 * A tensor is of a layer when its name begins with the layer's, then a `.` or `/`. PyTorch's names
 * behind it are exact. Keras' have the wrapper's half, the cell and ":0" in them or not, by its
 * version and by how they were saved; saved by number they are vars/0, vars/1, in the order in
 * which the layer has made its variables. */
#include "cells/import/layer.h"

#include "base/assert.h"
#include "base/checked.h"
#include "cells/bf16.h"
#include "cells/f16.h"
#include "cells/import/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LIST_BYTES 200

/* ---- Messages ----------------------------------------------------------------------------- */

enum base_status cell__layer_fail(const struct cell__making *making, enum base_status status,
                                  const char *format, ...)
{
    char what[BASE_ERROR_BYTES];
    char kind[CELL__TEXT_BYTES];
    char prefix[CELL__TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return base_fail(making->error, status, "layer %u (%s%s%s): %s", making->number,
                     cell__quote(kind, making->layer->kind),
                     making->layer->prefix[0] == '\0' ? "" : ":",
                     cell__quote(prefix, making->layer->prefix), what);
}

enum base_status cell__layer_no_memory(const struct cell__making *making)
{
    return cell__layer_fail(making, BASE_RESOURCE_EXHAUSTED,
                            "the model takes too much memory to read");
}

/* Whether the tensor is what a Keras layer draws its dropout from: in every file of recurrent
 * layers, and of no use to serve. */
static bool is_random_state(const char *name)
{
    static const char part[] = "seed_generator";
    const size_t length = sizeof(part) - 1;
    for (const char *at = strstr(name, part); at != NULL; at = strstr(at + 1, part)) {
        const bool begins = at == name || at[-1] == '/' || at[-1] == '.';
        if (begins && (at[length] == '/' || at[length] == '.')) {
            return true;
        }
    }
    return false;
}

/* The names of tensors, as many as find room; of those that no layer uses, or of all. */
static void list_names(const struct cell__store *store, bool of_all, char out[LIST_BYTES])
{
    size_t length = 0;
    uint32_t left = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < store->n; i++) {
        char name[CELL__TEXT_BYTES];
        if (!of_all && (store->tensors[i].is_used || is_random_state(store->tensors[i].name))) {
            continue;
        }
        cell__quote(name, store->tensors[i].name);
        if (left > 0 || length + strlen(name) + sizeof(", and 4294967295 more") > LIST_BYTES) {
            left++;
            continue;
        }
        length += (size_t)snprintf(out + length, LIST_BYTES - length, "%s%s",
                                   length == 0 ? "" : ", ", name);
    }
    if (left > 0) {
        (void)snprintf(out + length, LIST_BYTES - length, " and %u more", left);
    }
}

enum base_status cell__layer_unused(const struct cell__making *making)
{
    char names[LIST_BYTES];
    list_names(making->store, false, names);
    return names[0] == '\0' ? BASE_OK
                            : base_fail(making->error, BASE_INVALID_ARGUMENT,
                                        "tensors that no layer uses: %s", names);
}

enum base_status cell__layer_missing(const struct cell__making *making,
                                     const struct cell__variable *variable)
{
    char names[LIST_BYTES];
    char prefix[CELL__TEXT_BYTES];
    const bool is_bare = making->layer->prefix[0] == '\0';
    cell__quote(prefix, making->layer->prefix);
    list_names(making->store, true, names);
    if (variable->torch == NULL || variable->keras == NULL) {
        return cell__layer_fail(
            making, BASE_INVALID_ARGUMENT, "there is no tensor \"%s%s%s\"; there are: %s", prefix,
            is_bare ? "" : ".", variable->torch == NULL ? variable->keras : variable->torch, names);
    }
    return cell__layer_fail(making, BASE_INVALID_ARGUMENT,
                            "there is no tensor \"%s%s%s\" (PyTorch) or \"%s%s%s\" (Keras); there "
                            "are: %s",
                            prefix, is_bare ? "" : ".", variable->torch, prefix, is_bare ? "" : "/",
                            variable->keras, names);
}

/* ---- Names -------------------------------------------------------------------------------- */

/* What stands behind the layer's name; NULL when the tensor is not of it. */
static const char *behind(const struct cell__making *making, const char *name)
{
    const size_t length = strlen(making->layer->prefix);
    if (length == 0) {
        return name;
    }
    const bool is_of = strncmp(name, making->layer->prefix, length) == 0 &&
                       (name[length] == '.' || name[length] == '/');
    return is_of ? name + length + 1 : NULL;
}

struct cell__stored *cell__layer_torch(const struct cell__making *making, const char *name)
{
    for (uint32_t i = 0; i < making->store->n; i++) {
        struct cell__stored *tensor = &making->store->tensors[i];
        const char *rest = behind(making, tensor->name);
        if (rest != NULL && strcmp(rest, name) == 0) {
            tensor->is_used = true;
            return tensor;
        }
    }
    return NULL;
}

/* `cell`, or a name that ends with `_cell` or, as Keras counts them, `_cell_3`. */
static bool is_cell(const char *name, size_t length)
{
    while (length > 0 && name[length - 1] >= '0' && name[length - 1] <= '9') {
        length--;
    }
    length -= length > 0 && name[length - 1] == '_' ? 1 : 0;
    return length >= 4 && memcmp(name + length - 4, "cell", 4) == 0 &&
           (length == 4 || name[length - 5] == '_');
}

static bool is_leaf(const char *name, const struct cell__variable *variable)
{
    char numbered[2][CELL__TEXT_BYTES];
    const size_t length = strlen(variable->keras);
    (void)snprintf(numbered[0], CELL__TEXT_BYTES, "vars/%u", variable->number);
    (void)snprintf(numbered[1], CELL__TEXT_BYTES, "vars.%u", variable->number);
    return (strncmp(name, variable->keras, length) == 0 &&
            (name[length] == '\0' || strcmp(name + length, ":0") == 0)) ||
           strcmp(name, numbered[0]) == 0 || strcmp(name, numbered[1]) == 0;
}

/* Whether Keras calls the variable so, behind the layer's name. */
static bool is_variable(const char *rest, const struct cell__variable *variable, enum cell__way way)
{
    static const struct {
        const char *begin;
        enum cell__way way;
    } halves[] = {{"forward_", CELL__WAY_FORWARD}, {"backward_", CELL__WAY_BACKWARD}};
    enum cell__way found = CELL__WAY_ONLY;
    size_t length = strcspn(rest, "./");
    for (size_t i = 0; i < 2 && rest[length] != '\0'; i++) {
        if (strncmp(rest, halves[i].begin, strlen(halves[i].begin)) == 0) {
            found = halves[i].way;
            rest += length + 1;
            length = strcspn(rest, "./");
            break;
        }
    }
    if (variable->is_in_cell && rest[length] != '\0' && is_cell(rest, length)) {
        rest += length + 1;
    }
    return found == way && is_leaf(rest, variable);
}

enum base_status cell__layer_find(const struct cell__making *making,
                                  const struct cell__variable *variable, enum cell__way way,
                                  struct cell__stored **out)
{
    *out = variable->torch == NULL || way != CELL__WAY_ONLY
               ? NULL
               : cell__layer_torch(making, variable->torch);
    for (uint32_t i = 0; i < making->store->n && variable->keras != NULL; i++) {
        struct cell__stored *tensor = &making->store->tensors[i];
        const char *rest = behind(making, tensor->name);
        if (tensor == *out || rest == NULL || !is_variable(rest, variable, way)) {
            continue;
        }
        if (*out != NULL) {
            char names[2][CELL__TEXT_BYTES];
            return cell__layer_fail(making, BASE_INVALID_ARGUMENT,
                                    "both \"%s\" and \"%s\" could be its %s",
                                    cell__quote(names[0], (*out)->name),
                                    cell__quote(names[1], tensor->name), variable->keras);
        }
        tensor->is_used = true;
        *out = tensor;
    }
    return BASE_OK;
}

/* ---- Shapes and elements ------------------------------------------------------------------ */

static void write_dims(const int64_t *dims, uint32_t rank, char out[CELL__TEXT_BYTES])
{
    size_t length = (size_t)snprintf(out, CELL__TEXT_BYTES, "[");
    for (uint32_t k = 0; k < rank && length < CELL__TEXT_BYTES; k++) {
        length += (size_t)snprintf(out + length, CELL__TEXT_BYTES - length, "%s%lld",
                                   k == 0 ? "" : ", ", (long long)dims[k]);
    }
    if (length < CELL__TEXT_BYTES) {
        (void)snprintf(out + length, CELL__TEXT_BYTES - length, "]");
    }
}

enum base_status cell__layer_shape(const struct cell__making *making,
                                   const struct cell__stored *tensor, int64_t first, int64_t second)
{
    const int64_t wanted[2] = {first, second};
    const uint32_t rank = second == 0 ? 1 : 2;
    bool fits = tensor->rank == rank;
    for (uint32_t k = 0; k < rank && fits; k++) {
        fits = wanted[k] > 0 && tensor->dims[k] == wanted[k];
    }
    if (fits) {
        return BASE_OK;
    }
    char name[CELL__TEXT_BYTES];
    char is[CELL__TEXT_BYTES];
    char needed[CELL__TEXT_BYTES];
    write_dims(tensor->dims, tensor->rank, is);
    write_dims(wanted, rank, needed);
    return cell__layer_fail(making, BASE_INVALID_ARGUMENT,
                            "tensor \"%s\" is %s; the others ask for %s",
                            cell__quote(name, tensor->name), is, needed);
}

enum base_status cell__layer_matrix(const struct cell__making *making,
                                    const struct cell__stored *tensor)
{
    char name[CELL__TEXT_BYTES];
    char is[CELL__TEXT_BYTES];
    if (tensor->rank == 2 && tensor->dims[0] > 0 && tensor->dims[1] > 0) {
        return BASE_OK;
    }
    write_dims(tensor->dims, tensor->rank, is);
    return cell__layer_fail(making, BASE_INVALID_ARGUMENT,
                            "tensor \"%s\" is %s; needed are two dimensions above 0",
                            cell__quote(name, tensor->name), is);
}

enum base_status cell__layer_width(struct cell__making *making, const struct cell__stored *tensor,
                                   int64_t width)
{
    char name[CELL__TEXT_BYTES];
    if (making->width == 0) {
        making->width = width;
        making->input_width = width;
    }
    return making->width == width
               ? BASE_OK
               : cell__layer_fail(making, BASE_INVALID_ARGUMENT,
                                  "tensor \"%s\" takes rows of %lld, and the layers before make "
                                  "rows of %lld",
                                  cell__quote(name, tensor->name), (long long)width,
                                  (long long)making->width);
}

static void widen(const struct cell__stored *tensor, float *out)
{
    if (tensor->encoding == CELL__ENCODING_F32) {
        memcpy(out, tensor->bytes, tensor->count * sizeof(*out));
        return;
    }
    for (size_t i = 0; i < tensor->count; i++) {
        uint16_t half = 0;
        memcpy(&half, tensor->bytes + i * sizeof(half), sizeof(half));
        out[i] =
            tensor->encoding == CELL__ENCODING_F16 ? cell_f16_widen(half) : cell_bf16_widen(half);
    }
}

enum base_status cell__layer_floats(const struct cell__making *making,
                                    const struct cell__stored *tensor, const float **out)
{
    char name[CELL__TEXT_BYTES];
    if (tensor->encoding == CELL__ENCODING_OTHER) {
        return cell__layer_fail(making, BASE_UNIMPLEMENTED,
                                "tensor \"%s\" is of type %s; read are F32, F16 and BF16",
                                cell__quote(name, tensor->name), tensor->dtype);
    }
    const bool is_aligned = (uintptr_t)tensor->bytes % _Alignof(float) == 0;
    if (tensor->encoding == CELL__ENCODING_F32 && is_aligned) {
        *out = (const void *)tensor->bytes;
        return BASE_OK;
    }
    float *copy = base_arena_array(making->arena, tensor->count, sizeof(*copy));
    if (copy == NULL) {
        return cell__layer_no_memory(making);
    }
    widen(tensor, copy);
    *out = copy;
    return BASE_OK;
}

enum base_status cell__layer_constant(const struct cell__making *making,
                                      const struct cell__stored *tensor, const char **out)
{
    struct cell__constant constant = {.rank = tensor->rank};
    const float *floats = NULL;
    base_assert(tensor->rank <= 2);
    BASE_TRY(cell__layer_floats(making, tensor, &floats));
    constant.data = floats;
    memcpy(constant.dims, tensor->dims, tensor->rank * sizeof(constant.dims[0]));
    return cell__build_floats(making->builder, &constant, out);
}
