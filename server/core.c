/* The server without its front ends: models, readiness, drain.
 *
 * Data: the table of models sorted by name and version, counters, and the flights (process.c).
 * Thread: the loop thread. */
#include "server/core.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "server/core_state.h"
#include "server/plugin.h"
#include "server/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where no other time is given. */
#define SESSION_IDLE_NS (60 * BASE_NS_PER_S)

enum base_status srv_core_create(struct srv_loop *loop, struct srv_engine *engine,
                                 const struct srv_core_options *options, struct srv_core **out)
{
    struct srv_core *core = base_alloc(sizeof(*core));
    if (core == NULL) {
        return BASE_RESOURCE_EXHAUSTED;
    }
    core->options = *options;
    core->loop = loop;
    core->engine = engine;
    core->timer_at_ns = BASE_NEVER;
    srv_deadlines_init(&core->deadlines);
    int failed = uv_timer_init(&loop->uv, &core->timer);
    base_assert(failed == 0); // it cannot fail
    core->timer.data = core;
    srv_sessions_init(&core->sessions, loop,
                      options->session_idle_ns > 0 ? options->session_idle_ns : SESSION_IDLE_NS,
                      options->session_bytes_max);
    *out = core;
    return BASE_OK;
}

void srv_core_close(struct srv_core *core)
{
    core->is_closed = true;
    for (uint32_t i = 0; i < core->n_models; i++) {
        if (core->models[i]->plugin != NULL) {
            srv_core__close_plugin(core->models[i], NULL);
        }
    }
    for (struct srv_model_entry *at = core->retired; at != NULL; at = at->retired_next) {
        if (at->plugin != NULL) { // that has not come back
            srv_core__close_plugin(at, NULL);
        }
    }
    srv_sessions_close(&core->sessions);
    uv_close(srv_uv_handle(&core->timer), NULL);
}

void srv_core_free(struct srv_core *core)
{
    base_assert(core->line_first == NULL && core->running.first == NULL);
    base_assert(core->warming == NULL);
    base_assert(core->n_unfolding == 0);
    base_assert(!srv_core__has_controls(core));
    for (uint32_t i = 0; i < core->n_models; i++) {
        srv_core__entry_free(core, core->models[i]);
    }
    while (core->retired != NULL) {
        struct srv_model_entry *entry = core->retired;
        core->retired = entry->retired_next;
        srv_core__entry_free(core, entry);
    }
    base_free((void *)core->models);
    srv_sessions_release(&core->sessions);
    srv_deadlines_release(&core->deadlines);
    base_free(core);
}

/* ---- Models ---- */

/* By name, then by version number. */
static int compare_models(const char *name_a, const char *version_a, const struct srv_model *b)
{
    int by_name = strcmp(name_a, b->name);
    if (by_name != 0) {
        return by_name;
    }
    unsigned long long a = strtoull(version_a, NULL, 10);
    unsigned long long other = strtoull(b->version, NULL, 10);
    return a < other ? -1 : a > other ? 1 : 0;
}

struct srv_model_entry *srv_core__entry_create(const struct srv_core *core,
                                               const struct srv_model_source *source)
{
    struct srv_model_entry *entry = base_alloc(sizeof(*entry));
    bool broken = source->cells == NULL;
    bool may_leave = !broken && core->options.model_control;
    struct srv_leaving *leaving = may_leave ? base_alloc(sizeof(*leaving)) : NULL;
    if (entry == NULL || (may_leave && leaving == NULL)) {
        base_free(entry);
        base_free(leaving);
        return NULL;
    }
    struct srv_model *face = &entry->face;
    entry->leaving = leaving;
    snprintf(face->name, sizeof(face->name), "%s", source->name);
    snprintf(face->version, sizeof(face->version), "%s", source->version);
    snprintf(face->reason, sizeof(face->reason), "%s", broken ? source->reason : "");
    face->state = broken ? SRV_MODEL_UNAVAILABLE : SRV_MODEL_LOADING;
    base_hist_init(&face->duration_ns);
    base_hist_init(&face->queue_ns);
    base_hist_init(&face->first_part_ns);
    entry->cells = source->cells;
    entry->texts = source->texts;
    if (!broken) {
        srv_signature_make(entry->cells, entry->texts, &entry->signature);
    }
    entry->limits.sequence_length_max = source->sequence_length_max > 0
                                            ? source->sequence_length_max
                                            : core->options.sequence_length_max;
    return entry;
}

void srv_core__entry_free(struct srv_core *core, struct srv_model_entry *entry)
{
    srv_plugin_free(entry->plugin);
    if (entry->cells != NULL) {
        cell_model_free(srv_engine_registry(core->engine), entry->cells);
        srv_texts_free(entry->texts);
    }
    base_free(entry->leaving);
    base_free(entry);
}

/* Where the version belongs in the sorted table; *is_there: it stands there already. */
static uint32_t place_of(const struct srv_core *core, const char *name, const char *version,
                         bool *is_there)
{
    uint32_t place = 0;
    int order = 1;
    while (place < core->n_models) {
        order = compare_models(name, version, &core->models[place]->face);
        if (order <= 0) {
            break;
        }
        place++;
    }
    *is_there = order == 0;
    return place;
}

bool srv_core__reserve_entries(struct srv_core *core, uint32_t n_more)
{
    struct srv_model_entry **models = base_realloc(
        (void *)core->models, (core->n_models + n_more) * sizeof(struct srv_model_entry *));
    core->models = models != NULL ? models : core->models;
    return models != NULL;
}

void srv_core__insert_entry(struct srv_core *core, struct srv_model_entry *entry)
{
    bool is_there = false;
    const uint32_t place = place_of(core, entry->face.name, entry->face.version, &is_there);
    struct srv_model_entry **models = core->models;
    base_assert(!is_there);
    memmove((void *)&models[place + 1], (void *)&models[place],
            (core->n_models - place) * sizeof(struct srv_model_entry *));
    models[place] = entry;
    core->n_models++;
}

enum base_status srv_core_add_model(struct srv_core *core, const struct srv_model_source *source,
                                    struct base_error *error)
{
    bool is_there = false;
    (void)place_of(core, source->name, source->version, &is_there);
    if (is_there) {
        return base_fail(error, BASE_ALREADY_EXISTS, "model '%s' has version %s twice",
                         source->name, source->version);
    }
    struct srv_model_entry *entry = srv_core__entry_create(core, source);
    enum base_status status = entry != NULL && srv_core__reserve_entries(core, 1)
                                  ? BASE_OK
                                  : base_fail(error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    if (status == BASE_OK && source->plugin != NULL) {
        status = srv_core__open_plugin(core, entry, source, error);
    }
    if (status != BASE_OK) {
        if (entry != NULL) {
            base_free(entry->leaving);
        }
        base_free(entry);
        return status;
    }
    entry->is_asked_for = true;
    srv_core__insert_entry(core, entry);
    return BASE_OK;
}

uint32_t srv_core_models(const struct srv_core *core)
{
    return core->n_models;
}

const struct srv_model *srv_core_model_at(const struct srv_core *core, uint32_t index)
{
    base_assert(index < core->n_models);
    return &core->models[index]->face;
}

enum base_status srv_core_find_model(const struct srv_core *core, const char *name,
                                     const char *version, const struct srv_model **out,
                                     struct base_error *error)
{
    bool any_version = version == NULL || version[0] == '\0';
    bool name_known = false;
    *out = NULL;
    for (uint32_t i = 0; i < core->n_models; i++) {
        const struct srv_model *model = &core->models[i]->face;
        if (strcmp(model->name, name) == 0) {
            name_known = true;
            if (any_version || strcmp(model->version, version) == 0) {
                *out = model; // sorted, so the last is the highest
            }
        }
    }
    if (*out != NULL) {
        return BASE_OK;
    }
    if (name_known) {
        return base_fail(error, BASE_NOT_FOUND, "model '%.100s' has no version '%.20s'", name,
                         version);
    }
    return base_fail(error, BASE_NOT_FOUND, "no model '%.100s' here", name);
}

bool srv_core_is_ready(const struct srv_core *core)
{
    bool are_ready = true;
    for (uint32_t i = 0; i < core->n_models; i++) {
        const struct srv_model_entry *entry = core->models[i];
        are_ready &= !entry->is_asked_for || entry->face.state == SRV_MODEL_READY;
    }
    return !core->stopping && core->has_warmed && (are_ready || !core->options.strict_readiness);
}

bool srv_core_is_draining(const struct srv_core *core)
{
    return core->stopping;
}

/* ---- Drain ---- */

void srv_core_set_stopping(struct srv_core *core)
{
    core->stopping = true;
}

void srv_core_refuse_new(struct srv_core *core)
{
    core->stopping = true;
    core->refusing = true;
}

void srv_core__check_idle(struct srv_core *core)
{
    // A warm-up between two of its requests holds on to the core too.
    if (core->idle != NULL && core->warming == NULL && core->line_first == NULL &&
        core->running.first == NULL && core->n_unfolding == 0 && !srv_core__has_controls(core)) {
        void (*idle)(void *context) = core->idle;
        core->idle = NULL;
        idle(core->idle_context);
    }
}

void srv_core_when_idle(struct srv_core *core, void (*idle)(void *context), void *context)
{
    base_assert(core->idle == NULL);
    core->idle = idle;
    core->idle_context = context;
    srv_core__check_idle(core);
}

uint64_t srv_core_session_idle_ns(const struct srv_core *core)
{
    return core->sessions.idle_ns;
}

/* ---- Counters ---- */

const struct srv_counters *srv_core_counters(const struct srv_core *core)
{
    return &core->counters;
}

void srv_core_count_reload(struct srv_core *core, bool is_taken)
{
    *(is_taken ? &core->counters.reloads_taken : &core->counters.reloads_refused) += 1;
}

void srv_core_set_certificate_end(struct srv_core *core, int64_t wall_s)
{
    core->certificate_end_s = wall_s;
}

void srv_core_count_refused(struct srv_core *core, enum srv_protocol protocol,
                            enum base_status status)
{
    core->counters.requests_total[protocol][status]++;
}
