/* Models loaded and unloaded while the server runs.
 *
 * One thing at a time. A model's files are read, and its cells brought to the devices, on a thread
 * of libuv's pool, which has the registry for so long; then the engine's pool threads are told, the
 * versions are warmed beside the server's own requests, and take their place in the table. Those
 * that stood there are retired: requests that have come to them are answered by them, and when the
 * last is, the engine drops their cells and their memory goes. Everything else is on the loop
 * thread. */
#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/core_state.h"
#include "server/plugin.h"
#include "server/text.h"

#include <stdio.h>
#include <string.h>

/* ---- The line of those who want something ---- */

bool srv_core_has_control(const struct srv_core *core)
{
    return core->options.model_control;
}

bool srv_core__has_controls(const struct srv_core *core)
{
    const struct srv_controls *controls = &core->controls;
    return controls->first != NULL || controls->is_busy || controls->is_awake;
}

static void go_on(struct srv_core *core);

static void deliver_wake(struct base_message *message)
{
    struct srv_core *core =
        (struct srv_core *)(void *)((char *)message - offsetof(struct srv_core, controls.wake));
    core->controls.is_awake = false;
    if (!core->is_closed) {
        go_on(core);
        srv_core__check_idle(core);
    }
}

void srv_core__wake_controls(struct srv_core *core)
{
    struct srv_controls *controls = &core->controls;
    if (!controls->is_awake && !controls->is_busy && !core->is_closed &&
        (controls->first != NULL || core->retired != NULL)) {
        controls->is_awake = true;
        controls->wake.deliver = deliver_wake;
        srv_loop_post(core->loop, &controls->wake);
    }
}

static void answer(struct srv_control *control)
{
    const char *what = control->kind == SRV_CONTROL_LOAD ? "load" : "unload";
    if (control->error.status == BASE_OK) {
        log_info("models", "%s of model %s: done", what, control->name);
    } else {
        log_warn("models", "%s of model %.100s: %s", what, control->name, control->error.message);
    }
    control->done(control);
}

/* What was at work is over. */
static void rest(struct srv_core *core)
{
    core->controls.is_busy = false;
    srv_core__wake_controls(core);
    srv_core__check_idle(core);
}

static enum base_status check(const struct srv_core *core, struct srv_control *control)
{
    if (!core->options.model_control) {
        return base_fail(&control->error, BASE_FAILED_PRECONDITION,
                         "models are loaded at the start alone (--model-control-mode explicit lets "
                         "clients load and unload some)");
    }
    if (core->refusing) {
        return base_fail(&control->error, BASE_UNAVAILABLE, "the server is stopping");
    }
    if (!srv_repository_is_name(control->name)) {
        return base_fail(&control->error, BASE_INVALID_ARGUMENT, "'%.100s' is not a model name",
                         control->name);
    }
    return srv_engine_can_change(core->engine, &control->error);
}

void srv_core_control(struct srv_core *core, struct srv_control *control)
{
    struct srv_controls *controls = &core->controls;
    base_assert(srv_loop_is_owner(core->loop) && control->done != NULL);
    control->error = (struct base_error){.status = BASE_OK};
    control->next = NULL;
    if (check(core, control) != BASE_OK) {
        answer(control);
        return;
    }
    *(controls->first == NULL ? &controls->first : &controls->last->next) = control;
    controls->last = control;
    srv_core__wake_controls(core);
}

/* ---- Going ---- */

static bool is_over(const struct srv_model_entry *entry)
{
    return entry->is_retired && entry->n_flights == 0 && entry->unfolding.call == NULL;
}

void srv_core__check_retired(struct srv_core *core, const struct srv_model_entry *entry)
{
    if (is_over(entry)) {
        srv_core__wake_controls(core);
    }
}

/* No request comes to it any more; it stands in no table. */
static void retire(struct srv_core *core, struct srv_model_entry *entry)
{
    entry->is_retired = true;
    entry->face.state = SRV_MODEL_UNAVAILABLE;
    entry->face.signature = NULL;
    entry->retired_next = core->retired;
    core->retired = entry;
    srv_sessions_end(&core->sessions, entry);
}

static void deliver_dropped(struct base_message *message)
{
    struct srv_leaving *leaving =
        (struct srv_leaving *)(void *)((char *)message - offsetof(struct srv_leaving, dropped));
    struct srv_core *core = leaving->core;
    srv_engine_dropped(&leaving->change);
    srv_core__entry_free(core, leaving->entry);
    rest(core);
}

static void change_dropped(struct srv_engine_change *change)
{
    struct srv_leaving *leaving = (struct srv_leaving *)(void *)change;
    srv_loop_post(leaving->core->loop, &leaving->dropped);
}

static void plugin_closed(uv_handle_t *handle)
{
    struct srv_model_entry *entry = handle->data;
    struct srv_leaving *leaving = entry->leaving;
    srv_engine_drop(leaving->core->engine, &leaving->change);
}

/* Takes a retired entry of which nothing is left out of the engine, and frees it; false: there is
 * none. */
static bool begin_leaving(struct srv_core *core)
{
    struct srv_model_entry **at = &core->retired;
    while (*at != NULL && !is_over(*at)) {
        at = &(*at)->retired_next;
    }
    struct srv_model_entry *entry = *at;
    if (entry == NULL) {
        return false;
    }
    struct srv_leaving *leaving = entry->leaving;
    *at = entry->retired_next;
    core->controls.is_busy = true;
    leaving->core = core;
    leaving->entry = entry;
    leaving->cells = entry->cells;
    leaving->change.models = &leaving->cells;
    leaving->change.n_models = 1;
    leaving->change.done = change_dropped;
    leaving->dropped.deliver = deliver_dropped;
    if (entry->plugin != NULL) {
        srv_core__close_plugin(entry, plugin_closed);
    } else {
        srv_engine_drop(core->engine, &leaving->change);
    }
    return true;
}

/* ---- Unloading ---- */

/* Takes all entries of that name out of the table, and puts for each a note there that says why
 * there is nothing, if there is a why; without memory for it there is none. Returns how many. */
static uint32_t clear_name(struct srv_core *core, const char *name, const char *why)
{
    uint32_t n = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < core->n_models; i++) {
        struct srv_model_entry *entry = core->models[i];
        struct srv_model_entry *stays = entry;
        if (strcmp(entry->face.name, name) == 0) {
            const struct srv_model_source note = {
                .name = name, .version = entry->face.version, .reason = why};
            n++;
            stays = why == NULL ? NULL : srv_core__entry_create(core, &note);
            if (entry->cells != NULL) {
                retire(core, entry);
            } else {
                srv_core__entry_free(core, entry);
            }
        }
        core->models[kept] = stays;
        kept += stays != NULL ? 1 : 0;
    }
    core->n_models = kept;
    return n;
}

static void unload(struct srv_core *core, struct srv_control *control)
{
    if (clear_name(core, control->name, "unloaded") == 0) {
        base_fail(&control->error, BASE_NOT_FOUND, "no model '%.100s' here", control->name);
    }
    answer(control);
    rest(core);
}

/* ---- Loading ---- */

struct loading {
    struct srv_engine_change change; /* first */
    struct srv_core *core;
    struct srv_control *control;
    uv_work_t work;
    struct srv_repository_model found;
    const struct cell_model **cells;  /* [found.n_versions] */
    struct srv_model_entry **entries; /* likewise */
    uint32_t n_entries;
    struct base_message adopted;
    enum base_status status; /* of reading */
    struct base_error error;
};

static void free_loading(struct loading *loading)
{
    base_free((void *)loading->cells);
    base_free((void *)loading->entries);
    srv_repository_release(srv_engine_registry(loading->core->engine), &loading->found);
    base_free(loading);
}

/* Nothing of it is in the engine or in a table; loading->error says why. Where nothing of that name
 * is served, a note tells it to others. Without a folder there is none, or the table would grow by
 * any name that somebody thinks of. */
static void fail(struct loading *loading)
{
    struct srv_core *core = loading->core;
    struct srv_control *control = loading->control;
    const struct srv_model_source source = {
        .name = control->name, .version = "", .reason = loading->error.message};
    const struct srv_model *known = NULL;
    struct srv_model_entry *note = NULL;
    const bool is_known = srv_core_find_model(core, control->name, "", &known, NULL) == BASE_OK;
    if (loading->error.status != BASE_NOT_FOUND &&
        (!is_known || srv_model_entry_of(known)->cells == NULL) &&
        srv_core__reserve_entries(core, 1)) {
        note = srv_core__entry_create(core, &source);
    }
    if (note != NULL) {
        (void)clear_name(core, control->name, NULL);
        srv_core__insert_entry(core, note);
    }
    base_fail(&control->error, loading->error.status, "model '%.100s': %s", control->name,
              loading->error.message);
    free_loading(loading);
    answer(control);
    rest(core);
}

/* Of entries that the engine has adopted. */
static void give_up(struct loading *loading)
{
    for (uint32_t i = 0; i < loading->n_entries; i++) {
        retire(loading->core, loading->entries[i]);
    }
    fail(loading);
}

static void warmed(void *context)
{
    struct loading *loading = context;
    struct srv_core *core = loading->core;
    for (uint32_t i = 0; i < loading->n_entries; i++) {
        const struct srv_model *face = &loading->entries[i]->face;
        if (face->state != SRV_MODEL_READY) {
            base_fail(&loading->error, BASE_UNAVAILABLE, "version %s: %s", face->version,
                      face->state == SRV_MODEL_LOADING ? "the server is stopping" : face->reason);
            give_up(loading);
            return;
        }
    }
    (void)clear_name(core, loading->control->name, NULL);
    for (uint32_t i = 0; i < loading->n_entries; i++) {
        srv_core__insert_entry(core, loading->entries[i]); // there is room since they were made
    }
    struct srv_control *control = loading->control;
    free_loading(loading);
    answer(control);
    rest(core);
}

/* The versions' plug-ins are open and none has started. */
static enum base_status start_plugins(struct loading *loading)
{
    for (uint32_t i = 0; i < loading->n_entries; i++) {
        const struct srv_model_source source = {.plugin = loading->found.versions[i].files.plugin,
                                                .unfold_deadline_ns =
                                                    loading->found.unfold_deadline_ns};
        if (source.plugin != NULL) {
            BASE_TRY(srv_core__open_plugin(loading->core, loading->entries[i], &source,
                                           &loading->error));
            loading->found.versions[i].files.plugin = NULL; // the entry's
        }
    }
    return BASE_OK;
}

static void deliver_adopted(struct base_message *message)
{
    struct loading *loading =
        (struct loading *)(void *)((char *)message - offsetof(struct loading, adopted));
    if (srv_engine_adopted(&loading->change, &loading->error) != BASE_OK ||
        start_plugins(loading) != BASE_OK) {
        give_up(loading);
        return;
    }
    srv_core__warm(loading->core, loading->entries, loading->n_entries, warmed, loading);
}

static void change_adopted(struct srv_engine_change *change)
{
    struct loading *loading = (struct loading *)(void *)change;
    srv_loop_post(loading->core->loop, &loading->adopted);
}

/* Entries that own what was found, and room for them in the table. */
static enum base_status make_entries(struct loading *loading)
{
    struct srv_core *core = loading->core;
    struct srv_repository_model *found = &loading->found;
    bool has_room = srv_core__reserve_entries(core, found->n_versions);
    for (uint32_t v = 0; v < found->n_versions && has_room; v++) {
        struct srv_model_files *files = &found->versions[v].files;
        const struct srv_model_source source = {.name = loading->control->name,
                                                .version = found->versions[v].version,
                                                .cells = files->cells,
                                                .texts = files->texts,
                                                .sequence_length_max = found->sequence_length_max};
        struct srv_model_entry *entry = srv_core__entry_create(core, &source);
        has_room = entry != NULL;
        if (has_room) {
            loading->entries[loading->n_entries++] = entry;
            files->cells = NULL;
            files->texts = NULL;
        }
    }
    return has_room ? BASE_OK
                    : base_fail(&loading->error, BASE_RESOURCE_EXHAUSTED, "out of memory");
}

static void has_read(uv_work_t *work, int status)
{
    struct loading *loading = work->data;
    struct srv_core *core = loading->core;
    base_assert(status == 0); // nobody cancels it
    if (loading->status != BASE_OK) {
        fail(loading);
        return;
    }
    if (core->refusing) {
        loading->status = base_fail(&loading->error, BASE_UNAVAILABLE, "the server is stopping");
    }
    if (loading->status != BASE_OK || make_entries(loading) != BASE_OK) {
        srv_engine_unprepare(&loading->change);
        for (uint32_t i = 0; i < loading->n_entries; i++) {
            srv_core__entry_free(core, loading->entries[i]);
        }
        fail(loading);
        return;
    }
    loading->adopted.deliver = deliver_adopted;
    loading->change.done = change_adopted;
    srv_engine_adopt(core->engine, &loading->change);
}

static enum base_status read_model(struct loading *loading)
{
    struct srv_core *core = loading->core;
    struct srv_repository_model *found = &loading->found;
    BASE_TRY(srv_repository_read(&core->options.repository, srv_engine_registry(core->engine),
                                 loading->control->name, found, &loading->error));
    loading->cells = base_alloc_array(found->n_versions, sizeof(const struct cell_model *));
    loading->entries = base_alloc_array(found->n_versions, sizeof(struct srv_model_entry *));
    if (loading->cells == NULL || loading->entries == NULL) {
        return base_fail(&loading->error, BASE_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (uint32_t v = 0; v < found->n_versions; v++) {
        loading->cells[v] = found->versions[v].files.cells;
    }
    loading->change.models = loading->cells;
    loading->change.n_models = found->n_versions;
    return srv_engine_prepare(core->engine, &loading->change, &loading->error);
}

/* A thread of libuv's. */
static void read_elsewhere(uv_work_t *work)
{
    struct loading *loading = work->data;
    loading->status = read_model(loading);
}

static void load(struct srv_core *core, struct srv_control *control)
{
    struct loading *loading = base_alloc(sizeof(*loading));
    if (loading == NULL) {
        base_fail(&control->error, BASE_RESOURCE_EXHAUSTED, "out of memory");
        answer(control);
        rest(core);
        return;
    }
    loading->core = core;
    loading->control = control;
    loading->work.data = loading;
    const int failed = uv_queue_work(&core->loop->uv, &loading->work, read_elsewhere, has_read);
    base_assert(failed == 0); // it cannot fail
}

/* ---- Next ---- */

static void go_on(struct srv_core *core)
{
    struct srv_controls *controls = &core->controls;
    if (controls->is_busy || !core->has_warmed || begin_leaving(core) || controls->first == NULL) {
        return;
    }
    struct srv_control *control = controls->first;
    controls->first = control->next;
    controls->is_busy = true;
    if (check(core, control) != BASE_OK) {
        answer(control);
        rest(core);
    } else if (control->kind == SRV_CONTROL_LOAD) {
        load(core, control);
    } else {
        unload(core, control);
    }
}
