/* Infer bodies: encoding.
 *
 *   {"model_name":"m","model_version":"1","id":"a","outputs":[
 *     {"name":"y","datatype":"FP32","shape":[2],"data":[0.5,1.0]},
 *     {"name":"z","datatype":"INT64","shape":[1],"parameters":{"binary_data_size":8}}]}
 *
 * Written straight into the buffer, without a tree. Binary outputs are not copied: the answer lists
 * where they lie. No state. */
#include "server/http/json.h"

#include "base/assert.h"
#include "server/core.h"
#include "server/http/json_data.h"

#include <string.h>

static void add_text(struct base_buf *json, const char *text)
{
    base_buf_json_string(json, text, strlen(text));
}

/* BYTES: each behind its length in 4 bytes. What is no UTF-8 comes as U+FFFD. */
static void add_texts(const struct srv_tensor *tensor, struct base_buf *json)
{
    base_assert(strcmp(tensor->datatype, SRV_BYTES) == 0);
    base_buf_text(json, "[");
    for (size_t at = 0; at < tensor->bytes;) {
        uint32_t length = 0;
        base_buf_text(json, at == 0 ? "" : ",");
        memcpy(&length, tensor->data + at, sizeof(length));
        at += sizeof(length);
        base_buf_json_string(json, (const char *)tensor->data + at, length);
        at += length;
    }
    base_buf_text(json, "]");
}

static void add_output(const struct srv_tensor *tensor, bool binary, struct base_buf *json)
{
    base_buf_text(json, "{\"name\":");
    add_text(json, tensor->name);
    base_buf_printf(json, ",\"datatype\":\"%s\",\"shape\":[", tensor->datatype);
    for (uint32_t i = 0; i < tensor->rank; i++) {
        base_buf_printf(json, "%s%lld", i == 0 ? "" : ",", (long long)tensor->shape[i]);
    }
    base_buf_text(json, "],");
    if (binary) {
        base_buf_printf(json, "\"parameters\":{\"binary_data_size\":%zu}", tensor->bytes);
    } else {
        const struct srv_datatype *datatype = srv_about_datatype_named(tensor->datatype);
        base_buf_text(json, "\"data\":");
        if (datatype != NULL) {
            srv_http_data_write(json, datatype, tensor->data, tensor->bytes);
        } else {
            add_texts(tensor, json);
        }
    }
    base_buf_text(json, "}");
}

void srv_http_encode(const struct srv_request *request, const struct srv_http_form *form,
                     struct base_buf *json, struct srv_http_answer *answer)
{
    base_assert(request->error.status == BASE_OK);
    base_assert(request->n_outputs <= CELL_TENSORS_MAX);
    *answer = (struct srv_http_answer){0};
    base_buf_text(json, "{\"model_name\":");
    add_text(json, request->model_name);
    base_buf_text(json, ",\"model_version\":");
    add_text(json, request->version);
    if (request->id[0] != '\0') {
        base_buf_text(json, ",\"id\":");
        add_text(json, request->id);
    }
    base_buf_text(json, ",\"outputs\":[");
    for (uint32_t i = 0; i < request->n_outputs; i++) {
        const struct srv_tensor *tensor = &request->outputs[i];
        const bool binary = form->binary[i];
        base_buf_text(json, i == 0 ? "" : ",");
        add_output(tensor, binary, json);
        if (binary) {
            struct srv_http_part part = {tensor->data, tensor->bytes};
            answer->parts[answer->n_parts++] = part;
            answer->binary = true;
        }
    }
    base_buf_text(json, "]}");
}

void srv_http_encode_error(struct base_buf *json, const char *message)
{
    base_buf_text(json, "{\"error\":");
    add_text(json, message);
    base_buf_text(json, "}");
}
