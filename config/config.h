/* The server's configuration: one immutable result from defaults < file < environment < flags.
 *
 * The options stand in config/options.h, one row each; here they become the fields of struct
 * cfg_config. Read once at start, then only read, so any thread may look. Nothing here prints or
 * exits: an error is a value that names where it came from (`FILE:LINE:COLUMN: key`, `--flag`,
 * `CELLBATCH_NAME`). */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/status.h"
#include "config/options.h"

#include <stdbool.h>
#include <stdint.h>

/* Longest configuration file. */
#define CFG_FILE_BYTES_MAX ((size_t)1 << 20)

/* Among names: all that there are. */
#define CFG_NAME_ANY "*"

struct cfg_names {
    uint32_t count;
    const char *const *names; /* count texts; NULL when count is 0 */
};

/* How the ids of a tensor are written as text. */
enum cfg_vocabulary_kind {
    CFG_VOCABULARY_BYTES,
    CFG_VOCABULARY_WORDS,
    CFG_VOCABULARY_CHARACTERS,
    CFG_VOCABULARY_BPE,
    CFG_VOCABULARY_SENTENCEPIECE,
};
#define CFG_VOCABULARY_KINDS 5u

/* "bytes", "words", "characters", "bpe" or "sentencepiece"; static. */
const char *cfg_vocabulary_kind_name(enum cfg_vocabulary_kind kind);

#define CFG_VOCABULARIES_MAX 8u

struct cfg_vocabulary {
    char tensor[128];
    enum cfg_vocabulary_kind kind;
    char file[128];  /* beside the model's config.yaml; "" of BYTES */
    char codes[128]; /* of BPE: its merges; likewise */
};

struct cfg_vocabularies {
    uint32_t count;
    struct cfg_vocabulary items[CFG_VOCABULARIES_MAX];
};

#define CFG_LAYERS_MAX 64u

struct cfg_layer {
    char kind[16];
    char prefix[128]; /* of the names of its tensors; "" without */
};

struct cfg_layers {
    uint32_t count;
    struct cfg_layer items[CFG_LAYERS_MAX];
};

/* The parts that a model is made of, in the order that numbers them. */
#define CFG_PARTS_MAX       32u
#define CFG_PART_NAME_BYTES 64u

struct cfg_parts {
    uint32_t count;
    char names[CFG_PARTS_MAX][CFG_PART_NAME_BYTES];
};

#define CFG_TENSOR_BYTES   128u
#define CFG_CONSTANTS_MAX  8u
#define CFG_SHAPES_MAX     16u
#define CFG_SHAPE_RANK_MAX 8u
#define CFG_SIZE_ANY       (-1)

/* The name of one; "" = not given. */
struct cfg_tensor {
    char name[CFG_TENSOR_BYTES];
};

/* An input that is the same number in every request. */
struct cfg_constant {
    char tensor[CFG_TENSOR_BYTES];
    double number;
};

struct cfg_constants {
    uint32_t count;
    struct cfg_constant items[CFG_CONSTANTS_MAX];
};

/* Sizes of an input that its file leaves open. */
struct cfg_shape {
    char tensor[CFG_TENSOR_BYTES];
    uint32_t rank;
    int64_t sizes[CFG_SHAPE_RANK_MAX]; /* or CFG_SIZE_ANY: as the file says */
};

struct cfg_shapes {
    uint32_t count;
    struct cfg_shape items[CFG_SHAPES_MAX];
};

#define CFG_STATES_MAX 32u

/* What an output is in one request, an input is in the next of the same session. */
struct cfg_state {
    char input[CFG_TENSOR_BYTES], output[CFG_TENSOR_BYTES];
};

struct cfg_states {
    bool recurrent; /* those of recurrent layers that begin with zeros too */
    uint32_t count;
    struct cfg_state items[CFG_STATES_MAX];
};

/* C type of each option type: TIME is in ns, SIZE in bytes, TEXT is never NULL ("" = not given). */
#define CFG_FIELD_BOOL(field)    bool field;
#define CFG_FIELD_SWITCH(field)  bool field;
#define CFG_FIELD_COUNT(field)   uint32_t field;
#define CFG_FIELD_ID(field)      int64_t field;
#define CFG_FIELD_DECIMAL(field) double field;
#define CFG_FIELD_SIZE(field)    uint64_t field;
#define CFG_FIELD_TIME(field)    uint64_t field;
#define CFG_FIELD_TEXT(field)    const char *field;
#define CFG_FIELD_WORD(field)    const char *field;
#define CFG_FIELD_NAMES(field)   struct cfg_names field;
#define CFG_FIELD(type, field, def, least, most, values, section, ways, help)                      \
    CFG_FIELD_##type(field)

/* CFG_ID_grpc_port and so on: indexes the table and struct cfg_config.sources. */
enum cfg_option_id {
#define CFG_OPTION_ENUM(type, field, def, least, most, values, section, ways, help) CFG_ID_##field,
    CFG_OPTIONS(CFG_OPTION_ENUM)
#undef CFG_OPTION_ENUM
        CFG_OPTION_COUNT
};

enum cfg_source { CFG_SOURCE_DEFAULT, CFG_SOURCE_FILE, CFG_SOURCE_ENVIRONMENT, CFG_SOURCE_FLAG };

// The fields stand in the order of the table.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct cfg_config {
    CFG_OPTIONS(CFG_FIELD)
    enum cfg_source sources[CFG_OPTION_COUNT]; /* where each value came from */
    struct base_arena arena;                   /* memory of the texts */
};

/* What the configuration is read from; nothing is kept after the call. */
struct cfg_input {
    int argc; /* argv[0] is the program's name and is not read */
    const char *const *argv;
    const char *const *environment; /* `NAME=value`, NULL at the end; NULL = none, as environ */
};

/* Life cycle. On BASE_OK *out is owned by the caller: end it with cfg_free(). With help or version
 * on the command line neither the environment nor a file is read, and nothing else is checked.
 * INVALID_ARGUMENT, NOT_FOUND (the file), RESOURCE_EXHAUSTED (memory, file too long). Blocks while
 * it reads the file. */
enum base_status cfg_load(const struct cfg_input *input, struct cfg_config **out,
                          struct base_error *error);
void cfg_free(struct cfg_config *config); /* NULL is allowed */

/* Use: fields that other layers want in their own words. */

/* Threads that compute, resolved: never 0 and never fewer than teams. Asks the machine when
 * `threads` is 0. */
uint32_t cfg_threads(const struct cfg_config *config);
enum base_log_level cfg_log_level(const struct cfg_config *config);
enum base_log_format cfg_log_format(const struct cfg_config *config);
/* Whether clients may load and unload models. */
bool cfg_controls_models(const struct cfg_config *config);
/* Whether every model is loaded at the start, not only those that load_model names. */
bool cfg_loads_every_model(const struct cfg_config *config);
/* Whether types are measured at load. */
bool cfg_calibrates(const struct cfg_config *config);
/* What a request gets that finds the queue full. */
enum base_status cfg_queue_full_status(const struct cfg_config *config);

/* Inspect. */

/* Appends the whole configuration as a file that cfg_load() reads, each line with its source. */
void cfg_write_effective(const struct cfg_config *config, struct base_buf *out);
/* Appends the text of --help, 80 columns wide. */
void cfg_write_help(struct base_buf *out);
/* Appends the tables of docs/configuration.md. */
void cfg_write_reference(struct base_buf *out);

#endif
