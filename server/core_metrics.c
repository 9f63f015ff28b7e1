/* What /metrics says of core, scheduler and devices. Names: docs/metrics.md. Loop thread; the
 * scheduler's counters are read while its thread writes them (a moment's view of each). */
#include "base/clock.h"
#include "base/process.h"
#include "server/about.h"
#include "server/core_state.h"
#include "server/metrics.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char *const protocol_names[SRV_PROTOCOL_COUNT] = {"grpc", "http", "test"};

static void write_requests(const struct srv_core *core, struct base_buf *out)
{
    const struct srv_counters *counters = &core->counters;
    const char *name = "cellbatch_requests_total";
    srv_metrics_family(out, name, SRV_METRICS_COUNTER, "Inference requests answered.");
    for (uint32_t p = 0; p < SRV_PROTOCOL_TEST; p++) {
        for (uint32_t s = 0; s < BASE_STATUS_COUNT; s++) {
            if (counters->requests_total[p][s] == 0 && s != BASE_OK) {
                continue;
            }
            struct srv_metrics_labels labels = {0};
            srv_metrics_label(&labels, "protocol", protocol_names[p]);
            srv_metrics_label(&labels, "code", base_status_name(s));
            srv_metrics_count(out, name, &labels, counters->requests_total[p][s]);
        }
    }
    srv_metrics_family(out, "cellbatch_requests_queued", SRV_METRICS_GAUGE,
                       "Requests that wait for rows.");
    srv_metrics_count(out, "cellbatch_requests_queued", NULL, counters->requests_waiting);
    srv_metrics_family(out, "cellbatch_requests_running", SRV_METRICS_GAUGE,
                       "Requests admitted and not yet answered.");
    srv_metrics_count(out, "cellbatch_requests_running", NULL, counters->requests_running);
}

static void write_one(struct base_buf *out, const char *name, const char *label, const char *value,
                      uint64_t count)
{
    struct srv_metrics_labels labels = {0};
    srv_metrics_label(&labels, label, value);
    srv_metrics_count(out, name, &labels, count);
}

static void write_refusals(const struct srv_core *core, struct base_buf *out)
{
    const struct srv_counters *counters = &core->counters;
    const char *name = "cellbatch_rejected_total";
    srv_metrics_family(out, name, SRV_METRICS_COUNTER, "Requests turned away, by reason.");
    write_one(out, name, "reason", "queue_full", counters->rejected_queue_full);
    write_one(out, name, "reason", "deadline", counters->rejected_deadline);
    write_one(out, name, "reason", "too_large", counters->rejected_too_large);
    write_one(out, name, "reason", "draining", counters->rejected_draining);
    name = "cellbatch_cancelled_total";
    srv_metrics_family(out, name, SRV_METRICS_COUNTER,
                       "Requests cancelled by their clients, by phase.");
    write_one(out, name, "phase", "queued", counters->cancelled_waiting);
    write_one(out, name, "phase", "running", counters->cancelled_running);
}

static void write_sessions(const struct srv_core *core, struct base_buf *out)
{
    const struct srv_sessions *sessions = &core->sessions;
    const struct {
        const char *name;
        bool is_gauge;
        const char *help;
        uint64_t value;
    } all[] = {
        {"cellbatch_sessions_active", true, "Sessions that have begun and not ended.",
         sessions->count},
        {"cellbatch_sessions_total", false, "Sessions begun.", sessions->begun},
        {"cellbatch_sessions_expired_total", false, "Sessions whose clients fell silent.",
         sessions->expired},
        {"cellbatch_session_bytes", true, "Memory of sessions and their states.", sessions->bytes},
        {"cellbatch_session_bytes_limit", true, "Memory that all sessions may take.",
         sessions->bytes_max},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        srv_metrics_family(out, all[i].name,
                           all[i].is_gauge ? SRV_METRICS_GAUGE : SRV_METRICS_COUNTER, all[i].help);
        srv_metrics_count(out, all[i].name, NULL, all[i].value);
    }
}

static void model_labels(struct srv_metrics_labels *labels, const struct srv_model *model)
{
    memset(labels, 0, sizeof(*labels));
    srv_metrics_label(labels, "model", model->name);
    srv_metrics_label(labels, "version", model->version);
}

static void write_models(const struct srv_core *core, struct base_buf *out)
{
    struct srv_metrics_labels labels;
    const char *name = "cellbatch_model_ready";
    srv_metrics_family(out, name, SRV_METRICS_GAUGE, "1 when the model answers requests.");
    for (uint32_t i = 0; i < core->n_models; i++) {
        model_labels(&labels, &core->models[i]->face);
        srv_metrics_count(out, name, &labels,
                          core->models[i]->face.state == SRV_MODEL_READY ? 1 : 0);
    }
    static const struct {
        const char *name, *help;
        size_t at; /* in struct srv_model */
    } times[] = {
        {"cellbatch_request_duration_seconds", "From the arrival of a request to its answer.",
         offsetof(struct srv_model, duration_ns)},
        {"cellbatch_queue_duration_seconds", "From the arrival of a request to its first cell.",
         offsetof(struct srv_model, queue_ns)},
        {"cellbatch_first_part_duration_seconds",
         "From the arrival of a request to the first part of its answer.",
         offsetof(struct srv_model, first_part_ns)},
    };
    for (size_t t = 0; t < sizeof(times) / sizeof(times[0]); t++) {
        srv_metrics_family(out, times[t].name, SRV_METRICS_HISTOGRAM, times[t].help);
        for (uint32_t i = 0; i < core->n_models; i++) {
            const char *face = (const char *)&core->models[i]->face;
            model_labels(&labels, &core->models[i]->face);
            srv_metrics_histogram_seconds(out, times[t].name, &labels,
                                          (const void *)(face + times[t].at));
        }
    }
    name = "cellbatch_answer_parts_total";
    srv_metrics_family(out, name, SRV_METRICS_COUNTER, "Parts of answers before their ends.");
    for (uint32_t i = 0; i < core->n_models; i++) {
        model_labels(&labels, &core->models[i]->face);
        srv_metrics_count(out, name, &labels, core->models[i]->face.parts);
    }
}

/* "state_16" of an LSTM's slots, "value_16" of a row: kind and elements. */
static void layout_name(const struct cell_layout *layout, uint32_t id, char *text, size_t bytes)
{
    uint64_t width = 0;
    for (uint32_t p = 0; p < layout->n_parts; p++) {
        width += layout->parts[p].width;
    }
    snprintf(text, bytes, "%s_%llu_%u", layout->kind == CELL_LAYOUT_STATE ? "state" : "value",
             (unsigned long long)width, id);
}

static void write_rows_of(const struct srv_core *core, uint32_t device, bool in_use,
                          const char *name, struct base_buf *out)
{
    const struct sched_rows *rows = sched_rows_of(srv_engine_scheduler(core->engine, device));
    char number[16];
    snprintf(number, sizeof(number), "%u", device);
    for (uint32_t l = 0; l < CELL_LAYOUTS_MAX; l++) {
        const struct cell_layout *layout = srv_engine_layout(core->engine, l);
        if (layout == NULL) {
            continue;
        }
        char text[64];
        layout_name(layout, l, text, sizeof(text));
        struct srv_metrics_labels labels = {0};
        srv_metrics_label(&labels, "device", number);
        srv_metrics_label(&labels, "layout", text);
        srv_metrics_count(out, name, &labels,
                          in_use ? sched_rows_in_use(rows, l) : sched_rows_capacity(rows, l));
    }
}

static void write_rows(const struct srv_core *core, struct base_buf *out)
{
    for (uint32_t pass = 0; pass < 2; pass++) {
        const char *name = pass == 0 ? "cellbatch_rows_in_use" : "cellbatch_rows_capacity";
        srv_metrics_family(out, name, SRV_METRICS_GAUGE,
                           pass == 0 ? "Rows that hold a request's state or values."
                                     : "Rows there are, by layout.");
        for (uint32_t d = 0; d < srv_engine_devices(core->engine); d++) {
            write_rows_of(core, d, pass == 0, name, out);
        }
    }
}

/* Whether some model uses the cell type. */
static bool is_used(const struct srv_core *core, uint32_t t)
{
    return srv_engine_type(core->engine, t) != NULL;
}

static void cell_label(const struct srv_core *core, uint32_t t, struct srv_metrics_labels *labels)
{
    char number[16];
    snprintf(number, sizeof(number), "%u", t);
    memset(labels, 0, sizeof(*labels));
    srv_metrics_label(labels, "cell", srv_engine_type(core->engine, t)->name);
    // Two versions of a model bring cells of one name.
    srv_metrics_label(labels, "type", number);
}

/* A counter of struct sched_type_stats, by its offset, over all devices. */
static uint64_t read_stat(const struct srv_core *core, uint32_t t, size_t offset)
{
    uint64_t sum = 0;
    for (uint32_t d = 0; d < srv_engine_devices(core->engine); d++) {
        const struct sched_type_stats *stats =
            sched_type_stats(srv_engine_scheduler(core->engine, d), t);
        const void *at = (const char *)stats + offset;
        sum += atomic_load_explicit((const _Atomic uint64_t *)at, memory_order_relaxed);
    }
    return sum;
}

/* Batches by rows as a histogram: the scheduler's own buckets, cumulated. */
static void write_batch_rows(const struct srv_core *core, uint32_t t, const char *name,
                             const struct srv_metrics_labels *labels, struct base_buf *out)
{
    const size_t buckets = offsetof(struct sched_type_stats, rows_buckets);
    const size_t rows_sum = offsetof(struct sched_type_stats, rows_sum);
    uint64_t below = 0;
    char text[64];
    snprintf(text, sizeof(text), "%s_bucket", name);
    for (uint32_t b = 0; b <= SCHED_ROW_BUCKETS; b++) {
        char le[16];
        snprintf(le, sizeof(le), "%u", 1u << (b < SCHED_ROW_BUCKETS ? b : 0));
        below += read_stat(core, t, buckets + b * sizeof(_Atomic uint64_t));
        base_buf_printf(out, "%s{%s,le=\"%s\"} %llu\n", text, labels->text,
                        b < SCHED_ROW_BUCKETS ? le : "+Inf", (unsigned long long)below);
    }
    base_buf_printf(out, "%s_sum{%s} %llu\n", name, labels->text,
                    (unsigned long long)read_stat(core, t, rows_sum));
    base_buf_printf(out, "%s_count{%s} %llu\n", name, labels->text, (unsigned long long)below);
}

struct cell_counter {
    const char *name, *help;
    size_t offset; /* of the counter in struct sched_type_stats */
    double scale;
};

static const struct cell_counter cell_counters[] = {
    {"cellbatch_cell_batches_total", "Batches run.", offsetof(struct sched_type_stats, batches), 1},
    {"cellbatch_cell_steps_total", "Steps of batches run.",
     offsetof(struct sched_type_stats, steps), 1},
    {"cellbatch_cell_rows_total", "Cells run: rows times steps.",
     offsetof(struct sched_type_stats, cells), 1},
    {"cellbatch_cell_exec_seconds_total", "Time from submission to completion of batches.",
     offsetof(struct sched_type_stats, exec_ns), 1e-9},
};

static void write_cells(const struct srv_core *core, struct base_buf *out)
{
    struct srv_metrics_labels labels;
    for (size_t c = 0; c < sizeof(cell_counters) / sizeof(cell_counters[0]); c++) {
        const struct cell_counter *counter = &cell_counters[c];
        srv_metrics_family(out, counter->name, SRV_METRICS_COUNTER, counter->help);
        for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
            if (is_used(core, t)) {
                cell_label(core, t, &labels);
                srv_metrics_value(out, counter->name, &labels,
                                  (double)read_stat(core, t, counter->offset) * counter->scale);
            }
        }
    }
    srv_metrics_family(out, "cellbatch_cell_batch_rows", SRV_METRICS_HISTOGRAM, "Rows of batches.");
    for (uint32_t t = 0; t < CELL_TYPES_MAX; t++) {
        if (is_used(core, t)) {
            cell_label(core, t, &labels);
            write_batch_rows(core, t, "cellbatch_cell_batch_rows", &labels, out);
        }
    }
}

static void write_secrets(const struct srv_core *core, struct base_buf *out)
{
    const char *name = "cellbatch_reloads_total";
    srv_metrics_family(out, name, SRV_METRICS_COUNTER,
                       "Certificates and tokens read anew, by what came of it.");
    write_one(out, name, "outcome", "taken", core->counters.reloads_taken);
    write_one(out, name, "outcome", "refused", core->counters.reloads_refused);
    if (core->certificate_end_s != 0) {
        name = "cellbatch_certificate_end_seconds";
        srv_metrics_family(out, name, SRV_METRICS_GAUGE, "Unix time when the certificate ends.");
        srv_metrics_value(out, name, NULL, (double)core->certificate_end_s);
    }
}

static void write_process(struct base_buf *out)
{
    srv_metrics_family(out, "process_cpu_seconds_total", SRV_METRICS_COUNTER,
                       "CPU time of the process.");
    srv_metrics_value(out, "process_cpu_seconds_total", NULL, (double)base_process_cpu_ns() * 1e-9);
    srv_metrics_family(out, "process_resident_memory_bytes", SRV_METRICS_GAUGE,
                       "Memory of the process that is in RAM.");
    srv_metrics_count(out, "process_resident_memory_bytes", NULL, base_process_resident_bytes());
    srv_metrics_family(out, "process_open_fds", SRV_METRICS_GAUGE, "Open file descriptors.");
    srv_metrics_count(out, "process_open_fds", NULL, base_process_open_fds());
    srv_metrics_family(out, "process_start_time_seconds", SRV_METRICS_GAUGE,
                       "Unix time when the process started.");
    srv_metrics_value(out, "process_start_time_seconds", NULL, base_process_start_s());
}

void srv_core_write_metrics(const struct srv_core *core, struct base_buf *out)
{
    write_requests(core, out);
    write_refusals(core, out);
    write_sessions(core, out);
    write_models(core, out);
    write_rows(core, out);
    write_cells(core, out);
    srv_metrics_family(out, "cellbatch_device_busy_seconds_total", SRV_METRICS_COUNTER,
                       "Time that device queues had work.");
    for (uint32_t d = 0; d < srv_engine_devices(core->engine); d++) {
        struct srv_metrics_labels labels = {0};
        char number[16];
        snprintf(number, sizeof(number), "%u", d);
        srv_metrics_label(&labels, "device", number);
        srv_metrics_value(out, "cellbatch_device_busy_seconds_total", &labels,
                          (double)srv_engine_busy_ns(core->engine, d) * 1e-9);
    }
    srv_metrics_family(out, "cellbatch_build_info", SRV_METRICS_GAUGE, "Always 1.");
    struct srv_metrics_labels build = {0};
    srv_metrics_label(&build, "version", SRV_ABOUT_VERSION);
    srv_metrics_label(&build, "device", srv_engine_description(core->engine));
    srv_metrics_count(out, "cellbatch_build_info", &build, 1);
    write_secrets(core, out);
    write_process(out);
}
