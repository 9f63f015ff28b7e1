/* One pass over the bytes, with a stack of what has been opened: messages and lists. State: one
 * struct reader on the caller's stack. Cost: linear in the file. */
#include "config/textproto.h"

#include "base/buf.h"
#include "config/config.h"

#include <string.h>

/* What has been opened and not closed: a message, whose fields have names of their own, or a list,
 * whose elements have the list's. */
struct opened {
    bool is_list;
    char close;           /* `}`, `>` or `]` */
    uint32_t message;     /* the field that it is; of a list: in which it is */
    const char *name;     /* of a list's elements */
    bool has_element;     /* of a list: one has been read */
    bool expects_element; /* of a list: a comma has been read */
};

struct reader {
    const char *file, *at, *end, *line_start;
    uint32_t line;
    struct base_arena *arena;
    struct cfg_textproto *out;
    struct base_error *error;
    struct base_buf text; /* of the string at hand */
    uint32_t depth;
    struct opened stack[CFG_TEXTPROTO_DEPTH_MAX];
};

/* ---- Characters ------------------------------------------------------------------------------ */

static uint32_t column_of(const struct reader *reader, const char *at)
{
    return (uint32_t)(at - reader->line_start) + 1;
}

static enum base_status fail_at(struct reader *reader, const char *at, const char *what)
{
    return base_fail(reader->error, BASE_INVALID_ARGUMENT, "%s:%u:%u: %s", reader->file,
                     reader->line, column_of(reader, at), what);
}

static enum base_status fail(struct reader *reader, const char *what)
{
    return fail_at(reader, reader->at, what);
}

static enum base_status fail_memory(struct reader *reader)
{
    return base_fail(reader->error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", reader->file);
}

/* NUL at the end. */
static char next(const struct reader *reader)
{
    char c = '\0';
    if (reader->at < reader->end) {
        c = *reader->at;
    }
    return c;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Of a name, a number, or the name of a value. */
static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-' || c == '+';
}

static void skip(struct reader *reader)
{
    bool is_comment = false;
    while (reader->at < reader->end &&
           (is_comment || is_space(*reader->at) || *reader->at == '#')) {
        const bool is_end = *reader->at == '\n';
        is_comment = !is_end && (is_comment || *reader->at == '#');
        reader->at++;
        if (is_end) {
            reader->line++;
            reader->line_start = reader->at;
        }
    }
}

static bool accept(struct reader *reader, char c)
{
    skip(reader);
    const bool is_there = reader->at < reader->end && *reader->at == c;
    reader->at += is_there ? 1 : 0;
    return is_there;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

/* Fields double their room. */
static enum base_status add_field(struct reader *reader, const struct cfg_textproto_field *field)
{
    struct cfg_textproto *out = reader->out;
    const uint32_t n = out->n_fields;
    if (n == CFG_TEXTPROTO_FIELDS_MAX) {
        return fail(reader, "more than 4096 fields");
    }
    if ((n & (n - 1)) == 0) { // 0, 1, 2, 4, ..: all that there is room for
        struct cfg_textproto_field *fields =
            base_arena_array(reader->arena, n == 0 ? 1 : 2 * (size_t)n, sizeof(*fields));
        if (fields == NULL) {
            return fail_memory(reader);
        }
        if (n > 0) {
            memcpy(fields, out->fields, n * sizeof(*fields));
        }
        out->fields = fields;
    }
    out->fields[out->n_fields++] = *field;
    return BASE_OK;
}

static enum base_status push(struct reader *reader, const struct opened *opened)
{
    if (reader->depth == CFG_TEXTPROTO_DEPTH_MAX) {
        return fail(reader, "more than 32 messages and lists in each other");
    }
    reader->stack[reader->depth++] = *opened;
    return BASE_OK;
}

/* The message that the next field is in. */
static uint32_t message_of(const struct reader *reader)
{
    return reader->depth == 0 ? CFG_TEXTPROTO_TOP : reader->stack[reader->depth - 1].message;
}

static struct cfg_textproto_field field_at(const struct reader *reader, const char *name)
{
    return (struct cfg_textproto_field){.parent = message_of(reader),
                                        .name = name,
                                        .value = "",
                                        .line = reader->line,
                                        .column = column_of(reader, reader->at)};
}

static enum base_status open_message(struct reader *reader, const char *name)
{
    struct cfg_textproto_field field = field_at(reader, name);
    const struct opened opened = {.close = *reader->at == '{' ? '}' : '>',
                                  .message = reader->out->n_fields};
    field.kind = CFG_TEXTPROTO_MESSAGE;
    BASE_TRY(add_field(reader, &field));
    BASE_TRY(push(reader, &opened));
    reader->at++;
    return BASE_OK;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static int digit_of(char c, int base)
{
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : base;
    return digit < base ? digit : -1;
}

/* Up to `most` digits. False where there is none. */
static bool read_byte(struct reader *reader, int base, int most, char *out)
{
    int value = 0;
    int n = 0;
    for (; n < most && digit_of(next(reader), base) >= 0; n++) {
        value = value * base + digit_of(next(reader), base);
        reader->at++;
    }
    *out = (char)(unsigned char)value;
    return n > 0 && value <= UINT8_MAX;
}

/* What stands behind a backslash. */
static enum base_status read_escape(struct reader *reader)
{
    static const char names[] = "abfnrtv\\'\"?";
    static const char meant[] = "\a\b\f\n\r\t\v\\'\"?";
    const char c = next(reader);
    const char *name = c != '\0' ? strchr(names, c) : NULL;
    char byte = '\0';
    bool is_read = name != NULL;
    if (is_read) {
        byte = meant[name - names];
        reader->at++;
    } else if (c == 'x' || c == 'X') {
        reader->at++;
        is_read = read_byte(reader, 16, 2, &byte);
    } else {
        is_read = read_byte(reader, 8, 3, &byte);
    }
    if (!is_read) {
        return fail(reader, "no such escape in a string");
    }
    base_buf_add(&reader->text, &byte, 1);
    return BASE_OK;
}

/* What is between quotes; the first has been seen. */
static enum base_status read_quoted(struct reader *reader)
{
    const char *start = reader->at;
    const char quote = *reader->at++;
    while (reader->at < reader->end && *reader->at != quote && *reader->at != '\n') {
        if (*reader->at == '\\') {
            reader->at++;
            BASE_TRY(read_escape(reader));
        } else {
            base_buf_add(&reader->text, reader->at++, 1);
        }
    }
    if (next(reader) != quote) {
        return fail_at(reader, start, "a string that does not end in its line");
    }
    reader->at++;
    return BASE_OK;
}

/* Strings behind each other are one. */
static enum base_status read_string(struct reader *reader, const char *name)
{
    struct cfg_textproto_field field = field_at(reader, name);
    field.kind = CFG_TEXTPROTO_STRING;
    base_buf_clear(&reader->text);
    while (next(reader) == '"' || next(reader) == '\'') {
        BASE_TRY(read_quoted(reader));
        skip(reader);
    }
    if (reader->text.failed) {
        return fail_memory(reader);
    }
    field.length = reader->text.length;
    field.value =
        base_arena_text(reader->arena, field.length > 0 ? reader->text.data : "", field.length);
    return field.value == NULL ? fail_memory(reader) : add_field(reader, &field);
}

static enum base_status read_word(struct reader *reader, const char **out, size_t *length,
                                  const char *missing)
{
    const char *start = reader->at;
    while (is_word(next(reader))) {
        reader->at++;
    }
    *length = (size_t)(reader->at - start);
    if (*length == 0) {
        return fail(reader, missing);
    }
    *out = base_arena_text(reader->arena, start, *length);
    return *out == NULL ? fail_memory(reader) : BASE_OK;
}

/* One value of the field: a message, a string, or a word. */
static enum base_status read_value(struct reader *reader, const char *name)
{
    skip(reader);
    const char c = next(reader);
    if (c == '{' || c == '<') {
        return open_message(reader, name);
    }
    if (c == '"' || c == '\'') {
        return read_string(reader, name);
    }
    struct cfg_textproto_field field = field_at(reader, name);
    BASE_TRY(read_word(reader, &field.value, &field.length, "expected a value"));
    return add_field(reader, &field);
}

/* ---- The file -------------------------------------------------------------------------------- */

/* `name: value`, or the start of a message or of a list. */
static enum base_status read_field(struct reader *reader)
{
    const char *name = NULL;
    size_t length = 0;
    BASE_TRY(read_word(reader, &name, &length, "expected a field's name"));
    const bool has_colon = accept(reader, ':');
    skip(reader);
    const char c = next(reader);
    if (c == '[') {
        const struct opened list = {
            .is_list = true, .close = ']', .message = message_of(reader), .name = name};
        BASE_TRY(push(reader, &list));
        reader->at++;
        return BASE_OK;
    }
    if (!has_colon && c != '{' && c != '<') {
        return fail(reader, "expected a colon");
    }
    return read_value(reader, name);
}

static enum base_status read_element(struct reader *reader, struct opened *list)
{
    if (list->has_element && !list->expects_element) {
        if (!accept(reader, ',')) {
            return fail(reader, "expected a comma, or the list's end");
        }
        list->expects_element = true;
        return BASE_OK;
    }
    list->has_element = true;
    list->expects_element = false;
    return read_value(reader, list->name);
}

static enum base_status pop(struct reader *reader)
{
    const struct opened *opened = &reader->stack[--reader->depth];
    if (opened->expects_element) {
        return fail(reader, "expected a value");
    }
    reader->at++;
    return BASE_OK;
}

static enum base_status read_all(struct reader *reader)
{
    for (skip(reader); reader->at < reader->end; skip(reader)) {
        struct opened *top = reader->depth > 0 ? &reader->stack[reader->depth - 1] : NULL;
        if (top != NULL && *reader->at == top->close) {
            BASE_TRY(pop(reader));
        } else if (top != NULL && top->is_list) {
            BASE_TRY(read_element(reader, top));
        } else if (*reader->at == ',' || *reader->at == ';') {
            reader->at++; // may stand behind a field
        } else {
            BASE_TRY(read_field(reader));
        }
    }
    return reader->depth == 0 ? BASE_OK : fail(reader, "the file ends in a message or a list");
}

enum base_status cfg__textproto_parse(const char *file, const void *bytes, size_t length,
                                      struct base_arena *arena, struct cfg_textproto *out,
                                      struct base_error *error)
{
    const char *text = bytes;
    struct reader reader = {.file = file,
                            .at = text,
                            .end = text + length,
                            .line_start = text,
                            .line = 1,
                            .arena = arena,
                            .out = out,
                            .error = error};
    *out = (struct cfg_textproto){0};
    base_buf_init(&reader.text, CFG_FILE_BYTES_MAX);
    const enum base_status status = read_all(&reader);
    base_buf_release(&reader.text);
    return status;
}
