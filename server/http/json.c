/* Infer bodies: decoding.
 *
 * The numbers of JSON tensors never meet jansson: json_cut.h cuts them out, json_data.h reads them
 * into the request's arena. jansson parses the envelope that is left, at most a few KB in a sane
 * request, with its memory taken from a budgeted scratch arena that is dropped as a whole. jansson
 * knows only global allocation functions, so ours are set for the time of one parse and the old
 * ones put back; that is sound because all users of jansson in the server run on the loop thread.
 * Trees are never handed out and never freed node by node.
 *
 * Unknown members and parameters are ignored, since clients attach their own; refused are those
 * that would change the answer and are not there (sequences, shared memory, classification). */
#include "server/http/json.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"
#include "server/http/json_data.h"
#include "server/http/json_decode.h"
#include "server/orders.h"

#include <jansson.h>
#include <string.h>

/* Of the envelope's copy and its tree, beside one text of the greatest length. */
#define TREE_BYTES          (4u << 20)
#define SCRATCH_CHUNK_BYTES (32u << 10)
#define ID_BYTES_MAX        256u
#define DATATYPE_BYTES_MAX  16u

/* Where jansson takes its memory from during a parse, and whether it was refused any: jansson does
 * not always say so. */
static _Thread_local struct base_arena *tree_arena;
static _Thread_local bool tree_is_too_large;

static void *tree_alloc(size_t bytes)
{
    void *memory = base_arena_alloc(tree_arena, bytes);
    tree_is_too_large = tree_is_too_large || memory == NULL;
    return memory;
}

static void tree_free(void *memory)
{
    (void)memory; // goes with the arena
}

void srv_http_codec_init(struct srv_http_codec *codec, size_t json_bytes_max)
{
    base_assert(json_bytes_max > 0 && json_bytes_max < SIZE_MAX - TREE_BYTES);
    codec->json_bytes_max = json_bytes_max;
    base_arena_init(&codec->scratch, SCRATCH_CHUNK_BYTES, json_bytes_max + TREE_BYTES);
}

void srv_http_codec_release(struct srv_http_codec *codec)
{
    base_arena_release(&codec->scratch);
}

enum base_status srv_http__out_of_memory(struct srv_http__decoder *decoder)
{
    return base_fail(decoder->error, BASE_RESOURCE_EXHAUSTED, "the request is out of memory");
}

enum base_status srv_http__parse(struct srv_http__decoder *decoder,
                                 const struct srv_http_span *span, const char *text, json_t **out)
{
    json_malloc_t old_malloc;
    json_free_t old_free;
    json_error_t error;
    const bool is_envelope = span == &decoder->cut.envelope;
    json_get_alloc_funcs(&old_malloc, &old_free);
    tree_arena = &decoder->codec->scratch;
    tree_is_too_large = false;
    json_set_alloc_funcs(tree_alloc, tree_free);
    *out = json_loadb(span->text, span->length, JSON_REJECT_DUPLICATES, &error);
    json_set_alloc_funcs(old_malloc, old_free);
    tree_arena = NULL;
    if (*out != NULL) {
        return BASE_OK;
    }
    if (tree_is_too_large) {
        return base_fail(decoder->error, BASE_RESOURCE_EXHAUSTED,
                         "JSON around the data is too large");
    }
    size_t position = error.position < 0 ? 0 : (size_t)error.position;
    position = is_envelope ? srv_http_cut_origin(&decoder->cut, text, position)
                           : position + (size_t)(span->text - text);
    return SRV_HTTP__FAIL(decoder, "JSON: %s at byte %zu", error.text, position);
}

/* A member that has to be a string of at most bytes_max, copied into the request's arena. */
static enum base_status take_text(struct srv_http__decoder *decoder, const json_t *value,
                                  const char *what, size_t bytes_max, const char **out)
{
    if (!json_is_string(value)) {
        return SRV_HTTP__FAIL(decoder, "%s has to be a string", what);
    }
    size_t length = json_string_length(value);
    if (length > bytes_max) {
        return SRV_HTTP__FAIL(decoder, "%s is longer than %zu bytes", what, bytes_max);
    }
    *out = base_arena_text(&decoder->request->arena, json_string_value(value), length);
    return *out == NULL ? srv_http__out_of_memory(decoder) : BASE_OK;
}

/* A parameter that is a whole number not below 0; *out keeps its value when there is none. */
static enum base_status take_count(struct srv_http__decoder *decoder, const json_t *parameters,
                                   const char *key, uint64_t *out)
{
    const json_t *value = json_object_get(parameters, key);
    if (value == NULL) {
        return BASE_OK;
    }
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return SRV_HTTP__FAIL(decoder, "parameter '%s' has to be an integer not below 0", key);
    }
    *out = (uint64_t)json_integer_value(value);
    return BASE_OK;
}

static enum base_status take_flag(struct srv_http__decoder *decoder, const json_t *parameters,
                                  const char *key, bool *out)
{
    const json_t *value = json_object_get(parameters, key);
    if (value == NULL) {
        return BASE_OK;
    }
    if (!json_is_boolean(value)) {
        return SRV_HTTP__FAIL(decoder, "parameter '%s' has to be true or false", key);
    }
    *out = json_is_true(value);
    return BASE_OK;
}

/* The member `parameters`, NULL when there is none. */
static enum base_status take_parameters(struct srv_http__decoder *decoder, const json_t *object,
                                        const char *what, const json_t **out)
{
    *out = json_object_get(object, "parameters");
    if (*out != NULL && !json_is_object(*out)) {
        return SRV_HTTP__FAIL(decoder, "parameters of %s have to be an object", what);
    }
    return BASE_OK;
}

/* A parameter that is given and neither 0, "" nor false. */
static bool is_used(const json_t *value)
{
    return value != NULL && !json_is_false(value) &&
           !(json_is_integer(value) && json_integer_value(value) == 0) &&
           !(json_is_string(value) && json_string_length(value) == 0);
}

/* Refuses a tensor's parameter that asks for what is not there. */
static enum base_status check_tensor_parameters(struct srv_http__decoder *decoder,
                                                const json_t *parameters, const char *what)
{
    static const char *const refused[] = {"shared_memory_region", "classification"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (is_used(json_object_get(parameters, refused[i]))) {
            return SRV_HTTP__FAIL(decoder, "%s parameter '%s' is not implemented", what,
                                  refused[i]);
        }
    }
    return BASE_OK;
}

/* A number or a text; NULL for 0, an empty text and nothing. */
static enum base_status take_sequence_id(struct srv_http__decoder *decoder, const json_t *value,
                                         const char **out)
{
    *out = NULL;
    if (!is_used(value) || json_is_null(value)) {
        return BASE_OK;
    }
    if (json_is_integer(value) && json_integer_value(value) > 0) {
        return srv_request_number_id(&decoder->request->arena, (uint64_t)json_integer_value(value),
                                     out, decoder->error);
    }
    if (!json_is_string(value)) {
        return SRV_HTTP__FAIL(
            decoder, "parameter 'sequence_id' has to be an integer not below 0 or a string");
    }
    const size_t length = json_string_length(value);
    if (length > SRV_SEQUENCE_ID_BYTES_MAX || strlen(json_string_value(value)) != length) {
        return SRV_HTTP__FAIL(decoder,
                              "parameter 'sequence_id' has %zu bytes, more than %u, or a NUL",
                              length, SRV_SEQUENCE_ID_BYTES_MAX);
    }
    *out = base_arena_text(&decoder->request->arena, json_string_value(value), length);
    return *out != NULL ? BASE_OK : srv_http__out_of_memory(decoder);
}

static enum base_status take_sequence(struct srv_http__decoder *decoder, const json_t *parameters)
{
    struct srv_sequence *sequence = &decoder->request->sequence;
    *sequence = (struct srv_sequence){.id = NULL};
    BASE_TRY(take_flag(decoder, parameters, "sequence_start", &sequence->is_start));
    BASE_TRY(take_flag(decoder, parameters, "sequence_end", &sequence->is_end));
    BASE_TRY(take_count(decoder, parameters, "sequence_step", &sequence->step));
    sequence->has_step = json_object_get(parameters, "sequence_step") != NULL;
    BASE_TRY(take_sequence_id(decoder, json_object_get(parameters, "sequence_id"), &sequence->id));
    return srv_request_check_sequence(sequence, decoder->error);
}

enum base_status srv_http__take_parameters(struct srv_http__decoder *decoder,
                                           const json_t *parameters)
{
    uint64_t timeout_us = 0;
    BASE_TRY(take_count(decoder, parameters, "timeout", &timeout_us));
    // Beyond 584 years there is no deadline.
    decoder->request->timeout_ns =
        timeout_us > UINT64_MAX / BASE_NS_PER_US ? 0 : timeout_us * BASE_NS_PER_US;
    BASE_TRY(take_count(decoder, parameters, "max_steps", &decoder->request->steps_max));
    BASE_TRY(take_count(decoder, parameters, "beam", &decoder->request->beam));
    BASE_TRY(take_flag(decoder, parameters, "stream", &decoder->request->in_parts));
    return take_sequence(decoder, parameters);
}

static enum base_status take_shape(struct srv_http__decoder *decoder, const json_t *value,
                                   struct srv_tensor *tensor)
{
    size_t rank = json_array_size(value);
    if (!json_is_array(value) || rank > CELL_RANK_MAX) {
        return SRV_HTTP__FAIL(decoder,
                              "input '%s': shape has to be an array of at most %u integers",
                              tensor->name, CELL_RANK_MAX);
    }
    tensor->rank = (uint32_t)rank;
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(value, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0) {
            return SRV_HTTP__FAIL(decoder, "input '%s': shape has to hold integers not below 0",
                                  tensor->name);
        }
        tensor->shape[i] = json_integer_value(dim);
    }
    return BASE_OK;
}

/* The next bytes_wanted bytes behind the JSON. */
static enum base_status take_binary(struct srv_http__decoder *decoder, uint64_t bytes_wanted,
                                    struct srv_tensor *tensor)
{
    size_t left = decoder->body->bytes - decoder->binary_at;
    if (bytes_wanted > left) {
        return SRV_HTTP__FAIL(decoder,
                              "input '%s': binary_data_size %llu, but the body has %zu bytes left",
                              tensor->name, (unsigned long long)bytes_wanted, left);
    }
    tensor->data = decoder->body->data + decoder->binary_at;
    tensor->bytes = (size_t)bytes_wanted;
    decoder->binary_at += tensor->bytes;
    return BASE_OK;
}

enum base_status srv_http__copy_texts(struct srv_http__decoder *decoder, const json_t *array,
                                      struct srv_tensor *tensor)
{
    size_t bytes = 0;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *text = json_array_get(array, i);
        if (!json_is_string(text)) {
            return SRV_HTTP__FAIL(decoder, "input '%s': data element %zu is not a string",
                                  tensor->name, i);
        }
        bytes += sizeof(uint32_t) + json_string_length(text);
    }
    uint8_t *at = base_arena_alloc(&decoder->request->arena, bytes);
    if (at == NULL) {
        return srv_http__out_of_memory(decoder);
    }
    tensor->data = at;
    tensor->bytes = bytes;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *text = json_array_get(array, i);
        const size_t length = json_string_length(text);
        const uint32_t prefix = (uint32_t)length; // JSON is below 4 GiB
        memcpy(at, &prefix, sizeof(prefix));
        memcpy(at + sizeof(prefix), json_string_value(text), length);
        at += sizeof(prefix) + length;
    }
    return BASE_OK;
}

static enum base_status take_texts(struct srv_http__decoder *decoder,
                                   const struct srv_http_span *span, struct srv_tensor *tensor)
{
    json_t *array = NULL;
    BASE_TRY(srv_http__parse(decoder, span, (const char *)decoder->body->data, &array));
    int64_t elements = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (!base_i64_mul(elements, tensor->shape[i], &elements)) {
            elements = -1;
            break;
        }
    }
    if (elements < 0 || (uint64_t)elements != json_array_size(array)) {
        return SRV_HTTP__FAIL(decoder,
                              "input '%s': data has %zu elements, its shape another number",
                              tensor->name, json_array_size(array));
    }
    return srv_http__copy_texts(decoder, array, tensor);
}

static enum base_status take_data(struct srv_http__decoder *decoder, const json_t *value,
                                  struct srv_tensor *tensor)
{
    const struct srv_datatype *datatype = srv_about_datatype_named(tensor->datatype);
    const bool is_text = strcmp(tensor->datatype, SRV_BYTES) == 0;
    if (!is_text && datatype == NULL) {
        return SRV_HTTP__FAIL(decoder,
                              "input '%s': datatype %s is not supported; use one of " SRV_DATATYPES
                              " or BYTES",
                              tensor->name, tensor->datatype);
    }
    // Anything but the number of a span is a key spelled in a way that the cut did not see.
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) >= (json_int_t)decoder->cut.n_spans) {
        return SRV_HTTP__FAIL(decoder, "input '%s': data is not a plain array", tensor->name);
    }
    const struct srv_http_span *span = &decoder->cut.spans[json_integer_value(value)];
    return is_text ? take_texts(decoder, span, tensor)
                   : srv_http_data_read(span, datatype, &decoder->request->arena, tensor,
                                        decoder->error);
}

static enum base_status take_input(struct srv_http__decoder *decoder, const json_t *object,
                                   struct srv_tensor *tensor)
{
    if (!json_is_object(object)) {
        return SRV_HTTP__FAIL(decoder, "inputs have to be objects");
    }
    const json_t *parameters;
    BASE_TRY(take_text(decoder, json_object_get(object, "name"), "name of an input",
                       CELL_NAME_BYTES - 1, &tensor->name));
    BASE_TRY(take_text(decoder, json_object_get(object, "datatype"), "datatype of an input",
                       DATATYPE_BYTES_MAX, &tensor->datatype));
    BASE_TRY(take_shape(decoder, json_object_get(object, "shape"), tensor));
    BASE_TRY(take_parameters(decoder, object, "an input", &parameters));
    BASE_TRY(check_tensor_parameters(decoder, parameters, "input"));
    uint64_t bytes = UINT64_MAX;
    BASE_TRY(take_count(decoder, parameters, "binary_data_size", &bytes));
    const json_t *data = json_object_get(object, "data");
    if ((data != NULL) == (bytes != UINT64_MAX)) {
        return SRV_HTTP__FAIL(decoder, "input '%s' needs either data or binary_data_size",
                              tensor->name);
    }
    return data != NULL ? take_data(decoder, data, tensor) : take_binary(decoder, bytes, tensor);
}

static enum base_status take_inputs(struct srv_http__decoder *decoder, const json_t *array)
{
    size_t n = json_array_size(array);
    if (!json_is_array(array) || n == 0 || n > CELL_TENSORS_MAX) {
        return SRV_HTTP__FAIL(decoder, "inputs has to be an array of 1 to %u tensors",
                              CELL_TENSORS_MAX);
    }
    struct srv_tensor *inputs = base_arena_array(&decoder->request->arena, n, sizeof *inputs);
    if (inputs == NULL) {
        return srv_http__out_of_memory(decoder);
    }
    for (size_t i = 0; i < n; i++) {
        BASE_TRY(take_input(decoder, json_array_get(array, i), &inputs[i]));
        for (size_t j = 0; j < i; j++) {
            if (strcmp(inputs[j].name, inputs[i].name) == 0) {
                return SRV_HTTP__FAIL(decoder, "input '%s' is given twice", inputs[i].name);
            }
        }
    }
    if (decoder->binary_at != decoder->body->bytes) {
        return SRV_HTTP__FAIL(decoder, "%zu bytes of the body belong to no input",
                              decoder->body->bytes - decoder->binary_at);
    }
    decoder->request->inputs = inputs;
    decoder->request->n_inputs = (uint32_t)n;
    return BASE_OK;
}

static enum base_status take_output(struct srv_http__decoder *decoder, const json_t *object,
                                    const char **name, bool *binary)
{
    if (!json_is_object(object)) {
        return SRV_HTTP__FAIL(decoder, "outputs have to be objects");
    }
    const json_t *parameters;
    BASE_TRY(take_text(decoder, json_object_get(object, "name"), "name of an output",
                       CELL_NAME_BYTES - 1, name));
    BASE_TRY(take_parameters(decoder, object, "an output", &parameters));
    BASE_TRY(take_flag(decoder, parameters, "binary_data", binary));
    return check_tensor_parameters(decoder, parameters, "output");
}

static enum base_status take_outputs(struct srv_http__decoder *decoder, const json_t *array)
{
    size_t n = json_array_size(array);
    if (array == NULL) {
        return BASE_OK;
    }
    if (!json_is_array(array) || n > CELL_TENSORS_MAX) {
        return SRV_HTTP__FAIL(decoder, "outputs has to be an array of at most %u objects",
                              CELL_TENSORS_MAX);
    }
    const char **wanted = base_arena_array(&decoder->request->arena, n, sizeof *wanted);
    if (wanted == NULL) {
        return srv_http__out_of_memory(decoder);
    }
    for (size_t i = 0; i < n; i++) {
        BASE_TRY(
            take_output(decoder, json_array_get(array, i), &wanted[i], &decoder->form->binary[i]));
        for (size_t j = 0; j < i; j++) {
            if (strcmp(wanted[j], wanted[i]) == 0) {
                return SRV_HTTP__FAIL(decoder, "output '%s' is requested twice", wanted[i]);
            }
        }
    }
    decoder->request->wanted = wanted;
    decoder->request->n_wanted = (uint32_t)n;
    return BASE_OK;
}

enum base_status srv_http__take_root(struct srv_http__decoder *decoder, const json_t *root)
{
    if (!json_is_object(root)) {
        return SRV_HTTP__FAIL(decoder, "the body has to be a JSON object");
    }
    const json_t *id = json_object_get(root, "id");
    const json_t *parameters;
    if (id != NULL) {
        BASE_TRY(take_text(decoder, id, "id", ID_BYTES_MAX, &decoder->request->id));
    }
    return take_parameters(decoder, root, "the request", &parameters);
}

static enum base_status take_infer(struct srv_http__decoder *decoder, const json_t *root)
{
    bool is_binary = false;
    BASE_TRY(srv_http__take_root(decoder, root));
    const json_t *parameters = json_object_get(root, "parameters");
    BASE_TRY(srv_http__take_parameters(decoder, parameters));
    BASE_TRY(take_flag(decoder, parameters, "binary_data_output", &is_binary));
    memset(decoder->form->binary, is_binary ? 1 : 0, sizeof(decoder->form->binary));
    BASE_TRY(take_inputs(decoder, json_object_get(root, "inputs")));
    return take_outputs(decoder, json_object_get(root, "outputs"));
}

enum base_status srv_http__read(struct srv_http__decoder *decoder, json_t **root)
{
    size_t json_bytes = decoder->body->json_bytes;
    struct srv_http_codec *codec = decoder->codec;
    if (json_bytes > codec->json_bytes_max) {
        return base_fail(decoder->error, BASE_RESOURCE_EXHAUSTED,
                         "JSON of %zu bytes, the limit is %zu; binary tensors have another",
                         json_bytes, codec->json_bytes_max);
    }
    if (json_bytes == 0) {
        return SRV_HTTP__FAIL(decoder, "the body has no JSON");
    }
    const char *text = (const char *)decoder->body->data;
    base_arena_reset(&codec->scratch);
    BASE_TRY(srv_http_json_cut(text, json_bytes, &codec->scratch, &decoder->cut, decoder->error));
    return srv_http__parse(decoder, &decoder->cut.envelope, text, root);
}

void srv_http__clear(struct srv_request *request)
{
    request->id = "";
    request->n_inputs = 0;
    request->n_wanted = 0;
    request->timeout_ns = 0;
    request->steps_max = 0;
    request->beam = 0;
    request->sequence = (struct srv_sequence){.id = NULL};
}

enum base_status srv_http__end(struct srv_request *request, enum base_status status,
                               struct base_error *why, struct base_error *error)
{
    if (status == BASE_OK) {
        return BASE_OK;
    }
    if (request->id == NULL) {
        request->id = "";
    }
    srv_request_name_error(request->id, why);
    return base_fail(error, status, "%s", why->message);
}

enum base_status srv_http_decode(struct srv_http_codec *codec, const struct srv_http_body *body,
                                 struct srv_request *request, struct srv_http_form *form,
                                 struct base_error *error)
{
    base_assert(body->json_bytes <= body->bytes);
    struct base_error why = {.status = BASE_OK};
    struct srv_http__decoder decoder = {.codec = codec,
                                        .body = body,
                                        .binary_at = body->json_bytes,
                                        .request = request,
                                        .form = form,
                                        .error = &why};
    json_t *root = NULL;
    srv_http__clear(request);
    request->in_parts = false;
    *form = (struct srv_http_form){0};
    enum base_status status = srv_http__read(&decoder, &root);
    status = status == BASE_OK ? take_infer(&decoder, root) : status;
    return srv_http__end(request, status, &why, error);
}

/* A small body that is empty (*root is then NULL) or a JSON object. */
static enum base_status read_object(struct srv_http__decoder *decoder, const uint8_t *body,
                                    size_t bytes, json_t **root)
{
    const char *text = (const char *)body;
    *root = NULL;
    if (bytes == 0) {
        return BASE_OK;
    }
    base_arena_reset(&decoder->codec->scratch);
    BASE_TRY(
        srv_http_json_cut(text, bytes, &decoder->codec->scratch, &decoder->cut, decoder->error));
    BASE_TRY(srv_http__parse(decoder, &decoder->cut.envelope, text, root));
    return json_is_object(*root) ? BASE_OK
                                 : SRV_HTTP__FAIL(decoder, "the body has to be a JSON object");
}

enum base_status srv_http_decode_index(struct srv_http_codec *codec, const uint8_t *body,
                                       size_t bytes, bool *ready_only, struct base_error *error)
{
    struct srv_http__decoder decoder = {.codec = codec, .error = error};
    json_t *root;
    *ready_only = false;
    BASE_TRY(read_object(&decoder, body, bytes, &root));
    return root == NULL ? BASE_OK : take_flag(&decoder, root, "ready", ready_only);
}

enum base_status srv_http_decode_order(struct srv_http_codec *codec, const uint8_t *body,
                                       size_t bytes, enum srv_control_kind kind,
                                       struct base_error *error)
{
    struct srv_http__decoder decoder = {.codec = codec, .error = error};
    json_t *root;
    BASE_TRY(read_object(&decoder, body, bytes, &root));
    json_t *parameters = json_object_get(root, "parameters");
    if (parameters != NULL && !json_is_object(parameters)) {
        return SRV_HTTP__FAIL(&decoder, "parameters of the request have to be an object");
    }
    for (void *at = json_object_iter(parameters); at != NULL;
         at = json_object_iter_next(parameters, at)) {
        const char *name = json_object_iter_key(at);
        BASE_TRY(srv_order_check_parameter(kind, name, strlen(name), error));
    }
    return BASE_OK;
}
