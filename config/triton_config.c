/* See triton_config.h. Memory only during the call. Cost: linear in the file, but for the fields of
 * its messages, which are looked for in all that follows. */
#include "config/triton_config.h"

#include "config/config.h"
#include "config/option.h"
#include "config/textproto.h"
#include "config/yaml.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_CHUNK_BYTES  ((size_t)4 << 10)
#define ARENA_BUDGET_BYTES ((size_t)16 << 20)

#define SIZE_MAX_OF (1 << 30) /* of one dimension */

struct reader {
    const char *file, *name; /* name: the model's, or NULL */
    struct cfg_textproto text;
    struct cfg_model_config *config;
    struct base_error *error;
    bool has_batch; /* the first axis of every tensor, which dims leave out */
    bool is_chain;  /* of which sizes and states are */
    bool has_own;   /* config had states before */
};

/* ---- Fields ---------------------------------------------------------------------------------- */

static enum base_status fail(const struct reader *reader, const struct cfg_textproto_field *field,
                             const char *what)
{
    char quoted[CFG_QUOTED_BYTES];
    const bool is_message = field->kind == CFG_TEXTPROTO_MESSAGE;
    return base_fail(reader->error, BASE_INVALID_ARGUMENT, "%s:%u:%u: %s%s%s %s", reader->file,
                     field->line, field->column, field->name, is_message ? "" : " ",
                     is_message ? "" : cfg__quote(quoted, field->value, field->length), what);
}

/* The next of this name in the message, behind field number `after`; NULL: none. CFG_TEXTPROTO_TOP
 * is before all. */
static const struct cfg_textproto_field *find(const struct reader *reader, uint32_t message,
                                              const char *name, uint32_t after)
{
    for (uint32_t f = after + 1; f < reader->text.n_fields; f++) { // TOP + 1 is 0
        const struct cfg_textproto_field *field = &reader->text.fields[f];
        if (field->parent == message && strcmp(field->name, name) == 0) {
            return field;
        }
    }
    return NULL;
}

static uint32_t number_of(const struct reader *reader, const struct cfg_textproto_field *field)
{
    return (uint32_t)(field - reader->text.fields);
}

/* The only one of this name in the message; NULL: none. */
static const struct cfg_textproto_field *
in(const struct reader *reader, const struct cfg_textproto_field *message, const char *name)
{
    return find(reader, number_of(reader, message), name, number_of(reader, message));
}

static enum base_status read_int(const struct reader *reader,
                                 const struct cfg_textproto_field *field, int64_t *out)
{
    char *end = NULL;
    *out = strtoll(field->value, &end, 0);
    return field->kind == CFG_TEXTPROTO_WORD && *end == '\0' && *out >= -1 && *out <= SIZE_MAX_OF
               ? BASE_OK
               : fail(reader, field, "is no such number");
}

/* A tensor's name, of a message that needs one. */
static enum base_status read_tensor(const struct reader *reader,
                                    const struct cfg_textproto_field *message, const char *name,
                                    char out[CFG_TENSOR_BYTES])
{
    const struct cfg_textproto_field *field = in(reader, message, name);
    struct cfg_tensor tensor = {.name = ""};
    if (field == NULL || field->kind != CFG_TEXTPROTO_STRING) {
        return base_fail(reader->error, BASE_INVALID_ARGUMENT, "%s:%u:%u: %s needs a string %s",
                         reader->file, message->line, message->column, message->name, name);
    }
    const struct cfg_given given = {
        .where = reader->file, .text = field->value, .length = field->length};
    if (cfg__set_tensor(&tensor, &given, NULL) != BASE_OK) {
        return fail(reader, field, "is no tensor's name");
    }
    memcpy(out, tensor.name, sizeof(tensor.name));
    return BASE_OK;
}

static bool is_text(const struct cfg_textproto_field *field, const char *text)
{
    return field->length == strlen(text) && memcmp(field->value, text, field->length) == 0;
}

/* ---- Whose and which file ------------------------------------------------------------------- */

static enum base_status check_name(struct reader *reader, const struct cfg_textproto_field *field)
{
    return reader->name == NULL || field->length == 0 || is_text(field, reader->name)
               ? BASE_OK
               : fail(reader, field, "is not the name of the model's folder");
}

static enum base_status check_runtime(struct reader *reader,
                                      const struct cfg_textproto_field *field)
{
    return field->length == 0 || is_text(field, "onnxruntime") || is_text(field, "onnxruntime_onnx")
               ? BASE_OK
               : fail(reader, field, "is not served: ONNX files are (onnxruntime)");
}

static enum base_status refuse_ensemble(struct reader *reader,
                                        const struct cfg_textproto_field *field)
{
    return fail(reader, field, "is not served: a model of other models has no file of its own");
}

/* Of the version's folder, and nowhere else. */
static enum base_status take_file(struct reader *reader, const struct cfg_textproto_field *field)
{
    static const char end[] = ".onnx";
    const size_t least = sizeof(end) - 1;
    if (field->length == 0) {
        return BASE_OK;
    }
    if (field->kind != CFG_TEXTPROTO_STRING || field->length <= least ||
        field->length >= CFG_TENSOR_BYTES || strlen(field->value) != field->length ||
        strchr(field->value, '/') != NULL ||
        strcmp(field->value + field->length - least, end) != 0) {
        return fail(reader, field, "is no ONNX file of the version's folder");
    }
    memcpy(reader->config->model_file.name, field->value, field->length + 1);
    return BASE_OK;
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

static bool is_constant(const struct cfg_model_config *config, const char *tensor)
{
    for (uint32_t i = 0; i < config->constants.count; i++) {
        if (strcmp(config->constants.items[i].tensor, tensor) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_stated(const struct cfg_model_config *config, const char *tensor)
{
    for (uint32_t i = 0; i < config->shapes.count; i++) {
        if (strcmp(config->shapes.items[i].tensor, tensor) == 0) {
            return true;
        }
    }
    return is_constant(config, tensor);
}

static enum base_status read_dims(const struct reader *reader,
                                  const struct cfg_textproto_field *input, struct cfg_shape *out)
{
    const uint32_t message = number_of(reader, input);
    const struct cfg_textproto_field *dim = find(reader, message, "dims", message);
    out->rank = reader->has_batch ? 1 : 0;
    out->sizes[0] = CFG_SIZE_ANY;
    for (; dim != NULL; dim = find(reader, message, "dims", number_of(reader, dim))) {
        int64_t size = 0;
        BASE_TRY(read_int(reader, dim, &size));
        if (size == 0) {
            return fail(reader, dim, "is no size: -1, or at least 1");
        }
        if (out->rank == CFG_SHAPE_RANK_MAX) {
            return fail(reader, dim, "is one axis too many");
        }
        out->sizes[out->rank++] = size < 0 ? CFG_SIZE_ANY : size;
    }
    return BASE_OK;
}

/* Its sizes, where some are said that config does not say. */
static enum base_status take_input(struct reader *reader, const struct cfg_textproto_field *input)
{
    struct cfg_model_config *config = reader->config;
    const struct cfg_textproto_field *reshape = in(reader, input, "reshape");
    struct cfg_shape shape = {.tensor = ""};
    bool says_any = false;
    BASE_TRY(read_tensor(reader, input, "name", shape.tensor));
    BASE_TRY(read_dims(reader, input, &shape));
    if (reshape != NULL) {
        return fail(reader, reshape, "is not served: tensors come as the model's file has them");
    }
    for (uint32_t k = 0; k < shape.rank; k++) {
        says_any |= shape.sizes[k] != CFG_SIZE_ANY;
    }
    if (!says_any || !reader->is_chain || is_stated(config, shape.tensor)) {
        return BASE_OK;
    }
    if (config->shapes.count == CFG_SHAPES_MAX) {
        return fail(reader, input, "is one more with sizes than the 16 that there may be");
    }
    config->shapes.items[config->shapes.count++] = shape;
    return BASE_OK;
}

/* ---- Sequences ------------------------------------------------------------------------------- */

/* Sessions begin with zeros, and with nothing else that the server knows. */
static enum base_status take_state(struct reader *reader, const struct cfg_textproto_field *message)
{
    struct cfg_states *states = &reader->config->states;
    struct cfg_state state = {.input = ""};
    BASE_TRY(read_tensor(reader, message, "input_name", state.input));
    BASE_TRY(read_tensor(reader, message, "output_name", state.output));
    const struct cfg_textproto_field *initial = in(reader, message, "initial_state");
    const struct cfg_textproto_field *file =
        initial != NULL ? in(reader, initial, "data_file") : NULL;
    if (file != NULL) {
        return fail(reader, file,
                    "is not served: a session begins with zeros, or with what its first request "
                    "brings");
    }
    if (reader->has_own || !reader->is_chain) {
        return BASE_OK;
    }
    if (states->count == CFG_STATES_MAX) {
        return fail(reader, message, "is one more than the 32 that there may be");
    }
    states->items[states->count++] = state;
    return BASE_OK;
}

/* A tensor that tells the model where a sequence begins: what the server would say there, nobody
 * but the model's author knows to be needless. */
static enum base_status check_control(struct reader *reader,
                                      const struct cfg_textproto_field *message)
{
    char tensor[CFG_TENSOR_BYTES];
    BASE_TRY(read_tensor(reader, message, "name", tensor));
    return is_constant(reader->config, tensor)
               ? BASE_OK
               : fail(reader, in(reader, message, "name"),
                      "tells where a sequence begins, ends, or whose it is, which is not served; "
                      "where the model needs it no more, since a session begins with zeros in its "
                      "states, config.yaml has what it always is (constants: NAME=0)");
}

static enum base_status take_sequences(struct reader *reader,
                                       const struct cfg_textproto_field *message)
{
    const uint32_t number = number_of(reader, message);
    const struct cfg_textproto_field *field = find(reader, number, "state", number);
    for (; field != NULL; field = find(reader, number, "state", number_of(reader, field))) {
        BASE_TRY(take_state(reader, field));
    }
    field = find(reader, number, "control_input", number);
    for (; field != NULL; field = find(reader, number, "control_input", number_of(reader, field))) {
        BASE_TRY(check_control(reader, field));
    }
    return BASE_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    bool is_message;
    enum base_status (*take)(struct reader *reader, const struct cfg_textproto_field *field);
} known[] = {
    {"name", false, check_name},
    {"platform", false, check_runtime},
    {"backend", false, check_runtime},
    {"ensemble_scheduling", true, refuse_ensemble},
    {"default_model_filename", false, take_file},
    {"input", true, take_input},
    {"sequence_batching", true, take_sequences},
};

static enum base_status take_field(struct reader *reader, const struct cfg_textproto_field *field)
{
    for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
        if (strcmp(field->name, known[k].name) == 0) {
            return (field->kind == CFG_TEXTPROTO_MESSAGE) == known[k].is_message
                       ? known[k].take(reader, field)
                       : fail(reader, field, "is not of this kind");
        }
    }
    return BASE_OK;
}

static enum base_status take_all(struct reader *reader)
{
    const struct cfg_textproto_field *batch =
        find(reader, CFG_TEXTPROTO_TOP, "max_batch_size", CFG_TEXTPROTO_TOP);
    int64_t batch_max = 0;
    if (batch != NULL) {
        BASE_TRY(read_int(reader, batch, &batch_max));
    }
    reader->has_batch = batch_max > 0;
    reader->is_chain = strcmp(reader->config->unfold, "chain") == 0;
    reader->has_own = reader->config->states.recurrent || reader->config->states.count > 0;
    for (uint32_t f = 0; f < reader->text.n_fields; f++) {
        if (reader->text.fields[f].parent == CFG_TEXTPROTO_TOP) {
            BASE_TRY(take_field(reader, &reader->text.fields[f]));
        }
    }
    return BASE_OK;
}

static enum base_status parse(const char *file, const void *bytes, size_t length,
                              struct base_arena *arena, struct reader *reader)
{
    reader->file = file;
    BASE_TRY(cfg__textproto_parse(file, bytes, length, arena, &reader->text, reader->error));
    return take_all(reader);
}

enum base_status cfg_triton_config_parse(const char *file, const void *bytes, size_t length,
                                         const char *name, struct cfg_model_config *config,
                                         struct base_error *error)
{
    struct base_arena arena;
    struct reader reader = {.name = name, .config = config, .error = error};
    base_arena_init(&arena, ARENA_CHUNK_BYTES, ARENA_BUDGET_BYTES);
    const enum base_status status = parse(file, bytes, length, &arena, &reader);
    base_arena_release(&arena);
    return status;
}

enum base_status cfg_triton_config_load(const char *path, const char *name,
                                        struct cfg_model_config *config, struct base_error *error)
{
    struct base_arena arena;
    struct reader reader = {.name = name, .config = config, .error = error};
    const char *bytes = NULL;
    size_t length = 0;
    base_arena_init(&arena, ARENA_CHUNK_BYTES, ARENA_BUDGET_BYTES);
    enum base_status status = cfg__file_read(path, &arena, &bytes, &length, error);
    if (status == BASE_OK) {
        status = parse(path, bytes, length, &arena, &reader);
    }
    base_arena_release(&arena);
    return status == BASE_NOT_FOUND ? BASE_OK : status;
}
