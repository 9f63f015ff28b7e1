/* What a model's settings say of its inputs, one by one: a number that each element of an input is,
 * `sr=16000`, sizes that the file leaves open, `x=*x576`, and which output an input goes on from,
 * `h0=hn`. */
#include "config/option.h"

#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES 32u
#define SIZE_MAX_OF  (1u << 30) /* of one dimension */

static bool is_name(const char *text, size_t length)
{
    bool is_name = length > 0 && length < CFG_TENSOR_BYTES;
    for (size_t i = 0; i < length && is_name; i++) {
        is_name = (unsigned char)text[i] >= 0x20 && text[i] != 0x7f;
    }
    return is_name;
}

/* Splits TENSOR=REST; what stands behind the last `=`, for a tensor's name may have one. False
 * where a part is missing, or the name too long or with control characters. */
static bool split(const struct cfg_given *given, char tensor[CFG_TENSOR_BYTES], const char **rest,
                  size_t *length)
{
    size_t name = given->length;
    while (name > 0 && given->text[name - 1] != '=') {
        name--;
    }
    if (name < 2 || !is_name(given->text, name - 1)) {
        return false;
    }
    memcpy(tensor, given->text, name - 1);
    tensor[name - 1] = '\0';
    *rest = given->text + name;
    *length = given->length - name;
    return *length > 0;
}

/* -?DIGITS(.DIGITS)? */
static bool read_number(const char *text, size_t length, double *out)
{
    char copy[NUMBER_BYTES];
    const size_t sign = length > 0 && text[0] == '-' ? 1 : 0;
    size_t digits = 0;
    size_t points = 0;
    if (length >= sizeof(copy) || length == sign) {
        return false;
    }
    for (size_t i = sign; i < length; i++) {
        const bool is_point = text[i] == '.' && i > sign && i + 1 < length && points == 0;
        const bool is_digit = text[i] >= '0' && text[i] <= '9';
        points += is_point ? 1 : 0;
        digits += is_digit ? 1 : 0;
        if (!is_point && !is_digit) {
            return false;
        }
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    *out = strtod(copy, NULL);
    return digits > 0;
}

enum base_status cfg__set_tensor(struct cfg_tensor *tensor, const struct cfg_given *given,
                                 struct base_error *error)
{
    if (!is_name(given->text, given->length)) {
        return cfg__fail_value(
            given, "is no tensor's name (at most 127 bytes, without control characters)", error);
    }
    memcpy(tensor->name, given->text, given->length);
    tensor->name[given->length] = '\0';
    return BASE_OK;
}

enum base_status cfg__append_constant(struct cfg_constants *list, const struct cfg_given *given,
                                      struct base_error *error)
{
    struct cfg_constant made = {.tensor = ""};
    const char *rest = NULL;
    size_t length = 0;
    if (!split(given, made.tensor, &rest, &length) || !read_number(rest, length, &made.number)) {
        return cfg__fail_value(given, "is not TENSOR=NUMBER, such as sr=16000", error);
    }
    for (uint32_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].tensor, made.tensor) == 0) {
            return cfg__fail_value(given, "is the tensor's second number", error);
        }
    }
    if (list->count == CFG_CONSTANTS_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: more than %u constants", given->where,
                         CFG_CONSTANTS_MAX);
    }
    list->items[list->count++] = made;
    return BASE_OK;
}

/* One size: `*`, or a number of at least 1. */
static bool read_size(const char *text, size_t length, int64_t *out)
{
    *out = CFG_SIZE_ANY;
    if (length == 1 && text[0] == '*') {
        return true;
    }
    uint64_t size = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || size > SIZE_MAX_OF) {
            return false;
        }
        size = 10 * size + (uint64_t)(text[i] - '0');
    }
    *out = (int64_t)size;
    return length > 0 && text[0] != '0' && size <= SIZE_MAX_OF;
}

static bool read_shape(const char *text, size_t length, struct cfg_shape *out)
{
    size_t start = 0;
    while (start <= length) {
        const char *x = memchr(text + start, 'x', length - start);
        const size_t end = x == NULL ? length : (size_t)(x - text);
        if (out->rank == CFG_SHAPE_RANK_MAX ||
            !read_size(text + start, end - start, &out->sizes[out->rank++])) {
            return false;
        }
        start = end + 1;
    }
    return true;
}

enum base_status cfg__append_shape(struct cfg_shapes *list, const struct cfg_given *given,
                                   struct base_error *error)
{
    struct cfg_shape made = {.tensor = ""};
    const char *rest = NULL;
    size_t length = 0;
    if (!split(given, made.tensor, &rest, &length) || !read_shape(rest, length, &made)) {
        return cfg__fail_value(given, "is not TENSOR=SIZExSIZE.., such as x=*x576", error);
    }
    for (uint32_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].tensor, made.tensor) == 0) {
            return cfg__fail_value(given, "is the tensor's second shape", error);
        }
    }
    if (list->count == CFG_SHAPES_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: more than %u shapes", given->where,
                         CFG_SHAPES_MAX);
    }
    list->items[list->count++] = made;
    return BASE_OK;
}

/* The word that stands for all states of recurrent layers. */
#define RECURRENT "recurrent"

static enum base_status add_pair(struct cfg_states *list, const struct cfg_given *given,
                                 struct base_error *error)
{
    struct cfg_state made = {.input = ""};
    const char *rest = NULL;
    size_t length = 0;
    if (!split(given, made.input, &rest, &length) || length >= sizeof(made.output)) {
        return cfg__fail_value(given, "is not INPUT=OUTPUT, such as h0=hn, nor " RECURRENT, error);
    }
    memcpy(made.output, rest, length);
    for (uint32_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].input, made.input) == 0 ||
            strcmp(list->items[i].output, made.output) == 0) {
            return cfg__fail_value(given, "names a tensor that is a state already", error);
        }
    }
    if (list->count == CFG_STATES_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: more than %u states", given->where,
                         CFG_STATES_MAX);
    }
    list->items[list->count++] = made;
    return BASE_OK;
}

enum base_status cfg__append_state(struct cfg_states *list, const struct cfg_given *given,
                                   struct base_error *error)
{
    if (given->length == strlen(RECURRENT) && memcmp(given->text, RECURRENT, given->length) == 0) {
        list->recurrent = true;
        return BASE_OK;
    }
    return add_pair(list, given, error);
}

void cfg__write_constants(const struct cfg_constants *list, struct base_buf *out)
{
    base_buf_text(out, "[");
    for (uint32_t i = 0; i < list->count; i++) {
        base_buf_printf(out, "%s%s=%.15g", i == 0 ? "" : ", ", list->items[i].tensor,
                        list->items[i].number);
    }
    base_buf_text(out, "]");
}

void cfg__write_shapes(const struct cfg_shapes *list, struct base_buf *out)
{
    base_buf_text(out, "[");
    for (uint32_t i = 0; i < list->count; i++) {
        const struct cfg_shape *item = &list->items[i];
        base_buf_printf(out, "%s%s=", i == 0 ? "" : ", ", item->tensor);
        for (uint32_t k = 0; k < item->rank; k++) {
            base_buf_text(out, k == 0 ? "" : "x");
            if (item->sizes[k] == CFG_SIZE_ANY) {
                base_buf_text(out, "*");
            } else {
                base_buf_printf(out, "%lld", (long long)item->sizes[k]);
            }
        }
    }
    base_buf_text(out, "]");
}

void cfg__write_states(const struct cfg_states *list, struct base_buf *out)
{
    base_buf_printf(out, "[%s", list->recurrent ? RECURRENT : "");
    for (uint32_t i = 0; i < list->count; i++) {
        base_buf_printf(out, "%s%s=%s", i == 0 && !list->recurrent ? "" : ", ",
                        list->items[i].input, list->items[i].output);
    }
    base_buf_text(out, "]");
}
