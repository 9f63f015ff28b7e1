/* Infer bodies: two bytes of JSON length (big-endian, 65535 = all), then the body.
 *
 * Beside not crashing: what was decoded, written as an answer in JSON, is decoded again to the same
 * elements (a NaN to a NaN). Then it is served by each of the small models, and what they answer
 * is written. The same text is read as the body of generate, whose inputs written as its answer are
 * the same again, and as that of a load, too. */
#include "base/assert.h"
#include "server/core.h"
#include "server/http/json.h"
#include "server/http/json_data.h"
#include "tests/fuzz/serve.h"

#include <string.h>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(const struct srv_tensor *got, const struct srv_tensor *want, bool is_float)
{
    base_assert(strcmp(got->name, want->name) == 0 && got->bytes == want->bytes);
    for (size_t i = 0; i + 4 <= got->bytes; i += 4) {
        float a;
        float b;
        memcpy(&a, got->data + i, sizeof a);
        memcpy(&b, want->data + i, sizeof b);
        base_assert(memcmp(got->data + i, want->data + i, 4) == 0 ||
                    (is_float && a != a && b != b));
    }
}

/* Writes the request's inputs as outputs, and reads them back as inputs. */
static void check_round_trip(struct srv_http_codec *codec, const struct srv_request *decoded)
{
    struct srv_request written = *decoded;
    struct srv_request *request = &written;
    struct srv_http_form form = {.binary = {false}};
    struct srv_http_answer answer;
    struct base_buf json;
    for (uint32_t i = 0; i < request->n_inputs; i++) {
        const struct srv_tensor *input = &request->inputs[i];
        const struct srv_datatype *datatype = srv_about_datatype_named(input->datatype);
        if (datatype == NULL || input->bytes % datatype->bytes != 0 || input->bytes > 4096) {
            return; // core would have refused it
        }
        if (datatype->form == CELL_FORM_BOOL) {
            return; // any byte but 0 is true, and is written as 1
        }
    }
    request->outputs = request->inputs;
    request->n_outputs = request->n_inputs;
    request->model_name = "m";
    memcpy(request->version, "1", sizeof("1"));
    request->n_wanted = 0;
    base_buf_init(&json, 1u << 20);
    srv_http_encode(request, &form, &json, &answer);
    char *inputs = strstr(json.data, "\"outputs\":[{\"name\"");
    base_assert(!json.failed && inputs != NULL);
    for (size_t i = 0; i < 9; i++) {
        inputs[i] = " \"inputs\""[i];
    }
    struct srv_http_body body = {(const uint8_t *)json.data, json.length, json.length};
    struct srv_request again = {.id = ""};
    base_arena_init(&again.arena, 4096, 1u << 20);
    struct base_error error;
    if (srv_http_decode(codec, &body, &again, &form, &error) == BASE_OK) {
        for (uint32_t i = 0; i < again.n_inputs; i++) {
            check_same(&again.inputs[i], &request->inputs[i],
                       strcmp(again.inputs[i].datatype, "FP32") == 0);
        }
    } else {
        // Only a binary tensor whose size is not its shape's may be refused now.
        base_assert(strstr(error.message, "shape") != NULL);
    }
    base_arena_release(&again.arena);
    base_buf_release(&json);
}

/* Of generate: inputs of all kinds, the batch first, in the middle, and without. */
static const struct srv_signature signature = {
    .n_inputs = 5,
    .inputs = {{.name = "ids", .datatype = "INT64", .rank = 2},
               {.name = "x", .datatype = "FP32", .rank = 3, .batch_axis = 1},
               {.name = "flag", .datatype = "INT8", .rank = 1},
               {.name = "scale", .datatype = "FP32", .rank = 0, .batch_axis = -1},
               {.name = "text", .datatype = "BYTES", .rank = 1}},
};

/* As tensors that are answered. */
static void mark_batches(struct srv_request *request)
{
    for (uint32_t i = 0; i < request->n_inputs; i++) {
        for (uint32_t s = 0; s < signature.n_inputs; s++) {
            if (strcmp(signature.inputs[s].name, request->inputs[i].name) == 0) {
                request->inputs[i].batch_axis = signature.inputs[s].batch_axis;
            }
        }
    }
    request->outputs = request->inputs;
    request->n_outputs = request->n_inputs;
    request->model_name = "m";
    memcpy(request->version, "1", sizeof("1"));
}

/* Whether JSON can say it: all bytes of texts are UTF-8 or become U+FFFD, no axis but the last is
 * empty, and no number is infinite. */
static bool is_plain(const struct srv_tensor *tensor)
{
    bool is = strcmp(tensor->datatype, "BYTES") != 0;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        is = is && tensor->shape[i] > 0;
    }
    for (size_t i = 0; strcmp(tensor->datatype, "FP32") == 0 && i + 4 <= tensor->bytes; i += 4) {
        float value;
        memcpy(&value, tensor->data + i, sizeof value);
        is = is && value - value == 0;
    }
    return is;
}

static void check_generate(struct srv_http_codec *codec, const struct srv_http_body *body)
{
    struct base_error error = {.status = BASE_OK};
    struct srv_request first = {.id = ""};
    struct srv_request again = {.id = ""};
    struct base_buf json;
    base_arena_init(&first.arena, 4096, 1u << 20);
    base_arena_init(&again.arena, 4096, 1u << 20);
    base_buf_init(&json, 1u << 20);
    if (srv_http_decode_generate(codec, body, &signature, &first, &error) == BASE_OK) {
        mark_batches(&first);
        srv_http_encode_generate(&first, &json);
        base_assert(!json.failed);
        const struct srv_http_body answer = {(const uint8_t *)json.data, json.length, json.length};
        bool is = true;
        for (uint32_t i = 0; i < first.n_inputs; i++) {
            is = is && is_plain(&first.inputs[i]);
        }
        base_assert(!is || srv_http_decode_generate(codec, &answer, &signature, &again, &error) ==
                               BASE_OK);
        base_assert(!is || again.n_inputs == first.n_inputs);
        for (uint32_t i = 0; is && i < first.n_inputs; i++) {
            check_same(&again.inputs[i], &first.inputs[i], false);
            base_assert(again.inputs[i].rank == first.inputs[i].rank);
            base_assert(memcmp(again.inputs[i].shape, first.inputs[i].shape,
                               first.inputs[i].rank * sizeof(int64_t)) == 0);
        }
    } else {
        base_assert(error.status != BASE_OK && error.message[0] != '\0');
    }
    base_buf_release(&json);
    base_arena_release(&first.arena);
    base_arena_release(&again.arena);
}

/* Each model's answer, if it takes the request. */
static void check_served(struct srv_request *request, const struct srv_http_form *form)
{
    struct base_error error;
    struct srv_http_answer answer;
    struct base_buf json;
    for (uint32_t m = 0; m < SERVE_MODELS; m++) {
        if (serve(request, m, &error) == BASE_OK) {
            base_buf_init(&json, 1u << 20);
            srv_http_encode(request, form, &json, &answer);
            base_assert(!json.failed && answer.n_parts <= request->n_outputs);
            base_buf_release(&json);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    size_t json_bytes = (size_t)data[0] * 256 + data[1];
    struct srv_http_body body = {data + 2, size - 2, json_bytes};
    body.json_bytes = json_bytes > body.bytes ? body.bytes : json_bytes;
    struct srv_http_codec codec;
    struct srv_http_form form;
    struct srv_request request = {.id = ""};
    struct base_error error = {.status = BASE_OK};
    srv_http_codec_init(&codec, 1u << 16);
    base_arena_init(&request.arena, 4096, 1u << 20);
    if (srv_http_decode(&codec, &body, &request, &form, &error) == BASE_OK) {
        check_round_trip(&codec, &request);
        check_served(&request, &form);
    } else {
        base_assert(error.status != BASE_OK && error.message[0] != '\0');
    }
    base_arena_release(&request.arena);
    const struct srv_http_body all = {body.data, body.json_bytes, body.json_bytes};
    check_generate(&codec, &all);
    if (srv_http_decode_order(&codec, body.data, body.bytes, SRV_CONTROL_LOAD, &error) != BASE_OK) {
        base_assert(error.status != BASE_OK && error.message[0] != '\0');
    }
    srv_http_codec_release(&codec);
    return 0;
}
