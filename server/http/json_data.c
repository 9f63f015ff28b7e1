/* Numbers between brackets, read in one pass without a tree and without recursion.
 *
 * Flat data is one array of all elements, whatever the shape's rank; nested data has one level of
 * brackets a dimension, and each level's length is checked against the shape as it closes. Before
 * memory is taken, the elements that the shape asks for are compared with what the text could hold
 * at most, so a small text cannot claim a large tensor. No state. */
#include "server/http/json_data.h"

#include "base/assert.h"
#include "base/checked.h"
#include "server/http/number.h"

#include <string.h>

/* Elements printed between two looks at the buffer's room. */
#define ELEMENTS_AT_ONCE 256u

struct reader {
    const char *at, *end;
    const struct srv_tensor *tensor;
    enum cell_dtype dtype;
    uint8_t *out;
    size_t n, n_max;                  /* elements read, and wanted */
    bool nested;                      /* else flat */
    uint32_t depth, depth_of_numbers; /* brackets open; where numbers stand */
    int64_t counts[CELL_RANK_MAX + 1];
    struct base_error *error;
};

bool srv_http_datatype(const char *text, enum cell_dtype *out)
{
    static const struct {
        const char *text;
        enum cell_dtype dtype;
    } names[] = {{"FP32", CELL_F32}, {"INT64", CELL_I64}, {"INT32", CELL_I32}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i].text) == 0) {
            *out = names[i].dtype;
            return true;
        }
    }
    return false;
}

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
    const char *wrong = NULL;
    if (reader->dtype == CELL_F32) {
        float value = 0;
        wrong = srv_http_read_f32(&reader->at, reader->end, &value);
        memcpy(reader->out + reader->n * sizeof value, &value, sizeof value);
    } else {
        int64_t value = 0;
        wrong = srv_http_read_i64(&reader->at, reader->end, &value);
        if (reader->dtype == CELL_I64) {
            memcpy(reader->out + reader->n * sizeof value, &value, sizeof value);
        } else {
            int32_t narrow = (int32_t)value;
            wrong = wrong == NULL && narrow != value ? "does not fit INT32" : wrong;
            memcpy(reader->out + reader->n * sizeof narrow, &narrow, sizeof narrow);
        }
    }
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

enum base_status srv_http_data_read(const struct srv_http_span *span, enum cell_dtype dtype,
                                    struct base_arena *arena, struct srv_tensor *tensor,
                                    struct base_error *error)
{
    struct reader reader = {.at = span->text,
                            .end = span->text + span->length,
                            .tensor = tensor,
                            .dtype = dtype,
                            .depth_of_numbers = 1,
                            .error = error};
    base_assert(span->length >= 2 && span->text[0] == '[' && reader.end[-1] == ']');
    BASE_TRY(count_elements(span, tensor, &reader.n_max, error));
    reader.out = base_arena_array(arena, reader.n_max, cell_dtype_bytes(dtype));
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
    tensor->bytes = reader.n * cell_dtype_bytes(dtype);
    return BASE_OK;
}

static size_t print_element(char *out, enum cell_dtype dtype, const uint8_t *element)
{
    if (dtype == CELL_F32) {
        float value;
        memcpy(&value, element, sizeof value);
        return srv_http_print_f32(out, value);
    }
    if (dtype == CELL_I64) {
        int64_t value;
        memcpy(&value, element, sizeof value);
        return srv_http_print_i64(out, value);
    }
    int32_t value;
    memcpy(&value, element, sizeof value);
    return srv_http_print_i64(out, value);
}

void srv_http_data_write(struct base_buf *out, enum cell_dtype dtype, const uint8_t *data,
                         size_t bytes)
{
    size_t size = cell_dtype_bytes(dtype);
    size_t n = bytes / size;
    base_assert(n * size == bytes);
    base_buf_text(out, "[");
    for (size_t i = 0; i < n && !out->failed;) {
        char text[ELEMENTS_AT_ONCE * (SRV_HTTP_NUMBER_BYTES + 1)];
        size_t length = 0;
        size_t stop = n - i < ELEMENTS_AT_ONCE ? n : i + ELEMENTS_AT_ONCE;
        for (; i < stop; i++) {
            length += print_element(text + length, dtype, data + i * size);
            text[length++] = ',';
        }
        base_buf_add(out, text, length - (i == n ? 1 : 0));
    }
    base_buf_text(out, "]");
}
