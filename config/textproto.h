/* A message in protobuf's text format (protobuf.dev/reference/protobuf/textformat-spec) as a flat
 * list of fields, each with its place and the field that it is in. What the fields mean, and which
 * there may be, is the caller's. Extensions, `[domain/type]` and numbers' own grammar are not read:
 * the former are refused, the latter are words. Internal to config/ and its tests. */
#ifndef CONFIG_TEXTPROTO_H
#define CONFIG_TEXTPROTO_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CFG_TEXTPROTO_FIELDS_MAX 4096u
#define CFG_TEXTPROTO_DEPTH_MAX  32u
#define CFG_TEXTPROTO_TOP        UINT32_MAX

enum cfg_textproto_kind { CFG_TEXTPROTO_WORD, CFG_TEXTPROTO_STRING, CFG_TEXTPROTO_MESSAGE };

/* Of a list there is one for each element. */
struct cfg_textproto_field {
    enum cfg_textproto_kind kind;
    uint32_t parent;  /* the message's field that it is in, or CFG_TEXTPROTO_TOP */
    const char *name; /* with a NUL, in the arena, as is value; "" of a message */
    const char *value;
    size_t length;         /* of the value: a string may hold NULs */
    uint32_t line, column; /* of the value, from 1 */
};

struct cfg_textproto {
    uint32_t n_fields;
    struct cfg_textproto_field *fields; /* in the order of the file */
};

/* Reads length bytes; file is the name for messages. INVALID_ARGUMENT says `FILE:LINE:COLUMN:
 * what`, RESOURCE_EXHAUSTED when the arena is spent. */
enum base_status cfg__textproto_parse(const char *file, const void *bytes, size_t length,
                                      struct base_arena *arena, struct cfg_textproto *out,
                                      struct base_error *error);

#endif
