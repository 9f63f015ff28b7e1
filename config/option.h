/* A table of options, and the grammar of their values. Internal to config/ and its tests.
 *
 * A table describes fields of one plain struct (the server's configuration, a model's); the
 * functions here read one value into one field and print it back. Stateless; any thread. */
#ifndef CONFIG_OPTION_H
#define CONFIG_OPTION_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/status.h"
#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(TYPE, grammar). NUMBER is 0, or digits that do not start with 0; there are no blanks. */
#define CFG_TYPES(X)                                                                               \
    X(BOOL, "true or false")                                                                       \
    X(SWITCH, "a flag without a value")                                                            \
    X(COUNT, "NUMBER")                                                                             \
    X(ID, "NUMBER, or none")                                                                       \
    X(DECIMAL, "NUMBER, or NUMBER and up to 3 digits behind a point")                              \
    X(SIZE, "NUMBER of bytes, or NUMBER followed by B, kB, MB, GB, KiB, MiB or GiB")               \
    X(TIME, "NUMBER of seconds, or NUMBER followed by ms, s or min")                               \
    X(TEXT, "1 to 4095 bytes without control characters")                                          \
    X(WORD, "one of the words listed")                                                             \
    X(NAMES, "model names between commas")                                                         \
    X(VOCABULARIES, "TENSOR=bytes, TENSOR=words:FILE, TENSOR=characters:FILE, "                    \
                    "TENSOR=bpe:FILE:CODES or TENSOR=sentencepiece:FILE, between commas")          \
    X(LAYERS, "KIND or KIND:PREFIX, between commas")                                               \
    X(PARTS, "names of a model's parts between commas")                                            \
    X(CONSTANTS, "TENSOR=NUMBER, between commas")                                                  \
    X(SHAPES, "TENSOR=SIZExSIZE.., a SIZE * for any, between commas")                              \
    X(STATES, "INPUT=OUTPUT, or recurrent, between commas")                                        \
    X(TENSOR, "the name of a tensor")

/* An ID that is `none`. */
#define CFG_ID_NONE (-1)

enum cfg_type {
#define CFG_TYPE_ENUM(name, grammar) CFG_TYPE_##name,
    CFG_TYPES(CFG_TYPE_ENUM)
#undef CFG_TYPE_ENUM
};

/* Types whose values may come one by one, in a list. */
static inline bool cfg__type_is_list(enum cfg_type type)
{
    return type == CFG_TYPE_NAMES || type == CFG_TYPE_VOCABULARIES || type == CFG_TYPE_LAYERS ||
           type == CFG_TYPE_PARTS || type == CFG_TYPE_CONSTANTS || type == CFG_TYPE_SHAPES ||
           type == CFG_TYPE_STATES;
}

/* Where an option may be given. */
enum cfg_ways { CFG_WAYS_ALL, CFG_WAYS_FLAG_ENV, CFG_WAYS_FLAG };

enum cfg_section {
#define CFG_SECTION_ENUM(name, title) CFG_SECTION_##name,
    CFG_SECTIONS(CFG_SECTION_ENUM)
#undef CFG_SECTION_ENUM
        CFG_SECTION_COUNT
};

struct cfg_option {
    enum cfg_type type;
    const char *field;        /* grpc_port */
    size_t offset;            /* of the field in the struct */
    const char *default_text; /* "" = empty TEXT or list */
    uint64_t least, most;     /* COUNT, ID, DECIMAL, SIZE (bytes), TIME (ns) */
    const char *values;       /* for help; WORD: the words between |, hidden ones behind || */
    enum cfg_section section;
    enum cfg_ways ways;
    const char *help;
};

/* One row of a table over `struct object`. */
#define CFG_OPTION_ROW(object, type, field, def, least, most, values, section, ways, help)         \
    {CFG_TYPE_##type,                                                                              \
     #field,                                                                                       \
     offsetof(struct object, field),                                                               \
     def,                                                                                          \
     least,                                                                                        \
     most,                                                                                         \
     values,                                                                                       \
     CFG_SECTION_##section,                                                                        \
     CFG_WAYS_##ways,                                                                              \
     help},

/* Where the option's value stands in object. */
static inline void *cfg__field(const struct cfg_option *option, void *object)
{
    return (char *)object + option->offset;
}

static inline const void *cfg__field_const(const struct cfg_option *option, const void *object)
{
    return (const char *)object + option->offset;
}

struct cfg_table {
    const struct cfg_option *options;
    uint32_t n_options;
};

/* Room for any option's name in any spelling, with prefix and NUL. */
#define CFG_NAME_BYTES 64

/* name := grpc-port, as in files and behind `--`. */
void cfg__option_key(const struct cfg_option *option, char name[CFG_NAME_BYTES]);
/* name := CELLBATCH_GRPC_PORT. */
void cfg__option_env(const struct cfg_option *option, char name[CFG_NAME_BYTES]);

/* Index of the option with this key of length bytes, where `_` may stand for `-` when loose; -1
 * when there is none. */
int cfg__table_find(const struct cfg_table *table, const char *key, size_t length, bool loose);

/* Index of the option whose key is at most two slips away (a letter more, less, other or swapped),
 * and fewer than a third of its letters; -1 when none is. Letter case is ignored, `_` equals `-`.
 */
int cfg__table_nearest(const struct cfg_table *table, const char *key, size_t length);

/* Fills every field of object from the defaults, which are static texts. */
void cfg__table_defaults(const struct cfg_table *table, void *object);

/* A value as it was given. */
struct cfg_given {
    const char *text; /* a NUL follows the last byte */
    size_t length;
    const char *where; /* place and name, for messages: `--grpc-port`, `c.yaml:3:1: grpc-port` */
};

/* Reads a value into the option's field of object. Texts are copied into arena; what is
 * in a list is appended. INVALID_ARGUMENT: `where: what is wrong`. RESOURCE_EXHAUSTED when the
 * arena is spent.
 */
enum base_status cfg__value_set(const struct cfg_option *option, void *object,
                                struct base_arena *arena, const struct cfg_given *given,
                                struct base_error *error);

/* `where: "value" what`; INVALID_ARGUMENT. */
enum base_status cfg__fail_value(const struct cfg_given *given, const char *what,
                                 struct base_error *error);

/* inputs.c: one item of such a list, and all of one as YAML; the name of a tensor. */
enum base_status cfg__append_constant(struct cfg_constants *list, const struct cfg_given *given,
                                      struct base_error *error);
enum base_status cfg__append_shape(struct cfg_shapes *list, const struct cfg_given *given,
                                   struct base_error *error);
enum base_status cfg__set_tensor(struct cfg_tensor *tensor, const struct cfg_given *given,
                                 struct base_error *error);
enum base_status cfg__append_state(struct cfg_states *list, const struct cfg_given *given,
                                   struct base_error *error);
void cfg__write_constants(const struct cfg_constants *list, struct base_buf *out);
void cfg__write_shapes(const struct cfg_shapes *list, struct base_buf *out);
void cfg__write_states(const struct cfg_states *list, struct base_buf *out);

/* Appends the field's value in the same grammar; TEXT and lists as YAML. */
void cfg__value_write(const struct cfg_option *option, const void *object, struct base_buf *out);
/* Appends an amount in the option's unit, such as 64MiB or 30s. */
void cfg__amount_write(enum cfg_type type, uint64_t amount, struct base_buf *out);

/* Appends the words of a WORD option that are listed, between separators. */
void cfg__words_write(const struct cfg_option *option, const char *separator, struct base_buf *out);

#define CFG_QUOTED_BYTES 80
/* quoted := text in quotes, cut to fit, control and non-ASCII bytes as `?`: for error messages. */
const char *cfg__quote(char quoted[CFG_QUOTED_BYTES], const char *text, size_t length);

#endif
