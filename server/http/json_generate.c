/* Bodies of generate and generate_stream, after Triton's extension of that name: each input stands
 * by its own name, as a person would write it.
 *
 *   {"letters": [7, 1, 5, 9], "parameters": {"max_steps": 9}}
 *   {"model_name":"speller","model_version":"1","token":[4,21,8],"lengths":3}
 *
 * jansson reads the whole body, which says what shapes there are; numbers are then read from the
 * text as those of `data` are (json_data.h), so that a number is the same tensor by either way.
 * Such bodies are small, or RESOURCE_EXHAUSTED. */
#include "base/assert.h"
#include "server/http/json_data.h"
#include "server/http/json_decode.h"

#include <string.h>

/* ---- Where a member's value stands in the text ---- */

/* A text that jansson has read: it is JSON. */
struct walk {
    const char *at, *end;
};

static void skip_space(struct walk *walk)
{
    while (walk->at < walk->end && strchr(" \t\r\n", *walk->at) != NULL) {
        walk->at++;
    }
}

/* Behind a string. */
static void skip_string(struct walk *walk)
{
    for (walk->at++; walk->at < walk->end && *walk->at != '"'; walk->at++) {
        walk->at += *walk->at == '\\' ? 1 : 0;
    }
    walk->at++;
}

/* Behind a value. */
static void skip_value(struct walk *walk)
{
    uint32_t depth = 0;
    for (bool is_first = true; walk->at < walk->end; is_first = false) {
        const char c = *walk->at;
        if (depth == 0 && !is_first && strchr(",]} \t\r\n", c) != NULL) {
            return;
        }
        if (c == '"') {
            skip_string(walk);
        } else {
            depth += c == '[' || c == '{' ? 1 : 0;
            depth -= c == ']' || c == '}' ? 1 : 0;
            walk->at++;
        }
        if (depth == 0 && strchr("\"]}", c) != NULL) {
            return;
        }
    }
}

/* The value of a member of the object that the text is; it has this member, and its key no escape.
 */
static struct srv_http_span value_of(const struct srv_http_body *body, const char *key)
{
    struct walk walk = {(const char *)body->data, (const char *)body->data + body->json_bytes};
    const size_t length = strlen(key);
    skip_space(&walk);
    while (walk.at < walk.end && *walk.at != '}') {
        walk.at++; // { or ,
        skip_space(&walk);
        const char *name = walk.at + 1;
        skip_string(&walk);
        const size_t bytes = (size_t)(walk.at - 1 - name);
        skip_space(&walk);
        walk.at++; // :
        skip_space(&walk);
        struct srv_http_span value = {walk.at, 0};
        skip_value(&walk);
        value.length = (size_t)(walk.at - value.text);
        if (bytes == length && memcmp(name, key, bytes) == 0) {
            return value;
        }
        skip_space(&walk);
    }
    return (struct srv_http_span){NULL, 0};
}

/* ---- Inputs ---- */

/* As deep as the value is nested, the sizes of its first elements; none of what is no array. */
static void measure(const json_t *value, struct srv_tensor *tensor)
{
    tensor->rank = 0;
    while (json_is_array(value) && tensor->rank < CELL_RANK_MAX) {
        tensor->shape[tensor->rank++] = (int64_t)json_array_size(value);
        value = json_array_get(value, 0);
    }
}

/* Axes that are not written have one element: all of a single number, or the batch's. */
static enum base_status complete_shape(struct srv_http__decoder *decoder,
                                       const struct srv_signature_tensor *want, bool is_single,
                                       struct srv_tensor *tensor)
{
    if (is_single) {
        for (uint32_t i = 0; i < want->rank; i++) {
            tensor->shape[i] = 1;
        }
        tensor->rank = want->rank;
        return BASE_OK;
    }
    if (tensor->rank + 1 == want->rank && want->batch_axis >= 0) {
        for (uint32_t i = want->rank - 1; i > (uint32_t)want->batch_axis; i--) {
            tensor->shape[i] = tensor->shape[i - 1];
        }
        tensor->shape[want->batch_axis] = 1;
        tensor->rank++;
    }
    return tensor->rank == want->rank
               ? BASE_OK
               : SRV_HTTP__FAIL(decoder,
                                "input '%s': arrays are nested %u deep, the model's tensor has"
                                " %u axes",
                                want->name, tensor->rank, want->rank);
}

static enum base_status take_texts(struct srv_http__decoder *decoder, const json_t *value,
                                   struct srv_tensor *tensor)
{
    if (json_is_array(value)) {
        return srv_http__copy_texts(decoder, value, tensor);
    }
    const size_t length = json_string_length(value);
    const uint32_t prefix = (uint32_t)length; // JSON is below 4 GiB
    uint8_t *bytes = base_arena_alloc(&decoder->request->arena, sizeof(prefix) + length);
    if (bytes == NULL) {
        return srv_http__out_of_memory(decoder);
    }
    memcpy(bytes, &prefix, sizeof(prefix));
    memcpy(bytes + sizeof(prefix), json_string_value(value), length);
    tensor->data = bytes;
    tensor->bytes = sizeof(prefix) + length;
    return BASE_OK;
}

/* One number, as an array of one. */
static enum base_status bracket(struct srv_http__decoder *decoder, struct srv_http_span *span)
{
    char *text = base_arena_alloc(&decoder->codec->scratch, span->length + 2);
    if (text == NULL) {
        return srv_http__out_of_memory(decoder);
    }
    text[0] = '[';
    memcpy(text + 1, span->text, span->length);
    text[span->length + 1] = ']';
    *span = (struct srv_http_span){text, span->length + 2};
    return BASE_OK;
}

static enum base_status take_numbers(struct srv_http__decoder *decoder,
                                     const struct srv_signature_tensor *want, bool is_single,
                                     struct srv_tensor *tensor)
{
    const struct srv_datatype *datatype = srv_about_datatype_named(want->datatype);
    struct srv_http_span span = value_of(decoder->body, want->name);
    base_assert(datatype != NULL);
    if (span.text == NULL) {
        return SRV_HTTP__FAIL(decoder, "input '%s': its name contains an escape", want->name);
    }
    if (is_single) {
        BASE_TRY(bracket(decoder, &span));
        tensor->rank = 1;
        tensor->shape[0] = 1;
    }
    return srv_http_data_read(&span, datatype, &decoder->request->arena, tensor, decoder->error);
}

static enum base_status take_input(struct srv_http__decoder *decoder,
                                   const struct srv_signature_tensor *want, const json_t *value,
                                   struct srv_tensor *tensor)
{
    const bool is_text = strcmp(want->datatype, SRV_BYTES) == 0;
    const bool is_single = is_text ? json_is_string(value) : !json_is_array(value);
    tensor->name = want->name;
    tensor->datatype = want->datatype;
    if (!json_is_array(value) && !json_is_string(value) && !json_is_number(value) &&
        !json_is_boolean(value)) {
        return SRV_HTTP__FAIL(decoder, "input '%s' has to be %s, or an array of such", want->name,
                              is_text ? "a string" : "a number");
    }
    if (is_text && !is_single && !json_is_array(value)) {
        return SRV_HTTP__FAIL(decoder, "input '%s' is text: it has to be a string", want->name);
    }
    measure(value, tensor);
    BASE_TRY(is_text ? take_texts(decoder, value, tensor)
                     : take_numbers(decoder, want, is_single, tensor));
    return complete_shape(decoder, want, is_single, tensor);
}

static enum base_status take_inputs(struct srv_http__decoder *decoder, const json_t *root,
                                    const struct srv_signature *signature)
{
    struct srv_request *request = decoder->request;
    request->inputs =
        base_arena_array(&request->arena, signature->n_inputs + 1, sizeof *request->inputs);
    if (request->inputs == NULL) {
        return srv_http__out_of_memory(decoder);
    }
    for (uint32_t i = 0; i < signature->n_inputs; i++) {
        const json_t *value = json_object_get(root, signature->inputs[i].name);
        if (value != NULL) {
            BASE_TRY(take_input(decoder, &signature->inputs[i], value,
                                &request->inputs[request->n_inputs]));
            request->n_inputs++;
        }
    }
    return BASE_OK;
}

/* ---- The rest of a body ---- */

static enum base_status take_outputs(struct srv_http__decoder *decoder, const json_t *names)
{
    struct srv_request *request = decoder->request;
    const size_t n = json_array_size(names);
    if (names == NULL) {
        return BASE_OK;
    }
    const char **wanted = base_arena_array(&request->arena, n + 1, sizeof *wanted);
    if (wanted == NULL) {
        return srv_http__out_of_memory(decoder);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *name = json_array_get(names, i);
        const size_t length = json_string_length(name);
        if (!json_is_string(name) || length >= CELL_NAME_BYTES) {
            return SRV_HTTP__FAIL(decoder, "outputs has to be an array of names");
        }
        wanted[i] = base_arena_text(&request->arena, json_string_value(name), length);
        if (wanted[i] == NULL) {
            return srv_http__out_of_memory(decoder);
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(wanted[j], wanted[i]) == 0) {
                return SRV_HTTP__FAIL(decoder, "output '%s' is requested twice", wanted[i]);
            }
        }
    }
    if (!json_is_array(names) || n == 0 || n > CELL_TENSORS_MAX) {
        return SRV_HTTP__FAIL(decoder, "outputs has to be an array of 1 to %u names",
                              CELL_TENSORS_MAX);
    }
    request->wanted = wanted;
    request->n_wanted = (uint32_t)n;
    return BASE_OK;
}

/* Whether a member of the body is an input, whatever else it might be. */
static bool is_input(const struct srv_signature *signature, const char *name)
{
    bool is = false;
    for (uint32_t i = 0; signature != NULL && i < signature->n_inputs; i++) {
        is = is || strcmp(signature->inputs[i].name, name) == 0;
    }
    return is;
}

/* Parameters beside the inputs, unless an input is called like one of them. */
static bool has_parameters_beside(const struct srv_signature *signature)
{
    static const char *const names[] = {"timeout",      "max_steps",    "beam",
                                        "stream",       "sequence_id",  "sequence_start",
                                        "sequence_end", "sequence_step"};
    bool has = true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        has = has && !is_input(signature, names[i]);
    }
    return has;
}

static enum base_status take_generate(struct srv_http__decoder *decoder, json_t *root,
                                      const struct srv_signature *signature)
{
    if (decoder->cut.n_spans > 0) {
        return SRV_HTTP__FAIL(decoder, "inputs stand by their own names here, not in `inputs`");
    }
    BASE_TRY(srv_http__take_root(decoder, root));
    const json_t *parameters = json_object_get(root, "parameters");
    if (parameters == NULL && has_parameters_beside(signature)) {
        parameters = root;
    }
    BASE_TRY(srv_http__take_parameters(decoder, parameters));
    if (signature == NULL) {
        return BASE_OK;
    }
    BASE_TRY(take_inputs(decoder, root, signature));
    return is_input(signature, "outputs") ? BASE_OK
                                          : take_outputs(decoder, json_object_get(root, "outputs"));
}

enum base_status srv_http_decode_generate(struct srv_http_codec *codec,
                                          const struct srv_http_body *body,
                                          const struct srv_signature *signature,
                                          struct srv_request *request, struct base_error *error)
{
    struct base_error why = {.status = BASE_OK};
    struct srv_http__decoder decoder = {
        .codec = codec, .body = body, .request = request, .error = &why};
    json_t *root = NULL;
    srv_http__clear(request);
    enum base_status status = srv_http__read(&decoder, &root);
    status = status == BASE_OK ? take_generate(&decoder, root, signature) : status;
    return srv_http__end(request, status, &why, error);
}

/* ---- Answers ---- */

/* An element of BYTES at *at, which is moved behind it. */
static void add_text(const struct srv_tensor *tensor, size_t *at, struct base_buf *json)
{
    uint32_t length = 0;
    memcpy(&length, tensor->data + *at, sizeof(length));
    *at += sizeof(length);
    base_buf_json_string(json, (const char *)tensor->data + *at, length);
    *at += length;
}

/* The elements along the last axis of numbers, or one text, from byte *at on; without axes one
 * number without brackets. */
static void add_leaf(const struct srv_tensor *tensor, size_t *at, struct base_buf *json)
{
    const struct srv_datatype *datatype = srv_about_datatype_named(tensor->datatype);
    if (datatype == NULL) {
        add_text(tensor, at, json);
        return;
    }
    const size_t n = tensor->rank == 0 ? 1 : (size_t)tensor->shape[tensor->rank - 1];
    const size_t start = json->length;
    srv_http_data_write(json, datatype, tensor->data + *at, n * datatype->bytes);
    *at += n * datatype->bytes;
    if (tensor->rank == 0 && !json->failed) {
        memmove(json->data + start, json->data + start + 1, json->length - start - 2);
        json->length -= 2;
        json->data[json->length] = '\0';
    }
}

/* Arrays, nested as deep as there are axes. */
static void add_nested(const struct srv_tensor *tensor, struct base_buf *json)
{
    const bool is_text = srv_about_datatype_named(tensor->datatype) == NULL;
    const uint32_t leaf = is_text || tensor->rank == 0 ? tensor->rank : tensor->rank - 1;
    int64_t index[CELL_RANK_MAX];
    uint32_t depth = 0; // arrays that are open
    size_t at = 0;
    for (;;) {
        for (; depth < leaf && tensor->shape[depth] > 0; depth++) {
            base_buf_text(json, "[");
            index[depth] = 0;
        }
        if (depth < leaf) {
            base_buf_text(json, "[]");
        } else {
            add_leaf(tensor, &at, json);
        }
        for (; depth > 0 && ++index[depth - 1] == tensor->shape[depth - 1]; depth--) {
            base_buf_text(json, "]");
        }
        if (depth == 0 || json->failed) {
            return;
        }
        base_buf_text(json, ",");
    }
}

/* Without the axis of the batch, where that is one row. */
static struct srv_tensor drop_batch(const struct srv_tensor *tensor)
{
    struct srv_tensor made = *tensor;
    const uint32_t axis = (uint32_t)tensor->batch_axis;
    if (tensor->batch_axis >= 0 && tensor->shape[axis] == 1) {
        for (uint32_t i = axis + 1; i < made.rank; i++) {
            made.shape[i - 1] = made.shape[i];
        }
        made.rank--;
    }
    return made;
}

void srv_http_encode_generate(const struct srv_request *request, struct base_buf *json)
{
    base_assert(request->error.status == BASE_OK);
    base_buf_text(json, "{\"model_name\":");
    base_buf_json_string(json, request->model_name, strlen(request->model_name));
    base_buf_printf(json, ",\"model_version\":\"%s\"", request->version);
    if (request->id[0] != '\0') {
        base_buf_text(json, ",\"id\":");
        base_buf_json_string(json, request->id, strlen(request->id));
    }
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        const struct srv_tensor tensor = drop_batch(&request->outputs[i]);
        base_buf_text(json, ",");
        base_buf_json_string(json, tensor.name, strlen(tensor.name));
        base_buf_text(json, ":");
        add_nested(&tensor, json);
    }
    base_buf_text(json, "}");
}
