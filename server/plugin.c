/* Loading plug-ins, and their threads.
 *
 * A thread has one call at a time. What it shares with the loop is a `worker`, freed by the loop
 * when the thread has ended in time, else by the thread itself, whenever that comes back from the
 * plug-in: so nothing waits for a plug-in that hangs. The lock is held for some instructions. */
#include "server/plugin.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES  4096
#define FILE_NAME   "unfold.so"
#define SYMBOL_NAME "cellbatch_unfold"

/* Shared by the loop and the plug-in's thread. */
struct worker {
    const struct cellbatch_unfold *own; /* in the shared object */
    void *object;                       /* of dlopen() */
    struct srv_loop *loop;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct srv_plugin_call *call; /* to be made, or being made; NULL: none */
    bool is_inside;               /* the plug-in has the call */
    bool is_stopped;              /* nothing is to be posted any more */
};

struct srv_plugin {
    struct worker *worker;
    pthread_t thread;
    bool is_started;
};

/* ---- The thread ----------------------------------------------------------------------------- */

static void worker_free(struct worker *worker)
{
    srv_plugin_call_free(worker->call);
    if (worker->object != NULL) {
        (void)dlclose(worker->object);
    }
    (void)pthread_cond_destroy(&worker->changed);
    (void)pthread_mutex_destroy(&worker->lock);
    base_free(worker);
}

static void run(const struct worker *worker, struct srv_plugin_call *call)
{
    const struct cellbatch_request request = {.n_inputs = call->n_inputs, .inputs = call->inputs};
    const char *why = worker->own->unfold(&request, &call->face);
    if (why != NULL) {
        (void)call->face.calls->fail(&call->face, why);
    }
}

/* Waits for a call; false: the plug-in is stopped. */
static bool take_call(struct worker *worker)
{
    (void)pthread_mutex_lock(&worker->lock);
    while (worker->call == NULL && !worker->is_stopped) {
        (void)pthread_cond_wait(&worker->changed, &worker->lock);
    }
    worker->is_inside = !worker->is_stopped;
    const bool has_call = worker->is_inside;
    (void)pthread_mutex_unlock(&worker->lock);
    return has_call;
}

/* Posted with the lock held: until then the loop is there. false: it was stopped meanwhile, and
 * nobody else knows of the worker any more. */
static bool give_back(struct worker *worker)
{
    (void)pthread_mutex_lock(&worker->lock);
    const bool is_stopped = worker->is_stopped;
    worker->is_inside = false;
    if (!is_stopped) {
        struct srv_plugin_call *call = worker->call;
        worker->call = NULL;
        srv_loop_post(worker->loop, &call->back);
    }
    (void)pthread_mutex_unlock(&worker->lock);
    return !is_stopped;
}

static void *thread_main(void *argument)
{
    struct worker *worker = argument;
    while (take_call(worker)) {
        run(worker, worker->call);
        if (!give_back(worker)) {
            worker_free(worker);
            return NULL;
        }
    }
    return NULL; // joined: the loop frees it
}

void srv_plugin_post(struct srv_plugin *plugin, struct srv_plugin_call *call)
{
    struct worker *worker = plugin->worker;
    (void)pthread_mutex_lock(&worker->lock);
    base_assert(plugin->is_started && worker->call == NULL);
    worker->call = call;
    (void)pthread_cond_signal(&worker->changed);
    (void)pthread_mutex_unlock(&worker->lock);
}

enum base_status srv_plugin_start(struct srv_plugin *plugin, struct srv_loop *loop,
                                  struct base_error *error)
{
    plugin->worker->loop = loop;
    if (pthread_create(&plugin->thread, NULL, thread_main, plugin->worker) != 0) {
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, FILE_NAME ": no thread for it");
    }
    (void)pthread_setname_np(plugin->thread, "cb-unfold");
    plugin->is_started = true;
    return BASE_OK;
}

void srv_plugin_stop(struct srv_plugin *plugin)
{
    struct worker *worker = plugin->worker;
    if (!plugin->is_started) {
        return;
    }
    (void)pthread_mutex_lock(&worker->lock);
    worker->is_stopped = true;
    const bool is_inside = worker->is_inside;
    (void)pthread_cond_signal(&worker->changed);
    (void)pthread_mutex_unlock(&worker->lock);
    plugin->is_started = false;
    if (is_inside) {
        log_warn("models", FILE_NAME " has not returned; its thread is left alone");
        (void)pthread_detach(plugin->thread);
        plugin->worker = NULL; // the thread's
    } else {
        (void)pthread_join(plugin->thread, NULL);
    }
}

void srv_plugin_free(struct srv_plugin *plugin)
{
    if (plugin == NULL) {
        return;
    }
    base_assert(!plugin->is_started);
    if (plugin->worker != NULL) {
        worker_free(plugin->worker);
    }
    base_free(plugin);
}

/* ---- Loading -------------------------------------------------------------------------------- */

/* What dlerror() says, without the path of this machine that it begins with. */
static enum base_status fail_load(const char *path, struct base_error *error)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): each thread has its own
    const char *why = dlerror();
    const size_t length = strlen(path);
    if (why == NULL) {
        why = "no reason given";
    } else if (strncmp(why, path, length) == 0) {
        why += length + strspn(why + length, ": ");
    }
    return base_fail(error, BASE_INVALID_ARGUMENT, FILE_NAME ": cannot be loaded: %s", why);
}

static enum base_status load(const char *folder, struct worker *worker, struct base_error *error)
{
    char path[PATH_BYTES];
    struct stat info;
    const int length = snprintf(path, sizeof(path), "%s/" FILE_NAME, folder);
    if (length < 0 || length >= PATH_BYTES) {
        return base_fail(error, BASE_INVALID_ARGUMENT, "%.200s: path too long", folder);
    }
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
        return base_fail(error, BASE_NOT_FOUND, FILE_NAME ": no such file beside the cells");
    }
    worker->object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (worker->object == NULL) {
        return fail_load(path, error);
    }
    worker->own = dlsym(worker->object, SYMBOL_NAME);
    if (worker->own == NULL) {
        return base_fail(error, BASE_INVALID_ARGUMENT, FILE_NAME ": no symbol " SYMBOL_NAME);
    }
    return BASE_OK;
}

static enum base_status check_tensor(const struct cellbatch_tensor *tensor, const char *what,
                                     uint32_t number, struct base_error *error)
{
    const size_t length = tensor->name == NULL ? 0 : strnlen(tensor->name, CELL_NAME_BYTES);
    if (length == 0 || length == CELL_NAME_BYTES) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         FILE_NAME ": %s %u: a name has 1 to %u bytes", what, number,
                         CELL_NAME_BYTES - 1);
    }
    if (tensor->datatype > CELLBATCH_INT32 || tensor->rank > CELL_RANK_MAX) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         FILE_NAME ": %s %u: datatype %u, rank %u, expected 0..%u and 0..%u", what,
                         number, tensor->datatype, tensor->rank, (unsigned)CELLBATCH_INT32,
                         CELL_RANK_MAX);
    }
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (tensor->dims[d] == 0 || tensor->dims[d] < -1) {
            return base_fail(error, BASE_INVALID_ARGUMENT,
                             FILE_NAME ": %s %u: dimension %u is %lld, expected -1 or more than 0",
                             what, number, d, (long long)tensor->dims[d]);
        }
    }
    return BASE_OK;
}

/* A tensor of the plug-in among those of the model; its axes are the plug-in's own. */
static enum base_status take_tensor(const struct cellbatch_tensor *given, const char *what,
                                    struct cell_tensor *list, uint32_t number,
                                    struct base_error *error)
{
    static const enum cell_dtype dtypes[] = {
        [CELLBATCH_FP32] = CELL_F32, [CELLBATCH_INT64] = CELL_I64, [CELLBATCH_INT32] = CELL_I32};
    BASE_TRY(check_tensor(given, what, number, error));
    struct cell_tensor made = {.dtype = dtypes[given->datatype],
                               .rank = given->rank,
                               .batch_axis = -1,
                               .time_axis = -1,
                               .piece_axis = -1,
                               .pieces = 1,
                               .width = 1,
                               .optional = given->is_optional != 0};
    (void)snprintf(made.name, sizeof(made.name), "%s", given->name);
    memcpy(made.dims, given->dims, given->rank * sizeof(made.dims[0]));
    for (uint32_t i = 0; i < number; i++) {
        if (strcmp(list[i].name, made.name) == 0) {
            return base_fail(error, BASE_INVALID_ARGUMENT, FILE_NAME ": %ss %u and %u are '%.60s'",
                             what, i, number, made.name);
        }
    }
    list[number] = made;
    return BASE_OK;
}

static enum base_status take_tensors(const struct cellbatch_unfold *own, struct cell_model *model,
                                     struct base_error *error)
{
    if (own->abi != CELLBATCH_UNFOLD_ABI) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         FILE_NAME ": made for version %u of the interface, this server has %u",
                         own->abi, CELLBATCH_UNFOLD_ABI);
    }
    if (own->n_inputs == 0 || own->n_inputs > CELLBATCH_TENSORS_MAX || own->n_outputs == 0 ||
        own->n_outputs > CELLBATCH_TENSORS_MAX || own->inputs == NULL || own->outputs == NULL ||
        own->unfold == NULL) {
        return base_fail(error, BASE_INVALID_ARGUMENT,
                         FILE_NAME
                         ": %u inputs and %u outputs, expected 1..%u each, and a function",
                         own->n_inputs, own->n_outputs, CELLBATCH_TENSORS_MAX);
    }
    for (uint32_t i = 0; i < own->n_inputs; i++) {
        BASE_TRY(take_tensor(&own->inputs[i], "input", model->inputs, i, error));
    }
    for (uint32_t o = 0; o < own->n_outputs; o++) {
        BASE_TRY(take_tensor(&own->outputs[o], "output", model->outputs, o, error));
    }
    model->n_inputs = own->n_inputs;
    model->n_outputs = own->n_outputs;
    return BASE_OK;
}

enum base_status srv_plugin_open(const char *folder, struct cell_model *model,
                                 struct srv_plugin **out, struct base_error *error)
{
    struct srv_plugin *plugin = base_alloc(sizeof(*plugin));
    struct worker *worker = base_alloc(sizeof(*worker));
    if (plugin == NULL || worker == NULL) {
        base_free(plugin);
        base_free(worker);
        return base_fail(error, BASE_RESOURCE_EXHAUSTED, "no memory for a plug-in");
    }
    (void)pthread_mutex_init(&worker->lock, NULL);
    (void)pthread_cond_init(&worker->changed, NULL);
    plugin->worker = worker;
    enum base_status status = load(folder, worker, error);
    if (status == BASE_OK) {
        status = take_tensors(worker->own, model, error);
    }
    if (status != BASE_OK) {
        srv_plugin_free(plugin);
        return status;
    }
    *out = plugin;
    return BASE_OK;
}
