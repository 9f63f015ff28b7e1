/* YAML through libyaml's event interface.
 *
 * Events, not documents: a document has lost its anchors and explicit tags, which are to be
 * refused, and is built before its depth can be looked at. A reader of one level of keys needs no
 * tree. State: one struct reader on the caller's stack. Cost: linear in the file. */
#include "config/yaml.h"

#include "base/assert.h"
#include "config/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

enum place { AT_START, AT_KEY, AT_VALUE, IN_LIST, AT_END };

struct reader {
    const char *file;
    struct base_arena *arena;
    struct cfg_yaml *out;
    struct base_error *error;
    uint32_t capacity; /* of out->pairs */
    enum place place;
    struct cfg_yaml_pair pair; /* key of the value under way */
    uint32_t in_list;          /* values of the list under way */
    bool documents;            /* one has begun */
};

static uint32_t from_one(size_t count)
{
    return count < UINT32_MAX ? (uint32_t)count + 1 : UINT32_MAX;
}

static enum base_status fail_at(struct reader *reader, yaml_mark_t mark, const char *what)
{
    return base_fail(reader->error, BASE_INVALID_ARGUMENT, "%s:%u:%u: %s", reader->file,
                     from_one(mark.line), from_one(mark.column), what);
}

static enum base_status fail_memory(struct reader *reader)
{
    return base_fail(reader->error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", reader->file);
}

static enum base_status fail_parser(struct reader *reader, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR) {
        return fail_memory(reader);
    }
    const char *problem = parser->problem != NULL ? parser->problem : "not YAML";
    if (parser->error == YAML_READER_ERROR) { // has no line, only an offset
        return base_fail(reader->error, BASE_INVALID_ARGUMENT, "%s: at byte %zu: %s", reader->file,
                         parser->problem_offset, problem);
    }
    return fail_at(reader, parser->problem_mark, problem);
}

/* Appends reader->pair with this value. */
static enum base_status add_pair(struct reader *reader, const char *value, size_t length,
                                 yaml_mark_t mark)
{
    struct cfg_yaml *out = reader->out;
    if (out->n_pairs == CFG_YAML_PAIRS_MAX) {
        return fail_at(reader, mark, "more than 4096 values");
    }
    if (out->n_pairs == reader->capacity) {
        uint32_t capacity = reader->capacity == 0 ? 64 : reader->capacity * 2;
        struct cfg_yaml_pair *pairs = base_arena_array(reader->arena, capacity, sizeof(*pairs));
        if (pairs == NULL) {
            return fail_memory(reader);
        }
        if (out->n_pairs > 0) {
            memcpy(pairs, out->pairs, out->n_pairs * sizeof(*pairs));
        }
        out->pairs = pairs;
        reader->capacity = capacity;
    }
    struct cfg_yaml_pair *pair = &out->pairs[out->n_pairs];
    *pair = reader->pair;
    pair->value = base_arena_text(reader->arena, value, length);
    pair->value_length = length;
    pair->line = from_one(mark.line);
    pair->column = from_one(mark.column);
    pair->in_list = reader->place == IN_LIST;
    if (pair->value == NULL) {
        return fail_memory(reader);
    }
    out->n_pairs++;
    return BASE_OK;
}

/* `key:`, `key: ~` and `key: null` give no value. */
static bool is_null(const yaml_event_t *event)
{
    const char *value = (const char *)event->data.scalar.value;
    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (strcmp(value, "~") == 0 || strcmp(value, "null") == 0);
}

static enum base_status on_scalar(struct reader *reader, const yaml_event_t *event)
{
    const char *value = (const char *)event->data.scalar.value;
    size_t length = event->data.scalar.length;
    if (reader->place == AT_START) {
        // Nothing but comments behind `---` comes as one empty word.
        reader->place = AT_END;
        return length == 0 ? BASE_OK
                           : fail_at(reader, event->start_mark, "expected lines of `key: value`");
    }
    if (reader->place == AT_KEY) {
        struct cfg_yaml_pair *pair = &reader->pair;
        *pair = (struct cfg_yaml_pair){.key_length = length,
                                       .key_line = from_one(event->start_mark.line),
                                       .key_column = from_one(event->start_mark.column)};
        pair->key = base_arena_text(reader->arena, value, length);
        reader->place = AT_VALUE;
        return pair->key == NULL ? fail_memory(reader) : BASE_OK;
    }
    BASE_TRY(add_pair(reader, value, is_null(event) ? 0 : length, event->start_mark));
    if (reader->place == AT_VALUE) {
        reader->place = AT_KEY;
    } else {
        reader->in_list++;
    }
    return BASE_OK;
}

static enum base_status on_mapping(struct reader *reader, const yaml_event_t *event)
{
    if (reader->place == AT_START) {
        reader->place = AT_KEY;
        return BASE_OK;
    }
    if (reader->place == AT_KEY) {
        return fail_at(reader, event->start_mark, "a key must be a word");
    }
    return fail_at(reader, event->start_mark, "keys inside a value are not known here");
}

static enum base_status on_sequence(struct reader *reader, const yaml_event_t *event)
{
    if (reader->place == AT_VALUE) {
        reader->place = IN_LIST;
        reader->in_list = 0;
        return BASE_OK;
    }
    const char *what = reader->place == AT_START ? "expected lines of `key: value`"
                       : reader->place == AT_KEY ? "a key must be a word"
                                                 : "a list inside a list is not known here";
    return fail_at(reader, event->start_mark, what);
}

static enum base_status on_end(struct reader *reader, const yaml_event_t *event)
{
    if (reader->place == IN_LIST) {
        reader->place = AT_KEY;
        return reader->in_list > 0 ? BASE_OK : fail_at(reader, event->start_mark, "an empty list");
    }
    base_assert(reader->place == AT_KEY);
    reader->place = AT_END;
    return BASE_OK;
}

static enum base_status on_document(struct reader *reader, const yaml_event_t *event)
{
    if (reader->documents) {
        return fail_at(reader, event->start_mark, "a second document is not known here");
    }
    reader->documents = true;
    if (event->data.document_start.version_directive != NULL ||
        event->data.document_start.tag_directives.start !=
            event->data.document_start.tag_directives.end) {
        return fail_at(reader, event->start_mark, "directives (%) are not known here");
    }
    return BASE_OK;
}

/* Anchor (&x) or tag (!x) of an event that starts a value, or NULL. */
static const char *decoration(const yaml_event_t *event)
{
    static const char anchor[] = "anchors (&) are not known here";
    static const char tag[] = "tags (!) are not known here";
    if (event->type == YAML_SCALAR_EVENT) {
        return event->data.scalar.anchor != NULL ? anchor
               : event->data.scalar.tag != NULL  ? tag
                                                 : NULL;
    }
    if (event->type == YAML_SEQUENCE_START_EVENT) {
        return event->data.sequence_start.anchor != NULL ? anchor
               : event->data.sequence_start.tag != NULL  ? tag
                                                         : NULL;
    }
    if (event->type == YAML_MAPPING_START_EVENT) {
        return event->data.mapping_start.anchor != NULL ? anchor
               : event->data.mapping_start.tag != NULL  ? tag
                                                        : NULL;
    }
    return NULL;
}

static enum base_status on_event(struct reader *reader, const yaml_event_t *event)
{
    const char *refused = decoration(event);
    if (refused != NULL) {
        return fail_at(reader, event->start_mark, refused);
    }
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return on_scalar(reader, event);
    case YAML_MAPPING_START_EVENT:
        return on_mapping(reader, event);
    case YAML_SEQUENCE_START_EVENT:
        return on_sequence(reader, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return on_end(reader, event);
    case YAML_DOCUMENT_START_EVENT:
        return on_document(reader, event);
    case YAML_ALIAS_EVENT:
        return fail_at(reader, event->start_mark, "aliases (*) are not known here");
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return BASE_OK;
    }
    return BASE_OK;
}

enum base_status cfg__yaml_parse(const char *file, const void *bytes, size_t length,
                                 struct base_arena *arena, struct cfg_yaml *out,
                                 struct base_error *error)
{
    *out = (struct cfg_yaml){0};
    struct reader reader = {.file = file, .arena = arena, .out = out, .error = error};
    yaml_parser_t parser;
    if (yaml_parser_initialize(&parser) == 0) {
        return fail_memory(&reader);
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, bytes, length);
    enum base_status status = BASE_OK;
    bool more = true;
    while (more && status == BASE_OK) {
        yaml_event_t event;
        if (yaml_parser_parse(&parser, &event) == 0) {
            status = fail_parser(&reader, &parser);
            break;
        }
        more = event.type != YAML_STREAM_END_EVENT;
        status = on_event(&reader, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return status;
}

static enum base_status fail_errno(const char *path, int number, struct base_error *error)
{
    char reason[128];
    return base_fail(error, number == ENOENT ? BASE_NOT_FOUND : BASE_INVALID_ARGUMENT, "%s: %s",
                     path, strerror_r(number, reason, sizeof(reason)));
}

enum base_status cfg__file_read(const char *path, struct base_arena *arena, const char **bytes,
                                size_t *length, struct base_error *error)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return fail_errno(path, errno, error);
    }
    enum base_status status = BASE_OK;
    char *memory = base_arena_alloc(arena, CFG_FILE_BYTES_MAX + 1);
    if (memory == NULL) {
        status = base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: out of memory", path);
        goto out;
    }
    errno = 0;
    *length = fread(memory, 1, CFG_FILE_BYTES_MAX + 1, file);
    *bytes = memory;
    if (ferror(file)) {
        status = fail_errno(path, errno, error);
    } else if (*length > CFG_FILE_BYTES_MAX) {
        status = base_fail(error, BASE_RESOURCE_EXHAUSTED, "%s: longer than 1 MiB", path);
    }
out:
    (void)fclose(file);
    return status;
}
