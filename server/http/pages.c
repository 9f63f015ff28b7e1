/* The JSON of everything but inference, and the front end's own metrics.
 *
 * Members and their order follow the Open Inference Protocol and Triton's extensions; what its
 * clients read unasked (docs/http.md) is always there. Made anew for each request: none of this is
 * on a hot path. Reads core on the loop thread; no state. */
#include "base/assert.h"
#include "base/clock.h"
#include "server/about.h"
#include "server/http/internal.h"
#include "server/metrics.h"
#include "server/status.h"

#include <string.h>

static void add_text(struct base_buf *out, const char *text)
{
    base_buf_json_string(out, text, strlen(text));
}

/* ,"key":"text" or, when first, without the comma. */
static void add_member(struct base_buf *out, const char *key, const char *text)
{
    size_t length = out->length;
    bool first = length > 0 && (out->data[length - 1] == '{' || out->data[length - 1] == '[');
    base_buf_printf(out, "%s\"%s\":", first ? "" : ",", key);
    add_text(out, text);
}

static void add_dims(struct base_buf *out, const char *key,
                     const struct srv_signature_tensor *tensor, uint32_t first)
{
    base_buf_printf(out, ",\"%s\":[", key);
    for (uint32_t i = first; i < tensor->rank; i++) {
        base_buf_printf(out, "%s%lld", i == first ? "" : ",", (long long)tensor->dims[i]);
    }
    base_buf_text(out, "]");
}

static int fail(struct base_error *error)
{
    return srv_status_http(error->status);
}

static int add_health(const struct srv_http *http, bool is_ready_page, struct base_buf *out)
{
    bool ready = srv_core_is_ready(http->core);
    // Both members on both pages: clients of the specification's text and of its examples differ.
    base_buf_printf(out, "{\"live\":true,\"ready\":%s}", ready ? "true" : "false");
    return !is_ready_page || ready ? 200 : 503;
}

static int add_server(const struct srv_http *http, struct base_buf *out)
{
    uint32_t n;
    const char *const *extensions = srv_about_extensions(srv_core_has_control(http->core), &n);
    base_buf_text(out, "{");
    add_member(out, "name", SRV_ABOUT_NAME);
    add_member(out, "version", SRV_ABOUT_VERSION);
    base_buf_text(out, ",\"extensions\":[");
    for (uint32_t i = 0; i < n; i++) {
        base_buf_text(out, i == 0 ? "" : ",");
        add_text(out, extensions[i]);
    }
    base_buf_text(out, "]}");
    return 200;
}

static void add_tensors_metadata(struct base_buf *out, const char *key,
                                 const struct srv_signature_tensor *tensors, uint32_t n)
{
    base_buf_printf(out, ",\"%s\":[", key);
    for (uint32_t i = 0; i < n; i++) {
        base_buf_text(out, i == 0 ? "{" : ",{");
        add_member(out, "name", tensors[i].name);
        add_member(out, "datatype", tensors[i].datatype);
        add_dims(out, "shape", &tensors[i], 0);
        base_buf_text(out, "}");
    }
    base_buf_text(out, "]");
}

static int add_model(const struct srv_http *http, const struct srv_model *model,
                     struct base_buf *out)
{
    base_buf_text(out, "{");
    add_member(out, "name", model->name);
    base_buf_text(out, ",\"versions\":[");
    uint32_t n = 0;
    for (uint32_t i = 0; i < srv_core_models(http->core); i++) {
        const struct srv_model *other = srv_core_model_at(http->core, i);
        if (strcmp(other->name, model->name) == 0) {
            base_buf_text(out, n++ == 0 ? "" : ",");
            add_text(out, other->version);
        }
    }
    base_buf_text(out, "]");
    add_member(out, "platform", SRV_ABOUT_PLATFORM);
    add_tensors_metadata(out, "inputs", model->signature->inputs, model->signature->n_inputs);
    add_tensors_metadata(out, "outputs", model->signature->outputs, model->signature->n_outputs);
    base_buf_text(out, "}");
    return 200;
}

static void add_tensors_config(struct base_buf *out, const char *key,
                               const struct srv_signature_tensor *tensors, uint32_t n,
                               uint32_t first_dim)
{
    base_buf_printf(out, ",\"%s\":[", key);
    for (uint32_t i = 0; i < n; i++) {
        base_buf_text(out, i == 0 ? "{" : ",{");
        add_member(out, "name", tensors[i].name);
        const bool is_text = strcmp(tensors[i].datatype, "BYTES") == 0;
        base_buf_printf(out, ",\"data_type\":\"TYPE_%s\"",
                        is_text ? "STRING" : tensors[i].datatype);
        add_dims(out, "dims", &tensors[i], first_dim);
        base_buf_printf(out, "%s}", tensors[i].optional ? ",\"optional\":true" : "");
    }
    base_buf_text(out, "]");
}

/* What inputs of integers may hold, for who makes some up. */
static void add_ranges(struct base_buf *out, const struct srv_signature *signature)
{
    uint32_t n = 0;
    base_buf_text(out, ",\"parameters\":{");
    for (uint32_t i = 0; i < signature->n_inputs; i++) {
        const struct srv_signature_tensor *tensor = &signature->inputs[i];
        char range[SRV_RANGE_BYTES];
        char key[sizeof(SRV_ABOUT_RANGE) + CELL_NAME_BYTES];
        if (tensor->has_range) {
            (void)snprintf(key, sizeof key, "%s%s", SRV_ABOUT_RANGE, tensor->name);
            base_buf_text(out, n++ == 0 ? "" : ",");
            add_text(out, key);
            base_buf_printf(out, ":{\"string_value\":\"%s\"}", srv_signature_range(tensor, range));
        }
    }
    base_buf_text(out, "}");
}

static int add_config(const struct srv_http *http, const struct srv_model *model,
                      struct base_buf *out)
{
    const struct srv_signature *signature = model->signature;
    const uint32_t max_batch_size = signature->max_batch_size;
    uint32_t first_dim = max_batch_size > 0 ? 1 : 0;
    base_buf_text(out, "{");
    add_member(out, "name", model->name);
    add_member(out, "platform", SRV_ABOUT_PLATFORM);
    add_member(out, "backend", SRV_ABOUT_BACKEND);
    base_buf_printf(out, ",\"max_batch_size\":%u", max_batch_size);
    add_tensors_config(out, "input", signature->inputs, signature->n_inputs, first_dim);
    add_tensors_config(out, "output", signature->outputs, signature->n_outputs, first_dim);
    add_ranges(out, signature);
    if (signature->has_sessions) {
        base_buf_printf(
            out, ",\"sequence_batching\":{\"max_sequence_idle_microseconds\":%llu}",
            (unsigned long long)(srv_core_session_idle_ns(http->core) / BASE_NS_PER_US));
    }
    base_buf_text(out, "}");
    return 200;
}

static void add_stat(struct base_buf *out, const char *key, struct srv_stat stat)
{
    base_buf_printf(out, ",\"%s\":{\"count\":%llu,\"ns\":%llu}", key,
                    (unsigned long long)stat.count, (unsigned long long)stat.ns);
}

static void add_model_stats(const struct srv_model *model, struct base_buf *out)
{
    const struct srv_model_stats *stats = &model->stats;
    base_buf_text(out, "{");
    add_member(out, "name", model->name);
    add_member(out, "version", model->version);
    base_buf_printf(
        out,
        ",\"last_inference\":%llu,\"inference_count\":%llu,\"execution_count\":%llu,"
        "\"inference_stats\":{\"success\":{\"count\":%llu,\"ns\":%llu}",
        (unsigned long long)stats->last_inference_ms, (unsigned long long)stats->inference_count,
        (unsigned long long)stats->execution_count, (unsigned long long)stats->success.count,
        (unsigned long long)stats->success.ns);
    add_stat(out, "fail", stats->fail);
    add_stat(out, "queue", stats->queue);
    add_stat(out, "compute_input", stats->compute_input);
    add_stat(out, "compute_infer", stats->compute_infer);
    add_stat(out, "compute_output", stats->compute_output);
    // There is no response cache; clients want to read its zeros.
    add_stat(out, "cache_hit", (struct srv_stat){0, 0});
    add_stat(out, "cache_miss", (struct srv_stat){0, 0});
    base_buf_text(out, "},\"batch_stats\":[]}");
}

/* No name: all models. A name alone: all its versions. Models that are not ready have none. */
static int add_stats(const struct srv_http *http, const struct srv_http_route *route,
                     struct base_buf *out, struct base_error *error)
{
    const struct srv_model *found;
    if (route->model[0] != '\0' &&
        srv_core_find_model(http->core, route->model, route->version, &found, error) != BASE_OK) {
        return fail(error);
    }
    base_buf_text(out, "{\"model_stats\":[");
    uint32_t n = 0;
    for (uint32_t i = 0; i < srv_core_models(http->core); i++) {
        const struct srv_model *model = srv_core_model_at(http->core, i);
        if (model->state == SRV_MODEL_READY &&
            (route->model[0] == '\0' || strcmp(route->model, model->name) == 0) &&
            (route->version[0] == '\0' || strcmp(route->version, model->version) == 0)) {
            base_buf_text(out, n++ == 0 ? "" : ",");
            add_model_stats(model, out);
        }
    }
    base_buf_text(out, "]}");
    return 200;
}

static const char *const state_texts[] = {
    [SRV_MODEL_LOADING] = "LOADING",
    [SRV_MODEL_READY] = "READY",
    [SRV_MODEL_UNAVAILABLE] = "UNAVAILABLE",
};

static int add_index(const struct srv_http *http, bool ready_only, struct base_buf *out)
{
    base_buf_text(out, "[");
    uint32_t n = 0;
    for (uint32_t i = 0; i < srv_core_models(http->core); i++) {
        const struct srv_model *model = srv_core_model_at(http->core, i);
        if (ready_only && model->state != SRV_MODEL_READY) {
            continue;
        }
        base_buf_text(out, n++ == 0 ? "{" : ",{");
        add_member(out, "name", model->name);
        add_member(out, "version", model->version);
        add_member(out, "state", state_texts[model->state]);
        add_member(out, "reason", model->reason);
        base_buf_text(out, "}");
    }
    base_buf_text(out, "]");
    return 200;
}

/* A page about one model. */
static int add_model_page(const struct srv_http *http, const struct srv_http_route *route,
                          struct base_buf *out, struct base_error *error)
{
    const struct srv_model *model;
    if (srv_core_find_model(http->core, route->model, route->version, &model, error) != BASE_OK) {
        return fail(error);
    }
    if (route->page == SRV_HTTP_MODEL_READY) {
        bool ready = model->state == SRV_MODEL_READY;
        base_buf_text(out, "{");
        add_member(out, "name", model->name);
        add_member(out, "version", model->version);
        base_buf_printf(out, ",\"ready\":%s}", ready ? "true" : "false");
        return ready ? 200 : 503;
    }
    if (model->signature == NULL) {
        (void)srv_about_not_ready(model, error);
        return fail(error);
    }
    return route->page == SRV_HTTP_MODEL ? add_model(http, model, out)
                                         : add_config(http, model, out);
}

int srv_http__page(struct srv_http *http, const struct srv_http_route *route, bool ready_only,
                   struct base_buf *out, struct base_error *error)
{
    switch (route->page) {
    case SRV_HTTP_SERVER:
        return add_server(http, out);
    case SRV_HTTP_LIVE:
    case SRV_HTTP_READY:
        return add_health(http, route->page == SRV_HTTP_READY, out);
    case SRV_HTTP_STATS:
        return add_stats(http, route, out, error);
    case SRV_HTTP_INDEX:
        return add_index(http, ready_only, out);
    case SRV_HTTP_MODEL:
    case SRV_HTTP_MODEL_READY:
    case SRV_HTTP_CONFIG:
        return add_model_page(http, route, out, error);
    case SRV_HTTP_METRICS:
        srv_core_write_metrics(http->core, out);
        srv_http__write_metrics(http, out);
        return 200;
    case SRV_HTTP_INFER:
    case SRV_HTTP_GENERATE:
    case SRV_HTTP_GENERATE_STREAM:
    case SRV_HTTP_LOAD:
    case SRV_HTTP_UNLOAD:
        break;
    }
    base_assert(!"a page");
    return 500;
}

static void write_gauge(struct base_buf *out, const char *name, const char *help, uint64_t value)
{
    srv_metrics_family(out, name, SRV_METRICS_GAUGE, help);
    srv_metrics_count(out, name, NULL, value);
}

static void write_counter(struct base_buf *out, const char *name, const char *help, uint64_t value)
{
    srv_metrics_family(out, name, SRV_METRICS_COUNTER, help);
    srv_metrics_count(out, name, NULL, value);
}

void srv_http__write_metrics(const struct srv_http *http, struct base_buf *out)
{
    static const char *const classes[] = {NULL, NULL, "2xx", NULL, "4xx", "5xx"};
    const struct srv_http_counts *counts = &http->counts;
    write_gauge(out, "cellbatch_http_connections", "Open connections of the inference port.",
                http->listeners[SRV_HTTP__INFER].n_connections);
    write_counter(out, "cellbatch_http_connections_total", "Connections accepted.",
                  counts->connections);
    const char *name = "cellbatch_http_responses_total";
    srv_metrics_family(out, name, SRV_METRICS_COUNTER, "Answers begun, by class of their code.");
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (classes[i] != NULL) {
            struct srv_metrics_labels labels = {0};
            srv_metrics_label(&labels, "code", classes[i]);
            srv_metrics_count(out, name, &labels, http->responses[i]);
        }
    }
    write_counter(out, "cellbatch_http_requests_lost_total",
                  "Requests whose connection ended before their answer was sent.", counts->lost);
    write_counter(out, "cellbatch_http_timeouts_total",
                  "Connections closed because a head, body or answer took too long.",
                  counts->timed_out);
    write_gauge(out, "cellbatch_http_body_bytes", "Bytes of request bodies held.",
                counts->bodies_bytes);
}
