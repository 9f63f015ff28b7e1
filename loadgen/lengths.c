#include "loadgen/lengths.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/random.h"
#include "loadgen/file.h"
#include "loadgen/number.h"

#include <string.h>

/* Enough draws that their repetition cannot be seen in a histogram. */
#define UNIFORM_DRAWS 65536u

#define PATH_BYTES 4096u

static enum base_status bad_spec(const char *spec, struct base_error *error)
{
    return base_fail(error, BASE_INVALID_ARGUMENT,
                     "lengths '%s': want fixed:N, uniform:A:B or trace:FILE[:COLUMN] with lengths "
                     "from 1 to %u",
                     spec, LG_LENGTH_MAX);
}

/* *out gets one length of the given number of characters. */
static bool parse_length(const char *text, size_t length, uint32_t *out)
{
    uint64_t value = 0;
    if (!lg_number_u64(text, length, LG_LENGTH_MAX, &value) || value == 0) {
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

static enum base_status allocate(size_t count, struct lg_lengths *out, struct base_error *error)
{
    out->values = base_alloc_array(count, sizeof(out->values[0]));
    if (out->values == NULL) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for %zu lengths", count);
    }
    return BASE_OK;
}

static void append(struct lg_lengths *lengths, uint32_t value)
{
    lengths->values[lengths->count++] = value;
    lengths->max = value > lengths->max ? value : lengths->max;
}

static enum base_status make_fixed(const char *spec, const char *rest, struct lg_lengths *out,
                                   struct base_error *error)
{
    uint32_t value = 0;
    if (!parse_length(rest, strlen(rest), &value)) {
        return bad_spec(spec, error);
    }
    BASE_TRY(allocate(1, out, error));
    append(out, value);
    return BASE_OK;
}

static enum base_status make_uniform(const char *spec, const char *rest, uint64_t seed,
                                     struct lg_lengths *out, struct base_error *error)
{
    const char *colon = strchr(rest, ':');
    uint32_t low = 0;
    uint32_t high = 0;
    if (colon == NULL || !parse_length(rest, (size_t)(colon - rest), &low) ||
        !parse_length(colon + 1, strlen(colon + 1), &high) || high < low) {
        return bad_spec(spec, error);
    }
    BASE_TRY(allocate(UNIFORM_DRAWS, out, error));
    struct base_random random;
    base_random_init(&random, seed);
    for (uint32_t i = 0; i < UNIFORM_DRAWS; i++) {
        append(out, low + base_random_below(&random, high - low + 1));
    }
    return BASE_OK;
}

/* Splits FILE[:COLUMN]. A last part that is no column belongs to the file's name. */
static bool parse_trace_name(const char *rest, char *path, uint32_t *column)
{
    size_t length = strlen(rest);
    *column = 1;
    const char *colon = strrchr(rest, ':');
    if (colon != NULL) {
        uint64_t number = 0;
        const char *word = colon + 1;
        if (strcmp(word, "source") == 0) {
            length = (size_t)(colon - rest);
        } else if (strcmp(word, "target") == 0) {
            *column = 2;
            length = (size_t)(colon - rest);
        } else if (lg_number_u64(word, strlen(word), 1000, &number) && number > 0) {
            *column = (uint32_t)number;
            length = (size_t)(colon - rest);
        }
    }
    if (length == 0 || length >= PATH_BYTES) {
        return false;
    }
    memcpy(path, rest, length);
    path[length] = '\0';
    return true;
}

/* The column-th field (from 1) of a line; its length, or SIZE_MAX when the line has fewer. */
static size_t find_field(const struct lg_line *line, uint32_t column, const char **field)
{
    const char *start = line->text;
    const char *end = line->text + line->length;
    for (uint32_t i = 1;; i++) {
        const char *tab = memchr(start, '\t', (size_t)(end - start));
        if (i == column) {
            *field = start;
            return (size_t)((tab == NULL ? end : tab) - start);
        }
        if (tab == NULL) {
            return SIZE_MAX;
        }
        start = tab + 1;
    }
}

static enum base_status read_trace(const struct base_buf *contents, const char *path,
                                   uint32_t column, struct lg_lengths *out,
                                   struct base_error *error)
{
    struct lg_line line = {0};
    while (lg_line_next(contents, &line)) {
        if (line.length == 0 || line.text[0] == '#') {
            continue;
        }
        const char *field = NULL;
        size_t length = find_field(&line, column, &field);
        if (length == SIZE_MAX) {
            return base_fail(error, BASE_INVALID_ARGUMENT, "%s:%zu: has no column %u", path,
                             line.number, column);
        }
        uint32_t value = 0;
        if (!parse_length(field, length, &value)) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             "%s:%zu: column %u: '%.*s' is not a length from 1 to %u", path,
                             line.number, column, length > 40 ? 40 : (int)length, field,
                             LG_LENGTH_MAX);
        }
        append(out, value);
    }
    if (out->count == 0) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%s: has no lengths", path);
    }
    return BASE_OK;
}

static size_t count_lines(const struct base_buf *contents)
{
    struct lg_line line = {0};
    while (lg_line_next(contents, &line)) {
    }
    return line.number;
}

static enum base_status make_trace(const char *spec, const char *rest, struct lg_lengths *out,
                                   struct base_error *error)
{
    char path[PATH_BYTES];
    uint32_t column = 0;
    if (!parse_trace_name(rest, path, &column)) {
        return bad_spec(spec, error);
    }
    struct base_buf contents;
    base_buf_init(&contents, LG_FILE_MAX);
    enum base_status status = lg_file_read(path, &contents, error);
    if (status == BASE_OK) {
        status = allocate(count_lines(&contents) + 1, out, error);
    }
    if (status == BASE_OK) {
        status = read_trace(&contents, path, column, out, error);
    }
    base_buf_release(&contents);
    return status;
}

enum base_status lg_lengths_create(const char *spec, uint64_t seed, struct lg_lengths *out,
                                   struct base_error *error)
{
    *out = (struct lg_lengths){0};
    enum base_status status = BASE_OK;
    if (strncmp(spec, "fixed:", 6) == 0) {
        status = make_fixed(spec, spec + 6, out, error);
    } else if (strncmp(spec, "uniform:", 8) == 0) {
        status = make_uniform(spec, spec + 8, seed, out, error);
    } else if (strncmp(spec, "trace:", 6) == 0) {
        status = make_trace(spec, spec + 6, out, error);
    } else {
        status = bad_spec(spec, error);
    }
    if (status != BASE_OK) {
        lg_lengths_release(out);
    }
    return status;
}

void lg_lengths_release(struct lg_lengths *lengths)
{
    base_free(lengths->values);
    *lengths = (struct lg_lengths){0};
}
