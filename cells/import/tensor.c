/* Constants: read from the file's TensorProto in any of its encodings, from a file beside it
 * (external.c), or made by folding.
 *
 * raw_data is used where it lies (little-endian, as every machine we build for; protobuf-c copied
 * it into the arena, so it is aligned). Every size is a checked product. */
#include "cells/import/external.h"
#include "cells/import/graph.h"

#include "base/assert.h"
#include "base/checked.h"
#include "cells/bf16.h"
#include "cells/f16.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "raw_data is used in place");

uint32_t cell__dtype_bytes(enum cell__dtype dtype)
{
    switch (dtype) {
    case CELL__I64:
    case CELL__F64_GIVEN:
    case CELL__F64_MADE:
        return 8;
    case CELL__F32:
    case CELL__I32:
        return 4;
    case CELL__BOOL:
    case CELL__U8:
    case CELL__I8:
        return 1;
    }
    base_assert(false);
    return 1;
}

const char *cell__dtype_name(enum cell__dtype dtype)
{
    static const char *const names[] = {"float32", "int64", "int32",  "bool",
                                        "uint8",   "int8",  "double", "double"};
    return names[dtype];
}

/* "[2, 3]" behind `used` bytes; what has no room is left out. */
static void add_dims(char out[CELL__TEXT_BYTES], int used, uint32_t rank, const int64_t *dims)
{
    for (uint32_t k = 0; k < rank && used < (int)CELL__TEXT_BYTES; k++) {
        used += snprintf(out + used, (size_t)((int)CELL__TEXT_BYTES - used), "%s%lld",
                         k == 0 ? "[" : ", ", (long long)dims[k]);
    }
    if (used < (int)CELL__TEXT_BYTES) {
        (void)snprintf(out + used, (size_t)((int)CELL__TEXT_BYTES - used), rank == 0 ? "[]" : "]");
    }
}

const char *cell__tensor_text(char out[CELL__TEXT_BYTES], const struct cell__tensor *tensor)
{
    const int used = snprintf(out, CELL__TEXT_BYTES, "%s ", cell__dtype_name(tensor->dtype));
    add_dims(out, used, tensor->rank, tensor->dims);
    return out;
}

bool cell__is_float(int64_t onnx)
{
    return onnx == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ||
           onnx == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ||
           onnx == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16;
}

bool cell__is_double(enum cell__dtype dtype)
{
    return dtype == CELL__F64_GIVEN || dtype == CELL__F64_MADE;
}

enum base_status cell__dtype_of(struct cell__import *im, int64_t onnx, const char *what,
                                enum cell__dtype *out)
{
    static const char *const names[] = {"undefined",  "float",   "uint8",  "int8",   "uint16",
                                        "int16",      "int32",   "int64",  "string", "bool",
                                        "float16",    "double",  "uint32", "uint64", "complex64",
                                        "complex128", "bfloat16"};
    if (cell__is_float(onnx)) {
        *out = CELL__F32;
        return BASE_OK;
    }
    switch (onnx) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
        *out = CELL__I64;
        return BASE_OK;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
        *out = CELL__I32;
        return BASE_OK;
    case ONNX__TENSOR_PROTO__DATA_TYPE__BOOL:
        *out = CELL__BOOL;
        return BASE_OK;
    default: {
        char text[CELL__TEXT_BYTES];
        bool is_known = onnx >= 0 && onnx < (int64_t)(sizeof(names) / sizeof(names[0]));
        return cell__refuse(im, "%s is of type %s (%lld)", cell__quote(text, what),
                            is_known ? names[onnx] : "unknown", (long long)onnx);
    }
    }
}

enum base_status cell__tensor_shape(struct cell__import *im, struct cell__tensor *tensor,
                                    uint32_t rank, const int64_t *dims)
{
    base_assert(rank <= CELL_RANK_MAX);
    // A 0 among the dimensions must not hide an overflow of the others, which strides multiply.
    size_t bytes = sizeof(struct cell__sym);
    tensor->rank = rank;
    tensor->count = 1;
    for (uint32_t k = 0; k < rank; k++) {
        base_assert(dims[k] >= 0);
        tensor->dims[k] = dims[k];
        if (!base_size_mul(bytes, dims[k] == 0 ? 1 : (size_t)dims[k], &bytes) ||
            bytes > PTRDIFF_MAX) {
            return cell__no_memory(im);
        }
        tensor->count *= (size_t)dims[k];
    }
    return BASE_OK;
}

enum base_status cell__tensor_alloc(struct cell__import *im, struct cell__tensor *tensor,
                                    bool with_syms, void **data, struct cell__sym **syms)
{
    *syms = NULL;
    *data = base_arena_array(im->arena, tensor->count, cell__dtype_bytes(tensor->dtype));
    if (with_syms) {
        *syms = base_arena_array(im->arena, tensor->count, sizeof(**syms));
    }
    if (*data == NULL || (with_syms && *syms == NULL)) {
        return cell__no_memory(im);
    }
    tensor->data = *data;
    tensor->syms = *syms;
    return BASE_OK;
}

enum base_status cell__tensor_settle(struct cell__import *im, struct cell__tensor *tensor)
{
    for (size_t i = 0; i < tensor->count && tensor->syms != NULL; i++) {
        if (!cell__sym_is_number(&tensor->syms[i])) {
            return BASE_OK;
        }
    }
    if (tensor->syms == NULL) {
        return BASE_OK;
    }
    void *data = base_arena_array(im->arena, tensor->count, cell__dtype_bytes(tensor->dtype));
    if (data == NULL) {
        return cell__no_memory(im);
    }
    for (size_t i = 0; i < tensor->count; i++) {
        const int64_t number = tensor->syms[i].add;
        if (tensor->dtype == CELL__I64) {
            ((int64_t *)data)[i] = number;
        } else if (number >= INT32_MIN && number <= INT32_MAX) {
            ((int32_t *)data)[i] = (int32_t)number;
        } else {
            return cell__refuse(im, "an int32 overflows");
        }
    }
    tensor->data = data;
    tensor->syms = NULL;
    return BASE_OK;
}

/* Elements of the typed field that this dtype uses, and their wide type. */
static enum base_status read_typed(struct cell__import *im, const Onnx__TensorProto *proto,
                                   struct cell__tensor *out)
{
    void *data = NULL;
    struct cell__sym *none = NULL;
    size_t given = out->dtype == CELL__F32   ? proto->n_float_data
                   : out->dtype == CELL__I64 ? proto->n_int64_data
                                             : proto->n_int32_data;
    if (given != out->count) {
        char text[CELL__TEXT_BYTES];
        return cell__invalid(im, "constant \"%s\" has %zu elements, its shape %zu",
                             cell__quote(text, proto->name), given, out->count);
    }
    BASE_TRY(cell__tensor_alloc(im, out, false, &data, &none));
    for (size_t i = 0; i < given; i++) {
        switch (out->dtype) {
        case CELL__F32:
            ((float *)data)[i] = proto->float_data[i];
            break;
        case CELL__I64:
            ((int64_t *)data)[i] = proto->int64_data[i];
            break;
        case CELL__I32:
            ((int32_t *)data)[i] = proto->int32_data[i];
            break;
        case CELL__BOOL:
            ((uint8_t *)data)[i] = proto->int32_data[i] != 0;
            break;
        case CELL__U8:
        case CELL__I8: // of either kind the lowest 8 bits
            ((uint8_t *)data)[i] = (uint8_t)proto->int32_data[i];
            break;
        case CELL__F64_GIVEN:
        case CELL__F64_MADE: // no constants
            break;
        }
    }
    return BASE_OK;
}

/* Constants may be quantised, too. */
static enum base_status const_dtype_of(struct cell__import *im, const Onnx__TensorProto *proto,
                                       enum cell__dtype *out)
{
    switch (proto->data_type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT8:
        *out = CELL__U8;
        return BASE_OK;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT8:
        *out = CELL__I8;
        return BASE_OK;
    default:
        return cell__dtype_of(im, proto->data_type, proto->name, out);
    }
}

/* The arena's budget counts the bytes of the file; elements of 8 and 16 bits become floats of 32.
 * No more of them count than there are bytes, however many tensors name the same ones. */
static void widen_for_floats(struct cell__import *im, size_t count)
{
    const size_t more = (cell__dtype_bytes(CELL__F32) - 1) * im->external->factor;
    size_t all = 0;
    size_t bytes = 0;
    const bool counts = base_size_add(im->weights_bytes, im->external->bytes, &all) &&
                        count <= all && im->n_quantised <= all - count;
    if (counts && base_size_mul(count, more, &bytes) &&
        base_size_add(im->arena->budget_bytes, bytes, &bytes)) {
        im->arena->budget_bytes = bytes;
        im->n_quantised += count;
    }
}

static float half_at(int32_t type, const uint8_t *data, size_t i)
{
    uint16_t half;
    memcpy(&half, data + i * sizeof(half), sizeof(half));
    return type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 ? cell_f16_widen(half)
                                                          : cell_bf16_widen(half);
}

/* Halves of either kind, floats from the start. */
static enum base_status read_halves(struct cell__import *im, const Onnx__TensorProto *proto,
                                    struct cell__tensor *out)
{
    void *floats = NULL;
    struct cell__sym *none = NULL;
    const void *data = proto->raw_data.data;
    char text[CELL__TEXT_BYTES];
    const bool is_raw = proto->has_raw_data || cell__external_has(proto);
    const size_t bytes = out->count * sizeof(uint16_t); // fits: floats do
    if (cell__external_has(proto)) {
        BASE_TRY(cell__external_find(im, proto, bytes, 1, &data));
    } else if (is_raw ? proto->raw_data.len != bytes : proto->n_int32_data != out->count) {
        return cell__invalid(im, "constant \"%s\" has %zu %s, its shape %zu",
                             cell__quote(text, proto->name),
                             is_raw ? proto->raw_data.len : proto->n_int32_data,
                             is_raw ? "bytes of data" : "elements", is_raw ? bytes : out->count);
    }
    widen_for_floats(im, out->count);
    BASE_TRY(cell__tensor_alloc(im, out, false, &floats, &none));
    for (size_t i = 0; i < out->count; i++) {
        const uint16_t typed = is_raw ? 0 : (uint16_t)proto->int32_data[i];
        ((float *)floats)[i] =
            half_at(proto->data_type, is_raw ? data : (const uint8_t *)&typed, is_raw ? i : 0);
    }
    return BASE_OK;
}

/* Doubles, such as the numbers of a scripted module, which a Cast makes floats of: floats from the
 * start. Whatever else would read them as doubles is refused. */
static enum base_status read_doubles(struct cell__import *im, const Onnx__TensorProto *proto,
                                     struct cell__tensor *out)
{
    void *data = NULL;
    struct cell__sym *none = NULL;
    char text[CELL__TEXT_BYTES];
    const char *name = cell__quote(text, proto->name);
    const size_t given =
        proto->has_raw_data ? proto->raw_data.len / sizeof(double) : proto->n_double_data;
    if (given != out->count || proto->raw_data.len % sizeof(double) != 0) {
        return cell__invalid(im, "constant \"%s\" has %zu elements, its shape %zu", name, given,
                             out->count);
    }
    BASE_TRY(cell__tensor_alloc(im, out, false, &data, &none));
    for (size_t i = 0; i < given; i++) {
        double number = 0.0;
        if (proto->has_raw_data) {
            memcpy(&number, proto->raw_data.data + i * sizeof(number), sizeof(number));
        } else {
            number = proto->double_data[i];
        }
        if (isfinite(number) && fabs(number) > (double)FLT_MAX) {
            return cell__refuse(im, "constant \"%s\" has %g, which no float is", name, number);
        }
        ((float *)data)[i] = (float)number;
    }
    return BASE_OK;
}

enum base_status cell__tensor_read(struct cell__import *im, const Onnx__TensorProto *proto,
                                   struct cell__tensor *out)
{
    char text[CELL__TEXT_BYTES];
    const char *name = cell__quote(text, proto->name);
    *out = (struct cell__tensor){.rank = 0};
    if (proto->segment != NULL) {
        return cell__refuse(im, "constant \"%s\" is a segment of a tensor", name);
    }
    if (proto->n_dims > CELL_RANK_MAX) {
        return cell__refuse(im, "constant \"%s\" has rank %zu; at most %u", name, proto->n_dims,
                            CELL_RANK_MAX);
    }
    for (size_t k = 0; k < proto->n_dims; k++) {
        if (proto->dims[k] < 0) {
            return cell__invalid(im, "constant \"%s\" has a dimension of %lld", name,
                                 (long long)proto->dims[k]);
        }
    }
    const bool is_double =
        proto->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE && !cell__external_has(proto);
    out->dtype = CELL__F32;
    BASE_TRY(is_double ? BASE_OK : const_dtype_of(im, proto, &out->dtype));
    size_t bytes = 0;
    if (cell__tensor_shape(im, out, (uint32_t)proto->n_dims, proto->dims) != BASE_OK ||
        !base_size_mul(out->count, cell__dtype_bytes(out->dtype), &bytes)) {
        char dims[CELL__TEXT_BYTES];
        add_dims(dims, 0, (uint32_t)proto->n_dims, proto->dims);
        return base_fail(im->error, BASE_RESOURCE_EXHAUSTED,
                         "constant \"%s\" has the shape %s: more memory than there is", name, dims);
    }
    if (is_double) {
        return read_doubles(im, proto, out);
    }
    if (cell__is_float(proto->data_type) &&
        proto->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT) {
        return read_halves(im, proto, out);
    }
    const bool is_quantised = out->dtype == CELL__U8 || out->dtype == CELL__I8;
    if (cell__external_has(proto)) {
        BASE_TRY(cell__external_find(im, proto, bytes, cell__dtype_bytes(out->dtype), &out->data));
        if (is_quantised) { // now that its file counts
            widen_for_floats(im, out->count);
        }
        return BASE_OK;
    }
    if (is_quantised) {
        widen_for_floats(im, out->count);
    }
    if (!proto->has_raw_data) {
        return read_typed(im, proto, out);
    }
    if (bytes != proto->raw_data.len) {
        return cell__invalid(im, "constant \"%s\" has %zu bytes of data, its shape %zu", name,
                             proto->raw_data.len, bytes);
    }
    out->data = proto->raw_data.data;
    return BASE_OK;
}

enum base_status cell__tensor_ints(struct cell__import *im, const struct cell__value *value,
                                   const char *what, struct cell__list *out)
{
    const struct cell__tensor *tensor = &value->tensor;
    if (value->kind != CELL__CONST) {
        return cell__refuse(im, "%s is not a constant", what);
    }
    if (tensor->dtype == CELL__F32 || tensor->rank > 1 || tensor->count > CELL__OPERANDS_MAX) {
        return cell__invalid(im, "%s is not a list of at most %u integers", what,
                             CELL__OPERANDS_MAX);
    }
    for (size_t i = 0; i < tensor->count; i++) {
        struct cell__sym sym = cell__tensor_sym(tensor, i);
        if (!cell__sym_is_number(&sym)) {
            return cell__refuse(im, "%s depends on the batch or time axis", what);
        }
        out->at[i] = sym.add;
    }
    out->is_given = true;
    out->n = (uint32_t)tensor->count;
    return BASE_OK;
}
