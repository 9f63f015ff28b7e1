/* Numbers between brackets, read in one pass without a tree and without recursion.
 *
 * Flat data is one array of all elements, whatever the shape's rank; nested data has one level of
 * brackets a dimension, and each level's length is checked against the shape as it closes. Before
 * memory is taken, the elements that the shape asks for are compared with what the text could hold
 * at most, so a small text cannot claim a large tensor. No state. */
#include "server/http/json_data.h"

#include "base/assert.h"
#include "base/checked.h"
#include "cells/bf16.h"
#include "cells/f16.h"
#include "server/http/number.h"

#include <math.h>
#include <string.h>

/* Elements printed between two looks at the buffer's room. */
#define ELEMENTS_AT_ONCE 256u

struct reader {
    const char *at, *end;
    const struct srv_tensor *tensor;
    const struct srv_datatype *datatype;
    uint8_t *out;
    size_t n, n_max;                  /* elements read, and wanted */
    bool nested;                      /* else flat */
    uint32_t depth, depth_of_numbers; /* brackets open; where numbers stand */
    int64_t counts[CELL_RANK_MAX + 1];
    struct base_error *error;
};

static enum base_status fail(const struct reader *reader, const char *what)
{
    return base_fail(reader->error, BASE_INVALID_ARGUMENT, "input '%s': data element %zu %s",
                     reader->tensor->name, reader->n, what);
}

static char next(struct reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\n' ||
                                        *reader->at == '\t' || *reader->at == '\r')) {
        reader->at++;
    }
    if (reader->at == reader->end) {
        return '\0';
    }
    return *reader->at;
}

static uint8_t *place_of(const struct reader *reader)
{
    return reader->out + reader->n * reader->datatype->bytes;
}

static bool is_half(const struct srv_datatype *datatype)
{
    return datatype->form == CELL_FORM_F16 || datatype->form == CELL_FORM_BF16;
}

/* Of the next element; NULL, or what is wrong with it. */
static const char *read_float(struct reader *reader)
{
    float value = 0;
    const char *wrong = srv_http_read_f32(&reader->at, reader->end, &value);
    memcpy(place_of(reader), &value, sizeof value);
    return wrong;
}

/* The nearest float, as a double. */
static const char *read_double(struct reader *reader)
{
    float value = 0;
    const char *wrong = srv_http_read_f32(&reader->at, reader->end, &value);
    const double wide = (double)value;
    memcpy(place_of(reader), &wide, sizeof wide);
    return wrong;
}

/* A half of either kind; beyond the largest only what is written as an infinity would be one. */
static const char *read_half(struct reader *reader)
{
    const bool is_f16 = reader->datatype->form == CELL_FORM_F16;
    float value = 0;
    const char *wrong = srv_http_read_f32(&reader->at, reader->end, &value);
    const uint16_t half = is_f16 ? cell_f16_round(value) : cell_bf16_round(value);
    const float rounded = is_f16 ? cell_f16_widen(half) : cell_bf16_widen(half);
    memcpy(place_of(reader), &half, sizeof half);
    return wrong != NULL ? wrong
           : isfinite(value) != isfinite(rounded)
               ? (is_f16 ? "is too large for FP16" : "is too large for BF16")
               : NULL;
}

static const char *read_integer(struct reader *reader)
{
    int64_t value = 0;
    const char *wrong = srv_http_read_i64(&reader->at, reader->end, &value);
    const bool fits = reader->datatype->dtype == CELL_I64 || value == (int32_t)value;
    memcpy(place_of(reader), &value, reader->datatype->bytes); // little-endian
    return wrong == NULL && !fits ? "does not fit INT32" : wrong;
}

/* Whether this word is next; it is passed over. */
static bool skip_word(struct reader *reader, const char *word)
{
    const size_t length = strlen(word);
    const bool is_next =
        (size_t)(reader->end - reader->at) >= length && memcmp(reader->at, word, length) == 0;
    reader->at += is_next ? length : 0;
    return is_next;
}

/* Of BOOL true and false, or a number as of the others. */
static const char *read_byte(struct reader *reader)
{
    const bool is_bool = reader->datatype->form == CELL_FORM_BOOL;
    const bool is_signed = reader->datatype->form == CELL_FORM_I8;
    int64_t value = 0;
    const char *wrong = NULL;
    if (is_bool && skip_word(reader, "true")) {
        value = 1;
    } else if (!is_bool || !skip_word(reader, "false")) {
        wrong = srv_http_read_i64(&reader->at, reader->end, &value);
    }
    const int64_t least = is_signed ? INT8_MIN : 0;
    const int64_t most = is_bool ? 1 : is_signed ? INT8_MAX : UINT8_MAX;
    *place_of(reader) = (uint8_t)value;
    return wrong != NULL                     ? wrong
           : value >= least && value <= most ? NULL
           : is_bool                         ? "is neither true nor false"
           : is_signed                       ? "does not fit INT8"
                                             : "does not fit UINT8";
}

static enum base_status take_element(struct reader *reader)
{
    if (reader->depth != reader->depth_of_numbers) {
        return fail(reader, "stands at another depth than the shape's");
    }
    if (reader->n == reader->n_max) {
        return base_fail(reader->error, BASE_INVALID_ARGUMENT,
                         "input '%s': data has more than the %zu elements of its shape",
                         reader->tensor->name, reader->n_max);
    }
    const char *wrong = is_half(reader->datatype)                 ? read_half(reader)
                        : reader->datatype->form == CELL_FORM_F64 ? read_double(reader)
                        : reader->datatype->form != CELL_FORM_OWN ? read_byte(reader)
                        : reader->datatype->dtype == CELL_F32     ? read_float(reader)
                                                                  : read_integer(reader);
    if (wrong != NULL) {
        return fail(reader, wrong);
    }
    reader->n++;
    return BASE_OK;
}

static enum base_status open_level(struct reader *reader)
{
    if (reader->depth == reader->depth_of_numbers) {
        return fail(reader, "is an array, deeper than the shape");
    }
    reader->at++;
    reader->depth++;
    reader->counts[reader->depth] = 0;
    return BASE_OK;
}

static enum base_status close_level(struct reader *reader)
{
    uint32_t depth = reader->depth;
    const struct srv_tensor *tensor = reader->tensor;
    if (reader->nested && reader->counts[depth] != tensor->shape[depth - 1]) {
        return base_fail(reader->error, BASE_INVALID_ARGUMENT,
                         "input '%s': data has %lld elements in dimension %u, its shape %lld",
                         tensor->name, (long long)reader->counts[depth], depth - 1,
                         (long long)tensor->shape[depth - 1]);
    }
    reader->at++;
    reader->depth--;
    return BASE_OK;
}

/* After a value: a comma and another value, or the ends of levels. true when all are closed. */
static enum base_status after_value(struct reader *reader, bool *done)
{
    for (;;) {
        reader->counts[reader->depth]++;
        char c = next(reader);
        if (c == ',') {
            reader->at++;
            return BASE_OK;
        }
        if (c != ']') {
            return fail(reader, "is not preceded by a comma");
        }
        BASE_TRY(close_level(reader));
        *done = reader->depth == 0;
        if (*done) {
            return BASE_OK;
        }
    }
}

/* An element or the end of an empty level, which is a value of the level around it, and what
 * follows it. */
static enum base_status take_value(struct reader *reader, bool just_opened, bool *done)
{
    if (just_opened && next(reader) == ']') {
        BASE_TRY(close_level(reader));
        *done = reader->depth == 0;
    } else {
        BASE_TRY(take_element(reader));
    }
    return *done ? BASE_OK : after_value(reader, done);
}

static enum base_status read_all(struct reader *reader)
{
    BASE_TRY(open_level(reader));
    reader->nested = next(reader) == '[' && reader->tensor->rank > 1;
    reader->depth_of_numbers = reader->nested ? reader->tensor->rank : 1;
    bool done = false;
    bool just_opened = true;
    while (!done) {
        bool opens = next(reader) == '[';
        enum base_status status =
            opens ? open_level(reader) : take_value(reader, just_opened, &done);
        if (status != BASE_OK) {
            return status;
        }
        just_opened = opens;
    }
    if (next(reader) != '\0' || reader->at != reader->end) {
        return fail(reader, "follows the end of the array");
    }
    return BASE_OK;
}

/* Elements of the shape; INVALID_ARGUMENT when the text cannot hold as many. */
static enum base_status count_elements(const struct srv_http_span *span,
                                       const struct srv_tensor *tensor, size_t *out,
                                       struct base_error *error)
{
    size_t n = 1;
    bool fits = true;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        base_assert(tensor->shape[i] >= 0);
        fits = base_size_mul(n, (size_t)tensor->shape[i], &n) && fits;
    }
    // Two bytes each, a digit and what follows.
    if (!fits || n > span->length / 2) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "input '%s': data has fewer elements than its shape", tensor->name);
    }
    *out = n;
    return BASE_OK;
}

enum base_status srv_http_data_read(const struct srv_http_span *span,
                                    const struct srv_datatype *datatype, struct base_arena *arena,
                                    struct srv_tensor *tensor, struct base_error *error)
{
    struct reader reader = {.at = span->text,
                            .end = span->text + span->length,
                            .tensor = tensor,
                            .datatype = datatype,
                            .depth_of_numbers = 1,
                            .error = error};
    base_assert(span->length >= 2 && span->text[0] == '[' && reader.end[-1] == ']');
    BASE_TRY(count_elements(span, tensor, &reader.n_max, error));
    reader.out = base_arena_array(arena, reader.n_max, datatype->bytes);
    if (reader.out == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "input '%s': the request is out of memory",
                         tensor->name);
    }
    BASE_TRY(read_all(&reader));
    if (reader.n != reader.n_max) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         "input '%s': data has %zu elements, its shape %zu", tensor->name, reader.n,
                         reader.n_max);
    }
    tensor->data = reader.out;
    tensor->bytes = reader.n * datatype->bytes;
    return BASE_OK;
}

static size_t print_element(char *out, const struct srv_datatype *datatype, const uint8_t *element)
{
    if (is_half(datatype)) {
        uint16_t half;
        memcpy(&half, element, sizeof half);
        return srv_http_print_f32(out, datatype->form == CELL_FORM_F16 ? cell_f16_widen(half)
                                                                       : cell_bf16_widen(half));
    }
    if (datatype->form == CELL_FORM_F64) {
        double value;
        memcpy(&value, element, sizeof value);
        return srv_http_print_f64(out, value);
    }
    if (datatype->form != CELL_FORM_OWN) {
        const int64_t value = datatype->form == CELL_FORM_BOOL ? *element != 0
                              : datatype->form == CELL_FORM_I8 ? (int8_t)*element
                                                               : *element;
        return srv_http_print_i64(out, value);
    }
    if (datatype->dtype == CELL_F32) {
        float value;
        memcpy(&value, element, sizeof value);
        return srv_http_print_f32(out, value);
    }
    return srv_http_print_i64(out, cell_integer_at(datatype->dtype, element));
}

void srv_http_data_write(struct base_buf *out, const struct srv_datatype *datatype,
                         const uint8_t *data, size_t bytes)
{
    size_t size = datatype->bytes;
    size_t n = bytes / size;
    base_assert(n * size == bytes);
    base_buf_text(out, "[");
    for (size_t i = 0; i < n && !out->failed;) {
        char text[ELEMENTS_AT_ONCE * (SRV_HTTP_NUMBER_BYTES + 1)];
        size_t length = 0;
        size_t stop = n - i < ELEMENTS_AT_ONCE ? n : i + ELEMENTS_AT_ONCE;
        for (; i < stop; i++) {
            length += print_element(text + length, datatype, data + i * size);
            text[length++] = ',';
        }
        base_buf_add(out, text, length - (i == n ? 1 : 0));
    }
    base_buf_text(out, "]");
}
